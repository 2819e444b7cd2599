//! How repos of Flux and Argo CD say which clusters there are: the folders of `flux bootstrap`, and the destinations of Applications.

use std::collections::BTreeSet;

use federate_kubernetes::Object;
use federate_kubernetes::names::safe_cluster;
use federate_kubernetes::object::pointer_text;
use federate_repo::config::CLUSTER_PLACEHOLDER;
use federate_repo::normalize_path;
use serde_json::{Value, json};

use crate::Session;

/// The file that `flux bootstrap` writes, in a folder `flux-system` below that of a cluster.
const BOOTSTRAP_FILE: &str = "flux-system/gotk-sync.yaml";

/// What the objects of a tool say about clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolLayout {
    /// The names of clusters, sorted.
    pub clusters: BTreeSet<String>,
    /// The items of `sources`, which place what they build.
    pub sources: Vec<Value>,
    /// Whether an Application goes to the cluster in which Argo CD runs, which no object names.
    pub uses_own_cluster: bool,
}

impl Session {
    /// What the objects of Flux and Argo CD in the repo say about clusters; `None` if there are none that do.
    pub fn find_tool_layout(&self) -> Option<ToolLayout> {
        self.find_flux_layout().or_else(|| self.find_argocd_layout())
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
        layout.sources = patterns.into_iter().map(|pattern| json!({ "flux": pattern })).collect();
        (!layout.sources.is_empty()).then_some(layout)
    }

    /// The folder of all Applications and ApplicationSets, and the clusters that they and cluster Secrets name.
    fn find_argocd_layout(&self) -> Option<ToolLayout> {
        let repo = self.repo();
        let templates = repo.templates.iter().map(|template| &template.object);
        let owned = repo.builds.iter().flat_map(|build| &build.objects);
        let objects: Vec<&Object> = templates.chain(owned).collect();
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
