//! The result of each request about an object.

use std::collections::{BTreeMap, BTreeSet};

use super::Error;
use federate_kubernetes::ObjectRef;
use federate_reconcile::{Action, ActionOutcome, ObjectDecision};

/// The result of a request about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SendResult {
    /// The request has not been sent yet.
    Open,
    /// The API server accepted it.
    Done,
    /// The API server refused it.
    Failed(String),
    /// It was not sent, and why.
    NotSent(String),
    /// Another client changed the object after it was decided about.
    Conflicted,
}

/// The results by object.
#[derive(Debug, Default)]
pub(super) struct SendResults {
    pub(super) sent: BTreeMap<ObjectRef, SendResult>,
    /// The uid of the parent of the `ApplySet`.
    pub(super) parent: Option<String>,
}

impl SendResults {
    /// The requests of a run before any of them is sent.
    pub(super) fn from_decisions(decisions: &[ObjectDecision]) -> Self {
        let sent =
            decisions.iter().filter_map(|decision| match (&decision.request, &decision.action.error) {
                (Some(_), _) => Some((decision.action.object.clone(), SendResult::Open)),
                // Objects that it may need must not be deleted.
                (None, Some(why)) => Some((decision.action.object.clone(), SendResult::Failed(why.clone()))),
                (None, None) => None,
            });
        Self { sent: sent.collect(), parent: None }
    }

    /// The objects that could not be changed, or were not, because others could not.
    pub(super) fn undone_objects(&self) -> impl Iterator<Item = &ObjectRef> {
        let undone = self.sent.iter().filter(|(_, sent)| {
            matches!(sent, SendResult::Failed(_) | SendResult::NotSent(_) | SendResult::Conflicted)
        });
        undone.map(|(object, _)| object)
    }

    pub(super) fn is_clean(&self) -> bool {
        self.undone_objects().next().is_none()
    }

    pub(super) fn set_result(&mut self, object: ObjectRef, sent: SendResult) {
        self.sent.insert(object, sent);
    }

    /// The objects that need another attempt: another client has changed them, or an object that they need.
    pub(super) fn retry_objects(&self) -> BTreeSet<ObjectRef> {
        let again = self.sent.iter().filter(|(_, sent)| !matches!(sent, SendResult::Done));
        again.map(|(object, _)| object.clone()).collect()
    }

    pub(super) fn any_conflict(&self) -> bool {
        self.sent.values().any(|sent| *sent == SendResult::Conflicted)
    }

    /// Writes the results into the outcomes of actions.
    pub(super) fn mark_actions(
        &self,
        actions: &mut [Action],
        tried_only: bool,
        conflicted: &str,
        ended: &str,
    ) {
        for action in actions {
            let (outcome, why) = match self.sent.get(&action.object) {
                Some(SendResult::Done) if tried_only => continue,
                Some(SendResult::Done) => (ActionOutcome::Done, None),
                Some(SendResult::Failed(why)) => (ActionOutcome::Failed, Some(why.as_str())),
                Some(SendResult::Conflicted) => (ActionOutcome::Failed, Some(conflicted)),
                Some(SendResult::NotSent(why)) => (ActionOutcome::NotTried, Some(why.as_str())),
                Some(SendResult::Open) => (ActionOutcome::NotTried, Some(ended)),
                None if tried_only || action.outcome != ActionOutcome::Planned => continue,
                None => (ActionOutcome::Done, None),
            };
            action.outcome = outcome;
            match outcome {
                ActionOutcome::Failed => action.error = why.map(str::to_owned),
                ActionOutcome::NotTried => action.reason = why.map(str::to_owned),
                ActionOutcome::Planned | ActionOutcome::Done => {}
            }
        }
    }
}

impl From<Result<(), Error>> for SendResult {
    fn from(result: Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) if error.is_conflict() => Self::Conflicted,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}
