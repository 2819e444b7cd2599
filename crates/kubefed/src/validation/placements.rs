//! Placements and overrides that are probably mistakes: no cluster at all, a selector beside a list, overrides and
//! preferences for clusters that are not selected.

use super::super::{FederatedObject, KubeFedPlanner, SchedulingPreference, placement};
use federate_kubernetes::Finding;
use federate_kubernetes::schema::Cursor;

/// The findings about all federated objects.
pub(crate) fn check_placements(plane: &KubeFedPlanner<'_>) -> Vec<Finding> {
    let findings = plane.federated.iter().flat_map(|federated| match plane.preference_of(federated) {
        Some(preference) => check_preference(plane, federated, preference),
        None => check_own_placement(plane, federated),
    });
    findings.collect()
}

/// Whether a federated object selects the cluster at an index.
fn selects_cluster(plane: &KubeFedPlanner<'_>, federated: &FederatedObject<'_>, at: usize) -> bool {
    let selected = placement::selected_clusters(&federated.spec.placement, &plane.clusters);
    // What is wrong with an invalid selector is reported as such.
    selected.is_err() || selected.is_ok_and(|selected| selected.get(at) == Some(&true))
}

/// The findings about an object that its own placement decides.
fn check_own_placement(plane: &KubeFedPlanner<'_>, federated: &FederatedObject<'_>) -> Vec<Finding> {
    let body = Cursor::new(&federated.object.body);
    let spec = body.field("spec");
    let place = spec.field("placement");
    let (list, selector) = (place.field("clusters"), place.field("clusterSelector"));
    let mut found: Vec<(&str, String, &str)> = Vec::new();
    match (&federated.spec.placement.clusters, &federated.spec.placement.cluster_selector) {
        (Some(named), _) if named.is_empty() => {
            let message = "an empty `clusters` selects no cluster, whatever `clusterSelector` says";
            found.push((list.pointer(), message.to_owned(), "name the clusters, or remove the empty list"));
        }
        (Some(_), Some(_)) => {
            let message = "the `clusterSelector` has no effect beside the list `clusters`";
            found.push((selector.pointer(), message.to_owned(), "remove the selector, or the list"));
        }
        (None, None) => {
            let message = format!(
                "{} selects no cluster: it has neither `placement.clusters` nor `placement.clusterSelector`",
                federated.object.id
            );
            let pointer = if place.is_present() { place.pointer() } else { spec.pointer() };
            let help = "add one of the two; `clusterSelector: {}` selects every cluster";
            found.push((pointer, message, help));
        }
        _ => {}
    }
    let overrides = spec.field("overrides");
    let names: Vec<Cursor<'_>> = overrides.items().map(|entry| entry.field("clusterName")).collect();
    for name in &names {
        let at = plane.clusters.iter().position(|cluster| cluster.name.as_ref() == name.as_text());
        if at.is_some_and(|at| !selects_cluster(plane, federated, at)) {
            let message =
                format!("the placement does not select `{}`, so this changes nothing", name.as_text());
            let help = "add the cluster to the placement, or remove the override";
            found.push((name.pointer(), message, help));
        }
    }
    let findings = found.into_iter().map(|(pointer, message, help)| {
        Finding::warning("no-effect", federated.object, message).with_pointer(pointer).with_help(help)
    });
    findings.collect()
}

/// The findings about a preference for a cluster that the federated object, or its namespace, does not select.
///
/// A preference decides in place of the placement, so that a cluster outside of the list gets replicas anyway; the
/// namespace always limits the clusters.
fn check_preference(
    plane: &KubeFedPlanner<'_>,
    federated: &FederatedObject<'_>,
    preference: &SchedulingPreference<'_>,
) -> Vec<Finding> {
    let body = Cursor::new(&preference.object.body);
    let clusters = body.field("spec").field("clusters");
    let listed = federated.spec.placement.clusters.is_some();
    let named = preference.spec.clusters.keys().filter_map(|name| {
        let at = plane.clusters.iter().position(|cluster| cluster.name.as_ref() == name.as_str())?;
        let namespace = plane.namespace_of(federated).filter(|namespace| !selects_cluster(plane, namespace, at));
        let (message, help) = if let Some(namespace) = namespace {
            let message = format!("`{name}` gets no replicas: {} does not select it", namespace.object.id);
            (message, "add the cluster to the placement of the namespace, or remove the preference")
        } else if listed && !selects_cluster(plane, federated, at) {
            let message = format!(
                "the placement of {} does not list `{name}`, but this preference decides in its place, so `{name}` gets \
                 replicas",
                federated.object.id
            );
            (message, "list the cluster in the placement, or remove the preference")
        } else {
            return None;
        };
        let pointer = clusters.entry(name).pointer().to_owned();
        Some(Finding::warning("no-effect", preference.object, message).with_pointer(pointer).with_help(help))
    });
    named.collect()
}
