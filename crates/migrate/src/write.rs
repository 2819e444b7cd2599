//! Writes intents as policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_kubernetes::ObjectRef;
use serde_json::Value;

pub(crate) mod karmada;
pub(crate) mod plain;

/// A policy of the new side.
#[derive(Clone, Debug)]
pub(crate) struct PolicyDraft {
    /// The object.
    pub value: Value,
    /// The objects that it is about.
    pub objects: BTreeSet<ObjectRef>,
    /// What it does.
    pub role: PolicyRole,
    /// The file in which it should stand.
    pub file: Option<Arc<str>>,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyRole {
    /// It chooses clusters.
    Placement,
    /// It changes manifests.
    Override,
}

impl PolicyRole {
    /// The folder in which repos have such policies.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Placement => "policies",
            Self::Override => "overrides",
        }
    }

    /// The end of the name of a file with one.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Placement => "propagation",
            Self::Override => "override",
        }
    }
}

/// A name for an object of the API server, out of any text.
pub(crate) fn to_object_name(text: &str) -> String {
    let is_allowed = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let lower = text.to_ascii_lowercase();
    let name: String = lower.chars().map(|c| if is_allowed(&c) { c } else { '-' }).take(200).collect();
    name.trim_matches(['-', '.']).to_owned()
}
