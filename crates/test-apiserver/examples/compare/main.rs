//! Compares what a real API server and the one of the tests answer to the same random requests.
//!
//! `cargo run -p federate-test-apiserver --example compare -- KUBECONFIG` makes a namespace in a cluster, sends random
//! objects of many kinds there and to a server in this process (server-side apply by several managers, merge patches,
//! deletions, some of it as dry runs), and shows where the answers differ. What a server chooses by itself (uids,
//! versions, times, addresses) and what controllers write is left out. The same seed sends the same requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool for developers"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use federate_test_apiserver::{ApiRequest, TestCluster};

mod objects;

/// Compare a real API server with the one of the tests.
#[derive(Parser)]
struct Args {
    /// The kubeconfig of a cluster in which anything may be done in a namespace of its own.
    kubeconfig: PathBuf,
    /// The context in it.
    #[arg(long)]
    context: Option<String>,
    /// Where the random numbers begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many objects to send requests about.
    #[arg(long, default_value_t = 100)]
    objects: usize,
}

/// Random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

struct Real {
    runtime: Runtime,
    client: kube::Client,
}

impl Real {
    fn new(args: &Args) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
        let client = runtime.block_on(async {
            let read = Kubeconfig::read_from(&args.kubeconfig).expect("a kubeconfig");
            let config = kube::Config::from_custom_kubeconfig(read, &options).await.expect("its context");
            kube::Client::try_from(config).expect("a way to the cluster")
        });
        Self { runtime, client }
    }

    fn answer(&self, request: &ApiRequest) -> (u16, Value) {
        let target = request.path_and_query();
        let built = http::Request::builder()
            .method(request.method.as_str())
            .uri(target.trim_end_matches('?'))
            .header("Content-Type", request.content_type())
            .header("User-Agent", "compare")
            .body(Body::from(request.body.clone()))
            .unwrap();
        self.runtime.block_on(async {
            let response = self.client.send(built).await.expect("an answer");
            let code = response.status().as_u16();
            let bytes = response.into_body().collect().await.expect("all of it").to_bytes();
            (code, serde_json::from_slice(&bytes).unwrap_or_default())
        })
    }
}

fn simulated(cluster: &mut TestCluster, request: &ApiRequest) -> (u16, Value) {
    let response = cluster.handle_request(request);
    let body = match response.body {
        federate_test_apiserver::Body::Json(value) => Value::clone(&value),
        _ => Value::Null,
    };
    (response.status, body)
}

/// Removes what differs from server to server, and what controllers write.
fn comparable(value: &mut Value) {
    const CHOSEN: [&str; 13] = [
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "time",
        "clusterIP",
        "clusterIPs",
        "status",
        "deployment.kubernetes.io/revision",
        "deprecated.daemonset.template.generation",
        "kubernetes.io/metadata.name",
    ];
    match value {
        Value::Object(map) => {
            for key in CHOSEN {
                map.shift_remove(key);
            }
            if let Some(entries) = map.get_mut("managedFields").and_then(Value::as_array_mut) {
                entries.retain(|entry| entry["manager"] != "kube-controller-manager");
                entries.sort_by_key(|entry| {
                    ["manager", "operation", "subresource"].map(|key| entry[key].to_string())
                });
            }
            brief(map);
            map.values_mut().for_each(comparable);
        }
        Value::Array(items) => items.iter_mut().for_each(comparable),
        _ => {}
    }
}

/// Leaves long values out of a refusal: Go prints them in a form of its own, and they contain uids.
fn brief(map: &mut serde_json::Map<String, Value>) {
    let Some(details) = map.get("details").and_then(Value::as_object).cloned() else { return };
    if let Some(message) = map.get("message").and_then(Value::as_str) {
        let message = federate_apiserver_model::shorten_message(message, &details);
        map.insert("message".to_owned(), message.into());
    }
    let causes = map.get_mut("details").and_then(|details| details.get_mut("causes")?.as_array_mut());
    for cause in causes.into_iter().flatten() {
        if let Some(message) = cause["message"].as_str() {
            let alone = json!({"causes": [{"message": message}]});
            cause["message"] =
                federate_apiserver_model::shorten_message(message, alone.as_object().unwrap()).into();
        }
    }
}

/// A random request about an object that may or may not be there.
fn request(random: &mut Random, path: &str, body: &Value) -> ApiRequest {
    let manager = ["a", "b", "c"][random.below(3)];
    let request = match random.below(10) {
        // By default the pods of Jobs are orphaned, at a time that the garbage collector chooses.
        0 => ApiRequest::new("DELETE", path).with_query("propagationPolicy", "Background"),
        1 | 2 => ApiRequest::new("PATCH", path)
            .with_query("fieldManager", manager)
            .with_body("application/merge-patch+json", without_names(body).to_string()),
        _ => {
            let apply = ApiRequest::new("PATCH", path).with_query("fieldManager", manager);
            let apply = if random.one_in(3) { apply } else { apply.with_query("force", "true") };
            apply.with_body("application/apply-patch+yaml", body.to_string())
        }
    };
    if random.one_in(4) && request.method != "DELETE" { request.with_query("dryRun", "All") } else { request }
}

fn without_names(body: &Value) -> Value {
    let mut body = body.clone();
    for key in ["apiVersion", "kind"] {
        body.as_object_mut().unwrap().shift_remove(key);
    }
    body
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (real, mut cluster) = (Real::new(&args), TestCluster::new("compare"));
    let mut random = Random(args.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let namespace = format!("compare-{}-{}", args.seed, std::process::id());
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let make = ApiRequest::new("POST", "/api/v1/namespaces").with_body("application/json", body.to_string());
    assert_eq!((real.answer(&make).0, simulated(&mut cluster, &make).0), (201, 201), "the namespace");
    let (mut sent, mut different) = (0, 0);
    for number in 0..args.objects {
        let name = format!("o{number}");
        let sort = objects::sort(&mut random);
        let path = format!("{}/namespaces/{namespace}/{}/{name}", sort.version, sort.plural);
        for _ in 0..3 + random.below(4) {
            let body = objects::object(&mut random, sort, &namespace, &name);
            let request = request(&mut random, &path, &body);
            let (mut wanted, mut got) = (real.answer(&request), simulated(&mut cluster, &request));
            comparable(&mut wanted.1);
            comparable(&mut got.1);
            sent += 1;
            if wanted != got {
                different += 1;
                show(&request, &wanted, &got);
            }
        }
    }
    real.answer(&ApiRequest::new("DELETE", &format!("/api/v1/namespaces/{namespace}")));
    println!("{} of {sent} answers agree (seed {})", sent - different, args.seed);
    if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(request: &ApiRequest, wanted: &(u16, Value), got: &(u16, Value)) {
    println!("{} {}\n{}", request.method, request.path_and_query(), String::from_utf8_lossy(&request.body));
    if wanted.0 != got.0 {
        println!("  status: {} is {} on the real server", got.0, wanted.0);
    }
    let mut lines = Vec::new();
    differences(&wanted.1, &got.1, "", &mut lines);
    for line in lines.iter().take(8) {
        println!("  {line}");
    }
}

fn differences(wanted: &Value, got: &Value, path: &str, lines: &mut Vec<String>) {
    match (wanted, got) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differences(&of(a), &of(b), &format!("{path}/{key}"), lines);
            }
        }
        _ if wanted == got => {}
        _ => lines.push(format!("{path}: {got} is {wanted} on the real server")),
    }
}
