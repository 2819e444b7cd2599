//! `federate sync` with stages: clusters follow each other, wait for people, stop at failures, keep their former revision
//! until it is their turn, and return to it when a rollout is aborted.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::{Value, json};

use crate::hooks;
use crate::registry::Registry;
use crate::sandbox::{Ran, Sandbox, config};

/// The clusters.
pub(crate) const CLUSTERS: [&str; 3] = ["c1", "r1", "r2"];
/// The object that tests roll out.
pub(crate) const A: &str = "/api/v1/namespaces/shop/configmaps/a";

/// A repo with a `ConfigMap` for the clusters `c1` (stage `canary`), `r1` and `r2` (stage `rest`).
pub(crate) fn sandbox() -> Sandbox {
    staged(Sandbox::anywhere(&CLUSTERS))
}

/// The same in these clusters.
fn staged(sandbox: Sandbox) -> Sandbox {
    let cluster = |name: &str, stage: &str| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}, labels: {{stage: \
             {stage}}}}}\nspec: {{}}\n"
        )
    };
    sandbox.write(
        "clusters.yaml",
        &[cluster("c1", "canary"), cluster("r1", "rest"), cluster("r2", "rest")].concat(),
    );
    sandbox.remove("web.yaml");
    git(&sandbox, "init -q -b main");
    sandbox
}

fn git(sandbox: &Sandbox, arguments: &str) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments.split(' '));
    let ran = command.current_dir(sandbox.path("repo")).output().unwrap();
    assert!(ran.status.success(), "{arguments}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// Commits a value. Returns the first characters of the commit.
pub(crate) fn commit(sandbox: &Sandbox, value: &str) -> String {
    sandbox.write("a.yaml", &config("a", value));
    git(sandbox, "add -A");
    git(sandbox, &format!("commit -q -m {value}"));
    git(sandbox, "rev-parse --short=8 HEAD")
}

/// Does a round with these annotations of the Sync.
fn once(sandbox: &Sandbox, annotations: &Value) -> Ran {
    once_by(sandbox, annotations, &stages())
}

/// Stages with an approval between them.
fn stages() -> Value {
    json!({"stages": [
        {"name": "canary", "labelSelector": {"matchLabels": {"stage": "canary"}},
         "afterStageTasks": [{"type": "Approval"}]},
        {"name": "rest", "labelSelector": {"matchLabels": {"stage": "rest"}}},
    ]})
}

/// The same with another rollout.
fn once_by(sandbox: &Sandbox, annotations: &Value, rollout: &Value) -> Ran {
    once_with(sandbox, annotations, rollout, &json!({}))
}

/// A round of the stages with maintenance windows.
pub(crate) fn once_in(sandbox: &Sandbox, annotations: &Value, windows: &Value) -> Ran {
    once_with(sandbox, annotations, &stages(), &json!({"windows": windows}))
}

/// A round with more fields of the spec.
fn once_with(sandbox: &Sandbox, annotations: &Value, rollout: &Value, more: &Value) -> Ran {
    let mut sync = json!({
        "apiVersion": "federate.dev/v1alpha1", "kind": "Sync",
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {
            "source": {"url": "repo", "ref": {"branch": "main"}}, "interval": "1m", "retryInterval": "10ms",
            "apply": {"applySet": sandbox.applyset()}, "drift": {"mode": "correct"}, "rollout": rollout,
        },
    });
    for (field, value) in more.as_object().unwrap() {
        sync["spec"][field] = value.clone();
    }
    fs::write(sandbox.path("sync.yaml"), sync.to_string()).unwrap();
    sandbox.ran(&mut sandbox.sync("--once"))
}

pub(crate) fn approve(revision: &str) -> Value {
    json!({"federate.dev/approve": format!("{revision}-after-canary")})
}

/// The values in the clusters; empty where there is none.
pub(crate) fn values(sandbox: &Sandbox) -> [String; 3] {
    CLUSTERS.map(|cluster| {
        let found = sandbox.has(cluster, A).then(|| sandbox.get(cluster, A));
        found.map(|found| found["data"]["k"].as_str().unwrap().to_owned()).unwrap_or_default()
    })
}

pub(crate) fn status(sandbox: &Sandbox) -> Value {
    let text = fs::read_to_string(sandbox.path("state/default/web/status.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_stage_waits_for_approval_and_later_clusters_keep_their_revision() {
    let sandbox = sandbox();
    let first = commit(&sandbox, "1");
    let ran = once(&sandbox, &json!({})).code(1);
    let asked = format!("kubectl annotate sync web --overwrite federate.dev/approve={first}-after-canary");
    assert!(ran.out.contains("Progressing: rolling out main@") && ran.out.contains(&asked), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "", ""]);
    let ran = once(&sandbox, &approve(&first)).code(0);
    assert!(ran.out.contains("to 3 clusters in 2 stages"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "1", "1"]);

    let second = commit(&sandbox, "2");
    once(&sandbox, &approve(&first)).code(1);
    assert_eq!(values(&sandbox), ["2", "1", "1"], "an approval is about one revision");
    let counts = &status(&sandbox)["status"]["clusters"];
    assert_eq!((&counts["ready"], &counts["pending"]), (&1.into(), &2.into()));
    // Each cluster is compared with its own revision.
    for cluster in ["c1", "r1"] {
        sandbox.edit(cluster, "kubectl-edit", A, &json!({"data": {"k": "mine"}}));
    }
    once(&sandbox, &json!({})).code(1);
    assert_eq!(values(&sandbox), ["2", "1", "1"]);
    // The cache of the source is not needed for that.
    fs::remove_dir_all(sandbox.path("state/default/web/git")).unwrap();
    sandbox.edit("r2", "kubectl-edit", A, &json!({"data": {"k": "mine"}}));
    once(&sandbox, &json!({})).code(1);
    assert_eq!(values(&sandbox), ["2", "1", "1"]);

    // A newer revision starts over; approvals of the one before are void.
    let third = commit(&sandbox, "3");
    once(&sandbox, &approve(&second)).code(1);
    assert_eq!(values(&sandbox), ["3", "1", "1"]);
    once(&sandbox, &approve(&third)).code(0);
    assert_eq!(values(&sandbox), ["3", "3", "3"]);
    assert!(status(&sandbox)["rollout"].is_null());
    let files = fs::read_dir(sandbox.path("state/default/web")).unwrap();
    let names: Vec<String> = files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.starts_with("placements-")), "{names:?}");
    // A revision that renders the same needs no approval.
    git(&sandbox, "commit -q --allow-empty -m same");
    once(&sandbox, &json!({})).code(0);
}

#[test]
fn an_aborted_rollout_returns_clusters_and_is_not_tried_again() {
    let sandbox = sandbox();
    let first = commit(&sandbox, "1");
    once(&sandbox, &approve(&first)).code(0);
    let second = commit(&sandbox, "2");
    once(&sandbox, &json!({})).code(1);
    assert_eq!(values(&sandbox), ["2", "1", "1"]);
    let abort = json!({"federate.dev/abort": second});
    let ran = once(&sandbox, &abort).code(2);
    assert!(ran.out.contains("RolloutAborted: the rollout of main@sha1:"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    once(&sandbox, &json!({})).code(2);
    assert_eq!(values(&sandbox), ["1", "1", "1"], "it stays so without the annotation, too");
    let third = commit(&sandbox, "3");
    once(&sandbox, &approve(&third)).code(0);
    assert_eq!(values(&sandbox), ["3", "3", "3"]);
}

#[test]
fn an_aborted_rollout_does_not_return_to_a_revision_that_was_halted() {
    let sandbox = staged(Sandbox::simulated(&CLUSTERS));
    let first = commit(&sandbox, "1");
    once(&sandbox, &approve(&first)).code(0);
    // The canary gets the second revision, and the next cluster refuses it.
    let second = commit(&sandbox, "2");
    let fault = || InjectedFault::new("patch", FaultKind::Status(500)).on_path("configmaps/a");
    sandbox.fleet.lock_cluster("r1").add_fault(fault().with_times(1000));
    let ran = once(&sandbox, &approve(&second)).code(2);
    assert!(ran.out.contains("is halted in stage `rest`"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"]);
    let third = commit(&sandbox, "3");
    once(&sandbox, &json!({})).code(1);
    assert_eq!(values(&sandbox), ["3", "1", "1"]);
    let ran = once(&sandbox, &json!({"federate.dev/abort": third})).code(2);
    assert!(ran.out.contains("RolloutAborted: "), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "1", "1"], "the last revision that succeeded");

    // One that the canary has only in part, and that is replaced before the canary has anything of the next one.
    let before = json!({"stages": [
        {"name": "canary", "labelSelector": {"matchLabels": {"stage": "canary"}},
         "beforeStageTasks": [{"type": "Approval"}]},
        {"name": "rest", "labelSelector": {"matchLabels": {"stage": "rest"}}},
    ]});
    sandbox.write("b.yaml", &config("b", "4"));
    let broken = commit(&sandbox, "4");
    sandbox.fleet.lock_cluster("c1").add_fault(
        InjectedFault::new("patch", FaultKind::Status(500)).on_path("configmaps/b").with_times(1000),
    );
    let approval = json!({"federate.dev/approve": format!("{broken}-before-canary")});
    let ran = once_by(&sandbox, &approval, &before).code(2);
    assert!(ran.out.contains("is halted in stage `canary`"), "{ran:#?}");
    assert_eq!(values(&sandbox)[0], "4");
    let fifth = commit(&sandbox, "5");
    once_by(&sandbox, &json!({}), &before).code(1);
    once_by(&sandbox, &json!({"federate.dev/abort": fifth}), &before).code(2);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    assert!(status(&sandbox)["status"]["lastAppliedRevision"].as_str().unwrap().contains(&first));
}

#[test]
fn an_aborted_rollout_stays_so_when_somebody_else_moves_a_tag() {
    let (sandbox, registry) = (sandbox(), Registry::start());
    let push = json!({"url": format!("oci://{}/acme/fleet", registry.host()), "insecure": true});
    let once = |annotations: Value| once_with(&sandbox, &annotations, &stages(), &json!({"push": push}));
    let first = commit(&sandbox, "1");
    once(approve(&first)).code(0);
    let second = commit(&sandbox, "2");
    once(json!({})).code(1);
    once(json!({"federate.dev/abort": second})).code(2);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    let plan = ("acme/fleet/plan".to_owned(), "latest".to_owned());
    registry.state().tags.remove(&plan).unwrap();
    let ran = once(json!({})).code(2);
    assert!(ran.out.contains("RolloutAborted: "), "{ran:#?}");
    assert!(registry.state().tags.contains_key(&plan), "what was pushed is put back");
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    once(approve(&second)).code(2);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    let third = commit(&sandbox, "3");
    once(approve(&third)).code(0);
    assert_eq!(values(&sandbox), ["3", "3", "3"]);
}

#[test]
fn a_failure_halts_the_rollout_until_the_cluster_is_healthy() {
    let sandbox = staged(Sandbox::simulated(&CLUSTERS));
    let first = commit(&sandbox, "1");
    once(&sandbox, &approve(&first)).code(0);
    let second = commit(&sandbox, "2");
    sandbox
        .fleet
        .lock_cluster("r1")
        .add_fault(InjectedFault::new("patch", FaultKind::Status(500)).with_times(2).on_path("configmaps/a"));
    let ran = once(&sandbox, &approve(&second)).code(2);
    assert!(ran.out.contains("is halted in stage `rest`: r1: "), "{ran:#?}");
    assert!(ran.out.contains("1 cluster keeps its former revision"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"], "r2 does not start");
    for _ in 0..3 {
        once(&sandbox, &json!({}));
    }
    once(&sandbox, &json!({})).code(0);
    assert_eq!(values(&sandbox), ["2", "2", "2"]);
}

#[test]
fn a_hook_that_still_runs_does_not_halt_a_rollout() {
    let sandbox = staged(Sandbox::simulated(&CLUSTERS))
        .file("jobs.yaml", hooks::POLICY)
        .file("hook.yaml", &hooks::job("first", "helm.sh/hook: pre-upgrade", "a:1"));
    commit(&sandbox, "1");
    let ran = thread::scope(|scope| {
        let run = scope.spawn(|| once(&sandbox, &json!({})).code(1));
        // The first check of its health ends without it.
        let end = Instant::now() + Duration::from_mins(1);
        while status_text(&sandbox).is_none_or(|text| !text.contains("Job shop/first: not healthy yet")) {
            assert!(Instant::now() < end, "{:?}", status_text(&sandbox));
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(values(&sandbox), ["", "", ""], "what follows waits");
        hooks::set_status(&sandbox, "c1", "first", "Complete");
        run.join().unwrap()
    });
    assert!(ran.out.contains("stage `canary` waits for approval"), "{ran:#?}");
    assert!(!ran.err.contains("RolloutHalted"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "", ""]);
}

/// The record of the Sync, if it has one.
fn status_text(sandbox: &Sandbox) -> Option<String> {
    fs::read_to_string(sandbox.path("state/default/web/status.json")).ok()
}

#[test]
fn every_cluster_is_in_one_stage() {
    let sandbox = sandbox();
    commit(&sandbox, "1");
    let clusters = sandbox.read_file("clusters.yaml").replace("stage: rest", "stage: none");
    sandbox.write("clusters.yaml", &clusters);
    commit(&sandbox, "2");
    let ran = once(&sandbox, &json!({})).code(2);
    assert!(ran.out.contains("BuildFailed: rollout: no stage selects"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["", "", ""]);
}

#[test]
fn stages_can_be_those_of_a_strategy_in_the_repo() {
    let sandbox = sandbox();
    let rollout = json!({"stagedRolloutStrategyName": "careful"});
    commit(&sandbox, "1");
    let ran = once_by(&sandbox, &json!({}), &rollout).code(2);
    assert!(ran.out.contains("the repo has no ClusterStagedUpdateStrategy `careful`"), "{ran:#?}");
    let strategy = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateStrategy",
        "metadata": {"name": "careful"},
        "spec": {"stages": [
            {"name": "canary", "labelSelector": {"matchLabels": {"stage": "canary"}},
             "afterStageTasks": [{"type": "Approval"}]},
            {"name": "rest", "labelSelector": {"matchLabels": {"stage": "rest"}}, "maxConcurrency": "50%"},
        ]},
    });
    sandbox.write("strategy.yaml", &strategy.to_string());
    let revision = commit(&sandbox, "2");
    let ran = once_by(&sandbox, &json!({}), &rollout).code(1);
    assert!(ran.out.contains("stage `canary` waits for approval"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "", ""]);
    let ran = once_by(&sandbox, &approve(&revision), &rollout).code(0);
    assert!(ran.out.contains("to 3 clusters in 2 stages"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "2", "2"]);
}
