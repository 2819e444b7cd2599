//! The rules of `ClusterResourcePlacement` and `ResourcePlacement` beyond their schema: what goes with
//! which placement type, tolerations, and rollout and apply strategy.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::super::api::Toleration;
use super::super::version::{Behaviour, DroppedFields};
use super::{Refusals, terms};
use federate_kubernetes::schema::Cursor;
use federate_kubernetes::{Finding, names};

/// The most selectors, and the most clusters by name.
const MOST: usize = 100;

/// The length of a cluster's name.
const LONGEST_NAME: usize = 63;

pub(super) fn rules(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, behaviour: &Behaviour) {
    let dropped = DroppedFields::of(refusals.object, behaviour);
    report_dropped_fields(refusals, spec, dropped);
    let selectors = spec.field("resourceSelectors");
    at_most(refusals, &selectors, "selectors");
    for selector in selectors.items() {
        let (name, labels) = (selector.field("name"), selector.field("labelSelector"));
        if !name.text().is_empty() && labels.present() {
            let help = "remove one of them, or write two selectors";
            refusals.add(&labels, "a selector must not have both `name` and `labelSelector`", help);
        }
        if behaviour.has_webhooks {
            refusals.label_selector(&labels);
        }
        if !dropped.selection_scope {
            scope(refusals, &selector.field("selectionScope"), behaviour);
        }
    }
    if !dropped.selection_scope {
        inside_namespace(refusals, &selectors);
    }
    let policy = spec.field("policy");
    match policy.field("placementType").text() {
        "PickFixed" => pick_fixed(refusals, &policy, behaviour),
        "PickN" => pick_n(refusals, &policy),
        _ => pick_all(refusals, &policy, behaviour),
    }
    if behaviour.has_webhooks {
        terms::affinity(refusals, &policy.field("affinity").field("clusterAffinity"), behaviour);
    }
    tolerations(refusals, &policy.field("tolerations"), behaviour);
    strategy(refusals, &spec.field("strategy"), behaviour);
    let kind = spec.field("strategy").field("type");
    if dropped.selection_scope && kind.text() == "External" {
        let message = format!(
            "KubeFleet {} does not know the strategy `External` in `{}`",
            behaviour.release, refusals.object.id.api_version
        );
        refusals.add(&kind, message, "write the placement in `placement.kubernetes-fleet.io/v1beta1`");
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
        .filter(Cursor::present);
    for field in fields {
        let name = field.pointer().rsplit('/').next().unwrap_or_default();
        let message = format!(
            "`{}` has no field `{name}`: the API server drops it silently",
            refusals.object.id.api_version
        );
        let finding = Finding::warning("ignored-field", refusals.object, message).at(field.pointer());
        let help = "write the placement in `placement.kubernetes-fleet.io/v1beta1`, or remove the field";
        refusals.findings.push(finding.help(help.to_owned()));
    }
}

/// Checks the scope of a selector. `v1` got the field, and later its last value, after `v1beta1`.
fn scope(refusals: &mut Refusals<'_>, scope: &Cursor<'_>, behaviour: &Behaviour) {
    let is_v1 = refusals.object.id.api_version.ends_with("/v1");
    let known = if is_v1 { behaviour.scope_of_selectors_in_v1 } else { behaviour.scope_of_selectors };
    if scope.text() == "NamespaceWithResourceSelectors" && !known {
        let message = format!(
            "KubeFleet {} does not know `selectionScope: NamespaceWithResourceSelectors` in `{}`",
            behaviour.release, refusals.object.id.api_version
        );
        let help = "write a ResourcePlacement in the namespace, or select the whole namespace";
        refusals.add(scope, message, help);
    }
}

/// Checks that selectors inside of a namespace come with exactly one namespace, by its name.
fn inside_namespace(refusals: &mut Refusals<'_>, selectors: &Cursor<'_>) {
    let namespaces: Vec<Cursor<'_>> = selectors
        .items()
        .filter(|one| one.field("group").text().is_empty() && one.field("kind").text() == "Namespace")
        .collect();
    let scoped = |one: &&Cursor<'_>| one.field("selectionScope").text() == "NamespaceWithResourceSelectors";
    let Some(first) = namespaces.iter().find(scoped) else { return };
    if first.field("name").text().is_empty() {
        let message = "`selectionScope: NamespaceWithResourceSelectors` needs the name of the namespace";
        refusals.add(first, message, "add `name`, and no `labelSelector`");
    }
    if namespaces.len() > 1 {
        let message = "a selector with `selectionScope: NamespaceWithResourceSelectors` must be the only one of a Namespace";
        refusals.add(first, message, "select the other namespaces in placements of their own");
    }
}

fn at_most(refusals: &mut Refusals<'_>, list: &Cursor<'_>, what: &str) {
    if list.items().count() > MOST {
        let message = format!("more than {MOST} {what} are not allowed");
        refusals.add(list, message, "split them over several placements");
    }
}

/// Refuses fields that a placement type does not use.
fn excluded(refusals: &mut Refusals<'_>, policy: &Cursor<'_>, kind: &str, fields: &[&str]) {
    for name in fields {
        let field = policy.field(name);
        // An empty list has no effect.
        if field.present() && (field.filled() || !field.value().is_array()) {
            let message = format!("`{name}` is not allowed with placement type `{kind}`");
            refusals.add(&field, message, "remove it, or use another `placementType`");
        }
    }
}

fn pick_fixed(refusals: &mut Refusals<'_>, policy: &Cursor<'_>, behaviour: &Behaviour) {
    let others = ["affinity", "numberOfClusters", "topologySpreadConstraints", "tolerations"];
    excluded(refusals, policy, "PickFixed", &others);
    let names = policy.field("clusterNames");
    if !behaviour.empty_pick_fixed && !names.filled() {
        let message = format!("KubeFleet {} refuses `PickFixed` without `clusterNames`", behaviour.release);
        refusals.add(policy, message, "name a cluster, or remove the placement");
    }
    at_most(refusals, &names, "cluster names");
    if !behaviour.has_webhooks {
        return;
    }
    let mut known = BTreeSet::new();
    for name in names.items() {
        if name.text().len() > LONGEST_NAME {
            let message = format!("the name of a cluster has at most {LONGEST_NAME} characters");
            refusals.add(&name, message, "use the name of the MemberCluster");
        }
        if !names::is_dns_subdomain(name.text()) {
            let message = format!("`{}` is not a valid cluster name", name.text());
            let help = "use the name of the MemberCluster: lowercase letters, digits, `-` and `.`, with a \
                        letter or digit at both ends of each part";
            refusals.add(&name, message, help);
        }
        if !known.insert(name.text()) {
            let message = format!("cluster `{}` occurs twice", name.text());
            refusals.add(&name, message, "remove one of the two");
        }
    }
}

fn pick_all(refusals: &mut Refusals<'_>, policy: &Cursor<'_>, behaviour: &Behaviour) {
    let others = ["clusterNames", "numberOfClusters", "topologySpreadConstraints"];
    excluded(refusals, policy, "PickAll", &others);
    let affinity = policy.field("affinity").field("clusterAffinity");
    if behaviour.has_webhooks {
        excluded(refusals, &affinity, "PickAll", &["preferredDuringSchedulingIgnoredDuringExecution"]);
    }
}

fn pick_n(refusals: &mut Refusals<'_>, policy: &Cursor<'_>) {
    excluded(refusals, policy, "PickN", &["clusterNames"]);
    if !policy.field("numberOfClusters").present() {
        let help = "add `numberOfClusters`";
        refusals.add(policy, "placement type `PickN` requires `numberOfClusters`", help);
    }
}

fn tolerations(refusals: &mut Refusals<'_>, list: &Cursor<'_>, behaviour: &Behaviour) {
    let mut known = BTreeSet::new();
    for toleration in list.items() {
        let (key, value) = (toleration.field("key"), toleration.field("value"));
        let exists = toleration.field("operator").text() == "Exists";
        if key.text().is_empty() {
            if !exists {
                let help = "add the key of the taint, or tolerate all taints with `operator: Exists`";
                refusals.add(&toleration, "a toleration without key must have operator `Exists`", help);
            }
        } else if behaviour.has_webhooks {
            refusals.label_key(&key);
        }
        if exists && !value.text().is_empty() {
            let help = "remove `value`, or use `Equal`";
            refusals.add(&value, "a toleration with operator `Exists` must not have a value", help);
        }
        if !behaviour.has_webhooks {
            continue;
        }
        refusals.label_value(&value);
        let defaulted = Toleration::deserialize(toleration.value());
        if defaulted.is_ok_and(|t| !known.insert(t)) {
            refusals.add(&toleration, "this toleration occurs twice", "remove one of the two");
        }
    }
}

fn strategy(refusals: &mut Refusals<'_>, strategy: &Cursor<'_>, behaviour: &Behaviour) {
    let rolling = strategy.field("rollingUpdate");
    if strategy.field("type").text() == "External" && rolling.present() && behaviour.has_webhooks {
        let help = "remove it, or set `type: RollingUpdate`";
        refusals.add(&rolling, "`rollingUpdate` is not allowed with strategy type `External`", help);
    }
    for name in ["maxUnavailable", "maxSurge"] {
        let bound = rolling.field(name);
        if bound.present() && !number_or_percentage(bound.value()) {
            let message = format!("`{name}` is neither a number from 0 nor a percentage from 0% to 100%");
            refusals.add(&bound, message, "write it like `3` or `25%`");
        }
    }
    let period = rolling.field("unavailablePeriodSeconds");
    if period.integer() < 0 && behaviour.unavailable_period_has_minimum {
        refusals.add(
            &period,
            "`unavailablePeriodSeconds` must be 0 or more",
            "remove it to use the default, 60 seconds",
        );
    }
    let apply = strategy.field("applyStrategy");
    let config = apply.field("serverSideApplyConfig");
    if config.present() && apply.field("type").text() != "ServerSideApply" && behaviour.has_webhooks {
        let help = "remove it, or set `type: ServerSideApply`";
        refusals.add(&config, "`serverSideApplyConfig` is only allowed with type `ServerSideApply`", help);
    }
}

fn number_or_percentage(value: &Value) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match value {
        Value::Number(number) => number.as_i64().is_some_and(|n| (0..=i64::from(i32::MAX)).contains(&n)),
        Value::String(text) => match text.strip_suffix('%') {
            Some(percent) => percent == "100" || (digits(percent) && percent.len() <= 2),
            None => digits(text),
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
            assert!(number_or_percentage(&good), "{good}");
        }
        for bad in [json!(-1), json!("101%"), json!("abc"), json!("%"), json!(""), json!("-1"), json!(1.5)] {
            assert!(!number_or_percentage(&bad), "{bad}");
        }
    }
}
