//! The clusters of a session: whether they are ready, what is placed on them, and which policies choose them.

use std::collections::BTreeMap;

use federate_dialect::{HUB, Placement, Plan};
use federate_engine::capacity::{PlannedUsage, amount_in_words};
use federate_engine::{Engine, TooMuchWork};
use federate_kubernetes::{Cluster, ObjectRef, Taint, work};
use federate_repo::Claims as _;
use federate_report::clusters::{
    ClusterLoad, ClusterResource, ClusterRow, ExplainedCluster, PolicyOfCluster, UnreadyCluster,
};

use crate::Session;
use crate::kind_name::KindName;

/// The steps of what a policy says about a cluster.
const STEPS_PER_VERDICT: u64 = 10;

impl Session {
    /// The clusters that are not ready, with what is placed there, sorted by name.
    pub fn unready_clusters(&self) -> Vec<UnreadyCluster> {
        let mut unready: Vec<UnreadyCluster> = Vec::new();
        for cluster in self.clusters() {
            let Some(not_ready) = cluster.not_ready(self.now()) else { continue };
            let (cluster, load) = (cluster.name.clone(), ClusterLoad::default());
            unready.push(UnreadyCluster { cluster, not_ready, load, previous: load });
        }
        if unready.is_empty() {
            return unready;
        }
        let plan = self.plan_with_replicas();
        let loads = self.compute_loads(&plan.placements);
        let previous = self.compute_loads(self.settings().previous.rows());
        for one in &mut unready {
            one.load = loads.get(one.cluster.as_ref()).copied().unwrap_or_default();
            one.previous = previous.get(one.cluster.as_ref()).copied().unwrap_or_default();
        }
        unready
    }

    /// What the rows of a plan place on each cluster. The rows of policies do not count as objects.
    fn compute_loads<'p>(&self, rows: &'p [Placement]) -> BTreeMap<&'p str, ClusterLoad> {
        let mut loads: BTreeMap<&str, ClusterLoad> = BTreeMap::new();
        for row in rows.iter().filter(|row| !self.is_of_control_plane(&row.object)) {
            for placed in row.clusters.iter().filter(|placed| placed.name.as_ref() != HUB) {
                loads.entry(placed.name.as_ref()).or_default().add_object(placed.replicas);
            }
        }
        loads
    }

    fn is_of_control_plane(&self, object: &ObjectRef) -> bool {
        self.dialects().role_of_kind(&object.api_version, &object.kind).is_some()
    }

    /// The inventory with what the plan places on each cluster and requests of it, sorted by name.
    pub fn cluster_rows(&self) -> Vec<ClusterRow> {
        let plan = self.plan_with_replicas();
        let loads = self.compute_loads(&plan.placements);
        let mut usage: BTreeMap<&str, Vec<&PlannedUsage>> = BTreeMap::new();
        let all = self.compute_usage(&plan);
        for one in &all {
            usage.entry(one.cluster.as_str()).or_default().push(one);
        }
        self.clusters()
            .iter()
            .map(|cluster| {
                let name = cluster.name.as_ref();
                let load = loads.get(name).copied().unwrap_or_default();
                self.cluster_row(cluster, load, usage.get(name).map(Vec::as_slice).unwrap_or_default())
            })
            .collect()
    }

    fn cluster_row(&self, cluster: &Cluster, load: ClusterLoad, usage: &[&PlannedUsage]) -> ClusterRow {
        let not_ready = cluster.not_ready(self.now());
        ClusterRow {
            name: cluster.name.to_string(),
            object: cluster.id.clone(),
            origin: cluster.origin.to_string(),
            ready: not_ready.is_none(),
            since: not_ready.as_ref().and_then(|one| one.since).map(|since| since.to_string()),
            why: not_ready.map(|one| one.why),
            leaving: cluster.deleting,
            version: cluster.kubernetes.clone(),
            provider: cluster.provider.clone(),
            region: cluster.region.clone(),
            zones: cluster.zones.clone(),
            labels: cluster.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            taints: cluster.taints.iter().map(taint_in_words).collect(),
            resources: list_resources(cluster, usage),
            objects: load.objects,
            replicas: load.replicas,
        }
    }

    /// Whether a kind is that of clusters: `cluster`, or the kind of an inventory object as `kubectl` names it.
    pub fn names_clusters(&self, kind: &str) -> bool {
        let kinds = KindName::parse(kind, std::iter::empty());
        let is_generic = ["cluster", "clusters"].iter().any(|word| kind.eq_ignore_ascii_case(word));
        is_generic || self.clusters().iter().any(|cluster| kinds.matches_object(&cluster.id))
    }

    /// What is placed on a cluster, and whether each policy chooses it; `None` if the inventory does not have it.
    ///
    /// # Errors
    ///
    /// If that takes more work than a part of a run may.
    pub fn explain_cluster(&self, name: &str) -> Result<Option<ExplainedCluster>, TooMuchWork> {
        let engine = self.build_engine();
        let what = format!("explaining the cluster {name}");
        engine.work_limit().run_part(&what, || self.explain_cluster_with(&engine, name))
    }

    fn explain_cluster_with(&self, engine: &Engine<'_>, name: &str) -> Option<ExplainedCluster> {
        let row = self.cluster_rows().into_iter().find(|row| row.name == name)?;
        let mut plan = self.plan_with_replicas();
        let mut first: BTreeMap<&ObjectRef, &ObjectRef> = BTreeMap::new();
        for placement in &self.plan().placements {
            if let Some(policy) = &placement.policy {
                first.entry(policy).or_insert(&placement.object);
            }
        }
        let mut placed_by: BTreeMap<&ObjectRef, Vec<&Placement>> = BTreeMap::new();
        for placement in &plan.placements {
            placement.policy.iter().for_each(|policy| placed_by.entry(policy).or_default().push(placement));
        }
        let mut policies: Vec<PolicyOfCluster> = Vec::new();
        for (policy, object) in first.into_iter().take_while(|_| !work::is_exceeded()) {
            work::charge_steps(STEPS_PER_VERDICT * self.clusters().len() as u64);
            let Some(explanation) = engine.explain_placement(object, self.plan()) else { continue };
            let Some(verdict) = explanation.clusters.into_iter().find(|one| one.cluster.as_ref() == name)
            else {
                continue;
            };
            let mut load = ClusterLoad::default();
            for placement in placed_by.get(policy).into_iter().flatten() {
                let placed = placement.clusters.iter().find(|placed| placed.name.as_ref() == name);
                if let Some(placed) = placed {
                    load.add_object(placed.replicas);
                }
            }
            let refused_by = verdict.refused_by.map(str::to_owned);
            policies.push(PolicyOfCluster {
                policy: policy.clone(),
                objects: load.objects,
                replicas: load.replicas,
                refused_by,
                why: verdict.why,
            });
        }
        keep_cluster(&mut plan, name);
        Some(ExplainedCluster { cluster: row, policies, placements: plan.placements })
    }
}

/// Reduces a plan to what it places on a cluster.
fn keep_cluster(plan: &mut Plan, name: &str) {
    for row in &mut plan.placements {
        row.clusters.retain(|placed| placed.name.as_ref() == name);
    }
    plan.placements.retain(|row| !row.clusters.is_empty());
    plan.unmatched.clear();
}

fn taint_in_words(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect)
}

/// The resources that a cluster offers or that the plan requests of it, sorted by name.
fn list_resources(cluster: &Cluster, usage: &[&PlannedUsage]) -> Vec<ClusterResource> {
    let mut all: BTreeMap<&str, ClusterResource> = BTreeMap::new();
    if let Some(capacity) = &cluster.capacity {
        for (name, amount) in &capacity.allocatable {
            let free = capacity.available.get(name).copied().unwrap_or_default();
            all.insert(
                name,
                ClusterResource {
                    resource: name.clone(),
                    allocatable: Some(amount_in_words(name, amount.as_nanos())),
                    free: Some(amount_in_words(name, free.as_nanos())),
                    ..ClusterResource::default()
                },
            );
        }
    }
    for one in usage {
        let resource = all.entry(one.resource.as_str()).or_default();
        resource.resource.clone_from(&one.resource);
        resource.asked = Some(one.requested.clone());
        resource.left = one.left.as_ref().map(|(left, _)| left.clone());
    }
    all.into_values().collect()
}
