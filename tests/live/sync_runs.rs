//! `federate sync` over a `KubeFleet` repo: update runs carry placements with the strategy `External` out, stage by stage,
//! and rolling strategies update a few clusters at a time.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use federate_test_apiserver::{FaultKind, InjectedFault};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, config, deployment};
use crate::sync_rollout::{A, CLUSTERS, status, values};
use crate::sync_windows::{closing, sleep_until};

const API: &str = "placement.kubernetes-fleet.io/v1beta1";

/// A repo whose placement `web` has this strategy: with the clusters `c1` (stage `canary`), `r1` and `r2` (stage `rest`).
fn sandbox(strategy: &Value) -> Sandbox {
    placed(Sandbox::anywhere(&CLUSTERS), strategy)
}

/// The same in these clusters.
fn placed(sandbox: Sandbox, strategy: &Value) -> Sandbox {
    let cluster = |(name, stage): (&str, &str)| {
        let labels = json!({"stage": stage});
        let metadata = json!({"name": name, "labels": labels});
        json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": metadata,
            "spec": {"identity": {"kind": "ServiceAccount", "name": name}}})
    };
    let clusters = [("c1", "canary"), ("r1", "rest"), ("r2", "rest")].map(cluster);
    write(&sandbox, "clusters.yaml", &clusters);
    place(&sandbox, strategy);
    let stages = json!([
        {"name": "canary", "labelSelector": {"matchLabels": {"stage": "canary"}},
         "afterStageTasks": [{"type": "Approval"}]},
        {"name": "rest", "labelSelector": {"matchLabels": {"stage": "rest"}}},
    ]);
    let strategy = json!({
        "apiVersion": API, "kind": "ClusterStagedUpdateStrategy", "metadata": {"name": "careful"},
        "spec": {"stages": stages},
    });
    write(&sandbox, "strategy.yaml", &[strategy]);
    sandbox.remove("web.yaml");
    git(&sandbox, "init -q -b main");
    sandbox
}

fn write(sandbox: &Sandbox, name: &str, objects: &[Value]) {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    sandbox.write(name, &texts.join("\n---\n"));
}

/// Writes the placement, which selects the namespace with all that is in it.
fn place(sandbox: &Sandbox, strategy: &Value) {
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
    let placement = json!({
        "apiVersion": API, "kind": "ClusterResourcePlacement", "metadata": {"name": "web"},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}, "strategy": strategy},
    });
    write(sandbox, "policy.yaml", &[placement]);
}

/// Writes a run in this state.
fn run(sandbox: &Sandbox, name: &str, state: &str) {
    let run = json!({
        "apiVersion": API, "kind": "ClusterStagedUpdateRun", "metadata": {"name": name},
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "careful", "state": state},
    });
    write(sandbox, &format!("run-{name}.yaml"), &[run]);
}

fn git(sandbox: &Sandbox, arguments: &str) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments.split(' '));
    let ran = command.current_dir(sandbox.path("repo")).output().unwrap();
    assert!(ran.status.success(), "{arguments}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// Commits everything, with this value in the `ConfigMap`. Returns the first characters of the commit.
fn commit(sandbox: &Sandbox, value: &str) -> String {
    sandbox.write("a.yaml", &config("a", value));
    git(sandbox, "add -A");
    git(sandbox, "commit -q --allow-empty -m change");
    git(sandbox, "rev-parse --short=8 HEAD")
}

/// Does a round.
fn once(sandbox: &Sandbox, annotations: &Value) -> Ran {
    once_by(sandbox, annotations, &Value::Null)
}

/// The same with a rollout of the Sync's own.
fn once_by(sandbox: &Sandbox, annotations: &Value, rollout: &Value) -> Ran {
    once_in(sandbox, annotations, rollout, &json!([]))
}

/// The same with maintenance windows.
fn once_in(sandbox: &Sandbox, annotations: &Value, rollout: &Value, windows: &Value) -> Ran {
    let mut sync = json!({
        "apiVersion": "federate.dev/v1alpha1", "kind": "Sync",
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {
            "source": {"url": "repo", "ref": {"branch": "main"}}, "interval": "1m",
            "apply": {"pruneLimit": 100, "applySet": sandbox.applyset()}, "drift": {"mode": "correct"},
            "windows": windows,
        },
    });
    if !rollout.is_null() {
        sync["spec"]["rollout"] = rollout.clone();
    }
    fs::write(sandbox.path("sync.yaml"), sync.to_string()).unwrap();
    sandbox.ran(&mut command(sandbox))
}

/// A round of the Sync that was written last.
fn command(sandbox: &Sandbox) -> Command {
    sandbox.sync("--once")
}

fn approve(revision: &str, run: &str) -> Value {
    json!({"federate.dev/approve": format!("{revision}-{run}-after-canary")})
}

#[test]
fn an_external_placement_changes_only_by_a_run() {
    let sandbox = sandbox(&json!({"type": "External"}));
    commit(&sandbox, "1");
    let ran = once(&sandbox, &json!({})).code(0);
    assert!(ran.out.contains("3 of 3 clusters wait for an update run"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["", "", ""]);

    run(&sandbox, "first", "Run");
    let first = commit(&sandbox, "1");
    let ran = once(&sandbox, &json!({})).code(1);
    let asked =
        format!("kubectl annotate sync web --overwrite federate.dev/approve={first}-first-after-canary");
    assert!(
        ran.out.contains("stage `canary`: 1 of 3 clusters updated") && ran.out.contains(&asked),
        "{ran:#?}"
    );
    assert_eq!(values(&sandbox), ["1", "", ""]);
    assert_eq!(status(&sandbox)["status"]["rollout"]["approval"], format!("{first}-first-after-canary"));
    let ran = once(&sandbox, &approve(&first, "first")).code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    assert!(ran.out.contains("applied main@"), "{ran:#?}");

    // Another revision waits for another run; drift is put back to the revision that clusters have.
    commit(&sandbox, "2");
    let ran = once(&sandbox, &json!({})).code(0);
    assert!(
        ran.out.contains("ClusterResourcePlacement web: 3 of 3 clusters wait for an update run"),
        "{ran:#?}"
    );
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    sandbox.edit("r1", "kubectl-edit", A, &json!({"data": {"k": "mine"}}));
    once(&sandbox, &json!({})).code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    // The cache of the source is not needed for that.
    fs::remove_dir_all(sandbox.path("state/default/web/git")).unwrap();
    sandbox.edit("r2", "kubectl-edit", A, &json!({"data": {"k": "mine"}}));
    once(&sandbox, &json!({})).code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);

    // A revision that does not change what the placement sends needs no run.
    let third = {
        run(&sandbox, "second", "Run");
        commit(&sandbox, "3")
    };
    once(&sandbox, &approve(&third, "second")).code(0);
    assert_eq!(values(&sandbox), ["3", "3", "3"]);
    fs::remove_file(sandbox.path("repo/run-first.yaml")).unwrap();
    commit(&sandbox, "3");
    let ran = once(&sandbox, &json!({})).code(0);
    assert!(!ran.out.contains("update run"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["3", "3", "3"]);
}

#[test]
fn a_failure_halts_the_run_until_the_cluster_is_healthy() {
    let sandbox = placed(Sandbox::simulated(&CLUSTERS), &json!({"type": "External"}));
    run(&sandbox, "first", "Run");
    let first = commit(&sandbox, "1");
    once(&sandbox, &approve(&first, "first")).code(0);
    run(&sandbox, "second", "Run");
    let second = commit(&sandbox, "2");
    let fault = InjectedFault::new("patch", FaultKind::Status(500)).with_times(2).on_path("configmaps/a");
    sandbox.fleet.lock_cluster("r1").add_fault(fault);
    let ran = once(&sandbox, &approve(&second, "second")).code(2);
    let said = "RolloutHalted: the rollout is halted: ClusterStagedUpdateRun second: stage `rest`: 1 of 3 clusters updated: r1: ";
    assert!(ran.out.contains(said), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"], "r2 does not start");
    for _ in 0..3 {
        once(&sandbox, &json!({}));
    }
    once(&sandbox, &json!({})).code(0);
    assert_eq!(values(&sandbox), ["2", "2", "2"]);
}

#[test]
fn a_run_goes_on_with_the_resources_that_it_began_with() {
    let sandbox = sandbox(&json!({"type": "External"}));
    run(&sandbox, "first", "Run");
    let first = commit(&sandbox, "1");
    once(&sandbox, &json!({})).code(1);
    commit(&sandbox, "2");
    once(&sandbox, &json!({})).code(1);
    assert_eq!(values(&sandbox), ["1", "", ""]);
    // A new process, without the fetched revision, knows how far the run is.
    fs::remove_dir_all(sandbox.path("state/default/web/git")).unwrap();
    let ran = once(&sandbox, &approve(&first, "first")).code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    assert!(ran.out.contains("3 of 3 clusters wait for an update run"), "{ran:#?}");
}

#[test]
fn a_run_is_stopped_resumed_and_removed() {
    let sandbox = sandbox(&json!({"type": "External"}));
    run(&sandbox, "first", "Run");
    let first = commit(&sandbox, "1");
    once(&sandbox, &json!({})).code(1);
    run(&sandbox, "first", "Stop");
    commit(&sandbox, "1");
    let ran = once(&sandbox, &approve(&first, "first")).code(0);
    assert!(
        ran.out.contains("ClusterStagedUpdateRun first is stopped, and waits for `state: Run`"),
        "{ran:#?}"
    );
    assert_eq!(values(&sandbox), ["1", "", ""]);
    run(&sandbox, "first", "Run");
    commit(&sandbox, "1");
    once(&sandbox, &approve(&first, "first")).code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);

    run(&sandbox, "second", "Run");
    commit(&sandbox, "2");
    once(&sandbox, &json!({})).code(1);
    sandbox.remove("run-second.yaml");
    commit(&sandbox, "2");
    let ran = once(&sandbox, &json!({})).code(0);
    assert!(ran.out.contains("2 of 3 clusters wait for an update run"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"], "clusters keep what they have");
}

#[test]
fn runs_that_are_killed_go_on_where_they_were() {
    let sandbox = sandbox(&json!({"type": "External"}));
    for number in 1..=3_u64 {
        let (name, value) = (format!("run{number}"), number.to_string());
        run(&sandbox, &name, "Run");
        let revision = commit(&sandbox, &value);
        once(&sandbox, &json!({})).code(1);
        for at in 0..5 {
            let text = fs::read_to_string(sandbox.path("sync.yaml")).unwrap();
            let mut sync: Value = serde_json::from_str(&text).unwrap();
            sync["metadata"]["annotations"] = approve(&revision, &name);
            fs::write(sandbox.path("sync.yaml"), sync.to_string()).unwrap();
            let mut child = command(&sandbox).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(60 + 83 * at + 31 * number));
            child.kill().unwrap();
            child.wait().unwrap();
            let [c1, r1, r2] = values(&sandbox);
            assert!(c1 == value && r1 <= c1 && r2 <= r1, "in order: {c1} {r1} {r2}");
        }
        once(&sandbox, &approve(&revision, &name)).code(0);
        assert_eq!(values(&sandbox), [value.clone(), value.clone(), value]);
    }
}

#[test]
fn a_run_that_cannot_begin_says_why() {
    let sandbox = sandbox(&json!({"type": "External"}));
    let clusters = sandbox.read_file("clusters.yaml").replace("rest", "none");
    sandbox.write("clusters.yaml", &clusters);
    run(&sandbox, "first", "Run");
    commit(&sandbox, "1");
    let ran = once(&sandbox, &json!({})).code(2);
    assert!(ran.out.contains("some clusters are not placed in any stage, total 2"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["", "", ""]);
}

#[test]
fn a_run_removes_the_resources_from_clusters_that_are_left() {
    let sandbox = sandbox(&json!({"type": "External"}));
    // KubeFleet's API server refuses another type of placement, but not other names.
    let policy = sandbox.read_file("policy.yaml");
    let place_on = |names: &str| {
        let fixed = format!(r#""policy":{{"placementType":"PickFixed","clusterNames":[{names}]}}"#);
        sandbox.write("policy.yaml", &policy.replace(r#""policy":{"placementType":"PickAll"}"#, &fixed));
    };
    place_on(r#""c1","r1","r2""#);
    run(&sandbox, "first", "Run");
    let first = commit(&sandbox, "1");
    once(&sandbox, &approve(&first, "first")).code(0);
    place_on(r#""c1","r1""#);
    commit(&sandbox, "1");
    let ran = once(&sandbox, &json!({})).code(0);
    assert!(ran.out.contains("1 of 3 clusters waits for an update run"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    run(&sandbox, "second", "Run");
    let second = commit(&sandbox, "1");
    let ran = once(&sandbox, &approve(&second, "second"));
    // The namespace stays, which is reported as drift.
    assert!(ran.out.contains("ReconciliationSucceeded: applied main@"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "1", ""]);
}

#[test]
fn rolling_strategies_update_as_many_clusters_as_may_be_unavailable() {
    let limits = json!({"maxUnavailable": 1, "maxSurge": 1, "unavailablePeriodSeconds": 1});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
    let sandbox = placed(Sandbox::simulated(&CLUSTERS), &strategy);
    let rollout = json!({"byPlacements": true});
    commit(&sandbox, "1");
    once_by(&sandbox, &json!({}), &rollout).code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    commit(&sandbox, "2");
    let fault = InjectedFault::new("patch", FaultKind::Status(500)).with_times(2).on_path("configmaps/a");
    sandbox.fleet.lock_cluster("r1").add_fault(fault);
    let ran = once_by(&sandbox, &json!({}), &rollout).code(2);
    assert!(ran.out.contains("halted: ClusterResourcePlacement web: r1: "), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"], "c1 is available, r1 is not, and r2 has to wait");
    for _ in 0..4 {
        once_by(&sandbox, &json!({}), &rollout);
    }
    once_by(&sandbox, &json!({}), &rollout).code(0);
    assert_eq!(values(&sandbox), ["2", "2", "2"]);
    // Without it, only update runs count.
    commit(&sandbox, "3");
    once(&sandbox, &json!({})).code(0);
    assert_eq!(values(&sandbox), ["3", "3", "3"]);
}

#[test]
fn an_update_run_waits_between_its_stages_outside_of_windows() {
    let sandbox = sandbox(&json!({"type": "External"}));
    run(&sandbox, "first", "Run");
    let first = commit(&sandbox, "1");
    let (windows, closes) = closing(if sandbox.is_real() { 45 } else { 15 });
    once_in(&sandbox, &json!({}), &Value::Null, &windows).code(1);
    assert_eq!(values(&sandbox), ["1", "", ""]);
    assert!(Timestamp::now() < closes, "the window has closed too early for this test");
    sleep_until(closes);
    // The approval is given, but no cluster changes: neither by the next stage nor by a correction.
    sandbox.edit("c1", "kubectl-edit", A, &json!({"data": {"k": "mine"}}));
    let ran = once_in(&sandbox, &approve(&first, "first"), &Value::Null, &windows).code(1);
    assert!(ran.out.contains("it waits for the window that opens at"), "{ran:#?}");
    assert!(ran.err.contains("ConfigMap shop/a (/data/k), changed by kubectl-edit"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["mine", "", ""]);
    sandbox.edit("c1", "kubectl-edit", A, &json!({"data": {"k": "1"}}));
    // A person need not wait for the revision.
    let mut ignored = approve(&first, "first");
    ignored["federate.dev/ignoreWindows"] = json!(first);
    once_in(&sandbox, &ignored, &Value::Null, &windows).code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
}

#[test]
fn a_rolling_update_waits_between_its_clusters_outside_of_windows() {
    let limits = json!({"maxUnavailable": 1, "maxSurge": 0, "unavailablePeriodSeconds": 1});
    let sandbox = sandbox(&json!({"type": "RollingUpdate", "rollingUpdate": limits}));
    // Its pods do not start, so that a cluster is not available after it was updated.
    sandbox.write("web.yaml", &deployment("nginx:1.27"));
    commit(&sandbox, "1");
    once(&sandbox, &json!({})).code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    let second = commit(&sandbox, "2");
    let rolling = json!({"byPlacements": true});
    // It waits for the first cluster until the window closes.
    let (windows, _) = closing(if sandbox.is_real() { 45 } else { 20 });
    let ran = once_in(&sandbox, &json!({}), &rolling, &windows).code(1);
    assert!(ran.out.contains("it waits for the window that opens at"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"]);
    for cluster in CLUSTERS {
        sandbox.start_pods(cluster);
    }
    let ran = once_in(&sandbox, &json!({}), &rolling, &windows).code(1);
    assert!(ran.out.contains("it waits for the window that opens at"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"]);
    once_in(&sandbox, &json!({"federate.dev/ignoreWindows": second}), &rolling, &windows).code(0);
    assert_eq!(values(&sandbox), ["2", "2", "2"]);
}
