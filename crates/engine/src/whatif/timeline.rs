//! Carries out a scenario over time, as control planes do: detection of a lost cluster, taints, evictions, rescheduling.
//!
//! Each stage changes the inventory, evicts placements, and plans again with the plan before as the memory. A stage that
//! changes neither plans nothing. Only what a stage touches is decided again ([`Baseline`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::losses::{State, losses};
use super::variation::{self, Variation};
use super::{Baseline, Event, FreeResource, Loss, Scenario, ScenarioInput, free};
use crate::change::{Changes, Side};
use federate_dialect::{Dialect, Dialects, FailedOver, Moment, Placement};
use federate_kubernetes::{Cluster, ClusterName, ObjectRef, Taint};

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
    /// Whether every object is decided again in each stage. The result is the same; tests compare both.
    pub anew: bool,
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
pub struct Timeline<'r> {
    /// The stages, in order.
    pub stages: Vec<Stage>,
    baseline: &'r Baseline<'r>,
    /// The repo and the inventory at the end.
    world: ScenarioInput<'r>,
    /// The plan at the end.
    plan: Variation,
    /// The clusters that run nothing.
    down: BTreeSet<ClusterName>,
}

/// Changes at one time.
#[derive(Default)]
struct Step {
    what: Vec<String>,
    clusters: Vec<Cluster>,
    removed: Vec<ClusterName>,
}

struct Run<'r> {
    options: TimelineOptions,
    timeline: Timeline<'r>,
    steps: BTreeMap<(i64, usize), Step>,
    /// When clusters got taints.
    since: BTreeMap<(ClusterName, String, String), i64>,
    /// When objects were evicted.
    evicted: BTreeMap<(ObjectRef, ClusterName), i64>,
}

impl Scenario {
    /// Carries out the events from a plan. The time in the options is that of the baseline.
    ///
    /// # Errors
    ///
    /// A message for the user if an event refers to something that does not exist, or cannot happen.
    pub fn run<'r>(
        &self,
        baseline: &'r Baseline<'r>,
        options: TimelineOptions,
    ) -> Result<Timeline<'r>, String> {
        let (slow, quick): (Vec<&Event>, Vec<&Event>) =
            self.events.iter().partition(|event| matches!(event, Event::Lose(_) | Event::Remove(_)));
        let at_once = Self { events: quick.iter().map(|event| (*event).clone()).collect() };
        let world = at_once.apply(baseline.dialects, baseline.repo, baseline.clusters)?;
        let (plan, down) = (Variation::none(baseline.plan), BTreeSet::new());
        let timeline = Timeline { stages: Vec::new(), baseline, world, plan, down };
        let (steps, since, evicted) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut run = Run { options, timeline, steps, since, evicted };
        run.steps.entry((0, 0)).or_default().what.extend(quick.iter().map(ToString::to_string));
        for event in slow {
            run.prepare(event)?;
        }
        let changes = !quick.is_empty() || options.at.is_some();
        run.taint_now();
        run.stages(changes);
        Ok(run.timeline)
    }
}

impl Run<'_> {
    /// Plans the steps of a loss or a removal.
    fn prepare(&mut self, event: &Event) -> Result<(), String> {
        let Baseline { dialects, repo, .. } = *self.timeline.baseline;
        match event {
            Event::Lose(selection) => {
                for cluster in selection.of(&mut self.timeline.world.clusters)? {
                    let step = self.steps.entry((0, 0)).or_default();
                    step.what.push(format!("{} is lost", cluster.name));
                    self.timeline.down.insert(cluster.name.clone());
                    for loss in dialect_of(dialects, cluster)
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
                    let reachable = !self.timeline.down.contains(&cluster.name);
                    let dialect = dialect_of(dialects, cluster);
                    let seconds = dialect.map_or(0, |dialect| dialect.leaves_after(reachable));
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
        let down = if seconds == 0 { BTreeSet::new() } else { self.timeline.down.clone() };
        let mut events = step.what;
        self.change(seconds, step.clusters, &step.removed);
        for (number, one, several) in self.plan(seconds, changed) {
            if number > 0 {
                events.push(format!("{number} {}", if number == 1 { one } else { several }));
            }
        }
        let Timeline { baseline, world, plan, .. } = &self.timeline;
        let moved = plan.moved(baseline.plan, &before);
        let (repo, scaled) = (&world.repo, &world.scaled);
        let from = State { repo, clusters: &clusters, plan: &before, down: &down, scaled };
        let lost: Vec<Loss> = losses(baseline, &from, &self.timeline.end());
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

    /// Evicts placements and plans again, if anything changes. Returns how many were evicted and how many evictions
    /// ended, in words.
    fn plan(&mut self, seconds: i64, changed: bool) -> [(usize, &'static str, &'static str); 2] {
        let in_words = |evicted, finished| {
            [
                (evicted, "placement is evicted", "placements are evicted"),
                (finished, "eviction is done", "evictions are done"),
            ]
        };
        if !changed && !self.options.failover {
            return in_words(0, 0);
        }
        let Timeline { baseline, world, plan, .. } = &mut self.timeline;
        let engine = baseline.engine(world);
        let mut all = Vec::new();
        if self.options.failover {
            let since = |cluster: &str, taint: &Taint| {
                let key = (ClusterName::from(cluster), taint.key.clone(), taint.effect.clone());
                self.since.get(&key).copied().unwrap_or(BEFORE)
            };
            let moment = Moment { seconds, since: &since, evicted: &self.evicted, failover: true };
            let rows: Vec<&Placement> = plan.all(baseline.plan).collect();
            let one = |row: &&Placement| {
                let done = engine.plane(&row.dialect)?.fail_over(row, &moment);
                (done != FailedOver::default()).then(|| (row.object.clone(), done))
            };
            all = rows.par_iter().filter_map(one).collect();
        }
        let evicted = all.iter().map(|(_, done)| done.evicted.len()).sum::<usize>();
        let finished = all.iter().map(|(_, done)| done.finished.len()).sum::<usize>();
        for (object, done) in &mut all {
            if let Some(row) = done.placement.take() {
                Arc::make_mut(&mut plan.rows).insert(object.clone(), Some(row));
            }
        }
        if changed || evicted + finished > 0 {
            *plan = baseline.plan(engine, world, plan, self.options.anew);
        } else {
            drop(engine);
        }
        self.record(seconds, all);
        in_words(evicted, finished)
    }

    /// Records evictions, and when something happens next.
    fn record(&mut self, seconds: i64, all: Vec<(ObjectRef, FailedOver)>) {
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
    }
}

impl Timeline<'_> {
    /// The changed placements.
    pub fn changes(&self) -> Changes {
        let Self { baseline, world, plan, .. } = self;
        let rows: BTreeSet<&ObjectRef> = plan.rows.keys().collect();
        let rows = rows.into_iter().map(|object| {
            (variation::row(baseline.plan, object), plan.rows.get(object).and_then(Option::as_ref))
        });
        let unmatched = plan.unmatched.as_deref().unwrap_or(&baseline.plan.unmatched);
        let from = Side { clusters: baseline.clusters, plan: baseline.plan, manifests: &[] };
        Changes::of_rows(&from, &world.clusters, rows, unmatched)
    }

    /// The replicas that are lost and regained.
    pub fn losses(&self) -> Vec<Loss> {
        let (plan, none) = (Variation::none(self.baseline.plan), BTreeSet::new());
        let Baseline { repo, clusters, .. } = *self.baseline;
        let (down, scaled) = (&none, &BTreeSet::new());
        losses(self.baseline, &State { repo, clusters, plan: &plan, down, scaled }, &self.end())
    }

    /// The tightest resource of each cluster at the end.
    pub fn tightest(&self) -> Vec<FreeResource> {
        free::tightest(self.baseline, &self.end())
    }

    /// The state at the end.
    fn end(&self) -> State<'_> {
        let ScenarioInput { repo, clusters, scaled } = &self.world;
        State { repo, clusters, plan: &self.plan, down: &self.down, scaled }
    }
}

fn key(cluster: &ClusterName, taint: &Taint) -> (ClusterName, String, String) {
    (cluster.clone(), taint.key.clone(), taint.effect.clone())
}

fn dialect_of(dialects: Dialects, cluster: &Cluster) -> Option<&'static dyn Dialect> {
    dialects.iter().find(|d| d.role(&cluster.id.api_version, &cluster.id.kind).is_some())
}
