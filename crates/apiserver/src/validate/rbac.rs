//! Roles and bindings.

use serde_json::Value;

use super::super::failure::Cause;
use super::{list_at, text_at};

/// The errors of a Role or ClusterRole.
pub(super) fn role(kind: &str, object: &Value) -> Vec<Cause> {
    let rules = list_at(object, "/rules").iter().enumerate();
    rules.flat_map(|(place, rule)| rule_causes(rule, &format!("rules[{place}]"), kind == "Role")).collect()
}

fn rule_causes(rule: &Value, at: &str, namespaced: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let empty = |key: &str| list_at(rule, &format!("/{key}")).is_empty();
    if empty("verbs") {
        causes.push(Cause::required(format!("{at}.verbs"), "verbs must contain at least one value"));
    }
    if let Some(urls) = rule.get("nonResourceURLs").filter(|_| !empty("nonResourceURLs")) {
        let mixed = ["apiGroups", "resources", "resourceNames"].iter().any(|key| !empty(key));
        let why = if namespaced {
            "namespaced rules cannot apply to non-resource URLs"
        } else if mixed {
            "rules cannot apply to both regular resources and non-resource URLs"
        } else {
            return causes;
        };
        causes.push(Cause::invalid(format!("{at}.nonResourceURLs"), urls, why));
        return causes;
    }
    for (key, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if empty(key) {
            let why = format!("resource rules must supply at least one {what}");
            causes.push(Cause::required(format!("{at}.{key}"), &why));
        }
    }
    causes
}

/// The errors of a `RoleBinding` or `ClusterRoleBinding`.
pub(super) fn binding(kind: &str, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let role = text_at(object, "/roleRef/kind");
    if !kinds.contains(&role) {
        causes.push(Cause::unsupported("roleRef.kind", &role.into(), kinds));
    }
    if text_at(object, "/roleRef/name").is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    }
    for (place, subject) in list_at(object, "/subjects").iter().enumerate() {
        let at = format!("subjects[{place}]");
        if text_at(subject, "/name").is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        let kinds = ["ServiceAccount", "User", "Group"];
        let kind = text_at(subject, "/kind");
        if !kinds.contains(&kind) {
            causes.push(Cause::unsupported(format!("{at}.kind"), &kind.into(), &kinds));
        }
    }
    causes
}
