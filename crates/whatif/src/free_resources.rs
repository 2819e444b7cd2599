//! The free resources of clusters after a scenario.
//!
//! What a cluster reports as free already counts what runs there. The difference of the replicas between two plans is
//! taken from it, with what the pods of each template request.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::Baseline;
use super::losses::ScenarioState;
use super::variation::{OncePerPair, RowPair};
use federate_dialect::{Placement, RowKey};
use federate_engine::TemplateIndex;
use federate_engine::capacity::{self, amount_in_words};
use federate_engine::replicas::ObjectReplicas;
use federate_kubernetes::quantity::Quantity;

/// The free part of a resource of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FreeResource {
    /// The cluster.
    pub cluster: String,
    /// The resource that is closest to its limit.
    pub resource: String,
    /// The free amount; negative if more is requested than there is.
    pub free: String,
    /// The allocatable amount.
    pub allocatable: String,
    /// The free part in percent, rounded down.
    pub percent: i64,
}

/// What a pod requests, by resource.
pub(super) type PodRequest = BTreeMap<String, Quantity>;

/// What the pods of each row of a plan request.
#[derive(Debug)]
pub(super) struct RowRequests {
    /// Each once.
    distinct: Vec<PodRequest>,
    /// Indexes of `distinct`, in the order of the rows.
    of_row: Vec<usize>,
}

impl RowRequests {
    /// Reads the requests from the templates.
    pub(super) fn from_templates(templates: &TemplateIndex<'_>, rows: &[Placement]) -> Self {
        let all: Vec<PodRequest> =
            rows.par_iter().map(|row| capacity::template_requests(templates, &row.object)).collect();
        let mut known: HashMap<&PodRequest, usize> = HashMap::new();
        let mut of_row = Vec::with_capacity(all.len());
        for request in &all {
            let next = known.len();
            of_row.push(*known.entry(request).or_insert(next));
        }
        let mut distinct: Vec<(usize, &PodRequest)> =
            known.into_iter().map(|(r, number)| (number, r)).collect();
        distinct.sort_by_key(|(number, _)| *number);
        Self { distinct: distinct.into_iter().map(|(_, request)| request.clone()).collect(), of_row }
    }

    /// The request of a row.
    pub(super) fn find_request(&self, key: &RowKey) -> Option<&PodRequest> {
        self.request_number(key).and_then(|number| self.distinct.get(number))
    }

    /// The number of the request of a row.
    fn request_number(&self, key: &RowKey) -> Option<usize> {
        match key {
            RowKey::Known(at) => self.of_row.get(*at).copied(),
            RowKey::New(_) => None,
        }
    }
}

/// What the changed rows request more than before.
fn compute_used<'s>(
    baseline: &'s Baseline<'_>,
    after: &'s ScenarioState<'_>,
) -> capacity::RequestedAmounts<'s> {
    let requests = baseline.row_requests();
    // By the rows and the number of their request: how often they occur, and the difference.
    let mut differences = OncePerPair::default();
    let mut used = capacity::RequestedAmounts::new();
    let scaled = after.scaled.iter().map(|object| baseline.row_key(object));
    let keys: BTreeSet<RowKey> = after.plan.rows.keys().cloned().chain(scaled).collect();
    for key in keys {
        let number = requests.request_number(&key);
        let pair = [baseline.find_row(&key), after.plan.find_row(baseline, &key)];
        let replicas = [baseline.object_replicas(&key), after.object_replicas(baseline, &key)];
        let difference = || (0_i64, changed_replicas(pair, &replicas));
        let (times, difference) = differences.get_or_compute(pair, (number, replicas.clone()), difference);
        *times += 1;
        if number.is_none() && !difference.is_empty() {
            let request = baseline.find_object(&key).map(|object| baseline.object_requests(object));
            add_used(&mut used, difference, request.as_ref(), 1);
        }
    }
    for ((_, _, (number, _)), (times, difference)) in differences.into_all() {
        let request = number.and_then(|number| requests.distinct.get(number));
        add_used(&mut used, &difference, request, times);
    }
    used
}

/// Adds what replicas request, a number of times.
fn add_used<'s>(
    used: &mut capacity::RequestedAmounts<'s>,
    replicas: &[(&'s str, i64)],
    request: Option<&PodRequest>,
    times: i64,
) {
    for (cluster, replicas) in replicas {
        for (resource, amount) in request.into_iter().flatten() {
            let sum = used.entry((cluster, resource.clone())).or_default();
            let amount = amount.as_nanos().saturating_mul(i128::from(*replicas) * i128::from(times));
            *sum = sum.saturating_add(amount);
        }
    }
}

/// The tightest resource of each cluster that runs and whose free resources are known, the tightest first.
pub(super) fn tightest_resources(baseline: &Baseline<'_>, after: &ScenarioState<'_>) -> Vec<FreeResource> {
    let used = compute_used(baseline, after);
    let mut tightest = Vec::new();
    for cluster in after.clusters.iter().filter(|c| !after.down.contains(&c.name)) {
        let Some(known) = &cluster.capacity else { continue };
        let resources = known.allocatable.iter().filter(|(_, amount)| amount.as_nanos() > 0);
        tightest.extend(
            resources
                .map(|(name, amount)| {
                    let free = known.available.get(name).copied().unwrap_or_default().as_nanos();
                    let free = free - used.get(&(cluster.name.as_ref(), name.clone())).copied().unwrap_or(0);
                    let percent = (free * 100).div_euclid(amount.as_nanos());
                    FreeResource {
                        cluster: cluster.name.to_string(),
                        resource: name.clone(),
                        free: amount_in_words(name, free),
                        allocatable: amount_in_words(name, amount.as_nanos()),
                        percent: i64::try_from(percent).unwrap_or(i64::MIN),
                    }
                })
                .min_by_key(|resource| resource.percent),
        );
    }
    tightest.sort_by(|a, b| (a.percent, &a.cluster).cmp(&(b.percent, &b.cluster)));
    tightest
}

/// The clusters in which two rows of an object have different replicas, with the difference.
fn changed_replicas<'p>(pair: RowPair<'p>, replicas: &[Cow<'_, ObjectReplicas>; 2]) -> Vec<(&'p str, i64)> {
    let mut differences: BTreeMap<&str, i64> = BTreeMap::new();
    for ((row, replicas), sign) in pair.into_iter().zip(replicas).zip([-1, 1]) {
        for placed in row.into_iter().flat_map(|row| &row.clusters) {
            *differences.entry(&placed.name).or_default() += sign * replicas.count_in(placed);
        }
    }
    differences.into_iter().filter(|(_, difference)| *difference != 0).collect()
}
