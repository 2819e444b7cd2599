//! Objects that several placements select: each has one row of the plan, which remembers the clusters by
//! placement.
//!
//! Facts: placements do not merge. Where two of them send one object to one cluster, the first one owns it
//! there, and the other fails.

use std::collections::BTreeMap;

use super::memory::{Memory, Share};
use federate_dialect::{Decided, Placement};
use federate_kubernetes::{Finding, ObjectRef};
use federate_repo::Repo;

/// Joins the rows of each object into one.
pub(super) fn join(repo: &Repo, decided: Decided) -> Decided {
    let Decided { placements, mut findings, shared, depends } = decided;
    let mut rows: BTreeMap<ObjectRef, Vec<Placement>> = BTreeMap::new();
    for row in placements {
        rows.entry(row.object.clone()).or_default().push(row);
    }
    let placements = rows.into_values().flat_map(|mut rows| {
        if rows.len() > 1 {
            rows = vec![joined(repo, rows, &mut findings)];
        }
        rows
    });
    let placements = placements.collect();
    Decided { placements, findings, shared, depends }
}

fn joined(repo: &Repo, mut rows: Vec<Placement>, findings: &mut Vec<Finding>) -> Placement {
    let mut first = rows.remove(0);
    let mut shares: Vec<Share> = share(&first).into_iter().collect();
    for mut row in rows {
        let (twice, own): (Vec<_>, Vec<_>) =
            row.clusters.iter().cloned().partition(|placed| first.clusters.has(&placed.name));
        if !twice.is_empty() {
            let names: Vec<&str> = twice.iter().map(|placed| placed.name.as_ref()).collect();
            findings.extend(in_duplicate(repo, &first, &row, &names));
        }
        row.clusters = own.into();
        shares.extend(share(&row));
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

fn in_duplicate(repo: &Repo, first: &Placement, second: &Placement, clusters: &[&str]) -> Option<Finding> {
    let (first_policy, second_policy) = (first.policy.as_ref()?, second.policy.as_ref()?);
    let claimed = repo.claimed.iter().find(|c| c.object.id == *second_policy)?;
    let message = format!(
        "{} is placed on {} by both {first_policy} and {second_policy}",
        first.object,
        federate_kubernetes::finding::list(clusters, 3)
    );
    Some(Finding::error("placed-in-duplicate", &claimed.object, message).at("/spec/resourceSelectors").help(
        "the first placement that is applied owns it, and the other fails: select it in only one of them",
    ))
}

/// The placements that send a row's object, each with its clusters.
pub(super) fn shares(row: &Placement) -> Vec<Share> {
    Memory::of(row).placements.unwrap_or_else(|| share(row).into_iter().collect())
}
