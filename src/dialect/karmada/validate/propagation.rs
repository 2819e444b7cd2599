//! The rules of admission for PropagationPolicy and ClusterPropagationPolicy.

use std::collections::BTreeSet;

use super::super::api::{
    AffinityTerm, ClusterAffinity, Placement, PropagationSpec, ReplicaScheduling, SpreadConstraint,
    Toleration,
};
use super::super::defaults;
use super::Report;
use crate::k8s::selector::invalid_key;

/// Checks a policy whose fields have the right types.
pub(super) fn check(report: &mut Report<'_>) {
    let spec = match defaults::propagation_spec(report.object) {
        Ok(spec) => spec,
        Err(finding) => return report.findings.push(finding),
    };
    selectors(report, &spec);
    placement(report, &spec.placement);
    if let Some(suspension) = &spec.suspension {
        if suspension.dispatching == Some(true) && suspension.dispatching_on_clusters.is_some() {
            let why =
                "`dispatching: true` suspends every cluster, so `dispatchingOnClusters` cannot be given too";
            report.error("/spec/suspension/dispatchingOnClusters", why);
        }
    }
    let failover = spec.failover.as_ref().and_then(|f| f.application.as_ref());
    if failover.is_some() && !spec.propagate_deps {
        report.error_with_help(
            "/spec/failover/application",
            "application failover needs `propagateDeps: true`, or the application would move without what it needs",
            "set `propagateDeps: true`",
        );
    }
}

fn selectors(report: &mut Report<'_>, spec: &PropagationSpec) {
    let own = report.object.id.namespace.clone();
    let always = spec.preemption.as_deref() == Some("Always");
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        let at = format!("/spec/resourceSelectors/{index}");
        if own.as_ref().is_some_and(|own| *own != selector.namespace) {
            let why = format!(
                "a PropagationPolicy selects in its own namespace only, not in `{}`",
                selector.namespace
            );
            report.error_with_help(format!("{at}/namespace"), why, "use a ClusterPropagationPolicy for that");
        }
        if always && selector.name.is_empty() {
            report.error(at.clone(), "`preemption: Always` needs a name in every selector");
        }
        report.label_selector(&format!("{at}/labelSelector"), selector.label_selector.as_ref());
    }
}

fn placement(report: &mut Report<'_>, placement: &Placement) {
    const AT: &str = "/spec/placement";
    if placement.cluster_affinity.is_some() && !placement.cluster_affinities.is_empty() {
        report.error(
            format!("{AT}/clusterAffinities"),
            "`clusterAffinity` and `clusterAffinities` exclude each other",
        );
    }
    if let Some(one) = &placement.cluster_affinity {
        affinity(report, &format!("{AT}/clusterAffinity"), one);
    }
    let mut names = BTreeSet::new();
    for (index, term) in placement.cluster_affinities.iter().enumerate() {
        let at = format!("{AT}/clusterAffinities/{index}");
        if let Some(why) = invalid_key(&term.affinity_name) {
            report.error(format!("{at}/affinityName"), why);
        }
        if !names.insert(&term.affinity_name) {
            let why = format!("the affinity name `{}` is given twice", term.affinity_name);
            report.error(format!("{at}/affinityName"), why);
        }
        affinity(report, &at, &term.affinity);
        overflow(report, &at, term, placement.replica_scheduling.as_ref());
    }
    for (index, toleration) in placement.cluster_tolerations.iter().enumerate() {
        tolerates(report, &format!("{AT}/clusterTolerations/{index}"), toleration);
    }
    spread(report, &format!("{AT}/spreadConstraints"), &placement.spread_constraints);
    let weights = placement.replica_scheduling.as_ref().and_then(|s| s.weight_preference.as_ref());
    for (index, weight) in weights.iter().flat_map(|w| &w.static_weight_list).enumerate() {
        let at = format!("{AT}/replicaScheduling/weightPreference/staticWeightList/{index}/targetCluster");
        affinity(report, &at, &weight.target_cluster);
    }
}

/// An affinity, in policies and overrides alike.
pub(super) fn affinity(report: &mut Report<'_>, at: &str, affinity: &ClusterAffinity) {
    report.label_selector(&format!("{at}/labelSelector"), affinity.label_selector.as_ref());
    let requirements = affinity.field_selector.iter().flat_map(|s| &s.match_expressions);
    for (index, requirement) in requirements.enumerate() {
        let at = format!("{at}/fieldSelector/matchExpressions/{index}");
        if !matches!(requirement.key.as_str(), "provider" | "region" | "zone") {
            let why = format!("`{}` is no field of a cluster: use provider, region or zone", requirement.key);
            report.error(format!("{at}/key"), why);
        }
        if !matches!(requirement.operator.as_str(), "In" | "NotIn") {
            let why = format!("fields are compared with In or NotIn, not with `{}`", requirement.operator);
            report.error(format!("{at}/operator"), why);
        }
    }
}

fn overflow(report: &mut Report<'_>, at: &str, term: &AffinityTerm, scheduling: Option<&ReplicaScheduling>) {
    if term.overflow_affinities.is_empty() {
        return;
    }
    let at = format!("{at}/overflowAffinities");
    let by_room = scheduling.is_some_and(|s| {
        let dynamic = s.weight_preference.as_ref().is_some_and(|w| !w.dynamic_weight.is_empty());
        s.replica_scheduling_type == "Divided" && (dynamic || s.replica_division_preference == "Aggregated")
    });
    if !by_room {
        report.error(
            at.clone(),
            "clusters can only overflow when replicas are divided by room: with Aggregated or a dynamic weight",
        );
    }
    if term.affinity == ClusterAffinity::default() {
        report.error(at.clone(), "the group selects every cluster itself, so nothing is left to overflow to");
    }
    let mut names = BTreeSet::from([term.affinity_name.as_str()]);
    for (index, overflow) in term.overflow_affinities.iter().enumerate() {
        let name = overflow.affinity_name.as_str();
        if !name.is_empty() && !names.insert(name) {
            report.error(
                format!("{at}/{index}/affinityName"),
                format!("the affinity name `{name}` is given twice"),
            );
        }
        affinity(report, &format!("{at}/{index}"), &overflow.affinity);
    }
}

fn tolerates(report: &mut Report<'_>, at: &str, toleration: &Toleration) {
    match toleration.operator.as_str() {
        "Exists" if !toleration.value.is_empty() => {
            report.error(format!("{at}/value"), "`operator: Exists` takes no value");
        }
        "" | "Equal" if toleration.key.is_empty() => {
            report.error_with_help(
                at,
                "a toleration without key must have `operator: Exists`",
                "name the taint's key, or tolerate everything with `operator: Exists`",
            );
        }
        "Exists" | "" | "Equal" => {}
        other => {
            report.error(format!("{at}/operator"), format!("`{other}` is not one of Exists, Equal"));
        }
    }
    if toleration.toleration_seconds.is_some() && toleration.effect != "NoExecute" {
        report.error(
            format!("{at}/tolerationSeconds"),
            "`tolerationSeconds` goes with `effect: NoExecute` only",
        );
    }
}

fn spread(report: &mut Report<'_>, at: &str, constraints: &[SpreadConstraint]) {
    let mut fields = BTreeSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let at = format!("{at}/{index}");
        let (min, max) = (constraint.min_groups, constraint.max_groups);
        if min < 0 {
            report.error(format!("{at}/minGroups"), "`minGroups` cannot be negative");
        }
        if max < 0 {
            report.error(format!("{at}/maxGroups"), "`maxGroups` cannot be negative");
        }
        if max > 0 && max < min {
            report.error(
                format!("{at}/maxGroups"),
                format!("`maxGroups` {max} is less than `minGroups` {min}"),
            );
        }
        if !constraint.spread_by_field.is_empty() && !constraint.spread_by_label.is_empty() {
            report.error(at.clone(), "`spreadByField` and `spreadByLabel` exclude each other");
        }
        let field = constraint.spread_by_field.as_str();
        if !field.is_empty() && !fields.insert(field) {
            report.error(format!("{at}/spreadByField"), format!("there are two constraints by `{field}`"));
        }
    }
    if !fields.is_empty() && !fields.contains("cluster") {
        report.error_with_help(
            at,
            "with constraints by field, one of them must be by `cluster`",
            "add `- {spreadByField: cluster, minGroups: 1, maxGroups: …}`",
        );
    }
}
