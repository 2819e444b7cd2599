//! Objects that no policy claims any more.
//!
//! Facts: when a policy is deleted, or its selectors no longer match an object, and no other policy matches, then the
//! binding of the object stays with its clusters. It is not scheduled any more, but manifests still follow the
//! template and the overrides.

use federate_dialect::{ClusterDependency, DialectDecisions, Placement};
use federate_kubernetes::{Finding, Object, ObjectRef, finding};
use federate_repo::Repo;
use serde_json::Value;

use super::state::KarmadaState;
use super::{KarmadaPlanner, NAME, schedule};

/// The setting in `federate.yaml`.
pub(super) const SETTING: &str = "unclaimed";

/// What happens to objects that no policy claims any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unclaimed {
    /// They stay where they are, as Karmada leaves them.
    Keep,
    /// They are removed.
    Remove,
}

impl Unclaimed {
    /// Reads the setting, and reports a value that is none.
    pub(super) fn from_config(repo: &Repo) -> (Self, Option<Finding>) {
        let setting = repo.config.dialects.get(NAME).and_then(|settings| settings.get(SETTING));
        match setting.map(Value::as_str) {
            None | Some(Some("Keep")) => (Self::Keep, None),
            Some(Some("Remove")) => (Self::Remove, None),
            Some(_) => {
                let message = format!("`{SETTING}` is `Keep` (as Karmada does) or `Remove`");
                (Self::Keep, Some(repo.invalid_config(&format!("/dialects/{NAME}/{SETTING}"), message)))
            }
        }
    }
}

/// Keeps an object where the policy has placed it that no longer claims it. `previous` is its row of the previous plan.
pub(super) fn keep_unclaimed(
    plane: &KarmadaPlanner<'_>,
    template: &Object,
    previous: Option<&Placement>,
) -> Option<DialectDecisions> {
    let previous = previous.filter(|row| row.dialect == NAME && plane.unclaimed == Unclaimed::Keep)?;
    let mut state = KarmadaState::from_scheduler_state(&previous.scheduler_state);
    let policy = previous.policy.clone().or(state.unclaimed_from.take())?;
    // What has an error keeps its objects.
    if policy.kind == "FederatedResourceQuota" || plane.refused.contains(&policy) {
        return None;
    }
    let held = previous.clusters.iter().filter(|placed| is_own_cluster(plane, &state, &placed.name));
    let clusters: Vec<_> = held.cloned().collect();
    if clusters.is_empty() {
        return None;
    }
    let mut row = Placement::new(NAME, template.id.clone(), None);
    row.suspended.clone_from(&previous.suspended);
    row.suspended.retain(|name| is_own_cluster(plane, &state, name));
    row.clusters = clusters.into();
    row.implicit = true;
    state.required_on.clear();
    state.unclaimed_from = Some(policy.clone());
    row.scheduler_state = state.into_scheduler_state();
    let finding = unclaimed_finding(plane, template, &policy, &row);
    Some(DialectDecisions {
        placements: vec![row],
        findings: vec![finding],
        depends: ClusterDependency::Placed,
        ..DialectDecisions::default()
    })
}

/// Whether an object stays although the policy of its row, or that of an earlier one, does not select it any more.
pub(super) fn is_unclaimed(plane: &KarmadaPlanner<'_>, template: &Object, row: &Placement) -> bool {
    match &row.policy {
        None => KarmadaState::from_scheduler_state(&row.scheduler_state).unclaimed_from.is_some(),
        Some(policy) => plane.policies.by_id(policy).is_some_and(|policy| {
            !plane.policies.all_matches(template).iter().any(|found| std::ptr::eq(found.policy, policy))
        }),
    }
}

/// Whether an object was scheduled to a cluster of the inventory, and not only required there.
fn is_own_cluster(plane: &KarmadaPlanner<'_>, state: &KarmadaState, name: &str) -> bool {
    state.has_chosen(name) && schedule::index_of(plane.clusters, name).is_some()
}

/// The finding about an object that stays although no policy claims it.
fn unclaimed_finding(
    plane: &KarmadaPlanner<'_>,
    template: &Object,
    policy: &ObjectRef,
    row: &Placement,
) -> Finding {
    let names: Vec<&str> = row.clusters.iter().map(|placed| placed.name.as_ref()).collect();
    let what = match plane.policies.by_id(policy) {
        Some(_) => "no longer selects it",
        None => "is not in the repo any more",
    };
    let id = &template.id;
    let message = format!(
        "{id} stays on {}, although no policy selects it: {policy}, which placed it, {what}. Karmada removes nothing \
         then, and does not schedule it any more",
        finding::join_names(&names, 5)
    );
    let binding = format!("{}-{}", id.name, id.kind.to_lowercase());
    let kind = if id.namespace.is_some() { "ResourceBinding" } else { "ClusterResourceBinding" };
    Finding::warning("unclaimed", template, message).with_help(format!(
        "to remove it, delete its template, or write `dialects: {{karmada: {{unclaimed: Remove}}}}` into federate.yaml, and \
         delete the {kind} {binding} in Karmada; to keep it, let a policy select it"
    ))
}
