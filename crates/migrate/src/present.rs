//! What is placed now, by the objects of the new side.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::{Cluster, ClusterName, Object, ObjectRef};
use federate_session::Session;
use serde_json::Value;

use crate::intent::{ClusterRule, RepoIntent};
use crate::placed::find_placed;

/// The clusters of a repo, and those that objects have now.
pub(crate) struct PresentState<'s> {
    session: &'s Session,
    clusters: BTreeMap<&'s str, &'s Cluster>,
    /// The old name of each object, and its clusters.
    placed: BTreeMap<ObjectRef, PresentObject>,
}

/// Where an object is.
struct PresentObject {
    old: ObjectRef,
    clusters: BTreeSet<ClusterName>,
}

impl<'s> PresentState<'s> {
    /// Reads what the old control planes have placed of the objects of an intent, in the clusters that are accepted.
    pub(crate) fn new(
        session: &'s Session,
        sources: &BTreeSet<&'static str>,
        intent: &RepoIntent,
        accepts: impl Fn(&str) -> bool,
    ) -> Self {
        let mut placed = find_placed(session, sources);
        let objects = intent.templates.iter().map(|template| {
            let mut clusters = placed.remove(&template.old).unwrap_or_default().clusters;
            clusters.retain(|name| accepts(name));
            (template.id.clone(), PresentObject { old: template.old.clone(), clusters })
        });
        let placed = objects.collect();
        let clusters = session.clusters().iter().map(|cluster| (cluster.name.as_ref(), cluster));
        Self { session, clusters: clusters.collect(), placed }
    }

    /// The name of an object by the old control plane.
    pub(crate) fn old_name<'o>(&'o self, object: &'o ObjectRef) -> &'o ObjectRef {
        self.placed.get(object).map_or(object, |present| &present.old)
    }

    /// The body of an object of the repo by its old name.
    pub(crate) fn find_body(&self, old: &ObjectRef) -> Option<&'s Value> {
        self.session.repo().find_template(old).map(|template| &template.object.body)
    }

    /// The objects of the repo.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &'s Object> {
        self.session.repo().templates.iter().map(|template| &template.object)
    }

    /// The clusters of the repo.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &'s Cluster> {
        self.clusters.values().copied()
    }

    /// A cluster of the repo.
    pub(crate) fn find_cluster(&self, name: &str) -> Option<&'s Cluster> {
        self.clusters.get(name).copied()
    }

    /// The clusters of some objects by name.
    pub(crate) fn name_clusters(&self, objects: &BTreeSet<ObjectRef>) -> ClusterRule {
        let present = objects.iter().filter_map(|object| self.placed.get(object));
        let names = present.flat_map(|present| &present.clusters).map(ToString::to_string);
        ClusterRule::from_names(names.collect::<BTreeSet<String>>())
    }
}
