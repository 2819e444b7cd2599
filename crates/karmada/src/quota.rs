//! `FederatedResourceQuota`: the quotas of members, and the admission of what they limit.
//!
//! Facts: each assignment of a cluster that exists becomes a `ResourceQuota` of the same namespace and name there;
//! the first assignment of a cluster counts. Where the control plane enforces quotas, the usage is the sum of the requests
//! of its bindings.

use std::collections::BTreeMap;

use federate_kubernetes::formatted_quantity::FormattedQuantity;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Object, ObjectRef};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::read_section;

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
