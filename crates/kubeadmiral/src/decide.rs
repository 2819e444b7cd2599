//! The decision about one template: its policy, whether it is scheduled again, its clusters, and its memory.

use super::effective_policy::EffectivePolicy;
use super::memory::{Memory, Pending};
use super::migration::{self, Estimates, Migration};
use super::policies::{Policy, Unusable, named};
use super::profile::Plugins;
use super::schedule::{self, GPU, Outcome, Trace};
use super::trigger::{self, Clusters, State, Verdict};
use super::types::TypeConfig;
use super::{KubeAdmiralPlane, NAME, keys, overrides, podspec};
use federate_dialect::memory::compute_digest;
use federate_dialect::{Placed, PlacedClusters, Placement, Previous, Unschedulable};
use federate_kubernetes::{ClusterName, Object, ObjectRef, pods};

/// A decision about a template.
pub(super) struct Decision<'d, 'a> {
    plane: &'d KubeAdmiralPlane<'a>,
    pub(super) template: &'d Object,
    config: &'d TypeConfig,
    /// What the row of the previous plan remembers.
    memory: Memory,
    remembered: Option<(State, Clusters)>,
    migration: Migration,
    /// The text of the migration, where the template asks for one.
    applied: Option<String>,
    /// Why its migration configuration is ignored, if it is.
    unclear_migration: Option<String>,
    /// The clusters of the last decision.
    last: PlacedClusters,
    /// The clusters of the row of the previous plan; `None` without a row.
    before: Option<PlacedClusters>,
    /// The digest of the template.
    source: String,
    /// `namespace/name`, or the name alone.
    key: String,
}

/// What is decided about a template.
pub(super) struct TemplateDecision {
    pub(super) placement: Placement,
    /// Whether the scheduler did not act because nothing has changed for it.
    pub(super) stays: bool,
    /// Whether the scheduler acted.
    pub(super) acts: bool,
}

/// The scheduler's answer.
struct Answer {
    clusters: PlacedClusters,
    problem: Option<Unschedulable>,
    deferred: String,
    /// What the scheduler remembers.
    state: Option<State>,
    /// Whether the scheduler did not act.
    stays: bool,
    /// Whether it could not act, and tries again.
    fails: bool,
    /// Whether it has scheduled the object.
    schedules: bool,
}

fn problem(reason: &str, message: impl Into<String>) -> Unschedulable {
    Unschedulable { reason: reason.to_owned(), message: message.into() }
}

impl<'d, 'a> Decision<'d, 'a> {
    /// Prepares a decision about a template of a federated kind.
    pub(super) fn new(
        plane: &'d KubeAdmiralPlane<'a>,
        template: &'d Object,
        config: &'d TypeConfig,
        previous: &'d Previous,
    ) -> Self {
        let row = previous.of(&template.id);
        let mut memory = row.map(Memory::of).unwrap_or_default();
        let last = row.map(|row| last_scheduled(row, &memory)).unwrap_or_default();
        let estimates = plane
            .auto_migration(template)
            .zip(plane.now)
            .and_then(|(policy, now)| migration::observe_estimates(plane.live, template, &last, policy, now));
        if let Some(estimates) = &estimates {
            migration::remember_estimates(&mut memory, estimates);
        }
        let divisible = config.replicas_of(&template.body).is_some();
        let (applied, unclear_migration) = match Migration::of(template, divisible) {
            Ok(migration) => (migration.map(|migration| migration.text()), None),
            Err(why) => (migration::applied(&memory).map(str::to_owned), Some(why)),
        };
        let migration = applied.as_deref().map(Migration::read).unwrap_or_default();
        Self {
            plane,
            template,
            config,
            remembered: State::recall(memory.trigger.as_ref(), |digest| previous.shared(digest).cloned()),
            memory,
            migration,
            applied,
            unclear_migration,
            last,
            before: row.map(|row| row.clusters.clone()),
            source: source_digest(template),
            key: template.id.path(),
        }
    }

    /// The text of the migration configuration in force.
    pub(super) fn applied(&self) -> Option<&str> {
        self.applied.as_deref()
    }

    /// The policy that the template's labels name, whether it exists or not.
    pub(super) fn named(&self) -> Option<ObjectRef> {
        named(self.template)
    }

    /// Why the template's migration configuration is ignored, if it is.
    pub(super) fn migration_error(&self) -> Option<&str> {
        self.unclear_migration.as_deref()
    }

    /// Whether evictions depend on the time, and the time is not known.
    pub(super) fn lacks_clock(&self) -> bool {
        self.plane.now.is_none() && !self.migration.evicted.is_empty()
    }

    /// Decides, and lets the scheduler look again after it has acted: with four or more clusters it usually notes then that it
    /// defers a change (see [`trigger`]). A plan of the plan finds the same.
    pub(super) fn place_until_stable(&self) -> TemplateDecision {
        let mut decided = self.place(None);
        let mut memory = Memory::of(&decided.placement);
        let policy = self.named().and_then(|id| self.plane.policies.get(&id));
        if let Some(state) = memory.trigger.as_ref().filter(|_| decided.acts && memory.pending.is_none())
            && let seen = (state, &self.plane.snapshot)
            && let Verdict::Stay(deferred) = trigger::compare(Some(seen), seen, policy.map(|p| &p.spec))
        {
            memory.deferred = deferred;
            memory.write(&mut decided.placement);
        }
        decided
    }

    /// Decides once.
    pub(super) fn place(&self, trace: Option<&mut Trace>) -> TemplateDecision {
        let id = self.named();
        let pending = self.pending();
        let answer = match pending {
            // The scheduler does not act while a later controller is pending.
            Some(Pending::Overrides) => Answer { deferred: self.memory.deferred.clone(), ..self.stay(None) },
            _ => self.answer(id.as_ref(), trace),
        };
        let mut placement = Placement::new(NAME, self.template.id.clone(), id);
        let mut memory = self.remembering(&answer);
        let acts = !answer.stays && !answer.fails && pending != Some(Pending::Overrides);
        let scheduling_fails = answer.fails && pending == Some(Pending::Scheduler);
        let moves = answer.clusters != self.last;
        placement.clusters = answer.clusters;
        placement.unschedulable = answer.problem;
        let fails = override_problem(self.plane, self.template, &placement).is_some();
        memory.pending = match pending {
            _ if scheduling_fails => Some(Pending::Scheduler),
            None if !moves => None,
            _ => fails.then_some(Pending::Overrides),
        };
        match memory.pending {
            Some(_) => memory.held = self.held(&placement),
            None if fails => memory.overridden = Some(self.overridden()),
            None => {}
        }
        memory.write(&mut placement);
        TemplateDecision { placement, stays: answer.stays, acts }
    }

    /// The controller that has to act: all of them after a change of the template.
    fn pending(&self) -> Option<Pending> {
        let is_new = self.before.is_none();
        let has_changed = !self.memory.source.is_empty() && self.memory.source != self.source;
        if is_new || has_changed { Some(Pending::Scheduler) } else { self.memory.pending }
    }

    /// The clusters that have the object, but are not in a placement of it.
    fn held(&self, placement: &Placement) -> Vec<ClusterName> {
        let before = self.before.iter().flat_map(|clusters| clusters.iter().map(|placed| &placed.name));
        let mut held: Vec<ClusterName> = before.chain(&self.memory.held).cloned().collect();
        held.sort();
        held.dedup();
        held.retain(|name| !placement.clusters.has(name) && self.plane.cluster(name).is_some());
        held
    }

    /// The clusters where the last good overrides are in force.
    fn overridden(&self) -> Vec<ClusterName> {
        let before =
            || self.before.iter().flat_map(|clusters| clusters.iter().map(|placed| placed.name.clone()));
        self.memory.overridden.clone().unwrap_or_else(|| before().collect())
    }

    /// What the row remembers after the answer. What other controllers left on the object stays.
    fn remembering(&self, answer: &Answer) -> Memory {
        let mut memory = Memory {
            annotations: self.memory.annotations.clone(),
            propagated: self.memory.propagated.clone(),
            trigger: answer.state.clone(),
            deferred: answer.deferred.clone(),
            source: self.source.clone(),
            is_unfollowed: if answer.schedules {
                self.keeps_followers_away()
            } else {
                self.memory.is_unfollowed
            },
            ..Memory::default()
        };
        migration::remember(&mut memory, self.applied.as_deref());
        memory
    }

    /// Whether the template's policy lets no object follow it.
    fn keeps_followers_away(&self) -> bool {
        let policy = self.named().and_then(|id| self.plane.policies.get(&id));
        policy.is_some_and(|policy| policy.spec.disable_follower_scheduling)
    }

    /// Returns an answer that changes nothing.
    fn stay(&self, problem: Option<Unschedulable>) -> Answer {
        let state = self.remembered.as_ref().map(|(state, _)| state.clone());
        let (clusters, deferred) = (self.last.clone(), String::new());
        Answer { clusters, problem, deferred, state, stays: false, fails: false, schedules: false }
    }

    /// Returns an answer that changes nothing, because the scheduler fails and tries again.
    fn fail(&self, problem: Unschedulable) -> Answer {
        Answer { fails: true, ..self.stay(Some(problem)) }
    }

    fn answer(&self, id: Option<&ObjectRef>, trace: Option<&mut Trace>) -> Answer {
        let policy = match id {
            None => None,
            Some(id) => match self.plane.policies.get(id) {
                Some(policy) => Some(policy),
                None => return self.fail(problem("PolicyNotFound", format!("there is no {id}"))),
            },
        };
        let plugins = policy.map(|p| self.plane.policies.plugins(p)).transpose();
        if let Err(Unusable::NoProfile(name)) = &plugins {
            let message = format!("there is no SchedulingProfile `{name}`");
            return self.fail(problem("SchedulingProfileNotFound", message));
        }
        let now = self.state(policy);
        let verdict = trigger::compare(
            self.remembered.as_ref().map(|(state, clusters)| (state, clusters)),
            (&now, &self.plane.snapshot),
            policy.map(|p| &p.spec),
        );
        let disabled = self.disabled();
        match verdict {
            Verdict::Stay(deferred) => {
                Answer { deferred, stays: true, ..self.stay(disabled.or_else(|| Self::unwanted(policy))) }
            }
            Verdict::Schedule if disabled.is_some() => Answer { state: Some(now), ..self.stay(disabled) },
            Verdict::Schedule => self.schedule(policy, plugins, &now, trace),
        }
    }

    /// Why the scheduler never acts on the template, if it does not.
    fn disabled(&self) -> Option<Unschedulable> {
        let disabled = self.template.annotation(keys::NO_SCHEDULING).is_some_and(|v| !v.is_empty());
        disabled.then(|| {
            problem("SchedulingDisabled", format!("the template has the annotation {}", keys::NO_SCHEDULING))
        })
    }

    /// Why the template is still not scheduled, although the scheduler has nothing to act on: the control plane states
    /// the reason only when it schedules.
    pub(super) fn remaining_problem(&self, placement: &Placement) -> Option<Unschedulable> {
        if placement.unschedulable.is_some() {
            return None;
        }
        let policy = self.plane.policies.get(&self.named()?)?;
        if let Some(disabled) = self.disabled() {
            return Some(disabled);
        }
        let plugins = self.plane.policies.plugins(policy).ok().filter(|_| placement.clusters.is_empty())?;
        let wanted = self.wanted(policy);
        let subject = self.subject(policy, &wanted).ok()?;
        match schedule::schedule(&self.plane.members, plugins, &subject, &wanted, None) {
            Outcome::NoClusterFits => {
                Some(problem("NoClusterFits", self.nothing_fits(plugins, &subject, &wanted)))
            }
            Outcome::Placed(clusters) if !clusters.is_empty() => {
                let message =
                    "no cluster fitted when it was scheduled, and the policy does not schedule it again";
                Some(problem("NoClusterFits", message.to_owned()))
            }
            _ => None,
        }
    }

    /// The reason why a template without a policy is withdrawn.
    fn unwanted(policy: Option<&Policy<'_>>) -> Option<Unschedulable> {
        let why = || {
            let help = "the template names no policy; add the label";
            problem("NoPolicy", format!("{help} `{}` or `{}`", keys::POLICY, keys::CLUSTER_POLICY))
        };
        policy.is_none().then(why)
    }

    fn state(&self, policy: Option<&Policy<'_>>) -> State {
        let remembered = self.remembered.as_ref().map(|(state, _)| state.content());
        let subject = trigger::Subject {
            template: self.template,
            replicas: self.config.replicas_of(&self.template.body).unwrap_or(0),
            policy: policy.map(|p| (p.object.id.name.as_str(), &p.spec)),
            content: policy.map_or("", |p| p.content(remembered)),
            estimates: migration::info(&self.memory),
            migration: self.applied.as_deref(),
        };
        State::new(&subject, &self.plane.snapshot_digest)
    }

    fn schedule(
        &self,
        policy: Option<&Policy<'_>>,
        plugins: Result<Option<&Plugins>, Unusable>,
        now: &State,
        trace: Option<&mut Trace>,
    ) -> Answer {
        let answer = |clusters, problem| Answer {
            clusters,
            problem,
            deferred: String::new(),
            state: Some(now.clone()),
            stays: false,
            fails: false,
            schedules: true,
        };
        let Some(policy) = policy else { return answer(PlacedClusters::default(), Self::unwanted(None)) };
        let wanted = self.wanted(policy);
        let subject = match self.subject(policy, &wanted) {
            Ok(subject) => subject,
            Err(problem) => return self.fail(problem),
        };
        let plugins = match plugins {
            Ok(plugins) => plugins.unwrap_or(&self.plane.policies.default),
            Err(Unusable::BadProfile(why) | Unusable::NoProfile(why)) => {
                let message = format!("SchedulingProfile `{}`: {why}", policy.spec.scheduling_profile);
                return self.fail(problem("InvalidSchedulingProfile", message));
            }
        };
        match schedule::schedule(&self.plane.members, plugins, &subject, &wanted, trace) {
            Outcome::Placed(clusters) => answer(clusters.into(), None),
            Outcome::NoClusterFits => answer(
                PlacedClusters::default(),
                Some(problem("NoClusterFits", self.nothing_fits(plugins, &subject, &wanted))),
            ),
            Outcome::Failed(why) => self.fail(problem("SchedulingFailed", why)),
        }
    }

    fn wanted<'p>(&self, policy: &'p Policy<'_>) -> EffectivePolicy<'p> {
        let divisible = !self.config.replicas.is_empty();
        EffectivePolicy::new(
            self.template,
            &policy.spec,
            &policy.cluster_preferences,
            self.plane.clusters,
            divisible,
        )
    }

    fn subject(
        &self,
        policy: &Policy<'_>,
        wanted: &EffectivePolicy<'_>,
    ) -> Result<schedule::Subject<'_>, Unschedulable> {
        let replicas = self.config.replicas_of(&self.template.body);
        if wanted.divide && replicas.is_none() {
            let path = self.config.replicas.join(".");
            return Err(problem("InvalidObject", format!("`{path}` is not a number of replicas")));
        }
        let migrates = policy.spec.auto_migration.as_ref();
        let info = migration::info(&self.memory).filter(|_| migrates.is_some());
        let estimates = info.map(Estimates::read).transpose().map_err(|e| {
            problem("InvalidObject", format!("the remembered {}: {e}", keys::AUTO_MIGRATION_INFO))
        })?;
        let pod = podspec::of(self.template);
        if let Some(container) = pod.and_then(pods::find_invalid_amount) {
            let message = format!("an amount in the resources of container `{container}` is not a quantity");
            return Err(problem("InvalidObject", message));
        }
        let request = pod.map(pods::requests_without_init_limits).unwrap_or_default();
        Ok(schedule::Subject {
            kind: &self.template.id.kind,
            key: &self.key,
            served: self.plane.served.get(&self.template.id),
            previous: &self.last,
            current: schedule::by_index(&self.last, self.plane.clusters, replicas.unwrap_or(0)),
            replicas: replicas.unwrap_or(0),
            gpu: request.get(GPU).map(|gpu| gpu.value()),
            estimates: estimates.unwrap_or_default(),
            keep_unschedulable: migrates.is_some_and(|m| m.keep_unschedulable_replicas),
            migration: &self.migration,
            now: self.plane.now,
        })
    }

    /// How many clusters each filter refused.
    fn nothing_fits(
        &self,
        plugins: &Plugins,
        subject: &schedule::Subject<'_>,
        wanted: &EffectivePolicy<'_>,
    ) -> String {
        let mut trace = Trace::new(self.plane.clusters.len());
        schedule::schedule(&self.plane.members, plugins, subject, wanted, Some(&mut trace));
        let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
        for (filter, _) in trace.refusals.iter().flatten() {
            *counts.entry(filter.name()).or_default() += 1;
        }
        let all = self.plane.members.len();
        let counts: Vec<String> =
            counts.into_iter().map(|(filter, n)| format!("{n} refused by {filter}")).collect();
        if counts.is_empty() {
            "no cluster has joined".to_owned()
        } else {
            format!("0/{all} clusters are available: {}", counts.join(", "))
        }
    }
}

/// The digest of all that reaches the federated object of a template.
fn source_digest(template: &Object) -> String {
    let mut body = template.body.clone();
    if let Some(body) = body.as_object_mut() {
        body.remove("status");
    }
    compute_digest(&body)
}

/// The clusters that the scheduler chose: all of the row, unless the memory names fewer.
fn last_scheduled(row: &Placement, memory: &Memory) -> PlacedClusters {
    memory.scheduled.clone().unwrap_or_else(|| row.clusters.clone())
}

/// Adds clusters to a placement. The memory keeps those that the scheduler chose.
pub(super) fn extend(placement: &mut Placement, clusters: &[Placed]) {
    let extra: Vec<Placed> = clusters.iter().filter(|c| !placement.clusters.has(&c.name)).cloned().collect();
    if extra.is_empty() {
        return;
    }
    let mut memory = Memory::of(placement);
    memory.scheduled.get_or_insert_with(|| placement.clusters.clone());
    memory.held.retain(|held| !extra.iter().any(|placed| placed.name == *held));
    memory.write(placement);
    placement.clusters.extend(extra);
}

/// Why an override policy keeps the whole object back, if it does: it is missing, or it fails for a cluster.
pub(super) fn override_problem(
    plane: &KubeAdmiralPlane<'_>,
    template: &Object,
    placement: &Placement,
) -> Option<Unschedulable> {
    match overrides::named(plane, template) {
        Err(missing) => Some(problem("OverridePolicyNotFound", missing.to_string())),
        Ok(policies) if policies.is_empty() => None,
        Ok(policies) => {
            let failed = overrides::evaluate(plane, template, &policies, &placement.clusters).err()?;
            Some(problem("OverrideFailed", failed.message(template)))
        }
    }
}
