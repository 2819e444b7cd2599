//! Which resources the bindings on a hub have: the latest, or earlier ones.
//!
//! Facts: the status of a placement has the index of its latest resource snapshot, and a binding the name of the snapshot
//! that is released to it, `<placement>-<index>-snapshot`. A binding is up to date if it has the latest snapshot and the
//! latest overrides for its cluster. Resource snapshots contain whole manifests, Secrets included, so they are not read.

use federate_kubernetes::Object;
use serde_json::Value;

use super::HubBinding;
use crate::rollout::row::BindingResources;

/// What is released on a hub.
pub(super) struct ReleasedResources<'o> {
    placement: &'o str,
    /// The index of the placement's latest resource snapshot.
    latest: Option<&'o str>,
    /// Whether the hub has overrides. Which of them apply to a cluster depends on the resources.
    overridden: bool,
}

impl<'o> ReleasedResources<'o> {
    /// What is released for a placement, among the objects of a hub.
    pub(super) fn from_objects(placement: &'o Object, objects: &[Object]) -> Self {
        let index = placement.value_at(&["status", "observedResourceIndex"]).and_then(Value::as_str);
        Self {
            placement: &placement.id.name,
            latest: index.filter(|index| !index.is_empty()),
            overridden: objects.iter().any(|object| object.id.kind.ends_with("ResourceOverrideSnapshot")),
        }
    }

    /// The resources of a binding; `None` where it is not known whether they are the latest.
    pub(super) fn resources_of(&self, binding: &HubBinding) -> Option<BindingResources> {
        let name = &binding.resource_snapshot;
        let index = name.strip_prefix(self.placement)?.strip_prefix('-')?.strip_suffix("-snapshot")?;
        match (index == self.latest?, self.overridden) {
            (false, _) => Some(BindingResources::Old),
            (true, false) => Some(BindingResources::Latest),
            (true, true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::PLACEMENT_GROUP;

    fn object(kind: &str, name: &str, body: Value) -> Object {
        Object::from_path(&format!("{PLACEMENT_GROUP}/v1"), kind, name, body)
    }

    #[test]
    fn the_index_of_the_snapshot_says_it_unless_there_are_overrides() {
        let binding = |snapshot: &str| {
            let spec = json!({"state": "Bound", "targetCluster": "m1", "resourceSnapshotName": snapshot});
            HubBinding::from_object(&object("ClusterResourceBinding", "b", json!({"spec": spec}))).unwrap()
        };
        let overrides = [object("ClusterResourceOverrideSnapshot", "o", json!({}))];
        let at = |index: &str, snapshot: &str, objects: &[Object]| {
            let status = json!({"status": {"observedResourceIndex": index}});
            let placement = object("ClusterResourcePlacement", "a-b", status);
            ReleasedResources::from_objects(&placement, objects).resources_of(&binding(snapshot))
        };
        assert_eq!(at("2", "a-b-2-snapshot", &[]), Some(BindingResources::Latest));
        assert_eq!(at("2", "a-b-1-snapshot", &[]), Some(BindingResources::Old));
        assert_eq!(at("2", "a-b-1-snapshot", &overrides), Some(BindingResources::Old));
        assert_eq!(at("2", "a-b-2-snapshot", &overrides), None);
        assert_eq!(at("", "a-b-2-snapshot", &[]), None);
        assert_eq!(at("2", "", &[]), None);
    }
}
