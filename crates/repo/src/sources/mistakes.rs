//! Mistakes in objects of Flux and Argo CD, and in folders of clusters, with which less is built than is meant.

use std::collections::BTreeSet;

use federate_file_tree::is_within;
use federate_gitops::{FluxCharts, MisspeltRepository, is_argo_source, is_flux_source, list_served_versions};
use federate_kubernetes::finding::join_names;
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::{Cluster, Finding, Object, Severity};

use crate::RepoFiles;
use crate::config::{CLUSTER_PLACEHOLDER, SourcePath};

/// The most names that a finding has.
const MAX_NAMES: usize = 5;

/// The warning about an object whose API version its controller does not serve.
pub(super) fn review_version(object: &Object) -> Option<Finding> {
    let served = list_served_versions(object);
    let version = object.id.api_version.rsplit('/').next().unwrap_or_default();
    if served.contains(&version) {
        return None;
    }
    let (group, newest) = (object.id.group(), served.first()?);
    let message = format!(
        "no release of the controller serves {} in the version `{version}`, so that it carries out nothing; it is built here",
        object.id
    );
    let finding = Finding::warning("unserved-version", object, message).with_pointer("/apiVersion");
    Some(finding.with_help(format!("write `{group}/{newest}`")))
}

/// The warning about an object of Flux that names a repository that is not there, while one with nearly this name is.
pub(super) fn review_repository(object: &Object, repositories: &FluxCharts<'_>) -> Option<Finding> {
    let MisspeltRepository { pointer, named, similar } = repositories.find_misspelt(object)?;
    let message = format!("{} names {named}, which the repo does not have", object.id);
    let finding = Finding::warning("unknown-reference", object, message).with_pointer(pointer);
    Some(finding.with_help(format!("did you mean {similar}?")))
}

/// An item of `sources` with a folder for each cluster.
pub(super) struct FoldersOfClusters<'f> {
    /// The item, and its key.
    pub(super) index: usize,
    pub(super) key: &'static str,
    /// The folder, with a placeholder for the cluster.
    pub(super) pattern: &'f str,
    /// The clusters that have one.
    pub(super) found: BTreeSet<&'f str>,
}

impl FoldersOfClusters<'_> {
    /// The warning about folders beside these that are built for no cluster. `built` are the files that something was built from.
    pub(super) fn review(
        &self,
        files: &RepoFiles,
        clusters: &[Cluster],
        built: &BTreeSet<&str>,
    ) -> Option<Finding> {
        let (start, end) = self.pattern.split_once(CLUSTER_PLACEHOLDER)?;
        let suffix = end.split('/').next().unwrap_or_default();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for object in files.written_objects() {
            let below = object.origin.file.strip_prefix(start).and_then(|rest| rest.split_once('/'));
            let name = below.and_then(|(folder, _)| folder.strip_suffix(suffix));
            // At the root, the folders beside those of clusters are those of everything else.
            let is_like_others = !start.is_empty() || is_flux_source(object) || is_argo_source(object);
            names.extend(name.filter(|name| !name.is_empty() && is_like_others));
        }
        let sources = files.config().sources.iter();
        let others: Vec<&str> = sources
            .flat_map(|source| {
                let built = [&source.kustomize, &source.chart].map(|path| match path {
                    Some(SourcePath::Path(path)) => Some(path.as_str()),
                    _ => None,
                });
                [source.flux.as_deref(), source.argocd.as_deref()].into_iter().chain(built)
            })
            .flatten()
            .map(|path| path.trim_start_matches("./"))
            .collect();
        names.retain(|name| {
            let folder = format!("{start}{name}{suffix}");
            let is_built = built.iter().any(|file| is_within(file, &folder));
            !self.found.contains(name) && !is_built && !others.iter().any(|path| is_within(path, &folder))
        });
        let first = names.first()?;
        let folders: Vec<String> = names.iter().map(|name| format!("`{start}{name}{suffix}`")).collect();
        let folders = join_names(&folders.iter().map(String::as_str).collect::<Vec<_>>(), MAX_NAMES);
        let Self { index, key, pattern, .. } = self;
        let known: Vec<&str> = clusters.iter().map(|cluster| &*cluster.name).collect();
        let (why, help) = if known.contains(first) {
            (
                "it is not complete",
                "add what is missing in it, or list the folder in .federateignore".to_owned(),
            )
        } else {
            let help = match find_similar(first, &known) {
                Some(near) => format!("did you mean the cluster `{near}`?"),
                None => format!(
                    "add the cluster `{first}` to the inventory, or list the folder in .federateignore"
                ),
            };
            ("the inventory has no cluster of that name", help)
        };
        let message = format!("nothing is built of {folders} by `{key}: {pattern}`, because {why}");
        let pointer = format!("/sources/{index}/{key}");
        let at = files.locate_config(&pointer);
        let finding = files.config_finding("unknown-cluster", at, &pointer, &message, Some(help));
        Some(Finding { severity: Severity::Warning, ..finding })
    }
}
