//! What counts as a template: files of kustomize, Helm and other engines, objects that SOPS encrypted, objects that several
//! documents define, hooks, and documents of other programs.

use crate::sandbox::{CLUSTERS, POLICY, Sandbox, WEB};

/// A `ConfigMap`.
fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\ndata: {{key: \"{value}\"}}\n"
    )
}

/// A policy that places every `ConfigMap` of `shop`.
const ALL_MAPS: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: maps, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
  placement: {}
";

/// A repo with clusters, a policy that selects the Deployment `shop/web`, and a placed `ConfigMap`.
fn maps_repo() -> Sandbox {
    Sandbox::new()
        .file("clusters.yaml", CLUSTERS)
        .file("policy.yaml", POLICY)
        .file("maps.yaml", ALL_MAPS)
        .file("plain.yaml", config_map("plain", "1"))
}

/// The same, as a git repository with one commit.
fn git_repo(sandbox: Sandbox) -> Sandbox {
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -q -m first");
    sandbox
}

#[test]
fn what_kustomize_builds_is_missing_and_not_published_as_it_lies_there() {
    for name in ["kustomization.yaml", "kustomization.yml", "Kustomization"] {
        let repo = git_repo(
            maps_repo()
                .file(
                    &format!("app/{name}"),
                    "resources: [web.yaml]\nimages: [{name: nginx, newTag: \"2\"}]\n",
                )
                .file("app/web.yaml", WEB),
        );
        std::fs::create_dir_all(repo.path("live/m1")).unwrap();
        for command in [
            "render --out out",
            "commit --branch rendered",
            "apply --observed live --dry-run=client",
            "drift --observed live",
        ] {
            let ran = repo.run(command).code(2);
            assert!(
                ran.err
                    .contains("error[not-built]: PropagationPolicy shop/web would place Deployment shop/web"),
                "{command}: {}",
                ran.err
            );
            assert!(ran.err.contains("kubectl kustomize app > rendered/app.yaml"), "{command}: {}", ran.err);
        }
        assert!(!repo.path("out").exists());
        assert_eq!(repo.git("branch --list rendered"), "");
        let plan = repo.run("plan").code(0);
        assert!(plan.err.contains("warning[not-built]") && plan.out.contains("plain"), "{plan:#?}");
        let check = repo.run("check").code(2);
        assert!(
            check.out.contains("error[not-built]") && !check.out.contains("unused-policy"),
            "{}",
            check.out
        );
        let explain = repo.run("explain deployment/web").code(2);
        assert!(explain.err.contains("another tool builds it from app/"), "{}", explain.err);
        repo.run("explain configmap/plain").code(0);
        // The same without a checkout, and with exactly the rest.
        assert!(repo.run("render --rev HEAD --out out").code(2).err.contains("not-built"));
        repo.run("render --out out --keep-going").code(2);
        assert_eq!(repo.files("out/m1"), ["shop/configmap_plain.yaml"]);
    }
}

#[test]
fn the_built_output_or_an_exclusion_is_the_remedy() {
    let built = WEB.replace("name: web\n  namespace", "name: eu-web\n  namespace");
    let policy = POLICY.replace("name: web\n  placement", "name: eu-web\n  placement");
    let repo = maps_repo()
        .file("policy.yaml", policy)
        .file("app/kustomization.yaml", "resources: [web.yaml]\nnamePrefix: eu-\nconfigMapGenerator: [{name: app, namespace: shop, literals: [a=b]}]\n")
        .file("app/web.yaml", WEB);
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("would place Deployment shop/eu-web, ConfigMap shop/eu-app"), "{}", ran.err);
    repo.write("rendered/app.yaml", format!("{built}---\n{}", config_map("eu-app-m2mg7k8t5b", "b")));
    let ran = repo.run("render --out out").code(0);
    assert_eq!(ran.err, "");
    assert_eq!(
        repo.files("out/m1/shop"),
        ["configmap_eu-app-m2mg7k8t5b.yaml", "configmap_plain.yaml", "deployment.apps_eu-web.yaml"]
    );
    std::fs::remove_dir_all(repo.path("rendered")).unwrap();
    repo.write(".federateignore", "app/\n");
    assert_eq!(repo.run("render --out out --prune-limit 100").err.matches("not-built").count(), 0);
    // Without its kustomization, the folder is read as it is written.
    repo.write(".federateignore", "kustomization.yaml\n");
    let plan = repo.run("plan");
    assert!(plan.out.contains("web") && !plan.err.contains("not-built"), "{plan:#?}");
}

#[test]
fn a_folder_that_no_policy_selects_stops_nothing() {
    let repo = maps_repo()
        .file("web.yaml", WEB)
        .file("boot/kustomization.yaml", "resources: [sa.yaml, role.yaml]\n")
        .file("boot/sa.yaml", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: boot}\n")
        .file("boot/role.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: boot}\nspec: {ports: [{port: 1, oops: 2}]}\n")
        .file("product/Chart.yaml", "apiVersion: v2\nname: product\nversion: 1.0.0\n")
        .file("product/values.yaml", "a: 1\n")
        .file("product/templates/ds.yaml", "{{- if .Values.a }}\nkind: DaemonSet\napiVersion: apps/v1\nmetadata:\n  name: {{ .Release.Name }}\n{{- end }}\n")
        .file("lib/Chart.yaml", "apiVersion: v2\nname: lib\ntype: library\nversion: 1.0.0\n")
        .file("lib/templates/x.yaml", "{{ define \"x\" }}\nkind: Deployment\n{{ end }}\n");
    let ran = repo.run("render --out out -v").code(0);
    assert_eq!(ran.err.matches("warning[kustomization]").count(), 1, "{}", ran.err);
    assert_eq!(ran.err.matches("warning[helm-chart]").count(), 1, "{}", ran.err);
    assert!(ran.err.contains("its 2 objects are not templates, and no policy selects them"), "{}", ran.err);
    assert!(
        ran.err
            .contains("`sources: [{chart: product, release: product, namespace: default}]` in federate.yaml"),
        "{}",
        ran.err
    );
    assert!(repo.path("out/m1/shop/deployment.apps_web.yaml").exists());
    let check = repo.run("check").code(1).out;
    for follows in ["unmatched", "unknown-field", "oops", "lib/"] {
        assert!(!check.contains(follows), "{follows}: {check}");
    }
    for setting in ["everywhere", "error"] {
        repo.write("federate.yaml", format!("unplaced: {setting}\n"));
        let ran = repo.run("render --out out2").code(2);
        assert_eq!(ran.err.matches("error[not-built]").count(), 2, "{setting}: {}", ran.err);
    }
}

#[test]
fn policies_and_inventory_are_read_wherever_they_lie() {
    let repo = Sandbox::new()
        .file("kustomization.yaml", "resources: [clusters.yaml, policy.yaml, apps]\n")
        .file("clusters.yaml", CLUSTERS)
        .file("policy.yaml", POLICY)
        .file("apps/web.yaml", WEB);
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("PropagationPolicy shop/web would place Deployment shop/web"), "{}", ran.err);
    assert!(ran.err.contains("list only kustomization.yaml there"), "{}", ran.err);
    repo.write("kustomization.yaml", "resources: [clusters.yaml, policy.yaml]\nnamespace: other\n");
    std::fs::remove_dir_all(repo.path("apps")).unwrap();
    let check = repo.run("check").code(1).out;
    assert!(
        check.contains("PropagationPolicy shop/web in it are read as written")
            || check.contains("read as written"),
        "{check}"
    );
}

#[test]
fn objects_with_their_own_placement_are_missed() {
    let federated = "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedConfigMap\nmetadata: {name: f, namespace: shop}\nspec:\n  template: {data: {a: b}}\n  placement: {clusters: [{name: m1}]}\n";
    let repo =
        maps_repo().file("fed/kustomization.yaml", "resources: [f.yaml]\n").file("fed/f.yaml", federated);
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("their own rules would place FederatedConfigMap shop/f"), "{}", ran.err);
}

#[test]
fn overlays_are_followed_to_their_bases() {
    let patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 5}\n";
    let repo = maps_repo()
        .file("app/base/kustomization.yaml", "resources: [web.yaml]\n")
        .file("app/base/web.yaml", WEB)
        .file("app/overlays/dev/kustomization.yaml", "resources: [../../base]\nnamespace: dev\n")
        .file(
            "app/overlays/prod/kustomization.yaml",
            "resources: [../../base]\npatches: [{path: replicas.yaml}]\n",
        )
        .file("app/overlays/prod/replicas.yaml", patch);
    let check = repo.run("check").code(2).out;
    assert!(!check.contains("duplicate-object"), "{check}");
    assert_eq!(check.matches("error[not-built]").count(), 1, "{check}");
    assert!(check.contains("app/overlays/prod/kustomization.yaml"), "{check}");
    assert!(
        check.contains("warning[kustomization]") && check.contains("app/overlays/dev/kustomization.yaml"),
        "{check}"
    );
}

#[test]
fn charts_are_not_guessed_but_what_a_policy_would_select_is_missed() {
    let template = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ include \"web.fullname\" . }}\n  namespace: shop\nspec: {}\n";
    let repo = maps_repo()
        .file("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
        .file("charts/web/templates/deployment.yaml", template)
        .file("charts/web/templates/_helpers.tpl", "{{ define \"web.fullname\" }}web{{ end }}\n");
    let ran = repo.run("render --out out").code(2);
    assert!(
        ran.err.contains(
            "PropagationPolicy shop/web would place Deployment shop/web, but `charts/web` is a Helm chart"
        ),
        "{}",
        ran.err
    );
    repo.write("rendered/web.yaml", format!("---\n# Source: web/templates/deployment.yaml\n{WEB}"));
    assert_eq!(repo.run("render --out out").code(0).err, "");
    let policies = maps_repo().file("charts/p/Chart.yaml", "apiVersion: v2\nname: p\nversion: 1.0.0\n").file(
        "charts/p/templates/policy.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata:\n  name: {{ .Release.Name }}\nspec: {}\n",
    );
    assert!(policies.run("render --out out").code(2).err.contains("and it holds policies"));
}

#[test]
fn sessions_agree_with_new_ones_about_owned_files() {
    let repo = git_repo(maps_repo().file("web.yaml", WEB).file("boot/kustomization.yaml", "resources: []\n"));
    repo.write(
        "boot/sa.yaml",
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: boot}\n",
    );
    let diff = repo.run("diff --from HEAD").code(0);
    assert!(diff.out.contains("kustomization"), "the new finding is shown: {}", diff.out);
    repo.write("boot/web.yaml", WEB.replace("name: web\n", "name: other\n"));
    repo.write("all.yaml", POLICY.replace("name: web\n", "name: all\n").replace("    name: all\n", ""));
    let diff = repo.run("diff --from HEAD");
    assert!(diff.out.contains("not-built") && diff.code != 2, "a comparison goes on: {diff:#?}");
}

/// A Secret that SOPS encrypted; the comment shows that the text is copied.
const ENCRYPTED: &str = "apiVersion: v1
kind: Secret
metadata: {name: db, namespace: shop}
stringData:
    password: ENC[AES256_GCM,data:Zm9v,iv:YWJj,tag:ZGVm,type:str]  # as written
sops:
    age: []
    lastmodified: \"2026-01-01T00:00:00Z\"
    mac: ENC[AES256_GCM,data:bWFj,iv:YWJj,tag:ZGVm,type:str]
    version: 3.9.0
";

fn encrypted_repo() -> Sandbox {
    Sandbox::new()
        .file("clusters.yaml", CLUSTERS)
        .file("policy.yaml", ALL_MAPS.replace("kind: ConfigMap", "kind: Secret"))
        .file("db.yaml", ENCRYPTED)
}

#[test]
fn encrypted_objects_are_copied_for_a_reader_that_decrypts() {
    let repo = git_repo(encrypted_repo());
    for command in ["check", "plan", "render --out out", "commit --branch rendered"] {
        let ran = repo.run(command);
        let all = format!("{}{}", ran.out, ran.err);
        assert!(all.contains("warning[sops]: Secret shop/db is encrypted by SOPS"), "{command}: {all}");
        assert!(!all.contains("error[") && !all.contains("secret-in-clear"), "{command}: {all}");
    }
    assert_eq!(repo.read("out/m1/shop/secret_db.yaml"), ENCRYPTED);
    assert_eq!(repo.git("show rendered:m1/shop/secret_db.yaml"), ENCRYPTED);
    let two = format!("{}---\n{ENCRYPTED}", config_map("x", "1"));
    repo.write("db.yaml", two);
    repo.run("render --out out2").code(0);
    assert_eq!(repo.read("out2/m1/shop/secret_db.yaml"), ENCRYPTED);
    let json = "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"j\", \"namespace\": \"shop\"}, \
                \"data\": {\"a\": \"ENC[AES256_GCM,data:Zm9v,iv:YWJj,tag:ZGVm,type:str]\"}, \"sops\": {\"version\": \"3.9.0\"}}\n";
    repo.write("j.json", json);
    repo.run("render --out out3").code(0);
    assert_eq!(repo.read("out3/m1/shop/secret_j.yaml"), json);
}

#[test]
fn encrypted_objects_do_not_reach_clusters() {
    let repo = encrypted_repo()
        .file("live/m1/a.yaml", "")
        .file("live/m2/a.yaml", "")
        .file(".federateignore", "live/\n");
    repo.write("plain.yaml", config_map("plain", "1"));
    repo.write("maps.yaml", ALL_MAPS.replace("name: maps", "name: all-maps"));
    let ran = repo.run("apply --observed live --dry-run=client").code(2);
    assert!(ran.err.contains("error[sops]"), "{}", ran.err);
    let ran = repo.run("apply --observed live --dry-run=client --keep-going -o json").code(2);
    assert!(ran.out.contains("plain") && !ran.out.contains("\"db\""), "{}", ran.out);
    let drift = repo.run("drift --observed live");
    assert!(drift.err.contains("warning[sops]") && !drift.out.contains("db"), "{drift:#?}");
}

#[test]
fn an_override_of_an_encrypted_object_is_an_error() {
    let overriding = "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: shop}\nspec:\n  resourceSelectors: [{apiVersion: v1, kind: Secret, name: db}]\n  overrideRules:\n  - overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}\n";
    let repo = encrypted_repo().file("override.yaml", overriding);
    for command in ["check", "render --out out"] {
        let ran = repo.run(command).code(2);
        let all = format!("{}{}", ran.out, ran.err);
        assert!(all.contains("error[sops-changed]: OverridePolicy shop/o changes"), "{all}");
        assert!(all.contains("override.yaml:3"), "{all}");
    }
    let federated = "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedSecret\nmetadata: {name: f, namespace: shop}\nspec:\n  template: {data: {a: \"ENC[AES256_GCM,data:Zm9v,iv:YWJj,tag:ZGVm,type:str]\"}}\n  placement: {clusterSelector: {}}\nsops: {version: 3.9.0}\n";
    let wrapped = encrypted_repo().file("f.yaml", federated);
    assert!(wrapped.run("check").code(2).out.contains("no reader could decrypt it"));
}

#[test]
fn a_change_of_an_encrypted_value_is_shown_without_it() {
    let repo = git_repo(encrypted_repo());
    repo.write("db.yaml", ENCRYPTED.replace("data:Zm9v", "data:YmFy").replace("data:bWFj", "data:bmV3"));
    let diff = repo.run("diff --from HEAD").code(1);
    assert!(diff.out.contains("encrypted") && !diff.out.contains("YmFy"), "{}", diff.out);
    let json = repo.run("diff --from HEAD -o json").code(1);
    assert!(json.out.contains("changed (encrypted)") && !json.out.contains("YmFy"), "{}", json.out);
}

#[test]
fn duplicates_that_nobody_places_are_one_warning() {
    let account = |n: usize| {
        format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: a{n}, namespace: flux-system}}\n---\n"
        )
    };
    let bootstrap: String = (0..5).map(account).collect();
    let mut repo = maps_repo();
    for cluster in ["c1", "c2", "c3"] {
        repo = repo.file(&format!("clusters/{cluster}/flux-system/gotk.yaml"), &bootstrap);
    }
    let ran = repo.run("render --out out -v").code(0);
    assert_eq!(ran.err.matches("[duplicate-object]").count(), 1, "{}", ran.err);
    assert!(ran.err.contains("5 objects are defined several times, equally: 5 in `clusters/c1` and `clusters/c2`, `clusters/c3`"), "{}", ran.err);
    assert!(ran.err.contains("list the folders in .federateignore"), "{}", ran.err);
    assert_eq!(repo.files("out/m1"), ["shop/configmap_plain.yaml"]);
}

#[test]
fn duplicates_that_are_placed_are_an_error_unless_they_are_equal() {
    let repo = maps_repo()
        .file("envs/dev/app.yaml", config_map("app", "1"))
        .file("envs/prod/app.yaml", config_map("app", "1"));
    let ran = repo.run("render --out out").code(0);
    assert!(
        ran.err.contains(
            "warning[duplicate-object]: ConfigMap shop/app is defined several times, equally: envs/dev/app.yaml:1, \
             envs/prod/app.yaml:1"
        ),
        "{}",
        ran.err
    );
    assert!(repo.read("out/m1/shop/configmap_app.yaml").contains("key: \"1\""));
    repo.write("envs/prod/app.yaml", config_map("app", "2"));
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("error[duplicate-object]: ConfigMap shop/app is defined twice: in envs/dev/app.yaml:1 and in envs/prod/app.yaml:1"), "{}", ran.err);
    assert!(ran.err.contains("`--path envs/dev`"), "{}", ran.err);
}

#[test]
fn a_definition_counts_if_only_the_other_one_would_be_placed() {
    let labelled = |label: &str| {
        config_map("app", label)
            .replace("namespace: shop", &format!("namespace: shop, labels: {{env: {label}}}"))
    };
    let policy =
        ALL_MAPS.replace("kind: ConfigMap", "kind: ConfigMap, labelSelector: {matchLabels: {env: prod}}");
    let repo = maps_repo()
        .file("maps.yaml", policy)
        .file("a.yaml", labelled("dev"))
        .file("b.yaml", labelled("prod"));
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("error[duplicate-object]"), "{}", ran.err);
}

#[test]
fn policies_and_clusters_that_disagree_are_errors() {
    let twins = maps_repo().file("again.yaml", POLICY).file("more.yaml", CLUSTERS);
    assert!(twins.run("render --out out").code(0).err.contains("warning[duplicate-object]"));
    let policy = maps_repo().file("again.yaml", POLICY.replace("Divided", "Duplicated"));
    assert!(policy.run("render --out out").code(2).err.contains("error[duplicate-object]"));
    let cluster = maps_repo().file("more.yaml", CLUSTERS.replace("region: eu", "region: asia"));
    assert!(cluster.run("render --out out").code(2).err.contains("error[duplicate-object]"));
}

#[test]
fn documents_of_other_programs_are_no_objects() {
    let repo = maps_repo()
        .file("grafana/datasources.yaml", "apiVersion: 1\ndatasources: [{name: a, type: prometheus}]\n")
        .file("compose.yaml", "version: \"3\"\nservices: {web: {image: nginx}}\n")
        .file("values.yaml", "replicas: 2\n")
        .file("setters.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: setters, namespace: shop, annotations: {config.kubernetes.io/local-config: \"true\"}}\n");
    let ran = repo.run("render --out out").code(0);
    assert_eq!(ran.err, "");
    assert_eq!(repo.files("out/m1"), ["shop/configmap_plain.yaml"]);
    assert!(!repo.run("check").out.contains("setters"));
}

#[test]
fn templates_of_other_engines_are_named_and_not_broken_yaml() {
    for (text, engine) in [
        ("{{- if .Values.a }}\nkind: Service\n{{- end }}\n", "Helm or Go (`{{ … }}`)"),
        ("kind: Service\nmetadata:\n  name: {{ name }}\n", "Helm, Jinja or Go (`{{ … }}`)"),
        ("{% for a in b %}\nkind: Service\n{% endfor %}\n", "Jinja (`{% … %}`)"),
        ("kind: Service\n<% if a %>\n<% end %>\n", "ERB (`<% … %>`)"),
        ("kind: Service\nmetadata:\n  labels: [\n  ${LABELS}\n", "envsubst (`${…}`)"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: \"${NAME}\"}\n", "envsubst (`${…}`)"),
        ("kind: Service\nmetadata: {name: x}\nspec:\n  a: %NAME%\n", "a script (`%NAME%`, `@NAME@`)"),
    ] {
        let repo = maps_repo().file("other/a.yaml", text).file("other/b.yaml", text);
        let ran = repo.run("render --out out").code(0);
        assert!(
            ran.err.contains(&format!(
                "warning[other-template]: 2 files are templates of {engine}: other/a.yaml, other/b.yaml"
            )),
            "{text}: {}",
            ran.err
        );
        assert!(!ran.err.contains("invalid-yaml"), "{}", ran.err);
        assert!(ran.err.contains("or list the files in .federateignore"), "{}", ran.err);
    }
    let placed = maps_repo().file(
        "other.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  namespace: shop\ndata:\n  a: {{ b }}\n",
    );
    assert!(
        placed
            .run("render --out out")
            .code(2)
            .err
            .contains("error[not-built]: PropagationPolicy shop/maps would place ConfigMap shop/x")
    );
    let policy = maps_repo().file("policy.yaml", format!("{POLICY}    a: {{{{ b }}}}\n"));
    assert!(policy.run("render --out out").code(2).err.contains("and it holds policies"));
    let broken = maps_repo()
        .file("rules.yaml", "kind: Rules\nmetadata: [\nannotations:\n  text: |\n    {{ $value }}\n");
    assert!(broken.run("render --out out").code(2).err.contains("invalid-yaml"));
}

#[test]
fn jinja_of_another_program_is_named_once() {
    let other = "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ app_name | snakecase }}\n";
    let repo = maps_repo().file("a.yaml.j2", other).file("b.yaml.j2", other);
    let ran = repo.run("render --out out").code(0);
    assert_eq!(
        ran.err.matches("warning[other-template]: 2 files are templates of Jinja").count(),
        1,
        "{}",
        ran.err
    );
    let ours = Sandbox::web().file("a.yaml.j2", other.replace("app_name", "clutser.name"));
    assert!(ours.run("render --out out").code(2).err.contains("invalid-template"));
}

#[test]
fn hooks_that_do_not_install_are_never_placed() {
    let hooked = |name: &str, key: &str, value: &str| {
        config_map(name, "1")
            .replace("namespace: shop", &format!("namespace: shop, annotations: {{{key}: {value}}}"))
    };
    let repo = maps_repo()
        .file("test.yaml", hooked("test", "helm.sh/hook", "test"))
        .file("delete.yaml", hooked("delete", "helm.sh/hook", "\"pre-delete,post-delete\""))
        .file("rollback.yaml", hooked("rollback", "helm.sh/hook", "post-rollback"))
        .file("skip.yaml", hooked("skip", "argocd.argoproj.io/hook", "Skip"))
        .file("migrate.yaml", hooked("migrate", "helm.sh/hook", "pre-upgrade"))
        .file("sync.yaml", hooked("sync", "argocd.argoproj.io/hook", "PreSync"));
    let ran = repo.run("render --out out -v").code(0);
    assert_eq!(ran.err.matches("warning[hook]").count(), 2, "{}", ran.err);
    for name in [
        "test (test)",
        "delete (pre-delete,post-delete)",
        "rollback (post-rollback)",
        "skip (Skip)",
        "migrate (pre-upgrade)",
        "sync (PreSync)",
    ] {
        assert!(ran.err.contains(&format!("ConfigMap shop/{name}")), "{name}: {}", ran.err);
    }
    assert_eq!(
        repo.files("out/m1/shop"),
        ["configmap_migrate.yaml", "configmap_plain.yaml", "configmap_sync.yaml"]
    );
}

#[test]
fn files_of_other_tools_are_named_once() {
    let repo = maps_repo()
        .file("a/fleet.yaml", "defaultNamespace: a\n")
        .file("b/fleet.yaml", "defaultNamespace: b\n")
        .file("helmfile.yaml", "releases: []\n")
        .file("k/helm-chart.yaml", "helmChart: {chartName: x}\n")
        .file("j/a.jsonnet", "{}\n")
        .file("j/b.libsonnet", "{}\n")
        .file("c/a.cue", "a: 1\n");
    let ran = repo.run("render --out out -v").code(0);
    assert_eq!(ran.err.matches("warning[other-tool]").count(), 5, "{}", ran.err);
    for name in ["Rancher Fleet", "helmfile", "kluctl", "Jsonnet", "CUE"] {
        assert!(ran.err.contains(name), "{name}: {}", ran.err);
    }
}
