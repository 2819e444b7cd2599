//! The plan: which object goes to which clusters with how many replicas. The same document is shown
//! by `plan`, kept as `placements.yaml`, and read back as the scheduler's only memory.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::PlacedClusters;
use federate_kubernetes::{ClusterName, ObjectRef};

/// What a dialect's scheduler must remember of a placement beyond clusters and replicas.
pub type Memory = Map<String, Value>;

/// The API version of [`Plan`] documents.
pub const API_VERSION: &str = "federate.dev/v1alpha1";

/// The key of a plan document below which lists of clusters stand that several rows name.
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
    /// By dialect: the release of the control plane by whose rules the placements were decided.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// One row an object (and, in dialects that place placements, one for each of those).
    #[serde(default)]
    pub placements: Vec<Placement>,
    /// Templates that no policy matches.
    #[serde(default)]
    pub unmatched: Vec<ObjectRef>,
    /// What the memory of several placements refers to, by digest, so that it is kept only once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, Value>,
}

/// Documents may have lists of clusters that rows name; reading one puts them into the rows.
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
    /// Why it could not be (newly) scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<Unschedulable>,
    /// The objects that need this one where they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<ObjectRef>,
    /// Clusters to which nothing new may be sent for now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub suspended: Vec<ClusterName>,
    /// Clusters that it no longer goes to, but where the control plane leaves it, scaled to nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub withdrawn: Vec<ClusterName>,
    /// What the dialect's scheduler must remember.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub memory: Memory,
    /// Whether a rule that needs no policy says so; it yields to what another dialect's policy says.
    #[serde(skip)]
    pub standing: bool,
}

impl Placement {
    /// A placement of `object` on no clusters.
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
            memory: Memory::new(),
            standing: false,
        }
    }
}

impl Placement {
    /// Whether a cluster can hold the object by this row.
    pub fn reaches(&self, cluster: &str) -> bool {
        self.clusters.has(cluster) || self.withdrawn.iter().any(|name| name.as_ref() == cluster)
    }

    /// Whether it only says that no policy wants the object anywhere.
    pub fn is_unmatched(&self) -> bool {
        self.standing && self.policy.is_none() && self.clusters.is_empty()
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
