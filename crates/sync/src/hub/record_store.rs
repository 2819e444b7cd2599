//! The record of a Sync and its plans in `SyncRecord`s, the accepted plan and those of former revisions: compressed, in parts that each
//! fit into one, and swapped as a whole by the `SyncRecord` that names them.
//!
//! ```text
//! federate.<name>                     what was accepted, and the parts of the plans by name
//! federate.<name>.<digest>.<number>   a part; its name comes from the contents, so that no part ever changes
//! ```
//!
//! Parts are written before they are named, and removed when they are no longer named: a process that is killed leaves the
//! old plan or the new one. The digest shows whether parts were edited.
//!
//! They are of a kind of their own, so that the loop needs no rights for other objects, and who edits a namespace does not choose
//! what a scheduler remembers.
//!
//! Facts: API servers store objects of up to 1.5 MiB; binary data is written in base64.

use std::collections::BTreeSet;

use http::Method;
use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

use super::client::JSON;
use super::{Error, HubClient};
use federate_live::compression::{PART_BYTES, compress_text, decompress_text};
use federate_live::path::ApiPath;
use federate_sync_api::Sync;
use federate_sync_api::record::compute_digest;

/// The version and the kind of the objects.
pub(super) const RECORD_VERSION: &str = "federate.dev/v1alpha1";
pub(super) const RECORD_KIND: &str = "SyncRecord";

/// The records of a namespace.
pub(super) fn records_path(namespace: &str) -> ApiPath {
    ApiPath::from_version(RECORD_VERSION).in_namespace(namespace).join("syncrecords")
}

/// The label that names the Sync of a part, by its uid.
const SYNC_LABEL: &str = "federate.dev/memory-of";

/// The most parts of a plan.
const MAX_PARTS: usize = 256;

/// The name of a part of the plan that an index of this name has, by the digest of the whole.
fn part_name(index: &str, whole: &str, number: usize) -> String {
    let short: String = whole.chars().take(12).collect();
    format!("{index}.{short}.{number}")
}

/// The `SyncRecord` that names the parts of plans. Whoever may edit it chooses its contents.
pub struct RecordStoreIndex<'i> {
    /// Its name.
    pub name: &'i str,
    /// The object, as the API server has it.
    pub object: &'i Value,
}

impl<'i> RecordStoreIndex<'i> {
    /// A key of the index. The previous plan has keys without a prefix; plans of former revisions and the status of
    /// members have keys with one.
    fn find_value(&self, prefix: &str, name: &str) -> Option<&'i str> {
        self.object["data"][format!("{prefix}{name}")].as_str()
    }

    /// The names of the parts of what has keys with this prefix.
    fn part_names(&self, prefix: &str) -> impl Iterator<Item = &'i str> {
        self.find_value(prefix, "parts").unwrap_or_default().split_whitespace()
    }

    /// Puts the parts together that `find` returns by their names; `None` if there is none.
    ///
    /// # Errors
    ///
    /// What `find` returns, or that the contents are damaged.
    pub fn read_parts(
        &self,
        prefix: &str,
        mut find: impl FnMut(&str) -> Result<Option<Value>, Error>,
    ) -> Result<Option<Vec<u8>>, RecordStoreError> {
        let Some(expected) = self.find_value(prefix, "digest") else { return Ok(None) };
        let mut packed = Vec::new();
        for (number, part) in self.part_names(prefix).enumerate() {
            // Whoever may edit the index must not choose what is read with federate's credentials, nor how often.
            if number >= MAX_PARTS || part != part_name(self.name, expected, number) {
                let part = part.escape_debug();
                return Err(RecordStoreError::Contents(format!(
                    "it names `{part}`, which is not its part {number}"
                )));
            }
            let found = find(part)?;
            let found =
                found.ok_or_else(|| RecordStoreError::Contents(format!("its part {part} is gone")))?;
            let bytes: Option<ByteString> = serde_json::from_value(found["binaryData"]["part"].clone()).ok();
            let bytes =
                bytes.ok_or_else(|| RecordStoreError::Contents(format!("its part {part} is empty")))?;
            packed.extend(bytes.0);
        }
        if compute_digest([&*packed]) != expected {
            return Err(RecordStoreError::Contents("its parts were edited".to_owned()));
        }
        decompress_text(&packed).map(Some).map_err(|error| RecordStoreError::Contents(error.to_string()))
    }
}

/// The record of one Sync and its plans, in `SyncRecord`s.
pub(super) struct RecordStore<'h> {
    pub(super) hub: &'h HubClient,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The owner reference of all parts: they are deleted with the Sync.
    pub(super) owner: Value,
    pub(super) uid: String,
    /// The `SyncRecord` that names the parts, as it was read; `Null` if there is none.
    pub(super) index: Value,
    /// Whether the parts belong to this object, and not to a former one of its name, with which they may go away. The
    /// label of the index says so once they are written.
    pub(super) own: bool,
}

/// Why a plan cannot be read.
#[derive(Debug)]
pub enum RecordStoreError {
    /// The API server.
    Server(Error),
    /// The contents are damaged.
    Contents(String),
}

impl From<Error> for RecordStoreError {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

impl<'h> RecordStore<'h> {
    pub(super) fn open(hub: &'h HubClient, sync: &Sync) -> Result<Self, Error> {
        let namespace = sync.metadata.namespace.clone();
        let name = format!("federate.{}", sync.metadata.name);
        let uid = sync.server_metadata.uid.clone();
        let owner = json!({"apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "name": sync.metadata.name, "uid": uid});
        let mut store = Self { hub, namespace, name, owner, uid, index: Value::Null, own: true };
        store.index = hub.find_object(&store.object_path(&store.name))?.unwrap_or_default();
        let label = &store.index["metadata"]["labels"][SYNC_LABEL];
        store.own = label.is_null() || *label == store.uid.as_str();
        Ok(store)
    }

    fn list_path(&self) -> ApiPath {
        records_path(&self.namespace)
    }

    fn object_path(&self, name: &str) -> ApiPath {
        self.list_path().join(name)
    }

    /// Its name in messages.
    pub(super) fn display_name(&self) -> String {
        format!("{RECORD_KIND} {}/{}", self.namespace, self.name)
    }

    /// The record beside the plans.
    pub(super) fn record(&self) -> Option<&str> {
        self.index["data"]["record"].as_str()
    }

    fn index(&self) -> RecordStoreIndex<'_> {
        RecordStoreIndex { name: &self.name, object: &self.index }
    }

    /// The names of all parts.
    fn all_parts(&self) -> BTreeSet<String> {
        let data = self.index["data"].as_object().into_iter().flatten();
        let listed = data.filter(|(key, _)| {
            *key == "parts" || key.rsplit_once('.').is_some_and(|(_, last)| last == "parts")
        });
        let names = listed.filter_map(|(_, names)| names.as_str()).flat_map(str::split_whitespace);
        names.map(str::to_owned).collect()
    }

    /// Names the parts of the previous plan as those of a former revision, too, unless that has some.
    pub(super) fn keep_as_former(&mut self, prefix: &str) -> Result<(), Error> {
        let index = self.index();
        let (Some(digest), None) = (index.find_value("", "digest"), index.find_value(prefix, "digest"))
        else {
            return Ok(());
        };
        let data = Map::from_iter([
            (format!("{prefix}digest"), digest.into()),
            (format!("{prefix}parts"), index.part_names("").collect::<Vec<_>>().join(" ").into()),
        ]);
        self.update_index(data)
    }

    /// Forgets the plans of all former revisions but some.
    pub(super) fn retain_formers(&mut self, but: &BTreeSet<String>) -> Result<(), Error> {
        let Some(data) = self.index["data"].as_object_mut() else { return Ok(()) };
        let before = data.len();
        data.retain(|key, _| match key.rsplit_once('.') {
            Some((revision, _)) => but.contains(&format!("{revision}.")),
            None => true,
        });
        if data.len() == before {
            return Ok(());
        }
        self.update_index(Map::new())?;
        self.remove_unnamed_parts()
    }

    /// The previous plan, or that of a former revision; `None` if there is none.
    pub(super) fn read_contents(&self, prefix: &str) -> Result<Option<Vec<u8>>, RecordStoreError> {
        let mut is_gone = false;
        let contents = self.index().read_parts(prefix, |part| {
            let found = self.hub.find_object(&self.object_path(part))?;
            is_gone |= found.is_none();
            Ok(found)
        });
        // The garbage collector removes the plans of a former object of this name, one SyncRecord after the other.
        if is_gone && !self.own { Ok(None) } else { contents }
    }

    /// Writes the parts of a plan, and names them; parts of another are removed.
    pub(super) fn write_contents(&mut self, prefix: &str, text: &[u8]) -> Result<(), Error> {
        let packed = compress_text(text);
        let whole = compute_digest([&*packed]);
        if self.own && self.index().find_value(prefix, "digest") == Some(&whole) {
            return self.remove_unnamed_parts();
        }
        let data = self.write_parts(prefix, &packed, whole)?;
        self.own = true;
        self.update_index(data)?;
        self.remove_unnamed_parts()
    }

    /// Writes parts. Returns the keys of the index that name them.
    fn write_parts(&self, prefix: &str, packed: &[u8], whole: String) -> Result<Map<String, Value>, Error> {
        let mut names = Vec::new();
        for (number, part) in packed.chunks(PART_BYTES).enumerate() {
            let name = part_name(&self.name, &whole, number);
            let body = json!({
                "apiVersion": RECORD_VERSION, "kind": RECORD_KIND,
                "metadata": {"name": name, "labels": {SYNC_LABEL: self.uid}, "ownerReferences": [self.owner]},
                "binaryData": {"part": ByteString(part.to_vec())},
            });
            match self.hub.send_request(&Method::POST, &self.list_path(), JSON, Some(&body)) {
                // A process that was killed has written it.
                Err(error) if error.is_conflict() => self.replace_part(&name, &body)?,
                other => drop(other?),
            }
            names.push(name);
        }
        Ok(Map::from_iter([
            (format!("{prefix}digest"), whole.into()),
            (format!("{prefix}parts"), names.join(" ").into()),
        ]))
    }

    /// Replaces a part that may be damaged.
    fn replace_part(&self, name: &str, body: &Value) -> Result<(), Error> {
        match self.hub.send_request(&Method::DELETE, &self.object_path(name), JSON, None) {
            Err(error) if !error.is_absent() => return Err(error),
            _ => {}
        }
        self.hub.send_request(&Method::POST, &self.list_path(), JSON, Some(body)).map(drop)
    }

    /// Writes the record beside the plans, if it has changed.
    pub(super) fn write_record(&mut self, record: &str) -> Result<(), Error> {
        if self.record() == Some(record) {
            return Ok(());
        }
        self.update_index(Map::from_iter([("record".to_owned(), record.into())]))
    }

    /// Changes keys of the index, unless another client has changed it meanwhile.
    fn update_index(&mut self, changed: Map<String, Value>) -> Result<(), Error> {
        let mut data = self.index["data"].as_object().cloned().unwrap_or_default();
        data.extend(changed);
        let label = if self.own {
            self.uid.clone().into()
        } else {
            self.index["metadata"]["labels"][SYNC_LABEL].clone()
        };
        let mut body = json!({
            "apiVersion": RECORD_VERSION, "kind": RECORD_KIND,
            "metadata": {"name": self.name, "labels": {SYNC_LABEL: label}, "ownerReferences": [self.owner]},
            "data": data,
        });
        let version = self.index["metadata"]["resourceVersion"].clone();
        if version.is_string() {
            body["metadata"]["resourceVersion"] = version;
            match self.hub.send_request(&Method::PUT, &self.object_path(&self.name), JSON, Some(&body)) {
                // The garbage collector removes the plans of a Sync that is gone, also while its successor takes it over.
                Err(error) if error.is_absent() => body["metadata"]["resourceVersion"] = Value::Null,
                written => {
                    self.index = written?;
                    return Ok(());
                }
            }
        }
        self.index = self.hub.send_request(&Method::POST, &self.list_path(), JSON, Some(&body))?;
        Ok(())
    }

    /// Removes parts that are not named.
    fn remove_unnamed_parts(&self) -> Result<(), Error> {
        let mut named = self.all_parts();
        named.insert(self.name.clone());
        let path = self.list_path().with_query("labelSelector", &format!("{SYNC_LABEL}={}", self.uid));
        let list = self.hub.find_object(&path)?.unwrap_or_default();
        for item in list["items"].as_array().into_iter().flatten() {
            let Some(name) = item["metadata"]["name"].as_str().filter(|name| !named.contains(*name)) else {
                continue;
            };
            match self.hub.send_request(&Method::DELETE, &self.object_path(name), JSON, None) {
                Err(error) if !error.is_absent() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
