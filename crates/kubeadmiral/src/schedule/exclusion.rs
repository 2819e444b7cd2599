//! Why clusters are not used, with the field, the cluster or the object that each reason is about.

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

/// Why the chosen cluster at an index gets no replica.
pub(super) fn explain_no_share(
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&JoinedCluster<'_>],
    at: usize,
    bounds: &[Bounds],
) -> ClusterExclusion {
    let member = chosen[at];
    let name = member.cluster.name.as_ref();
    if subject.replicas <= 0 {
        return ClusterExclusion::new("eligible, but the object asks for 0 replicas", UnitCause::Replicas);
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
    if !wanted.binpack && super::compute_weights(subject, wanted, chosen)[at] <= 0 && bounds[at].min <= 0 {
        if wanted.cluster_weights().weights {
            return ClusterExclusion::by_field("eligible, but its weight is 0", "placement");
        }
        let why = "eligible, but it has no free resources to weigh it by";
        return ClusterExclusion::by_cluster(why, ClusterCause::Resources);
    }
    if receives_without_current(subject, wanted, chosen, at, bounds) {
        let why = "eligible, but replicas stay where they are";
        return ClusterExclusion::new(why, VerdictCause::PreviousPlan);
    }
    if wanted.binpack {
        let why = "eligible, but the clusters before it take all replicas";
        return ClusterExclusion::by_field(why, "replicasStrategy");
    }
    ClusterExclusion::new("eligible, but no replica is left for it", UnitCause::Replicas)
}

/// Whether a cluster would get replicas if the object were not placed anywhere.
fn receives_without_current(
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&JoinedCluster<'_>],
    at: usize,
    bounds: &[Bounds],
) -> bool {
    let fresh = SchedulingUnit {
        previous: &[],
        current: vec![None; subject.current.len()],
        estimates: super::CapacityEstimates::default(),
        ..*subject
    };
    let replicas = if wanted.binpack {
        super::fill_clusters(&fresh, wanted, chosen, bounds)
    } else {
        super::spread_replicas(&fresh, wanted, chosen, bounds, None)
    };
    replicas.get(at).is_some_and(|replicas| *replicas > 0)
}
