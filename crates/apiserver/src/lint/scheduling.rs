//! Where pods are scheduled, as people get it wrong: tolerations, affinity, spread.
//!
//! Facts: the validation of Kubernetes 1.36.

use serde_json::Value;

use federate_kubernetes::schema::Cursor;

use super::pods::Pods;

const OF_LABELS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
const OF_NODES: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// Adds the problems of the spec of a pod.
pub(super) fn problems(found: &mut Pods, spec: &Cursor<'_>) {
    for toleration in spec.field("tolerations").items() {
        let operator = toleration.field("operator");
        found.one_of(&operator, &["Equal", "Exists", "Lt", "Gt"]);
        found.one_of(&toleration.field("effect"), &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        let value = toleration.field("value");
        if operator.text() == "Exists" && !value.text().is_empty() {
            let help = "remove the value, or use the operator `Equal`";
            found.refuse(&value, "must be empty with the operator `Exists`", Some(help.to_owned()));
        }
    }
    for constraint in spec.field("topologySpreadConstraints").items() {
        found.one_of(&constraint.field("whenUnsatisfiable"), &["DoNotSchedule", "ScheduleAnyway"]);
        check_expressions(found, &constraint.field("labelSelector"), &OF_LABELS);
    }
    let affinity = spec.field("affinity");
    check_node_affinity(found, &affinity.field("nodeAffinity"));
    for pods in ["podAffinity", "podAntiAffinity"].map(|key| affinity.field(key)) {
        let preferred = pods.field(PREFERRED);
        let terms = preferred.items().map(|term| term.field("podAffinityTerm"));
        for term in pods.field(REQUIRED).items().chain(terms) {
            check_expressions(found, &term.field("labelSelector"), &OF_LABELS);
        }
    }
}

/// Adds the problems of the label selectors that an object has outside of its pods.
pub(super) fn selector_problems(found: &mut Pods, kind: &str, object: &Value) {
    let body = Cursor::new(object);
    let spec = body.field("spec");
    match kind {
        "Deployment"
        | "StatefulSet"
        | "DaemonSet"
        | "ReplicaSet"
        | "PodDisruptionBudget"
        | "PersistentVolumeClaim" => check_expressions(found, &spec.field("selector"), &OF_LABELS),
        "NetworkPolicy" => {
            check_expressions(found, &spec.field("podSelector"), &OF_LABELS);
            for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
                for peer in spec.field(rules).items().flat_map(|rule| rule.field(peers).items()) {
                    check_expressions(found, &peer.field("podSelector"), &OF_LABELS);
                    check_expressions(found, &peer.field("namespaceSelector"), &OF_LABELS);
                }
            }
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            for webhook in body.field("webhooks").items() {
                check_expressions(found, &webhook.field("objectSelector"), &OF_LABELS);
                check_expressions(found, &webhook.field("namespaceSelector"), &OF_LABELS);
            }
        }
        "ClusterRole" => {
            for selector in body.field("aggregationRule").field("clusterRoleSelectors").items() {
                check_expressions(found, &selector, &OF_LABELS);
            }
        }
        _ => {}
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn check_node_affinity(found: &mut Pods, affinity: &Cursor<'_>) {
    let (required, preferred) = (affinity.field(REQUIRED), affinity.field(PREFERRED));
    let terms = required.field("nodeSelectorTerms");
    let preferences = preferred.items().map(|term| term.field("preference"));
    for term in terms.items().chain(preferences) {
        check_expressions(found, &term, &OF_NODES);
    }
}

/// Checks the operators of a selector, and whether they have values.
fn check_expressions(found: &mut Pods, selector: &Cursor<'_>, operators: &[&str]) {
    for expression in selector.field("matchExpressions").items() {
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        found.one_of(&operator, operators);
        match operator.text() {
            "In" | "NotIn" if values.items().next().is_none() => {
                found.refuse(&expression, &format!("has no values for `{}`", operator.text()), None);
            }
            "Exists" | "DoesNotExist" if values.items().next().is_some() => {
                let why = format!("must be empty with the operator `{}`", operator.text());
                found.refuse(&values, &why, Some("remove the values, or use the operator `In`".to_owned()));
            }
            _ => {}
        }
    }
}
