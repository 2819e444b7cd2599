//! The help is short, its examples work, and the book contains all of it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::sandbox::Sandbox;

/// The height of two terminal windows of 24 lines.
const TWO_SCREENS: usize = 48;

/// Examples that the test does not run, with the reason.
const NOT_RUN: [(&str, &str); 10] = [
    ("federate vendor --update podinfo", "it needs a repository of charts"),
    (
        "federate snapshot examples/repo --hub-context karmada-apiserver --out snapshot",
        "`tests/live` runs it",
    ),
    ("federate sync --context hub --namespace platform", "it runs until it is stopped"),
    ("federate serve examples/repo", "it runs until it is stopped"),
    (
        "federate serve examples/kubefed --drift --observed examples/kubefed/live",
        "it runs until it is stopped",
    ),
    (
        "federate serve examples/lost-region --snapshot examples/lost-region/snapshot --port 8080",
        "it runs until it is stopped",
    ),
    ("federate install --context hub", "`tests/live` runs it"),
    ("federate push examples/repo oci://registry.example.com/acme/fleet --tag latest", "it needs a registry"),
    (
        "federate push examples/repo oci://registry.example.com/acme/fleet/{cluster}:v1.4.0 --sign cosign",
        "it needs a registry",
    ),
    (
        "federate plan examples/repo --previous oci://registry.example.com/acme/fleet/plan:latest",
        "it needs a registry",
    ),
];

/// The standard output of a command.
fn output(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_federate")).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// All commands; the empty name stands for `federate` itself.
fn commands() -> Vec<String> {
    let help = output(&["help"]);
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    std::iter::once("").chain(names).map(str::to_owned).collect()
}

fn help(command: &str, flag: &str) -> String {
    if command.is_empty() { output(&[flag]) } else { output(&[command, flag]) }
}

/// The lines below `Examples:`, without comments.
fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines.map(|line| line.split("  # ").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn short_help_fits_on_two_screens() {
    for command in commands() {
        let lines = help(&command, "-h").lines().count();
        assert!(lines <= TWO_SCREENS, "federate {command} -h has {lines} lines");
    }
}

#[test]
fn own_options_come_first() {
    for command in commands().iter().filter(|command| !command.is_empty()) {
        let help = help(command, "-h");
        let place = |heading: &str| help.find(&format!("\n{heading}:\n"));
        let own = place("Options").unwrap_or_else(|| panic!("{command} has no options of its own:\n{help}"));
        for shared in ["Repo options", "Cluster access options", "Common options", "Global options"] {
            assert!(place(shared).is_none_or(|at| own < at), "{command}: {shared} come first:\n{help}");
        }
        assert!(place("Global options").is_some(), "{command} has no --color:\n{help}");
        if let (Some(output), Some(repo)) = (help.find("--output"), place("Repo options")) {
            assert!(output < repo, "{command}: --output is not among the command's own options:\n{help}");
        }
    }
}

#[test]
fn the_book_has_the_help_of_every_command() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/commands.md");
    let page = fs::read_to_string(page).unwrap();
    for command in commands() {
        let mark = format!("<!-- output: federate help {command}").trim_end().to_owned() + " -->\n";
        assert!(page.contains(&mark), "docs/reference/commands.md lacks `{mark}`");
    }
}

#[test]
fn color_is_chosen() {
    let sandbox = Sandbox::web();
    let plan = |line: &str, variable: Option<(&str, &str)>| {
        let mut command = sandbox.command(line);
        command.env_remove("CLICOLOR_FORCE").envs(variable);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let colored = |text: String| text.contains("\u{1b}[");
    assert!(!colored(plan("plan", None)), "standard output is not a terminal");
    assert!(colored(plan("plan --color always", None)));
    assert!(colored(plan("--color=always plan", Some(("NO_COLOR", "1")))), "the flag takes precedence");
    assert!(colored(plan("plan", Some(("CLICOLOR_FORCE", "1")))));
    assert!(!colored(plan("plan --color never", Some(("CLICOLOR_FORCE", "1")))));
}

#[test]
fn findings_are_explained() {
    let sandbox = Sandbox::web();
    let ran = sandbox.run("check --explain unmatched").code(0);
    assert!(ran.out.starts_with("unmatched\n\n"), "{}", ran.out);
    let ran = sandbox.run("check --explain no-such-code").code(2);
    assert!(ran.err.contains("no finding has the code `no-such-code`"), "{}", ran.err);
    let ran = sandbox.run("check --explain unmatchd").code(2);
    assert!(ran.err.contains("did you mean `unmatched`?"), "{}", ran.err);
    sandbox.write("web.yaml", sandbox.read("web.yaml").replace("name: web", "name: other"));
    let ran = sandbox.run("check").code(1);
    assert!(ran.out.contains("federate check --explain CODE"), "{}", ran.out);
    let found = sandbox.run("check -o json").json();
    for finding in found["findings"].as_array().unwrap() {
        let code = finding["code"].as_str().unwrap();
        assert_eq!(
            finding["page"],
            format!("https://github.com/federate-dev/federate/blob/main/docs/reference/findings.md#{code}")
        );
    }
}

/// A copy of the examples in a git repository with a remote, and clusters for them.
#[cfg(feature = "live")]
struct World {
    sandbox: Sandbox,
    clusters: federate_test_apiserver::Fleet,
}

#[cfg(feature = "live")]
impl World {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        let mut copy = Command::new("cp");
        assert!(copy.arg("-r").arg(&examples).arg(sandbox.path("examples")).status().unwrap().success());
        sandbox.git("init -q -b main");
        sandbox.git("add -A");
        sandbox.git("commit -q -m examples");
        sandbox.git("init -q --bare -b main origin.git");
        sandbox.git(&format!("remote add origin {}", sandbox.path("origin.git").display()));
        let names = ["eu-1", "eu-2", "us-1", "us-2", "ap-edge"];
        let clusters = federate_test_apiserver::Fleet::start_clusters(&names).unwrap();
        clusters.write_kubeconfig(&sandbox.path("kubeconfig")).unwrap();
        let world = Self { sandbox, clusters };
        world.install();
        world
    }

    /// Creates the Deployment and the Service that `import` reads.
    fn create_objects(&self) {
        let app = self.sandbox.read("examples/repo/apps/checkout/app.yaml");
        let mut cluster = self.clusters.lock_cluster("eu-1");
        cluster.create_namespace("shop");
        for document in federate_yaml::read_stream(app.as_bytes()).documents {
            let path = match document.value["kind"].as_str() {
                Some("Deployment") => "/apis/apps/v1/namespaces/shop/deployments",
                Some("Service") => "/api/v1/namespaces/shop/services",
                _ => continue,
            };
            let created = cluster.create_object(path, &document.value);
            assert_eq!(created.status, 201, "{}", created.json_body());
        }
    }

    /// Puts `federate` and a `kubectl` that prints dumps into the search path.
    fn install(&self) {
        let app = self.sandbox.read("examples/repo/apps/checkout/app.yaml");
        let documents = federate_yaml::read_stream(app.as_bytes()).documents.into_iter();
        let items = documents.map(|document| document.value).filter(|object| object["kind"] != "Secret");
        let list =
            serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()});
        self.sandbox.write("dump.json", list.to_string());
        let flags = self.sandbox.read("examples/repo/apps/platform/feature-flags.yaml");
        let mut documents = federate_yaml::read_stream(flags.as_bytes()).documents.into_iter();
        let crd = documents.find(|document| document.value["kind"] == "CustomResourceDefinition").unwrap();
        self.sandbox.write("crds.json", crd.value.to_string());
        let hub =
            "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: eu-1}\nspec: {}\n";
        self.sandbox.write("hub-dump.yaml", hub);
        let kubectl = "#!/bin/sh\ncase \"$*\" in\n*clusters*) cat hub-dump.yaml ;;\n*crds*) cat crds.json ;;\n*) cat dump.json ;;\nesac\n";
        self.sandbox.write("bin/kubectl", kubectl);
        let binary = self.sandbox.path("bin/federate");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_federate"), binary).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(self.sandbox.path("bin/kubectl"), executable).unwrap();
    }

    /// Runs a line as a shell does.
    fn run(&self, line: &str) -> Output {
        let path = format!("{}:{}", self.sandbox.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = self.sandbox.shell(line);
        command.env("PATH", path).env("KUBECONFIG", self.sandbox.path("kubeconfig"));
        command.output().unwrap()
    }
}

#[test]
#[cfg(feature = "live")]
fn examples_work_when_they_are_pasted() {
    let mut failed = Vec::new();
    for command in commands() {
        let lines = examples(&help(&command, "--help"));
        assert!(!lines.is_empty(), "federate {command} --help has no example");
        let world = World::new();
        if command == "import" {
            world.create_objects();
        }
        for line in lines.iter().filter(|line| NOT_RUN.iter().all(|(skipped, _)| skipped != line)) {
            let output = world.run(line);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let ended = matches!(output.status.code(), Some(0 | 1)) && !text.contains("error:");
            if !ended {
                failed.push(format!("$ {line}\n{}{text}", String::from_utf8_lossy(&output.stdout)));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
