//! Admission webhooks: one that may refuse every request is applied only when its Service is ready, and one that blocks
//! other objects is named together with the object that makes it work again.
//!
//! Facts: with `failurePolicy: Fail`, which is the default, an API server refuses each request about which a webhook
//! gives no answer, with code 500 and `failed calling webhook "NAME"`. The endpoints of a Service
//! are in `EndpointSlice`s with the label `kubernetes.io/service-name`; one without `conditions.ready` counts as
//! ready. Webhooks are not asked about their own configurations. API servers learn of a changed
//! configuration within seconds.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::cluster_state::ClusterState;
use super::dependencies::{FailedObjects, find_live};
use super::object_requests::{ObjectRequests, build_requests};
use super::order::{Phase, is_webhook};
use super::path::ApiPath;
use super::request::RepeatableRequest;
use super::send_results::{SendResult, SendResults};
use super::sender::{ProgressCounter, send_all};
use super::{ApplyOptions, DesiredState, Error};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::object::field_text;
use federate_reconcile::{ObjectDecision, WriteRequest};

/// How long a webhook's Service may take to become ready without `--wait`.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an API server may take to notice a changed configuration.
const CONFIGURATION_DELAY: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A Service, by namespace and name.
type ServiceName = (String, String);

/// The webhooks and aggregated API servers of a run.
pub(super) struct AdmissionWebhooks<'r> {
    pub(super) client: &'r Client,
    pub(super) desired: &'r DesiredState<'r>,
    pub(super) state: &'r ClusterState,
    pub(super) decisions: &'r [ObjectDecision],
    pub(super) options: &'r ApplyOptions<'r>,
}

impl<'r> AdmissionWebhooks<'r> {
    /// Returns those that may be applied: their Services are ready, or they repair a webhook that blocks objects now.
    pub(super) async fn select_ready(
        &self,
        all: Vec<ObjectRequests>,
        results: &mut SendResults,
    ) -> Result<Vec<ObjectRequests>, Error> {
        let blocked = results.unanswered_webhooks();
        let failed = FailedObjects::from_results(results.undone_objects(), self.decisions, |object| {
            self.find_live(object)
        });
        let timeout = self.options.server.wait.unwrap_or(SERVICE_TIMEOUT);
        let mut open = Vec::new();
        for requests in all {
            let services = self.applied_body(&requests.object).map(needed_services).unwrap_or_default();
            let broken = services.iter().find_map(|(namespace, _)| failed.find_breaking(namespace));
            let held = match broken {
                _ if self.is_blocking(&requests.object, &blocked) => None,
                Some(other) => Some(format!("not applied, because {other}, which may serve it, could not be applied")),
                // One that exists already blocks no more than before.
                None if self.find_live(&requests.object).is_some() || !is_webhook(&requests.object) => None,
                None => wait_for_services(self.client, &services, timeout).await?.map(|(namespace, name)| {
                    format!(
                        "not applied, because Service {namespace}/{name} has no ready endpoint after {} s, and the API server \
                         would refuse every request that the webhook is about; apply again when its pods are ready",
                        timeout.as_secs()
                    )
                }),
            };
            match held {
                Some(why) => results.set_result(requests.object, SendResult::NotSent(why)),
                None => open.push(requests),
            }
        }
        Ok(open)
    }

    /// Repeats the requests that were blocked by webhooks which this run repairs or deletes, and explains what would
    /// repair the other webhooks. Returns the deletions that remain.
    pub(super) async fn retry_blocked(
        &self,
        deleted: Vec<(Phase, ObjectRequests)>,
        results: &mut SendResults,
        counter: &mut ProgressCounter<'_>,
    ) -> Result<Vec<(Phase, ObjectRequests)>, Error> {
        let blocked = results.unanswered_webhooks();
        if blocked.is_empty() {
            return Ok(deleted);
        }
        let (blocking, deleted): (Vec<_>, Vec<_>) =
            deleted.into_iter().partition(|(_, requests)| self.is_blocking(&requests.object, &blocked));
        let repaired = !blocking.is_empty()
            || self.decisions.iter().any(|decision| {
                matches!(decision.request, Some(WriteRequest::Apply { .. }))
                    && self.is_blocking(&decision.action.object, &blocked)
            });
        send_all(self.client, blocking.into_iter().map(|(_, requests)| requests).collect(), results, counter)
            .await?;
        let end = Instant::now() + CONFIGURATION_DELAY;
        while repaired && !results.unanswered_webhooks().is_empty() && Instant::now() < end {
            sleep(POLL_INTERVAL).await;
            let again = self.decisions.iter().filter_map(|decision| {
                let object = &decision.action.object;
                results.find_unanswered(object)?;
                build_requests(self.state, object, decision.request.as_ref()?, self.options)
            });
            let again = again.collect();
            send_all(self.client, again, results, &mut counter.start_again()).await?;
        }
        for decision in self.decisions {
            let object = &decision.action.object;
            let Some(name) = results.find_unanswered(object).map(str::to_owned) else { continue };
            if let Some(why) = explain_blocker(self.client, &name, self.desired).await? {
                results.set_result(
                    object.clone(),
                    SendResult::Failed(format!("webhook {name} blocks it: {why}")),
                );
            }
        }
        Ok(deleted)
    }

    fn find_live(&self, object: &ObjectRef) -> Option<&'r Value> {
        find_live(self.state, &self.desired.cluster, object)
    }

    /// The body that is applied of an object.
    fn applied_body(&self, object: &ObjectRef) -> Option<&'r Value> {
        let decision = self.decisions.iter().find(|decision| decision.action.object == *object)?;
        match &decision.request {
            Some(WriteRequest::Apply { body, .. }) => Some(body),
            _ => None,
        }
    }

    /// Whether the live object configures one of these webhooks.
    fn is_blocking(&self, object: &ObjectRef, webhooks: &BTreeSet<String>) -> bool {
        let there = self.find_live(object).filter(|_| is_webhook(object));
        there.is_some_and(|live| webhook_names(live).iter().any(|name| webhooks.contains(*name)))
    }
}

impl SendResults {
    /// The webhooks that the API server could not call.
    fn unanswered_webhooks(&self) -> BTreeSet<String> {
        self.sent.keys().filter_map(|object| self.find_unanswered(object)).map(str::to_owned).collect()
    }

    /// The webhook that the API server could not call about an object.
    fn find_unanswered(&self, object: &ObjectRef) -> Option<&str> {
        match self.sent.get(object) {
            Some(SendResult::Failed(message)) => parse_unanswered(message),
            _ => None,
        }
    }
}

/// The Services that a webhook configuration or an `APIService` needs. Webhooks with
/// `failurePolicy: Ignore` block nothing.
fn needed_services(body: &Value) -> BTreeSet<ServiceName> {
    let hooks = body.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let blocking = hooks.filter(|hook| hook.get("failurePolicy").is_none_or(|policy| policy != "Ignore"));
    let hooks = blocking.filter_map(|hook| service_name(hook.pointer("/clientConfig/service")?));
    hooks.chain(body.pointer("/spec/service").and_then(service_name)).collect()
}

fn service_name(service: &Value) -> Option<ServiceName> {
    Some((service.get("namespace")?.as_str()?.to_owned(), service.get("name")?.as_str()?.to_owned()))
}

/// The names of the webhooks of a configuration.
fn webhook_names(body: &Value) -> BTreeSet<&str> {
    let hooks = body.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    hooks.filter_map(|hook| hook.get("name")?.as_str()).collect()
}

/// The webhook that an API server could not call, by the message of its refusal.
fn parse_unanswered(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("failed calling webhook \"")?;
    rest.split('"').next()
}

/// Waits until each of these Services is ready, and returns one that is not in time.
async fn wait_for_services(
    client: &Client,
    services: &BTreeSet<ServiceName>,
    timeout: Duration,
) -> Result<Option<ServiceName>, Error> {
    let end = Instant::now() + timeout;
    for service in services {
        while !is_served(client, service).await? {
            if Instant::now() >= end {
                return Ok(Some(service.clone()));
            }
            sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
    Ok(None)
}

/// Whether a Service has a ready endpoint; `true` where the endpoints may not be read.
async fn is_served(client: &Client, (namespace, name): &ServiceName) -> Result<bool, Error> {
    let path = ApiPath::from_version("discovery.k8s.io/v1").in_namespace(namespace).join("endpointslices");
    let call = RepeatableRequest::get(path)
        .with_query("labelSelector", &format!("kubernetes.io/service-name={name}"));
    let slices = match client.request_optional(&call).await {
        Err(Error::Refused(refusal)) if refusal.code == 403 => return Ok(true),
        slices => slices?.unwrap_or_default(),
    };
    let items = slices.get("items").and_then(Value::as_array).into_iter().flatten();
    let mut endpoints = items.filter_map(|slice| slice.get("endpoints")?.as_array()).flatten();
    Ok(endpoints.any(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false))))
}

/// Explains a webhook that blocks objects: its configuration, and what it needs.
async fn explain_blocker(
    client: &Client,
    name: &str,
    desired: &DesiredState<'_>,
) -> Result<Option<String>, Error> {
    for (plural, kind) in [
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    ] {
        let path = ApiPath::from_version("admissionregistration.k8s.io/v1").join(plural);
        let list = client.request_optional(&RepeatableRequest::get(path)).await;
        let list = match list {
            Err(Error::Refused(refusal)) if refusal.code == 403 => return Ok(None),
            list => list?.unwrap_or_default(),
        };
        let mut items = list.get("items").and_then(Value::as_array).into_iter().flatten();
        if let Some(configuration) = items.find(|item| webhook_names(item).contains(name)) {
            let own = configuration.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            return Ok(Some(explain_webhook(&format!("{kind} {own}"), configuration, name, desired)));
        }
    }
    Ok(None)
}

/// Why a webhook does not answer, as far as it is known, and what would repair it.
fn explain_webhook(what: &str, configuration: &Value, name: &str, desired: &DesiredState<'_>) -> String {
    let hooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let mut services = hooks
        .filter(|hook| hook.get("name").is_some_and(|own| own == name))
        .filter_map(|hook| hook.pointer("/clientConfig/service"));
    let Some(service) = services.next() else {
        return format!("{what} calls a webhook that does not answer; repair it, or delete {what}");
    };
    let (namespace, service) = (field_text(service, "namespace"), field_text(service, "name"));
    let advice = match find_backing_workload(namespace, service, desired) {
        Some(workload) => format!(
            "{workload} serves it: where that is blocked as well, exempt it by the webhook's `namespaceSelector` or \
             `objectSelector`, or delete {what} until it runs"
        ),
        None => format!("nothing in the repo serves it: repair it where it is maintained, or delete {what}"),
    };
    format!("{what} calls Service {namespace}/{service}, which does not answer; {advice}")
}

/// The desired workload whose pods a desired Service selects.
fn find_backing_workload<'j>(
    namespace: &str,
    service: &str,
    desired: &'j DesiredState<'_>,
) -> Option<&'j ObjectRef> {
    let mut inside = desired.objects.iter().filter(|(id, _)| id.namespace.as_deref() == Some(namespace));
    let (_, body) =
        inside.clone().find(|(id, _)| id.kind == "Service" && id.group().is_empty() && id.name == service)?;
    let selector = body.pointer("/spec/selector").and_then(Value::as_object)?;
    let backing = inside.find(|(_, body)| {
        let labels = body.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
        labels.is_some_and(|labels| selector.iter().all(|(key, value)| labels.get(key) == Some(value)))
    });
    backing.map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_webhooks_that_may_block_need_their_services() {
        let service = |name: &str| json!({"service": {"namespace": "shop", "name": name}});
        let body = json!({"webhooks": [
            {"name": "a", "clientConfig": service("a")},
            {"name": "b", "clientConfig": service("b"), "failurePolicy": "Ignore"},
            {"name": "c", "clientConfig": {"url": "https://c"}, "failurePolicy": "Fail"},
        ]});
        assert_eq!(needed_services(&body), [("shop".to_owned(), "a".to_owned())].into());
        assert_eq!(webhook_names(&body), ["a", "b", "c"].into());
        let api = json!({"spec": {"service": {"namespace": "shop", "name": "api"}}});
        assert_eq!(needed_services(&api).len(), 1);
    }

    #[test]
    fn an_unanswered_webhook_is_known_by_the_servers_message() {
        let message = "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: \
                     Post \"https://hook.shop.svc:443/?timeout=10s\": service \"hook\" not found";
        assert_eq!(parse_unanswered(message), Some("hook.example.com"));
        assert_eq!(parse_unanswered("admission webhook \"a\" denied the request"), None);
    }
}
