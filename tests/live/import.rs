//! `federate import --context`: what it reads of a cluster, and what it writes into a repo.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB};
use crate::support::apiserver::{Cluster, Request};

/// A cluster with a namespace `shop` and a Deployment there, made by `kubectl apply` of version 1.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new(&["m1"]);
    std::fs::remove_file(sandbox.path("repo").join("web.yaml")).unwrap();
    let mut cluster = sandbox.fleet.cluster("m1");
    cluster.namespace("shop");
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        }},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}]},
            },
        },
    });
    let request = Request::new("POST", "/apis/apps/v1/namespaces/shop/deployments")
        .query("fieldManager", "kubectl-client-side-apply")
        .body("application/json", web.to_string());
    assert_eq!(cluster.handle(&request).status, 201);
    drop(cluster);
    sandbox
}

fn create(cluster: &mut Cluster, path: &str, kind: &str, name: &str, more: &Value) {
    let mut body = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    for (key, value) in more.as_object().unwrap() {
        match key.as_str() {
            "metadata" => {
                body["metadata"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            }
            key => body[key] = value.clone(),
        }
    }
    let response = cluster.create(path, &body);
    assert_eq!(response.status, 201, "{body}");
}

fn files(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(sandbox.path("repo").join(folder)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(sandbox: &Sandbox, file: &str) -> String {
    std::fs::read_to_string(sandbox.path("repo").join(file)).unwrap()
}

#[test]
fn what_is_minimal_changes_nothing_where_it_runs() {
    for options in ["", "--minimal"] {
        let sandbox = sandbox();
        let before = sandbox.get("m1", WEB);
        let ran = sandbox.import(&format!("Deployments.apps web -n shop --as karmada {options}")).code(0);
        assert_eq!(ran.out, "created    Deployment shop/web  shop/deployment_web.yaml\n");
        assert!(ran.err.contains("note: a PropagationPolicy"), "{ran:#?}");
        let file = read(&sandbox, "shop/deployment_web.yaml");
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
        assert_eq!(again.out, "unchanged  Deployment shop/web  shop/deployment_web.yaml\n", "{again:#?}");
    }
}

#[test]
fn what_is_printed_is_not_written() {
    let sandbox = sandbox();
    let ran = sandbox.import("deploy -n shop --policy web --as kubeadmiral --dry-run --minimal").code(0);
    assert!(ran.out.starts_with("# shop/deployment_web.yaml\napiVersion: apps/v1\n"), "{}", ran.out);
    assert!(ran.out.contains("kubeadmiral.io/clusters-to-adopt: '{\"clusters\":[\"m1\"]}'"), "{}", ran.out);
    assert_eq!(sandbox.import("deploy/web -n shop --policy web -o yaml --minimal").code(0).out, ran.out);
    assert!(files(&sandbox, "shop").is_empty());
    let ran = sandbox.import("deploy/web -n shop --policy web -o json").code(0);
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
    assert_eq!(files(&sandbox, "shop"), ["deployment_web.yaml"]);
}

#[test]
fn kinds_are_chosen_by_label_and_everywhere() {
    let sandbox = sandbox();
    {
        let mut cluster = sandbox.fleet.cluster("m1");
        cluster.namespace("other");
        for (namespace, name, app) in [("shop", "a", "web"), ("shop", "b", "db"), ("other", "c", "web")] {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            create(
                &mut cluster,
                &path,
                "ConfigMap",
                name,
                &json!({"metadata": {"labels": {"app": app}}, "data": {"k": "v"}}),
            );
        }
        create(
            &mut cluster,
            "/api/v1/namespaces/shop/configmaps",
            "ConfigMap",
            "kube-root-ca.crt",
            &json!({"metadata": {"labels": {"app": "web"}}}),
        );
        let helm = json!({"metadata": {
            "labels": {"app": "web", "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "r"},
        }});
        create(&mut cluster, "/api/v1/namespaces/shop/configmaps", "ConfigMap", "helms", &helm);
    }
    let ran = sandbox.import("cm,deploy -l app=web -A --as kubefleet").code(0);
    assert_eq!(
        ran.out,
        "created    ConfigMap other/c    other/configmap_c.yaml\n\
         created    ConfigMap shop/a     shop/configmap_a.yaml\n\
         created    Deployment shop/web  shop/deployment_web.yaml\n"
    );
    assert!(ran.err.contains("warning[owned]") && ran.err.contains("Helm (release r)"), "{}", ran.err);
    assert!(
        ran.err.contains("warning[made-by-cluster]") && ran.err.contains("whenToTakeOver"),
        "{}",
        ran.err
    );
    let ran = sandbox.import("cm/helms -n shop --as kubefleet").code(2);
    assert!(ran.err.contains("error[owned]") && ran.err.contains("--force"), "{}", ran.err);
    sandbox.import("cm/helms -n shop --as kubefleet --force").code(0);
    assert_eq!(files(&sandbox, "shop"), ["configmap_a.yaml", "configmap_helms.yaml", "deployment_web.yaml"]);
}

#[test]
fn kinds_of_the_cluster_are_discovered() {
    let sandbox = sandbox();
    {
        let mut cluster = sandbox.fleet.cluster("m1");
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
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(cluster.create(path, &definition).status, 201);
        // It is served from the second request on.
        cluster.get("/apis/example.com/v1/namespaces/shop/widgets");
        cluster.get("/apis/example.com/v1/namespaces/shop/widgets");
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}});
        assert_eq!(cluster.create("/apis/example.com/v1/namespaces/shop/widgets", &widget).status, 201);
    }
    sandbox.import("WG/w -n shop --as karmada --minimal").code(0);
    let text = read(&sandbox, "shop/widget_w.yaml");
    assert!(text.contains("color: red") && !text.contains("size"), "{text}");
    let ran = sandbox.import("widgets.example.com/w -n shop --as karmada -o yaml").code(0);
    assert!(ran.out.contains("size: 1"), "{}", ran.out);
    let ran = sandbox.import("gadget/w -n shop --as karmada").code(2);
    assert!(ran.err.contains("m1: the cluster does not serve a kind `gadget`"), "{}", ran.err);
}

#[test]
fn secrets_are_named_and_never_printed() {
    let sandbox = sandbox();
    let secret = json!({"data": {"password": "aHVudGVyMg=="}, "metadata": {"annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"password\":\"aHVudGVyMg==\"}}"}}});
    let path = "/api/v1/namespaces/shop/secrets";
    create(&mut sandbox.fleet.cluster("m1"), path, "Secret", "db", &secret);
    let ran = sandbox.import("deploy,secrets -n shop --as karmada").code(2);
    assert!(ran.err.contains("Secrets are taken in by name only (secret/NAME)"), "{}", ran.err);
    assert!(files(&sandbox, "shop").is_empty());
    for options in ["-o yaml", "--dry-run", "-o json --dry-run", "--as kubefed --dry-run", "-o json"] {
        let dialect = if options.contains("--as") { "" } else { "--as karmada" };
        let ran = sandbox.import(&format!("secret/db -n shop {dialect} {options}")).code(0);
        assert!(ran.out.contains("db") && !ran.out.contains("aHVu") && !ran.err.contains("aHVu"), "{ran:#?}");
        assert!(ran.err.contains("warning[secret-in-clear]"), "{}", ran.err);
    }
    assert!(read(&sandbox, "shop/secret_db.yaml").contains("password: aHVudGVyMg=="));
}

#[test]
fn what_is_wrong_is_told_and_nothing_is_written() {
    let sandbox = sandbox();
    for (line, message) in [
        ("deploy/web,api -n shop --as karmada", "Deployment shop/web,api is not there"),
        ("deploy/web deploy/api -n shop --as karmada", "Deployment shop/api is not there"),
        ("deploy/web --as karmada", "Deployment default/web is not there"),
        ("deploy/web -n shop -l a=b --as karmada", "by name or by -l"),
        ("deploy/web -A --as karmada", "leave out --all-namespaces"),
        ("deploy/web -n shop", "no policy is named"),
        ("deploy/web -n shop --as karmada --policy p", "Karmada's policies select objects by themselves"),
        ("deploy/web -f a.yaml --as karmada", "cannot be used with"),
    ] {
        let ran = sandbox.import(line).code(2);
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
        assert_eq!(ran.out, "", "{line}");
    }
    assert!(files(&sandbox, "shop").is_empty());
    // What lies where a file would go is never written over.
    std::fs::create_dir(sandbox.path("repo/shop")).unwrap();
    std::fs::write(sandbox.path("repo/shop/deployment_web.yaml"), "a: b\n").unwrap();
    std::fs::write(sandbox.path("repo/shop/deployment.apps_web.yaml"), "a: b\n").unwrap();
    let ran = sandbox.import("deploy/web -n shop --as karmada").code(2);
    assert!(ran.err.contains("error[file-exists]"), "{}", ran.err);
    assert_eq!(read(&sandbox, "shop/deployment_web.yaml"), "a: b\n");
}

#[test]
fn a_change_that_runs_comes_in_when_asked() {
    let sandbox = sandbox();
    sandbox.import("deploy/web -n shop --as karmada --minimal").code(0);
    let commented = read(&sandbox, "shop/deployment_web.yaml").replace("replicas: 2", "replicas: 2 # enough");
    std::fs::write(sandbox.path("repo/shop/deployment_web.yaml"), &commented).unwrap();
    let patch = Request::new("PATCH", WEB).body("application/merge-patch+json", r#"{"spec":{"replicas":5}}"#);
    assert_eq!(sandbox.fleet.cluster("m1").handle(&patch).status, 200);
    let ran = sandbox.import("deploy/web -n shop --as karmada --minimal").code(0);
    assert!(ran.out.starts_with("kept ") && ran.err.contains("warning[in-the-repo]"), "{ran:#?}");
    assert_eq!(read(&sandbox, "shop/deployment_web.yaml"), commented);
    let ran = sandbox.import("deploy/web -n shop --as karmada --minimal --update").code(0);
    assert!(ran.out.starts_with("updated ") && ran.err.starts_with("note:"), "{ran:#?}");
    assert_eq!(read(&sandbox, "shop/deployment_web.yaml"), commented.replace("replicas: 2", "replicas: 5"));
}

#[test]
fn the_namespace_is_that_of_the_context() {
    let sandbox = sandbox();
    sandbox.kubeconfig(|config| config["contexts"][0]["context"]["namespace"] = json!("shop"));
    sandbox.import("deploy/web --as karmada --dry-run").code(0);
    let ran = sandbox.import("deploy/web --policy p --dry-run").code(0);
    assert!(!ran.err.contains("adopted-everywhere"), "{}", ran.err);
    std::fs::remove_file(sandbox.path("repo/clusters.yaml")).unwrap();
    let ran = sandbox.import("deploy/web --policy p --dry-run").code(0);
    assert!(ran.err.contains("warning[adopted-everywhere]") && ran.out.contains("regexp"), "{ran:#?}");
    sandbox.kubeconfig(|config| config["contexts"][0]["name"] = json!("other"));
    let ran = sandbox.import("deploy/web --policy p --dry-run").code(2);
    assert!(ran.err.contains("m1: the kubeconfig has no context of that name; it has: other"), "{}", ran.err);
}
