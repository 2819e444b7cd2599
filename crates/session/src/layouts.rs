//! How repos of Flux and Argo CD say which clusters there are: the folders of `flux bootstrap`, and the destinations of Applications.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_kubernetes::Object;
use federate_kubernetes::names::safe_cluster;
use federate_kubernetes::object::pointer_text;
use federate_repo::config::CLUSTER_PLACEHOLDER;
use federate_repo::normalize_path;
use serde_json::{Value, json};

use crate::Session;
use crate::source_proposals::name_by_cluster;

/// The file that `flux bootstrap` writes, in a folder `flux-system` below that of a cluster.
const BOOTSTRAP_FILE: &str = "flux-system/gotk-sync.yaml";

/// The most paths that are listed one by one.
const MAX_PATHS: usize = 8;

/// What the objects of a tool say about clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolLayout {
    /// The names of clusters, sorted.
    pub clusters: BTreeSet<String>,
    /// The items of `sources`, which place what they build.
    pub sources: Vec<Value>,
    /// The paths of the repo that Flux reads, as `paths` of the configuration; none if they are not known.
    pub paths: Vec<String>,
    /// Whether the sources are those of one cluster, and leave to the user which one that is.
    pub is_one_cluster: bool,
    /// Whether an Application goes to the cluster in which Argo CD runs, which no object names.
    pub uses_own_cluster: bool,
}

impl Session {
    /// What the objects of Flux and Argo CD in the repo say about clusters; `None` if there are none that do.
    pub fn find_tool_layout(&self) -> Option<ToolLayout> {
        self.find_flux_layout().or_else(|| self.find_flux_roots()).or_else(|| self.find_argocd_layout())
    }

    /// All objects of the repo that are no policies, also those that kustomize builds from.
    fn list_objects(&self) -> Vec<&Object> {
        let repo = self.repo();
        let templates = repo.templates.iter().map(|template| &template.object);
        templates.chain(repo.builds.iter().flat_map(|build| &build.objects)).collect()
    }

    /// The file and the path of each Kustomization of Flux. The same name in the folders of several clusters is no duplicate here.
    fn read_kustomizations(&self) -> Vec<(&str, String)> {
        let texts = self.repo().texts.iter();
        texts
            .filter(|(path, text)| is_yaml(path) && contains(text, b"kustomize.toolkit.fluxcd.io"))
            .flat_map(|(file, text)| {
                let documents = federate_yaml::read_stream(text).documents.into_iter();
                let values = documents.map(|document| document.value);
                let of_flux = values.filter(|value| {
                    pointer_text(value, "/apiVersion").starts_with("kustomize.toolkit.fluxcd.io/")
                        && pointer_text(value, "/kind") == "Kustomization"
                });
                of_flux.map(|value| {
                    (&**file, pointer_text(&value, "/spec/path").trim_start_matches('/').to_owned())
                })
            })
            .collect()
    }

    /// The paths from which Flux begins and that Kustomizations name: the rest of the repo is of other programs. None if a
    /// Kustomization names a path that the repo does not have, as in an artifact.
    fn find_flux_paths(&self, root: &str, kustomizations: &[(&str, String)]) -> Vec<String> {
        let texts = &self.repo().texts;
        let mut paths: BTreeSet<String> = [root.replace(CLUSTER_PLACEHOLDER, "*")].into();
        for (_, path) in kustomizations {
            let Ok(path) = normalize_path(path) else { return Vec::new() };
            let below = format!("{path}/");
            let mut first = texts.range(Arc::<str>::from(&*below)..);
            if path.is_empty() || !first.next().is_some_and(|(file, _)| file.starts_with(&below)) {
                return Vec::new();
            }
            paths.insert(path);
        }
        let all: Vec<String> = paths.iter().cloned().collect();
        paths.retain(|path| {
            !all.iter()
                .any(|above| path.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('/')))
        });
        if paths.len() > MAX_PATHS {
            paths = paths.iter().map(|path| path.split('/').next().unwrap_or(path).to_owned()).collect();
        }
        paths.into_iter().collect()
    }

    /// The folders with the Kustomizations of Flux that no other one applies, where `flux bootstrap` wrote no file: those of
    /// clusters, if their paths differ in the name of a folder, or that of one cluster.
    fn find_flux_roots(&self) -> Option<ToolLayout> {
        let kustomizations = self.read_kustomizations();
        let applied: BTreeSet<String> = kustomizations
            .iter()
            .filter_map(|(_, path)| normalize_path(path).ok())
            .filter(|path| !path.is_empty())
            .collect();
        let is_applied = |file: &str| {
            file.match_indices('/').any(|(at, _)| file.get(..at).is_some_and(|above| applied.contains(above)))
        };
        let folders: BTreeSet<String> = kustomizations
            .iter()
            .map(|(file, _)| *file)
            .filter(|file| !is_applied(file))
            .map(|file| file.rsplit_once('/').map_or("", |(above, _)| above).to_owned())
            .collect();
        let folders: Vec<String> = folders.into_iter().collect();
        match folders.as_slice() {
            [] => None,
            [folder] => Some(ToolLayout {
                paths: self.find_flux_paths(folder, &kustomizations),
                sources: vec![json!({ "flux": if folder.is_empty() { "." } else { folder } })],
                is_one_cluster: true,
                ..ToolLayout::default()
            }),
            _ => {
                let pattern = name_by_cluster(&folders, |name| safe_cluster(name).is_ok())?;
                let (start, end) = pattern.split_once(CLUSTER_PLACEHOLDER)?;
                let names = folders.iter().filter_map(|folder| folder.strip_prefix(start)?.strip_suffix(end));
                Some(ToolLayout {
                    clusters: names.map(str::to_owned).collect(),
                    paths: self.find_flux_paths(&pattern, &kustomizations),
                    sources: vec![json!({ "flux": pattern })],
                    ..ToolLayout::default()
                })
            }
        }
    }

    /// The folders of clusters, each with the Kustomization by which Flux begins.
    fn find_flux_layout(&self) -> Option<ToolLayout> {
        let mut folders: BTreeSet<String> = BTreeSet::new();
        for (path, text) in &self.repo().texts {
            if let Some(above) = path.strip_suffix(BOOTSTRAP_FILE) {
                folders.insert(above.trim_end_matches('/').to_owned());
            } else if contains(text, b"FluxInstance") {
                let documents = federate_yaml::read_stream(text).documents.into_iter();
                let instances = documents.map(|document| document.value);
                let paths = instances.filter(|value| pointer_text(value, "/kind") == "FluxInstance");
                folders.extend(paths.filter_map(|value| {
                    let path = pointer_text(&value, "/spec/sync/path").trim_start_matches('/').to_owned();
                    normalize_path(&path).ok()
                }));
            }
        }
        let mut layout = ToolLayout::default();
        let mut patterns: BTreeSet<String> = BTreeSet::new();
        for folder in &folders {
            let (above, name) = folder.rsplit_once('/').unwrap_or(("", folder));
            if safe_cluster(name).is_err() {
                continue;
            }
            layout.clusters.insert(name.to_owned());
            patterns.insert(join_path(above, CLUSTER_PLACEHOLDER));
        }
        if let [pattern] = patterns.iter().collect::<Vec<_>>().as_slice() {
            layout.paths = self.find_flux_paths(pattern, &self.read_kustomizations());
        }
        layout.sources = patterns.into_iter().map(|pattern| json!({ "flux": pattern })).collect();
        (!layout.sources.is_empty()).then_some(layout)
    }

    /// The folder of all Applications and `ApplicationSet`s, and the clusters that they and cluster Secrets name.
    fn find_argocd_layout(&self) -> Option<ToolLayout> {
        let objects = self.list_objects();
        let describing = objects.iter().copied().filter(|object| federate_gitops::is_argo_source(object));
        let mut layout = ToolLayout::default();
        let mut folder: Option<String> = None;
        for object in describing {
            let own = object.origin.file.rsplit_once('/').map_or("", |(above, _)| above);
            folder =
                Some(folder.map_or_else(|| own.to_owned(), |folder| shared_folder(&folder, own).to_owned()));
            let spec = if object.id.kind == "Application" { "/spec" } else { "/spec/template/spec" };
            let name = pointer_text(&object.body, &format!("{spec}/destination/name"));
            let server = pointer_text(&object.body, &format!("{spec}/destination/server"));
            if name == "in-cluster" || server == "https://kubernetes.default.svc" {
                layout.uses_own_cluster = true;
            } else if !name.contains("{{") && safe_cluster(name).is_ok() {
                layout.clusters.insert(name.to_owned());
            }
        }
        let folder = folder?;
        for object in objects {
            if object.id.kind == "Secret" && object.label("argocd.argoproj.io/secret-type") == Some("cluster")
            {
                let name = pointer_text(&object.body, "/stringData/name");
                layout.clusters.extend(safe_cluster(name).is_ok().then(|| name.to_owned()));
            }
        }
        layout.sources = vec![json!({ "argocd": if folder.is_empty() { "." } else { &folder } })];
        Some(layout)
    }
}

/// The deepest folder that holds both.
fn shared_folder<'a>(a: &'a str, b: &str) -> &'a str {
    let parts = a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b);
    let length: usize = parts.map(|(part, _)| part.len() + 1).sum();
    a.get(..length.saturating_sub(1)).unwrap_or_default()
}

fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn is_yaml(path: &str) -> bool {
    matches!(path.rsplit_once('.'), Some((_, "yaml" | "yml")))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::shared_folder;

    #[test]
    fn folders_share_whole_names() {
        for (a, b, shared) in [
            ("a/b", "a/c", "a"),
            ("a/b", "a/b", "a/b"),
            ("ab", "ac", ""),
            ("", "a", ""),
            ("a/b/c", "a/b", "a/b"),
        ] {
            assert_eq!(shared_folder(a, b), shared, "{a} {b}");
        }
    }
}
