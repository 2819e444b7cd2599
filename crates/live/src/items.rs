//! The objects of lists: those that are unchanged by their text stay text. Where something else is to be done in the
//! cluster, they are read then.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::client::not_json;
use super::{Decider, Error};
use federate_apiserver::ResourceKind;
use federate_apiserver::lists::read_item;
use federate_engine::actions::comparison::is_read_first;
use federate_engine::actions::listed_object::ListedObject;
use federate_kubernetes::{ClusterName, LiveObjects, Object, ObjectRef};

/// An item of a list, with the kind that it may lack.
pub(super) type ListItem = (Arc<ResourceKind>, Bytes);

/// The objects that are unchanged by their text. The live objects have their identity, and what makes them members.
#[derive(Debug, Default)]
pub(super) struct UnreadObjects(BTreeMap<ObjectRef, Bytes>);

impl UnreadObjects {
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

fn read_whole(items: &[ListItem], cluster: &ClusterName) -> Result<Vec<Object>, Error> {
    let objects = items.par_iter().map(|(kind, text)| Ok(build_object(kind, read_item(text)?, cluster)));
    objects.collect::<serde_json::Result<_>>().map_err(|_| not_json())
}

/// The objects of some lists. Without a decider, all of them are read.
pub(super) fn read_objects(
    items: Vec<ListItem>,
    cluster: &ClusterName,
    decider: Option<&dyn Decider>,
) -> Result<(Vec<Object>, UnreadObjects), Error> {
    let Some(decider) = decider else {
        return Ok((read_whole(&items, cluster)?, UnreadObjects::default()));
    };
    let (first, rest): (Vec<ListItem>, Vec<ListItem>) =
        items.into_iter().partition(|(kind, _)| is_read_first(&kind.group, &kind.kind));
    let mut objects = read_whole(&first, cluster)?;
    let Some(unchanged) = decider.prepare_comparison(cluster, &objects) else {
        objects.extend(read_whole(&rest, cluster)?);
        return Ok((objects, UnreadObjects::default()));
    };
    let compared = rest.into_par_iter().map(|(kind, text)| {
        let head = ListedObject::from_json(&text).ok().and_then(|listed| {
            let id = listed.object_ref(kind.api_version(), kind.kind.clone());
            unchanged(&id, &listed).map(|head| (head, id))
        });
        match head {
            Some((head, id)) => Ok((Object::with_identity(id, head, cluster.clone()), Some(text))),
            None => Ok((build_object(&kind, read_item(&text)?, cluster), None)),
        }
    });
    let compared: serde_json::Result<Vec<(Object, Option<Bytes>)>> = compared.collect();
    let mut unread = UnreadObjects::default();
    for (object, text) in compared.map_err(|_| not_json())? {
        unread.0.extend(text.map(|text| (object.id.clone(), text)));
        objects.push(object);
    }
    Ok((objects, unread))
}

/// An object of a list, whose items may lack their kind.
pub(super) fn build_object(kind: &ResourceKind, body: Value, cluster: &ClusterName) -> Object {
    Object::from_manifest(set_type(body, &kind.api_version(), &kind.kind), cluster.clone())
}

fn set_type(mut body: Value, api_version: &str, kind: &str) -> Value {
    if let Some(map) = body.as_object_mut() {
        map.insert("apiVersion".to_owned(), json!(api_version));
        map.insert("kind".to_owned(), json!(kind));
    }
    body
}
