//! Findings about what the control plane ignores silently: annotations that it cannot read, weights of unknown
//! resources, clusters that receive nothing.

use std::collections::BTreeMap;

use super::decision::TemplateDecider;
use super::effective_policy::{FieldReplacement, find_replacements, unreadable_annotations};
use super::policies::KubeAdmiralPolicy;
use super::{KubeAdmiralPlanner, followers, keys};
use federate_dialect::{PlacedClusters, Placement, Unschedulable};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef, Severity, finding, work};
use federate_repo::Template;

/// The finding about a template that is not scheduled.
pub(super) fn unschedulable_finding(template: &Object, why: &Unschedulable) -> Finding {
    let help = format!("`federate explain {}/{}` shows every cluster", template.id.kind, template.id.name);
    let message = format!("{}: {}: {}", template.id, why.reason, why.message);
    Finding::warning("unschedulable", template, message).with_help(help)
}

/// Annotations of a template that are ignored because they cannot be read.
pub(super) fn ignored_annotations(template: &Object, decision: &TemplateDecider<'_, '_>) -> Vec<Finding> {
    let unreadable = unreadable_annotations(template).into_iter();
    let mut findings: Vec<Finding> =
        unreadable.map(|(key, why)| ignored_annotation(template, key, &why)).collect();
    if let Some(why) = &decision.unclear_migration {
        findings.push(ignored_annotation(template, keys::MIGRATION, why));
    }
    if decision.lacks_clock() {
        let why = "`--now` is not set, so no cluster is evicted";
        findings
            .push(ignored_annotation(template, keys::MIGRATION, why).with_help("set the time with --now"));
    }
    findings
}

fn ignored_annotation(template: &Object, key: &str, why: &str) -> Finding {
    let message = format!("the annotation {key} is ignored: {why}");
    Finding::warning("ignored-annotation", template, message).with_pointer(keys::annotation_pointer(key))
}

/// The annotations of a template that take the place of fields of its policy.
pub(super) fn find_replaced_policy(template: &Object, policy: Option<&ObjectRef>) -> Vec<Finding> {
    let Some(policy) = policy else { return Vec::new() };
    let help =
        "remove the annotation if the policy should decide, or change the policy for all of its objects";
    let mut findings = Vec::new();
    for FieldReplacement { annotation, field } in find_replacements(template) {
        let message =
            format!("the annotation {annotation} of {} replaces `{field}` of {policy}", template.id);
        findings.push(
            Finding::warning("replaces-policy", template, message)
                .with_pointer(keys::annotation_pointer(annotation))
                .with_help(help),
        );
    }
    findings
}

/// The clusters with unknown free resources among those between which a policy divides replicas by free resources.
pub(super) fn without_capacity<'c>(
    policy: &KubeAdmiralPolicy<'_>,
    clusters: &'c [Cluster],
) -> Vec<&'c Cluster> {
    let spec = &policy.spec;
    let weighs =
        spec.divides_replicas() && spec.replicas_strategy != "Binpack" && !policy.cluster_preferences.weights;
    let unknown = clusters.iter().enumerate().filter(|(at, c)| {
        c.joined
            && c.capacity.is_none()
            && (!policy.cluster_preferences.names || policy.cluster_preferences.named[*at])
    });
    if weighs { unknown.map(|(_, cluster)| cluster).collect() } else { Vec::new() }
}

/// The findings about followers that the annotation of a leader names and the repo does not contain.
pub(super) fn missing_followers(leader: &Object, templates: &[Template]) -> Vec<Finding> {
    if leader.annotation(keys::FOLLOWERS).is_none() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (group, kind, name) in followers::read_annotation(leader).unwrap_or_default() {
        let exists = templates.iter().any(|template| {
            let id = &template.object.id;
            id.kind == kind && id.name == name && id.group() == group && id.namespace == leader.id.namespace
        });
        if exists {
            continue;
        }
        let of = if group.is_empty() { String::new() } else { format!(" of the API group `{group}`") };
        let message = format!(
            "the annotation {} names the {kind} `{name}`{of}, which the repo does not contain",
            keys::FOLLOWERS
        );
        findings.push(
            Finding::warning("unknown-reference", leader, message)
                .with_pointer(keys::annotation_pointer(keys::FOLLOWERS))
                .with_help("correct the group, the kind or the name, or add the object to the repo"),
        );
    }
    findings
}

/// The finding about a policy that weighs free resources which are not known.
pub(super) fn unknown_capacity(policy: &KubeAdmiralPolicy<'_>, clusters: &[Cluster]) -> Option<Finding> {
    let unknown: Vec<&str> = without_capacity(policy, clusters).iter().map(|c| c.name.as_ref()).collect();
    if unknown.is_empty() {
        return None;
    }
    let shown = finding::join_names(&unknown, 5);
    let message = format!("replicas are divided by free resources, but those of {shown} are not known");
    Some(
        Finding::warning("unknown-capacity", policy.object, message)
            .with_pointer("/spec/placement")
            .with_help("add `status.resources` to the inventory, or set weights"),
    )
}

/// The findings about clusters that have placements and receive nothing, one per cluster.
pub(super) fn unreachable_findings(plane: &KubeAdmiralPlanner<'_>, placements: &[Placement]) -> Vec<Finding> {
    // Many placements share a list of clusters.
    let mut lists: BTreeMap<usize, (&PlacedClusters, usize)> = BTreeMap::new();
    for row in placements {
        lists.entry(row.clusters.list_address()).or_insert((&row.clusters, 0)).1 += 1;
    }
    let mut waiting: BTreeMap<&str, usize> = BTreeMap::new();
    for (clusters, rows) in lists.into_values() {
        work::charge_items(clusters.len());
        for placed in clusters {
            *waiting.entry(placed.name.as_ref()).or_default() += rows;
        }
    }
    let mut findings = Vec::new();
    for (name, objects) in waiting {
        let Some(cluster) = plane.find_cluster(name) else { continue };
        let why = match cluster {
            Cluster { joined: false, .. } => "has not joined",
            Cluster { deleting: true, .. } => "is being deleted",
            Cluster { ready: false, .. } => "is not ready",
            _ => continue,
        };
        let objects = match objects {
            1 => "an object is".to_owned(),
            n => format!("{n} objects are"),
        };
        findings.push(Finding {
            cause: None,
            severity: Severity::Warning,
            origin: Some(cluster.origin.clone()),
            pointer: "/status/conditions".to_owned(),
            text_line: None,
            column: None,
            code: "unreachable-cluster",
            object: Some(cluster.id.clone()),
            message: format!("{objects} placed on cluster `{name}`, which {why}, so it receives nothing"),
            help: None,
        });
    }
    findings
}
