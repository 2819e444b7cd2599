//! Hooks of charts run before and after the other objects of a cluster.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, config};

const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: jobs, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: batch/v1, kind: Job}]
  placement: {clusterAffinity: {}}
";

/// A Job that is a hook of a chart.
fn job(name: &str, hook: &str, image: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: shop, annotations: {{{hook}}}}}\nspec: \
         {{template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: '{image}'}}]}}}}}}\n"
    )
}

fn path_of(name: &str) -> String {
    format!("/apis/batch/v1/namespaces/shop/jobs/{name}")
}

/// Ends a Job as soon as it exists, and returns whether the Deployment existed by then.
fn end_job(sandbox: &Sandbox, name: &str, condition: &str) -> bool {
    let end = Instant::now() + Duration::from_mins(1);
    while !sandbox.has("m1", &path_of(name)) {
        assert!(Instant::now() < end, "{name}");
        thread::sleep(Duration::from_millis(20));
    }
    // What does not wait for the Job would be there by now.
    thread::sleep(Duration::from_millis(300));
    let was_applied = sandbox.has("m1", WEB);
    let time = "2026-01-01T00:01:00Z";
    let conditions =
        json!([{"type": condition, "status": "True", "message": "too often", "lastTransitionTime": time}]);
    let status = json!({"status": {"startTime": time, "completionTime": time, "succeeded": 1, "conditions": conditions}});
    sandbox.edit("m1", "controller", &format!("{}/status", path_of(name)), &status);
    was_applied
}

fn hooks_repo() -> Sandbox {
    Sandbox::simulated(&["m1"])
        .file("jobs.yaml", POLICY)
        .file("first.yaml", &job("first", "helm.sh/hook: pre-install, helm.sh/hook-weight: '-1'", "a:1"))
        .file("second.yaml", &job("second", "argocd.argoproj.io/hook: PreSync", "a:1"))
        .file("last.yaml", &job("last", "helm.sh/hook: 'post-install,post-upgrade'", "a:1"))
}

fn uid(sandbox: &Sandbox, name: &str) -> Value {
    sandbox.get("m1", &path_of(name))["metadata"]["uid"].clone()
}

#[test]
fn hooks_run_before_and_after_the_others_and_again_after_a_change() {
    let sandbox = hooks_repo();
    thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.apply("").code(0));
        assert!(!end_job(&sandbox, "first", "Complete"), "the hook runs before the Deployment");
        assert!(!end_job(&sandbox, "second", "Complete"), "both do");
        run.join().unwrap();
    });
    assert!(sandbox.has("m1", WEB) && sandbox.has("m1", &path_of("last")));
    sandbox.apply("").code(0);
    // What changes runs again from the start, without `--replace`.
    let before = (uid(&sandbox, "first"), uid(&sandbox, "last"));
    sandbox.write("last.yaml", &job("last", "helm.sh/hook: 'post-install,post-upgrade'", "a:2"));
    sandbox.apply("").code(0);
    assert_eq!(uid(&sandbox, "first"), before.0);
    assert_ne!(uid(&sandbox, "last"), before.1);
    // A policy that keeps the earlier run says so.
    let kept = "helm.sh/hook: post-install, helm.sh/hook-delete-policy: hook-succeeded";
    sandbox.write("last.yaml", &job("last", kept, "a:3"));
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("`--replace`"), "{ran:#?}");
}

#[test]
fn what_follows_a_hook_that_fails_is_not_applied() {
    let sandbox = hooks_repo().file("a.yaml", &config("a", "1"));
    let ran = thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.apply("").code(2));
        end_job(&sandbox, "first", "Failed");
        run.join().unwrap()
    });
    assert!(!sandbox.has("m1", WEB) && !sandbox.has("m1", &path_of("second")), "{ran:#?}");
    assert!(ran.err.contains("Job shop/first: it failed: too often"), "{ran:#?}");
    let held = "not applied, because the hook Job shop/first, which runs before it, did not succeed: it failed: too often";
    assert!(format!("{}{}", ran.out, ran.err).contains(held), "{ran:#?}");
    let late = hooks_repo().apply("--wait 1s").code(2);
    assert!(late.err.contains("has not ended after 1 s: it is not complete"), "{late:#?}");
}
