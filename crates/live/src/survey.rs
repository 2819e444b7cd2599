//! What a plan is made from and only the clusters know: the plan that the last apply left there, and the objects that
//! schedulers look at. It is read before the plan is made.

use std::collections::BTreeSet;
use std::time::Duration;

use super::call::Call;
use super::memory::{self, StoredMemory};
use super::read::{List, objects, parent_path};
use super::{Access, DesiredState, Error, each, target, within};
use federate_apiserver::Kind;
use federate_dialect::{ClusterReads, ObjectScope};
use federate_engine::actions::Inventory;
use federate_kubernetes::{ClusterName, Object};

/// How long a cluster is waited for where `--timeout` does not say it: all others wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is read of each cluster.
pub struct Survey<'s> {
    /// The `ApplySet` whose remembered plan is read, if it is.
    pub memory: Option<&'s Inventory>,
    /// What the schedulers look at.
    pub reads: &'s ClusterReads,
}

/// What a cluster answered.
#[derive(Debug)]
pub struct SurveyedCluster {
    /// The cluster.
    pub cluster: ClusterName,
    /// What was found there.
    pub found: Result<SurveyResult, Error>,
}

/// What was found in a cluster.
#[derive(Debug, Default)]
pub struct SurveyResult {
    /// The plan that it remembers; nothing where that was not asked.
    pub memory: StoredMemory,
    /// The objects that schedulers look at; `None` where they look at none.
    pub objects: Option<Vec<Object>>,
}

/// Reads all clusters at once.
pub fn survey(
    access: &Access,
    clusters: &[ClusterName],
    survey: &Survey<'_>,
) -> Result<Vec<SurveyedCluster>, Error> {
    let desired = |cluster: &ClusterName| DesiredState { cluster: cluster.clone(), objects: Vec::new() };
    let desired_states: Vec<DesiredState<'_>> = clusters.iter().map(desired).collect();
    each(access, &desired_states, |runtime, connections, desired| {
        let time = connections.timeout().unwrap_or(PATIENCE);
        let found = runtime.block_on(within(Some(time), async {
            let client = target::to(connections, &desired.cluster).await?;
            let memory = match survey.memory {
                Some(set) => memory::read(&client, set).await?,
                None => StoredMemory::Nothing,
            };
            let lists = lists(&desired.cluster, survey.reads);
            let objects = if lists.is_empty() {
                None
            } else {
                Some(objects(&client, lists.into_iter(), &desired.cluster).await?)
            };
            Ok(SurveyResult { memory, objects })
        }));
        SurveyedCluster { cluster: desired.cluster.clone(), found }
    })
}

/// Asks each cluster for the parent of an `ApplySet`, with credentials that are read anew. Returns the clusters that do not
/// answer, or refuse: whether they still have what was applied is not known.
pub fn find_unreachable(
    access: &Access,
    clusters: &[ClusterName],
    set: &Inventory,
) -> Result<Vec<(ClusterName, Error)>, Error> {
    let desired = |cluster: &ClusterName| DesiredState { cluster: cluster.clone(), objects: Vec::new() };
    let desired_states: Vec<DesiredState<'_>> = clusters.iter().map(desired).collect();
    let answers = each(access, &desired_states, |runtime, connections, desired| {
        let time = connections.timeout().unwrap_or(PATIENCE);
        let asked = runtime.block_on(within(Some(time), async {
            let client = target::to(connections, &desired.cluster).await?;
            client.find(&Call::get(parent_path(set))).await
        }));
        asked.err().map(|error| (desired.cluster.clone(), error))
    })?;
    Ok(answers.into_iter().flatten().collect())
}

/// The lists that hold what schedulers look at in a cluster. Only built-in kinds are known before the cluster is asked.
fn lists(cluster: &ClusterName, reads: &ClusterReads) -> Vec<List> {
    let everywhere =
        |kind: &str| ObjectScope { api_version: "v1".into(), kind: kind.into(), namespace: None };
    let capacity = reads.capacity.contains(cluster);
    let nodes = [everywhere("Node"), everywhere("Pod")].into_iter().filter(|_| capacity);
    let scopes: BTreeSet<ObjectScope> = reads.objects.iter().cloned().chain(nodes).collect();
    let all = everywhere("Pod");
    let narrow =
        |scope: &&ObjectScope| scope.namespace.is_some() && scope.kind == "Pod" && scopes.contains(&all);
    let list = |scope: &ObjectScope| {
        let kind = Kind::builtin(&scope.api_version, &scope.kind).cloned()?;
        Some(List { kind, namespace: scope.namespace.clone(), selector: None })
    };
    scopes.iter().filter(|scope| !narrow(scope)).filter_map(list).collect()
}
