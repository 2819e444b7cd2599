//! Annotations that are too large for an API server.
//!
//! Facts: the keys and values of the annotations of an object, and of the pod template in it, may have 256 KiB together
//! (`ValidateAnnotationsSize` of `k8s.io/apimachinery`).

use rayon::prelude::*;

use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;
use serde_json::Value;

/// The most bytes of keys and values.
const MAX_BYTES: usize = 256 * 1024;

/// The places of annotations in an object; those of pods are in workloads only.
const PLACES: [&str; 4] = [
    "/metadata/annotations",
    "/spec/template/metadata/annotations",
    "/spec/jobTemplate/metadata/annotations",
    "/spec/jobTemplate/spec/template/metadata/annotations",
];

/// The findings about templates, policies and clusters.
pub(super) fn too_large(repo: &Repo) -> Vec<Finding> {
    let templates = repo.templates.par_iter().flat_map_iter(|template| {
        let bodies = template.per_cluster.iter().flat_map(|bodies| bodies.values());
        let first = std::iter::once(&template.object).chain(bodies.map(AsRef::as_ref)).find_map(check_object);
        first.into_iter()
    });
    let mut found: Vec<Finding> = templates.collect();
    found.par_extend(repo.claimed.par_iter().filter_map(|claimed| check_object(&claimed.object)));
    found
}

fn check_object(object: &Object) -> Option<Finding> {
    PLACES.into_iter().find_map(|place| {
        let annotations = object.body.pointer(place).and_then(Value::as_object)?;
        let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
        if size <= MAX_BYTES {
            return None;
        }
        let largest = annotations.iter().max_by_key(|(_, value)| value.as_str().map_or(0, str::len));
        let largest = largest.map(|(key, _)| key.as_str()).unwrap_or_default();
        let message = format!(
            "the annotations of {} have {size} bytes, and an API server refuses more than {MAX_BYTES} (256 KiB for all \
             keys and values)",
            object.id
        );
        let help = format!("move what `{largest}` contains into a ConfigMap or a file, or remove it");
        Some(Finding::error("invalid-field", object, message).with_pointer(place).with_help(help))
    })
}
