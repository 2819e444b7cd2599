//! Karmada's scheduler: filter, score, select, assign, for one object under one policy.
//!
//! ```text
//! trigger? ─► for each affinity group: filter ─► order ─► select (spread) ─► assign (replicas)
//! ```
//!
//! Every cluster is known by its index in the inventory, which is in name order.

use std::collections::BTreeMap;

use super::api::{KarmadaPlacement, ReplicaScheduling};
use super::policies::PropagationPolicy;
use super::version::{CapacityReason, DeletingClusters, KarmadaBehaviour, Reschedule};
use super::workload::Workload;
use federate_kubernetes::{Cluster, ClusterName};

mod assignment;
mod combination;
mod division;
mod eligibility;
mod estimate;
mod grades;
mod pdqsort;
mod region;
mod remainder;
mod selection;
mod trigger;
mod webster;

pub(super) use division::{compute_shares, random_parties};
pub(super) use eligibility::{FilterRefusal, PolicyEligibility, tolerates_taint};
pub(super) use estimate::Estimator;
pub(super) use selection::ignores_spread_constraints;
pub(super) use trigger::{LastScheduling, reschedule_reason};

use eligibility::{AffinityGroup, SchedulerFilter};

/// The score of a cluster that holds the object already.
const LOCALITY_SCORE: i64 = 100;

/// The object that is scheduled.
pub(super) struct SchedulingSubject<'s> {
    /// API version and kind, for messages.
    pub(super) kind: &'s str,
    pub(super) workload: &'s Workload,
    /// Which clusters serve its kind, by index.
    pub(super) served: &'s [bool],
    /// Its present clusters with replicas (0 for none), sorted by index, without clusters that have left the
    /// inventory.
    pub(super) previous: &'s [(usize, i64)],
    /// Its present clusters that have left the inventory, by name. Their indices follow those of the inventory.
    pub(super) departed: &'s [(ClusterName, i64)],
    /// Its present clusters in the scheduler's order, if that is not the order of names.
    pub(super) order: &'s [usize],
    /// Clusters it is being evicted from.
    pub(super) evicting: &'s [usize],
    /// The affinity group last observed.
    pub(super) affinity: Option<&'s str>,
    /// Whether a fresh scheduling is requested.
    pub(super) fresh: bool,
    /// Whether equal shares go to later names first.
    pub(super) descending: bool,
}

impl SchedulingSubject<'_> {
    fn previous_replicas(&self, index: usize) -> Option<i64> {
        let at = self.previous.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        Some(self.previous[at].1)
    }

    fn is_held_by(&self, index: usize) -> bool {
        self.previous_replicas(index).is_some()
    }

    /// 100 for a cluster that holds the object already, else 0.
    pub(super) fn locality_score(&self, index: usize) -> i64 {
        if self.is_held_by(index) { LOCALITY_SCORE } else { 0 }
    }
}

/// How replicas are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DivisionStrategy {
    Duplicated,
    Static,
    Dynamic,
    Aggregated,
}

impl DivisionStrategy {
    pub(super) fn from_scheduling(scheduling: Option<&ReplicaScheduling>) -> Self {
        let Some(scheduling) = scheduling.filter(|s| s.replica_scheduling_type == "Divided") else {
            return Self::Duplicated;
        };
        let dynamic = scheduling.weight_preference.as_ref().is_some_and(|w| !w.dynamic_weight.is_empty());
        match scheduling.replica_division_preference.as_str() {
            "Aggregated" => Self::Aggregated,
            _ if dynamic => Self::Dynamic,
            _ => Self::Static,
        }
    }
}

/// A cluster that passed the filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) index: usize,
    /// Its affinity tier: 0, or the number of the overflow affinity.
    overflow: u16,
    /// 100 when it holds the object already.
    score: i64,
    /// The available replicas.
    allocatable: i64,
    /// The available replicas and those that it has.
    available: i64,
}

impl Candidate {
    /// Candidate order: tier, score, available replicas, name.
    fn candidate_order(a: &Self, b: &Self) -> std::cmp::Ordering {
        (a.overflow, b.score, b.available, a.index).cmp(&(b.overflow, a.score, a.available, b.index))
    }
}

/// The inputs while one affinity group is tried.
struct Scheduling<'s> {
    behaviour: &'s KarmadaBehaviour,
    clusters: &'s [Cluster],
    eligibility: &'s PolicyEligibility,
    placement: &'s KarmadaPlacement,
    subject: &'s SchedulingSubject<'s>,
    strategy: DivisionStrategy,
}

/// Why scheduling failed.
#[derive(Clone, Debug)]
pub(super) struct SchedulingFailure {
    pub(super) reason: SchedulingReason,
    pub(super) message: String,
    pub(super) step: FailedStep,
}

/// The Scheduled condition's reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchedulingReason {
    NoClusterFit,
    Unschedulable,
    SchedulerError,
}

impl SchedulingReason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NoClusterFit => "NoClusterFit",
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

impl SchedulingFailure {
    /// The spread constraints, or the affinity groups, leave nothing to choose.
    fn scheduler_error(message: impl Into<String>) -> Self {
        Self { reason: SchedulingReason::SchedulerError, message: message.into(), step: FailedStep::Spread }
    }

    /// The chosen clusters have too few available replicas.
    fn capacity_reason(behaviour: &KarmadaBehaviour, message: impl Into<String>) -> Self {
        let reason = match behaviour.capacity_reason {
            CapacityReason::SchedulerError => SchedulingReason::SchedulerError,
            CapacityReason::Unschedulable => SchedulingReason::Unschedulable,
        };
        Self { reason, message: message.into(), step: FailedStep::Division }
    }
}

/// Why a cluster that passes the filters does not receive the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnusedReason {
    /// The spread constraints choose others.
    Spread,
    /// The static weights name others.
    NoWeight,
    /// Its share by weight is less than one replica.
    Weight,
    /// No replica fits there.
    NoRoom,
    /// Its share by available replicas is less than one replica.
    Available,
    /// Fewer clusters take all replicas.
    Aggregated,
    /// The clusters of an earlier affinity take all replicas.
    EarlierTier,
    /// The object is scaled down in the clusters that have it, or does not move.
    Placed,
    /// The object asks for 0 replicas.
    NoReplicas,
}

/// Why no cluster receives the object anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldBack {
    /// The policy names another scheduler.
    OtherScheduler,
    /// The scheduling of its binding is suspended.
    Suspended,
    /// Nothing has changed that requires a scheduling.
    Kept,
    /// The scheduling failed.
    Failed,
}

/// The step of a scheduling that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailedStep {
    /// Every cluster is refused.
    Filter,
    /// The spread constraints cannot be satisfied.
    Spread,
    /// The replicas do not fit.
    Division,
}

/// What explains a decision, if that is recorded: its steps in words, and why clusters are left out.
#[derive(Debug, Default)]
pub(super) struct SchedulingTrace {
    steps: Option<Vec<String>>,
    /// By cluster index, of the affinity group that was tried last; the later entry counts.
    unused: BTreeMap<usize, UnusedReason>,
    /// Why no cluster receives the object anew, if so.
    pub(super) held_back: Option<HeldBack>,
    /// The step that failed for each affinity group that was tried.
    failed: Vec<(Option<String>, FailedStep)>,
}

impl SchedulingTrace {
    pub(super) fn with_recording() -> Self {
        Self { steps: Some(Vec::new()), ..Self::default() }
    }

    pub(super) fn into_steps(self) -> Vec<String> {
        self.steps.unwrap_or_default()
    }

    pub(super) fn add_step(&mut self, text: impl FnOnce() -> String) {
        self.add_steps(|| Some(text()));
    }

    /// Adds any number of steps.
    pub(super) fn add_steps(&mut self, text: impl FnOnce() -> Option<String>) {
        if let Some(steps) = &mut self.steps {
            steps.extend(text());
        }
    }

    /// Records why clusters are left out, if it turns out that they are.
    fn add_unused(&mut self, clusters: impl IntoIterator<Item = usize>, reason: UnusedReason) {
        if self.is_recorded() {
            self.unused.extend(clusters.into_iter().map(|index| (index, reason)));
        }
    }

    /// The step that failed for an affinity group, or else for the first one.
    pub(super) fn find_failed_step(&self, affinity: Option<&str>) -> Option<FailedStep> {
        let group = self.failed.iter().find(|(name, _)| name.as_deref() == affinity).or(self.failed.first());
        group.map(|(_, step)| *step)
    }

    fn is_recorded(&self) -> bool {
        self.steps.is_some()
    }

    /// Why a cluster that passes the filters is left out.
    pub(super) fn find_unused(&self, index: usize) -> Option<UnusedReason> {
        self.unused.get(&index).copied()
    }
}

/// The result of scheduling.
pub(super) struct Scheduled {
    /// Replicas by cluster index, sorted; `None` for objects that are not workloads.
    pub(super) clusters: Vec<(usize, Option<i64>)>,
    /// The affinity group that was used.
    pub(super) affinity: Option<String>,
    /// The clusters in the scheduler's own order: candidate order where nothing is divided, else by name.
    pub(super) order: Vec<usize>,
}

/// The scheduler over one inventory.
pub(super) struct Scheduler<'s> {
    pub(super) behaviour: &'s KarmadaBehaviour,
    pub(super) clusters: &'s [Cluster],
    pub(super) estimator: &'s Estimator,
}

impl Scheduler<'_> {
    /// Tries the affinity groups in order, from the one last observed; the first that succeeds is
    /// used. The reported failure is that of the first group.
    pub(super) fn schedule_subject(
        &self,
        subject: &SchedulingSubject<'_>,
        placement: &KarmadaPlacement,
        eligibility: &PolicyEligibility,
        trace: &mut SchedulingTrace,
    ) -> Result<Scheduled, SchedulingFailure> {
        let strategy = DivisionStrategy::from_scheduling(placement.replica_scheduling.as_ref());
        let scheduling = Scheduling {
            behaviour: self.behaviour,
            clusters: self.clusters,
            eligibility,
            placement,
            subject,
            strategy,
        };
        let estimates = self.estimator.estimate_replicas(subject.workload);
        let observed =
            eligibility.terms.iter().position(|t| t.name.is_some() && t.name.as_deref() == subject.affinity);
        let start = match self.behaviour.reschedule {
            Reschedule::FromFirst if subject.fresh => 0,
            _ => observed.unwrap_or(0),
        };
        let mut first_failure = None;
        for term in &eligibility.terms[start..] {
            if let Some(name) = &term.name {
                trace.add_step(|| format!("cluster affinity `{name}`:"));
            }
            match scheduling.try_term(term, &estimates, trace) {
                Ok(scheduled) => return Ok(Scheduled { affinity: term.name.clone(), ..scheduled }),
                Err(failure) => {
                    trace.add_step(|| format!("{}: {}", failure.reason.name(), failure.message));
                    if trace.is_recorded() {
                        trace.failed.push((term.name.clone(), failure.step));
                    }
                    first_failure.get_or_insert(failure);
                }
            }
        }
        Err(first_failure.unwrap_or_else(|| {
            SchedulingFailure::scheduler_error("the policy has no cluster affinity to try")
        }))
    }

    /// The filter that refuses each cluster, if one does; for the affinity group that was used, or else the first one.
    pub(super) fn explain_refusals(
        &self,
        subject: &SchedulingSubject<'_>,
        policy: &PropagationPolicy<'_>,
        eligibility: &PolicyEligibility,
        affinity: Option<&str>,
    ) -> Vec<Option<FilterRefusal>> {
        let terms = &eligibility.terms;
        let group = terms.iter().position(|term| term.name.as_deref() == affinity).unwrap_or(0);
        let clusters = self.clusters.iter().enumerate();
        clusters
            .map(|(index, cluster)| {
                if self.behaviour.deleting == DeletingClusters::Never && cluster.deleting {
                    return Some(FilterRefusal::by_deletion());
                }
                let filter = eligibility.find_tier(terms.get(group)?, subject, index).err()?;
                Some(FilterRefusal::new(filter, policy, group, cluster, subject.kind))
            })
            .collect()
    }

    /// The available replicas for the workload, by cluster index.
    pub(super) fn available_replicas(&self, workload: &Workload) -> Vec<i64> {
        self.estimator.estimate_replicas(workload)
    }
}

impl Scheduling<'_> {
    fn cluster_name(&self, index: usize) -> &ClusterName {
        cluster_name_at(self.clusters, self.subject.departed, index)
    }

    fn try_term(
        &self,
        term: &AffinityGroup,
        estimates: &[i64],
        trace: &mut SchedulingTrace,
    ) -> Result<Scheduled, SchedulingFailure> {
        let mut candidates = self.filter_clusters(term, estimates)?;
        candidates.sort_unstable_by(Candidate::candidate_order);
        trace.unused.clear();
        trace.add_unused(candidates.iter().map(|candidate| candidate.index), UnusedReason::Spread);
        let chosen = selection::select_clusters(self, candidates, trace)?;
        let mut clusters: Vec<(usize, Option<i64>)> = if self.subject.workload.is_workload() {
            let by_tier = term.overflows
                && matches!(self.strategy, DivisionStrategy::Dynamic | DivisionStrategy::Aggregated);
            let assigned = if by_tier {
                assignment::assign_tiers(self, &chosen, trace)?
            } else {
                assignment::assign_replicas(self, &chosen, trace)?
            };
            assigned.into_iter().map(|(index, replicas)| (index, Some(replicas))).collect()
        } else {
            chosen.iter().map(|c| (c.index, None)).collect()
        };
        let mut order = Vec::new();
        if self.strategy == DivisionStrategy::Duplicated {
            order.extend(clusters.iter().map(|(index, _)| *index));
        }
        clusters.sort_unstable_by_key(|(index, _)| *index);
        if order.is_empty() {
            order.extend(clusters.iter().map(|(index, _)| *index));
        }
        Ok(Scheduled { clusters, affinity: None, order })
    }

    fn filter_clusters(
        &self,
        term: &AffinityGroup,
        estimates: &[i64],
    ) -> Result<Vec<Candidate>, SchedulingFailure> {
        let mut candidates = Vec::with_capacity(self.clusters.len());
        let mut refused: Vec<SchedulerFilter> = Vec::new();
        let never = self.behaviour.deleting == DeletingClusters::Never;
        for (index, _) in self.clusters.iter().enumerate().filter(|(_, c)| !(never && c.deleting)) {
            match self.eligibility.find_tier(term, self.subject, index) {
                Ok(overflow) => {
                    let before = self.subject.previous_replicas(index);
                    candidates.push(Candidate {
                        index,
                        overflow,
                        score: self.subject.locality_score(index),
                        allocatable: estimates[index],
                        available: estimates[index] + before.unwrap_or(0),
                    });
                }
                Err(filter) => refused.push(filter),
            }
        }
        if candidates.is_empty() { Err(no_cluster_fit(refused)) } else { Ok(candidates) }
    }
}

fn no_cluster_fit(mut refused: Vec<SchedulerFilter>) -> SchedulingFailure {
    refused.sort_unstable();
    let reasons: Vec<String> = refused
        .chunk_by(|a, b| a == b)
        .filter_map(|same| Some(format!("{} {}", same.len(), describe_filter(*same.first()?))))
        .collect();
    let total = refused.len();
    let message = if total == 0 {
        "there are no clusters".to_owned()
    } else {
        format!("0/{total} clusters are available: {}", reasons.join(", "))
    };
    SchedulingFailure { reason: SchedulingReason::NoClusterFit, message, step: FailedStep::Filter }
}

fn describe_filter(filter: SchedulerFilter) -> &'static str {
    match filter {
        SchedulerFilter::ApiEnablement => "without the API of the kind",
        SchedulerFilter::TaintToleration => "with a taint that is not tolerated",
        SchedulerFilter::ClusterAffinity => "not selected by the cluster affinity",
        SchedulerFilter::SpreadConstraint => "without a property that a spread constraint needs",
        SchedulerFilter::ClusterEviction => "from which the object is being evicted",
    }
}

/// The index of a cluster in the inventory, by name.
pub(super) fn index_of(clusters: &[Cluster], name: &str) -> Option<usize> {
    clusters.binary_search_by(|c| c.name.as_ref().cmp(name)).ok()
}

/// The name of a cluster of the inventory, or of one that has left it.
pub(super) fn cluster_name_at<'c>(
    clusters: &'c [Cluster],
    departed: &'c [(ClusterName, i64)],
    index: usize,
) -> &'c ClusterName {
    match clusters.get(index) {
        Some(cluster) => &cluster.name,
        None => &departed[index - clusters.len()].0,
    }
}
