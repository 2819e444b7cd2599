//! Why a repo cannot be migrated.

use std::fmt;

use federate_engine::TooMuchWork;
use federate_kubernetes::{Finding, ObjectRef, Origin};

use crate::{Mode, Target};

/// Why a repo cannot be migrated. All problems are listed at once.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// The repo has errors, so that what it means is not known.
    #[error("the repo has {}: fix what `federate check` reports before the migration", federate_kubernetes::finding::format_count(.0.len(), "error"))]
    BrokenRepo(Vec<Finding>),
    /// There is no such direction.
    #[error(transparent)]
    UnknownDirection(#[from] UnknownDirection),
    /// Writing it takes more work than a part of a run may.
    #[error(transparent)]
    TooMuchWork(#[from] TooMuchWork),
    /// Objects or files cannot be migrated.
    #[error("{}", join_problems(.0))]
    Problems(Vec<MigrationProblem>),
}

/// A direction for which there is no migration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rules of {from} cannot be written for {to} in mode `idiomatic`; what can be: {}; `--mode freeze` writes each object as it is \
     placed now",
    .known.join(", "),
)]
pub struct UnknownDirection {
    /// The old control plane.
    pub from: String,
    /// The new one.
    pub to: &'static str,
    /// The directions in which rules are written as rules.
    pub known: Vec<String>,
}

/// An object or a file that cannot be migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationProblem {
    /// The object, if it is one.
    pub object: Option<ObjectRef>,
    /// Its place.
    pub origin: Option<Origin>,
    /// What is wrong, and why.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for MigrationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        write!(f, "{}: {}", self.message, self.help)
    }
}

fn join_problems(problems: &[MigrationProblem]) -> String {
    problems.iter().map(MigrationProblem::to_string).collect::<Vec<_>>().join("\n")
}

impl Target {
    /// The name of the dialect; `plain` where there is no control plane.
    pub fn name(self) -> &'static str {
        match self {
            Self::Karmada => "karmada",
            Self::KubeFleet => "kubefleet",
            Self::KubeAdmiral => "kubeadmiral",
            Self::Plain => "plain",
        }
    }
}

impl Mode {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idiomatic => "idiomatic",
            Self::Freeze => "freeze",
        }
    }
}
