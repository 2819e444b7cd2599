//! The record of a Sync: what the loop keeps between rounds besides the plan.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use federate_dialect::PolicyRollouts;

use crate::progress::{ClusterRevisions, RolloutState};
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
    /// The spec that was carried out last. A Sync whose spec has become invalid is deleted by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub valid_spec: Option<Box<SyncSpec>>,
}

/// What is kept of a [`Record`] where the API server has the rest, as the object and its status.
#[derive(Serialize, Deserialize)]
struct StoredRecord {
    spec: String,
    accepted: Option<AcceptedRevision>,
    #[serde(default)]
    rollout: Option<RolloutState>,
    #[serde(default)]
    clusters: ClusterRevisions,
    #[serde(default)]
    policies: PolicyRollouts,
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
    /// Whether everything was carried out.
    pub done: bool,
    /// The clusters that are still to be brought to it; all of them if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<BTreeSet<String>>,
    /// The repository and the folder that clusters were brought to last. If another one follows, it takes the
    /// `ApplySet` over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The digest of what it renders, if clusters are updated in stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering: Option<String>,
    /// The digest of the status of the clusters by which it was planned, if the repo does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<String>,
}

impl AcceptedRevision {
    /// Whether the source has not moved, and its revision was carried out completely.
    pub fn is_at(&self, tip: &str, branches: Option<&BTreeMap<String, String>>) -> bool {
        self.done && self.is_for(tip, branches)
    }

    /// Whether neither the source nor the branches have moved, as far as that is known.
    pub fn is_for(&self, tip: &str, branches: Option<&BTreeMap<String, String>>) -> bool {
        let stays = |(branch, commit): (&String, &String)| {
            branches.is_none_or(|branches| branches.get(branch) == Some(commit))
        };
        self.tip == tip && self.branches.iter().all(stays)
    }
}

/// The digest of a spec.
pub fn spec_digest(sync: &Sync) -> String {
    compute_digest([serde_json::to_string(&sync.spec).unwrap_or_default().as_bytes()])
}

impl SyncRecord {
    /// The record of a Sync before its first round.
    pub fn new(sync: &Sync, generation: i64, status: SyncStatus) -> Self {
        Self {
            api_version: SyncApiVersion::V1Alpha1,
            kind: SyncKind::Sync,
            metadata: RecordMetadata { name: sync.metadata.clone(), generation },
            status,
            spec: spec_digest(sync),
            accepted: None,
            rollout: None,
            clusters: ClusterRevisions::new(),
            policies: PolicyRollouts::new(),
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
            accepted: None,
            rollout: None,
            clusters: ClusterRevisions::new(),
            policies: PolicyRollouts::new(),
            valid_spec: None,
        }
    }

    /// Whether the one commit that a Sync names was carried out.
    pub fn is_rolled_back(&self, sync: &Sync) -> bool {
        let reference = sync.spec.source.reference.as_ref();
        let commit = reference.and_then(|reference| reference.commit.as_ref());
        let accepted = self.accepted.as_ref().filter(|accepted| accepted.done && self.rollout.is_none());
        accepted.zip(commit).is_some_and(|(accepted, commit)| accepted.tip.eq_ignore_ascii_case(commit))
    }

    /// Reads a record; `None` if it is damaged.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The record as text.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What is to be kept of the record where the API server has the object and its status.
    pub fn to_stored(&self) -> String {
        let stored = StoredRecord {
            spec: self.spec.clone(),
            accepted: self.accepted.clone(),
            rollout: self.rollout.clone(),
            clusters: self.clusters.clone(),
            policies: self.policies.clone(),
            valid_spec: self.valid_spec.clone(),
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Restores what [`stored`](Self::stored) has returned, unless it is damaged.
    pub fn restore_stored(&mut self, stored: &str) {
        if let Ok(stored) = serde_json::from_str::<StoredRecord>(stored) {
            (self.spec, self.accepted) = (stored.spec, stored.accepted);
            (self.rollout, self.clusters) = (stored.rollout, stored.clusters);
            (self.policies, self.valid_spec) = (stored.policies, stored.valid_spec);
        }
    }

    /// Notes whether the spec has changed; `counts` says whether generations are counted here.
    pub fn follow_spec(&mut self, sync: &Sync, counts: bool) {
        let spec = spec_digest(sync);
        if self.spec != spec {
            self.spec = spec;
            self.metadata.generation += i64::from(counts);
            // Another spec may want something else done with the same revision.
            if let Some(accepted) = &mut self.accepted {
                (accepted.done, accepted.pending) = (false, None);
                for cluster in self.clusters.values_mut() {
                    cluster.stale |= cluster.revision.as_ref() == Some(&accepted.tip);
                }
            }
            if let Some(rollout) = &mut self.rollout {
                rollout.restarts = true;
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
    sha.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
