//! `federate sync --shared`: replicas share the member clusters, and take over from each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use federate_test_apiserver::{Fault, FaultKind};
use serde_json::{Value, json};

use crate::sandbox::{WEB, config, deployment};
use crate::sync_objects::{Hub, SYNCS, image, until};
use crate::sync_survives::moment;

const MEMBERS: [&str; 6] = ["m1", "m2", "m3", "m4", "m5", "m6"];
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/federate-system/leases";

/// Replicas that end with the test.
pub(crate) struct Replicas<'h> {
    hub: &'h Hub,
    running: Vec<Option<Child>>,
}

impl<'h> Replicas<'h> {
    pub(crate) fn start(hub: &'h Hub, count: usize) -> Self {
        let mut replicas = Self { hub, running: Vec::new() };
        for _ in 0..count {
            replicas.add();
        }
        replicas
    }

    pub(crate) fn add(&mut self) {
        let number = self.running.len();
        let log = fs::File::create(self.hub.sandbox.path(&format!("log{number}"))).unwrap();
        // Caches are not shared.
        let arguments = format!("--shared --leader-election-lease-duration 7 --state caches{number}");
        let mut command = self.hub.command_without_state(&arguments);
        self.running.push(Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap()));
    }

    fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.running[number].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Kills the replica with an identity, as Leases show it.
    pub(crate) fn kill_holder(&mut self, identity: &str) {
        let is_it = |number: &usize| self.running[*number].is_some() && self.log(*number).contains(identity);
        let number = (0..self.running.len()).find(is_it).expect("the log of a replica names it");
        self.kill(number);
    }

    fn log(&self, number: usize) -> String {
        fs::read_to_string(self.hub.sandbox.path(&format!("log{number}"))).unwrap()
    }

    /// The clusters that a replica has applied an image to.
    fn applied(&self, number: usize, what: &str) -> BTreeSet<String> {
        let log = self.log(number);
        let lines = log.lines().filter(|line| line.contains(what) && line.contains("applied"));
        let cluster = |line: &str| {
            let (_, rest) = line.split_once("cluster=")?;
            Some(rest.split_whitespace().next()?.to_owned())
        };
        lines.filter_map(cluster).collect()
    }
}

impl Drop for Replicas<'_> {
    fn drop(&mut self) {
        for number in 0..self.running.len() {
            self.kill(number);
            if std::thread::panicking() {
                println!("replica {number} said:\n{}", self.log(number));
            }
        }
    }
}

/// The lanes with their holders.
fn lanes(hub: &Hub) -> BTreeMap<String, String> {
    let list = hub.sandbox.get("hub", LEASES);
    let items = list["items"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = items.map(|item| (text(&item["metadata"]["name"]), text(&item["spec"]["holderIdentity"])));
    all.filter(|(name, _)| name.contains("-lane-")).collect()
}

/// The identity of the replica that leads.
pub(crate) fn leader(hub: &Hub) -> String {
    let lease = hub.sandbox.get("hub", &format!("{LEASES}/federate-sync"));
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Whether that many replicas hold all lanes. Which of them has a cluster depends on their identities, which are
/// random: six clusters can all belong to one.
pub(crate) fn divided(hub: &Hub, replicas: usize) -> bool {
    let lanes = lanes(hub);
    let mut held: BTreeMap<&String, usize> = BTreeMap::new();
    for holder in lanes.values() {
        *held.entry(holder).or_default() += 1;
    }
    lanes.len() == 64
        && !held.contains_key(&String::new())
        && held.len() == replicas
        && held.values().all(|lanes| *lanes > 4)
}

pub(crate) fn is_ready(hub: &Hub, message: &str) -> bool {
    let ready = hub.ready("web");
    ready["status"] == "True" && ready["message"].as_str().unwrap_or_default().contains(message)
}

pub(crate) fn reconcile(hub: &Hub, time: &str) {
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/requestedAt": time}}}));
}

#[test]
fn replicas_share_clusters_and_take_over_from_each_other() {
    let hub = Hub::with(&MEMBERS);
    let mut replicas = Replicas::start(&hub, 3);
    until("three replicas share the lanes", || divided(&hub, 3));
    hub.create(&hub.sync("web", &json!({"deletionPolicy": "Delete", "drift": {"mode": "correct"}})));
    until("the Sync is ready", || is_ready(&hub, ""));
    let counts = &hub.status("web")["clusters"];
    assert_eq!((&counts["ready"], &counts["errApplied"]), (&6.into(), &0.into()));
    let shares: Vec<_> = (0..3).map(|number| replicas.applied(number, "Deployment shop/web")).collect();
    let all: Vec<&String> = shares.iter().flatten().collect();
    assert_eq!(all.len(), MEMBERS.len(), "each cluster is applied to once: {shares:?}");

    // What a person changes is put back by the replica that has the cluster.
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    for member in ["m2", "m5"] {
        hub.sandbox.edit(member, "kubectl-edit", WEB, &mine);
        until("it is put back", || image(&hub.sandbox, member) == "nginx:1.27");
    }

    // One is killed, whichever: the others take its clusters over.
    replicas.kill(0);
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("second");
    until("the others have its lanes", || divided(&hub, 2));
    reconcile(&hub, "1");
    for member in MEMBERS {
        until("all clusters are at the revision", || image(&hub.sandbox, member) == "nginx:1.28");
    }
    until("the Sync is ready", || is_ready(&hub, ""));
    replicas.add();
    until("a new one gets its share", || divided(&hub, 3));

    hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
    until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
    for member in MEMBERS {
        assert!(!hub.sandbox.has(member, WEB), "{member} had its objects deleted first");
    }
}

#[test]
fn lanes_are_shared_where_leases_are_written_slowly() {
    let hub = Hub::with(&["m1"]);
    // To write all lanes takes twice as long as a Lease lasts.
    for verb in ["create", "update"] {
        let slow = Fault::new(verb, FaultKind::Slow(Duration::from_millis(200))).on("/leases").times(1000);
        hub.sandbox.fleet.cluster("hub").fault(slow);
    }
    let mut replicas = Replicas::start(&hub, 1);
    until("one replica has all lanes", || divided(&hub, 1));
    replicas.add();
    until("two replicas share the lanes", || divided(&hub, 2));
    for replica in replicas.running.iter_mut().flatten() {
        assert!(replica.try_wait().unwrap().is_none(), "no replica has lost its Lease");
    }
}

#[test]
fn a_cluster_that_refuses_for_a_while_gets_what_it_missed() {
    let hub = Hub::with(&["m1", "m2", "m3"]);
    for member in ["m1", "m2", "m3"] {
        let refuses = Fault::new("patch", FaultKind::Status(403)).on("deployments/web").times(4);
        hub.sandbox.fleet.cluster(member).fault(refuses);
    }
    let _replicas = Replicas::start(&hub, 2);
    until("two replicas share the lanes", || divided(&hub, 2));
    hub.create(&hub.sync("web", &json!({})));
    until("the clusters refuse", || hub.status("web")["clusters"]["errApplied"] == 3);
    // What a person asks for does not count as done.
    reconcile(&hub, "1");
    for member in ["m1", "m2", "m3"] {
        until("it is applied in the end", || hub.sandbox.has(member, WEB));
    }
    until("the Sync is ready", || is_ready(&hub, ""));
}

#[test]
fn a_rollout_is_shared_too() {
    let hub = Hub::new();
    let cluster = |name: &str| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}, labels: {{stage: \
             {name}}}}}\nspec: {{}}\n"
        )
    };
    hub.sandbox.write("clusters.yaml", &["m1", "m2"].map(cluster).concat());
    hub.sandbox.write("web.yaml", &config("web", "1"));
    hub.push("staged");
    let replicas = Replicas::start(&hub, 2);
    until("two replicas share the lanes", || divided(&hub, 2));
    let stage = |name: &str| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}});
    let stages = ["m2", "m1"].map(stage);
    hub.create(&hub.sync("web", &json!({"rollout": {"stages": stages}})));
    until("the Sync is ready", || is_ready(&hub, "rolled"));
    hub.sandbox.write("web.yaml", &config("web", "2"));
    hub.push("second");
    reconcile(&hub, "1");
    let value = |member: &str| {
        let web = hub.sandbox.get(member, "/api/v1/namespaces/shop/configmaps/web");
        web["data"]["k"].as_str().unwrap().to_owned()
    };
    until("the first stage is updated", || value("m2") == "2");
    until("all stages are updated", || value("m1") == "2");
    until("the Sync is ready", || is_ready(&hub, "in 2 stages"));
    drop(replicas);
}

#[test]
fn replicas_that_are_killed_leave_what_an_undisturbed_one_leaves() {
    // `FEDERATE_TEST_KILLS` asks for more.
    let kills = std::env::var("FEDERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    let change = |hub: &Hub, at: usize| {
        hub.sandbox.write("web.yaml", &deployment(&format!("nginx:1.{at}")));
        let names: Vec<String> =
            (0..10).map(|name| config(&format!("c{name}"), &format!("{}", at + name))).collect();
        hub.sandbox.write("many.yaml", &names.join("---\n"));
        hub.push("change");
    };
    let kills = kills.unwrap_or(3_usize);
    let undisturbed = Hub::with(&MEMBERS);
    undisturbed.create(&undisturbed.sync("web", &json!({})));
    change(&undisturbed, kills);
    undisturbed.once().code(0);

    let hub = Hub::with(&MEMBERS);
    let mut replicas = Replicas::start(&hub, 3);
    hub.create(&hub.sync("web", &json!({"interval": "5s"})));
    for at in 0..kills {
        change(&hub, at);
        std::thread::sleep(moment(5000));
        replicas.kill(at);
        replicas.add();
    }
    change(&hub, kills);
    for member in MEMBERS {
        let last = format!("nginx:1.{kills}");
        until("the last revision is applied", || {
            hub.sandbox.has(member, WEB) && image(&hub.sandbox, member) == last
        });
    }
    until("the Sync is ready", || is_ready(&hub, ""));
    for member in MEMBERS {
        assert_eq!(hub.sandbox.held(member), undisturbed.sandbox.held(member), "{member}");
    }
}
