//! What goes of live objects, kind by kind.

use serde_json::{Value, json};

use super::*;
use crate::k8s::{ObjectRef, Origin};

fn left(body: Value) -> Value {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let id = ObjectRef {
        api_version: text("/apiVersion").unwrap(),
        kind: text("/kind").unwrap(),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name").unwrap(),
    };
    let object = Object { id, body, origin: Origin { file: "m1".into(), document: 0, item: None, line: 0 } };
    let (cleaned, edits) = bare(&object);
    let mut replayed = object.body.clone();
    apply(&edits, &mut replayed);
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
fn ports_of_nodes_stay_where_somebody_asked_for_them() {
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
    let ours = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x",
        "labels": {PART_OF: "applyset-x"}}});
    assert_eq!(left(ours)["metadata"], json!({"name": "a", "namespace": "x"}));
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a", "namespace": "x"},
        "spec": {"jobTemplate": {"metadata": {"creationTimestamp": null}, "spec": {"template": {
            "metadata": {"creationTimestamp": null}, "spec": {}}}}}});
    assert_eq!(left(cron)["spec"], json!({"jobTemplate": {"spec": {"template": {"spec": {}}}}}));
}
