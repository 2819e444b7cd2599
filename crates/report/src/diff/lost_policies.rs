//! Objects that lose the policy that placed them: what a reviewer decides first, because some control planes leave them
//! where they are.

use std::collections::BTreeMap;

use federate_engine::change::{LostPolicy, RenderingChanges};
use federate_kubernetes::{ClusterName, ObjectRef};

/// Objects that lose the same policy for the same reason.
pub(super) struct LostObjects<'d> {
    /// The objects, sorted.
    pub(super) objects: Vec<&'d ObjectRef>,
    /// What one of them has lost, which stands for all.
    pub(super) lost: &'d LostPolicy,
}

/// The objects that lose their policies, those with the same reason together.
pub(super) fn group_lost_policies(changes: &RenderingChanges) -> Vec<LostObjects<'_>> {
    let mut places: BTreeMap<(&ObjectRef, &str, &[ClusterName]), usize> = BTreeMap::new();
    let mut groups: Vec<LostObjects<'_>> = Vec::new();
    for lost in &changes.lost_policies {
        let next = groups.len();
        let at = *places.entry((&lost.policy, &lost.why, &lost.stays_on)).or_insert(next);
        match groups.get_mut(at) {
            Some(group) => group.objects.push(&lost.object),
            None => groups.push(LostObjects { objects: vec![&lost.object], lost }),
        }
    }
    groups
}

/// What becomes of a number of objects that no policy selects. `names` writes names of clusters.
pub(crate) fn describe_lost_policy(
    number: usize,
    lost: &LostPolicy,
    names: impl Fn(&[&ClusterName]) -> String,
) -> String {
    let (them, they_stay, they_run) =
        if number == 1 { ("it", "it stays", "it runs") } else { ("them", "they stay", "they run") };
    let clusters: Vec<&ClusterName> = lost.stays_on.iter().collect();
    if clusters.is_empty() {
        return format!("no policy selects {them} any more, so that {they_run} nowhere");
    }
    format!(
        "no policy selects {them} any more; {they_stay} on {} only because the control plane remembers {them} there",
        names(&clusters)
    )
}
