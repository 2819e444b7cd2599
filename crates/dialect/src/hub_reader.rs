//! What a control plane keeps on its own API server: its members, its plan, its release.

use std::collections::BTreeMap;

use serde_json::Value;

use federate_kubernetes::{Capacity, Connection, ConnectionError, Object, ObjectRef};

use crate::release::{NamedRelease, UnknownRelease};
use crate::{ClusterObservation, HubKinds, Plan, RecordedKind};

/// An object on the control plane's API server that has not the form of its kind.
#[derive(Debug, thiserror::Error)]
#[error("{object} cannot be read: {why}")]
pub struct UnreadableObject {
    /// The object.
    pub object: ObjectRef,
    /// What is wrong with it.
    pub why: serde_json::Error,
}

impl UnreadableObject {
    /// What is wrong with an object.
    pub fn new(object: &Object, why: serde_json::Error) -> Self {
        Self { object: object.id.clone(), why }
    }
}

/// Reads what a control plane keeps on its own API server. By default it keeps nothing there.
pub trait HubReader {
    /// Reads a previous plan from the objects of the control plane's own API server. By default there is
    /// none.
    fn read_hub_plan(&self, hub: &[Object]) -> Result<Plan, UnreadableObject> {
        let _ = hub;
        Ok(Plan::default())
    }

    /// The objects that [`read_hub_plan`](Self::read_hub_plan) leaves out although they are of a kind that records a
    /// placement, each with the reason. By default there are none.
    fn unread_hub_objects<'a>(&self, hub: &'a [Object]) -> Vec<(&'a ObjectRef, &'static str)> {
        let _ = hub;
        Vec::new()
    }

    /// The release of the control plane that is installed, by the objects of its installation (such as the image
    /// tags of its Deployments), or the name of an unknown release. `None` if the objects do not say.
    fn detect_release(&self, objects: &[&Object]) -> Option<Result<NamedRelease, UnknownRelease>> {
        let _ = objects;
        None
    }

    /// The free resources of a cluster, as its control plane computes them from the nodes and pods there; `None`
    /// if it computes none.
    fn compute_capacity(&self, object: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
        let _ = (object, nodes, pods);
        None
    }

    /// The properties of a cluster that its control plane computes from the nodes there, by name.
    fn compute_properties(&self, nodes: &[Object]) -> BTreeMap<String, String> {
        let _ = nodes;
        BTreeMap::new()
    }

    /// The status that the control plane computes for an inventory object from what it sees in the cluster; `None`
    /// if it computes none.
    fn compute_cluster_status(&self, object: &Object, seen: &ClusterObservation) -> Option<Value> {
        let _ = (object, seen);
        None
    }

    /// The kinds on the control plane's API server that describe its members and that
    /// [`read_hub_plan`](Self::read_hub_plan) reads.
    fn hub_kinds(&self) -> &'static [HubKinds] {
        &[]
    }

    /// The kinds among the [`hub_kinds`](Self::hub_kinds) whose objects a snapshot records as they are. By default there
    /// are none.
    fn recorded_kinds(&self) -> &'static [RecordedKind] {
        &[]
    }

    /// How the control plane connects to the cluster of an inventory object, or why the object does not say
    /// that.
    fn read_connection(&self, object: &Object) -> Result<Connection, ConnectionError> {
        let _ = object;
        Err(ConnectionError::NoDetails("its inventory contains no connection details"))
    }
}
