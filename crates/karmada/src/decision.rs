//! The decision about one template: its policy, whether it is scheduled (again), its clusters, and the
//! state that the next run needs.

use std::sync::Arc;

use serde_json::Value;

use super::interpreter::InterpreterFailure;
use super::policies::{self, Claim, PolicyMatch, PolicyVersion, PropagationPolicy, propagates_everywhere};
use super::schedule::{
    self, DivisionStrategy, HeldBack, LastScheduling, Scheduled, Scheduler, SchedulingFailure,
    SchedulingReason, SchedulingSubject, SchedulingTrace,
};
use super::selector::ImplicitPriority;
use super::state::{KarmadaState, is_scheduled};
use super::unclaimed_objects::keep_unclaimed;
use super::version::DeletingClusters;
use super::workload::Workload;
use super::{KarmadaPlanner, NAME, defaults};
use federate_dialect::scheduler_state::compute_template_digest;
use federate_dialect::{
    ClusterDependency, DialectDecisions, Placed, PlacedClusters, Placement, PreviousPlan, Unschedulable,
    VerdictCause,
};
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, Severity};

/// The only scheduler that is reproduced.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Decides about one template.
pub(super) fn decide_template(
    plane: &KarmadaPlanner<'_>,
    template: &Object,
    previous: &PreviousPlan,
) -> DialectDecisions {
    let mut decided = DialectDecisions::default();
    let previous = previous.find_row(&template.id);
    let claim = plane.policies.find_claim(template, previous);
    if propagates_everywhere(template) && (plane.implicit || claim.is_some()) {
        let waits = claim.and_then(|claim| missing_override(plane, claim.policy(), template));
        // A policy that waits has not claimed it yet, but the object goes everywhere without one, too.
        let claim = claim.filter(|claim| waits.is_none() || is_claimed_by(previous, claim.policy()));
        if plane.implicit || claim.is_some() {
            decided.placements.push(place_everywhere(plane, template, claim.map(Claim::policy)));
        }
        decided.findings.extend(waits);
        return decided;
    }
    let Some(claim) = claim else {
        decided.depends = ClusterDependency::Placed;
        let kept =
            policies::reserved_reason(template).is_none().then(|| keep_unclaimed(plane, template, previous));
        return kept.flatten().unwrap_or(decided);
    };
    let waits = missing_override(plane, claim.policy(), template);
    let decision = match waits.or_else(|| missing_priority_class(plane, claim.policy(), template)) {
        Some(finding) => Err(finding),
        None => SchedulingDecision::new(plane, template, claim, previous)
            .map_err(|failed| interpreter_failure_finding(template, &failed)),
    };
    let decision = match decision {
        Ok(decision) => decision,
        Err(finding) => {
            // The binding stays as it is.
            let kept = previous.cloned();
            decided.placements.extend(kept.map(|row| Placement { object: template.id.clone(), ..row }));
            decided.findings.push(finding);
            return decided;
        }
    };
    let placement;
    (placement, decided.depends) = decision.schedule_if_triggered(&mut SchedulingTrace::default());
    if let Some(unschedulable) = &placement.unschedulable {
        let message = format!("{}: {}: {}", template.id, unschedulable.reason, unschedulable.message);
        let help =
            format!("`federate explain {}/{}` shows every cluster", template.id.kind, template.id.name);
        decided.findings.push(Finding::warning("unschedulable", template, message).with_help(help));
    }
    decided.findings.extend(no_replicas(template, &placement).into_iter().chain(never_sent(template)));
    decided.placements.push(placement);
    decided
}

/// The most policies that a key names. With more of them, it takes longer than a decision.
const MAX_KEY_POLICIES: usize = 100;

/// Everything that a decision reads of its template, as a text; `None` if a script has to read it, which takes longer than
/// the decision, or the template has a finding of its own.
pub(super) fn decision_key(plane: &KarmadaPlanner<'_>, template: &Object) -> Option<String> {
    let id = &template.id;
    if plane.interpreter.has_replica_script(id) || never_sent(template).is_some() {
        return None;
    }
    let matches = match policies::reserved_reason(template) {
        Some(why) => return Some(why.to_owned()),
        None => plane.policies.all_matches(template),
    };
    // A lazy policy is applied when the template changes, of which the key would have to tell.
    let lazy = matches.iter().any(|found| found.policy.is_lazy());
    if lazy || matches.len() > MAX_KEY_POLICIES {
        return None;
    }
    let policies: Vec<_> =
        matches.iter().map(|found| (&found.policy.object.id, found.implicit_priority)).collect();
    if propagates_everywhere(template) || policies.is_empty() {
        return Some(format!("{policies:?} {}", propagates_everywhere(template)));
    }
    let workload = plane.interpreter.interpret_workload(template).ok()?;
    let rebalancers = plane.rebalancers.find_names(id);
    let (descending, none) = (ties_descend(template), asks_for_none(template));
    let read = format!("{descending} {none} {rebalancers:?} {workload:?}");
    Some(format!("{policies:?} {} {} {read}", id.api_version, id.kind))
}

/// The finding for a template whose interpreter script fails.
fn interpreter_failure_finding(template: &Object, failed: &InterpreterFailure) -> Finding {
    failed.to_finding(Severity::Error, "interpreter-failed", &template.id, "is not scheduled").with_help(
        "the control plane retries without end: change the object, or the script if it is in the repo",
    )
}

fn asks_for_none(template: &Object) -> bool {
    template.value_at(&["spec", "replicas"]).is_some_and(|replicas| *replicas == 0)
}

/// The finding for a workload with 0 replicas. Every strategy drops clusters that get none.
fn no_replicas(template: &Object, placement: &Placement) -> Option<Finding> {
    let nowhere = placement.clusters.is_empty() && placement.unschedulable.is_none();
    let message = format!(
        "{} asks for 0 replicas, which Karmada gives to no cluster: it is placed nowhere",
        template.id
    );
    (nowhere && asks_for_none(template)).then(|| {
        Finding::warning("no-replicas", template, message)
            .with_pointer("/spec/replicas")
            .with_help(
                "to keep it in its clusters without pods, ask for at least 1 replica here, and set `/spec/replicas` to 0 \
                 with an OverridePolicy",
            )
    })
}

/// The finding for a field that Karmada does not send and that a user may rely on.
fn never_sent(template: &Object) -> Option<Finding> {
    let (path, value, effect, help) = match (template.id.group(), template.id.kind.as_str()) {
        (_, "Job") => {
            let value = template.value_at(&["spec", "ttlSecondsAfterFinished"])?.to_string();
            let help = "an OverridePolicy cannot add it either; delete finished Jobs by other means";
            ("spec.ttlSecondsAfterFinished", value, "finished Jobs stay there", help)
        }
        ("", "Service") => {
            let value = template.text_at(&["spec", "clusterIP"]);
            if matches!(value, "" | "None") {
                return None;
            }
            let effect = "each cluster assigns an address of its own, and keeps it when this one changes";
            let help = "remove it, and reach the Service by its name; an OverridePolicy cannot add it either";
            ("spec.clusterIP", value.to_owned(), effect, help)
        }
        _ => return None,
    };
    let message = format!(
        "{path} ({value}) of {} is not sent to clusters, as Karmada leaves it out: {effect}",
        template.id
    );
    let at = format!("/{}", path.replace('.', "/"));
    Some(Finding::warning("not-sent", template, message).with_pointer(&at).with_help(help))
}

/// The placement of an object in all clusters, such as that of a Namespace, whatever policy selects it.
fn place_everywhere(
    plane: &KarmadaPlanner<'_>,
    template: &Object,
    policy: Option<&PropagationPolicy<'_>>,
) -> Placement {
    let mut placement = Placement::new(NAME, template.id.clone(), policy.map(|p| p.object.id.clone()));
    placement.implicit = policy.is_none();
    placement.clusters = plane
        .clusters
        .iter()
        .filter(|c| !c.deleting)
        .map(|c| Placed { name: c.name.clone(), replicas: None })
        .collect();
    placement
}

/// The placement of a template that no policy selects: all clusters.
pub(super) fn place_unmatched(plane: &KarmadaPlanner<'_>, template: &Object) -> DialectDecisions {
    let mut decided = DialectDecisions::default();
    decided.placements.push(place_everywhere(plane, template, None));
    decided
}

/// Whether a policy has claimed a template before. `previous` is its row of the previous plan.
fn is_claimed_by(previous: Option<&Placement>, policy: &PropagationPolicy<'_>) -> bool {
    previous.is_some_and(|row| row.dialect == NAME && row.policy.as_ref() == Some(&policy.object.id))
}

/// The finding for a policy whose `dependentOverrides` are missing: its templates are not placed.
fn missing_override(
    plane: &KarmadaPlanner<'_>,
    policy: &PropagationPolicy<'_>,
    template: &Object,
) -> Option<Finding> {
    let namespace = policy.object.id.namespace.as_deref();
    let missing: Vec<&str> = policy
        .spec
        .dependent_overrides
        .iter()
        .map(String::as_str)
        .filter(|name| !plane.overrides.has_policy(namespace, name))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let kind = if namespace.is_some() { "OverridePolicy" } else { "ClusterOverridePolicy" };
    let there = plane.overrides.policy_names(namespace);
    let near = missing.first().and_then(|name| find_similar(name, &there));
    let message = format!(
        "{} is not placed: {} waits for {kind} {}, which is not in the repo",
        template.id,
        policy.object.id,
        missing.join(", ")
    );
    let mut finding = Finding::error("waiting-for-dependent-overrides", template, message)
        .with_pointer("/spec/dependentOverrides")
        .with_help(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "add the override policy, or take its name out of `dependentOverrides`".to_owned(),
        });
    finding.origin = Some(policy.object.origin.clone());
    Some(finding)
}

/// The `PriorityClass`es that every API server has.
const SYSTEM_PRIORITIES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// The finding for a policy whose `PriorityClass` is missing: its namespaced templates are not bound.
fn missing_priority_class(
    plane: &KarmadaPlanner<'_>,
    policy: &PropagationPolicy<'_>,
    template: &Object,
) -> Option<Finding> {
    let name = &policy.spec.schedule_priority.as_ref()?.priority_class_name;
    let class = ObjectRef {
        api_version: "scheduling.k8s.io/v1".to_owned(),
        kind: "PriorityClass".to_owned(),
        namespace: None,
        name: name.clone(),
    };
    let is_known = SYSTEM_PRIORITIES.contains(&name.as_str()) || plane.find_template(&class).is_some();
    if is_known || !plane.behaviour.schedules_by_priority || template.id.namespace.is_none() {
        return None;
    }
    let message = format!(
        "{} is not scheduled: {} gives it the priority of {class}, which is not in the repo",
        template.id, policy.object.id
    );
    let mut finding = Finding::error("priority-class-missing", template, message)
        .with_pointer("/spec/schedulePriority/priorityClassName")
        .with_help("add the PriorityClass to the repo, or remove `schedulePriority`: it only decides who is scheduled first");
    finding.origin = Some(policy.object.origin.clone());
    Some(finding)
}

/// The clusters with unknown free resources among those between which a policy divides replicas by free resources.
pub(super) fn without_capacity<'c>(
    policy: &PropagationPolicy<'_>,
    clusters: &'c [Cluster],
) -> Vec<&'c Cluster> {
    let placement = &policy.spec.placement;
    let strategy = DivisionStrategy::from_scheduling(placement.replica_scheduling.as_ref());
    if !matches!(strategy, DivisionStrategy::Dynamic | DivisionStrategy::Aggregated) {
        return Vec::new();
    }
    let eligibility = policy.cluster_eligibility(clusters);
    let unknown = clusters
        .iter()
        .enumerate()
        .filter(|(at, c)| c.capacity.is_none() && eligibility.selects_cluster(*at));
    unknown.map(|(_, cluster)| cluster).collect()
}

/// The finding for a strategy that divides by free resources over clusters that report none.
pub(super) fn unknown_capacity(policy: &PropagationPolicy<'_>, clusters: &[Cluster]) -> Option<Finding> {
    let unknown: Vec<&str> = without_capacity(policy, clusters).iter().map(|c| c.name.as_ref()).collect();
    if unknown.is_empty() {
        return None;
    }
    let shown = federate_kubernetes::finding::join_names(&unknown, 5);
    let message = format!("replicas are divided by free resources, which are not known for {shown}");
    Some(
        Finding::warning("unknown-capacity", policy.object, message)
            .with_pointer("/spec/placement/replicaScheduling")
            .with_help("keep `status.resourceSummary` of these clusters in the repo, or use static weights; until then they are assigned no replicas"),
    )
}

/// The inputs of one decision.
pub(super) struct SchedulingDecision<'d, 'a> {
    plane: &'d KarmadaPlanner<'a>,
    template: &'d Object,
    claim: Claim<'d, 'a>,
    pub(super) policy: PolicyVersion<'d, 'a>,
    /// Whether the policy is applied to the template as both are now. If not, the binding stays as it is, and only
    /// the scheduler acts.
    applies: bool,
    previous: Option<&'d Placement>,
    state: KarmadaState,
    pub(super) workload: Workload,
    /// API version and kind, for messages.
    kind: String,
    /// Previous clusters that are in the inventory.
    held: Vec<(usize, i64)>,
    /// Previous clusters that are not.
    departed: Vec<(ClusterName, i64)>,
    /// Whether a previous cluster has been deleted.
    lost_cluster: bool,
    /// Previous clusters in the scheduler's order, if that is not the order of names.
    order: Vec<usize>,
    evicting: Vec<usize>,
    fresh: bool,
}

impl<'d, 'a> SchedulingDecision<'d, 'a> {
    pub(super) fn new(
        plane: &'d KarmadaPlanner<'a>,
        template: &'d Object,
        claim: Claim<'d, 'a>,
        previous: Option<&'d Placement>,
    ) -> Result<Self, InterpreterFailure> {
        // A row that only others need has not been scheduled.
        let previous = previous.filter(|row| row.required_by.is_empty() || is_scheduled(row));
        let state =
            previous.map(|p| KarmadaState::from_scheduler_state(&p.scheduler_state)).unwrap_or_default();
        let held: Vec<&Placed> =
            previous.iter().flat_map(|p| &p.clusters).filter(|p| state.has_chosen(&p.name)).collect();
        let seen = plane.as_scripts_see(template, Some(&claim.policy().object.id));
        let mut workload = plane.interpreter.interpret_workload(&seen)?;
        let applies = match claim {
            Claim::Outlived(_) => false,
            Claim::Applied(PolicyMatch { policy, .. }) => {
                let claimed = previous.and_then(|row| row.policy.as_ref()) == Some(&policy.object.id);
                !(policy.is_lazy() && claimed)
                    || state
                        .template_digest
                        .as_deref()
                        .is_some_and(|last| last != compute_template_digest(template))
            }
        };
        let applied = state.applied_placement.as_deref().filter(|_| !applies);
        let policy = PolicyVersion::as_applied(claim.policy(), applied, &plane.behaviour);
        if matches!(claim, Claim::Outlived(_)) {
            let replicas = held.iter().map(|placed| placed.replicas.unwrap_or(0));
            let scheduling = policy.spec.placement.replica_scheduling.as_ref();
            workload.replicas = match DivisionStrategy::from_scheduling(scheduling) {
                DivisionStrategy::Duplicated => replicas.max().unwrap_or(workload.replicas),
                _ => replicas.sum(),
            };
        }
        let (mut present, mut departed) = (Vec::new(), Vec::new());
        for placed in held {
            let replicas = placed.replicas.unwrap_or(0);
            match schedule::index_of(plane.clusters, &placed.name) {
                Some(index) => present.push((index, replicas)),
                None => departed.push((placed.name.clone(), replicas)),
            }
        }
        let leaves = plane.behaviour.deleting == DeletingClusters::Never;
        Ok(Self {
            plane,
            template,
            claim,
            policy,
            applies,
            workload,
            kind: format!("{} {}", template.id.api_version, template.id.kind),
            held: present,
            lost_cluster: leaves && !departed.is_empty(),
            departed: if leaves { Vec::new() } else { departed },
            order: state.order.iter().filter_map(|name| schedule::index_of(plane.clusters, name)).collect(),
            evicting: state
                .evicting
                .iter()
                .filter_map(|name| schedule::index_of(plane.clusters, name))
                .collect(),
            fresh: previous.is_some()
                && (state.reschedule || plane.rebalancers.is_requested(&template.id, &state.rebalanced)),
            previous,
            state,
        })
    }

    /// The scheduler's view of the object.
    pub(super) fn scheduling_subject(&self) -> SchedulingSubject<'_> {
        let id = &self.template.id;
        SchedulingSubject {
            kind: &self.kind,
            workload: &self.workload,
            served: self.plane.served.get(id),
            previous: &self.held,
            departed: &self.departed,
            order: &self.order,
            evicting: &self.evicting,
            affinity: self.state.affinity.as_deref(),
            fresh: self.fresh,
            descending: ties_descend(self.template),
        }
    }

    /// The template.
    pub(super) fn template_id(&self) -> &ObjectRef {
        &self.template.id
    }

    /// The cause of a share of 0 replicas: their number, or, where the template has none, that they are divided.
    pub(super) fn share_cause(&self) -> VerdictCause {
        let has_number = ["replicas", "parallelism"]
            .iter()
            .any(|field| self.template.value_at(&["spec", field]).is_some_and(Value::is_number));
        if has_number {
            VerdictCause::Replicas { object: self.template.id.clone() }
        } else {
            VerdictCause::field(&self.policy.object.id, "/spec/placement/replicaScheduling")
        }
    }

    /// The causes of a verdict. An earlier version of the policy, which counts, is in the previous plan alone.
    pub(super) fn attribute_causes(&self, causes: Vec<VerdictCause>) -> Vec<VerdictCause> {
        let is_earlier = matches!(self.policy, PolicyVersion::Earlier(_));
        let policy = &self.policy.object.id;
        let attribute = |cause| match cause {
            VerdictCause::Field { object, .. } | VerdictCause::NotSelected { object, .. }
                if is_earlier && object == *policy =>
            {
                VerdictCause::PreviousPlan
            }
            cause => cause,
        };
        causes.into_iter().map(attribute).collect()
    }

    pub(super) fn build_scheduler(&self) -> Scheduler<'_> {
        let KarmadaPlanner { behaviour, clusters, estimator, .. } = self.plane;
        Scheduler { behaviour, clusters, estimator }
    }

    /// Schedules if anything triggers it; otherwise keeps the previous placement.
    pub(super) fn schedule_if_triggered(
        &self,
        trace: &mut SchedulingTrace,
    ) -> (Placement, ClusterDependency) {
        let mut depends = ClusterDependency::Placed;
        let mut row = Placement::new(NAME, self.template.id.clone(), Some(self.policy.object.id.clone()));
        let mut state = self.claimed_state();
        trace.add_steps(|| self.kept_claim());
        row.clusters = self.carried_over();
        let other = self
            .policy
            .spec
            .scheduler_name
            .as_deref()
            .filter(|name| !name.is_empty() && *name != DEFAULT_SCHEDULER);
        if let Some(other) = other {
            let message =
                format!("the policy names the scheduler `{other}`; that of Karmada is `{DEFAULT_SCHEDULER}`");
            row.unschedulable = Some(Unschedulable { reason: "OtherScheduler".to_owned(), message });
            trace.held_back = Some(HeldBack::OtherScheduler);
        } else if self.state.suspended {
            trace.add_step(|| "not scheduled: the scheduling of its binding is suspended".to_owned());
            row.unschedulable = self.previous.and_then(|p| p.unschedulable.clone());
            trace.held_back = Some(HeldBack::Suspended);
        } else if let Some(why) = self.find_trigger() {
            trace.add_step(|| format!("scheduled: {why}"));
            depends = ClusterDependency::Inventory;
            let (placement, eligibility) =
                (&self.policy.spec.placement, self.policy.cluster_eligibility(self.plane.clusters));
            match self.build_scheduler().schedule_subject(
                &self.scheduling_subject(),
                placement,
                eligibility,
                trace,
            ) {
                Ok(scheduled) => self.record_success(&mut row, &mut state, scheduled),
                Err(failure) => {
                    trace.held_back = Some(HeldBack::Failed);
                    self.record_failure(&mut row, &mut state, &failure);
                }
            }
        } else {
            trace.add_step(|| "not scheduled again: nothing has changed that requires it, so the previous placement is kept".to_owned());
            trace.held_back = Some(HeldBack::Kept);
            // The result of the last scheduling still applies.
            row.unschedulable = self.previous.and_then(|p| p.unschedulable.clone());
        }
        row.withdrawn = self.left_over(&row.clusters, &state);
        row.scheduler_state = self.policy.write_state(state);
        row.suspended = match self.previous.filter(|_| !self.applies) {
            Some(previous) => previous
                .suspended
                .iter()
                .filter(|name| row.clusters.contains_cluster(name))
                .cloned()
                .collect(),
            None => self.policy.suspended_clusters(&row),
        };
        (row, depends)
    }

    /// The state, with the claim as it is now.
    fn claimed_state(&self) -> KarmadaState {
        let mut state = self.state.clone();
        state.unclaimed_from = None;
        state.required_on.clear();
        if let Claim::Applied(found) = self.claim {
            let by_labels = found.implicit_priority == ImplicitPriority::Label;
            state.policy_digest = by_labels.then(|| found.policy.spec_digest().to_owned());
        }
        if !self.policy.is_lazy() {
            state.template_digest = None;
        } else if self.applies || state.template_digest.is_none() {
            state.template_digest = Some(compute_template_digest(self.template));
        }
        state
    }

    /// The step that says why the policy is not applied as it is.
    fn kept_claim(&self) -> Option<String> {
        match self.claim {
            Claim::Outlived(policy) => Some(format!(
                "{} keeps the object although its labels no longer match: neither the policy nor changed replicas \
                 are applied to it",
                policy.object.id
            )),
            Claim::Applied(found) => (!self.applies && matches!(self.policy, PolicyVersion::Earlier(_))).then(|| {
                format!(
                    "{} has `activationPreference: Lazy`: its earlier placement counts until the object changes",
                    found.policy.object.id
                )
            }),
        }
    }

    /// The previous clusters, with a number of replicas on each for workloads only.
    fn carried_over(&self) -> PlacedClusters {
        let Some(previous) = self.previous.map(|p| &p.clusters) else { return PlacedClusters::default() };
        let is_counted = self.workload.is_workload();
        let all_stay = !self.lost_cluster && self.state.required_on.is_empty();
        if all_stay && previous.iter().all(|placed| placed.replicas.is_some() == is_counted) {
            return previous.clone();
        }
        previous
            .iter()
            .filter(|placed| self.state.has_chosen(&placed.name))
            .filter(|placed| {
                !self.lost_cluster || schedule::index_of(self.plane.clusters, &placed.name).is_some()
            })
            .map(|placed| Placed {
                name: placed.name.clone(),
                replicas: is_counted.then(|| placed.replicas.unwrap_or(0)),
            })
            .collect()
    }

    /// The clusters that the object has left, which keep their copy until the eviction is done.
    fn left_over(&self, clusters: &PlacedClusters, state: &KarmadaState) -> Vec<ClusterName> {
        let withdrawn = self.previous.iter().flat_map(|row| &row.withdrawn);
        withdrawn
            .filter(|name| {
                state.evicting.iter().any(|evicting| **evicting == ***name)
                    && schedule::index_of(self.plane.clusters, name).is_some()
                    && !clusters.contains_cluster(name)
            })
            .cloned()
            .collect()
    }

    /// Why the object is scheduled; `None` if the previous placement is kept.
    pub(super) fn find_trigger(&self) -> Option<&'static str> {
        let Some(previous) = self.previous else {
            return Some("no previous plan places it");
        };
        let before = self.state.applied_placement.as_ref();
        let before = before.map(|value| {
            let readable =
                defaults::read_placement(value, &self.plane.behaviour).filter(|_| !self.state.unreadable);
            // One that cannot be read counts as unchanged.
            readable.unwrap_or_else(|| self.policy.spec.placement.clone())
        });
        let own = previous.clusters.iter().filter(|p| self.state.has_chosen(&p.name));
        let replicas: Vec<i64> = own.map(|p| p.replicas.unwrap_or(0)).collect();
        let applied = LastScheduling {
            placement: before.as_ref(),
            affinity: self.state.affinity.as_deref(),
            replicas: &replicas,
            reschedule: self.fresh,
            on_deleting_cluster: self.lost_cluster
                || self.plane.behaviour.deleting == DeletingClusters::Never
                    && self.held.iter().any(|(index, _)| self.plane.clusters[*index].deleting),
        };
        let workload = &self.workload;
        schedule::reschedule_reason(
            &applied,
            &self.policy.spec.placement,
            workload.replicas,
            workload.is_workload(),
        )
    }

    fn record_success(&self, row: &mut Placement, state: &mut KarmadaState, scheduled: Scheduled) {
        row.clusters = self.name_clusters(&scheduled.clusters);
        state.order = self.scheduler_order(&scheduled.order);
        // A policy without groups keeps the name of the group that was used last.
        state.affinity = scheduled.affinity.or(state.affinity.take());
        state.reschedule = false;
        if let Some(names) = self.plane.rebalancers.find_names(&row.object) {
            state.rebalanced = names.iter().copied().map(str::to_owned).collect();
        }
        state.applied_placement = Some(Arc::clone(self.policy.recorded_placement()));
        state.unreadable = false;
    }

    /// The clusters of a workload in the scheduler's order, if that is not the order of names.
    fn scheduler_order(&self, order: &[usize]) -> Vec<ClusterName> {
        if order.is_sorted() || !self.workload.is_workload() {
            return Vec::new();
        }
        let (inventory, departed) = (self.plane.clusters, &self.departed);
        order.iter().map(|index| schedule::cluster_name_at(inventory, departed, *index).clone()).collect()
    }

    /// The clusters with their names; only in old releases may some of them have left the inventory.
    fn name_clusters(&self, clusters: &[(usize, Option<i64>)]) -> PlacedClusters {
        let inventory = self.plane.clusters;
        if clusters.last().is_none_or(|(last, _)| *last < inventory.len()) {
            return self.plane.lists.placed_clusters(inventory, clusters);
        }
        let placed = clusters.iter().map(|(index, replicas)| Placed {
            name: schedule::cluster_name_at(inventory, &self.departed, *index).clone(),
            replicas: *replicas,
        });
        self.plane.lists.share_placed(&placed.collect())
    }

    fn record_failure(&self, row: &mut Placement, state: &mut KarmadaState, failure: &SchedulingFailure) {
        if failure.reason == SchedulingReason::NoClusterFit {
            row.clusters = PlacedClusters::default();
            state.applied_placement = Some(Arc::clone(self.policy.recorded_placement()));
            state.unreadable = false;
        }
        row.unschedulable = Some(Unschedulable {
            reason: failure.reason.name().to_owned(),
            message: failure.message.clone(),
        });
    }
}

/// Whether equal shares go to later names first: when the FNV-1a hash of the template's uid is odd.
pub(super) fn ties_descend(template: &Object) -> bool {
    let uid = template.text_at(&["metadata", "uid"]);
    let hash = uid.bytes().fold(2_166_136_261u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(16_777_619));
    !uid.is_empty() && hash % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_decides_the_tie_break() {
        let with_uid =
            |uid: &str| Object::from_path("v1", "Pod", "p", serde_json::json!({"metadata": {"uid": uid}}));
        assert!(!ties_descend(&with_uid("")));
        assert!(!ties_descend(&with_uid("4858ca61-3ff8-4095-8267-f3d059d8074c")));
        assert!(ties_descend(&with_uid("d43fdeeb-d750-4e2b-bee3-64eb94534f4c")));
    }
}
