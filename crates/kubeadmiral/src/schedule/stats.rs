//! The resources of a cluster, as the resource plugins count them.
//!
//! Facts: cpu is in thousandths, memory in bytes, GPUs in units. The used amount is allocatable minus
//! available. Of pods' requests only GPUs count.

use super::weights::FreeAmounts;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Capacity, Cluster};

/// The only requested resource that counts.
pub(in super::super) const GPU: &str = "nvidia.com/gpu";

/// A resource of a cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Resource {
    allocatable: i64,
    used: i64,
}

impl Resource {
    fn from_capacity(capacity: &Capacity, name: &str, unit: fn(Quantity) -> i64) -> Self {
        let allocatable = unit(capacity.allocatable.get(name).copied().unwrap_or_default());
        let available = unit(capacity.available.get(name).copied().unwrap_or_default());
        Self { allocatable, used: allocatable.saturating_sub(available) }
    }
}

/// A cluster's resources.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClusterStats {
    cpu: Resource,
    memory: Resource,
    gpu: Resource,
    /// The resources for division by free resources.
    pub(super) cores: FreeAmounts,
    pub(super) gpus: FreeAmounts,
}

impl ClusterStats {
    pub(super) fn from_cluster(cluster: &Cluster) -> Self {
        let Some(capacity) = &cluster.capacity else { return Self::default() };
        Self {
            cpu: Resource::from_capacity(capacity, "cpu", Quantity::milli_value),
            memory: Resource::from_capacity(capacity, "memory", Quantity::value),
            gpu: Resource::from_capacity(capacity, GPU, Quantity::value),
            cores: FreeAmounts::from_capacity(capacity, "cpu"),
            gpus: FreeAmounts::from_capacity(capacity, GPU),
        }
    }

    /// Whether a pod's GPUs fit into the free ones.
    pub(super) fn fits_gpus(&self, gpu: Option<i64>) -> bool {
        gpu.is_none_or(|gpu| gpu <= 0 || self.gpu.allocatable >= gpu.saturating_add(self.gpu.used))
    }

    /// Allocatable and requested amounts of the resources that count, each with its weight.
    fn counted_resources(&self, gpu: Option<i64>) -> impl Iterator<Item = (i64, i64, i64)> {
        let cpu = (self.cpu.allocatable, self.cpu.used, 1);
        let memory = (self.memory.allocatable, self.memory.used, 1);
        let gpu = gpu.map(|gpu| (self.gpu.allocatable, self.gpu.used.saturating_add(gpu), 4));
        [cpu, memory].into_iter().chain(gpu)
    }

    /// 100 if the same part of all resources is used, 0 if one is exhausted.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the arithmetic is specified so"
    )]
    pub(super) fn balanced_score(&self, gpu: Option<i64>) -> i64 {
        let mut fractions = Vec::with_capacity(3);
        for (allocatable, requested, _) in self.counted_resources(gpu) {
            fractions.push(if allocatable == 0 { 1.0 } else { requested as f64 / allocatable as f64 });
        }
        if fractions.iter().any(|f| *f >= 1.0) {
            return 0;
        }
        let deviation = match fractions.as_slice() {
            [one, other] => ((one - other) / 2.0).abs(),
            all => {
                let mean = all.iter().sum::<f64>() / all.len() as f64;
                let squares: f64 = all.iter().map(|f| (f - mean) * (f - mean)).sum();
                (squares / all.len() as f64).sqrt()
            }
        };
        ((1.0 - deviation) * 100.0) as i64
    }

    /// The part that is free, in percent.
    pub(super) fn least_allocated_score(&self, gpu: Option<i64>) -> i64 {
        self.weighted_percent(gpu, |allocatable: i64, requested| allocatable.saturating_sub(requested))
    }

    /// The part that is used, in percent.
    pub(super) fn most_allocated_score(&self, gpu: Option<i64>) -> i64 {
        self.weighted_percent(gpu, |_, requested| requested)
    }

    fn weighted_percent(&self, gpu: Option<i64>, part: fn(i64, i64) -> i64) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for (allocatable, requested, weight) in self.counted_resources(gpu) {
            weights += weight;
            if allocatable != 0 && requested <= allocatable {
                let part = i128::from(part(allocatable, requested)) * 100 / i128::from(allocatable);
                sum = i64::saturating_add(sum, weight.saturating_mul(i64::try_from(part).unwrap_or(0)));
            }
        }
        sum / weights
    }
}
