//! A temporary folder with a repo, and the binary that runs in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A Deployment, a `ConfigMap` that it does not need, and two clusters.
pub(crate) const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 4
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: nginx:1.27
";

pub(crate) const CLUSTERS: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata:
  name: m1
spec: {region: eu}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata:
  name: m2
spec: {region: us}
";

pub(crate) const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: web
  namespace: shop
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    name: web
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
";

/// A folder that is deleted at the end of the test.
pub(crate) struct Sandbox(TempDir);

impl Sandbox {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with a Deployment, a policy that divides it, and two clusters.
    pub(crate) fn web() -> Self {
        Self::new().file("web.yaml", WEB).file("clusters.yaml", CLUSTERS).file("policy.yaml", POLICY)
    }

    /// Adds a file.
    pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(path, text);
        self
    }

    /// Writes a file.
    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A path below the folder.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Reads a file.
    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Runs the binary in the folder; the words of `line` are its arguments.
    pub(crate) fn run(&self, line: &str) -> Ran {
        let output = self.command(line).output().unwrap();
        Ran::of(output, self.0.path())
    }

    /// The command, for tests that change it before it runs.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.args(line.split_whitespace()).current_dir(self.0.path()).env_remove("NO_COLOR");
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        // Whether this machine has the programs must not decide a test: those that build ask for them.
        command.env("FEDERATE_KUSTOMIZE", "").env("FEDERATE_HELM", "").env("FEDERATE_PROGRESS", "never");
        no_git_config(&mut command);
        command
    }

    /// Runs the command under limits that a shell sets; the binary is that of `FEDERATE_TEST_BINARY`, if it is set.
    pub(crate) fn limited(&self, limits: &str, line: &str) -> Ran {
        let binary = std::env::var_os("FEDERATE_TEST_BINARY");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]);
        command.arg(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_federate").into()));
        command.args(line.split_whitespace()).current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        Ran::of(no_git_config(&mut command).output().unwrap(), self.0.path())
    }

    /// Runs a shell script in the folder, in a mount namespace of its own; `$FEDERATE` is the command.
    pub(crate) fn isolated(&self, script: &str) -> Ran {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]).current_dir(self.0.path());
        command.env("FEDERATE", env!("CARGO_BIN_EXE_federate")).env("XDG_CACHE_HOME", "/nonexistent");
        let output = no_git_config(&mut command).output().unwrap();
        Ran::of(output, self.0.path())
    }

    /// A line for a shell, to run in the folder.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        no_git_config(&mut command);
        command
    }

    /// Runs git in the folder, without the user's configuration, and returns its output.
    #[track_caller]
    pub(crate) fn git(&self, line: &str) -> String {
        self.git_with(line, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn git_with(&self, line: &str, variables: &[(&str, &str)]) -> String {
        let mut command = Command::new("git");
        command.args(line.split_whitespace()).current_dir(self.0.path()).envs(variables.iter().copied());
        let output = no_git_config(&mut command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Every file below `path`, sorted.
    pub(crate) fn files(&self, path: &str) -> Vec<String> {
        fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, root, found);
                } else {
                    found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path(path), &self.path(path), &mut found);
        found.sort();
        found
    }
}

/// Hides all git configuration, and sets a committer for tests.
fn no_git_config(command: &mut Command) -> &mut Command {
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Test").env(format!("GIT_{who}_EMAIL"), "test@example.com");
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1")
}

/// The output and the exit code of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output, root: &Path) -> Self {
        let text =
            |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&*root.to_string_lossy(), "<repo>");
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Fails unless the run ended with this exit code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }
}

/// How many runs a test interrupts: `FEDERATE_TEST_KILLS`, or `default`.
pub(crate) fn kills(default: u32) -> u32 {
    std::env::var("FEDERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(default)
}
