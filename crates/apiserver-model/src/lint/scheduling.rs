//! Where pods are scheduled, as people get it wrong: tolerations, affinity, spread.
//!
//! Facts: the validation of Kubernetes 1.36.

use serde_json::Value;

use federate_kubernetes::schema::Cursor;

use super::pods::PodProblems;

const LABEL_OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
const NODE_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// Adds the problems of the spec of a pod.
pub(super) fn add_problems(found: &mut PodProblems, spec: &Cursor<'_>) {
    for toleration in spec.field("tolerations").items() {
        let operator = toleration.field("operator");
        found.check_one_of(&operator, &["Equal", "Exists", "Lt", "Gt"]);
        found.check_one_of(&toleration.field("effect"), &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        let value = toleration.field("value");
        if operator.as_text() == "Exists" && !value.as_text().is_empty() {
            let help = "remove the value, or use the operator `Equal`";
            found.add_refusal(&value, "must be empty with the operator `Exists`", Some(help.to_owned()));
        }
    }
    for constraint in spec.field("topologySpreadConstraints").items() {
        found.check_one_of(&constraint.field("whenUnsatisfiable"), &["DoNotSchedule", "ScheduleAnyway"]);
        check_expressions(found, &constraint.field("labelSelector"), &LABEL_OPERATORS);
    }
    let affinity = spec.field("affinity");
    check_node_affinity(found, &affinity.field("nodeAffinity"));
    for pods in ["podAffinity", "podAntiAffinity"].map(|key| affinity.field(key)) {
        let preferred = pods.field(PREFERRED);
        let terms = preferred.items().map(|term| term.field("podAffinityTerm"));
        for term in pods.field(REQUIRED).items().chain(terms) {
            check_expressions(found, &term.field("labelSelector"), &LABEL_OPERATORS);
        }
    }
}

/// Adds the problems of the label selectors that an object has outside of its pods.
pub(super) fn add_selector_problems(found: &mut PodProblems, kind: &str, object: &Value) {
    let body = Cursor::new(object);
    let spec = body.field("spec");
    match kind {
        "Deployment"
        | "StatefulSet"
        | "DaemonSet"
        | "ReplicaSet"
        | "PodDisruptionBudget"
        | "PersistentVolumeClaim" => check_expressions(found, &spec.field("selector"), &LABEL_OPERATORS),
        "NetworkPolicy" => {
            check_expressions(found, &spec.field("podSelector"), &LABEL_OPERATORS);
            for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
                for peer in spec.field(rules).items().flat_map(|rule| rule.field(peers).items()) {
                    check_expressions(found, &peer.field("podSelector"), &LABEL_OPERATORS);
                    check_expressions(found, &peer.field("namespaceSelector"), &LABEL_OPERATORS);
                }
            }
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            for webhook in body.field("webhooks").items() {
                check_expressions(found, &webhook.field("objectSelector"), &LABEL_OPERATORS);
                check_expressions(found, &webhook.field("namespaceSelector"), &LABEL_OPERATORS);
            }
        }
        "ClusterRole" => {
            for selector in body.field("aggregationRule").field("clusterRoleSelectors").items() {
                check_expressions(found, &selector, &LABEL_OPERATORS);
            }
        }
        _ => {}
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn check_node_affinity(found: &mut PodProblems, affinity: &Cursor<'_>) {
    let (required, preferred) = (affinity.field(REQUIRED), affinity.field(PREFERRED));
    let terms = required.field("nodeSelectorTerms");
    let preferences = preferred.items().map(|term| term.field("preference"));
    for term in terms.items().chain(preferences) {
        check_expressions(found, &term, &NODE_OPERATORS);
    }
}

/// Checks the operators of a selector, and whether they have values.
fn check_expressions(found: &mut PodProblems, selector: &Cursor<'_>, operators: &[&str]) {
    for expression in selector.field("matchExpressions").items() {
        let (operator, values) = (expression.field("operator"), expression.field("values"));
        found.check_one_of(&operator, operators);
        match operator.as_text() {
            "In" | "NotIn" if values.items().next().is_none() => {
                found.add_refusal(&expression, &format!("has no values for `{}`", operator.as_text()), None);
            }
            "Exists" | "DoesNotExist" if values.items().next().is_some() => {
                let why = format!("must be empty with the operator `{}`", operator.as_text());
                found.add_refusal(
                    &values,
                    &why,
                    Some("remove the values, or use the operator `In`".to_owned()),
                );
            }
            _ => {}
        }
    }
}
