//! Affinity scores: the sum of the weights that preferences give a cluster.
//!
//! Facts: a preference that sorts by a property scales its weight linearly between the least and the greatest
//! value of the whole fleet, including clusters that cannot be picked. It rounds half away from zero.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::affinity::LabelTerm;
use super::super::api::{Preference, SortOrder};
use super::super::properties::{Amount, Property};
use crate::failure::Failure;
use federate_kubernetes::{Cluster, work};

/// The preferences of a policy, ready to score the clusters of a fleet.
pub(super) struct Preferences<'p> {
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
    of_clusters: Vec<Option<Amount>>,
    /// The least and the greatest value.
    bounds: Option<(Amount, Amount)>,
}

impl<'p> Preferences<'p> {
    pub(super) fn new(preferred: &'p [Preference], clusters: &[Cluster]) -> Result<Self, Failure> {
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
        Ok(Self { terms: terms.collect::<Result<_, Failure>>()? })
    }

    /// The score of the cluster at `index`.
    pub(super) fn score(&self, index: usize, cluster: &Cluster) -> Result<i64, Failure> {
        let mut sum = 0_i64;
        for term in &self.terms {
            work::charge(1);
            if let Some(labels) = &term.labels
                && !labels.matches(&cluster.labels)?
            {
                continue;
            }
            let points = term.sorter.as_ref().map_or(term.weight, |sorter| sorter.points(index, term.weight));
            sum = sum.saturating_add(points);
        }
        Ok(sum)
    }
}

impl Amounts {
    fn new(name: &str, clusters: &[Cluster]) -> Result<Self, Failure> {
        let property = Property::named(name);
        work::charge(clusters.len() as u64);
        let of_clusters = clusters.iter().map(|c| property.of(c)).collect::<Result<Vec<_>, _>>()?;
        let all = || of_clusters.iter().flatten().copied();
        let least = all().min_by_key(|a| a.exact);
        let greatest = all().max_by_key(|a| a.exact);
        Ok(Self { bounds: least.zip(greatest), of_clusters })
    }
}

impl Sorter {
    fn points(&self, index: usize, weight: i64) -> i64 {
        let Amounts { of_clusters, bounds } = &*self.amounts;
        let (Some(Some(amount)), Some((least, greatest))) = (of_clusters.get(index), bounds) else {
            return 0;
        };
        if least.exact == greatest.exact {
            return 0;
        }
        interpolate(amount.approximate, least.approximate, greatest.approximate, weight, self.ascending)
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "weights are small")]
fn interpolate(amount: f64, least: f64, greatest: f64, weight: i64, ascending: bool) -> i64 {
    let share = (amount - least) / (greatest - least);
    let share = if ascending { 1.0 - share } else { share };
    (share * weight as f64).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_is_spread_between_least_and_greatest() {
        assert_eq!([0.057, 0.045, 0.12].map(|v| interpolate(v, 0.045, 0.12, 30, true)), [25, 30, 0]);
        assert_eq!([3.0, 5.0, 11.0].map(|v| interpolate(v, 3.0, 11.0, 20, false)), [0, 5, 20]);
        assert_eq!(interpolate(1.0, 0.0, 2.0, -5, false), -3, "half is rounded away from zero");
    }
}
