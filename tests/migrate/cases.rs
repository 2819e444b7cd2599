//! Recorded cases of control planes.

use std::fs;
use std::io::Read;
use std::path::Path;

use federate_dialect::Plan;
use federate_dialects::DIALECTS;
use federate_kubernetes::{LiveObjects, Object};
use federate_session::SessionOptions;
use serde_json::{Map, Value, json};

use crate::files::Files;

/// The recorded cases of a family.
pub(crate) fn read_cases(dialect: &str, family: &str) -> Vec<Value> {
    let path = format!("tests/conformance/{dialect}/{family}.jsonl.gz");
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The repo of a case: each object is a file.
pub(crate) fn files_of(case: &Value) -> Files {
    let mut objects = case["files"].as_array().unwrap().clone();
    if case["id"].as_str().unwrap().starts_with("kubefed/v1") {
        // These were recorded with the controllers of Federation v1, whether or not annotations name them.
        objects.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": "of-federation-v1", "namespace": "federation-system",
                "annotations": {"federation.alpha.kubernetes.io/cluster-selector": "[]"},
            },
        }));
    }
    let files = objects.iter().enumerate().map(|(index, object)| {
        let mut text = String::new();
        federate_yaml::write_document(object, &mut text);
        (format!("{index:03}.yaml"), text)
    });
    Files(files.collect())
}

/// The state of a case: what runs, and what was decided before.
pub(crate) fn options_of(case: &Value) -> SessionOptions {
    let mut options = SessionOptions::new(DIALECTS);
    options.now = case["now"].as_str().and_then(|now| now.parse().ok());
    let mut live = LiveObjects::default();
    for (cluster, objects) in case["observed"].as_object().into_iter().flatten() {
        let objects = objects.as_array().unwrap().iter();
        let objects = objects.map(|body| Object::from_manifest(body.clone(), "observed")).collect();
        live.insert(cluster.as_str().into(), objects);
    }
    options.observed = live;
    let rows = case["previous"].as_array().into_iter().flatten().map(|row| {
        let clusters = row["clusters"].as_object().unwrap().iter();
        let clusters: Vec<Value> =
            clusters.map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        let memory: Map<String, Value> = row
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "object" | "clusters"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        json!({"object": row["object"], "clusters": clusters, "memory": memory})
    });
    let plan = json!({"placements": rows.collect::<Vec<_>>()});
    options.previous = serde_json::from_value::<Plan>(plan).unwrap();
    options
}
