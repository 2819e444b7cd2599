//! Rollouts that the policies of the repo ask for themselves: `KubeFleet`'s update runs and rolling strategies.
//!
//! The control plane says which clusters get the resources of which policy next, and this module sends them and notes what
//! became of it. Until then, a cluster keeps the objects that the policy sent it by a former revision: they are neither
//! changed nor pruned, and compared with that revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_dialect::{
    ClusterRollout, Plan, PolicyResources, PolicyRollout, PolicyRollouts, RolloutMoment, RolloutProgress,
    RolloutStep,
};
use federate_engine::actions::{ActionKind, Actions, Outcome as ActionOutcome, RepoRef};
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_session::{AwaitingObjects, Session};
use jiff::Timestamp;

use super::carry_out::{LOOK, PAUSE};
use crate::api::Apply;
use crate::backoff::{Backoffs, count};
use crate::members::Members;
use crate::opened::{FormerSessions, SessionCache};
use crate::outcome::Outcome;
use crate::polled::PolledSource;
use crate::round::{Round, RoundError, names};
use crate::state::{SyncState, digest};
use crate::status::{Reason, RolloutStatus, Status};

/// How many characters of a digest are kept: enough to tell revisions of one policy apart.
const DIGEST: usize = 16;

/// What is carried out.
pub(crate) struct Target<'t> {
    pub(crate) apply: &'t Apply,
    pub(crate) session: &'t Session,
    pub(crate) repo: Option<RepoRef>,
    /// The revision: a commit, a tag object, or the digest of a folder.
    pub(crate) tip: &'t str,
    /// The revision, as it is shown to people.
    pub(crate) name: &'t str,
}

impl Round<'_> {
    /// How clusters are updated, if policies of the repo may limit that. The flag says whether rolling strategies count.
    fn by_policies(&self) -> Option<(&Apply, bool)> {
        let apply = self.spec.apply.as_ref()?;
        match &self.spec.rollout {
            None => Some((apply, false)),
            Some(rollout) => rollout.by_placements.then_some((apply, true)),
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
        (kept, former): (Option<&Plan>, Option<&str>),
        tip: &str,
    ) {
        let Some((_, rolling)) = self.by_policies() else { return state.record.policies.clear() };
        let engine = session.engine();
        let limits = |dialect: &str, policy: &ObjectRef| {
            engine.plane(dialect).is_some_and(|plane| plane.limits_rollout(policy, rolling))
        };
        let rows = session.plan().placements.iter();
        let limited: BTreeSet<&ObjectRef> =
            rows.filter(|row| limits(&row.dialect, &row.object)).map(|row| &row.object).collect();
        let policies = &mut state.record.policies;
        policies.retain(|_, rollout| limited.contains(&rollout.policy));
        let known: BTreeSet<&str> = names(session).collect();
        for rollout in policies.values_mut() {
            rollout.clusters.retain(|name, _| known.contains(&**name));
        }
        for policy in limited {
            let key = policy.to_string();
            if policies.contains_key(&key) {
                continue;
            }
            // Without limits, the former revision was sent to all clusters.
            let mut rollout = PolicyRollout::new(policy.clone());
            let row = kept.and_then(|kept| kept.placements.iter().find(|row| row.object == *policy));
            for (placed, former) in
                row.iter().flat_map(|row| row.clusters.iter()).zip(former.into_iter().cycle())
            {
                let cluster = ClusterRollout {
                    available: Some(Timestamp::now()),
                    ..ClusterRollout::released(former, "", Timestamp::now())
                };
                rollout.clusters.insert(placed.name.clone(), ClusterRollout { since: None, ..cluster });
            }
            policies.insert(key, rollout);
        }
        if let Some((kept, former)) = kept.zip(former.filter(|former| *former != tip)) {
            let mut sent = objects(session, kept);
            for (key, rollout) in policies {
                rollout.objects.insert(former.to_owned(), sent.remove(key).unwrap_or_default());
            }
        }
    }

    /// Goes on with rollouts that are under way.
    pub(crate) fn go_on_with_policies(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        PolledSource { opened, name, tip, .. }: &PolledSource,
    ) -> Result<Outcome, RoundError> {
        let session = self.accepted(state, sessions, opened)?;
        let repo = self.repo(opened);
        self.start_policies(state, &session, (Some(session.plan()), Some(tip)), tip);
        let ended = self.roll_out_policies(state, sessions, (&session, repo.clone()), (tip, name));
        sessions.put_accepted(opened, session, repo);
        ended
    }

    /// Takes as many steps of all rollouts as can be taken now, and sends everything that no policy limits.
    pub(crate) fn roll_out_policies(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        (session, repo): (&Session, Option<RepoRef>),
        (tip, name): (&str, &str),
    ) -> Result<Outcome, RoundError> {
        let Some((apply, rolling)) = self.by_policies() else {
            return Ok(Outcome::done("there is nothing to roll out"));
        };
        if self.turn.shares().is_some() {
            let message = "several replicas that share the clusters (--shared) cannot carry out the rollouts of \
                           placements: set `rollout.stages`, or run without --shared";
            return Err(RoundError::new(Reason::ReconciliationFailed, message));
        }
        let target = &Target { apply, session, repo, tip, name };
        let resources = resources(target.session, &state.record.policies);
        loop {
            let steps = self.step(state, target, &resources, rolling);
            let used: BTreeSet<String> =
                state.record.policies.values().flat_map(|r| r.used().cloned().collect::<Vec<_>>()).collect();
            state.forget_formers(&used)?;
            sessions.formers.retain(|revision, _| used.contains(revision));
            // A process that is killed knows what it was about to send.
            state.save()?;
            if !self.send(state, sessions, target)? {
                return self.policies_outcome(state, sessions, target, &steps);
            }
        }
    }

    /// Lets control planes continue the rollouts.
    fn step(
        &self,
        state: &mut SyncState<'_>,
        target: &Target<'_>,
        resources: &BTreeMap<String, PolicyResources>,
        rolling: bool,
    ) -> Vec<RolloutStep> {
        let approvals = self.loaded.sync.meta.as_ref().map(|meta| meta.approve.clone()).unwrap_or_default();
        let engine = target.session.engine();
        let none = PolicyResources::default();
        let mut steps = Vec::new();
        for row in &target.session.plan().placements {
            let key = row.object.to_string();
            let Some(rollout) = state.record.policies.get_mut(&key) else { continue };
            let moment = RolloutMoment {
                now: Timestamp::now(),
                rolling,
                revision: target.tip,
                resources: resources.get(&key).unwrap_or(&none),
                approvals: &approvals,
            };
            let step = engine.plane(&row.dialect).and_then(|plane| plane.carry_out(row, rollout, &moment));
            let used: BTreeSet<String> = rollout.used().cloned().collect();
            let leaving = rollout.clusters.values().filter(|cluster| cluster.leaving);
            let leaving: BTreeSet<String> = leaving.map(|cluster| cluster.revision.clone()).collect();
            rollout.objects.retain(|revision, _| used.contains(revision) || leaving.contains(revision));
            steps.extend(step);
        }
        steps
    }

    /// Sends what was released to clusters, and everything that no policy limits to those that do not have it yet.
    /// Returns whether a cluster has got or lost the resources of a policy.
    fn send(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        target: &Target<'_>,
    ) -> Result<bool, RoundError> {
        let pending = state.record.accepted.as_ref().and_then(|accepted| accepted.pending.clone());
        let all = || names(target.session).map(str::to_owned).collect();
        let open = state.record.policies.values().flat_map(|rollout| &rollout.clusters);
        let open: BTreeSet<String> =
            open.filter(|(_, cluster)| cluster.is_open()).map(|(name, _)| name.to_string()).collect();
        let clusters: BTreeSet<String> = pending.unwrap_or_else(all).union(&open).cloned().collect();
        let now = Instant::now();
        if !clusters.iter().any(|name| sessions.clusters.is_due(name, now)) {
            return Ok(false);
        }
        self.must_lead()?;
        let mut changed = self.send_formers(state, sessions, target)?;
        let members = self.members(target.session, target.repo.clone(), state);
        let wait = if open.is_empty() { self.spec.wait(target.apply) } else { Some(LOOK) };
        let actions = members.update(target.apply, &clusters, wait, &mut sessions.clusters)?;
        let sent = objects(target.session, target.session.plan());
        changed |= note(&mut state.record.policies, &actions, |key, cluster, rollout| {
            let of_former = rollout.objects.values().flatten();
            let objects = match sent.get(key).filter(|_| !cluster.leaving) {
                Some(sent) => sent.iter().cloned().collect(),
                None if cluster.leaving => of_former.cloned().collect(),
                None => BTreeSet::new(),
            };
            (cluster.leaving || cluster.revision == target.tip).then_some(objects)
        });
        // What was released becomes healthy in its own time.
        for name in &open {
            if sessions.clusters.is_unhealthy(name) {
                sessions.clusters.clear(name);
            }
        }
        let failing: BTreeSet<String> = sessions.clusters.causes().map(|(name, _)| name.clone()).collect();
        if let Some(accepted) = &mut state.record.accepted {
            accepted.pending = Some(failing);
        }
        state.save()?;
        Ok(changed)
    }

    /// Sends what runs that began with a former revision have released.
    fn send_formers(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        target: &Target<'_>,
    ) -> Result<bool, RoundError> {
        let is_open = |cluster: &ClusterRollout| cluster.is_open() && !cluster.leaving;
        let mut changed = false;
        for group in groups(&state.record.policies, target.tip, is_open) {
            self.open_former(state, &mut sessions.formers, &group.revision)?;
            let Some((session, repo)) = sessions.formers.get(&group.revision) else { continue };
            let members = self.members(session, repo.clone(), state);
            let awaiting = Some(group.others(session));
            let members = Members { awaiting, also: true, ..members };
            let actions =
                members.update(target.apply, &group.clusters, Some(LOOK), &mut sessions.clusters)?;
            changed |= note(&mut state.record.policies, &actions, |key, cluster, _| {
                let is_this = *key == group.policy && cluster.revision == group.revision && !cluster.leaving;
                is_this.then(|| group.objects.clone())
            });
        }
        Ok(changed)
    }

    /// The outcome of a round after which nothing can be sent for now.
    fn policies_outcome(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        target: &Target<'_>,
        steps: &[RolloutStep],
    ) -> Result<Outcome, RoundError> {
        self.compare_in_turn(state, sessions, (target.session, target.repo.as_ref()));
        let members = self.members(target.session, target.repo.clone(), state);
        let ended = members.end(&sessions.clusters, &mut state.record.status);
        count_clusters(&mut state.record.status, &state.record.policies, target.tip);
        let shown =
            |step: &&RolloutStep| !matches!(step.progress, RolloutProgress::Done | RolloutProgress::Idle);
        let first = steps
            .iter()
            .filter(shown)
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
        let said = |step: &RolloutStep| match &step.progress {
            RolloutProgress::Done => None,
            RolloutProgress::Approval(token) => {
                let name = &self.loaded.sync.metadata.name;
                let message = &step.message;
                Some(format!(
                    "{message}; waits for approval: kubectl annotate sync {name} --overwrite federate.dev/approve={token}"
                ))
            }
            _ => Some(step.message.clone()),
        };
        if let Some(halted) = steps.iter().find(|step| step.progress == RolloutProgress::Halted) {
            return Err(RoundError::new(
                Reason::RolloutHalted,
                format!("the rollout is halted: {}", halted.message),
            ));
        }
        ended?;
        let messages: Vec<String> = steps.iter().filter_map(said).collect();
        if first.is_none() {
            Self::done(state, target.repo.as_ref(), target.name);
            let clusters = count(target.session.clusters().len(), "cluster");
            let all = [vec![format!("applied {} to {clusters}", target.name)], messages].concat();
            return Ok(Outcome { drift: sessions.clusters.drift(), ..Outcome::done(&all.join("; ")) });
        }
        let now = Timestamp::now();
        let times = steps.iter().filter_map(|step| step.next);
        let waits = times.map(|time| Duration::try_from(time.duration_since(now)).unwrap_or_default());
        let open = state.record.policies.values().flat_map(|rollout| rollout.clusters.values());
        let look = open.clone().any(ClusterRollout::is_open).then_some(PAUSE);
        sessions.resume = waits.chain(look).min().map(|wait| Instant::now() + wait);
        let message = format!("rolling out {}: {}", target.name, messages.join("; "));
        Ok(Outcome { reason: Reason::Progressing, message, drift: sessions.clusters.drift() })
    }

    /// Compares the objects that clusters have by former revisions with these.
    pub(crate) fn compare_policies(
        &self,
        state: &mut SyncState<'_>,
        (formers, backoffs): (&mut FormerSessions, &mut Backoffs),
        only: Option<&BTreeSet<String>>,
    ) -> Result<(), RoundError> {
        let Some(tip) = state.record.accepted.as_ref().map(|accepted| accepted.tip.clone()) else {
            return Ok(());
        };
        let mut ended = Ok(());
        for mut group in groups(&state.record.policies, &tip, |cluster| !cluster.is_open()) {
            group.clusters.retain(|name| only.is_none_or(|only| only.contains(name)));
            if group.clusters.is_empty() {
                continue;
            }
            if let Err(error) = self.open_former(state, formers, &group.revision) {
                tracing::warn!(sync = self.name(), revision = group.revision, %error, "objects are not compared");
                continue;
            }
            let Some((session, repo)) = formers.get(&group.revision) else { continue };
            let members = self.members(session, repo.clone(), state);
            let members = Members { objects: Some(&group.objects), awaiting: None, also: true, ..members };
            let compared = members.drift(Some(&group.clusters), backoffs, &mut state.record.status);
            ended = ended.and(compared.map(drop));
        }
        ended
    }
}

/// Clusters that have the objects of a policy by a former revision.
struct Group {
    policy: String,
    revision: String,
    clusters: BTreeSet<String>,
    objects: BTreeSet<ObjectRef>,
}

impl Group {
    /// All other objects that its clusters would have by its revision.
    fn others(&self, session: &Session) -> AwaitingObjects {
        let others = session.plan().placements.iter().filter(|row| !self.objects.contains(&row.object));
        let clusters: BTreeSet<ClusterName> = self.clusters.iter().map(|name| name.as_str().into()).collect();
        others.map(|row| (row.object.clone(), clusters.clone())).collect()
    }
}

fn groups(policies: &PolicyRollouts, tip: &str, which: impl Fn(&ClusterRollout) -> bool) -> Vec<Group> {
    let mut groups: BTreeMap<(&String, &String), BTreeSet<String>> = BTreeMap::new();
    for (key, rollout) in policies {
        for (name, cluster) in &rollout.clusters {
            if cluster.revision != tip && which(cluster) {
                groups.entry((key, &cluster.revision)).or_default().insert(name.to_string());
            }
        }
    }
    let group = |((key, revision), clusters): ((&String, &String), _)| {
        let objects = policies.get(key).and_then(|rollout| rollout.objects.get(revision));
        let objects = objects.into_iter().flatten().cloned().collect();
        Group { policy: key.clone(), revision: revision.clone(), clusters, objects }
    };
    groups.into_iter().map(group).collect()
}

/// Notes what became of resources that were released, in each cluster in which something was done. `sent` are the objects
/// of a policy that count, if they were sent. Returns whether anything has changed for a cluster.
fn note(
    policies: &mut PolicyRollouts,
    actions: &Actions,
    sent: impl Fn(&String, &ClusterRollout, &PolicyRollout) -> Option<BTreeSet<ObjectRef>>,
) -> bool {
    let (now, mut changed) = (Timestamp::now(), false);
    for (key, rollout) in policies {
        let mut gone = BTreeSet::new();
        let open: Vec<ClusterName> = rollout
            .clusters
            .iter()
            .filter(|(_, cluster)| cluster.is_open())
            .map(|(name, _)| name.clone())
            .collect();
        for name in open {
            let Some(report) = actions.clusters.iter().find(|report| report.name == name) else { continue };
            let Some(cluster) = rollout.clusters.get(&name) else { continue };
            let Some(objects) = sent(key, cluster, rollout) else { continue };
            let here = actions.actions.iter().filter(|action| action.cluster == name);
            let leaves = cluster.leaving;
            let mut wrong = here.filter(|action| {
                let is_wrong = match action.outcome {
                    ActionOutcome::Failed => true,
                    // Namespaces and claims stay.
                    ActionOutcome::NotTried if leaves => action.action == ActionKind::Delete,
                    // An object that is not adopted, but is as rendered, is not an error.
                    ActionOutcome::NotTried => {
                        action.action != ActionKind::Conflict || !action.diffs.is_empty()
                    }
                    ActionOutcome::Planned | ActionOutcome::Done => false,
                };
                is_wrong && objects.contains(&action.object)
            });
            let why = |action: &federate_engine::actions::Action| {
                let why = action.error.as_ref().or(action.reason.as_ref());
                format!("{}: {}", action.object, why.map_or("not tried", String::as_str))
            };
            let unhealthy = wrong.clone().all(|action| action.unhealthy);
            let failed =
                report.error.clone().or_else(|| wrong.clone().find(|action| !action.unhealthy).map(why));
            let is_done = failed.is_none() && wrong.next().is_none();
            let Some(cluster) = rollout.clusters.get_mut(&name) else { continue };
            let before = cluster.clone();
            cluster.failed = failed.filter(|_| !unhealthy || report.error.is_some());
            if is_done && cluster.leaving {
                gone.insert(name.clone());
            } else if is_done {
                cluster.available = Some(now);
            }
            changed |= *cluster != before;
        }
        changed |= !gone.is_empty();
        rollout.clusters.retain(|name, _| !gone.contains(name));
    }
    changed
}

/// The objects that policies send by a plan, by policy.
fn objects(session: &Session, plan: &Plan) -> BTreeMap<String, Vec<ObjectRef>> {
    let mut objects: BTreeMap<String, Vec<ObjectRef>> = BTreeMap::new();
    for row in &plan.placements {
        let Some(dialect) = session.dialects().get(&row.dialect) else { continue };
        for sender in dialect.senders(row).into_iter().filter(|sender| sender.policy != row.object) {
            objects.entry(sender.policy.to_string()).or_default().push(row.object.clone());
        }
    }
    objects
}

/// The objects that wait in clusters: those of policies that have not been released to them, and those that they have by
/// a former revision.
pub(crate) fn awaiting(session: &Session, policies: &PolicyRollouts, tip: &str) -> AwaitingObjects {
    let mut awaiting = AwaitingObjects::new();
    if policies.is_empty() {
        return awaiting;
    }
    let waits = |cluster: Option<&ClusterRollout>| {
        cluster.is_none_or(|cluster| !cluster.leaving && cluster.revision != tip)
    };
    for row in &session.plan().placements {
        let Some(dialect) = session.dialects().get(&row.dialect) else { continue };
        for sender in dialect.senders(row) {
            let Some(rollout) = policies.get(&sender.policy.to_string()) else { continue };
            let clusters = sender.clusters.into_iter().filter(|name| waits(rollout.clusters.get(name)));
            let clusters: Vec<ClusterName> = clusters.collect();
            if !clusters.is_empty() {
                awaiting.entry(row.object.clone()).or_default().extend(clusters);
            }
        }
    }
    for rollout in policies.values() {
        for (name, cluster) in rollout.clusters.iter().filter(|(_, cluster)| waits(Some(cluster))) {
            for object in rollout.objects.get(&cluster.revision).into_iter().flatten() {
                awaiting.entry(object.clone()).or_default().insert(name.clone());
            }
        }
    }
    awaiting
}

/// The digests of what a session renders for policies.
fn resources(session: &Session, policies: &PolicyRollouts) -> BTreeMap<String, PolicyResources> {
    let mut texts: BTreeMap<&ObjectRef, Vec<(String, &[ClusterName])>> = BTreeMap::new();
    for manifest in &session.rendering().manifests {
        let text = digest([manifest.text.as_bytes()]);
        texts.entry(&manifest.object).or_default().push((text, &manifest.clusters));
    }
    let mut parts: BTreeMap<String, BTreeMap<ClusterName, Vec<String>>> = BTreeMap::new();
    for row in &session.plan().placements {
        let Some(dialect) = session.dialects().get(&row.dialect) else { continue };
        for sender in dialect.senders(row) {
            let key = sender.policy.to_string();
            if !policies.contains_key(&key) {
                continue;
            }
            let of_policy = parts.entry(key).or_default();
            for (text, clusters) in texts.get(&row.object).into_iter().flatten() {
                for name in clusters.iter().filter(|name| sender.clusters.contains(name)) {
                    of_policy.entry(name.clone()).or_default().push(format!("{} {text}", row.object));
                }
            }
        }
    }
    let short = |texts: &mut dyn Iterator<Item = &[u8]>| {
        let mut all = digest(texts);
        all.truncate(DIGEST);
        all
    };
    let resources = parts.into_iter().map(|(key, clusters)| {
        let clusters: BTreeMap<ClusterName, String> = clusters
            .into_iter()
            .map(|(name, texts)| (name, short(&mut texts.iter().map(String::as_bytes))))
            .collect();
        let pairs = clusters.iter().flat_map(|(name, digest)| [name.as_bytes(), digest.as_bytes()]);
        let digest = short(&mut pairs.into_iter());
        (key, PolicyResources { digest, clusters })
    });
    resources.collect()
}

/// Counts the clusters that rollouts are updating, and those that they have not reached.
fn count_clusters(status: &mut Status, policies: &PolicyRollouts, tip: &str) {
    let Some(counts) = &mut status.clusters else { return };
    let all = || policies.values().flat_map(|rollout| &rollout.clusters);
    let open: BTreeSet<_> =
        all().filter(|(_, c)| c.is_open() && c.failed.is_none()).map(|(name, _)| name).collect();
    let behind = all().filter(|(name, c)| c.revision != tip && !open.contains(name));
    let behind: BTreeSet<_> = behind.map(|(name, _)| name).collect();
    (counts.wait_applied, counts.pending) = (open.len(), behind.len());
    counts.ready = counts.ready.saturating_sub(open.len() + behind.len());
}
