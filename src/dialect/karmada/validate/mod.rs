//! What Karmada's API server and admission webhooks refuse, told before anything is placed.
//!
//! The schema says which fields there are; the rules say how they go together. Where the schema has
//! found an error, no rule adds another. All rules read the object as Go does: `null` is absent, and
//! so is an empty list.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::k8s::schema::{Cursor, Refusals, Shape};
use crate::k8s::selector::{LabelSelector, invalid_key};
use crate::k8s::{self, Finding, Object};

mod cluster;
mod overrides;
mod propagation;
mod schema;

/// Everything that is wrong with one of Karmada's own objects.
pub(super) fn check(object: &Object) -> Vec<Finding> {
    let (shape, code, rules): (&Shape, _, fn(&mut Refusals<'_>, &Cursor<'_>)) = match object.id.kind.as_str()
    {
        "PropagationPolicy" | "ClusterPropagationPolicy" => {
            (&schema::PROPAGATION, "invalid-policy", propagation::rules)
        }
        "OverridePolicy" | "ClusterOverridePolicy" => (&schema::OVERRIDE, "invalid-policy", overrides::rules),
        "Cluster" => (&schema::CLUSTER, "invalid-cluster", cluster::rules),
        "WorkloadRebalancer" => (&schema::REBALANCER, "invalid-policy", |_, _| {}),
        _ => return Vec::new(),
    };
    let mut findings = k8s::schema::check(object, shape, code);
    let broken: BTreeSet<String> =
        findings.iter().filter(|f| f.is_error()).map(|f| f.pointer.clone()).collect();
    let mut refusals = Refusals::of(object, code);
    rules(&mut refusals, &Cursor::new(&object.body).field("spec"));
    findings.extend(refusals.findings.into_iter().filter(|f| !broken.contains(&f.pointer)));
    findings
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
        label_selector(refusals, &selector.field("labelSelector"));
    }
}

/// Label and field selector of a `clusterAffinity`, wherever it stands.
fn cluster_affinity(refusals: &mut Refusals<'_>, affinity: &Cursor<'_>) {
    label_selector(refusals, &affinity.field("labelSelector"));
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

fn label_selector(refusals: &mut Refusals<'_>, selector: &Cursor<'_>) {
    let invalid = LabelSelector::deserialize(selector.value()).ok().and_then(|s| s.invalid());
    if let Some((below, why)) = invalid {
        let message = format!("this label selector is invalid, so it would match nothing: {why}");
        refusals.add(&selector.below(&below), message, "write it as Kubernetes defines label selectors");
    }
}

fn label_key(refusals: &mut Refusals<'_>, at: &Cursor<'_>) {
    if let Some(why) = invalid_key(at.text()) {
        refusals.add(at, why, "choose a name that can be the key of a label");
    }
}

#[cfg(test)]
mod tests;
