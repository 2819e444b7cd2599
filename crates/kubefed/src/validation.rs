//! Validation: what the API server and `KubeFed`'s admission webhooks refuse, and what they accept although it
//! has no effect.

use std::collections::BTreeSet;

use super::config::ControlPlaneConfig;
use super::types::FederatedTypeIndex;
use super::{CLUSTER_NOT_READY, KubeFedPlanner, placement};
use federate_kubernetes::schema::{Cursor, Shape, find_similar};
use federate_kubernetes::{Cluster, Finding, Object};
use federate_repo::Role;

pub(super) mod placements;
mod schema;

/// Returns the findings about one of `KubeFed`'s own objects.
pub(super) fn check_object(object: &Object, role: Role) -> Vec<Finding> {
    let (shape, code): (&Shape, _) = match (role, object.id.kind.as_str()) {
        (Role::Bundle, _) => (&schema::FEDERATED, "invalid-policy"),
        (_, "KubeFedCluster") => (&schema::CLUSTER, "invalid-cluster"),
        (_, "Cluster") => (&schema::V1_CLUSTER, "invalid-cluster"),
        (_, "FederatedTypeConfig") => (&schema::TYPE_CONFIG, "invalid-policy"),
        (_, "KubeFedConfig") => (&schema::CONFIG, "invalid-policy"),
        (_, "ReplicaSchedulingPreference") => (&schema::PREFERENCE, "invalid-policy"),
        (_, "Domain") => (&schema::DOMAIN, "invalid-policy"),
        (_, "ServiceDNSRecord") => (&schema::SERVICE_RECORD, "invalid-policy"),
        (_, "IngressDNSRecord") => (&schema::INGRESS_RECORD, "invalid-policy"),
        _ => return Vec::new(),
    };
    let mut findings = federate_kubernetes::schema::check_shape(object, shape, code);
    let spec = Cursor::new(&object.body).field("spec");
    match object.id.kind.as_str() {
        "FederatedTypeConfig" if findings.is_empty() => findings.extend(check_type_config(object, &spec)),
        "ReplicaSchedulingPreference" => findings.extend(check_bounds(object, &spec)),
        _ if role == Role::Bundle => findings.extend(check_operations(object, &spec)),
        _ => {}
    }
    findings
}

/// Checks that the name of a configuration is its target, and that the federated group is a domain.
fn check_type_config(object: &Object, spec: &Cursor<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = object.id.name.as_str();
    let (first, rest) = name.split_once('.').unwrap_or((name, ""));
    let target = spec.field("targetType");
    let (plural, group) = (target.field("pluralName"), target.field("group"));
    let plural = if plural.as_text().is_empty() { first } else { plural.as_text() };
    let group = if group.as_text().is_empty() { rest } else { group.as_text() };
    let wanted = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    if name != wanted {
        let message = format!("{} must be named `{wanted}`, after its target", object.id);
        findings.push(
            Finding::error("invalid-policy", object, message)
                .with_pointer("/metadata/name")
                .with_help("the name is `<plural>.<group>`, or `<plural>` for the core group"),
        );
    }
    let group = spec.field("federatedType").field("group");
    if !group.as_text().contains('.') {
        let message = format!("the federated group `{}` is not a domain", group.as_text());
        findings.push(
            Finding::error("invalid-policy", object, message)
                .with_pointer(group.pointer())
                .with_help("`kubefedctl enable` uses `types.kubefed.io`"),
        );
    }
    findings
}

/// Checks operations: the API server accepts only three.
fn check_operations(object: &Object, spec: &Cursor<'_>) -> Vec<Finding> {
    let overrides = spec.field("overrides").items();
    let operations: Vec<Cursor<'_>> =
        overrides.flat_map(|entry| entry.field("clusterOverrides").items().collect::<Vec<_>>()).collect();
    let paths = operations.iter().map(|operation| operation.field("path"));
    let paths = paths.filter(|path| !path.as_text().is_empty() && !path.as_text().starts_with('/'));
    let relative = paths.map(|path| {
        Finding::warning(
            "invalid-override",
            object,
            "the path does not begin with `/`, so its first part is ignored",
        )
        .with_pointer(path.pointer())
        .with_help(format!("did you mean `/{}`?", path.as_text()))
    });
    let without_value = operations.iter().filter(|operation| {
        ["", "add", "replace"].contains(&operation.field("op").as_text())
            && operation.field("path").is_present()
            && !operation.field("value").is_present()
    });
    let without_value = without_value.map(|operation| {
        let message =
            format!("without `value`, the override sets `{}` to null", operation.field("path").as_text());
        Finding::warning("invalid-override", object, message)
            .with_pointer(operation.pointer())
            .with_help("add `value`, or use `op: remove`")
    });
    let other = operations
        .iter()
        .map(|o| o.field("op"))
        .filter(|op| !["", "add", "remove", "replace"].contains(&op.as_text()));
    other
        .map(|op| {
            let message =
                format!("the API server refuses {}: `op: {}` is not allowed", object.id, op.as_text());
            Finding::warning("invalid-override", object, message)
                .with_pointer(op.pointer())
                .with_help("use add, remove or replace; the default is replace")
        })
        .chain(relative)
        .chain(without_value)
        .collect()
}

/// Checks that a preference does not ask for more replicas than it allows.
fn check_bounds(object: &Object, spec: &Cursor<'_>) -> Vec<Finding> {
    let clusters = spec.field("clusters");
    let mut findings = Vec::new();
    for (name, _) in clusters.value().as_object().into_iter().flatten() {
        let wanted = clusters.entry(name);
        let (least, most) = (wanted.field("minReplicas"), wanted.field("maxReplicas"));
        if let (Some(min), Some(max)) = (least.value().as_i64(), most.value().as_i64())
            && min > max
        {
            let message = format!("`minReplicas` {min} is greater than `maxReplicas` {max}");
            findings.push(
                Finding::warning("no-effect", object, message)
                    .with_pointer(least.pointer())
                    .with_help("raise `maxReplicas` or lower `minReplicas`"),
            );
        }
    }
    findings
}

/// The finding about a federated object whose kind has no configuration.
pub(super) fn unknown_type(
    object: &Object,
    config: &ControlPlaneConfig,
    types: &FederatedTypeIndex,
) -> Finding {
    let message = format!(
        "{} is not federated: no FederatedTypeConfig in namespace `{}` has the type `{}` of `{}`",
        object.id,
        config.namespace,
        object.id.kind,
        object.id.group()
    );
    let kinds: Vec<&str> = types.federated_kinds().collect();
    let near = find_similar(&object.id.kind, &kinds).map(|near| format!("did you mean `{near}`?"));
    let add = "add the FederatedTypeConfig that `kubefedctl enable` writes, or fix the group and the kind";
    Finding::warning("unknown-type", object, message)
        .with_pointer("/kind")
        .with_help(near.unwrap_or_else(|| add.to_owned()))
}

/// The findings about what has no effect: clusters that are not ready or not seen, names without a cluster.
pub(super) fn find_ineffective(plane: &KubeFedPlanner<'_>) -> Vec<Finding> {
    let clusters = plane.input.clusters.iter().filter_map(|cluster| {
        if !plane.config.sees_cluster(cluster) {
            return Some(unseen_cluster(cluster, &plane.config));
        }
        (!cluster.ready).then(|| not_ready_cluster(cluster))
    });
    let mut findings: Vec<Finding> = clusters.collect();
    findings.extend(without_target(plane));
    findings
}

/// Invalid selectors of federated objects that have no effect for now, because a preference decides in their place.
pub(super) fn find_overruled_selectors(plane: &KubeFedPlanner<'_>) -> Vec<Finding> {
    let findings = plane.federated.iter().filter_map(|federated| {
        let preference = plane.preference_of(federated)?;
        if preference.spec.intersect_with_cluster_selector {
            // Then the preference fails, which is reported.
            return None;
        }
        let invalid = placement::selected_by_labels(&federated.spec.placement, &plane.clusters).err()?;
        let message = format!(
            "the `clusterSelector` of {} is invalid: {}; {} decides in its place",
            federated.object.id, invalid.why, preference.object.id
        );
        let finding = Finding::warning("no-effect", federated.object, message).with_pointer(invalid.pointer);
        Some(
            finding
                .with_help("correct it, or remove it: without the preference, the object is placed nowhere"),
        )
    });
    findings.collect()
}

fn about_cluster(code: &'static str, cluster: &Cluster, message: String) -> Finding {
    let object =
        Object { id: cluster.id.clone(), body: serde_json::Value::Null, origin: cluster.origin.clone() };
    Finding::warning(code, &object, message)
}

fn not_ready_cluster(cluster: &Cluster) -> Finding {
    let message = format!(
        "cluster `{}` is not ready ({CLUSTER_NOT_READY}), so it receives nothing for now",
        cluster.name
    );
    about_cluster("not-ready", cluster, message)
        .with_help("a cluster is ready with a condition `Ready` of status \"True\"; keep its status in the repo up to date")
}

fn unseen_cluster(cluster: &Cluster, config: &ControlPlaneConfig) -> Finding {
    let message =
        format!("KubeFed sees only clusters in its namespace `{}`, not {}", config.namespace, cluster.id);
    about_cluster("unseen-cluster", cluster, message).with_pointer("/metadata/namespace").with_help(
        "move it there, or add the KubeFedConfig to the repo, which names the namespace of KubeFed",
    )
}

/// Preferences for federated objects that do not exist.
fn without_target(plane: &KubeFedPlanner<'_>) -> Vec<Finding> {
    let ids = plane.federated.iter().map(|federated| &federated.object.id);
    let existing: BTreeSet<_> = ids.map(|id| (&id.kind, &id.namespace, &id.name)).collect();
    let mut findings = Vec::new();
    for preference in plane.preferences.values().flat_map(|of_namespace| of_namespace.values()) {
        let (id, kind) = (&preference.object.id, &preference.spec.target_kind);
        if existing.contains(&(kind, &id.namespace, &id.name)) {
            continue;
        }
        let message = format!("{id} has no effect: there is no {kind} {}", id.namespaced_name());
        let help = "it schedules the federated object of its own namespace and name, and of its `targetKind`";
        findings.push(
            Finding::warning("no-effect", preference.object, message)
                .with_pointer("/spec/targetKind")
                .with_help(help),
        );
    }
    findings
}

#[cfg(test)]
mod tests;
