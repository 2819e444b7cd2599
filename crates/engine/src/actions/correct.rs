//! Corrects drift, and nothing else.
//!
//! An apply of the whole object would also reset fields that an ignore rule leaves to others. A JSON patch of the
//! drifted fields would not, but it would make federate a second owner by `Update` beside the one by `Apply`, so that
//! the fields would stay after they are no longer rendered. So the applied body has the fields that federate owns
//! with their live values, and the drifted fields with the rendered values ([`extract_applied`]): only these change,
//! and federate owns each of them by `Apply` afterwards. The body contains the resource version, so that an object
//! that another client has changed meanwhile is decided about again.

use std::collections::BTreeSet;

use super::decide::{Decision, Rules, Send, refusal};
use super::restart::restarts_pods;
use super::{ActionKind, FieldDiff, Outcome, diffs, without_label};
use crate::change::overlay_paths;
use federate_apiserver::{Failure, Kind, applied, extract_applied};

/// Restricts a decision about a managed object to the fields of its differences. `live` is the live object with all
/// defaults; `whole` says that every difference is corrected.
pub(super) fn corrected(
    mut decision: Decision,
    live: &serde_json::Value,
    (kind, whole): (&Kind, bool),
    rules: &Rules<'_>,
) -> Decision {
    let Some(Send::Apply { body, .. }) = &decision.send else { return decision };
    let write = rules.write(kind);
    let drifted: BTreeSet<&str> = decision.action.diffs.iter().map(|diff| diff.path.as_str()).collect();
    let corrected = applied(Some(live), body, &write).and_then(|whole| {
        let target = overlay_paths(live, &whole, &|path| drifted.contains(path));
        let body = extract_applied(live, &target, &whole, &write);
        Ok((applied(Some(live), &body, &write)?, body))
    });
    match corrected {
        // The schema is not known here, and an apply of the whole object changes nothing else.
        Err(_) if rules.server && whole => decision,
        Err(failure) => refused(decision, &failure),
        Ok((result, body)) => {
            let changed: Vec<FieldDiff> =
                diffs(live, &result, rules.key).into_iter().filter_map(without_label).collect();
            if let Some(other) = unexpected(&drifted, &changed) {
                return inseparable(decision, &other);
            }
            decision.action.restarts_pods = restarts_pods(live, &result, rules.rolling);
            decision.action.result = rules.shown(result);
            decision.send = Some(Send::Apply { body: body.into(), owners: None, replaces: None });
            decision
        }
    }
}

/// A field that would change although it has not drifted, or the other way round.
fn unexpected(drifted: &BTreeSet<&str>, changed: &[FieldDiff]) -> Option<String> {
    let changed: BTreeSet<&str> = changed.iter().map(|diff| diff.path.as_str()).collect();
    drifted.symmetric_difference(&changed).next().map(|path| (*path).to_owned())
}

fn refused(mut decision: Decision, failure: &Failure) -> Decision {
    decision.action.reason = Some(refusal(&decision.action.object, failure));
    leave(decision)
}

fn inseparable(mut decision: Decision, path: &str) -> Decision {
    decision.action.reason = Some(format!(
        "the drifted fields cannot be corrected alone, because {path} would change with them; `federate apply` applies the whole \
             object"
    ));
    leave(decision)
}

/// Leaves the object unchanged, which is a failure.
fn leave(mut decision: Decision) -> Decision {
    decision.action.action = ActionKind::Skip;
    (decision.action.restarts_pods, decision.action.result) = (false, None);
    decision.action.outcome = Outcome::Failed;
    decision.action.error.clone_from(&decision.action.reason);
    Decision { send: None, refused: true, ..decision }
}
