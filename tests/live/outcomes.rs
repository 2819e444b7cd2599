//! What a run says came of each object and of each cluster: as it happened.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB, config, deployment};
use federate_test_apiserver::{ApiRequest, FaultKind, InjectedFault};

fn clusters(ran: &Ran) -> Value {
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:#?}"));
    document["clusters"].clone()
}

/// A cluster that cannot be reached, beside one that can.
fn half_reachable() -> Sandbox {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    sandbox.apply("").code(0);
    sandbox.kubeconfig(|config| {
        config["clusters"][1]["cluster"]["server"] = json!("https://127.0.0.1:1");
    });
    sandbox
}

#[test]
fn an_unreachable_cluster_is_not_reported_as_free_of_drift() {
    let sandbox = half_reachable();
    let drift = |arguments: &str| sandbox.run("drift", arguments).code(2).out;
    assert_eq!(drift(""), "no drift in the 1 cluster that could be read; unknown in m2\n");
    assert_eq!(drift("--cluster m2"), "unknown: no cluster could be read (m2)\n");
    assert!(drift("-o markdown").contains("\nm2 could not be read: it cannot be reached: "));
    assert!(drift("-o junit").contains("<testsuite name=\"m2\" tests=\"1\" errors=\"1\">"));
    let clusters = clusters(&sandbox.run("drift", "-o json").code(2));
    assert_eq!((&clusters[0]["name"], &clusters[0]["outcome"]), (&json!("m1"), &json!("done")));
    assert_eq!(clusters[1]["outcome"], "failed");
    assert!(clusters[1]["error"].as_str().unwrap().starts_with("it cannot be reached: "), "{clusters}");
    let applied = sandbox.apply("--cluster m2").code(2).out;
    assert!(applied.ends_with("1 cluster failed\n") && !applied.contains("nothing to do"), "{applied}");
}

#[test]
fn a_dry_run_predicts_what_an_unreachable_cluster_would_get() {
    let sandbox = half_reachable();
    sandbox.write("a.yaml", &config("a", "1"));
    sandbox.write("bad.yaml", &config("bad", "1").replace("k: '1'", "k: [1]"));
    for mode in ["server", "client"] {
        let ran = sandbox.apply(&format!("--dry-run={mode} -o json")).code(2);
        let a = ran.action("m2", "ConfigMap", "a");
        assert_eq!((&a["action"], &a["outcome"]), (&json!("create"), &json!("planned")), "{a}");
        let why = "predicted for an empty cluster, because the cluster could not be read";
        assert_eq!(a["reason"], why, "{mode}");
        let bad = ran.action("m2", "ConfigMap", "bad");
        assert_eq!(bad["outcome"], "failed", "{bad}");
        let m2 = &clusters(&ran)[1];
        assert_eq!((&m2["outcome"], &m2["predicted"]), (&json!("failed"), &json!(true)), "{m2}");
        assert!(m2["error"].as_str().unwrap().starts_with("it cannot be reached: "), "{m2}");
    }
    let table = sandbox.apply("--dry-run=server").code(2);
    let end = "in 2 clusters, restarts of pods unknown; 1 cluster failed; predicted without the API server\n";
    assert!(table.out.ends_with(end), "{table:#?}");
    // Without a dry run nothing is predicted: it was not done.
    sandbox.remove("bad.yaml");
    let done = sandbox.apply("-o json").code(2).json();
    assert!(done["actions"].as_array().unwrap().iter().all(|action| action["cluster"] == "m1"), "{done}");
}

#[test]
fn what_the_server_refuses_has_failed_and_what_waits_for_it_was_not_tried() {
    let hook = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook-shop}
webhooks:
- name: hook.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: hook, namespace: shop}}
";
    let sandbox = Sandbox::simulated(&["m1"]).file("hook.yaml", hook).file("a.yaml", &config("a", "1"));
    sandbox.write("b.yaml", &config("b", "1"));
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Status(500)).on_path("configmaps/b"));
    let ran = sandbox.apply("-o json").code(2);
    let outcome = |kind: &str, name: &str| ran.action("m1", kind, name)["outcome"].clone();
    assert_eq!(outcome("ConfigMap", "a"), "done");
    assert_eq!(outcome("ConfigMap", "b"), "failed");
    assert_eq!(outcome("ValidatingWebhookConfiguration", "hook-shop"), "not-tried");
    let b = ran.action("m1", "ConfigMap", "b");
    assert!(b["error"].as_str().unwrap().contains("out of order"), "{b}");
    let hook = ran.action("m1", "ValidatingWebhookConfiguration", "hook-shop");
    assert_eq!(
        hook["reason"],
        "not applied, because ConfigMap shop/b, which may serve it, could not be applied"
    );
    assert_eq!(clusters(&ran)[0]["outcome"], "failed");
}

#[test]
fn equal_rows_are_folded() {
    let all: String = (0..60).map(|n| config(&format!("c{n:02}"), "1") + "---\n").collect();
    let sandbox = Sandbox::simulated(&["m1"]).file("many.yaml", &all);
    sandbox.fleet.lock_cluster("m1").add_fault(
        InjectedFault::new("patch", FaultKind::Status(500)).with_times(60).on_path("configmaps/c"),
    );
    let ran = sandbox.apply("").code(2);
    let row = "60 objects (ConfigMap shop/c00, ConfigMap shop/c01, …)";
    let line = |text: &str| text.lines().filter(|line| line.contains(row)).count();
    assert_eq!((line(&ran.out), line(&ran.err)), (1, 1), "{ran:#?}");
    assert!(
        ran.out.ends_with("62 create (60 failed) in 1 cluster, 0 with restarts of pods\n"),
        "{}",
        ran.out
    );
}

#[test]
fn an_object_that_is_being_deleted_counts_as_missing() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("a.yaml", &config("a", "1"));
    sandbox.apply("").code(0);
    let path = "/api/v1/namespaces/shop/configmaps/a";
    let finalizers = |names: Value| {
        sandbox.edit("m1", "test", path, &json!({"metadata": {"finalizers": names}}));
    };
    finalizers(json!(["example.com/held"]));
    sandbox.delete("m1", path);
    let ran = sandbox.apply("-o json").code(2);
    let action = ran.action("m1", "ConfigMap", "a");
    assert_eq!((&action["action"], &action["outcome"]), (&json!("skip"), &json!("not-tried")), "{action}");
    let ran = sandbox.run("drift", "-o json").code(1);
    assert!(
        ran.action("m1", "ConfigMap", "a")["reason"].as_str().unwrap().starts_with("it is being deleted")
    );
    sandbox.edit("m1", "test", path, &json!({"metadata": {"finalizers": null}}));
}

#[test]
fn a_dry_run_names_the_objects_that_were_not_tried() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    let ran = sandbox.apply("--dry-run=server -o json").code(0);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!(web["outcome"], "not-tried");
    assert_eq!(web["reason"], "its namespace shop does not exist yet");
    assert_eq!(ran.action("m1", "Namespace", "shop")["outcome"], "planned");
    let table = sandbox.apply("--dry-run=server").code(0).out;
    assert!(table.contains("2 create (1 not tried) in 1 cluster"), "{table}");
}

#[test]
fn conflicts_are_retried_with_growing_pauses() {
    let sandbox = Sandbox::simulated(&["m1"]);
    sandbox.apply("").code(0);
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    let conflicts = |times: usize| {
        sandbox.fleet.lock_cluster("m1").add_fault(
            InjectedFault::new("patch", FaultKind::Conflict).with_times(times).on_path("deployments"),
        );
    };
    conflicts(5);
    let start = Instant::now();
    sandbox.apply("").code(0);
    assert!(start.elapsed() > Duration::from_secs(3), "with pauses between");
    assert_eq!(sandbox.get("m1", WEB)["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:1.28");
}

#[test]
fn waiting_ends_when_an_object_has_failed_for_good() {
    let job = "apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: shop}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: 'busybox:1'}]}
";
    let policy = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: jobs, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: batch/v1, kind: Job}]
  placement: {clusterAffinity: {}}
";
    let sandbox = Sandbox::simulated(&["m1"]).file("job.yaml", job).file("jobs.yaml", policy);
    sandbox.remove("web.yaml");
    sandbox.apply("").code(0);
    let status = json!({"status": {"conditions": [
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it has reached its limit"},
    ]}});
    let request = ApiRequest::new("PATCH", "/apis/batch/v1/namespaces/shop/jobs/once/status")
        .with_body("application/merge-patch+json", status.to_string());
    assert_eq!(sandbox.fleet.lock_cluster("m1").handle_request(&request).status, 200);
    let start = Instant::now();
    let ran = sandbox.apply("--wait 5m").code(2);
    assert!(start.elapsed() < Duration::from_mins(1));
    assert!(ran.err.contains("Job shop/once: it failed: it has reached its limit"), "{ran:#?}");
}

#[test]
fn the_time_of_a_cluster_is_limited() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]).file("a.yaml", &config("a", "1"));
    let slow = InjectedFault::new("patch", FaultKind::Slow(Duration::from_mins(1))).on_path("deployments");
    sandbox.fleet.lock_cluster("m1").add_fault(slow);
    let start = Instant::now();
    let ran = sandbox.apply("--timeout 2s -o json").code(2);
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(clusters(&ran)[0]["error"], "gave up after 2 s (--timeout)");
    assert_eq!(ran.action("m1", "Namespace", "shop")["outcome"], "done");
    assert_eq!(ran.action("m1", "Deployment", "web")["outcome"], "not-tried");
    assert_eq!(ran.action("m2", "Deployment", "web")["outcome"], "done");
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{ran:#?}");
}
