//! What a placement that update runs roll out must remember: the numbers of its policy and of its resources, and the
//! status of its runs.

use federate_dialect::{PolicyRollout, RolloutMoment};
use federate_kubernetes::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::api::PlacementPolicy;
use crate::rollout::run::status::RunStatus;

/// The state of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RolloutControllerState {
    /// `spec.policy`, as written.
    policy: Value,
    /// How often it has changed in more than the number of clusters.
    pub(super) policy_index: i64,
    /// The resources that were sent or may be, in order.
    pub(super) snapshots: Vec<ResourceSnapshot>,
    /// The runs in the repo, by name.
    pub(super) runs: BTreeMap<String, UpdateRunState>,
}

/// Resources of a placement, by number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourceSnapshot {
    /// The number, as runs name it.
    pub(super) index: i64,
    /// The revision that renders them.
    pub(super) revision: String,
    /// Their digest, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) digest: String,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct UpdateRunState {
    /// The fields of its spec that cannot be changed.
    pub(super) fixed: Value,
    /// `spec.state`.
    pub(super) state: String,
    /// The revision that was the newest when it was initialized. Approvals name it.
    pub(super) revision: String,
    /// Its status.
    pub(super) status: RunStatus,
}

impl RolloutControllerState {
    /// Notes the policy, and which revision renders the newest resources.
    pub(super) fn record_revision(
        &mut self,
        placement: &Object,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) {
        let policy = placement.value_at(&["spec", "policy"]).cloned().unwrap_or_default();
        let before = PlacementPolicy::from_json(Some(&self.policy)).ok();
        let now = PlacementPolicy::from_json(Some(&policy)).ok();
        if !before.zip(now).is_some_and(|(before, now)| now.same_snapshot(&before)) {
            self.policy_index += 1;
        }
        self.policy = policy;
        self.advance_unchanged(rollout, moment);
        for cluster in rollout.clusters.values() {
            if self.find_index(&cluster.revision).is_none() {
                let newest = cluster.revision == moment.revision;
                let digest = if newest { moment.resources.digest.clone() } else { String::new() };
                self.snapshots.push(ResourceSnapshot {
                    index: self.next_index(),
                    revision: cluster.revision.clone(),
                    digest,
                });
            }
        }
    }

    /// Notes what the newest revision does not change: everything, or what some clusters have.
    fn advance_unchanged(&mut self, rollout: &mut PolicyRollout, moment: &RolloutMoment<'_>) {
        if let Some(last) = self.snapshots.last_mut()
            && last.digest == moment.resources.digest
        {
            let former = std::mem::replace(&mut last.revision, moment.revision.to_owned());
            for cluster in rollout.clusters.values_mut().filter(|cluster| cluster.revision == former) {
                moment.revision.clone_into(&mut cluster.revision);
            }
        }
        for (name, cluster) in rollout.clusters.iter_mut().filter(|(_, cluster)| !cluster.is_open()) {
            if moment.resources.clusters.get(name) == Some(&cluster.resources) {
                moment.revision.clone_into(&mut cluster.revision);
            }
        }
    }

    fn next_index(&self) -> i64 {
        self.snapshots.last().map_or(0, |last| last.index + 1)
    }

    /// Takes a snapshot of the newest resources, unless the last one has them.
    pub(super) fn take_snapshot(&mut self, moment: &RolloutMoment<'_>) {
        if self.find_index(moment.revision).is_none() {
            self.snapshots.push(ResourceSnapshot {
                index: self.next_index(),
                revision: moment.revision.to_owned(),
                digest: moment.resources.digest.clone(),
            });
        }
    }

    /// The revision of some resources.
    pub(super) fn find_revision(&self, index: &str) -> Option<&str> {
        let known = self.snapshots.iter().find(|known| known.index.to_string() == index)?;
        Some(&known.revision)
    }

    /// The number of the resources of a revision.
    pub(super) fn find_index(&self, revision: &str) -> Option<i64> {
        self.snapshots.iter().find(|known| known.revision == revision).map(|known| known.index)
    }

    /// Forgets the resources that no cluster has and no run sends, but for the last ones.
    pub(super) fn forget_unused(&mut self, rollout: &mut PolicyRollout) {
        let open = self.runs.values().filter(|run| !run.is_over());
        let sent: Vec<String> = open.map(|run| run.status.resource_snapshot_index_used.clone()).collect();
        let last = self.snapshots.last().map(|last| last.index);
        self.snapshots.retain(|known| {
            Some(known.index) == last
                || sent.contains(&known.index.to_string())
                || rollout.clusters.values().any(|cluster| cluster.revision == known.revision)
        });
        let sent = self.snapshots.iter().filter(|known| sent.contains(&known.index.to_string()));
        rollout.revisions = sent.map(|known| known.revision.clone()).collect();
    }
}

impl UpdateRunState {
    /// Whether the run has ended, or could not be initialized.
    pub(super) fn is_over(&self) -> bool {
        let conditions = &self.status.conditions;
        conditions.iter().any(|condition| {
            condition.kind == "Succeeded" || (condition.kind == "Initialized" && condition.is_false())
        })
    }

    /// Leaves out what nothing reads again.
    pub(super) fn drop_details(&mut self) {
        if self.is_over() {
            let status = &mut self.status;
            (status.stages, status.deletion_stage) = (Vec::new(), None);
            (status.staged_update_strategy_snapshot, status.applied_strategy) = (None, None);
            return;
        }
        let stages = self.status.stages.iter_mut().chain(&mut self.status.deletion_stage);
        for condition in stages.flat_map(|stage| &mut stage.clusters).flat_map(|c| &mut c.conditions) {
            (condition.reason, condition.message) = (String::new(), String::new());
        }
    }
}

/// The fields of a run that cannot be changed.
pub(super) fn fixed_fields(run: &Object) -> Value {
    let fields = ["placementName", "stagedRolloutStrategyName", "resourceSnapshotIndex"];
    fields.map(|field| run.text_at(&["spec", field])).into_iter().collect()
}
