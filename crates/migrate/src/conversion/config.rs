//! `federate.yaml` of the new side: the settings of control planes, and what inventory objects have no fields for.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_dialect::import::{ImportEdit, apply_edits};
use federate_kubernetes::{Cluster, Origin};
use serde_json::{Value, json};

use super::{LeftCluster, RepoConversion};
use crate::Reason;
use crate::intent::{RepoIntent, unequal_rule};
use crate::rendering::{build_mapping, claim_object};
use crate::repo_text::{RepoText, is_template_file};

impl RepoConversion<'_> {
    /// Removes the settings of the old control planes, names the release of the new one where they named theirs, and adds where
    /// clusters are, if their new inventory objects do not say so.
    pub(super) fn write_config(&self, text: &mut RepoText<'_>) {
        let mut edits = self.edit_dialects();
        let known = self.read_config_list(text, "clusters");
        let all = self.join_clusters(&known, self.list_additions());
        if all != known {
            let value = Some(all).filter(|all| !all.is_empty()).map(Value::from);
            edits.push(ImportEdit { pointer: "/clusters".to_owned(), value });
        }
        self.edit_config(&edits, text);
    }

    /// Changes `federate.yaml`, which need not exist.
    pub(super) fn edit_config(&self, edits: &[ImportEdit], text: &mut RepoText<'_>) {
        if edits.is_empty() {
            return;
        }
        let file: Arc<str> = self.repo().config_path().into();
        if text.has_file(&file) {
            text.edit_object(&Origin { file, document: 0, item: None, line: 0 }, edits);
        } else {
            let mut value = json!({});
            apply_edits(edits, &mut value);
            text.add_document(&file, &value);
        }
    }

    /// A list of `federate.yaml`.
    pub(super) fn read_config_list(&self, text: &mut RepoText<'_>, key: &str) -> Vec<Value> {
        let file: Arc<str> = self.repo().config_path().into();
        let list = text.first_document(&file).and_then(|config| config.get(key)?.as_array());
        list.cloned().unwrap_or_default()
    }

    /// The clusters of `federate.yaml`, where `added` replace what was said about the clusters of the old control planes. Those that
    /// the new one cannot have are left out.
    pub(super) fn join_clusters(&self, known: &[Value], added: Vec<Value>) -> Vec<Value> {
        let left: BTreeSet<&str> = self.left_clusters().map(|left| left.cluster.name.as_ref()).collect();
        let is_left = |entry: &&Value| {
            let name = entry.get("name").and_then(Value::as_str);
            name.is_some_and(|name| left.contains(name) || !self.accepts_name(name))
        };
        known.iter().filter(|entry| !is_left(entry)).cloned().chain(added).collect()
    }

    fn edit_dialects(&self) -> Vec<ImportEdit> {
        let settings = &self.repo().config.dialects;
        let left: Vec<&str> =
            self.sources.iter().copied().filter(|source| settings.contains_key(*source)).collect();
        if left.is_empty() {
            return Vec::new();
        }
        let mut edits: Vec<ImportEdit> = left
            .iter()
            .map(|source| ImportEdit { pointer: format!("/dialects/{source}"), value: None })
            .collect();
        let target = self.session.dialects().get(self.target.name());
        let release = target.and_then(|dialect| Some(dialect.kinds().releases()?.find_latest().name()));
        match release.filter(|_| !settings.contains_key(self.target.name())) {
            Some(release) => edits.push(ImportEdit {
                pointer: format!("/dialects/{}/version", self.target.name()),
                value: Some(release.into()),
            }),
            None if left.len() == settings.len() => {
                edits = vec![ImportEdit { pointer: "/dialects".to_owned(), value: None }];
            }
            None => {}
        }
        edits
    }

    /// What `federate.yaml` must say about clusters, because their new inventory objects do not.
    fn list_additions(&self) -> Vec<Value> {
        let reads_properties = self.repo().texts.keys().any(|file| is_template_file(file));
        let reads_version = self.has_charts();
        let additions = self.left_clusters().filter_map(|left| {
            let new = self.read_new_cluster(&left)?;
            let old = left.cluster;
            let text = |old: &String, new: &String| if old == new { Value::Null } else { json!(old) };
            let properties = old.properties.iter().filter(|(name, _)| !new.properties.contains_key(*name));
            let properties: serde_json::Map<_, _> = properties
                .filter(|_| reads_properties)
                .map(|(name, value)| (name.clone(), json!(value)))
                .collect();
            let has_version = !reads_version || old.kubernetes == new.kubernetes;
            let addition = build_mapping([
                ("name", json!(old.name)),
                ("provider", text(&old.provider, &new.provider)),
                ("region", text(&old.region, &new.region)),
                ("zones", if old.zones == new.zones { Value::Null } else { json!(old.zones) }),
                ("kubernetesVersion", if has_version { Value::Null } else { json!(old.kubernetes) }),
                ("properties", properties.into()),
            ]);
            addition.as_object().is_some_and(|map| map.len() > 1).then_some(addition)
        });
        additions.collect()
    }

    /// Notes which objects are built from charts that no longer know which APIs clusters serve: no field holds them.
    pub(super) fn note_lost_apis(&self, intent: &mut RepoIntent) {
        let loses_apis = |left: LeftCluster<'_>| {
            self.read_new_cluster(&left).is_some_and(|new| new.apis != left.cluster.apis)
        };
        if !self.has_charts() || !self.left_clusters().any(loses_apis) {
            return;
        }
        let charts = self.repo().sources.iter().filter(|source| source.is_chart);
        for object in charts.flat_map(|source| &source.objects) {
            let Some(own) = self.repo().find_template(object) else { continue };
            let detail = "its chart is built without the APIs that clusters serve";
            let rule = unequal_rule(Reason::ClusterFacts, detail, Some(&own.object.origin), "");
            intent.add_unequal(&own.object.id, rule);
        }
    }

    fn has_charts(&self) -> bool {
        self.repo().sources.iter().any(|source| source.is_chart)
    }

    /// A cluster as its new inventory object describes it.
    fn read_new_cluster(&self, left: &LeftCluster<'_>) -> Option<Cluster> {
        let dialects = self.session.dialects();
        let claimed = claim_object(dialects, &left.value)?;
        dialects.get(claimed.dialect)?.read_cluster(&claimed.object, false, &self.repo().config).ok()
    }
}
