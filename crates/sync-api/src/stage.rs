//! The stages of a `Sync`, and the next step of a reconciliation: a function of the stage and of what the reconciliation has
//! learned.
//!
//! A reconciliation begins as [`start_reconciliation`] says. If it asks the source, [`advance_stage`] decides each further
//! step; if it deletes the objects of the Sync, [`finish_deletion`] says what follows. `docs/architecture.md` draws the
//! transitions; a test holds the drawing to the three functions.

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
    /// The revision is being applied to all clusters. If a reconciliation begins here, it is not known which of them have it.
    Applying,
    /// Some clusters lack the revision, and are retried on their own.
    Retrying,
    /// The revision is brought to clusters in the stages of `spec.rollout`.
    RollingOut,
    /// The revision is brought to clusters as policies of the repo ask for.
    RollingOutPolicies,
    /// The objects of the Sync are being deleted. No record has this stage: the object itself says that it is being deleted.
    Deleting,
    /// The finalizer is removed, and the Sync may go. No record has this stage.
    Finalized,
}

/// What a reconciliation begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReconciliationStart<'o> {
    /// Does nothing.
    End,
    /// Waits for another Sync.
    AwaitDependency(&'o str),
    /// Asks where the source is, fetches its revision, and reads the status of the clusters. The reconciliation ends if
    /// nothing has moved and clusters are not compared.
    Poll,
    /// Deletes the objects of the Sync.
    DeleteObjects,
    /// Removes the finalizer of the Sync, and leaves its objects.
    OrphanObjects,
}

/// What is known when a reconciliation begins.
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

/// What has happened last in a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageEvent {
    /// The source, its branches and artifacts are where they were, and the status of the clusters moves nothing.
    SameRevision,
    /// The source is at another revision, another client has written its output, or the status of the clusters moves something.
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

/// What a reconciliation knows when its next step is decided.
#[expect(clippy::struct_excessive_bools, reason = "each of them is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageInputs {
    /// What has happened last.
    pub event: StageEvent,
    /// Whether the reconciliation carries out the one revision that a suspended Sync was rolled back to.
    pub rolls_back: bool,
    /// Whether a maintenance window is open, or the Sync has none.
    pub window_is_open: bool,
    /// Whether a person has said that this revision waits for no window.
    pub ignores_windows: bool,
    /// Whether a person has aborted the rollout of this revision.
    pub is_aborted: bool,
}

/// What a reconciliation does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageEffect {
    /// Ends the reconciliation with what is known.
    End,
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
    /// Notes that every cluster has the revision, and ends the reconciliation.
    Finish,
}

/// How clusters are brought to a revision in a reconciliation.
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
    /// Whether some clusters are being brought to a revision that was accepted in an earlier reconciliation, and known.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Retrying | Self::RollingOut | Self::RollingOutPolicies)
    }

    /// The stages of an accepted revision. They are recorded. What happens to a revision before it is accepted is not: if
    /// it is refused, or the process ends, the next reconciliation goes on with the accepted one.
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

/// What a reconciliation begins with.
pub fn start_reconciliation<'o>(inputs: &StartInputs<'o>, stage: SyncStage) -> ReconciliationStart<'o> {
    match inputs.unready_dependency {
        _ if inputs.is_deleting && inputs.leaves_objects => ReconciliationStart::OrphanObjects,
        _ if inputs.is_deleting => ReconciliationStart::DeleteObjects,
        _ if inputs.is_rolled_back && stage == SyncStage::Idle => ReconciliationStart::End,
        Some(on) => ReconciliationStart::AwaitDependency(on),
        None => ReconciliationStart::Poll,
    }
}

/// The stage of a Sync whose objects were to be deleted. If it is `Finalized`, nothing holds the Sync any more.
pub fn finish_deletion(event: DeletionEvent) -> SyncStage {
    match event {
        DeletionEvent::Deleted | DeletionEvent::CredentialsLost => SyncStage::Finalized,
        DeletionEvent::Terminating | DeletionEvent::NotDeleted => SyncStage::Deleting,
    }
}

/// The next step of a reconciliation: the stage that it enters, and what it does there.
pub fn advance_stage(stage: SyncStage, inputs: StageInputs) -> (SyncStage, StageEffect) {
    use SyncStage::{Applying, Fetched, Idle, Planned, Retrying, RollingOut, RollingOutPolicies};
    let may_change = inputs.may_change();
    match (inputs.event, stage) {
        (StageEvent::SameRevision, Idle) => (Idle, StageEffect::Compare),
        (StageEvent::SameRevision, Retrying) if may_change => {
            (Retrying, StageEffect::Deliver(DeliveryStep::Retry))
        }
        (StageEvent::SameRevision, Retrying) => (Retrying, StageEffect::AwaitWindow),
        (StageEvent::SameRevision, RollingOut) => (RollingOut, rollout_effect(inputs)),
        (StageEvent::SameRevision, RollingOutPolicies) => (RollingOutPolicies, policies_effect(inputs)),
        (StageEvent::SameRevision | StageEvent::OtherRevision, _) if may_change => {
            (Fetched, StageEffect::RenderAndPublish)
        }
        (StageEvent::SameRevision | StageEvent::OtherRevision, _) => (Fetched, StageEffect::CheckRevision),

        (StageEvent::Rendered, _) => (Planned, StageEffect::Accept),
        (StageEvent::Accepted(Delivery::AllAtOnce), _) => {
            (Applying, StageEffect::Deliver(DeliveryStep::Apply))
        }
        (StageEvent::Accepted(Delivery::Stages), _) => (RollingOut, rollout_effect(inputs)),
        (StageEvent::Accepted(Delivery::Policies), _) => (RollingOutPolicies, policies_effect(inputs)),

        (StageEvent::Delivered, _) => (Idle, StageEffect::Finish),
        (StageEvent::ClustersFailed, _) => (Retrying, StageEffect::End),
        (StageEvent::Interrupted, _) => (Applying, StageEffect::End),
        (StageEvent::Waiting, _) => (stage, StageEffect::End),
    }
}

/// What is done for a rollout in stages. One that is aborted waits for no window.
fn rollout_effect(inputs: StageInputs) -> StageEffect {
    match (inputs.is_aborted, inputs.may_change()) {
        (true, _) => StageEffect::ReturnClusters,
        (false, true) => StageEffect::Deliver(DeliveryStep::RollOut),
        (false, false) => StageEffect::AwaitWindow,
    }
}

/// What is done for rollouts of policies.
fn policies_effect(inputs: StageInputs) -> StageEffect {
    if inputs.may_change() {
        StageEffect::Deliver(DeliveryStep::RollOutPolicies)
    } else {
        StageEffect::AwaitWindow
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A transition, as the drawing has it.
    type Transition = (String, String, String);

    /// Every combination of facts when a reconciliation begins.
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
    fn all_inputs(event: StageEvent) -> impl Iterator<Item = StageInputs> {
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

    /// What may happen while something is done. Only an error ends a reconciliation without an event.
    fn events_after(effect: StageEffect) -> Vec<StageEvent> {
        match effect {
            StageEffect::RenderAndPublish => vec![StageEvent::Rendered],
            StageEffect::Accept => {
                [Delivery::AllAtOnce, Delivery::Stages, Delivery::Policies].map(StageEvent::Accepted).to_vec()
            }
            StageEffect::Deliver(DeliveryStep::Apply | DeliveryStep::Retry) => {
                vec![StageEvent::Delivered, StageEvent::ClustersFailed, StageEvent::Interrupted]
            }
            StageEffect::Deliver(DeliveryStep::RollOut | DeliveryStep::RollOutPolicies) => {
                vec![StageEvent::Delivered, StageEvent::Waiting]
            }
            StageEffect::End
            | StageEffect::Compare
            | StageEffect::CheckRevision
            | StageEffect::AwaitWindow
            | StageEffect::ReturnClusters
            | StageEffect::Finish => Vec::new(),
        }
    }

    /// The steps of all reconciliations that ask the source: stages before and after, with the inputs and the effect.
    fn all_steps() -> Vec<(SyncStage, StageInputs, SyncStage, StageEffect)> {
        let mut steps = Vec::new();
        let polled = [StageEvent::SameRevision, StageEvent::OtherRevision];
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

    /// The transitions of reconciliations that delete a Sync, as the drawing has them.
    fn deletion_transitions() -> BTreeSet<Transition> {
        let events = [
            DeletionEvent::Deleted,
            DeletionEvent::Terminating,
            DeletionEvent::NotDeleted,
            DeletionEvent::CredentialsLost,
        ];
        let finalized = events.into_iter().filter(|event| finish_deletion(*event) == SyncStage::Finalized);
        let mut transitions: BTreeSet<Transition> = finalized
            .map(|event| {
                (
                    "Deleting".to_owned(),
                    "Finalized".to_owned(),
                    format!("{} / remove finalizer", to_words(&event)),
                )
            })
            .collect();
        for stage in SyncStage::ACCEPTED {
            for start in all_starts().map(|inputs| start_reconciliation(&inputs, stage)) {
                let to = match start {
                    ReconciliationStart::DeleteObjects => SyncStage::Deleting,
                    ReconciliationStart::OrphanObjects => SyncStage::Finalized,
                    ReconciliationStart::End
                    | ReconciliationStart::AwaitDependency(_)
                    | ReconciliationStart::Poll => continue,
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
        // Whatever the stage is, a reconciliation that waits ends in it.
        let drawn =
            all_steps().into_iter().filter(|(from, _, to, effect)| from != to || *effect != StageEffect::End);
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
                StageEffect::RenderAndPublish | StageEffect::Accept | StageEffect::Deliver(_)
            );
            assert!(inputs.may_change() || !changes, "{from:?} {inputs:?} {to:?} {effect:?}");
        }
    }

    #[test]
    fn clusters_change_only_after_the_revision_was_accepted() {
        let deliveries =
            all_steps().into_iter().filter(|(.., effect)| matches!(effect, StageEffect::Deliver(_)));
        for (from, inputs, to, effect) in deliveries {
            assert!(to.is_accepted(), "{to:?} is not in the record while it changes clusters");
            let is_accepted = from == SyncStage::Planned || inputs.event == StageEvent::SameRevision;
            assert!(is_accepted, "{from:?} {inputs:?} {effect:?}");
        }
    }

    #[test]
    fn what_can_happen_has_a_step_that_goes_on_or_ends() {
        for (from, inputs, to, effect) in all_steps() {
            let ends = events_after(effect).is_empty();
            let rests = to.is_accepted() || to == SyncStage::Fetched;
            assert!(!ends || rests, "it ends in {to:?} after {from:?} {inputs:?} {effect:?}");
        }
    }
}
