//! Reading and writing plan documents: `placements.yaml`, `--previous`.

use crate::dialect::Plan;
use crate::dialect::plan::API_VERSION;
use crate::yaml;

/// Why a plan document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not YAML.
    #[error("line {}, column {}: {}", .0.at.line, .0.at.column, .0.message)]
    Yaml(#[from] yaml::Error),
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
    let stream = yaml::read(bytes);
    if let Some(error) = stream.errors.into_iter().next() {
        return Err(error.into());
    }
    let document = stream.documents.into_iter().next().ok_or(Error::NoPlan)?.value;
    let says = |key: &str, what: &str| document.get(key).map_or(silent, |v| v.as_str() == Some(what));
    if !document.is_object() || !says("apiVersion", API_VERSION) || !says("kind", "Plan") {
        return Err(Error::NoPlan);
    }
    serde_path_to_error::deserialize(document)
        .map_err(|e| Error::Shape { path: e.path().to_string(), message: e.inner().to_string() })
}

/// Writes a plan as YAML: sorted, one line a fact, so that merges stay local.
pub fn write(plan: &Plan) -> String {
    let mut text = format!("apiVersion: {}\nkind: {}\n", plan.api_version, plan.kind);
    list(&mut text, "placements", &plan.placements);
    list(&mut text, "unmatched", &plan.unmatched);
    if !plan.shared.is_empty() {
        yaml::write(&serde_json::json!({"shared": plan.shared}), &mut text);
    }
    text
}

/// One key with a list, an item at a time, so that a large plan is never held twice.
fn list<T: serde::Serialize>(text: &mut String, key: &str, items: &[T]) {
    if items.is_empty() {
        return text.push_str(&format!("{key}: []\n"));
    }
    text.push_str(&format!("{key}:\n"));
    for item in items {
        let value = serde_json::Value::Array(vec![serde_json::to_value(item).unwrap_or_default()]);
        yaml::write(&value, text);
    }
}
