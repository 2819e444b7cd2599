//! No process of a build outlives the command, whatever it starts and however it ends. Where Linux's namespaces or the programs
//! are missing, tests say so and pass.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::builds::{CHART, Tools, clusters_repo};
use crate::sandbox::{Ran, Sandbox};

/// How long processes may take to end after they are killed.
const ENDING_TIME: Duration = Duration::from_secs(10);

/// A program that stands in for Helm: what it starts has the number of seconds that it sleeps as a mark.
struct HostileHelm {
    repo: Sandbox,
    mark: String,
}

impl HostileHelm {
    /// `script` is what it does; `$MARK` are the seconds to sleep.
    fn new(script: &str) -> Self {
        let repo =
            clusters_repo().file("federate.yaml", "sources: [{chart: api}]\n").file("api/Chart.yaml", CHART);
        let nanos =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
        let mark = format!("9{:07}.{nanos}", std::process::id());
        repo.write("bin/helm", format!("#!/bin/sh\nPATH=/usr/bin:/bin\nMARK={mark}\n{script}\n"));
        fs::set_permissions(repo.path("bin/helm"), PermissionsExt::from_mode(0o755)).unwrap();
        Self { repo, mark }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = self.repo.command(line);
        command
            .env("FEDERATE_HELM", self.repo.path("bin/helm"))
            .env("FEDERATE_CACHE_DIR", self.repo.path(".cache"));
        command
    }

    fn run(&self, line: &str) -> Ran {
        Ran::of(self.command(line).output().unwrap(), &self.repo.path("."))
    }

    /// The same on a system without user namespaces.
    fn run_without_namespaces(&self, line: &str) -> Ran {
        let inner = self.command(line);
        let mut command = Command::new("unshare");
        command.args(["-Ur", "sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\""]);
        command.arg(inner.get_program()).args(inner.get_args()).current_dir(self.repo.path("."));
        for (name, value) in inner.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        Ran::of(command.output().unwrap(), &self.repo.path("."))
    }

    /// How many processes there are of what the program has started.
    fn count_processes(&self) -> usize {
        let entries = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
        entries.filter(|line| String::from_utf8_lossy(line).split('\0').any(|word| word == self.mark)).count()
    }

    #[track_caller]
    fn wait_until(&self, what: &str, is_reached: impl Fn(usize) -> bool) {
        let deadline = Instant::now() + ENDING_TIME;
        while !is_reached(self.count_processes()) {
            assert!(Instant::now() < deadline, "{what}: {} processes", self.count_processes());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn start(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

/// Whether this user may make namespaces.
fn has_namespaces() -> bool {
    let made = Command::new("unshare").args(["-Urnp", "--fork", "true"]).stderr(Stdio::null()).status();
    let has = made.is_ok_and(|status| status.success());
    if !has {
        #[allow(clippy::print_stderr, reason = "whoever runs the tests must know")]
        {
            eprintln!("skipped: this machine has no user namespaces");
        }
    }
    has
}

/// Starts a process that leaves the group and the session of the program, and keeps nothing open.
const DETACHED: &str = "setsid sh -c 'sleep '$MARK' & sleep '$MARK >/dev/null 2>&1 </dev/null &";

const OUTPUT: &str = "echo 'apiVersion: v1'; echo 'kind: ConfigMap'; echo 'metadata: {name: a}'";

#[test]
fn what_a_program_leaves_behind_ends_with_it() {
    if !has_namespaces() {
        return;
    }
    let many = "i=0; while [ $i -lt 200 ]; do sleep $MARK >/dev/null 2>&1 & i=$((i+1)); done";
    let helm = HostileHelm::new(&format!("{DETACHED}\n{many}\nsleep 0.2\n{OUTPUT}"));
    helm.run("render --out out").code(0);
    assert_eq!(helm.count_processes(), 0);
    // One that keeps the output open, and one that fails.
    let helm = HostileHelm::new(&format!("sleep $MARK &\n{DETACHED}\nsleep 0.2\nexit 3"));
    let ran = helm.run("render --out out").code(2);
    assert!(ran.err.contains("error[build-failed]"), "{}", ran.err);
    assert_eq!(helm.count_processes(), 0);
}

#[test]
fn what_a_program_leaves_behind_ends_without_namespaces_too() {
    if !has_namespaces() {
        return;
    }
    let helm = HostileHelm::new(&format!("{DETACHED}\nsleep $MARK &\nsleep 0.2\n{OUTPUT}"));
    helm.run_without_namespaces("render --out out").code(0);
    assert_eq!(helm.count_processes(), 0);
}

#[test]
fn an_endless_build_is_ended_with_all_that_it_has_started() {
    if !has_namespaces() {
        return;
    }
    let script = format!("{DETACHED}\nsleep $MARK &\nexec sleep $MARK");
    let (confined, alone) = (HostileHelm::new(&script), HostileHelm::new(&script));
    thread::scope(|scope| {
        let other = scope.spawn(|| alone.run_without_namespaces("render --out out").code(2));
        let ran = confined.run("render --out out").code(2);
        assert!(ran.err.contains("error[build-limit]") && ran.err.contains("30 seconds"), "{}", ran.err);
        let ran = other.join().unwrap();
        assert!(ran.err.contains("error[build-limit]"), "{}", ran.err);
    });
    assert_eq!((confined.count_processes(), alone.count_processes()), (0, 0));
}

#[test]
fn nothing_is_left_when_federate_is_killed() {
    if !has_namespaces() {
        return;
    }
    for signal in ["TERM", "INT", "KILL"] {
        let helm = HostileHelm::new(&format!("{DETACHED}\nsleep $MARK &\nexec sleep $MARK"));
        let mut federate = helm.start("render --out out");
        helm.wait_until("started", |count| count >= 3);
        let killed =
            Command::new("kill").arg(format!("-{signal}")).arg(federate.id().to_string()).status().unwrap();
        assert!(killed.success());
        assert!(!federate.wait().unwrap().success());
        helm.wait_until(signal, |count| count == 0);
    }
}

/// A program in the repo that would say that it was started, and start itself again; it ends soon by itself.
const BOMB: &str = "#!/bin/sh\ntouch \"$(dirname \"$0\")/started\"\n[ \"$1\" = xxxxxx ] || { \"$0\" \"x$1\" & \"$0\" \"x$1\" & }\n";

#[test]
fn programs_of_a_repo_are_not_started() {
    let Some(tools) = Tools::find(true, true) else { return };
    let function = "apiVersion: example.com/v1\nkind: Bomb\nmetadata:\n  name: b\n  annotations: {config.kubernetes.io/function: \"exec: {path: ./bomb}\"}\n";
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: api, namespace: shop}\nspec:\n  chart: {spec: {chart: ./api, sourceRef: {kind: GitRepository, name: r}}}\n  postRenderers: [{exec: {command: ./bomb}}]\n";
    let application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: api, namespace: argocd}\nspec:\n  source: {path: app, plugin: {name: bomb}}\n  destination: {name: in-cluster}\n";
    for (source, path, text) in [
        ("{kustomize: app}", "app/kustomization.yaml", "generators: [bomb.yaml]\n"),
        ("{kustomize: app}", "app/kustomization.yaml", "transformers: [bomb.yaml]\n"),
        ("{kustomize: app}", "app/kustomization.yaml", "validators: [bomb.yaml]\n"),
        ("{flux: release.yaml}", "release.yaml", release),
        ("{argocd: application.yaml}", "application.yaml", application),
        ("{chart: \"--post-renderer=./bomb\"}", "--post-renderer=./bomb/notes", ""),
        ("{chart: api, values: [\"--post-renderer=bomb\"]}", "notes", ""),
        ("{chart: api, release: \"--post-renderer=bomb\"}", "notes", ""),
    ] {
        let repo = clusters_repo()
            .file("federate.yaml", format!("sources: [{source}]\n"))
            .file("app/bomb.yaml", function)
            .file("api/Chart.yaml", CHART)
            .file("api/plugin.yaml", "name: bomb\nruntime: subprocess\nhooks: {install: ./bomb}\n")
            .file(path, text);
        for folder in ["", "app/", "api/"] {
            repo.write(&format!("{folder}bomb"), BOMB);
            fs::set_permissions(repo.path(&format!("{folder}bomb")), PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        let ran = tools.run(&repo, "render --out out").code(2);
        assert!(ran.err.contains("error["), "{source}: {}", ran.err);
        for folder in ["", "app/", "api/"] {
            assert!(!repo.path(&format!("{folder}started")).exists(), "{source}");
        }
        assert_eq!(Tools::count_builds(&repo), 0, "{source}");
    }
}
