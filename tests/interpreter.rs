//! Scripts of a `ResourceInterpreterCustomization` in a whole repo: the output of `check` and `explain`, and
//! hostile scripts, after which the session works on.

#![cfg(feature = "lua")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly and say what they measure"
)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use federate_dialects::DIALECTS;
use federate_kubernetes::{Finding, Severity};
use federate_repo::{Config, RepoFile};
use federate_session::{Session, SessionOptions};
use serde_json::{Value, json};

mod hostile;

fn file(path: &str, body: &Value) -> RepoFile {
    RepoFile { path: path.into(), bytes: body.to_string().into_bytes().into() }
}

fn customization(name: &str, rules: &[(&str, &str)]) -> Value {
    let rules: serde_json::Map<String, Value> =
        rules.iter().map(|(rule, script)| ((*rule).to_owned(), json!({"luaScript": script}))).collect();
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {"target": {"apiVersion": "example.com/v1", "kind": "Set"}, "customizations": rules},
    })
}

/// Two clusters, a Set and a `ConfigMap` that go everywhere.
fn files(customizations: &[Value], more: Vec<RepoFile>) -> Vec<RepoFile> {
    let cluster = |name: &str| json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"syncMode": "Push"}});
    let set = json!({
        "apiVersion": "example.com/v1", "kind": "Set", "metadata": {"name": "s", "namespace": "default"},
        "spec": {"size": 4, "config": "c"},
    });
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "default"}});
    let selector =
        |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "name": name});
    let scheduling = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "propagateDeps": true,
            "resourceSelectors": [selector("example.com/v1", "Set", "s"), selector("v1", "ConfigMap", "other")],
            "placement": {"replicaScheduling": scheduling},
        },
    });
    let mut files = more;
    let bodies = [cluster("m1"), cluster("m2"), set, config, other, policy];
    for (index, body) in bodies.iter().chain(customizations).enumerate() {
        files.push(file(&format!("{index:02}.json"), body));
    }
    files
}

fn session(customizations: &[Value], more: Vec<RepoFile>) -> Session {
    Session::from_files(files(customizations, more), Config::default(), SessionOptions::new(DIALECTS))
}

fn replicas(session: &Session, name: &str) -> Vec<Option<i64>> {
    let row = session.plan().placements.iter().find(|row| row.object.name == name);
    row.map(|row| row.clusters.iter().map(|placed| placed.replicas).collect()).unwrap_or_default()
}

fn of_code<'f>(findings: &'f [Finding], code: &str) -> Vec<&'f Finding> {
    findings.iter().filter(|finding| finding.code == code).collect()
}

const REPLICAS: (&str, &str) = ("replicaResource", "function GetReplicas(o) return o.spec.size end");
const REVISION: (&str, &str) =
    ("replicaRevision", "function ReviseReplica(o, n) o.spec.size = n return o end");

#[test]
fn a_kind_is_divided_revised_and_followed() {
    let dependencies = (
        "dependencyInterpretation",
        "function GetDependencies(o) return {{ apiVersion = 'v1', kind = 'ConfigMap', namespace = o.metadata.namespace, name = o.spec.config }} end",
    );
    let session = session(&[customization("c", &[REPLICAS, REVISION, dependencies])], Vec::new());
    assert_eq!(replicas(&session, "s"), [Some(2), Some(2)]);
    assert_eq!(replicas(&session, "c"), [None, None]);
    let manifests = &session.render().manifests;
    let set = manifests.iter().find(|manifest| manifest.object.name == "s").unwrap();
    assert!(set.text.contains("size: 2"), "{}", set.text);
    assert_eq!(session.findings(), []);
}

#[test]
fn a_script_that_fails_keeps_what_was_and_stops_nothing_else() {
    let failing = ("replicaResource", "function GetReplicas(o)\n  return o.status.size.now\nend");
    let failed = session(&[customization("c", &[failing])], Vec::new());
    let findings = failed.findings();
    let [finding] = of_code(&findings, "interpreter-failed")[..] else { panic!("{findings:?}") };
    assert_eq!((finding.severity, finding.text_line), (Severity::Error, Some(2)));
    assert_eq!(replicas(&failed, "s"), []);
    assert_eq!(replicas(&failed, "other"), [None, None]);
}

#[test]
fn admission_refuses_what_does_not_compile_and_a_second_script_of_a_rule() {
    let text = "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata:\n  name: a\nspec:\n  target:\n    apiVersion: example.com/v1\n    kind: Other\n  customizations:\n    retention:\n      luaScript: |\n        function Retain(d, o)\n          local x =\n        end\n";
    let broken = RepoFile { path: "broken.yaml".into(), bytes: text.as_bytes().to_vec().into() };
    let all = [customization("b", &[REPLICAS]), customization("c", &[REPLICAS])];
    let session = session(&all, vec![broken]);
    let findings = session.findings();
    let refused = of_code(&findings, "invalid-customization");
    assert_eq!(refused.len(), 2, "{findings:?}");
    let rows = federate_report::findings::build_rows(session.repo(), &findings);
    let at = rows.iter().find(|row| row.file.as_deref() == Some("broken.yaml")).unwrap();
    assert_eq!(at.line, Some(14), "{at:?}");
}

#[test]
fn check_runs_scripts_that_nothing_asks() {
    let retention = ("retention", "function Retain(d, o) return d.spec.size.x.y end");
    let session = session(&[customization("c", &[REPLICAS, REVISION, retention])], Vec::new());
    assert!(of_code(&session.findings(), "script-failed").is_empty());
    let findings = session.check_repo();
    let failed = of_code(&findings, "script-failed");
    assert_eq!(failed.len(), 1, "{findings:?}");
    assert!(
        failed[0].message.contains("retention") && failed[0].message.contains("line 1"),
        "{}",
        failed[0].message
    );
}

/// The resource usage of a process.
#[derive(Debug)]
struct Usage {
    processor_time: Duration,
    /// The peak of its resident memory, in MiB.
    memory: u64,
}

/// Waits for a process, and measures its usage.
#[cfg(target_os = "linux")]
fn watch(mut child: Child) -> Usage {
    let folder = format!("/proc/{}", child.id());
    let mut memory = 0;
    loop {
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        if value("State:").is_some_and(|state| state.starts_with('Z')) {
            break;
        }
        let highest = value("VmHWM:").and_then(|text| text.strip_suffix(" kB")?.trim().parse::<u64>().ok());
        memory = memory.max(highest.unwrap_or(0) / 1024);
        std::thread::sleep(Duration::from_millis(1));
    }
    // The times of an ended process remain until it is waited for. Their unit is 10 ms.
    let statistics = fs::read_to_string(format!("{folder}/stat")).unwrap();
    let fields: Vec<&str> = statistics.rsplit(") ").next().unwrap().split(' ').collect();
    let hundredths: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    child.wait().unwrap();
    Usage { processor_time: Duration::from_millis(10 * hundredths), memory }
}

/// Runs `federate check` on a repo with these customizations; returns its usage and findings.
#[cfg(target_os = "linux")]
fn checked(customizations: &[Value]) -> (Usage, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let (repo, out) = (folder.path().join("repo"), folder.path().join("findings.json"));
    fs::create_dir(&repo).unwrap();
    for file in files(customizations, Vec::new()) {
        fs::write(repo.join(file.path.as_ref()), &file.bytes).unwrap();
    }
    let child = Command::new(env!("CARGO_BIN_EXE_federate"))
        .args(["check", "-o", "json"])
        .arg(&repo)
        .stdout(fs::File::create(&out).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let usage = watch(child);
    let printed: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    (usage, printed["findings"].as_array().unwrap().clone())
}

/// A customization with a `replicaResource` script.
fn counting(script: &str) -> Value {
    customization("c", &[("replicaResource", &format!("{script}\nGetReplicas = F"))])
}

/// Each hostile script ends as a finding, within a second of processor time and 200 MiB.
#[test]
#[cfg(target_os = "linux")]
fn check_survives_hostile_scripts_within_bounds() {
    for script in hostile::SCRIPTS {
        let (usage, findings) = checked(&[counting(script)]);
        let failed = |finding: &&Value| {
            matches!(finding["code"].as_str(), Some("interpreter-failed" | "invalid-customization"))
        };
        assert_eq!(findings.iter().filter(failed).count(), 1, "{script}: {findings:?}");
        println!("{:>5} ms {:>4} MiB  {script}", usage.processor_time.as_millis(), usage.memory);
        assert!(usage.processor_time <= Duration::from_secs(1), "{usage:?}: {script}");
        assert!(usage.memory <= 200, "{usage:?}: {script}");
    }
}

#[test]
fn whatever_a_script_does_the_session_goes_on() {
    for script in hostile::SCRIPTS {
        let hostile = session(&[counting(script)], Vec::new());
        let findings = hostile.findings();
        let failed = [of_code(&findings, "interpreter-failed"), of_code(&findings, "invalid-customization")];
        assert_eq!(failed.concat().len(), 1, "{script}: {findings:?}");
        assert_eq!(replicas(&hostile, "other"), [None, None], "{script}");
    }
}
