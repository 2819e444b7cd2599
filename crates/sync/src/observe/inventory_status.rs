//! The status of the clusters as it was read last.

use std::sync::Arc;

use federate_dialect::Dialects;
use federate_engine::snapshot::StoredSnapshot;
use federate_session::UnreachableClusters;

use crate::observe::members_status::MembersStatus;
use crate::observe::planned_status::PlannedStatus;

/// The status of the clusters.
#[derive(Debug)]
pub(crate) struct InventoryStatus {
    /// The inventory objects with their status.
    pub(crate) stored: Arc<StoredSnapshot>,
    /// The digest of all status, without times.
    pub(crate) digest: String,
    /// The members that cannot be reached, if their control planes act on it (`spec.failover`).
    pub(crate) lost: Option<UnreachableClusters>,
    /// The status of members as it was read last; `None` if the hub has it.
    pub(crate) members: Option<MembersStatus>,
}

impl InventoryStatus {
    /// The status as a revision is planned by it.
    pub(crate) fn from_planned(dialects: Dialects, status: &PlannedStatus) -> Result<Self, String> {
        let stored = Arc::new(status.to_stored(dialects)?);
        Ok(Self {
            stored,
            digest: status.compute_digest(),
            lost: status.unreachable_members(),
            members: None,
        })
    }
}
