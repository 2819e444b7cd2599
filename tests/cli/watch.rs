//! `render --watch`: every edit is rendered; errors are reported and do not end it.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{Sandbox, WEB};

/// A run that is stopped at the end of the test.
struct Watching<'s> {
    sandbox: &'s Sandbox,
    child: Child,
}

impl<'s> Watching<'s> {
    fn start(sandbox: &'s Sandbox) -> Self {
        Self::start_with(sandbox, "")
    }

    fn start_with(sandbox: &'s Sandbox, arguments: &str) -> Self {
        let log = |name: &str| std::fs::File::create(sandbox.path(name)).unwrap();
        let mut command = sandbox.command(&format!("render --out rendered --watch {arguments}"));
        command.stdin(Stdio::null()).stdout(log(".said")).stderr(log(".errors"));
        Self { sandbox, child: command.spawn().unwrap() }
    }

    /// Waits until a file contains a text.
    #[track_caller]
    fn until(&self, file: &str, text: &str) {
        let started = Instant::now();
        let holds = || std::fs::read_to_string(self.sandbox.path(file)).is_ok_and(|t| t.contains(text));
        while !holds() {
            let said = (self.sandbox.read(".said"), self.sandbox.read(".errors"));
            assert!(started.elapsed() < Duration::from_secs(30), "no `{text}` in {file}: {said:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

const M1: &str = "rendered/m1/shop/deployment.apps_web.yaml";

#[test]
fn every_save_is_rendered() {
    let sandbox = Sandbox::web();
    let watching = Watching::start(&sandbox);
    watching.until(M1, "replicas: 2");
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    watching.until(M1, "replicas: 4");
    watching.until(".said", "2 updated");
    watching.until(".said", "4 → 8");
    assert!(!sandbox.read(".said").contains("unchanged"), "nothing is rendered without need");
    sandbox.write("web.yaml", "a: [");
    watching.until(".errors", "web.yaml:1");
    assert!(sandbox.read(M1).contains("replicas: 4"), "the last good state stays");
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 12"));
    watching.until(M1, "replicas: 6");
    std::fs::create_dir(sandbox.path("new")).unwrap();
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, namespace: shop}\n";
    sandbox.write("new/config.yaml", config);
    watching.until(".errors", "no policy places ConfigMap shop/late");
}

#[test]
fn what_is_not_watched_is_said() {
    let sandbox = Sandbox::web();
    let said = sandbox.run("render absent --out rendered --watch").code(2).err;
    assert!(said.contains("cannot watch absent"), "{said}");
    sandbox.run("render --rev HEAD --out rendered --watch").code(2);
}

#[test]
fn only_the_given_paths_are_rendered_while_watching() {
    let sandbox = Sandbox::new()
        .file("shared/clusters.yaml", crate::sandbox::CLUSTERS)
        .file("shared/policy.yaml", crate::sandbox::POLICY)
        .file("prod/web.yaml", WEB)
        .file("test/web.yaml", WEB.replace("replicas: 4", "replicas: 2"));
    let watching = Watching::start_with(&sandbox, "--path shared --path prod");
    watching.until(M1, "replicas: 2");
    sandbox.write("prod/web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    watching.until(M1, "replicas: 4");
    // A change elsewhere is not read, so it cannot fail the run.
    sandbox.write("test/web.yaml", "a: [\n");
    sandbox.write("prod/web.yaml", WEB.replace("replicas: 4", "replicas: 12"));
    watching.until(M1, "replicas: 6");
    assert!(!sandbox.read(".errors").contains("test/web.yaml"), "{}", sandbox.read(".errors"));
}
