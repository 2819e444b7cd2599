//! What is to be done in member clusters, from what runs there: decided from dumps, or decided and carried out on
//! API servers.

use std::collections::BTreeMap;

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
pub use servers::ServerOptions;

/// The time of an object that nobody will store: API servers write their own.
const NEVER: &str = "1970-01-01T00:00:00Z";

/// What is decided about.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Everything that is to be done.
    Apply {
        /// When objects that are there already are taken over; what their policies say by default.
        adopt: Option<Adopt>,
        /// Whether objects are taken from other tools, too.
        force: bool,
        /// Whether what cannot be changed is deleted and created anew.
        replace: bool,
    },
    /// That everything that federate manages is deleted, as if nothing were rendered.
    Remove,
    /// What drifted.
    Drift {
        /// Whether what nobody rendered is reported, too: defaults, status, what others added.
        full: bool,
        /// Whether what drifted is put back.
        correct: bool,
    },
}

/// How member clusters are brought to what a session renders.
pub struct ReconcileOptions<'r> {
    /// What is decided about.
    pub purpose: Purpose,
    /// The object in each cluster that keeps which objects federate manages there.
    pub inventory: &'r Inventory,
    /// What may be deleted; nothing by default.
    pub prune: Option<Prune>,
    /// Whether actions say what objects will be.
    pub results: bool,
    /// The clusters; all of them if empty.
    pub clusters: &'r [String],
    /// The key of the digests that stand for values of Secrets.
    pub key: &'r DigestKey,
}

/// What was decided about the clusters, or done.
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

/// The decisions about all clusters, with all that they are made of.
pub struct Reconciler<'r> {
    session: &'r Session,
    options: &'r ReconcileOptions<'r>,
    engine: Engine<'r>,
    desired: Vec<Desired>,
    /// A rendering of nothing, where everything is to be deleted.
    nothing: Option<Rendering>,
    now: String,
    repo: Option<RepoRef>,
    moved: Option<Inventory>,
    held: BTreeMap<(ClusterName, ObjectRef), String>,
}

impl<'r> Reconciler<'r> {
    /// Prepares decisions about what a session renders. Where its findings have errors, what is in error is left
    /// out and nothing is deleted.
    pub fn new(session: &'r Session, options: &'r ReconcileOptions<'r>) -> Self {
        let now = session.now().map_or_else(|| NEVER.to_owned(), |now| now.to_string());
        let nothing = matches!(options.purpose, Purpose::Remove).then(Rendering::default);
        let desired = desired(&nothing.as_ref().unwrap_or_else(|| session.rendering()).manifests);
        Self {
            session,
            options,
            engine: session.engine(),
            desired,
            nothing,
            now,
            repo: None,
            moved: None,
            held: BTreeMap::new(),
        }
    }

    /// The same for a known repo: the parents of `ApplySets` remember it, and those of another are refused.
    #[must_use]
    pub fn of_repo(self, repo: Option<RepoRef>) -> Self {
        Self { repo, ..self }
    }

    /// The same, which also makes the members of another `ApplySet` members of its own.
    #[must_use]
    pub fn moving(self, moved: Option<Inventory>) -> Self {
        Self { moved, ..self }
    }

    /// The same, which changes nothing about some objects of some clusters, and says why.
    #[must_use]
    pub fn holding(self, held: BTreeMap<(ClusterName, ObjectRef), String>) -> Self {
        Self { held, ..self }
    }

    /// Decides from what the session was given of what runs, and does nothing.
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

    /// `server`: whether API servers decide about what is not known here.
    fn with<T>(&self, server: bool, work: impl FnOnce(&Deciding<'_>) -> T) -> T {
        let (adopt, force, replace, full) = match self.options.purpose {
            Purpose::Apply { adopt, force, replace } => (adopt, force, replace, false),
            Purpose::Remove => (Some(Adopt::Never), false, false, false),
            // Whoever manages an object: that it differs from what is rendered is reported.
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

    /// The clusters that are asked for.
    fn clusters(&self) -> impl Iterator<Item = &'r Cluster> {
        let names = self.options.clusters;
        let asked = move |cluster: &&Cluster| names.is_empty() || names.iter().any(|n| *n == *cluster.name);
        self.session.clusters().iter().filter(asked)
    }

    /// The kinds that definitions among the live and the rendered objects make.
    fn customs(&self) -> Vec<Kind> {
        let live = self.session.observed();
        let running = self.session.clusters().iter().flat_map(|cluster| live.objects(&cluster.name));
        let rendered = self.desired.iter().map(|desired| &desired.body);
        let bodies = running.map(|object| &object.body).chain(rendered);
        bodies.filter(|body| body["kind"] == "CustomResourceDefinition").flat_map(Kind::customs).collect()
    }
}

/// What is known of a kind; of one that nobody defines, nothing but its name.
fn kind(id: &ObjectRef, customs: &[Kind]) -> Kind {
    let custom = || customs.iter().find(|k| k.kind == id.kind && k.api_version() == id.api_version).cloned();
    Kind::builtin(&id.api_version, &id.kind)
        .or_else(custom)
        .unwrap_or_else(|| Kind::unknown(&id.api_version, &id.kind, id.namespace.is_some()))
}
