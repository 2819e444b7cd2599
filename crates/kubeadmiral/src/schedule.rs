//! `KubeAdmiral`'s scheduler: filter, score, select, divide, for one object.
//!
//! Every cluster has an index in the inventory, which is in name order. Clusters that have not joined are
//! ignored.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::effective_policy::EffectivePolicy;
use super::migration::{CapacityEstimates, MigrationConfiguration};
use super::profile::{FilterPlugin, Plugins};
use federate_dialect::{Placed, VerdictCause, compute_fnv1};
use federate_kubernetes::finding::count_replicas;
use federate_kubernetes::{Cluster, Taint};

mod binpack;
mod eligibility;
mod exclusion;
mod limits;
mod score;
mod selection;
mod spread;
mod stats;
mod weights;

pub(super) use exclusion::{ClusterExclusion, UnitCause};
pub(super) use stats::GPU;

use eligibility::ClusterFilters;
use exclusion::ShareExplainer;
use limits::ReplicaLimits;
use stats::ClusterStats;

/// A joined cluster.
#[derive(Debug)]
pub(super) struct JoinedCluster<'a> {
    pub(super) cluster: &'a Cluster,
    /// Its index in the inventory.
    pub(super) index: usize,
    stats: ClusterStats,
    /// The resource scores for objects without GPUs.
    balanced: i64,
    least: i64,
}

impl<'a> JoinedCluster<'a> {
    /// The joined clusters of the inventory.
    pub(super) fn joined_clusters(clusters: &'a [Cluster]) -> Vec<Self> {
        let joined = clusters.iter().enumerate().filter(|(_, cluster)| cluster.joined);
        joined
            .map(|(index, cluster)| {
                let stats = ClusterStats::from_cluster(cluster);
                Self {
                    cluster,
                    index,
                    stats,
                    balanced: stats.balanced_score(None),
                    least: stats.least_allocated_score(None),
                }
            })
            .collect()
    }

    fn balanced_score(&self, gpu: Option<i64>) -> i64 {
        gpu.map_or(self.balanced, |gpu| self.stats.balanced_score(Some(gpu)))
    }

    fn least_allocated_score(&self, gpu: Option<i64>) -> i64 {
        gpu.map_or(self.least, |gpu| self.stats.least_allocated_score(Some(gpu)))
    }
}

/// The object to schedule.
pub(super) struct SchedulingUnit<'s> {
    /// API version and kind, for messages.
    pub(super) kind: &'s str,
    /// `namespace/name`, or the name alone.
    pub(super) key: &'s str,
    /// Which clusters serve its kind, by index.
    pub(super) served: &'s [bool],
    /// Its current clusters, in name order.
    pub(super) previous: &'s [Placed],
    /// Its current replicas, by index; all replicas where no number was decided.
    pub(super) current: Vec<Option<i64>>,
    /// The replicas to divide.
    pub(super) replicas: i64,
    /// The GPUs that a pod requests.
    pub(super) gpu: Option<i64>,
    /// The estimates of unschedulable replicas, and whether these stay where they are.
    pub(super) estimates: CapacityEstimates,
    pub(super) keep_unschedulable: bool,
    pub(super) migration: &'s MigrationConfiguration,
    pub(super) now: Option<Timestamp>,
}

impl SchedulingUnit<'_> {
    fn is_scheduled(&self, index: usize) -> bool {
        self.current.get(index).is_some_and(Option::is_some)
    }

    /// The current replicas.
    fn current_replicas(&self, index: usize) -> Option<i64> {
        self.current.get(index).copied().flatten().map(clamp_number)
    }

    fn is_evicted(&self, cluster: &str) -> bool {
        let until = self.migration.evicted.get(cluster);
        until.zip(self.now).is_some_and(|(until, now)| now < *until)
    }
}

/// The replicas of a placement by cluster index. Both lists are in name order. Where no number was decided, it
/// is `replicas`.
pub(super) fn replicas_by_index(
    previous: &[Placed],
    clusters: &[Cluster],
    replicas: i64,
) -> Vec<Option<i64>> {
    let mut current = vec![None; clusters.len()];
    for placed in previous {
        if let Ok(at) = clusters.binary_search_by(|c| c.name.cmp(&placed.name)) {
            current[at] = Some(placed.replicas.unwrap_or(replicas));
        }
    }
    current
}

/// The greatest number of replicas and the greatest weight. Larger ones count as this, so that sums do not
/// overflow.
const MAX_NUMBER: i64 = 1 << 48;

fn clamp_number(number: i64) -> i64 {
    number.clamp(-MAX_NUMBER, MAX_NUMBER)
}

/// Whether replicas may move.
#[derive(Clone, Copy, Debug)]
struct Rescheduling {
    avoid_disruption: bool,
    keep_unschedulable: bool,
}

/// The minimum and the maximum of a cluster.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    min: i64,
    max: Option<i64>,
}

/// The outcome of scheduling.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScheduleResult {
    /// The new placement, in name order.
    Placed(Vec<Placed>),
    /// Every cluster was refused.
    NoClusterFits,
    /// A plugin failed; nothing changes.
    Failed(String),
}

/// The trace of a decision for its explanation.
#[derive(Debug, Default)]
pub(super) struct ClusterTrace {
    /// By index: the filter that refused the cluster, and why.
    pub(super) refusals: Vec<Option<(FilterPlugin, ClusterExclusion)>>,
    /// By index: why a cluster that passed the filters is not used.
    pub(super) unused: Vec<Option<ClusterExclusion>>,
    /// Why the scheduler chose no cluster, if it did not.
    pub(super) held_back: Option<ClusterExclusion>,
    /// By index: the score of a cluster that passed.
    pub(super) scores: Vec<Option<i64>>,
    /// The steps of the computation.
    pub(super) steps: Vec<String>,
}

impl ClusterTrace {
    /// Returns an empty trace for an inventory of that size.
    pub(super) fn new(clusters: usize) -> Self {
        Self {
            refusals: vec![None; clusters],
            unused: vec![None; clusters],
            scores: vec![None; clusters],
            ..Self::default()
        }
    }
}

/// Schedules an object.
pub(super) fn schedule_unit(
    members: &[JoinedCluster<'_>],
    plugins: &Plugins,
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    mut trace: Option<&mut ClusterTrace>,
) -> ScheduleResult {
    if wanted.sticky && !subject.previous.is_empty() {
        if let Some(trace) = trace {
            let why = "it is already placed, and rescheduling is disabled";
            trace.steps.push(why.to_owned());
            trace.held_back = Some(ClusterExclusion::new(why, VerdictCause::PreviousPlan));
        }
        return ScheduleResult::Placed(subject.previous.to_vec());
    }
    let eligibility = ClusterFilters::new(subject, wanted);
    let mut feasible: Vec<&JoinedCluster<'_>> = Vec::with_capacity(members.len());
    for member in members {
        match eligibility.refusing_filter(&plugins.filters, member) {
            None => feasible.push(member),
            Some(filter) => {
                if let Some(trace) = &mut trace {
                    trace.refusals[member.index] =
                        Some((filter, eligibility.explain_refusal(filter, member)));
                }
            }
        }
    }
    if feasible.is_empty() {
        return ScheduleResult::NoClusterFits;
    }
    let scores = score::compute_scores(&plugins.scores, subject, wanted, &feasible);
    let chosen = scores.and_then(|scores| {
        if let Some(trace) = &mut trace {
            for (member, score) in feasible.iter().zip(&scores) {
                trace.scores[member.index] = Some(*score);
            }
        }
        selection::select_clusters(&plugins.selects, wanted, &feasible, scores)
    });
    let chosen = match chosen {
        Ok(chosen) => chosen.into_iter().map(|(member, _)| member).collect::<Vec<_>>(),
        Err(why) => return ScheduleResult::Failed(why),
    };
    if let Some(trace) = &mut trace {
        let taken: BTreeSet<usize> = chosen.iter().map(|member| member.index).collect();
        for member in feasible.iter().filter(|member| !taken.contains(&member.index)) {
            let why = "eligible, but maxClusters leaves it out: others come first";
            trace.unused[member.index] = Some(ClusterExclusion::by_field(why, "maxClusters"));
        }
    }
    let mut placed: Vec<Placed> = if wanted.divide {
        divide_replicas(subject, wanted, &chosen, trace)
    } else {
        chosen.iter().map(|m| Placed { name: m.cluster.name.clone(), replicas: None }).collect()
    };
    placed.sort_by(|a, b| a.name.cmp(&b.name));
    ScheduleResult::Placed(placed)
}

/// Divides the replicas among the chosen clusters. Clusters that get none are dropped.
fn divide_replicas(
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&JoinedCluster<'_>],
    trace: Option<&mut ClusterTrace>,
) -> Vec<Placed> {
    let bounds: Vec<Bounds> = chosen.iter().map(|m| cluster_bounds(subject, wanted, m)).collect();
    let mut steps = trace.is_some().then(Vec::new);
    let replicas = if subject.replicas <= 0 || chosen.is_empty() {
        vec![0; chosen.len()]
    } else if wanted.binpack {
        fill_clusters(subject, wanted, chosen, &bounds)
    } else {
        spread_replicas(subject, wanted, chosen, &bounds, steps.as_mut())
    };
    if let Some(trace) = trace {
        trace.steps.extend(steps.unwrap_or_default());
        let explainer = ShareExplainer::new(subject, wanted, chosen, &bounds);
        for (at, member) in chosen.iter().enumerate().filter(|(at, _)| replicas[*at] == 0) {
            trace.unused[member.index] = Some(explainer.explain_no_share(at));
        }
    }
    let given = chosen.iter().zip(replicas).filter(|(_, replicas)| *replicas != 0);
    given.map(|(m, replicas)| Placed { name: m.cluster.name.clone(), replicas: Some(replicas) }).collect()
}

fn replica_limits(subject: &SchedulingUnit<'_>, chosen: &[&JoinedCluster<'_>]) -> ReplicaLimits {
    ReplicaLimits::new(
        numbers_by_cluster(chosen, &subject.estimates.estimated_capacity),
        numbers_by_cluster(chosen, &subject.migration.limits),
    )
}

fn rescheduling(subject: &SchedulingUnit<'_>, wanted: &EffectivePolicy<'_>) -> Rescheduling {
    Rescheduling { avoid_disruption: wanted.avoid_disruption, keep_unschedulable: subject.keep_unschedulable }
}

/// Fills the chosen clusters one after the other.
fn fill_clusters(
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&JoinedCluster<'_>],
    bounds: &[Bounds],
) -> Vec<i64> {
    let scheduled = numbers_by_cluster(chosen, &subject.estimates.scheduled_replicas);
    let replicas: Vec<Option<i64>> = chosen.iter().map(|m| subject.current_replicas(m.index)).collect();
    let kept = chosen.iter().filter(|m| subject.is_scheduled(m.index)).count();
    let lost = subject.previous.len() > kept;
    let awaited = awaits_estimate(subject, chosen);
    let current = binpack::CurrentReplicas { replicas: &replicas, scheduled: &scheduled, lost, awaited };
    let limits = replica_limits(subject, chosen);
    let total = clamp_number(subject.replicas);
    binpack::plan_binpack(bounds, &limits, &current, total, rescheduling(subject, wanted))
}

/// Spreads the replicas over the chosen clusters by weight.
fn spread_replicas(
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&JoinedCluster<'_>],
    bounds: &[Bounds],
    steps: Option<&mut Vec<String>>,
) -> Vec<i64> {
    let weights = compute_weights(subject, wanted, chosen);
    let running: Vec<i64> = chosen.iter().map(|m| subject.current_replicas(m.index).unwrap_or(0)).collect();
    let shares: Vec<spread::SpreadShare> = chosen
        .iter()
        .zip(&weights)
        .zip(bounds)
        .map(|((member, weight), bounds)| spread::SpreadShare {
            weight: *weight,
            bounds: *bounds,
            hash: compute_fnv1(member.cluster.name.bytes().chain(subject.key.bytes())),
        })
        .collect();
    if let Some(steps) = steps {
        steps.extend(describe_spread(subject, wanted, chosen, &shares));
    }
    let total = clamp_number(subject.replicas);
    let limits = replica_limits(subject, chosen);
    spread::plan_spread(&shares, &limits, &running, total, rescheduling(subject, wanted))
}

/// The number of each cluster in a map by cluster name.
fn numbers_by_cluster(clusters: &[&JoinedCluster<'_>], numbers: &BTreeMap<String, i64>) -> Vec<Option<i64>> {
    clusters.iter().map(|m| numbers.get(m.cluster.name.as_ref()).copied().map(clamp_number)).collect()
}

/// The taints with which a cluster gets no more replicas.
fn untolerated_by_division<'c>(
    wanted: &'c EffectivePolicy<'_>,
    member: &'c JoinedCluster<'_>,
) -> impl Iterator<Item = &'c Taint> {
    let taints = member.cluster.taints.iter().filter(|taint| taint.effect == "NoSchedule");
    taints.filter(|taint| !super::affinity::is_tolerated(wanted.tolerations.iter(), taint))
}

fn cluster_bounds(
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    member: &JoinedCluster<'_>,
) -> Bounds {
    let mut max = wanted.max_replicas().max[member.index];
    if untolerated_by_division(wanted, member).next().is_some() {
        // Current replicas stay, and no cluster gets more.
        let running = subject.current_replicas(member.index).unwrap_or(0);
        max = Some(max.map_or(running, |max| max.min(running)));
    }
    Bounds { min: clamp_number(wanted.min_replicas().min[member.index]), max: max.map(clamp_number) }
}

fn compute_weights(
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&JoinedCluster<'_>],
) -> Vec<i64> {
    let own = wanted.cluster_weights();
    if own.weights {
        return chosen.iter().map(|m| clamp_number(own.weight[m.index].unwrap_or(0))).collect();
    }
    let stats = chosen.iter().map(|m| m.stats);
    let amounts: Vec<_> = match subject.gpu {
        Some(_) => stats.map(|stats| stats.gpus).collect(),
        None => stats.map(|stats| stats.cores).collect(),
    };
    weights::weigh_free_resources(&amounts)
}

/// Whether the outcome of the last plan is pending in a cluster that is not chosen.
fn awaits_estimate(subject: &SchedulingUnit<'_>, chosen: &[&JoinedCluster<'_>]) -> bool {
    let estimates = &subject.estimates;
    estimates
        .scheduled_replicas
        .iter()
        .filter(|(name, _)| !chosen.iter().any(|m| m.cluster.name.as_ref() == name.as_str()))
        .any(|(name, scheduled)| *scheduled != estimates.estimated_capacity.get(name).copied().unwrap_or(0))
}

fn describe_spread(
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&JoinedCluster<'_>],
    shares: &[spread::SpreadShare],
) -> Vec<String> {
    let whence = if wanted.cluster_weights().weights {
        "weights as written in the placement list".to_owned()
    } else {
        let resource = if subject.gpu.is_some() { GPU } else { "cpu" };
        format!("weights by free {resource}")
    };
    let mut words = vec![format!("{} to divide, {whence}:", count_replicas(subject.replicas))];
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(shares[*at].weight), shares[*at].hash));
    words.extend(order.iter().map(|&at| {
        let Bounds { min, max } = shares[at].bounds;
        let most = max.map_or_else(String::new, |max| format!(", at most {max}"));
        let least = if min > 0 { format!(", at least {min}") } else { String::new() };
        let now =
            subject.current_replicas(chosen[at].index).map_or_else(String::new, |n| format!(", {n} now"));
        format!("  {}: weight {}{least}{most}{now}", chosen[at].cluster.name, shares[at].weight)
    }));
    if wanted.avoid_disruption && subject.previous.iter().any(|p| p.replicas.is_some()) {
        words.push("only the change of the total is divided: disruption is avoided".to_owned());
    }
    words
}
