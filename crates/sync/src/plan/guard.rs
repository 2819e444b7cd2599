//! Stops a revision that has no error but would delete so much that it may be a mistake.
//!
//! The plan is compared with the previous plan before any branch or cluster is touched; a commit compares the files
//! on its branches, and `apply` checks each live cluster again.

use std::collections::BTreeSet;

use federate_dialect::Plan;
use federate_engine::deletions::{Deletions, ExcessiveDeletions, PruneLimit};

/// Why a plan may not replace an earlier one. `clusters` are those of the inventory: others are not touched. Without a
/// limit, anything but everything may be deleted.
pub(crate) fn refuse_deletions(
    earlier: &Plan,
    later: &Plan,
    clusters: &BTreeSet<&str>,
    limit: Option<PruneLimit>,
) -> Option<String> {
    let deletions = Deletions::compare_plans(earlier, later);
    let before = deletions.count_before();
    if before > 0 && later.placements.iter().all(|row| row.clusters.is_empty()) {
        return Some(format!(
            "nothing is rendered any more, but {before} objects were: to delete everything, remove the Sync and then \
             the objects that it has left"
        ));
    }
    deletions.check_limit(limit?, |cluster| clusters.contains(cluster)).map(|excess| describe_excess(&excess))
}

/// Why so much is not deleted, and how to go on.
pub(crate) fn describe_excess(excess: &ExcessiveDeletions) -> String {
    format!("{excess}: a higher `pruneLimit` confirms it")
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
        refuse_deletions(
            &plan(earlier),
            &plan(later),
            &BTreeSet::from(["m1", "m2"]),
            Some(PruneLimit::new(limit)),
        )
        .is_some()
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
