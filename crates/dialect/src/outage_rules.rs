//! What a control plane does about clusters that are lost or leave.

use federate_kubernetes::Cluster;
use federate_repo::Repo;

use crate::OutageStep;

/// What a control plane does about clusters that are lost or leave. By default a lost cluster is not ready, and one that
/// leaves is gone at once.
pub trait OutageRules {
    /// The effects of taints on its clusters. By default those of Kubernetes.
    fn taint_effects(&self) -> &'static [&'static str] {
        &["NoSchedule", "PreferNoSchedule", "NoExecute"]
    }

    /// Changes a cluster of the inventory as the control plane does when it can no longer reach the cluster. By
    /// default the cluster is not ready.
    fn mark_unreachable(&self, cluster: &mut Cluster) {
        cluster.ready = false;
    }

    /// What the control plane does over time after it loses a cluster, whose inventory object is in the repo.
    /// `failover` says whether its failover is on. By default everything happens at once.
    fn outage_steps(&self, repo: &Repo, cluster: &Cluster, failover: bool) -> Vec<OutageStep> {
        let _ = (repo, failover);
        let mut lost = cluster.clone();
        self.mark_unreachable(&mut lost);
        vec![OutageStep { seconds: 0, what: format!("{} is not ready", cluster.name), cluster: lost }]
    }

    /// The seconds between the deletion of a cluster's inventory object and the end of its membership. By default it
    /// leaves at once.
    fn leaves_after(&self, reachable: bool) -> i64 {
        let _ = reachable;
        0
    }

    /// Whether the scheduler acts on the deletion of a cluster's inventory object before the cluster has left.
    fn notices_deletion(&self) -> bool {
        true
    }
}
