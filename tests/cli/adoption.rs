//! Why an object is not adopted, and what would allow it, in the terms of each control plane; and what adopted objects lose.

use serde_json::{Value, json};

use crate::sandbox::{CLUSTERS, POLICY, Sandbox, WEB};

/// The Deployment of another client, with more metadata.
fn there(more: &str) -> String {
    WEB.replace(
        "  name: web\n  namespace: shop\n",
        &format!("  name: web\n  namespace: shop\n  uid: u\n{more}"),
    )
}

/// Why the Deployment in `m1` is not adopted.
#[track_caller]
fn refusal(sandbox: &Sandbox) -> String {
    let ran = sandbox.run("apply --dry-run=client --observed .live --cluster m1 -o json");
    let json = ran.json();
    let actions = json["actions"].as_array().unwrap();
    let action = actions.iter().find(|action| action["object"]["name"] == "web").unwrap();
    // An object that is as rendered is neither a conflict nor an error.
    let differs = action["diffs"].as_array().is_some_and(|diffs| !diffs.is_empty());
    // What would be taken away from others, such as a label, differs without a difference in what is rendered.
    let is_unchanged = action["action"] == "unchanged";
    assert!(is_unchanged || action["action"] == "conflict", "{action}");
    assert!(!(is_unchanged && differs), "{action}");
    let mode = if is_unchanged { "if-no-diff" } else { "if-no-restart" };
    assert_eq!(ran.code, if differs { 2 } else { 0 }, "{action}");
    let reason = action["reason"].as_str().unwrap();
    assert!(reason.ends_with(&format!("--adopt {mode} (or always) adopts it anyway")), "{reason}");
    let adopted =
        sandbox.run("apply --dry-run=client --observed .live --cluster m1 --adopt if-no-restart -o json");
    assert!(adopted.code(0).out.contains("\"adopt\""));
    reason.to_owned()
}

#[test]
fn karmada_overwrites_where_it_may() {
    let sandbox =
        Sandbox::new().file("web.yaml", WEB).file("clusters.yaml", CLUSTERS).file("policy.yaml", POLICY);
    let sandbox = sandbox.file(".live/m1/web.yaml", there(""));
    let reason = refusal(&sandbox);
    assert!(reason.contains("(AlreadyExists): that takes `conflictResolution: Overwrite`"), "{reason}");
    // An object that differs would fail the run, and so it does when nothing is tried.
    sandbox.write(".live/m1/web.yaml", there("").replace("nginx:1.27", "nginx:1.20"));
    let ran = sandbox.run("apply --dry-run=client --observed .live --cluster m1").code(2);
    assert!(ran.out.contains("nginx:1.20") && ran.out.contains("1 conflict"), "{}", ran.out);
    sandbox.run("apply --dry-run=client --observed .live --cluster m1 --adopt always").code(0);
}

#[test]
fn without_a_control_plane_an_object_that_exists_is_adopted_by_a_flag() {
    let sandbox = Sandbox::new()
        .file("federate.yaml", "clusters: [{name: m1}]\nunplaced: everywhere\n")
        .file("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
        .file("web.yaml", WEB)
        .file(
            ".live/m1/namespace.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, uid: u, labels: {kubernetes.io/metadata.name: shop}}\n",
        )
        .file(".live/m1/web.yaml", there("").replace("nginx:1.27", "nginx:1.20"));
    let ran = sandbox.run("apply --dry-run=client --observed .live -o json").code(2);
    assert!(!ran.out.contains("conflictResolution"), "{}", ran.out);
    let json = ran.json();
    let reason = |kind: &str| {
        let actions = json["actions"].as_array().unwrap();
        let action = actions.iter().find(|action| action["object"]["kind"] == kind).unwrap();
        action["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        reason("Namespace"),
        "it exists already, as it is rendered, and federate does not manage it; --adopt if-no-diff would adopt it"
    );
    assert_eq!(
        reason("Deployment"),
        "it exists already, and federate does not manage it; --adopt if-no-restart would adopt it"
    );
    let ran = sandbox.run("apply --dry-run=client --observed .live --adopt if-no-diff -o json");
    assert!(ran.out.contains("\"adopt\""), "{}", ran.out);
}

#[test]
fn a_namespace_without_a_policy_that_is_as_rendered_is_no_conflict() {
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: shop}\n---\n\
                  apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: web, namespace: shop}\n\
                  spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}], placement: {}}\n";
    let there = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, uid: u, labels: {kubernetes.io/metadata.name: shop}}\n";
    let sandbox = Sandbox::new()
        .file("federate.yaml", "clusters: [{name: m1}]\n")
        .file("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
        .file("web.yaml", config)
        .file(".live/m1/namespace.yaml", there);
    let ran = sandbox.run("apply --dry-run=client --observed .live").code(0);
    assert!(!ran.out.contains("conflict"), "{}", ran.out);
    let line = "unchanged  Namespace shop      it exists already, as it is rendered, and federate does not manage it; --adopt if-no-diff \
                would adopt it";
    assert!(ran.out.contains(line), "{}", ran.out);
    // A difference is a conflict, and no setting of a policy would end it.
    sandbox.write(
        "namespace.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n",
    );
    let ran = sandbox.run("apply --dry-run=client --observed .live").code(2);
    assert!(ran.out.contains("1 conflict") && !ran.out.contains("conflictResolution"), "{}", ran.out);
}

#[test]
fn kubeadmiral_names_the_annotation_that_is_missing() {
    let inventory = "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {name: m1}\n---\n\
                     apiVersion: core.kubeadmiral.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: pp, namespace: shop}\n\
                     spec: {schedulingMode: Duplicate}\n";
    let sandbox = Sandbox::new().file("inventory.yaml", inventory).file(".live/m1/web.yaml", there(""));
    let write = |annotations: &str| {
        let metadata = format!(
            "  name: web\n  labels: {{kubeadmiral.io/propagation-policy-name: pp}}\n  annotations: {{{annotations}}}\n"
        );
        sandbox.write("web.yaml", WEB.replacen("  name: web\n", &metadata, 1));
    };
    let adopt = "kubeadmiral.io/conflict-resolution: adopt";
    for (annotations, expected) in [
        (String::new(), "its annotation `kubeadmiral.io/conflict-resolution` is not `adopt`"),
        (
            adopt.to_owned(),
            "it has `kubeadmiral.io/conflict-resolution: adopt`, but no annotation `kubeadmiral.io/clusters-to-adopt`, such as \
             `{\"clusters\":[\"m1\"]}`",
        ),
        (
            format!("{adopt}, kubeadmiral.io/clusters-to-adopt: '{{\"clusters\":[\"m2\"]}}'"),
            "its annotation `kubeadmiral.io/clusters-to-adopt` does not name the cluster m1",
        ),
        (
            format!("{adopt}, kubeadmiral.io/clusters-to-adopt: '{{\"regexp\":\"*\"}}'"),
            "its annotation `kubeadmiral.io/clusters-to-adopt` cannot be read: `regexp` is not a regular expression",
        ),
    ] {
        write(&annotations);
        let reason = refusal(&sandbox);
        assert!(reason.contains(&format!("(AlreadyExists): {expected}")), "{reason}");
    }
    write(&format!("{adopt}, kubeadmiral.io/clusters-to-adopt: '{{\"clusters\":[\"m1\"]}}'"));
    sandbox.write(".live/m1/web.yaml", there("  labels: {kubeadmiral.io/managed: 'false'}\n"));
    let reason = refusal(&sandbox);
    assert!(reason.contains("the label `kubeadmiral.io/managed: \"false\"` of the live object"), "{reason}");
}

#[test]
fn kubefleet_names_the_strategy() {
    let inventory = "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: m1}\nspec:\n  \
                     identity: {kind: ServiceAccount, name: a, namespace: fleet-system}\n---\n\
                     apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
                     apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: shop}\nspec:\n  \
                     resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]\n  \
                     strategy: {applyStrategy: {whenToTakeOver: Never}}\n";
    let sandbox = Sandbox::new()
        .file("inventory.yaml", inventory)
        .file("web.yaml", WEB)
        .file(".live/m1/web.yaml", there(""));
    let reason = refusal(&sandbox);
    assert!(reason.contains("whenToTakeOver` of its placement is `Never`"), "{reason}");
}

#[test]
fn kubefed_names_its_configuration() {
    let inventory = "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\nmetadata: {name: m1, namespace: kube-federation-system}\n\
                     spec: {apiEndpoint: 'https://m1', secretRef: {name: m1}}\n---\n\
                     apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedConfig\nmetadata: {name: kubefed, namespace: kube-federation-system}\n\
                     spec: {scope: Cluster, syncController: {adoptResources: Disabled}}\n---\n\
                     apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
                     apiVersion: types.kubefed.io/v1beta1\nkind: FederatedNamespace\nmetadata: {name: shop, namespace: shop}\n\
                     spec: {placement: {clusters: [{name: m1}]}}\n";
    let template = WEB.split_once("spec:\n").unwrap().1.replace('\n', "\n      ");
    let federated = format!(
        "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedDeployment\nmetadata: {{name: web, namespace: shop}}\nspec:\n  \
         placement: {{clusters: [{{name: m1}}]}}\n  template:\n    spec:\n      {}\n",
        template.trim_end()
    );
    let types = "apiVersion: core.kubefed.io/v1beta1\nkind: FederatedTypeConfig\nmetadata: {name: deployments.apps, namespace: kube-federation-system}\n\
                 spec:\n  propagation: Enabled\n  targetType: {group: apps, version: v1, kind: Deployment, pluralName: deployments, scope: Namespaced}\n  \
                 federatedType: {group: types.kubefed.io, version: v1beta1, kind: FederatedDeployment, pluralName: federateddeployments, scope: Namespaced}\n";
    let sandbox = Sandbox::new()
        .file("inventory.yaml", inventory)
        .file("types.yaml", types)
        .file("web.yaml", federated)
        .file(".live/m1/web.yaml", there(""));
    let reason = refusal(&sandbox);
    assert!(
        reason.contains("`spec.syncController.adoptResources` of the KubeFedConfig is `Disabled`"),
        "{reason}"
    );
}

/// An object that a control plane has sent, as its member has it: what git no longer has, and the marks of the control plane.
#[allow(clippy::needless_pass_by_value, reason = "callers make it in place")]
fn sent(manager: &str, operation: &str, metadata: Value) -> Value {
    let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b", "old": "x", "own": "y"}, "metadata": metadata});
    let metadata = &mut live["metadata"];
    let names = |map: &Value| -> Value {
        map.as_object().into_iter().flatten().map(|(key, _)| (format!("f:{key}"), json!({}))).collect()
    };
    let (labels, annotations) = (names(&metadata["labels"]), names(&metadata["annotations"]));
    metadata["managedFields"] = json!([
        {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {"f:a": {}, "f:old": {}}, "f:metadata": {"f:labels": labels, "f:annotations": annotations}}},
        {"manager": "controller", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {"f:own": {}}, "f:metadata": {"f:finalizers": {"v:\"example.com/hold\"": {}}}}},
    ]);
    metadata["name"] = "conf".into();
    metadata["namespace"] = "shop".into();
    metadata["uid"] = "u".into();
    metadata["resourceVersion"] = "7".into();
    live
}

#[test]
fn adopted_objects_lose_what_their_control_plane_has_left() {
    let repo = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: shop, labels: {keep: '1'}}\ndata: {a: b}\n---\n\
                apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: c, namespace: shop}\nspec:\n  \
                resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]\n";
    let labels = |mark: &str| json!({"gone": "1", "keep": "1", mark: "true"});
    let owner = json!([{"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "AppliedWork", "name": "w", "uid": "w"}]);
    let work = json!([{"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork", "name": "w", "uid": "w"}]);
    let of_work = |manager: &str, operation: &str| {
        let labels = json!({"gone": "1", "keep": "1"});
        let annotations = json!({"open-cluster-management.io/config-spec-hash": "h"});
        sent(
            manager,
            operation,
            json!({"labels": labels, "annotations": annotations, "ownerReferences": work}),
        )
    };
    let cases = [
        sent(
            "karmada-controller-manager",
            "Update",
            json!({"labels": labels("karmada.io/managed"),
            "annotations": {"resourcetemplate.karmada.io/managed-labels": "gone,keep"}}),
        ),
        sent("karmada-agent", "Update", json!({"labels": labels("work.karmada.io/permanent-id")})),
        sent(
            "kubeadmiral-controller-manager",
            "Update",
            json!({"labels": labels("kubeadmiral.io/managed"),
            "annotations": {"kubeadmiral.io/propagated-label-keys": "gone,keep"},
            "finalizers": ["controller.kubeadmiral.io/hold", "example.com/hold"]}),
        ),
        sent("controller-manager", "Update", json!({"labels": labels("kubefed.io/managed")})),
        sent(
            "work-api-agent",
            "Apply",
            json!({"labels": {"gone": "1", "keep": "1"}, "ownerReferences": owner,
            "annotations": {"kubernetes-fleet.io/spec-hash": "h"}}),
        ),
        sent(
            "work-api-agent",
            "Update",
            json!({"labels": {"gone": "1", "keep": "1"}, "ownerReferences": owner}),
        ),
        of_work("work-agent", "Apply"),
        of_work("work-agent-shop", "Apply"),
        of_work("work", "Update"),
        of_work("registration-operator", "Update"),
    ];
    for live in cases {
        let sandbox = Sandbox::new()
            .file("clusters.yaml", CLUSTERS)
            .file("conf.yaml", repo)
            .file(".live/m1/live.json", live.to_string());
        let run = |command: &str| sandbox.run(&format!("{command} --observed .live --cluster m1 -o json"));
        let json = run("apply --dry-run=client --adopt always").code(0).json();
        let action =
            json["actions"].as_array().unwrap().iter().find(|a| a["object"]["name"] == "conf").unwrap();
        let result = &action["result"];
        assert_eq!(action["action"], "adopt", "{live}");
        assert_eq!(
            result["data"],
            json!({"a": "b", "own": "y"}),
            "what another controller owns stays: {live}"
        );
        let mut labels: Vec<&str> =
            result["metadata"]["labels"].as_object().unwrap().keys().map(String::as_str).collect();
        labels.sort_unstable();
        assert_eq!(labels, ["applyset.kubernetes.io/part-of", "keep"], "{live}");
        for field in ["annotations", "ownerReferences"] {
            assert_eq!(result["metadata"].get(field), None, "{live}");
        }
        let finalizers = live["metadata"].get("finalizers").map(|_| json!(["example.com/hold"]));
        assert_eq!(result["metadata"].get("finalizers"), finalizers.as_ref());
        assert!(action["diffs"].to_string().contains("/data/old"), "the preview shows it: {action}");

        // The control plane may still run: its marks are no drift.
        let json = run("drift").code(1).json();
        let paths: Vec<&str> = json["actions"][0]["diffs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|diff| diff["path"].as_str().unwrap())
            .collect();
        assert_eq!(paths, ["/data/old", "/metadata/labels/gone"], "{live}");
    }
    // Another program of that name is no control plane.
    let other = sent("controller-manager", "Update", json!({"labels": {"gone": "1", "keep": "1"}}));
    let sandbox = Sandbox::new()
        .file("clusters.yaml", CLUSTERS)
        .file("conf.yaml", repo)
        .file(".live/m1/live.json", other.to_string());
    let json = sandbox
        .run("apply --dry-run=client --observed .live --cluster m1 --adopt always -o json")
        .code(0)
        .json();
    let action = json["actions"].as_array().unwrap().iter().find(|a| a["object"]["name"] == "conf").unwrap();
    assert_eq!(action["result"]["data"]["old"], "x");
}
