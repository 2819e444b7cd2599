//! Who wrote a field last, by `managedFields`.

use serde_json::Value;

use super::FIELD_MANAGER;
use super::path_steps::{PathStep, parse_path, value_text};
use federate_apiserver::fields::{FieldSet, PathElement};
use federate_apiserver::managed_fields::{ManagedFields, ManagedFieldsOperation, ManagerEntry};

/// The field owners of a live object.
pub struct Blame {
    managed: ManagedFields,
}

impl Blame {
    /// Those of an object; none where it has no `managedFields`.
    pub fn from_live(live: &Value) -> Self {
        Self { managed: ManagedFields::from_object(live).unwrap_or_default() }
    }

    /// The manager that last wrote a field, or the innermost owned value that contains it; and the time.
    pub fn last_writer(&self, path: &str) -> Option<(String, Option<String>)> {
        let steps = parse_path(path);
        let owners = self
            .managed
            .0
            .iter()
            .map(|(owner, owned)| (count_owned_steps(&owned.fields, &steps), owner, owned));
        let owners = owners.filter(|(depth, ..)| *depth > 0);
        // The deepest is the most exact; of several the last one changed it.
        let last = owners.max_by(|a, b| (a.0, &a.2.time).cmp(&(b.0, &b.2.time)))?;
        Some((last.1.manager.clone(), last.2.time.clone()))
    }

    /// The owners of a field, or of an atomic value that contains it.
    pub fn field_owners(&self, path: &str) -> Vec<&ManagerEntry> {
        let steps = parse_path(path);
        let owners = self.managed.0.iter().filter(|(_, owned)| {
            count_owned_steps(&owned.fields, &steps) == steps.len()
                || is_owned_atomically(&owned.fields, &steps)
        });
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

/// The number of leading steps that are in the set.
fn count_owned_steps(fields: &FieldSet, steps: &[PathStep]) -> usize {
    let Some((first, rest)) = steps.split_first() else { return 0 };
    let found = fields.entries().find(|(element, _)| matches_step(element, first));
    found.map_or(0, |(_, below)| 1 + count_owned_steps(below, rest))
}

/// Whether a value that contains the field is owned as a whole.
fn is_owned_atomically(fields: &FieldSet, steps: &[PathStep]) -> bool {
    let Some((first, rest)) = steps.split_first() else { return false };
    let found = fields.entries().find(|(element, _)| matches_step(element, first));
    found.is_some_and(|(_, below)| {
        (below.has_own() && below.entries().next().is_none()) || is_owned_atomically(below, rest)
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
        assert_eq!(last("/data/k"), None);
        assert_eq!(blame.field_owners("/spec/replicas").len(), 2);
        assert_eq!(blame.field_owners("/spec/selector/matchLabels/app").len(), 1, "an atomic map");
        assert!(blame.field_owners("/spec/paused").is_empty());
    }
}
