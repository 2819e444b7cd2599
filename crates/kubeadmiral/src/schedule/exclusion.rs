//! Why clusters are not used, with the field, the cluster or the object that each reason is about.

use std::cell::OnceCell;

use super::super::effective_policy::EffectivePolicy;
use super::{Bounds, JoinedCluster, SchedulingUnit};
use federate_dialect::{ClusterCause, VerdictCause};
use federate_kubernetes::Taint;

/// Why a cluster is not used.
#[derive(Clone, Debug)]
pub(crate) struct ClusterExclusion {
    /// In words.
    pub(crate) why: String,
    /// What it is about.
    pub(crate) causes: Vec<UnitCause>,
}

/// What an exclusion is about.
#[derive(Clone, Debug)]
pub(crate) enum UnitCause {
    /// A field in the `spec` of the policy, or the annotation of the template that replaces it.
    Field(&'static str),
    /// The migration configuration.
    Migration,
    /// The replicas of the template.
    Replicas,
    /// Anything else.
    Other(VerdictCause),
}

impl From<VerdictCause> for UnitCause {
    fn from(cause: VerdictCause) -> Self {
        Self::Other(cause)
    }
}

impl ClusterExclusion {
    pub(crate) fn new(why: impl Into<String>, cause: impl Into<UnitCause>) -> Self {
        Self { why: why.into(), causes: vec![cause.into()] }
    }

    pub(super) fn by_field(why: &str, field: &'static str) -> Self {
        Self::new(why, UnitCause::Field(field))
    }

    pub(super) fn by_cluster(why: impl Into<String>, cause: ClusterCause) -> Self {
        Self::new(why, VerdictCause::Cluster(cause))
    }

    pub(super) fn by_taints(taints: &[&Taint]) -> Self {
        let shown = taints.iter().map(|Taint { key, value, effect }| {
            let pair = if value.is_empty() { key.clone() } else { format!("{key}={value}") };
            format!("{pair}:{effect}")
        });
        let shown: Vec<String> = shown.collect();
        let (noun, verb) = if shown.len() == 1 { ("taint", "is") } else { ("taints", "are") };
        Self {
            why: format!("the {noun} {} {verb} not tolerated", shown.join(" and ")),
            causes: taints.iter().map(|taint| VerdictCause::taint(taint).into()).collect(),
        }
    }

    /// Adds another reason that holds as well.
    pub(super) fn add(&mut self, why: &str, field: &'static str) {
        if !self.why.is_empty() {
            self.why.push_str(", and ");
        }
        self.why.push_str(why);
        self.causes.push(UnitCause::Field(field));
    }
}

/// Says why chosen clusters get no replica. What is the same for all of them is computed once, when a reason needs it.
pub(super) struct ShareExplainer<'a> {
    subject: &'a SchedulingUnit<'a>,
    wanted: &'a EffectivePolicy<'a>,
    chosen: &'a [&'a JoinedCluster<'a>],
    bounds: &'a [Bounds],
    weights: OnceCell<Vec<i64>>,
    fresh_replicas: OnceCell<Vec<i64>>,
}

impl<'a> ShareExplainer<'a> {
    pub(super) fn new(
        subject: &'a SchedulingUnit<'a>,
        wanted: &'a EffectivePolicy<'a>,
        chosen: &'a [&'a JoinedCluster<'a>],
        bounds: &'a [Bounds],
    ) -> Self {
        Self { subject, wanted, chosen, bounds, weights: OnceCell::new(), fresh_replicas: OnceCell::new() }
    }

    /// Why the chosen cluster at an index gets no replica.
    pub(super) fn explain_no_share(&self, at: usize) -> ClusterExclusion {
        let Self { subject, wanted, bounds, .. } = self;
        let member = self.chosen[at];
        let name = member.cluster.name.as_ref();
        if subject.replicas <= 0 {
            return ClusterExclusion::new(
                "eligible, but the object asks for 0 replicas",
                UnitCause::Replicas,
            );
        }
        if subject.migration.limits.get(name).is_some_and(|limit| *limit <= 0) {
            return ClusterExclusion::new(
                "eligible, but the migration allows it no replica",
                UnitCause::Migration,
            );
        }
        if wanted.max_replicas().max[member.index].is_some_and(|max| max <= 0) {
            return ClusterExclusion::by_field("eligible, but its maxReplicas are 0", "placement");
        }
        if bounds[at].max.is_some_and(|max| max <= 0) {
            let taints: Vec<&Taint> = super::untolerated_by_division(wanted, member).collect();
            return ClusterExclusion::by_taints(&taints);
        }
        if subject.estimates.estimated_capacity.get(name).is_some_and(|capacity| *capacity <= 0) {
            let why = "eligible, but its replicas were unschedulable";
            return ClusterExclusion::new(why, VerdictCause::PreviousPlan);
        }
        if !wanted.binpack && self.weights()[at] <= 0 && bounds[at].min <= 0 {
            if wanted.cluster_weights().weights {
                return ClusterExclusion::by_field("eligible, but its weight is 0", "placement");
            }
            let why = "eligible, but it has no free resources to weigh it by";
            return ClusterExclusion::by_cluster(why, ClusterCause::Resources);
        }
        if self.fresh_replicas()[at] > 0 {
            let why = "eligible, but replicas stay where they are";
            return ClusterExclusion::new(why, VerdictCause::PreviousPlan);
        }
        if wanted.binpack {
            let why = "eligible, but the clusters before it take all replicas";
            return ClusterExclusion::by_field(why, "replicasStrategy");
        }
        ClusterExclusion::new("eligible, but no replica is left for it", UnitCause::Replicas)
    }

    fn weights(&self) -> &[i64] {
        self.weights.get_or_init(|| super::compute_weights(self.subject, self.wanted, self.chosen))
    }

    /// What each chosen cluster would get if the object were not placed anywhere.
    fn fresh_replicas(&self) -> &[i64] {
        self.fresh_replicas.get_or_init(|| {
            let fresh = SchedulingUnit {
                previous: &[],
                current: vec![None; self.subject.current.len()],
                estimates: super::CapacityEstimates::default(),
                ..*self.subject
            };
            if self.wanted.binpack {
                super::fill_clusters(&fresh, self.wanted, self.chosen, self.bounds)
            } else {
                super::spread_replicas(&fresh, self.wanted, self.chosen, self.bounds, None)
            }
        })
    }
}
