//! The admission of `FederatedResourceQuota`.

use federate_kubernetes::formatted_quantity::FormattedQuantity;
use federate_kubernetes::names::{is_dns_label, is_dns_subdomain, is_name_part};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Finding, Object};
use serde::Deserialize;

use super::usage::is_no_amount;
use super::{ResourceList, Spec, read_section};

/// The resources without a group that a quota can limit, and whether they are counted in whole numbers.
const STANDARD: [(&str, bool); 19] = [
    ("cpu", false),
    ("memory", false),
    ("ephemeral-storage", false),
    ("requests.cpu", false),
    ("requests.memory", false),
    ("requests.storage", false),
    ("requests.ephemeral-storage", false),
    ("limits.cpu", false),
    ("limits.memory", false),
    ("limits.ephemeral-storage", false),
    ("pods", true),
    ("services", true),
    ("services.nodeports", true),
    ("services.loadbalancers", true),
    ("replicationcontrollers", true),
    ("resourcequotas", true),
    ("secrets", true),
    ("configmaps", true),
    ("persistentvolumeclaims", true),
];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    overall: Option<ResourceList>,
    overall_used: Option<ResourceList>,
    #[serde(deserialize_with = "null_default")]
    aggregated_status: Vec<Aggregated>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Aggregated {
    cluster_name: String,
    hard: Option<ResourceList>,
    used: Option<ResourceList>,
}

/// Everything that is wrong with a quota.
pub fn validate_quota(quota: &Object) -> Vec<Finding> {
    let mut refusals = QuotaRefusals { quota, findings: Vec::new() };
    let (spec, status): (Spec, Status) = match (read_section(quota, "spec"), read_section(quota, "status")) {
        (Ok(spec), Ok(status)) => (spec, status),
        (Err(error), _) | (_, Err(error)) => {
            refusals.refuse("/spec", error.to_string());
            return refusals.findings;
        }
    };
    if quota.id.name.len() > 63 {
        refusals.refuse("/metadata/name", "the name has more than 63 characters".to_owned());
    }
    let overall = spec.overall.unwrap_or_default();
    refusals.check_list(&overall, "/spec/overall");
    for (index, assignment) in spec.static_assignments.iter().enumerate() {
        let pointer = format!("/spec/staticAssignments/{index}");
        refusals.check_cluster(&assignment.cluster_name, &pointer);
        let hard = assignment.hard.clone().unwrap_or_default();
        let pointer = format!("{pointer}/hard");
        refusals.check_list(&hard, &pointer);
        for name in hard.keys().filter(|name| !overall.contains_key(*name)) {
            refusals.refuse(&pointer, format!("`{name}` is not in `overall`"));
        }
    }
    for (name, limit) in &overall {
        let assigned = spec.static_assignments.iter().filter_map(|a| a.hard.as_ref()?.get(name));
        let assigned = assigned.filter_map(Quantity::from_json).fold(Quantity::default(), |a, b| a + b);
        if Quantity::from_json(limit).is_some_and(|limit| limit < assigned) {
            refusals.refuse("/spec/overall", format!("`{name}` is less than what is assigned of it"));
        }
    }
    for (list, key) in [(status.overall, "overall"), (status.overall_used, "overallUsed")] {
        refusals.check_list(&list.unwrap_or_default(), &format!("/status/{key}"));
    }
    for (index, one) in status.aggregated_status.into_iter().enumerate() {
        let pointer = format!("/status/aggregatedStatus/{index}");
        refusals.check_cluster(&one.cluster_name, &pointer);
        for list in [one.hard, one.used].into_iter().flatten() {
            refusals.check_list(&list, &pointer);
        }
    }
    refusals.findings
}

/// The findings about a quota so far.
struct QuotaRefusals<'q> {
    quota: &'q Object,
    findings: Vec<Finding>,
}

impl QuotaRefusals<'_> {
    fn refuse(&mut self, pointer: &str, message: String) {
        self.findings.push(Finding::error("invalid-policy", self.quota, message).with_pointer(pointer));
    }

    fn check_cluster(&mut self, name: &str, pointer: &str) {
        if name.len() > 48 || !is_dns_label(name) {
            let message = format!("`{name}` cannot be the name of a cluster");
            self.refuse(&format!("{pointer}/clusterName"), message);
        }
    }

    fn check_list(&mut self, list: &ResourceList, pointer: &str) {
        for (name, value) in list {
            if !is_quota_resource(name) {
                self.refuse(pointer, format!("`{name}` is not a resource that a quota can limit"));
            }
            if is_no_amount(value) {
                self.refuse(pointer, format!("`{name}` is not a quantity"));
            }
            let Some(amount) = FormattedQuantity::from_json(value) else { continue };
            if amount.amount < Quantity::default() {
                self.refuse(pointer, format!("`{name}` is less than 0"));
            }
            if is_whole(name) && amount.amount.milli_value() % 1000 != 0 {
                self.refuse(pointer, format!("`{name}` has to be a whole number"));
            }
        }
    }
}

fn is_quota_resource(name: &str) -> bool {
    let Some((prefix, rest)) = name.split_once('/') else {
        return STANDARD.iter().any(|(standard, _)| *standard == name);
    };
    rest.len() <= 63 && is_name_part(rest) && is_dns_subdomain(prefix)
}

/// Whether a resource is counted in whole numbers.
fn is_whole(name: &str) -> bool {
    if !name.contains('/') {
        return STANDARD.iter().any(|(standard, whole)| *standard == name && *whole);
    }
    !name.contains("kubernetes.io/") && !name.starts_with("requests.") && !name.starts_with("count/")
}
