//! Has API servers say what updates come to before they are made: what they fill in of kinds that only they
//! know, and what their webhooks change, nobody else can tell. An update that comes to nothing is none.

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
        match answer {
            Ok(answer) => {
                if let Some(live) = live(seen, job, decision) {
                    decider.judged(decision, live, answer);
                }
            }
            // It will be told when the update is made.
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The request that tries an update. What hands fields over takes two steps, of which the second cannot be
/// tried.
fn trial(seen: &Seen, decision: &Decision) -> Option<Call> {
    let object = &decision.action.object;
    match &decision.send {
        Some(Send::Apply { body, owners: None, replaces: None })
            if decision.action.action == Deed::Update =>
        {
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
