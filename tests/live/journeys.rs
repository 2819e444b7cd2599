//! The guides, as a reader follows them: the commands of a page run in their order, in a scratch folder with a repo
//! of that control plane, its hub and its members.
//!
//! In `docs/guides`, `<!-- run -->` stands above a block of commands that run, `<!-- write -->` above a file whose
//! first line is a comment with its path, and `<!-- not run: WHY -->` above commands that cannot run here. Each block of commands
//! has one of them. A command fails if its exit code is not 0; those that compare may also report differences
//! with 1. `NAME` stands for the reader's own object.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use federate_test_apiserver::{Fleet, TestCluster};

/// What the page asks the reader to do.
enum Step {
    Run(String),
    Write { path: String, text: String },
}

fn guides() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides")
}

/// The steps of a page, and its blocks of commands without a mark.
fn steps(page: &str) -> (Vec<Step>, Vec<String>) {
    let block = regex::Regex::new(
        r"(?ms)(?:^ *<!-- (run|write|not run: [^\n]+?) -->\n)?^( *)```(sh|yaml)\n(.*?)^ *```$",
    )
    .unwrap();
    let (mut steps, mut unmarked) = (Vec::new(), Vec::new());
    for found in block.captures_iter(page) {
        let indent = &found[2];
        let text: String =
            found[4].lines().map(|l| l.strip_prefix(indent).unwrap_or(l).to_owned() + "\n").collect();
        match (found.get(1).map(|mark| mark.as_str()), &found[3]) {
            (Some("run"), _) => steps.extend(text.lines().map(|line| Step::Run(line.to_owned()))),
            (Some("write"), _) => {
                let first = text.lines().next().unwrap_or_default();
                let path = first.trim_start_matches("# ").split(':').next().unwrap().to_owned();
                steps.push(Step::Write { path, text });
            }
            (None, "sh") => unmarked.push(text),
            _ => {}
        }
    }
    (steps, unmarked)
}

const INVENTORY_KINDS: [&str; 4] =
    ["kind: Cluster\n", "kind: MemberCluster\n", "kind: KubeFedCluster\n", "kind: FederatedCluster\n"];

/// A reader's folder: `deploy` in a git repository with an origin, and API servers for the hub and the members.
struct Reader {
    folder: TempDir,
    fleet: Fleet,
}

impl Reader {
    /// The objects of `repo` are those of `deploy`, and also on the hub. Objects of the inventory are only there.
    fn new(hub: &str, repo: &str) -> Self {
        Self::with_repos(&[(hub, "deploy", repo)])
    }

    /// The same for several hubs, each with its folder. The first one is that of the current context.
    fn with_repos(repos: &[(&str, &str, &str)]) -> Self {
        let members = ["eu-1", "us-1"].map(|name| TestCluster::new(name).with_controllers().with_nodes());
        let hubs = repos.iter().map(|(hub, ..)| TestCluster::new(hub));
        let fleet = Fleet::serve_clusters(hubs.chain(members).collect()).unwrap();
        let reader = Self { folder: tempfile::tempdir().unwrap(), fleet };
        reader.fleet.write_kubeconfig(&reader.path("kubeconfig")).unwrap();
        let mut config: Value =
            serde_json::from_str(&fs::read_to_string(reader.path("kubeconfig")).unwrap()).unwrap();
        config["current-context"] = json!(repos[0].0);
        fs::write(reader.path("kubeconfig"), config.to_string()).unwrap();
        for (hub, folder, repo) in repos {
            fs::create_dir_all(reader.path(folder)).unwrap();
            let is_inventory = |text: &&str| INVENTORY_KINDS.iter().any(|kind| text.contains(kind));
            let (clusters, rest): (Vec<&str>, Vec<&str>) = repo.split("---\n").partition(is_inventory);
            fs::write(reader.path(folder).join("repo.yaml"), rest.join("---\n")).unwrap();
            for text in clusters.into_iter().chain(rest) {
                reader.on_hub(hub, text);
            }
        }
        for command in [
            "git init -q -b main work && mv work/.git . && rmdir work",
            "git init -q --bare origin.git && git remote add origin origin.git",
            "printf 'kubeconfig\\norigin.git\\n.cache\\n' > .gitignore",
            "git add -A && git commit -q -m start && git push -q origin main && git switch -q -c change",
        ] {
            let ran = reader.run(command);
            assert!(ran.status.success(), "{command}: {}", text_of(&ran));
        }
        reader
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates an object of a control plane on its hub, which then serves the kind.
    fn on_hub(&self, hub: &str, text: &str) {
        let object = federate_yaml::read_stream(text.as_bytes()).documents.remove(0).value;
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        if !group.contains('.') || group.ends_with(".k8s.io") {
            return;
        }
        self.serve(
            hub,
            group,
            version,
            object["kind"].as_str().unwrap(),
            !object["metadata"]["namespace"].is_null(),
        );
        fs::write(self.path("object.json"), object.to_string()).unwrap();
        if let Some(namespace) = object["metadata"]["namespace"].as_str() {
            self.fleet.lock_cluster(hub).create_namespace(namespace);
        }
        let ran =
            self.run(&format!("kubectl --context {hub} create --validate=false -f object.json; code=$?; rm object.json; exit $code"));
        assert!(ran.status.success(), "{}", text_of(&ran));
    }

    fn serve(&self, hub: &str, group: &str, version: &str, kind: &str, namespaced: bool) {
        let plural = format!("{}s", kind.to_lowercase());
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": if namespaced { "Namespaced" } else { "Cluster" },
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]},
        });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.fleet.lock_cluster(hub).create_object(path, &definition);
    }

    fn run(&self, command: &str) -> Output {
        let bin = Path::new(env!("CARGO_BIN_EXE_federate")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.folder.path()).env("PATH", path);
        shell.env("KUBECONFIG", self.path("kubeconfig")).env("HOME", self.path(".cache"));
        for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            shell.env(format!("{who}_NAME"), "Test").env(format!("{who}_EMAIL"), "test@example.com");
        }
        shell.output().unwrap()
    }

    /// Runs a command that must succeed.
    #[track_caller]
    fn succeed(&self, command: &str) {
        let ran = self.run(command);
        assert!(ran.status.success(), "{command}: {}", text_of(&ran));
    }

    /// Puts what each member receives by the repo of a folder into it, with the label of a control plane. `clusters` are the
    /// kind of its inventory on its hub.
    #[track_caller]
    fn run_members(&self, folder: &str, hub: &str, clusters: &str, label: &str) {
        self.succeed(&format!(
            "kubectl --context {hub} get {clusters} -o yaml > {folder}/clusters.yaml && \
             federate render {folder} --out sent -q && rm {folder}/clusters.yaml"
        ));
        for member in ["eu-1", "us-1"] {
            // Namespaces come first.
            self.succeed(&format!(
                "find sent/{member} -name '*.yaml' | LC_ALL=C sort | xargs -n 1 kubectl --context {member} create --validate=false -f"
            ));
            self.succeed(&format!(
                "kubectl --context {member} label namespaces/shop {label} && kubectl --context {member} label deployments --all -n shop {label}"
            ));
        }
        self.succeed("rm -r sent");
    }

    /// The `ReplicaSet`s of both members, by their identity and their spec.
    fn list_replica_sets(&self) -> Vec<Value> {
        let path = "/apis/apps/v1/namespaces/shop/replicasets";
        let lists = ["eu-1", "us-1"].map(|member| self.fleet.lock_cluster(member).get(path).unwrap());
        let sets = lists.iter().flat_map(|list| list["items"].as_array().unwrap());
        sets.map(|set| json!([set["metadata"]["uid"], set["spec"]])).collect()
    }

    /// Follows a page to its end, with `name` for the reader's own object.
    #[track_caller]
    fn follow(&self, page: &str, name: &str) {
        self.follow_adapted(page, &[("NAME", name)]);
    }

    /// The same with other parts of commands that are the reader's own.
    #[track_caller]
    fn follow_adapted(&self, page: &str, own: &[(&str, &str)]) {
        let text = fs::read_to_string(guides().join(page)).unwrap();
        let (steps, _) = steps(&text);
        assert!(!steps.is_empty(), "{page} has no steps");
        for step in steps {
            match step {
                Step::Write { path, text } => fs::write(self.path(&path), text).unwrap(),
                Step::Run(command) => {
                    let compares =
                        ["federate diff ", "federate drift ", "federate migrate ", "federate whatif "];
                    let most = i32::from(compares.iter().any(|start| command.starts_with(start)));
                    let adapted = own.iter().fold(command.clone(), |text, (from, to)| text.replace(from, to));
                    let ran = self.run(&adapted);
                    let code = ran.status.code().unwrap();
                    assert!(
                        (0..=most).contains(&code),
                        "{page}: `{command}` exits with {code}:\n{}",
                        text_of(&ran)
                    );
                }
            }
        }
    }

    #[track_caller]
    fn holds(&self, paths: &[&str]) {
        for path in paths {
            assert!(self.path(path).exists(), "{path} is not written");
        }
    }
}

fn text_of(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

fn repo(dialect: &str) -> String {
    let path = format!("tests/cli/mistakes/{dialect}.yaml");
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The guides use the real `kubectl`.
fn has_kubectl() -> bool {
    let found =
        Command::new("kubectl").args(["version", "--client"]).output().is_ok_and(|ran| ran.status.success());
    if !found {
        println!("not run: there is no kubectl");
    }
    found
}

const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

#[test]
fn the_guide_for_karmada() {
    if has_kubectl() {
        let reader = Reader::new("karmada-apiserver", &repo("karmada"));
        for kind in ["ResourceBinding", "ClusterResourceBinding"] {
            reader.serve("karmada-apiserver", "work.karmada.io", "v1alpha2", kind, kind == "ResourceBinding");
        }
        reader.follow("karmada.md", "web -n shop");
        reader.holds(&["out/eu-1/shop/deployment.apps_web.yaml", "snapshot/snapshot.yaml"]);
    }
}

#[test]
fn the_guide_for_kubefed() {
    if has_kubectl() {
        let reader = Reader::new("host", &repo("kubefed"));
        reader.follow("kubefed.md", "web");
        reader.holds(&["rendered/eu-1/shop/deployment.apps_web.yaml"]);
        assert!(reader.fleet.lock_cluster("eu-1").get(WEB).is_some(), "the object was not handed over");
    }
}

#[test]
fn the_guide_to_leave_kubeadmiral() {
    if has_kubectl() {
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
        let reader = Reader::new("kubeadmiral", &format!("{}---\n{namespace}", repo("kubeadmiral")));
        // The hub has the templates, and a federated object that KubeAdmiral has made of one of them.
        let group = "core.kubeadmiral.io";
        reader.serve("kubeadmiral", group, "v1alpha1", "FederatedObject", true);
        let federated = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "FederatedObject", "metadata": {
            "name": "web-deployments.apps", "namespace": "shop", "annotations": {"kubeadmiral.io/orphan": "all"}}});
        fs::write(reader.path("federated.json"), federated.to_string()).unwrap();
        reader.succeed(
            "kubectl apply --validate=false -f deploy/repo.yaml -f federated.json && rm federated.json",
        );
        reader.run_members("deploy", "kubeadmiral", "federatedclusters", "kubeadmiral.io/managed=true");
        let sets = reader.list_replica_sets();
        reader.follow("leave-kubeadmiral.md", "web");
        reader.holds(&["new/MIGRATION.md", "loose/MIGRATION.md"]);
        reader.succeed("federate migrate deploy --to karmada --mode freeze --check before");
        assert_eq!(reader.list_replica_sets(), sets, "federate has taken over without restarting pods");
        let labels = reader.fleet.lock_cluster("eu-1").get(WEB).unwrap()["metadata"]["labels"].clone();
        assert!(labels["applyset.kubernetes.io/part-of"].is_string(), "{labels}");
    }
}

#[test]
fn the_guide_between_karmada_and_azure_fleet() {
    if has_kubectl() {
        let (fleet, karmada) = (repo("kubefleet"), repo("karmada"));
        let repos = [("hub", "fleet", fleet.as_str()), ("karmada-apiserver", "karmada", karmada.as_str())];
        let reader = Reader::with_repos(&repos);
        reader.run_members("fleet", "hub", "memberclusters", "example.com/sent=true");
        reader.follow("karmada-and-azure-fleet.md", "web");
        reader.succeed("federate migrate fleet --to karmada --check fleet-before");
        reader.succeed("federate migrate karmada --to kubefleet --check karmada-before");
        reader.holds(&[
            "fleet-on-karmada/MIGRATION.md",
            "karmada-on-fleet/MIGRATION.md",
            "karmada-before/snapshot.yaml",
        ]);
    }
}

#[test]
fn the_guide_for_migrations() {
    if has_kubectl() {
        let repo = repo("kubefed");
        let reader = Reader::new("host", &repo);
        let clusters = repo.split("---\n").filter(|text| text.contains("kind: KubeFedCluster\n"));
        let clusters: Vec<&str> = clusters.collect();
        fs::write(reader.path("deploy/clusters.yaml"), clusters.join("---\n")).unwrap();
        let ran = reader.run("git add -A && git commit -q -m clusters");
        assert!(ran.status.success(), "{}", text_of(&ran));
        reader.follow("migrate.md", "web");
        reader.holds(&["new/MIGRATION.md", "new/repo.yaml"]);
        let changed = text_of(&reader.run("git status --porcelain deploy"));
        assert!(changed.contains("deploy/repo.yaml"), "{changed}");
    }
}

#[test]
fn the_guide_for_azure_fleet() {
    if has_kubectl() {
        let reader = Reader::new("hub", &repo("kubefleet"));
        reader.follow("azure-fleet.md", "shop");
        reader.holds(&["out/us-1/shop/deployment.apps_web.yaml"]);
    }
}

const PLAIN: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: shop}\ndata: {a: b}\n---\n\
    apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n\
    spec: {selector: {app: web}, ports: [{port: 80}]}\n---\n\
    apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n\
    spec:\n  replicas: 4\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    \
    spec: {containers: [{name: web, image: 'nginx:1.27', ports: [{containerPort: 80}]}]}\n";

#[test]
fn the_guide_without_a_control_plane() {
    let reader = Reader::new("unused", PLAIN);
    reader.follow("no-control-plane.md", "web");
    reader.holds(&["out/us-1/shop/deployment.apps_web.yaml"]);
    assert!(reader.fleet.lock_cluster("us-1").get(WEB).is_some(), "nothing was applied");
    let branches = text_of(&reader.run("git -C origin.git branch --format='%(refname:short)'"));
    let branches: BTreeSet<&str> = branches.lines().collect();
    for branch in ["clusters/eu-1", "clusters/hub", "envs", "rendered"] {
        assert!(branches.contains(branch), "{branches:?}");
    }
}

#[test]
fn the_guide_for_drift() {
    if has_kubectl() {
        let reader = Reader::new("unused", PLAIN);
        let clusters = "unplaced: everywhere\nclusters: [{name: eu-1}, {name: us-1}]\n";
        fs::write(reader.path("deploy/federate.yaml"), clusters).unwrap();
        reader.follow("drift.md", "web");
        let ran = reader
            .run("federate snapshot deploy --out snapshot && federate drift deploy --snapshot snapshot");
        assert!(ran.status.success(), "{}", text_of(&ran));
        reader.holds(&["snapshot/observed/us-1"]);
    }
}

#[test]
fn the_guide_for_snapshots() {
    if has_kubectl() {
        let reader = Reader::new("karmada-apiserver", &repo("karmada"));
        fs::write(reader.path("deploy/federate.yaml"), "contexts: {eu-1: eu-1, us-1: us-1}\n").unwrap();
        // The inventory of this reader has no credentials of the members.
        let hub = "--hub-context karmada-apiserver --out";
        let own = [("NAME", "web"), (hub, "--hub-context karmada-apiserver --contexts-from-repo --out")];
        reader.follow_adapted("snapshot.md", &own);
        reader.holds(&["snapshot/clusters/karmada/us-1.yaml", "snapshot/observed"]);
    }
}

#[test]
fn each_block_of_commands_runs_or_says_why_not() {
    for entry in fs::read_dir(guides()).unwrap() {
        let path = entry.unwrap().path();
        let (_, unmarked) = steps(&fs::read_to_string(&path).unwrap());
        assert!(
            unmarked.is_empty(),
            "{}: see the first lines of tests/live/journeys.rs\n{unmarked:?}",
            path.display()
        );
    }
}
