//! `ReplicaSchedulingPreference`: whether it has an effect, on which clusters, and the result.
//!
//! Facts: a preference applies to the federated object of its namespace and name. All ready clusters take part,
//! whatever the placements select, unless the preference asks for the intersection of both selectors. Without
//! `clusters`, all clusters have weight 1; with some, `*` applies to the others.

use std::collections::BTreeMap;

use super::api::{ClusterPreference, PreferenceSpec};
use super::division::{DivisionInput, DivisionParticipant, DivisionTrace, divide_by_weight};
use super::federated_object::FederatedObject;
use super::observation::{ObservedReplicas, Observer};
use super::{KubeFedPlanner, manifest, overrides, placement};
use federate_dialect::PreviousPlan;
use federate_kubernetes::{Cluster, ClusterName, Object};

/// The kinds that can be scheduled.
pub(super) const KINDS: [&str; 2] = ["FederatedDeployment", "FederatedReplicaSet"];

/// The name that stands for all clusters that are not listed.
const ANY_OTHER_CLUSTER: &str = "*";

/// A valid preference.
#[derive(Debug)]
pub(super) struct SchedulingPreference<'a> {
    pub object: &'a Object,
    pub spec: PreferenceSpec,
}

/// The decision of the scheduler: the replicas of each cluster that takes part.
pub(super) type Schedule = BTreeMap<ClusterName, i64>;

impl SchedulingPreference<'_> {
    /// The preference for a cluster.
    fn for_cluster(&self, cluster: &str) -> Option<ClusterPreference> {
        let named = &self.spec.clusters;
        if named.is_empty() {
            return Some(ClusterPreference { weight: 1, ..ClusterPreference::default() });
        }
        named.get(cluster).or_else(|| named.get(ANY_OTHER_CLUSTER)).copied()
    }
}

/// The replicas that the preference gives each cluster, or why it has no effect.
pub(super) fn compute_schedule(
    plane: &KubeFedPlanner<'_>,
    preference: &SchedulingPreference<'_>,
    federated: &FederatedObject<'_>,
    previous: &PreviousPlan,
    trace: &mut DivisionTrace,
) -> Result<Schedule, String> {
    let observed = observe_participants(plane, preference, federated, previous)?;
    let parties: Vec<DivisionParticipant<'_>> = observed
        .iter()
        .map(|(name, observed)| DivisionParticipant {
            cluster: name,
            preference: preference.for_cluster(name),
            current: observed.current,
            capacity: observed.capacity,
        })
        .collect();
    let key = preference.object.id.namespaced_name();
    let division = DivisionInput {
        total: preference.spec.total_replicas,
        rebalance: preference.spec.rebalance,
        key: &key,
    };
    let replicas = divide_by_weight(&division, &parties, trace);
    Ok(observed
        .iter()
        .map(|(name, _)| (name.clone(), replicas.get(name.as_ref()).copied().unwrap_or(0)))
        .collect())
}

/// The observations in the clusters that take part, or why the preference has no effect.
pub(super) fn observe_participants(
    plane: &KubeFedPlanner<'_>,
    preference: &SchedulingPreference<'_>,
    federated: &FederatedObject<'_>,
    previous: &PreviousPlan,
) -> Result<Vec<(ClusterName, ObservedReplicas)>, String> {
    let observer = Observer {
        live: plane.input.live,
        previous: previous.find_row(&federated.target),
        now: plane.now,
        target: &federated.target,
        managed_only: true,
    };
    let clusters = select_participants(plane, preference, federated)?;
    observer.check_selectors(clusters.iter().map(|cluster| cluster.name.as_ref()))?;
    let mut participants = Vec::with_capacity(clusters.len());
    for cluster in clusters {
        let mut observed = observer.observe_cluster(&cluster.name);
        if observed.exists && observed.current.is_none() && !plane.input.live.knows_cluster(&cluster.name) {
            // Placed by something else than a preference, with its own number of replicas.
            observed.current = replicas_of_overrides(federated, &cluster.name);
            observed.wanted = observed.current.unwrap_or(0);
        }
        participants.push((cluster.name.clone(), observed));
    }
    Ok(participants)
}

/// The replicas of a cluster by the template and the overrides alone.
fn replicas_of_overrides(federated: &FederatedObject<'_>, cluster: &str) -> Option<i64> {
    let mut body = manifest::base_manifest(federated);
    let steps = federated.overrides.as_ref().ok()?.get(cluster);
    overrides::apply_all(steps.map_or(&[][..], Vec::as_slice), &mut body).ok()?;
    body.pointer(overrides::REPLICAS_PATH).and_then(serde_json::Value::as_i64)
}

/// The clusters that take part, or why the preference has no effect.
fn select_participants<'p>(
    plane: &'p KubeFedPlanner<'_>,
    preference: &SchedulingPreference<'_>,
    federated: &FederatedObject<'_>,
) -> Result<Vec<&'p Cluster>, String> {
    let spec = &preference.spec;
    if !plane.config.schedules {
        return Err("the feature `SchedulerPreferences` is disabled".to_owned());
    }
    if !KINDS.contains(&spec.target_kind.as_str()) {
        return Err(format!("its `targetKind` is `{}`", spec.target_kind));
    }
    if !federated.kind.is_scheduled() {
        return Err(format!("types configured as `{}` are not scheduled", federated.kind.name));
    }
    if let Err(failure) = &federated.overrides {
        return Err(format!("the overrides are not valid: {}", failure.message));
    }
    let mut wanted: Vec<bool> = plane.clusters.iter().map(|c| c.ready).collect();
    if !wanted.contains(&true) {
        return Err("no cluster is ready".to_owned());
    }
    if spec.intersect_with_cluster_selector {
        let namespace = plane.namespace_of(federated).ok_or("its namespace is not federated")?;
        for placed in [federated, namespace] {
            let selected = placement::selected_by_labels(&placed.spec.placement, &plane.clusters).map_err(
                |invalid| format!("the selector of {} is invalid: {}", placed.object.id, invalid.why),
            )?;
            wanted.iter_mut().zip(selected).for_each(|(wanted, selected)| *wanted &= selected);
        }
        if !wanted.contains(&true) {
            let which = "the `clusterSelector`s of the object and of its FederatedNamespace";
            return Err(format!("no ready cluster is selected by both {which}"));
        }
    }
    Ok(plane.clusters.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(c, _)| *c).collect())
}
