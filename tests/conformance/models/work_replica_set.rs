//! One reconciliation of Open Cluster Management's set of works on the hub: the works that it creates, updates and
//! deletes, and its status.
//!
//! Facts: works of references that are gone are deleted at once, whatever their template, and those of clusters that are
//! not selected any more only if it is current.

use std::collections::BTreeSet;

use federate_dialect::rollout::UpdateState;
use federate_kubernetes::selector::invalid_value;
use federate_kubernetes::{ClusterName, Labels, Object, ObjectRef};
use federate_ocm::report::PlacementReport;
use federate_ocm::rollout::decide_rollout;
use federate_ocm::rollout::works::{cluster_of, find_current, list_works, read_updates};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

const SET_LABEL: &str = "work.open-cluster-management.io/manifestworkreplicaset";
const PLACEMENT_NAME_LABEL: &str = "work.open-cluster-management.io/placementname";

/// A rollout that goes on by itself later than this is looked at with all others.
const MAX_RECHECK: SignedDuration = SignedDuration::from_mins(30);

/// What the hub does with a work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkAction {
    /// The operation.
    pub(crate) operation: WorkOperation,
    /// The cluster.
    pub(crate) cluster: ClusterName,
    /// The placement that the label of the work names; empty without one.
    pub(crate) placement: String,
    /// The name; empty for a new one, which gets a generated name.
    pub(crate) name: String,
    /// The labels of a new work.
    pub(crate) labels: Labels,
}

/// An operation on a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkOperation {
    /// It is created.
    Create,
    /// It gets the current template.
    Update,
    /// It is deleted.
    Delete,
}

impl WorkOperation {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// Counts of works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkSummary {
    /// Those that are current, or were just written.
    pub(crate) total: usize,
    /// Those of them that are applied.
    pub(crate) applied: usize,
    /// Those of them whose objects are available.
    pub(crate) available: usize,
    /// Those of them that are degraded.
    pub(crate) degraded: usize,
    /// Those of them that progress.
    pub(crate) progressing: usize,
}

impl WorkSummary {
    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.applied += other.applied;
        self.available += other.available;
        self.degraded += other.degraded;
        self.progressing += other.progressing;
    }
}

/// The works of one placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacementSummary {
    /// The name of the placement.
    pub(crate) name: String,
    /// How far it is, in the hub's words.
    pub(crate) progress: String,
    /// The counts.
    pub(crate) summary: WorkSummary,
}

/// A condition of a set: its type, whether it is true, and the reason.
pub(crate) type SetCondition = (&'static str, bool, &'static str);

/// What comes of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SetReconciliation {
    /// In the order in which they are carried out.
    pub(crate) actions: Vec<WorkAction>,
    /// The conditions.
    pub(crate) conditions: Vec<SetCondition>,
    /// The counts.
    pub(crate) summary: WorkSummary,
    /// The same by placement; `None` if not all references are looked at.
    pub(crate) placements: Option<Vec<PlacementSummary>>,
    /// When the rollout goes on by itself.
    pub(crate) recheck: Option<SignedDuration>,
    /// Whether the set is gone, if it is being deleted.
    pub(crate) is_gone: Option<bool>,
}

/// Reconciles a set of works once. `placements` are the reports about all placements, and `works` all works of the hub.
pub(crate) fn reconcile(
    set: &Object,
    placements: &[PlacementReport],
    works: &[Object],
    now: Timestamp,
) -> Result<SetReconciliation, String> {
    let own = format!("{}.{}", set.id.namespace.as_deref().unwrap_or_default(), set.id.name);
    let works = list_works(set, works.iter());
    let mut result = SetReconciliation::default();
    if set.is_deleting() {
        result.actions = works.iter().map(|work| delete_work(work)).collect();
        result.is_gone =
            Some(set.text_at(&["spec", "cascadeDeletionPolicy"]) != "Foreground" || works.is_empty());
        return Ok(result);
    }
    if invalid_value(&own).is_some() {
        result.conditions.push(("ManifestworkApplied", false, "NotAsExpected"));
        return Ok(result);
    }
    let references = set.value_at(&["spec", "placementRefs"]).and_then(Value::as_array);
    let references: Vec<(&str, &Value)> = references
        .into_iter()
        .flatten()
        .map(|reference| (reference["name"].as_str().expect("a name"), &reference["rolloutStrategy"]))
        .collect();
    let is_referred = |name: &str| references.iter().any(|(referred, _)| *referred == name);
    let (kept, dropped): (Vec<&Object>, Vec<&Object>) =
        works.iter().copied().partition(|work| work.label(PLACEMENT_NAME_LABEL).is_some_and(is_referred));
    result.actions.extend(dropped.into_iter().map(delete_work));
    let mut labels = set.labels();
    let (mut wanted, mut succeeded) = (0, 0);
    let mut summaries = Vec::new();
    for (name, strategy) in references {
        let is_placement = |id: &ObjectRef| id.namespace == set.id.namespace && id.name == name;
        let Some(report) = placements.iter().find(|report| is_placement(&report.object)) else {
            result.conditions = vec![
                ("PlacementVerified", false, "PlacementDecisionNotFound"),
                ("ManifestworkApplied", false, "NotAsExpected"),
            ];
            result.summary = WorkSummary::default();
            return Ok(result);
        };
        wanted += report.selected;
        let of_reference =
            || kept.iter().copied().filter(|work| work.label(PLACEMENT_NAME_LABEL) == Some(name));
        let current = find_current(set, name, &works);
        let states = read_updates(&current);
        succeeded += states.iter().filter(|state| state.state == UpdateState::Updated).count();
        let rollout = decide_rollout(strategy, &report.groups, &states, now)?;
        let recheck = rollout.decision.recheck.filter(|wait| *wait < MAX_RECHECK);
        result.recheck = [result.recheck, recheck].into_iter().flatten().min();
        let mut touched: BTreeSet<ClusterName> = current.keys().cloned().collect();
        labels.insert(SET_LABEL.to_owned(), own.clone());
        labels.insert(PLACEMENT_NAME_LABEL.to_owned(), name.to_owned());
        for cluster in rollout.decision.starting() {
            touched.insert(cluster.clone());
            if current.contains_key(cluster) {
                continue;
            }
            let outdated = of_reference().find(|work| cluster_of(work) == *cluster);
            result.actions.push(WorkAction {
                operation: if outdated.is_some() { WorkOperation::Update } else { WorkOperation::Create },
                cluster: cluster.clone(),
                placement: name.to_owned(),
                name: outdated.map(|work| work.id.name.clone()).unwrap_or_default(),
                labels: labels.clone(),
            });
        }
        for removed in &rollout.removed {
            touched.remove(&removed.cluster);
            result.actions.extend(current.get(&removed.cluster).map(|work| delete_work(work)));
        }
        let mut summary = WorkSummary { total: touched.len(), ..WorkSummary::default() };
        for work in of_reference().filter(|work| touched.contains(&cluster_of(work))) {
            summary.add(WorkSummary { total: 0, ..summarize_work(work) });
        }
        let (groups, count) = (report.groups.len(), report.selected);
        let progress = format!("{groups} ({} / {count} clusters applied)", touched.len());
        result.summary.add(summary);
        summaries.push(PlacementSummary { name: name.to_owned(), progress, summary });
    }
    result.placements = Some(summaries);
    result.conditions = describe_conditions(&result.summary, wanted == succeeded);
    Ok(result)
}

fn describe_conditions(summary: &WorkSummary, is_complete: bool) -> Vec<SetCondition> {
    let rolled_out = if is_complete { "Complete" } else { "Progressing" };
    let mut conditions = vec![("PlacementRolledOut", is_complete, rolled_out)];
    if summary.total == 0 {
        conditions.push(("PlacementVerified", false, "PlacementDecisionEmpty"));
        conditions.push(("ManifestworkApplied", false, "PlacementDecisionEmpty"));
        return conditions;
    }
    conditions.push(("PlacementVerified", true, "AsExpected"));
    let is_done = summary.available == summary.total && summary.progressing == 0 && summary.degraded == 0;
    conditions.push(match (is_done, summary.progressing > 0 && summary.degraded == 0) {
        (true, _) => ("ManifestworkApplied", true, "AsExpected"),
        (false, true) => ("ManifestworkApplied", false, "Processing"),
        (false, false) => ("ManifestworkApplied", false, "NotAsExpected"),
    });
    conditions
}

fn summarize_work(work: &Object) -> WorkSummary {
    let conditions = work.value_at(&["status", "conditions"]).and_then(Value::as_array);
    let count = |kind: &str| {
        let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
        usize::from(found.is_some_and(|condition| condition["status"] == "True"))
    };
    WorkSummary {
        total: 1,
        applied: count("Applied"),
        available: count("Available"),
        degraded: count("Degraded"),
        progressing: count("Progressing"),
    }
}

fn delete_work(work: &Object) -> WorkAction {
    WorkAction {
        operation: WorkOperation::Delete,
        cluster: cluster_of(work),
        placement: work.label(PLACEMENT_NAME_LABEL).unwrap_or_default().to_owned(),
        name: work.id.name.clone(),
        labels: Labels::new(),
    }
}
