//! The subjects of decisions, and their outcome.

use serde_json::{Map, Value};

use crate::Placement;
use federate_kubernetes::{Finding, ObjectRef};

/// The subject of one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionSubject {
    /// The object of the repo: a template, or one that the dialect claims.
    pub object: ObjectRef,
    /// Which templates of the repo the decision reads.
    pub reads: TemplateReads,
}

/// Which templates of the repo a decision reads, besides policies, inventory and the previous plan. When
/// templates change, only decisions that read them are taken again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateReads {
    /// Only the subject; and only its row of the previous plan.
    Subject,
    /// Any template.
    Templates,
}

/// The outcome of decisions.
#[derive(Clone, Debug, Default)]
pub struct DialectDecisions {
    /// Placements, in any order.
    pub placements: Vec<Placement>,
    /// Errors and warnings.
    pub findings: Vec<Finding>,
    /// The shared scheduler state of several placements, by digest.
    pub shared: Map<String, Value>,
    /// Which clusters a single decision depends on.
    pub depends: ClusterDependency,
}

/// Which clusters of the inventory a decision depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterDependency {
    /// Any cluster.
    #[default]
    Inventory,
    /// Only the clusters of its rows, in the previous plan and in this one.
    Placed,
}

impl DialectDecisions {
    /// Adds other decisions.
    pub fn extend(&mut self, other: Self) {
        self.placements.extend(other.placements);
        self.findings.extend(other.findings);
        self.shared.extend(other.shared);
    }
}
