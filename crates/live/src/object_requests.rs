//! The requests about one object, in order, with the waits between them.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::cluster_state::ClusterState;
use super::kinds::{manifest_for, object_path};
use super::path::ApiPath;
use super::request::RepeatableRequest;
use super::{ApplyOptions, Error};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::object::field_text;
use federate_reconcile::{FIELD_MANAGER, OwnershipTransfer, ReplacedObject, WriteRequest};

pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
/// How long a CustomResourceDefinition may take to be established.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The requests about one object, in order.
pub(super) struct ObjectRequests {
    pub(super) object: ObjectRef,
    calls: Vec<RepeatableRequest>,
    /// The old object that must be gone first: the requests that delete and read it.
    replaces: Option<(RepeatableRequest, RepeatableRequest)>,
    /// The request that reads whether a definition is established.
    establishes: Option<RepeatableRequest>,
    /// The request that reads the `ServiceAccount` without which the object is deleted at once, and its name.
    needs: Option<(RepeatableRequest, String)>,
    /// Whether a missing object is a success.
    may_be_gone: bool,
}

/// Returns the requests that carry out a decision; `None` where the kind is not known.
pub(super) fn build_requests(
    state: &ClusterState,
    object: &ObjectRef,
    request: &WriteRequest,
    options: &ApplyOptions<'_>,
) -> Option<ObjectRequests> {
    let kind = state.kinds.find_kind(object)?;
    let path = object_path(kind, object);
    let is_hidden = options.encrypted.contains(object);
    let mut patch = RepeatableRequest::new(Method::PATCH, path.clone())
        .with_query("fieldManager", FIELD_MANAGER)
        .with_hidden_answer(is_hidden);
    if options.server.dry_run.writes() && (kind.custom.is_some() || kind.is_builtin("Pod")) {
        patch = patch.until_served();
    }
    let is_definition = object.kind == "CustomResourceDefinition" && options.server.dry_run.writes();
    let mut requests = ObjectRequests {
        object: object.clone(),
        calls: Vec::new(),
        replaces: None,
        establishes: None,
        needs: None,
        may_be_gone: matches!(request, WriteRequest::Delete { .. }),
    };
    match request {
        WriteRequest::Apply { body, transfer, replaces } => {
            if let Some(ReplacedObject { uid, resource_version, orphans }) = replaces {
                let policy = if *orphans { "Orphan" } else { "Background" };
                let delete =
                    delete_request(&path, policy, uid, resource_version).with_hidden_answer(is_hidden);
                // A dry run of the new object could only fail, because the old one exists.
                if !options.server.dry_run.writes() {
                    requests.calls.push(delete);
                    return Some(requests);
                }
                let get = RepeatableRequest::get(path.clone()).with_hidden_answer(is_hidden);
                requests.replaces = Some((delete, get));
            }
            if let Some(OwnershipTransfer { entries, resource_version, .. }) = transfer {
                let operations = json!([
                    {"op": "replace", "path": "/metadata/managedFields", "value": entries},
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version},
                ]);
                requests.calls.push(patch.clone().with_body(JSON_PATCH, &operations));
            }
            requests
                .calls
                .push(patch.with_query("force", "true").with_body(APPLY, &manifest_for(kind, body)));
            requests.establishes =
                is_definition.then(|| RepeatableRequest::get(path).with_hidden_answer(is_hidden));
            requests.needs = token_account(object, body).filter(|_| options.server.dry_run.writes());
        }
        WriteRequest::Delete { uid, resource_version } => {
            let delete = delete_request(&path, "Background", uid, resource_version);
            requests.calls.push(delete.with_hidden_answer(is_hidden));
        }
    }
    Some(requests)
}

/// Deletes an object unless it has changed since it was read.
pub(super) fn delete_request(
    path: &ApiPath,
    policy: &str,
    uid: &str,
    resource_version: &str,
) -> RepeatableRequest {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy,
        "preconditions": {"uid": uid, "resourceVersion": resource_version},
    });
    RepeatableRequest::new(Method::DELETE, path.clone()).with_body("application/json", &options)
}

/// The `ServiceAccount` whose token a Secret is to hold.
fn token_account(object: &ObjectRef, body: &Value) -> Option<(RepeatableRequest, String)> {
    let is_token = object.kind == "Secret"
        && body.get("type").is_some_and(|kind| kind == "kubernetes.io/service-account-token");
    let name = body.pointer("/metadata/annotations/kubernetes.io~1service-account.name")?.as_str()?;
    let namespace = object.namespace.as_deref().filter(|_| is_token)?;
    let path = ApiPath::from_version("v1").in_namespace(namespace).join("serviceaccounts").join(name);
    Some((RepeatableRequest::get(path), format!("{namespace}/{name}")))
}

/// Sends the requests about an object, with the waits between them.
pub(super) async fn send_requests(client: &Client, requests: &ObjectRequests) -> Result<(), Error> {
    if let Some((delete, get)) = &requests.replaces {
        client.request_optional(delete).await?;
        until_gone(client, get).await?;
    }
    for call in &requests.calls {
        match client.request_json(call).await {
            Err(error) if requests.may_be_gone && error.is_absent() => {}
            result => drop(result?),
        }
    }
    if let Some((call, name)) = &requests.needs {
        account_exists(client, call, name).await?;
    }
    match &requests.establishes {
        Some(call) => until_established(client, call).await,
        None => Ok(()),
    }
}

/// Waits until an object is gone.
async fn until_gone(client: &Client, call: &RepeatableRequest) -> Result<(), Error> {
    let end = Instant::now() + ESTABLISH_TIMEOUT;
    while client.request_optional(call).await?.is_some() {
        if Instant::now() >= end {
            let seconds = ESTABLISH_TIMEOUT.as_secs();
            return Err(Error::TimedOut(format!(
                "it was deleted to be created again, and still exists after {seconds} s; apply again when it is gone"
            )));
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Fails where the `ServiceAccount` of a token does not exist. One that may not be read may exist.
async fn account_exists(client: &Client, call: &RepeatableRequest, name: &str) -> Result<(), Error> {
    match client.request_optional(call).await {
        Err(Error::Refused(refusal)) if refusal.code == 403 => Ok(()),
        found => match found? {
            Some(_) => Ok(()),
            None => Err(Error::NoEffect(format!(
                "the token controller deletes it, because ServiceAccount {name} does not exist"
            ))),
        },
    }
}

/// The condition of an object with a type and a status.
fn find_condition<'o>(object: &'o Value, kind: &str, status: &str) -> Option<&'o Value> {
    let mut conditions = object.pointer("/status/conditions")?.as_array()?.iter();
    conditions
        .find(|condition| field_text(condition, "type") == kind && field_text(condition, "status") == status)
}

/// Waits until a definition is established.
async fn until_established(client: &Client, call: &RepeatableRequest) -> Result<(), Error> {
    let end = Instant::now() + ESTABLISH_TIMEOUT;
    loop {
        let definition: Value = client.request_json(call).await?;
        if find_condition(&definition, "Established", "True").is_some() {
            return Ok(());
        }
        // Its names stay in use.
        if let Some(refused) = find_condition(&definition, "NamesAccepted", "False") {
            let hidden = "the reason may contain secret values and is not shown";
            let why = if call.secret { hidden } else { field_text(refused, "message") };
            return Err(Error::NoEffect(format!("it is not established: {why}")));
        }
        if Instant::now() >= end {
            return Err(Error::TimedOut(format!(
                "it was not established within {} s",
                ESTABLISH_TIMEOUT.as_secs()
            )));
        }
        sleep(POLL_INTERVAL).await;
    }
}
