//! The rolling update of a placement over time, for scenarios: bindings are released and removed as far as
//! `maxSurge` and `maxUnavailable` permit.
//!
//! A scenario carries the rollout out as the loop does, with times of its own. Assumptions: before the scenario every cluster has the resources and
//! is available, a new one is available after `unavailablePeriodSeconds`, and a cluster that has left counts as available
//! until its binding is removed, because nobody updates its conditions.

use std::collections::BTreeSet;

use federate_dialect::{
    AwaitedClusters, ClusterReleaseTimes, ClusterRollout, Placement, PolicyResources, PolicyRollout,
    RolloutMoment, RolloutOutcome,
};
use jiff::Timestamp;

use super::api::{is_external, read_rolling_update};
use super::controller::RolloutController;
use crate::shared_objects;

/// Continues a rollout. `carrying` has the placement's row with the clusters that the scheduler picked, and `released` are
/// the clusters with a bound binding, or with an unscheduled one if they are not picked any more.
pub(crate) fn roll_out(
    carrying: &RolloutController<'_>,
    released: &ClusterReleaseTimes,
    seconds: i64,
) -> Option<RolloutOutcome> {
    let placement = carrying.placement;
    let mut released = released.clone();
    if is_external(placement) {
        return Some(RolloutOutcome { released, next: None });
    }
    let period = read_rolling_update(placement).ok()?.unavailable_period_seconds();
    let (resources, approvals) = (PolicyResources::default(), BTreeSet::new());
    let moment = RolloutMoment {
        now: Timestamp::from_second(seconds).ok()?,
        rolling: true,
        revision: "",
        resources: &resources,
        approvals: &approvals,
    };
    let mut rollout = PolicyRollout::new(placement.id.clone());
    for (cluster, since) in &released {
        let available = Timestamp::from_second(since + period).ok();
        let available = available.filter(|available| *available <= moment.now);
        rollout.clusters.insert(cluster.clone(), ClusterRollout { available, ..ClusterRollout::default() });
    }
    loop {
        let round = carrying.release_next_batch(&mut rollout, &moment).ok()?;
        if round.update.is_empty() {
            let next = released.values().map(|since| since + period).filter(|end| *end > seconds).min();
            return Some(RolloutOutcome { released, next: next.filter(|_| round.need_roll) });
        }
        for cluster in round.update {
            // A scheduled binding is bound, an unscheduled one is removed.
            if released.remove(&cluster).is_some() {
                rollout.clusters.remove(&cluster);
            } else {
                released.insert(cluster, seconds);
            }
        }
    }
}

/// A row without the clusters to which its placements have not released it; `None` if there are none.
pub(crate) fn without_awaited(row: &Placement, awaited: &AwaitedClusters) -> Option<Placement> {
    let mut awaited_here = BTreeSet::new();
    for share in shared_objects::read_shares(row) {
        let clusters = awaited.get(&share.policy).into_iter().flatten();
        awaited_here.extend(clusters.filter(|cluster| share.clusters.contains(cluster)));
    }
    if !row.clusters.iter().any(|placed| awaited_here.contains(&placed.name)) {
        return None;
    }
    let mut row = row.clone();
    let left = row.clusters.iter().filter(|placed| !awaited_here.contains(&placed.name));
    row.clusters = left.cloned().collect::<Vec<_>>().into();
    Some(row)
}

#[cfg(test)]
mod tests {
    use federate_dialect::Placed;

    use federate_kubernetes::{Object, ObjectRef};
    use federate_repo::Repo;
    use serde_json::{Value, json};

    use super::*;
    use crate::KubeFleetBehaviour;

    /// The clusters that are new, with the second of their release, and when the rollout goes on; after each round.
    fn rounds(strategy: &Value, picked: &[&str], had: &[&str]) -> Vec<String> {
        let policy = json!({"placementType": "PickN", "numberOfClusters": 4});
        let body = json!({"spec": {"policy": policy, "strategy": strategy}});
        let api = "placement.kubernetes-fleet.io/v1";
        let object = Object::from_path(api, "ClusterResourcePlacement", "p", body);
        let id: ObjectRef = object.id.clone();
        let mut row = Placement::new("kubefleet", id.clone(), Some(id));
        row.clusters = picked.iter().map(|name| Placed { name: (*name).into(), replicas: None }).collect();
        let mut released: ClusterReleaseTimes = had.iter().map(|name| ((*name).into(), -1000)).collect();
        let (mut all, mut seconds) = (Vec::new(), 0);
        loop {
            let carrying = RolloutController {
                repo: &Repo::default(),
                clusters: &[],
                placement: &object,
                row: &row,
                trackable: true,
                behaviour: KubeFleetBehaviour::for_newest(),
            };
            let done = roll_out(&carrying, &released, seconds).unwrap();
            released = done.released;
            let new = released.iter().filter(|(_, since)| **since >= 0);
            let new: Vec<String> = new.map(|(name, since)| format!("{name} at {since}")).collect();
            all.push(format!("{}, then {:?}", new.join(" "), done.next));
            match done.next {
                Some(next) => seconds = next,
                None => return all,
            }
        }
    }

    #[test]
    fn clusters_are_replaced_as_the_budget_permits() {
        // Half of the clusters have left.
        let (had, picked) = (["a", "b", "c", "d"], ["a", "b", "e", "f"]);
        // One cluster may be bound above the target, and removing the first binding makes room for the second.
        let quarter = rounds(&json!({"type": "RollingUpdate"}), &picked, &had);
        assert_eq!(quarter, ["e at 0 f at 0, then Some(60)", "e at 0 f at 0, then None"]);
        let one =
            json!({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0, "unavailablePeriodSeconds": 30}});
        let one = rounds(&one, &picked, &had);
        assert_eq!(one, ["e at 0, then Some(30)", "e at 0 f at 30, then None"]);
    }

    #[test]
    fn without_a_budget_nothing_is_ever_replaced() {
        let (had, picked) = (["a", "b", "c", "d"], ["a", "b", "c", "e"]);
        let still = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}});
        assert_eq!(rounds(&still, &picked, &had), [", then None"]);
        assert_eq!(rounds(&json!({"type": "External"}), &picked, &had), [", then None"]);
    }
}
