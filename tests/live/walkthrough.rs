//! The guide's walk-through of adopting what runs, command by command: it prints what the guide
//! shows, no pod is restarted, and the second time there is nothing to do.
//! `UPDATE_DOCUMENTATION=1 cargo test --test live walkthrough` writes the shown output.
//!
//! `kubectl` is the real one where there is one; otherwise what it would ask the server is asked here.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use federate_test_apiserver::{ApiRequest, Fleet, TestCluster};

const MARK: &str = "<!-- walk-through: adoption -->\n";
const OPEN: &str = "```console\n";
const CLOSE: &str = "```\n";
/// When everything happens, as the guide shows it.
const NOW: &str = "2026-11-20T10:00:00Z";
const MEMBER: &str = "kubeadmiral-member-1";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/my-nginx";
const SERVICE: &str = "/api/v1/namespaces/default/services/my-nginx";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides/adopt-what-runs.md")
}

fn has_kubectl() -> bool {
    Command::new("kubectl").args(["version", "--client"]).output().is_ok_and(|ran| ran.status.success())
}

/// Two member clusters, and a folder with nothing but the examples.
struct Place {
    folder: TempDir,
    fleet: Fleet,
    kubectl: bool,
}

impl Place {
    fn new() -> Self {
        let member = |name: &str| TestCluster::new(name).with_nodes().with_clock(NOW);
        let fleet = Fleet::serve_clusters(vec![member(MEMBER), member("kubeadmiral-member-2")]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fleet.write_kubeconfig(&folder.path().join("kubeconfig")).unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        std::os::unix::fs::symlink(examples, folder.path().join("examples")).unwrap();
        Self { folder, fleet, kubectl: has_kubectl() }
    }

    /// Runs a command as a reader would; all it prints.
    fn run(&self, command: &str) -> String {
        let bin = Path::new(env!("CARGO_BIN_EXE_federate")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("sh")
            .args(["-c", command])
            .env("PATH", path)
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{command}\n{text}");
        text
    }

    fn get(&self, path: &str) -> Value {
        self.fleet.lock_cluster(MEMBER).get(path).unwrap_or_else(|| panic!("{path} is not there"))
    }

    /// The requests of `kubectl apply -f FOLDER` where it creates every object.
    fn apply_by_hand(&self, folder: &str) {
        for file in fs::read_dir(self.folder.path().join(folder)).unwrap() {
            let text = fs::read(file.unwrap().path()).unwrap();
            let mut body = federate_yaml::read_stream(&text).documents.remove(0).value;
            body["metadata"]["namespace"] = json!("default");
            let last = format!("{body}\n");
            body["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!(last);
            let root = if body["kind"] == "Service" { SERVICE } else { DEPLOYMENT };
            let request = ApiRequest::new("POST", root.trim_end_matches("/my-nginx"))
                .with_query("fieldManager", "kubectl-client-side-apply")
                .with_body("application/json", body.to_string());
            assert_eq!(self.fleet.lock_cluster(MEMBER).handle_request(&request).status, 201);
        }
    }

    /// What must be the same afterwards: who the objects are, what their pods are made of, and what was
    /// made of them.
    fn state(&self) -> Value {
        let (deployment, service, sets) = (self.get(DEPLOYMENT), self.get(SERVICE), self.get(SETS));
        let set = |set: &Value| json!([set["metadata"]["uid"], set["spec"], set["status"]["replicas"]]);
        let sets: Vec<Value> = sets["items"].as_array().unwrap().iter().map(set).collect();
        assert_eq!(sets.len(), 1);
        json!({
            "uids": [deployment["metadata"]["uid"], service["metadata"]["uid"]],
            "deployment": deployment["spec"],
            "address": service["spec"]["clusterIP"],
            "sets": sets,
        })
    }
}

/// How many requests the member has answered that write.
fn writes(fleet: &Fleet) -> usize {
    let cluster = fleet.lock_cluster(MEMBER);
    let counts = cluster.counts();
    ["patch", "create", "update", "delete", "deletecollection"].iter().filter_map(|v| counts.get(*v)).sum()
}

/// The guide before the walk-through, its commands with what is shown of each, and the rest.
fn parts(text: &str) -> (&str, Vec<(String, String)>, &str) {
    let start = text.find(MARK).expect("the walk-through") + MARK.len();
    let body = text[start..].strip_prefix(OPEN).expect("a ```console block right below the mark");
    let end = body.find("\n```\n").expect("the block's end") + 1;
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in body[..end].lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("output before the first command: {line}"),
        }
    }
    (&text[..start], commands, &body[end + CLOSE.len()..])
}

#[test]
fn the_readme_takes_over_without_a_restart() {
    let place = Place::new();
    let text = fs::read_to_string(readme()).unwrap();
    let (before, commands, after) = parts(&text);
    let mut fresh = format!("{before}{OPEN}");
    let (mut state, mut applies) = (Value::Null, 0);
    for (command, shown) in &commands {
        let applies_now = command == "federate apply my-repo";
        if applies_now {
            place.fleet.lock_cluster(MEMBER).reset_counts();
        }
        let printed = match command.split_once(" apply --validate=false -f ") {
            Some((kubectl, folder)) if kubectl.starts_with("kubectl") && !place.kubectl => {
                place.apply_by_hand(folder);
                shown.clone()
            }
            _ if command.starts_with("kubectl") && !place.kubectl => shown.clone(),
            _ => place.run(command),
        };
        writeln!(fresh, "$ {command}").unwrap();
        if !printed.trim_end().is_empty() {
            writeln!(fresh, "{}", printed.trim_end()).unwrap();
        }
        if command.contains(" apply --validate=false") {
            state = place.state();
        }
        if command.contains("--dry-run=") {
            adopts(&place, command);
        }
        if applies_now {
            applies += 1;
            assert_eq!(writes(&place.fleet) > 0, applies == 1, "{printed}");
            assert_eq!(place.state(), state, "nothing but its labels and owners changed");
        }
    }
    assert_eq!(applies, 2, "the second time there is nothing to do");
    assert!(place.fleet.lock_cluster("kubeadmiral-member-2").get(DEPLOYMENT).is_none());
    fresh = format!("{fresh}{CLOSE}{after}");
    if std::env::var_os("UPDATE_DOCUMENTATION").is_some() {
        fs::write(readme(), &fresh).unwrap();
    } else {
        assert!(
            fresh == text,
            "docs/guides/adopt-what-runs.md shows old output; see the first lines of tests/live/walkthrough.rs\n{fresh}"
        );
    }
}

/// The dry run says for machines that both are adopted without a restart.
fn adopts(place: &Place, command: &str) {
    let printed = place.run(&format!("{command} -o json"));
    let document: Value = serde_json::from_str(&printed).unwrap();
    let actions = document["actions"].as_array().unwrap();
    let mine: Vec<&Value> = actions.iter().filter(|action| action["object"]["name"] == "my-nginx").collect();
    assert_eq!(mine.len(), 2, "{printed}");
    for action in mine {
        assert_eq!(
            (&action["action"], &action["restartsPods"]),
            (&json!("adopt"), &json!(false)),
            "{action}"
        );
    }
}
