//! The rules of `ClusterResourceOverride` and `ResourceOverride` beyond their schema.

use std::collections::BTreeSet;

use super::Refusals;
use crate::KubeFleetBehaviour;
use crate::overrides::variables;
use federate_kubernetes::Finding;
use federate_kubernetes::schema::Cursor;

/// The fields of a manifest that no patch may change, including everything below them.
const FIXED: [&str; 3] = ["kind", "apiVersion", "status"];

pub(super) fn check_cluster_override(
    refusals: &mut Refusals<'_>,
    spec: &Cursor<'_>,
    behaviour: &KubeFleetBehaviour,
) {
    let scope = spec.field("placement").field("scope");
    if scope.as_text() == "Namespaced" {
        let help = "use the name of a ClusterResourcePlacement, or write a ResourceOverride";
        refusals.add_error(&scope, "a ClusterResourceOverride does not apply to a ResourcePlacement", help);
    }
    if !behaviour.has_webhooks {
        return;
    }
    let selectors = spec.field("clusterResourceSelectors");
    for selector in selectors.items() {
        let labels = selector.field("labelSelector");
        if labels.is_present() {
            refusals.add_error(
                &labels,
                "an override selects by name only",
                "write a selector for each object",
            );
        } else if selector.field("name").as_text().is_empty() {
            refusals.add_error(&selector, "an override selects by name only", "add `name`");
        }
    }
    check_duplicates(refusals, &selectors);
    check_policy(refusals, &spec.field("policy"));
}

pub(super) fn check_override(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    if !behaviour.has_webhooks {
        return;
    }
    check_duplicates(refusals, &spec.field("resourceSelectors"));
    check_policy(refusals, &spec.field("policy"));
}

fn check_duplicates(refusals: &mut Refusals<'_>, selectors: &Cursor<'_>) {
    let mut known = BTreeSet::new();
    for selector in selectors.items() {
        if !known.insert(["group", "version", "kind", "name"].map(|key| selector.field(key).as_text())) {
            refusals.add_error(&selector, "this object is selected twice", "remove one of the two selectors");
        }
    }
}

fn check_policy(refusals: &mut Refusals<'_>, policy: &Cursor<'_>) {
    for rule in policy.field("overrideRules").items() {
        let selector = rule.field("clusterSelector");
        let terms = selector.field("clusterSelectorTerms");
        if selector.is_present() && !terms.is_present() {
            let message = "the rule selects every cluster, but the schema requires `clusterSelectorTerms`";
            let finding = Finding::warning("invalid-override", refusals.object, message)
                .with_pointer(selector.pointer());
            refusals.findings.push(finding.with_help("write `clusterSelectorTerms: []`"));
        }
        for term in terms.items() {
            check_cluster_term(refusals, &term);
        }
        let patches = rule.field("jsonPatchOverrides");
        match (rule.field("overrideType").as_text(), patches.has_items()) {
            ("Delete", true) => {
                let help = "remove the patches, or set `overrideType: JSONPatch`";
                refusals.add_error(&patches, "a rule of type `Delete` must not have patches", help);
            }
            ("" | "JSONPatch", false) => {
                let help = "add `jsonPatchOverrides`, or set `overrideType: Delete`";
                refusals.add_error(&rule, "a rule of type `JSONPatch` must have patches", help);
            }
            _ => {}
        }
        for patch in patches.items() {
            check_json_patch(refusals, &patch);
        }
    }
}

fn check_cluster_term(refusals: &mut Refusals<'_>, term: &Cursor<'_>) {
    for name in ["propertySelector", "propertySorter"] {
        let field = term.field(name);
        if field.is_present() {
            let message = format!("overrides select clusters by label, not by `{name}`");
            refusals.add_error(&field, message, "use `labelSelector`");
        }
    }
    let labels = term.field("labelSelector");
    if labels.is_present() {
        refusals.label_selector(&labels);
    } else {
        let help = "add one, or remove all terms to select every cluster";
        refusals.add_error(term, "a term must have a `labelSelector`", help);
    }
}

fn check_json_patch(refusals: &mut Refusals<'_>, patch: &Cursor<'_>) {
    let (path, value) = (patch.field("path"), patch.field("value"));
    if let Some(why) = refused_path(path.as_text()) {
        let help = if path.as_text().starts_with('/') {
            "patch another field, e.g. below `/spec` or `/metadata/labels`".to_owned()
        } else {
            format!("did you mean `/{}`?", path.as_text())
        };
        refusals.add_error(&path, why, &help);
    }
    for unknown in variables::unknown_variables(value.value()) {
        let message = format!("`{unknown}` is not a variable, so it stays as it is");
        let finding = Finding::warning("no-effect", refusals.object, message).with_pointer(value.pointer());
        refusals.findings.push(
            finding
                .with_help("the variables are `${MEMBER-CLUSTER-NAME}` and `${MEMBER-CLUSTER-LABEL-KEY-…}`"),
        );
    }
    let op = patch.field("op");
    if matches!(op.as_text(), "add" | "replace") && patch.value().get("value").is_none() {
        let message = format!("the operation `{}` has no value, so the field becomes null", op.as_text());
        let finding =
            Finding::warning("invalid-override", refusals.object, message).with_pointer(op.pointer());
        refusals.findings.push(finding.with_help("add `value`, or use the operation `remove`"));
    }
    if op.as_text() == "remove" && value.is_present() {
        refusals.add_error(&value, "the operation `remove` must not have a value", "remove `value`");
    }
}

/// Why a patch must not have this path, if it must not.
fn refused_path(path: &str) -> Option<String> {
    let Some(below) = path.strip_prefix('/') else {
        return Some(format!("the path `{path}` does not start with `/`"));
    };
    let segments: Vec<&str> = below.split('/').collect();
    if segments.iter().any(|segment| segment.trim().is_empty()) {
        return Some(format!("the path `{path}` has an empty part"));
    }
    let fixed = match segments.as_slice() {
        [first, ..] if FIXED.contains(first) => true,
        ["metadata", below @ ..] => !matches!(below, ["labels" | "annotations", ..]),
        _ => false,
    };
    fixed.then(|| format!("overrides must not change `{path}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_within_what_may_change() {
        for good in ["/spec/replicas", "/metadata/labels", "/metadata/annotations/a~1b", "/data/k", "/specs"]
        {
            assert_eq!(refused_path(good), None, "{good}");
        }
        for bad in [
            "spec/x",
            "",
            "/",
            "/spec//x",
            "/spec/ /x",
            "/kind",
            "/apiVersion",
            "/status/x",
            "/metadata",
            "/metadata/finalizers",
        ] {
            assert!(refused_path(bad).is_some(), "{bad}");
        }
    }
}
