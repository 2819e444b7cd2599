//! A federated object, read: what it stands for, where it goes, what it overrides.

use super::api::{self, FederatedSpec};
use super::overrides::{self, Failure, Steps};
use super::types::FederatedType;
use federate_kubernetes::{Finding, Object, ObjectRef};

/// A valid federated object.
#[derive(Debug)]
pub(super) struct Federated<'a> {
    pub object: &'a Object,
    pub kind: FederatedType,
    /// The object that it stands for.
    pub target: ObjectRef,
    pub spec: FederatedSpec,
    /// What it overrides in which cluster; an error spoils all of it.
    pub overrides: Result<Steps, Failure>,
}

impl<'a> Federated<'a> {
    pub(super) fn new(object: &'a Object, kind: &FederatedType) -> Result<Self, Finding> {
        let spec: FederatedSpec = api::spec(object)?;
        Ok(Self {
            object,
            kind: kind.clone(),
            target: kind.target(&object.id),
            overrides: overrides::read(&spec.overrides),
            spec,
        })
    }

    /// The namespace it lives in; empty for one of the cluster as a whole.
    pub(super) fn namespace(&self) -> &str {
        self.object.id.namespace.as_deref().unwrap_or_default()
    }

    /// Whether it federates the namespace that it lives in.
    pub(super) fn federates_namespace(&self) -> bool {
        self.kind.is_namespace() && self.object.id.name == self.namespace()
    }
}
