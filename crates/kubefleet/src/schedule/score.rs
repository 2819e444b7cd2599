//! Affinity scores: the sum of the weights that preferences give a cluster.
//!
//! Facts: a preference that sorts by a property scales its weight linearly between the least and the greatest
//! value of the whole fleet, including clusters that cannot be picked. It rounds half away from zero.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::affinity::LabelTerm;
use super::super::api::{PreferredClusterSelector, SortOrder};
use super::super::properties::{PropertyAmount, PropertyName};
use crate::failure::SchedulingError;
use federate_kubernetes::{Cluster, work};

/// The preferences of a policy, ready to score the clusters of a fleet.
pub(super) struct AffinityScorer<'p> {
    terms: Vec<Scorer<'p>>,
}

struct Scorer<'p> {
    weight: i64,
    labels: Option<LabelTerm<'p>>,
    sorter: Option<Sorter>,
}

struct Sorter {
    ascending: bool,
    amounts: Arc<Amounts>,
}

/// The values of a property.
struct Amounts {
    /// The value of each cluster.
    of_clusters: Vec<Option<PropertyAmount>>,
    /// The least and the greatest value.
    bounds: Option<(PropertyAmount, PropertyAmount)>,
}

impl<'p> AffinityScorer<'p> {
    pub(super) fn new(
        preferred: &'p [PreferredClusterSelector],
        clusters: &[Cluster],
    ) -> Result<Self, SchedulingError> {
        let weighty = preferred.iter().filter(|p| p.weight != 0);
        let mut known: BTreeMap<&str, Arc<Amounts>> = BTreeMap::new();
        let terms = weighty.map(|p| {
            let sorter = p.preference.property_sorter.as_ref();
            Ok(Scorer {
                weight: p.weight,
                labels: p.preference.label_selector.as_ref().map(LabelTerm::new),
                sorter: sorter
                    .map(|s| {
                        let amounts = match known.get(s.name.as_str()) {
                            Some(amounts) => Arc::clone(amounts),
                            None => Arc::clone(
                                known.entry(&s.name).or_insert(Arc::new(Amounts::new(&s.name, clusters)?)),
                            ),
                        };
                        Ok(Sorter { ascending: s.sort_order == SortOrder::Ascending, amounts })
                    })
                    .transpose()?,
            })
        });
        Ok(Self { terms: terms.collect::<Result<_, SchedulingError>>()? })
    }

    /// The score of the cluster at `index`.
    pub(super) fn score_cluster(&self, index: usize, cluster: &Cluster) -> Result<i64, SchedulingError> {
        let mut sum = 0_i64;
        for term in &self.terms {
            work::charge_steps(1);
            if let Some(labels) = &term.labels
                && !labels.matches_labels(&cluster.labels)?
            {
                continue;
            }
            let points =
                term.sorter.as_ref().map_or(term.weight, |sorter| sorter.compute_points(index, term.weight));
            sum = sum.saturating_add(points);
        }
        Ok(sum)
    }
}

impl Amounts {
    fn new(name: &str, clusters: &[Cluster]) -> Result<Self, SchedulingError> {
        let property = PropertyName::parse(name);
        work::charge_steps(clusters.len() as u64);
        let of_clusters = clusters.iter().map(|c| property.read_amount(c)).collect::<Result<Vec<_>, _>>()?;
        let amounts = of_clusters.iter().flatten().copied();
        let least = amounts.clone().min_by_key(|amount| amount.exact);
        let greatest = amounts.max_by_key(|amount| amount.exact);
        Ok(Self { bounds: least.zip(greatest), of_clusters })
    }
}

impl Sorter {
    fn compute_points(&self, index: usize, weight: i64) -> i64 {
        let Amounts { of_clusters, bounds } = &*self.amounts;
        let (Some(Some(amount)), Some((least, greatest))) = (of_clusters.get(index), bounds) else {
            return 0;
        };
        if least.exact == greatest.exact {
            return 0;
        }
        interpolate_weight(
            amount.approximate,
            least.approximate,
            greatest.approximate,
            weight,
            self.ascending,
        )
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "weights are small")]
fn interpolate_weight(amount: f64, least: f64, greatest: f64, weight: i64, ascending: bool) -> i64 {
    let share = (amount - least) / (greatest - least);
    let share = if ascending { 1.0 - share } else { share };
    (share * weight as f64).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_is_spread_between_least_and_greatest() {
        assert_eq!([0.057, 0.045, 0.12].map(|v| interpolate_weight(v, 0.045, 0.12, 30, true)), [25, 30, 0]);
        assert_eq!([3.0, 5.0, 11.0].map(|v| interpolate_weight(v, 3.0, 11.0, 20, false)), [0, 5, 20]);
        assert_eq!(interpolate_weight(1.0, 0.0, 2.0, -5, false), -3, "half is rounded away from zero");
    }
}
