//! Objects of Argo CD as sources: `Application`, whose paths are read as those of this repo, and the Applications of an
//! `ApplicationSet`.
//!
//! Facts: the API `argoproj.io/v1alpha1`, and how Argo CD chooses a tool: what is set decides, and otherwise the folder, which is a
//! kustomization, a chart, or its YAML and JSON files.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_kubernetes::object::field_text;
use federate_kubernetes::{ClusterName, Object};

use super::clusters::SECRET_TYPE;
use super::reader::ArgoReader;
use crate::description::{
    BuildChanges, DescribedJob, DescribedSource, DescriptionError, DirectoryFiles, FolderContent,
    KustomizationRules, Note, inspect_folder, is_packaged_chart, list_texts, refuse_path,
};
use crate::flux::read_local_path;
use crate::remote_reference::{RemoteReference, read_argo_chart};
use federate_file_tree::{EntryKind, find_entry};

use environment::BuildEnvironment;
use overrides::{is_set, merge_overrides, reference_name, refuse_unknown};

mod environment;
mod helm;
mod kustomize;
mod overrides;
mod value_files;

/// Whether an object describes sources.
pub fn describes_source(object: &Object) -> bool {
    object.id.group() == "argoproj.io" && matches!(object.id.kind.as_str(), "Application" | "ApplicationSet")
}

/// Whether an object tells the controllers of Argo CD something that no cluster needs: a Secret with a cluster and its credentials, or
/// a ConfigMap that says where a generator finds decisions.
pub fn is_controller_setting(object: &Object) -> bool {
    match object.id.kind.as_str() {
        "Secret" => object.label(SECRET_TYPE.0) == Some(SECRET_TYPE.1),
        "ConfigMap" => {
            let has = |key: &str| object.value_at(&["data", key]).is_some();
            has("matchKey") && has("kind") && has("apiVersion")
        }
        _ => false,
    }
}

impl ArgoReader<'_> {
    /// The sources of an Application for its clusters.
    pub(super) fn read_application(
        &self,
        name: &str,
        spec: &Value,
        clusters: &BTreeSet<ClusterName>,
        at: &str,
        notes: &mut Vec<Note>,
    ) -> Result<Vec<DescribedSource>, DescriptionError> {
        let destination = spec.get("destination").unwrap_or(&Value::Null);
        let namespace = field_text(destination, "namespace");
        let sources = list_sources(spec, at);
        if sources.is_empty() {
            return Err(DescriptionError::new(at, "it has no source"));
        }
        let names = sources.iter().map(|(_, source)| reference_name(source));
        let names = ReferenceNames {
            all: names.filter(|name| !name.is_empty()).collect(),
            remote: self.list_remote_names(&sources),
        };
        let mut described = Vec::new();
        for (pointer, source) in &sources {
            let chart = field_text(source, "chart");
            if chart.is_empty() && field_text(source, "path").is_empty() && !reference_name(source).is_empty()
            {
                continue;
            }
            let environment = BuildEnvironment {
                name,
                namespace,
                project: field_text(spec, "project"),
                path: field_text(source, "path"),
                repo_url: field_text(source, "repoURL"),
                target_revision: field_text(source, "targetRevision"),
            };
            let vendored = match chart {
                "" => self.find_remote_folder(source, pointer)?,
                _ => Some(self.vendored.find(&read_argo_chart(source, pointer)?, pointer)?),
            };
            let (path, job) = self.read_source(environment, vendored, &names, source, pointer, notes)?;
            described.push(DescribedSource {
                path,
                job,
                clusters: Some(clusters.clone()),
                unknown_destination: None,
                kube_config: None,
                namespace: Some(if namespace.is_empty() { "default" } else { namespace }.to_owned()),
                changes: BuildChanges::default(),
                application: Some(name.to_owned()),
                unknown: Vec::new(),
            });
        }
        Ok(described)
    }

    /// The copy of the folder of a source in another git repository than this repo; `None` if it is in this one.
    fn find_remote_folder(&self, source: &Value, pointer: &str) -> Result<Option<String>, DescriptionError> {
        let at = format!("{pointer}/repoURL");
        let (address, path) =
            (field_text(source, "repoURL"), read_local_path(field_text(source, "path"), &at)?);
        if !self.own.is_some_and(|own| own.is_remote(address, || find_entry(self.tree, &path).is_some())) {
            return Ok(None);
        }
        let reference = RemoteReference::new_base(address, &path, field_text(source, "targetRevision"))
            .map_err(|error| DescriptionError { pointer: at.clone(), ..error })?;
        self.vendored.find(&reference, &at).map(Some)
    }

    /// The names of sources that are in other git repositories than this repo.
    fn list_remote_names<'v>(&self, sources: &[(String, &'v Value)]) -> BTreeSet<&'v str> {
        let is_remote = |source: &Value| {
            let address = field_text(source, "repoURL");
            self.own.is_some_and(|own| own.is_remote(address, || true))
        };
        let named =
            sources.iter().filter(|(_, source)| !reference_name(source).is_empty() && is_remote(source));
        named.map(|(_, source)| reference_name(source)).collect()
    }

    /// The charts in repositories of charts that an object names.
    ///
    /// # Errors
    ///
    /// If an `ApplicationSet` is refused, or a chart is not named in a valid form.
    pub fn list_charts(&self, object: &Object) -> Result<Vec<RemoteReference>, DescriptionError> {
        let (applications, at) = if object.id.kind == "Application" {
            (vec![object.body.clone()], "/spec")
        } else {
            let generated = self.generate_applications(object)?.applications;
            (generated.into_iter().map(|one| one.body).collect(), "/spec/template/spec")
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

    /// Reads a source: the path, and what is built of it. `vendored` is the folder of a chart of a repository of charts, or of the
    /// copy of a folder of another git repository.
    fn read_source<'s>(
        &self,
        environment: BuildEnvironment<'s>,
        vendored: Option<String>,
        names: &'s ReferenceNames<'s>,
        source: &Value,
        at: &'s str,
        notes: &mut Vec<Note>,
    ) -> Result<(String, DescribedJob), DescriptionError> {
        let pointer = format!("{at}/path");
        let written = read_local_path(environment.path, &pointer)?;
        // What begins with `/` begins at the root of the repository, of which the copy keeps the folders.
        let (path, root) = match vendored {
            Some(path) => {
                let root = path.strip_suffix(&written).unwrap_or(&path).trim_end_matches('/').to_owned();
                (path, root)
            }
            None => (written, String::new()),
        };
        let is_package =
            is_packaged_chart(&path) && matches!(find_entry(self.tree, &path), Some(EntryKind::File));
        let content = if is_package { None } else { inspect_folder(self.tree, &path) };
        if content.is_none() && !is_package {
            return Err(refuse_path(self.tree, &pointer, &path, "a folder"));
        }
        let source = match content {
            Some(_) => merge_overrides(self.tree, &path, environment.name, source)
                .map_err(|error| DescriptionError { pointer: pointer.clone(), ..error })?,
            None => source.clone(),
        };
        let context = ApplicationSource { environment, names, root, source, pointer: at };
        let job = match context.choose_tool(content)? {
            SourceTool::Helm => {
                context.note_unknown_references(notes);
                DescribedJob::Chart(Box::new(context.read_chart(self.tree, &path)?))
            }
            SourceTool::Kustomize => DescribedJob::Kustomization {
                edits: context.read_kustomize(self.tree, &path)?,
                rules: KustomizationRules::Kustomize,
            },
            SourceTool::Directory => DescribedJob::Directory(context.read_directory()?),
        };
        Ok((path, job))
    }
}

/// The sources of an Application, with where they are.
pub(crate) fn list_sources<'v>(spec: &'v Value, at: &str) -> Vec<(String, &'v Value)> {
    if let Some(dry) = spec.pointer("/sourceHydrator/drySource") {
        return vec![(format!("{at}/sourceHydrator/drySource"), dry)];
    }
    let several = spec.get("sources").and_then(Value::as_array).filter(|all| !all.is_empty());
    match several {
        Some(all) => {
            all.iter().enumerate().map(|(index, one)| (format!("{at}/sources/{index}"), one)).collect()
        }
        None => spec.get("source").map(|one| (format!("{at}/source"), one)).into_iter().collect(),
    }
}

/// What builds a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceTool {
    Helm,
    Kustomize,
    Directory,
}

/// The names by which the sources of an Application are referred to.
struct ReferenceNames<'s> {
    all: BTreeSet<&'s str>,
    /// Those among them of sources in other git repositories.
    remote: BTreeSet<&'s str>,
}

/// A source of an Application.
struct ApplicationSource<'s> {
    environment: BuildEnvironment<'s>,
    names: &'s ReferenceNames<'s>,
    /// The folder with the root of its repository.
    root: String,
    /// Its settings, with those of files in its folder.
    source: Value,
    /// Where it is in the object.
    pointer: &'s str,
}

impl ApplicationSource<'_> {
    /// What builds the source: what is set, or what the folder holds. A packaged chart has no content.
    fn choose_tool(&self, content: Option<FolderContent>) -> Result<SourceTool, DescriptionError> {
        let at = self.pointer;
        let mut set = ["helm", "kustomize", "directory", "plugin"]
            .into_iter()
            .filter(|tool| is_set(&self.source, tool));
        let (first, second) = (set.next(), set.next());
        if let (Some(first), Some(second)) = (first, second) {
            let why = format!("it has both `{first}` and `{second}`, and only one tool builds a source");
            return Err(DescriptionError::new(&format!("{at}/{second}"), why));
        }
        Ok(match (first, content) {
            (Some("plugin"), _) => {
                return Err(DescriptionError::new(&format!("{at}/plugin"), "federate runs no plugins")
                    .with_help("commit the output of the plugin in place of it"));
            }
            (Some("helm"), _) | (None, None) => SourceTool::Helm,
            (Some("kustomize"), _) => SourceTool::Kustomize,
            (Some(_), _) => SourceTool::Directory,
            (None, Some(content)) if content.has_kustomization() => SourceTool::Kustomize,
            (None, Some(content)) if content.has_chart() => SourceTool::Helm,
            (None, Some(_)) => SourceTool::Directory,
        })
    }

    /// Notes names of sources in values files that no source has: Argo CD takes them for variables, which are empty.
    fn note_unknown_references(&self, notes: &mut Vec<Note>) {
        for (index, file) in list_texts(self.source.pointer("/helm/valueFiles")).iter().enumerate() {
            let first = file.split('/').next().and_then(|first| first.strip_prefix('$'));
            let name =
                first.filter(|name| !self.names.all.contains(name) && !name.starts_with("ARGOCD_APP_"));
            if let Some(name) = name.filter(|name| !name.starts_with('{')) {
                let message = format!(
                    "no source has the name `{name}`, so that `{file}` is a path from the root of the repo, as for Argo CD"
                );
                let pointer = format!("{}/helm/valueFiles/{index}", self.pointer);
                notes.push(Note::field_without_effect(&pointer, message));
            }
        }
    }

    fn read_directory(&self) -> Result<DirectoryFiles, DescriptionError> {
        let known = ["recurse", "include", "exclude", "jsonnet", "disableExtensionFilter"];
        refuse_unknown(&self.source, "directory", &known, self.pointer)?;
        let directory = self.source.get("directory").unwrap_or(&Value::Null);
        let is_true = |key: &str| directory.get(key) == Some(&Value::Bool(true));
        Ok(DirectoryFiles {
            is_recursive: is_true("recurse"),
            include: field_text(directory, "include").to_owned(),
            exclude: field_text(directory, "exclude").to_owned(),
            has_any_extension: is_true("disableExtensionFilter"),
        })
    }
}
