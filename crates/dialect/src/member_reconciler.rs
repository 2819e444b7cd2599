//! What a control plane does about the objects in a member cluster.

use federate_kubernetes::{Cluster, Object};

use crate::{ClusterReads, ControlPlaneAction, Placement};

/// What a control plane does about the objects in a member cluster. By default, it neither acts nor reports.
pub trait MemberReconciler {
    /// The objects in the member clusters that its decisions read; none by default.
    fn cluster_reads(&self) -> ClusterReads {
        ClusterReads::default()
    }

    /// Decides what to do about a placement's object in one cluster, given the live object. `None` where the
    /// control plane neither acts nor reports.
    fn reconcile_object(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        let _ = (placement, cluster, live);
        None
    }

    /// Whether [`reconcile_object`](Self::reconcile_object) does nothing about a managed live object whose rendered
    /// fields all have the rendered values: the object is not held back in the cluster, and no script retains its
    /// fields. `false` if only the decision itself shows that.
    fn keeps_applied(&self, placement: &Placement, cluster: &Cluster) -> bool {
        let _ = (placement, cluster);
        false
    }
}
