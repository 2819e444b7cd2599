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
    /// The API server accepted it, or it was there, but it has not ended in time, and it may.
    Unfinished {
        /// Why that is a failure.
        why: String,
        /// How it is.
        state: String,
    },
    /// It was not sent, and why.
    NotSent(String),
    /// Another client changed the object after it was decided about.
    Conflicted,
}

impl SendResult {
    /// Why the object could not be changed, or was not; `None` where it was, or may still be.
    pub(super) fn find_failure(&self) -> Option<&str> {
        match self {
            Self::Open | Self::Done => None,
            Self::Failed(why) | Self::NotSent(why) | Self::Unfinished { why, .. } => Some(why),
            Self::Conflicted => Some("another client keeps modifying it"),
        }
    }
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
        self.sent.iter().filter(|(_, sent)| sent.find_failure().is_some()).map(|(object, _)| object)
    }

    pub(super) fn is_clean(&self) -> bool {
        self.undone_objects().next().is_none()
    }

    /// An object that failed and that no action is about, with the reason: a hook that has not drifted.
    pub(super) fn find_unreported(&self, actions: &[Action]) -> Option<(&ObjectRef, &str)> {
        let mut failed = self.sent.iter().filter_map(|(object, sent)| Some((object, sent.find_failure()?)));
        let first = failed.next()?;
        let reported: BTreeSet<&ObjectRef> = actions.iter().map(|action| &action.object).collect();
        std::iter::once(first).chain(failed).find(|(object, _)| !reported.contains(object))
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
                Some(SendResult::Failed(why) | SendResult::Unfinished { why, .. }) => {
                    (ActionOutcome::Failed, Some(why.as_str()))
                }
                Some(SendResult::Conflicted) => (ActionOutcome::Failed, Some(conflicted)),
                Some(SendResult::NotSent(why)) => (ActionOutcome::NotTried, Some(why.as_str())),
                Some(SendResult::Open) => (ActionOutcome::NotTried, Some(ended)),
                None if tried_only || action.outcome != ActionOutcome::Planned => continue,
                None => (ActionOutcome::Done, None),
            };
            action.outcome = outcome;
            if let Some(SendResult::Unfinished { state, .. }) = self.sent.get(&action.object) {
                action.unhealthy = Some(state.clone());
            }
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
