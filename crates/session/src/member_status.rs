//! Reads the members of a session, or its inventory on the control plane: for a snapshot, and in each round of the loop that plans by
//! their status.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use federate_dialect::{ClusterObservation, Dialects};
use federate_engine::snapshot::SnapshotInput;
use federate_kubernetes::{ClusterName, Object, ObjectRef};
use federate_live::snapshot::{MemberSnapshot, SnapshotOptions, read_inventory, read_members, read_status};
use federate_live::{Access, DesiredState, Error};
use federate_reconcile::ApplySet;
use federate_reconcile::{DesiredObject, parse_desired};
use federate_repo::{Claims, Role};

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
        set: &ApplySet,
        clusters: &[ClusterName],
        status: &(dyn Fn(&str) -> bool + Sync),
        now: Timestamp,
    ) -> Result<Vec<MemberSnapshot>, Error> {
        let rendered: Vec<DesiredObject> = parse_desired(&self.render().manifests, None);
        // Where an object will be placed may differ from where it is: it is read everywhere.
        let objects: BTreeMap<&ObjectRef, &Value> =
            rendered.iter().map(|desired| (&desired.object, &*desired.body)).collect();
        let desired_states: Vec<DesiredState<'_>> = clusters
            .iter()
            .map(|cluster| DesiredState {
                cluster: cluster.clone(),
                objects: objects.iter().map(|(object, body)| (*object, *body)).collect(),
            })
            .collect();
        let mut reads = self.cluster_reads();
        reads.capacity.clear();
        read_members(access, &desired_states, &SnapshotOptions { set, reads: &reads, status, now })
    }

    /// The inventory objects of the repo, with the status that their control planes would compute from the members now.
    /// Those of members that cannot be read are missing.
    ///
    /// # Errors
    ///
    /// What keeps every cluster from being reached.
    pub fn status_of_members(&self, access: &Access, now: Timestamp) -> Result<SnapshotInput, Error> {
        let names: Vec<ClusterName> = self.clusters().iter().map(|cluster| cluster.name.clone()).collect();
        let mut captured = SnapshotInput { taken: Some(now), ..SnapshotInput::default() };
        let mut seen = BTreeMap::new();
        for (cluster, found) in read_status(access, &names, now)? {
            match found {
                Ok(observation) => drop(seen.insert(cluster.to_string(), observation)),
                Err(why) => {
                    if matches!(why, Error::Unreachable(_) | Error::TimedOut(_)) {
                        captured.unreachable.insert(cluster.to_string());
                    }
                    captured.failed.insert(cluster.to_string(), why.to_string());
                }
            }
        }
        let claimed = self.repo().claimed.iter().filter(|claimed| claimed.role == Role::Inventory);
        for mut object in claimed.map(|claimed| claimed.object.clone()) {
            let Some(observation) = seen.get(&object.id.name) else { continue };
            captured.kubernetes.extend(observation.version.clone().map(|v| (object.id.name.clone(), v)));
            set_status(self.dialects(), &mut object, observation);
            captured.objects.push(object);
        }
        Ok(captured)
    }

    /// The inventory objects of the repo as they are on their control plane.
    ///
    /// # Errors
    ///
    /// If the control plane cannot be reached, or if they may not be listed.
    pub fn status_on_hub(&self, access: &Access, context: &str) -> Result<SnapshotInput, Error> {
        let ids: BTreeSet<&ObjectRef> = self.clusters().iter().map(|cluster| &cluster.id).collect();
        let kinds = ids.iter().map(|id| (id.group().to_owned(), id.kind.clone())).collect();
        let mut objects = read_inventory(access, context, &kinds)?;
        objects.retain(|object| {
            matches!(
                self.dialects().role_of_kind(&object.id.api_version, &object.id.kind),
                Some((_, Role::Inventory))
            )
        });
        Ok(SnapshotInput { objects, ..SnapshotInput::default() })
    }
}

/// Gives an inventory object the status that its control plane would compute from what was observed in the member.
pub fn set_status(dialects: Dialects, object: &mut Object, seen: &ClusterObservation) {
    let role = dialects.role_of_kind(&object.id.api_version, &object.id.kind);
    let dialect = role.and_then(|(dialect, _)| dialects.get(dialect));
    let status = dialect.and_then(|dialect| dialect.hub().compute_cluster_status(object, seen));
    if let (Some(status), Some(body)) = (status, object.body.as_object_mut()) {
        body.insert("status".to_owned(), status);
    }
}
