//! Validation: what `KubeAdmiral`'s API server refuses, and what it accepts although it can never work.

use federate_kubernetes::schema::{self as checker, Shape};
use federate_kubernetes::{Finding, Object};

use super::profile::Plugins;

mod schema;
mod values;

/// The length of the longest label value.
const MAX_NAME_LENGTH: usize = 63;

/// Returns the findings about one of `KubeAdmiral`'s own objects.
pub(super) fn check_object(object: &Object) -> Vec<Finding> {
    let (shape, code): (&Shape, _) = match object.id.kind.as_str() {
        "PropagationPolicy" | "ClusterPropagationPolicy" => (&schema::PROPAGATION, "invalid-policy"),
        "OverridePolicy" | "ClusterOverridePolicy" => (&schema::OVERRIDE, "invalid-policy"),
        "FederatedCluster" => (&schema::CLUSTER, "invalid-cluster"),
        "SchedulingProfile" => (&schema::PROFILE, "invalid-policy"),
        "FederatedTypeConfig" => (&schema::TYPE_CONFIG, "invalid-type-config"),
        _ => return Vec::new(),
    };
    let mut findings = checker::check_shape(object, shape, code);
    if object.id.kind.ends_with("PropagationPolicy") && object.id.name.len() > MAX_NAME_LENGTH {
        let message = format!("the name of a propagation policy has at most {MAX_NAME_LENGTH} characters");
        findings.push(Finding::error(code, object, message).with_pointer("/metadata/name").with_help(
            "templates name their policy in a label, and the value of a label is limited to that length",
        ));
    }
    if object.id.kind == "SchedulingProfile"
        && findings.is_empty()
        && let Err(why) = Plugins::from_profile(object)
    {
        let message = format!("{} cannot be used: {why}", object.id);
        findings.push(Finding::warning("unusable-profile", object, message).with_pointer("/spec/plugins"));
    }
    if !findings.iter().any(Finding::is_error) {
        findings.extend(values::without_effect(object));
    }
    findings
}

#[cfg(test)]
mod tests;
