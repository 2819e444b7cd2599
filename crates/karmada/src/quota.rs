//! `FederatedResourceQuota`: the quotas of members, and the overall usage.
//!
//! Facts: each assignment of a cluster that exists becomes a `ResourceQuota` of the same namespace and name there;
//! the first assignment of a cluster counts. The usage is the sum of the members' reports, or, where the control
//! plane enforces quotas, of the requests of its bindings.

use std::collections::BTreeMap;

use federate_kubernetes::formatted_quantity::FormattedQuantity;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Object, ObjectRef};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod admission;
mod planned_quota;
mod usage;
mod validation;

pub use admission::{QuotaAdmission, admit_binding};
pub(crate) use planned_quota::PlannedQuota;
pub use validation::validate_quota;

/// Amounts of resources as they are written.
pub type ResourceList = BTreeMap<String, Value>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    overall: Option<ResourceList>,
    #[serde(deserialize_with = "null_default")]
    static_assignments: Vec<Assignment>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Assignment {
    cluster_name: String,
    hard: Option<ResourceList>,
}

/// The status of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaStatus {
    /// The limits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overall: BTreeMap<String, String>,
    /// The usage.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overall_used: BTreeMap<String, String>,
    /// The reports of members, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<ClusterQuota>,
}

/// The report of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQuota {
    /// The member.
    pub cluster_name: String,
    /// Its limits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hard: BTreeMap<String, String>,
    /// The usage.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub used: BTreeMap<String, String>,
}

fn read_section<T: Default + for<'de> Deserialize<'de>>(
    object: &Object,
    key: &str,
) -> Result<T, serde_json::Error> {
    object.value_at(&[key]).filter(|value| !value.is_null()).map_or(Ok(T::default()), T::deserialize)
}

fn read_quantities(list: &ResourceList) -> BTreeMap<String, FormattedQuantity> {
    list.iter()
        .filter_map(|(name, amount)| Some((name.clone(), FormattedQuantity::from_json(amount)?)))
        .collect()
}

fn format_list(list: &ResourceList) -> BTreeMap<String, String> {
    format_quantities(&read_quantities(list))
}

fn format_quantities(list: &BTreeMap<String, FormattedQuantity>) -> BTreeMap<String, String> {
    list.iter().map(|(name, amount)| (name.clone(), amount.to_string())).collect()
}

/// The `ResourceQuota` of a quota for each of these clusters that has an assignment, by cluster.
pub fn member_quotas(quota: &Object, clusters: &[&str]) -> Result<Vec<(String, Object)>, serde_json::Error> {
    let spec: Spec = read_section(quota, "spec")?;
    let ObjectRef { namespace, name, .. } = &quota.id;
    let mut quotas = Vec::new();
    for cluster in clusters {
        let assigned = spec.static_assignments.iter().find(|a| a.cluster_name == *cluster);
        let Some(hard) = assigned.and_then(|assigned| assigned.hard.as_ref()) else { continue };
        let hard = format_list(hard);
        let spec = if hard.is_empty() { json!({}) } else { json!({"hard": hard}) };
        let body = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        });
        quotas.push(((*cluster).to_owned(), Object::from_manifest(body, quota.origin.file.clone())));
    }
    Ok(quotas)
}

/// The status of a quota. `reports` are the statuses of the members' quotas that were applied, by cluster;
/// `bindings` those of the control plane, where it enforces quotas.
pub fn compute_status(
    quota: &Object,
    reports: &BTreeMap<String, Value>,
    bindings: Option<&[Object]>,
) -> Result<QuotaStatus, serde_json::Error> {
    let spec: Spec = read_section(quota, "spec")?;
    let mut used: BTreeMap<String, FormattedQuantity> = BTreeMap::new();
    let mut aggregated_status = Vec::new();
    for (cluster_name, report) in reports {
        let of_member = read_quantities(&read_list(report, "used")?);
        for (name, amount) in &of_member {
            used.entry(name.clone()).or_default().add(*amount);
        }
        aggregated_status.push(ClusterQuota {
            cluster_name: cluster_name.clone(),
            hard: format_list(&read_list(report, "hard")?),
            used: format_quantities(&of_member),
        });
    }
    let overall = spec.overall.unwrap_or_default();
    if let Some(bindings) = bindings {
        used = BTreeMap::new();
        for binding in bindings.iter().filter(|b| b.id.namespace == quota.id.namespace) {
            for (name, amount) in usage::compute_binding_usage(binding)? {
                used.entry(name).or_default().add(amount);
            }
        }
        used.retain(|name, _| overall.contains_key(name));
    }
    Ok(QuotaStatus {
        overall: format_list(&overall),
        overall_used: format_quantities(&used),
        aggregated_status,
    })
}

/// A list of a member's report; empty if it is missing or null.
fn read_list(report: &Value, key: &str) -> Result<ResourceList, serde_json::Error> {
    let list = report.get(key).filter(|list| !list.is_null());
    list.map_or(Ok(ResourceList::new()), ResourceList::deserialize)
}
