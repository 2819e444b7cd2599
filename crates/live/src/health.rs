//! Reads how the objects of an `ApplySet` are, without waiting for any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use federate_apiserver_model::managed_fields::read_fields;
use federate_dialect::readiness::Readiness;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::apply_set::ApplySetContents;
use federate_reconcile::ownership::PART_OF_LABEL;
use federate_reconcile::{ApplySet, PlacedObjects};

use super::client::Client;
use super::cluster_reader::{list_all, read_objects};
use super::lists::ListRequest;
use super::runtime::{for_each_cluster, limit_time};
use super::{Access, DesiredState, Error, kinds, target};

/// How long a cluster is waited for where `--timeout` does not say it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The health of what is desired in a cluster.
#[derive(Debug)]
pub struct ClusterHealth {
    /// The cluster.
    pub cluster: ClusterName,
    /// The objects with their readiness, `None` for one that is not there as a member of the `ApplySet`; or why they cannot be
    /// read.
    pub objects: Result<BTreeMap<ObjectRef, Option<Readiness>>, Error>,
}

/// Reads the desired objects that are members of an `ApplySet`, and their health.
///
/// # Errors
///
/// What keeps every cluster from being reached.
pub fn read_health(
    access: &Access,
    desired_states: &[DesiredState<'_>],
    placed: &PlacedObjects<'_>,
    set: &ApplySet,
) -> Result<Vec<ClusterHealth>, Error> {
    for_each_cluster(access, desired_states, |runtime, connections, desired| {
        let time = connections.timeout().unwrap_or(DEFAULT_TIMEOUT);
        let objects = runtime.block_on(limit_time(Some(time), async {
            let client = target::connect_member(connections, &desired.cluster).await?;
            read_cluster(&client, desired, placed, set).await
        }));
        ClusterHealth { cluster: desired.cluster.clone(), objects }
    })
}

async fn read_cluster(
    client: &Client,
    desired: &DesiredState<'_>,
    placed: &PlacedObjects<'_>,
    set: &ApplySet,
) -> Result<BTreeMap<ObjectRef, Option<Readiness>>, Error> {
    let kinds = kinds::find_kinds(client, desired, &ApplySetContents::default()).await?;
    let mut health: BTreeMap<ObjectRef, Option<Readiness>> =
        desired.objects.iter().map(|(object, _)| ((*object).clone(), None)).collect();
    let selector = format!("{PART_OF_LABEL}={}", set.compute_id());
    let mut lists: BTreeMap<(&str, &str), ListRequest> = BTreeMap::new();
    for (object, _) in &desired.objects {
        let Some(kind) = kinds.find_kind(object) else { continue };
        lists.entry((&object.api_version, &object.kind)).or_insert_with(|| ListRequest {
            kind: kind.clone(),
            namespace: None,
            selector: Some(selector.clone()),
        });
    }
    let namespaces: BTreeSet<String> =
        desired.objects.iter().filter_map(|(object, _)| object.namespace.clone()).collect();
    let items = list_all(client, lists.into_values().collect(), &namespaces, None).await?.items;
    for mut object in read_objects(&items, &desired.cluster)? {
        read_fields(&mut object.body);
        if let Some(readiness) = health.get_mut(&object.id) {
            *readiness = Some(placed.assess_readiness(&object));
        }
    }
    Ok(health)
}
