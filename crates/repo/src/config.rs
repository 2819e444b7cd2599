//! `federate.yaml`: the optional configuration file at the root of the repo.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use federate_kubernetes::{Finding, Severity};
use federate_yaml::Position;

/// The name of the file, at the repo's root.
pub const FILE: &str = "federate.yaml";

/// The settings of a repo. Every key is optional.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The API version, `federate.dev/v1alpha1`.
    pub api_version: Option<ApiVersion>,
    /// The kind, `Config`.
    pub kind: Option<Kind>,
    /// The folders and files to read, as globs from the root (`apps`, `clusters/*/prod`). If empty, everything is read.
    pub paths: Vec<String>,
    /// The folders and files not to read, as gitignore patterns.
    pub exclude: Vec<String>,
    /// The path of the output folder from the root. It is not read.
    pub output: Option<String>,
    /// The `values` for `*.j2` templates.
    pub values: Map<String, Value>,
    /// Overrides of `values`, by cluster name. Maps are merged by key; other values are replaced.
    pub cluster_values: BTreeMap<String, Map<String, Value>>,
    /// The options for applying to member clusters.
    pub apply: Apply,
    /// The options for drift.
    pub drift: Drift,
    /// The settings of control planes that affect decisions, by dialect.
    pub dialects: BTreeMap<String, Map<String, Value>>,
    /// The kubeconfig contexts of clusters, by cluster name. Only necessary if the names differ.
    pub contexts: BTreeMap<String, String>,
}

/// The options for applying to member clusters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Apply {
    /// The kinds that replace their pods when `spec.template` changes, in addition to `Deployment`, `StatefulSet` and
    /// `DaemonSet`, as `Kind.group` (`Rollout.argoproj.io`).
    pub rolling: Vec<String>,
}

/// The options for drift.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Drift {
    /// Differences that do not count as drift.
    pub ignore: Vec<Ignore>,
}

/// A rule for differences that do not count as drift. All given fields must match.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Ignore {
    /// The kinds, as `Kind` or `Kind.group`.
    pub kinds: Vec<String>,
    /// The names, as `name` or `namespace/name`.
    pub names: Vec<String>,
    /// The fields with all fields below them, as paths in the output of `federate drift` (`/spec/replicas`) or as JSON
    /// pointers into the live object.
    pub paths: Vec<String>,
    /// The field managers that wrote the field last.
    pub managers: Vec<String>,
}

/// The version of [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ApiVersion {
    /// The only version.
    #[serde(rename = "federate.dev/v1alpha1")]
    V1Alpha1,
}

/// The kind of [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Kind {
    /// The only kind.
    Config,
}

impl Config {
    /// Reads the configuration from the bytes of the file. An empty file means the defaults.
    pub fn read(bytes: &[u8]) -> Result<Self, Finding> {
        let stream = federate_yaml::read(bytes);
        if let Some(e) = stream.errors.first() {
            return Err(error(Some(e.at), &e.message));
        }
        match stream.documents.as_slice() {
            [] => Ok(Self::default()),
            [document] => Self::from_value(document.value.clone()).map_err(|(pointer, message)| {
                let at = federate_yaml::locate(bytes, document.index, &pointer);
                error(at.or(Some(Position { line: document.line, column: 1 })), &message).at(pointer)
            }),
            [_, second, ..] => {
                let at = Position { line: second.line, column: 1 };
                Err(error(Some(at), "it contains more than one document"))
            }
        }
    }

    fn from_value(value: Value) -> Result<Self, (String, String)> {
        from_value(value)
    }

    /// Returns the values for the templates of a cluster.
    pub fn values_for(&self, cluster: &str) -> Map<String, Value> {
        let mut values = self.values.clone();
        if let Some(own) = self.cluster_values.get(cluster) {
            merge(&mut values, own);
        }
        values
    }
}

/// Deserializes a JSON value. The error is a JSON pointer and the problem of the value there.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, (String, String)> {
    if !value.is_object() {
        return Err((String::new(), "it is not a mapping of keys to values".to_owned()));
    }
    serde_path_to_error::deserialize(value).map_err(|e| {
        let message = without_value(&e.inner().to_string());
        let mut pointer: String = e.path().iter().map(pointer_segment).collect();
        // serde reports an unknown key for its parent mapping.
        let unknown = message.strip_prefix("unknown field `").and_then(|m| m.split_once('`'));
        if let Some((key, _)) = unknown.filter(|(key, _)| !pointer.ends_with(&format!("/{key}"))) {
            pointer = format!("{pointer}/{}", escape(key));
        }
        (pointer, message)
    })
}

fn error(at: Option<Position>, message: &str) -> Finding {
    let file: Arc<str> = FILE.into();
    Finding::in_file(
        Severity::Error,
        "invalid-config",
        &file,
        at,
        format!("invalid configuration: {message}"),
    )
    .help("`federate help` lists the keys of federate.yaml")
}

/// Removes the value from a message of serde, because it may be secret.
///
/// The messages are `invalid type: string "…", expected …`, `invalid value: …`, `unknown variant `…`, …`.
fn without_value(message: &str) -> String {
    let quoted = |kind: &str| {
        let rest = message.strip_prefix(kind)?;
        let (_, expected) = rest.rsplit_once(", expected ")?;
        Some((rest.split([' ', ',']).next().unwrap_or_default().to_owned(), expected))
    };
    if let Some((found, expected)) = quoted("invalid type: ") {
        return format!("invalid type: {found}, expected {expected}");
    }
    for kind in ["invalid value: ", "unknown variant `"] {
        if let Some((_, expected)) = quoted(kind) {
            return format!("invalid value, expected {expected}");
        }
    }
    message.to_owned()
}

fn pointer_segment(segment: &serde_path_to_error::Segment) -> String {
    use serde_path_to_error::Segment::{Enum, Map, Seq, Unknown};
    match segment {
        Seq { index } => format!("/{index}"),
        Map { key } | Enum { variant: key } => format!("/{}", escape(key)),
        Unknown => String::new(),
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn merge(into: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(over)) => merge(into, over),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_and_wrong_keys_are_reported_with_their_pointer() {
        for (value, pointer, part) in [
            (json!({"path": ["a"]}), "/path", "unknown field `path`, expected one of"),
            (json!({"paths": ["a", 1]}), "/paths/1", "expected a string"),
            (json!({"clusterValues": {"m/1": 3}}), "/clusterValues/m~11", "expected a map"),
            (json!({"apiVersion": "v2"}), "/apiVersion", "federate.dev/v1alpha1"),
            (json!([]), "", "not a mapping"),
        ] {
            let (at, message) = Config::from_value(value).unwrap_err();
            assert_eq!(at, pointer);
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn cluster_values_merge_over_values() {
        let config = Config::from_value(json!({
            "apiVersion": "federate.dev/v1alpha1", "kind": "Config",
            "values": {"image": {"tag": "1", "repo": "r"}, "hosts": ["a", "b"]},
            "clusterValues": {"m1": {"image": {"tag": "2"}, "hosts": ["c"], "new": null}},
        }))
        .unwrap();
        let m1 = Value::Object(config.values_for("m1"));
        assert_eq!(m1, json!({"image": {"tag": "2", "repo": "r"}, "hosts": ["c"], "new": null}));
        assert_eq!(config.values_for("m2"), config.values);
    }
}
