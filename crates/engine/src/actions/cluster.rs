//! The decisions about everything in one cluster: what is wanted there, and what is ours and no longer
//! wanted.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde_json::Value;

use super::autoscaled::Autoscalers;
use super::controlled::remove_controlled;
use super::decide::{CachedCreate, Decision, Rules, Send, Target, decide};
use super::drift::{Drift, Known};
use super::{Action, ActionKind, Outcome};
use crate::{Engine, Manifest, Rendering};
use federate_apiserver::Kind;
use federate_dialect::{ClusterNames, Placement};
use federate_kubernetes::{Cluster, Live, Object, ObjectRef};

/// Objects of these kinds hold what cannot be made again, or take others with them.
const KEPT_KINDS: [&str; 3] = ["Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"];

/// On an object that stays when it is no longer wanted: `disabled`.
const PRUNE: &str = "federate.dev/prune";

/// An object that is wanted in some clusters, as it is rendered.
#[derive(Clone, Debug)]
pub struct Desired {
    /// Its identity.
    pub object: ObjectRef,
    /// The clusters, sorted by name.
    pub clusters: ClusterNames,
    /// Its body.
    pub body: Value,
    /// What it is where it is new.
    cached_create: CachedCreate,
}

/// Reads what is rendered, as it is sent, once for all clusters that share it.
pub fn desired(manifests: &[Manifest]) -> Vec<Desired> {
    let read = |manifest: &Manifest| {
        let mut body = federate_yaml::read(manifest.text.as_bytes()).documents.pop()?.value;
        prepare(&mut body);
        let clusters = manifest.clusters.clone();
        Some(Desired {
            object: manifest.object.clone(),
            clusters,
            body,
            cached_create: CachedCreate::default(),
        })
    };
    manifests.par_iter().filter_map(read).collect()
}

/// Makes of a rendered object what is sent. Text of a Secret is sent as data: of what a server makes of
/// `stringData` it does not remember the owner, so that a key would stay when it is no longer rendered.
pub(super) fn prepare(body: &mut Value) {
    remove_controlled(body);
    let is = |key: &str, value: &str| body.get(key).is_some_and(|found| found == value);
    let texts = body.get("stringData").and_then(Value::as_object);
    // What is not text the API server refuses.
    if is("kind", "Secret")
        && is("apiVersion", "v1")
        && texts.is_some_and(|t| t.values().all(Value::is_string))
    {
        federate_apiserver::encode_string_data(body);
    }
}

/// What may be deleted.
#[derive(Clone, Debug)]
pub struct Prune {
    /// Kinds that are deleted although they hold what cannot be made again.
    pub kinds: Vec<String>,
    /// The most of a cluster's objects that a run may delete, in percent.
    pub limit: usize,
}

impl Prune {
    /// Everything may be.
    fn all() -> Self {
        Self { kinds: KEPT_KINDS.into_iter().chain(["Secret"]).map(str::to_owned).collect(), limit: 100 }
    }

    /// Whether objects of a kind are deleted when they are no longer wanted.
    pub fn takes(&self, kind: &str) -> bool {
        !KEPT_KINDS.contains(&kind) || self.kinds.iter().any(|name| name == kind)
    }

    /// Why so many of all objects are too many. Everything at once is the sign of a mistake, however few
    /// there are.
    fn refuses(&self, deleted: usize, all: usize) -> Option<String> {
        let share = self.limit;
        let too_many = deleted * 100 > all * share || (deleted > 0 && deleted == all && share < 100);
        too_many.then(|| {
            format!(
                "{deleted} of the {all} objects that are ours would be deleted, and more than {share} % at once \
                 may be a mistake; --prune-limit 100 confirms it"
            )
        })
    }
}

/// Everything that decisions about clusters need besides what runs.
pub struct Deciding<'d> {
    /// The control planes.
    pub engine: &'d Engine<'d>,
    /// The plan.
    pub rendering: &'d Rendering,
    /// What is wanted.
    pub desired: &'d [Desired],
    /// How.
    pub rules: &'d Rules<'d>,
    /// What may be deleted; nothing when `None`, or when the rendering is incomplete.
    pub prune: Option<&'d Prune>,
    /// Whether errors, also those of reading the repo, keep the rendering from being complete: what is missing from it
    /// may be wanted all the same.
    pub incomplete: bool,
    /// Only drift is decided about, in place of all that differs.
    pub drift: Option<&'d Drift<'d>>,
}

/// What was decided about a cluster.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// Sorted by object.
    pub decisions: Vec<Decision>,
    /// Why nothing at all is done in the cluster.
    pub stopped: Option<String>,
}

/// What is known of the kinds of a cluster.
pub type Kinds<'k> = dyn Fn(&ObjectRef) -> Kind + Sync + 'k;

/// What tells objects apart in a cluster, whatever their version.
type Key<'o> = (&'o str, &'o str, Option<&'o str>, &'o str);

/// By what is known whether something is no longer wanted.
struct Surplus<'s> {
    /// What is.
    keep: BTreeSet<Key<'s>>,
    placements: BTreeMap<&'s ObjectRef, &'s Placement>,
}

fn key(id: &ObjectRef) -> Key<'_> {
    (id.group(), &id.kind, id.namespace.as_deref(), &id.name)
}

impl Deciding<'_> {
    /// Decides about everything in a cluster, from what is known here alone. `live` holds what is there; `kind` knows
    /// the kinds.
    pub fn cluster(&self, cluster: &Cluster, live: &Live, kind: &Kinds<'_>) -> Decided {
        let decided = self.decide(cluster, live, kind);
        self.finish(cluster, live, kind, decided)
    }

    /// Decides about everything in a cluster, as a first step: what API servers answer to dry runs may change it.
    pub fn decide(&self, cluster: &Cluster, live: &Live, kind: &Kinds<'_>) -> Decided {
        let placements = self.placements();
        let wanted = self.wanted(cluster);
        let rendered = wanted.iter().map(|desired| (&desired.object, &desired.body));
        let there = live.objects(&cluster.name).iter().map(|object| (&object.id, &object.body));
        let autoscalers = Autoscalers::of(there.chain(rendered));
        let one = |desired: &&Desired| {
            let id = &desired.object;
            let there = live.get(&cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
            self.one(cluster, desired, placements.get(id).copied(), there, (&kind(id), &autoscalers))
        };
        let mut decided = Decided { decisions: wanted.par_iter().map(one).collect(), stopped: None };
        if self.drift.is_none() {
            self.decide_surplus(cluster, live, &mut decided);
        }
        decided
    }

    /// Decides anew about an object of which the API server says what an apply makes of it, or why it refuses that.
    pub fn answered(
        &self,
        decision: &mut Decision,
        live: Option<&Value>,
        kind: &Kind,
        answer: Result<Value, String>,
    ) {
        match answer {
            Ok(answer) => decision.answered(live, answer, kind, self.rules),
            Err(why) => decision.denied(live, why, kind, self.rules),
        }
    }

    /// Completes the decisions: where only drift is asked for, leaves out everything else.
    pub fn finish(&self, cluster: &Cluster, live: &Live, kind: &Kinds<'_>, mut decided: Decided) -> Decided {
        let Some(drift) = self.drift else { return decided };
        let known = Known { cluster, live, kind, rules: self.rules };
        decided.decisions = std::mem::take(&mut decided.decisions)
            .into_par_iter()
            .filter_map(|decision| drift.wanted(decision, &known))
            .collect();
        self.decide_surplus(cluster, live, &mut decided);
        decided
    }

    /// Adds the decisions about what is ours and no longer wanted, where the rendering says what is.
    fn decide_surplus(&self, cluster: &Cluster, live: &Live, decided: &mut Decided) {
        if !self.incomplete {
            let held = self.rendering.withheld.iter().filter(|held| held.clusters.contains(&cluster.name));
            let held = held.map(|held| key(&held.object));
            let wanted = self.wanted(cluster);
            let keep = wanted.iter().map(|desired| key(&desired.object)).chain(held).collect();
            let surplus = Surplus { keep, placements: self.placements() };
            let (more, too_many) = self.surplus(cluster, live, &surplus);
            decided.decisions.extend(more);
            decided.stopped = too_many.filter(|_| self.drift.is_none());
        }
        // Whoever takes so much out of a repo by mistake may have changed the rest by mistake, too.
        if let Some(why) = &decided.stopped {
            for decision in &mut decided.decisions {
                decision.hold(why);
            }
        }
        decided.decisions.sort_by(|a, b| a.action.object.cmp(&b.action.object));
    }

    /// What is wanted in a cluster.
    fn wanted(&self, cluster: &Cluster) -> Vec<&Desired> {
        let is_wanted = |desired: &&Desired| desired.clusters.binary_search(&cluster.name).is_ok();
        self.desired.iter().filter(is_wanted).collect()
    }

    /// The rows of the plan, by object.
    fn placements(&self) -> BTreeMap<&ObjectRef, &Placement> {
        self.rendering.plan.placements.iter().map(|row| (&row.object, row)).collect()
    }

    /// Decides about what is ours and no longer wanted; and says where that is too much.
    fn surplus(
        &self,
        cluster: &Cluster,
        live: &Live,
        surplus: &Surplus<'_>,
    ) -> (Vec<Decision>, Option<String>) {
        let may = self.prune.map(|prune| self.pruned(cluster, live, surplus, prune));
        let (may, too_many) = may.map_or((None, None), |(may, too_many)| (Some(may), too_many));
        let Some(drift) = self.drift else { return (may.unwrap_or_default(), too_many) };
        let (all, _) = self.pruned(cluster, live, surplus, &Prune::all());
        let drifted = |(at, decision)| {
            // Both are about the same objects, in the same order.
            let may = may.as_ref().and_then(|may: &Vec<Decision>| may.get(at));
            drift.surplus(decision, may.cloned())
        };
        (all.into_iter().enumerate().filter_map(drifted).collect(), too_many)
    }

    fn one(
        &self,
        cluster: &Cluster,
        desired: &Desired,
        placement: Option<&Placement>,
        there: Option<&Object>,
        (kind, autoscalers): (&Kind, &Autoscalers),
    ) -> Decision {
        let act = |ours: bool| self.reconcile(cluster, placement?, there, ours);
        let wanted = Target {
            cluster: &cluster.name,
            object: &desired.object,
            body: &desired.body,
            kind,
            cached_create: &desired.cached_create,
            autoscalers,
            read: there.map(|object| &object.body),
            reconcile: &act,
        };
        decide(&wanted, there.map(|object| &object.body), self.rules)
    }

    /// What the control plane does about an object; what is ours it takes for its own.
    fn reconcile(
        &self,
        cluster: &Cluster,
        placement: &Placement,
        there: Option<&Object>,
        ours: bool,
    ) -> Option<federate_dialect::Action> {
        let mut marked = there.filter(|_| ours).cloned();
        if let Some(live) = &mut marked {
            self.engine.mark(placement, live);
        }
        self.engine.reconcile(placement, cluster, marked.as_ref().or(there))
    }

    /// What may be deleted of that; nothing where it is too much.
    fn pruned(
        &self,
        cluster: &Cluster,
        live: &Live,
        surplus: &Surplus<'_>,
        prune: &Prune,
    ) -> (Vec<Decision>, Option<String>) {
        let is_member = |object: &&Object| self.rules.is_member(&object.body);
        let members: Vec<&Object> = live.objects(&cluster.name).iter().filter(is_member).collect();
        let unwanted = members.iter().filter(|object| !surplus.keep.contains(&key(&object.id)));
        let mut decisions: Vec<Decision> = unwanted
            .map(|object| {
                let preserved = surplus
                    .placements
                    .get(&object.id)
                    .and_then(|row| self.reconcile(cluster, row, Some(object), true));
                let released =
                    preserved.is_some_and(|action| matches!(action.op, federate_dialect::SyncOp::Release(_)));
                match kept(object, prune) {
                    Some(reason) => stays(cluster, object, reason),
                    None if released => {
                        stays(cluster, object, "its policy preserves it in the clusters".to_owned())
                    }
                    None => goes(cluster, object),
                }
            })
            .collect();
        let deleted = decisions.iter().filter(|decision| decision.send.is_some()).count();
        let too_many = prune.refuses(deleted, members.len());
        if let Some(why) = &too_many {
            for decision in &mut decisions {
                decision.hold(why);
            }
        }
        (decisions, too_many)
    }
}

/// Why an object stays although it is no longer wanted.
fn kept(object: &Object, prune: &Prune) -> Option<String> {
    if object.annotation(PRUNE) == Some("disabled") {
        return Some(format!("its annotation {PRUNE} keeps it"));
    }
    let kind = object.id.kind.as_str();
    let token = kind == "Secret" && object.text(&["type"]) == "kubernetes.io/service-account-token";
    let named = prune.kinds.iter().any(|name| name == kind);
    ((KEPT_KINDS.contains(&kind) || token) && !named)
        .then(|| format!("objects of kind {kind} are only deleted with --prune-kinds {kind}"))
}

fn stays(cluster: &Cluster, object: &Object, reason: String) -> Decision {
    Decision { action: action(cluster, object, ActionKind::Skip, Some(reason)), send: None, refused: false }
}

fn goes(cluster: &Cluster, object: &Object) -> Decision {
    if object.deleting() {
        return stays(cluster, object, "it is being deleted already".to_owned());
    }
    let text = |field: &str| object.text(&["metadata", field]).to_owned();
    let send = Send::Delete { uid: text("uid"), resource_version: text("resourceVersion") };
    Decision { action: action(cluster, object, ActionKind::Delete, None), send: Some(send), refused: false }
}

fn action(cluster: &Cluster, object: &Object, deed: ActionKind, reason: Option<String>) -> Action {
    Action {
        cluster: cluster.name.clone(),
        object: object.id.clone(),
        action: deed,
        restarts_pods: false,
        diffs: Vec::new(),
        reason,
        outcome: Outcome::Planned,
        error: None,
        result: None,
    }
}
