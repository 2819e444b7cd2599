//! The decision about one object in one cluster.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::autoscaled::Autoscalers;
use super::cluster::prepare;
use super::overlay::{overlaid, project};
use super::ownership::{Owner, handed_over, is_member, owner};
use super::replace::{Replaced, Replacement, replacement};
use super::restart::restarts_pods;
use super::unchanged::is_applied;
use super::{
    Action, ActionKind, Inventory, MANAGER, Outcome, all_diffs, diffs, plain, unmarked, unremembered,
};
use crate::change::DigestKey;
use federate_apiserver::{Failure, Kind, Write, applied, complete, part};
use federate_kubernetes::{ClusterName, ObjectRef};

/// What control planes say of an object about which there is nothing to do.
const SETTLED: &str = "OK";

/// Why nothing is done about an object that is about to go.
const DELETING: &str = "it is being deleted; apply again when it is gone";

/// What is done with objects that are there and not ours, in place of what the dialect says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopt {
    /// They are left.
    Never,
    /// They are taken over where nothing changes.
    IfNoDiff,
    /// They are taken over where no pod is replaced.
    IfNoRestart,
    /// They are taken over.
    Always,
}

impl Adopt {
    /// Why an object is not taken over, given what taking it over would do.
    pub(super) fn objection(self, action: &Action) -> Option<String> {
        match self {
            Self::Always => None,
            Self::Never => Some("it is there already, and --adopt never leaves it".to_owned()),
            Self::IfNoDiff => {
                let different = action.diffs.iter().cloned().filter_map(unmarked).find_map(unremembered);
                different.map(|diff| format!("it is there already, and differs at {}", diff.path))
            }
            Self::IfNoRestart => action
                .restarts_pods
                .then(|| "it is there already, and taking it over would restart its pods".to_owned()),
        }
    }
}

/// By what is decided, for all objects of a run.
#[derive(Clone, Debug)]
pub struct Rules<'r> {
    /// What is done with objects that are not ours; by default what the dialect says.
    pub adopt: Option<Adopt>,
    /// Whether objects are taken from other tools, too.
    pub force: bool,
    /// Whether what cannot be changed is deleted and created anew.
    pub replace: bool,
    /// Whether what nobody rendered is a difference, too: defaults, status, what others have added.
    pub full: bool,
    /// Whether actions tell what objects will be.
    pub results: bool,
    /// What we own.
    pub inventory: &'r Inventory,
    /// Further kinds that roll out their pod template, as `Kind.group`.
    pub rolling: &'r [String],
    /// The key of digests that stand for Secrets' values.
    pub key: &'r DigestKey,
    /// The time, in RFC 3339 notation with seconds.
    pub now: &'r str,
    /// Whether an API server is there to decide what is refused here: then nothing is.
    pub server: bool,
    /// The `ApplySet` whose members become ours.
    pub moved: Option<&'r Inventory>,
}

impl Rules<'_> {
    /// How objects of a kind are written.
    pub(super) fn write<'w>(&'w self, kind: &'w Kind) -> Write<'w> {
        Write { kind, manager: MANAGER, subresource: None, force: true, now: self.now }
    }

    /// Whether an object is a member of our set, or of one whose members become ours.
    pub(super) fn is_member(&self, live: &Value) -> bool {
        [Some(self.inventory), self.moved].into_iter().flatten().any(|set| is_member(live, &set.id()))
    }

    /// An object as it is shown, if it is.
    pub(super) fn shown(&self, object: Value) -> Option<Arc<Value>> {
        self.results.then(|| Arc::new(readable(object, self.key)))
    }
}

/// An object that is wanted in a cluster.
pub struct Target<'w> {
    /// The cluster.
    pub cluster: &'w ClusterName,
    /// Its identity.
    pub object: &'w ObjectRef,
    /// As it is rendered.
    pub body: &'w Value,
    /// Its kind.
    pub kind: &'w Kind,
    /// What it is where it is new.
    pub cached_create: &'w CachedCreate,
    /// Who scales what in the cluster.
    pub(super) autoscalers: &'w Autoscalers,
    /// The live object as it was read, with fields that are not known here.
    pub read: Option<&'w Value>,
    /// What its control plane does about it, if the live object is its own (or is not known to be).
    pub reconcile: &'w dyn Fn(bool) -> Option<federate_dialect::Action>,
}

/// An object where nothing is yet: computed once for all clusters that know its kind alike.
#[derive(Clone, Debug, Default)]
pub struct CachedCreate(OnceLock<Created>);

/// What is applied, and what becomes of it as it is shown.
type Created = (Arc<Value>, Result<Option<Arc<Value>>, Failure>);

impl CachedCreate {
    fn of(&self, wanted: &Target<'_>, rules: &Rules<'_>) -> Created {
        let create = || {
            let body = rules.inventory.labelled(wanted.body);
            let result = applied(None, &body, &rules.write(wanted.kind));
            (Arc::new(body), result.map(|result| rules.shown(result)))
        };
        // What a custom kind looks like is each cluster's own affair.
        if wanted.kind.custom.is_some() { create() } else { self.0.get_or_init(create).clone() }
    }
}

/// What is to be done about an object.
#[derive(Clone, Debug)]
pub struct Decision {
    /// As it is shown.
    pub action: Action,
    /// What is sent; `None` where nothing is.
    pub send: Option<Send>,
    /// Whether nothing is sent because an API server would refuse it: somebody must mend the object.
    pub refused: bool,
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Send {
    /// The object is applied.
    Apply {
        /// What is applied.
        body: Arc<Value>,
        /// The entries of `managedFields` that are put in place first, with the resource version that they
        /// were read at.
        owners: Option<(Value, String)>,
        /// What is deleted first.
        replaces: Option<Replaced>,
    },
    /// The object is deleted, if it is still this one.
    Delete {
        /// Its uid.
        uid: String,
        /// Its resource version.
        resource_version: String,
    },
}

/// Decides about an object that is wanted, given what is there.
pub fn decide(wanted: &Target<'_>, live: Option<&Value>, rules: &Rules<'_>) -> Decision {
    let Some(live) = live else { return create(wanted, rules) };
    // A dump may lack what a server fills in; what it answers never does.
    let live = &complete(wanted.kind, live.clone());
    if live.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null()) {
        let mut deleting = nothing(wanted, ActionKind::Skip, DELETING.to_owned());
        deleting.action.outcome = Outcome::NotTried;
        return deleting;
    }
    match owner(live, &rules.inventory.id()) {
        Owner::Ours => update(wanted, live, live, ActionKind::Update, rules),
        Owner::Other(_) if rules.is_member(live) => update(wanted, live, live, ActionKind::Update, rules),
        Owner::Other(who) if !rules.force => {
            let why = format!("it belongs to {who}; take it out of there first, or force it with --force");
            conflict(wanted, live, why, rules)
        }
        Owner::Other(_) | Owner::Unmanaged => adopt(wanted, live, rules),
    }
}

fn create(wanted: &Target<'_>, rules: &Rules<'_>) -> Decision {
    if let Some(reason) = held_back((wanted.reconcile)(false).as_ref()) {
        return nothing(wanted, ActionKind::Skip, reason);
    }
    let (body, result) = wanted.cached_create.of(wanted, rules);
    match result {
        Ok(result) => {
            let send = Some(Send::Apply { body, owners: None, replaces: None });
            Decision { action: Action { result, ..bare(wanted, ActionKind::Create) }, send, refused: false }
        }
        // What it will be, the API server says.
        Err(_) if rules.server => {
            let send = Some(Send::Apply { body, owners: None, replaces: None });
            Decision { action: bare(wanted, ActionKind::Create), send, refused: false }
        }
        Err(failure) => refused(wanted, &failure),
    }
}

/// The object is ours, or becomes so: `before` is what it is applied to.
fn update(
    wanted: &Target<'_>,
    live: &Value,
    before: &Value,
    deed: ActionKind,
    rules: &Rules<'_>,
) -> Decision {
    let action = (wanted.reconcile)(true);
    if let Some(reason) = held_back(action.as_ref()) {
        return nothing(wanted, ActionKind::Skip, reason);
    }
    let mut body = retained(wanted, action.as_ref(), live);
    // A full report shows what autoscalers made of a field, too; nothing is sent by it.
    let leave = |body: &mut Value| wanted.autoscalers.leave(wanted.object, live, body);
    let note = if rules.full { None } else { leave(&mut body) };
    let body = rules.inventory.labelled(&body);
    let result = match applied(Some(before), &body, &rules.write(wanted.kind)) {
        Ok(result) => result,
        Err(_)
            if rules.server
                && deed == ActionKind::Update
                && is_applied(wanted.read.unwrap_or(live), &body) =>
        {
            live.clone()
        }
        // The API server says what it comes to; until then this is as good as it gets.
        Err(_) if rules.server => overlaid(before, &body),
        Err(failure) if deed == ActionKind::Update => return replaced(wanted, live, body, &failure, rules),
        Err(failure) => return refused(wanted, &failure),
    };
    let note = note.or_else(|| address(wanted, live));
    if deed == ActionKind::Update && result == *live {
        return noted(shown(wanted, ActionKind::Unchanged, live, result, None, rules), note);
    }
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let entries = before.pointer("/metadata/managedFields").filter(|_| !std::ptr::eq(before, live));
    let owners = entries.map(|entries| (entries.clone(), text("/metadata/resourceVersion")));
    let send = Some(Send::Apply { body: Arc::new(body), owners, replaces: None });
    noted(shown(wanted, deed, live, result, send, rules), note)
}

/// An API server would refuse the update of an object of ours.
fn replaced(
    wanted: &Target<'_>,
    live: &Value,
    body: Value,
    failure: &Failure,
    rules: &Rules<'_>,
) -> Decision {
    match replacement((wanted.object, wanted.kind), live, &body, rules) {
        Replacement::Done(old, created) => {
            let note = format!("it is deleted and created anew: {}", refusal(wanted.object, failure));
            let send = Some(Send::Apply { body: Arc::new(body), owners: None, replaces: Some(old) });
            noted(shown(wanted, ActionKind::Update, live, created, send, rules), Some(note))
        }
        Replacement::Possible(how) if how.is_empty() => refused(wanted, failure),
        Replacement::Possible(how) => {
            let mut decision = refused(wanted, failure);
            for text in [&mut decision.action.reason, &mut decision.action.error].into_iter().flatten() {
                *text = format!("{text}; {how}");
            }
            decision
        }
    }
}

/// A Service keeps the address that it has, whatever is rendered.
fn address(wanted: &Target<'_>, live: &Value) -> Option<String> {
    let of = |object: &Value| object.pointer("/spec/clusterIP").and_then(Value::as_str).map(str::to_owned);
    let rendered = of(wanted.body).filter(|address| wanted.kind.is("Service") && !address.is_empty())?;
    let keeps = of(live).filter(|address| *address != rendered)?;
    Some(format!(
        "/spec/clusterIP stays {keeps}, though {rendered} is rendered: a Service keeps its address; delete it to give \
         it another"
    ))
}

/// A decision with what there is to say about it.
fn noted(mut decision: Decision, note: Option<String>) -> Decision {
    decision.action.reason = note;
    decision
}

/// The object is not ours.
fn adopt(wanted: &Target<'_>, live: &Value, rules: &Rules<'_>) -> Decision {
    let handed = handed_over(live);
    let taken = update(wanted, live, handed.as_ref().unwrap_or(live), ActionKind::Adopt, rules);
    if taken.send.is_none() {
        return taken;
    }
    let refused = match rules.adopt {
        Some(adopt) => adopt.objection(&taken.action),
        None => match (wanted.reconcile)(false) {
            Some(action) if action.adopts || !matches!(action.op, federate_dialect::SyncOp::Nothing) => None,
            Some(action) => Some(untaken(&action)),
            None => Some("it is there already; --adopt if-no-restart would take it over".to_owned()),
        },
    };
    match refused {
        Some(reason) => conflict(wanted, live, reason, rules),
        None => taken,
    }
}

/// The object is left to whoever has it; told is what differs from what is rendered.
fn conflict(wanted: &Target<'_>, live: &Value, reason: String, rules: &Rules<'_>) -> Decision {
    let mut decision = nothing(wanted, ActionKind::Conflict, reason);
    decision.action.outcome = Outcome::NotTried;
    let taken = update(wanted, live, live, ActionKind::Adopt, rules);
    decision.action.diffs = taken.action.diffs.into_iter().filter_map(unmarked).collect();
    decision
}

/// Why the control plane does not take an object over, what of its own settings would have it do so, and what
/// of ours.
fn untaken(action: &federate_dialect::Action) -> String {
    let hint = action.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
    format!(
        "it is there already, and its control plane does not take it over ({}){hint}; --adopt if-no-restart (or \
         always) would all the same",
        action.status
    )
}

/// Why the control plane sends nothing now.
fn held_back(action: Option<&federate_dialect::Action>) -> Option<String> {
    let action = action?;
    let holds = matches!(action.op, federate_dialect::SyncOp::Nothing) && action.status != SETTLED;
    let hint = action.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
    holds.then(|| format!("its control plane holds it back: {}{hint}", action.status))
}

/// What is rendered, with what the members own left as it is: where the control plane would send
/// something else for a field, that is sent.
fn retained(wanted: &Target<'_>, action: Option<&federate_dialect::Action>, live: &Value) -> Value {
    let Some(action) = action else { return wanted.body.clone() };
    match &action.op {
        federate_dialect::SyncOp::Update(sent) | federate_dialect::SyncOp::Create(sent) => {
            let mut sent = plain(sent);
            prepare(&mut sent);
            project(wanted.body, &sent)
        }
        // It would send what is there.
        federate_dialect::SyncOp::Nothing => project(wanted.body, &plain(live)),
        _ => wanted.body.clone(),
    }
}

fn shown(
    wanted: &Target<'_>,
    deed: ActionKind,
    live: &Value,
    result: Value,
    send: Option<Send>,
    rules: &Rules<'_>,
) -> Decision {
    let diffs = match deed {
        _ if rules.full => all_diffs(live, &rendered(wanted, &result, rules), rules.key),
        ActionKind::Unchanged => Vec::new(),
        _ => diffs(live, &result, rules.key),
    };
    let restarts_pods = deed != ActionKind::Unchanged && restarts_pods(live, &result, rules.rolling);
    let action = Action { restarts_pods, diffs, result: rules.shown(result), ..bare(wanted, deed) };
    Decision { action, send, refused: false }
}

/// The fields of the result that are rendered.
fn rendered(wanted: &Target<'_>, result: &Value, rules: &Rules<'_>) -> Value {
    part(result, &rules.write(wanted.kind))
}

fn readable(mut object: Value, key: &DigestKey) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // Who owns what says nothing to a reader.
        metadata.remove("managedFields");
    }
    crate::change::hide(&mut [&mut object], key);
    object
}

/// An API server would not take the object.
fn refused(wanted: &Target<'_>, failure: &Failure) -> Decision {
    let mut decision = nothing(wanted, ActionKind::Skip, refusal(wanted.object, failure));
    decision.action.outcome = Outcome::Failed;
    decision.action.error.clone_from(&decision.action.reason);
    Decision { refused: true, ..decision }
}

/// Why an API server would not take an object. What it says of a Secret may hold values of it.
pub(super) fn refusal(object: &ObjectRef, failure: &Failure) -> String {
    let why = if object.kind.contains("Secret") {
        let causes = failure.details.get("causes").and_then(Value::as_array);
        let fields = causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str());
        let fields: Vec<&str> = fields.collect();
        format!("{} (its words may hold values of the Secret and are not shown)", fields.join(", "))
    } else {
        failure.message.clone()
    };
    format!("an API server would refuse it: {why}")
}

fn nothing(wanted: &Target<'_>, deed: ActionKind, reason: String) -> Decision {
    let action = Action { reason: Some(reason), ..bare(wanted, deed) };
    Decision { action, send: None, refused: false }
}

/// An action about which nothing more is known.
fn bare(wanted: &Target<'_>, deed: ActionKind) -> Action {
    Action {
        cluster: wanted.cluster.clone(),
        object: wanted.object.clone(),
        action: deed,
        restarts_pods: false,
        diffs: Vec::new(),
        reason: None,
        outcome: Outcome::Planned,
        error: None,
        result: None,
    }
}
