//! Begins a rollout: which revisions clusters have, and which of them are kept.

use std::collections::BTreeSet;

use federate_session::Session;
use federate_sync_api::progress::{ClusterRevision, ClusterRevisions, RolloutState};
use federate_sync_api::record::AcceptedRevision;
use federate_sync_api::stage::SyncStage;

use crate::member_clusters::selection::selected_clusters;
use crate::outcome::ReconcileError;
use crate::plan::sessions::digest_rendering;
use crate::reconciliation::Reconciliation;
use crate::state::SyncState;

impl Reconciliation<'_> {
    /// Notes in the state that a revision is to be rolled out in stages, unless it changes nothing.
    pub(crate) fn start_rollout(
        &self,
        state: &mut SyncState<'_>,
        session: &Session,
        tip: &str,
        before: Option<&AcceptedRevision>,
    ) -> Result<Option<String>, ReconcileError> {
        if self.staged_rollout().is_none() {
            (state.record.rollout, state.record.clusters) = (None, ClusterRevisions::new());
            state.record.status.rollout = None;
            if state.record.policies.is_empty() {
                state.storage.forget_former_plans(&BTreeSet::new())?;
            }
            return Ok(None);
        }
        let rendering = digest_rendering(session);
        let running = state.record.rollout.take();
        if running.as_ref().is_some_and(|running| running.aborted && running.target == tip) {
            // It is rendered once more because what was published has changed.
            state.record.rollout = running;
            return Ok(Some(rendering));
        }
        let done = before.filter(|_| state.record.stage == SyncStage::Idle);
        let is_rendered = done.is_some_and(|before| before.rendering.as_ref() == Some(&rendering));
        // Stages are for revisions: what the status of the clusters moves, happens everywhere at once.
        let is_everywhere = selected_clusters(self.spec, session).all(|cluster| {
            let known = state.record.clusters.get(cluster.name.as_ref());
            known.is_some_and(|known| known.revision.as_deref() == Some(tip) && !known.stale)
        });
        if is_rendered || (running.is_none() && is_everywhere) {
            return Ok(Some(rendering));
        }
        if let Some(before) = before.filter(|_| running.is_none() && state.record.clusters.is_empty()) {
            // The Sync had no rollout before: what it has done, it has done everywhere.
            let revision = Some(before.tip.clone()).filter(|_| before.rendering.is_none());
            for cluster in selected_clusters(self.spec, session) {
                let cluster_revision = ClusterRevision { revision: revision.clone(), ..Default::default() };
                state.record.clusters.insert(cluster.name.to_string(), cluster_revision);
            }
        }
        let before = before.map(|before| before.tip.as_str());
        let progress = RolloutState::start(tip, before, running.as_ref(), &mut state.record.clusters);
        let clusters = state.record.clusters.values();
        let revisions = clusters.flat_map(|cluster| [cluster.revision.clone(), cluster.former.clone()]);
        let used = revisions.chain([progress.former.clone()]).flatten().collect();
        state.record.rollout = Some(progress);
        state.storage.forget_former_plans(&used)?;
        Ok(Some(rendering))
    }
}
