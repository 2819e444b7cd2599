//! The dialect of Open Cluster Management: its scheduler of placements, and the works that follow it, as pure functions.
//!
//! ```text
//! fleet, sets ─► schedule (filters ─► scores ─► groups), in the order of a queue ─► decisions
//! decisions ─► works: manifests for the clusters of placements
//! ```
//!
//! A placement places nothing by itself: others refer to its decisions. Its row of the plan has its clusters, which are
//! the previous plan of the next run as well.

use std::collections::BTreeMap;

use serde_json::Value;

use federate_kubernetes::kinds::GroupKinds;
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef, Taint};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{ClaimedObject, Config, DeclaredKind, Repo, Role};

use federate_dialect::admission::AdmittedObjects;
use federate_dialect::import::Importer;
use federate_dialect::{
    AuthorAdvice, CarriedTemplate, ControlPlaneAction, DecisionKeys, Dialect, DialectDecisions, Evictions,
    Explanation, FailoverOutcome, FailoverRules, Health, HubKinds, HubReader, KindCatalog, KindRules,
    ManifestVariant, MemberManager, MemberReconciler, MemberRules, ObjectReferences, OutageRules, OutageStep,
    Placement, Plan, PlannerInput, PolicyAdvice, PolicyClusters, PolicyPlanner, PreviousPlan, RecordedKind,
    RolloutRules, ScenarioMoment, Starter, TemplateReads, UnreadableObject,
};

pub mod agent;
mod api;
mod cel;
mod cluster;
mod decision;
mod explanation;
mod failover;
mod findings;
mod fleet;
mod health;
pub mod hub;
mod import;
mod kinds;
pub mod member;
mod order;
mod quantity;
mod readers;
mod references;
pub mod report;
pub mod rollout;
pub mod schedule;
mod selector;
mod sets;
mod starter;
pub mod state;
mod validation;
mod works;

use api::NAME;
use fleet::Fleet;
use kinds::{CLUSTER_GROUP, WORK_GROUP};
use schedule::{Hub, PlacementSubject};
use sets::ClusterSets;
use state::Decisions;
use works::WorkBundle;

/// The dialect.
pub struct Ocm;

impl Dialect for Ocm {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<Role> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            (CLUSTER_GROUP, "ManagedCluster") => Some(Role::Inventory),
            (CLUSTER_GROUP, "Placement") => Some(Role::Placement),
            (
                CLUSTER_GROUP,
                "ManagedClusterSet"
                | "ManagedClusterSetBinding"
                | "PlacementDecision"
                | "AddOnPlacementScore",
            ) => Some(Role::Other),
            (WORK_GROUP, "ManifestWork" | "ManifestWorkReplicaSet") => Some(Role::Bundle),
            _ => None,
        }
    }

    fn policies_of(&self, row: &Placement) -> Vec<PolicyClusters> {
        let shares = works::list_shares(row).into_iter();
        shares.map(|share| PolicyClusters { policy: share.policy, clusters: share.clusters }).collect()
    }

    fn validate_object(&self, claimed: &ClaimedObject, _: &Config) -> Vec<Finding> {
        validation::check_object(&claimed.object)
    }

    fn read_cluster(&self, object: &Object, strict: bool, _: &Config) -> Result<Cluster, Finding> {
        cluster::read_cluster(object, strict)
    }

    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a> {
        Box::new(OcmPlanner::new(input))
    }

    fn kinds(&self) -> &dyn KindCatalog {
        self
    }

    fn hub(&self) -> &dyn HubReader {
        self
    }

    fn outages(&self) -> &dyn OutageRules {
        self
    }

    fn members(&self) -> &dyn MemberRules {
        self
    }

    fn advice(&self) -> &dyn AuthorAdvice {
        self
    }
}

impl KindCatalog for Ocm {
    fn declared_kind(&self, object: &Object) -> Option<DeclaredKind> {
        readers::declare_reader(object)
    }

    fn own_kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    fn own_domains(&self) -> &'static [&'static str] {
        &["open-cluster-management.io"]
    }
}

impl HubReader for Ocm {
    fn read_hub_plan(&self, hub: &[Object]) -> Result<Plan, UnreadableObject> {
        Ok(state::read_plan(hub))
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn recorded_kinds(&self) -> &'static [RecordedKind] {
        &hub::RECORDED_KINDS
    }
}

impl OutageRules for Ocm {
    fn taint_effects(&self) -> &'static [&'static str] {
        &fleet::TAINT_EFFECTS
    }

    /// The agent does not renew its lease any more. Then the hub taints the cluster as unreachable.
    fn outage_steps(&self, repo: &Repo, cluster: &Cluster, _: bool) -> Vec<OutageStep> {
        let mut lost = cluster.clone();
        self.mark_unreachable(&mut lost);
        let (key, effect) = (fleet::UNREACHABLE.to_owned(), fleet::NO_SELECT.to_owned());
        let unreachable = Taint { key, value: String::new(), effect };
        if !lost.taints.contains(&unreachable) {
            lost.taints.push(unreachable);
        }
        let object = repo.claimed_objects(NAME, Role::Inventory).find(|object| object.id == cluster.id);
        let lease = object.and_then(|object| object.value_at(&["spec", "leaseDurationSeconds"])?.as_i64());
        let seconds = lease.filter(|lease| *lease > 0).unwrap_or(DEFAULT_LEASE).saturating_mul(LEASE_TIMES);
        let what = format!("{}: its lease has run out, and the hub taints it as unreachable", cluster.name);
        vec![OutageStep { seconds, what, cluster: lost }]
    }
}

impl MemberRules for Ocm {
    /// The agent's managers of fields that it applies on the server. Its other updates have the name of its program, which
    /// is that of the operator where both agents of a cluster are one.
    fn member_managers(&self) -> &'static [MemberManager] {
        const {
            &[
                MemberManager { name: "work-agent*", label: None },
                MemberManager { name: "work", label: None },
                MemberManager { name: "registration-operator", label: None },
            ]
        }
    }

    fn mark_as_managed(&self, live: &mut Object) {
        member::mark_as_managed(live);
    }

    fn wave_of(&self, object: &ObjectRef) -> u32 {
        order::rank_kind(&object.kind)
    }
}

impl AuthorAdvice for Ocm {
    fn build_starter(&self, clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
        starter::starter(clusters, templates)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    fn describe_kept_object(&self, object: &ObjectRef) -> Option<&'static str> {
        readers::describe_reader(object)
    }

    fn selected_by(&self) -> &'static str {
        "wrap it in a ManifestWorkReplicaSet"
    }

    fn find_references(&self, object: &Object) -> ObjectReferences {
        references::list_references(object)
    }
}

/// The seconds of a lease that an agent renews, unless its cluster states others.
const DEFAULT_LEASE: i64 = 60;

/// After how many leases a cluster counts as unreachable.
const LEASE_TIMES: i64 = 5;

/// The hub's control plane over one repo.
struct OcmPlanner<'a> {
    input: PlannerInput<'a>,
    hub: Hub<'a>,
    /// Sorted by namespace and name.
    placements: Vec<PlacementSubject<'a>>,
    /// Indexes of placements.
    by_id: BTreeMap<&'a ObjectRef, usize>,
    /// Sorted by object.
    bundles: Vec<WorkBundle<'a>>,
    findings: Vec<Finding>,
}

impl<'a> OcmPlanner<'a> {
    fn new(input: PlannerInput<'a>) -> Self {
        let (admitted, findings) = AdmittedObjects::from_repo(input.repo, &Ocm);
        let others =
            |kind: &'static str| admitted.with_role(Role::Other).filter(move |object| object.id.kind == kind);
        let fleet = Fleet::read(input.repo, input.clusters, input.now);
        let hub = Hub {
            sets: ClusterSets::read(others("ManagedClusterSet")),
            bindings: sets::read_bindings(others("ManagedClusterSetBinding")),
            scores: schedule::add_on_scores::AddOnScores::read(others("AddOnPlacementScore"), &fleet),
            fleet,
            now: input.now,
        };
        let mut objects: Vec<&Object> = admitted.with_role(Role::Placement).collect();
        objects.sort_by_key(|object| (&object.id.namespace, &object.id.name));
        let placements: Vec<PlacementSubject<'_>> =
            objects.iter().map(|object| PlacementSubject::new(object, &hub)).collect();
        let by_id = objects.iter().enumerate().map(|(at, object)| (&object.id, at)).collect();
        let bundles = works::read_bundles(admitted.with_role(Role::Bundle));
        Self { input, hub, placements, by_id, bundles, findings }
    }

    /// The bundle that is this object.
    fn find_bundle(&self, id: &ObjectRef) -> Option<&WorkBundle<'a>> {
        let at = self.bundles.binary_search_by(|bundle| bundle.object.id.cmp(id)).ok()?;
        self.bundles.get(at)
    }

    /// The decisions before this run: those of the previous plan, and those of the repo for other placements.
    fn read_decisions(&self, previous: &PreviousPlan) -> Decisions {
        Decisions::read(previous, self.input.repo.claimed_objects(NAME, Role::Other))
    }
}

impl PolicyPlanner for OcmPlanner<'_> {
    fn check_policies(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn decision_subjects(&self) -> Vec<federate_dialect::DecisionSubject> {
        let placements = self.placements.iter().map(|placement| placement.object);
        let all = placements.chain(self.bundles.iter().map(|bundle| bundle.object));
        let subjects = all.map(|object| federate_dialect::DecisionSubject {
            object: object.id.clone(),
            reads: TemplateReads::Subject,
        });
        subjects.collect()
    }

    /// Placements look at each other's decisions, so that all are decided together.
    fn decide_placements(&self, _: &ObjectRef, _: &PreviousPlan) -> DialectDecisions {
        DialectDecisions::default()
    }

    fn add_followers(&self, mut decided: DialectDecisions, previous: &PreviousPlan) -> DialectDecisions {
        let decisions = decision::decide_placements(self, previous, false);
        decided.placements.extend(decision::list_rows(self, &decisions));
        decided.findings.extend(findings::report_decisions(self, &decisions));
        decided.extend(works::decide_works(self, &decisions, previous));
        decided
    }

    fn rollout(&self) -> &dyn RolloutRules {
        self
    }

    fn render_placement(&self, placement: &Placement) -> Vec<ManifestVariant> {
        works::render_row(self, placement)
    }

    /// Works are sent as they are. An object that several own has the replicas of each in its clusters.
    fn may_change_replicas(&self, placement: &Placement) -> bool {
        works::list_shares(placement).len() > 1
    }

    fn decision_records(&self, placement: &Placement) -> Vec<Value> {
        self.by_id
            .get(&placement.object)
            .map(|at| decision::record_row(self, *at, placement))
            .unwrap_or_default()
    }

    fn explain_placement(
        &self,
        object: &ObjectRef,
        previous: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        match self.by_id.get(object) {
            Some(at) => explanation::explain_placement(self, *at, previous, placed),
            None => explanation::explain_work(self, object, previous, placed),
        }
    }

    fn reconciler(&self) -> &dyn MemberReconciler {
        self
    }

    fn kind_rules(&self) -> &dyn KindRules {
        self
    }

    fn keys(&self) -> &dyn DecisionKeys {
        self
    }

    fn failover(&self) -> &dyn FailoverRules {
        self
    }

    fn advice(&self) -> &dyn PolicyAdvice {
        self
    }
}

impl MemberReconciler for OcmPlanner<'_> {
    fn reconcile_object(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        works::reconcile_row(self, placement, cluster, live)
    }
}

impl KindRules for OcmPlanner<'_> {
    fn assess_health_by_repo(&self, live: &Object) -> Option<Health> {
        health::assess_health(&self.bundles, live)
    }
}

impl DecisionKeys for OcmPlanner<'_> {
    fn never_adds_followers(&self) -> bool {
        self.placements.is_empty() && self.bundles.is_empty()
    }
}

impl FailoverRules for OcmPlanner<'_> {
    fn always_evicts(&self) -> bool {
        failover::has_ends(self)
    }

    fn simulate_failover(
        &self,
        placement: &Placement,
        _: &Evictions,
        moment: &ScenarioMoment<'_>,
    ) -> FailoverOutcome {
        failover::end_tolerations(self, placement, moment)
    }
}

impl PolicyAdvice for OcmPlanner<'_> {
    fn check_policies_thoroughly(&self) -> Vec<Finding> {
        findings::examine_placements(self)
    }

    fn carried_templates(&self) -> Vec<CarriedTemplate> {
        self.bundles.iter().flat_map(WorkBundle::list_templates).collect()
    }
}
