//! The rules of `OverridePolicy` and `ClusterOverridePolicy` beyond their schema.

use super::{Refusals, cluster_affinity, resource_selectors, without_effect};
use crate::version::{Admission, KarmadaBehaviour};
use federate_kubernetes::schema::Cursor;
use federate_kubernetes::selector::{invalid_key, invalid_value};

/// The overriders of the old form that count as such beside `overrideRules`. `fieldOverrider` was
/// added later and does not: Karmada accepts and ignores it.
pub(in super::super) const REFUSED_OVERRIDERS: [&str; 6] = [
    "plaintext",
    "imageOverrider",
    "commandOverrider",
    "argsOverrider",
    "labelsOverrider",
    "annotationsOverrider",
];

pub(super) fn check_overrides(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, behaviour: &KarmadaBehaviour) {
    resource_selectors(refusals, &spec.field("resourceSelectors"), behaviour.foreign_selectors);
    let (target, overriders) = (spec.field("targetCluster"), spec.field("overriders"));
    cluster_affinity(refusals, &target, Admission::Refuses);
    let rules = spec.field("overrideRules");
    if rules.has_items() {
        old_form(refusals, &target, &overriders);
    }
    for rule in rules.items() {
        cluster_affinity(refusals, &rule.field("targetCluster"), Admission::Refuses);
        self::check_overriders(refusals, &rule.field("overriders"), behaviour.empty_field_overriders);
    }
}

/// Refuses the old form beside `overrideRules`.
fn old_form(refusals: &mut Refusals<'_>, target: &Cursor<'_>, overriders: &Cursor<'_>) {
    let help = "move it into one of the `overrideRules`";
    if target.is_present() {
        refusals.add_error(
            target,
            "the spec's own `targetCluster` and `overrideRules` exclude each other",
            help,
        );
    }
    if REFUSED_OVERRIDERS.iter().any(|key| overriders.field(key).has_items()) {
        refusals.add_error(
            overriders,
            "the spec's own `overriders` and `overrideRules` exclude each other",
            help,
        );
    }
}

fn check_overriders(refusals: &mut Refusals<'_>, overriders: &Cursor<'_>, empty: Admission) {
    for image in overriders.field("imageOverrider").items() {
        check_path(refusals, &image.field("predicate").field("path"));
    }
    for labels in overriders.field("labelsOverrider").items() {
        labels_to_write(refusals, &labels.field("value"));
    }
    for annotations in overriders.field("annotationsOverrider").items() {
        annotations_to_write(refusals, &annotations.field("value"));
    }
    for field in overriders.field("fieldOverrider").items() {
        field_overrider(refusals, &field, empty);
    }
}

/// A JSON pointer: empty, or starting with `/`.
fn check_path(refusals: &mut Refusals<'_>, path: &Cursor<'_>) {
    if !path.as_text().is_empty() && !path.as_text().starts_with('/') {
        let message = format!("`{}` is not a JSON pointer: it must start with `/`", path.as_text());
        refusals.add_error(path, message, &format!("write `/{}`", path.as_text().replace('.', "/")));
    }
}

fn labels_to_write(refusals: &mut Refusals<'_>, labels: &Cursor<'_>) {
    for (key, value) in labels.value().as_object().into_iter().flatten() {
        let why = invalid_key(key).or_else(|| value.as_str().and_then(invalid_value));
        if let Some(why) = why {
            refusals.add_error(&labels.entry(key), why, "write it as Kubernetes defines labels");
        }
    }
}

/// Annotations may have capitals in the prefix of their key, labels may not.
fn annotations_to_write(refusals: &mut Refusals<'_>, annotations: &Cursor<'_>) {
    for key in annotations.value().as_object().into_iter().flat_map(serde_json::Map::keys) {
        if invalid_key(&key.to_lowercase()).is_some() {
            let message = format!(
                "`{key}` is not the key of an annotation (optional DNS prefix and `/`, then up to 63 of A-Z a-z 0-9 - _ .)"
            );
            refusals.add_error(
                &annotations.entry(key),
                message,
                "write it as Kubernetes defines annotations",
            );
        }
    }
}

fn field_overrider(refusals: &mut Refusals<'_>, field: &Cursor<'_>, empty: Admission) {
    check_path(refusals, &field.field("fieldPath"));
    let (json, yaml) = (field.field("json"), field.field("yaml"));
    match (json.has_items(), yaml.has_items()) {
        (false, false) => without_effect(
            refusals,
            empty,
            field,
            "a `fieldOverrider` must have operations on the text of the field; without them it empties the field",
            "add a list of operations as `json` or `yaml`, whichever format the text has",
        ),
        (true, true) => {
            refusals.add_error(
                &json,
                "`json` and `yaml` exclude each other",
                "keep the one for the format of the text",
            );
        }
        _ => {}
    }
    for patch in json.items().chain(yaml.items()) {
        check_path(refusals, &patch.field("subPath"));
        let value = patch.field("value");
        match (patch.field("operator").as_text(), value.is_present()) {
            (operator @ ("add" | "replace"), false) => {
                let message = format!("operator `{operator}` needs a `value`");
                refusals.add_error(&value, message, "add `value`; `null` counts as missing");
            }
            ("remove", true) => {
                refusals.add_error(&value, "operator `remove` takes no `value`", "remove `value`");
            }
            _ => {}
        }
    }
}
