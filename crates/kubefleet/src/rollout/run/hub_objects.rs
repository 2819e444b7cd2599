//! The objects of a hub that a run reads and writes.
//!
//! Facts: deleting an object that has finalizers only marks it.

use std::collections::BTreeMap;

use crate::KubeFleetBehaviour;
use federate_kubernetes::Object;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The labels by which approval requests name their run: in older releases, and in those whose requests also
/// have a label for the type of their task.
const TARGET_RUNS: [&str; 2] = ["kubernetes-fleet.io/targetupdaterun", "kubernetes-fleet.io/targetUpdateRun"];

/// The label by which approval requests name their run.
pub(super) fn target_run(behaviour: &KubeFleetBehaviour) -> &'static str {
    let [older, newer] = TARGET_RUNS;
    if behaviour.approvals_have_task_type { newer } else { older }
}

type Key = (String, Option<String>, String);

/// Something that a run wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunWrite {
    /// A binding.
    Binding(String),
    /// A binding was deleted.
    DeletedBinding(String),
    /// A new approval request.
    NewApproval(String),
    /// The status of an approval request.
    Approval(String),
}

/// The objects of a hub.
#[derive(Clone, Debug, Default)]
pub struct HubObjects {
    objects: BTreeMap<Key, Object>,
    writes: Vec<RunWrite>,
}

impl HubObjects {
    /// Returns a world with these objects.
    pub fn new(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut world = Self::default();
        objects.into_iter().for_each(|object| world.put_object(object));
        world
    }

    /// Adds or replaces an object.
    pub fn put_object(&mut self, object: Object) {
        let id = &object.id;
        self.objects.insert((id.kind.clone(), id.namespace.clone(), id.name.clone()), object);
    }

    /// Removes an object.
    pub fn remove(&mut self, kind: &str, namespace: Option<&str>, name: &str) {
        self.objects.remove(&object_key(kind, namespace, name));
    }

    /// An object.
    pub fn get(&self, kind: &str, namespace: Option<&str>, name: &str) -> Option<&Object> {
        self.objects.get(&object_key(kind, namespace, name))
    }

    pub(super) fn get_mut(&mut self, kind: &str, namespace: Option<&str>, name: &str) -> Option<&mut Object> {
        self.objects.get_mut(&object_key(kind, namespace, name))
    }

    /// The objects of a kind in a namespace, by name.
    pub(super) fn list_objects<'w>(
        &'w self,
        kind: &'w str,
        namespace: Option<&'w str>,
    ) -> impl Iterator<Item = &'w Object> {
        let all = self.objects.values();
        all.filter(move |o| o.id.kind == kind && o.id.namespace.as_deref() == namespace)
    }

    /// The objects of a kind in all namespaces, by namespace and name.
    pub(super) fn objects_of_kind<'w>(&'w self, kind: &'w str) -> impl Iterator<Item = &'w Object> {
        self.objects.values().filter(move |o| o.id.kind == kind)
    }

    /// Takes the record of what was written since the last call.
    pub fn take_writes(&mut self) -> Vec<RunWrite> {
        std::mem::take(&mut self.writes)
    }

    pub(super) fn record_write(&mut self, write: RunWrite) {
        self.writes.retain(|noted| *noted != write);
        self.writes.push(write);
    }

    /// Deletes an object, or marks it as being deleted if it has finalizers.
    pub(super) fn delete_object(&mut self, kind: &str, namespace: Option<&str>, name: &str, now: Timestamp) {
        let Some(object) = self.get_mut(kind, namespace, name) else { return };
        let finalizers = object.value_at(&["metadata", "finalizers"]).and_then(Value::as_array);
        if finalizers.is_none_or(Vec::is_empty) {
            self.remove(kind, namespace, name);
        } else if !object.is_deleting() {
            object.body["metadata"]["deletionTimestamp"] = json!(now);
        }
    }

    /// Removes the finalizer of a run that is being deleted, and its approval requests.
    pub(super) fn remove_run(&mut self, kind: &str, namespace: Option<&str>, name: &str) {
        self.objects.retain(|_, object| {
            let own = object.id.kind.ends_with("ApprovalRequest")
                && object.id.namespace.as_deref() == namespace
                && TARGET_RUNS.iter().any(|label| object.label(label) == Some(name));
            !own
        });
        let Some(object) = self.get_mut(kind, namespace, name) else { return };
        let finalizers = object.body["metadata"]["finalizers"].as_array_mut();
        let left = finalizers.map(|all| {
            all.retain(|finalizer| finalizer != super::FINALIZER);
            all.len()
        });
        if left.unwrap_or(0) == 0 {
            self.remove(kind, namespace, name);
        }
    }
}

fn object_key(kind: &str, namespace: Option<&str>, name: &str) -> Key {
    (kind.to_owned(), namespace.map(str::to_owned), name.to_owned())
}

/// Adds a finalizer, if it is missing.
pub(super) fn add_finalizer(object: &mut Object, finalizer: &str) {
    let finalizers = &mut object.body["metadata"]["finalizers"];
    if finalizers.is_null() {
        *finalizers = json!([]);
    }
    if let Some(all) = finalizers.as_array_mut()
        && !all.iter().any(|one| one == finalizer)
    {
        all.push(finalizer.into());
    }
}
