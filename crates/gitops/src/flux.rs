//! Objects of Flux as sources: `Kustomization` and `HelmRelease`, whose paths are read as those of this repo.
//!
//! Facts: the APIs `kustomize.toolkit.fluxcd.io/v1` and `helm.toolkit.fluxcd.io/v2`. A folder without a kustomization stands for all
//! files below it. Of substitutions, later sources win, and those written in place win over all. Values files of a chart stand in
//! place of its own. A release name of more than 53 characters is cut and ends in a digest.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use federate_kubernetes::Object;
use federate_kubernetes::hex::to_hex;
use federate_kubernetes::object::{field_text, pointer_text};

use crate::description::{
    BuildChanges, DescribedChart, DescribedJob, DescribedSource, Description, DescriptionError,
    FolderContent, inspect_folder, list_texts, read_map,
};
use crate::description::{FileGeneration, is_packaged_chart};
use crate::remote_reference::{FluxCharts, ReleaseChart};
use crate::values::merge_maps;
use crate::vendored::VendoredSources;
use federate_file_tree::{CachedTree, EntryKind, find_entry, normalize_path};
use substitution::{Variables, is_variable_name};

pub(crate) mod substitution;

/// The longest name of a release.
const MAX_RELEASE_NAME: usize = 53;

/// Whether an object describes a source.
pub fn describes_source(object: &Object) -> bool {
    matches!(
        (object.id.group(), object.id.kind.as_str()),
        ("kustomize.toolkit.fluxcd.io", "Kustomization") | ("helm.toolkit.fluxcd.io", "HelmRelease")
    )
}

/// The objects of a repo that others refer to: `ConfigMap`s, by namespace and name.
pub struct FluxReader<'f> {
    tree: &'f CachedTree<'f>,
    config_maps: BTreeMap<(String, String), &'f Object>,
    charts: FluxCharts<'f>,
    vendored: &'f VendoredSources<'f>,
}

impl<'f> FluxReader<'f> {
    /// Reads objects of Flux beside these ones, to which they refer.
    pub fn new(
        tree: &'f CachedTree<'f>,
        objects: impl Iterator<Item = &'f Object> + Clone,
        vendored: &'f VendoredSources<'f>,
    ) -> Self {
        let charts = FluxCharts::new(objects.clone());
        let maps = objects.filter(|object| object.id.api_version == "v1" && object.id.kind == "ConfigMap");
        let config_maps =
            maps.map(|object| ((namespace_of(object), object.id.name.clone()), object)).collect();
        Self { tree, config_maps, charts, vendored }
    }

    /// What an object describes.
    pub fn read_object(&self, object: &'f Object) -> Result<Description, DescriptionError> {
        let spec = object.body.get("spec").unwrap_or(&Value::Null);
        let source = if object.id.kind == "HelmRelease" {
            self.read_release(object, spec)?
        } else {
            self.read_kustomization(object, spec)?
        };
        Ok(Description { sources: vec![source], notes: Vec::new() })
    }

    fn read_kustomization(&self, object: &Object, spec: &Value) -> Result<DescribedSource, DescriptionError> {
        require_git(spec.get("sourceRef"), "/spec/sourceRef")?;
        let path = read_local_path(field_text(spec, "path"), "/spec/path")?;
        if inspect_folder(self.tree, &path).is_none() {
            return Err(DescriptionError::new("/spec/path", format!("`{path}` is not a folder of the repo")));
        }
        let mut edits = Map::new();
        for (key, edited) in
            [("targetNamespace", "namespace"), ("namePrefix", "namePrefix"), ("nameSuffix", "nameSuffix")]
        {
            let text = field_text(spec, key);
            if !text.is_empty() {
                edits.insert(edited.to_owned(), text.into());
            }
        }
        for key in ["patches", "components", "images"] {
            if let Some(items) =
                spec.get(key).filter(|items| items.as_array().is_some_and(|items| !items.is_empty()))
            {
                edits.insert(key.to_owned(), items.clone());
            }
        }
        let changes = BuildChanges {
            labels: read_map(spec.pointer("/commonMetadata/labels")),
            annotations: read_map(spec.pointer("/commonMetadata/annotations")),
            variables: spec.get("postBuild").map(|post| self.read_variables(object, post)).transpose()?,
        };
        Ok(DescribedSource {
            path,
            job: DescribedJob::Kustomization { edits, generation: FileGeneration::Tree },
            clusters: None,
            namespace: None,
            changes,
        })
    }

    fn read_variables(&self, object: &Object, post_build: &Value) -> Result<Variables, DescriptionError> {
        let mut variables = Variables::new();
        let from = post_build.get("substituteFrom").and_then(Value::as_array).into_iter().flatten();
        for (index, reference) in from.enumerate() {
            let pointer = format!("/spec/postBuild/substituteFrom/{index}");
            if let Some(data) = self.find_data(object, reference, &pointer)? {
                variables.extend(data.into_iter().map(|(key, value)| (key, value.replace('\n', ""))));
            }
        }
        for (key, value) in read_map(post_build.get("substitute")) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            variables.insert(key, text);
        }
        if let Some(name) = variables.keys().find(|name| !is_variable_name(name)) {
            return Err(DescriptionError::new(
                "/spec/postBuild",
                format!("`{name}` is not the name of a variable"),
            ));
        }
        Ok(variables)
    }

    /// The data of the `ConfigMap` that a reference names; `None` if it is missing and may be.
    fn find_data(
        &self,
        object: &Object,
        reference: &Value,
        pointer: &str,
    ) -> Result<Option<BTreeMap<String, String>>, DescriptionError> {
        let is_optional = reference.get("optional") == Some(&Value::Bool(true));
        let (kind, name) = (field_text(reference, "kind"), field_text(reference, "name"));
        if kind != "ConfigMap" {
            if is_optional {
                return Ok(None);
            }
            let help = "keep what is not secret in a ConfigMap, or mark the reference as optional";
            return Err(DescriptionError::new(
                pointer,
                format!("{kind} {name} is not read: only ConfigMaps of the repo are"),
            )
            .with_help(help));
        }
        match self.config_maps.get(&(namespace_of(object), name.to_owned())) {
            Some(map) => {
                Ok(Some(federate_kubernetes::object::string_map(map.body.get("data")).into_iter().collect()))
            }
            None if is_optional => Ok(None),
            None => Err(DescriptionError::new(
                pointer,
                format!("the repo has no ConfigMap {}/{name}", namespace_of(object)),
            )
            .with_help("commit it, or mark the reference as optional")),
        }
    }

    fn read_release(&self, object: &'f Object, spec: &Value) -> Result<DescribedSource, DescriptionError> {
        let ReleaseChart { settings: chart, pointer, reference } = self.charts.read_release(object)?;
        if spec.get("postRenderers").and_then(Value::as_array).is_some_and(|all| !all.is_empty()) {
            return Err(DescriptionError::new("/spec/postRenderers", "federate runs no post-renderers"));
        }
        let path = match &reference {
            Some(reference) => self.vendored.find(reference, pointer)?,
            None => self.find_own_chart(chart, pointer)?,
        };
        let mark = if chart.get("ignoreMissingValuesFiles") == Some(&Value::Bool(true)) { "?" } else { "" };
        let mut files = list_texts(chart.get("valuesFiles"));
        if reference.is_some() {
            // They are those of the chart.
            for file in &mut files {
                *file = format!("{path}/{}", read_local_path(file, &format!("{pointer}/valuesFiles"))?);
            }
        }
        let mut set = Map::new();
        for (index, reference) in
            spec.get("valuesFrom").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            self.add_values(object, reference, index, &mut set)?;
        }
        merge_maps(&mut set, &read_map(spec.get("values")));
        let target = field_text(spec, "targetNamespace");
        let own = namespace_of(object);
        let release = match field_text(spec, "releaseName") {
            "" if target.is_empty() => object.id.name.clone(),
            "" => format!("{target}-{}", object.id.name),
            name => name.to_owned(),
        };
        let namespace = if target.is_empty() { own } else { target.to_owned() };
        let described = DescribedChart {
            release: shorten_release(release),
            namespace: namespace.clone(),
            replaces_values: !files.is_empty(),
            values: files.into_iter().map(|file| file + mark).collect(),
            set,
            skips_crds: pointer_text(spec, "/install/crds") == "Skip",
        };
        Ok(DescribedSource {
            path,
            job: DescribedJob::Chart(described),
            clusters: None,
            namespace: Some(namespace),
            changes: BuildChanges {
                labels: read_map(spec.pointer("/commonMetadata/labels")),
                annotations: read_map(spec.pointer("/commonMetadata/annotations")),
                variables: None,
            },
        })
    }

    /// The path of a chart in this repo.
    fn find_own_chart(&self, chart: &Value, pointer: &str) -> Result<String, DescriptionError> {
        require_git(chart.get("sourceRef"), &format!("{pointer}/sourceRef"))?;
        let pointer = format!("{pointer}/chart");
        let path = read_local_path(field_text(chart, "chart"), &pointer)?;
        let is_file = matches!(find_entry(self.tree, &path), Some(EntryKind::File));
        if !(is_packaged_chart(&path) && is_file)
            && inspect_folder(self.tree, &path) != Some(FolderContent::Chart)
        {
            return Err(DescriptionError::new(&pointer, format!("`{path}` is not a chart of the repo")));
        }
        Ok(path)
    }

    /// Adds the values that a reference names.
    fn add_values(
        &self,
        object: &Object,
        reference: &Value,
        index: usize,
        set: &mut Map<String, Value>,
    ) -> Result<(), DescriptionError> {
        let pointer = format!("/spec/valuesFrom/{index}");
        let key = match field_text(reference, "valuesKey") {
            "" => "values.yaml",
            key => key,
        };
        let Some(data) = self.find_data(object, reference, &pointer)? else { return Ok(()) };
        let Some(text) = data.get(key) else {
            if reference.get("optional") == Some(&Value::Bool(true)) {
                return Ok(());
            }
            return Err(DescriptionError::new(&pointer, format!("the ConfigMap has no key `{key}`")));
        };
        let target = field_text(reference, "targetPath");
        if !target.is_empty() {
            return crate::helm_parameters::set_parameter(set, target, text.trim_end_matches('\n'), false)
                .map_err(|why| DescriptionError::new(&format!("{pointer}/targetPath"), why));
        }
        let values =
            federate_yaml::read_stream(text.as_bytes()).documents.pop().map(|document| document.value);
        merge_maps(set, &read_map(values.as_ref()));
        Ok(())
    }
}

/// A source must be in a git repository, which is taken for this one.
fn require_git(reference: Option<&Value>, pointer: &str) -> Result<(), DescriptionError> {
    let kind = reference.map_or("", |reference| field_text(reference, "kind"));
    if matches!(kind, "GitRepository" | "ExternalArtifact" | "") {
        return Ok(());
    }
    Err(DescriptionError::new(
        pointer,
        format!("its source is a {kind}, and only what is in the repo is built"),
    )
    .with_help("vendor it, and let the object name a GitRepository"))
}

/// A path within the repo.
pub(crate) fn read_local_path(path: &str, pointer: &str) -> Result<String, DescriptionError> {
    let path = path.trim_start_matches("./").trim_start_matches('/');
    normalize_path(path)
        .map_err(|_| DescriptionError::new(pointer, format!("{path:?} is not a path within the repo")))
}

fn namespace_of(object: &Object) -> String {
    object.id.namespace.clone().unwrap_or_else(|| "default".to_owned())
}

/// The name of a release as Flux shortens it.
fn shorten_release(name: String) -> String {
    if name.len() <= MAX_RELEASE_NAME {
        return name;
    }
    let digest = to_hex(&Sha256::digest(name.as_bytes())[..6]);
    let start = name.get(..40).unwrap_or(&name);
    format!("{start}-{digest}")
}
