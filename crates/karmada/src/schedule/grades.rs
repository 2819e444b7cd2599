//! Available replicas by grades, as releases before the simulation of nodes estimate them.
//!
//! Facts: counts are taken by their place in the cluster's list, not by the grade they name. Each requested
//! resource starts at the first grade whose minimum holds the request; from the highest of these starts on,
//! each grade counts its nodes times what its minimum holds, at least 1. Where no grade names a requested
//! resource, the cluster's free resources decide. All sums are of 64-bit integers and wrap, which shows where
//! nothing is requested: an even number of nodes has room for less than nothing.

use std::collections::BTreeMap;

use federate_kubernetes::NodeShape;
use federate_kubernetes::quantity::Quantity;

/// The grades of a cluster.
pub(super) struct Grades {
    counts: Vec<i64>,
    /// By resource: the minimum of each grade that names it.
    minimums: BTreeMap<String, Vec<Minimum>>,
}

/// The minimum of a resource on a node of a grade, in the units in which it is counted.
struct Minimum {
    rounded_down: i64,
    rounded_up: i64,
}

impl Grades {
    /// The grades of counted node sizes.
    pub(super) fn new(shapes: &[NodeShape], units: impl Fn(&str, Quantity) -> i64) -> Self {
        let mut minimums: BTreeMap<String, Vec<Minimum>> = BTreeMap::new();
        for (name, amount) in shapes.iter().flat_map(|shape| &shape.resources) {
            let rounded_up = units(name, *amount);
            let whole = if name == "cpu" { Quantity::from_milli } else { Quantity::from_int };
            let rounded_down = rounded_up - i64::from(whole(rounded_up) > *amount);
            minimums.entry(name.clone()).or_default().push(Minimum { rounded_down, rounded_up });
        }
        Self { counts: shapes.iter().map(|shape| shape.listed).collect(), minimums }
    }

    /// The available replicas for these positive requests; `None` where no grade names one of the resources.
    pub(super) fn available_replicas(&self, requests: &[(&str, i64)]) -> Option<i64> {
        let mut first = 0;
        let mut requested = Vec::with_capacity(requests.len());
        for (name, request) in requests {
            let minimums = self.minimums.get(*name)?;
            let Some(fits) = minimums.iter().position(|minimum| minimum.rounded_down >= *request) else {
                return Some(0);
            };
            first = first.max(fits);
            requested.push((minimums, *request));
        }
        let mut sum = 0i64;
        for (at, count) in self.counts.iter().enumerate().skip(first).filter(|(_, count)| **count > 0) {
            let fitting = requested.iter().map(|(minimums, request)| {
                minimums.get(at).map_or(0, |minimum| minimum.rounded_up / request)
            });
            let on_one = fitting.min().unwrap_or(i64::MAX).max(1);
            sum = sum.wrapping_add(count.wrapping_mul(on_one));
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grades(rows: &[(i64, &str, &str)]) -> Grades {
        let shape = |(count, cpu, memory): &(i64, &str, &str)| NodeShape {
            count: *count,
            listed: *count,
            resources: [("cpu", cpu), ("memory", memory)]
                .map(|(name, amount)| (name.to_owned(), Quantity::parse(amount).unwrap()))
                .into(),
        };
        let shapes: Vec<NodeShape> = rows.iter().map(shape).collect();
        Grades::new(&shapes, |name, amount| if name == "cpu" { amount.milli_value() } else { amount.value() })
    }

    #[test]
    fn grades_from_the_first_that_fits_add_up() {
        let grades = grades(&[(3, "0", "0"), (2, "1", "4Gi"), (4, "2", "16Gi")]);
        assert_eq!(grades.available_replicas(&[("cpu", 500)]), Some(2 * 2 + 4 * 4));
        assert_eq!(grades.available_replicas(&[("cpu", 500), ("memory", 8 << 30)]), Some(4 * 2));
        assert_eq!(grades.available_replicas(&[("cpu", 2001)]), Some(0));
        assert_eq!(grades.available_replicas(&[("nvidia.com/gpu", 1)]), None);
        // No limit of pods on a node.
        assert_eq!(grades.available_replicas(&[("cpu", 1)]), Some(2 * 1000 + 4 * 2000));
    }

    #[test]
    fn without_requests_the_sum_wraps() {
        assert_eq!(grades(&[(4, "1", "1Gi"), (2, "2", "2Gi")]).available_replicas(&[]), Some(-6));
        assert_eq!(grades(&[(3, "1", "1Gi")]).available_replicas(&[]), Some(i64::MAX - 2));
        assert_eq!(grades(&[(0, "1", "1Gi")]).available_replicas(&[]), Some(0));
    }

    #[test]
    fn a_minimum_between_units_holds_no_more_than_it_does() {
        let grades = grades(&[(1, "1500u", "1.5")]);
        assert_eq!(grades.available_replicas(&[("cpu", 2)]), Some(0));
        assert_eq!(grades.available_replicas(&[("memory", 2)]), Some(0));
        assert_eq!(grades.available_replicas(&[("memory", 1)]), Some(2));
    }
}
