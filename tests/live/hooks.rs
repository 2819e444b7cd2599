//! Hooks of charts run before and after the other objects of a cluster.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB, config};

/// Jobs go to every cluster.
pub(crate) const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: jobs, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: batch/v1, kind: Job}]
  placement: {clusterAffinity: {}}
";

/// A Job that is a hook of a chart.
pub(crate) fn job(name: &str, hook: &str, image: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: shop, annotations: {{{hook}}}}}\nspec: \
         {{backoffLimit: 0, template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: '{image}'}}]}}}}}}\n"
    )
}

pub(crate) fn path_of(name: &str) -> String {
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
    set_status(sandbox, "m1", name, condition);
    was_applied
}

/// Lets a Job end, where there are controllers by its pod.
pub(crate) fn set_status(sandbox: &Sandbox, cluster: &str, name: &str, condition: &str) {
    if sandbox.real.as_ref().is_some_and(|real| real.controlled(cluster)) {
        let phase = if condition == "Complete" { "Succeeded" } else { condition };
        end_pod(sandbox, cluster, name, phase);
        return;
    }
    // API servers demand that conditions and counts agree.
    let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
    let of = |kind: &str| json!({"type": kind, "status": "True", "message": "too often", "lastTransitionTime": end});
    let status = if condition == "Complete" {
        let conditions = [of("SuccessCriteriaMet"), of("Complete")];
        json!({"startTime": start, "completionTime": end, "succeeded": 1, "conditions": conditions})
    } else {
        json!({"startTime": start, "failed": 1, "conditions": [of("FailureTarget"), of("Failed")]})
    };
    sandbox.edit(cluster, "controller", &format!("{}/status", path_of(name)), &json!({"status": status}));
}

/// Ends the pod of a Job, as no kubelet does.
fn end_pod(sandbox: &Sandbox, cluster: &str, job: &str, phase: &str) {
    let (pods, end) = ("/api/v1/namespaces/shop/pods", Instant::now() + Duration::from_mins(1));
    loop {
        let list = sandbox.get(cluster, pods);
        let mut all = list["items"].as_array().unwrap().iter();
        let pod = all
            .find(|pod| pod["metadata"]["labels"]["job-name"] == job && pod["status"]["phase"] == "Pending");
        if let Some(pod) = pod {
            let path = format!("{pods}/{}/status", pod["metadata"]["name"].as_str().unwrap());
            sandbox.edit(cluster, "kubelet", &path, &json!({"status": {"phase": phase}}));
            return;
        }
        assert!(Instant::now() < end, "{job} has no pod");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Why a Job has failed, as its controller says it.
fn failure(sandbox: &Sandbox) -> &'static str {
    if sandbox.is_real() {
        "it failed: Job has reached the specified backoff limit"
    } else {
        "it failed: too often"
    }
}

fn hooks_repo() -> Sandbox {
    repo_in(Sandbox::simulated(&["m1"]))
}

fn repo_in(sandbox: Sandbox) -> Sandbox {
    sandbox
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

/// Deletes a Job with its pods, as `kubectl delete` does: by itself, the API keeps it until its pods are orphaned.
fn delete_job(sandbox: &Sandbox, name: &str) {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
    assert_eq!(sandbox.ask("m1", "DELETE", &path_of(name), "test", "application/json", &options), 200);
}

/// Applies while the first hook ends.
fn apply_and_end(sandbox: &Sandbox, condition: &str, code: i32) -> Ran {
    thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.apply("").code(code));
        end_job(sandbox, "first", condition);
        if condition == "Complete" {
            end_job(sandbox, "second", condition);
        }
        run.join().unwrap()
    })
}

#[test]
fn a_hook_that_has_failed_is_not_forgotten_by_the_next_apply() {
    let sandbox = repo_in(Sandbox::anywhere(&["m1"])).file("a.yaml", &config("a", "1"));
    apply_and_end(&sandbox, "Failed", 2);
    let failed = failure(&sandbox);
    let held = format!(
        "not applied, because the hook Job shop/first, which runs before it, did not succeed: {failed}"
    );
    for line in ["", "--dry-run=server", "--dry-run=client"] {
        let ran = sandbox.apply(line).code(2);
        let shown = format!("Job shop/first: {failed}; delete it to run it again");
        assert!(ran.err.contains(&shown), "{ran:#?}");
        assert!(format!("{}{}", ran.out, ran.err).contains(&held), "{line}: {ran:#?}");
        assert!(!sandbox.has("m1", WEB) && !sandbox.has("m1", &path_of("second")), "{line}: {ran:#?}");
    }
    sandbox.run("drift", "--correct").code(2);
    assert!(!sandbox.has("m1", WEB), "a correction does not pass it over either");
    delete_job(&sandbox, "first");
    let ran = apply_and_end(&sandbox, "Complete", 0);
    assert!(sandbox.has("m1", WEB) && sandbox.has("m1", &path_of("last")), "{ran:#?}");
    // Hooks that have succeeded and are unchanged hold back nothing.
    sandbox.write("a.yaml", &config("a", "2"));
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", "/api/v1/namespaces/shop/configmaps/a")["data"]["k"], "2");
}

#[test]
fn a_hook_that_still_runs_holds_back_the_next_apply_too() {
    let sandbox = repo_in(Sandbox::anywhere(&["m1"]));
    for _ in 0..2 {
        let late = sandbox.apply("--wait 1s").code(2);
        assert!(late.err.contains("has not ended after 1 s: it is not complete"), "{late:#?}");
        assert!(!sandbox.has("m1", WEB), "{late:#?}");
    }
    set_status(&sandbox, "m1", "first", "Complete");
    thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.apply("").code(0));
        assert!(!end_job(&sandbox, "second", "Complete"));
        run.join().unwrap();
    });
    assert!(sandbox.has("m1", WEB));
}

#[test]
fn a_hook_that_cannot_be_applied_holds_back_what_follows() {
    let sandbox = repo_in(Sandbox::anywhere(&["m1"])).file("a.yaml", &config("a", "1"));
    apply_and_end(&sandbox, "Complete", 0);
    // Its policy keeps the earlier run, so that its template cannot change.
    let kept =
        "helm.sh/hook: pre-upgrade, helm.sh/hook-weight: '-1', helm.sh/hook-delete-policy: hook-succeeded";
    sandbox.write("first.yaml", &job("first", kept, "a:2"));
    sandbox.write("a.yaml", &config("a", "2"));
    for _ in 0..2 {
        let ran = sandbox.apply("").code(2);
        assert!(
            ran.err.contains("the hook Job shop/first, which runs before it, could not be applied"),
            "{ran:#?}"
        );
        assert_eq!(sandbox.get("m1", "/api/v1/namespaces/shop/configmaps/a")["data"]["k"], "1");
    }
}

#[test]
fn a_failed_hook_is_an_error_although_nothing_follows_it() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("jobs.yaml", POLICY);
    sandbox.apply("").code(0);
    sandbox.write("first.yaml", &job("first", "helm.sh/hook: pre-upgrade", "a:1"));
    apply_and_end(&sandbox, "Failed", 2);
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains(&format!("Job shop/first: {}", failure(&sandbox))), "{ran:#?}");
    // One that runs after the others holds back nothing.
    sandbox.remove("first.yaml");
    sandbox.write("last.yaml", &job("last", "helm.sh/hook: post-upgrade", "a:1"));
    sandbox.apply("--prune-limit 100").code(0);
    set_status(&sandbox, "m1", "last", "Failed");
    sandbox.write("a.yaml", &config("a", "1"));
    sandbox.apply("").code(0);
}

#[test]
fn a_service_keeps_its_port_when_a_hook_fails_before_its_successor() {
    let service = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{type: NodePort, \
             selector: {{app: web}}, ports: [{{port: 80, nodePort: 31876}}]}}\n"
        )
    };
    let sandbox = Sandbox::simulated(&["m1"]).file("jobs.yaml", POLICY).file("old.yaml", &service("old"));
    // More than a few objects, of which one may go.
    sandbox.write("a.yaml", &config("a", "1"));
    sandbox.apply("").code(0);
    sandbox.remove("old.yaml");
    sandbox.write("new.yaml", &service("new"));
    sandbox.write("first.yaml", &job("first", "helm.sh/hook: pre-upgrade", "a:1"));
    apply_and_end(&sandbox, "Failed", 2);
    let services = "/api/v1/namespaces/shop/services";
    assert!(sandbox.has("m1", &format!("{services}/old")) && !sandbox.has("m1", &format!("{services}/new")));
    delete_job(&sandbox, "first");
    thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.apply("").code(0));
        end_job(&sandbox, "first", "Complete");
        run.join().unwrap();
    });
    assert!(!sandbox.has("m1", &format!("{services}/old")) && sandbox.has("m1", &format!("{services}/new")));
}

#[test]
fn a_sync_does_not_forget_a_hook_that_has_failed() {
    let sandbox = repo_in(Sandbox::anywhere(&["m1"]));
    sandbox.write_sync("1m", "  retryInterval: 10ms\n  apply: {}\n");
    thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.ran(&mut sandbox.sync("--once")).code(2));
        end_job(&sandbox, "first", "Failed");
        run.join().unwrap();
    });
    for _ in 0..2 {
        let ran = sandbox.ran(&mut sandbox.sync("--once")).code(2);
        assert!(ran.out.contains(&format!("m1: Job shop/first: {}", failure(&sandbox))), "{ran:#?}");
        assert!(!sandbox.has("m1", WEB), "{ran:#?}");
    }
    delete_job(&sandbox, "first");
    thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.ran(&mut sandbox.sync("--once")).code(0));
        end_job(&sandbox, "first", "Complete");
        end_job(&sandbox, "second", "Complete");
        run.join().unwrap();
    });
    assert!(sandbox.has("m1", WEB));
}

#[test]
fn hooks_of_argo_cd_hold_back_later_waves_in_the_next_apply_too() {
    let first = "argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/sync-wave: '-1'";
    let sandbox = Sandbox::anywhere(&["m1"])
        .file("jobs.yaml", POLICY)
        .file("first.yaml", &job("first", first, "a:1"))
        .file("second.yaml", &job("second", "argocd.argoproj.io/hook: PreSync", "a:1"));
    apply_and_end(&sandbox, "Failed", 2);
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains(&format!("Job shop/first: {}", failure(&sandbox))), "{ran:#?}");
    assert!(!sandbox.has("m1", WEB) && !sandbox.has("m1", &path_of("second")), "{ran:#?}");
    // What is corrected runs again.
    sandbox.write("first.yaml", &job("first", first, "a:2"));
    let before = uid(&sandbox, "first");
    thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.apply("").code(0));
        let end = Instant::now() + Duration::from_mins(1);
        let is_new = || {
            let jobs = sandbox.get("m1", "/apis/batch/v1/namespaces/shop/jobs");
            let mut jobs = jobs["items"].as_array().unwrap().iter().map(|job| &job["metadata"]);
            jobs.any(|job| job["name"] == "first" && job["uid"] != before)
        };
        while !is_new() {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(20));
        }
        end_job(&sandbox, "first", "Complete");
        end_job(&sandbox, "second", "Complete");
        run.join().unwrap();
    });
    assert!(sandbox.has("m1", WEB));
}
