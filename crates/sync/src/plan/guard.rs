//! Stops a revision that has errors, or would delete so much that it may be a mistake.
//!
//! The plan is compared with the previous plan before any branch or cluster is touched; a commit compares the files
//! on its branches, and `apply` checks each live cluster again. Where only clusters are written, a plan that takes too much
//! away is compared with what they have: what was planned may never have been applied, and a cluster that has left is not
//! touched.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::Plan;
use federate_engine::deletions::{Deletions, ExcessiveDeletions, PruneLimit};
use federate_kubernetes::finding::{count_with_verb, format_count};
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_live::find_members;
use federate_reconcile::ApplySet;
use federate_report::findings;
use federate_session::{Destination, Session};
use federate_sync_api::status::SyncReason;

use crate::member_clusters::FIRST_ANSWER_TIMEOUT;
use crate::member_clusters::selection::selected_names;
use crate::outcome::ReconcileError;
use crate::reconciliation::Reconciliation;

/// The objects that the Sync has in clusters, by cluster; clusters that cannot be read are missing.
type ExistingObjects = BTreeMap<ClusterName, BTreeSet<ObjectRef>>;

impl Reconciliation<'_> {
    /// Why the rendering is neither committed nor applied.
    pub(crate) fn find_refusal(
        &self,
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
                more => format!(" (and {})", format_count(more, "more error")),
            };
            return Some(ReconcileError::new(
                SyncReason::BuildFailed,
                format!("{place}{}{more}", first.message),
            ));
        }
        let why = self.refuse_deletions(accepted?, session, limit)?;
        Some(ReconcileError::new(SyncReason::PruneFailed, why))
    }

    /// Why the plan of a session may not replace an earlier one.
    fn refuse_deletions(
        &self,
        earlier: &Plan,
        session: &Session,
        limit: Option<PruneLimit>,
    ) -> Option<String> {
        let clusters = session.clusters().iter().map(|cluster| cluster.name.as_ref()).collect();
        let comparison = PlanComparison { earlier, later: session.plan(), clusters, prunes_left: true };
        let why = comparison.refuse_deletions(limit, |_, _| true)?;
        if self.spec.commit.is_some() || self.spec.push.is_some() {
            return Some(why);
        }
        let prunes_left = self.spec.apply.as_ref().is_some_and(|apply| apply.prune_clusters);
        let clusters = selected_names(self.spec, session).collect();
        let comparison = PlanComparison { clusters, prunes_left, ..comparison };
        let existing = self.find_existing(&comparison, session);
        comparison.refuse_deletions(limit, |cluster, object| {
            existing.get(cluster).is_none_or(|existing| existing.contains(object))
        })
    }

    /// The objects of the earlier plan that the clusters have from which it takes some.
    fn find_existing(&self, comparison: &PlanComparison<'_>, session: &Session) -> ExistingObjects {
        let deletions = Deletions::compare_plans(comparison.earlier, comparison.later);
        let losing = deletions.losing_clusters().filter(|name| comparison.clusters.contains(name));
        let mut placed: BTreeMap<ClusterName, Vec<ObjectRef>> =
            losing.map(|name| (ClusterName::from(name), Vec::new())).collect();
        for row in &comparison.earlier.placements {
            for cluster in &row.clusters {
                placed.entry(cluster.name.clone()).and_modify(|objects| objects.push(row.object.clone()));
            }
        }
        let access = self.env.services.member_access(self.valid_sync, session);
        let found = access.map_err(ReconcileError::failed).and_then(|mut reached| {
            reached.access = self.env.counters.count_answers(reached.access);
            reached.access.first_answer = Some(FIRST_ANSWER_TIMEOUT);
            let (namespace, name) = self.valid_sync.object.apply_set();
            find_members(&reached.access, &placed, &ApplySet { namespace, name })
                .map_err(ReconcileError::failed)
        });
        match found {
            Ok(found) => {
                found.into_iter().filter_map(|(name, objects)| Some((name, objects.ok()?))).collect()
            }
            Err(error) => {
                tracing::warn!(sync = self.name(), %error, "clusters are not asked what they have");
                ExistingObjects::new()
            }
        }
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
    percent.map_or_else(PruneLimit::default, PruneLimit::new).for_sync()
}

/// A plan and an earlier one.
struct PlanComparison<'p> {
    earlier: &'p Plan,
    later: &'p Plan,
    /// The clusters that are written.
    clusters: BTreeSet<&'p str>,
    /// Whether what is in other clusters is deleted there.
    prunes_left: bool,
}

impl PlanComparison<'_> {
    /// Why the plan may not replace the earlier one, of whose objects only those count that exist. Without a limit, anything
    /// but everything may be deleted.
    fn refuse_deletions(
        &self,
        limit: Option<PruneLimit>,
        exists: impl Fn(&str, &ObjectRef) -> bool,
    ) -> Option<String> {
        let Self { earlier, later, clusters, prunes_left } = self;
        let before = Deletions::compare_existing(earlier, later, &exists).count_before();
        if before > 0 && later.placements.iter().all(|row| row.clusters.is_empty()) {
            return Some(format!(
                "nothing is rendered any more, but {}: to delete everything, remove the Sync and then the objects that it \
                 has left",
                count_with_verb(before, "object", ["was", "were"])
            ));
        }
        let deletions = Deletions::compare_existing(earlier, later, |cluster, object| {
            (*prunes_left || clusters.contains(cluster)) && exists(cluster, object)
        });
        deletions
            .check_limit(limit?, |cluster| clusters.contains(cluster))
            .map(|excess| describe_excess(&excess))
    }
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

    fn comparison<'p>(earlier: &'p Plan, later: &'p Plan) -> PlanComparison<'p> {
        PlanComparison { earlier, later, clusters: BTreeSet::from(["m1", "m2"]), prunes_left: true }
    }

    fn refused(earlier: &[(&str, usize)], later: &[(&str, usize)], limit: u8) -> bool {
        let (earlier, later) = (plan(earlier), plan(later));
        comparison(&earlier, &later).refuse_deletions(Some(PruneLimit::new(limit)), |_, _| true).is_some()
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

    #[test]
    fn only_what_exists_and_goes_counts() {
        let limit = Some(PruneLimit::default());
        let (earlier, later) = (plan(&[("m1", 10), ("left", 10)]), plan(&[("m1", 10)]));
        let stays = PlanComparison { prunes_left: false, ..comparison(&earlier, &later) };
        assert_eq!(stays.refuse_deletions(limit, |_, _| true), None, "it keeps its objects");
        let nothing = plan(&[]);
        let emptied = PlanComparison { prunes_left: false, ..comparison(&earlier, &nothing) };
        assert!(emptied.refuse_deletions(limit, |_, _| true).is_some(), "no cluster is left");
        let (earlier, later) = (plan(&[("m1", 10)]), plan(&[("m1", 6)]));
        let never_applied = |_: &str, object: &ObjectRef| object.name.as_str() < "m1-6";
        assert_eq!(comparison(&earlier, &later).refuse_deletions(limit, never_applied), None);
        assert!(comparison(&earlier, &later).refuse_deletions(limit, |_, _| true).is_some());
    }
}
