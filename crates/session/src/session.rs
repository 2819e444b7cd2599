//! A repo that was read, with everything that follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;

use federate_dialect::{ClusterReads, Dialects, Hosts, Plan, Previous, Variant};
use federate_engine::{Decisions, Engine, InventoryObject, Planned, Rendering, Settings};
use federate_kubernetes::{Cluster, Finding, Live, ObjectRef, Severity};
use federate_repo::{ChangedFile, Config, File, Loaded, NeedsReload, Repo, Source};
use federate_report::findings;

use crate::DIALECTS;

/// What a session decides from, besides the repo's files.
#[derive(Clone)]
pub struct Options {
    /// The control planes that may claim objects of the repo; all of them by default.
    pub dialects: Dialects,
    /// The output folder within the repo, which is not read.
    pub output: Option<String>,
    /// Whether a cluster without `status` is what its control plane would take it for. By default it counts as
    /// joined, ready and serving every API.
    pub strict_inventory: bool,
    /// The clock for rules about age; without it they do not apply.
    pub now: Option<Timestamp>,
    /// The plan of an earlier run: the scheduler's memory.
    pub previous: Plan,
    /// What runs in the member clusters, as far as it is known.
    pub observed: Live,
    /// What host names resolve to.
    pub hosts: Hosts,
    /// The versions of control planes, by dialect; each takes the place of `dialects.<name>.version` in
    /// `federate.yaml`.
    pub versions: BTreeMap<String, String>,
    /// What was found while these options were read; it is among the session's findings.
    pub findings: Vec<Finding>,
    /// Codes of findings that count as errors here, whatever they are elsewhere.
    pub errors: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dialects: DIALECTS,
            output: None,
            strict_inventory: false,
            now: None,
            previous: Plan::default(),
            observed: Live::default(),
            hosts: Hosts::default(),
            versions: BTreeMap::new(),
            findings: Vec::new(),
            errors: Vec::new(),
        }
    }
}

/// A repo that was read, with its inventory; plan, manifests and findings are computed when they are asked for,
/// and once.
pub struct Session {
    dialects: Dialects,
    repo: Repo,
    clusters: Vec<Cluster>,
    settings: Settings,
    errors: Vec<String>,
    output: Option<String>,
    versions: BTreeMap<String, String>,
    /// What was found while the options were read.
    given: Vec<Finding>,
    /// What was found while reading.
    read: Vec<Finding>,
    /// Decisions to plan with again after an [update](Self::update); `None` until there was one.
    kept: Mutex<Option<Decisions>>,
    planned: OnceLock<Planned>,
    rendering: OnceLock<Rendering>,
}

/// How much of a repo was read and decided again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Only these templates, which are new, gone or changed.
    Templates(BTreeSet<ObjectRef>),
    /// Everything, and why.
    Everything(NeedsReload),
}

impl Session {
    /// Reads a repo. Whatever is wrong with it is in the [findings](Self::findings); the rest is still there.
    pub fn open(source: &dyn Source, options: Options) -> Self {
        let dialects = options.dialects;
        let loaded = federate_repo::load(source, options.output.as_deref(), &dialects);
        Self::of(loaded, options)
    }

    /// The same over files that are in memory, in any order.
    pub fn of_files(files: Vec<File>, config: Config, options: Options) -> Self {
        let dialects = options.dialects;
        let loaded = federate_repo::load_bytes(files, config, &dialects);
        Self::of(loaded, options)
    }

    fn of(mut loaded: Loaded<'_>, options: Options) -> Self {
        let Options {
            dialects,
            output,
            strict_inventory,
            now,
            previous,
            observed,
            hosts,
            versions,
            findings: given,
            errors,
        } = options;
        for (dialect, version) in &versions {
            let settings = loaded.repo.config.dialects.entry(dialect.clone()).or_default();
            settings.insert("version".to_owned(), version.as_str().into());
        }
        let previous = Previous::new(previous);
        let settings = Settings { strict_inventory, now, previous, live: observed, hosts };
        let (clusters, inventory) = federate_engine::inventory(dialects, &loaded.repo, &settings);
        let mut repo = loaded.expand(&clusters);
        let mut read = std::mem::take(&mut repo.findings);
        read.extend(inventory.into_iter().chain(given.iter().cloned()));
        let (planned, rendering) = (OnceLock::new(), OnceLock::new());
        let kept = Mutex::new(None);
        Self {
            dialects,
            repo,
            clusters,
            settings,
            errors,
            output,
            versions,
            given,
            read,
            kept,
            planned,
            rendering,
        }
    }

    /// Brings the session up to date after files of its source changed; `changed` are their paths. Where only
    /// templates are concerned, only those files are read and only those templates decided about again. The
    /// result is what a new session over the same files and with the same options would give.
    pub fn update(&mut self, source: &dyn Source, changed: &[String]) -> Update {
        let file = |path: &String| ChangedFile {
            path: path.as_str().into(),
            bytes: source.read(path).ok().map(Into::into),
        };
        let files: Vec<ChangedFile> = changed.iter().map(file).collect();
        let folder = changed.iter().find(|path| source.list(path).is_ok());
        let folder = folder.map(|path| NeedsReload { path: path.clone(), why: "it is a folder" });
        let update = match folder.or_else(|| self.unsettled(&files)) {
            Some(anew) => Err(anew),
            None => self.repo.update(&files, &self.dialects),
        };
        (self.planned, self.rendering) = (OnceLock::new(), OnceLock::new());
        match update {
            Ok(templates) => {
                if let Ok(kept) = self.kept.get_mut() {
                    kept.get_or_insert_default().forget(&templates);
                }
                Update::Templates(templates)
            }
            Err(anew) => {
                let previous = std::mem::take(&mut self.settings.previous);
                let mut session = Self::open(source, self.options());
                session.settings.previous = previous;
                session.kept = Mutex::new(Some(Decisions::default()));
                *self = session;
                Update::Everything(anew)
            }
        }
    }

    /// Makes another plan the scheduler's memory.
    pub fn remember(&mut self, previous: Plan) {
        let previous = Previous::new(previous);
        let before = std::mem::replace(&mut self.settings.previous, previous);
        if let Ok(Some(kept)) = self.kept.get_mut() {
            kept.remember(&before, &self.settings.previous);
        }
        (self.planned, self.rendering) = (OnceLock::new(), OnceLock::new());
    }

    /// What decisions look at in the member clusters.
    pub fn cluster_reads(&self) -> ClusterReads {
        self.engine().cluster_reads()
    }

    /// Decides by what runs in the member clusters from now on; free resources that the inventory does not state are
    /// those of the nodes and pods there.
    pub fn observe(&mut self, observed: Live) {
        self.settings.live = observed;
        (self.clusters, _) = federate_engine::inventory(self.dialects, &self.repo, &self.settings);
        (self.planned, self.rendering) = (OnceLock::new(), OnceLock::new());
        if let Ok(Some(kept)) = self.kept.get_mut() {
            *kept = Decisions::default();
        }
    }

    /// Why some findings of reading keep changed files from being read on their own.
    fn unsettled(&self, files: &[ChangedFile]) -> Option<NeedsReload> {
        let twice = self.read.iter().find(|finding| finding.code == "duplicate-object");
        if let Some(origin) = twice.and_then(|finding| finding.origin.as_ref()) {
            return Some(NeedsReload {
                path: origin.file.to_string(),
                why: "it holds an object that is written twice",
            });
        }
        let about = |file: &ChangedFile, finding: &Finding| {
            finding.origin.as_ref().is_some_and(|origin| origin.file == file.path)
        };
        let file = files.iter().find(|file| self.read.iter().any(|finding| about(file, finding)))?;
        Some(NeedsReload { path: file.path.to_string(), why: "something was wrong in it" })
    }

    fn options(&self) -> Options {
        Options {
            dialects: self.dialects,
            output: self.output.clone(),
            strict_inventory: self.settings.strict_inventory,
            now: self.settings.now,
            previous: Plan::default(),
            observed: self.settings.live.clone(),
            hosts: self.settings.hosts.clone(),
            versions: self.versions.clone(),
            findings: self.given.clone(),
            errors: self.errors.clone(),
        }
    }

    /// The control planes.
    pub fn dialects(&self) -> Dialects {
        self.dialects
    }

    /// The repo.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// The inventory: every cluster, whatever dialect wrote it, sorted by name.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// What is decided from, besides the repo.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The clock for rules about age, if one is set.
    pub fn now(&self) -> Option<Timestamp> {
        self.settings.now
    }

    /// The inventory object of each cluster, with how the repo says that the cluster is reached.
    pub fn inventory_objects(&self) -> BTreeMap<String, InventoryObject> {
        federate_engine::inventory_objects(self.dialects, &self.repo, &self.clusters)
    }

    /// What runs in the member clusters, as far as it was given.
    pub fn observed(&self) -> &Live {
        &self.settings.live
    }

    /// The control planes, their policies compiled, over this repo.
    pub fn engine(&self) -> Engine<'_> {
        Engine::new(self.dialects, &self.repo, &self.clusters, &self.settings)
    }

    /// Where everything goes.
    pub fn plan(&self) -> &Plan {
        match self.rendering.get() {
            Some(rendering) => &rendering.plan,
            None => &self.planned().plan,
        }
    }

    /// Where everything goes, and what each cluster receives. The findings here are all there are but those of
    /// reading: [`findings`](Self::findings) has both.
    pub fn rendering(&self) -> &Rendering {
        self.rendering.get_or_init(|| {
            let fresh = self.planned.get().is_none() && self.lock().is_none();
            if fresh { self.engine().render() } else { self.engine().manifests(self.planned().clone()) }
        })
    }

    /// What each cluster receives of one object of the plan, as values rather than text.
    pub fn variants(&self, object: &ObjectRef) -> Vec<Variant> {
        self.engine().variants(self.plan(), object)
    }

    /// What was found while reading and planning; sorted.
    pub fn plan_findings(&self) -> Vec<Finding> {
        let mut found = self.read.clone();
        found.extend(self.planned().findings.iter().cloned());
        self.ordered(found)
    }

    /// What was found while reading, planning and rendering; sorted.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = self.read.clone();
        found.extend(self.rendering().findings.iter().cloned());
        self.ordered(found)
    }

    fn planned(&self) -> &Planned {
        self.planned.get_or_init(|| match self.lock().as_mut() {
            Some(kept) => self.engine().plan_again(kept),
            None => self.engine().plan(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Decisions>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies [`Options::errors`], and sorts by place.
    pub(crate) fn ordered(&self, mut found: Vec<Finding>) -> Vec<Finding> {
        for finding in found.iter_mut().filter(|finding| self.errors.iter().any(|code| code == finding.code))
        {
            finding.severity = Severity::Error;
        }
        findings::sort(&mut found);
        found
    }
}
