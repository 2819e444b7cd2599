//! The Karmada dialect: Karmada's detector, scheduler, dependency distributor, binding controller and
//! override manager, as pure functions.
//!
//! ```text
//! matching ─► schedule (trigger, filter, select, assign) ─► dependents ─► manifest (revise, override, prune)
//! member   live object ─► create, update (retain), adopt, delete
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::kinds::GroupKinds;
use federate_kubernetes::{Capacity, Cluster, Connection, Finding, Live, Object, ObjectRef, Taint};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{Claimed, Config, Repo, Role, Template};
use serde_json::Value;

use federate_dialect::admitted::Admitted;
use federate_dialect::import::Importer;
use federate_dialect::release;
use federate_dialect::served::Served;
use federate_dialect::{
    Action, ClusterReads, ControlPlane, Decided, Dialect, Evictions, Explanation, FailedOver, Health,
    HubKinds, Input, LossStep, MemberManager, Moment, Observation, Placement, Plan, Previous, Reads,
    References, Release, SharedLists, Starter, Subject, Unfollowed, Variant,
};

mod affinity;
mod api;
pub mod capacity;
mod cluster;
mod connection;
mod decide;
mod defaults;
mod dependencies;
mod dependents;
mod explain;
pub mod failover;
mod groups;
mod health;
pub mod hub;
mod import;
mod ineffective;
mod interpret;
pub mod interpreter;
mod kinds;
mod manifest;
mod matching;
pub mod member;
mod memory;
mod overrides;
mod prune;
pub mod quota;
mod rebalance;
mod references;
mod revise;
mod schedule;
mod selector;
mod starter;
mod stored;
mod thirdparty;
mod unclaimed;
mod validate;
mod version;
mod workload;

use groups::Groups;
use interpreter::Interpreter;
use matching::{Policies, Policy};
use overrides::OverridePolicies;
use quota::PlannedQuota;
use rebalance::Rebalancers;
use schedule::Estimator;
use unclaimed::Unclaimed;
use version::{Behaviour, FEATURE_GATES};

pub use memory::SchedulerMemory;
pub use version::RELEASES;

const NAME: &str = "karmada";

/// The dialect.
pub struct Karmada;

impl Dialect for Karmada {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role(&self, api_version: &str, kind: &str) -> Option<Role> {
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

    fn kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    fn domains(&self) -> &'static [&'static str] {
        &["karmada.io"]
    }

    fn member_managers(&self) -> &'static [MemberManager] {
        // The latter in clusters with the sync mode Pull.
        const {
            &[
                MemberManager { name: "karmada-controller-manager", label: None },
                MemberManager { name: "karmada-agent", label: None },
            ]
        }
    }

    fn installed(&self, objects: &[&Object]) -> Option<Result<Release, String>> {
        hub::installed(objects)
    }

    fn memory(&self, hub: &[Object]) -> Result<Plan, String> {
        let placements = hub::memory_of(hub).map_err(|error| error.to_string())?;
        Ok(Plan { placements, ..Plan::default() })
    }

    fn without_memory<'a>(&self, hub: &'a [Object]) -> Vec<(&'a ObjectRef, &'static str)> {
        hub::without_memory(hub)
    }

    fn settings(&self) -> &'static [&'static str] {
        &[release::SETTING, FEATURE_GATES, unclaimed::SETTING]
    }

    fn starter(&self, clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
        starter::starter(clusters, templates)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    /// A cluster that cannot be reached is tainted. Its workloads stay, because eviction is off by default.
    fn lose(&self, cluster: &mut Cluster) {
        const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
        cluster.ready = false;
        if !cluster.taints.iter().any(|taint| taint.key == UNREACHABLE && taint.effect == "NoSchedule") {
            let (key, effect) = (UNREACHABLE.to_owned(), "NoSchedule".to_owned());
            cluster.taints.push(Taint { key, value: String::new(), effect });
        }
    }

    fn loss(&self, repo: &Repo, cluster: &Cluster, failover: bool) -> Vec<LossStep> {
        failover::scenario::loss(repo, cluster, failover)
    }

    fn mark(&self, live: &mut Object) {
        live.set_label(member::MANAGED, "true");
    }

    fn references(&self, object: &Object) -> References {
        references::of(object)
    }

    fn validate(&self, claimed: &Claimed, config: &Config) -> Vec<Finding> {
        validate::check(&claimed.object, &Behaviour::configured(config, NAME))
    }

    fn cluster(&self, object: &Object, strict: bool, _: &Config) -> Result<Cluster, Finding> {
        cluster::read(object, strict)
    }

    fn capacity(&self, object: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
        cluster::observed(object, nodes, pods)
    }

    fn cluster_status(&self, object: &Object, seen: &Observation) -> Option<Value> {
        capacity::status(object, seen)
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn connection(&self, object: &Object) -> Result<Connection, String> {
        connection::read(object)
    }

    fn health(&self, live: &Object, config: &Config) -> Health {
        health::health(live, &Behaviour::configured(config, NAME))
    }

    fn open<'a>(&self, input: Input<'a>) -> Box<dyn ControlPlane + 'a> {
        Box::new(Karmadas::new(input))
    }
}

/// Karmada's control plane over one repo.
struct Karmadas<'a> {
    templates: &'a [Template],
    clusters: &'a [Cluster],
    /// The clusters with a taint that may evict, sorted by name.
    evicting: Vec<&'a Cluster>,
    policies: Policies<'a>,
    overrides: OverridePolicies<'a>,
    rebalancers: Rebalancers<'a>,
    quotas: Vec<PlannedQuota<'a>>,
    interpreter: Interpreter<'a>,
    estimator: Estimator,
    /// The rules of the release.
    behaviour: Behaviour,
    served: Served<'a>,
    live: &'a Live,
    lists: &'a SharedLists,
    groups: Groups,
    /// Whether namespaces go everywhere without a policy.
    implicit: bool,
    unclaimed: Unclaimed,
    /// The propagation policies that admission refuses.
    refused: BTreeSet<&'a ObjectRef>,
    findings: Vec<Finding>,
}

impl<'a> Karmadas<'a> {
    fn new(input: Input<'a>) -> Self {
        let repo = input.repo;
        let (behaviour, unknown) = Behaviour::chosen(repo, NAME);
        let (admitted, mut findings) = Admitted::of(repo, &Karmada);
        findings.extend(unknown);
        findings.extend(behaviour.gates(repo, NAME));
        let (unclaimed, unknown) = Unclaimed::configured(repo);
        findings.extend(unknown);
        let mut policies = Policies::default();
        for object in admitted.role(Role::Placement) {
            match defaults::propagation_spec(object, &behaviour) {
                Ok(spec) => policies.add(Policy::new(object, spec, &behaviour)),
                Err(finding) => findings.push(finding),
            }
        }
        findings.extend(behaviour.not_interpreted(repo.templates.iter().map(|template| &template.object)));
        let mut quotas = Vec::new();
        for object in admitted.role(Role::Other).filter(|o| o.id.kind == "FederatedResourceQuota") {
            match PlannedQuota::new(object, input.clusters) {
                Ok(quota) => quotas.push(quota),
                Err(finding) => findings.push(finding),
            }
        }
        let templates = repo.templates.as_slice();
        let interpreter = Interpreter::with(admitted.role(Role::Other), input.now, behaviour);
        findings.extend(interpreter.refused());
        Self {
            templates,
            clusters: input.clusters,
            evicting: input
                .clusters
                .iter()
                .filter(|c| c.taints.iter().any(|t| t.effect == "NoExecute"))
                .collect(),
            policies,
            overrides: OverridePolicies::new(admitted.role(Role::Override), &behaviour),
            rebalancers: Rebalancers::new(admitted.role(Role::Other)),
            quotas,
            interpreter,
            estimator: Estimator::new(input.clusters, behaviour.model_estimate),
            behaviour,
            served: Served::of(templates, input.clusters),
            live: input.live,
            lists: input.lists,
            groups: Groups::default(),
            implicit: input.implicit,
            unclaimed,
            refused: repo
                .claimed(NAME, Role::Placement)
                .map(|o| &o.id)
                .filter(|id| admitted.refuses(id))
                .collect(),
            findings,
        }
    }

    /// The policy that a placement names.
    fn policy(&self, placement: &Placement) -> Option<&Policy<'a>> {
        self.policies.by_id(placement.policy.as_ref()?)
    }

    /// The live objects of that name and version, as far as they are known.
    fn running(&self, id: &ObjectRef) -> Vec<&'a Object> {
        if self.live.clusters().next().is_none() {
            return Vec::new();
        }
        let (group, namespace) = (id.group(), id.namespace.as_deref());
        let of = |cluster: &Cluster| self.live.get(&cluster.name, group, &id.kind, namespace, &id.name);
        self.clusters.iter().filter_map(of).filter(|object| object.id == *id).collect()
    }

    /// A template as scripts see it, where there are scripts for its kind: with its defaults, and with the label and the
    /// annotations of the policy that claims it.
    fn as_scripts_see<'t>(&self, template: &'t Object, policy: Option<&ObjectRef>) -> Cow<'t, Object> {
        if !self.interpreter.has_scripts(&template.id) {
            return Cow::Borrowed(template);
        }
        let mut seen = stored::with_encoded_data(template).into_owned();
        if let Some(body) = stored::with_defaults(&seen) {
            seen.body = body;
        }
        if let Some(policy) = policy {
            stored::add_claim(&mut seen, policy);
        }
        Cow::Owned(seen)
    }

    /// The quota whose `ResourceQuota`s a placement sends.
    fn quota(&self, placement: &Placement) -> Option<&PlannedQuota<'a>> {
        self.quotas.iter().find(|quota| Some(&quota.quota.id) == placement.policy.as_ref())
    }

    fn template(&self, id: &ObjectRef) -> Option<&'a Template> {
        let at = self.templates.binary_search_by(|t| t.object.id.cmp(id)).ok()?;
        self.templates.get(at)
    }
}

impl ControlPlane for Karmadas<'_> {
    fn release(&self) -> Option<Release> {
        Some(self.behaviour.release)
    }

    fn differences(&self, other: &str) -> Vec<&'static str> {
        RELEASES
            .read(other)
            .map(|other| self.behaviour.differences(&Behaviour::of(other)))
            .unwrap_or_default()
    }

    fn check(&self) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        findings.extend(self.policies.iter().filter_map(|p| decide::unknown_capacity(p, self.clusters)));
        findings
    }

    fn withheld(&self, template: &Object) -> Option<String> {
        matching::reserved(template).map(|why| format!("Karmada never propagates it, because {why}"))
    }

    fn everywhere(&self, template: &Object) -> Decided {
        decide::unselected(self, template)
    }

    fn stated_replicas(&self, object: &Object) -> Option<i64> {
        let workload = self.interpreter.workload(object).ok()?;
        workload.is_workload().then_some(workload.replicas)
    }

    fn cluster_reads(&self) -> ClusterReads {
        let unknown = self.policies.iter().flat_map(|policy| decide::without_capacity(policy, self.clusters));
        let capacity = unknown.map(|cluster| cluster.name.clone()).collect();
        ClusterReads { capacity, ..ClusterReads::default() }
    }

    fn subjects(&self) -> Vec<Subject> {
        let subject =
            |template: &Template| Subject { object: template.object.id.clone(), reads: Reads::Subject };
        let quotas =
            self.quotas.iter().map(|quota| Subject { object: quota.quota.id.clone(), reads: Reads::Subject });
        self.templates.iter().map(subject).chain(quotas).collect()
    }

    fn decide(&self, subject: &ObjectRef, previous: &Previous) -> Decided {
        if let Some(quota) = self.quotas.iter().find(|quota| quota.quota.id == *subject) {
            return quota.decide();
        }
        self.template(subject)
            .map_or_else(Decided::default, |template| decide::decide(self, &template.object, previous))
    }

    fn unfollowed(
        &self,
        templates: &[ObjectRef],
        placements: &[Placement],
    ) -> BTreeMap<ObjectRef, Unfollowed> {
        dependents::unfollowed(self, templates, placements)
    }

    fn complete(&self, decided: Decided, previous: &Previous) -> Decided {
        let mut all = dependents::complete(self, decided, previous);
        let exceeded = self.quotas.iter().flat_map(|quota| quota.exceeded(self, &all.placements));
        all.findings.extend(exceeded.collect::<Vec<_>>());
        all
    }

    fn manifests(&self, placement: &Placement) -> Vec<Variant> {
        if let Some(quota) = self.quota(placement) {
            return quota.variants(placement);
        }
        match self.template(&placement.object) {
            Some(template) => manifest::variants(self, placement, template),
            None => Vec::new(),
        }
    }

    fn reconcile(&self, placement: &Placement, cluster: &Cluster, live: Option<&Object>) -> Option<Action> {
        if let Some(quota) = self.quota(placement) {
            return member::reconcile_quota(self, quota, &cluster.name, live);
        }
        member::reconcile(self, placement, self.template(&placement.object)?, cluster, live)
    }

    fn keeps_applied(&self, placement: &Placement, cluster: &Cluster) -> bool {
        placement.clusters.has(&cluster.name)
            && !placement.suspended.contains(&cluster.name)
            && self.quota(placement).is_none()
            && !self.interpreter.retains(&placement.object)
    }

    fn alike(&self, subject: &ObjectRef) -> Option<String> {
        decide::key(self, &self.template(subject)?.object)
    }

    fn is_complete(&self) -> bool {
        !self.policies.iter().any(|policy| policy.spec.propagate_deps)
    }

    fn fail_over(&self, placement: &Placement, evicted: &Evictions, moment: &Moment<'_>) -> FailedOver {
        failover::scenario::fail_over(self, placement, evicted, moment)
    }

    fn health(&self, live: &Object) -> Option<Health> {
        self.interpreter.health(live)
    }

    fn examine(&self) -> Vec<Finding> {
        let templates = self.templates.iter().map(|template| &template.object);
        let scripts =
            templates.flat_map(|object| self.interpreter.examine(object, &self.running(&object.id)));
        scripts.chain(ineffective::findings(self)).collect()
    }

    fn explain(
        &self,
        object: &ObjectRef,
        previous: &Previous,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        if let Some(quota) = placed.and_then(|placed| self.quota(placed)) {
            return Some(quota.explain(self.clusters, placed));
        }
        explain::explain(self, &self.template(object)?.object, previous, placed)
    }
}
