//! Reads that begin before it is known what is desired: while a repo is planned, the API servers already list the members
//! of the `ApplySet`, whose kinds its parent names. What they do not cover is read later, as without them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::call::Call;
use super::client::Client;
use super::kinds::path;
use super::listed::Item;
use super::read::{List, items, parent_path, selector};
use super::target::{self, Connections};
use super::{Access, Error, runtime};
use federate_apiserver::Kind;
use federate_engine::actions::Inventory;
use federate_engine::actions::inventory::Members;
use federate_kubernetes::ClusterName;

/// Reads that are under way. Nothing is written by them, and dropping them ends them.
pub struct EarlyReads {
    pub(super) runtime: Option<Runtime>,
    pub(super) connections: Arc<Connections>,
    clusters: Mutex<BTreeMap<ClusterName, JoinHandle<Result<EarlyCluster, Error>>>>,
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
    lists: BTreeMap<String, JoinHandle<Result<Vec<Item>, Error>>>,
}

/// Begins to read the members of an `ApplySet` in the first clusters, as many as are worked on at a time.
///
/// # Errors
///
/// What keeps every cluster from being reached.
pub fn read_early(access: &Access, clusters: &[ClusterName], set: &Inventory) -> Result<EarlyReads, Error> {
    let connections = access.read(clusters.len())?;
    let runtime = runtime()?;
    let begin = |cluster: &ClusterName| {
        let (connections, name, set) = (connections.clone(), cluster.clone(), set.clone());
        let read = async move {
            let client = target::to(&connections, &name).await?;
            let found = EarlyLists::begin(&client, &set).await?;
            Ok(EarlyCluster { client, found })
        };
        (cluster.clone(), runtime.spawn(read))
    };
    let clusters = clusters.iter().take(access.clusters_at_once()).map(begin).collect();
    Ok(EarlyReads { runtime: Some(runtime), connections, clusters: Mutex::new(clusters) })
}

impl EarlyReads {
    /// What is being read of a cluster, for the first that asks.
    pub(super) fn take(&self, cluster: &str) -> Option<JoinHandle<Result<EarlyCluster, Error>>> {
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
    async fn begin(client: &Client, set: &Inventory) -> Result<Self, Error> {
        let parent = client.find(&Call::get(parent_path(set))).await?;
        let kinds = parent.iter().flat_map(|parent| Members::of(parent).group_kinds);
        let selector = selector(&[set.id()]);
        let lists = kinds.filter_map(|name| only_version(&name)).map(|kind| {
            let (client, list) =
                (client.clone(), List { kind, namespace: None, selector: Some(selector.clone()) });
            (path(&list.kind, None), tokio::spawn(async move { items(&client, &list).await }))
        });
        let lists = lists.collect();
        Ok(Self { parent, selector, lists })
    }

    /// A list that is under way.
    pub(super) fn take(&mut self, list: &List) -> Option<JoinHandle<Result<Vec<Item>, Error>>> {
        let is_same = list.namespace.is_none() && list.selector.as_ref() == Some(&self.selector);
        self.lists.remove(&path(&list.kind, None)).filter(|_| is_same)
    }
}

/// A built-in kind, as `Kind.group`, of which there is only one version: another one may be rendered.
fn only_version(name: &str) -> Option<Kind> {
    let (kind, group) = name.split_once('.').unwrap_or((name, ""));
    let mut versions =
        Kind::builtins().filter(|known| (known.group.as_str(), known.kind.as_str()) == (group, kind));
    versions.next().filter(|_| versions.next().is_none()).cloned()
}
