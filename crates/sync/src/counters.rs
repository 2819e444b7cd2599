//! What is counted for the metrics: answers of API servers, git commands, operations on registries, and what comparisons find.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use federate_live::{Access, AnswerCounts, AnswersByCode};
use federate_reconcile::{Action, ActionKind};

/// The numbers since they were taken last.
#[derive(Debug, Default)]
pub struct MetricCounters {
    answers: Arc<AnswerCounts>,
    counts: Mutex<CounterValues>,
}

/// Numbers of git commands and of operations on registries by name, and of findings of comparisons by Sync and kind.
#[derive(Debug, Default)]
pub(crate) struct CounterValues {
    pub(crate) git: BTreeMap<String, u64>,
    pub(crate) registry: BTreeMap<&'static str, u64>,
    pub(crate) drift: BTreeMap<(String, &'static str), u64>,
}

impl MetricCounters {
    /// Counts the answers of the clusters that are reached so.
    pub(crate) fn count_answers(&self, access: Access) -> Access {
        Access { answers: Some(self.answers.clone()), ..access }
    }

    /// Where answers of the API server of Syncs are counted.
    pub(crate) fn answers(&self) -> Arc<AnswerCounts> {
        self.answers.clone()
    }

    /// A git command is run.
    pub(crate) fn count_git_command(&self, command: &str) {
        self.with_counts(|counts| *counts.git.entry(command.to_owned()).or_default() += 1);
    }

    /// A registry is asked or written.
    pub(crate) fn count_registry_operation(&self, operation: &'static str) {
        self.with_counts(|counts| *counts.registry.entry(operation).or_default() += 1);
    }

    /// A comparison has found an object that differs.
    pub(crate) fn count_drift(&self, sync: &str, action: &Action) {
        let kind = match action.action {
            ActionKind::Create => "missing",
            ActionKind::Delete | ActionKind::Skip => "surplus",
            ActionKind::Conflict | ActionKind::Adopt => "unmanaged",
            ActionKind::Update | ActionKind::Unchanged => "changed",
        };
        self.with_counts(|counts| *counts.drift.entry((sync.to_owned(), kind)).or_default() += 1);
    }

    /// Takes the numbers, with those of answers.
    pub(crate) fn take_counts(&self) -> (CounterValues, AnswersByCode) {
        (self.with_counts(std::mem::take), self.answers.take_counts())
    }

    fn with_counts<T>(&self, change: impl FnOnce(&mut CounterValues) -> T) -> T {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
