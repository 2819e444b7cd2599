//! Invalid objects, and where each is refused.

use serde_json::{Value, json};

use super::*;
use federate_kubernetes::Severity;

fn object(kind: &str, name: &str, body: Value) -> Object {
    Object::from_path("x.kubefed.io/v1", kind, &format!("shop/{name}"), body)
}

/// The severity and the pointer of each finding about an object.
fn said(kind: &str, name: &str, role: Role, body: &Value) -> Vec<(Severity, String)> {
    let findings = check_object(&object(kind, name, body.clone()), role);
    findings.into_iter().map(|f| (f.severity, f.pointer)).collect()
}

#[test]
fn federated_objects() {
    use Severity::{Error, Warning};
    let rows: &[(Value, &[(Severity, &str)])] = &[
        (json!({}), &[]),
        (json!({"spec": {"template": {}, "placement": {"clusters": null, "clusterSelector": {}}}}), &[]),
        (json!({"spec": {"placement": {"clusters": [{}]}}}), &[(Error, "/spec/placement/clusters/0")]),
        (json!({"spec": {"placement": {"clusters": ["a"]}}}), &[(Error, "/spec/placement/clusters/0")]),
        (
            json!({"spec": {"placement": {"clusterSelector": {"matchExpressions": [{"key": "a"}]}}}}),
            &[(Error, "/spec/placement/clusterSelector/matchExpressions/0")],
        ),
        (json!({"spec": {"template": []}}), &[(Error, "/spec/template")]),
        (json!({"spec": {"overides": []}}), &[(Warning, "/spec/overides")]),
        (
            json!({"spec": {"overrides": [{"clusterName": "a", "clusterOverrides": [{"value": 1}]}]}}),
            &[(Error, "/spec/overrides/0/clusterOverrides/0")],
        ),
        (
            json!({"spec": {"overrides": [{"clusterName": "a", "clusterOverrides": [{"path": "/x", "op": "test"}]}]}}),
            &[(Warning, "/spec/overrides/0/clusterOverrides/0/op")],
        ),
        (
            json!({"spec": {"overrides": [{"clusterName": "a", "clusterOverrides": [{"path": "/x"}]}]}}),
            &[(Warning, "/spec/overrides/0/clusterOverrides/0")],
        ),
        (
            json!({"spec": {"overrides": [{"clusterName": "a", "clusterOverrides": [{"path": "/x", "op": "remove"}]}]}}),
            &[],
        ),
    ];
    for (body, want) in rows {
        let want: Vec<(Severity, String)> = want.iter().map(|(s, p)| (*s, (*p).to_owned())).collect();
        assert_eq!(said("FederatedWidget", "a", Role::Bundle, body), want, "{body}");
    }
}

#[test]
fn type_configs() {
    let config = |target: Value, group: &str| {
        json!({"spec": {"targetType": target, "propagation": "Enabled", "federatedType":
            {"group": group, "version": "v1beta1", "kind": "FederatedDeployment", "scope": "Namespaced"}}})
    };
    let target =
        |group: &str| json!({"group": group, "version": "v1", "kind": "Deployment", "scope": "Namespaced"});
    let of = |name: &str, body: &Value| -> Vec<String> {
        said("FederatedTypeConfig", name, Role::Other, body).into_iter().map(|(_, pointer)| pointer).collect()
    };
    let types = "types.kubefed.io";
    assert!(of("deployments.apps", &config(target(""), types)).is_empty());
    assert!(of("deployments.apps", &config(target("apps"), types)).is_empty());
    assert_eq!(of("deployments", &config(target("apps"), types)), ["/metadata/name"]);
    assert_eq!(of("deployments.apps", &config(target(""), "types")), ["/spec/federatedType/group"]);
    assert_eq!(of("deployments.apps", &config(json!({}), types)).len(), 3);
}

#[test]
fn preferences_records_and_clusters() {
    let pointers = |kind: &str, role: Role, body: Value| -> Vec<String> {
        said(kind, "a", role, &body).into_iter().map(|(_, pointer)| pointer).collect()
    };
    let preference =
        |spec: Value| pointers("ReplicaSchedulingPreference", Role::Placement, json!({"spec": spec}));
    let valid = json!({"targetKind": "FederatedDeployment", "totalReplicas": 3,
        "clusters": {"*": {"weight": -1, "minReplicas": 5, "maxReplicas": 2}}});
    // The API server accepts bounds that exclude each other; a warning says that they do.
    assert_eq!(preference(valid), ["/spec/clusters/*/minReplicas"]);
    assert_eq!(preference(json!({"totalReplicas": "3"})), ["/spec/totalReplicas", "/spec"]);
    assert_eq!(preference(json!({"targetKind": "x", "totalReplicas": 1_i64 << 40})), ["/spec/totalReplicas"]);
    assert_eq!(pointers("Domain", Role::Other, json!({"spec": {"domain": "x"}})), ["/spec", ""]);
    assert_eq!(pointers("ServiceDNSRecord", Role::Placement, json!({"spec": {}})), ["/spec"]);
    let status = |status: Value| pointers("KubeFedCluster", Role::Inventory, json!({"status": status}));
    assert!(status(json!({"conditions": [{"type": "Ready", "status": "True"}], "region": "a"})).is_empty());
    assert_eq!(status(json!({"conditions": {}, "zones": "a"})), ["/status/conditions", "/status/zones"]);
}
