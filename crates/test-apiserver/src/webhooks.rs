//! Admission webhooks: the API server refuses requests for which it would call a webhook whose Service is not ready.
//! Webhooks are never called: all others allow everything.

use federate_apiserver_model::ApiError;
use federate_apiserver_model::values::{list_at, text_at};
use serde_json::Value;

use super::auth::allows_value;
use super::cluster::{RequestTarget, TestCluster};

const GROUP: &str = "admissionregistration.k8s.io";

impl TestCluster {
    /// Refuses a write about which a webhook without a ready Service would be called.
    pub(super) fn ask_webhooks(&self, target: &RequestTarget, verb: &str) -> Result<(), ApiError> {
        let operation = match verb {
            "create" => "CREATE",
            "patch" if !self.store.objects.contains_key(&target.store_key()) => "CREATE",
            "patch" | "update" => "UPDATE",
            "delete" => "DELETE",
            _ => return Ok(()),
        };
        // Webhooks are not called about their configurations.
        if target.group == GROUP {
            return Ok(());
        }
        for plural in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
            for (_, configuration) in self.store.list_objects(GROUP, plural, "") {
                for hook in list_at(configuration, "/webhooks") {
                    let asked = text_at(hook, "/failurePolicy") != "Ignore"
                        && list_at(hook, "/rules").iter().any(|rule| matches_rule(rule, target, operation))
                        && self.selects_namespace(hook, &target.namespace);
                    let service = hook.pointer("/clientConfig/service").filter(|_| asked);
                    if let Some(service) = service.filter(|service| !self.is_service_ready(service)) {
                        return Err(webhook_failure(hook, service));
                    }
                }
            }
        }
        Ok(())
    }

    fn selects_namespace(&self, hook: &Value, namespace: &str) -> bool {
        let wanted = hook.pointer("/namespaceSelector/matchLabels").and_then(Value::as_object);
        let found = self.store.get("", "namespaces", "", namespace);
        let labels = found.and_then(|namespace| namespace.pointer("/metadata/labels"));
        wanted.is_none_or(|wanted| {
            wanted.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        })
    }

    fn is_service_ready(&self, service: &Value) -> bool {
        let (namespace, name) = (text_at(service, "/namespace"), text_at(service, "/name"));
        let label = "/metadata/labels/kubernetes.io~1service-name";
        let slices = self.store.list_objects("discovery.k8s.io", "endpointslices", namespace);
        let mut endpoints = slices
            .filter(|(_, slice)| text_at(slice, label) == name)
            .flat_map(|(_, slice)| list_at(slice, "/endpoints"));
        endpoints.any(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false)))
    }
}

fn matches_rule(rule: &Value, target: &RequestTarget, operation: &str) -> bool {
    allows_value(rule, "/apiGroups", &target.group)
        && allows_value(rule, "/resources", &target.plural)
        && allows_value(rule, "/operations", operation)
}

fn webhook_failure(hook: &Value, service: &Value) -> ApiError {
    let (namespace, name) = (text_at(service, "/namespace"), text_at(service, "/name"));
    ApiError::new(
        500,
        "InternalError",
        format!(
            "Internal error occurred: failed calling webhook \"{}\": failed to call webhook: Post \
             \"https://{name}.{namespace}.svc:443/?timeout=10s\": no endpoints available for service \"{name}\"",
            text_at(hook, "/name")
        ),
    )
}
