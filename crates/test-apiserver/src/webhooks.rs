//! Admission webhooks: the API server refuses requests about which it would have to call a webhook whose Service is
//! not ready. Other webhooks allow everything; none is called.

use federate_apiserver::Failure;
use serde_json::Value;

use super::cluster::{Cluster, Target};
use super::write::text;

const GROUP: &str = "admissionregistration.k8s.io";

impl Cluster {
    /// Refuses a write about which a webhook without a ready Service would be called.
    pub(super) fn ask_webhooks(&self, target: &Target, verb: &str) -> Result<(), Failure> {
        let operation = match verb {
            "create" => "CREATE",
            "patch" if !self.store.objects.contains_key(&target.key()) => "CREATE",
            "patch" | "update" => "UPDATE",
            "delete" => "DELETE",
            _ => return Ok(()),
        };
        // Webhooks are not called about their configurations.
        if target.group == GROUP {
            return Ok(());
        }
        for plural in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
            for (_, configuration) in self.store.list(GROUP, plural, "") {
                for hook in list(configuration, "/webhooks") {
                    let asked = text(hook, "/failurePolicy") != "Ignore"
                        && list(hook, "/rules").any(|rule| concerns(rule, target, operation))
                        && self.selects(hook, &target.namespace);
                    let service = hook.pointer("/clientConfig/service").filter(|_| asked);
                    if let Some(service) = service.filter(|service| !self.serves(service)) {
                        return Err(unanswered(hook, service));
                    }
                }
            }
        }
        Ok(())
    }

    fn selects(&self, hook: &Value, namespace: &str) -> bool {
        let wanted = hook.pointer("/namespaceSelector/matchLabels").and_then(Value::as_object);
        let found = self.store.get("", "namespaces", "", namespace);
        let labels = found.and_then(|namespace| namespace.pointer("/metadata/labels"));
        let has = |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) == Some(value);
        wanted.is_none_or(|wanted| wanted.iter().all(has))
    }

    fn serves(&self, service: &Value) -> bool {
        let (namespace, name) = (text(service, "/namespace"), text(service, "/name"));
        let label = "/metadata/labels/kubernetes.io~1service-name";
        let slices = self.store.list("discovery.k8s.io", "endpointslices", namespace);
        let mut endpoints = slices
            .filter(|(_, slice)| text(slice, label) == name)
            .flat_map(|(_, slice)| list(slice, "/endpoints"));
        endpoints.any(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false)))
    }
}

fn list<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn concerns(rule: &Value, target: &Target, operation: &str) -> bool {
    let has = |key: &str, wanted: &str| list(rule, key).any(|value| value == "*" || value == wanted);
    has("/apiGroups", &target.group) && has("/resources", &target.plural) && has("/operations", operation)
}

fn unanswered(hook: &Value, service: &Value) -> Failure {
    let (namespace, name) = (text(service, "/namespace"), text(service, "/name"));
    Failure::new(
        500,
        "InternalError",
        format!(
            "Internal error occurred: failed calling webhook \"{}\": failed to call webhook: Post \
             \"https://{name}.{namespace}.svc:443/?timeout=10s\": no endpoints available for service \"{name}\"",
            text(hook, "/name")
        ),
    )
}
