//! The initialization of a run: placement, policy, clusters, stages, resources, overrides.
//!
//! Facts: if the initialization fails, the status keeps what was found before. Scheduled or bound rows of an
//! earlier policy count as a transient state, so the run retries.

use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{Cluster, Object, ObjectRef};
use serde::Deserialize;
use serde_json::{Value, json};

use super::binding::BindingView;
use super::status::{ClusterUpdatingStatus, DELETION, RunStatus, StageStatus, TaskStatus};
use super::{Failure, Run};
use crate::cluster;
use crate::hub::PARENT_LABEL;
use crate::overrides::KubeFleetOverride;
use crate::version::{ApprovalNames, ResourceSnapshots};
use federate_dialect::stages::{self as staged, UpdateStage};

pub(in crate::rollout) const RESOURCE_INDEX: &str = "kubernetes-fleet.io/resource-index";
/// The index of the first resource snapshot of a placement.
const FIRST_INDEX: &str = "0";
pub(in crate::rollout) const GROUP_HASH: &str = "kubernetes-fleet.io/resource-hash";

/// The clusters of a placement, by what the run does with them.
pub(super) struct RunClusters {
    /// The clusters that are updated, by name.
    pub(super) clusters: Vec<String>,
    /// The clusters from which resources are removed, by name.
    pub(super) to_delete: Vec<String>,
}

impl RunClusters {
    /// The number of clusters that are updated.
    pub(super) fn cluster_count(&self) -> i64 {
        i64::try_from(self.clusters.len()).unwrap_or(i64::MAX)
    }
}

type Outcome<T> = Result<Result<T, Failure>, serde_json::Error>;

/// Returns from a function when a run cannot continue.
macro_rules! attempt {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(failure) => return Ok(Err(failure)),
        }
    };
}
pub(super) use attempt;

impl Run<'_> {
    /// Fills in the status.
    pub(super) fn initialize_status(&mut self) -> Outcome<()> {
        let mut status = std::mem::take(&mut self.status);
        let outcome = self.fill_in(&mut status);
        self.status = status;
        outcome
    }

    fn fill_in(&self, status: &mut RunStatus) -> Outcome<()> {
        let (latest, wanted) = attempt!(self.read_policy(status)?);
        let selected = attempt!(self.select_clusters(latest, wanted));
        status.policy_observed_cluster_count = selected.cluster_count();
        let strategy = self.hub.get(self.kinds.strategy, self.namespace.as_deref(), &self.strategy);
        let Some(strategy) = strategy else {
            return Ok(Err(Failure::client_error(format!("the strategy `{}` is not found", self.strategy))));
        };
        status.staged_update_strategy_snapshot = strategy.value_at(&["spec"]).cloned();
        let clusters = self.read_clusters(&selected);
        let picked: Vec<&Cluster> = clusters.iter().collect();
        let stages = attempt!(
            staged::compute_partial_stages(strategy, &picked, self.behaviour.stage_rules())
                .map_err(Failure::client_error)
        );
        status.stages = stages.iter().map(|stage| self.stage_status(stage, strategy)).collect();
        attempt!(check_all_in_stages(&stages, &selected));
        status.deletion_stage = Some(StageStatus {
            stage_name: DELETION.to_owned(),
            clusters: selected.to_delete.iter().map(|name| ClusterUpdatingStatus::new(name)).collect(),
            ..StageStatus::default()
        });
        let snapshots = attempt!(self.resource_snapshots());
        let index = match snapshots.first() {
            Some(snapshot) => snapshot.label(RESOURCE_INDEX).unwrap_or_default(),
            None => FIRST_INDEX,
        };
        index.clone_into(&mut status.resource_snapshot_index_used);
        let overrides = attempt!(self.find_overrides(&snapshots)?);
        for cluster in status.stages.iter_mut().flat_map(|stage| &mut stage.clusters) {
            let known = clusters.iter().find(|known| *known.name == *cluster.cluster_name);
            record_overrides(cluster, known, &overrides);
        }
        Ok(Ok(()))
    }

    /// The placement's latest policy snapshot, and the number of clusters that it asks for, if any. Writes what
    /// it finds to the status.
    pub(super) fn read_policy(&self, status: &mut RunStatus) -> Outcome<(&Object, Option<i64>)> {
        let namespace = self.namespace.as_deref();
        let Some(placement) = self.hub.get(self.kinds.placement, namespace, &self.placement) else {
            return Ok(Err(Failure::client_error("parent placement not found")));
        };
        if placement.text_at(&["spec", "strategy", "type"]) != "External" {
            return Ok(Err(Failure::client_error("the placement is not rolled out externally")));
        }
        status.applied_strategy = Some(apply_strategy(placement));
        let snapshots = self.hub.list_objects(self.kinds.policy_snapshot, namespace);
        let mut latest = snapshots
            .filter(|o| crate::hub::snapshot::is_latest(o) && o.label(PARENT_LABEL) == Some(&self.placement));
        let (Some(latest), None) = (latest.next(), latest.next()) else {
            return Ok(Err(Failure::unexpected_behavior("there is not exactly one latest policy snapshot")));
        };
        let Some(index) = latest.label("kubernetes-fleet.io/policy-index") else {
            return Ok(Err(Failure::unexpected_behavior("the latest policy snapshot has no index")));
        };
        index.clone_into(&mut status.policy_snapshot_index_used);
        let wanted = attempt!(read_cluster_count(latest));
        status.policy_observed_cluster_count = wanted.unwrap_or(-1);
        if !is_scheduled(latest)? {
            let name = &latest.id.name;
            return Ok(Err(Failure::Abort(format!("policy snapshot `{name}` not fully scheduled yet"))));
        }
        Ok(Ok((latest, wanted)))
    }

    /// The clusters of the placement's bindings.
    pub(super) fn select_clusters(
        &self,
        latest: &Object,
        wanted: Option<i64>,
    ) -> Result<RunClusters, Failure> {
        let namespace = self.namespace.as_deref();
        let mut selected = RunClusters { clusters: Vec::new(), to_delete: Vec::new() };
        let bindings = self.hub.list_objects(self.kinds.binding, namespace);
        for binding in
            bindings.filter(|o| o.label(PARENT_LABEL) == Some(&self.placement)).map(BindingView::new)
        {
            let snapshot = binding.object.text_at(&["spec", "schedulingPolicySnapshotName"]);
            let cluster = binding.cluster().to_owned();
            if binding.state() == "Unscheduled" {
                selected.to_delete.push(cluster);
            } else if snapshot == latest.id.name {
                selected.clusters.push(cluster);
            } else {
                let within = namespace.unwrap_or_default();
                return Err(Failure::Retry(format!(
                    "binding `{within}/{}` with old policy snapshot `{within}/{snapshot}` has state {}, we might \
                     observe a transient state, need retry",
                    binding.object.id.name,
                    binding.state()
                )));
            }
        }
        let found = selected.cluster_count();
        if selected.clusters.is_empty() && selected.to_delete.is_empty() {
            let name = latest.id.namespaced_name();
            return Err(Failure::Abort(format!(
                "no scheduled or to-be-deleted bindings found for the latest policy snapshot {name}"
            )));
        }
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            return Err(Failure::unexpected_behavior(format!(
                "the number of selected bindings {found} is not equal to the observed cluster count {wanted}"
            )));
        }
        selected.clusters.sort();
        selected.to_delete.sort();
        Ok(selected)
    }

    /// The member clusters that are selected.
    pub(super) fn read_clusters(&self, selected: &RunClusters) -> Vec<Cluster> {
        let members = self.hub.list_objects("MemberCluster", None);
        let members = members.filter(|o| selected.clusters.contains(&o.id.name));
        members.map(|object| cluster::read_cluster(object, false, &self.behaviour)).collect()
    }

    fn stage_status(&self, stage: &UpdateStage, strategy: &Object) -> StageStatus {
        let stages = strategy.value_at(&["spec", "stages"]).and_then(Value::as_array);
        let written = stages.into_iter().flatten().find(|written| written["name"] == *stage.name);
        let tasks_before = written.filter(|_| self.behaviour.before_stage_tasks);
        StageStatus {
            stage_name: stage.name.clone(),
            clusters: stage.clusters.iter().map(|name| ClusterUpdatingStatus::new(name)).collect(),
            before: self.task_statuses(
                &stage.name,
                tasks_before.and_then(|s| s.get("beforeStageTasks")),
                "before",
            ),
            after: self.task_statuses(&stage.name, written.and_then(|s| s.get("afterStageTasks")), "after"),
            ..StageStatus::default()
        }
    }

    /// The statuses of the tasks that a strategy lists for a stage. `when` is `before` or `after`.
    fn task_statuses(&self, stage: &str, tasks: Option<&Value>, when: &str) -> Vec<TaskStatus> {
        let tasks = tasks.and_then(Value::as_array).into_iter().flatten();
        let statuses = tasks.map(|task| {
            let kind = task["type"].as_str().unwrap_or_default().to_owned();
            let request = match self.behaviour.approval_names {
                ApprovalNames::Stage => format!("{}-{stage}", self.name),
                ApprovalNames::BeforeOrAfterStage => format!("{}-{when}-{stage}", self.name),
            };
            let approval_request_name = if kind == "Approval" { request } else { String::new() };
            TaskStatus { kind, approval_request_name, conditions: Vec::new() }
        });
        statuses.collect()
    }

    /// The parts of the resource snapshot, the first one leading. There are none where the run itself takes the
    /// first snapshot of the placement.
    fn resource_snapshots(&self) -> Result<Vec<&Object>, Failure> {
        let all = self.hub.list_objects(self.kinds.resource_snapshot, self.namespace.as_deref());
        let own = all.filter(|o| o.label(PARENT_LABEL) == Some(&self.placement));
        let index = &self.resource_index;
        if !index.is_empty() && !index.parse::<i64>().is_ok_and(|index| index >= 0) {
            return Err(Failure::client_error(format!(
                "invalid resource snapshot index `{index}` provided, expected an integer >= 0"
            )));
        }
        // A run that takes a snapshot finds what the latest one holds, as far as the hub says.
        let parts = own.filter(|o| match index.as_str() {
            "" => crate::hub::snapshot::is_latest(o),
            index => o.label(RESOURCE_INDEX) == Some(index),
        });
        let mut parts: Vec<&Object> = parts.collect();
        let place = format!("{}/{}", self.namespace.as_deref().unwrap_or_default(), self.placement);
        if parts.is_empty()
            && index.is_empty()
            && self.behaviour.resource_snapshots == ResourceSnapshots::ByRun
        {
            return Ok(parts);
        }
        if parts.is_empty() {
            return Err(Failure::client_error(format!(
                "no resourceSnapshots with index `{index}` found for placement `{place}`"
            )));
        }
        let Some(master) = parts.iter().position(|part| part.annotation(GROUP_HASH).is_some()) else {
            return Err(Failure::unexpected_behavior(format!(
                "no master resourceSnapshot found for placement `{place}`"
            )));
        };
        parts.swap(0, master);
        Ok(parts)
    }

    /// The latest override snapshots that are about the placement and its resources, in their order.
    fn find_overrides(&self, snapshots: &[&Object]) -> Outcome<Vec<KubeFleetOverride<'_>>> {
        let resources =
            snapshots.iter().filter_map(|s| s.value_at(&["spec", "selectedResources"])?.as_array());
        let selected: Vec<ObjectRef> =
            resources.flatten().map(|body| Object::from_manifest(body.clone(), "hub").id).collect();
        let placement = ObjectRef {
            api_version: "placement.kubernetes-fleet.io/v1beta1".to_owned(),
            kind: self.kinds.placement.to_owned(),
            namespace: self.namespace.clone(),
            name: self.placement.clone(),
        };
        let mut found = Vec::new();
        for kind in ["ClusterResourceOverrideSnapshot", "ResourceOverrideSnapshot"] {
            let all = self.hub.objects_of_kind(kind).filter(|o| crate::hub::snapshot::is_latest(o));
            for snapshot in all {
                let one = KubeFleetOverride::from_snapshot(snapshot)?;
                if one.applies_to_objects(&placement, &selected) {
                    found.push(one);
                }
            }
        }
        Ok(Ok(found))
    }
}

/// Records the overrides that match a cluster.
fn record_overrides(
    status: &mut ClusterUpdatingStatus,
    cluster: Option<&Cluster>,
    overrides: &[KubeFleetOverride<'_>],
) {
    let Some(cluster) = cluster else { return };
    for one in overrides.iter().filter(|one| one.matches_cluster(cluster)) {
        let ObjectRef { namespace, name, .. } = &one.object.id;
        match namespace {
            None => status.cluster_resource_override_snapshots.get_or_insert_default().push(name.clone()),
            Some(namespace) => {
                let reference = json!({"name": name, "namespace": namespace});
                status.resource_override_snapshots.get_or_insert_default().push(reference);
            }
        }
    }
}

/// The apply strategy of the placement, with its defaults.
pub(in crate::rollout) fn apply_strategy(placement: &Object) -> Value {
    let written = placement.value_at(&["spec", "strategy", "applyStrategy"]).and_then(Value::as_object);
    let mut strategy = written.cloned().unwrap_or_default();
    for (key, value) in [
        ("type", "ClientSideApply"),
        ("comparisonOption", "PartialComparison"),
        ("whenToApply", "Always"),
        ("whenToTakeOver", "Always"),
    ] {
        strategy.entry(key).or_insert_with(|| value.into());
    }
    if strategy["type"] == "ServerSideApply" {
        strategy.entry("serverSideApplyConfig").or_insert_with(|| json!({"force": false}));
    }
    strategy.into()
}

/// The number of clusters that a policy asks for, if any.
fn read_cluster_count(snapshot: &Object) -> Result<Option<i64>, Failure> {
    match snapshot.text_at(&["spec", "policy", "placementType"]) {
        "PickN" => {
            let number = snapshot.annotation("kubernetes-fleet.io/number-of-clusters");
            let number = number.and_then(|number| number.parse().ok());
            number.map(Some).ok_or_else(|| {
                Failure::unexpected_behavior("the latest policy snapshot does not say how many clusters")
            })
        }
        "PickFixed" => {
            let names = snapshot.value_at(&["spec", "policy", "clusterNames"]).and_then(Value::as_array);
            Ok(Some(i64::try_from(names.map_or(0, Vec::len)).unwrap_or(i64::MAX)))
        }
        _ => Ok(None),
    }
}

fn is_scheduled(snapshot: &Object) -> Result<bool, serde_json::Error> {
    let conditions = snapshot.value_at(&["status", "conditions"]).filter(|c| !c.is_null());
    let conditions: Vec<Condition> = conditions.map_or(Ok(Vec::new()), Vec::deserialize)?;
    let generation = snapshot.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
    Ok(condition::find_current_condition(&conditions, "Scheduled", generation)
        .is_some_and(Condition::is_true))
}

/// Checks that every selected cluster is in a stage.
pub(super) fn check_all_in_stages(stages: &[UpdateStage], selected: &RunClusters) -> Result<(), Failure> {
    let missing = selected.clusters.iter().filter(|name| {
        let mut staged = stages.iter().flat_map(|stage| &stage.clusters);
        !staged.any(|cluster| **cluster == ***name)
    });
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown = missing.get(..10).unwrap_or(&missing).join(", ");
    let total = missing.len();
    Err(Failure::client_error(format!(
        "some clusters are not placed in any stage, total {total}, showing up to 10: {shown}"
    )))
}
