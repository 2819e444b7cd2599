//! The `KubeFleet` dialect (Azure Kubernetes Fleet Manager): scheduler, resource selection, overrides and
//! rollout as pure functions.
//!
//! ```text
//! decide ─► schedule (eligibility ─► score, spread ─► pick)
//!   └─► select: the objects that go where their placement goes
//! member ─► what is there: taken over, compared, applied; then health, wave after wave
//! ```
//!
//! `KubeFleet` places placements: each stands alone, and everything it selects goes to the same
//! clusters.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use federate_kubernetes::kinds::GroupKinds;
use federate_kubernetes::{
    Capacity, Cluster, ClusterName, Connection, ConnectionError, Finding, Object, ObjectRef,
};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{ClaimedObject, Config, ImpliedScope, Repo, Role};

use federate_dialect::admission::AdmittedObjects;
use federate_dialect::import::Importer;
use federate_dialect::release::{self, NamedRelease, ReleaseCatalog, UnknownRelease};
use federate_dialect::{
    AuthorAdvice, CarriedTemplate, ClusterObservation, ClusterReads, ControlPlaneAction, DecisionKeys,
    Dialect, DialectDecisions, Explanation, Health, HubKinds, HubReader, KindCatalog, ManifestVariant,
    MemberManager, MemberReconciler, MemberRules, NotSent, ObjectReferences, OutageRules, OutageStep,
    Placement, Plan, PlannerInput, PolicyAdvice, PolicyClusters, PolicyPlanner, PolicyRollout, PreviousPlan,
    Release, RenamedGroup, RenderedManifest, ReplicaFields, RolloutDriver, RolloutMoment, RolloutRules,
    RolloutStep, RolloutSubject, Starter, TemplateReads, UnreadableObject,
};

mod affinity;
mod api;
pub mod capacity;
mod cluster;
mod decision;
mod envelope;
mod explanation;
pub mod failover;
mod failure;
mod health;
pub mod hub;
mod import;
mod kinds;
mod manifest;
pub mod member;
pub mod membership;
mod overrides;
mod properties;
mod references;
pub mod rollout;
pub mod schedule;
mod selection;
mod shared_objects;
mod starter;
mod state;
mod subject;
mod updates;
mod validation;
mod version;
mod waves;

use api::{NAME, PLACEMENT_GROUP, PlacementPolicy, PlacementType};
use manifest::{PlacementManifests, SentObject};
use overrides::work::{WorkInputs, WorkSources};
use overrides::{KubeFleetOverride, Overrides};
use rollout::controller::RolloutController;
use rollout::update_runs::UpdateRuns;
use selection::HubIndex;
use state::KubeFleetState;
use subject::{PlacementSubject, Selections};

use version::DroppedFields;
pub use version::{KubeFleetBehaviour, RELEASES};

/// The API group of member clusters.
const CLUSTER_GROUP: &str = "cluster.kubernetes-fleet.io";

/// The dialect.
pub struct KubeFleet;

impl Dialect for KubeFleet {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<Role> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            (CLUSTER_GROUP, "MemberCluster") => Some(Role::Inventory),
            (PLACEMENT_GROUP, "ClusterResourcePlacement" | "ResourcePlacement") => Some(Role::Placement),
            (PLACEMENT_GROUP, "ClusterResourceOverride" | "ResourceOverride") => Some(Role::Override),
            (
                PLACEMENT_GROUP,
                "ClusterResourceEnvelope"
                | "ResourceEnvelope"
                | "ClusterStagedUpdateStrategy"
                | "StagedUpdateStrategy"
                | "ClusterStagedUpdateRun"
                | "StagedUpdateRun"
                | "ClusterResourcePlacementDisruptionBudget"
                | "ClusterResourcePlacementEviction",
            ) => Some(Role::Other),
            _ => None,
        }
    }

    fn validate_object(&self, claimed: &ClaimedObject, config: &Config) -> Vec<Finding> {
        validation::validate_object(&claimed.object, &KubeFleetBehaviour::from_config(config))
    }

    fn read_cluster(&self, object: &Object, strict: bool, config: &Config) -> Result<Cluster, Finding> {
        Ok(cluster::read_cluster(object, strict, &KubeFleetBehaviour::from_config(config)))
    }

    fn policies_of(&self, row: &Placement) -> Vec<PolicyClusters> {
        let shares = shared_objects::read_shares(row).into_iter();
        shares.map(|share| PolicyClusters { policy: share.policy, clusters: share.clusters }).collect()
    }

    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a> {
        Box::new(KubeFleetPlane::new(input))
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

impl KindCatalog for KubeFleet {
    fn own_kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    /// A placement of the whole cluster selects cluster-scoped objects, and a placement of a namespace those in it.
    fn implied_scopes(&self, object: &Object) -> Vec<ImpliedScope> {
        selection::implied_scopes(object)
    }

    fn own_domains(&self) -> &'static [&'static str] {
        &["kubernetes-fleet.io", "kubefleet.dev"]
    }

    fn setting_keys(&self) -> &'static [&'static str] {
        &[release::VERSION_SETTING, version::WEBHOOK_SETTING]
    }

    fn renamed_groups(&self) -> &'static [RenamedGroup] {
        &[RenamedGroup { group: "fleet.azure.com", now: "placement.kubernetes-fleet.io" }]
    }

    fn releases(&self) -> Option<&'static ReleaseCatalog> {
        Some(&RELEASES)
    }
}

impl HubReader for KubeFleet {
    fn read_hub_plan(&self, hub: &[Object]) -> Result<Plan, UnreadableObject> {
        hub::read_plan(hub)
    }

    fn detect_release(&self, objects: &[&Object]) -> Option<Result<NamedRelease, UnknownRelease>> {
        version::installed_release(objects)
    }

    fn compute_capacity(&self, _: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
        capacity::compute_capacity(nodes, pods)
    }

    fn compute_properties(&self, nodes: &[Object]) -> BTreeMap<String, String> {
        capacity::compute_properties(nodes)
    }

    fn compute_cluster_status(&self, _: &Object, seen: &ClusterObservation) -> Option<Value> {
        capacity::compute_status(seen)
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn read_connection(&self, _: &Object) -> Result<Connection, ConnectionError> {
        let why =
            "its MemberCluster contains no connection details: an agent in the cluster connects to the hub";
        Err(ConnectionError::NoDetails(why))
    }
}

impl OutageRules for KubeFleet {
    /// The agent of a lost cluster sends no heartbeat. What is placed stays, but nothing new is placed there.
    fn outage_steps(&self, _: &Repo, cluster: &Cluster, _: bool) -> Vec<OutageStep> {
        let mut lost = cluster.clone();
        self.mark_unreachable(&mut lost);
        let what = format!("{}: no heartbeat for 5 minutes, nothing new is placed there", cluster.name);
        vec![OutageStep { seconds: HEARTBEAT_TIMEOUT, what, cluster: lost }]
    }

    /// The agent confirms that it leaves; without an answer it is forced to.
    fn leaves_after(&self, reachable: bool) -> i64 {
        membership::time_until_gone(reachable, membership::FORCE_DELETE_WAIT).as_secs()
    }

    /// A cycle starts when the object is gone.
    fn notices_deletion(&self) -> bool {
        false
    }
}

impl MemberRules for KubeFleet {
    fn member_managers(&self) -> &'static [MemberManager] {
        const { &[MemberManager { name: member::FIELD_MANAGER, label: None }] }
    }

    fn mark_as_managed(&self, live: &mut Object) {
        if live.annotation(member::HASH_ANNOTATION).is_none() {
            live.set_annotation(member::HASH_ANNOTATION, "");
        }
    }

    fn assess_health(&self, live: &Object, _: &Config) -> Health {
        health::neutral_health(live)
    }

    fn wave_of(&self, object: &ObjectRef) -> u32 {
        waves::find_wave(object)
    }
}

impl AuthorAdvice for KubeFleet {
    fn build_starter(&self, clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
        starter::build_starter(clusters, templates)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    fn find_references(&self, object: &Object) -> ObjectReferences {
        references::collect_references(object)
    }
}

/// The seconds after which a cluster without heartbeats is not eligible.
const HEARTBEAT_TIMEOUT: i64 = 300;

/// `KubeFleet`'s control plane over one repo.
struct KubeFleetPlane<'a> {
    input: PlannerInput<'a>,
    /// The rules of the release.
    behaviour: KubeFleetBehaviour,
    /// Placements that admission refuses have a row as well, which says so.
    placements: Vec<PlacementSubject<'a>>,
    overrides: Overrides<'a>,
    update_runs: UpdateRuns<'a>,
    /// Decisions by placement and by selected object; the first placement counts.
    about: BTreeMap<ObjectRef, usize>,
    findings: Vec<Finding>,
}

/// Drops failures of selectors that are invalid: the selection fails because of that.
fn drop_followers(findings: &mut Vec<Finding>) {
    let mut invalid = BTreeSet::new();
    for finding in findings.iter().filter(|finding| finding.is_error() && finding.code == "invalid-policy") {
        let selector = finding.pointer.split('/').take(4).collect::<Vec<_>>().join("/");
        invalid.insert((finding.object.clone(), selector));
    }
    findings.retain(|finding| {
        finding.code != selection::SELECTION_FAILED
            || !invalid.contains(&(finding.object.clone(), finding.pointer.clone()))
    });
}

impl<'a> KubeFleetPlane<'a> {
    fn new(input: PlannerInput<'a>) -> Self {
        let (behaviour, unknown) = KubeFleetBehaviour::from_repo(input.repo);
        let (admitted, mut findings) = AdmittedObjects::from_repo(input.repo, &KubeFleet);
        findings.extend(unknown);
        let mut admitted_overrides: Vec<&Object> = admitted.with_role(Role::Override).collect();
        if behaviour.has_webhooks {
            findings.extend(overrides::refuse_shared_targets(&mut admitted_overrides));
        }
        let (overrides, unread) = Overrides::new(admitted_overrides.into_iter());
        findings.extend(unread);
        let about = BTreeMap::new();
        let update_runs = UpdateRuns::from_repo(input.repo);
        let placements = Vec::new();
        let mut plane = Self { input, behaviour, placements, overrides, update_runs, about, findings };
        let hub = LazyCell::new(|| HubIndex::new(input.repo, behaviour));
        let mut selections = Selections::default();
        for object in input.repo.claimed_objects(NAME, Role::Placement) {
            let object = DroppedFields::for_placement(object, &behaviour).drop_from(object);
            let unserved = if behaviour.has_webhooks {
                selection::refuse_unserved_versions(&hub, &object)
            } else {
                Vec::new()
            };
            let refused = admitted.is_refused(&object.id) || !unserved.is_empty();
            plane.findings.extend(unserved);
            let earlier = updates::earlier_object(&object, input.previous);
            let update =
                earlier.as_ref().filter(|_| !refused).and_then(|old| updates::refuse_update(old, &object));
            // The API server keeps the placement before an update that it refuses.
            let stored = earlier.filter(|_| refused || update.is_some());
            plane.findings.extend(update);
            let is_admitted = !refused || stored.is_some();
            let is_former = stored.is_some();
            let object = stored.map_or(object, Cow::Owned);
            // The schema check reports a policy that cannot be read.
            let mut subject = match PlacementPolicy::from_json(object.value_at(&["spec", "policy"])) {
                Ok(policy) => {
                    PlacementSubject::new(&hub, &mut selections, object, policy, &mut plane.findings)
                }
                Err(_) => PlacementSubject::with_unreadable_policy(object),
            };
            subject.admitted = is_admitted;
            subject.is_former = is_former;
            if let Some(row) = input.previous.find_row(&subject.object.id) {
                subject.works = KubeFleetState::from_row(row).work_inputs();
            }
            plane.placements.push(subject);
        }
        drop_followers(&mut plane.findings);
        for (unit, subject) in plane.placements.iter().enumerate() {
            plane.about.entry(subject.object.id.clone()).or_insert(unit);
            // Of placements with the same selectors, the first counts.
            let before = unit.checked_sub(1).and_then(|before| plane.placements.get(before));
            if !before.is_some_and(|before| before.shares_selection(subject)) {
                for id in subject.selected_objects() {
                    plane.about.entry(id.clone()).or_insert(unit);
                }
            }
        }
        plane
    }

    /// The placement with that id.
    fn find_subject(&self, id: &ObjectRef) -> Option<&PlacementSubject<'a>> {
        let subject = self.placements.get(*self.about.get(id)?)?;
        (subject.object.id == *id).then_some(subject)
    }

    /// The resources and overrides of a placement, if some of the overrides read the labels of clusters.
    fn work_sources<'s>(&self, subject: &'s PlacementSubject<'a>) -> Option<&'s WorkSources> {
        let sources = subject.work_sources.get_or_init(|| {
            let targets = subject.items().iter().map(SentObject::override_target);
            let is_fixed = subject.items().iter().all(|item| !item.differs_by_cluster());
            WorkSources::from_overrides(&self.overrides, &subject.object.id, targets, || {
                subject.items().iter().map(|item| item.render_body("")).collect()
            })
            .filter(|_| is_fixed)
        });
        sources.as_ref()
    }

    /// What the works of a cluster were written with, if the same resources and overrides are in force now.
    fn former_inputs<'s>(
        &self,
        subject: &'s PlacementSubject<'a>,
        cluster: &Cluster,
    ) -> Option<&'s WorkInputs> {
        let former = subject.works.get(&cluster.name)?;
        let now = self.work_sources(subject)?.compute_inputs(&self.overrides, cluster)?;
        (now.digest == former.digest).then_some(former)
    }

    /// The cluster as overrides see it: with the labels that its works were written with.
    fn with_former_labels<'c>(
        &self,
        subject: &PlacementSubject<'a>,
        cluster: &'c Cluster,
    ) -> Cow<'c, Cluster> {
        match (self.former_inputs(subject, cluster), self.work_sources(subject)) {
            (Some(former), Some(sources)) => Cow::Owned(sources.with_former_labels(cluster, former)),
            _ => Cow::Borrowed(cluster),
        }
    }

    /// What the works of clusters are written with. Works that cannot be written are left out.
    fn work_inputs<'c>(
        &self,
        subject: &PlacementSubject<'a>,
        clusters: impl Iterator<Item = &'c Cluster>,
    ) -> BTreeMap<ClusterName, WorkInputs> {
        let Some(sources) = self.work_sources(subject).filter(|_| subject.withheld_reason().is_none()) else {
            return BTreeMap::new();
        };
        let clusters: Vec<&Cluster> = clusters.collect();
        let names: Vec<ClusterName> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
        self.with_manifests(subject, &names, |sending| {
            let written = clusters.iter().filter(|cluster| sending.failure_reason(&cluster.name).is_none());
            let inputs = written.filter_map(|cluster| {
                let former = self.former_inputs(subject, cluster).cloned();
                let inputs = former.or_else(|| sources.compute_inputs(&self.overrides, cluster))?;
                Some((cluster.name.clone(), inputs))
            });
            inputs.collect()
        })
    }

    /// The variants of an object that a placement selects.
    fn render_selected(
        &self,
        subject: &PlacementSubject<'a>,
        object: &ObjectRef,
        clusters: &[ClusterName],
    ) -> Vec<ManifestVariant> {
        // Its own row stands for no manifest.
        if *object == subject.object.id {
            return Vec::new();
        }
        if let Some(status) = subject.withheld_reason() {
            let withheld = NotSent { status, finding: None };
            return vec![ManifestVariant { clusters: clusters.into(), rendered: Err(withheld) }];
        }
        let Some(index) = subject.find_index(object) else { return Vec::new() };
        self.with_manifests(subject, clusters, |sending| sending.render_item(index))
    }

    /// The manifest of the object for one of these clusters.
    fn render_variant(
        &self,
        subject: &PlacementSubject<'a>,
        object: &ObjectRef,
        clusters: &[ClusterName],
        cluster: &ClusterName,
    ) -> Option<Result<RenderedManifest, NotSent>> {
        if let Some(status) = subject.withheld_reason().filter(|_| *object != subject.object.id) {
            return Some(Err(NotSent { status, finding: None }));
        }
        let index = subject.find_index(object)?;
        self.with_manifests(subject, clusters, |sending| sending.render_variant(index, cluster))
    }

    /// Whether overrides may change the replicas of an object that a placement sends.
    fn may_override_replicas(&self, subject: &PlacementSubject<'a>, object: &ObjectRef) -> bool {
        let Some(item) = subject.find_index(object).and_then(|at| subject.items().get(at)) else {
            return false;
        };
        let target = item.override_target();
        let fields = ReplicaFields::for_kind(object);
        // In an envelope that is overridden as a whole, the object is text.
        let is_reached = |path: &str| target != object || fields.may_be_at(path);
        let overrides = self.overrides.overrides_for(&subject.object.id, target);
        overrides.into_iter().flat_map(KubeFleetOverride::patched_paths).any(is_reached)
    }

    /// Calls `ask` with what a placement sends to clusters. All its objects go to the same clusters, except
    /// where two placements send the same object.
    fn with_manifests<T>(
        &self,
        subject: &PlacementSubject<'a>,
        clusters: &[ClusterName],
        ask: impl FnOnce(&PlacementManifests<'a>) -> T,
    ) -> T {
        let (of, first) =
            subject.manifests.get_or_init(|| (clusters.to_vec(), self.collect_manifests(subject, clusters)));
        if of == clusters { ask(first) } else { ask(&self.collect_manifests(subject, clusters)) }
    }

    /// Collects what a placement sends to clusters, given in ascending order.
    fn collect_manifests(
        &self,
        subject: &PlacementSubject<'a>,
        clusters: &[ClusterName],
    ) -> PlacementManifests<'a> {
        let placed = self.input.clusters.iter().filter(|c| clusters.binary_search(&c.name).is_ok());
        let placed: Vec<Cow<'_, Cluster>> = placed.map(|c| self.with_former_labels(subject, c)).collect();
        let placed: Vec<&Cluster> = placed.iter().map(AsRef::as_ref).collect();
        PlacementManifests::new(&self.overrides, &subject.object.id, Arc::clone(subject.items()), &placed)
    }
}

impl PolicyPlanner for KubeFleetPlane<'_> {
    fn check_policies(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn decision_subjects(&self) -> Vec<federate_dialect::DecisionSubject> {
        let subjects = self.placements.iter().map(|placement| federate_dialect::DecisionSubject {
            object: placement.object.id.clone(),
            reads: TemplateReads::Templates,
        });
        subjects.collect()
    }

    fn decide_placements(&self, subject: &ObjectRef, previous: &PreviousPlan) -> DialectDecisions {
        self.find_subject(subject)
            .map(|subject| decision::decide_placement(self, subject, previous))
            .unwrap_or_default()
    }

    fn add_followers(&self, decided: DialectDecisions, previous: &PreviousPlan) -> DialectDecisions {
        shared_objects::join_rows(self.input.repo, decided, previous)
    }

    fn rollout(&self) -> &dyn RolloutRules {
        self
    }

    fn render_placement(&self, placement: &Placement) -> Vec<ManifestVariant> {
        let variants = shared_objects::read_shares(placement).into_iter().filter_map(|share| {
            Some(self.render_selected(self.find_subject(&share.policy)?, &placement.object, &share.clusters))
        });
        variants.flatten().collect()
    }

    fn may_change_replicas(&self, placement: &Placement) -> bool {
        let shares = shared_objects::read_shares(placement);
        let mut subjects = shares.iter().filter_map(|share| self.find_subject(&share.policy));
        // Several envelopes may hold an object, of which the placement selects another than the first.
        self.input.repo.find_template(&placement.object).is_none()
            || subjects.any(|subject| self.may_override_replicas(subject, &placement.object))
    }

    fn explain_placement(
        &self,
        object: &ObjectRef,
        previous: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        let subject = self.placements.get(*self.about.get(object)?)?;
        Some(explanation::explain_placement(self, subject, object, previous, placed))
    }

    fn reconciler(&self) -> &dyn MemberReconciler {
        self
    }

    fn keys(&self) -> &dyn DecisionKeys {
        self
    }

    fn advice(&self) -> &dyn PolicyAdvice {
        self
    }
}

impl MemberReconciler for KubeFleetPlane<'_> {
    fn cluster_reads(&self) -> ClusterReads {
        let policies = self.placements.iter().map(|placement| &placement.policy);
        let capacity = policies
            .flat_map(|policy| properties::clusters_lacking_properties(policy, self.input.clusters))
            .collect();
        ClusterReads { capacity, ..ClusterReads::default() }
    }

    fn reconcile_object(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        member::action::decide_action(self, placement, cluster, live)
    }
}

impl DecisionKeys for KubeFleetPlane<'_> {
    /// Rows are joined only if several placements select one object.
    fn never_adds_followers(&self) -> bool {
        let selected: usize =
            self.placements.iter().map(|subject| 1 + subject.selected_objects().len()).sum();
        selected == self.about.len()
    }
}

impl PolicyAdvice for KubeFleetPlane<'_> {
    fn release(&self) -> Option<Release> {
        Some(self.behaviour.release)
    }

    fn rule_differences(&self, other: Release) -> Vec<&'static str> {
        self.behaviour.find_differences(&KubeFleetBehaviour::for_release(other))
    }

    fn check_policies_thoroughly(&self) -> Vec<Finding> {
        let fixed = self.placements.iter().filter(|one| {
            one.policy.placement_type == PlacementType::PickFixed && one.policy.cluster_names.is_empty()
        });
        fixed.map(|one| validation::pick_fixed_without_names(&one.object)).collect()
    }

    fn carried_templates(&self) -> Vec<CarriedTemplate> {
        let others = self.input.repo.claimed_objects(NAME, Role::Other);
        others.filter(|object| envelope::is_envelope(&object.id)).flat_map(envelope::list_templates).collect()
    }

    fn never_propagated_reason(&self, template: &Object) -> Option<String> {
        let why = selection::stays_on_hub(template, &self.behaviour)?;
        Some(format!("KubeFleet never places it, because {why}"))
    }
}

impl RolloutRules for KubeFleetPlane<'_> {
    fn has_rollout_limits(&self) -> bool {
        !self.placements.is_empty()
    }

    fn controls_updates_of(&self, policy: &ObjectRef, driver: RolloutDriver) -> bool {
        self.find_subject(policy)
            .is_some_and(|subject| rollout::controller::limits_rollout(&subject.object, driver))
    }

    /// The time after which a cluster whose availability cannot be tracked counts as available.
    fn availability_delay(&self, policy: &ObjectRef) -> SignedDuration {
        let subject = self.find_subject(policy);
        let limits = subject.and_then(|subject| rollout::api::read_rolling_update(&subject.object).ok());
        SignedDuration::from_secs(limits.unwrap_or_default().unavailable_period_seconds())
    }

    fn advance_rollout(
        &self,
        subject: &RolloutSubject<'_>,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Option<RolloutStep> {
        let placement = self.find_subject(subject.policy)?;
        let is_tracked = placement.items().iter().all(|item| health::is_tracked(&item.id));
        let controller = RolloutController {
            repo: self.input.repo,
            clusters: self.input.clusters,
            placement: &placement.object,
            subject: *subject,
            trackable: is_tracked || moment.driver == RolloutDriver::Scenario,
            behaviour: self.behaviour,
        };
        controller.advance(rollout, moment)
    }
}
