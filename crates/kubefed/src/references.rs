//! What `KubeFed`'s objects, and the annotations of Federation v1, refer to by name.

use serde_json::Value;

use federate_dialect::ObjectReferences;
use federate_dialect::references::{ClusterTerm, LocatedName, TemplateSelector};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

/// Annotations of Federation v1 with preferences for clusters by name.
const PREFERENCES_ANNOTATIONS: [&str; 3] = [
    "federation.kubernetes.io/deployment-preferences",
    "federation.kubernetes.io/replica-set-preferences",
    "federation.kubernetes.io/job-preferences",
];

/// The annotations of templates that Federation v1 reads.
pub(super) const METADATA_KEYS: [&str; 5] = [
    PREFERENCES_ANNOTATIONS[0],
    PREFERENCES_ANNOTATIONS[1],
    PREFERENCES_ANNOTATIONS[2],
    super::v1::SELECTOR_ANNOTATION,
    "federation.kubernetes.io/hpa-target-cluster-list",
];

/// The references of a federated object, a preference or a template of Federation v1.
pub(super) fn find_references(object: &Object) -> ObjectReferences {
    let mut all = ObjectReferences::default();
    let body = Cursor::new(&object.body);
    let spec = body.field("spec");
    if object.id.kind == "ReplicaSchedulingPreference" {
        all.selectors.push(preference_target(object, &spec));
        let clusters = spec.field("clusters");
        let names = clusters.value().as_object().into_iter().flatten().map(|(name, _)| name);
        // `*` stands for every cluster that is not named.
        all.clusters.extend(names.filter(|name| *name != "*").map(|name| LocatedName {
            name: name.clone(),
            pointer: clusters.entry(name).pointer().to_owned(),
        }));
    } else if (spec.field("template").is_present() || object.id.kind == "FederatedNamespace")
        && spec.field("placement").is_present()
    {
        // A FederatedTypeConfig can give a federated kind any name. Only a FederatedNamespace has no template.
        add_federated(&mut all, &spec);
    }
    let annotations = body.field("metadata").field("annotations");
    let selector = annotations.field(super::v1::SELECTOR_ANNOTATION);
    let document: Option<Value> = serde_json::from_str(selector.as_text()).ok();
    let mut required = ObjectReferences::default();
    let requirements = Cursor::new(document.as_ref().unwrap_or(&Value::Null));
    required.add_label_requirements(&requirements);
    if document.is_some() {
        all.cluster_terms.push(ClusterTerm::default().with_label_requirements(&requirements));
    }
    // The annotation contains a document of its own, in which the keys have no place.
    for requirement in &mut required.cluster_labels {
        selector.pointer().clone_into(&mut requirement.pointer);
        requirement.values.iter_mut().for_each(|value| selector.pointer().clone_into(&mut value.pointer));
    }
    all.cluster_labels.append(&mut required.cluster_labels);
    for key in PREFERENCES_ANNOTATIONS {
        let annotation = annotations.field(key);
        let document: Option<Value> = serde_json::from_str(annotation.as_text()).ok();
        let clusters = document.as_ref().and_then(|d| d.get("clusters")?.as_object());
        all.clusters.extend(
            clusters.into_iter().flatten().filter(|(name, _)| *name != "*").map(|(name, _)| LocatedName {
                name: name.clone(),
                pointer: annotation.pointer().to_owned(),
            }),
        );
    }
    all
}

/// The federated object of a preference: that of its namespace and name.
fn preference_target(preference: &Object, spec: &Cursor<'_>) -> TemplateSelector {
    let namespace = preference.id.namespace.clone();
    TemplateSelector {
        pointer: spec.pointer().to_owned(),
        kind: LocatedName::from_cursor(&spec.field("targetKind")).unwrap_or_default(),
        namespace: namespace.map(|name| LocatedName { name, pointer: "/metadata/namespace".to_owned() }),
        name: Some(LocatedName { name: preference.id.name.clone(), pointer: "/metadata/name".to_owned() }),
        ..TemplateSelector::default()
    }
}

fn add_federated(all: &mut ObjectReferences, spec: &Cursor<'_>) {
    let placement = spec.field("placement");
    let clusters = placement.field("clusters");
    clusters.items().for_each(|cluster| all.add_cluster(&cluster.field("name")));
    let selector = placement.field("clusterSelector");
    if !clusters.is_present() {
        all.add_cluster_selector(&selector);
        if selector.is_present() {
            all.cluster_terms.push(ClusterTerm::default().with_label_selector(&selector));
        }
    }
    spec.field("overrides").items().for_each(|one| all.add_cluster(&one.field("clusterName")));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn references(placement: &Value) -> ObjectReferences {
        let body = json!({"spec": {"placement": placement}});
        find_references(&Object::from_path(
            "types.kubefed.io/v1beta1",
            "FederatedNamespace",
            "shop/shop",
            body,
        ))
    }

    #[test]
    fn a_federated_namespace_refers_to_clusters_although_it_has_no_template() {
        let named = references(&json!({"clusters": [{"name": "c1"}]}));
        assert_eq!(named.clusters[0].name, "c1");
        let selected = references(&json!({"clusterSelector": {"matchLabels": {"env": "prod"}}}));
        assert_eq!(selected.cluster_labels[0].pointer, "/spec/placement/clusterSelector/matchLabels/env");
    }
}
