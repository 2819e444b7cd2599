//! Groups of findings: what has one cause is said once, with its places.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::{Finding, Severity};
use federate_repo::{Repo, Role};

/// Findings that say the same.
pub(super) struct FindingGroup<'f> {
    /// The finding that is shown.
    pub(super) first: &'f Finding,
    /// The others.
    pub(super) others: Vec<&'f Finding>,
}

/// What is equal in the findings of a group: the message and the remedy without the names in them.
type GroupKey = (Severity, &'static str, Option<String>, String);

impl<'f> FindingGroup<'f> {
    /// The groups, in the order of their first findings.
    pub(super) fn group_findings(
        repo: &Repo,
        findings: &'f [Finding],
        is_consequence: fn(&str) -> bool,
    ) -> Vec<Self> {
        let clusters = cluster_names(repo);
        let mut places: BTreeMap<GroupKey, usize> = BTreeMap::new();
        let mut groups: Vec<Self> = Vec::new();
        for finding in findings {
            // What follows from a cause is said about each object.
            let mask = |text: &str| {
                if is_consequence(finding.code) {
                    text.to_owned()
                } else {
                    mask_names(&mask_own_names(text, finding), &clusters, finding.is_error())
                }
            };
            let help = finding.help.as_deref().map(mask);
            let key = (finding.severity, finding.code, help, mask(&finding.message));
            let place = *places.entry(key).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.others.push(finding),
                None => groups.push(Self { first: finding, others: Vec::new() }),
            }
        }
        groups
    }
}

fn cluster_names(repo: &Repo) -> BTreeSet<&str> {
    let inventory = repo.claimed.iter().filter(|claimed| claimed.role == Role::Inventory);
    inventory.map(|claimed| claimed.object.id.name.as_str()).collect()
}

/// The text without the names of the finding's object, and of the folder of its file.
fn mask_own_names(text: &str, finding: &Finding) -> String {
    let folder =
        finding.origin.as_ref().and_then(|origin| origin.file.rsplit_once('/')).map(|(folder, _)| folder);
    let object = finding.object.as_ref();
    let name = object.map(|object| match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.clone(),
    });
    let mut text = text.to_owned();
    for own in [name.as_deref(), folder].into_iter().flatten() {
        let last = own.rsplit_once('/').map_or(own, |(_, last)| last);
        // A short name is masked only as a word, so that no other word is.
        for (before, after) in [(" ", " "), ("`", "`"), (" ", ":"), (" ", ","), ("/", ".")] {
            for name in [own, last] {
                text = text.replace(&format!("{before}{name}{after}"), &format!("{before}*{after}"));
            }
        }
        if own.contains('/') {
            text = text.replace(own, "*");
        }
    }
    text
}

/// The text without the names of clusters, and if `of_objects`, of objects after their kinds.
fn mask_names(message: &str, clusters: &BTreeSet<&str>, of_objects: bool) -> String {
    let mut masked: Vec<&str> = Vec::new();
    for word in message.split(' ') {
        let name = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let follows_kind =
            of_objects && masked.last().is_some_and(|last| is_kind(last)) && !word.starts_with('`');
        let shown = match (clusters.contains(name), follows_kind) {
            (true, _) => "*",
            (false, true) => "NAME",
            (false, false) => word,
        };
        // A list of clusters counts like one.
        if shown != "*" || masked.last() != Some(&"*") {
            masked.push(shown);
        }
    }
    masked.join(" ")
}

/// Whether a word can be the kind of the object whose name follows.
fn is_kind(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.len() > 2
        && word.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_and_clusters_are_masked() {
        let clusters = BTreeSet::from(["m1", "m2"]);
        let mask = |text: &str| mask_names(text, &clusters, true);
        assert_eq!(
            mask("Deployment shop/a cannot be rendered for m1, m2: no value"),
            mask("Deployment shop/b cannot be rendered for m2: no value")
        );
        assert_ne!(mask("the inventory has no cluster `m8`"), mask("the inventory has no cluster `m9`"));
        assert_ne!(mask("`spec.a`: 0: must be 1"), mask("`spec.b`: 0: must be 1"));
    }
}
