//! The decision about one object in one cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::autoscalers::Autoscalers;
use super::cached_create::CachedCreate;
use super::controlled_fields::{prepare_body, remove_controlled_of};
use super::correction::{SeparateApply, apply_separately};
use super::drift::{is_below, is_ignored, split_maps};
use super::field_managers::{FieldManagers, Handover};
use super::overlay::{overlay_values, project_values};
use super::owned_fields::{is_applied, is_deleting, is_unchanged};
use super::ownership::{Owner, find_owner, is_member, managed_field_entries};
use super::replacement::{ReplacedObject, ReplacementDecision, decide_replacement};
use super::restart::restarts_pods;
use super::{
    Action, ActionKind, ActionOutcome, ApplySet, FIELD_MANAGER, all_diffs, diff_fields, strip_server_fields,
    without_label, without_last_applied,
};
use crate::change::DigestKey;
use federate_apiserver::managed_fields::read_fields;
use federate_apiserver::values::text_at;
use federate_apiserver::{
    ApiError, ResourceKind, WriteOptions, applied_fields, apply_object, complete_object, shorten_message,
};
use federate_kubernetes::pointer::escape;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_repo::config::DriftIgnoreRule;

/// The status that control planes report where nothing is to be done.
const UP_TO_DATE: &str = "OK";

/// Why nothing is done about an object that is being deleted.
const DELETING: &str = "it is being deleted; apply again when it is gone";

/// What a dump may lack that decides which fields federate takes over.
const WITHOUT_MANAGERS: &str = "the dump does not say who owns which field, so that nothing is taken over in this prediction: \
     dump it with `kubectl get --show-managed-fields -o yaml`";

/// When objects are adopted that exist and are not managed by federate; takes precedence over the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptionMode {
    /// Never.
    Never,
    /// Where nothing changes.
    IfNoDiff,
    /// Where no pod is replaced.
    IfNoRestart,
    /// Always.
    Always,
}

impl AdoptionMode {
    /// Why an object is not adopted, given the action that would adopt it.
    pub(super) fn refusal_to_adopt(self, action: &Action, managers: &FieldManagers) -> Option<String> {
        match self {
            Self::Always => None,
            Self::Never => Some("it exists already, and --adopt never leaves it".to_owned()),
            Self::IfNoDiff => {
                let mut others =
                    action.diffs.iter().cloned().filter_map(without_label).filter_map(without_last_applied);
                // The marks of a control plane mean nothing once it no longer sends the object.
                let different = others.find_map(|diff| managers.without_marks(diff));
                different.map(|diff| format!("it exists already, and differs at {}", diff.path))
            }
            Self::IfNoRestart => action
                .restarts_pods
                .then(|| "it exists already, and adopting it would restart its pods".to_owned()),
        }
    }
}

/// The rules for all decisions of a run.
#[derive(Clone, Debug)]
pub struct DecisionSettings<'r> {
    /// When objects are adopted; by default as their policies say.
    pub adopt: Option<AdoptionMode>,
    /// Whether objects are also adopted from other tools.
    pub force: bool,
    /// Whether objects with immutable changes are deleted and created again.
    pub replace: bool,
    /// Whether fields that are not rendered are differences, too: defaults, status, additions by others.
    pub full: bool,
    /// Whether actions contain the resulting objects.
    pub results: bool,
    /// The `ApplySet` of the managed objects.
    pub apply_set: &'r ApplySet,
    /// Further kinds that roll out their pod template, as `Kind.group`.
    pub rolling: &'r [String],
    /// The key of the digests that replace values of Secrets.
    pub key: &'r DigestKey,
    /// The time, in RFC 3339 notation with seconds.
    pub now: &'r str,
    /// Whether an API server decides: then nothing is refused here.
    pub server: bool,
    /// The `ApplySet` whose members are taken over.
    pub former_apply_set: Option<&'r ApplySet>,
    /// The managers whose fields are taken over.
    pub managers: FieldManagers,
    /// Differences that an apply leaves as they are.
    pub ignored: Vec<DriftIgnoreRule>,
}

impl DecisionSettings<'_> {
    /// How objects of a kind are written.
    pub(super) fn write_options<'w>(&'w self, kind: &'w ResourceKind) -> WriteOptions<'w> {
        WriteOptions { kind, manager: FIELD_MANAGER, subresource: None, force: true, now: self.now }
    }

    /// Whether an object is a member of the `ApplySet`, or of the one whose members are taken over.
    pub(super) fn is_member(&self) -> impl Fn(&Value) -> bool + use<> {
        let sets: Vec<String> = [Some(self.apply_set), self.former_apply_set]
            .into_iter()
            .flatten()
            .map(ApplySet::compute_id)
            .collect();
        move |live| sets.iter().any(|set| is_member(live, set))
    }

    /// The object as it is shown, where results are asked for.
    pub(super) fn readable_result(&self, object: Value) -> Option<Arc<Value>> {
        self.results.then(|| Arc::new(make_readable(object, self.key)))
    }
}

/// An object that is rendered for a cluster.
pub struct DecisionInput<'w> {
    /// The cluster.
    pub cluster: &'w ClusterName,
    /// Its identity.
    pub object: &'w ObjectRef,
    /// As it is rendered.
    pub body: &'w Value,
    /// Its kind.
    pub kind: &'w ResourceKind,
    /// The result of creating it.
    pub cached_create: &'w CachedCreate,
    /// The autoscalers of the cluster.
    pub(super) autoscalers: &'w Autoscalers,
    /// The live object as it was read, with fields that are not in the schema.
    pub read: Option<&'w Value>,
    /// What its control plane does about it, given whether the live object is managed by it.
    pub reconcile: &'w dyn Fn(bool) -> Option<federate_dialect::ControlPlaneAction>,
    /// Whether its control plane surely leaves a managed object alone that is as it was applied.
    pub keeps_applied: bool,
}

/// A decision about an object.
#[derive(Clone, Debug)]
pub struct ObjectDecision {
    /// The action, as it is shown.
    pub action: Action,
    /// The request; `None` where nothing is sent.
    pub send: Option<WriteRequest>,
    /// Whether nothing is sent because an API server would refuse it: the object must be corrected.
    pub refused: bool,
}

/// A request about an object.
#[derive(Clone, Debug)]
pub enum WriteRequest {
    /// The object is applied.
    Apply {
        /// The body.
        body: Arc<Value>,
        /// What is written first, so that the apply removes fields of other managers.
        handed: Option<HandoverWrite>,
        /// The object that is deleted first.
        replaces: Option<ReplacedObject>,
    },
    /// The object is deleted unless it has changed.
    Delete {
        /// Its uid.
        uid: String,
        /// Its resource version.
        resource_version: String,
    },
}

/// A write before an apply that hands fields of other managers over to federate.
#[derive(Clone, Debug)]
pub struct HandoverWrite {
    /// The entries of `managedFields`.
    pub entries: Value,
    /// The resource version at which they were read.
    pub resource_version: String,
    /// The operations of a JSON patch that has the result of both writes, for a dry run of them.
    pub preview: Value,
}

impl HandoverWrite {
    /// The handover that makes the live object `handed`, before an apply that has this result.
    pub(super) fn new(live: &Value, handed: &Value, result: &Value) -> Self {
        let version = live.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        Self {
            entries: handed.pointer("/metadata/managedFields").cloned().unwrap_or_else(|| json!([])),
            resource_version: version.to_owned(),
            preview: preview_operations(live, result),
        }
    }
}

/// The operations that make the result of a live object, as far as an apply may change it.
fn preview_operations(live: &Value, result: &Value) -> Value {
    let mut operations =
        diff_keys(live, result, "", |key| !["apiVersion", "kind", "metadata", "status"].contains(&key));
    let [live, result] = [live, result].map(|object| object.get("metadata").unwrap_or(&Value::Null));
    operations.extend(diff_keys(live, result, "/metadata", |key| {
        ["labels", "annotations", "finalizers", "ownerReferences"].contains(&key)
    }));
    Value::Array(operations)
}

/// The operations that turn the chosen keys of one map into those of the other. `at` is the path of the map.
fn diff_keys(live: &Value, result: &Value, at: &str, is_chosen: impl Fn(&str) -> bool) -> Vec<Value> {
    let mut operations = Vec::new();
    let keys = live.as_object().into_iter().chain(result.as_object()).flat_map(Map::keys);
    for key in keys.filter(|key| is_chosen(key)).collect::<BTreeSet<_>>() {
        let path = format!("{at}/{}", escape(key));
        match (live.get(key), result.get(key)) {
            (Some(_), None) => operations.push(json!({"op": "remove", "path": path})),
            (before, Some(after)) if before != Some(after) => {
                operations.push(json!({"op": "add", "path": path, "value": after}));
            }
            _ => {}
        }
    }
    operations
}

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
            report_conflict(target, live, why, rules)
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

/// A live object with all its field sets, and with defaults that a dump may lack.
pub(super) fn complete_live(kind: &ResourceKind, live: &Value) -> Value {
    complete_object(kind, with_fields(live))
}

/// A live object with all its field sets.
pub(super) fn with_fields(live: &Value) -> Value {
    let mut live = live.clone();
    read_fields(&mut live);
    live
}

fn create_object(target: &DecisionInput<'_>, rules: &DecisionSettings<'_>) -> ObjectDecision {
    if let Some(reason) = held_back((target.reconcile)(false).as_ref()) {
        return decide_nothing(target, ActionKind::Skip, reason);
    }
    let body = target.cached_create.labelled_body(target, rules).clone();
    match target.cached_create.compute_result(target, rules) {
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
    let note = if rules.full { None } else { target.autoscalers.keep_scaled(target.object, live, &mut body) };
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

/// Why the control plane sends nothing now.
pub(super) fn held_back(action: Option<&federate_dialect::ControlPlaneAction>) -> Option<String> {
    let action = action?;
    let holds = matches!(action.op, federate_dialect::SyncOp::Nothing) && action.status != UP_TO_DATE;
    let hint = action.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
    holds.then(|| format!("its control plane holds it back: {}{hint}", action.status))
}

/// The rendered object with the values that the control plane retains from the member: where it would send another
/// value of a field, that one is sent.
pub(super) fn retain_live_values(
    target: &DecisionInput<'_>,
    action: Option<&federate_dialect::ControlPlaneAction>,
    live: &Value,
) -> Value {
    let Some(action) = action else { return target.body.clone() };
    match &action.op {
        federate_dialect::SyncOp::Update(sent) | federate_dialect::SyncOp::Create(sent) => {
            let mut sent = strip_server_fields(sent);
            prepare_body(&mut sent);
            project_values(target.body, &sent)
        }
        // It would send the live object.
        federate_dialect::SyncOp::Nothing => project_values(target.body, &strip_server_fields(live)),
        _ => target.body.clone(),
    }
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

fn make_readable(mut object: Value, key: &DigestKey) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // Field ownership is of no use to readers.
        metadata.remove("managedFields");
    }
    crate::change::hide_secret_values(&mut [&mut object], key);
    object
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

/// Why an API server would refuse an object. Messages about a Secret may contain its values.
pub(super) fn describe_refusal(object: &ObjectRef, failure: &ApiError) -> String {
    let why = if object.kind.contains("Secret") {
        let causes = failure.details.get("causes").and_then(Value::as_array);
        let fields = causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str());
        let fields: Vec<&str> = fields.collect();
        format!("{} (the message may contain values of the Secret and is not shown)", fields.join(", "))
    } else {
        shorten_message(&failure.message, &failure.details)
    };
    format!("an API server would refuse it: {why}")
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

    use super::*;

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
