//! Which clusters policies of Karmada name.

use std::collections::BTreeSet;

use federate_kubernetes::selector::{LabelSelector, SelectorRequirement};
use serde::Deserialize;

use crate::intent::ClusterRule;

/// The name of the dialect.
pub(super) const NAME: &str = "karmada";

/// Some clusters of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadAffinity {
    label_selector: Option<LabelSelector>,
    field_selector: Option<FieldSelector>,
    #[serde(deserialize_with = "federate_kubernetes::selector::null_default")]
    cluster_names: BTreeSet<String>,
    #[serde(deserialize_with = "federate_kubernetes::selector::null_default")]
    exclude: BTreeSet<String>,
}

/// Requirements on fields of clusters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FieldSelector {
    #[serde(deserialize_with = "federate_kubernetes::selector::null_default")]
    match_expressions: Vec<SelectorRequirement>,
}

impl From<ReadAffinity> for ClusterRule {
    fn from(affinity: ReadAffinity) -> Self {
        Self {
            names: Some(affinity.cluster_names).filter(|names| !names.is_empty()),
            excluded: affinity.exclude,
            labels: affinity.label_selector.unwrap_or_default(),
            fields: affinity.field_selector.unwrap_or_default().match_expressions,
        }
    }
}
