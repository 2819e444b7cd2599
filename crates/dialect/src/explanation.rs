//! Why an object is placed as it is: what `federate explain` shows.

use serde::Serialize;
use serde_json::Value;

use crate::rollout;
use crate::{DeletionProgress, Placement};
use federate_kubernetes::{ClusterName, ObjectRef};

/// Why an object is placed as it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The dialect's name.
    pub dialect: &'static str,
    /// How the policy was chosen, and which others matched, one sentence each.
    pub policy: Vec<String>,
    /// The steps of the computation, one line each.
    pub steps: Vec<String>,
    /// Whether the policy got as many clusters as it asks for, where the dialect reports that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fulfilled: Option<bool>,
    /// One row for each cluster of the inventory, sorted by name; then one for each cluster that the policy
    /// names and the inventory does not have.
    pub clusters: Vec<ClusterVerdict>,
    /// The decision itself.
    pub placement: Placement,
    /// The object on the host in which the control plane records the decision, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<Value>,
    /// How far the deletion is, where the object is being deleted on the control plane's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_progress: Option<DeletionProgress>,
    /// How the object is rolled out, where the control plane does that in steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<rollout::RolloutExplanation>,
}

/// The verdict on one cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVerdict {
    /// The cluster.
    pub cluster: ClusterName,
    /// Whether the object is placed there.
    pub chosen: bool,
    /// The filter that refused it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<&'static str>,
    /// The score, where the dialect scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// The replicas given, where the dialect decides them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Why, in a sentence.
    pub why: String,
}

/// What one override rule changed in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideChange {
    /// The override policy.
    pub policy: ObjectRef,
    /// `file:line` of the policy.
    pub origin: String,
    /// The paths that differ after it, as JSON pointers; empty when the rule applied but changed nothing.
    pub paths: Vec<String>,
}
