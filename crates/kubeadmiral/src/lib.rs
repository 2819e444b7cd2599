//! The `KubeAdmiral` dialect: its scheduler, follower and namespace controllers, override controller
//! and sync controller, as pure functions.
//!
//! ```text
//! policies ─► trigger ─► schedule (filter, score, select, divide) ─► followers ─► overrides ─► manifest
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::kinds::GroupKinds;
use federate_kubernetes::{
    Capacity, Cluster, Connection, ConnectionError, Finding, LiveObjects, Object, ObjectRef, schema,
};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{ClaimedObject, Config, Repo, Role, Template};

use federate_dialect::admission::AdmittedObjects;
use federate_dialect::import::Importer;
use federate_dialect::serving_clusters::ServingClusters;
use federate_dialect::{
    AuthorAdvice, ClusterDependency, ClusterObservation, ClusterReads, ControlPlaneAction, DecisionKeys,
    DecisionSubject, Dialect, DialectDecisions, Explanation, FailoverRules, HubKinds, HubReader, KindCatalog,
    KindRules, ManifestVariant, MemberManager, MemberReconciler, MemberRules, MigrationOutcome,
    ObjectReferences, ObjectScope, OutageRules, OutageStep, Placement, PlannerInput, PodCounts, PolicyAdvice,
    PolicyPlanner, PreviousPlan, Starter, TemplateReads, UnplacedFollower, UnreadableObject, Unschedulable,
};

mod advice;
mod affinity;
mod api;
pub mod capacity;
mod cluster;
mod cluster_preferences;
mod connection;
mod decision;
mod effective_policy;
mod explanation;
mod follower_placement;
mod followers;
mod hash;
pub mod hub;
mod import;
mod json;
mod keys;
mod kinds;
mod manifest;
mod member;
pub mod migration;
mod namespaces;
mod overrides;
mod podspec;
mod policies;
mod profile;
mod references;
mod schedule;
mod source;
mod starter;
mod state;
mod trigger;
mod types;
mod validation;

use api::FederatedClusterResources;
use decision::{TemplateDecider, TemplateDecision};
use namespaces::NamespaceExclusions;
use overrides::{OverridePolicy, OverrideSpec};
use policies::{KubeAdmiralPolicies, KubeAdmiralPolicy};
use profile::Plugins;
use schedule::JoinedCluster;
use state::KubeAdmiralState;
use trigger::{RememberedClusters, TriggerClusters};
use types::FederatedKinds;

const NAME: &str = "kubeadmiral";
const GROUP: &str = "core.kubeadmiral.io";

/// The dialect.
pub struct KubeAdmiral;

impl Dialect for KubeAdmiral {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<Role> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            (GROUP, "FederatedCluster") => Some(Role::Inventory),
            (GROUP, "PropagationPolicy" | "ClusterPropagationPolicy") => Some(Role::Placement),
            (GROUP, "OverridePolicy" | "ClusterOverridePolicy") => Some(Role::Override),
            (GROUP, "SchedulingProfile" | "FederatedTypeConfig") => Some(Role::Other),
            _ => None,
        }
    }

    fn validate_object(&self, claimed: &ClaimedObject, _: &Config) -> Vec<Finding> {
        validation::check_object(&claimed.object)
    }

    fn read_cluster(&self, object: &Object, strict: bool, _: &Config) -> Result<Cluster, Finding> {
        cluster::read_cluster(object, strict)
    }

    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a> {
        Box::new(KubeAdmiralPlanner::new(input))
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

impl KindCatalog for KubeAdmiral {
    fn setting_keys(&self) -> &'static [&'static str] {
        &[namespaces::EXCLUDE_SETTING]
    }

    fn own_kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    fn own_domains(&self) -> &'static [&'static str] {
        &["kubeadmiral.io"]
    }

    fn metadata_keys(&self) -> &'static [&'static str] {
        &keys::READ_KEYS
    }
}

impl HubReader for KubeAdmiral {
    fn read_hub_plan(&self, hub: &[Object]) -> Result<federate_dialect::Plan, UnreadableObject> {
        Ok(hub::read_plan(hub))
    }

    fn compute_capacity(&self, _: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
        let written = capacity::compute_resources(nodes, pods, &[]).to_value();
        Some(cluster::to_capacity(FederatedClusterResources::deserialize(&written).ok()?))
    }

    fn compute_cluster_status(&self, object: &Object, seen: &ClusterObservation) -> Option<Value> {
        Some(capacity::observed_status(object, seen))
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn read_connection(&self, object: &Object) -> Result<Connection, ConnectionError> {
        connection::read_connection(object)
    }
}

impl OutageRules for KubeAdmiral {
    /// The conditions change once the cluster was unreachable at every probe for a while. They move nothing.
    fn outage_steps(&self, _: &Repo, cluster: &Cluster, _: bool) -> Vec<OutageStep> {
        let mut lost = cluster.clone();
        self.mark_unreachable(&mut lost);
        let what = format!("{}: Offline is True, Ready is Unknown", cluster.name);
        let capacity::StatusFlags { period, threshold } = capacity::StatusFlags::default();
        vec![OutageStep { seconds: (period + threshold).as_secs(), what, cluster: lost }]
    }
}

impl MemberRules for KubeAdmiral {
    fn member_managers(&self) -> &'static [MemberManager] {
        const { &[MemberManager { name: "kubeadmiral-controller-manager", label: None }] }
    }

    fn mark_as_managed(&self, live: &mut Object) {
        live.set_label(keys::MANAGED, "true");
    }
}

impl AuthorAdvice for KubeAdmiral {
    fn build_starter(&self, clusters: &[ConfiguredCluster], _: &[&ObjectRef]) -> Starter {
        starter::build_starter(clusters)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    fn selected_by(&self) -> &'static str {
        "name a policy in its label `kubeadmiral.io/propagation-policy-name` or `…/cluster-propagation-policy-name`"
    }

    fn find_references(&self, object: &Object) -> ObjectReferences {
        references::find_references(object)
    }
}

/// `KubeAdmiral`'s control plane over one repo.
struct KubeAdmiralPlanner<'a> {
    repo: &'a Repo,
    templates: &'a [Template],
    clusters: &'a [Cluster],
    members: Vec<JoinedCluster<'a>>,
    types: FederatedKinds,
    policies: KubeAdmiralPolicies<'a>,
    overrides: BTreeMap<ObjectRef, OverridePolicy<'a>>,
    namespaces: NamespaceExclusions,
    /// The joined clusters for the scheduler state, and their digest.
    snapshot: TriggerClusters,
    /// The clusters that last decisions saw.
    remembered: RememberedClusters,
    snapshot_digest: String,
    served: ServingClusters<'a>,
    now: Option<Timestamp>,
    live: &'a LiveObjects,
    implicit: bool,
    findings: Vec<Finding>,
}

impl KubeAdmiralPlanner<'_> {
    /// How replicas of a template migrate by themselves, by its policy.
    fn auto_migration(&self, template: &Object) -> Option<&api::AutoMigration> {
        self.policies.get(&policies::named_policy(template)?)?.spec.auto_migration.as_ref()
    }
}

impl<'a> KubeAdmiralPlanner<'a> {
    fn new(input: PlannerInput<'a>) -> Self {
        let PlannerInput { repo, clusters, .. } = input;
        let (admitted, mut findings) = AdmittedObjects::from_repo(repo, &KubeAdmiral);
        let mut policies = KubeAdmiralPolicies::default();
        for object in admitted.with_role(Role::Placement) {
            match KubeAdmiralPolicy::new(object, clusters) {
                Ok(policy) => drop(policies.policies.insert(object.id.clone(), policy)),
                Err(finding) => findings.push(finding),
            }
        }
        for profile in admitted.with_role(Role::Other).filter(|o| o.id.kind == "SchedulingProfile") {
            policies.profiles.insert(&profile.id.name, Plugins::from_profile(profile));
        }
        let mut overrides = BTreeMap::new();
        for object in admitted.with_role(Role::Override) {
            match schema::read_field::<OverrideSpec>(object, "spec", "invalid-policy") {
                Ok(spec) => {
                    let rules = spec.override_rules;
                    overrides.insert(object.id.clone(), OverridePolicy { object, rules });
                }
                Err(finding) => findings.push(finding),
            }
        }
        let configs: Vec<&Object> =
            admitted.with_role(Role::Other).filter(|o| o.id.kind == "FederatedTypeConfig").collect();
        let (namespaces, unclear) = NamespaceExclusions::new(repo, NAME);
        findings.extend(unclear);
        let templates = repo.templates.as_slice();
        let snapshot = TriggerClusters::from_inventory(repo, clusters);
        Self {
            repo,
            templates,
            clusters,
            members: JoinedCluster::joined_clusters(clusters),
            types: FederatedKinds::new(configs.into_iter()),
            policies,
            overrides,
            namespaces,
            snapshot_digest: snapshot.compute_digest(),
            snapshot,
            remembered: RememberedClusters::default(),
            served: ServingClusters::from_clusters(templates, clusters),
            now: input.now,
            live: input.live,
            implicit: input.implicit,
            findings,
        }
    }

    fn find_template(&self, id: &ObjectRef) -> Option<&'a Template> {
        let at = self.templates.binary_search_by(|t| t.object.id.cmp(id)).ok()?;
        self.templates.get(at)
    }

    fn find_cluster(&self, name: &str) -> Option<&'a Cluster> {
        let at = self.clusters.binary_search_by(|c| c.name.as_ref().cmp(name)).ok()?;
        self.clusters.get(at)
    }

    /// Whether the policy of a placement let others follow it when it was last scheduled.
    fn allows_followers(placement: &Placement) -> bool {
        placement.policy.is_some() && !KubeAdmiralState::from_row(placement).is_unfollowed
    }

    /// Whether `KubeAdmiral` is concerned with a template. In a repo of other control planes, only what names it is.
    fn knows_template(&self, template: &Object) -> bool {
        self.implicit || keys::has_own_keys(template)
    }

    /// Decides about one template, without dependencies on others.
    fn decide_template(&self, template: &Object, previous: &PreviousPlan) -> DialectDecisions {
        let mut decided = DialectDecisions::default();
        if !self.knows_template(template) {
            decided.depends = ClusterDependency::Placed;
            return decided;
        }
        let config = self.types.get(&template.id.api_version, &template.id.kind);
        let withheld = template.annotation(keys::NO_FEDERATED).is_some_and(|value| !value.is_empty());
        let Some(config) = config.filter(|_| !withheld) else {
            decided.placements.push(not_federated_row(template, withheld));
            return decided;
        };
        let decision = TemplateDecider::new(self, template, config, previous);
        decided.findings = advice::ignored_annotations(template, &decision);
        let TemplateDecision { mut placement, stays, .. } = decision.place_until_stable();
        // The scheduler states it once, in an Event. A plan says why the object runs nowhere for as long as it does.
        let remaining = decision.remaining_problem(&placement);
        if stays && remaining.is_none() && !self.namespaces.goes_to_every_cluster(template) {
            decided.depends = ClusterDependency::Placed;
        }
        placement.unschedulable = placement.unschedulable.or(remaining);
        if self.namespaces.goes_to_every_cluster(template) {
            decision::add_clusters(&mut placement, &namespaces::all_clusters(self.clusters));
            placement.policy = None;
            if placement.unschedulable.as_ref().is_some_and(|u| u.reason == "NoPolicy") {
                placement.unschedulable = None;
            }
        }
        placement.implicit = placement.policy.is_none();
        if placement.unschedulable.is_none() && !placement.clusters.is_empty() {
            placement.unschedulable = decision::override_problem(self, template, &placement);
        }
        decided.placements.push(placement);
        decided
    }
}

/// The reason of a template that is not federated.
const NOT_FEDERATED: &str = "NotFederated";

fn not_federated_row(template: &Object, requested: bool) -> Placement {
    let mut placement = Placement::new(NAME, template.id.clone(), None);
    placement.implicit = true;
    let message = if requested {
        format!("it has the annotation {}", keys::NO_FEDERATED)
    } else {
        format!("no FederatedTypeConfig has the type {} {}", template.id.api_version, template.id.kind)
    };
    placement.unschedulable = Some(Unschedulable { reason: NOT_FEDERATED.to_owned(), message });
    placement
}

impl PolicyPlanner for KubeAdmiralPlanner<'_> {
    fn check_policies(&self) -> Vec<Finding> {
        let policies = self.policies.policies.values();
        let unknown = policies.filter_map(|p| advice::unknown_capacity(p, self.clusters));
        let leaders = self.templates.par_iter();
        let missing: Vec<Finding> = leaders
            .flat_map_iter(|leader| advice::missing_followers(&leader.object, self.templates))
            .collect();
        self.findings.iter().cloned().chain(unknown).chain(missing).collect()
    }

    fn decision_subjects(&self) -> Vec<DecisionSubject> {
        let templates = self.templates.iter().map(|template| &template.object);
        let known = templates.filter(|template| self.knows_template(template));
        known.map(|one| DecisionSubject { object: one.id.clone(), reads: TemplateReads::Subject }).collect()
    }

    fn decide_placements(&self, subject: &ObjectRef, previous: &PreviousPlan) -> DialectDecisions {
        self.find_template(subject).map_or_else(DialectDecisions::default, |template| {
            self.decide_template(&template.object, previous)
        })
    }

    fn add_followers(&self, decided: DialectDecisions, previous: &PreviousPlan) -> DialectDecisions {
        let mut all = follower_placement::add_followers(self, decided);
        all.shared =
            trigger::shared_clusters(&all.placements, &self.snapshot, &self.snapshot_digest, previous);
        all
    }

    fn render_placement(&self, placement: &Placement) -> Vec<ManifestVariant> {
        match self.find_template(&placement.object) {
            Some(template) => manifest::render_template(self, placement, template),
            None => Vec::new(),
        }
    }

    fn may_change_replicas(&self, placement: &Placement) -> bool {
        self.find_template(&placement.object)
            .is_some_and(|template| manifest::may_change_replicas(self, &template.object))
    }

    fn explain_placement(
        &self,
        object: &ObjectRef,
        previous: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        explanation::explain_template(self, &self.find_template(object)?.object, previous, placed)
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

impl MemberReconciler for KubeAdmiralPlanner<'_> {
    fn cluster_reads(&self) -> ClusterReads {
        let policies = self.policies.policies.values();
        let unknown = policies.flat_map(|policy| advice::without_capacity(policy, self.clusters));
        let capacity = unknown.map(|cluster| cluster.name.clone()).collect();
        let mut reads = ClusterReads { capacity, ..ClusterReads::default() };
        for template in self.templates.iter().map(|template| &template.object) {
            if migration::is_counted(&template.id) && self.auto_migration(template).is_some() {
                reads.add_workload(&template.id);
                let replica_sets = ObjectScope {
                    api_version: "apps/v1".to_owned(),
                    kind: "ReplicaSet".to_owned(),
                    namespace: template.id.namespace.clone(),
                };
                reads.objects.insert(replica_sets);
            }
        }
        reads
    }

    fn reconcile_object(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        member::reconcile_member(self, placement, cluster, live)
    }
}

impl KindRules for KubeAdmiralPlanner<'_> {
    fn stated_replicas(&self, object: &Object) -> Option<i64> {
        self.types.get(&object.id.api_version, &object.id.kind)?.replicas_of(&object.body)
    }
}

impl DecisionKeys for KubeAdmiralPlanner<'_> {
    /// The scheduler compares the labels, the taints and the API types of all joined clusters.
    fn inventory_digest(&self) -> String {
        self.snapshot_digest.clone()
    }
}

impl FailoverRules for KubeAdmiralPlanner<'_> {
    fn counts_pods_after(&self) -> Option<i64> {
        let mut policies = self.policies.policies.values();
        policies
            .any(|policy| policy.spec.auto_migration.is_some())
            .then_some(migration::scenario::RECONCILE_DELAY)
    }

    /// Only pods of Deployments are counted.
    fn record_unschedulable(
        &self,
        object: &ObjectRef,
        placement: &Placement,
        pods: &PodCounts,
        seconds: i64,
    ) -> MigrationOutcome {
        let config = self.types.get(&object.api_version, &object.kind).filter(|config| config.migrates);
        let is_counted = migration::is_counted(object);
        let policy = placement.policy.as_ref().and_then(|policy| self.policies.get(policy));
        let policy = policy.and_then(|policy| policy.spec.auto_migration.as_ref());
        match policy.filter(|_| is_counted && config.is_some()) {
            Some(policy) => migration::scenario::record_estimates(policy, placement, pods, seconds),
            None => MigrationOutcome::default(),
        }
    }
}

impl PolicyAdvice for KubeAdmiralPlanner<'_> {
    fn check_policies_thoroughly(&self) -> Vec<Finding> {
        let templates = self.templates.par_iter().map(|template| &template.object);
        templates
            .flat_map_iter(|template| {
                let policy = policies::named_policy(template).filter(|id| self.policies.get(id).is_some());
                advice::find_replaced_policy(template, policy.as_ref())
            })
            .collect()
    }

    /// The annotation that stops the scheduler also stops it from withdrawing what names no policy.
    fn is_unclaimed(&self, template: &Object, row: &Placement) -> bool {
        row.policy.is_none()
            && row.unschedulable.is_some()
            && !row.clusters.is_empty()
            && !self.namespaces.goes_to_every_cluster(template)
    }

    fn unplaced_followers(
        &self,
        templates: &[ObjectRef],
        placements: &[Placement],
    ) -> BTreeMap<ObjectRef, UnplacedFollower> {
        follower_placement::unplaced_followers(templates, placements)
    }
}
