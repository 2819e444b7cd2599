//! A repo in a temporary folder, the clusters that it is for, and the command run on both.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::apiserver::Fleet;

/// Everything of the namespace `shop`, and what is beside namespaces, goes to every cluster.
const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: v1, kind: ConfigMap}
  - {apiVersion: v1, kind: Secret}
  - {apiVersion: example.com/v1, kind: Widget}
  placement: {clusterAffinity: {}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: all}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Namespace}
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}
  - {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration}
  placement: {clusterAffinity: {}}
";

pub(crate) const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

pub(crate) fn deployment(image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: shop}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, image: '{image}'}}]}}
"
    )
}

pub(crate) fn config(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\ndata: {{k: '{value}'}}\n"
    )
}

pub(crate) const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
pub(crate) const PARENT: &str = "/api/v1/namespaces/default/configmaps/federate";

/// A repo and its clusters. Both are gone at the end of the test.
pub(crate) struct Sandbox {
    folder: TempDir,
    pub(crate) fleet: Fleet,
}

impl Sandbox {
    /// Clusters of these names, and a repo with a namespace and a Deployment for all of them.
    pub(crate) fn new(clusters: &[&str]) -> Self {
        let sandbox = Self { folder: tempfile::tempdir().unwrap(), fleet: Fleet::start(clusters) };
        let mut inventory = String::new();
        for name in clusters {
            inventory += &format!(
                "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
            );
        }
        fs::create_dir_all(sandbox.path("repo")).unwrap();
        sandbox.fleet.write_kubeconfig(&sandbox.path("kubeconfig"));
        sandbox
            .file("clusters.yaml", &inventory)
            .file("policy.yaml", POLICY)
            .file("namespace.yaml", NAMESPACE)
            .file("web.yaml", &deployment("nginx:1.27"))
    }

    /// With one more file in the repo.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path("repo").join(name), text).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path("repo").join(name)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the kubeconfig anew.
    pub(crate) fn kubeconfig(&self, change: impl Fn(&mut Value)) {
        let mut config: Value = serde_json::from_str(&self.fleet.kubeconfig()).unwrap();
        change(&mut config);
        fs::write(self.path("kubeconfig"), config.to_string()).unwrap();
    }

    /// `federate apply repo` with more arguments.
    pub(crate) fn apply(&self, arguments: &str) -> Ran {
        Ran::of(&self.command(arguments).output().unwrap())
    }

    /// Another command of `federate` on the repo, with more arguments.
    pub(crate) fn run(&self, name: &str, arguments: &str) -> Ran {
        Ran::of(&self.runs(name, arguments).output().unwrap())
    }

    /// `federate import --context m1 --repo repo` with more arguments before.
    pub(crate) fn import(&self, arguments: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.arg("import").args(arguments.split_whitespace());
        command.args(["--context", "m1", "--repo", "repo", "--kubeconfig", "kubeconfig"]);
        command.env_remove("FEDERATE_DIGEST_KEY").current_dir(self.folder.path()).stdin(Stdio::null());
        Ran::of(&command.output().unwrap())
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        self.runs("apply", arguments)
    }

    pub(crate) fn runs(&self, name: &str, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.args([name, "repo", "--kubeconfig", "kubeconfig"]).args(arguments.split_whitespace());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// An object of a cluster.
    #[track_caller]
    pub(crate) fn get(&self, cluster: &str, path: &str) -> Value {
        self.fleet.cluster(cluster).get(path).unwrap_or_else(|| panic!("{path} is not in {cluster}"))
    }

    pub(crate) fn has(&self, cluster: &str, path: &str) -> bool {
        self.fleet.cluster(cluster).get(path).is_some()
    }

    /// How many requests of a verb a cluster has answered since the last call.
    pub(crate) fn count(&self, cluster: &str, verb: &str) -> usize {
        self.fleet.cluster(cluster).counts().get(verb).copied().unwrap_or(0)
    }

    /// How many requests a cluster has answered that write.
    pub(crate) fn writes(&self, cluster: &str) -> usize {
        ["patch", "create", "update", "delete", "deletecollection"]
            .iter()
            .map(|verb| self.count(cluster, verb))
            .sum()
    }

    pub(crate) fn forget(&self, cluster: &str) {
        self.fleet.cluster(cluster).reset_counts();
    }
}

/// The number of the change that made an object what it is.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// What a run printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// What was done about the object of a kind and name in a cluster, of a run with `-o json`.
    #[track_caller]
    pub(crate) fn action(&self, cluster: &str, kind: &str, name: &str) -> Value {
        let document: Value = serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"));
        assert_eq!(document["kind"], "Actions");
        let actions = document["actions"].as_array().unwrap();
        let is = |action: &&Value| {
            action["cluster"] == cluster
                && action["object"]["kind"] == kind
                && action["object"]["name"] == name
        };
        actions.iter().find(is).unwrap_or_else(|| panic!("no {kind} {name} in {cluster}: {self:#?}")).clone()
    }
}
