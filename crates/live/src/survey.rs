//! What a plan is made from and only the clusters know: the plan that the last apply left there, and the objects that
//! schedulers look at. It is read before the plan is made.

use std::collections::BTreeSet;
use std::time::Duration;

use super::lists::{ListRequest, list_objects};
use super::path::parent_path;
use super::plan_config_maps::{self, FoundPlan};
use super::request::RepeatableRequest;
use super::runtime::{for_each_cluster, limit_time};
use super::{Access, DesiredState, Error, target};
use federate_apiserver_model::ResourceKind;
use federate_dialect::{ClusterReads, ObjectScope};
use federate_kubernetes::{ClusterName, Object};
use federate_reconcile::ApplySet;

/// How long a cluster is waited for where `--timeout` does not say it: all others wait meanwhile.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// What is read of each cluster.
pub struct SurveyOptions<'s> {
    /// The `ApplySet` whose stored plan is read, if it is.
    pub stores_plan: Option<&'s ApplySet>,
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
    /// The plan that it stores; nothing where that was not asked.
    pub plan: FoundPlan,
    /// The objects that schedulers look at; `None` where they look at none.
    pub objects: Option<Vec<Object>>,
}

/// Reads all clusters at once.
pub fn survey_clusters(
    access: &Access,
    clusters: &[ClusterName],
    survey: &SurveyOptions<'_>,
) -> Result<Vec<SurveyedCluster>, Error> {
    let desired_states: Vec<DesiredState<'_>> =
        clusters.iter().cloned().map(DesiredState::without_objects).collect();
    for_each_cluster(access, &desired_states, |runtime, connections, desired| {
        let time = connections.timeout().unwrap_or(DEFAULT_TIMEOUT);
        let found = runtime.block_on(limit_time(Some(time), async {
            let client = target::connect_member(connections, &desired.cluster).await?;
            let plan = match survey.stores_plan {
                Some(set) => plan_config_maps::read_plan(&client, set).await?,
                None => FoundPlan::Nothing,
            };
            let lists = scheduler_lists(&desired.cluster, survey.reads);
            let objects = if lists.is_empty() {
                None
            } else {
                Some(list_objects(&client, lists.into_iter(), &desired.cluster).await?)
            };
            Ok(SurveyResult { plan, objects })
        }));
        SurveyedCluster { cluster: desired.cluster.clone(), found }
    })
}

/// Asks each cluster for the parent of an `ApplySet`, with credentials that are read anew. Returns the clusters that do not
/// answer, or refuse: whether they still have what was applied is not known.
pub fn find_unreachable(
    access: &Access,
    clusters: &[ClusterName],
    set: &ApplySet,
) -> Result<Vec<(ClusterName, Error)>, Error> {
    let desired_states: Vec<DesiredState<'_>> =
        clusters.iter().cloned().map(DesiredState::without_objects).collect();
    let answers = for_each_cluster(access, &desired_states, |runtime, connections, desired| {
        let time = connections.timeout().unwrap_or(DEFAULT_TIMEOUT);
        let asked = runtime.block_on(limit_time(Some(time), async {
            let client = target::connect_member(connections, &desired.cluster).await?;
            client.request_optional(&RepeatableRequest::get(parent_path(set))).await
        }));
        asked.err().map(|error| (desired.cluster.clone(), error))
    })?;
    Ok(answers.into_iter().flatten().collect())
}

/// The lists that hold what schedulers look at in a cluster. Only built-in kinds are known before the cluster is asked.
fn scheduler_lists(cluster: &ClusterName, reads: &ClusterReads) -> Vec<ListRequest> {
    let capacity = reads.capacity.contains(cluster);
    let [node, all] = ["Node", "Pod"].map(|kind| ObjectScope {
        api_version: "v1".into(),
        kind: kind.into(),
        namespace: None,
    });
    let nodes = [node, all.clone()].into_iter().filter(|_| capacity);
    let scopes: BTreeSet<ObjectScope> = reads.objects.iter().cloned().chain(nodes).collect();
    let all_pods = scopes.contains(&all);
    scopes
        .iter()
        .filter(|scope| !all_pods || scope.namespace.is_none() || scope.kind != "Pod")
        .filter_map(|scope| {
            let kind = ResourceKind::find_builtin(&scope.api_version, &scope.kind).cloned()?;
            Some(ListRequest { kind, namespace: scope.namespace.clone(), selector: None })
        })
        .collect()
}
