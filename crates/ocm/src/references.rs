//! What the objects of the dialect refer to by name.

use federate_dialect::ObjectReferences;
use federate_dialect::references::{ClusterTerm, LocatedName, RepoObjectReference};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

use crate::cluster::DEFAULT_SET;
use crate::kinds::CLUSTER_GROUP;
use crate::sets::GLOBAL_SET;

/// The references of one object.
pub(super) fn list_references(object: &Object) -> ObjectReferences {
    let mut all = ObjectReferences::default();
    let spec = Cursor::new(&object.body).field("spec");
    match object.id.kind.as_str() {
        "Placement" => add_placement(&mut all, &spec),
        "ManagedClusterSet" => {
            let selector = spec.field("clusterSelector");
            if selector.field("selectorType").as_text() == "LabelSelector" {
                all.add_cluster_selector(&selector.field("labelSelector"));
            }
        }
        "ManagedClusterSetBinding" => {
            let name = LocatedName::from_cursor(&spec.field("clusterSet"));
            all.objects.extend(name.and_then(|name| refer_to_set(name, "the binding binds nothing")));
        }
        "ManifestWorkReplicaSet" => {
            for reference in spec.field("placementRefs").items() {
                let name = LocatedName::from_cursor(&reference.field("name"));
                all.objects.extend(name.map(|name| RepoObjectReference {
                    group: CLUSTER_GROUP,
                    kind: "Placement",
                    namespace: object.id.namespace.clone(),
                    name,
                    consequence: "the set makes no works for it and for later references",
                    other: None,
                }));
            }
        }
        "ManifestWork" => all.add_cluster(&Cursor::new(&object.body).field("metadata").field("namespace")),
        _ => {}
    }
    all
}

fn add_placement(all: &mut ObjectReferences, spec: &Cursor<'_>) {
    for set in spec.field("clusterSets").items() {
        let name = LocatedName::from_cursor(&set);
        all.objects.extend(name.and_then(|name| refer_to_set(name, "no cluster is selected from it")));
    }
    for predicate in spec.field("predicates").items() {
        let selector = predicate.field("requiredClusterSelector");
        let labels = selector.field("labelSelector");
        all.add_cluster_selector(&labels);
        if !selector.field("claimSelector").is_present() && !selector.field("celSelector").is_present() {
            all.cluster_terms.push(ClusterTerm::default().with_label_selector(&labels));
        }
    }
    for group in spec.field("decisionStrategy").field("groupStrategy").field("decisionGroups").items() {
        all.add_cluster_selector(&group.field("groupClusterSelector").field("labelSelector"));
    }
}

/// A reference to a set, unless it always exists.
fn refer_to_set(name: LocatedName, consequence: &'static str) -> Option<RepoObjectReference> {
    let is_built_in = [DEFAULT_SET, GLOBAL_SET].contains(&name.name.as_str());
    (!is_built_in).then_some(RepoObjectReference {
        group: CLUSTER_GROUP,
        kind: "ManagedClusterSet",
        namespace: None,
        name,
        consequence,
        other: None,
    })
}
