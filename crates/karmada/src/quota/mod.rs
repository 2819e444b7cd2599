//! `FederatedResourceQuota`: the quotas of members, and the overall usage.
//!
//! Facts: each assignment of a cluster that exists becomes a `ResourceQuota` of the same namespace and name there;
//! the first assignment of a cluster counts. The usage is the sum of the members' reports, or, where the control
//! plane enforces quotas, of the requests of its bindings.

use std::collections::BTreeMap;

use federate_kubernetes::formatted::FormattedQuantity;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Object, ObjectRef};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod admit;
mod planned;
mod usage;
mod validate;

pub use admit::{Verdict, admit};
pub(crate) use planned::PlannedQuota;
pub use validate::validate;

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

fn part<T: Default + for<'de> Deserialize<'de>>(object: &Object, key: &str) -> Result<T, serde_json::Error> {
    object.at(&[key]).filter(|value| !value.is_null()).map_or(Ok(T::default()), T::deserialize)
}

fn quantities(list: &ResourceList) -> BTreeMap<String, FormattedQuantity> {
    let read =
        |(name, amount): (&String, &Value)| Some((name.clone(), FormattedQuantity::from_json(amount)?));
    list.iter().filter_map(read).collect()
}

fn printed(list: &ResourceList) -> BTreeMap<String, String> {
    print(&quantities(list))
}

fn print(list: &BTreeMap<String, FormattedQuantity>) -> BTreeMap<String, String> {
    list.iter().map(|(name, amount)| (name.clone(), amount.to_string())).collect()
}

/// The `ResourceQuota` of a quota for each of these clusters that has an assignment, by cluster.
pub fn member_quotas(quota: &Object, clusters: &[&str]) -> Result<Vec<(String, Object)>, serde_json::Error> {
    let spec: Spec = part(quota, "spec")?;
    let ObjectRef { namespace, name, .. } = &quota.id;
    let mut quotas = Vec::new();
    for cluster in clusters {
        let assigned = spec.static_assignments.iter().find(|a| a.cluster_name == *cluster);
        let Some(hard) = assigned.and_then(|assigned| assigned.hard.as_ref()) else { continue };
        let hard = printed(hard);
        let spec = if hard.is_empty() { json!({}) } else { json!({"hard": hard}) };
        let body = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        });
        quotas.push(((*cluster).to_owned(), Object::of(body, quota.origin.file.clone())));
    }
    Ok(quotas)
}

/// The status of a quota. `reports` are the statuses of the members' quotas that were applied, by cluster;
/// `bindings` those of the control plane, where it enforces quotas.
pub fn status(
    quota: &Object,
    reports: &BTreeMap<String, Value>,
    bindings: Option<&[Object]>,
) -> Result<QuotaStatus, serde_json::Error> {
    let spec: Spec = part(quota, "spec")?;
    let list = |report: &Value, key: &str| -> Result<ResourceList, serde_json::Error> {
        report
            .get(key)
            .filter(|list| !list.is_null())
            .map_or(Ok(ResourceList::new()), ResourceList::deserialize)
    };
    let mut used: BTreeMap<String, FormattedQuantity> = BTreeMap::new();
    let mut aggregated_status = Vec::new();
    for (cluster_name, report) in reports {
        let of_member = quantities(&list(report, "used")?);
        for (name, amount) in &of_member {
            used.entry(name.clone()).or_default().add(*amount);
        }
        aggregated_status.push(ClusterQuota {
            cluster_name: cluster_name.clone(),
            hard: printed(&list(report, "hard")?),
            used: print(&of_member),
        });
    }
    let overall = spec.overall.unwrap_or_default();
    if let Some(bindings) = bindings {
        used = BTreeMap::new();
        for binding in bindings.iter().filter(|b| b.id.namespace == quota.id.namespace) {
            for (name, amount) in usage::of(binding)? {
                used.entry(name).or_default().add(amount);
            }
        }
        used.retain(|name, _| overall.contains_key(name));
    }
    Ok(QuotaStatus { overall: printed(&overall), overall_used: print(&used), aggregated_status })
}
