//! Clusters of `federate.yaml`, for repos without inventory objects.

use serde_json::json;

use federate_kubernetes::{Cluster, Finding, Object, Taint, names};
use federate_repo::Repo;
use federate_yaml::Positions;

use super::MAX_SIMILAR_FINDINGS;
use federate_repo::config::{ConfiguredCluster, TaintEffect};

/// The configured clusters, and errors in their names.
pub(super) fn read_clusters(repo: &Repo) -> (Vec<Cluster>, Vec<Finding>) {
    let mut clusters = Vec::new();
    let mut findings = Vec::new();
    let positions = repo.texts.get(repo.config_path()).map(|text| Positions::new(text));
    for (at, configured) in repo.config.clusters.iter().enumerate() {
        let pointer = format!("/clusters/{at}/name");
        match names::safe_cluster(&configured.name) {
            Ok(()) => clusters.push(build_cluster(repo, configured, positions.as_ref(), &pointer)),
            Err(_) if findings.len() == MAX_SIMILAR_FINDINGS => {}
            Err(why) => {
                let message = format!("the cluster name {:?} is refused: {why}", configured.name);
                findings.push(repo.invalid_config(&pointer, message));
            }
        }
    }
    (clusters, findings)
}

fn build_cluster(
    repo: &Repo,
    configured: &ConfiguredCluster,
    positions: Option<&Positions<'_>>,
    pointer: &str,
) -> Cluster {
    let body = json!({
        "apiVersion": "federate.dev/v1alpha1",
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
        taints: taints.collect(),
        ..Cluster::from_object(&object)
    }
}
