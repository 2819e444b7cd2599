//! A snapshot of a control plane: its inventory with the current status, and a plan with the placements that the
//! control plane has recorded.
//!
//! Facts: metadata that the API server maintains (`managedFields`, `resourceVersion`, …) is left out, so that two
//! snapshots of the same state are equal. The plan names the release of each control plane whose installation is
//! among the objects.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use federate_dialect::plan::API_VERSION;
use federate_dialect::{Dialects, Plan, UnreadableObject};
use federate_kubernetes::hex::to_hex;
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{ClusterName, Object, names};
use federate_repo::{Claims, Role};

use crate::change::DigestKey;
use crate::previous;

mod observed_objects;
mod recorded;
mod status;
mod stored_snapshot;

pub use status::apply_status;
pub use stored_snapshot::StoredSnapshot;

/// The name of the file that describes a snapshot.
pub const DESCRIPTION_FILE: &str = "snapshot.yaml";

/// The name of the file with the recorded placements.
pub const PLACEMENTS_FILE: &str = "placements.yaml";

/// The folder with the inventory objects.
const CLUSTERS_FOLDER: &str = "clusters/";

/// The folder with further objects of control planes, one file per kind.
const RECORDED_FOLDER: &str = "recorded/";

/// The folder with the objects that run in the members, by cluster.
pub const OBSERVED_FOLDER: &str = "observed";

/// Fields of `metadata` that the API server maintains.
const SERVER_FIELDS: [&str; 5] = ["managedFields", "resourceVersion", "uid", "selfLink", "generation"];

/// The annotation in which `kubectl apply` stores the applied configuration.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A snapshot of one or more control planes.
#[derive(Clone, Debug)]
pub struct SnapshotFiles {
    /// The files by path, including the description.
    pub files: BTreeMap<String, String>,
    /// The description of the contents.
    pub description: SnapshotDescription,
}

/// The description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotDescription {
    api_version: &'static str,
    kind: &'static str,
    /// The time at which the snapshot was taken, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<Timestamp>,
    /// The files or servers from which it was taken.
    pub sources: Vec<String>,
    /// The content, by control plane.
    pub control_planes: BTreeMap<&'static str, ControlPlaneContents>,
    /// The versions of Kubernetes in the members that were read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kubernetes: BTreeMap<String, String>,
    /// The scopes of the custom resources that the members serve, by `Kind.group`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scopes: BTreeMap<String, Scope>,
    /// The members that could not be read, each with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, String>,
    /// The members that were not read, because nothing says how to reach them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub not_read: BTreeSet<String>,
    /// The SHA-256 over the path, the length and the text of every other file.
    pub digest: String,
}

/// The content of a snapshot for one control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ControlPlaneContents {
    /// The number of member clusters.
    pub clusters: usize,
    /// The number of recorded placements.
    pub placements: usize,
    /// The release that runs, where the dump says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What is to be known of the release, where that is not one that federate knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_version: Option<String>,
}

/// The reason why a snapshot cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An object does not match the schema of its kind.
    #[error("the placements that {control_plane} has recorded cannot be read: {why}")]
    Unreadable {
        /// The control plane.
        control_plane: &'static str,
        /// The object, and what is wrong with it.
        why: UnreadableObject,
    },
    /// The name of a cluster cannot be the name of a file.
    #[error("{cluster} ({origin}): {why}")]
    Name {
        /// The inventory object.
        cluster: String,
        /// The location of the object in its source file.
        origin: String,
        /// The reason.
        why: &'static str,
    },
    /// Two objects describe the same cluster.
    #[error(
        "{cluster} exists twice, in {first} and {second}: pass dumps that were taken at the same time only"
    )]
    Duplicate {
        /// The inventory object.
        cluster: String,
        /// The location of the first object.
        first: String,
        /// The location of the second object.
        second: String,
    },
    /// There are no objects of control planes, and no members were read.
    #[error("{0} contains neither an inventory object nor a binding of a control plane")]
    Empty(String),
}

/// What a snapshot is taken of.
#[derive(Clone, Debug, Default)]
pub struct SnapshotInput {
    /// The objects of control planes: inventory, bindings, installation.
    pub objects: Vec<Object>,
    /// The files or servers from which everything was read.
    pub sources: Vec<String>,
    /// The time at which it was read, if known.
    pub taken: Option<Timestamp>,
    /// The members that could not be read, each with the reason.
    pub failed: BTreeMap<String, String>,
    /// The members that were not read, because nothing says how to reach them.
    pub not_read: BTreeSet<String>,
    /// The failed members that do not answer.
    pub unreachable: BTreeSet<String>,
    /// The versions of Kubernetes that members report.
    pub kubernetes: BTreeMap<String, String>,
    /// The scopes of the custom resources of the repo that members serve, by `Kind.group`.
    pub scopes: BTreeMap<String, Scope>,
    /// The objects that run in the members that were read.
    pub observed: BTreeMap<ClusterName, Vec<Object>>,
}

/// Takes a snapshot. Values of observed Secrets are replaced by digests with `key`.
pub fn take_snapshot(
    dialects: Dialects,
    captured: &SnapshotInput,
    key: &DigestKey,
) -> Result<SnapshotFiles, Error> {
    let objects = captured.objects.as_slice();
    let mut control_planes: BTreeMap<&'static str, ControlPlaneContents> = BTreeMap::new();
    let mut files = BTreeMap::new();
    for (dialect, object, path) in inventory_files(dialects, objects)? {
        control_planes.entry(dialect).or_default().clusters += 1;
        files.insert(path, write_yaml(&without_server_fields(object)));
    }
    files.extend(recorded::recorded_files(dialects, objects));
    let mut plan = read_placements(dialects, objects, &mut control_planes)?;
    // Clusters of `federate.yaml` have no control plane, but members that can be read.
    if control_planes.is_empty() && captured.observed.is_empty() && captured.failed.is_empty() {
        return Err(Error::Empty(captured.sources.join(", ")));
    }
    let all: Vec<&Object> = objects.iter().collect();
    for (dialect, contents) in &mut control_planes {
        match dialects.get(dialect).and_then(|dialect| dialect.hub().detect_release(&all)) {
            Some(Ok(named)) => {
                plan.versions.insert((*dialect).to_owned(), named.name.clone());
                contents.unknown_version = named.describe_stand_in();
                contents.version = Some(named.name);
            }
            Some(Err(unknown)) => contents.unknown_version = Some(unknown.to_string()),
            None => {}
        }
    }
    files.insert(PLACEMENTS_FILE.to_owned(), previous::serialize_plan(&plan));
    for (cluster, objects) in &captured.observed {
        files.extend(observed_objects::cluster_files(cluster, objects, key));
    }
    let description = SnapshotDescription {
        api_version: API_VERSION,
        kind: "Snapshot",
        taken: captured.taken,
        sources: captured.sources.clone(),
        control_planes,
        kubernetes: captured.kubernetes.clone(),
        scopes: captured.scopes.clone(),
        failed: captured.failed.clone(),
        not_read: captured.not_read.clone(),
        digest: compute_digest(&files),
    };
    let written = serde_json::to_value(&description).unwrap_or_default();
    files.insert(DESCRIPTION_FILE.to_owned(), write_yaml(&written));
    Ok(SnapshotFiles { files, description })
}

/// The placements that the control planes have recorded.
fn read_placements(
    dialects: Dialects,
    objects: &[Object],
    control_planes: &mut BTreeMap<&'static str, ControlPlaneContents>,
) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    for dialect in dialects.iter() {
        let recorded = dialect.hub().read_hub_plan(objects);
        let recorded = recorded.map_err(|why| Error::Unreadable { control_plane: dialect.name(), why })?;
        if !recorded.placements.is_empty() {
            control_planes.entry(dialect.name()).or_default().placements = recorded.placements.len();
        }
        plan.placements.extend(recorded.placements);
        plan.shared.extend(recorded.shared);
    }
    plan.placements.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(plan)
}

/// Returns the inventory objects, each with its dialect and the path of its file in the snapshot.
fn inventory_files(
    dialects: Dialects,
    objects: &[Object],
) -> Result<Vec<(&'static str, &Object, String)>, Error> {
    let mut found: Vec<(&'static str, &Object, String)> = Vec::new();
    let mut first: BTreeMap<String, &Object> = BTreeMap::new();
    for object in objects {
        let Some((dialect, Role::Inventory)) = dialects.role_of_kind(&object.id.api_version, &object.id.kind)
        else {
            continue;
        };
        let (cluster, origin) = (object.id.to_string(), object.origin.to_string());
        names::safe_cluster(&object.id.name).map_err(|why| Error::Name {
            cluster: cluster.clone(),
            origin: origin.clone(),
            why,
        })?;
        let path = format!("{CLUSTERS_FOLDER}{dialect}/{}.yaml", object.id.name);
        if let Some(first) = first.insert(path.clone(), object) {
            let first = first.origin.to_string();
            return Err(Error::Duplicate { cluster, first, second: origin });
        }
        found.push((dialect, object, path));
    }
    Ok(found)
}

/// An inventory object without the metadata that the API server maintains.
fn without_server_fields(object: &Object) -> Value {
    let mut body = object.body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !SERVER_FIELDS.contains(&key.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| key != LAST_APPLIED);
        }
    }
    federate_yaml::sort_keys(body)
}

fn write_yaml(value: &Value) -> String {
    let mut text = String::new();
    federate_yaml::write_document(value, &mut text);
    text
}

/// The digest over the files of a snapshot, which are added in the order of their paths.
#[derive(Default)]
struct Digest(Sha256);

impl Digest {
    fn add_file(&mut self, path: &str, text: &[u8]) {
        self.0.update(format!("{path}\n{}\n", text.len()));
        self.0.update(text);
    }

    fn finish(self) -> String {
        format!("sha256:{}", to_hex(&self.0.finalize()))
    }
}

fn compute_digest(files: &BTreeMap<String, String>) -> String {
    let mut digest = Digest::default();
    for (path, text) in files {
        digest.add_file(path, text.as_bytes());
    }
    digest.finish()
}
