//! The decision about one object in one cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::autoscaled_fields::keep_scaled;
use super::correction::{SeparateApply, apply_separately};
use super::decision_input::{DecisionInput, control_plane_hold, retain_live_values};
use super::drift_ignore::{is_below, is_ignored, split_maps};
use super::field_managers::TransferFrom;
use super::live_object::{complete_live, is_deleting};
use super::object_decision::{ObjectDecision, OwnershipTransfer, WriteRequest, describe_refusal};
use super::overlay::overlay_values;
use super::owned_fields::{has_applied_fields, is_as_applied};
use super::ownership::{Owner, apply_set_label, find_owner, managed_field_entries};
use super::replacement::{ReplacementDecision, decide_replacement};
use super::settings::DecisionSettings;
use super::{Action, ActionKind, ActionOutcome, all_diffs, diff_fields, without_label};
use federate_apiserver_model::values::text_at;
use federate_apiserver_model::{ApiError, ResourceKind, applied_fields, apply_object, complete_object};
use federate_engine::controlled_fields::remove_controlled_of;
use federate_engine::restart::restarts_pods;

/// Why nothing is done about an object that is being deleted.
const DELETING: &str = "it is being deleted; apply again when it is gone";

/// What a dump may lack that decides which fields federate takes over.
const WITHOUT_MANAGERS: &str = "the dump does not say who owns which field, so that nothing is taken over in this prediction: \
     dump it with `kubectl get --show-managed-fields -o yaml`";

/// Decides about a rendered object, given the live one in its input.
pub fn decide_object(input: &DecisionInput<'_>, settings: &DecisionSettings<'_>) -> ObjectDecision {
    let Some(live) = input.live else { return create_object(input, settings) };
    if let Some(why) = other_version(input.body, live, input.kind) {
        return refused_for(input, why);
    }
    if is_as_applied(input, live, settings) {
        return ObjectDecision {
            action: bare_action(input, ActionKind::Unchanged),
            request: None,
            refused: false,
            is_left: false,
        };
    }
    // A dump may lack defaults; answers of API servers never do.
    let completed = &complete_live(input.kind, live);
    if is_deleting(completed) {
        let mut deleting = decide_nothing(input, ActionKind::Skip, DELETING.to_owned());
        deleting.action.outcome = ActionOutcome::NotTried;
        return deleting;
    }
    let owner = find_owner(completed, &settings.apply_set.compute_id());
    let is_managed = match owner {
        Owner::Managed => true,
        Owner::Other(_) => settings.is_member()(completed) || settings.managers.is_relabelled(completed),
        Owner::Unmanaged => false,
    };
    match owner {
        _ if is_managed => {
            update_object(input, completed, TransferFrom::People, ActionKind::Update, settings)
        }
        Owner::Other(who) if !settings.force => {
            let why = format!("it belongs to {who}; remove it there first, or adopt it anyway with --force");
            let mut conflict = report_conflict(input, completed, why, settings);
            conflict.action.other_apply_set = apply_set_label(completed).map(str::to_owned);
            conflict
        }
        _ => adopt_object(input, completed, settings),
    }
}

/// Why a live object cannot be compared with a rendered one: it is in a version with other fields, as a dump may have it.
fn other_version(body: &Value, live: &Value, kind: &ResourceKind) -> Option<String> {
    let (rendered, dumped) = (body.get("apiVersion")?.as_str()?, live.get("apiVersion")?.as_str()?);
    let (group, short) = rendered.split_once('/').unwrap_or(("", rendered));
    (rendered != dumped).then(|| {
        format!(
            "the dump has it in version {dumped}, which cannot be compared with {rendered}, in which it is rendered; dump it with \
             `kubectl get {}.{short}.{group} -o yaml`",
            kind.plural
        )
    })
}

fn create_object(input: &DecisionInput<'_>, settings: &DecisionSettings<'_>) -> ObjectDecision {
    if let Some(reason) = control_plane_hold(input.control_plane.action_by_marks().as_ref()) {
        return decide_nothing(input, ActionKind::Skip, reason);
    }
    let body = input.cached_create.labelled_body(input.body, settings).clone();
    match input.cached_create.compute_result(input.body, input.kind, settings) {
        Ok(result) => {
            let request = Some(WriteRequest::Apply { body, transfer: None, replaces: None });
            ObjectDecision {
                action: Action { result, ..bare_action(input, ActionKind::Create) },
                request,
                refused: false,
                is_left: false,
            }
        }
        // The API server says what it becomes.
        Err(_) if settings.dry_run.reaches_servers() => {
            let request = Some(WriteRequest::Apply { body, transfer: None, replaces: None });
            ObjectDecision {
                action: bare_action(input, ActionKind::Create),
                request,
                refused: false,
                is_left: false,
            }
        }
        Err(failure) => refuse_by_failure(input, &failure, settings),
    }
}

/// Decides about an object that is managed by federate, or is adopted.
fn update_object(
    input: &DecisionInput<'_>,
    completed: &Value,
    transfer: TransferFrom,
    kind: ActionKind,
    settings: &DecisionSettings<'_>,
) -> ObjectDecision {
    let action = input.control_plane.action_for_managed();
    if let Some(reason) = control_plane_hold(action.as_ref()) {
        return decide_nothing(input, ActionKind::Skip, reason);
    }
    let mut body = retain_live_values(input, action.as_ref(), completed);
    remove_controlled_of(completed, &mut body);
    // A full report also shows fields that autoscalers have changed, and sends nothing.
    let note =
        if settings.full { None } else { keep_scaled(input.autoscalers, input.object, completed, &mut body) };
    let body = settings.apply_set.with_label(&body);
    let write = settings.write_options(input.kind);
    let transferred = settings.managers.transfer_ownership(transfer, completed, &body, None, &write);
    let before = transferred.as_ref().unwrap_or(completed);
    let result = match apply_object(Some(before), &body, &write) {
        Ok(result) => result,
        Err(_)
            if settings.dry_run.reaches_servers()
                && kind == ActionKind::Update
                && has_applied_fields(input.live.unwrap_or(completed), &body, None) =>
        {
            completed.clone()
        }
        // An estimate, until the API server says what it becomes: with defaults, and with fields that are not known.
        Err(_) if settings.dry_run.reaches_servers() => {
            let estimate = overlay_values(before, &body);
            overlay_values(&complete_object(input.kind, estimate.clone()), &estimate)
        }
        Err(failure) if kind == ActionKind::Update => {
            return replace_or_refuse(input, completed, body, &failure, settings);
        }
        Err(failure) => return refuse_by_failure(input, &failure, settings),
    };
    let note = note.or_else(|| note_kept_address(input, completed));
    let whole = SeparateApply { body, transferred, result };
    let SeparateApply { body, transferred, result } =
        match separate_ignored(input, completed, transfer, whole, settings) {
            Ok(separate) => separate,
            Err(reason) => return refused_for(input, reason),
        };
    if kind == ActionKind::Update && result == *completed {
        return with_note(
            build_decision(input, ActionKind::Unchanged, completed, result, None, settings),
            note,
        );
    }
    let transferred = transferred.map(|transferred| OwnershipTransfer::new(completed, &transferred, &result));
    let request = Some(WriteRequest::Apply { body: Arc::new(body), transfer: transferred, replaces: None });
    with_note(build_decision(input, kind, completed, result, request, settings), note)
}

/// An apply without the fields that it is to leave as they are. Of what people have changed on a managed object, only what
/// is removed is transferred.
fn separate_ignored(
    input: &DecisionInput<'_>,
    completed: &Value,
    transfer: TransferFrom,
    whole: SeparateApply,
    settings: &DecisionSettings<'_>,
) -> Result<SeparateApply, String> {
    let write = settings.write_options(input.kind);
    let left: BTreeSet<String> = if settings.ignored.is_empty() {
        BTreeSet::new()
    } else {
        let all = split_maps(
            diff_fields(completed, &whole.result, settings),
            &settings.ignored,
            completed,
            settings,
        );
        let read = input.live.unwrap_or(completed);
        let left = all.into_iter().filter(|diff| is_ignored(&settings.ignored, input.object, read, diff));
        left.map(|diff| diff.path).collect()
    };
    if left.is_empty() {
        if transfer != TransferFrom::People || whole.transferred.is_none() {
            return Ok(whole);
        }
        let transferred = settings.managers.transfer_ownership(
            transfer,
            completed,
            &whole.body,
            Some(&whole.result),
            &write,
        );
        let result = apply_object(Some(transferred.as_ref().unwrap_or(completed)), &whole.body, &write);
        let result = result.unwrap_or(whole.result);
        return Ok(SeparateApply { transferred, result, body: whole.body });
    }
    let separate = apply_separately(
        completed,
        &whole.body,
        &|path| !left.iter().any(|left| is_below(path, left)),
        &|target| settings.managers.transfer_ownership(transfer, completed, &whole.body, target, &write),
        &write,
    )
    .map_err(|failure| describe_refusal(input.object, &failure, settings))?;
    let changed = split_maps(
        diff_fields(completed, &separate.result, settings),
        &settings.ignored,
        completed,
        settings,
    );
    match changed.iter().find(|diff| left.contains(&diff.path)) {
        Some(diff) => Err(format!(
            "`drift.ignore` names {}, which would change with other fields; remove the rule, or set \
             `apply.resetIgnored: true` in federate.yaml",
            diff.path
        )),
        None => Ok(separate),
    }
}

/// Decides about an update of a managed object that an API server would refuse.
fn replace_or_refuse(
    input: &DecisionInput<'_>,
    completed: &Value,
    body: Value,
    failure: &ApiError,
    settings: &DecisionSettings<'_>,
) -> ObjectDecision {
    match decide_replacement(input.object, input.kind, completed, &body, settings) {
        ReplacementDecision::Done { old, created, effect } => {
            let note = format!("{effect}: {}", describe_refusal(input.object, failure, settings));
            let request =
                Some(WriteRequest::Apply { body: Arc::new(body), transfer: None, replaces: Some(old) });
            with_note(
                build_decision(input, ActionKind::Update, completed, created, request, settings),
                Some(note),
            )
        }
        ReplacementDecision::Possible(how) => {
            let unknown =
                managed_field_entries(completed).next().is_none() && !settings.dry_run.reaches_servers();
            let hints = [how.as_str(), if unknown { WITHOUT_MANAGERS } else { "" }];
            let reason = std::iter::once(describe_refusal(input.object, failure, settings))
                .chain(hints.into_iter().filter(|hint| !hint.is_empty()).map(str::to_owned));
            refused_for(input, reason.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Notes that a Service keeps its address where another one is rendered.
fn note_kept_address(input: &DecisionInput<'_>, completed: &Value) -> Option<String> {
    if !input.kind.is_builtin("Service") {
        return None;
    }
    let rendered = text_at(input.body, "/spec/clusterIP");
    let keeps = completed.pointer("/spec/clusterIP")?.as_str()?;
    (!rendered.is_empty() && keeps != rendered).then(|| {
        format!(
            "/spec/clusterIP stays {keeps}, though {rendered} is rendered: a Service keeps its address; delete it to \
             give it another"
        )
    })
}

/// Adds a note to a decision.
fn with_note(mut decision: ObjectDecision, note: Option<String>) -> ObjectDecision {
    decision.action.reason = note;
    decision
}

/// Decides about an object that is not managed by federate.
fn adopt_object(
    input: &DecisionInput<'_>,
    completed: &Value,
    settings: &DecisionSettings<'_>,
) -> ObjectDecision {
    let taken = update_object(input, completed, TransferFrom::FormerOwners, ActionKind::Adopt, settings);
    if taken.request.is_none() {
        return taken;
    }
    let forbidden = settings.adopt.map(|adopt| adopt.refusal_to_adopt(&taken.action, &settings.managers));
    let by_plane = input.control_plane.action_by_marks();
    let is_adopted = match (&forbidden, &by_plane) {
        (Some(forbidden), _) => forbidden.is_none(),
        (None, Some(action)) => action.adopts || !matches!(action.op, federate_dialect::SyncOp::Nothing),
        (None, None) => false,
    };
    if is_adopted {
        return taken;
    }
    // What would be taken away from others differs, too.
    let is_same = taken.action.diffs.iter().cloned().all(|diff| without_label(diff).is_none());
    let mut left = report_conflict(input, completed, String::new(), settings);
    left.is_left = true;
    let action = &mut left.action;
    if is_same {
        // What is as it is rendered is in conflict with nothing.
        (action.action, action.outcome) = (ActionKind::Unchanged, ActionOutcome::Planned);
        action.diffs.clear();
    }
    let reason = forbidden.flatten().unwrap_or_else(|| not_adopted(by_plane.as_ref(), is_same));
    action.reason = Some(reason);
    left
}

/// Leaves the object to its owner, and reports how it differs from what is rendered.
fn report_conflict(
    input: &DecisionInput<'_>,
    completed: &Value,
    reason: String,
    settings: &DecisionSettings<'_>,
) -> ObjectDecision {
    let mut decision = decide_nothing(input, ActionKind::Conflict, reason);
    decision.action.outcome = ActionOutcome::NotTried;
    let taken = update_object(input, completed, TransferFrom::NoManager, ActionKind::Adopt, settings);
    decision.action.diffs = taken.action.diffs.into_iter().filter_map(without_label).collect();
    decision
}

/// Why an object is not adopted, and which setting of its control plane, if it has one, or flag of federate would make it.
fn not_adopted(by_plane: Option<&federate_dialect::ControlPlaneAction>, is_same: bool) -> String {
    let [state, mode] = if is_same { [", as it is rendered", "if-no-diff"] } else { ["", "if-no-restart"] };
    let Some(action) = by_plane else {
        return format!(
            "it exists already{state}, and federate does not manage it; --adopt {mode} would adopt it"
        );
    };
    let hint = action.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
    format!(
        "it exists already{state}, and its control plane does not adopt it ({}){hint}; --adopt {mode} (or \
         always) adopts it anyway",
        action.status
    )
}

fn build_decision(
    input: &DecisionInput<'_>,
    kind: ActionKind,
    completed: &Value,
    result: Value,
    request: Option<WriteRequest>,
    settings: &DecisionSettings<'_>,
) -> ObjectDecision {
    let diffs = match kind {
        _ if settings.full => all_diffs(completed, &rendered_fields(input, &result, settings), settings),
        ActionKind::Unchanged => Vec::new(),
        _ => diff_fields(completed, &result, settings),
    };
    let restarts_pods = kind != ActionKind::Unchanged && restarts_pods(completed, &result, settings.rolling);
    let action =
        Action { restarts_pods, diffs, result: settings.readable_result(result), ..bare_action(input, kind) };
    ObjectDecision { action, request, refused: false, is_left: false }
}

/// The fields of the result that are rendered.
fn rendered_fields(input: &DecisionInput<'_>, result: &Value, settings: &DecisionSettings<'_>) -> Value {
    applied_fields(result, &settings.write_options(input.kind))
}

/// Decides about an object that an API server would refuse.
fn refuse_by_failure(
    input: &DecisionInput<'_>,
    failure: &ApiError,
    settings: &DecisionSettings<'_>,
) -> ObjectDecision {
    refused_for(input, describe_refusal(input.object, failure, settings))
}

/// Decides about an object that cannot be applied, for this reason.
fn refused_for(input: &DecisionInput<'_>, reason: String) -> ObjectDecision {
    let mut decision = decide_nothing(input, ActionKind::Skip, reason);
    decision.action.outcome = ActionOutcome::Failed;
    decision.action.error.clone_from(&decision.action.reason);
    ObjectDecision { refused: true, ..decision }
}

fn decide_nothing(input: &DecisionInput<'_>, kind: ActionKind, reason: String) -> ObjectDecision {
    let action = Action { reason: Some(reason), ..bare_action(input, kind) };
    ObjectDecision { action, request: None, refused: false, is_left: false }
}

/// An action without details.
fn bare_action(input: &DecisionInput<'_>, kind: ActionKind) -> Action {
    Action::new(input.cluster, input.object, kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::CachedCreate;
    use super::super::decision_input::NoControlPlane;
    use super::*;
    use federate_engine::autoscalers::Autoscalers;
    use federate_kubernetes::{ClusterName, ObjectRef};

    #[test]
    fn a_service_keeps_its_address_and_the_decision_says_so() {
        let service =
            |address: &str| json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": address}});
        let id = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "s".to_owned(),
        };
        let note = |rendered: &str, live: &str| {
            let input = DecisionInput {
                cluster: &ClusterName::from("m1"),
                object: &id,
                body: &service(rendered),
                kind: ResourceKind::find_builtin("v1", "Service").unwrap(),
                cached_create: &CachedCreate::default(),
                autoscalers: &Autoscalers::default(),
                live: None,
                control_plane: &NoControlPlane,
                keeps_applied: false,
            };
            note_kept_address(&input, &service(live))
        };
        let changed = note("10.0.0.2", "10.0.0.1").unwrap();
        assert!(
            changed.starts_with("/spec/clusterIP stays 10.0.0.1, though 10.0.0.2 is rendered"),
            "{changed}"
        );
        assert_eq!((note("10.0.0.1", "10.0.0.1"), note("", "10.0.0.1")), (None, None));
    }
}
