//! The scheduler: one evaluation of a placement, as a pure function of clusters, sets, scores and earlier decisions.
//!
//! ```text
//! sets ─► eligible clusters ─► predicates ─► taints ─► scores ─► the best, by total and name ─► groups
//! ```
//!
//! Facts: what does not depend on earlier decisions or scores (sets, predicates) is found once for each placement. The
//! first filter that refuses a cluster is its reason. A mistake in a filter or in the weights empties the decisions, a
//! malformed set leaves them as they are, and a negative number makes the controller of the hub panic.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::{ClusterName, Object, work};

use crate::api::{PlacementSpec, Toleration};
use crate::fleet::Member;
use crate::state::{Decisions, PlacementKey, placement_key};

pub(crate) mod add_on_scores;
pub(crate) mod groups;
pub(crate) mod hub;
pub(crate) mod predicate;
pub(crate) mod queue;
pub(crate) mod score;
pub(crate) mod taints;

use groups::{DecisionGroup, Grouping};
pub(crate) use hub::Hub;
use predicate::{PredicateError, Predicates, UnsupportedExpression};
use score::{PrioritizerScores, ScoreContext, Weights};
use taints::TolerationClock;

/// The annotation with which a placement is not evaluated.
pub(crate) const DISABLED: &str = "cluster.open-cluster-management.io/experimental-scheduling-disable";

/// The steps of a cluster in an evaluation, which is kept with its scores.
const STEPS_PER_CLUSTER: u64 = 32;

/// Why a placement does not select a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// No set of the placement has the cluster.
    ClusterSet,
    /// The cluster is being deleted.
    Deleting,
    /// No predicate matches.
    Predicate,
    /// A taint is not tolerated.
    TaintToleration,
    /// Others are better, and the number is reached.
    NumberOfClusters,
}

impl Rejection {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterSet => "ClusterSet",
            Self::Deleting => "Deleting",
            Self::Predicate => "Predicate",
            Self::TaintToleration => "TaintToleration",
            Self::NumberOfClusters => "NumberOfClusters",
        }
    }
}

/// What the sets of a placement have to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Eligibility {
    /// Its namespace has no binding of a set that exists.
    NoBindings,
    /// None of the sets that it names is bound.
    NoIntersection(Vec<String>),
    /// No set has a cluster that is not being deleted.
    AllEmpty(Vec<String>),
    /// The selector of a set is malformed.
    Malformed { set: String, mistake: String },
    /// There are clusters.
    Clusters,
}

/// A placement with what does not depend on earlier decisions.
#[derive(Debug)]
pub(crate) struct PlacementSubject<'a> {
    pub object: &'a Object,
    pub key: PlacementKey,
    pub spec: PlacementSpec,
    pub eligibility: Eligibility,
    /// Why each cluster is out before taints are looked at, in the order of the fleet.
    filtered: Vec<Option<Rejection>>,
    /// The predicates, or the mistake in them. It only shows if there is a cluster to look at.
    pub predicates: Result<Predicates, PredicateError>,
    pub weights: Result<Weights, String>,
}

impl<'a> PlacementSubject<'a> {
    /// Prepares a placement.
    pub(crate) fn new(object: &'a Object, hub: &Hub<'a>) -> Self {
        let spec = object.value_at(&["spec"]).unwrap_or(&Value::Null);
        let spec = Option::<PlacementSpec>::deserialize(spec).ok().flatten().unwrap_or_default();
        let key = placement_key(&object.id);
        let (eligibility, mut filtered) = find_eligible(hub, &key.0, &spec);
        let mut predicates = Predicates::compile(&spec.predicates);
        if let Ok(compiled) = &predicates {
            let matched = filter_members(compiled, hub, &mut filtered);
            if let Err(error) = matched {
                predicates = Err(error);
            }
        }
        let weights = Weights::read(&spec.prioritizer_policy);
        Self { object, key, spec, eligibility, filtered, predicates, weights }
    }

    /// Why it is not evaluated at all, so that its decisions stay.
    pub(crate) fn skipped(&self) -> Option<Skipped> {
        if self.object.is_deleting() {
            return Some(Skipped::Deleting);
        }
        (self.object.annotation(DISABLED) == Some("true")).then_some(Skipped::Disabled)
    }

    /// Whether what it selects may depend on the decisions of other placements.
    pub(crate) fn reads_others(&self) -> bool {
        let counts = self.spec.number_of_clusters.is_some_and(|number| number > 0);
        counts && self.weights.as_ref().is_ok_and(Weights::has_balance)
    }
}

/// Rejects the clusters that match no predicate.
fn filter_members(
    predicates: &Predicates,
    hub: &Hub<'_>,
    filtered: &mut [Option<Rejection>],
) -> Result<(), PredicateError> {
    for (member, rejection) in hub.fleet.members.iter().zip(filtered) {
        if work::is_exceeded() {
            break;
        }
        if rejection.is_none() && !predicates.matches(member, hub)? {
            *rejection = Some(Rejection::Predicate);
        }
    }
    Ok(())
}

/// Why a placement is not evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// It is being deleted.
    Deleting,
    /// An annotation disables its scheduling.
    Disabled,
}

/// Finds the sets that count for a placement, and the clusters in them.
fn find_eligible(
    hub: &Hub<'_>,
    namespace: &str,
    spec: &PlacementSpec,
) -> (Eligibility, Vec<Option<Rejection>>) {
    let none = |eligibility| {
        let reject = |deleting: bool| if deleting { Rejection::Deleting } else { Rejection::ClusterSet };
        let members = hub.fleet.members.iter();
        (eligibility, members.map(|member| Some(reject(member.cluster.deleting))).collect())
    };
    let bound = hub.bindings.get(namespace);
    let mut eligible: BTreeSet<&str> =
        bound.into_iter().flatten().copied().filter(|name| hub.sets.has(name)).collect();
    if eligible.is_empty() {
        return none(Eligibility::NoBindings);
    }
    if !spec.cluster_sets.is_empty() {
        eligible.retain(|name| spec.cluster_sets.iter().any(|wanted| wanted == name));
        if eligible.is_empty() {
            return none(Eligibility::NoIntersection(spec.cluster_sets.clone()));
        }
    }
    if let Some((set, mistake)) = eligible.iter().find_map(|set| Some((set, hub.sets.mistake(set)?))) {
        return none(Eligibility::Malformed { set: (*set).to_owned(), mistake: mistake.to_owned() });
    }
    let verdict = |member: &Member<'_>| {
        work::charge_items(eligible.len());
        if member.cluster.deleting {
            return Some(Rejection::Deleting);
        }
        let is_member = eligible.iter().any(|set| hub.sets.has_member(set, member) == Ok(true));
        (!is_member).then_some(Rejection::ClusterSet)
    };
    let verdicts: Vec<Option<Rejection>> = hub.fleet.members.iter().map(verdict).collect();
    if verdicts.iter().all(Option::is_some) {
        return none(Eligibility::AllEmpty(eligible.into_iter().map(str::to_owned).collect()));
    }
    (Eligibility::Clusters, verdicts)
}

/// Why an evaluation has no regular result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A mistake in the placement empties its decisions.
    Misconfigured {
        /// The part of the scheduler that found it; empty for weights and groups.
        plugin: &'static str,
        /// The hub's words.
        message: String,
    },
    /// The selector of a set is malformed: the decisions stay as they are.
    SyncError(String),
    /// The number of clusters is negative: the controller panics, and the decisions stay as they are.
    Panic,
    /// An expression in CEL is not reproduced: the decisions stay as they are.
    Expression(UnsupportedExpression),
}

/// The result of one evaluation.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The clusters that passed the filters, best first: the index in the inventory, and the total.
    pub ranking: Vec<(usize, i64)>,
    /// The scores, for clusters in the order of `ranking`.
    pub prioritizers: Vec<PrioritizerScores>,
    /// Why each cluster of the inventory is not selected; `None` for selected ones.
    pub rejected: Vec<Option<Rejection>>,
    /// The number of clusters that are selected.
    pub selected: usize,
    /// The decisions.
    pub groups: Vec<DecisionGroup>,
    /// The mistake in the groups, which drops decisions.
    pub group_mistake: Option<String>,
    /// How many clusters there are too few.
    pub unscheduled: i64,
    /// The scores of add-ons that have expired, as `NAMESPACE/NAME`.
    pub expired: BTreeSet<String>,
    /// Whether a toleration runs out later, so that the placement is evaluated again.
    pub requeue: bool,
    /// Why there is no regular result.
    pub failure: Option<Failure>,
}

impl Evaluation {
    fn failed(failure: Failure, clusters: usize) -> Self {
        Self {
            ranking: Vec::new(),
            prioritizers: Vec::new(),
            rejected: vec![None; clusters],
            selected: 0,
            groups: vec![DecisionGroup::default()],
            group_mistake: None,
            unscheduled: 0,
            expired: BTreeSet::new(),
            requeue: false,
            failure: Some(failure),
        }
    }

    /// Whether the decisions stay as they were.
    pub fn keeps_decisions(&self) -> bool {
        matches!(self.failure, Some(Failure::SyncError(_) | Failure::Panic | Failure::Expression(_)))
    }

    /// The clusters of all decisions, by group.
    pub fn decided(&self) -> impl Iterator<Item = &ClusterName> {
        self.groups.iter().flat_map(|group| &group.clusters)
    }
}

/// Evaluates a placement once.
pub(crate) fn evaluate(
    hub: &Hub<'_>,
    subject: &PlacementSubject<'_>,
    decisions: &Decisions,
    usage: &score::Usage,
) -> Evaluation {
    let members = &hub.fleet.members;
    work::charge_steps(STEPS_PER_CLUSTER * members.len() as u64);
    let failed = |failure| Evaluation::failed(failure, members.len());
    if let Eligibility::Malformed { set, mistake } = &subject.eligibility {
        let message = format!("failed to get clusters from ClusterSet {set:?}: {mistake}");
        return failed(Failure::SyncError(message));
    }
    let misconfigured =
        |plugin, message: &str| failed(Failure::Misconfigured { plugin, message: message.to_owned() });
    let own = score::Usage::from_placement(hub, decisions.of(&subject.key));
    let mut rejected = subject.filtered.clone();
    if rejected.iter().any(Option::is_none) {
        match &subject.predicates {
            Ok(_) => {}
            Err(PredicateError::Mistake(mistake)) => return misconfigured("Predicate", mistake),
            Err(PredicateError::Expression(one)) => return failed(Failure::Expression(one.clone())),
        }
        if let Some(mistake) = subject.spec.tolerations.iter().find_map(taints::find_mistake) {
            return misconfigured("TaintToleration", mistake);
        }
        for (at, (member, rejection)) in members.iter().zip(&mut rejected).enumerate() {
            let tolerations = &subject.spec.tolerations;
            let is_over = decisions.has_expired(&subject.key, &member.cluster.name);
            let clock = TolerationClock::new(hub.now, is_over);
            if rejection.is_none() && !taints::tolerates(member, tolerations, own.has(at), clock) {
                *rejection = Some(Rejection::TaintToleration);
            }
        }
    }
    let weights = match &subject.weights {
        Ok(weights) => weights,
        Err(mistake) => return misconfigured("", mistake),
    };
    let passed: Vec<usize> =
        rejected.iter().enumerate().filter(|(_, rejection)| rejection.is_none()).map(|(at, _)| at).collect();
    let context = ScoreContext { hub, own: &own, usage };
    let mut expired = BTreeSet::new();
    let columns = weights.score(&passed, &context, &mut expired);
    let mut ranking: Vec<(usize, usize, i64)> = passed
        .iter()
        .enumerate()
        .map(|(at, &cluster)| (at, cluster, columns.iter().map(|column| column.weighted(at)).sum()))
        .collect();
    // The sort is stable, and clusters are in the order of their names.
    ranking.sort_by_key(|(_, _, total)| std::cmp::Reverse(*total));
    let Some((selected, unscheduled)) = select_number(subject.spec.number_of_clusters, ranking.len()) else {
        return failed(Failure::Panic);
    };
    for (_, cluster, _) in ranking.iter().skip(selected) {
        rejected[*cluster] = Some(Rejection::NumberOfClusters);
    }
    let picked: Vec<usize> = ranking.iter().take(selected).map(|(_, cluster, _)| *cluster).collect();
    let Grouping { groups, mistake } =
        groups::group(&hub.fleet, &subject.spec.decision_strategy.groups, picked);
    let order: Vec<usize> = ranking.iter().map(|(at, _, _)| *at).collect();
    Evaluation {
        prioritizers: columns.into_iter().map(|column| column.reordered(&order)).collect(),
        ranking: ranking.into_iter().map(|(_, cluster, total)| (cluster, total)).collect(),
        requeue: has_expiring_toleration(hub, &own, &rejected, &subject.spec.tolerations),
        rejected,
        selected,
        groups,
        group_mistake: mistake,
        unscheduled,
        expired,
        failure: None,
    }
}

/// How many clusters are selected, and how many there are too few; `None` for a negative number.
fn select_number(wanted: Option<i64>, available: usize) -> Option<(usize, i64)> {
    let Some(wanted) = wanted else { return Some((available, 0)) };
    let wanted = usize::try_from(wanted).ok()?;
    let selected = wanted.min(available);
    Some((selected, i64::try_from(wanted - selected).unwrap_or(i64::MAX)))
}

/// Whether a cluster, of the earlier decisions or of these, is only tolerated for some more time.
fn has_expiring_toleration(
    hub: &Hub<'_>,
    own: &score::Usage,
    rejected: &[Option<Rejection>],
    tolerations: &[Toleration],
) -> bool {
    let members = hub.fleet.members.iter().zip(rejected).enumerate();
    let mut concerned = members.filter(|(at, (_, why))| why.is_none() || own.has(*at));
    concerned.any(|(_, (member, _))| {
        taints::expires_later(member, tolerations, TolerationClock::new(hub.now, false))
    })
}
