//! The `sources` of `federate.yaml` for charts that nothing names, and for kustomizations of which one must be chosen.

use std::collections::{BTreeMap, BTreeSet};

use federate_repo::config::{CLUSTER_PLACEHOLDER, is_release_name};
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
    /// Whether each cluster has one.
    pub(crate) is_complete: bool,
}

impl ChosenKustomization {
    /// Chooses from the folders of kustomizations that build the same objects.
    pub(crate) fn from_folders(folders: &[String], clusters: &BTreeSet<&str>) -> Self {
        let first = folders.first().map_or("", String::as_str);
        let overlays = name_by_cluster(folders, |name| clusters.contains(name));
        let is_complete = folders.len() >= clusters.len();
        Self { folder: first.to_owned(), overlays, is_complete }
    }

    /// The item of `sources`.
    pub(crate) fn to_entry(&self) -> Value {
        match &self.overlays {
            Some(overlays) if self.is_complete => json!({"kustomize": self.folder, "perCluster": overlays}),
            Some(overlays) => json!({"kustomize": {}, "perCluster": overlays}),
            None => json!({"kustomize": self.folder}),
        }
    }
}

/// The pattern with `{cluster}` of folders that differ in one part of their paths only, if that part is the name of a cluster in
/// each.
pub(crate) fn name_by_cluster(folders: &[String], is_cluster: impl Fn(&str) -> bool) -> Option<String> {
    let paths: Vec<Vec<&str>> = folders.iter().map(|folder| folder.split('/').collect()).collect();
    let first = paths.first()?;
    let is_alike = |at: usize| {
        paths.iter().all(|path| {
            path.len() == first.len()
                && path.iter().zip(first).enumerate().all(|(index, (own, other))| index == at || own == other)
                && path.get(at).is_some_and(|name| is_cluster(name))
        })
    };
    let at = (0..first.len()).rev().find(|at| is_alike(*at))?;
    let mut parts = first.clone();
    *parts.get_mut(at)? = CLUSTER_PLACEHOLDER;
    Some(parts.join("/"))
}

/// What to do about charts that nothing names, and about kustomizations that build the same objects.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceProposal {
    /// An item of `sources` to add to `federate.yaml`.
    Source(Value),
    /// Folders of which one must be chosen.
    Choice(Vec<String>),
}

impl Session {
    /// The sources that `federate.yaml` lacks, for clusters with these names.
    pub fn propose_sources(&self, clusters: &BTreeSet<&str>) -> Vec<SourceProposal> {
        let builds = &self.repo().builds;
        let provided = Provided::new(self);
        let charts = builds.iter().filter(|build| build.tool == BuildTool::Helm);
        let charts = charts.filter(|build| !provided.has_chart(&build.name));
        let mut proposals: Vec<SourceProposal> =
            charts.map(|chart| SourceProposal::Source(self.propose_chart(chart, clusters))).collect();
        proposals.extend(group_alternatives(builds).into_iter().map(|folders| {
            let chosen = ChosenKustomization::from_folders(&folders, clusters);
            match chosen.overlays {
                Some(_) => SourceProposal::Source(chosen.to_entry()),
                None => SourceProposal::Choice(folders),
            }
        }));
        proposals
    }

    fn propose_chart(&self, chart: &BuildRoot, clusters: &BTreeSet<&str>) -> Value {
        let folder = if chart.folder.is_empty() { "." } else { &chart.folder };
        let mut entry =
            json!({"chart": folder, "release": release_name(&chart.name), "namespace": "default"});
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

/// The names of clusters that the folders of kustomizations show, where no one names clusters: those by which folders differ that build the
/// same objects.
pub fn guess_clusters(builds: &[BuildRoot]) -> BTreeSet<String> {
    let groups = group_alternatives(builds);
    let names = groups.iter().filter_map(|folders| {
        let pattern = name_by_cluster(folders, |_| true)?;
        let (start, end) = pattern.split_once(CLUSTER_PLACEHOLDER)?;
        Some(
            folders
                .iter()
                .filter_map(|folder| folder.strip_prefix(start)?.strip_suffix(end))
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    });
    names.flatten().collect()
}

/// A name of a release that is like that of a chart.
fn release_name(chart: &str) -> String {
    let name =
        chart.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.', "-");
    let name = name.get(..name.len().min(53)).unwrap_or_default().trim_matches(['-', '.']).to_owned();
    if is_release_name(&name) { name } else { "release".to_owned() }
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

fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
