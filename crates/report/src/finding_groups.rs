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

/// What is equal in the findings of a group: their cause, or the message without the finding's own object and the clusters.
type GroupKey = (Severity, &'static str, String);

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
            let message = match &finding.cause {
                Some(cause) => cause.clone(),
                None if is_consequence(finding.code) => finding.message.clone(),
                None => mask_clusters(&mask_own_names(finding), &clusters),
            };
            let key = (finding.severity, finding.code, message);
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
    let configured = repo.config.clusters.iter().map(|cluster| cluster.name.as_str());
    inventory.map(|claimed| claimed.object.id.name.as_str()).chain(configured).collect()
}

/// The message without the finding's object, after its kind, and the folder of its file. Other names are part of the cause.
fn mask_own_names(finding: &Finding) -> String {
    let folder = finding.origin.as_ref().and_then(|origin| origin.file.rsplit_once('/'));
    let folder = folder.map(|(folder, _)| format!("`{folder}`"));
    let object = finding.object.as_ref().map(ToString::to_string);
    let mut text = finding.message.clone();
    for own in [object, folder].into_iter().flatten() {
        let ends = |rest: &str| rest.chars().next().is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-');
        let mut parts = text.split(&own);
        let mut masked = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            masked.push_str(if ends(part) { "*" } else { &own });
            masked.push_str(part);
        }
        text = masked;
    }
    text
}

/// The text without the names of clusters where a word before says that they are some. A list counts like one cluster.
fn mask_clusters(message: &str, clusters: &BTreeSet<&str>) -> String {
    let mut masked: Vec<&str> = Vec::new();
    for word in message.split(' ') {
        let name = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_announced =
            masked.last().is_some_and(|last| matches!(*last, "*" | "for" | "cluster" | "clusters"));
        if !is_announced || word.starts_with('`') || !clusters.contains(name) {
            masked.push(word);
        } else if masked.last() != Some(&"*") {
            masked.push("*");
        }
    }
    masked.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_masked_where_they_are_announced() {
        let clusters = BTreeSet::from(["m1", "m2", "web"]);
        let mask = |text: &str| mask_clusters(text, &clusters);
        assert_eq!(
            mask("cannot be rendered for m1, m2: no value"),
            mask("cannot be rendered for m2: no value")
        );
        assert_ne!(mask("the inventory has no cluster `m1`"), mask("the inventory has no cluster `m2`"));
        assert_ne!(mask("the repo has no Secret web"), mask("the repo has no Secret m1"));
    }
}
