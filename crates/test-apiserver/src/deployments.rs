//! The Deployment controller: it creates and scales `ReplicaSets`, and writes the status. Pods are counted, not
//! created; they become ready only with [`TestCluster::with_nodes`].

use federate_apiserver_model::values::text_at;
use serde_json::{Value, json};

use super::cluster::TestCluster;

const APPS: &str = "apps";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The numbers of pods of a Deployment: of the new `ReplicaSet`, and of all of them.
#[derive(Clone, Copy, Debug)]
struct ReplicaCounts {
    new: i64,
    all: i64,
}

impl TestCluster {
    /// Reconciles every Deployment and its `ReplicaSets`.
    pub(super) fn roll_out(&mut self) {
        let deployments: Vec<Value> =
            self.store.list_objects(APPS, "deployments", "").map(|(_, object)| object.clone()).collect();
        for deployment in deployments {
            if deployment.pointer("/metadata/deletionTimestamp").is_some() {
                self.delete_replica_sets(&deployment);
            } else {
                self.roll_out_one(&deployment);
            }
        }
        self.collect_garbage();
    }

    /// The replica sets of a Deployment.
    fn owned_replica_sets(&self, deployment: &Value) -> Vec<Value> {
        let uid = &deployment["metadata"]["uid"];
        let namespace = text_at(deployment, "/metadata/namespace");
        let sets = self.store.list_objects(APPS, "replicasets", namespace).map(|(_, set)| set);
        sets.filter(|set| set["metadata"]["ownerReferences"][0]["uid"] == *uid).cloned().collect()
    }

    fn roll_out_one(&mut self, deployment: &Value) {
        let root = format!("/apis/apps/v1/namespaces/{}", text_at(deployment, "/metadata/namespace"));
        let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
        let most = wanted + max_surge(deployment, wanted);
        let hash = template_hash(&deployment["spec"]["template"]);
        let sets = self.owned_replica_sets(deployment);
        let (new_sets, old_sets): (Vec<&Value>, Vec<&Value>) =
            sets.iter().partition(|set| set["metadata"]["labels"]["pod-template-hash"] == hash.as_str());
        let new_set = new_sets.first();
        let old: i64 = old_sets.iter().map(|set| replicas_of(set)).sum();
        let newest = sets.iter().map(revision_of).max().unwrap_or(0);
        // Old pods are removed only when new ones are ready.
        let count = if self.ready { wanted } else { wanted.min(most - old).max(0) };
        let number = new_set.map_or(newest + 1, |set| revision_of(set));
        let mut annotations = json!({
            "deployment.kubernetes.io/desired-replicas": wanted.to_string(),
            "deployment.kubernetes.io/max-replicas": most.to_string(),
            REVISION: number.to_string(),
        });
        // ReplicaSets get the annotations of the Deployment, without those that are only about the Deployment.
        for (key, value) in deployment["metadata"]["annotations"].as_object().into_iter().flatten() {
            if key != "kubectl.kubernetes.io/last-applied-configuration" && key != REVISION {
                annotations[key] = value.clone();
            }
        }
        let name = format!("{}-{hash}", text_at(deployment, "/metadata/name"));
        if let Some(set) = new_set {
            let mut changed = Value::clone(set);
            changed["spec"]["replicas"] = json!(count);
            changed["metadata"]["annotations"] = annotations;
            if changed != **set {
                self.send_request("PUT", &format!("{root}/replicasets/{name}"), &changed);
            }
        } else {
            self.send_request(
                "POST",
                &format!("{root}/replicasets"),
                &replica_set(deployment, &name, &hash, count, &annotations),
            );
        }
        let mut total = count + old;
        let ready = self.ready;
        for set in old_sets.into_iter().filter(|set| ready && replicas_of(set) > 0) {
            let mut changed = set.clone();
            changed["spec"]["replicas"] = json!(0);
            let name = text_at(set, "/metadata/name").to_owned();
            self.send_request("PUT", &format!("{root}/replicasets/{name}"), &changed);
            total = count;
        }
        self.report_status(
            deployment,
            &format!("{root}/deployments"),
            &name,
            number,
            ReplicaCounts { new: count, all: total },
        );
    }

    /// Writes status and revision of a Deployment, if they changed.
    fn report_status(
        &mut self,
        deployment: &Value,
        root: &str,
        set: &str,
        revision: i64,
        replicas: ReplicaCounts,
    ) {
        let now = self.current_time();
        let ReplicaCounts { new, all } = replicas;
        let mut status = json!({
            "observedGeneration": deployment["metadata"]["generation"], "replicas": all, "updatedReplicas": new,
            "terminatingReplicas": 0,
        });
        if self.ready {
            status["readyReplicas"] = json!(all);
            status["availableReplicas"] = json!(all);
            status["conditions"] = json!([
                {
                    "type": "Available", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now,
                    "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability.",
                },
                {
                    "type": "Progressing", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now,
                    "reason": "NewReplicaSetAvailable",
                    "message": format!("ReplicaSet \"{set}\" has successfully progressed."),
                },
            ]);
        } else {
            status["unavailableReplicas"] = json!(all);
            status["conditions"] = json!([
                {
                    "type": "Available", "status": "False", "lastUpdateTime": now, "lastTransitionTime": now,
                    "reason": "MinimumReplicasUnavailable",
                    "message": "Deployment does not have minimum availability.",
                },
                {
                    "type": "Progressing", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now,
                    "reason": "ReplicaSetUpdated", "message": format!("ReplicaSet \"{set}\" is progressing."),
                },
            ]);
        }
        let mut changed = deployment.clone();
        changed["metadata"]["annotations"][REVISION] = json!(revision.to_string());
        let unreported = without_times(&status) != without_times(&deployment["status"]);
        if unreported || changed["metadata"]["annotations"] != deployment["metadata"]["annotations"] {
            changed["status"] = status;
            self.send_request(
                "PUT",
                &format!("{root}/{}/status", text_at(deployment, "/metadata/name")),
                &changed,
            );
        }
    }

    /// Deletes a Deployment that waits for its `ReplicaSets` to be deleted or orphaned.
    fn delete_replica_sets(&mut self, deployment: &Value) {
        let finalizers = deployment["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let root = format!("/apis/apps/v1/namespaces/{}", text_at(deployment, "/metadata/namespace"));
        for set in self.owned_replica_sets(deployment) {
            let path = format!("{root}/replicasets/{}", text_at(&set, "/metadata/name"));
            if finalizers.contains(&json!("orphan")) {
                let mut free = set.clone();
                if let Some(metadata) = free["metadata"].as_object_mut() {
                    metadata.shift_remove("ownerReferences");
                }
                self.send_request("PUT", &path, &free);
            } else if finalizers.contains(&json!("foregroundDeletion")) {
                self.send_request("DELETE", &path, &json!({}));
            }
        }
        let mut free = deployment.clone();
        let kept = finalizers.iter().filter(|f| **f != "orphan" && **f != "foregroundDeletion").cloned();
        free["metadata"]["finalizers"] = kept.collect();
        self.send_request(
            "PUT",
            &format!("{root}/deployments/{}", text_at(deployment, "/metadata/name")),
            &free,
        );
    }

    /// Deletes `ReplicaSets` whose Deployment is deleted.
    fn collect_garbage(&mut self) {
        let orphaned: Vec<Value> = self
            .store
            .list_objects(APPS, "replicasets", "")
            .map(|(_, set)| set)
            .filter(|set| {
                let owner = &set["metadata"]["ownerReferences"][0]["uid"];
                !owner.is_null()
                    && !self
                        .store
                        .list_objects(APPS, "deployments", "")
                        .any(|(_, d)| d["metadata"]["uid"] == *owner)
            })
            .cloned()
            .collect();
        for set in orphaned {
            let (namespace, name) = (text_at(&set, "/metadata/namespace"), text_at(&set, "/metadata/name"));
            self.send_request(
                "DELETE",
                &format!("/apis/apps/v1/namespaces/{namespace}/replicasets/{name}"),
                &json!({}),
            );
        }
    }
}

/// The desired replicas of a `ReplicaSet`.
fn replicas_of(set: &Value) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap_or_default()
}

/// The revision of a `ReplicaSet`; 0 without one.
fn revision_of(set: &Value) -> i64 {
    set["metadata"]["annotations"][REVISION].as_str().and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// A status without the times of its conditions.
fn without_times(status: &Value) -> Value {
    let mut status = status.clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastUpdateTime"] = Value::Null;
        condition["lastTransitionTime"] = Value::Null;
    }
    status
}

/// The number of pods beyond the desired ones (`maxSurge`).
fn max_surge(deployment: &Value, wanted: i64) -> i64 {
    match &deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"] {
        Value::Number(number) => number.as_i64().unwrap_or_default(),
        Value::String(percent) => {
            let percent: i64 = percent.trim_end_matches('%').parse().unwrap_or_default();
            (wanted * percent + 99) / 100
        }
        _ => 0,
    }
}

fn replica_set(deployment: &Value, name: &str, hash: &str, count: i64, annotations: &Value) -> Value {
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"]["pod-template-hash"] = json!(hash);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"]["pod-template-hash"] = json!(hash);
    let metadata = &deployment["metadata"];
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": metadata["namespace"], "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"replicas": count, "selector": selector, "template": template},
    })
}

fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> =
                map.iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        scalar => scalar.clone(),
    }
}

/// The hash of a template.
fn template_hash(template: &Value) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in sort_keys(template).to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    format!("{:010x}", hash & 0xff_ffff_ffff)
}
