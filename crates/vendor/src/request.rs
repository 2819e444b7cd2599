//! What the objects and kustomizations of a repo ask for.

use std::collections::{BTreeMap, BTreeSet};

use federate_file_tree::{CachedTree, FileTree};
use federate_gitops::{
    ArgoReader, ArgoSettings, FluxCharts, GenerationUsage, KUSTOMIZATIONS, RemoteReference, VendoredSources,
    is_argo_source, list_kustomization_references,
};
use federate_kubernetes::{Cluster, Finding, Object, Severity};
use federate_repo::{Repo, RepoFiles};
use federate_yaml::Position;

/// A remote chart or base, with the objects and files that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorRequest {
    /// The chart or base.
    pub reference: RemoteReference,
    /// The objects and files.
    pub used_by: BTreeSet<String>,
}

/// The remote charts and bases that the objects of Flux and Argo CD and the kustomizations in a repo name, sorted, and what is wrong
/// about these. `ApplicationSet`s are generated for `clusters`. Where `sources` names objects of Flux or Argo CD, what they were found
/// to name in `repo` counts, whose objects may be patched by others; elsewhere, what is written.
pub fn list_requests(
    files: &RepoFiles,
    tree: &dyn FileTree,
    clusters: &[Cluster],
    repo: &Repo,
) -> (Vec<VendorRequest>, Vec<Finding>) {
    let tree = CachedTree::new(tree);
    let usage = GenerationUsage::default();
    let vendored = VendoredSources::new(&tree);
    let flux = FluxCharts::new(files.written_objects());
    let settings = ArgoSettings::default();
    let argo = ArgoReader::new(&tree, clusters, files.written_objects(), &settings, &usage, &vendored);
    let mut requests: BTreeMap<RemoteReference, BTreeSet<String>> = repo.references.clone();
    let mut findings = repo.wrong_references.clone();
    let sources = &repo.config.sources;
    let follows_argo = sources.iter().any(|source| source.argocd.is_some());
    let follows_flux = sources.iter().any(|source| source.flux.is_some());
    let is_followed = |object: &Object| if is_argo_source(object) { follows_argo } else { follows_flux };
    for object in files.written_objects().filter(|object| !is_followed(object)) {
        let found = if is_argo_source(object) {
            argo.list_charts(object)
        } else {
            flux.find_reference(object).map(|reference| reference.into_iter().collect())
        };
        match found {
            Ok(references) => {
                for reference in references {
                    requests.entry(reference).or_default().insert(object.id.to_string());
                }
            }
            Err(error) => findings.push(error.into_finding(object)),
        }
    }
    for (path, text) in files.written_texts().filter(|(path, _)| is_kustomization(path)) {
        for (line, found) in list_kustomization_references(text) {
            match found {
                Ok(reference) => {
                    requests.entry(reference).or_default().insert(path.to_string());
                }
                Err(error) => {
                    let at = (line > 0).then_some(Position { line, column: 1 });
                    let found = Finding::in_file(Severity::Error, "build-failed", path, at, error.why);
                    findings.push(Finding { help: error.help, ..found });
                }
            }
        }
    }
    let requests =
        requests.into_iter().map(|(reference, used_by)| VendorRequest { reference, used_by }).collect();
    (requests, findings)
}

fn is_kustomization(path: &str) -> bool {
    KUSTOMIZATIONS.contains(&path.rsplit('/').next().unwrap_or_default())
}
