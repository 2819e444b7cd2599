//! The result of an evaluation by names: what the hub writes to the status of a placement, and what explains it.

use std::collections::BTreeMap;

use federate_kubernetes::{ClusterName, ObjectRef};

use crate::schedule::groups::{DecisionGroup, DecisionRecord, record_decisions};
use crate::schedule::{Eligibility, Evaluation, Failure, Hub, PlacementSubject, Rejection, Skipped};
use crate::state::Decisions;

/// A condition of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementCondition {
    /// `PlacementSatisfied` or `PlacementMisconfigured`.
    pub kind: &'static str,
    /// Whether it is true.
    pub is_true: bool,
    /// The short reason.
    pub reason: &'static str,
    /// The hub's words.
    pub message: String,
}

/// The scores of one prioritizer by cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedScores {
    /// `Balance`, `AddOn/RESOURCE/SCORE`, …
    pub name: String,
    /// The weight.
    pub weight: i64,
    /// The scores. A cluster that is not among them has 0.
    pub scores: BTreeMap<ClusterName, i64>,
}

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct PlacementReport {
    /// The placement.
    pub object: ObjectRef,
    /// Why it was not evaluated.
    pub skipped: Option<Skipped>,
    /// The clusters of its decisions, sorted by name.
    pub clusters: Vec<ClusterName>,
    /// The clusters that passed the filters with their totals, best first.
    pub ranking: Vec<(ClusterName, i64)>,
    /// The scores, sorted by name.
    pub prioritizers: Vec<NamedScores>,
    /// Why each other cluster of the inventory is not selected.
    pub rejected: BTreeMap<ClusterName, Rejection>,
    /// The decision groups.
    pub groups: Vec<DecisionGroup>,
    /// The number of clusters that were selected, whether or not they are in the decisions.
    pub selected: usize,
    /// The conditions of the placement; none if its status stays as it is.
    pub conditions: Vec<PlacementCondition>,
    /// How many clusters there are too few.
    pub unscheduled: i64,
    /// Whether it is evaluated again when a toleration runs out.
    pub requeue: bool,
    /// The scores of add-ons that have expired, as `CLUSTER/NAME`.
    pub expired: Vec<String>,
    /// Why there is no regular result.
    pub failure: Option<Failure>,
}

impl PlacementReport {
    /// Reports an evaluation with all scores and reasons; without one, the placement was skipped. `decisions` are those
    /// after it.
    pub(crate) fn in_full(
        hub: &Hub<'_>,
        subject: &PlacementSubject<'_>,
        evaluation: Option<&Evaluation>,
        decisions: &Decisions,
    ) -> Self {
        let mut report = Self::new(subject, evaluation, decisions);
        if let Some(evaluation) = evaluation.filter(|evaluation| !evaluation.keeps_decisions()) {
            report.add_details(hub, evaluation);
        }
        report
    }

    /// The same without scores and reasons.
    pub(crate) fn new(
        subject: &PlacementSubject<'_>,
        evaluation: Option<&Evaluation>,
        decisions: &Decisions,
    ) -> Self {
        let mut clusters = decisions.of(&subject.key).to_vec();
        clusters.sort();
        clusters.dedup();
        let mut report = Self {
            object: subject.object.id.clone(),
            skipped: subject.skipped(),
            clusters,
            ranking: Vec::new(),
            prioritizers: Vec::new(),
            rejected: BTreeMap::new(),
            groups: Vec::new(),
            selected: 0,
            conditions: Vec::new(),
            unscheduled: 0,
            requeue: false,
            expired: Vec::new(),
            failure: None,
        };
        let Some(evaluation) = evaluation else { return report };
        report.failure.clone_from(&evaluation.failure);
        if evaluation.keeps_decisions() {
            return report;
        }
        report.groups.clone_from(&evaluation.groups);
        report.selected = evaluation.selected;
        report.conditions = vec![describe_satisfied(subject, evaluation), describe_configured(evaluation)];
        report.unscheduled = evaluation.unscheduled;
        report.requeue = evaluation.requeue;
        report.expired = evaluation.expired.iter().cloned().collect();
        report
    }

    /// Adds scores and reasons.
    fn add_details(&mut self, hub: &Hub<'_>, evaluation: &Evaluation) {
        let name = |index: usize| Some(hub.fleet.members.get(index)?.cluster.name.clone());
        let ranked: Vec<ClusterName> = evaluation.ranking.iter().filter_map(|(at, _)| name(*at)).collect();
        self.prioritizers = evaluation
            .prioritizers
            .iter()
            .map(|column| NamedScores {
                name: column.name.clone(),
                weight: column.weight,
                scores: ranked
                    .iter()
                    .zip(&column.scores)
                    .filter_map(|(name, score)| Some((name.clone(), (*score)?)))
                    .collect(),
            })
            .collect();
        let totals = evaluation.ranking.iter().map(|(_, total)| *total);
        self.ranking = ranked.into_iter().zip(totals).collect();
        let rejected = evaluation.rejected.iter().enumerate();
        self.rejected = rejected.filter_map(|(at, rejection)| Some((name(at)?, (*rejection)?))).collect();
    }

    /// The `PlacementDecision` objects that record it.
    pub fn records(&self) -> Vec<DecisionRecord> {
        record_decisions(&self.object.name, &self.groups)
    }

    /// The condition that says whether there are enough clusters.
    pub(crate) fn unsatisfied(&self) -> Option<&PlacementCondition> {
        self.conditions.iter().find(|one| one.kind == "PlacementSatisfied" && !one.is_true)
    }

    /// The condition that names a mistake.
    pub(crate) fn misconfigured(&self) -> Option<&PlacementCondition> {
        self.conditions.iter().find(|one| one.kind == "PlacementMisconfigured" && one.is_true)
    }
}

fn unsatisfied_condition(reason: &'static str, message: String) -> PlacementCondition {
    PlacementCondition { kind: "PlacementSatisfied", is_true: false, reason, message }
}

fn describe_satisfied(subject: &PlacementSubject<'_>, evaluation: &Evaluation) -> PlacementCondition {
    match &subject.eligibility {
        Eligibility::NoBindings => {
            let message = "No valid ManagedClusterSetBindings found in placement namespace";
            return unsatisfied_condition("NoManagedClusterSetBindings", message.to_owned());
        }
        Eligibility::NoIntersection(sets) => {
            let message =
                format!("None of ManagedClusterSets [{}] is bound to placement namespace", sets.join(","));
            return unsatisfied_condition("NoIntersection", message);
        }
        Eligibility::AllEmpty(sets) => {
            let message =
                format!("All ManagedClusterSets [{}] have no member ManagedCluster", sets.join(","));
            return unsatisfied_condition("AllManagedClusterSetsEmpty", message);
        }
        Eligibility::Malformed { .. } | Eligibility::Clusters => {}
    }
    if evaluation.selected == 0 {
        let message = "No ManagedCluster matches any of the cluster predicate";
        return unsatisfied_condition("NoManagedClusterMatched", message.to_owned());
    }
    match evaluation.unscheduled {
        0 => PlacementCondition {
            kind: "PlacementSatisfied",
            is_true: true,
            reason: "AllDecisionsScheduled",
            message: "All cluster decisions scheduled".to_owned(),
        },
        count => unsatisfied_condition(
            "NotAllDecisionsScheduled",
            format!("{count} cluster decisions unscheduled"),
        ),
    }
}

fn describe_configured(evaluation: &Evaluation) -> PlacementCondition {
    let mistake = match (&evaluation.failure, &evaluation.group_mistake) {
        (Some(Failure::Misconfigured { plugin, message }), _) => Some(format!("{plugin}:{message}")),
        (_, Some(mistake)) => Some(format!(":{mistake}")),
        _ => None,
    };
    let is_true = mistake.is_some();
    PlacementCondition {
        kind: "PlacementMisconfigured",
        is_true,
        reason: if is_true { "Misconfigured" } else { "Succeedconfigured" },
        message: mistake.unwrap_or_else(|| "Placement configurations check pass".to_owned()),
    }
}
