//! Objects that several placements select: each has one row of the plan, which remembers the clusters by
//! placement.
//!
//! Facts: placements do not merge. Where two of them send one object to one cluster, the one that was there first owns it
//! there for as long as it sends it, and the other fails. Where both are new, the first one by name counts.

use std::collections::{BTreeMap, HashMap};

use super::memory::{Memory, Share};
use federate_dialect::{Decided, Placed, Placement, Previous};
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef};
use federate_repo::Repo;

/// Joins the rows of each object into one.
pub(super) fn join(repo: &Repo, decided: Decided, previous: &Previous) -> Decided {
    let Decided { placements, mut findings, shared, depends } = decided;
    let claimed: HashMap<&ObjectRef, &Object> =
        repo.claimed.iter().map(|claimed| (&claimed.object.id, &claimed.object)).collect();
    let mut rows: BTreeMap<ObjectRef, Vec<Placement>> = BTreeMap::new();
    for row in placements {
        rows.entry(row.object.clone()).or_default().push(row);
    }
    let placements = rows.into_values().flat_map(|mut rows| {
        if rows.len() > 1 {
            let owners =
                rows.first().and_then(|row| previous.of(&row.object)).map(shares).unwrap_or_default();
            rows = vec![joined(&claimed, rows, &owners, &mut findings)];
        }
        rows
    });
    let placements = placements.collect();
    Decided { placements, findings, shared, depends }
}

/// Joins the rows of one object. `owners` has the clusters that each placement sent it to before.
fn joined(
    claimed: &HashMap<&ObjectRef, &Object>,
    mut rows: Vec<Placement>,
    owners: &[Share],
    findings: &mut Vec<Finding>,
) -> Placement {
    let owner_before = |cluster: &ClusterName| {
        owners.iter().find(|share| share.clusters.contains(cluster)).map(|share| &share.policy)
    };
    let mut owned: BTreeMap<&ClusterName, usize> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        for Placed { name, .. } in &row.clusters {
            let is_owner = row.policy.is_some() && row.policy.as_ref() == owner_before(name);
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
            findings
                .extend(rows.get(winner).and_then(|winner| in_duplicate(claimed, winner, row, &clusters)));
        }
    }
    for (index, row) in rows.iter_mut().enumerate() {
        let own = row.clusters.iter().filter(|placed| owned.get(&placed.name) == Some(&index));
        row.clusters = own.cloned().collect::<Vec<_>>().into();
    }
    let shares: Vec<Share> = rows.iter().filter_map(share).collect();
    let mut first = rows.remove(0);
    for row in rows {
        first.clusters.extend(row.clusters.iter().cloned());
        first.unschedulable = first.unschedulable.filter(|_| row.unschedulable.is_some());
    }
    Memory { placements: Some(shares), ..Memory::of(&first) }.write(&mut first);
    first
}

fn share(row: &Placement) -> Option<Share> {
    let clusters = row.clusters.iter().map(|placed| placed.name.clone()).collect();
    Some(Share { policy: row.policy.clone()?, clusters })
}

fn in_duplicate(
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
        federate_kubernetes::finding::list(clusters, 3)
    );
    Some(Finding::error("placed-in-duplicate", claimed, message).at("/spec/resourceSelectors").help(
        "the first placement that is applied owns it, and the other fails: select it in only one of them",
    ))
}

/// The placements that send a row's object, each with its clusters.
pub(super) fn shares(row: &Placement) -> Vec<Share> {
    Memory::of(row).placements.unwrap_or_else(|| share(row).into_iter().collect())
}
