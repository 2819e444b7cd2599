//! Rollouts during a scenario: a policy releases its resources to new clusters a few at a time, if its control plane limits
//! that. Until then, the placement is in the plan, but nothing runs there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Baseline;
use super::timeline::{BEFORE, Planner, Run, Timeline, counted};
use super::variation::Variation;
use crate::Engine;
use federate_dialect::{Awaited, Released, RolledOut, RowKey};
use federate_kubernetes::{ClusterName, ObjectRef};

/// The rollouts of policies whose placements have changed.
#[derive(Default)]
pub(super) struct Rollouts(BTreeMap<RowKey, Rollout>);

struct Rollout {
    policy: ObjectRef,
    released: Released,
    /// The clusters that wait.
    awaited: Vec<ClusterName>,
    /// When it continues, in seconds.
    next: Option<i64>,
}

impl Run<'_> {
    /// Continues rollouts after a stage was planned. `before` is the plan before the stage. Returns what happens, in
    /// words.
    pub(super) fn roll_out(
        &mut self,
        seconds: i64,
        before: &Variation,
        planner: &mut Planner<'_>,
    ) -> Vec<String> {
        let Timeline { plan, baseline, .. } = &self.timeline;
        if !baseline.limits_rollouts() {
            self.timeline.running = plan.clone();
            return Vec::new();
        }
        let mut keys = plan.differing(before);
        keys.extend(self.rollouts.due(seconds));
        if keys.is_empty() {
            return Vec::new();
        }
        let engine = planner.engine();
        let waited = self.rollouts.waiting();
        for key in keys {
            self.rollouts.go_on(key, seconds, (baseline, plan), engine);
        }
        let waiting = self.rollouts.waiting();
        let done = waited.difference(&waiting).count();
        self.timeline.running = self.rollouts.running(plan, engine);
        let next: Vec<i64> = self.rollouts.0.values().filter_map(|rollout| rollout.next).collect();
        for next in next {
            self.look_at(next);
        }
        let words = [
            counted(done, "placement is rolled out", "placements are rolled out"),
            counted(waiting.len(), "placement waits for its rollout", "placements wait for their rollout"),
        ];
        words.into_iter().flatten().collect()
    }
}

impl Rollouts {
    /// The rollouts that may continue by now.
    fn due(&self, seconds: i64) -> Vec<RowKey> {
        let due = |rollout: &Rollout| rollout.next.is_some_and(|next| next <= seconds);
        self.0.iter().filter(|(_, rollout)| due(rollout)).map(|(key, _)| key.clone()).collect()
    }

    /// Continues the rollout of a policy, if the row is that of a policy.
    fn go_on(
        &mut self,
        key: RowKey,
        seconds: i64,
        (baseline, plan): (&Baseline<'_>, &Variation),
        engine: &Engine<'_>,
    ) {
        let Some(row) = plan.row(baseline, &key) else { return };
        let Some(policy) = row.policy.as_ref().filter(|policy| baseline.object(&key) == Some(*policy)) else {
            return;
        };
        let before = baseline.row(&key).map(|row| &row.clusters[..]).unwrap_or_default();
        let before = || before.iter().map(|placed| (placed.name.clone(), BEFORE)).collect();
        let released = self.0.get(&key).map_or_else(before, |rollout| rollout.released.clone());
        let plane = engine.plane(&row.dialect);
        let Some(done) = plane.and_then(|plane| plane.roll_out(row, &released, seconds)) else { return };
        let names = row.clusters.iter().map(|placed| &placed.name);
        let awaited = names.filter(|name| !done.released.contains_key(*name)).cloned().collect();
        let RolledOut { released, next } = done;
        self.0.insert(key, Rollout { policy: policy.clone(), released, awaited, next });
    }

    /// The policies and clusters that wait.
    fn waiting(&self) -> BTreeSet<(ObjectRef, ClusterName)> {
        let of = |rollout: &Rollout| {
            let policy = rollout.policy.clone();
            rollout.awaited.clone().into_iter().map(move |cluster| (policy.clone(), cluster))
        };
        self.0.values().flat_map(of).collect()
    }

    /// The plan without the clusters that wait.
    fn running(&self, plan: &Variation, engine: &Engine<'_>) -> Variation {
        let waiting = self.0.values().filter(|rollout| !rollout.awaited.is_empty());
        let awaited: Awaited =
            waiting.map(|rollout| (rollout.policy.clone(), rollout.awaited.clone())).collect();
        let mut running = plan.clone();
        if awaited.is_empty() {
            return running;
        }
        // Only clusters that are new for a row can wait, so the row differs from that before the scenario.
        for row in Arc::make_mut(&mut running.rows).values_mut().flatten() {
            let plane = engine.plane(&row.dialect);
            if let Some(less) = plane.and_then(|plane| plane.without_awaited(row, &awaited)) {
                *row = Arc::new(less);
            }
        }
        running
    }
}
