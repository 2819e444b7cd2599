//! Kustomizations and charts that federate builds with the programs of the machine. Where a program is missing, its tests say
//! so and pass.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::sandbox::{Ran, Sandbox, WEB};

/// Two clusters that serve every API.
pub(crate) const CLUSTERS: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1, labels: {env: prod}}
spec: {region: eu}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m2}
spec: {region: us}
";

/// A policy that places everything that the tests build.
pub(crate) const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: all}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap}
  - {apiVersion: v1, kind: Secret}
  - {apiVersion: v1, kind: Service}
  - {apiVersion: batch/v1, kind: Job}
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}
  placement: {}
";

pub(crate) const CHART: &str = "apiVersion: v2\nname: api\nversion: 1.0.0\n";

/// A template of a chart with a value.
const MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-map
data:
  size: {{ .Values.size | quote }}
  version: {{ .Capabilities.KubeVersion.Minor | quote }}
";

/// The path of a program on this machine.
pub(crate) fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
}

/// The programs for tests.
pub(crate) struct Tools {
    pub(crate) kustomize: Option<PathBuf>,
    pub(crate) helm: Option<PathBuf>,
}

impl Tools {
    /// `None`, with a message, where one is missing that a test needs.
    pub(crate) fn find(kustomize: bool, helm: bool) -> Option<Self> {
        let tools =
            Self { kustomize: find_program(&["kustomize", "kubectl"]), helm: find_program(&["helm"]) };
        let missing = (kustomize && tools.kustomize.is_none()) || (helm && tools.helm.is_none());
        if missing {
            #[allow(clippy::print_stderr, reason = "whoever runs the tests must know")]
            {
                eprintln!("skipped: this machine lacks kustomize, kubectl or helm");
            }
            return None;
        }
        Some(tools)
    }

    /// Runs federate with these programs and a cache of its own.
    pub(crate) fn run(&self, repo: &Sandbox, line: &str) -> Ran {
        Ran::of(self.command(repo, line).output().unwrap(), &repo.path("."))
    }

    /// The command with these programs and a cache of its own.
    pub(crate) fn command(&self, repo: &Sandbox, line: &str) -> Command {
        let mut command = repo.command(line);
        for (name, path) in [("FEDERATE_KUSTOMIZE", &self.kustomize), ("FEDERATE_HELM", &self.helm)] {
            if let Some(path) = path {
                command.env(name, path);
            }
        }
        command.env("FEDERATE_CACHE_DIR", repo.path(".cache"));
        command
    }

    /// How many builds the cache has.
    pub(crate) fn count_builds(repo: &Sandbox) -> usize {
        std::fs::read_dir(repo.path(".cache/builds")).map_or(0, Iterator::count)
    }
}

pub(crate) fn clusters_repo() -> Sandbox {
    Sandbox::new().file("clusters.yaml", CLUSTERS).file("policy.yaml", POLICY)
}

fn chart_repo(sources: &str) -> Sandbox {
    clusters_repo()
        .file("api/Chart.yaml", CHART)
        .file("api/values.yaml", "size: small\n")
        .file("api/templates/map.yaml", MAP)
        .file("federate.yaml", format!("sources:\n{sources}"))
}

/// The objects in a stream of documents, by kind and name, without what federate adds.
pub(crate) fn objects(text: &str) -> BTreeMap<String, serde_json::Value> {
    let documents = federate_yaml::read_stream(text.as_bytes()).documents.into_iter();
    documents
        .map(|document| document.value)
        .filter(serde_json::Value::is_object)
        .map(|mut value| {
            let name = format!("{} {}", value["kind"], value["metadata"]["name"]);
            value["metadata"].as_object_mut().unwrap().remove("namespace");
            (name, value)
        })
        .collect()
}

/// The objects that a cluster receives.
pub(crate) fn rendered(repo: &Sandbox, cluster: &str) -> BTreeMap<String, serde_json::Value> {
    let files = repo.files(&format!("out/{cluster}"));
    files.iter().flat_map(|file| objects(&repo.read(&format!("out/{cluster}/{file}")))).collect()
}

#[test]
fn kustomizations_are_built_without_being_named() {
    let Some(tools) = Tools::find(true, false) else { return };
    let repo = clusters_repo()
        .file("base/kustomization.yaml", "resources: [web.yaml]\n")
        .file("base/web.yaml", WEB)
        .file(
            "app/kustomization.yaml",
            "resources: [../base]\nnamePrefix: eu-\ncommonAnnotations: {a: b}\nimages: [{name: nginx, newTag: \"9\"}]\n\
             configMapGenerator: [{name: conf, files: [conf.txt]}]\npatches: [{path: patch.yaml}]\n",
        )
        .file("app/conf.txt", "hello\n")
        .file("app/unlisted.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: u}\n")
        .file("app/patch.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 7}\n");
    tools.run(&repo, "render --out out").code(2);
    std::fs::remove_file(repo.path("app/unlisted.yaml")).unwrap();
    let ran = tools.run(&repo, "render --out out").code(0);
    assert_eq!(ran.err, "");
    let program = tools.kustomize.as_ref().unwrap();
    let command = if program.ends_with("kustomize") { "build" } else { "kustomize" };
    let own = Command::new(program).args([command, "app"]).current_dir(repo.path(".")).output().unwrap();
    assert_eq!(rendered(&repo, "m1"), objects(&String::from_utf8(own.stdout).unwrap()));
    let explain = tools.run(&repo, "explain deployment/eu-web").code(0);
    assert!(explain.out.contains("base/web.yaml:1"), "{}", explain.out);
    repo.write(
        "named.yaml",
        POLICY
            .replace("name: all", "name: named")
            .replace("kind: ConfigMap}", "kind: ConfigMap, name: eu-conf}"),
    );
    let check = tools.run(&repo, "check");
    assert!(
        check.out.contains("warning[unbuilt-name]")
            && check.out.contains("names ConfigMap `eu-conf`, which kustomize builds as `eu-conf-"),
        "{}",
        check.out
    );
    std::fs::remove_file(repo.path("named.yaml")).unwrap();
    // Nothing is built again, also after an edit elsewhere.
    assert_eq!(Tools::count_builds(&repo), 1);
    repo.write(
        "plain.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: plain}\nspec: {ports: [{port: 1}]}\n",
    );
    tools.run(&repo, "render --out out").code(0);
    assert_eq!(Tools::count_builds(&repo), 1);
}

#[test]
fn roots_that_build_one_object_place_nothing_of_it() {
    let Some(tools) = Tools::find(true, false) else { return };
    let mut repo =
        clusters_repo().file("base/kustomization.yaml", "resources: [web.yaml]\n").file("base/web.yaml", WEB);
    for cluster in ["m1", "m2"] {
        let text = format!(
            "resources: [../../base]\npatches:\n- target: {{kind: Deployment}}\n  patch: |-\n    - op: replace\n      path: /spec/template/spec/containers/0/image\n      value: {cluster}\n"
        );
        repo = repo.file(&format!("clusters/{cluster}/kustomization.yaml"), text);
    }
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(
        ran.err.contains("error[not-built]: ClusterPropagationPolicy all would place Deployment shop/web"),
        "{}",
        ran.err
    );
    let proposed = "sources: [{kustomize: clusters/m1, perCluster: \"clusters/{cluster}\"}]";
    assert!(ran.err.contains(proposed), "{}", ran.err);
    repo.write("federate.yaml", format!("{proposed}\n"));
    assert_eq!(tools.run(&repo, "render --out out").code(0).err, "");
    for cluster in ["m1", "m2"] {
        let text = repo.read(&format!("out/{cluster}/shop/deployment.apps_web.yaml"));
        assert!(text.contains(&format!("image: {cluster}")), "{text}");
    }
}

#[test]
fn charts_have_values_for_each_cluster() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = chart_repo(
        "- chart: api\n  release: shop\n  namespace: store\n  values: [values/common.yaml]\n  set: {extra: {on: true}}\n  perCluster:\n  \
         - clusters: {matchLabels: {env: prod}}\n    values: [values/prod.yaml]\n  - values: [\"values/{cluster}.yaml?\"]\n",
    )
    .file("values/common.yaml", "size: medium\n")
    .file("values/prod.yaml", "size: large\n")
    .file("api/templates/only.yaml", "{{ if eq .Values.size \"large\" }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: only}\n{{ end }}\n")
    .file("api/templates/tests/t.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\n");
    assert_eq!(tools.run(&repo, "render --out out").code(0).err, "");
    assert_eq!(repo.files("out/m1"), ["store/configmap_only.yaml", "store/configmap_shop-map.yaml"]);
    assert_eq!(repo.files("out/m2"), ["store/configmap_shop-map.yaml"]);
    assert!(repo.read("out/m1/store/configmap_shop-map.yaml").contains("size: large"));
    assert!(repo.read("out/m2/store/configmap_shop-map.yaml").contains("size: medium"));
    assert_eq!(Tools::count_builds(&repo), 2, "one build for each distinct input");
    repo.write("values/m2.yaml", "size: tiny\n");
    tools.run(&repo, "render --out out").code(0);
    assert!(repo.read("out/m2/store/configmap_shop-map.yaml").contains("size: tiny"));
    assert_eq!(Tools::count_builds(&repo), 3);
    // Without a checkout, and compared.
    repo.write(".gitignore", ".cache/\nout*/\n");
    for line in ["init -q -b main", "add -A", "commit -q -m first"] {
        repo.git(line);
    }
    repo.write("values/prod.yaml", "size: huge\n");
    let diff = tools.run(&repo, "diff --from HEAD").code(1);
    assert!(
        diff.out.contains("large") && diff.out.contains("huge") && !diff.out.contains("tiny"),
        "{}",
        diff.out
    );
    tools.run(&repo, "render --rev HEAD --out out2").code(0);
    assert!(repo.read("out2/m1/store/configmap_shop-map.yaml").contains("size: large"));
}

#[test]
fn the_version_of_the_cluster_is_that_of_the_chart() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = chart_repo("- chart: api\n");
    repo.write("federate.yaml", "sources: [{chart: api}]\nclusters:\n- {name: a, kubernetesVersion: \"1.29\"}\n- {name: b, kubernetesVersion: \"1.31\"}\nunplaced: everywhere\n");
    std::fs::remove_file(repo.path("clusters.yaml")).unwrap();
    std::fs::remove_file(repo.path("policy.yaml")).unwrap();
    tools.run(&repo, "render --out out").code(0);
    assert!(repo.read("out/a/default/configmap_api-map.yaml").contains("version: \"29\""));
    assert!(repo.read("out/b/default/configmap_api-map.yaml").contains("version: \"31\""));
}

#[test]
fn a_missing_program_is_one_finding_and_the_rest_is_placed() {
    let repo = chart_repo("- chart: api\n").file("web.yaml", WEB);
    let ran = repo.run("render --out out --keep-going").code(2);
    assert_eq!(
        ran.err.matches("error[missing-program]: the chart `api` cannot be built").count(),
        1,
        "{}",
        ran.err
    );
    assert!(ran.err.contains("federate.yaml:2:3"), "{}", ran.err);
    assert_eq!(repo.files("out/m1"), ["shop/deployment.apps_web.yaml"]);
}

#[test]
fn wrong_sources_are_named_with_their_line() {
    let Some(tools) = Tools::find(false, true) else { return };
    for (source, expected) in [
        ("- chart: ../api\n", "federate.yaml:2:3"),
        ("- chart: api\n  values: [https://example.com/v.yaml]\n", "federate.yaml:3:12"),
        ("- chart: api\n  values: [../../../etc/passwd]\n", "is outside of the repo"),
        ("- chart: api\n  values: [missing.yaml]\n", "end the path in `?`"),
        ("- chart: api\n  release: --post-renderer\n", "is not the name of a release"),
        ("- chart: none\n", "`none` is not in the repo"),
        ("- chart: api\n  skipcrds: true\n", "unknown field `skipcrds`"),
    ] {
        let repo = chart_repo(source);
        let ran = tools.run(&repo, "render --out out").code(2);
        assert!(ran.err.contains(expected), "{source}: {}", ran.err);
        assert_eq!(Tools::count_builds(&repo), 0, "{source}");
    }
    let repo = chart_repo("- chart: api\n").file("api/templates/bad.yaml", "a: b\n---\n{{ fail \"no\" }}\n");
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(ran.err.contains("api/templates/bad.yaml:3"), "{}", ran.err);
    let repo = chart_repo("- chart: api\n").file(
        "api/Chart.yaml",
        format!(
            "{CHART}dependencies: [{{name: redis, version: 1.0.0, repository: \"https://example.com\"}}]\n"
        ),
    );
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(ran.err.contains("helm dependency build api"), "{}", ran.err);
}

#[test]
fn charts_that_draw_random_values_or_look_up_objects_are_named() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = chart_repo("- chart: api\n").file(
        "api/templates/secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a: {{ randAlphaNum 10 }}\n  b: {{ (lookup \"v1\" \"Secret\" \"a\" \"b\") | toJson | quote }}\n",
    );
    let ran = tools.run(&repo, "render --out out -v").code(0);
    assert!(ran.err.contains("warning[build-differs]") && ran.err.contains("`randAlphaNum`"), "{}", ran.err);
    assert!(ran.err.contains("warning[build-lookup]"), "{}", ran.err);
    assert!(ran.err.contains("api/templates/secret.yaml:5"), "{}", ran.err);
    let text = repo.read("out/m1/default/secret_s.yaml");
    tools.run(&repo, "render --out out").code(0);
    assert_eq!(repo.read("out/m1/default/secret_s.yaml"), text, "what was built first is kept");
}

#[test]
fn hostile_kustomizations_are_refused_before_anything_starts() {
    let Some(tools) = Tools::find(true, false) else { return };
    let function = "apiVersion: example.com/v1\nkind: Tool\nmetadata: {name: t, annotations: {config.kubernetes.io/function: \"exec: {path: ./x}\"}}\n";
    for (text, expected) in [
        ("resources: [../../../outside]\n", "`../../../outside` is outside of the repo"),
        ("resources: [/etc/passwd]\n", "`/etc/passwd` is outside of the repo"),
        ("resources: [https://example.com/a.yaml]\n", "curl -Lo a.yaml https://example.com/a.yaml"),
        ("resources: [\"github.com/a/b?ref=v1\"]\n", "is not vendored"),
        ("configMapGenerator: [{name: a, files: [../../../../etc/passwd]}]\n", "is outside of the repo"),
        ("configMapGenerator: [{name: a, files: [link]}]\n", "`app/link` is a link"),
        ("resources: [folder/a.yaml]\n", "`app/folder/a.yaml` is not in the repo"),
        ("generators: [plugin.yaml]\n", "Tool is a plugin that runs a program or an image"),
        (
            "transformers:\n- |-\n  apiVersion: example.com/v1\n  kind: Tool\n  metadata: {name: t}\n",
            "Tool is a plugin",
        ),
        (
            "helmCharts: [{name: a, repo: \"https://example.com\"}]\n",
            "list the chart in federate.yaml: `sources: [{chart: vendor/charts/NAME/VERSION}]`",
        ),
        ("resources: [missing.yaml]\n", "`app/missing.yaml` is not in the repo"),
    ] {
        let repo = clusters_repo()
            .file("federate.yaml", "sources: [{kustomize: app}]\n")
            .file("app/kustomization.yaml", text)
            .file("app/plugin.yaml", function);
        std::os::unix::fs::symlink("/etc/passwd", repo.path("app/link")).unwrap();
        std::os::unix::fs::symlink("/etc", repo.path("app/folder")).unwrap();
        let ran = tools.run(&repo, "render --out out").code(2);
        assert!(ran.err.contains(expected), "{text}: {}", ran.err);
        let file = if text.contains("plugin.yaml") { "app/plugin.yaml:1" } else { "app/kustomization.yaml:" };
        assert!(ran.err.contains(file), "{text}: {}", ran.err);
        assert!(!ran.err.contains("root:x"), "{text}: {}", ran.err);
        assert_eq!(Tools::count_builds(&repo), 0, "{text}");
    }
}

#[test]
fn hostile_charts_meet_limits() {
    let Some(tools) = Tools::find(false, true) else { return };
    let output = "{{ $x := repeat 1000000 \"x\" }}{{ range until 200 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"c{{ . }}\"}\ndata: {a: {{ $x }}}\n{{ end }}\n";
    let recursion = "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}\n";
    let read = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ .Files.Get \"link\" | quote }}}\n";
    let loops = "{{ range untilStep 0 100000000 1 }}{{ end }}\n";
    let memory = "{{ $x := repeat 1000000000 \"xxxxxxxx\" }}{{ len $x }}\n";
    for (template, expected) in [
        (output, "error[build-limit]: the chart `api` cannot be built: `helm`"),
        (recursion, "cannot be built"),
        (loops, "cannot be built"),
        (memory, "cannot be built"),
        (read, ""),
    ] {
        let repo = chart_repo("- chart: api\n").file("api/templates/bad.yaml", template);
        std::os::unix::fs::symlink("../clusters.yaml", repo.path("api/link")).unwrap();
        let ran = tools.run(&repo, "render --out out -v");
        if expected.is_empty() {
            assert!(ran.err.contains("warning[build-link]"), "{}", ran.err);
            assert!(repo.read("out/m1/default/configmap_a.yaml").contains("a: \"\""));
        } else {
            assert!(ran.err.contains(expected), "{template}: {}", ran.err);
        }
    }
    let repo = clusters_repo()
        .file("federate.yaml", "sources: [{chart: \"--post-renderer=x\", release: a}]\n")
        .file("--post-renderer=x/Chart.yaml", CHART)
        .file("--post-renderer=x/templates/map.yaml", MAP);
    tools.run(&repo, "render --out out").code(0);
    assert_eq!(repo.files("out/m1"), ["default/configmap_a-map.yaml"]);
}
