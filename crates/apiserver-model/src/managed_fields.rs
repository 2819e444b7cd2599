//! Reads and writes `metadata.managedFields`.
//!
//! Facts: the key of an entry is manager, operation and subresource, of updates also the API version; entries are
//! sorted by operation, time in seconds, and manager. The time may be missing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::FieldSet;
use super::values::text_below;

/// The operation by which a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedFieldsOperation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerEntry {
    /// The manager's name.
    pub manager: String,
    /// The operation.
    pub operation: ManagedFieldsOperation,
    /// The API version, of updates only.
    pub api_version: Option<String>,
    /// The subresource that was written.
    pub subresource: Option<String>,
}

impl ManagerEntry {
    /// The manager, as messages about conflicts name it.
    pub fn describe_manager(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if let Some(subresource) = &self.subresource {
            text.push_str(&format!(" with subresource {subresource:?}"));
        }
        if let Some(api_version) = &self.api_version {
            text.push_str(&format!(" using {api_version}"));
        }
        text
    }
}

/// An owner's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedFields {
    /// The API version in which they are named.
    pub api_version: String,
    /// The time of the last write, if it is known.
    pub time: Option<String>,
    /// The fields.
    pub fields: FieldSet,
}

/// The owners of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields(pub BTreeMap<ManagerEntry, OwnedFields>);

impl ManagedFields {
    /// Reads `metadata.managedFields`; `None` when an entry is malformed.
    pub fn from_object(object: &Value) -> Option<Self> {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let mut managed = Self::default();
        for entry in entries.into_iter().flatten() {
            let operation = match text_below(entry, "operation") {
                "Apply" => ManagedFieldsOperation::Apply,
                "Update" => ManagedFieldsOperation::Update,
                _ => return None,
            };
            let api_version = text_below(entry, "apiVersion").to_owned();
            let owner = ManagerEntry {
                manager: text_below(entry, "manager").to_owned(),
                operation,
                api_version: (operation == ManagedFieldsOperation::Update).then(|| api_version.clone()),
                subresource: optional_text(entry, "subresource"),
            };
            let fields = FieldSet::parse(&fields_of(entry)).unwrap_or_default();
            let time = optional_text(entry, "time");
            managed.0.insert(owner, OwnedFields { api_version, time, fields });
        }
        Some(managed)
    }

    /// The entries of `metadata.managedFields`, in the server's order, without managers that own no fields.
    pub fn to_entries(&self) -> Vec<Value> {
        let mut entries: Vec<(&ManagerEntry, &OwnedFields)> =
            self.0.iter().filter(|(_, owned)| !owned.fields.is_empty()).collect();
        entries.sort_by_key(|(owner, owned)| {
            (owner.operation, &owned.time, &owner.manager, &owned.api_version, &owner.subresource)
        });
        entries.into_iter().map(|(owner, owned)| entry_to_json(owner, owned)).collect()
    }

    /// Writes the entries into the object.
    pub fn write_to(&self, object: &mut Value) {
        let entries = self.to_entries();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("managedFields");
            if !entries.is_empty() {
                metadata.insert("managedFields".to_owned(), Value::Array(entries));
            }
        }
    }

    /// Merges the oldest updates into one entry per API version, until at most ten are left.
    pub fn cap_updates(&mut self) {
        const MAX_UPDATES: usize = 10;
        let mut updates: Vec<(Option<String>, ManagerEntry)> = self
            .0
            .iter()
            .filter(|(owner, _)| owner.operation == ManagedFieldsOperation::Update)
            .map(|(owner, owned)| (owned.time.clone(), owner.clone()))
            .collect();
        updates.sort();
        let mut left = updates.len();
        let mut first: BTreeMap<String, ManagerEntry> = BTreeMap::new();
        for (_, owner) in updates {
            if left <= MAX_UPDATES {
                return;
            }
            let version = owner.api_version.clone().unwrap_or_default();
            let Some(start) = first.get(&version) else {
                first.insert(version, owner);
                continue;
            };
            let bucket = ManagerEntry {
                manager: "ancient-changes".to_owned(),
                operation: ManagedFieldsOperation::Update,
                api_version: Some(version),
                subresource: None,
            };
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(start)
            {
                self.0.insert(bucket.clone(), owned);
            }
            if let Some(newer) = self.0.remove(&owner)
                && let Some(all) = self.0.get_mut(&bucket)
            {
                all.fields = std::mem::take(&mut all.fields).union(newer.fields);
                all.time = newer.time;
            }
            left -= 1;
        }
    }
}

/// The text below a key; `None` if it is absent or empty.
fn optional_text(entry: &Value, key: &str) -> Option<String> {
    Some(text_below(entry, key)).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The field set of an entry of `managedFields`. It may be JSON text: the objects of long lists keep it as text, because
/// most field sets are never read.
pub fn fields_of(entry: &Value) -> Cow<'_, Value> {
    match entry.get("fieldsV1") {
        Some(Value::String(text)) => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
        Some(fields) => Cow::Borrowed(fields),
        None => Cow::Owned(Value::Null),
    }
}

/// Replaces field sets that are JSON text by their values.
pub fn read_fields(object: &mut Value) {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for fields in entries.into_iter().flatten().filter_map(|entry| entry.get_mut("fieldsV1")) {
        if let Value::String(text) = fields {
            *fields = serde_json::from_str(text).unwrap_or_default();
        }
    }
}

fn entry_to_json(owner: &ManagerEntry, owned: &OwnedFields) -> Value {
    let mut entry = Map::new();
    let operation = match owner.operation {
        ManagedFieldsOperation::Apply => "Apply",
        ManagedFieldsOperation::Update => "Update",
    };
    entry.insert("manager".to_owned(), json!(owner.manager));
    entry.insert("operation".to_owned(), json!(operation));
    entry.insert("apiVersion".to_owned(), json!(owned.api_version));
    if let Some(time) = &owned.time {
        entry.insert("time".to_owned(), json!(time));
    }
    entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
    entry.insert("fieldsV1".to_owned(), owned.fields.to_json());
    if let Some(subresource) = &owner.subresource {
        entry.insert("subresource".to_owned(), json!(subresource));
    }
    Value::Object(entry)
}
