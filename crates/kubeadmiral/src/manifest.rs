//! The manifests of a placement: the template, the replicas, the overrides.
//!
//! Clusters with the same rules and the same number of replicas receive the same manifest, which is rendered
//! once.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::overrides::{self, FailedPolicy, OverrideGroup, Patch};
use super::state::KubeAdmiralState;
use super::types::TypeConfig;
use super::{KubeAdmiralPlanner, followers, keys, namespaces, source};
use federate_dialect::{ManifestVariant, NotSent, Placed, Placement, RenderedManifest, ReplicaFields};
use federate_kubernetes::patch::parse_pointer;
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::{ClusterName, Finding, Object, finding, pointer, work};
use federate_repo::Template;

/// The variants of a placement.
pub(super) fn render_template(
    plane: &KubeAdmiralPlanner<'_>,
    placement: &Placement,
    template: &Template,
) -> Vec<ManifestVariant> {
    let object = &template.object;
    let Some(config) = plane.types.get(&object.id.api_version, &object.id.kind) else { return Vec::new() };
    let scheduler_state = KubeAdmiralState::from_row(placement);
    let mut held: Vec<ManifestVariant> = Vec::new();
    if !scheduler_state.held.is_empty() {
        held.push(not_sent(scheduler_state.held.clone(), "Waiting", None));
    }
    if placement.clusters.is_empty() {
        return held;
    }
    if let Some(status) = not_sent_reason(object, placement) {
        return vec![not_sent(cluster_names(&placement.clusters), status, None)];
    }
    let (ready, mut variants) = split_reachable(plane, &placement.clusters);
    variants.extend(held);
    match group_by_overrides(plane, object, &placement.clusters) {
        Err((status, finding)) => {
            // Without patches it goes to clusters that did not have it when the overrides were good.
            let overridden = scheduler_state.overridden.as_ref();
            let (stay, new): (Vec<Placed>, Vec<Placed>) = ready
                .into_iter()
                .partition(|placed| overridden.is_none_or(|names| names.contains(&placed.name)));
            variants.push(not_sent(cluster_names(&stay), status, Some(finding)));
            let class = OverrideGroup { clusters: new.clone(), patches: Vec::new(), changes: Vec::new() };
            render_group(config, template, &class, &new, &mut variants);
        }
        Ok(_) if scheduler_state.pending.is_some() => {
            variants.push(not_sent(cluster_names(&ready), "Waiting", None));
        }
        Ok(classes) => {
            for class in classes {
                render_group(config, template, &class, &ready, &mut variants);
            }
        }
    }
    variants.retain(|v| !v.clusters.is_empty());
    variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    variants
}

/// Whether overrides may change the replicas of an object.
pub(super) fn may_change_replicas(plane: &KubeAdmiralPlanner<'_>, object: &Object) -> bool {
    let config = plane.types.get(&object.id.api_version, &object.id.kind);
    // Without its policies it is not sent.
    let (Some(config), Ok(policies)) = (config, overrides::named_policies(plane, object)) else {
        return false;
    };
    let (fields, replicas) = (ReplicaFields::for_kind(&object.id), config.replicas_pointer());
    let replicas = parse_pointer(&replicas).unwrap_or_default();
    let is_reached = |path: &str| {
        let is_around = |path: Vec<String>| path.iter().zip(&replicas).all(|(step, other)| step == other);
        fields.may_be_at(path) || parse_pointer(path).is_ok_and(is_around)
    };
    let rules = policies.into_iter().flat_map(|policy| &policy.rules);
    rules.flat_map(overrides::OverrideRule::patched_paths).any(is_reached)
}

/// Why no cluster receives the object, if none does.
pub(super) fn not_sent_reason(object: &Object, placement: &Placement) -> Option<&'static str> {
    if namespaces::is_excluded(object) {
        return Some("SystemNamespace");
    }
    if followers::is_dry_run(object, Some(placement)) {
        return Some("DryRun");
    }
    (object.id.kind == "HorizontalPodAutoscaler" && object.label(keys::CENTRAL_HPA) == Some("true"))
        .then_some("CentralizedHPA")
}

/// The clusters that can be written to, and the others with reasons.
fn split_reachable(
    plane: &KubeAdmiralPlanner<'_>,
    clusters: &[Placed],
) -> (Vec<Placed>, Vec<ManifestVariant>) {
    let mut ready = Vec::with_capacity(clusters.len());
    let mut others: BTreeMap<&'static str, Vec<ClusterName>> = BTreeMap::new();
    for placed in clusters {
        let status = match plane.find_cluster(&placed.name) {
            None => "ClusterNotFound",
            Some(cluster) if !cluster.joined => "ClusterNotJoined",
            Some(cluster) if cluster.deleting => "ClusterTerminating",
            Some(cluster) if !cluster.ready => "ClusterNotReady",
            Some(_) => {
                ready.push(placed.clone());
                continue;
            }
        };
        others.entry(status).or_default().push(placed.name.clone());
    }
    (ready, others.into_iter().map(|(status, clusters)| not_sent(clusters, status, None)).collect())
}

fn cluster_names(clusters: &[Placed]) -> Vec<ClusterName> {
    clusters.iter().map(|p| p.name.clone()).collect()
}

fn not_sent(clusters: Vec<ClusterName>, status: &'static str, finding: Option<Finding>) -> ManifestVariant {
    ManifestVariant { clusters: clusters.into(), rendered: Err(NotSent { status, finding }) }
}

/// The clusters, grouped by the result of their overrides.
fn group_by_overrides(
    plane: &KubeAdmiralPlanner<'_>,
    object: &Object,
    clusters: &[Placed],
) -> Result<Vec<OverrideGroup>, (&'static str, Finding)> {
    let policies = overrides::named_policies(plane, object).map_err(|missing| {
        let message = format!("{} waits for {missing}, which is not in the repo", object.id);
        let policies = plane.overrides.keys();
        let there: Vec<&str> = policies
            .filter(|id| id.kind == missing.kind && id.namespace == missing.namespace)
            .map(|id| id.name.as_str())
            .collect();
        let key = if missing.namespace.is_some() { keys::OVERRIDE } else { keys::CLUSTER_OVERRIDE };
        let finding = Finding::error("override-policy-not-found", object, message)
            .with_pointer(format!("/metadata/labels/{}", pointer::escape(key)))
            .with_help(match find_similar(&missing.name, &there) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add the policy, or remove the label".to_owned(),
            });
        ("OverridePolicyNotFound", finding)
    })?;
    overrides::evaluate_policies(plane, object, &policies, clusters)
        .map_err(|failed| ("OverrideFailed", override_failure(object, &failed)))
}

fn override_failure(object: &Object, failed: &FailedPolicy<'_>) -> Finding {
    let message =
        format!("{} cannot be rendered for any cluster: {}", object.id, failed.describe_failure(object));
    let mut finding =
        Finding::error("override-failed", object, message).with_pointer(&failed.failure.pointer);
    finding.origin = Some(failed.policy.origin.clone());
    finding
}

/// Renders one group of clusters that can be written to.
fn render_group(
    config: &TypeConfig,
    template: &Template,
    class: &OverrideGroup,
    ready: &[Placed],
    variants: &mut Vec<ManifestVariant>,
) {
    let mut by_replicas: BTreeMap<Option<i64>, Vec<ClusterName>> = BTreeMap::new();
    for placed in class.clusters.iter().filter(|p| ready.binary_search_by(|r| r.name.cmp(&p.name)).is_ok()) {
        by_replicas.entry(placed.replicas).or_default().push(placed.name.clone());
    }
    for (replicas, clusters) in by_replicas {
        let Some(first) = clusters.first() else { continue };
        let object = template.for_cluster(first);
        work::charge_copy(&object.body);
        if work::is_exceeded() {
            return;
        }
        let rendered = match render_body(config, object, replicas, &class.patches) {
            Ok(body) => Ok(RenderedManifest { body, changes: class.changes.clone() }),
            Err(why) => Err(NotSent {
                status: "ApplyOverridesFailed",
                finding: Some(unfit_finding(object, class, &clusters, &why)),
            }),
        };
        variants.push(ManifestVariant { clusters: clusters.into(), rendered });
    }
}

/// The object as it is sent, without the labels and annotations that every object gets.
fn render_body(
    config: &TypeConfig,
    object: &Object,
    replicas: Option<i64>,
    patches: &[Patch],
) -> Result<Value, String> {
    let mut body = source::sent_template(&object.body);
    source::drop_member_fields(&object.id, &mut body);
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("finalizers".to_owned(), json!([]));
    }
    apply_changes(config, replicas, patches, &mut body)?;
    source::remove_stamps(&mut body);
    Ok(body)
}

/// Applies the scheduler's replicas and the overrides, in the order of the kind's controllers.
pub(super) fn apply_changes(
    config: &TypeConfig,
    replicas: Option<i64>,
    patches: &[Patch],
    body: &mut Value,
) -> Result<(), String> {
    if let Some(patch) = patches.iter().find(|patch| overrides::is_refused(patch)) {
        return Err(format!("`{}` must not be overridden", patch.path));
    }
    let number = replicas.map(|replicas| Patch {
        name: "replace".to_owned(),
        path: config.replicas_pointer(),
        value: replicas.into(),
    });
    let (before, after) = if config.overrides_first() { (None, number) } else { (number, None) };
    for patch in before.iter().chain(patches).chain(&after) {
        patch.apply_to(body).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn unfit_finding(object: &Object, class: &OverrideGroup, clusters: &[ClusterName], why: &str) -> Finding {
    let shown: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    let policies: Vec<String> = class.changes.iter().map(|c| c.policy.to_string()).collect();
    let why = if object.id.kind == "Secret" { "they do not fit this Secret" } else { why };
    let message = format!(
        "{} cannot be rendered for {}: its overrides ({}) fail: {why}",
        object.id,
        finding::join_names(&shown, 3),
        policies.join(", ")
    );
    Finding::error("override-failed", object, message)
}
