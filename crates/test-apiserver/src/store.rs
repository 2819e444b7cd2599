//! The storage of a cluster: objects, versions and the history of changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

/// The key of an object: group, plural, namespace (may be empty), name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreKey {
    pub group: String,
    pub plural: String,
    pub namespace: String,
    pub name: String,
}

impl StoreKey {
    /// The place of the object in a list: its name, after its namespace in a list of several namespaces.
    pub fn list_place(&self, with_namespace: bool) -> String {
        if with_namespace { format!("{}/{}", self.namespace, self.name) } else { self.name.clone() }
    }
}

/// A change, in order of versions.
#[derive(Clone, Debug)]
pub struct StoreEvent {
    pub version: u64,
    pub at: Instant,
    pub key: StoreKey,
    pub before: Option<Arc<Value>>,
    /// The object after the change, or before its deletion.
    pub object: Arc<Value>,
    pub deleted: bool,
}

#[derive(Debug)]
pub struct ObjectStore {
    pub objects: BTreeMap<StoreKey, Arc<Value>>,
    pub events: Vec<StoreEvent>,
    pub version: u64,
    /// Events up to this version are compacted.
    pub compacted: u64,
    uids: u64,
    seed: u64,
    addresses: u32,
    ports: u16,
}

impl ObjectStore {
    /// `seed` makes the uids of a cluster unique.
    pub fn new(seed: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            events: Vec::new(),
            version: 100,
            compacted: 0,
            uids: 0,
            seed,
            addresses: 10,
            ports: 30000,
        }
    }

    pub fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", self.seed, self.uids)
    }

    /// A suffix for a generated name.
    pub fn next_suffix(&mut self) -> String {
        self.uids += 1;
        format!("{:05x}", self.uids)
    }

    pub fn next_address(&mut self) -> String {
        self.addresses += 1;
        format!("10.1.{}.{}", self.addresses / 250, self.addresses % 250 + 1)
    }

    pub fn next_port(&mut self) -> u16 {
        self.ports += 1;
        self.ports
    }

    /// Stores an object under the next version, and returns it.
    pub fn put_object(&mut self, key: StoreKey, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), object.clone());
        self.events.push(StoreEvent {
            version: self.version,
            at: Instant::now(),
            key,
            before,
            object: object.clone(),
            deleted: false,
        });
        object
    }

    /// Removes an object; watchers see `object` last.
    pub fn remove_object(&mut self, key: &StoreKey, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let before = self.objects.remove(key);
        let object = Arc::new(object);
        let (version, at) = (self.version, Instant::now());
        self.events.push(StoreEvent { version, at, key: key.clone(), before, object, deleted: true });
    }

    /// The objects of a resource in a namespace (empty: in all), in the order of their keys.
    pub fn list_objects<'s>(
        &'s self,
        group: &'s str,
        plural: &'s str,
        namespace: &'s str,
    ) -> impl Iterator<Item = (&'s StoreKey, &'s Value)> {
        let first = StoreKey {
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let all = self.objects.range(first..).map(|(key, object)| (key, object.as_ref()));
        all.take_while(move |(key, _)| {
            key.group == group && key.plural == plural && (namespace.is_empty() || key.namespace == namespace)
        })
    }

    pub fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        let key = StoreKey {
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.objects.get(&key).map(Arc::as_ref)
    }
}
