//! Carries out a scenario over time, as control planes do: detection of a lost cluster, taints, evictions, rescheduling.
//!
//! Each stage changes the inventory, evicts placements, and plans again with the plan before as the memory. A stage that
//! changes neither plans nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Event, Loss, Scenario, ScenarioInput, State, losses};
use crate::{Engine, Settings};
use federate_dialect::{Dialect, Dialects, Moment, Plan, Previous};
use federate_kubernetes::{Cluster, ClusterName, ObjectRef, Taint};
use federate_repo::Repo;

/// The most stages of a scenario.
const STAGES: usize = 64;

/// A time before the scenario, for taints that are older.
const BEFORE: i64 = -1_000_000_000;

/// How a scenario is carried out.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimelineOptions {
    /// Whether the failover of control planes is on, which is off by default.
    pub failover: bool,
    /// The time at which it happens, for rules about age.
    pub at: Option<Timestamp>,
}

/// A stage of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// The seconds since the scenario began.
    pub seconds: i64,
    /// What happens, in words.
    pub events: Vec<String>,
    /// The number of objects whose clusters or replicas change.
    pub moved: usize,
    /// Replicas that no longer run where they ran before the stage.
    pub lost: i64,
    /// Replicas that run where they did not run before the stage.
    pub regained: i64,
}

/// The stages of a scenario, and its end.
#[derive(Clone, Debug)]
pub struct Timeline<'r> {
    /// The stages, in order.
    pub stages: Vec<Stage>,
    /// The repo and the inventory at the end.
    pub world: ScenarioInput<'r>,
    /// The plan at the end.
    pub plan: Plan,
    /// The clusters that run nothing.
    pub down: BTreeSet<ClusterName>,
}

/// Changes at one time.
#[derive(Default)]
struct Step {
    what: Vec<String>,
    clusters: Vec<Cluster>,
    removed: Vec<ClusterName>,
}

struct Run<'r, 's> {
    dialects: Dialects,
    settings: &'s Settings,
    options: TimelineOptions,
    timeline: Timeline<'r>,
    steps: BTreeMap<(i64, usize), Step>,
    /// When clusters got taints.
    since: BTreeMap<(ClusterName, String, String), i64>,
    /// When objects were evicted.
    evicted: BTreeMap<(ObjectRef, ClusterName), i64>,
}

impl Scenario {
    /// Carries out the events from a plan.
    ///
    /// # Errors
    ///
    /// A message for the user if an event refers to something that does not exist, or cannot happen.
    pub fn run<'r>(
        &self,
        dialects: Dialects,
        before: &State<'r>,
        settings: &Settings,
        options: TimelineOptions,
    ) -> Result<Timeline<'r>, String> {
        let (slow, quick): (Vec<&Event>, Vec<&Event>) =
            self.events.iter().partition(|event| matches!(event, Event::Lose(_) | Event::Remove(_)));
        let at_once = Self { events: quick.iter().map(|event| (*event).clone()).collect() };
        let world = at_once.apply(dialects, before.repo, before.clusters)?;
        let timeline =
            Timeline { stages: Vec::new(), world, plan: before.plan.clone(), down: before.down.clone() };
        let settings = Settings { now: options.at.or(settings.now), ..settings.clone() };
        let (steps, since, evicted) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut run = Run { dialects, settings: &settings, options, timeline, steps, since, evicted };
        run.steps.entry((0, 0)).or_default().what.extend(quick.iter().map(ToString::to_string));
        for event in slow {
            run.prepare(before.repo, event)?;
        }
        let changes = !quick.is_empty() || options.at.is_some();
        run.taint_now(before.clusters);
        run.stages(changes);
        Ok(run.timeline)
    }
}

impl Run<'_, '_> {
    /// Plans the steps of a loss or a removal.
    fn prepare(&mut self, repo: &Repo, event: &Event) -> Result<(), String> {
        match event {
            Event::Lose(selection) => {
                for cluster in selection.of(&mut self.timeline.world.clusters)? {
                    let step = self.steps.entry((0, 0)).or_default();
                    step.what.push(format!("{} is lost", cluster.name));
                    self.timeline.down.insert(cluster.name.clone());
                    for loss in dialect_of(self.dialects, cluster)
                        .map(|dialect| dialect.loss(repo, cluster, self.options.failover))
                        .unwrap_or_default()
                    {
                        let step = self.steps.entry((loss.seconds, 0)).or_default();
                        step.what.push(loss.what);
                        step.clusters.push(loss.cluster);
                    }
                }
            }
            Event::Remove(selection) => {
                for cluster in selection.of(&mut self.timeline.world.clusters)? {
                    let step = self.steps.entry((0, 0)).or_default();
                    step.what.push(format!("{} is being removed", cluster.name));
                    step.clusters.push(Cluster { deleting: true, ..cluster.clone() });
                    let step = self.steps.entry((0, 1)).or_default();
                    step.what.push(format!("{} has left", cluster.name));
                    step.removed.push(cluster.name.clone());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Records the taints that the events at the start add.
    fn taint_now(&mut self, before: &[Cluster]) {
        for cluster in &self.timeline.world.clusters {
            let old = before.iter().find(|old| old.name == cluster.name);
            let had = |taint: &Taint| old.is_some_and(|old| old.taints.contains(taint));
            for taint in cluster.taints.iter().filter(|taint| !had(taint)) {
                self.since.insert(key(&cluster.name, taint), 0);
            }
        }
    }

    fn stages(&mut self, mut changed: bool) {
        for _ in 0..STAGES {
            let Some(((seconds, _), step)) = self.steps.pop_first() else { return };
            changed |= !step.clusters.is_empty() || !step.removed.is_empty();
            self.stage(seconds, step, changed);
            changed = false;
        }
    }

    fn stage(&mut self, seconds: i64, step: Step, changed: bool) {
        let before = self.timeline.plan.clone();
        let clusters = self.timeline.world.clusters.clone();
        // At the start, what the lost clusters ran is lost, whatever their control plane knows.
        let up_before = if seconds == 0 { BTreeSet::new() } else { self.timeline.down.clone() };
        let mut events = step.what;
        self.change(seconds, step.clusters, &step.removed);
        let (evicted, finished) = self.fail_over(seconds);
        if changed || evicted + finished > 0 {
            self.plan();
        }
        for (number, one, several) in [
            (evicted, "placement is evicted", "placements are evicted"),
            (finished, "eviction is done", "evictions are done"),
        ] {
            if number > 0 {
                events.push(format!("{number} {}", if number == 1 { one } else { several }));
            }
        }
        let moved = moved(&before, &self.timeline.plan);
        let repo = &self.timeline.world.repo;
        let from = State { repo, clusters: &clusters, plan: &before, down: &up_before };
        let lost: Vec<Loss> = losses(&from, &self.timeline.end());
        let (lost, regained) =
            (lost.iter().map(|l| l.lost).sum::<i64>(), lost.iter().map(|l| l.regained).sum::<i64>());
        if !events.is_empty() || moved > 0 {
            self.timeline.stages.push(Stage { seconds, events, moved, lost, regained });
        }
    }

    /// Changes the inventory.
    fn change(&mut self, seconds: i64, changed: Vec<Cluster>, removed: &[ClusterName]) {
        for cluster in changed {
            for taint in &cluster.taints {
                let old = self.timeline.world.clusters.iter().find(|old| old.name == cluster.name);
                if !old.is_some_and(|old| old.taints.contains(taint)) {
                    self.since.insert(key(&cluster.name, taint), seconds);
                }
            }
            if let Some(old) = self.timeline.world.clusters.iter_mut().find(|old| old.name == cluster.name) {
                *old = cluster;
            }
        }
        self.timeline.world.clusters.retain(|cluster| !removed.contains(&cluster.name));
    }

    /// Evicts placements; returns how many were evicted, and how many evictions ended.
    fn fail_over(&mut self, seconds: i64) -> (usize, usize) {
        if !self.options.failover {
            return (0, 0);
        }
        let since = |cluster: &str, taint: &Taint| {
            let key = (ClusterName::from(cluster), taint.key.clone(), taint.effect.clone());
            self.since.get(&key).copied().unwrap_or(BEFORE)
        };
        let moment = Moment { seconds, since: &since, evicted: &self.evicted, failover: true };
        let world = &self.timeline.world;
        let engine = Engine::new(self.dialects, &world.repo, &world.clusters, self.settings);
        let (mut evicted, mut finished, mut all) = (0, 0, Vec::new());
        for row in &mut self.timeline.plan.placements {
            let Some(plane) = engine.plane(&row.dialect) else { continue };
            let done = plane.fail_over(row, &moment);
            evicted += done.evicted.len();
            finished += done.finished.len();
            all.push((row.object.clone(), done));
        }
        for (object, done) in all {
            for cluster in done.finished {
                self.evicted.remove(&(object.clone(), cluster));
            }
            if !done.evicted.is_empty() {
                self.steps.entry((seconds.saturating_add(1), 0)).or_default();
            }
            for cluster in done.evicted {
                self.evicted.insert((object.clone(), cluster), seconds);
            }
            if let Some(next) = done.next.filter(|next| *next > seconds) {
                self.steps.entry((next, 0)).or_default();
            }
        }
        (evicted, finished)
    }

    fn plan(&mut self) {
        let previous = Previous::new(std::mem::take(&mut self.timeline.plan));
        let settings = Settings { previous, ..self.settings.clone() };
        let world = &self.timeline.world;
        let engine = Engine::new(self.dialects, &world.repo, &world.clusters, &settings);
        self.timeline.plan = engine.plan().plan;
    }
}

impl Timeline<'_> {
    /// The state at the end.
    pub fn end(&self) -> State<'_> {
        State { repo: &self.world.repo, clusters: &self.world.clusters, plan: &self.plan, down: &self.down }
    }
}

fn key(cluster: &ClusterName, taint: &Taint) -> (ClusterName, String, String) {
    (cluster.clone(), taint.key.clone(), taint.effect.clone())
}

fn dialect_of(dialects: Dialects, cluster: &Cluster) -> Option<&'static dyn Dialect> {
    dialects.iter().find(|d| d.role(&cluster.id.api_version, &cluster.id.kind).is_some())
}

/// The number of rows that differ in their clusters. Both plans are sorted by object.
fn moved(before: &Plan, after: &Plan) -> usize {
    let old: BTreeMap<&ObjectRef, _> =
        before.placements.iter().map(|row| (&row.object, &row.clusters)).collect();
    let differs = |row: &&federate_dialect::Placement| {
        old.get(&row.object).map_or(!row.clusters.is_empty(), |clusters| **clusters != row.clusters)
    };
    after.placements.iter().filter(differs).count()
}
