//! The decisions about one cluster: about the rendered objects, and about managed objects that are no longer rendered.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde_json::Value;

use super::decision::decide_object;
use super::decision_input::{ControlPlaneQuery, DecisionInput, KindLookup};
use super::desired_objects::{DesiredObject, DesiredObjects};
use super::drift::{ClusterView, DriftRules};
use super::keep_annotations::find_keep_annotation;
use super::live_object::with_fields;
use super::object_decision::{ObjectDecision, WriteRequest};
use super::placed_objects::PlacedObjects;
use super::settings::DecisionSettings;
use super::{Action, ActionKind};
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::managed_fields::read_fields;
use federate_dialect::{ControlPlaneAction, Placement, SyncOp};
use federate_engine::autoscalers::Autoscalers;
use federate_engine::deletions::PruneLimit;
use federate_engine::{Engine, Rendering, map_charged};
use federate_kubernetes::{Cluster, ClusterName, LiveObjects, Object, ObjectRef, UnversionedRef};

/// Kinds whose objects hold data that cannot be restored, or whose deletion deletes other objects.
const KEPT_KINDS: [&str; 3] = ["Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"];

/// The limits of pruning.
#[derive(Clone, Debug)]
pub struct PruneOptions {
    /// Kinds that are pruned although they hold data that cannot be restored.
    pub kinds: Vec<String>,
    /// The largest share of the managed objects of a cluster that a run may delete.
    pub limit: PruneLimit,
}

impl PruneOptions {
    /// No limits.
    fn without_limits() -> Self {
        Self {
            kinds: KEPT_KINDS.into_iter().chain(["Secret"]).map(str::to_owned).collect(),
            limit: PruneLimit::new(100),
        }
    }

    /// Whether objects of a kind are deleted when they are no longer rendered.
    pub fn prunes_kind(&self, kind: &str) -> bool {
        !KEPT_KINDS.contains(&kind) || self.kinds.iter().any(|name| name == kind)
    }

    /// Why a run may not delete this many objects.
    fn check_limit(&self, deleted: usize, all: impl FnOnce() -> usize) -> Option<String> {
        if deleted == 0 {
            return None;
        }
        let (all, limit) = (all(), self.limit);
        limit.is_exceeded(deleted, all).then(|| {
            format!(
                "{deleted} of the {all} managed objects would be deleted, and more than {} % at once \
                 may be a mistake; --prune-limit 100 confirms it",
                limit.percent()
            )
        })
    }
}

/// Everything that decisions about clusters need besides the live objects.
pub struct DecisionContext<'d> {
    /// The control planes.
    pub engine: &'d Engine<'d>,
    /// The plan with its manifests.
    pub rendering: &'d Rendering,
    /// The rendered objects.
    pub desired: &'d DesiredObjects,
    /// The rules.
    pub settings: DecisionSettings<'d>,
    /// The limits of pruning; `None` where nothing is pruned.
    pub prune: Option<&'d PruneOptions>,
    /// Whether the rendering is incomplete, because of errors or because only some objects are decided about: nothing is
    /// pruned then, because objects that are missing from it may be desired.
    pub incomplete: bool,
    /// Decides about drift only, in place of all differences.
    pub drift: Option<DriftRules<'d>>,
    /// Objects that stay as they are in a cluster, with the reason.
    pub frozen_objects: &'d BTreeMap<(ClusterName, ObjectRef), String>,
    /// Who places the objects.
    pub placed: PlacedObjects<'d>,
}

/// The decisions about a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterDecisions {
    /// Sorted by object.
    pub decisions: Vec<ObjectDecision>,
    /// Why nothing is done in the cluster.
    pub stopped: Option<String>,
    /// How many managed objects are no longer rendered and stay; `None` if that was not looked at.
    pub orphans: Option<usize>,
}

/// The objects that are rendered for a cluster or held back: no other managed object is desired there.
type DesiredKeys<'o> = BTreeSet<UnversionedRef<'o>>;

impl DecisionContext<'_> {
    /// The cluster of this name in the inventory.
    pub fn find_cluster(&self, name: &ClusterName) -> Option<&Cluster> {
        let clusters = self.engine.clusters();
        let at = clusters.binary_search_by(|cluster| cluster.name.cmp(name)).ok()?;
        clusters.get(at)
    }

    /// Whether differences are only reported: no request is sent for them.
    pub fn only_reports(&self) -> bool {
        self.drift.as_ref().is_some_and(|drift| !drift.correct)
    }

    /// Decides about everything in a cluster without asking its API server. `live` has the live objects, `kind` the
    /// kinds.
    pub fn decide_offline(
        &self,
        cluster: &Cluster,
        live: &LiveObjects,
        kind: &KindLookup<'_>,
    ) -> ClusterDecisions {
        let decided = self.decide_before_dry_run(cluster, live, kind, &|_| false);
        self.finish_decisions(cluster, live, kind, decided)
    }

    /// Decides about everything in a cluster, as a first step: the answers of the API server to dry runs may change the
    /// decisions. `is_compared` says which objects were found to be unchanged by their text. Where everything is decided,
    /// managed objects that are no longer rendered are included; where only drift is asked for, `finish_decisions` adds them.
    pub fn decide_before_dry_run(
        &self,
        cluster: &Cluster,
        live: &LiveObjects,
        kind: &KindLookup<'_>,
        is_compared: &(dyn Fn(&ObjectRef) -> bool + Sync),
    ) -> ClusterDecisions {
        let wanted: Vec<&DesiredObject> = self.desired.rendered_for(&cluster.name).collect();
        let rendered = wanted.iter().map(|desired| (&desired.object, &*desired.body));
        let there = live.cluster_objects(&cluster.name).iter().map(|object| (&object.id, &object.body));
        let autoscalers = Autoscalers::from_objects(there.chain(rendered));
        let decide_all = || {
            map_charged(&wanted, |desired| {
                let id = &desired.object;
                if is_compared(id) {
                    let action = Action::new(&cluster.name, id, ActionKind::Unchanged);
                    return ObjectDecision { action, request: None, refused: false, is_left: false };
                }
                let there = live.get(&cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
                self.decide_rendered(cluster, desired, there, &kind(id), &autoscalers)
            })
        };
        let what = "deciding what to do with the objects of a cluster";
        let decisions = match self.engine.work_limit().run_part(what, decide_all) {
            Ok(decisions) => decisions,
            // Nothing is pruned either: what is desired is not known.
            Err(exceeded) => {
                let stopped = Some(exceeded.to_string());
                return ClusterDecisions { stopped, ..ClusterDecisions::default() };
            }
        };
        let mut decided = ClusterDecisions { decisions, stopped: None, orphans: None };
        if self.drift.is_none() {
            self.add_pruning(cluster, live, &mut decided);
        }
        decided
    }

    /// Decides about an object again, by the answer of the API server to a dry run: the object after the apply, or
    /// why the apply is refused.
    pub fn decide_by_dry_run(
        &self,
        decision: &mut ObjectDecision,
        live: Option<&Value>,
        kind: &ResourceKind,
        answer: Result<Value, String>,
    ) {
        let live = live.map(with_fields);
        match answer {
            Ok(answer) => decision.decide_by_response(live.as_ref(), answer, kind, &self.settings),
            Err(why) => decision.decide_by_refusal(live.as_ref(), why, kind, &self.settings),
        }
    }

    /// Completes the decisions: where only drift is asked for, removes everything else; leaves frozen objects unchanged.
    pub fn finish_decisions(
        &self,
        cluster: &Cluster,
        live: &LiveObjects,
        kind: &KindLookup<'_>,
        decided: ClusterDecisions,
    ) -> ClusterDecisions {
        let mut decided = match &self.drift {
            Some(drift) => self.keep_drift(drift, cluster, live, kind, decided),
            None => decided,
        };
        for decision in decided.decisions.iter_mut().filter(|_| !self.frozen_objects.is_empty()) {
            let object = (cluster.name.clone(), decision.action.object.clone());
            if let Some(why) = self.frozen_objects.get(&object) {
                decision.withhold_request(why);
            }
        }
        decided
    }

    /// Of the decisions, those about drift.
    fn keep_drift(
        &self,
        drift: &DriftRules<'_>,
        cluster: &Cluster,
        live: &LiveObjects,
        kind: &KindLookup<'_>,
        mut decided: ClusterDecisions,
    ) -> ClusterDecisions {
        // A dump may have been made before the first apply.
        let is_member = self.settings.is_member();
        let has_apply_set = self.settings.dry_run.reaches_servers()
            || live.cluster_objects(&cluster.name).iter().any(|object| is_member(&object.body));
        let known = ClusterView { cluster, live, kind, settings: &self.settings, has_apply_set };
        decided.decisions = std::mem::take(&mut decided.decisions)
            .into_par_iter()
            .filter_map(|decision| drift.find_drift(decision, &known))
            .collect();
        self.add_pruning(cluster, live, &mut decided);
        decided
    }

    /// Adds the decisions about managed objects that are no longer rendered, where the rendering is complete.
    fn add_pruning(&self, cluster: &Cluster, live: &LiveObjects, decided: &mut ClusterDecisions) {
        if !self.incomplete {
            let rendered = self.desired.rendered_for(&cluster.name).map(|desired| &desired.object);
            let desired =
                rendered.chain(self.desired.held_for(&cluster.name)).map(ObjectRef::unversioned).collect();
            let (more, too_many) = self.decide_unrendered(cluster, live, &desired);
            decided.stopped = too_many.filter(|_| self.drift.is_none());
            let sent = more.iter().filter_map(|decision| decision.request.as_ref());
            let gone = sent.filter(|send| matches!(send, WriteRequest::Delete { .. })).count();
            decided.orphans = Some(self.unrendered_objects(cluster, live, &desired).count() - gone);
            decided.decisions.extend(more);
        }
        // A mistake that removes so much from a repo may have changed the rest, too.
        if let Some(why) = &decided.stopped {
            for decision in &mut decided.decisions {
                decision.withhold_request(why);
            }
        }
        decided.decisions.sort_by(|a, b| a.action.object.cmp(&b.action.object));
    }

    /// Decides about managed objects that are no longer rendered. The second value says why pruning exceeds the
    /// limit, if it does.
    fn decide_unrendered(
        &self,
        cluster: &Cluster,
        live: &LiveObjects,
        desired: &DesiredKeys<'_>,
    ) -> (Vec<ObjectDecision>, Option<String>) {
        let may = self.prune.map(|prune| self.decide_pruning(cluster, live, desired, prune));
        let (may, too_many) = may.map_or((None, None), |(may, too_many)| (Some(may), too_many));
        let Some(drift) = &self.drift else { return (may.unwrap_or_default(), too_many) };
        let (all, _) = self.decide_pruning(cluster, live, desired, &PruneOptions::without_limits());
        let mut drifted = Vec::new();
        for (at, decision) in all.into_iter().enumerate() {
            // Both lists have the same objects in the same order.
            let may = may.as_ref().and_then(|may| may.get(at)).cloned();
            drifted.extend(drift.find_unrendered(decision, may));
        }
        (drifted, too_many)
    }

    fn decide_rendered(
        &self,
        cluster: &Cluster,
        desired: &DesiredObject,
        there: Option<&Object>,
        kind: &ResourceKind,
        autoscalers: &Autoscalers,
    ) -> ObjectDecision {
        let input = DecisionInput {
            cluster: &cluster.name,
            object: &desired.object,
            body: &desired.body,
            kind,
            cached_create: &desired.cached_create,
            autoscalers,
            live: there.map(|object| &object.body),
            control_plane: &PlacedObjectQuery { context: self, cluster, desired, live: there },
            keeps_applied: self.keeps_applied(cluster, &desired.object),
        };
        decide_object(&input, &self.settings)
    }

    /// The row of the plan that places an object.
    fn find_placement(&self, object: &ObjectRef) -> Option<&Placement> {
        self.rendering.plan.find_placement(object)
    }

    /// Whether the control plane surely leaves a managed object alone that is as it was applied.
    pub(super) fn keeps_applied(&self, cluster: &Cluster, object: &ObjectRef) -> bool {
        self.find_placement(object).is_some_and(|row| self.engine.keeps_applied(row, cluster))
    }

    /// What the control plane does about a live object that counts as its own.
    fn action_for_managed(
        &self,
        cluster: &Cluster,
        object: &ObjectRef,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        let placement = self.find_placement(object)?;
        let mut live = live.map(with_all_fields);
        if let Some(live) = &mut live {
            self.engine.mark_object(placement, live);
        }
        self.engine.reconcile_object(placement, cluster, live.as_ref())
    }

    /// The managed objects of a cluster.
    fn managed_objects<'l>(
        &self,
        cluster: &Cluster,
        live: &'l LiveObjects,
    ) -> impl Iterator<Item = &'l Object> {
        let is_member = self.settings.is_member();
        live.cluster_objects(&cluster.name).iter().filter(move |object| is_member(&object.body))
    }

    /// The managed objects that are no longer rendered.
    fn unrendered_objects<'l>(
        &self,
        cluster: &Cluster,
        live: &'l LiveObjects,
        desired: &DesiredKeys<'_>,
    ) -> impl Iterator<Item = &'l Object> {
        let is_member = self.settings.is_member();
        // Most objects are rendered.
        let others =
            live.cluster_objects(&cluster.name).iter().filter(|o| !desired.contains(&o.id.unversioned()));
        others.filter(move |object| is_member(&object.body))
    }

    /// Keeps namespaces and CRDs whose deletion would delete an object that its annotation keeps.
    fn keep_namespaces(
        &self,
        cluster: &Cluster,
        live: &LiveObjects,
        desired: &DesiredKeys<'_>,
        decisions: &mut [ObjectDecision],
    ) {
        let mut sent = decisions.iter().filter(|decision| decision.request.is_some());
        if !sent.any(|decision| {
            matches!(decision.action.object.kind.as_str(), "Namespace" | "CustomResourceDefinition")
        }) {
            return;
        }
        let mut namespaces: BTreeMap<&str, &ObjectRef> = BTreeMap::new();
        let mut kinds: BTreeMap<(&str, &str), &ObjectRef> = BTreeMap::new();
        for object in
            live.cluster_objects(&cluster.name).iter().filter(|object| find_keep_annotation(object).is_some())
        {
            if let Some(namespace) = &object.id.namespace {
                namespaces.entry(namespace).or_insert(&object.id);
            }
            kinds.entry((object.id.group(), &object.id.kind)).or_insert(&object.id);
        }
        let mut objects = self.unrendered_objects(cluster, live, desired);
        for decision in decisions {
            let Some(object) = objects.next() else { return };
            let kept = match (object.id.group(), object.id.kind.as_str()) {
                ("", "Namespace") => namespaces.get(object.id.name.as_str()),
                ("apiextensions.k8s.io", "CustomResourceDefinition") => kinds.get(&defined_kind(object)),
                _ => None,
            };
            if let Some(kept) = kept.filter(|_| decision.request.is_some()) {
                let reason = format!("deleting it would delete {kept}, which its annotation keeps");
                *decision = keep_object(cluster, object, reason);
            }
        }
    }

    /// Decides which managed objects that are no longer rendered are deleted; none where that exceeds the limit.
    fn decide_pruning(
        &self,
        cluster: &Cluster,
        live: &LiveObjects,
        desired: &DesiredKeys<'_>,
        prune: &PruneOptions,
    ) -> (Vec<ObjectDecision>, Option<String>) {
        let mut decisions: Vec<ObjectDecision> = self
            .unrendered_objects(cluster, live, desired)
            .map(|object| {
                let preserved = self.action_for_managed(cluster, &object.id, Some(object));
                let released = preserved.is_some_and(|action| matches!(action.op, SyncOp::Release(_)));
                match reason_to_keep(object, prune) {
                    Some(reason) => keep_object(cluster, object, reason),
                    None if released => {
                        keep_object(cluster, object, "its policy preserves it in the clusters".to_owned())
                    }
                    None => delete_object(cluster, object),
                }
            })
            .collect();
        self.keep_namespaces(cluster, live, desired, &mut decisions);
        let deleted = decisions.iter().filter(|decision| decision.request.is_some()).count();
        let too_many = prune.check_limit(deleted, || self.managed_objects(cluster, live).count());
        if let Some(why) = &too_many {
            for decision in &mut decisions {
                decision.withhold_request(why);
            }
        }
        (decisions, too_many)
    }
}

/// Asks the control plane that places an object what it does about it in a cluster.
struct PlacedObjectQuery<'q> {
    context: &'q DecisionContext<'q>,
    cluster: &'q Cluster,
    desired: &'q DesiredObject,
    live: Option<&'q Object>,
}

impl ControlPlaneQuery for PlacedObjectQuery<'_> {
    fn action_for_managed(&self) -> Option<ControlPlaneAction> {
        let action = self.context.action_for_managed(self.cluster, &self.desired.object, self.live)?;
        Some(self.desired.reveal_action(action))
    }

    fn action_by_marks(&self) -> Option<ControlPlaneAction> {
        let live = self.live.map(with_all_fields);
        let placement = self.context.find_placement(&self.desired.object)?;
        let action = self.context.engine.reconcile_object(placement, self.cluster, live.as_ref())?;
        Some(self.desired.reveal_action(action))
    }
}

/// A live object with the fields that are text until they are looked at.
fn with_all_fields(live: &Object) -> Object {
    let mut live = live.clone();
    read_fields(&mut live.body);
    live
}

/// The group of a CRD's custom resources, and their kind.
fn defined_kind(definition: &Object) -> (&str, &str) {
    (definition.text_at(&["spec", "group"]), definition.text_at(&["spec", "names", "kind"]))
}

/// Why an object is kept although it is no longer rendered.
fn reason_to_keep(object: &Object, prune: &PruneOptions) -> Option<String> {
    if let Some(annotation) = find_keep_annotation(object) {
        return Some(format!("its {annotation} keeps it"));
    }
    let kind = object.id.kind.as_str();
    let token = kind == "Secret" && object.text_at(&["type"]) == "kubernetes.io/service-account-token";
    let named = prune.kinds.iter().any(|name| name == kind);
    ((KEPT_KINDS.contains(&kind) || token) && !named)
        .then(|| format!("objects of kind {kind} are only deleted with --prune-kinds {kind}"))
}

fn keep_object(cluster: &Cluster, object: &Object, reason: String) -> ObjectDecision {
    ObjectDecision {
        action: build_action(cluster, object, ActionKind::Skip, Some(reason)),
        request: None,
        refused: false,
        is_left: false,
    }
}

fn delete_object(cluster: &Cluster, object: &Object) -> ObjectDecision {
    if object.is_deleting() {
        let mut kept = keep_object(cluster, object, "it is being deleted already".to_owned());
        kept.action.is_terminating = true;
        return kept;
    }
    let request = WriteRequest::Delete {
        uid: object.text_at(&["metadata", "uid"]).to_owned(),
        resource_version: object.text_at(&["metadata", "resourceVersion"]).to_owned(),
    };
    ObjectDecision {
        action: build_action(cluster, object, ActionKind::Delete, None),
        request: Some(request),
        refused: false,
        is_left: false,
    }
}

fn build_action(cluster: &Cluster, object: &Object, kind: ActionKind, reason: Option<String>) -> Action {
    Action { reason, ..Action::new(&cluster.name, &object.id, kind) }
}
