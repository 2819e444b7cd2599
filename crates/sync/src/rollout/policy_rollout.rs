//! Rollouts that the policies of the repo ask for themselves: update runs and rolling strategies of `KubeFleet`, and rollout
//! strategies of sets of works of Open Cluster Management.
//!
//! The control plane says which clusters get the resources of which policy next, and this module sends them and notes what
//! became of it. Until then, a cluster keeps the objects that the policy sent it by a former revision: they are neither
//! changed nor pruned, and compared with that revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_dialect::{
    ClusterRollout, Plan, PolicyResources, PolicyRollout, RolloutDriver, RolloutMoment, RolloutProgress,
    RolloutStep, RolloutSubject,
};
use federate_engine::Engine;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::RepoRef;
use federate_session::Session;
use federate_sync_api::ApplySpec;
use federate_sync_api::status::{RolloutStatus, SyncReason};
use jiff::Timestamp;

use super::policies::{
    PlannedPolicy, digest_resources, group_by_policy, group_by_revision, note_results, objects_by_policy,
    open_clusters,
};
use super::staged_rollout::HEALTH_CHECK_PAUSE;
use crate::member_clusters::selection::selected_names;
use crate::member_clusters::tracker::{ClusterTracker, format_count};
use crate::member_clusters::{HealthWait, MemberClusters};
use crate::outcome::{ReconcileError, SyncOutcome};
use crate::plan::sessions::{FormerSessions, RevisionSession, SourceState, SyncRuntime};
use crate::reconciliation::Reconciliation;
use crate::state::SyncState;

/// What is carried out.
#[derive(Clone)]
pub(crate) struct PolicyRolloutTarget<'t> {
    pub(crate) apply: &'t ApplySpec,
    pub(crate) session: &'t Session,
    pub(crate) repo: Option<RepoRef>,
    /// The revision: a commit, a tag object, or the digest of a folder.
    pub(crate) tip: &'t str,
    /// The revision, as it is shown to people.
    pub(crate) name: &'t str,
    /// The objects that the revision changes in clusters that have everything else; `None` for all.
    pub(crate) changed: Option<&'t BTreeSet<ObjectRef>>,
}

/// The clusters of a row of a plan.
fn find_clusters(plan: &Plan, object: &ObjectRef) -> Option<Vec<ClusterName>> {
    let row = plan.find_placement(object)?;
    Some(row.clusters.iter().map(|placed| placed.name.clone()).collect())
}

/// Whether policies of a dialect limit how clusters are updated.
fn has_rollout_limits(engine: &Engine<'_>, dialect: &str) -> bool {
    engine.find_planner(dialect).is_some_and(|planner| planner.rollout().has_rollout_limits())
}

impl Reconciliation<'_> {
    /// How clusters are updated, and what of the repo may limit that; `None` if nothing may.
    pub(crate) fn by_policies(&self) -> Option<(&ApplySpec, RolloutDriver)> {
        let apply = self.spec.apply.as_ref()?;
        match &self.spec.rollout {
            None => Some((apply, RolloutDriver::UpdateRuns)),
            Some(rollout) => rollout.by_placements.then_some((apply, RolloutDriver::Placements)),
        }
    }

    /// Whether rollouts of policies are under way.
    pub(crate) fn rolls_policies(&self, state: &SyncState<'_>) -> bool {
        self.by_policies().is_some() && !state.record.policies.is_empty()
    }

    /// Begins the rollouts that a new revision asks for, and forgets those that have no policy any more. `kept` is the
    /// plan of the revision before, which was `former`.
    pub(crate) fn start_policies(
        &self,
        state: &mut SyncState<'_>,
        session: &Session,
        kept: Option<&Plan>,
        former: Option<&str>,
        tip: &str,
    ) {
        let Some((_, driver)) = self.by_policies() else { return state.record.policies.clear() };
        let engine = session.build_engine();
        let mut limited = BTreeMap::new();
        if session.dialects().iter().any(|dialect| has_rollout_limits(&engine, dialect.name())) {
            let policies = group_by_policy(session, session.plan()).into_iter();
            limited.extend(policies.filter(|(policy, planned)| {
                let planner = engine.find_planner(&planned.dialect);
                planner.is_some_and(|planner| planner.rollout().controls_updates_of(policy, driver))
            }));
        }
        // The version of a policy may change.
        let limited: BTreeMap<String, ObjectRef> =
            limited.into_keys().map(|policy| (policy.to_string(), policy)).collect();
        let policies = &mut state.record.policies;
        policies.retain(|key, _| limited.contains_key(key));
        if limited.is_empty() {
            return;
        }
        let known: BTreeSet<&str> = selected_names(self.spec, session).collect();
        for rollout in policies.values_mut() {
            rollout.clusters.retain(|name, _| known.contains(&**name));
        }
        let mut before = kept.map(|kept| group_by_policy(session, kept)).unwrap_or_default();
        for (key, policy) in limited {
            if let Some(rollout) = policies.get_mut(&key) {
                rollout.policy = policy;
                continue;
            }
            let mut rollout = PolicyRollout::new(policy.clone());
            // Without limits, the former revision was sent to all clusters.
            if let Some((former, planned)) = former.zip(before.remove(&policy)) {
                let cluster = ClusterRollout {
                    revision: former.to_owned(),
                    available: Some(Timestamp::now()),
                    ..ClusterRollout::default()
                };
                rollout.clusters = planned.clusters.into_iter().map(|name| (name, cluster.clone())).collect();
            }
            policies.insert(key, rollout);
        }
        if let Some((kept, former)) = kept.zip(former.filter(|former| *former != tip)) {
            let mut sent = objects_by_policy(session, kept);
            for (key, rollout) in policies {
                rollout.objects.insert(former.to_owned(), sent.remove(key).unwrap_or_default());
            }
        }
    }

    /// Takes as many steps of all rollouts as can be taken now, and sends everything that no policy limits.
    pub(crate) fn roll_out_policies(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        RevisionSession { session, repo }: RevisionSession<'_>,
        changed: Option<&BTreeSet<ObjectRef>>,
        SourceState { tip, name, .. }: &SourceState,
    ) -> Result<SyncOutcome, ReconcileError> {
        let Some((apply, driver)) = self.by_policies() else {
            return Ok(SyncOutcome::for_success("there is nothing to roll out"));
        };
        let target = &PolicyRolloutTarget { apply, session, repo: repo.cloned(), tip, name, changed };
        let resources = digest_resources(target.session, &state.record.policies);
        let planned = group_by_policy(target.session, target.session.plan());
        let begun = Instant::now();
        loop {
            let steps = self.advance_rollouts(state, target, &planned, &resources, driver);
            let used: BTreeSet<String> = state
                .record
                .policies
                .values()
                .flat_map(|r| r.used_revisions().cloned().collect::<Vec<_>>())
                .collect();
            state.storage.forget_former_plans(&used)?;
            runtime.formers.retain(|revision, _| used.contains(revision));
            // A process that is killed knows what it was about to send.
            state.save_record()?;
            if !self.send_open_rollouts(state, runtime, target)? {
                return self.policies_outcome(state, runtime, target, &steps);
            }
            if !self.may_go_on(state, name, begun) {
                let ended = self.policies_outcome(state, runtime, target, &steps);
                // The next reconciliation finds out why, and goes on if it may.
                runtime.resume = Some(Instant::now());
                return ended;
            }
        }
    }

    /// Lets control planes continue the rollouts.
    fn advance_rollouts(
        &self,
        state: &mut SyncState<'_>,
        target: &PolicyRolloutTarget<'_>,
        planned: &BTreeMap<ObjectRef, PlannedPolicy>,
        resources: &BTreeMap<String, PolicyResources>,
        driver: RolloutDriver,
    ) -> Vec<RolloutStep> {
        let approvals = &self.valid_sync.object.server_metadata.approve;
        let engine = target.session.build_engine();
        let none = PolicyResources::default();
        let mut steps = Vec::new();
        for (policy, planned) in planned {
            let key = policy.to_string();
            let Some(rollout) = state.record.policies.get_mut(&key) else { continue };
            let moment = RolloutMoment {
                now: Timestamp::now(),
                driver,
                revision: target.tip,
                resources: resources.get(&key).unwrap_or(&none),
                approvals,
            };
            let clusters: Vec<ClusterName> = planned.clusters.iter().cloned().collect();
            let clusters_of = |object: &ObjectRef| find_clusters(target.session.plan(), object);
            let subject = RolloutSubject { policy, clusters: &clusters, clusters_of: &clusters_of };
            let planner = engine.find_planner(&planned.dialect);
            let step =
                planner.and_then(|planner| planner.rollout().advance_rollout(&subject, rollout, &moment));
            let used: BTreeSet<String> = rollout.used_revisions().cloned().collect();
            let leaving = rollout.clusters.values().filter(|cluster| cluster.leaving);
            let leaving: BTreeSet<String> = leaving.map(|cluster| cluster.revision.clone()).collect();
            rollout.objects.retain(|revision, _| used.contains(revision) || leaving.contains(revision));
            steps.extend(step);
        }
        steps
    }

    /// Sends what policies roll out now, and everything that no policy limits, to the clusters that do not have it yet.
    /// Returns whether a cluster has got or lost the resources of a policy.
    fn send_open_rollouts(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        target: &PolicyRolloutTarget<'_>,
    ) -> Result<bool, ReconcileError> {
        let lacking = state.record.accepted.as_ref().and_then(|accepted| accepted.lacking.clone());
        let is_first = lacking.is_none();
        let open = open_clusters(&state.record.policies);
        let clusters: BTreeSet<String> = lacking
            .unwrap_or_else(|| selected_names(self.spec, target.session).map(str::to_owned).collect())
            .union(&open)
            .cloned()
            .collect();
        let now = Instant::now();
        if !clusters.iter().any(|name| runtime.tracker.is_due(name, now)) {
            return Ok(false);
        }
        self.must_lead()?;
        // Clusters that have failed may lack more.
        let target = &PolicyRolloutTarget { changed: target.changed.filter(|_| is_first), ..target.clone() };
        let changed = self.send_to(state, runtime, target, &clusters, &open)?;
        // What is rolled out becomes healthy in its own time.
        for name in &open {
            if runtime.tracker.is_unhealthy(name) {
                runtime.tracker.clear_failure(name);
            }
        }
        let failing: BTreeSet<String> =
            runtime.tracker.failure_causes().map(|(name, _)| name.clone()).collect();
        if let Some(accepted) = &mut state.record.accepted {
            accepted.lacking = Some(failing);
        }
        state.save_record()?;
        Ok(changed)
    }

    /// Sends everything that no policy holds back to some clusters, of which these are `open`. Returns whether a cluster has
    /// got or lost the resources of a policy.
    pub(crate) fn send_to(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        target: &PolicyRolloutTarget<'_>,
        clusters: &BTreeSet<String>,
        open: &BTreeSet<String>,
    ) -> Result<bool, ReconcileError> {
        let mut changed = self.send_formers(state, runtime, target)?;
        let members = self.member_clusters(target.session, target.repo.clone(), state);
        let wait = if open.is_empty() {
            HealthWait::UntilTimeout(self.spec.health_timeout(target.apply))
        } else {
            HealthWait::Check
        };
        let (whole, settled): (BTreeSet<String>, BTreeSet<String>) =
            clusters.iter().cloned().partition(|name| target.changed.is_none() || open.contains(name));
        if !settled.is_empty() {
            let members = MemberClusters {
                only_objects: target.changed,
                ..self.member_clusters(target.session, target.repo.clone(), state)
            };
            members.update_clusters(target.apply, &settled, wait, &mut runtime.tracker);
        }
        let actions = members.update_clusters(target.apply, &whole, wait, &mut runtime.tracker);
        let sent = objects_by_policy(target.session, target.session.plan());
        changed |= note_results(&mut state.record.policies, &actions, |key, cluster, rollout| {
            let of_former = rollout.objects.values().flatten();
            let objects = match sent.get(key).filter(|_| !cluster.leaving) {
                Some(sent) => sent.iter().cloned().collect(),
                None if cluster.leaving => of_former.cloned().collect(),
                None => BTreeSet::new(),
            };
            (cluster.leaving || cluster.revision == target.tip).then_some(objects)
        });
        Ok(changed)
    }

    /// Sends what update runs roll out that began with a former revision.
    fn send_formers(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        target: &PolicyRolloutTarget<'_>,
    ) -> Result<bool, ReconcileError> {
        let mut changed = false;
        for group in group_by_revision(&state.record.policies, target.tip, |cluster| {
            cluster.is_open() && !cluster.leaving
        }) {
            self.open_former(state, &mut runtime.formers, &group.revision)?;
            let Some((session, repo)) = runtime.formers.get(&group.revision) else { continue };
            let members = self.member_clusters(session, repo.clone(), state);
            let awaiting = Some(group.other_objects(session));
            let members = MemberClusters { awaiting, partial: true, ..members };
            let actions = members.update_clusters(
                target.apply,
                &group.clusters,
                HealthWait::Check,
                &mut runtime.tracker,
            );
            changed |= note_results(&mut state.record.policies, &actions, |key, cluster, _| {
                let is_this = *key == group.policy && cluster.revision == group.revision && !cluster.leaving;
                is_this.then(|| group.objects.clone())
            });
        }
        Ok(changed)
    }

    /// The outcome of a reconciliation after which nothing can be sent for now.
    fn policies_outcome(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        target: &PolicyRolloutTarget<'_>,
        steps: &[RolloutStep],
    ) -> Result<SyncOutcome, ReconcileError> {
        self.compare_in_turn(
            state,
            runtime,
            RevisionSession { session: target.session, repo: target.repo.as_ref() },
        );
        let members = self.member_clusters(target.session, target.repo.clone(), state);
        let ended = members.update_status(&runtime.tracker, &mut state.record.status);
        let first = steps
            .iter()
            .filter(|step| !matches!(step.progress, RolloutProgress::Done | RolloutProgress::Idle))
            .max_by_key(|step| matches!(step.progress, RolloutProgress::Approval(_)));
        state.record.status.rollout = first.map(|step| RolloutStatus {
            revision: step.revision.clone(),
            object: Some(step.object.to_string()),
            stage: step.stage.clone(),
            updated: step.updated,
            approval: match &step.progress {
                RolloutProgress::Approval(token) => Some(token.clone()),
                _ => None,
            },
        });
        if let Some(halted) = steps.iter().find(|step| step.progress == RolloutProgress::Halted) {
            return Err(ReconcileError::new(
                SyncReason::RolloutHalted,
                format!("the rollout is halted: {}", halted.message),
            ));
        }
        ended?;
        let messages: Vec<String> = steps.iter().filter_map(|step| match &step.progress {
            RolloutProgress::Done => None,
            RolloutProgress::Approval(token) => {
                let name = &self.valid_sync.object.metadata.name;
                let message = &step.message;
                Some(format!(
                    "{message}; waits for approval: kubectl annotate sync {name} --overwrite federate.dev/approve={token}"
                ))
            }
            _ => Some(step.message.clone()),
        }).collect();
        if first.is_none() {
            let clusters = format_count(selected_names(self.spec, target.session).count(), "cluster");
            let all = [vec![format!("applied {} to {clusters}", target.name)], messages].concat();
            return Ok(SyncOutcome {
                drift: runtime.tracker.describe_drift(),
                ..SyncOutcome::for_success(&all.join("; "))
            });
        }
        let now = Timestamp::now();
        let times = steps.iter().filter_map(|step| step.next);
        let waits = times.map(|time| Duration::try_from(time.duration_since(now)).unwrap_or_default());
        let open = state.record.policies.values().flat_map(|rollout| rollout.clusters.values());
        let look = open.clone().any(ClusterRollout::is_open).then_some(HEALTH_CHECK_PAUSE);
        runtime.resume = waits.chain(look).min().map(|wait| Instant::now() + wait);
        let message = format!("rolling out {}: {}", target.name, messages.join("; "));
        Ok(SyncOutcome { reason: SyncReason::Progressing, message, drift: runtime.tracker.describe_drift() })
    }

    /// Compares the objects that clusters have by former revisions with these.
    pub(crate) fn compare_policies(
        &self,
        state: &mut SyncState<'_>,
        formers: &mut FormerSessions,
        tracker: &mut ClusterTracker,
        only: Option<&BTreeSet<String>>,
    ) -> Result<(), ReconcileError> {
        let Some(tip) = state.record.accepted.as_ref().map(|accepted| accepted.tip.clone()) else {
            return Ok(());
        };
        let mut ended = Ok(());
        for mut group in group_by_revision(&state.record.policies, &tip, |cluster| !cluster.is_open()) {
            group.clusters.retain(|name| only.is_none_or(|only| only.contains(name)));
            if group.clusters.is_empty() {
                continue;
            }
            if let Err(error) = self.open_former(state, formers, &group.revision) {
                tracing::warn!(sync = self.name(), revision = group.revision, %error, "objects are not compared");
                continue;
            }
            let Some((session, repo)) = formers.get(&group.revision) else { continue };
            let members = self.member_clusters(session, repo.clone(), state);
            let members = MemberClusters {
                only_objects: Some(&group.objects),
                awaiting: None,
                partial: true,
                ..members
            };
            let compared = members.compare_clusters(Some(&group.clusters), tracker, &mut state.record.status);
            ended = ended.and(compared.map(drop));
        }
        ended
    }
}
