//! Transfers the ownership of fields from one field manager to another, before an apply.
//!
//! Facts: an apply removes only fields that its own manager applied before and that no other manager owns. A client
//! that is to remove a field of another manager therefore writes `metadata.managedFields` first, as Flux does and as
//! `kubectl apply --server-side` does with the entry of `kubectl apply`. Entries of a subresource (`scale`, `status`)
//! stay with their managers.

use serde_json::Value;

use super::apply::{WriteOptions, without_managers};
use super::fields::{FieldSet, PathElement};
use super::managed_fields::{ManagedFields, ManagedFieldsOperation, ManagerEntry, OwnedFields};
use super::typed::compare_objects;

/// Which fields are transferred.
#[derive(Clone, Copy)]
pub struct TransferScope<'s> {
    /// The managers that give fields.
    pub gives: &'s dyn Fn(&ManagerEntry) -> bool,
    /// Fields that stay with their managers.
    pub stay: &'s FieldSet,
    /// Fields that are transferred whoever owns them.
    pub named: &'s FieldSet,
    /// Only fields are transferred that this object lacks or has with another value, as after a default has taken their place;
    /// all fields where `None`.
    pub target: Option<&'s Value>,
}

/// The live object after fields of other managers were transferred to `write.manager`, which then owns them as if it had
/// applied them; `None` where there is nothing to transfer.
pub fn transfer_ownership(
    live: &Value,
    scope: &TransferScope<'_>,
    write: &WriteOptions<'_>,
) -> Option<Value> {
    let mut managed = ManagedFields::from_object(live)?;
    let differs = scope.target.map(|target| {
        let found =
            compare_objects(write.object_schema(), &without_managers(live), &without_managers(target));
        found.changed_fields().union(found.removed)
    });
    let own = write.manager_entry(ManagedFieldsOperation::Apply);
    let mut taken = scope.named.clone();
    let mut api_version = None;
    let mut any = !scope.named.is_empty();
    for (entry, owned) in managed.0.iter_mut().filter(|(entry, _)| **entry != own) {
        owned.fields = std::mem::take(&mut owned.fields).difference(scope.named);
        if entry.subresource.is_some() || !(scope.gives)(entry) {
            continue;
        }
        let given = owned.fields.clone().difference(scope.stay);
        let given = match &differs {
            Some(differs) => given.intersection(differs),
            None => given,
        };
        if given.is_empty() {
            continue;
        }
        owned.fields = std::mem::take(&mut owned.fields).difference(&given);
        api_version.get_or_insert_with(|| owned.api_version.clone());
        taken = taken.union(given);
        any = true;
    }
    if !any {
        return None;
    }
    managed.0.retain(|_, owned| !owned.fields.is_empty());
    let mine = managed.0.remove(&own).unwrap_or_else(|| OwnedFields {
        api_version: api_version.unwrap_or_else(|| write.kind.api_version()),
        ..OwnedFields::default()
    });
    managed.0.insert(own, OwnedFields { fields: mine.fields.union(taken), ..mine });
    let mut object = live.clone();
    managed.write_to(&mut object);
    Some(object)
}

/// The fields at these paths of fields.
pub fn field_set<'p>(paths: impl Iterator<Item = Vec<PathElement>> + 'p) -> FieldSet {
    let mut set = FieldSet::default();
    for path in paths {
        path.into_iter().fold(&mut set, FieldSet::below_or_insert).insert_own();
    }
    set
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{ResourceKind, apply_object, complete_object, update_managers};
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn write<'w>(kind: &'w ResourceKind, manager: &'w str) -> WriteOptions<'w> {
        WriteOptions { kind, manager, subresource: None, force: true, now: NOW }
    }

    #[test]
    fn an_edited_port_is_put_back_after_its_owner_changed() {
        let kind = ResourceKind::find_builtin("v1", "Service").unwrap();
        let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80}]}});
        let live = apply_object(None, &body, &write(kind, "us")).unwrap();
        let mut edited = live.clone();
        edited["spec"]["ports"][0]["port"] = json!(83);
        edited["spec"]["selector"]["tier"] = json!("x");
        let edited =
            update_managers(Some(&live), &complete_object(kind, edited), &write(kind, "kubectl-edit"));
        let refused = apply_object(Some(&edited), &body, &write(kind, "us")).unwrap_err();
        assert!(refused.message.contains("Duplicate value: \"http\""), "{}", refused.message);

        let gives = |entry: &ManagerEntry| entry.manager == "kubectl-edit";
        let none = FieldSet::default();
        let scope = TransferScope { gives: &gives, stay: &none, named: &none, target: None };
        let transferred = transfer_ownership(&edited, &scope, &write(kind, "us")).unwrap();
        let back = apply_object(Some(&transferred), &body, &write(kind, "us")).unwrap();
        assert_eq!(back["spec"]["ports"], live["spec"]["ports"]);
        assert_eq!(back["spec"]["selector"], json!({"app": "a"}));

        // Only what the target lacks is transferred.
        let mut target = edited.clone();
        target["spec"]["ports"] = live["spec"]["ports"].clone();
        let scope = TransferScope { target: Some(&target), ..scope };
        let transferred = transfer_ownership(&edited, &scope, &write(kind, "us")).unwrap();
        let entries = transferred["metadata"]["managedFields"].as_array().unwrap();
        let theirs = entries.iter().find(|entry| entry["manager"] == "kubectl-edit").unwrap();
        assert_eq!(theirs["fieldsV1"], json!({"f:spec": {"f:selector": {}}}));
        let same = TransferScope { target: Some(&edited), ..scope };
        assert_eq!(transfer_ownership(&edited, &same, &write(kind, "us")), None);
    }

    #[test]
    fn fields_stay_with_a_manager_or_are_taken_by_name() {
        let kind = ResourceKind::find_builtin("v1", "ConfigMap").unwrap();
        let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
            "labels": {"x": "1", "y": "1"}}, "data": {"k": "v"}});
        let live = update_managers(None, &live, &write(kind, "them"));
        let labels = |key: &str| {
            field_set(std::iter::once(["metadata", "labels", key].map(PathElement::field).to_vec()))
        };
        let (stay, named) = (labels("x"), labels("y"));
        let scope = TransferScope { gives: &|_| false, stay: &stay, named: &named, target: None };
        let transferred = transfer_ownership(&live, &scope, &write(kind, "us")).unwrap();
        let own = |object: &Value, manager: &str| {
            let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
            entries.filter(|e| e["manager"] == manager).map(|e| e["fieldsV1"].clone()).next()
        };
        assert_eq!(own(&transferred, "us"), Some(json!({"f:metadata": {"f:labels": {"f:y": {}}}})));
        let all = TransferScope { gives: &|_| true, ..scope };
        let transferred = transfer_ownership(&live, &all, &write(kind, "us")).unwrap();
        assert_eq!(own(&transferred, "them"), Some(json!({"f:metadata": {"f:labels": {"f:x": {}}}})));
    }
}
