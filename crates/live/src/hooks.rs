//! Hooks that run before the other objects: what follows waits until they have ended, and is not applied if one fails,
//! whether the hook was sent by this run or an earlier one.
//!
//! Facts: Helm and Argo CD wait until a hook that is a Job or a Pod has ended; other hooks count as done when they exist.
//! Both run the hooks again with each upgrade and each sync, so that a hook that has failed is never passed over. Here a
//! hook runs again when it changes or is deleted; until then, its failure counts.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::Client;
use super::cluster_state::ClusterState;
use super::desired_state::DesiredState;
use super::kinds::object_path;
use super::order::{Phase, assign_phase};
use super::request::RepeatableRequest;
use super::wait::UnhealthyObject;
use super::{ApplyOptions, Error};
use federate_dialect::readiness::Readiness;
use federate_kubernetes::hooks::{Hook, HookTime};
use federate_kubernetes::{Object, ObjectRef};
use federate_reconcile::PlacedObjects;

/// How long hooks may take without `--wait`, as with Helm.
const HOOK_TIMEOUT: Duration = Duration::from_mins(5);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The desired hooks that run before the other objects, by their phases.
pub(super) fn group_early_hooks<'d>(
    desired: &DesiredState<'d>,
    placed: &PlacedObjects<'_>,
) -> BTreeMap<Phase, Vec<&'d ObjectRef>> {
    let mut hooks: BTreeMap<Phase, Vec<&ObjectRef>> = BTreeMap::new();
    for (object, body) in &desired.objects {
        let Some(Hook { time: time @ HookTime::Before(_), .. }) = Hook::from_body(body) else { continue };
        let phase = assign_phase(object, placed.find_wave(object), Some(time));
        // Namespaces and definitions hold back nothing by being hooks.
        if matches!(phase, Phase::EarlyHooks(..)) {
            hooks.entry(phase).or_default().push(object);
        }
    }
    hooks
}

/// Waits until hooks have ended. Returns the first one that failed, or that has not ended in time. A dry run does not wait,
/// and only looks for failures.
pub(super) async fn find_unhealthy_hook(
    client: &Client,
    state: &ClusterState,
    placed: &PlacedObjects<'_>,
    options: &ApplyOptions<'_>,
    hooks: impl Iterator<Item = &ObjectRef>,
) -> Result<Option<UnhealthyObject>, Error> {
    let timeout = options.server.wait.unwrap_or(HOOK_TIMEOUT);
    let end = Instant::now() + timeout;
    for hook in hooks.filter(|hook| runs_to_an_end(hook)) {
        let Some(kind) = state.kinds.find_kind(hook) else { continue };
        let get = RepeatableRequest::get(object_path(kind, hook))
            .with_hidden_answer(options.encrypted.contains(hook));
        loop {
            let why = match client.request_optional(&get).await? {
                // A hook may be deleted when it has ended.
                None => break,
                Some(body) => match placed.assess_readiness(&Object::from_manifest(body, "")) {
                    Readiness::Ready => break,
                    Readiness::Failed(why) => {
                        let why = format!("{why}; delete it to run it again, or correct it in the repo");
                        return Ok(Some(UnhealthyObject { object: hook.clone(), why, state: None }));
                    }
                    Readiness::InProgress(why) => why,
                },
            };
            if !options.server.dry_run.writes() {
                break;
            }
            let is_interrupted =
                options.server.interrupt.as_ref().is_some_and(|is_interrupted| is_interrupted());
            if Instant::now() >= end || is_interrupted {
                let waited = timeout.saturating_sub(end.saturating_duration_since(Instant::now())).as_secs();
                return Ok(Some(UnhealthyObject {
                    object: hook.clone(),
                    why: format!("has not ended after {waited} s: {why}"),
                    state: Some(why),
                }));
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
