//! The decision about one object in one cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::autoscaled_fields::keep_scaled;
use super::correction::{SeparateApply, apply_separately};
use super::decision_input::{DecisionInput, held_back, retain_live_values};
use super::drift_ignore::{is_below, is_ignored, split_maps};
use super::field_managers::Handover;
use super::live_object::{complete_live, is_deleting};
use super::object_decision::{HandoverWrite, ObjectDecision, WriteRequest, describe_refusal};
use super::overlay::overlay_values;
use super::owned_fields::{is_applied, is_unchanged};
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

/// Decides about a rendered object, given the live one.
pub fn decide_object(
    target: &DecisionInput<'_>,
    live: Option<&Value>,
    rules: &DecisionSettings<'_>,
) -> ObjectDecision {
    let Some(live) = live else { return create_object(target, rules) };
    if let Some(why) = other_version(target.body, live, target.kind) {
        return refused_for(target, why);
    }
    if is_unchanged(target, live, rules) {
        return ObjectDecision {
            action: bare_action(target, ActionKind::Unchanged),
            send: None,
            refused: false,
        };
    }
    // A dump may lack defaults; answers of API servers never do.
    let live = &complete_live(target.kind, live);
    if is_deleting(live) {
        let mut deleting = decide_nothing(target, ActionKind::Skip, DELETING.to_owned());
        deleting.action.outcome = ActionOutcome::NotTried;
        return deleting;
    }
    let owner = find_owner(live, &rules.apply_set.compute_id());
    let is_managed = match owner {
        Owner::Managed => true,
        Owner::Other(_) => rules.is_member()(live) || rules.managers.is_relabelled(live),
        Owner::Unmanaged => false,
    };
    match owner {
        _ if is_managed => update_object(target, live, Handover::FromPeople, ActionKind::Update, rules),
        Owner::Other(who) if !rules.force => {
            let why =
                format!("it belongs to {who}; remove it there first, or adopt it all the same with --force");
            let mut conflict = report_conflict(target, live, why, rules);
            conflict.action.other_apply_set = apply_set_label(live).map(str::to_owned);
            conflict
        }
        _ => adopt_object(target, live, rules),
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

fn create_object(target: &DecisionInput<'_>, rules: &DecisionSettings<'_>) -> ObjectDecision {
    if let Some(reason) = held_back((target.reconcile)(false).as_ref()) {
        return decide_nothing(target, ActionKind::Skip, reason);
    }
    let body = target.cached_create.labelled_body(target.body, rules).clone();
    match target.cached_create.compute_result(target.body, target.kind, rules) {
        Ok(result) => {
            let send = Some(WriteRequest::Apply { body, handed: None, replaces: None });
            ObjectDecision {
                action: Action { result, ..bare_action(target, ActionKind::Create) },
                send,
                refused: false,
            }
        }
        // The API server says what it becomes.
        Err(_) if rules.server => {
            let send = Some(WriteRequest::Apply { body, handed: None, replaces: None });
            ObjectDecision { action: bare_action(target, ActionKind::Create), send, refused: false }
        }
        Err(failure) => refuse_by_failure(target, &failure),
    }
}

/// Decides about an object that is managed by federate, or is adopted.
fn update_object(
    target: &DecisionInput<'_>,
    live: &Value,
    handover: Handover,
    kind: ActionKind,
    rules: &DecisionSettings<'_>,
) -> ObjectDecision {
    let action = (target.reconcile)(true);
    if let Some(reason) = held_back(action.as_ref()) {
        return decide_nothing(target, ActionKind::Skip, reason);
    }
    let mut body = retain_live_values(target, action.as_ref(), live);
    remove_controlled_of(live, &mut body);
    // A full report also shows fields that autoscalers have changed, and sends nothing.
    let note =
        if rules.full { None } else { keep_scaled(target.autoscalers, target.object, live, &mut body) };
    let body = rules.apply_set.with_label(&body);
    let write = rules.write_options(target.kind);
    let handed = rules.managers.hand_over(handover, live, &body, None, &write);
    let before = handed.as_ref().unwrap_or(live);
    let result = match apply_object(Some(before), &body, &write) {
        Ok(result) => result,
        Err(_)
            if rules.server
                && kind == ActionKind::Update
                && is_applied(target.read.unwrap_or(live), &body, None) =>
        {
            live.clone()
        }
        // An estimate, until the API server says what it becomes: with defaults, and with fields that are not known.
        Err(_) if rules.server => {
            let estimate = overlay_values(before, &body);
            overlay_values(&complete_object(target.kind, estimate.clone()), &estimate)
        }
        Err(failure) if kind == ActionKind::Update => {
            return replace_or_refuse(target, live, body, &failure, rules);
        }
        Err(failure) => return refuse_by_failure(target, &failure),
    };
    let note = note.or_else(|| note_kept_address(target, live));
    let whole = SeparateApply { body, handed, result };
    let SeparateApply { body, handed, result } = match separate_ignored(target, live, handover, whole, rules)
    {
        Ok(separate) => separate,
        Err(reason) => return refused_for(target, reason),
    };
    if kind == ActionKind::Update && result == *live {
        return with_note(build_decision(target, ActionKind::Unchanged, live, result, None, rules), note);
    }
    let handed = handed.map(|handed| HandoverWrite::new(live, &handed, &result));
    let send = Some(WriteRequest::Apply { body: Arc::new(body), handed, replaces: None });
    with_note(build_decision(target, kind, live, result, send, rules), note)
}

/// An apply without the fields that it is to leave as they are. Of what people have changed on a managed object, only what
/// is removed is handed over.
fn separate_ignored(
    target: &DecisionInput<'_>,
    live: &Value,
    handover: Handover,
    whole: SeparateApply,
    rules: &DecisionSettings<'_>,
) -> Result<SeparateApply, String> {
    let write = rules.write_options(target.kind);
    let left: BTreeSet<String> = if rules.ignored.is_empty() {
        BTreeSet::new()
    } else {
        let all = split_maps(diff_fields(live, &whole.result, rules), &rules.ignored, live, rules);
        let read = target.read.unwrap_or(live);
        let left = all.into_iter().filter(|diff| is_ignored(&rules.ignored, target.object, read, diff));
        left.map(|diff| diff.path).collect()
    };
    if left.is_empty() {
        if handover != Handover::FromPeople || whole.handed.is_none() {
            return Ok(whole);
        }
        let handed = rules.managers.hand_over(handover, live, &whole.body, Some(&whole.result), &write);
        let result = apply_object(Some(handed.as_ref().unwrap_or(live)), &whole.body, &write);
        let result = result.unwrap_or(whole.result);
        return Ok(SeparateApply { handed, result, body: whole.body });
    }
    let separate = apply_separately(
        live,
        &whole.body,
        &|path| !left.iter().any(|left| is_below(path, left)),
        &|target| rules.managers.hand_over(handover, live, &whole.body, target, &write),
        &write,
    )
    .map_err(|failure| describe_refusal(target.object, &failure))?;
    let changed = split_maps(diff_fields(live, &separate.result, rules), &rules.ignored, live, rules);
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
    target: &DecisionInput<'_>,
    live: &Value,
    body: Value,
    failure: &ApiError,
    rules: &DecisionSettings<'_>,
) -> ObjectDecision {
    match decide_replacement(target.object, target.kind, live, &body, rules) {
        ReplacementDecision::Done { old, created, effect } => {
            let note = format!("{effect}: {}", describe_refusal(target.object, failure));
            let send = Some(WriteRequest::Apply { body: Arc::new(body), handed: None, replaces: Some(old) });
            with_note(build_decision(target, ActionKind::Update, live, created, send, rules), Some(note))
        }
        ReplacementDecision::Possible(how) => {
            let unknown = managed_field_entries(live).next().is_none() && !rules.server;
            let hints = [how.as_str(), if unknown { WITHOUT_MANAGERS } else { "" }];
            let reason = std::iter::once(describe_refusal(target.object, failure))
                .chain(hints.into_iter().filter(|hint| !hint.is_empty()).map(str::to_owned));
            refused_for(target, reason.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Notes that a Service keeps its address where another one is rendered.
fn note_kept_address(target: &DecisionInput<'_>, live: &Value) -> Option<String> {
    if !target.kind.is_builtin("Service") {
        return None;
    }
    let rendered = text_at(target.body, "/spec/clusterIP");
    let keeps = live.pointer("/spec/clusterIP")?.as_str()?;
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
fn adopt_object(target: &DecisionInput<'_>, live: &Value, rules: &DecisionSettings<'_>) -> ObjectDecision {
    let taken = update_object(target, live, Handover::FromFormerOwners, ActionKind::Adopt, rules);
    if taken.send.is_none() {
        return taken;
    }
    let refused = match rules.adopt {
        Some(adopt) => adopt.refusal_to_adopt(&taken.action, &rules.managers),
        None => match (target.reconcile)(false) {
            Some(action) if action.adopts || !matches!(action.op, federate_dialect::SyncOp::Nothing) => None,
            Some(action) => Some(not_adopted(&action)),
            None => Some("it exists already; --adopt if-no-restart would adopt it".to_owned()),
        },
    };
    match refused {
        Some(reason) => report_conflict(target, live, reason, rules),
        None => taken,
    }
}

/// Leaves the object to its owner, and reports how it differs from what is rendered.
fn report_conflict(
    target: &DecisionInput<'_>,
    live: &Value,
    reason: String,
    rules: &DecisionSettings<'_>,
) -> ObjectDecision {
    let mut decision = decide_nothing(target, ActionKind::Conflict, reason);
    decision.action.outcome = ActionOutcome::NotTried;
    let taken = update_object(target, live, Handover::None, ActionKind::Adopt, rules);
    decision.action.diffs = taken.action.diffs.into_iter().filter_map(without_label).collect();
    decision
}

/// Why the control plane does not adopt an object, and which of its settings or of federate's flags would make it.
fn not_adopted(action: &federate_dialect::ControlPlaneAction) -> String {
    let hint = action.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
    format!(
        "it exists already, and its control plane does not adopt it ({}){hint}; --adopt if-no-restart (or \
         always) adopts it all the same",
        action.status
    )
}

fn build_decision(
    target: &DecisionInput<'_>,
    kind: ActionKind,
    live: &Value,
    result: Value,
    send: Option<WriteRequest>,
    rules: &DecisionSettings<'_>,
) -> ObjectDecision {
    let diffs = match kind {
        _ if rules.full => all_diffs(live, &rendered_fields(target, &result, rules), rules),
        ActionKind::Unchanged => Vec::new(),
        _ => diff_fields(live, &result, rules),
    };
    let restarts_pods = kind != ActionKind::Unchanged && restarts_pods(live, &result, rules.rolling);
    let action =
        Action { restarts_pods, diffs, result: rules.readable_result(result), ..bare_action(target, kind) };
    ObjectDecision { action, send, refused: false }
}

/// The fields of the result that are rendered.
fn rendered_fields(target: &DecisionInput<'_>, result: &Value, rules: &DecisionSettings<'_>) -> Value {
    applied_fields(result, &rules.write_options(target.kind))
}

/// Decides about an object that an API server would refuse.
fn refuse_by_failure(target: &DecisionInput<'_>, failure: &ApiError) -> ObjectDecision {
    refused_for(target, describe_refusal(target.object, failure))
}

/// Decides about an object that cannot be applied, for this reason.
fn refused_for(target: &DecisionInput<'_>, reason: String) -> ObjectDecision {
    let mut decision = decide_nothing(target, ActionKind::Skip, reason);
    decision.action.outcome = ActionOutcome::Failed;
    decision.action.error.clone_from(&decision.action.reason);
    ObjectDecision { refused: true, ..decision }
}

fn decide_nothing(target: &DecisionInput<'_>, kind: ActionKind, reason: String) -> ObjectDecision {
    let action = Action { reason: Some(reason), ..bare_action(target, kind) };
    ObjectDecision { action, send: None, refused: false }
}

/// An action without details.
fn bare_action(target: &DecisionInput<'_>, kind: ActionKind) -> Action {
    Action::new(target.cluster, target.object, kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::CachedCreate;
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
            let target = DecisionInput {
                cluster: &ClusterName::from("m1"),
                object: &id,
                body: &service(rendered),
                kind: ResourceKind::find_builtin("v1", "Service").unwrap(),
                cached_create: &CachedCreate::default(),
                autoscalers: &Autoscalers::default(),
                read: None,
                reconcile: &|_| None,
                keeps_applied: false,
            };
            note_kept_address(&target, &service(live))
        };
        let changed = note("10.0.0.2", "10.0.0.1").unwrap();
        assert!(
            changed.starts_with("/spec/clusterIP stays 10.0.0.1, though 10.0.0.2 is rendered"),
            "{changed}"
        );
        assert_eq!((note("10.0.0.1", "10.0.0.1"), note("", "10.0.0.1")), (None, None));
    }
}
