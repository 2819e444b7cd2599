//! How repos of Flux and Argo CD say which clusters there are: the folders of `flux bootstrap`, and the destinations of Applications.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_gitops::name_kubeconfig_cluster;
use federate_kubernetes::Object;
use federate_kubernetes::names::safe_cluster;
use federate_kubernetes::object::pointer_text;
use federate_kubernetes::schema::find_nearest;
use federate_repo::config::CLUSTER_PLACEHOLDER;
use federate_repo::{BuildTool, Role, normalize_path};
use serde_json::{Value, json};

use crate::Session;
use crate::source_proposals::name_by_cluster;

/// The file that `flux bootstrap` writes, in a folder `flux-system` below that of a cluster.
const BOOTSTRAP_FILE: &str = "flux-system/gotk-sync.yaml";

/// The most paths that are listed one by one.
const MAX_PATHS: usize = 8;

/// Names of folders that say what is in them, not of which cluster it is.
const COMMON_FOLDERS: [&str; 19] = [
    "apps",
    "base",
    "bootstrap",
    "cluster",
    "clusters",
    "config",
    "deploy",
    "flux",
    "flux-system",
    "gitops",
    "infra",
    "infrastructure",
    "k8s",
    "kubernetes",
    "manifests",
    "overlays",
    "setup",
    "sync",
    "system",
];

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
    /// The clusters that may be others, by their names.
    pub doubtful: Vec<DoubtfulCluster>,
}

/// A cluster to which an Application goes and that no cluster Secret and no inventory knows, while they know one of nearly this name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoubtfulCluster {
    /// The name in the Application.
    pub name: String,
    /// The name that is known.
    pub similar: String,
    /// The Application, and where it is.
    pub named_by: String,
}

impl DoubtfulCluster {
    /// What is doubtful, in a sentence.
    pub fn describe(&self) -> String {
        let Self { name, similar, named_by } = self;
        format!(
            "{named_by} goes to the cluster `{name}`, which no cluster Secret and no inventory names: did you mean `{similar}`?"
        )
    }
}

/// What the objects of Flux say about where it begins.
#[derive(Default)]
struct FluxFacts<'s> {
    /// The file and the path of each Kustomization whose path is one.
    kustomizations: Vec<(&'s str, String)>,
    /// The folders that Flux was set up with.
    roots: BTreeSet<String>,
    /// The clusters to which a Kustomization is applied by a kubeconfig.
    remote_clusters: BTreeSet<String>,
}

impl<'s> FluxFacts<'s> {
    fn add_document(&mut self, file: &'s str, value: &Value) {
        let api_version = pointer_text(value, "/apiVersion");
        // An instance of the operator of Flux: the object, the values of its chart, or a file of these.
        let instance = match pointer_text(value, "/kind") {
            "Kustomization" if api_version.starts_with("kustomize.toolkit.fluxcd.io/") => {
                let path = pointer_text(value, "/spec/path").trim_start_matches('/');
                if let Ok(path) = normalize_path(path) {
                    self.kustomizations.push((file, path));
                }
                if let Some(config) = value.pointer("/spec/kubeConfig") {
                    let name = name_kubeconfig_cluster(config, pointer_text(value, "/metadata/namespace"));
                    self.remote_clusters.extend(safe_cluster(name).is_ok().then(|| name.to_owned()));
                }
                return;
            }
            "FluxInstance" => "/spec/sync/path",
            "HelmRelease" => "/spec/values/instance/sync/path",
            "" => "/instance/sync/path",
            _ => return,
        };
        let path = pointer_text(value, instance).trim_start_matches('/');
        self.roots.extend(normalize_path(path).ok().filter(|path| !path.is_empty()));
    }

    /// The paths of the Kustomizations that lie in them, and in that of no other one: they are applied by hand once.
    fn list_own_roots(&self) -> BTreeSet<String> {
        let applied: BTreeSet<&str> = self.kustomizations.iter().map(|(_, path)| &**path).collect();
        let of_themselves = self.kustomizations.iter().filter(|(file, path)| {
            let mut above = list_folders_above(file).filter(|folder| applied.contains(folder));
            !path.is_empty() && above.next() == Some(path) && above.next().is_none()
        });
        of_themselves.map(|(_, path)| path.clone()).collect()
    }

    /// The folders of the Kustomizations that no other one applies.
    fn list_first_folders(&self) -> BTreeSet<String> {
        let applied: BTreeSet<&str> =
            self.kustomizations.iter().map(|(_, path)| &**path).filter(|path| !path.is_empty()).collect();
        let files = self.kustomizations.iter().map(|(file, _)| *file);
        let first = files.filter(|file| !list_folders_above(file).any(|folder| applied.contains(folder)));
        first.map(|file| file.rsplit_once('/').map_or("", |(above, _)| above).to_owned()).collect()
    }
}

/// The folders in which a file lies, the outermost first, without the root.
fn list_folders_above(file: &str) -> impl Iterator<Item = &str> {
    file.match_indices('/').filter_map(|(at, _)| file.get(..at))
}

/// The name of the cluster in the path of a folder, and the path with `{cluster}` in its place: the last folder whose name does not
/// say what is in it.
fn find_cluster_name(folder: &str) -> Option<(String, String)> {
    let mut parts: Vec<&str> = folder.split('/').collect();
    let is_name = |part: &&str| !COMMON_FOLDERS.contains(part) && safe_cluster(part).is_ok();
    let at = parts.iter().rposition(is_name)?;
    let name = std::mem::replace(parts.get_mut(at)?, CLUSTER_PLACEHOLDER).to_owned();
    Some((parts.join("/"), name))
}

/// A folder, without what follows the name of a cluster below `clusters`.
fn cut_below_cluster(folder: &str) -> String {
    let parts: Vec<&str> = folder.split('/').collect();
    let end = parts.iter().rposition(|part| *part == "clusters").map_or(parts.len(), |at| at + 2);
    parts.get(..end).unwrap_or(&parts).join("/")
}

impl Session {
    /// What the objects of Flux and Argo CD in the repo say about clusters; `None` if there are none that do.
    pub fn find_tool_layout(&self) -> Option<ToolLayout> {
        self.find_flux_layout().or_else(|| {
            let objects = self.list_objects();
            let describing: Vec<&Object> =
                objects.iter().copied().filter(|object| federate_gitops::is_argo_source(object)).collect();
            lay_out_argocd(self.cluster_names(), &describing, &objects)
        })
    }

    /// The layout of the `ApplicationSet`s that read the decisions of the control plane: they deliver what it decides.
    pub fn find_decision_layout(&self) -> Option<ToolLayout> {
        let kept = self.repo().claimed.iter().filter(|claimed| claimed.role == Role::ControlPlane);
        let describing: Vec<&Object> = kept
            .map(|claimed| &claimed.object)
            .filter(|object| federate_gitops::is_argo_source(object))
            .collect();
        lay_out_argocd(self.cluster_names(), &describing, &[])
    }

    fn cluster_names(&self) -> BTreeSet<&str> {
        self.clusters().iter().map(|cluster| &*cluster.name).collect()
    }

    /// All objects of the repo that are no policies, also those that kustomize builds from.
    fn list_objects(&self) -> Vec<&Object> {
        let repo = self.repo();
        let templates = repo.templates.iter().map(|template| &template.object);
        // What a chart contains says nothing before it is built.
        let builds = repo.builds.iter().filter(|build| build.tool == BuildTool::Kustomize);
        templates.chain(builds.flat_map(|build| &build.objects)).collect()
    }

    /// What Kustomizations and instances of Flux say, read from their files: the same name in the folders of several clusters is no
    /// duplicate here.
    fn read_flux_facts(&self) -> FluxFacts<'_> {
        let mut facts = FluxFacts::default();
        for (file, text) in &self.repo().texts {
            if let Some(above) = file.strip_suffix(BOOTSTRAP_FILE) {
                facts.roots.insert(above.trim_end_matches('/').to_owned());
            }
            let is_read =
                is_yaml(file) && (contains(text, b"kustomize.toolkit.fluxcd.io") || contains(text, b"sync:"));
            if is_read {
                let documents = federate_yaml::read_stream(text).documents.into_iter();
                documents.for_each(|document| facts.add_document(file, &document.value));
            }
        }
        facts.roots.retain(|root| self.has_folder(root));
        facts
    }

    fn has_folder(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let mut first = self.repo().texts.range(Arc::<str>::from(&*below)..);
        path.is_empty() || first.next().is_some_and(|(file, _)| file.starts_with(&below))
    }

    /// The paths from which Flux begins and that Kustomizations name: the rest of the repo is of other programs. None if a
    /// Kustomization names a path that the repo does not have, as in an artifact.
    fn find_flux_paths(&self, root: &str, facts: &FluxFacts<'_>) -> Vec<String> {
        let mut paths: BTreeSet<String> = [root.replace(CLUSTER_PLACEHOLDER, "*")].into();
        for (_, path) in &facts.kustomizations {
            if path.is_empty() || !self.has_folder(path) {
                return Vec::new();
            }
            paths.insert(path.clone());
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

    /// The folders from which Flux begins: those that it was set up with, those that apply themselves, or else those with the
    /// Kustomizations that no other one applies.
    fn find_flux_layout(&self) -> Option<ToolLayout> {
        let facts = self.read_flux_facts();
        let roots = if facts.roots.is_empty() { facts.list_own_roots() } else { facts.roots.clone() };
        if !roots.is_empty() {
            return self.lay_out_flux(&roots, &facts);
        }
        let roots: BTreeSet<String> =
            facts.list_first_folders().iter().map(|folder| cut_below_cluster(folder)).collect();
        let folders: Vec<String> = roots.iter().cloned().collect();
        if let ([_, _, ..], Some(pattern)) =
            (&*folders, name_by_cluster(&folders, |name| safe_cluster(name).is_ok()))
        {
            let (start, end) = pattern.split_once(CLUSTER_PLACEHOLDER)?;
            let names = folders.iter().filter_map(|folder| folder.strip_prefix(start)?.strip_suffix(end));
            return Some(ToolLayout {
                clusters: names.map(str::to_owned).chain(facts.remote_clusters.iter().cloned()).collect(),
                paths: self.find_flux_paths(&pattern, &facts),
                sources: vec![json!({ "flux": pattern })],
                ..ToolLayout::default()
            });
        }
        match folders.as_slice() {
            [folder] if folder.split('/').any(|part| part == "clusters") => self.lay_out_flux(&roots, &facts),
            [folder] => Some(self.lay_out_one_cluster(folder, &facts)),
            _ => None,
        }
    }

    /// The layout with a folder that does not say which cluster it is for.
    fn lay_out_one_cluster(&self, folder: &str, facts: &FluxFacts<'_>) -> ToolLayout {
        ToolLayout {
            clusters: facts.remote_clusters.clone(),
            paths: self.find_flux_paths(folder, facts),
            sources: vec![json!({ "flux": if folder.is_empty() { "." } else { folder } })],
            is_one_cluster: true,
            ..ToolLayout::default()
        }
    }

    /// The layout with these folders, each that of a cluster.
    fn lay_out_flux(&self, roots: &BTreeSet<String>, facts: &FluxFacts<'_>) -> Option<ToolLayout> {
        let mut layout = ToolLayout { clusters: facts.remote_clusters.clone(), ..ToolLayout::default() };
        let mut patterns: BTreeSet<String> = BTreeSet::new();
        for root in roots {
            if let Some((pattern, name)) = find_cluster_name(root) {
                layout.clusters.insert(name);
                patterns.insert(pattern);
            }
        }
        if let (true, 1, Some(root)) = (patterns.is_empty(), roots.len(), roots.first()) {
            return Some(self.lay_out_one_cluster(root, facts));
        }
        if let [pattern] = patterns.iter().collect::<Vec<_>>().as_slice() {
            layout.paths = self.find_flux_paths(pattern, facts);
        }
        layout.sources = patterns.into_iter().map(|pattern| json!({ "flux": pattern })).collect();
        (!layout.sources.is_empty()).then_some(layout)
    }
}

/// The folder of these Applications and `ApplicationSet`s, and the clusters that they and the cluster Secrets among `objects` name,
/// beside those of the inventory. `None` if there are none.
fn lay_out_argocd(
    inventory: BTreeSet<&str>,
    describing: &[&Object],
    objects: &[&Object],
) -> Option<ToolLayout> {
    let mut layout = ToolLayout::default();
    let mut named: Vec<(&str, &Object)> = Vec::new();
    let mut folder: Option<String> = None;
    for object in describing {
        let own = object.origin.file.rsplit_once('/').map_or("", |(above, _)| above);
        folder = Some(folder.map_or_else(|| own.to_owned(), |folder| shared_folder(&folder, own).to_owned()));
        let spec = if object.id.kind == "Application" { "/spec" } else { "/spec/template/spec" };
        let name = pointer_text(&object.body, &format!("{spec}/destination/name"));
        let server = pointer_text(&object.body, &format!("{spec}/destination/server"));
        if name == "in-cluster" || server == "https://kubernetes.default.svc" {
            layout.uses_own_cluster = true;
        } else if !name.contains("{{") && safe_cluster(name).is_ok() {
            layout.clusters.insert(name.to_owned());
            named.push((name, object));
        }
    }
    let folder = folder?;
    let mut known = inventory;
    for object in objects {
        if object.id.kind == "Secret" && federate_gitops::is_argo_setting(object) {
            let name = pointer_text(&object.body, "/stringData/name");
            known.insert(name);
            layout.clusters.extend(safe_cluster(name).is_ok().then(|| name.to_owned()));
        }
    }
    let known: Vec<&str> = known.into_iter().collect();
    let doubtful = named.into_iter().filter(|(name, _)| !known.contains(name)).filter_map(|(name, by)| {
        let similar = find_nearest(name, &known)?.to_owned();
        let named_by = format!("{} ({}:{})", by.id, by.origin.file, by.origin.line);
        Some(DoubtfulCluster { name: name.to_owned(), similar, named_by })
    });
    layout.doubtful = doubtful.collect();
    layout.sources = vec![json!({ "argocd": if folder.is_empty() { "." } else { &folder } })];
    Some(layout)
}

/// The deepest folder that holds both.
fn shared_folder<'a>(a: &'a str, b: &str) -> &'a str {
    let parts = a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b);
    let length: usize = parts.map(|(part, _)| part.len() + 1).sum();
    a.get(..length.saturating_sub(1)).unwrap_or_default()
}

fn is_yaml(path: &str) -> bool {
    matches!(path.rsplit_once('.'), Some((_, "yaml" | "yml")))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::{cut_below_cluster, find_cluster_name, shared_folder};

    #[test]
    fn clusters_are_named_in_paths() {
        for (folder, pattern, name) in [
            ("clusters/eu-1", "clusters/{cluster}", "eu-1"),
            ("kubernetes/clusters/prod/config", "kubernetes/clusters/{cluster}/config", "prod"),
            ("kubernetes/main/flux", "kubernetes/{cluster}/flux", "main"),
            ("hub", "{cluster}", "hub"),
        ] {
            let found = find_cluster_name(folder);
            assert_eq!(found, Some((pattern.to_owned(), name.to_owned())), "{folder}");
        }
        assert_eq!(find_cluster_name("kubernetes/flux/cluster"), None);
        assert_eq!(find_cluster_name(""), None);
        assert_eq!(cut_below_cluster("k8s/clusters/prod/apps"), "k8s/clusters/prod");
        assert_eq!(cut_below_cluster("k8s/prod/apps"), "k8s/prod/apps");
    }

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
