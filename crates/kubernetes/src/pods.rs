//! What a pod requests and which objects it references.
//!
//! Facts: Kubernetes' names of volume sources and references; missing requests default to the limit; init
//! containers run before the others, so their maximum counts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::object::value_at;
use super::quantity::Quantity;
use super::schema::Cursor;

/// The requests of one pod with this spec: positive amounts of cpu (in whole millis), memory, ephemeral
/// storage, and extended, huge-page and attachable-volume resources (in whole units), rounded up for each
/// container.
pub fn compute_requests(spec: &Value) -> BTreeMap<String, Quantity> {
    requests_by(spec, container_requests)
}

/// The same, but limits of init containers do not count.
pub fn requests_without_init_limits(spec: &Value) -> BTreeMap<String, Quantity> {
    requests_by(spec, |container| parse_amounts(container.pointer("/resources/requests")))
}

/// The name of the first container with an amount that is not a quantity.
pub fn find_invalid_amount(spec: &Value) -> Option<&str> {
    let mut containers = list_items(spec, "containers").iter().chain(list_items(spec, "initContainers"));
    let invalid = containers.find(|container| {
        ["/resources/requests", "/resources/limits"].iter().any(|path| {
            let mut amounts = container.pointer(path).and_then(Value::as_object).into_iter().flatten();
            amounts.any(|(_, amount)| Quantity::from_json(amount).is_none())
        })
    })?;
    Some(invalid.get("name").and_then(Value::as_str).unwrap_or_default())
}

fn requests_by(
    spec: &Value,
    init_container_requests: fn(&Value) -> BTreeMap<String, Quantity>,
) -> BTreeMap<String, Quantity> {
    let mut total: BTreeMap<String, Quantity> = BTreeMap::new();
    for (name, amount) in list_items(spec, "containers").iter().flat_map(container_requests) {
        let sum = total.entry(name).or_default();
        *sum = *sum + amount;
    }
    for (name, amount) in list_items(spec, "initContainers").iter().flat_map(init_container_requests) {
        let most = total.entry(name).or_default();
        *most = (*most).max(amount);
    }
    for (name, amount) in parse_amounts(spec.get("overhead")) {
        let sum = total.entry(name).or_default();
        *sum = *sum + amount;
    }
    total.retain(|name, amount| is_counted_resource(name) && amount.value() > 0);
    total
}

/// The pointer to the containers of a Pod, or of a workload with a template for its pods in the spec; `None` for other
/// kinds.
pub fn containers_pointer(manifest: &Value) -> Option<&'static str> {
    match manifest.get("kind").and_then(Value::as_str)? {
        "Pod" => Some("/spec/containers"),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => {
            Some("/spec/template/spec/containers")
        }
        _ => None,
    }
}

/// Whether the pod has constraints on nodes: a node selector, a required node affinity, or tolerations.
pub fn claims_nodes(spec: &Value) -> bool {
    let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let spec = Cursor::new(spec);
    spec.field("nodeSelector").has_items()
        || spec.field("tolerations").has_items()
        || value_at(spec.value(), &required).is_some_and(|required| !required.is_null())
}

fn list_items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn container_requests(container: &Value) -> BTreeMap<String, Quantity> {
    let resources = container.get("resources");
    let mut all = parse_amounts(resources.and_then(|r| r.get("limits")));
    all.extend(parse_amounts(resources.and_then(|r| r.get("requests"))));
    all
}

/// The amounts of a list of resources, each rounded up: cpu to thousandths, others to whole units. Those that are not
/// quantities are left out.
pub fn parse_amounts(map: Option<&Value>) -> BTreeMap<String, Quantity> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(name, value)| {
            let amount = Quantity::from_json(value)?;
            let rounded = if name == "cpu" {
                Quantity::from_milli(amount.milli_value())
            } else {
                Quantity::from_int(amount.value())
            };
            Some((name.clone(), rounded))
        })
        .collect()
}

/// Whether schedulers count the resource.
pub fn is_counted_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || (name.contains('/') && !name.starts_with("requests."))
}

/// The names of objects in the pod's namespace that it references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodReferences {
    /// `ConfigMaps`.
    pub config_maps: BTreeSet<String>,
    /// Secrets.
    pub secrets: BTreeSet<String>,
    /// `ServiceAccounts`, without `default`.
    pub service_accounts: BTreeSet<String>,
    /// `PersistentVolumeClaims`.
    pub claims: BTreeSet<String>,
}

/// The paths of Secret references in volume sources.
const VOLUME_SECRETS: [&[&str]; 10] = [
    &["secret", "secretName"],
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["scaleIO", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["storageos", "secretRef", "name"],
    &["csi", "nodePublishSecretRef", "name"],
];

impl PodReferences {
    /// Adds the references of a pod spec.
    pub fn add_pod(&mut self, spec: &Value) {
        for kind in ["containers", "initContainers", "ephemeralContainers"] {
            for container in list_items(spec, kind) {
                self.add_container(container);
            }
        }
        for secret in list_items(spec, "imagePullSecrets") {
            insert_name(&mut self.secrets, secret, &["name"]);
        }
        self.add_account(spec.get("serviceAccountName"));
        for volume in list_items(spec, "volumes") {
            self.add_volume(volume);
        }
    }

    /// Adds the references of a container's environment.
    pub fn add_container(&mut self, container: &Value) {
        for variable in list_items(container, "env") {
            insert_name(&mut self.config_maps, variable, &["valueFrom", "configMapKeyRef", "name"]);
            insert_name(&mut self.secrets, variable, &["valueFrom", "secretKeyRef", "name"]);
        }
        for source in list_items(container, "envFrom") {
            insert_name(&mut self.config_maps, source, &["configMapRef", "name"]);
            insert_name(&mut self.secrets, source, &["secretRef", "name"]);
        }
    }

    /// Adds the references of a volume.
    pub fn add_volume(&mut self, volume: &Value) {
        insert_name(&mut self.config_maps, volume, &["configMap", "name"]);
        insert_name(&mut self.claims, volume, &["persistentVolumeClaim", "claimName"]);
        for path in VOLUME_SECRETS {
            insert_name(&mut self.secrets, volume, path);
        }
        for source in
            value_at(volume, &["projected", "sources"]).and_then(Value::as_array).into_iter().flatten()
        {
            insert_name(&mut self.config_maps, source, &["configMap", "name"]);
            insert_name(&mut self.secrets, source, &["secret", "name"]);
        }
    }

    /// Adds a `ServiceAccount` by its name, except the default one.
    pub fn add_account(&mut self, name: Option<&Value>) {
        let name = name.and_then(Value::as_str).filter(|name| !matches!(*name, "" | "default"));
        self.service_accounts.extend(name.map(str::to_owned));
    }
}

fn insert_name(names: &mut BTreeSet<String>, value: &Value, path: &[&str]) {
    let name = value_at(value, path).and_then(Value::as_str).filter(|name| !name.is_empty());
    names.extend(name.map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_add_up_and_init_containers_do_not() {
        let spec = json!({
            "containers": [
                {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}}},
                {"resources": {"requests": {"cpu": "0.0001", "pods": "3", "nvidia.com/gpu": 1}}},
            ],
            "initContainers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Mi"}}}],
            "overhead": {"memory": "1"},
        });
        let requests = compute_requests(&spec);
        assert_eq!(requests["cpu"].milli_value(), 500);
        assert_eq!(requests["memory"].value(), (1 << 30) + 1);
        assert_eq!(requests["nvidia.com/gpu"].value(), 1);
        assert_eq!(requests.len(), 3);
    }

    #[test]
    fn references_of_all_sorts() {
        let spec = json!({
            "serviceAccountName": "runner",
            "imagePullSecrets": [{"name": "pull"}],
            "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "s1"}}}]}],
            "containers": [{"envFrom": [{"configMapRef": {"name": "c1"}}]}],
            "volumes": [
                {"persistentVolumeClaim": {"claimName": "data"}},
                {"projected": {"sources": [{"secret": {"name": "s2"}}, {"serviceAccountToken": {"path": "t"}}]}},
                {"csi": {"nodePublishSecretRef": {"name": "s3"}}},
            ],
        });
        let mut references = PodReferences::default();
        references.add_pod(&spec);
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(references.secrets, set(&["pull", "s1", "s2", "s3"]));
        assert_eq!(references.config_maps, set(&["c1"]));
        assert_eq!(references.service_accounts, set(&["runner"]));
        assert_eq!(references.claims, set(&["data"]));
    }
}
