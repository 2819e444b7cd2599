//! The actions in member clusters: decided from dumps, or decided and carried out on API servers.

use federate_apiserver::Kind;
use federate_engine::actions::cluster::{Decided, Deciding, Desired, Prune, desired};
use federate_engine::actions::drift::Drift;
use federate_engine::actions::{Action, Actions, Adopt, ClusterReport, Inventory, RepoRef, Rules};
use federate_engine::change::DigestKey;
use federate_engine::{Engine, Rendering};
use federate_kubernetes::{Cluster, ClusterName, ObjectRef};

use crate::Session;

#[cfg(feature = "live")]
mod servers;
#[cfg(feature = "live")]
mod survey;
#[cfg(feature = "live")]
pub use servers::ServerOptions;
#[cfg(feature = "live")]
pub use survey::Surveyed;

/// The time in predicted objects where no clock is set: API servers write their own.
const NEVER: &str = "1970-01-01T00:00:00Z";

/// The purpose of a run.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Bring the clusters to the rendered objects.
    Apply {
        /// When existing objects are adopted; by default as their policies say.
        adopt: Option<Adopt>,
        /// Whether objects are also adopted from other tools.
        force: bool,
        /// Whether objects with immutable changes are deleted and created again.
        replace: bool,
    },
    /// Delete all managed objects, as if nothing were rendered.
    Remove,
    /// Report or correct drift.
    Drift {
        /// Whether fields that are not rendered are reported, too: defaults, status, additions by others.
        full: bool,
        /// Whether drift is corrected.
        correct: bool,
    },
}

/// How member clusters are brought to the objects that a session renders.
pub struct ReconcileOptions<'r> {
    /// The purpose.
    pub purpose: Purpose,
    /// The `ApplySet` of the managed objects.
    pub inventory: &'r Inventory,
    /// The limits of pruning; `None` to delete nothing.
    pub prune: Option<Prune>,
    /// Whether actions contain the resulting objects.
    pub results: bool,
    /// The clusters; all of them if empty.
    pub clusters: &'r [String],
    /// The key of the digests that replace values of Secrets.
    pub key: &'r DigestKey,
}

/// The actions in the clusters.
#[derive(Default)]
struct Reconciled {
    actions: Vec<Action>,
    clusters: Vec<ClusterReport>,
    /// Whether no API server was asked.
    predicted: bool,
}

impl Reconciled {
    fn add(&mut self, cluster: &ClusterName, actions: Vec<Action>, error: Option<String>) {
        let predicted = self.predicted && error.is_none();
        self.clusters
            .push(ClusterReport { predicted, ..ClusterReport::of(cluster.clone(), &actions, error) });
        self.actions.extend(actions);
    }
}

/// Decides about all clusters.
pub struct Reconciler<'r> {
    session: &'r Session,
    options: &'r ReconcileOptions<'r>,
    engine: Engine<'r>,
    desired: Vec<Desired>,
    /// An empty rendering, where everything is deleted.
    nothing: Option<Rendering>,
    now: String,
    repo: Option<RepoRef>,
    moved: Option<Inventory>,
}

impl<'r> Reconciler<'r> {
    /// Prepares the decisions about the objects that a session renders. Where its findings have errors, the objects
    /// concerned are skipped and nothing is deleted.
    pub fn new(session: &'r Session, options: &'r ReconcileOptions<'r>) -> Self {
        let now = session.now().map_or_else(|| NEVER.to_owned(), |now| now.to_string());
        let nothing = matches!(options.purpose, Purpose::Remove).then(Rendering::default);
        let desired = desired(&nothing.as_ref().unwrap_or_else(|| session.rendering()).manifests);
        Self { session, options, engine: session.engine(), desired, nothing, now, repo: None, moved: None }
    }

    /// Sets the repo, which the parents of `ApplySet`s record; those of another repo are refused.
    #[must_use]
    pub fn of_repo(self, repo: Option<RepoRef>) -> Self {
        Self { repo, ..self }
    }

    /// Also takes over the members of another `ApplySet`.
    #[must_use]
    pub fn moving(self, moved: Option<Inventory>) -> Self {
        Self { moved, ..self }
    }

    /// Decides by the observed objects of the session, and changes nothing.
    pub fn observed(&self) -> Actions {
        self.with(false, |deciding| {
            let customs = self.customs();
            let kind = |id: &ObjectRef| kind(id, &customs);
            let live = self.session.observed();
            let mut all = Reconciled { predicted: true, ..Reconciled::default() };
            for cluster in self.clusters().filter(|cluster| live.knows(&cluster.name)) {
                let Decided { decisions, stopped } = deciding.cluster(cluster, live, &kind);
                let actions = decisions.into_iter().map(|decision| decision.action).collect();
                all.add(&cluster.name, actions, stopped);
            }
            Actions::of(all.actions, all.clusters)
        })
    }

    /// Runs `work` with everything that decisions need. `server` is whether API servers decide.
    fn with<T>(&self, server: bool, work: impl FnOnce(&Deciding<'_>) -> T) -> T {
        let (adopt, force, replace, full) = match self.options.purpose {
            Purpose::Apply { adopt, force, replace } => (adopt, force, replace, false),
            Purpose::Remove => (Some(Adopt::Never), false, false, false),
            // Differences are reported whoever manages the object.
            Purpose::Drift { full, .. } => (Some(Adopt::Always), true, false, full),
        };
        let config = &self.session.repo().config;
        let rules = Rules {
            adopt,
            force,
            replace,
            full,
            results: self.options.results,
            inventory: self.options.inventory,
            rolling: &config.apply.rolling,
            key: self.options.key,
            now: &self.now,
            server,
            moved: self.moved.as_ref(),
        };
        let drift = match self.options.purpose {
            Purpose::Apply { .. } | Purpose::Remove => None,
            Purpose::Drift { correct, .. } => Some(Drift { ignore: &config.drift.ignore, correct }),
        };
        work(&Deciding {
            engine: &self.engine,
            rendering: self.rendering(),
            desired: &self.desired,
            rules: &rules,
            prune: self.options.prune.as_ref(),
            incomplete: federate_engine::any_error(&self.session.findings()),
            drift: drift.as_ref(),
        })
    }

    fn rendering(&self) -> &Rendering {
        self.nothing.as_ref().unwrap_or_else(|| self.session.rendering())
    }

    /// The selected clusters.
    fn clusters(&self) -> impl Iterator<Item = &'r Cluster> {
        let names = self.options.clusters;
        let asked = move |cluster: &&Cluster| names.is_empty() || names.iter().any(|n| *n == *cluster.name);
        self.session.clusters().iter().filter(asked)
    }

    /// The kinds that definitions among the live and the rendered objects define.
    fn customs(&self) -> Vec<Kind> {
        let live = self.session.observed();
        let running = self.session.clusters().iter().flat_map(|cluster| live.objects(&cluster.name));
        let rendered = self.desired.iter().map(|desired| &desired.body);
        let bodies = running.map(|object| &object.body).chain(rendered);
        bodies.filter(|body| body["kind"] == "CustomResourceDefinition").flat_map(Kind::customs).collect()
    }
}

/// The kind of an object; without a schema where it is neither built in nor defined.
fn kind(id: &ObjectRef, customs: &[Kind]) -> Kind {
    let custom = || customs.iter().find(|k| k.kind == id.kind && k.api_version() == id.api_version).cloned();
    Kind::builtin(&id.api_version, &id.kind)
        .or_else(custom)
        .unwrap_or_else(|| Kind::unknown(&id.api_version, &id.kind, id.namespace.is_some()))
}
