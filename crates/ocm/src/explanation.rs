//! Explains a placement: for each cluster the first filter that refused it, with the requirement that is not met, or its
//! scores.

use federate_dialect::{ClusterCause, ClusterVerdict, Explanation, Placement, PreviousPlan, VerdictCause};

use federate_kubernetes::ObjectRef;
use federate_kubernetes::finding::format_count;
use federate_kubernetes::pointer::escape;

use crate::OcmPlanner;
use crate::api::NAME;
use crate::decision::{HubDecisions, decide_placements, placement_row};
use crate::fleet::{Member, UNAVAILABLE, UNREACHABLE};
use crate::report::PlacementReport;
use crate::schedule::taints::{TolerationClock, untolerated};
use crate::schedule::{DISABLED, Eligibility, Failure, PlacementSubject, Rejection, Skipped};
use crate::state::Decisions;
use crate::works::{self, Destination, WorkBundle};

mod rollout;

/// The API version of sets of clusters and their bindings.
const SET_VERSION: &str = "cluster.open-cluster-management.io/v1beta2";

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
    let scored = rank.zip(total);
    let (why, causes) = match (is_chosen, rejection, scored) {
        (true, None, Some((rank, total))) => {
            (format!("place {} with {total}: {}", rank + 1, explain_scores(report, member)), Vec::new())
        }
        (true, ..) => ("it keeps its earlier decision".to_owned(), Vec::new()),
        (false, Some(rejection), scored) => {
            explain_rejection(plane, subject, report, &decisions.earlier, (member, rejection, scored))
        }
        (false, None, _) => {
            let (why, cause) = explain_no_decision(subject, report);
            (why, vec![cause])
        }
    };
    ClusterVerdict {
        cluster: name.clone(),
        chosen: is_chosen,
        refused_by: rejection.filter(|_| !is_chosen).map(Rejection::name),
        score: total,
        replicas: None,
        why,
        causes,
    }
}

/// Why a cluster that is not rejected has no decision.
fn explain_no_decision(subject: &PlacementSubject<'_>, report: &PlacementReport) -> (String, VerdictCause) {
    let field = |path: &str| VerdictCause::field(&subject.object.id, path);
    match (&report.skipped, &report.failure) {
        (Some(Skipped::Deleting), _) => (
            "the placement is being deleted, and keeps its decisions".to_owned(),
            field("/metadata/deletionTimestamp"),
        ),
        (Some(Skipped::Disabled), _) => (
            "an annotation disables the scheduling of the placement, which keeps its decisions".to_owned(),
            field(&format!("/metadata/annotations/{}", escape(DISABLED))),
        ),
        (None, Some(Failure::Misconfigured { plugin, message })) => {
            let path = match *plugin {
                "Predicate" => "/spec/predicates",
                "TaintToleration" => "/spec/tolerations",
                _ => "/spec/prioritizerPolicy",
            };
            (format!("a mistake in the placement leaves nothing selected: {message}"), field(path))
        }
        (None, Some(Failure::SyncError(message))) => {
            let cause = match &subject.eligibility {
                Eligibility::Malformed { set, .. } => {
                    VerdictCause::field(&set_id(set), "/spec/clusterSelector")
                }
                _ => field("/spec/clusterSets"),
            };
            (format!("the decisions stay as they are: {message}"), cause)
        }
        (None, Some(Failure::Panic)) => (
            "the decisions stay as they are: `numberOfClusters` is negative".to_owned(),
            field("/spec/numberOfClusters"),
        ),
        (None, Some(Failure::Expression(one))) => (
            format!("the decisions stay as they are: an expression is not evaluated: {}", one.what),
            field("/spec/predicates"),
        ),
        (None, None) => (
            "it is selected, but a mistake in the decision groups drops its decision".to_owned(),
            field("/spec/decisionStrategy"),
        ),
    }
}

/// A cluster with its rejection, and its place and total if it passed the filters.
type RejectedMember<'m> = (&'m Member<'m>, Rejection, Option<(usize, i64)>);

fn explain_rejection(
    plane: &OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
    report: &PlacementReport,
    earlier: &Decisions,
    (member, rejection, scored): RejectedMember<'_>,
) -> (String, Vec<VerdictCause>) {
    let placement = &subject.object.id;
    match rejection {
        Rejection::ClusterSet => explain_set(plane, subject, member),
        Rejection::Deleting => {
            ("the cluster is being deleted".to_owned(), vec![VerdictCause::Cluster(ClusterCause::Deleting)])
        }
        Rejection::Predicate => {
            let unmet = subject.predicates.as_ref().map(|all| all.find_unmet(member, &plane.hub));
            let why = unmet.map(|unmet| unmet.join("; or ")).unwrap_or_default();
            (why, vec![VerdictCause::field(placement, "/spec/predicates")])
        }
        Rejection::TaintToleration => explain_taints(plane, subject, member, earlier),
        Rejection::NumberOfClusters => {
            let place = scored
                .map_or_else(String::new, |(rank, total)| format!("place {} with {total}, and ", rank + 1));
            let (selected, scores) = (report.selected, explain_scores(report, member));
            let path = "/spec/numberOfClusters".to_owned();
            let cause = VerdictCause::TooFew { object: placement.clone(), path };
            (format!("{place}{selected} are selected: {scores}"), vec![cause])
        }
    }
}

fn set_id(name: &str) -> ObjectRef {
    ObjectRef {
        api_version: SET_VERSION.to_owned(),
        kind: "ManagedClusterSet".to_owned(),
        namespace: None,
        name: name.to_owned(),
    }
}

fn explain_set(
    plane: &OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
    member: &Member<'_>,
) -> (String, Vec<VerdictCause>) {
    let namespace = &subject.key.0;
    let wanted = &subject.spec.cluster_sets;
    let is_wanted = |set: &str| wanted.is_empty() || wanted.iter().any(|one| one == set);
    let sets = &plane.hub.sets;
    let of_cluster: Vec<&str> = sets.names().filter(|set| sets.has_member(set, member) == Ok(true)).collect();
    let bound = plane.hub.bindings.get(namespace.as_str());
    let is_bound = |set: &str| bound.is_some_and(|bound| bound.contains(set));
    let names = VerdictCause::field(&subject.object.id, "/spec/clusterSets");
    if let Some(set) = of_cluster.iter().find(|set| is_bound(set)) {
        let why = format!("it is in the set {set}, which the placement does not name in `clusterSets`");
        return (why, vec![names]);
    }
    let named = of_cluster.iter().find(|set| is_wanted(set)).or(of_cluster.first());
    let set = named.copied().unwrap_or_else(|| member.set());
    let (mut reasons, mut causes) = (Vec::new(), Vec::new());
    if !is_wanted(set) {
        reasons.push("the placement does not name it in `clusterSets`".to_owned());
        causes.push(names);
    }
    if !sets.has(set) {
        reasons.push("there is no such ManagedClusterSet".to_owned());
        causes.push(VerdictCause::Missing { object: set_id(set) });
    }
    if !is_bound(set) {
        reasons.push(format!("no ManagedClusterSetBinding in the namespace {namespace} binds that"));
        let object = ObjectRef {
            kind: "ManagedClusterSetBinding".to_owned(),
            namespace: Some(namespace.clone()),
            ..set_id(set)
        };
        causes.push(VerdictCause::Missing { object });
    }
    (format!("it is in the set {set}, and {}", reasons.join(", and ")), causes)
}

fn explain_taints(
    plane: &OcmPlanner<'_>,
    subject: &PlacementSubject<'_>,
    member: &Member<'_>,
    earlier: &Decisions,
) -> (String, Vec<VerdictCause>) {
    let name = &member.cluster.name;
    let was_selected = earlier.of(&subject.key).contains(name);
    let clock = TolerationClock::new(plane.hub.now, earlier.has_expired(&subject.key, name));
    let (mut shown, mut causes) = (Vec::new(), Vec::new());
    for taint in untolerated(member, &subject.spec.tolerations, was_selected, clock) {
        let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
        let since = taint.added.map_or_else(String::new, |added| format!(" since {added}"));
        shown.push(format!("{}{value}:{}{since}", taint.key, taint.effect));
        causes.push(match taint.key.as_str() {
            // The hub derives it from the availability of the cluster.
            UNREACHABLE | UNAVAILABLE if !member.cluster.ready => {
                VerdictCause::Cluster(ClusterCause::NotReady)
            }
            _ => VerdictCause::taint(&taint.stated),
        });
    }
    let (noun, verb) = if shown.len() == 1 { ("taint", "is") } else { ("taints", "are") };
    (format!("its {noun} {} {verb} not tolerated", shown.join(" and ")), causes)
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
    let (mut selecting, mut others, mut causes) = (Vec::new(), Vec::new(), Vec::new());
    for bundle in bundles {
        let references = match &bundle.destination {
            Destination::Placements(references) => references.as_slice(),
            Destination::Cluster(_) => {
                let path = "/metadata/namespace".to_owned();
                causes.push(VerdictCause::NotListed { object: bundle.object.id.clone(), path });
                &[]
            }
        };
        if let Some(refusal) = bundle.refusal() {
            let is_deleting = bundle.object.is_deleting();
            let path = if is_deleting { "/metadata/deletionTimestamp" } else { "/metadata/name" };
            others.push(format!("{} makes no work: {}", bundle.object.id, refusal.message));
            causes.push(VerdictCause::field(&bundle.object.id, path));
            continue;
        }
        for reference in references {
            let id = works::placement_id(&bundle.object.id, &reference.name);
            let Some(report) = decisions.of(plane, &id) else {
                others.push(format!("there is no {id}, and references after it are not looked at"));
                causes.push(VerdictCause::Missing { object: id });
                break;
            };
            if report.clusters.binary_search(name).is_ok() {
                selecting.push(format!("{id} selects it"));
                continue;
            }
            others.push(match report.rejected.get(name) {
                Some(rejection) => format!("{id} does not select it ({})", rejection.name()),
                None => format!("{id} does not select it"),
            });
            causes.push(VerdictCause::Follows { leader: id });
        }
    }
    let is_chosen = row.clusters.contains_cluster(name);
    let why = match (is_chosen, selecting.is_empty()) {
        (true, false) => selecting.join(", and "),
        (true, true) => "it has a work".to_owned(),
        (false, _) if others.is_empty() => "no work is in its namespace".to_owned(),
        (false, _) => others.join(", and "),
    };
    if is_chosen {
        causes.clear();
    }
    let refused_by = (!is_chosen).then_some("Placement");
    ClusterVerdict {
        cluster: name.clone(),
        chosen: is_chosen,
        refused_by,
        score: None,
        replicas: None,
        why,
        causes,
    }
}
