//! The requests about one object, in order, with the waits between them.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::call::Call;
use super::client::Client;
use super::kinds::{manifest_for, path_of};
use super::path::ApiPath;
use super::read::ClusterState;
use super::{ApplyOptions, Error};
use federate_engine::actions::{Handed, MANAGER, Replaced, Send};
use federate_kubernetes::ObjectRef;

pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
/// How long a CustomResourceDefinition may take to be established.
const ESTABLISHED: Duration = Duration::from_secs(30);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// The requests about one object, in order.
pub(super) struct Steps {
    pub(super) object: ObjectRef,
    calls: Vec<Call>,
    /// The old object that must be gone first: the requests that delete and read it.
    replaces: Option<(Call, Call)>,
    /// The request that reads whether a definition is established.
    establishes: Option<Call>,
    /// The request that reads the `ServiceAccount` without which the object is deleted at once, and its name.
    needs: Option<(Call, String)>,
    /// Whether a missing object is a success.
    may_be_gone: bool,
}

/// Returns the requests that carry out a decision; `None` where the kind is not known.
pub(super) fn steps(
    state: &ClusterState,
    object: &ObjectRef,
    send: &Send,
    options: &ApplyOptions<'_>,
) -> Option<Steps> {
    let kind = state.kinds.of(object)?;
    let path = path_of(kind, object);
    let patch = || {
        let call = Call::new(Method::PATCH, path.clone()).query("fieldManager", MANAGER);
        let awaited = kind.custom.is_some() || kind.is("Pod");
        if awaited && options.dry_run.is_none() { call.awaited() } else { call }
    };
    let is_definition = object.kind == "CustomResourceDefinition" && options.dry_run.is_none();
    let mut steps = Steps {
        object: object.clone(),
        calls: Vec::new(),
        replaces: None,
        establishes: None,
        needs: None,
        may_be_gone: matches!(send, Send::Delete { .. }),
    };
    match send {
        Send::Apply { body, handed, replaces } => {
            if let Some(Replaced { uid, resource_version, orphans }) = replaces {
                let policy = if *orphans { "Orphan" } else { "Background" };
                let delete = deletion(&path, policy, uid, resource_version);
                // A dry run of the new object could only fail, because the old one exists.
                if options.dry_run.is_some() {
                    steps.calls.push(delete);
                    return Some(steps);
                }
                steps.replaces = Some((delete, Call::get(path.clone())));
            }
            if let Some(Handed { entries, resource_version, .. }) = handed {
                let operations = json!([
                    {"op": "replace", "path": "/metadata/managedFields", "value": entries},
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version},
                ]);
                steps.calls.push(patch().body(JSON_PATCH, &operations));
            }
            steps.calls.push(patch().query("force", "true").body(APPLY, &manifest_for(kind, body)));
            steps.establishes = is_definition.then(|| Call::get(path));
            steps.needs = account(object, body).filter(|_| options.dry_run.is_none());
        }
        Send::Delete { uid, resource_version } => {
            steps.calls.push(deletion(&path, "Background", uid, resource_version));
        }
    }
    Some(steps)
}

/// Deletes an object unless it has changed since it was read.
pub(super) fn deletion(path: &ApiPath, policy: &str, uid: &str, resource_version: &str) -> Call {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy,
        "preconditions": {"uid": uid, "resourceVersion": resource_version},
    });
    Call::new(Method::DELETE, path.clone()).body("application/json", &options)
}

/// The `ServiceAccount` whose token a Secret is to hold.
fn account(object: &ObjectRef, body: &Value) -> Option<(Call, String)> {
    let is_token = object.kind == "Secret"
        && body.get("type").is_some_and(|kind| kind == "kubernetes.io/service-account-token");
    let name = body.pointer("/metadata/annotations/kubernetes.io~1service-account.name")?.as_str()?;
    let namespace = object.namespace.as_deref().filter(|_| is_token)?;
    let path = ApiPath::of_version("v1").in_namespace(namespace).join("serviceaccounts").join(name);
    Some((Call::get(path), format!("{namespace}/{name}")))
}

/// Sends the requests about an object, with the waits between them.
pub(super) async fn send(client: &Client, steps: &Steps) -> Result<(), Error> {
    if let Some((delete, get)) = &steps.replaces {
        client.find(delete).await?;
        until_gone(client, get).await?;
    }
    for call in &steps.calls {
        match client.send(call).await {
            Err(error) if steps.may_be_gone && error.is_absent() => {}
            result => drop(result?),
        }
    }
    if let Some((call, name)) = &steps.needs {
        account_exists(client, call, name).await?;
    }
    match &steps.establishes {
        Some(call) => until_established(client, call).await,
        None => Ok(()),
    }
}

/// Waits until an object is gone.
async fn until_gone(client: &Client, call: &Call) -> Result<(), Error> {
    let end = Instant::now() + ESTABLISHED;
    while client.find(call).await?.is_some() {
        if Instant::now() >= end {
            let seconds = ESTABLISHED.as_secs();
            return Err(Error::Late(format!(
                "it was deleted to be created again, and still exists after {seconds} s; apply again when it is gone"
            )));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Fails where the `ServiceAccount` of a token does not exist. One that may not be read may exist.
async fn account_exists(client: &Client, call: &Call, name: &str) -> Result<(), Error> {
    match client.find(call).await {
        Err(Error::Refused(refusal)) if refusal.code == 403 => Ok(()),
        found => match found? {
            Some(_) => Ok(()),
            None => Err(Error::Late(format!(
                "the token controller deletes it, because ServiceAccount {name} does not exist"
            ))),
        },
    }
}

/// Waits until a definition is established.
async fn until_established(client: &Client, call: &Call) -> Result<(), Error> {
    let end = Instant::now() + ESTABLISHED;
    loop {
        let definition: Value = client.send(call).await?;
        let conditions = || definition.pointer("/status/conditions").and_then(Value::as_array);
        let holds = |condition: &&Value, kind: &str, status: &str| {
            condition.get("type") == Some(&json!(kind)) && condition.get("status") == Some(&json!(status))
        };
        if conditions().into_iter().flatten().any(|condition| holds(&condition, "Established", "True")) {
            return Ok(());
        }
        // Its names stay in use.
        if let Some(refused) = conditions().into_iter().flatten().find(|c| holds(c, "NamesAccepted", "False"))
        {
            let why = refused.get("message").and_then(Value::as_str).unwrap_or_default();
            return Err(Error::Late(format!("it is not established: {why}")));
        }
        if Instant::now() >= end {
            return Err(Error::Late(format!("it was not established within {} s", ESTABLISHED.as_secs())));
        }
        sleep(PAUSE).await;
    }
}
