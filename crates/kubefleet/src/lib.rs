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
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use federate_kubernetes::kinds::GroupKinds;
use federate_kubernetes::{Capacity, Cluster, ClusterName, Connection, Finding, Object, ObjectRef};
use federate_repo::config::ConfiguredCluster;
use federate_repo::{Claimed, Config, ImpliedScope, Repo, Role};

use federate_dialect::admitted::Admitted;
use federate_dialect::import::Importer;
use federate_dialect::release;
use federate_dialect::{
    Action, Awaited, ClusterReads, ControlPlane, Decided, Dialect, Explanation, Health, HubKinds, Input,
    LossStep, MemberManager, Observation, Placement, Plan, PolicyRollout, Previous, Reads, References,
    Release, Released, Rendered, RolledOut, RolloutMoment, RolloutStep, Sender, Starter, Variant, Withheld,
};

mod affinity;
mod api;
pub mod capacity;
mod cluster;
mod decide;
mod envelope;
mod explain;
pub mod failover;
mod failure;
mod health;
pub mod hub;
mod import;
mod kinds;
pub mod leave;
mod manifest;
pub mod member;
pub mod membership;
mod memory;
mod overrides;
mod properties;
mod references;
pub mod rollout;
mod schedule;
mod selection;
mod shared;
mod starter;
mod subject;
mod updates;
mod validate;
mod version;
mod waves;

use api::{PlacementType, Policy};
use manifest::{Item, Sending};
use memory::Memory;
use overrides::Overrides;
use overrides::work::{WorkInputs, WorkSources};
use rollout::carry::Carrying;
use rollout::prospect::UpdateRuns;
use selection::Hub;
use subject::Subject;

use version::DroppedFields;
pub use version::{Behaviour, RELEASES};

const NAME: &str = "kubefleet";

/// The API groups of the dialect.
const CLUSTER_GROUP: &str = "cluster.kubernetes-fleet.io";
const PLACEMENT_GROUP: &str = "placement.kubernetes-fleet.io";

/// The dialect.
pub struct KubeFleet;

impl Dialect for KubeFleet {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role(&self, api_version: &str, kind: &str) -> Option<Role> {
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

    fn kinds(&self) -> &'static [GroupKinds] {
        &kinds::KINDS
    }

    /// A placement of the whole cluster selects cluster-scoped objects, and a placement of a namespace those in it.
    fn implied_scopes(&self, object: &Object) -> Vec<ImpliedScope> {
        selection::implied_scopes(object)
    }

    fn domains(&self) -> &'static [&'static str] {
        &["kubernetes-fleet.io", "kubefleet.dev"]
    }

    fn member_managers(&self) -> &'static [MemberManager] {
        const { &[MemberManager { name: member::MANAGER, label: None }] }
    }

    fn memory(&self, hub: &[Object]) -> Result<Plan, String> {
        hub::memory_of(hub).map_err(|error| error.to_string())
    }

    fn settings(&self) -> &'static [&'static str] {
        &[release::SETTING, version::WEBHOOK_SETTING]
    }

    fn installed(&self, objects: &[&Object]) -> Option<Result<Release, String>> {
        version::installed(objects)
    }

    fn starter(&self, clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
        starter::starter(clusters, templates)
    }

    fn importer(&self) -> Option<Importer> {
        Some(import::IMPORTER)
    }

    fn mark(&self, live: &mut Object) {
        if live.annotation(member::HASH).is_none() {
            live.set_annotation(member::HASH, "");
        }
    }

    fn references(&self, object: &Object) -> References {
        references::of(object)
    }

    fn validate(&self, claimed: &Claimed, config: &Config) -> Vec<Finding> {
        validate::check(&claimed.object, &Behaviour::configured(config))
    }

    fn cluster(&self, object: &Object, strict: bool, config: &Config) -> Result<Cluster, Finding> {
        Ok(cluster::read(object, strict, &Behaviour::configured(config)))
    }

    fn capacity(&self, _: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
        capacity::of_nodes(nodes, pods)
    }

    fn properties(&self, nodes: &[Object]) -> BTreeMap<String, String> {
        capacity::properties(nodes)
    }

    fn cluster_status(&self, _: &Object, seen: &Observation) -> Option<Value> {
        capacity::status(seen)
    }

    fn hub_kinds(&self) -> &'static [HubKinds] {
        &hub::HUB_KINDS
    }

    fn connection(&self, _: &Object) -> Result<Connection, String> {
        Err("its MemberCluster contains no connection details: an agent in the cluster connects to the hub"
            .to_owned())
    }

    /// The agent of a lost cluster sends no heartbeat. What is placed stays, but nothing new is placed there.
    fn loss(&self, _: &Repo, cluster: &Cluster, _: bool) -> Vec<LossStep> {
        let mut lost = cluster.clone();
        self.lose(&mut lost);
        let what = format!("{}: no heartbeat for 5 minutes, nothing new is placed there", cluster.name);
        vec![LossStep { seconds: HEARTBEAT_TIMEOUT, what, cluster: lost }]
    }

    /// The agent confirms that it leaves; without an answer it is forced to.
    fn leaves_after(&self, reachable: bool) -> i64 {
        leave::time_until_gone(reachable).as_secs()
    }

    /// A cycle starts when the object is gone.
    fn notices_deletion(&self) -> bool {
        false
    }

    fn health(&self, live: &Object, _: &Config) -> Health {
        health::neutral_health(live)
    }

    fn wave(&self, object: &ObjectRef) -> u32 {
        waves::wave(object)
    }

    fn senders(&self, row: &Placement) -> Vec<Sender> {
        let share = |share: memory::Share| Sender { policy: share.policy, clusters: share.clusters };
        shared::shares(row).into_iter().map(share).collect()
    }

    fn open<'a>(&self, input: Input<'a>) -> Box<dyn ControlPlane + 'a> {
        Box::new(KubeFleetPlane::new(input))
    }
}

/// The seconds after which a cluster without heartbeats is not eligible.
const HEARTBEAT_TIMEOUT: i64 = 300;

/// `KubeFleet`'s control plane over one repo.
struct KubeFleetPlane<'a> {
    input: Input<'a>,
    /// The rules of the release.
    behaviour: Behaviour,
    /// Placements that admission refuses have a row as well, which says so.
    placements: Vec<Subject<'a>>,
    overrides: Overrides<'a>,
    update_runs: UpdateRuns<'a>,
    /// Decisions by placement and by selected object; the first placement counts.
    about: BTreeMap<ObjectRef, usize>,
    findings: Vec<Finding>,
}

/// Drops failures of selectors that are invalid: the selection fails because of that.
fn drop_followers(findings: &mut Vec<Finding>) {
    let selector = |pointer: &str| pointer.split('/').take(4).collect::<Vec<_>>().join("/");
    let is_cause = |finding: &&Finding| finding.is_error() && finding.code == "invalid-policy";
    let invalid: BTreeSet<(Option<ObjectRef>, String)> = findings
        .iter()
        .filter(is_cause)
        .map(|finding| (finding.object.clone(), selector(&finding.pointer)))
        .collect();
    findings.retain(|finding| {
        finding.code != selection::FAILED
            || !invalid.contains(&(finding.object.clone(), finding.pointer.clone()))
    });
}

impl<'a> KubeFleetPlane<'a> {
    fn new(input: Input<'a>) -> Self {
        let (behaviour, unknown) = Behaviour::chosen(input.repo);
        let (admitted, mut findings) = Admitted::of(input.repo, &KubeFleet);
        findings.extend(unknown);
        let mut admitted_overrides: Vec<&Object> = admitted.role(Role::Override).collect();
        if behaviour.has_webhooks {
            findings.extend(overrides::refuse_shared_targets(&mut admitted_overrides));
        }
        let (overrides, unread) = Overrides::new(admitted_overrides.into_iter());
        findings.extend(unread);
        let about = BTreeMap::new();
        let update_runs = UpdateRuns::read(input.repo);
        let placements = Vec::new();
        let mut plane = Self { input, behaviour, placements, overrides, update_runs, about, findings };
        let hub = Hub::new(input.repo, behaviour);
        for object in input.repo.claimed(NAME, Role::Placement) {
            let object = DroppedFields::of(object, &behaviour).drop_from(object);
            let unserved = if behaviour.has_webhooks {
                selection::refuse_unserved_versions(&hub, &object)
            } else {
                Vec::new()
            };
            let refused = admitted.refuses(&object.id) || !unserved.is_empty();
            plane.findings.extend(unserved);
            let earlier = updates::earlier_object(&object, input.previous);
            let update = earlier.as_ref().filter(|_| !refused).and_then(|old| updates::refuse(old, &object));
            // The API server keeps the placement before an update that it refuses.
            let stored = earlier.filter(|_| refused || update.is_some());
            plane.findings.extend(update);
            let is_admitted = !refused || stored.is_some();
            let object = stored.map_or(object, Cow::Owned);
            // The schema check reports a policy that cannot be read.
            let mut subject = match Policy::read(object.at(&["spec", "policy"])) {
                Ok(policy) => Subject::new(&hub, object, policy, &mut plane.findings),
                Err(_) => Subject::unreadable(object),
            };
            subject.admitted = is_admitted;
            if let Some(row) = input.previous.of(&subject.object.id) {
                subject.works = Memory::of(row).work_inputs();
            }
            plane.placements.push(subject);
        }
        drop_followers(&mut plane.findings);
        for (unit, subject) in plane.placements.iter().enumerate() {
            for id in std::iter::once(&subject.object.id).chain(subject.selected()) {
                plane.about.entry(id.clone()).or_insert(unit);
            }
        }
        plane
    }

    /// The placement with that id.
    fn subject(&self, id: &ObjectRef) -> Option<&Subject<'a>> {
        let subject = self.placements.get(*self.about.get(id)?)?;
        (subject.object.id == *id).then_some(subject)
    }

    /// The rollout of a placement with its row of the plan.
    fn carrying<'c>(&'c self, subject: &'c Subject<'a>, row: &'c Placement) -> Carrying<'c> {
        Carrying {
            repo: self.input.repo,
            clusters: self.input.clusters,
            placement: &subject.object,
            row,
            trackable: subject.items.iter().all(|item| health::is_tracked(&item.id)),
            behaviour: self.behaviour,
        }
    }

    /// The resources and overrides of a placement, if some of the overrides read the labels of clusters.
    fn work_sources<'s>(&self, subject: &'s Subject<'a>) -> Option<&'s WorkSources> {
        let sources = || {
            let targets = subject.items.iter().map(Item::overridden);
            let is_fixed = subject.items.iter().all(|item| !item.differs_by_cluster());
            let bodies = || subject.items.iter().map(|item| item.body("")).collect();
            WorkSources::read(&self.overrides, &subject.object.id, targets, bodies).filter(|_| is_fixed)
        };
        subject.work_sources.get_or_init(sources).as_ref()
    }

    /// What the works of a cluster were written with, if the same resources and overrides are in force now.
    fn former_inputs<'s>(&self, subject: &'s Subject<'a>, cluster: &Cluster) -> Option<&'s WorkInputs> {
        let former = subject.works.get(&cluster.name)?;
        let now = self.work_sources(subject)?.inputs(&self.overrides, cluster)?;
        (now.digest == former.digest).then_some(former)
    }

    /// The cluster as overrides see it: with the labels that its works were written with.
    fn with_former_labels<'c>(&self, subject: &Subject<'a>, cluster: &'c Cluster) -> Cow<'c, Cluster> {
        match (self.former_inputs(subject, cluster), self.work_sources(subject)) {
            (Some(former), Some(sources)) => Cow::Owned(sources.with_former_labels(cluster, former)),
            _ => Cow::Borrowed(cluster),
        }
    }

    /// What the works of clusters are written with. Works that cannot be written are left out.
    fn work_inputs<'c>(
        &self,
        subject: &Subject<'a>,
        clusters: impl Iterator<Item = &'c Cluster>,
    ) -> BTreeMap<ClusterName, WorkInputs> {
        let Some(sources) = self.work_sources(subject).filter(|_| subject.withholds().is_none()) else {
            return BTreeMap::new();
        };
        let clusters: Vec<&Cluster> = clusters.collect();
        let names: Vec<ClusterName> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
        self.sending(subject, &names, |sending| {
            let written = clusters.iter().filter(|cluster| sending.failure(&cluster.name).is_none());
            let inputs = written.filter_map(|cluster| {
                let former = self.former_inputs(subject, cluster).cloned();
                let inputs = former.or_else(|| sources.inputs(&self.overrides, cluster))?;
                Some((cluster.name.clone(), inputs))
            });
            inputs.collect()
        })
    }

    /// The variants of an object that a placement selects.
    fn variants(&self, subject: &Subject<'a>, object: &ObjectRef, clusters: &[ClusterName]) -> Vec<Variant> {
        // Its own row stands for no manifest.
        if *object == subject.object.id {
            return Vec::new();
        }
        if let Some(status) = subject.withholds() {
            let withheld = Withheld { status, finding: None };
            return vec![Variant { clusters: clusters.into(), rendered: Err(withheld) }];
        }
        let Some(index) = subject.index(object) else { return Vec::new() };
        self.sending(subject, clusters, |sending| sending.variants(index))
    }

    /// The manifest of the object for one of these clusters.
    fn variant(
        &self,
        subject: &Subject<'a>,
        object: &ObjectRef,
        clusters: &[ClusterName],
        cluster: &ClusterName,
    ) -> Option<Result<Rendered, Withheld>> {
        if let Some(status) = subject.withholds().filter(|_| *object != subject.object.id) {
            return Some(Err(Withheld { status, finding: None }));
        }
        let index = subject.index(object)?;
        self.sending(subject, clusters, |sending| sending.variant(index, cluster))
    }

    /// Calls `ask` with what a placement sends to clusters. All its objects go to the same clusters, except
    /// where two placements send the same object.
    fn sending<T>(
        &self,
        subject: &Subject<'a>,
        clusters: &[ClusterName],
        ask: impl FnOnce(&Sending<'a>) -> T,
    ) -> T {
        let sending = || {
            let all = self.input.clusters.iter().filter(|c| clusters.binary_search(&c.name).is_ok());
            let placed: Vec<Cow<'_, Cluster>> =
                all.map(|cluster| self.with_former_labels(subject, cluster)).collect();
            let placed: Vec<&Cluster> = placed.iter().map(AsRef::as_ref).collect();
            Sending::new(&self.overrides, &subject.object.id, subject.items.clone(), &placed)
        };
        let (of, first) = subject.sending.get_or_init(|| (clusters.to_vec(), sending()));
        if of == clusters { ask(first) } else { ask(&sending()) }
    }
}

impl ControlPlane for KubeFleetPlane<'_> {
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
        self.findings.clone()
    }

    fn examine(&self) -> Vec<Finding> {
        let fixed = self.placements.iter().filter(|one| {
            one.policy.placement_type == PlacementType::PickFixed && one.policy.cluster_names.is_empty()
        });
        fixed.map(|one| validate::pick_fixed_without_names(&one.object)).collect()
    }

    fn cluster_reads(&self) -> ClusterReads {
        let policies = self.placements.iter().map(|placement| &placement.policy);
        let capacity = policies.flat_map(|policy| properties::unknown(policy, self.input.clusters)).collect();
        ClusterReads { capacity, ..ClusterReads::default() }
    }

    fn withheld(&self, template: &Object) -> Option<String> {
        let why = selection::stays_on_hub(template, &self.behaviour)?;
        Some(format!("KubeFleet never places it, because {why}"))
    }

    fn subjects(&self) -> Vec<federate_dialect::Subject> {
        let subject = |placement: &Subject<'_>| federate_dialect::Subject {
            object: placement.object.id.clone(),
            reads: Reads::Templates,
        };
        self.placements.iter().map(subject).collect()
    }

    fn decide(&self, subject: &ObjectRef, previous: &Previous) -> Decided {
        self.subject(subject).map(|subject| decide::decide(self, subject, previous)).unwrap_or_default()
    }

    fn complete(&self, decided: Decided, previous: &Previous) -> Decided {
        shared::join(self.input.repo, decided, previous)
    }

    /// Rows are joined only if several placements select one object.
    fn is_complete(&self) -> bool {
        let selected: usize = self.placements.iter().map(|subject| 1 + subject.selected().len()).sum();
        selected == self.about.len()
    }

    fn limits_rollouts(&self) -> bool {
        !self.placements.is_empty()
    }

    fn roll_out(&self, placement: &Placement, released: &Released, seconds: i64) -> Option<RolledOut> {
        let subject = self.subject(&placement.object)?;
        // A scenario says when resources are available.
        let carrying = Carrying { trackable: true, ..self.carrying(subject, placement) };
        rollout::scenario::roll_out(&carrying, released, seconds)
    }

    fn limits_rollout(&self, policy: &ObjectRef, rolling: bool) -> bool {
        self.subject(policy).is_some_and(|subject| rollout::carry::limits(&subject.object, rolling))
    }

    fn carry_out(
        &self,
        row: &Placement,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Option<RolloutStep> {
        let subject = self.subject(&row.object)?;
        self.carrying(subject, row).carry_out(rollout, moment)
    }

    fn without_awaited(&self, placement: &Placement, awaited: &Awaited) -> Option<Placement> {
        rollout::scenario::without_awaited(placement, awaited)
    }

    fn manifests(&self, placement: &Placement) -> Vec<Variant> {
        let variants = shared::shares(placement).into_iter().filter_map(|share| {
            Some(self.variants(self.subject(&share.policy)?, &placement.object, &share.clusters))
        });
        variants.flatten().collect()
    }

    fn reconcile(&self, placement: &Placement, cluster: &Cluster, live: Option<&Object>) -> Option<Action> {
        member::reconcile::reconcile(self, placement, cluster, live)
    }

    fn explain(
        &self,
        object: &ObjectRef,
        previous: &Previous,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        let subject = self.placements.get(*self.about.get(object)?)?;
        Some(explain::explain(self, subject, object, previous, placed))
    }
}
