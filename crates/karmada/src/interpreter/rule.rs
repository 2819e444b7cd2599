//! The rules of a customization.

/// A rule of a customization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CustomizationRule {
    /// The replicas of an object, and the requirements of each.
    Replicas,
    /// The same by component, for kinds with several pod templates.
    Components,
    /// Writes a number of replicas into an object.
    Revision,
    /// Keeps fields of the live object.
    Retention,
    /// Whether an object is healthy.
    Health,
    /// The references of an object.
    Dependencies,
    /// The status that the control plane collects from a member.
    StatusReflection,
    /// The template's status, from those of the members.
    StatusAggregation,
}

impl CustomizationRule {
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
    pub fn field_name(self) -> &'static str {
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
    pub fn function_name(self) -> &'static str {
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
