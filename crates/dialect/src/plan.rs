//! The plan: which object goes to which clusters with how many replicas. `plan` prints this document, `render`
//! writes it as `placements.yaml`, and the next run reads it as the previous plan.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{PlacedClusters, SchedulerState};
use federate_kubernetes::{ClusterName, ObjectRef, work};

/// The steps of reading a value of a scheduler state.
const STEPS_PER_VALUE: u64 = 6;

/// The API version of [`Plan`] documents.
pub const API_VERSION: &str = "federate.dev/v1alpha1";

/// The key of a plan document for lists of clusters that several rows share.
pub const CLUSTER_LISTS: &str = "clusterLists";

/// A plan. Placements and unmatched objects are sorted by object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = with_cluster_lists)]
pub struct Plan {
    /// [`API_VERSION`].
    #[serde(default = "api_version")]
    pub api_version: String,
    /// `Plan`.
    #[serde(default = "kind")]
    pub kind: String,
    /// By dialect, the release of the control plane whose rules decided.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// One row per object; in dialects that schedule placements, one row per placement as well.
    #[serde(default)]
    pub placements: Vec<Placement>,
    /// Templates that no policy matches.
    #[serde(default)]
    pub unmatched: Vec<ObjectRef>,
    /// The shared memory of several placements, by digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, Value>,
}

/// A document may have lists of clusters that rows name. Reading it replaces the names by the lists.
fn with_cluster_lists(schema: &mut schemars::Schema) {
    let lists = json!({
        "description": "Lists of clusters by name, each once for all placements whose `clusters` is that name.",
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"$ref": "#/$defs/Placed"}},
    });
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(CLUSTER_LISTS.to_owned(), lists);
    }
}

fn api_version() -> String {
    API_VERSION.to_owned()
}

fn kind() -> String {
    "Plan".to_owned()
}

impl Plan {
    /// Where an object goes, by its first row.
    pub fn find_placement(&self, object: &ObjectRef) -> Option<&Placement> {
        let at = self.placements.partition_point(|row| row.object < *object);
        self.placements.get(at).filter(|row| row.object == *object)
    }

    /// The clusters that receive objects, and those from which objects are removed.
    pub fn affected_clusters(&self) -> BTreeSet<&ClusterName> {
        let mut lists = BTreeSet::new();
        let receiving = self.placements.iter().filter(|row| lists.insert(row.clusters.list_address()));
        let receiving = receiving.flat_map(|row| &row.clusters).map(|placed| &placed.name);
        receiving.chain(self.placements.iter().flat_map(|row| &row.withdrawn)).collect()
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            api_version: api_version(),
            kind: kind(),
            versions: BTreeMap::new(),
            placements: Vec::new(),
            unmatched: Vec::new(),
            shared: BTreeMap::new(),
        }
    }
}

/// Where one object goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The object.
    pub object: ObjectRef,
    /// The dialect that decided.
    #[serde(default)]
    pub dialect: String,
    /// The policy that decided; absent where no policy does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ObjectRef>,
    /// Sorted by name.
    #[serde(default)]
    pub clusters: PlacedClusters,
    /// Why the object could not be scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<Unschedulable>,
    /// The objects that need this one where they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<ObjectRef>,
    /// Clusters to which nothing new is sent for now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub suspended: Vec<ClusterName>,
    /// Clusters that no longer have the object, but where the control plane leaves it with 0 replicas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub withdrawn: Vec<ClusterName>,
    /// What the dialect's scheduler must remember.
    #[serde(default, skip_serializing_if = "SchedulerState::is_empty")]
    #[schemars(with = "BTreeMap<String, Value>")]
    #[serde(rename = "memory")]
    pub scheduler_state: SchedulerState,
    /// Whether an implicit rule decides, which needs no policy. A policy of another dialect overrides it.
    #[serde(skip)]
    pub implicit: bool,
    /// Whether no policy decides, but the source of the object, which is for some clusters only.
    #[serde(skip)]
    pub has_destination: bool,
}

impl Placement {
    /// Reads the scheduler state as the type of its dialect. A state of another form counts as empty.
    pub fn read_scheduler_state<S: Default + DeserializeOwned>(&self) -> S {
        if self.scheduler_state.is_empty() {
            return S::default();
        }
        work::charge_steps(
            STEPS_PER_VALUE * self.scheduler_state.values().map(work::count_values).sum::<u64>(),
        );
        S::deserialize(&*self.scheduler_state).unwrap_or_default()
    }

    /// Writes the scheduler state.
    pub fn write_scheduler_state<S: Serialize>(&mut self, state: &S) {
        self.scheduler_state = SchedulerState::from_state(state);
    }

    /// Returns a placement of `object` on no clusters.
    pub fn new(dialect: &str, object: ObjectRef, policy: Option<ObjectRef>) -> Self {
        Self {
            object,
            dialect: dialect.to_owned(),
            policy,
            clusters: PlacedClusters::default(),
            unschedulable: None,
            required_by: Vec::new(),
            suspended: Vec::new(),
            withdrawn: Vec::new(),
            scheduler_state: SchedulerState::new(),
            implicit: false,
            has_destination: false,
        }
    }

    /// Whether a cluster can have the object by this row.
    pub fn reaches_cluster(&self, cluster: &str) -> bool {
        self.clusters.contains_cluster(cluster) || self.withdrawn.iter().any(|name| name.as_ref() == cluster)
    }

    /// Whether another row says the same, apart from the name of its object.
    pub fn is_alike(&self, other: &Self) -> bool {
        let Self { object: _, dialect, policy, clusters, .. } = self;
        let Self { unschedulable, required_by, suspended, withdrawn, scheduler_state, .. } = self;
        let Self { implicit, has_destination, .. } = self;
        *clusters == other.clusters
            && *scheduler_state == other.scheduler_state
            && *policy == other.policy
            && *dialect == other.dialect
            && *unschedulable == other.unschedulable
            && *required_by == other.required_by
            && *suspended == other.suspended
            && *withdrawn == other.withdrawn
            && *implicit == other.implicit
            && *has_destination == other.has_destination
    }

    /// Whether the row only says that no policy places the object.
    pub fn is_unmatched(&self) -> bool {
        self.implicit && self.policy.is_none() && self.clusters.is_empty()
    }
}

/// Why an object could not be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unschedulable {
    /// The control plane's own short reason, e.g. `NoClusterFit`.
    pub reason: String,
    /// The same for a person.
    #[serde(default)]
    pub message: String,
}
