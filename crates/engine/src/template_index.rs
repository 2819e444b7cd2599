//! Templates by their object: those of the repo, and those in objects of control planes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use federate_dialect::CarriedTemplate;
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::Repo;

use crate::Engine;

/// A template in an object of a control plane, such as a federated object, an envelope or a work.
#[derive(Clone, Debug)]
pub struct LocatedTemplate<'r> {
    /// The object that contains it.
    pub carrier: &'r Object,
    /// Where it is in that.
    pub pointer: String,
    /// The object in the member clusters.
    pub object: ObjectRef,
}

impl<'r> LocatedTemplate<'r> {
    /// Its text, which may lack its identity.
    fn body(&self) -> Option<&'r Value> {
        self.carrier.body.pointer(&self.pointer)
    }

    /// Its text with its identity.
    pub fn to_manifest(&self) -> Option<Value> {
        let mut body = self.body()?.as_object()?.clone();
        body.insert("apiVersion".to_owned(), self.object.api_version.as_str().into());
        body.insert("kind".to_owned(), self.object.kind.as_str().into());
        let metadata = body.entry("metadata").or_insert_with(|| json!({}));
        metadata.as_object_mut()?.insert("name".to_owned(), self.object.name.as_str().into());
        Some(Value::Object(body))
    }
}

/// The templates of a repo by their object.
#[derive(Clone, Debug)]
pub struct TemplateIndex<'r> {
    repo: &'r Repo,
    /// In the order of the control planes, and of their own objects.
    carried: Vec<LocatedTemplate<'r>>,
    /// Indexes of the first of each object.
    by_object: BTreeMap<ObjectRef, usize>,
}

impl<'r> TemplateIndex<'r> {
    /// Finds the objects that contain templates.
    pub fn new(repo: &'r Repo, carried: Vec<CarriedTemplate>) -> Self {
        let mut index = Self { repo, carried: Vec::new(), by_object: BTreeMap::new() };
        if carried.is_empty() {
            return index;
        }
        let claimed = repo.claimed.iter().map(|claimed| (&claimed.object.id, &claimed.object));
        let carriers: BTreeMap<&ObjectRef, &Object> = claimed.collect();
        for one in carried {
            let Some(carrier) = carriers.get(&one.carrier) else { continue };
            index.by_object.entry(one.object.clone()).or_insert(index.carried.len());
            index.carried.push(LocatedTemplate { carrier, pointer: one.pointer, object: one.object });
        }
        index
    }

    /// All templates in objects of control planes.
    pub fn carried(&self) -> &[LocatedTemplate<'r>] {
        &self.carried
    }

    /// The first template of an object in an object of a control plane.
    pub fn find_carried(&self, object: &ObjectRef) -> Option<&LocatedTemplate<'r>> {
        self.carried.get(*self.by_object.get(object)?)
    }

    /// The text of the template of an object. One in an object of a control plane may lack its identity.
    pub fn find_body(&self, object: &ObjectRef) -> Option<&'r Value> {
        let template = self.repo.find_template(object).map(|template| &template.object.body);
        template.or_else(|| self.find_carried(object)?.body())
    }
}

impl<'a> Engine<'a> {
    /// Finds the templates of the repo.
    pub fn index_templates(&self) -> TemplateIndex<'a> {
        TemplateIndex::new(self.repo, self.list_carried_templates())
    }

    /// The templates that objects of all control planes contain.
    pub fn list_carried_templates(&self) -> Vec<CarriedTemplate> {
        self.planners.iter().flat_map(|(_, planner)| planner.advice().carried_templates()).collect()
    }
}
