//! What is changed in the manifests of a chart after Helm has rendered them: the post-renderers of a `HelmRelease`.
//!
//! Facts: helm-controller 1.6 and Helm 4.2. Each post-renderer is a kustomization whose resource is what the one before gave. CRDs of the
//! folder `crds` are no part of it. Helm notes the template of each manifest in an annotation while kustomize has it, so that a patch
//! finds annotations in every object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use federate_repo::build::{BuildError, HookRendering, KustomizationJob, KustomizationRules, PostRendering};

use crate::inputs::BuildInputs;
use crate::process::{BuildFolder, TimeLimit};
use crate::program::Program;
use crate::{ProgramBuilder, error_of_run, kustomization};

/// The annotation in which Helm notes the template.
const TEMPLATE_ANNOTATION: &str = "postrenderer.helm.sh/postrender-filename";

/// The annotation of hooks.
const HOOK_ANNOTATION: &str = "helm.sh/hook";

/// The start of the comment with which Helm names the template of a manifest.
const SOURCE_COMMENT: &str = "# Source: ";

/// The file with what Helm rendered.
const RESOURCE: &str = "helm-output.yaml";

/// A manifest with the template that it is rendered from.
struct RenderedManifest {
    template: String,
    value: Value,
}

impl RenderedManifest {
    fn is_crd(&self) -> bool {
        self.template.contains("/crds/") && !self.template.contains("/templates/")
    }

    fn is_hook(&self) -> bool {
        let annotations = self.value.pointer("/metadata/annotations");
        annotations.is_some_and(|annotations| annotations.get(HOOK_ANNOTATION).is_some())
    }
}

impl ProgramBuilder {
    /// Runs the post-renderers over the output of Helm with `program`, which is kustomize.
    pub(crate) fn post_render(
        &self,
        program: &Program,
        rendering: &PostRendering,
        output: &[u8],
        limit: &dyn Fn() -> Result<TimeLimit, BuildError>,
    ) -> Result<Vec<u8>, BuildError> {
        let manifests = read_manifests(output).map_err(|why| error_of_run(&why))?;
        let (mut kept, rendered): (Vec<_>, Vec<_>) =
            manifests.into_iter().partition(RenderedManifest::is_crd);
        let (hooks, others): (Vec<_>, Vec<_>) = match rendering.hooks {
            HookRendering::Combined => (Vec::new(), rendered),
            HookRendering::Separate | HookRendering::Left => {
                rendered.into_iter().partition(RenderedManifest::is_hook)
            }
        };
        let mut streams = vec![others];
        if rendering.hooks == HookRendering::Separate {
            streams.push(hooks);
        } else {
            kept.extend(hooks);
        }
        for mut manifests in streams {
            for kustomization in &rendering.kustomizations {
                if manifests.is_empty() {
                    break;
                }
                let built = self.build_rendered(program, kustomization, &manifests, limit()?)?;
                manifests = read_manifests(&built).map_err(|why| error_of_run(&why))?;
            }
            kept.extend(manifests);
        }
        let mut text = String::new();
        for manifest in &kept {
            text.push_str("---\n");
            text.push_str(SOURCE_COMMENT);
            text.push_str(&manifest.template);
            text.push('\n');
            federate_yaml::write_document(&manifest.value, &mut text);
        }
        Ok(text.into_bytes())
    }

    /// Builds a kustomization over manifests.
    fn build_rendered(
        &self,
        program: &Program,
        kustomization: &str,
        manifests: &[RenderedManifest],
        limit: TimeLimit,
    ) -> Result<Vec<u8>, BuildError> {
        let mut fields: Map<String, Value> = serde_json::from_str(kustomization).unwrap_or_default();
        fields.insert("resources".to_owned(), json!([RESOURCE]));
        let mut resource = String::new();
        for manifest in manifests {
            let mut value = manifest.value.clone();
            note_template(&mut value, &manifest.template);
            resource.push_str("---\n");
            federate_yaml::write_document(&value, &mut resource);
        }
        let files: BTreeMap<String, Vec<u8>> = [
            ("kustomization.yaml".to_owned(), Value::Object(fields).to_string().into_bytes()),
            (RESOURCE.to_owned(), resource.into_bytes()),
        ]
        .into();
        let job = KustomizationJob {
            folder: String::new(),
            is_unrestricted: false,
            edits: String::new(),
            rules: KustomizationRules::Kustomize,
        };
        let folder = BuildFolder::new(&BuildInputs::from_files(files)).map_err(|why| {
            error_of_run(&format!("the manifests cannot be copied to a temporary folder: {why}"))
        })?;
        let args = kustomization::list_arguments(program, &folder, &job);
        self.run_in_folder(&folder, program, &args, limit).map_err(|error| {
            let explained = kustomization::explain_error(program, &job.folder, &error);
            // What helps with a kustomization of the repo cannot be set for a post-renderer.
            BuildError {
                why: format!("its post-renderer failed: {}", explained.why),
                help: None,
                ..explained
            }
        })
    }
}

/// Reads the manifests of a stream with their templates. The error is a sentence.
fn read_manifests(output: &[u8]) -> Result<Vec<RenderedManifest>, String> {
    let stream = federate_yaml::read_stream(output);
    if let Some(error) = stream.errors.first() {
        return Err(format!("the output of the build is not valid YAML: {error}"));
    }
    let text = String::from_utf8_lossy(output);
    let templates = (1_u32..).zip(text.lines());
    let templates: Vec<(u32, &str)> = templates
        .filter_map(|(line, text)| Some((line, text.strip_prefix(SOURCE_COMMENT)?.trim())))
        .collect();
    let documents = stream.documents.into_iter().filter(|document| !document.value.is_null());
    let manifests = documents.map(|document| {
        let mut value = document.value;
        let noted = take_template(&mut value);
        let at = templates.partition_point(|(line, _)| *line <= document.line);
        let commented = at.checked_sub(1).and_then(|at| templates.get(at)).map(|(_, template)| *template);
        RenderedManifest {
            template: noted.unwrap_or_else(|| commented.unwrap_or_default().to_owned()),
            value,
        }
    });
    Ok(manifests.collect())
}

/// Notes the template of a manifest in its annotations.
fn note_template(value: &mut Value, template: &str) {
    let Value::Object(object) = value else { return };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Value::Object(metadata) = metadata else { return };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Value::Object(annotations) = annotations {
        annotations.insert(TEMPLATE_ANNOTATION.to_owned(), template.into());
    }
}

/// Takes the annotation with the template out, and the annotations if there are no others.
fn take_template(value: &mut Value) -> Option<String> {
    let metadata = value.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let template = annotations.shift_remove(TEMPLATE_ANNOTATION)?.as_str().map(str::to_owned);
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
    template
}
