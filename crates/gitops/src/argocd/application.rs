//! Objects of Argo CD as sources: `Application`, whose paths are read as those of this repo, and the Applications of an
//! `ApplicationSet`.
//!
//! Facts: the API `argoproj.io/v1alpha1`, and how Argo CD calls Helm and kustomize. A folder is a chart, a kustomization, or its
//! YAML and JSON files. Values files are relative to the chart, or to the repo of a `ref`; values win over them, and parameters over
//! both. A destination that is the cluster of Argo CD stands for all clusters here.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use federate_kubernetes::object::{field_text, pointer_text};
use federate_kubernetes::{Cluster, ClusterName, Object};

use super::application_set::{GenerationUsage, LocalRepo, generate_applications, server_of};
use crate::description::{
    BuildChanges, DescribedChart, DescribedJob, DescribedSource, Description, DescriptionError,
    FolderContent, inspect_folder, list_texts, read_map,
};
use crate::description::{FileGeneration, is_packaged_chart};
use crate::flux::read_local_path;
use crate::helm_parameters::set_parameter;
use crate::remote_reference::{RemoteReference, read_argo_chart};
use crate::values::merge_maps;
use crate::vendored::VendoredSources;
use federate_file_tree::{CachedTree, EntryKind, find_entry, normalize_path};

/// The address and the name of the cluster in which Argo CD runs.
const OWN_SERVER: &str = "https://kubernetes.default.svc";
const OWN_NAME: &str = "in-cluster";

/// Where an `ApplicationSet` has the template of its Applications.
const TEMPLATE_POINTER: &str = "/spec/template/spec";

/// Keys of `helm` that are read, or change nothing that is built.
const HELM_KEYS: [&str; 12] = [
    "releaseName",
    "valueFiles",
    "values",
    "valuesObject",
    "parameters",
    "ignoreMissingValueFiles",
    "skipCrds",
    "skipTests",
    "namespace",
    "skipSchemaValidation",
    "passCredentials",
    "version",
];

/// Keys of `kustomize` that are read, or change nothing that is built.
const KUSTOMIZE_KEYS: [&str; 14] = [
    "namePrefix",
    "nameSuffix",
    "namespace",
    "images",
    "replicas",
    "patches",
    "components",
    "commonLabels",
    "commonAnnotations",
    "labelWithoutSelector",
    "labelIncludeTemplates",
    "forceCommonLabels",
    "forceCommonAnnotations",
    "version",
];

/// Whether an object describes sources.
pub fn describes_source(object: &Object) -> bool {
    object.id.group() == "argoproj.io" && matches!(object.id.kind.as_str(), "Application" | "ApplicationSet")
}

/// Reads objects of Argo CD for a repo with these clusters.
pub struct ArgoReader<'f> {
    /// The files of the repo.
    pub tree: &'f CachedTree<'f>,
    /// The clusters of the inventory.
    pub clusters: &'f [Cluster],
    /// What the `ApplicationSet`s that were read have taken.
    pub usage: &'f GenerationUsage,
    /// The charts that are vendored.
    pub vendored: &'f VendoredSources<'f>,
}

impl ArgoReader<'_> {
    /// The sources that an object describes.
    pub fn read_object(&self, object: &Object) -> Result<Description, DescriptionError> {
        if object.id.kind == "Application" {
            let spec = object.body.get("spec").unwrap_or(&Value::Null);
            let sources = self.read_application(&object.id.name, spec, "/spec")?;
            return Ok(Description { sources, notes: Vec::new() });
        }
        let repo = LocalRepo { tree: self.tree, clusters: self.clusters, usage: self.usage };
        let mut sources = Vec::new();
        for application in generate_applications(object, &repo)? {
            let name = pointer_text(&application, "/metadata/name").to_owned();
            let spec = application.get("spec").unwrap_or(&Value::Null);
            sources.extend(self.read_application(&name, spec, TEMPLATE_POINTER)?);
        }
        Ok(Description { sources, notes: Vec::new() })
    }

    /// The charts in repositories of charts that an object names.
    pub fn list_charts(&self, object: &Object) -> Result<Vec<RemoteReference>, DescriptionError> {
        let (applications, at) = if object.id.kind == "Application" {
            (vec![object.body.clone()], "/spec")
        } else {
            let repo = LocalRepo { tree: self.tree, clusters: self.clusters, usage: self.usage };
            (generate_applications(object, &repo)?, TEMPLATE_POINTER)
        };
        let mut charts = BTreeSet::new();
        for application in &applications {
            let spec = application.get("spec").unwrap_or(&Value::Null);
            for (pointer, source) in list_sources(spec, at) {
                if !field_text(source, "chart").is_empty() {
                    charts.insert(read_argo_chart(source, &pointer)?);
                }
            }
        }
        Ok(charts.into_iter().collect())
    }

    fn read_application(
        &self,
        name: &str,
        spec: &Value,
        at: &str,
    ) -> Result<Vec<DescribedSource>, DescriptionError> {
        let destination = spec.get("destination").unwrap_or(&Value::Null);
        let clusters = self.find_destination(destination, &format!("{at}/destination"))?;
        let namespace = match field_text(destination, "namespace") {
            "" => "default",
            namespace => namespace,
        };
        let sources = list_sources(spec, at);
        if sources.is_empty() {
            return Err(DescriptionError::new(at, "it has no source"));
        }
        let names: BTreeSet<&str> = sources
            .iter()
            .map(|(_, source)| field_text(source, "ref"))
            .filter(|name| !name.is_empty())
            .collect();
        let mut described = Vec::new();
        for (pointer, source) in &sources {
            if source.get("path").is_none()
                && source.get("chart").is_none()
                && !field_text(source, "ref").is_empty()
            {
                continue;
            }
            let context = ApplicationSource { name, namespace, names: &names, source, pointer };
            let (path, job) = if field_text(source, "chart").is_empty() {
                self.read_source(&context)?
            } else {
                let path = self.vendored.find(&read_argo_chart(source, pointer)?, pointer)?;
                let chart = context.read_chart(&path)?;
                (path, DescribedJob::Chart(chart))
            };
            described.push(DescribedSource {
                path,
                job,
                clusters: clusters.clone(),
                namespace: Some(namespace.to_owned()),
                changes: BuildChanges::default(),
            });
        }
        Ok(described)
    }

    /// The clusters of a destination; `None` for all.
    fn find_destination(
        &self,
        destination: &Value,
        pointer: &str,
    ) -> Result<Option<BTreeSet<ClusterName>>, DescriptionError> {
        let (name, server) = (field_text(destination, "name"), field_text(destination, "server"));
        if name == OWN_NAME || server == OWN_SERVER || (name.is_empty() && server.is_empty()) {
            return Ok(None);
        }
        let found =
            self.clusters.iter().find(|cluster| *cluster.name == *name || server_of(&cluster.name) == server);
        if let Some(cluster) = found {
            return Ok(Some([cluster.name.clone()].into()));
        }
        let named = if name.is_empty() { server } else { name };
        Err(DescriptionError::new(
            pointer,
            format!("its destination `{named}` is not a cluster of the inventory"),
        )
        .with_help("name a cluster of the inventory in `destination.name`"))
    }

    fn read_source(
        &self,
        context: &ApplicationSource<'_>,
    ) -> Result<(String, DescribedJob), DescriptionError> {
        let at = context.pointer;
        if context.source.get("plugin").is_some_and(|plugin| !plugin.is_null()) {
            return Err(DescriptionError::new(&format!("{at}/plugin"), "federate runs no plugins")
                .with_help("commit the output of the plugin in place of it"));
        }
        let pointer = format!("{at}/path");
        let path = read_local_path(field_text(context.source, "path"), &pointer)?;
        let is_package =
            is_packaged_chart(&path) && matches!(find_entry(self.tree, &path), Some(EntryKind::File));
        let content = if is_package { Some(FolderContent::Chart) } else { inspect_folder(self.tree, &path) };
        let content = content.ok_or_else(|| {
            DescriptionError::new(&pointer, format!("`{path}` is not a folder of the repo"))
        })?;
        let job = match content {
            FolderContent::Chart => DescribedJob::Chart(context.read_chart(&path)?),
            FolderContent::Kustomization => {
                let edits = context.read_kustomize()?;
                DescribedJob::Kustomization { edits, generation: FileGeneration::Never }
            }
            FolderContent::Files => {
                DescribedJob::Kustomization { edits: Map::new(), generation: context.read_directory()? }
            }
        };
        Ok((path, job))
    }
}

/// The sources of an Application whose `spec` is at a pointer, with their pointers.
fn list_sources<'s>(spec: &'s Value, at: &str) -> Vec<(String, &'s Value)> {
    match spec.get("sources").and_then(Value::as_array).filter(|all| !all.is_empty()) {
        Some(all) => {
            all.iter().enumerate().map(|(index, one)| (format!("{at}/sources/{index}"), one)).collect()
        }
        None => spec.get("source").map(|one| (format!("{at}/source"), one)).into_iter().collect(),
    }
}

/// A source of an Application.
struct ApplicationSource<'s> {
    /// The name of the Application.
    name: &'s str,
    /// The namespace of its destination.
    namespace: &'s str,
    /// The names by which other sources are referred to.
    names: &'s BTreeSet<&'s str>,
    source: &'s Value,
    /// Where it is in the object.
    pointer: &'s str,
}

impl ApplicationSource<'_> {
    fn refuse_unknown(&self, key: &str, known: &[&str]) -> Result<(), DescriptionError> {
        let settings = read_map(self.source.get(key));
        match settings.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(DescriptionError::new(
                &format!("{}/{key}/{name}", self.pointer),
                format!("federate does not carry out `{key}.{name}`"),
            )),
            None => Ok(()),
        }
    }

    fn read_chart(&self, path: &str) -> Result<DescribedChart, DescriptionError> {
        self.refuse_unknown("helm", &HELM_KEYS)?;
        let helm = self.source.get("helm").unwrap_or(&Value::Null);
        let at = format!("{}/helm", self.pointer);
        let mark = if helm.get("ignoreMissingValueFiles") == Some(&Value::Bool(true)) { "?" } else { "" };
        let mut values = Vec::new();
        for (index, file) in list_texts(helm.get("valueFiles")).iter().enumerate() {
            let pointer = format!("{at}/valueFiles/{index}");
            values.push(self.resolve_values(path, file, &pointer)? + mark);
        }
        let mut set = Map::new();
        if let Some(map) = helm.get("valuesObject").and_then(Value::as_object) {
            set.clone_from(map);
        } else {
            let text = field_text(helm, "values");
            let document = federate_yaml::read_stream(text.as_bytes()).documents.pop();
            merge_maps(&mut set, &read_map(document.map(|document| document.value).as_ref()));
        }
        for (index, parameter) in
            helm.get("parameters").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let is_text = parameter.get("forceString") == Some(&Value::Bool(true));
            set_parameter(&mut set, field_text(parameter, "name"), field_text(parameter, "value"), is_text)
                .map_err(|why| DescriptionError::new(&format!("{at}/parameters/{index}"), why))?;
        }
        let own = |key: &str, default: &str| match field_text(helm, key) {
            "" => default.to_owned(),
            text => text.to_owned(),
        };
        Ok(DescribedChart {
            release: own("releaseName", self.name),
            namespace: own("namespace", self.namespace),
            values,
            set,
            skips_crds: helm.get("skipCrds") == Some(&Value::Bool(true)),
            replaces_values: false,
        })
    }

    /// The path in the repo of a values file.
    fn resolve_values(&self, chart: &str, file: &str, pointer: &str) -> Result<String, DescriptionError> {
        if file.contains("://") {
            return Err(DescriptionError::new(pointer, format!("the values file `{file}` is a URL"))
                .with_help("commit the file to the repo: values are never fetched"));
        }
        let path = match file.strip_prefix('$').and_then(|rest| rest.split_once('/')) {
            Some((name, path)) if self.names.contains(name) => path.to_owned(),
            Some((name, _)) => {
                return Err(DescriptionError::new(pointer, format!("no source has the name `{name}`")));
            }
            None if file.starts_with('/') => file.trim_start_matches('/').to_owned(),
            None => format!("{chart}/{file}"),
        };
        normalize_path(&path).map_err(|_| {
            DescriptionError::new(pointer, format!("the values file `{file}` is outside of the repo"))
        })
    }

    fn read_kustomize(&self) -> Result<Map<String, Value>, DescriptionError> {
        self.refuse_unknown("kustomize", &KUSTOMIZE_KEYS)?;
        let kustomize = read_map(self.source.get("kustomize"));
        let mut edits = Map::new();
        for key in ["namePrefix", "nameSuffix", "namespace", "patches", "components", "commonAnnotations"] {
            edits.extend(kustomize.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        let images: Vec<Value> =
            list_texts(kustomize.get("images")).iter().map(|image| read_image(image)).collect();
        if !images.is_empty() {
            edits.insert("images".to_owned(), images.into());
        }
        if let Some(replicas) = kustomize.get("replicas").and_then(Value::as_array) {
            let replicas = replicas.iter().map(|one| {
                let count = one.get("count").cloned().unwrap_or_default();
                let count =
                    count.as_str().and_then(|text| text.parse::<u32>().ok()).map_or(count, Value::from);
                json!({"name": field_text(one, "name"), "count": count})
            });
            edits.insert("replicas".to_owned(), replicas.collect());
        }
        if let Some(labels) = kustomize.get("commonLabels").filter(|labels| labels.is_object()) {
            if kustomize.get("labelWithoutSelector") == Some(&Value::Bool(true)) {
                let templates = kustomize.get("labelIncludeTemplates") == Some(&Value::Bool(true));
                edits.insert("labels".to_owned(), json!([{"pairs": labels, "includeTemplates": templates}]));
            } else {
                edits.insert("commonLabels".to_owned(), labels.clone());
            }
        }
        Ok(edits)
    }

    fn read_directory(&self) -> Result<FileGeneration, DescriptionError> {
        self.refuse_unknown("directory", &["recurse"])?;
        let recurses = self.source.pointer("/directory/recurse") == Some(&Value::Bool(true));
        Ok(if recurses { FileGeneration::AllFiles } else { FileGeneration::Files })
    }
}

/// An image as `kustomize edit set image` reads it: `NAME=NEW:TAG`, with a tag or a digest, and either name may be missing.
fn read_image(text: &str) -> Value {
    let (name, new) = text.split_once('=').unwrap_or((text, text));
    let (new, digest) = new.split_once('@').map_or((new, None), |(new, digest)| (new, Some(digest)));
    let tagged = new.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
    let (new, tag) = tagged.map_or((new, None), |(new, tag)| (new, Some(tag)));
    let name = if text.contains('=') { name } else { new };
    let mut image = json!({ "name": name });
    if new != name && new != "*" {
        image["newName"] = new.into();
    }
    if let Some(digest) = digest {
        image["digest"] = digest.into();
    } else if let Some(tag) = tag {
        image["newTag"] = tag.into();
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read_as_kustomize_does() {
        for (text, expected) in [
            ("nginx:1.2", json!({"name": "nginx", "newTag": "1.2"})),
            ("nginx=reg:5000/own:2", json!({"name": "nginx", "newName": "reg:5000/own", "newTag": "2"})),
            ("nginx=reg/own", json!({"name": "nginx", "newName": "reg/own"})),
            ("a/nginx@sha256:abc", json!({"name": "a/nginx", "digest": "sha256:abc"})),
        ] {
            assert_eq!(read_image(text), expected, "{text}");
        }
    }
}
