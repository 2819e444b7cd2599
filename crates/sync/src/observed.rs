//! The status of the clusters, if a Sync does not take it from the repo (`spec.inventory`): that of the control plane's own
//! inventory objects, or what the control plane would compute from the nodes and pods of its members.
//!
//! It is read before each round, but not while a revision is being carried out, which goes on by the status that it was
//! planned by, unless only lost clusters keep it from being done. If it has changed, everything is planned again, with the scheduler's memory. Only if that moves
//! something, there is something to carry out, within the limits for deletions.
//!
//! Where several replicas share the clusters, only the leader reads it. It publishes the status by which it has planned; the
//! others plan by that, and so does another leader until the revision is carried out.

use std::sync::Arc;

use federate_dialect::Dialects;
use federate_engine::previous;
use federate_engine::snapshot::{Captured, Stored};
use federate_live::Error;
use federate_session::{Lost, Session};
use federate_sync_api::InventorySource;
use federate_sync_api::record::Accepted;
use federate_sync_api::status::Reason;
use jiff::Timestamp;

use crate::members_status::MembersStatus;
use crate::opened::{Opened, SessionCache};
use crate::planned_status::PlannedStatus;
use crate::round::{Round, RoundError, names};
use crate::state::SyncState;

/// The status of the clusters.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The inventory objects with their status.
    pub(crate) stored: Arc<Stored>,
    /// The digest of all status, without times.
    pub(crate) digest: String,
    /// The members that cannot be reached, if their control planes act on it (`spec.failover`).
    pub(crate) lost: Option<Lost>,
    /// All of this, as it is published.
    pub(crate) status: PlannedStatus,
    /// The status of members as it was read last; `None` if another replica has read it.
    members: Option<MembersStatus>,
}

impl Observed {
    fn of(dialects: Dialects, status: PlannedStatus) -> Result<Self, String> {
        let stored = Arc::new(status.stored(dialects)?);
        Ok(Self { stored, digest: status.digest(), lost: status.lost(), status, members: None })
    }
}

impl Round<'_> {
    /// Reads the status of the clusters, if the repo does not say it.
    pub(crate) fn observe(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Opened,
    ) -> Result<(), RoundError> {
        if self.spec.inventory.is_repo() {
            sessions.observed = None;
            return Ok(());
        }
        if self.turn.shares().is_some()
            && let Err(error) = Self::follow_published_status(state, sessions)
        {
            // It was edited, or a process that worked alone has published nothing: it is read and published again.
            tracing::warn!(sync = self.name(), "{}", error.message);
            state.publish_status(None)?;
            if let Some(accepted) = &mut state.record.accepted {
                accepted.inventory = Some(String::new());
            }
        }
        let open = state.record.accepted.as_ref().filter(|accepted| !accepted.done);
        let is_lost = |name: &String| sessions.lost().is_some_and(|lost| lost.contains_key(name.as_str()));
        let waits = |accepted: &Accepted| {
            accepted.inventory.as_ref() == sessions.inventory()
                && !accepted.pending.as_ref().is_some_and(|pending| pending.iter().all(is_lost))
        };
        if open.is_some_and(waits) {
            return Ok(());
        }
        if sessions.read(opened).is_none() {
            let session = sessions.take(opened, state.memory()?.as_ref());
            sessions.put(opened, session);
        }
        let Some(session) = sessions.read(opened) else { return Ok(()) };
        // What was read before stays if nothing can be read now.
        let known = sessions.observed.as_ref().and_then(|observed| observed.members.clone());
        let before = known.clone().unwrap_or_else(|| MembersStatus::of(state, &self.name()));
        let observed = self.read_status(session, before)?;
        if let Some(members) = observed.members.as_ref().filter(|members| known.as_ref() != Some(members)) {
            self.must_lead()?;
            members.keep(state)?;
        }
        sessions.observed = Some(observed);
        Ok(())
    }

    /// Takes the status of the clusters that was published with what was accepted.
    pub(crate) fn follow_published_status(
        state: &SyncState<'_>,
        sessions: &mut SessionCache,
    ) -> Result<(), RoundError> {
        let wanted = state.record.accepted.as_ref().and_then(|accepted| accepted.inventory.as_ref());
        if sessions.inventory() == wanted {
            return Ok(());
        }
        sessions.observed = None;
        let Some(wanted) = wanted else { return Ok(()) };
        let text = state.planned_status()?;
        let read = text.ok_or_else(|| "it is missing".to_owned()).and_then(|text| PlannedStatus::read(&text));
        let found = read.and_then(|status| Observed::of(sessions.dialects, status)).and_then(|observed| {
            let other = || "it is not the one by which the leader has planned".to_owned();
            Some(observed).filter(|observed| observed.digest == *wanted).ok_or_else(other)
        });
        let failed = |why: String| format!("the status of the clusters that the leader has published: {why}");
        let found = found.map_err(|why| RoundError::new(Reason::ReconciliationFailed, failed(why)))?;
        sessions.observed = Some(found);
        Ok(())
    }

    /// Whether another status of the clusters moves something. If it does not, it is noted as the status that the
    /// accepted revision was planned by.
    pub(crate) fn moves(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Opened,
    ) -> Result<bool, RoundError> {
        let inventory = sessions.inventory().cloned();
        let kept = state.memory()?;
        let Some(accepted) = &state.record.accepted else { return Ok(true) };
        if accepted.inventory == inventory {
            return Ok(false);
        }
        let session = Self::prepare(sessions, opened, kept.as_ref(), self.apply_limit(), self.destination())?;
        let work = accepted.published.as_ref().map(|published| &published.work);
        let shared = self.turn.shares().is_some();
        // Other replicas carry out what they render.
        let renders = |work: &String| self.members(&session, self.repo(opened), state).work() == *work;
        let stays = kept.is_some_and(|kept| previous::write(&kept) == previous::write(session.plan()))
            && (!shared || work.is_some_and(renders));
        if !stays {
            sessions.put(opened, session);
            return Ok(true);
        }
        self.publish_status(state, sessions.observed.as_ref())?;
        if let Some(accepted) = &mut state.record.accepted {
            accepted.inventory = inventory;
        }
        sessions.put_accepted(opened, session, self.repo(opened));
        Ok(false)
    }

    /// Publishes the status of the clusters with the record, if several replicas share the clusters.
    pub(crate) fn publish_status(
        &self,
        state: &mut SyncState<'_>,
        observed: Option<&Observed>,
    ) -> Result<(), RoundError> {
        let observed = observed.filter(|_| self.turn.shares().is_some());
        Ok(state.publish_status(observed.map(|observed| observed.status.text()).as_deref())?)
    }

    /// Reads the status of the clusters. `members` is the last one.
    fn read_status(&self, session: &Session, mut members: MembersStatus) -> Result<Observed, RoundError> {
        let failed = |why: String| RoundError::new(Reason::ReconciliationFailed, why);
        let mut reached = self.env.world.access(self.loaded, session).map_err(failed)?;
        reached.access = self.env.tally.counting(reached.access);
        // All other clusters wait for one that does not answer.
        reached.access.timeout = Some(self.spec.timeout());
        let now = Timestamp::now();
        let of_clusters = |error: Error| failed(format!("the status of the clusters: {error}"));
        if self.spec.inventory == InventorySource::Hub {
            let hub = reached.access.hub.clone().ok_or_else(|| {
                failed(
                    "`inventory: hub` needs the control plane: set `hub: {}`, or --hub-context for Syncs in files"
                        .to_owned(),
                )
            })?;
            let captured = session.status_on_hub(&reached.access, &hub.context).map_err(of_clusters)?;
            return Observed::of(session.dialects(), PlannedStatus::of(&captured, None)).map_err(failed);
        }
        let read = session.status_of_members(&reached.access, now).map_err(of_clusters)?;
        for (cluster, why) in &read.failed {
            tracing::warn!(
                sync = self.name(),
                cluster,
                why,
                "its status cannot be read, and stays as it was"
            );
        }
        members.follow(names(session), &read, now);
        let (objects, kubernetes) = members.captured();
        let lost = self.spec.failover.then(|| members.unreachable(now));
        let captured = Captured { objects, kubernetes, ..Captured::default() };
        let status = PlannedStatus::of(&captured, lost.as_ref());
        let observed = Observed::of(session.dialects(), status).map_err(failed)?;
        Ok(Observed { members: Some(members), ..observed })
    }
}
