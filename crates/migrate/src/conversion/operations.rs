//! What differs between the manifests of both sides, as operations of each cluster.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::{ClusterName, ObjectRef};
use serde_json::Value;

use crate::difference;
use crate::intent::{ClusterOperations, ManifestOperation, OverrideRuleIntent, RepoIntent, group_operations};
use crate::rendering::SentVariant;

/// The overrides by which it was tried to make manifests equal.
#[derive(Default)]
pub(super) struct TriedOperations(BTreeSet<String>);

impl TriedOperations {
    pub(super) fn new(intent: &RepoIntent) -> Self {
        let overrides = intent.overrides.iter().flat_map(|one| {
            let operations = one.rules.iter().flat_map(|rule| &rule.operations);
            operations.map(|operation| Self::key(&one.object, &operation.pointer, operation.action.value()))
        });
        Self(overrides.collect())
    }

    fn key(object: &ObjectRef, pointer: &str, value: Option<&Value>) -> String {
        format!("{} {object} {pointer} {value:?}", object.api_version)
    }

    pub(super) fn contains(&self, object: &ObjectRef, operation: &ManifestOperation) -> bool {
        self.0.contains(&Self::key(object, &operation.pointer, operation.action.value()))
    }
}

/// Override rules with further operations behind those of each cluster.
pub(super) fn append_operations(
    rules: Vec<OverrideRuleIntent>,
    changes: Vec<ClusterOperations>,
) -> Vec<OverrideRuleIntent> {
    let mut by_cluster: BTreeMap<ClusterName, Vec<ManifestOperation>> = BTreeMap::new();
    let known = rules.into_iter().map(|rule| ClusterOperations {
        clusters: rule.clusters.into_iter().collect(),
        operations: rule.operations,
    });
    for ClusterOperations { clusters, operations } in known.chain(changes) {
        for cluster in clusters {
            by_cluster.entry(cluster).or_default().extend(operations.iter().cloned());
        }
    }
    let by_cluster = by_cluster.into_iter();
    group_operations(
        by_cluster.map(|(name, operations)| ClusterOperations { clusters: vec![name], operations }),
    )
}

/// What clusters receive by the old and by the new control plane.
pub(super) struct VariantPair<'v> {
    pub(super) old: &'v SentVariant,
    pub(super) new: &'v SentVariant,
    pub(super) clusters: Vec<ClusterName>,
}

impl VariantPair<'_> {
    /// The operations that turn the new manifest into the old one; `strict` ones add no mapping that is not there.
    pub(super) fn into_operations(self, strict: bool) -> ClusterOperations {
        let operations = if strict {
            difference::compute_exact_patch(&self.new.body, &self.old.body)
        } else {
            difference::compute_patch(&self.new.body, &self.old.body)
        };
        ClusterOperations { clusters: self.clusters, operations }
    }
}

/// The pairs of variants that clusters receive.
pub(super) fn pair_variants<'v>(old: &'v [SentVariant], new: &'v [SentVariant]) -> Vec<VariantPair<'v>> {
    let mut received: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, variant) in new.iter().enumerate() {
        received.extend(variant.clusters.iter().map(|name| (name.as_ref(), at)));
    }
    let mut pairs = Vec::new();
    for variant in old {
        let mut by_new: BTreeMap<usize, Vec<ClusterName>> = BTreeMap::new();
        for name in variant.clusters.iter() {
            if let Some(at) = received.get(name.as_ref()) {
                by_new.entry(*at).or_default().push(name.clone());
            }
        }
        for (at, clusters) in by_new {
            pairs.extend(new.get(at).map(|new| VariantPair { old: variant, new, clusters }));
        }
    }
    pairs
}

/// Takes out the operations that all clusters have and that `is_taken` accepts.
pub(super) fn take_common(
    changes: &mut [ClusterOperations],
    is_taken: impl Fn(&ManifestOperation) -> bool,
) -> Vec<ManifestOperation> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let key = |operation: &ManifestOperation| {
        format!("{} {} {:?}", operation.action.name(), operation.pointer, operation.action.value())
    };
    for operation in changes.iter().flat_map(|change| &change.operations) {
        *counts.entry(key(operation)).or_default() += 1;
    }
    let all = changes.len();
    let mut common = Vec::new();
    for (at, change) in changes.iter_mut().enumerate() {
        change.operations.retain(|operation| {
            let is_common = counts.get(&key(operation)) == Some(&all) && is_taken(operation);
            if is_common && at == 0 {
                common.push(operation.clone());
            }
            !is_common
        });
    }
    common
}
