//! Findings about what the control plane ignores silently: annotations that it cannot read, weights of unknown
//! resources, clusters that receive nothing.

use std::collections::BTreeMap;

use super::decision::TemplateDecider;
use super::effective_policy::{FieldReplacement, find_replacements, unreadable_annotations};
use super::policies::KubeAdmiralPolicy;
use super::{KubeAdmiralPlanner, followers, keys};
use federate_dialect::{Placement, Unschedulable};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef, Severity, finding};
use federate_repo::Template;

/// The finding about a template that is not scheduled.
pub(super) fn unschedulable_finding(template: &Object, why: &Unschedulable) -> Finding {
    let help = format!("`federate explain {}/{}` shows every cluster", template.id.kind, template.id.name);
    let message = format!("{}: {}: {}", template.id, why.reason, why.message);
    Finding::warning("unschedulable", template, message).with_help(help)
}

/// Annotations of a template that are ignored because they cannot be read.
pub(super) fn ignored_annotations(template: &Object, decision: &TemplateDecider<'_, '_>) -> Vec<Finding> {
    let warning = |key: &str, why: &str| {
        let message = format!("the annotation {key} is ignored: {why}");
        Finding::warning("ignored-annotation", template, message)
            .with_pointer(format!("/metadata/annotations/{}", federate_kubernetes::pointer::escape(key)))
    };
    let mut findings: Vec<Finding> =
        unreadable_annotations(template).into_iter().map(|(key, why)| warning(key, &why)).collect();
    if let Some(why) = decision.migration_error() {
        findings.push(warning(keys::MIGRATION, why));
    }
    if decision.lacks_clock() {
        findings.push(
            warning(keys::MIGRATION, "`--now` is not set, so no cluster is evicted")
                .with_help("set the time with --now"),
        );
    }
    findings
}

/// The annotations of a template that take the place of fields of its policy.
pub(super) fn find_replaced_policy(template: &Object, policy: Option<&ObjectRef>) -> Vec<Finding> {
    let Some(policy) = policy else { return Vec::new() };
    let finding = |one: FieldReplacement| {
        let message = format!(
            "the annotation {} of {} replaces `{}` of {policy}",
            one.annotation, template.id, one.field
        );
        let help =
            "remove the annotation if the policy should decide, or change the policy for all of its objects";
        Finding::warning("replaces-policy", template, message)
            .with_pointer(one.annotation_pointer())
            .with_help(help)
    };
    find_replacements(template).into_iter().map(finding).collect()
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
    let is = |template: &Template, group: &str, kind: &str, name: &str| {
        let id = &template.object.id;
        (id.group(), id.kind.as_str(), id.name.as_str()) == (group, kind, name)
            && id.namespace == leader.id.namespace
    };
    let named = followers::read_annotation(leader).unwrap_or_default().into_iter();
    let missing =
        named.filter(|(group, kind, name)| !templates.iter().any(|template| is(template, group, kind, name)));
    missing
        .map(|(group, kind, name)| {
            let of = if group.is_empty() { String::new() } else { format!(" of the API group `{group}`") };
            let message = format!(
                "the annotation {} names the {kind} `{name}`{of}, which the repo does not contain",
                keys::FOLLOWERS
            );
            Finding::warning("unknown-reference", leader, message)
                .with_pointer(format!(
                    "/metadata/annotations/{}",
                    federate_kubernetes::pointer::escape(keys::FOLLOWERS)
                ))
                .with_help("correct the group, the kind or the name, or add the object to the repo")
        })
        .collect()
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
    let mut waiting: BTreeMap<&str, usize> = BTreeMap::new();
    for placed in placements.iter().flat_map(|p| &p.clusters) {
        *waiting.entry(placed.name.as_ref()).or_default() += 1;
    }
    let finding = |(name, objects): (&str, usize)| {
        let cluster = plane.find_cluster(name)?;
        let why = match cluster {
            Cluster { joined: false, .. } => "has not joined",
            Cluster { deleting: true, .. } => "is being deleted",
            Cluster { ready: false, .. } => "is not ready",
            _ => return None,
        };
        let objects = match objects {
            1 => "an object is".to_owned(),
            n => format!("{n} objects are"),
        };
        Some(Finding {
            severity: Severity::Warning,
            origin: Some(cluster.origin.clone()),
            pointer: "/status/conditions".to_owned(),
            text_line: None,
            column: None,
            code: "unreachable-cluster",
            object: Some(cluster.id.clone()),
            message: format!("{objects} placed on cluster `{name}`, which {why}, so it receives nothing"),
            help: None,
        })
    };
    waiting.into_iter().filter_map(finding).collect()
}
