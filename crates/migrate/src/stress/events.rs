//! Random events that can happen on both sides of a migration.
//!
//! Labels and taints are those that the repos speak of: the labels of clusters, the values of selectors, the keys of
//! tolerations. Those in the domains of control planes are not: these set them themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use federate_engine::replicas::is_workload;
use federate_kubernetes::{Cluster, Object, ObjectRef, Taint};
use federate_session::Session;
use federate_whatif::{ClusterMatcher, NewCapacity, ReplicaChange, Scenario, ScenarioEvent, WorkloadRef};

use super::random::SeededNumbers;
use crate::ProofSides;

/// The most events of a state.
const MAX_EVENTS: u64 = 4;

/// The most labels, and the most keys of taints, that events use.
const MAX_WORDS: usize = 1000;

/// The most workloads that events scale.
const MAX_WORKLOADS: usize = 1000;

/// The key of taints in repos that speak of none.
const PLAIN_TAINT: &str = "example.com/maintenance";

/// A label that no selector names.
const OTHER_VALUE: &str = "other";

/// Sizes of clusters in percent of the present one.
const SIZES: [i64; 5] = [0, 10, 50, 150, 400];

/// What random states are made of.
pub(super) struct EventSource<'s> {
    numbers: SeededNumbers,
    /// The clusters of both sides, as the old side has them.
    clusters: Vec<&'s Cluster>,
    /// Those of them whose capacity both sides know.
    resizable: Vec<&'s Cluster>,
    labels: Vec<(String, String)>,
    taint_keys: Vec<String>,
    workloads: Vec<WorkloadRef>,
}

impl<'s> EventSource<'s> {
    pub(super) fn new(sides: ProofSides<'s>, seed: u64) -> Self {
        let others: BTreeMap<&str, &Cluster> =
            sides.new.clusters().iter().map(|cluster| (cluster.name.as_ref(), cluster)).collect();
        let shared = sides.old.clusters().iter();
        let clusters: Vec<&Cluster> =
            shared.filter(|cluster| others.contains_key(cluster.name.as_ref())).collect();
        let mut resizable = clusters.clone();
        resizable.retain(|cluster| {
            let other = others.get(cluster.name.as_ref());
            cluster.capacity.is_some() && other.is_some_and(|other| other.capacity.is_some())
        });
        let mut words = RepoWords::default();
        for cluster in &clusters {
            words.labels.extend(cluster.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        for session in [sides.old, sides.new] {
            session.repo().claimed.iter().for_each(|claimed| words.read_value(&claimed.object.body));
        }
        // Control planes set those of their own domains, such as the name of a cluster.
        words.labels.retain(|(key, _)| {
            let domain = key.split_once('/').map_or("", |(domain, _)| domain);
            !sides.old.dialects().is_of_control_plane(domain)
        });
        let keys: BTreeSet<String> = words.labels.iter().map(|(key, _)| key.clone()).collect();
        words.labels.extend(keys.into_iter().map(|key| (key, OTHER_VALUE.to_owned())));
        words.taint_keys.insert(PLAIN_TAINT.to_owned());
        Self {
            numbers: SeededNumbers::new(seed),
            clusters,
            resizable,
            labels: words.labels.into_iter().take(MAX_WORDS).collect(),
            taint_keys: words.taint_keys.into_iter().take(MAX_WORDS).collect(),
            workloads: find_workloads(sides),
        }
    }

    /// Draws states. Without clusters there are none.
    pub(super) fn draw_states(mut self, states: usize) -> Vec<Scenario> {
        if self.clusters.is_empty() {
            return Vec::new();
        }
        (0..states).map(|_| self.draw_state()).collect()
    }

    fn draw_state(&mut self) -> Scenario {
        let number = 1 + self.numbers.draw_below(MAX_EVENTS);
        let mut scenario = Scenario::default();
        let mut removed = BTreeSet::new();
        for _ in 0..number {
            let Some(event) = self.draw_event(&removed) else { continue };
            if let ScenarioEvent::Remove(ClusterMatcher::Named(name)) = &event {
                removed.insert(name.clone());
            }
            scenario.events.push(event);
        }
        scenario
    }

    /// Draws an event about what is not removed yet; `None` if there is no such thing.
    fn draw_event(&mut self, removed: &BTreeSet<String>) -> Option<ScenarioEvent> {
        let what = self.numbers.draw_below(8);
        if what >= 6
            && let Some(workload) = self.numbers.pick(&self.workloads).cloned()
        {
            let amount = i64::try_from(self.numbers.draw_below(40)).unwrap_or(0);
            return Some(ScenarioEvent::Scale(workload, ReplicaChange::Exactly(amount)));
        }
        if what == 5
            && let Some(cluster) = self.numbers.pick(&self.resizable)
        {
            let name = cluster.name.to_string();
            let percent = self.numbers.pick(&SIZES).copied().unwrap_or(100);
            return (!removed.contains(&name)).then_some(ScenarioEvent::Capacity(
                ClusterMatcher::Named(name.clone()),
                NewCapacity::Percent(percent),
            ));
        }
        let cluster = *self.numbers.pick(&self.clusters)?;
        let name = cluster.name.to_string();
        if removed.contains(&name) {
            return None;
        }
        let selected = ClusterMatcher::Named(name);
        Some(match what {
            0 => ScenarioEvent::Remove(selected),
            1 | 2 => match self.numbers.pick(&self.labels).cloned() {
                Some((key, value)) => ScenarioEvent::Label(selected, key, value),
                None => ScenarioEvent::Lose(selected),
            },
            3 => match self.numbers.pick(&cluster.taints) {
                Some(taint) => ScenarioEvent::Untaint(selected, taint.clone()),
                None => ScenarioEvent::Taint(selected, self.draw_taint()),
            },
            _ => ScenarioEvent::Lose(selected),
        })
    }

    fn draw_taint(&mut self) -> Taint {
        let key = self.numbers.pick(&self.taint_keys).cloned().unwrap_or_else(|| PLAIN_TAINT.to_owned());
        let effect = self.numbers.pick(&["NoSchedule", "NoExecute"]).copied().unwrap_or("NoSchedule");
        Taint { key, value: String::new(), effect: effect.to_owned() }
    }
}

/// The workloads that both sides have by the same name.
fn find_workloads(sides: ProofSides<'_>) -> Vec<WorkloadRef> {
    let [old, new] = [sides.old, sides.new].map(list_workloads);
    let shared = old.intersection(&new).take(MAX_WORKLOADS);
    shared
        .map(|(kind, namespace, name)| WorkloadRef {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        })
        .collect()
}

/// Kind, namespace and name.
type WorkloadName = (String, Option<String>, String);

/// The workloads of a repo that can be scaled, without those that share their kind and name with others.
fn list_workloads(session: &Session) -> BTreeSet<WorkloadName> {
    let dialects = session.dialects();
    let repo = session.repo();
    let mut templates: BTreeMap<WorkloadName, Vec<&Object>> = BTreeMap::new();
    for template in &repo.templates {
        let object = &template.object;
        let named = templates.entry(workload_name(object.id.clone())).or_default();
        named.push(object);
    }
    let carried = repo.claimed.iter().filter_map(|claimed| {
        let dialect = dialects.get(claimed.dialect)?;
        Some(workload_name(dialect.kinds().find_carried_replicas(&claimed.object)?.workload))
    });
    let mut all: BTreeSet<WorkloadName> =
        carried.filter(|workload| !templates.contains_key(workload)).collect();
    all.extend(templates.into_iter().filter_map(|(workload, named)| match named.as_slice() {
        [only] if is_scalable(only) => Some(workload),
        _ => None,
    }));
    all
}

fn is_scalable(object: &Object) -> bool {
    is_workload(&object.id) && object.id.kind != "Pod" && object.value_at(&["spec"]).is_some()
}

fn workload_name(object: ObjectRef) -> WorkloadName {
    (object.kind.to_ascii_lowercase(), object.namespace, object.name)
}

/// The words of a repo about clusters.
#[derive(Default)]
struct RepoWords {
    labels: BTreeSet<(String, String)>,
    taint_keys: BTreeSet<String>,
}

impl RepoWords {
    /// Reads the selectors and tolerations in a policy.
    fn read_value(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.read_value(item)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match name.as_str() {
                        "matchLabels" | "clusterSelector" => self.read_labels(field),
                        "matchExpressions" => self.read_expressions(field),
                        "tolerations" | "clusterTolerations" => self.read_tolerations(field),
                        _ => {}
                    }
                    self.read_value(field);
                }
            }
            _ => {}
        }
    }

    fn read_labels(&mut self, labels: &Value) {
        let Some(labels) = labels.as_object() else { return };
        let texts = labels.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        self.labels.extend(texts.filter(|(key, value)| is_label(key, value)));
    }

    fn read_expressions(&mut self, expressions: &Value) {
        for expression in expressions.as_array().into_iter().flatten() {
            let Some(key) = expression["key"].as_str() else { continue };
            let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let labels = values.filter(|value| is_label(key, value));
            self.labels.extend(labels.map(|value| (key.to_owned(), value.to_owned())));
        }
    }

    fn read_tolerations(&mut self, tolerations: &Value) {
        let keys = tolerations.as_array().into_iter().flatten().filter_map(|one| one["key"].as_str());
        self.taint_keys.extend(keys.filter(|key| is_label(key, "")).map(str::to_owned));
    }
}

fn is_label(key: &str, value: &str) -> bool {
    use federate_kubernetes::selector::{invalid_key, invalid_value};
    invalid_key(key).is_none() && invalid_value(value).is_none()
}
