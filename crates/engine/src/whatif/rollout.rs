//! Rollouts during a scenario: a policy releases its resources to new clusters a few at a time, if its control plane limits
//! that. Until then, the placement is in the plan, but nothing runs there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Baseline;
use super::timeline::{StagePlanner, Timeline, TimelineRun, count_in_words};
use super::variation::PlanVariation;
use crate::Engine;
use federate_dialect::{AwaitedClusters, BEFORE_SCENARIO, ClusterReleaseTimes, RolloutOutcome, RowKey};
use federate_kubernetes::{ClusterName, ObjectRef};

/// The rollouts of policies whose placements have changed.
#[derive(Default)]
pub(super) struct Rollouts(BTreeMap<RowKey, Rollout>);

struct Rollout {
    policy: ObjectRef,
    released: ClusterReleaseTimes,
    /// The clusters that wait.
    awaited: Vec<ClusterName>,
    /// When it continues, in seconds.
    next: Option<i64>,
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
        let mut keys = plan.differing_rows(before);
        keys.extend(self.rollouts.due_rollouts(seconds));
        if keys.is_empty() {
            return Vec::new();
        }
        let engine = planner.open_engine();
        let waited = self.rollouts.waiting_clusters();
        for key in keys {
            self.rollouts.go_on(key, seconds, (baseline, plan), engine);
        }
        let waiting = self.rollouts.waiting_clusters();
        let done = waited.difference(&waiting).count();
        self.timeline.running = self.rollouts.running_plan(plan, engine);
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

impl Rollouts {
    /// The rollouts that may continue by now.
    fn due_rollouts(&self, seconds: i64) -> Vec<RowKey> {
        let due = |rollout: &Rollout| rollout.next.is_some_and(|next| next <= seconds);
        self.0.iter().filter(|(_, rollout)| due(rollout)).map(|(key, _)| key.clone()).collect()
    }

    /// Continues the rollout of a policy, if the row is that of a policy.
    fn go_on(
        &mut self,
        key: RowKey,
        seconds: i64,
        (baseline, plan): (&Baseline<'_>, &PlanVariation),
        engine: &Engine<'_>,
    ) {
        let Some(row) = plan.find_row(baseline, &key) else { return };
        let Some(policy) = row.policy.as_ref().filter(|policy| baseline.find_object(&key) == Some(*policy))
        else {
            return;
        };
        let before = baseline.find_row(&key).map(|row| &row.clusters[..]).unwrap_or_default();
        let released = self.0.get(&key).map_or_else(
            || before.iter().map(|placed| (placed.name.clone(), BEFORE_SCENARIO)).collect(),
            |rollout| rollout.released.clone(),
        );
        let plane = engine.control_plane(&row.dialect);
        let Some(done) = plane.and_then(|plane| plane.simulate_rollout(row, &released, seconds)) else {
            return;
        };
        let names = row.clusters.iter().map(|placed| &placed.name);
        let awaited = names.filter(|name| !done.released.contains_key(*name)).cloned().collect();
        let RolloutOutcome { released, next } = done;
        self.0.insert(key, Rollout { policy: policy.clone(), released, awaited, next });
    }

    /// The policies and clusters that wait.
    fn waiting_clusters(&self) -> BTreeSet<(ObjectRef, ClusterName)> {
        self.0
            .values()
            .flat_map(|rollout| {
                let policy = rollout.policy.clone();
                rollout.awaited.clone().into_iter().map(move |cluster| (policy.clone(), cluster))
            })
            .collect()
    }

    /// The plan without the clusters that wait.
    fn running_plan(&self, plan: &PlanVariation, engine: &Engine<'_>) -> PlanVariation {
        let waiting = self.0.values().filter(|rollout| !rollout.awaited.is_empty());
        let awaited: AwaitedClusters =
            waiting.map(|rollout| (rollout.policy.clone(), rollout.awaited.clone())).collect();
        let mut running = plan.clone();
        if awaited.is_empty() {
            return running;
        }
        // Only clusters that are new for a row can wait, so the row differs from that before the scenario.
        for row in Arc::make_mut(&mut running.rows).values_mut().flatten() {
            let plane = engine.control_plane(&row.dialect);
            if let Some(less) = plane.and_then(|plane| plane.remove_awaited_clusters(row, &awaited)) {
                *row = Arc::new(less);
            }
        }
        running
    }
}
