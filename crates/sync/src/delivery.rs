//! The delivery of a revision: it is accepted with its plan, and then brought to all clusters at once, or to those that lack
//! it. [`rollout`](crate::rollout) brings it to clusters in another order.

use std::collections::BTreeSet;
use std::time::Duration;

use federate_engine::change::replicas_moved;
use federate_kubernetes::ObjectRef;
use federate_reconcile::RepoRef;
use federate_sync_api::record::AcceptedRevision;
use federate_sync_api::stage::{Delivery, DeliveryStep, StageEvent, SyncStage};
use federate_sync_api::status::SyncReason;

use crate::member_clusters::selection::selected_names;
use crate::member_clusters::{HealthWait, MemberClusters};
use crate::outcome::{ReconcileError, SyncOutcome};
use crate::plan::RenderedRevision;
use crate::plan::sessions::{RevisionSession, SourceState, SyncRuntime};
use crate::reconciliation::Reconciliation;
use crate::state::SyncState;

/// What became of bringing a revision to clusters.
pub(crate) struct DeliveryResult {
    /// What it means for the stage.
    pub(crate) event: StageEvent,
    /// How the reconciliation ends, unless a further step says otherwise.
    pub(crate) outcome: Result<SyncOutcome, ReconcileError>,
}

impl Reconciliation<'_> {
    /// Notes a revision, what it renders and its plan, before the first cluster is changed. Returns how clusters are
    /// brought to it.
    pub(crate) fn accept_revision(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        SourceState { tip, .. }: &SourceState,
        rendered: Option<&RenderedRevision>,
    ) -> Result<Delivery, ReconcileError> {
        let Some(RenderedRevision { session, branches, artifact, previous, .. }) = rendered else {
            return Err(ReconcileError::new(SyncReason::ReconciliationFailed, "nothing was rendered"));
        };
        let previous = previous.as_ref();
        self.note_managed_scope(state, session);
        let before = state.record.accepted.clone();
        let former = before.as_ref().map(|before| before.tip.as_str());
        self.start_policies(state, session, previous, former, tip);
        let keeps = self.staged_rollout().is_some() || !state.record.policies.is_empty();
        if let Some(former) = former.filter(|former| keeps && former != tip) {
            state.storage.keep_former_plan(former)?;
        }
        let rendering = self.start_rollout(state, session, tip, before.as_ref())?;
        state.write_plan(session.plan())?;
        let unschedulable =
            session.plan().placements.iter().filter(|row| row.unschedulable.is_some()).count();
        state.record.status.unschedulable = unschedulable;
        let moved = previous.map_or(0, |previous| replicas_moved(previous, session.plan()));
        // A reconciliation that was killed has decided already.
        let is_repeated = state.record.stage != SyncStage::Idle
            && before.as_ref().is_some_and(|before| before.is_for(tip, None));
        let earlier = if is_repeated { state.record.status.replicas_moved } else { 0 };
        state.record.status.replicas_moved = earlier + usize::try_from(moved).unwrap_or_default();
        state.record.status.branches.clone_from(branches);
        state.record.status.artifact.clone_from(artifact);
        state.record.accepted = Some(AcceptedRevision {
            tip: tip.clone(),
            branches: branches.iter().cloned().map(|branch| (branch.branch, branch.commit)).collect(),
            artifact: artifact.as_ref().map(|artifact| artifact.digest.clone()),
            // The repository changes when all clusters are at the revision.
            repository: before.and_then(|accepted| accepted.repository),
            rendering,
            inventory_digest: runtime.inventory_digest().cloned(),
            ..AcceptedRevision::default()
        });
        runtime.tracker.retain_clusters(&selected_names(self.spec, session).collect());
        Ok(match (self.staged_rollout(), &state.record.rollout) {
            (Some(_), Some(_)) => Delivery::Stages,
            _ if self.rolls_policies(state) => Delivery::Policies,
            _ => Delivery::AllAtOnce,
        })
    }

    /// Brings clusters to the revision, as far as that is possible now: to one that was just accepted, or to the one that
    /// was accepted before. Returns what came of it, and how the reconciliation ends if nothing follows.
    pub(crate) fn deliver_revision(
        &self,
        step: DeliveryStep,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        source_state: &SourceState,
        rendered: Option<RenderedRevision>,
    ) -> Result<DeliveryResult, ReconcileError> {
        let SourceState { checkout, tip, name, .. } = source_state;
        if step == DeliveryStep::Retry {
            self.must_lead()?;
        }
        let repo = self.find_repo(checkout);
        let is_new = rendered.is_some();
        let (session, changed) = match rendered {
            Some(RenderedRevision { session, changed, .. }) => (session, changed),
            None => (self.accepted_session(state, runtime, checkout)?, None),
        };
        let revision = RevisionSession { session: &session, repo: repo.as_ref() };
        let delivered = match step {
            DeliveryStep::RollOut => self.roll_out(state, runtime, revision, name),
            DeliveryStep::RollOutPolicies => {
                if !is_new {
                    self.start_policies(state, &session, Some(session.plan()), Some(tip), tip);
                }
                self.roll_out_policies(state, runtime, revision, changed.as_ref(), source_state)
            }
            DeliveryStep::Retry => self.retry_clusters(state, runtime, revision, name),
            DeliveryStep::Apply => {
                self.apply_revision(state, runtime, revision, changed.as_ref(), source_state)
            }
        };
        runtime.put_accepted(checkout, session, repo);
        let event = match (step, &delivered) {
            (DeliveryStep::RollOut | DeliveryStep::RollOutPolicies, Ok(outcome))
                if outcome.is_progressing() =>
            {
                StageEvent::Waiting
            }
            (_, Ok(_)) => StageEvent::Delivered,
            (DeliveryStep::RollOut | DeliveryStep::RollOutPolicies, Err(_)) => StageEvent::Waiting,
            (DeliveryStep::Apply | DeliveryStep::Retry, Err(_)) => Self::note_failing(state, runtime),
        };
        Ok(DeliveryResult { event, outcome: delivered })
    }

    /// Applies a new revision to all clusters.
    fn apply_revision(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        RevisionSession { session, repo }: RevisionSession<'_>,
        changed: Option<&BTreeSet<ObjectRef>>,
        SourceState { tip, name, .. }: &SourceState,
    ) -> Result<SyncOutcome, ReconcileError> {
        let committed =
            self.spec.commit.as_ref().map(|commit| format!("committed {name} to {}", commit.branch));
        let written = committed
            .or_else(|| self.spec.push.as_ref().map(|push| format!("pushed {name} to {}", push.url)));
        if changed.is_none() {
            // All clusters are read, and brought to the revision.
            runtime.tracker.take_comparison_due(Duration::ZERO);
        }
        let applied = self.spec.apply.as_ref().map(|apply| {
            let cache = state.git_cache();
            let members = self.member_clusters(session, repo.cloned(), state);
            let (tracker, status) = (&mut runtime.tracker, &mut state.record.status);
            self.interrupt_when_revised(&cache, tip, &mut runtime.resume, |interrupt| {
                let members = MemberClusters { interrupt, only_objects: changed, ..members };
                members.apply_all(apply, None, tracker, status)
            })
        });
        let message = match (written, applied.transpose()?) {
            (Some(written), Some(clusters)) => format!("{written}, applied it to {clusters}"),
            (None, Some(clusters)) => format!("applied {name} to {clusters}"),
            (Some(written), None) => written,
            (None, None) => format!("read {name}"),
        };
        Ok(SyncOutcome::for_success(&message))
    }

    /// Applies to the clusters that have failed and whose turn it is; the others are only compared, at the interval.
    fn retry_clusters(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        RevisionSession { session, repo }: RevisionSession<'_>,
        name: &str,
    ) -> Result<SyncOutcome, ReconcileError> {
        let members = self.member_clusters(session, repo.cloned(), state);
        self.note_managed_scope(state, session);
        let accepted = state.record.accepted.clone().unwrap_or_default();
        let (cache, lacking) = (state.git_cache(), accepted.lacking.unwrap_or_default());
        if let Some(apply) = &self.spec.apply {
            let wait = HealthWait::UntilTimeout(self.spec.health_timeout(apply));
            let tracker = &mut runtime.tracker;
            self.interrupt_when_revised(&cache, &accepted.tip, &mut runtime.resume, |interrupt| {
                let members = MemberClusters { interrupt, ..members.clone() };
                members.update_clusters(apply, &lacking, wait, tracker);
            });
        }
        members.update_status(&runtime.tracker, &mut state.record.status)?;
        Ok(SyncOutcome::for_success(&format!("every cluster is at {name}")))
    }

    /// Notes which clusters are not at the revision yet.
    fn note_failing(state: &mut SyncState<'_>, runtime: &SyncRuntime) -> StageEvent {
        let failing: BTreeSet<String> =
            runtime.tracker.failure_causes().map(|(name, _)| name.clone()).collect();
        let event = if failing.is_empty() { StageEvent::Interrupted } else { StageEvent::ClustersFailed };
        if let Some(accepted) = &mut state.record.accepted {
            accepted.lacking = (!failing.is_empty()).then_some(failing);
        }
        event
    }

    /// Notes that all clusters are at the revision. Former revisions are forgotten when that is recorded.
    pub(crate) fn record_delivery(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        SourceState { checkout, name, .. }: &SourceState,
    ) -> Result<(), ReconcileError> {
        let is_staged = self.staged_rollout().is_some();
        if let Some(accepted) = &mut state.record.accepted {
            accepted.repository = self.find_repo(checkout).as_ref().map(RepoRef::to_string);
            for cluster in state.record.clusters.values_mut() {
                (cluster.revision, cluster.stale) = (Some(accepted.tip.clone()), false);
                cluster.former = cluster.former.take().filter(|_| !is_staged);
            }
        }
        state.record.status.last_applied_revision = Some(name.clone());
        runtime.formers.clear();
        if is_staged {
            (state.record.rollout, state.record.status.rollout) = (None, None);
            state.save_record()?;
            state.storage.forget_former_plans(&BTreeSet::new())?;
        }
        Ok(())
    }
}
