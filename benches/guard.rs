//! Guards the speed of commands: `cargo bench --bench guard`.
//!
//! 2,000 apps, each a Deployment, a Service and a `ConfigMap` with a policy of its own, for 100 clusters with overrides by region.
//! A row is the processor time of a whole process, in multiples of what a yardstick takes in the same round: `render` of copying
//! its output, the others of a loop that parses and hashes. The medians are compared with those in `benches/guard.json`; a row
//! beyond 1.3 times its own fails. `-- --update` keeps the new ones.
//!
//! `FEDERATE_BENCH_BINARY` names another binary, `FEDERATE_BENCH_ROUNDS` the number of rounds (5), and `FEDERATE_BENCH_DIR` the
//! folder for files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot set up its input has nothing better to do"
)]

#[path = "shared/apps.rs"]
#[allow(dead_code, reason = "the benches with API servers use more of it")]
mod apps;
#[path = "shared/ratios.rs"]
mod ratios;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use sha2::{Digest, Sha256};

use ratios::Ratios;

const APPS: usize = 2000;
const CLUSTERS: usize = 100;
/// The clusters whose output is copied, to save room: all have as many files.
const COPIED_CLUSTERS: usize = 10;
const REGIONS: [&str; 4] = ["eu-west", "us-east", "ap-south", "ap-east"];

/// The commands, with their names. All but `render` are multiples of parsing.
const COMMANDS: [(&str, &str); 7] = [
    ("plan", "plan repo"),
    ("render", "render repo --out out"),
    ("render, unchanged", "render repo --out out"),
    ("diff of one template", "diff repo --from main"),
    ("check", "check repo"),
    ("whatif of one cluster", "whatif repo --lose member-007"),
    ("page", "plan repo -o html"),
];

fn main() -> ExitCode {
    let updates = std::env::args().any(|argument| argument == "--update");
    let scratch = match std::env::var_os("FEDERATE_BENCH_DIR") {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    write_repo(scratch.path());
    let rounds = std::env::var("FEDERATE_BENCH_ROUNDS").map_or(5, |text| text.parse().unwrap());
    let mut measured: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        measure_round(scratch.path(), &mut measured);
    }
    let now: Ratios =
        measured.into_iter().map(|(name, ratios)| (name.to_owned(), take_median(ratios))).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/guard.json");
    if updates {
        fs::write(file, ratios::write_ratios(&now)).unwrap();
        return ExitCode::SUCCESS;
    }
    let kept = fs::read_to_string(file).map(|text| ratios::read_ratios(&text)).unwrap_or_default();
    for (name, ratio) in &now {
        let before = kept.get(name).map_or("none".to_owned(), |ratio| format!("{ratio:.2}"));
        println!("{name}: {ratio:.2}, kept {before}");
    }
    let excesses = ratios::find_excesses(&kept, &now);
    for excess in &excesses {
        println!("beyond {}: {excess}", ratios::LIMIT);
    }
    if excesses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs each command once, and the yardsticks in between.
fn measure_round(folder: &Path, measured: &mut BTreeMap<&str, Vec<f64>>) {
    for output in ["out", "copy"] {
        let _ = fs::remove_dir_all(folder.join(output));
    }
    let parsing = time_of(UsageWho::RUSAGE_SELF, parse_and_hash);
    let mut times = BTreeMap::new();
    for (name, line) in COMMANDS {
        times.insert(name, time_of(UsageWho::RUSAGE_CHILDREN, || run_federate(folder, line)));
    }
    fs::create_dir(folder.join("copy")).unwrap();
    let copied = (0..COPIED_CLUSTERS).map(|number| format!("member-{number:03}"));
    let copy = |name: String| copy_folder(&folder.join("out").join(&name), &folder.join("copy").join(&name));
    let copying = time_of(UsageWho::RUSAGE_SELF, || copied.for_each(copy));
    let copying = copying * u32::try_from(CLUSTERS / COPIED_CLUSTERS).unwrap();
    for (name, time) in times {
        let yardstick = if name.starts_with("render") { copying } else { parsing };
        measured.entry(name).or_default().push(time.as_secs_f64() / yardstick.as_secs_f64());
    }
}

/// The processor time that something takes, the system's included.
fn time_of(who: UsageWho, work: impl FnOnce()) -> Duration {
    let read_time = || {
        let usage = getrusage(who).unwrap();
        (usage.user_time() + usage.system_time()).num_microseconds()
    };
    let before = read_time();
    work();
    Duration::from_micros(u64::try_from(read_time() - before).unwrap())
}

fn run_federate(folder: &Path, line: &str) {
    let binary = std::env::var("FEDERATE_BENCH_BINARY");
    let binary = binary.unwrap_or_else(|_| env!("CARGO_BIN_EXE_federate").to_owned());
    let mut command = Command::new(binary);
    command.args(line.split(' ')).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status().unwrap();
    // 1 says that there are differences, or findings.
    assert!(matches!(status.code(), Some(0 | 1)), "{line}: {status}");
}

/// Parses and hashes a document by code that is not federate's.
fn parse_and_hash() {
    let item =
        serde_json::json!({"name": "web", "replicas": 3, "labels": {"app": "web"}, "ports": [80, 443]});
    let text = serde_json::Value::from(vec![item; 1000]).to_string();
    let mut hasher = Sha256::new();
    for _ in 0..200 {
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        hasher.update(parsed.to_string());
    }
    std::hint::black_box(hasher.finalize());
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn take_median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// Writes the repo as the branch `main`, and edits one template after it.
fn write_repo(folder: &Path) {
    let repo = folder.join("repo");
    let write = |name: String, text: String| {
        let path = repo.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for number in 0..CLUSTERS {
        write(format!("clusters/member-{number:03}.yaml"), cluster(number));
    }
    for number in 0..APPS {
        write(format!("apps/app-{number}/objects.yaml"), apps::app(number));
        write(format!("apps/app-{number}/policy.yaml"), policy(number));
    }
    write("overrides.yaml".to_owned(), REGIONS.map(registry).join("---\n"));
    for line in ["init -q -b main", "add -A", "-c user.name=a -c user.email=a@example.com commit -qm first"] {
        assert!(Command::new("git").args(line.split(' ')).current_dir(&repo).status().unwrap().success());
    }
    let edited = apps::app(500).replace("value: info", "value: debug");
    assert_ne!(edited, apps::app(500));
    write("apps/app-500/objects.yaml".to_owned(), edited);
}

fn cluster(number: usize) -> String {
    let region = REGIONS[number % REGIONS.len()];
    format!(
        "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {{name: member-{number:03}, labels: {{env: prod, region: {region}}}}}
spec: {{region: {region}, provider: acme}}
"
    )
}

fn policy(number: usize) -> String {
    let selector = |version: &str, kind: &str| {
        format!("  - {{apiVersion: {version}, kind: {kind}, name: app-{number}}}\n")
    };
    let selectors =
        selector("apps/v1", "Deployment") + &selector("v1", "Service") + &selector("v1", "ConfigMap");
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: app-{number}, namespace: team-{}}}
spec:
  resourceSelectors:
{selectors}  placement: {{clusterAffinity: {{labelSelector: {{matchLabels: {{env: prod}}}}}}}}
",
        number % apps::NAMESPACES
    )
}

/// The overrides of a region.
fn registry(region: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {{name: registry-{region}}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}]
  overrideRules:
  - targetCluster: {{labelSelector: {{matchLabels: {{region: {region}}}}}}}
    overriders:
      imageOverrider: [{{component: Registry, operator: replace, value: registry.{region}.example.com}}]
      labelsOverrider: [{{operator: add, value: {{region: {region}}}}}]
"
    )
}
