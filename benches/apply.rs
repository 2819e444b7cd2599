//! Applying 1,000 objects to each of 10 clusters, and again with nothing changed, as whole processes.
//!
//! The baseline is `kubectl apply --server-side` of the same objects against the same server, if kubectl is
//! installed (without its validation, because the servers have no schemas). The servers run in this process;
//! `FEDERATE_BENCH_RUNS` sets the number of runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark that cannot set up its input has nothing better to do"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use federate_test_apiserver::Fleet;

// As in the binary; the servers use the same rules.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLUSTERS: usize = 10;
/// A Deployment, a Service and a `ConfigMap` each; with their namespaces, 1,000 objects per cluster.
const APPS: usize = 330;
const NAMESPACES: usize = 10;

fn main() {
    let runs = std::env::var("FEDERATE_BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3);
    let (mut first, mut again, mut kubectl) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let scratch = tempfile::tempdir().unwrap();
        write_repo(scratch.path());
        let fleet = serve(scratch.path());
        first.push(federate(scratch.path(), &fleet, "first apply"));
        again.push(federate(scratch.path(), &fleet, "unchanged"));
        drop(fleet);
        kubectl.extend(with_kubectl(scratch.path()));
    }
    println!("\nmedian of {runs}, {CLUSTERS} clusters of {} objects", 3 * APPS + NAMESPACES);
    for (what, times) in [("first apply", first), ("unchanged", again), ("kubectl, first apply", kubectl)] {
        if let Some(time) = median(times) {
            println!("{what}: {:.2} s, {:.2} s a cluster", time.as_secs_f64(), time.as_secs_f64() / 10.0);
        }
    }
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

fn names() -> Vec<String> {
    (0..CLUSTERS).map(|number| format!("member-{number}")).collect()
}

/// Empty clusters, and a kubeconfig for them.
fn serve(folder: &Path) -> Fleet {
    let names = names();
    let fleet = Fleet::start(&names.iter().map(String::as_str).collect::<Vec<_>>());
    fleet.write_kubeconfig(&folder.join("kubeconfig"));
    fleet
}

fn run(command: &mut Command) -> Duration {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    begun.elapsed()
}

fn federate(folder: &Path, fleet: &Fleet, what: &str) -> Duration {
    for name in names() {
        fleet.cluster(&name).reset_counts();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
    let time = run(command.args(["apply", "repo", "--kubeconfig", "kubeconfig"]).current_dir(folder));
    let counts: Vec<usize> = names().iter().map(|name| fleet.cluster(name).counts().values().sum()).collect();
    let most = counts.iter().max().copied().unwrap_or_default();
    println!("federate, {what}: {:.2} s, at most {most} requests a cluster", time.as_secs_f64());
    time
}

/// The same objects, applied cluster by cluster.
fn with_kubectl(folder: &Path) -> Option<Duration> {
    Command::new("kubectl").args(["version", "--client"]).output().ok()?;
    let out = folder.join("out");
    let mut render = Command::new(env!("CARGO_BIN_EXE_federate"));
    run(render.args(["render", "repo", "--quiet", "--out", "out"]).current_dir(folder));
    let fleet = serve(folder);
    let mut whole = Duration::ZERO;
    for name in names() {
        let mut command = Command::new("kubectl");
        command.args([
            "--kubeconfig",
            "kubeconfig",
            "--context",
            &name,
            "apply",
            "--server-side",
            "--validate=false",
            "-R",
            "-f",
        ]);
        whole += run(command.arg(out.join(&name)).current_dir(folder).env("HOME", folder));
    }
    drop(fleet);
    println!("kubectl, first apply: {:.2} s", whole.as_secs_f64());
    Some(whole)
}

fn write_repo(folder: &Path) {
    let repo = folder.join("repo");
    fs::create_dir_all(&repo).unwrap();
    let mut clusters = String::new();
    for name in names() {
        write!(
            clusters,
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
        )
        .unwrap();
    }
    fs::write(repo.join("clusters.yaml"), clusters).unwrap();
    fs::write(repo.join("policy.yaml"), POLICY).unwrap();
    for number in 0..NAMESPACES {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{number}}}\n");
        fs::write(repo.join(format!("team-{number}.yaml")), namespace).unwrap();
    }
    for number in 0..APPS {
        fs::write(repo.join(format!("app-{number}.yaml")), app(number)).unwrap();
    }
}

const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: everywhere}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Namespace}
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: v1, kind: Service}
  - {apiVersion: v1, kind: ConfigMap}
  placement: {clusterAffinity: {}}
";

fn app(number: usize) -> String {
    let at = format!("name: app-{number}\n  namespace: team-{}\n", number % NAMESPACES);
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  {at}  labels: {{app: app-{number}, tier: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: app-{number}}}}}
  template:
    metadata: {{labels: {{app: app-{number}, tier: web}}}}
    spec:
      containers:
      - name: app
        image: registry.example.com/app-{number}:1.4.2
        args: [--listen=:8080, --config=/etc/app/config.yaml]
        ports: [{{name: http, containerPort: 8080}}, {{name: metrics, containerPort: 9090}}]
        env:
        - {{name: LOG_LEVEL, value: info}}
        - {{name: REGION, value: eu-west}}
        resources:
          requests: {{cpu: 250m, memory: 256Mi}}
          limits: {{cpu: 500m, memory: 512Mi}}
        readinessProbe: {{httpGet: {{path: /ready, port: http}}}}
        volumeMounts: [{{name: config, mountPath: /etc/app}}]
      volumes: [{{name: config, configMap: {{name: app-{number}}}}}]
---
apiVersion: v1
kind: Service
metadata:
  {at}spec:
  selector: {{app: app-{number}}}
  ports: [{{name: http, port: 80, targetPort: http}}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  {at}data: {{config.yaml: 'listen: :8080'}}
"
    )
}
