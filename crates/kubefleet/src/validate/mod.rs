//! What the custom resource definitions and admission webhooks refuse, told before anything is placed.
//!
//! The schema says which fields there are; the rules say how they go together. Where the schema has
//! found an error, no rule adds another. Rules that compare an object with what it was before (the
//! placement type never changes, tolerations are only added to) need a previous version and are left
//! to the API server.

use std::collections::BTreeSet;

use federate_kubernetes::schema::{Cursor, Refusals, Rules, Shape, check_by};
use federate_kubernetes::{Finding, Object};

mod overrides;
mod placement;
mod property;
mod schema;
mod terms;

/// Everything that is wrong with one of the dialect's own objects.
pub(super) fn check(object: &Object) -> Vec<Finding> {
    let (shape, code, rules): (&Shape, _, Rules) = match object.id.kind.as_str() {
        "ClusterResourcePlacement" | "ResourcePlacement" => {
            (&schema::PLACEMENT, "invalid-policy", placement::rules)
        }
        "ClusterResourceOverride" => (&schema::CLUSTER_OVERRIDE, "invalid-policy", overrides::cluster_rules),
        "ResourceOverride" => (&schema::OVERRIDE, "invalid-policy", overrides::rules),
        "MemberCluster" => (&schema::CLUSTER, "invalid-cluster", member),
        _ => return Vec::new(),
    };
    check_by(rules, object, shape, code)
}

/// The rules of `MemberCluster`.
fn member(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    let mut taints = BTreeSet::new();
    for taint in spec.field("taints").items() {
        let (key, value) = (taint.field("key"), taint.field("value"));
        refusals.label_key(&key);
        refusals.label_value(&value);
        if !taints.insert((key.text(), value.text(), taint.field("effect").text())) {
            refusals.add(&taint, "this taint is there twice", "remove one of the two");
        }
    }
}

#[cfg(test)]
mod tests;
