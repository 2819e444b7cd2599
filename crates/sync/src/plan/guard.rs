//! Stops a revision that has errors, or would delete so much that it may be a mistake.
//!
//! The plan is compared with the previous plan before any branch or cluster is touched; a commit compares the files
//! on its branches, and `apply` checks each live cluster again.

use std::collections::BTreeSet;

use federate_dialect::Plan;
use federate_engine::deletions::{Deletions, ExcessiveDeletions, PruneLimit};
use federate_report::findings;
use federate_session::{Destination, Session};
use federate_sync_api::status::SyncReason;

use crate::outcome::ReconcileError;
use crate::reconciliation::Reconciliation;

impl Reconciliation<'_> {
    /// Why the rendering is neither committed nor applied.
    pub(crate) fn find_refusal(
        session: &Session,
        accepted: Option<&Plan>,
        limit: Option<PruneLimit>,
        destination: Destination,
    ) -> Option<ReconcileError> {
        let errors: Vec<_> = session
            .findings_for(destination)
            .into_iter()
            .filter(federate_kubernetes::Finding::is_error)
            .collect();
        if let Some(first) = findings::build_rows(session.repo(), &errors).into_iter().next() {
            let place = first.format_place().map(|place| place + ": ").unwrap_or_default();
            let more = match errors.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more errors)"),
            };
            return Some(ReconcileError::new(
                SyncReason::BuildFailed,
                format!("{place}{}{more}", first.message),
            ));
        }
        let clusters: BTreeSet<&str> =
            session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
        let why = refuse_deletions(accepted?, session.plan(), &clusters, limit)?;
        Some(ReconcileError::new(SyncReason::PruneFailed, why))
    }

    /// The most that may go from clusters; `None` if nothing is deleted there.
    pub(crate) fn apply_limit(&self) -> Option<PruneLimit> {
        let apply = self.spec.apply.as_ref().filter(|apply| apply.prune);
        apply.map(|apply| prune_limit(apply.prune_limit))
    }

    /// Where the rendering goes.
    pub(crate) fn destination(&self) -> Destination {
        if self.spec.apply.is_some() { Destination::Clusters } else { Destination::Files }
    }
}

/// The limit of a Sync, or the default one.
pub(crate) fn prune_limit(percent: Option<u8>) -> PruneLimit {
    percent.map_or_else(PruneLimit::default, PruneLimit::new)
}

/// Why a plan may not replace an earlier one. `clusters` are those of the inventory: others are not touched. Without a
/// limit, anything but everything may be deleted.
fn refuse_deletions(
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
