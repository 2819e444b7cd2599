//! The resources of a cluster, as the resource plugins count them.
//!
//! Facts: cpu is in thousandths, memory in bytes, GPUs in units. The used amount is allocatable minus
//! available. Of pods' requests only GPUs count.

use super::weights::FreeAmounts;
use federate_kubernetes::Cluster;
use federate_kubernetes::quantity::Quantity;

/// The only requested resource that counts.
pub(in super::super) const GPU: &str = "nvidia.com/gpu";

/// A resource of a cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Resource {
    allocatable: i64,
    used: i64,
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
        let of = |name: &str, unit: fn(Quantity) -> i64| {
            let allocatable = capacity.allocatable.get(name).copied().unwrap_or_default();
            let available = capacity.available.get(name).copied().unwrap_or_default();
            let amounts = FreeAmounts { allocatable: allocatable.value(), available: available.value() };
            let resource = Resource {
                allocatable: unit(allocatable),
                used: unit(allocatable).saturating_sub(unit(available)),
            };
            (resource, amounts)
        };
        let (cpu, cores) = of("cpu", Quantity::milli_value);
        let (memory, _) = of("memory", Quantity::value);
        let (gpu, gpus) = of(GPU, Quantity::value);
        Self { cpu, memory, gpu, cores, gpus }
    }

    /// Whether a pod's GPUs fit into the free ones.
    pub(super) fn fits_gpus(&self, gpu: Option<i64>) -> bool {
        gpu.is_none_or(|gpu| gpu <= 0 || self.gpu.allocatable >= gpu.saturating_add(self.gpu.used))
    }

    /// Allocatable and requested amounts of the resources that count, each with its weight.
    fn counted_resources(&self, gpu: Option<i64>) -> impl Iterator<Item = (i64, i64, i64)> {
        let of = |resource: Resource, request: i64, weight: i64| {
            (resource.allocatable, resource.used.saturating_add(request), weight)
        };
        [Some(of(self.cpu, 0, 1)), Some(of(self.memory, 0, 1)), gpu.map(|gpu| of(self.gpu, gpu, 4))]
            .into_iter()
            .flatten()
    }

    /// 100 if the same part of all resources is used, 0 if one is exhausted.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the arithmetic is specified so"
    )]
    pub(super) fn balanced_score(&self, gpu: Option<i64>) -> i64 {
        let fraction = |(allocatable, requested, _): (i64, i64, i64)| match allocatable {
            0 => 1.0,
            _ => requested as f64 / allocatable as f64,
        };
        let fractions: Vec<f64> = self.counted_resources(gpu).map(fraction).collect();
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
