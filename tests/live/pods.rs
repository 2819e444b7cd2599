//! Pods of the Deployment `web` as tests want them. No cluster of a test runs any: where controllers make pods, their status
//! is written here, and elsewhere that of the Deployment.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB};

const PODS: &str = "/api/v1/namespaces/shop/pods";

impl Sandbox {
    /// Lets all pods of `web` be ready.
    #[track_caller]
    pub(crate) fn start_pods(&self, cluster: &str) {
        let web = self.get(cluster, WEB);
        let replicas = web["spec"]["replicas"].as_i64().unwrap();
        if !self.makes_pods(cluster) {
            return self.set_pod_counts(cluster, replicas, replicas, replicas);
        }
        let counts = ["replicas", "updatedReplicas", "availableReplicas"];
        self.start_until(cluster, WEB, |status| counts.iter().all(|count| status[count] == replicas));
    }

    /// Lets all pods be ready until the status of a workload has these numbers; where no controller makes pods, the status is
    /// written.
    #[track_caller]
    pub(crate) fn reach_status(&self, cluster: &str, path: &str, wanted: &Value) {
        if !self.makes_pods(cluster) {
            let mut status = wanted.clone();
            status["observedGeneration"] = self.get(cluster, path)["metadata"]["generation"].clone();
            return self.edit(cluster, "controller", &format!("{path}/status"), &json!({"status": status}));
        }
        self.start_until(cluster, path, |status| {
            let mut numbers = wanted.as_object().unwrap().iter().filter(|(_, value)| value.is_number());
            numbers.all(|(name, value)| status[name].as_i64().unwrap_or(0) == *value)
        });
    }

    /// Lets all pods be ready until a workload's controller has written such a status.
    #[track_caller]
    fn start_until(&self, cluster: &str, path: &str, is_reached: impl Fn(&Value) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            for pod in self.get(cluster, PODS)["items"].as_array().unwrap() {
                let is_ready =
                    |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
                if pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready)) {
                    continue;
                }
                let path = format!("{PODS}/{}/status", pod["metadata"]["name"].as_str().unwrap());
                let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
                // A pod of a former revision may be gone meanwhile.
                self.ask(cluster, "PATCH", &path, "kubelet", "application/merge-patch+json", &ready);
            }
            let workload = self.get(cluster, path);
            let status = &workload["status"];
            if status["observedGeneration"] == workload["metadata"]["generation"] && is_reached(status) {
                return;
            }
            assert!(Instant::now() < end, "{cluster}: {status}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until a new pod of `web`, which has one replica, is there beside the old one, and does not start.
    #[track_caller]
    pub(crate) fn hold_new_pod(&self, cluster: &str) {
        if !self.makes_pods(cluster) {
            return self.set_pod_counts(cluster, 2, 1, 1);
        }
        let end = Instant::now() + Duration::from_secs(30);
        while self.get(cluster, WEB)["status"]["replicas"] != 2 {
            assert!(Instant::now() < end, "{cluster}: there is no new pod");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Whether controllers of the cluster make pods.
    fn makes_pods(&self, cluster: &str) -> bool {
        self.real.as_ref().is_some_and(|real| real.controlled(cluster))
    }

    fn set_pod_counts(&self, cluster: &str, all: i64, updated: i64, available: i64) {
        let generation = self.get(cluster, WEB)["metadata"]["generation"].clone();
        let status = json!({"status": {
            "observedGeneration": generation, "replicas": all, "updatedReplicas": updated, "readyReplicas": available,
            "availableReplicas": available, "unavailableReplicas": all - available,
        }});
        self.edit(cluster, "controller", &format!("{WEB}/status"), &status);
    }
}
