//! The rules for all decisions of a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::field_managers::FieldManagers;
use super::ownership::is_member;
use super::{Action, ApplySet, FIELD_MANAGER, without_label, without_last_applied};
use federate_apiserver_model::{ResourceKind, WriteOptions};
use federate_engine::change::{DigestKey, hide_secret_values};
use federate_kubernetes::ObjectRef;
use federate_repo::config::DriftIgnoreRule;

/// When objects are adopted that exist and are not managed by federate; takes precedence over the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptionMode {
    /// Never.
    Never,
    /// Where nothing changes.
    IfNoDiff,
    /// Where no pod is replaced.
    IfNoRestart,
    /// Always.
    Always,
}

impl AdoptionMode {
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

/// Whether a run writes, or where it is decided what writing would do, as `kubectl --dry-run` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRunStrategy {
    /// Writes are made. API servers are asked before, with dry runs.
    None,
    /// Writes are planned without asking an API server: its answers are predicted.
    Client,
    /// API servers are asked with dry runs, and store nothing.
    Server,
}

impl DryRunStrategy {
    /// Whether API servers are reached: each write is asked for with a dry run before it is made.
    pub fn reaches_servers(self) -> bool {
        self != Self::Client
    }

    /// Whether anything is stored.
    pub fn writes(self) -> bool {
        self == Self::None
    }
}

/// The rules for all decisions of a run.
#[derive(Clone, Debug)]
pub struct DecisionSettings<'r> {
    /// When objects are adopted; by default as their policies say.
    pub adopt: Option<AdoptionMode>,
    /// Whether objects are also adopted from other tools.
    pub force: bool,
    /// Whether objects with immutable changes are deleted and created again.
    pub replace: bool,
    /// Whether fields that are not rendered are differences, too: defaults, status, additions by others.
    pub full: bool,
    /// Whether actions contain the resulting objects.
    pub results: bool,
    /// The `ApplySet` of the managed objects.
    pub apply_set: &'r ApplySet,
    /// Further kinds that roll out their pod template, as `Kind.group`.
    pub rolling: &'r [String],
    /// The key of the digests that replace values of Secrets.
    pub key: &'r DigestKey,
    /// The time, in RFC 3339 notation with seconds.
    pub now: &'r str,
    /// Where a dry run is decided. If an API server is asked, what it would refuse is not refused here.
    pub dry_run: DryRunStrategy,
    /// The `ApplySet` whose members are taken over.
    pub moved_from: Option<&'r ApplySet>,
    /// The managers whose fields are taken over.
    pub managers: FieldManagers,
    /// Differences that an apply leaves as they are.
    pub ignored: Vec<DriftIgnoreRule>,
    /// The objects that SOPS encrypted: no message quotes a value of them.
    pub encrypted: &'r BTreeSet<ObjectRef>,
}

impl DecisionSettings<'_> {
    /// How objects of a kind are written.
    pub(super) fn write_options<'w>(&'w self, kind: &'w ResourceKind) -> WriteOptions<'w> {
        WriteOptions { kind, manager: FIELD_MANAGER, subresource: None, force: true, now: self.now }
    }

    /// Whether an object is a member of the `ApplySet`, or of the one whose members are taken over.
    pub(super) fn is_member(&self) -> impl Fn(&Value) -> bool + use<> {
        let sets: Vec<String> =
            [Some(self.apply_set), self.moved_from].into_iter().flatten().map(ApplySet::compute_id).collect();
        move |live| sets.iter().any(|set| is_member(live, set))
    }

    /// The object as it is shown, where results are asked for.
    pub(super) fn readable_result(&self, object: Value) -> Option<Arc<Value>> {
        self.results.then(|| Arc::new(make_readable(object, self.key)))
    }
}

fn make_readable(mut object: Value, key: &DigestKey) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // Field ownership is of no use to readers.
        metadata.remove("managedFields");
    }
    hide_secret_values(&mut [&mut object], key);
    object
}
