//! Scripts of a `ResourceInterpreterCustomization` on the command line: `explain`, `check`, `drift` and `apply`.

use std::path::Path;

use crate::sandbox::Sandbox;

/// The example, with the live objects of `arena-eu` in `.live`.
fn arena(live: &str) -> Sandbox {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/interpreter");
    let mut sandbox = Sandbox::new();
    for file in ["clusters", "customization", "definition", "duel", "policies"] {
        let name = format!("{file}.yaml");
        sandbox = sandbox.file(&name, std::fs::read(example.join(&name)).unwrap());
    }
    sandbox.file(".live/arena-eu/duel.yaml", live)
}

/// A set as its API server returns it.
fn set(servers: u32, paused: bool, manager: &str) -> String {
    format!(
        "apiVersion: arena.example.com/v1
kind: GameSet
metadata:
  name: duel
  namespace: default
  uid: 3b0d5cb9-7a05-4d4c-9d0e-3f0d0bd4d6f1
  resourceVersion: \"7\"
  generation: 1
  managedFields:
  - manager: {manager}
    operation: Apply
    apiVersion: arena.example.com/v1
    time: \"2026-01-02T03:04:05Z\"
    fieldsType: FieldsV1
    fieldsV1: {{f:spec: {{f:servers: {{}}, f:paused: {{}}, f:maps: {{}}, f:template: {{}}}}}}
spec:
  servers: {servers}
  paused: {paused}
  maps: [temple]
  template:
    metadata: {{labels: {{app: duel}}}}
    spec:
      containers:
      - name: server
        image: registry.example.com/duel:4.2
        envFrom: [{{configMapRef: {{name: duel-rules}}}}]
        resources: {{requests: {{cpu: 500m, memory: 256Mi}}}}
"
    )
}

/// The actions for the set.
fn action(sandbox: &Sandbox, command: &str, code: i32) -> serde_json::Value {
    let json =
        sandbox.run(&format!("{command} --observed .live --cluster arena-eu -o json")).code(code).json();
    let actions = json["actions"].as_array().unwrap();
    actions.iter().find(|action| action["object"]["kind"] == "GameSet").cloned().unwrap_or_default()
}

#[test]
fn what_a_script_retains_has_not_drifted() {
    let drifted = |servers, paused| {
        let action = action(&arena(&set(servers, paused, "federate")), "drift", 1);
        let diffs = action["diffs"].as_array().cloned().unwrap_or_default();
        diffs.iter().map(|diff| diff["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(drifted(3, true).is_empty(), "its cluster has paused it");
    assert_eq!(drifted(4, true), ["/spec/servers"]);
}

#[test]
fn adoption_and_updates_keep_what_a_script_retains() {
    let applied = action(&arena(&set(9, true, "federate")), "apply --dry-run=client", 0);
    assert_eq!(applied["action"], "update", "{applied}");
    let adopted = action(&arena(&set(3, true, "kubectl")), "apply --dry-run=client --adopt always", 0);
    let paths = adopted["diffs"].to_string();
    assert!(!paths.contains("paused"), "{adopted}");
}

#[test]
fn explain_says_which_script_answered_what() {
    let out = arena("").run("explain gameset/duel").code(0).out;
    for words in [
        "replicaResource is answered by ResourceInterpreterCustomization gameset (customization.yaml:2): ",
        "\"replicas\":5",
        "\"cpu\":\"500m\"",
        "dependencyInterpretation is answered by",
        "\"name\":\"map-temple\"",
        "retention is answered by",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

#[test]
fn check_shows_the_line_of_the_script() {
    let sandbox = arena("");
    let text = sandbox.read("customization.yaml");
    sandbox.write("customization.yaml", text.replace("obj.spec.servers or 1", "obj.spec.size.servers"));
    let ran = sandbox.run("check").code(2);
    let shown = format!("{}{}", ran.out, ran.err);
    assert!(shown.contains("error[interpreter-failed]"), "{shown}");
    assert!(shown.contains("customization.yaml:16:"), "{shown}");
    sandbox.write("customization.yaml", text.replace("obj.spec.servers = desired", "obj.spec.servers ="));
    let ran = sandbox.run("check").code(2);
    let shown = format!("{}{}", ran.out, ran.err);
    assert!(shown.contains("error[invalid-customization]"), "{shown}");
    assert!(shown.contains("customization.yaml:23:"), "{shown}");
}
