//! The files that `federate init` writes.

use std::collections::{BTreeMap, BTreeSet};

use super::Dialect;
use federate_kubernetes::ObjectRef;

/// The workflow of the documentation.
const WORKFLOW: &str = include_str!("../../../docs/ci/github.yml");

/// `federate.yaml` with the clusters.
pub(super) fn config(clusters: &[String]) -> String {
    let mut text = "apiVersion: federate.dev/v1alpha1\nkind: Config\nclusters:\n".to_owned();
    for name in clusters {
        text.push_str(&format!("- name: {}\n  labels: {{}}\n  region: \"\"\n", quoted(name)));
    }
    text
}

/// One inventory object for each cluster.
pub(super) fn inventory(dialect: Dialect, clusters: &[String]) -> String {
    let documents: Vec<String> = clusters.iter().map(|name| cluster(dialect, &quoted(name))).collect();
    documents.join("---\n")
}

fn cluster(dialect: Dialect, name: &str) -> String {
    match dialect {
        Dialect::Karmada => format!(
            "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata:
  name: {name}
  labels: {{}}
spec:
  syncMode: Push
  region: \"\"
"
        ),
        Dialect::Kubeadmiral => format!(
            "apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata:
  name: {name}
  labels: {{}}
spec:
  apiEndpoint: https://{name}.example.com:6443
  secretRef:
    name: {name}
"
        ),
        Dialect::Kubefleet => format!(
            "apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata:
  name: {name}
  labels: {{}}
spec:
  identity:
    apiGroup: \"\"
    kind: ServiceAccount
    name: {name}
    namespace: fleet-system
"
        ),
        Dialect::Kubefed => format!(
            "apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata:
  name: {name}
  namespace: kube-federation-system
  labels: {{}}
spec:
  apiEndpoint: https://{name}.example.com:6443
  secretRef:
    name: {name}
"
        ),
    }
}

/// A policy that places the templates on every cluster; `None` if the dialect has no policies.
pub(super) fn policy<'o>(dialect: Dialect, templates: impl Iterator<Item = &'o ObjectRef>) -> Option<String> {
    let templates: Vec<&ObjectRef> = templates.collect();
    match dialect {
        Dialect::Karmada => Some(karmada(&templates)),
        Dialect::Kubeadmiral => Some(
            "apiVersion: core.kubeadmiral.io/v1alpha1
kind: ClusterPropagationPolicy
metadata:
  name: everywhere
spec:
  schedulingMode: Duplicate
"
            .to_owned(),
        ),
        Dialect::Kubefleet => Some(kubefleet(&templates)),
        Dialect::Kubefed => None,
    }
}

/// Karmada's policy selects kinds. Namespaces need no policy.
fn karmada(templates: &[&ObjectRef]) -> String {
    let mut kinds: BTreeSet<(&str, &str)> =
        templates.iter().map(|id| (id.api_version.as_str(), id.kind.as_str())).collect();
    kinds.remove(&("v1", "Namespace"));
    if kinds.is_empty() {
        kinds.extend([("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "ConfigMap")]);
    }
    let mut text = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata:
  name: everywhere
spec:
  resourceSelectors:
"
    .to_owned();
    for (api_version, kind) in kinds {
        text.push_str(&format!("  - apiVersion: {}\n    kind: {}\n", quoted(api_version), quoted(kind)));
    }
    text.push_str("  placement:\n    clusterAffinity: {}\n");
    text
}

/// KubeFleet's placement selects namespaces with what is in them, and cluster-scoped objects by name.
fn kubefleet(templates: &[&ObjectRef]) -> String {
    let mut selected: BTreeMap<(String, String, String), String> = BTreeMap::new();
    for id in templates {
        let (group, version) = id.api_version.split_once('/').unwrap_or(("", &id.api_version));
        let (key, version) = match &id.namespace {
            Some(namespace) => ((String::new(), "Namespace".to_owned(), namespace.clone()), "v1"),
            None => ((group.to_owned(), id.kind.clone(), id.name.clone()), version),
        };
        selected.insert(key, version.to_owned());
    }
    if selected.is_empty() {
        selected.insert((String::new(), "Namespace".to_owned(), "shop".to_owned()), "v1".to_owned());
    }
    let mut text = "apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata:
  name: everywhere
spec:
  resourceSelectors:
"
    .to_owned();
    for ((group, kind, name), version) in selected {
        text.push_str(&format!(
            "  - group: {}\n    version: {}\n    kind: {}\n    name: {}\n",
            quoted(&group),
            quoted(&version),
            quoted(&kind),
            quoted(&name)
        ));
    }
    text.push_str("  policy:\n    placementType: PickAll\n");
    text
}

/// The workflow for a folder of the repository.
pub(super) fn workflow(folder: &str) -> String {
    WORKFLOW.replace("paths: deploy", &format!("paths: {}", quoted(folder)))
}

/// A string as YAML, quoted where it would be read as something else.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    federate_yaml::write(&text.into(), &mut out);
    out.trim_end().to_owned()
}
