//! A `Kustomization` of Flux: what is built of a folder, and what is changed in it.
//!
//! Facts: the API `kustomize.toolkit.fluxcd.io/v1`, and kustomize-controller 1.9. A folder without a kustomization stands for the YAML
//! below it. Fields of the object are added to the kustomization of the folder, images field by field. Of variables, later sources
//! win, and those written in place win over all; line breaks are taken out of their values. Without any variable, nothing is
//! substituted, unless `substituteStrategy` is `Always`.

use serde_json::{Map, Value};

use federate_file_tree::{find_entry, normalize_path};
use federate_kubernetes::Object;
use federate_kubernetes::object::field_text;

use super::references::{Reference, ReferencedData};
use super::substitution::{Substitution, is_variable_name};
use super::{FluxReader, SERVICE_ACCOUNT, SUSPENDED, namespace_of, read_local_path, require_git};
use crate::description::{
    BuildChanges, DescribedJob, DescribedSource, DescriptionError, KustomizationRules, Note, UnknownReason,
    UnknownValues, inspect_folder, list_texts, read_map, refuse_path,
};
use crate::known_fields::{KnownFields, KnownMap};

/// The fields of the object. Those that only say when and how Flux reconciles are known, and have no effect on what is built.
static FIELDS: KnownFields = KnownFields {
    maps: &[
        KnownMap {
            pointer: "/spec",
            fields: &[
                "buildMetadata",
                "commonMetadata",
                "components",
                "decryption",
                "deletionPolicy",
                "dependsOn",
                "force",
                "healthCheckExprs",
                "healthChecks",
                "ignoreMissingComponents",
                "images",
                "interval",
                "kubeConfig",
                "namePrefix",
                "nameSuffix",
                "patches",
                "path",
                "postBuild",
                "prune",
                "retryInterval",
                "sourceRef",
                "targetNamespace",
                "timeout",
                "wait",
            ],
        },
        KnownMap {
            pointer: "/spec/postBuild",
            fields: &["substitute", "substituteFrom", "substituteStrategy"],
        },
        KnownMap { pointer: "/spec/commonMetadata", fields: &["annotations", "labels"] },
    ],
    without_effect: &[SERVICE_ACCOUNT, SUSPENDED],
};

impl FluxReader<'_> {
    pub(super) fn read_kustomization(
        &self,
        object: &Object,
        spec: &Value,
        notes: &mut Vec<Note>,
    ) -> Result<DescribedSource, DescriptionError> {
        require_git(spec.get("sourceRef"), "/spec/sourceRef")?;
        for key in ["patchesStrategicMerge", "patchesJson6902"] {
            if spec.get(key).is_some_and(|value| !value.is_null()) {
                let why = format!("federate does not carry out `{key}`");
                return Err(DescriptionError::new(&format!("/spec/{key}"), why)
                    .with_help("write them as `patches`, as the current API has them"));
            }
        }
        FIELDS.note_fields(object, notes);
        let mut path = read_local_path(field_text(spec, "path"), "/spec/path")?;
        let source = spec.get("sourceRef").unwrap_or(&Value::Null);
        if field_text(source, "kind") == "ExternalArtifact" {
            let own = namespace_of(object);
            let namespace = match field_text(source, "namespace") {
                "" => own.as_str(),
                named => named,
            };
            let found = self.artifacts.resolve_path(namespace, field_text(source, "name"), &path);
            path = found.map_err(|why| DescriptionError::new("/spec/sourceRef", why))?;
        }
        if let Some(copy) =
            self.find_remote_folder(object, spec.get("sourceRef"), &path, "/spec/sourceRef")?
        {
            path = copy;
        }
        if inspect_folder(self.tree, &path).is_none() {
            return Err(refuse_path(self.tree, "/spec/path", &path, "a folder"));
        }
        let edits = self.list_edits(spec, &path);
        let post_build = spec.get("postBuild").filter(|post| post.is_object());
        let (substitution, unknown) = match post_build {
            Some(post_build) => self.read_substitution(object, post_build, notes)?,
            None => (None, Vec::new()),
        };
        Ok(DescribedSource {
            path,
            job: DescribedJob::Kustomization { edits, rules: KustomizationRules::Flux },
            clusters: None,
            namespace: None,
            changes: BuildChanges {
                labels: read_map(spec.pointer("/commonMetadata/labels")),
                annotations: read_map(spec.pointer("/commonMetadata/annotations")),
                substitution,
            },
            application: None,
            unknown_destination: None,
            kube_config: spec.get("kubeConfig").filter(|config| !config.is_null()).cloned(),
            unknown,
        })
    }

    /// The fields that are added to the kustomization of the folder.
    fn list_edits(&self, spec: &Value, path: &str) -> Map<String, Value> {
        let mut edits = Map::new();
        for (key, edited) in
            [("targetNamespace", "namespace"), ("namePrefix", "namePrefix"), ("nameSuffix", "nameSuffix")]
        {
            if let Some(text) = spec.get(key).filter(|text| text.is_string()) {
                edits.insert(edited.to_owned(), text.clone());
            }
        }
        for key in ["patches", "images", "buildMetadata"] {
            if let Some(items) =
                spec.get(key).filter(|items| items.as_array().is_some_and(|items| !items.is_empty()))
            {
                edits.insert(key.to_owned(), items.clone());
            }
        }
        let ignores_missing = spec.get("ignoreMissingComponents") == Some(&Value::Bool(true));
        let components: Vec<Value> = list_texts(spec.get("components"))
            .into_iter()
            .filter(|component| !ignores_missing || self.may_exist(path, component))
            .map(Value::from)
            .collect();
        if !components.is_empty() {
            edits.insert("components".to_owned(), components.into());
        }
        edits
    }

    /// Whether the repo has a path that starts in a folder. One that leads out of the repo is left to the build, which refuses it.
    fn may_exist(&self, folder: &str, path: &str) -> bool {
        normalize_path(&format!("./{folder}/{path}"))
            .map_or(true, |path| path.is_empty() || find_entry(self.tree, &path).is_some())
    }

    /// What is substituted, and the values for it that are not known.
    fn read_substitution(
        &self,
        object: &Object,
        post_build: &Value,
        notes: &mut Vec<Note>,
    ) -> Result<(Option<Substitution>, Vec<UnknownValues>), DescriptionError> {
        let is_strict = self.settings.has_strict_substitution;
        let mut all = Substitution { is_strict, ..Substitution::default() };
        let unknown = self.add_references(object, post_build, &mut all, notes)?;
        for (key, value) in read_map(post_build.get("substitute")) {
            let Some(text) = value.as_str() else {
                let pointer = format!("/spec/postBuild/substitute/{}", federate_yaml::pointer::escape(&key));
                return Err(DescriptionError::new(
                    &pointer,
                    format!("the value of the variable `{key}` is not a text"),
                )
                .with_help("write the value in quotes"));
            };
            all.set_known(key, text);
        }
        let is_always = field_text(post_build, "substituteStrategy") == "Always";
        if all.variables.is_empty() && unknown.is_empty() && !is_always {
            return Ok((None, unknown));
        }
        if let Some(name) = all.variables.keys().chain(&all.unknown).find(|name| !is_variable_name(name)) {
            return Err(DescriptionError::new(
                "/spec/postBuild",
                format!("`{name}` is not the name of a variable"),
            ));
        }
        Ok((Some(all), unknown))
    }
    /// Adds the variables of the objects that are referred to. Returns the values that are not known.
    fn add_references(
        &self,
        object: &Object,
        post_build: &Value,
        all: &mut Substitution,
        notes: &mut Vec<Note>,
    ) -> Result<Vec<UnknownValues>, DescriptionError> {
        let mut unknown = Vec::new();
        let from = post_build.get("substituteFrom").and_then(Value::as_array).into_iter().flatten();
        for (index, reference) in from.enumerate() {
            let pointer = format!("/spec/postBuild/substituteFrom/{index}");
            let reference = Reference::new(object, reference, pointer);
            if !matches!(reference.kind, "ConfigMap" | "Secret") {
                let message = format!(
                    "{} takes no variables from {} {}, because Flux reads only ConfigMaps and Secrets",
                    object.id, reference.kind, reference.name
                );
                notes.push(Note::field_without_effect(&reference.pointer, message));
                continue;
            }
            match self.references.find_data(&reference)? {
                ReferencedData::None => {}
                ReferencedData::Missing(values) => {
                    all.lacks_source = true;
                    unknown.push(values);
                }
                ReferencedData::Found { known, encrypted } => {
                    for (key, value) in known {
                        all.set_known(key, &value);
                    }
                    all.set_unknown(&encrypted);
                    if !encrypted.is_empty() {
                        let values = reference.describe_unknown(UnknownReason::Encrypted);
                        unknown.push(UnknownValues { keys: encrypted, ..values });
                    }
                }
            }
        }
        Ok(unknown)
    }
}
