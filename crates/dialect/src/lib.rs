//! The traits that a dialect implements: how the engine asks a control plane for its decisions.
//!
//! A [`Dialect`] knows its kinds and reads its inventory into the neutral [`Cluster`]. [`Dialect::compile_policies`]
//! compiles the policies of a repo into a [`PolicyPlanner`], which decides exactly as the real control plane. The
//! engine calls it from all cores and never looks inside.

use jiff::Timestamp;
use serde_json::Value;

use federate_kubernetes::{Cluster, Finding, LiveObjects, Object, ObjectRef};
use federate_repo::{ClaimedObject, Config, Repo, Role};

mod action;
pub mod admission;
mod author_advice;
pub mod clean;
pub mod cluster_profiles;
mod decision_keys;
mod decisions;
mod deletion;
mod dialects;
mod explanation;
mod failover;
mod failover_rules;
mod fnv;
mod followers;
pub mod goduration;
pub mod gojson;
pub mod health;
pub mod health_checks;
mod hub_reader;
pub mod import;
mod kind_catalog;
mod kind_rules;
mod lists;
mod member_reconciler;
mod member_rules;
mod observation;
mod outage_rules;
mod placed_clusters;
pub mod plan;
mod policy_advice;
mod policy_rollout;
mod previous_plan;
pub mod probe;
pub mod readiness;
mod reads;
pub mod references;
pub mod release;
mod replica_paths;
pub mod rollout;
mod rollout_rules;
pub mod scheduler_state;
pub mod serving_clusters;
pub mod stages;
mod starter;

pub use action::{ControlPlaneAction, DeleteOptions, SyncOp};
pub use author_advice::AuthorAdvice;
pub use decision_keys::DecisionKeys;
pub use decisions::{ClusterDependency, DecisionSubject, DialectDecisions, TemplateReads};
pub use deletion::{DeletionProgress, DeletionState};
pub use dialects::Dialects;
pub use explanation::{ClusterCause, ClusterVerdict, Explanation, OverrideChange, VerdictCause};
pub use failover::{
    BEFORE_SCENARIO, Evictions, FailoverOutcome, MigrationOutcome, OutageStep, PodCount, PodCounts,
    ScenarioMoment, TaintedSince,
};
pub use failover_rules::FailoverRules;
pub use fnv::compute_fnv1;
pub use followers::{UnplacedFollower, UnplacedFollowerReason};
pub use health::{Health, HealthState};
pub use hub_reader::{HubReader, UnreadableObject};
pub use kind_catalog::{CarriedReplicas, KindCatalog, RenamedGroup};
pub use kind_rules::KindRules;
pub use lists::SharedLists;
pub use member_reconciler::MemberReconciler;
pub use member_rules::MemberRules;
pub use observation::{ClusterObservation, HubKinds, RecordSource, RecordedKind};
pub use outage_rules::OutageRules;
pub use placed_clusters::{ClusterNames, Placed, PlacedClusters};
pub use plan::{Placement, Plan, Unschedulable};
pub use policy_advice::{CarriedTemplate, PolicyAdvice};
pub use policy_rollout::{
    ClusterRollout, PolicyClusters, PolicyResources, PolicyRollout, PolicyRollouts, RolloutDriver,
    RolloutMoment, RolloutProgress, RolloutStep, RolloutSubject,
};
pub use previous_plan::{ChangedRows, PreviousPlan, RowKey};
pub use reads::{ClusterReads, ObjectScope};
pub use references::ObjectReferences;
pub use release::Release;
pub use replica_paths::ReplicaFields;
pub use rollout_rules::RolloutRules;
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

    /// Validates one of its own objects as the control plane's API server and admission webhooks do, in the
    /// release that the configuration names. An object with errors takes no part in any decision.
    fn validate_object(&self, claimed: &ClaimedObject, config: &Config) -> Vec<Finding>;

    /// Reads one of its valid inventory objects. With `strict`, an object without `status` is what the
    /// control plane would take it for; without, it counts as joined, ready and serving every API.
    /// Labels and fields that a release adds are present as in the release that the configuration names.
    fn read_cluster(&self, object: &Object, strict: bool, config: &Config) -> Result<Cluster, Finding>;

    /// The policies that send the object of a row of a plan, each with its clusters.
    fn policies_of(&self, row: &Placement) -> Vec<PolicyClusters> {
        let clusters = row.clusters.iter().map(|placed| placed.name.clone()).collect();
        row.policy.clone().map(|policy| PolicyClusters { policy, clusters }).into_iter().collect()
    }

    /// Compiles the repo's policies.
    fn compile_policies<'a>(&self, input: PlannerInput<'a>) -> Box<dyn PolicyPlanner + 'a>;

    /// What is its own in a repo: kinds, domains, keys.
    fn kinds(&self) -> &dyn KindCatalog {
        &Defaults
    }

    /// What it keeps on its own API server.
    fn hub(&self) -> &dyn HubReader {
        &Defaults
    }

    /// What it does about clusters that are lost.
    fn outages(&self) -> &dyn OutageRules {
        &Defaults
    }

    /// What it does to objects in member clusters.
    fn members(&self) -> &dyn MemberRules {
        &Defaults
    }

    /// What helps the authors of a repo.
    fn advice(&self) -> &dyn AuthorAdvice {
        &Defaults
    }
}

/// A control plane without a capability: everything is as the defaults say.
struct Defaults;

impl KindCatalog for Defaults {}
impl HubReader for Defaults {}
impl OutageRules for Defaults {}
impl MemberRules for Defaults {}
impl AuthorAdvice for Defaults {}
impl RolloutRules for Defaults {}
impl MemberReconciler for Defaults {}
impl KindRules for Defaults {}
impl DecisionKeys for Defaults {}
impl FailoverRules for Defaults {}
impl PolicyAdvice for Defaults {}

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
    /// Findings about its policies: what is invalid or has no effect. A policy with errors takes part in no
    /// decision, because admission refuses it.
    fn check_policies(&self) -> Vec<Finding>;

    /// Places a template that no policy selects in every cluster. By default it cannot.
    fn place_unmatched(&self, template: &Object) -> DialectDecisions {
        let _ = template;
        DialectDecisions::default()
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
    fn render_placement(&self, placement: &Placement) -> Vec<ManifestVariant>;

    /// Whether manifests of a placement may have other replicas than its row, or than the template where the row has none. Counting
    /// replicas renders these rows, so that an answer has to take less than a manifest. By default, any row may.
    fn may_change_replicas(&self, placement: &Placement) -> bool {
        let _ = placement;
        true
    }

    /// The objects in which the control plane records where a placement goes, if other programs read it from them. By
    /// default there are none.
    fn decision_records(&self, placement: &Placement) -> Vec<Value> {
        let _ = placement;
        Vec::new()
    }

    /// How it limits at how many clusters placements change at a time.
    fn rollout(&self) -> &dyn RolloutRules {
        &Defaults
    }

    /// Explains why an object is where it is; `None` where the dialect does not decide about it. `placed` is
    /// its row of the plan, if there is one.
    fn explain_placement(
        &self,
        object: &ObjectRef,
        previous: &PreviousPlan,
        placed: Option<&Placement>,
    ) -> Option<Explanation>;

    /// What it does about the objects in a member cluster.
    fn reconciler(&self) -> &dyn MemberReconciler {
        &Defaults
    }

    /// What the repo or the control plane says about kinds of objects.
    fn kind_rules(&self) -> &dyn KindRules {
        &Defaults
    }

    /// What tells without deciding that decisions are equal.
    fn keys(&self) -> &dyn DecisionKeys {
        &Defaults
    }

    /// How it moves placements off clusters.
    fn failover(&self) -> &dyn FailoverRules {
        &Defaults
    }

    /// What helps the authors of its policies.
    fn advice(&self) -> &dyn PolicyAdvice {
        &Defaults
    }
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
