//! What the custom resource definitions and admission webhooks refuse, told before anything is placed.
//!
//! The schema says which fields there are; the rules say how they go together. Where the schema has
//! found an error, no rule adds another. Rules that compare an object with what it was before (the
//! placement type never changes, tolerations are only added to) need a previous version and are left
//! to the API server.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::k8s::schema::{self as checker, Cursor, Refusals, Shape};
use crate::k8s::selector::{LabelSelector, invalid_key, invalid_value};
use crate::k8s::{Finding, Object};

mod overrides;
mod placement;
mod property;
mod schema;
mod terms;

/// Everything that is wrong with one of the dialect's own objects.
pub(super) fn check(object: &Object) -> Vec<Finding> {
    let (shape, code, rules): (&Shape, _, fn(&mut Refusals<'_>, &Cursor<'_>)) = match object.id.kind.as_str()
    {
        "ClusterResourcePlacement" | "ResourcePlacement" => {
            (&schema::PLACEMENT, "invalid-policy", placement::rules)
        }
        "ClusterResourceOverride" => (&schema::CLUSTER_OVERRIDE, "invalid-policy", overrides::cluster_rules),
        "ResourceOverride" => (&schema::OVERRIDE, "invalid-policy", overrides::rules),
        "MemberCluster" => (&schema::CLUSTER, "invalid-cluster", member),
        _ => return Vec::new(),
    };
    let mut findings = checker::check(object, shape, code);
    let broken: BTreeSet<String> =
        findings.iter().filter(|f| f.is_error()).map(|f| f.pointer.clone()).collect();
    let mut refusals = Refusals::of(object, code);
    rules(&mut refusals, &Cursor::new(&object.body).field("spec"));
    findings.extend(refusals.findings.into_iter().filter(|f| !broken.contains(&f.pointer)));
    findings
}

/// The rules of `MemberCluster`.
fn member(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    let mut taints = BTreeSet::new();
    for taint in spec.field("taints").items() {
        let (key, value) = (taint.field("key"), taint.field("value"));
        label_key(refusals, &key);
        label_value(refusals, &value);
        if !taints.insert((key.text(), value.text(), taint.field("effect").text())) {
            refusals.add(&taint, "this taint is there twice", "remove one of the two");
        }
    }
}

fn label_selector(refusals: &mut Refusals<'_>, selector: &Cursor<'_>) {
    let invalid = LabelSelector::deserialize(selector.value()).ok().and_then(|s| s.invalid());
    if let Some((below, why)) = invalid {
        let message = format!("this label selector is invalid: {why}");
        refusals.add(&selector.below(&below), message, "write it as Kubernetes defines label selectors");
    }
}

fn label_key(refusals: &mut Refusals<'_>, at: &Cursor<'_>) {
    if let Some(why) = invalid_key(at.text()) {
        refusals.add(at, why, "write it like the key of a label");
    }
}

fn label_value(refusals: &mut Refusals<'_>, at: &Cursor<'_>) {
    if let Some(why) = invalid_value(at.text()) {
        refusals.add(at, why, "write it like the value of a label");
    }
}

#[cfg(test)]
mod tests;
