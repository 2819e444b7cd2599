//! The clusters of the inventory that a Sync works on (`spec.clusters`).

use federate_kubernetes::Cluster;
use federate_session::Session;
use federate_sync_api::SyncSpec;

/// The clusters of a session that a Sync works on, in the order of the inventory.
pub(crate) fn selected_clusters<'s>(
    spec: &'s SyncSpec,
    session: &'s Session,
) -> impl Iterator<Item = &'s Cluster> {
    session
        .clusters()
        .iter()
        .filter(|cluster| spec.clusters.as_ref().is_none_or(|some| some.selects_cluster(cluster)))
}

/// The names of the clusters of a session that a Sync works on.
pub(crate) fn selected_names<'s>(spec: &'s SyncSpec, session: &'s Session) -> impl Iterator<Item = &'s str> {
    selected_clusters(spec, session).map(|cluster| cluster.name.as_ref())
}
