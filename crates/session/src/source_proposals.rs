//! The `sources` of `federate.yaml` for charts that nothing names, and for kustomizations of which one must be chosen.

use std::collections::{BTreeMap, BTreeSet};

use federate_repo::{BuildRoot, BuildTool};
use serde_json::{Value, json};

use crate::Session;
use crate::source_review::Provided;

/// The places where charts keep values for a cluster, from the folder of the chart.
const CLUSTER_VALUES: [&str; 2] = ["values-{cluster}.yaml", "values/{cluster}.yaml"];

/// What builds kustomizations that give the same objects: one for all clusters, or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenKustomization {
    /// The folder.
    pub(crate) folder: String,
    /// The folders of the clusters, with `{cluster}` for their names, if the folders are named after clusters.
    pub(crate) overlays: Option<String>,
}

impl ChosenKustomization {
    /// Chooses from the folders of kustomizations that build the same objects.
    pub(crate) fn from_folders(folders: &[String], clusters: &BTreeSet<&str>) -> Self {
        let first = folders.first().map_or("", String::as_str);
        let above = split_folder(first).0;
        let names_clusters = folders.iter().all(|folder| {
            let (parent, last) = split_folder(folder);
            parent == above && clusters.contains(last)
        });
        let overlays = names_clusters.then(|| join_path(above, "{cluster}"));
        Self { folder: first.to_owned(), overlays }
    }
}

/// A source to add to `federate.yaml`.
#[derive(Clone, Debug)]
pub struct SourceProposal {
    /// The item of `sources`.
    pub entry: Value,
    /// The folders that build the same and are not chosen.
    pub not_chosen: Vec<String>,
}

impl Session {
    /// The sources that `federate.yaml` lacks, for clusters with these names.
    pub fn propose_sources(&self, clusters: &BTreeSet<&str>) -> Vec<SourceProposal> {
        let builds = &self.repo().builds;
        let provided = Provided::new(self);
        let charts = builds.iter().filter(|build| build.tool == BuildTool::Helm);
        let charts = charts.filter(|build| !provided.has_chart(&build.name));
        let mut proposals: Vec<SourceProposal> = charts
            .map(|chart| SourceProposal {
                entry: self.propose_chart(chart, clusters),
                not_chosen: Vec::new(),
            })
            .collect();
        proposals
            .extend(group_alternatives(builds).into_iter().map(|folders| propose_choice(&folders, clusters)));
        proposals
    }

    fn propose_chart(&self, chart: &BuildRoot, clusters: &BTreeSet<&str>) -> Value {
        let folder = if chart.folder.is_empty() { "." } else { &chart.folder };
        let mut entry = json!({"chart": folder, "release": chart.name, "namespace": "default"});
        let patterns = CLUSTER_VALUES.map(|pattern| join_path(&chart.folder, pattern));
        let has_values = |pattern: &&String| {
            clusters
                .iter()
                .any(|name| self.repo().texts.contains_key(pattern.replace("{cluster}", name).as_str()))
        };
        let values: Vec<String> =
            patterns.iter().filter(has_values).map(|pattern| format!("{pattern}?")).collect();
        if !values.is_empty() {
            entry["perCluster"] = json!([{ "values": values }]);
        }
        entry
    }
}

fn propose_choice(folders: &[String], clusters: &BTreeSet<&str>) -> SourceProposal {
    let chosen = ChosenKustomization::from_folders(folders, clusters);
    let mut entry = json!({ "kustomize": chosen.folder });
    let not_chosen = match &chosen.overlays {
        Some(overlays) => {
            entry["perCluster"] = overlays.as_str().into();
            Vec::new()
        }
        None => folders.iter().filter(|folder| **folder != chosen.folder).cloned().collect(),
    };
    SourceProposal { entry, not_chosen }
}

/// The folders of kustomizations that build the same objects, in groups.
fn group_alternatives(builds: &[BuildRoot]) -> Vec<Vec<String>> {
    let mut sets: Vec<BTreeSet<String>> =
        builds.iter().map(|build| build.alternatives.iter().cloned().collect()).collect();
    // Without the program, their files show what they seem to build.
    let mut by_object: BTreeMap<(&str, &str, Option<&str>, &str), BTreeSet<String>> = BTreeMap::new();
    let unbuilt = builds.iter().filter(|build| build.tool == BuildTool::Kustomize && !build.is_built);
    for build in unbuilt.filter(|build| build.alternatives.is_empty()) {
        for object in &build.objects {
            by_object.entry(object.id.unversioned()).or_default().insert(build.folder.clone());
        }
    }
    sets.extend(by_object.into_values());
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for mut set in sets.into_iter().filter(|set| set.len() > 1) {
        let (joined, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| !group.is_disjoint(&set));
        groups = others;
        set.extend(joined.into_iter().flatten());
        groups.push(set);
    }
    groups.sort();
    groups.into_iter().map(|group| group.into_iter().collect()).collect()
}

/// The parent of a folder, and its name.
fn split_folder(folder: &str) -> (&str, &str) {
    folder.rsplit_once('/').unwrap_or(("", folder))
}

fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
