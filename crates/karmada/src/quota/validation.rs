//! The admission of `FederatedResourceQuota`.

use federate_kubernetes::formatted_quantity::FormattedQuantity;
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
    let mut refused = Vec::new();
    let mut refuse = |pointer: String, message: String| {
        refused.push(Finding::error("invalid-policy", quota, message).with_pointer(pointer));
    };
    let (spec, status): (Spec, Status) = match (read_section(quota, "spec"), read_section(quota, "status")) {
        (Ok(spec), Ok(status)) => (spec, status),
        (Err(error), _) | (_, Err(error)) => {
            refuse("/spec".to_owned(), error.to_string());
            return refused;
        }
    };
    if quota.id.name.len() > 63 {
        refuse("/metadata/name".to_owned(), "the name has more than 63 characters".to_owned());
    }
    let overall = spec.overall.unwrap_or_default();
    check_list(&overall, "/spec/overall", &mut refuse);
    for (index, assignment) in spec.static_assignments.iter().enumerate() {
        let pointer = format!("/spec/staticAssignments/{index}");
        check_cluster(&assignment.cluster_name, &pointer, &mut refuse);
        let hard = assignment.hard.clone().unwrap_or_default();
        check_list(&hard, &format!("{pointer}/hard"), &mut refuse);
        for name in hard.keys().filter(|name| !overall.contains_key(*name)) {
            refuse(format!("{pointer}/hard"), format!("`{name}` is not in `overall`"));
        }
    }
    for (name, limit) in &overall {
        let assigned = spec.static_assignments.iter().filter_map(|a| a.hard.as_ref()?.get(name));
        let assigned = assigned.filter_map(Quantity::from_json).fold(Quantity::default(), |a, b| a + b);
        if Quantity::from_json(limit).is_some_and(|limit| limit < assigned) {
            refuse("/spec/overall".to_owned(), format!("`{name}` is less than what is assigned of it"));
        }
    }
    for (list, key) in [(status.overall, "overall"), (status.overall_used, "overallUsed")] {
        check_list(&list.unwrap_or_default(), &format!("/status/{key}"), &mut refuse);
    }
    for (index, one) in status.aggregated_status.into_iter().enumerate() {
        let pointer = format!("/status/aggregatedStatus/{index}");
        check_cluster(&one.cluster_name, &pointer, &mut refuse);
        for list in [one.hard, one.used].into_iter().flatten() {
            check_list(&list, &pointer, &mut refuse);
        }
    }
    refused
}

fn check_cluster(name: &str, pointer: &str, refuse: &mut impl FnMut(String, String)) {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = !name.starts_with('-') && !name.ends_with('-');
    if name.is_empty() || name.len() > 48 || !ends || !name.chars().all(inner) {
        let message = format!("`{name}` cannot be the name of a cluster");
        refuse(format!("{pointer}/clusterName"), message);
    }
}

fn check_list(list: &ResourceList, pointer: &str, refuse: &mut impl FnMut(String, String)) {
    for (name, value) in list {
        let mut no = |why: &str| refuse(pointer.to_owned(), format!("`{name}` {why}"));
        if !is_quota_resource(name) {
            no("is not a resource that a quota can limit");
        }
        if is_no_amount(value) {
            no("is not a quantity");
        }
        let Some(amount) = FormattedQuantity::from_json(value) else { continue };
        if amount.amount < Quantity::default() {
            no("is less than 0");
        }
        if is_whole(name) && amount.amount.milli_value() % 1000 != 0 {
            no("has to be a whole number");
        }
    }
}

fn is_quota_resource(name: &str) -> bool {
    let Some((prefix, rest)) = name.split_once('/') else {
        return STANDARD.iter().any(|(standard, _)| *standard == name);
    };
    let alnum = |c: char| c.is_ascii_alphanumeric();
    let name_part = !rest.is_empty()
        && rest.len() <= 63
        && rest.starts_with(alnum)
        && rest.ends_with(alnum)
        && rest.chars().all(|c| alnum(c) || matches!(c, '-' | '_' | '.'));
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |label: &str| {
        label.starts_with(lower) && label.ends_with(lower) && label.chars().all(|c| lower(c) || c == '-')
    };
    name_part && prefix.len() <= 253 && prefix.split('.').all(label)
}

/// Whether a resource is counted in whole numbers.
fn is_whole(name: &str) -> bool {
    if !name.contains('/') {
        return STANDARD.iter().any(|(standard, whole)| *standard == name && *whole);
    }
    !name.contains("kubernetes.io/") && !name.starts_with("requests.") && !name.starts_with("count/")
}
