//! Rollouts during a scenario: a policy releases its resources to new clusters a few at a time, if its control plane limits
//! that. Until then, the placement is in the plan, but nothing runs there.
//!
//! A scenario keeps what clusters have of a policy and lets the control plane advance the rollout, as a Sync does.
//! Assumptions: before the scenario every cluster has the resources and they are available. New ones are available after
//! a time that the control plane names. A cluster that has left counts as available until its resources are removed,
//! because its conditions are no longer updated, and then they are removed at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::{
    BEFORE_SCENARIO, ClusterRollout, Dialects, Placement, PolicyPlanner, PolicyResources, PolicyRollout,
    RolloutDriver, RolloutMoment, RolloutRules, RolloutStep, RolloutSubject,
};
use federate_kubernetes::{ClusterName, ObjectRef};
use jiff::{SignedDuration, Timestamp};

use super::Baseline;
use super::timeline::{StagePlanner, Timeline, TimelineRun, count_in_words};
use super::variation::{OncePerPair, PlanVariation};
use federate_engine::Engine;

/// The rollouts of policies whose placements have changed.
#[derive(Default)]
pub(super) struct Rollouts(BTreeMap<ObjectRef, ScenarioRollout>);

/// The rollout of a policy.
struct ScenarioRollout {
    dialect: String,
    /// The clusters that the policy selects.
    selected: BTreeSet<ClusterName>,
    rollout: PolicyRollout,
    /// When it continues, in seconds.
    next: Option<i64>,
}

/// The clusters of a policy in two plans.
#[derive(Default)]
struct PolicyChange {
    dialect: String,
    before: BTreeSet<ClusterName>,
    after: BTreeSet<ClusterName>,
}

impl TimelineRun<'_> {
    /// Continues rollouts after a stage was planned. `before` is the plan before the stage. Returns what happens, in
    /// words.
    pub(super) fn roll_out(
        &mut self,
        seconds: i64,
        before: &PlanVariation,
        planner: &mut StagePlanner<'_>,
    ) -> Vec<String> {
        let Timeline { plan, baseline, .. } = &self.timeline;
        if !baseline.limits_rollouts() {
            self.timeline.running = plan.clone();
            return Vec::new();
        }
        let changes = find_policy_changes(baseline, plan, before);
        let mut due = self.rollouts.list_due(seconds);
        due.extend(changes.keys().cloned());
        if due.is_empty() {
            return Vec::new();
        }
        let engine = planner.open_engine();
        let waited = self.rollouts.waiting_clusters();
        self.rollouts.change_clusters(changes, engine);
        for policy in due {
            self.rollouts.advance(&policy, seconds, baseline, plan, engine);
        }
        let waiting = self.rollouts.waiting_clusters();
        let done = waited.difference(&waiting).count();
        self.timeline.running = self.rollouts.running_plan(plan, baseline.dialects);
        let next: Vec<i64> = self.rollouts.0.values().filter_map(|rollout| rollout.next).collect();
        for next in next {
            self.look_at(next);
        }
        let words = [
            count_in_words(done, "placement is rolled out", "placements are rolled out"),
            count_in_words(
                waiting.len(),
                "placement waits for its rollout",
                "placements wait for their rollout",
            ),
        ];
        words.into_iter().flatten().collect()
    }
}

/// The policies whose rows differ from those before, with their clusters in the plan of the baseline and in this one.
fn find_policy_changes(
    baseline: &Baseline<'_>,
    plan: &PlanVariation,
    before: &PlanVariation,
) -> BTreeMap<ObjectRef, PolicyChange> {
    let mut changes: BTreeMap<ObjectRef, PolicyChange> = BTreeMap::new();
    let mut known = OncePerPair::default();
    for key in plan.differing_rows(before) {
        let pair = [baseline.find_row(&key), plan.find_row(baseline, &key)];
        known.get_or_compute(pair, (), || {
            for (row, is_after) in pair.into_iter().zip([false, true]) {
                let Some(row) = row else { continue };
                let Some(dialect) = baseline.dialects.get(&row.dialect) else { continue };
                for policy in dialect.policies_of(row) {
                    let change = changes.entry(policy.policy).or_default();
                    change.dialect.clone_from(&row.dialect);
                    let clusters = if is_after { &mut change.after } else { &mut change.before };
                    clusters.extend(policy.clusters);
                }
            }
        });
    }
    changes
}

impl Rollouts {
    /// The policies whose rollouts may continue by now.
    fn list_due(&self, seconds: i64) -> BTreeSet<ObjectRef> {
        let due = self.0.iter().filter(|(_, rollout)| rollout.next.is_some_and(|next| next <= seconds));
        due.map(|(policy, _)| policy.clone()).collect()
    }

    /// Notes the clusters that policies select now.
    fn change_clusters(&mut self, changes: BTreeMap<ObjectRef, PolicyChange>, engine: &Engine<'_>) {
        for (policy, change) in changes {
            if let Some(rollout) = self.0.get_mut(&policy) {
                rollout.selected = change.after;
                continue;
            }
            let Some(rules) = engine.find_planner(&change.dialect).map(PolicyPlanner::rollout) else {
                continue;
            };
            if rules.controls_updates_of(&policy, RolloutDriver::Scenario) {
                let available = Timestamp::from_second(BEFORE_SCENARIO).ok();
                let cluster = ClusterRollout { available, ..ClusterRollout::default() };
                let mut rollout = PolicyRollout::new(policy.clone());
                rollout.clusters = change.before.into_iter().map(|name| (name, cluster.clone())).collect();
                let PolicyChange { dialect, after: selected, .. } = change;
                self.0.insert(policy, ScenarioRollout { dialect, selected, rollout, next: None });
            }
        }
    }

    /// Advances the rollout of a policy.
    fn advance(
        &mut self,
        policy: &ObjectRef,
        seconds: i64,
        baseline: &Baseline<'_>,
        plan: &PlanVariation,
        engine: &Engine<'_>,
    ) {
        let Some(rollout) = self.0.get_mut(policy) else { return };
        let Some(planner) = engine.find_planner(&rollout.dialect) else { return };
        let clusters_of = |object: &ObjectRef| {
            let row = plan.find_row(baseline, &baseline.row_key(object))?;
            Some(row.clusters.iter().map(|placed| placed.name.clone()).collect())
        };
        rollout.advance(planner.rollout(), &clusters_of, seconds);
    }

    /// The policies and clusters that wait.
    fn waiting_clusters(&self) -> BTreeSet<(ObjectRef, ClusterName)> {
        let all = self.0.iter();
        all.flat_map(|(policy, rollout)| {
            rollout.waiting_clusters().map(|name| (policy.clone(), name.clone()))
        })
        .collect()
    }

    /// The plan without the clusters that wait.
    fn running_plan(&self, plan: &PlanVariation, dialects: Dialects) -> PlanVariation {
        let mut running = plan.clone();
        if self.0.values().all(|rollout| rollout.waiting_clusters().next().is_none()) {
            return running;
        }
        // Only clusters that are new for a row can wait, so the row differs from that before the scenario.
        for row in Arc::make_mut(&mut running.rows).values_mut().flatten() {
            if let Some(less) = self.without_waiting_clusters(row, dialects) {
                *row = Arc::new(less);
            }
        }
        running
    }

    /// A row without the clusters to which its policies have not released it; `None` if there are none.
    fn without_waiting_clusters(&self, row: &Placement, dialects: Dialects) -> Option<Placement> {
        let mut waiting = BTreeSet::new();
        for policy in dialects.get(&row.dialect)?.policies_of(row) {
            let Some(rollout) = self.0.get(&policy.policy) else { continue };
            waiting.extend(policy.clusters.into_iter().filter(|name| rollout.waits(name)));
        }
        if waiting.is_empty() {
            return None;
        }
        let mut row = row.clone();
        row.clusters.retain(|placed| !waiting.contains(&placed.name));
        Some(row)
    }
}

impl ScenarioRollout {
    /// Whether a cluster waits for the resources of the policy.
    fn waits(&self, cluster: &ClusterName) -> bool {
        self.selected.contains(cluster) && !self.rollout.clusters.contains_key(cluster)
    }

    /// The clusters that wait.
    fn waiting_clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.selected.iter().filter(|name| !self.rollout.clusters.contains_key(*name))
    }

    /// Advances the rollout until nothing changes at this time.
    fn advance(
        &mut self,
        rules: &dyn RolloutRules,
        clusters_of: &dyn Fn(&ObjectRef) -> Option<Vec<ClusterName>>,
        seconds: i64,
    ) {
        let Ok(now) = Timestamp::from_second(seconds) else { return };
        let selected: Vec<ClusterName> = self.selected.iter().cloned().collect();
        let policy = self.rollout.policy.clone();
        let subject = RolloutSubject { policy: &policy, clusters: &selected, clusters_of };
        let (resources, approvals) = (PolicyResources::default(), BTreeSet::new());
        let driver = RolloutDriver::Scenario;
        let moment =
            RolloutMoment { now, driver, revision: "", resources: &resources, approvals: &approvals };
        let delay = rules.availability_delay(&policy);
        let mut step = None;
        loop {
            self.note_available(now, delay);
            let released = self.rollout.clusters.len();
            step = rules.advance_rollout(&subject, &mut self.rollout, &moment).or(step);
            let is_released = self.rollout.clusters.len() != released;
            let had = self.rollout.clusters.len();
            self.rollout.clusters.retain(|_, cluster| !cluster.leaving);
            if !is_released && self.rollout.clusters.len() == had {
                break;
            }
        }
        self.next = self.find_next(step.as_ref(), now, delay).filter(|next| *next > seconds);
    }

    /// Notes the clusters whose resources have become available.
    fn note_available(&mut self, now: Timestamp, delay: SignedDuration) {
        for cluster in self.rollout.clusters.values_mut().filter(|cluster| cluster.available.is_none()) {
            let available = cluster.since.and_then(|since| since.checked_add(delay).ok());
            cluster.available = available.filter(|available| *available <= now);
        }
    }

    /// When the rollout may continue, in seconds; `None` if nothing is left to do, or it waits for nothing that takes
    /// time.
    fn find_next(&self, step: Option<&RolloutStep>, now: Timestamp, delay: SignedDuration) -> Option<i64> {
        let is_complete = self.rollout.clusters.keys().all(|name| self.selected.contains(name))
            && self.waiting_clusters().next().is_none();
        if is_complete {
            return None;
        }
        let open = self.rollout.clusters.values().filter(|cluster| cluster.available.is_none());
        let available = open.filter_map(|cluster| cluster.since?.checked_add(delay).ok());
        let times = available.chain(step.and_then(|step| step.next)).filter(|time| *time > now);
        times.min().map(|time| time.as_second() + i64::from(time.subsec_nanosecond() > 0))
    }
}
