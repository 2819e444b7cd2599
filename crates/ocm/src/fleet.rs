//! The hub's view of its clusters: labels, claims, taints with their times, members of sets.
//!
//! Facts: a cluster without a set is in the set `default`. A taint of the hub says that a cluster is unreachable (its
//! availability is unknown) or unavailable (it is not available); a cluster that is being deleted keeps its taints. A
//! taint without a time was added now.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use jiff::Timestamp;

use federate_kubernetes::{Cluster, ClusterName, Labels, Object, Taint};
use federate_repo::{Repo, Role};

use crate::api::NAME;
use crate::api::PREFER_NO_SELECT;
use crate::api::cluster::ClusterSpec;
pub(crate) use crate::api::{NO_SELECT, NO_SELECT_IF_NEW, TAINT_EFFECTS};
use crate::cel::CelValue;
use crate::cel::cluster::describe_cluster;
use crate::cluster::{self, DEFAULT_SET, SET_LABEL};
use crate::kinds::CLUSTER_GROUP;
use crate::quantity;

/// The taint of a cluster whose availability is unknown.
pub(crate) const UNREACHABLE: &str = "cluster.open-cluster-management.io/unreachable";

/// The taint of a cluster that is not available.
pub(crate) const UNAVAILABLE: &str = "cluster.open-cluster-management.io/unavailable";

/// A cluster as the hub sees it.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    pub cluster: &'a Cluster,
    /// Its `ManagedCluster`, if it has one.
    pub object: Option<&'a Object>,
    /// With the label of its set.
    pub labels: Cow<'a, Labels>,
    pub taints: Vec<MemberTaint>,
    /// The allocatable CPU and memory of clusters that report capacity, too.
    pub resources: [Option<f64>; 2],
    /// The cluster as expressions see it, once it is asked for.
    expression_value: OnceLock<CelValue>,
}

impl<'a> Member<'a> {
    /// What the cluster says of itself.
    pub(crate) fn claims(&self) -> &'a Labels {
        &self.cluster.properties
    }

    /// The cluster as expressions see it.
    pub(crate) fn expression_value(&self) -> &CelValue {
        self.expression_value.get_or_init(|| describe_cluster(self, self.object))
    }

    /// The exclusive set that it is in.
    pub(crate) fn set(&self) -> &str {
        self.labels.get(SET_LABEL).map_or(DEFAULT_SET, String::as_str)
    }

    fn read(cluster: &'a Cluster, object: Option<&'a Object>, now: Option<Timestamp>) -> Self {
        let mut labels = Cow::Borrowed(&cluster.labels);
        if labels.get(SET_LABEL).is_none_or(String::is_empty) {
            labels.to_mut().insert(SET_LABEL.to_owned(), DEFAULT_SET.to_owned());
        }
        let taints = read_taints(cluster, object, now);
        let resources =
            ["cpu", "memory"].map(|resource| quantity::read_allocatable(cluster, object, resource));
        Self { cluster, object, labels, taints, resources, expression_value: OnceLock::new() }
    }
}

/// A taint with the time at which it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberTaint {
    /// The key.
    pub key: String,
    /// The value, often empty.
    pub value: String,
    /// `NoSelect`, `PreferNoSelect` or `NoSelectIfNew`.
    pub effect: String,
    /// When it was added; `None` if the time is unknown.
    pub added: Option<Timestamp>,
    /// The taint as the inventory has it, which may be that of another control plane.
    pub(crate) stated: Taint,
}

/// The effect that a taint of another control plane's inventory has here.
fn own_effect(effect: &str) -> &str {
    match effect {
        "NoSchedule" => NO_SELECT_IF_NEW,
        "PreferNoSchedule" => PREFER_NO_SELECT,
        "NoExecute" => NO_SELECT,
        other => other,
    }
}

fn read_taints(cluster: &Cluster, object: Option<&Object>, now: Option<Timestamp>) -> Vec<MemberTaint> {
    let spec: ClusterSpec = object
        .and_then(|object| federate_kubernetes::schema::read_field(object, "spec", cluster::INVALID).ok())
        .unwrap_or_default();
    let mut taints: Vec<MemberTaint> = Vec::with_capacity(cluster.taints.len());
    for taint in &cluster.taints {
        let stated = spec.taints.iter().find(|stated| {
            (&stated.key, &stated.value, &stated.effect) == (&taint.key, &taint.value, &taint.effect)
        });
        let added = stated.and_then(|stated| stated.time_added.parse().ok()).or(now);
        let (key, value, stated) = (taint.key.clone(), taint.value.clone(), taint.clone());
        taints.push(MemberTaint { key, value, effect: own_effect(&taint.effect).to_owned(), added, stated });
    }
    if cluster.deleting {
        return taints;
    }
    let is_false = object.and_then(cluster::available_status) == Some("False");
    let state = match (cluster.ready, is_false) {
        (true, _) => None,
        (false, true) => Some(UNAVAILABLE),
        (false, false) => Some(UNREACHABLE),
    };
    let is_of_hub = |taint: &MemberTaint, key: &str| {
        taint.key == key && taint.value.is_empty() && taint.effect == NO_SELECT
    };
    taints.retain(|taint| {
        [UNREACHABLE, UNAVAILABLE].iter().all(|key| Some(*key) == state || !is_of_hub(taint, key))
    });
    if let Some(key) = state.filter(|key| !taints.iter().any(|taint| is_of_hub(taint, key))) {
        let (key, effect) = (key.to_owned(), NO_SELECT.to_owned());
        let stated = Taint { key: key.clone(), value: String::new(), effect: effect.clone() };
        taints.push(MemberTaint { key, value: String::new(), effect, added: now, stated });
    }
    taints
}

/// All clusters, sorted by name.
#[derive(Debug)]
pub(crate) struct Fleet<'a> {
    pub members: Vec<Member<'a>>,
}

impl<'a> Fleet<'a> {
    /// Reads the clusters of an inventory.
    pub(crate) fn read(repo: &'a Repo, clusters: &'a [Cluster], now: Option<Timestamp>) -> Self {
        let objects: BTreeMap<&str, &Object> = repo
            .claimed_objects(NAME, Role::Inventory)
            .filter(|object| object.id.group() == CLUSTER_GROUP)
            .map(|object| (object.id.name.as_str(), object))
            .collect();
        let read = |cluster: &'a Cluster| {
            let object = objects.get(&*cluster.name).copied().filter(|object| object.id == cluster.id);
            Member::read(cluster, object, now)
        };
        Self { members: clusters.iter().map(read).collect() }
    }

    /// The index of a cluster.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.members.binary_search_by(|member| (*member.cluster.name).cmp(name)).ok()
    }

    /// The index of each of these names, most of which are in the order of names.
    pub(crate) fn indexes(&self, names: &[ClusterName]) -> impl Iterator<Item = Option<usize>> {
        let mut next = 0;
        names.iter().map(move |name| {
            while self.members.get(next).is_some_and(|member| member.cluster.name < *name) {
                next += 1;
            }
            let is_next = self.members.get(next).is_some_and(|member| member.cluster.name == *name);
            if is_next { Some(next) } else { self.index(name) }
        })
    }

    /// The values of a claim.
    pub(crate) fn claim_values(&self, name: &str) -> BTreeSet<&str> {
        self.members.iter().filter_map(|member| member.claims().get(name)).map(String::as_str).collect()
    }

    /// The names of claims that some cluster has.
    pub(crate) fn claim_names(&self) -> BTreeSet<&str> {
        self.members.iter().flat_map(|member| member.claims().keys()).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_are_found_by_names_in_any_order() {
        let cluster = |name: &str| {
            let object =
                Object::from_path("cluster.open-cluster-management.io/v1", "ManagedCluster", name, json!({}));
            Cluster::from_object(&object)
        };
        let (repo, clusters) = (Repo::default(), ["a", "b", "c"].map(cluster));
        let fleet = Fleet::read(&repo, &clusters, None);
        for names in ["a b c", "c b a", "b x a a", "aa c z b", ""] {
            let names: Vec<ClusterName> = names.split_whitespace().map(ClusterName::from).collect();
            let one_by_one: Vec<Option<usize>> = names.iter().map(|name| fleet.index(name)).collect();
            assert_eq!(fleet.indexes(&names).collect::<Vec<_>>(), one_by_one, "{names:?}");
        }
    }
}
