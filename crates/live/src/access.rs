//! Checks whether the user has the rights that an apply needs, without applying anything.
//!
//! Facts: a `SelfSubjectRulesReview` answers with all rules that hold in a namespace, and says where it is
//! incomplete; rules that a Role grants do not cover cluster-scoped objects, so that each verb is checked by a
//! `SelfSubjectAccessReview` for those. Server-side apply of an object that does not exist takes both `create` and
//! `patch`.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};

use super::call::Call;
use super::client::Client;
use super::kinds;
use super::path::ApiPath;
use super::read::parent_path;
use super::{Access, CLUSTER_TIMEOUT, DesiredState, Error, each, target, within};
use federate_apiserver::Kind;
use federate_engine::actions::Inventory;
use federate_engine::actions::inventory::Members;
use federate_kubernetes::ClusterName;

/// The rights that are missing in a cluster, one line each.
#[derive(Clone, Debug)]
pub struct MissingAccess {
    /// The cluster.
    pub cluster: ClusterName,
    /// The missing rights; or why they are not known.
    pub rights: Result<Vec<String>, Error>,
}

/// Group and plural of a kind, and the namespace; `None` for cluster-scoped kinds.
type AccessScope = (String, String, Option<String>);

/// Asks every cluster which rights for an apply are missing. `deletes` says whether objects of a kind are deleted
/// when they are no longer rendered.
pub fn check_access(
    access: &Access,
    desired_states: &[DesiredState<'_>],
    inventory: &Inventory,
    deletes: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<MissingAccess>, Error> {
    each(access, desired_states, |runtime, connections, desired| {
        let rights = runtime.block_on(within(access.timeout.or(Some(CLUSTER_TIMEOUT)), async {
            let client = target::to(connections, &desired.cluster).await?;
            missing(&client, desired, inventory, deletes).await
        }));
        MissingAccess { cluster: desired.cluster.clone(), rights }
    })
}

async fn missing(
    client: &Client,
    desired: &DesiredState<'_>,
    inventory: &Inventory,
    deletes: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<String>, Error> {
    let members = match client.find(&Call::get(parent_path(inventory))).await {
        Err(Error::Refused(refusal)) if refusal.code == 403 => Members::default(),
        parent => parent?.as_ref().map(Members::of).unwrap_or_default(),
    };
    let kinds = kinds::find(client, desired, &members).await?;
    let mut needed: BTreeMap<AccessScope, BTreeSet<&str>> = BTreeMap::new();
    for (object, _) in &desired.objects {
        let Some(kind) = kinds.of(object) else { continue };
        let verbs = needed.entry(place(kind, object.namespace.as_deref())).or_default();
        verbs.extend(["get", "list", "create", "patch"]);
        if deletes(&kind.kind) {
            verbs.insert("delete");
        }
    }
    let parent = (String::new(), "configmaps".to_owned(), Some(inventory.namespace.clone()));
    needed.entry(parent).or_default().extend(["get", "create", "patch"]);

    let mut rules: BTreeMap<String, Rules> = BTreeMap::new();
    let mut lines = Vec::new();
    for ((group, plural, namespace), verbs) in needed {
        let mut refused = Vec::new();
        for verb in verbs {
            let allowed = match &namespace {
                Some(namespace) => {
                    if !rules.contains_key(namespace) {
                        rules.insert(namespace.clone(), Rules::read(client, namespace).await?);
                    }
                    rules.get(namespace).is_some_and(|rules| rules.allow(verb, &group, &plural))
                }
                None => allowed(client, verb, &group, &plural).await?,
            };
            if !allowed {
                refused.push(verb);
            }
        }
        if !refused.is_empty() {
            lines.push(line(&refused, &group, &plural, namespace.as_deref()));
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

fn place(kind: &Kind, namespace: Option<&str>) -> AccessScope {
    let namespace = namespace.filter(|_| kind.namespaced).map(str::to_owned);
    (kind.group.clone(), kind.plural.clone(), namespace)
}

fn line(verbs: &[&str], group: &str, plural: &str, namespace: Option<&str>) -> String {
    let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let place = match namespace {
        Some(namespace) => format!("in namespace {namespace}"),
        None => "in the cluster".to_owned(),
    };
    format!("may not {} {resource} {place}", verbs.join(", "))
}

/// The rules that hold in a namespace.
struct Rules {
    rules: Vec<Value>,
    incomplete: bool,
}

impl Rules {
    async fn read(client: &Client, namespace: &str) -> Result<Self, Error> {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace}});
        let mut answer = review_of(client, "selfsubjectrulesreviews", &review).await?;
        let rules =
            answer.pointer_mut("/status/resourceRules").and_then(Value::as_array_mut).map(std::mem::take);
        let incomplete = answer.pointer("/status/incomplete") == Some(&Value::Bool(true));
        Ok(Self { rules: rules.unwrap_or_default(), incomplete })
    }

    /// Whether they allow a verb for all objects of a resource.
    fn allow(&self, verb: &str, group: &str, plural: &str) -> bool {
        let grants = |rule: &Value| {
            let has = |key: &str, wanted: &str| {
                let list = rule.get(key).and_then(Value::as_array);
                list.is_some_and(|list| list.iter().any(|value| value == "*" || value == wanted))
            };
            let named =
                rule.get("resourceNames").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
            !named && has("verbs", verb) && has("apiGroups", group) && has("resources", plural)
        };
        self.rules.iter().any(grants)
    }
}

async fn allowed(client: &Client, verb: &str, group: &str, plural: &str) -> Result<bool, Error> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": plural}}});
    let answer = review_of(client, "selfsubjectaccessreviews", &review).await?;
    Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

async fn review_of(client: &Client, plural: &str, review: &Value) -> Result<Value, Error> {
    let call = Call::new(Method::POST, ApiPath::of_version("authorization.k8s.io/v1").join(plural));
    client.send(&call.body("application/json", review)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_named_objects_allow_no_kind() {
        let rule = |resources: Value, names: Value| json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": resources, "resourceNames": names});
        let rules = Rules {
            rules: vec![rule(json!(["configmaps"]), json!([])), rule(json!(["*"]), json!(["only"]))],
            incomplete: false,
        };
        assert!(rules.allow("get", "", "configmaps"));
        assert!(!rules.allow("patch", "", "configmaps") && !rules.allow("get", "", "secrets"));
        assert_eq!(
            line(&["get"], "apps", "deployments", Some("shop")),
            "may not get deployments.apps in namespace shop"
        );
    }
}
