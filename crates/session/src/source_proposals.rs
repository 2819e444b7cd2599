//! The `sources` of `federate.yaml` for charts that nothing names, and for kustomizations of which one must be chosen.

use std::collections::{BTreeMap, BTreeSet};

use federate_gitops::KUSTOMIZATIONS;
use federate_repo::config::{CLUSTER_PLACEHOLDER, is_release_name};
use federate_repo::file_tree::join_path;
use federate_repo::{BuildRoot, BuildTool, Repo};
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

/// Folders whose folders are named after clusters or environments.
const ENVIRONMENT_FOLDERS: [&str; 9] =
    ["cluster", "clusters", "env", "environments", "envs", "overlays", "regions", "stages", "tenants"];

/// Usual names of environments.
const ENVIRONMENTS: [&str; 12] = [
    "dev",
    "development",
    "integration",
    "live",
    "prd",
    "prod",
    "production",
    "qa",
    "stage",
    "staging",
    "test",
    "uat",
];

/// The most clusters that are guessed: folders that are more are of something else.
const MAX_GUESSED: usize = 12;

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
        let groups = group_alternatives(builds);
        // Those of environments may build what has the name of each in it.
        for folders in list_environments(self.repo(), &groups) {
            let named =
                |folder: &String| folder.rsplit('/').next().is_some_and(|name| clusters.contains(name));
            let folders: Vec<String> = folders.into_iter().filter(named).collect();
            if folders.len() > 1 {
                let chosen = ChosenKustomization::from_folders(&folders, clusters);
                proposals.push(SourceProposal::Source(chosen.to_entry()));
            }
        }
        proposals.extend(groups.into_iter().map(|folders| {
            let chosen = ChosenKustomization::from_folders(&folders, clusters);
            match chosen.overlays {
                Some(_) => SourceProposal::Source(chosen.to_entry()),
                None => SourceProposal::Choice(folders),
            }
        }));
        proposals
    }

    /// The names of clusters that the folders of kustomizations show, where no one names clusters; none if they show none.
    pub fn guess_clusters(&self) -> BTreeSet<String> {
        guess_names(self.repo())
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

/// The names of clusters that the folders of kustomizations show, where no one names clusters: those by which folders differ that
/// build the same objects, or that lie in a folder of environments. None if the folders of the repo differ in many ways.
fn guess_names(repo: &Repo) -> BTreeSet<String> {
    let groups = group_alternatives(&repo.builds);
    let environments = list_environments(repo, &groups);
    let mut sets: BTreeMap<BTreeSet<String>, usize> = BTreeMap::new();
    for folders in groups.iter().cloned().chain(environments) {
        let Some(pattern) = name_by_cluster(&folders, |_| true) else { continue };
        let Some((start, end)) = pattern.split_once(CLUSTER_PLACEHOLDER) else { continue };
        let names = folders.iter().filter_map(|folder| folder.strip_prefix(start)?.strip_suffix(end));
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        let above = start.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let is_named_so = ENVIRONMENT_FOLDERS.contains(&above)
            || names.iter().any(|name| ENVIRONMENTS.contains(&name.as_str()));
        let is_version = names.iter().any(|name| is_version(name));
        if names.len() <= MAX_GUESSED && !is_version {
            *sets.entry(names).or_default() += if is_named_so { 2 } else { 1 };
        }
    }
    // One that is named once, in a place that says nothing, may be anything.
    sets.retain(|_, votes| *votes > 1);
    let all: usize = sets.values().sum();
    let mut left: Vec<(BTreeSet<String>, usize)> = sets.into_iter().collect();
    left.sort_by_key(|(names, votes)| (*votes, names.len()));
    let Some((mut guessed, mut votes)) = left.pop() else { return BTreeSet::new() };
    // An environment may lack in some folders.
    loop {
        let (joined, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(names, _)| !names.is_disjoint(&guessed));
        votes += joined.iter().map(|(_, votes)| votes).sum::<usize>();
        let known = guessed.len();
        guessed.extend(joined.into_iter().flat_map(|(names, _)| names));
        if guessed.len() == known || guessed.len() > MAX_GUESSED {
            break;
        }
        left = others;
    }
    if votes * 2 >= all && guessed.len() <= MAX_GUESSED { guessed } else { BTreeSet::new() }
}

/// Whether a name ends in a version (`stable-1.2`), as those of channels do.
fn is_version(name: &str) -> bool {
    let mut parts = name.rsplit(['-', 'v']).next().unwrap_or_default().split('.');
    let is_number = |part: &str| part == "x" || part.bytes().all(|byte| byte.is_ascii_digit());
    name.contains('.') && parts.all(|part| !part.is_empty() && is_number(part))
}

/// A name of a release that is like that of a chart.
fn release_name(chart: &str) -> String {
    let name =
        chart.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.', "-");
    let name = name.get(..name.len().min(53)).unwrap_or_default().trim_matches(['-', '.']).to_owned();
    if is_release_name(&name) { name } else { "release".to_owned() }
}

/// The folders of kustomizations beside each other in a folder of environments, in groups, unless one of them is in these groups.
fn list_environments(repo: &Repo, known: &[Vec<String>]) -> Vec<Vec<String>> {
    let known: BTreeSet<&String> = known.iter().flatten().collect();
    let mut groups: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in repo.texts.keys() {
        let Some((folder, name)) = file.rsplit_once('/') else { continue };
        let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
        if KUSTOMIZATIONS.contains(&name)
            && ENVIRONMENT_FOLDERS.contains(&above.rsplit('/').next().unwrap_or_default())
        {
            groups.entry(above).or_default().insert(folder.to_owned());
        }
    }
    let is_new = |folders: &BTreeSet<String>| folders.iter().all(|folder| !known.contains(folder));
    let groups = groups.into_values().filter(|folders| folders.len() > 1 && is_new(folders));
    groups.map(|folders| folders.into_iter().collect()).collect()
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
