//! The decision about one object in one cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::autoscaled::Autoscalers;
use super::cached::CachedCreate;
use super::cluster::prepare;
use super::controlled::remove_controlled_of;
use super::correct::{Separate, apply_separately};
use super::drift::{is_below, is_ignored, split};
use super::field_managers::{FieldManagers, Handover};
use super::overlay::{overlaid, project};
use super::ownership::{Owner, entries, is_member, owner};
use super::replace::{Replaced, Replacement, replacement};
use super::restart::restarts_pods;
use super::unchanged::{is_applied, is_deleting, is_unchanged};
use super::{
    Action, ActionKind, FieldDiff, Inventory, MANAGER, Outcome, all_diffs, diffs, plain, without_label,
    without_last_applied,
};
use crate::change::DigestKey;
use federate_apiserver::managed::read_fields;
use federate_apiserver::{Failure, Kind, Write, applied, applied_fields, brief, complete_object};
use federate_kubernetes::pointer::escape;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_repo::config::Ignore;

/// The status that control planes report where nothing is to be done.
const UP_TO_DATE: &str = "OK";

/// Why nothing is done about an object that is being deleted.
const DELETING: &str = "it is being deleted; apply again when it is gone";

/// What a dump may lack that decides which fields federate takes over.
const WITHOUT_MANAGERS: &str = "the dump does not say who owns which field, so that nothing is taken over in this prediction: \
     dump it with `kubectl get --show-managed-fields -o yaml`";

/// When objects are adopted that exist and are not managed by federate; takes precedence over the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopt {
    /// Never.
    Never,
    /// Where nothing changes.
    IfNoDiff,
    /// Where no pod is replaced.
    IfNoRestart,
    /// Always.
    Always,
}

impl Adopt {
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
pub struct Rules<'r> {
    /// When objects are adopted; by default as their policies say.
    pub adopt: Option<Adopt>,
    /// Whether objects are also adopted from other tools.
    pub force: bool,
    /// Whether objects with immutable changes are deleted and created again.
    pub replace: bool,
    /// Whether fields that are not rendered are differences, too: defaults, status, additions by others.
    pub full: bool,
    /// Whether actions contain the resulting objects.
    pub results: bool,
    /// The `ApplySet` of the managed objects.
    pub inventory: &'r Inventory,
    /// Further kinds that roll out their pod template, as `Kind.group`.
    pub rolling: &'r [String],
    /// The key of the digests that replace values of Secrets.
    pub key: &'r DigestKey,
    /// The time, in RFC 3339 notation with seconds.
    pub now: &'r str,
    /// Whether an API server decides: then nothing is refused here.
    pub server: bool,
    /// The `ApplySet` whose members are taken over.
    pub moved: Option<&'r Inventory>,
    /// The managers whose fields are taken over.
    pub managers: &'r FieldManagers,
    /// Differences that an apply leaves as they are.
    pub left: &'r [Ignore],
}

impl Rules<'_> {
    /// How objects of a kind are written.
    pub(super) fn write<'w>(&'w self, kind: &'w Kind) -> Write<'w> {
        Write { kind, manager: MANAGER, subresource: None, force: true, now: self.now }
    }

    /// Whether an object is a member of the `ApplySet`, or of the one whose members are taken over.
    pub(super) fn is_member(&self) -> impl Fn(&Value) -> bool + use<> {
        let sets: Vec<String> =
            [Some(self.inventory), self.moved].into_iter().flatten().map(Inventory::id).collect();
        move |live| sets.iter().any(|set| is_member(live, set))
    }

    /// The object as it is shown, where results are asked for.
    pub(super) fn shown(&self, object: Value) -> Option<Arc<Value>> {
        self.results.then(|| Arc::new(readable(object, self.key)))
    }
}

/// An object that is rendered for a cluster.
pub struct Target<'w> {
    /// The cluster.
    pub cluster: &'w ClusterName,
    /// Its identity.
    pub object: &'w ObjectRef,
    /// As it is rendered.
    pub body: &'w Value,
    /// Its kind.
    pub kind: &'w Kind,
    /// The result of creating it.
    pub cached_create: &'w CachedCreate,
    /// The autoscalers of the cluster.
    pub(super) autoscalers: &'w Autoscalers,
    /// The live object as it was read, with fields that are not in the schema.
    pub read: Option<&'w Value>,
    /// What its control plane does about it, given whether the live object is managed by it.
    pub reconcile: &'w dyn Fn(bool) -> Option<federate_dialect::Action>,
    /// Whether its control plane surely leaves a managed object alone that is as it was applied.
    pub keeps_applied: bool,
}

/// A decision about an object.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The action, as it is shown.
    pub action: Action,
    /// The request; `None` where nothing is sent.
    pub send: Option<Send>,
    /// Whether nothing is sent because an API server would refuse it: the object must be corrected.
    pub refused: bool,
}

/// A request about an object.
#[derive(Clone, Debug)]
pub enum Send {
    /// The object is applied.
    Apply {
        /// The body.
        body: Arc<Value>,
        /// What is written first, so that the apply removes fields of other managers.
        handed: Option<Handed>,
        /// The object that is deleted first.
        replaces: Option<Replaced>,
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
pub struct Handed {
    /// The entries of `managedFields`.
    pub entries: Value,
    /// The resource version at which they were read.
    pub resource_version: String,
    /// The operations of a JSON patch that has the result of both writes, for a dry run of them.
    pub preview: Value,
}

impl Handed {
    /// The handover that makes the live object `handed`, before an apply that has this result.
    pub(super) fn new(live: &Value, handed: &Value, result: &Value) -> Self {
        let version = live.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        Self {
            entries: handed.pointer("/metadata/managedFields").cloned().unwrap_or_else(|| json!([])),
            resource_version: version.to_owned(),
            preview: preview(live, result),
        }
    }
}

/// The operations that make the result of a live object, as far as an apply may change it.
fn preview(live: &Value, result: &Value) -> Value {
    let mut operations = Vec::new();
    let mut compare = |live: &Value, result: &Value, at: &str, skip: &[&str]| {
        let keys = live.as_object().into_iter().chain(result.as_object()).flat_map(Map::keys);
        let keys: BTreeSet<&String> = keys.filter(|key| !skip.contains(&key.as_str())).collect();
        for key in keys {
            let path = format!("{at}/{}", escape(key));
            match (live.get(key), result.get(key)) {
                (Some(_), None) => operations.push(json!({"op": "remove", "path": path})),
                (before, Some(after)) if before != Some(after) => {
                    operations.push(json!({"op": "add", "path": path, "value": after}));
                }
                _ => {}
            }
        }
    };
    compare(live, result, "", &["apiVersion", "kind", "metadata", "status"]);
    let metadata = |object: &Value| {
        let kept = ["labels", "annotations", "finalizers", "ownerReferences"];
        let fields = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
        let fields = fields.filter(|(key, _)| kept.contains(&key.as_str()));
        Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    compare(&metadata(live), &metadata(result), "/metadata", &[]);
    Value::Array(operations)
}

/// Decides about a rendered object, given the live one.
pub fn decide(target: &Target<'_>, live: Option<&Value>, rules: &Rules<'_>) -> Decision {
    let Some(live) = live else { return create(target, rules) };
    if let Some(why) = other_version(target.body, live, target.kind) {
        return refused_for(target, why);
    }
    if is_unchanged(target, live, rules) {
        return Decision { action: bare(target, ActionKind::Unchanged), send: None, refused: false };
    }
    // A dump may lack defaults; answers of API servers never do.
    let live = &completed(target.kind, live);
    if is_deleting(live) {
        let mut deleting = nothing(target, ActionKind::Skip, DELETING.to_owned());
        deleting.action.outcome = Outcome::NotTried;
        return deleting;
    }
    let update_managed = || update(target, live, Handover::FromPeople, ActionKind::Update, rules);
    match owner(live, &rules.inventory.id()) {
        Owner::Managed => update_managed(),
        Owner::Other(_) if rules.is_member()(live) || rules.managers.relabelled(live) => update_managed(),
        Owner::Other(who) if !rules.force => {
            let why =
                format!("it belongs to {who}; remove it there first, or adopt it all the same with --force");
            conflict(target, live, why, rules)
        }
        Owner::Other(_) | Owner::Unmanaged => adopt(target, live, rules),
    }
}

/// Why a live object cannot be compared with a rendered one: it is in a version with other fields, as a dump may have it.
fn other_version(body: &Value, live: &Value, kind: &Kind) -> Option<String> {
    let version = |object: &Value| object.get("apiVersion").and_then(Value::as_str).map(str::to_owned);
    let (rendered, dumped) = (version(body)?, version(live)?);
    let (group, short) = rendered.split_once('/').unwrap_or(("", &rendered));
    (rendered != dumped).then(|| {
        format!(
            "the dump has it in version {dumped}, which cannot be compared with {rendered}, in which it is rendered; dump it with \
             `kubectl get {}.{short}.{group} -o yaml`",
            kind.plural
        )
    })
}

/// A live object with all its field sets, and with defaults that a dump may lack.
pub(super) fn completed(kind: &Kind, live: &Value) -> Value {
    complete_object(kind, with_fields(live))
}

/// A live object with all its field sets.
pub(super) fn with_fields(live: &Value) -> Value {
    let mut live = live.clone();
    read_fields(&mut live);
    live
}

fn create(target: &Target<'_>, rules: &Rules<'_>) -> Decision {
    if let Some(reason) = held_back((target.reconcile)(false).as_ref()) {
        return nothing(target, ActionKind::Skip, reason);
    }
    let body = target.cached_create.body(target, rules).clone();
    match target.cached_create.result(target, rules) {
        Ok(result) => {
            let send = Some(Send::Apply { body, handed: None, replaces: None });
            Decision { action: Action { result, ..bare(target, ActionKind::Create) }, send, refused: false }
        }
        // The API server says what it becomes.
        Err(_) if rules.server => {
            let send = Some(Send::Apply { body, handed: None, replaces: None });
            Decision { action: bare(target, ActionKind::Create), send, refused: false }
        }
        Err(failure) => refused(target, &failure),
    }
}

/// Decides about an object that is managed by federate, or is adopted.
fn update(
    target: &Target<'_>,
    live: &Value,
    handover: Handover,
    kind: ActionKind,
    rules: &Rules<'_>,
) -> Decision {
    let action = (target.reconcile)(true);
    if let Some(reason) = held_back(action.as_ref()) {
        return nothing(target, ActionKind::Skip, reason);
    }
    let mut body = retained(target, action.as_ref(), live);
    remove_controlled_of(live, &mut body);
    // A full report also shows fields that autoscalers have changed, and sends nothing.
    let leave = |body: &mut Value| target.autoscalers.keep_scaled(target.object, live, body);
    let note = if rules.full { None } else { leave(&mut body) };
    let body = rules.inventory.labelled(&body);
    let write = rules.write(target.kind);
    let handed = rules.managers.hand_over(handover, live, &body, None, &write);
    let before = handed.as_ref().unwrap_or(live);
    let result = match applied(Some(before), &body, &write) {
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
            let estimate = overlaid(before, &body);
            overlaid(&complete_object(target.kind, estimate.clone()), &estimate)
        }
        Err(failure) if kind == ActionKind::Update => return replaced(target, live, body, &failure, rules),
        Err(failure) => return refused(target, &failure),
    };
    let note = note.or_else(|| address(target, live));
    let whole = Separate { body, handed, result };
    let Separate { body, handed, result } = match separated(target, live, handover, whole, rules) {
        Ok(separate) => separate,
        Err(reason) => return refused_for(target, reason),
    };
    if kind == ActionKind::Update && result == *live {
        return noted(shown(target, ActionKind::Unchanged, live, result, None, rules), note);
    }
    let handed = handed.map(|handed| Handed::new(live, &handed, &result));
    let send = Some(Send::Apply { body: Arc::new(body), handed, replaces: None });
    noted(shown(target, kind, live, result, send, rules), note)
}

/// An apply without the fields that it is to leave as they are. Of what people have changed on a managed object, only what
/// is removed is handed over.
fn separated(
    target: &Target<'_>,
    live: &Value,
    handover: Handover,
    whole: Separate,
    rules: &Rules<'_>,
) -> Result<Separate, String> {
    let write = rules.write(target.kind);
    let left: BTreeSet<String> = if rules.left.is_empty() {
        BTreeSet::new()
    } else {
        let is_left =
            |diff: &FieldDiff| is_ignored(rules.left, target.object, target.read.unwrap_or(live), diff);
        let all = split(diffs(live, &whole.result, rules), rules.left, live, rules);
        all.into_iter().filter(is_left).map(|diff| diff.path).collect()
    };
    if left.is_empty() {
        if handover != Handover::FromPeople || whole.handed.is_none() {
            return Ok(whole);
        }
        let handed = rules.managers.hand_over(handover, live, &whole.body, Some(&whole.result), &write);
        let result = applied(Some(handed.as_ref().unwrap_or(live)), &whole.body, &write);
        let result = result.unwrap_or(whole.result);
        return Ok(Separate { handed, result, body: whole.body });
    }
    let hand_over =
        |target: Option<&Value>| rules.managers.hand_over(handover, live, &whole.body, target, &write);
    let holds_left = |path: &str| left.iter().any(|left| is_below(path, left));
    let separate = apply_separately(live, &whole.body, &|path| !holds_left(path), &hand_over, &write)
        .map_err(|failure| refusal(target.object, &failure))?;
    let changed = split(diffs(live, &separate.result, rules), rules.left, live, rules);
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
fn replaced(
    target: &Target<'_>,
    live: &Value,
    body: Value,
    failure: &Failure,
    rules: &Rules<'_>,
) -> Decision {
    match replacement((target.object, target.kind), live, &body, rules) {
        Replacement::Done { old, created, effect } => {
            let note = format!("{effect}: {}", refusal(target.object, failure));
            let send = Some(Send::Apply { body: Arc::new(body), handed: None, replaces: Some(old) });
            noted(shown(target, ActionKind::Update, live, created, send, rules), Some(note))
        }
        Replacement::Possible(how) => {
            let unknown = entries(live).next().is_none() && !rules.server;
            let hints = [how.as_str(), if unknown { WITHOUT_MANAGERS } else { "" }];
            let reason = std::iter::once(refusal(target.object, failure))
                .chain(hints.into_iter().filter(|hint| !hint.is_empty()).map(str::to_owned));
            refused_for(target, reason.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Notes that a Service keeps its address where another one is rendered.
fn address(target: &Target<'_>, live: &Value) -> Option<String> {
    let of = |object: &Value| object.pointer("/spec/clusterIP").and_then(Value::as_str).map(str::to_owned);
    let rendered = of(target.body).filter(|address| target.kind.is("Service") && !address.is_empty())?;
    let keeps = of(live).filter(|address| *address != rendered)?;
    Some(format!(
        "/spec/clusterIP stays {keeps}, though {rendered} is rendered: a Service keeps its address; delete it to give \
         it another"
    ))
}

/// Adds a note to a decision.
fn noted(mut decision: Decision, note: Option<String>) -> Decision {
    decision.action.reason = note;
    decision
}

/// Decides about an object that is not managed by federate.
fn adopt(target: &Target<'_>, live: &Value, rules: &Rules<'_>) -> Decision {
    let taken = update(target, live, Handover::FromFormerOwners, ActionKind::Adopt, rules);
    if taken.send.is_none() {
        return taken;
    }
    let refused = match rules.adopt {
        Some(adopt) => adopt.refusal_to_adopt(&taken.action, rules.managers),
        None => match (target.reconcile)(false) {
            Some(action) if action.adopts || !matches!(action.op, federate_dialect::SyncOp::Nothing) => None,
            Some(action) => Some(not_adopted(&action)),
            None => Some("it exists already; --adopt if-no-restart would adopt it".to_owned()),
        },
    };
    match refused {
        Some(reason) => conflict(target, live, reason, rules),
        None => taken,
    }
}

/// Leaves the object to its owner, and reports how it differs from what is rendered.
fn conflict(target: &Target<'_>, live: &Value, reason: String, rules: &Rules<'_>) -> Decision {
    let mut decision = nothing(target, ActionKind::Conflict, reason);
    decision.action.outcome = Outcome::NotTried;
    let taken = update(target, live, Handover::None, ActionKind::Adopt, rules);
    decision.action.diffs = taken.action.diffs.into_iter().filter_map(without_label).collect();
    decision
}

/// Why the control plane does not adopt an object, and which of its settings or of federate's flags would make it.
fn not_adopted(action: &federate_dialect::Action) -> String {
    let hint = action.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
    format!(
        "it exists already, and its control plane does not adopt it ({}){hint}; --adopt if-no-restart (or \
         always) adopts it all the same",
        action.status
    )
}

/// Why the control plane sends nothing now.
pub(super) fn held_back(action: Option<&federate_dialect::Action>) -> Option<String> {
    let action = action?;
    let holds = matches!(action.op, federate_dialect::SyncOp::Nothing) && action.status != UP_TO_DATE;
    let hint = action.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
    holds.then(|| format!("its control plane holds it back: {}{hint}", action.status))
}

/// The rendered object with the values that the control plane retains from the member: where it would send another
/// value of a field, that one is sent.
pub(super) fn retained(
    target: &Target<'_>,
    action: Option<&federate_dialect::Action>,
    live: &Value,
) -> Value {
    let Some(action) = action else { return target.body.clone() };
    match &action.op {
        federate_dialect::SyncOp::Update(sent) | federate_dialect::SyncOp::Create(sent) => {
            let mut sent = plain(sent);
            prepare(&mut sent);
            project(target.body, &sent)
        }
        // It would send the live object.
        federate_dialect::SyncOp::Nothing => project(target.body, &plain(live)),
        _ => target.body.clone(),
    }
}

fn shown(
    target: &Target<'_>,
    kind: ActionKind,
    live: &Value,
    result: Value,
    send: Option<Send>,
    rules: &Rules<'_>,
) -> Decision {
    let diffs = match kind {
        _ if rules.full => all_diffs(live, &rendered(target, &result, rules), rules),
        ActionKind::Unchanged => Vec::new(),
        _ => diffs(live, &result, rules),
    };
    let restarts_pods = kind != ActionKind::Unchanged && restarts_pods(live, &result, rules.rolling);
    let action = Action { restarts_pods, diffs, result: rules.shown(result), ..bare(target, kind) };
    Decision { action, send, refused: false }
}

/// The fields of the result that are rendered.
fn rendered(target: &Target<'_>, result: &Value, rules: &Rules<'_>) -> Value {
    applied_fields(result, &rules.write(target.kind))
}

fn readable(mut object: Value, key: &DigestKey) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // Field ownership is of no use to readers.
        metadata.remove("managedFields");
    }
    crate::change::hide(&mut [&mut object], key);
    object
}

/// Decides about an object that an API server would refuse.
fn refused(target: &Target<'_>, failure: &Failure) -> Decision {
    refused_for(target, refusal(target.object, failure))
}

/// Decides about an object that cannot be applied, for this reason.
fn refused_for(target: &Target<'_>, reason: String) -> Decision {
    let mut decision = nothing(target, ActionKind::Skip, reason);
    decision.action.outcome = Outcome::Failed;
    decision.action.error.clone_from(&decision.action.reason);
    Decision { refused: true, ..decision }
}

/// Why an API server would refuse an object. Messages about a Secret may contain its values.
pub(super) fn refusal(object: &ObjectRef, failure: &Failure) -> String {
    let why = if object.kind.contains("Secret") {
        let causes = failure.details.get("causes").and_then(Value::as_array);
        let fields = causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str());
        let fields: Vec<&str> = fields.collect();
        format!("{} (the message may contain values of the Secret and is not shown)", fields.join(", "))
    } else {
        brief(&failure.message, &failure.details)
    };
    format!("an API server would refuse it: {why}")
}

fn nothing(target: &Target<'_>, kind: ActionKind, reason: String) -> Decision {
    let action = Action { reason: Some(reason), ..bare(target, kind) };
    Decision { action, send: None, refused: false }
}

/// An action without details.
fn bare(target: &Target<'_>, kind: ActionKind) -> Action {
    Action::of(target.cluster, target.object, kind)
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
            let target = Target {
                cluster: &ClusterName::from("m1"),
                object: &id,
                body: &service(rendered),
                kind: Kind::builtin("v1", "Service").unwrap(),
                cached_create: &CachedCreate::default(),
                autoscalers: &Autoscalers::default(),
                read: None,
                reconcile: &|_| None,
                keeps_applied: false,
            };
            address(&target, &service(live))
        };
        let changed = note("10.0.0.2", "10.0.0.1").unwrap();
        assert!(
            changed.starts_with("/spec/clusterIP stays 10.0.0.1, though 10.0.0.2 is rendered"),
            "{changed}"
        );
        assert_eq!((note("10.0.0.1", "10.0.0.1"), note("", "10.0.0.1")), (None, None));
    }
}
