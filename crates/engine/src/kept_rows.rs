//! Templates whose policy has an error: they stay where the previous plan has placed them.
//!
//! The API server of a control plane refuses an invalid policy and keeps the one before, which is not in the repo any
//! more. Its decisions are in the previous plan.

use std::collections::BTreeSet;

use federate_dialect::Placement;
use federate_kubernetes::{Finding, ObjectRef};
use federate_repo::Role;

use super::Engine;

impl Engine<'_> {
    /// The previous rows of templates without a row, as far as the policy that placed them, or the object that they
    /// follow, is among what has an error. Sorted by object.
    pub(super) fn kept_rows(&self, unmatched: &[ObjectRef], findings: &[Finding]) -> Vec<Placement> {
        let wrong =
            findings.iter().filter(|finding| finding.is_error()).filter_map(|one| one.object.as_ref());
        let wrong: BTreeSet<&ObjectRef> = wrong.collect();
        let policies = self.repo.claimed.iter().filter(|claimed| claimed.role == Role::Placement);
        let refused: BTreeSet<&ObjectRef> =
            policies.map(|claimed| &claimed.object.id).filter(|id| wrong.contains(id)).collect();
        if refused.is_empty() {
            return Vec::new();
        }
        let rows = unmatched.iter().filter_map(|id| Some((id, self.previous.find_row(id)?)));
        let (by_policy, others): (Vec<_>, Vec<_>) =
            rows.partition(|(_, row)| row.policy.as_ref().is_some_and(|policy| refused.contains(policy)));
        let leaders: BTreeSet<&ObjectRef> = by_policy.iter().map(|(id, _)| *id).collect();
        let followers = others
            .into_iter()
            .filter(|(_, row)| row.required_by.iter().any(|leader| leaders.contains(leader)));
        let mut kept: Vec<_> = by_policy.iter().copied().chain(followers).collect();
        kept.sort_by_key(|(id, _)| *id);
        let kept = kept.into_iter();
        kept.map(|(id, row)| self.kept_row(id, row)).filter(|row| !row.is_unmatched()).collect()
    }

    /// A previous row, on the clusters that still exist.
    fn kept_row(&self, id: &ObjectRef, row: &Placement) -> Placement {
        let clusters = row
            .clusters
            .iter()
            .filter(|placed| self.clusters.iter().any(|cluster| cluster.name == placed.name))
            .cloned()
            .collect();
        Placement { object: id.clone(), clusters, ..row.clone() }
    }
}
