//! The quota usage of a binding: the requests of its scheduled replicas.

use std::collections::BTreeMap;

use federate_kubernetes::Object;
use federate_kubernetes::formatted_quantity::FormattedQuantity;
use federate_kubernetes::selector::null_default;
use serde::Deserialize;
use serde_json::Value;

use super::{ResourceList, read_quantities, read_section};

/// The parts of a binding that quotas look at.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct QuotaBindingSpec {
    #[serde(deserialize_with = "null_default")]
    pub(super) clusters: Vec<TargetCluster>,
    replica_requirements: Option<Requirements>,
    #[serde(deserialize_with = "null_default")]
    pub(super) components: Vec<Component>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct TargetCluster {
    pub(super) name: String,
    #[serde(default, deserialize_with = "null_default")]
    pub(super) replicas: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Requirements {
    #[serde(deserialize_with = "null_default")]
    resource_request: ResourceList,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Component {
    name: String,
    #[serde(deserialize_with = "null_default")]
    replicas: i64,
    replica_requirements: Option<Requirements>,
}

impl QuotaBindingSpec {
    pub(super) fn from_binding(binding: &Object) -> Result<Self, serde_json::Error> {
        read_section(binding, "spec")
    }

    /// The requests of one replica.
    pub(super) fn replica_request(&self) -> BTreeMap<String, FormattedQuantity> {
        self.replica_requirements.as_ref().map(|r| read_quantities(&r.resource_request)).unwrap_or_default()
    }

    pub(super) fn total_replicas(&self) -> i64 {
        self.clusters.iter().map(|target| target.replicas).sum()
    }

    /// Its usage, without zeros.
    pub(super) fn compute_usage(&self) -> BTreeMap<String, FormattedQuantity> {
        let mut used: BTreeMap<String, FormattedQuantity> = BTreeMap::new();
        if self.components.is_empty() {
            for target in &self.clusters {
                add_request(&mut used, self.replica_request(), target.replicas);
            }
        } else {
            let clusters = i64::try_from(self.clusters.len()).unwrap_or(i64::MAX);
            for component in &self.components {
                let request =
                    component.replica_requirements.as_ref().map(|r| read_quantities(&r.resource_request));
                let times = component.replicas.saturating_mul(clusters);
                add_request(&mut used, request.unwrap_or_default(), times);
            }
        }
        used.retain(|_, amount| !amount.amount.is_zero());
        used
    }
}

/// Adds the requests of some replicas.
pub(super) fn add_request(
    used: &mut BTreeMap<String, FormattedQuantity>,
    request: BTreeMap<String, FormattedQuantity>,
    times: i64,
) {
    for (name, amount) in request {
        used.entry(name).or_default().add(amount.multiply_by(times));
    }
}

/// Whether a written value is not an amount.
pub(super) fn is_no_amount(value: &Value) -> bool {
    FormattedQuantity::from_json(value).is_none()
}
