//! What the objects of a repo ask for.

use std::collections::{BTreeMap, BTreeSet};

use federate_file_tree::{CachedTree, FileTree};
use federate_gitops::{
    ArgoReader, ChartReference, FluxCharts, GenerationUsage, VendoredCharts, is_argo_source,
};
use federate_kubernetes::{Cluster, Finding};
use federate_repo::RepoFiles;

/// A remote chart, with the objects that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartRequest {
    /// The chart.
    pub reference: ChartReference,
    /// The objects.
    pub used_by: BTreeSet<String>,
}

/// The remote charts that the objects of Flux and Argo CD in a repo name, sorted, and what is wrong about these objects.
/// `ApplicationSet`s are generated for `clusters`.
pub fn list_requests(
    files: &RepoFiles,
    tree: &dyn FileTree,
    clusters: &[Cluster],
) -> (Vec<ChartRequest>, Vec<Finding>) {
    let tree = CachedTree::new(tree);
    let usage = GenerationUsage::default();
    let vendored = VendoredCharts::new(&tree);
    let flux = FluxCharts::new(files.written_objects());
    let argo = ArgoReader { tree: &tree, clusters, usage: &usage, vendored: &vendored };
    let mut requests: BTreeMap<ChartReference, BTreeSet<String>> = BTreeMap::new();
    let mut findings = Vec::new();
    for object in files.written_objects() {
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
    let requests =
        requests.into_iter().map(|(reference, used_by)| ChartRequest { reference, used_by }).collect();
    (requests, findings)
}
