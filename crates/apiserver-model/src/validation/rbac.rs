//! Roles and bindings.

use serde_json::Value;

use super::super::failure::StatusCause;
use super::{list_at, text_at};

/// The errors of a Role or ClusterRole.
pub(super) fn role_causes(kind: &str, object: &Value) -> Vec<StatusCause> {
    let rules = list_at(object, "/rules").iter().enumerate();
    rules.flat_map(|(place, rule)| rule_causes(rule, &format!("rules[{place}]"), kind == "Role")).collect()
}

fn rule_causes(rule: &Value, at: &str, namespaced: bool) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if list_at(rule, "/verbs").is_empty() {
        causes.push(StatusCause::required(format!("{at}.verbs"), "verbs must contain at least one value"));
    }
    if let Some(urls) = rule.get("nonResourceURLs").filter(|_| !list_at(rule, "/nonResourceURLs").is_empty())
    {
        let mixed =
            ["/apiGroups", "/resources", "/resourceNames"].iter().any(|at| !list_at(rule, at).is_empty());
        let why = if namespaced {
            "namespaced rules cannot apply to non-resource URLs"
        } else if mixed {
            "rules cannot apply to both regular resources and non-resource URLs"
        } else {
            return causes;
        };
        causes.push(StatusCause::invalid(format!("{at}.nonResourceURLs"), urls, why));
        return causes;
    }
    for (key, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if list_at(rule, &format!("/{key}")).is_empty() {
            let why = format!("resource rules must supply at least one {what}");
            causes.push(StatusCause::required(format!("{at}.{key}"), &why));
        }
    }
    causes
}

/// The errors of a `RoleBinding` or `ClusterRoleBinding`.
pub(super) fn binding_causes(kind: &str, object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let role = text_at(object, "/roleRef/kind");
    if !kinds.contains(&role) {
        causes.push(StatusCause::unsupported("roleRef.kind", &role.into(), kinds));
    }
    if text_at(object, "/roleRef/name").is_empty() {
        causes.push(StatusCause::required("roleRef.name", ""));
    }
    for (place, subject) in list_at(object, "/subjects").iter().enumerate() {
        let at = format!("subjects[{place}]");
        if text_at(subject, "/name").is_empty() {
            causes.push(StatusCause::required(format!("{at}.name"), ""));
        }
        let kinds = ["ServiceAccount", "User", "Group"];
        let kind = text_at(subject, "/kind");
        if !kinds.contains(&kind) {
            causes.push(StatusCause::unsupported(format!("{at}.kind"), &kind.into(), &kinds));
        }
    }
    causes
}
