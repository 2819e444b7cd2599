//! Authentication and authorization: certificates, tokens, roles and bindings.

use federate_apiserver_model::ApiError;
use federate_apiserver_model::values::{list_at, text_at, text_below};
use serde_json::{Value, json};

use super::cluster::{RequestTarget, TestCluster};
use super::http::{ApiRequest, ClientCredentials, Response};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiUser {
    pub name: String,
    pub groups: Vec<String>,
}

impl ApiUser {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self { name: name.to_owned(), groups: groups.iter().map(|g| (*g).to_owned()).collect() }
    }

    fn is_admin(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }

    /// Whether the subject of a binding is this user or one of its groups.
    fn is_subject(&self, subject: &Value) -> bool {
        let name = text_below(subject, "name");
        match text_below(subject, "kind") {
            "User" => self.name == name,
            "Group" => self.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                self.name == format!("system:serviceaccount:{}:{name}", text_below(subject, "namespace"))
            }
            _ => false,
        }
    }
}

/// The attributes of a request that rules refer to.
#[derive(Clone, Debug)]
pub struct RequestAttributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl TestCluster {
    /// The user of a request, after impersonation.
    pub(super) fn authenticate_request(&self, request: &ApiRequest) -> Result<ApiUser, ApiError> {
        let user = match &request.credentials {
            ClientCredentials::Certificate => {
                ApiUser::new("admin", &["system:masters", "system:authenticated"])
            }
            ClientCredentials::None => ApiUser::new("system:anonymous", &["system:unauthenticated"]),
            ClientCredentials::Token(token) => {
                let found = self.tokens.get(token).cloned();
                found.ok_or_else(|| ApiError::new(401, "Unauthorized", "Unauthorized"))?
            }
        };
        let Some(name) = request.headers.get("impersonate-user") else { return Ok(user) };
        let groups = request.headers.get("impersonate-group").map_or("", String::as_str);
        let groups: Vec<&str> = groups.split(',').filter(|group| !group.is_empty()).collect();
        // A service account is a resource of its own.
        let account = name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        let who = match account {
            Some((namespace, name)) => ("serviceaccounts", namespace, name),
            None => ("users", "", name.as_str()),
        };
        let wanted = [who].into_iter().chain(groups.iter().map(|group| ("groups", "", *group)));
        for (resource, namespace, name) in wanted {
            let (verb, none) = ("impersonate", "");
            let action =
                RequestAttributes { verb, group: none, resource, subresource: none, namespace, name };
            self.authorize_action(&user, &action)?;
        }
        let own = account.map(|(namespace, _)| format!("system:serviceaccounts:{namespace}"));
        let own = own.iter().map(String::as_str).chain(account.map(|_| "system:serviceaccounts"));
        let own: Vec<&str> = own.filter(|_| groups.is_empty()).collect();
        let groups: Vec<&str> = groups.into_iter().chain(own).chain(["system:authenticated"]).collect();
        Ok(ApiUser::new(name, &groups))
    }

    pub(super) fn authorize_action(
        &self,
        user: &ApiUser,
        action: &RequestAttributes<'_>,
    ) -> Result<(), ApiError> {
        if self.is_allowed(user, action) {
            return Ok(());
        }
        let resource = qualified_resource(action.resource, action.group);
        let named = if action.name.is_empty() { String::new() } else { format!(" \"{}\"", action.name) };
        let part =
            if action.subresource.is_empty() { String::new() } else { format!("/{}", action.subresource) };
        let place = if action.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", action.namespace)
        };
        let message = format!(
            "{resource}{named} is forbidden: User \"{}\" cannot {} resource \"{}{part}\" in API group \"{}\" {place}",
            user.name, action.verb, action.resource, action.group
        );
        Err(ApiError::new(403, "Forbidden", message).about_object(action.group, action.resource, action.name))
    }

    pub(super) fn authorize_path(user: &ApiUser, path: &str) -> Result<(), ApiError> {
        let open = ["/version", "/readyz", "/livez", "/healthz"].iter().any(|p| path.starts_with(p));
        let discovery = ["/api", "/apis", "/openapi"].iter().any(|p| path.starts_with(p));
        let known = user.groups.iter().any(|g| g == "system:authenticated");
        if open || user.is_admin() || (discovery && known) {
            return Ok(());
        }
        let message = format!("forbidden: User \"{}\" cannot get path \"{path}\"", user.name);
        Err(ApiError::new(403, "Forbidden", message))
    }

    pub(super) fn is_allowed(&self, user: &ApiUser, action: &RequestAttributes<'_>) -> bool {
        user.is_admin()
            || self
                .rules_for(user, action.namespace)
                .into_iter()
                .flatten()
                .any(|rule| grants_action(rule, action))
    }

    /// The rules of the roles that a user is bound to in a namespace.
    fn rules_for(&self, user: &ApiUser, namespace: &str) -> Vec<&Vec<Value>> {
        const RBAC: &str = "rbac.authorization.k8s.io";
        let mut bindings: Vec<(&str, &Value)> =
            self.store.list_objects(RBAC, "clusterrolebindings", "").map(|(_, b)| ("", b)).collect();
        if !namespace.is_empty() {
            let own = self.store.list_objects(RBAC, "rolebindings", namespace).collect::<Vec<_>>();
            bindings.extend(own.into_iter().map(|(key, b)| (key.namespace.as_str(), b)));
        }
        let rules = bindings.into_iter().filter_map(|(namespace, binding)| {
            let bound = list_at(binding, "/subjects").iter().any(|subject| user.is_subject(subject));
            let role = binding["roleRef"]["name"].as_str().unwrap_or_default();
            let role = match binding["roleRef"]["kind"].as_str() {
                Some("ClusterRole") => self.store.get(RBAC, "clusterroles", "", role),
                _ => self.store.get(RBAC, "roles", namespace, role),
            };
            role.and_then(|role| role["rules"].as_array()).filter(|_| bound)
        });
        rules.collect()
    }

    /// Self-subject reviews.
    pub(super) fn answer_review(
        &self,
        user: &ApiUser,
        target: &RequestTarget,
        body: &Value,
        manager: &str,
    ) -> Option<Response> {
        let mut answer = body.clone();
        match (target.group.as_str(), target.plural.as_str()) {
            ("authentication.k8s.io", "selfsubjectreviews") => {
                answer["metadata"] = json!({"creationTimestamp": self.current_time()});
                answer["status"] =
                    json!({"userInfo": {"username": user.name, "uid": user.name, "groups": user.groups}});
            }
            ("authorization.k8s.io", "selfsubjectaccessreviews") => {
                let asked = &body["spec"]["resourceAttributes"];
                let action = RequestAttributes {
                    verb: text_below(asked, "verb"),
                    group: text_below(asked, "group"),
                    resource: text_below(asked, "resource"),
                    subresource: text_below(asked, "subresource"),
                    namespace: text_below(asked, "namespace"),
                    name: text_below(asked, "name"),
                };
                let allowed = self.is_allowed(user, &action);
                let fields: serde_json::Map<String, Value> = asked
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, _)| (format!("f:{key}"), json!({})))
                    .chain([(".".to_owned(), json!({}))])
                    .collect();
                let entry = json!({
                    "manager": manager, "operation": "Update", "apiVersion": "authorization.k8s.io/v1",
                    "time": self.current_time(), "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:resourceAttributes": fields}},
                });
                answer["metadata"] = json!({"managedFields": [entry]});
                answer["status"] = json!({"allowed": allowed});
            }
            ("authorization.k8s.io", "selfsubjectrulesreviews") => {
                let namespace = text_at(body, "/spec/namespace");
                let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
                let rules: Vec<Value> = if user.is_admin() {
                    vec![all]
                } else {
                    self.rules_for(user, namespace).into_iter().flatten().cloned().collect()
                };
                answer["metadata"] = json!({});
                answer["status"] =
                    json!({"resourceRules": rules, "nonResourceRules": [], "incomplete": false});
            }
            _ => return None,
        }
        Some(Response::from_json(201, answer))
    }
}

pub fn qualified_resource(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn grants_action(rule: &Value, action: &RequestAttributes<'_>) -> bool {
    let resource = if action.subresource.is_empty() {
        action.resource.to_owned()
    } else {
        format!("{}/{}", action.resource, action.subresource)
    };
    let names = list_at(rule, "/resourceNames");
    allows_value(rule, "/verbs", action.verb)
        && allows_value(rule, "/apiGroups", action.group)
        && allows_value(rule, "/resources", &resource)
        && (names.is_empty() || names.iter().any(|name| name == action.name))
}

/// Whether the list at a pointer of a rule contains a value or `*`.
pub fn allows_value(rule: &Value, pointer: &str, value: &str) -> bool {
    list_at(rule, pointer).iter().any(|allowed| allowed == "*" || allowed == value)
}
