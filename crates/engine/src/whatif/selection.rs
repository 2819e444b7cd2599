//! Clusters by name or by label; and the units in which a fleet fails.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Cluster, ClusterName, Labels, finding};

/// The clusters that an event is about: one by its name, or those that a selector matches. A selector also sees
/// where a cluster is: `region`, `zone` and `provider`, unless labels of these names say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The cluster of that name.
    Named(String),
    /// Those that match.
    Matching(LabelSelector, String),
}

impl Selection {
    /// These clusters among all.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn of<'c>(
        &self,
        clusters: &'c mut [Cluster],
    ) -> Result<impl Iterator<Item = &'c mut Cluster>, String> {
        if !clusters.iter().any(|cluster| self.matches(cluster)) {
            let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_ref()).collect();
            let names = finding::list(&names, 10);
            return Err(format!("no cluster `{self}` in the inventory (there are: {names})"));
        }
        Ok(clusters.iter_mut().filter(|cluster| self.matches(cluster)))
    }

    /// Whether a cluster is one of them.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        match self {
            Self::Named(name) => cluster.name.as_ref() == name,
            Self::Matching(selector, _) => places(cluster).iter().any(|labels| selector.matches(labels)),
        }
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(text) | Self::Matching(_, text) => f.write_str(text),
        }
    }
}

/// The labels of a cluster and where it is, once for each of its zones.
fn places(cluster: &Cluster) -> Vec<Labels> {
    let mut labels = cluster.labels.clone();
    let put = |labels: &mut Labels, key: &str, value: &str| {
        if !value.is_empty() {
            labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    };
    put(&mut labels, "region", &cluster.region);
    put(&mut labels, "provider", &cluster.provider);
    if cluster.zones.is_empty() {
        return vec![labels];
    }
    let zone = |zone: &String| {
        let mut labels = labels.clone();
        put(&mut labels, "zone", zone);
        labels
    };
    cluster.zones.iter().map(zone).collect()
}

/// What fails together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One cluster.
    Cluster,
    /// All clusters that are in a zone.
    Zone,
    /// All of a region.
    Region,
    /// All of a provider.
    Provider,
}

impl Unit {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Zone => "zone",
            Self::Region => "region",
            Self::Provider => "provider",
        }
    }

    /// The units of an inventory, each with its clusters. A label of the unit's name counts where the inventory
    /// does not say where a cluster is.
    pub fn all(self, clusters: &[Cluster]) -> BTreeMap<String, BTreeSet<ClusterName>> {
        let mut units: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
        for cluster in clusters {
            let names: BTreeSet<String> = match self {
                Self::Cluster => [cluster.name.to_string()].into(),
                _ => places(cluster).iter().filter_map(|labels| labels.get(self.name()).cloned()).collect(),
            };
            for name in names {
                units.entry(name).or_default().insert(cluster.name.clone());
            }
        }
        units
    }
}
