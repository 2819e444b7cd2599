//! The status of the clusters, if a Sync does not take it from the repo (`spec.inventory`): that of the control plane's own
//! inventory objects, or what the control plane would compute from the nodes and pods of its members.
//!
//! It is read before each round, but not while a revision is being carried out, which goes on by the status that it was
//! planned by. If it has changed, everything is planned again, with the scheduler's memory. Only if that moves
//! something, there is something to carry out, within the limits for deletions.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use federate_engine::previous;
use federate_engine::snapshot::{Captured, Stored};
use federate_kubernetes::Object;
use federate_session::Session;

use crate::api::InventorySource;
use crate::opened::{Opened, SessionCache};
use crate::round::{Round, RoundError};
use crate::state::{SyncState, digest};
use crate::status::Reason;

/// The status of the clusters.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The inventory objects with their status.
    pub(crate) stored: Arc<Stored>,
    /// The digest of all status, without times.
    pub(crate) digest: String,
    /// The inventory objects by cluster, as they were read last.
    objects: BTreeMap<String, Object>,
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
        state: &SyncState<'_>,
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
        if open.is_some_and(|accepted| accepted.inventory.as_ref() == sessions.inventory()) {
            return Ok(());
        }
        if sessions.read(opened).is_none() {
            let session = sessions.take(opened, state.memory()?.as_ref());
            sessions.put(opened, session);
        }
        let Some(session) = sessions.read(opened) else { return Ok(()) };
        // What was read before stays if nothing can be read now.
        let before = sessions.observed.as_ref().map(|observed| observed.objects.clone()).unwrap_or_default();
        sessions.observed = Some(self.read_status(session, before)?);
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

    fn read_status(
        &self,
        session: &Session,
        mut objects: BTreeMap<String, Object>,
    ) -> Result<Observed, RoundError> {
        let failed = |why: String| RoundError::new(Reason::ReconciliationFailed, why);
        let mut reached = self.env.world.access(self.loaded, session).map_err(failed)?;
        // All other clusters wait for one that does not answer.
        reached.access.timeout = Some(self.spec.timeout());
        let captured = if self.spec.inventory == InventorySource::Hub {
            let hub = reached.access.hub.clone().ok_or_else(|| {
                failed(
                    "`inventory: hub` needs the control plane: set `hub: {}`, or --hub-context for Syncs in files"
                        .to_owned(),
                )
            })?;
            objects.clear();
            session.status_on_hub(&reached.access, &hub.context)
        } else {
            session.status_of_members(&reached.access, Timestamp::now())
        };
        let captured = captured.map_err(|error| failed(format!("the status of the clusters: {error}")))?;
        for (cluster, why) in &captured.failed {
            tracing::warn!(
                sync = self.name(),
                cluster,
                why,
                "its status cannot be read, and stays as it was"
            );
        }
        objects.extend(captured.objects.into_iter().map(|object| (object.id.name.clone(), object)));
        let captured = Captured { objects: objects.values().cloned().collect(), ..captured };
        let stored = Stored::of(session.dialects(), &captured).map_err(|error| failed(error.to_string()))?;
        let stored = Stored { kubernetes: captured.kubernetes, failed: captured.failed, ..stored };
        let bodies = objects.values().map(|object| without_times(object.body.clone()).to_string());
        let bodies: Vec<String> = bodies.collect();
        let digest = digest(bodies.iter().map(String::as_bytes));
        Ok(Observed { stored: Arc::new(stored), digest, objects })
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
