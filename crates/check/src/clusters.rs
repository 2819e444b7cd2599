//! Names and labels of clusters that the inventory does not have.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::references::{ClusterProperty, ClusterRequirement, LocatedName};
use federate_dialect::{ObjectReferences, cluster_profiles};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};
use federate_repo::{Repo, Role};

use super::suggestions::{Suggestions, distinct_names};

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
    let mut suggestions = Suggestions::new();
    let known = KnownValues::new(clusters);
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
        found
            .extend(labels.flat_map(|requirement| find_unmet(&known, object, requirement, &mut suggestions)));
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
    known: &KnownValues<'_>,
    object: &Object,
    requirement: &ClusterRequirement,
    suggestions: &mut Suggestions,
) -> Vec<Finding> {
    let property = &requirement.property;
    let Some(values) = known.values_of(property) else {
        let message = format!("no cluster of the inventory has {}", describe_property(property));
        let help = match property {
            ClusterProperty::Label(key) => match suggestions.find_similar(key, &known.label_keys) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.has_profiles => {
                    "ClusterProfiles rarely have the labels of clusters: add them below `clusters` in federate.yaml, by \
                     the names of the clusters"
                        .to_owned()
                }
                None => "label the clusters in the inventory, or correct the key".to_owned(),
            },
            _ => "set it in the inventory".to_owned(),
        };
        return vec![unknown_label(object, &requirement.pointer, message, help)];
    };
    let missing: Vec<_> = requirement
        .values
        .iter()
        .filter(|value| values.binary_search(&value.name.as_str()).is_err())
        .collect();
    // One of several values may be for clusters to come, unless it is nearly that of a cluster.
    let all = missing.len() == requirement.values.len();
    missing
        .into_iter()
        .filter_map(|value| {
            if !all && suggestions.find_similar(&value.name, values).is_none() {
                return None;
            }
            let message = format!(
                "no cluster of the inventory has {} with the value `{}`",
                describe_property(property),
                value.name
            );
            let help = suggestions
                .suggest_instead(&value.name, values, "other value")
                .replace("the repo has", "its values are");
            Some(unknown_label(object, &value.pointer, message, help))
        })
        .collect()
}

fn unknown_label(object: &Object, pointer: &str, message: String, help: String) -> Finding {
    Finding::warning("unknown-cluster-label", object, message).with_pointer(pointer).with_help(help)
}

/// The distinct values that clusters have, sorted.
struct KnownValues<'c> {
    /// Whether clusters are described by `ClusterProfile` objects.
    has_profiles: bool,
    by_label: BTreeMap<&'c str, Vec<&'c str>>,
    label_keys: Vec<&'c str>,
    provider: Vec<&'c str>,
    region: Vec<&'c str>,
    zone: Vec<&'c str>,
}

impl<'c> KnownValues<'c> {
    fn new(clusters: &'c [Cluster]) -> Self {
        let mut values = BTreeMap::<&str, BTreeSet<&str>>::new();
        for (key, value) in clusters.iter().flat_map(|cluster| &cluster.labels) {
            values.entry(key).or_default().insert(value);
        }
        Self {
            has_profiles: clusters.iter().any(|cluster| cluster.id.kind == cluster_profiles::KIND),
            label_keys: values.keys().copied().collect(),
            by_label: values.into_iter().map(|(key, values)| (key, values.into_iter().collect())).collect(),
            provider: distinct_texts(clusters.iter().map(|cluster| &cluster.provider)),
            region: distinct_texts(clusters.iter().map(|cluster| &cluster.region)),
            zone: distinct_texts(clusters.iter().flat_map(|cluster| &cluster.zones)),
        }
    }

    /// The values of a property; `None` if no cluster has it.
    fn values_of(&self, property: &ClusterProperty) -> Option<&[&'c str]> {
        let values = match property {
            ClusterProperty::Label(key) => return self.by_label.get(key.as_str()).map(Vec::as_slice),
            ClusterProperty::Provider => &self.provider,
            ClusterProperty::Region => &self.region,
            ClusterProperty::Zone => &self.zone,
        };
        Some(values.as_slice()).filter(|values| !values.is_empty())
    }
}

fn distinct_texts<'c>(texts: impl Iterator<Item = &'c String>) -> Vec<&'c str> {
    distinct_names(texts.map(String::as_str).filter(|text| !text.is_empty()))
}

fn describe_property(property: &ClusterProperty) -> String {
    match property {
        ClusterProperty::Label(key) => format!("the label `{key}`"),
        ClusterProperty::Provider => "a provider".to_owned(),
        ClusterProperty::Region => "a region".to_owned(),
        ClusterProperty::Zone => "a zone".to_owned(),
    }
}
