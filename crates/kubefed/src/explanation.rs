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
use federate_dialect::{ClusterVerdict, Explanation, Placement, PreviousPlan};
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
    let clusters = plane.input.clusters.iter().map(|cluster| cluster_verdict(plane, &decision, cluster));
    Explanation {
        dialect: NAME,
        policy: describe_policy(plane, &decision),
        steps: trace.into_steps(),
        clusters: clusters.collect(),
        placement: placed.cloned().unwrap_or_else(|| decision.to_row(plane)),
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
    cluster: &Cluster,
) -> ClusterVerdict {
    let index = plane.clusters.iter().position(|c| c.name == cluster.name);
    let chosen = index.is_some_and(|index| decision.is_chosen(index));
    let (refused_by, why) = match index {
        Some(index) => cluster_reason(plane, decision, index, cluster),
        None => (
            Some("Inventory"),
            format!("KubeFed sees only clusters in its namespace `{}`", plane.config.namespace),
        ),
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
    }
}

/// The reason that refused a cluster, if any, and a sentence about it.
fn cluster_reason(
    plane: &KubeFedPlanner<'_>,
    decision: &FederatedDecision<'_, '_>,
    index: usize,
    cluster: &Cluster,
) -> (Option<&'static str>, String) {
    if let Some(refusal) = &decision.refusal {
        return (Some(refusal.reason), refusal.message.clone());
    }
    let schedule = decision.effective_schedule();
    if !decision.own.get(index).copied().unwrap_or_default() {
        let words = match schedule {
            Some(_) if !cluster.ready => "it is not ready, so the scheduler skips it".to_owned(),
            Some(_) => "the selectors that the scheduler intersects do not both select it".to_owned(),
            None => placement::describe_placement(&decision.federated.spec.placement, cluster),
        };
        return (Some(if schedule.is_some() { "Scheduler" } else { "Placement" }), words);
    }
    let replicas = schedule.and_then(|(_, schedule)| schedule.get(&cluster.name));
    if !decision.is_chosen(index) {
        let namespace = plane.namespace_of(decision.federated);
        let mut words = namespace.map_or_else(String::new, |namespace| {
            format!(
                "{} excludes it: {}",
                namespace.object.id,
                placement::describe_placement(&namespace.spec.placement, cluster)
            )
        });
        if let Some(replicas) = replicas.filter(|replicas| **replicas > 0) {
            let verb = if *replicas == 1 { "is" } else { "are" };
            words.push_str(&format!("; the {} scheduled there {verb} lost", count_replicas(*replicas)));
        }
        return (Some("Namespace"), words);
    }
    let mut words = match replicas {
        Some(replicas) => format!("the scheduler gives it {replicas}"),
        None => placement::describe_placement(&decision.federated.spec.placement, cluster),
    };
    if !cluster.ready {
        words.push_str("; it is not ready, so it receives nothing for now");
    }
    (None, words)
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
