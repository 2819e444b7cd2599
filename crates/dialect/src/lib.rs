//! The traits between the engine and the control planes: what a dialect is asked, and what it answers.
//!
//! A [`Dialect`] knows which kinds are its own and reads its inventory into the neutral
//! [`Cluster`]. Opened on a repo it becomes a [`ControlPlane`], which holds its policies compiled
//! and decides exactly as the real one. The engine asks and never looks inside; it spreads the
//! work over the processor's cores.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use federate_kubernetes::kinds::{GroupKinds, Scope};
use federate_kubernetes::{Cluster, ClusterName, Connection, Finding, Live, Object, ObjectRef};
use federate_repo::{Claimed, Config, Declared, Repo, Role};

pub mod admitted;
pub mod clean;
mod dialects;
pub mod goduration;
pub mod gojson;
pub mod health;
pub mod import;
mod lists;
mod placed;
pub mod plan;
pub mod probe;
pub mod release;
pub mod served;

pub use dialects::Dialects;
pub use health::{Health, HealthState};
pub use lists::SharedLists;
pub use placed::{ClusterNames, Placed, PlacedClusters};
pub use plan::{Memory, Placement, Plan, Unschedulable};
pub use release::Release;

/// A control plane's way of writing policies.
pub trait Dialect: Sync {
    /// Its name in plans and messages.
    fn name(&self) -> &'static str;

    /// What objects of this kind are to it; `None` for other people's.
    fn role(&self, api_version: &str, kind: &str) -> Option<Role>;

    /// The kind that an object makes this dialect's own: some control planes take custom kinds by
    /// configuration. What is claimed that way need not be known to [`role`](Self::role).
    fn declares(&self, object: &Object) -> Option<Declared> {
        let _ = object;
        None
    }

    /// Its own kinds, by API group.
    fn kinds(&self) -> &'static [GroupKinds] {
        &[]
    }

    /// Where objects of one of its own kinds live; `None` for other people's.
    fn scope(&self, group: &str, kind: &str) -> Option<Scope> {
        self.kinds().iter().find(|known| known.group == group)?.scope(kind)
    }

    /// The domains, subdomains included, of its API groups, labels and annotations.
    fn domains(&self) -> &'static [&'static str] {
        &[]
    }

    /// The keys that it understands below `dialects.<name>` in `federate.yaml`.
    fn settings(&self) -> &'static [&'static str] {
        &[]
    }

    /// What its control plane remembers, among the objects of the control plane's own API server, as the memory
    /// of a plan. By default nothing.
    fn memory(&self, hub: &[Object]) -> Result<Plan, String> {
        let _ = hub;
        Ok(Plan::default())
    }

    /// How it takes objects in that run already, if it can.
    fn importer(&self) -> Option<import::Importer> {
        None
    }

    /// Validates one of its own objects as the control plane's API server and admission webhooks do, in the
    /// release that the configuration names. An object with errors takes no part in any decision.
    fn validate(&self, claimed: &Claimed, config: &Config) -> Vec<Finding>;

    /// Reads one of its valid inventory objects. With `strict`, an object without `status` is what the
    /// control plane would take it for; without, it counts as joined, ready and serving every API.
    /// Labels and fields that a release adds are present as in the release that the configuration names.
    fn cluster(&self, object: &Object, strict: bool, config: &Config) -> Result<Cluster, Finding>;

    /// How its control plane reaches the cluster of one of its inventory objects, or why that cannot be told
    /// from the object.
    fn connection(&self, object: &Object) -> Result<Connection, String> {
        let _ = object;
        Err("its inventory does not say how it is reached".to_owned())
    }

    /// Makes of a cluster of its inventory what its control plane makes of one that can no longer be reached. By
    /// default it is not ready.
    fn lose(&self, cluster: &mut Cluster) {
        cluster.ready = false;
    }

    /// Marks a live object as this control plane marks what it has sent: what we have applied is its own,
    /// though it carries no such mark. By default there is none.
    fn mark(&self, live: &mut Object) {
        let _ = live;
    }

    /// Whether an object in a member cluster is healthy by the rules of this control plane, in the release that
    /// the configuration names.
    fn health(&self, live: &Object, config: &Config) -> Health {
        let _ = (live, config);
        Health::unknown("this control plane does not judge the health of objects")
    }

    /// The wave in which an object is applied to a member cluster: a wave starts when the one before
    /// is applied. Without rules all is one wave.
    fn wave(&self, object: &ObjectRef) -> u32 {
        let _ = object;
        0
    }

    /// Compiles the repo's policies.
    fn open<'a>(&self, input: Input<'a>) -> Box<dyn ControlPlane + 'a>;
}

/// What a control plane decides from, besides the previous plan.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The repo.
    pub repo: &'a Repo,
    /// Every cluster of the inventory, whatever dialect wrote it, sorted by name.
    pub clusters: &'a [Cluster],
    /// The clock for rules about age; without it they do not apply.
    pub now: Option<Timestamp>,
    /// What runs in the member clusters, as far as it was given.
    pub live: &'a Live,
    /// The addresses that host names resolve to; a name that is not here does not resolve.
    pub hosts: &'a Hosts,
    /// Whether the repo is kept for this control plane, so that the rules apply that need no policy
    /// (namespaces that go everywhere, templates that count as withdrawn).
    pub standing: bool,
}

/// Addresses by host name.
pub type Hosts = std::collections::BTreeMap<String, Vec<String>>;

/// The name under which what a control plane writes on its own host stands beside the clusters.
pub const HOST: &str = "hub";

/// A dialect's policies, compiled for one repo.
pub trait ControlPlane: Sync {
    /// The release by whose rules it decides; `None` where releases do not differ.
    fn release(&self) -> Option<Release> {
        None
    }

    /// In words, the rules by which another release decides differently; none where that is not known.
    fn differences(&self, other: &str) -> Vec<&'static str> {
        let _ = other;
        Vec::new()
    }

    /// What is wrong with its policies, or useless in them. Errors here also keep the policies
    /// concerned out of every decision, as admission would.
    fn check(&self) -> Vec<Finding>;

    /// What is decided about, each independently of the others. The order does not matter; each object is there
    /// once.
    fn subjects(&self) -> Vec<Subject>;

    /// Decides about one of the [`subjects`](Self::subjects); nothing of any other object.
    fn decide(&self, subject: &ObjectRef, previous: &Previous) -> Decided;

    /// Completes the decisions about all subjects, in their order, with what depends on other placements.
    fn complete(&self, decided: Vec<Decided>, previous: &Previous) -> Decided;

    /// What each cluster of a placement receives: clusters that receive the same stand together.
    /// Every cluster of the placement, those it is withdrawn from included, is in exactly one variant;
    /// a placement that sends nothing of its own (a policy's own row) has none.
    fn manifests(&self, placement: &Placement) -> Vec<Variant>;

    /// What is done about a placement's object in one cluster, given what is there; `None` where the
    /// control plane does nothing and says nothing.
    fn reconcile(&self, placement: &Placement, cluster: &Cluster, live: Option<&Object>) -> Option<Action> {
        let _ = (placement, cluster, live);
        None
    }

    /// Whether an object in a member cluster is healthy by what the repo says of its kind; `None` where it says
    /// nothing, so that [`Dialect::health`] holds.
    fn health(&self, live: &Object) -> Option<Health> {
        let _ = live;
        None
    }

    /// What is wrong with policies that takes more work to find than [`check`](Self::check) may cost each run.
    fn examine(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// How far the removal of an object is that is being deleted on the control plane's host, from what
    /// is in the clusters; `None` for any other.
    fn removal(&self, object: &ObjectRef) -> Option<Removal> {
        let _ = object;
        None
    }

    /// Why an object is where it is: `None` when the dialect has no say in it. `placed` is its row of
    /// the plan, if it has one.
    fn explain(
        &self,
        object: &ObjectRef,
        previous: &Previous,
        placed: Option<&Placement>,
    ) -> Option<Explanation>;
}

/// The previous plan, by object.
#[derive(Clone, Debug, Default)]
pub struct Previous {
    by_object: std::collections::BTreeMap<ObjectRef, Placement>,
    versions: std::collections::BTreeMap<String, String>,
    shared: std::collections::BTreeMap<String, Value>,
}

impl Previous {
    /// Indexes a plan.
    pub fn new(plan: Plan) -> Self {
        let by_object = plan.placements.into_iter().map(|p| (p.object.clone(), p)).collect();
        Self { by_object, versions: plan.versions, shared: plan.shared }
    }

    /// What was decided for an object.
    pub fn of(&self, object: &ObjectRef) -> Option<&Placement> {
        self.by_object.get(object)
    }

    /// The release of a dialect's control plane that decided, as far as the plan says.
    pub fn version(&self, dialect: &str) -> Option<&str> {
        self.versions.get(dialect).map(String::as_str)
    }

    /// Whether what several placements remembered together is the same in another plan.
    pub fn shares_with(&self, other: &Self) -> bool {
        self.shared == other.shared
    }

    /// What several placements remembered together, by its digest.
    pub fn shared(&self, digest: &str) -> Option<&Value> {
        self.shared.get(digest)
    }
}

/// What one decision is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The object of the repo: a template, or one that the dialect claims.
    pub object: ObjectRef,
    /// What of the repo's templates the decision looks at.
    pub reads: Reads,
}

/// What of the repo's templates a decision looks at, besides policies, inventory and the previous plan. It says
/// which decisions stay as they are when templates change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Only the subject, and of the previous plan only its row.
    Subject,
    /// Any of them.
    Templates,
}

/// The outcome of decisions.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// Placements, in any order.
    pub placements: Vec<Placement>,
    /// What went wrong or is worth knowing.
    pub findings: Vec<Finding>,
    /// What the memory of several placements refers to, by digest.
    pub shared: Map<String, Value>,
}

/// What some clusters receive of one placement.
#[derive(Debug)]
pub struct Variant {
    /// They receive the same; sorted by name.
    pub clusters: ClusterNames,
    /// The object, or why nothing (new) is sent.
    pub rendered: Result<Rendered, Withheld>,
}

/// Why some clusters of a placement are sent nothing (new).
#[derive(Debug)]
pub struct Withheld {
    /// The control plane's own word for it, e.g. `ClusterNotReady`.
    pub status: &'static str,
    /// What is to be told of this object; `None` where [`ControlPlane::check`] has told it already.
    pub finding: Option<Finding>,
}

/// What is done about an object in a member cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The deed itself.
    pub op: SyncOp,
    /// Whether it takes over an object that the control plane did not write.
    pub adopts: bool,
    /// The control plane's own word for the outcome: `OK`, or why nothing is done.
    pub status: &'static str,
    /// Where an object is in the way that it does not take over: what would have to be set so that it does.
    pub hint: Option<String>,
}

impl Action {
    /// Nothing is done, for that reason.
    pub fn nothing(status: &'static str) -> Self {
        Self { op: SyncOp::Nothing, adopts: false, status, hint: None }
    }

    /// The same, with what would have to be set so that the object is taken over.
    #[must_use]
    pub fn unless(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// What is done, with the object as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum SyncOp {
    /// The object is created.
    Create(Value),
    /// The object that is there is replaced.
    Update(Value),
    /// The manifest is applied by the cluster's API server, which merges it.
    Apply {
        /// The manifest.
        manifest: Value,
        /// The field manager to apply it as.
        manager: &'static str,
        /// Whether fields are taken from other managers.
        force: bool,
    },
    /// The object that is there stays, but is the control plane's no longer: it is left like this.
    Release(Value),
    /// The object that is there is deleted.
    Delete(DeleteOptions),
    /// Everything stays as it is.
    Nothing,
}

/// The fields of `DeleteOptions` that a deletion is asked for with.
pub type DeleteOptions = Map<String, Value>;

/// How far the removal of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Whether the control plane lets the object itself go.
    pub released: bool,
    /// Whether there is more to do in the clusters.
    pub progress: Progress,
}

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is not.
    Done,
    /// Something is not gone yet.
    Waiting,
    /// It cannot go on as things are.
    Failed,
}

/// A manifest for a member cluster.
#[derive(Debug)]
pub struct Rendered {
    /// The manifest.
    pub body: Value,
    /// The override rules that changed it, in the order applied.
    pub changes: Vec<OverrideChange>,
}

/// What one override rule changed in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideChange {
    /// The override policy.
    pub policy: ObjectRef,
    /// `file:line` of the policy.
    pub origin: String,
    /// The paths that differ after it, as JSON pointers; empty when the rule applied but changed nothing.
    pub paths: Vec<String>,
}

/// Why an object is placed as it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The dialect's name.
    pub dialect: &'static str,
    /// How the policy was chosen, and which others matched: a sentence each.
    pub policy: Vec<String>,
    /// The arithmetic, a line a step.
    pub steps: Vec<String>,
    /// Whether all the clusters were found that the policy asks for, where the dialect says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fulfilled: Option<bool>,
    /// One row for each cluster of the inventory, sorted by name, and after them one for each cluster that
    /// the policy names and the inventory does not have.
    pub clusters: Vec<ClusterVerdict>,
    /// The decision itself.
    pub placement: Placement,
    /// The object that the control plane rewrites on its own host to say so, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<Value>,
}

/// One cluster's part in a decision.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVerdict {
    /// The cluster.
    pub cluster: ClusterName,
    /// Whether the object is placed there.
    pub chosen: bool,
    /// The filter that refused it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<&'static str>,
    /// The score, where the dialect scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// The replicas given, where the dialect decides them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Why, in words a person understands.
    pub why: String,
}
