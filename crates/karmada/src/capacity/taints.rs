//! The taints that follow from a cluster's `Ready` condition.
//!
//! Facts: False means not ready, Unknown means unreachable, both with `NoSchedule`; True means neither. A taint
//! that is there already stays as it is. Taints of other keys are left alone. Releases before 1.14 add the same
//! taints with `NoExecute` after a while.

use federate_kubernetes::{Condition, Taint};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const NOT_READY: &str = "cluster.karmada.io/not-ready";
const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// A taint of a `Cluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTaint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// Since when it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

impl ClusterTaint {
    /// Whether it has that key and effect.
    pub(crate) fn has_key_and_effect(&self, key: &str, effect: &str) -> bool {
        self.key == key && self.effect == effect
    }
}

impl From<&Taint> for ClusterTaint {
    fn from(taint: &Taint) -> Self {
        Self {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone(),
            time_added: None,
        }
    }
}

impl From<&ClusterTaint> for Taint {
    fn from(taint: &ClusterTaint) -> Self {
        Self { key: taint.key.clone(), value: taint.value.clone(), effect: taint.effect.clone() }
    }
}

/// Adds a taint, unless there is one of its key and effect.
pub fn add_taint(taints: &mut Vec<ClusterTaint>, taint: ClusterTaint) {
    if !taints.iter().any(|old| old.has_key_and_effect(&taint.key, &taint.effect)) {
        taints.push(taint);
    }
}

/// Adds and removes the `NoSchedule` taints that follow from the condition.
pub fn update_no_schedule(taints: &mut Vec<ClusterTaint>, ready: Option<&Condition>, now: Timestamp) {
    let (adds, removes): (Option<&str>, &[&str]) = match ready.map(|ready| ready.status.as_str()) {
        Some("True") => (None, &[NOT_READY, UNREACHABLE]),
        Some("False") => (Some(NOT_READY), &[UNREACHABLE]),
        Some(_) => (Some(UNREACHABLE), &[NOT_READY]),
        None => (Some(NOT_READY), &[]),
    };
    replace_taints(taints, NO_SCHEDULE, adds, removes, now);
}

/// Adds the `NoExecute` taint that follows from the condition once it is `due`; removes it when the cluster
/// is ready.
pub fn update_no_execute(
    taints: &mut Vec<ClusterTaint>,
    ready: Option<&Condition>,
    due: bool,
    now: Timestamp,
) {
    match ready.map(|ready| ready.status.as_str()) {
        Some("True") => replace_taints(taints, NO_EXECUTE, None, &[NOT_READY, UNREACHABLE], now),
        Some("False") if due => replace_taints(taints, NO_EXECUTE, Some(NOT_READY), &[UNREACHABLE], now),
        Some(_) if due => replace_taints(taints, NO_EXECUTE, Some(UNREACHABLE), &[NOT_READY], now),
        _ => {}
    }
}

fn replace_taints(
    taints: &mut Vec<ClusterTaint>,
    effect: &str,
    adds: Option<&str>,
    removes: &[&str],
    now: Timestamp,
) {
    taints.retain(|taint| !removes.iter().any(|key| taint.has_key_and_effect(key, effect)));
    if let Some(key) = adds {
        let taint = ClusterTaint {
            key: key.to_owned(),
            value: String::new(),
            effect: effect.to_owned(),
            time_added: Some(now),
        };
        add_taint(taints, taint);
    }
}
