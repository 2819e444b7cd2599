//! Explains where an object goes: for each cluster, whether its own placement, its namespace's or the scheduler
//! selects or refuses it; and what the scheduler writes back.

use serde_json::{Map, Value, json};

use super::decision::FederatedDecision;
use super::division::DivisionTrace;
use super::federated_object::FederatedObject;
use super::member::deletion;
use super::overrides::REPLICAS_PATH;
use super::preference::Schedule;
use super::{KubeFedPlanner, NAME, placement};
use federate_dialect::{ClusterCause, ClusterVerdict, Explanation, Placement, PreviousPlan, VerdictCause};
use federate_kubernetes::Cluster;
use federate_kubernetes::finding::count_replicas;

/// Explains a federated object's placement; `placed` is its row of the plan.
pub(super) fn explain_federated(
    plane: &KubeFedPlanner<'_>,
    federated: &FederatedObject<'_>,
    previous: &PreviousPlan,
    placed: Option<&Placement>,
) -> Explanation {
    let mut trace = DivisionTrace::recording();
    let decision = FederatedDecision::new(plane, federated, previous, &mut trace);
    let placement = placed.cloned().unwrap_or_else(|| decision.to_row(plane));
    let clusters = plane.input.clusters.iter();
    let clusters = clusters.map(|cluster| cluster_verdict(plane, &decision, &placement, cluster)).collect();
    Explanation {
        dialect: NAME,
        policy: describe_policy(plane, &decision),
        steps: trace.into_steps(),
        clusters,
        placement,
        fulfilled: None,
        rewritten: decision.effective_schedule().map(|(_, schedule)| rewrite_federated(federated, schedule)),
        deletion_progress: deletion::deletion_progress(plane, federated),
        rollout: None,
    }
}

fn describe_policy(plane: &KubeFedPlanner<'_>, decision: &FederatedDecision<'_, '_>) -> Vec<String> {
    let federated = decision.federated;
    let mut lines =
        vec![format!("{} ({}) contains its template", federated.object.id, federated.object.origin)];
    match &decision.preference {
        Some((preference, Ok(_))) => {
            let object = preference.object;
            lines.push(format!(
                "{} ({}) decides clusters and replicas, and overwrites the placement",
                object.id, object.origin
            ));
        }
        Some((preference, Err(why))) => {
            let object = preference.object;
            lines.push(format!("{} ({}) has no effect: {why}", object.id, object.origin));
        }
        None => {}
    }
    if let Some(namespace) = plane.namespace_of(federated).filter(|_| decision.namespace.is_some()) {
        lines.push(format!("{} ({}) limits its clusters", namespace.object.id, namespace.object.origin));
    }
    if let Some(refusal) = &decision.refusal {
        lines.push(format!("{}: {}", refusal.reason, refusal.message));
    }
    lines
}

fn cluster_verdict(
    plane: &KubeFedPlanner<'_>,
    decision: &FederatedDecision<'_, '_>,
    placement: &Placement,
    cluster: &Cluster,
) -> ClusterVerdict {
    let index = plane.clusters.iter().position(|c| c.name == cluster.name);
    let chosen = placement.clusters.contains_cluster(&cluster.name);
    let exclusion = match index {
        Some(index) => explain_exclusion(plane, decision, index, cluster),
        None => Some(unseen_cluster(plane)),
    };
    let (refused_by, why, causes) = match exclusion {
        None => (None, describe_choice(decision, cluster), Vec::new()),
        Some(KubeFedExclusion { why, .. }) if chosen => (None, format!("it stays there: {why}"), Vec::new()),
        Some(KubeFedExclusion { by, why, causes }) => (Some(by), why, causes),
    };
    ClusterVerdict {
        cluster: cluster.name.clone(),
        chosen,
        refused_by,
        score: None,
        replicas: decision
            .effective_schedule()
            .and_then(|(_, schedule)| schedule.get(&cluster.name).copied()),
        why,
        causes,
    }
}

/// Why a cluster does not receive an object.
pub(super) struct KubeFedExclusion {
    /// What excludes it.
    pub(super) by: &'static str,
    pub(super) why: String,
    pub(super) causes: Vec<VerdictCause>,
}

impl KubeFedExclusion {
    pub(super) fn new(by: &'static str, why: impl Into<String>, cause: VerdictCause) -> Self {
        Self { by, why: why.into(), causes: vec![cause] }
    }
}

/// The exclusion of a cluster whose inventory object the control plane does not see.
pub(super) fn unseen_cluster(plane: &KubeFedPlanner<'_>) -> KubeFedExclusion {
    let namespace = plane.config.namespace.clone();
    let why = format!("KubeFed sees only clusters in its namespace `{namespace}`");
    KubeFedExclusion::new(
        "Inventory",
        why,
        VerdictCause::Cluster(ClusterCause::InventoryNamespace { namespace }),
    )
}

/// Why the cluster at an index is not selected; `None` if it is.
fn explain_exclusion(
    plane: &KubeFedPlanner<'_>,
    decision: &FederatedDecision<'_, '_>,
    index: usize,
    cluster: &Cluster,
) -> Option<KubeFedExclusion> {
    if let Some(refusal) = &decision.refusal {
        return Some(KubeFedExclusion::new(refusal.reason, &*refusal.message, (*refusal.cause).clone()));
    }
    if !decision.own.get(index).copied().unwrap_or_default() {
        return Some(explain_own_exclusion(plane, decision, cluster));
    }
    if decision.is_chosen(index) {
        return None;
    }
    let mut exclusion = KubeFedExclusion { by: "Namespace", why: String::new(), causes: Vec::new() };
    if let Some(namespace) = plane.namespace_of(decision.federated) {
        let id = &namespace.object.id;
        let (why, causes) = placement::explain_exclusion(id, &namespace.spec.placement, cluster);
        exclusion.why = format!("{id} excludes it: {why}");
        exclusion.causes = causes;
    }
    let replicas = decision.effective_schedule().and_then(|(_, schedule)| schedule.get(&cluster.name));
    if let Some(replicas) = replicas.filter(|replicas| **replicas > 0) {
        let verb = if *replicas == 1 { "is" } else { "are" };
        exclusion.why.push_str(&format!("; the {} scheduled there {verb} lost", count_replicas(*replicas)));
    }
    Some(exclusion)
}

/// Why neither the object's own placement nor the scheduler selects a cluster.
fn explain_own_exclusion(
    plane: &KubeFedPlanner<'_>,
    decision: &FederatedDecision<'_, '_>,
    cluster: &Cluster,
) -> KubeFedExclusion {
    let federated = decision.federated;
    if decision.effective_schedule().is_some() {
        if !cluster.ready {
            let why = "it is not ready, so the scheduler skips it";
            return KubeFedExclusion::new("Scheduler", why, VerdictCause::Cluster(ClusterCause::NotReady));
        }
        let (mut reasons, mut causes) = (Vec::new(), Vec::new());
        for one in [Some(federated), plane.namespace_of(federated)].into_iter().flatten() {
            let (why, fields) = placement::explain_mismatch(&one.object.id, &one.spec.placement, cluster);
            if !fields.is_empty() {
                reasons.push(format!("{} does not select it: {why}", one.object.id));
                causes.extend(fields);
            }
        }
        let why = format!("the scheduler intersects selectors, and {}", reasons.join("; "));
        return KubeFedExclusion { by: "Scheduler", why, causes };
    }
    if decision.follows_written() {
        let why = "the placement that an earlier preference has written does not name it";
        return KubeFedExclusion::new("Placement", why, VerdictCause::PreviousPlan);
    }
    let (why, causes) =
        placement::explain_exclusion(&federated.object.id, &federated.spec.placement, cluster);
    KubeFedExclusion { by: "Placement", why, causes }
}

/// Why a cluster is selected.
fn describe_choice(decision: &FederatedDecision<'_, '_>, cluster: &Cluster) -> String {
    let replicas = decision.effective_schedule().and_then(|(_, schedule)| schedule.get(&cluster.name));
    let mut words = match replicas {
        Some(replicas) => format!("the scheduler gives it {replicas}"),
        None if decision.follows_written() => {
            "named in the placement that an earlier preference has written".to_owned()
        }
        None => placement::describe_selection(&decision.federated.spec.placement).to_owned(),
    };
    if !cluster.ready {
        words.push_str("; it is not ready, so it receives nothing for now");
    }
    words
}

/// The federated object as the scheduler writes it back: it names every cluster of the result and overrides its
/// replicas, and no longer overrides the replicas of other clusters.
pub(super) fn rewrite_federated(federated: &FederatedObject<'_>, schedule: &Schedule) -> Value {
    let mut body = federated.object.body.clone();
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return body };
    let names: Vec<&str> = schedule.keys().map(AsRef::as_ref).collect();
    let mut listed: Vec<&str> =
        federated.spec.placement.clusters.iter().flatten().map(|c| c.name.as_str()).collect();
    listed.sort_unstable();
    if listed != names {
        let clusters: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let placement = spec.entry("placement").or_insert(Value::Null);
        if !placement.is_object() {
            *placement = Value::Object(Map::new());
        }
        placement["clusters"] = Value::Array(clusters);
    }
    let overrides = spec.entry("overrides").or_insert(Value::Null);
    let mut entries = overrides.as_array().cloned().unwrap_or_default();
    for entry in &mut entries {
        let name = entry.get("clusterName").and_then(Value::as_str).unwrap_or_default();
        let replicas = schedule.get(name).copied();
        rewrite_entry(entry, replicas);
    }
    for (name, replicas) in schedule {
        if !entries.iter().any(|e| e.get("clusterName").is_some_and(|n| n == name.as_ref())) {
            let list = json!([{"path": REPLICAS_PATH, "value": replicas}]);
            entries.push(json!({"clusterName": name, "clusterOverrides": list}));
        }
    }
    entries.sort_by(|a, b| a["clusterName"].as_str().cmp(&b["clusterName"].as_str()));
    *overrides = if entries.is_empty() { Value::Null } else { Value::Array(entries) };
    body
}

fn rewrite_entry(entry: &mut Value, replicas: Option<i64>) {
    let mut list = entry.get("clusterOverrides").and_then(Value::as_array).cloned().unwrap_or_default();
    let at = list.iter().position(|o| o.get("path").is_some_and(|path| path == REPLICAS_PATH));
    match (at, replicas) {
        (Some(at), Some(replicas)) => list[at]["value"] = replicas.into(),
        (Some(at), None) => drop(list.remove(at)),
        (None, Some(replicas)) => list.push(json!({"path": REPLICAS_PATH, "value": replicas})),
        (None, None) => {}
    }
    entry["clusterOverrides"] = Value::Array(list);
}
