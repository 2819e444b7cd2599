//! Objects of Flux and Argo CD that `federate.yaml` names as sources.

use std::collections::BTreeMap;

use serde_json::json;

use crate::builds::{CHART, POLICY, Tools, clusters_repo, objects, rendered};
use crate::sandbox::{Sandbox, WEB};

const MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {domain: \"${domain:=none}.example.com\", tier: \"${tier}\", raw: \"$${raw}\"}
";

const KUSTOMIZATION: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec:
  interval: 10m
  path: ./apps
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
  targetNamespace: shop
  nameSuffix: -eu
  images: [{name: nginx, newTag: \"9\"}]
  patches:
  - target: {kind: Deployment}
    patch: |-
      - {op: replace, path: /spec/replicas, value: 6}
  commonMetadata: {labels: {team: web}, annotations: {note: a}}
  postBuild:
    substitute: {domain: eu}
    substituteFrom:
    - {kind: ConfigMap, name: cluster-vars}
    - {kind: ConfigMap, name: none, optional: true}
";

const VARIABLES: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-vars, namespace: flux-system, annotations: {config.kubernetes.io/local-config: \"true\"}}
data: {domain: overridden, tier: gold}
";

/// A folder of files without a kustomization, and a subfolder with one.
fn flux_repo(kustomization: &str) -> Sandbox {
    clusters_repo()
        .file("federate.yaml", "sources: [{flux: clusters/prod.yaml}]\n")
        .file("clusters/prod.yaml", kustomization)
        .file("clusters/vars.yaml", VARIABLES)
        .file("apps/web.yaml", WEB)
        .file("apps/sub/kustomization.yaml", "resources: [map.yaml]\n")
        .file("apps/sub/map.yaml", MAP)
}

#[test]
fn a_kustomization_of_flux_is_built_with_what_its_controller_changes() {
    let Some(tools) = Tools::find(true, false) else { return };
    let repo = flux_repo(KUSTOMIZATION);
    let ran = tools.run(&repo, "render --out out").code(0);
    assert_eq!(ran.err, "");
    let all = rendered(&repo, "m1");
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(names, ["\"ConfigMap\" \"settings-eu\"", "\"Deployment\" \"web-eu\""]);
    let map = &all["\"ConfigMap\" \"settings-eu\""];
    assert_eq!(map["data"], json!({"domain": "eu.example.com", "tier": "gold", "raw": "${raw}"}));
    assert_eq!(
        (&map["metadata"]["labels"], &map["metadata"]["annotations"]),
        (&json!({"team": "web"}), &json!({"note": "a"}))
    );
    let web = &all["\"Deployment\" \"web-eu\""];
    assert_eq!(web["spec"]["replicas"], 6);
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:9");
    assert!(repo.files("out/m1").iter().all(|file| file.starts_with("shop/")), "{:?}", repo.files("out/m1"));
    // A change of the variables is a change of what is built.
    repo.write("clusters/vars.yaml", VARIABLES.replace("gold", "\"7\""));
    tools.run(&repo, "render --out out").code(0);
    assert!(repo.read("out/m1/shop/configmap_settings-eu.yaml").contains("tier: 7\n"), "as Flux reads it");
    assert!(tools.run(&repo, "check").code(2).out.contains("`data.tier` must be text, but is a number"));
    repo.write("clusters/vars.yaml", VARIABLES.replace("gold", "silver"));
    tools.run(&repo, "render --out out").code(0);
    assert!(repo.read("out/m1/shop/configmap_settings-eu.yaml").contains("tier: silver"));
}

#[test]
fn what_is_wrong_about_an_object_is_named_with_its_line() {
    let Some(tools) = Tools::find(true, true) else { return };
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a, namespace: shop}\nspec:\n  chart: {spec: {chart: redis, sourceRef: {kind: HelmRepository, name: bitnami}}}\n";
    for (text, expected) in [
        (KUSTOMIZATION.replace("./apps", "./none"), "clusters/prod.yaml:6:3"),
        (KUSTOMIZATION.replace("./apps", "../apps"), "is not a path within the repo"),
        (
            KUSTOMIZATION.replace("kind: GitRepository", "kind: OCIRepository"),
            "only what is in the repo is built",
        ),
        (KUSTOMIZATION.replace("./apps", "./aps/sub"), "help: did you mean `apps/sub`?"),
        (KUSTOMIZATION.replace("cluster-vars", "other"), "the repo has no ConfigMap flux-system/other"),
        (
            KUSTOMIZATION.replace("kind: ConfigMap, name: cluster", "kind: Secret, name: cluster"),
            "the repo has no Secret flux-system/cluster-vars",
        ),
        (
            KUSTOMIZATION.replace("cluster-vars", "cluster-var"),
            "help: did you mean ConfigMap flux-system/cluster-vars?",
        ),
        (release.to_owned(), "the repo has no HelmRepository shop/bitnami"),
        ("a: b\n".to_owned(), "has no Kustomization or HelmRelease of Flux"),
    ] {
        let ran = tools.run(&flux_repo(&text), "render --out out").code(2);
        assert!(ran.err.contains(expected), "{text}: {}", ran.err);
    }
    let unclosed = flux_repo(KUSTOMIZATION);
    unclosed.write("apps/sub/map.yaml", MAP.replace("${tier}", "${tier"));
    let ran = tools.run(&unclosed, "render --out out").code(2);
    assert!(ran.err.contains("is not followed by an operator or by `}`"), "{}", ran.err);
    unclosed.write("apps/sub/map.yaml", MAP.replace("${tier}", "${level}"));
    let ran = tools.run(&unclosed, "render --out out").code(2);
    assert!(ran.err.contains("the variable `level` has no value and no default"), "{}", ran.err);
}

/// A Secret that SOPS encrypted, which other programs apply.
const ENCRYPTED_VARIABLES: &str = "apiVersion: v1
kind: Secret
metadata: {name: cluster-secrets, namespace: flux-system, annotations: {config.kubernetes.io/local-config: \"true\"}}
stringData: {secret: \"ENC[AES256_GCM,data:Zm9v,iv:YWJj,tag:ZGVm,type:str]\"}
sops: {version: 3.9.0, mac: \"ENC[AES256_GCM,data:Zm9v,iv:YWJj,tag:ZGVm,type:str]\"}
";

/// Commits a repo to `main`.
fn commit_all(repo: &Sandbox) {
    repo.write(".gitignore", ".cache/\nout/\n");
    for line in ["init -q -b main", "add -A", "commit -q -m first"] {
        repo.git(line);
    }
}

#[test]
fn variables_that_are_not_known_stay_where_nothing_is_written_or_sent() {
    let Some(tools) = Tools::find(true, false) else { return };
    let of_secret = "ConfigMap, name: none, optional: true";
    let kustomization = KUSTOMIZATION.replace(of_secret, "Secret, name: cluster-secrets");
    let repo = flux_repo(&kustomization).file(".federateignore", "live/\n").file("live/m1/a.yaml", "");
    commit_all(&repo);
    repo.write("apps/sub/map.yaml", MAP.replace("${tier}", "${tier}-${secret:=none}"));
    let missing =
        "the repo has no Secret flux-system/cluster-secrets, so that values are not known (`secret`)";
    let encrypted = "SOPS encrypted values of Secret flux-system/cluster-secrets (`secret`)";
    for (secret, expected) in [("", missing), (ENCRYPTED_VARIABLES, encrypted)] {
        repo.write("clusters/secret.yaml", secret);
        let checked = tools.run(&repo, "check").code(1).out;
        let named = checked.contains(expected) && checked.contains("ConfigMap shop/settings-eu");
        assert!(checked.contains("warning[unknown-values]") && named, "{checked}");
        assert!(checked.contains("clusters/prod.yaml:21:7"), "{checked}");
        let shown = tools.run(&repo, "diff --from main").code(1).out;
        assert!(shown.contains("gold-${secret:=none}"), "{shown}");
        assert!(!shown.contains("Deployment shop/web-eu"), "it has no such variable: {shown}");
        for command in ["render --out out", "apply --cluster m1 --observed live --dry-run=client -o json"] {
            for options in ["", " --keep-going"] {
                let ran = tools.run(&repo, &format!("{command}{options}")).code(2);
                let is_refused = ran.err.contains("error[build-failed]") && !ran.out.contains("settings-eu");
                assert!(is_refused, "{command}{options}: {ran:#?}");
                assert!(!repo.path("out/m1/shop/configmap_settings-eu.yaml").exists());
            }
        }
    }
    // Without its values, nothing is said about a field.
    let misfit = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {clusterIP: \"${secret}\", ports: [{port: 80}]}\n";
    repo.write("apps/sub/service.yaml", misfit);
    repo.write("apps/sub/kustomization.yaml", "resources: [map.yaml, service.yaml]\n");
    let checked = tools.run(&repo, "check").out;
    assert!(!checked.contains("invalid-field"), "{checked}");

    let similar = flux_repo(&KUSTOMIZATION.replace("cluster-vars", "cluster-var"));
    let checked = tools.run(&similar, "check").code(1).out;
    assert!(checked.contains("did you mean ConfigMap flux-system/cluster-vars?"), "{checked}");
}

#[test]
fn a_chart_without_some_of_its_values_is_shown() {
    let Some(tools) = Tools::find(false, true) else { return };
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: api, namespace: flux-system}
spec:
  chart: {spec: {chart: ./charts/api, sourceRef: {kind: GitRepository, name: x}}}
";
    let values = "  valuesFrom: [{kind: Secret, name: cluster-secrets, valuesKey: secret, targetPath: tier}, {kind: ConfigMap, name: more}]\n";
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{flux: release.yaml}]\n")
        .file("release.yaml", release)
        .file("secret.yaml", ENCRYPTED_VARIABLES);
    commit_all(&repo);
    repo.write("release.yaml", format!("{release}{values}"));
    let named = |checked: &str| {
        assert!(checked.contains("values of Secret flux-system/cluster-secrets (`secret`)"), "{checked}");
        assert!(checked.contains("the repo has no ConfigMap flux-system/more"), "{checked}");
    };
    named(&tools.run(&repo, "check").code(1).out);
    let shown = tools.run(&repo, "diff --from main").code(1).out;
    assert!(shown.contains("${secret}"), "{shown}");
    tools.run(&repo, "render --out out").code(2);
    assert!(!repo.path("out/m1").exists());
    // A chart that builds nothing without them is named, too.
    let hidden = format!("{{{{ if eq .Values.tier \"x\" }}}}\n{TEMPLATE}\n{{{{ end }}}}\n");
    repo.write("charts/api/templates/map.yaml", hidden);
    let checked = tools.run(&repo, "check").code(1).out;
    named(&checked);
    assert!(checked.contains("what HelmRelease flux-system/api builds with them is not known"), "{checked}");
}

#[test]
fn mistakes_with_which_less_is_built_are_named() {
    let Some(tools) = Tools::find(true, false) else { return };
    let repository = repository_of_flux("flux-system", "https://example.com/fleet.git", "clusters");
    let repository = repository.split("---\n").next().unwrap();
    let path = "clusters/m1/prod.yaml";
    let repo = clusters_repo()
        .file("federate.yaml", "sources: [{flux: 'clusters/{cluster}'}]\n")
        .file(path, format!("{repository}---\n{KUSTOMIZATION}"))
        .file(
            "clusters/m1/vars.yaml",
            VARIABLES.replace(", annotations: {config.kubernetes.io/local-config: \"true\"}", ""),
        )
        .file("apps/web.yaml", WEB);
    assert_eq!(tools.run(&repo, "render --out out").code(0).err, "");
    let kustomization =
        KUSTOMIZATION.replace("name: flux-system}", "name: flux-sytem}").replace("/v1\n", "/v1alpha9\n");
    repo.write(path, format!("{repository}---\n{kustomization}"));
    repo.write("clusters/m3/web.yaml", WEB.replace("name: web", "name: other"));
    let checked = tools.run(&repo, "check").out;
    for expected in [
        "warning[unknown-reference]: Kustomization flux-system/apps names GitRepository flux-system/flux-sytem",
        "did you mean GitRepository flux-system/flux-system?",
        "warning[unserved-version]",
        "write `kustomize.toolkit.fluxcd.io/v1`",
        "warning[unknown-cluster]: nothing is built of `clusters/m3` by `flux: clusters/{cluster}`",
    ] {
        assert!(checked.contains(expected), "{expected}: {checked}");
    }
    // What Flux leaves out is no manifest.
    std::fs::remove_file(repo.path("clusters/m3/web.yaml")).unwrap();
    repo.write("clusters/m1/.sops.yaml", "creation_rules: []\n");
    repo.write("clusters/m1/notes.yaml", "no object\n");
    tools.run(&repo, "render --out out").code(2);
    repo.write(".sourceignore", "notes.yaml\n.sops.yaml\n");
    assert!(!tools.run(&repo, "render --out out").code(0).err.contains("error["));
}

#[test]
fn a_source_that_a_policy_selects_is_an_error() {
    let Some(tools) = Tools::find(true, false) else { return };
    let selector = "  - {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization}\n  placement: {}\n";
    let repo = flux_repo(KUSTOMIZATION).file("policy.yaml", POLICY.replace("  placement: {}\n", selector));
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(
        ran.err.contains(
            "error[placed-source]: ClusterPropagationPolicy all selects Kustomization flux-system/apps"
        ),
        "{}",
        ran.err
    );
    // Without the source, it is a template like any other.
    repo.write("federate.yaml", "{}\n");
    tools.run(&repo, "render --out out").code(0);
    assert!(repo.files("out/m1").iter().any(|file| file.contains("kustomize.toolkit.fluxcd.io")));
}

const TEMPLATE: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-map}
data: {size: {{ .Values.size | quote }}, tier: {{ .Values.tier | default \"none\" | quote }}, ns: {{ .Release.Namespace }}}
";

fn chart_repo() -> Sandbox {
    clusters_repo()
        .file("charts/api/Chart.yaml", CHART)
        .file("charts/api/values.yaml", "size: small\ntier: own\n")
        .file("charts/api/values-prod.yaml", "size: large\n")
        .file("charts/api/templates/map.yaml", TEMPLATE)
}

/// The data of a `ConfigMap` that a cluster receives.
fn data_of(repo: &Sandbox, path: &str) -> serde_json::Value {
    let all = objects(&repo.read(path));
    all.into_values().next().unwrap()["data"].clone()
}

#[test]
fn a_release_of_flux_is_a_chart_with_its_values() {
    let Some(tools) = Tools::find(false, true) else { return };
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: api, namespace: shop}
spec:
  targetNamespace: store
  chart: {spec: {chart: ./charts/api, valuesFiles: [charts/api/values-prod.yaml], sourceRef: {kind: GitRepository, name: x}}}
  valuesFrom: [{kind: ConfigMap, name: tier, valuesKey: tier, targetPath: tier}]
";
    let tier = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tier, namespace: shop, annotations: {config.kubernetes.io/local-config: \"true\"}}\ndata: {tier: gold}\n";
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{flux: release.yaml}]\n")
        .file("release.yaml", release)
        .file("tier.yaml", tier);
    tools.run(&repo, "render --out out").code(0);
    let path = "out/m1/store/configmap_store-api-map.yaml";
    assert_eq!(data_of(&repo, path), json!({"size": "large", "tier": "gold", "ns": "store"}));
    // The values files stand in place of those of the chart.
    repo.write(
        "release.yaml",
        release.replace(
            "  valuesFrom: [{kind: ConfigMap, name: tier, valuesKey: tier, targetPath: tier}]\n",
            "",
        ),
    );
    tools.run(&repo, "render --out out").code(0);
    assert_eq!(data_of(&repo, path)["tier"], "none");
    repo.write("release.yaml", release.replace("values-prod", "values-none"));
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(ran.err.contains("the repo has no values file `charts/api/values-none.yaml`"), "{}", ran.err);
}

#[test]
fn an_application_is_a_chart_or_a_kustomization_for_its_destination() {
    let Some(tools) = Tools::find(true, true) else { return };
    let application = |name: &str, cluster: &str, source: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}, namespace: argocd}}\nspec:\n  destination: \
             {{{cluster}, namespace: shop}}\n  project: default\n  source: {{repoURL: https://example.com/r.git, {source}}}\n---\n"
        )
    };
    let applications = [
        application(
            "api",
            "name: m2",
            "path: charts/api, helm: {valueFiles: [values-prod.yaml], values: 'tier: a', parameters: [{name: tier, value: b}]}",
        ),
        application(
            "web",
            "server: https://m1.cluster.invalid/",
            "path: web, kustomize: {namePrefix: my-, images: ['nginx:9'], replicas: [{name: web, count: 5}], commonLabels: {a: b}}",
        ),
        application("plain", "name: m1", "path: plain"),
    ];
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{argocd: argo}]\n")
        .file("argo/apps.yaml", applications.concat())
        .file("web/kustomization.yaml", "resources: [web.yaml]\n")
        .file("web/web.yaml", WEB)
        .file("plain/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n")
        .file("plain/values.yaml", "size: large\n")
        .file("plain/below/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: below}\n");
    let ran = tools.run(&repo, "render --out out").code(0);
    assert_eq!(ran.err, "");
    assert_eq!(
        repo.files("out/m1"),
        ["default/configmap_below.yaml", "shop/configmap_plain.yaml", "shop/deployment.apps_my-web.yaml"]
    );
    assert_eq!(repo.files("out/m2"), ["default/configmap_below.yaml", "shop/configmap_api-map.yaml"]);
    assert_eq!(
        data_of(&repo, "out/m2/shop/configmap_api-map.yaml"),
        json!({"size": "large", "tier": "b", "ns": "shop"})
    );
    let web = repo.read("out/m1/shop/deployment.apps_my-web.yaml");
    assert!(web.contains("replicas: 5") && web.contains("nginx:9") && web.contains("a: b"), "{web}");
    for (source, expected) in [
        ("chart: redis", "is not vendored"),
        ("path: plain, plugin: {name: x}", "federate runs no plugins"),
        ("path: charts/api, helm: {valueFiles: [../../../etc/passwd]}", "is outside of the repo"),
        ("path: charts/api, helm: {valueFiles: ['https://example.com/v.yaml']}", "is a URL"),
        (
            "path: charts/api, helm: {fileParameters: [{name: 'a=/etc/passwd,b', path: values.yaml}]}",
            "is not the path of a value",
        ),
        ("path: charts/api, helm: {unknown: x}", "does not carry out `helm.unknown`"),
        ("path: charts/api, helm: {version: v2}", "has no version `v2` of Helm"),
        ("path: charts/api, helm: {releaseName: --post-renderer}", "is not the name of a release"),
        ("path: web, helm: {releaseName: a}, kustomize: {namePrefix: a-}", "has both `helm` and `kustomize`"),
    ] {
        repo.write("argo/apps.yaml", application("a", "name: m1", source));
        let ran = tools.run(&repo, "render --out out2").code(2);
        assert!(ran.err.contains(expected) && ran.err.contains("argo/apps.yaml:"), "{source}: {}", ran.err);
    }
    for (destination, expected) in [
        ("name: none", "its destination `none` is not a cluster of the inventory"),
        ("name: m1, server: https://m1.cluster.invalid", "its destination has both `name` and `server`"),
        ("namespace: shop", "its destination has no `name` and no `server`"),
        ("name: in-cluster", "set argocd.cluster in federate.yaml to the cluster in which Argo CD runs"),
        ("server: https://kubernetes.default.svc", "set argocd.cluster in federate.yaml"),
    ] {
        let application = application("a", destination, "path: plain");
        repo.write(
            "argo/apps.yaml",
            application.replace("namespace: shop, namespace: shop", "namespace: shop"),
        );
        let ran = tools.run(&repo, "render --out out2").code(2);
        assert!(ran.err.contains(expected), "{destination}: {}", ran.err);
    }
}

/// Secrets of Argo CD say which clusters it has, and under which names and addresses.
#[test]
fn secrets_of_argo_cd_name_the_clusters_of_applications() {
    let Some(tools) = Tools::find(false, true) else { return };
    let secret = |name: &str, server: &str| {
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: c-{name}, namespace: argocd, labels: {{\
             argocd.argoproj.io/secret-type: cluster, tier: gold}}}}\nstringData: {{name: {name}, server: {server}}}\n"
        )
    };
    let set = set_of(
        "  - clusters: {selector: {matchLabels: {tier: gold}}}\n",
        true,
        "{{.name}}-{{.server | trimPrefix \"https://\"}}",
        "server: '{{.server}}'",
        "{{.metadata.labels.tier}}",
    );
    let repo =
        chart_repo().file("federate.yaml", "sources: [{argocd: set.yaml}]\n").file("set.yaml", set).file(
            "secrets.yaml",
            secret("m1", "https://one.example.com") + &secret("other", "https://other.example.com"),
        );
    let ran = tools.run(&repo, "render --out out").code(2);
    let expected = "Application `other-other.example.com` of ApplicationSet argocd/set cannot be placed: the destination `other` is not \
                    a cluster of the inventory";
    assert!(ran.err.contains(expected), "{}", ran.err);
    repo.write("secrets.yaml", secret("m1", "https://one.example.com"));
    tools.run(&repo, "render --out out").code(0);
    assert!(repo.path("out/m1/shop/configmap_m1-one.example.com-map.yaml").exists());
    assert!(!repo.path("out/m2/shop").exists());
}

/// What Argo CD does not create of a set is a warning that names it, and the rest of the set is built.
#[test]
fn applications_that_argo_cd_leaves_out_are_named() {
    let Some(tools) = Tools::find(false, true) else { return };
    let list = "  - list: {elements: [{name: a, to: m1}, {name: a, to: m2}, {name: b, to: none}, {name: c, to: m2}]}\n";
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{argocd: set.yaml}]\n")
        .file("set.yaml", set_of(list, true, "{{.name}}", "name: '{{.to}}'", "x"));
    let ran = tools.run(&repo, "check").code(1);
    for expected in [
        "[ignored-application]",
        "Argo CD does not create the Application `a`: several Applications of the set have that name",
        "Argo CD does not create the Application `b`: its destination `none` is not a cluster of the inventory",
    ] {
        assert!(ran.out.contains(expected), "{expected}: {}", ran.out);
    }
    tools.run(&repo, "render --out out").code(0);
    assert_eq!(repo.files("out/m2"), ["shop/configmap_c-map.yaml"]);
}

const SECRET: &str = "apiVersion: v1
kind: Secret
metadata: {name: cluster-vars, namespace: flux-system, annotations: {config.kubernetes.io/local-config: \"true\"}}
stringData: {tier: gold, replicas: \"7\", namespace: store}
";

#[test]
fn variables_are_filled_in_before_objects_are_read() {
    let Some(tools) = Tools::find(true, false) else { return };
    let from_secret = KUSTOMIZATION
        .replace("kind: ConfigMap, name: cluster", "kind: Secret, name: cluster")
        .replace("  targetNamespace: shop\n", "  suspend: true\n  serviceAccountName: web\n")
        .replace("value: 6", "value: \"${replicas}\"");
    let repo = flux_repo(&from_secret).file("clusters/vars.yaml", SECRET);
    repo.write(
        "apps/sub/map.yaml",
        MAP.replace("name: settings", "name: settings, namespace: \"${namespace}\""),
    );
    let ran = tools.run(&repo, "render --out out").code(0);
    assert!(
        ran.err.contains("warning[field-without-effect]") && ran.err.contains("`serviceAccountName`"),
        "{}",
        ran.err
    );
    let map = &rendered(&repo, "m1")["\"ConfigMap\" \"settings-eu\""];
    assert_eq!(map["data"]["tier"], "gold");
    assert!(repo.read("out/m1/store/configmap_settings-eu.yaml").contains("tier: gold"));
    assert_eq!(rendered(&repo, "m1")["\"Deployment\" \"web-eu\""]["spec"]["replicas"], 7);
}

#[test]
fn the_last_of_several_sources_counts() {
    let Some(tools) = Tools::find(false, true) else { return };
    let map = |tier: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: api-map}}\ndata: {{tier: {tier}}}\n")
    };
    let sources = "sources: [{repoURL: x, path: charts/api}, {repoURL: x, path: plain}]";
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{argocd: argo}]\n")
        .file(
            "argo/apps.yaml",
            format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: api, namespace: argocd}}\nspec:\n  \
                 destination: {{name: m1, namespace: shop}}\n  project: default\n  {sources}\n"
            ),
        )
        .file("plain/map.yaml", map("last"))
        .file("plain/.hidden.yaml", map("hidden").replace("api-map", "hidden"))
        .file("plain/z.yaml", format!("# +argocd:skip-file-rendering\n{}", map("left-out")));
    let ran = tools.run(&repo, "render --out out").code(0);
    assert!(ran.err.contains("several sources of the Application api have ConfigMap api-map"), "{}", ran.err);
    assert_eq!(data_of(&repo, "out/m1/shop/configmap_api-map.yaml"), json!({"tier": "last"}));
    assert_eq!(repo.files("out/m1").len(), 2, "{:?}", repo.files("out/m1"));
}

/// A set whose generators are these, for a chart with a value from them.
fn set_of(generators: &str, is_go: bool, name: &str, server: &str, tier: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: set, namespace: argocd}}\nspec:\n  goTemplate: {is_go}\n  \
         generators:\n{generators}  template:\n    metadata: {{name: '{name}'}}\n    spec:\n      destination: {{{server}, namespace: \
         shop}}\n      source: {{path: charts/api, helm: {{releaseName: '{name}', valuesObject: {{tier: '{tier}'}}}}}}\n"
    )
}

#[test]
fn generators_of_an_application_set_give_their_applications() {
    let Some(tools) = Tools::find(false, true) else { return };
    let list = "  - list: {elements: [{cluster: m1, tier: a}, {cluster: m2, tier: b}]}\n";
    let clusters =
        "  - clusters: {selector: {matchLabels: {env: prod}}, values: {tier: '{{metadata.labels.env}}'}}\n";
    let any = "selector: {matchExpressions: [{key: argocd.argoproj.io/secret-type, operator: Exists}]}";
    let go_clusters = &format!("  - clusters: {{{any}, values: {{tier: '{{{{.name}}}}-x'}}}}\n");
    let files = "  - git: {repoURL: x, files: [{path: 'envs/*/config.json'}]}\n";
    let folders = "  - git: {repoURL: x, directories: [{path: 'envs/*'}, {path: envs/old, exclude: true}]}\n";
    let matrix = &format!(
        "  - matrix: {{generators: [{{clusters: {{{any}}}}}, {{list: {{elements: [{{tier: a}}, {{tier: b}}]}}}}]}}\n"
    );
    let merge = &format!(
        "  - merge: {{mergeKeys: [name], generators: [{{clusters: {{{any}, values: {{tier: base}}}}}}, {{list: {{elements: \
         [{{name: m2, values: {{tier: over}}}}]}}}}]}}\n"
    );
    for (set, m1, m2) in [
        (
            set_of(list, false, "{{cluster}}", "name: '{{cluster}}'", "{{tier}}"),
            vec![("m1", "a")],
            vec![("m2", "b")],
        ),
        (
            set_of(list, true, "{{.cluster}}", "name: '{{.cluster}}'", "{{ .tier }}"),
            vec![("m1", "a")],
            vec![("m2", "b")],
        ),
        (
            set_of(clusters, false, "{{name}}", "server: '{{server}}'", "{{values.tier}}"),
            vec![("m1", "prod")],
            vec![],
        ),
        (
            set_of(go_clusters, true, "{{.nameNormalized}}", "server: '{{.server}}'", "{{.values.tier}}"),
            vec![("m1", "m1-x")],
            vec![("m2", "m2-x")],
        ),
        (
            set_of(files, true, "{{.path.basename}}", "name: '{{.cluster.name}}'", "{{.tier}}"),
            vec![("one", "a")],
            vec![("two", "b")],
        ),
        (
            set_of(folders, false, "{{path.basename}}", "name: m1", "{{path[0]}}"),
            vec![("one", "envs"), ("two", "envs")],
            vec![],
        ),
        (
            set_of(matrix, false, "{{name}}-{{tier}}", "name: '{{name}}'", "{{tier}}"),
            vec![("m1-a", "a"), ("m1-b", "b")],
            vec![("m2-a", "a"), ("m2-b", "b")],
        ),
        (
            set_of(merge, false, "{{name}}", "name: '{{name}}'", "{{values.tier}}"),
            vec![("m1", "base")],
            vec![("m2", "over")],
        ),
    ] {
        let repo = chart_repo()
            .file("federate.yaml", "sources: [{argocd: set.yaml}]\n")
            .file("set.yaml", &set)
            .file("envs/one/config.json", "{\"cluster\": {\"name\": \"m1\"}, \"tier\": \"a\"}")
            .file("envs/two/config.json", "{\"cluster\": {\"name\": \"m2\"}, \"tier\": \"b\"}")
            .file("envs/old/readme.txt", "old");
        assert_eq!(tools.run(&repo, "render --out out").code(0).err, "", "{set}");
        for (cluster, expected) in [("m1", m1), ("m2", m2)] {
            // A cluster that receives nothing has no folder.
            let has_output = repo.path(&format!("out/{cluster}")).exists();
            let found = if has_output { rendered(&repo, cluster) } else { BTreeMap::new() };
            let found: Vec<(String, String)> = found
                .values()
                .map(|map| {
                    let name = map["metadata"]["name"].as_str().unwrap().trim_end_matches("-map").to_owned();
                    (name, map["data"]["tier"].as_str().unwrap().to_owned())
                })
                .collect();
            let expected: Vec<(String, String)> =
                expected.into_iter().map(|(name, tier)| (name.to_owned(), tier.to_owned())).collect();
            assert_eq!(found, expected, "{cluster}: {set}");
        }
    }
    for (generators, expected) in [
        ("  - scmProvider: {}\n", "the generator `scmProvider`"),
        ("  - list: {elements: [{cluster: m1}]}\n    selector: {matchLabels: {a: b}}\n", ""),
    ] {
        let repo = chart_repo()
            .file("federate.yaml", "sources: [{argocd: set.yaml}]\n")
            .file("set.yaml", set_of(generators, true, "a", "name: m1", "x"));
        let ran = tools.run(&repo, "check");
        assert!(ran.out.contains(expected), "{}", ran.out);
    }
    let unknown =
        set_of("  - list: {elements: [{tier: a}]}\n", true, "{{ .tier | nothing }}", "name: m1", "x");
    let repo =
        chart_repo().file("federate.yaml", "sources: [{argocd: set.yaml}]\n").file("set.yaml", unknown);
    let ran = tools.run(&repo, "render --out out").code(2);
    let expected = "the template `{{ .tier | nothing }}` cannot be filled: function \"nothing\" not defined";
    assert!(ran.err.contains(expected), "{}", ran.err);
}

#[test]
fn a_patch_of_an_application_set_is_merged_into_each_application() {
    let Some(tools) = Tools::find(false, true) else { return };
    let list = "  - list: {elements: [{cluster: m1, tier: a, extra: '{x: \"1\"}'}, {cluster: m2, tier: b, extra: '{}'}]}\n";
    let set = |patch: &str| {
        let patch = patch.replace('\n', "\n    ");
        set_of(list, true, "{{.cluster}}", "name: '{{.cluster}}'", "none")
            + &format!("  templatePatch: |\n    {patch}\n")
    };
    let repo = |set: String| {
        chart_repo().file("federate.yaml", "sources: [{argocd: set.yaml}]\n").file("set.yaml", set)
    };
    let patched = repo(set(
        "metadata: {annotations: {{.extra}}}\nspec:\n  source:\n    helm:\n      releaseName: '{{ .tier }}-api'\n      valuesObject: {tier: '{{.tier}}'}\n  destination: {server: null}",
    ));
    assert_eq!(tools.run(&patched, "render --out out").code(0).err, "");
    for (cluster, tier) in [("m1", "a"), ("m2", "b")] {
        let found = rendered(&patched, cluster);
        let map = found.values().next().unwrap();
        assert_eq!(
            (map["metadata"]["name"].as_str(), map["data"]["tier"].as_str()),
            (Some(&*format!("{tier}-api-map")), Some(tier))
        );
    }
    for (patch, expected) in [
        ("{{- if .tier }}\nspec: {}", "cannot be filled"),
        ("spec: {source: {$patch: merge}}", "`$patch` is `replace` or `delete`"),
        (
            "metadata: {labels: {a: 1}}",
            "it does not fit an Application: /metadata/labels/a: it is not a text",
        ),
        ("- a", "it is not a map"),
        ("a: [", "it is not YAML"),
    ] {
        let ran = tools.run(&repo(set(patch)), "render --out out").code(2);
        assert!(ran.err.contains(expected) && ran.err.contains("set.yaml:"), "{patch}: {}", ran.err);
    }
}

/// What would take the memory or the stack of the process is an error that says which limit was met.
#[test]
fn what_objects_describe_has_limits() {
    let Some(tools) = Tools::find(true, true) else { return };
    let elements = vec!["{app: a}"; 2000].join(", ");
    let matrix = format!(
        "  - matrix: {{generators: [{{list: {{elements: [{{long: {}}}]}}}}, {{list: {{elements: [{elements}]}}}}]}}\n",
        "x".repeat(200_000)
    );
    let patterns = "**/a/".repeat(40);
    let globs = format!(
        "  - git: {{repoURL: x, files: [{{path: '{patterns}none'}}]}}\n  - list: {{elements: [{{app: a, tier: b}}]}}\n"
    );
    let deep_path = format!("{}b", "a.".repeat(200_000));
    let application = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: a, namespace: argocd}}\nspec:\n  destination: {{name: m1, \
         namespace: shop}}\n  source: {{path: charts/api, helm: {{parameters: [{{name: {deep_path}, value: x}}]}}}}\n"
    );
    for (text, expected) in [
        (set_of(&matrix, true, "{{.app}}", "name: m1", "a"), "take too much work"),
        (application, "has more than 100000 bytes"),
    ] {
        let repo =
            chart_repo().file("federate.yaml", "sources: [{argocd: set.yaml}]\n").file("set.yaml", text);
        let ran = tools.run(&repo, "render --out out").code(2);
        assert!(ran.err.contains(expected), "{}", ran.err.chars().take(2000).collect::<String>());
    }
    // Folders `a` below each other can be taken for the stars in very many ways.
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{argocd: set.yaml}]\n")
        .file("set.yaml", set_of(&globs, true, "{{.app}}", "name: m1", "{{.tier}}"))
        .file(&format!("{}file", "a/".repeat(80)), "");
    tools.run(&repo, "render --out out").code(0);

    let replaced =
        flux_repo(&KUSTOMIZATION.replace("{domain: eu}", &format!("{{domain: {}}}", "x".repeat(5000))));
    replaced.write("apps/sub/map.yaml", MAP.replace("${tier}", "${domain//x/${domain}}"));
    let ran = tools.run(&replaced, "render --out out").code(2);
    assert!(ran.err.contains("is larger than 4 MiB with its variables"), "{}", ran.err);
}

/// The placements of Open Cluster Management that the repo has are decided for the sets that ask for their decisions.
#[test]
fn an_application_set_follows_the_placements_of_the_repo() {
    let Some(tools) = Tools::find(false, true) else { return };
    let cluster = |name: &str, region: &str| {
        format!(
            "---\napiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {{name: {name}, labels: {{region: {region}, \
             cluster.open-cluster-management.io/clusterset: default}}}}\nspec: {{hubAcceptsClient: true}}\nstatus: {{conditions: [{{type: \
             ManagedClusterConditionAvailable, status: \"True\"}}, {{type: ManagedClusterJoined, status: \"True\"}}]}}\n"
        )
    };
    let placement = "---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: default, namespace: argocd}
spec: {clusterSet: default}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: argocd}
spec:
  predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {region: eu}}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ocm, namespace: argocd}
data: {apiVersion: cluster.open-cluster-management.io/v1beta1, kind: placementdecisions, statusListKey: decisions, matchKey: clusterName}
";
    let generator = "  - clusterDecisionResource: {configMapRef: ocm, labelSelector: {matchLabels: {cluster.open-cluster-management.io/placement: web}}}\n";
    let repo = Sandbox::new()
        .file("clusters.yaml", cluster("m1", "eu") + &cluster("m2", "us"))
        .file("placement.yaml", placement)
        .file("charts/api/Chart.yaml", CHART)
        .file("charts/api/templates/map.yaml", TEMPLATE)
        .file("federate.yaml", "sources: [{argocd: set.yaml}]\n")
        .file("set.yaml", set_of(generator, true, "web-{{.name}}", "name: '{{.name}}'", "x"));
    tools.run(&repo, "render --out out").code(0);
    assert_eq!(repo.files("out/m1"), ["shop/configmap_web-m1-map.yaml"]);
    repo.write("placement.yaml", placement.replace("region: eu", "region: us"));
    tools.run(&repo, "render --out out2").code(0);
    assert_eq!(repo.files("out2/m2"), ["shop/configmap_web-m2-map.yaml"]);
    assert!(!repo.path("out2/m1").exists());
    let plan = tools.run(&repo, "plan").code(0);
    assert!(
        !plan.out.contains("argocd/ocm"),
        "the ConfigMap of the generator is placed nowhere: {}",
        plan.out
    );
    // ACM makes a ConfigMap on the hub, which the repo then lacks; others must be there.
    let (placement, _) = placement.rsplit_once("---\n").expect("the ConfigMap is the last document");
    repo.write("placement.yaml", placement);
    let ran = tools.run(&repo, "check").code(2);
    assert!(ran.out.contains("the repo has no ConfigMap `ocm`"), "{}", ran.out);
    let of_acm = generator.replace("configMapRef: ocm", "configMapRef: acm-placement");
    repo.write("set.yaml", set_of(&of_acm, true, "web-{{.name}}", "name: '{{.name}}'", "x"));
    tools.run(&repo, "render --out out3").code(0);
    assert_eq!(repo.files("out3/m1"), ["shop/configmap_web-m1-map.yaml"]);
}

/// An Application whose destination is a cluster.
fn application(name: &str, cluster: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}, namespace: argocd}}\nspec:\n  project: default\n  \
         destination: {{name: {cluster}, namespace: shop}}\n  source: {{repoURL: x, path: charts/api}}\n"
    )
}

#[test]
fn diff_names_the_applications_that_appear_and_go_and_change_their_destination() {
    let Some(tools) = Tools::find(false, true) else { return };
    let set = |elements: &str| {
        let list = format!("  - list: {{elements: [{elements}]}}\n");
        set_of(&list, true, "web-{{.name}}", "name: '{{.name}}'", "{{.name}}")
    };
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{argocd: argo}]\n")
        .file("argo/set.yaml", set("{name: m1}"))
        .file("argo/api.yaml", application("api", "m1"))
        .file("argo/old.yaml", application("old", "m2"))
        .file("argo/same.yaml", application("same", "m1"))
        .file(".gitignore", ".cache/\n");
    for line in ["init -q -b main", "add -A", "commit -q -m first"] {
        repo.git(line);
    }
    repo.write("argo/set.yaml", set("{name: m2}"));
    repo.write("argo/api.yaml", application("api", "m2"));
    // What another Application takes over differs in no cluster.
    repo.write(
        "argo/old.yaml",
        application("new", "m2").replace("charts/api}", "charts/api, helm: {releaseName: old}}"),
    );
    let text = tools.run(&repo, "diff --from HEAD").code(1).out;
    let expected = "Applications and destinations
  ~ Application argocd/api: m1 → m2
  + Application argocd/new to m2
  - Application argocd/old from m2
  + Application argocd/web-m2 to m2 (ApplicationSet argocd/set)
  - Application argocd/web-m1 from m1 (ApplicationSet argocd/set)
";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let found = text.split_once("Applications and destinations").unwrap_or_else(|| panic!("{text}")).1;
    let found = format!("Applications and destinations{}", found.split("\n\n").next().unwrap());
    assert_eq!(sorted(&found), sorted(expected), "{text}");
    assert!(text.contains("2 Applications appear, 2 go, 1 changes its destination"), "{text}");
    let comment = tools.run(&repo, "diff --from HEAD -o markdown").code(1).out;
    assert!(comment.contains("- **~** `Application argocd/api`: `m1` → `m2`"), "{comment}");
    let report = tools.run(&repo, "diff --from HEAD -o json").code(1).json();
    let found = report["destinations"].as_array().unwrap();
    assert_eq!(found.len(), 5, "{found:?}");
    let generated = found.iter().find(|one| one["object"]["name"] == "web-m2").unwrap();
    assert_eq!(generated["generatedBy"]["kind"], "ApplicationSet");
    assert_eq!(
        (&generated["kind"], &generated["to"], generated.get("from")),
        (&json!("added"), &json!(["m2"]), None)
    );
    let narrowed = tools.run(&repo, "diff --from HEAD -o json --cluster m1").code(1).json();
    assert_eq!(narrowed["destinations"].as_array().unwrap().len(), 2, "{}", narrowed["destinations"]);
    // An Application that takes the objects of another one over is the only difference.
    repo.git("checkout -q -- argo/set.yaml argo/api.yaml");
    let text = tools.run(&repo, "diff --from HEAD").code(1).out;
    assert!(text.contains("1 Application appears, 1 goes\n"), "{text}");
}

/// A `GitRepository`, and a Kustomization of it that builds a folder.
fn repository_of_flux(name: &str, address: &str, path: &str) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: {name}, namespace: flux-system}}\nspec: \
         {{interval: 1m, url: '{address}', ref: {{branch: main}}}}\n---\n\
         apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\nspec:\n  \
         interval: 10m\n  prune: true\n  path: {path}\n  sourceRef: {{kind: GitRepository, name: {name}}}\n"
    )
}

#[test]
fn a_git_repository_that_is_another_one_is_not_taken_for_this_repo() {
    let Some(tools) = Tools::find(true, false) else { return };
    let bootstrap =
        repository_of_flux("flux-system", "ssh://git@git.example.com/shop/fleet.git", "./clusters/m1");
    let other = repository_of_flux("other", "https://git.example.com/acme/other", "./apps");
    let repo = clusters_repo()
        .file("federate.yaml", "sources: [{flux: 'clusters/{cluster}'}]\n")
        .file("clusters/m1/gotk-sync.yaml", &bootstrap)
        .file("clusters/m1/other.yaml", &other)
        .file("apps/web.yaml", WEB);
    let refused = tools.run(&repo, "render --out out").code(2);
    let expected = "Kustomization flux-system/other cannot be built: the base https://git.example.com/acme/other//apps at main is not vendored";
    assert!(refused.err.contains(expected), "{}", refused.err);
    assert!(refused.err.contains("clusters/m1/other.yaml"), "{}", refused.err);
    // Another way to reach the same repository is this one.
    repo.write(
        "clusters/m1/other.yaml",
        other.replace("https://git.example.com/acme/other", "git@git.example.com:shop/fleet"),
    );
    assert_eq!(tools.run(&repo, "render --out out").code(0).err, "");
    assert!(repo.files("out/m1").iter().any(|file| file.ends_with("deployment.apps_web.yaml")));
    // Nothing says which of two is this one: it is said once, and a setting decides.
    let repo = clusters_repo()
        .file("federate.yaml", "sources: [{flux: flux}]\n")
        .file("flux/a.yaml", repository_of_flux("a", "https://git.example.com/shop/fleet", "./apps/a"))
        .file("flux/b.yaml", repository_of_flux("b", "https://git.example.com/acme/other", "./apps/b"))
        .file("apps/a/web.yaml", WEB)
        .file("apps/b/map.yaml", MAP.replace("${tier}", "a").replace("${domain:=none}", "b"));
    let ran = tools.run(&repo, "check").code(1);
    assert_eq!(ran.out.matches("[unknown-repository]").count(), 1, "{}", ran.out);
    repo.write(
        "federate.yaml",
        "repositories: ['git@git.example.com:shop/fleet.git']\nsources: [{flux: flux}]\n",
    );
    let refused = tools.run(&repo, "render --out out").code(2);
    assert!(
        refused.err.contains("base https://git.example.com/acme/other//apps/b at main is not vendored"),
        "{}",
        refused.err
    );
    assert!(!refused.err.contains("unknown-repository"), "{}", refused.err);
}

#[test]
fn an_application_of_another_repository_is_not_taken_for_this_repo() {
    let Some(tools) = Tools::find(false, true) else { return };
    let at = |name: &str, address: &str, path: &str| {
        application(name, "m1")
            .replace("repoURL: x, path: charts/api", &format!("repoURL: '{address}', path: {path}"))
    };
    let own = "https://git.example.com/shop/fleet";
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{argocd: argo/root.yaml}]\n")
        .file("argo/root.yaml", at("root", own, "argo/apps"))
        .file("argo/apps/api.yaml", at("api", own, "charts/api"))
        .file("argo/apps/other.yaml", at("other", "https://git.example.com/acme/other", "charts/api"));
    let refused = tools.run(&repo, "render --out out").code(2);
    assert!(
        refused.err.contains("Application argocd/other cannot be built: the base https://git.example.com/acme/other//charts/api at HEAD"),
        "{}",
        refused.err
    );
    // Values of another repository are not those of this one.
    let values = "repoURL: x, path: charts/api}";
    let sources = format!(
        "sources:\n  - {{repoURL: '{own}', path: charts/api, helm: {{valueFiles: [$values/charts/api/values-prod.yaml]}}}}\n  \
         - {{repoURL: 'https://git.example.com/acme/other', ref: values}}"
    );
    let several = application("other", "m1").replace(&format!("source: {{{values}"), &sources);
    repo.write("argo/apps/other.yaml", &several);
    let refused = tools.run(&repo, "render --out out").code(2);
    assert!(
        refused.err.contains("`$values/charts/api/values-prod.yaml` is in another repository"),
        "{}",
        refused.err
    );
    // A generator lists no folders of another repository.
    let git = "  - git: {repoURL: 'https://git.example.com/acme/other', directories: [{path: 'charts/*'}]}\n";
    repo.write("argo/apps/other.yaml", set_of(git, true, "{{.path.basename}}", "name: m1", "a"));
    let refused = tools.run(&repo, "render --out out").code(2);
    assert!(refused.err.contains("the generator reads another git repository"), "{}", refused.err);
}

#[test]
fn fields_of_applications_without_effect_are_named_once() {
    let Some(tools) = Tools::find(false, true) else { return };
    let with = |name: &str, more: &str| {
        let policy = "syncPolicy: {automated: {prune: true}, syncOptions: [CreateNamespace=true]}";
        format!("{}  {policy}\n  revisionHistoryLimit: 3\n{more}", application(name, "m1"))
    };
    let ignored = "  ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}]\n";
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{argocd: argo}]\n")
        .file("argo/a.yaml", with("a", ignored))
        .file("argo/b.yaml", with("b", ignored))
        .file("argo/c.yaml", with("c", "  sourec: {}\n"));
    let ran = tools.run(&repo, "check").code(1);
    let expected =
        "Application argocd/a, Application argocd/b have fields without effect here: `ignoreDifferences`";
    assert!(ran.out.replace(" and ", ", ").contains(expected), "{}", ran.out);
    assert!(
        ran.out.contains("Application argocd/c has fields without effect here: `CreateNamespace=true`"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("Application argocd/c has fields that federate does not know: `sourec`"),
        "{}",
        ran.out
    );
    assert_eq!(ran.out.matches("[field-without-effect]").count(), 3, "{}", ran.out);
    // What the repo gives needs no creation.
    repo.write("argo/a.yaml", with("a", ""));
    repo.write("argo/b.yaml", with("b", ""));
    repo.write("argo/c.yaml", with("c", ""));
    repo.write("shop.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
    assert_eq!(tools.run(&repo, "render --out out").code(0).err, "");
}

#[test]
fn post_renderers_of_a_release_change_what_the_chart_gives() {
    let Some(tools) = Tools::find(true, true) else { return };
    let release = |renderers: &str, more: &str| {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: api, namespace: shop}}\nspec:\n  interval: 5m\n  \
             chart: {{spec: {{chart: ./charts/api, sourceRef: {{kind: GitRepository, name: fleet}}}}}}\n{more}  postRenderers:\n{renderers}"
        )
    };
    let deployment = "apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 1
  selector: {matchLabels: {app: api}}
  template: {metadata: {labels: {app: api}}, spec: {containers: [{name: api, image: \"nginx:1\"}]}}
";
    let hook = "apiVersion: v1
kind: ConfigMap
metadata: {name: api-hook, annotations: {helm.sh/hook: pre-install}}
data: {size: hook}
";
    // A patch finds annotations in every object, as Helm notes its templates there.
    let first = "  - kustomize:
      images: [{name: nginx, newName: registry.example.com/nginx, newTag: \"2\"}]
      patches:
      - target: {kind: ConfigMap}
        patch: |-
          - {op: add, path: /metadata/annotations/note, value: first}
";
    let second = "  - kustomize:
      patches:
      - patch: |-
          {apiVersion: apps/v1, kind: Deployment, metadata: {name: api}, spec: {replicas: 4, template: {spec: {priorityClassName: high}}}}
";
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sizes.example.com}
spec:
  group: example.com
  names: {kind: Size, plural: sizes}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";
    let repo = chart_repo()
        .file("federate.yaml", "sources: [{flux: apps}]\n")
        .file("charts/api/templates/deployment.yaml", deployment)
        .file("charts/api/templates/hook.yaml", hook)
        .file("charts/api/crds/size.yaml", crd)
        .file("apps/api.yaml", release(&format!("{first}{second}"), ""));
    tools.run(&repo, "render --out out").code(0);
    let all = rendered(&repo, "m1");
    let web = &all["\"Deployment\" \"api\""];
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example.com/nginx:2");
    assert_eq!(
        (&web["spec"]["replicas"], &web["spec"]["template"]["spec"]["priorityClassName"]),
        (&json!(4), &json!("high"))
    );
    assert!(web["metadata"].get("annotations").is_none(), "{web}");
    let note = |all: &BTreeMap<String, serde_json::Value>, name: &str| {
        all[&format!("\"ConfigMap\" \"{name}\"")]["metadata"]["annotations"]["note"].clone()
    };
    assert_eq!((note(&all, "api-map"), note(&all, "api-hook")), (json!("first"), json!("first")));
    assert!(all.contains_key("\"CustomResourceDefinition\" \"sizes.example.com\""), "{:?}", all.keys());
    // Each object keeps the place of its template.
    let explained = tools.run(&repo, "explain deployment/api -n shop").code(0).out;
    assert!(explained.contains("charts/api/templates/deployment.yaml"), "{explained}");
    repo.write("apps/api.yaml", release(first, "  postRenderStrategy: nohooks\n"));
    tools.run(&repo, "render --out out").code(0);
    let all = rendered(&repo, "m1");
    assert_eq!((note(&all, "api-map"), note(&all, "api-hook")), (json!("first"), json!(null)));
    // What helm-controller does not carry out, or kustomize refuses, is an error at its line.
    let unknown = "  - kustomize: {patchesStrategicMerge: [{kind: Deployment}]}\n";
    let broken = "  - kustomize: {patches: [{patch: \"- {op: remove, path: /spec/none}\", target: {kind: Deployment}}]}\n";
    for (renderers, expected) in [
        (unknown, "apps/api.yaml:8"),
        (unknown, "federate does not carry out `patchesStrategicMerge` of a post-renderer"),
        (broken, "its post-renderer failed"),
    ] {
        repo.write("apps/api.yaml", release(renderers, ""));
        let ran = tools.run(&repo, "render --out out").code(2);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}
