//! Whether the scheduler acts again: what it last decided from, kept in the placement's memory, against
//! what it would decide from now.
//!
//! Facts: changes of the template's scheduling annotations, replicas, pod requests, policy name and
//! migration estimates always count; changes of the policy's content and of the clusters count as the
//! policy's `rescheduleWhen` says; taints, and clusters that are gone, always do. When it does not act,
//! what it remembers stays as it was, so that a later permitted change sees all of them at once.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::api::PolicySpec;
use super::{keys, podspec};
use federate_dialect::{Placement, Previous};
use federate_kubernetes::{Apis, Cluster, Object};
use federate_repo::Repo;

/// What a decision was taken from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// A digest of the template's scheduling annotations.
    annotations: String,
    replicas: i64,
    /// A digest of what a pod requests.
    request: String,
    /// A digest of the estimates for replicas without room, where the policy looks at them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    migration: Option<String>,
    /// The policy's name; empty without one.
    policy: String,
    /// A digest of its content.
    content: String,
    /// The digest under which the clusters are kept.
    clusters: String,
}

/// The clusters that were there, each with digests of its labels, taints and API types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Clusters(BTreeMap<String, [String; 3]>);

impl Clusters {
    /// The joined clusters of the inventory.
    pub(super) fn of(repo: &Repo, clusters: &[Cluster]) -> Self {
        let known = |cluster: &Cluster| {
            let mut taints: Vec<_> = cluster.taints.iter().map(|t| (&t.key, &t.value, &t.effect)).collect();
            taints.sort();
            let digests = [digest(&cluster.labels), digest(&taints), digest(&api_types(repo, cluster))];
            (cluster.name.to_string(), digests)
        };
        Self(clusters.iter().filter(|c| c.joined).map(known).collect())
    }

    /// The digest of all of them.
    pub(super) fn digest(&self) -> String {
        digest(&self)
    }

    fn lost(&self, now: &Self) -> bool {
        self.0.keys().any(|name| !now.0.contains_key(name))
    }

    /// Whether a cluster that was known is gone or differs in that respect.
    fn changed(&self, now: &Self, respect: usize) -> bool {
        self.lost(now)
            || self.0.iter().any(|(name, was)| now.0.get(name).map(|is| &is[respect]) != Some(&was[respect]))
    }

    fn joined(&self, now: &Self) -> bool {
        !self.lost(now) && now.0.len() > self.0.len()
    }
}

const LABELS: usize = 0;
const TAINTS: usize = 1;
const API_TYPES: usize = 2;

/// The API types as listed, where the inventory lists them; otherwise the neutral ones.
fn api_types(repo: &Repo, cluster: &Cluster) -> Vec<String> {
    let at = repo.claimed.binary_search_by(|c| c.object.id.cmp(&cluster.id)).ok();
    let object = at.and_then(|at| repo.claimed.get(at)).map(|c| &c.object);
    let listed = object.and_then(|o| o.at(&["status", "apiResourceTypes"])?.as_array());
    let mut types: Vec<String> = match (listed, &cluster.apis) {
        (Some(listed), _) => {
            listed.iter().map(|api| federate_yaml::sorted(api.clone()).to_string()).collect()
        }
        (None, Apis::All) => Vec::new(),
        (None, Apis::Listed(set)) => set.iter().map(|(version, kind)| format!("{version} {kind}")).collect(),
    };
    types.sort();
    types
}

/// Sixteen hexadecimal digits that stand for a value.
pub(super) fn digest<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let first = Sha256::digest(text).iter().take(8).fold(0, |all: u64, byte| all << 8 | u64::from(*byte));
    format!("{first:016x}")
}

/// What the template and its policy bring to a decision.
pub(super) struct Subject<'s> {
    pub(super) template: &'s Object,
    pub(super) replicas: i64,
    pub(super) policy: Option<(&'s str, &'s PolicySpec)>,
    /// The digest of the policy's content.
    pub(super) content: &'s str,
    /// The estimates that the auto-migration controller left.
    pub(super) estimates: Option<&'s str>,
    /// The migration configuration, as far as it is valid.
    pub(super) migration: String,
}

impl State {
    pub(super) fn new(subject: &Subject<'_>, clusters: &str) -> Self {
        const COUNTED: [&str; 9] = [
            keys::SCHEDULING_MODE,
            keys::STICKY,
            keys::TOLERATIONS,
            keys::PLACEMENTS,
            keys::CLUSTER_SELECTOR,
            keys::AFFINITY,
            keys::MAX_CLUSTERS,
            keys::FOLLOWS,
            keys::DRY_RUN,
        ];
        let annotations: Vec<_> =
            COUNTED.iter().filter_map(|key| Some((*key, subject.template.annotation(key)?))).collect();
        let request =
            podspec::of(subject.template).map(federate_kubernetes::pods::requests).unwrap_or_default();
        let request: BTreeMap<_, _> = request.iter().map(|(name, q)| (name, q.to_string())).collect();
        let migrates = subject.policy.is_some_and(|(_, spec)| spec.auto_migration.is_some());
        Self {
            annotations: digest(&(annotations, &subject.migration)),
            replicas: subject.replicas,
            request: digest(&request),
            migration: subject.estimates.filter(|_| migrates).map(|text| digest(&text)),
            policy: subject.policy.map(|(name, _)| name.to_owned()).unwrap_or_default(),
            content: subject.content.to_owned(),
            clusters: clusters.to_owned(),
        }
    }

    /// The state that a placement remembers, with the clusters it refers to.
    pub(super) fn recall(
        memory: Option<&Value>,
        shared: impl Fn(&str) -> Option<Value>,
    ) -> Option<(Self, Clusters)> {
        let state: Self = serde_json::from_value(memory?.clone()).ok()?;
        let clusters = serde_json::from_value(shared(&state.clusters)?).ok()?;
        Some((state, clusters))
    }

    /// What the template alone decides.
    fn stable(&self) -> (&str, i64, &str, &Option<String>, &str) {
        (&self.annotations, self.replicas, &self.request, &self.migration, &self.policy)
    }
}

/// Whether the scheduler acts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does.
    Schedule,
    /// It does not; the reasons that keep it from acting on changes, empty when there are none.
    Stay(String),
}

/// Compares what was decided from with what would be now.
pub(super) fn judge(
    was: Option<&(State, Clusters)>,
    now: (&State, &Clusters),
    policy: Option<&PolicySpec>,
) -> Verdict {
    let ((now, there), Some((was, were))) = (now, was) else { return Verdict::Schedule };
    // The control plane remembers its clusters in no order: with several of them it nearly always
    // finds that something has changed, and says so unless it looks closer.
    if was == now && (policy.is_none() || there.0.len() < 2) {
        return Verdict::Stay(String::new());
    }
    let Some(policy) = policy else { return Verdict::Schedule };
    if was.stable() != now.stable() {
        return Verdict::Schedule;
    }
    let rescheduling = &policy.reschedule_policy;
    if rescheduling.disable_rescheduling {
        return Verdict::Stay("disableRescheduling:true".to_owned());
    }
    let Some(when) = &rescheduling.reschedule_when else {
        return Verdict::Stay("rescheduleWhen:nil".to_owned());
    };
    let changes = [
        (was.content != now.content, when.policy_content_changed, "policyContentChanged"),
        (were.changed(there, LABELS), when.cluster_labels_changed, "clusterLabelsChanged"),
        (were.changed(there, TAINTS), true, "clusterTaintsChanged"),
        (were.changed(there, API_TYPES), when.cluster_api_resources_changed, "clusterAPIResourcesChanged"),
        (were.joined(there), when.cluster_joined, "clusterJoined"),
    ];
    if changes.iter().any(|(changed, permitted, _)| *changed && *permitted) {
        return Verdict::Schedule;
    }
    let deferred = changes.iter().filter(|(changed, ..)| *changed).map(|(.., name)| format!("{name}:false"));
    Verdict::Stay(deferred.collect::<Vec<_>>().join("; "))
}

/// The clusters that placements refer to, each list once.
pub(super) fn shared(
    placements: &[Placement],
    now: &Clusters,
    digest: &str,
    previous: &Previous,
) -> Map<String, Value> {
    let mut shared = Map::new();
    let referred = placements.iter().filter_map(|p| p.memory.get("trigger")?.get("clusters")?.as_str());
    for wanted in referred.collect::<BTreeSet<_>>() {
        let clusters =
            if wanted == digest { serde_json::to_value(now).ok() } else { previous.shared(wanted).cloned() };
        shared.extend(clusters.map(|clusters| (wanted.to_owned(), clusters)));
    }
    shared
}
