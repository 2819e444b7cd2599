//! Objects that several placements select: each has one row of the plan, which stores the clusters by
//! placement.
//!
//! Facts: placements do not merge. Where two of them send one object to one cluster, the one that was there first owns it
//! there for as long as it sends it, and the other fails. Where both are new, the first one by name counts.

use std::collections::{BTreeMap, HashMap};

use super::state::{KubeFleetState, PlacementShare};
use federate_dialect::{DialectDecisions, Placed, Placement, PreviousPlan};
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef, work};
use federate_repo::Repo;

/// The steps of a cluster in rows that are joined.
const STEPS_PER_CLUSTER: u64 = 4;

/// Joins the rows of each object into one.
pub(super) fn join_rows(repo: &Repo, decided: DialectDecisions, previous: &PreviousPlan) -> DialectDecisions {
    let DialectDecisions { placements, mut findings, shared, depends } = decided;
    let claimed: HashMap<&ObjectRef, &Object> =
        repo.claimed.iter().map(|claimed| (&claimed.object.id, &claimed.object)).collect();
    let mut rows: BTreeMap<ObjectRef, Vec<Placement>> = BTreeMap::new();
    for row in placements {
        rows.entry(row.object.clone()).or_default().push(row);
    }
    let placements = rows.into_values().take_while(|_| !work::is_exceeded()).flat_map(|mut rows| {
        if rows.len() > 1 {
            let clusters: usize = rows.iter().map(|row| row.clusters.len()).sum();
            work::charge_steps(STEPS_PER_CLUSTER * clusters as u64);
            let owners = rows
                .first()
                .and_then(|row| previous.find_row(&row.object))
                .map(read_shares)
                .unwrap_or_default();
            rows = vec![join_object_rows(&claimed, rows, &owners, &mut findings)];
        }
        rows
    });
    let placements = placements.collect();
    DialectDecisions { placements, findings, shared, depends }
}

/// Joins the rows of one object. `owners` has the clusters that each placement sent it to before.
fn join_object_rows(
    claimed: &HashMap<&ObjectRef, &Object>,
    mut rows: Vec<Placement>,
    owners: &[PlacementShare],
    findings: &mut Vec<Finding>,
) -> Placement {
    let mut owners_before: HashMap<&ClusterName, &ObjectRef> = HashMap::new();
    for share in owners {
        for name in &share.clusters {
            owners_before.entry(name).or_insert(&share.policy);
        }
    }
    let mut owned: BTreeMap<&ClusterName, usize> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        for Placed { name, .. } in &row.clusters {
            let before = owners_before.get(name);
            let is_owner = before.is_some_and(|before| row.policy.as_ref() == Some(before));
            if is_owner || !owned.contains_key(name) {
                owned.insert(name, index);
            }
        }
    }
    let owned: BTreeMap<ClusterName, usize> =
        owned.into_iter().map(|(name, index)| (name.clone(), index)).collect();
    for (loser, row) in rows.iter().enumerate() {
        let mut lost: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for Placed { name, .. } in &row.clusters {
            if let Some(winner) = owned.get(name).filter(|winner| **winner != loser) {
                lost.entry(*winner).or_default().push(name);
            }
        }
        for (winner, clusters) in lost {
            findings.extend(
                rows.get(winner).and_then(|winner| duplicate_finding(claimed, winner, row, &clusters)),
            );
        }
    }
    for (index, row) in rows.iter_mut().enumerate() {
        let own = row.clusters.iter().filter(|placed| owned.get(&placed.name) == Some(&index));
        row.clusters = own.cloned().collect::<Vec<_>>().into();
    }
    let shares: Vec<PlacementShare> = rows.iter().filter_map(read_share).collect();
    let mut first = rows.remove(0);
    for row in rows {
        first.clusters.extend(row.clusters.iter().cloned());
        first.unschedulable = first.unschedulable.filter(|_| row.unschedulable.is_some());
    }
    KubeFleetState { placements: Some(shares), ..KubeFleetState::from_row(&first) }.write_to(&mut first);
    first
}

fn read_share(row: &Placement) -> Option<PlacementShare> {
    let clusters = row.clusters.iter().map(|placed| placed.name.clone()).collect();
    Some(PlacementShare { policy: row.policy.clone()?, clusters })
}

fn duplicate_finding(
    claimed: &HashMap<&ObjectRef, &Object>,
    owner: &Placement,
    other: &Placement,
    clusters: &[&str],
) -> Option<Finding> {
    let (owner_policy, other_policy) = (owner.policy.as_ref()?, other.policy.as_ref()?);
    let claimed = claimed.get(other_policy)?;
    let message = format!(
        "{} is placed on {} by both {owner_policy} and {other_policy}",
        owner.object,
        federate_kubernetes::finding::join_names(clusters, 3)
    );
    Some(Finding::error("placed-in-duplicate", claimed, message).with_pointer("/spec/resourceSelectors").with_help(
        "the first placement that is applied owns it, and the other fails: select it in only one of them",
    ))
}

/// The placements that send a row's object, each with its clusters.
pub(super) fn read_shares(row: &Placement) -> Vec<PlacementShare> {
    KubeFleetState::from_row(row).placements.unwrap_or_else(|| read_share(row).into_iter().collect())
}
