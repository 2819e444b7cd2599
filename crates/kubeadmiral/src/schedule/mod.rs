//! `KubeAdmiral`'s scheduler: filter, score, select, divide, for one object.
//!
//! Every cluster has an index in the inventory, which is in name order. Clusters that have not joined are
//! ignored.

use jiff::Timestamp;

use super::effective_policy::EffectivePolicy;
use super::migration::{Estimates, Migration};
use super::profile::{Filter, Plugins};
use federate_dialect::Placed;
use federate_kubernetes::Cluster;

mod binpack;
mod eligibility;
mod limits;
mod score;
mod select;
mod spread;
mod stats;
mod weights;

pub(super) use stats::GPU;

use eligibility::Eligibility;
use limits::Limits;
use stats::Stats;

/// A joined cluster.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) cluster: &'a Cluster,
    /// Its index in the inventory.
    pub(super) index: usize,
    stats: Stats,
    /// The resource scores for objects without GPUs.
    balanced: i64,
    least: i64,
}

impl<'a> Member<'a> {
    /// The joined clusters of the inventory.
    pub(super) fn all(clusters: &'a [Cluster]) -> Vec<Self> {
        let joined = clusters.iter().enumerate().filter(|(_, cluster)| cluster.joined);
        joined
            .map(|(index, cluster)| {
                let stats = Stats::of(cluster);
                Self { cluster, index, stats, balanced: stats.balanced(None), least: stats.least(None) }
            })
            .collect()
    }

    fn balanced(&self, gpu: Option<i64>) -> i64 {
        gpu.map_or(self.balanced, |gpu| self.stats.balanced(Some(gpu)))
    }

    fn least(&self, gpu: Option<i64>) -> i64 {
        gpu.map_or(self.least, |gpu| self.stats.least(Some(gpu)))
    }
}

/// The object to schedule.
pub(super) struct Subject<'s> {
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
    pub(super) estimates: Estimates,
    pub(super) keep_unschedulable: bool,
    pub(super) migration: &'s Migration,
    pub(super) now: Option<Timestamp>,
}

impl Subject<'_> {
    fn scheduled(&self, index: usize) -> bool {
        self.current.get(index).is_some_and(Option::is_some)
    }

    /// The current replicas.
    fn running(&self, index: usize) -> Option<i64> {
        self.current.get(index).copied().flatten().map(bounded)
    }

    fn evicts(&self, cluster: &str) -> bool {
        let until = self.migration.evicted.get(cluster);
        until.zip(self.now).is_some_and(|(until, now)| now < *until)
    }
}

/// The replicas of a placement by cluster index. Both lists are in name order. Where no number was decided, it
/// is `replicas`.
pub(super) fn by_index(previous: &[Placed], clusters: &[Cluster], replicas: i64) -> Vec<Option<i64>> {
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
const LARGEST: i64 = 1 << 48;

fn bounded(number: i64) -> i64 {
    number.clamp(-LARGEST, LARGEST)
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
pub(super) enum Outcome {
    /// The new placement, in name order.
    Placed(Vec<Placed>),
    /// Every cluster was refused.
    NoClusterFits,
    /// A plugin failed; nothing changes.
    Failed(String),
}

/// The trace of a decision for its explanation.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// By index: the filter that refused the cluster, and why.
    pub(super) refusals: Vec<Option<(Filter, String)>>,
    /// By index: the score of a cluster that passed.
    pub(super) scores: Vec<Option<i64>>,
    /// The steps of the computation.
    pub(super) steps: Vec<String>,
}

impl Trace {
    /// Returns an empty trace for an inventory of that size.
    pub(super) fn new(clusters: usize) -> Self {
        Self { refusals: vec![None; clusters], scores: vec![None; clusters], steps: Vec::new() }
    }
}

/// Schedules an object.
pub(super) fn schedule(
    members: &[Member<'_>],
    plugins: &Plugins,
    subject: &Subject<'_>,
    wanted: &EffectivePolicy<'_>,
    mut trace: Option<&mut Trace>,
) -> Outcome {
    if wanted.sticky && !subject.previous.is_empty() {
        if let Some(trace) = trace {
            trace.steps.push("it is already placed, and rescheduling is disabled".to_owned());
        }
        return Outcome::Placed(subject.previous.to_vec());
    }
    let eligibility = Eligibility::new(subject, wanted);
    let mut feasible: Vec<&Member<'_>> = Vec::with_capacity(members.len());
    for member in members {
        match eligibility.refusal(&plugins.filters, member) {
            None => feasible.push(member),
            Some(filter) => {
                if let Some(trace) = &mut trace {
                    trace.refusals[member.index] = Some((filter, eligibility.why(filter, member)));
                }
            }
        }
    }
    if feasible.is_empty() {
        return Outcome::NoClusterFits;
    }
    let scores = score::scores(&plugins.scores, subject, wanted, &feasible);
    let chosen = scores.and_then(|scores| {
        if let Some(trace) = &mut trace {
            for (member, score) in feasible.iter().zip(&scores) {
                trace.scores[member.index] = Some(*score);
            }
        }
        select::select(&plugins.selects, wanted, &feasible, scores)
    });
    let chosen = match chosen {
        Ok(chosen) => chosen.into_iter().map(|(member, _)| member).collect::<Vec<_>>(),
        Err(why) => return Outcome::Failed(why),
    };
    let mut placed: Vec<Placed> = if wanted.divide {
        divide(subject, wanted, &chosen, trace)
    } else {
        chosen.iter().map(|m| Placed { name: m.cluster.name.clone(), replicas: None }).collect()
    };
    placed.sort_by(|a, b| a.name.cmp(&b.name));
    Outcome::Placed(placed)
}

/// Divides the replicas among the chosen clusters. Clusters that get none are dropped.
fn divide(
    subject: &Subject<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&Member<'_>],
    trace: Option<&mut Trace>,
) -> Vec<Placed> {
    if subject.replicas <= 0 || chosen.is_empty() {
        return Vec::new();
    }
    let total = bounded(subject.replicas);
    let bounds: Vec<Bounds> = chosen.iter().map(|m| bounds(subject, wanted, m)).collect();
    let by_name = |map: &std::collections::BTreeMap<String, i64>| -> Vec<Option<i64>> {
        chosen.iter().map(|m| map.get(m.cluster.name.as_ref()).copied().map(bounded)).collect()
    };
    let limits =
        Limits::new(by_name(&subject.estimates.estimated_capacity), by_name(&subject.migration.limits));
    let how = Rescheduling {
        avoid_disruption: wanted.avoid_disruption,
        keep_unschedulable: subject.keep_unschedulable,
    };
    let replicas = if wanted.binpack {
        let scheduled = by_name(&subject.estimates.scheduled_replicas);
        let replicas: Vec<Option<i64>> = chosen.iter().map(|m| subject.running(m.index)).collect();
        let kept = chosen.iter().filter(|m| subject.scheduled(m.index)).count();
        let lost = subject.previous.len() > kept;
        let awaited = awaited(subject, chosen);
        let current = binpack::Current { replicas: &replicas, scheduled: &scheduled, lost, awaited };
        binpack::plan(&bounds, &limits, &current, total, how)
    } else {
        let weights = weights(subject, wanted, chosen);
        let running: Vec<i64> = chosen.iter().map(|m| subject.running(m.index).unwrap_or(0)).collect();
        let shares: Vec<spread::Share> = chosen
            .iter()
            .zip(&weights)
            .zip(&bounds)
            .map(|((member, weight), bounds)| spread::Share {
                weight: *weight,
                bounds: *bounds,
                hash: spread::hash(&member.cluster.name, subject.key),
            })
            .collect();
        if let Some(trace) = trace {
            trace.steps.extend(spread_words(subject, wanted, chosen, &shares));
        }
        spread::plan(&shares, &limits, &running, total, how)
    };
    let given = chosen.iter().zip(replicas).filter(|(_, replicas)| *replicas != 0);
    given.map(|(m, replicas)| Placed { name: m.cluster.name.clone(), replicas: Some(replicas) }).collect()
}

fn bounds(subject: &Subject<'_>, wanted: &EffectivePolicy<'_>, member: &Member<'_>) -> Bounds {
    let mut max = wanted.max().max[member.index];
    let untolerated = member
        .cluster
        .taints
        .iter()
        .filter(|taint| taint.effect == "NoSchedule")
        .any(|taint| !super::affinity::tolerated(wanted.tolerations.iter(), taint));
    if untolerated {
        // Current replicas stay, and no cluster gets more.
        let running = subject.running(member.index).unwrap_or(0);
        max = Some(max.map_or(running, |max| max.min(running)));
    }
    Bounds { min: bounded(wanted.min().min[member.index]), max: max.map(bounded) }
}

fn weights(subject: &Subject<'_>, wanted: &EffectivePolicy<'_>, chosen: &[&Member<'_>]) -> Vec<i64> {
    let own = wanted.weights();
    if own.weights {
        return chosen.iter().map(|m| bounded(own.weight[m.index].unwrap_or(0))).collect();
    }
    let amounts = |m: &&Member<'_>| if subject.gpu.is_some() { m.stats.gpus } else { m.stats.cores };
    weights::dynamic(&chosen.iter().map(amounts).collect::<Vec<_>>())
}

/// Whether the outcome of the last plan is pending in a cluster that is not chosen.
fn awaited(subject: &Subject<'_>, chosen: &[&Member<'_>]) -> bool {
    let estimates = &subject.estimates;
    estimates
        .scheduled_replicas
        .iter()
        .filter(|(name, _)| !chosen.iter().any(|m| m.cluster.name.as_ref() == name.as_str()))
        .any(|(name, scheduled)| *scheduled != estimates.estimated_capacity.get(name).copied().unwrap_or(0))
}

fn spread_words(
    subject: &Subject<'_>,
    wanted: &EffectivePolicy<'_>,
    chosen: &[&Member<'_>],
    shares: &[spread::Share],
) -> Vec<String> {
    let whence = if wanted.weights().weights {
        "weights as written in the placement list".to_owned()
    } else {
        let resource = if subject.gpu.is_some() { GPU } else { "cpu" };
        format!("weights by free {resource}")
    };
    let mut words = vec![format!("{} replicas are divided, {whence}:", subject.replicas)];
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(shares[*at].weight), shares[*at].hash));
    words.extend(order.iter().map(|&at| {
        let Bounds { min, max } = shares[at].bounds;
        let most = max.map_or_else(String::new, |max| format!(", at most {max}"));
        let least = if min > 0 { format!(", at least {min}") } else { String::new() };
        let now = subject.running(chosen[at].index).map_or_else(String::new, |n| format!(", {n} now"));
        format!("  {}: weight {}{least}{most}{now}", chosen[at].cluster.name, shares[at].weight)
    }));
    if wanted.avoid_disruption && subject.previous.iter().any(|p| p.replicas.is_some()) {
        words.push("only the change of the total is divided: disruption is avoided".to_owned());
    }
    words
}
