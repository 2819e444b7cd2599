//! Whether the scheduler acts again: compares the inputs of the last decision, which the scheduler state keeps, with the
//! current ones.
//!
//! Facts: changes of the template's scheduling annotations, replicas, pod requests, policy name and migration
//! estimates always count, and so do taints and clusters that are gone. Changes of the policy's content and
//! other changes of clusters count if the policy's `rescheduleWhen` says so. If the scheduler does not act, its
//! scheduler state stays, so that a later permitted change includes all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::api::PolicySpec;
use super::state::KubeAdmiralState;
use super::{hash, keys, podspec};
use federate_dialect::{Placement, PreviousPlan, gojson};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Apis, Cluster, Object, pods, work};
use federate_repo::Repo;

/// The inputs of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SchedulingTriggers {
    /// A digest of the template's scheduling annotations.
    annotations: String,
    replicas: i64,
    /// What a pod requests.
    #[serde(default, skip_serializing_if = "Request::is_nothing")]
    request: Request,
    /// The estimates of unschedulable replicas, where the policy uses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    migration: Option<String>,
    /// The policy's name; empty without one.
    policy: String,
    /// A digest of its content.
    pub(super) content: String,
    /// The digest of the clusters in the shared scheduler state.
    clusters: String,
}

/// What a pod requests, in whole units; of CPU in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    millicpu: i64,
    memory: i64,
    ephemeral_storage: i64,
    scalar_resources: Option<BTreeMap<String, i64>>,
}

impl Request {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn from_template(template: &Object) -> Self {
        let mut amounts =
            podspec::find_pod_spec(template).map(pods::requests_without_init_limits).unwrap_or_default();
        let [cpu, memory, storage] = ["cpu", "memory", "ephemeral-storage"].map(|name| amounts.remove(name));
        let others: BTreeMap<String, i64> =
            amounts.into_iter().map(|(name, amount)| (name, amount.value())).collect();
        Self {
            millicpu: cpu.map_or(0, Quantity::milli_value),
            memory: memory.map_or(0, Quantity::value),
            ephemeral_storage: storage.map_or(0, Quantity::value),
            scalar_resources: (!others.is_empty()).then_some(others),
        }
    }
}

/// The clusters of a decision, each with digests of its labels, taints and API types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct TriggerClusters(BTreeMap<String, [String; 3]>);

impl TriggerClusters {
    /// The joined clusters of the inventory.
    pub(super) fn from_inventory(repo: &Repo, clusters: &[Cluster]) -> Self {
        let joined = clusters.iter().filter(|cluster| cluster.joined);
        let digests = joined.map(|cluster| {
            let types = hash::hash_api_types(&api_types(repo, cluster));
            let digests = [hash::hash_labels(&cluster.labels), hash::hash_taints(&cluster.taints), types];
            (cluster.name.to_string(), digests)
        });
        Self(digests.collect())
    }

    /// The digests at an index, by cluster.
    fn digests_at(&self, respect: usize) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, digests)| (name.clone(), digests[respect].clone())).collect()
    }

    /// The digest of all clusters.
    pub(super) fn compute_digest(&self) -> String {
        sha256_digest(&self)
    }

    /// What differs now. If a known cluster is gone, each digest does.
    fn find_changes(&self, now: &Self) -> ClusterChanges {
        if std::ptr::eq(self, now) {
            return ClusterChanges::default();
        }
        work::charge_items(8 * self.0.len());
        let mut changes = ClusterChanges { joined: now.0.len() > self.0.len(), ..ClusterChanges::default() };
        for (name, was) in &self.0 {
            let Some(is) = now.0.get(name) else {
                return ClusterChanges { digests: [true; 3], joined: false };
            };
            for (changed, (was, is)) in changes.digests.iter_mut().zip(was.iter().zip(is)) {
                *changed |= was != is;
            }
        }
        changes
    }
}

/// The clusters of last decisions, by their digest: many objects remember the same ones.
#[derive(Default)]
pub(super) struct RememberedClusters(Mutex<HashMap<String, Option<Arc<TriggerClusters>>>>);

impl RememberedClusters {
    /// The clusters of a digest in the scheduler state that placements share; `None` if it does not have them.
    fn read_clusters(&self, digest: &str, previous: &PreviousPlan) -> Option<Arc<TriggerClusters>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clusters) = known.get(digest) {
            return clusters.clone();
        }
        let shared = previous.find_shared(digest)?;
        work::charge_value(shared);
        let clusters = TriggerClusters::deserialize(shared).ok().map(Arc::new);
        known.insert(digest.to_owned(), clusters.clone());
        clusters
    }
}

/// How the clusters differ from those of the last decision.
#[derive(Default)]
struct ClusterChanges {
    /// Whether the digests at each index differ.
    digests: [bool; 3],
    /// Whether clusters were added.
    joined: bool,
}

/// The control plane stores its clusters in the order of a hash map, which starts at a random place of eight.
/// From this many clusters on, the order usually differs from the last one. The control plane then finds a
/// change, and reports it unless it compares further.
const SHUFFLED_FROM: usize = 4;

const LABELS_DIGEST: usize = 0;
const TAINTS_DIGEST: usize = 1;
const API_TYPES_DIGEST: usize = 2;

/// The API types as the inventory lists them, else the neutral ones.
fn api_types(repo: &Repo, cluster: &Cluster) -> Vec<Value> {
    let at = repo.claimed.binary_search_by(|c| c.object.id.cmp(&cluster.id)).ok();
    let object = at.and_then(|at| repo.claimed.get(at)).map(|c| &c.object);
    let listed = object.and_then(|o| o.value_at(&["status", "apiResourceTypes"])?.as_array());
    match (listed, &cluster.apis) {
        (Some(listed), _) => listed.clone(),
        (None, Apis::All) => Vec::new(),
        (None, Apis::Listed(set)) => {
            let neutral = set.iter().map(|(api_version, kind)| {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                json!({"group": group, "version": version, "kind": kind})
            });
            neutral.collect()
        }
    }
}

/// A digest of a value, in sixteen hexadecimal digits.
fn sha256_digest<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let first = Sha256::digest(text).iter().take(8).fold(0, |all: u64, byte| all << 8 | u64::from(*byte));
    format!("{first:016x}")
}

/// The inputs from the template and its policy.
pub(super) struct TriggerInput<'s> {
    pub(super) template: &'s Object,
    pub(super) replicas: i64,
    pub(super) policy: Option<(&'s str, &'s PolicySpec)>,
    /// The digest of the policy's content.
    pub(super) content: &'s str,
    /// The estimates of the auto-migration controller.
    pub(super) estimates: Option<&'s str>,
    /// The migration configuration in force.
    pub(super) migration: Option<&'s str>,
}

impl SchedulingTriggers {
    pub(super) fn new(subject: &TriggerInput<'_>, clusters: &str) -> Self {
        const COUNTED: [&str; 9] = [
            keys::SCHEDULING_MODE,
            keys::STICKY_CLUSTER,
            keys::TOLERATIONS,
            keys::PLACEMENTS,
            keys::CLUSTER_SELECTOR,
            keys::AFFINITY,
            keys::MAX_CLUSTERS,
            keys::FOLLOWS,
            keys::DRY_RUN,
        ];
        let mut annotations: BTreeMap<&str, &str> =
            COUNTED.iter().filter_map(|key| Some((*key, subject.template.annotation(key)?))).collect();
        annotations.extend(subject.migration.map(|text| (keys::APPLIED_MIGRATION, text)));
        let migrates = subject.policy.is_some_and(|(_, spec)| spec.auto_migration.is_some());
        Self {
            annotations: hash::hash_annotations(&annotations),
            replicas: subject.replicas,
            request: Request::from_template(subject.template),
            migration: subject.estimates.filter(|_| migrates).map(str::to_owned),
            policy: subject.policy.map(|(name, _)| name.to_owned()).unwrap_or_default(),
            content: subject.content.to_owned(),
            clusters: clusters.to_owned(),
        }
    }

    /// Reads the text that the scheduler writes to a federated object.
    pub(super) fn parse_annotation(text: &str) -> Option<(Self, TriggerClusters)> {
        let stored: Stored = serde_json::from_str(text).ok()?;
        let hashes = [
            &stored.cluster_labels_hashes,
            &stored.cluster_taints_hashes,
            &stored.cluster_api_resource_types_hashes,
        ];
        let mut clusters = TriggerClusters::default();
        for name in &stored.clusters {
            let digests = hashes.map(|map| map.get(name).cloned().unwrap_or_default());
            clusters.0.insert(name.clone(), digests);
        }
        let state = Self {
            annotations: stored.scheduling_annotations_hash,
            replicas: stored.replica_count,
            request: stored.resource_request,
            migration: stored.auto_migration_info,
            policy: stored.policy_name,
            content: stored.policy_content_hash,
            clusters: clusters.compute_digest(),
        };
        Some((state, clusters))
    }

    /// The text that the scheduler writes to a federated object, with the clusters that the state refers to.
    pub(super) fn to_annotation(&self, clusters: &TriggerClusters) -> String {
        let stored = Stored {
            scheduling_annotations_hash: self.annotations.clone(),
            replica_count: self.replicas,
            resource_request: self.request.clone(),
            auto_migration_info: self.migration.clone(),
            policy_name: self.policy.clone(),
            policy_content_hash: self.content.clone(),
            clusters: clusters.0.keys().cloned().collect(),
            cluster_labels_hashes: clusters.digests_at(LABELS_DIGEST),
            cluster_taints_hashes: clusters.digests_at(TAINTS_DIGEST),
            cluster_api_resource_types_hashes: clusters.digests_at(API_TYPES_DIGEST),
        };
        gojson::write_fields(&json!(stored))
    }

    /// The remembered state, with the clusters to which it refers.
    pub(super) fn with_clusters(
        remembered: Option<&Self>,
        previous: &PreviousPlan,
        known: &RememberedClusters,
    ) -> Option<(Self, Arc<TriggerClusters>)> {
        let state = remembered?;
        Some((state.clone(), known.read_clusters(&state.clusters, previous)?))
    }

    /// The inputs whose changes always count.
    fn stable_inputs(&self) -> (&str, i64, &Request, &Option<String>, &str) {
        (&self.annotations, self.replicas, &self.request, &self.migration, &self.policy)
    }
}

/// The text that the scheduler writes to a federated object.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stored {
    scheduling_annotations_hash: String,
    replica_count: i64,
    resource_request: Request,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_migration_info: Option<String>,
    policy_name: String,
    policy_content_hash: String,
    #[serde(deserialize_with = "null_default")]
    clusters: Vec<String>,
    #[serde(deserialize_with = "null_default")]
    cluster_labels_hashes: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_default")]
    cluster_taints_hashes: BTreeMap<String, String>,
    #[serde(rename = "clusterAPIResourceTypesHashes", deserialize_with = "null_default")]
    cluster_api_resource_types_hashes: BTreeMap<String, String>,
}

/// Whether the scheduler acts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TriggerVerdict {
    /// The scheduler acts.
    Schedule,
    /// It does not act. The text lists the changes that it ignores; it is empty if there are none.
    Stay(String),
}

/// Compares the inputs of the last decision with the current ones.
pub(super) fn compare_triggers(
    was: Option<(&SchedulingTriggers, &TriggerClusters)>,
    now: (&SchedulingTriggers, &TriggerClusters),
    policy: Option<&PolicySpec>,
) -> TriggerVerdict {
    let ((now, there), Some((was, were))) = (now, was) else { return TriggerVerdict::Schedule };
    if was == now && (policy.is_none() || there.0.len() < SHUFFLED_FROM) {
        return TriggerVerdict::Stay(String::new());
    }
    let Some(policy) = policy else { return TriggerVerdict::Schedule };
    if was.stable_inputs() != now.stable_inputs() {
        return TriggerVerdict::Schedule;
    }
    let rescheduling = &policy.reschedule_policy;
    if rescheduling.disable_rescheduling {
        return TriggerVerdict::Stay("disableRescheduling:true".to_owned());
    }
    let Some(when) = &rescheduling.reschedule_when else {
        return TriggerVerdict::Stay("rescheduleWhen:nil".to_owned());
    };
    let found = were.find_changes(there);
    let changes = [
        (was.content != now.content, when.policy_content_changed.0, "policyContentChanged"),
        (found.digests[LABELS_DIGEST], when.cluster_labels_changed, "clusterLabelsChanged"),
        (found.digests[TAINTS_DIGEST], true, "clusterTaintsChanged"),
        (found.digests[API_TYPES_DIGEST], when.cluster_api_resources_changed, "clusterAPIResourcesChanged"),
        (found.joined, when.cluster_joined, "clusterJoined"),
    ];
    if changes.iter().any(|(changed, permitted, _)| *changed && *permitted) {
        return TriggerVerdict::Schedule;
    }
    let deferred = changes.iter().filter(|(changed, ..)| *changed).map(|(.., name)| format!("{name}:false"));
    TriggerVerdict::Stay(deferred.collect::<Vec<_>>().join("; "))
}

/// The clusters that placements refer to, each list once.
pub(super) fn shared_clusters(
    placements: &[Placement],
    now: &TriggerClusters,
    digest: &str,
    previous: &PreviousPlan,
) -> Map<String, Value> {
    let mut shared = Map::new();
    let referred =
        placements.iter().filter_map(|row| Some(KubeAdmiralState::from_row(row).trigger?.clusters));
    for wanted in referred.collect::<BTreeSet<_>>() {
        let clusters = if wanted == digest {
            serde_json::to_value(now).ok()
        } else {
            previous.find_shared(&wanted).cloned()
        };
        shared.extend(clusters.map(|clusters| (wanted, clusters)));
    }
    shared
}
