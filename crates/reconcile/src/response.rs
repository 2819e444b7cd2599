//! Decides again by the answer of the API server to a dry run.

use serde_json::Value;

use super::object_decision::{ObjectDecision, WriteRequest};
use super::replacement::{ReplacementDecision, decide_replacement};
use super::settings::DecisionSettings;
use super::{ActionKind, ActionOutcome, all_diffs, diff_fields, without_label};
use federate_apiserver_model::{ResourceKind, applied_fields, previewed_fields};
use federate_engine::restart::restarts_pods;

impl ObjectDecision {
    /// Decides by the object that the API server returned: it has fields, defaults and webhooks that are not known
    /// here. An update that changes nothing is not sent.
    pub(super) fn decide_by_response(
        &mut self,
        live: Option<&Value>,
        answer: Value,
        kind: &ResourceKind,
        settings: &DecisionSettings<'_>,
    ) {
        let Some(live) = live else {
            self.action.result = settings.readable_result(answer);
            return;
        };
        if self.action.action == ActionKind::Update && *live == answer {
            (self.request, self.action.action) = (None, ActionKind::Unchanged);
        }
        self.action.diffs = if settings.full {
            let write = settings.write_options(kind);
            let rendered = match &self.request {
                Some(WriteRequest::Apply { body, .. }) => previewed_fields(&answer, body, &write),
                _ => applied_fields(&answer, &write),
            };
            all_diffs(live, &rendered, settings)
        } else {
            diff_fields(live, &answer, settings)
        };
        self.action.restarts_pods = restarts_pods(live, &answer, settings.rolling);
        self.action.result = settings.readable_result(answer);
        if self.action.action == ActionKind::Adopt
            && let Some(reason) =
                settings.adopt.and_then(|adopt| adopt.refusal_to_adopt(&self.action, &settings.managers))
        {
            self.leave_to_owner(reason);
        }
    }

    /// Decides by the refusal of the API server: an object with an immutable change is deleted and created again
    /// where that is allowed, and fails otherwise.
    pub(super) fn decide_by_refusal(
        &mut self,
        live: Option<&Value>,
        why: String,
        kind: &ResourceKind,
        settings: &DecisionSettings<'_>,
    ) {
        let update = self.action.action == ActionKind::Update;
        let (Some(live), Some(WriteRequest::Apply { body, .. }), true) = (live, &self.request, update) else {
            return self.mark_failed(why);
        };
        match decide_replacement(&self.action.object, kind, live, body, settings) {
            ReplacementDecision::Done { old, created, effect } => {
                self.request =
                    Some(WriteRequest::Apply { body: body.clone(), transfer: None, replaces: Some(old) });
                self.action.diffs = diff_fields(live, &created, settings);
                self.action.restarts_pods = restarts_pods(live, &created, settings.rolling);
                self.action.result = settings.readable_result(created);
                self.action.reason = Some(format!("{effect}: {why}"));
            }
            ReplacementDecision::Possible(how) if how.is_empty() => self.mark_failed(why),
            ReplacementDecision::Possible(how) => self.mark_failed(format!("{why}; {how}")),
        }
    }

    /// Marks the action as failed.
    fn mark_failed(&mut self, why: String) {
        (self.request, self.refused) = (None, true);
        (self.action.restarts_pods, self.action.result) = (false, None);
        (self.action.outcome, self.action.error) = (ActionOutcome::Failed, Some(why));
    }

    /// Leaves the object to its owner. What is as it is rendered is in conflict with nothing.
    fn leave_to_owner(&mut self, reason: String) {
        (self.request, self.is_left) = (None, true);
        let action = &mut self.action;
        action.diffs = std::mem::take(&mut action.diffs).into_iter().filter_map(without_label).collect();
        (action.action, action.outcome) = if action.diffs.is_empty() {
            (ActionKind::Unchanged, ActionOutcome::Planned)
        } else {
            (ActionKind::Conflict, ActionOutcome::NotTried)
        };
        (action.restarts_pods, action.result) = (false, None);
        action.reason = Some(reason);
    }
}
