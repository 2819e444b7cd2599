//! Objects that several placements select: one row of the plan for each object, which remembers whose
//! clusters are whose.
//!
//! Facts: placements do not merge. Where two of them send one object to one cluster, the one that came
//! first owns it there, and the other fails.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use federate_dialect::{Decided, Placement};
use federate_kubernetes::{ClusterName, Finding, ObjectRef};
use federate_repo::Repo;

/// The key of a row's memory.
const PLACEMENTS: &str = "placements";

/// Leaves one row for each object.
pub(super) fn join(repo: &Repo, decided: Decided) -> Decided {
    let Decided { placements, mut findings, shared } = decided;
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
    Decided { placements, findings, shared }
}

fn joined(repo: &Repo, mut rows: Vec<Placement>, findings: &mut Vec<Finding>) -> Placement {
    let mut first = rows.remove(0);
    let mut parts = vec![part(&first)];
    for mut row in rows {
        let (twice, own): (Vec<_>, Vec<_>) =
            row.clusters.iter().cloned().partition(|placed| first.clusters.has(&placed.name));
        if !twice.is_empty() {
            let names: Vec<&str> = twice.iter().map(|placed| placed.name.as_ref()).collect();
            findings.extend(in_duplicate(repo, &first, &row, &names));
        }
        row.clusters = own.into();
        parts.push(part(&row));
        first.clusters.extend(row.clusters.iter().cloned());
        first.unschedulable = first.unschedulable.filter(|_| row.unschedulable.is_some());
    }
    first.memory.insert(PLACEMENTS.to_owned(), Value::Array(parts));
    first
}

fn part(row: &Placement) -> Value {
    let clusters: Vec<&str> = row.clusters.iter().map(|placed| placed.name.as_ref()).collect();
    json!({"policy": row.policy, "clusters": clusters})
}

fn in_duplicate(repo: &Repo, first: &Placement, second: &Placement, clusters: &[&str]) -> Option<Finding> {
    let (first_policy, second_policy) = (first.policy.as_ref()?, second.policy.as_ref()?);
    let claimed = repo.claimed.iter().find(|c| c.object.id == *second_policy)?;
    let message = format!(
        "{} is placed on {} by both {first_policy} and {second_policy}",
        first.object,
        federate_kubernetes::finding::list(clusters, 3)
    );
    Some(
        Finding::error("placed-in-duplicate", &claimed.object, message).at("/spec/resourceSelectors").help(
            "the one that is applied first would own it, and the other fail: let one of them select it",
        ),
    )
}

/// Which placements send a row's object, and where to.
pub(super) fn parts(row: &Placement) -> Vec<(ObjectRef, Vec<ClusterName>)> {
    let parts = row.memory.get(PLACEMENTS).and_then(Value::as_array);
    let read = |part: &Value| {
        let policy = serde_json::from_value(part.get("policy")?.clone()).ok()?;
        let names = part.get("clusters")?.as_array()?.iter().filter_map(Value::as_str);
        Some((policy, names.map(ClusterName::from).collect()))
    };
    match (parts, &row.policy) {
        (Some(parts), _) => parts.iter().filter_map(read).collect(),
        (None, Some(policy)) => {
            vec![(policy.clone(), row.clusters.iter().map(|placed| placed.name.clone()).collect())]
        }
        (None, None) => Vec::new(),
    }
}
