//! `federate sync`, killed at any moment of rounds, rollouts and deletions, while an observer looks at every write in the
//! members.
//!
//! Nothing is deleted that is rendered, nothing is created twice, nothing is written that the plan does not have, every
//! object can be found by the parent of its `ApplySet` from the moment that it exists, and no pod restarts.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Instant;

use federate_test_apiserver::{StoreKey, WriteEvent};
use serde_json::{Value, json};

use crate::sandbox::{WEB, config};
use crate::sync_objects::{Hub, Running, SYNCS, until};
use crate::sync_survives::moment;
use crate::writes::Recorder;

const MEMBERS: [&str; 2] = ["m1", "m2"];
/// The label with the id of an `ApplySet` on its members, and on its parent.
const PART_OF: &str = "/metadata/labels/applyset.kubernetes.io~1part-of";
const ID: &str = "/metadata/labels/applyset.kubernetes.io~1id";
const KINDS: &str = "/metadata/annotations/applyset.kubernetes.io~1contains-group-kinds";

/// The `ConfigMap`s of a revision, by name, with their values.
type Configs = BTreeMap<String, String>;

/// What is rendered from a time on.
struct Revision {
    pushed: Instant,
    configs: Configs,
}

/// Looks at every write in the members.
struct Observer {
    recorder: Recorder,
    hub: Hub,
    revisions: Vec<Revision>,
    /// When the Sync was deleted, if it was.
    deleted: Option<Instant>,
    /// Whether `m2` follows `m1`.
    is_staged: bool,
}

/// The objects of a member while its writes are read.
#[derive(Default)]
struct Replay {
    configs: Configs,
    /// The Deployment, which all revisions render the same.
    web: Option<Value>,
    /// How many `ReplicaSets` and pods were created.
    sets: usize,
    pods: usize,
    parent: Option<Value>,
    /// How often each object was created at each revision.
    created: BTreeMap<(String, usize), usize>,
}

/// How many kills a test makes: `FEDERATE_TEST_KILLS` asks for another number.
fn number_of_kills(default: usize) -> usize {
    let kills = std::env::var("FEDERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    kills.unwrap_or(default)
}

/// Objects that change, come and go.
fn configs_of(at: usize) -> Configs {
    let present = (0..12).filter(|name| !(name + at).is_multiple_of(4));
    present.map(|name| (format!("c{name}"), format!("{at}-{name}"))).collect()
}

impl Observer {
    fn new(more: &Value, is_staged: bool) -> Self {
        let hub = Hub::new();
        let recorder = Recorder::start(&hub.sandbox, &MEMBERS);
        for member in MEMBERS {
            hub.sandbox.create_namespace(member);
            // What is of nobody stays.
            let mine = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}});
            hub.sandbox.create(member, "/api/v1/namespaces/shop/configmaps", "test", &mine);
        }
        hub.sandbox.remove("namespace.yaml");
        let cluster = |name: &str| {
            format!(
                "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}, labels: \
                 {{stage: {name}}}}}\nspec: {{}}\n"
            )
        };
        hub.sandbox.write("clusters.yaml", &MEMBERS.map(cluster).concat());
        let mut spec = json!({"apply": {"prune": true, "pruneLimit": 100}});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let mut observer = Self { recorder, hub, revisions: Vec::new(), deleted: None, is_staged };
        observer.push(0);
        observer.hub.create(&observer.hub.sync("web", &spec));
        observer
    }

    /// Carries the first revision out, and lets the pods run, without which no second stage begins.
    fn begin(&self) {
        let running = Running::start(&self.hub, "log");
        until("the first revision is carried out", || {
            self.start_pods();
            self.hub.ready("web")["status"] == "True"
        });
        self.start_pods();
        assert_eq!(running.end("-TERM"), Some(0));
        self.hub.once().code(0);
    }

    fn start_pods(&self) {
        for member in MEMBERS {
            if self.hub.sandbox.has(member, WEB) {
                self.hub.sandbox.start_pods(member);
            }
        }
    }

    /// Pushes a revision.
    fn push(&mut self, at: usize) {
        self.recorder.settle(&self.hub.sandbox);
        let configs = configs_of(at);
        let texts: Vec<String> = configs.iter().map(|(name, value)| config(name, value)).collect();
        self.hub.sandbox.write("many.yaml", &texts.join("---\n"));
        // What a round sees that reads the source from now on.
        self.revisions.push(Revision { pushed: Instant::now(), configs });
        self.hub.push("change");
    }

    /// Starts a process and kills it. Returns whether it was still running.
    fn kill(&self, arguments: &str, most: u64) -> bool {
        let mut command = self.hub.command(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(moment(most));
        let runs = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        runs
    }

    /// Lets the next process lead at once, as if the Lease of the one that was killed had expired.
    fn free_lease(&self) {
        let lease = "/apis/coordination.k8s.io/v1/namespaces/federate-system/leases/federate-sync";
        self.hub.sandbox.ask("hub", "DELETE", lease, "test", "application/json", &Value::Null);
    }

    /// Checks every write, and what is there at the end.
    fn check(&self) -> usize {
        let (checked, mut replays) = self.replay();
        for member in MEMBERS {
            let replay = replays.remove(member).unwrap_or_default();
            let expected = self.deleted.is_none().then(|| self.revisions.last().unwrap().configs.clone());
            assert_eq!(replay.configs, expected.unwrap_or_default(), "{member}: what is left at the end");
            assert_eq!(replay.parent.is_some(), self.deleted.is_none(), "{member}: the parent at the end");
            assert_eq!(replay.web.is_some(), self.deleted.is_none(), "{member}: the Deployment at the end");
            let mine = "/api/v1/namespaces/shop/configmaps/mine";
            assert!(self.hub.sandbox.has(member, mine), "{member}: an object of nobody is gone");
        }
        checked
    }

    /// Checks every write until now. Returns how many there are.
    fn check_so_far(&self) -> usize {
        self.replay().0
    }

    /// Checks every write. Returns how many there are, and what each member has after them.
    fn replay(&self) -> (usize, BTreeMap<&str, Replay>) {
        self.recorder.settle(&self.hub.sandbox);
        let list = |member| self.recorder.list_writes(&self.hub.sandbox, member).into_iter();
        let mut all: Vec<(&str, WriteEvent)> =
            MEMBERS.iter().flat_map(|member| list(member).map(move |write| (*member, write))).collect();
        all.sort_by_key(|(_, write)| write.at);
        let mut replays: BTreeMap<&str, Replay> = BTreeMap::new();
        let mut checked = 0;
        for (member, write) in all {
            if write.at < self.revisions[0].pushed || write.key.plural == "events" {
                continue;
            }
            let other = replays.get("m1").map(|replay| replay.configs.clone()).unwrap_or_default();
            let replay = replays.entry(member).or_default();
            let place = format!("{member}: {:?}, deleted: {}", write.key, write.deleted);
            self.check_write(&write, replay, &place);
            if self.is_staged && member == "m2" && !write.deleted && self.deleted.is_none() {
                self.check_stage(&write, &other, &place);
            }
            checked += 1;
        }
        (checked, replays)
    }

    /// The number of the revision that processes carry out at a time: none runs while the next one is pushed.
    fn find_revision(&self, at: Instant) -> usize {
        self.revisions.iter().rposition(|revision| revision.pushed <= at).unwrap()
    }

    fn check_write(&self, write: &WriteEvent, replay: &mut Replay, place: &str) {
        let StoreKey { group, plural, namespace, name } = &write.key;
        let is_deleting = self.deleted.is_some_and(|deleted| deleted <= write.at);
        match (group.as_str(), plural.as_str(), namespace.as_str(), name.as_str()) {
            ("", "configmaps", "default", "federate.shop.web") => {
                if write.deleted {
                    assert!(is_deleting, "{place}: the parent goes");
                    assert!(replay.configs.is_empty(), "{place}: before its members {:?}", replay.configs);
                    assert!(replay.web.is_none(), "{place}: before the Deployment");
                }
                replay.parent = (!write.deleted).then(|| (*write.object).clone());
            }
            ("", "configmaps", "shop", _) => self.check_config(write, replay, place),
            ("apps", "deployments", "shop", "web") => {
                assert!(!write.deleted || is_deleting, "{place}: it is rendered");
                if let Some(before) = &write.before {
                    assert_eq!(before["spec"], write.object["spec"], "{place}: pods restart");
                } else {
                    assert!(replay.web.is_none(), "{place}: created again");
                }
                if !write.deleted {
                    check_membership(write, replay, "Deployment.apps", place);
                }
                replay.web = (!write.deleted).then(|| (*write.object).clone());
            }
            ("apps", "replicasets", "shop", _) => {
                assert!(!write.deleted || is_deleting, "{place}: pods restart");
                replay.sets += usize::from(write.before.is_none());
                assert!(replay.sets <= 1, "{place}: pods restart");
            }
            ("", "pods", "shop", _) => {
                assert!(!write.deleted || is_deleting, "{place}: a pod is lost");
                replay.pods += usize::from(write.before.is_none());
                assert!(replay.pods <= 2, "{place}: a pod is started again");
            }
            _ => panic!("{place}: not in the plan"),
        }
    }

    fn check_config(&self, write: &WriteEvent, replay: &mut Replay, place: &str) {
        let (object, name) = (&*write.object, &write.key.name);
        let is_deleting = self.deleted.is_some_and(|deleted| deleted <= write.at);
        let at = self.find_revision(write.at);
        let rendered = self.revisions[at].configs.get(name);
        if write.deleted {
            assert!(rendered.is_none() || is_deleting, "{place}: it is rendered by revision {at}");
            assert!(replay.configs.remove(name).is_some(), "{place}: it is no object of the Sync");
            return;
        }
        assert!(!is_deleting, "{place}: the Sync is being deleted");
        let value = object["data"]["k"].as_str().unwrap_or_default().to_owned();
        assert_eq!(Some(&value), rendered, "{place}: not what revision {at} renders");
        if write.before.is_none() {
            let times = replay.created.entry((name.clone(), at)).or_default();
            *times += 1;
            assert_eq!(*times, 1, "{place}: created again at revision {at}");
        }
        check_membership(write, replay, "ConfigMap", place);
        replay.configs.insert(name.clone(), value);
    }

    /// The second stage begins when the first one has the revision.
    fn check_stage(&self, write: &WriteEvent, first: &Configs, place: &str) {
        if write.key.namespace == "shop" && write.key.plural == "configmaps" {
            let at = self.find_revision(write.at);
            assert_eq!(*first, self.revisions[at].configs, "{place}: before m1 has revision {at}");
        }
    }
}

/// Checks that the parent leads to an object.
fn check_membership(write: &WriteEvent, replay: &Replay, kind: &str, place: &str) {
    let parent = replay.parent.as_ref().unwrap_or_else(|| panic!("{place}: without a parent"));
    assert_eq!(write.object.pointer(PART_OF), parent.pointer(ID), "{place}: not in the ApplySet");
    let kinds = parent.pointer(KINDS).and_then(Value::as_str).unwrap_or_default();
    assert!(kinds.split(',').any(|known| known == kind), "{place}: the parent knows only {kinds:?}");
}

/// Kills rounds over several revisions, and lets the last one end.
fn kill_rounds(mut observer: Observer, kills: usize) {
    observer.begin();
    let begun = Instant::now();
    observer.hub.once().code(0);
    // Kills come at any moment of what a round takes, which is found out: one that ends before its kill was shorter.
    let mut most = u64::try_from(begun.elapsed().as_millis()).unwrap();
    let (mut killed, mut at, mut ended) = (0, 1, 0);
    observer.push(at);
    while killed < kills {
        if observer.kill("--once", most) {
            killed += 1;
            most = most * 6 / 5;
        } else {
            ended += 1;
            most = most * 2 / 3 + 10;
            assert!(ended < 4 * kills + 20, "{killed} kills of {kills}");
        }
        if (killed + ended) % 4 == 0 {
            at += 1;
            observer.push(at);
        }
    }
    let before = observer.check_so_far();
    observer.hub.once().code(0);
    let checked = observer.check();
    assert!(before > 20, "{before} of {checked} writes are of rounds that were killed");
    println!("{killed} rounds were killed, and {checked} writes are as they must be");
}

#[test]
fn every_write_of_killed_rounds_is_in_the_plan() {
    kill_rounds(Observer::new(&json!({}), false), number_of_kills(16));
}

#[test]
fn every_write_of_killed_rollouts_is_in_the_plan_and_in_its_stage() {
    let stage = |name: &str| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}});
    let rollout = json!({"rollout": {"stages": [stage("m1"), stage("m2")]}});
    kill_rounds(Observer::new(&rollout, true), number_of_kills(16));
}

#[test]
fn every_write_of_killed_deletions_removes_what_the_sync_had() {
    let (mut killed, kills) = (0, number_of_kills(8));
    let mut checked = 0;
    for _ in 0..kills.div_ceil(8) {
        let mut observer = Observer::new(&json!({"deletionPolicy": "Delete"}), false);
        observer.begin();
        observer.recorder.settle(&observer.hub.sandbox);
        observer.deleted = Some(Instant::now());
        let path = format!("{SYNCS}/web");
        observer.hub.sandbox.ask("hub", "DELETE", &path, "test", "application/json", &Value::Null);
        for _ in 0..8 {
            observer.free_lease();
            killed += usize::from(observer.kill("", 1500));
        }
        observer.free_lease();
        let running = Running::start(&observer.hub, "log");
        until("the Sync is gone", || !observer.hub.sandbox.has("hub", &path));
        drop(running);
        checked += observer.check();
    }
    assert!(killed > 0, "no deletion was killed");
    println!("{killed} deletions were killed, and {checked} writes are as they must be");
}

#[test]
fn the_observer_sees_what_must_not_happen() {
    let sees = |wrong: &dyn Fn(&Observer)| {
        let observer = Observer::new(&json!({}), false);
        observer.begin();
        observer.check();
        wrong(&observer);
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| observer.check()));
        assert!(found.is_err(), "the observer sees nothing");
    };
    let configs = "/api/v1/namespaces/shop/configmaps";
    sees(&|observer| observer.hub.sandbox.delete("m1", &format!("{configs}/c1")));
    sees(&|observer| observer.hub.sandbox.delete("m1", &format!("{configs}/mine")));
    sees(&|observer| {
        observer.hub.sandbox.edit("m2", "other", &format!("{configs}/c1"), &json!({"data": {"k": "0-9"}}));
    });
    sees(&|observer| observer.hub.sandbox.delete("m2", WEB));
    sees(&|observer| {
        let other =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "other"}]}}}});
        observer.hub.sandbox.edit("m1", "other", WEB, &other);
    });
    sees(&|observer| {
        let stray = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stray"}});
        observer.hub.sandbox.create("m2", configs, "test", &stray);
    });
}
