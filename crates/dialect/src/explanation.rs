//! Why an object is placed as it is: what `federate explain` shows.

use serde::Serialize;
use serde_json::Value;

use crate::rollout;
use crate::{DeletionProgress, Placement};
use federate_kubernetes::{ClusterName, ObjectRef, Taint};

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
    /// What keeps the object away from the cluster: without all of these, the verdict would be another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<VerdictCause>,
}

/// What keeps an object away from a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum VerdictCause {
    /// A field of an object.
    Field {
        /// The object.
        object: ObjectRef,
        /// The field, as a JSON pointer.
        path: String,
    },
    /// A field that gives the name or names of clusters, and not this one.
    NotListed {
        /// The object.
        object: ObjectRef,
        /// The field, as a JSON pointer.
        path: String,
    },
    /// A field with selectors of clusters, none of which selects this one.
    NotSelected {
        /// The object.
        object: ObjectRef,
        /// The field, as a JSON pointer.
        path: String,
    },
    /// A field that is not there.
    Absent {
        /// The object.
        object: ObjectRef,
        /// The field, as a JSON pointer.
        path: String,
    },
    /// A number of clusters that is too low.
    TooFew {
        /// The object.
        object: ObjectRef,
        /// The field, as a JSON pointer.
        path: String,
    },
    /// An object has too few replicas for all clusters.
    Replicas {
        /// The object.
        object: ObjectRef,
    },
    /// An object that is not there.
    Missing {
        /// The object.
        object: ObjectRef,
    },
    /// An object that this one goes with is not placed there.
    Follows {
        /// The object that is followed.
        leader: ObjectRef,
    },
    /// The cluster itself.
    Cluster(ClusterCause),
    /// What the previous plan decided or remembers.
    PreviousPlan,
}

impl VerdictCause {
    /// The cause that is a field of an object. `path` is a JSON pointer.
    pub fn field(object: &ObjectRef, path: impl Into<String>) -> Self {
        Self::Field { object: object.clone(), path: path.into() }
    }

    /// The cause that is a taint of the cluster.
    pub fn taint(taint: &Taint) -> Self {
        let Taint { key, value, effect } = taint.clone();
        Self::Cluster(ClusterCause::Taint { key, value, effect })
    }
}

/// What a cluster is or lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum ClusterCause {
    /// It does not serve the kind of the object.
    Api,
    /// It has a taint that is not tolerated.
    Taint {
        /// The key.
        key: String,
        /// The value, often empty.
        value: String,
        /// The effect.
        effect: String,
    },
    /// It has no region, zone or provider.
    Location {
        /// `region`, `zone` or `provider`.
        field: &'static str,
    },
    /// It does not have this namespace.
    Namespace {
        /// The namespace.
        namespace: String,
    },
    /// Its inventory object is not in the namespace of the control plane.
    InventoryNamespace {
        /// The namespace of the control plane.
        namespace: String,
    },
    /// It is not ready, or has not reported for too long.
    NotReady,
    /// It has not joined.
    NotJoined,
    /// It is being deleted.
    Deleting,
    /// It has too few free resources, or they are not known.
    Resources,
    /// The inventory does not have it.
    Unknown,
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
