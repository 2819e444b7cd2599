//! The state before scenarios, and what scenarios share: the decisions about objects that they do not touch.
//!
//! Each decision is taken once, with the plan as its own previous plan, over the inventory as it is. After a change of clusters,
//! a decision is taken again unless it depends only on clusters that stay the same
//! ([`ClusterDependency`](federate_dialect::ClusterDependency)). Of subjects that are [alike](federate_dialect::ControlPlane::alike), one is
//! decided for all, and they share the resulting row.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use rayon::prelude::*;

use super::ScenarioInput;
use super::free_resources::{PodRequest, RowRequests};
use super::variation::{OncePerPair, PlanVariation};
use federate_dialect::{
    ChangedRows, ClusterDependency, DecisionSubject, DialectDecisions, Dialects, PlacedClusters, Placement,
    Plan, PolicyPlanner, PreviousPlan, RowKey, TemplateReads,
};
use federate_engine::capacity::template_requests;
use federate_engine::decision_groups::{
    GroupDecision, GroupedSubject, SharedRows, decide_groups, number_keys, row_address,
};
use federate_engine::replicas::{self, ObjectReplicas};
use federate_engine::{Engine, EngineSettings, TemplateIndex};
use federate_kubernetes::{Cluster, ClusterName, Finding, ObjectRef, work};
use federate_repo::Repo;

/// The steps of reading a row or a template, and of compiling a policy.
const STEPS_PER_ROW: u64 = 20;
const STEPS_PER_POLICY: u64 = 200;
/// The steps of noting that a list has a cluster.
const STEPS_PER_CLUSTER: u64 = 3;

/// A repo with its inventory and its plan, from which scenarios start.
pub struct Baseline<'s> {
    pub(super) dialects: Dialects,
    pub(super) repo: &'s Repo,
    pub(super) clusters: &'s [Cluster],
    pub(super) plan: &'s Plan,
    /// The settings of the plan, with the plan itself as the previous one.
    settings: EngineSettings,
    planners: Vec<BaselinePlane>,
    /// The rows of the plan, in its order. Those that are alike are one.
    rows: Vec<Arc<Placement>>,
    /// The rows of each list of clusters, by their index.
    rows_of_lists: Vec<Vec<usize>>,
    /// The lists that have each cluster, by their index.
    lists_with: BTreeMap<&'s str, Vec<usize>>,
    /// What the object of each row has of replicas.
    replicas: Vec<ObjectReplicas>,
    templates: TemplateIndex<'s>,
    /// What the pods of each row request; read when it is first needed.
    requests: OnceLock<RowRequests>,
}

/// What an object has of replicas by its template alone.
fn template_replicas(repo: &Repo, object: &ObjectRef) -> ObjectReplicas {
    let stated = repo
        .find_template(object)
        .and_then(|template| replicas::read_replicas(object, &template.object.body));
    ObjectReplicas { stated, own: Vec::new() }
}

/// The decisions of a control plane.
struct BaselinePlane {
    /// Whether each row of the plan follows from one decision.
    is_complete: bool,
    limits_rollouts: bool,
    always_evicts: bool,
    counts_pods_after: Option<i64>,
    digest: String,
    subjects: Vec<BaselineDecision>,
}

/// A decision.
struct BaselineDecision {
    subject: DecisionSubject,
    key: RowKey,
    /// The number of the key that subjects alike have.
    alike: Option<usize>,
    decided: Arc<GroupDecision>,
    /// The indexes of its rows in the plan.
    planned: Vec<Option<usize>>,
    /// Whether the plan has exactly these rows.
    is_stable: bool,
    /// The clusters of its rows, in the plan and as decided.
    clusters: Vec<PlacedClusters>,
}

/// The decisions that are taken again.
struct RepeatedDecisions<'k> {
    kept: &'k BaselinePlane,
    /// With the index of the subject, in order.
    decided: Vec<(usize, Arc<GroupDecision>)>,
}

/// A comparison of a row with that of the plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowComparison {
    Alike,
    /// It takes the place of the other one.
    Replaces,
    /// It may also concern other rows.
    Conflicts,
}

impl<'s> Baseline<'s> {
    /// Decides everything once, with the plan as its own previous plan.
    pub fn new(
        dialects: Dialects,
        repo: &'s Repo,
        clusters: &'s [Cluster],
        plan: &'s Plan,
        settings: &EngineSettings,
    ) -> Self {
        work::charge_steps(STEPS_PER_ROW * plan.placements.len() as u64);
        let previous = PreviousPlan::new(plan.clone());
        let mut shared = SharedRows::default();
        let rows: Vec<Arc<Placement>> = previous.rows().iter().map(|row| shared.share_row(row)).collect();
        let settings = EngineSettings { previous, ..settings.clone() };
        let engine = Engine::new(dialects, repo, clusters, &settings);
        let planners =
            engine.planners().map(|(name, planner)| BaselinePlane::new(&engine, name, planner, &rows));
        let planners = planners.collect();
        let (mut rows_of_lists, mut lists_with) = (Vec::<Vec<usize>>::new(), BTreeMap::<_, Vec<_>>::new());
        let mut known: HashMap<usize, usize> = HashMap::new();
        for (at, row) in plan.placements.iter().enumerate() {
            let list = *known.entry(row.clusters.list_address()).or_insert_with(|| {
                work::charge_steps(STEPS_PER_CLUSTER * row.clusters.len() as u64);
                for placed in &row.clusters {
                    lists_with.entry(placed.name.as_ref()).or_default().push(rows_of_lists.len());
                }
                rows_of_lists.push(Vec::new());
                rows_of_lists.len() - 1
            });
            rows_of_lists.get_mut(list).into_iter().for_each(|rows| rows.push(at));
        }
        let replicas = engine.object_replicas(engine.previous().rows());
        let templates = TemplateIndex::new(repo, engine.list_carried_templates());
        drop(engine);
        let requests = OnceLock::new();
        Self {
            dialects,
            repo,
            clusters,
            plan,
            settings,
            planners,
            rows,
            rows_of_lists,
            lists_with,
            replicas,
            templates,
            requests,
        }
    }

    /// The settings of the plan, with the plan itself as the previous one.
    pub(super) fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// The time for rules about age.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.settings.now
    }

    /// The rows of the plan, sorted by object.
    pub(super) fn plan_rows(&self) -> &[Placement] {
        self.settings.previous.rows()
    }

    /// The row of an object in the plan.
    pub(super) fn find_row(&self, key: &RowKey) -> Option<&Arc<Placement>> {
        match key {
            RowKey::Known(at) => self.rows.get(*at),
            RowKey::New(_) => None,
        }
    }

    /// What an object has of replicas before the scenario.
    pub(super) fn object_replicas(&self, key: &RowKey) -> Cow<'_, ObjectReplicas> {
        match key {
            RowKey::Known(at) => self.replicas.get(*at).map_or_else(Cow::default, Cow::Borrowed),
            RowKey::New(object) => Cow::Owned(template_replicas(self.repo, object)),
        }
    }

    /// The number of replicas of the plan.
    pub(super) fn total_replicas(&self) -> i64 {
        let mut total = 0;
        for (row, replicas) in self.plan_rows().iter().zip(&self.replicas) {
            work::charge_items(row.clusters.len());
            total += row.clusters.iter().map(|placed| replicas.count_in(placed)).sum::<i64>();
        }
        total
    }

    /// The key of an object.
    pub(super) fn row_key(&self, object: &ObjectRef) -> RowKey {
        self.settings.previous.key_of(object)
    }

    /// The object of a key of this plan.
    pub(super) fn find_object<'k>(&'k self, key: &'k RowKey) -> Option<&'k ObjectRef> {
        match key {
            RowKey::Known(at) => self.plan_rows().get(*at).map(|row| &row.object),
            RowKey::New(object) => Some(object),
        }
    }

    /// The rows of the plan on at least one of some clusters.
    pub(super) fn rows_on<'n>(
        &self,
        clusters: impl IntoIterator<Item = &'n str>,
    ) -> impl Iterator<Item = RowKey> {
        let lists = clusters.into_iter().filter_map(|cluster| self.lists_with.get(cluster)).flatten();
        let lists: BTreeSet<usize> = lists.copied().collect();
        work::charge_items(lists.len());
        let rows = lists.into_iter().filter_map(|list| self.rows_of_lists.get(list)).flatten();
        rows.map(|at| RowKey::Known(*at))
    }

    /// Whether a control plane limits its rollouts.
    pub(super) fn limits_rollouts(&self) -> bool {
        self.planners.iter().any(|planner| planner.limits_rollouts)
    }

    /// Whether placements of a control plane leave tainted clusters even where failover is off.
    pub(super) fn always_evicts(&self) -> bool {
        self.planners.iter().any(|planner| planner.always_evicts)
    }

    /// The seconds after which a control plane counts pods, if one does.
    pub(super) fn counts_pods_after(&self) -> Option<i64> {
        self.planners.iter().filter_map(|planner| planner.counts_pods_after).min()
    }

    /// What the pods of each row request.
    pub(super) fn row_requests(&self) -> &RowRequests {
        self.requests.get_or_init(|| RowRequests::from_templates(&self.templates, self.plan_rows()))
    }

    /// What a pod of an object requests.
    pub(super) fn object_requests(&self, object: &ObjectRef) -> PodRequest {
        template_requests(&self.templates, object)
    }

    /// The control planes over the repo and the inventory of a scenario.
    pub(super) fn build_engine<'e>(&'e self, world: &'e ScenarioInput<'_>) -> Engine<'e> {
        let Repo { templates, claimed, .. } = world.repo.as_ref();
        work::charge_steps(STEPS_PER_ROW * templates.len() as u64 + STEPS_PER_POLICY * claimed.len() as u64);
        Engine::new(self.dialects, &world.repo, &world.clusters, &self.settings)
    }

    /// The plan after a change of the inventory or the templates, with the previous plan `before`. `anew` decides
    /// everything again.
    pub(super) fn plan_scenario(
        &self,
        engine: &Engine<'_>,
        world: &ScenarioInput<'_>,
        before: &PlanVariation,
        anew: bool,
    ) -> PlanVariation {
        let previous =
            self.settings.previous.with_changes(Arc::clone(&before.rows), Arc::clone(&before.shared));
        let engine = engine.with_previous(&previous);
        if anew {
            return PlanVariation::from_plan(self, engine.compute_plan().plan);
        }
        work::charge_steps(self.rows.len() as u64);
        let changed = self.changed_clusters(&world.clusters);
        let decided: Vec<RepeatedDecisions<'_>> = (self.planners.iter().zip(engine.planners()))
            .map(|(kept, (_, planner))| self.decide_again(kept, &engine, planner, world, &changed, before))
            .collect();
        if let Some(rows) = self.find_changed_rows(&decided) {
            return PlanVariation {
                rows: Arc::new(rows),
                unmatched: None,
                shared: Arc::clone(&before.shared),
            };
        }
        let mut decided = decided.into_iter();
        let all = engine
            .assemble_plan(|_, _| decided.next().map(RepeatedDecisions::into_decided).unwrap_or_default());
        PlanVariation::from_plan(self, all.plan)
    }

    /// The clusters that differ from those before.
    pub(super) fn changed_clusters(&self, clusters: &[Cluster]) -> BTreeSet<ClusterName> {
        let before: BTreeMap<&ClusterName, &Cluster> = self.clusters.iter().map(|c| (&c.name, c)).collect();
        let mut gone = before.clone();
        let mut changed = BTreeSet::new();
        for cluster in clusters {
            gone.remove(&cluster.name);
            if before.get(&cluster.name) != Some(&cluster) {
                changed.insert(cluster.name.clone());
            }
        }
        changed.extend(gone.into_keys().cloned());
        changed
    }

    /// Takes the decisions of a control plane that a change of clusters or an earlier change of the plan can touch.
    fn decide_again<'k>(
        &'k self,
        kept: &'k BaselinePlane,
        engine: &Engine<'_>,
        planner: &dyn PolicyPlanner,
        world: &ScenarioInput<'_>,
        changed: &BTreeSet<ClusterName>,
        before: &PlanVariation,
    ) -> RepeatedDecisions<'k> {
        let other_inventory = planner.keys().inventory_digest() != kept.digest;
        let touched = |kept: &BaselineDecision| {
            other_inventory
                || kept.decided.rest.depends == ClusterDependency::Inventory
                || kept.subject.reads != TemplateReads::Subject
                || !kept.is_stable
                || before.rows.contains_key(&kept.key)
                || kept.planned.iter().flatten().any(|at| before.rows.contains_key(&RowKey::Known(*at)))
                || kept.clusters.iter().any(|list| changed.iter().any(|name| list.contains_cluster(name)))
                || world.scaled.contains(&kept.subject.object)
        };
        let touched: Vec<(usize, &BaselineDecision)> =
            kept.subjects.par_iter().enumerate().filter(|(_, kept)| touched(kept)).collect();
        let groups = touched.iter().map(|(_, kept)| {
            let alike = kept.alike.filter(|_| !world.scaled.contains(&kept.subject.object));
            GroupedSubject::new(&kept.subject, alike, row_address(before.find_row(self, &kept.key)))
        });
        let decided = decide_groups(engine, planner, &groups.collect::<Vec<_>>());
        RepeatedDecisions { kept, decided: touched.iter().map(|(at, _)| *at).zip(decided).collect() }
    }

    /// The rows that differ from the plan, if decisions replace rows of the plan one by one. Otherwise, all decisions
    /// must be merged.
    fn find_changed_rows(&self, all: &[RepeatedDecisions<'_>]) -> Option<ChangedRows> {
        let mut rows = ChangedRows::new();
        let mut compared = OncePerPair::default();
        for again in all {
            if !again.kept.is_complete {
                return None;
            }
            for (at, new) in &again.decided {
                let kept = again.kept.subjects.get(*at)?;
                if kept.decided.has_errors != new.has_errors || kept.planned.len() != new.rows.len() {
                    return None;
                }
                for (number, row) in new.rows.iter().enumerate() {
                    let index = kept.replaced_by(number, row, new)?;
                    let old = self.rows.get(index)?;
                    match *compared
                        .get_or_compute([Some(old), Some(row)], (), || RowComparison::new(old, row))
                    {
                        RowComparison::Alike => {}
                        RowComparison::Replaces => {
                            rows.insert(RowKey::Known(index), Some(Arc::clone(row)));
                        }
                        RowComparison::Conflicts => return None,
                    }
                }
            }
        }
        Some(rows)
    }
}

impl RowComparison {
    fn new(old: &Placement, new: &Placement) -> Self {
        if old.is_alike(new) {
            Self::Alike
        } else if old.dialect == new.dialect && old.is_unmatched() == new.is_unmatched() {
            Self::Replaces
        } else {
            Self::Conflicts
        }
    }
}

impl BaselinePlane {
    fn new(engine: &Engine<'_>, name: &str, planner: &dyn PolicyPlanner, rows: &[Arc<Placement>]) -> Self {
        let previous = engine.previous();
        let subjects = planner.decision_subjects();
        let planned: Vec<Option<usize>> =
            subjects.par_iter().map(|subject| previous.index_of(&subject.object)).collect();
        let keys: Vec<Option<String>> =
            subjects.par_iter().map(|subject| planner.keys().decision_key(&subject.object)).collect();
        let alike = number_keys(keys);
        let groups = subjects.iter().zip(alike.iter().zip(&planned)).map(|(subject, (alike, planned))| {
            GroupedSubject::new(subject, *alike, row_address(planned.and_then(|at| rows.get(at))))
        });
        let decided = decide_groups(engine, planner, &groups.collect::<Vec<_>>());
        let all = subjects.into_iter().zip(alike).zip(decided);
        let subjects: Vec<BaselineDecision> = all
            .map(|((subject, alike), decided)| BaselineDecision::new(previous, subject, alike, decided))
            .collect();
        let decided: usize = subjects.iter().map(|kept| kept.decided.rows.len()).sum();
        let rows = previous.rows().iter().filter(|row| row.dialect == name).count();
        // A control plane that decides nothing has nothing to add.
        let is_complete = (planner.keys().never_adds_followers() || decided == 0) && decided == rows;
        let (limits_rollouts, counts_pods_after) =
            (planner.rollout().has_rollout_limits(), planner.failover().counts_pods_after());
        let always_evicts = planner.failover().always_evicts();
        let digest = planner.keys().inventory_digest();
        Self { is_complete, limits_rollouts, always_evicts, counts_pods_after, digest, subjects }
    }
}

impl BaselineDecision {
    fn new(
        previous: &PreviousPlan,
        subject: DecisionSubject,
        alike: Option<usize>,
        decided: Arc<GroupDecision>,
    ) -> Self {
        let planned: Vec<Option<usize>> = decided
            .rows
            .iter()
            .map(|row| previous.index_of(decided.row_object(row, &subject.object)))
            .collect();
        let earlier = |at: &Option<usize>| previous.rows().get((*at)?);
        let mut rows = decided.rows.iter().zip(planned.iter().map(earlier));
        let is_stable = rows.all(|(new, old)| old.is_some_and(|old| old.is_alike(new)));
        let before = planned.iter().filter_map(earlier).map(|row| &row.clusters);
        let mut clusters: Vec<PlacedClusters> =
            decided.rows.iter().map(|row| &row.clusters).chain(before).cloned().collect();
        clusters.dedup_by(|a, b| a.is_shared_with(b));
        let key = previous.key_of(&subject.object);
        Self { subject, key, alike, decided, planned, is_stable, clusters }
    }

    /// The index in the plan of the row that a row of a new decision replaces.
    fn replaced_by(&self, number: usize, row: &Placement, new: &GroupDecision) -> Option<usize> {
        let own = &self.subject.object;
        let object = new.row_object(row, own);
        let is_same = |at: &usize| {
            self.decided.rows.get(*at).is_some_and(|row| self.decided.row_object(row, own) == object)
        };
        let at = if is_same(&number) { number } else { (0..self.planned.len()).find(is_same)? };
        self.planned.get(at).copied().flatten()
    }
}

impl RepeatedDecisions<'_> {
    /// All decisions, old and new.
    fn into_decided(self) -> DialectDecisions {
        let mut all = DialectDecisions::default();
        let mut again = self.decided.into_iter().peekable();
        for (at, kept) in self.kept.subjects.iter().enumerate() {
            let own = &kept.subject.object;
            if let Some((_, decided)) = again.next_if(|(again, _)| *again == at) {
                all.extend(decided.for_subject(own));
            } else {
                let DialectDecisions { placements, findings, .. } = kept.decided.for_subject(own);
                all.placements.extend(placements);
                all.findings.extend(findings.into_iter().filter(Finding::is_error));
            }
        }
        all
    }
}
