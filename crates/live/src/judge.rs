//! Has API servers decide about updates and adoptions before they are made: which fields they know, what they fill
//! in, and what their webhooks change, nobody else can tell. An update that comes to nothing is none, and what is
//! refused is not sent. What is new is sent at once: nothing that runs is changed by it.

use http::Method;
use serde_json::Value;
use tokio::task::JoinSet;

use super::call::Call;
use super::carry_out::APPLY;
use super::client::Client;
use super::kinds::path_of;
use super::read::{Seen, finished};
use super::{Decider, Error, Job};
use federate_engine::actions::{Decision, Deed, MANAGER, Send};

/// Tries the updates, and decides about them anew by what the server answers.
pub(super) async fn judge(
    client: &Client,
    job: &Job<'_>,
    seen: &Seen,
    decisions: &mut [Decision],
    decider: &dyn Decider,
) -> Result<(), Error> {
    let mut under_way = JoinSet::new();
    for (at, decision) in decisions.iter().enumerate() {
        let Some(call) = trial(seen, decision) else { continue };
        let client = client.clone();
        under_way.spawn(async move { (at, client.send(&call).await) });
    }
    while let Some(task) = under_way.join_next().await {
        let (at, answer) = finished(task)?;
        let Some(decision) = decisions.get_mut(at) else { continue };
        let Some(live) = live(seen, job, decision) else { continue };
        match answer {
            // Handing fields over comes before, which may remove some: what is known of that stays.
            Ok(_) if hands_over(decision) => {}
            Ok(answer) => decider.judged(decision, live, Ok(answer)),
            Err(Error::Refused(refusal)) if refusal.is_final() => {
                decider.judged(decision, live, Err(refusal.message));
            }
            // It will be told when the update is made.
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether fields of another manager become ours first, which is a request of its own.
fn hands_over(decision: &Decision) -> bool {
    matches!(&decision.send, Some(Send::Apply { owners: Some(_), .. }))
}

/// The request that tries an update or an adoption.
fn trial(seen: &Seen, decision: &Decision) -> Option<Call> {
    let object = &decision.action.object;
    match &decision.send {
        Some(Send::Apply { body, .. }) if matches!(decision.action.action, Deed::Update | Deed::Adopt) => {
            let call = Call::new(Method::PATCH, path_of(seen.kinds.of(object)?, object));
            let call = call.query("fieldManager", MANAGER).query("force", "true");
            Some(call.body(APPLY, body).dry())
        }
        _ => None,
    }
}

fn live<'s>(seen: &'s Seen, job: &Job<'_>, decision: &Decision) -> Option<&'s Value> {
    let id = &decision.action.object;
    let found = seen.live.get(&job.cluster, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
    found.map(|object| &object.body)
}
