//! The state of clusters that two inventories describe: the objects of one control plane have the labels and the location, those of
//! another one report readiness, APIs and free resources.

use federate_dialect::Dialects;
use federate_kubernetes::Cluster;
use federate_repo::Claims as _;

/// Gives clusters the state that other objects, sorted by name, report of them. Labels, location and taints stay; a cluster that
/// is not ready gets what its control plane adds.
pub fn share_cluster_states(dialects: Dialects, clusters: &mut [Cluster], others: &[Cluster]) {
    for cluster in clusters {
        let Ok(at) = others.binary_search_by(|other| other.name.cmp(&cluster.name)) else { continue };
        let Some(other) = others.get(at).filter(|other| other.id != cluster.id) else { continue };
        let Cluster { apis, apis_complete, capacity, properties, liveness, .. } = other.clone();
        let Cluster { joined, ready, deleting, unready_condition, kubernetes, namespaces, .. } =
            other.clone();
        let known = cluster.clone();
        *cluster = Cluster {
            apis,
            apis_complete,
            capacity,
            properties: known.properties.into_iter().chain(properties).collect(),
            liveness,
            joined,
            ready,
            deleting,
            unready_condition,
            kubernetes,
            namespaces,
            ..known
        };
        let of_kind = dialects.role_of_kind(&cluster.id.api_version, &cluster.id.kind);
        let dialect = of_kind.and_then(|(dialect, _)| dialects.get(dialect));
        if let Some(dialect) = dialect.filter(|_| !ready) {
            dialect.outages().mark_unreachable(cluster);
        }
    }
}
