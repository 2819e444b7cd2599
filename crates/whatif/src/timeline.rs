//! Carries out a scenario over time, as control planes do: detection of a lost cluster, taints, evictions, rescheduling.
//!
//! Each stage changes the inventory, evicts placements, and plans again with the plan before as the previous plan. A stage that
//! changes neither plans nothing. Only what a stage touches is decided again ([`Baseline`]), and what happens to a row
//! happens to all objects that share it. Then rollouts continue ([`rollout`](super::rollout)), and pods are counted
//! ([`pods`](super::pods)).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::losses::{ReplicaDifference, ScenarioState, find_differences};
use super::pods::ScenarioPods;
use super::rollout::Rollouts;
use super::variation::PlanVariation;
use super::{Baseline, FreeResource, ReplicaLoss, Scenario, ScenarioEvent, ScenarioInput, free_resources};
use federate_dialect::{
    BEFORE_SCENARIO, Dialect, Dialects, Evictions, FailoverOutcome, Placement, RowKey, ScenarioMoment,
};
use federate_engine::Engine;
use federate_engine::change::{RenderingChanges, RenderingSide, RowVersions};
use federate_engine::decision_groups::row_address;
use federate_engine::work_limit::map_charged;
use federate_kubernetes::{Cluster, ClusterName, Taint, work};

/// The most stages of a scenario.
const MAX_STAGES: usize = 64;

/// How a scenario is carried out.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimelineOptions {
    /// Whether the failover of control planes is on, which is off by default.
    pub failover: bool,
    /// The time at which it happens, for rules about age.
    pub at: Option<Timestamp>,
    /// Whether every object is decided again in each stage. The result is the same; tests compare both.
    pub anew: bool,
}

/// A stage of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimelineStage {
    /// The seconds since the scenario began.
    pub seconds: i64,
    /// What happens, in words.
    pub events: Vec<String>,
    /// The number of objects whose clusters or replicas change.
    pub moved: usize,
    /// Replicas that no longer run where they ran before the stage.
    pub lost: i64,
    /// Lost replicas that run in other clusters since this stage.
    pub regained: i64,
}

/// The stages of a scenario, and its end.
pub struct Timeline<'r> {
    /// The stages, in order.
    pub stages: Vec<TimelineStage>,
    pub(super) baseline: &'r Baseline<'r>,
    /// The repo and the inventory at the end.
    pub(super) world: Arc<ScenarioInput<'r>>,
    /// The plan at the end.
    pub(super) plan: PlanVariation,
    /// The same without the clusters that wait for a rollout.
    pub(super) running: PlanVariation,
    /// The clusters that run nothing.
    pub(super) down: BTreeSet<ClusterName>,
}

/// Changes at one time.
#[derive(Default)]
pub(super) struct TimelineStep {
    what: Vec<String>,
    /// Clusters that change, with what happens to each, in words.
    clusters: Vec<(Option<String>, Cluster)>,
    removed: Vec<ClusterName>,
}

pub(super) struct TimelineRun<'r> {
    options: TimelineOptions,
    pub(super) timeline: Timeline<'r>,
    steps: BTreeMap<(i64, usize), TimelineStep>,
    is_first: bool,
    pub(super) rollouts: Rollouts,
    pub(super) pods: ScenarioPods,
    /// When clusters got taints.
    since: BTreeMap<(ClusterName, String, String), i64>,
    /// When objects were evicted.
    evicted: BTreeMap<RowKey, Arc<Evictions>>,
    /// The replicas of each object that were lost and not regained so far.
    missing: BTreeMap<RowKey, i64>,
}

impl Scenario {
    /// Carries out the events from a plan. The time in the options is that of the baseline.
    ///
    /// # Errors
    ///
    /// A message for the user if an event refers to something that does not exist, or cannot happen.
    pub fn run_timeline<'r>(
        &self,
        baseline: &'r Baseline<'r>,
        options: TimelineOptions,
    ) -> Result<Timeline<'r>, String> {
        let (slow, quick): (Vec<&ScenarioEvent>, Vec<&ScenarioEvent>) = self
            .events
            .iter()
            .partition(|event| matches!(event, ScenarioEvent::Lose(_) | ScenarioEvent::Remove(_)));
        let at_once = Self { events: quick.iter().map(|event| (*event).clone()).collect() };
        let world = Arc::new(at_once.apply_events(baseline.dialects, baseline.repo, baseline.clusters)?);
        let (plan, down) = (PlanVariation::without_changes(baseline.plan), BTreeSet::new());
        let timeline = Timeline { stages: Vec::new(), baseline, world, running: plan.clone(), plan, down };
        let (steps, since, evicted, missing) = Default::default();
        let (rollouts, pods) = (Rollouts::default(), ScenarioPods::default());
        let mut run =
            TimelineRun { options, timeline, steps, is_first: true, rollouts, pods, since, evicted, missing };
        run.steps.entry((0, 0)).or_default().what.extend(quick.iter().map(ToString::to_string));
        for event in slow {
            run.plan_steps(event)?;
        }
        let changes = !quick.is_empty() || options.at.is_some();
        run.taint_now();
        run.run_stages(changes);
        Ok(run.timeline)
    }
}

impl TimelineRun<'_> {
    /// Plans the steps of a loss or a removal.
    fn plan_steps(&mut self, event: &ScenarioEvent) -> Result<(), String> {
        let Baseline { dialects, repo, .. } = *self.timeline.baseline;
        match event {
            ScenarioEvent::Lose(selection) => {
                for cluster in selection.select_clusters(&mut self.timeline.world.clusters.clone())? {
                    let step = self.steps.entry((0, 0)).or_default();
                    step.what.push(format!("{} is lost", cluster.name));
                    self.timeline.down.insert(cluster.name.clone());
                    for loss in dialect_of(dialects, cluster)
                        .map(|dialect| dialect.outages().outage_steps(repo, cluster, self.options.failover))
                        .unwrap_or_default()
                    {
                        let step = self.steps.entry((loss.seconds, 0)).or_default();
                        step.clusters.push((Some(loss.what), loss.cluster));
                    }
                }
            }
            ScenarioEvent::Remove(selection) => {
                for cluster in selection.select_clusters(&mut self.timeline.world.clusters.clone())? {
                    let dialect = dialect_of(dialects, cluster);
                    let step = self.steps.entry((0, 0)).or_default();
                    step.what.push(format!("{} is being removed", cluster.name));
                    if dialect.is_none_or(|dialect| dialect.outages().notices_deletion()) {
                        step.clusters.push((None, Cluster { deleting: true, ..cluster.clone() }));
                    }
                    let reachable = !self.timeline.down.contains(&cluster.name);
                    let seconds = dialect.map_or(0, |dialect| dialect.outages().leaves_after(reachable));
                    let step = self.steps.entry((seconds, 1)).or_default();
                    step.what.push(format!("{} has left", cluster.name));
                    step.removed.push(cluster.name.clone());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Records the taints that the events at the start add.
    fn taint_now(&mut self) {
        let before = self.timeline.baseline.clusters;
        for cluster in &self.timeline.world.clusters {
            let old = before.iter().find(|old| old.name == cluster.name);
            let had = |taint: &Taint| old.is_some_and(|old| old.taints.contains(taint));
            for taint in cluster.taints.iter().filter(|taint| !had(taint)) {
                self.since.insert(taint_key(&cluster.name, taint), 0);
            }
        }
    }

    fn run_stages(&mut self, mut changed: bool) {
        let mut left = MAX_STAGES;
        while left > 0 && !work::is_exceeded() {
            let Some(((seconds, _), mut step)) = self.steps.pop_first() else { return };
            changed |= step.changes_inventory();
            let before = Arc::clone(&self.timeline.world);
            step.what.extend(self.change_inventory(seconds, step.clusters, &step.removed));
            let world = Arc::clone(&self.timeline.world);
            let mut planner = StagePlanner::new(self.timeline.baseline, &world);
            self.run_stage(seconds, step.what, changed, &before, &mut planner);
            left -= 1;
            // The next stages share the control planes until the inventory changes.
            while left > 0 && self.steps.first_key_value().is_some_and(|(_, step)| !step.changes_inventory())
            {
                let Some(((seconds, _), step)) = self.steps.pop_first() else { return };
                self.run_stage(seconds, step.what, false, &world, &mut planner);
                left -= 1;
            }
            changed = false;
        }
    }

    /// Plans the end of a step. `from` is the world before.
    fn run_stage(
        &mut self,
        seconds: i64,
        mut events: Vec<String>,
        changed: bool,
        from: &ScenarioInput<'_>,
        planner: &mut StagePlanner<'_>,
    ) {
        let (before, planned) = (self.timeline.running.clone(), self.timeline.plan.clone());
        // In the first stage, what the lost clusters ran is lost, whatever their control plane knows.
        let is_first = std::mem::take(&mut self.is_first);
        let down = if is_first { BTreeSet::new() } else { self.timeline.down.clone() };
        let migrated = self.migrate_pods(seconds, planner);
        events.extend(migrated.iter().flatten().cloned());
        events.extend(self.plan_stage(seconds, changed || migrated.is_some(), planner));
        events.extend(self.roll_out(seconds, &planned, planner));
        events.extend(self.count_pods(seconds));
        let Timeline { baseline, running, .. } = &self.timeline;
        let differing = running.differing_rows(&before);
        let moved = running.count_moved(baseline, &before, &differing);
        let ScenarioInput { repo, clusters, scaled } = from;
        let now = baseline.now();
        let from = ScenarioState { repo, clusters, plan: &before, down: &down, scaled, now };
        let all = find_differences(baseline, &from, &self.timeline.end_state(), differing);
        let lost = all.iter().map(|(_, one)| one.lost).sum::<i64>();
        let mut regained = 0;
        for (key, one) in all {
            // Only replicas that were lost, now or in an earlier stage, can be regained.
            let missing = self.missing.entry(key).or_default();
            *missing += one.lost;
            let again = one.gained.min(*missing);
            *missing -= again;
            regained += again;
        }
        if !events.is_empty() || moved > 0 {
            self.timeline.stages.push(TimelineStage { seconds, events, moved, lost, regained });
        }
    }

    /// Changes the inventory. Returns what happens to clusters that have not left, in words.
    fn change_inventory(
        &mut self,
        seconds: i64,
        changed: Vec<(Option<String>, Cluster)>,
        removed: &[ClusterName],
    ) -> Vec<String> {
        if changed.is_empty() && removed.is_empty() {
            return Vec::new();
        }
        let mut words = Vec::new();
        let clusters = &mut Arc::make_mut(&mut self.timeline.world).clusters;
        for (what, cluster) in changed {
            let Some(old) = clusters.iter_mut().find(|old| old.name == cluster.name) else { continue };
            for taint in cluster.taints.iter().filter(|taint| !old.taints.contains(taint)) {
                self.since.insert(taint_key(&cluster.name, taint), seconds);
            }
            words.extend(what);
            *old = cluster;
        }
        clusters.retain(|cluster| !removed.contains(&cluster.name));
        words
    }

    /// Evicts placements and plans again, if anything changes. Returns how many were evicted and how many evictions
    /// ended, in words.
    fn plan_stage(
        &mut self,
        seconds: i64,
        changed: bool,
        planner: &mut StagePlanner<'_>,
    ) -> impl Iterator<Item = String> + use<> {
        let counts = if self.options.failover || self.timeline.baseline.always_evicts() {
            self.fail_over(seconds, planner.open_engine())
        } else {
            EvictionCounts::default()
        };
        let EvictionCounts { evicted, purged, finished } = counts;
        if changed || evicted + finished > 0 {
            let Timeline { baseline, plan, .. } = &mut self.timeline;
            let world = planner.world;
            *plan = baseline.plan_scenario(planner.open_engine(), world, plan, self.options.anew);
        }
        let evicted = count_in_words(evicted, "placement is evicted", "placements are evicted");
        let purged = count_in_words(purged, "copy is removed at once", "copies are removed at once");
        let finished = count_in_words(finished, "eviction is done", "evictions are done");
        evicted.into_iter().chain(purged).chain(finished)
    }

    /// Adds a stage.
    pub(super) fn look_at(&mut self, seconds: i64) {
        self.steps.entry((seconds, 0)).or_default();
    }

    /// Evicts placements and ends evictions.
    fn fail_over(&mut self, seconds: i64, engine: &Engine<'_>) -> EvictionCounts {
        let since = |cluster: &str, taint: &Taint| {
            let key = (ClusterName::from(cluster), taint.key.clone(), taint.effect.clone());
            self.since.get(&key).copied().unwrap_or(BEFORE_SCENARIO)
        };
        let moment = ScenarioMoment { seconds, since: &since, failover: self.options.failover };
        let all = self.group_rows();
        let done = map_charged(&all, |group| {
            let planner = engine.find_planner(&group.row.dialect)?;
            work::charge_items(group.row.clusters.len());
            let mut done = planner.failover().simulate_failover(&group.row, &group.evicted, &moment);
            (done != FailoverOutcome::default()).then(|| {
                let mut evicted = group.evicted.as_ref().clone();
                evicted.retain(|cluster, _| !done.finished.contains(cluster));
                evicted.extend(done.evicted.iter().map(|cluster| (cluster.clone(), seconds)));
                (done.placement.take().map(Arc::new), Arc::new(evicted), done)
            })
        });
        let mut counts = EvictionCounts::default();
        for (group, done) in all.iter().zip(done) {
            let Some((row, evictions, done)) = done else { continue };
            counts.evicted += done.evicted.len() * group.keys.len();
            counts.purged += done.purged.len() * group.keys.len();
            counts.finished += done.finished.len() * group.keys.len();
            self.look_again(seconds, &done);
            for key in &group.keys {
                if let Some(row) = &row {
                    let rows = Arc::make_mut(&mut self.timeline.plan.rows);
                    rows.insert(key.clone(), Some(Arc::clone(row)));
                }
                self.evicted.insert(key.clone(), Arc::clone(&evictions));
            }
        }
        counts
    }

    /// The rows of the plan, each with the objects that share it and its evictions.
    fn group_rows(&self) -> Vec<Group> {
        let Timeline { baseline, plan, .. } = &self.timeline;
        let none = Arc::new(Evictions::new());
        let mut groups: Vec<Group> = Vec::new();
        let mut known: HashMap<(usize, usize), usize> = HashMap::new();
        for (key, row) in plan.all_rows(baseline) {
            let evicted = self.evicted.get(&key).unwrap_or(&none);
            let next = groups.len();
            let at = *known.entry((row_address(Some(row)), Arc::as_ptr(evicted).addr())).or_insert(next);
            if at == next {
                let (row, evicted) = (Arc::clone(row), Arc::clone(evicted));
                groups.push(Group { row, evicted, keys: Vec::new() });
            }
            groups.get_mut(at).into_iter().for_each(|group| group.keys.push(key.clone()));
        }
        groups
    }

    /// Adds the stages at which something may happen next.
    fn look_again(&mut self, seconds: i64, done: &FailoverOutcome) {
        if !done.evicted.is_empty() {
            self.look_at(seconds.saturating_add(1));
        }
        if let Some(next) = done.next.filter(|next| *next > seconds) {
            self.look_at(next);
        }
    }
}

/// How many evictions begin and end at a moment.
#[derive(Default)]
struct EvictionCounts {
    evicted: usize,
    /// Those of them that remove the copy at once.
    purged: usize,
    finished: usize,
}

/// Objects that share a row and its evictions.
struct Group {
    row: Arc<Placement>,
    evicted: Arc<Evictions>,
    keys: Vec<RowKey>,
}

/// The control planes over one inventory, opened when they are first needed.
pub(super) struct StagePlanner<'w> {
    baseline: &'w Baseline<'w>,
    world: &'w ScenarioInput<'w>,
    engine: Option<Engine<'w>>,
}

impl<'w> StagePlanner<'w> {
    fn new(baseline: &'w Baseline<'w>, world: &'w ScenarioInput<'w>) -> Self {
        Self { baseline, world, engine: None }
    }

    pub(super) fn open_engine(&mut self) -> &Engine<'w> {
        self.engine.get_or_insert_with(|| self.baseline.build_engine(self.world))
    }
}

impl TimelineStep {
    /// Whether the inventory changes.
    fn changes_inventory(&self) -> bool {
        !self.clusters.is_empty() || !self.removed.is_empty()
    }
}

impl Timeline<'_> {
    /// The clusters that run nothing at the end.
    pub fn lost_clusters(&self) -> &BTreeSet<ClusterName> {
        &self.down
    }

    /// The changed placements.
    pub fn compute_changes(&self) -> RenderingChanges {
        let Self { baseline, world, running, .. } = self;
        let end = self.end_state();
        let scaled = world.scaled.iter().map(|object| baseline.row_key(object));
        let keys: BTreeSet<RowKey> = running.rows.keys().cloned().chain(scaled).collect();
        let mut rows: Vec<RowVersions<'_>> = Vec::with_capacity(keys.len());
        for key in &keys {
            let Some(object) = baseline.find_object(key) else { continue };
            let versions = [baseline.find_row(key), running.find_row(baseline, key)];
            let replicas = [baseline.object_replicas(key), end.object_replicas(baseline, key)];
            rows.push(RowVersions { object, rows: versions.map(|row| row.map(AsRef::as_ref)), replicas });
        }
        rows.sort_by_key(|versions| versions.object);
        let unmatched = running.unmatched.as_deref().unwrap_or(&baseline.plan.unmatched);
        let from = RenderingSide { clusters: baseline.clusters, plan: baseline.plan, manifests: &[] };
        RenderingChanges::from_rows(&from, baseline.total_replicas(), &world.clusters, &rows, unmatched)
    }

    /// The replicas that are lost and regained, sorted by object.
    pub fn compute_losses(&self) -> Vec<ReplicaLoss> {
        let (plan, none) = (PlanVariation::without_changes(self.baseline.plan), BTreeSet::new());
        let Baseline { repo, clusters, .. } = *self.baseline;
        let (down, scaled) = (&none, &BTreeSet::new());
        let before = ScenarioState { repo, clusters, plan: &plan, down, scaled, now: self.baseline.now() };
        let all =
            find_differences(self.baseline, &before, &self.end_state(), plan.differing_rows(&self.running));
        let mut losses: Vec<ReplicaLoss> = all
            .iter()
            .filter_map(|(key, difference)| {
                Some(ReplicaDifference::into_loss(*difference, self.baseline.find_object(key)?))
            })
            .collect();
        losses.sort_by(|a, b| a.object.cmp(&b.object));
        losses
    }

    /// The tightest resource of each cluster at the end.
    pub fn tightest_resources(&self) -> Vec<FreeResource> {
        free_resources::tightest_resources(self.baseline, &self.end_state())
    }

    /// The state at the end.
    pub(super) fn end_state(&self) -> ScenarioState<'_> {
        let ScenarioInput { repo, clusters, scaled } = self.world.as_ref();
        let now = self.baseline.now();
        ScenarioState { repo, clusters, plan: &self.running, down: &self.down, scaled, now }
    }
}

/// A number with what it counts; `None` if it is 0.
pub(super) fn count_in_words(number: usize, one: &str, several: &str) -> Option<String> {
    (number > 0).then(|| format!("{number} {}", if number == 1 { one } else { several }))
}

fn taint_key(cluster: &ClusterName, taint: &Taint) -> (ClusterName, String, String) {
    (cluster.clone(), taint.key.clone(), taint.effect.clone())
}

fn dialect_of(dialects: Dialects, cluster: &Cluster) -> Option<&'static dyn Dialect> {
    dialects.iter().find(|d| d.role_of_kind(&cluster.id.api_version, &cluster.id.kind).is_some())
}
