//! Preferences for the division of replicas over clusters, which `KubeFed` and Federation v1 share.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::{Object, Origin};
use serde::Deserialize;
use serde_json::Value;

use super::read_selector;
use crate::intent::{ClusterRule, ClusterWeight, ReplicaRule, unequal_rule};
use crate::{Reason, UnequalRule};

/// The entry for clusters without one of their own.
const OTHERS: &str = "*";

/// How replicas are divided.
pub(super) struct Division {
    /// The clusters that take part.
    pub clusters: ClusterRule,
    pub replicas: ReplicaRule,
    pub total: i64,
    pub unequal: Vec<UnequalRule>,
}

/// The preferences of a cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preference {
    #[serde(deserialize_with = "federate_kubernetes::selector::null_default")]
    pub weight: i64,
    #[serde(deserialize_with = "federate_kubernetes::selector::null_default")]
    pub min_replicas: i64,
    pub max_replicas: Option<i64>,
}

/// The preferences of all clusters.
pub(super) struct Preferences {
    pub clusters: BTreeMap<String, Preference>,
    pub rebalance: bool,
}

/// Where preferences stand.
pub(super) struct PreferencePlace<'o> {
    pub origin: &'o Origin,
    /// The pointer of the preferences.
    pub pointer: String,
}

/// Reads a `ReplicaSchedulingPreference`. All clusters take part that are ready, whatever the placements select, unless it asks
/// for their selectors.
pub(super) fn read_preference(preference: &Object, federated: &Object, namespace: &ClusterRule) -> Division {
    let at = |key: &str| preference.value_at(&["spec", key]);
    let is_true = |key: &str| at(key) == Some(&Value::Bool(true));
    let mut clusters: BTreeMap<String, Preference> =
        at("clusters").and_then(|clusters| BTreeMap::deserialize(clusters).ok()).unwrap_or_default();
    if clusters.is_empty() {
        clusters.insert(OTHERS.to_owned(), Preference { weight: 1, ..Preference::default() });
    }
    let preferences = Preferences { clusters, rebalance: is_true("rebalance") };
    let place = PreferencePlace { origin: &preference.origin, pointer: "/spec".to_owned() };
    let mut division = divide_by_preferences(&preferences, &place);
    division.total = at("totalReplicas").and_then(Value::as_i64).unwrap_or_default();
    if is_true("intersectWithClusterSelector") {
        division.clusters = division.clusters.intersect(&read_selector(federated));
    } else if !namespace.is_everywhere() && !namespace.includes_names(&division.clusters) {
        let detail = "replicas for clusters in which the namespace is not federated are lost";
        division.unequal.push(unequal_rule(
            Reason::NamespaceAnd,
            detail,
            Some(place.origin),
            "/spec/intersectWithClusterSelector",
        ));
    }
    division
}

/// Static weights from preferences. Least and most replicas have no equal.
pub(super) fn divide_by_preferences(preferences: &Preferences, place: &PreferencePlace<'_>) -> Division {
    let mut unequal = Vec::new();
    let mut add = |reason: Reason, detail: String, below: &str| {
        let pointer = format!("{}{below}", place.pointer);
        unequal.push(unequal_rule(reason, detail, Some(place.origin), pointer));
    };
    add(Reason::Readiness, "only ready clusters take part in the division".to_owned(), "");
    add(Reason::Capacity, "replicas that cannot be scheduled in a cluster go to others".to_owned(), "");
    add(Reason::Rounding, "shares are rounded up in the order of weights".to_owned(), "/clusters");
    let mut weights: BTreeMap<&str, i64> =
        preferences.clusters.iter().map(|(name, one)| (name.as_str(), one.weight)).collect();
    if weights.values().all(|weight| *weight <= 0) {
        // Only the least replicas are given out.
        weights = preferences.clusters.iter().map(|(name, one)| (name.as_str(), one.min_replicas)).collect();
    }
    for (name, one) in &preferences.clusters {
        let key = format!("/clusters/{}", federate_kubernetes::pointer::escape(name));
        if one.min_replicas > 0 {
            let detail = format!("minReplicas: {} of {name}", one.min_replicas);
            add(Reason::MinMax, detail, &format!("{key}/minReplicas"));
        }
        if let Some(most) = one.max_replicas {
            let detail = format!("maxReplicas: {most} of {name}");
            add(Reason::MinMax, detail, &format!("{key}/maxReplicas"));
        }
    }
    let detail = "a cluster whose share is 0 has the object with 0 replicas";
    add(Reason::ZeroWeight, detail.to_owned(), "/clusters");
    if !preferences.rebalance {
        add(
            Reason::Sticky,
            "`rebalance` is off: replicas that run stay where they are".to_owned(),
            "/rebalance",
        );
    }
    let (named, others) = (weights.iter().filter(|(name, _)| **name != OTHERS), weights.get(OTHERS));
    let mut by_weight: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    let mut without = BTreeSet::new();
    for (name, weight) in named {
        match *weight {
            weight if weight > 0 => drop(by_weight.entry(weight).or_default().insert((*name).to_owned())),
            _ => drop(without.insert((*name).to_owned())),
        }
    }
    let mut entries: Vec<ClusterWeight> = by_weight
        .iter()
        .rev()
        .map(|(weight, names)| ClusterWeight {
            clusters: ClusterRule::from_names(names.iter().cloned()),
            weight: *weight,
        })
        .collect();
    let mut clusters = match others.filter(|weight| **weight > 0) {
        Some(weight) => {
            let excluded = by_weight.values().flatten().cloned().collect();
            let rest = ClusterRule { excluded, ..ClusterRule::every_cluster() };
            entries.push(ClusterWeight { clusters: rest, weight: *weight });
            ClusterRule { excluded: without, ..ClusterRule::every_cluster() }
        }
        None => ClusterRule::from_names(by_weight.values().flatten().cloned()),
    };
    if entries.is_empty() {
        clusters = ClusterRule::nowhere();
    }
    if entries.len() == 1 {
        // All have the same weight.
        entries.clear();
    }
    Division { clusters, replicas: ReplicaRule::Weights(entries), total: 0, unequal }
}
