//! `federate push`: what a registry has afterwards, and what it is asked.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use federate_dialects::DIALECTS;
use federate_engine::deletions::PruneLimit;
use federate_publish::artifact::ArtifactTypes;
use federate_registry::{ArtifactAddress, Credentials, RegistryOptions};
use federate_repo::{Config, RepoFile};
use federate_session::artifacts::{self, ArtifactOrigin, ArtifactStore};
use federate_session::push::{Error as PushError, PushRequest};
use federate_session::{Session, SessionOptions};
use serde_json::{Value, json};

use crate::registry::{RealRegistry, Registry, Rival};
use crate::sandbox::{CLUSTERS, POLICY, Ran, Sandbox, WEB, kills};

/// A repository with one commit, and a registry.
fn web() -> (Sandbox, Registry) {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    sandbox.write(".git/info/exclude", ".*\n");
    sandbox.git("remote add origin https://user:hunter2@git.example.com/shop.git");
    commit(&sandbox, "first");
    (sandbox, Registry::start())
}

fn commit(sandbox: &Sandbox, message: &str) -> String {
    sandbox.git("add -A");
    sandbox.git(&format!("commit -q --allow-empty -m {message}"));
    sandbox.git("rev-parse HEAD").trim().to_owned()
}

fn replicas(sandbox: &Sandbox, count: usize) {
    sandbox.write("web.yaml", WEB.replace("replicas: 4", &format!("replicas: {count}")));
}

/// Runs a command that knows no user and no password but those in `.docker`.
fn run(sandbox: &Sandbox, line: &str) -> Ran {
    Ran::of(command(sandbox, line).output().unwrap(), &sandbox.path(""))
}

fn command(sandbox: &Sandbox, line: &str) -> Command {
    let mut command = sandbox.command(line);
    command.env("DOCKER_CONFIG", sandbox.path(".docker")).env_remove("HTTPS_PROXY").env_remove("https_proxy");
    command
}

fn push(sandbox: &Sandbox, registry: &Registry, rest: &str) -> Ran {
    run(sandbox, &format!("push --plain-http oci://{}/acme/fleet {rest}", registry.host()))
}

fn log_in(sandbox: &Sandbox, registry: &Registry) {
    let login = json!({"username": "user", "password": "hunter2"});
    sandbox.write(".docker/config.json", json!({"auths": {registry.host(): login}}).to_string());
}

#[test]
fn every_cluster_and_the_plan_have_an_artifact() {
    let (sandbox, registry) = web();
    let dry = sandbox.git("rev-parse HEAD").trim().to_owned();
    let short = &dry[..7];
    let ran = push(&sandbox, &registry, "--tag latest -o json").code(0);
    let tags: Vec<String> = ["m1", "m2", "plan"]
        .iter()
        .flat_map(|name| [format!("acme/fleet/{name}:{short}"), format!("acme/fleet/{name}:latest")])
        .collect();
    let mut sorted = tags.clone();
    sorted.sort();
    assert_eq!(registry.tags(), sorted);
    sandbox.run("render --out .out").code(0);
    for cluster in ["m1", "m2"] {
        let files = registry.files(&format!("acme/fleet/{cluster}"), "latest");
        let path = "shop/deployment.apps_web.yaml";
        let expected = BTreeMap::from([(path.to_owned(), sandbox.read(&format!(".out/{cluster}/{path}")))]);
        assert_eq!(files, expected);
    }
    let plan = BTreeMap::from([("placements.yaml".to_owned(), sandbox.read(".out/placements.yaml"))]);
    assert_eq!(registry.files("acme/fleet/plan", short), plan);
    let manifest = registry.manifest("acme/fleet/m1", "latest");
    assert_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.oci.empty.v1+json");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1, "Argo CD takes no other");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/vnd.oci.image.layer.v1.tar+gzip");
    let annotation = |name: &str| manifest["annotations"][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(annotation("org.opencontainers.image.source"), "https://git.example.com/shop.git");
    assert_eq!(annotation("org.opencontainers.image.revision"), format!("main@sha1:{dry}"));
    let date: i64 = sandbox.git("show -s --format=%ct").trim().parse().unwrap();
    let date = jiff::Timestamp::from_second(date).unwrap().to_string();
    assert_eq!(annotation("org.opencontainers.image.created"), date);
    assert_eq!(annotation("dev.federate.version"), env!("CARGO_PKG_VERSION"));
    let json = ran.json();
    assert_eq!((&json["kind"], &json["changed"]), (&json!("PushResult"), &json!(true)));
    let rows = json["artifacts"].as_array().unwrap();
    let named: Vec<String> = rows
        .iter()
        .map(|row| {
            let url =
                row["url"].as_str().unwrap().strip_prefix(&format!("oci://{}/", registry.host())).unwrap();
            format!("{url}:{}", row["tag"].as_str().unwrap())
        })
        .collect();
    assert_eq!(named, tags, "the plan comes last");
    assert_eq!((&rows[0]["cluster"], &rows[5]["cluster"]), (&json!("m1"), &Value::Null));
    assert!(rows.iter().all(|row| row["digest"].as_str().unwrap().starts_with("sha256:")));
}

#[test]
fn what_the_registry_has_is_not_sent_again() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    registry.take_writes();
    let again = push(&sandbox, &registry, "--tag latest").code(0);
    assert_eq!(registry.take_writes(), [""; 0]);
    assert!(again.out.lines().all(|line| line.contains(": unchanged, sha256:")), "{}", again.out);
    // Another commit that renders the same gets its tag, and whoever follows `latest` sees nothing new.
    let before = registry.state().manifests.clone();
    let short = &commit(&sandbox, "empty")[..7];
    let json = push(&sandbox, &registry, "--tag latest -o json").code(0).json();
    let mut writes = registry.take_writes();
    // Clusters are written at the same time.
    writes.sort();
    let expected = ["m1", "m2", "plan"].map(|name| format!("PUT /v2/acme/fleet/{name}/manifests/{short}"));
    assert_eq!(writes, expected);
    assert_eq!(registry.state().manifests, before);
    let changed = |tag: &str| {
        json["artifacts"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["tag"] == tag)
            .all(|row| row["changed"] == true)
    };
    assert!(changed(short) && !changed("latest"), "{json:#}");
    // A change of one cluster is sent for that cluster and the plan.
    replicas(&sandbox, 5);
    let short = &commit(&sandbox, "five")[..7];
    push(&sandbox, &registry, "--tag latest").code(0);
    let writes = registry.take_writes();
    let uploads: Vec<&String> = writes.iter().filter(|write| write.starts_with("POST")).collect();
    assert_eq!(uploads.len(), 2, "{writes:?}");
    assert!(writes.contains(&format!("PUT /v2/acme/fleet/m2/manifests/{short}")), "{writes:?}");
    // Unless new artifacts are asked for.
    commit(&sandbox, "always");
    push(&sandbox, &registry, "--tag latest --always").code(0);
    let writes = registry.take_writes();
    assert!(writes.iter().all(|write| !write.starts_with("POST")), "the blobs are there: {writes:?}");
    assert!(writes.contains(&"PUT /v2/acme/fleet/m1/manifests/latest".to_owned()), "{writes:?}");
}

#[test]
fn two_machines_push_the_same_bytes() {
    let (sandbox, registry) = web();
    let other = Registry::start();
    sandbox.git("clone -q . .other");
    sandbox.git("-C .other remote set-url origin https://git.example.com/shop.git");
    push(&sandbox, &registry, "").code(0);
    run(&sandbox, &format!("push --plain-http .other oci://{}/acme/fleet", other.host())).code(0);
    assert_eq!(registry.state().blobs, other.state().blobs);
    assert_eq!(registry.state().manifests, other.state().manifests);
}

#[test]
fn addresses_say_where_clusters_and_the_plan_are() {
    let (sandbox, registry) = web();
    let at = |rest: &str| run(&sandbox, &format!("push --plain-http oci://{}/{rest}", registry.host()));
    at("env-{cluster}/manifests:v1").code(0);
    assert_eq!(registry.tags(), ["env-m1/manifests:v1", "env-m2/manifests:v1", "env-plan/manifests:v1"]);
    at("narrow --cluster m2").code(0);
    let narrow: Vec<String> = registry.tags().into_iter().filter(|tag| tag.starts_with("narrow")).collect();
    assert!(
        narrow.len() == 2 && narrow[0].starts_with("narrow/m2:") && narrow[1].starts_with("narrow/plan:"),
        "{narrow:?}"
    );
    for (address, why) in [
        ("https://127.0.0.1/a", "it does not begin with oci://"),
        ("oci://user:hunter2@127.0.0.1/a", "`docker login` stores them"),
        ("oci://127.0.0.1/A", "names of repositories consist of lower-case letters"),
        ("oci://127.0.0.1", "it has no repository"),
    ] {
        let said = run(&sandbox, &format!("push --plain-http {address}")).code(2).err;
        assert!(said.contains(why) && !said.contains("hunter2"), "{said}");
    }
    let said = run(&sandbox, "push --plain-http oci://registry.example.com/a").code(2).err;
    assert!(said.contains("--plain-http is for registries on this machine"), "{said}");
    let outside = Sandbox::web();
    let said = run(&outside, &format!("push --plain-http oci://{}/a", registry.host())).code(2).err;
    assert!(said.contains("add a tag, for example --tag latest"), "{said}");
    run(&outside, &format!("push --plain-http oci://{}/a --tag latest", registry.host())).code(0);
}

#[test]
fn credentials_are_those_of_docker() {
    let (sandbox, registry) = web();
    registry.state().wants_token = true;
    let said = push(&sandbox, &registry, "").code(2).err;
    assert!(said.contains(&format!("`docker login {}` stores credentials", registry.host())), "{said}");
    log_in(&sandbox, &registry);
    push(&sandbox, &registry, "").code(0);
    assert_eq!(registry.tags().len(), 3);
    registry.state().wants_token = false;
    registry.state().wants_password = true;
    replicas(&sandbox, 6);
    push(&sandbox, &registry, "").code(0);
    // Those of another host are not used.
    let other = Registry::start();
    other.state().wants_password = true;
    let said = push(&sandbox, &other, "").code(2).err;
    assert!(said.contains("docker login"), "{said}");
    // A helper is asked for the host of the command line alone.
    let helper =
        "#!/bin/sh\ncat >> asked\necho >> asked\necho '{\"Username\": \"user\", \"Secret\": \"hunter2\"}'\n";
    sandbox.write(".bin/docker-credential-test", helper);
    std::fs::set_permissions(
        sandbox.path(".bin/docker-credential-test"),
        std::fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let config = json!({"credHelpers": {other.host(): "test", "registry.example.com": "other"}});
    sandbox.write(".docker/config.json", config.to_string());
    let path = format!("{}:{}", sandbox.path(".bin").display(), std::env::var("PATH").unwrap());
    let mut asked = command(&sandbox, &format!("push --plain-http oci://{}/acme/fleet", other.host()));
    let ran = Ran::of(asked.env("PATH", path).output().unwrap(), &sandbox.path("")).code(0);
    assert_eq!(sandbox.read("asked"), format!("{}\n", other.host()));
    assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"));
}

#[test]
fn no_message_shows_a_secret() {
    let (sandbox, registry) = web();
    registry.state().wants_token = true;
    registry.state().denied = ["acme/fleet/m2".to_owned()].into();
    log_in(&sandbox, &registry);
    let said = push(&sandbox, &registry, "--tag latest").code(2).err;
    assert!(
        said.contains("does not let federate take a blob of acme/fleet/m2 (not \\u{1b}[31myours)"),
        "{said}"
    );
    assert!(
        !said.contains("hunter2") && !said.contains("secret-token") && !said.contains("dXNlcjpodW50ZXIy"),
        "{said}"
    );
    assert_eq!(registry.tags(), [""; 0], "no cluster is tagged where one cannot be pushed");
}

#[test]
fn a_registry_that_is_busy_is_asked_again() {
    let (sandbox, registry) = web();
    registry.state().busy = 3;
    push(&sandbox, &registry, "").code(0);
    assert_eq!(registry.tags().len(), 3);
    registry.state().busy = usize::MAX;
    replicas(&sandbox, 6);
    let said = push(&sandbox, &registry, "").code(2).err;
    assert!(said.contains("429"), "{said}");
}

#[test]
fn an_upload_that_is_cut_off_starts_again() {
    let (sandbox, registry) = web();
    registry.state().cuts = 4;
    push(&sandbox, &registry, "").code(0);
    assert_eq!(registry.tags().len(), 3);
    assert!(!registry.files("acme/fleet/m1", &sandbox.git("rev-parse HEAD")[..7]).is_empty());
    let said = run(&sandbox, "push --plain-http oci://127.0.0.1:1/acme/fleet").code(2).err;
    assert!(said.contains("127.0.0.1:1 cannot be reached"), "{said}");
}

#[test]
fn the_plan_in_a_registry_is_the_memory() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    // From scratch, the replicas that do not divide go elsewhere than with the memory of 4.
    replicas(&sandbox, 5);
    commit(&sandbox, "five");
    let memory = format!("--plain-http --previous oci://{}/acme/fleet/plan:latest", registry.host());
    let remembered = run(&sandbox, &format!("plan -o json {memory}")).code(0).json();
    sandbox.run("render --out .out --rev HEAD~").code(0);
    let expected = sandbox.run("plan -o json --previous .out/placements.yaml").code(0).json();
    assert_eq!(remembered, expected);
    run(&sandbox, &format!("render --out .rendered {memory}")).code(0);
    run(&sandbox, &format!("commit --branch rendered {memory}")).code(0);
    let rendered = sandbox.read(".rendered/placements.yaml");
    assert_eq!(sandbox.git("show rendered:placements.yaml"), rendered);
    // A push takes the plan of its moving tag by itself.
    push(&sandbox, &registry, "--tag latest").code(0);
    assert_eq!(registry.files("acme/fleet/plan", "latest")["placements.yaml"], rendered);
    let at = |rest: &str| {
        run(&sandbox, &format!("plan --plain-http --previous oci://{}/{rest}", registry.host())).code(2).err
    };
    let said = at("acme/fleet/plan:none");
    assert!(said.contains("acme/fleet/plan:none: --fresh plans without the memory"), "{said}");
    let said = at("acme/fleet/plan");
    assert!(said.contains("names no tag"), "{said}");
    let said = at("acme/fleet/m1:latest");
    assert!(said.contains("is not an artifact with a plan: it has no placements.yaml"), "{said}");
}

#[test]
fn too_much_is_not_deleted() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    let before = registry.state().tags.clone();
    sandbox.write("clusters.yaml", CLUSTERS.split("---").next().unwrap());
    commit(&sandbox, "one");
    let ran = push(&sandbox, &registry, "--tag latest --fresh").code(2);
    assert!(
        ran.err.contains("cluster m2 would lose everything") && ran.err.contains("nothing was changed"),
        "{}",
        ran.err
    );
    let refused = push(&sandbox, &registry, "--tag latest --fresh -o json").code(2).json();
    assert_eq!(refused["refused"]["clusters"][0]["cluster"], "m2", "{refused:#}");
    assert_eq!(registry.state().tags, before);
    // If it is meant, the cluster's artifact is empty, so that its tools delete what it had.
    push(&sandbox, &registry, "--tag latest --fresh --prune-limit 100").code(0);
    assert!(registry.files("acme/fleet/m2", "latest").is_empty());
    registry.take_writes();
    push(&sandbox, &registry, "--tag latest").code(0);
    assert_eq!(registry.take_writes(), [""; 0]);
}

#[test]
fn a_cluster_that_receives_nothing_any_more_is_not_forgotten() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    sandbox.write("clusters.yaml", CLUSTERS.split("---").next().unwrap());
    commit(&sandbox, "without");
    let before = registry.state().manifests.clone();
    let said = push(&sandbox, &registry, "--tag latest --fresh --prune-limit 100 --cluster m1").code(2).err;
    assert!(said.contains("m2 would receive nothing any more"), "{said}");
    assert_eq!(registry.state().manifests, before);
    push(&sandbox, &registry, "--tag latest --fresh --prune-limit 100").code(0);
}

/// Another run without `m2` has pushed to `a`, while `b` has the artifacts with it.
fn with_and_without_m2() -> (Sandbox, Registry) {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag b").code(0);
    sandbox.write("clusters.yaml", CLUSTERS.split("---").next().unwrap());
    commit(&sandbox, "without");
    push(&sandbox, &registry, "--tag a --fresh").code(0);
    (sandbox, registry)
}

#[test]
fn no_tag_forgets_a_cluster() {
    let (sandbox, registry) = with_and_without_m2();
    let memory = format!("--previous oci://{}/acme/fleet/plan:a", registry.host());
    for rest in ["--tag a --tag b", "--tag b --tag a", &format!("{memory} --tag b")] {
        let before = registry.state().tags.clone();
        let said = push(&sandbox, &registry, &format!("{rest} --cluster m1 --prune-limit 100")).code(2).err;
        assert!(said.contains("m2 would receive nothing any more, but --cluster leaves what was"), "{said}");
        let said = push(&sandbox, &registry, rest).code(2).err;
        assert!(said.contains("cluster m2 would lose everything"), "{said}");
        assert_eq!(registry.state().tags, before);
    }
    push(&sandbox, &registry, "--tag a --tag b --prune-limit 100").code(0);
    assert!(registry.files("acme/fleet/m2", "b").is_empty());
}

/// The plan with another number of replicas, pushed by another client.
fn push_theirs(sandbox: &Sandbox, registry: &Registry, tag: &str, count: usize) -> String {
    replicas(sandbox, count);
    commit(sandbox, "theirs");
    push(sandbox, registry, &format!("--tag {tag}")).code(0);
    registry.state().tags[&("acme/fleet/plan".to_owned(), tag.to_owned())].clone()
}

#[test]
fn who_pushes_at_the_same_time_is_not_overwritten() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    let theirs = push_theirs(&sandbox, &registry, "theirs", 5);
    let place = ("acme/fleet/plan".to_owned(), "latest".to_owned());
    let first = registry.state().tags[&place].clone();
    replicas(&sandbox, 7);
    commit(&sandbox, "seven");
    // Their push may come before ours is tagged, between clusters and plan, and right after ours.
    for request in ["plan/manifests/sha256:", "m2/manifests/latest", "plan/manifests/latest"] {
        registry.state().rival = Some(Rival {
            after: format!("PUT /v2/acme/fleet/{request}"),
            repository: place.0.clone(),
            tag: place.1.clone(),
            digests: vec![theirs.clone()],
        });
        registry.state().tags.retain(|(_, tag), _| tag != "latest");
        registry.state().tags.insert(place.clone(), first.clone());
        let memory =
            format!("plan -o json --plain-http --previous oci://{}/acme/fleet/plan", registry.host());
        let expected = run(&sandbox, &format!("{memory}:theirs")).code(0).json();
        let ran = push(&sandbox, &registry, "--tag latest -o json --always").code(0);
        let moved = "acme/fleet/plan:latest moved in the meantime; trying again";
        assert_eq!(ran.err.matches(moved).count(), 1, "{request}: {}", ran.err);
        let json = ran.json();
        let mut latest = json["artifacts"].as_array().unwrap().iter().filter(|row| row["tag"] == "latest");
        assert!(latest.all(|row| row["changed"] == true), "{request}: {json:#}");
        assert_eq!(run(&sandbox, &format!("{memory}:latest")).code(0).json(), expected, "{request}");
        assert!(registry.state().rival.as_ref().unwrap().digests.is_empty());
    }
}

/// Writes another image, which changes no placement.
fn image(sandbox: &Sandbox, tag: &str) {
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", &format!("nginx:{tag}")));
    commit(sandbox, tag);
}

#[test]
fn an_equal_plan_with_other_manifests_is_another_one() {
    let (sandbox, registry) = web();
    let plan = |tag: &str| registry.state().tags[&("acme/fleet/plan".to_owned(), tag.to_owned())].clone();
    push(&sandbox, &registry, "--tag latest").code(0);
    let first = plan("latest");
    image(&sandbox, "1.28");
    push(&sandbox, &registry, "--tag theirs --tag latest").code(0);
    assert_ne!(plan("latest"), first);
    assert_eq!(
        registry.manifest("acme/fleet/plan", "latest")["layers"],
        registry.manifest("acme/fleet/plan", &plan_tag(&sandbox, "HEAD~"))["layers"],
        "the placements are the same"
    );
    registry.take_writes();
    push(&sandbox, &registry, "--tag latest").code(0);
    assert_eq!(registry.take_writes(), [""; 0]);
    // Who pushes other manifests at the same time is noticed, too.
    image(&sandbox, "1.29");
    let theirs = plan("theirs");
    registry.state().tags.insert(("acme/fleet/plan".to_owned(), "latest".to_owned()), first);
    registry.state().rival = Some(Rival {
        after: "PUT /v2/acme/fleet/m2/manifests/latest".to_owned(),
        repository: "acme/fleet/plan".to_owned(),
        tag: "latest".to_owned(),
        digests: vec![theirs],
    });
    let ran = push(&sandbox, &registry, "--tag latest").code(0);
    assert_eq!(ran.err.matches("plan:latest moved in the meantime; trying again").count(), 1, "{}", ran.err);
    for cluster in ["m1", "m2"] {
        let files = registry.files(&format!("acme/fleet/{cluster}"), "latest");
        assert!(files["shop/deployment.apps_web.yaml"].contains("nginx:1.29"), "{files:?}");
    }
}

/// The tag of a revision.
fn plan_tag(sandbox: &Sandbox, revision: &str) -> String {
    sandbox.git(&format!("rev-parse {revision}")).trim()[..7].to_owned()
}

#[test]
fn a_cluster_of_the_previous_plan_is_guarded_and_emptied_under_a_new_tag() {
    let (sandbox, registry) = web();
    run(&sandbox, &format!("push --plain-http oci://{}/acme/fleet:v1", registry.host())).code(0);
    let before = registry.state().tags.clone();
    sandbox.write("clusters.yaml", CLUSTERS.split("---").next().unwrap());
    commit(&sandbox, "without");
    let host = registry.host();
    let line =
        format!("push --plain-http oci://{host}/acme/fleet:v2 --previous oci://{host}/acme/fleet/plan:v1");
    let said = run(&sandbox, &line).code(2).err;
    assert!(said.contains("cluster m2 would lose everything"), "{said}");
    let said = run(&sandbox, &format!("{line} --prune-limit 100 --cluster m1")).code(2).err;
    assert!(said.contains("m2 would receive nothing any more"), "{said}");
    assert_eq!(registry.state().tags, before);
    run(&sandbox, &format!("{line} --prune-limit 100")).code(0);
    assert!(registry.files("acme/fleet/m2", "v2").is_empty());
    assert!(!registry.files("acme/fleet/m2", "v1").is_empty());
}

#[test]
fn what_an_overtaken_push_has_moved_is_said_when_the_next_attempt_is_refused() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    for number in 0..8 {
        let name = format!("name: w{number}");
        sandbox.write(&format!("more/w{number}.yaml"), WEB.replace("name: web", &name));
        sandbox.write(&format!("more/p{number}.yaml"), POLICY.replace("name: web", &name));
    }
    commit(&sandbox, "big");
    push(&sandbox, &registry, "--tag big").code(0);
    let big = registry.state().tags[&("acme/fleet/plan".to_owned(), "big".to_owned())].clone();
    std::fs::remove_dir_all(sandbox.path("more")).unwrap();
    image(&sandbox, "1.28");
    registry.state().rival = Some(Rival {
        after: "PUT /v2/acme/fleet/m2/manifests/latest".to_owned(),
        repository: "acme/fleet/plan".to_owned(),
        tag: "latest".to_owned(),
        digests: vec![big],
    });
    let ran = push(&sandbox, &registry, "--tag latest -o json").code(2);
    assert!(ran.err.contains("would lose"), "{}", ran.err);
    let moved = format!("oci://{}/acme/fleet/m1:latest", registry.host());
    assert!(ran.err.contains("tags have moved anyway") && ran.err.contains(&moved), "{}", ran.err);
    let json = ran.json();
    let rows = json["artifacts"].as_array().unwrap();
    assert_eq!((rows.len(), &json["changed"]), (4, &json!(true)), "{json:#}");
}

#[test]
fn no_tag_moves_when_another_process_may_lead() {
    let (_, registry) = web();
    let address = ArtifactAddress::parse(&format!("oci://{}/acme/fleet", registry.host())).unwrap();
    let options = RegistryOptions { plain_http: true, ..RegistryOptions::default() };
    let server = federate_registry::Registry::new(&address, Credentials::Anonymous, options).unwrap();
    let (store, origin) = (ArtifactStore::new(server).unwrap(), ArtifactOrigin::default());
    // The attempt begins, the tags of clusters move, and those of the plan.
    for (writes, tags) in [(0, 0), (1, 0), (2, 2), (3, 3)] {
        let asked = Cell::new(0);
        let request = PushRequest {
            store: &store,
            address: &address,
            tags: &["latest".to_owned()],
            earlier: Some("latest"),
            fallback: None,
            has_pushed_fallback: false,
            clusters: &[],
            types: ArtifactTypes::Oci,
            always: false,
            signature: None,
            origin: &origin,
            keep_going: false,
            prune_limit: PruneLimit::new(50),
            may_write: &|| asked.replace(asked.get() + 1) < writes,
        };
        let files = [("web.yaml", WEB), ("clusters.yaml", CLUSTERS), ("policy.yaml", POLICY)];
        let files =
            files.map(|(path, text)| RepoFile { path: path.into(), bytes: text.as_bytes().into() }).to_vec();
        let session = Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS));
        let mut session = Some(session);
        let pushed = request.push_rendering(|_| session.take().ok_or(()), |_| ());
        assert_eq!(pushed.is_ok(), writes == 3, "{writes}");
        if let Err(failed) = pushed {
            assert!(matches!(failed.error, PushError::Artifacts(artifacts::Error::Fenced)), "{writes}");
            assert_eq!(failed.moved.to_rows().len(), tags, "{writes}");
        }
        assert_eq!(registry.tags().len(), tags, "{writes}");
    }
}

#[test]
fn a_push_that_is_always_overtaken_gives_up() {
    let (sandbox, registry) = web();
    let theirs = ["t5", "t7"].map(|tag| push_theirs(&sandbox, &registry, tag, tag[1..].parse().unwrap()));
    registry.state().rival = Some(Rival {
        after: "PUT /v2/acme/fleet/plan/manifests/sha256:".to_owned(),
        repository: "acme/fleet/plan".to_owned(),
        tag: "latest".to_owned(),
        digests: (0..10).flat_map(|_| theirs.clone()).collect(),
    });
    let said = push(&sandbox, &registry, "--tag latest --always").code(2).err;
    assert!(said.contains("plan:latest moved in the meantime; gave up after 10 attempts"), "{said}");
    let ours = registry.tags().into_iter().filter(|tag| tag.ends_with(":latest") && !tag.contains("plan"));
    assert_eq!(ours.count(), 0, "no cluster is tagged");
}

#[test]
fn options_may_stand_anywhere() {
    let (sandbox, registry) = web();
    let address = format!("oci://{}/acme/fleet", registry.host());
    for line in [
        format!("push . --plain-http --tag a {address}"),
        format!("push --plain-http . {address} --tag b"),
        format!("push --tag c {address} --plain-http"),
        format!("push . {address} --plain-http --tag d"),
    ] {
        run(&sandbox, &line).code(0);
    }
    for tag in ["a", "b", "c", "d"] {
        assert!(registry.tags().contains(&format!("acme/fleet/m1:{tag}")));
    }
    let said = run(&sandbox, "push . --tag a").code(2).err;
    assert!(said.contains("`.` is not the address of an artifact: it does not begin with oci://"), "{said}");
}

#[test]
fn an_artifact_of_others_is_named_as_such() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    registry.state().manifest_instead = Some(b"{}".to_vec());
    let said = push(&sandbox, &registry, "--tag latest").code(2).err;
    assert!(said.contains("plan:latest is not an artifact that federate has pushed"), "{said}");
}

#[test]
fn errors_push_nothing() {
    let (sandbox, registry) = web();
    sandbox.write("bad.yaml", "a: [");
    push(&sandbox, &registry, "--tag latest").code(2);
    assert_eq!(registry.tags(), [""; 0]);
    push(&sandbox, &registry, "--tag latest --keep-going").code(2);
    let dirty = format!("acme/fleet/m1:{}-dirty", &sandbox.git("rev-parse HEAD")[..7]);
    assert!(registry.tags().contains(&dirty), "{:?}", registry.tags());
}

#[test]
fn what_is_held_back_keeps_its_manifest_or_nothing_is_pushed() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    let deployment = |name: &str| {
        registry.files(&format!("acme/fleet/{name}"), "latest").remove("shop/deployment.apps_web.yaml")
    };
    let first = deployment("m1");
    replicas(&sandbox, 8);
    let fails = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {name: o}\nspec:\n  \
                 overrideRules: [{overriders: {plaintext: [{path: /spec/none/none, operator: add, value: 1}]}}]\n";
    sandbox.write("override.yaml", fails);
    let held_back = "--tag latest --keep-going";
    push(&sandbox, &registry, held_back).code(2);
    assert_eq!(deployment("m1"), first);
    // What is kept in the registry for a while only is gone: an artifact without the object would delete it.
    registry.state().tags.remove(&("acme/fleet/m1".to_owned(), "latest".to_owned()));
    registry.take_writes();
    let said = push(&sandbox, &registry, held_back).code(2).err;
    let expected = "Deployment shop/web is held back in cluster `m1` and keeps the manifest of ";
    assert!(
        said.contains(expected) && said.contains("/m1:latest, which the registry does not have"),
        "{said}"
    );
    assert_eq!(registry.take_writes(), [""; 0]);
}

#[test]
fn a_cluster_where_everything_is_held_back_has_an_empty_artifact() {
    let (sandbox, registry) = web();
    let fails = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {name: o}\nspec:\n  \
                 overrideRules: [{overriders: {plaintext: [{path: /spec/none/none, operator: add, value: 1}]}}]\n";
    sandbox.write("override.yaml", fails);
    for _ in 0..2 {
        let said = push(&sandbox, &registry, "--tag latest --keep-going").code(2).err;
        assert!(!said.contains("keeps the manifest of"), "nothing was there before: {said}");
        assert!(registry.files("acme/fleet/m1", "latest").is_empty());
    }
}

#[test]
fn the_types_of_flux_are_written_on_demand() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest --media-types flux").code(0);
    let manifest = registry.manifest("acme/fleet/m1", "latest");
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.cncf.flux.config.v1+json");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/vnd.cncf.flux.content.v1.tar+gzip");
    assert!(manifest.get("artifactType").is_none());
    push(&sandbox, &registry, "--tag latest").code(0);
    assert_ne!(registry.manifest("acme/fleet/m1", "latest"), manifest);
}

#[test]
fn artifacts_are_signed_before_they_are_tagged() {
    let (sandbox, registry) = web();
    let script =
        |exit: u8| format!("#!/bin/sh\necho \"$@\" >> {}\nexit {exit}\n", sandbox.path(".signed").display());
    let path = format!("{}:{}", sandbox.path(".bin").display(), std::env::var("PATH").unwrap());
    let sign = |exit: u8| {
        sandbox.write(".bin/cosign", script(exit));
        std::fs::set_permissions(sandbox.path(".bin/cosign"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
        let line = format!(
            "push --plain-http oci://{}/acme/fleet --tag latest --sign cosign --sign-key k",
            registry.host()
        );
        Ran::of(command(&sandbox, &line).env("PATH", &path).output().unwrap(), &sandbox.path(""))
    };
    let failed = sign(1).code(2);
    assert!(failed.err.contains("`cosign sign` failed for"), "{}", failed.err);
    assert_eq!(registry.tags(), [""; 0]);
    std::fs::remove_file(sandbox.path(".signed")).unwrap();
    sign(0).code(0);
    let digest = registry.state().tags[&("acme/fleet/m1".to_owned(), "latest".to_owned())].clone();
    let signed = sandbox.read(".signed");
    assert_eq!(signed.lines().count(), 3, "{signed}");
    let first =
        format!("sign --yes --key k --allow-http-registry {}/acme/fleet/m1@{digest}\n", registry.host());
    assert!(signed.contains(&first), "{signed}");
    sign(0).code(0);
    assert_eq!(sandbox.read(".signed"), signed, "what is there is signed");
}

/// Registries keep blobs on other servers, which must not learn the credentials.
#[test]
fn other_servers_get_no_credentials() {
    let (sandbox, registry) = web();
    registry.state().wants_password = true;
    log_in(&sandbox, &registry);
    push(&sandbox, &registry, "--tag latest").code(0);
    let storage = Registry::start();
    storage.state().blobs = registry.state().blobs.clone();
    registry.state().blobs_at = Some(format!("http://{}", storage.host()));
    let memory = format!("plan --plain-http --previous oci://{}/acme/fleet/plan:latest", registry.host());
    run(&sandbox, &memory).code(0);
    assert_eq!(storage.state().seen_authorizations, [""]);
    // Not even on this machine to a server that is not asked with TLS, unless that is allowed.
    registry.state().blobs_at = Some("http://192.0.2.1".to_owned());
    let said = run(&sandbox, &memory).code(2).err;
    assert!(said.contains("it leads to a server without TLS"), "{said}");
    registry.state().blobs_at = Some(format!("http://{}", registry.host()));
    let said = run(&sandbox, &memory).code(2).err;
    assert!(said.contains("it leads from address to address"), "{said}");
}

#[test]
fn what_a_registry_answers_is_not_trusted() {
    let (sandbox, registry) = web();
    push(&sandbox, &registry, "--tag latest").code(0);
    let memory = format!("plan --plain-http --previous oci://{}/acme/fleet/plan:latest", registry.host());
    registry.state().blob_instead = Some(b"other bytes".to_vec());
    let said = run(&sandbox, &memory).code(2).err;
    assert!(said.contains("its bytes do not have the digest"), "{said}");
    for manifest in
        [b"{}".to_vec(), b"[".to_vec(), br#"{"schemaVersion": 2, "layers": [], "config": {}}"#.to_vec()]
    {
        registry.state().manifest_instead = Some(manifest);
        let said = run(&sandbox, &memory).code(2).err;
        assert!(said.contains("does not name a single layer"), "{said}");
    }
    registry.state().manifest_instead = Some(vec![b' '; 5 << 20]);
    let said = run(&sandbox, &memory).code(2).err;
    assert!(said.contains("its answer is larger than 4194304 bytes"), "{said}");
}

#[test]
fn a_kill_at_any_moment_leaves_tags_that_name_whole_artifacts() {
    let (sandbox, registry) = web();
    let line = format!("push --plain-http oci://{}/acme/fleet --tag latest", registry.host());
    let started = Instant::now();
    run(&sandbox, &line).code(0);
    let whole = started.elapsed();
    let rounds = kills(12);
    for round in 0..rounds {
        replicas(&sandbox, 6 + 2 * round as usize);
        commit(&sandbox, "more");
        let mut child = command(&sandbox, &line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * (round + 1) / rounds);
        child.kill().unwrap();
        child.wait().unwrap();
        for cluster in ["m1", "m2", "plan"] {
            assert_eq!(registry.files(&format!("acme/fleet/{cluster}"), "latest").len(), 1);
        }
        run(&sandbox, &line).code(0);
        let total = 6 + 2 * round as usize;
        for cluster in ["m1", "m2"] {
            let files = registry.files(&format!("acme/fleet/{cluster}"), "latest");
            let text = &files["shop/deployment.apps_web.yaml"];
            assert!(text.contains(&format!("replicas: {}\n", total / 2)), "{text}");
        }
    }
}

#[test]
fn a_real_registry_takes_and_returns_artifacts() {
    let (sandbox, _) = web();
    let Some(registry) = RealRegistry::start(&sandbox.path("")) else {
        eprintln!("skipped: this machine lacks docker-registry, which Debian's package has");
        return;
    };
    let line = format!("push --plain-http oci://{}/acme/fleet --tag latest", registry.host);
    let first = run(&sandbox, &line).code(0).out;
    assert_eq!(first.matches(": pushed, sha256:").count(), 6, "{first}");
    let again = run(&sandbox, &line).code(0).out;
    assert_eq!(again.matches(": unchanged, sha256:").count(), 6, "{again}");
    replicas(&sandbox, 5);
    commit(&sandbox, "five");
    let memory =
        format!("plan -o json --plain-http --previous oci://{}/acme/fleet/plan:latest", registry.host);
    let plan = run(&sandbox, &memory).code(0).json();
    let json = run(&sandbox, &format!("{line} -o json")).code(0).json();
    assert_eq!(
        json["artifacts"].as_array().unwrap().iter().filter(|row| row["changed"] == true).count(),
        5,
        "{json:#}"
    );
    let pushed = run(&sandbox, &memory).code(0).json();
    assert_eq!(pushed["placements"], plan["placements"]);
    run(&sandbox, &format!("{line} --media-types flux --always")).code(0);
}
