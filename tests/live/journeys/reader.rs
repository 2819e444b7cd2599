//! A reader of a page: a folder with a repo, and the API servers that the contexts of a kubeconfig name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Step, read_steps, why_not_run};
use federate_test_apiserver::{Fleet, TestCluster};

/// The starts of commands that may also report differences, with exit code 1.
const COMPARING: [&str; 5] =
    ["diff ", "federate diff ", "federate drift ", "federate migrate ", "federate whatif "];

const INVENTORY_KINDS: [&str; 5] = [
    "kind: Cluster\n",
    "kind: MemberCluster\n",
    "kind: KubeFedCluster\n",
    "kind: FederatedCluster\n",
    "kind: ManagedCluster\n",
];

/// A reader's folder: `deploy` in a git repository with an origin, and API servers for the hub and the members.
pub(super) struct Reader {
    folder: TempDir,
    pub(super) fleet: Fleet,
}

impl Reader {
    /// An empty folder, with contexts for these clusters. The first one is that of the current context.
    fn with_clusters(names: &[&str], clusters: Vec<TestCluster>) -> Self {
        let reader =
            Self { folder: tempfile::tempdir().unwrap(), fleet: Fleet::serve_clusters(clusters).unwrap() };
        reader.fleet.write_kubeconfig(&reader.path("kubeconfig")).unwrap();
        if let Some(first) = names.first() {
            let text = fs::read_to_string(reader.path("kubeconfig")).unwrap();
            let mut config: Value = serde_json::from_str(&text).unwrap();
            config["current-context"] = json!(first);
            fs::write(reader.path("kubeconfig"), config.to_string()).unwrap();
        }
        reader
    }

    /// A folder with these files, without clusters.
    pub(super) fn with_files(files: &[(&str, &str)]) -> Self {
        let reader = Self::with_clusters(&[], Vec::new());
        for (path, text) in files {
            fs::create_dir_all(reader.path(path).parent().unwrap()).unwrap();
            fs::write(reader.path(path), text).unwrap();
        }
        reader.share_folder();
        reader
    }

    /// A folder with nothing but the project's examples.
    pub(super) fn with_examples() -> Self {
        let reader = Self::with_clusters(&[], Vec::new());
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        reader.succeed(&format!("cp -r {} examples", examples.display()));
        reader
    }

    /// Makes the folder the clone of a repository, on its branch `main`.
    pub(super) fn share_folder(&self) {
        for command in [
            "git init -q -b main work && mv work/.git . && rmdir work",
            "git init -q --bare -b main origin.git && git remote add origin origin.git",
            "printf 'kubeconfig\\norigin.git\\n.cache\\n' > .gitignore",
            "git add -A && git commit -q -m start && git push -q -u origin main",
            "git remote set-head origin main",
        ] {
            self.succeed(command);
        }
    }

    /// Removes the contexts of the members from the kubeconfig.
    pub(super) fn forget_members(&self) {
        for member in ["eu-1", "us-1"] {
            self.succeed(&format!("kubectl config delete-context {member}"));
        }
    }

    /// The objects of `repo` are those of `deploy`, and also on the hub. Objects of the inventory are only there.
    pub(super) fn new(hub: &str, repo: &str) -> Self {
        Self::with_repos(&[(hub, "deploy", repo)])
    }

    /// The same for several hubs, each with its folder. The first one is that of the current context.
    pub(super) fn with_repos(repos: &[(&str, &str, &str)]) -> Self {
        let members = ["eu-1", "us-1"].map(|name| TestCluster::new(name).with_controllers().with_nodes());
        let hubs = repos.iter().map(|(hub, ..)| TestCluster::new(hub));
        let names: Vec<&str> = repos.iter().map(|(hub, ..)| *hub).collect();
        let reader = Self::with_clusters(&names, hubs.chain(members).collect());
        for (hub, folder, repo) in repos {
            fs::create_dir_all(reader.path(folder)).unwrap();
            let is_inventory = |text: &&str| INVENTORY_KINDS.iter().any(|kind| text.contains(kind));
            let (clusters, rest): (Vec<&str>, Vec<&str>) = repo.split("---\n").partition(is_inventory);
            fs::write(reader.path(folder).join("repo.yaml"), rest.join("---\n")).unwrap();
            for text in clusters.into_iter().chain(rest) {
                reader.on_hub(hub, text);
            }
        }
        reader.share_folder();
        reader
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates an object of a control plane on its hub, which then serves the kind.
    pub(super) fn on_hub(&self, hub: &str, text: &str) {
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

    pub(super) fn serve(&self, hub: &str, group: &str, version: &str, kind: &str, namespaced: bool) {
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

    pub(super) fn run(&self, command: &str) -> Output {
        let bin = Path::new(env!("CARGO_BIN_EXE_federate")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.folder.path()).env("PATH", path);
        shell.env("KUBECONFIG", self.path("kubeconfig")).env("HOME", self.path(".cache"));
        for name in ["XDG_CONFIG_HOME", "HTTP_PROXY", "http_proxy"] {
            shell.env_remove(name);
        }
        for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            shell.env(format!("{who}_NAME"), "Test").env(format!("{who}_EMAIL"), "test@example.com");
        }
        shell.output().unwrap()
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(super) fn succeed(&self, command: &str) {
        let ran = self.run(command);
        assert!(ran.status.success(), "{command}: {}", text_of(&ran));
    }

    /// Puts what each member receives by the repo of a folder into it, with the label of a control plane. `clusters` are the
    /// kind of its inventory on its hub.
    #[track_caller]
    pub(super) fn run_members(&self, folder: &str, hub: &str, clusters: &str, label: &str) {
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
    pub(super) fn list_replica_sets(&self) -> Vec<Value> {
        let path = "/apis/apps/v1/namespaces/shop/replicasets";
        let lists = ["eu-1", "us-1"].map(|member| self.fleet.lock_cluster(member).get(path).unwrap());
        let sets = lists.iter().flat_map(|list| list["items"].as_array().unwrap());
        sets.map(|set| json!([set["metadata"]["uid"], set["spec"]])).collect()
    }

    /// Follows a page to its end. `own` are the parts of its commands that are the reader's own, with what stands for
    /// them here.
    #[track_caller]
    pub(super) fn follow(&self, page: &str, own: &[(&str, &str)]) {
        self.follow_prepared(page, own, &[]);
    }

    /// The same, with what others do before a command that begins so.
    #[track_caller]
    pub(super) fn follow_prepared(&self, page: &str, own: &[(&str, &str)], before: &[(&str, &str)]) {
        let steps = read_steps(page);
        assert!(!steps.is_empty(), "{page} has no steps");
        for step in steps {
            match step {
                Step::Write { path, text } => fs::write(self.path(&path), text).unwrap(),
                Step::Run(command) if why_not_run(page, &command).is_some() => {}
                Step::Run(command) => {
                    for (_, preparation) in before.iter().filter(|(start, _)| command.starts_with(start)) {
                        self.succeed(preparation);
                    }
                    let most = i32::from(COMPARING.iter().any(|start| command.starts_with(start)));
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
    pub(super) fn holds(&self, paths: &[&str]) {
        for path in paths {
            assert!(self.path(path).exists(), "{path} is not written");
        }
    }
}

pub(super) fn text_of(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

/// Whether a program is installed that pages use.
pub(super) fn has_program(name: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output();
    let found = found.is_ok_and(|ran| ran.status.success());
    if !found {
        println!("not run: there is no {name}");
    }
    found
}
