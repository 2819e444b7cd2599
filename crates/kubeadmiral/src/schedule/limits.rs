//! Limits on a cluster's replicas that no preference overrides.

/// By cluster: how many replicas can run, and how many are allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicaLimits {
    estimated: Vec<Option<i64>>,
    limited: Vec<Option<i64>>,
}

impl ReplicaLimits {
    /// Returns limits from estimated and limited capacities, both by cluster.
    pub(super) fn new(estimated: Vec<Option<i64>>, limited: Vec<Option<i64>>) -> Self {
        Self { estimated, limited }
    }

    /// Returns no limits, for this number of clusters.
    pub(super) fn unlimited(clusters: usize) -> Self {
        Self { estimated: vec![None; clusters], limited: vec![None; clusters] }
    }

    /// The allowed replicas of these clusters, in this order.
    pub(super) fn allowed_only(&self, clusters: &[usize]) -> Self {
        let limited = clusters.iter().map(|at| self.limited.get(*at).copied().flatten()).collect();
        Self { estimated: vec![None; clusters.len()], limited }
    }

    /// Splits the allowed part of `wanted` replicas into those that can run and those that wait.
    pub(super) fn split_allowed(&self, at: usize, wanted: i64) -> (i64, i64) {
        let allowed = self.cap_allowed(at, wanted);
        let fits = self.estimated_capacity(at).map_or(allowed, |estimate| allowed.min(estimate));
        (fits, allowed - fits)
    }

    /// The part of `wanted` replicas that is allowed and can run.
    pub(super) fn cap_runnable(&self, at: usize, wanted: i64) -> i64 {
        self.split_allowed(at, wanted).0
    }

    /// The part of `wanted` replicas that is allowed.
    pub(super) fn cap_allowed(&self, at: usize, wanted: i64) -> i64 {
        self.limited.get(at).copied().flatten().map_or(wanted, |limit| wanted.min(limit))
    }

    /// How many replicas can run, if that is known.
    pub(super) fn estimated_capacity(&self, at: usize) -> Option<i64> {
        self.estimated.get(at).copied().flatten()
    }
}
