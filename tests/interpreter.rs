//! Scripts of a `ResourceInterpreterCustomization` in a whole repo: what `check` and `explain` say of them, and
//! scripts that mean no good. Whatever a script does, the session goes on.

#![cfg(feature = "lua")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::time::{Duration, Instant};

use federate_kubernetes::{Finding, Severity};
use federate_repo::{Config, File};
use federate_session::{Options, Session};
use serde_json::{Value, json};

fn file(path: &str, body: &Value) -> File {
    File { path: path.into(), bytes: body.to_string().into_bytes().into() }
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
fn session(customizations: &[Value], more: Vec<File>) -> Session {
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
    Session::of_files(files, Config::default(), Options::default())
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
    let manifests = &session.rendering().manifests;
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
    let broken = File { path: "broken.yaml".into(), bytes: text.as_bytes().to_vec().into() };
    let all = [customization("b", &[REPLICAS]), customization("c", &[REPLICAS])];
    let session = session(&all, vec![broken]);
    let findings = session.findings();
    let refused = of_code(&findings, "invalid-customization");
    assert_eq!(refused.len(), 2, "{findings:?}");
    let rows = federate_report::findings::rows(session.repo(), &findings);
    let at = rows.iter().find(|row| row.file.as_deref() == Some("broken.yaml")).unwrap();
    assert_eq!(at.line, Some(14), "{at:?}");
}

#[test]
fn check_runs_scripts_that_nothing_asks() {
    let retention = ("retention", "function Retain(d, o) return d.spec.size.x.y end");
    let session = session(&[customization("c", &[REPLICAS, REVISION, retention])], Vec::new());
    assert!(of_code(&session.findings(), "script-failed").is_empty());
    let findings = session.check();
    let failed = of_code(&findings, "script-failed");
    assert_eq!(failed.len(), 1, "{findings:?}");
    assert!(
        failed[0].message.contains("retention") && failed[0].message.contains("line 1"),
        "{}",
        failed[0].message
    );
}

/// Scripts that would take all time or memory, or break out.
const HOSTILE: [&str; 14] = [
    "while true do end",
    "function GetReplicas() while true do pcall(function() while true do end end) end end",
    "function GetReplicas() local s = 'x' while true do s = s .. s end end",
    "function GetReplicas() local t = {} while true do t[#t + 1] = {} end end",
    "function GetReplicas() return 1 + GetReplicas() end",
    "function GetReplicas() return GetReplicas() end",
    "function GetReplicas() return ('x'):rep(1e9) end",
    "function GetReplicas() return #('a'):rep(30):match(('a*'):rep(30) .. 'b') end",
    "function GetReplicas() setmetatable({}, {}) end",
    "function GetReplicas() coroutine.wrap(GetReplicas)() end",
    "function GetReplicas() error({}) end",
    "function GetReplicas() error(nil) end",
    "function GetReplicas() return io.open('/etc/passwd') end",
    "function GetReplicas() return os.execute('true') end",
];

#[test]
fn whatever_a_script_does_the_session_goes_on() {
    for script in HOSTILE {
        let begun = Instant::now();
        let hostile = session(&[customization("c", &[("replicaResource", script)])], Vec::new());
        let findings = hostile.findings();
        assert_eq!(of_code(&findings, "interpreter-failed").len(), 1, "{script}: {findings:?}");
        assert_eq!(replicas(&hostile, "other"), [None, None], "{script}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}: {script}");
    }
}
