//! Names sets of clusters by what they have in common: a region, a provider, or a label such as the wave of a rollout.

use std::collections::BTreeMap;

use crate::clusters::ClusterRow;
use crate::table::format_count;

/// The largest number of values of an attribute by which clusters are grouped.
const MAX_VALUES: usize = 24;

/// The largest number of values that the name of a set has.
const MAX_NAMED: usize = 4;

/// The smallest number of clusters that are named by how many of each group they are.
const MIN_PARTIAL: usize = 10;

/// Labels by which fleets are commonly divided. They come before others that divide a set equally well.
const COMMON_LABELS: [&str; 8] =
    ["topology.kubernetes.io/region", "region", "wave", "stage", "ring", "environment", "env", "tier"];

/// What the clusters of both inventories have in common.
#[derive(Debug, Default)]
pub(super) struct ClusterSetNames<'d> {
    attributes: Vec<Attribute<'d>>,
}

/// A property of clusters with few values.
#[derive(Debug)]
struct Attribute<'d> {
    /// `region`, `provider`, or the key of a label.
    name: &'d str,
    of_cluster: BTreeMap<&'d str, &'d str>,
    /// How many clusters have each value.
    sizes: BTreeMap<&'d str, usize>,
}

impl<'d> Attribute<'d> {
    /// The values of these clusters, each with how many of them have it and how many clusters have it in all; `None` if one of
    /// them has no value.
    fn count_values(&self, names: &[&str]) -> Option<Vec<(&'d str, usize, usize)>> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for name in names {
            *counts.entry(self.of_cluster.get(name)?).or_default() += 1;
        }
        Some(counts.into_iter().map(|(value, count)| (value, count, self.sizes[value])).collect())
    }
}

impl<'d> ClusterSetNames<'d> {
    /// Reads what divides the clusters into groups: regions, providers and labels with at least two values, each of several
    /// clusters.
    pub(super) fn new(inventory: &'d [ClusterRow]) -> Self {
        let mut all: BTreeMap<(usize, &str), Attribute<'d>> = BTreeMap::new();
        for row in inventory {
            let mut attributes: Vec<(usize, &str, &str)> =
                vec![(0, "region", &row.region), (2 + COMMON_LABELS.len(), "provider", &row.provider)];
            for (key, value) in &row.labels {
                let rank = COMMON_LABELS.iter().position(|common| common == key);
                attributes.push((1 + rank.unwrap_or(COMMON_LABELS.len()), key, value));
            }
            for (rank, name, value) in attributes.into_iter().filter(|(.., value)| !value.is_empty()) {
                let attribute = all.entry((rank, name)).or_insert_with(|| Attribute {
                    name,
                    of_cluster: BTreeMap::new(),
                    sizes: BTreeMap::new(),
                });
                attribute.of_cluster.insert(&row.name, value);
                *attribute.sizes.entry(value).or_default() += 1;
            }
        }
        Self {
            attributes: all
                .into_values()
                .filter(|attribute| {
                    let values = attribute.sizes.len();
                    (2..=MAX_VALUES).contains(&values) && values * 2 <= attribute.of_cluster.len()
                })
                .collect(),
        }
    }

    /// The name of a set of clusters, if it has one that is shorter than the list of its members: `60 clusters (region=eu)`, or
    /// how many of each group they are. With whether it is the latter.
    pub(super) fn name_set(&self, names: &[&str], write: impl Fn(&str) -> String) -> Option<(bool, String)> {
        #[expect(clippy::type_complexity, reason = "it lives for the next lines only")]
        let mut best: Option<(bool, usize, &str, Vec<(&str, usize, usize)>)> = None;
        for attribute in &self.attributes {
            let Some(counts) = attribute.count_values(names).filter(|counts| counts.len() <= MAX_NAMED)
            else {
                continue;
            };
            let is_partial = counts.iter().any(|(_, count, size)| count < size);
            // The names of a few clusters say more than how many they are.
            if is_partial && names.len() < MIN_PARTIAL {
                continue;
            }
            let rank = (is_partial, counts.len());
            if best.as_ref().is_none_or(|(partial, values, ..)| rank < (*partial, *values)) {
                best = Some((is_partial, counts.len(), attribute.name, counts));
            }
        }
        let (is_partial, _, attribute, counts) = best?;
        let groups: Vec<String> = counts
            .iter()
            .map(|(value, count, size)| {
                let name = write(&format!("{attribute}={value}"));
                if is_partial { format!("{count} of {size} in {name}") } else { name }
            })
            .collect();
        Some((is_partial, format!("{} ({})", format_count(names.len(), "cluster"), groups.join(", "))))
    }

    /// The attribute by which tables about many clusters are grouped.
    pub(super) fn find_grouping(&self) -> Option<GroupingAttribute<'_, 'd>> {
        self.attributes.first().map(GroupingAttribute)
    }
}

/// A division of the clusters into groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupingAttribute<'s, 'd>(&'s Attribute<'d>);

impl<'d> GroupingAttribute<'_, 'd> {
    /// The property by which clusters are grouped.
    pub(super) fn name(self) -> &'d str {
        self.0.name
    }

    /// The group of a cluster, as `region=eu`; `None` if it is in none.
    pub(super) fn find_group(self, cluster: &str) -> Option<String> {
        Some(format!("{}={}", self.0.name, self.0.of_cluster.get(cluster)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use federate_kubernetes::ObjectRef;

    use super::*;

    fn fleet() -> Vec<ClusterRow> {
        let row = |at: usize| ClusterRow {
            name: format!("m{at:02}"),
            object: ObjectRef {
                api_version: String::new(),
                kind: String::new(),
                namespace: None,
                name: String::new(),
            },
            origin: String::new(),
            ready: true,
            since: None,
            why: None,
            leaving: false,
            version: None,
            provider: String::new(),
            region: if at < 12 { "eu" } else { "us" }.to_owned(),
            zones: Vec::new(),
            labels: BTreeMap::from([
                ("wave".to_owned(), (at % 3).to_string()),
                ("id".to_owned(), at.to_string()),
            ]),
            taints: Vec::new(),
            resources: Vec::new(),
            objects: 0,
            replicas: 0,
        };
        (0..20).map(row).collect()
    }

    #[test]
    fn sets_are_named_by_what_they_share() {
        let fleet = fleet();
        let sets = ClusterSetNames::new(&fleet);
        let name = |keep: &dyn Fn(usize) -> bool| {
            let names: Vec<&str> = fleet
                .iter()
                .enumerate()
                .filter(|(at, _)| keep(*at))
                .map(|(_, row)| row.name.as_str())
                .collect();
            sets.name_set(&names, str::to_owned).map(|(_, name)| name)
        };
        assert_eq!(name(&|at| at < 12).as_deref(), Some("12 clusters (region=eu)"));
        assert_eq!(name(&|at| at % 3 == 0).as_deref(), Some("7 clusters (wave=0)"));
        assert_eq!(
            name(&|at| at < 14).as_deref(),
            Some("14 clusters (12 of 12 in region=eu, 2 of 8 in region=us)")
        );
        assert_eq!(sets.find_grouping().and_then(|by| by.find_group("m13")).as_deref(), Some("region=us"));
    }
}
