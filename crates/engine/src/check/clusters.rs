//! Names and labels of clusters that the inventory does not have.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::ObjectReferences;
use federate_dialect::references::{ClusterProperty, ClusterRequirement, LocatedName};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};
use federate_repo::{Repo, Role};

use super::{distinct_names, list_available};
use federate_kubernetes::schema::find_similar;

/// The findings. Without an inventory, there is nothing to compare with. `misspelt` are findings about objects whose
/// kind is nearly another one, which may be that of a cluster.
pub(super) fn find_unknown_clusters(
    repo: &Repo,
    clusters: &[Cluster],
    references: &[(&Object, ObjectReferences)],
    misspelt: &[Finding],
) -> Vec<Finding> {
    if clusters.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_ref()).collect();
    // Clusters with errors and misspelt ones are the cause.
    let unread = repo.claimed.iter().filter(|claimed| claimed.role == Role::Inventory).map(|c| &c.object.id);
    let unread: BTreeMap<&str, &ObjectRef> = unread
        .chain(misspelt.iter().filter_map(|finding| finding.object.as_ref()))
        .map(|id| (id.name.as_str(), id))
        .collect();
    let mut found = Vec::new();
    let mut suggestions = Suggestions { left: MAX_SEARCHES };
    let mut known = KnownValues { clusters, by_property: BTreeMap::new() };
    for (object, references) in references {
        found.extend(find_repeated(object, &references.clusters));
        for cluster in references.clusters.iter().filter(|c| names.binary_search(&c.name.as_str()).is_err()) {
            let message = format!("the inventory has no cluster `{}`", cluster.name);
            let help = match unread.get(cluster.name.as_str()) {
                Some(id) => format!("correct {id}, which is not read as a cluster"),
                None => suggestions
                    .suggest_instead(&cluster.name, &names, "cluster")
                    .replace("the repo has", "the clusters are"),
            };
            found.push(
                Finding::warning("unknown-cluster", object, message)
                    .with_pointer(&cluster.pointer)
                    .with_help(help),
            );
        }
        let labels = references.cluster_labels.iter();
        found.extend(
            labels.flat_map(|requirement| find_unmet(&mut known, object, requirement, &mut suggestions)),
        );
    }
    found
}

/// The findings about names that a list contains twice.
fn find_repeated(object: &Object, names: &[LocatedName]) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let twice = names.iter().filter(|name| !seen.insert((name.name.as_str(), list_of(&name.pointer))));
    twice
        .map(|name| {
            let message = format!("the list names the cluster `{}` twice", name.name);
            Finding::warning("duplicate-item", object, message)
                .with_pointer(&name.pointer)
                .with_help("remove one of the two, or correct its name")
        })
        .collect()
}

/// The place of the list that a place belongs to, with what follows the index in it.
fn list_of(pointer: &str) -> (&str, &str) {
    let (mut list, mut rest) = (pointer, "");
    while let Some((parent, token)) = list.rsplit_once('/') {
        if !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) {
            return (parent, rest);
        }
        (list, rest) = (parent, pointer.get(parent.len()..).unwrap_or_default());
    }
    (pointer, "")
}

/// The findings about a requirement that no cluster meets, or that names a value that only a typo explains.
fn find_unmet(
    known: &mut KnownValues<'_>,
    object: &Object,
    requirement: &ClusterRequirement,
    suggestions: &mut Suggestions,
) -> Vec<Finding> {
    let property = &requirement.property;
    let clusters = known.clusters;
    let known = known.values_of(property);
    if known.values.is_empty() && !known.is_set {
        let message = format!("no cluster of the inventory has {}", describe_property(property));
        let help = match property {
            ClusterProperty::Label(key) => {
                let keys = distinct_names(clusters.iter().flat_map(|c| c.labels.keys().map(String::as_str)));
                match suggestions.find_similar(key, &keys) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "label the clusters in the inventory, or correct the key".to_owned(),
                }
            }
            _ => "set it in the inventory".to_owned(),
        };
        return vec![unknown_label(object, &requirement.pointer, message, help)];
    }
    let known = known.values.as_slice();
    let missing: Vec<_> = requirement
        .values
        .iter()
        .filter(|value| known.binary_search(&value.name.as_str()).is_err())
        .collect();
    // One of several values may be for clusters to come, unless it is nearly that of a cluster.
    let all = missing.len() == requirement.values.len();
    missing
        .into_iter()
        .filter_map(|value| {
            if !all && suggestions.find_similar(&value.name, known).is_none() {
                return None;
            }
            let message = format!(
                "no cluster of the inventory has {} with the value `{}`",
                describe_property(property),
                value.name
            );
            let help = suggestions
                .suggest_instead(&value.name, known, "other value")
                .replace("the repo has", "its values are");
            Some(unknown_label(object, &value.pointer, message, help))
        })
        .collect()
}

fn unknown_label(object: &Object, pointer: &str, message: String, help: String) -> Finding {
    Finding::warning("unknown-cluster-label", object, message).with_pointer(pointer).with_help(help)
}

/// The names for which a similar one is searched. Each is compared with all known names.
const MAX_SEARCHES: usize = 500;

/// Searches similar names, as long as they are few.
struct Suggestions {
    left: usize,
}

impl Suggestions {
    fn find_similar<'k>(&mut self, name: &str, known: &[&'k str]) -> Option<&'k str> {
        self.left = self.left.checked_sub(1)?;
        find_similar(name, known)
    }

    /// The help for a name that is not there.
    fn suggest_instead(&mut self, name: &str, known: &[&str], what: &str) -> String {
        match self.find_similar(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => list_available(known, what),
        }
    }
}

/// The values that clusters have, found once for each property.
struct KnownValues<'c> {
    clusters: &'c [Cluster],
    by_property: BTreeMap<String, PropertyValues<'c>>,
}

struct PropertyValues<'c> {
    /// The distinct values, sorted.
    values: Vec<&'c str>,
    /// Whether a cluster has the property, maybe without a value.
    is_set: bool,
}

impl<'c> KnownValues<'c> {
    fn values_of(&mut self, property: &ClusterProperty) -> &PropertyValues<'c> {
        let clusters = self.clusters;
        self.by_property.entry(describe_property(property)).or_insert_with(|| PropertyValues {
            values: distinct_names(clusters.iter().flat_map(|cluster| property_values(cluster, property))),
            is_set: clusters.iter().any(|cluster| has_property(cluster, property)),
        })
    }
}

fn describe_property(property: &ClusterProperty) -> String {
    match property {
        ClusterProperty::Label(key) => format!("the label `{key}`"),
        ClusterProperty::Provider => "a provider".to_owned(),
        ClusterProperty::Region => "a region".to_owned(),
        ClusterProperty::Zone => "a zone".to_owned(),
    }
}

fn has_property(cluster: &Cluster, property: &ClusterProperty) -> bool {
    match property {
        ClusterProperty::Label(key) => cluster.labels.contains_key(key),
        _ => property_values(cluster, property).iter().any(|value| !value.is_empty()),
    }
}

fn non_empty(text: &str) -> Vec<&str> {
    Some(text).filter(|text| !text.is_empty()).into_iter().collect()
}

fn property_values<'c>(cluster: &'c Cluster, property: &ClusterProperty) -> Vec<&'c str> {
    match property {
        ClusterProperty::Label(key) => cluster.labels.get(key).into_iter().map(String::as_str).collect(),
        ClusterProperty::Provider => non_empty(&cluster.provider),
        ClusterProperty::Region => non_empty(&cluster.region),
        ClusterProperty::Zone => cluster.zones.iter().map(String::as_str).collect(),
    }
}
