//! Dry-runs applies on the API server before anything is written: only the server knows its fields and defaults, and
//! what its policies and webhooks change or refuse.
//!
//! Objects that are as they were applied are skipped, and so are objects whose namespace or kind does not exist yet, or
//! whose definition the run changes: the server could only refuse those.

use std::collections::BTreeSet;

use http::Method;
use tokio::task::JoinSet;

use super::client::Client;
use super::cluster_state::ClusterState;
use super::dependencies::{find_blocking, find_live};
use super::kinds::{manifest_for, object_path};
use super::object_requests::{APPLY, JSON_PATCH};
use super::request::RepeatableRequest;
use super::runtime::join_result;
use super::{DesiredState, Error};
use federate_kubernetes::ObjectRef;
use federate_reconcile::cluster::DecisionContext;
use federate_reconcile::{ActionKind, FIELD_MANAGER, ObjectDecision, WriteRequest};

/// Sends the dry runs, and has the objects decided about again by the answers. Returns the objects of which the API
/// server accepts the request that would be sent.
pub(super) async fn send_dry_runs(
    client: &Client,
    desired: &DesiredState<'_>,
    state: &ClusterState,
    decisions: &mut [ObjectDecision],
    context: &DecisionContext<'_>,
) -> Result<BTreeSet<ObjectRef>, Error> {
    let mut under_way = JoinSet::new();
    for (at, call) in build_dry_runs(desired, state, decisions, context) {
        let client = client.clone();
        under_way.spawn(async move { (at, client.request_json(&call).await) });
    }
    let mut accepted = BTreeSet::new();
    while let Some(task) = under_way.join_next().await {
        let (at, answer) = join_result(task)?;
        let Some(decision) = decisions.get_mut(at) else { continue };
        let there = find_live(state, &desired.cluster, &decision.action.object);
        let kind = state.describe_kind(&decision.action.object);
        match answer {
            Ok(answer) => {
                context.decide_by_dry_run(decision, there, &kind, Ok(answer));
                accepted.insert(decision.action.object.clone());
            }
            Err(Error::Refused(refusal)) if refusal.is_final() => {
                context.decide_by_dry_run(decision, there, &kind, Err(refusal.message));
            }
            Err(error @ Error::Ciphertext) => {
                context.decide_by_dry_run(decision, there, &kind, Err(error.to_string()));
            }
            // It may be accepted by the time that it is sent.
            Err(Error::Refused(_)) => {}
            // A server that breaks the connection does so each time that it gets this object.
            Err(Error::Unreachable(why)) => {
                return Err(Error::Unreachable(format!("{why}; gave up at {}", decision.action.object)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(accepted)
}

/// The dry runs, each with the place of its decision.
fn build_dry_runs(
    desired: &DesiredState<'_>,
    state: &ClusterState,
    decisions: &[ObjectDecision],
    context: &DecisionContext<'_>,
) -> Vec<(usize, RepeatableRequest)> {
    // A report says that an object is missing, whatever it would become.
    let creates = !context.only_reports();
    // The API server would refuse ports and addresses that another object still holds.
    let waiting: BTreeSet<&ObjectRef> =
        find_blocking(state, &desired.cluster, decisions).into_values().collect();
    let redefined = redefined_kinds(decisions);
    let calls = decisions.iter().enumerate().filter_map(|(at, decision)| {
        let object = &decision.action.object;
        let Some(WriteRequest::Apply { body, transfer, replaces: None }) = &decision.request else {
            return None;
        };
        let asked = match decision.action.action {
            ActionKind::Create => creates && state.find_obstacle(desired, object).is_none(),
            ActionKind::Update | ActionKind::Adopt => true,
            ActionKind::Unchanged | ActionKind::Conflict | ActionKind::Skip | ActionKind::Delete => false,
        };
        let is_redefined = redefined.contains(&(object.group(), object.kind.as_str()));
        let kind =
            state.kinds.find_kind(object).filter(|_| asked && !waiting.contains(object) && !is_redefined)?;
        let call = RepeatableRequest::new(Method::PATCH, object_path(kind, object))
            .with_query("fieldManager", FIELD_MANAGER)
            .with_hidden_answer(context.settings.encrypted.contains(object));
        let call = match transfer {
            // An apply alone would fail, or keep what it is to remove: its result is patched in.
            Some(transfer) => call.with_body(JSON_PATCH, &transfer.preview).with_dry_run(),
            None => {
                call.with_query("force", "true").with_body(APPLY, &manifest_for(kind, body)).with_dry_run()
            }
        };
        Some((at, call))
    });
    calls.collect()
}

/// The kinds, as group and kind, whose definitions the run changes: the API server would dry-run their objects by the old
/// schema.
fn redefined_kinds(decisions: &[ObjectDecision]) -> BTreeSet<(&str, &str)> {
    let changed = decisions.iter().filter(|d| d.action.object.kind == "CustomResourceDefinition");
    let names = changed.filter_map(|decision| {
        let Some(WriteRequest::Apply { body, .. }) = &decision.request else { return None };
        Some((body.pointer("/spec/group")?.as_str()?, body.pointer("/spec/names/kind")?.as_str()?))
    });
    names.collect()
}
