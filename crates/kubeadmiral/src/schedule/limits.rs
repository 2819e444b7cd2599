//! Ceilings on a cluster's replicas that no preference overrides.

/// By cluster: how many replicas find room, and how many are allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    estimated: Vec<Option<i64>>,
    limited: Vec<Option<i64>>,
}

impl Limits {
    /// From estimated and limited capacities, both by cluster.
    pub(super) fn new(estimated: Vec<Option<i64>>, limited: Vec<Option<i64>>) -> Self {
        Self { estimated, limited }
    }

    /// No ceilings for so many clusters.
    pub(super) fn none(clusters: usize) -> Self {
        Self { estimated: vec![None; clusters], limited: vec![None; clusters] }
    }

    /// Only what is allowed, of these clusters in this order.
    pub(super) fn allowed(&self, clusters: &[usize]) -> Self {
        let limited = clusters.iter().map(|at| self.limited.get(*at).copied().flatten()).collect();
        Self { estimated: vec![None; clusters.len()], limited }
    }

    /// Of `wanted` replicas that are allowed: those that find room, and those that wait for it.
    pub(super) fn split(&self, at: usize, wanted: i64) -> (i64, i64) {
        let allowed = self.allow(at, wanted);
        let fits = self.estimate(at).map_or(allowed, |estimate| allowed.min(estimate));
        (fits, allowed - fits)
    }

    /// Of `wanted` replicas those that are allowed and find room.
    pub(super) fn cap(&self, at: usize, wanted: i64) -> i64 {
        self.split(at, wanted).0
    }

    /// Of `wanted` replicas those that are allowed.
    pub(super) fn allow(&self, at: usize, wanted: i64) -> i64 {
        self.limited.get(at).copied().flatten().map_or(wanted, |limit| wanted.min(limit))
    }

    /// How many find room, if that is known.
    pub(super) fn estimate(&self, at: usize) -> Option<i64> {
        self.estimated.get(at).copied().flatten()
    }
}
