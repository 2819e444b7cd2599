//! The manifests of Federation v1: identity, labels, annotations and the content of the kind.
//!
//! Facts: other metadata and the status are dropped. Of a ConfigMap only `data` stays, of a Secret `data` and
//! `type`. Replicas are overwritten. No label is added.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Divided, Share, cluster_shares};
use federate_dialect::{ManifestVariant, Placement, RenderedManifest};
use federate_kubernetes::{ClusterName, Object};
use federate_repo::Template;

/// The annotation of a Deployment that is dropped.
const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";

/// The variants of a placement.
pub(in super::super) fn render_template(row: &Placement, template: &Template) -> Vec<ManifestVariant> {
    let mut classes: BTreeMap<_, (Share, Vec<ClusterName>)> = BTreeMap::new();
    for share in cluster_shares(row) {
        // A `*.j2` file is rendered for each cluster.
        let own = template.per_cluster.is_some().then(|| share.cluster.clone());
        let cluster = share.cluster.clone();
        let class = classes.entry((share.replicas, share.completions, own));
        class.or_insert_with(|| (share, Vec::new())).1.push(cluster);
    }
    let mut variants = Vec::with_capacity(classes.len());
    for (share, mut clusters) in classes.into_values() {
        clusters.sort();
        let body = render_body(template.for_cluster(&share.cluster), &share);
        let rendered = Ok(RenderedManifest { body, changes: Vec::new() });
        variants.push(ManifestVariant { clusters: clusters.into(), rendered });
    }
    variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    variants
}

fn render_body(object: &Object, share: &Share) -> Value {
    let passed: &[&str] = match object.id.kind.as_str() {
        "ConfigMap" => &["data"],
        "Secret" => &["data", "type"],
        _ => &["spec"],
    };
    let mut body = Map::new();
    body.insert("apiVersion".to_owned(), object.id.api_version.as_str().into());
    body.insert("kind".to_owned(), object.id.kind.as_str().into());
    body.insert("metadata".to_owned(), passed_metadata(object));
    for key in passed {
        if let Some(value) = object.value_at(&[key]) {
            body.insert((*key).to_owned(), value.clone());
        }
    }
    let numbers: Vec<(&str, Value)> = match Divided::for_kind(&object.id) {
        Divided::Nothing => Vec::new(),
        Divided::Replicas(_) => vec![("replicas", share.replicas.into())],
        Divided::Parallelism => {
            let mut numbers = vec![("parallelism", share.replicas.into()), ("manualSelector", true.into())];
            numbers.extend(share.completions.map(|completions| ("completions", completions.into())));
            numbers
        }
    };
    if !numbers.is_empty() {
        let spec = body.entry("spec").or_insert_with(|| Value::Object(Map::new()));
        if let Some(spec) = spec.as_object_mut() {
            spec.extend(numbers.into_iter().map(|(key, value)| (key.to_owned(), value)));
        }
    }
    Value::Object(body)
}

fn passed_metadata(object: &Object) -> Value {
    let mut metadata = Map::new();
    for key in ["name", "namespace", "labels", "annotations"] {
        let Some(mut value) = object.value_at(&["metadata", key]).cloned() else { continue };
        if key == "annotations"
            && object.id.kind == "Deployment"
            && let Some(annotations) = value.as_object_mut()
            && annotations.shift_remove(REVISION_ANNOTATION).is_some()
            && annotations.is_empty()
        {
            continue;
        }
        metadata.insert(key.to_owned(), value);
    }
    Value::Object(metadata)
}
