//! Drift: differences between live and rendered objects that no other controller is entitled to.
//!
//! Facts: fields that autoscalers own are not applied (`autoscaled`). Additions by controllers (defaults, sidecars) and
//! requests to do something once, such as the annotation `restartedAt`, are not in rendered fields and never differ. What
//! people have added is taken over and then differs (`field_managers`).

use serde_json::Value;

use super::blame::Blame;
use super::cluster::Kinds;
use super::correct::corrected;
use super::decide::{Decision, completed};
use super::{ActionKind, FieldDiff, Outcome, Rules, Writer, steps, without_label, without_last_applied};
use federate_apiserver::Kind;
use federate_kubernetes::{Cluster, Live, Object, ObjectRef};
use federate_repo::config::Ignore;

/// What counts as drift, and whether it is corrected.
#[derive(Clone, Debug)]
pub struct Drift<'d> {
    /// Differences that do not count.
    pub ignore: &'d [Ignore],
    /// Whether drift is corrected.
    pub correct: bool,
}

/// A cluster, as decisions see it.
pub(super) struct Known<'a, 'k> {
    pub(super) cluster: &'a Cluster,
    pub(super) live: &'a Live,
    pub(super) kind: &'a Kinds<'k>,
    pub(super) rules: &'a Rules<'a>,
    /// Whether the cluster has the `ApplySet`, so that a managed object without its label has lost it.
    pub(super) has_apply_set: bool,
}

impl Known<'_, '_> {
    fn object(&self, id: &ObjectRef) -> Option<&Object> {
        self.live.get(&self.cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name)
    }
}

impl Drift<'_> {
    /// The decision about a rendered object if it has drifted; nothing is sent unless drift is corrected.
    pub(super) fn wanted(&self, decision: Decision, known: &Known<'_, '_>) -> Option<Decision> {
        match decision.action.action {
            _ if decision.refused => Some(decision),
            ActionKind::Create => self.whole(decision, "it is missing"),
            ActionKind::Update | ActionKind::Adopt | ActionKind::Unchanged => self.fields(decision, known),
            // A rendered object that is being deleted counts as missing.
            ActionKind::Skip if decision.action.outcome == Outcome::NotTried => {
                let reason = decision.action.reason.clone().unwrap_or_default();
                self.whole(decision, &reason)
            }
            ActionKind::Delete | ActionKind::Conflict | ActionKind::Skip => None,
        }
    }

    /// The decision about a managed object that is not rendered. `may` is the decision within the limits of pruning.
    pub(super) fn surplus(&self, decision: Decision, may: Option<Decision>) -> Option<Decision> {
        if decision.action.action != ActionKind::Delete {
            return None;
        }
        let decision = self.whole(decision, "it is no longer rendered")?;
        let kept = |mut decision: Decision| {
            decision.action.action = ActionKind::Skip;
            let why = "it is no longer rendered, and --no-prune keeps it";
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

    /// The decision about an object that is missing or surplus as a whole. Rules that name fields or managers do not
    /// apply.
    fn whole(&self, mut decision: Decision, reason: &str) -> Option<Decision> {
        let about_all = |rule: &&Ignore| rule.paths.is_empty() && rule.managers.is_empty();
        if self.ignore.iter().filter(about_all).any(|rule| names(rule, &decision.action.object)) {
            return None;
        }
        decision.action.reason = Some(reason.to_owned());
        decision.send = decision.send.filter(|_| self.correct);
        Some(decision)
    }

    fn fields(&self, mut decision: Decision, known: &Known<'_, '_>) -> Option<Decision> {
        let id = decision.action.object.clone();
        let there = known.object(&id)?;
        let kind = (known.kind)(&id);
        let managed = decision.action.action != ActionKind::Adopt;
        let diffs = split(std::mem::take(&mut decision.action.diffs), self.ignore, &there.body, known.rules);
        // Only an object that federate has applied can have lost the label of the ApplySet.
        let labelled = |diff: FieldDiff| {
            if !managed {
                return without_label(diff).and_then(|diff| known.rules.managers.without_marks(diff));
            }
            if known.has_apply_set { Some(diff) } else { without_label(diff) }
        };
        let diffs: Vec<FieldDiff> =
            diffs.into_iter().filter_map(labelled).filter_map(without_last_applied).collect();
        let counts = |diff: &FieldDiff| {
            let reported = !filled(&kind, diff, managed) && !is_nothing(diff);
            reported && !is_ignored(self.ignore, &id, &there.body, diff)
        };
        let all = diffs.len();
        decision.action.diffs = diffs.into_iter().filter(counts).collect();
        let whole = decision.action.diffs.len() == all;
        if decision.action.diffs.is_empty() {
            return None;
        }
        decision.action.action = ActionKind::Update;
        if !self.correct {
            decision.send = None;
            return Some(decision);
        }
        if !managed {
            decision.action.action = ActionKind::Conflict;
            decision.action.outcome = Outcome::NotTried;
            decision.action.reason = Some(
                "it is not managed by federate and is not corrected; `federate apply` says what would adopt it"
                    .to_owned(),
            );
            (decision.action.restarts_pods, decision.action.result) = (false, None);
            return Some(Decision { send: None, ..decision });
        }
        Some(corrected(decision, &completed(&kind, &there.body), &kind, whole, known.rules))
    }
}

/// Whether the server may have filled in a field: kinds without a schema may have any defaults, and the admission of
/// pods adds fields such as tolerations.
fn filled(kind: &Kind, diff: &FieldDiff, managed: bool) -> bool {
    let by_person = managed && diff.writer == Some(Writer::Person);
    (!kind.is_known() || kind.is("Pod")) && diff.desired.is_none() && !by_person
}

/// Whether both sides are empty: servers keep some empty lists as null.
fn is_nothing(diff: &FieldDiff) -> bool {
    let none = |value: &Option<Value>| {
        value.as_ref().is_some_and(|value| value.is_null() || value.as_array().is_some_and(Vec::is_empty))
    };
    none(&diff.desired) && none(&diff.live)
}

/// Whether a rule matches an object.
fn names(rule: &Ignore, object: &ObjectRef) -> bool {
    let kind = super::inventory::group_kind(object);
    any(&rule.kinds, &|name| name == object.kind || name == kind)
        && any(&rule.names, &|name| name == object.name || name == object.path())
}

/// Whether a path is that of a value or of something in it.
pub(super) fn is_below(around: &str, path: &str) -> bool {
    let rest = path.strip_prefix(around.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
}

/// Whether one of the rules matches a difference of the live object.
pub(super) fn is_ignored(rules: &[Ignore], id: &ObjectRef, live: &Value, diff: &FieldDiff) -> bool {
    rules.iter().any(|rule| ignores(rule, id, live, diff))
}

/// The differences, in which a map that only one side has is split into its keys if a rule names one of them.
pub(super) fn split(
    diffs: Vec<FieldDiff>,
    ignore: &[Ignore],
    live: &Value,
    rules: &Rules<'_>,
) -> Vec<FieldDiff> {
    let paths: Vec<&str> = ignore.iter().flat_map(|rule| &rule.paths).map(String::as_str).collect();
    if paths.is_empty() {
        return diffs;
    }
    let split_one = |diff: FieldDiff| {
        let ((Some(Value::Object(map)), None) | (None, Some(Value::Object(map)))) =
            (&diff.desired, &diff.live)
        else {
            return vec![diff];
        };
        if !paths.iter().any(|path| *path != diff.path && is_below(&diff.path, path)) {
            return vec![diff];
        }
        let blame = Blame::of(live);
        let key_diff = |(key, value): (&String, &Value)| {
            let key = federate_kubernetes::pointer::escape(key).replace('[', "~2");
            let path = format!("{}/{key}", diff.path);
            let is_live = diff.live.is_some();
            let (manager, time) = blame.last(&path).filter(|_| is_live).unzip();
            FieldDiff {
                desired: diff.desired.is_some().then(|| value.clone()),
                live: is_live.then(|| value.clone()),
                writer: rules.managers.writer(manager.as_deref(), is_live),
                time: time.flatten(),
                manager,
                path,
            }
        };
        map.iter().map(key_diff).collect()
    };
    diffs.into_iter().flat_map(split_one).collect()
}

/// Whether a rule matches a difference.
fn ignores(rule: &Ignore, id: &ObjectRef, live: &Value, diff: &FieldDiff) -> bool {
    let pointer = || steps::pointer(&diff.path, live);
    names(rule, id)
        && any(&rule.paths, &|path| {
            is_below(path, &diff.path) || pointer().is_some_and(|pointer| is_below(path, &pointer))
        })
        && any(&rule.managers, &|name| diff.manager.as_deref() == Some(name))
}

/// Whether a list has a match; an empty list matches everything.
fn any(list: &[String], is: &dyn Fn(&str) -> bool) -> bool {
    list.is_empty() || list.iter().any(|item| is(item))
}
