//! The state of a cluster, as far as a run is about it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::desired_state::DesiredState;
use super::error::Error;
use super::items::ComparedObjects;
use super::kinds::ClusterKinds;
use federate_apiserver_model::ResourceKind;
use federate_kubernetes::{ClusterName, LiveObjects, ObjectRef};

/// The state of a cluster.
#[derive(Debug)]
pub struct ClusterState {
    /// The desired objects and the members of the `ApplySet` that exist.
    pub live: LiveObjects,
    /// Their kinds.
    pub kinds: ClusterKinds,
    /// The parent of the `ApplySet`.
    pub parent: Option<Value>,
    /// The parent of the `ApplySet` whose members are taken over.
    pub(super) moved: Option<Value>,
    /// The parents of all `ApplySet`s, where this one has no parent yet.
    pub(super) others: Vec<Value>,
    /// The members of the `ApplySet`.
    pub members: Vec<ObjectRef>,
    /// Whether members may be missing here, because a list was refused.
    pub partial: bool,
    /// The kinds that were searched for members and could not be listed, as `Kind.group`.
    pub(super) unlisted_kinds: BTreeSet<String>,
    /// What is to be said about lost records of `ApplySet`s.
    pub(super) lost_records: Vec<String>,
    /// The desired objects that may not be read, and why.
    pub unreadable: BTreeMap<ObjectRef, String>,
    /// The objects that are unchanged by their text; only their metadata is live.
    pub(super) compared: ComparedObjects,
}

impl ClusterState {
    /// Whether an object is unchanged by its text. Only its metadata is live.
    pub fn is_compared(&self, object: &ObjectRef) -> bool {
        self.compared.contains(object)
    }

    /// What the cluster's discovery says about a kind. A kind that is not served is unknown until the object is sent.
    pub(super) fn describe_kind(&self, object: &ObjectRef) -> Cow<'_, ResourceKind> {
        let ObjectRef { api_version, kind, namespace, .. } = object;
        match self.kinds.find_kind(object) {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(ResourceKind::without_schema(api_version, kind, namespace.is_some())),
        }
    }

    /// Reads the objects of which only the metadata is live.
    pub(super) fn read_compared(&mut self, cluster: &ClusterName) -> Result<(), Error> {
        self.compared.read_into(&mut self.live, cluster)
    }

    /// Why an object cannot be dry-run before others exist, if it cannot.
    pub(super) fn find_obstacle(&self, desired: &DesiredState<'_>, object: &ObjectRef) -> Option<String> {
        if !self.kinds.is_served(object) {
            return Some(format!(
                "its CustomResourceDefinition does not exist yet, so that {} {} is not served",
                object.api_version, object.kind
            ));
        }
        let namespace = object.namespace.as_ref()?;
        let wanted = desired.objects.iter().any(|(object, _)| {
            object.kind == "Namespace" && object.group().is_empty() && object.name == *namespace
        });
        let new = wanted && self.live.get(&desired.cluster, "", "Namespace", None, namespace).is_none();
        new.then(|| format!("its namespace {namespace} does not exist yet"))
    }
}
