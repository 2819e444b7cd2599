//! What Karmada's API server and admission webhooks refuse, told before anything is placed.
//!
//! The schema says which fields there are; the rules say how they go together. Where the schema has
//! found an error, no rule adds another. All rules read the object as Go does: `null` is absent, and
//! so is an empty list.

use federate_kubernetes::schema::{Cursor, Refusals, Rules, Shape, check_by};
use federate_kubernetes::{Finding, Object};

mod cluster;
mod overrides;
mod propagation;
mod schema;

/// Everything that is wrong with one of Karmada's own objects.
pub(super) fn check(object: &Object) -> Vec<Finding> {
    let (shape, code, rules): (&Shape, _, Rules) = match object.id.kind.as_str() {
        "PropagationPolicy" | "ClusterPropagationPolicy" => {
            (&schema::PROPAGATION, "invalid-policy", propagation::rules)
        }
        "OverridePolicy" | "ClusterOverridePolicy" => (&schema::OVERRIDE, "invalid-policy", overrides::rules),
        "Cluster" => (&schema::CLUSTER, "invalid-cluster", cluster::rules),
        "ResourceInterpreterCustomization" => (&schema::CUSTOMIZATION, "invalid-customization", |_, _| {}),
        "WorkloadRebalancer" => (&schema::REBALANCER, "invalid-policy", |_, _| {}),
        _ => return Vec::new(),
    };
    check_by(rules, object, shape, code)
}

/// The selectors of a policy: a namespaced policy speaks of its own namespace only.
fn resource_selectors(refusals: &mut Refusals<'_>, selectors: &Cursor<'_>) {
    let own = refusals.object.id.namespace.clone();
    for selector in selectors.items() {
        let namespace = selector.field("namespace");
        if let Some(own) = own.as_deref().filter(|own| !["", own].contains(&namespace.text())) {
            let message = format!(
                "this policy is in namespace `{own}` and may select nothing in namespace `{}`",
                namespace.text()
            );
            let help = "leave `namespace` out, or write a cluster-wide policy";
            refusals.add(&namespace, message, help);
        }
        refusals.label_selector(&selector.field("labelSelector"));
    }
}

/// Label and field selector of a `clusterAffinity`, wherever it stands.
fn cluster_affinity(refusals: &mut Refusals<'_>, affinity: &Cursor<'_>) {
    refusals.label_selector(&affinity.field("labelSelector"));
    for requirement in affinity.field("fieldSelector").field("matchExpressions").items() {
        let (key, operator) = (requirement.field("key"), requirement.field("operator"));
        if !["provider", "region", "zone"].contains(&key.text()) {
            let message = format!("clusters have no field `{}` to select by", key.text());
            refusals.add(&key, message, "use `provider`, `region` or `zone`, or select by label");
        }
        if !["In", "NotIn"].contains(&operator.text()) {
            let message = format!("a field selector has no operator `{}`", operator.text());
            refusals.add(&operator, message, "use `In` or `NotIn`");
        }
    }
}

#[cfg(test)]
mod tests;
