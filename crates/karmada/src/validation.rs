//! Validates Karmada's objects as its API server and admission webhooks do, before anything is placed.
//!
//! Schemas check single fields; rules check how fields relate. Where a schema has found an error, no rule
//! adds another. Rules read the object as Go does: `null` and an empty list count as absent.

use super::version::{Admission, KarmadaBehaviour};
use federate_kubernetes::schema::{Cursor, Refusals, check_by, find_similar};
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Finding, Object, kinds};
pub(super) use overrides::REFUSED_OVERRIDERS;
use serde::Deserialize;

mod cluster;
mod overrides;
mod propagation;
mod schema;

/// The findings about one of Karmada's own objects, by the rules of a release.
pub(super) fn validate_object(object: &Object, behaviour: &KarmadaBehaviour) -> Vec<Finding> {
    let (stored, mut findings) = behaviour.drop_unknown_fields(object);
    findings.extend(check_stored_object(&stored, behaviour));
    findings
}

fn check_stored_object(object: &Object, behaviour: &KarmadaBehaviour) -> Vec<Finding> {
    match object.id.kind.as_str() {
        "PropagationPolicy" | "ClusterPropagationPolicy" => check_by(
            |refusals, spec| propagation::check_propagation(refusals, spec, behaviour),
            object,
            &schema::PROPAGATION,
            "invalid-policy",
        ),
        "OverridePolicy" | "ClusterOverridePolicy" => check_by(
            |refusals, spec| overrides::check_overrides(refusals, spec, behaviour),
            object,
            &schema::OVERRIDE,
            "invalid-policy",
        ),
        "Cluster" => check_by(cluster::check_cluster, object, &schema::CLUSTER, "invalid-cluster"),
        "ResourceInterpreterCustomization" => {
            check_by(check_customization, object, &schema::CUSTOMIZATION, "invalid-customization")
        }
        "ClusterTaintPolicy" => check_by(
            |refusals, spec| {
                cluster_affinity(refusals, &spec.field("targetClusters"), Admission::Refuses);
            },
            object,
            &schema::TAINT_POLICY,
            "invalid-policy",
        ),
        "FederatedResourceQuota" => {
            let mut found = crate::quota::validate_quota(object);
            if behaviour.long_quota_names == Admission::Accepts {
                found.retain(|finding| finding.pointer != "/metadata/name");
            }
            found
        }
        "WorkloadRebalancer" => check_by(|_, _| {}, object, &schema::REBALANCER, "invalid-policy"),
        _ => Vec::new(),
    }
}

/// Warns about a target whose kind is nearly one of Kubernetes.
fn check_customization(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    let target = spec.field("target");
    let (kind, version) = (target.field("kind"), target.field("apiVersion"));
    let group = version.as_text().split_once('/').map_or("", |(group, _)| group);
    let Some(known) = kinds::api_groups().find(|known| known.group == group) else { return };
    let names: Vec<&str> = known.kind_names().collect();
    if let Some(near) = find_similar(kind.as_text(), &names).filter(|_| !names.contains(&kind.as_text())) {
        let message = format!("the API group of `{}` has no kind `{}`", version.as_text(), kind.as_text());
        let warning = Finding::warning("unknown-kind", refusals.object, message).with_pointer(kind.pointer());
        refusals.findings.push(warning.with_help(format!("did you mean `{near}`?")));
    }
}

/// Refuses a setting without effect where the release's admission does, and warns about it where it does not.
fn without_effect(
    refusals: &mut Refusals<'_>,
    admission: Admission,
    at: &Cursor<'_>,
    message: impl Into<String>,
    help: &str,
) {
    match admission {
        Admission::Refuses => refusals.add_error(at, message, help),
        Admission::Accepts => {
            let warning = Finding::warning("no-effect", refusals.object, message.into());
            refusals.findings.push(warning.with_pointer(at.pointer()).with_help(help));
        }
    }
}

/// Warns about a label selector that is invalid. Admission accepts it, and it selects nothing.
fn label_selector(refusals: &mut Refusals<'_>, at: &Cursor<'_>, selected: &str) {
    let invalid = LabelSelector::deserialize(at.value()).ok().and_then(|selector| selector.find_mistake());
    if let Some((below, why)) = invalid {
        let message = format!(
            "this label selector is invalid ({why}): Karmada accepts it, and it selects no {selected}"
        );
        let warning = Finding::warning("no-effect", refusals.object, message);
        let help = "write it as Kubernetes defines label selectors";
        refusals.findings.push(warning.with_pointer(at.at_pointer(&below).pointer()).with_help(help));
    }
}

/// Checks the selectors of a policy: a namespaced policy selects in its own namespace only.
fn resource_selectors(refusals: &mut Refusals<'_>, selectors: &Cursor<'_>, admission: Admission) {
    let own = refusals.object.id.namespace.clone();
    for selector in selectors.items() {
        let namespace = selector.field("namespace");
        if let Some(own) = own.as_deref().filter(|own| !["", own].contains(&namespace.as_text())) {
            let message = format!(
                "this policy is in namespace `{own}` and may select nothing in namespace `{}`",
                namespace.as_text()
            );
            let help = "leave `namespace` out, or write a cluster-wide policy";
            without_effect(refusals, admission, &namespace, message, help);
        }
        label_selector(refusals, &selector.field("labelSelector"), "object");
    }
}

/// Checks the label and field selectors of any `clusterAffinity`. Admission may not look at the fields.
fn cluster_affinity(refusals: &mut Refusals<'_>, affinity: &Cursor<'_>, fields: Admission) {
    label_selector(refusals, &affinity.field("labelSelector"), "cluster");
    for requirement in affinity.field("fieldSelector").field("matchExpressions").items() {
        let (key, operator) = (requirement.field("key"), requirement.field("operator"));
        if !["provider", "region", "zone"].contains(&key.as_text()) {
            let message = format!("clusters have no field `{}` to select by", key.as_text());
            let help = "use `provider`, `region` or `zone`, or select by label";
            without_effect(refusals, fields, &key, message, help);
        }
        if fields == Admission::Refuses && !["In", "NotIn"].contains(&operator.as_text()) {
            let message = format!("a field selector has no operator `{}`", operator.as_text());
            refusals.add_error(&operator, message, "use `In` or `NotIn`");
        }
    }
}

#[cfg(test)]
mod tests;
