//! A run whose inputs are those of an earlier run that had nothing to do is shortened. Every difference is found as
//! without a record of the earlier run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::sandbox::{PARENT, Ran, Sandbox, WEB, config, deployment};

const CONFIG: &str = "/api/v1/namespaces/shop/configmaps/c";

fn sandbox() -> Sandbox {
    Sandbox::anywhere(&["m1", "m2"]).file("c.yaml", &config("c", "planted"))
}

/// The records of runs, by file.
fn records(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = fs::read_dir(sandbox.path("cache/federate/runs")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// `federate drift` without any record.
fn fresh_drift(sandbox: &Sandbox) -> Ran {
    sandbox.ran(sandbox.runs("drift", "").env("XDG_CACHE_HOME", sandbox.path("none")))
}

fn said(ran: Ran) -> (i32, String, String) {
    (ran.code, ran.out, ran.err)
}

#[test]
fn what_is_the_same_is_not_compared_again() {
    let sandbox = sandbox();
    sandbox.apply("").code(0);
    assert!(records(&sandbox).is_empty(), "there was something to do");
    let first = sandbox.apply("").code(0);
    let record = records(&sandbox).pop().unwrap();
    sandbox.forget("m1");
    let again = sandbox.apply("").code(0);
    assert_eq!(said(again), said(first));
    // The parent, and the members by their kinds; neither the kinds that are served, nor anything else.
    sandbox.read("m1", 3, 1);
    sandbox.wrote("m1", 0);

    assert_eq!(fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(record).unwrap().contains("planted"), "no content is in the record");
}

#[test]
fn warnings_are_repeated() {
    let sandbox = sandbox().file("lost.yaml", &config("lost", "x").replace("shop", "elsewhere"));
    sandbox.apply("").code(0);
    let first = sandbox.run("drift", "").code(0);
    assert!(first.err.contains("elsewhere"), "{first:#?}");
    let again = sandbox.run("drift", "").code(0);
    assert_eq!(said(again), said(first));
    // The arguments differ.
    assert_eq!(sandbox.run("drift", "--quiet").code(0).err, "");
}

/// One change of the repo or of a cluster, and the change back.
type Change = (&'static str, fn(&Sandbox), fn(&Sandbox));

const CHANGES: [Change; 9] = [
    (
        "an edit by another client",
        |sandbox| sandbox.edit("m2", "kubectl-edit", WEB, &json!({"spec": {"replicas": 7}})),
        |_| (),
    ),
    ("a deleted object", |sandbox| sandbox.delete("m1", CONFIG), |_| ()),
    (
        "another object with the label",
        |sandbox| {
            let mut stray = sandbox.get("m2", CONFIG);
            stray["metadata"] =
                json!({"name": "stray", "namespace": "shop", "labels": stray["metadata"]["labels"]});
            stray["metadata"]["namespace"] = sandbox.get("m2", CONFIG)["metadata"]["namespace"].clone();
            sandbox.create("m2", "/api/v1/namespaces/shop/configmaps", "test", &stray);
        },
        |sandbox| sandbox.delete("m2", "/api/v1/namespaces/shop/configmaps/stray"),
    ),
    (
        "the parent",
        |sandbox| {
            let note = json!({"metadata": {"annotations": {"note": "x"}}});
            sandbox.edit("m1", "test", PARENT, &note);
        },
        |_| (),
    ),
    (
        "a template",
        |sandbox| sandbox.write("web.yaml", &deployment("nginx:1.28")),
        |sandbox| sandbox.write("web.yaml", &deployment("nginx:1.27")),
    ),
    (
        "a template of the same length",
        |sandbox| sandbox.write("c.yaml", &config("c", "plantes")),
        |sandbox| sandbox.write("c.yaml", &config("c", "planted")),
    ),
    (
        "a new template",
        |sandbox| sandbox.write("d.yaml", &config("d", "1")),
        |sandbox| sandbox.remove("d.yaml"),
    ),
    (
        "a template that is gone",
        |sandbox| sandbox.write("c.yaml", ""),
        |sandbox| sandbox.write("c.yaml", &config("c", "planted")),
    ),
    (
        "a setting",
        |sandbox| sandbox.set("drift", &json!({"ignore": [{"kind": "ConfigMap", "paths": ["/data/k"]}]})),
        |sandbox| sandbox.set("drift", &json!({})),
    ),
];

#[test]
fn whatever_differs_is_found() {
    for (what, change, back) in CHANGES {
        let sandbox = sandbox();
        sandbox.apply("").code(0);
        sandbox.run("drift", "").code(0);
        sandbox.run("drift", "").code(0);
        assert_eq!(records(&sandbox).len(), 1, "{what}");
        change(&sandbox);
        let expected = fresh_drift(&sandbox);
        for _ in 0..2 {
            let found = sandbox.run("drift", "");
            assert_eq!(said(found), said(expected.clone()), "{what}");
        }
        back(&sandbox);
        sandbox.apply("").code(0);
        sandbox.apply("").code(0);
        let ran = sandbox.apply("").code(0);
        assert!(
            ran.out.contains("3 unchanged in 2 clusters") || ran.out.contains("6 unchanged"),
            "{what}: {ran:#?}"
        );
        assert_eq!(sandbox.get("m2", WEB)["spec"]["replicas"], 2, "{what}");
    }
}

/// Runs with a record of other runs find what runs without one find, whatever happens between them.
#[test]
fn a_record_changes_no_result() {
    let sandbox = sandbox();
    let compare = |what: &str| {
        let expected = said(fresh_drift(&sandbox));
        assert_eq!(said(sandbox.run("drift", "")), expected, "{what}");
    };
    sandbox.apply("").code(0);
    for (at, (what, change, back)) in CHANGES.into_iter().enumerate() {
        for (and, change_more, back_more) in CHANGES.into_iter().skip(at + 1).step_by(3) {
            let steps: [(&str, &dyn Fn()); 6] = [
                ("nothing", &|| ()),
                (what, &|| change(&sandbox)),
                (and, &|| change_more(&sandbox)),
                ("back", &|| back(&sandbox)),
                ("all back", &|| back_more(&sandbox)),
                ("applied", &|| drop(sandbox.apply("").code(0))),
            ];
            for (step, act) in steps {
                act();
                compare(&format!("{what}, {and}: {step}"));
            }
        }
    }
}

#[test]
fn a_damaged_record_is_none() {
    let sandbox = sandbox();
    sandbox.apply("").code(0);
    let first = sandbox.apply("").code(0);
    let record = records(&sandbox).pop().unwrap();
    let whole: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    for damaged in [
        String::new(),
        "{}".to_owned(),
        whole.to_string()[..200].to_owned(),
        // Of another version of federate, or of other arguments.
        json!({"inputs": "0", "files": whole["files"], "contexts": {}, "apply_set": ["default", "federate"],
               "clusters": whole["clusters"], "output": {"stdout": "wrong", "stderr": ""}})
        .to_string(),
    ] {
        fs::write(&record, damaged).unwrap();
        assert_eq!(sandbox.apply("").code(0).out, first.out);
    }
    let repaired: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    // Controllers may still report a status.
    for part in ["inputs", "files", "apply_set", "output"] {
        assert_eq!(repaired[part], whole[part], "{part}");
    }
}

#[test]
fn a_cluster_that_does_not_answer_is_reported() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    sandbox.apply("").code(0);
    sandbox.run("drift", "").code(0);
    sandbox.kubeconfig(|config| {
        let named = |cluster: &&mut Value| cluster["name"] == "m2";
        let cluster = config["clusters"].as_array_mut().unwrap().iter_mut().find(named).unwrap();
        cluster["cluster"]["server"] = json!("https://127.0.0.1:1");
    });
    let ran = sandbox.run("drift", "").code(2);
    assert_eq!(ran.err.matches("error: m2: it cannot be reached").count(), 1, "{ran:#?}");
    assert_eq!(ran.out, fresh_drift(&sandbox).out);
}
