//! Who places an object: its control plane says in which wave it is applied, and when a change has arrived.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::health_checks::HealthChecks;
use federate_dialect::readiness::{Readiness, compute_readiness};
use federate_dialect::{Dialect, Health, Plan};
use federate_engine::Engine;
use federate_kubernetes::{Object, ObjectRef};

/// The objects of a plan, by the control planes that place them.
pub struct PlacedObjects<'d> {
    engine: &'d Engine<'d>,
    origins: BTreeMap<&'d ObjectRef, ObjectOrigin>,
    health_checks: &'d HealthChecks,
    /// The objects that SOPS encrypted, whose status may quote their values.
    encrypted: &'d BTreeSet<ObjectRef>,
}

/// Why an object is not ready whose status is not shown.
const HIDDEN_REASON: &str = "why is not shown, because its status may quote values that SOPS encrypted";

/// Who places an object.
struct ObjectOrigin {
    dialect: &'static dyn Dialect,
    /// Whether a policy does, or something that it places needs the object: its control plane would watch its health.
    is_placed: bool,
}

impl<'d> PlacedObjects<'d> {
    /// The objects of a plan, with the health checks of the repo, and with those of whose status nothing is shown.
    pub fn new(
        engine: &'d Engine<'d>,
        plan: &'d Plan,
        health_checks: &'d HealthChecks,
        encrypted: &'d BTreeSet<ObjectRef>,
    ) -> Self {
        let origins = plan.placements.iter().filter_map(|row| {
            let is_placed = row.policy.is_some() || !row.required_by.is_empty();
            Some((&row.object, ObjectOrigin { dialect: engine.dialects().get(&row.dialect)?, is_placed }))
        });
        Self { engine, origins: origins.collect(), health_checks, encrypted }
    }

    /// The wave in which an object is applied.
    pub fn find_wave(&self, object: &ObjectRef) -> u32 {
        self.origins.get(object).map_or(0, |origin| origin.dialect.members().wave_of(object))
    }

    /// Whether a change has arrived at an object, by its control plane, its status and the health checks of the repo.
    pub fn assess_readiness(&self, object: &Object) -> Readiness {
        match compute_readiness(self.assess_health(object), object, self.health_checks) {
            Readiness::InProgress(_) if self.encrypted.contains(&object.id) => {
                Readiness::InProgress(HIDDEN_REASON.to_owned())
            }
            Readiness::Failed(_) if self.encrypted.contains(&object.id) => {
                Readiness::Failed(HIDDEN_REASON.to_owned())
            }
            readiness => readiness,
        }
    }

    /// The health of an object by its control plane.
    fn assess_health(&self, object: &Object) -> Health {
        let Some(ObjectOrigin { dialect, is_placed }) = self.origins.get(&object.id) else {
            return Health::unknown("");
        };
        match self.engine.evaluate_health(dialect.name(), object) {
            Some(health) => health,
            None if *is_placed => dialect.members().assess_health(object, &self.engine.repo().config),
            // It is no object of a control plane.
            None => Health::unknown(""),
        }
    }
}
