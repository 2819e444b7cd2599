//! Reads what is placed now as the intent: clusters by name. What differs between clusters is found by comparing
//! manifests.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::ObjectRef;
use federate_kubernetes::finding::format_count;
use federate_repo::Role;
use federate_session::Session;
use serde_json::Value;

use crate::Reason;
use crate::intent::{
    ClusterRule, PlacementIntent, RepoIntent, Suspended, TemplateIntent, TemplateSource, unequal_rule,
};
use crate::placed::find_placed;
use crate::read::kubefed;

/// Reads the intent of each object.
pub(crate) fn read_intent(session: &Session, sources: &BTreeSet<&'static str>) -> RepoIntent {
    let mut intent = RepoIntent::default();
    let embedded = EmbeddedObjects::find(session, sources);
    for (object, placed) in find_placed(session, sources) {
        let own = session.repo().find_template(object);
        let source = match embedded.find_object(object) {
            Some(source) => source,
            None if own.is_some() => TemplateSource::Own,
            None => continue,
        };
        let id = source.identity_of(object);
        intent.templates.push(TemplateIntent::unchanged(object.clone(), id.clone(), source));
        let origin = own.map(|own| &own.object.origin);
        let detail = format_count(placed.clusters.len(), "cluster");
        intent.add_unequal(object, unequal_rule(Reason::Frozen, detail, origin, ""));
        if placed.clusters.is_empty() {
            continue;
        }
        let suspension = match placed.unsent.intersection(&placed.clusters).cloned().collect::<BTreeSet<_>>()
        {
            none if none.is_empty() => Suspended::Nowhere,
            all if all == placed.clusters => Suspended::Everywhere,
            some => Suspended::In(some),
        };
        let clusters = ClusterRule::from_names(placed.clusters.iter().map(ToString::to_string));
        intent.placements.push(PlacementIntent {
            suspension,
            is_preserved: true,
            ..PlacementIntent::from_object(id, clusters)
        });
    }
    intent
}

/// The objects that are parts of other objects.
pub(crate) struct EmbeddedObjects(BTreeMap<ObjectRef, TemplateSource>);

impl EmbeddedObjects {
    /// Finds them in the objects of these dialects.
    pub(crate) fn find(session: &Session, sources: &BTreeSet<&'static str>) -> Self {
        let mut found = BTreeMap::new();
        let claimed = session.repo().claimed.iter();
        for claimed in claimed.filter(|claimed| sources.contains(claimed.dialect)) {
            let object = &claimed.object;
            let mut inner = Vec::new();
            if claimed.role != Role::Inventory {
                collect_objects(&object.body, &mut String::new(), true, &mut inner);
            }
            for InnerObject { pointer, id, body } in inner {
                let source = TemplateSource::Embedded { origin: object.origin.clone(), pointer, body };
                found.entry(id).or_insert(source);
            }
        }
        if sources.contains("kubefed") {
            found.extend(kubefed::find_templates(session));
        }
        Self(found)
    }

    /// The object of this identity.
    pub(crate) fn find_object(&self, object: &ObjectRef) -> Option<TemplateSource> {
        self.0.get(object).cloned()
    }
}

/// An object inside another one.
struct InnerObject {
    pointer: String,
    id: ObjectRef,
    body: Value,
}

/// Collects the whole objects below a value.
fn collect_objects(value: &Value, pointer: &mut String, is_root: bool, out: &mut Vec<InnerObject>) {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if !is_root && !text("apiVersion").is_empty() && !text("kind").is_empty() && !name.is_empty() {
        let id = federate_kubernetes::Object::from_manifest(value.clone(), "").id;
        out.push(InnerObject { pointer: pointer.clone(), id, body: value.clone() });
        return;
    }
    let length = pointer.len();
    let mut visit = Vec::new();
    match value {
        Value::Object(map) => visit.extend(map.iter().map(|(key, value)| (key.clone(), value))),
        Value::Array(items) => {
            visit.extend(items.iter().enumerate().map(|(index, value)| (index.to_string(), value)));
        }
        _ => {}
    }
    for (key, value) in visit {
        pointer.push('/');
        pointer.push_str(&federate_kubernetes::pointer::escape(&key));
        collect_objects(value, pointer, false, out);
        pointer.truncate(length);
    }
}

impl TemplateSource {
    /// The identity of the object on the new side.
    pub(crate) fn identity_of(&self, old: &ObjectRef) -> ObjectRef {
        match self {
            Self::Own | Self::Rendered { .. } => old.clone(),
            Self::Embedded { body, .. } => {
                let id = federate_kubernetes::Object::from_manifest(body.clone(), "").id;
                ObjectRef { namespace: old.namespace.clone(), ..id }
            }
        }
    }
}
