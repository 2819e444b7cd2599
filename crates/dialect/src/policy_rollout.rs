//! Rollouts that a loop carries out: what each cluster has of a policy, and what the policy's control plane does next.
//!
//! A control plane that updates clusters one after the other keeps that in objects of its hub (bindings, snapshots, the
//! status of a run). Here the loop keeps it, and the control plane decides by it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SchedulerState;
use crate::rollout::{ClusterUpdate, UpdateState};
use federate_kubernetes::{ClusterName, ObjectRef};

/// The rollouts of policies, by policy as it is shown.
pub type PolicyRollouts = BTreeMap<String, PolicyRollout>;

/// Who carries a rollout out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutDriver {
    /// A loop in which only objects count that ask for one rollout, such as update runs.
    UpdateRuns,
    /// A loop in which the strategies of policies count as well.
    Placements,
    /// A scenario, in which update runs do not begin, and which says itself when resources are available.
    Scenario,
}

/// A policy that is rolled out, as a plan has it.
#[derive(Clone, Copy)]
pub struct RolloutSubject<'p> {
    /// The policy.
    pub policy: &'p ObjectRef,
    /// The clusters to which it sends its objects, sorted by name.
    pub clusters: &'p [ClusterName],
    /// Returns the clusters of another row of the plan, by its object.
    pub clusters_of: &'p dyn Fn(&ObjectRef) -> Option<Vec<ClusterName>>,
}

impl RolloutSubject<'_> {
    /// Whether the policy sends its objects to a cluster.
    pub fn has_cluster(&self, cluster: &ClusterName) -> bool {
        self.clusters.binary_search(cluster).is_ok()
    }
}

/// What clusters have of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRollout {
    /// The policy.
    pub policy: ObjectRef,
    /// The clusters that have resources of the policy.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ClusterRollout>")]
    pub clusters: BTreeMap<ClusterName, ClusterRollout>,
    /// The objects that the policy sent by former revisions that clusters still have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, Vec<ObjectRef>>,
    /// Former revisions that may still be sent to clusters.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub revisions: BTreeSet<String>,
    /// What the control plane must remember.
    #[serde(default, skip_serializing_if = "SchedulerState::is_empty")]
    #[schemars(with = "BTreeMap<String, Value>")]
    #[serde(rename = "memory")]
    pub scheduler_state: SchedulerState,
}

/// What a cluster has of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterRollout {
    /// The revision of the repo whose resources are released to the cluster.
    pub revision: String,
    /// The digest of these resources, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resources: String,
    /// Whether the resources are removed from the cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// Since when the cluster is being updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Since when the resources are available there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub available: Option<Timestamp>,
    /// Whether they were applied, and only their availability is waited for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// Why they could not be applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl ClusterRollout {
    /// Resources that are released to a cluster now.
    pub fn from_release(revision: &str, resources: &str, now: Timestamp) -> Self {
        Self {
            revision: revision.to_owned(),
            resources: resources.to_owned(),
            since: Some(now),
            ..Self::default()
        }
    }

    /// How far the update of the cluster is.
    pub fn to_update(&self, cluster: &ClusterName) -> ClusterUpdate {
        let (state, since) = match (&self.failed, self.available) {
            (Some(_), _) => (UpdateState::Failed, self.since),
            (None, Some(available)) => (UpdateState::Updated, Some(available)),
            (None, None) => (UpdateState::Updating, self.since),
        };
        ClusterUpdate { cluster: cluster.clone(), state, since }
    }

    /// Whether there is something to do in the cluster.
    pub fn is_open(&self) -> bool {
        self.leaving || self.available.is_none()
    }
}

impl PolicyRollout {
    /// The rollout of a policy that no cluster has yet.
    pub fn new(policy: ObjectRef) -> Self {
        Self {
            policy,
            clusters: BTreeMap::new(),
            objects: BTreeMap::new(),
            revisions: BTreeSet::new(),
            scheduler_state: SchedulerState::new(),
        }
    }

    /// Reads the scheduler state as the type of the dialect. A state of another form counts as empty.
    pub fn read_state<S: Default + DeserializeOwned>(&self) -> S {
        S::deserialize(&*self.scheduler_state).unwrap_or_default()
    }

    /// Writes the scheduler state.
    pub fn write_state<S: Serialize>(&mut self, state: &S) {
        self.scheduler_state = SchedulerState::from_state(state);
    }

    /// Notes that the newest revision changes nothing in the clusters whose resources it leaves as they are.
    pub fn keep_unchanged(&mut self, subject: &RolloutSubject<'_>, moment: &RolloutMoment<'_>) {
        for (name, cluster) in &mut self.clusters {
            if cluster.resources == moment.resource_digest(name) && subject.has_cluster(name) {
                moment.revision.clone_into(&mut cluster.revision);
            }
        }
    }

    /// Releases the newest resources to a cluster, or begins to remove them if the policy has left it.
    pub fn release(&mut self, name: &ClusterName, subject: &RolloutSubject<'_>, moment: &RolloutMoment<'_>) {
        match self.clusters.get_mut(name) {
            Some(cluster) if !subject.has_cluster(name) => {
                (cluster.leaving, cluster.since) = (true, Some(moment.now));
            }
            _ => {
                let digest = moment.resource_digest(name);
                let released = ClusterRollout::from_release(moment.revision, digest, moment.now);
                self.clusters.insert(name.clone(), released);
            }
        }
    }

    /// The first cluster that failed, with the reason.
    pub fn first_failure(&self) -> Option<String> {
        self.clusters.iter().find_map(|(name, cluster)| Some(format!("{name}: {}", cluster.failed.as_ref()?)))
    }

    /// The revisions that clusters have or may get.
    pub fn used_revisions(&self) -> impl Iterator<Item = &String> {
        let open = self.clusters.values().filter(|cluster| !cluster.leaving);
        open.map(|cluster| &cluster.revision).chain(&self.revisions)
    }
}

/// What the newest revision renders for a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyResources {
    /// The digest of everything.
    pub digest: String,
    /// The digest for each cluster.
    pub clusters: BTreeMap<ClusterName, String>,
}

/// When a rollout continues, and with what.
#[derive(Clone, Copy, Debug)]
pub struct RolloutMoment<'m> {
    /// The time.
    pub now: Timestamp,
    /// Who carries it out.
    pub driver: RolloutDriver,
    /// The newest revision.
    pub revision: &'m str,
    /// What it renders for the policy.
    pub resources: &'m PolicyResources,
    /// The tasks that are approved.
    pub approvals: &'m BTreeSet<String>,
}

impl RolloutMoment<'_> {
    /// The digest of what the newest revision sends to a cluster; empty if it sends nothing.
    pub fn resource_digest(&self, cluster: &ClusterName) -> &str {
        self.resources.clusters.get(cluster).map_or("", String::as_str)
    }
}

/// How a rollout goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutProgress {
    /// Every cluster has the newest resources.
    Done,
    /// Nothing happens until the repo changes.
    Idle,
    /// Clusters are being updated, or some time has to pass.
    Going,
    /// It waits for the approval of this task.
    Approval(String),
    /// Something failed.
    Halted,
}

/// What a control plane did for a rollout at a moment. The clusters to which it released resources are noted in the
/// [`PolicyRollout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutStep {
    /// The object that asks for it: a policy, or a run.
    pub object: ObjectRef,
    /// How it goes on.
    pub progress: RolloutProgress,
    /// The progress in words.
    pub message: String,
    /// The stage that it is at; empty if it has none.
    pub stage: String,
    /// The revision that it rolls out.
    pub revision: String,
    /// How many clusters have that.
    pub updated: usize,
    /// When it continues by itself, if it waits for time.
    pub next: Option<Timestamp>,
}

/// A policy that sends an object, with the clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyClusters {
    /// The policy.
    pub policy: ObjectRef,
    /// The clusters, sorted by name.
    pub clusters: Vec<ClusterName>,
}
