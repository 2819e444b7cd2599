//! One reconciliation of a set of works on the hub: the works that it creates, updates and deletes, and its status.
//!
//! Facts: only works whose template is current have a state; others count as not existing, so that a change rolls out anew.
//! Works of references that are gone are deleted at once, whatever their template, and those of clusters that are not
//! selected any more only if it is current.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::selector::invalid_value;
use federate_kubernetes::{ClusterName, Labels, Object};

use crate::api::work::{PlacementReference, ReplicaSetSpec};
use crate::report::PlacementReport;
use crate::works::{PLACEMENT_NAME_LABEL, SET_LABEL, placement_id, work_label};
use federate_dialect::rollout::{ClusterUpdate, UpdateState};

/// A rollout that goes on by itself later than this is looked at with all others.
const MAX_RECHECK: SignedDuration = SignedDuration::from_mins(30);

/// What the hub does with a work.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkAction {
    /// The operation.
    pub operation: WorkOperation,
    /// The cluster.
    pub cluster: ClusterName,
    /// The placement that the label of the work names; empty without one.
    pub placement: String,
    /// The name; empty for a new one, which gets a generated name.
    pub name: String,
    /// The labels of a new work.
    pub labels: Labels,
}

/// An operation on a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOperation {
    /// It is created.
    Create,
    /// It gets the current template.
    Update,
    /// It is deleted.
    Delete,
}

impl WorkOperation {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// Counts of works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkSummary {
    /// Those that are current, or were just written.
    pub total: usize,
    /// Those of them that are applied.
    pub applied: usize,
    /// Those of them whose objects are available.
    pub available: usize,
    /// Those of them that are degraded.
    pub degraded: usize,
    /// Those of them that progress.
    pub progressing: usize,
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
pub struct PlacementSummary {
    /// The name of the placement.
    pub name: String,
    /// How far it is, in the hub's words.
    pub progress: String,
    /// The counts.
    pub summary: WorkSummary,
}

/// A condition of a set: its type, whether it is true, and the reason.
pub type SetCondition = (&'static str, bool, &'static str);

/// What comes of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetReconciliation {
    /// In the order in which they are carried out.
    pub actions: Vec<WorkAction>,
    /// The conditions.
    pub conditions: Vec<SetCondition>,
    /// The counts.
    pub summary: WorkSummary,
    /// The same by placement; `None` if not all references are looked at.
    pub placements: Option<Vec<PlacementSummary>>,
    /// When the rollout goes on by itself.
    pub recheck: Option<SignedDuration>,
    /// Whether the set is gone, if it is being deleted.
    pub is_gone: Option<bool>,
}

/// The status of a work, as the hub reads it.
struct WorkStatus<'w> {
    work: &'w Object,
}

impl WorkStatus<'_> {
    fn condition(&self, kind: &str) -> Option<&Value> {
        let conditions = self.work.value_at(&["status", "conditions"])?.as_array()?;
        conditions.iter().find(|condition| condition["type"] == kind)
    }

    fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition["status"] == "True")
    }

    /// A condition about the current generation of the work.
    fn current(&self, kind: &str) -> Option<(&str, Option<Timestamp>)> {
        let condition = self.condition(kind)?;
        let generation = self.work.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
        let observed = condition["observedGeneration"].as_i64().unwrap_or(0);
        let since = condition["lastTransitionTime"].as_str().and_then(|time| time.parse().ok());
        (observed == generation).then(|| (condition["status"].as_str().unwrap_or_default(), since))
    }

    /// The state of the cluster of the work.
    fn read(&self) -> (UpdateState, Option<Timestamp>) {
        let is_stale = self.condition("Degraded").is_some() && self.current("Degraded").is_none();
        let Some((progressing, since)) = self.current("Progressing") else {
            return (UpdateState::Pending, None);
        };
        if is_stale || self.current("Applied").is_none_or(|(status, _)| status != "True") {
            return (UpdateState::Pending, None);
        }
        match (progressing, self.current("Degraded")) {
            ("True", Some(("True", degraded))) => (UpdateState::Failed, degraded),
            ("True" | "Unknown", _) => (UpdateState::Updating, since),
            ("False", _) => (UpdateState::Updated, since),
            _ => (UpdateState::Pending, None),
        }
    }

    fn to_update(&self, cluster: ClusterName) -> ClusterUpdate {
        let (state, since) = self.read();
        ClusterUpdate { cluster, state, since }
    }

    fn summarize(&self) -> WorkSummary {
        let count = |kind| usize::from(self.is_true(kind));
        WorkSummary {
            total: 1,
            applied: count("Applied"),
            available: count("Available"),
            degraded: count("Degraded"),
            progressing: count("Progressing"),
        }
    }
}

/// The works of a set among objects.
pub(crate) fn list_works<'w>(set: &Object, objects: impl Iterator<Item = &'w Object>) -> Vec<&'w Object> {
    let own = work_label(&set.id);
    objects.filter(|work| work.label(SET_LABEL) == Some(&own)).collect()
}

/// How far the clusters of a reference are that have the template of the set. `works` are those of the set.
pub(crate) fn read_updates(
    set: &Object,
    reference: &PlacementReference,
    works: &[&Object],
) -> Vec<ClusterUpdate> {
    let template = read_template(set);
    let current = find_current(&reference.name, &template, works.iter().copied());
    current.into_iter().map(|(cluster, work)| WorkStatus { work }.to_update(cluster)).collect()
}

/// The template of a set, with its defaults.
fn read_template(set: &Object) -> Value {
    template_with_defaults(set.value_at(&["spec", "manifestWorkTemplate"]).cloned().unwrap_or(Value::Null))
}

/// The works of a placement that have the template, by cluster.
fn find_current<'w>(
    placement: &str,
    template: &Value,
    works: impl Iterator<Item = &'w Object>,
) -> BTreeMap<ClusterName, &'w Object> {
    let is_current = |work: &&Object| {
        let spec = template_with_defaults(work.value_at(&["spec"]).cloned().unwrap_or(Value::Null));
        spec == *template
    };
    works
        .filter(|work| work.label(PLACEMENT_NAME_LABEL) == Some(placement))
        .filter(is_current)
        .map(|work| (cluster_of(work), work))
        .collect()
}

/// Reconciles a set of works once. `placements` are the reports about all placements, and `works` all works of the hub.
pub(crate) fn reconcile_set(
    set: &Object,
    placements: &[PlacementReport],
    works: &[Object],
    now: Timestamp,
) -> Result<SetReconciliation, String> {
    let spec = set.value_at(&["spec"]).unwrap_or(&Value::Null);
    let spec =
        Option::<ReplicaSetSpec>::deserialize(spec).map_err(|error| error.to_string())?.unwrap_or_default();
    let own = work_label(&set.id);
    let works = list_works(set, works.iter());
    let mut result = SetReconciliation::default();
    if set.is_deleting() {
        result.actions = works.iter().map(|work| delete_work(work)).collect();
        result.is_gone = Some(spec.cascade != "Foreground" || works.is_empty());
        return Ok(result);
    }
    if invalid_value(&own).is_some() {
        result.conditions.push(("ManifestworkApplied", false, "NotAsExpected"));
        return Ok(result);
    }
    let template = read_template(set);
    let is_referred = |name: &str| spec.placements.iter().any(|reference| reference.name == name);
    let (kept, dropped): (Vec<&Object>, Vec<&Object>) =
        works.iter().copied().partition(|work| work.label(PLACEMENT_NAME_LABEL).is_some_and(is_referred));
    result.actions.extend(dropped.into_iter().map(delete_work));
    let mut labels = set.labels();
    let (mut wanted, mut succeeded) = (0, 0);
    let mut summaries = Vec::new();
    for reference in &spec.placements {
        let id = placement_id(&set.id, &reference.name);
        let Some(report) = placements.iter().find(|report| report.object == id) else {
            result.conditions = vec![
                ("PlacementVerified", false, "PlacementDecisionNotFound"),
                ("ManifestworkApplied", false, "NotAsExpected"),
            ];
            result.summary = WorkSummary::default();
            return Ok(result);
        };
        wanted += report.selected;
        let of_reference =
            || kept.iter().copied().filter(|work| work.label(PLACEMENT_NAME_LABEL) == Some(&reference.name));
        let current = find_current(&reference.name, &template, of_reference());
        let states = current.iter().map(|(cluster, work)| WorkStatus { work }.to_update(cluster.clone()));
        let states: Vec<ClusterUpdate> = states.collect();
        succeeded += states.iter().filter(|state| state.state == UpdateState::Updated).count();
        let rollout = reference.strategy.advance(&report.groups, &states, now)?;
        let recheck = rollout.decision.recheck.filter(|wait| *wait < MAX_RECHECK);
        result.recheck = [result.recheck, recheck].into_iter().flatten().min();
        let mut touched: BTreeSet<ClusterName> = current.keys().cloned().collect();
        labels.insert(SET_LABEL.to_owned(), own.clone());
        labels.insert(PLACEMENT_NAME_LABEL.to_owned(), reference.name.clone());
        for cluster in rollout.decision.starting() {
            touched.insert(cluster.clone());
            if current.contains_key(cluster) {
                continue;
            }
            let outdated = of_reference().find(|work| cluster_of(work) == *cluster);
            result.actions.push(WorkAction {
                operation: if outdated.is_some() { WorkOperation::Update } else { WorkOperation::Create },
                cluster: cluster.clone(),
                placement: reference.name.clone(),
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
            summary.add(WorkSummary { total: 0, ..WorkStatus { work }.summarize() });
        }
        let (groups, count) = (report.groups.len(), report.selected);
        let progress = format!("{groups} ({} / {count} clusters applied)", touched.len());
        result.summary.add(summary);
        summaries.push(PlacementSummary { name: reference.name.clone(), progress, summary });
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

fn cluster_of(work: &Object) -> ClusterName {
    work.id.namespace.as_deref().unwrap_or_default().into()
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

/// A template with the defaults of its definition.
fn template_with_defaults(mut template: Value) -> Value {
    if let Some(option) = template.get_mut("deleteOption").and_then(Value::as_object_mut) {
        option.entry("propagationPolicy").or_insert_with(|| "Foreground".into());
    }
    let configs = template.get_mut("manifestConfigs").and_then(Value::as_array_mut);
    for config in configs.into_iter().flatten() {
        if let Some(config) = config.as_object_mut() {
            config.entry("feedbackScrapeType").or_insert_with(|| "Poll".into());
        }
        let Some(strategy) = config.get_mut("updateStrategy").and_then(Value::as_object_mut) else {
            continue;
        };
        strategy.entry("type").or_insert_with(|| "Update".into());
        if let Some(apply) = strategy.get_mut("serverSideApply").and_then(Value::as_object_mut) {
            apply.entry("fieldManager").or_insert_with(|| "work-agent".into());
        }
    }
    template
}
