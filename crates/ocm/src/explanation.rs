//! Explains a placement: for each cluster the first filter that refused it, with the requirement that is not met, or its
//! scores.

use federate_dialect::{ClusterVerdict, Explanation, Placement, PreviousPlan};

use federate_kubernetes::ObjectRef;
use federate_kubernetes::finding::format_count;

use crate::OcmPlanner;
use crate::api::NAME;
use crate::decision::{HubDecisions, decide_placements, placement_row};
use crate::fleet::Member;
use crate::report::PlacementReport;
use crate::schedule::taints::{TolerationClock, find_untolerated};
use crate::schedule::{Eligibility, PlacementSubject, Rejection};
use crate::state::Decisions;
use crate::works::{self, Destination, WorkBundle};

mod rollout;

/// Explains a placement; `placed` is its row of the plan.
pub(crate) fn explain_placement(
    plane: &OcmPlanner<'_>,
    at: usize,
    previous: &PreviousPlan,
    placed: Option<&Placement>,
) -> Option<Explanation> {
    let subject = plane.placements.get(at)?;
    let decisions = decide_placements(plane, previous, true);
    let report = decisions.reports.get(at)?;
    let members = plane.hub.fleet.members.iter();
    let clusters =
        members.map(|member| explain_cluster(plane, subject, report, &decisions, member)).collect();
    Some(Explanation {
        dialect: NAME,
        policy: vec!["a placement places nothing itself: others refer to its decisions".to_owned()],
        steps: list_steps(plane, subject, report, decisions.unsettled.contains(&at)),
        fulfilled: Some(
            report.skipped.is_none() && report.failure.is_none() && report.unsatisfied().is_none(),
        ),
        clusters,
        placement: placed.cloned().unwrap_or_else(|| placement_row(report)),
        rewritten: None,
        deletion_progress: None,
        rollout: None,
    })
}

/// The steps of the decision, in the order of the hub.
fn list_steps(
    plane: &OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
    report: &PlacementReport,
    is_unsettled: bool,
) -> Vec<String> {
    let mut steps = vec![describe_sets(plane, subject)];
    match subject.spec.predicates.len() {
        0 => steps.push("no predicates: each cluster of the sets matches".to_owned()),
        1 => steps.push("1 predicate: a cluster must match all of its parts".to_owned()),
        count => steps.push(format!("{count} predicates: a cluster must match one of them")),
    }
    if let Ok(weights) = &subject.weights {
        let weights = weights.describe();
        steps.push(match weights.as_str() {
            "" => "no score counts: clusters are in the order of their names".to_owned(),
            weights => format!("scores: {weights}; equal totals are in the order of their names"),
        });
    }
    steps.push(match subject.spec.number_of_clusters {
        Some(number) => format!("the best {number} of {}", format_count(report.ranking.len(), "cluster")),
        None if report.ranking.len() == 1 => "the only cluster that passes the filters".to_owned(),
        None => format!("all {} clusters that pass the filters", report.ranking.len()),
    });
    if report.groups.len() > 1 || report.groups.iter().any(|group| !group.name.is_empty()) {
        let groups = report.groups.iter().enumerate().map(|(index, group)| match group.name.as_str() {
            "" => format!("{index} ({})", group.clusters.len()),
            name => format!("{index} {name} ({})", group.clusters.len()),
        });
        steps.push(format!("decision groups: {}", groups.collect::<Vec<_>>().join(", ")));
    }
    let conditions = report.conditions.iter();
    steps.extend(conditions.filter(|one| one.kind == "PlacementSatisfied" || one.is_true).map(|one| {
        let status = if one.is_true { "True" } else { "False" };
        format!("{} {status}: {}: {}", one.kind, one.reason, one.message)
    }));
    if is_unsettled {
        steps.push("it never settles: each evaluation would select other clusters".to_owned());
    }
    steps
}

fn describe_sets(plane: &OcmPlanner<'_>, subject: &PlacementSubject<'_>) -> String {
    let namespace = &subject.key.0;
    match &subject.eligibility {
        Eligibility::NoBindings => {
            format!("no cluster set is bound to the namespace {namespace}, so it can select nothing")
        }
        Eligibility::NoIntersection(sets) => {
            format!("none of the sets {} is bound to the namespace {namespace}", sets.join(", "))
        }
        Eligibility::AllEmpty(sets) => format!("the sets {} have no clusters", sets.join(", ")),
        Eligibility::Malformed { set, mistake } => {
            format!("the selector of the set {set} is malformed: {mistake}")
        }
        Eligibility::Clusters => format!("cluster sets: {}", list_eligible_sets(plane, subject).join(", ")),
    }
}

/// The names of the sets that count for a placement.
pub(crate) fn list_eligible_sets<'p>(
    plane: &'p OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
) -> Vec<&'p str> {
    let wanted = &subject.spec.cluster_sets;
    let bound = plane.hub.bindings.get(subject.key.0.as_str()).into_iter().flatten().copied();
    bound
        .filter(|name| plane.hub.sets.has(name))
        .filter(|name| wanted.is_empty() || wanted.iter().any(|one| one == name))
        .collect()
}

fn explain_cluster(
    plane: &OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
    report: &PlacementReport,
    decisions: &HubDecisions,
    member: &Member<'_>,
) -> ClusterVerdict {
    let name = &member.cluster.name;
    let is_chosen = report.clusters.binary_search(name).is_ok();
    let rejection = report.rejected.get(name).copied();
    let rank = report.ranking.iter().position(|(ranked, _)| ranked == name);
    let total = rank.and_then(|rank| Some(report.ranking.get(rank)?.1));
    let why = match (rejection, rank.zip(total)) {
        (Some(Rejection::ClusterSet), _) => explain_set(plane, subject, member),
        (Some(Rejection::Deleting), _) => "the cluster is being deleted".to_owned(),
        (Some(Rejection::Predicate), _) => explain_predicates(plane, subject, member),
        (Some(Rejection::TaintToleration), _) => explain_taint(plane, subject, member, &decisions.earlier),
        (Some(Rejection::NumberOfClusters), Some((rank, total))) => {
            format!(
                "place {} with {total}, and {} are selected: {}",
                rank + 1,
                report.selected,
                explain_scores(report, member)
            )
        }
        (None, Some((rank, total))) => {
            format!("place {} with {total}: {}", rank + 1, explain_scores(report, member))
        }
        (_, None) if is_chosen => "it keeps its earlier decision".to_owned(),
        _ => "nothing is selected".to_owned(),
    };
    ClusterVerdict {
        cluster: name.clone(),
        chosen: is_chosen,
        refused_by: rejection.filter(|_| !is_chosen).map(Rejection::name),
        score: total,
        replicas: None,
        why,
    }
}

fn explain_set(plane: &OcmPlanner<'_>, subject: &PlacementSubject<'_>, member: &Member<'_>) -> String {
    let namespace = &subject.key.0;
    let of_cluster: Vec<&str> =
        plane.hub.sets.names().filter(|set| plane.hub.sets.has_member(set, member) == Ok(true)).collect();
    let bound = plane.hub.bindings.get(namespace.as_str());
    let is_bound = |set: &&&str| bound.is_some_and(|bound| bound.contains(**set));
    match of_cluster.iter().find(is_bound) {
        Some(set) => format!("it is in the set {set}, which the placement does not name in `clusterSets`"),
        None => format!(
            "it is in the set {}, and no ManagedClusterSetBinding in the namespace {namespace} binds that",
            member.set()
        ),
    }
}

fn explain_predicates(plane: &OcmPlanner<'_>, subject: &PlacementSubject<'_>, member: &Member<'_>) -> String {
    let unmet = subject.predicates.as_ref().map(|predicates| predicates.find_unmet(member, &plane.hub));
    unmet.map(|unmet| unmet.join("; or ")).unwrap_or_default()
}

fn explain_taint(
    plane: &OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
    member: &Member<'_>,
    earlier: &Decisions,
) -> String {
    let name = &member.cluster.name;
    let was_selected = earlier.of(&subject.key).contains(name);
    let clock = TolerationClock::new(plane.hub.now, earlier.has_expired(&subject.key, name));
    let taint = find_untolerated(member, &subject.spec.tolerations, was_selected, clock);
    let Some(taint) = taint else { return "a taint is not tolerated".to_owned() };
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    let since = taint.added.map_or_else(String::new, |added| format!(" since {added}"));
    format!("its taint {}{value}:{}{since} is not tolerated", taint.key, taint.effect)
}

/// The scores of a cluster as a sum: `Balance 100 × 1 + Steady 0 × 1`.
fn explain_scores(report: &PlacementReport, member: &Member<'_>) -> String {
    let name = &member.cluster.name;
    let parts = report.prioritizers.iter().map(|one| {
        let score = one.scores.get(name).copied().unwrap_or(0);
        format!("{} {score} × {}", one.name, one.weight)
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "by name".to_owned() } else { parts.join(" + ") }
}

/// Explains an object that works contain, or a bundle of such; `placed` is its row of the plan.
pub(crate) fn explain_work(
    plane: &OcmPlanner<'_>,
    object: &ObjectRef,
    previous: &PreviousPlan,
    placed: Option<&Placement>,
) -> Option<Explanation> {
    let contains =
        |bundle: &&WorkBundle<'_>| bundle.object.id == *object || bundle.manifests.contains(object);
    let bundles: Vec<&WorkBundle<'_>> = plane.bundles.iter().filter(contains).collect();
    let first = bundles.first()?;
    let decisions = decide_placements(plane, previous, true);
    let decided = works::decide_works(plane, &decisions, previous);
    let target = if first.object.id == *object { first.manifests.first()? } else { object };
    let row = placed.cloned().or_else(|| decided.placements.into_iter().find(|row| row.object == *target))?;
    let members = plane.hub.fleet.members.iter();
    let rollout = rollout::explain_rollout(plane, first, &decisions);
    let explain = |member| {
        let mut verdict = explain_destination(plane, &bundles, &decisions, &row, member);
        if verdict.chosen {
            verdict.why.push_str(&rollout::describe_cluster(rollout.as_ref(), &verdict.cluster));
        }
        verdict
    };
    let clusters = members.map(explain).collect();
    let steps = row.unschedulable.iter().map(|why| format!("{}: {}", why.reason, why.message));
    let steps = steps.chain(rollout.iter().flat_map(rollout::describe_rollout));
    Some(Explanation {
        dialect: NAME,
        policy: bundles.iter().map(|bundle| describe_bundle(bundle)).collect(),
        steps: steps.collect(),
        fulfilled: None,
        clusters,
        placement: row.clone(),
        rewritten: None,
        deletion_progress: None,
        rollout,
    })
}

fn describe_bundle(bundle: &WorkBundle<'_>) -> String {
    let (id, origin) = (&bundle.object.id, &bundle.object.origin);
    match &bundle.destination {
        Destination::Cluster(cluster) => {
            format!("{id} ({origin}) sends it to {cluster}, whose namespace it is in")
        }
        Destination::Placements(references) => {
            let names: Vec<&str> = references.iter().map(|one| one.name.as_str()).collect();
            format!("{id} ({origin}) sends it to the clusters of the placements {}", names.join(", "))
        }
    }
}

fn explain_destination(
    plane: &OcmPlanner<'_>,
    bundles: &[&WorkBundle<'_>],
    decisions: &HubDecisions,
    row: &Placement,
    member: &Member<'_>,
) -> ClusterVerdict {
    let name = &member.cluster.name;
    let mut selecting = Vec::new();
    let mut others = Vec::new();
    for bundle in bundles {
        let Destination::Placements(references) = &bundle.destination else {
            continue;
        };
        for reference in references {
            let id = works::placement_id(&bundle.object.id, &reference.name);
            match decisions.of(plane, &id) {
                Some(report) if report.clusters.binary_search(name).is_ok() => {
                    selecting.push(format!("{id} selects it"));
                }
                Some(report) => others.push(match report.rejected.get(name) {
                    Some(rejection) => format!("{id} does not select it ({})", rejection.name()),
                    None => format!("{id} does not select it"),
                }),
                None => others.push(format!("there is no {id}")),
            }
        }
    }
    let is_chosen = row.clusters.contains_cluster(name);
    let why = match (is_chosen, selecting.is_empty()) {
        (true, false) => selecting.join(", and "),
        (true, true) => "it has a work".to_owned(),
        (false, _) if others.is_empty() => "no work names it".to_owned(),
        (false, _) => others.join(", and "),
    };
    let refused_by = (!is_chosen).then_some("Placement");
    ClusterVerdict { cluster: name.clone(), chosen: is_chosen, refused_by, score: None, replicas: None, why }
}
