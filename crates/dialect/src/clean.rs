//! Removes from a live object what API servers and controllers wrote, for every control plane that imports it.
//!
//! Facts: the metadata and the per-kind fields that the API servers, schedulers, volume binders and workload
//! controllers of Kubernetes fill in, and the annotations of `kubectl apply`. The API server allocates node
//! ports after it has recorded field owners, so only a node port that a client asked for has an owner.

use serde_json::{Value, json};

use super::import::{ImportEdit, ImportEdits, apply_edits};
use federate_kubernetes::Object;
use federate_kubernetes::pointer::escape;

/// What servers and controllers write into the metadata of any object.
const SERVER_METADATA_FIELDS: [&str; 11] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Annotations that the volume controller writes to volumes.
const BINDING_ANNOTATIONS: [&str; 2] =
    ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];

/// Annotations in which clients and controllers keep what they need.
const BOOKKEEPING_ANNOTATIONS: [&str; 11] = [
    "batch.kubernetes.io/job-tracking",
    "control-plane.alpha.kubernetes.io/leader",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
    "pv.kubernetes.io/migrated-to",
    "pv.kubernetes.io/provisioned-by",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
];

/// Labels that the Job controller gives a Job and its pods.
const JOB_LABELS: [&str; 4] =
    ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];

/// Mappings and lists that are removed when they are empty, the inner ones first.
const REMOVED_WHEN_EMPTY: [&str; 5] = [
    "/metadata/annotations",
    "/metadata/labels",
    "/spec/template/metadata/labels",
    "/spec/template/metadata",
    "/spec/volumes",
];

/// The label that names the ApplySet of an object.
const APPLYSET_LABEL: &str = "applyset.kubernetes.io/part-of";

/// Removes what must not be in a template: the identity, the status and what one cluster allocated.
pub fn remove_server_fields(edits: &mut ImportEdits<'_>) {
    edits.remove_value("/status");
    for field in SERVER_METADATA_FIELDS {
        edits.remove_value(&format!("/metadata/{field}"));
    }
    edits.remove_keys("annotations", &BINDING_ANNOTATIONS);
    remove_kind_fields(edits);
}

fn remove_kind_fields(edits: &mut ImportEdits<'_>) {
    let object = edits.object;
    match (object.id.group(), object.id.kind.as_str()) {
        ("", "Service") if object.text_at(&["spec", "clusterIP"]) != "None" => {
            edits.remove_value("/spec/clusterIP");
            edits.remove_value("/spec/clusterIPs");
        }
        ("", "ServiceAccount") => edits.remove_value("/secrets"),
        ("", "Namespace") => {
            let others = object.value_at(&["spec"]).and_then(Value::as_object);
            let alone = others.is_some_and(|spec| spec.keys().all(|key| key == "finalizers"));
            edits.remove_value(if alone { "/spec" } else { "/spec/finalizers" });
        }
        ("", "Pod") => edits.remove_value("/spec/ephemeralContainers"),
        // A volume that the author chose stays; one that the controller bound belongs to one cluster.
        ("", "PersistentVolumeClaim") if is_bound_by_controller(object) => {
            edits.remove_value("/spec/volumeName");
        }
        ("", "PersistentVolume") if is_bound_by_controller(object) => edits.remove_value("/spec/claimRef"),
        ("", "PersistentVolume") => {
            edits.remove_value("/spec/claimRef/uid");
            edits.remove_value("/spec/claimRef/resourceVersion");
        }
        ("batch", "Job") if selects_itself(object) => {
            for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
                edits.remove_value(&format!("{labels}/controller-uid"));
                edits.remove_value(&format!("{labels}/batch.kubernetes.io~1controller-uid"));
            }
        }
        _ => {}
    }
}

fn is_bound_by_controller(object: &Object) -> bool {
    object.annotation("pv.kubernetes.io/bound-by-controller").is_some()
}

fn selects_itself(object: &Object) -> bool {
    object.value_at(&["spec", "manualSelector"]) != Some(&Value::Bool(true))
}

/// The edits, in order, that leave of a live object only what its author wrote.
pub fn clean_object(object: &Object) -> (Object, Vec<ImportEdit>) {
    let mut edits = ImportEdits::for_object(object);
    remove_server_fields(&mut edits);
    edits.remove_keys("annotations", &BOOKKEEPING_ANNOTATIONS);
    edits.remove_keys("labels", &[APPLYSET_LABEL]);
    match (object.id.group(), object.id.kind.as_str()) {
        ("", "Service") => remove_allocated_ports(&mut edits),
        ("", "Namespace") => edits.remove_keys("labels", &["kubernetes.io/metadata.name"]),
        ("", "Pod") => edits.remove_value("/spec/nodeName"),
        ("batch", "Job") if selects_itself(object) => remove_generated_job_fields(&mut edits),
        ("apps", "StatefulSet") => {
            let claims = object.value_at(&["spec", "volumeClaimTemplates"]).and_then(Value::as_array);
            for index in 0..claims.map_or(0, Vec::len) {
                edits.remove_value(&format!("/spec/volumeClaimTemplates/{index}/status"));
            }
        }
        _ => {}
    }
    let mut body = object.body.clone();
    let mut done = edits.into_edits();
    apply_edits(&done, &mut body);
    if object.id.group().is_empty() && object.id.kind == "Pod" {
        remove_values(token_volumes(&body), &mut body, &mut done);
    }
    let mut timestamps = Vec::new();
    collect_null_timestamps(&body, "", &mut timestamps);
    remove_values(timestamps, &mut body, &mut done);
    for place in REMOVED_WHEN_EMPTY {
        if body.pointer(place).is_some_and(is_empty) {
            remove_values(vec![place.to_owned()], &mut body, &mut done);
        }
    }
    (Object { body, ..object.clone() }, done)
}

/// Removes values of an object and records the edits.
fn remove_values(pointers: Vec<String>, body: &mut Value, edits: &mut Vec<ImportEdit>) {
    for pointer in pointers {
        let edit = ImportEdit { pointer, value: None };
        edit.apply_to(body);
        edits.push(edit);
    }
}

/// Node ports that no client asked for.
fn remove_allocated_ports(edits: &mut ImportEdits<'_>) {
    let object = edits.object;
    let ports = object.value_at(&["spec", "ports"]).and_then(Value::as_array).into_iter().flatten();
    for (index, port) in ports.enumerate() {
        if !is_node_port_requested(object, port) {
            edits.remove_value(&format!("/spec/ports/{index}/nodePort"));
        }
    }
    if owned_fields(object, "/f:spec").all(|spec| spec.get("f:healthCheckNodePort").is_none()) {
        edits.remove_value("/spec/healthCheckNodePort");
    }
}

fn is_node_port_requested(object: &Object, port: &Value) -> bool {
    let key =
        json!({"port": port["port"], "protocol": port.get("protocol").map_or("TCP".into(), Value::clone)});
    owned_fields(object, "/f:spec/f:ports").filter_map(Value::as_object).flatten().any(|(name, fields)| {
        let named = name.strip_prefix("k:").and_then(|key| serde_json::from_str::<Value>(key).ok());
        named.as_ref() == Some(&key) && fields.get("f:nodePort").is_some()
    })
}

/// The fields that managers own below a path of an object.
fn owned_fields<'o>(object: &'o Object, pointer: &str) -> impl Iterator<Item = &'o Value> {
    let entries = object.value_at(&["metadata", "managedFields"]).and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(move |entry| entry.get("fieldsV1")?.pointer(pointer))
}

/// A Job's generated selector, which holds only its uid, and the labels for it.
fn remove_generated_job_fields(edits: &mut ImportEdits<'_>) {
    let object = edits.object;
    let only_itself = object
        .value_at(&["spec", "selector", "matchLabels"])
        .and_then(Value::as_object)
        .is_some_and(|labels| labels.keys().all(|key| JOB_LABELS.contains(&key.as_str())));
    if only_itself {
        edits.remove_value("/spec/selector");
    }
    for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
        for key in JOB_LABELS {
            edits.remove_value(&format!("{labels}/{}", escape(key)));
        }
    }
}

/// The volumes with the token of the service account, and their mounts.
fn token_volumes(pod: &Value) -> Vec<String> {
    let mut lists = Vec::new();
    for containers in ["/spec/containers", "/spec/initContainers"] {
        let count = pod.pointer(containers).and_then(Value::as_array).map_or(0, Vec::len);
        lists.extend((0..count).map(|index| format!("{containers}/{index}/volumeMounts")));
    }
    lists.push("/spec/volumes".to_owned());
    let mut found = Vec::new();
    for list in lists {
        let items = pod.pointer(&list).and_then(Value::as_array).into_iter().flatten();
        for (at, item) in items.enumerate() {
            if item["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-")) {
                found.push(format!("{list}/{at}"));
            }
        }
    }
    // Each list from its end, so that the indexes of the other items stay valid.
    found.reverse();
    found
}

/// Collects the `creationTimestamp` that API servers write into templates.
fn collect_null_timestamps(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, below) in map {
                let pointer = format!("{pointer}/{}", escape(key));
                let void = below.get("creationTimestamp").is_some_and(Value::is_null);
                match below.as_object().filter(|_| key == "metadata" && void) {
                    Some(metadata) if metadata.len() == 1 => found.push(pointer),
                    Some(_) => found.push(format!("{pointer}/creationTimestamp")),
                    None => collect_null_timestamps(below, &pointer, found),
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect_null_timestamps(item, &format!("{pointer}/{at}"), found);
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn left(body: Value) -> Value {
        let object = Object::from_manifest(body, "m1");
        let (cleaned, edits) = clean_object(&object);
        let mut replayed = object.body.clone();
        apply_edits(&edits, &mut replayed);
        assert_eq!(replayed, cleaned.body, "the edits say what was done");
        cleaned.body
    }

    #[test]
    fn a_workload_keeps_what_its_author_wrote() {
        let live = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {
                "name": "db", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "db"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "data"},
                "managedFields": [{"manager": "kubectl"}], "ownerReferences": [{"kind": "App", "name": "db"}],
            },
            "spec": {
                "replicas": 2,
                "template": {"metadata": {"creationTimestamp": null, "labels": {"app": "db"}}, "spec": {}},
                "volumeClaimTemplates": [
                    {"metadata": {"creationTimestamp": null, "name": "data"}, "spec": {}, "status": {"phase": "Pending"}},
                ],
            },
            "status": {"replicas": 2},
        });
        assert_eq!(
            left(live),
            json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet",
                "metadata": {
                    "name": "db", "namespace": "shop", "labels": {"app": "db"}, "annotations": {"team": "data"},
                },
                "spec": {
                    "replicas": 2,
                    "template": {"metadata": {"labels": {"app": "db"}}, "spec": {}},
                    "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
                },
            })
        );
    }

    #[test]
    fn ports_of_nodes_stay_where_a_client_requested_them() {
        let fields = json!({"f:spec": {"f:ports": {
            "k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:port": {}, "f:nodePort": {}},
            "k:{\"port\":443,\"protocol\":\"TCP\"}": {"f:port": {}},
        }}});
        let live = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "managedFields": [{"manager": "kubectl", "fieldsV1": fields}]},
            "spec": {
                "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "LoadBalancer", "healthCheckNodePort": 31000,
                "ports": [
                    {"port": 80, "protocol": "TCP", "nodePort": 30080},
                    {"port": 443, "protocol": "TCP", "nodePort": 31443},
                ],
            },
        });
        assert_eq!(
            left(live)["spec"],
            json!({"type": "LoadBalancer", "ports": [
                {"port": 80, "protocol": "TCP", "nodePort": 30080},
                {"port": 443, "protocol": "TCP"},
            ]})
        );
        let headless = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "None", "clusterIPs": ["None"]}});
        assert_eq!(left(headless.clone()), headless);
    }

    #[test]
    fn a_job_is_not_bound_to_its_uid() {
        let labels = json!({"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "job-name": "j",
            "batch.kubernetes.io/job-name": "j"});
        let live = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "shop", "labels": labels},
            "spec": {
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                "template": {"metadata": {"creationTimestamp": null, "labels": labels}, "spec": {"containers": []}},
            },
        });
        let body = left(live.clone());
        assert_eq!(body["spec"], json!({"template": {"spec": {"containers": []}}}));
        assert_eq!(body["metadata"], json!({"name": "j", "namespace": "shop"}));
        let mut manual = live;
        manual["spec"]["manualSelector"] = json!(true);
        assert!(left(manual)["spec"].get("selector").is_some());
    }

    #[test]
    fn a_claim_is_not_bound_to_its_volume() {
        let live = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "shop", "finalizers": ["kubernetes.io/pvc-protection"], "annotations": {
                "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.kubernetes.io/storage-provisioner": "p", "volume.kubernetes.io/selected-node": "n",
            }},
            "spec": {"volumeName": "pvc-1", "storageClassName": "fast"},
        });
        let body = left(live);
        assert_eq!(body["metadata"], json!({"name": "c", "namespace": "shop"}));
        assert_eq!(body["spec"], json!({"storageClassName": "fast"}));
    }

    #[test]
    fn pods_lose_their_node_and_their_token() {
        let mount = |name: &str| json!({"name": name, "mountPath": "/m"});
        let live = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "a", "volumeMounts": [mount("kube-api-access-x1"), mount("own")]}],
                "volumes": [{"name": "own"}, {"name": "kube-api-access-x1"}],
            },
        });
        assert_eq!(
            left(live)["spec"],
            json!({"containers": [{"name": "a", "volumeMounts": [mount("own")]}], "volumes": [{"name": "own"}]})
        );
    }

    #[test]
    fn what_the_server_adds_to_others() {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "x"},
            "secrets": [{"name": "a-token"}]});
        assert_eq!(left(account).get("secrets"), None);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop",
            "labels": {"kubernetes.io/metadata.name": "shop"}}, "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"}});
        assert_eq!(
            left(namespace),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        );
        let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x",
            "labels": {APPLYSET_LABEL: "applyset-x"}}});
        assert_eq!(left(own)["metadata"], json!({"name": "a", "namespace": "x"}));
        let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a", "namespace": "x"},
            "spec": {"jobTemplate": {"metadata": {"creationTimestamp": null}, "spec": {"template": {
                "metadata": {"creationTimestamp": null}, "spec": {}}}}}});
        assert_eq!(left(cron)["spec"], json!({"jobTemplate": {"spec": {"template": {"spec": {}}}}}));
    }
}
