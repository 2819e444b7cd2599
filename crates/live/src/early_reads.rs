//! Reads that begin before it is known what is desired: while a repo is planned, the API servers already list the members
//! of the `ApplySet`, whose kinds its parent names. What they do not cover is read later, as without them.
//!
//! Where these reads are all that a run looks at in a cluster, a digest of them stands for the state of the cluster.

use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use super::client::Client;
use super::items::ListItem;
use super::kinds::list_path;
use super::lists::{ListBudget, ListRequest, list_items};
use super::path::{ApiPath, member_selector, parent_path};
use super::request::RepeatableRequest;
use super::runtime::{CLUSTER_TIMEOUT, build_runtime, join_result, limit_time};
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
    /// Whether every cluster is being read.
    complete: bool,
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
    digests: AnswerDigests,
}

/// Digests of the answers, by the paths of the requests; those of lists once they are complete.
#[derive(Clone, Default)]
pub(super) struct AnswerDigests {
    answers: Arc<Mutex<BTreeMap<String, [u8; 32]>>>,
    /// How many there are to be.
    requests: usize,
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
    let complete = clusters.len() <= at_once;
    Ok(EarlyReads { runtime: Some(runtime), connections, clusters: Mutex::new(begun), complete })
}

impl EarlyReads {
    /// What is being read of a cluster, for the first that asks.
    pub(super) fn take_cluster(&self, cluster: &str) -> Option<PendingRead<EarlyCluster>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster)
    }

    /// Waits until everything has been read, and returns a digest of each cluster, which
    /// [`ClusterOutcome`](crate::ClusterOutcome) has too; `None` if something could not be read, or not all clusters are
    /// read early. What was read is still there for a run.
    pub fn wait_for_digests(&self) -> Option<BTreeMap<ClusterName, String>> {
        let runtime = self.runtime.as_ref().filter(|_| self.complete)?;
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let time = self.connections.timeout().or(Some(CLUSTER_TIMEOUT));
        let under_way = std::mem::take(&mut *clusters).into_iter();
        let under_way: Vec<_> = under_way
            .map(|(name, reading)| (name, runtime.spawn(limit_time(time, wait_for_cluster(reading)))))
            .collect();
        let mut all = BTreeMap::new();
        for (name, reading) in under_way {
            let read = join_result(runtime.block_on(reading)).flatten();
            all.insert(
                name.clone(),
                read.as_ref().ok().and_then(|cluster| cluster.found.digests.combine_digests()),
            );
            clusters.insert(name, Box::pin(ready(read)));
        }
        all.into_iter().map(|(name, digest)| Some((name, digest?))).collect()
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
        let digests = AnswerDigests { requests: lists.len() + 1, ..AnswerDigests::default() };
        if let Some(parent) = &parent {
            digests.note_answer(&parent_path(set), [parent.to_string().as_bytes()].into_iter());
        }
        let budget = ListBudget::for_cluster();
        let lists = lists
            .into_iter()
            .map(|list| {
                let (client, path, digests) = (client.clone(), list_path(&list.kind, None), digests.clone());
                let (at, budget) = (path.clone(), budget.clone());
                let read = tokio::spawn(async move {
                    let items = list_items(&client, &list, &budget).await?;
                    digests.note_answer(&at, items.iter().map(|(_, text)| &**text));
                    Ok(items)
                });
                let reading: PendingRead<Vec<ListItem>> = Box::pin(async move { join_result(read.await)? });
                (path, reading)
            })
            .collect();
        Ok(Self { parent, selector, lists, digests })
    }

    /// A list that is under way.
    pub(super) fn take_list(&mut self, list: &ListRequest) -> Option<PendingRead<Vec<ListItem>>> {
        self.has_list(list).then(|| self.lists.remove(&list_path(&list.kind, None)))?
    }

    fn has_list(&self, list: &ListRequest) -> bool {
        let is_same = list.namespace.is_none() && list.selector.as_ref() == Some(&self.selector);
        is_same && self.lists.contains_key(&list_path(&list.kind, None))
    }

    /// The digests, if these lists are all that are under way.
    pub(super) fn digests_of(&self, lists: &[ListRequest]) -> Option<AnswerDigests> {
        let all = lists.len() == self.lists.len() && lists.iter().all(|list| self.has_list(list));
        all.then(|| self.digests.clone())
    }

    /// Waits until all lists have been read.
    async fn wait_for_lists(&mut self) {
        for reading in self.lists.values_mut() {
            let read = reading.as_mut().await;
            *reading = Box::pin(ready(read));
        }
    }
}

impl AnswerDigests {
    fn note_answer<'t>(&self, path: &ApiPath, texts: impl Iterator<Item = &'t [u8]>) {
        let mut sha = Sha256::new();
        for text in texts {
            sha.update((text.len() as u64).to_be_bytes());
            sha.update(text);
        }
        let digest = sha.finalize().into();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_string(), digest);
    }

    /// The digest of all answers; `None` if one is missing.
    pub(super) fn combine_digests(&self) -> Option<String> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sha = Sha256::new();
        for (path, digest) in answers.iter() {
            sha.update((path.len() as u64).to_be_bytes());
            sha.update(path);
            sha.update(digest);
        }
        let complete = answers.len() == self.requests;
        complete
            .then(|| sha.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
    }
}

/// A built-in kind, as `Kind.group`, of which there is only one version: another one may be rendered.
fn only_version(name: &str) -> Option<ResourceKind> {
    let (kind, group) = name.split_once('.').unwrap_or((name, ""));
    let mut versions = ResourceKind::all_builtins()
        .filter(|known| (known.group.as_str(), known.kind.as_str()) == (group, kind));
    versions.next().filter(|_| versions.next().is_none()).cloned()
}

/// Waits for all that is read of a cluster.
async fn wait_for_cluster(reading: PendingRead<EarlyCluster>) -> Result<EarlyCluster, Error> {
    let mut cluster = reading.await?;
    cluster.found.wait_for_lists().await;
    Ok(cluster)
}
