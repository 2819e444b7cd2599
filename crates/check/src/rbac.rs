//! Rules of roles that name no verb, API group or resource of Kubernetes, but nearly one.

use federate_kubernetes::kinds::pluralize_kind;
use federate_kubernetes::schema::{Cursor, find_nearest};
use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;

/// The verbs of Kubernetes. Others exist for single resources.
const VERBS: [&str; 16] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "escalate",
    "impersonate",
    "use",
    "approve",
    "sign",
    "attest",
    "*",
];

/// The findings.
pub(super) fn check_roles(repo: &Repo) -> Vec<Finding> {
    let objects = repo.templates.iter().map(|template| &template.object);
    let roles = objects.filter(|object| {
        object.id.group() == "rbac.authorization.k8s.io"
            && matches!(object.id.kind.as_str(), "Role" | "ClusterRole")
    });
    let rules = roles.flat_map(|role| {
        let body = Cursor::new(&role.body);
        body.field("rules").items().map(|rule| (role, rule)).collect::<Vec<_>>()
    });
    rules.flat_map(|(role, rule)| check_rule(role, &rule)).collect()
}

fn without_effect(role: &Object, at: &Cursor<'_>, message: &str, right: &str) -> Finding {
    Finding::warning("no-effect", role, format!("{message}, so the rule allows nothing by it"))
        .with_pointer(at.pointer())
        .with_help(format!("did you mean `{right}`?"))
}

fn check_rule(role: &Object, rule: &Cursor<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    // Paths of an API server have the verbs of HTTP.
    let of_resources = !rule.field("nonResourceURLs").has_items();
    for verb in rule.field("verbs").items().filter(|verb| of_resources && !VERBS.contains(&verb.as_text())) {
        let known: Vec<&str> =
            VERBS.into_iter().filter(|known| known.get(..1) == verb.as_text().get(..1)).collect();
        if let Some(near) = find_nearest(verb.as_text(), &known) {
            let message = format!("`{}` is not a verb", verb.as_text());
            found.push(without_effect(role, &verb, &message, near));
        }
    }
    for group in rule.field("apiGroups").items() {
        let text = group.as_text();
        if let Some((name, _)) = text.split_once('/') {
            let message = format!("`{text}` is an API version, not an API group");
            found.push(without_effect(role, &group, &message, name));
        } else if text == "v1" || text == "core" {
            let message = format!("`{text}` is not an API group; the core group is empty");
            found.push(without_effect(role, &group, &message, "\"\""));
        }
    }
    let resources = rule.field("resources");
    let groups = rule.field("apiGroups");
    for resource in resources.items() {
        let kind = groups.items().find_map(|group| kind_of(group.as_text(), resource.as_text()));
        if let Some(kind) = kind {
            let message =
                format!("`{}` is not a resource; those of {kind} have a plural name", resource.as_text());
            let right = pluralize_kind(&kind.to_ascii_lowercase());
            found.push(without_effect(role, &resource, &message, &right));
        }
    }
    found
}

/// The kind of Kubernetes whose name in lower case, or as it is, was written in place of its resource.
fn kind_of(group: &str, resource: &str) -> Option<&'static str> {
    let known = federate_kubernetes::kinds::api_groups().find(|known| known.group == group)?;
    let kind = known.kind_names().find(|kind| kind.eq_ignore_ascii_case(resource))?;
    // `Endpoints` is its own plural.
    (pluralize_kind(&kind.to_ascii_lowercase()) != resource && !kind.ends_with("ndpoints")).then_some(kind)
}
