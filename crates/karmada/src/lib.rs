//! The Karmada dialect: Karmada's detector, scheduler, dependency distributor, binding controller and
//! override manager, as pure functions.
//!
//! ```text
//! policies ─► schedule (trigger, filter, select, assign) ─► dependents ─► manifest (revise, override, prune)
//! member   live object ─► create, update (retain), adopt, delete
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::kinds::GroupKinds;
use federate_kubernetes::{
    Capacity, Cluster, Connection, ConnectionError, Finding, LiveObjects, Object, ObjectRef, Taint,
};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{ClaimedObject, Config, Repo, Role, Template};
use serde_json::Value;

use federate_dialect::admission::AdmittedObjects;
use federate_dialect::import::Importer;
use federate_dialect::release::{self, NamedRelease, ReleaseCatalog, UnknownRelease};
use federate_dialect::serving_clusters::ServingClusters;
use federate_dialect::{
    AuthorAdvice, ClusterObservation, ClusterReads, ControlPlaneAction, DecisionKeys, DecisionSubject,
    Dialect, DialectDecisions, Evictions, Explanation, FailoverOutcome, FailoverRules, Health, HubKinds,
    HubReader, KindCatalog, KindRules, ManifestVariant, MemberManager, MemberReconciler, MemberRules,
    ObjectReferences, OutageRules, OutageStep, Placement, Plan, PlannerInput, PolicyAdvice, PolicyPlanner,
    PreviousPlan, Release, ScenarioMoment, SharedLists, Starter, TemplateReads, UnplacedFollower,
    UnreadableObject,
};

mod affinity;
mod api;
mod builtin_workload;
pub mod capacity;
mod cluster;
mod connection;
mod decision;
mod defaults;
mod dependencies;
mod dependents;
mod explanation;
pub mod failover;
mod groups;
mod health;
pub mod hub;
mod import;
mod ineffective_settings;
pub mod interpreter;
mod kinds;
mod manifest;
pub mod member;
mod overrides;
mod policies;
mod pruning;
pub mod quota;
mod rebalancers;
mod references;
mod revision;
mod schedule;
mod selector;
mod server_defaults;
mod starter;
mod state;
mod thirdparty;
mod unclaimed_objects;
mod validation;
mod version;
mod workload;

use groups::ClusterGroups;
use interpreter::Interpreter;
use overrides::OverridePolicies;
use policies::{PropagationPolicies, PropagationPolicy};
use quota::PlannedQuota;
use rebalancers::Rebalancers;
use schedule::Estimator;
use unclaimed_objects::Unclaimed;
use version::{FEATURE_GATES, KarmadaBehaviour};

pub use state::KarmadaState;
pub use version::RELEASES;

const NAME: &str = "karmada";

/// The dialect.
pub struct Karmada;

impl Dialect for Karmada {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<Role> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            ("cluster.karmada.io", "Cluster") => Some(Role::Inventory),
            ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy") => Some(Role::Placement),
            ("policy.karmada.io", "OverridePolicy" | "ClusterOverridePolicy") => Some(Role::Override),
            ("apps.karmada.io", "WorkloadRebalancer")
            | ("policy.karmada.io", "ClusterTaintPolicy" | "FederatedResourceQuota")
            | ("config.karmada.io", "ResourceInterpreterCustomization") => Some(Role::Other),
            _ => None,
        }
    }

    fn validate_object(&self, claimed: &ClaimedObject, config: &Config) -> Vec<Finding> {
        validation::validate_object(&claimed.object, &KarmadaBehaviour::from_config(config, NAME))
    }

    fn read_cluster(&self, object: &Object, strict: bool, _: &Config) -> Result<Cluster, Finding> {
        cluster::read_cluster(object, strict)
    }

    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a> {
        Box::new(KarmadaPlanner::new(input))
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

impl KindCatalog for Karmada {
    fn own_kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    fn own_domains(&self) -> &'static [&'static str] {
        &["karmada.io"]
    }

    fn setting_keys(&self) -> &'static [&'static str] {
        &[release::VERSION_SETTING, FEATURE_GATES, unclaimed_objects::SETTING]
    }

    fn releases(&self) -> Option<&'static ReleaseCatalog> {
        Some(&RELEASES)
    }
}

impl HubReader for Karmada {
    fn detect_release(&self, objects: &[&Object]) -> Option<Result<NamedRelease, UnknownRelease>> {
        hub::read_installed_release(objects)
    }

    fn read_hub_plan(&self, hub: &[Object]) -> Result<Plan, UnreadableObject> {
        Ok(Plan { placements: hub::read_placements(hub)?, ..Plan::default() })
    }

    fn unread_hub_objects<'a>(&self, hub: &'a [Object]) -> Vec<(&'a ObjectRef, &'static str)> {
        hub::find_left_out(hub)
    }

    fn compute_capacity(&self, object: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
        cluster::compute_capacity(object, nodes, pods)
    }

    fn compute_cluster_status(&self, object: &Object, seen: &ClusterObservation) -> Option<Value> {
        capacity::status_from_observation(object, seen)
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn read_connection(&self, object: &Object) -> Result<Connection, ConnectionError> {
        connection::read_connection(object)
    }
}

impl OutageRules for Karmada {
    /// A cluster that cannot be reached is tainted. Its workloads stay, because eviction is off by default.
    fn mark_unreachable(&self, cluster: &mut Cluster) {
        const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
        cluster.ready = false;
        if !cluster.taints.iter().any(|taint| taint.key == UNREACHABLE && taint.effect == "NoSchedule") {
            let (key, effect) = (UNREACHABLE.to_owned(), "NoSchedule".to_owned());
            cluster.taints.push(Taint { key, value: String::new(), effect });
        }
    }

    fn outage_steps(&self, repo: &Repo, cluster: &Cluster, failover: bool) -> Vec<OutageStep> {
        failover::scenario::simulate_outage(repo, cluster, failover)
    }
}

impl MemberRules for Karmada {
    fn member_managers(&self) -> &'static [MemberManager] {
        // The latter in clusters with the sync mode Pull.
        const {
            &[
                MemberManager { name: "karmada-controller-manager", label: None },
                MemberManager { name: "karmada-agent", label: None },
            ]
        }
    }

    fn mark_as_managed(&self, live: &mut Object) {
        live.set_label(member::MANAGED_LABEL, "true");
    }

    fn assess_health(&self, live: &Object, config: &Config) -> Health {
        health::interpret_health(live, &KarmadaBehaviour::from_config(config, NAME))
    }
}

impl AuthorAdvice for Karmada {
    fn build_starter(&self, clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
        starter::build_starter(clusters, templates)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    fn find_references(&self, object: &Object) -> ObjectReferences {
        references::find_references(object)
    }
}

/// Karmada's control plane over one repo.
struct KarmadaPlanner<'a> {
    templates: &'a [Template],
    clusters: &'a [Cluster],
    /// The clusters with a taint that may evict, sorted by name.
    evicting: Vec<&'a Cluster>,
    policies: PropagationPolicies<'a>,
    overrides: OverridePolicies<'a>,
    rebalancers: Rebalancers<'a>,
    quotas: Vec<PlannedQuota<'a>>,
    interpreter: Interpreter<'a>,
    estimator: Estimator,
    /// The rules of the release.
    behaviour: KarmadaBehaviour,
    served: ServingClusters<'a>,
    live: &'a LiveObjects,
    lists: &'a SharedLists,
    groups: ClusterGroups,
    /// Whether namespaces go everywhere without a policy.
    implicit: bool,
    unclaimed: Unclaimed,
    /// The propagation policies that admission refuses.
    refused: BTreeSet<&'a ObjectRef>,
    findings: Vec<Finding>,
}

impl<'a> KarmadaPlanner<'a> {
    fn new(input: PlannerInput<'a>) -> Self {
        let repo = input.repo;
        let (behaviour, unknown) = KarmadaBehaviour::from_repo(repo, NAME);
        let (admitted, mut findings) = AdmittedObjects::from_repo(repo, &Karmada);
        findings.extend(unknown);
        findings.extend(behaviour.check_gates(repo, NAME));
        let (unclaimed, unknown) = Unclaimed::from_config(repo);
        findings.extend(unknown);
        let mut policies = PropagationPolicies::default();
        for object in admitted.with_role(Role::Placement) {
            match defaults::propagation_spec(object, &behaviour) {
                Ok(spec) => policies.add_policy(PropagationPolicy::new(object, spec, &behaviour)),
                Err(finding) => findings.push(finding),
            }
        }
        findings.extend(behaviour.not_interpreted(repo.templates.iter().map(|template| &template.object)));
        let mut quotas = Vec::new();
        for object in admitted.with_role(Role::Other).filter(|o| o.id.kind == "FederatedResourceQuota") {
            match PlannedQuota::new(object, input.clusters) {
                Ok(quota) => quotas.push(quota),
                Err(finding) => findings.push(finding),
            }
        }
        let templates = repo.templates.as_slice();
        let interpreter = Interpreter::with_behaviour(admitted.with_role(Role::Other), input.now, behaviour);
        findings.extend(interpreter.find_refused_scripts());
        Self {
            templates,
            clusters: input.clusters,
            evicting: input
                .clusters
                .iter()
                .filter(|c| c.taints.iter().any(|t| t.effect == "NoExecute"))
                .collect(),
            policies,
            overrides: OverridePolicies::new(admitted.with_role(Role::Override), &behaviour),
            rebalancers: Rebalancers::new(admitted.with_role(Role::Other)),
            quotas,
            interpreter,
            estimator: Estimator::new(input.clusters, behaviour.model_estimate),
            behaviour,
            served: ServingClusters::from_clusters(templates, input.clusters),
            live: input.live,
            lists: input.lists,
            groups: ClusterGroups::default(),
            implicit: input.implicit,
            unclaimed,
            refused: repo
                .claimed_objects(NAME, Role::Placement)
                .map(|o| &o.id)
                .filter(|id| admitted.is_refused(id))
                .collect(),
            findings,
        }
    }

    /// The policy that a placement names.
    fn find_policy(&self, placement: &Placement) -> Option<&PropagationPolicy<'a>> {
        self.policies.by_id(placement.policy.as_ref()?)
    }

    /// The live objects of that name and version, as far as they are known.
    fn find_live_objects(&self, id: &ObjectRef) -> Vec<&'a Object> {
        if self.live.clusters().next().is_none() {
            return Vec::new();
        }
        let (group, namespace) = (id.group(), id.namespace.as_deref());
        self.clusters
            .iter()
            .filter_map(|cluster| self.live.get(&cluster.name, group, &id.kind, namespace, &id.name))
            .filter(|object| object.id == *id)
            .collect()
    }

    /// A template as scripts see it, where there are scripts for its kind: with its defaults, and with the label and the
    /// annotations of the policy that claims it.
    fn as_scripts_see<'t>(&self, template: &'t Object, policy: Option<&ObjectRef>) -> Cow<'t, Object> {
        if !self.interpreter.has_scripts(&template.id) {
            return Cow::Borrowed(template);
        }
        let mut seen = server_defaults::with_encoded_data(template).into_owned();
        if let Some(body) = server_defaults::with_defaults(&seen) {
            seen.body = body;
        }
        if let Some(policy) = policy {
            server_defaults::add_claim(&mut seen, policy);
        }
        Cow::Owned(seen)
    }

    /// The quota whose `ResourceQuota`s a placement sends.
    fn find_quota(&self, placement: &Placement) -> Option<&PlannedQuota<'a>> {
        self.quotas.iter().find(|quota| Some(&quota.quota.id) == placement.policy.as_ref())
    }

    fn find_template(&self, id: &ObjectRef) -> Option<&'a Template> {
        let at = self.templates.binary_search_by(|t| t.object.id.cmp(id)).ok()?;
        self.templates.get(at)
    }
}

impl PolicyPlanner for KarmadaPlanner<'_> {
    fn check_policies(&self) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        findings.extend(self.policies.iter().filter_map(|p| decision::unknown_capacity(p, self.clusters)));
        findings
    }

    fn place_unmatched(&self, template: &Object) -> DialectDecisions {
        decision::place_unmatched(self, template)
    }

    fn decision_subjects(&self) -> Vec<DecisionSubject> {
        let templates = self.templates.iter().map(|template| &template.object.id);
        templates
            .chain(self.quotas.iter().map(|quota| &quota.quota.id))
            .map(|object| DecisionSubject { object: object.clone(), reads: TemplateReads::Subject })
            .collect()
    }

    fn decide_placements(&self, subject: &ObjectRef, previous: &PreviousPlan) -> DialectDecisions {
        if let Some(quota) = self.quotas.iter().find(|quota| quota.quota.id == *subject) {
            return quota.decide_placement();
        }
        self.find_template(subject).map_or_else(DialectDecisions::default, |template| {
            decision::decide_template(self, &template.object, previous)
        })
    }

    fn add_followers(&self, decided: DialectDecisions, previous: &PreviousPlan) -> DialectDecisions {
        let mut all = dependents::add_followers(self, decided, previous);
        let exceeded = self.quotas.iter().flat_map(|quota| quota.find_exceeded(self, &all.placements));
        all.findings.extend(exceeded.collect::<Vec<_>>());
        all
    }

    fn render_placement(&self, placement: &Placement) -> Vec<ManifestVariant> {
        if let Some(quota) = self.find_quota(placement) {
            return quota.group_manifests(placement);
        }
        match self.find_template(&placement.object) {
            Some(template) => manifest::render_template(self, placement, template),
            None => Vec::new(),
        }
    }

    fn may_change_replicas(&self, placement: &Placement) -> bool {
        self.find_quota(placement).is_none()
            && self
                .find_template(&placement.object)
                .is_some_and(|template| manifest::may_change_replicas(self, placement, template))
    }

    fn explain_placement(
        &self,
        object: &ObjectRef,
        previous: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        if let Some(quota) = placed.and_then(|placed| self.find_quota(placed)) {
            return Some(quota.explain_placement(self.clusters, placed));
        }
        explanation::explain_placement(self, &self.find_template(object)?.object, previous, placed)
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

impl MemberReconciler for KarmadaPlanner<'_> {
    fn cluster_reads(&self) -> ClusterReads {
        let unknown =
            self.policies.iter().flat_map(|policy| decision::without_capacity(policy, self.clusters));
        let capacity = unknown.map(|cluster| cluster.name.clone()).collect();
        ClusterReads { capacity, ..ClusterReads::default() }
    }

    fn reconcile_object(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        if let Some(quota) = self.find_quota(placement) {
            return member::reconcile_quota(self, quota, &cluster.name, live);
        }
        member::reconcile_object(self, placement, self.find_template(&placement.object)?, cluster, live)
    }

    fn keeps_applied(&self, placement: &Placement, cluster: &Cluster) -> bool {
        placement.clusters.contains_cluster(&cluster.name)
            && !placement.suspended.contains(&cluster.name)
            && self.find_quota(placement).is_none()
            && !self.interpreter.has_retention_script(&placement.object)
    }
}

impl KindRules for KarmadaPlanner<'_> {
    fn stated_replicas(&self, object: &Object) -> Option<i64> {
        let workload = self.interpreter.interpret_workload(object).ok()?;
        workload.is_workload().then_some(workload.replicas)
    }

    fn assess_health_by_repo(&self, live: &Object) -> Option<Health> {
        self.interpreter.interpret_health(live)
    }
}

impl DecisionKeys for KarmadaPlanner<'_> {
    fn decision_key(&self, subject: &ObjectRef) -> Option<String> {
        decision::decision_key(self, &self.find_template(subject)?.object)
    }

    fn never_adds_followers(&self) -> bool {
        !self.policies.iter().any(|policy| policy.spec.propagate_deps)
    }
}

impl FailoverRules for KarmadaPlanner<'_> {
    fn simulate_failover(
        &self,
        placement: &Placement,
        evicted: &Evictions,
        moment: &ScenarioMoment<'_>,
    ) -> FailoverOutcome {
        failover::scenario::fail_over(self, placement, evicted, moment)
    }
}

impl PolicyAdvice for KarmadaPlanner<'_> {
    fn release(&self) -> Option<Release> {
        Some(self.behaviour.release)
    }

    fn rule_differences(&self, other: Release) -> Vec<&'static str> {
        self.behaviour.list_differences(&KarmadaBehaviour::for_release(other))
    }

    fn never_propagated_reason(&self, template: &Object) -> Option<String> {
        policies::reserved_reason(template).map(|why| format!("Karmada never propagates it, because {why}"))
    }

    fn is_unclaimed(&self, template: &Object, row: &Placement) -> bool {
        unclaimed_objects::is_unclaimed(self, template, row)
    }

    fn unplaced_followers(
        &self,
        templates: &[ObjectRef],
        placements: &[Placement],
    ) -> BTreeMap<ObjectRef, UnplacedFollower> {
        dependents::find_unfollowed(self, templates, placements)
    }

    fn check_policies_thoroughly(&self) -> Vec<Finding> {
        let templates = self.templates.iter().map(|template| &template.object);
        let scripts = templates
            .flat_map(|object| self.interpreter.check_scripts(object, &self.find_live_objects(&object.id)));
        scripts.chain(ineffective_settings::find_ineffective_settings(self)).collect()
    }
}
