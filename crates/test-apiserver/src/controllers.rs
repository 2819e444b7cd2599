//! The namespace controllers of a controller manager: they fill new namespaces, and empty those that are being
//! deleted. Off by default. They finish their work between any two requests.

use serde_json::{Value, json};

use super::cluster::TestCluster;
use super::http::ApiRequest;

const CA_BUNDLE_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
    such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
    Kubernetes clusters.";

impl TestCluster {
    /// Does the work of a controller manager before a request is answered.
    pub(super) fn run_controllers(&mut self, request: &ApiRequest) {
        if !self.controllers || self.controlling {
            return;
        }
        self.controlling = true;
        let namespaces: Vec<(String, bool)> = self
            .store
            .list_objects("", "namespaces", "")
            .map(|(key, object)| (key.name.clone(), object.pointer("/metadata/deletionTimestamp").is_some()))
            .collect();
        for (name, deleting) in namespaces {
            if !deleting {
                self.fill_namespace(&name);
            } else if request.method == "GET" {
                self.finalize_namespace(&name);
            }
        }
        self.roll_out();
        self.controlling = false;
    }

    /// Runs the controllers without a request, so that watches see their changes.
    pub fn run_pending_controllers(&mut self) {
        self.run_controllers(&ApiRequest::new("GET", "/"));
    }

    fn fill_namespace(&mut self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}");
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "annotations": {"kubernetes.io/description": CA_BUNDLE_DESCRIPTION}},
            "data": {"ca.crt": "none"},
        });
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        for (plural, object) in [("configmaps", map), ("serviceaccounts", account)] {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if self.store.get("", plural, namespace, &name).is_none() {
                self.send_request("POST", &format!("{path}/{plural}"), &object);
            }
        }
    }

    fn finalize_namespace(&mut self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/finalize");
        let body = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}, "spec": {"finalizers": []},
        });
        self.send_request("PUT", &path, &body);
    }

    pub(super) fn send_request(&mut self, method: &str, path: &str, body: &Value) {
        let request = ApiRequest::new(method, path)
            .with_header("user-agent", "kube-controller-manager/v1")
            .with_body("application/json", body.to_string());
        self.handle_quietly(&request);
    }
}
