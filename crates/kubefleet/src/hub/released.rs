//! Which resources the bindings on a hub have: the latest, or earlier ones.
//!
//! Facts: the status of a placement has the index of its latest resource snapshot, and a binding the name of the snapshot
//! that is released to it, `<placement>-<index>-snapshot`. A binding is up to date if it has the latest snapshot and the
//! latest overrides for its cluster. Resource snapshots contain whole manifests, Secrets included, so they are not read.

use federate_kubernetes::Object;
use serde_json::Value;

use super::Binding;
use crate::rollout::row::Resources;

/// What is released on a hub.
pub(super) struct Released<'o> {
    placement: &'o str,
    /// The index of the placement's latest resource snapshot.
    latest: Option<&'o str>,
    /// Whether the hub has overrides. Which of them apply to a cluster depends on the resources.
    overridden: bool,
}

impl<'o> Released<'o> {
    /// What is released for a placement, among the objects of a hub.
    pub(super) fn of(placement: &'o Object, objects: &[Object]) -> Self {
        Self {
            placement: &placement.id.name,
            latest: placement.at(&["status", "observedResourceIndex"]).and_then(Value::as_str),
            overridden: objects.iter().any(|object| object.id.kind.ends_with("ResourceOverrideSnapshot")),
        }
    }

    /// The resources of a binding; `None` where it is not known whether they are the latest.
    pub(super) fn to(&self, binding: &Binding) -> Option<Resources> {
        let name = &binding.resource_snapshot;
        let index = name.strip_prefix(self.placement)?.strip_prefix('-')?.strip_suffix("-snapshot")?;
        match (index == self.latest?, self.overridden) {
            (false, _) => Some(Resources::Old),
            (true, false) => Some(Resources::Latest),
            (true, true) => None,
        }
    }
}
