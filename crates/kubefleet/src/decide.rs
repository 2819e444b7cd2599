//! One placement's decision: the rows that it had, the scheduling cycle over them, and the rows that
//! it has then, as placement and memory.
//!
//! Facts: a row whose cluster is gone or leaving is dropped whatever else happens. Rows are obsolete
//! when the policy has changed in more than the number of clusters. When a cycle is aborted, or what is
//! selected is in error, everything stays.

use serde_json::{Value, json};

use super::api::Policy;
use super::failure::Failure;
use super::schedule::{Outcome, Request, Row, Rows, Scores, State, schedule};
use super::{KubeFleets, NAME, Subject};
use federate_dialect::{Decided, Memory, Placed, Placement, Previous, Unschedulable};
use federate_kubernetes::{Cluster, Finding, ObjectRef};

/// The keys of a placement's memory.
pub(super) const POLICY: &str = "policy";
pub(super) const BINDINGS: &str = "bindings";

/// Says of a binding in the memory that it was made under a policy before the one that is remembered.
pub(super) const OBSOLETE: &str = "obsolete";

/// Nothing to place on.
const NONE_PICKED: &str = "NoClusterPicked";

/// A placement's rows before and after.
pub(super) struct Decision<'p, 'a> {
    plane: &'p KubeFleets<'a>,
    subject: &'p Subject<'a>,
    /// The rows before, without those of clusters that are gone.
    pub(super) before: Before,
    pub(super) outcome: Result<Outcome, Failure>,
}

/// The rows of the previous plan.
pub(super) struct Before {
    pub(super) rows: Vec<Option<Row>>,
    /// The policy that they were made under, as written.
    policy: Option<Value>,
    /// Whether that still counts as the same policy.
    pub(super) same: bool,
    /// The rows that were made under a policy before that one.
    obsolete: Vec<bool>,
}

impl Before {
    fn new(subject: &Subject<'_>, clusters: &[Cluster], previous: Option<&Placement>) -> Self {
        let policy = previous.and_then(|p| p.memory.get(POLICY)).cloned();
        // Without word of an earlier policy the rows are taken for this one's.
        let same = policy
            .as_ref()
            .is_none_or(|old| Policy::read(Some(old)).is_ok_and(|old| subject.policy.same_snapshot(&old)));
        let bindings = previous.and_then(|p| p.memory.get(BINDINGS)).and_then(Value::as_array);
        let mut rows = vec![None; clusters.len()];
        let mut obsolete = vec![false; clusters.len()];
        for placed in previous.map_or(&[][..], |p| &p.clusters) {
            let Ok(index) = clusters.binary_search_by(|c| c.name.cmp(&placed.name)) else { continue };
            let binding = bindings.into_iter().flatten().find(|b| b["cluster"] == placed.name.as_ref());
            if let (Some(row), Some(cluster)) = (rows.get_mut(index), clusters.get(index))
                && !cluster.deleting
            {
                *row = remembered(binding);
            }
            if let (Some(obsolete), Some(binding)) = (obsolete.get_mut(index), binding) {
                *obsolete = binding.get(OBSOLETE).and_then(Value::as_bool) == Some(true);
            }
        }
        Self { rows, policy, same, obsolete }
    }

    /// Notes in rows as they are remembered which of them were obsolete before.
    fn mark_obsolete(&self, clusters: &[Cluster], bindings: &mut [Value]) {
        for (cluster, _) in clusters.iter().zip(&self.obsolete).filter(|(_, is_obsolete)| **is_obsolete) {
            if let Some(binding) = bindings.iter_mut().find(|b| b["cluster"] == *cluster.name) {
                binding[OBSOLETE] = true.into();
            }
        }
    }

    fn split(&self) -> Rows {
        let mut rows = Rows { current: self.rows.clone(), obsolete: vec![None; self.rows.len()] };
        if !self.same {
            std::mem::swap(&mut rows.current, &mut rows.obsolete);
            return rows;
        }
        let both = rows.current.iter_mut().zip(&mut rows.obsolete).zip(&self.obsolete);
        for ((current, obsolete), _) in both.filter(|(_, is_obsolete)| **is_obsolete) {
            std::mem::swap(current, obsolete);
        }
        rows
    }
}

/// A row as remembered; `None` where it is on its way out already.
fn remembered(binding: Option<&Value>) -> Option<Row> {
    let Some(binding) = binding else { return Some(Row { state: State::Bound, scores: None }) };
    let state = match binding.get("state").and_then(Value::as_str) {
        Some("Unscheduled") => return None,
        Some("Scheduled") => State::Scheduled,
        _ => State::Bound,
    };
    let score = |key: &str| binding.get(key).and_then(Value::as_i64);
    let scores = score("topologySpreadScore").zip(score("affinityScore"));
    Some(Row { state, scores: scores.map(|(topology, affinity)| Scores { topology, affinity }) })
}

impl<'p, 'a> Decision<'p, 'a> {
    pub(super) fn new(plane: &'p KubeFleets<'a>, subject: &'p Subject<'a>, previous: &Previous) -> Self {
        let clusters = plane.input.clusters;
        let before = Before::new(subject, clusters, previous.of(&subject.object.id));
        let namespace = subject.object.id.namespace.as_deref();
        let request = Request { policy: &subject.policy, namespace, clusters, now: plane.input.now };
        let outcome = match &subject.selected {
            Ok(_) => schedule(&request, before.split()),
            Err(failure) => Err(failure.clone()),
        };
        Self { plane, subject, before, outcome }
    }

    /// The rows after it, by cluster.
    pub(super) fn rows(&self) -> &[Option<Row>] {
        self.outcome.as_ref().map_or(&self.before.rows, |outcome| &outcome.rows)
    }

    pub(super) fn placed(&self) -> impl Iterator<Item = (&'a Cluster, Row)> {
        let rows = self.plane.input.clusters.iter().zip(self.rows());
        rows.filter_map(|(cluster, row)| Some((cluster, (*row)?)))
    }

    /// The row of the placement itself, or of an object that it selects.
    pub(super) fn placement(&self, object: &ObjectRef) -> Placement {
        let own = &self.subject.object.id;
        let mut placement = Placement::new(NAME, object.clone(), Some(own.clone()));
        placement.clusters =
            self.placed().map(|(c, _)| Placed { name: c.name.clone(), replicas: None }).collect();
        placement.unschedulable = self.unschedulable();
        if object == own {
            placement.memory = self.memory();
        }
        placement
    }

    fn unschedulable(&self) -> Option<Unschedulable> {
        let (reason, message) = match &self.outcome {
            Err(failure) => (failure.reason, failure.message.clone()),
            Ok(_) if self.placed().next().is_some() => return None,
            Ok(_) => (NONE_PICKED, "the scheduling policy picks no cluster".to_owned()),
        };
        Some(Unschedulable { reason: reason.to_owned(), message })
    }

    fn memory(&self) -> Memory {
        let written = self.subject.object.at(&["spec", "policy"]).filter(|p| !p.is_null());
        let current = || written.cloned().unwrap_or_else(|| json!({"placementType": "PickAll"}));
        let policy = match (&self.outcome, &self.before.policy) {
            // The rows are still those of the policy before.
            (Err(_), Some(before)) => before.clone(),
            _ => current(),
        };
        let mut bindings: Vec<Value> = self.placed().map(|(cluster, row)| binding(cluster, row)).collect();
        if self.outcome.is_err() {
            self.before.mark_obsolete(self.plane.input.clusters, &mut bindings);
        }
        Memory::from_iter([(POLICY.to_owned(), policy), (BINDINGS.to_owned(), bindings.into())])
    }

    /// What is to be told of it; the errors of one that is refused say more.
    fn findings(&self) -> Vec<Finding> {
        if !self.subject.admitted {
            return Vec::new();
        }
        let object = self.subject.object;
        if self.subject.selected.is_err() {
            // Told where it was selected.
            return Vec::new();
        }
        let message = match (&self.outcome, self.unschedulable()) {
            (_, Some(Unschedulable { reason, message })) => format!("{reason}: {message}"),
            (Ok(outcome), None) if !outcome.fulfilled => format!(
                "could not find all the clusters needed as specified by the scheduling policy, found {}",
                self.placed().count()
            ),
            _ => return Vec::new(),
        };
        let help = format!("`federate explain {}/{}` shows every cluster", object.id.kind, object.id.name);
        vec![Finding::warning("unschedulable", object, message).help(help)]
    }
}

fn binding(cluster: &Cluster, row: Row) -> Value {
    let state = match row.state {
        State::Scheduled => "Scheduled",
        State::Bound => "Bound",
    };
    match row.scores {
        None => json!({"cluster": *cluster.name, "state": state}),
        Some(Scores { topology, affinity }) => json!({
            "cluster": *cluster.name,
            "state": state,
            "affinityScore": affinity,
            "topologySpreadScore": topology,
        }),
    }
}

/// Decides about one placement and all that it selects.
pub(super) fn decide<'a>(plane: &KubeFleets<'a>, subject: &Subject<'a>, previous: &Previous) -> Decided {
    let decision = Decision::new(plane, subject, previous);
    let objects = std::iter::once(&subject.object.id).chain(subject.selected());
    Decided {
        placements: objects.map(|object| decision.placement(object)).collect(),
        findings: decision.findings(),
        ..Decided::default()
    }
}
