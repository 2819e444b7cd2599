//! Objects of Flux as sources: `Kustomization` and `HelmRelease`, whose paths are read as those of this repo.
//!
//! Facts: the APIs `kustomize.toolkit.fluxcd.io/v1` and `helm.toolkit.fluxcd.io/v2`.

use serde_json::Value;

use federate_file_tree::{CachedTree, normalize_path};
use federate_kubernetes::Object;
use federate_kubernetes::object::{field_text, pointer_text};

use crate::description::{Description, DescriptionError, Note};
use crate::remote_reference::FluxCharts;
use crate::vendored::VendoredSources;
use artifacts::Artifacts;
use references::ReferencedObjects;

mod artifacts;
mod glob;
mod helm_release;
mod kustomization;
mod references;
pub(crate) mod substitution;

/// Whether an object describes a source.
pub fn describes_source(object: &Object) -> bool {
    matches!(
        (object.id.group(), object.id.kind.as_str()),
        ("kustomize.toolkit.fluxcd.io", "Kustomization") | ("helm.toolkit.fluxcd.io", "HelmRelease")
    )
}

/// The names that the cluster of a `kubeConfig` of Flux may have, the likeliest first: that in the name of the Secret, as Cluster API
/// names it, and the namespace of the object, as where each cluster has one.
pub fn list_kubeconfig_names<'v>(kube_config: &'v Value, namespace: &'v str) -> Vec<&'v str> {
    let secret = pointer_text(kube_config, "/secretRef/name");
    let ends = ["-kubeconfig", "-kube-config"].into_iter().filter_map(|end| secret.strip_suffix(end));
    let starts = ["kubeconfig-", "kube-config-"].into_iter().filter_map(|start| secret.strip_prefix(start));
    let cluster = ends.chain(starts).next().unwrap_or(secret);
    [cluster, namespace].into_iter().filter(|name| !name.is_empty()).collect()
}

/// How the controllers of Flux are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluxSettings {
    /// Whether a variable without a value and a default is an error, as since kustomize-controller 1.9. Before, it was empty.
    pub has_strict_substitution: bool,
}

impl Default for FluxSettings {
    fn default() -> Self {
        Self { has_strict_substitution: true }
    }
}

/// Reads objects of Flux, beside the `ConfigMap`s and `Secret`s to which they refer.
pub struct FluxReader<'f> {
    tree: &'f CachedTree<'f>,
    references: ReferencedObjects<'f>,
    settings: FluxSettings,
    charts: FluxCharts<'f>,
    artifacts: Artifacts,
    vendored: &'f VendoredSources<'f>,
}

impl<'f> FluxReader<'f> {
    /// Reads objects of Flux beside these ones, to which they refer.
    pub fn new(
        tree: &'f CachedTree<'f>,
        objects: impl Iterator<Item = &'f Object> + Clone,
        settings: FluxSettings,
        vendored: &'f VendoredSources<'f>,
    ) -> Self {
        let charts = FluxCharts::new(objects.clone());
        let artifacts = Artifacts::from_objects(objects.clone());
        Self { tree, references: ReferencedObjects::new(objects), settings, charts, artifacts, vendored }
    }

    /// What an object describes.
    pub fn read_object(&self, object: &'f Object) -> Result<Description, DescriptionError> {
        let spec = object.body.get("spec").unwrap_or(&Value::Null);
        let mut notes = Vec::new();
        let source = if object.id.kind == "HelmRelease" {
            self.read_release(object, spec, &mut notes)?
        } else {
            self.read_kustomization(object, spec, &mut notes)?
        };
        Ok(Description { sources: vec![source], notes })
    }
}

/// A field that changes nothing of what is built, and what that means here.
struct FieldWithoutEffect {
    /// Where it is in the object, as a pointer.
    pointer: &'static str,
    /// Why it matters.
    why: &'static str,
}

/// The account with which Flux applies.
const SERVICE_ACCOUNT: FieldWithoutEffect = FieldWithoutEffect {
    pointer: "/spec/serviceAccountName",
    why: "no account of a cluster is used to build",
};

/// Whether Flux leaves the object alone.
const SUSPENDED: FieldWithoutEffect =
    FieldWithoutEffect { pointer: "/spec/suspend", why: "Flux does not reconcile it, but it is built here" };

/// The fields of a map that are carried out, or only say when and how Flux reconciles.
struct KnownMap {
    /// Where the map is in the object, as a pointer.
    pointer: &'static str,
    fields: &'static [&'static str],
}

/// The fields of a kind of objects.
struct KnownFields {
    maps: &'static [KnownMap],
    without_effect: &'static [FieldWithoutEffect],
}

impl KnownFields {
    /// Notes the fields that have no effect here, and those that are not known, once for an object.
    fn note_fields(&self, object: &Object, notes: &mut Vec<Note>) {
        let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        let found = self.without_effect.iter();
        let found: Vec<&FieldWithoutEffect> =
            found.filter(|field| object.body.pointer(field.pointer).is_some_and(is_set)).collect();
        if let Some(first) = found.first() {
            let name =
                |field: &&FieldWithoutEffect| format!("`{}` ({})", name_field(field.pointer), field.why);
            let all: Vec<String> = found.iter().map(name).collect();
            let message = format!("{} has fields without effect here: {}", object.id, all.join(", "));
            notes.push(Note::field_without_effect(first.pointer, message));
        }
        let unknown = self.list_unknown(object);
        if let Some(first) = unknown.first() {
            let all: Vec<String> = unknown.iter().map(|field| format!("`{}`", name_field(field))).collect();
            let message = format!("{} has fields that federate does not know: {}", object.id, all.join(", "));
            notes.push(Note::field_without_effect(first, message));
        }
    }

    /// The pointers of fields that are not known.
    fn list_unknown(&self, object: &Object) -> Vec<String> {
        let mut unknown = Vec::new();
        for map in self.maps {
            let fields = object.body.pointer(map.pointer).and_then(Value::as_object).into_iter().flatten();
            for (key, _) in fields.filter(|(_, value)| !value.is_null()) {
                let pointer = format!("{}/{}", map.pointer, federate_yaml::pointer::escape(key));
                let is_listed = self.without_effect.iter().any(|field| field.pointer == pointer);
                if !is_listed && !map.fields.contains(&key.as_str()) {
                    unknown.push(pointer);
                }
            }
        }
        unknown
    }
}

/// A pointer as the path of a field below `spec`.
fn name_field(pointer: &str) -> String {
    pointer.trim_start_matches("/spec/").replace('/', ".")
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
