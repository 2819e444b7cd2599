//! What the objects of the dialect refer to by name.

use federate_dialect::References;
use federate_dialect::references::{ClusterTerm, Name, Reference};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

use crate::cluster::DEFAULT_SET;
use crate::kinds::CLUSTER_GROUP;
use crate::sets::GLOBAL_SET;

/// The references of one object.
pub(super) fn list_references(object: &Object) -> References {
    let mut all = References::default();
    let spec = Cursor::new(&object.body).field("spec");
    match object.id.kind.as_str() {
        "Placement" => add_placement(&mut all, &spec),
        "ManagedClusterSet" => {
            let selector = spec.field("clusterSelector");
            if selector.field("selectorType").text() == "LabelSelector" {
                all.cluster_selector(&selector.field("labelSelector"));
            }
        }
        "ManagedClusterSetBinding" => {
            let name = Name::at(&spec.field("clusterSet"));
            all.objects.extend(name.and_then(|name| refer_to_set(name, "the binding binds nothing")));
        }
        "ManifestWorkReplicaSet" => {
            for reference in spec.field("placementRefs").items() {
                let name = Name::at(&reference.field("name"));
                all.objects.extend(name.map(|name| Reference {
                    group: CLUSTER_GROUP,
                    kind: "Placement",
                    namespace: object.id.namespace.clone(),
                    name,
                    consequence: "the set makes no works for it and for later references",
                    other: None,
                }));
            }
        }
        "ManifestWork" => all.cluster(&Cursor::new(&object.body).field("metadata").field("namespace")),
        _ => {}
    }
    all
}

fn add_placement(all: &mut References, spec: &Cursor<'_>) {
    for set in spec.field("clusterSets").items() {
        let name = Name::at(&set);
        all.objects.extend(name.and_then(|name| refer_to_set(name, "no cluster is selected from it")));
    }
    for predicate in spec.field("predicates").items() {
        let selector = predicate.field("requiredClusterSelector");
        let labels = selector.field("labelSelector");
        all.cluster_selector(&labels);
        if !selector.field("claimSelector").present() && !selector.field("celSelector").present() {
            all.cluster_terms.push(ClusterTerm::default().labelled(&labels));
        }
    }
    for group in spec.field("decisionStrategy").field("groupStrategy").field("decisionGroups").items() {
        all.cluster_selector(&group.field("groupClusterSelector").field("labelSelector"));
    }
}

/// A reference to a set, unless it always exists.
fn refer_to_set(name: Name, consequence: &'static str) -> Option<Reference> {
    let is_built_in = [DEFAULT_SET, GLOBAL_SET].contains(&name.name.as_str());
    (!is_built_in).then_some(Reference {
        group: CLUSTER_GROUP,
        kind: "ManagedClusterSet",
        namespace: None,
        name,
        consequence,
        other: None,
    })
}
