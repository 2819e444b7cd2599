//! The eligibility of clusters under a policy's placement, computed once, and the filters of one object.
//!
//! Facts: the filters are API enablement, taints, affinity, spread properties and eviction, in this
//! order; clusters that hold the object already pass the first two, or the first one with a condition.

use std::collections::HashMap;

use super::SchedulingSubject;
use crate::api::{AffinityTerm, KarmadaPlacement, KarmadaToleration};
use crate::version::HeldApi;
use federate_kubernetes::{Cluster, Taint, work};

/// The parts of the filters that depend only on the policy, by cluster index.
pub(crate) struct PolicyEligibility {
    /// Clusters that may hold the object without serving its kind.
    held_unserved: Vec<bool>,
    /// Clusters with a taint that the policy does not tolerate.
    untolerated: Vec<bool>,
    /// Clusters that lack a property that a spread constraint needs.
    lacking: Vec<bool>,
    /// The affinity groups, in order; one nameless group when there are no ordered ones.
    pub(super) terms: Vec<AffinityGroup>,
    /// Static weights: the largest of any entry that matches, 0 for none. Empty without a list.
    pub(super) weights: Vec<i64>,
}

/// One affinity group.
pub(super) struct AffinityGroup {
    /// Its name, when it is one of ordered groups.
    pub(super) name: Option<String>,
    /// Whether it has overflow affinities.
    pub(super) overflows: bool,
    /// By cluster: 0 for the group's own affinity, n for its nth overflow affinity.
    tiers: Vec<Option<u16>>,
}

impl PolicyEligibility {
    pub(crate) fn new(placement: &KarmadaPlacement, clusters: &[Cluster], held_api: HeldApi) -> Self {
        let held_unserved = clusters.iter().map(|c| match held_api {
            HeldApi::Passes => true,
            HeldApi::ServedOrIncomplete => !c.apis_complete,
        });
        Self {
            held_unserved: held_unserved.collect(),
            untolerated: clusters.iter().map(|c| find_untolerated_taint(placement, c).is_some()).collect(),
            lacking: clusters.iter().map(|c| missing_property(placement, c).is_some()).collect(),
            terms: read_affinity_groups(placement, clusters),
            weights: read_static_weights(placement, clusters),
        }
    }

    /// Whether any affinity group selects the cluster.
    pub(crate) fn selects_cluster(&self, index: usize) -> bool {
        self.terms.iter().any(|term| term.tiers[index].is_some())
    }

    /// The tier in which the cluster is a candidate, or the name of the filter that refuses it.
    pub(super) fn find_tier(
        &self,
        term: &AffinityGroup,
        subject: &SchedulingSubject<'_>,
        index: usize,
    ) -> Result<u16, SchedulerFilter> {
        let holds = subject.is_held_by(index);
        let served = subject.served.get(index).copied().unwrap_or(false);
        if !(served || holds && self.held_unserved[index]) {
            return Err(SchedulerFilter::ApiEnablement);
        }
        if !holds && self.untolerated[index] {
            return Err(SchedulerFilter::TaintToleration);
        }
        let tier = match term.tiers[index] {
            Some(tier) if tier == 0 || subject.workload.is_workload() => tier,
            _ => return Err(SchedulerFilter::ClusterAffinity),
        };
        if self.lacking[index] {
            return Err(SchedulerFilter::SpreadConstraint);
        }
        if subject.evicting.contains(&index) {
            return Err(SchedulerFilter::ClusterEviction);
        }
        Ok(tier)
    }
}

/// Why a filter refuses a cluster, in words.
pub(super) fn refusal_reason(
    filter: SchedulerFilter,
    placement: &KarmadaPlacement,
    cluster: &Cluster,
    kind: &str,
) -> String {
    match filter {
        SchedulerFilter::ApiEnablement => format!("it does not report to serve {kind}"),
        SchedulerFilter::TaintToleration => {
            let shown = find_untolerated_taint(placement, cluster).map_or_else(String::new, |t| {
                let value = if t.value.is_empty() { String::new() } else { format!("={}", t.value) };
                format!(" `{}{value}:{}`", t.key, t.effect)
            });
            format!("the policy does not tolerate its taint{shown}")
        }
        SchedulerFilter::ClusterAffinity => "the policy's cluster affinity does not select it".to_owned(),
        SchedulerFilter::SpreadConstraint => {
            let property = missing_property(placement, cluster).unwrap_or_default();
            format!("a spread constraint needs its {property}, which is not given")
        }
        SchedulerFilter::ClusterEviction => "the object is being evicted from it".to_owned(),
    }
}

/// The filters, by the names Karmada gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SchedulerFilter {
    ApiEnablement,
    TaintToleration,
    ClusterAffinity,
    SpreadConstraint,
    ClusterEviction,
}

impl SchedulerFilter {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ApiEnablement => "APIEnablement",
            Self::TaintToleration => "TaintToleration",
            Self::ClusterAffinity => "ClusterAffinity",
            Self::SpreadConstraint => "SpreadConstraint",
            Self::ClusterEviction => "ClusterEviction",
        }
    }
}

/// The first taint of the cluster that keeps objects of this policy away.
fn find_untolerated_taint<'c>(placement: &KarmadaPlacement, cluster: &'c Cluster) -> Option<&'c Taint> {
    cluster.taints.iter().find(|taint| {
        work::charge_items(placement.cluster_tolerations.len());
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !placement.cluster_tolerations.iter().any(|t| tolerates_taint(t, taint))
    })
}

pub(crate) fn tolerates_taint(toleration: &KarmadaToleration, taint: &Taint) -> bool {
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => toleration.value == taint.value,
            _ => false,
        }
}

fn missing_property(placement: &KarmadaPlacement, cluster: &Cluster) -> Option<&'static str> {
    placement.spread_constraints.iter().find_map(|constraint| match constraint.spread_by_field.as_str() {
        "provider" if cluster.provider.is_empty() => Some("provider"),
        "region" if cluster.region.is_empty() => Some("region"),
        "zone" if cluster.zones.is_empty() => Some("zones"),
        _ => None,
    })
}

fn read_affinity_groups(placement: &KarmadaPlacement, clusters: &[Cluster]) -> Vec<AffinityGroup> {
    if placement.cluster_affinity.is_none() && !placement.cluster_affinities.is_empty() {
        return placement.cluster_affinities.iter().map(|term| ordered_term(term, clusters)).collect();
    }
    let affinity = placement.cluster_affinity.as_ref();
    let tiers = clusters
        .iter()
        .map(|cluster| affinity.is_none_or(|affinity| affinity.selects_cluster(cluster)).then_some(0))
        .collect();
    vec![AffinityGroup { name: None, overflows: false, tiers }]
}

fn ordered_term(term: &AffinityTerm, clusters: &[Cluster]) -> AffinityGroup {
    let tiers = clusters.iter().map(|cluster| {
        if term.affinity.selects_cluster(cluster) {
            return Some(0);
        }
        term.overflow_affinities
            .iter()
            .position(|o| o.affinity.selects_cluster(cluster))
            .and_then(|at| u16::try_from(at + 1).ok())
    });
    AffinityGroup {
        name: Some(term.affinity_name.clone()),
        overflows: !term.overflow_affinities.is_empty(),
        tiers: tiers.collect(),
    }
}

fn read_static_weights(placement: &KarmadaPlacement, clusters: &[Cluster]) -> Vec<i64> {
    let list = placement
        .replica_scheduling
        .as_ref()
        .and_then(|r| r.weight_preference.as_ref())
        .map_or(&[][..], |w| &w.static_weight_list);
    if list.is_empty() {
        return Vec::new();
    }
    // Most entries only name clusters.
    let (named, other): (Vec<_>, Vec<_>) = list.iter().partition(|entry| entry.target_cluster.only_names());
    let mut by_name: HashMap<&str, i64> = HashMap::new();
    for entry in named {
        for name in &entry.target_cluster.cluster_names {
            let weight = by_name.entry(name).or_insert(entry.weight);
            *weight = (*weight).max(entry.weight);
        }
    }
    let weights = clusters.iter().map(|cluster| {
        let matching = other.iter().filter(|entry| entry.target_cluster.selects_cluster(cluster));
        let named = by_name.get(cluster.name.as_ref()).copied();
        matching.map(|entry| entry.weight).chain(named).max().unwrap_or(0)
    });
    weights.collect()
}
