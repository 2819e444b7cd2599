//! The stages of a `Sync`, and the next step of a round: a function of the stage and of what the round has learned.
//!
//! A round begins as [`start_round`] says. If it asks the source, [`advance_stage`] decides each further step; if it deletes
//! the objects of the Sync, [`finish_deletion`] says what follows. `docs/architecture.md` draws the transitions; a test holds
//! the drawing to the three functions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is being done with a revision of a Sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SyncStage {
    /// Everything is at the revision that was accepted last, or no revision was accepted yet.
    #[default]
    Idle,
    /// A revision is to be accepted: it is new, or the spec or the status of the clusters has changed.
    Fetched,
    /// The revision was rendered, passed all checks, and is committed or pushed.
    Planned,
    /// The revision is being applied to all clusters. If a round begins here, it is not known which of them have it.
    Applying,
    /// Some clusters lack the revision, and are retried on their own.
    Retrying,
    /// The revision is brought to clusters in the stages of `spec.rollout`.
    RollingOut,
    /// The revision is brought to clusters as policies of the repo ask for.
    RollingOutPolicies,
    /// The objects of the Sync are being deleted. No record has this stage: the object itself says that it is being deleted.
    Deleting,
    /// The Sync may go; no record has this stage.
    Released,
}

/// What a round begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoundStart<'o> {
    /// Does nothing.
    EndRound,
    /// Waits for another Sync.
    AwaitDependency(&'o str),
    /// Asks where the source is, fetches its revision, and reads the status of the clusters. The round ends if nothing has
    /// moved and clusters are not compared.
    Poll,
    /// Deletes the objects of the Sync.
    DeleteObjects,
    /// Lets the Sync go.
    Release,
}

/// What is known when a round begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartInputs<'o> {
    /// Whether the Sync is being deleted.
    pub is_deleting: bool,
    /// Whether the Sync leaves its objects in the clusters when it is deleted.
    pub leaves_objects: bool,
    /// Whether the accepted revision is the one that a suspended Sync was rolled back to, and nothing else is asked for.
    pub is_rolled_back: bool,
    /// The first Sync that this one depends on and that is not ready.
    pub unready_dependency: Option<&'o str>,
}

/// What became of the deletion of the objects of a Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletionEvent {
    /// All objects of the Sync are gone.
    Deleted,
    /// Objects of the Sync are still being deleted.
    Terminating,
    /// Some objects of the Sync could not be deleted.
    NotDeleted,
    /// The clusters cannot be reached any more, because the credentials went with the namespace.
    CredentialsLost,
}

/// What has happened last in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoundEvent {
    /// The source, its branches and artifacts are where they were, and the status of the clusters moves nothing.
    SameRevision,
    /// The source is at another revision, somebody else has written its output, or the status of the clusters moves something.
    OtherRevision,
    /// The revision was rendered, passed all checks, and was committed or pushed.
    Rendered,
    /// The plan of the revision is the scheduler's memory, and this is how clusters are updated.
    Accepted(Delivery),
    /// Every cluster has the revision.
    Delivered,
    /// Some clusters failed, and are known.
    ClustersFailed,
    /// It is not known which clusters have the revision.
    Interrupted,
    /// Nothing can be done for now.
    Waiting,
}

/// How clusters are brought to a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// All at once.
    AllAtOnce,
    /// In the stages of `spec.rollout`.
    Stages,
    /// As policies of the repo ask for.
    Policies,
}

/// What a round knows when its next step is decided.
#[expect(clippy::struct_excessive_bools, reason = "each of them is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageInputs {
    /// What has happened last.
    pub event: RoundEvent,
    /// Whether the round carries out the one revision that a suspended Sync was rolled back to.
    pub rolls_back: bool,
    /// Whether a maintenance window is open, or the Sync has none.
    pub window_is_open: bool,
    /// Whether a person has said that this revision waits for no window.
    pub ignores_windows: bool,
    /// Whether a person has aborted the rollout of this revision.
    pub is_aborted: bool,
}

/// What a round does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoundEffect {
    /// Ends the round with what is known.
    EndRound,
    /// Compares the clusters with the revision that they have.
    Compare,
    /// Renders the revision, checks it, and commits or pushes it.
    RenderAndPublish,
    /// Renders and checks a revision that waits for a maintenance window.
    CheckRevision,
    /// Makes the plan of the revision the scheduler's memory.
    Accept,
    /// Brings clusters to the revision.
    Deliver(DeliveryStep),
    /// Only compares clusters until a maintenance window opens.
    AwaitWindow,
    /// Returns clusters to the revisions that they had before the rollout.
    ReturnClusters,
    /// Notes that every cluster has the revision, and ends the round.
    Finish,
}

/// How clusters are brought to a revision in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryStep {
    /// Applies the revision to all clusters.
    Apply,
    /// Applies the revision to the clusters that lack it.
    Retry,
    /// Takes the steps of the rollout that can be taken now.
    RollOut,
    /// Takes the steps that policies allow now.
    RollOutPolicies,
}

impl SyncStage {
    /// Whether some clusters are being brought to a revision that was accepted in an earlier round, and known.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Retrying | Self::RollingOut | Self::RollingOutPolicies)
    }

    /// The stages of an accepted revision. They are recorded. What happens to a revision before it is accepted is not: if
    /// it is refused, or the process ends, the next round goes on with the accepted one.
    pub const ACCEPTED: [Self; 5] =
        [Self::Idle, Self::Applying, Self::Retrying, Self::RollingOut, Self::RollingOutPolicies];

    /// Whether it is a stage of an accepted revision.
    pub fn is_accepted(self) -> bool {
        Self::ACCEPTED.contains(&self)
    }
}

impl StageInputs {
    /// Whether clusters and branches may be changed now.
    pub fn may_change(&self) -> bool {
        self.window_is_open || self.ignores_windows || self.rolls_back
    }
}

/// What a round begins with.
pub fn start_round<'o>(inputs: &StartInputs<'o>, stage: SyncStage) -> RoundStart<'o> {
    match inputs.unready_dependency {
        _ if inputs.is_deleting && inputs.leaves_objects => RoundStart::Release,
        _ if inputs.is_deleting => RoundStart::DeleteObjects,
        _ if inputs.is_rolled_back && stage == SyncStage::Idle => RoundStart::EndRound,
        Some(on) => RoundStart::AwaitDependency(on),
        None => RoundStart::Poll,
    }
}

/// The stage of a Sync whose objects were to be deleted. If it is released, nothing holds the Sync any more.
pub fn finish_deletion(event: DeletionEvent) -> SyncStage {
    match event {
        DeletionEvent::Deleted | DeletionEvent::CredentialsLost => SyncStage::Released,
        DeletionEvent::Terminating | DeletionEvent::NotDeleted => SyncStage::Deleting,
    }
}

/// The next step of a round: the stage that it enters, and what it does there.
pub fn advance_stage(stage: SyncStage, inputs: StageInputs) -> (SyncStage, RoundEffect) {
    use SyncStage::{Applying, Fetched, Idle, Planned, Retrying, RollingOut, RollingOutPolicies};
    let may_change = inputs.may_change();
    match (inputs.event, stage) {
        (RoundEvent::SameRevision, Idle) => (Idle, RoundEffect::Compare),
        (RoundEvent::SameRevision, Retrying) if may_change => {
            (Retrying, RoundEffect::Deliver(DeliveryStep::Retry))
        }
        (RoundEvent::SameRevision, Retrying) => (Retrying, RoundEffect::AwaitWindow),
        (RoundEvent::SameRevision, RollingOut) => (RollingOut, rollout_effect(inputs)),
        (RoundEvent::SameRevision, RollingOutPolicies) => (RollingOutPolicies, policies_effect(inputs)),
        (RoundEvent::SameRevision | RoundEvent::OtherRevision, _) if may_change => {
            (Fetched, RoundEffect::RenderAndPublish)
        }
        (RoundEvent::SameRevision | RoundEvent::OtherRevision, _) => (Fetched, RoundEffect::CheckRevision),

        (RoundEvent::Rendered, _) => (Planned, RoundEffect::Accept),
        (RoundEvent::Accepted(Delivery::AllAtOnce), _) => {
            (Applying, RoundEffect::Deliver(DeliveryStep::Apply))
        }
        (RoundEvent::Accepted(Delivery::Stages), _) => (RollingOut, rollout_effect(inputs)),
        (RoundEvent::Accepted(Delivery::Policies), _) => (RollingOutPolicies, policies_effect(inputs)),

        (RoundEvent::Delivered, _) => (Idle, RoundEffect::Finish),
        (RoundEvent::ClustersFailed, _) => (Retrying, RoundEffect::EndRound),
        (RoundEvent::Interrupted, _) => (Applying, RoundEffect::EndRound),
        (RoundEvent::Waiting, _) => (stage, RoundEffect::EndRound),
    }
}

/// What is done for a rollout in stages. One that is aborted waits for no window.
fn rollout_effect(inputs: StageInputs) -> RoundEffect {
    match (inputs.is_aborted, inputs.may_change()) {
        (true, _) => RoundEffect::ReturnClusters,
        (false, true) => RoundEffect::Deliver(DeliveryStep::RollOut),
        (false, false) => RoundEffect::AwaitWindow,
    }
}

/// What is done for rollouts of policies.
fn policies_effect(inputs: StageInputs) -> RoundEffect {
    if inputs.may_change() {
        RoundEffect::Deliver(DeliveryStep::RollOutPolicies)
    } else {
        RoundEffect::AwaitWindow
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A transition, as the drawing has it.
    type Transition = (String, String, String);

    /// Every combination of facts when a round begins.
    fn all_starts() -> impl Iterator<Item = StartInputs<'static>> {
        (0..1 << 4).map(|bits: u32| {
            let is = |bit: u32| bits & (1 << bit) != 0;
            StartInputs {
                is_deleting: is(0),
                leaves_objects: is(1),
                is_rolled_back: is(2),
                unready_dependency: is(3).then_some("a/b"),
            }
        })
    }

    /// Every combination of facts when the source was asked. A rollout may be aborted at any time.
    fn all_inputs(event: RoundEvent) -> impl Iterator<Item = StageInputs> {
        (0..1 << 4).map(move |bits: u32| {
            let is = |bit: u32| bits & (1 << bit) != 0;
            StageInputs {
                event,
                rolls_back: is(0),
                window_is_open: is(1),
                ignores_windows: is(2),
                is_aborted: is(3),
            }
        })
    }

    /// What may happen while something is done. Only an error ends a round without an event.
    fn events_after(effect: RoundEffect) -> Vec<RoundEvent> {
        match effect {
            RoundEffect::RenderAndPublish => vec![RoundEvent::Rendered],
            RoundEffect::Accept => {
                [Delivery::AllAtOnce, Delivery::Stages, Delivery::Policies].map(RoundEvent::Accepted).to_vec()
            }
            RoundEffect::Deliver(DeliveryStep::Apply | DeliveryStep::Retry) => {
                vec![RoundEvent::Delivered, RoundEvent::ClustersFailed, RoundEvent::Interrupted]
            }
            RoundEffect::Deliver(DeliveryStep::RollOut | DeliveryStep::RollOutPolicies) => {
                vec![RoundEvent::Delivered, RoundEvent::Waiting]
            }
            RoundEffect::EndRound
            | RoundEffect::Compare
            | RoundEffect::CheckRevision
            | RoundEffect::AwaitWindow
            | RoundEffect::ReturnClusters
            | RoundEffect::Finish => Vec::new(),
        }
    }

    /// The steps of all rounds that ask the source: stages before and after, with the inputs and the effect.
    fn all_steps() -> Vec<(SyncStage, StageInputs, SyncStage, RoundEffect)> {
        let mut steps = Vec::new();
        let polled = [RoundEvent::SameRevision, RoundEvent::OtherRevision];
        let begins = SyncStage::ACCEPTED.into_iter().flat_map(|stage| polled.map(|event| (stage, event)));
        let mut open: Vec<(SyncStage, StageInputs)> =
            begins.flat_map(|(stage, event)| all_inputs(event).map(move |inputs| (stage, inputs))).collect();
        while let Some((from, inputs)) = open.pop() {
            for is_aborted in [false, true] {
                let inputs = StageInputs { is_aborted, ..inputs };
                let (to, effect) = advance_stage(from, inputs);
                steps.push((from, inputs, to, effect));
                open.extend(
                    events_after(effect).into_iter().map(|event| (to, StageInputs { event, ..inputs })),
                );
            }
        }
        steps
    }

    /// The transitions of rounds that delete a Sync, as the drawing has them.
    fn deletion_transitions() -> BTreeSet<Transition> {
        let events = [
            DeletionEvent::Deleted,
            DeletionEvent::Terminating,
            DeletionEvent::NotDeleted,
            DeletionEvent::CredentialsLost,
        ];
        let released = events.into_iter().filter(|event| finish_deletion(*event) == SyncStage::Released);
        let mut transitions: BTreeSet<Transition> = released
            .map(|event| {
                ("Deleting".to_owned(), "Released".to_owned(), format!("{} / release", to_words(&event)))
            })
            .collect();
        for stage in SyncStage::ACCEPTED {
            for start in all_starts().map(|inputs| start_round(&inputs, stage)) {
                let to = match start {
                    RoundStart::DeleteObjects => SyncStage::Deleting,
                    RoundStart::Release => SyncStage::Released,
                    RoundStart::EndRound | RoundStart::AwaitDependency(_) | RoundStart::Poll => continue,
                };
                let label = format!("begun / {}", to_words(&start));
                transitions.insert((format!("{stage:?}"), format!("{to:?}"), label));
            }
        }
        transitions
    }

    /// A name as the drawing has it: `Accepted(AllAtOnce)` is `accepted all at once`.
    fn to_words(name: &impl std::fmt::Debug) -> String {
        let name = format!("{name:?}").replace(['(', ')'], "");
        let spaced =
            name.chars().flat_map(|c| c.is_uppercase().then_some(' ').into_iter().chain(c.to_lowercase()));
        spaced.collect::<String>().trim().to_owned()
    }

    /// The transitions of the drawing in the documentation.
    fn read_drawing() -> BTreeSet<Transition> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architecture.md");
        let text = std::fs::read_to_string(path).unwrap();
        let drawing = text.split("stateDiagram-v2").nth(1).unwrap().split("```").next().unwrap();
        let accepted = SyncStage::ACCEPTED.map(|stage| format!("{stage:?}"));
        let mut transitions = BTreeSet::new();
        for line in drawing.lines() {
            let Some((from, rest)) = line.trim().split_once(" --> ") else { continue };
            let Some((to, label)) = rest.split_once(": ") else { continue };
            let from = if from == "Accepted" { accepted.to_vec() } else { vec![from.to_owned()] };
            transitions.extend(from.into_iter().map(|from| (from, to.to_owned(), label.to_owned())));
        }
        transitions
    }

    #[test]
    fn the_drawing_has_exactly_the_transitions_of_the_function() {
        // Whatever the stage is, a round that waits ends in it.
        let drawn = all_steps()
            .into_iter()
            .filter(|(from, _, to, effect)| from != to || *effect != RoundEffect::EndRound);
        let mut actual: BTreeSet<Transition> = drawn
            .map(|(from, inputs, to, effect)| {
                let label = format!("{} / {}", to_words(&inputs.event), to_words(&effect));
                (format!("{from:?}"), format!("{to:?}"), label)
            })
            .collect();
        actual.append(&mut deletion_transitions());
        let drawing = read_drawing();
        let missing: Vec<_> = actual.difference(&drawing).collect();
        let wrong: Vec<_> = drawing.difference(&actual).collect();
        assert!(
            missing.is_empty() && wrong.is_empty(),
            "not drawn: {missing:#?}\ndrawn, but impossible: {wrong:#?}"
        );
    }

    #[test]
    fn nothing_changes_outside_of_windows_but_what_returns_clusters() {
        for (from, inputs, to, effect) in all_steps() {
            let changes = matches!(
                effect,
                RoundEffect::RenderAndPublish | RoundEffect::Accept | RoundEffect::Deliver(_)
            );
            assert!(inputs.may_change() || !changes, "{from:?} {inputs:?} {to:?} {effect:?}");
        }
    }

    #[test]
    fn clusters_change_only_after_the_revision_was_accepted() {
        let deliveries =
            all_steps().into_iter().filter(|(.., effect)| matches!(effect, RoundEffect::Deliver(_)));
        for (from, inputs, to, effect) in deliveries {
            assert!(to.is_accepted(), "{to:?} is not in the record while it changes clusters");
            let is_accepted = from == SyncStage::Planned || inputs.event == RoundEvent::SameRevision;
            assert!(is_accepted, "{from:?} {inputs:?} {effect:?}");
        }
    }

    #[test]
    fn what_can_happen_has_a_step_that_goes_on_or_ends() {
        for (from, inputs, to, effect) in all_steps() {
            let ends = events_after(effect).is_empty();
            let rests = to.is_accepted() || to == SyncStage::Fetched;
            assert!(!ends || rests, "a round ends in {to:?} after {from:?} {inputs:?} {effect:?}");
        }
    }
}
