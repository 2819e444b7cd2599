//! Asks API servers what applies come to before anything is written: which fields they know, what they fill in, and
//! what their policies and webhooks change or refuse, nobody else can tell.
//!
//! Nothing is asked about objects that are as they were applied. Objects that are new are asked about where the run
//! also changes what is there; where it only creates, their creation answers as well.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;
use tokio::task::JoinSet;

use super::call::Call;
use super::client::Client;
use super::depends::{in_the_way, live};
use super::kinds::path_of;
use super::read::{ClusterState, finished};
use super::steps::APPLY;
use super::{ApplyOptions, Decider, DesiredState, DryRun, Error};
use federate_engine::actions::{ActionKind, Decision, MANAGER, Send};
use federate_kubernetes::ObjectRef;

/// Sends dry runs of what was decided, and has it decided anew by the answers. Returns the objects of which the API
/// server takes exactly what would be sent.
pub(super) async fn ask(
    client: &Client,
    job: &DesiredState<'_>,
    seen: &ClusterState,
    decisions: &mut [Decision],
    (decider, how): (&dyn Decider, &ApplyOptions<'_>),
) -> Result<BTreeSet<ObjectRef>, Error> {
    let mut under_way = JoinSet::new();
    for (at, call) in calls(job, seen, decisions, how) {
        let client = client.clone();
        under_way.spawn(async move { (at, client.send::<Value>(&call).await) });
    }
    let mut tried = BTreeSet::new();
    while let Some(task) = under_way.join_next().await {
        let (at, answer) = finished(task)?;
        let Some(decision) = decisions.get_mut(at) else { continue };
        let there = live(seen, &job.cluster, &decision.action.object);
        match answer {
            // Handing fields over is a request of its own before, which removes some: what is known of that stays.
            Ok(_) if hands_over(decision) => {}
            Ok(answer) => {
                decider.answered(decision, seen, there, Ok(answer));
                tried.insert(decision.action.object.clone());
            }
            Err(Error::Refused(refusal)) if refusal.is_final() => {
                decider.answered(decision, seen, there, Err(refusal.message));
            }
            // It may be refused for now only, or only as a dry run: sending it will tell.
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tried)
}

/// The dry runs, each with the place of its decision.
fn calls(
    job: &DesiredState<'_>,
    seen: &ClusterState,
    decisions: &[Decision],
    how: &ApplyOptions<'_>,
) -> Vec<(usize, Call)> {
    let changes = decisions.iter().any(|d| d.send.is_some() && d.action.action != ActionKind::Create);
    let creates = how.dry_run == Some(DryRun::Server) || (changes && how.dry_run.is_none());
    // What another object still holds, the API server would refuse to give.
    let waiting: BTreeSet<&ObjectRef> = in_the_way(seen, &job.cluster, decisions).into_values().collect();
    let call = |decision: &Decision| {
        let object = &decision.action.object;
        let Some(Send::Apply { body, replaces: None, .. }) = &decision.send else { return None };
        let asked = match decision.action.action {
            ActionKind::Create => creates && seen.obstacle(job, object).is_none(),
            ActionKind::Update | ActionKind::Adopt => true,
            ActionKind::Unchanged | ActionKind::Conflict | ActionKind::Skip | ActionKind::Delete => false,
        };
        let kind = seen.kinds.of(object).filter(|_| asked && !waiting.contains(object))?;
        let call = Call::new(Method::PATCH, path_of(kind, object));
        Some(call.query("fieldManager", MANAGER).query("force", "true").body(APPLY, body).dry())
    };
    let calls = decisions.iter().enumerate().filter_map(|(at, decision)| Some((at, call(decision)?)));
    calls.collect()
}

/// Whether fields of another manager become ours first, which is a request of its own.
fn hands_over(decision: &Decision) -> bool {
    matches!(&decision.send, Some(Send::Apply { owners: Some(_), .. }))
}
