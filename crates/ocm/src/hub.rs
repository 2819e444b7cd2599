//! The decisions of a hub, one evaluation at a time. The plan runs the same code until nothing changes.

use federate_dialect::{HubKinds, PlannerInput, RecordSource, RecordedKind};
use federate_kubernetes::{ClusterName, ObjectRef};

use crate::OcmPlanner;
use crate::kinds::CLUSTER_GROUP;
use crate::report::PlacementReport;
use crate::schedule::queue::{QueueRun, run_queue};
use crate::state::Decisions;

pub use crate::fleet::MemberTaint;
pub use crate::report::{NamedScores, PlacementCondition};
pub use crate::schedule::groups::{DecisionGroup, DecisionRecord};
pub use crate::schedule::predicate::UnsupportedExpression;
pub use crate::schedule::{Failure, Rejection, Skipped};

/// The kinds that the previous plan is read from, the inventory, and what describes it.
pub(crate) const HUB_KINDS: [HubKinds; 1] = [HubKinds {
    group: CLUSTER_GROUP,
    kinds: &[
        "ManagedCluster",
        "ManagedClusterSet",
        "ManagedClusterSetBinding",
        "AddOnPlacementScore",
        "PlacementDecision",
    ],
}];

/// The kinds that a snapshot records as they are. Sets and their bindings are usually in the repo, scores never.
pub(crate) const RECORDED_KINDS: [RecordedKind; 3] = [
    RecordedKind { group: CLUSTER_GROUP, kind: "ManagedClusterSet", source: RecordSource::Repo },
    RecordedKind { group: CLUSTER_GROUP, kind: "ManagedClusterSetBinding", source: RecordSource::Repo },
    RecordedKind { group: CLUSTER_GROUP, kind: "AddOnPlacementScore", source: RecordSource::ControlPlane },
];

/// The result of a queue of evaluations.
#[derive(Clone, Debug)]
pub struct HubRun {
    /// The last evaluation of each placement, sorted by namespace and name.
    pub placements: Vec<PlacementReport>,
    /// The evaluations in the order made, as `NAMESPACE/NAME` with the clusters of the decisions.
    pub evaluations: Vec<(String, Vec<ClusterName>)>,
    /// Whether the queue was empty at the end.
    pub settles: bool,
}

/// The members of a set, or the mistake in its selector.
pub type SetMembers = Result<Vec<String>, String>;

/// A cluster as the hub's own controllers leave it.
#[derive(Clone, Debug)]
pub struct ManagedInventory {
    /// The cluster.
    pub name: ClusterName,
    /// The exclusive set that it is in.
    pub set: String,
    /// Its taints.
    pub taints: Vec<MemberTaint>,
}

/// The placements of a repo on a hub.
pub struct HubModel<'a> {
    plane: OcmPlanner<'a>,
    decisions: Decisions,
}

impl<'a> HubModel<'a> {
    /// Reads the placements of a repo, and earlier decisions.
    pub fn new(input: PlannerInput<'a>) -> Self {
        let plane = OcmPlanner::new(input);
        let decisions = plane.read_decisions(input.previous);
        Self { plane, decisions }
    }

    /// Evaluates each placement at most `limit` times in all, in the order of their names or the reverse.
    pub fn run(&self, reverse: bool, limit: usize) -> HubRun {
        let mut order: Vec<usize> = (0..self.plane.placements.len()).collect();
        if reverse {
            order.reverse();
        }
        let run = run_queue(&self.plane.hub, &self.plane.placements, order, self.decisions.clone(), limit);
        self.report(&run)
    }

    /// Evaluates one placement `times` times, each time with the decisions before. Returns the last report.
    pub fn evaluate(&self, placement: &ObjectRef, times: usize) -> Option<PlacementReport> {
        let at = self.plane.placements.iter().position(|subject| subject.object.id == *placement)?;
        let mut decisions = self.decisions.clone();
        let mut last = None;
        for _ in 0..times {
            let run = run_queue(&self.plane.hub, &self.plane.placements, [at], decisions, 1);
            decisions = run.decisions.clone();
            last = self.report(&run).placements.into_iter().nth(at);
        }
        last
    }

    fn report(&self, run: &QueueRun) -> HubRun {
        let reports = self.plane.placements.iter().zip(&run.evaluations).map(|(subject, evaluation)| {
            PlacementReport::in_full(&self.plane.hub, subject, evaluation.as_ref(), &run.decisions)
        });
        let evaluations = run.history.iter().filter_map(|(at, names)| {
            let subject = self.plane.placements.get(*at)?;
            Some((subject.object.id.namespaced_name(), names.clone()))
        });
        HubRun { placements: reports.collect(), evaluations: evaluations.collect(), settles: run.settles }
    }

    /// The clusters after the hub's controllers.
    pub fn inventory(&self) -> Vec<ManagedInventory> {
        let members = self.plane.hub.fleet.members.iter();
        members
            .map(|member| ManagedInventory {
                name: member.cluster.name.clone(),
                set: member.set().to_owned(),
                taints: member.taints.clone(),
            })
            .collect()
    }

    /// The members of each set, clusters that are being deleted included.
    pub fn sets(&self) -> Vec<(String, SetMembers)> {
        let hub = &self.plane.hub;
        let members = |name: &str| {
            let members = hub.sets.members(name, &hub.fleet);
            members.map(|names| names.into_iter().map(str::to_owned).collect()).map_err(str::to_owned)
        };
        hub.sets.names().map(|name| (name.to_owned(), members(name))).collect()
    }
}
