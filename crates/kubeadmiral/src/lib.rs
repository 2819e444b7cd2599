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
use federate_kubernetes::{Capacity, Cluster, Connection, Finding, Live, Object, ObjectRef, schema};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{Claimed, Config, Repo, Role, Template};

use federate_dialect::admitted::Admitted;
use federate_dialect::import::Importer;
use federate_dialect::served::Served;
use federate_dialect::{
    Action, ClusterReads, ControlPlane, Decided, Depends, Dialect, Explanation, HubKinds, Input, LossStep,
    MemberManager, Migrated, ObjectScope, Observation, Placement, PodCounts, Previous, Reads, References,
    Starter, Subject, Unfollowed, Unschedulable, Variant,
};

mod advice;
mod affinity;
mod api;
pub mod capacity;
mod cluster;
mod cluster_preferences;
mod complete;
mod connection;
mod decide;
mod effective_policy;
mod explain;
mod followers;
mod hash;
pub mod hub;
mod import;
mod keys;
mod kinds;
mod manifest;
mod member;
mod memory;
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
mod trigger;
mod types;
mod validate;

use api::Resources;
use decide::{Decision, TemplateDecision};
use memory::Memory;
use namespaces::Namespaces;
use overrides::{OverridePolicy, OverrideSpec};
use policies::{Policies, Policy};
use profile::Plugins;
use schedule::Member;
use trigger::Clusters;
use types::Types;

const NAME: &str = "kubeadmiral";
const GROUP: &str = "core.kubeadmiral.io";

/// The dialect.
pub struct KubeAdmiral;

impl Dialect for KubeAdmiral {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role(&self, api_version: &str, kind: &str) -> Option<Role> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            (GROUP, "FederatedCluster") => Some(Role::Inventory),
            (GROUP, "PropagationPolicy" | "ClusterPropagationPolicy") => Some(Role::Placement),
            (GROUP, "OverridePolicy" | "ClusterOverridePolicy") => Some(Role::Override),
            (GROUP, "SchedulingProfile" | "FederatedTypeConfig") => Some(Role::Other),
            _ => None,
        }
    }

    fn settings(&self) -> &'static [&'static str] {
        &[namespaces::EXCLUDE]
    }

    fn kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    fn domains(&self) -> &'static [&'static str] {
        &["kubeadmiral.io"]
    }

    fn member_managers(&self) -> &'static [MemberManager] {
        const { &[MemberManager { name: "kubeadmiral-controller-manager", label: None }] }
    }

    fn memory(&self, hub: &[Object]) -> Result<federate_dialect::Plan, String> {
        Ok(hub::memory_of(hub))
    }

    fn starter(&self, clusters: &[ConfiguredCluster], _: &[&ObjectRef]) -> Starter {
        starter::starter(clusters)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    /// The conditions change once the cluster was unreachable at every probe for a while. They move nothing.
    fn loss(&self, _: &Repo, cluster: &Cluster, _: bool) -> Vec<LossStep> {
        let mut lost = cluster.clone();
        self.lose(&mut lost);
        let what = format!("{}: Offline is True, Ready is Unknown", cluster.name);
        vec![LossStep { seconds: PROBE_PERIOD + STATUS_THRESHOLD, what, cluster: lost }]
    }

    fn mark(&self, live: &mut Object) {
        live.set_label(keys::MANAGED, "true");
    }

    fn metadata_keys(&self) -> &'static [&'static str] {
        &keys::READ
    }

    fn selected_by(&self) -> &'static str {
        "name a policy in its label `kubeadmiral.io/propagation-policy-name` or `…/cluster-propagation-policy-name`"
    }

    fn references(&self, object: &Object) -> References {
        references::of(object)
    }

    fn validate(&self, claimed: &Claimed, _: &Config) -> Vec<Finding> {
        validate::check(&claimed.object)
    }

    fn cluster(&self, object: &Object, strict: bool, _: &Config) -> Result<Cluster, Finding> {
        cluster::read(object, strict)
    }

    fn capacity(&self, _: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
        let written = capacity::resources(nodes, pods, &[]).write();
        Some(cluster::capacity(Resources::deserialize(&written).ok()?))
    }

    fn cluster_status(&self, object: &Object, seen: &Observation) -> Option<Value> {
        Some(capacity::status(object, seen))
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn connection(&self, object: &Object) -> Result<Connection, String> {
        connection::read(object)
    }

    fn open<'a>(&self, input: Input<'a>) -> Box<dyn ControlPlane + 'a> {
        Box::new(KubeAdmiralPlane::new(input))
    }
}

/// The seconds between two probes of a cluster (`--cluster-health-check-period`).
const PROBE_PERIOD: i64 = 30;
/// The seconds for which a change must be observed (`--cluster-status-threshold`).
const STATUS_THRESHOLD: i64 = 100;

/// `KubeAdmiral`'s control plane over one repo.
struct KubeAdmiralPlane<'a> {
    repo: &'a Repo,
    templates: &'a [Template],
    clusters: &'a [Cluster],
    members: Vec<Member<'a>>,
    types: Types,
    policies: Policies<'a>,
    overrides: BTreeMap<ObjectRef, OverridePolicy<'a>>,
    namespaces: Namespaces,
    /// The joined clusters for the memory, and their digest.
    snapshot: Clusters,
    snapshot_digest: String,
    served: Served<'a>,
    now: Option<Timestamp>,
    live: &'a Live,
    implicit: bool,
    findings: Vec<Finding>,
}

impl KubeAdmiralPlane<'_> {
    /// How replicas of a template migrate by themselves, by its policy.
    fn auto_migration(&self, template: &Object) -> Option<&api::AutoMigration> {
        self.policies.get(&policies::named(template)?)?.spec.auto_migration.as_ref()
    }
}

impl<'a> KubeAdmiralPlane<'a> {
    fn new(input: Input<'a>) -> Self {
        let Input { repo, clusters, .. } = input;
        let (admitted, mut findings) = Admitted::of(repo, &KubeAdmiral);
        let of = |role| admitted.role(role);
        let mut policies = Policies::default();
        for object in of(Role::Placement) {
            match Policy::new(object, clusters) {
                Ok(policy) => drop(policies.policies.insert(object.id.clone(), policy)),
                Err(finding) => findings.push(finding),
            }
        }
        for profile in of(Role::Other).filter(|o| o.id.kind == "SchedulingProfile") {
            policies.profiles.insert(&profile.id.name, Plugins::of(profile));
        }
        let mut overrides = BTreeMap::new();
        for object in of(Role::Override) {
            match schema::read::<OverrideSpec>(object, "spec", "invalid-policy") {
                Ok(spec) => {
                    let rules = spec.override_rules;
                    overrides.insert(object.id.clone(), OverridePolicy { object, rules });
                }
                Err(finding) => findings.push(finding),
            }
        }
        let configs: Vec<&Object> = of(Role::Other).filter(|o| o.id.kind == "FederatedTypeConfig").collect();
        let (namespaces, unclear) = Namespaces::new(repo, NAME);
        findings.extend(unclear);
        let templates = repo.templates.as_slice();
        let snapshot = Clusters::of(repo, clusters);
        Self {
            repo,
            templates,
            clusters,
            members: Member::all(clusters),
            types: Types::new(configs.into_iter()),
            policies,
            overrides,
            namespaces,
            snapshot_digest: snapshot.digest(),
            snapshot,
            served: Served::of(templates, clusters),
            now: input.now,
            live: input.live,
            implicit: input.implicit,
            findings,
        }
    }

    fn template(&self, id: &ObjectRef) -> Option<&'a Template> {
        let at = self.templates.binary_search_by(|t| t.object.id.cmp(id)).ok()?;
        self.templates.get(at)
    }

    fn cluster(&self, name: &str) -> Option<&'a Cluster> {
        let at = self.clusters.binary_search_by(|c| c.name.as_ref().cmp(name)).ok()?;
        self.clusters.get(at)
    }

    /// Whether the policy of a placement let others follow it when it was last scheduled.
    fn leads(placement: &Placement) -> bool {
        placement.policy.is_some() && !Memory::of(placement).is_unfollowed
    }

    /// Decides about one template, without dependencies on others.
    fn decide_template(&self, template: &Object, previous: &Previous) -> Decided {
        let mut decided = Decided::default();
        if !self.implicit && !keys::has_own_keys(template) {
            decided.depends = Depends::Placed;
            return decided;
        }
        let config = self.types.get(&template.id.api_version, &template.id.kind);
        let withheld = template.annotation(keys::NO_FEDERATED).is_some_and(|value| !value.is_empty());
        let Some(config) = config.filter(|_| !withheld) else {
            decided.placements.push(not_federated(template, withheld));
            return decided;
        };
        let decision = Decision::new(self, template, config, previous);
        decided.findings = advice::ignored_annotations(template, &decision);
        let TemplateDecision { mut placement, stays, .. } = decision.place_until_stable();
        // The scheduler states it once, in an Event. A plan says why the object runs nowhere for as long as it does.
        let remaining = decision.remaining_problem(&placement);
        if stays && remaining.is_none() && !self.namespaces.goes_to_every_cluster(template) {
            decided.depends = Depends::Placed;
        }
        placement.unschedulable = placement.unschedulable.or(remaining);
        if self.namespaces.goes_to_every_cluster(template) {
            decide::extend(&mut placement, &namespaces::all(self.clusters));
            placement.policy = None;
            if placement.unschedulable.as_ref().is_some_and(|u| u.reason == "NoPolicy") {
                placement.unschedulable = None;
            }
        }
        placement.implicit = placement.policy.is_none();
        if placement.unschedulable.is_none() && !placement.clusters.is_empty() {
            placement.unschedulable = decide::override_problem(self, template, &placement);
        }
        decided.placements.push(placement);
        decided
    }
}

fn not_federated(template: &Object, requested: bool) -> Placement {
    let mut placement = Placement::new(NAME, template.id.clone(), None);
    placement.implicit = true;
    let message = if requested {
        format!("it has the annotation {}", keys::NO_FEDERATED)
    } else {
        format!("no FederatedTypeConfig has the type {} {}", template.id.api_version, template.id.kind)
    };
    placement.unschedulable = Some(Unschedulable { reason: "NotFederated".to_owned(), message });
    placement
}

impl ControlPlane for KubeAdmiralPlane<'_> {
    fn check(&self) -> Vec<Finding> {
        let policies = self.policies.policies.values();
        let unknown = policies.filter_map(|p| advice::unknown_capacity(p, self.clusters));
        let missing = |leader: &Template| advice::missing_followers(&leader.object, self.templates);
        let missing: Vec<Finding> = self.templates.par_iter().flat_map_iter(missing).collect();
        self.findings.iter().cloned().chain(unknown).chain(missing).collect()
    }

    fn stated_replicas(&self, object: &Object) -> Option<i64> {
        self.types.get(&object.id.api_version, &object.id.kind)?.replicas_of(&object.body)
    }

    fn examine(&self) -> Vec<Finding> {
        let replaced = |template: &Template| {
            let policy = policies::named(&template.object).filter(|id| self.policies.get(id).is_some());
            advice::replaced_policy(&template.object, policy.as_ref())
        };
        self.templates.par_iter().flat_map_iter(replaced).collect()
    }

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

    fn subjects(&self) -> Vec<Subject> {
        let subject =
            |template: &Template| Subject { object: template.object.id.clone(), reads: Reads::Subject };
        self.templates.iter().map(subject).collect()
    }

    fn decide(&self, subject: &ObjectRef, previous: &Previous) -> Decided {
        self.template(subject)
            .map_or_else(Decided::default, |template| self.decide_template(&template.object, previous))
    }

    fn unfollowed(
        &self,
        templates: &[ObjectRef],
        placements: &[Placement],
    ) -> BTreeMap<ObjectRef, Unfollowed> {
        complete::unfollowed(templates, placements)
    }

    fn complete(&self, decided: Decided, previous: &Previous) -> Decided {
        let mut all = complete::complete(self, decided);
        all.shared = trigger::shared(&all.placements, &self.snapshot, &self.snapshot_digest, previous);
        all
    }

    /// The scheduler compares the labels, the taints and the API types of all joined clusters.
    fn inventory_digest(&self) -> String {
        self.snapshot_digest.clone()
    }

    fn counts_pods_after(&self) -> Option<i64> {
        let mut policies = self.policies.policies.values();
        policies.any(|policy| policy.spec.auto_migration.is_some()).then_some(migration::scenario::DELAY)
    }

    /// Only pods of Deployments are counted.
    fn migrate(&self, object: &ObjectRef, placement: &Placement, pods: &PodCounts, seconds: i64) -> Migrated {
        let config = self.types.get(&object.api_version, &object.kind).filter(|config| config.migrates);
        let is_counted = migration::is_counted(object);
        let policy = placement.policy.as_ref().and_then(|policy| self.policies.get(policy));
        let policy = policy.and_then(|policy| policy.spec.auto_migration.as_ref());
        match policy.filter(|_| is_counted && config.is_some()) {
            Some(policy) => migration::scenario::migrate(policy, placement, pods, seconds),
            None => Migrated::default(),
        }
    }

    fn manifests(&self, placement: &Placement) -> Vec<Variant> {
        match self.template(&placement.object) {
            Some(template) => manifest::variants(self, placement, template),
            None => Vec::new(),
        }
    }

    fn reconcile(&self, placement: &Placement, cluster: &Cluster, live: Option<&Object>) -> Option<Action> {
        member::reconcile(self, placement, cluster, live)
    }

    fn explain(
        &self,
        object: &ObjectRef,
        previous: &Previous,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        explain::explain(self, &self.template(object)?.object, previous, placed)
    }
}
