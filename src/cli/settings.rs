//! The arguments that all commands over a repo share, and opening the repo with them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::IsTerminal;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use jiff::Timestamp;

use super::builds::shared_builder;
use super::release::{self, DialectRelease};
use super::revision::{RepoSource, RevisionArgs};
use super::selection::{SelectedTree, SelectionArgs};
use super::snapshot_args::{SnapshotArgs, path_within};
use super::{CommandError, Exit, completers, print_notice, progress, servers, use_color};
use federate_dialect::release::NamedRelease;
use federate_dialect::{HUB, HostAddresses, Plan};
use federate_dialects::DIALECTS;
use federate_engine::snapshot::StoredSnapshot;
use federate_engine::{StepAllowance, previous};
use federate_kubernetes::{Cluster, Finding, LiveObjects};
use federate_reconcile::RepoRef;
use federate_repo::{FileTree, ReadOptions};
use federate_report::clusters::SnapshotAge;
use federate_report::table::TextStyle;
use federate_report::{clusters, findings};
use federate_session::{Session, SessionOptions};
use federate_source::WorkTree;
use federate_source::git::GitLocation;

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// For a terminal
    Table,
    /// For scripts
    Json,
    /// For scripts and people
    Yaml,
}

/// The warnings that can count as errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    /// A template that no cluster can take
    Unschedulable,
    /// A template that no policy matches
    Unmatched,
    /// Replicas that no cluster gets, or that a scenario loses
    LostReplicas,
}

impl FailOn {
    fn finding_code(self) -> &'static str {
        match self {
            Self::Unschedulable => "unschedulable",
            Self::Unmatched => "unmatched",
            Self::LostReplicas => "lost-replicas",
        }
    }
}

/// The heading of options that have the same meaning in most commands.
pub(super) const COMMON_HEADING: &str = "Common options";

/// The arguments of every command over a repo.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repo options")]
pub(super) struct RepoArgs {
    /// The repo: a folder with manifests, clusters and policies
    #[arg(default_value = ".", help_heading = None::<&str>)]
    pub(super) repo: PathBuf,

    #[command(flatten)]
    revision: RevisionArgs,

    #[command(flatten)]
    selection: SelectionArgs,

    /// Treat a cluster without `status` as its control plane does: not ready, and serving no API
    ///
    /// Otherwise such a cluster counts as joined, ready and serving every API, with unknown capacity, which
    /// suits an inventory kept in git.
    #[arg(long, hide_short_help = true)]
    strict_inventory: bool,

    /// The Karmada release whose rules apply: 1.16 (newest patch), 1.16.2 or main
    ///
    /// Overrides `dialects.karmada.version` in federate.yaml. The default is the newest known state: main. A release that is newer than
    /// this version of federate is decided by the newest known patch of its minor version, or by main, with a warning.
    #[arg(long, value_name = "VERSION", value_parser = release::parse_karmada)]
    karmada_version: Option<NamedRelease>,

    /// Leave `spec.replicas` out of the manifests of workloads that an autoscaler of the repo scales
    ///
    /// Overrides `autoscaledReplicas` in federate.yaml. Tools that apply the manifests then keep the replicas of the
    /// autoscaler.
    #[arg(long, hide_short_help = true)]
    omit_autoscaled_replicas: bool,

    /// The current time (RFC 3339), for rules that depend on it, such as timeouts of heartbeats [default: that of the
    /// snapshot; without one, these rules do not apply]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    now: Option<Timestamp>,

    /// A plan of an earlier run: the scheduler's memory
    ///
    /// PLAN is a placements.yaml or the output of `plan -o json`. REV:PATH reads it from a git revision, for
    /// example `rendered:placements.yaml`; `oci://HOST/REPOSITORY:TAG` reads what `federate push` has pushed. For a file with a
    /// colon in its name, write `./` before the name.
    #[arg(long, value_name = "PLAN", conflicts_with = "fresh")]
    previous: Option<PathBuf>,

    /// Reach the registry without TLS; it must be on this machine
    #[arg(long, hide_short_help = true)]
    pub(super) plain_http: bool,

    #[command(flatten)]
    snapshot: SnapshotArgs,

    /// Forget earlier placements and schedule everything from scratch
    ///
    /// In `diff`, the base is scheduled from scratch, and the head starts from its placements, unless two releases are
    /// compared.
    #[arg(long)]
    pub(super) fresh: bool,

    /// Live objects, as DIR/<cluster>/*.yaml (the output of `kubectl get -o yaml`)
    ///
    /// Some control planes depend on live state: ready replicas, unschedulable pods, load balancers.
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    observed: Option<PathBuf>,

    /// The addresses of host names, as YAML (`HOST: [ADDRESS, …]`), instead of DNS
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    hosts: Option<PathBuf>,

    /// The most steps of work that each part of the run may take [default: 60000000, and 100 for each byte of the repo]
    ///
    /// A step is about a hundred machine instructions. A run that takes more ends with the error too-much-work, at the same
    /// object on every machine.
    #[arg(long, value_name = "STEPS", hide_short_help = true)]
    work_limit: Option<u64>,

    /// Show or write only these clusters, separated by spaces or commas; scheduling still considers all
    #[arg(long = "cluster", value_name = "NAME", value_delimiter = ',', help_heading = COMMON_HEADING, add = ArgValueCompleter::new(completers::complete_clusters))]
    pub(super) clusters: Vec<String>,

    /// Treat these warnings as errors
    #[arg(long, value_name = "WARNING", value_delimiter = ',', help_heading = COMMON_HEADING)]
    fail_on: Vec<FailOn>,

    /// Skip the objects with errors, process the rest, and still exit with 2
    #[arg(long, help_heading = COMMON_HEADING)]
    pub(super) keep_going: bool,

    /// Print no warnings and no summary
    #[arg(long, short, help_heading = COMMON_HEADING)]
    pub(super) quiet: bool,

    /// Print more, such as every cluster by name
    #[arg(long, short, help_heading = COMMON_HEADING)]
    pub(super) verbose: bool,
}

impl RepoArgs {
    /// Reads the repo for a command that writes or sends what is rendered, or compares it with what was sent. `out` is the output
    /// folder, which is not read as part of the repo; `published` is the plan in it, which is the previous plan unless `--previous`
    /// names another.
    pub(super) fn open_session(
        &self,
        out: Option<&Path>,
        published: Option<&Plan>,
    ) -> Result<Session, CommandError> {
        let repo = self.open_repo()?;
        let output = out.and_then(|out| repo.relative_path(out));
        self.open_session_over(repo.source(), output, self.read_previous(published)?)
    }

    /// Reads the repo for a command that shows what is rendered, also where values are not known.
    pub(super) fn open_shown_session(&self) -> Result<Session, CommandError> {
        let repo = self.open_repo()?;
        let read = self.selection.read_options(&self.repo, repo.source(), None)?;
        let read = ReadOptions { keeps_unknown_values: true, ..read };
        self.open_read(repo.source(), read, self.read_previous(None)?)
    }

    /// The same for a command that ends with the session. The end of the process frees its memory at once, which object by object
    /// takes longer than many a plan.
    pub(super) fn open_leaked_session(&self) -> Result<ManuallyDrop<Session>, CommandError> {
        self.open_shown_session().map(ManuallyDrop::new)
    }

    /// The repo's identity, which all its clones share, with the revision that is read; `None` outside of git
    /// and without a remote.
    pub(super) fn repo_ref(&self) -> Option<RepoRef> {
        let location = GitLocation::discover_around(&self.repo).ok()?;
        let repo = self.open_repo().ok()?.find_provenance(&location).find_repo(&location)?;
        Some(repo.narrowed_to(&self.selected_paths()))
    }

    /// The paths of the repo that are read, if not all are.
    pub(super) fn selected_paths(&self) -> Vec<String> {
        self.selection.paths_in(&self.repo)
    }

    /// Which files of the repo are read.
    pub(super) fn selection(&self) -> &SelectionArgs {
        &self.selection
    }

    /// Opens the work tree, or the revision given with `--rev`.
    pub(super) fn open_repo(&self) -> Result<RepoSource, CommandError> {
        self.revision.open_repo(&self.repo)
    }

    /// Whether the work tree is read, not a revision.
    pub(super) fn is_work_tree(&self) -> bool {
        self.revision.is_work_tree()
    }

    /// Opens the repo at another revision.
    pub(super) fn open_at(&self, rev: &str) -> Result<RepoSource, CommandError> {
        self.revision.open_at(&self.repo, rev)
    }

    /// Like `open_at`, but returns `None` if the repo's folder does not exist in that revision yet.
    pub(super) fn open_before(&self, rev: &str) -> Result<Option<RepoSource>, CommandError> {
        self.revision.open_before(&self.repo, rev)
    }

    /// The previous plan: the one given with `--previous`, that of the snapshot, or else `published`.
    pub(super) fn read_previous(&self, published: Option<&Plan>) -> Result<Plan, CommandError> {
        match &self.previous {
            _ if self.fresh => return Ok(Plan::default()),
            Some(path) => return self.read_plan(path),
            None => {}
        }
        let stored = self.read_snapshot()?;
        let recorded = stored.as_ref().map(|stored| &stored.plan).filter(|plan| !plan.placements.is_empty());
        Ok(recorded.or(published).cloned().unwrap_or_default())
    }

    /// Decides by a state that was just read from control planes.
    pub(super) fn observe_state(&self, stored: StoredSnapshot) {
        self.snapshot.observe_state(stored);
    }

    /// The plan given with `--previous`.
    pub(super) fn previous_path(&self) -> Option<&Path> {
        self.previous.as_deref()
    }

    /// The revision given with `--rev`.
    pub(super) fn revision_name(&self) -> Option<&str> {
        self.revision.name()
    }

    /// The time given with `--now`.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.now
    }

    /// The snapshot given with `--snapshot`.
    fn read_snapshot(&self) -> Result<Option<Arc<StoredSnapshot>>, CommandError> {
        self.snapshot.read_snapshot(&self.repo, &self.revision, self.now)
    }

    /// Whether an option selects the previous plan.
    pub(super) fn names_previous(&self) -> bool {
        self.fresh || self.previous.is_some() || self.snapshot.is_given()
    }

    /// Reads the repo from `source`; `output` is the output folder within it.
    pub(super) fn open_session_over(
        &self,
        source: &dyn FileTree,
        output: Option<String>,
        previous: Plan,
    ) -> Result<Session, CommandError> {
        let read = self.selection.read_options(&self.repo, source, output)?;
        self.open_read(source, read, previous)
    }

    fn open_read(
        &self,
        source: &dyn FileTree,
        read: ReadOptions,
        previous: Plan,
    ) -> Result<Session, CommandError> {
        let session = self.open_selected(SelectedTree { source, read }, previous, &[])?;
        self.check_cluster_names(session.clusters().iter())?;
        Ok(session)
    }

    /// Reads selected files of the repo, whatever `--cluster` names, by the rules of these releases, which override
    /// all other settings.
    pub(super) fn open_selected(
        &self,
        selected: SelectedTree<'_>,
        previous: Plan,
        releases: &[DialectRelease],
    ) -> Result<Session, CommandError> {
        if !self.quiet {
            progress::start_line("reading the repo");
        }
        let snapshot = self.read_snapshot()?;
        let (observed, unread) = self.read_observed(snapshot.as_deref())?;
        let found = snapshot.iter().flat_map(|stored| stored.findings.iter().cloned());
        let stand_ins = release::find_stand_ins(self.karmada_version.iter());
        let findings = found.chain(unread).chain(stand_ins).collect();
        let options = SessionOptions::new(DIALECTS)
            .with_read(selected.read)
            .with_omit_autoscaled_replicas(self.omit_autoscaled_replicas)
            .with_strict_inventory(self.strict_inventory)
            .with_now(self.now.or_else(|| snapshot.as_ref()?.taken))
            .with_previous(previous)
            .with_observed(observed)
            .with_hosts(self.read_hosts()?)
            .with_versions(self.chosen_versions(releases))
            .with_errors(self.fail_on.iter().map(|what| what.finding_code().to_owned()).collect())
            .with_findings(findings)
            .with_snapshot(snapshot)
            // Live objects and those of a snapshot are not templates.
            .with_excluded(
                self.snapshot
                    .folder_in(&self.repo)
                    .or_else(|| path_within(&self.repo, self.observed.as_deref()?)),
            )
            .with_builder(Some(shared_builder()))
            .with_allowance(self.work_limit.map_or_else(StepAllowance::default, StepAllowance::Chosen));
        let session = Session::open(selected.source, options);
        progress::set_phase("planning");
        Ok(session)
    }

    fn chosen_versions(&self, releases: &[DialectRelease]) -> BTreeMap<String, String> {
        let karmada = self.karmada_version.iter().map(|named| ("karmada".to_owned(), named.release.name()));
        let named = releases.iter().map(|one| (one.dialect.to_owned(), one.named.release.name()));
        karmada.chain(named).collect()
    }

    /// The release given with `--karmada-version`.
    pub(super) fn karmada_version(&self) -> Option<&NamedRelease> {
        self.karmada_version.as_ref()
    }

    fn read_plan(&self, path: &Path) -> Result<Plan, CommandError> {
        let spec = path.to_str().unwrap_or_default();
        if spec.starts_with("oci://") {
            return servers::read_plan_artifact(spec, self.plain_http);
        }
        let bytes = match self.revision.read_file(&self.repo, spec) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => fs::read(path).map_err(|error| error.to_string()),
            Err(CommandError::Failed(why)) => Err(why),
            Err(fault) => return Err(fault),
        };
        bytes
            .and_then(|bytes| previous::read_plan(&bytes).map_err(|error| error.to_string()))
            .map_err(|why| CommandError::Failed(format!("cannot read the plan {}: {why}", path.display())))
    }

    /// Whether the objects that run are read from `--observed` or from the snapshot, so that no cluster is reached.
    pub(super) fn has_observed(&self) -> Result<bool, CommandError> {
        Ok(self.observed.is_some()
            || self
                .read_snapshot()?
                .as_deref()
                .is_some_and(|stored| stored.observed.clusters().next().is_some()))
    }

    /// Adds to an error about missing access to clusters that the snapshot could not stand in for them.
    pub(super) fn without_access(&self, why: String) -> String {
        if !self.snapshot.is_given() {
            return why;
        }
        format!("{why}; the snapshot contains no objects of members (it was taken with -f or --no-members)")
    }

    /// The folder given with `--observed`.
    pub(super) fn observed_folder(&self) -> Option<&Path> {
        self.observed.as_deref()
    }

    /// The folders whose changes change the result.
    pub(super) fn watched_folders(&self) -> Result<Vec<PathBuf>, CommandError> {
        let folders = std::iter::once(self.repo.as_path()).chain(self.observed_folder());
        let folders = folders.map(|path| {
            fs::canonicalize(path)
                .map_err(|error| CommandError::Failed(format!("cannot watch {}: {error}", path.display())))
        });
        folders.collect()
    }

    /// The objects that run: those of the folder given with `--observed`, or of the snapshot.
    fn read_observed(
        &self,
        snapshot: Option<&StoredSnapshot>,
    ) -> Result<(LiveObjects, Vec<Finding>), CommandError> {
        let Some(path) = &self.observed else {
            return Ok((snapshot.map(|stored| stored.observed.clone()).unwrap_or_default(), Vec::new()));
        };
        let tree = WorkTree::open(path).map_err(|_| {
            CommandError::Failed(format!("--observed: {} is not a readable folder", path.display()))
        })?;
        Ok(federate_repo::read_live_objects(&tree, &path.to_string_lossy()))
    }

    fn read_hosts(&self) -> Result<HostAddresses, CommandError> {
        let Some(path) = &self.hosts else { return Ok(HostAddresses::new()) };
        let hosts = fs::read(path).map_err(|error| error.to_string()).and_then(|bytes| parse_hosts(&bytes));
        hosts.map_err(|why| {
            CommandError::Failed(format!("cannot read the hosts file {}: {why}", path.display()))
        })
    }

    /// Refuses names in `--cluster` that no cluster has.
    pub(super) fn check_cluster_names<'c>(
        &self,
        clusters: impl Iterator<Item = &'c Cluster>,
    ) -> Result<(), CommandError> {
        let known: BTreeSet<&str> = clusters.map(|c| c.name.as_ref()).collect();
        for name in &self.clusters {
            if name != HUB && !known.contains(name.as_str()) {
                let known: Vec<&str> = known.iter().copied().collect();
                let known = federate_kubernetes::finding::join_names(&known, 10);
                return Err(CommandError::Failed(format!(
                    "no cluster `{name}` in the inventory, which has: {known}"
                )));
            }
        }
        Ok(())
    }

    /// Whether `--cluster` includes this cluster.
    pub(super) fn selects_cluster(&self, cluster: &str) -> bool {
        self.clusters.is_empty() || self.clusters.iter().any(|name| name == cluster)
    }

    /// The plan, reduced to the clusters given with `--cluster`.
    pub(super) fn narrow_plan<'p>(&self, plan: &'p Plan) -> Cow<'p, Plan> {
        if self.clusters.is_empty() {
            return Cow::Borrowed(plan);
        }
        let mut plan = plan.clone();
        for placement in &mut plan.placements {
            placement.clusters.retain(|placed| self.selects_cluster(&placed.name));
        }
        plan.placements.retain(|placement| !placement.clusters.is_empty());
        plan.unmatched.clear();
        Cow::Owned(plan)
    }

    /// The style of text for standard output.
    pub(super) fn text_style(&self) -> TextStyle {
        let out = std::io::stdout();
        let width = terminal_size::terminal_size().filter(|_| out.is_terminal());
        TextStyle {
            width: width.map(|(columns, _)| usize::from(columns.0).max(40)),
            color: use_color(&out),
            full: self.verbose,
            quiet: self.quiet,
        }
    }

    /// Whether `--fail-on` makes findings with this code errors.
    pub(super) fn fails_on(&self, code: &str) -> bool {
        self.fail_on.iter().any(|what| what.finding_code() == code)
    }

    /// Prints findings to standard error, warnings as well as errors.
    pub(super) fn report_in_full(&self, session: &Session, found: &[Finding]) {
        let shown: Vec<Finding> = found.iter().filter(|f| f.is_error() || !self.quiet).cloned().collect();
        print_notice(&findings::format_text(
            session.repo(),
            &shown,
            session.dialects(),
            use_color(&std::io::stderr()),
        ));
    }

    /// Prints to standard error when the snapshot was taken, and a line for each cluster that is not ready, unless
    /// `--quiet`.
    pub(super) fn say_cluster_notices(&self, session: &Session) -> Result<(), CommandError> {
        if !self.quiet {
            let snapshot = self.snapshot_age()?.map(|age| age.to_string()).unwrap_or_default();
            print_notice(&(snapshot + &clusters::unready_lines(&session.unready_clusters())));
        }
        Ok(())
    }

    /// When the snapshot given with `--snapshot` was taken, and how old it is at `--now` or at the current time.
    pub(super) fn snapshot_age(&self) -> Result<Option<SnapshotAge>, CommandError> {
        let stored = self.read_snapshot()?;
        Ok(stored
            .and_then(|stored| self.snapshot.snapshot_age(&stored, self.now.unwrap_or_else(Timestamp::now))))
    }

    /// Prints findings to standard error: errors and what the repo lacks in full, and several other warnings in one
    /// line unless `-v` asks for them. `--quiet` hides warnings.
    pub(super) fn report_findings(&self, session: &Session, found: &[Finding]) {
        let (mut full, mut folded): (Vec<&Finding>, Vec<&Finding>) = found.iter().partition(|finding| {
            finding.is_error() || (!self.quiet && (self.verbose || findings::is_about_repo(finding.code)))
        });
        if self.quiet {
            folded.clear();
        }
        // One line would not say more than one warning.
        if folded.len() == 1 {
            full.append(&mut folded);
        }
        let full: Vec<Finding> = full.into_iter().cloned().collect();
        let most = if self.verbose { usize::MAX } else { findings::MAX_FINDINGS };
        let color = use_color(&std::io::stderr());
        let text = findings::text_of_first(session.repo(), &full, session.dialects(), color, most);
        let folded = findings::fold_warnings(&folded, &format!("federate check {}", self.repo.display()));
        print_notice(&(text + &folded));
    }
}

/// `Exit::Error` if there is an error, `Exit::Clean` otherwise.
pub(super) fn exit_for_findings(found: &[Finding]) -> Exit {
    if federate_engine::any_error(found) { Exit::Error } else { Exit::Clean }
}

/// Reads the addresses of host names from a file.
fn parse_hosts(bytes: &[u8]) -> Result<HostAddresses, String> {
    let mut stream = federate_yaml::read_stream(bytes);
    if let Some(error) = stream.errors.first() {
        return Err(format!("line {}: {}", error.at.line, error.message));
    }
    let Some(document) = stream.documents.pop() else { return Ok(HostAddresses::new()) };
    serde_path_to_error::deserialize(document.value)
        .map_err(|error| format!("`{}`: {}; write `HOST: [ADDRESS, …]`", error.path(), error.inner()))
}
