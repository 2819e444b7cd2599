//! Reads objects of Argo CD with what the repo knows beside them: its files, clusters and other objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use federate_file_tree::CachedTree;
use federate_kubernetes::object::{field_text, pointer_text};
use federate_kubernetes::{Cluster, ClusterName, Object, Severity};

use super::application_set::{GeneratedApplications, GenerationUsage, generate_applications};
use super::application_type::APPLICATION;
use super::clusters::{ArgoClusters, DestinationError};
use crate::description::{DescribedSource, Description, DescriptionError, Note};
use crate::known_fields::{FieldWithoutEffect, note_unknown, note_without_effect};
use crate::own_repository::OwnRepository;
use crate::vendored::VendoredSources;

/// What a person sets about Argo CD.
#[derive(Clone, Debug, Default)]
pub struct ArgoSettings {
    /// The cluster of the inventory in which Argo CD runs: what `in-cluster` and `https://kubernetes.default.svc` stand for.
    pub cluster: Option<ClusterName>,
    /// Whether the controllers run with the new globbing of files of the generator `git`, which is off by default.
    pub new_file_globbing: bool,
    /// The names of the projects that exist; every project does if they are `None`.
    pub projects: Option<BTreeSet<String>>,
}

/// Decides a `Placement` of Open Cluster Management by its namespace and name: the clusters, in the order of its decisions. `None` if
/// there is no such placement, or it is not decided.
pub type PlacementDecisions<'f> = dyn Fn(&str, &str) -> Option<Vec<ClusterName>> + Sync + 'f;

/// The option of an Application by which Argo CD creates the namespace of its destination.
const CREATE_NAMESPACE: &str = "CreateNamespace=true";

/// The fields of the spec of Applications that change what happens in a cluster, and nothing here. Fields that only say when and how
/// Argo CD syncs are not among them: `project`, `info`, `revisionHistoryLimit`, and the rest of `syncPolicy`.
const FIELDS_WITHOUT_EFFECT: [FieldWithoutEffect; 2] = [
    FieldWithoutEffect {
        pointer: "/ignoreDifferences",
        why: "all fields are compared: `drift.ignore` in federate.yaml leaves some out",
    },
    FieldWithoutEffect {
        pointer: "/syncPolicy/managedNamespaceMetadata",
        why: "a Namespace has the labels that the repo gives it",
    },
];

/// Reads objects of Argo CD for a repo with these clusters.
pub struct ArgoReader<'f> {
    /// The files of the repo.
    pub(super) tree: &'f CachedTree<'f>,
    /// The objects that generators look up.
    pub(super) objects: Vec<&'f Object>,
    /// The names of the Namespaces among them.
    namespaces: BTreeSet<&'f str>,
    pub(super) clusters: ArgoClusters,
    pub(super) settings: &'f ArgoSettings,
    /// What the `ApplicationSet`s that were read have taken.
    pub(super) usage: &'f GenerationUsage,
    /// The charts that are vendored.
    pub(super) vendored: &'f VendoredSources<'f>,
    pub(super) decisions: Option<&'f PlacementDecisions<'f>>,
    /// The addresses of this repo; by default, every repository is this one.
    pub(super) own: Option<&'f OwnRepository>,
}

impl<'f> ArgoReader<'f> {
    /// A reader for the files of a repo and the clusters of its inventory. Among `objects`, the Secrets of Argo CD's clusters, and the
    /// ConfigMaps and resources of `clusterDecisionResource` are looked up; `usage` counts the work of all sets.
    pub fn new(
        tree: &'f CachedTree<'f>,
        clusters: &[Cluster],
        objects: impl IntoIterator<Item = &'f Object>,
        settings: &'f ArgoSettings,
        usage: &'f GenerationUsage,
        vendored: &'f VendoredSources<'f>,
    ) -> Self {
        let objects: Vec<&Object> = objects.into_iter().collect();
        let clusters = ArgoClusters::from_objects(objects.iter().copied(), clusters, settings);
        let namespaces = objects.iter().filter(|object| object.id.kind == "Namespace");
        let namespaces = namespaces.map(|object| object.id.name.as_str()).collect();
        Self { tree, objects, namespaces, clusters, settings, usage, vendored, decisions: None, own: None }
    }

    /// Takes this cluster for the one in which Argo CD runs.
    pub fn run_in_cluster(&mut self, cluster: Option<ClusterName>) {
        self.clusters.local = cluster;
    }

    /// Asks `decisions` for the decisions of placements of Open Cluster Management whose `PlacementDecision`s are not among the objects.
    #[must_use]
    pub fn with_decisions(self, decisions: &'f PlacementDecisions<'f>) -> Self {
        Self { decisions: Some(decisions), ..self }
    }

    /// Takes only repositories at these addresses for this repo.
    #[must_use]
    pub fn with_own_repository(self, own: &'f OwnRepository) -> Self {
        Self { own: Some(own), ..self }
    }

    /// The sources that an object describes.
    ///
    /// # Errors
    ///
    /// If an Application cannot be built, or a generator, template or patch of a set is refused, which stops the whole set. A
    /// destination of one of its Applications that is no cluster of the inventory is a note.
    pub fn read_object(&self, object: &Object) -> Result<Description, DescriptionError> {
        let namespace = object.id.namespace.as_deref().unwrap_or_default();
        if object.id.kind == "Application" {
            let spec = object.body.get("spec").unwrap_or(&Value::Null);
            let error_of = |error: DestinationError| DescriptionError {
                pointer: "/spec/destination".to_owned(),
                why: error.why,
                help: error.help.map(str::to_owned),
                is_about_reference: false,
            };
            let (clusters, unknown) = match self.find_clusters(spec, namespace) {
                Ok(clusters) => (clusters, None),
                Err(error) if error.is_own_cluster => (BTreeSet::new(), Some(error_of(error))),
                Err(error) => return Err(error_of(error)),
            };
            let mut notes = Vec::new();
            self.note_application_fields(object, &object.body, "", &mut notes);
            let mut sources = self.read_application(&object.id.name, spec, &clusters, "/spec", &mut notes)?;
            for source in sources.iter_mut().filter(|_| unknown.is_some()) {
                source.clusters = None;
                source.unknown_destination.clone_from(&unknown);
            }
            return Ok(Description { sources, notes });
        }
        let generated = self.generate_applications(object)?;
        let mut description = Description { sources: Vec::new(), notes: generated.list_notes() };
        for application in &generated.applications {
            self.note_application_fields(object, &application.body, "/spec/template", &mut description.notes);
        }
        let mut unplaced: BTreeMap<(String, Option<&str>), Vec<String>> = BTreeMap::new();
        let has_others = generated.applications.iter().any(|application| {
            let spec = application.body.get("spec").unwrap_or(&Value::Null);
            self.find_clusters(spec, namespace).is_ok()
        });
        for application in &generated.applications {
            let name = pointer_text(&application.body, "/metadata/name");
            let spec = application.body.get("spec").unwrap_or(&Value::Null);
            match self.find_clusters(spec, namespace) {
                Ok(clusters) => {
                    let notes = &mut description.notes;
                    let all = self.read_application(name, spec, &clusters, "/spec/template/spec", notes)?;
                    description.sources.extend(all);
                }
                // One beside others is the row of that cluster itself.
                Err(error) if error.is_own_cluster && !has_others => {
                    let notes = &mut description.notes;
                    let all =
                        self.read_application(name, spec, &BTreeSet::new(), "/spec/template/spec", notes)?;
                    let unknown = DescriptionError {
                        pointer: "/spec/template/spec/destination".to_owned(),
                        why: format!("the Application `{name}`: {}", error.why),
                        help: error.help.map(str::to_owned),
                        is_about_reference: false,
                    };
                    description.sources.extend(all.into_iter().map(|source| DescribedSource {
                        clusters: None,
                        unknown_destination: Some(unknown.clone()),
                        ..source
                    }));
                }
                Err(error) => unplaced.entry((error.why, error.help)).or_default().push(name.to_owned()),
            }
        }
        let mut known = BTreeSet::new();
        description.notes.retain(|note| known.insert((note.pointer.clone(), note.message.clone())));
        for ((why, help), names) in unplaced {
            let why = why.strip_prefix("its ").unwrap_or(&why);
            description.notes.push(Note {
                severity: Severity::Error,
                code: "build-failed",
                pointer: "/spec/template/spec/destination".to_owned(),
                message: format!(
                    "{} of {} cannot be placed: the {why}",
                    name_applications(&names),
                    object.id
                ),
                help: help.map(str::to_owned),
                fields: None,
            });
        }
        Ok(description)
    }

    /// The Applications that an `ApplicationSet` generates, and those that Argo CD leaves out of them.
    ///
    /// # Errors
    ///
    /// If a generator, template or patch is refused by Argo CD or by federate, which stops the whole set.
    pub fn generate_applications(&self, set: &Object) -> Result<GeneratedApplications, DescriptionError> {
        generate_applications(self, set)
    }

    /// Notes the fields of an Application that have no effect here, and those that it does not have. `at` is where it is in the
    /// object.
    fn note_application_fields(&self, object: &Object, application: &Value, at: &str, notes: &mut Vec<Note>) {
        let spec = application.get("spec").unwrap_or(&Value::Null);
        let is_set = |pointer: &str| match spec.pointer(pointer) {
            None | Some(Value::Null) => false,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        let found = FIELDS_WITHOUT_EFFECT.iter().filter(|field| is_set(field.pointer));
        let mut found: Vec<(String, String)> = found
            .map(|field| {
                let name = field.pointer.trim_start_matches('/').replace('/', ".");
                (format!("{at}/spec{}", field.pointer), format!("`{name}` ({})", field.why))
            })
            .collect();
        if self.creates_namespace(spec) {
            let pointer = format!("{at}/spec/syncPolicy/syncOptions");
            found.push((
                pointer,
                format!("`{CREATE_NAMESPACE}` (no such Namespace is written: commit one, unless another source builds it)"),
            ));
        }
        let found: Vec<(&str, String)> =
            found.iter().map(|(pointer, text)| (pointer.as_str(), text.clone())).collect();
        note_without_effect(object, &found, notes);
        if at.is_empty() {
            let mut unknown = Vec::new();
            // What has another type is an error where it is read.
            let _ = APPLICATION.check(application, at, &mut unknown);
            note_unknown(object, &unknown, notes);
        }
    }

    /// Whether Argo CD creates the namespace of an Application, which the repo does not have.
    fn creates_namespace(&self, spec: &Value) -> bool {
        let options = spec.pointer("/syncPolicy/syncOptions").and_then(Value::as_array).into_iter().flatten();
        let namespace = pointer_text(spec, "/destination/namespace");
        options.into_iter().any(|option| option.as_str() == Some(CREATE_NAMESPACE))
            && !matches!(namespace, "" | "default" | "kube-system" | "kube-public")
            && !self.namespaces.contains(namespace)
    }

    /// The clusters of the destination of an Application.
    fn find_clusters(
        &self,
        spec: &Value,
        namespace: &str,
    ) -> Result<BTreeSet<ClusterName>, DestinationError> {
        let destination = spec.get("destination").unwrap_or(&Value::Null);
        Ok([self.clusters.find_destination(destination, namespace)?].into())
    }

    /// Whether a project exists, as far as it is known.
    pub(super) fn has_project(&self, spec: &Value) -> bool {
        let project = field_text(spec, "project");
        self.settings.projects.as_ref().is_none_or(|projects| projects.contains(project))
    }
}

/// The names of Applications in a sentence: the first of many.
pub(super) fn name_applications(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let noun = if names.len() == 1 { "Application" } else { "Applications" };
    match names.len().saturating_sub(SHOWN) {
        0 => format!("{noun} {}", shown.join(", ")),
        more => format!("{noun} {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
