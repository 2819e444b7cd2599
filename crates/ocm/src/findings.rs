//! Findings about placements: mistakes that empty decisions, sets that offer nothing, and decisions that depend on chance.

use federate_kubernetes::schema::find_nearest;
use federate_kubernetes::selector::SelectorRequirement;
use federate_kubernetes::{Finding, finding};

use crate::cel::Expression;
use crate::decision::HubDecisions;
use crate::report::PlacementReport;
use crate::schedule::predicate::matches_expression;
use crate::schedule::queue::{evaluation_limit, run_queue};
use crate::schedule::{Eligibility, Failure, PlacementSubject};
use crate::{OcmPlanner, explanation};

/// The findings that each run reports.
pub(crate) fn report_decisions(plane: &OcmPlanner<'_>, decisions: &HubDecisions) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, (subject, report)) in plane.placements.iter().zip(&decisions.reports).enumerate() {
        let before = decisions.earlier.of(&subject.key).len();
        findings.extend(report_failure(subject, report, before));
        findings.extend(report_sets(plane, subject));
        findings.extend(report_expired(subject, report));
        findings.extend(report_shortage(subject, report));
        if decisions.unsettled.contains(&at) {
            findings.push(report_unsettled(subject));
        }
    }
    findings
}

/// What the hub does to clusters that have decisions now.
fn describe_loss(before: usize) -> String {
    match before {
        0 => "the hub selects no cluster for it".to_owned(),
        1 => "the hub would take what follows it off 1 cluster".to_owned(),
        count => format!("the hub would take what follows it off {count} clusters"),
    }
}

/// A mistake that keeps the hub from deciding.
fn report_failure(
    subject: &PlacementSubject<'_>,
    report: &PlacementReport,
    before: usize,
) -> Option<Finding> {
    let id = &subject.object.id;
    let error = |code, message: String| Finding::error(code, subject.object, message);
    let kept = match before {
        0 => "it has no decisions".to_owned(),
        1 => "its cluster stays".to_owned(),
        count => format!("its {count} clusters stay"),
    };
    if let Some(Failure::SyncError(mistake)) = &report.failure {
        let message = format!("{id} cannot be evaluated, and {kept}: {mistake}");
        return Some(
            error("malformed-set", message).with_help("correct the selector of the ManagedClusterSet"),
        );
    }
    if let Some(Failure::Expression(one)) = &report.failure {
        let message = format!("an expression of {id} is not evaluated, and {kept}: {}", one.what);
        let pointer = format!(
            "/spec/predicates/{}/requiredClusterSelector/celSelector/celExpressions/{}",
            one.predicate, one.expression
        );
        return Some(
            error("expression", message)
                .with_pointer(pointer)
                .with_help("write it with other functions, or select the clusters by labels or claims"),
        );
    }
    if matches!(report.failure, Some(Failure::Panic)) {
        let message = format!(
            "the controller of the hub panics at the negative `numberOfClusters` of {id}: it decides about no placement \
             any more, and {kept}"
        );
        let finding = error("negative-number", message).with_pointer("/spec/numberOfClusters");
        return Some(finding.with_help("write 0 to select no cluster, or leave it out to select all"));
    }
    let condition = report.misconfigured()?;
    let groups = report.failure.is_none();
    let (what, pointer) = if groups {
        let left: usize = report.groups.iter().map(|group| group.clusters.len()).sum();
        let lost = report.selected.saturating_sub(left);
        (
            format!(
                "{lost} of its {} {} in no decision",
                finding::format_count(report.selected, "cluster"),
                if lost == 1 { "is" } else { "are" }
            ),
            "/spec/decisionStrategy/groupStrategy",
        )
    } else {
        (describe_loss(before), misconfigured_field(&condition.message))
    };
    let message = format!("{id} is misconfigured, and {what}: {}", condition.message.trim_start_matches(':'));
    Some(
        error("misconfigured", message)
            .with_pointer(pointer)
            .with_help("correct the field, before the hub reads it"),
    )
}

/// The field that a mistake is in, by the part of the scheduler that found it.
fn misconfigured_field(message: &str) -> &'static str {
    match message.split(':').next() {
        Some("Predicate") => "/spec/predicates",
        Some("TaintToleration") => "/spec/tolerations",
        _ => "/spec/prioritizerPolicy",
    }
}

/// Sets that do not exist, are not bound or have no clusters.
fn report_sets(plane: &OcmPlanner<'_>, subject: &PlacementSubject<'_>) -> Option<Finding> {
    let id = &subject.object.id;
    let namespace = &subject.key.0;
    let warning = |code, message: String| Finding::warning(code, subject.object, message);
    match &subject.eligibility {
        Eligibility::NoBindings => {
            let sets: Vec<&str> = plane.hub.sets.names().collect();
            let message = format!(
                "{id} selects nothing: the namespace {namespace} has no ManagedClusterSetBinding of a set that exists"
            );
            Some(warning("no-binding", message).with_help(format!(
                "add a ManagedClusterSetBinding to the namespace, with the name of a set: {}",
                finding::join_names(&sets, 5)
            )))
        }
        Eligibility::NoIntersection(sets) => {
            let bound: Vec<&str> =
                plane.hub.bindings.get(namespace.as_str()).into_iter().flatten().copied().collect();
            let message = format!(
                "{id} selects nothing: none of the sets {} is bound to the namespace {namespace}",
                sets.join(", ")
            );
            Some(warning("unbound-set", message).with_pointer("/spec/clusterSets").with_help(format!(
                "bind one of them, or use one that is bound: {}",
                finding::join_names(&bound, 5)
            )))
        }
        Eligibility::AllEmpty(sets) => {
            let message = format!("{id} selects nothing: the sets {} have no clusters", sets.join(", "));
            Some(warning("empty-set", message).with_help(
                "give clusters the label `cluster.open-cluster-management.io/clusterset`, or bind another set",
            ))
        }
        Eligibility::Malformed { .. } | Eligibility::Clusters => None,
    }
}

/// Scores of add-ons that have expired, and count as 0.
fn report_expired(subject: &PlacementSubject<'_>, report: &PlacementReport) -> Option<Finding> {
    let names: Vec<&str> = report.expired.iter().map(String::as_str).collect();
    let message = format!(
        "scores that {} reads have expired and count as 0: {}",
        subject.object.id,
        finding::join_names(&names, 3)
    );
    let finding =
        Finding::warning("expired-score", subject.object, message).with_pointer("/spec/prioritizerPolicy");
    (!names.is_empty())
        .then(|| finding.with_help("take a new snapshot, or look why the add-on reports nothing"))
}

/// Fewer clusters than the placement asks for.
fn report_shortage(subject: &PlacementSubject<'_>, report: &PlacementReport) -> Option<Finding> {
    let id = &subject.object.id;
    if report.failure.is_some() || subject.eligibility != Eligibility::Clusters {
        return None;
    }
    let message = match report.unsatisfied()? {
        _ if subject.spec.number_of_clusters == Some(0) => return None,
        condition if report.unscheduled > 0 => {
            format!(
                "{id} gets {}, {} too few: {}",
                finding::format_count(report.selected, "cluster"),
                report.unscheduled,
                condition.message
            )
        }
        condition => format!("{id} selects no cluster: {}", condition.message),
    };
    let finding = Finding::warning("unschedulable", subject.object, message);
    Some(finding.with_help(format!(
        "`federate explain placement/{} -n {}` shows what keeps each cluster out",
        id.name, subject.key.0
    )))
}

fn report_unsettled(subject: &PlacementSubject<'_>) -> Finding {
    let id = &subject.object.id;
    let message = format!(
        "{id} never settles: each evaluation on the hub selects other clusters than the one before; federate keeps the \
         earlier ones"
    );
    let avoids = subject.weights.as_ref().is_ok_and(crate::schedule::score::Weights::avoids_earlier);
    let help = if avoids {
        "give Steady a weight that is not negative"
    } else {
        "give Steady a greater weight than Balance"
    };
    Finding::warning("unsettled", subject.object, message)
        .with_pointer("/spec/prioritizerPolicy")
        .with_help(help)
}

/// The findings that take longer: those of `check`.
pub(crate) fn examine_placements(plane: &OcmPlanner<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = plane.placements.iter().flat_map(report_ignored).collect();
    findings.extend(plane.placements.iter().flat_map(|subject| report_unknown(plane, subject)));
    findings.extend(plane.placements.iter().flat_map(|subject| report_never_true(plane, subject)));
    findings.extend(plane.placements.iter().filter_map(|subject| report_clockless(plane, subject)));
    findings.extend(report_order(plane));
    findings
}

/// Fields without an effect.
fn report_ignored(subject: &PlacementSubject<'_>) -> Vec<Finding> {
    let spec = &subject.spec;
    let fields = [
        ("spreadPolicy", !spec.spread_policy.constraints.is_empty()),
        ("sortBy", spec.sort_by == "Score"),
        ("scoreRateLimit", !spec.score_rate_limit.is_empty()),
    ];
    let ignored = fields.into_iter().filter(|(_, is_set)| *is_set);
    ignored
        .map(|(field, _)| {
            let message = format!("`{field}` of {} has no effect: no release acts on it", subject.object.id);
            Finding::warning("ignored-field", subject.object, message)
                .with_pointer(format!("/spec/{field}"))
                .with_help("remove it, or do not rely on it")
        })
        .collect()
}

/// Claims that no cluster has.
fn report_unknown(plane: &OcmPlanner<'_>, subject: &PlacementSubject<'_>) -> Vec<Finding> {
    if subject.predicates.is_err() {
        return Vec::new();
    }
    let predicates = subject.spec.predicates.iter().enumerate().map(|(at, predicate)| {
        let pointer = format!("/spec/predicates/{at}/requiredClusterSelector/claimSelector/matchExpressions");
        (pointer, "a predicate", &predicate.required.claims)
    });
    let groups = subject.spec.decision_strategy.groups.groups.iter().enumerate().map(|(at, group)| {
        let selector = "groupClusterSelector/claimSelector/matchExpressions";
        let pointer = format!("/spec/decisionStrategy/groupStrategy/decisionGroups/{at}/{selector}");
        (pointer, "a decision group", &group.selector.claims)
    });
    let mut findings = Vec::new();
    for (pointer, what, claims) in predicates.chain(groups) {
        for (index, requirement) in claims.match_expressions.iter().enumerate() {
            let place = RequirementPlace { subject, what, pointer: format!("{pointer}/{index}") };
            findings.extend(report_unknown_claim(plane, &place, requirement));
        }
    }
    findings
}

/// Where a requirement is.
struct RequirementPlace<'s> {
    subject: &'s PlacementSubject<'s>,
    what: &'static str,
    pointer: String,
}

/// A claim, or its values, that no cluster has although the requirement needs them.
fn report_unknown_claim(
    plane: &OcmPlanner<'_>,
    place: &RequirementPlace<'_>,
    requirement: &SelectorRequirement,
) -> Option<Finding> {
    let SelectorRequirement { key, operator, values } = requirement;
    if !["In", "Exists"].contains(&operator.as_str()) {
        return None;
    }
    let RequirementPlace { subject, what, pointer } = place;
    let id = &subject.object.id;
    let fleet = &plane.hub.fleet;
    let names: Vec<&str> = fleet.claim_names().into_iter().collect();
    let (message, pointer, near) = if names.is_empty() {
        let message = format!("the inventory has no claims, and {what} of {id} needs `{key}`");
        (message, format!("{pointer}/key"), None)
    } else if !names.contains(&key.as_str()) {
        let message = format!("no cluster has the claim `{key}` that {what} of {id} needs");
        (message, format!("{pointer}/key"), find_nearest(key, &names))
    } else {
        let known: Vec<&str> = fleet.claim_values(key).into_iter().collect();
        if operator == "Exists" || values.iter().any(|value| known.contains(&value.as_str())) {
            return None;
        }
        let wanted: Vec<&str> = values.iter().map(String::as_str).collect();
        let wanted = finding::join_names(&wanted, 3);
        let message =
            format!("no cluster has the claim `{key}` with a value that {what} of {id} needs: {wanted}");
        let near = values.iter().find_map(|value| find_nearest(value, &known));
        (message, format!("{pointer}/values"), near)
    };
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            "claims are in the status of clusters: `federate snapshot` reads them from the hub".to_owned()
        }
    };
    Some(Finding::warning("unknown-claim", subject.object, message).with_pointer(pointer).with_help(help))
}

/// Expressions that are true for no cluster.
fn report_never_true(plane: &OcmPlanner<'_>, subject: &PlacementSubject<'_>) -> Vec<Finding> {
    let Ok(predicates) = &subject.predicates else { return Vec::new() };
    let members = &plane.hub.fleet.members;
    let is_never_true = |(_, _, expression): &(usize, &str, &Expression)| {
        !members.is_empty()
            && members.iter().all(|member| matches_expression(expression, member, &plane.hub) == Ok(false))
    };
    predicates
        .expressions()
        .filter(is_never_true)
        .map(|(at, text, _)| {
            let message = format!("the expression `{text}` of {} is true for no cluster", subject.object.id);
            Finding::warning("expression-never-true", subject.object, message)
                .with_pointer(format!("/spec/predicates/{at}/requiredClusterSelector/celSelector"))
                .with_help("an error, such as a label that a cluster does not have, counts as false: test it with `has()`")
        })
        .collect()
}

/// Tolerations that end, in a run without a clock.
fn report_clockless(plane: &OcmPlanner<'_>, subject: &PlacementSubject<'_>) -> Option<Finding> {
    let at = subject.spec.tolerations.iter().position(|one| one.seconds.is_some())?;
    let message = format!(
        "a toleration of {} ends after some time, and without `--now` it never does",
        subject.object.id
    );
    let finding = Finding::warning("no-clock", subject.object, message)
        .with_pointer(format!("/spec/tolerations/{at}/tolerationSeconds"))
        .with_help("pass the time with `--now`");
    plane.hub.now.is_none().then_some(finding)
}

/// Placements whose clusters depend on the order in which the hub evaluates them.
fn report_order(plane: &OcmPlanner<'_>) -> Vec<Finding> {
    if !plane.placements.iter().any(PlacementSubject::reads_others) || plane.placements.len() < 2 {
        return Vec::new();
    }
    let earlier = plane.read_decisions(plane.input.previous);
    let limit = evaluation_limit(plane.placements.len());
    let count = plane.placements.len();
    let forward = run_queue(&plane.hub, &plane.placements, 0..count, earlier.clone(), limit);
    let reverse = run_queue(&plane.hub, &plane.placements, (0..count).rev(), earlier, limit);
    if !forward.settles || !reverse.settles {
        return Vec::new();
    }
    let differs = |subject: &&PlacementSubject<'_>| {
        forward.decisions.of(&subject.key) != reverse.decisions.of(&subject.key)
    };
    let differing = plane.placements.iter().filter(differs);
    differing
        .map(|subject| {
            let sets = explanation::list_eligible_sets(plane, subject).join(", ");
            let message = format!(
                "the clusters of {} depend on the order in which the hub evaluates the placements of {sets}: `Balance` \
                 counts the decisions of others",
                subject.object.id
            );
            Finding::warning("order-dependent", subject.object, message)
                .with_pointer("/spec/prioritizerPolicy")
                .with_help("keep the plan as memory (`--previous`), or give `Balance` the weight 0")
        })
        .collect()
}
