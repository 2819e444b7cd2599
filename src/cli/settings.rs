//! The arguments that every command over a repo takes, resolved into a loaded repo before any work.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::release::{self, Release};
use super::revision::{Opened, RevisionArgs};
use super::{Exit, Fault, say, styled};
use federate_dialect::{HOST, Hosts, Plan};
use federate_engine::actions::RepoRef;
use federate_engine::previous;
use federate_kubernetes::{Cluster, Finding, Live};
use federate_repo::Source;
use federate_report::findings;
use federate_session::{Options, Session};
use federate_source::WorkTree;
use federate_source::git::Place;

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// For machines.
    Json,
    /// For machines and people.
    Yaml,
}

/// What a warning may be made an error by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    /// A template that no cluster can take.
    Unschedulable,
    /// A template that no policy places.
    Unmatched,
}

impl FailOn {
    fn code(self) -> &'static str {
        match self {
            Self::Unschedulable => "unschedulable",
            Self::Unmatched => "unmatched",
        }
    }
}

/// Arguments of every command over a repo.
#[derive(Debug, Args)]
pub(super) struct RepoArgs {
    /// The folder to read
    #[arg(default_value = ".")]
    pub(super) repo: PathBuf,

    #[command(flatten)]
    revision: RevisionArgs,

    /// Take a cluster without `status` for what its control plane would take it for
    ///
    /// Without this, such a cluster counts as joined, ready and serving every API, with unknown
    /// capacity: that suits an inventory kept in git.
    #[arg(long)]
    strict_inventory: bool,

    /// The release of Karmada that decides, such as 1.16 (its newest patch) or 1.16.2
    ///
    /// It takes the place of `dialects.karmada.version` in federate.yaml; without both it is the newest one known.
    #[arg(long, value_name = "VERSION", value_parser = release::karmada)]
    karmada_version: Option<String>,

    /// The clock for rules about age (RFC 3339, e.g. 2026-11-20T10:00:00Z); without it they do not apply
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,

    /// A plan of an earlier run (`plan -o json`, placements.yaml): the scheduler's memory
    ///
    /// REV:PATH reads it from a git revision, for example `rendered:placements.yaml`; write `./` before the name
    /// of a file with a colon in it.
    #[arg(long, value_name = "PLAN", conflicts_with = "fresh")]
    previous: Option<PathBuf>,

    /// Forget where things were: schedule everything as if for the first time
    #[arg(long)]
    pub(super) fresh: bool,

    /// What runs in the clusters, as DIR/<cluster>/*.yaml (what `kubectl get -o yaml` prints)
    ///
    /// Some control planes decide by it: ready replicas, pods without room, load balancers.
    #[arg(long, value_name = "DIR")]
    observed: Option<PathBuf>,

    /// What host names resolve to, as YAML (`HOST: [ADDRESS, …]`); nothing is looked up
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,

    /// Show or write only these clusters (scheduling still looks at all)
    #[arg(long = "cluster", value_name = "NAME", num_args = 1.., action = clap::ArgAction::Append)]
    pub(super) clusters: Vec<String>,

    /// Treat these warnings as errors
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    fail_on: Vec<FailOn>,

    /// Leave out what is in error, do the rest, and still exit with 2
    #[arg(long)]
    pub(super) keep_going: bool,

    /// Print no warnings and no summary
    #[arg(long, short)]
    pub(super) quiet: bool,

    /// Say more: every cluster by name
    #[arg(long, short)]
    pub(super) verbose: bool,
}

impl RepoArgs {
    /// Reads the repo. `out` is the folder the result will go to, which is not read as a part of the
    /// repo; `kept` is the plan it holds, the scheduler's memory unless another is named.
    pub(super) fn session(&self, out: Option<&Path>, kept: Option<&Plan>) -> Result<Session, Fault> {
        let opened = self.open()?;
        let output = out.and_then(|out| opened.relative(out));
        self.session_of(opened.source(), output, self.memory(kept)?)
    }

    /// The repo as its clones have it in common, with the revision that is read; `None` outside of git, and where
    /// there is no remote.
    pub(super) fn repo_ref(&self) -> Option<RepoRef> {
        let place = Place::of(&self.repo).ok()?;
        self.open().ok()?.provenance(&place).repo(&place)
    }

    /// The work tree, or the revision that `--rev` names.
    pub(super) fn open(&self) -> Result<Opened, Fault> {
        self.revision.open(&self.repo)
    }

    /// The repo as it is in another revision.
    pub(super) fn open_at(&self, rev: &str) -> Result<Opened, Fault> {
        self.revision.open_at(&self.repo, rev)
    }

    /// The same, with `None` where that revision does not have the repo's folder yet.
    pub(super) fn open_before(&self, rev: &str) -> Result<Option<Opened>, Fault> {
        self.revision.open_before(&self.repo, rev)
    }

    /// The scheduler's memory: the plan that is named, or else `kept`.
    pub(super) fn memory(&self, kept: Option<&Plan>) -> Result<Plan, Fault> {
        match &self.previous {
            _ if self.fresh => Ok(Plan::default()),
            Some(path) => self.read_plan(path),
            None => Ok(kept.cloned().unwrap_or_default()),
        }
    }

    /// Whether it is said which plan is the scheduler's memory, or that there is none.
    pub(super) fn names_memory(&self) -> bool {
        self.fresh || self.previous.is_some()
    }

    /// Reads the repo from `source`; `output` is the output folder within it.
    pub(super) fn session_of(
        &self,
        source: &dyn Source,
        output: Option<String>,
        previous: Plan,
    ) -> Result<Session, Fault> {
        let session = self.any_session_of(source, output, previous)?;
        self.known_clusters(session.clusters().iter())?;
        Ok(session)
    }

    /// The same, whether or not there are the clusters that `--cluster` names.
    pub(super) fn any_session_of(
        &self,
        source: &dyn Source,
        output: Option<String>,
        previous: Plan,
    ) -> Result<Session, Fault> {
        self.session_by(source, output, previous, &[])
    }

    /// The same by the rules of some releases, whatever else names them.
    pub(super) fn session_by(
        &self,
        source: &dyn Source,
        output: Option<String>,
        previous: Plan,
        releases: &[Release],
    ) -> Result<Session, Fault> {
        let (observed, unread) = self.observed()?;
        let options = Options {
            output,
            strict_inventory: self.strict_inventory,
            now: self.now,
            previous,
            observed,
            hosts: self.hosts()?,
            versions: self.versions(releases),
            errors: self.fail_on.iter().map(|what| what.code().to_owned()).collect(),
            findings: unread,
            ..Options::default()
        };
        Ok(Session::open(source, options))
    }

    fn versions(&self, releases: &[Release]) -> BTreeMap<String, String> {
        let karmada = self.karmada_version.clone().map(|version| ("karmada".to_owned(), version));
        let named = releases.iter().map(|one| (one.dialect.to_owned(), one.version.clone()));
        karmada.into_iter().chain(named).collect()
    }

    fn read_plan(&self, path: &Path) -> Result<Plan, Fault> {
        let failed =
            |why: &dyn std::fmt::Display| Fault::Failed(format!("the plan {}: {why}", path.display()));
        let spec = path.to_str().unwrap_or_default();
        let bytes = match self.revision.file(&self.repo, spec) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => fs::read(path).map_err(|e| failed(&e))?,
            Err(Fault::Failed(why)) => return Err(failed(&why)),
            Err(fault) => return Err(fault),
        };
        previous::read(&bytes).map_err(|e| failed(&e))
    }

    /// The folder of what runs, if one is named.
    pub(super) fn observed_folder(&self) -> Option<&Path> {
        self.observed.as_deref()
    }

    fn observed(&self) -> Result<(Live, Vec<Finding>), Fault> {
        let Some(path) = &self.observed else { return Ok(Default::default()) };
        let tree = WorkTree::open(path).map_err(|_| {
            Fault::Failed(format!("--observed: {} is not a folder that can be read", path.display()))
        })?;
        Ok(federate_repo::live(&tree, &path.to_string_lossy()))
    }

    fn hosts(&self) -> Result<Hosts, Fault> {
        let Some(path) = &self.hosts else { return Ok(Hosts::new()) };
        let failed = |why: String| Fault::Failed(format!("the hosts {}: {why}", path.display()));
        let bytes = fs::read(path).map_err(|e| failed(e.to_string()))?;
        let mut stream = federate_yaml::read(&bytes);
        if let Some(error) = stream.errors.first() {
            return Err(failed(format!("line {}: {}", error.at.line, error.message)));
        }
        let Some(document) = stream.documents.pop() else { return Ok(Hosts::new()) };
        serde_path_to_error::deserialize(document.value)
            .map_err(|e| failed(format!("`{}`: {}; write `HOST: [ADDRESS, …]`", e.path(), e.inner())))
    }

    /// Refuses names of `--cluster` that are none of these.
    pub(super) fn known_clusters<'c>(
        &self,
        clusters: impl Iterator<Item = &'c Cluster>,
    ) -> Result<(), Fault> {
        let known: BTreeSet<&str> = clusters.map(|c| c.name.as_ref()).collect();
        for name in &self.clusters {
            if name != HOST && !known.contains(name.as_str()) {
                let known: Vec<&str> = known.iter().copied().collect();
                let known = federate_kubernetes::finding::list(&known, 10);
                return Err(Fault::Failed(format!(
                    "no cluster `{name}` in the inventory (there are: {known})"
                )));
            }
        }
        Ok(())
    }

    /// Whether `--cluster` keeps this one.
    pub(super) fn wants(&self, cluster: &str) -> bool {
        self.clusters.is_empty() || self.clusters.iter().any(|name| name == cluster)
    }

    /// The plan as far as it is about the clusters of `--cluster`.
    pub(super) fn narrowed<'p>(&self, plan: &'p Plan) -> Cow<'p, Plan> {
        if self.clusters.is_empty() {
            return Cow::Borrowed(plan);
        }
        let mut plan = plan.clone();
        for placement in &mut plan.placements {
            placement.clusters.retain(|placed| self.wants(&placed.name));
        }
        plan.placements.retain(|placement| !placement.clusters.is_empty());
        plan.unmatched.clear();
        Cow::Owned(plan)
    }

    /// Shows findings on standard error: errors always, warnings unless quiet.
    pub(super) fn report(&self, session: &Session, found: &[Finding]) {
        let shown: Vec<Finding> = found.iter().filter(|f| f.is_error() || !self.quiet).cloned().collect();
        say(&findings::text(session.repo(), &shown, session.dialects(), styled(&std::io::stderr())));
    }
}

/// Clean, or an error if there is any.
pub(super) fn outcome(found: &[Finding]) -> Exit {
    if federate_engine::any_error(found) { Exit::Error } else { Exit::Clean }
}
