//! The update runs of a placement.
//!
//! Facts: a run updates all clusters of its placement to the resources that it was initialized with, whatever the repo
//! renders meanwhile. A run that is removed leaves the clusters as they are. A run that has ended is never continued.

use std::collections::BTreeMap;

use federate_dialect::{ClusterRollout, PolicyRollout, RolloutMoment, RolloutProgress, RolloutStep};
use federate_kubernetes::Object;
use federate_repo::Role;

use super::hub::{approval_token, open_requests};
use super::report::RunReport;
use super::state::{RolloutControllerState, UpdateRunState, fixed_fields};
use super::{RolloutController, format_cluster_count};
use crate::api::NAME;
use crate::rollout::run::status::RunStatus;
use crate::rollout::run::{self, HubObjects, RunRequeue, RunWrite};
use crate::version::{ResourceSnapshots, RunState};

/// A run is reconciled so often in one step at most; each time, it looks at a cluster or finishes a stage.
const MAX_RECONCILES: usize = 10_000;

impl RolloutController<'_> {
    pub(super) fn advance_runs(
        &self,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> RolloutStep {
        let mut controller_state: RolloutControllerState = rollout.read_state();
        controller_state.record_revision(self.placement, rollout, moment);
        let runs: BTreeMap<&str, &Object> =
            self.update_runs().map(|run| (run.id.name.as_str(), run)).collect();
        controller_state.runs.retain(|name, _| runs.contains_key(name.as_str()));
        let by_placement = self.behaviour.resource_snapshots == ResourceSnapshots::ByPlacement;
        if by_placement {
            controller_state.take_snapshot(moment);
        }
        let mut steps = Vec::new();
        for (name, run) in runs {
            let mut known = controller_state
                .runs
                .remove(name)
                .unwrap_or_else(|| UpdateRunState { fixed: fixed_fields(run), ..UpdateRunState::default() });
            let step = match self.refusal_reason(run, &known) {
                Some(why) => Some(RunReport::Refused(why).into_step(self, rollout, run, &known, moment)),
                None if known.is_over() => {
                    let report = RunReport::from_run(&known, None);
                    report.map(|report| report.into_step(self, rollout, run, &known, moment))
                }
                None => {
                    run.text_at(&["spec", "state"]).clone_into(&mut known.state);
                    let mut ended =
                        self.reconcile_run(run, &mut known, &mut controller_state, rollout, moment);
                    // A run sees an approval after it has asked for it.
                    while is_approved(run, &known, moment) {
                        let before = known.status.clone();
                        ended = self.reconcile_run(run, &mut known, &mut controller_state, rollout, moment);
                        if known.status == before {
                            break;
                        }
                    }
                    RunReport::from_run(&known, Some(ended))
                        .map(|report| report.into_step(self, rollout, run, &known, moment))
                }
            };
            known.drop_details();
            controller_state.runs.insert(name.to_owned(), known);
            steps.extend(step);
        }
        controller_state.forget_unused(rollout);
        rollout.write_state(&controller_state);
        // A run that goes on says more than one that has failed before.
        let open = steps.iter().position(|step| step.progress != RolloutProgress::Halted);
        match open.or_else(|| (!steps.is_empty()).then_some(0)) {
            Some(first) => steps.swap_remove(first),
            None => self.describe_idle(rollout, moment),
        }
    }

    /// The runs of the placement.
    fn update_runs(&self) -> impl Iterator<Item = &Object> {
        let id = &self.placement.id;
        let kind = if id.namespace.is_some() { "StagedUpdateRun" } else { "ClusterStagedUpdateRun" };
        let runs = self.repo.claimed_objects(NAME, Role::Other).filter(move |o| o.id.kind == kind);
        runs.filter(|o| o.id.namespace == id.namespace && o.text_at(&["spec", "placementName"]) == id.name)
    }

    /// Why admission refuses the run as it is now in the repo.
    fn refusal_reason(&self, run: &Object, known: &UpdateRunState) -> Option<String> {
        let state = run.text_at(&["spec", "state"]);
        let obeyed = self.behaviour.run_state == RunState::Obeyed;
        if known.fixed != fixed_fields(run) {
            return Some(
                "its placement, strategy and resources cannot be changed: give the run another name"
                    .to_owned(),
            );
        }
        if !obeyed || known.status.conditions.is_empty() || known.is_over() {
            return None;
        }
        match (known.state.as_str(), state) {
            ("" | "Initialize", "Stop") => Some("its state cannot change from Initialize to Stop".to_owned()),
            ("" | "Initialize", _) => None,
            (before, "" | "Initialize") => {
                Some(format!("its state cannot change from {before} to Initialize"))
            }
            _ => None,
        }
    }

    /// Reconciles a run until it waits. Returns when it continues.
    fn reconcile_run(
        &self,
        run: &Object,
        known: &mut UpdateRunState,
        controller_state: &mut RolloutControllerState,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> RunRequeue {
        if known.status.conditions.is_empty() {
            moment.revision.clone_into(&mut known.revision);
            if run.text_at(&["spec", "resourceSnapshotIndex"]).is_empty() {
                controller_state.take_snapshot(moment);
            }
        }
        let mut hub = self.build_hub(run, known, controller_state, rollout, moment);
        let mut next = Ok(RunRequeue::Event);
        let mut writes = Vec::new();
        for _ in 0..MAX_RECONCILES {
            next = run::reconcile_run(&mut hub, &run.id, moment.now, &self.behaviour);
            let object = hub.get(&run.id.kind, run.id.namespace.as_deref(), &run.id.name);
            let status = object.and_then(|object| RunStatus::from_run(object).ok()).unwrap_or_default();
            let written = hub.take_writes();
            // Clusters that are up to date need no time.
            let sends = written
                .iter()
                .any(|write| matches!(write, RunWrite::Binding(_) | RunWrite::DeletedBinding(_)));
            let goes_on = !sends && status != known.status;
            known.status = status;
            writes.extend(written);
            if !goes_on || !matches!(next, Ok(RunRequeue::After(_))) {
                break;
            }
        }
        for write in writes {
            match write {
                RunWrite::Binding(name) => {
                    self.record_release(&hub, &name, controller_state, rollout, moment);
                }
                RunWrite::DeletedBinding(name) => {
                    let left = self.cluster_of(&hub, &name).and_then(|name| rollout.clusters.get_mut(&*name));
                    if let Some(cluster) = left {
                        (cluster.leaving, cluster.since) = (true, Some(moment.now));
                    }
                }
                RunWrite::NewApproval(_) | RunWrite::Approval(_) => {}
            }
        }
        next.unwrap_or_else(|error| RunRequeue::Retry(error.to_string()))
    }

    fn cluster_of(&self, hub: &HubObjects, binding: &str) -> Option<String> {
        let (kind, namespace) = (self.run_kinds().binding, self.placement.id.namespace.as_deref());
        Some(hub.get(kind, namespace, binding)?.text_at(&["spec", "targetCluster"]).to_owned())
    }

    /// Notes the resources that a run releases to a cluster.
    fn record_release(
        &self,
        hub: &HubObjects,
        binding: &str,
        controller_state: &RolloutControllerState,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) {
        let (kind, namespace) = (self.run_kinds().binding, self.placement.id.namespace.as_deref());
        let Some(binding) = hub.get(kind, namespace, binding) else { return };
        let snapshot = binding.text_at(&["spec", "resourceSnapshotName"]);
        let index = snapshot
            .strip_prefix(&format!("{}-", self.placement.id.name))
            .and_then(|rest| rest.strip_suffix("-snapshot"));
        let Some(revision) = index.and_then(|index| controller_state.find_revision(index)) else { return };
        let name = binding.text_at(&["spec", "targetCluster"]);
        // The digest of what a former revision renders is not known any more.
        let digest = moment.resources.clusters.get(name).filter(|_| revision == moment.revision);
        let digest = digest.map_or("", String::as_str);
        rollout.clusters.insert(name.into(), ClusterRollout::from_release(revision, digest, moment.now));
    }

    /// No run is under way.
    pub(super) fn describe_idle(&self, rollout: &PolicyRollout, moment: &RolloutMoment<'_>) -> RolloutStep {
        let step = self.progress_step(rollout, moment.revision);
        let left = rollout.clusters.keys().filter(|name| !self.subject.has_cluster(name)).count();
        let total = self.subject.clusters.len() + left;
        let waiting = total - step.updated;
        if waiting == 0 {
            return step;
        }
        let (id, waits) = (&self.placement.id, if waiting == 1 { "waits" } else { "wait" });
        let message = format!("{id}: {waiting} of {} {waits} for an update run", format_cluster_count(total));
        RolloutStep { progress: RolloutProgress::Idle, message, ..step }
    }
}

/// Whether a request of a run is approved that it has not seen yet.
fn is_approved(run: &Object, known: &UpdateRunState, moment: &RolloutMoment<'_>) -> bool {
    open_requests(&known.status)
        .any(|task| moment.approvals.contains(&approval_token(&run.id, known, &task.approval_request_name)))
}
