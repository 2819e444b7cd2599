//! The state that the events of a scenario lead to, decided once: nothing is evicted, and no rollout continues.

use std::collections::BTreeSet;

use super::variation::PlanVariation;
use super::{Baseline, Scenario, ScenarioInput};
use federate_dialect::{Placement, RowKey};
use federate_engine::{Engine, ObjectManifests, serialize_variants};
use federate_kubernetes::{ClusterName, ObjectRef};

/// The state after a scenario, with the placements that the control planes decide there.
pub struct DecidedState<'e> {
    baseline: &'e Baseline<'e>,
    engine: &'e Engine<'e>,
    world: &'e ScenarioInput<'e>,
    plan: &'e PlanVariation,
    /// The clusters that differ from those before.
    changed: BTreeSet<ClusterName>,
}

impl Scenario {
    /// Applies all events at once, decides with the plan before as the previous plan, and reads the result. A cluster that is
    /// lost is as its control plane takes it for when it has noticed.
    ///
    /// # Errors
    ///
    /// A message for the user if an event refers to something that does not exist, or cannot happen.
    pub fn decide_state<R>(
        &self,
        baseline: &Baseline<'_>,
        read: impl FnOnce(&DecidedState<'_>) -> R,
    ) -> Result<R, String> {
        let world = self.apply_events(baseline.dialects, baseline.repo, baseline.clusters)?;
        let engine = baseline.build_engine(&world);
        let before = PlanVariation::without_changes(baseline.plan);
        let plan = baseline.plan_scenario(&engine, &world, &before, false);
        let changed = baseline.changed_clusters(&world.clusters);
        Ok(read(&DecidedState { baseline, engine: &engine, world: &world, plan: &plan, changed }))
    }
}

impl DecidedState<'_> {
    /// The objects whose placements or manifests may differ from those before.
    pub fn affected_objects(&self) -> BTreeSet<ObjectRef> {
        let Self { baseline, world, plan, changed, .. } = self;
        let scaled = world.scaled.iter().map(|object| baseline.row_key(object));
        let on_changed = baseline.rows_on(changed.iter().map(AsRef::as_ref));
        let keys: BTreeSet<RowKey> = plan.rows.keys().cloned().chain(scaled).chain(on_changed).collect();
        keys.iter().filter_map(|key| baseline.find_object(key).cloned()).collect()
    }

    /// The placement of an object.
    fn find_placement(&self, object: &ObjectRef) -> Option<Placement> {
        let row = self.plan.find_row(self.baseline, &self.baseline.row_key(object))?;
        // Objects whose rows are alike share one.
        Some(Placement { object: object.clone(), ..row.as_ref().clone() })
    }

    /// What each cluster receives of an object, with its values.
    pub fn render_object(&self, object: &ObjectRef) -> ObjectManifests {
        let Some(row) = self.find_placement(object) else { return ObjectManifests::default() };
        serialize_variants(object, self.engine.render_variants(&row), self.engine.lists(), true)
    }
}
