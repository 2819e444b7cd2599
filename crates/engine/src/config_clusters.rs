//! Clusters that no control plane reads: those of `federate.yaml`, and `ClusterProfile` objects, over which those of the same names
//! are merged. What `federate.yaml` says about the place of a cluster is also added to the inventory object of a control plane,
//! some of which have no fields for it.

use std::collections::BTreeMap;

use serde_json::json;

use federate_dialect::cluster_profiles;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, Taint, names};
use federate_repo::{Repo, Role};
use federate_yaml::Positions;

use super::MAX_SIMILAR_FINDINGS;
use federate_repo::config::{ConfiguredCluster, TaintEffect};

/// The API group of what stands for a cluster of `federate.yaml`.
pub(super) const CONFIG_GROUP: &str = "federate.dev";

/// The clusters, and errors in their names. Without `strict`, profiles without a status are of healthy clusters.
pub(super) fn read_clusters(repo: &Repo, strict: bool) -> (Vec<Cluster>, Vec<Finding>) {
    let (mut clusters, mut findings) = read_profiles(repo, strict);
    let mut profiles: BTreeMap<String, usize> =
        clusters.iter().enumerate().map(|(at, cluster)| (cluster.name.to_string(), at)).collect();
    let positions = repo.texts.get(repo.config_path()).map(|text| Positions::new(text));
    for (at, configured) in repo.config.clusters.iter().enumerate() {
        let pointer = format!("/clusters/{at}/name");
        match names::safe_cluster(&configured.name) {
            Ok(()) => {
                let cluster = build_cluster(repo, configured, positions.as_ref(), &pointer);
                // What is configured twice is reported as two clusters.
                match profiles.remove(&configured.name).and_then(|at| clusters.get_mut(at)) {
                    Some(profile) => merge_cluster(profile, cluster),
                    None => clusters.push(cluster),
                }
            }
            Err(_) if findings.len() == MAX_SIMILAR_FINDINGS => {}
            Err(why) => {
                let message = format!("the cluster name {:?} is refused: {why}", configured.name);
                findings.push(repo.invalid_config(&pointer, message));
            }
        }
    }
    (clusters, findings)
}

/// The clusters of `ClusterProfile` objects.
fn read_profiles(repo: &Repo, strict: bool) -> (Vec<Cluster>, Vec<Finding>) {
    let (mut clusters, mut findings) = (Vec::new(), Vec::new());
    for object in repo.claimed_objects(cluster_profiles::NAME, Role::Inventory) {
        match cluster_profiles::read_cluster(object, strict, &repo.config.cluster_profiles) {
            Ok(cluster) => clusters.push(cluster),
            Err(unreadable) => findings.push(unreadable),
        }
    }
    (clusters, findings)
}

/// Adds where clusters are, by `federate.yaml`, to the inventory objects of control planes of the same names, and takes what is
/// added out of `configured`. What has labels or taints stays there: a control plane knows only those of its own object.
pub(super) fn add_locations(configured: &mut Vec<Cluster>, described: &mut [Cluster]) {
    let mut by_name: BTreeMap<ClusterName, Vec<&mut Cluster>> = BTreeMap::new();
    for cluster in described {
        by_name.entry(cluster.name.clone()).or_default().push(cluster);
    }
    configured.retain(|cluster| {
        let adds = !cluster.provider.is_empty()
            || !cluster.region.is_empty()
            || !cluster.zones.is_empty()
            || !cluster.properties.is_empty()
            || cluster.kubernetes.is_some();
        let is_addition = adds
            && cluster.id.group() == CONFIG_GROUP
            && cluster.labels.is_empty()
            && cluster.taints.is_empty();
        match by_name.get_mut(&cluster.name).filter(|_| is_addition) {
            Some(described) => {
                for described in described.iter_mut() {
                    merge_cluster(described, cluster.clone());
                }
                false
            }
            None => true,
        }
    });
}

/// Adds what is configured to a cluster: labels and properties are added, and everything else that is configured replaces what was
/// there.
fn merge_cluster(cluster: &mut Cluster, configured: Cluster) {
    cluster.labels.extend(configured.labels);
    cluster.properties.extend(configured.properties);
    for (value, own) in
        [(&mut cluster.provider, configured.provider), (&mut cluster.region, configured.region)]
    {
        if !own.is_empty() {
            *value = own;
        }
    }
    if !configured.zones.is_empty() {
        cluster.zones = configured.zones;
    }
    if !configured.taints.is_empty() {
        cluster.taints = configured.taints;
    }
    if configured.kubernetes.is_some() {
        cluster.kubernetes = configured.kubernetes;
    }
}

fn build_cluster(
    repo: &Repo,
    configured: &ConfiguredCluster,
    positions: Option<&Positions<'_>>,
    pointer: &str,
) -> Cluster {
    let body = json!({
        "apiVersion": format!("{CONFIG_GROUP}/v1alpha1"),
        "kind": "Cluster",
        "metadata": {"name": configured.name, "labels": configured.labels},
    });
    let mut object = Object::from_manifest(body, repo.config_path());
    let at = positions.and_then(|positions| positions.locate_value(0, pointer));
    object.origin.line = at.map_or(object.origin.line, |at| at.line);
    let taints = configured.taints.iter().map(|taint| Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: match taint.effect {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::PreferNoSchedule => "PreferNoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        }
        .to_owned(),
    });
    Cluster {
        provider: configured.provider.clone(),
        region: configured.region.clone(),
        zones: configured.zones.clone(),
        kubernetes: configured.kubernetes_version.clone(),
        properties: configured.properties.clone(),
        taints: taints.collect(),
        ..Cluster::from_object(&object)
    }
}
