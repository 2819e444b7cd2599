//! Putting back what drifted, and nothing else.
//!
//! To apply the whole object would also put back what an ignore rule leaves to others. A JSON patch of the
//! drifted fields would not; but what a patch writes belongs to federate as one who updates, beside
//! federate as one who applies, and would stay for ever once it is no longer rendered. So what is applied
//! is what we have applied before and what runs as it is rendered, with the values that run, and the drifted
//! fields with those that are rendered ([`extract_applied`]): no field changes but these, and each is ours afterwards,
//! as after `apply`. The resource version goes with it, so that what somebody changed after it was read is
//! decided about anew.

use std::collections::BTreeSet;

use super::decide::{Decision, Rules, Send, refusal};
use super::restart::restarts_pods;
use super::{ActionKind, FieldDiff, Outcome, diffs, unmarked};
use crate::change::overlay_paths;
use federate_apiserver::{Failure, Kind, applied, extract_applied};

/// Makes a decision about an object of ours one that puts back the fields of its differences only.
/// `live` is the object as it runs, with all that a server fills in; `whole` says that everything that differs is put
/// back.
pub(super) fn corrected(
    mut decision: Decision,
    live: &serde_json::Value,
    (kind, whole): (&Kind, bool),
    rules: &Rules<'_>,
) -> Decision {
    let Some(Send::Apply { body, .. }) = &decision.send else { return decision };
    let write = rules.write(kind);
    let drifted: BTreeSet<&str> = decision.action.diffs.iter().map(|diff| diff.path.as_str()).collect();
    let amended = applied(Some(live), body, &write).and_then(|whole| {
        let target = overlay_paths(live, &whole, &|path| drifted.contains(path));
        let body = extract_applied(live, &target, &whole, &write);
        Ok((applied(Some(live), &body, &write)?, body))
    });
    match amended {
        // Only the API server knows the object, and an apply of all of it puts back nothing else.
        Err(_) if rules.server && whole => decision,
        Err(failure) => refused(decision, &failure),
        Ok((result, body)) => {
            let changed: Vec<FieldDiff> =
                diffs(live, &result, rules.key).into_iter().filter_map(unmarked).collect();
            if let Some(other) = odd(&drifted, &changed) {
                return inseparable(decision, &other);
            }
            decision.action.restarts_pods = restarts_pods(live, &result, rules.rolling);
            decision.action.result = rules.shown(result);
            decision.send = Some(Send::Apply { body: body.into(), owners: None, replaces: None });
            decision
        }
    }
}

/// A field that would change though it has not drifted, or would not though it has.
fn odd(drifted: &BTreeSet<&str>, changed: &[FieldDiff]) -> Option<String> {
    let changed: BTreeSet<&str> = changed.iter().map(|diff| diff.path.as_str()).collect();
    drifted.symmetric_difference(&changed).next().map(|path| (*path).to_owned())
}

fn refused(mut decision: Decision, failure: &Failure) -> Decision {
    decision.action.reason = Some(refusal(&decision.action.object, failure));
    left(decision)
}

fn inseparable(mut decision: Decision, path: &str) -> Decision {
    decision.action.reason =
        Some(format!("what drifted cannot be put back alone, because of {path}; `federate apply` can"));
    left(decision)
}

/// It stays as it is, which is a failure.
fn left(mut decision: Decision) -> Decision {
    decision.action.action = ActionKind::Skip;
    (decision.action.restarts_pods, decision.action.result) = (false, None);
    decision.action.outcome = Outcome::Failed;
    decision.action.error.clone_from(&decision.action.reason);
    Decision { send: None, refused: true, ..decision }
}
