//! Reads and writes plan documents: `placements.yaml`, `--previous`.
//!
//! A plan in the format that federate writes is read in chunks, on all cores, because it may be far larger than
//! any document that a person writes. Any other plan is read as plain YAML or JSON.
//!
//! A row may name its list of clusters (`clusters: 900-clusters-1f0c…`) instead of containing it. The list is then
//! defined once below `clusterLists`, for all rows that use it.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use clusters::RowClusters;
use federate_dialect::plan::{API_VERSION, CLUSTER_LISTS};
use federate_dialect::{PlacedClusters, Placement, Plan, SharedLists};
use federate_kubernetes::ObjectRef;

mod clusters;
mod write;

pub use write::{serialize_plan, write_plan_in_full, write_plan_json};

/// Cluster lists, by name.
type ClusterLists = BTreeMap<String, PlacedClusters>;

/// The reason why a plan document cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The document is not YAML.
    #[error("line {}, column {}: {}", .0.at.line, .0.at.column, .0.message)]
    Yaml(#[from] federate_yaml::Error),
    /// The document does not match the schema of a plan.
    #[error("`{path}`: {message}")]
    Shape {
        /// The path of the invalid value in the document.
        path: String,
        /// What is wrong with the value.
        message: String,
    },
    /// The document has another API version or kind.
    #[error("it is not a document with `apiVersion: federate.dev/v1alpha1` and `kind: Plan`")]
    NotAPlan,
    /// The document has neither a kind nor placements.
    #[error("it is not a plan: it has neither `kind: Plan` nor `placements`")]
    NoPlacements,
}

/// Reads a plan in YAML or JSON. `apiVersion` and `kind` may be missing, as in a plan that is written by hand.
pub fn read_plan(bytes: &[u8]) -> Result<Plan, Error> {
    parse_plan(bytes, true)
}

/// Reads a plan that has `apiVersion` and `kind`, as all plans that federate writes do.
pub fn read_own(bytes: &[u8]) -> Result<Plan, Error> {
    parse_plan(bytes, false)
}

/// Rows are sorted, as an edited file may have them in another order.
fn parse_plan(bytes: &[u8], untyped: bool) -> Result<Plan, Error> {
    let mut plan = parse_rows(bytes, untyped)?;
    if !plan.placements.is_sorted_by(|a, b| a.object <= b.object) {
        plan.placements.sort_by(|a, b| a.object.cmp(&b.object));
    }
    Ok(plan)
}

fn parse_rows(bytes: &[u8], untyped: bool) -> Result<Plan, Error> {
    let text = std::str::from_utf8(bytes).ok();
    if let Some(plan) = text.and_then(in_chunks) {
        return Ok(plan);
    }
    let json = text.filter(|text| text.trim_ascii_start().starts_with('{'));
    if let Some(plan) = json.and_then(|text| rows_of_json(text, untyped)) {
        return Ok(plan);
    }
    let document = json.and_then(|text| serde_json::from_str(text).ok());
    let document = match document {
        Some(document) => document,
        None => first_document(bytes)?,
    };
    let has = |key: &str, value: &str| document.get(key).map_or(untyped, |v| v.as_str() == Some(value));
    if !document.is_object() || !has("apiVersion", API_VERSION) || !has("kind", "Plan") {
        return Err(Error::NotAPlan);
    }
    if document.get("kind").is_none() && document.get("placements").is_none() {
        return Err(Error::NoPlacements);
    }
    resolve_lists(document)
}

/// Returns the plan of a document, with the names of cluster lists replaced by the lists.
fn resolve_lists(mut document: Value) -> Result<Plan, Error> {
    let lists = document.as_object_mut().and_then(|map| map.remove(CLUSTER_LISTS));
    let lists: ClusterLists = lists.map(deserialize_value).transpose()?.unwrap_or_default();
    let mut named: Vec<(usize, String)> = Vec::new();
    let rows = document.get_mut("placements").and_then(Value::as_array_mut);
    for (at, row) in rows.into_iter().flatten().enumerate() {
        if let Some(name) = take_text(row, "clusters") {
            named.push((at, name));
        }
    }
    let mut plan: Plan = deserialize_value(document)?;
    for (at, name) in named {
        let list = lists.get(&name).ok_or_else(|| Error::Shape {
            path: format!("placements[{at}].clusters"),
            message: format!("there is no list `{name}` below `{CLUSTER_LISTS}`"),
        })?;
        if let Some(row) = plan.placements.get_mut(at) {
            row.clusters = list.clone();
        }
    }
    Ok(plan)
}

/// Removes an entry from a mapping and returns it, if it is a string.
fn take_text(map: &mut Value, key: &str) -> Option<String> {
    let map = map.as_object_mut()?;
    let text = map.get(key)?.as_str()?.to_owned();
    map.shift_remove(key);
    Some(text)
}

/// A plan in JSON, with rows that are not parsed yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPlan<'t> {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    versions: BTreeMap<String, String>,
    #[serde(borrow, default)]
    placements: Vec<&'t RawValue>,
    #[serde(default)]
    unmatched: Vec<ObjectRef>,
    #[serde(default)]
    shared: BTreeMap<String, Value>,
}

/// Reads a plan in JSON row by row, on all cores. `None` if the text is not a valid plan.
fn rows_of_json(text: &str, untyped: bool) -> Option<Plan> {
    let document: RawPlan<'_> = serde_json::from_str(text).ok()?;
    let has = |value: Option<String>, expected: &str| value.map_or(untyped, |value| value == expected);
    // Whether it is a plan at all is checked where the error is reported.
    let is_certain = document.kind.is_some() || !document.placements.is_empty();
    if !is_certain || !has(document.api_version, API_VERSION) || !has(document.kind, "Plan") {
        return None;
    }
    let lists = SharedLists::default();
    let placements = document
        .placements
        .par_iter()
        .map(|text| {
            let mut row: Placement = serde_json::from_str(text.get()).ok()?;
            row.clusters = lists.share_placed(&row.clusters);
            Some(row)
        })
        .collect::<Option<_>>()?;
    let RawPlan { versions, unmatched, shared, .. } = document;
    Some(Plan { versions, placements, unmatched, shared, ..Plan::default() })
}

fn first_document(bytes: &[u8]) -> Result<Value, Error> {
    let stream = federate_yaml::read_stream(bytes);
    if let Some(error) = stream.errors.into_iter().next() {
        return Err(error.into());
    }
    Ok(stream.documents.into_iter().next().ok_or(Error::NotAPlan)?.value)
}

fn deserialize_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value)
        .map_err(|e| Error::Shape { path: e.path().to_string(), message: e.inner().to_string() })
}

/// The number of lines of a list in one chunk, at least.
const CHUNK_LINES: usize = 20_000;

/// Reads a text in the format of [`write`]. `None` for a text in any other format.
fn in_chunks(text: &str) -> Option<Plan> {
    let rest = text.strip_prefix(&write::plan_header())?;
    let (versions, rest) = take_versions(rest)?;
    let (placements, rest) = split_items(rest, "placements")?;
    let (unmatched, rest) = split_items(rest, "unmatched")?;
    let (named, rest) = clusters::take_lists(rest)?;
    let lists = SharedLists::default();
    let named = named.into_iter().map(|(name, list)| (name, lists.share_placed(&list))).collect();
    let mut plan = Plan { versions, ..Plan::default() };
    let chunks: Option<Vec<Vec<Placement>>> =
        placements.par_iter().map(|chunk| read_rows(chunk, &named, &lists)).collect();
    plan.placements = chunks?.into_iter().flatten().collect();
    for chunk in unmatched {
        plan.unmatched
            .extend(deserialize_value::<Vec<ObjectRef>>(first_document(chunk.as_bytes()).ok()?).ok()?);
    }
    if !rest.is_empty() {
        let mut document = first_document(rest.as_bytes()).ok()?;
        let shared = document.as_object_mut().filter(|map| map.len() == 1)?.remove("shared")?;
        plan.shared = deserialize_value(shared).ok()?;
    }
    Some(plan)
}

/// Reads the releases of the control planes, with which the text may begin. Returns them and the rest of the text.
fn take_versions(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let head = format!("{}:\n", write::VERSIONS_KEY);
    if !text.starts_with(&head) {
        return Some((BTreeMap::new(), text));
    }
    let lines = text.get(head.len()..)?.split_inclusive('\n').take_while(|line| line.starts_with(' '));
    let (block, rest) = text.split_at(head.len() + lines.map(str::len).sum::<usize>());
    let mut document = first_document(block.as_bytes()).ok()?;
    Some((deserialize_value(document.get_mut(write::VERSIONS_KEY)?.take()).ok()?, rest))
}

fn read_whole_rows(text: &str) -> Option<Vec<Placement>> {
    deserialize_value(first_document(text.as_bytes()).ok()?).ok()
}

/// Reads a chunk of the list of placements.
fn read_rows(
    text: &str,
    named: &BTreeMap<&str, PlacedClusters>,
    lists: &SharedLists,
) -> Option<Vec<Placement>> {
    let Some((rest, clusters)) = clusters::take_clusters(text) else { return read_whole_rows(text) };
    let mut rows = read_whole_rows(&rest)?;
    if rows.len() != clusters.len() {
        return None;
    }
    for (row, clusters) in rows.iter_mut().zip(clusters) {
        row.clusters = match clusters {
            // The rest of the text has the clusters of this row, in another format.
            RowClusters::InRest => continue,
            RowClusters::Listed(list) => lists.share_placed(&list.into()),
            RowClusters::Named(name) => named.get(name)?.clone(),
        };
    }
    Some(rows)
}

/// Splits the list below `key`, with which the text begins, into chunks of whole items. Returns them and the rest
/// of the text.
fn split_items<'t>(text: &'t str, key: &str) -> Option<(Vec<&'t str>, &'t str)> {
    let rest = text.strip_prefix(key)?.strip_prefix(':')?;
    if let Some(rest) = rest.strip_prefix(" []\n") {
        return Some((Vec::new(), rest));
    }
    let text = rest.strip_prefix('\n')?;
    let (mut chunks, mut start, mut at, mut lines) = (Vec::new(), 0, 0, 0);
    for line in text.split_inclusive('\n') {
        match line.as_bytes().first() {
            Some(b'-') if lines >= CHUNK_LINES => {
                chunks.push(&text[start..at]);
                (start, lines) = (at, 0);
            }
            Some(b'-' | b' ') => {}
            _ => break,
        }
        at += line.len();
        lines += 1;
    }
    chunks.push(&text[start..at]);
    Some((chunks, &text[at..]))
}

#[cfg(test)]
mod tests {
    use federate_dialect::Placed;
    use serde_json::json;

    use super::*;

    fn plan(rows: usize, shared: bool) -> Plan {
        let row = |at: usize| {
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": format!("c{at:04}")},
                "dialect": "kubeadmiral", "clusters": [{"name": "m1", "replicas": at}, {"name": "- m2", "replicas": null}],
                "memory": {"note": "first\n- second\nunmatched: third\n"}})
        };
        let rows: Vec<_> = (0..rows).map(row).collect();
        let shared = if shared { json!({"0123456789012345": {"m1": ["1e5", "~", "a"]}}) } else { json!({}) };
        let unmatched = [json!({"apiVersion": "v1", "kind": "Secret", "name": "placements"})];
        let versions =
            if shared == json!({}) { json!({}) } else { json!({"karmada": "1.16.8", "kubefleet": "main"}) };
        serde_json::from_value(
            json!({"versions": versions, "placements": rows, "unmatched": unmatched, "shared": shared}),
        )
        .unwrap()
    }

    #[test]
    fn what_is_written_is_read_in_chunks() {
        for plan in [Plan::default(), plan(1, false), plan(3, true), plan(4000, true)] {
            let text = serialize_plan(&plan);
            assert_eq!(in_chunks(&text).as_ref(), Some(&plan));
            assert_eq!(read_own(text.as_bytes()).unwrap(), plan);
        }
    }

    #[test]
    fn rows_that_were_moved_are_sorted() {
        let (sorted, mut moved) = (plan(3, false), plan(3, false));
        moved.placements.reverse();
        assert_eq!(read_own(serialize_plan(&moved).as_bytes()).unwrap(), sorted);
    }

    /// Returns a plan whose rows all have `clusters` clusters. Every third row has other replicas.
    fn similar_rows(rows: usize, clusters: usize) -> Plan {
        let mut plan = plan(rows, true);
        for (at, row) in plan.placements.iter_mut().enumerate() {
            let placed = |number: usize| Placed {
                name: format!("m{number:03}").into(),
                replicas: (at % 3 == 0).then_some(2),
            };
            row.clusters = (0..clusters).map(placed).collect();
        }
        plan
    }

    #[test]
    fn rows_with_equal_clusters_share_one_list() {
        let plan = similar_rows(100, 50);
        let text = serialize_plan(&plan);
        assert_eq!(text.matches("name: m007\n").count(), 2, "one list for each number of replicas");
        let read = in_chunks(&text).unwrap();
        assert_eq!((&read, serialize_plan(&read)), (&plan, text.clone()));
        let rows = &read.placements;
        assert!(rows[1].clusters.is_shared_with(&rows[2].clusters) && rows[1].clusters != rows[3].clusters);
        // A plan that was edited by hand is read as plain YAML, with the same result.
        let commented = text.replace("placements:\n", "# by hand\nplacements:\n");
        assert!(in_chunks(&commented).is_none());
        let read = read_own(commented.as_bytes()).unwrap();
        assert!(read == plan && read.placements[1].clusters.is_shared_with(&read.placements[2].clusters));
        // A list that only one row has, and short lists, are written in the rows.
        for plan in [similar_rows(1, 50), similar_rows(100, 7)] {
            assert!(!serialize_plan(&plan).contains(CLUSTER_LISTS));
        }
    }

    #[test]
    fn a_missing_list_is_an_error() {
        let plan = serialize_plan(&similar_rows(3, 50));
        let (rows, _) = plan.split_once("clusterLists:").unwrap();
        let Err(Error::Shape { path, message }) = read_own(rows.as_bytes()) else { panic!("it was read") };
        assert_eq!(path, "placements[1].clusters");
        assert!(message.starts_with("there is no list `50-clusters-"), "{message}");
    }

    #[test]
    fn rows_have_their_clusters_if_written_in_full() {
        let plan = similar_rows(100, 50);
        let mut text = Vec::new();
        write_plan_in_full(&plan, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains(CLUSTER_LISTS));
        let read = in_chunks(&text).unwrap();
        assert!(read == plan && read.placements[1].clusters.is_shared_with(&read.placements[2].clusters));
        let json = rows_of_json(&serde_json::to_string(&plan).unwrap(), false).unwrap();
        assert!(json == plan && json.placements[1].clusters.is_shared_with(&json.placements[2].clusters));
    }

    #[test]
    fn other_texts_are_read_as_yaml_or_json() {
        let plan = plan(2, true);
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(read_plan(json.as_bytes()).unwrap(), plan);
        let written = serialize_plan(&plan);
        let commented = written.replace("placements:\n", "# by hand\nplacements:\n");
        assert!(in_chunks(&commented).is_none());
        assert_eq!(read_own(commented.as_bytes()).unwrap(), plan);
        assert!(in_chunks(&written.replace("  dialect", "dialect")).is_none());
    }

    #[test]
    fn other_documents_are_refused() {
        assert!(matches!(read_plan(b"kind: Pod"), Err(Error::NotAPlan)));
        assert!(matches!(read_own(b"placements: []"), Err(Error::NotAPlan)));
        assert!(matches!(read_plan(b"placements: 3"), Err(Error::Shape { .. })));
        assert!(matches!(read_plan(b"placements: ["), Err(Error::Yaml(_))));
    }
}
