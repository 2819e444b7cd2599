//! Sources that objects of Flux and Argo CD describe: what is built, for which clusters, and what their controllers change
//! afterwards.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use federate_file_tree::{CachedTree, EntryKind, FileTree, find_entry, is_folder, join_path};
use federate_kubernetes::schema::find_nearest;
use federate_kubernetes::unfilled::mark_unfilled;
use federate_kubernetes::{ClusterName, Finding, Object, Severity};

use crate::flux::substitution::{SubstitutedText, Substitution, substitute_variables};
use crate::values::ValuesError;

/// The names of kustomizations.
pub const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The key of objects, as label or annotation, whose variables Flux leaves alone (`disabled`).
const SUBSTITUTE_KEY: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// What an object of Flux or Argo CD describes.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// What is built of it.
    pub sources: Vec<DescribedSource>,
    /// What is worth knowing about it, such as fields without effect here, or Applications that Argo CD leaves out.
    pub notes: Vec<Note>,
}

/// Something that is worth knowing about an object, which can be built anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// The code of its finding.
    pub code: &'static str,
    /// Where in the object.
    pub pointer: String,
    /// What it is, in a sentence without its first capital and its last full stop.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// What the object has, if that is all that the note says: `fields without effect here: …`. Objects that have the same are one
    /// finding.
    pub fields: Option<String>,
}

/// A source that an object describes.
#[derive(Clone, Debug)]
pub struct DescribedSource {
    /// The folder or packaged chart.
    pub path: String,
    /// What is built of it.
    pub job: DescribedJob,
    /// The name of the Application of Argo CD that it is a source of.
    pub application: Option<String>,
    /// The clusters that receive what is built; `None` for all.
    pub clusters: Option<BTreeSet<ClusterName>>,
    /// Why it is not known which clusters receive what is built, unless that is only objects that describe other sources.
    pub unknown_destination: Option<DescriptionError>,
    /// The `kubeConfig` of Flux, if what is built is applied to another cluster than the one in which Flux runs.
    pub kube_config: Option<Value>,
    /// The namespace of objects without one.
    pub namespace: Option<String>,
    /// What the controller changes in what was built.
    pub changes: BuildChanges,
    /// Values that are not known, because what holds them is encrypted or not in the repo.
    pub unknown: Vec<UnknownValues>,
}

/// Values of a `ConfigMap` or a `Secret` that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownValues {
    /// What holds them: kind, namespace and name.
    pub holder: String,
    /// Their keys. Of what is missing, any key may be one of a variable.
    pub keys: BTreeSet<String>,
    /// Why they are not known.
    pub reason: UnknownReason,
    /// Where the object that describes the source refers to them.
    pub pointer: String,
}

/// Why values are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownReason {
    /// SOPS encrypted them.
    Encrypted,
    /// What holds them is not in the repo.
    Missing {
        /// What may be meant.
        similar: Option<String>,
    },
}

/// What is built.
#[derive(Clone, Debug)]
pub enum DescribedJob {
    /// A kustomization, or the files of a folder without one.
    Kustomization {
        /// The fields that are added to it.
        edits: Map<String, Value>,
        /// By whose rules it is built.
        rules: KustomizationRules,
    },
    /// A chart.
    Chart(Box<DescribedChart>),
    /// The files of a folder, as they are.
    Directory(DirectoryFiles),
}

/// By whose rules a kustomization is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KustomizationRules {
    /// Those of `kustomize build`, after `kustomize edit` as Argo CD calls it.
    #[default]
    Kustomize,
    /// Those of Flux: a folder without a kustomization stands for the YAML below it, and one without resources is not an error.
    Flux,
}

/// Which files of a folder are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryFiles {
    /// Whether files of folders below are read, too.
    pub is_recursive: bool,
    /// A glob for the paths of the files, relative to the folder; empty for all.
    pub include: String,
    /// A glob for files that are left out; empty for none.
    pub exclude: String,
    /// Whether files count whatever their names end in.
    pub has_any_extension: bool,
}

/// A chart with its values.
#[derive(Clone, Debug, Default)]
pub struct DescribedChart {
    /// The name of the release.
    pub release: String,
    /// The namespace of the release.
    pub namespace: String,
    /// Values files of the repo, in order. They exist.
    pub values: Vec<String>,
    /// Whether the values files stand in place of the chart's own.
    pub replaces_values: bool,
    /// Values that win over those of the files.
    pub set: Map<String, Value>,
    /// Values that win over all others.
    pub parameters: Vec<ChartParameter>,
    /// The version of Kubernetes; that of the cluster by default.
    pub kubernetes: Option<String>,
    /// The API versions that a cluster serves; those of the cluster by default.
    pub apis: Option<Vec<String>>,
    /// Whether the folder `crds` is left out.
    pub skips_crds: bool,
    /// Whether hooks are left out.
    pub drops_hooks: bool,
    /// Whether values are not compared with the chart's schema.
    pub skips_schema: bool,
    /// What is changed in the rendered manifests.
    pub post_rendering: PostRendering,
}

/// What is changed in the rendered manifests of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PostRendering {
    /// The fields of kustomizations as JSON, in order. The resource of each is what the one before gave.
    pub kustomizations: Vec<String>,
    /// What becomes of hooks.
    pub hooks: HookRendering,
}

/// What becomes of the hooks of a chart when its manifests are changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookRendering {
    /// They are changed together with the other manifests.
    #[default]
    Combined,
    /// They are changed by themselves.
    Separate,
    /// They are left as they are.
    Left,
}

/// A value of a chart by its path, in the language of `helm --set`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChartParameter {
    /// `PATH=VALUE`, whose value has the type that it looks like.
    Typed(String),
    /// `PATH=VALUE`, whose value is a text.
    Text(String),
    /// The text of a file.
    File {
        /// The path of the value.
        name: String,
        /// The path of the file in the repo.
        file: String,
    },
}

/// What a controller changes after the build.
#[derive(Clone, Debug, Default)]
pub struct BuildChanges {
    /// Labels of every object.
    pub labels: Map<String, Value>,
    /// Annotations of every object.
    pub annotations: Map<String, Value>,
    /// The variables; `None` if nothing is substituted.
    pub substitution: Option<Substitution>,
}

/// What is wrong about an object that describes a source.
#[derive(Clone, Debug)]
pub struct DescriptionError {
    /// Where in the object.
    pub pointer: String,
    /// What is wrong, in a sentence without its first capital and its last full stop.
    pub why: String,
    /// What to do.
    pub help: Option<String>,
    /// Whether it is about the name of a remote chart or base, so that this cannot be downloaded either.
    pub is_about_reference: bool,
}

impl DescriptionError {
    /// An error about what is at a pointer.
    pub fn new(pointer: &str, why: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), why: why.into(), help: None, is_about_reference: false }
    }

    /// Says what to do.
    #[must_use]
    pub fn with_help(self, help: &str) -> Self {
        Self { help: Some(help.to_owned()), ..self }
    }

    /// An error about a values file.
    pub(crate) fn from_values_error(pointer: &str, error: ValuesError) -> Self {
        Self { pointer: pointer.to_owned(), why: error.why, help: error.help, is_about_reference: false }
    }

    /// The finding about an object.
    pub fn into_finding(self, object: &Object) -> Finding {
        let message = format!("{} cannot be built: {}", object.id, self.why);
        let finding = Finding::error("build-failed", object, message).with_pointer(self.pointer.as_str());
        Finding { help: self.help, ..finding }
    }
}

impl Note {
    /// A warning about a field that changes nothing of what is built.
    pub(crate) fn field_without_effect(pointer: &str, message: String) -> Self {
        Self {
            severity: Severity::Warning,
            code: "field-without-effect",
            pointer: pointer.to_owned(),
            message,
            help: None,
            fields: None,
        }
    }

    /// A warning about fields of an object, which are the end of a sentence about it.
    pub(crate) fn about_fields(object: &Object, pointer: &str, fields: String) -> Self {
        let message = format!("{} has {fields}", object.id);
        Self { fields: Some(fields), ..Self::field_without_effect(pointer, message) }
    }

    /// The finding about an object.
    pub fn into_finding(self, object: &Object) -> Finding {
        let finding = Finding::error(self.code, object, self.message).with_pointer(self.pointer.as_str());
        Finding { severity: self.severity, help: self.help, ..finding }
    }
}

/// The most bytes of the objects of a source together, after their variables are substituted: as many as a program may print.
const MAX_SUBSTITUTED_BYTES: usize = 64 << 20;

impl BuildChanges {
    /// Whether the text of a build is changed before its objects are read.
    pub fn changes_text(&self) -> bool {
        self.substitution.is_some()
    }

    /// Substitutes the variables in documents, in order, and writes them anew: an object may be one only with its variables.
    pub fn substitute_documents(&self, documents: Vec<Value>) -> Result<String, String> {
        let Some(substitution) = &self.substitution else { return Ok(write_documents(&documents)) };
        let mut substituted = 0;
        let mut identities = CurrentIdentities::new(&documents);
        let mut changed = Vec::with_capacity(documents.len());
        for document in documents {
            if is_left_alone(&document) {
                changed.push(document);
                continue;
            }
            let before = identity_of(&document);
            let (mut document, unfilled) = substitute_document(document, substitution, &mut substituted)?;
            mark_unfilled(&mut document, unfilled.iter().map(String::as_str));
            identities.replace(&before, identity_of(&document))?;
            changed.push(document);
        }
        Ok(write_documents(&changed))
    }

    /// Adds the labels and annotations to objects.
    pub fn label_objects(&self, objects: &mut [Object]) {
        for object in objects {
            for (name, value) in texts_of(&self.labels) {
                object.set_label(name, value);
            }
            for (name, value) in texts_of(&self.annotations) {
                object.set_annotation(name, value);
            }
        }
    }
}

fn texts_of(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &str)> {
    map.iter().filter_map(|(name, value)| Some((name, value.as_str()?)))
}

fn write_documents(documents: &[Value]) -> String {
    let mut text = String::new();
    for document in documents {
        text.push_str("---\n");
        federate_yaml::write_document(document, &mut text);
    }
    text
}

/// Whether Flux leaves the variables of an object alone.
fn is_left_alone(document: &Value) -> bool {
    ["labels", "annotations"].iter().any(|key| {
        let values = document.get("metadata").and_then(|metadata| metadata.get(key));
        values.and_then(|values| values.get(SUBSTITUTE_KEY)).and_then(Value::as_str) == Some("disabled")
    })
}

/// Substitutes the variables of an object in its YAML. Returns it with those that stay. `substituted` counts the bytes of all.
fn substitute_document(
    document: Value,
    substitution: &Substitution,
    substituted: &mut usize,
) -> Result<(Value, BTreeSet<String>), String> {
    let mut text = String::new();
    federate_yaml::write_as_go(&federate_yaml::sort_keys(document.clone()), &mut text);
    if !text.contains('$') {
        return Ok((document, BTreeSet::new()));
    }
    let explain = |why: String| {
        let object = Object::from_manifest(document.clone(), "");
        format!("the variables of {}: {why}", object.id)
    };
    let SubstitutedText { text, unfilled } = substitute_variables(&text, substitution).map_err(explain)?;
    *substituted += text.len();
    if *substituted > MAX_SUBSTITUTED_BYTES {
        let most = MAX_SUBSTITUTED_BYTES >> 20;
        return Err(format!("the objects are larger than {most} MiB together with their variables"));
    }
    let document = federate_yaml::read_as_go(&text).map_err(|error| explain(error.to_string()))?;
    Ok((document, unfilled))
}

/// What kustomize knows an object by: API version, kind, namespace and name. Without a namespace, it is in `default`.
type Identity = [String; 4];

fn identity_of(document: &Value) -> Identity {
    let field = |pointer: &str| {
        let value = document.pointer(pointer);
        value
            .map_or_else(String::new, |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let namespace = Some(field("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
    [
        field("/apiVersion"),
        field("/kind"),
        namespace.unwrap_or_else(|| "default".to_owned()),
        field("/metadata/name"),
    ]
}

/// How often each identity occurs among the objects of a build.
struct CurrentIdentities(BTreeMap<Identity, usize>);

impl CurrentIdentities {
    fn new(documents: &[Value]) -> Self {
        let mut counts = BTreeMap::new();
        for document in documents {
            *counts.entry(identity_of(document)).or_default() += 1;
        }
        Self(counts)
    }

    /// Notes that an object has another identity. The error says that another object has it already.
    fn replace(&mut self, before: &Identity, after: Identity) -> Result<(), String> {
        if let Some(count) = self.0.get_mut(before) {
            *count -= 1;
        }
        let [_, kind, _, name] = &after;
        let message = format!("{kind} {name} is there twice, after variables were substituted");
        let count = self.0.entry(after).or_default();
        *count += 1;
        if *count > 1 { Err(message) } else { Ok(()) }
    }
}

/// The versions of the API that releases of the controller of an object serve, the newest first.
pub fn list_served_versions(object: &Object) -> &'static [&'static str] {
    match (object.id.group(), object.id.kind.as_str()) {
        ("kustomize.toolkit.fluxcd.io", _) => &["v1", "v1beta2", "v1beta1"],
        ("helm.toolkit.fluxcd.io", _) => &["v2", "v2beta2", "v2beta1"],
        ("argoproj.io", _) => &["v1alpha1"],
        _ => &[],
    }
}

/// The error that a path is not what it must be, with what may be meant.
pub(crate) fn refuse_path(tree: &CachedTree<'_>, pointer: &str, path: &str, what: &str) -> DescriptionError {
    let error = DescriptionError::new(pointer, format!("`{path}` is not {what} of the repo"));
    match find_nearest_path(tree, path) {
        Some(near) => error.with_help(&format!("did you mean `{near}`?")),
        None => error,
    }
}

/// Among how many names the one is searched that may be meant: a repo may have many wrong ones.
const MAX_SIMILAR: usize = 200;

/// The object that is meant by a reference to one that is not there: in another namespace, or with a similar name. `all` are the
/// namespaces and names of the kind.
pub(crate) fn find_similar_object<'n>(
    all: impl Iterator<Item = (&'n str, &'n str)> + Clone,
    namespace: &str,
    name: &str,
) -> Option<(&'n str, &'n str)> {
    let elsewhere = all.clone().find(|(_, other)| *other == name);
    elsewhere.or_else(|| {
        let beside: Vec<(&str, &str)> = all.filter(|(own, _)| *own == namespace).take(MAX_SIMILAR).collect();
        let names: Vec<&str> = beside.iter().map(|(_, name)| *name).collect();
        let near = find_nearest(name, &names)?;
        beside.into_iter().find(|(_, name)| *name == near)
    })
}

/// The path nearest to one that does not exist: with another name for its first part that is missing.
fn find_nearest_path(tree: &CachedTree<'_>, path: &str) -> Option<String> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    let missing = ends.filter_map(|end| path.get(..end)).find(|part| find_entry(tree, part).is_none())?;
    let (parent, name) = missing.rsplit_once('/').unwrap_or(("", missing));
    let entries = tree.list_folder(parent).ok()?;
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    names.truncate(MAX_SIMILAR);
    let near = join_path(parent, find_nearest(name, &names)?);
    let meant = format!("{near}{}", path.get(missing.len()..)?);
    find_entry(tree, &meant).is_some().then_some(meant)
}

/// What a folder of the repo holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FolderContent {
    has_chart: bool,
    has_kustomization: bool,
}

impl FolderContent {
    pub(crate) fn has_chart(self) -> bool {
        self.has_chart
    }

    pub(crate) fn has_kustomization(self) -> bool {
        self.has_kustomization
    }
}

/// What a folder holds; `None` if there is no such folder.
pub(crate) fn inspect_folder(tree: &CachedTree<'_>, folder: &str) -> Option<FolderContent> {
    let entries = Some(folder)
        .filter(|folder| is_folder(tree, folder))
        .and_then(|folder| tree.list_folder(folder).ok())?;
    let names: BTreeSet<&str> = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::File)
        .map(|entry| entry.name.as_str())
        .collect();
    Some(FolderContent {
        has_chart: names.contains("Chart.yaml"),
        has_kustomization: KUSTOMIZATIONS.iter().any(|name| names.contains(name)),
    })
}

/// The strings of a list.
pub(crate) fn list_texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A map, which may be missing.
pub(crate) fn read_map(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Whether a path is that of a packaged chart.
pub fn is_packaged_chart(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == "tgz")
}

/// The path of a packaged chart, whose file is named `NAME-VERSION.tgz`, without the version and the extension.
pub fn strip_chart_version(path: &str) -> &str {
    let path = path.strip_suffix(".tgz").unwrap_or(path);
    let name = path.rfind('/').map_or(0, |at| at + 1);
    let mut hyphens = path.match_indices('-').map(|(at, _)| at).filter(|at| *at > name);
    let version = hyphens
        .find(|at| path.get(at + 1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
    version.and_then(|at| path.get(..at)).unwrap_or(path)
}
