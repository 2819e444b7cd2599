//! Who wrote a field last, by `managedFields`.

use serde_json::Value;

use super::MANAGER;
use super::steps::{Step, steps, text};
use federate_apiserver::fields::{Element, FieldSet};
use federate_apiserver::managed::{Managed, ManagerEntry, Operation};

/// The field owners of a live object.
pub struct Blame {
    managed: Managed,
}

impl Blame {
    /// Those of an object; none where it has no `managedFields`.
    pub fn of(live: &Value) -> Self {
        Self { managed: Managed::from_object(live).unwrap_or_default() }
    }

    /// The manager that last wrote a field, or the innermost owned value that contains it; and the time.
    pub fn last(&self, path: &str) -> Option<(String, Option<String>)> {
        let steps = steps(path);
        let owners = self.managed.0.iter().map(|(owner, owned)| (depth(&owned.fields, &steps), owner, owned));
        let owners = owners.filter(|(depth, ..)| *depth > 0);
        // The deepest is the most exact; of several the last one changed it.
        let last = owners.max_by(|a, b| (a.0, &a.2.time).cmp(&(b.0, &b.2.time)))?;
        Some((last.1.manager.clone(), last.2.time.clone()))
    }

    /// The owners of a field, or of an atomic value that contains it.
    pub fn owners(&self, path: &str) -> Vec<&ManagerEntry> {
        let steps = steps(path);
        let owns = |fields: &FieldSet| depth(fields, &steps) == steps.len() || atomic(fields, &steps);
        self.managed.0.iter().filter(|(_, owned)| owns(&owned.fields)).map(|(owner, _)| owner).collect()
    }

    /// Whether a manager other than federate owns a field.
    pub(super) fn is_shared(&self, path: &str) -> bool {
        self.owners(path).iter().any(|owner| !is_own(owner))
    }

    /// Whether only other controllers own a field: neither federate nor a user of `kubectl`.
    pub(super) fn is_controlled_by_others(&self, path: &str) -> bool {
        let owners = self.owners(path);
        let other = |owner: &&ManagerEntry| !is_own(owner) && !owner.manager.starts_with("kubectl");
        !owners.is_empty() && owners.iter().all(other)
    }
}

fn is(element: &Element, step: &Step) -> bool {
    match (element, step) {
        (Element::Field(name), Step::Field(field)) => name == field,
        (Element::Place(place), Step::Field(field)) => place.to_string() == *field,
        (Element::Key(keys), Step::Item(pairs)) => pairs
            .iter()
            .all(|(name, value)| keys.iter().any(|(key, found)| key == name && text(found) == *value)),
        (Element::Item(item), Step::Value(value)) => text(item) == *value,
        _ => false,
    }
}

/// The number of leading steps that are in the set.
fn depth(fields: &FieldSet, steps: &[Step]) -> usize {
    let Some((first, rest)) = steps.split_first() else { return 0 };
    let found = fields.entries().find(|(element, _)| is(element, first));
    found.map_or(0, |(_, below)| 1 + depth(below, rest))
}

/// Whether a value that contains the field is owned as a whole.
fn atomic(fields: &FieldSet, steps: &[Step]) -> bool {
    let Some((first, rest)) = steps.split_first() else { return false };
    let found = fields.entries().find(|(element, _)| is(element, first));
    found.is_some_and(|(_, below)| {
        (below.has_own() && below.entries().next().is_none()) || atomic(below, rest)
    })
}

fn is_own(owner: &ManagerEntry) -> bool {
    owner.manager == MANAGER && owner.operation == Operation::Apply
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
        let blame = Blame::of(&live);
        let last = |path: &str| blame.last(path).map(|(manager, _)| manager);
        assert_eq!(last("/spec/replicas").as_deref(), Some("kubectl-edit"));
        assert_eq!(last("/spec/template/spec/containers[name=app]/image").as_deref(), Some("federate"));
        assert_eq!(last("/data/k"), None);
        assert_eq!(blame.owners("/spec/replicas").len(), 2);
        assert_eq!(blame.owners("/spec/selector/matchLabels/app").len(), 1, "an atomic map");
        assert!(blame.owners("/spec/paused").is_empty());
    }
}
