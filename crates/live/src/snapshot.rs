//! Reads what a snapshot contains: the objects of a control plane on its hub, and the state of members from which a
//! control plane computes the status of their inventory objects.
//!
//! Lists are read in pages. Of each pod only the fields are kept that count for free resources, because a cluster may
//! have tens of thousands of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::client::Client;
use super::cluster_reader::read_cluster_state;
use super::discovery;
use super::kinds::{list_path, untyped_kind};
use super::lists::{ListBudget, ListRequest, list_objects, list_reduced};
use super::path::ApiPath;
use super::request::RepeatableRequest;
use super::runtime::{for_each_cluster, join_result, limit_time};
use super::{
    Access, ApplyOptions, ClusterProgress, DesiredState, Error, ProgressReporter, ServerOptions, target,
};
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::managed_fields::read_fields;
use federate_dialect::probe::Healthz;
use federate_dialect::{ClusterObservation, ClusterReads, HubKinds};
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{ClusterName, Object};
use federate_reconcile::{ApplySet, DryRunStrategy};

/// How long a cluster may take where `--timeout` does not say it.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

/// What is read of each member.
pub struct SnapshotOptions<'l> {
    /// The `ApplySet` of the managed objects.
    pub set: &'l ApplySet,
    /// What the schedulers look at.
    pub reads: &'l ClusterReads,
    /// The clusters whose nodes and pods are read, because no control plane says their status.
    pub status: &'l (dyn Fn(&str) -> bool + Sync),
    /// The time of the observation.
    pub now: Timestamp,
}

/// What was read of a member.
#[derive(Clone, Debug)]
pub struct MemberSnapshot {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its state and objects, or why it cannot be read.
    pub found: Result<MemberState, Error>,
}

/// The state and the objects of a member.
#[derive(Clone, Debug, Default)]
pub struct MemberState {
    /// The state from which the status is computed, where it is needed.
    pub observation: Option<ClusterObservation>,
    /// The version of Kubernetes, if the cluster reports it.
    pub version: Option<String>,
    /// The scopes of the custom resources of the repo that the cluster serves, by `Kind.group`.
    pub scopes: BTreeMap<String, Scope>,
    /// The objects of the repo and of the `ApplySet`, and those that schedulers look at.
    pub objects: Vec<Object>,
}

/// Reads all members at once, whose desired objects are known.
///
/// # Errors
///
/// What keeps every cluster from being reached.
pub fn read_members(
    access: &Access,
    desired_states: &[DesiredState<'_>],
    options: &SnapshotOptions<'_>,
) -> Result<Vec<MemberSnapshot>, Error> {
    for_each_cluster(access, desired_states, |runtime, connections, desired| {
        let time = connections.timeout().unwrap_or(DEFAULT_TIMEOUT);
        let found = runtime.block_on(limit_time(Some(time), async {
            let client = target::connect_member(connections, &desired.cluster).await?;
            read_member(&client, desired, options).await
        }));
        MemberSnapshot { cluster: desired.cluster.clone(), found }
    })
}

/// A cluster with its state, or why that cannot be read.
pub type ObservedCluster = (ClusterName, Result<ClusterObservation, Error>);

/// Reads the state of all clusters at once, from which control planes compute their status.
///
/// # Errors
///
/// What keeps every cluster from being reached.
pub fn read_status(
    access: &Access,
    clusters: &[ClusterName],
    now: Timestamp,
) -> Result<Vec<ObservedCluster>, Error> {
    let desired: Vec<DesiredState<'_>> =
        clusters.iter().cloned().map(DesiredState::without_objects).collect();
    for_each_cluster(access, &desired, |runtime, connections, desired| {
        let time = connections.timeout().unwrap_or(DEFAULT_TIMEOUT);
        let found = runtime.block_on(limit_time(Some(time), async {
            let client = target::connect_member(connections, &desired.cluster).await?;
            let version = read_version(&client).await?;
            Ok(ClusterObservation { version, ..observe_cluster(&client, &desired.cluster, now).await? })
        }));
        (desired.cluster.clone(), found)
    })
}

/// The version of Kubernetes, if the cluster reports it.
async fn read_version(client: &Client) -> Result<Option<String>, Error> {
    let version: Value = client.request_json(&RepeatableRequest::get(ApiPath::new(["version"]))).await?;
    Ok(version["gitVersion"].as_str().filter(|version| !version.is_empty()).map(str::to_owned))
}

async fn read_member(
    client: &Client,
    desired: &DesiredState<'_>,
    options: &SnapshotOptions<'_>,
) -> Result<MemberState, Error> {
    let version = read_version(client).await?;
    let mut found = MemberState { version: version.clone(), ..MemberState::default() };
    if (options.status)(&desired.cluster) {
        found.observation = Some(ClusterObservation {
            version,
            ..observe_cluster(client, &desired.cluster, options.now).await?
        });
    }
    let server = ServerOptions::new(&NoProgress).with_dry_run(DryRunStrategy::Client);
    let encrypted = BTreeSet::new();
    let read_options = ApplyOptions {
        server: &server,
        apply_set: options.set,
        repo: None,
        moved_from: None,
        only_objects: false,
        encrypted: &encrypted,
        ends: false,
    };
    let state = read_cluster_state(client, desired, &read_options, None, None).await?;
    found.scopes = state.kinds.custom_scopes();
    found.objects = state.live.cluster_objects(&desired.cluster).to_vec();
    found.objects.iter_mut().for_each(|object| read_fields(&mut object.body));
    let scopes = options.reads.objects.iter();
    let lists = scopes.filter_map(|scope| {
        let kind = ResourceKind::find_builtin(&scope.api_version, &scope.kind).cloned()?;
        Some(ListRequest { kind, namespace: scope.namespace.clone(), selector: None })
    });
    found.objects.extend(list_objects(client, lists, &desired.cluster).await?);
    found.objects.sort_by(|a, b| a.id.cmp(&b.id));
    found.objects.dedup_by(|a, b| a.id == b.id);
    Ok(found)
}

struct NoProgress;

impl ProgressReporter for NoProgress {
    fn report_progress(&self, _: &ClusterName, _: ClusterProgress) {}
}

/// Everything from which control planes compute the status of a cluster.
async fn observe_cluster(
    client: &Client,
    cluster: &ClusterName,
    now: Timestamp,
) -> Result<ClusterObservation, Error> {
    let budget = ListBudget::for_reduced_lists();
    let nodes = tokio::spawn(list_kind(client.clone(), cluster.clone(), "Node", budget.clone(), keep_node));
    let pods = tokio::spawn(list_kind(client.clone(), cluster.clone(), "Pod", budget, keep_pod));
    let readyz = client.probe_health("readyz").await;
    let healthz = client.probe_health("healthz").await;
    let discovery = read_resources(client).await?;
    let (nodes, pods): (Result<_, Error>, Result<_, Error>) =
        (join_result(nodes.await)?, join_result(pods.await)?);
    let (nodes, pods) = (explain_forbidden("nodes", nodes)?, explain_forbidden("pods", pods)?);
    Ok(ClusterObservation { now, readyz, healthz, version: None, discovery, nodes, pods })
}

/// The objects of a built-in kind, each as `keep` reduces it.
async fn list_kind(
    client: Client,
    cluster: ClusterName,
    kind: &'static str,
    budget: ListBudget,
    keep: fn(&mut Value),
) -> Result<Vec<Object>, Error> {
    let Some(kind) = ResourceKind::find_builtin("v1", kind).cloned() else {
        return Err(Error::Access(format!("{kind} is not a built-in kind")));
    };
    let list = ListRequest { kind, namespace: None, selector: None };
    list_reduced(&client, &list, &cluster, &budget, keep).await
}

/// Names what may not be listed.
fn explain_forbidden<T>(what: &str, listed: Result<T, Error>) -> Result<T, Error> {
    listed.map_err(|error| match error {
        Error::Refused(refusal) if refusal.code == 403 => Error::Access(format!(
            "its {what} may not be listed, from which its status is computed: {}",
            refusal.message
        )),
        error => error,
    })
}

/// The resources of each group and version, or why they cannot be read.
async fn read_resources(client: &Client) -> Result<BTreeMap<String, Result<Vec<Value>, String>>, Error> {
    let mut all = BTreeMap::new();
    for (version, list) in discovery::request_versions(client).await? {
        let list = match list {
            Ok(mut list) => match list.get_mut("resources").map(Value::take) {
                Some(Value::Array(resources)) => Ok(resources),
                _ => Ok(Vec::new()),
            },
            Err(error) => Err(error.to_string()),
        };
        all.insert(version, list);
    }
    Ok(all)
}

/// Keeps the fields of a node that count for the status of a cluster.
fn keep_node(node: &mut Value) {
    keep_fields(node, "metadata", &["name", "labels", "creationTimestamp", "deletionTimestamp"]);
    keep_fields(node, "spec", &["unschedulable", "taints"]);
    keep_fields(node, "status", &["capacity", "allocatable", "conditions"]);
}

/// Keeps the fields of a pod that count for the status of a cluster.
fn keep_pod(pod: &mut Value) {
    keep_fields(pod, "metadata", &["name", "namespace", "deletionTimestamp"]);
    keep_fields(pod, "spec", &["nodeName", "containers", "initContainers", "overhead"]);
    keep_fields(pod, "status", &["phase"]);
    for containers in ["containers", "initContainers"] {
        let containers = pod.pointer_mut(&format!("/spec/{containers}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.retain(|key, _| matches!(key.as_str(), "name" | "resources" | "restartPolicy"));
        }
    }
}

fn keep_fields(value: &mut Value, key: &str, fields: &[&str]) {
    if let Some(map) = value.get_mut(key).and_then(Value::as_object_mut) {
        let kept: Map<String, Value> =
            std::mem::take(map).into_iter().filter(|(field, _)| fields.contains(&field.as_str())).collect();
        *map = kept;
    }
}

/// Reads the objects of these kinds from the hub, as far as it serves them.
///
/// # Errors
///
/// If the hub cannot be reached, or if a kind may not be listed.
pub fn read_hub(access: &Access, context: &str, wanted: &[HubKinds]) -> Result<Vec<Object>, Error> {
    read_kinds(access, context, &|group, kind| {
        let group = wanted.iter().find(|wanted| wanted.group == group);
        group.is_some_and(|group| kind.is_none_or(|k| group.kinds.is_empty() || group.kinds.contains(&k)))
    })
}

/// Reads the objects of these groups and kinds from the hub, as far as it serves them.
///
/// # Errors
///
/// If the hub cannot be reached, or if a kind may not be listed.
pub fn read_inventory(
    access: &Access,
    context: &str,
    kinds: &BTreeSet<(String, String)>,
) -> Result<Vec<Object>, Error> {
    read_kinds(access, context, &|group, kind| {
        kinds.iter().any(|(g, k)| g == group && kind.is_none_or(|kind| kind == k))
    })
}

/// Whether objects of a group are read; those of a kind, if one is given.
type Wanted<'w> = &'w dyn Fn(&str, Option<&str>) -> bool;

fn read_kinds(access: &Access, context: &str, wanted: Wanted<'_>) -> Result<Vec<Object>, Error> {
    let connections = access.open_connections(1)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::Access(e.to_string()))?;
    let read = runtime.block_on(limit_time(Some(access.timeout.unwrap_or(DEFAULT_TIMEOUT)), async {
        let client = target::connect_hub(&connections, context).await?;
        let mut lists = Vec::new();
        // The kinds of a group may be served in different versions.
        let mut listed: BTreeSet<(String, String)> = BTreeSet::new();
        for version in discovery::list_versions(&client, true).await? {
            let Some((group, _)) = version.split_once('/').filter(|(group, _)| wanted(group, None)) else {
                continue;
            };
            let served = client
                .request_optional(&RepeatableRequest::get(ApiPath::from_version(&version)))
                .await?
                .unwrap_or_default();
            let found = lists_of_version(&version, &served, &|kind| wanted(group, Some(kind)));
            lists.extend(
                found.into_iter().filter(|list| listed.insert((group.to_owned(), list.kind.kind.clone()))),
            );
        }
        let context: ClusterName = context.into();
        let mut all = Vec::new();
        for list in lists {
            let path = list_path(&list.kind, None);
            all.extend(
                list_objects(&client, std::iter::once(list), &context)
                    .await
                    .map_err(|error| Error::Access(format!("GET {path}: {error}")))?,
            );
        }
        Ok(all)
    }));
    runtime.shutdown_background();
    read
}

/// The lists of the wanted kinds of a version.
fn lists_of_version(version: &str, served: &Value, wanted: &dyn Fn(&str) -> bool) -> Vec<ListRequest> {
    let resources = served["resources"].as_array().into_iter().flatten();
    resources
        .filter(|resource| {
            let kind = resource["kind"].as_str().unwrap_or_default();
            let whole = !resource["name"].as_str().unwrap_or_default().contains('/');
            whole && wanted(kind)
        })
        .filter_map(|resource| {
            let kind = untyped_kind(version, resource["kind"].as_str()?, resource);
            Some(ListRequest { kind, namespace: None, selector: None })
        })
        .collect()
}

impl Client {
    /// The answer of a health endpoint, which is text.
    pub(super) async fn probe_health(&self, endpoint: &str) -> Healthz {
        match self.request_text(&RepeatableRequest::get(ApiPath::new([endpoint]))).await {
            Ok((code, body)) => Healthz::Answered { code, body },
            Err(error) => Healthz::Unreachable(error.to_string()),
        }
    }
}
