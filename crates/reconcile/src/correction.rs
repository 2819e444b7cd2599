//! Corrects drift, and nothing else.
//!
//! An apply of the whole object would also reset fields that an ignore rule leaves to others. A JSON patch of the
//! drifted fields would not, but it would make federate a second owner by `Update` beside the one by `Apply`, so that
//! the fields would stay after they are no longer rendered. So the applied body has the fields that federate owns
//! with their live values, and the drifted fields with the rendered values ([`extract_applied`]): only these change,
//! and federate owns each of them by `Apply` afterwards. The body contains the resource version, so that an object
//! that another client has changed meanwhile is decided about again.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_managers::TransferFrom;
use super::object_decision::{ObjectDecision, OwnershipTransfer, WriteRequest, describe_refusal};
use super::settings::DecisionSettings;
use super::{ActionKind, ActionOutcome, FieldDiff, diff_fields, without_label, without_last_applied};
use federate_apiserver_model::{ApiError, ResourceKind, WriteOptions, apply_object, extract_applied};
use federate_engine::change::overlay_paths;
use federate_engine::restart::restarts_pods;

/// An apply, and what is transferred before it.
pub(super) struct SeparateApply {
    pub(super) body: Value,
    /// The live object after the transfer, if there is one.
    pub(super) transferred: Option<Value>,
    /// The object after the apply.
    pub(super) result: Value,
}

/// The apply that changes only the fields at selected paths, of those that an apply of `body` changes. `transfer_ownership`
/// transfers the fields that the target lacks, or all where there is no target.
pub(super) fn apply_separately(
    live: &Value,
    body: &Value,
    selects: &dyn Fn(&str) -> bool,
    transfer_ownership: &dyn Fn(Option<&Value>) -> Option<Value>,
    write: &WriteOptions<'_>,
) -> Result<SeparateApply, ApiError> {
    let all = transfer_ownership(None);
    let whole = apply_object(Some(all.as_ref().unwrap_or(live)), body, write)?;
    let target = overlay_paths(live, &whole, selects);
    let transferred = transfer_ownership(Some(&target));
    let before = transferred.as_ref().unwrap_or(live);
    let mut body = extract_applied(before, &target, &whole, write);
    if transferred.is_some()
        && let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut)
    {
        // The transfer has the version that was read, and makes a new one.
        metadata.shift_remove("resourceVersion");
    }
    let result = apply_object(Some(before), &body, write)?;
    Ok(SeparateApply { body, transferred, result })
}

/// Restricts a decision about a managed object to the fields of its differences. `live` is the live object with all
/// defaults; `whole` says that every difference is corrected.
pub(super) fn restrict_to_drift(
    mut decision: ObjectDecision,
    live: &Value,
    kind: &ResourceKind,
    whole: bool,
    settings: &DecisionSettings<'_>,
) -> ObjectDecision {
    let Some(WriteRequest::Apply { body, .. }) = &decision.request else { return decision };
    let write = settings.write_options(kind);
    let drifted: BTreeSet<&str> = decision.action.diffs.iter().map(|diff| diff.path.as_str()).collect();
    let separate = apply_separately(
        live,
        body,
        &|path| is_at_or_below(path, &drifted),
        &|target| settings.managers.transfer_ownership(TransferFrom::People, live, body, target, &write),
        &write,
    );
    match separate {
        // The schema is not known here, and an apply of the whole object changes nothing else.
        Err(_) if settings.dry_run.reaches_servers() && whole => decision,
        Err(failure) => refuse_correction(decision, &failure, settings),
        Ok(SeparateApply { body, transferred, result }) => {
            let changed = diff_fields(live, &result, settings);
            if let Some(other) = find_unexpected_change(&drifted, &changed) {
                return refuse_inseparable(decision, &other);
            }
            decision.action.restarts_pods = restarts_pods(live, &result, settings.rolling);
            let transferred =
                transferred.map(|transferred| OwnershipTransfer::new(live, &transferred, &result));
            decision.action.result = settings.readable_result(result);
            decision.request =
                Some(WriteRequest::Apply { body: body.into(), transfer: transferred, replaces: None });
            decision
        }
    }
}

/// Whether a path is one of the drifted ones, or below one. A mapping drifts as a whole where it is not rendered, and what
/// controllers have in it (the revision of a Deployment) is not shown.
fn is_at_or_below(path: &str, drifted: &BTreeSet<&str>) -> bool {
    let ancestors = path.match_indices('/').skip(1).map(|(end, _)| &path[..end]);
    ancestors.chain([path]).any(|ancestor| drifted.contains(ancestor))
}

/// A field that would change although it has not drifted, or the other way round. What identifies the object to federate
/// and to `kubectl apply` may change as well.
fn find_unexpected_change(drifted: &BTreeSet<&str>, changed: &[FieldDiff]) -> Option<String> {
    let changed: BTreeSet<&str> = changed
        .iter()
        .filter(|diff| {
            let diff = (*diff).clone();
            drifted.contains(diff.path.as_str())
                || without_label(diff).and_then(without_last_applied).is_some()
        })
        .map(|diff| diff.path.as_str())
        .collect();
    drifted.symmetric_difference(&changed).next().map(|path| (*path).to_owned())
}

fn refuse_correction(
    mut decision: ObjectDecision,
    failure: &ApiError,
    settings: &DecisionSettings<'_>,
) -> ObjectDecision {
    decision.action.reason = Some(describe_refusal(&decision.action.object, failure, settings));
    leave_unchanged(decision)
}

fn refuse_inseparable(mut decision: ObjectDecision, path: &str) -> ObjectDecision {
    decision.action.reason = Some(format!(
        "the drifted fields cannot be corrected alone, because {path} would change with them; `federate apply` applies the whole \
             object"
    ));
    leave_unchanged(decision)
}

/// Leaves the object unchanged, which is a failure.
fn leave_unchanged(mut decision: ObjectDecision) -> ObjectDecision {
    decision.action.action = ActionKind::Skip;
    (decision.action.restarts_pods, decision.action.result) = (false, None);
    decision.action.outcome = ActionOutcome::Failed;
    decision.action.error.clone_from(&decision.action.reason);
    ObjectDecision { request: None, refused: true, ..decision }
}
