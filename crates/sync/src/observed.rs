//! The status of the clusters, if a Sync does not take it from the repo (`spec.inventory`): that of the control plane's own
//! inventory objects, or what the control plane would compute from the nodes and pods of its members.
//!
//! It is read before each round, but not while a revision is being carried out, which goes on by the status that it was
//! planned by, unless only lost clusters keep it from being done. If it has changed, everything is planned again, with the scheduler's memory. Only if that moves
//! something, there is something to carry out, within the limits for deletions.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use federate_engine::previous;
use federate_engine::snapshot::{Captured, Stored};
use federate_live::Error;
use federate_session::{Lost, Session};

use crate::api::InventorySource;
use crate::members_status::MembersStatus;
use crate::opened::{Opened, SessionCache};
use crate::round::{Round, RoundError, names};
use crate::state::{Accepted, SyncState, digest};
use crate::status::Reason;

/// The status of the clusters.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The inventory objects with their status.
    pub(crate) stored: Arc<Stored>,
    /// The digest of all status, without times.
    pub(crate) digest: String,
    /// The members that cannot be reached, if their control planes act on it (`spec.failover`).
    pub(crate) lost: Option<Lost>,
    /// The status of members as it was read last.
    members: MembersStatus,
}

impl InventorySource {
    /// Whether the repo says everything about the clusters.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    pub(crate) fn is_repo(&self) -> bool {
        *self == Self::Repo
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
        if self.turn.shares().is_some() {
            let message = "`inventory` must be `repo` if several replicas share the clusters (--shared), because all of \
                           them must plan by the same status";
            return Err(RoundError::new(Reason::ReconciliationFailed, message));
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
        let known = sessions.observed.as_ref().map(|observed| observed.members.clone());
        let before = known.clone().unwrap_or_else(|| MembersStatus::of(state, &self.name()));
        let observed = self.read_status(session, before)?;
        if self.spec.inventory == InventorySource::Members && known.as_ref() != Some(&observed.members) {
            self.must_lead()?;
            observed.members.keep(state)?;
        }
        sessions.observed = Some(observed);
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
        let Some(accepted) = &mut state.record.accepted else { return Ok(true) };
        if accepted.inventory == inventory {
            return Ok(false);
        }
        let session = Self::prepare(sessions, opened, kept.as_ref(), self.apply_limit())?;
        let moves = kept.is_none_or(|kept| previous::write(&kept) != previous::write(session.plan()));
        if moves {
            sessions.put(opened, session);
        } else {
            accepted.inventory = inventory;
            sessions.put_accepted(opened, session, self.repo(opened));
        }
        Ok(moves)
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
        let captured = if self.spec.inventory == InventorySource::Hub {
            let hub = reached.access.hub.clone().ok_or_else(|| {
                failed(
                    "`inventory: hub` needs the control plane: set `hub: {}`, or --hub-context for Syncs in files"
                        .to_owned(),
                )
            })?;
            session.status_on_hub(&reached.access, &hub.context).map_err(of_clusters)?
        } else {
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
            Captured { objects, kubernetes, ..read }
        };
        let stored = Stored::of(session.dialects(), &captured).map_err(|error| failed(error.to_string()))?;
        let bodies = captured.objects.iter().map(|object| without_times(object.body.clone()).to_string());
        let lost = self.spec.failover.then(|| members.unreachable(now));
        let lost_for = lost.iter().flatten().map(|(name, seconds)| format!("{name} {seconds}"));
        let bodies: Vec<String> = bodies.chain(lost_for).collect();
        let digest = digest(bodies.iter().map(String::as_bytes));
        let stored = Stored { kubernetes: captured.kubernetes, failed: captured.failed, ..stored };
        Ok(Observed { stored: Arc::new(stored), digest, lost, members })
    }
}

/// A value without the fields that say when something happened.
fn without_times(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| !key.ends_with("Time"));
            Value::Object(kept.map(|(key, value)| (key, without_times(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_times).collect(),
        value => value,
    }
}
