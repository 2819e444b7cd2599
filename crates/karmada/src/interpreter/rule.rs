//! The rules of a customization: what its scripts are about.

/// A rule of a customization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// How many replicas an object wants, and what each requires.
    Replicas,
    /// The same by component, for kinds with several pod templates.
    Components,
    /// How a number of replicas is written into an object.
    Revision,
    /// What of the object that runs stays.
    Retention,
    /// Whether an object is healthy.
    Health,
    /// What an object refers to.
    Dependencies,
    /// What of a member's status the control plane collects.
    StatusReflection,
    /// How the members' statuses become the template's.
    StatusAggregation,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 8] = [
        Self::Replicas,
        Self::Components,
        Self::Revision,
        Self::Retention,
        Self::Health,
        Self::Dependencies,
        Self::StatusReflection,
        Self::StatusAggregation,
    ];

    /// Its field below `spec.customizations`.
    pub fn field(self) -> &'static str {
        match self {
            Self::Replicas => "replicaResource",
            Self::Components => "componentResource",
            Self::Revision => "replicaRevision",
            Self::Retention => "retention",
            Self::Health => "healthInterpretation",
            Self::Dependencies => "dependencyInterpretation",
            Self::StatusReflection => "statusReflection",
            Self::StatusAggregation => "statusAggregation",
        }
    }

    /// The function that a script for it defines.
    pub fn function(self) -> &'static str {
        match self {
            Self::Replicas => "GetReplicas",
            Self::Components => "GetComponents",
            Self::Revision => "ReviseReplica",
            Self::Retention => "Retain",
            Self::Health => "InterpretHealth",
            Self::Dependencies => "GetDependencies",
            Self::StatusReflection => "ReflectStatus",
            Self::StatusAggregation => "AggregateStatus",
        }
    }
}
