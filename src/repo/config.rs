//! `federate.yaml`: the optional file at the repo's root that narrows or extends what is read.

/// The settings of a repo.
#[derive(Clone, Debug, Default)]
pub struct Config {}
