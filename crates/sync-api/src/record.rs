//! The record of a Sync: what the loop keeps between reconciliations besides the plan.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::hex::to_hex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use federate_dialect::PolicyRollouts;

use crate::progress::{ClusterRevisions, RolloutState};
use crate::stage::SyncStage;
use crate::status::SyncStatus;
use crate::{NamespacedName, Sync, SyncApiVersion, SyncKind, SyncSpec};

/// The record of a Sync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncRecord {
    /// `federate.dev/v1alpha1`
    pub api_version: SyncApiVersion,
    /// `Sync`
    pub kind: SyncKind,
    /// Which one.
    pub metadata: RecordMetadata,
    /// The status.
    pub status: SyncStatus,
    /// The digest of the spec.
    pub spec: String,
    /// What is being done with the revision that was accepted last. [`SyncRecord::enter_stage`] sets it; what is next is
    /// decided by it alone.
    #[serde(default)]
    pub stage: SyncStage,
    /// The revision that was accepted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptedRevision>,
    /// The rollout that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutState>,
    /// The revisions that clusters have, if they are updated in stages.
    #[serde(default, skip_serializing_if = "ClusterRevisions::is_empty")]
    pub clusters: ClusterRevisions,
    /// What clusters have of policies that limit how they are updated.
    #[serde(default, skip_serializing_if = "PolicyRollouts::is_empty")]
    pub policies: PolicyRollouts,
    /// The message of the last reconciliation that succeeded. A reconciliation in which nothing has changed repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<String>,
    /// The spec that was carried out last. A Sync whose spec has become invalid is deleted by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub valid_spec: Option<Box<SyncSpec>>,
}

/// What is kept of a [`SyncRecord`] where the API server has the rest, as the object and its status.
#[derive(Serialize, Deserialize)]
struct StoredRecord {
    spec: String,
    #[serde(default)]
    stage: SyncStage,
    accepted: Option<AcceptedRevision>,
    #[serde(default)]
    rollout: Option<RolloutState>,
    #[serde(default)]
    clusters: ClusterRevisions,
    #[serde(default)]
    policies: PolicyRollouts,
    #[serde(default)]
    success: Option<String>,
    #[serde(default)]
    valid_spec: Option<Box<SyncSpec>>,
}

/// The metadata of a Sync, with the number of its spec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordMetadata {
    /// Name and namespace.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// It grows when the spec changes.
    pub generation: i64,
}

/// A revision that was accepted: it passed all checks, and its plan is the scheduler's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedRevision {
    /// Where the source was: a commit, a tag object, or the digest of a folder.
    pub tip: String,
    /// Where the branches are that were committed to.
    pub branches: BTreeMap<String, String>,
    /// The digest of the plan that was pushed to a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// Whether the stage of the record is `Idle`, for versions that record no stages. [`SyncRecord::enter_stage`] sets it.
    pub done: bool,
    /// The clusters that lack it: those that failed in the last attempt to bring it to all. `None` before that attempt has
    /// ended (`Applying`), when none lacks it (`Idle`), and in rollouts in stages, where the clusters of the record say so.
    #[serde(rename = "pending", default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<BTreeSet<String>>,
    /// The repository and the folder that clusters were brought to last. If another one follows, it takes the
    /// `ApplySet` over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The digest of what it renders, if clusters are updated in stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering: Option<String>,
    /// The digest of the status of the clusters by which it was planned, if the repo does not say it.
    #[serde(rename = "inventory", default, skip_serializing_if = "Option::is_none")]
    pub inventory_digest: Option<String>,
}

impl AcceptedRevision {
    /// Whether neither the source nor the branches have moved, as far as that is known.
    pub fn is_for(&self, tip: &str, branches: Option<&BTreeMap<String, String>>) -> bool {
        self.tip == tip
            && self
                .branches
                .iter()
                .all(|(branch, commit)| branches.is_none_or(|branches| branches.get(branch) == Some(commit)))
    }
}

/// The digest of a spec.
pub fn spec_digest(sync: &Sync) -> String {
    compute_digest([serde_json::to_string(&sync.spec).unwrap_or_default().as_bytes()])
}

impl SyncRecord {
    /// The record of a Sync before its first reconciliation.
    pub fn new(sync: &Sync, generation: i64, status: SyncStatus) -> Self {
        Self {
            api_version: SyncApiVersion::V1Alpha1,
            kind: SyncKind::Sync,
            metadata: RecordMetadata { name: sync.metadata.clone(), generation },
            status,
            spec: spec_digest(sync),
            stage: SyncStage::Idle,
            accepted: None,
            rollout: None,
            clusters: ClusterRevisions::new(),
            policies: PolicyRollouts::new(),
            success: None,
            valid_spec: None,
        }
    }

    /// The record of an invalid Sync.
    pub fn for_invalid(metadata: &NamespacedName, generation: i64, status: SyncStatus) -> Self {
        Self {
            api_version: SyncApiVersion::V1Alpha1,
            kind: SyncKind::Sync,
            metadata: RecordMetadata { name: metadata.clone(), generation },
            status,
            spec: String::new(),
            stage: SyncStage::Idle,
            accepted: None,
            rollout: None,
            clusters: ClusterRevisions::new(),
            policies: PolicyRollouts::new(),
            success: None,
            valid_spec: None,
        }
    }

    /// Whether the revision that was accepted last is the one commit that a Sync names.
    pub fn is_at_named_commit(&self, sync: &Sync) -> bool {
        let reference = sync.spec.source.reference.as_ref();
        let commit = reference.and_then(|reference| reference.commit.as_ref());
        let accepted = self.accepted.as_ref();
        accepted.zip(commit).is_some_and(|(accepted, commit)| accepted.tip.eq_ignore_ascii_case(commit))
    }

    /// Notes a stage of the revision that was accepted last.
    pub fn enter_stage(&mut self, stage: SyncStage) {
        self.stage = stage;
        if let Some(accepted) = &mut self.accepted {
            accepted.done = stage == SyncStage::Idle;
            if matches!(stage, SyncStage::Idle | SyncStage::Applying) {
                accepted.lacking = None;
            }
        }
    }

    /// Finds the stage of a record that was written before stages were recorded.
    fn with_stage(mut self) -> Self {
        let Some(accepted) = self.accepted.as_ref().filter(|accepted| !accepted.done) else { return self };
        if self.stage == SyncStage::Idle {
            self.stage = match (&self.rollout, self.policies.is_empty(), &accepted.lacking) {
                (Some(_), _, _) => SyncStage::RollingOut,
                (None, false, _) => SyncStage::RollingOutPolicies,
                (None, true, Some(_)) => SyncStage::Retrying,
                (None, true, None) => SyncStage::Applying,
            };
        }
        self
    }

    /// Reads a record; `None` if it is damaged.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self::with_stage)
    }

    /// The record as text.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What is to be kept of the record where the API server has the object and its status.
    pub fn to_stored(&self) -> String {
        let stored = StoredRecord {
            spec: self.spec.clone(),
            stage: self.stage,
            accepted: self.accepted.clone(),
            rollout: self.rollout.clone(),
            clusters: self.clusters.clone(),
            policies: self.policies.clone(),
            success: self.success.clone(),
            valid_spec: self.valid_spec.clone(),
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Restores what `to_stored` has returned, unless it is damaged.
    pub fn restore_stored(&mut self, stored: &str) {
        if let Ok(stored) = serde_json::from_str::<StoredRecord>(stored) {
            let StoredRecord { spec, stage, accepted, rollout, clusters, policies, success, valid_spec } =
                stored;
            let own = self.clone();
            let restored =
                Self { spec, stage, accepted, rollout, clusters, policies, success, valid_spec, ..own };
            *self = restored.with_stage();
        }
    }

    /// Notes whether the spec has changed; `counts` says whether generations are counted here.
    pub fn follow_spec(&mut self, sync: &Sync, counts: bool) {
        let spec = spec_digest(sync);
        if self.spec != spec {
            self.spec = spec;
            self.metadata.generation += i64::from(counts);
            // Another spec may want something else done with the same revision.
            if let Some(accepted) = &self.accepted {
                for cluster in self.clusters.values_mut() {
                    cluster.stale |= cluster.revision.as_ref() == Some(&accepted.tip);
                }
                self.enter_stage(SyncStage::Applying);
            }
        }
        self.status.observed_generation = self.metadata.generation;
    }
}

/// The digest of some texts, in hexadecimal.
pub fn compute_digest<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut sha = Sha256::new();
    for text in texts {
        sha.update((text.len() as u64).to_be_bytes());
        sha.update(text);
    }
    to_hex(&sha.finalize())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A record as it was written before stages were recorded.
    fn read_former(accepted: &Value, more: &Value) -> SyncRecord {
        let mut record = json!({
            "apiVersion": "federate.dev/v1alpha1", "kind": "Sync",
            "metadata": {"namespace": "default", "name": "web", "generation": 1},
            "status": SyncStatus::default().to_value(), "spec": "", "accepted": {"tip": "a", "branches": {}},
        });
        for (key, value) in accepted.as_object().unwrap() {
            record["accepted"][key] = value.clone();
        }
        for (key, value) in more.as_object().unwrap() {
            record[key] = value.clone();
        }
        SyncRecord::parse(&record.to_string()).unwrap()
    }

    #[test]
    fn records_without_a_stage_go_on_where_they_were() {
        let rollout = json!({"rollout": {"target": "a", "stages": {}}});
        for (accepted, more, stage) in [
            (json!({"done": true}), json!({}), SyncStage::Idle),
            (json!({"done": false}), json!({}), SyncStage::Applying),
            (json!({"done": false, "pending": ["m1"]}), json!({}), SyncStage::Retrying),
            (json!({"done": false}), rollout, SyncStage::RollingOut),
        ] {
            assert_eq!(read_former(&accepted, &more).stage, stage, "{accepted}");
        }
    }

    #[test]
    fn a_stage_is_read_as_it_was_written_and_former_versions_know_what_is_done() {
        let mut record = read_former(&json!({"done": true}), &json!({}));
        for stage in SyncStage::ACCEPTED {
            record.enter_stage(stage);
            let text = record.to_text();
            assert_eq!(SyncRecord::parse(&text).unwrap().stage, stage);
            let mut restored = read_former(&json!({"done": true}), &json!({}));
            restored.restore_stored(&record.to_stored());
            assert_eq!(restored.stage, stage);
            let written: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(written["accepted"]["done"], stage == SyncStage::Idle);
        }
    }
}
