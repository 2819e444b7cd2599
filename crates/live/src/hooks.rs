//! Hooks that run before the other objects: what follows waits until they have ended, and is not applied if one fails.
//!
//! Facts: Helm and Argo CD wait until a hook that is a Job or a Pod has ended; other hooks count as done when they exist.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::Client;
use super::cluster_state::ClusterState;
use super::kinds::object_path;
use super::request::RepeatableRequest;
use super::{ApplyOptions, Error};
use federate_dialect::readiness::Readiness;
use federate_kubernetes::{Object, ObjectRef};
use federate_reconcile::PlacedObjects;

/// How long hooks may take without `--wait`, as with Helm.
const HOOK_TIMEOUT: Duration = Duration::from_mins(5);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until hooks have ended. Returns one that has not or that failed, with the reason.
pub(super) async fn wait_for_hooks(
    client: &Client,
    state: &ClusterState,
    placed: &PlacedObjects<'_>,
    options: &ApplyOptions<'_>,
    hooks: Vec<ObjectRef>,
) -> Result<Option<(ObjectRef, String)>, Error> {
    let timeout = options.server.wait.unwrap_or(HOOK_TIMEOUT);
    let end = Instant::now() + timeout;
    for hook in hooks.into_iter().filter(runs_to_an_end) {
        let Some(kind) = state.kinds.find_kind(&hook) else { continue };
        let get = RepeatableRequest::get(object_path(kind, &hook))
            .with_hidden_answer(options.encrypted.contains(&hook));
        loop {
            let why = match client.request_optional(&get).await? {
                // A hook may delete itself when it has ended.
                None => break,
                Some(body) => match placed.assess_readiness(&Object::from_manifest(body, "")) {
                    Readiness::Ready => break,
                    Readiness::Failed(why) => return Ok(Some((hook, why))),
                    Readiness::InProgress(why) => why,
                },
            };
            let is_interrupted =
                options.server.interrupt.as_ref().is_some_and(|is_interrupted| is_interrupted());
            if Instant::now() >= end || is_interrupted {
                let waited = timeout.saturating_sub(end.saturating_duration_since(Instant::now())).as_secs();
                return Ok(Some((hook, format!("has not ended after {waited} s: {why}"))));
            }
            client.release_slot();
            sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
    Ok(None)
}

/// Whether an object is one that ends.
fn runs_to_an_end(object: &ObjectRef) -> bool {
    matches!((object.group(), object.kind.as_str()), ("batch", "Job") | ("", "Pod"))
}
