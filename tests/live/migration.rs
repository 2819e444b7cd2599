//! A migration from KubeFed to Karmada over API servers: what runs is taken over with its `ReplicaSet`s, and each step of the
//! switch is recognized by a snapshot.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use federate_test_apiserver::{ApiRequest, Fleet, TestCluster};

const MEMBERS: [&str; 2] = ["alpha", "beta"];
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const TOKEN: &str = "/api/v1/namespaces/shop/secrets/token";
const SHOP: &str = "/api/v1/namespaces/shop";
const SETS: &str = "/apis/apps/v1/namespaces/shop/replicasets";

const REPO: &str = "apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: alpha, namespace: kube-federation-system, labels: {env: prod}}
---
apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: beta, namespace: kube-federation-system, labels: {env: prod}}
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedNamespace
metadata: {name: shop, namespace: shop}
spec: {placement: {clusterSelector: {}}}
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedDeployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: 'nginx:1.27'}]}
  placement: {clusterSelector: {matchLabels: {env: prod}}}
  overrides:
  - clusterName: beta
    clusterOverrides: [{path: /spec/replicas, value: 2}]
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedSecret
metadata: {name: token, namespace: shop}
spec:
  template: {data: {token: aHVudGVyMg==}}
  placement: {clusters: [{name: alpha}, {name: beta}]}
";

struct Place {
    folder: TempDir,
    fleet: Fleet,
}

impl Place {
    fn new() -> Self {
        let members = MEMBERS.map(|name| TestCluster::new(name).with_controllers().with_nodes());
        let fleet = Fleet::serve_clusters(members.into_iter().collect()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fleet.write_kubeconfig(&folder.path().join("kubeconfig")).unwrap();
        fs::create_dir(folder.path().join("repo")).unwrap();
        fs::write(folder.path().join("repo/all.yaml"), REPO).unwrap();
        Self { folder, fleet }
    }

    /// Runs federate; its standard output, if it ends with one of these codes.
    #[track_caller]
    fn run(&self, line: &str, codes: &[i32]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_federate"))
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("HOME", self.folder.path())
            .env("FEDERATE_DIGEST_KEY", "the key of a test, long enough")
            .output()
            .unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{line}\n{out}{err}");
        assert!(!out.contains("aHVudGVyMg") && !err.contains("aHVudGVyMg"), "{line}\n{out}{err}");
        out
    }

    /// What the check of the switch says of a snapshot that is taken now.
    #[track_caller]
    fn check(&self, name: &str) -> Value {
        self.run(&format!("snapshot new --context alpha beta --out {name}"), &[0, 1]);
        let checked = self.run(&format!("migrate repo --to karmada --check {name} -o json"), &[0]);
        serde_json::from_str(&checked).unwrap()
    }

    /// The `ReplicaSet`s of each member, by their identity and their spec.
    fn list_sets(&self) -> Vec<Value> {
        let sets = MEMBERS.map(|name| self.fleet.lock_cluster(name).get(SETS).unwrap());
        let items = sets.iter().flat_map(|sets| sets["items"].as_array().unwrap());
        items.map(|set| json!([set["metadata"]["uid"], set["spec"]])).collect()
    }

    /// Marks what runs as a control plane does, in place of the marks of another one.
    fn mark(&self, set: &str, removed: &str) {
        for name in MEMBERS {
            for path in [SHOP, WEB, TOKEN] {
                let labels = json!({"metadata": {"labels": {set: "true", removed: null}}});
                let request = ApiRequest::new("PATCH", path)
                    .with_query("fieldManager", "controller-manager")
                    .with_body("application/merge-patch+json", labels.to_string());
                assert_eq!(self.fleet.lock_cluster(name).handle_request(&request).status, 200, "{path}");
            }
        }
    }
}

#[test]
fn what_kubefed_runs_is_taken_over_with_its_replica_sets() {
    let place = Place::new();
    place.run("apply repo", &[0]);
    place.mark("kubefed.io/managed", "karmada.io/managed");
    let sets = place.list_sets();
    assert_eq!(sets.len(), 2, "{sets:#?}");

    place.run("migrate repo --to karmada --out new --prove 30", &[0, 1]);
    assert!(Path::new(&place.folder.path().join("new/MIGRATION.md")).exists());
    let before = place.check("before");
    assert_eq!((&before["ready"], &before["next"]), (&json!(true), &json!("register")), "{before:#}");

    // federate adopts as Karmada does with `conflictResolution: Overwrite`.
    let taken = place.run("apply new --adopt always --force -o json", &[0]);
    let taken: Value = serde_json::from_str(&taken).unwrap();
    let actions = taken["actions"].as_array().unwrap();
    assert!(actions.iter().all(|action| action["restartsPods"] == false), "{taken:#}");
    place.mark("karmada.io/managed", "kubefed.io/managed");
    let after = place.check("after");
    assert_eq!((&after["ready"], after.get("next")), (&json!(true), None), "{after:#}");
    assert_eq!(place.list_sets(), sets, "no ReplicaSet has changed");
}
