//! `federate vendor`: charts of repositories on loopback, the lock file, and what builds make of both.

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::builds::{Tools, clusters_repo, rendered};
use crate::chart_server::ChartServer;
use crate::sandbox::{Ran, Sandbox, kills};

const LOCK: &str = "vendor/federate.lock.yaml";

impl ChartServer {
    /// Serves these versions of charts.
    fn publish(&self, tools: &Tools, charts: &[(&str, &str)]) {
        let packages: Vec<(&str, &str, Vec<u8>)> =
            charts.iter().map(|(name, version)| (*name, *version, package(tools, name, version))).collect();
        self.publish_packages(&packages);
    }
}

/// A packaged chart with one ConfigMap.
fn package(tools: &Tools, name: &str, version: &str) -> Vec<u8> {
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{{{{ .Release.Name }}}}-{name}\"}}\ndata: {{version: \"{version}\", size: \"{{{{ .Values.size }}}}\"}}\n"
    );
    let chart = Sandbox::new()
        .file("c/Chart.yaml", format!("apiVersion: v2\nname: {name}\nversion: {version}\n"))
        .file("c/values.yaml", "size: small\n")
        .file("c/values-large.yaml", "size: large\n")
        .file("c/templates/map.yaml", map);
    let mut command = Command::new(tools.helm.as_ref().unwrap());
    let output =
        command.args(["package", "c"]).current_dir(chart.path("")).env("HOME", chart.path("")).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(chart.path(&format!("{name}-{version}.tgz"))).unwrap()
}

fn release(name: &str, chart: &str, version: &str) -> String {
    format!(
        "---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  \
         chart: {{spec: {{chart: {chart}, version: \"{version}\", sourceRef: {{kind: HelmRepository, name: charts, namespace: flux-system}}}}}}\n"
    )
}

fn repository(address: &str) -> String {
    format!(
        "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: flux-system, annotations: {{config.kubernetes.io/local-config: \"true\"}}}}\nspec: {{url: \"{address}\"}}\n"
    )
}

/// A repo whose objects of Flux are built.
fn flux_repo(address: &str, releases: &str) -> Sandbox {
    clusters_repo()
        .file("federate.yaml", "sources: [{flux: flux}]\n")
        .file("flux/releases.yaml", releases)
        .file("flux/repository.yaml", repository(address))
}

/// Runs federate with a home of its own, so that the configuration of Helm is that of the test.
fn run(tools: &Tools, repo: &Sandbox, line: &str) -> Ran {
    Ran::of(command(tools, repo, line).output().unwrap(), &repo.path("."))
}

fn command(tools: &Tools, repo: &Sandbox, line: &str) -> Command {
    let mut command = tools.command(repo, line);
    command
        .env("HOME", repo.path(".home"))
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy");
    command.env("XDG_CACHE_HOME", repo.path(".home/cache"));
    command
}

fn helm(tools: &Tools, repo: &Sandbox, args: &[&str]) {
    let mut command = Command::new(tools.helm.as_ref().unwrap());
    command.args(args).env("HOME", repo.path(".home")).env("XDG_CACHE_HOME", repo.path(".home/cache"));
    let output = command.env_remove("XDG_CONFIG_HOME").current_dir(repo.path("")).output().unwrap();
    assert!(output.status.success(), "helm {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn lock(repo: &Sandbox) -> Value {
    federate_yaml::read_stream(repo.read(LOCK).as_bytes()).documents.pop().unwrap().value
}

/// The status, the headers and the body of an answer.
type Answer = (u16, String, Vec<u8>);

#[test]
fn a_chart_of_a_repository_is_vendored_once_and_built_without_the_network() {
    let Some(tools) = Tools::find(false, true) else { return };
    let server = ChartServer::start();
    server.publish(&tools, &[("web", "1.0.0"), ("web", "1.4.0"), ("web", "1.4.1-rc.1"), ("web", "2.0.0")]);
    let repo = flux_repo(&server.address, &(release("a", "web", "1.x") + &release("b", "web", "1.x")));
    let refused = run(&tools, &repo, "render --out out").code(2);
    assert!(refused.err.contains("flux/releases.yaml:"), "{}", refused.err);
    assert!(refused.err.contains("the chart web 1.x of http://127.0.0.1:"), "{}", refused.err);
    assert!(refused.err.contains("run `federate vendor`"), "{}", refused.err);
    assert_eq!(server.take_requests(), [""; 0], "a build asks no server");
    let check = run(&tools, &repo, "vendor --check").code(1);
    assert!(
        check.out.contains("not vendored, added") && check.err.contains("run `federate vendor`"),
        "{check:?}"
    );
    assert_eq!(server.take_requests(), [""; 0]);

    let ran = run(&tools, &repo, "vendor -o json").code(0);
    assert_eq!(ran.err.matches("downloading chart web 1.x of").count(), 1, "{}", ran.err);
    let chart = &ran.json()["sources"][0];
    let users = json!(["HelmRelease shop/a", "HelmRelease shop/b"]);
    assert_eq!((&chart["version"], &chart["change"]), (&json!("1.4.0"), &json!("added")));
    assert_eq!(chart["usedBy"], users);
    let asked = server.take_requests();
    assert_eq!(asked.iter().filter(|path| path.strip_suffix(".tgz").is_some()).count(), 1, "{asked:?}");
    let entry = &lock(&repo)["charts"][0];
    assert_eq!(entry["path"], "vendor/charts/web/1.4.0");
    assert_eq!(entry["repository"], json!(server.address));
    // The digests are those that the programs of the system compute.
    let lines = "cd vendor/charts/web/1.4.0 && find . -type f | cut -c3- | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c-64";
    let output = repo.shell(lines).output().unwrap();
    let digest = format!("sha256:{}", String::from_utf8(output.stdout).unwrap().trim());
    assert_eq!(entry["digest"], json!(digest));

    run(&tools, &repo, "vendor --check").code(0);
    assert!(run(&tools, &repo, "vendor").code(0).out.contains("unchanged"));
    let rendered_run = run(&tools, &repo, "render --out out").code(0);
    assert_eq!(rendered_run.err, "");
    assert_eq!(server.take_requests(), [""; 0], "what is locked is not asked for");
    let all = rendered(&repo, "m1");
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["\"ConfigMap\" \"a-web\"", "\"ConfigMap\" \"b-web\""],
        "the chart itself is no manifest"
    );
    assert_eq!(all[names[0]]["data"], json!({"version": "1.4.0", "size": "small"}));
}

#[test]
fn an_update_takes_the_newest_version_and_diff_shows_what_it_changes() {
    let Some(tools) = Tools::find(false, true) else { return };
    let server = ChartServer::start();
    server.publish(&tools, &[("web", "1.0.0"), ("db", "1.0.0")]);
    let repo = flux_repo(&server.address, &(release("a", "web", "^1.0") + &release("b", "db", "1.x")));
    repo.write(".gitignore", "/.home/\n/.cache/\n/out/\n");
    run(&tools, &repo, "vendor").code(0);
    repo.git("init -q -b main");
    repo.git("add -A");
    repo.git("commit -q -m first");
    server.publish(&tools, &[("web", "1.0.0"), ("web", "1.1.0"), ("db", "1.0.0"), ("db", "1.2.0")]);
    assert!(run(&tools, &repo, "vendor").code(0).out.contains("unchanged"), "a locked version stays");
    let unknown = run(&tools, &repo, "vendor --update cache").code(2);
    assert!(
        unknown.err.contains("nothing asks for a chart or base `cache`: --update takes db, web"),
        "{}",
        unknown.err
    );
    let ran = run(&tools, &repo, "vendor --update web").code(0);
    assert!(ran.out.contains("web ^1.0 of") && ran.out.contains(": 1.0.0 → 1.1.0, updated"), "{}", ran.out);
    assert_eq!(
        repo.files("vendor/charts"),
        [
            "db/1.0.0/Chart.yaml",
            "db/1.0.0/templates/map.yaml",
            "db/1.0.0/values-large.yaml",
            "db/1.0.0/values.yaml",
            "web/1.1.0/Chart.yaml",
            "web/1.1.0/templates/map.yaml",
            "web/1.1.0/values-large.yaml",
            "web/1.1.0/values.yaml",
        ]
    );
    let diff = run(&tools, &repo, "diff --from HEAD").code(1);
    assert!(diff.out.contains("1.0.0") && diff.out.contains("1.1.0"), "{}", diff.out);
    let json = run(&tools, &repo, "diff --from HEAD -o json").code(1).out;
    assert!(json.contains("a-web") && !json.contains("b-db"), "{json}");
    for cluster in ["m1", "m2"] {
        assert!(json.contains(cluster), "{json}");
    }
    // The object asks for another range: the lock is out of date.
    repo.write("flux/releases.yaml", release("a", "web", "1.0.0"));
    let check = run(&tools, &repo, "vendor --check -o json").code(1).json();
    let changes: Vec<&str> =
        check["sources"].as_array().unwrap().iter().filter_map(|one| one["change"].as_str()).collect();
    assert_eq!(changes, ["added", "removed", "removed"]);
    run(&tools, &repo, "vendor").code(0);
    assert!(repo.files("vendor/charts").iter().all(|file| file.starts_with("web/1.0.0/")));
    // A tool has set a version in the lock file.
    repo.write("flux/releases.yaml", release("a", "web", "1.x"));
    run(&tools, &repo, "vendor").code(0);
    repo.write(LOCK, repo.read(LOCK).replace("version: 1.1.0", "version: 2.0.0"));
    let ran = run(&tools, &repo, "vendor").code(2);
    assert!(ran.err.contains("has version 2.0.0 of the chart web 1.x of"), "{}", ran.err);
    repo.write(LOCK, repo.read(LOCK).replace("version: 2.0.0", "version: 1.0.0"));
    run(&tools, &repo, "vendor --check").code(1);
    run(&tools, &repo, "vendor").code(0);
    assert_eq!(lock(&repo)["charts"][0]["path"], "vendor/charts/web/1.0.0");
    run(&tools, &repo, "vendor --check").code(0);
}

#[test]
fn a_copy_that_was_changed_is_an_error_until_it_is_restored() {
    let Some(tools) = Tools::find(false, true) else { return };
    let server = ChartServer::start();
    server.publish(&tools, &[("web", "1.0.0")]);
    let repo = flux_repo(&server.address, &(release("a", "web", "1.x") + &release("b", "web", "1.x")));
    run(&tools, &repo, "vendor").code(0);
    let values = "vendor/charts/web/1.0.0/values.yaml";
    let before = repo.read(values);
    for broken in ["size: other\n", ""] {
        if broken.is_empty() {
            std::fs::remove_dir_all(repo.path("vendor/charts")).unwrap();
        } else {
            repo.write(values, broken);
        }
        let ran = run(&tools, &repo, "render --out out").code(2);
        assert!(ran.err.contains("the vendored chart `vendor/charts/web/1.0.0`"), "{}", ran.err);
        assert!(ran.err.contains("federate vendor"), "{}", ran.err);
        let check = run(&tools, &repo, "vendor --check").code(1);
        assert!(check.out.contains("restored (the vendored chart"), "{}", check.out);
        run(&tools, &repo, "vendor").code(0);
        assert_eq!(repo.read(values), before);
        run(&tools, &repo, "render --out out").code(0);
    }
    // The repository serves something else as the same version.
    server.answer("web-1.0.0.tgz", 200, "", {
        let other = Sandbox::new().file("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        let mut tar = Command::new("tar");
        assert!(tar.args(["czf", "o.tgz", "web"]).current_dir(other.path("")).status().unwrap().success());
        std::fs::read(other.path("o.tgz")).unwrap()
    });
    repo.write(values, "size: other\n");
    let ran = run(&tools, &repo, "vendor").code(2);
    assert!(ran.err.contains("version 1.0.0 has other content than when it was vendored"), "{}", ran.err);
    assert!(ran.err.contains("`federate vendor --update web`"), "{}", ran.err);
    run(&tools, &repo, "vendor --update web").code(0);
    assert_eq!(repo.files("vendor/charts"), ["web/1.0.0/Chart.yaml"]);
    // Without a request, everything goes.
    repo.write("flux/releases.yaml", "");
    repo.write("federate.yaml", "");
    assert!(run(&tools, &repo, "vendor").code(0).out.contains("1.0.0, removed"));
    assert!(repo.files("vendor/charts").is_empty());
    assert!(run(&tools, &repo, "vendor").code(0).err.contains("nothing names a remote chart or base"));
}

#[test]
fn applications_and_registries_are_vendored() {
    let Some(tools) = Tools::find(false, true) else { return };
    let server = ChartServer::start();
    server.publish(&tools, &[("web", "1.0.0"), ("web", "1.2.0")]);
    let application = |source: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: app, namespace: argocd}}\nspec:\n  destination: {{name: m1, namespace: shop}}\n  {source}\n"
        )
    };
    let several = format!(
        "sources:\n  - {{repoURL: '{}', chart: web, targetRevision: 1.x, helm: {{valueFiles: [values-large.yaml, $own/values.yaml]}}}}\n  - {{repoURL: 'https://git.example.com/r.git', ref: own}}",
        server.address
    );
    let repo = clusters_repo()
        .file("federate.yaml", "sources: [{argocd: argo}]\n")
        .file("values.yaml", "other: 1\n")
        .file("argo/app.yaml", application(&several));
    run(&tools, &repo, "vendor").code(0);
    run(&tools, &repo, "render --out out").code(0);
    let data = json!({"version": "1.2.0", "size": "large"});
    assert_eq!(rendered(&repo, "m1")["\"ConfigMap\" \"app-web\""]["data"], data);

    let set = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  generators: [{list: {elements: [{chart: web}]}}]\n  template:\n    metadata: {name: '{{chart}}'}\n    spec:\n      destination: {name: m1, namespace: shop}\n      source: {repoURL: 'ADDRESS', chart: '{{chart}}', targetRevision: 1.0.0}\n";
    repo.write("argo/app.yaml", set.replace("ADDRESS", &server.address));
    run(&tools, &repo, "vendor").code(0);
    assert_eq!(lock(&repo)["charts"][0]["version"], "1.0.0");
    run(&tools, &repo, "render --out out").code(0);

    let storage = Sandbox::new();
    let Some(registry) = crate::registry::RealRegistry::start(&storage.path("")) else {
        #[allow(clippy::print_stderr, reason = "whoever runs the tests must know")]
        {
            eprintln!("skipped: this machine lacks docker-registry, which Debian's package has");
        }
        return;
    };
    for version in ["1.0.0", "1.3.0"] {
        repo.write(&format!(".p/web-{version}.tgz"), package(&tools, "web", version));
        let packed = repo.path(&format!(".p/web-{version}.tgz"));
        let to = format!("oci://{}/charts", registry.host);
        helm(&tools, &repo, &["push", packed.to_str().unwrap(), &to, "--plain-http"]);
    }
    let oci = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {{name: web, namespace: shop}}\nspec: {{url: 'oci://{}/charts/web', ref: {{semver: '<1.3'}}}}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: a, namespace: shop}}\nspec: {{chartRef: {{kind: OCIRepository, name: web}}}}\n",
        registry.host
    );
    let argo = application(&format!(
        "source: {{repoURL: {}/charts, chart: web, targetRevision: '>=1.0.0'}}",
        registry.host
    ));
    let repo = clusters_repo()
        .file("federate.yaml", "sources: [{flux: flux}, {argocd: argo}]\n")
        .file("flux/a.yaml", oci)
        .file("argo/app.yaml", argo);
    run(&tools, &repo, "vendor").code(0);
    let locked = lock(&repo);
    let versions: Vec<&Value> =
        locked["charts"].as_array().unwrap().iter().map(|chart| &chart["version"]).collect();
    assert_eq!(versions, ["1.0.0", "1.3.0"]);
    run(&tools, &repo, "render --out out").code(0);
    let all = rendered(&repo, "m1");
    assert_eq!(all["\"ConfigMap\" \"a-web\""]["data"]["version"], "1.0.0");
    assert_eq!(all["\"ConfigMap\" \"app-web\""]["data"]["version"], "1.3.0");
}

#[test]
fn credentials_are_those_of_helm_and_are_never_shown() {
    let Some(tools) = Tools::find(false, true) else { return };
    let server = ChartServer::start();
    server.publish(&tools, &[("web", "1.0.0")]);
    // user:hunter2
    *server.demands.lock().unwrap() = Some("Basic dXNlcjpodW50ZXIy".to_owned());
    let repo = flux_repo(&server.address, &release("a", "web", "1.x"));
    let denied = run(&tools, &repo, "vendor").code(2);
    assert!(denied.err.contains("401") && denied.err.contains("helm repo add"), "{}", denied.err);
    assert!(!repo.path(LOCK).exists());
    helm(
        &tools,
        &repo,
        &["repo", "add", "own", &server.address, "--username", "user", "--password", "hunter2"],
    );
    let ran = run(&tools, &repo, "vendor").code(0);
    let written: String =
        repo.files("vendor").iter().map(|file| repo.read(&format!("vendor/{file}"))).collect();
    for text in [&ran.out, &ran.err, &written] {
        assert!(!text.contains("hunter2") && !text.contains("dXNlcjpodW50ZXIy"), "{text}");
    }
    for address in [
        server.address.replace("http://", "http://user:hunter2@"),
        format!("{}?token=hunter2", server.address),
    ] {
        let ran = run(&tools, &flux_repo(&address, &release("a", "web", "1.x")), "vendor").code(2);
        assert!(ran.err.contains("contains credentials or a query"), "{}", ran.err);
        assert!(ran.err.contains("flux/releases.yaml:"), "{}", ran.err);
        assert!(!ran.err.contains("hunter2"), "{}", ran.err);
    }
}

/// A packaged chart with one more file at a path that `tar` would not write by itself.
fn pack_with_path(path: &str) -> Vec<u8> {
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, text) in [("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"), (path, "x\n")] {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn hostile_repositories_are_refused_and_change_nothing() {
    let Some(tools) = Tools::find(false, true) else { return };
    let server = ChartServer::start();
    let index = |name: &str, version: &str, url: &str| {
        json!({"apiVersion": "v1", "entries": {"web": [{"apiVersion": "v2", "name": name, "version": version, "urls": [url]}]}})
            .to_string()
    };
    let plain = index("web", "1.0.0", "web-1.0.0.tgz");
    let named = |name: &str, version: &str| {
        let chart = Sandbox::new()
            .file("web/Chart.yaml", format!("apiVersion: v2\nname: {name}\nversion: {version}\n"));
        let mut tar = Command::new("tar");
        assert!(tar.args(["czf", "o.tgz", "web"]).current_dir(chart.path("")).status().unwrap().success());
        std::fs::read(chart.path("o.tgz")).unwrap()
    };
    let cases: [(&str, String, Answer, &str); 7] = [
        (
            "a path out of the chart",
            plain.clone(),
            (200, String::new(), pack_with_path("web/../../evil")),
            "is refused",
        ),
        (
            "another name",
            plain.clone(),
            (200, String::new(), named("../../evil", "1.0.0")),
            "the name `../../evil`",
        ),
        (
            "a version that is a path",
            plain.clone(),
            (200, String::new(), named("web", "1.0.0-../../x")),
            "is refused: its Chart.yaml has the version",
        ),
        ("no archive", plain.clone(), (200, String::new(), b"hello".to_vec()), "cannot be"),
        (
            "a file of this machine",
            index("web", "1.0.0", "file:///etc/passwd"),
            (404, String::new(), Vec::new()),
            "cannot be downloaded",
        ),
        (
            "redirects without end",
            plain.clone(),
            (302, "Location: /charts/web-1.0.0.tgz\r\n".to_owned(), Vec::new()),
            "redirect",
        ),
        (
            "a redirect to a file",
            plain,
            (302, "Location: file:///etc/passwd\r\n".to_owned(), Vec::new()),
            "cannot be downloaded",
        ),
    ];
    for (what, index, (status, head, body), expected) in cases {
        server.answer("index.yaml", 200, "", index);
        server.answer("web-1.0.0.tgz", status, &head, body);
        let repo = flux_repo(&server.address, &release("a", "web", "1.x"));
        let before = repo.files(".");
        let ran = run(&tools, &repo, "vendor").code(2);
        assert!(ran.err.contains(expected), "{what}: {}", ran.err);
        assert!(!ran.err.contains("root:x"), "{what}: {}", ran.err);
        let mut after = repo.files(".");
        after.retain(|file| !file.starts_with(".home/"));
        assert_eq!(after, before, "{what}");
    }
    // An address that is no argument, and a folder that leads elsewhere.
    for (address, chart) in [("--help", "web"), ("file:///etc", "web"), (server.address.as_str(), "--help")] {
        run(&tools, &flux_repo(address, &release("a", chart, "1.x")), "vendor").code(2);
    }
    let repo = flux_repo(&server.address, &release("a", "web", "1.x"));
    let outside = Sandbox::new();
    std::os::unix::fs::symlink(outside.path(""), repo.path("vendor")).unwrap();
    let ran = run(&tools, &repo, "vendor").code(2);
    assert!(ran.err.contains("is a link"), "{}", ran.err);
    assert!(outside.files(".").is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn an_index_without_end_is_left() {
    let Some(tools) = Tools::find(false, true) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let block = vec![b'#'; 1 << 20];
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                while stream.write_all(&block).is_ok() {}
            });
        }
    });
    let repo = flux_repo(&address, &release("a", "web", "1.x"));
    let ran = run(&tools, &repo, "vendor").code(2);
    assert!(ran.err.contains("cannot be downloaded"), "{}", ran.err);
    assert!(!repo.path(LOCK).exists());
}

#[test]
fn a_run_that_is_killed_loses_nothing() {
    let Some(tools) = Tools::find(false, true) else { return };
    let server = ChartServer::start();
    server.publish(&tools, &[("web", "1.0.0"), ("db", "1.0.0")]);
    let repo = flux_repo(&server.address, &(release("a", "web", "1.x") + &release("b", "db", "1.x")));
    run(&tools, &repo, "vendor").code(0);
    server.publish(&tools, &[("web", "1.0.0"), ("web", "1.1.0"), ("db", "1.0.0"), ("db", "1.1.0")]);
    for kill in 0..kills(4) {
        let mut child =
            command(&tools, &repo, "vendor --update -q").stdout(std::process::Stdio::null()).spawn().unwrap();
        thread::sleep(std::time::Duration::from_millis(u64::from(kill) * 60));
        let _ = child.kill();
        let _ = child.wait();
        run(&tools, &repo, "render --out out").code(0);
        run(&tools, &repo, "vendor --check").code(0);
    }
    run(&tools, &repo, "vendor --update").code(0);
    let left = repo.files("vendor");
    assert!(left.iter().all(|file| !file.contains("federate-new")), "{left:?}");
    assert!(left.iter().any(|file| file.starts_with("charts/web/1.1.0/")), "{left:?}");
}

#[test]
fn what_is_not_vendored_by_federate_is_kept() {
    let Some(tools) = Tools::find(false, true) else { return };
    let server = ChartServer::start();
    server.publish(&tools, &[("web", "1.0.0")]);
    let repo = flux_repo(&server.address, &release("a", "web", "1.x"));
    repo.write("vendor/charts/web/1.0.0/values.yaml", "size: mine\n");
    let ran = run(&tools, &repo, "vendor").code(2);
    assert!(
        ran.err.contains("`vendor/charts/web/1.0.0` is there, and is not in the lock file"),
        "{}",
        ran.err
    );
    assert_eq!(repo.read("vendor/charts/web/1.0.0/values.yaml"), "size: mine\n");
    repo.write(LOCK, "kind: Other\n");
    let ran = run(&tools, &repo, "vendor").code(2);
    assert!(ran.err.contains("the lock file `vendor/federate.lock.yaml` is not valid"), "{}", ran.err);
    let without = Ran::of(repo.command("vendor").output().unwrap(), &repo.path("."));
    assert_eq!(without.code, 2);
}

#[test]
fn folders_of_other_repositories_that_flux_reads_are_vendored() {
    let Some(tools) = Tools::find(true, true) else { return };
    let remote = Sandbox::new()
        .file("deploy/web.yaml", crate::sandbox::WEB)
        .file("deploy/more/notes.txt", "a")
        .file("other.yaml", "not: named\n");
    remote.git("init -q -b main");
    remote.git("add -A");
    remote.git("commit -q -m first");
    remote.git("tag v1");
    remote.git("clone -q --bare . shop.git");
    let address = format!("file://{}", remote.path("shop.git").display());
    let source = |name: &str, address: &str, reference: &str| {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: {name}, namespace: flux-system, annotations: \
             {{config.kubernetes.io/local-config: 'true'}}}}\nspec: {{interval: 1m, url: '{address}', ref: {reference}}}\n---\n"
        )
    };
    let kustomization = |name: &str, path: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\nspec: \
             {{interval: 1m, prune: true, path: {path}, sourceRef: {{kind: GitRepository, name: {name}}}}}\n"
        )
    };
    let own =
        source("own", "https://git.example.com/fleet", "{branch: main}") + &kustomization("own", "./flux");
    let of = |reference: &str| source("shop", &address, reference) + &kustomization("shop", "./deploy");
    let repo = clusters_repo()
        .file("federate.yaml", "sources: [{flux: 'flux'}]\n")
        .file("flux/own.yaml", own)
        .file("flux/shop.yaml", of("{semver: 1.x}"));
    repo.write(".gitignore", "/.home/\n/.cache/\n/out/\n");
    let refused = run(&tools, &repo, "render --out out").code(2);
    assert!(refused.err.contains("has the range of versions `1.x`"), "{}", refused.err);
    repo.write("flux/shop.yaml", of("{tag: v1}"));
    let refused = run(&tools, &repo, "render --out out").code(2);
    assert!(refused.err.contains("//deploy at v1 is not vendored"), "{}", refused.err);
    run(&tools, &repo, "vendor").code(0);
    let locked = &lock(&repo)["bases"][0];
    assert_eq!(locked["usedBy"], json!(["Kustomization flux-system/shop"]));
    let files = repo.files(locked["path"].as_str().unwrap());
    assert_eq!(files, ["deploy/more/notes.txt", "deploy/web.yaml"]);
    assert_eq!(run(&tools, &repo, "render --out out").code(0).err, "");
    assert!(rendered(&repo, "m1").contains_key("\"Deployment\" \"web\""));
    run(&tools, &repo, "vendor --check").code(0);
}

#[test]
fn bases_are_vendored_and_built_and_what_they_do_not_name_stays_out() {
    let Some(tools) = Tools::find(true, false) else { return };
    let remote = Sandbox::new()
        .file("config/prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\n")
        .file("config/base/kustomization.yaml", "resources: [web.yaml]\n")
        .file("config/base/web.yaml", crate::sandbox::WEB)
        .file("config/base/other.yaml", "not: named\n")
        .file("config/far/kustomization.yaml", "resources: [https://h/a.git//b]\n");
    remote.git("init -q -b main");
    remote.git("add -A");
    remote.git("commit -q -m first");
    let first = remote.git("rev-parse HEAD").trim().to_owned();
    remote.git("clone -q --bare . shop.git");
    let address = format!("file://{}", remote.path("shop.git").display());
    let kustomization =
        |folder: &str| format!("resources: ['{address}//{folder}?ref=main']\nnameSuffix: -eu\n");
    let repo = clusters_repo()
        .file("federate.yaml", "sources: [{kustomize: apps/web}]\n")
        .file("apps/web/kustomization.yaml", kustomization("config/prod"));
    repo.write(".gitignore", "/.home/\n/.cache/\n/out/\n");
    let refused = run(&tools, &repo, "render --out out").code(2);
    assert!(refused.err.contains("apps/web/kustomization.yaml:1"), "{}", refused.err);
    assert!(refused.err.contains("//config/prod at main is not vendored"), "{}", refused.err);
    assert!(refused.err.contains("run `federate vendor`"), "{}", refused.err);
    run(&tools, &repo, "vendor --check").code(1);
    run(&tools, &repo, "vendor").code(0);
    let locked = &lock(&repo)["bases"][0];
    assert_eq!(
        (&locked["version"], &locked["usedBy"]),
        (&json!(first), &json!(["apps/web/kustomization.yaml"]))
    );
    assert_eq!(locked["path"], json!(format!("vendor/bases/shop/{}", &first[..12])));
    let files = repo.files(&format!("vendor/bases/shop/{}", &first[..12]));
    assert_eq!(
        files,
        ["config/base/kustomization.yaml", "config/base/web.yaml", "config/prod/kustomization.yaml"]
    );
    let ran = run(&tools, &repo, "render --out out").code(0);
    assert_eq!(ran.err, "");
    assert!(rendered(&repo, "m1").contains_key("\"Deployment\" \"prod-web-eu\""));
    // The branch moves: only an update follows it.
    repo.git("init -q -b main");
    repo.git("add -A");
    repo.git("commit -q -m first");
    remote.write("config/base/web.yaml", crate::sandbox::WEB.replace("replicas: 4", "replicas: 5"));
    remote.git("commit -q -a -m second");
    remote.git("push -q shop.git main");
    assert!(run(&tools, &repo, "vendor").code(0).out.contains("unchanged"));
    run(&tools, &repo, "vendor --update").code(0);
    let diff = run(&tools, &repo, "diff --from HEAD").code(1);
    assert!(diff.out.contains("prod-web-eu"), "{}", diff.out);
    assert_eq!(repo.files("vendor/bases").len(), 3);
    repo.write("vendor/bases/shop/x", "");
    run(&tools, &repo, "vendor --check").code(0);
    // What the base itself lacks, or must not have.
    for (folder, expected) in [
        ("config/far", "config/far/kustomization.yaml:1: the base https://h/a.git//b"),
        ("none", "it has no folder `none`"),
    ] {
        repo.write("apps/web/kustomization.yaml", kustomization(folder));
        let ran = run(&tools, &repo, "vendor").code(2);
        assert!(
            ran.err.contains("was downloaded, and is refused") && ran.err.contains(expected),
            "{}",
            ran.err
        );
    }
    for written in ["https://user:hunter2@h/a.git//b", "https://h/a//b?ref=--upload-pack=hunter2"] {
        repo.write("apps/web/kustomization.yaml", format!("resources: ['{written}']\n"));
        for line in ["vendor", "render --out out"] {
            let ran = run(&tools, &repo, line).code(2);
            assert!(
                ran.err.contains("apps/web/kustomization.yaml:1") && !ran.err.contains("hunter2"),
                "{}",
                ran.err
            );
        }
    }
}
