//! Validation: what the API server refuses by the definitions of the kinds, and the hub by its webhooks.

use federate_kubernetes::names::is_dns_label;
use federate_kubernetes::schema::{Cursor, Field, Refusals, Schema as _, Shape, check_by};
use federate_kubernetes::selector::invalid_key;
use federate_kubernetes::{Finding, Object};

use crate::api::cluster::{ClusterSpec, ClusterStatus};
use crate::api::work::{ReplicaSetSpec, WorkSpec};
use crate::api::{BindingSpec, ClusterSetSpec, PlacementSpec, ScoreStatus};

mod work;

use Shape::{Any, Text};

const HEAD: &[Field] =
    &[Field::optional("apiVersion", Text), Field::optional("kind", Text), Field::optional("metadata", Any)];

const STATUS: &[Field] = &[Field::optional("status", Any)];

const CLUSTER: Shape = Shape::Object(&[
    HEAD,
    &[Field::optional("spec", ClusterSpec::SHAPE), Field::optional("status", ClusterStatus::SHAPE)],
]);
const SET: Shape = Shape::Object(&[HEAD, STATUS, &[Field::optional("spec", ClusterSetSpec::SHAPE)]]);
const BINDING: Shape = Shape::Object(&[HEAD, STATUS, &[Field::optional("spec", BindingSpec::SHAPE)]]);
const PLACEMENT: Shape = Shape::Object(&[HEAD, STATUS, &[Field::required("spec", PlacementSpec::SHAPE)]]);
const SCORE: Shape =
    Shape::Object(&[HEAD, &[Field::optional("spec", Any), Field::optional("status", ScoreStatus::SHAPE)]]);
const WORK: Shape = Shape::Object(&[HEAD, STATUS, &[Field::required("spec", WorkSpec::SHAPE)]]);
const REPLICA_SET: Shape = Shape::Object(&[HEAD, STATUS, &[Field::optional("spec", ReplicaSetSpec::SHAPE)]]);

/// Returns the findings about one of the dialect's own objects.
pub(super) fn check_object(object: &Object) -> Vec<Finding> {
    let code = "invalid-policy";
    match object.id.kind.as_str() {
        "ManagedCluster" => check_by(check_cluster, object, &CLUSTER, crate::cluster::INVALID),
        "ManagedClusterSet" => check_by(check_set, object, &SET, code),
        "ManagedClusterSetBinding" => check_by(check_binding, object, &BINDING, code),
        "Placement" => check_by(check_placement, object, &PLACEMENT, code),
        "AddOnPlacementScore" => check_by(|_, _| {}, object, &SCORE, code),
        "ManifestWork" => check_by(work::check_work, object, &WORK, code),
        "ManifestWorkReplicaSet" => check_by(work::check_replica_set, object, &REPLICA_SET, code),
        _ => Vec::new(),
    }
}

fn check_cluster(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    for taint in spec.field("taints").items() {
        check_taint_key(refusals, &taint.field("key"));
    }
    let configs = spec.field("managedClusterClientConfigs");
    let mut has_config = false;
    for config in configs.items() {
        has_config = true;
        let url = config.field("url");
        if url.is_present() && !url.as_text().starts_with("https://") {
            refusals.add_error(
                &url,
                "the URL of a client configuration must begin with `https://`",
                "use HTTPS",
            );
        }
    }
    let name = refusals.object.id.name.clone();
    // The hub only looks at the name of clusters with client configurations.
    if has_config && federate_kubernetes::selector::invalid_value(&name).is_none() && name.contains('.')
        || has_config && !is_namespace_name(&name)
    {
        let message = format!("the name `{name}` of the cluster is not a name of a namespace");
        refusals.add_error(&configs, message, "use lower-case letters, digits and `-`, without dots");
    }
}

/// Whether a name can be that of a namespace.
fn is_namespace_name(name: &str) -> bool {
    name.len() <= 63 && is_dns_label(name)
}

fn check_taint_key(refusals: &mut Refusals<'_>, key: &Cursor<'_>) {
    if !key.as_text().is_empty() && invalid_key(key.as_text()).is_some() && !is_long_key(key.as_text()) {
        refusals.label_key(key);
    }
}

/// Whether a key is only too long, which the definition does not check.
fn is_long_key(key: &str) -> bool {
    let shortened: Vec<&str> = key.split('/').map(|part| if part.len() > 63 { "a" } else { part }).collect();
    key.split('/').any(|part| part.len() > 63) && invalid_key(&shortened.join("/")).is_none()
}

fn check_set(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    for namespace in spec.field("managedNamespaces").items() {
        let name = namespace.field("name");
        if !is_namespace_name(name.as_text()) {
            let message = format!("`{}` is not a name of a namespace", name.as_text());
            refusals.add_error(&name, message, "use lower-case letters, digits and `-`");
        }
    }
}

fn check_binding(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    let set = spec.field("clusterSet");
    let name = refusals.object.id.name.clone();
    if set.as_text() != name {
        let message =
            format!("the binding `{name}` must have the name of the set that it binds, `{}`", set.as_text());
        refusals.add_error(&set, message, "name the binding like its set");
    }
}

fn check_placement(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    for toleration in spec.field("tolerations").items() {
        check_taint_key(refusals, &toleration.field("key"));
    }
    let constraints = spec.field("spreadPolicy").field("spreadConstraints");
    if constraints.items().count() > 8 {
        refusals.add_error(&constraints, "more than 8 spread constraints are refused", "remove some");
    }
    for constraint in constraints.items() {
        check_taint_key(refusals, &constraint.field("topologyKey"));
    }
    let rate = spec.field("scoreRateLimit");
    if rate.is_present() && !is_duration(rate.as_text()) {
        refusals.add_error(
            &rate,
            "`scoreRateLimit` must be digits and one of h, m and s",
            "write it like `1m`",
        );
    }
    let groups = spec.field("decisionStrategy").field("groupStrategy");
    check_amount(refusals, &groups.field("clustersPerDecisionGroup"));
    for group in groups.field("decisionGroups").items() {
        let name = group.field("groupName");
        let text = name.as_text();
        let is_name = (2..=63).contains(&text.len())
            && !text.starts_with(['-', '_', '.'])
            && !text.ends_with(['-', '_', '.'])
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if name.is_present() && !is_name {
            let message = format!("`{}` is not a name of a decision group", name.as_text());
            refusals.add_error(&name, message, "use 2 to 63 letters, digits, `-`, `_` and `.`");
        }
    }
}

/// Whether a text is digits and a unit.
fn is_duration(text: &str) -> bool {
    let digits = text.strip_suffix(['h', 'm', 's']);
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a text is a positive number without leading zeros.
fn is_positive_number(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Checks a number of clusters, or a percentage. The definition does not check numbers.
fn check_amount(refusals: &mut Refusals<'_>, amount: &Cursor<'_>) {
    let is_amount = match amount.value() {
        serde_json::Value::Null => true,
        serde_json::Value::Number(number) => number.is_i64(),
        serde_json::Value::String(text) => match text.strip_suffix('%') {
            Some(number) => is_positive_number(number) && (number == "100" || number.len() <= 2),
            None => is_positive_number(text),
        },
        _ => false,
    };
    if !is_amount {
        let message = format!("`{}` is neither a number nor a percentage from 1% to 100%", amount.as_text());
        refusals.add_error(amount, message, "write it like `5` or `25%`");
    }
}
