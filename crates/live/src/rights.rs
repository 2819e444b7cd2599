//! Checks whether the user has the rights that an apply needs, without applying anything.
//!
//! Facts: a `SelfSubjectRulesReview` answers with all rules that hold in a namespace, and says where it is
//! incomplete; rules that a Role grants do not cover cluster-scoped objects, so that each verb is checked by a
//! `SelfSubjectAccessReview` for those. Server-side apply of an object that does not exist takes both `create` and
//! `patch`.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::kinds;
use super::path::{ApiPath, parent_path};
use super::request::RepeatableRequest;
use super::runtime::{CLUSTER_TIMEOUT, for_each_cluster, limit_time};
use super::{Access, DesiredState, Error, target};
use federate_apiserver_model::ResourceKind;
use federate_kubernetes::ClusterName;
use federate_reconcile::ApplySet;
use federate_reconcile::apply_set::ApplySetContents;

/// The rights that are missing in a cluster, one line each.
#[derive(Clone, Debug)]
pub struct MissingRights {
    /// The cluster.
    pub cluster: ClusterName,
    /// The missing rights; or why they are not known.
    pub rights: Result<Vec<String>, Error>,
}

/// Group and plural of a kind, and the namespace; `None` for cluster-scoped kinds.
type AccessScope = (String, String, Option<String>);

/// Asks every cluster which rights for an apply are missing. `deletes` says whether objects of a kind are deleted
/// when they are no longer rendered.
pub fn check_rights(
    access: &Access,
    desired_states: &[DesiredState<'_>],
    apply_set: &ApplySet,
    deletes: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<MissingRights>, Error> {
    for_each_cluster(access, desired_states, |runtime, connections, desired| {
        let rights = runtime.block_on(limit_time(access.timeout.or(Some(CLUSTER_TIMEOUT)), async {
            let client = target::connect_member(connections, &desired.cluster).await?;
            find_missing_rights(&client, desired, apply_set, deletes).await
        }));
        MissingRights { cluster: desired.cluster.clone(), rights }
    })
}

async fn find_missing_rights(
    client: &Client,
    desired: &DesiredState<'_>,
    apply_set: &ApplySet,
    deletes: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<String>, Error> {
    let members = match client.request_optional(&RepeatableRequest::get(parent_path(apply_set))).await {
        Err(Error::Refused(refusal)) if refusal.code == 403 => ApplySetContents::default(),
        parent => parent?.as_ref().map(ApplySetContents::from_parent).unwrap_or_default(),
    };
    let kinds = kinds::find_kinds(client, desired, &members).await?;
    let mut needed: BTreeMap<AccessScope, BTreeSet<&str>> = BTreeMap::new();
    for (object, _) in &desired.objects {
        let Some(kind) = kinds.find_kind(object) else { continue };
        let verbs = needed.entry(access_scope(kind, object.namespace.as_deref())).or_default();
        verbs.extend(["get", "list", "create", "patch"]);
        if deletes(&kind.kind) {
            verbs.insert("delete");
        }
    }
    let parent = (String::new(), "configmaps".to_owned(), Some(apply_set.namespace.clone()));
    needed.entry(parent).or_default().extend(["get", "create", "patch"]);

    let mut rules: BTreeMap<String, AccessRules> = BTreeMap::new();
    let mut lines = Vec::new();
    for ((group, plural, namespace), verbs) in needed {
        let mut refused = Vec::new();
        for verb in verbs {
            let allowed = match &namespace {
                Some(namespace) => {
                    if !rules.contains_key(namespace) {
                        rules
                            .insert(namespace.clone(), AccessRules::request_review(client, namespace).await?);
                    }
                    rules.get(namespace).is_some_and(|rules| rules.allows_verb(verb, &group, &plural))
                }
                None => is_allowed(client, verb, &group, &plural).await?,
            };
            if !allowed {
                refused.push(verb);
            }
        }
        if !refused.is_empty() {
            lines.push(describe_missing(&refused, &group, &plural, namespace.as_deref()));
        }
    }
    for namespace in rules.iter().filter(|(_, rules)| rules.incomplete).map(|(namespace, _)| namespace) {
        if !lines.is_empty() {
            lines.push(format!(
                "the API server could not list all rights in namespace {namespace}: some of these may be granted"
            ));
        }
    }
    Ok(lines)
}

fn access_scope(kind: &ResourceKind, namespace: Option<&str>) -> AccessScope {
    let namespace = namespace.filter(|_| kind.namespaced).map(str::to_owned);
    (kind.group.clone(), kind.plural.clone(), namespace)
}

fn describe_missing(verbs: &[&str], group: &str, plural: &str, namespace: Option<&str>) -> String {
    let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let place = match namespace {
        Some(namespace) => format!("in namespace {namespace}"),
        None => "in the cluster".to_owned(),
    };
    format!("may not {} {resource} {place}", verbs.join(", "))
}

/// The rules that hold in a namespace.
struct AccessRules {
    rules: Vec<Value>,
    incomplete: bool,
}

impl AccessRules {
    async fn request_review(client: &Client, namespace: &str) -> Result<Self, Error> {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace}});
        let mut answer = send_review(client, "selfsubjectrulesreviews", &review).await?;
        let rules =
            answer.pointer_mut("/status/resourceRules").and_then(Value::as_array_mut).map(std::mem::take);
        let incomplete = answer.pointer("/status/incomplete") == Some(&Value::Bool(true));
        Ok(Self { rules: rules.unwrap_or_default(), incomplete })
    }

    /// Whether they allow a verb for all objects of a resource.
    fn allows_verb(&self, verb: &str, group: &str, plural: &str) -> bool {
        self.rules.iter().any(|rule| {
            let named =
                rule.get("resourceNames").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
            !named
                && rule_lists(rule, "verbs", verb)
                && rule_lists(rule, "apiGroups", group)
                && rule_lists(rule, "resources", plural)
        })
    }
}

/// Whether a list of a rule has a word, or all words.
fn rule_lists(rule: &Value, key: &str, word: &str) -> bool {
    let list = rule.get(key).and_then(Value::as_array);
    list.is_some_and(|list| list.iter().any(|value| value == "*" || value == word))
}

async fn is_allowed(client: &Client, verb: &str, group: &str, plural: &str) -> Result<bool, Error> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": plural}}});
    let answer = send_review(client, "selfsubjectaccessreviews", &review).await?;
    Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

async fn send_review(client: &Client, plural: &str, review: &Value) -> Result<Value, Error> {
    let call =
        RepeatableRequest::new(Method::POST, ApiPath::from_version("authorization.k8s.io/v1").join(plural));
    client.request_json(&call.with_body("application/json", review)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_named_objects_allow_no_kind() {
        let rule = |resources: Value, names: Value| json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": resources, "resourceNames": names});
        let rules = AccessRules {
            rules: vec![rule(json!(["configmaps"]), json!([])), rule(json!(["*"]), json!(["only"]))],
            incomplete: false,
        };
        assert!(rules.allows_verb("get", "", "configmaps"));
        assert!(!rules.allows_verb("patch", "", "configmaps") && !rules.allows_verb("get", "", "secrets"));
        assert_eq!(
            describe_missing(&["get"], "apps", "deployments", Some("shop")),
            "may not get deployments.apps in namespace shop"
        );
    }
}
