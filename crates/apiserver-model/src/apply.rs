//! Server-side apply, and the tracking of field ownership for other writes.
//!
//! Facts: Kubernetes' field management. An apply is merged into the live object; fields that its manager applied last
//! time and not now are removed, unless another manager owns them; fields that others own with another value are
//! conflicts. Any other write takes the ownership of the fields that it changes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::completion::complete_object;
use super::failure::{ApiError, StatusCause};
use super::fields::FieldSet;
use super::kinds::ResourceKind;
use super::managed_fields::{ManagedFields, ManagedFieldsOperation, ManagerEntry, OwnedFields};
use super::schema::Type;
use super::typed::{
    are_equal, check_types, collect_fields, compare_objects, is_separable, merge_objects, remove_fields,
    with_declared_fields,
};
use super::values::text_at;

/// How an object is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions<'w> {
    /// The object's kind.
    pub kind: &'w ResourceKind,
    /// The field manager.
    pub manager: &'w str,
    /// The subresource that is written to.
    pub subresource: Option<&'w str>,
    /// Whether an apply takes fields from other managers.
    pub force: bool,
    /// The time in seconds, in RFC 3339 notation.
    pub now: &'w str,
}

impl WriteOptions<'_> {
    pub(super) fn manager_entry(&self, operation: ManagedFieldsOperation) -> ManagerEntry {
        ManagerEntry {
            manager: self.manager.to_owned(),
            operation,
            api_version: (operation == ManagedFieldsOperation::Update).then(|| self.kind.api_version()),
            subresource: self.subresource.map(str::to_owned),
        }
    }

    /// The type of objects without `apiVersion` and `kind`, which no manager owns.
    pub(super) fn object_schema(&self) -> &Type {
        &self.kind.schema
    }
}

/// Merges an applied object into the live one, if there is one, and returns the result with defaults and owners. It is
/// neither validated nor compared with the live object; see [`strategy`](super::strategy).
pub fn merge_applied(
    live: Option<&Value>,
    applied: &Value,
    write: &WriteOptions<'_>,
) -> Result<Value, ApiError> {
    if applied.pointer("/metadata/managedFields").is_some_and(|m| !m.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let body = without_type_meta(applied);
    let wrong = check_types(write.object_schema(), &body);
    if !wrong.is_empty() {
        return Err(ApiError::internal_error(describe_type_errors(applied, &wrong)));
    }
    let (mut managed, before) = match live {
        Some(live) => (ManagedFields::from_object(live).unwrap_or_default(), without_managers(live)),
        None => (ManagedFields::default(), empty_object(write.kind, applied)),
    };
    let owner = write.manager_entry(ManagedFieldsOperation::Apply);
    if managed.0.is_empty() && live.is_some() {
        let first = WriteOptions { manager: "before-first-apply", subresource: None, ..*write };
        track_update(&mut managed, &empty_object(write.kind, applied), &before, &first);
    }
    let named = collect_fields(write.object_schema(), &body)
        .without_below(&write.kind.reset_fields(write.subresource));
    let merged = merge_objects(write.object_schema(), &before, body);
    let last = managed.0.remove(&owner).unwrap_or_default();
    let as_ever = last.fields.is_within(&named);
    let owned = OwnedFields { api_version: write.kind.api_version(), time: last.time, fields: named };
    managed.0.insert(owner.clone(), owned);
    // A body with all fields of the last apply removes nothing.
    let merged =
        if as_ever { merged } else { prune_unowned(write.object_schema(), &merged, &managed, &last.fields) };
    let changed = !are_equal(&merged, &before);
    // An apply that changes nothing changes no owners.
    if changed {
        let conflicts = take_changed_fields(&mut managed, &owner, &before, &merged, write);
        if !write.force && !conflicts.is_empty() {
            return Err(conflict_failure(&conflicts));
        }
    }
    if let Some(owned) = managed.0.get_mut(&owner) {
        owned.fields = std::mem::take(&mut owned.fields).difference(&identity_fields());
        if changed {
            owned.time = Some(write.now.to_owned());
        }
    }
    managed.cap_updates();
    // A new object is always completed.
    let mut object = if changed || live.is_none() {
        complete_object(write.kind, named_as(merged, write.kind))
    } else {
        named_as(before, write.kind)
    };
    managed.write_to(&mut object);
    Ok(object)
}

/// The new object with its owners after a write that is not an apply. `new` is complete. Its `managedFields` take
/// precedence if it has some; an empty list, or a list of one empty entry, clears the owners.
pub fn update_managers(live: Option<&Value>, new: &Value, write: &WriteOptions<'_>) -> Value {
    let after = without_managers(new);
    let given = new.pointer("/metadata/managedFields").and_then(Value::as_array);
    let cleared = match given.map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    let mut managed = if cleared {
        ManagedFields::default()
    } else if write.subresource.is_none()
        && let Some(managed) = ManagedFields::from_object(new)
        && !managed.0.is_empty()
    {
        managed
    } else {
        live.and_then(ManagedFields::from_object).unwrap_or_default()
    };
    // An update does not start tracking.
    if live.is_none() || !managed.0.is_empty() {
        let before = live.map_or_else(|| empty_object(write.kind, new), without_managers);
        if is_separable(write.object_schema(), &before) && is_separable(write.object_schema(), &after) {
            track_update(&mut managed, &before, &after, write);
            managed.cap_updates();
        } else {
            // Items without keys cannot be owned: the server gives up tracking.
            managed = ManagedFields::default();
        }
    }
    let mut object = named_as(after, write.kind);
    managed.write_to(&mut object);
    object
}

/// Makes the manager of an update own the fields that it changes.
fn track_update(managed: &mut ManagedFields, before: &Value, after: &Value, write: &WriteOptions<'_>) {
    let found = compare_objects(write.object_schema(), before, after)
        .without_fields(&write.kind.reset_fields(write.subresource));
    let changed = found.changed_fields();
    for owned in managed.0.values_mut() {
        owned.fields = std::mem::take(&mut owned.fields).difference(&changed).difference(&found.removed);
    }
    let mine = changed.difference(&identity_fields());
    if !mine.is_empty() {
        let owner = write.manager_entry(ManagedFieldsOperation::Update);
        let old = managed.0.remove(&owner).unwrap_or_default();
        let owned = OwnedFields {
            api_version: write.kind.api_version(),
            time: Some(write.now.to_owned()),
            fields: old.fields.union(mine),
        };
        managed.0.insert(owner, owned);
    }
    managed.0.retain(|_, owned| !owned.fields.is_empty());
}

/// Takes the fields that an apply changes from other managers, and returns them.
fn take_changed_fields(
    managed: &mut ManagedFields,
    owner: &ManagerEntry,
    before: &Value,
    merged: &Value,
    write: &WriteOptions<'_>,
) -> BTreeMap<ManagerEntry, FieldSet> {
    let mut conflicts = BTreeMap::new();
    if managed.0.keys().all(|other| other == owner) {
        return conflicts;
    }
    let found = compare_objects(write.object_schema(), before, merged)
        .without_fields(&write.kind.reset_fields(write.subresource));
    let changed = found.changed_fields();
    for (other, owned) in managed.0.iter_mut().filter(|(other, _)| *other != owner) {
        let lost = owned.fields.intersection(&changed);
        owned.fields = std::mem::take(&mut owned.fields).difference(&lost).difference(&found.removed);
        if !lost.is_empty() {
            conflicts.insert(other.clone(), lost);
        }
    }
    managed.0.retain(|_, owned| !owned.fields.is_empty());
    conflicts
}

/// Removes fields that were applied last time and that no manager owns now.
fn prune_unowned(ty: &Type, merged: &Value, managed: &ManagedFields, last: &FieldSet) -> Value {
    let last = with_declared_fields(ty, last);
    let all = collect_declared_fields(ty, merged);
    let pruned = remove_fields(ty, merged, &last);
    // Fields that another manager owns come back,
    let owned = managed.0.values().fold(FieldSet::default(), |all, owned| all.union(owned.fields.clone()));
    let kept = collect_declared_fields(ty, &pruned).union(with_declared_fields(ty, &owned));
    let pruned = remove_fields(ty, merged, &all.clone().difference(&kept));
    // and fields that were removed only with a value that contained them.
    remove_fields(ty, merged, &all.difference(&collect_declared_fields(ty, &pruned)).intersection(&last))
}

/// The fields that an object has, and the declared fields that contain them.
fn collect_declared_fields(ty: &Type, object: &Value) -> FieldSet {
    with_declared_fields(ty, &collect_fields(ty, object))
}

fn conflict_failure(conflicts: &BTreeMap<ManagerEntry, FieldSet>) -> ApiError {
    let mut found: Vec<(String, Vec<String>)> =
        conflicts.iter().map(|(owner, fields)| (owner.describe_manager(), fields.format_paths())).collect();
    found.sort();
    let count: usize = found.iter().map(|(_, paths)| paths.len()).sum();
    let message = if let [(owner, paths)] = found.as_slice()
        && count == 1
    {
        format!("Apply failed with 1 conflict: conflict with {owner}: {}", paths.join(""))
    } else {
        let texts: Vec<String> = found
            .iter()
            .map(|(owner, paths)| format!("conflicts with {owner}:\n- {}", paths.join("\n- ")))
            .collect();
        format!("Apply failed with {count} conflicts: {}", texts.join("\n"))
    };
    let causes: Vec<StatusCause> = found
        .iter()
        .flat_map(|(owner, paths)| {
            paths
                .iter()
                .map(move |p| StatusCause::new("FieldManagerConflict", p, format!("conflict with {owner}")))
        })
        .collect();
    ApiError::new(409, "Conflict", message).caused_by(&causes)
}

fn describe_type_errors(applied: &Value, wrong: &[String]) -> String {
    let version = text_at(applied, "/apiVersion");
    let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
    let wrong = if let [one] = wrong { one.clone() } else { format!("errors:\n  {}", wrong.join("\n  ")) };
    format!(
        "failed to create typed patch object ({}/{}; {version}, Kind={}): {wrong}",
        text_at(applied, "/metadata/namespace"),
        text_at(applied, "/metadata/name"),
        text_at(applied, "/kind")
    )
}

/// The fields that identify an object or that the server sets, which no manager owns.
fn identity_fields() -> FieldSet {
    const KEYS: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut set = FieldSet::default();
    set.insert_path(&["metadata"]);
    for key in KEYS {
        set.insert_path(&["metadata", key]);
    }
    set
}

/// The object without `apiVersion` and `kind`.
fn without_type_meta(object: &Value) -> Value {
    copy_without(object, &["apiVersion", "kind"], Value::clone)
}

/// The object without its owners.
pub(super) fn without_managers(object: &Value) -> Value {
    copy_without(object, &["apiVersion", "kind"], |metadata| {
        copy_without(metadata, &["managedFields"], Value::clone)
    })
}

/// Copies a mapping without these keys; `metadata` copies the value below `metadata`.
fn copy_without(value: &Value, keys: &[&str], metadata: impl Fn(&Value) -> Value) -> Value {
    let Some(map) = value.as_object() else { return value.clone() };
    let kept = map.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
    let copied = kept.map(|(key, value)| {
        let copy = if key == "metadata" { metadata(value) } else { value.clone() };
        (key.clone(), copy)
    });
    Value::Object(copied.collect())
}

/// The object with its API version and kind.
pub(super) fn named_as(object: Value, kind: &ResourceKind) -> Value {
    let mut named = Map::with_capacity(8);
    named.insert("apiVersion".to_owned(), json!(kind.api_version()));
    named.insert("kind".to_owned(), json!(kind.kind));
    if let Value::Object(map) = object {
        named.extend(map);
    }
    Value::Object(named)
}

/// The object before its first write.
fn empty_object(kind: &ResourceKind, like: &Value) -> Value {
    let mut metadata = Map::new();
    for key in ["name", "namespace"] {
        if let Some(value) = like.pointer(&format!("/metadata/{key}")) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut blank = json!({ "metadata": metadata });
    if kind.custom.is_none() {
        super::normalization::normalize_object(&kind.schema, &mut blank);
    }
    blank
}
