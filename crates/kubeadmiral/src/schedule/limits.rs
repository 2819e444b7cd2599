//! Limits on a cluster's replicas that no preference overrides.

/// By cluster: how many replicas can run, and how many are allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    estimated: Vec<Option<i64>>,
    limited: Vec<Option<i64>>,
}

impl Limits {
    /// Returns limits from estimated and limited capacities, both by cluster.
    pub(super) fn new(estimated: Vec<Option<i64>>, limited: Vec<Option<i64>>) -> Self {
        Self { estimated, limited }
    }

    /// Returns no limits, for this number of clusters.
    pub(super) fn none(clusters: usize) -> Self {
        Self { estimated: vec![None; clusters], limited: vec![None; clusters] }
    }

    /// The allowed replicas of these clusters, in this order.
    pub(super) fn allowed(&self, clusters: &[usize]) -> Self {
        let limited = clusters.iter().map(|at| self.limited.get(*at).copied().flatten()).collect();
        Self { estimated: vec![None; clusters.len()], limited }
    }

    /// Splits the allowed part of `wanted` replicas into those that can run and those that wait.
    pub(super) fn split(&self, at: usize, wanted: i64) -> (i64, i64) {
        let allowed = self.allow(at, wanted);
        let fits = self.estimate(at).map_or(allowed, |estimate| allowed.min(estimate));
        (fits, allowed - fits)
    }

    /// The part of `wanted` replicas that is allowed and can run.
    pub(super) fn cap(&self, at: usize, wanted: i64) -> i64 {
        self.split(at, wanted).0
    }

    /// The part of `wanted` replicas that is allowed.
    pub(super) fn allow(&self, at: usize, wanted: i64) -> i64 {
        self.limited.get(at).copied().flatten().map_or(wanted, |limit| wanted.min(limit))
    }

    /// How many replicas can run, if that is known.
    pub(super) fn estimate(&self, at: usize) -> Option<i64> {
        self.estimated.get(at).copied().flatten()
    }
}
