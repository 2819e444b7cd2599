//! Who wrote a field last, by `managedFields`.

use serde_json::Value;

use super::FIELD_MANAGER;
use super::path_steps::{PathStep, parse_path, value_text};
use federate_apiserver_model::fields::{FieldSet, PathElement};
use federate_apiserver_model::managed_fields::{ManagedFields, ManagedFieldsOperation, ManagerEntry};

/// The field owners of a live object.
pub struct Blame {
    managed: ManagedFields,
}

impl Blame {
    /// Those of an object; none where it has no `managedFields`.
    pub fn from_live(live: &Value) -> Self {
        Self { managed: ManagedFields::from_object(live).unwrap_or_default() }
    }

    /// The manager that last wrote a field, and the time. There is none for what a server fills in.
    pub fn last_writer(&self, path: &str) -> Option<(String, Option<String>)> {
        let steps = parse_path(path);
        let owners = self.managed.0.iter().filter(|(_, owned)| is_owned(&owned.fields, &steps));
        let (owner, owned) = owners.max_by_key(|(_, owned)| &owned.time)?;
        Some((owner.manager.clone(), owned.time.clone()))
    }

    /// The owners of a field, or of an atomic value that contains it.
    pub fn field_owners(&self, path: &str) -> Vec<&ManagerEntry> {
        let steps = parse_path(path);
        let owners = self.managed.0.iter().filter(|(_, owned)| is_owned(&owned.fields, &steps));
        owners.map(|(owner, _)| owner).collect()
    }

    /// Whether a manager other than federate owns a field.
    pub(super) fn is_shared(&self, path: &str) -> bool {
        self.field_owners(path).iter().any(|owner| !is_own(owner))
    }

    /// Whether only other controllers own a field: neither federate nor a user of `kubectl`.
    pub(super) fn is_controlled_by_others(&self, path: &str) -> bool {
        let owners = self.field_owners(path);
        !owners.is_empty()
            && owners.iter().all(|owner| !is_own(owner) && !owner.manager.starts_with("kubectl"))
    }
}

fn matches_step(element: &PathElement, step: &PathStep) -> bool {
    match (element, step) {
        (PathElement::Field(name), PathStep::Field(field)) => name == field,
        (PathElement::Place(place), PathStep::Field(field)) => place.to_string() == *field,
        (PathElement::Key(keys), PathStep::Item(pairs)) => pairs
            .iter()
            .all(|(name, value)| keys.iter().any(|(key, found)| key == name && value_text(found) == *value)),
        (PathElement::Item(item), PathStep::Value(value)) => value_text(item) == *value,
        _ => false,
    }
}

/// Whether a field is in the set, something in it, or an atomic value that contains it.
fn is_owned(fields: &FieldSet, steps: &[PathStep]) -> bool {
    let Some((first, rest)) = steps.split_first() else { return true };
    let found = fields.entries().find(|(element, _)| matches_step(element, first));
    found.is_some_and(|(_, below)| {
        (below.has_own() && below.entries().next().is_none()) || is_owned(below, rest)
    })
}

fn is_own(owner: &ManagerEntry) -> bool {
    owner.manager == FIELD_MANAGER && owner.operation == ManagedFieldsOperation::Apply
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_writer_of_a_field_is_named() {
        let live = json!({"metadata": {"managedFields": [
            {"manager": "federate", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {"f:spec":
                {"f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}}},
            {"manager": "kubectl-edit", "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-02T00:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        ]}});
        let blame = Blame::from_live(&live);
        let last = |path: &str| blame.last_writer(path).map(|(manager, _)| manager);
        assert_eq!(last("/spec/replicas").as_deref(), Some("kubectl-edit"));
        assert_eq!(last("/spec/template/spec/containers[name=app]/image").as_deref(), Some("federate"));
        assert_eq!(last("/spec/selector/matchLabels/app").as_deref(), Some("federate"), "an atomic map");
        assert_eq!(last("/spec/template").as_deref(), Some("federate"), "something in it");
        for defaulted in
            ["/data/k", "/spec/paused", "/spec/template/spec/containers[name=app]/imagePullPolicy"]
        {
            assert_eq!(last(defaulted), None, "{defaulted}");
        }
        assert_eq!(blame.field_owners("/spec/replicas").len(), 2);
        assert_eq!(blame.field_owners("/spec/selector/matchLabels/app").len(), 1, "an atomic map");
        assert!(blame.field_owners("/spec/paused").is_empty());
    }
}
