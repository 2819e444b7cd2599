//! The rules for works and sets of works.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_dialect::gojson;
use federate_kubernetes::schema::{Cursor, Refusals};

/// The most bytes of the manifests of a work.
const MAX_BYTES: usize = 500 * 1024;

/// Checks a `ManifestWork`.
pub(super) fn check_work(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    check_manifests(refusals, &spec.field("workload").field("manifests"));
    let subject = spec.field("executor").field("subject");
    if subject.is_present() && !subject.field("serviceAccount").is_present() {
        refusals.add_error(&subject, "the executor names no service account", "add `serviceAccount`");
    }
    for config in spec.field("manifestConfigs").items() {
        for rule in config.field("conditionRules").items() {
            let is_incomplete =
                rule.field("type").as_text() == "CEL" && rule.field("condition").as_text().is_empty();
            if is_incomplete {
                refusals.add_error(&rule, "a condition rule with CEL names no condition", "add `condition`");
            }
        }
        let manager = config.field("updateStrategy").field("serverSideApply").field("fieldManager");
        if manager.is_present() && !manager.as_text().starts_with("work-agent") {
            let message =
                format!("the field manager `{}` does not begin with `work-agent`", manager.as_text());
            refusals.add_error(&manager, message, "name it like `work-agent-team-a`");
        }
    }
}

/// Checks a `ManifestWorkReplicaSet`.
pub(super) fn check_replica_set(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    check_work(refusals, &spec.field("manifestWorkTemplate"));
    for reference in spec.field("placementRefs").items() {
        let name = reference.field("name");
        if name.as_text().is_empty() {
            refusals.add_error(&reference, "a reference names no placement", "add `name`");
        }
        let strategy = reference.field("rolloutStrategy");
        for kind in ["all", "progressive", "progressivePerGroup"] {
            let config = strategy.field(kind);
            let deadline = config.field("progressDeadline");
            if deadline.is_present() && !is_deadline(deadline.as_text()) {
                let message = format!("`{}` is not a deadline", deadline.as_text());
                refusals.add_error(&deadline, message, "write `None`, or digits and one of h, m and s");
            }
            super::check_amount(refusals, &config.field("maxFailures"));
            super::check_amount(refusals, &config.field("maxConcurrency"));
        }
    }
}

/// Whether a text passes the definition, which allows anything after `None` and `|` as a unit.
fn is_deadline(text: &str) -> bool {
    let starts_with_duration = {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && text.as_bytes().get(digits).is_some_and(|unit| b"hms|".contains(unit))
    };
    starts_with_duration || text.ends_with("None")
}

fn check_manifests(refusals: &mut Refusals<'_>, manifests: &Cursor<'_>) {
    let Some(list) = manifests.value().as_array().filter(|list| !list.is_empty()) else {
        refusals.add_error(manifests, "there are no manifests", "add one to `workload.manifests`");
        return;
    };
    let size: usize = list.iter().map(|manifest| gojson::write_sorted(manifest).len()).sum();
    if size > MAX_BYTES {
        let message = format!("the manifests have {size} bytes, and at most {MAX_BYTES} are accepted");
        refusals.add_error(manifests, message, "divide them between several works");
    }
    let mut known = BTreeSet::new();
    for manifest in manifests.items() {
        let text = |path: &[&str]| {
            path.iter()
                .try_fold(manifest.value(), |value, key| value.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if text(&["kind"]).is_empty() {
            refusals.add_error(&manifest, "a manifest has no kind", "add `kind`");
            continue;
        }
        if !text(&["metadata", "generateName"]).is_empty() {
            refusals.add_error(&manifest, "a manifest has `generateName`", "give it `metadata.name`");
        }
        if text(&["metadata", "name"]).is_empty() {
            refusals.add_error(&manifest, "a manifest has no name", "give it `metadata.name`");
        }
        let identity = [
            text(&["apiVersion"]),
            text(&["kind"]),
            text(&["metadata", "namespace"]),
            text(&["metadata", "name"]),
        ];
        if !known.insert(identity) {
            let message =
                format!("{} {} is among the manifests twice", text(&["kind"]), text(&["metadata", "name"]));
            refusals.add_error(&manifest, message, "remove one");
        }
    }
}
