//! Decides again by the answer of the API server to a dry run.

use serde_json::Value;

use super::decide::{Decision, Rules, Send};
use super::replace::{Replacement, replacement};
use super::restart::restarts_pods;
use super::{ActionKind, Outcome, all_diffs, diffs, without_label};
use federate_apiserver::{Kind, applied_fields};

impl Decision {
    /// Decides by the object that the API server returned: it has fields, defaults and webhooks that are not known
    /// here. An update that changes nothing is not sent.
    pub(super) fn answered(&mut self, live: Option<&Value>, answer: Value, kind: &Kind, rules: &Rules<'_>) {
        let Some(live) = live else {
            self.action.result = rules.shown(answer);
            return;
        };
        if self.action.action == ActionKind::Update && *live == answer {
            (self.send, self.action.action) = (None, ActionKind::Unchanged);
        }
        self.action.diffs = if rules.full {
            all_diffs(live, &applied_fields(&answer, &rules.write(kind)), rules)
        } else {
            diffs(live, &answer, rules)
        };
        self.action.restarts_pods = restarts_pods(live, &answer, rules.rolling);
        self.action.result = rules.shown(answer);
        if self.action.action == ActionKind::Adopt
            && let Some(reason) = rules.adopt.and_then(|adopt| adopt.refusal_to_adopt(&self.action))
        {
            self.leave(reason);
        }
    }

    /// Decides by the refusal of the API server: an object with an immutable change is deleted and created again
    /// where that is allowed, and fails otherwise.
    pub(super) fn denied(&mut self, live: Option<&Value>, why: String, kind: &Kind, rules: &Rules<'_>) {
        let update = self.action.action == ActionKind::Update;
        let (Some(live), Some(Send::Apply { body, .. }), true) = (live, &self.send, update) else {
            return self.fail(why);
        };
        match replacement((&self.action.object, kind), live, body, rules) {
            Replacement::Done { old, created, effect } => {
                self.send = Some(Send::Apply { body: body.clone(), handed: None, replaces: Some(old) });
                self.action.diffs = diffs(live, &created, rules);
                self.action.restarts_pods = restarts_pods(live, &created, rules.rolling);
                self.action.result = rules.shown(created);
                self.action.reason = Some(format!("{effect}: {why}"));
            }
            Replacement::Possible(how) if how.is_empty() => self.fail(why),
            Replacement::Possible(how) => self.fail(format!("{why}; {how}")),
        }
    }

    /// Marks the action as failed.
    fn fail(&mut self, why: String) {
        (self.send, self.refused) = (None, true);
        (self.action.restarts_pods, self.action.result) = (false, None);
        (self.action.outcome, self.action.error) = (Outcome::Failed, Some(why));
    }

    /// Leaves the object to its owner.
    fn leave(&mut self, reason: String) {
        self.send = None;
        let action = &mut self.action;
        (action.action, action.outcome) = (ActionKind::Conflict, Outcome::NotTried);
        action.diffs = std::mem::take(&mut action.diffs).into_iter().filter_map(without_label).collect();
        (action.restarts_pods, action.result) = (false, None);
        action.reason = Some(reason);
    }

    /// Sends nothing and marks the action as failed, because the object cannot be read or applied.
    pub fn refuse(&mut self, why: &str) {
        (self.send, self.refused) = (None, true);
        let action = &mut self.action;
        action.action = ActionKind::Skip;
        action.outcome = Outcome::Failed;
        action.restarts_pods = false;
        action.diffs.clear();
        action.result = None;
        action.reason = Some(why.to_owned());
        action.error = Some(why.to_owned());
    }

    /// Sends nothing, although something should be done.
    pub fn hold(&mut self, why: &str) {
        if self.send.take().is_some() {
            self.action.action = ActionKind::Skip;
            self.action.outcome = Outcome::NotTried;
            self.action.restarts_pods = false;
            self.action.result = None;
            self.action.reason = Some(why.to_owned());
        }
    }
}
