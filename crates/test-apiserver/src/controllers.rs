//! The namespace controllers of a controller manager: they fill new namespaces, and empty those that are being
//! deleted. Off by default. They finish their work between any two requests.

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::http::Request;

const BUNDLE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
    such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of \
    Kubernetes clusters.";

impl Cluster {
    /// Does the work of a controller manager before a request is answered.
    pub(super) fn control(&mut self, request: &Request) {
        if !self.controllers || self.controlling {
            return;
        }
        self.controlling = true;
        let namespaces: Vec<(String, bool)> = self
            .store
            .list("", "namespaces", "")
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
    pub fn idle(&mut self) {
        self.control(&Request::new("GET", "/"));
    }

    fn fill_namespace(&mut self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}");
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "annotations": {"kubernetes.io/description": BUNDLE}},
            "data": {"ca.crt": "none"},
        });
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        for (plural, object) in [("configmaps", map), ("serviceaccounts", account)] {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if self.store.get("", plural, namespace, &name).is_none() {
                self.ask("POST", &format!("{path}/{plural}"), &object);
            }
        }
    }

    fn finalize_namespace(&mut self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/finalize");
        let body = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}, "spec": {"finalizers": []},
        });
        self.ask("PUT", &path, &body);
    }

    pub(super) fn ask(&mut self, method: &str, path: &str, body: &Value) {
        let request = Request::new(method, path)
            .header("user-agent", "kube-controller-manager/v1")
            .body("application/json", body.to_string());
        self.quietly(&request);
    }
}
