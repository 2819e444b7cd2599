//! Every write in clusters: those of a test's own keep them, and real ones show them to a watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use federate_test_apiserver::{StoreKey, WriteEvent};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::sync_objects::until;

/// The kinds whose writes are looked at in real clusters, with their lists.
const KINDS: [(&str, &str); 4] = [
    ("", "/api/v1/configmaps"),
    ("", "/api/v1/pods"),
    ("apps", "/apis/apps/v1/deployments"),
    ("apps", "/apis/apps/v1/replicasets"),
];
/// An object of the test's own, by which it sees how far a watch is.
const MARKER: &str = "marker";
const CONFIGS: &str = "/api/v1/namespaces/shop/configmaps";

/// Sees every write in clusters from its start on.
pub(crate) struct Recorder {
    /// None for those of the test's own.
    seen: BTreeMap<String, Arc<Seen>>,
}

/// What the watches of a cluster have seen.
#[derive(Default)]
struct Seen {
    writes: Mutex<Vec<WriteEvent>>,
    /// Why a watch has ended, which it must not.
    ended: Mutex<Option<String>>,
}

impl Seen {
    fn lock_writes(&self) -> MutexGuard<'_, Vec<WriteEvent>> {
        assert_eq!(*self.ended.lock().unwrap(), None, "a watch has ended");
        self.writes.lock().unwrap()
    }
}

impl Recorder {
    pub(crate) fn start(sandbox: &Sandbox, clusters: &[&str]) -> Self {
        let mut seen = BTreeMap::new();
        for cluster in clusters {
            let Some(real) = &sandbox.real else { continue };
            let of_cluster: Arc<Seen> = Arc::default();
            for (group, path) in KINDS {
                let version = real.get(cluster, path).unwrap()["metadata"]["resourceVersion"].clone();
                let watch = Watch {
                    group,
                    path,
                    version: version.as_str().unwrap().to_owned(),
                    known: real.names(),
                    last: BTreeMap::new(),
                    seen: of_cluster.clone(),
                };
                real.spawn(watch.run(real.client(cluster)));
            }
            seen.insert((*cluster).to_owned(), of_cluster);
        }
        Self { seen }
    }

    /// Waits until all that was sent until now is seen: nobody writes meanwhile but servers that carry out what a process
    /// has sent before it was killed.
    pub(crate) fn settle(&self, sandbox: &Sandbox) {
        if !self.seen.is_empty() {
            std::thread::sleep(Duration::from_millis(300));
        }
        for (cluster, seen) in &self.seen {
            let path = format!("{CONFIGS}/{MARKER}");
            let marker = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MARKER}});
            sandbox.create(cluster, CONFIGS, "test", &marker);
            let uid = sandbox.get(cluster, &path)["metadata"]["uid"].clone();
            sandbox.delete(cluster, &path);
            let is_marker = |write: &WriteEvent| write.deleted && write.object["metadata"]["uid"] == uid;
            until("the watch has seen it", || seen.lock_writes().iter().any(is_marker));
        }
    }

    /// The writes of a cluster, in their order, each with a time that is not before it.
    pub(crate) fn list_writes(&self, sandbox: &Sandbox, cluster: &str) -> Vec<WriteEvent> {
        let Some(seen) = self.seen.get(cluster) else {
            return sandbox.fleet.lock_cluster(cluster).writes().to_vec();
        };
        let mut writes = seen.lock_writes().clone();
        // A watch may be later than another one. What comes before a write was written before that one was seen.
        writes.sort_by_key(|write| write.version);
        let mut earliest = Instant::now();
        for write in writes.iter_mut().rev() {
            earliest = earliest.min(write.at);
            write.at = earliest;
        }
        writes.retain(|write| ![MARKER, "kube-root-ca.crt"].contains(&write.key.name.as_str()));
        writes
    }
}

/// The names of a test, as its own and as all tests know them.
pub(crate) type KnownNames = Box<dyn Fn(&str) -> String + Send>;

struct Watch {
    group: &'static str,
    path: &'static str,
    version: String,
    known: KnownNames,
    last: BTreeMap<StoreKey, Arc<Value>>,
    seen: Arc<Seen>,
}

impl Watch {
    async fn run(mut self, client: Client) {
        let why = match self.read_events(&client).await {
            Ok(()) => "the server has ended it".to_owned(),
            Err(error) => error.to_string(),
        };
        *self.seen.ended.lock().unwrap() = Some(format!("{}: {why}", self.path));
    }

    async fn read_events(&mut self, client: &Client) -> Result<(), kube::Error> {
        let path = format!("{}?watch=true&timeoutSeconds=7200&resourceVersion={}", self.path, self.version);
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let mut body = client.send(request).await?.into_body();
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            text.extend_from_slice(&data);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                self.record(&String::from_utf8_lossy(&line));
            }
        }
        Ok(())
    }

    /// Keeps a write in the namespace of the test, or in the parent of its `ApplySet`.
    fn record(&mut self, line: &str) {
        let at = Instant::now();
        let mut event: Value = serde_json::from_str(&(self.known)(line)).unwrap();
        let object = Arc::new(event["object"].take());
        let metadata = &object["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let plural = self.path.rsplit('/').next().unwrap().to_owned();
        let key = StoreKey {
            group: self.group.to_owned(),
            plural,
            namespace: text("namespace"),
            name: text("name"),
        };
        if event["type"] == "ERROR" {
            *self.seen.ended.lock().unwrap() = Some(format!("{}: {object}", self.path));
            return;
        }
        if key.namespace != "shop" && (&*key.namespace, &*key.name) != ("default", "federate.shop.web") {
            return;
        }
        let deleted = event["type"] == "DELETED";
        let before = self.last.insert(key.clone(), object.clone());
        if deleted {
            self.last.remove(&key);
        }
        let version = text("resourceVersion").parse().unwrap();
        self.seen.writes.lock().unwrap().push(WriteEvent { version, at, key, before, object, deleted });
    }
}
