//! A change of what programs build from shows as what was changed: values, settings, patches, templates of charts.

use serde_json::Value;

use crate::builds::{CHART, POLICY, Tools};
use crate::sandbox::{Ran, Sandbox, WEB};

const FLEET: &str = "clusters:
- {name: m1, labels: {env: prod}}
- {name: m2}
- {name: m3, labels: {env: prod}}
";

const TEMPLATES: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: 1
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers:
      - {name: api, image: \"api:{{ .Values.image.tag }}\", args: [{{ .Values.mode | quote }}]}
";

const SERVICE: &str = "apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}, labels: {version: \"{{ .Chart.Version }}\"}}
spec: {ports: [{port: {{ .Values.port }}}]}
";

const VALUES: &str = "image:
  tag: \"1.3\"
mode: fast
port: 80
";

const SOURCES: &str = "sources:
- chart: charts/api
  namespace: shop
  values: [values/common.yaml]
  set: {port: 81}
  perCluster:
  - clusters: {matchLabels: {env: prod}}
    values: [values/prod.yaml]
  - clusters: {names: [m2]}
    set: {mode: slow}
";

fn commit(repo: &Sandbox) {
    repo.write(".gitignore", ".cache/\nout*/\n");
    for line in ["init -q -b main", "add -A", "commit -q -m first"] {
        repo.git(line);
    }
}

fn chart_repo() -> Sandbox {
    let repo = Sandbox::new()
        .file("policy.yaml", POLICY)
        .file("federate.yaml", format!("{FLEET}{SOURCES}"))
        .file("charts/api/Chart.yaml", CHART)
        .file("charts/api/values.yaml", VALUES)
        .file("charts/api/templates/deployment.yaml", TEMPLATES)
        .file("charts/api/templates/service.yaml", SERVICE)
        .file("values/common.yaml", "image: {tag: \"1.3\"}\n")
        .file("values/prod.yaml", "# production\nimage:\n  tag: \"1.4\"\n");
    commit(&repo);
    repo
}

fn diff(tools: &Tools, repo: &Sandbox, more: &str) -> Ran {
    tools.run(repo, &format!("diff --from HEAD {more}"))
}

/// The edits of sources, in the order of the report.
fn source_edits(tools: &Tools, repo: &Sandbox) -> Vec<Value> {
    let report = diff(tools, repo, "-o json").code(1).json();
    let causes = report["causes"].as_array().unwrap().clone();
    causes.into_iter().filter(|cause| cause["role"] == "source").collect()
}

#[test]
fn a_changed_value_is_named_with_its_line_before_what_it_changes() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = chart_repo();
    repo.write("values/prod.yaml", "# production\nimage:\n  tag: \"1.5\"\n");
    let text = diff(&tools, &repo, "").code(1).out;
    let line = "~ values/prod.yaml:3 image.tag: \"1.4\" → \"1.5\" (for m1, m3): 1 object in 2 clusters\n";
    let (before, after) = text.split_once(line).unwrap_or_else(|| panic!("{text}"));
    assert!(before.contains("Changed sources\n  charts/api: Deployment shop/api\n"), "{text}");
    assert!(after.contains("api:1.4") && after.contains("api:1.5"), "{text}");
    assert!(!text.contains("Caused by"), "what is built is no edit of its own: {text}");

    let edits = source_edits(&tools, &repo);
    let [edit] = edits.as_slice() else { panic!("{edits:#?}") };
    let expected = serde_json::json!({
        "role": "source", "kind": "changed", "file": "values/prod.yaml", "line": 3,
        "fields": [{"path": "/image/tag", "from": "1.4", "to": "1.5", "line": 3}],
        "sources": ["charts/api"], "clusters": ["m1", "m3"],
        "moves": 0, "manifests": 2, "changedObjects": 1, "changedClusters": 2,
    });
    assert_eq!(*edit, expected);
    let report = diff(&tools, &repo, "-o json").json();
    assert_eq!(report["objects"][0]["causedBy"], serde_json::json!([0]));

    let comment = diff(&tools, &repo, "-o markdown").out;
    let row = "| `charts/api` for `m1`, `m3`: `values/prod.yaml:3` | `image.tag` | `\"1.4\"` | `\"1.5\"` | 1 object in 2 clusters |";
    assert!(comment.contains(row), "{comment}");
    let page = diff(&tools, &repo, "-o html").out;
    assert!(
        page.contains("<b>~ charts/api</b>") && page.contains("<code>image.tag</code>"),
        "the page names it"
    );
}

#[test]
fn settings_of_a_source_are_values_of_it() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = chart_repo();
    let sources = SOURCES.replace("port: 81", "port: 82").replace("mode: slow", "mode: late");
    repo.write("federate.yaml", format!("{FLEET}{sources}"));
    let text = diff(&tools, &repo, "").code(1).out;
    for line in [
        "federate.yaml:9 set.port: 81 → 82: 2 objects in 3 clusters\n",
        "federate.yaml:14 perCluster.1.set.mode: slow → late (for m2): 2 objects in 1 cluster\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let report = diff(&tools, &repo, "-o json").json();
    let roles: Vec<&Value> =
        report["causes"].as_array().unwrap().iter().map(|cause| &cause["role"]).collect();
    assert_eq!(roles, ["source", "source"], "and nothing is left of the configuration");

    repo.write("federate.yaml", format!("{FLEET}{sources}unplaced: everywhere\n"));
    let report = diff(&tools, &repo, "-o json").code(1).json();
    let causes = report["causes"].as_array().unwrap();
    let rest = causes.iter().find(|cause| cause["role"] == "configuration").unwrap();
    assert_eq!(rest["fields"].as_array().unwrap().len(), 1, "{rest}");
    assert_eq!(rest["fields"][0]["path"], "/unplaced", "{rest}");
}

#[test]
fn templates_and_versions_of_charts_are_named() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = chart_repo();
    repo.write("charts/api/Chart.yaml", CHART.replace("1.0.0", "1.1.0"));
    repo.write(
        "charts/api/templates/deployment.yaml",
        TEMPLATES.replace("name: api, image", "name: web, image"),
    );
    repo.write("charts/api/templates/_helpers.tpl", "{{ define \"x\" }}{{ end }}\n");
    let text = diff(&tools, &repo, "").code(1).out;
    for line in [
        "~ 1. charts/api/Chart.yaml:3 version: 1.0.0 → 1.1.0: 2 objects in 3 clusters\n",
        "+ 2. charts/api/templates/_helpers.tpl added: 2 objects in 3 clusters\n",
        "~ 3. charts/api/templates/deployment.yaml:11 changed: 1 object in 3 clusters\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains("charts/api: Deployment shop/api, Service shop/api\n"), "{text}");

    // A packaged chart has another name in each version.
    let packaged = Sandbox::new().file("policy.yaml", POLICY);
    let package = |version: &str, port: &str| {
        packaged.write("api/Chart.yaml", CHART.replace("1.0.0", version));
        packaged.write("api/values.yaml", VALUES.replace("80", port));
        packaged.write("api/templates/service.yaml", SERVICE);
        let done = packaged.shell(&format!("tar czf api-{version}.tgz api && rm -r api")).status().unwrap();
        assert!(done.success());
        packaged.write("federate.yaml", format!("{FLEET}sources: [{{chart: api-{version}.tgz}}]\n"));
    };
    package("1.0.0", "80");
    commit(&packaged);
    std::fs::remove_file(packaged.path("api-1.0.0.tgz")).unwrap();
    package("1.1.0", "90");
    let text = diff(&tools, &packaged, "").code(1).out;
    assert!(
        text.contains("federate.yaml:5 chart: api-1.0.0.tgz → api-1.1.0.tgz: 1 object in 3 clusters\n"),
        "{text}"
    );
}

#[test]
fn a_source_that_is_new_or_gone_is_one_edit() {
    let Some(tools) = Tools::find(true, true) else { return };
    let repo = chart_repo();
    repo.write("federate.yaml", FLEET);
    let edits = source_edits(&tools, &repo);
    let [edit] = edits.as_slice() else { panic!("{edits:#?}") };
    assert_eq!(
        (&edit["kind"], &edit["file"], &edit["sources"][0]),
        (&"removed".into(), &"federate.yaml".into(), &"charts/api".into())
    );
    assert_eq!((&edit["changedObjects"], &edit["changedClusters"]), (&2.into(), &3.into()), "{edit}");

    repo.write("federate.yaml", format!("{FLEET}{SOURCES}"));
    repo.write("web/kustomization.yaml", "resources: [web.yaml]\n");
    repo.write("web/web.yaml", WEB);
    let edits = source_edits(&tools, &repo);
    let [edit] = edits.as_slice() else { panic!("{edits:#?}") };
    assert_eq!((&edit["kind"], &edit["file"]), (&"added".into(), &"web/kustomization.yaml".into()));
    assert_eq!(edit["changedObjects"], 1, "{edit}");
}

/// A chart whose values reach a Secret as they are, encoded, within a text, and as a hash.
fn secret_repo(suffix: &str) -> Sandbox {
    let secret = "apiVersion: v1
kind: Secret
metadata: {name: s}
data: {root: {{ .Values.root | b64enc }}}
stringData: {hash: {{ .Values.phrase | sha256sum | quote }}, url: \"db://me:{{ .Values.word }}@db\"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {mode: {{ .Values.mode | quote }}, size: {{ .Values.size | quote }}}
";
    Sandbox::new()
        .file("policy.yaml", POLICY)
        .file("federate.yaml", format!("{FLEET}sources: [{{chart: app}}]\n"))
        .file("app/Chart.yaml", CHART)
        .file("app/templates/all.yaml", secret)
        .file(
            "app/values.yaml",
            format!(
                "root: hunter{suffix}\nphrase: correct-horse-{suffix}\nword: battery{suffix}\ndbPassword: staple{suffix}\nmode: mode{suffix}\nsize: {suffix}\n"
            ),
        )
}

#[test]
fn values_that_are_secret_in_clusters_are_not_shown() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = secret_repo("17");
    commit(&repo);
    repo.write("app/values.yaml", secret_repo("29").read("app/values.yaml"));
    for format in ["table", "json", "yaml", "markdown", "html", "table -v"] {
        let out = diff(&tools, &repo, &format!("-o {format}")).code(1).out;
        for word in
            ["hunter17", "hunter29", "correct-horse", "battery17", "battery29", "staple17", "staple29"]
        {
            assert!(!out.contains(word), "{format}: {word}: {out}");
        }
        assert!(out.contains("mode17") && out.contains("mode29"), "{format}: {out}");
    }
    let edits = source_edits(&tools, &repo);
    let fields = edits[0]["fields"].as_array().unwrap();
    let shown: Vec<(&str, bool)> = fields
        .iter()
        .map(|field| (field["path"].as_str().unwrap(), !field["to"].to_string().contains("<secret ")))
        .collect();
    let expected = [
        ("/dbPassword", false),
        ("/mode", true),
        ("/phrase", false),
        ("/root", false),
        ("/size", true),
        ("/word", false),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn encrypted_values_of_a_chart_are_refused() {
    let Some(tools) = Tools::find(false, true) else { return };
    let encrypted = |data: &str, mac: &str| {
        format!(
            "user: ENC[AES256_GCM,data:{data},type:str]\nsops:\n  mac: ENC[AES256_GCM,data:{mac},type:str]\n  version: 3.9.0\n"
        )
    };
    let repo = chart_repo();
    repo.write("charts/api/templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {n: {{ len .Values.user | quote }}, m: {{ .Values.sops.mac | sha256sum | trunc 4 | quote }}}\n");
    repo.write("values/common.yaml", encrypted("Zm9v", "AAAA"));
    repo.git("add -A");
    repo.git("commit -q -m second");
    repo.write("values/common.yaml", encrypted("YmFyYmFy", "BBBB"));
    for line in ["diff --from HEAD", "render --out out", "plan", "check"] {
        let ran = tools.run(&repo, line).code(2);
        let text = format!("{}{}", ran.out, ran.err);
        assert!(
            text.contains("error[sops-values]") && text.contains("values/common.yaml:1"),
            "{line}: {text}"
        );
        assert!(text.contains("the chart would compute with ciphertext"), "{line}: {text}");
        assert!(!text.contains("YmFy") && !text.contains("BBBB"), "{line}: {text}");
    }
    assert!(!repo.path("out").exists());
}

#[test]
fn edits_of_bases_patches_and_generators_are_those_of_kustomizations() {
    let Some(tools) = Tools::find(true, false) else { return };
    let overlay = |name: &str, count: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec:\n  template: {{spec: {{containers: [{{name: web, args: [{name}, \"{count}\"]}}]}}}}\n"
        )
    };
    let repo = Sandbox::new()
        .file("policy.yaml", POLICY)
        .file("federate.yaml", format!("{FLEET}sources:\n- kustomize: app/base\n  perCluster: \"app/clusters/{{cluster}}\"\n"))
        .file("app/base/kustomization.yaml", "resources: [web.yaml, map.yaml]\nconfigMapGenerator: [{name: conf, files: [conf.txt]}]\ngeneratorOptions: {disableNameSuffixHash: true}\n")
        .file("app/base/web.yaml", WEB)
        .file("app/base/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: shop}\ndata: {a: one}\n")
        .file("app/base/conf.txt", "one\n")
        .file("app/clusters/m2/kustomization.yaml", "resources: [../../base]\npatches: [{path: patch.yaml}]\nimages: [{name: nginx, newTag: \"1.28\"}]\n")
        .file("app/clusters/m2/patch.yaml", overlay("m2", "1"));
    commit(&repo);
    repo.write("app/clusters/m2/patch.yaml", overlay("m2", "2"));
    repo.write(
        "app/base/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: shop}\ndata: {a: two}\n",
    );
    let edits = source_edits(&tools, &repo);
    let [map, patch] = edits.as_slice() else { panic!("{edits:#?}") };
    assert_eq!(
        (&map["file"], &map["object"]["kind"], &map["line"]),
        (&"app/base/map.yaml".into(), &"ConfigMap".into(), &4.into())
    );
    assert_eq!(
        (&map["changedObjects"], &map["changedClusters"], map.get("clusters")),
        (&1.into(), &3.into(), None),
        "{map}"
    );
    assert_eq!(
        (&patch["file"], &patch["clusters"]),
        (&"app/clusters/m2/patch.yaml".into(), &serde_json::json!(["m2"]))
    );
    assert_eq!(patch["fields"][0]["to"], "2", "{patch}");
    // A patch may concern any object of its kustomization; the file of another object does not concern this one.
    let report = diff(&tools, &repo, "-o json").json();
    for change in report["objects"].as_array().unwrap() {
        let caused_by = change["causedBy"].as_array().unwrap();
        match change["object"]["kind"].as_str().unwrap() {
            "Deployment" => assert_eq!(caused_by, &[1], "{change}"),
            _ => assert!(caused_by.contains(&0.into()), "{change}"),
        }
    }
    repo.write("app/base/conf.txt", "two\n");
    repo.write(
        "app/clusters/m2/kustomization.yaml",
        "resources: [../../base]\npatches: [{path: patch.yaml}]\nimages: [{name: nginx, newTag: \"1.29\"}]\n",
    );
    let text = diff(&tools, &repo, "").code(1).out;
    assert!(text.contains("app/base/conf.txt changed"), "{text}");
    assert!(
        text.contains(
            "app/clusters/m2/kustomization.yaml:3 images[name=nginx].newTag: \"1.28\" → \"1.29\" (for m2)"
        ),
        "{text}"
    );
}

#[test]
fn a_policy_that_is_built_is_still_an_edit_of_the_policy() {
    let Some(tools) = Tools::find(true, false) else { return };
    let repo = Sandbox::new()
        .file("federate.yaml", FLEET)
        .file("app/kustomization.yaml", "resources: [web.yaml, policy.yaml]\n")
        .file("app/web.yaml", WEB)
        .file("app/policy.yaml", POLICY);
    commit(&repo);
    repo.write(
        "app/policy.yaml",
        POLICY.replace("placement: {}", "placement: {clusterAffinity: {clusterNames: [m1]}}"),
    );
    let report = diff(&tools, &repo, "-o json").code(1).json();
    let causes = report["causes"].as_array().unwrap();
    let [cause] = causes.as_slice() else { panic!("{causes:#?}") };
    assert_eq!(
        (&cause["role"], &cause["file"], &cause["line"]),
        (&"policy".into(), &"app/policy.yaml".into(), &12.into())
    );
}

#[test]
fn objects_of_flux_are_edits_of_what_they_describe() {
    let Some(tools) = Tools::find(true, false) else { return };
    let kustomization = |tier: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: apps, namespace: flux-system}}\nspec:\n  path: ./apps\n  sourceRef: {{kind: GitRepository, name: fleet}}\n  postBuild:\n    substitute:\n      tier: {tier}\n"
        )
    };
    let repo = Sandbox::new()
        .file("policy.yaml", POLICY)
        .file("federate.yaml", format!("{FLEET}sources: [{{flux: flux}}]\n"))
        .file("flux/apps.yaml", kustomization("gold"))
        .file("apps/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {tier: \"${tier}\"}\n");
    commit(&repo);
    repo.write("flux/apps.yaml", kustomization("silver"));
    let text = diff(&tools, &repo, "").code(1).out;
    let line = "flux/apps.yaml:9 Kustomization flux-system/apps /spec/postBuild/substitute/tier: gold → silver: 1 object in 3 clusters\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn hostile_values_are_compared_within_limits() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = chart_repo();
    let aliases = (1..30).fold(String::new(), |text, level| {
        text + &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1)
    });
    repo.write("values/common.yaml", format!("a0: &a0 [x, x]\n{aliases}"));
    let ran = diff(&tools, &repo, "");
    assert!(ran.code == 2 && !ran.err.contains("panicked"), "{ran:?}");
    // Many values, of which a report shows the first.
    let many =
        |value: &str| (0..5000).fold(String::new(), |text, at| text + &format!("k{at}: {value}{at}\n"));
    repo.write("values/common.yaml", many("a"));
    repo.git("add -A");
    repo.git("commit -q -m second");
    repo.write("values/common.yaml", many("b") + "mode: other\n");
    let text = diff(&tools, &repo, "").code(1).out;
    assert!(text.contains("4993 more values (-v shows all)"), "{text}");
    let comment = diff(&tools, &repo, "-o markdown").out;
    assert!(comment.len() < 60_000 && comment.contains("4995 more fields"), "{}", comment.len());
}
