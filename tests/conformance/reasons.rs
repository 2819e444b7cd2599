//! Whether every reason that an explanation gives for a cluster is true: without what the reason names, the answer for
//! that cluster is another.
//!
//! The causes of a verdict are taken away from the policy, the cluster, the template or the earlier plan, and everything
//! is decided again. Then the cluster is chosen, or another reason keeps it out.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{ClusterCause, ClusterVerdict, Plan, PreviousPlan, VerdictCause};
use federate_dialects::DIALECTS;
use federate_engine::{Engine, EngineSettings};
use federate_kubernetes::{Cluster, LiveObjects, ObjectRef};
use federate_repo::{Config, Repo, RepoFile};
use serde_json::Value;

use edits::Edits;

#[path = "reasons/edits.rs"]
mod edits;

/// A repo in one state, with what is decided from besides.
#[derive(Clone)]
pub(crate) struct World {
    /// The objects of the repo.
    pub(crate) objects: Vec<Value>,
    pub(crate) config: Config,
    pub(crate) settings: EngineSettings,
}

/// What came of the reasons of a world.
#[derive(Default)]
pub(crate) struct Reasons {
    /// How many there are, by dialect and kind.
    pub(crate) counts: BTreeMap<(String, &'static str), usize>,
    /// The false ones, in words.
    pub(crate) wrong: Vec<String>,
}

/// The verdicts on clusters without an object, by object and cluster; `None` where the object is placed there.
type Verdicts = BTreeMap<(ObjectRef, String), Option<ClusterVerdict>>;

/// The verdicts of a plan.
struct Decided {
    verdicts: Verdicts,
    plan: Plan,
}

/// A world as it is read.
struct LoadedWorld {
    repo: Repo,
    clusters: Vec<Cluster>,
}

impl Reasons {
    /// Adds those of another world.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        for (key, count) in other.counts {
            *self.counts.entry(key).or_default() += count;
        }
        self.wrong.extend(other.wrong);
        self
    }

    /// Tries all reasons of a world.
    pub(crate) fn of_world(world: &World) -> Self {
        let loaded = LoadedWorld::read(world, &Edits::default());
        let decided = loaded.decide(&world.settings, |_| true);
        let mut reasons = Self::default();
        let mut groups: BTreeMap<String, Vec<&ClusterVerdict>> = BTreeMap::new();
        let mut objects: BTreeMap<String, Vec<&ObjectRef>> = BTreeMap::new();
        for ((object, _), verdict) in &decided.verdicts {
            let Some(verdict) = verdict else { continue };
            let row = decided.plan.find_placement(object).expect("a row");
            let dialect = row.dialect.clone();
            let kinds: BTreeSet<&'static str> = verdict.causes.iter().map(kind_of).collect();
            for kind in &kinds {
                *reasons.counts.entry((dialect.clone(), kind)).or_default() += 1;
            }
            if kinds.is_empty() {
                reasons
                    .wrong
                    .push(format!("{object} on {}: `{}` names nothing", verdict.cluster, verdict.why));
                continue;
            }
            if let Some(followed) = follows(verdict) {
                reasons.check_followed(&decided.plan, object, verdict, &followed);
                if followed.len() == verdict.causes.len() {
                    continue;
                }
            }
            if is_identity(&verdict.causes) {
                continue;
            }
            let key = group_key(verdict);
            groups.entry(key.clone()).or_default().push(verdict);
            objects.entry(key).or_default().push(object);
        }
        for (key, verdicts) in groups {
            let mut edits = Edits::default();
            for verdict in &verdicts {
                let own =
                    verdict.causes.iter().filter(|cause| !matches!(cause, VerdictCause::Follows { .. }));
                own.for_each(|cause| edits.add(cause, &verdict.cluster));
            }
            let objects = &objects[&key];
            let again = loaded.decide_after(world, &edits, |object| objects.contains(&object));
            for (object, verdict) in objects.iter().zip(verdicts) {
                reasons.check_changed(&again.verdicts, object, verdict);
            }
        }
        reasons
    }

    fn check_followed(
        &mut self,
        plan: &Plan,
        object: &ObjectRef,
        verdict: &ClusterVerdict,
        leaders: &[&ObjectRef],
    ) {
        let is_there = |leader: &&ObjectRef| {
            plan.find_placement(leader).is_some_and(|row| row.clusters.contains_cluster(&verdict.cluster))
        };
        if leaders.iter().any(is_there) {
            self.wrong.push(format!("{object} on {}: `{}`, but that is there", verdict.cluster, verdict.why));
        }
    }

    fn check_changed(&mut self, again: &Verdicts, object: &ObjectRef, before: &ClusterVerdict) {
        let after = match again.get(&(object.clone(), before.cluster.to_string())) {
            Some(None) => return,
            Some(Some(after)) => Some(after),
            // Nothing decides about it without the previous plan.
            None if before.causes == [VerdictCause::PreviousPlan] => return,
            None => None,
        };
        let is_same = |after: &ClusterVerdict| {
            (&after.refused_by, &after.causes) == (&before.refused_by, &before.causes)
        };
        if after.is_none_or(is_same) {
            let then = after.map_or("nothing decides about it", |after| &after.why);
            let causes = &before.causes;
            self.wrong.push(format!(
                "{object} on {}: `{}`, but without {causes:?}: `{then}`",
                before.cluster, before.why
            ));
        }
    }
}

/// The objects that the object of a verdict follows, if it does.
fn follows(verdict: &ClusterVerdict) -> Option<Vec<&ObjectRef>> {
    let leaders = verdict.causes.iter().filter_map(|cause| match cause {
        VerdictCause::Follows { leader } => Some(leader),
        _ => None,
    });
    Some(leaders.collect::<Vec<_>>()).filter(|leaders| !leaders.is_empty())
}

/// Whether the reason is the name of an object: another name is another object.
fn is_identity(causes: &[VerdictCause]) -> bool {
    let is_name =
        |cause: &VerdictCause| matches!(cause, VerdictCause::Field { path, .. } if path == "/metadata/name");
    causes.iter().all(is_name)
}

/// The key of verdicts whose causes can be taken away together, without hiding that one of them is false.
fn group_key(verdict: &ClusterVerdict) -> String {
    let one = verdict.causes.iter().map(|cause| match cause {
        VerdictCause::Cluster(_) => kind_of(cause).to_owned(),
        VerdictCause::NotListed { path, .. } if path == "/metadata/namespace" => {
            format!("{cause:?} {}", verdict.cluster)
        }
        // Each object is divided for itself.
        VerdictCause::Replicas { .. } => kind_of(cause).to_owned(),
        cause => format!("{cause:?}"),
    });
    one.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

/// The name of a kind of cause.
fn kind_of(cause: &VerdictCause) -> &'static str {
    match cause {
        VerdictCause::Field { .. } => "field",
        VerdictCause::NotListed { .. } => "not listed",
        VerdictCause::NotSelected { .. } => "not selected",
        VerdictCause::Absent { .. } => "absent field",
        VerdictCause::TooFew { .. } => "number of clusters",
        VerdictCause::Replicas { .. } => "replicas",
        VerdictCause::Missing { .. } => "missing object",
        VerdictCause::Follows { .. } => "follows",
        VerdictCause::PreviousPlan => "previous plan",
        VerdictCause::Cluster(ClusterCause::Api) => "API",
        VerdictCause::Cluster(ClusterCause::Taint { .. }) => "taint",
        VerdictCause::Cluster(ClusterCause::Location { .. }) => "location",
        VerdictCause::Cluster(ClusterCause::Namespace { .. }) => "namespace",
        VerdictCause::Cluster(ClusterCause::InventoryNamespace { .. }) => "namespace of the inventory",
        VerdictCause::Cluster(ClusterCause::NotReady) => "not ready",
        VerdictCause::Cluster(ClusterCause::NotJoined) => "not joined",
        VerdictCause::Cluster(ClusterCause::Deleting) => "being deleted",
        VerdictCause::Cluster(ClusterCause::Resources) => "resources",
        VerdictCause::Cluster(ClusterCause::Unknown) => "unknown cluster",
        _ => "other",
    }
}

impl LoadedWorld {
    /// Reads a world after changes of its objects and clusters.
    fn read(world: &World, edits: &Edits) -> Self {
        let mut objects = world.objects.clone();
        edits.change_objects(&mut objects);
        let loaded = federate_repo::load_bytes(files(&objects), world.config.clone(), &DIALECTS);
        let (mut clusters, _) = federate_engine::read_inventory(DIALECTS, &loaded.repo, &world.settings);
        edits.change_clusters(&mut clusters, &objects);
        Self { repo: loaded.into_repo(&clusters), clusters }
    }

    /// Decides after changes.
    fn decide_after(&self, world: &World, edits: &Edits, is_wanted: impl Fn(&ObjectRef) -> bool) -> Decided {
        let mut settings = world.settings.clone();
        if edits.forgets {
            (settings.previous, settings.live) = (PreviousPlan::default(), LiveObjects::default());
        }
        if edits.keep_objects() {
            let mut clusters = self.clusters.clone();
            edits.change_clusters(&mut clusters, &world.objects);
            return decide(&self.repo, &clusters, &settings, is_wanted);
        }
        Self::read(world, edits).decide(&settings, is_wanted)
    }

    fn decide(&self, settings: &EngineSettings, is_wanted: impl Fn(&ObjectRef) -> bool) -> Decided {
        decide(&self.repo, &self.clusters, settings, is_wanted)
    }
}

/// Decides about everything, and explains the wanted objects.
fn decide(
    repo: &Repo,
    clusters: &[Cluster],
    settings: &EngineSettings,
    is_wanted: impl Fn(&ObjectRef) -> bool,
) -> Decided {
    let engine = Engine::new(DIALECTS, repo, clusters, settings);
    let plan = engine.compute_plan().plan;
    let mut verdicts = Verdicts::new();
    // What goes to the control plane itself points to clusters, and is placed in none.
    let wanted =
        plan.placements.iter().filter(|row| row.object.kind != "DNSEndpoint" && is_wanted(&row.object));
    for row in wanted {
        let Some(explanation) = engine.explain_placement(&row.object, &plan) else { continue };
        for verdict in explanation.clusters {
            let key = (row.object.clone(), verdict.cluster.to_string());
            verdicts.insert(key, (!verdict.chosen).then_some(verdict));
        }
    }
    Decided { verdicts, plan }
}

/// The plan of a world.
pub(crate) fn plan_world(world: &World) -> Plan {
    LoadedWorld::read(world, &Edits::default()).decide(&world.settings, |_| false).plan
}

fn files(objects: &[Value]) -> Vec<RepoFile> {
    let objects = objects.iter().enumerate();
    objects
        .map(|(index, object)| RepoFile {
            path: format!("{index:03}.json").into(),
            bytes: object.to_string().into_bytes().into(),
        })
        .collect()
}
