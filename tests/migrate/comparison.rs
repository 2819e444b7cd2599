//! Compares what clusters receive before and after a migration.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::HUB;
use federate_kubernetes::ObjectRef;
use federate_migrate::{DifferenceKind, MigratedObject, Migration, remove_bookkeeping};
use federate_session::Session;
use serde_json::Value;

/// The numbers that count replicas.
const REPLICAS: [&str; 3] = ["/spec/replicas", "/spec/parallelism", "/spec/completions"];

/// A difference between the sides.
#[derive(Debug)]
#[expect(dead_code, reason = "shown where a test fails")]
pub(crate) struct Difference {
    pub(crate) object: ObjectRef,
    pub(crate) kind: DifferenceKind,
    pub(crate) detail: String,
    /// Whether a rule of the object explains it.
    pub(crate) explained: bool,
}

/// What one side sends: by object and cluster the manifest, which is null where nothing new is sent.
pub(crate) struct Sent(BTreeMap<ObjectRef, BTreeMap<String, Value>>);

impl Sent {
    pub(crate) fn of(session: &Session) -> Self {
        let rendering = session.render();
        let mut sent: BTreeMap<ObjectRef, BTreeMap<String, Value>> = BTreeMap::new();
        for row in &rendering.plan.placements {
            if session.dialects().is_of_control_plane(row.object.group()) {
                continue;
            }
            let clusters = row.clusters.iter().filter(|placed| placed.name.as_ref() != HUB);
            let object = sent.entry(row.object.clone()).or_default();
            object.extend(clusters.map(|placed| (placed.name.to_string(), Value::Null)));
        }
        for manifest in &rendering.manifests {
            let mut body = federate_yaml::read_stream(manifest.text.as_bytes()).documents.remove(0).value;
            remove_bookkeeping(session.dialects(), &mut body);
            let Some(object) = sent.get_mut(&manifest.object) else { continue };
            for cluster in manifest.clusters.iter().filter(|name| name.as_ref() != HUB) {
                object.insert(cluster.to_string(), body.clone());
            }
        }
        // What an override deletes is in no cluster, whatever the plan says.
        for held in rendering.not_sent.iter().filter(|held| held.status == "Deleted") {
            if let Some(object) = sent.get_mut(&held.object) {
                object.retain(|cluster, _| !held.clusters.iter().any(|name| **name == **cluster));
            }
        }
        sent.retain(|_, clusters| !clusters.is_empty());
        Self(sent)
    }
}

/// The differences between two sides.
pub(crate) fn compare(before: &Sent, after: &Sent, migration: &Migration) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut known: BTreeSet<&ObjectRef> = BTreeSet::new();
    let nothing = BTreeMap::new();
    for object in &migration.objects {
        known.extend(&object.new);
        let had = before.0.get(&object.old).unwrap_or(&nothing);
        let has = object.new.as_ref().and_then(|id| after.0.get(id)).unwrap_or(&nothing);
        compare_object(object, had, has, &mut differences);
    }
    let surplus = after.0.keys().filter(|id| !known.contains(id));
    differences.extend(surplus.map(|id| Difference {
        object: id.clone(),
        kind: DifferenceKind::Clusters,
        detail: "only the new side places it".to_owned(),
        explained: false,
    }));
    let listed: BTreeSet<&ObjectRef> = migration.objects.iter().map(|object| &object.old).collect();
    differences.extend(before.0.keys().filter(|id| !listed.contains(id)).map(|id| Difference {
        object: id.clone(),
        kind: DifferenceKind::Clusters,
        detail: "it is not in the migration".to_owned(),
        explained: false,
    }));
    differences
}

fn compare_object(
    object: &MigratedObject,
    had: &BTreeMap<String, Value>,
    has: &BTreeMap<String, Value>,
    out: &mut Vec<Difference>,
) {
    let mut add = |kind: DifferenceKind, detail: String| {
        let explained = object.unequal.iter().any(|rule| rule.reason.explains(kind));
        out.push(Difference { object: object.old.clone(), kind, detail, explained });
    };
    let (were, are): (Vec<&String>, Vec<&String>) = (had.keys().collect(), has.keys().collect());
    if were != are {
        add(DifferenceKind::Clusters, format!("{were:?} became {are:?}"));
    }
    for (cluster, before) in had {
        let Some(after) = has.get(cluster) else { continue };
        if before.is_null() || after.is_null() {
            // Nothing is sent as long as the cluster is not ready.
            continue;
        }
        let (mut before, mut after) = (before.clone(), after.clone());
        for pointer in REPLICAS {
            let [was, is] = [&mut before, &mut after].map(|body| body.pointer_mut(pointer).map(Value::take));
            if was.as_ref().and_then(Value::as_f64) != is.as_ref().and_then(Value::as_f64)
                && !before.is_null()
            {
                add(DifferenceKind::Replicas, format!("{cluster}{pointer}: {was:?} became {is:?}"));
            }
        }
        // Without replicas, one side may have `null` where the other has nothing.
        for body in [&mut before, &mut after] {
            if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
                spec.retain(|_, value| !value.is_null());
            }
        }
        if normal(&before) != normal(&after) {
            add(DifferenceKind::Manifest, format!("{cluster}: {before} became {after}"));
        }
    }
}

/// A value whose numbers are equal if they are equal.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), normal(value))).collect(),
        other => other.clone(),
    }
}
