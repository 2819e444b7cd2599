//! A repo that was read, with everything that follows from it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;

use federate_dialect::{Dialects, Hosts, Plan, Variant};
use federate_engine::{Engine, InventoryObject, Planned, Rendering, Settings};
use federate_kubernetes::{Cluster, Finding, Live, ObjectRef, Severity};
use federate_repo::{Config, File, Loaded, Repo, Source};
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
    /// What was found while reading.
    read: Vec<Finding>,
    planned: OnceLock<Planned>,
    rendering: OnceLock<Rendering>,
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

    fn of(loaded: Loaded<'_>, options: Options) -> Self {
        let Options { dialects, strict_inventory, now, previous, observed, hosts, findings, errors, .. } =
            options;
        let settings = Settings { strict_inventory, now, previous, live: observed, hosts };
        let (clusters, inventory) = federate_engine::inventory(dialects, &loaded.repo, &settings);
        let mut repo = loaded.expand(&clusters);
        let mut read = std::mem::take(&mut repo.findings);
        read.extend(inventory.into_iter().chain(findings));
        let (planned, rendering) = (OnceLock::new(), OnceLock::new());
        Self { dialects, repo, clusters, settings, errors, read, planned, rendering }
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
        self.rendering.get_or_init(|| match self.planned.get() {
            Some(planned) => self.engine().manifests(planned.clone()),
            None => self.engine().render(),
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
        self.planned.get_or_init(|| self.engine().plan())
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
