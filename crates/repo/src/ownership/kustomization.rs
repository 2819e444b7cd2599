//! Kustomizations: which files they list, and what they do to every object.
//!
//! Facts: kustomize's API `kustomize.config.k8s.io/v1beta1`. A prefix or suffix does not change the names of Namespaces,
//! CustomResourceDefinitions and `APIServices`. The names of generated objects end in a hash of their content. Keys are decoded in any
//! case.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use federate_kubernetes::Object;

use super::folder_of;
use federate_file_tree::RepoFile;

/// The names of kustomizations.
const KUSTOMIZATION_FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Kinds whose names neither prefix nor suffix changes.
const FIXED_NAMES: [&str; 3] = ["Namespace", "CustomResourceDefinition", "APIService"];

/// Fields that change objects and are not followed.
const UNMODELED_TRANSFORMERS: [&str; 11] = [
    "patches",
    "patchesStrategicMerge",
    "patchesJson6902",
    "images",
    "replicas",
    "replacements",
    "vars",
    "transformers",
    "commonAnnotations",
    "buildMetadata",
    "components",
];

/// Whether a file with this name is a kustomization.
pub(super) fn is_name(name: &str) -> bool {
    KUSTOMIZATION_FILE_NAMES.contains(&name)
}

/// What a resource of a kustomization is.
pub(super) enum KustomizationResource {
    /// Another kustomization, by its index.
    Kustomization(usize),
    /// A file, or a folder without a kustomization.
    Path,
}

/// A kustomization.
#[derive(Clone, Debug, Default)]
pub(super) struct Kustomization {
    pub(super) file: Arc<str>,
    pub(super) folder: String,
    /// The files and folders whose objects it takes.
    pub(super) resources: Vec<String>,
    /// The other files that it uses.
    pub(super) inputs: Vec<String>,
    /// The objects that it generates.
    pub(super) generated: Vec<Object>,
    /// Why its objects are not all known, if they are not.
    pub(super) unknown: Option<&'static str>,
    /// Whether it changes the objects that it takes.
    pub(super) changes_objects: bool,
    /// Whether it is a component, which only others build.
    pub(super) is_component: bool,
    namespace: String,
    prefix: String,
    suffix: String,
    labels: Map<String, Value>,
}

impl Kustomization {
    /// Reads a kustomization. What cannot be read of it is left out.
    pub(super) fn parse(file: &RepoFile) -> Self {
        let stream = federate_yaml::read_stream(&file.bytes);
        let value = stream.documents.into_iter().next().map(|document| document.value).unwrap_or_default();
        let [namespace, prefix, suffix] = ["namespace", "namePrefix", "nameSuffix"]
            .map(|key| find_field(&value, key).and_then(Value::as_str).unwrap_or_default().to_owned());
        let mut kustomization = Self {
            file: file.path.clone(),
            folder: folder_of(&file.path).to_owned(),
            namespace,
            prefix,
            suffix,
            labels: read_labels(&value),
            is_component: find_field(&value, "kind").and_then(Value::as_str) == Some("Component"),
            ..Self::default()
        };
        kustomization.changes_objects = UNMODELED_TRANSFORMERS
            .into_iter()
            .any(|key| find_field(&value, key).is_some_and(|field| !field.is_null()))
            || !(kustomization.namespace.is_empty()
                && kustomization.prefix.is_empty()
                && kustomization.suffix.is_empty()
                && kustomization.labels.is_empty());
        if ["helmCharts", "helmChartInflationGenerator"].iter().any(|key| find_field(&value, key).is_some()) {
            kustomization.unknown = Some("it includes Helm charts");
        }
        kustomization.add_resources(&value);
        kustomization.add_inputs(&value);
        for kind in ["ConfigMap", "Secret"] {
            let key = if kind == "ConfigMap" { "configMapGenerator" } else { "secretGenerator" };
            let generated: Vec<Object> = list_items(&value, key)
                .filter_map(|generator| kustomization.generate_object(kind, generator))
                .collect();
            kustomization.generated.extend(generated);
        }
        kustomization
    }

    fn add_resources(&mut self, value: &Value) {
        for key in ["resources", "bases", "components"] {
            for path in list_items(value, key).filter_map(Value::as_str) {
                match self.resolve_path(path) {
                    Some(path) => self.resources.push(path),
                    None if is_remote(path) => self.unknown = Some("it takes objects from other places"),
                    None => self.unknown = Some("it takes objects from outside of the repo"),
                }
            }
        }
    }

    fn add_inputs(&mut self, value: &Value) {
        let mut paths: Vec<&str> = Vec::new();
        let files =
            ["patchesStrategicMerge", "crds", "configurations", "transformers", "generators", "validators"];
        for key in files {
            paths.extend(list_items(value, key).filter_map(Value::as_str));
        }
        for key in ["patches", "patchesJson6902", "replacements"] {
            paths.extend(list_items(value, key).filter_map(|one| find_field(one, "path")?.as_str()));
        }
        for generator in list_items(value, "configMapGenerator").chain(list_items(value, "secretGenerator")) {
            for key in ["files", "envs"] {
                paths.extend(list_items(generator, key).filter_map(Value::as_str).map(without_key));
            }
            paths.extend(find_field(generator, "env").and_then(Value::as_str));
        }
        for chart in list_items(value, "helmCharts") {
            paths.extend(find_field(chart, "valuesFile").and_then(Value::as_str));
            paths.extend(list_items(chart, "additionalValuesFiles").filter_map(Value::as_str));
        }
        let schema = find_field(value, "openapi").and_then(|schema| find_field(schema, "path"));
        paths.extend(schema.and_then(Value::as_str));
        // A patch may be written in place of a path.
        let paths = paths.into_iter().filter(|path| !path.contains('\n'));
        let resolved: Vec<String> = paths.filter_map(|path| self.resolve_path(path)).collect();
        self.inputs = resolved;
    }

    fn generate_object(&self, kind: &str, generator: &Value) -> Option<Object> {
        let name = find_field(generator, "name")?.as_str()?;
        let namespace = find_field(generator, "namespace").and_then(Value::as_str).unwrap_or("default");
        let metadata = json!({"name": name, "namespace": namespace});
        let body = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        Some(Object::from_manifest(body, self.file.clone()))
    }

    /// Changes an object as the kustomization does, as far as policies can select by it.
    pub(super) fn transform_object(&self, object: &mut Object) {
        if !self.namespace.is_empty() && object.id.namespace.is_some() {
            object.id.namespace = Some(self.namespace.clone());
            set_metadata(object, "namespace", self.namespace.as_str().into());
        }
        let is_renamed = !self.prefix.is_empty() || !self.suffix.is_empty();
        if is_renamed && !FIXED_NAMES.contains(&object.id.kind.as_str()) {
            object.id.name = format!("{}{}{}", self.prefix, object.id.name, self.suffix);
            set_metadata(object, "name", object.id.name.as_str().into());
        }
        for (key, value) in &self.labels {
            if let Some(value) = value.as_str() {
                object.set_label(key, value);
            }
        }
    }

    /// The path in the repo of a path in the kustomization; `None` if it is elsewhere.
    fn resolve_path(&self, path: &str) -> Option<String> {
        if is_remote(path) || path.starts_with('/') {
            return None;
        }
        let mut parts: Vec<&str> = self.folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()?),
                part => parts.push(part),
            }
        }
        Some(parts.join("/"))
    }
}

/// The labels that a kustomization adds to metadata.
fn read_labels(value: &Value) -> Map<String, Value> {
    let common = find_field(value, "commonLabels").and_then(Value::as_object);
    let pairs = list_items(value, "labels").filter_map(|one| find_field(one, "pairs")?.as_object());
    common.into_iter().chain(pairs).flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The items of a list.
fn list_items<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    find_field(value, key).and_then(Value::as_array).into_iter().flatten()
}

/// A field by its key, in any case.
fn find_field<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let fields = value.as_object()?;
    let in_other_case =
        || fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, field)| field);
    fields.get(key).or_else(in_other_case)
}

/// The path in `key=path`.
fn without_key(file: &str) -> &str {
    file.split_once('=').map_or(file, |(_, path)| path)
}

/// Whether a resource is a URL or a git repository.
fn is_remote(path: &str) -> bool {
    path.contains("://")
        || path.starts_with("git@")
        || path.starts_with("github.com/")
        || path.contains("?ref=")
}

fn set_metadata(object: &mut Object, key: &str, value: Value) {
    if let Some(Value::Object(metadata)) = object.body.get_mut("metadata") {
        metadata.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_any_case() {
        let text = "Resources: [a.yaml]\nnameprefix: x-\nPATCHES: [{Path: p.yaml}]\nsecretgenerator: [{NAME: s, Envs: [b.env]}]\n";
        let file = RepoFile { path: "app/kustomization.yaml".into(), bytes: text.as_bytes().into() };
        let read = Kustomization::parse(&file);
        assert_eq!((&*read.resources, &*read.prefix), (&["app/a.yaml".to_owned()][..], "x-"));
        assert_eq!(read.inputs, ["app/p.yaml", "app/b.env"]);
        assert_eq!(read.generated.len(), 1);
        assert!(read.changes_objects);
    }
}
