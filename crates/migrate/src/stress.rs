//! The proof by stress: the comparison of both sides over random states of the inventory and of the workloads.
//!
//! A state is a short list of events: clusters are lost, tainted, relabelled, resized or removed, workloads are scaled.
//! Both sides decide about it with their own current plan as the previous plan. The states follow from a seed, so that a run can
//! be repeated. Of the states in which a reason leads to a difference, the one with the fewest events is kept, and made
//! smaller as long as the difference stays.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use federate_engine::map_charged;
use federate_kubernetes::ObjectRef;
use federate_whatif::{Baseline, DecidedState, Scenario, ScenarioEvent};

use crate::proof::{ComparedState, ObjectPair, ObjectPairs, RenderedObject, compare_objects};
use crate::{ObjectDifference, Proof, ProofSides, Reason};

mod events;
mod random;

use events::EventSource;

/// The seed of states if none is chosen.
pub const DEFAULT_SEED: u64 = 1;

/// How many states are compared, and which.
#[derive(Clone, Copy, Debug)]
pub struct StressOptions {
    /// The number of states.
    pub states: usize,
    /// The seed that they follow from.
    pub seed: u64,
}

/// What differs in random states.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stress {
    /// The number of states that were compared.
    pub states: usize,
    /// The seed that they follow from.
    pub seed: u64,
    /// The number of states in which an object differs in another way than now.
    pub differing: usize,
    /// How often each reason leads to a difference, in the order of the list of reasons.
    pub reasons: Vec<ReasonCount>,
    /// A difference that no reason explains, in the smallest state that shows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unexplained: Option<StressExample>,
}

/// How often a reason leads to a difference.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonCount {
    /// The reason.
    pub reason: Reason,
    /// The number of states in which it does, in another way than now.
    pub states: usize,
    /// The number of objects to which it does in some state.
    pub objects: usize,
    /// The smallest state that shows it.
    pub example: StressExample,
}

/// A state in which an object differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StressExample {
    /// The events that lead to the state, in words; empty for the present state.
    pub events: Vec<String>,
    /// The object.
    pub object: ObjectRef,
    /// What differs.
    pub difference: ObjectDifference,
}

/// The differences in a state, by object.
type StateDifferences = Vec<(ObjectRef, ObjectDifference)>;

/// What a difference is counted as: one of its reasons, or none.
type Cause = Option<Reason>;

/// Both sides, ready to decide about states.
struct StressRun<'s> {
    sides: ProofSides<'s>,
    old: &'s Baseline<'s>,
    new: &'s Baseline<'s>,
    pairs: ObjectPairs<'s>,
    /// What differs now.
    present: BTreeMap<&'s ObjectRef, &'s [ObjectDifference]>,
}

/// Compares both sides in random states. What differs as it does now, by the proof, does not count.
///
/// # Errors
///
/// If the decisions about a state take more work than a part of a run may.
pub fn stress_migration(
    sides: ProofSides<'_>,
    proof: &Proof,
    options: StressOptions,
) -> Result<Stress, String> {
    let runners = [sides.old.what_if(), sides.new.what_if()];
    let limit = sides.old.work_limit();
    let prepared = limit.run_part("preparing random states", || {
        let baselines = [runners[0].baseline(), runners[1].baseline()];
        let pairs = ObjectPairs::new(sides.migration, [sides.old.plan(), sides.new.plan()]);
        let present = proof.objects.iter().map(|object| (&object.object, object.differences.as_slice()));
        let run =
            StressRun { sides, old: baselines[0], new: baselines[1], pairs, present: present.collect() };
        let scenarios = EventSource::new(sides, options.seed).draw_states(options.states);
        (run, scenarios)
    });
    let (run, scenarios) = prepared.map_err(|exceeded| exceeded.to_string())?;
    let outcomes = map_charged(&scenarios, |scenario| run.compare_state(scenario));
    let outcomes = outcomes.into_iter().collect::<Result<Vec<StateDifferences>, String>>()?;
    run.summarize(&scenarios, &outcomes, options)
}

impl StressRun<'_> {
    /// The differences in a state, as one part of a run.
    fn compare_state(&self, scenario: &Scenario) -> Result<StateDifferences, String> {
        let compared = self.sides.old.work_limit().run_part("comparing both sides in a random state", || {
            let differences = scenario.decide_state(self.old, |old| {
                scenario.decide_state(self.new, |new| self.find_differences(old, new))
            });
            differences.and_then(|differences| differences)
        });
        compared.map_err(|exceeded| exceeded.to_string())?
    }

    fn find_differences(&self, old: &DecidedState<'_>, new: &DecidedState<'_>) -> StateDifferences {
        let affected: BTreeSet<usize> = old
            .affected_objects()
            .iter()
            .filter_map(|object| self.pairs.find_old(object))
            .chain(new.affected_objects().iter().filter_map(|object| self.pairs.find_new(object)))
            .collect();
        let pairs: Vec<&ObjectPair<'_>> =
            affected.into_iter().filter_map(|at| self.pairs.all().get(at)).collect();
        let rules = self.sides.rules();
        let differences = map_charged(&pairs, |pair| {
            let [before, after] = [(&pair.old, old), (&pair.new, new)].map(|(object, state)| {
                object.as_ref().map(|object| state.render_object(object)).unwrap_or_default()
            });
            let [before, after] = [&before, &after].map(RenderedObject::new);
            let mut differences = compare_objects(&before, &after, rules);
            let present = self.present.get(pair.object()).copied().unwrap_or_default();
            differences.retain(|one| !present.iter().any(|known| known.is_same(one)));
            for difference in &mut differences {
                difference.explain(pair.unequal_rules(), ComparedState::Changed);
            }
            differences
        });
        let named = pairs.iter().zip(differences).flat_map(|(pair, differences)| {
            differences.into_iter().map(|difference| (pair.object().clone(), difference))
        });
        named.collect()
    }

    /// Counts the causes of differences, and finds the smallest state for each.
    fn summarize(
        &self,
        scenarios: &[Scenario],
        outcomes: &[StateDifferences],
        options: StressOptions,
    ) -> Result<Stress, String> {
        let mut causes: BTreeMap<Cause, CauseCount<'_>> = BTreeMap::new();
        for (at, differences) in outcomes.iter().enumerate() {
            for (object, difference) in differences {
                for cause in list_causes(difference) {
                    let count = causes.entry(cause).or_default();
                    count.states.insert(at);
                    count.objects.insert(object);
                }
            }
        }
        let mut reasons = Vec::new();
        let mut unexplained = None;
        for (cause, count) in &causes {
            let states = count.states.iter().filter_map(|at| scenarios.get(*at));
            let Some(smallest) = states.min_by_key(|scenario| scenario.events.len()) else { continue };
            let Some(example) = self.shrink(smallest, *cause)? else { continue };
            match cause {
                Some(reason) => reasons.push(ReasonCount {
                    reason: *reason,
                    states: count.states.len(),
                    objects: count.objects.len(),
                    example,
                }),
                None => unexplained = Some(example),
            }
        }
        let differing = outcomes.iter().filter(|differences| !differences.is_empty()).count();
        Ok(Stress { states: scenarios.len(), seed: options.seed, differing, reasons, unexplained })
    }

    /// The state with the fewest events, of those that removing events one by one leads to, in which the cause leads to
    /// a difference.
    fn shrink(&self, scenario: &Scenario, cause: Cause) -> Result<Option<StressExample>, String> {
        let mut smallest = scenario.clone();
        let mut at = 0;
        while at < smallest.events.len() {
            let mut smaller = smallest.clone();
            smaller.events.remove(at);
            // An event may need another one before it.
            let differences = self.compare_state(&smaller).unwrap_or_default();
            if differences.iter().any(|(_, difference)| list_causes(difference).contains(&cause)) {
                smallest = smaller;
                at = 0;
            } else {
                at += 1;
            }
        }
        let differences = self.compare_state(&smallest)?;
        let shown = differences.into_iter().find(|(_, difference)| list_causes(difference).contains(&cause));
        let events = smallest.events.iter().map(ScenarioEvent::to_string).collect();
        Ok(shown.map(|(object, difference)| StressExample { events, object, difference }))
    }
}

/// The states and objects in which a cause leads to a difference.
#[derive(Default)]
struct CauseCount<'o> {
    states: BTreeSet<usize>,
    objects: BTreeSet<&'o ObjectRef>,
}

fn list_causes(difference: &ObjectDifference) -> Vec<Cause> {
    match difference.reasons.as_slice() {
        [] => vec![None],
        reasons => reasons.iter().map(|reason| Some(*reason)).collect(),
    }
}
