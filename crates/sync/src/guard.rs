//! Stops a revision that has no error but would delete so much that it may be a mistake.
//!
//! The plan is compared with the scheduler's memory before any branch or cluster is touched; `apply` checks each live
//! cluster again.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::Plan;
use federate_kubernetes::ObjectRef;

/// Why a plan may not replace an earlier one. `clusters` are those of the inventory. `limit` is the most that may be
/// deleted, in percent; without it anything but everything may be.
pub(crate) fn refuses(
    earlier: &Plan,
    later: &Plan,
    clusters: &BTreeSet<&str>,
    limit: Option<u8>,
) -> Option<String> {
    let (before, after) = (pairs(earlier), pairs(later));
    if before.is_empty() {
        return None;
    }
    if after.is_empty() {
        return Some(format!(
            "nothing is rendered any more, but {} objects were: to delete everything, remove the Sync and then \
             the objects that it has left",
            before.len()
        ));
    }
    let limit = limit?;
    let gone: Vec<&(&str, &ObjectRef)> = before.difference(&after).collect();
    if too_many(gone.len(), before.len(), limit) {
        return Some(message(gone.len(), before.len(), "", limit));
    }
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for pair in &before {
        let (gone, all) = counts.entry(pair.0).or_default();
        *all += 1;
        *gone += usize::from(!after.contains(pair));
    }
    // A cluster that has left the inventory is not touched.
    counts.into_iter().filter(|(name, _)| clusters.contains(name)).find_map(|(name, (gone, all))| {
        too_many(gone, all, limit).then(|| message(gone, all, &format!(" of cluster {name}"), limit))
    })
}

/// Whether so many are too many. Everything at once is the sign of a mistake, however few there are.
fn too_many(gone: usize, all: usize, limit: u8) -> bool {
    gone * 100 > all * usize::from(limit) || (gone > 0 && gone == all && limit < 100)
}

fn message(gone: usize, all: usize, of: &str, limit: u8) -> String {
    format!(
        "{gone} of the {all} objects{of} would go, and more than {limit} % at once may be a mistake: a higher \
         `pruneLimit` confirms it"
    )
}

/// The objects of a plan, with their clusters.
fn pairs(plan: &Plan) -> BTreeSet<(&str, &ObjectRef)> {
    let rows = plan.placements.iter();
    rows.flat_map(|row| row.clusters.iter().map(|placed| (placed.name.as_ref(), &row.object))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A plan with so many objects in each cluster.
    fn plan(counts: &[(&str, usize)]) -> Plan {
        let row = |name: &str, at: usize| {
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": format!("{name}-{at}")},
                "clusters": [{"name": name}]})
        };
        let rows: Vec<_> = counts
            .iter()
            .flat_map(|(name, count)| (0..*count).map(|at| row(name, at)).collect::<Vec<_>>())
            .collect();
        serde_json::from_value(json!({"placements": rows})).unwrap()
    }

    fn refused(earlier: &[(&str, usize)], later: &[(&str, usize)], limit: u8) -> bool {
        refuses(&plan(earlier), &plan(later), &BTreeSet::from(["m1", "m2"]), Some(limit)).is_some()
    }

    #[test]
    fn what_takes_too_much_away_is_refused() {
        assert!(!refused(&[], &[], 30), "there was nothing");
        assert!(!refused(&[], &[("m1", 3)], 30));
        assert!(refused(&[("m1", 3)], &[], 100), "nothing is left");
        assert!(!refused(&[("m1", 10)], &[("m1", 7)], 30));
        assert!(refused(&[("m1", 10)], &[("m1", 6)], 30));
        assert!(!refused(&[("m1", 10)], &[("m1", 6)], 40));
    }

    #[test]
    fn a_cluster_that_loses_everything_is_refused_unless_it_has_left() {
        let all = [("m1", 10), ("m2", 1)];
        assert!(refused(&all, &[("m1", 10)], 30));
        assert!(!refused(&all, &[("m1", 10)], 100));
        assert!(!refused(&[("m1", 10), ("left", 1)], &[("m1", 10)], 30));
        assert!(refused(&[("m1", 10), ("left", 10)], &[("m1", 10)], 30), "much of everything");
    }
}
