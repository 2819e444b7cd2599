//! A switch between control planes over API servers, by the runbook that `federate migrate` writes: its commands run as they
//! stand, in their order, with the contexts that it names.
//!
//! The members are real clusters where [`real`](crate::real) finds some. The API servers of both control planes are always
//! those for tests: what their controllers would do is done here, by what the commands have left on them. In place of
//! the new control plane, `federate apply` writes to the members, with the adoption that the control plane would use.
//!
//! What is recorded of each workload, with the `ReplicaSet`s and pods that controllers have made of it, must be the
//! same at the end. (The generation of a workload also counts changes of annotations.)

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ran::Ran;
use crate::real::Real;
use federate_test_apiserver::{ApiRequest, Fleet, TestCluster};

/// The cluster with the controllers of the old control plane.
const OLD: &str = "old-host";
/// The API server of the new control plane.
const NEW: &str = "new-hub";
/// The cluster with its controllers.
const NEW_HOST: &str = "new-host";

/// The namespaces of the objects.
const NAMESPACES: [&str; 2] = ["shop", "shop-b"];

/// The value of a Secret, which nothing may print.
pub(crate) const SECRET_VALUE: &str = "aHVudGVyMg==";

/// The kinds of the new control planes that are served: group, version, kind, whether it is in namespaces.
const HUB_KINDS: [(&str, &str, &str, bool); 16] = [
    ("cluster.karmada.io", "v1alpha1", "Cluster", false),
    ("policy.karmada.io", "v1alpha1", "PropagationPolicy", true),
    ("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy", false),
    ("policy.karmada.io", "v1alpha1", "OverridePolicy", true),
    ("policy.karmada.io", "v1alpha1", "ClusterOverridePolicy", false),
    ("work.karmada.io", "v1alpha2", "ResourceBinding", true),
    ("work.karmada.io", "v1alpha2", "ClusterResourceBinding", false),
    ("cluster.kubernetes-fleet.io", "v1", "MemberCluster", false),
    ("placement.kubernetes-fleet.io", "v1beta1", "ClusterResourcePlacement", false),
    ("placement.kubernetes-fleet.io", "v1beta1", "ResourceOverride", true),
    ("placement.kubernetes-fleet.io", "v1beta1", "ClusterResourceOverride", false),
    ("placement.kubernetes-fleet.io", "v1beta1", "ClusterResourceBinding", false),
    ("placement.kubernetes-fleet.io", "v1beta1", "ClusterSchedulingPolicySnapshot", false),
    ("placement.kubernetes-fleet.io", "v1beta1", "ResourcePlacement", true),
    ("placement.kubernetes-fleet.io", "v1beta1", "ResourceBinding", true),
    ("placement.kubernetes-fleet.io", "v1beta1", "SchedulingPolicySnapshot", true),
];

/// `kubectl` without validation: the API server for tests describes no kinds.
const KUBECTL: &str = "kubectl() {
  case \"$*\" in *' apply '* | *' create '*) set -- \"$@\" --validate=false;; esac
  command kubectl \"$@\"
}";

/// The kinds of the templates.
const TEMPLATE_KINDS: [&str; 6] =
    ["namespaces", "configmaps", "secrets", "services", "deployments.apps", "replicasets.apps"];

/// What an old control plane leaves on the objects that it has sent.
pub(crate) struct OldPlane {
    /// The field manager.
    pub(crate) manager: &'static str,
    /// Its marks, as metadata.
    pub(crate) marks: Value,
    /// Its controllers: context, namespace and name.
    pub(crate) controllers: Vec<(&'static str, &'static str, &'static str)>,
}

/// A repo, the clusters of both control planes, and the members.
pub(crate) struct Switch {
    folder: TempDir,
    fleet: Fleet,
    real: Option<Real>,
    members: Vec<&'static str>,
    plane: OldPlane,
    target: &'static str,
    /// The lines of the runbook that were run, with their results.
    journal: Vec<String>,
    /// Held by a switch of real clusters: the last step removes marks of all objects.
    _alone: Option<MutexGuard<'static, ()>>,
}

/// Held by the switch of real clusters that is under way.
static REAL_SWITCH: Mutex<()> = Mutex::new(());

/// Whether there is a `kubectl`, which the runbooks use.
pub(crate) fn has_kubectl() -> bool {
    let found =
        Command::new("kubectl").args(["version", "--client"]).output().is_ok_and(|ran| ran.status.success());
    if !found {
        println!("not run: there is no kubectl");
    }
    found
}

/// The text of a file of the project.
pub(crate) fn read_example(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(path)).unwrap()
}

impl Switch {
    /// A repo of these files, whose objects are in the namespace `shop`, and members as the old control plane leaves them.
    pub(crate) fn start(
        files: &[(String, String)],
        members: &[&'static str],
        plane: OldPlane,
        target: &'static str,
    ) -> Self {
        let real = Real::find(members);
        let alone = real.is_some().then(|| REAL_SWITCH.lock().unwrap_or_else(PoisonError::into_inner));
        let hubs = [OLD, NEW_HOST].map(|name| TestCluster::new(name).with_nodes());
        let mut served = Vec::from(hubs);
        served.push(TestCluster::new(NEW));
        if real.is_none() {
            served.extend(members.iter().map(|name| TestCluster::new(name).with_nodes()));
        }
        let fleet = Fleet::serve_clusters(served).unwrap();
        let mut switch = Self {
            folder: tempfile::tempdir().unwrap(),
            fleet,
            real,
            members: members.to_vec(),
            plane,
            target,
            journal: Vec::new(),
            _alone: alone,
        };
        switch.write_kubeconfig();
        for (path, text) in files {
            let path = switch.path("repo").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, switch.own(text)).unwrap();
        }
        for kind in HUB_KINDS {
            switch.serve_kind(kind);
        }
        switch.start_controllers();
        switch.write_programs();
        switch.send_as_old_plane();
        switch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Text with names of the test's own, where members are shared.
    fn own(&self, text: &str) -> String {
        self.real.as_ref().map_or_else(|| text.to_owned(), |real| real.own(text))
    }

    /// The ApplySet for a command that writes to members, where they are shared.
    fn applyset(&self) -> String {
        self.real.as_ref().map_or_else(String::new, |real| format!(" --applyset {}", real.applyset()))
    }

    fn write_kubeconfig(&mut self) {
        let path = self.path("kubeconfig");
        let mut config: Value = serde_json::from_str(&self.fleet.admin_kubeconfig()).unwrap();
        if let Some(real) = &mut self.real {
            real.name_contexts(&self.members, &path);
            let members: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            for list in ["clusters", "contexts", "users"] {
                config[list]
                    .as_array_mut()
                    .unwrap()
                    .extend(members[list].as_array().unwrap().iter().cloned());
            }
        }
        config["current-context"] = json!(OLD);
        fs::write(path, config.to_string()).unwrap();
    }

    fn serve_kind(&self, (group, version, kind, is_namespaced): (&str, &str, &str, bool)) {
        let plural = format!("{}s", kind.to_lowercase());
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]},
        });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(self.fleet.lock_cluster(NEW).create_object(path, &definition).status, 201);
    }

    /// Creates the Deployments of the controllers of both control planes.
    fn start_controllers(&self) {
        let new = match self.target {
            "karmada" => vec![(NEW_HOST, "karmada-system", "karmada-scheduler")],
            "kubefleet" => vec![(NEW_HOST, "fleet-system", "hub-agent")],
            _ => Vec::new(),
        };
        for (context, namespace, name) in self.plane.controllers.iter().copied().chain(new) {
            let created = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let (status, answer) =
                self.request(context, "POST", "/api/v1/namespaces", "application/json", &created);
            assert!(matches!(status, 201 | 409), "{answer}");
            if let Some(real) = self.real.as_ref().filter(|_| self.is_member(context)) {
                real.remember(context, &format!("/api/v1/namespaces/{namespace}"));
            }
            let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "c"}]}}});
            let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
            let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
            let (status, answer) = self.request(context, "POST", &path, "application/json", &body);
            assert_eq!(status, 201, "{answer}");
        }
    }

    fn is_member(&self, context: &str) -> bool {
        self.members.contains(&context)
    }

    /// A program in place of one that needs a whole control plane: `karmadactl join` creates the Cluster.
    fn write_programs(&self) {
        let script = r#"#!/bin/sh
[ "$1" = join ] && [ "$3" = --karmada-context ] && [ "$5" = --cluster-context ] || exit 64
kubectl --context "$6" get namespaces > joined || exit 65
echo "{\"apiVersion\":\"cluster.karmada.io/v1alpha1\",\"kind\":\"Cluster\",\"metadata\":{\"name\":\"$2\"},\"spec\":{\"syncMode\":\"Push\",\"apiEndpoint\":\"https://$6\",\"secretRef\":{\"namespace\":\"karmada-cluster\",\"name\":\"$2\"}}}" |
  kubectl --context "$4" create --validate=false -f -
"#;
        fs::create_dir(self.path("bin")).unwrap();
        let path = self.path("bin/karmadactl");
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs commands of a shell.
    fn run(&self, command: &str) -> Ran {
        let federate = Path::new(env!("CARGO_BIN_EXE_federate")).parent().unwrap();
        let programs = self.path("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-euc", &format!("{KUBECTL}\n{command}")])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{}:{path}", programs.display(), federate.display()))
            .env("KUBECONFIG", self.path("kubeconfig"))
            .env("HOME", self.path("home"))
            .env("FEDERATE_DIGEST_KEY", "the key of a test, long enough")
            .output()
            .unwrap();
        let ran = Ran::of(&output);
        assert!(!format!("{ran:?}").contains(SECRET_VALUE), "{command} prints the value of a Secret");
        ran
    }

    /// Runs federate, which must end with one of these codes.
    #[track_caller]
    fn run_federate(&self, arguments: &str, codes: &[i32]) -> Ran {
        let ran = self.run(&format!("federate {arguments}"));
        assert!(codes.contains(&ran.code), "federate {arguments}: {ran:#?}\n{}", self.journal.join("\n"));
        ran
    }

    /// Sends a request to a cluster; the status and the answer.
    fn request(
        &self,
        cluster: &str,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if let Some(real) = self.real.as_ref().filter(|_| self.is_member(cluster)) {
            return real.request(cluster, method, &format!("{path}?{query}"), content_type, body);
        }
        let mut request = ApiRequest::new(method, path);
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            request = request.with_query(key, value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response =
            self.fleet.lock_cluster(cluster).handle_request(&request.with_body(content_type, body));
        (response.status, response.json_body().clone())
    }

    fn get(&self, cluster: &str, path: &str) -> Option<Value> {
        let (status, object) = self.request(cluster, "GET", path, "application/json", &Value::Null);
        (status == 200).then_some(object)
    }

    /// Puts every rendered object into its member, as the old control plane does, and waits for what controllers make of it.
    fn send_as_old_plane(&self) {
        self.run_federate("render repo --out rendered", &[0]);
        for member in &self.members {
            let folder = self.path("rendered").join(member);
            let mut files = list_files(&folder);
            files.sort_by_key(|file| !file.to_string_lossy().contains("namespace"));
            for file in files {
                // Names of the test's own are given again by the request.
                let text = fs::read_to_string(&file).unwrap();
                let text = self.real.as_ref().map_or(text.clone(), |real| real.known(&text));
                let mut object = federate_yaml::read_stream(text.as_bytes()).documents.remove(0).value;
                for kind in ["labels", "annotations"] {
                    for (key, value) in self.plane.marks[kind].as_object().into_iter().flatten() {
                        object["metadata"][kind][key] = value.clone();
                    }
                }
                let path = collection_path(&object);
                let path = format!("{path}?fieldManager={}", self.plane.manager);
                let (status, answer) = self.request(member, "POST", &path, "application/json", &object);
                assert_eq!(status, 201, "{member}: {answer}");
            }
        }
    }

    /// What must be the same at the end, by member: workloads by who they are and what their pods are made of, and the
    /// `ReplicaSet`s and pods that were made of them.
    pub(crate) fn record(&self) -> Value {
        let members = self.members.iter().map(|member| {
            let deployments = self.list(member, "/apis/apps/v1", "deployments");
            let sets = self.list(member, "/apis/apps/v1", "replicasets");
            let pods = self.list(member, "/api/v1", "pods");
            let spec = |object: &Value| json!([object["metadata"]["uid"], object["spec"]]);
            let workloads: Vec<Value> = deployments.iter().map(spec).collect();
            let sets: Vec<Value> = sets
                .iter()
                .map(|set| json!([set["metadata"]["uid"], set["metadata"]["generation"], set["spec"]]))
                .collect();
            let pods: Vec<Value> = pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect();
            ((*member).to_owned(), json!({"deployments": workloads, "sets": sets, "pods": pods}))
        });
        Value::Object(members.collect())
    }

    /// The objects of a kind in the namespaces of the test.
    fn list(&self, member: &str, api: &str, plural: &str) -> Vec<Value> {
        let lists = NAMESPACES.map(|namespace| {
            self.get(member, &format!("{api}/namespaces/{namespace}/{plural}")).unwrap_or_default()
        });
        lists.iter().flat_map(|list| list["items"].as_array().cloned().unwrap_or_default()).collect()
    }

    /// Waits until controllers have made a `ReplicaSet` with all pods of every Deployment, where there are any, and
    /// returns the record.
    pub(crate) fn record_settled(&self) -> Value {
        let is_controlled = self.real.as_ref().is_none_or(|real| real.controlled(self.members[0]));
        let end = Instant::now() + Duration::from_mins(1);
        loop {
            let is_settled = self.members.iter().all(|member| {
                let deployments = self.list(member, "/apis/apps/v1", "deployments");
                let sets = self.list(member, "/apis/apps/v1", "replicasets");
                // The test server counts the pods of Deployments only.
                let is_full = |one: &Value| one["status"]["replicas"] == one["spec"]["replicas"];
                deployments.iter().all(|deployment| {
                    let generation = &deployment["metadata"]["generation"];
                    is_full(deployment) && deployment["status"]["observedGeneration"] == *generation
                }) && (self.real.is_none() || sets.iter().all(is_full))
                    && sets.len() >= deployments.len()
            });
            if is_settled || !is_controlled {
                return self.record();
            }
            assert!(Instant::now() < end, "controllers have made nothing: {:#}", self.record());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The generations of all Deployments, by member.
    pub(crate) fn generations(&self) -> BTreeMap<String, Vec<Value>> {
        let members = self.members.iter().map(|member| {
            let deployments = self.list(member, "/apis/apps/v1", "deployments");
            let generations = deployments.iter().map(|one| one["metadata"]["generation"].clone());
            ((*member).to_owned(), generations.collect())
        });
        members.collect()
    }

    /// The metadata of an object in a member.
    pub(crate) fn metadata(&self, member: &str, path: &str) -> Value {
        self.get(member, path).unwrap_or_else(|| panic!("{path} is not in {member}"))["metadata"].clone()
    }

    /// Migrates the repo, and returns the steps of the runbook with their commands.
    pub(crate) fn migrate(&self, options: &str) -> Runbook {
        self.run_federate(&format!("migrate repo --to {} --out new {options}", self.target), &[0, 1]);
        Runbook::parse(&fs::read_to_string(self.path("new/MIGRATION.md")).unwrap())
    }

    /// Runs the commands of a step. Before federate looks, the new control plane does what it would have done by then.
    #[track_caller]
    pub(crate) fn follow(&mut self, runbook: &Runbook, step: &str) -> Vec<Value> {
        let mut checks = Vec::new();
        let mut words = runbook.variables.clone();
        for command in split_commands(&runbook.steps[step]) {
            if is_assignment(&command) {
                words.push_str(&format!("{command}\n"));
                continue;
            }
            if ["federate snapshot ", "federate drift "].iter().any(|start| command.starts_with(start)) {
                self.run_new_plane(step);
            }
            let is_check = command.contains(" --check ");
            let suffix = if is_check { " -o json" } else { "" };
            let writes =
                ["federate apply ", "federate drift "].iter().any(|start| command.starts_with(start));
            let set = if writes { self.applyset() } else { String::new() };
            let ran = self.run(&format!("{words}{command}{suffix}{set}"));
            self.journal.push(format!("{step}$ {command}\n{}{}(code {})", ran.out, ran.err, ran.code));
            assert!(ran.code == 0, "{}", self.journal.join("\n"));
            if is_check {
                checks.push(ran.json());
            }
            self.check_pause();
        }
        checks
    }

    /// Follows a step whose last check must hold, and says which step is next.
    #[track_caller]
    pub(crate) fn follow_to(&mut self, runbook: &Runbook, step: &str, next: Option<&str>) {
        let checks = self.follow(runbook, step);
        let last = checks.last().unwrap_or_else(|| panic!("{step} ends without a check"));
        let journal = || self.journal.join("\n");
        assert!(last["ready"] == true, "{}", journal());
        assert!(last.get("next").and_then(Value::as_str) == next, "next is not {next:?}:\n{}", journal());
    }

    fn list_hub(&self, path: &str) -> Vec<Value> {
        let list = self.fleet.lock_cluster(NEW).get(path).unwrap_or_else(|| panic!("{path} is not served"));
        list["items"].as_array().unwrap().clone()
    }

    /// The policies of the new control plane that exist.
    fn list_policies(&self) -> Vec<Value> {
        let (api, plurals) = match self.target {
            "karmada" => {
                ("/apis/policy.karmada.io/v1alpha1", ["propagationpolicys", "clusterpropagationpolicys"])
            }
            "kubefleet" => (
                "/apis/placement.kubernetes-fleet.io/v1beta1",
                ["resourceplacements", "clusterresourceplacements"],
            ),
            _ => return Vec::new(),
        };
        plurals.iter().flat_map(|plural| self.list_hub(&format!("{api}/{plural}"))).collect()
    }

    /// Whether a policy lets the new control plane write nothing.
    fn is_paused(&self, policy: &Value) -> bool {
        let strategy = &policy["spec"]["strategy"]["applyStrategy"];
        match self.target {
            "karmada" => policy["spec"]["suspension"]["dispatching"] == true,
            _ => strategy["type"] == "ReportDiff" && strategy["whenToTakeOver"] == "Never",
        }
    }

    /// The replicas that a Deployment is to have.
    pub(crate) fn count_replicas(&self, context: &str, namespace: &str, name: &str) -> u64 {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
        self.get(context, &path).unwrap()["spec"]["replicas"].as_u64().unwrap()
    }

    /// While the old controllers run, the new side sends nothing: it has no templates, its scheduler is stopped, or every
    /// policy is paused.
    #[track_caller]
    fn check_pause(&self) {
        let mut controllers = self.plane.controllers.iter();
        let is_running =
            controllers.any(|(context, namespace, name)| self.count_replicas(context, namespace, name) > 0);
        if !is_running || self.list_hub("/apis/apps/v1/deployments").is_empty() {
            return;
        }
        let is_stopped = self.target == "karmada"
            && self.count_replicas(NEW_HOST, "karmada-system", "karmada-scheduler") == 0;
        let is_paused = self.list_policies().iter().all(|policy| self.is_paused(policy));
        assert!(is_stopped || is_paused, "{}", self.journal.join("\n"));
    }

    /// Does what the controllers of the new control plane have done by now.
    fn run_new_plane(&self, step: &str) {
        let policies = self.list_policies();
        if policies.is_empty() {
            return;
        }
        self.run_federate("render new --out scheduled", &[0]);
        let text = fs::read(self.path("scheduled/placements.yaml")).unwrap();
        let plan = federate_yaml::read_stream(&text).documents.remove(0).value;
        match self.target {
            "karmada" => self.schedule_with_karmada(&plan),
            _ => self.schedule_with_kubefleet(&plan),
        }
        if step != "take-over" || policies.iter().any(|policy| self.is_paused(policy)) {
            return;
        }
        match self.target {
            "karmada" => self
                .take_over("karmada-controller-manager", &json!({"labels": {"karmada.io/managed": "true"}})),
            _ => self
                .take_over("work-api-agent", &json!({"annotations": {"kubernetes-fleet.io/spec-hash": "0"}})),
        }
    }

    /// Writes the snapshots and bindings that the scheduler of `KubeFleet` decides, by federate's plan.
    fn schedule_with_kubefleet(&self, plan: &Value) {
        let rows = plan["placements"].as_array().unwrap().iter();
        for row in rows.filter(|row| row["object"] == row["policy"]) {
            let (name, namespace) =
                (row["object"]["name"].as_str().unwrap(), row["object"]["namespace"].as_str());
            let prefix = if namespace.is_some() { "" } else { "Cluster" };
            let snapshot = format!("{name}-0");
            let labels = json!({"kubernetes-fleet.io/parent-CRP": name, "kubernetes-fleet.io/policy-index": "0",
                "kubernetes-fleet.io/is-latest-snapshot": "true"});
            let mut objects = vec![json!({"kind": format!("{prefix}SchedulingPolicySnapshot"),
                "metadata": {"name": snapshot, "labels": labels, "annotations": {"kubernetes-fleet.io/CRP-generation": "1"}},
                "spec": {"policy": row["memory"]["policy"], "policyHash": "aA=="}})];
            for cluster in row["clusters"].as_array().unwrap() {
                let cluster = cluster["name"].as_str().unwrap();
                objects.push(json!({"kind": format!("{prefix}ResourceBinding"),
                    "metadata": {"name": format!("{name}-{cluster}"), "labels": {"kubernetes-fleet.io/parent-CRP": name}},
                    "spec": {"state": "Bound", "targetCluster": cluster, "schedulingPolicySnapshotName": snapshot,
                        "resourceSnapshotName": format!("{name}-0-snapshot"),
                        "clusterDecision": {"clusterName": cluster, "selected": true, "reason": "picked"}}}));
            }
            for mut object in objects {
                object["apiVersion"] = json!("placement.kubernetes-fleet.io/v1beta1");
                object["metadata"]["namespace"] = json!(namespace);
                let path = collection_path(&object);
                let status = self.fleet.lock_cluster(NEW).create_object(&path, &object).status;
                assert!(matches!(status, 201 | 409), "{path}: {status}");
            }
        }
    }

    /// Creates the objects of clusters that have joined `KubeFleet`.
    pub(crate) fn join_kubefleet(&self) {
        for member in &self.members {
            let now = self.run("date -u +%FT%TZ").out;
            let conditions =
                json!([{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": "True"}]);
            let cluster = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster",
                "metadata": {"name": member}, "spec": {"identity": {"kind": "ServiceAccount", "name": member}},
                "status": {"conditions": conditions, "agentStatus": [
                    {"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": now.trim()}]}});
            let path = "/apis/cluster.kubernetes-fleet.io/v1/memberclusters";
            assert_eq!(self.fleet.lock_cluster(NEW).create_object(path, &cluster).status, 201);
        }
    }

    /// Writes the bindings that Karmada's scheduler decides, by federate's plan.
    fn schedule_with_karmada(&self, plan: &Value) {
        for row in plan["placements"].as_array().unwrap().iter().filter(|row| !row["policy"].is_null()) {
            let (object, policy) = (&row["object"], &row["policy"]);
            let namespace = object["namespace"].as_str();
            let name = object["name"].as_str().unwrap();
            let kind = object["kind"].as_str().unwrap();
            let policies = self.list_policies();
            let found = policies.iter().find(|one| {
                one["metadata"]["name"] == policy["name"]
                    && one["metadata"].get("namespace") == policy.get("namespace")
            });
            let found =
                found.unwrap_or_else(|| panic!("{policy} is not loaded: {}", self.journal.join("\n")));
            let placement = &found["spec"]["placement"];
            let binding_kind = if namespace.is_some() { "ResourceBinding" } else { "ClusterResourceBinding" };
            let prefix = if policy.get("namespace").is_some() {
                "propagationpolicy"
            } else {
                "clusterpropagationpolicy"
            };
            let mut annotations = json!({"policy.karmada.io/applied-placement": placement.to_string(),
                format!("{prefix}.karmada.io/name"): policy["name"]});
            if let Some(namespace) = policy.get("namespace") {
                annotations[format!("{prefix}.karmada.io/namespace")] = namespace.clone();
            }
            let template = format!(
                "{}/{name}",
                collection_path(&json!({"apiVersion": object["apiVersion"],
                "kind": kind, "metadata": {"namespace": namespace}}))
            );
            let template = self.get(NEW, &template).unwrap_or_else(|| panic!("{template} is not loaded"));
            let replicas = template["spec"]["replicas"].as_i64().unwrap_or(0);
            let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": binding_kind,
                "metadata": {"name": format!("{name}-{}", kind.to_lowercase()), "annotations": annotations},
                "spec": {"resource": object, "placement": placement, "replicas": replicas, "clusters": row["clusters"]}});
            let folder = namespace.map_or(String::new(), |namespace| format!("/namespaces/{namespace}"));
            let path = format!("/apis/work.karmada.io/v1alpha2{folder}/{}s", binding_kind.to_lowercase());
            // Those that exist are as they were.
            let status = self.fleet.lock_cluster(NEW).create_object(&path, &binding).status;
            assert!(matches!(status, 201 | 409), "{path}: {status}");
        }
    }

    /// Takes over as the new control plane does by what is on its API server, and marks what is sent.
    #[track_caller]
    fn take_over(&self, manager: &str, marks: &Value) {
        let kinds = HUB_KINDS
            .iter()
            .filter(|(_, _, kind, _)| !["Binding", "Snapshot"].iter().any(|end| kind.ends_with(end)));
        let kinds = kinds.map(|(group, _, kind, _)| format!("{}.{group}", kind.to_lowercase()));
        let kinds: Vec<String> = kinds.chain(TEMPLATE_KINDS.map(str::to_owned)).collect();
        fs::create_dir_all(self.path("hub")).unwrap();
        let kinds = kinds.join(",");
        let ran =
            self.run(&format!("kubectl --context {NEW} get {kinds} --all-namespaces -o yaml > hub/all.yaml"));
        assert_eq!(ran.code, 0, "{ran:#?}");
        let taken = self.run_federate(&format!("apply hub -o json{}", self.applyset()), &[0]).json();
        let actions = taken["actions"].as_array().unwrap();
        for action in actions {
            assert!(action["action"] != "conflict" && action["restartsPods"] == false, "{action:#}");
            let (object, cluster) = (&action["object"], action["cluster"].as_str().unwrap());
            let path = format!(
                "{}/{}?fieldManager={manager}",
                collection_path(&json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
                    "metadata": {"namespace": object["namespace"]}})),
                object["name"].as_str().unwrap()
            );
            // Labels and annotations that others have set stay, also those of the old control plane.
            let mut mark = json!({"metadata": self.plane.marks});
            for (kind, entries) in marks.as_object().unwrap() {
                for (key, value) in entries.as_object().unwrap() {
                    mark["metadata"][kind][key] = value.clone();
                }
            }
            let (status, answer) =
                self.request(cluster, "PATCH", &path, "application/merge-patch+json", &mark);
            assert_eq!(status, 200, "{answer}");
        }
    }
}

/// A runbook: the words that it has readers set, and the commands of each step.
pub(crate) struct Runbook {
    variables: String,
    pub(crate) steps: BTreeMap<String, String>,
    pub(crate) text: String,
}

impl Runbook {
    fn parse(text: &str) -> Self {
        let (mut variables, mut steps) = (String::new(), BTreeMap::new());
        let mut sections = text.split("\n## ");
        let head = sections.next().unwrap();
        variables.push_str(&list_commands(head));
        for section in sections {
            let title = section.lines().next().unwrap();
            let name = title.split('`').nth(1).unwrap_or("way back");
            steps.insert(name.to_owned(), list_commands(section));
        }
        Self { variables, steps, text: text.to_owned() }
    }
}

/// The commands of a section.
fn list_commands(section: &str) -> String {
    section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

/// Each command of a block, with a loop as one command.
fn split_commands(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in block.lines().filter(|line| !line.starts_with('#')) {
        match commands.last_mut().filter(|_| is_open) {
            Some(command) => command.push_str(&format!("\n{line}")),
            None => commands.push(line.to_owned()),
        }
        is_open = line.starts_with("for ") || (is_open && line != "done");
    }
    commands
}

/// Whether a command only sets a variable.
fn is_assignment(command: &str) -> bool {
    let name = command.split('=').next().unwrap();
    command.contains('=') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// All files below a folder, by path.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files.extend(list_files(&entry));
        } else {
            files.push(entry);
        }
    }
    files.sort();
    files
}

/// The path of the objects of a kind.
fn collection_path(object: &Value) -> String {
    let api = object["apiVersion"].as_str().unwrap();
    let root = if api.contains('/') { "apis" } else { "api" };
    let namespace = object["metadata"]["namespace"].as_str();
    let namespace = namespace.map_or(String::new(), |name| format!("/namespaces/{name}"));
    format!("/{root}/{api}{namespace}/{}s", object["kind"].as_str().unwrap().to_lowercase())
}
