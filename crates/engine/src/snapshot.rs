//! A snapshot of a control plane: its inventory with the status that it has now, and what it remembers of
//! placements as the memory of a plan.
//!
//! Facts: what the API server keeps about an object (`managedFields`, `resourceVersion`, …) is left out, so that two
//! snapshots of the same state are the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use federate_dialect::plan::API_VERSION;
use federate_dialect::{Dialects, Plan};
use federate_kubernetes::{Object, names};
use federate_repo::{Claims, Role};

use crate::previous;

/// The name of the file that describes a snapshot.
pub const DESCRIPTION: &str = "snapshot.yaml";

/// The name of the file with what is remembered.
pub const PLACEMENTS: &str = "placements.yaml";

/// Fields of metadata that the API server keeps for itself.
const SERVER_FIELDS: [&str; 5] = ["managedFields", "resourceVersion", "uid", "selfLink", "generation"];

/// The annotation in which `kubectl apply` remembers what it sent.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A snapshot.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its files by path, the description included.
    pub files: BTreeMap<String, String>,
    /// What it holds.
    pub description: Description,
}

/// What a snapshot holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    api_version: &'static str,
    kind: &'static str,
    /// When it was taken, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<Timestamp>,
    /// What it was taken from.
    pub sources: Vec<String>,
    /// By control plane.
    pub control_planes: BTreeMap<&'static str, Counts>,
    /// The SHA-256 of all other files: of each its path, its length and its text.
    pub digest: String,
}

/// What there is of a control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Its member clusters.
    pub clusters: usize,
    /// The placements that it remembers.
    pub placements: usize,
}

/// Why no snapshot can be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An object of a control plane that has not the form of its kind.
    #[error("the memory of {control_plane} cannot be read: {why}")]
    Unreadable {
        /// The control plane.
        control_plane: &'static str,
        /// Why.
        why: String,
    },
    /// A cluster that cannot have a file.
    #[error("{cluster} ({origin}): {why}")]
    Name {
        /// The inventory object.
        cluster: String,
        /// Where it was read.
        origin: String,
        /// Why not.
        why: &'static str,
    },
    /// A cluster that is there twice.
    #[error("{cluster} is there twice, in {first} and {second}: pass the dumps of one moment only")]
    Twice {
        /// The inventory object.
        cluster: String,
        /// Where it was read first.
        first: String,
        /// Where it was read again.
        second: String,
    },
    /// Nothing that a control plane keeps.
    #[error("there is no inventory object and no binding of a control plane in {0}")]
    Nothing(String),
}

/// Takes a snapshot of the objects of control planes.
pub fn snapshot(
    dialects: Dialects,
    objects: &[Object],
    sources: Vec<String>,
    taken: Option<Timestamp>,
) -> Result<Snapshot, Error> {
    let mut control_planes: BTreeMap<&'static str, Counts> = BTreeMap::new();
    let mut files = BTreeMap::new();
    for (dialect, object, path) in inventory(dialects, objects)? {
        control_planes.entry(dialect).or_default().clusters += 1;
        files.insert(path, text(&bare(object)));
    }
    let mut plan = Plan::default();
    for dialect in dialects.iter() {
        let memory = dialect.memory(objects);
        let memory = memory.map_err(|why| Error::Unreadable { control_plane: dialect.name(), why })?;
        if !memory.placements.is_empty() {
            control_planes.entry(dialect.name()).or_default().placements = memory.placements.len();
        }
        plan.placements.extend(memory.placements);
        plan.shared.extend(memory.shared);
    }
    if control_planes.is_empty() {
        return Err(Error::Nothing(sources.join(", ")));
    }
    plan.placements.sort_by(|a, b| a.object.cmp(&b.object));
    files.insert(PLACEMENTS.to_owned(), previous::write(&plan));
    let description = Description {
        api_version: API_VERSION,
        kind: "Snapshot",
        taken,
        sources,
        control_planes,
        digest: digest(&files),
    };
    let written = serde_json::to_value(&description).unwrap_or_default();
    files.insert(DESCRIPTION.to_owned(), text(&written));
    Ok(Snapshot { files, description })
}

/// The inventory objects, each with its dialect and the path of its file.
fn inventory(dialects: Dialects, objects: &[Object]) -> Result<Vec<(&'static str, &Object, String)>, Error> {
    let mut found: Vec<(&'static str, &Object, String)> = Vec::new();
    let mut first: BTreeMap<String, &Object> = BTreeMap::new();
    for object in objects {
        let Some((dialect, Role::Inventory)) = dialects.role(&object.id.api_version, &object.id.kind) else {
            continue;
        };
        let (cluster, origin) = (object.id.to_string(), object.origin.to_string());
        names::safe_cluster(&object.id.name).map_err(|why| Error::Name {
            cluster: cluster.clone(),
            origin: origin.clone(),
            why,
        })?;
        let path = format!("clusters/{dialect}/{}.yaml", object.id.name);
        if let Some(first) = first.insert(path.clone(), object) {
            let first = first.origin.to_string();
            return Err(Error::Twice { cluster, first, second: origin });
        }
        found.push((dialect, object, path));
    }
    Ok(found)
}

/// An inventory object without what the API server keeps about it.
fn bare(object: &Object) -> Value {
    let mut body = object.body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !SERVER_FIELDS.contains(&key.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| key != LAST_APPLIED);
        }
    }
    federate_yaml::sorted(body)
}

fn text(value: &Value) -> String {
    let mut text = String::new();
    federate_yaml::write(value, &mut text);
    text
}

fn digest(files: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for (path, text) in files {
        hash.update(format!("{path}\n{}\n{text}", text.len()));
    }
    hash.finalize().iter().fold("sha256:".to_owned(), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    })
}
