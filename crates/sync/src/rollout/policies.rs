//! What clusters have of policies: which objects wait for their turn, what a revision renders for a policy, and what became of
//! objects that were sent.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{ClusterRollout, Plan, PolicyResources, PolicyRollout, PolicyRollouts};
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::{ActionKind, ActionOutcome, Actions};
use federate_session::{AwaitingObjects, Session};
use federate_sync_api::record::compute_digest;
use jiff::Timestamp;

/// How many characters of a digest are kept: enough to tell revisions of one policy apart.
const DIGEST_LENGTH: usize = 16;

/// Clusters that have the objects of a policy by a former revision.
pub(crate) struct RevisionGroup {
    pub(crate) policy: String,
    pub(crate) revision: String,
    pub(crate) clusters: BTreeSet<String>,
    pub(crate) objects: BTreeSet<ObjectRef>,
}

impl RevisionGroup {
    /// All other objects that its clusters would have by its revision.
    pub(crate) fn other_objects(&self, session: &Session) -> AwaitingObjects {
        let others = session.plan().placements.iter().filter(|row| !self.objects.contains(&row.object));
        let clusters: BTreeSet<ClusterName> = self.clusters.iter().map(|name| name.as_str().into()).collect();
        others.map(|row| (row.object.clone(), clusters.clone())).collect()
    }
}

/// The clusters in which there is something to do.
pub(crate) fn open_clusters(policies: &PolicyRollouts) -> BTreeSet<String> {
    let all = policies.values().flat_map(|rollout| &rollout.clusters);
    all.filter(|(_, cluster)| cluster.is_open()).map(|(name, _)| name.to_string()).collect()
}

/// The clusters, of those in question, that have the objects of policies by former revisions.
pub(crate) fn group_by_revision(
    policies: &PolicyRollouts,
    tip: &str,
    which: impl Fn(&ClusterRollout) -> bool,
) -> Vec<RevisionGroup> {
    let mut groups: BTreeMap<(&String, &String), BTreeSet<String>> = BTreeMap::new();
    for (key, rollout) in policies {
        for (name, cluster) in &rollout.clusters {
            if cluster.revision != tip && which(cluster) {
                groups.entry((key, &cluster.revision)).or_default().insert(name.to_string());
            }
        }
    }
    groups
        .into_iter()
        .map(|((key, revision), clusters)| {
            let objects = policies.get(key).and_then(|rollout| rollout.objects.get(revision));
            let objects = objects.into_iter().flatten().cloned().collect();
            RevisionGroup { policy: key.clone(), revision: revision.clone(), clusters, objects }
        })
        .collect()
}

/// Notes what became of resources that were sent, in each cluster in which something was done. `sent` are the objects
/// of a policy that count, if they were sent. Returns whether anything has changed for a cluster.
pub(crate) fn note_results(
    policies: &mut PolicyRollouts,
    actions: &Actions,
    sent: impl Fn(&String, &ClusterRollout, &PolicyRollout) -> Option<BTreeSet<ObjectRef>>,
) -> bool {
    let (now, mut changed) = (Timestamp::now(), false);
    for (key, rollout) in policies {
        let mut gone = BTreeSet::new();
        let open: Vec<ClusterName> = rollout
            .clusters
            .iter()
            .filter(|(_, cluster)| cluster.is_open())
            .map(|(name, _)| name.clone())
            .collect();
        for name in open {
            let Some(report) = actions.clusters.iter().find(|report| report.name == name) else { continue };
            let Some(cluster) = rollout.clusters.get(&name) else { continue };
            let Some(objects) = sent(key, cluster, rollout) else { continue };
            let here = actions.actions.iter().filter(|action| action.cluster == name);
            let leaves = cluster.leaving;
            let mut wrong = here.filter(|action| {
                let is_wrong = match action.outcome {
                    ActionOutcome::Failed => true,
                    // Namespaces and claims stay.
                    ActionOutcome::NotTried if leaves => action.action == ActionKind::Delete,
                    // An object that is not adopted, but is as rendered, is not an error.
                    ActionOutcome::NotTried => {
                        action.action != ActionKind::Conflict || !action.diffs.is_empty()
                    }
                    ActionOutcome::Planned | ActionOutcome::Done => false,
                };
                is_wrong && objects.contains(&action.object)
            });
            let unhealthy = wrong.clone().all(|action| action.unhealthy.is_some());
            let failed = report.error.clone().or_else(|| {
                wrong.clone().find(|action| action.unhealthy.is_none()).map(|action| {
                    let why = action.error.as_ref().or(action.reason.as_ref());
                    format!("{}: {}", action.object, why.map_or("not tried", String::as_str))
                })
            });
            let is_done = failed.is_none() && wrong.next().is_none();
            let Some(cluster) = rollout.clusters.get_mut(&name) else { continue };
            let before = cluster.clone();
            cluster.failed = failed.filter(|_| !unhealthy || report.error.is_some());
            if is_done && cluster.leaving {
                gone.insert(name.clone());
            } else if is_done {
                cluster.available = Some(now);
            }
            changed |= *cluster != before;
            cluster.applied = !is_done && unhealthy && cluster.failed.is_none() && !leaves;
        }
        changed |= !gone.is_empty();
        rollout.clusters.retain(|name, _| !gone.contains(name));
    }
    changed
}

/// A policy, by a plan.
#[derive(Default)]
pub(crate) struct PlannedPolicy {
    pub(crate) dialect: String,
    /// The clusters to which it sends its objects.
    pub(crate) clusters: BTreeSet<ClusterName>,
}

/// The policies of a plan, with their clusters.
pub(crate) fn group_by_policy(session: &Session, plan: &Plan) -> BTreeMap<ObjectRef, PlannedPolicy> {
    let mut policies: BTreeMap<ObjectRef, PlannedPolicy> = BTreeMap::new();
    for row in &plan.placements {
        let Some(dialect) = session.dialects().get(&row.dialect) else { continue };
        for sender in dialect.policies_of(row) {
            let policy = policies.entry(sender.policy).or_default();
            policy.dialect.clone_from(&row.dialect);
            policy.clusters.extend(sender.clusters);
        }
    }
    policies
}

/// The objects that policies send by a plan, by policy.
pub(crate) fn objects_by_policy(session: &Session, plan: &Plan) -> BTreeMap<String, Vec<ObjectRef>> {
    let mut objects: BTreeMap<String, Vec<ObjectRef>> = BTreeMap::new();
    for row in &plan.placements {
        let Some(dialect) = session.dialects().get(&row.dialect) else { continue };
        for sender in dialect.policies_of(row).into_iter().filter(|sender| sender.policy != row.object) {
            objects.entry(sender.policy.to_string()).or_default().push(row.object.clone());
        }
    }
    objects
}

/// The objects that wait in clusters: those that policies do not send to them yet, and those that they have by a former
/// revision.
pub(crate) fn awaiting_objects(session: &Session, policies: &PolicyRollouts, tip: &str) -> AwaitingObjects {
    let mut awaiting = AwaitingObjects::new();
    if policies.is_empty() {
        return awaiting;
    }
    for row in &session.plan().placements {
        let Some(dialect) = session.dialects().get(&row.dialect) else { continue };
        for sender in dialect.policies_of(row) {
            let Some(rollout) = policies.get(&sender.policy.to_string()) else { continue };
            let clusters = sender.clusters.into_iter().filter(|name| {
                rollout.clusters.get(name).is_none_or(|cluster| awaits_revision(cluster, tip))
            });
            let clusters: Vec<ClusterName> = clusters.collect();
            if !clusters.is_empty() {
                awaiting.entry(row.object.clone()).or_default().extend(clusters);
            }
        }
    }
    for rollout in policies.values() {
        for (name, cluster) in rollout.clusters.iter().filter(|(_, cluster)| awaits_revision(cluster, tip)) {
            for object in rollout.objects.get(&cluster.revision).into_iter().flatten() {
                awaiting.entry(object.clone()).or_default().insert(name.clone());
            }
        }
    }
    awaiting
}

fn awaits_revision(cluster: &ClusterRollout, tip: &str) -> bool {
    !cluster.leaving && cluster.revision != tip
}

fn short_digest<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut digest = compute_digest(texts);
    digest.truncate(DIGEST_LENGTH);
    digest
}

/// The digests of what a session renders for policies.
pub(crate) fn digest_resources(
    session: &Session,
    policies: &PolicyRollouts,
) -> BTreeMap<String, PolicyResources> {
    let mut texts: BTreeMap<&ObjectRef, Vec<(String, &[ClusterName])>> = BTreeMap::new();
    for manifest in &session.render().manifests {
        let text = compute_digest([manifest.text.as_bytes()]);
        texts.entry(&manifest.object).or_default().push((text, &manifest.clusters));
    }
    let mut parts: BTreeMap<String, BTreeMap<ClusterName, Vec<String>>> = BTreeMap::new();
    for row in &session.plan().placements {
        let Some(dialect) = session.dialects().get(&row.dialect) else { continue };
        for sender in dialect.policies_of(row) {
            let key = sender.policy.to_string();
            if !policies.contains_key(&key) {
                continue;
            }
            let of_policy = parts.entry(key).or_default();
            for (text, clusters) in texts.get(&row.object).into_iter().flatten() {
                for name in clusters.iter().filter(|name| sender.clusters.contains(name)) {
                    of_policy.entry(name.clone()).or_default().push(format!("{} {text}", row.object));
                }
            }
        }
    }
    let resources = parts.into_iter().map(|(key, clusters)| {
        let clusters: BTreeMap<ClusterName, String> = clusters
            .into_iter()
            .map(|(name, texts)| (name, short_digest(texts.iter().map(String::as_bytes))))
            .collect();
        let pairs = clusters.iter().flat_map(|(name, digest)| [name.as_bytes(), digest.as_bytes()]);
        let digest = short_digest(pairs);
        (key, PolicyResources { digest, clusters })
    });
    resources.collect()
}
