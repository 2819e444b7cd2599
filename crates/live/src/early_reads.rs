//! Reads that begin before it is known what is desired: while a repo is planned, the API servers already list the members
//! of the `ApplySet`, whose kinds its parent names. What they do not cover is read later, as without them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::runtime::Runtime;

use super::client::Client;
use super::items::ListItem;
use super::kinds::list_path;
use super::lists::{ListBudget, ListRequest, list_items};
use super::path::{ApiPath, member_selector, parent_path};
use super::request::RepeatableRequest;
use super::runtime::{build_runtime, join_result};
use super::target::{self, Connections};
use super::{Access, Error};
use federate_apiserver_model::ResourceKind;
use federate_kubernetes::ClusterName;
use federate_reconcile::ApplySet;
use federate_reconcile::apply_set::ApplySetContents;

/// A read that is under way, or its result.
pub(super) type PendingRead<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Reads that are under way. Nothing is written by them, and dropping them ends them.
pub struct EarlyReads {
    pub(super) runtime: Option<Runtime>,
    pub(super) connections: Arc<Connections>,
    clusters: Mutex<BTreeMap<ClusterName, PendingRead<EarlyCluster>>>,
}

/// What is being read of a cluster.
pub(super) struct EarlyCluster {
    pub(super) client: Client,
    pub(super) found: EarlyLists,
}

/// The parent of the `ApplySet`, and the lists of its members by their paths.
#[derive(Default)]
pub(super) struct EarlyLists {
    pub(super) parent: Option<Value>,
    selector: String,
    lists: BTreeMap<ApiPath, PendingRead<Vec<ListItem>>>,
}

/// Begins to read the members of an `ApplySet` in the first clusters, as many as are worked on at a time.
///
/// # Errors
///
/// What keeps every cluster from being reached.
pub fn read_early(access: &Access, clusters: &[ClusterName], set: &ApplySet) -> Result<EarlyReads, Error> {
    let connections = access.open_connections(clusters.len())?;
    let runtime = build_runtime()?;
    let at_once = access.clusters_at_once();
    let begun = clusters
        .iter()
        .take(at_once)
        .map(|cluster| {
            let (connections, name, set) = (connections.clone(), cluster.clone(), set.clone());
            let read = runtime.spawn(async move {
                let client = target::connect_member(&connections, &name).await?;
                let found = EarlyLists::begin_lists(&client, &set).await?;
                Ok(EarlyCluster { client, found })
            });
            let reading: PendingRead<EarlyCluster> = Box::pin(async move { join_result(read.await)? });
            (cluster.clone(), reading)
        })
        .collect();
    Ok(EarlyReads { runtime: Some(runtime), connections, clusters: Mutex::new(begun) })
}

impl EarlyReads {
    /// What is being read of a cluster, for the first that asks.
    pub(super) fn take_cluster(&self, cluster: &str) -> Option<PendingRead<EarlyCluster>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster)
    }
}

impl Drop for EarlyReads {
    fn drop(&mut self) {
        // A credential plugin may still run although its time is over.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl EarlyLists {
    async fn begin_lists(client: &Client, set: &ApplySet) -> Result<Self, Error> {
        let parent = client.request_optional(&RepeatableRequest::get(parent_path(set))).await?;
        let kinds = parent.iter().flat_map(|parent| ApplySetContents::from_parent(parent).group_kinds);
        let lists = kinds.filter_map(|name| only_version(&name));
        let selector = member_selector(&[set.compute_id()]);
        let lists: Vec<ListRequest> = lists
            .map(|kind| ListRequest { kind, namespace: None, selector: Some(selector.clone()) })
            .collect();
        let budget = ListBudget::for_cluster();
        let lists = lists
            .into_iter()
            .map(|list| {
                let (client, path, budget) = (client.clone(), list_path(&list.kind, None), budget.clone());
                let read = tokio::spawn(async move { list_items(&client, &list, &budget).await });
                let reading: PendingRead<Vec<ListItem>> = Box::pin(async move { join_result(read.await)? });
                (path, reading)
            })
            .collect();
        Ok(Self { parent, selector, lists })
    }

    /// A list that is under way.
    pub(super) fn take_list(&mut self, list: &ListRequest) -> Option<PendingRead<Vec<ListItem>>> {
        self.has_list(list).then(|| self.lists.remove(&list_path(&list.kind, None)))?
    }

    fn has_list(&self, list: &ListRequest) -> bool {
        let is_same = list.namespace.is_none() && list.selector.as_ref() == Some(&self.selector);
        is_same && self.lists.contains_key(&list_path(&list.kind, None))
    }
}

/// A built-in kind, as `Kind.group`, of which there is only one version: another one may be rendered.
fn only_version(name: &str) -> Option<ResourceKind> {
    let (kind, group) = name.split_once('.').unwrap_or((name, ""));
    let mut versions = ResourceKind::all_builtins()
        .filter(|known| (known.group.as_str(), known.kind.as_str()) == (group, kind));
    versions.next().filter(|_| versions.next().is_none()).cloned()
}
