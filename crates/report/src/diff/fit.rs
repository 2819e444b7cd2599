//! Whether what moves fits: the clusters that are asked for more, the tightest first.

use std::cmp::Ordering;

use federate_engine::capacity::{CapacityChanges, ResourceChange, amount_in_words};
use federate_kubernetes::quantity::Quantity;

/// A resource of which a cluster is asked for more.
pub(super) struct Receiver<'d> {
    pub(super) cluster: &'d str,
    pub(super) resource: &'d str,
    pub(super) change: &'d ResourceChange,
}

/// The clusters that are asked for more.
#[derive(Default)]
pub(super) struct CapacityFit<'d> {
    /// What is known, the tightest first.
    pub(super) known: Vec<Receiver<'d>>,
    /// The clusters of which it is not known whether they have room.
    pub(super) unknown: Vec<&'d str>,
    /// The number of clusters with known resources.
    pub(super) known_clusters: usize,
}

impl<'d> CapacityFit<'d> {
    pub(super) fn new(capacity: &'d CapacityChanges) -> Self {
        let mut fit = Self::default();
        for (cluster, resources) in capacity {
            let asked: Vec<_> =
                resources.iter().filter(|(_, change)| change.requested_increase().as_nanos() > 0).collect();
            let mut is_known = false;
            for (resource, change) in &asked {
                // Where other resources are asked for, the number of pods says little.
                if change.left_after.is_some() && (*resource != "pods" || asked.len() == 1) {
                    is_known = true;
                    fit.known.push(Receiver { cluster, resource, change });
                }
            }
            if is_known {
                fit.known_clusters += 1;
            } else if !asked.is_empty() {
                fit.unknown.push(cluster);
            }
        }
        fit.known.sort_by(Receiver::compare_tightness);
        fit
    }

    /// Whether no cluster is asked for more.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.unknown.is_empty()
    }

    /// How many clusters do not have room.
    pub(super) fn count_exceeded(&self) -> usize {
        let mut names: Vec<&str> =
            self.known.iter().filter(|one| one.change.is_exceeded()).map(|one| one.cluster).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }
}

impl Receiver<'_> {
    /// Compares the part of the allocatable amount that is left.
    fn compare_tightness(&self, other: &Self) -> Ordering {
        let order = (self.free_millionths(), self.cluster, self.resource);
        order.cmp(&(other.free_millionths(), other.cluster, other.resource))
    }

    /// The part of the allocatable amount that is left, in millionths.
    fn free_millionths(&self) -> i128 {
        let left = self.change.left_after.map_or(0, Quantity::as_nanos);
        let all = self.change.allocatable.map_or(0, Quantity::as_nanos).max(1);
        left.saturating_mul(1_000_000) / all
    }

    /// The amounts that are free before, asked for in addition, free after, and allocatable.
    pub(super) fn format_amounts(&self) -> [String; 4] {
        let ResourceChange { left_before, left_after, allocatable, .. } = *self.change;
        [left_before, Some(self.change.requested_increase()), left_after, allocatable].map(|amount| {
            amount.map_or("–".to_owned(), |amount| amount_in_words(self.resource, amount.as_nanos()))
        })
    }
}
