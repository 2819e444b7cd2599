//! The parts of override policies that control planes write alike.

use federate_kubernetes::Labels;
use serde::Deserialize;
use serde_json::Value;

use crate::intent::{EntriesAction, EntriesChange, ManifestOperation, WordsChange};

/// A rule of an override policy: clusters, and what changes there.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound = "C: Deserialize<'de>, O: Deserialize<'de>")]
pub(super) struct ReadOverrideRule<C, O> {
    #[serde(default, alias = "targetCluster", alias = "targetClusters")]
    pub clusters: Option<C>,
    #[serde(default)]
    pub overriders: Option<O>,
}

/// A change of a command or of arguments.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WordsOverrider {
    pub container_name: String,
    pub operator: String,
    pub value: Option<Vec<String>>,
}

impl WordsOverrider {
    /// The change; `None` if it does nothing, or replaces all words.
    pub(super) fn read_change(self) -> Option<WordsChange> {
        let adds = match self.operator.as_str() {
            "append" | "add" => true,
            "delete" | "remove" => false,
            _ => return None,
        };
        let words = self.value.filter(|words| !words.is_empty())?;
        Some(WordsChange { container: self.container_name, adds, words })
    }
}

/// A change of labels or annotations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EntriesOverrider {
    operator: String,
    value: Option<Labels>,
}

impl EntriesOverrider {
    /// The change; `None` if it does nothing.
    pub(super) fn read_change(self) -> Option<EntriesChange> {
        let action = match self.operator.as_str() {
            "" | "overwrite" | "replace" => EntriesAction::Replace,
            "addIfAbsent" | "add" => EntriesAction::Add,
            "delete" | "remove" => EntriesAction::Remove,
            _ => return None,
        };
        let entries = self.value.filter(|entries| !entries.is_empty())?;
        Some(EntriesChange { action, entries })
    }
}

/// An operation of a JSON patch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReadPatch {
    #[serde(alias = "op")]
    pub operator: String,
    pub path: String,
    pub value: Option<Value>,
}

impl ReadPatch {
    /// The operation; `None` if it does something else than add, replace and remove.
    pub(super) fn read_operation(&self) -> Option<ManifestOperation> {
        ManifestOperation::from_parts(&self.operator, &self.path, self.value.as_ref())
    }
}
