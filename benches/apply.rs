//! Applying 1,000 objects to each of 10 clusters, and twice again with nothing changed, as whole processes. The last run
//! finds a record of the one before.
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

/// Objects consist of many small allocations, which all cores make and free.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "shared/apps.rs"]
mod apps;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use federate_test_apiserver::Fleet;

const CLUSTERS: usize = 10;

fn main() {
    let runs = std::env::var("FEDERATE_BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3);
    let (mut first, mut again, mut repeated, mut kubectl) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let scratch = tempfile::tempdir().unwrap();
        write_repo(scratch.path());
        let fleet = serve(scratch.path());
        first.push(federate(scratch.path(), &fleet, "first apply"));
        again.push(federate(scratch.path(), &fleet, "unchanged"));
        repeated.push(federate(scratch.path(), &fleet, "unchanged, recorded"));
        drop(fleet);
        kubectl.extend(with_kubectl(scratch.path()));
    }
    println!("\nmedian of {runs}, {CLUSTERS} clusters of {} objects", 3 * apps::APPS + apps::NAMESPACES);
    let all = [
        ("first apply", first),
        ("unchanged", again),
        ("unchanged, recorded", repeated),
        ("kubectl, first apply", kubectl),
    ];
    for (what, times) in all {
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
    let fleet = Fleet::start_clusters(&names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    fleet.write_kubeconfig(&folder.join("kubeconfig")).unwrap();
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
        fleet.lock_cluster(&name).reset_counts();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    let time = run(command.args(["apply", "repo", "--kubeconfig", "kubeconfig"]).current_dir(folder));
    let counts: Vec<usize> =
        names().iter().map(|name| fleet.lock_cluster(name).counts().values().sum()).collect();
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
    let mut clusters = String::new();
    for name in names() {
        write!(
            clusters,
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
        )
        .unwrap();
    }
    apps::write(&repo);
    fs::write(repo.join("clusters.yaml"), clusters).unwrap();
}
