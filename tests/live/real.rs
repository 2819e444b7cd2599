//! Clusters that run already: the contexts `member-1`, `member-2`, … of the kubeconfig that
//! `FEDERATE_TEST_KUBECONFIG` names. Whatever a test makes there has a name of the test's own, and goes when
//! the test ends, also by a failure.
//!
//! Nothing is taken for granted but the API server: without a controller manager namespaces are finalised
//! here, and without nodes there are no pods to look at.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::writes::KnownNames;

/// Names the kubeconfig.
const VARIABLE: &str = "FEDERATE_TEST_KUBECONFIG";
/// How long a controller manager may take to show that there is one.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Marks nodes that a test has made. They run nothing.
pub(crate) const TEST_NODE: &str = "federate.dev/test-node";

/// How many tests of this process have asked for clusters.
static TESTS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Real {
    runtime: Runtime,
    clients: BTreeMap<String, kube::Client>,
    pub(crate) kubeconfig: PathBuf,
    /// What stands for names that several tests use.
    name: String,
    /// Objects without a namespace that the test has made, by cluster.
    made: Mutex<Vec<(String, String)>>,
    /// Held by a test that makes nodes and kinds, until they are gone.
    alone: Option<File>,
}

impl Real {
    /// The clusters, if there are any: the first is `member-1`, whatever it is called here.
    pub(crate) fn find(clusters: &[&str]) -> Option<Self> {
        let kubeconfig = PathBuf::from(std::env::var_os(VARIABLE)?).canonicalize().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let read = Kubeconfig::read_from(&kubeconfig).unwrap();
        let client = |context: String| {
            let options = KubeConfigOptions { context: Some(context), ..KubeConfigOptions::default() };
            runtime.block_on(async {
                let config = kube::Config::from_custom_kubeconfig(read.clone(), &options).await.unwrap();
                kube::Client::try_from(config).unwrap()
            })
        };
        let clients =
            clusters.iter().zip(1..).map(|(name, at)| ((*name).to_owned(), client(Self::context(at))));
        let clients = clients.collect();
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let test = TESTS.fetch_add(1, Ordering::Relaxed);
        let name = format!("fed-{nanoseconds:x}-{:x}-{test}", std::process::id());
        Some(Self { runtime, clients, kubeconfig, name, made: Mutex::default(), alone: None })
    }

    /// Waits until no other test makes nodes and kinds there, in this process or another. The clusters must have no nodes
    /// of their own.
    pub(crate) fn alone(mut self) -> Option<Self> {
        if self.clients.keys().any(|cluster| self.has_nodes(cluster)) {
            println!("the clusters have nodes of their own");
            return None;
        }
        let file = File::create(std::env::temp_dir().join("federate-test-nodes.lock")).unwrap();
        file.lock().unwrap();
        self.alone = Some(file);
        Some(self)
    }

    /// Writes a kubeconfig in which the contexts also have the names of the clusters, and uses it.
    pub(crate) fn name_contexts(&mut self, clusters: &[&str], path: &Path) {
        let mut config = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        for (name, at) in clusters.iter().zip(1..) {
            let mut context =
                config.contexts.iter().find(|one| one.name == Self::context(at)).unwrap().clone();
            (*name).clone_into(&mut context.name);
            config.contexts.push(context);
        }
        std::fs::write(path, serde_json::to_string(&config).unwrap()).unwrap();
        path.clone_into(&mut self.kubeconfig);
    }

    /// Remembers an object that is to go when the test ends.
    pub(crate) fn remember(&self, cluster: &str, path: &str) {
        self.made.lock().unwrap().push((cluster.to_owned(), path.to_owned()));
    }

    /// The context of a cluster by its number.
    pub(crate) fn context(at: usize) -> String {
        format!("member-{at}")
    }

    /// Text with names of the test's own.
    pub(crate) fn own(&self, text: &str) -> String {
        // The parent of a Sync's ApplySet, and its memory, are named after the Sync.
        text.replace("configmaps/federate", &format!("configmaps/{}", self.name))
            .replace(&format!("configmaps/{}.", self.name), "configmaps/federate.")
            .replace("configmaps/federate.plan", &format!("configmaps/{}.plan", self.name))
            .replace("federate-system", &format!("{}-system", self.name))
            .replace("example.com", &format!("{}.example.com", self.name))
            .replace("shop", &self.name)
    }

    /// Text with the names that the tests know.
    pub(crate) fn known(&self, text: &str) -> String {
        known(&self.name, text)
    }

    /// The same for what lives longer than this.
    pub(crate) fn names(&self) -> KnownNames {
        let name = self.name.clone();
        Box::new(move |text| known(&name, text))
    }

    pub(crate) fn client(&self, cluster: &str) -> kube::Client {
        self.clients[cluster].clone()
    }

    /// Runs something until the test ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// The inventory's parent, for the command line.
    pub(crate) fn applyset(&self) -> String {
        format!("default/{}", self.name)
    }

    /// The code of an answer, and the answer with the names that the tests know.
    pub(crate) fn request(
        &self,
        cluster: &str,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { self.own(&body.to_string()).into_bytes() };
        let request = http::Request::builder()
            .method(method)
            .uri(self.own(path))
            .header("Content-Type", content_type)
            .body(Body::from(body))
            .unwrap();
        let client = &self.clients[cluster];
        self.runtime.block_on(async {
            use http_body_util::BodyExt;
            let response = client.send(request).await.unwrap();
            let code = response.status().as_u16();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            let text = self.known(&String::from_utf8_lossy(&bytes));
            (code, serde_json::from_str(&text).unwrap_or_default())
        })
    }

    pub(crate) fn get(&self, cluster: &str, path: &str) -> Option<Value> {
        let (code, object) = self.request(cluster, "GET", path, "application/json", &Value::Null);
        assert!(matches!(code, 200 | 404), "{path}: {code} {object}");
        (code == 200).then_some(object)
    }

    /// Whether controllers look after the test's namespace.
    pub(crate) fn controlled(&self, cluster: &str) -> bool {
        let end = Instant::now() + SIGN_OF_LIFE;
        loop {
            if self.get(cluster, "/api/v1/namespaces/shop/serviceaccounts/default").is_some() {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Whether pods can become ready.
    pub(crate) fn has_nodes(&self, cluster: &str) -> bool {
        let nodes = self.get(cluster, "/api/v1/nodes").unwrap_or_default();
        let runs = |node: &Value| node["metadata"]["labels"][TEST_NODE].is_null();
        nodes["items"].as_array().is_some_and(|nodes| nodes.iter().any(runs))
    }

    /// Takes away what the test has made.
    fn tidy(&self, cluster: &str) {
        let delete = |path: &str| {
            let options =
                json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
            self.request(cluster, "DELETE", path, "application/json", &options)
        };
        delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook-shop");
        delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com");
        delete("/api/v1/namespaces/default/configmaps/federate");
        for name in ["shop-apply", "shop-drift"] {
            for kind in ["clusterroles", "clusterrolebindings"] {
                delete(&format!("/apis/rbac.authorization.k8s.io/v1/{kind}/{name}"));
            }
            delete(&format!("/api/v1/namespaces/default/serviceaccounts/{name}"));
        }
        if self.alone.is_some() {
            // No kubelet ends these pods.
            let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
            self.request(cluster, "DELETE", "/api/v1/namespaces/shop/pods", "application/json", &now);
        }
        self.tidy_syncs(cluster);
        for namespace in ["shop", "shop-b", "federate-system"] {
            self.empty(cluster, namespace);
        }
        let made = self.made.lock().unwrap().clone();
        for (_, path) in made.iter().rev().filter(|(of, _)| of == cluster) {
            delete(path);
            let end = Instant::now() + Duration::from_secs(10);
            while self.get(cluster, path).is_some() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Takes Sync objects away, and the parents of their `ApplySet`s.
    fn tidy_syncs(&self, cluster: &str) {
        let syncs = "/apis/federate.dev/v1alpha1/namespaces/shop/syncs";
        let parents = "/api/v1/namespaces/default/configmaps";
        for (path, prefix) in [(syncs, ""), (parents, "federate.shop.")] {
            let list = self.get(cluster, path).unwrap_or_default();
            let names = list["items"].as_array().into_iter().flatten().map(|item| &item["metadata"]["name"]);
            for name in names.filter_map(Value::as_str).filter(|name| name.starts_with(prefix)) {
                let path = format!("{path}/{name}");
                let none = json!({"metadata": {"finalizers": null}});
                self.request(cluster, "PATCH", &path, "application/merge-patch+json", &none);
                self.request(cluster, "DELETE", &path, "application/json", &Value::Null);
            }
        }
    }

    /// Whether a cluster issues tokens of `ServiceAccount`s.
    pub(crate) fn issues_tokens(&self, cluster: &str) -> bool {
        let core = self.get(cluster, "/api/v1").unwrap_or_default();
        let resources = core["resources"].as_array().cloned().unwrap_or_default();
        resources.iter().any(|resource| resource["name"] == "serviceaccounts/token")
    }

    /// A token of a `ServiceAccount`.
    pub(crate) fn token(&self, cluster: &str, namespace: &str, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let (code, answer) = self.request(cluster, "POST", &path, "application/json", &ask);
        assert_eq!(code, 201, "{answer}");
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Takes a namespace away with all that is in it.
    fn empty(&self, cluster: &str, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}");
        let Some(mut last) = self.get(cluster, &path) else { return };
        let delete = |path: &str| self.request(cluster, "DELETE", path, "application/json", &Value::Null);
        let controlled = self.controlled(cluster);
        if !controlled {
            for kind in ["configmaps", "secrets"] {
                delete(&format!("{path}/{kind}"));
            }
            let others = [("apps/v1", "deployments"), ("batch/v1", "jobs"), ("example.com/v1", "widgets")];
            for (group, kind) in others {
                delete(&format!("/apis/{group}/namespaces/{namespace}/{kind}"));
            }
        }
        delete(&path);
        if !controlled {
            last["spec"]["finalizers"] = json!([]);
            last["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            self.request(cluster, "PUT", &format!("{path}/finalize"), "application/json", &last);
        }
    }
}

/// Text with the names that the tests know, by that of a test.
fn known(name: &str, text: &str) -> String {
    text.replace(&format!("{name}.example.com"), "example.com")
        .replace(&format!("{name}-system"), "federate-system")
        .replace(name, "shop")
}

impl Drop for Real {
    fn drop(&mut self) {
        for cluster in self.clients.keys() {
            // A test that fails is not to fail twice, which would end the whole run.
            let tidied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.tidy(cluster)));
            if tidied.is_err() {
                println!("{} may have left something in {cluster}", self.name);
            }
        }
    }
}
