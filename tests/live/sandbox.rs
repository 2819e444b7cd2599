//! A repo in a temporary folder, its clusters, and the command that runs on both.
//!
//! [`Sandbox::new`] serves clusters of its own, whose requests are counted and which misbehave on demand.
//! [`Sandbox::anywhere`] takes real ones where [`real`](crate::real) finds some, and checks only results
//! there. The names that tests use (`shop`, `example.com`, the inventory's parent) stand for names of
//! each test's own there.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use crate::ran::Ran;
use crate::real::Real;
use federate_test_apiserver::{ApiRequest, Fleet, TestCluster};

/// Everything of the namespace `shop`, and what is beside namespaces, goes to every cluster.
const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: v1, kind: ConfigMap}
  - {apiVersion: v1, kind: Secret}
  - {apiVersion: v1, kind: Service}
  - {apiVersion: v1, kind: ResourceQuota}
  - {apiVersion: v1, kind: LimitRange}
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
    /// Without clusters where they are real.
    pub(crate) fleet: Fleet,
    pub(crate) real: Option<Real>,
}

impl Sandbox {
    /// Clusters of these names, and a repo with a namespace and a Deployment for all of them. What such a test shows,
    /// only the API server for tests has shown: it needs its faults, its record of requests, or its nodes.
    pub(crate) fn simulated(clusters: &[&str]) -> Self {
        Self::of(clusters, Fleet::start_clusters(clusters).unwrap(), None)
    }

    /// The same with these clusters of the API server for tests.
    pub(crate) fn simulated_by(clusters: &[&str], fleet: Fleet) -> Self {
        Self::of(clusters, fleet, None)
    }

    /// The same with real clusters, where `FEDERATE_TEST_KUBECONFIG` names some.
    pub(crate) fn anywhere(clusters: &[&str]) -> Self {
        match Real::find(clusters) {
            Some(real) => Self::of(clusters, Fleet::start_clusters(&[]).unwrap(), Some(real)),
            None => Self::simulated(clusters),
        }
    }

    /// The same; clusters that are not real have nodes.
    pub(crate) fn anywhere_with_nodes(clusters: &[&str]) -> Self {
        if let Some(real) = Real::find(clusters) {
            return Self::of(clusters, Fleet::start_clusters(&[]).unwrap(), Some(real));
        }
        let served = clusters.iter().map(|name| TestCluster::new(name).with_nodes()).collect();
        Self::of(clusters, Fleet::serve_clusters(served).unwrap(), None)
    }

    /// The same for a test that makes nodes and kinds: no other such test uses real clusters meanwhile.
    pub(crate) fn anywhere_alone(clusters: &[&str]) -> Self {
        let Some(real) = Real::find(clusters).and_then(Real::alone) else { return Self::simulated(clusters) };
        let mut sandbox = Self::of(clusters, Fleet::start_clusters(&[]).unwrap(), Some(real));
        let path = sandbox.path("kubeconfig");
        sandbox.real.iter_mut().for_each(|real| real.name_contexts(clusters, &path));
        sandbox
    }

    fn of(clusters: &[&str], fleet: Fleet, real: Option<Real>) -> Self {
        let sandbox = Self { folder: tempfile::tempdir().unwrap(), fleet, real };
        let mut inventory = String::new();
        for name in clusters {
            inventory += &format!(
                "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
            );
        }
        fs::create_dir_all(sandbox.path("repo")).unwrap();
        if sandbox.is_real() {
            let contexts =
                clusters.iter().zip(1..).map(|(name, at)| ((*name).to_owned(), Real::context(at).into()));
            sandbox.set("contexts", &Value::Object(contexts.collect()));
        } else {
            sandbox.fleet.write_kubeconfig(&sandbox.path("kubeconfig")).unwrap();
        }
        sandbox
            .file("clusters.yaml", &inventory)
            .file("policy.yaml", POLICY)
            .file("namespace.yaml", NAMESPACE)
            .file("web.yaml", &deployment("nginx:1.27"))
    }

    /// Adds a setting to federate.yaml.
    pub(crate) fn setting(self, key: &str, value: &Value) -> Self {
        self.set(key, value);
        self
    }

    pub(crate) fn set(&self, key: &str, value: &Value) {
        let file = self.path("repo").join("federate.yaml");
        let text = fs::read(&file).unwrap_or_else(|_| b"{}".to_vec());
        let mut settings: Value = serde_json::from_slice(&text).unwrap();
        settings[key] = value.clone();
        fs::write(file, settings.to_string()).unwrap();
    }

    /// Adds a file to the repo.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path("repo").join(self.own(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.own(text)).unwrap();
    }

    /// Text with the test's own names, as in files and clusters.
    pub(crate) fn own(&self, text: &str) -> String {
        self.real.as_ref().map_or_else(|| text.to_owned(), |real| real.own(text))
    }

    /// The names of the files in a folder of the repo.
    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("repo").join(self.own(folder))) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The text of a file of the repo.
    pub(crate) fn read_file(&self, name: &str) -> String {
        fs::read_to_string(self.path("repo").join(self.own(name))).unwrap()
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path("repo").join(name)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Rewrites the kubeconfig.
    pub(crate) fn kubeconfig(&self, change: impl Fn(&mut Value)) {
        let text = if self.is_real() {
            fs::read_to_string(self.path("kubeconfig")).unwrap()
        } else {
            self.fleet.admin_kubeconfig()
        };
        let mut config: Value = serde_json::from_str(&text).unwrap();
        change(&mut config);
        fs::write(self.path("kubeconfig"), config.to_string()).unwrap();
    }

    /// `federate apply repo` with more arguments.
    pub(crate) fn apply(&self, arguments: &str) -> Ran {
        self.run("apply", arguments)
    }

    /// Another command of `federate` on the repo, with more arguments.
    pub(crate) fn run(&self, name: &str, arguments: &str) -> Ran {
        self.ran(&mut self.runs(name, arguments))
    }

    /// `federate import` from `m1` into the repo with more arguments before.
    pub(crate) fn import(&self, arguments: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.arg("import").args(self.own(arguments).split_whitespace()).args(["--repo", "repo"]);
        match &self.real {
            Some(real) => {
                command.arg("--kubeconfig").arg(&real.kubeconfig);
                command.args(["--context", &Real::context(1), "--applyset", &real.applyset()])
            }
            None => command.args(["--kubeconfig", "kubeconfig", "--context", "m1"]),
        };
        command.env_remove("FEDERATE_DIGEST_KEY").current_dir(self.folder.path()).stdin(Stdio::null());
        self.ran(&mut command)
    }

    pub(crate) fn ran(&self, command: &mut Command) -> Ran {
        let ran = Ran::of(&command.output().unwrap());
        Ran { code: ran.code, out: self.known(&ran.out), err: self.known(&ran.err) }
    }

    /// Text with the names that the tests know.
    pub(crate) fn known(&self, text: &str) -> String {
        self.real.as_ref().map_or_else(|| text.to_owned(), |real| real.known(text))
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        self.runs("apply", arguments)
    }

    pub(crate) fn runs(&self, name: &str, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.args([name, "repo", "--kubeconfig"]);
        match &self.real {
            Some(real) => {
                command.arg(&real.kubeconfig).args(real.own(arguments).split_whitespace());
                command.arg("--contexts-from-repo");
                if !arguments.contains("--applyset") {
                    command.args(["--applyset", &real.applyset()]);
                }
            }
            None => drop(command.arg("kubeconfig").args(arguments.split_whitespace())),
        }
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// An object of a cluster.
    #[track_caller]
    pub(crate) fn get(&self, cluster: &str, path: &str) -> Value {
        self.find(cluster, path).unwrap_or_else(|| panic!("{path} is not in {cluster}"))
    }

    /// The Deployments and `ConfigMap`s of a cluster, without what servers number and time.
    pub(crate) fn held(&self, cluster: &str) -> Vec<Value> {
        let mut held = Vec::new();
        for path in ["/apis/apps/v1/namespaces/shop/deployments", "/api/v1/namespaces/shop/configmaps"] {
            for item in self.get(cluster, path)["items"].as_array().unwrap() {
                let metadata = &item["metadata"];
                held.push(json!([metadata["name"], metadata["labels"], item["spec"], item["data"]]));
            }
        }
        held
    }

    pub(crate) fn has(&self, cluster: &str, path: &str) -> bool {
        self.find(cluster, path).is_some()
    }

    fn find(&self, cluster: &str, path: &str) -> Option<Value> {
        match &self.real {
            Some(real) => real.get(cluster, path),
            None => self.fleet.lock_cluster(cluster).get(path),
        }
    }

    /// Creates an object as a field manager.
    #[track_caller]
    pub(crate) fn create(&self, cluster: &str, path: &str, manager: &str, body: &Value) {
        assert_eq!(self.ask(cluster, "POST", path, manager, "application/json", body), 201, "{path}");
    }

    /// Creates an object without a namespace that goes at the end. Its kind may be served a moment later, and one of its
    /// name may still be about to go.
    #[track_caller]
    pub(crate) fn create_global(&self, cluster: &str, path: &str, body: &Value) {
        self.real.iter().for_each(|real| {
            real.remember(cluster, &format!("{path}/{}", body["metadata"]["name"].as_str().unwrap()));
        });
        self.create_soon(cluster, path, body);
    }

    /// Creates an object as soon as its kind is served.
    #[track_caller]
    pub(crate) fn create_soon(&self, cluster: &str, path: &str, body: &Value) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.ask(cluster, "POST", path, "test", "application/json", body) != 201 {
            assert!(Instant::now() < end, "{path}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Changes an object as a field manager; of its subresources, by a merge patch.
    #[track_caller]
    pub(crate) fn edit(&self, cluster: &str, manager: &str, path: &str, patch: &Value) {
        let merge = path.ends_with("/scale") || path.ends_with("/status");
        let sort = if merge { "merge" } else { "strategic-merge" };
        let sort = format!("application/{sort}-patch+json");
        assert_eq!(self.ask(cluster, "PATCH", path, manager, &sort, patch), 200, "{path}");
    }

    /// Deletes an object.
    #[track_caller]
    pub(crate) fn delete(&self, cluster: &str, path: &str) {
        assert_eq!(
            self.ask(cluster, "DELETE", path, "test", "application/json", &Value::Null),
            200,
            "{path}"
        );
    }

    /// The status of a cluster's answer.
    pub(crate) fn ask(
        &self,
        cluster: &str,
        method: &str,
        path: &str,
        manager: &str,
        content_type: &str,
        body: &Value,
    ) -> u16 {
        if let Some(real) = &self.real {
            let manager = if method == "DELETE" { String::new() } else { format!("?fieldManager={manager}") };
            return real.request(cluster, method, &format!("{path}{manager}"), content_type, body).0;
        }
        let request = ApiRequest::new(method, path).with_query("fieldManager", manager);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.fleet.lock_cluster(cluster).handle_request(&request.with_body(content_type, body)).status
    }

    pub(crate) fn create_namespace(&self, cluster: &str) {
        self.create_namespace_named(cluster, "shop");
    }

    pub(crate) fn create_namespace_named(&self, cluster: &str, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create(cluster, "/api/v1/namespaces", "test", &body);
    }

    /// Whether the clusters are real, so that requests cannot be counted and versions are not known.
    pub(crate) fn is_real(&self) -> bool {
        self.real.is_some()
    }

    /// Whether pods become ready in a cluster that has the namespace already.
    pub(crate) fn runs_pods(&self, cluster: &str) -> bool {
        self.real.as_ref().is_none_or(|real| real.has_nodes(cluster) && real.controlled(cluster))
    }

    /// What does not change unless something restarts: the Deployment's template, its `ReplicaSet`s, its pods with
    /// their restarts. (Its generation also counts annotations.) Controllers get time to
    /// finish.
    pub(crate) fn running(&self, cluster: &str) -> Value {
        let controlled = self.real.as_ref().is_none_or(|real| real.controlled(cluster));
        let nodes = self.real.as_ref().is_none_or(|real| real.has_nodes(cluster));
        let end = Instant::now() + Duration::from_secs(if nodes { 60 } else { 10 });
        loop {
            let web = self.get(cluster, WEB);
            let sets = self.named(cluster, "/apis/apps/v1/namespaces/shop/replicasets", |_| Value::Null);
            let pods = self.named(cluster, "/api/v1/namespaces/shop/pods", |pod| {
                let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
                statuses.map(|status| status["restartCount"].clone()).collect()
            });
            // The clusters of a test's own count pods without making them.
            let counted = if nodes { web["status"]["readyReplicas"] == 2 } else { pods.len() == 2 };
            let bare = !self.is_real() && web["status"]["observedGeneration"].is_null();
            if counted || bare || !controlled || Instant::now() >= end {
                let uid = &web["metadata"]["uid"];
                let template = &web["spec"]["template"];
                return json!({"uid": uid, "template": template, "replicaSets": sets, "pods": pods});
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A value of each object of a list, by uid.
    fn named(&self, cluster: &str, path: &str, say: impl Fn(&Value) -> Value) -> BTreeMap<String, Value> {
        let list = self.get(cluster, path);
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| (item["metadata"]["uid"].as_str().unwrap().to_owned(), say(item))).collect()
    }

    /// Checks how many requests a cluster has answered that write, where they can be counted.
    #[track_caller]
    pub(crate) fn wrote(&self, cluster: &str, times: usize) {
        if !self.is_real() {
            assert_eq!(self.writes(cluster), times);
        }
    }

    /// Checks how many dry runs a cluster has answered, where they can be counted.
    #[track_caller]
    pub(crate) fn tried(&self, cluster: &str, times: usize) {
        if !self.is_real() {
            assert_eq!(self.count(cluster, "dry run"), times);
        }
    }

    /// How many requests of a verb a cluster has answered since the last call.
    pub(crate) fn count(&self, cluster: &str, verb: &str) -> usize {
        self.fleet.lock_cluster(cluster).counts().get(verb).copied().unwrap_or(0)
    }

    /// How many requests a cluster has answered that write, Events left out: only these are created by `POST`.
    pub(crate) fn writes(&self, cluster: &str) -> usize {
        ["patch", "update", "delete", "deletecollection"].iter().map(|verb| self.count(cluster, verb)).sum()
    }

    /// Checks how many lists and single objects a cluster was asked for, where that can be counted.
    #[track_caller]
    pub(crate) fn read(&self, cluster: &str, lists: usize, gets: usize) {
        if !self.is_real() {
            assert_eq!((self.count(cluster, "list"), self.count(cluster, "get")), (lists, gets));
        }
    }

    /// Waits until a cluster serves widgets.
    pub(crate) fn established(&self, cluster: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.real.as_ref().is_some_and(|real| real.get(cluster, "/apis/example.com/v1").is_none()) {
            assert!(Instant::now() < end, "widgets are not served");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn forget(&self, cluster: &str) {
        if !self.is_real() {
            self.fleet.lock_cluster(cluster).reset_counts();
        }
    }
}

/// The resource version of an object.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
