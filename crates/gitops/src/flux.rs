//! Objects of Flux as sources: `Kustomization` and `HelmRelease`, whose paths are read as those of this repo.
//!
//! Facts: the APIs `kustomize.toolkit.fluxcd.io/v1` and `helm.toolkit.fluxcd.io/v2`.

use serde_json::Value;

use federate_file_tree::{CachedTree, find_entry, normalize_path};
use federate_kubernetes::Object;
use federate_kubernetes::object::{field_text, pointer_text};

use crate::description::{Description, DescriptionError};
use crate::known_fields::FieldWithoutEffect;
use crate::own_repository::OwnRepository;
use crate::remote_reference::{FluxCharts, RemoteReference};
use crate::vendored::VendoredSources;
use artifacts::Artifacts;
use references::{MissingValues, ReferencedObjects};

mod artifacts;
mod glob;
mod helm_release;
mod kustomization;
mod post_renderers;
pub(crate) mod references;
pub(crate) mod substitution;

/// Whether an object describes a source.
pub fn describes_source(object: &Object) -> bool {
    matches!(
        (object.id.group(), object.id.kind.as_str()),
        ("kustomize.toolkit.fluxcd.io", "Kustomization") | ("helm.toolkit.fluxcd.io", "HelmRelease")
    )
}

/// The name of the cluster of a `kubeConfig` of Flux: that in the name of the Secret, as Cluster API names it, or the namespace of the
/// object, where the Secret's name says nothing, as each cluster has one of its own then.
pub fn name_kubeconfig_cluster<'v>(kube_config: &'v Value, namespace: &'v str) -> &'v str {
    let secret = pointer_text(kube_config, "/secretRef/name");
    let ends = ["-kubeconfig", "-kube-config"].into_iter().filter_map(|end| secret.strip_suffix(end));
    let starts = ["kubeconfig-", "kube-config-"].into_iter().filter_map(|start| secret.strip_prefix(start));
    match ends.chain(starts).next().unwrap_or(secret) {
        "" | "cluster" | "kubeconfig" | "kube-config" => namespace,
        cluster => cluster,
    }
}

/// How the controllers of Flux are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluxSettings {
    /// Whether a variable without a value and a default is an error, as since kustomize-controller 1.9. Before, it was empty.
    pub has_strict_substitution: bool,
    /// Whether hooks of charts go through post-renderers, as since Flux 2.9.
    pub has_hooks_in_post_renderers: bool,
}

impl Default for FluxSettings {
    fn default() -> Self {
        Self { has_strict_substitution: true, has_hooks_in_post_renderers: true }
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
    own: &'f OwnRepository,
}

impl<'f> FluxReader<'f> {
    /// Reads objects of Flux beside these ones, to which they refer. `own` are the addresses of this repo.
    pub fn new(
        tree: &'f CachedTree<'f>,
        objects: impl Iterator<Item = &'f Object> + Clone,
        settings: FluxSettings,
        vendored: &'f VendoredSources<'f>,
        own: &'f OwnRepository,
        missing: MissingValues,
    ) -> Self {
        let charts = FluxCharts::new(objects.clone());
        let artifacts = Artifacts::from_objects(objects.clone());
        let references = ReferencedObjects::new(objects, missing);
        Self { tree, references, settings, charts, artifacts, vendored, own }
    }

    /// The copy of a folder of a git repository that is another one than this repo; `None` if it is this one. `object` names the
    /// repository by `reference`.
    fn find_remote_folder(
        &self,
        object: &Object,
        reference: Option<&Value>,
        path: &str,
        pointer: &str,
    ) -> Result<Option<String>, DescriptionError> {
        let named = reference.filter(|reference| field_text(reference, "kind") == "GitRepository");
        let repository = named.and_then(|named| self.charts.find_repository(named, &namespace_of(object)));
        let Some(spec) = repository.and_then(|repository| repository.body.get("spec")) else {
            return Ok(None);
        };
        let address = field_text(spec, "url");
        if !self.own.is_remote(address, || find_entry(self.tree, path).is_some()) {
            return Ok(None);
        }
        let revision = read_revision(spec).map_err(|why| DescriptionError::new(pointer, why))?;
        let reference = RemoteReference::new_base(address, path, revision)
            .map_err(|error| DescriptionError { pointer: pointer.to_owned(), ..error })?;
        self.vendored.find(&reference, pointer).map(Some)
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

/// The account with which Flux applies.
const SERVICE_ACCOUNT: FieldWithoutEffect = FieldWithoutEffect {
    pointer: "/spec/serviceAccountName",
    why: "no account of a cluster is used to build",
};

/// Whether Flux leaves the object alone.
const SUSPENDED: FieldWithoutEffect =
    FieldWithoutEffect { pointer: "/spec/suspend", why: "Flux does not reconcile it, but it is built here" };

/// A source must be in a git repository, which is taken for this one.
fn require_git(reference: Option<&Value>, pointer: &str) -> Result<(), DescriptionError> {
    let kind = reference.map_or("", |reference| field_text(reference, "kind"));
    if matches!(kind, "GitRepository" | "ExternalArtifact" | "") {
        return Ok(());
    }
    Err(DescriptionError::new(
        pointer,
        format!("its source is of kind {kind}, and only what is in the repo is built"),
    )
    .with_help("vendor it, and let the object name a GitRepository"))
}

/// The revision of a `GitRepository`, by the precedence of its fields. The error is the end of a sentence about an object.
fn read_revision(spec: &Value) -> Result<&str, String> {
    let reference = spec.get("ref").unwrap_or(&Value::Null);
    let read_field = |key: &str| Some(field_text(reference, key)).filter(|text| !text.is_empty());
    match (read_field("commit").or_else(|| read_field("name")), read_field("semver")) {
        (Some(revision), _) => Ok(revision),
        (None, Some(range)) => Err(format!(
            "its git repository has the range of versions `{range}`, and federate takes only tags, branches and commits"
        )),
        (None, None) => Ok(read_field("tag").or_else(|| read_field("branch")).unwrap_or("master")),
    }
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
