//! Which facts of a snapshot decide where an object is placed.
//!
//! A fact decides if the control plane decides otherwise without it: the object is decided about again, with the same
//! policies, without its earlier placement, or with one cluster that has no taint, is ready, serves every kind, has any
//! amount of free resources, or has no properties.

use std::collections::BTreeMap;

use federate_dialect::{Placement, PolicyPlanner, PreviousPlan};
use federate_engine::capacity::amount_in_words;
use federate_engine::{Engine, EngineSettings};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Apis, Cluster, ObjectRef};
use federate_report::explanation::Fact;

use crate::Session;

/// What a cluster would be like without a kind of fact; `None` if the cluster has no such fact.
type Without = fn(&Cluster) -> Option<(Cluster, String)>;

/// The kinds of facts about a cluster.
const FACT_KINDS: [(&str, Without); 5] = [
    ("taint", without_taints),
    ("condition", without_unreadiness),
    ("api", without_api_list),
    ("capacity", without_capacity_limits),
    ("property", without_properties),
];

impl Session {
    /// The facts of the snapshot that decide about an object; none without a snapshot.
    pub(crate) fn find_facts(&self, object: &ObjectRef) -> Vec<Fact> {
        let Some(stored) = self.snapshot() else { return Vec::new() };
        let plan = self.plan();
        let Some(row) = plan.find_placement(object) else { return Vec::new() };
        // Without a policy, it goes where the object goes that needs it.
        let leader = row.required_by.first().filter(|_| row.policy.is_none());
        let leader = leader.and_then(|leader| plan.find_placement(leader));
        let row = leader.unwrap_or(row);
        let object = &row.object;
        let deciding = WithoutFact { session: self, row, subjects: self.subjects_of(row) };
        let before = deciding.decide_placement(self.clusters(), self.settings());
        let mut facts = Vec::new();
        let earlier = self.settings().previous.find_row(object);
        if let Some(earlier) = earlier.filter(|earlier| !earlier.clusters.is_empty()) {
            let settings = EngineSettings { previous: PreviousPlan::default(), ..self.settings().clone() };
            let names: Vec<String> = earlier.clusters.iter().map(describe_placed).collect();
            let fact = format!("the earlier placement on {}", names.join(", "));
            facts.extend(deciding.find_fact(
                "placement",
                None,
                fact,
                before.as_ref(),
                self.clusters(),
                &settings,
            ));
        }
        for (kind, without) in FACT_KINDS {
            let all: Vec<Cluster> = self.clusters().iter().map(|c| remove_fact(c, without)).collect();
            if deciding.decide_placement(&all, self.settings()) == before {
                continue;
            }
            for (at, cluster) in self.clusters().iter().enumerate() {
                if !stored.clusters.iter().any(|stored| stored.object.id == cluster.id) {
                    continue;
                }
                let Some((other, fact)) = without(cluster) else { continue };
                let mut clusters = self.clusters().to_vec();
                clusters[at] = other;
                let name = Some(cluster.name.clone());
                facts.extend(deciding.find_fact(
                    kind,
                    name,
                    fact,
                    before.as_ref(),
                    &clusters,
                    self.settings(),
                ));
            }
        }
        facts
    }
}

impl Session {
    /// The object of a row, the policy that places it, and the object that contains it: a control plane decides about
    /// one of them.
    fn subjects_of(&self, row: &Placement) -> Vec<ObjectRef> {
        let engine = self.build_engine();
        let carried = engine
            .find_planner(&row.dialect)
            .map(|plane| plane.advice().carried_templates())
            .unwrap_or_default();
        let around = carried.into_iter().filter(|one| one.object == row.object).map(|one| one.carrier);
        row.policy.iter().chain([&row.object]).cloned().chain(around).collect()
    }
}

/// Decides about one object in other circumstances.
struct WithoutFact<'s> {
    session: &'s Session,
    row: &'s Placement,
    /// What the control plane decides about.
    subjects: Vec<ObjectRef>,
}

impl WithoutFact<'_> {
    fn decide_placement(&self, clusters: &[Cluster], settings: &EngineSettings) -> Option<Placement> {
        let session = self.session;
        let engine = Engine::new(session.dialects(), session.repo(), clusters, settings);
        let plane: &dyn PolicyPlanner = engine.find_planner(&self.row.dialect)?;
        let decided =
            self.subjects.iter().flat_map(|id| plane.decide_placements(id, &settings.previous).placements);
        let mut all: Vec<Placement> = decided.collect();
        let of = all.iter().position(|row| row.object == self.row.object).unwrap_or(0);
        (of < all.len()).then(|| all.swap_remove(of))
    }

    /// The fact, if the decision is another one in these circumstances, which lack it.
    fn find_fact(
        &self,
        kind: &'static str,
        cluster: Option<federate_kubernetes::ClusterName>,
        fact: String,
        before: Option<&Placement>,
        clusters: &[Cluster],
        settings: &EngineSettings,
    ) -> Option<Fact> {
        let without = self.decide_placement(clusters, settings);
        if without.as_ref().map(|row| &row.clusters) == before.map(|row| &row.clusters) {
            return None;
        }
        let names: Vec<String> =
            without.iter().flat_map(|row| row.clusters.iter().map(describe_placed)).collect();
        Some(Fact { kind, cluster, fact, without: names })
    }
}

/// A cluster with its replicas.
fn describe_placed(placed: &federate_dialect::Placed) -> String {
    match placed.replicas {
        Some(replicas) => format!("{} ({replicas})", placed.name),
        None => placed.name.to_string(),
    }
}

fn remove_fact(cluster: &Cluster, without: Without) -> Cluster {
    without(cluster).map_or_else(|| cluster.clone(), |(cluster, _)| cluster)
}

fn without_taints(cluster: &Cluster) -> Option<(Cluster, String)> {
    let taints = cluster.taints.iter().map(|t| {
        let value = if t.value.is_empty() { String::new() } else { format!("={}", t.value) };
        format!("{}{value}:{}", t.key, t.effect)
    });
    let taints: Vec<String> = taints.collect();
    if taints.is_empty() {
        return None;
    }
    Some((Cluster { taints: Vec::new(), ..cluster.clone() }, format!("the taint {}", taints.join(", "))))
}

fn without_unreadiness(cluster: &Cluster) -> Option<(Cluster, String)> {
    let fact = match (cluster.deleting, cluster.joined, cluster.ready) {
        (true, ..) => "it is being deleted",
        (_, false, _) => "it has not joined",
        (_, _, false) => "it is not ready",
        _ if cluster.liveness.heartbeat.is_some() => "the time of its last report",
        _ => return None,
    };
    let liveness = federate_kubernetes::Liveness::default();
    let other = Cluster { deleting: false, joined: true, ready: true, liveness, ..cluster.clone() };
    Some((other, fact.to_owned()))
}

fn without_api_list(cluster: &Cluster) -> Option<(Cluster, String)> {
    let Apis::Listed(apis) = &cluster.apis else { return None };
    let fact = format!("the {} kinds that it serves", apis.len());
    Some((Cluster { apis: Apis::All, apis_complete: true, ..cluster.clone() }, fact))
}

/// The properties that a member reports of its nodes.
fn without_properties(cluster: &Cluster) -> Option<(Cluster, String)> {
    let properties: Vec<String> =
        cluster.properties.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if properties.is_empty() {
        return None;
    }
    let other = Cluster { properties: BTreeMap::new(), ..cluster.clone() };
    Some((other, format!("its properties: {}", properties.join(", "))))
}

/// The free resources, without which any amount fits.
fn without_capacity_limits(cluster: &Cluster) -> Option<(Cluster, String)> {
    let mut other = cluster.clone();
    let capacity = other.capacity.as_mut()?;
    let free = capacity.available.iter();
    let free: Vec<String> =
        free.map(|(name, free)| format!("{name} {}", amount_in_words(name, free.as_nanos()))).collect();
    let plenty = Quantity::parse("1P").unwrap_or_default();
    for amounts in [&mut capacity.total, &mut capacity.allocatable, &mut capacity.available] {
        for amount in amounts.values_mut() {
            *amount = plenty;
        }
    }
    // A shape with the most resources holds everything.
    if let Some(shape) = capacity.shapes.as_mut().and_then(|shapes| shapes.last_mut()) {
        (shape.count, shape.listed) = (1_000_000, 1_000_000);
        shape.resources.values_mut().for_each(|amount| *amount = plenty);
    }
    Some((other, format!("its free resources: {}", free.join(", "))))
}
