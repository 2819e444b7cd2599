//! Compares live objects as they are listed, as text, with the rendered ones.
//!
//! What federate does not own (the status, defaults of other fields) is not read at all. Of what it owns, the text is
//! compared with that of a cluster whose object was found to be unchanged, if the same object is rendered for several
//! clusters; only if it differs is it read.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::autoscaled_fields::SCALE_SUBRESOURCE;
use super::cached_create::UnchangedText;
use super::cluster::DecisionContext;
use super::desired_objects::DesiredObject;
use super::listed_object::ListedObject;
use super::owned_fields::{FieldsV1, is_same_value, same_fields, same_object};
use super::settings::DecisionSettings;
use federate_engine::autoscalers::Autoscalers;
use federate_kubernetes::{Cluster, Object, ObjectRef};

/// Whether objects of a kind must be read whole before others are compared: decisions about others depend on them.
pub fn is_read_first(group: &str, kind: &str) -> bool {
    Autoscalers::is_autoscaler(group, kind)
}

/// Compares the listed objects of a cluster with the rendered ones.
pub struct ListedObjectComparison<'c> {
    context: &'c DecisionContext<'c>,
    cluster: &'c Cluster,
    desired: BTreeMap<&'c ObjectRef, &'c DesiredObject>,
    autoscalers: Autoscalers,
    /// What the manifests of unchanged objects have in place of what is not read.
    head: Value,
}

impl DecisionContext<'_> {
    /// Prepares comparing the listed objects of a cluster; `None` where values are needed. `first` has the objects that
    /// are [read first](is_read_first).
    pub fn prepare_comparison<'c>(
        &'c self,
        cluster: &'c Cluster,
        first: &[Object],
    ) -> Option<ListedObjectComparison<'c>> {
        // Reports of all fields, and of resulting objects, show what is live.
        if self.settings.full || self.settings.results {
            return None;
        }
        let rendered = || self.desired.rendered_for(&cluster.name);
        let bodies = rendered().map(|desired| (&desired.object, &*desired.body));
        let autoscalers =
            Autoscalers::from_objects(first.iter().map(|object| (&object.id, &object.body)).chain(bodies));
        let desired = rendered().map(|desired| (&desired.object, desired)).collect();
        // Without managers, the label alone makes a member.
        let head = self.settings.apply_set.with_label(&json!({}));
        Some(ListedObjectComparison { context: self, cluster, desired, autoscalers, head })
    }
}

impl ListedObjectComparison<'_> {
    /// If a listed object is one that is rendered, is managed, and is as it was applied last: a manifest of it that only
    /// says of which `ApplySet` it is a member. `None` where that cannot be known from its text.
    pub fn membership_stub(&self, id: &ObjectRef, listed: &ListedObject<'_>) -> Option<Value> {
        let desired = self.desired.get(id)?;
        let metadata = &listed.metadata;
        let is_unchanged = metadata.deletion_timestamp.is_none()
            && !self.autoscalers.has_target(id)
            && metadata.managed_fields.iter().all(|entry| entry.subresource != SCALE_SUBRESOURCE)
            && self.context.keeps_applied(self.cluster, id)
            && is_listed_as_applied(listed, desired, &self.context.settings);
        is_unchanged.then(|| self.head.clone())
    }
}

/// Whether federate owns the fields of the rendered object and no others, and they have the same values.
pub(super) fn is_listed_as_applied(
    listed: &ListedObject<'_>,
    desired: &DesiredObject,
    settings: &DecisionSettings<'_>,
) -> bool {
    // What people have added to it is not in the fields that federate owns.
    let entries = &listed.metadata.managed_fields;
    if entries.iter().any(|entry| settings.managers.takes_from(&entry.manager, &entry.subresource)) {
        return false;
    }
    let version = desired.body.get("apiVersion").and_then(Value::as_str);
    let own = entries.iter().find(|entry| entry.is_own());
    let own = own.filter(|own| version == Some(&own.api_version)).and_then(|own| own.fields);
    let own = own.map(RawValue::get);
    let (Some(own), Some(body)) = (own, desired.body.as_object()) else { return false };
    let metadata = desired.cached_create.labelled_metadata(&desired.body, settings);
    if let Some(seen) = desired.cached_create.unchanged.get()
        && seen.fields == own
        && seen.owned.iter().all(|(key, text)| listed.field_text(key) == Some(text))
    {
        return seen.metadata.iter().all(|(key, text)| listed.metadata.field_text(key) == Some(text))
            || same_metadata(&seen.of_metadata, listed, metadata);
    }
    let Ok(fields) = serde_json::from_str::<FieldsV1>(own) else { return false };
    let is_same = same_object(&fields, body, Some(metadata), |key, fields, body| {
        if key == "metadata" {
            return same_metadata(fields, listed, body);
        }
        parse_json(listed.field_text(key)).is_some_and(|live| is_same_value(fields, &live, body))
    });
    // Metadata that federate does not own at all is not compared.
    if let (true, 2.., Some(Value::Object(of_metadata))) =
        (is_same, desired.clusters.len(), fields.get("f:metadata"))
    {
        desired.cached_create.unchanged.get_or_init(|| UnchangedText {
            fields: own.to_owned(),
            of_metadata: of_metadata.clone(),
            metadata: owned_texts(of_metadata, |key| listed.metadata.field_text(key)),
            owned: owned_texts(&fields, |key| listed.field_text(key)),
        });
    }
    is_same
}

/// The same for its metadata.
fn same_metadata(fields: &FieldsV1, listed: &ListedObject<'_>, rendered: &Value) -> bool {
    let rendered = rendered.as_object().filter(|_| !fields.is_empty());
    rendered.is_some_and(|rendered| {
        same_fields(fields, rendered, &["name", "namespace"], |key, fields, body| {
            parse_json(listed.metadata.field_text(key)).is_some_and(|live| is_same_value(fields, &live, body))
        })
    })
}

fn parse_json(text: Option<&str>) -> Option<Value> {
    serde_json::from_str(text?).ok()
}

/// The texts of the owned fields.
fn owned_texts<'t>(fields: &FieldsV1, text: impl Fn(&str) -> Option<&'t str>) -> Vec<(String, String)> {
    let keys = fields.keys().filter_map(|key| key.strip_prefix("f:"));
    keys.filter_map(|key| Some((key.to_owned(), text(key)?.to_owned()))).collect()
}
