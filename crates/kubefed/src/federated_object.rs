//! A federated object: its target, its placement and its overrides.

use super::api::{self, FederatedSpec};
use super::overrides::{self, InvalidOverride, StepsByCluster};
use super::types::FederatedType;
use federate_kubernetes::{Finding, Object, ObjectRef};

/// A valid federated object.
#[derive(Debug)]
pub(super) struct FederatedObject<'a> {
    pub object: &'a Object,
    pub kind: FederatedType,
    /// The target object.
    pub target: ObjectRef,
    pub spec: FederatedSpec,
    /// The overrides by cluster. One error makes all of them invalid.
    pub overrides: Result<StepsByCluster, InvalidOverride>,
}

impl<'a> FederatedObject<'a> {
    pub(super) fn new(object: &'a Object, kind: &FederatedType) -> Result<Self, Finding> {
        let spec: FederatedSpec = api::read_spec(object)?;
        Ok(Self {
            object,
            kind: kind.clone(),
            target: kind.target_of(&object.id),
            overrides: overrides::read_overrides(&spec.overrides),
            spec,
        })
    }

    /// Its namespace; empty for a cluster-scoped one.
    pub(super) fn namespace(&self) -> &str {
        self.object.id.namespace.as_deref().unwrap_or_default()
    }

    /// Whether it federates its own namespace.
    pub(super) fn federates_namespace(&self) -> bool {
        self.kind.is_namespace() && self.object.id.name == self.namespace()
    }
}
