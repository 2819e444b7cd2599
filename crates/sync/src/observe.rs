//! The status of the clusters, if a Sync does not take it from the repo (`spec.inventory`): that of the control plane's own
//! inventory objects, or what the control plane would compute from the nodes and pods of its members.
//!
//! It is read in each reconciliation after the poll, but not while a revision is being carried out, which goes on by the
//! status that it was planned by, unless only lost clusters keep it from being done. If it has changed, everything is planned
//! again, with the previous plan. Only if that moves something, there is something to carry out, within the limits for
//! deletions.

pub(crate) mod inventory_status;
pub(crate) mod members_status;
pub(crate) mod planned_status;

use federate_engine::previous;
use federate_engine::snapshot::SnapshotInput;
use federate_live::Error;
use federate_session::Session;
use federate_sync_api::InventorySource;
use federate_sync_api::stage::SyncStage;
use jiff::Timestamp;

use crate::member_clusters::FIRST_ANSWER_TIMEOUT;
use crate::observe::inventory_status::InventoryStatus;
use crate::observe::members_status::MembersStatus;
use crate::observe::planned_status::PlannedStatus;
use crate::outcome::ReconcileError;
use crate::plan::sessions::{Checkout, SyncRuntime};
use crate::reconciliation::Reconciliation;
use crate::state::SyncState;

impl Reconciliation<'_> {
    /// Reads the status of the clusters, if the repo does not say it.
    pub(crate) fn observe_clusters(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        checkout: &Checkout,
    ) -> Result<(), ReconcileError> {
        if self.spec.inventory.is_repo() {
            runtime.observed = None;
            return Ok(());
        }
        let open = state.record.accepted.as_ref().filter(|_| state.record.stage != SyncStage::Idle);
        let planned =
            open.filter(|accepted| accepted.inventory_digest.as_ref() == runtime.inventory_digest());
        if let Some(accepted) = planned {
            // A revision that only lost clusters lack is planned again without them.
            let lost = runtime.unreachable_members();
            let lacking = accepted.lacking.as_ref();
            let waits_for_lost = lacking.is_some_and(|lacking| {
                lacking.iter().all(|name| lost.is_some_and(|lost| lost.contains_key(name.as_str())))
            });
            if !waits_for_lost {
                return Ok(());
            }
        }
        if runtime.find_session(checkout).is_none() {
            let session = runtime.take_session(checkout, state.read_plan()?.as_ref());
            runtime.put_session(checkout, session);
        }
        let Some(session) = runtime.find_session(checkout) else { return Ok(()) };
        // What was read before stays if nothing can be read now.
        let known = runtime.observed.as_ref().and_then(|observed| observed.members.clone());
        let before = known.clone().unwrap_or_else(|| MembersStatus::from_state(state, &self.name()));
        let observed = self.read_status(session, before)?;
        if let Some(members) =
            observed.members.as_ref().filter(|members| !self.reads_only && known.as_ref() != Some(members))
        {
            self.must_lead()?;
            members.save_to(state)?;
        }
        runtime.observed = Some(observed);
        Ok(())
    }

    /// Whether another status of the clusters moves something. If it does not, it is noted as the status that the
    /// accepted revision was planned by.
    pub(crate) fn moves_placements(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        checkout: &Checkout,
    ) -> Result<bool, ReconcileError> {
        let inventory_digest = runtime.inventory_digest().cloned();
        let kept = state.read_plan()?;
        let Some(accepted) = &state.record.accepted else { return Ok(true) };
        if accepted.inventory_digest == inventory_digest {
            return Ok(false);
        }
        let session =
            self.render_session(runtime, checkout, kept.as_ref(), self.apply_limit(), self.destination())?;
        let stays = kept
            .is_some_and(|kept| previous::serialize_plan(&kept) == previous::serialize_plan(session.plan()));
        if !stays {
            runtime.put_session(checkout, session);
            return Ok(true);
        }
        if let Some(accepted) = &mut state.record.accepted {
            accepted.inventory_digest = inventory_digest;
        }
        runtime.put_accepted(checkout, session, self.find_repo(checkout));
        Ok(false)
    }

    /// Reads the status of the clusters. `members` is the last one.
    fn read_status(
        &self,
        session: &Session,
        mut members: MembersStatus,
    ) -> Result<InventoryStatus, ReconcileError> {
        let mut reached =
            self.env.services.member_access(self.valid_sync, session).map_err(ReconcileError::failed)?;
        reached.access = self.env.counters.count_answers(reached.access);
        // All other clusters wait for one that does not answer.
        reached.access.timeout = Some(self.spec.timeout());
        reached.access.first_answer = Some(FIRST_ANSWER_TIMEOUT);
        let now = Timestamp::now();
        if self.spec.inventory == InventorySource::Hub {
            let hub = reached.access.hub.clone().ok_or_else(|| {
                ReconcileError::failed(
                    "`inventory: hub` needs the control plane: set `hub: {}`, or --hub-context for Syncs in files"
                        .to_owned(),
                )
            })?;
            let captured = session
                .status_on_hub(&reached.access, &hub.context)
                .map_err(|error| unreadable_status(&error))?;
            return InventoryStatus::from_planned(
                session.dialects(),
                &PlannedStatus::from_captured(&captured, None),
            )
            .map_err(ReconcileError::failed);
        }
        let read =
            session.status_of_members(&reached.access, now).map_err(|error| unreadable_status(&error))?;
        for (cluster, why) in &read.failed {
            tracing::warn!(
                sync = self.name(),
                cluster,
                why,
                "its status cannot be read, and stays as it was"
            );
        }
        let names = session.clusters().iter().map(|cluster| cluster.name.as_ref());
        members.update_from(names, &read, now);
        let (objects, kubernetes) = members.last_captured();
        let lost = self.spec.failover.then(|| members.unreachable_seconds(now));
        let captured = SnapshotInput { objects, kubernetes, ..SnapshotInput::default() };
        let status = PlannedStatus::from_captured(&captured, lost.as_ref());
        let observed =
            InventoryStatus::from_planned(session.dialects(), &status).map_err(ReconcileError::failed)?;
        Ok(InventoryStatus { members: Some(members), ..observed })
    }
}

fn unreadable_status(error: &Error) -> ReconcileError {
    ReconcileError::failed(format!("the status of the clusters: {error}"))
}
