//! The switch from one control plane to another: its steps, and what of the world each of them expects.
//!
//! The order is the safe one: the new side is loaded while it is paused, the old controller is stopped and not deleted,
//! the new side is resumed and takes over what runs, and what only the old control plane needs goes last.

mod facts;
mod runbook;
mod world;

pub use runbook::{RUNBOOK_FILE, RunbookNames, write_runbook};
pub use world::{StepCheck, StepExpectation, StepState, WorldCheck, check_world};

/// A step of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwitchStep {
    /// What runs is recorded.
    Record,
    /// The clusters join the new control plane.
    Register,
    /// Policies and templates are loaded into the new control plane, which is paused.
    Load,
    /// The old controller is stopped.
    Stop,
    /// The new control plane takes over.
    TakeOver,
    /// What only the old control plane needs is removed.
    Clean,
}

impl SwitchStep {
    /// All steps, in order.
    pub const ALL: [Self; 6] =
        [Self::Record, Self::Register, Self::Load, Self::Stop, Self::TakeOver, Self::Clean];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Register => "register",
            Self::Load => "load",
            Self::Stop => "stop",
            Self::TakeOver => "take-over",
            Self::Clean => "clean",
        }
    }

    /// What is done, as a heading.
    fn title(self) -> &'static str {
        match self {
            Self::Record => "Record what runs",
            Self::Register => "Register the clusters",
            Self::Load => "Load the new side, paused",
            Self::Stop => "Stop the old controller",
            Self::TakeOver => "Take over",
            Self::Clean => "Remove what only the old control plane needs",
        }
    }
}
