//! The decision about one template: its policy, whether it is scheduled again, its clusters, and its memory.

use super::effective_policy::EffectivePolicy;
use super::memory::Memory;
use super::migration::{self, Estimates, Migration};
use super::policies::{Policy, Unusable, named};
use super::profile::Plugins;
use super::schedule::{self, GPU, Outcome, Trace};
use super::trigger::{self, Clusters, State, Verdict};
use super::types::TypeConfig;
use super::{KubeAdmiralPlane, NAME, keys, overrides, podspec};
use federate_dialect::{Placed, PlacedClusters, Placement, Previous, Unschedulable};
use federate_kubernetes::{Object, ObjectRef, pods};

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
    /// `namespace/name`, or the name alone.
    key: String,
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
        let memory = row.map(Memory::of).unwrap_or_default();
        let last = row.map(|row| last_scheduled(row, &memory)).unwrap_or_default();
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

    /// Decides. The flag says whether the scheduler did not act because nothing has changed for it.
    pub(super) fn place(&self, trace: Option<&mut Trace>) -> (Placement, bool) {
        let id = self.named();
        let answer = self.answer(id.as_ref(), trace);
        let mut placement = Placement::new(NAME, self.template.id.clone(), id);
        self.remembering(&answer).write(&mut placement);
        placement.clusters = answer.clusters;
        placement.unschedulable = answer.problem;
        (placement, answer.stays)
    }

    /// What the row remembers after the answer. What other controllers left on the object stays.
    fn remembering(&self, answer: &Answer) -> Memory {
        let mut memory = Memory {
            annotations: self.memory.annotations.clone(),
            propagated: self.memory.propagated.clone(),
            trigger: answer.state.clone(),
            deferred: answer.deferred.clone(),
            scheduled: None,
        };
        migration::remember(&mut memory, self.applied.as_deref());
        memory
    }

    /// Returns an answer that changes nothing.
    fn stay(&self, problem: Option<Unschedulable>) -> Answer {
        let state = self.remembered.as_ref().map(|(state, _)| state.clone());
        Answer { clusters: self.last.clone(), problem, deferred: String::new(), state, stays: false }
    }

    fn answer(&self, id: Option<&ObjectRef>, trace: Option<&mut Trace>) -> Answer {
        let policy = match id {
            None => None,
            Some(id) => match self.plane.policies.get(id) {
                Some(policy) => Some(policy),
                None => return self.stay(Some(problem("PolicyNotFound", format!("there is no {id}")))),
            },
        };
        let plugins = policy.map(|p| self.plane.policies.plugins(p)).transpose();
        if let Err(Unusable::NoProfile(name)) = &plugins {
            let message = format!("there is no SchedulingProfile `{name}`");
            return self.stay(Some(problem("SchedulingProfileNotFound", message)));
        }
        let now = self.state(policy);
        let verdict =
            trigger::compare(self.remembered.as_ref(), (&now, &self.plane.snapshot), policy.map(|p| &p.spec));
        let disabled = self.disabled();
        match verdict {
            Verdict::Stay(deferred) => Answer { deferred, stays: true, ..self.stay(Self::unwanted(policy)) },
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
        };
        let Some(policy) = policy else { return answer(PlacedClusters::default(), Self::unwanted(None)) };
        let wanted = self.wanted(policy);
        let subject = match self.subject(policy, &wanted) {
            Ok(subject) => subject,
            Err(problem) => return self.stay(Some(problem)),
        };
        let plugins = match plugins {
            Ok(plugins) => plugins.unwrap_or(&self.plane.policies.default),
            Err(Unusable::BadProfile(why) | Unusable::NoProfile(why)) => {
                let message = format!("SchedulingProfile `{}`: {why}", policy.spec.scheduling_profile);
                return self.stay(Some(problem("InvalidSchedulingProfile", message)));
            }
        };
        match schedule::schedule(&self.plane.members, plugins, &subject, &wanted, trace) {
            Outcome::Placed(clusters) => answer(clusters.into(), None),
            Outcome::NoClusterFits => answer(
                PlacedClusters::default(),
                Some(problem("NoClusterFits", self.nothing_fits(plugins, &subject, &wanted))),
            ),
            Outcome::Failed(why) => self.stay(Some(problem("SchedulingFailed", why))),
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
        let request = podspec::of(self.template).map(pods::requests).unwrap_or_default();
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
