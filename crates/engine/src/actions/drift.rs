//! Drift: what runs otherwise than it is rendered, and is nobody's good right to have changed.
//!
//! Facts: what autoscalers decide about is not applied (`autoscaled`). What others add (defaults, sidecars, annotations such as `restartedAt`) is in
//! no rendered field and never differs.

use serde_json::Value;

use super::cluster::Kinds;
use super::correct::corrected;
use super::decide::{Decision, Rules};
use super::{ActionKind, FieldDiff, Outcome, steps, unmarked};
use federate_apiserver::{Kind, complete};
use federate_kubernetes::{Cluster, Live, Object, ObjectRef};
use federate_repo::config::Ignore;

/// What counts as drift, and what is done about it.
#[derive(Clone, Debug)]
pub struct Drift<'d> {
    /// What does not count.
    pub ignore: &'d [Ignore],
    /// Whether it is put back.
    pub correct: bool,
}

/// What is known of a cluster.
pub(super) struct Known<'k> {
    pub(super) cluster: &'k Cluster,
    pub(super) live: &'k Live,
    pub(super) kind: &'k Kinds<'k>,
    pub(super) rules: &'k Rules<'k>,
}

impl Known<'_> {
    fn object(&self, id: &ObjectRef) -> Option<&Object> {
        self.live.get(&self.cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name)
    }
}

impl Drift<'_> {
    /// The decision about an object that is wanted, as far as there is drift; with nothing to send unless
    /// that is to be put back.
    pub(super) fn wanted(&self, decision: Decision, known: &Known<'_>) -> Option<Decision> {
        match decision.action.action {
            _ if decision.refused => Some(decision),
            ActionKind::Create => self.whole(decision, "it is missing"),
            ActionKind::Update | ActionKind::Adopt | ActionKind::Unchanged => self.fields(decision, known),
            // What is wanted and about to go is as good as missing.
            ActionKind::Skip if decision.action.outcome == Outcome::NotTried => {
                let reason = decision.action.reason.clone().unwrap_or_default();
                self.whole(decision, &reason)
            }
            ActionKind::Delete | ActionKind::Conflict | ActionKind::Skip => None,
        }
    }

    /// The decision about an object of ours that is not wanted. `may` is what may be done about it.
    pub(super) fn surplus(&self, decision: Decision, may: Option<Decision>) -> Option<Decision> {
        if decision.action.action != ActionKind::Delete {
            return None;
        }
        let decision = self.whole(decision, "it is no longer wanted")?;
        let kept = |mut decision: Decision| {
            decision.action.action = ActionKind::Skip;
            let why = "it is no longer wanted, and --no-prune keeps it";
            decision.action.reason = Some(why.to_owned());
            Decision { send: None, ..decision }
        };
        match may {
            _ if !self.correct => Some(decision),
            Some(may) if may.send.is_some() => Some(decision),
            Some(may) => Some(may),
            None => Some(kept(decision)),
        }
    }

    /// A whole object is there or is not. Rules that name fields or managers say nothing about that.
    fn whole(&self, mut decision: Decision, reason: &str) -> Option<Decision> {
        let about_all = |rule: &&Ignore| rule.paths.is_empty() && rule.managers.is_empty();
        if self.ignore.iter().filter(about_all).any(|rule| names(rule, &decision.action.object)) {
            return None;
        }
        decision.action.reason = Some(reason.to_owned());
        decision.send = decision.send.filter(|_| self.correct);
        Some(decision)
    }

    fn fields(&self, mut decision: Decision, known: &Known<'_>) -> Option<Decision> {
        let id = decision.action.object.clone();
        let there = known.object(&id)?;
        let kind = (known.kind)(&id);
        let diffs = std::mem::take(&mut decision.action.diffs).into_iter().filter_map(unmarked);
        let counts = |diff: &FieldDiff| {
            let told = !filled(&kind, diff) && !is_nothing(diff);
            told && !self.ignore.iter().any(|rule| ignores(rule, there, diff))
        };
        let diffs: Vec<FieldDiff> = diffs.collect();
        let all = diffs.len();
        decision.action.diffs = diffs.into_iter().filter(counts).collect();
        let whole = decision.action.diffs.len() == all;
        if decision.action.diffs.is_empty() {
            return None;
        }
        let ours = decision.action.action != ActionKind::Adopt;
        decision.action.action = ActionKind::Update;
        if !self.correct {
            decision.send = None;
            return Some(decision);
        }
        if !ours {
            decision.action.action = ActionKind::Conflict;
            decision.action.outcome = Outcome::NotTried;
            decision.action.reason = Some(
                "it is not ours, so that nothing is put back; `federate apply` says what would take it over"
                    .to_owned(),
            );
            (decision.action.restarts_pods, decision.action.result) = (false, None);
            return Some(Decision { send: None, ..decision });
        }
        Some(corrected(decision, &complete(&kind, there.body.clone()), (&kind, whole), known.rules))
    }
}

/// Whether a field may be what the server filled in: of a kind that we know nothing of, nobody else can tell,
/// and pods are given more at their admission, such as tolerations.
fn filled(kind: &Kind, diff: &FieldDiff) -> bool {
    (!kind.is_known() || kind.is("Pod")) && diff.desired.is_none()
}

/// Whether there is nothing on both sides: servers keep some empty lists as null.
fn is_nothing(diff: &FieldDiff) -> bool {
    let none = |value: &Option<Value>| {
        value.as_ref().is_some_and(|value| value.is_null() || value.as_array().is_some_and(Vec::is_empty))
    };
    none(&diff.desired) && none(&diff.live)
}

/// Whether a rule is about an object.
fn names(rule: &Ignore, object: &ObjectRef) -> bool {
    let kind = super::inventory::group_kind(object);
    any(&rule.kinds, &|name| name == object.kind || name == kind)
        && any(&rule.names, &|name| name == object.name || name == object.path())
}

/// Whether a rule says that a difference is no drift.
fn ignores(rule: &Ignore, live: &Object, diff: &FieldDiff) -> bool {
    let below = |around: &str, path: &str| {
        let rest = path.strip_prefix(around.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
    };
    let pointer = || steps::pointer(&diff.path, &live.body);
    names(rule, &live.id)
        && any(&rule.paths, &|path| {
            below(path, &diff.path) || pointer().is_some_and(|pointer| below(path, &pointer))
        })
        && any(&rule.managers, &|name| diff.manager.as_deref() == Some(name))
}

/// An empty list names everything.
fn any(list: &[String], is: &dyn Fn(&str) -> bool) -> bool {
    list.is_empty() || list.iter().any(|item| is(item))
}
