//! Selections over small repos.

use serde_json::{Value, json};

use super::*;
use crate::version::KubeFleetBehaviour;
use federate_repo::{ClaimedObject, Repo, Role, Template};

fn named(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Object {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    Object::from_manifest(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}), "a.yaml")
}

fn repo() -> Repo {
    let templates = [
        named("v1", "Namespace", None, "shop"),
        named("v1", "Namespace", None, "kube-system"),
        named("v1", "ConfigMap", Some("shop"), "settings"),
        named("v1", "ConfigMap", Some("shop"), "kube-root-ca.crt"),
        named("v1", "Pod", Some("shop"), "debug"),
        named("v1", "Event", Some("shop"), "happened"),
        named("v1", "Service", Some("shop"), "web"),
        named("v1", "Endpoints", Some("shop"), "web"),
        named("v1", "Endpoints", Some("shop"), "outside"),
        named("apps/v1", "Deployment", Some("shop"), "web"),
        named("rbac.authorization.k8s.io/v1", "ClusterRole", None, "reader"),
        named("example.com/v1", "Widget", Some("other"), "w"),
    ];
    let mut envelope =
        named("placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", Some("shop"), "envelope");
    envelope.body["data"] = json!({});
    let claimed = |object| ClaimedObject { dialect: "kubefleet", role: Role::Other, object };
    let template = |object| Template::new(object);
    Repo {
        templates: templates.into_iter().map(template).collect(),
        claimed: vec![
            claimed(envelope),
            claimed(named("cluster.kubernetes-fleet.io/v1", "MemberCluster", None, "m")),
        ],
        ..Repo::default()
    }
}

fn selected(namespace: Option<&str>, selectors: &Value) -> Result<Vec<String>, FailedSelector> {
    let kind = if namespace.is_some() { "ResourcePlacement" } else { "ClusterResourcePlacement" };
    let mut placement = named("placement.kubernetes-fleet.io/v1beta1", kind, namespace, "p");
    placement.body["spec"] = json!({"resourceSelectors": selectors});
    let repo = repo();
    let selected = select_objects(&HubIndex::new(&repo, KubeFleetBehaviour::for_newest()), &placement)?;
    Ok(selected.iter().map(|one| one.object().id.to_string()).collect())
}

fn failure(namespace: Option<&str>, selectors: &Value) -> (usize, &'static str) {
    let failure = selected(namespace, selectors).unwrap_err();
    (failure.selector, failure.reason.name())
}

fn of(group: &str, kind: &str) -> Value {
    json!({"group": group, "version": "v1", "kind": kind})
}

fn namespace(name: &str, scope: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": "Namespace", "name": name, "selectionScope": scope})
}

#[test]
fn a_namespace_brings_its_content_but_not_what_every_cluster_makes() {
    let all = selected(None, &json!([namespace("shop", "NamespaceWithResources")])).unwrap();
    let want = [
        "Namespace shop",
        "ConfigMap shop/settings",
        "Service shop/web",
        "Deployment shop/web",
        "Endpoints shop/outside",
        "ResourceEnvelope shop/envelope",
    ];
    assert_eq!(all, want);
    assert_eq!(selected(None, &json!([namespace("shop", "NamespaceOnly")])).unwrap(), ["Namespace shop"]);
    assert!(selected(None, &json!([namespace("gone", "NamespaceWithResources")])).unwrap().is_empty());
}

#[test]
fn other_selectors_look_into_the_namespace_that_asks_for_it() {
    let inside = namespace("shop", "NamespaceWithResourceSelectors");
    let selectors = json!([of("apps", "Deployment"), of("", "Pod"), inside]);
    assert_eq!(selected(None, &selectors).unwrap(), ["Namespace shop", "Deployment shop/web"]);
    let inside = namespace("gone", "NamespaceWithResourceSelectors");
    assert_eq!(failure(None, &json!([of("nope.io", "Nope"), inside])), (1, "NamespaceNotFound"));
    let inside = namespace("kube-system", "NamespaceWithResourceSelectors");
    assert_eq!(failure(None, &json!([inside])), (0, "NamespaceNotFound"));
    let all = json!({"kind": "Namespace", "version": "v1", "selectionScope": "NamespaceOnly"});
    assert_eq!(selected(None, &json!([all])).unwrap(), ["Namespace kube-system", "Namespace shop"]);
}

#[test]
fn a_placement_of_a_namespace_selects_what_is_in_it() {
    assert_eq!(selected(Some("shop"), &json!([of("", "Service")])).unwrap(), ["Service shop/web"]);
    assert_eq!(selected(Some("shop"), &json!([of("", "Event")])).unwrap(), ["Event shop/happened"]);
    assert!(selected(Some("shop"), &json!([of("example.com", "Widget")])).unwrap().is_empty());
    for kind in [of("", "Namespace"), of("rbac.authorization.k8s.io", "ClusterRole")] {
        let reason = failure(Some("shop"), &json!([of("", "Node"), kind]));
        assert_eq!(reason, (1, "ClusterScopedResourceInNamespacedPlacement"));
    }
}

#[test]
fn one_bad_selector_spoils_all() {
    let role = of("rbac.authorization.k8s.io", "ClusterRole");
    for (bad, reason) in [
        (of("nope.io", "Nope"), "UnknownKind"),
        (of("apps", "Nope"), "UnknownKind"),
        (of("apps", "Deployment"), "NamespacedResourceInClusterPlacement"),
        (namespace("kube-system", "NamespaceWithResources"), "NamespaceNotAllowed"),
        (of("", "Namespace"), "NamespaceNotAllowed"),
        (role.clone(), "DuplicateResource"),
        (
            json!({"kind": "Namespace", "labelSelector": {"matchLabels": {"a b": "c"}}}),
            "InvalidLabelSelector",
        ),
    ] {
        assert_eq!(failure(None, &json!([role, bad])), (1, reason));
    }
    // A custom group of the repo may have kinds that the repo does not use.
    assert_eq!(selected(None, &json!([role, of("example.com", "Gadget")])).unwrap(), ["ClusterRole reader"]);
}

#[test]
fn releases_differ_in_what_leaves_the_hub() {
    let mut set = named("apps/v1", "ControllerRevision", Some("shop"), "owned");
    set.body["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet"}]);
    let claim = named("v1", "PersistentVolumeClaim", Some("shop"), "data");
    let objects = [named("v1", "Namespace", None, "shop"), claim, set];
    let template = |object| Template::new(object);
    let repo = Repo { templates: objects.into_iter().map(template).collect(), ..Repo::default() };
    let mut placement = named("placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacement", None, "p");
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
    placement.body["spec"] = json!({"resourceSelectors": [selector]});
    for (release, kinds) in [
        ("0.1.0", &["Namespace", "PersistentVolumeClaim", "ControllerRevision"][..]),
        ("0.1.1", &["Namespace", "PersistentVolumeClaim"]),
        ("0.1.2", &["Namespace"]),
        ("0.2", &["Namespace", "PersistentVolumeClaim"]),
        ("main", &["Namespace", "PersistentVolumeClaim"]),
    ] {
        let behaviour = KubeFleetBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
        let hub = HubIndex::new(&repo, behaviour);
        let selected = select_objects(&hub, &placement).unwrap();
        let found: Vec<&str> = selected.iter().map(|one| one.object().id.kind.as_str()).collect();
        assert_eq!(found, kinds, "{release}");
    }
}

#[test]
fn update_runs_in_a_selected_namespace_are_propagated_before_main() {
    let mut repo = repo();
    for kind in ["StagedUpdateRun", "StagedUpdateStrategy", "ClusterStagedUpdateStrategy"] {
        let namespace = (!kind.starts_with("Cluster")).then_some("shop");
        let object = named("placement.kubernetes-fleet.io/v1beta1", kind, namespace, "u");
        repo.claimed.push(ClaimedObject { dialect: "kubefleet", role: Role::Other, object });
    }
    let mut placement = named("placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacement", None, "p");
    placement.body["spec"] = json!({"resourceSelectors": [namespace("shop", "NamespaceWithResources")]});
    let runs = |release: &str| {
        let behaviour = KubeFleetBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
        let selected = select_objects(&HubIndex::new(&repo, behaviour), &placement).unwrap();
        let kinds = selected.iter().map(|one| one.object().id.kind.clone());
        kinds.filter(|kind| kind.contains("StagedUpdate")).collect::<Vec<_>>()
    };
    let mut sent = runs("0.3");
    sent.sort();
    assert_eq!(sent, ["StagedUpdateRun", "StagedUpdateStrategy"]);
    assert!(runs("azure").is_empty());
}
