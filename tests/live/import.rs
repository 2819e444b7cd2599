//! `federate import --context`: what it reads of a cluster, and what it writes into a repo.

use serde_json::{Value, json};

use crate::adoption::by_kubectl;
use crate::sandbox::{Sandbox, WEB};

const CONFIGS: &str = "/api/v1/namespaces/shop/configmaps";

/// A cluster with a namespace `shop` and a Deployment there, made by `kubectl apply` of version 1.
fn sandbox() -> Sandbox {
    furnished(Sandbox::anywhere(&["m1"]))
}

fn furnished(sandbox: Sandbox) -> Sandbox {
    sandbox.remove("web.yaml");
    by_kubectl(&sandbox, &json!({"app": "shop"}));
    sandbox
}

fn create(sandbox: &Sandbox, path: &str, kind: &str, name: &str, more: &Value) {
    let mut body = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    for (key, value) in more.as_object().unwrap() {
        match key.as_str() {
            "metadata" => {
                body["metadata"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            }
            key => body[key] = value.clone(),
        }
    }
    sandbox.create("m1", path, "test", &body);
}

/// A table's lines with their columns, which are as wide as the names are.
fn columns(out: &str) -> Vec<String> {
    out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn what_is_minimal_changes_nothing_where_it_runs() {
    for options in ["", "--minimal"] {
        let sandbox = sandbox();
        let before = sandbox.get("m1", WEB);
        let ran = sandbox.import(&format!("Deployments.apps web -n shop --as karmada {options}")).code(0);
        assert_eq!(columns(&ran.out), ["created Deployment shop/web shop/deployment_web.yaml"]);
        assert!(ran.err.contains("note: a PropagationPolicy"), "{ran:#?}");
        let file = sandbox.read_file("shop/deployment_web.yaml");
        assert_eq!(file.contains("schedulerName"), options.is_empty(), "{file}");
        assert!(file.contains("replicas: 2"), "{file}");

        let ran = sandbox.apply("-o json").code(0);
        let action = ran.action("m1", "Deployment", "web");
        assert_eq!(
            (&action["action"], &action["restartsPods"]),
            (&json!("adopt"), &json!(false)),
            "{action}"
        );
        let after = sandbox.get("m1", WEB);
        assert_eq!(after["spec"], before["spec"], "{options}");

        let again = sandbox.import(&format!("deploy/web -n shop --as karmada {options}")).code(0);
        assert_eq!(columns(&again.out), ["unchanged Deployment shop/web shop/deployment_web.yaml"]);
    }
}

#[test]
fn fleets_placement_takes_over_what_was_taken_in() {
    let sandbox = sandbox();
    for name in ["clusters.yaml", "policy.yaml", "namespace.yaml"] {
        sandbox.remove(name);
    }
    sandbox.write(
        "clusters.yaml",
        "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: m1}\nspec:\n  \
         identity: {name: m1, kind: ServiceAccount, namespace: fleet-system}\n",
    );
    let placed = |take_over: &str| {
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {{name: web, namespace: shop}}
spec:
  resourceSelectors: [{{group: apps, version: v1, kind: Deployment, name: web}}]
  policy: {{placementType: PickFixed, clusterNames: [m1]}}
  strategy: {{applyStrategy: {{whenToTakeOver: {take_over}}}}}
"
        )
    };
    sandbox.import("deploy/web -n shop --as kubefleet --minimal").code(0);
    let before = sandbox.get("m1", WEB);
    sandbox.write("placement.yaml", &placed("Never"));
    let ran = sandbox.apply("-o json");
    let action = ran.action("m1", "Deployment", "web");
    assert_eq!(action["action"], "conflict", "{action}");
    assert!(action["reason"].as_str().unwrap().contains("whenToTakeOver"), "{action}");
    sandbox.write("placement.yaml", &placed("Always"));
    let ran = sandbox.apply("-o json").code(0);
    let action = ran.action("m1", "Deployment", "web");
    assert_eq!((&action["action"], &action["restartsPods"]), (&json!("adopt"), &json!(false)), "{action}");
    assert_eq!(sandbox.get("m1", WEB)["spec"], before["spec"]);
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "unchanged");
}

#[test]
fn what_is_printed_is_not_written() {
    let sandbox = sandbox();
    let ran = sandbox.import("deploy -n shop --policy web --as kubeadmiral --dry-run --minimal").code(0);
    assert!(ran.out.starts_with("# shop/deployment_web.yaml\napiVersion: apps/v1\n"), "{}", ran.out);
    assert!(ran.out.contains("kubeadmiral.io/clusters-to-adopt: '{\"clusters\":[\"m1\"]}'"), "{}", ran.out);
    assert_eq!(
        sandbox.import("deploy/web -n shop --policy web --as kubeadmiral -o yaml --minimal").code(0).out,
        ran.out
    );
    assert!(sandbox.files("shop").is_empty());
    let ran = sandbox.import("deploy/web -n shop --policy web --as kubeadmiral -o json").code(0);
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(summary["kind"], "ImportSummary");
    assert_eq!(
        summary["objects"][0]["written"][0],
        json!({
            "object": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "file": "shop/deployment_web.yaml", "action": "created",
        })
    );
    let removed = summary["objects"][0]["removed"].as_array().unwrap();
    assert!(removed.contains(&json!("/status")), "{removed:?}");
    assert_eq!(sandbox.files("shop"), ["deployment_web.yaml"]);
}

#[test]
fn kinds_are_chosen_by_label_and_everywhere() {
    let sandbox = sandbox();
    sandbox.create_namespace_named("m1", "shop-b");
    for (namespace, name, app) in [("shop", "a", "shop"), ("shop", "b", "db"), ("shop-b", "c", "shop")] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let more = json!({"metadata": {"labels": {"app": app}}, "data": {"k": "v"}});
        create(&sandbox, &path, "ConfigMap", name, &more);
    }
    // Real clusters have one of their own, or make it in a moment.
    if !sandbox.is_real() {
        let more = json!({"metadata": {"labels": {"app": "shop"}}});
        create(&sandbox, CONFIGS, "ConfigMap", "kube-root-ca.crt", &more);
    }
    let helm = json!({"metadata": {
        "labels": {"app": "shop", "app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "r"},
    }});
    create(&sandbox, CONFIGS, "ConfigMap", "helms", &helm);
    let ran = sandbox.import("cm,deploy -l app=shop -A --as kubefleet").code(0);
    assert_eq!(
        columns(&ran.out),
        [
            "created ConfigMap shop/a shop/configmap_a.yaml",
            "created ConfigMap shop-b/c shop-b/configmap_c.yaml",
            "created Deployment shop/web shop/deployment_web.yaml",
        ]
    );
    assert!(ran.err.contains("warning[owned]") && ran.err.contains("Helm (release r)"), "{}", ran.err);
    assert!(ran.err.contains("whenToTakeOver"), "{}", ran.err);
    assert_eq!(ran.err.contains("warning[made-by-cluster]"), !sandbox.is_real(), "{}", ran.err);
    let ran = sandbox.import("cm/helms -n shop --as kubefleet").code(2);
    assert!(ran.err.contains("error[owned]") && ran.err.contains("--force"), "{}", ran.err);
    sandbox.import("cm/helms -n shop --as kubefleet --force").code(0);
    assert_eq!(sandbox.files("shop"), ["configmap_a.yaml", "configmap_helms.yaml", "deployment_web.yaml"]);
}

#[test]
fn kinds_of_the_cluster_are_discovered() {
    let sandbox = sandbox();
    let property = json!({"type": "object", "properties": {"size": {"type": "integer", "default": 1}, "color": {"type": "string"}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "shortNames": ["wg"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": property}}}}],
        },
    });
    sandbox.create("m1", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "test", &definition);
    sandbox.established("m1");
    let widgets = "/apis/example.com/v1/namespaces/shop/widgets";
    // It is served from the second request on.
    assert!(!sandbox.has("m1", &format!("{widgets}/w")) && !sandbox.has("m1", &format!("{widgets}/w")));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}});
    sandbox.create("m1", widgets, "test", &widget);
    // Where others test, too, several groups have widgets.
    let widget = if sandbox.is_real() { "widgets.example.com" } else { "WG" };
    sandbox.import(&format!("{widget}/w -n shop --as karmada --minimal")).code(0);
    let text = sandbox.read_file("shop/widget_w.yaml");
    assert!(text.contains("color: red") && !text.contains("size"), "{text}");
    let ran = sandbox.import("widgets.example.com/w -n shop --as karmada -o yaml").code(0);
    assert!(ran.out.contains("size: 1"), "{}", ran.out);
    let ran = sandbox.import("gadget/w -n shop --as karmada").code(2);
    assert!(ran.err.contains("the cluster does not serve a kind `gadget`"), "{}", ran.err);
}

#[test]
fn what_a_script_retains_stays_out_of_the_repo() {
    let sandbox = sandbox();
    sandbox.write(
        "retention.yaml",
        "apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: replicas}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    retention:
      luaScript: |
        function Retain(desired, observed)
          desired.spec.replicas = observed.spec.replicas
          return desired
        end
",
    );
    sandbox.import("deploy/web -n shop --as karmada --minimal").code(0);
    let text = sandbox.read_file("shop/deployment_web.yaml");
    sandbox.edit("m1", "kubectl", WEB, &json!({"spec": {"replicas": 5}}));
    let ran = sandbox.import("deploy/web -n shop --as karmada --minimal --update").code(0);
    assert!(ran.out.starts_with("unchanged "), "{ran:#?}");
    sandbox.edit("m1", "kubectl", WEB, &json!({"spec": {"replicas": 6, "minReadySeconds": 3}}));
    let ran = sandbox.import("deploy/web -n shop --as karmada --minimal --update").code(0);
    assert!(ran.out.starts_with("updated "), "{ran:#?}");
    let updated = sandbox.read_file("shop/deployment_web.yaml");
    assert!(updated.contains("minReadySeconds: 3") && updated.contains("replicas: 2"), "{text}{updated}");
}

#[test]
fn secrets_are_named_and_never_printed() {
    let sandbox = sandbox();
    let secret = json!({"data": {"password": "aHVudGVyMg=="}, "metadata": {"annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"password\":\"aHVudGVyMg==\"}}"}}});
    create(&sandbox, "/api/v1/namespaces/shop/secrets", "Secret", "db", &secret);
    let ran = sandbox.import("deploy,secrets -n shop --as karmada").code(2);
    assert!(ran.err.contains("Secrets are imported by name only (secret/NAME)"), "{}", ran.err);
    assert!(sandbox.files("shop").is_empty());
    for options in ["-o yaml", "--dry-run", "-o json --dry-run", "--as kubefed --dry-run", "-o json"] {
        let dialect = if options.contains("--as") { "" } else { "--as karmada" };
        let ran = sandbox.import(&format!("secret/db -n shop {dialect} {options}")).code(0);
        assert!(ran.out.contains("db") && !ran.out.contains("aHVu") && !ran.err.contains("aHVu"), "{ran:#?}");
        assert!(ran.err.contains("warning[secret-in-clear]"), "{}", ran.err);
    }
    assert!(sandbox.read_file("shop/secret_db.yaml").contains("password: aHVudGVyMg=="));
}

#[test]
fn errors_are_reported_and_nothing_is_written() {
    let sandbox = sandbox();
    for (line, message) in [
        ("deploy/web,api -n shop --as karmada", "Deployment shop/web,api does not exist"),
        ("deploy/web deploy/api -n shop --as karmada", "Deployment shop/api does not exist"),
        ("deploy/web --as karmada", "Deployment default/web does not exist"),
        ("deploy/web -n shop -l a=b --as karmada", "by name or with -l"),
        ("deploy/web -A --as karmada", "leave out --all-namespaces"),
        ("deploy/web -n shop --as kubeadmiral", "name the policy that places the objects"),
        ("deploy/web -n shop --as karmada --policy p", "Karmada's policies select objects by themselves"),
        // The policies of the repo are those of Karmada.
        ("deploy/web -n shop --policy p", "leave out --policy"),
        ("deploy/web -f a.yaml --as karmada", "cannot be used with"),
    ] {
        let ran = sandbox.import(line).code(2);
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
        assert_eq!(ran.out, "", "{line}");
    }
    assert!(sandbox.files("shop").is_empty());
    // What lies where a file would go is never written over.
    sandbox.write("shop/deployment_web.yaml", "a: b\n");
    sandbox.write("shop/deployment.apps_web.yaml", "a: b\n");
    let ran = sandbox.import("deploy/web -n shop --as karmada").code(2);
    assert!(ran.err.contains("error[file-exists]"), "{}", ran.err);
    assert_eq!(sandbox.read_file("shop/deployment_web.yaml"), "a: b\n");
}

#[test]
fn a_change_that_runs_comes_in_when_asked() {
    let sandbox = sandbox();
    sandbox.import("deploy/web -n shop --as karmada --minimal").code(0);
    let commented =
        sandbox.read_file("shop/deployment_web.yaml").replace("replicas: 2", "replicas: 2 # enough");
    sandbox.write("shop/deployment_web.yaml", &commented);
    sandbox.edit("m1", "kubectl", WEB, &json!({"spec": {"replicas": 5}}));
    let ran = sandbox.import("deploy/web -n shop --as karmada --minimal").code(0);
    assert!(ran.out.starts_with("kept ") && ran.err.contains("warning[in-the-repo]"), "{ran:#?}");
    assert_eq!(sandbox.read_file("shop/deployment_web.yaml"), commented);
    let ran = sandbox.import("deploy/web -n shop --as karmada --minimal --update").code(0);
    assert!(ran.out.starts_with("updated ") && ran.err.starts_with("note:"), "{ran:#?}");
    assert_eq!(
        sandbox.read_file("shop/deployment_web.yaml"),
        commented.replace("replicas: 2", "replicas: 5")
    );
}

#[test]
fn the_namespace_is_that_of_the_context() {
    let sandbox = furnished(Sandbox::simulated(&["m1"]));
    sandbox.kubeconfig(|config| config["contexts"][0]["context"]["namespace"] = json!("shop"));
    sandbox.import("deploy/web --as karmada --dry-run").code(0);
    let ran = sandbox.import("deploy/web --policy p --as kubeadmiral --dry-run").code(0);
    assert!(!ran.err.contains("adopted-everywhere"), "{}", ran.err);
    sandbox.remove("clusters.yaml");
    let ran = sandbox.import("deploy/web --policy p --as kubeadmiral --dry-run").code(0);
    assert!(ran.err.contains("warning[adopted-everywhere]") && ran.out.contains("regexp"), "{ran:#?}");
    sandbox.kubeconfig(|config| config["contexts"][0]["name"] = json!("other"));
    let ran = sandbox.import("deploy/web --policy p --as kubeadmiral --dry-run").code(2);
    assert!(ran.err.contains("m1: the kubeconfig has no context of that name; it has: other"), "{}", ran.err);
}
