//! Objects of Flux and Argo CD that build others, which are followed to the leaves.

use serde_json::json;

use crate::builds::{CHART, Tools, objects};
use crate::sandbox::{Sandbox, WEB};

/// A Kustomization of Flux.
fn kustomization(name: &str, path: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\nspec:\n  \
         interval: 10m\n  path: {path}\n  prune: true\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{more}---\n"
    )
}

/// A repo with the layout of `flux bootstrap`: a folder for each cluster, and what they share.
fn bootstrapped() -> Sandbox {
    let mut repo = Sandbox::new().file(
        "federate.yaml",
        "clusters: [{name: eu}, {name: us}]\nsources: [{flux: 'clusters/{cluster}'}]\n",
    );
    for (cluster, tier) in [("eu", "gold"), ("us", "silver")] {
        let vars = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: vars, namespace: flux-system}}\ndata: {{tier: {tier}, folder: api}}\n"
        );
        let sync = kustomization("flux-system", &format!("./clusters/{cluster}"), "");
        let substitute = "  postBuild: {substituteFrom: [{kind: ConfigMap, name: vars}]}\n";
        repo = repo
            .file(&format!("clusters/{cluster}/flux-system/gotk-sync.yaml"), sync)
            .file(
                &format!("clusters/{cluster}/flux-system/kustomization.yaml"),
                "resources: [gotk-sync.yaml]\n",
            )
            .file(&format!("clusters/{cluster}/vars.yaml"), vars)
            .file(&format!("clusters/{cluster}/apps.yaml"), kustomization("apps", "./apps", substitute));
    }
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: api, namespace: shop}\nspec:\n  interval: 1m\n  \
                   chart: {spec: {chart: './charts/${folder}', sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}\n  \
                   values: {tier: '${tier}'}\n";
    repo.file("apps/release.yaml", release)
        .file("apps/more.yaml", kustomization("more", "./more", ""))
        .file("more/web.yaml", WEB)
        .file("charts/api/Chart.yaml", CHART)
        .file(
            "charts/api/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {tier: {{ .Values.tier }}}\n",
        )
}

#[test]
fn each_cluster_receives_what_its_folder_leads_to() {
    let Some(tools) = Tools::find(true, true) else { return };
    let repo = bootstrapped();
    let ran = tools.run(&repo, "render --out out").code(0);
    assert_eq!(ran.err, "");
    for (cluster, tier) in [("eu", "gold"), ("us", "silver")] {
        assert_eq!(
            repo.files(&format!("out/{cluster}")),
            ["flux-system/configmap_vars.yaml", "shop/configmap_api.yaml", "shop/deployment.apps_web.yaml"]
        );
        let map = objects(&repo.read(&format!("out/{cluster}/shop/configmap_api.yaml")));
        assert_eq!(map.into_values().next().unwrap()["data"], json!({ "tier": tier }));
    }
    // No policy is needed: the folder is the placement, and where it ends, so does the object.
    std::fs::remove_file(repo.path("clusters/us/apps.yaml")).unwrap();
    tools.run(&repo, "render --out out2").code(0);
    assert_eq!(repo.files("out2/us"), ["flux-system/configmap_vars.yaml"]);
    let explained = tools.run(&repo, "explain deployment/web").code(0).out;
    let chain = "Built by\n  Kustomization flux-system/apps → Kustomization flux-system/more\n";
    assert!(explained.contains(chain), "{explained}");
    assert!(explained.contains("its source is for some clusters only"), "{explained}");
    assert!(explained.contains("eu") && explained.contains("its source is not built for it"), "{explained}");
}

#[test]
fn what_flux_would_refuse_in_a_tree_is_named() {
    let Some(tools) = Tools::find(true, true) else { return };
    let repo = bootstrapped();
    // What waits for each other.
    let waits = |name: &str| format!("  dependsOn: [{{name: {name}}}]\n");
    repo.write(
        "apps/more.yaml",
        kustomization("more", "./more", &waits("last")) + &kustomization("last", "./more", &waits("more")),
    );
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(ran.err.contains("error[dependency-cycle]"), "{}", ran.err);
    assert!(
        ran.err.contains(
            "Kustomization flux-system/last → Kustomization flux-system/more → Kustomization flux-system/last"
        ) || ran.err.contains(
            "Kustomization flux-system/more → Kustomization flux-system/last → Kustomization flux-system/more"
        ),
        "{}",
        ran.err
    );
    // A folder that a built object names, with the line where it is written.
    repo.write("apps/more.yaml", kustomization("more", "./none", ""));
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(
        ran.err.contains("`none` is not a folder of the repo") && ran.err.contains("apps/more.yaml:"),
        "{}",
        ran.err
    );
    // Several clusters in one folder.
    repo.write("federate.yaml", "clusters: [{name: eu}, {name: us}]\nsources: [{flux: clusters}]\n");
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(
        ran.err.contains("if each folder in `clusters` is that of a cluster, write `clusters/{cluster}`"),
        "{}",
        ran.err
    );
    repo.write("federate.yaml", "clusters: [{name: eu}, {name: us}]\nsources: [{flux: 'fleet/{cluster}'}]\n");
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(ran.err.contains("no cluster of the inventory has a folder `fleet/{cluster}`"), "{}", ran.err);
}

#[test]
fn applications_of_an_application_are_followed() {
    let Some(tools) = Tools::find(true, true) else { return };
    let application = |name: &str, path: &str, cluster: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}, namespace: argocd}}\nspec:\n  project: default\n  \
             destination: {{{cluster}, namespace: shop}}\n  source: {{repoURL: https://example.com/r.git, path: {path}}}\n"
        )
    };
    let repo = Sandbox::new()
        .file(
            "federate.yaml",
            "clusters: [{name: eu}, {name: us}]\nargocd: {cluster: us}\nsources: [{argocd: root.yaml}]\n",
        )
        .file("root.yaml", application("root", "apps", "server: https://kubernetes.default.svc"))
        .file("apps/web.yaml", application("web", "web", "name: eu"))
        .file("apps/own.yaml", application("own", "own", "name: in-cluster"))
        .file("web/web.yaml", WEB)
        .file("own/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own, namespace: ops}\n");
    let ran = tools.run(&repo, "render --out out").code(0);
    assert_eq!(ran.err, "");
    assert_eq!(repo.files("out/eu"), ["shop/deployment.apps_web.yaml"]);
    assert_eq!(repo.files("out/us"), ["ops/configmap_own.yaml"]);
    // A parent with nothing else than Applications needs not to know its cluster, a child with objects does.
    repo.write("federate.yaml", "clusters: [{name: eu}, {name: us}]\nsources: [{argocd: root.yaml}]\n");
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(ran.err.contains("Application argocd/own") && ran.err.contains("argocd.cluster"), "{}", ran.err);
    assert!(!ran.err.contains("Application argocd/root"), "{}", ran.err);
}
