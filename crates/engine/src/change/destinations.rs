//! The Applications of Argo CD, and the objects of Flux with `kubeConfig`, that appear, go, or are applied to other clusters.
//! Manifests tell only what that changes in clusters: not which Application a set no longer generates, nor that another one has
//! taken its objects over.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::ObjectChangeKind;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_repo::Repo;

/// An Application, or an object of Flux with `kubeConfig`, that appears, goes, or is applied to other clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestinationChange {
    /// The object. An Application may be one that no file contains, because a set generates it.
    pub object: ObjectRef,
    /// The `ApplicationSet` that generates it; left out if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated_by: Option<ObjectRef>,
    /// Whether only one side has it, or both.
    pub kind: ObjectChangeKind,
    /// The clusters to which it is applied on the earlier side, sorted; none if there it does not exist, or goes to the cluster in
    /// which Argo CD runs, and it is not known which one that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub from: Vec<ClusterName>,
    /// The same on the later side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub to: Vec<ClusterName>,
}

/// An object that is applied to clusters.
#[derive(Default)]
struct AppliedObject<'r> {
    generated_by: Option<&'r ObjectRef>,
    /// Whether it says to which cluster it is applied; else to that of its controller.
    names_cluster: bool,
    clusters: BTreeSet<&'r ClusterName>,
}

/// What differs between the destinations of two revisions of a repo, sorted by object.
pub fn find_destination_changes(from: &Repo, to: &Repo) -> Vec<DestinationChange> {
    let [before, after] = [from, to].map(list_applied);
    let objects: BTreeSet<&ObjectRef> = before.keys().chain(after.keys()).collect();
    let changes = objects.into_iter().filter_map(|object| {
        let sides = [before.get(object), after.get(object)];
        if !sides.iter().flatten().any(|side| side.names_cluster) {
            return None;
        }
        let kind = match sides {
            [Some(old), Some(new)]
                if (old.names_cluster, &old.clusters) == (new.names_cluster, &new.clusters) =>
            {
                return None;
            }
            [Some(_), Some(_)] => ObjectChangeKind::Changed,
            [Some(_), None] => ObjectChangeKind::Removed,
            [None, _] => ObjectChangeKind::Added,
        };
        let [old, new] = sides.map(|side| {
            side.into_iter().flat_map(|side| &side.clusters).map(|name| (*name).clone()).collect()
        });
        let generated_by = sides.into_iter().flatten().next_back().and_then(|side| side.generated_by);
        Some(DestinationChange {
            object: object.clone(),
            generated_by: generated_by.cloned(),
            kind,
            from: old,
            to: new,
        })
    });
    changes.collect()
}

/// The objects that are applied to clusters. One that has several sources, or is in several clusters with Argo CD, is
/// applied to all of their clusters.
fn list_applied(repo: &Repo) -> BTreeMap<ObjectRef, AppliedObject<'_>> {
    let mut applied: BTreeMap<ObjectRef, AppliedObject<'_>> = BTreeMap::new();
    for source in &repo.sources {
        let (destination, by) = match (&source.destination, &source.described_by) {
            (Some(destination), Some(by)) => (destination, by),
            // Without `kubeConfig`, an object of Flux is there, too.
            (None, Some(by)) if by.kind != "ApplicationSet" => {
                applied.entry(by.clone()).or_default();
                continue;
            }
            _ => continue,
        };
        let is_set = by.kind == "ApplicationSet";
        let kind = if is_set { "Application".to_owned() } else { by.kind.clone() };
        let object = ObjectRef { kind, name: destination.name.clone(), ..by.clone() };
        let applied = applied.entry(object).or_default();
        applied.generated_by = is_set.then_some(by);
        applied.names_cluster = true;
        applied.clusters.extend(destination.clusters.iter().flatten());
    }
    applied
}
