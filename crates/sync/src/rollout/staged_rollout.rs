//! Carries a rollout out: applies to the clusters of the next step, waits for their health over several reconciliations, and
//! compares every cluster with the revision that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_dialect::stages::UpdateStage;
use federate_kubernetes::{Cluster, ClusterName};
use federate_reconcile::RepoRef;
use federate_session::Session;
use federate_sync_api::progress::{ClusterRevisions, NextRolloutStep, RolloutState};
use federate_sync_api::rollout::RolloutSpec;
use federate_sync_api::stage::{StageEvent, StageInputs};
use federate_sync_api::status::{RolloutStatus, SyncReason};
use federate_sync_api::{ApplySpec, find_window_state};
use jiff::{SignedDuration, Timestamp};

use crate::member_clusters::cluster_counts::count_clusters;
use crate::member_clusters::comparison::ComparisonScope;
use crate::member_clusters::selection::{selected_clusters, selected_names};
use crate::member_clusters::tracker::{ClusterTracker, FailureKind, format_count};
use crate::member_clusters::{ComparedClusters, HealthWait, MemberClusters};
use crate::outcome::{ReconcileError, SyncOutcome};
use crate::plan::RenderedRevision;
use crate::plan::sessions::{FormerSessions, RevisionSession, SourceState, SyncRuntime};
use crate::reconciliation::Reconciliation;
use crate::state::SyncState;

/// The pause between two looks.
pub(crate) const HEALTH_CHECK_PAUSE: Duration = Duration::from_secs(2);

/// What is rolled out.
pub(crate) struct RolloutTarget<'t> {
    rollout: RolloutSpec,
    stages: Vec<UpdateStage>,
    apply: &'t ApplySpec,
    session: &'t Session,
    repo: Option<RepoRef>,
    /// The revision, as it is shown to people.
    name: &'t str,
    progress: RolloutState,
}

impl RolloutTarget<'_> {
    fn revision(&self) -> RevisionSession<'_> {
        RevisionSession { session: self.session, repo: self.repo.as_ref() }
    }
}

impl Reconciliation<'_> {
    /// How clusters are updated in stages, if they are.
    pub(crate) fn staged_rollout(&self) -> Option<(&RolloutSpec, &ApplySpec)> {
        self.spec.rollout.as_ref().filter(|rollout| !rollout.by_placements).zip(self.spec.apply.as_ref())
    }

    /// What is rolled out: the stages with their clusters, and how far it is.
    fn find_target<'t>(
        &'t self,
        state: &mut SyncState<'_>,
        revision: RevisionSession<'t>,
        name: &'t str,
    ) -> Result<RolloutTarget<'t>, ReconcileError> {
        let Some((rollout, apply)) = self.staged_rollout() else {
            return Err(invalid_rollout("the Sync has no stages"));
        };
        let rollout = rollout.resolve_stages(revision.session.repo()).map_err(|why| invalid_rollout(&why))?;
        let RevisionSession { session, repo } = revision;
        let clusters: Vec<&Cluster> = selected_clusters(self.spec, session).collect();
        let stages = rollout.clusters_by_stage(&clusters).map_err(|why| invalid_rollout(&why.to_string()))?;
        let known: BTreeSet<&str> = clusters.iter().map(|cluster| cluster.name.as_ref()).collect();
        state.record.clusters.retain(|name, _| known.contains(name.as_str()));
        for name in known {
            state.record.clusters.entry(name.to_owned()).or_default();
        }
        let progress = state.record.rollout.clone().unwrap_or_default();
        Ok(RolloutTarget { rollout, stages, apply, session, repo: repo.cloned(), name, progress })
    }

    /// Takes as many steps of the rollout as can be taken now.
    pub(crate) fn roll_out(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        revision: RevisionSession<'_>,
        name: &str,
    ) -> Result<SyncOutcome, ReconcileError> {
        let target = &self.find_target(state, revision, name)?;
        let approvals = &self.valid_sync.object.server_metadata.approve;
        let mut progress = target.progress.clone();
        let (begun, mut updated) = (Instant::now(), false);
        loop {
            let (mut next, mut clusters) = (progress.clone(), state.record.clusters.clone());
            let step = next.advance_rollout(
                &target.rollout,
                &target.stages,
                &mut clusters,
                approvals,
                Timestamp::now(),
            );
            if let NextRolloutStep::Update { stage, .. } = &step
                && updated
                && !self.may_go_on(state, name, begun)
            {
                // The next reconciliation finds out why, and goes on if it may.
                runtime.resume = Some(Instant::now());
                return Ok(self.pending_outcome(state, runtime, target, stage, None, ""));
            }
            (progress, state.record.clusters) = (next, clusters);
            state.record.rollout = Some(progress.clone());
            match step {
                NextRolloutStep::Done => {
                    let (clusters, stages) = (state.record.clusters.len(), target.rollout.stages.len());
                    let (clusters, stages) =
                        (format_count(clusters, "cluster"), format_count(stages, "stage"));
                    return Ok(SyncOutcome::for_success(&format!(
                        "rolled {name} out to {clusters} in {stages}"
                    )));
                }
                NextRolloutStep::Update { stage, clusters } => {
                    updated = true;
                    // A process that is killed knows what it was about to update.
                    state.save_record()?;
                    let healthy = self.update_clusters(state, &mut runtime.tracker, target, &clusters)?;
                    check_not_halted(&state.record.clusters, &stage, target.name)?;
                    if !healthy {
                        runtime.resume = Some(Instant::now() + HEALTH_CHECK_PAUSE);
                        let what = describe_unhealthy(&state.record.clusters);
                        return Ok(self.pending_outcome(state, runtime, target, &stage, None, &what));
                    }
                }
                NextRolloutStep::Approval { stage, token } => {
                    let name = &self.valid_sync.object.metadata.name;
                    let what = format!(
                        " waits for approval: kubectl annotate sync {name} --overwrite federate.dev/approve={token}"
                    );
                    return Ok(self.pending_outcome(state, runtime, target, &stage, Some(token), &what));
                }
                NextRolloutStep::Until { stage, time } => {
                    let wait = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
                    runtime.resume = Some(Instant::now() + wait);
                    let what = format!(" waits until {time:.0}");
                    return Ok(self.pending_outcome(state, runtime, target, &stage, None, &what));
                }
            }
        }
    }

    /// Whether a rollout may take another step in a reconciliation that began at a time: windows close, people abort, suspend
    /// or change the Sync, the process is asked to end, and the source is looked at at the interval.
    pub(crate) fn may_go_on(&self, state: &SyncState<'_>, revision: &str, begun: Instant) -> bool {
        let window = find_window_state(&self.spec.windows, Timestamp::now());
        let inputs = StageInputs {
            window_is_open: window.is_none_or(|window| window.is_open),
            ..self.build_stage_inputs(&state.record, StageEvent::Waiting, revision)
        };
        let is_interrupted = self.interrupt.is_some_and(|is_interrupted| is_interrupted());
        inputs.may_change() && !is_interrupted && begun.elapsed() < self.spec.interval.0
    }

    /// The outcome of a reconciliation outside of all windows. Clusters that are being updated are not looked at until one
    /// opens, and their time limits begin again then.
    pub(crate) fn await_window_between_steps(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        revision: RevisionSession<'_>,
        name: &str,
    ) -> Result<SyncOutcome, ReconcileError> {
        let target = self.find_target(state, revision, name)?;
        let now = Timestamp::now();
        for since in state.record.clusters.values_mut().filter_map(|cluster| cluster.updating.as_mut()) {
            *since = now;
        }
        let stage = target.stages.iter().filter(|stage| !stage.clusters.is_empty()).find(|stage| {
            target.progress.stages.get(&stage.name).is_none_or(|progress| progress.finished.is_none())
        });
        let stage = stage.map(|stage| stage.name.clone()).unwrap_or_default();
        Ok(self.pending_outcome(state, runtime, &target, &stage, None, &format!(" {}", self.describe_wait())))
    }

    /// Applies to clusters that are being updated. Returns whether one of them has become healthy.
    fn update_clusters(
        &self,
        state: &mut SyncState<'_>,
        tracker: &mut ClusterTracker,
        target: &RolloutTarget<'_>,
        clusters: &BTreeSet<String>,
    ) -> Result<bool, ReconcileError> {
        self.must_lead()?;
        let members = self.member_clusters(target.session, target.repo.clone(), state);
        let mut actions = members.update_clusters(target.apply, clusters, HealthWait::Check, tracker);
        let timeout = SignedDuration::try_from(self.spec.timeout()).unwrap_or(SignedDuration::MAX);
        let revision = state.record.rollout.as_ref().map(|progress| progress.target.clone());
        let (now, mut healthy) = (Timestamp::now(), false);
        // Waiting takes several checks: what counts is the time since the cluster was updated.
        for action in &mut actions.actions {
            let cluster = state.record.clusters.get(&*action.cluster);
            if let (Some(cluster), Some(why)) = (cluster, &action.unhealthy) {
                action.error = Some(describe_health(cluster.time_updating(now), timeout, why));
            }
        }
        let mut messages = members.describe_errors(&actions, true);
        for (name, cluster) in state.record.clusters.iter_mut().filter(|(name, _)| clusters.contains(*name)) {
            match tracker.find_cause(name).cloned() {
                None => {
                    (cluster.revision, cluster.stale) = (revision.clone(), false);
                    (cluster.updating, cluster.applied) = (None, false);
                    (cluster.failed, cluster.unhealthy) = (None, None);
                    healthy = true;
                }
                Some(cause) => {
                    let message = messages.remove(&ClusterName::from(&**name)).unwrap_or(cause.message);
                    let may_become_healthy =
                        matches!(cause.kind, FailureKind::Unhealthy | FailureKind::AwaitingHook);
                    if may_become_healthy && cluster.time_updating(now) < timeout {
                        (cluster.applied, cluster.failed) = (cause.kind == FailureKind::Unhealthy, None);
                        cluster.unhealthy = Some(message);
                        tracker.clear_failure(name);
                    } else {
                        cluster.failed = Some(message);
                    }
                }
            }
        }
        // Clusters that fail are reported by the rollout.
        let _ = members.update_status(tracker, &mut state.record.status);
        count_clusters(&mut state.record, tracker);
        state.save_record()?;
        Ok(healthy)
    }

    /// The outcome of a reconciliation that ends before the rollout does.
    fn pending_outcome(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        target: &RolloutTarget<'_>,
        stage: &str,
        approval: Option<String>,
        what: &str,
    ) -> SyncOutcome {
        self.compare_in_turn(state, runtime, target.revision());
        let (clusters, revision) = (&state.record.clusters, state.record.rollout.as_ref().map(|p| &p.target));
        let updated = clusters.values().filter(|cluster| cluster.revision.as_ref() == revision).count();
        state.record.status.rollout = Some(RolloutStatus {
            revision: revision.cloned().unwrap_or_default(),
            object: None,
            stage: stage.to_owned(),
            updated,
            approval,
        });
        let all = format_count(clusters.len(), "cluster");
        let message =
            format!("rolling out {}: {updated} of {all} are at it; stage `{stage}`{what}", target.name);
        let drift = runtime.tracker.describe_drift();
        SyncOutcome { reason: SyncReason::Progressing, message, drift }
    }

    /// Returns the clusters that have the revision, or one whose rollout was halted before, to the last one that succeeded
    /// there. The revision is not tried again.
    pub(crate) fn return_clusters(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        SourceState { checkout, name, .. }: &SourceState,
        rendered: Option<RenderedRevision>,
    ) -> Result<SyncOutcome, ReconcileError> {
        let session = match rendered {
            Some(rendered) => rendered.session,
            None => self.accepted_session(state, runtime, checkout)?,
        };
        let repo = self.find_repo(checkout);
        let revision = RevisionSession { session: &session, repo: repo.as_ref() };
        let ended = self.abort_rollout(state, runtime, revision, name);
        runtime.put_accepted(checkout, session, repo);
        ended
    }

    fn abort_rollout(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        revision: RevisionSession<'_>,
        name: &str,
    ) -> Result<SyncOutcome, ReconcileError> {
        let mut target = self.find_target(state, revision, name)?;
        target.progress.aborted = true;
        let (target, progress) = (&target, &target.progress);
        state.record.rollout = Some(progress.clone());
        // The next revision continues from the plan of the former one.
        let known = state.record.status.find_condition("Stalled");
        let known = known.is_some_and(|stalled| stalled.reason == SyncReason::RolloutAborted.name());
        if known {
            tracing::debug!(sync = self.name(), "the rollout stays aborted");
        } else if let Some(plan) =
            progress.former.as_ref().map(|former| state.read_former_plan(former)).transpose()?.flatten()
        {
            state.write_plan(&plan)?;
        }
        let mut returning: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, cluster) in &state.record.clusters {
            // It may also have a revision that was halted before.
            let has_other = cluster.revision != cluster.former || cluster.updating.is_some();
            if let Some(former) =
                cluster.former.as_ref().filter(|former| has_other && **former != progress.target)
            {
                returning.entry(former.clone()).or_default().insert(name.clone());
            }
        }
        for (former, clusters) in returning {
            self.must_lead()?;
            self.open_former(state, &mut runtime.formers, &former)?;
            let Some((session, repo)) = runtime.formers.get(&former) else { continue };
            let members = self.member_clusters(session, repo.clone(), state);
            let tracker = &mut runtime.tracker;
            members.update_clusters(target.apply, &clusters, HealthWait::UntilTimeout(None), tracker);
            for (name, cluster) in
                state.record.clusters.iter_mut().filter(|(name, _)| clusters.contains(*name))
            {
                cluster.failed = tracker.find_cause(name).map(|cause| cause.message.clone());
                if cluster.failed.is_none() {
                    (cluster.revision, cluster.updating) = (Some(former.clone()), None);
                }
            }
            state.save_record()?;
        }
        state.record.status.rollout = None;
        check_not_halted(&state.record.clusters, "abort", target.name)?;
        self.compare_in_turn(state, runtime, target.revision());
        let message = format!(
            "the rollout of {} was aborted, and clusters are at their former revisions: push another revision",
            target.name
        );
        Err(ReconcileError::new(SyncReason::RolloutAborted, message))
    }

    /// Compares clusters, each with the revision that it has. Those that are being updated are left out.
    pub(crate) fn compare_revisions(
        &self,
        state: &mut SyncState<'_>,
        RevisionSession { session, repo }: RevisionSession<'_>,
        formers: &mut FormerSessions,
        tracker: &mut ClusterTracker,
        scope: ComparisonScope<'_>,
    ) -> Result<ComparedClusters, ReconcileError> {
        let mut groups: BTreeMap<Option<String>, BTreeSet<String>> = BTreeMap::new();
        let target = state.record.rollout.as_ref().map(|progress| progress.target.clone());
        for cluster in selected_names(self.spec, session).map(str::to_owned) {
            if scope.clusters.is_some_and(|only| !only.contains(&cluster)) {
                continue;
            }
            let has = state.record.clusters.get(&cluster).cloned().unwrap_or_default();
            let revision = match (&target, has.revision) {
                (Some(_), None) => continue,
                (Some(_), _) if has.updating.is_some() => continue,
                (Some(target), Some(revision)) if revision != *target => Some(revision),
                _ => None,
            };
            groups.entry(revision).or_default().insert(cluster);
        }
        let mut compared = ComparedClusters::new();
        let mut ended = Ok(());
        for (revision, clusters) in groups {
            let (session, repo) = match &revision {
                None => (session, repo.cloned()),
                Some(former) => {
                    if let Err(error) = self.open_former(state, formers, former) {
                        tracing::warn!(sync = self.name(), revision = former, %error, "clusters are not compared");
                        continue;
                    }
                    let Some((session, repo)) = formers.get(former) else { continue };
                    (session, repo.clone())
                }
            };
            let members =
                MemberClusters { only_objects: scope.objects, ..self.member_clusters(session, repo, state) };
            match members.compare_clusters(Some(&clusters), tracker, &mut state.record.status) {
                Ok(more) => compared.extend(more),
                Err(error) => ended = Err(error),
            }
        }
        if scope.objects.is_none() {
            ended = ended.and(self.compare_policies(state, formers, tracker, scope.clusters));
        }
        ended.map(|()| compared)
    }
}

fn invalid_rollout(why: &str) -> ReconcileError {
    ReconcileError::new(SyncReason::BuildFailed, format!("rollout: {why}"))
}

/// What is said about an object that is not healthy. Until the time is over, the same state has the same message.
fn describe_health(took: SignedDuration, timeout: SignedDuration, why: &str) -> String {
    if took < timeout {
        return format!("not healthy yet: {why}");
    }
    format!("not healthy after {} s: {why}", took.as_secs())
}

/// What the clusters of a stage that are being updated wait for, as the end of a sentence.
fn describe_unhealthy(clusters: &ClusterRevisions) -> String {
    let mut waiting = clusters.iter().filter_map(|(name, cluster)| Some((name, cluster.unhealthy.as_ref()?)));
    let Some((cluster, why)) = waiting.next() else { return String::new() };
    let more = match waiting.count() {
        0 => String::new(),
        more => format!(" (and {} more)", format_count(more, "cluster")),
    };
    format!(" waits for {cluster}: {why}{more}")
}

/// Returns an error if a cluster of a stage has failed.
fn check_not_halted(clusters: &ClusterRevisions, stage: &str, name: &str) -> Result<(), ReconcileError> {
    let failed = clusters.iter().find_map(|(name, cluster)| Some((name, cluster.failed.as_ref()?)));
    let Some((cluster, why)) = failed else { return Ok(()) };
    let waiting = clusters.values().filter(|cluster| cluster.updating.is_none() && cluster.failed.is_none());
    let waiting = waiting.filter(|cluster| cluster.revision == cluster.former).count();
    let message = format!(
        "the rollout of {name} is halted in stage `{stage}`: {cluster}: {why}; {} former revision",
        if waiting == 1 {
            "1 cluster keeps its".to_owned()
        } else {
            format!("{waiting} clusters keep their")
        }
    );
    Err(ReconcileError::new(SyncReason::RolloutHalted, message))
}
