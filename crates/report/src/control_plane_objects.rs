//! The objects of a repo that belong to a control plane and are placed nowhere.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::Dialects;
use federate_kubernetes::finding::join_names;
use federate_repo::{Repo, Role};

use crate::table::format_count;

/// Says how many objects of which kinds the control plane keeps, and what becomes of those that deliver manifests in another way;
/// `None` if there are none. Lines after the first are indented.
pub fn describe_kept_objects(repo: &Repo, dialects: Dialects) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut kinds_by_fate: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for claimed in repo.claimed.iter().filter(|claimed| claimed.role == Role::ControlPlane) {
        let id = &claimed.object.id;
        *counts.entry(&id.kind).or_default() += 1;
        let dialect = dialects.get(claimed.dialect);
        if let Some(fate) = dialect.and_then(|dialect| dialect.advice().describe_kept_object(id)) {
            kinds_by_fate.entry(fate).or_default().insert(&id.kind);
        }
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
    let mut text = format!(
        "{} {verb} on the control plane and {are} not placed: {}{next}",
        format_count(total, "object"),
        kinds.join(", ")
    );
    for (fate, kinds) in kinds_by_fate {
        let kinds: Vec<&str> = kinds.into_iter().collect();
        text.push_str(&format!("\n  {}: {fate}", join_names(&kinds, usize::MAX)));
    }
    Some(text)
}
