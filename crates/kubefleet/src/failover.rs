//! Evictions: a user removes a placement from a cluster, as far as its disruption budget allows.
//!
//! Facts: an eviction is executed once. Rows that have failed, that report differences or that are being
//! deleted are always evicted; others only once resources were released to them. The budget counts all rows of
//! the placement, unscheduled ones included.

use federate_kubernetes::Object;
use federate_kubernetes::condition::{self, Condition};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::KubeFleetBehaviour;
use crate::api::{PlacementPolicy, PlacementType};
use crate::hub::{BindingState, HubBinding};
use crate::rollout::{api, budget};
use federate_dialect::stages::ClusterAmount;

/// The outcome of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionOutcome {
    /// The conditions of the eviction object.
    pub conditions: Vec<Condition>,
    /// The binding that is deleted.
    pub deletes: Option<String>,
}

/// Why an eviction is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InvalidEviction {
    NoPlacement,
    PlacementDeleting,
    PickFixed,
    SeveralBindings,
    NoBinding,
}

impl InvalidEviction {
    fn message(self) -> &'static str {
        match self {
            Self::NoPlacement => "Failed to find ClusterResourcePlacement targeted by eviction",
            Self::PlacementDeleting => "Found deleting ClusterResourcePlacement targeted by eviction",
            Self::PickFixed => {
                "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"
            }
            Self::SeveralBindings => {
                "Found more than one scheduler decision for placement in cluster targeted by eviction"
            }
            Self::NoBinding => {
                "Failed to find scheduler decision for placement in cluster targeted by eviction"
            }
        }
    }
}

/// Executes an eviction of a placement with these bindings.
pub fn evict_placement(
    eviction: &Object,
    placement: Option<&Object>,
    bindings: &[HubBinding],
    budget: Option<&Object>,
    now: Timestamp,
    behaviour: &KubeFleetBehaviour,
) -> Result<EvictionOutcome, serde_json::Error> {
    let before = eviction.value_at(&["status", "conditions"]).filter(|c| !c.is_null());
    let mut conditions: Vec<Condition> = before.map_or(Ok(Vec::new()), Vec::deserialize)?;
    let refused = condition::find_condition(&conditions, "Valid").is_some_and(Condition::is_false);
    if refused || condition::find_condition(&conditions, "Executed").is_some() {
        return Ok(EvictionOutcome { conditions, deletes: None });
    }
    let generation = eviction.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
    let (placement, policy, target) = match find_target(eviction, placement, bindings)? {
        Ok(target) => target,
        Err(invalid) => {
            let condition = eviction_condition("Valid", false, "Invalid", invalid.message());
            condition::set_condition(&mut conditions, condition.at_generation(generation), now);
            return Ok(EvictionOutcome { conditions, deletes: None });
        }
    };
    let valid = eviction_condition("Valid", true, "Valid", "Eviction is valid");
    condition::set_condition(&mut conditions, valid.at_generation(generation), now);
    let (allowed, message) = check_eviction((placement, policy, target), bindings, budget, behaviour)?;
    let reason = if allowed { "Executed" } else { "NotExecuted" };
    let executed = eviction_condition("Executed", allowed, reason, &message);
    condition::set_condition(&mut conditions, executed.at_generation(generation), now);
    let deletes = (allowed && !target.deleting).then(|| target.name.clone());
    Ok(EvictionOutcome { conditions, deletes })
}

type EvictionTarget<'o> = (&'o Object, PlacementType, &'o HubBinding);

/// The binding that an eviction targets.
fn find_target<'o>(
    eviction: &Object,
    placement: Option<&'o Object>,
    bindings: &'o [HubBinding],
) -> Result<Result<EvictionTarget<'o>, InvalidEviction>, serde_json::Error> {
    let Some(placement) = placement else { return Ok(Err(InvalidEviction::NoPlacement)) };
    if placement.is_deleting() {
        return Ok(Err(InvalidEviction::PlacementDeleting));
    }
    let policy = PlacementPolicy::from_json(placement.value_at(&["spec", "policy"]))?.placement_type;
    if policy == PlacementType::PickFixed {
        return Ok(Err(InvalidEviction::PickFixed));
    }
    let cluster = eviction.text_at(&["spec", "clusterName"]);
    let mut here = bindings.iter().filter(|binding| *binding.cluster == *cluster);
    Ok(match (here.next(), here.next()) {
        (None, _) => Err(InvalidEviction::NoBinding),
        (Some(_), Some(_)) => Err(InvalidEviction::SeveralBindings),
        (Some(binding), None) => Ok((placement, policy, binding)),
    })
}

/// A condition in the status of an eviction.
fn eviction_condition(kind: &str, is: bool, reason: &str, message: &str) -> Condition {
    let reason = format!("ClusterResourcePlacementEviction{reason}");
    Condition::new(kind, if is { "True" } else { "False" }, &reason, message)
}

fn describe_verdict(allowed: bool, why: &str) -> (bool, String) {
    (allowed, format!("Eviction is {}{why}", if allowed { "allowed" } else { "blocked" }))
}

/// Whether a row may be evicted, and why.
fn check_eviction(
    (placement, policy, target): EvictionTarget<'_>,
    bindings: &[HubBinding],
    budget: Option<&Object>,
    behaviour: &KubeFleetBehaviour,
) -> Result<(bool, String), serde_json::Error> {
    let was_bound =
        target.state == BindingState::Unscheduled && target.previous_state == Some(BindingState::Bound);
    if target.deleting {
        return Ok(describe_verdict(
            true,
            ", resources propagated by placement is currently being removed from cluster targeted by eviction",
        ));
    }
    if target.state != BindingState::Bound && !was_bound {
        return Ok(describe_verdict(false, ", placement has not propagated resources to target cluster yet"));
    }
    if target.has_failed(behaviour) || target.reports_diff() {
        return Ok(describe_verdict(true, ", placement has failed"));
    }
    let Some(budget) = budget else {
        return Ok(describe_verdict(true, ", no ClusterResourcePlacementDisruptionBudget specified"));
    };
    let limits = api::read_budget(budget)?;
    let unclear =
        limits.max_unavailable.is_some() || matches!(limits.min_available, Some(ClusterAmount::Percent(_)));
    if policy == PlacementType::PickAll && unclear {
        return Ok(describe_verdict(
            false,
            " by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or \
             MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement",
        ));
    }
    let available = bindings.iter().map(|b| b.find_condition("Available").is_some_and(Condition::is_true));
    let available: Vec<bool> = available.collect();
    let budget::BudgetVerdict { allowed, available: count } =
        budget::check_budget(placement, Some(budget), &available)?;
    Ok(describe_verdict(
        allowed,
        &format!(
            " by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: {count}, \
             totalPlacements: {}",
            available.len()
        ),
    ))
}
