//! The taints that follow from a cluster's `Ready` condition.
//!
//! Facts: False means not ready, Unknown means unreachable, both with `NoSchedule`; True means neither. A taint
//! that is there already stays as it is. Taints of other keys or effects are nobody's business here.

use federate_kubernetes::Condition;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const NOT_READY: &str = "cluster.karmada.io/not-ready";
const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
const NO_SCHEDULE: &str = "NoSchedule";

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
    pub(crate) fn is(&self, key: &str, effect: &str) -> bool {
        self.key == key && self.effect == effect
    }
}

/// Adds a taint, unless there is one of its key and effect.
pub(crate) fn add(taints: &mut Vec<ClusterTaint>, taint: ClusterTaint) {
    if !taints.iter().any(|old| old.is(&taint.key, &taint.effect)) {
        taints.push(taint);
    }
}

/// Puts the taints in order that follow from the condition.
pub fn follow(taints: &mut Vec<ClusterTaint>, ready: Option<&Condition>, now: Timestamp) {
    let new = |key: &str| ClusterTaint {
        key: key.to_owned(),
        value: String::new(),
        effect: NO_SCHEDULE.to_owned(),
        time_added: Some(now),
    };
    let (adds, removes): (Option<&str>, &[&str]) = match ready.map(|ready| ready.status.as_str()) {
        Some("True") => (None, &[NOT_READY, UNREACHABLE]),
        Some("False") => (Some(NOT_READY), &[UNREACHABLE]),
        Some(_) => (Some(UNREACHABLE), &[NOT_READY]),
        None => (Some(NOT_READY), &[]),
    };
    taints.retain(|taint| !removes.iter().any(|key| taint.is(key, NO_SCHEDULE)));
    if let Some(key) = adds {
        add(taints, new(key));
    }
}
