//! Rollouts over time, as a loop carries them out whose clusters become available at once, unless they fail.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{Dialect, PlannerInput, PolicyResources, PreviousPlan, SharedLists};
use federate_kubernetes::{Cluster, LiveObjects, Object};
use federate_repo::{ClaimedObject, Repo, Role};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::Ocm;

const SELECTED: [&str; 5] = ["a1", "a2", "b1", "b2", "c1"];

/// A loop over a set of works for five clusters, in the decision groups `group-a`, `group-b` and one without a name.
struct Loop {
    repo: Repo,
    clusters: Vec<Cluster>,
    set: ObjectRef,
    placement: ObjectRef,
    rollout: PolicyRollout,
    selected: Vec<ClusterName>,
    now: Timestamp,
    revision: String,
}

impl Loop {
    fn new(strategy: &Value) -> Self {
        let mut all = Self {
            repo: Repo::default(),
            clusters: Vec::new(),
            set: object("work", "v1alpha1", "ManifestWorkReplicaSet", &Value::Null).id,
            placement: object("cluster", "v1beta1", "Placement", &Value::Null).id,
            rollout: PolicyRollout::new(
                object("work", "v1alpha1", "ManifestWorkReplicaSet", &Value::Null).id,
            ),
            selected: SELECTED.map(Into::into).to_vec(),
            now: Timestamp::UNIX_EPOCH,
            revision: "1".to_owned(),
        };
        for name in SELECTED {
            let labels = json!({"group": name.get(..1)});
            let metadata = json!({"name": name, "labels": labels});
            let member = Object::from_manifest(
                json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                    "metadata": metadata}),
                "a.yaml",
            );
            all.clusters.push(Ocm.read_cluster(&member, false, &all.repo.config).unwrap());
            all.put(member, Role::Inventory);
        }
        let group = |name: &str| {
            let selector = json!({"labelSelector": {"matchLabels": {"group": name}}});
            json!({"groupName": format!("group-{name}"), "groupClusterSelector": selector})
        };
        let groups = json!({"groupStrategy": {"decisionGroups": [group("a"), group("b")]}});
        let placement = object("cluster", "v1beta1", "Placement", &json!({"decisionStrategy": groups}));
        all.put(placement, Role::Placement);
        let manifest =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "shop"}});
        let spec = json!({
            "manifestWorkTemplate": {"workload": {"manifests": [manifest]}},
            "placementRefs": [{"name": "web", "rolloutStrategy": strategy}],
        });
        all.put(object("work", "v1alpha1", "ManifestWorkReplicaSet", &spec), Role::Bundle);
        all
    }

    fn put(&mut self, object: Object, role: Role) {
        self.repo.claimed.push(ClaimedObject { dialect: "ocm", role, object });
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
        let planner = Ocm.compile_policies(input);
        assert_eq!(planner.check_policies(), []);
        let rules = planner.rollout();
        assert!(rules.has_rollout_limits());
        assert!(rules.controls_updates_of(&self.set, RolloutDriver::Placements));
        let clusters = self.selected.iter().map(|name| (name.clone(), self.revision.clone())).collect();
        let resources = PolicyResources { digest: self.revision.clone(), clusters };
        let approvals = BTreeSet::new();
        let moment = RolloutMoment {
            now: self.now,
            driver: RolloutDriver::Placements,
            revision: &self.revision,
            resources: &resources,
            approvals: &approvals,
        };
        let clusters_of = |id: &ObjectRef| (*id == self.placement).then(|| self.selected.clone());
        let subject =
            RolloutSubject { policy: &self.set, clusters: &self.selected, clusters_of: &clusters_of };
        rules.advance_rollout(&subject, &mut self.rollout, &moment).unwrap()
    }

    /// Sends what was released, except to clusters that fail, until nothing changes at this time.
    fn go(&mut self, failing: &[&str]) -> RolloutStep {
        for _ in 0..20 {
            let before = self.rollout.clone();
            let step = self.step();
            let now = self.now;
            self.rollout.clusters.retain(|_, cluster| !cluster.leaving);
            for (name, cluster) in self.rollout.clusters.iter_mut().filter(|(_, cluster)| cluster.is_open()) {
                let fails = failing.contains(&&**name);
                cluster.failed = fails.then(|| "no".to_owned());
                cluster.available = (!fails).then_some(now);
            }
            if self.rollout == before {
                return step;
            }
        }
        panic!("it never ends: {:?}", self.rollout)
    }

    /// The clusters that have the newest revision.
    fn updated(&self) -> String {
        let all = self.rollout.clusters.iter();
        let updated = all.filter(|(_, cluster)| cluster.revision == self.revision);
        updated.map(|(name, _)| &**name).collect::<Vec<_>>().join(" ")
    }
}

fn object(group: &str, version: &str, kind: &str, spec: &Value) -> Object {
    let api_version = format!("{group}.open-cluster-management.io/{version}");
    let metadata = json!({"name": "web", "namespace": "shop"});
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    Object::from_manifest(body, "a.yaml")
}

#[test]
fn a_number_of_clusters_is_updated_until_their_success_has_lasted() {
    let mut sync = Loop::new(&json!({"type": "Progressive",
        "progressive": {"maxConcurrency": 2, "minSuccessTime": "1m"}}));
    let step = sync.go(&[]);
    let minute = SignedDuration::from_mins(1);
    assert_eq!((step.progress, step.next), (RolloutProgress::Going, Some(sync.now + minute)));
    assert_eq!(sync.updated(), "a1 a2");
    sync.now += minute;
    sync.go(&[]);
    assert_eq!(sync.updated(), "a1 a2 b1 b2");
    sync.now += minute;
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Going, "the last success has to last as well");
    assert_eq!(sync.updated(), "a1 a2 b1 b2 c1");
    sync.now += minute;
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
    // A change rolls out anew.
    sync.revision = "2".to_owned();
    sync.go(&[]);
    assert_eq!(sync.updated(), "a1 a2");
}

#[test]
fn a_failure_keeps_its_place_until_its_deadline_and_then_counts() {
    let limits = json!({"maxConcurrency": 1, "progressDeadline": "10m", "maxFailures": 1});
    let mut sync = Loop::new(&json!({"type": "Progressive", "progressive": limits}));
    let step = sync.go(&["a2", "b2"]);
    assert_eq!((step.progress, sync.updated().as_str()), (RolloutProgress::Going, "a1 a2"));
    assert!(step.message.contains("a2: no; 1 of 5 clusters updated"), "{}", step.message);
    sync.now += SignedDuration::from_mins(10);
    sync.go(&["a2", "b2"]);
    assert_eq!(sync.updated(), "a1 a2 b1 b2", "one failure is tolerated");
    sync.now += SignedDuration::from_mins(10);
    let step = sync.go(&["a2", "b2"]);
    assert_eq!((step.progress, sync.updated().as_str()), (RolloutProgress::Halted, "a1 a2 b1 b2"));
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done, "whoever recovers goes on");
}

#[test]
fn group_follows_group_and_mandatory_ones_come_first() {
    let mandatory = json!([{"groupName": "group-b"}]);
    let mut sync = Loop::new(&json!({"type": "ProgressivePerGroup",
        "progressivePerGroup": {"minSuccessTime": "1m", "mandatoryDecisionGroups": mandatory}}));
    for updated in ["b1 b2", "a1 a2 b1 b2", "a1 a2 b1 b2 c1"] {
        sync.go(&[]);
        assert_eq!(sync.updated(), updated);
        sync.now += SignedDuration::from_mins(1);
    }
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
}

#[test]
fn a_cluster_that_is_not_selected_any_more_loses_its_works_at_once() {
    let mut sync = Loop::new(&json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}}));
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
    sync.selected.retain(|name| &**name != "b1");
    sync.revision = "2".to_owned();
    let step = sync.step();
    let is_leaving = sync.rollout.clusters.iter().any(|(name, cluster)| &**name == "b1" && cluster.leaving);
    assert_eq!((step.progress, is_leaving), (RolloutProgress::Going, true));
    assert_eq!(sync.go(&[]).progress, RolloutProgress::Done);
    assert_eq!(sync.updated(), "a1 a2 b2 c1");
}
