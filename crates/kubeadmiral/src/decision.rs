//! The decision about one template: its policy, whether it is scheduled again, its clusters, and its scheduler state.

use std::sync::Arc;

use super::effective_policy::EffectivePolicy;
use super::migration::{self, CapacityEstimates, MigrationConfiguration};
use super::policies::{KubeAdmiralPolicy, UnusablePolicy, named_policy, policy_reference};
use super::profile::Plugins;
use super::schedule::{self, ClusterExclusion, ClusterTrace, GPU, ScheduleResult};
use super::state::{KubeAdmiralState, PendingController};
use super::trigger::{self, SchedulingTriggers, TriggerClusters, TriggerVerdict};
use super::types::TypeConfig;
use super::{KubeAdmiralPlanner, NAME, keys, overrides, podspec};
use federate_dialect::scheduler_state::compute_template_digest;
use federate_dialect::{Placed, PlacedClusters, Placement, PreviousPlan, Unschedulable, VerdictCause};
use federate_kubernetes::pointer::escape;
use federate_kubernetes::{ClusterName, Object, ObjectRef, pods};

/// A decision about a template.
pub(super) struct TemplateDecider<'d, 'a> {
    plane: &'d KubeAdmiralPlanner<'a>,
    pub(super) template: &'d Object,
    config: &'d TypeConfig,
    /// What the row of the previous plan remembers.
    scheduler_state: KubeAdmiralState,
    remembered: Option<(SchedulingTriggers, Arc<TriggerClusters>)>,
    migration: MigrationConfiguration,
    /// The text of the migration, where the template asks for one.
    pub(super) applied: Option<String>,
    /// Why its migration configuration is ignored, if it is.
    pub(super) unclear_migration: Option<String>,
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
    state: Option<SchedulingTriggers>,
    /// Whether the scheduler did not act.
    stays: bool,
    /// Whether it could not act, and tries again.
    fails: bool,
    /// Whether it has scheduled the object.
    schedules: bool,
}

impl Answer {
    /// Returns the answer of a scheduler that acted on these inputs.
    fn from_schedule(
        clusters: PlacedClusters,
        problem: Option<Unschedulable>,
        inputs: &SchedulingTriggers,
    ) -> Self {
        let state = Some(inputs.clone());
        Self {
            clusters,
            problem,
            deferred: String::new(),
            state,
            stays: false,
            fails: false,
            schedules: true,
        }
    }
}

fn profile_reference(name: &str) -> ObjectRef {
    policy_reference("SchedulingProfile", None, name)
}

fn unschedulable_because(reason: &str, message: impl Into<String>) -> Unschedulable {
    Unschedulable { reason: reason.to_owned(), message: message.into() }
}

impl<'d, 'a> TemplateDecider<'d, 'a> {
    /// Prepares a decision about a template of a federated kind.
    pub(super) fn new(
        plane: &'d KubeAdmiralPlanner<'a>,
        template: &'d Object,
        config: &'d TypeConfig,
        previous: &'d PreviousPlan,
    ) -> Self {
        let row = previous.find_row(&template.id);
        let mut scheduler_state = row.map(KubeAdmiralState::from_row).unwrap_or_default();
        let last = row
            .map(|row| scheduler_state.scheduled.clone().unwrap_or_else(|| row.clusters.clone()))
            .unwrap_or_default();
        let estimates = plane
            .auto_migration(template)
            .zip(plane.now)
            .and_then(|(policy, now)| migration::observe_estimates(plane.live, template, &last, policy, now));
        if let Some(estimates) = &estimates {
            migration::write_estimates(&mut scheduler_state, estimates);
        }
        let divisible = config.replicas_of(&template.body).is_some();
        let (applied, unclear_migration) = match MigrationConfiguration::from_template(template, divisible) {
            Ok(migration) => (migration.map(|migration| migration.to_text()), None),
            Err(why) => (migration::applied_migration(&scheduler_state).map(str::to_owned), Some(why)),
        };
        let migration = applied.as_deref().map(MigrationConfiguration::from_text).unwrap_or_default();
        Self {
            plane,
            template,
            config,
            remembered: SchedulingTriggers::with_clusters(
                scheduler_state.trigger.as_ref(),
                previous,
                &plane.remembered,
            ),
            scheduler_state,
            migration,
            applied,
            unclear_migration,
            last,
            before: row.map(|row| row.clusters.clone()),
            source: compute_template_digest(template),
            key: template.id.namespaced_name(),
        }
    }

    /// Whether evictions depend on the time, and the time is not known.
    pub(super) fn lacks_clock(&self) -> bool {
        self.plane.now.is_none() && !self.migration.evicted.is_empty()
    }

    /// Decides, and runs the scheduler again if it acted. With four or more clusters, the second run usually defers
    /// a change (see [`trigger`]). A plan that starts from the result does not change it.
    pub(super) fn place_until_stable(&self) -> TemplateDecision {
        let mut decided = self.place_once(None);
        let mut scheduler_state = KubeAdmiralState::from_row(&decided.placement);
        let policy = named_policy(self.template).and_then(|id| self.plane.policies.get(&id));
        if let Some(state) =
            scheduler_state.trigger.as_ref().filter(|_| decided.acts && scheduler_state.pending.is_none())
            && let seen = (state, &self.plane.snapshot)
            && let TriggerVerdict::Stay(deferred) =
                trigger::compare_triggers(Some(seen), seen, policy.map(|p| &p.spec))
        {
            scheduler_state.deferred = deferred;
            scheduler_state.write_to(&mut decided.placement);
        }
        decided
    }

    /// Decides once.
    pub(super) fn place_once(&self, trace: Option<&mut ClusterTrace>) -> TemplateDecision {
        let id = named_policy(self.template);
        let pending = self.pending_controller();
        let answer = match pending {
            // The scheduler does not act while a later controller is pending.
            Some(PendingController::Overrides) => {
                if let Some(trace) = trace {
                    let why = "it waits until its overrides can be applied";
                    trace.held_back = Some(ClusterExclusion::new(why, VerdictCause::PreviousPlan));
                }
                Answer { deferred: self.scheduler_state.deferred.clone(), ..self.keep_placement(None) }
            }
            _ => self.compute_answer(id.as_ref(), trace),
        };
        let mut placement = Placement::new(NAME, self.template.id.clone(), id);
        let mut scheduler_state = self.build_state(&answer);
        let acts = !answer.stays && !answer.fails && pending != Some(PendingController::Overrides);
        let scheduling_fails = answer.fails && pending == Some(PendingController::Scheduler);
        let moves = answer.clusters != self.last;
        placement.clusters = answer.clusters;
        placement.unschedulable = answer.problem;
        let fails = override_problem(self.plane, self.template, &placement).is_some();
        scheduler_state.pending = match pending {
            _ if scheduling_fails => Some(PendingController::Scheduler),
            None if !moves => None,
            _ => fails.then_some(PendingController::Overrides),
        };
        match scheduler_state.pending {
            Some(_) => scheduler_state.held = self.held_clusters(&placement),
            None if fails => scheduler_state.overridden = Some(self.overridden_clusters()),
            None => {}
        }
        scheduler_state.write_to(&mut placement);
        TemplateDecision { placement, stays: answer.stays, acts }
    }

    /// The controller that has to act: all of them after a change of the template.
    fn pending_controller(&self) -> Option<PendingController> {
        let is_new = self.before.is_none();
        let has_changed =
            !self.scheduler_state.source.is_empty() && self.scheduler_state.source != self.source;
        if is_new || has_changed { Some(PendingController::Scheduler) } else { self.scheduler_state.pending }
    }

    /// The clusters that have the object, but are not in a placement of it.
    fn held_clusters(&self, placement: &Placement) -> Vec<ClusterName> {
        let before = self.before.iter().flat_map(|clusters| clusters.iter().map(|placed| &placed.name));
        let mut held: Vec<ClusterName> = before.chain(&self.scheduler_state.held).cloned().collect();
        held.sort();
        held.dedup();
        held.retain(|name| {
            !placement.clusters.contains_cluster(name) && self.plane.find_cluster(name).is_some()
        });
        held
    }

    /// The clusters where the last good overrides are in force.
    fn overridden_clusters(&self) -> Vec<ClusterName> {
        match &self.scheduler_state.overridden {
            Some(overridden) => overridden.clone(),
            None => self.before.iter().flat_map(|clusters| clusters.iter()).map(|p| p.name.clone()).collect(),
        }
    }

    /// What the row remembers after the answer. What other controllers left on the object stays.
    fn build_state(&self, answer: &Answer) -> KubeAdmiralState {
        let mut scheduler_state = KubeAdmiralState {
            annotations: self.scheduler_state.annotations.clone(),
            propagated: self.scheduler_state.propagated.clone(),
            trigger: answer.state.clone(),
            deferred: answer.deferred.clone(),
            source: self.source.clone(),
            is_unfollowed: if answer.schedules {
                self.keeps_followers_away()
            } else {
                self.scheduler_state.is_unfollowed
            },
            ..KubeAdmiralState::default()
        };
        migration::write_migration(&mut scheduler_state, self.applied.as_deref());
        scheduler_state
    }

    /// Whether the template's policy lets no object follow it.
    fn keeps_followers_away(&self) -> bool {
        let policy = named_policy(self.template).and_then(|id| self.plane.policies.get(&id));
        policy.is_some_and(|policy| policy.spec.disable_follower_scheduling)
    }

    /// Returns an answer that changes nothing.
    fn keep_placement(&self, problem: Option<Unschedulable>) -> Answer {
        let state = self.remembered.as_ref().map(|(state, _)| state.clone());
        let (clusters, deferred) = (self.last.clone(), String::new());
        Answer { clusters, problem, deferred, state, stays: false, fails: false, schedules: false }
    }

    /// Returns an answer that changes nothing, because the scheduler fails and tries again.
    fn fail_scheduling(&self, problem: Unschedulable) -> Answer {
        Answer { fails: true, ..self.keep_placement(Some(problem)) }
    }

    fn compute_answer(&self, id: Option<&ObjectRef>, mut trace: Option<&mut ClusterTrace>) -> Answer {
        let mut hold_back = |why: &str, cause: VerdictCause| {
            if let Some(trace) = &mut trace {
                trace.held_back = Some(ClusterExclusion::new(why, cause));
            }
        };
        let policy = id.and_then(|id| self.plane.policies.get(id));
        if let (Some(id), None) = (id, policy) {
            let message = format!("there is no {id}");
            hold_back(&message, VerdictCause::Missing { object: id.clone() });
            return self.fail_scheduling(unschedulable_because("PolicyNotFound", message));
        }
        let plugins = policy.map(|p| self.plane.policies.select_plugins(p)).transpose();
        if let Err(UnusablePolicy::NoProfile(name)) = &plugins {
            let message = format!("there is no SchedulingProfile `{name}`");
            hold_back(&message, VerdictCause::Missing { object: profile_reference(name) });
            return self.fail_scheduling(unschedulable_because("SchedulingProfileNotFound", message));
        }
        let now = self.build_triggers(policy);
        let verdict = trigger::compare_triggers(
            self.remembered.as_ref().map(|(state, clusters)| (state, clusters.as_ref())),
            (&now, &self.plane.snapshot),
            policy.map(|p| &p.spec),
        );
        let disabled = self.scheduling_disabled();
        if let Some(disabled) = &disabled {
            let path = keys::annotation_pointer(keys::NO_SCHEDULING);
            hold_back(&disabled.message, VerdictCause::field(&self.template.id, path));
        } else if policy.is_none() {
            let is_namespaced = self.template.id.namespace.is_some();
            let key = if is_namespaced { keys::POLICY } else { keys::CLUSTER_POLICY };
            let path = format!("/metadata/labels/{}", escape(key));
            let cause = VerdictCause::Absent { object: self.template.id.clone(), path };
            hold_back("the template names no policy", cause);
        } else if matches!(verdict, TriggerVerdict::Stay(_)) {
            hold_back("it is not scheduled again, and stays where it is", VerdictCause::PreviousPlan);
        }
        match verdict {
            TriggerVerdict::Stay(deferred) => Answer {
                deferred,
                stays: true,
                ..self.keep_placement(disabled.or_else(|| Self::missing_policy(policy)))
            },
            TriggerVerdict::Schedule if disabled.is_some() => {
                Answer { state: Some(now), ..self.keep_placement(disabled) }
            }
            TriggerVerdict::Schedule => self.schedule_template(policy, plugins, &now, trace),
        }
    }

    /// Why the scheduler never acts on the template, if it does not.
    fn scheduling_disabled(&self) -> Option<Unschedulable> {
        let disabled = self.template.annotation(keys::NO_SCHEDULING).is_some_and(|v| !v.is_empty());
        let message = format!("the template has the annotation {}", keys::NO_SCHEDULING);
        disabled.then(|| unschedulable_because("SchedulingDisabled", message))
    }

    /// Why the template is still not scheduled, although the scheduler has nothing to act on: the control plane states
    /// the reason only when it schedules.
    pub(super) fn remaining_problem(&self, placement: &Placement) -> Option<Unschedulable> {
        if placement.unschedulable.is_some() {
            return None;
        }
        let policy = self.plane.policies.get(&named_policy(self.template)?)?;
        if let Some(disabled) = self.scheduling_disabled() {
            return Some(disabled);
        }
        let plugins =
            self.plane.policies.select_plugins(policy).ok().filter(|_| placement.clusters.is_empty())?;
        let wanted = self.effective_policy(policy);
        let subject = self.scheduling_unit(policy, &wanted).ok()?;
        match schedule::schedule_unit(&self.plane.members, plugins, &subject, &wanted, None) {
            ScheduleResult::NoClusterFits => Some(unschedulable_because(
                "NoClusterFits",
                self.describe_refusals(plugins, &subject, &wanted),
            )),
            ScheduleResult::Placed(clusters) if !clusters.is_empty() => {
                let message =
                    "no cluster fitted when it was scheduled, and the policy does not schedule it again";
                Some(unschedulable_because("NoClusterFits", message.to_owned()))
            }
            _ => None,
        }
    }

    /// The reason why a template without a policy is withdrawn.
    fn missing_policy(policy: Option<&KubeAdmiralPolicy<'_>>) -> Option<Unschedulable> {
        let (label, cluster_label) = (keys::POLICY, keys::CLUSTER_POLICY);
        policy.is_none().then(|| {
            unschedulable_because(
                "NoPolicy",
                format!("the template names no policy; add the label `{label}` or `{cluster_label}`"),
            )
        })
    }

    fn build_triggers(&self, policy: Option<&KubeAdmiralPolicy<'_>>) -> SchedulingTriggers {
        let remembered = self.remembered.as_ref().map(|(state, _)| state.content.as_str());
        let subject = trigger::TriggerInput {
            template: self.template,
            replicas: self.config.replicas_of(&self.template.body).unwrap_or(0),
            policy: policy.map(|p| (p.object.id.name.as_str(), &p.spec)),
            content: policy.map_or("", |p| p.content_digest(remembered)),
            estimates: migration::migration_info(&self.scheduler_state),
            migration: self.applied.as_deref(),
        };
        SchedulingTriggers::new(&subject, &self.plane.snapshot_digest)
    }

    fn schedule_template(
        &self,
        policy: Option<&KubeAdmiralPolicy<'_>>,
        plugins: Result<Option<&Plugins>, UnusablePolicy>,
        now: &SchedulingTriggers,
        mut trace: Option<&mut ClusterTrace>,
    ) -> Answer {
        let Some(policy) = policy else {
            return Answer::from_schedule(PlacedClusters::default(), Self::missing_policy(None), now);
        };
        let wanted = self.effective_policy(policy);
        let subject = match self.scheduling_unit(policy, &wanted) {
            Ok(subject) => subject,
            Err(problem) => {
                if let Some(trace) = trace {
                    let cause = VerdictCause::field(&self.template.id, "/spec");
                    trace.held_back = Some(ClusterExclusion::new(&problem.message, cause));
                }
                return self.fail_scheduling(problem);
            }
        };
        let plugins = match plugins {
            Ok(plugins) => plugins.unwrap_or(&self.plane.policies.default),
            Err(UnusablePolicy::BadProfile(why) | UnusablePolicy::NoProfile(why)) => {
                let message = format!("SchedulingProfile `{}`: {why}", policy.spec.scheduling_profile);
                if let Some(trace) = trace {
                    let cause = VerdictCause::field(&policy.object.id, "/spec/schedulingProfile");
                    trace.held_back = Some(ClusterExclusion::new(&message, cause));
                }
                return self.fail_scheduling(unschedulable_because("InvalidSchedulingProfile", message));
            }
        };
        let result =
            schedule::schedule_unit(&self.plane.members, plugins, &subject, &wanted, trace.as_deref_mut());
        match result {
            ScheduleResult::Placed(clusters) => Answer::from_schedule(clusters.into(), None, now),
            ScheduleResult::NoClusterFits => {
                let refusals = self.describe_refusals(plugins, &subject, &wanted);
                let problem = unschedulable_because("NoClusterFits", refusals);
                Answer::from_schedule(PlacedClusters::default(), Some(problem), now)
            }
            ScheduleResult::Failed(why) => {
                if let Some(trace) = trace {
                    let cause = schedule::UnitCause::Field("maxClusters");
                    trace.held_back = Some(ClusterExclusion::new(&why, cause));
                }
                self.fail_scheduling(unschedulable_because("SchedulingFailed", why))
            }
        }
    }

    fn effective_policy<'p>(&self, policy: &'p KubeAdmiralPolicy<'_>) -> EffectivePolicy<'p> {
        let divisible = !self.config.replicas.is_empty();
        EffectivePolicy::new(
            self.template,
            &policy.spec,
            &policy.cluster_preferences,
            self.plane.clusters,
            divisible,
        )
    }

    fn scheduling_unit(
        &self,
        policy: &KubeAdmiralPolicy<'_>,
        wanted: &EffectivePolicy<'_>,
    ) -> Result<schedule::SchedulingUnit<'_>, Unschedulable> {
        let replicas = self.config.replicas_of(&self.template.body);
        if wanted.divide && replicas.is_none() {
            let path = self.config.replicas.join(".");
            let message = format!("`{path}` is not a number of replicas");
            return Err(unschedulable_because("InvalidObject", message));
        }
        let migrates = policy.spec.auto_migration.as_ref();
        let info = migration::migration_info(&self.scheduler_state).filter(|_| migrates.is_some());
        let estimates = info.map(CapacityEstimates::parse_annotation).transpose().map_err(|e| {
            let message = format!("the remembered {}: {e}", keys::AUTO_MIGRATION_INFO);
            unschedulable_because("InvalidObject", message)
        })?;
        let pod = podspec::find_pod_spec(self.template);
        if let Some(container) = pod.and_then(pods::find_invalid_amount) {
            let message = format!("an amount in the resources of container `{container}` is not a quantity");
            return Err(unschedulable_because("InvalidObject", message));
        }
        let request = pod.map(pods::requests_without_init_limits).unwrap_or_default();
        Ok(schedule::SchedulingUnit {
            kind: &self.template.id.kind,
            key: &self.key,
            served: self.plane.served.get(&self.template.id),
            previous: &self.last,
            current: schedule::replicas_by_index(&self.last, self.plane.clusters, replicas.unwrap_or(0)),
            replicas: replicas.unwrap_or(0),
            gpu: request.get(GPU).map(|gpu| gpu.value()),
            estimates: estimates.unwrap_or_default(),
            keep_unschedulable: migrates.is_some_and(|m| m.keep_unschedulable_replicas),
            migration: &self.migration,
            now: self.plane.now,
        })
    }

    /// How many clusters each filter refused.
    fn describe_refusals(
        &self,
        plugins: &Plugins,
        subject: &schedule::SchedulingUnit<'_>,
        wanted: &EffectivePolicy<'_>,
    ) -> String {
        let mut trace = ClusterTrace::new(self.plane.clusters.len());
        schedule::schedule_unit(&self.plane.members, plugins, subject, wanted, Some(&mut trace));
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

/// Adds clusters to a placement. The scheduler state keeps those that the scheduler chose.
pub(super) fn add_clusters(placement: &mut Placement, clusters: &[Placed]) {
    let extra: Vec<Placed> =
        clusters.iter().filter(|c| !placement.clusters.contains_cluster(&c.name)).cloned().collect();
    if extra.is_empty() {
        return;
    }
    let mut scheduler_state = KubeAdmiralState::from_row(placement);
    scheduler_state.scheduled.get_or_insert_with(|| placement.clusters.clone());
    scheduler_state.held.retain(|held| !extra.iter().any(|placed| placed.name == *held));
    scheduler_state.write_to(placement);
    placement.clusters.extend(extra);
}

/// Why an override policy keeps the whole object back, if it does: it is missing, or it fails for a cluster.
pub(super) fn override_problem(
    plane: &KubeAdmiralPlanner<'_>,
    template: &Object,
    placement: &Placement,
) -> Option<Unschedulable> {
    match overrides::named_policies(plane, template) {
        Err(missing) => Some(unschedulable_because("OverridePolicyNotFound", missing.to_string())),
        Ok(policies) if policies.is_empty() => None,
        Ok(policies) => {
            let failed =
                overrides::evaluate_policies(plane, template, &policies, &placement.clusters).err()?;
            Some(unschedulable_because("OverrideFailed", failed.describe_failure(template)))
        }
    }
}
