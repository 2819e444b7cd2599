//! The decision about one template: its policy, whether it is scheduled (again), its clusters, and the
//! memory that the next run needs.

use super::interpreter::Failed;
use super::matching::{self, Policy, propagates_everywhere};
use super::memory::SchedulerMemory;
use super::schedule::{self, Applied, Failure, Reason, Scheduled, Scheduler, Strategy, Subject, Trace};
use super::version::Deleting;
use super::workload::Workload;
use super::{Karmadas, NAME, defaults};
use federate_dialect::{Decided, Depends, Placed, PlacedClusters, Placement, Previous, Unschedulable};
use federate_kubernetes::schema::similar;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, Severity};

/// The only scheduler that is reproduced.
const SCHEDULER: &str = "default-scheduler";

/// Decides about one template.
pub(super) fn decide(plane: &Karmadas<'_>, template: &Object, previous: &Previous) -> Decided {
    let mut decided = Decided::default();
    let winner = match matching::reserved(template) {
        Some(_) => None,
        None => plane.policies.matches(template).first().map(|m| m.policy),
    };
    if propagates_everywhere(template) && (plane.implicit || winner.is_some()) {
        decided.placements.push(everywhere(plane, template, winner));
        return decided;
    }
    let Some(policy) = winner else {
        decided.depends = Depends::Placed;
        return decided;
    };
    if let Some(finding) = missing_override(plane, policy, template) {
        decided.findings.push(finding);
        return decided;
    }
    let decision = match Decision::new(plane, template, policy, previous.of(&template.id)) {
        Ok(decision) => decision,
        Err(failed) => {
            // The previous placement is kept.
            let kept = previous.of(&template.id).cloned();
            decided.placements.extend(kept.map(|row| Placement { object: template.id.clone(), ..row }));
            decided.findings.push(uninterpreted(template, &failed));
            return decided;
        }
    };
    let placement;
    (placement, decided.depends) = decision.place(&mut Trace::default());
    if let Some(unschedulable) = &placement.unschedulable {
        let message = format!("{}: {}: {}", template.id, unschedulable.reason, unschedulable.message);
        let help =
            format!("`federate explain {}/{}` shows every cluster", template.id.kind, template.id.name);
        decided.findings.push(Finding::warning("unschedulable", template, message).help(help));
    }
    decided.findings.extend(no_replicas(template, &placement).into_iter().chain(never_sent(template)));
    decided.placements.push(placement);
    decided
}

/// Everything that a decision reads of its template, as a text; `None` if a script has to read it, which takes longer than
/// the decision, or the template has a finding of its own.
pub(super) fn key(plane: &Karmadas<'_>, template: &Object) -> Option<String> {
    let id = &template.id;
    if plane.interpreter.counts(id) || never_sent(template).is_some() {
        return None;
    }
    let winner = match matching::reserved(template) {
        Some(_) => None,
        None => plane.policies.matches(template).first().map(|m| m.policy),
    };
    if propagates_everywhere(template) || winner.is_none() {
        return Some(format!(
            "{:?} {}",
            winner.map(|policy| &policy.object.id),
            propagates_everywhere(template)
        ));
    }
    let workload = plane.interpreter.workload(template).ok()?;
    let rebalancers = plane.rebalancers.of(id);
    let policy = winner.map(|policy| &policy.object.id);
    let (descending, none) = (ties_descend(template), asks_for_none(template));
    let read = format!("{descending} {none} {rebalancers:?} {workload:?}");
    Some(format!("{policy:?} {} {} {read}", id.api_version, id.kind))
}

/// The finding for a template whose interpreter script fails.
fn uninterpreted(template: &Object, failed: &Failed) -> Finding {
    failed
        .finding(Severity::Error, "interpreter-failed", &template.id, "is not scheduled")
        .help("the control plane retries without end: change the script or the object")
}

fn asks_for_none(template: &Object) -> bool {
    template.at(&["spec", "replicas"]).is_some_and(|replicas| *replicas == 0)
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
            .at("/spec/replicas")
            .help(
                "to keep it in its clusters without pods, ask for at least 1 replica here, and set `/spec/replicas` to 0 \
                 with an OverridePolicy",
            )
    })
}

/// The finding for a field that Karmada does not send and that a user may rely on.
fn never_sent(template: &Object) -> Option<Finding> {
    let (path, value, effect, help) = match (template.id.group(), template.id.kind.as_str()) {
        (_, "Job") => {
            let value = template.at(&["spec", "ttlSecondsAfterFinished"])?.to_string();
            let help = "an OverridePolicy cannot add it either; delete finished Jobs by other means";
            ("spec.ttlSecondsAfterFinished", value, "finished Jobs stay there", help)
        }
        ("", "Service") => {
            let value = template.text(&["spec", "clusterIP"]);
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
    Some(Finding::warning("not-sent", template, message).at(&at).help(help))
}

/// The placement of an object in all clusters, such as that of a Namespace, whatever policy selects it.
fn everywhere(plane: &Karmadas<'_>, template: &Object, policy: Option<&Policy<'_>>) -> Placement {
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
pub(super) fn unselected(plane: &Karmadas<'_>, template: &Object) -> Decided {
    let mut decided = Decided::default();
    decided.placements.push(everywhere(plane, template, None));
    decided.findings.extend(never_sent(template));
    decided
}

/// The finding for a policy whose `dependentOverrides` are missing: its templates are not placed.
fn missing_override(plane: &Karmadas<'_>, policy: &Policy<'_>, template: &Object) -> Option<Finding> {
    let namespace = policy.object.id.namespace.as_deref();
    let missing: Vec<&str> = policy
        .spec
        .dependent_overrides
        .iter()
        .map(String::as_str)
        .filter(|name| !plane.overrides.contains(namespace, name))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let kind = if namespace.is_some() { "OverridePolicy" } else { "ClusterOverridePolicy" };
    let there = plane.overrides.names(namespace);
    let near = missing.first().and_then(|name| similar(name, &there));
    let message = format!(
        "{} is not placed: {} waits for {kind} {}, which is not in the repo",
        template.id,
        policy.object.id,
        missing.join(", ")
    );
    let mut finding = Finding::error("waiting-for-dependent-overrides", template, message)
        .at("/spec/dependentOverrides")
        .help(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "add the override policy, or take its name out of `dependentOverrides`".to_owned(),
        });
    finding.origin = Some(policy.object.origin.clone());
    Some(finding)
}

/// The clusters with unknown free resources among those between which a policy divides replicas by free resources.
pub(super) fn without_capacity<'c>(policy: &Policy<'_>, clusters: &'c [Cluster]) -> Vec<&'c Cluster> {
    let placement = &policy.spec.placement;
    let strategy = Strategy::of(placement.replica_scheduling.as_ref());
    if !matches!(strategy, Strategy::Dynamic | Strategy::Aggregated) {
        return Vec::new();
    }
    let eligibility = policy.eligibility(clusters);
    let unknown =
        clusters.iter().enumerate().filter(|(at, c)| c.capacity.is_none() && eligibility.selects(*at));
    unknown.map(|(_, cluster)| cluster).collect()
}

/// The finding for a strategy that divides by free resources over clusters that report none.
pub(super) fn unknown_capacity(policy: &Policy<'_>, clusters: &[Cluster]) -> Option<Finding> {
    let unknown: Vec<&str> = without_capacity(policy, clusters).iter().map(|c| c.name.as_ref()).collect();
    if unknown.is_empty() {
        return None;
    }
    let shown = federate_kubernetes::finding::list(&unknown, 5);
    let message = format!("replicas are divided by free resources, which are not known for {shown}");
    Some(
        Finding::warning("unknown-capacity", policy.object, message)
            .at("/spec/placement/replicaScheduling")
            .help("keep `status.resourceSummary` of these clusters in the repo, or use static weights; until then they are assigned no replicas"),
    )
}

/// The inputs of one decision.
pub(super) struct Decision<'d, 'a> {
    plane: &'d Karmadas<'a>,
    template: &'d Object,
    pub(super) policy: &'d Policy<'a>,
    previous: Option<&'d Placement>,
    memory: SchedulerMemory,
    pub(super) workload: Workload,
    /// Why the interpreter fails, if it does.
    unread: Option<String>,
    /// API version and kind, for messages.
    kind: String,
    /// Previous clusters that are in the inventory.
    held: Vec<(usize, i64)>,
    /// Previous clusters that are not.
    departed: Vec<(ClusterName, i64)>,
    evicting: Vec<usize>,
    fresh: bool,
}

impl<'d, 'a> Decision<'d, 'a> {
    pub(super) fn new(
        plane: &'d Karmadas<'a>,
        template: &'d Object,
        policy: &'d Policy<'a>,
        previous: Option<&'d Placement>,
    ) -> Result<Self, Failed> {
        let memory = previous.map(|p| SchedulerMemory::of(&p.memory)).unwrap_or_default();
        let index = |name: &str| schedule::index_of(plane.clusters, name);
        let held = previous.map_or(&[][..], |p| &p.clusters);
        let read = plane.interpreter.workload(template)?;
        let unread = read.as_ref().err().cloned();
        Ok(Self {
            plane,
            template,
            policy,
            workload: read.unwrap_or_default(),
            unread,
            kind: format!("{} {}", template.id.api_version, template.id.kind),
            held: held.iter().filter_map(|p| Some((index(&p.name)?, p.replicas.unwrap_or(0)))).collect(),
            departed: held
                .iter()
                .filter(|p| index(&p.name).is_none())
                .map(|p| (p.name.clone(), p.replicas.unwrap_or(0)))
                .collect(),
            evicting: memory.evicting.iter().filter_map(|name| index(name)).collect(),
            fresh: previous.is_some()
                && (memory.reschedule || plane.rebalancers.requested(&template.id, &memory.rebalanced)),
            previous,
            memory,
        })
    }

    /// The scheduler's view of the object.
    pub(super) fn subject(&self) -> Subject<'_> {
        let id = &self.template.id;
        Subject {
            kind: &self.kind,
            workload: &self.workload,
            served: self.plane.served.get(id),
            previous: &self.held,
            departed: &self.departed,
            evicting: &self.evicting,
            affinity: self.memory.affinity.as_deref(),
            fresh: self.fresh,
            descending: ties_descend(self.template),
        }
    }

    pub(super) fn scheduler(&self) -> Scheduler<'_> {
        let Karmadas { behaviour, clusters, estimator, .. } = self.plane;
        Scheduler { behaviour, clusters, estimator }
    }

    /// Schedules if anything triggers it; otherwise keeps the previous placement.
    pub(super) fn place(&self, trace: &mut Trace) -> (Placement, Depends) {
        let mut depends = Depends::Placed;
        let mut row = Placement::new(NAME, self.template.id.clone(), Some(self.policy.object.id.clone()));
        let mut memory = self.memory.clone();
        row.clusters = self.carried_over();
        let other =
            self.policy.spec.scheduler_name.as_deref().filter(|name| !name.is_empty() && *name != SCHEDULER);
        if let Some(other) = other {
            let message =
                format!("the policy asks for the scheduler `{other}`; that of Karmada is `{SCHEDULER}`");
            row.unschedulable = Some(Unschedulable { reason: "OtherScheduler".to_owned(), message });
        } else if let Some(why) = &self.unread {
            let message = format!("nothing is scheduled: {why}");
            row.unschedulable = Some(Unschedulable { reason: "InterpreterFailed".to_owned(), message });
        } else if let Some(why) = self.trigger() {
            trace.step(|| format!("scheduled: {why}"));
            depends = Depends::Inventory;
            let (placement, eligibility) =
                (&self.policy.spec.placement, self.policy.eligibility(self.plane.clusters));
            match self.scheduler().schedule(&self.subject(), placement, eligibility, trace) {
                Ok(scheduled) => self.accept(&mut row, &mut memory, scheduled),
                Err(failure) => self.keep(&mut row, &mut memory, &failure),
            }
        } else {
            trace.step(|| "not scheduled again: nothing has changed that requires it, so the previous placement is kept".to_owned());
            // The result of the last scheduling still applies.
            row.unschedulable = self.previous.and_then(|p| p.unschedulable.clone());
        }
        row.memory = memory.into_memory();
        row.suspended = self.policy.suspended(&row);
        (row, depends)
    }

    /// The previous clusters, with a number of replicas on each for workloads only.
    fn carried_over(&self) -> PlacedClusters {
        let counted = |replicas: Option<i64>| self.workload.is_workload().then(|| replicas.unwrap_or(0));
        let Some(previous) = self.previous.map(|p| &p.clusters) else { return PlacedClusters::default() };
        let as_it_is = |p: &Placed| p.replicas.is_some() == self.workload.is_workload();
        if self.unread.is_some() || previous.iter().all(as_it_is) {
            return previous.clone();
        }
        previous.iter().map(|p| Placed { name: p.name.clone(), replicas: counted(p.replicas) }).collect()
    }

    /// Why the object is scheduled; `None` if the previous placement is kept.
    pub(super) fn trigger(&self) -> Option<&'static str> {
        let Some(previous) = self.previous else {
            return Some("no previous plan places it");
        };
        let before = self.memory.applied_placement.as_ref();
        let before = before.and_then(|value| defaults::placement(value, &self.plane.behaviour));
        let replicas: Vec<i64> = previous.clusters.iter().map(|p| p.replicas.unwrap_or(0)).collect();
        let applied = Applied {
            placement: before.as_ref(),
            affinity: self.memory.affinity.as_deref(),
            replicas: &replicas,
            reschedule: self.fresh,
            on_deleting_cluster: self.plane.behaviour.deleting == Deleting::Never
                && self.held.iter().any(|(index, _)| self.plane.clusters[*index].deleting),
        };
        let workload = &self.workload;
        schedule::changed(&applied, &self.policy.spec.placement, workload.replicas, workload.is_workload())
    }

    fn accept(&self, row: &mut Placement, memory: &mut SchedulerMemory, scheduled: Scheduled) {
        row.clusters = self.named(&scheduled.clusters);
        // A policy without groups keeps the name of the group that was used last.
        memory.affinity = scheduled.affinity.or(memory.affinity.take());
        memory.reschedule = false;
        if let Some(names) = self.plane.rebalancers.of(&row.object) {
            memory.rebalanced = names.iter().copied().map(str::to_owned).collect();
        }
        memory.applied_placement = Some(self.policy.applied().clone());
    }

    /// The clusters with their names; only in old releases may some of them have left the inventory.
    fn named(&self, clusters: &[(usize, Option<i64>)]) -> PlacedClusters {
        let inventory = self.plane.clusters;
        if clusters.last().is_none_or(|(last, _)| *last < inventory.len()) {
            return self.plane.lists.placed(inventory, clusters);
        }
        let name = |index| schedule::named(inventory, &self.departed, index).clone();
        let placed = |(index, replicas): &(usize, _)| Placed { name: name(*index), replicas: *replicas };
        self.plane.lists.share_placed(&clusters.iter().map(placed).collect())
    }

    fn keep(&self, row: &mut Placement, memory: &mut SchedulerMemory, failure: &Failure) {
        if failure.reason == Reason::NoClusterFit {
            row.clusters = PlacedClusters::default();
            memory.applied_placement = Some(self.policy.applied().clone());
        }
        row.unschedulable = Some(Unschedulable {
            reason: failure.reason.name().to_owned(),
            message: failure.message.clone(),
        });
    }
}

/// Whether equal shares go to later names first: when the FNV-1a hash of the template's uid is odd.
pub(super) fn ties_descend(template: &Object) -> bool {
    let uid = template.text(&["metadata", "uid"]);
    let hash = uid.bytes().fold(2_166_136_261u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(16_777_619));
    !uid.is_empty() && hash % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_decides_the_tie_break() {
        let with_uid =
            |uid: &str| Object::named("v1", "Pod", "p", serde_json::json!({"metadata": {"uid": uid}}));
        assert!(!ties_descend(&with_uid("")));
        assert!(!ties_descend(&with_uid("4858ca61-3ff8-4095-8267-f3d059d8074c")));
        assert!(ties_descend(&with_uid("d43fdeeb-d750-4e2b-bee3-64eb94534f4c")));
    }
}
