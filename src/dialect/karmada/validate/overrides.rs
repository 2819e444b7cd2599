//! The rules of admission for OverridePolicy and ClusterOverridePolicy.

use serde_json::Value;

use super::super::api::{OverrideSpec, Overriders};
use super::{Report, propagation};

/// Checks a policy whose fields have the right types.
pub(super) fn check(report: &mut Report<'_>, spec: &Value) {
    let parsed: OverrideSpec = match serde_path_to_error::deserialize(spec) {
        Ok(parsed) => parsed,
        Err(error) => return report.error("/spec", error),
    };
    let given = |key: &str| spec.get(key).is_some_and(|v| !v.is_null());
    if !parsed.override_rules.is_empty() && (given("targetCluster") || given("overriders")) {
        report.error_with_help(
            "/spec/overrideRules",
            "`overrideRules` and the older pair of `targetCluster` and `overriders` exclude each other",
            "make the older pair one of the rules",
        );
    }
    for (index, selector) in parsed.resource_selectors.iter().enumerate() {
        let at = format!("/spec/resourceSelectors/{index}/labelSelector");
        report.label_selector(&at, selector.label_selector.as_ref());
    }
    if let Some(target) = &parsed.target_cluster {
        propagation::affinity(report, "/spec/targetCluster", target);
    }
    for (index, rule) in parsed.override_rules.iter().enumerate() {
        let at = format!("/spec/overrideRules/{index}");
        if let Some(target) = &rule.target_cluster {
            propagation::affinity(report, &format!("{at}/targetCluster"), target);
        }
        overriders(report, &format!("{at}/overriders"), &rule.overriders);
    }
}

/// Only rules are looked into; the older form never was.
fn overriders(report: &mut Report<'_>, at: &str, overriders: &Overriders) {
    let pointer = |path: &str| path.is_empty() || path.starts_with('/');
    for (index, image) in overriders.image_overrider.iter().enumerate() {
        if image.predicate.as_ref().is_some_and(|p| !pointer(&p.path)) {
            report.error(format!("{at}/imageOverrider/{index}/predicate/path"), "a path begins with `/`");
        }
    }
    for (index, field) in overriders.field_overrider.iter().enumerate() {
        let at = format!("{at}/fieldOverrider/{index}");
        if !pointer(&field.field_path) {
            report.error(format!("{at}/fieldPath"), "a path begins with `/`");
        }
        if field.json.is_empty() && field.yaml.is_empty() {
            report.error(at.clone(), "a field overrider needs `json` or `yaml` operations");
        }
        for (form, patches) in [("json", &field.json), ("yaml", &field.yaml)] {
            for (number, patch) in patches.iter().enumerate() {
                if !pointer(&patch.sub_path) {
                    report.error(format!("{at}/{form}/{number}/subPath"), "a path begins with `/`");
                }
            }
        }
    }
}
