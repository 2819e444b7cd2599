//! The body that a manager applies so that only some fields change.
//!
//! Facts: an apply removes fields that its manager applied before and that the body lacks, so that the body needs all
//! of them, with their live values; other fields stay with their owners. With a resource version or a uid in the
//! body, an apply is refused with a conflict where the object has changed.

use serde_json::{Value, json};

use super::apply::{WriteOptions, named_as, without_managers};
use super::fields::FieldSet;
use super::managed_fields::{ManagedFields, ManagedFieldsOperation};
use super::typed::{collect_fields, compare_objects, keep_fields};

/// The body that `write.manager` applies so that the live object becomes `target` and nothing else changes: the
/// fields that it has applied before, and the fields that differ. `whole` is the live object after an apply of the
/// whole desired object: fields that `target` has in common with it are in the body as well, so that a later apply of
/// everything changes no owners.
pub fn extract_applied(live: &Value, target: &Value, whole: &Value, write: &WriteOptions<'_>) -> Value {
    let (before, after, all) = (without_managers(live), without_managers(target), without_managers(whole));
    let reset_fields = write.kind.reset_fields(write.subresource);
    let found = compare_objects(write.object_schema(), &before, &after).without_fields(&reset_fields);
    let left = compare_objects(write.object_schema(), &after, &all).without_fields(&reset_fields);
    let same = fields_of_manager(whole, write).difference(&left.changed_fields());
    let named =
        fields_of_manager(live, write).difference(&found.removed).union(found.changed_fields()).union(same);
    let mut body = extract_fields(&after, &named, write);
    for field in ["uid", "resourceVersion"] {
        if let Some(value) = live.pointer(&format!("/metadata/{field}")) {
            body["metadata"][field] = value.clone();
        }
    }
    body
}

/// The type and name of an object, and the fields that `write.manager` has applied.
pub fn applied_fields(object: &Value, write: &WriteOptions<'_>) -> Value {
    extract_fields(&without_managers(object), &fields_of_manager(object, write), write)
}

/// The same with the fields of a body, whoever has written them: a preview of an apply may write them in another way.
pub fn previewed_fields(object: &Value, body: &Value, write: &WriteOptions<'_>) -> Value {
    let fields = fields_of_manager(object, write).union(collect_fields(write.object_schema(), body));
    extract_fields(&without_managers(object), &fields, write)
}

fn fields_of_manager(object: &Value, write: &WriteOptions<'_>) -> FieldSet {
    let managed = ManagedFields::from_object(object).unwrap_or_default();
    managed
        .0
        .get(&write.manager_entry(ManagedFieldsOperation::Apply))
        .map(|owned| owned.fields.clone())
        .unwrap_or_default()
}

fn extract_fields(object: &Value, fields: &FieldSet, write: &WriteOptions<'_>) -> Value {
    let mut body = keep_fields(write.object_schema(), object, fields);
    if !body.is_object() {
        body = json!({});
    }
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    for field in ["name", "namespace"] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            body["metadata"][field] = value.clone();
        }
    }
    named_as(body, write.kind)
}

#[cfg(test)]
mod tests {
    use super::super::{ResourceKind, apply_object, complete_object, update_managers};
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn write<'w>(kind: &'w ResourceKind, manager: &'w str) -> WriteOptions<'w> {
        WriteOptions { kind, manager, subresource: None, force: true, now: NOW }
    }

    fn owners(object: &Value, manager: &str) -> String {
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["manager"] == manager);
        entry.map(|entry| entry["fieldsV1"].to_string()).unwrap_or_default()
    }

    #[test]
    fn only_what_differs_changes_hands() {
        let kind = ResourceKind::find_builtin("v1", "ConfigMap").unwrap();
        let own = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"},
            "data": {"a": "1", "b": "1", "c": "1"}});
        let mut live = apply_object(None, &own, &write(kind, "us")).unwrap();
        live["metadata"]["uid"] = json!("u");
        live["metadata"]["resourceVersion"] = json!("7");
        let mut edited = live.clone();
        edited["data"] = json!({"a": "2", "b": "2", "c": "1", "d": "2"});
        let live = update_managers(Some(&live), &complete_object(kind, edited), &write(kind, "edit"));
        assert_eq!(owners(&live, "us"), r#"{"f:data":{"f:c":{}}}"#);

        let mut target = live.clone();
        target["data"]["a"] = json!("1");
        let all = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"},
            "data": {"a": "1", "b": "1", "c": "1", "d": "2"}});
        let whole = apply_object(Some(&live), &all, &write(kind, "us")).unwrap();
        let body = extract_applied(&live, &target, &whole, &write(kind, "us"));
        assert_eq!(
            body,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "c": "1", "d": "2"},
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}})
        );
        let after = apply_object(Some(&live), &body, &write(kind, "us")).unwrap();
        assert_eq!(after["data"], json!({"a": "1", "b": "2", "c": "1", "d": "2"}));
        assert_eq!(owners(&after, "us"), r#"{"f:data":{"f:a":{},"f:c":{},"f:d":{}}}"#);
        assert_eq!(owners(&after, "edit"), r#"{"f:data":{"f:b":{},"f:d":{}}}"#);
    }
}
