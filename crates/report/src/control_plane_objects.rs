//! The objects of a repo that belong to a control plane and are placed nowhere.

use std::collections::BTreeMap;

use federate_repo::{Repo, Role};

use crate::table::format_count;

/// A line that says of how many objects of which kinds the control plane keeps; `None` if there are none.
pub fn control_plane_line(repo: &Repo) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for claimed in repo.claimed.iter().filter(|claimed| claimed.role == Role::ControlPlane) {
        *counts.entry(&claimed.object.id.kind).or_default() += 1;
    }
    let total: usize = counts.values().sum();
    if total == 0 {
        return None;
    }
    let kinds: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let (verb, are) = if total == 1 { ("stays", "is") } else { ("stay", "are") };
    let has_bundles = repo.claimed.iter().any(|claimed| claimed.role == Role::Bundle);
    let next = if repo.templates.is_empty() && !has_bundles {
        "; the repo has no manifests to place: add those that they deploy, to see where these go"
    } else {
        ""
    };
    Some(format!(
        "{} {verb} on the control plane and {are} not placed: {}{next}",
        format_count(total, "object"),
        kinds.join(", ")
    ))
}
