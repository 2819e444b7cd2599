//! A budget: clusters are updated as long as enough of them are available.
//!
//! Facts: clusters that fail are updated at once. Then clusters that are left are removed and others updated, as long as
//! enough clusters stay available. Then new clusters are added, up to a surge above the target.

use jiff::SignedDuration;

use federate_kubernetes::ClusterName;

use super::{ClusterUpdate, RolloutDecision};

/// What is to be done about a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterTask {
    /// Nothing: it has the newest resources.
    None,
    /// It has former resources.
    Update,
    /// It has none yet.
    Add,
    /// It is left.
    Remove,
}

/// Whether a cluster is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterReadiness {
    /// It is available.
    Ready,
    /// It is not, and it is not known when it will be.
    NotReady,
    /// It is available after this time.
    ReadyAfter(SignedDuration),
}

/// A cluster, as a budget counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetCluster {
    /// The cluster.
    pub cluster: ClusterName,
    /// What is to be done about it.
    pub task: ClusterTask,
    /// Whether its resources are being removed.
    pub is_leaving: bool,
    /// Whether what it has is available.
    pub readiness: ClusterReadiness,
    /// Whether what it has fails, so that waiting does not help.
    pub has_failed: bool,
    /// Whether what it has may become available.
    pub can_be_ready: bool,
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateBudget {
    /// How many clusters must stay available.
    pub min_available: i64,
    /// How many clusters may have resources.
    pub max_total: i64,
    /// The longest time until the next check.
    pub period: SignedDuration,
}

impl UpdateBudget {
    /// The clusters that are updated, removed or added now. Clusters of the decision that wait are out of date; those
    /// that wait for their removal are not named.
    pub fn advance(&self, clusters: &[BudgetCluster]) -> RolloutDecision {
        let running = || clusters.iter().filter(|cluster| cluster.task != ClusterTask::Add);
        let available = count(running().filter(|cluster| cluster.counts_as_available()));
        let can_be_ready = count(running().filter(|cluster| cluster.can_be_ready));
        let to_remove = subtract_count(available, self.min_available);
        let to_add = subtract_count(self.max_total, can_be_ready);
        let failed = list_clusters(clusters, |cluster| cluster.updates() && cluster.has_failed);
        let remove =
            list_clusters(clusters, |cluster| cluster.task == ClusterTask::Remove && !cluster.is_leaving);
        let update = list_clusters(clusters, |cluster| cluster.updates() && !cluster.has_failed);
        let add = list_clusters(clusters, |cluster| cluster.task == ClusterTask::Add);
        let is_done = [&failed, &remove, &update, &add].iter().all(|names| names.is_empty());
        let (removed, _) = remove.split_at(to_remove.min(remove.len()));
        let (updated, stale) = update.split_at((to_remove - removed.len()).min(update.len()));
        let (added, waiting) = add.split_at(to_add.min(add.len()));
        let active = [&failed, removed, updated, added].concat();
        RolloutDecision {
            active: active.into_iter().map(ClusterUpdate::pending).collect(),
            waiting: [stale, waiting].concat(),
            is_done,
            recheck: running().filter_map(|cluster| self.find_wait(cluster)).min(),
            ..RolloutDecision::default()
        }
    }

    /// How long to wait for a cluster that is not available.
    fn find_wait(&self, cluster: &BudgetCluster) -> Option<SignedDuration> {
        match cluster.readiness {
            ClusterReadiness::Ready => None,
            ClusterReadiness::NotReady => Some(self.period),
            ClusterReadiness::ReadyAfter(left) => Some(left.min(self.period)),
        }
    }
}

impl BudgetCluster {
    fn counts_as_available(&self) -> bool {
        !self.is_leaving && self.readiness == ClusterReadiness::Ready
    }

    /// Whether its resources are to be replaced.
    fn updates(&self) -> bool {
        self.task == ClusterTask::Update && !self.is_leaving
    }
}

fn list_clusters(clusters: &[BudgetCluster], is_wanted: fn(&BudgetCluster) -> bool) -> Vec<ClusterName> {
    clusters.iter().filter(|cluster| is_wanted(cluster)).map(|cluster| cluster.cluster.clone()).collect()
}

fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}

/// How many more than `least` there are.
fn subtract_count(number: i64, least: i64) -> usize {
    usize::try_from(number.saturating_sub(least)).unwrap_or(0)
}
