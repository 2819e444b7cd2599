//! Reads the members of a session for a snapshot.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use federate_engine::actions::Inventory;
use federate_engine::actions::cluster::{Desired, desired};
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_live::snapshot::{MemberSnapshot, SnapshotOptions, read_members};
use federate_live::{Access, DesiredState, Error};

use crate::Session;

impl Session {
    /// Reads members: the objects that the repo renders for any cluster, those of the `ApplySet`, those that schedulers
    /// look at; and for clusters with unknown `status` the nodes and pods.
    ///
    /// # Errors
    ///
    /// What keeps every cluster from being reached.
    pub fn read_members(
        &self,
        access: &Access,
        set: &Inventory,
        clusters: &[ClusterName],
        status: &(dyn Fn(&str) -> bool + Sync),
        now: Timestamp,
    ) -> Result<Vec<MemberSnapshot>, Error> {
        let rendered: Vec<Desired> = desired(&self.rendering().manifests, None);
        // Where an object will be placed may differ from where it is: it is read everywhere.
        let objects: BTreeMap<&ObjectRef, &Value> =
            rendered.iter().map(|desired| (&desired.object, &desired.body)).collect();
        let of_cluster = |cluster: &ClusterName| DesiredState {
            cluster: cluster.clone(),
            objects: objects.iter().map(|(object, body)| (*object, *body)).collect(),
        };
        let desired_states: Vec<DesiredState<'_>> = clusters.iter().map(of_cluster).collect();
        let mut reads = self.cluster_reads();
        reads.capacity.clear();
        read_members(access, &desired_states, &SnapshotOptions { set, reads: &reads, status, now })
    }
}
