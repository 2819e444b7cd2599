//! The traits that a dialect implements: how the engine asks a control plane for its decisions.
//!
//! A [`Dialect`] knows its kinds and reads its inventory into the neutral [`Cluster`]. [`Dialect::compile_policies`]
//! compiles the policies of a repo into a [`PolicyPlanner`], which decides exactly as the real control plane. The
//! engine calls it from all cores and never looks inside.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use federate_kubernetes::kinds::{GroupKinds, Scope};
use federate_kubernetes::{Capacity, Cluster, Connection, Finding, LiveObjects, Object, ObjectRef};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{ClaimedObject, Config, DeclaredKind, ImpliedScope, Repo, Role};

mod action;
pub mod admission;
pub mod clean;
mod decisions;
mod deletion;
mod dialects;
mod explanation;
mod failover;
mod fnv;
mod followers;
pub mod goduration;
pub mod gojson;
pub mod health;
pub mod health_checks;
pub mod import;
mod lists;
mod observation;
mod placed_clusters;
pub mod plan;
mod policy_rollout;
mod previous_plan;
pub mod probe;
pub mod readiness;
mod reads;
pub mod references;
pub mod release;
pub mod rollout;
mod rollout_rules;
pub mod scheduler_state;
pub mod serving_clusters;
pub mod stages;
mod starter;

pub use action::{ControlPlaneAction, DeleteOptions, SyncOp};
pub use decisions::{ClusterDependency, DecisionSubject, DialectDecisions, TemplateReads};
pub use deletion::{DeletionProgress, DeletionState};
pub use dialects::Dialects;
pub use explanation::{ClusterVerdict, Explanation, OverrideChange};
pub use failover::{
    BEFORE_SCENARIO, Evictions, FailoverOutcome, MigrationOutcome, OutageStep, PodCount, PodCounts,
    ScenarioMoment, TaintedSince,
};
pub use fnv::compute_fnv1;
pub use followers::{UnplacedFollower, UnplacedFollowerReason};
pub use health::{Health, HealthState};
pub use lists::SharedLists;
pub use observation::{ClusterObservation, HubKinds, RecordSource, RecordedKind};
pub use placed_clusters::{ClusterNames, Placed, PlacedClusters};
pub use plan::{Placement, Plan, Unschedulable};
pub use policy_rollout::{
    ClusterRollout, PolicyClusters, PolicyResources, PolicyRollout, PolicyRollouts, RolloutMoment,
    RolloutProgress, RolloutStep,
};
pub use previous_plan::{ChangedRows, PreviousPlan, RowKey};
pub use reads::{ClusterReads, ObjectScope};
pub use references::ObjectReferences;
pub use release::Release;
pub use rollout_rules::{RolloutDriver, RolloutRules, RolloutSubject};
pub use scheduler_state::SchedulerState;
pub use starter::{Starter, labels_to_json as starter_labels};

/// The field manager of a control plane's component that writes objects of member clusters.
#[derive(Clone, Copy, Debug)]
pub struct MemberManager {
    /// Its name. A trailing `*` stands for any text.
    pub name: &'static str,
    /// A label of the objects that the component writes, where other clients have the same name.
    pub label: Option<&'static str>,
}

impl MemberManager {
    /// Whether a field manager has this name.
    pub fn has_name(&self, manager: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => manager.starts_with(start),
            None => manager == self.name,
        }
    }
}

/// A control plane: its kinds, its inventory and its policies.
pub trait Dialect: Sync {
    /// Its name in plans and messages.
    fn name(&self) -> &'static str;

    /// The role of objects of this kind; `None` where the kind is not one of its own.
    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<Role>;

    /// The kind that an object declares: some control planes claim kinds by configuration.
    /// [`role_of_kind`](Self::role_of_kind) need not know such a kind.
    fn declared_kind(&self, object: &Object) -> Option<DeclaredKind> {
        let _ = object;
        None
    }

    /// The scopes of kinds that one of its own objects takes for granted.
    fn implied_scopes(&self, object: &Object) -> Vec<ImpliedScope> {
        let _ = object;
        Vec::new()
    }

    /// Its own kinds, by API group. Those without a role stay on the control plane.
    fn own_kinds(&self) -> &'static [GroupKinds] {
        &[]
    }

    /// The scope of one of its own kinds; `None` for other kinds.
    fn scope_of_kind(&self, group: &str, kind: &str) -> Option<Scope> {
        self.own_kinds().iter().find(|known| known.group == group)?.find_scope(kind)
    }

    /// The domains, subdomains included, of its API groups, labels and annotations.
    fn own_domains(&self) -> &'static [&'static str] {
        &[]
    }

    /// The keys that it understands below `dialects.<name>` in `federate.yaml`.
    fn setting_keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reads the memory of a plan from the objects of the control plane's own API server. By default there is
    /// none.
    fn read_hub_plan(&self, hub: &[Object]) -> Result<Plan, String> {
        let _ = hub;
        Ok(Plan::default())
    }

    /// The objects that [`read_hub_plan`](Self::read_hub_plan) leaves out although they are of a kind that records a
    /// placement, each with the reason. By default there are none.
    fn unread_hub_objects<'a>(&self, hub: &'a [Object]) -> Vec<(&'a ObjectRef, &'static str)> {
        let _ = hub;
        Vec::new()
    }

    /// The release of the control plane that is installed, by the objects of its installation (such as the image
    /// tags of its Deployments), or the text that names an unknown release. `None` if the objects do not say.
    fn detect_release(&self, objects: &[&Object]) -> Option<Result<Release, String>> {
        let _ = objects;
        None
    }

    /// The objects that a new repo starts with: these clusters, and a policy that places these templates on all of
    /// them.
    fn build_starter(&self, clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
        let _ = (clusters, templates);
        Starter::default()
    }

    /// The importer for objects that already run, if there is one.
    fn importer(&self) -> Option<import::Importer> {
        None
    }

    /// Validates one of its own objects as the control plane's API server and admission webhooks do, in the
    /// release that the configuration names. An object with errors takes no part in any decision.
    fn validate_object(&self, claimed: &ClaimedObject, config: &Config) -> Vec<Finding>;

    /// What an object refers to by name: one of its own objects, or a template with its labels and annotations.
    /// The object need not be valid.
    fn find_references(&self, object: &Object) -> ObjectReferences {
        let _ = object;
        ObjectReferences::default()
    }

    /// The field managers of its components that write objects of member clusters. By default none is known.
    fn member_managers(&self) -> &'static [MemberManager] {
        &[]
    }

    /// The keys of labels and annotations of templates that it reads, if it can list them.
    fn metadata_keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// How a template is selected, as advice: `select it in …`.
    fn selected_by(&self) -> &'static str {
        "select it in a placement policy"
    }

    /// Reads one of its valid inventory objects. With `strict`, an object without `status` is what the
    /// control plane would take it for; without, it counts as joined, ready and serving every API.
    /// Labels and fields that a release adds are present as in the release that the configuration names.
    fn read_cluster(&self, object: &Object, strict: bool, config: &Config) -> Result<Cluster, Finding>;

    /// The free resources of a cluster, as its control plane computes them from the nodes and pods there; `None`
    /// if it computes none.
    fn compute_capacity(&self, object: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
        let _ = (object, nodes, pods);
        None
    }

    /// The properties of a cluster that its control plane computes from the nodes there, by name.
    fn compute_properties(&self, nodes: &[Object]) -> BTreeMap<String, String> {
        let _ = nodes;
        BTreeMap::new()
    }

    /// The status that the control plane computes for an inventory object from what it sees in the cluster; `None`
    /// if it computes none.
    fn compute_cluster_status(&self, object: &Object, seen: &ClusterObservation) -> Option<Value> {
        let _ = (object, seen);
        None
    }

    /// The kinds on the control plane's API server that describe its members and that
    /// [`read_hub_plan`](Self::read_hub_plan) reads.
    fn hub_kinds(&self) -> &'static [HubKinds] {
        &[]
    }

    /// The kinds among the [`hub_kinds`](Self::hub_kinds) whose objects a snapshot records as they are. By default there
    /// are none.
    fn recorded_kinds(&self) -> &'static [RecordedKind] {
        &[]
    }

    /// How the control plane connects to the cluster of an inventory object, or why the object does not say
    /// that.
    fn read_connection(&self, object: &Object) -> Result<Connection, String> {
        let _ = object;
        Err("its inventory contains no connection details".to_owned())
    }

    /// Changes a cluster of the inventory as the control plane does when it can no longer reach the cluster. By
    /// default the cluster is not ready.
    fn mark_unreachable(&self, cluster: &mut Cluster) {
        cluster.ready = false;
    }

    /// What the control plane does over time after it loses a cluster, whose inventory object is in the repo.
    /// `failover` says whether its failover is on. By default everything happens at once.
    fn outage_steps(&self, repo: &Repo, cluster: &Cluster, failover: bool) -> Vec<OutageStep> {
        let _ = (repo, failover);
        let mut lost = cluster.clone();
        self.mark_unreachable(&mut lost);
        vec![OutageStep { seconds: 0, what: format!("{} is not ready", cluster.name), cluster: lost }]
    }

    /// The seconds between the deletion of a cluster's inventory object and the end of its membership. By default it
    /// leaves at once.
    fn leaves_after(&self, reachable: bool) -> i64 {
        let _ = reachable;
        0
    }

    /// Whether the scheduler acts on the deletion of a cluster's inventory object before the cluster has left.
    fn notices_deletion(&self) -> bool {
        true
    }

    /// Marks a live object as this control plane marks objects that it sends. Objects that federate applied
    /// count as its own, but have no such mark. By default there is none.
    fn mark_as_managed(&self, live: &mut Object) {
        let _ = live;
    }

    /// Whether an object in a member cluster is healthy by the rules of this control plane, in the release that
    /// the configuration names.
    fn assess_health(&self, live: &Object, config: &Config) -> Health {
        let _ = (live, config);
        Health::unknown("this control plane has no health rules")
    }

    /// The wave in which an object is applied to a member cluster. A wave starts when the one before is
    /// applied. By default all objects are in one wave.
    fn wave_of(&self, object: &ObjectRef) -> u32 {
        let _ = object;
        0
    }

    /// The policies that send the object of a row of a plan, each with its clusters.
    fn policies_of(&self, row: &Placement) -> Vec<PolicyClusters> {
        let clusters = row.clusters.iter().map(|placed| placed.name.clone()).collect();
        row.policy.clone().map(|policy| PolicyClusters { policy, clusters }).into_iter().collect()
    }

    /// Compiles the repo's policies.
    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a>;
}

/// What a control plane decides from, besides the previous plan.
#[derive(Clone, Copy)]
pub struct PlannerInput<'a> {
    /// The repo.
    pub repo: &'a Repo,
    /// Every cluster of the inventory, of all dialects, sorted by name.
    pub clusters: &'a [Cluster],
    /// The clock for rules about age; without it they do not apply.
    pub now: Option<Timestamp>,
    /// The objects that run in the member clusters, as far as they were given.
    pub live: &'a LiveObjects,
    /// The addresses of host names. A name without an entry does not resolve.
    pub hosts: &'a HostAddresses,
    /// The lists of clusters that placements share.
    pub lists: &'a SharedLists,
    /// The plan of an earlier run, for what the control plane's API server compares with the present repo.
    pub previous: &'a PreviousPlan,
    /// Whether implicit rules apply, which need no policy: namespaces that go everywhere, templates that count
    /// as withdrawn. They apply where the repo is kept for this control plane.
    pub implicit: bool,
}

/// Addresses by host name.
pub type HostAddresses = std::collections::BTreeMap<String, Vec<String>>;

/// The name that stands for the control plane's own host among the clusters of a plan.
pub const HUB: &str = "hub";

/// A dialect's policies, compiled for one repo.
pub trait PolicyPlanner: Send + Sync {
    /// The release whose rules it follows; `None` where releases do not differ.
    fn release(&self) -> Option<Release> {
        None
    }

    /// The rules in which another release differs, in words; empty where that is not known.
    fn rule_differences(&self, other: &str) -> Vec<&'static str> {
        let _ = other;
        Vec::new()
    }

    /// Findings about its policies: what is invalid or has no effect. A policy with errors takes part in no
    /// decision, because admission refuses it.
    fn check_policies(&self) -> Vec<Finding>;

    /// The objects of its own that contain a template, each with the object in the member clusters.
    fn wrapped_templates(&self) -> Vec<(ObjectRef, ObjectRef)> {
        Vec::new()
    }

    /// Why the control plane places a template nowhere, whatever selects it, as a sentence; `None` if it can.
    fn never_propagated_reason(&self, template: &Object) -> Option<String> {
        let _ = template;
        None
    }

    /// For templates that no policy places: an object that refers to each of them, where it would follow that object but
    /// for a reason that is known. By default, nothing follows.
    fn unplaced_followers(
        &self,
        templates: &[ObjectRef],
        placements: &[Placement],
    ) -> BTreeMap<ObjectRef, UnplacedFollower> {
        let _ = (templates, placements);
        BTreeMap::new()
    }

    /// Places a template that no policy selects in every cluster. By default it cannot.
    fn place_unmatched(&self, template: &Object) -> DialectDecisions {
        let _ = template;
        DialectDecisions::default()
    }

    /// The replicas that a template or a manifest asks for, by rules for its kind that the repo or the control plane has
    /// besides those of Kubernetes; `None` where there are none.
    fn stated_replicas(&self, object: &Object) -> Option<i64> {
        let _ = object;
        None
    }

    /// The objects in the member clusters that its decisions read; none by default.
    fn cluster_reads(&self) -> ClusterReads {
        ClusterReads::default()
    }

    /// The subjects of its decisions. Each decision is independent of the others. The order does not matter,
    /// and each object occurs once.
    fn decision_subjects(&self) -> Vec<DecisionSubject>;

    /// Decides about one of the [`decision_subjects`](Self::decision_subjects). The answer for any other object is empty.
    fn decide_placements(&self, subject: &ObjectRef, previous: &PreviousPlan) -> DialectDecisions;

    /// Adds what depends on other placements to the decisions about all subjects. By default, nothing does.
    fn add_followers(&self, decided: DialectDecisions, previous: &PreviousPlan) -> DialectDecisions {
        let _ = previous;
        decided
    }

    /// The manifests of a placement, one variant for the clusters that receive the same. Every cluster of the
    /// placement is in exactly one variant, those it is withdrawn from included. A placement that sends nothing
    /// itself (the row of a policy) has no variants.
    fn render_manifests(&self, placement: &Placement) -> Vec<ManifestVariant>;

    /// The objects in which the control plane records where a placement goes, if other programs read it from them. By
    /// default there are none.
    fn decision_records(&self, placement: &Placement) -> Vec<Value> {
        let _ = placement;
        Vec::new()
    }

    /// Decides what to do about a placement's object in one cluster, given the live object. `None` where the
    /// control plane neither acts nor reports.
    fn reconcile_object(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<ControlPlaneAction> {
        let _ = (placement, cluster, live);
        None
    }

    /// Whether [`reconcile_object`](Self::reconcile_object) does nothing about a managed live object whose rendered
    /// fields all have the rendered values: the object is not held back in the cluster, and no script retains its
    /// fields. `false` if only the decision itself shows that.
    fn keeps_applied(&self, placement: &Placement, cluster: &Cluster) -> bool {
        let _ = (placement, cluster);
        false
    }

    /// The key of a subject. Decisions about subjects with equal keys differ only in the name of the object, if their
    /// rows of the previous plan differ only in that name: either all of them have findings, or none has. They contain
    /// no rows of other objects. `None` if the dialect has no such key.
    fn decision_key(&self, subject: &ObjectRef) -> Option<String> {
        let _ = subject;
        None
    }

    /// Whether [`add_followers`](Self::add_followers) adds nothing to the placements, whatever was decided.
    fn never_adds_followers(&self) -> bool {
        false
    }

    /// A digest of what all decisions read of the inventory, even those that depend on
    /// [placed clusters](ClusterDependency::Placed) only.
    fn inventory_digest(&self) -> String {
        String::new()
    }

    /// Whether placements leave tainted clusters after some time even where failover is off. By default, none does.
    fn always_evicts(&self) -> bool {
        false
    }

    /// Evicts a placement from clusters, as the control plane does at a moment of a scenario, and ends evictions
    /// that are done. The result is the same for placements that are [alike](Placement::is_alike). By default nothing
    /// is evicted.
    fn simulate_failover(
        &self,
        placement: &Placement,
        evicted: &Evictions,
        moment: &ScenarioMoment<'_>,
    ) -> FailoverOutcome {
        let _ = (placement, evicted, moment);
        FailoverOutcome::default()
    }

    /// How it limits at how many clusters placements change at a time.
    fn rollout(&self) -> &dyn RolloutRules {
        &rollout_rules::NoRollouts
    }

    /// The seconds between a change of a workload's pods and the moment at which the control plane counts them; `None`
    /// if it never moves replicas because they fit on no node.
    fn counts_pods_after(&self) -> Option<i64> {
        None
    }

    /// Records the replicas that fit on no node at a moment of a scenario, for the next decision about the placement of
    /// an object.
    fn record_unschedulable(
        &self,
        object: &ObjectRef,
        placement: &Placement,
        pods: &PodCounts,
        seconds: i64,
    ) -> MigrationOutcome {
        let _ = (object, placement, pods, seconds);
        MigrationOutcome::default()
    }

    /// Whether an object in a member cluster is healthy by a rule of the repo for its kind; `None` where there
    /// is no such rule, so that [`Dialect::assess_health`] decides.
    fn assess_health_by_repo(&self, live: &Object) -> Option<Health> {
        let _ = live;
        None
    }

    /// Findings about policies that are too expensive for [`check_policies`](Self::check_policies), which every run calls.
    fn check_policies_thoroughly(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Explains why an object is where it is; `None` where the dialect does not decide about it. `placed` is
    /// its row of the plan, if there is one.
    fn explain_placement(
        &self,
        object: &ObjectRef,
        previous: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation>;
}

/// What a group of clusters receives of one placement.
#[derive(Debug)]
pub struct ManifestVariant {
    /// The clusters, sorted by name.
    pub clusters: ClusterNames,
    /// The manifest, or why nothing new is sent.
    pub rendered: Result<RenderedManifest, NotSent>,
}

/// Why some clusters of a placement are sent nothing new.
#[derive(Debug)]
pub struct NotSent {
    /// The control plane's own status, e.g. `ClusterNotReady`.
    pub status: &'static str,
    /// The finding about this object; `None` where [`PolicyPlanner::check_policies`] reports it.
    pub finding: Option<Finding>,
}

/// A manifest for a member cluster.
#[derive(Debug)]
pub struct RenderedManifest {
    /// The manifest.
    pub body: Value,
    /// The override rules that changed it, in the order applied.
    pub changes: Vec<OverrideChange>,
}
