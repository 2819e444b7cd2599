//! A `HelmRelease` of Flux: the chart of a folder with its values.
//!
//! Facts: the API `helm.toolkit.fluxcd.io/v2`, and the package `chartutil` of Flux. Values of `valuesFrom` are merged in order, then
//! `values` over all; a `targetPath` sets one value, as `--set` does, in what is there with `values`. Values files of a chart stand in
//! place of its own. A release name of more than 53 characters is cut and ends in a digest.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use federate_file_tree::{EntryKind, find_entry, join_path};
use federate_kubernetes::Object;
use federate_kubernetes::hex::to_hex;
use federate_kubernetes::object::{field_text, pointer_text};

use super::post_renderers::read_post_rendering;
use super::references::{Reference, ReferencedData};
use super::{FluxReader, SERVICE_ACCOUNT, SUSPENDED, namespace_of, read_local_path, require_git};
use crate::description::{
    BuildChanges, DescribedChart, DescribedJob, DescribedSource, DescriptionError, FolderContent, Note,
    UnknownReason, UnknownValues, inspect_folder, is_packaged_chart, list_texts, read_map, refuse_path,
};
use crate::helm_parameters::{ParameterSetter, ValueType};
use crate::known_fields::{FieldWithoutEffect, KnownFields, KnownMap};
use crate::remote_reference::ReleaseChart;
use crate::values::{merge_maps, require_values_file};

/// The longest name of a release.
const MAX_RELEASE_NAME: usize = 53;

/// The fields of the object. Those that only say when and how Flux reconciles are known, and have no effect on what is built.
static FIELDS: KnownFields = KnownFields {
    maps: &[
        KnownMap {
            pointer: "/spec",
            fields: &[
                "chart",
                "chartRef",
                "commonMetadata",
                "dependsOn",
                "driftDetection",
                "healthCheckExprs",
                "install",
                "interval",
                "kubeConfig",
                "maxHistory",
                "postRenderStrategy",
                "postRenderers",
                "persistentClient",
                "releaseName",
                "rollback",
                "storageNamespace",
                "targetNamespace",
                "test",
                "timeout",
                "uninstall",
                "upgrade",
                "values",
                "valuesFrom",
                "waitStrategy",
            ],
        },
        KnownMap { pointer: "/spec/chart", fields: &["metadata", "spec"] },
        KnownMap {
            pointer: "/spec/chart/spec",
            fields: &[
                "chart",
                "ignoreMissingValuesFiles",
                "interval",
                "reconcileStrategy",
                "sourceRef",
                "valuesFiles",
                "verify",
                "version",
            ],
        },
        KnownMap { pointer: "/spec/commonMetadata", fields: &["annotations", "labels"] },
    ],
    without_effect: &[
        SERVICE_ACCOUNT,
        SUSPENDED,
        FieldWithoutEffect {
            pointer: "/spec/install/createNamespace",
            why: "the chart gives no Namespace: commit one to the repo",
        },
        FieldWithoutEffect {
            pointer: "/spec/upgrade/preserveValues",
            why: "the values of earlier releases are not known",
        },
    ],
};

impl<'f> FluxReader<'f> {
    pub(super) fn read_release(
        &self,
        object: &'f Object,
        spec: &Value,
        notes: &mut Vec<Note>,
    ) -> Result<DescribedSource, DescriptionError> {
        let ReleaseChart { settings: chart, pointer, reference } = self.charts.read_release(object)?;
        let post_rendering = read_post_rendering(spec, self.settings.has_hooks_in_post_renderers)?;
        FIELDS.note_fields(object, notes);
        // The values files of a chart of a repository of charts are those of the chart; others begin at the root of the repository.
        let (path, folder) = match &reference {
            Some(reference) => {
                let path = self.vendored.find(reference, pointer)?;
                (path.clone(), path)
            }
            None => self.find_own_chart(object, chart, pointer)?,
        };
        let values = self.list_values_files(chart, pointer, &folder)?;
        let target = field_text(spec, "targetNamespace");
        let namespace = if target.is_empty() { namespace_of(object) } else { target.to_owned() };
        let release = match field_text(spec, "releaseName") {
            "" if target.is_empty() => object.id.name.clone(),
            "" => format!("{target}-{}", object.id.name),
            name => name.to_owned(),
        };
        let (set, unknown) = self.read_values(object, spec)?;
        let is_true = |pointer: &str| spec.pointer(pointer) == Some(&Value::Bool(true));
        let described = DescribedChart {
            release: shorten_release(release),
            namespace: namespace.clone(),
            values,
            replaces_values: chart
                .get("valuesFiles")
                .and_then(Value::as_array)
                .is_some_and(|all| !all.is_empty()),
            set,
            skips_crds: pointer_text(spec, "/install/crds") == "Skip" || is_true("/install/skipCRDs"),
            skips_schema: is_true("/install/disableSchemaValidation"),
            drops_hooks: is_true("/install/disableHooks"),
            post_rendering,
            ..DescribedChart::default()
        };
        Ok(DescribedSource {
            path,
            job: DescribedJob::Chart(Box::new(described)),
            clusters: None,
            namespace: Some(namespace),
            changes: BuildChanges {
                labels: read_map(spec.pointer("/commonMetadata/labels")),
                annotations: read_map(spec.pointer("/commonMetadata/annotations")),
                substitution: None,
            },
            application: None,
            unknown_destination: None,
            kube_config: spec.get("kubeConfig").filter(|config| !config.is_null()).cloned(),
            unknown,
        })
    }

    /// The path of a chart in this repo, or of the copy of one in another git repository.
    fn find_own_chart(
        &self,
        object: &Object,
        chart: &Value,
        pointer: &str,
    ) -> Result<(String, String), DescriptionError> {
        let source = format!("{pointer}/sourceRef");
        require_git(chart.get("sourceRef"), &source)?;
        let pointer = format!("{pointer}/chart");
        let written = read_local_path(field_text(chart, "chart"), &pointer)?;
        let (path, root) = match self.find_remote_folder(object, chart.get("sourceRef"), &written, &source)? {
            Some(copy) => {
                let root = copy.strip_suffix(&written).unwrap_or(&copy).trim_end_matches('/').to_owned();
                (copy, root)
            }
            None => (written, String::new()),
        };
        let is_file = matches!(find_entry(self.tree, &path), Some(EntryKind::File));
        let is_package = is_packaged_chart(&path) && is_file;
        if is_package || inspect_folder(self.tree, &path).is_some_and(FolderContent::has_chart) {
            return Ok((path, root));
        }
        Err(refuse_path(self.tree, &pointer, &path, "a chart"))
    }

    /// The paths of the values files, which stand in place of the chart's own. `folder` is where they are.
    fn list_values_files(
        &self,
        chart: &Value,
        pointer: &str,
        folder: &str,
    ) -> Result<Vec<String>, DescriptionError> {
        let may_be_missing = chart.get("ignoreMissingValuesFiles") == Some(&Value::Bool(true));
        let mut paths = Vec::new();
        for (index, file) in list_texts(chart.get("valuesFiles")).iter().enumerate() {
            let pointer = format!("{pointer}/valuesFiles/{index}");
            let path = join_path(folder, &read_local_path(file, &pointer)?);
            let exists = require_values_file(self.tree, &path, may_be_missing)
                .map_err(|error| DescriptionError::from_values_error(&pointer, error))?;
            paths.extend(exists.then_some(path));
        }
        Ok(paths)
    }

    /// The values that win over those of the files, and those that are not known.
    fn read_values(
        &self,
        object: &Object,
        spec: &Value,
    ) -> Result<(Map<String, Value>, Vec<UnknownValues>), DescriptionError> {
        let own = match spec.get("values") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(own)) => own.clone(),
            Some(_) => return Err(DescriptionError::new("/spec/values", "its values are not a map")),
        };
        let (mut set, mut unknown) = (Map::new(), Vec::new());
        let mut setter = ParameterSetter::default();
        let from = spec.get("valuesFrom").and_then(Value::as_array).into_iter().flatten();
        for (index, value) in from.enumerate() {
            let reference = Reference::new(object, value, format!("/spec/valuesFrom/{index}"));
            let key = match field_text(value, "valuesKey") {
                "" => "values.yaml",
                key => key,
            };
            let target = field_text(value, "targetPath");
            let (text, is_literal) = match self.find_value(&reference, key)? {
                ReferencedValue::None => continue,
                ReferencedValue::Known(text) => (text, value.get("literal") == Some(&Value::Bool(true))),
                // What is a single value is seen where it is used.
                ReferencedValue::Unknown(values) => {
                    unknown.push(values);
                    (if target.is_empty() { String::new() } else { format!("${{{key}}}") }, true)
                }
            };
            if target.is_empty() {
                let read = federate_yaml::read_as_go(&text).map_err(|error| error.to_string());
                match read {
                    Ok(Value::Object(values)) => merge_maps(&mut set, &values),
                    Ok(Value::Null) => {}
                    Ok(_) => return Err(reference.refuse("has values that are not a map")),
                    Err(why) => {
                        return Err(reference.refuse(&format!("has values that are not valid YAML: {why}")));
                    }
                }
                continue;
            }
            merge_maps(&mut set, &own);
            let (entry, value_type) = write_entry(target, &text, is_literal);
            setter
                .set_entries(&mut set, &entry, value_type)
                .map_err(|why| DescriptionError::new(&format!("{}/targetPath", reference.pointer), why))?;
        }
        merge_maps(&mut set, &own);
        Ok((set, unknown))
    }

    /// The value that a reference names.
    fn find_value(&self, reference: &Reference<'_>, key: &str) -> Result<ReferencedValue, DescriptionError> {
        if !matches!(reference.kind, "ConfigMap" | "Secret") {
            return Err(reference.refuse("is neither a ConfigMap nor a Secret"));
        }
        let values = match self.references.find_data(reference)? {
            ReferencedData::None => return Ok(ReferencedValue::None),
            ReferencedData::Missing(values) => values,
            ReferencedData::Found { mut known, encrypted } => {
                return match known.remove(key) {
                    Some(text) => Ok(ReferencedValue::Known(text)),
                    None if encrypted.contains(key) => {
                        let values = reference.describe_unknown(UnknownReason::Encrypted);
                        Ok(ReferencedValue::Unknown(UnknownValues {
                            keys: [key.to_owned()].into(),
                            ..values
                        }))
                    }
                    None if reference.is_optional => Ok(ReferencedValue::None),
                    None => Err(reference.refuse(&format!("has no key `{key}`"))),
                };
            }
        };
        Ok(ReferencedValue::Unknown(UnknownValues { keys: [key.to_owned()].into(), ..values }))
    }
}

/// The value of a key of an object.
enum ReferencedValue {
    /// There is none, and there need not be.
    None,
    Known(String),
    Unknown(UnknownValues),
}

/// The entry that sets a value at a path. What is in quotes is a text, and so is what is literal.
fn write_entry(target: &str, text: &str, is_literal: bool) -> (String, ValueType) {
    if is_literal {
        let quoted = text.chars().flat_map(|c| {
            let is_special = matches!(c, '\\' | ',' | '[' | ']' | '{' | '}');
            is_special.then_some('\\').into_iter().chain([c])
        });
        return (format!("{target}={}", quoted.collect::<String>()), ValueType::Text);
    }
    let is_quoted = ['\'', '"'].iter().any(|quote| text.starts_with(*quote) && text.ends_with(*quote));
    if is_quoted {
        return (format!("{target}={}", text.trim_matches(['\'', '"'])), ValueType::Text);
    }
    (format!("{target}={text}"), ValueType::Typed)
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
