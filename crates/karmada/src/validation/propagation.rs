//! The rules of `PropagationPolicy` and `ClusterPropagationPolicy` beyond their schema.

use std::collections::BTreeSet;

use super::{Refusals, cluster_affinity, resource_selectors, without_effect};
use crate::version::{Admission, KarmadaBehaviour, PurgeModes};
use federate_kubernetes::schema::Cursor;

/// The length of an affinity's name, in characters.
const MAX_NAME_LENGTH: usize = 32;

pub(super) fn check_propagation(
    refusals: &mut Refusals<'_>,
    spec: &Cursor<'_>,
    behaviour: &KarmadaBehaviour,
) {
    let placement = spec.field("placement");
    check_affinities(refusals, &placement);
    spread_constraints(refusals, &placement.field("spreadConstraints"));
    for toleration in placement.field("clusterTolerations").items() {
        check_toleration(refusals, &toleration, behaviour.numeric_tolerations);
    }
    let weights = placement.field("replicaScheduling").field("weightPreference").field("staticWeightList");
    for weight in weights.items() {
        cluster_affinity(refusals, &weight.field("targetCluster"), Admission::Accepts);
    }
    workload_affinity(refusals, &placement.field("workloadAffinity"));
    let selectors = spec.field("resourceSelectors");
    resource_selectors(refusals, &selectors, behaviour.foreign_selectors);
    if spec.field("preemption").as_text() == "Always" {
        check_preemption(refusals, &selectors);
    }
    check_suspension(refusals, &spec.field("suspension"));
    check_failover(refusals, spec, behaviour);
}

fn check_affinities(refusals: &mut Refusals<'_>, placement: &Cursor<'_>) {
    let (single, terms) = (placement.field("clusterAffinity"), placement.field("clusterAffinities"));
    if single.is_present() && terms.has_items() {
        refusals.add_error(
            &terms,
            "`clusterAffinity` and `clusterAffinities` exclude each other",
            "move `clusterAffinity` into the list as a named term, or remove one of the two",
        );
    }
    cluster_affinity(refusals, &single, Admission::Refuses);
    let mut names = BTreeSet::new();
    for term in terms.items() {
        check_affinity_name(refusals, &term, &mut names);
        cluster_affinity(refusals, &term, Admission::Refuses);
        if term.field("overflowAffinities").has_items() {
            check_overflow(refusals, &term, overflow_allowed(&placement.field("replicaScheduling")));
        }
    }
}

/// Checks the name of an affinity: a label key that no affinity before it has.
fn check_affinity_name<'v>(refusals: &mut Refusals<'_>, term: &Cursor<'v>, taken: &mut BTreeSet<&'v str>) {
    let name = term.field("affinityName");
    refusals.label_key(&name);
    if name.as_text().chars().count() > MAX_NAME_LENGTH {
        let message = format!("the name of an affinity has at most {MAX_NAME_LENGTH} characters");
        refusals.add_error(&name, message, "shorten the name");
    }
    if !taken.insert(name.as_text()) {
        let message = format!("there are two affinities with the name `{}`", name.as_text());
        refusals.add_error(&name, message, "give each affinity a name of its own");
    }
}

/// Whether replicas are divided by available replicas, so that some can be left over.
fn overflow_allowed(scheduling: &Cursor<'_>) -> bool {
    let divided = scheduling.is_present()
        && ["", "Divided"].contains(&scheduling.field("replicaSchedulingType").as_text());
    match scheduling.field("replicaDivisionPreference").as_text() {
        "Aggregated" => divided,
        _ => divided && !scheduling.field("weightPreference").field("dynamicWeight").as_text().is_empty(),
    }
}

fn check_overflow(refusals: &mut Refusals<'_>, term: &Cursor<'_>, allowed: bool) {
    let overflow = term.field("overflowAffinities");
    if !allowed {
        refusals.add_error(
            &overflow,
            "`overflowAffinities` needs replicas that are divided by the free resources of clusters",
            "set `replicaDivisionPreference: Aggregated`, or `Weighted` with `dynamicWeight: AvailableReplicas`",
        );
    }
    let selects = ["labelSelector", "fieldSelector"].iter().any(|key| term.field(key).is_present())
        || ["clusterNames", "exclude"].iter().any(|key| term.field(key).has_items());
    if !selects {
        refusals.add_error(
            &overflow,
            "`overflowAffinities` needs an affinity in the term itself to overflow from",
            "add `clusterNames` or a selector beside `affinityName`",
        );
    }
    let mut names = BTreeSet::from([term.field("affinityName").as_text()]);
    for affinity in overflow.items() {
        check_affinity_name(refusals, &affinity, &mut names);
        cluster_affinity(refusals, &affinity, Admission::Refuses);
    }
}

fn spread_constraints(refusals: &mut Refusals<'_>, constraints: &Cursor<'_>) {
    let mut fields = BTreeSet::new();
    for constraint in constraints.items() {
        let (field, label) = (constraint.field("spreadByField"), constraint.field("spreadByLabel"));
        if !field.as_text().is_empty() && !label.as_text().is_empty() {
            let help = "use two constraints, or remove one of the two";
            refusals.add_error(&label, "`spreadByField` and `spreadByLabel` exclude each other", help);
        }
        check_groups(refusals, &constraint);
        let spread_by = match (field.as_text(), label.as_text()) {
            ("", "") => "cluster",
            (field, _) => field,
        };
        if !spread_by.is_empty() && !fields.insert(spread_by) {
            let message = format!("there are two spread constraints by `{spread_by}`");
            refusals.add_error(&field, message, "make them one constraint");
        }
    }
    if !fields.is_empty() && !fields.contains("cluster") {
        refusals.add_error(
            constraints,
            "with spread constraints by field, one of them must be by `cluster`",
            "add `spreadByField: cluster` with the number of clusters wanted in all",
        );
    }
}

fn check_groups(refusals: &mut Refusals<'_>, constraint: &Cursor<'_>) {
    let (min, max) = (constraint.field("minGroups"), constraint.field("maxGroups"));
    for (at, name) in [(&min, "minGroups"), (&max, "maxGroups")] {
        if at.as_integer() < 0 {
            refusals.add_error(at, format!("`{name}` must be 0 or more"), "leave it out for no bound");
        }
    }
    if max.as_integer() > 0 && max.as_integer() < min.as_integer() {
        let message =
            format!("`maxGroups` {} is less than `minGroups` {}", max.as_integer(), min.as_integer());
        refusals.add_error(&max, message, "raise `maxGroups` or lower `minGroups`");
    }
}

fn check_toleration(refusals: &mut Refusals<'_>, toleration: &Cursor<'_>, numeric: Admission) {
    let (operator, value) = (toleration.field("operator"), toleration.field("value"));
    if !["", "Equal", "Exists"].contains(&operator.as_text()) {
        let message = format!("no taint is tolerated by operator `{}`", operator.as_text());
        let admission = if ["Lt", "Gt"].contains(&operator.as_text()) { numeric } else { Admission::Accepts };
        without_effect(refusals, admission, &operator, message, "use `Equal` or `Exists`");
    }
    if operator.as_text() == "Exists" && !value.as_text().is_empty() {
        let message = "a toleration with operator `Exists` tolerates every value of its key";
        let help = "remove `value`, or use `Equal`";
        without_effect(refusals, Admission::Accepts, &value, message, help);
    }
    let effect = toleration.field("effect");
    if !["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect.as_text()) {
        let message = format!("there is no taint effect `{}`, so nothing is tolerated", effect.as_text());
        let help = "use `NoSchedule`, `PreferNoSchedule` or `NoExecute`, or leave it out for all";
        without_effect(refusals, Admission::Accepts, &effect, message, help);
    }
}

fn workload_affinity(refusals: &mut Refusals<'_>, workload: &Cursor<'_>) {
    let keys = ["affinity", "antiAffinity"].map(|side| workload.field(side).field("groupByLabelKey"));
    for key in keys.iter().filter(|key| key.is_present()) {
        refusals.label_key(key);
    }
    let [together, apart] = &keys;
    if together.is_present() && together.as_text() == apart.as_text() {
        refusals.add_error(
            workload,
            "`affinity` and `antiAffinity` group by the same label, so they contradict each other",
            "use different labels, or remove one of the two",
        );
    }
}

fn check_preemption(refusals: &mut Refusals<'_>, selectors: &Cursor<'_>) {
    for selector in selectors.items().filter(|s| s.field("name").as_text().is_empty()) {
        refusals.add_error(
            &selector,
            "with `preemption: Always` every selector must have a `name`, so that it cannot preempt more objects than intended",
            "add `name`, or remove `preemption`",
        );
    }
}

fn check_suspension(refusals: &mut Refusals<'_>, suspension: &Cursor<'_>) {
    let some = suspension.field("dispatchingOnClusters");
    if suspension.field("dispatching").is_true() && some.field("clusterNames").has_items() {
        refusals.add_error(
            &some,
            "`dispatching: true` already suspends every cluster, so it excludes `dispatchingOnClusters`",
            "remove one of the two",
        );
    }
}

fn check_failover(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, behaviour: &KarmadaBehaviour) {
    let failover = spec.field("failover");
    let application = failover.field("application");
    if application.is_present() && !propagates_dependencies(spec) {
        refusals.add_error(
            &application,
            "application failover moves an application with its dependencies, so it requires `propagateDeps`",
            "set `propagateDeps: true`",
        );
    }
    let mode = application.field("purgeMode");
    purge_mode(refusals, &mode, behaviour.purge_modes);
    let grace = application.field("gracePeriodSeconds");
    if grace.is_present() && !["", "Gracefully", "Graciously"].contains(&mode.as_text()) {
        let help = "remove `gracePeriodSeconds`, or set `purgeMode: Gracefully`";
        refusals.add_error(&grace, "`gracePeriodSeconds` is for `purgeMode: Gracefully` only", help);
    }
    if behaviour.alias_labels == Admission::Accepts {
        return;
    }
    for side in [application, failover.field("cluster")] {
        for rule in side.field("statePreservation").field("rules").items() {
            refusals.label_key(&rule.field("aliasLabelName"));
        }
    }
}

/// Checks a purge mode by the names that a release knows.
fn purge_mode(refusals: &mut Refusals<'_>, mode: &Cursor<'_>, modes: PurgeModes) {
    let allowed: &[&str] = match modes {
        PurgeModes::Old => &["Immediately", "Graciously", "Never"],
        PurgeModes::Both => &["Immediately", "Graciously", "Directly", "Gracefully", "Never"],
        PurgeModes::New => &["Directly", "Gracefully", "Never"],
    };
    if mode.as_text().is_empty() || allowed.contains(&mode.as_text()) {
        return;
    }
    let other = match mode.as_text() {
        "Immediately" => "write `Directly`, its name since 1.15",
        "Graciously" => "write `Gracefully`, its name since 1.15",
        "Directly" => "write `Immediately`, its name before 1.15",
        "Gracefully" => "write `Graciously`, its name before 1.15",
        _ => "leave it out for the default, which waits for the new replicas",
    };
    let message = format!("`purgeMode` is `{}`, but must be one of {}", mode.as_text(), allowed.join(", "));
    refusals.add_error(mode, message, other);
}

/// Whether `propagateDeps` is set, or admission sets it because the policy selects `ServiceImport`s.
fn propagates_dependencies(spec: &Cursor<'_>) -> bool {
    spec.field("propagateDeps").is_true()
        || spec.field("resourceSelectors").items().any(|selector| {
            selector.field("apiVersion").as_text() == "multicluster.x-k8s.io/v1alpha1"
                && selector.field("kind").as_text() == "ServiceImport"
        })
}
