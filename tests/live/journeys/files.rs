//! The pages about repos, sources, branches and registries.

use std::fs;
use std::path::Path;

use super::reader::{Reader, has_program, text_of};
use crate::chart_server::ChartServer;
use crate::registry::Registry;

const CLUSTERS: &str = "clusters: [{name: eu-1}, {name: us-1}]\n";

const MAP: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: shop}\ndata: {a: b}\n";

/// A repo without a control plane, whose folders `staging` and `prod` are repos of their own.
fn environments() -> Reader {
    let everywhere = format!("unplaced: everywhere\n{CLUSTERS}");
    Reader::with_files(&[
        ("deploy/federate.yaml", &everywhere),
        ("deploy/map.yaml", MAP),
        ("deploy/.federateignore", "staging/\nprod/\n"),
        ("deploy/staging/federate.yaml", &everywhere),
        ("deploy/staging/map.yaml", MAP),
        ("deploy/prod/federate.yaml", &everywhere),
        ("deploy/prod/map.yaml", MAP),
    ])
}

fn list_branches(reader: &Reader) -> String {
    text_of(&reader.run("git -C origin.git branch --format='%(refname:short)'"))
}

#[test]
fn the_readme() {
    let reader = Reader::with_examples();
    reader.follow("README.md", &[("cargo run --release --locked --", "federate")]);
    reader.holds(&["out/eu-1/shop/deployment.apps_storefront.yaml"]);
}

#[test]
fn the_readmes_of_the_examples() {
    let reader = Reader::with_examples();
    let own = [("cargo run --release --", "federate"), ("/tmp/", "work/")];
    reader.succeed("mkdir work");
    reader.follow("examples/repo/README.md", &own);
    reader.follow("examples/kubefed/README.md", &[]);
    reader.follow("examples/lost-region/README.md", &[]);
}

#[test]
fn the_guide_for_argo_cd() {
    let (reader, registry) = (environments(), Registry::start());
    let address = format!("--plain-http oci://{}/", registry.host());
    reader.follow("docs/guides/argo-cd.md", &[("oci://registry.example.com/", &address)]);
    let branches = list_branches(&reader);
    for branch in ["rendered", "env/prod-next", "env/staging-next"] {
        assert!(branches.lines().any(|one| one == branch), "{branches}");
    }
    assert!(registry.tags().contains(&"acme/fleet/eu-1:latest".to_owned()), "{:?}", registry.tags());
}

#[test]
fn the_guide_for_flux() {
    let (reader, registry) = (environments(), Registry::start());
    let address = format!("--plain-http oci://{}/", registry.host());
    reader.follow("docs/guides/flux.md", &[("oci://registry.example.com/", &address)]);
    assert!(registry.tags().contains(&"acme/fleet/plan:latest".to_owned()), "{:?}", registry.tags());
}

#[test]
fn the_guide_for_previews() {
    let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: web, namespace: shop}\n\
                  spec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], placement: {clusterAffinity: {clusterNames: [eu-1]}}}\n";
    let reader = Reader::with_files(&[
        ("deploy/federate.yaml", CLUSTERS),
        ("deploy/policy.yaml", policy),
        ("deploy/web.yaml", crate::snapshot::WEB),
    ]);
    reader.succeed("git switch -q -c change && sed -i 's/replicas: 8/replicas: 9/' deploy/web.yaml");
    reader.follow("docs/guides/preview-a-pull-request.md", &[("NAME", "web")]);
    reader.holds(&["base.json"]);
}

#[test]
fn the_page_about_the_parts_of_a_repo() {
    let reader = Reader::with_files(&[
        ("federate.yaml", &format!("unplaced: everywhere\n{CLUSTERS}")),
        ("shared/namespace.yaml", MAP.split("---\n").next().unwrap()),
        ("envs/prod/map.yaml", MAP.split("---\n").nth(1).unwrap()),
    ]);
    reader.follow("docs/reference/repo.md", &[]);
}

#[test]
fn the_guide_for_an_upgrade() {
    let reader = Reader::with_examples();
    reader.succeed("mv examples/repo work && rm -r examples && mv work/* . && rm -r work");
    reader.share_folder();
    reader.succeed("federate commit . --branch rendered -q");
    reader.follow("docs/guides/upgrade-the-control-plane.md", &[]);
}

#[test]
fn the_page_about_the_loop() {
    if has_program("kubectl") {
        let reader = Reader::new("hub", MAP);
        fs::write(reader.path("deploy/federate.yaml"), format!("unplaced: everywhere\n{CLUSTERS}")).unwrap();
        reader.succeed("git add -A && git commit -q -m clusters && git push -q");
        let sync = "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {name: shop}\nspec:\n  \
                    source: {url: origin.git, ref: {branch: main}, path: deploy}\n  interval: 1m\n  commit: {branch: rendered}\n";
        fs::write(reader.path("sync.yaml"), sync).unwrap();
        reader.succeed("git add -A && git commit -q -m sync");
        copy_installation(&reader);
        reader.follow("docs/sync.md", &INSTALL_UNCHECKED);
        assert!(list_branches(&reader).contains("rendered"));
    }
}

/// The API server for tests serves no `OpenAPI` document of version 2, with which `kubectl` checks objects, and does not read
/// protobuf, in which Helm stores releases: of an installation, Helm prints the objects.
const INSTALL_UNCHECKED: [(&str, &str); 2] =
    [("kubectl apply", "kubectl apply --validate=false"), ("helm install", "helm template")];

/// Adds the folders of the project that its pages install from.
fn copy_installation(reader: &Reader) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    reader.succeed(&format!("mkdir -p deploy && cp -r {}/* deploy/", folder.display()));
}

#[test]
fn the_guide_for_tenants() {
    if has_program("kubectl") && has_program("helm") {
        let reader = Reader::new("hub", MAP);
        reader.succeed("rm -r deploy");
        copy_installation(&reader);
        reader.follow("docs/guides/tenants.md", &INSTALL_UNCHECKED);
    }
}

const KUSTOMIZATION: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps, namespace: flux-system}\n\
    spec: {path: ./apps, prune: true, interval: 10m, sourceRef: {kind: GitRepository, name: flux-system}}\n";

/// A repo as `flux bootstrap` makes it.
fn flux_repo(apps: &[(&str, &str)]) -> Reader {
    let files = [
        ("clusters/prod/apps.yaml", KUSTOMIZATION),
        ("clusters/staging/apps.yaml", KUSTOMIZATION),
        ("apps/map.yaml", MAP),
    ];
    Reader::with_files(&[&files[..], apps].concat())
}

#[test]
fn the_guide_from_other_renderers() {
    if has_program("kubectl") {
        let reader = flux_repo(&[]);
        reader.follow("docs/guides/from-other-renderers.md", &[]);
        reader.holds(&["federate.yaml"]);
    }
}

#[test]
fn the_guide_to_vendor() {
    if has_program("kubectl") && has_program("helm") {
        let charts = ChartServer::start();
        let release = format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: flux-system}}\n\
             spec: {{url: '{}'}}\n---\n\
             apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: podinfo, namespace: shop}}\n\
             spec:\n  interval: 10m\n  chart: {{spec: {{chart: podinfo, version: 6.x, \
             sourceRef: {{kind: HelmRepository, name: charts, namespace: flux-system}}}}}}\n",
            charts.address
        );
        let sources = "clusters: [{name: prod}, {name: staging}]\nsources: [{flux: 'clusters/{cluster}'}]\n";
        let reader = flux_repo(&[
            ("federate.yaml", sources),
            (".cache/podinfo/Chart.yaml", "apiVersion: v2\nname: podinfo\nversion: 6.5.4\n"),
            (
                ".cache/podinfo/templates/map.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: podinfo}\n",
            ),
        ]);
        reader.succeed("helm package .cache/podinfo --destination .cache");
        let package = fs::read(reader.path(".cache/podinfo-6.5.4.tgz")).unwrap();
        charts.publish_packages(&[("podinfo", "6.5.4", package)]);
        fs::write(reader.path("apps/podinfo.yaml"), release).unwrap();
        reader.succeed("git switch -q -c change && git add -A && git commit -q -m podinfo");
        reader.follow("docs/guides/vendor.md", &[]);
        reader.holds(&["vendor/federate.lock.yaml", "vendor/charts/podinfo/6.5.4/Chart.yaml"]);
    }
}
