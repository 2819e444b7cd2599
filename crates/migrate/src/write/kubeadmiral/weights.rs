//! The weights of clusters, found by what rules require of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use federate_kubernetes::Cluster;

use crate::intent::ClusterWeight;

/// Weights by something that each of their clusters has, the greatest first: a cluster is compared with few of them.
pub(super) struct WeightIndex<'w>(BTreeMap<RequiredTrait<'w>, Vec<&'w ClusterWeight>>);

/// Something that a rule requires of its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequiredTrait<'w> {
    /// The name.
    Name(&'w str),
    /// A label with its value.
    Label { key: &'w str, value: &'w str },
    /// A label with any value.
    LabelKey(&'w str),
    /// Nothing that a cluster must have.
    Nothing,
}

impl<'w> WeightIndex<'w> {
    pub(super) fn new(weights: &'w [ClusterWeight]) -> Self {
        let mut index: BTreeMap<RequiredTrait<'w>, Vec<&'w ClusterWeight>> = BTreeMap::new();
        for weight in weights {
            for required in find_alternatives(weight) {
                index.entry(required).or_default().push(weight);
            }
        }
        for weights in index.values_mut() {
            weights.sort_by_key(|weight| Reverse(weight.weight));
        }
        Self(index)
    }

    /// The greatest weight that is stated for a cluster.
    pub(super) fn find_greatest(&self, cluster: &Cluster) -> Option<i64> {
        let labels = cluster
            .labels
            .iter()
            .flat_map(|(key, value)| [RequiredTrait::Label { key, value }, RequiredTrait::LabelKey(key)]);
        let traits = labels.chain([RequiredTrait::Name(&cluster.name), RequiredTrait::Nothing]);
        let weights = traits.filter_map(|one| {
            let candidates = self.0.get(&one)?;
            candidates.iter().find(|weight| weight.clusters.matches_cluster(cluster))
        });
        weights.map(|weight| weight.weight).max()
    }
}

/// What each cluster of a weight has at least one of.
fn find_alternatives(weight: &ClusterWeight) -> Vec<RequiredTrait<'_>> {
    let rule = &weight.clusters;
    if let Some(names) = &rule.names {
        return names.iter().map(|name| RequiredTrait::Name(name)).collect();
    }
    if let Some((key, value)) = rule.labels.match_labels.first_key_value() {
        return vec![RequiredTrait::Label { key, value }];
    }
    let requirements = &rule.labels.match_expressions;
    if let Some(one) = requirements.iter().find(|one| one.operator == "In") {
        return one.values.iter().map(|value| RequiredTrait::Label { key: &one.key, value }).collect();
    }
    let exists = requirements.iter().find(|one| one.operator == "Exists");
    vec![exists.map_or(RequiredTrait::Nothing, |one| RequiredTrait::LabelKey(&one.key))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use federate_kubernetes::Object;
    use federate_kubernetes::selector::{LabelSelector, SelectorRequirement};

    use crate::intent::ClusterRule;
    use serde_json::json;

    fn build_cluster(name: &str, labels: &[(&str, &str)]) -> Cluster {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let object = json!({"kind": "Cluster", "metadata": {"name": name, "labels": labels}});
        Cluster::from_object(&Object::from_manifest(object, "cluster.yaml"))
    }

    fn require(key: &str, operator: &str, values: &[&str]) -> ClusterRule {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let requirement = SelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values };
        ClusterRule::from_labels(LabelSelector { match_expressions: vec![requirement], ..Default::default() })
    }

    #[test]
    fn the_greatest_weight_of_a_cluster_is_that_of_every_rule_tried_in_turn() {
        let pairs = [("region".to_owned(), "eu".to_owned())].into_iter().collect();
        let excluded = ClusterRule { excluded: ["m1".to_owned()].into(), ..ClusterRule::default() };
        let rules = [
            ClusterRule::from_names(["m1", "m2"]),
            ClusterRule { names: Some(["m1".to_owned()].into()), ..require("region", "In", &["us"]) },
            ClusterRule::from_labels(LabelSelector { match_labels: pairs, ..Default::default() }),
            require("region", "In", &["us", "ap"]),
            require("gpu", "Exists", &[]),
            require("gpu", "NotIn", &["a100"]),
            require("region", "DoesNotExist", &[]),
            excluded,
        ];
        let clusters = [
            build_cluster("m1", &[("region", "eu"), ("gpu", "a100")]),
            build_cluster("m2", &[("region", "us")]),
            build_cluster("m3", &[("gpu", "t4")]),
            build_cluster("m4", &[]),
        ];
        for first in 0..rules.len() {
            let ordered = rules[first..].iter().chain(&rules[..first]).cloned();
            let weights = ordered.zip(1..).map(|(clusters, weight)| ClusterWeight { clusters, weight });
            for count in 0..=rules.len() {
                let weights: Vec<ClusterWeight> = weights.clone().take(count).collect();
                let index = WeightIndex::new(&weights);
                for cluster in &clusters {
                    let matching = weights.iter().filter(|one| one.clusters.matches_cluster(cluster));
                    assert_eq!(index.find_greatest(cluster), matching.map(|one| one.weight).max());
                }
            }
        }
    }
}
