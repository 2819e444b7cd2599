//! Compares live objects as they are listed: as text of which only the metadata is read. Most objects of most runs are
//! unchanged, and are never made into values.
//!
//! What federate does not own (the status, defaults of other fields) is not read at all. Of what it owns, the text is
//! compared with that of a cluster whose object was found to be unchanged, if the same object is rendered for several
//! clusters; only if it differs is it read.

use std::collections::BTreeMap;

use serde_json::Value;

use super::autoscaled::Autoscalers;
use super::cluster::{DecisionContext, Desired};
use super::decide::Rules;
use super::unchanged::{Fields, is_deleting, own_entry, same_field, same_object};
use federate_dialect::Placement;
use federate_kubernetes::{Cluster, Object, ObjectRef};

/// A listed object.
#[derive(Debug)]
pub struct ListedObject<'t> {
    /// The object with its type and its metadata, in which field sets are JSON text.
    pub head: &'t Object,
    /// Its other fields, as JSON text.
    pub rest: &'t [(String, &'t str)],
}

impl<'t> ListedObject<'t> {
    fn text(&self, key: &str) -> Option<&'t str> {
        self.rest.iter().find(|(name, _)| name == key).map(|(_, text)| *text)
    }
}

/// The owned fields of an unchanged object, as text.
#[derive(Clone, Debug)]
pub(super) struct UnchangedText {
    /// The field set of federate.
    fields: String,
    /// The part of it that is about metadata.
    of_metadata: Fields,
    /// All other owned fields of the object.
    owned: Vec<(String, String)>,
}

/// Whether objects of a kind must be read whole before others are compared: decisions about others depend on them.
pub fn is_read_first(group: &str, kind: &str) -> bool {
    Autoscalers::are(group, kind)
}

/// Compares the listed objects of a cluster with the rendered ones.
pub struct Comparison<'c> {
    context: &'c DecisionContext<'c>,
    cluster: &'c Cluster,
    desired: BTreeMap<&'c ObjectRef, &'c Desired>,
    placements: BTreeMap<&'c ObjectRef, &'c Placement>,
    autoscalers: Autoscalers,
}

impl DecisionContext<'_> {
    /// Prepares comparing the listed objects of a cluster; `None` where values are needed. `first` has the objects that
    /// are [read first](is_read_first).
    pub fn comparison<'c>(&'c self, cluster: &'c Cluster, first: &[Object]) -> Option<Comparison<'c>> {
        // Reports of all fields, and of resulting objects, show what is live.
        if self.rules.full || self.rules.results {
            return None;
        }
        let rendered = self.rendered(cluster);
        let bodies = rendered.iter().map(|desired| (&desired.object, &*desired.body));
        let autoscalers =
            Autoscalers::of(first.iter().map(|object| (&object.id, &object.body)).chain(bodies));
        let desired = rendered.iter().map(|desired| (&desired.object, *desired)).collect();
        Some(Comparison { context: self, cluster, desired, placements: self.placements(), autoscalers })
    }
}

impl Comparison<'_> {
    /// Whether a listed object is one that is rendered, is managed, and is as it was applied last. `false` where that
    /// cannot be known from its text.
    pub fn is_unchanged(&self, listed: &ListedObject<'_>) -> bool {
        let (id, live) = (&listed.head.id, &listed.head.body);
        let Some(desired) = self.desired.get(id) else { return false };
        let keeps_applied = || {
            let placement = self.placements.get(id);
            placement.is_some_and(|row| self.context.engine.keeps_applied(row, self.cluster))
        };
        !is_deleting(live)
            && !self.autoscalers.may_scale(id, live)
            && keeps_applied()
            && is_applied(listed, desired, self.context.rules)
    }
}

/// Whether federate owns the fields of the rendered object and no others, and they have the same values.
pub(super) fn is_applied(listed: &ListedObject<'_>, desired: &Desired, rules: &Rules<'_>) -> bool {
    let live = &listed.head.body;
    let own = own_entry(live, &desired.body).and_then(|entry| entry.get("fieldsV1")?.as_str());
    let (Some(own), Some(body)) = (own, desired.body.as_object()) else { return false };
    let metadata = desired.cached_create.metadata(&desired.body, rules);
    let same_metadata = |fields: &Fields, rendered: &Value| {
        let live = live.get("metadata");
        live.is_some_and(|live| same_field("metadata", (fields, live, rendered)))
    };
    if let Some(seen) = desired.cached_create.unchanged.get()
        && seen.fields == own
        && seen.owned.iter().all(|(key, text)| listed.text(key) == Some(text))
    {
        return same_metadata(&seen.of_metadata, metadata);
    }
    let Ok(fields) = serde_json::from_str::<Fields>(own) else { return false };
    let same = same_object((&fields, body), Some(metadata), |key, fields, body| {
        if key == "metadata" {
            return same_metadata(fields, body);
        }
        let live = listed.text(key).and_then(|text| serde_json::from_str::<Value>(text).ok());
        live.is_some_and(|live| same_field(key, (fields, &live, body)))
    });
    // Metadata that federate does not own at all is not compared.
    if let (true, 2.., Some(Value::Object(of_metadata))) =
        (same, desired.clusters.len(), fields.get("f:metadata"))
    {
        desired.cached_create.unchanged.get_or_init(|| {
            let owned = fields.keys().filter_map(|key| key.strip_prefix("f:"));
            let text = |key: &str| Some((key.to_owned(), listed.text(key)?.to_owned()));
            UnchangedText {
                fields: own.to_owned(),
                of_metadata: of_metadata.clone(),
                owned: owned.filter_map(text).collect(),
            }
        });
    }
    same
}

/// A listed object without what only comparing it needs: its metadata without the field sets.
pub fn shortened(mut head: Object) -> Object {
    let managers = head.body.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in managers.into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.swap_remove("fieldsV1");
    }
    head
}
