//! The works of a set on the hub: how far the clusters are that have its template.
//!
//! Facts: only works whose template is current have a state; others count as not existing, so that a change rolls out anew.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use federate_dialect::rollout::{ClusterUpdate, UpdateState};
use federate_kubernetes::{ClusterName, Object};

use crate::works::{PLACEMENT_NAME_LABEL, SET_LABEL, work_label};

/// The status of a work, as the hub reads it.
struct WorkStatus<'w> {
    work: &'w Object,
}

impl WorkStatus<'_> {
    fn condition(&self, kind: &str) -> Option<&Value> {
        let conditions = self.work.value_at(&["status", "conditions"])?.as_array()?;
        conditions.iter().find(|condition| condition["type"] == kind)
    }

    /// A condition about the current generation of the work.
    fn current(&self, kind: &str) -> Option<(&str, Option<Timestamp>)> {
        let condition = self.condition(kind)?;
        let generation = self.work.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
        let observed = condition["observedGeneration"].as_i64().unwrap_or(0);
        let since = condition["lastTransitionTime"].as_str().and_then(|time| time.parse().ok());
        (observed == generation).then(|| (condition["status"].as_str().unwrap_or_default(), since))
    }

    /// The state of the cluster of the work.
    fn read(&self) -> (UpdateState, Option<Timestamp>) {
        let is_stale = self.condition("Degraded").is_some() && self.current("Degraded").is_none();
        let Some((progressing, since)) = self.current("Progressing") else {
            return (UpdateState::Pending, None);
        };
        if is_stale || self.current("Applied").is_none_or(|(status, _)| status != "True") {
            return (UpdateState::Pending, None);
        }
        match (progressing, self.current("Degraded")) {
            ("True", Some(("True", degraded))) => (UpdateState::Failed, degraded),
            ("True" | "Unknown", _) => (UpdateState::Updating, since),
            ("False", _) => (UpdateState::Updated, since),
            _ => (UpdateState::Pending, None),
        }
    }

    fn to_update(&self, cluster: ClusterName) -> ClusterUpdate {
        let (state, since) = self.read();
        ClusterUpdate { cluster, state, since }
    }
}

/// The works of a set among objects.
pub fn list_works<'w>(set: &Object, objects: impl Iterator<Item = &'w Object>) -> Vec<&'w Object> {
    let own = work_label(&set.id);
    objects.filter(|work| work.label(SET_LABEL) == Some(&own)).collect()
}

/// The works of a set for a placement that have the template of the set, by cluster. `works` are those of the set.
pub fn find_current<'w>(
    set: &Object,
    placement: &str,
    works: &[&'w Object],
) -> BTreeMap<ClusterName, &'w Object> {
    let template = read_template(set.value_at(&["spec", "manifestWorkTemplate"]));
    let of_placement = works.iter().filter(|work| work.label(PLACEMENT_NAME_LABEL) == Some(placement));
    let current = of_placement.filter(|work| read_template(work.value_at(&["spec"])) == template);
    current.map(|work| (cluster_of(work), *work)).collect()
}

/// How far the clusters of works are.
pub fn read_updates(works: &BTreeMap<ClusterName, &Object>) -> Vec<ClusterUpdate> {
    let updates = works.iter().map(|(cluster, work)| WorkStatus { work }.to_update(cluster.clone()));
    updates.collect()
}

/// A template with its defaults.
fn read_template(template: Option<&Value>) -> Value {
    template_with_defaults(template.cloned().unwrap_or(Value::Null))
}

/// The cluster of a work.
pub fn cluster_of(work: &Object) -> ClusterName {
    work.id.namespace.as_deref().unwrap_or_default().into()
}

/// A template with the defaults of its definition.
fn template_with_defaults(mut template: Value) -> Value {
    if let Some(option) = template.get_mut("deleteOption").and_then(Value::as_object_mut) {
        option.entry("propagationPolicy").or_insert_with(|| "Foreground".into());
    }
    let configs = template.get_mut("manifestConfigs").and_then(Value::as_array_mut);
    for config in configs.into_iter().flatten() {
        if let Some(config) = config.as_object_mut() {
            config.entry("feedbackScrapeType").or_insert_with(|| "Poll".into());
        }
        let Some(strategy) = config.get_mut("updateStrategy").and_then(Value::as_object_mut) else {
            continue;
        };
        strategy.entry("type").or_insert_with(|| "Update".into());
        if let Some(apply) = strategy.get_mut("serverSideApply").and_then(Value::as_object_mut) {
            apply.entry("fieldManager").or_insert_with(|| "work-agent".into());
        }
    }
    template
}
