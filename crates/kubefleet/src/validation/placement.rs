//! The rules of `ClusterResourcePlacement` and `ResourcePlacement` beyond their schema: what goes with
//! which placement type, tolerations, and rollout and apply strategy.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::super::api::PlacementToleration;
use super::super::version::{DroppedFields, KubeFleetBehaviour};
use super::{Refusals, terms};
use federate_kubernetes::schema::Cursor;
use federate_kubernetes::{Finding, names};

/// The most selectors, and the most clusters by name.
const MAX_ITEMS: usize = 100;

/// The length of a cluster's name.
const MAX_NAME_LENGTH: usize = 63;

pub(super) fn check_placement(
    refusals: &mut Refusals<'_>,
    spec: &Cursor<'_>,
    behaviour: &KubeFleetBehaviour,
) {
    let dropped = DroppedFields::for_placement(refusals.object, behaviour);
    report_dropped_fields(refusals, spec, dropped);
    let selectors = spec.field("resourceSelectors");
    check_at_most(refusals, &selectors, "selectors");
    for selector in selectors.items() {
        let (name, labels) = (selector.field("name"), selector.field("labelSelector"));
        if !name.as_text().is_empty() && labels.is_present() {
            let help = "remove one of them, or write two selectors";
            refusals.add_error(&labels, "a selector must not have both `name` and `labelSelector`", help);
        }
        if behaviour.has_webhooks {
            refusals.label_selector(&labels);
        }
        if !dropped.selection_scope {
            check_scope(refusals, &selector.field("selectionScope"), behaviour);
        }
    }
    if !dropped.selection_scope {
        check_inside_namespace(refusals, &selectors);
    }
    let policy = spec.field("policy");
    match policy.field("placementType").as_text() {
        "PickFixed" => check_pick_fixed(refusals, &policy, behaviour),
        "PickN" => check_pick_n(refusals, &policy),
        _ => check_pick_all(refusals, &policy, behaviour),
    }
    if behaviour.has_webhooks {
        terms::check_affinity(refusals, &policy.field("affinity").field("clusterAffinity"), behaviour);
    }
    check_tolerations(refusals, &policy.field("tolerations"), behaviour);
    check_strategy(refusals, &spec.field("strategy"), behaviour);
    let kind = spec.field("strategy").field("type");
    if dropped.selection_scope && kind.as_text() == "External" {
        let message = format!(
            "KubeFleet {} does not know the strategy `External` in `{}`",
            behaviour.release, refusals.object.id.api_version
        );
        refusals.add_error(&kind, message, "write the placement in `placement.kubernetes-fleet.io/v1beta1`");
    }
}

/// Warns about fields that the API server drops.
fn report_dropped_fields(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, dropped: DroppedFields) {
    let scopes = spec.field("resourceSelectors");
    let scopes = scopes.items().map(|selector| selector.field("selectionScope"));
    let strategy = spec.field("strategy");
    let of_selection = scopes.chain([spec.field("statusReportingScope")]);
    let of_deletion = ["deleteStrategy", "reportBackStrategy"].map(|name| strategy.field(name));
    let fields = of_selection
        .filter(|_| dropped.selection_scope)
        .chain(of_deletion.into_iter().filter(|_| dropped.deletion_strategy))
        .filter(Cursor::is_present);
    for field in fields {
        let name = field.pointer().rsplit('/').next().unwrap_or_default();
        let message = format!(
            "`{}` has no field `{name}`: the API server drops it silently",
            refusals.object.id.api_version
        );
        let finding =
            Finding::warning("ignored-field", refusals.object, message).with_pointer(field.pointer());
        let help = "write the placement in `placement.kubernetes-fleet.io/v1beta1`, or remove the field";
        refusals.findings.push(finding.with_help(help.to_owned()));
    }
}

/// Checks the scope of a selector. `v1` got the field, and later its last value, after `v1beta1`.
fn check_scope(refusals: &mut Refusals<'_>, scope: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    let is_v1 = refusals.object.id.api_version.ends_with("/v1");
    let known = if is_v1 { behaviour.scope_of_selectors_in_v1 } else { behaviour.scope_of_selectors };
    if scope.as_text() == "NamespaceWithResourceSelectors" && !known {
        let message = format!(
            "KubeFleet {} does not know `selectionScope: NamespaceWithResourceSelectors` in `{}`",
            behaviour.release, refusals.object.id.api_version
        );
        let help = "write a ResourcePlacement in the namespace, or select the whole namespace";
        refusals.add_error(scope, message, help);
    }
}

/// Checks that selectors inside of a namespace come with exactly one namespace, by its name.
fn check_inside_namespace(refusals: &mut Refusals<'_>, selectors: &Cursor<'_>) {
    let namespaces: Vec<Cursor<'_>> = selectors
        .items()
        .filter(|one| one.field("group").as_text().is_empty() && one.field("kind").as_text() == "Namespace")
        .collect();
    let first = namespaces
        .iter()
        .find(|one| one.field("selectionScope").as_text() == "NamespaceWithResourceSelectors");
    let Some(first) = first else { return };
    if first.field("name").as_text().is_empty() {
        let message = "`selectionScope: NamespaceWithResourceSelectors` needs the name of the namespace";
        refusals.add_error(first, message, "add `name`, and no `labelSelector`");
    }
    if namespaces.len() > 1 {
        let message = "a selector with `selectionScope: NamespaceWithResourceSelectors` must be the only one of a Namespace";
        refusals.add_error(first, message, "select the other namespaces in placements of their own");
    }
}

fn check_at_most(refusals: &mut Refusals<'_>, list: &Cursor<'_>, what: &str) {
    if list.items().count() > MAX_ITEMS {
        let message = format!("more than {MAX_ITEMS} {what} are not allowed");
        refusals.add_error(list, message, "split them over several placements");
    }
}

/// Refuses fields that a placement type does not use.
fn refuse_fields(refusals: &mut Refusals<'_>, policy: &Cursor<'_>, kind: &str, fields: &[&str]) {
    for name in fields {
        let field = policy.field(name);
        // An empty list has no effect.
        if field.is_present() && (field.has_items() || !field.value().is_array()) {
            let message = format!("`{name}` is not allowed with placement type `{kind}`");
            refusals.add_error(&field, message, "remove it, or use another `placementType`");
        }
    }
}

fn check_pick_fixed(refusals: &mut Refusals<'_>, policy: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    let others = ["affinity", "numberOfClusters", "topologySpreadConstraints", "tolerations"];
    refuse_fields(refusals, policy, "PickFixed", &others);
    let names = policy.field("clusterNames");
    if !behaviour.empty_pick_fixed && !names.has_items() {
        let message = format!("KubeFleet {} refuses `PickFixed` without `clusterNames`", behaviour.release);
        refusals.add_error(policy, message, "name a cluster, or remove the placement");
    }
    check_at_most(refusals, &names, "cluster names");
    if !behaviour.has_webhooks {
        return;
    }
    let mut known = BTreeSet::new();
    for name in names.items() {
        if name.as_text().len() > MAX_NAME_LENGTH {
            let message = format!("the name of a cluster has at most {MAX_NAME_LENGTH} characters");
            refusals.add_error(&name, message, "use the name of the MemberCluster");
        }
        if !names::is_dns_subdomain(name.as_text()) {
            let message = format!("`{}` is not a valid cluster name", name.as_text());
            let help = "use the name of the MemberCluster: lowercase letters, digits, `-` and `.`, with a \
                        letter or digit at both ends of each part";
            refusals.add_error(&name, message, help);
        }
        if !known.insert(name.as_text()) {
            let message = format!("cluster `{}` occurs twice", name.as_text());
            refusals.add_error(&name, message, "remove one of the two");
        }
    }
}

fn check_pick_all(refusals: &mut Refusals<'_>, policy: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    let others = ["clusterNames", "numberOfClusters", "topologySpreadConstraints"];
    refuse_fields(refusals, policy, "PickAll", &others);
    let affinity = policy.field("affinity").field("clusterAffinity");
    if behaviour.has_webhooks {
        refuse_fields(refusals, &affinity, "PickAll", &["preferredDuringSchedulingIgnoredDuringExecution"]);
    }
}

fn check_pick_n(refusals: &mut Refusals<'_>, policy: &Cursor<'_>) {
    refuse_fields(refusals, policy, "PickN", &["clusterNames"]);
    if !policy.field("numberOfClusters").is_present() {
        let help = "add `numberOfClusters`";
        refusals.add_error(policy, "placement type `PickN` requires `numberOfClusters`", help);
    }
}

fn check_tolerations(refusals: &mut Refusals<'_>, list: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    let mut known = BTreeSet::new();
    for toleration in list.items() {
        let (key, value) = (toleration.field("key"), toleration.field("value"));
        let exists = toleration.field("operator").as_text() == "Exists";
        if key.as_text().is_empty() {
            if !exists {
                let help = "add the key of the taint, or tolerate all taints with `operator: Exists`";
                refusals.add_error(&toleration, "a toleration without key must have operator `Exists`", help);
            }
        } else if behaviour.has_webhooks {
            refusals.label_key(&key);
        }
        if exists && !value.as_text().is_empty() {
            let help = "remove `value`, or use `Equal`";
            refusals.add_error(&value, "a toleration with operator `Exists` must not have a value", help);
        }
        if !behaviour.has_webhooks {
            continue;
        }
        refusals.label_value(&value);
        let defaulted = PlacementToleration::deserialize(toleration.value());
        if defaulted.is_ok_and(|t| !known.insert(t)) {
            refusals.add_error(&toleration, "this toleration occurs twice", "remove one of the two");
        }
    }
}

fn check_strategy(refusals: &mut Refusals<'_>, strategy: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    let rolling = strategy.field("rollingUpdate");
    if strategy.field("type").as_text() == "External" && rolling.is_present() && behaviour.has_webhooks {
        let help = "remove it, or set `type: RollingUpdate`";
        refusals.add_error(&rolling, "`rollingUpdate` is not allowed with strategy type `External`", help);
    }
    for name in ["maxUnavailable", "maxSurge"] {
        let bound = rolling.field(name);
        if bound.is_present() && !is_number_or_percentage(bound.value()) {
            let message = format!("`{name}` is neither a number from 0 nor a percentage from 0% to 100%");
            refusals.add_error(&bound, message, "write it like `3` or `25%`");
        }
    }
    let period = rolling.field("unavailablePeriodSeconds");
    if period.as_integer() < 0 && behaviour.unavailable_period_has_minimum {
        refusals.add_error(
            &period,
            "`unavailablePeriodSeconds` must be 0 or more",
            "remove it to use the default, 60 seconds",
        );
    }
    let apply = strategy.field("applyStrategy");
    let config = apply.field("serverSideApplyConfig");
    if config.is_present() && apply.field("type").as_text() != "ServerSideApply" && behaviour.has_webhooks {
        let help = "remove it, or set `type: ServerSideApply`";
        refusals.add_error(
            &config,
            "`serverSideApplyConfig` is only allowed with type `ServerSideApply`",
            help,
        );
    }
}

fn is_number_or_percentage(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_some_and(|n| (0..=i64::from(i32::MAX)).contains(&n)),
        Value::String(text) => match text.strip_suffix('%') {
            Some(percent) => percent == "100" || (super::is_digits(percent) && percent.len() <= 2),
            None => super::is_digits(text),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bounds_are_numbers_or_percentages() {
        for good in [json!(0), json!(3), json!("0%"), json!("25%"), json!("100%"), json!("7")] {
            assert!(is_number_or_percentage(&good), "{good}");
        }
        for bad in [json!(-1), json!("101%"), json!("abc"), json!("%"), json!(""), json!("-1"), json!(1.5)] {
            assert!(!is_number_or_percentage(&bad), "{bad}");
        }
    }
}
