//! Rollouts over time, as a loop carries them out whose clusters become available at once, unless they fail.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{
    Dialect, PlannerInput, PolicyResources, PolicyRollout, PreviousPlan, RolloutDriver, RolloutMoment,
    RolloutProgress, RolloutStep, RolloutSubject, SharedLists,
};
use federate_kubernetes::{ClusterName, LiveObjects, Object, ObjectRef};
use federate_repo::{ClaimedObject, Repo, Role};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::KubeFleet;

const API: &str = "placement.kubernetes-fleet.io/v1beta1";

/// A loop over a placement of two clusters in stage `a` and one in stage `b`.
struct Loop {
    repo: Repo,
    clusters: Vec<Cluster>,
    placement: ObjectRef,
    picked: Vec<ClusterName>,
    rollout: PolicyRollout,
    approvals: BTreeSet<String>,
    now: Timestamp,
    revision: String,
    resources: PolicyResources,
}

fn object(kind: &str, name: &str, spec: &Value) -> Object {
    let (namespace, name) = name.split_once('/').map_or((None, name), |(within, name)| (Some(within), name));
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    Object::from_manifest(
        json!({"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}),
        "a.yaml",
    )
}

impl Loop {
    fn new(strategy: &Value, stages: &Value) -> Self {
        Self::of(("ClusterResourcePlacement", "p"), ("ClusterStagedUpdateStrategy", "s"), strategy, stages)
    }

    fn of(placement: (&str, &str), staged: (&str, &str), strategy: &Value, stages: &Value) -> Self {
        let cluster = |name: &str| {
            let labels = json!({"stage": if name == "c" { "b" } else { "a" }});
            let body = json!({"metadata": {"name": name, "labels": labels}});
            Cluster::from_object(&Object::from_path(
                "cluster.kubernetes-fleet.io/v1",
                "MemberCluster",
                name,
                body,
            ))
        };
        let (kind, name) = placement;
        let placement = object(kind, name, &json!({"strategy": strategy}));
        let id = placement.id.clone();
        let mut all = Self {
            repo: Repo::default(),
            clusters: ["a1", "a2", "c"].map(cluster).to_vec(),
            placement: id.clone(),
            picked: ["a1", "a2", "c"].map(Into::into).to_vec(),
            rollout: PolicyRollout::new(id),
            approvals: BTreeSet::new(),
            now: Timestamp::UNIX_EPOCH,
            revision: String::new(),
            resources: PolicyResources::default(),
        };
        all.put(placement, Role::Placement);
        all.put(object(staged.0, staged.1, &json!({"stages": stages})), Role::Other);
        all.revision("00000001", "one");
        all
    }

    fn put(&mut self, object: Object, role: Role) {
        self.repo.claimed.retain(|claimed| claimed.object.id != object.id);
        self.repo.claimed.push(ClaimedObject { dialect: "kubefleet", role, object });
    }

    fn run(&mut self, name: &str, state: &str) {
        let (kind, strategy) = ("ClusterStagedUpdateRun", "s");
        let spec = json!({"placementName": "p", "stagedRolloutStrategyName": strategy, "state": state});
        self.put(object(kind, name, &spec), Role::Other);
    }

    /// The newest revision of the repo, and what it renders everywhere.
    fn revision(&mut self, revision: &str, content: &str) {
        revision.clone_into(&mut self.revision);
        let names = self.picked.iter().cloned();
        let clusters: BTreeMap<ClusterName, String> = names.map(|name| (name, content.to_owned())).collect();
        self.resources = PolicyResources { digest: format!("{content} {}", clusters.len()), clusters };
    }

    fn step(&mut self) -> RolloutStep {
        let (live, hosts, lists) = (LiveObjects::default(), BTreeMap::new(), SharedLists::default());
        let previous = PreviousPlan::default();
        let input = PlannerInput {
            repo: &self.repo,
            clusters: &self.clusters,
            now: None,
            live: &live,
            hosts: &hosts,
            lists: &lists,
            previous: &previous,
            implicit: true,
        };
        let plane = KubeFleet.compile_policies(input);
        let moment = RolloutMoment {
            now: self.now,
            driver: RolloutDriver::Placements,
            revision: &self.revision,
            resources: &self.resources,
            approvals: &self.approvals,
        };
        let rules = plane.rollout();
        assert!(rules.controls_updates_of(&self.placement, moment.driver));
        // What a process remembers is what it reads again.
        let kept = serde_json::to_string(&self.rollout).unwrap();
        self.rollout = serde_json::from_str(&kept).unwrap();
        let subject =
            RolloutSubject { policy: &self.placement, clusters: &self.picked, clusters_of: &|_| None };
        rules.advance_rollout(&subject, &mut self.rollout, &moment).unwrap()
    }

    /// Sends what was released, except to clusters that fail. Returns the steps in words.
    fn go(&mut self, failing: &[&str]) -> RolloutStep {
        for _ in 0..20 {
            let step = self.step();
            let mut open = self.rollout.clusters.values().any(|cluster| cluster.leaving);
            let now = self.now;
            self.rollout.clusters.retain(|_, cluster| !cluster.leaving);
            for (name, cluster) in self.rollout.clusters.iter_mut().filter(|(_, cluster)| cluster.is_open()) {
                let fails = failing.contains(&&**name);
                open |= !fails || cluster.failed.is_none();
                cluster.failed = fails.then(|| "no".to_owned());
                cluster.available = (!fails).then_some(now);
            }
            if !open {
                return step;
            }
        }
        panic!("it never ends: {:?}", self.rollout)
    }

    fn revisions(&self) -> String {
        let all = self.rollout.clusters.iter();
        all.map(|(name, cluster)| format!("{name}@{}", cluster.revision.trim_start_matches('0')))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn stages(tasks: &Value) -> Value {
    json!([
        {"name": "one", "labelSelector": {"matchLabels": {"stage": "a"}}, "afterStageTasks": tasks},
        {"name": "two", "labelSelector": {"matchLabels": {"stage": "b"}}},
    ])
}

#[test]
fn a_run_waits_for_time_and_people_between_its_stages() {
    let tasks = json!([{"type": "TimedWait", "waitTime": "1h"}, {"type": "Approval"}]);
    let mut sync = Loop::new(&json!({"type": "External"}), &stages(&tasks));
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Idle, "there is no run");
    sync.run("r", "Run");
    let step = sync.go(&[]);
    assert_eq!(sync.revisions(), "a1@1 a2@1");
    assert_eq!(step.progress, RolloutProgress::Approval("00000001-r-after-one".to_owned()));
    assert_eq!(step.next, None);
    sync.approvals.insert("00000001-r-after-one".to_owned());
    let step = sync.go(&[]);
    assert_eq!(
        (step.progress, step.next),
        (RolloutProgress::Going, Some(sync.now + SignedDuration::from_hours(1)))
    );
    sync.approvals.clear();
    sync.now += SignedDuration::from_hours(1);
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done, "approvals are remembered");
    assert_eq!(sync.revisions(), "a1@1 a2@1 c@1");
}

#[test]
fn a_failure_is_retried_and_holds_back_what_follows() {
    let mut sync = Loop::new(&json!({"type": "External"}), &stages(&json!([])));
    sync.run("r", "Run");
    let step = sync.go(&["a1"]);
    assert_eq!(
        (step.progress, step.message.as_str()),
        (RolloutProgress::Halted, "ClusterStagedUpdateRun r: stage `one`: 0 of 3 clusters updated: a1: no")
    );
    assert_eq!(sync.revisions(), "a1@1");
    sync.rollout.clusters.get_mut("a1").unwrap().failed = None;
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
}

#[test]
fn a_run_keeps_its_resources_and_ends_when_what_it_found_changes() {
    let approval = json!([{"type": "Approval"}]);
    let mut sync = Loop::new(&json!({"type": "External"}), &stages(&approval));
    sync.run("r", "Run");
    sync.go(&[]);
    sync.revision("00000002", "two");
    assert!(matches!(sync.go(&[]).progress, RolloutProgress::Approval(_)));
    assert_eq!(sync.rollout.revisions, BTreeSet::from(["00000001".to_owned()]), "it is still to be sent");
    // A revision with the same resources takes its place.
    sync.revision("00000003", "one");
    sync.picked.retain(|name| &**name != "c");
    sync.revision("00000003", "one");
    let step = sync.go(&[]);
    assert_eq!(step.progress, RolloutProgress::Halted);
    assert!(step.message.contains("the number of clusters in index `1` stage has changed"), "{step:?}");
    // It is over, whatever the repo says. The next run takes over.
    sync.run("later", "Run");
    sync.approvals.insert("00000003-later-after-one".to_owned());
    let step = sync.go(&[]);
    assert_eq!(sync.revisions(), "a1@3 a2@3");
    assert_eq!(step.progress, RolloutProgress::Halted, "the failed run is still in the repo");
    sync.repo.claimed.retain(|claimed| claimed.object.id.name != "r");
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
}

#[test]
fn runs_obey_their_state() {
    let mut sync = Loop::new(&json!({"type": "External"}), &stages(&json!([])));
    sync.run("r", "Initialize");
    let step = sync.go(&[]);
    assert_eq!((step.progress, sync.revisions().as_str()), (RolloutProgress::Idle, ""));
    assert_eq!(step.message, "ClusterStagedUpdateRun r is initialized, and waits for `state: Run`");
    sync.run("r", "Stop");
    assert!(sync.go(&[]).message.contains("cannot change from Initialize to Stop"));
    sync.run("r", "Run");
    sync.go(&["a1"]);
    sync.run("r", "Stop");
    sync.rollout.clusters.get_mut("a1").unwrap().failed = None;
    let step = sync.go(&[]);
    assert_eq!(sync.revisions(), "a1@1", "{step:?}");
    assert_eq!(
        (step.progress, step.message.as_str()),
        (RolloutProgress::Idle, "ClusterStagedUpdateRun r is stopped, and waits for `state: Run`")
    );
    sync.run("r", "Run");
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
}

#[test]
fn namespaced_runs_carry_out_placements_of_their_namespace() {
    let mut sync = Loop::of(
        ("ResourcePlacement", "shop/p"),
        ("StagedUpdateStrategy", "shop/s"),
        &json!({"type": "External"}),
        &stages(&json!([{"type": "Approval"}])),
    );
    let spec = json!({"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run"});
    sync.put(object("StagedUpdateRun", "shop/r", &spec), Role::Other);
    sync.put(object("StagedUpdateRun", "other/r", &spec), Role::Other);
    let step = sync.go(&[]);
    assert_eq!(step.progress, RolloutProgress::Approval("00000001-shop/r-after-one".to_owned()));
    sync.approvals.insert("00000001-shop/r-after-one".to_owned());
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
}

#[test]
fn rolling_updates_keep_enough_clusters_available() {
    let limits = json!({"maxUnavailable": 1, "maxSurge": 0});
    let mut sync = Loop::new(&json!({"type": "RollingUpdate", "rollingUpdate": limits}), &json!([]));
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
    sync.revision("00000002", "two");
    let step = sync.go(&["a2"]);
    assert_eq!((step.progress, sync.revisions().as_str()), (RolloutProgress::Halted, "a1@2 a2@2 c@1"));
    // A newer revision replaces what failed at once.
    sync.revision("00000003", "three");
    let step = sync.go(&[]);
    assert_eq!((step.progress, sync.revisions().as_str()), (RolloutProgress::Done, "a1@3 a2@3 c@3"));
    // A revision that changes nothing needs no rollout, and a cluster that is left has no resources in the end.
    sync.picked.retain(|name| &**name != "c");
    sync.revision("00000004", "three");
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
    assert_eq!(sync.revisions(), "a1@4 a2@4");
}
