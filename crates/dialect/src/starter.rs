//! What `federate init` writes.

use serde_json::{Map, Value, json};

use federate_repo::config::ConfiguredCluster;

/// The objects that a new repo starts with.
#[derive(Debug, Default)]
pub struct Starter {
    /// One inventory object for each cluster.
    pub inventory: Vec<Value>,
    /// The policy; `None` if the dialect has no policies.
    pub policy: Option<Value>,
    /// What else is needed, as an instruction.
    pub note: Option<&'static str>,
}

/// The labels of a cluster as a JSON object.
pub fn labels_to_json(cluster: &ConfiguredCluster) -> Value {
    let labels = cluster.labels.iter().map(|(key, value)| (key.clone(), json!(value)));
    Value::Object(labels.collect::<Map<_, _>>())
}
