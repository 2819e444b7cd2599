//! The eligibility of clusters under a policy's placement, computed once, and the filters of one object.
//!
//! Facts: the filters are API enablement, taints, affinity, spread properties and eviction, in this
//! order; clusters that hold the object already pass the first two, or the first one with a condition.

use std::collections::HashMap;

use super::SchedulingSubject;
use crate::api::{AffinityTerm, KarmadaPlacement, KarmadaToleration};
use crate::policies::PropagationPolicy;
use crate::version::HeldApi;
use federate_dialect::{ClusterCause, VerdictCause};
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
            untolerated: clusters
                .iter()
                .map(|c| find_untolerated_taints(placement, c).next().is_some())
                .collect(),
            lacking: clusters.iter().map(|c| missing_properties(placement, c).next().is_some()).collect(),
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

/// Why a filter refuses a cluster.
pub(crate) struct FilterRefusal {
    /// The filter, by the name Karmada gives it.
    pub(crate) filter: &'static str,
    /// Why, in words.
    pub(crate) why: String,
    /// What the filter looks at.
    pub(crate) causes: Vec<VerdictCause>,
}

impl FilterRefusal {
    /// The refusal of a cluster that is being deleted.
    pub(super) fn by_deletion() -> Self {
        let causes = vec![VerdictCause::Cluster(ClusterCause::Deleting)];
        Self { filter: "deleting", why: "it is being deleted".to_owned(), causes }
    }

    /// The refusal by a filter under the affinity group at an index.
    pub(super) fn new(
        filter: SchedulerFilter,
        policy: &PropagationPolicy<'_>,
        group: usize,
        cluster: &Cluster,
        kind: &str,
    ) -> Self {
        let placement = &policy.spec.placement;
        let (why, causes) = match filter {
            SchedulerFilter::ApiEnablement => (
                format!("it does not report to serve {kind}"),
                vec![VerdictCause::Cluster(ClusterCause::Api)],
            ),
            SchedulerFilter::TaintToleration => {
                let taints: Vec<&Taint> = find_untolerated_taints(placement, cluster).collect();
                (describe_taints(&taints), taints.into_iter().map(VerdictCause::taint).collect())
            }
            SchedulerFilter::ClusterAffinity => {
                let why = "the policy's cluster affinity does not select it".to_owned();
                (why, vec![affinity_cause(policy, group)])
            }
            SchedulerFilter::SpreadConstraint => {
                let missing: Vec<&'static str> = missing_properties(placement, cluster).collect();
                let why =
                    format!("a spread constraint needs its {}, which is not given", missing.join(" and "));
                let causes = missing.into_iter().map(|field| ClusterCause::Location { field });
                (why, causes.map(VerdictCause::Cluster).collect())
            }
            SchedulerFilter::ClusterEviction => {
                ("the object is being evicted from it".to_owned(), vec![VerdictCause::PreviousPlan])
            }
        };
        Self { filter: filter.name(), why, causes }
    }
}

fn affinity_cause(policy: &PropagationPolicy<'_>, group: usize) -> VerdictCause {
    let id = &policy.object.id;
    let placement = &policy.spec.placement;
    if placement.cluster_affinity.is_some() || placement.cluster_affinities.is_empty() {
        return VerdictCause::field(id, "/spec/placement/clusterAffinity");
    }
    let path = format!("/spec/placement/clusterAffinities/{group}");
    VerdictCause::NotSelected { object: id.clone(), path }
}

fn describe_taints(taints: &[&Taint]) -> String {
    let shown: Vec<String> = taints
        .iter()
        .map(|taint| {
            let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
            format!("`{}{value}:{}`", taint.key, taint.effect)
        })
        .collect();
    let noun = if shown.len() == 1 { "taint" } else { "taints" };
    format!("the policy does not tolerate its {noun} {}", shown.join(" and "))
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

/// The taints of the cluster that keep objects of this policy away.
fn find_untolerated_taints<'c>(
    placement: &'c KarmadaPlacement,
    cluster: &'c Cluster,
) -> impl Iterator<Item = &'c Taint> {
    cluster.taints.iter().filter(|taint| {
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

/// The locations that spread constraints need and the cluster does not give.
fn missing_properties(placement: &KarmadaPlacement, cluster: &Cluster) -> impl Iterator<Item = &'static str> {
    let given = [
        ("provider", !cluster.provider.is_empty()),
        ("region", !cluster.region.is_empty()),
        ("zone", !cluster.zones.is_empty()),
    ];
    let missing = given.into_iter().filter(|(_, is_given)| !is_given).map(|(field, _)| field);
    missing.filter(|field| placement.spread_constraints.iter().any(|one| one.spread_by_field == *field))
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
