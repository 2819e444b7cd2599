//! Reading and writing plan documents: `placements.yaml`, `--previous`.
//!
//! A plan as federate writes it is read in pieces, on all cores: it may be far larger than any document
//! that a person writes. Any other is read as YAML or JSON is.

use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

use federate_dialect::plan::API_VERSION;
use federate_dialect::{PlacedClusters, Placement, Plan};
use federate_kubernetes::ObjectRef;

mod clusters;

/// Why a plan document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not YAML.
    #[error("line {}, column {}: {}", .0.at.line, .0.at.column, .0.message)]
    Yaml(#[from] federate_yaml::Error),
    /// It is YAML, but no plan.
    #[error("`{path}`: {message}")]
    Shape {
        /// Where in the document.
        path: String,
        /// What is wrong there.
        message: String,
    },
    /// It is another kind of document.
    #[error("it is no document with `apiVersion: federate.dev/v1alpha1` and `kind: Plan`")]
    NoPlan,
}

/// Reads a plan, in YAML or JSON. One written by hand may leave out what kind of document it is.
pub fn read(bytes: &[u8]) -> Result<Plan, Error> {
    parse(bytes, true)
}

/// Reads a plan that says of itself that it is one, as all that federate writes do.
pub fn read_own(bytes: &[u8]) -> Result<Plan, Error> {
    parse(bytes, false)
}

fn parse(bytes: &[u8], silent: bool) -> Result<Plan, Error> {
    let text = std::str::from_utf8(bytes).ok();
    if let Some(plan) = text.and_then(in_pieces) {
        return Ok(plan);
    }
    let document = match text.filter(|text| text.trim_ascii_start().starts_with('{')) {
        Some(json) => serde_json::from_str(json).ok(),
        None => None,
    };
    let document = match document {
        Some(document) => document,
        None => first_document(bytes)?,
    };
    let says = |key: &str, what: &str| document.get(key).map_or(silent, |v| v.as_str() == Some(what));
    if !document.is_object() || !says("apiVersion", API_VERSION) || !says("kind", "Plan") {
        return Err(Error::NoPlan);
    }
    shaped(document)
}

fn first_document(bytes: &[u8]) -> Result<Value, Error> {
    let stream = federate_yaml::read(bytes);
    if let Some(error) = stream.errors.into_iter().next() {
        return Err(error.into());
    }
    Ok(stream.documents.into_iter().next().ok_or(Error::NoPlan)?.value)
}

fn shaped<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value)
        .map_err(|e| Error::Shape { path: e.path().to_string(), message: e.inner().to_string() })
}

/// Lines of a list that are read together.
const PIECE: usize = 20_000;

/// Reads the text that [`write`] gives; `None` for any other.
fn in_pieces(text: &str) -> Option<Plan> {
    let rest = text.strip_prefix(&head())?;
    let (placements, rest) = items(rest, "placements")?;
    let (unmatched, rest) = items(rest, "unmatched")?;
    let mut plan = Plan::default();
    let pieces: Option<Vec<Vec<Placement>>> = placements.par_iter().map(|piece| rows(piece)).collect();
    plan.placements = pieces?.into_iter().flatten().collect();
    for piece in unmatched {
        plan.unmatched.extend(shaped::<Vec<ObjectRef>>(first_document(piece.as_bytes()).ok()?).ok()?);
    }
    if !rest.is_empty() {
        let mut document = first_document(rest.as_bytes()).ok()?;
        let shared = document.as_object_mut().filter(|map| map.len() == 1)?.remove("shared")?;
        plan.shared = shaped(shared).ok()?;
    }
    Some(plan)
}

/// Reads some items of the list of placements.
fn rows(text: &str) -> Option<Vec<Placement>> {
    let read = |text: &str| -> Option<Vec<Placement>> { shaped(first_document(text.as_bytes()).ok()?).ok() };
    let Some((left, lists)) = clusters::take(text) else { return read(text) };
    let mut rows = read(&left)?;
    if rows.len() != lists.len() {
        return None;
    }
    for (row, list) in rows.iter_mut().zip(lists) {
        // What stood there otherwise than in a list of lines is read already.
        if !list.is_empty() {
            row.clusters = list.into();
        }
    }
    Some(rows)
}

/// Cuts the list below `key`, with which the text begins, into pieces of whole items; and what is left
/// of the text.
fn items<'t>(text: &'t str, key: &str) -> Option<(Vec<&'t str>, &'t str)> {
    let rest = text.strip_prefix(key)?.strip_prefix(':')?;
    if let Some(rest) = rest.strip_prefix(" []\n") {
        return Some((Vec::new(), rest));
    }
    let text = rest.strip_prefix('\n')?;
    let (mut pieces, mut start, mut at, mut lines) = (Vec::new(), 0, 0, 0);
    for line in text.split_inclusive('\n') {
        match line.as_bytes().first() {
            Some(b'-') if lines >= PIECE => {
                pieces.push(&text[start..at]);
                (start, lines) = (at, 0);
            }
            Some(b'-' | b' ') => {}
            _ => break,
        }
        at += line.len();
        lines += 1;
    }
    pieces.push(&text[start..at]);
    Some((pieces, &text[at..]))
}

fn head() -> String {
    format!("apiVersion: {API_VERSION}\nkind: Plan\n")
}

/// Writes a plan as YAML: sorted, one line a fact, so that merges stay local.
pub fn write(plan: &Plan) -> String {
    let mut text = head();
    list(&mut text, "placements", &plan.placements, row);
    list(&mut text, "unmatched", &plan.unmatched, item);
    if !plan.shared.is_empty() {
        federate_yaml::write(&serde_json::json!({"shared": plan.shared}), &mut text);
    }
    text
}

/// One key with a list.
fn list<T: Sync>(text: &mut String, key: &str, items: &[T], item: impl Fn(&T) -> String + Send + Sync) {
    if items.is_empty() {
        return text.push_str(&format!("{key}: []\n"));
    }
    text.push_str(&format!("{key}:\n"));
    let written: Vec<String> = items.par_iter().map(item).collect();
    text.reserve(written.iter().map(String::len).sum());
    for item in written {
        text.push_str(&item);
    }
}

/// One item of a list.
fn item<T: serde::Serialize>(item: &T) -> String {
    let value = serde_json::Value::Array(vec![serde_json::to_value(item).unwrap_or_default()]);
    let mut text = String::new();
    federate_yaml::write(&value, &mut text);
    text
}

/// A placement: its clusters are put in where an empty list of them stands.
fn row(placement: &Placement) -> String {
    let Some(clusters) = clusters::write(&placement.clusters) else { return item(placement) };
    let text = item(&Placement { clusters: PlacedClusters::default(), ..placement.clone() });
    match text.split_once("\n  clusters: []\n") {
        Some((before, after)) => format!("{before}\n{clusters}{after}"),
        None => item(placement),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(rows: usize, shared: bool) -> Plan {
        let row = |at: usize| {
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": format!("c{at}")},
                "dialect": "kubeadmiral", "clusters": [{"name": "m1", "replicas": at}, {"name": "- m2", "replicas": null}],
                "memory": {"note": "first\n- second\nunmatched: third\n"}})
        };
        let rows: Vec<_> = (0..rows).map(row).collect();
        let shared = if shared { json!({"0123456789012345": {"m1": ["1e5", "~", "a"]}}) } else { json!({}) };
        let unmatched = [json!({"apiVersion": "v1", "kind": "Secret", "name": "placements"})];
        serde_json::from_value(json!({"placements": rows, "unmatched": unmatched, "shared": shared})).unwrap()
    }

    #[test]
    fn what_is_written_is_read_in_pieces() {
        for plan in [Plan::default(), plan(1, false), plan(3, true), plan(4000, true)] {
            let text = write(&plan);
            assert_eq!(in_pieces(&text).as_ref(), Some(&plan));
            assert_eq!(read_own(text.as_bytes()).unwrap(), plan);
        }
    }

    #[test]
    fn other_texts_are_read_as_yaml_or_json() {
        let plan = plan(2, true);
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(read(json.as_bytes()).unwrap(), plan);
        let written = write(&plan);
        let commented = written.replace("placements:\n", "# by hand\nplacements:\n");
        assert!(in_pieces(&commented).is_none());
        assert_eq!(read_own(commented.as_bytes()).unwrap(), plan);
        assert!(in_pieces(&written.replace("  dialect", "dialect")).is_none());
    }

    #[test]
    fn a_plan_that_is_none_is_told() {
        assert!(matches!(read(b"kind: Pod"), Err(Error::NoPlan)));
        assert!(matches!(read_own(b"placements: []"), Err(Error::NoPlan)));
        assert!(matches!(read(b"placements: 3"), Err(Error::Shape { .. })));
        assert!(matches!(read(b"placements: ["), Err(Error::Yaml(_))));
    }
}
