//! The objects of lists: those that are unchanged by their text stay text. Where something else is to be done in the
//! cluster, they are read then.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::client::not_json;
use super::error::Error;
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::lists::read_item;
use federate_kubernetes::{ClusterName, LiveObjects, Object, ObjectRef};

/// An item of a list, with the kind that it may lack.
pub(super) type ListItem = (Arc<ResourceKind>, Bytes);

/// The objects that are unchanged by their text. The live objects have their identity, and what makes them members.
#[derive(Debug, Default)]
pub(super) struct ComparedObjects(pub(super) BTreeMap<ObjectRef, Bytes>);

impl ComparedObjects {
    pub(super) fn contains(&self, object: &ObjectRef) -> bool {
        self.0.contains_key(object)
    }

    /// Reads them.
    pub(super) fn read_into(&mut self, live: &mut LiveObjects, cluster: &ClusterName) -> Result<(), Error> {
        for (id, text) in std::mem::take(&mut self.0) {
            let body = read_item(&text).map_err(|_| not_json())?;
            if let Some(object) = live.get_mut(cluster, &id) {
                object.body = set_type(body, &id.api_version, &id.kind);
            }
        }
        Ok(())
    }
}

/// An object of a list, whose items may lack their kind.
pub(super) fn build_object(kind: &ResourceKind, body: Value, cluster: &ClusterName) -> Object {
    Object::from_manifest(set_type(body, &kind.api_version(), &kind.kind), cluster.clone())
}

/// The objects of some lists.
pub(super) fn read_objects(items: &[ListItem], cluster: &ClusterName) -> Result<Vec<Object>, Error> {
    let objects = items.par_iter().map(|(kind, text)| Ok(build_object(kind, read_item(text)?, cluster)));
    objects.collect::<serde_json::Result<_>>().map_err(|_| not_json())
}

fn set_type(mut body: Value, api_version: &str, kind: &str) -> Value {
    if let Some(map) = body.as_object_mut() {
        map.insert("apiVersion".to_owned(), json!(api_version));
        map.insert("kind".to_owned(), json!(kind));
    }
    body
}
