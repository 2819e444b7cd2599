//! Drift: differences between live and rendered objects that no other controller is entitled to.
//!
//! Facts: fields that autoscalers own are not applied (`autoscaled_fields`). Additions by controllers (defaults, sidecars) and
//! requests to do something once, such as the annotation `restartedAt`, are not in rendered fields and never differ. What
//! people have added is taken over and then differs (`field_managers`).

use super::correction::restrict_to_drift;
use super::decision_input::KindLookup;
use super::drift_ignore::{is_ignored, names_object, split_maps};
use super::live_object::complete_live;
use super::object_decision::ObjectDecision;
use super::settings::DecisionSettings;
use super::{ActionKind, ActionOutcome, FieldDiff, Writer, without_label, without_last_applied};
use federate_apiserver_model::ResourceKind;
use federate_kubernetes::{Cluster, LiveObjects, Object, ObjectRef};
use federate_repo::config::DriftIgnoreRule;

/// What counts as drift, and whether it is corrected.
#[derive(Clone, Debug)]
pub struct DriftRules<'d> {
    /// Differences that do not count.
    pub ignore: &'d [DriftIgnoreRule],
    /// Whether drift is corrected.
    pub correct: bool,
}

/// A cluster, as decisions see it.
pub(super) struct ClusterView<'a, 'k> {
    pub(super) cluster: &'a Cluster,
    pub(super) live: &'a LiveObjects,
    pub(super) kind: &'a KindLookup<'k>,
    pub(super) settings: &'a DecisionSettings<'a>,
    /// Whether the cluster has the `ApplySet`, so that a managed object without its label has lost it.
    pub(super) has_apply_set: bool,
}

impl ClusterView<'_, '_> {
    fn find_live(&self, id: &ObjectRef) -> Option<&Object> {
        self.live.get(&self.cluster.name, id.group(), &id.kind, id.namespace.as_deref(), &id.name)
    }
}

impl DriftRules<'_> {
    /// The decision about a rendered object if it has drifted; nothing is sent unless drift is corrected.
    pub(super) fn find_drift(
        &self,
        decision: ObjectDecision,
        known: &ClusterView<'_, '_>,
    ) -> Option<ObjectDecision> {
        match decision.action.action {
            _ if decision.refused => Some(decision),
            ActionKind::Create => self.report_whole(decision, "it is missing"),
            ActionKind::Update | ActionKind::Adopt | ActionKind::Unchanged => {
                self.report_fields(decision, known)
            }
            // A rendered object that is being deleted counts as missing.
            ActionKind::Skip if decision.action.outcome == ActionOutcome::NotTried => {
                let reason = decision.action.reason.clone().unwrap_or_default();
                self.report_whole(decision, &reason)
            }
            ActionKind::Delete | ActionKind::Conflict | ActionKind::Skip => None,
        }
    }

    /// The decision about a managed object that is not rendered. `may` is the decision within the limits of pruning.
    pub(super) fn find_unrendered(
        &self,
        decision: ObjectDecision,
        may: Option<ObjectDecision>,
    ) -> Option<ObjectDecision> {
        if decision.action.action != ActionKind::Delete {
            return None;
        }
        let mut decision = self.report_whole(decision, "it is no longer rendered")?;
        match may {
            _ if !self.correct => Some(decision),
            Some(may) if may.request.is_some() => Some(decision),
            Some(may) => Some(may),
            None => {
                decision.action.action = ActionKind::Skip;
                let why = "it is no longer rendered, and --no-prune keeps it";
                decision.action.reason = Some(why.to_owned());
                Some(ObjectDecision { request: None, ..decision })
            }
        }
    }

    /// The decision about an object that is missing, or not rendered, as a whole. Rules that name fields or managers do not
    /// apply.
    fn report_whole(&self, mut decision: ObjectDecision, reason: &str) -> Option<ObjectDecision> {
        let mut rules = self.ignore.iter().filter(|rule| rule.paths.is_empty() && rule.managers.is_empty());
        if rules.any(|rule| names_object(rule, &decision.action.object)) {
            return None;
        }
        decision.action.reason = Some(reason.to_owned());
        decision.request = decision.request.filter(|_| self.correct);
        Some(decision)
    }

    fn report_fields(
        &self,
        mut decision: ObjectDecision,
        known: &ClusterView<'_, '_>,
    ) -> Option<ObjectDecision> {
        let id = decision.action.object.clone();
        let there = known.find_live(&id)?;
        let kind = (known.kind)(&id);
        let managed = decision.action.action != ActionKind::Adopt;
        let diffs =
            split_maps(std::mem::take(&mut decision.action.diffs), self.ignore, &there.body, known.settings);
        // Only an object that federate has applied can have lost the label of the ApplySet.
        let diffs: Vec<FieldDiff> = diffs
            .into_iter()
            .filter_map(|diff| {
                if !managed {
                    return without_label(diff).and_then(|diff| known.settings.managers.without_marks(diff));
                }
                if known.has_apply_set { Some(diff) } else { without_label(diff) }
            })
            .filter_map(without_last_applied)
            .collect();
        let all = diffs.len();
        decision.action.diffs = diffs;
        decision.action.diffs.retain(|diff| {
            let reported = !is_server_filled(&kind, diff, managed) && !is_nothing(diff);
            reported && !is_ignored(self.ignore, &id, &there.body, diff)
        });
        let whole = decision.action.diffs.len() == all;
        if decision.action.diffs.is_empty() {
            return None;
        }
        decision.action.action = ActionKind::Update;
        if !self.correct {
            decision.request = None;
            return Some(decision);
        }
        if !managed {
            decision.action.action = ActionKind::Conflict;
            decision.action.outcome = ActionOutcome::NotTried;
            decision.action.reason = Some(
                "it is not managed by federate and is not corrected; `federate apply` says what would adopt it"
                    .to_owned(),
            );
            (decision.action.restarts_pods, decision.action.result) = (false, None);
            return Some(ObjectDecision { request: None, ..decision });
        }
        Some(restrict_to_drift(decision, &complete_live(&kind, &there.body), &kind, whole, known.settings))
    }
}

/// Whether the server may have filled in a field: kinds without a schema may have any defaults, and the admission of
/// pods adds fields such as tolerations.
fn is_server_filled(kind: &ResourceKind, diff: &FieldDiff, managed: bool) -> bool {
    let by_person = managed && diff.writer == Some(Writer::Person);
    (!kind.is_known() || kind.is_builtin("Pod")) && diff.desired.is_none() && !by_person
}

/// Whether both sides are empty: servers keep some empty lists as null.
fn is_nothing(diff: &FieldDiff) -> bool {
    [&diff.desired, &diff.live].into_iter().all(|side| {
        side.as_ref().is_some_and(|value| value.is_null() || value.as_array().is_some_and(Vec::is_empty))
    })
}
