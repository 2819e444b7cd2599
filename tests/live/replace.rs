//! Objects with immutable changes are deleted and created again where that is allowed.

use serde_json::json;

use crate::sandbox::{Sandbox, config};

const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: more, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: StatefulSet}
  - {apiVersion: batch/v1, kind: Job}
  - {apiVersion: v1, kind: PersistentVolumeClaim}
  placement: {clusterAffinity: {}}
";
const JOBS: &str = "/apis/batch/v1/namespaces/shop/jobs/j";
const CONFIG: &str = "/api/v1/namespaces/shop/configmaps/a";

fn job(image: &str, annotations: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, namespace: shop, annotations: {{{annotations}}}}}\nspec: \
         {{template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: '{image}'}}]}}}}}}\n"
    )
}

fn claim(size: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c, namespace: shop}}\nspec: {{accessModes: \
         [{size}], resources: {{requests: {{storage: 1Gi}}}}}}\n"
    )
}

#[test]
fn what_cannot_be_changed_is_replaced_on_demand() {
    let fixed = |value: &str| config("a", value) + "immutable: true\n";
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", POLICY).file("a.yaml", &fixed("1"));
    sandbox.write("j.yaml", &job("a:1", ""));
    sandbox.apply("").code(0);
    let uid = |path: &str| sandbox.get("m1", path)["metadata"]["uid"].clone();
    let before = (uid(JOBS), uid(CONFIG));
    sandbox.write("j.yaml", &job("a:2", ""));
    sandbox.write("a.yaml", &fixed("2"));

    let ran = sandbox.apply("").code(2);
    let lines: Vec<&str> = ran.err.lines().filter(|line| line.contains("`--replace`")).collect();
    assert_eq!(lines.len(), 2, "{ran:#?}");
    assert_eq!((uid(JOBS), uid(CONFIG)), before);
    sandbox.apply("--replace --dry-run=server").code(0);
    assert_eq!((uid(JOBS), uid(CONFIG)), before);

    let ran = sandbox.apply("--replace -o json").code(0);
    let action = ran.action("m1", "Job", "j");
    assert_eq!(action["action"], "update");
    let why = "it is deleted and created again, so that it runs again from the start: ";
    let reason = action["reason"].as_str().unwrap();
    assert!(reason.starts_with(why) && reason.ends_with("spec.template: field is immutable"), "{action:#}");
    assert_ne!(uid(JOBS), before.0);
    assert_eq!(sandbox.get("m1", JOBS)["spec"]["template"]["spec"]["containers"][0]["image"], "a:2");
    assert_eq!(sandbox.get("m1", CONFIG)["data"], json!({"k": "2"}));
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Job", "j")["action"], "unchanged");
}

#[test]
fn an_annotation_allows_it_and_nothing_allows_it_for_claims() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", POLICY);
    sandbox.write("j.yaml", &job("a:1", ""));
    sandbox.write("c.yaml", &claim("ReadWriteOnce"));
    sandbox.apply("").code(0);
    let claim_path = "/api/v1/namespaces/shop/persistentvolumeclaims/c";
    let uid = sandbox.get("m1", claim_path)["metadata"]["uid"].clone();
    sandbox.write("j.yaml", &job("a:2", "federate.dev/replace: enabled"));
    sandbox.write("c.yaml", &claim("ReadWriteMany"));
    let ran = sandbox.apply("--replace").code(2);
    assert_eq!(sandbox.get("m1", JOBS)["spec"]["template"]["spec"]["containers"][0]["image"], "a:2");
    assert!(
        ran.err.contains("PersistentVolumeClaim shop/c") && !ran.err.contains("created again"),
        "{ran:#?}"
    );
    assert_eq!(sandbox.get("m1", claim_path)["metadata"]["uid"], uid);
}

const SET: &str = "/apis/apps/v1/namespaces/shop/statefulsets/db";
const POD: &str = "/api/v1/namespaces/shop/pods/db-0";

fn set(service: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db, namespace: shop}}\nspec:\n  replicas: 1\n  \
         serviceName: {service}\n  selector: {{matchLabels: {{app: db}}}}\n  template:\n    metadata: {{labels: {{app: \
         db}}}}\n    spec: {{containers: [{{name: db, image: 'db:1'}}]}}\n"
    )
}

/// Waits for the pod of the set, or creates it where no controller does.
fn pod(sandbox: &Sandbox) -> serde_json::Value {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while sandbox.is_real() && !sandbox.has("m1", POD) && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    if !sandbox.has("m1", POD) {
        // Without a controller manager a namespace has no account for its pods.
        let accounts = "/api/v1/namespaces/shop/serviceaccounts";
        if !sandbox.has("m1", &format!("{accounts}/default")) {
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            sandbox.create("m1", accounts, "test", &account);
        }
        let uid = sandbox.get("m1", SET)["metadata"]["uid"].clone();
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": uid, "controller": true});
        let body = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "db-0", "labels": {"app": "db"}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "db", "image": "db:1"}]},
        });
        sandbox.create("m1", "/api/v1/namespaces/shop/pods", "test", &body);
    }
    sandbox.get("m1", POD)
}

#[test]
fn the_pods_of_a_set_that_is_replaced_run_on() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", POLICY).file("db.yaml", &set("a"));
    if !sandbox.is_real() {
        // The test server has no garbage collector: a set that orphans its pods is never gone there.
        return;
    }
    sandbox.apply("").code(0);
    let (before, running) = (sandbox.get("m1", SET), pod(&sandbox));
    sandbox.write("db.yaml", &set("b"));
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("`--replace`"), "{ran:#?}");
    let ran = sandbox.apply("--replace -o json").code(0);
    let action = ran.action("m1", "StatefulSet", "db");
    let why = "it is deleted and created again, while its pods run on and belong to the new one: ";
    assert!(action["reason"].as_str().unwrap().starts_with(why), "{action:#}");
    let after = sandbox.get("m1", SET);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"]["serviceName"], "b");
    let pod = sandbox.get("m1", POD);
    assert_eq!(pod["metadata"]["uid"], running["metadata"]["uid"], "the pod was not deleted");
    assert_eq!(pod["metadata"].get("deletionTimestamp"), None);
    assert_eq!(pod["spec"]["containers"], running["spec"]["containers"]);
}
