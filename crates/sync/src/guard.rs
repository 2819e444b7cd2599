//! What keeps a revision from being committed or applied although nothing is wrong with it by itself: it takes
//! away so much of what there was that it may be a mistake.
//!
//! Held against the scheduler's memory, before any branch or cluster is touched; `apply` looks once more at each
//! cluster as it is.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::Plan;
use federate_kubernetes::ObjectRef;

/// Why a plan is not carried out in place of an earlier one. `clusters` are those of the inventory, `limit` is the
/// most that may go, in percent; without it anything may, but not everything.
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
            "nothing is rendered any more, where {} objects were: to take everything away, remove the Sync and then \
             what it has left",
            before.len()
        ));
    }
    let limit = limit?;
    let gone: Vec<&(&str, &ObjectRef)> = before.difference(&after).collect();
    if too_many(gone.len(), before.len(), limit) {
        return Some(said(gone.len(), before.len(), "", limit));
    }
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for pair in &before {
        let (gone, all) = counts.entry(pair.0).or_default();
        *all += 1;
        *gone += usize::from(!after.contains(pair));
    }
    // A cluster that has left the inventory is left alone as a whole.
    counts.into_iter().filter(|(name, _)| clusters.contains(name)).find_map(|(name, (gone, all))| {
        too_many(gone, all, limit).then(|| said(gone, all, &format!(" of cluster {name}"), limit))
    })
}

/// The same rule as for the objects that run in a cluster: everything at once is the sign of a mistake, however
/// few there are.
fn too_many(gone: usize, all: usize, limit: u8) -> bool {
    gone * 100 > all * usize::from(limit) || (gone > 0 && gone == all && limit < 100)
}

fn said(gone: usize, all: usize, of: &str, limit: u8) -> String {
    format!(
        "{gone} of the {all} objects{of} would go, and more than {limit} % at once may be a mistake: a higher \
         `pruneLimit` confirms it"
    )
}

/// What a plan has where.
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
