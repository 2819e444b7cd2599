//! Which clusters serve the kinds of a repo's templates.

use std::collections::BTreeMap;

use federate_kubernetes::{Cluster, ObjectRef};
use federate_repo::Template;

/// For each kind of a template, whether each cluster serves it, in the order of the clusters.
pub struct ServingClusters<'a> {
    /// By API version and kind.
    kinds: BTreeMap<&'a str, BTreeMap<&'a str, Vec<bool>>>,
}

impl<'a> ServingClusters<'a> {
    /// Looks up every kind in every cluster once.
    pub fn from_clusters(templates: &'a [Template], clusters: &[Cluster]) -> Self {
        let mut kinds: BTreeMap<&str, BTreeMap<&str, Vec<bool>>> = BTreeMap::new();
        for ObjectRef { api_version, kind, .. } in templates.iter().map(|template| &template.object.id) {
            kinds.entry(api_version).or_default().entry(kind).or_insert_with(|| {
                clusters.iter().map(|cluster| cluster.apis.serves_kind(api_version, kind)).collect()
            });
        }
        Self { kinds }
    }

    /// Whether each cluster serves the kind of a template; empty for kinds that no template has.
    pub fn get(&self, id: &ObjectRef) -> &[bool] {
        let kinds = self.kinds.get(id.api_version.as_str());
        kinds.and_then(|kinds| kinds.get(id.kind.as_str())).map_or(&[], Vec::as_slice)
    }
}
