//! The Applications of an `ApplicationSet`: its generators over the clusters of Argo CD, the files of the repo and other objects, and
//! its template and patch filled with what they give.
//!
//! ```text
//! generators ─► Parameters ─► template ─► patch ─► checks ─► GeneratedApplications
//!  │  └ combination (matrix, merge)  └ SetTemplateEngine
//!  ├ repo_paths (git) ─► path_pattern
//!  └ decisions (clusterDecisionResource)
//! ```
//!
//! Facts: the API `argoproj.io/v1alpha1` and what Argo CD's controller does. An error of any generator, template or patch stops the
//! whole set. After that each Application is checked alone, and left out if it has no name, shares its name with another, has a
//! project that does not exist, or a destination that is not a cluster of Argo CD.

mod combination;
mod decisions;
mod generators;
mod parameters;
mod patch;
mod path_pattern;
mod repo_paths;
mod selector;
mod template;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use federate_kubernetes::object::pointer_text;
use federate_kubernetes::{Object, Severity, work};

use super::application_type::{APPLICATION, normalize_application};
use super::reader::{ArgoReader, name_applications};
use crate::description::{DescriptionError, Note};
use generators::{Generation, is_known_kind, list_kinds, read_list};
use parameters::{Parameters, count_value_bytes};
use patch::{PATCH_POINTER, patch_application, read_patch};
use template::SetTemplateEngine;
pub use usage::GenerationUsage;

/// The finalizer that Argo CD gives to generated Applications, whose objects are then deleted with them.
const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// The fields of a set that are read.
const READ_FIELDS: [&str; 5] = ["generators", "goTemplate", "goTemplateOptions", "template", "templatePatch"];

/// The fields of a set that change nothing about the Applications that it generates: how they are synced, updated and compared.
/// Selectors of nested generators always apply.
const OTHER_FIELDS: [&str; 5] =
    ["syncPolicy", "strategy", "preservedFields", "applyNestedSelectors", "ignoreApplicationDifferences"];

/// The Applications that an `ApplicationSet` generates.
#[derive(Clone, Debug, Default)]
pub struct GeneratedApplications {
    /// The Applications, by their names, each with its metadata, finalizers and spec. Their place is that of the set.
    pub applications: Vec<Object>,
    /// Those that Argo CD leaves out, by their names.
    pub omitted: Vec<OmittedApplication>,
    /// What is worth knowing about the set beside these, such as fields that do not exist.
    notes: Vec<Note>,
}

/// An Application that Argo CD leaves out of those of its set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OmittedApplication {
    /// The name, which may be empty.
    pub name: String,
    /// Why it is left out.
    pub reason: OmissionReason,
    /// The reason in a sentence without its first capital and its last full stop.
    pub why: String,
}

/// Why Argo CD leaves an Application out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OmissionReason {
    /// It has no name.
    NoName,
    /// Another Application of the set has its name.
    DuplicateName,
    /// Its project does not exist.
    NoProject,
    /// Its destination is not a cluster of Argo CD.
    Destination,
}

impl GeneratedApplications {
    /// The notes about the set: a warning for each reason for which Applications are left out, and what else is worth knowing.
    pub(super) fn list_notes(&self) -> Vec<Note> {
        let mut notes = self.notes.clone();
        let mut reasons: BTreeMap<(OmissionReason, &str), Vec<String>> = BTreeMap::new();
        for omitted in &self.omitted {
            reasons.entry((omitted.reason, &omitted.why)).or_default().push(omitted.name.clone());
        }
        for ((reason, why), names) in reasons {
            let pointer = match reason {
                OmissionReason::NoName | OmissionReason::DuplicateName => "/spec/template/metadata/name",
                OmissionReason::NoProject => "/spec/template/spec/project",
                OmissionReason::Destination => "/spec/template/spec/destination",
            };
            let message = format!("Argo CD does not create the {}: {why}", name_applications(&names));
            notes.push(warn(pointer, message));
        }
        notes
    }
}

/// A warning about a set.
fn warn(pointer: &str, message: String) -> Note {
    Note {
        severity: Severity::Warning,
        code: "ignored-application",
        pointer: pointer.to_owned(),
        message,
        help: None,
        fields: None,
    }
}

/// Generates the Applications of a set.
pub(super) fn generate_applications(
    reader: &ArgoReader<'_>,
    set: &Object,
) -> Result<GeneratedApplications, DescriptionError> {
    let spec = set.body.get("spec").unwrap_or(&Value::Null);
    let mut generated =
        GeneratedApplications { notes: list_unknown_fields(spec), ..GeneratedApplications::default() };
    let generation = Generation { reader, set, engine: SetTemplateEngine::read_spec(spec) };
    let template = ApplicationTemplate::read(spec)?;
    let mut unknown = Vec::new();
    let mut bodies = Vec::new();
    for (index, item) in read_list(spec, "generators", "/spec")?.iter().enumerate() {
        let pointer = format!("/spec/generators/{index}");
        let given = generation.run_item(item, &Parameters::new(), &pointer, 0)?;
        if given.is_empty() {
            generated.notes.push(describe_unknown_item(item, &pointer));
        }
        for given in given {
            reader.usage.charge_applications(given.rows.len(), &pointer)?;
            let own = item.pointer(&format!("/{}/template", given.kind));
            let template = template.merge_own(own, &format!("{pointer}/{}/template", given.kind))?;
            for row in &given.rows {
                bodies.push(template.fill(&generation, row, &mut unknown)?);
            }
        }
    }
    unknown.sort();
    unknown.dedup();
    generated.notes.extend(unknown.iter().take(10).map(|pointer| {
        warn(
            PATCH_POINTER,
            format!(
                "an Application has no field `{}`, so the patch of it has no effect",
                pointer.trim_start_matches('/')
            ),
        )
    }));
    check_applications(reader, set, bodies, &mut generated);
    Ok(generated)
}

/// The fields of the spec that do not exist.
fn list_unknown_fields(spec: &Value) -> Vec<Note> {
    let fields = spec.as_object().into_iter().flatten().map(|(key, _)| key);
    let unknown =
        fields.filter(|key| !READ_FIELDS.contains(&key.as_str()) && !OTHER_FIELDS.contains(&key.as_str()));
    unknown
        .map(|key| {
            warn(
                &format!("/spec/{key}"),
                format!("an ApplicationSet has no field `spec.{key}`, so it has no effect"),
            )
        })
        .collect()
}

/// Why an item of the generators gives nothing.
fn describe_unknown_item(item: &Value, pointer: &str) -> Note {
    let kinds = item.as_object().into_iter().flat_map(list_kinds);
    let unknown: Vec<String> =
        kinds.filter(|kind| !is_known_kind(kind)).map(|kind| format!("`{kind}`")).collect();
    let message = match unknown.as_slice() {
        [] => "the generator is empty, so it generates nothing".to_owned(),
        names => format!("Argo CD does not know the generator {}, so it generates nothing", names.join(", ")),
    };
    warn(pointer, message)
}

/// The template of the Applications of a set.
#[derive(Clone, Debug)]
struct ApplicationTemplate<'s> {
    template: Value,
    pointer: String,
    patch: Option<&'s str>,
    /// Whether Applications without a finalizer get that of Argo CD.
    adds_finalizer: bool,
}

impl<'s> ApplicationTemplate<'s> {
    fn read(spec: &'s Value) -> Result<Self, DescriptionError> {
        let template = match spec.get("template") {
            None | Some(Value::Null) => json!({}),
            Some(template) => template.clone(),
        };
        let preserves = spec.pointer("/syncPolicy/preserveResourcesOnDeletion") == Some(&Value::Bool(true));
        let pointer = "/spec/template".to_owned();
        check_type(&template, &pointer)?;
        Ok(Self { template, pointer, patch: read_patch(spec)?, adds_finalizer: !preserves })
    }

    /// The template with that of a generator, whose fields win where they are not empty.
    fn merge_own(&self, own: Option<&Value>, pointer: &str) -> Result<Self, DescriptionError> {
        let Some(own) = own.filter(|own| own.as_object().is_some_and(|map| !map.is_empty())) else {
            return Ok(self.clone());
        };
        check_type(own, pointer)?;
        let mut template = own.clone();
        APPLICATION.fill_empty(&mut template, &self.template);
        Ok(Self { template, pointer: pointer.to_owned(), ..self.clone() })
    }

    /// An Application: its metadata and spec. Without any parameter, it is the template as it is.
    fn fill(
        &self,
        generation: &Generation<'_>,
        row: &Parameters,
        unknown: &mut Vec<String>,
    ) -> Result<Value, DescriptionError> {
        let filler = generation.fill(row);
        let mut application;
        if row.is_empty() {
            application = self.template.clone();
        } else {
            application = filler.fill_value(&self.template, &self.pointer)?;
            check_type(&application, &self.pointer)?;
            let finalizers = application.pointer("/metadata/finalizers").and_then(Value::as_array);
            if self.adds_finalizer && finalizers.is_none_or(Vec::is_empty) {
                put_metadata(&mut application, "finalizers", json!([FINALIZER]));
            }
        }
        if let Some(patch) = self.patch {
            patch_application(&mut application, patch, &filler, unknown)?;
        }
        work::charge_value(&application);
        generation.charge_work(count_value_bytes(&application), &self.pointer)?;
        Ok(normalize_application(application))
    }
}

fn check_type(template: &Value, pointer: &str) -> Result<(), DescriptionError> {
    APPLICATION
        .check(template, pointer, &mut Vec::new())
        .map_err(|mismatch| DescriptionError::new(&mismatch.pointer, mismatch.why))
}

fn put_metadata(application: &mut Value, key: &str, value: Value) {
    let Value::Object(map) = application else { return };
    let metadata = map.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata[key] = value;
}

/// Leaves out what Argo CD leaves out, and makes objects of the others.
fn check_applications(
    reader: &ArgoReader<'_>,
    set: &Object,
    bodies: Vec<Value>,
    generated: &mut GeneratedApplications,
) {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for body in &bodies {
        *names.entry(pointer_text(body, "/metadata/name").to_owned()).or_default() += 1;
    }
    let mut omitted = BTreeSet::new();
    for body in bodies {
        let name = pointer_text(&body, "/metadata/name").to_owned();
        let is_unique = names.get(&name) == Some(&1);
        match find_omission(reader, set, &body, &name, is_unique) {
            Some((reason, why)) => drop(omitted.insert(OmittedApplication { name, reason, why })),
            None => generated.applications.push(make_object(set, body)),
        }
    }
    generated.omitted.extend(omitted);
    generated.applications.sort_by(|a, b| a.id.name.cmp(&b.id.name));
}

/// Why an Application is left out.
fn find_omission(
    reader: &ArgoReader<'_>,
    set: &Object,
    body: &Value,
    name: &str,
    is_unique: bool,
) -> Option<(OmissionReason, String)> {
    if name.is_empty() {
        return Some((OmissionReason::NoName, "it has no name".to_owned()));
    }
    if !is_unique {
        return Some((
            OmissionReason::DuplicateName,
            "several Applications of the set have that name".to_owned(),
        ));
    }
    let spec = body.get("spec").unwrap_or(&Value::Null);
    if !reader.has_project(spec) {
        let project = pointer_text(spec, "/project");
        return Some((OmissionReason::NoProject, format!("its project `{project}` does not exist")));
    }
    let namespace = set.id.namespace.as_deref().unwrap_or_default();
    let checked =
        reader.clusters.check_destination(spec.get("destination").unwrap_or(&Value::Null), namespace);
    checked.err().map(|error| (OmissionReason::Destination, error.why))
}

/// The object of an Application: in the namespace of its set, whatever its template says.
fn make_object(set: &Object, mut body: Value) -> Object {
    let metadata = body.get("metadata").and_then(Value::as_object);
    let mut kept = Map::new();
    for key in ["name", "labels", "annotations", "finalizers"] {
        kept.extend(
            metadata.and_then(|metadata| metadata.get(key)).map(|value| (key.to_owned(), value.clone())),
        );
    }
    if let Some(namespace) = &set.id.namespace {
        kept.insert("namespace".to_owned(), namespace.as_str().into());
    }
    let spec = body.get_mut("spec").map(Value::take).unwrap_or_default();
    let body =
        json!({"apiVersion": set.id.api_version, "kind": "Application", "metadata": kept, "spec": spec});
    Object { origin: set.origin.clone(), ..Object::from_manifest(body, "") }
}
