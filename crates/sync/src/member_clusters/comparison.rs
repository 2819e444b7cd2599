//! Comparisons between rounds: of the clusters, and where that is known of the objects, in which something has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use federate_kubernetes::ObjectRef;
use federate_sync_api::stage::SyncStage;

use crate::environment::Environment;
use crate::member_clusters::ComparedClusters;
use crate::member_clusters::change_queue::DueComparisons;
use crate::outcome::{SyncOutcome, single_line};
use crate::page::count_clusters;
use crate::plan::changes::RenderedObjects;
use crate::plan::sessions::{Checkout, SessionCache};
use crate::reconciliation::{ReconcileError, Reconciliation, unchanged_outcome};
use crate::source::SourceAddress;
use crate::state::SyncState;
use crate::sync_files::ValidSync;

/// Compares some clusters with what was carried out last, without asking the source. Returns which of them drifted, and
/// what drifted in all clusters; `None` if nothing was carried out that is still in memory.
pub(crate) fn compare_due_clusters(
    loaded: &ValidSync,
    state: &mut SyncState<'_>,
    cache: &mut SessionCache,
    env: &Environment<'_>,
    due: DueComparisons,
) -> Option<(ComparedClusters, Option<String>)> {
    let round = Reconciliation::new(loaded, env, None);
    if !round.looks_for_drift() || round.must_lead().is_err() {
        return None;
    }
    let current = cache.current_session()?;
    let rendered = RenderedObjects::from_session(current.session);
    let staged = state.record.rollout.is_some() || !state.record.policies.is_empty();
    let mut groups: BTreeMap<Option<BTreeSet<ObjectRef>>, BTreeSet<String>> = BTreeMap::new();
    for (cluster, objects) in due {
        // What is known of a cluster with drift or failures is about all of its objects.
        let narrow = !staged && current.clusters.known_problems(&cluster) == (None, None);
        let objects = objects.filter(|_| narrow).and_then(|objects| rendered.with_autoscalers(&objects));
        groups.entry(objects).or_default().insert(cluster);
    }
    let mut compared = ComparedClusters::new();
    for (objects, clusters) in &groups {
        let known = (&mut *current.formers, &mut *current.clusters);
        let which = (Some(clusters), objects.as_ref());
        // A cluster that fails is retried by the next round, which says so.
        let found = round.compare_revisions(state, (current.session, current.repo), known, which);
        compared.extend(found.unwrap_or_default());
    }
    let mut drift = cache.clusters.describe_drift().map(|drift| single_line(&drift));
    if let Some(drift) = drift.as_mut().filter(|_| round.puts_off_correction(state)) {
        *drift += &format!("; its correction {}", round.describe_wait());
    }
    count_clusters(&mut state.record, &cache.clusters);
    if let Err(error) = state.save_record() {
        tracing::warn!(sync = round.name(), %error, "the status could not be written");
    }
    Some((compared, drift))
}

impl Reconciliation<'_> {
    /// Compares clusters with the revision that was carried out last, at the interval, and puts back what drifted if the
    /// Sync asks for it: a revision that cannot be carried out does not leave them alone.
    pub(crate) fn compare_last_good(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
    ) -> Result<(), ReconcileError> {
        let accepted = state.record.accepted.as_ref().filter(|_| state.record.stage == SyncStage::Idle);
        let tip = accepted.map(|accepted| accepted.tip.clone());
        let Some(tip) = tip.filter(|_| self.looks_for_drift() && self.spec.apply.is_some()) else {
            return Ok(());
        };
        // A folder has no former revision.
        let is_git = matches!(self.loaded.address, SourceAddress::Git(_));
        if !is_git || !sessions.clusters.take_comparison_due(self.spec.interval.0) {
            return Ok(());
        }
        self.must_lead()?;
        let (session, repo) = if let Some(known) = sessions.formers.remove(&tip) {
            known
        } else {
            let plan = state.read_plan()?.unwrap_or_default();
            self.open_planned(state, &tip, plan)?
        };
        let known = (&mut sessions.formers, &mut sessions.clusters);
        let compared = self.compare_revisions(state, (&session, repo.as_ref()), known, (None, None));
        sessions.formers.insert(tip, (session, repo));
        compared.map(drop)
    }

    /// Compares all clusters with what is rendered, if the Sync asks for it.
    pub(crate) fn compare_all_clusters(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        opened: &Checkout,
    ) -> Result<SyncOutcome, ReconcileError> {
        if !self.looks_for_drift() {
            return Ok(unchanged_outcome(state));
        }
        let session = self.accepted_session(state, sessions, opened)?;
        self.must_lead()?;
        self.note_inventory(state, &session);
        let repo = self.find_repo(opened);
        let members = self.member_clusters(&session, repo.clone(), state);
        sessions.clusters.take_comparison_due(Duration::ZERO);
        let (open, compared) = members.drift_in_turn(&mut sessions.clusters, &mut state.record.status);
        let known = (&mut sessions.formers, &mut sessions.clusters);
        let compared = compared.and(self.compare_policies(state, known, Some(&open)));
        sessions.put_accepted(opened, session, repo);
        compared?;
        let drift = sessions.clusters.describe_drift().map(|drift| single_line(&drift));
        Ok(SyncOutcome { drift, ..unchanged_outcome(state) })
    }
}
