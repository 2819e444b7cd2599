//! The worked examples of each control plane's documents, switched to another control plane without a changed `ReplicaSet`.

use serde_json::{Value, json};

use crate::sandbox::NAMESPACE;

use crate::migrate::{OldPlane, SECRET_VALUE, Switch, has_kubectl, read_example};

/// A Secret in both clusters, without its template.
const TOKEN: &str = "apiVersion: types.kubefed.io/v1beta1
kind: FederatedSecret
metadata: {name: token, namespace: shop}
spec:
  placement: {clusters: [{name: cluster1}, {name: cluster2}]}
";

const STEPS: [(&str, Option<&str>); 6] = [
    ("record", Some("register")),
    ("register", Some("load")),
    ("load", Some("stop")),
    ("stop", Some("stop")),
    ("take-over", Some("clean")),
    ("clean", None),
];

/// Files of the examples, with their objects in the namespace `shop`.
fn read_examples(paths: &[&str], namespace: &str) -> Vec<(String, String)> {
    let files = paths.iter().map(|path| {
        let text = read_example(path);
        let text = text.replace(&format!("namespace: {namespace}\n"), "namespace: shop\n");
        ((*path).to_owned(), text.replace(&format!("name: {namespace}\n"), "name: shop\n"))
    });
    files.collect()
}

fn kubefed() -> OldPlane {
    OldPlane {
        manager: "controller-manager",
        marks: json!({"labels": {"kubefed.io/managed": "true"}}),
        controllers: vec![("old-host", "kube-federation-system", "kubefed-controller-manager")],
    }
}

fn kubeadmiral() -> OldPlane {
    OldPlane {
        manager: "kubeadmiral-controller-manager",
        marks: json!({"labels": {"kubeadmiral.io/managed": "true"}, "annotations": {
            "kubeadmiral.io/source-generation": "1", "kubeadmiral.io/propagated-label-keys": "app",
            "kubeadmiral.io/propagated-annotation-keys": ""}}),
        controllers: vec![("old-host", "kubeadmiral-system", "kubeadmiral-controller-manager")],
    }
}

/// Follows every step of the runbook of a migration. What runs must be the same at the end of each.
fn follow_runbook(switch: &mut Switch, options: &str, steps: &[(&str, Option<&str>)]) -> String {
    let runbook = switch.migrate(options);
    let running = switch.record_settled();
    let generations = switch.generations();
    for (step, next) in steps {
        switch.follow_to(&runbook, step, *next);
        assert_eq!(switch.record_settled(), running, "after {step}");
        if *step == "stop" {
            assert_eq!(switch.generations(), generations, "nothing is sent before the step `take-over`");
        }
    }
    runbook.text
}

#[test]
fn the_deployment_of_kubefed_moves_to_karmada() {
    if !has_kubectl() {
        return;
    }
    let mut files = read_examples(
        &[
            "kubefed/clusters/cluster1.yaml",
            "kubefed/clusters/cluster2.yaml",
            "kubefed/test-namespace/namespace.yaml",
            "kubefed/test-namespace/deployment.yaml",
            "kubefed/test-namespace/configmap.yaml",
        ],
        "test-namespace",
    );
    files
        .push(("token.yaml".to_owned(), format!("{TOKEN}  template: {{data: {{token: {SECRET_VALUE}}}}}\n")));
    let mut switch = Switch::start(&files, &["cluster1", "cluster2"], kubefed(), "karmada");
    follow_runbook(&mut switch, "", &STEPS);
    let labels = switch.metadata("cluster2", "/apis/apps/v1/namespaces/shop/deployments/test-deployment");
    assert_eq!(labels["labels"]["karmada.io/managed"], "true", "{labels}");
    assert_eq!(labels["labels"].get("kubefed.io/managed"), None, "{labels}");
}

#[test]
fn the_way_back_pauses_karmada_before_kubefed_starts() {
    if !has_kubectl() {
        return;
    }
    let files = read_examples(
        &[
            "kubefed/clusters/cluster1.yaml",
            "kubefed/test-namespace/namespace.yaml",
            "kubefed/test-namespace/configmap.yaml",
        ],
        "test-namespace",
    );
    let mut switch = Switch::start(&files, &["cluster1"], kubefed(), "karmada");
    let runbook = switch.migrate("");
    for (step, _) in &STEPS[..5] {
        switch.follow(&runbook, step);
    }
    switch.follow(&runbook, "way back");
    assert_eq!(switch.count_replicas("old-host", "kube-federation-system", "kubefed-controller-manager"), 1);
}

#[test]
fn the_preference_of_kubefed_moves_to_karmada_frozen() {
    if !has_kubectl() {
        return;
    }
    let files = read_examples(
        &[
            "kubefed/clusters/a.yaml",
            "kubefed/clusters/b.yaml",
            "kubefed/test-ns/namespace.yaml",
            "kubefed/test-ns/deployment.yaml",
        ],
        "test-ns",
    );
    let mut switch = Switch::start(&files, &["a", "b"], kubefed(), "karmada");
    follow_runbook(&mut switch, "--mode freeze", &STEPS);
}

#[test]
fn the_replica_set_of_federation_v1_moves_to_karmada() {
    if !has_kubectl() {
        return;
    }
    let mut files = read_examples(
        &[
            "kubefed/clusters/cluster1.yaml",
            "kubefed/clusters/cluster2.yaml",
            "kubefed/legacy/replicaset.yaml",
        ],
        "test-namespace",
    );
    files.push(("namespace.yaml".to_owned(), NAMESPACE.to_owned()));
    let plane = OldPlane {
        manager: "federation-controller-manager",
        marks: Value::Null,
        controllers: vec![("old-host", "federation-system", "federation-controller-manager")],
    };
    let mut switch = Switch::start(&files, &["cluster1", "cluster2"], plane, "karmada");
    // Federation v1 leaves no mark on objects, so that nothing is left to do for the check.
    let mut steps = STEPS;
    steps[4].1 = None;
    let runbook = follow_runbook(&mut switch, "", &steps);
    assert!(runbook.starts_with("# From Federation v1 to Karmada\n"), "{runbook}");
    let set = switch.metadata("cluster1", "/apis/apps/v1/namespaces/shop/replicasets/legacy");
    let annotations = set["annotations"].to_string();
    assert!(!annotations.contains("federation."), "{annotations}");
}

#[test]
fn what_kubeadmiral_has_adopted_moves_to_karmada() {
    if !has_kubectl() {
        return;
    }
    let files = read_examples(
        &[
            "kubeadmiral/clusters/kubeadmiral-member-1.yaml",
            "kubeadmiral/clusters/kubeadmiral-member-2.yaml",
            "kubeadmiral/my-nginx/propagationPolicy.yaml",
            "kubeadmiral/my-nginx/resources.yaml",
            "kubeadmiral/storefront/namespace.yaml",
        ],
        "default",
    );
    let members = ["kubeadmiral-member-1", "kubeadmiral-member-2"];
    let mut switch = Switch::start(&files, &members, kubeadmiral(), "karmada");
    follow_runbook(&mut switch, "", &STEPS);
}

#[test]
fn the_storefront_of_kubeadmiral_moves_to_karmada_frozen() {
    if !has_kubectl() {
        return;
    }
    let files = read_examples(
        &[
            "kubeadmiral/clusters/kubeadmiral-member-1.yaml",
            "kubeadmiral/clusters/kubeadmiral-member-2.yaml",
            "kubeadmiral/clusters/kubeadmiral-member-3.yaml",
            "kubeadmiral/storefront/namespace.yaml",
            "kubeadmiral/storefront/policies.yaml",
            "kubeadmiral/storefront/storefront.yaml",
        ],
        "shop",
    );
    let members = ["kubeadmiral-member-1", "kubeadmiral-member-2", "kubeadmiral-member-3"];
    let mut switch = Switch::start(&files, &members, kubeadmiral(), "karmada");
    follow_runbook(&mut switch, "--mode freeze", &STEPS);
}

#[test]
fn the_namespaces_of_azure_fleet_move_to_karmada() {
    if !has_kubectl() {
        return;
    }
    let mut files = read_examples(
        &[
            "kubefleet/fleet/cluster1.yaml",
            "kubefleet/fleet/cluster2.yaml",
            "kubefleet/fleet/cluster3.yaml",
            "kubefleet/placements/crp-1.yaml",
            "kubefleet/apps/prod-deployment.yaml",
            "kubefleet/placements/crp-2.yaml",
            "kubefleet/apps/test-deployment.yaml",
        ],
        "prod-deployment",
    );
    for (_, text) in &mut files {
        *text = text.replace("namespace: test-deployment\n", "namespace: shop-b\n");
        *text = text.replace("name: test-deployment\n", "name: shop-b\n");
    }
    let members = ["cluster1", "cluster2", "cluster3"];
    let agents = members.map(|member| (member, "fleet-system", "member-agent"));
    let plane = OldPlane {
        manager: "work-api-agent",
        marks: json!({"annotations": {"kubernetes-fleet.io/spec-hash": "0",
            "kubernetes-fleet.io/last-applied-configuration": "{}"}}),
        controllers: [vec![("old-host", "fleet-system", "hub-agent")], Vec::from(agents)].concat(),
    };
    let mut switch = Switch::start(&files, &members, plane, "karmada");
    follow_runbook(&mut switch, "", &STEPS);
}

#[test]
fn what_kubefed_runs_goes_on_without_a_control_plane() {
    if !has_kubectl() {
        return;
    }
    let files = read_examples(
        &[
            "kubefed/clusters/cluster1.yaml",
            "kubefed/clusters/cluster2.yaml",
            "kubefed/test-namespace/namespace.yaml",
            "kubefed/test-namespace/deployment.yaml",
            "kubefed/test-namespace/configmap.yaml",
        ],
        "test-namespace",
    );
    let mut switch = Switch::start(&files, &["cluster1", "cluster2"], kubefed(), "plain");
    let runbook = switch.migrate("");
    let running = switch.record_settled();
    // federate removes the marks of the old control plane when it takes over.
    let steps = [("record", Some("stop")), ("stop", Some("stop")), ("take-over", None), ("clean", None)];
    for (step, next) in steps {
        switch.follow_to(&runbook, step, next);
        assert_eq!(switch.record_settled(), running, "after {step}");
    }
}

#[test]
fn the_nginx_of_karmada_moves_to_azure_fleet() {
    if !has_kubectl() {
        return;
    }
    let mut files = read_examples(
        &["karmada-nginx/clusters.yaml", "karmada-nginx/policies.yaml", "karmada-nginx/nginx.yaml"],
        "default",
    );
    for (_, text) in &mut files {
        for name in ["nginx", "nginx-propagation"] {
            let named = format!("metadata:\n  name: {name}\n");
            *text = text.replace(&named, &format!("{named}  namespace: shop\n"));
        }
    }
    files.push(("namespace.yaml".to_owned(), NAMESPACE.to_owned()));
    let plane = OldPlane {
        manager: "karmada-controller-manager",
        marks: json!({"labels": {"karmada.io/managed": "true", "work.karmada.io/permanent-id": "w"},
            "annotations": {"work.karmada.io/name": "nginx", "work.karmada.io/namespace": "karmada-es",
                "resourcetemplate.karmada.io/managed-labels": "app"}}),
        controllers: ["karmada-scheduler", "karmada-controller-manager"]
            .map(|name| ("old-host", "karmada-system", name))
            .into(),
    };
    let mut switch = Switch::start(&files, &["member1", "member2"], plane, "kubefleet");
    switch.join_kubefleet();
    follow_runbook(&mut switch, "", &STEPS);
    let nginx = switch.metadata("member1", "/apis/apps/v1/namespaces/shop/deployments/nginx");
    assert!(!nginx["labels"].to_string().contains("karmada.io"), "{nginx:#}");
    assert!(!nginx["annotations"].to_string().contains("karmada.io"), "{nginx:#}");
}
