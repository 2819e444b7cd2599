//! Where a cluster keeps its objects, their versions and what happened to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

/// What names an object: group, plural, namespace (empty without), name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub group: String,
    pub plural: String,
    pub namespace: String,
    pub name: String,
}

/// A change, in order of versions.
#[derive(Clone, Debug)]
pub struct Event {
    pub version: u64,
    pub key: Key,
    pub before: Option<Arc<Value>>,
    /// What it is after the change, or what it was when it was deleted.
    pub object: Arc<Value>,
    pub deleted: bool,
}

#[derive(Debug)]
pub struct Store {
    pub objects: BTreeMap<Key, Arc<Value>>,
    pub events: Vec<Event>,
    pub version: u64,
    /// Events up to this version are forgotten.
    pub compacted: u64,
    uids: u64,
    seed: u64,
    addresses: u32,
    ports: u16,
}

impl Store {
    /// `seed` tells the uids of one cluster from those of another.
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

    pub fn uid(&mut self) -> String {
        self.uids += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", self.seed, self.uids)
    }

    /// A suffix for a generated name.
    pub fn suffix(&mut self) -> String {
        self.uids += 1;
        format!("{:05x}", self.uids)
    }

    pub fn address(&mut self) -> String {
        self.addresses += 1;
        format!("10.1.{}.{}", self.addresses / 250, self.addresses % 250 + 1)
    }

    pub fn port(&mut self) -> u16 {
        self.ports += 1;
        self.ports
    }

    /// Stores an object under the next version and answers with it.
    pub fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), object.clone());
        self.events.push(Event {
            version: self.version,
            key,
            before,
            object: object.clone(),
            deleted: false,
        });
        object
    }

    /// Removes an object; what watchers see of it last is `object`.
    pub fn remove(&mut self, key: &Key, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let before = self.objects.remove(key);
        let object = Arc::new(object);
        self.events.push(Event { version: self.version, key: key.clone(), before, object, deleted: true });
    }

    /// The objects of a resource in a namespace (empty: in all), in the order of their keys.
    pub fn list<'s>(
        &'s self,
        group: &'s str,
        plural: &'s str,
        namespace: &'s str,
    ) -> impl Iterator<Item = (&'s Key, &'s Value)> {
        let first = Key {
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
        let key = Key {
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.objects.get(&key).map(Arc::as_ref)
    }
}
