//! What a run makes of clusters that behave.

use serde_json::json;

use crate::sandbox::{NAMESPACE, PARENT, Sandbox, WEB, config, deployment, version};

const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, default: 1}, color: {type: string}}}
";
const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: shop}\nspec: {color: red}\n";
const HOOK: &str = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook-shop}
webhooks:
- name: hook.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: hook, namespace: shop}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
";

#[test]
fn objects_are_created_in_order_and_then_unchanged() {
    let sandbox =
        Sandbox::anywhere(&["m1"]).file("crd.yaml", WIDGETS).file("w.yaml", WIDGET).file("hook.yaml", HOOK);
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "create", "{ran:#?}");

    let parent = sandbox.get("m1", PARENT);
    let ground = [
        sandbox.get("m1", "/api/v1/namespaces/shop"),
        sandbox.get("m1", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"),
    ];
    let rest = [sandbox.get("m1", WEB), sandbox.get("m1", "/apis/example.com/v1/namespaces/shop/widgets/w")];
    let hook =
        sandbox.get("m1", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook-shop");
    assert_eq!(rest[1]["spec"], json!({"color": "red", "size": 1}), "the definition was in force");
    // Controllers make further versions of what was written.
    if !sandbox.is_real() {
        let (first, last) = (version(&parent), version(&hook));
        for ground in &ground {
            assert!(version(ground) > first, "the parent comes first");
            assert!(rest.iter().all(|object| version(ground) < version(object)), "{ground}");
        }
        assert!(rest.iter().all(|object| version(object) < last), "webhooks come last");
    }
    assert_eq!(
        parent["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"],
        "CustomResourceDefinition.apiextensions.k8s.io,Deployment.apps,Namespace,\
         ValidatingWebhookConfiguration.admissionregistration.k8s.io,Widget.example.com"
    );
    assert_eq!(parent["metadata"]["annotations"]["applyset.kubernetes.io/additional-namespaces"], "shop");

    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(0);
    for (kind, name) in [("Deployment", "web"), ("Namespace", "shop"), ("Widget", "w")] {
        assert_eq!(ran.action("m1", kind, name)["action"], "unchanged", "{ran:#?}");
    }
    sandbox.wrote("m1", 0);
    // A list a kind and the discovery of the one that is not built in; the parent.
    sandbox.read("m1", 5 + 1, 1);
}

#[test]
fn a_definition_and_objects_by_it_change_together() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("widgets.yaml", WIDGETS).file("w.yaml", WIDGET);
    sandbox.apply("").code(0);
    sandbox.write(
        "widgets.yaml",
        &WIDGETS.replace("color: {type: string}", "color: {type: string}, shape: {type: string}"),
    );
    sandbox.write("w.yaml", &WIDGET.replace("color: red", "color: red, shape: round"));
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Widget", "w")["outcome"], "done", "{ran:#?}");
    assert_eq!(sandbox.get("m1", "/apis/example.com/v1/namespaces/shop/widgets/w")["spec"]["shape"], "round");
}

#[test]
fn only_what_differs_is_written() {
    let sandbox =
        Sandbox::anywhere(&["m1", "m2"]).file("a.yaml", &config("a", "1")).file("b.yaml", &config("b", "1"));
    sandbox.apply("").code(0);
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(0);
    let action = ran.action("m1", "Deployment", "web");
    assert_eq!((&action["action"], &action["restartsPods"]), (&json!("update"), &json!(true)));
    assert_eq!(action["diffs"][0]["path"], "/spec/template/spec/containers[name=web]/image");
    sandbox.wrote("m1", 1); // The parent need not be written.
    for cluster in ["m1", "m2"] {
        let image = &sandbox.get(cluster, WEB)["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(image, "nginx:1.28", "{cluster}");
    }
}

#[test]
fn one_cluster_of_several() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]);
    sandbox.apply("--cluster m2").code(0);
    assert!(sandbox.has("m2", WEB) && !sandbox.has("m1", WEB));
    if !sandbox.is_real() {
        let counts = sandbox.fleet.lock_cluster("m1").counts().clone();
        assert!(counts.keys().all(|verb| verb == "get"), "only the test itself asked");
    }
}

#[test]
fn objects_that_are_no_longer_rendered_are_deleted() {
    let names = ["a", "b", "c", "d", "e"];
    let sandbox = Sandbox::anywhere(&["m1"]);
    for name in names {
        sandbox.write(&format!("{name}.yaml"), &config(name, "1"));
    }
    sandbox.create_namespace("m1");
    sandbox.apply("--adopt if-no-restart").code(0);
    // Controllers copy labels to what they make.
    let label = &sandbox.get("m1", PARENT)["metadata"]["labels"]["applyset.kubernetes.io/id"];
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "foreign", "labels": {"applyset.kubernetes.io/part-of": label}}});
    sandbox.create("m1", "/api/v1/namespaces/shop/configmaps", "test", &foreign);

    sandbox.remove("a.yaml");
    let left = sandbox.apply("--no-prune -o json").code(0);
    assert!(!left.out.contains("\"delete\"") && sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "ConfigMap", "a")["action"], "delete");
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/foreign"));

    for name in ["b", "c", "d"] {
        sandbox.remove(&format!("{name}.yaml"));
    }
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    let ran = sandbox.apply("-o json").code(2);
    for (kind, name) in [("ConfigMap", "b"), ("Deployment", "web")] {
        let action = ran.action("m1", kind, name);
        assert_eq!(action["action"], "skip");
        assert!(action["reason"].as_str().unwrap().contains("more than 30 %"), "{action}");
    }
    assert!(ran.err.starts_with("error: m1: 3 of the 6 managed objects"), "{}", ran.err);
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/b"));
    sandbox.apply("--prune-limit 100").code(0);
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/b"));
    let parent = sandbox.get("m1", PARENT);
    assert_eq!(
        parent["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"],
        "ConfigMap,Deployment.apps,Namespace"
    );
    // Of three objects, one is more than the share.
    sandbox.remove("e.yaml");
    sandbox.apply("").code(2);
    sandbox.apply("--prune-limit 100").code(0);
    let parent = sandbox.get("m1", PARENT);
    assert_eq!(
        parent["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"],
        "Deployment.apps,Namespace"
    );
}

#[test]
fn an_incomplete_rendering_deletes_nothing() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    for name in ["a", "b", "c", "d"] {
        sandbox.write(&format!("{name}.yaml"), &config(name, "1"));
    }
    sandbox.apply("").code(0);
    sandbox.write("a.yaml", "apiVersion: v1\nkind: [ConfigMap\n");
    sandbox.write("b.yaml", &config("b", "2"));
    sandbox.apply("").code(2);
    assert_eq!(sandbox.get("m1", "/api/v1/namespaces/shop/configmaps/b")["data"]["k"], "1");
    sandbox.apply("--keep-going").code(2);
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
    assert_eq!(sandbox.get("m1", "/api/v1/namespaces/shop/configmaps/b")["data"]["k"], "2");
}

#[test]
fn dry_runs_store_nothing() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    let ran = sandbox.apply("--dry-run=client -o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "create");
    sandbox.wrote("m1", 0);
    let ran = sandbox.apply("--dry-run=server -o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "create");
    sandbox.wrote("m1", 0);
    // The Deployment's namespace does not exist yet, so that it cannot be dry-run.
    sandbox.tried("m1", 1);
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop") && !sandbox.has("m1", PARENT));
}

#[test]
fn a_parent_may_live_in_a_namespace_that_is_rendered() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("namespace.yaml", NAMESPACE);
    sandbox.apply("--applyset shop/own").code(0);
    let parent = sandbox.get("m1", "/api/v1/namespaces/shop/configmaps/own");
    assert_eq!(parent["metadata"]["annotations"]["applyset.kubernetes.io/additional-namespaces"], "");
    sandbox.forget("m1");
    sandbox.apply("--applyset shop/own").code(0);
    sandbox.wrote("m1", 0);
}

#[test]
fn kinds_of_the_cluster_are_looked_up() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("w.yaml", WIDGET);
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("Widget shop/w: the cluster does not serve example.com/v1 Widget"), "{ran:#?}");

    let definition = federate_yaml::read_stream(WIDGETS.as_bytes()).documents.pop().unwrap().value;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    sandbox.create("m1", path, "test", &definition);
    sandbox.established("m1");
    sandbox.apply("").code(0);
    // The default that the definition names is no difference.
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Widget", "w")["action"], "unchanged");
    // Objects that are no longer rendered are found by the ApplySet alone.
    sandbox.remove("w.yaml");
    sandbox.apply("--prune-limit 100").code(0);
    assert!(!sandbox.has("m1", "/apis/example.com/v1/namespaces/shop/widgets/w"));
}

#[test]
fn many_objects_are_read_in_few_requests() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    let all: String = (0..510).map(|n| config(&format!("c{n}"), "1") + "---\n").collect();
    sandbox.write("many.yaml", &all);
    sandbox.apply("").code(0);
    // Namespace and Deployment are asked for by name, all of the ConfigMaps by one list; the parents of other
    // ApplySets by one more, as there is none of this one yet.
    sandbox.read("m1", 3 + 1 + 1, 1 + 2);
    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(0);
    assert!(!ran.out.contains("\"create\"") && !ran.out.contains("\"update\""));
    sandbox.wrote("m1", 0);
    if !sandbox.is_real() {
        let requests = sandbox.fleet.lock_cluster("m1").answered().len();
        assert!(requests <= 8, "an unchanged run makes few requests: {requests}");
    }
    // Two pages of ConfigMaps.
    sandbox.read("m1", 3 + 1, 1);
}

#[test]
fn a_run_waits_for_pods() {
    let sandbox = Sandbox::anywhere_with_nodes(&["m1", "m2"]);
    sandbox.apply("").code(0);
    if !["m1", "m2"].iter().all(|cluster| sandbox.runs_pods(cluster)) {
        println!("no pods run in these clusters");
        return;
    }
    sandbox.apply("--wait 5m").code(0);
    let running = sandbox.running("m1");
    sandbox.write("a.yaml", &config("a", "1"));
    sandbox.apply("--wait 5m").code(0);
    assert_eq!(sandbox.running("m1"), running, "something else changed");
}
