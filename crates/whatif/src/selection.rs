//! Selects clusters by name or by label, and groups them into failure domains.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Cluster, ClusterName, Labels, finding};

/// The clusters of an event: one by name, or those that a selector matches. For a selector, a cluster also has the
/// labels `region`, `zone` and `provider` with its location, unless it has its own labels with these keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterMatcher {
    /// The cluster with this name.
    Named(String),
    /// The clusters that match the selector, with its text.
    Matching(LabelSelector, String),
}

impl ClusterMatcher {
    /// Returns the selected clusters.
    ///
    /// # Errors
    ///
    /// A message for the user if no cluster is selected.
    pub fn select_clusters<'c>(
        &self,
        clusters: &'c mut [Cluster],
    ) -> Result<impl Iterator<Item = &'c mut Cluster>, String> {
        if !clusters.iter().any(|cluster| self.matches_cluster(cluster)) {
            let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_ref()).collect();
            let names = finding::join_names(&names, 10);
            return Err(match self {
                Self::Named(name) => format!("no cluster `{name}` in the inventory (there are: {names})"),
                Self::Matching(..) => {
                    format!("the selector `{self}` matches no cluster of the inventory ({names})")
                }
            });
        }
        Ok(clusters.iter_mut().filter(|cluster| self.matches_cluster(cluster)))
    }

    /// Whether a cluster is selected.
    pub fn matches_cluster(&self, cluster: &Cluster) -> bool {
        match self {
            Self::Named(name) => cluster.name.as_ref() == name,
            Self::Matching(selector, _) => {
                labels_by_zone(cluster).iter().any(|labels| selector.matches(labels))
            }
        }
    }
}

impl std::fmt::Display for ClusterMatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(text) | Self::Matching(_, text) => f.write_str(text),
        }
    }
}

/// Returns the labels of a cluster with those of its location, once for each of its zones.
fn labels_by_zone(cluster: &Cluster) -> Vec<Labels> {
    let mut labels = cluster.labels.clone();
    add_location(&mut labels, "region", &cluster.region);
    add_location(&mut labels, "provider", &cluster.provider);
    if cluster.zones.is_empty() {
        return vec![labels];
    }
    cluster
        .zones
        .iter()
        .map(|zone| {
            let mut labels = labels.clone();
            add_location(&mut labels, "zone", zone);
            labels
        })
        .collect()
}

fn add_location(labels: &mut Labels, key: &str, value: &str) {
    if !value.is_empty() {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
}

/// A failure domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureDomain {
    /// One cluster.
    Cluster,
    /// All clusters in a zone.
    Zone,
    /// All clusters in a region.
    Region,
    /// All clusters of a provider.
    Provider,
}

impl FailureDomain {
    /// The name of the failure domain, which is also the key of its label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Zone => "zone",
            Self::Region => "region",
            Self::Provider => "provider",
        }
    }

    /// Returns the failure domains of an inventory, each with its clusters. A label with the name of the failure
    /// domain takes precedence over the location in the inventory.
    pub fn group_clusters(self, clusters: &[Cluster]) -> BTreeMap<String, BTreeSet<ClusterName>> {
        let mut units: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
        for cluster in clusters {
            let names: BTreeSet<String> = match self {
                Self::Cluster => [cluster.name.to_string()].into(),
                _ => labels_by_zone(cluster)
                    .iter()
                    .filter_map(|labels| labels.get(self.name()).cloned())
                    .collect(),
            };
            for name in names {
                units.entry(name).or_default().insert(cluster.name.clone());
            }
        }
        units
    }
}
