//! The decisions about one cluster: about the rendered objects, and about managed objects that are no longer rendered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::Value;

use super::cached_create::CachedCreate;
use super::decision::decide_object;
use super::decision_input::{ControlPlaneQuery, DecisionInput, KindLookup};
use super::drift::{ClusterView, DriftRules};
use super::keep_annotations::find_keep_annotation;
use super::live_object::with_fields;
use super::object_decision::{ObjectDecision, WriteRequest};
use super::placed_objects::PlacedObjects;
use super::settings::DecisionSettings;
use super::{Action, ActionKind};
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::managed_fields::read_fields;
use federate_dialect::{ClusterNames, ControlPlaneAction, Placement, SyncOp};
use federate_engine::autoscalers::Autoscalers;
use federate_engine::controlled_fields::prepare_body;
use federate_engine::deletions::PruneLimit;
use federate_engine::{Engine, Manifest, Rendering};
use federate_kubernetes::sops::reveal_document;
use federate_kubernetes::{Cluster, ClusterName, LiveObjects, Object, ObjectRef};

/// Kinds whose objects hold data that cannot be restored, or whose deletion deletes other objects.
const KEPT_KINDS: [&str; 3] = ["Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"];

/// An object that is rendered for some clusters.
#[derive(Clone, Debug)]
pub struct DesiredObject {
    /// Its identity.
    pub object: ObjectRef,
    /// The clusters, sorted by name.
    pub clusters: ClusterNames,
    /// Its body, as it is applied.
    pub body: Arc<Value>,
    /// The text that the body was read from.
    pub(super) text: Arc<str>,
    /// What the object is in clear, if SOPS encrypted it.
    pub(super) plain: Option<Arc<Value>>,
    /// The result of creating it.
    pub(super) cached_create: CachedCreate,
}

/// Reads the rendered objects, once for all clusters that share them; only some of them, if `only` names them.
pub fn parse_desired(manifests: &[Manifest], only: Option<&BTreeSet<ObjectRef>>) -> Vec<DesiredObject> {
    let manifests = manifests.par_iter();
    manifests
        .filter(|manifest| only.is_none_or(|only| only.contains(&manifest.object)))
        .filter_map(DesiredObject::from_manifest)
        .collect()
}

impl DesiredObject {
    /// `None` if the text of the manifest has no document.
    fn from_manifest(manifest: &Manifest) -> Option<Self> {
        let body = if let Some(value) = &manifest.value {
            value.clone()
        } else {
            let mut body = federate_yaml::read_stream(manifest.text.as_bytes()).documents.pop()?.value;
            prepare_body(&mut body);
            body.into()
        };
        let (object, clusters) = (manifest.object.clone(), manifest.clusters.clone());
        let text = manifest.text.clone();
        Some(Self { object, clusters, body, text, plain: None, cached_create: CachedCreate::default() })
    }

    /// The same object in clear; `None` if the plain document lacks what is encrypted.
    pub fn reveal(self, plain: &Value) -> Option<Self> {
        let written = federate_yaml::read_stream(self.text.as_bytes()).documents.pop()?.value;
        let mut body = reveal_document(&written, plain)?;
        prepare_body(&mut body);
        let plain = Some(Arc::new(plain.clone()));
        Some(Self { body: body.into(), plain, cached_create: CachedCreate::default(), ..self })
    }

    /// What a control plane does about the object, in clear if SOPS encrypted it.
    fn reveal_action(&self, action: ControlPlaneAction) -> ControlPlaneAction {
        let Some(plain) = &self.plain else { return action };
        let reveal = |body: &Value| reveal_document(body, plain);
        let op = match &action.op {
            SyncOp::Create(body) => reveal(body).map(SyncOp::Create),
            SyncOp::Update(body) => reveal(body).map(SyncOp::Update),
            SyncOp::Release(body) => reveal(body).map(SyncOp::Release),
            SyncOp::Apply { manifest, manager, force } => {
                reveal(manifest).map(|manifest| SyncOp::Apply { manifest, manager, force: *force })
            }
            SyncOp::Delete(_) | SyncOp::Nothing => return action,
        };
        match op {
            Some(op) => ControlPlaneAction { op, ..action },
            None => ControlPlaneAction::do_nothing("Encrypted"),
        }
    }
}

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
    /// The plan.
    pub rendering: &'d Rendering,
    /// The rendered objects.
    pub desired: &'d [DesiredObject],
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

/// The identity of an object in a cluster, whatever its version.
type Key<'o> = (&'o str, &'o str, Option<&'o str>, &'o str);

/// What tells the managed objects that may be pruned from those that are rendered.
struct PruneCandidates<'s> {
    /// The objects that are rendered.
    keep: BTreeSet<Key<'s>>,
    placements: BTreeMap<&'s ObjectRef, &'s Placement>,
}

fn object_key(id: &ObjectRef) -> Key<'_> {
    (id.group(), &id.kind, id.namespace.as_deref(), &id.name)
}

impl DecisionContext<'_> {
    /// The cluster of this name in the inventory.
    pub fn find_cluster(&self, name: &ClusterName) -> Option<&Cluster> {
        self.engine.clusters().iter().find(|cluster| cluster.name == *name)
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
        let placements = self.placements_by_object();
        let wanted = self.rendered_objects(cluster);
        let rendered = wanted.iter().map(|desired| (&desired.object, &*desired.body));
        let there = live.cluster_objects(&cluster.name).iter().map(|object| (&object.id, &object.body));
        let autoscalers = Autoscalers::from_objects(there.chain(rendered));
        let decisions = wanted
            .par_iter()
            .map(|desired| {
                let id = &desired.object;
                if is_compared(id) {
                    let action = Action::new(&cluster.name, id, ActionKind::Unchanged);
                    return ObjectDecision { action, request: None, refused: false };
                }
                let there = live.get(&cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
                let placement = placements.get(id).copied();
                self.decide_rendered(cluster, desired, placement, there, &kind(id), &autoscalers)
            })
            .collect();
        let mut decided = ClusterDecisions { decisions, stopped: None, orphans: None };
        if self.drift.is_none() {
            self.decide_pruning_of_rest(cluster, live, &mut decided);
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
            Some(drift) => self.find_drift(drift, cluster, live, kind, decided),
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
    fn find_drift(
        &self,
        drift: &DriftRules<'_>,
        cluster: &Cluster,
        live: &LiveObjects,
        kind: &KindLookup<'_>,
        mut decided: ClusterDecisions,
    ) -> ClusterDecisions {
        // A dump may have been made before the first apply.
        let is_member = self.settings.is_member();
        let has_apply_set = self.settings.dry_run.asks_server()
            || live.cluster_objects(&cluster.name).iter().any(|object| is_member(&object.body));
        let known = ClusterView { cluster, live, kind, settings: &self.settings, has_apply_set };
        decided.decisions = std::mem::take(&mut decided.decisions)
            .into_par_iter()
            .filter_map(|decision| drift.decide_rendered(decision, &known))
            .collect();
        self.decide_pruning_of_rest(cluster, live, &mut decided);
        decided
    }

    /// Adds the decisions about managed objects that are no longer rendered, where the rendering is complete.
    fn decide_pruning_of_rest(&self, cluster: &Cluster, live: &LiveObjects, decided: &mut ClusterDecisions) {
        if !self.incomplete {
            let held = self.rendering.not_sent.iter().filter(|held| held.clusters.contains(&cluster.name));
            let held = held.map(|held| object_key(&held.object));
            let wanted = self.rendered_objects(cluster);
            let keep = wanted.iter().map(|desired| object_key(&desired.object)).chain(held).collect();
            let candidates = PruneCandidates { keep, placements: self.placements_by_object() };
            let (more, too_many) = self.decide_candidates(cluster, live, &candidates);
            decided.stopped = too_many.filter(|_| self.drift.is_none());
            let sent = more.iter().filter_map(|decision| decision.request.as_ref());
            let gone = sent.filter(|send| matches!(send, WriteRequest::Delete { .. })).count();
            decided.orphans = Some(self.prune_candidates(cluster, live, &candidates).count() - gone);
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

    /// The objects that are rendered for a cluster.
    pub(super) fn rendered_objects(&self, cluster: &Cluster) -> Vec<&DesiredObject> {
        self.desired.iter().filter(|desired| desired.clusters.binary_search(&cluster.name).is_ok()).collect()
    }

    /// The rows of the plan, by object.
    pub(super) fn placements_by_object(&self) -> BTreeMap<&ObjectRef, &Placement> {
        self.rendering.plan.placements.iter().map(|row| (&row.object, row)).collect()
    }

    /// Decides about managed objects that are no longer rendered. The second value says why pruning exceeds the
    /// limit, if it does.
    fn decide_candidates(
        &self,
        cluster: &Cluster,
        live: &LiveObjects,
        candidates: &PruneCandidates<'_>,
    ) -> (Vec<ObjectDecision>, Option<String>) {
        let may = self.prune.map(|prune| self.decide_pruning(cluster, live, candidates, prune));
        let (may, too_many) = may.map_or((None, None), |(may, too_many)| (Some(may), too_many));
        let Some(drift) = &self.drift else { return (may.unwrap_or_default(), too_many) };
        let (all, _) = self.decide_pruning(cluster, live, candidates, &PruneOptions::without_limits());
        let mut drifted = Vec::new();
        for (at, decision) in all.into_iter().enumerate() {
            // Both lists have the same objects in the same order.
            let may = may.as_ref().and_then(|may| may.get(at)).cloned();
            drifted.extend(drift.decide_pruning_of_rest(decision, may));
        }
        (drifted, too_many)
    }

    fn decide_rendered(
        &self,
        cluster: &Cluster,
        desired: &DesiredObject,
        placement: Option<&Placement>,
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
            control_plane: &PlacedObjectQuery { context: self, cluster, desired, placement, live: there },
            keeps_applied: placement.is_some_and(|row| self.engine.keeps_applied(row, cluster)),
        };
        decide_object(&input, &self.settings)
    }

    /// What the control plane does about a live object that counts as its own.
    fn action_for_managed(
        &self,
        cluster: &Cluster,
        placement: &Placement,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
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
    fn prune_candidates<'l>(
        &self,
        cluster: &Cluster,
        live: &'l LiveObjects,
        candidates: &PruneCandidates<'_>,
    ) -> impl Iterator<Item = &'l Object> {
        let is_member = self.settings.is_member();
        // Most objects are rendered.
        let others = live
            .cluster_objects(&cluster.name)
            .iter()
            .filter(|o| !candidates.keep.contains(&object_key(&o.id)));
        others.filter(move |object| is_member(&object.body))
    }

    /// Keeps namespaces and CRDs whose deletion would delete an object that its annotation keeps.
    fn keep_namespaces(
        &self,
        cluster: &Cluster,
        live: &LiveObjects,
        candidates: &PruneCandidates<'_>,
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
        let mut objects = self.prune_candidates(cluster, live, candidates);
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
        candidates: &PruneCandidates<'_>,
        prune: &PruneOptions,
    ) -> (Vec<ObjectDecision>, Option<String>) {
        let mut decisions: Vec<ObjectDecision> = self
            .prune_candidates(cluster, live, candidates)
            .map(|object| {
                let preserved = candidates
                    .placements
                    .get(&object.id)
                    .and_then(|row| self.action_for_managed(cluster, row, Some(object)));
                let released =
                    preserved.is_some_and(|action| matches!(action.op, federate_dialect::SyncOp::Release(_)));
                match reason_to_keep(object, prune) {
                    Some(reason) => keep_object(cluster, object, reason),
                    None if released => {
                        keep_object(cluster, object, "its policy preserves it in the clusters".to_owned())
                    }
                    None => delete_object(cluster, object),
                }
            })
            .collect();
        self.keep_namespaces(cluster, live, candidates, &mut decisions);
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
    /// The row of the object, if a control plane places it.
    placement: Option<&'q Placement>,
    live: Option<&'q Object>,
}

impl ControlPlaneQuery for PlacedObjectQuery<'_> {
    fn action_for_managed(&self) -> Option<ControlPlaneAction> {
        let action = self.context.action_for_managed(self.cluster, self.placement?, self.live)?;
        Some(self.desired.reveal_action(action))
    }

    fn action_by_marks(&self) -> Option<ControlPlaneAction> {
        let live = self.live.map(with_all_fields);
        let action = self.context.engine.reconcile_object(self.placement?, self.cluster, live.as_ref())?;
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
    }
}

fn build_action(cluster: &Cluster, object: &Object, kind: ActionKind, reason: Option<String>) -> Action {
    Action { reason, ..Action::new(&cluster.name, &object.id, kind) }
}
