//! Reads which objects are members of an `ApplySet`, and how they are, without waiting for any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use federate_apiserver_model::managed_fields::read_fields;
use federate_dialect::readiness::Readiness;
use federate_kubernetes::{ClusterName, Object, ObjectRef};
use federate_reconcile::apply_set::ApplySetContents;
use federate_reconcile::ownership::PART_OF_LABEL;
use federate_reconcile::{ApplySet, PlacedObjects};

use super::client::Client;
use super::cluster_reader::{ListedItems, list_all};
use super::items::read_objects;
use super::kinds::ScopeCorrections;
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

/// A cluster, and which of some objects it has as members of an `ApplySet`; or why that cannot be read.
pub type ClusterMembers = (ClusterName, Result<BTreeSet<ObjectRef>, Error>);

/// Finds out which of some objects clusters have as members of an `ApplySet`; or why that cannot be read.
///
/// # Errors
///
/// What keeps every cluster from being reached.
pub fn find_members(
    access: &Access,
    objects: &BTreeMap<ClusterName, Vec<ObjectRef>>,
    set: &ApplySet,
) -> Result<Vec<ClusterMembers>, Error> {
    let states = objects.iter().map(|(cluster, objects)| DesiredState {
        cluster: cluster.clone(),
        objects: objects.iter().map(|object| (object, &Value::Null)).collect(),
    });
    let states: Vec<DesiredState<'_>> = states.collect();
    for_each_cluster(access, &states, |runtime, connections, desired| {
        let time = connections.timeout().unwrap_or(DEFAULT_TIMEOUT);
        let members = runtime.block_on(limit_time(Some(time), async {
            let client = target::connect_member(connections, &desired.cluster).await?;
            let ListedMembers { objects, partial } = list_members(&client, desired, set).await?;
            if partial {
                return Err(Error::Access("not all of its objects may be listed".to_owned()));
            }
            Ok(objects.into_iter().map(|object| object.id).collect())
        }));
        (desired.cluster.clone(), members)
    })
}

/// Some members of an `ApplySet`.
struct ListedMembers {
    objects: Vec<Object>,
    /// Whether some may be missing, because a list was refused.
    partial: bool,
}

async fn read_cluster(
    client: &Client,
    desired: &DesiredState<'_>,
    placed: &PlacedObjects<'_>,
    set: &ApplySet,
) -> Result<BTreeMap<ObjectRef, Option<Readiness>>, Error> {
    let mut health: BTreeMap<ObjectRef, Option<Readiness>> =
        desired.objects.iter().map(|(object, _)| ((*object).clone(), None)).collect();
    for mut object in list_members(client, desired, set).await?.objects {
        read_fields(&mut object.body);
        if let Some(readiness) = health.get_mut(&object.id) {
            *readiness = Some(placed.assess_readiness(&object));
        }
    }
    Ok(health)
}

/// Lists the members of the kinds of the desired objects.
async fn list_members(
    client: &Client,
    desired: &DesiredState<'_>,
    set: &ApplySet,
) -> Result<ListedMembers, Error> {
    let kinds = kinds::find_kinds(client, desired, &ApplySetContents::default()).await?;
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
    let ListedItems { items, partial } =
        list_all(client, lists.into_values().collect(), &namespaces, None).await?;
    let mut objects = read_objects(&items, &desired.cluster)?;
    ScopeCorrections::new(desired, &kinds).rename_objects(&mut objects);
    Ok(ListedMembers { objects, partial })
}
