//! Decides the actions for member clusters from dumps, or decides and performs them on API servers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use federate_apiserver_model::{Conversion, ResourceKind, convert_object};
use federate_engine::change::{DigestKey, is_hidden, reveal_values};
use federate_engine::{Engine, Rendering, UnsentObject};
use federate_kubernetes::{Cluster, ClusterName, LiveObjects, Object, ObjectRef, kinds};
use federate_reconcile::cluster::{ClusterDecisions, DecisionContext, PruneOptions};
use federate_reconcile::drift::DriftRules;
use federate_reconcile::{
    Action, Actions, AdoptionMode, ApplySet, ClusterReport, DecisionSettings, DesiredObjects, DryRunStrategy,
    FieldManagers, PlacedObjects, RepoRef, parse_desired,
};
use federate_repo::config::DriftIgnoreRule;

use crate::{Destination, Session};

#[cfg(feature = "live")]
pub(crate) mod servers;

/// The creation time of objects in local predictions; API servers set their own.
const PREDICTED_CREATION_TIME: &str = "1970-01-01T00:00:00Z";

/// Why nothing is decided about a cluster that was not observed.
const NO_DUMP: &str = "there is no dump of it; add a folder with its name (an empty one means that it has no objects), or leave it out with --cluster";

/// What a run is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Apply the rendering.
    Apply {
        /// When to adopt existing objects; by default, what their policies say.
        adopt: Option<AdoptionMode>,
        /// Whether to take over objects that other tools manage.
        force: bool,
        /// Whether to delete and recreate objects with immutable changes.
        replace: bool,
    },
    /// Delete all managed objects, as if nothing were rendered.
    Remove,
    /// Report drift.
    Drift {
        /// Whether to report fields that are not rendered: defaults, status, additions by others.
        full: bool,
        /// Whether to revert the drift.
        correct: bool,
    },
}

/// Objects that wait, in these clusters.
pub type AwaitingObjects = BTreeMap<ObjectRef, BTreeSet<ClusterName>>;

/// How to reconcile member clusters with a session's rendering.
#[non_exhaustive]
pub struct ReconcileOptions<'r> {
    /// What the run is for.
    pub purpose: Purpose,
    /// The parent of the `ApplySet` in each cluster.
    pub apply_set: &'r ApplySet,
    /// What may be pruned; by default, nothing.
    pub prune: Option<PruneOptions>,
    /// Whether actions include the resulting objects.
    pub results: bool,
    /// The clusters; empty for all.
    pub clusters: &'r [String],
    /// The objects, where it is known that no other one differs; `None` for all. Others are neither read nor pruned.
    pub only_objects: Option<&'r BTreeSet<ObjectRef>>,
    /// Whether fields that people have changed and that are not rendered stay as they are.
    pub no_take_over: bool,
    /// The key for digests of Secret values.
    pub key: &'r DigestKey,
}

impl<'r> ReconcileOptions<'r> {
    /// A run over all clusters and objects that prunes nothing.
    pub fn new(purpose: Purpose, apply_set: &'r ApplySet, key: &'r DigestKey) -> Self {
        Self {
            purpose,
            apply_set,
            prune: None,
            results: false,
            clusters: &[],
            only_objects: None,
            no_take_over: false,
            key,
        }
    }

    /// With another [`prune`](Self::prune).
    #[must_use]
    pub fn with_prune(self, prune: Option<PruneOptions>) -> Self {
        Self { prune, ..self }
    }

    /// With another [`results`](Self::results).
    #[must_use]
    pub fn with_results(self, results: bool) -> Self {
        Self { results, ..self }
    }

    /// With other [`clusters`](Self::clusters).
    #[must_use]
    pub fn with_clusters(self, clusters: &'r [String]) -> Self {
        Self { clusters, ..self }
    }

    /// With other objects in [`only_objects`](Self::only_objects).
    #[must_use]
    pub fn with_only_objects(self, only_objects: Option<&'r BTreeSet<ObjectRef>>) -> Self {
        Self { only_objects, ..self }
    }

    /// With another [`no_take_over`](Self::no_take_over).
    #[must_use]
    pub fn with_no_take_over(self, no_take_over: bool) -> Self {
        Self { no_take_over, ..self }
    }
}

/// The actions for clusters, decided or performed.
#[derive(Default)]
struct Reconciled {
    actions: Vec<Action>,
    clusters: Vec<ClusterReport>,
    /// Whether actions are predicted without an API server.
    predicted: bool,
}

impl Reconciled {
    fn add_cluster(&mut self, cluster: &ClusterName, actions: Vec<Action>, error: Option<String>) {
        let predicted = self.predicted && error.is_none();
        self.clusters.push(ClusterReport {
            predicted,
            ..ClusterReport::from_actions(cluster.clone(), &actions, error)
        });
        self.actions.extend(actions);
    }
}

/// Decides the actions for the selected clusters, and performs them on API servers.
pub struct Reconciler<'r> {
    session: &'r Session,
    options: &'r ReconcileOptions<'r>,
    engine: Engine<'r>,
    desired: DesiredObjects,
    /// What counts in place of the session's rendering: nothing, for deleting everything, or less of it.
    instead: Option<Rendering>,
    now: String,
    #[cfg_attr(not(feature = "live"), expect(dead_code, reason = "only actions in servers name it"))]
    repo: Option<RepoRef>,
    moved_from: Option<ApplySet>,
    frozen_objects: BTreeMap<(ClusterName, ObjectRef), String>,
    /// Differences that are not drift.
    ignored: Vec<DriftIgnoreRule>,
}

impl<'r> Reconciler<'r> {
    /// Prepares the decisions for a session's rendering. If it has errors, the objects concerned are skipped
    /// and nothing is pruned.
    pub fn new(session: &'r Session, options: &'r ReconcileOptions<'r>) -> Self {
        let now = session.now().map_or_else(|| PREDICTED_CREATION_TIME.to_owned(), |now| now.to_string());
        let instead = matches!(options.purpose, Purpose::Remove).then(Rendering::default);
        let rendering = instead.as_ref().unwrap_or_else(|| session.render());
        let desired = read_desired(session, options, rendering);
        Self {
            session,
            options,
            engine: session.build_engine(),
            desired,
            instead,
            now,
            repo: None,
            moved_from: None,
            frozen_objects: BTreeMap::new(),
            ignored: session.repo().config.drift.ignore.clone(),
        }
    }

    /// For a known repo: parents of `ApplySets` record it, and those of another repo are refused.
    #[must_use]
    pub fn with_repo(self, repo: Option<RepoRef>) -> Self {
        Self { repo, ..self }
    }

    /// Also takes over the members of another `ApplySet`.
    #[must_use]
    pub fn with_moved_from(self, moved_from: Option<ApplySet>) -> Self {
        Self { moved_from, ..self }
    }

    /// With more differences that are not drift than those that the repo names.
    #[must_use]
    pub fn with_ignore_rules(mut self, rules: &[DriftIgnoreRule]) -> Self {
        self.ignored.extend_from_slice(rules);
        self
    }

    /// Leaves some objects of some clusters unchanged, with the reason.
    #[must_use]
    pub fn with_frozen_objects(self, frozen_objects: BTreeMap<(ClusterName, ObjectRef), String>) -> Self {
        Self { frozen_objects, ..self }
    }

    /// Leaves some objects of some clusters unchanged, whether they are rendered or not, and says nothing
    /// about them: it is not their turn.
    #[must_use]
    pub fn with_awaiting_objects(self, awaiting: &AwaitingObjects) -> Self {
        if awaiting.is_empty() || matches!(self.options.purpose, Purpose::Remove) {
            return self;
        }
        let rendering = self.session.render();
        let mut less = Rendering { plan: rendering.plan.clone(), ..Rendering::default() };
        less.manifests.clone_from(&rendering.manifests);
        for manifest in &mut less.manifests {
            if let Some(waiting) = awaiting.get(&manifest.object) {
                manifest.retain_clusters(|cluster| !waiting.contains(cluster));
            }
        }
        less.not_sent.clone_from(&rendering.not_sent);
        less.not_sent.extend(awaiting.iter().map(|(object, clusters)| UnsentObject {
            object: object.clone(),
            clusters: clusters.iter().cloned().collect(),
            status: "Awaiting",
            failed: false,
        }));
        let desired = read_desired(self.session, self.options, &less);
        Self { desired, instead: Some(less), ..self }
    }

    /// Decides from the observed objects of the session, and performs nothing.
    pub fn decide_observed(&self) -> Actions {
        let live = self.session.observed();
        let clusters = self.selected_clusters().filter(|cluster| live.knows_cluster(&cluster.name));
        let mut all = Reconciled { predicted: true, ..Reconciled::default() };
        for (name, decided) in self.predict_decisions(clusters) {
            let actions = decided.decisions.into_iter().map(|decision| decision.action).collect();
            all.add_cluster(&name, actions, decided.stopped);
        }
        // What was not looked at may have drifted.
        if matches!(self.options.purpose, Purpose::Drift { .. }) {
            for cluster in self.unobserved_clusters() {
                all.add_cluster(&cluster.into(), Vec::new(), Some(NO_DUMP.to_owned()));
            }
        }
        all.clusters.sort_by(|a, b| a.name.cmp(&b.name));
        self.collect_actions(all)
    }

    /// The actions, without values that SOPS encrypted.
    fn collect_actions(&self, mut all: Reconciled) -> Actions {
        let decrypted = self.session.decrypted_objects();
        decrypted.hide_values(&mut all.actions);
        all.clusters.iter_mut().for_each(|report| decrypted.hide_report(report));
        Actions::new(all.actions, all.clusters)
    }

    /// Decides from the observed objects of the session without asking an API server. A cluster that was not
    /// observed counts as empty.
    fn predict_decisions(
        &self,
        clusters: impl Iterator<Item = &'r Cluster>,
    ) -> Vec<(ClusterName, ClusterDecisions)> {
        let context = self.build_decision_context(DryRunStrategy::Client);
        let custom_kinds = self.custom_kinds();
        let revealed = self.reveal_secrets();
        let live = &*self.in_rendered_versions(&revealed);
        clusters
            .map(|cluster| {
                let decisions = context.decide_offline(cluster, live, &|id| find_kind(id, &custom_kinds));
                (cluster.name.clone(), decisions)
            })
            .collect()
    }

    /// Whether Secrets among the observed objects have digests in place of values, and these cannot be compared.
    pub fn compares_no_secrets(&self) -> bool {
        self.options.key.is_random() && self.hidden_secrets().next().is_some()
    }

    /// The observed Secrets with digests in place of values.
    fn hidden_secrets(&self) -> impl Iterator<Item = (&'r ClusterName, &'r Object)> {
        let live = self.session.observed();
        let all = live
            .clusters()
            .flat_map(|cluster| live.cluster_objects(cluster).iter().map(move |o| (cluster, o)));
        all.filter(|(_, object)| is_hidden(&object.body))
    }

    /// The observed objects, in which digests of Secrets are replaced by the rendered values that they stand for.
    fn reveal_secrets(&self) -> Cow<'r, LiveObjects> {
        let live = self.session.observed();
        let hidden: Vec<_> = self.hidden_secrets().collect();
        if hidden.is_empty() {
            return Cow::Borrowed(live);
        }
        let mut revealed = live.clone();
        for (cluster, object) in hidden {
            let desired = self.desired.find(cluster, &object.id);
            if let (Some(desired), Some(live)) = (desired, revealed.get_mut(cluster, &object.id)) {
                reveal_values(&mut live.body, &desired.body, self.options.key);
            }
        }
        Cow::Owned(revealed)
    }

    /// The observed objects, those that are rendered in the version in which they are rendered. An object whose versions
    /// cannot be converted here stays as it is.
    fn in_rendered_versions<'l>(&self, live: &'l LiveObjects) -> Cow<'l, LiveObjects> {
        let mut converted: Vec<(ClusterName, ObjectRef, Value)> = Vec::new();
        let mut by_webhook: Option<BTreeSet<(String, String)>> = None;
        for desired in self.desired.objects() {
            let id = &desired.object;
            for cluster in desired.clusters.iter() {
                let there = live.get(cluster, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
                let Some(there) = there.filter(|there| there.id.api_version != id.api_version) else {
                    continue;
                };
                let body = if kinds::find_scope(id.group(), &id.kind).is_some() {
                    convert_object(&there.body, &id.api_version)
                } else if by_webhook
                    .get_or_insert_with(|| self.converted_by_webhooks())
                    .contains(&(id.group().to_owned(), id.kind.clone()))
                {
                    Conversion::Unknown
                } else {
                    let mut body = there.body.clone();
                    body["apiVersion"] = id.api_version.clone().into();
                    Conversion::Done(body)
                };
                if let Conversion::Done(body) = body {
                    converted.push((cluster.clone(), there.id.clone(), body));
                }
            }
        }
        if converted.is_empty() {
            return Cow::Borrowed(live);
        }
        let mut live = live.clone();
        for (cluster, id, body) in converted {
            if let Some(object) = live.get_mut(&cluster, &id) {
                object.body = body;
            }
        }
        Cow::Owned(live)
    }

    /// The custom resources, as group and kind, whose versions only a webhook can convert.
    fn converted_by_webhooks(&self) -> BTreeSet<(String, String)> {
        let mut kinds = BTreeSet::new();
        for body in self.crd_bodies() {
            let [strategy, group, kind] = ["/spec/conversion/strategy", "/spec/group", "/spec/names/kind"]
                .map(|pointer| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default());
            if strategy == "Webhook" {
                kinds.insert((group.to_owned(), kind.to_owned()));
            }
        }
        kinds
    }

    /// The clusters that nothing was observed of, so that nothing is decided about them.
    pub fn unobserved_clusters(&self) -> Vec<&'r str> {
        let live = self.session.observed();
        self.selected_clusters()
            .map(|cluster| cluster.name.as_ref())
            .filter(|name| !live.knows_cluster(name))
            .collect()
    }

    /// What decisions about clusters need.
    fn build_decision_context(&self, dry_run: DryRunStrategy) -> DecisionContext<'_> {
        let (adopt, force, replace, full) = match self.options.purpose {
            Purpose::Apply { adopt, force, replace } => (adopt, force, replace, false),
            Purpose::Remove => (Some(AdoptionMode::Never), false, false, false),
            // Drift is reported whoever manages an object.
            Purpose::Drift { full, .. } => (Some(AdoptionMode::Always), true, false, full),
        };
        let config = &self.session.repo().config;
        let take_over = match self.options.purpose {
            Purpose::Apply { .. } | Purpose::Remove => !config.apply.no_take_over,
            Purpose::Drift { .. } => true,
        };
        let managers = FieldManagers::new(
            config.drift.people.as_deref(),
            take_over && !self.options.no_take_over,
            self.session.dialects(),
        );
        // A rule without paths and managers is about the report of whole objects.
        let applies = matches!(self.options.purpose, Purpose::Apply { .. }) && !config.apply.reset_ignored;
        let ignored = self
            .ignored
            .iter()
            .filter(|rule| !rule.paths.is_empty() || !rule.managers.is_empty())
            .filter(|_| applies)
            .cloned()
            .collect();
        let settings = DecisionSettings {
            adopt,
            force,
            replace,
            full,
            results: self.options.results,
            apply_set: self.options.apply_set,
            rolling: &config.apply.rolling,
            key: self.options.key,
            now: &self.now,
            dry_run,
            moved_from: self.moved_from.as_ref(),
            managers,
            ignored,
            encrypted: self.session.decrypted_objects().objects(),
        };
        let drift = match self.options.purpose {
            Purpose::Apply { .. } | Purpose::Remove => None,
            Purpose::Drift { correct, .. } => Some(DriftRules { ignore: &self.ignored, correct }),
        };
        DecisionContext {
            engine: &self.engine,
            rendering: self.rendering(),
            desired: &self.desired,
            settings,
            prune: self.options.prune.as_ref(),
            // Where everything goes, it does not matter what is rendered.
            incomplete: self.options.only_objects.is_some()
                || (!matches!(self.options.purpose, Purpose::Remove)
                    && federate_engine::any_error(&self.session.findings_for(Destination::Clusters))),
            drift,
            frozen_objects: &self.frozen_objects,
            placed: PlacedObjects::new(
                &self.engine,
                &self.rendering().plan,
                self.session.health_checks(),
                self.session.decrypted_objects().objects(),
            ),
        }
    }

    fn rendering(&self) -> &Rendering {
        self.instead.as_ref().unwrap_or_else(|| self.session.render())
    }

    /// The selected clusters.
    fn selected_clusters(&self) -> impl Iterator<Item = &'r Cluster> {
        select_clusters(self.session, self.options.clusters)
    }

    /// The custom resources that CRDs among the live and the rendered objects define.
    fn custom_kinds(&self) -> Vec<ResourceKind> {
        self.crd_bodies().flat_map(ResourceKind::from_definition).collect()
    }

    /// The CRDs among the live and the rendered objects.
    fn crd_bodies(&self) -> impl Iterator<Item = &Value> {
        let live = self.session.observed();
        let running = self.session.clusters().iter().flat_map(|cluster| live.cluster_objects(&cluster.name));
        let rendered = self.desired.objects().iter().map(|desired| &*desired.body);
        let bodies = running.map(|object| &object.body).chain(rendered);
        bodies.filter(|body| body["kind"] == "CustomResourceDefinition")
    }
}

/// The objects of a rendering as they are applied.
fn read_desired(session: &Session, options: &ReconcileOptions<'_>, rendering: &Rendering) -> DesiredObjects {
    let objects = parse_desired(&rendering.manifests, options.only_objects);
    DesiredObjects::new(session.decrypted_objects().reveal_desired(objects), rendering)
}

/// The clusters of these names; all where there are none.
fn select_clusters<'s>(session: &'s Session, names: &'s [String]) -> impl Iterator<Item = &'s Cluster> {
    session
        .clusters()
        .iter()
        .filter(move |cluster| names.is_empty() || names.iter().any(|n| *n == *cluster.name))
}

/// What is known about a kind; only its name if no CRD defines it.
fn find_kind<'k>(id: &ObjectRef, custom_kinds: &'k [ResourceKind]) -> Cow<'k, ResourceKind> {
    let known = ResourceKind::find_builtin(&id.api_version, &id.kind)
        .or_else(|| custom_kinds.iter().find(|k| k.kind == id.kind && k.api_version() == id.api_version));
    match known {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(ResourceKind::without_schema(&id.api_version, &id.kind, id.namespace.is_some())),
    }
}
