//! Whether an object that was applied to a member cluster is available there.
//!
//! Facts: absent numbers count as 0, but `spec.replicas` as 1, so that an object without generation and status
//! is up to date. Kinds that are not listed cannot be tracked.

use federate_kubernetes::{Object, ObjectRef};
use serde_json::Value;

/// Whether an object is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Availability {
    /// The object is available.
    Available,
    /// The object is not, or not yet, available.
    NotAvailableYet,
    /// The kind cannot be tracked.
    NotTrackable,
}

/// The verdict in neutral terms.
pub(super) fn neutral_health(live: &Object) -> federate_dialect::Health {
    match check_availability(live) {
        Availability::Available => federate_dialect::Health::healthy(),
        Availability::NotAvailableYet => federate_dialect::Health::unhealthy("it is not available yet"),
        Availability::NotTrackable => {
            federate_dialect::Health::unknown("the availability of this kind is not tracked")
        }
    }
}

/// Whether the availability of objects of this kind can be tracked.
pub(super) fn is_tracked(object: &ObjectRef) -> bool {
    let id = object.clone();
    check_availability(&Object { id, ..Object::from_manifest(Value::Null, "member") })
        != Availability::NotTrackable
}

/// The health of an object as it is in a member cluster.
pub(crate) fn check_availability(live: &Object) -> Availability {
    let available = match (live.id.api_version.as_str(), live.id.kind.as_str()) {
        ("apps/v1", "Deployment") => is_deployment_available(live),
        ("apps/v1", "StatefulSet") => is_stateful_set_available(live),
        ("apps/v1", "DaemonSet") => is_daemon_set_available(live),
        ("v1", "Service") => return check_service(live),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => is_crd_established(live),
        ("policy/v1", "PodDisruptionBudget") => is_disruption_budget_available(live),
        (api_version, kind) if is_data(api_version, kind) => true,
        _ => return Availability::NotTrackable,
    };
    available_if(available)
}

fn available_if(available: bool) -> Availability {
    if available { Availability::Available } else { Availability::NotAvailableYet }
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

fn read_number(live: &Object, path: &[&str]) -> i64 {
    live.value_at(path).and_then(Value::as_i64).unwrap_or(0)
}

fn status_number(live: &Object, key: &str) -> i64 {
    read_number(live, &["status", key])
}

fn desired_replicas(live: &Object) -> i64 {
    live.value_at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1)
}

/// Whether the status is about the current generation.
fn is_observed(live: &Object) -> bool {
    status_number(live, "observedGeneration") == read_number(live, &["metadata", "generation"])
}

fn is_deployment_available(live: &Object) -> bool {
    let wanted = desired_replicas(live);
    is_observed(live)
        && status_number(live, "availableReplicas") == wanted
        && status_number(live, "updatedReplicas") == wanted
        && status_number(live, "unavailableReplicas") == 0
}

fn is_stateful_set_available(live: &Object) -> bool {
    is_observed(live)
        && status_number(live, "availableReplicas") == desired_replicas(live)
        && status_number(live, "currentReplicas") == status_number(live, "updatedReplicas")
        && live.text_at(&["status", "currentRevision"]) == live.text_at(&["status", "updateRevision"])
}

fn is_daemon_set_available(live: &Object) -> bool {
    is_observed(live)
        && status_number(live, "numberAvailable") == status_number(live, "desiredNumberScheduled")
        && status_number(live, "currentNumberScheduled") == status_number(live, "updatedNumberScheduled")
}

fn is_non_empty_text(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

fn check_service(live: &Object) -> Availability {
    match live.text_at(&["spec", "type"]) {
        "" | "ClusterIP" | "NodePort" => available_if(
            live.value_at(&["spec", "clusterIPs"]).is_some_and(|list| is_non_empty_text(list.get(0))),
        ),
        "LoadBalancer" => {
            let ingress = live.value_at(&["status", "loadBalancer", "ingress"]).and_then(|list| list.get(0));
            available_if(ingress.is_some_and(|ingress| {
                is_non_empty_text(ingress.get("ip")) || is_non_empty_text(ingress.get("hostname"))
            }))
        }
        _ => Availability::NotTrackable,
    }
}

fn find_condition<'o>(live: &'o Object, kind: &str) -> Option<&'o Value> {
    let conditions = live.value_at(&["status", "conditions"])?.as_array()?;
    conditions.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
}

fn has_value(condition: Option<&Value>, key: &str, value: &str) -> bool {
    condition.and_then(|c| c.get(key)).and_then(Value::as_str) == Some(value)
}

fn is_crd_established(live: &Object) -> bool {
    ["Established", "NamesAccepted"]
        .iter()
        .all(|kind| has_value(find_condition(live, kind), "status", "True"))
}

/// A budget is available once its status has the condition, whether it allows disruptions or not.
fn is_disruption_budget_available(live: &Object) -> bool {
    let (allowed, reason) = if status_number(live, "disruptionsAllowed") > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let allowed_now = find_condition(live, "DisruptionAllowed");
    is_observed(live) && has_value(allowed_now, "status", allowed) && has_value(allowed_now, "reason", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(api_version: &str, kind: &str, body: Value) -> Availability {
        check_availability(&Object::from_path(api_version, kind, "n", body))
    }

    #[test]
    fn what_has_no_status_counts_as_observed() {
        assert_eq!(of("apps/v1", "DaemonSet", json!({})), Availability::Available);
        assert_eq!(of("apps/v1", "Deployment", json!({})), Availability::NotAvailableYet);
        assert_eq!(of("apps/v1", "Deployment", json!({"spec": {"replicas": 0}})), Availability::Available);
        let behind = json!({"metadata": {"generation": 2}, "spec": {"replicas": 0}});
        assert_eq!(of("apps/v1", "Deployment", behind), Availability::NotAvailableYet);
    }

    #[test]
    fn services_need_an_address() {
        let service = |spec: Value| of("v1", "Service", json!({"spec": spec}));
        assert_eq!(service(json!({"clusterIPs": ["None"]})), Availability::Available);
        assert_eq!(service(json!({"clusterIP": "10.0.0.1"})), Availability::NotAvailableYet);
        assert_eq!(service(json!({"type": "ExternalName"})), Availability::NotTrackable);
        assert_eq!(service(json!({"type": "LoadBalancer"})), Availability::NotAvailableYet);
    }

    #[test]
    fn a_budget_that_allows_nothing_is_available_too() {
        let budget = |allowed: i64, status: &str, reason: &str| {
            let condition = json!({"type": "DisruptionAllowed", "status": status, "reason": reason});
            let status = json!({"disruptionsAllowed": allowed, "conditions": [condition]});
            of("policy/v1", "PodDisruptionBudget", json!({"status": status}))
        };
        assert_eq!(budget(0, "False", "InsufficientPods"), Availability::Available);
        assert_eq!(budget(1, "True", "SufficientPods"), Availability::Available);
        assert_eq!(budget(1, "False", "InsufficientPods"), Availability::NotAvailableYet);
        assert_eq!(of("policy/v1beta1", "PodDisruptionBudget", json!({})), Availability::NotTrackable);
    }
}
