//! Comparisons between reconciliations: of the clusters, and where that is known of the objects, in which something has
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_kubernetes::ObjectRef;
use federate_kubernetes::display_text::escape_line;
use federate_sync_api::managed_scope::AppliedCluster;

use crate::environment::Environment;
use crate::member_clusters::change_queue::DueComparisons;
use crate::member_clusters::cluster_counts::count_clusters;
use crate::member_clusters::selection::selected_names;
use crate::member_clusters::tracker::ClusterTracker;
use crate::member_clusters::{ComparedClusters, MemberClusters};
use crate::outcome::{ReconcileError, SyncOutcome};
use crate::plan::changes::RenderedObjects;
use crate::plan::sessions::{Checkout, CurrentSession, FormerSessions, RevisionSession, SyncRuntime};
use crate::reconciliation::{Reconciliation, unchanged_outcome};
use crate::state::SyncState;
use crate::sync_files::ValidSync;

/// What is compared; `None` for all.
#[derive(Clone, Copy, Default)]
pub(crate) struct ComparisonScope<'c> {
    pub(crate) clusters: Option<&'c BTreeSet<String>>,
    pub(crate) objects: Option<&'c BTreeSet<ObjectRef>>,
}

/// Compares some clusters with what was carried out last, without asking the source. Returns which of them drifted, and
/// what drifted in all clusters; `None` if nothing was carried out that is still in memory.
pub(crate) fn compare_due_clusters(
    valid_sync: &ValidSync,
    state: &mut SyncState<'_>,
    runtime: &mut SyncRuntime,
    env: &Environment<'_>,
    due: DueComparisons,
) -> Option<(ComparedClusters, Option<String>)> {
    let reconciliation = Reconciliation::new(valid_sync, env);
    if !reconciliation.looks_for_drift() || reconciliation.must_lead().is_err() {
        return None;
    }
    let current = runtime.current_session()?;
    let rendered = RenderedObjects::from_session(current.revision.session);
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
        let scope = ComparisonScope { clusters: Some(clusters), objects: objects.as_ref() };
        // A cluster that fails is retried by the next reconciliation, which says so.
        let found = reconciliation.compare_revisions(
            state,
            current.revision,
            current.formers,
            current.clusters,
            scope,
        );
        compared.extend(found.unwrap_or_default());
    }
    let drift = reconciliation.describe_drift(state, runtime);
    count_clusters(&mut state.record, &runtime.tracker);
    if let Err(error) = state.save_record() {
        tracing::warn!(sync = reconciliation.name(), %error, "the status could not be written");
    }
    Some((compared, drift))
}

impl Reconciliation<'_> {
    /// Looks at all clusters at the interval, however the reconciliation has ended that began at a time: whether each can be
    /// reached, and, if the Sync asks for it, whether it has what was carried out last. Clusters that fail are looked at when
    /// it is their turn. Returns an error if a cluster fails.
    pub(crate) fn check_clusters(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        begun: Instant,
    ) -> Result<(), ReconcileError> {
        if state.record.accepted.is_some() && (self.spec.apply.is_some() || self.looks_for_drift()) {
            let is_due = runtime.tracker.take_comparison_due(self.spec.interval.0);
            let only = (!is_due).then(|| runtime.tracker.due_clusters(begun));
            if only.as_ref().is_none_or(|only| !only.is_empty()) {
                self.must_lead()?;
                self.check_due_clusters(state, runtime, only.as_ref());
            }
        }
        runtime.tracker.check_failures()
    }

    /// Looks at all clusters, or only at some.
    fn check_due_clusters(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        only: Option<&BTreeSet<String>>,
    ) {
        if self.looks_for_drift() {
            let checkout = self.open_accepted(state, runtime);
            match checkout {
                Ok(()) => return self.compare_accepted(state, runtime, only),
                Err(error) => {
                    tracing::warn!(sync = self.name(), %error, "clusters are not compared with the revision that they have");
                }
            }
        }
        self.check_recorded_clusters(state, &mut runtime.tracker, only);
    }

    /// Opens the revision that was accepted last, unless it is in memory.
    fn open_accepted(&self, state: &SyncState<'_>, runtime: &mut SyncRuntime) -> Result<(), ReconcileError> {
        let tip = state.record.accepted.as_ref().map(|accepted| accepted.tip.clone()).unwrap_or_default();
        if runtime.current_session().is_none() && !runtime.formers.contains_key(&tip) {
            let checkout = self.open_planned(state, &tip, state.read_plan()?.unwrap_or_default())?;
            runtime.formers.insert(tip, checkout);
        }
        Ok(())
    }

    /// Compares clusters with the revision that was accepted last.
    fn compare_accepted(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        only: Option<&BTreeSet<String>>,
    ) {
        if let Some(CurrentSession { revision, clusters, formers }) = runtime.current_session() {
            return self.compare_applied(state, revision, formers, clusters, only);
        }
        let tip = state.record.accepted.as_ref().map(|accepted| accepted.tip.clone()).unwrap_or_default();
        if let Some((session, repo)) = runtime.formers.remove(&tip) {
            let revision = RevisionSession { session: &session, repo: repo.as_ref() };
            self.compare_applied(state, revision, &mut runtime.formers, &mut runtime.tracker, only);
            runtime.formers.insert(tip, (session, repo));
        }
    }

    /// Compares the clusters to which the Sync has applied something, each with its own revision. Those that lack the newest
    /// one are left to the next attempt.
    fn compare_applied(
        &self,
        state: &mut SyncState<'_>,
        current: RevisionSession<'_>,
        formers: &mut FormerSessions,
        tracker: &mut ClusterTracker,
        only: Option<&BTreeSet<String>>,
    ) {
        let lacking = state.record.accepted.as_ref().and_then(|accepted| accepted.lacking.clone());
        let lacking = lacking.unwrap_or_default();
        let applied = state.record.status.managed_scope.as_ref().filter(|_| self.spec.apply.is_some());
        let applied: Option<BTreeSet<String>> =
            applied.map(|inventory| inventory.present_clusters().map(|one| one.name.clone()).collect());
        let names = selected_names(self.spec, current.session).filter(|name| {
            !lacking.contains(*name)
                && only.is_none_or(|only| only.contains(*name))
                && applied.as_ref().is_none_or(|applied| applied.contains(*name))
        });
        let members = self.member_clusters(current.session, current.repo.cloned(), state);
        let open = if only.is_none() {
            let (open, watched) = tracker.take_open(names);
            members.check_reachability(&watched, tracker);
            open
        } else {
            names.map(str::to_owned).collect()
        };
        // Clusters that fail are in the tracker.
        let scope = ComparisonScope { clusters: Some(&open), objects: None };
        let _ = self.compare_revisions(state, current, formers, tracker, scope);
        let _ = members.update_status(tracker, &mut state.record.status);
    }

    /// Looks at whether the clusters of the inventory can be reached.
    fn check_recorded_clusters(
        &self,
        state: &mut SyncState<'_>,
        tracker: &mut ClusterTracker,
        only: Option<&BTreeSet<String>>,
    ) {
        let Some(inventory) = state.record.status.managed_scope.clone() else { return };
        let present: Vec<&AppliedCluster> = inventory.present_clusters().collect();
        let names = present.iter().map(|cluster| &cluster.name);
        let names = names.filter(|name| only.is_none_or(|only| only.contains(*name))).cloned().collect();
        let session = self.open_recorded(&present);
        let members = self.member_clusters(&session, None, state);
        let members = MemberClusters { cluster_count: present.len(), ..members };
        members.check_reachability(&names, tracker);
        // Clusters that fail are in the tracker.
        let _ = members.update_status(tracker, &mut state.record.status);
    }

    /// Compares clusters at the interval, each with its own revision.
    pub(crate) fn compare_in_turn(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        current: RevisionSession<'_>,
    ) {
        if self.looks_for_drift() && runtime.tracker.take_comparison_due(self.spec.interval.0) {
            self.compare_applied(state, current, &mut runtime.formers, &mut runtime.tracker, None);
        }
    }

    /// Compares all clusters with what is rendered, if the Sync asks for it.
    pub(crate) fn compare_all_clusters(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        checkout: &Checkout,
    ) -> Result<SyncOutcome, ReconcileError> {
        if !self.looks_for_drift() {
            return Ok(unchanged_outcome(state));
        }
        let session = self.accepted_session(state, runtime, checkout)?;
        self.must_lead()?;
        self.note_managed_scope(state, &session);
        let repo = self.find_repo(checkout);
        let members = self.member_clusters(&session, repo.clone(), state);
        runtime.tracker.take_comparison_due(Duration::ZERO);
        let (open, compared) =
            members.compare_unwatched_clusters(&mut runtime.tracker, &mut state.record.status);
        let (formers, clusters) = (&mut runtime.formers, &mut runtime.tracker);
        let compared = compared.and(self.compare_policies(state, formers, clusters, Some(&open)));
        runtime.put_accepted(checkout, session, repo);
        compared?;
        Ok(unchanged_outcome(state))
    }

    /// What drifted in clusters, and what its correction waits for.
    pub(crate) fn describe_drift(&self, state: &SyncState<'_>, runtime: &SyncRuntime) -> Option<String> {
        let mut drift = runtime.tracker.describe_drift().map(|drift| escape_line(&drift));
        if let Some(drift) = drift.as_mut().filter(|_| self.puts_off_correction(state)) {
            *drift += &format!("; its correction {}", self.describe_wait());
        }
        drift
    }
}
