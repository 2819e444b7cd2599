//! The builds of sources that objects of Flux and Argo CD describe.

use std::sync::Arc;

use federate_gitops::{DescribedJob, DescribedSource, DescriptionError, FileGeneration, expand_values};
use federate_kubernetes::{Cluster, ObjectRef};
use serde_json::Value;

use super::{ApiClasses, CachedTree, SourceRecord};
use crate::build::{BuildJob, ChartJob, KustomizationJob};

/// The job for a cluster; for no cluster in particular if there are none.
pub(super) fn list_job(
    source: &DescribedSource,
    tree: &CachedTree<'_>,
    cluster: Option<&Cluster>,
    apis: &ApiClasses,
) -> Result<BuildJob, DescriptionError> {
    let chart = match &source.job {
        DescribedJob::Kustomization { edits, generation } => {
            return Ok(BuildJob::Kustomization(Box::new(KustomizationJob {
                folder: source.path.clone(),
                // Flux restricts no files; Argo CD does, as kustomize by itsource.
                is_unrestricted: *generation == FileGeneration::Tree,
                edits: if edits.is_empty() {
                    String::new()
                } else {
                    Value::Object(edits.clone()).to_string()
                },
                generation: *generation,
            })));
        }
        DescribedJob::Chart(chart) => chart,
    };
    let values = expand_values(tree, &chart.values).map_err(|error| DescriptionError {
        pointer: String::new(),
        why: error.why,
        help: error.help,
    })?;
    Ok(BuildJob::Chart(Box::new(ChartJob {
        path: source.path.clone(),
        release: Some(chart.release.clone()),
        namespace: chart.namespace.clone(),
        values,
        replaces_values: chart.replaces_values,
        set: if chart.set.is_empty() { String::new() } else { Value::Object(chart.set.clone()).to_string() },
        kubernetes: cluster.and_then(|cluster| cluster.kubernetes.clone()),
        apis: cluster.map_or_else(|| Arc::from([]), |cluster| apis.list_for(cluster)),
        skips_crds: chart.skips_crds,
        drops_hooks: false,
    })))
}

/// What is noted of a source. `described_by` is the object that describes it, `chain` the objects through which that was built.
pub(super) fn record_source(
    source: &DescribedSource,
    described_by: Option<&ObjectRef>,
    chain: Vec<ObjectRef>,
) -> SourceRecord {
    let release = match &source.job {
        DescribedJob::Chart(chart) => Some(chart.release.clone()),
        DescribedJob::Kustomization { .. } => None,
    };
    SourceRecord {
        path: source.path.clone(),
        is_chart: release.is_some(),
        release,
        described_by: described_by.cloned(),
        chain,
        ..SourceRecord::default()
    }
}
