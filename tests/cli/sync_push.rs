//! `federate sync` to a registry: what is pushed and when, the memory in it, and failures.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::registry::{RealRegistry, Registry, Rival};
use crate::sandbox::{CLUSTERS, Ran, Sandbox, WEB};

/// A repository that a Sync pushes to a registry.
struct Fleet {
    sandbox: Sandbox,
    files: Sandbox,
    host: String,
}

impl Fleet {
    fn new(host: String, push: &str) -> Self {
        let (sandbox, files) = (Sandbox::new(), Sandbox::web());
        sandbox.git("init -q --bare -b main origin.git");
        files.git("init -q -b main");
        files.git(&format!("remote add origin {}", sandbox.path("origin.git").display()));
        let fleet = Self { sandbox, files, host };
        fleet.commit("first");
        fleet.write_sync("web", push);
        fleet
    }

    fn write_sync(&self, name: &str, push: &str) {
        let text = format!(
            "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {{name: {name}}}\nspec:\n  source:\n    \
             url: origin.git\n    ref: {{branch: main}}\n  interval: 1m\n  push:\n    url: oci://{}/acme/fleet\n    \
             insecure: true\n{push}",
            self.host
        );
        self.sandbox.write(&format!("{name}.yaml"), text);
    }

    fn commit(&self, message: &str) {
        self.files.git("add -A");
        self.files.git(&format!("commit -q --allow-empty -m {message}"));
        self.files.git("push -q --force origin main");
    }

    fn write_replicas(&self, count: usize) {
        self.files.write("web.yaml", WEB.replace("replicas: 4", &format!("replicas: {count}")));
        self.commit("more");
    }

    fn command(&self, line: &str) -> Command {
        let mut command = self.sandbox.command(line);
        command.env("DOCKER_CONFIG", self.sandbox.path("docker"));
        command.env_remove("HTTPS_PROXY").env_remove("https_proxy");
        command
    }

    fn once(&self) -> Ran {
        let mut command = self.command("sync --once -f web.yaml --state state");
        Ran::of(command.output().unwrap(), &self.sandbox.path(""))
    }

    fn status(&self) -> Value {
        let record: Value =
            serde_json::from_str(&self.sandbox.read("state/default/web/status.json")).unwrap();
        record["status"].clone()
    }

    fn tip(&self) -> String {
        self.sandbox.git("-C origin.git rev-parse main").trim().to_owned()
    }

    fn read_memory(&self) -> String {
        self.sandbox.read("state/default/web/placements.yaml")
    }
}

fn digest(registry: &Registry, name: &str, tag: &str) -> String {
    registry.state().tags[&(format!("acme/fleet/{name}"), tag.to_owned())].clone()
}

#[test]
fn a_revision_is_pushed_and_nothing_when_nothing_has_changed() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "");
    let tip = fleet.tip();
    let ran = fleet.once().code(0);
    let url = format!("oci://{}/acme/fleet", registry.host());
    assert_eq!(ran.out, format!("default/web: ReconciliationSucceeded: pushed main@sha1:{tip} to {url}\n"));
    assert_eq!(registry.tags(), ["acme/fleet/m1:latest", "acme/fleet/m2:latest", "acme/fleet/plan:latest"]);
    let expected =
        json!({"url": format!("{url}/plan:latest"), "digest": digest(&registry, "plan", "latest")});
    assert_eq!(fleet.status()["artifact"], expected);
    assert_eq!(fleet.status()["lastAppliedRevision"], format!("main@sha1:{tip}"));
    let manifest = registry.manifest("acme/fleet/m1", "latest");
    let annotation = |name: &str| manifest["annotations"][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(annotation("org.opencontainers.image.revision"), format!("main@sha1:{tip}"));
    assert_eq!(annotation("org.opencontainers.image.source"), "origin.git");
    let plan = BTreeMap::from([("placements.yaml".to_owned(), fleet.read_memory())]);
    assert_eq!(registry.files("acme/fleet/plan", "latest"), plan);

    registry.take_writes();
    let status = fleet.sandbox.read("state/default/web/status.json");
    assert_eq!(fleet.once().code(0).out, ran.out, "a round with nothing to do says the same");
    assert_eq!(registry.take_writes(), [""; 0]);
    assert_eq!(fleet.sandbox.read("state/default/web/status.json"), status, "and writes nothing");
    // A commit that renders the same moves no tag.
    fleet.commit("empty");
    fleet.once().code(0);
    assert_eq!(registry.take_writes(), [""; 0]);
    assert_eq!(fleet.status()["lastAppliedRevision"], format!("main@sha1:{}", fleet.tip()));
    fleet.write_replicas(8);
    fleet.once().code(0);
    assert!(registry.take_writes().contains(&"PUT /v2/acme/fleet/plan/manifests/latest".to_owned()));
    let files = registry.files("acme/fleet/m1", "latest");
    assert!(files["shop/deployment.apps_web.yaml"].contains("replicas: 4"), "{files:?}");
}

#[test]
fn the_plan_in_the_registry_is_the_memory() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "    tags: [prod, \"1.0\"]\n    mediaTypes: flux\n");
    fleet.once().code(0);
    let before = registry.files("acme/fleet/plan", "prod")["placements.yaml"].clone();
    assert_eq!(before, registry.files("acme/fleet/plan", "1.0")["placements.yaml"]);
    let manifest = registry.manifest("acme/fleet/m1", "prod");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/vnd.cncf.flux.content.v1.tar+gzip");
    // From scratch, the replicas that do not divide go elsewhere than with the memory of 4. The state is lost meanwhile.
    std::fs::remove_dir_all(fleet.sandbox.path("state")).unwrap();
    fleet.sandbox.write("before.yaml", before);
    fleet.write_replicas(5);
    fleet.once().code(0);
    let files = fleet.files.path("");
    let previous = fleet.sandbox.path("before.yaml");
    fleet
        .sandbox
        .run(&format!("render {} --out out --previous {}", files.display(), previous.display()))
        .code(0);
    let pushed = registry.files("acme/fleet/plan", "prod")["placements.yaml"].clone();
    assert_eq!(pushed, fleet.sandbox.read("out/placements.yaml"));
}

#[test]
fn what_somebody_else_has_pushed_is_replaced_and_remembered() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "");
    fleet.once().code(0);
    let ours = digest(&registry, "plan", "latest");
    // Somebody pushes another number of replicas, and the tag moves while the loop has nothing to do.
    fleet.files.write("web.yaml", WEB.replace("replicas: 4", "replicas: 9"));
    let line = format!(
        "push {} --plain-http oci://{}/acme/fleet:latest",
        fleet.files.path("").display(),
        fleet.host
    );
    assert!(fleet.command(&line).output().unwrap().status.success());
    let theirs = digest(&registry, "plan", "latest");
    assert_ne!(ours, theirs);
    fleet.once().code(0);
    let files = registry.files("acme/fleet/m1", "latest");
    assert!(files["shop/deployment.apps_web.yaml"].contains("replicas: 2"), "{files:?}");
    assert_eq!(fleet.status()["artifact"]["digest"], digest(&registry, "plan", "latest"));
    // Nor is a push forgotten that comes between reading and tagging.
    fleet.write_replicas(7);
    registry.state().rival = Some(Rival {
        after: "PUT /v2/acme/fleet/plan/manifests/sha256:".to_owned(),
        repository: "acme/fleet/plan".to_owned(),
        tag: "latest".to_owned(),
        digests: vec![theirs],
    });
    let ran = fleet.once().code(0);
    assert!(ran.err.contains("plan:latest moved in the meantime"), "{}", ran.err);
    assert!(registry.state().rival.as_ref().unwrap().digests.is_empty());
    assert_eq!(fleet.status()["artifact"]["digest"], digest(&registry, "plan", "latest"));
    // A tag that is gone comes back.
    registry.state().tags.clear();
    fleet.once().code(0);
    assert_eq!(registry.tags().len(), 3);
}

impl Fleet {
    fn write_image(&self, tag: &str) {
        self.files.write("web.yaml", WEB.replace("nginx:1.27", &format!("nginx:{tag}")));
    }

    fn push_by_hand(&self) {
        let files = self.files.path("");
        let line = format!("push {} --plain-http oci://{}/acme/fleet:latest", files.display(), self.host);
        assert!(self.command(&line).output().unwrap().status.success());
    }
}

fn assert_image(registry: &Registry, tag: &str) {
    for cluster in ["m1", "m2"] {
        let files = registry.files(&format!("acme/fleet/{cluster}"), "latest");
        assert!(
            files["shop/deployment.apps_web.yaml"].contains(&format!("nginx:{tag}")),
            "{cluster}: {files:?}"
        );
    }
}

#[test]
fn other_manifests_with_the_same_placements_are_put_back() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "");
    fleet.once().code(0);
    fleet.write_image("0.1");
    fleet.push_by_hand();
    assert_image(&registry, "0.1");
    fleet.once().code(0);
    assert_image(&registry, "1.27");
    registry.take_writes();
    fleet.once().code(0);
    assert_eq!(registry.take_writes(), [""; 0]);
}

#[test]
fn each_tag_is_watched() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "    tags: [latest, stable]\n");
    fleet.once().code(0);
    let ours = digest(&registry, "plan", "stable");
    let tag = ("acme/fleet/plan".to_owned(), "stable".to_owned());
    registry.state().tags.remove(&tag);
    let said = fleet.once().code(0).err;
    assert!(said.contains("another client has moved tags") && said.contains("stable"), "{said}");
    assert_eq!(digest(&registry, "plan", "stable"), ours);
}

#[test]
fn a_push_that_stopped_halfway_is_undone_when_the_source_goes_back() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "");
    fleet.once().code(0);
    let first = fleet.tip();
    fleet.write_image("bad");
    fleet.commit("bad");
    // One cluster gets it, and then the registry takes no more.
    registry.state().refused_tags = ["acme/fleet/m2:latest".to_owned()].into();
    fleet.once().code(2);
    let files = registry.files("acme/fleet/m1", "latest");
    assert!(files["shop/deployment.apps_web.yaml"].contains("nginx:bad"), "{files:?}");
    fleet.files.git(&format!("reset -q --hard {first}"));
    fleet.files.git("push -q --force origin main");
    registry.state().refused_tags.clear();
    fleet.once().code(0);
    assert_image(&registry, "1.27");
    registry.take_writes();
    fleet.once().code(0);
    assert_eq!(registry.take_writes(), [""; 0]);
}

#[test]
fn a_cluster_is_emptied_although_the_plan_is_gone() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "    pruneLimit: 100\n");
    fleet.once().code(0);
    registry.state().tags.remove(&("acme/fleet/plan".to_owned(), "latest".to_owned()));
    fleet.files.write("clusters.yaml", CLUSTERS.split("---").next().unwrap());
    fleet.commit("without");
    fleet.once().code(0);
    assert!(registry.files("acme/fleet/m2", "latest").is_empty());
}

#[test]
fn failures_have_a_reason_and_are_retried() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "");
    registry.state().wants_token = true;
    let said = fleet.once().code(2).out;
    let login = format!("`docker login {}` stores credentials", registry.host());
    assert!(said.contains("AuthenticationFailed: ") && said.contains(&login), "{said}");
    assert_eq!(fleet.status()["conditions"][0]["reason"], "AuthenticationFailed");
    assert!(fleet.status().get("artifact").is_none());
    let login = json!({"username": "user", "password": "hunter2"});
    fleet.sandbox.write("docker/config.json", json!({"auths": {registry.host(): login}}).to_string());
    fleet.once().code(0);
    let before = fleet.status()["artifact"].clone();
    registry.state().denied = ["acme/fleet/m2".to_owned()].into();
    fleet.write_replicas(8);
    let ran = fleet.once().code(2);
    assert!(
        ran.out.contains("AuthenticationFailed: ") && ran.out.contains("(not \\u{1b}[31myours)"),
        "{}",
        ran.out
    );
    assert_eq!(fleet.status()["artifact"], before, "what is there is said");
    registry.state().denied.clear();
    registry.state().manifest_instead = Some(b"{}".to_vec());
    let said = fleet.once().code(2).out;
    assert!(said.contains("PushFailed: ") && said.contains("that federate has pushed"), "{said}");
    registry.state().manifest_instead = None;
    fleet.once().code(0);
    let all = format!("{}{}{}", ran.out, ran.err, fleet.status());
    assert!(!all.contains("hunter2") && !all.contains("dXNlcjpodW50ZXIy"), "{all}");
    fleet.write_sync("web", "    tags: [other]\n");
    let text = fleet.sandbox.read("web.yaml").replace(&fleet.host, "127.0.0.1:1");
    fleet.sandbox.write("web.yaml", text);
    let said = fleet.once().code(2).out;
    assert!(said.contains("PushFailed: 127.0.0.1:1 cannot be reached"), "{said}");
}

#[test]
fn guards_come_before_the_first_tag() {
    let registry = Registry::start();
    let fleet = Fleet::new(registry.host(), "");
    fleet.once().code(0);
    let before = registry.state().tags.clone();
    fleet.files.write("clusters.yaml", CLUSTERS.split("---").next().unwrap());
    fleet.commit("without");
    let said = fleet.once().code(2).out;
    assert!(said.contains("PruneFailed: ") && said.contains("m2"), "{said}");
    fleet.files.write("bad.yaml", "a: [");
    fleet.commit("bad");
    assert!(fleet.once().code(2).out.contains("BuildFailed: bad.yaml:1"));
    assert_eq!(registry.state().tags, before);
    std::fs::remove_file(fleet.files.path("bad.yaml")).unwrap();
    fleet.commit("good");
    fleet.write_sync("web", "    pruneLimit: 100\n");
    fleet.once().code(0);
    assert!(registry.files("acme/fleet/m2", "latest").is_empty());
}

#[test]
fn what_cannot_be_pushed_is_refused_with_its_place() {
    let fleet = Fleet::new("127.0.0.1:5000".to_owned(), "");
    for (old, new, said) in [
        ("url: oci:", "url: https:", "`https://127.0.0.1:5000/acme/fleet` is not the address of an artifact"),
        ("/fleet\n", "/fleet:latest\n", "name the tag in `tags`"),
        ("127.0.0.1:5000", "registry.example.com", "registry.example.com is not on this machine"),
        ("    insecure: true\n", "    tags: [a, a]\n", "a tag is named twice"),
        ("    insecure: true\n", "    tags: [a b]\n", "`a b` is not a tag"),
        ("    insecure: true\n", "    secretRef: {name: r}\n", "docker's own credentials are used"),
        ("    insecure: true\n", "  commit: {branch: b}\n", "the scheduler's memory is in one place"),
        ("    insecure: true\n", "  clusters: {names: [m1]}\n", "a registry has what every cluster gets"),
        ("    insecure: true\n", "    pruneLimit: 101\n", "a share is at most 100 percent"),
    ] {
        fleet.write_sync("web", "");
        let text = fleet.sandbox.read("web.yaml").replace(old, new);
        fleet.sandbox.write("web.yaml", text);
        let ran = fleet.once().code(2).err;
        assert!(ran.contains(said) && ran.contains("--> web.yaml:"), "{said}: {ran}");
    }
    fleet.write_sync("web", "");
    fleet.write_sync("other", "");
    for url in ["/fleet\n", "/fleet/{cluster}\n"] {
        let other = fleet.sandbox.read("other.yaml").replace("/fleet\n", url);
        fleet.sandbox.write("other.yaml", other);
        let two = fleet.sandbox.run("sync --once -f web.yaml other.yaml --state state").code(2).err;
        assert!(two.contains("default/web moves the tag latest of these artifacts, too"), "{two}");
    }
}

#[test]
fn a_real_registry_is_kept_at_what_is_rendered() {
    let folder = Sandbox::new();
    let Some(registry) = RealRegistry::start(&folder.path("")) else {
        eprintln!("skipped: this machine lacks docker-registry, which Debian's package has");
        return;
    };
    let fleet = Fleet::new(registry.host.clone(), "    tags: [latest, prod]\n");
    fleet.once().code(0);
    let before = fleet.status()["artifact"].clone();
    fleet.commit("empty");
    fleet.once().code(0);
    assert_eq!(fleet.status()["artifact"], before);
    fleet.write_replicas(8);
    fleet.once().code(0);
    assert_ne!(fleet.status()["artifact"], before);
    let mut plan = fleet.command(&format!(
        "plan {} --plain-http --previous oci://{}/acme/fleet/plan:prod -o json",
        fleet.files.path("").display(),
        registry.host
    ));
    let ran = Ran::of(plan.stderr(Stdio::piped()).output().unwrap(), &fleet.sandbox.path("")).code(0);
    assert!(!ran.json()["placements"].as_array().unwrap().is_empty());
}
