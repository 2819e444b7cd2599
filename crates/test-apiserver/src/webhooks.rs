//! Admission webhooks: the API server refuses requests about which it would have to call a webhook whose Service is
//! not ready. Other webhooks allow everything; none is called.

use federate_apiserver::ApiError;
use serde_json::Value;

use super::cluster::{RequestTarget, TestCluster};
use super::write::text_at;

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
                        && list_at(hook, "/rules").any(|rule| matches_rule(rule, target, operation))
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
        let has = |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) == Some(value);
        wanted.is_none_or(|wanted| wanted.iter().all(has))
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

fn list_at<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn matches_rule(rule: &Value, target: &RequestTarget, operation: &str) -> bool {
    let has = |key: &str, wanted: &str| list_at(rule, key).any(|value| value == "*" || value == wanted);
    has("/apiGroups", &target.group) && has("/resources", &target.plural) && has("/operations", operation)
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
