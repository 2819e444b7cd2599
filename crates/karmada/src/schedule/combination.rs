//! Finds the combination of regions that Karmada takes, without building all combinations.
//!
//! Facts: combinations are built depth first over the regions in their order. One is recorded as soon as it
//! has enough regions and enough clusters, and is not extended then; none has more than `max` regions. The
//! heaviest wins, then the one with most clusters, then the one that is found first. If the regions of
//! another one, heaviest first, begin those of the winner, that one is taken instead.
//!
//! There are exponentially many. But how a combination goes on depends only on the next region, on how many
//! regions it has, and on how many clusters it still lacks; and the order in which they are found is that of
//! their first different region. So the best continuation is computed once for each of these states.

use std::cmp::Reverse;

/// States that one search may have; they grow with regions × `max` × clusters asked for.
const MAX_STATES: usize = 2_000_000;

/// A region, as far as it decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'s> {
    pub(super) name: &'s str,
    pub(super) clusters: usize,
    pub(super) weight: i64,
}

/// What a combination must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequiredGroups {
    /// Regions at least.
    pub(super) min: usize,
    /// Regions at most.
    pub(super) max: usize,
    /// Clusters at least.
    pub(super) clusters: usize,
}

/// The search would be too large.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SearchTooLarge;

/// Weight and number of clusters, compared in this order.
type GroupWeight = (i64, usize);

/// The regions of the best combination, heaviest first.
pub(super) fn find_best_combination(
    regions: &[Region<'_>],
    required: RequiredGroups,
) -> Result<Option<Vec<usize>>, SearchTooLarge> {
    let Some(mut found) = Search::new(regions, required)?.find_best() else { return Ok(None) };
    found.sort_by_key(|at| (Reverse(regions[*at].weight), regions[*at].name));
    // Every recorded beginning of the winner is worth less than a longer one, so the shortest comes last.
    let shortest =
        (required.min..found.len()).find(|length| is_recorded(regions, required, &found[..*length]));
    found.truncate(shortest.unwrap_or(found.len()));
    Ok(Some(found))
}

/// Whether a set of regions, none of which is in it twice, is a combination that is recorded.
fn is_recorded(regions: &[Region<'_>], required: RequiredGroups, set: &[usize]) -> bool {
    let clusters: usize = set.iter().map(|at| regions[*at].clusters).sum();
    let last = set.iter().max().map_or(0, |at| regions[*at].clusters);
    let enough = set.len() >= required.min && set.len() <= required.max && clusters >= required.clusters;
    enough && (set.len() == required.min || clusters - last < required.clusters)
}

struct Search<'s> {
    regions: &'s [Region<'s>],
    required: RequiredGroups,
    /// Combinations have at most so many regions.
    longest: usize,
    /// The worth of the best continuation of each state.
    worth: Vec<Option<GroupWeight>>,
}

impl<'s> Search<'s> {
    fn new(regions: &'s [Region<'s>], required: RequiredGroups) -> Result<Self, SearchTooLarge> {
        let longest = required.max.min(regions.len());
        let all: usize = regions.iter().map(|region| region.clusters).sum();
        if required.clusters > all {
            return Ok(Self { regions, required, longest: 0, worth: Vec::new() });
        }
        let states =
            (regions.len() + 1).checked_mul(longest).and_then(|n| n.checked_mul(required.clusters + 1));
        let states = states.filter(|states| *states <= MAX_STATES).ok_or(SearchTooLarge)?;
        Ok(Self { regions, required, longest, worth: vec![None; states] })
    }

    fn find_best(mut self) -> Option<Vec<usize>> {
        if self.is_complete(0, 0) {
            return Some(Vec::new());
        }
        if self.longest == 0 {
            return None;
        }
        for next in (0..self.regions.len()).rev() {
            for length in 0..self.longest {
                for clusters in 0..=self.required.clusters {
                    let state = self.state_index(next, length, clusters);
                    let skip = self.worth[self.state_index(next + 1, length, clusters)];
                    self.worth[state] = self.compute_worth(next, length, clusters).max(skip);
                }
            }
        }
        self.worth[self.state_index(0, 0, 0)]?;
        Some(self.reconstruct_best())
    }

    /// The best combination, the first found among equals: it takes a region wherever that is as good as not.
    fn reconstruct_best(&self) -> Vec<usize> {
        let (mut chosen, mut clusters) = (Vec::new(), 0);
        for next in 0..self.regions.len() {
            let best = self.worth[self.state_index(next, chosen.len(), clusters)];
            if self.compute_worth(next, chosen.len(), clusters) == best {
                clusters = self.add_region(clusters, next);
                chosen.push(next);
                if chosen.len() == self.longest || self.is_complete(chosen.len(), clusters) {
                    break;
                }
            }
        }
        chosen
    }

    /// The worth of the best combination that goes on with the region `next`.
    fn compute_worth(&self, next: usize, length: usize, clusters: usize) -> Option<GroupWeight> {
        let region = &self.regions[next];
        let (length, clusters) = (length + 1, self.add_region(clusters, next));
        let rest = if self.is_complete(length, clusters) {
            (0, 0)
        } else if length == self.longest {
            return None;
        } else {
            self.worth[self.state_index(next + 1, length, clusters)]?
        };
        Some((region.weight.saturating_add(rest.0), region.clusters + rest.1))
    }

    /// Clusters with those of a region; how many there are beyond those wanted makes no difference.
    fn add_region(&self, clusters: usize, region: usize) -> usize {
        (clusters + self.regions[region].clusters).min(self.required.clusters)
    }

    fn is_complete(&self, length: usize, clusters: usize) -> bool {
        clusters >= self.required.clusters && length >= self.required.min && length <= self.required.max
    }

    fn state_index(&self, next: usize, length: usize, clusters: usize) -> usize {
        (next * self.longest + length) * (self.required.clusters + 1) + clusters
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All combinations in the order in which they are found, as the rules state them.
    fn all(
        regions: &[Region<'_>],
        wanted: RequiredGroups,
        chosen: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        let clusters: usize = chosen.iter().map(|at| regions[*at].clusters).sum();
        if clusters >= wanted.clusters && chosen.len() >= wanted.min && chosen.len() <= wanted.max {
            return found.push(chosen.clone());
        }
        if chosen.len() >= wanted.max {
            return;
        }
        for next in chosen.last().map_or(0, |last| last + 1)..regions.len() {
            chosen.push(next);
            all(regions, wanted, chosen, found);
            chosen.pop();
            if regions.len() == wanted.min {
                break;
            }
        }
    }

    fn by_the_rules(regions: &[Region<'_>], wanted: RequiredGroups) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        all(regions, wanted, &mut Vec::new(), &mut found);
        for path in &mut found {
            path.sort_by_key(|at| (Reverse(regions[*at].weight), regions[*at].name));
        }
        found.sort_by_key(|path| {
            let weight: i64 = path.iter().map(|at| regions[*at].weight).sum();
            (Reverse(weight), Reverse(path.iter().map(|at| regions[*at].clusters).sum::<usize>()))
        });
        let mut found = found.into_iter();
        let mut best = found.next()?;
        for path in found {
            if path.len() < best.len() && best.starts_with(&path) {
                best = path;
            }
        }
        Some(best)
    }

    proptest! {
        #[test]
        fn the_best_is_that_of_an_exhaustive_search(
            sizes in prop::collection::vec((1usize..5, 0i64..4), 0..9),
            min in 0usize..5,
            max in 0usize..7,
            clusters in 0usize..14,
        ) {
            let mut regions: Vec<_> = sizes
                .iter()
                .zip(["a", "b", "c", "d", "e", "f", "g", "h"])
                .map(|((clusters, weight), name)| Region { name, clusters: *clusters, weight: *weight * 500 })
                .collect();
            regions.sort_by_key(|r| (r.clusters, Reverse(r.weight), r.name));
            let wanted = RequiredGroups { min, max, clusters };
            prop_assert_eq!(find_best_combination(&regions, wanted).unwrap(), by_the_rules(&regions, wanted));
        }
    }

    #[test]
    fn forty_regions_take_no_time() {
        let names: Vec<String> = (0..40).map(|n| format!("r{n:02}")).collect();
        let regions: Vec<_> = names.iter().map(|name| Region { name, clusters: 3, weight: 1000 }).collect();
        let found = find_best_combination(&regions, RequiredGroups { min: 20, max: 40, clusters: 100 })
            .unwrap()
            .unwrap();
        assert_eq!(found, (0..34).collect::<Vec<_>>());
    }

    #[test]
    fn a_search_without_end_is_refused() {
        let names: Vec<String> = (0..2000).map(|n| format!("r{n:04}")).collect();
        let regions: Vec<_> = names.iter().map(|name| Region { name, clusters: 1, weight: 1 }).collect();
        assert_eq!(
            find_best_combination(&regions, RequiredGroups { min: 900, max: 2000, clusters: 1500 }),
            Err(SearchTooLarge)
        );
    }
}
