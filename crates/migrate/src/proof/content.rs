//! What clusters receive of an object, in the form in which two sides are compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use federate_dialect::{ClusterNames, Dialects, HUB};
use federate_engine::replicas::{is_workload, replicas_field};
use federate_engine::{Manifest, ObjectManifests, Rendering, UnsentObject};
use federate_kubernetes::object::field_text;
use federate_kubernetes::{ObjectRef, work};

use crate::remove_bookkeeping;

/// Statuses with which a control plane says that a cluster does not have the object.
const ABSENT_STATUSES: [&str; 2] = ["Deleted", "Evicting"];

/// What clusters receive of one object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RenderedObject<'r> {
    pub(crate) manifests: &'r [Manifest],
    pub(crate) not_sent: &'r [UnsentObject],
}

impl<'r> RenderedObject<'r> {
    /// All manifests of one object.
    pub(crate) fn new(written: &'r ObjectManifests) -> Self {
        Self { manifests: &written.manifests, not_sent: &written.not_sent }
    }

    /// Whether no member receives or keeps it.
    pub(crate) fn is_empty(&self) -> bool {
        let lists = self.manifests.iter().map(|manifest| &manifest.clusters);
        let mut lists = lists.chain(self.not_sent.iter().map(|held| &held.clusters));
        lists.all(|clusters| clusters.iter().all(|name| name.as_ref() == HUB))
    }

    /// The states of the object, each with its clusters.
    pub(super) fn read_states(&self, dialects: Dialects) -> Vec<(ClusterNames, ObjectState)> {
        let sent = self.manifests.iter().map(|manifest| {
            let value = manifest.value.clone().unwrap_or_else(|| parse_manifest(&manifest.text));
            let content = ObjectContent::new(&manifest.object, &value, dialects);
            (Arc::clone(&manifest.clusters), ObjectState::Sent(content))
        });
        let held = self.not_sent.iter().filter(|held| !ABSENT_STATUSES.contains(&held.status));
        let held = held.map(|held| {
            let state = if held.failed { ObjectState::Failed(held.status) } else { ObjectState::Held };
            (Arc::clone(&held.clusters), state)
        });
        sent.chain(held).collect()
    }
}

/// The rendered objects of a side, by object.
pub(super) struct RenderingIndex<'r> {
    rendering: &'r Rendering,
}

impl<'r> RenderingIndex<'r> {
    pub(super) fn new(rendering: &'r Rendering) -> Self {
        Self { rendering }
    }

    /// What clusters receive of an object.
    pub(super) fn find_object(&self, object: &ObjectRef) -> RenderedObject<'r> {
        let Rendering { manifests, not_sent, .. } = self.rendering;
        let start = manifests.partition_point(|manifest| manifest.object < *object);
        let end = manifests.partition_point(|manifest| manifest.object <= *object);
        let from = not_sent.partition_point(|held| held.object < *object);
        let to = not_sent.partition_point(|held| held.object <= *object);
        RenderedObject {
            manifests: manifests.get(start..end).unwrap_or_default(),
            not_sent: not_sent.get(from..to).unwrap_or_default(),
        }
    }
}

/// What a cluster has of an object.
#[derive(Clone, Debug)]
pub(super) enum ObjectState {
    /// The control plane sends it.
    Sent(ObjectContent),
    /// The control plane leaves it as it is: the cluster is not ready, or the placement is suspended.
    Held,
    /// The control plane fails to render it, with its status.
    Failed(&'static str),
}

/// A manifest, with its replicas apart.
#[derive(Clone, Debug)]
pub(super) struct ObjectContent {
    /// Without replicas and without what only control planes read.
    pub(super) body: Value,
    /// The numbers of replicas, by field.
    pub(super) replicas: BTreeMap<&'static str, i64>,
}

impl ObjectContent {
    fn new(object: &ObjectRef, value: &Value, dialects: Dialects) -> Self {
        work::charge_value(value);
        let mut body = value.clone();
        normalize_numbers(&mut body);
        let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata.filter(|_| object.namespace.is_none()) {
            // API servers ignore it.
            metadata.shift_remove("namespace");
        }
        let id = ObjectRef {
            api_version: field_text(&body, "apiVersion").to_owned(),
            kind: field_text(&body, "kind").to_owned(),
            namespace: None,
            name: String::new(),
        };
        remove_bookkeeping(dialects, &mut body);
        let replicas = take_replicas(&id, &mut body);
        Self { body, replicas }
    }

    /// The replicas that a cluster runs; `None` if the object has none.
    pub(super) fn count_replicas(&self) -> Option<i64> {
        self.replicas.values().copied().min()
    }
}

/// Writes integers that API servers read as floating-point numbers like those.
fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(fields) => fields.values_mut().for_each(normalize_numbers),
        Value::Number(number) if number.is_u64() && !number.is_i64() => {
            *value = number.as_f64().into();
        }
        _ => {}
    }
}

/// Takes the numbers of replicas out of a manifest.
fn take_replicas(id: &ObjectRef, body: &mut Value) -> BTreeMap<&'static str, i64> {
    let mut replicas = BTreeMap::new();
    let Some(field) = replicas_field(id) else { return replicas };
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return replicas };
    // The completions of a Job are divided with its parallelism.
    let fields = if field == "parallelism" { vec!["parallelism", "completions"] } else { vec![field] };
    for name in fields {
        if let Some(number) = spec.get(name).and_then(Value::as_i64) {
            spec.shift_remove(name);
            replicas.insert(name, number);
        }
    }
    if is_workload(id) {
        replicas.entry(field).or_insert(1);
    }
    replicas
}

fn parse_manifest(text: &str) -> Arc<Value> {
    let mut stream = federate_yaml::read_stream(text.as_bytes());
    let document = stream.documents.pop().map(|document| document.value);
    Arc::new(document.unwrap_or_else(|| Value::Object(Map::new())))
}
