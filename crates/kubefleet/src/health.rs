//! Whether an object that was applied to a member cluster is available there.
//!
//! Facts: absent numbers count as 0, but `spec.replicas` as 1, so that an object without generation and status
//! is up to date. Kinds that are not listed cannot be tracked.

use federate_kubernetes::{Object, ObjectRef};
use serde_json::Value;

/// Whether an object is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    /// The object is available.
    Available,
    /// The object is not, or not yet, available.
    NotAvailableYet,
    /// The kind cannot be tracked.
    NotTrackable,
}

/// The verdict in neutral terms.
pub(super) fn neutral_health(live: &Object) -> federate_dialect::Health {
    match health(live) {
        Health::Available => federate_dialect::Health::healthy(),
        Health::NotAvailableYet => federate_dialect::Health::unhealthy("it is not available yet"),
        Health::NotTrackable => {
            federate_dialect::Health::unknown("the availability of this kind is not tracked")
        }
    }
}

/// Whether the availability of objects of this kind can be tracked.
pub(super) fn is_tracked(object: &ObjectRef) -> bool {
    let id = object.clone();
    health(&Object { id, ..Object::of(Value::Null, "member") }) != Health::NotTrackable
}

/// The health of an object as it is in a member cluster.
pub(crate) fn health(live: &Object) -> Health {
    let available = match (live.id.api_version.as_str(), live.id.kind.as_str()) {
        ("apps/v1", "Deployment") => deployment(live),
        ("apps/v1", "StatefulSet") => stateful_set(live),
        ("apps/v1", "DaemonSet") => daemon_set(live),
        ("v1", "Service") => return service(live),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => definition(live),
        ("policy/v1", "PodDisruptionBudget") => disruption_budget(live),
        (api_version, kind) if is_data(api_version, kind) => true,
        _ => return Health::NotTrackable,
    };
    available_if(available)
}

fn available_if(available: bool) -> Health {
    if available { Health::Available } else { Health::NotAvailableYet }
}

/// Whether objects of a kind are available as soon as they are there.
fn is_data(api_version: &str, kind: &str) -> bool {
    match api_version {
        "v1" => matches!(
            kind,
            "Namespace" | "Secret" | "ConfigMap" | "ServiceAccount" | "LimitRange" | "ResourceQuota"
        ),
        "apps/v1" => kind == "ControllerRevision",
        "networking.k8s.io/v1" => matches!(kind, "NetworkPolicy" | "IngressClass"),
        "rbac.authorization.k8s.io/v1" => {
            matches!(kind, "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding")
        }
        "scheduling.k8s.io/v1" => kind == "PriorityClass",
        "storage.k8s.io/v1" => {
            matches!(kind, "CSIDriver" | "CSINode" | "StorageClass" | "CSIStorageCapacity")
        }
        _ => false,
    }
}

fn number(live: &Object, path: &[&str]) -> i64 {
    live.at(path).and_then(Value::as_i64).unwrap_or(0)
}

fn status(live: &Object, key: &str) -> i64 {
    number(live, &["status", key])
}

fn wanted_replicas(live: &Object) -> i64 {
    live.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1)
}

/// Whether the status is about the current generation.
fn is_observed(live: &Object) -> bool {
    status(live, "observedGeneration") == number(live, &["metadata", "generation"])
}

fn deployment(live: &Object) -> bool {
    let wanted = wanted_replicas(live);
    is_observed(live)
        && status(live, "availableReplicas") == wanted
        && status(live, "updatedReplicas") == wanted
        && status(live, "unavailableReplicas") == 0
}

fn stateful_set(live: &Object) -> bool {
    let revision = |key: &str| live.text(&["status", key]);
    is_observed(live)
        && status(live, "availableReplicas") == wanted_replicas(live)
        && status(live, "currentReplicas") == status(live, "updatedReplicas")
        && revision("currentRevision") == revision("updateRevision")
}

fn daemon_set(live: &Object) -> bool {
    is_observed(live)
        && status(live, "numberAvailable") == status(live, "desiredNumberScheduled")
        && status(live, "currentNumberScheduled") == status(live, "updatedNumberScheduled")
}

fn service(live: &Object) -> Health {
    let first = |path: &[&str]| live.at(path).and_then(|list| list.get(0));
    match live.text(&["spec", "type"]) {
        "" | "ClusterIP" | "NodePort" => {
            let address = first(&["spec", "clusterIPs"]).and_then(Value::as_str);
            available_if(address.is_some_and(|address| !address.is_empty()))
        }
        "LoadBalancer" => {
            let ingress = first(&["status", "loadBalancer", "ingress"]);
            let has = |key: &str| {
                let text = ingress.and_then(|ingress| ingress.get(key)).and_then(Value::as_str);
                text.is_some_and(|text| !text.is_empty())
            };
            available_if(has("ip") || has("hostname"))
        }
        _ => Health::NotTrackable,
    }
}

fn condition<'o>(live: &'o Object, kind: &str) -> Option<&'o Value> {
    let conditions = live.at(&["status", "conditions"])?.as_array()?;
    conditions.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
}

fn is(condition: Option<&Value>, key: &str, value: &str) -> bool {
    condition.and_then(|c| c.get(key)).and_then(Value::as_str) == Some(value)
}

fn definition(live: &Object) -> bool {
    ["Established", "NamesAccepted"].iter().all(|kind| is(condition(live, kind), "status", "True"))
}

/// A budget is available once its status has the condition, whether it allows disruptions or not.
fn disruption_budget(live: &Object) -> bool {
    let (allowed, reason) = if status(live, "disruptionsAllowed") > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let allowed_now = condition(live, "DisruptionAllowed");
    is_observed(live) && is(allowed_now, "status", allowed) && is(allowed_now, "reason", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(api_version: &str, kind: &str, body: Value) -> Health {
        health(&Object::named(api_version, kind, "n", body))
    }

    #[test]
    fn what_has_no_status_counts_as_observed() {
        assert_eq!(of("apps/v1", "DaemonSet", json!({})), Health::Available);
        assert_eq!(of("apps/v1", "Deployment", json!({})), Health::NotAvailableYet);
        assert_eq!(of("apps/v1", "Deployment", json!({"spec": {"replicas": 0}})), Health::Available);
        let behind = json!({"metadata": {"generation": 2}, "spec": {"replicas": 0}});
        assert_eq!(of("apps/v1", "Deployment", behind), Health::NotAvailableYet);
    }

    #[test]
    fn services_need_an_address() {
        let service = |spec: Value| of("v1", "Service", json!({"spec": spec}));
        assert_eq!(service(json!({"clusterIPs": ["None"]})), Health::Available);
        assert_eq!(service(json!({"clusterIP": "10.0.0.1"})), Health::NotAvailableYet);
        assert_eq!(service(json!({"type": "ExternalName"})), Health::NotTrackable);
        assert_eq!(service(json!({"type": "LoadBalancer"})), Health::NotAvailableYet);
    }

    #[test]
    fn a_budget_that_allows_nothing_is_available_too() {
        let budget = |allowed: i64, status: &str, reason: &str| {
            let condition = json!({"type": "DisruptionAllowed", "status": status, "reason": reason});
            let status = json!({"disruptionsAllowed": allowed, "conditions": [condition]});
            of("policy/v1", "PodDisruptionBudget", json!({"status": status}))
        };
        assert_eq!(budget(0, "False", "InsufficientPods"), Health::Available);
        assert_eq!(budget(1, "True", "SufficientPods"), Health::Available);
        assert_eq!(budget(1, "False", "InsufficientPods"), Health::NotAvailableYet);
        assert_eq!(of("policy/v1beta1", "PodDisruptionBudget", json!({})), Health::NotTrackable);
    }
}
