//! What federate builds is, as objects, what the programs give by themselves.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::builds::{Tools, objects, rendered};
use crate::sandbox::{Sandbox, WEB};

/// Everything goes to one cluster.
const EVERYWHERE: &str = "clusters: [{name: m1}]\nunplaced: everywhere\n";

/// A chart or kustomization: its name, and its files below the folder `app`.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

const CHART: &str = "apiVersion: v2\nname: app\nversion: 1.0.0\nappVersion: \"2.0\"\n";

const CHARTS: [Case; 12] = [
    (
        "values and functions",
        &[
            ("values.yaml", "list: [a, b]\nmap: {x: 1, y: \"2\"}\non: true\n"),
            (
                "templates/a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-{{ .Chart.Name }}}\ndata:\n  list: {{ join \",\" .Values.list | quote }}\n  {{- range $k, $v := .Values.map }}\n  {{ $k }}: {{ $v | quote }}\n  {{- end }}\n{{- if .Values.on }}\n  version: {{ .Chart.AppVersion | quote }}\n{{- end }}\n",
            ),
        ],
    ),
    (
        "helpers and indentation",
        &[
            ("values.yaml", "resources: {limits: {cpu: 100m}}\n"),
            (
                "templates/_helpers.tpl",
                "{{- define \"app.labels\" -}}\napp: {{ .Chart.Name }}\nrelease: {{ .Release.Name }}\n{{- end }}\n",
            ),
            (
                "templates/pod.yaml",
                "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pod\n  labels:\n    {{- include \"app.labels\" . | nindent 4 }}\nspec:\n  containers:\n  - name: c\n    image: i\n    resources:\n      {{- toYaml .Values.resources | nindent 6 }}\n",
            ),
            ("templates/NOTES.txt", "Thank you for {{ .Release.Name }}\n"),
        ],
    ),
    (
        "tpl",
        &[
            ("values.yaml", "text: \"{{ .Release.Name }}-{{ .Values.other }}\"\nother: x\n"),
            (
                "templates/a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {t: {{ tpl .Values.text . | quote }}}\n",
            ),
        ],
    ),
    (
        "lookup",
        &[(
            "templates/a.yaml",
            "{{- $old := lookup \"v1\" \"Secret\" .Release.Namespace \"a\" }}\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: {{ if $old }}old{{ else }}new{{ end }}}\n",
        )],
    ),
    (
        "capabilities",
        &[(
            "templates/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  hpa: {{ .Capabilities.APIVersions.Has \"autoscaling/v2\" | quote }}\n  none: {{ .Capabilities.APIVersions.Has \"none.example.com/v1\" | quote }}\n  minor: {{ .Capabilities.KubeVersion.Minor | quote }}\n",
        )],
    ),
    (
        "hooks",
        &[
            (
                "templates/a.yaml",
                "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: \"pre-install,pre-upgrade\", helm.sh/hook-weight: \"-5\"}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
            ),
            (
                "templates/tests/t.yaml",
                "apiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\nspec: {containers: [{name: a, image: b}]}\n",
            ),
        ],
    ),
    (
        "definitions",
        &[
            (
                "crds/widgets.yaml",
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n",
            ),
            (
                "templates/w.yaml",
                "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3}\n",
            ),
        ],
    ),
    (
        "subcharts with aliases, conditions and globals",
        &[
            (
                "Chart.yaml",
                "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n- {name: db, version: 1.0.0, alias: main}\n- {name: db, version: 1.0.0, alias: spare, condition: spare.enabled}\n",
            ),
            ("values.yaml", "global: {zone: eu}\nmain: {size: 5}\nspare: {enabled: false}\n"),
            ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n"),
            ("charts/db/values.yaml", "size: 1\n"),
            (
                "charts/db/templates/a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-{{ .Chart.Name }}}\ndata: {size: {{ .Values.size | quote }}, zone: {{ .Values.global.zone }}}\n",
            ),
        ],
    ),
    (
        "library charts",
        &[
            (
                "Chart.yaml",
                "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: lib, version: 1.0.0}]\n",
            ),
            ("charts/lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n"),
            (
                "charts/lib/templates/_map.tpl",
                "{{- define \"lib.map\" -}}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .name }}}\n{{- end }}\n",
            ),
            (
                "templates/a.yaml",
                "{{ include \"lib.map\" (dict \"name\" \"one\") }}\n---\n{{ include \"lib.map\" (dict \"name\" \"two\") }}\n",
            ),
        ],
    ),
    (
        "files of the chart",
        &[
            ("conf/a.txt", "line 1\nline 2\n"),
            ("conf/b.txt", "b\n"),
            (
                "templates/a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  one: {{ .Files.Get \"conf/a.txt\" | quote }}\n{{ (.Files.Glob \"conf/b*\").AsConfig | indent 2 }}\n",
            ),
            (".helmignore", "*.bak\n"),
            ("templates/old.yaml.bak", "{{ fail \"ignored\" }}\n"),
        ],
    ),
    (
        "several documents, some of them empty",
        &[(
            "templates/a.yaml",
            "{{ range until 3 }}\n---\n{{ if ne . 1 }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c{{ . }}}\ndata: {yes: \"no\", octal: \"0644\", multi: \"a\\nb\\n\"}\n{{ end }}\n{{ end }}\n---\n# nothing\n",
        )],
    ),
    (
        "the chart's own schema and defaults",
        &[
            ("values.yaml", "replicas: 2\nname:\n"),
            (
                "values.schema.json",
                "{\"type\": \"object\", \"properties\": {\"replicas\": {\"type\": \"integer\"}}}",
            ),
            (
                "templates/d.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Values.name | default \"d\" }}}\nspec:\n  replicas: {{ .Values.replicas | int }}\n  selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: \"{{ required \"image\" (printf \"i:%s\" .Chart.Version) }}\"}]}}\n",
            ),
        ],
    ),
];

const KUSTOMIZATIONS: [Case; 10] = [
    (
        "components",
        &[
            ("kustomization.yaml", "resources: [web.yaml]\ncomponents: [../parts/scale]\n"),
            (
                "../parts/scale/kustomization.yaml",
                "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nreplicas: [{name: web, count: 9}]\n",
            ),
        ],
    ),
    (
        "generators with hashes",
        &[
            (
                "kustomization.yaml",
                "resources: [web.yaml]\nconfigMapGenerator:\n- {name: conf, files: [conf.txt, key=conf.txt], literals: [a=b]}\nsecretGenerator: [{name: s, envs: [env.txt], type: Opaque}]\npatches:\n- target: {kind: Deployment}\n  patch: '- {op: add, path: /spec/template/spec/containers/0/envFrom, value: [{configMapRef: {name: conf}}, {secretRef: {name: s}}]}'\n",
            ),
            ("conf.txt", "hello\n"),
            ("env.txt", "USER=me\nPASS=secret\n"),
        ],
    ),
    (
        "generators without hashes",
        &[(
            "kustomization.yaml",
            "resources: [web.yaml]\ngeneratorOptions: {disableNameSuffixHash: true, labels: {a: b}}\nconfigMapGenerator: [{name: conf, literals: [a=b]}]\n",
        )],
    ),
    (
        "replacements",
        &[
            (
                "kustomization.yaml",
                "resources: [web.yaml, source.yaml]\nreplacements:\n- source: {kind: ConfigMap, name: source, fieldPath: data.image}\n  targets: [{select: {kind: Deployment}, fieldPaths: ['spec.template.spec.containers.[name=web].image']}]\n",
            ),
            (
                "source.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: source, namespace: shop}\ndata: {image: 'own:3'}\n",
            ),
        ],
    ),
    (
        "JSON patches",
        &[
            (
                "kustomization.yaml",
                "resources: [web.yaml]\npatches: [{path: patch.yaml, target: {kind: Deployment, name: web}}]\n",
            ),
            (
                "patch.yaml",
                "- {op: replace, path: /spec/replicas, value: 7}\n- {op: add, path: /metadata/annotations, value: {a~b: c}}\n- {op: remove, path: /spec/template/metadata/labels/app}\n- {op: add, path: /spec/template/metadata/labels/app, value: web}\n",
            ),
        ],
    ),
    (
        "strategic merges with deletes",
        &[
            (
                "kustomization.yaml",
                "resources: [web.yaml, gone.yaml]\npatches: [{path: web-patch.yaml}, {path: gone-patch.yaml}]\n",
            ),
            ("gone.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone, namespace: shop}\n"),
            (
                "gone-patch.yaml",
                "$patch: delete\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone, namespace: shop}\n",
            ),
            (
                "web-patch.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: null\n  template: {spec: {containers: [{name: side, image: s}, {name: web, env: [{name: A, value: '1'}]}]}}\n",
            ),
        ],
    ),
    (
        "several documents and names",
        &[
            ("kustomization.yaml", "resources: [web.yaml, more.yaml]\nnamePrefix: pre-\nnameSuffix: -post\n"),
            (
                "more.yaml",
                "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: listed, namespace: shop}}]\n",
            ),
        ],
    ),
    (
        "bases with namespaces, labels and images",
        &[
            (
                "kustomization.yaml",
                "resources: [../base, ../base2]\nnamespace: other\nlabels: [{pairs: {team: a}, includeSelectors: true}]\nimages: [{name: nginx, newName: mirror/nginx, digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}]\ncommonAnnotations: {note: x}\n",
            ),
            ("../base/kustomization.yaml", "resources: [web.yaml]\nnamePrefix: base-\n"),
            ("../base/web.yaml", WEB),
            ("../base2/kustomization.yaml", "resources: [sa.yaml]\n"),
            ("../base2/sa.yaml", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n"),
        ],
    ),
    (
        "transformers that are written in place",
        &[(
            "kustomization.yaml",
            "resources: [web.yaml]\ntransformers:\n- |-\n  apiVersion: builtin\n  kind: PrefixSuffixTransformer\n  metadata: {name: p}\n  prefix: t-\n  fieldSpecs: [{path: metadata/name}]\n",
        )],
    ),
    (
        "settings of the build",
        &[
            (
                "kustomization.yaml",
                "resources: [web.yaml]\nbuildMetadata: [managedByLabel]\nsortOptions: {order: legacy}\nconfigurations: [names.yaml]\nnamePrefix: x-\n",
            ),
            (
                "names.yaml",
                "nameReference: [{kind: ConfigMap, fieldSpecs: [{kind: Deployment, path: spec/template/spec/volumes/name}]}]\n",
            ),
        ],
    ),
];

fn write_case(files: &[(&str, &str)], more: &[(&str, &str)]) -> Sandbox {
    let mut repo = Sandbox::new();
    for (path, text) in more.iter().chain(files) {
        let path = path.strip_prefix("../").map_or_else(|| format!("app/{path}"), str::to_owned);
        repo = repo.file(&path, text);
    }
    repo
}

/// The objects of a program's own output.
fn run_program(repo: &Sandbox, program: &Path, args: &[&str]) -> BTreeMap<String, serde_json::Value> {
    let output = Command::new(program).args(args).current_dir(repo.path(".")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    objects(&String::from_utf8(output.stdout).unwrap())
}

#[test]
fn charts_give_what_helm_gives() {
    let Some(tools) = Tools::find(false, true) else { return };
    let helm = tools.helm.clone().unwrap();
    let sources = "sources: [{chart: app, release: rel, namespace: shop, skipCrds: false}]\n";
    for (name, files) in CHARTS {
        let repo = write_case(files, &[("Chart.yaml", CHART)])
            .file("federate.yaml", format!("{EVERYWHERE}{sources}"));
        let ran = tools.run(&repo, "render --out out");
        assert_eq!(ran.code, 0, "{name}: {ran:#?}");
        let args = ["template", "rel", "app", "--namespace", "shop", "--include-crds", "--skip-tests"];
        let expected = run_program(&repo, &helm, &args);
        assert!(!expected.is_empty(), "{name}");
        assert_eq!(rendered(&repo, "m1"), expected, "{name}");
    }
}

#[test]
fn a_packaged_chart_gives_what_its_folder_gives() {
    let Some(tools) = Tools::find(false, true) else { return };
    let (_, files) = CHARTS[7];
    let repo = write_case(files, &[]);
    let helm = tools.helm.clone().unwrap();
    let status = Command::new(&helm)
        .args(["package", "app", "--destination", "vendor"])
        .current_dir(repo.path("."))
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let expected = run_program(&repo, &helm, &["template", "app", "app"]);
    std::fs::remove_dir_all(repo.path("app")).unwrap();
    // Without a name, the release is named after the chart.
    repo.write("federate.yaml", format!("{EVERYWHERE}sources: [{{chart: vendor/app-1.0.0.tgz}}]\n"));
    tools.run(&repo, "render --out out").code(0);
    assert_eq!(rendered(&repo, "m1"), expected);
    let explain = tools.run(&repo, "explain configmap/app-main").code(0);
    assert!(explain.out.contains("vendor/app-1.0.0.tgz"), "{}", explain.out);
    repo.write("vendor/app-1.0.0.tgz", "not a chart");
    let ran = tools.run(&repo, "render --out out").code(2);
    assert!(ran.err.contains("the chart `vendor/app-1.0.0.tgz` cannot be built"), "{}", ran.err);
}

#[test]
fn kustomizations_give_what_kustomize_gives() {
    let Some(tools) = Tools::find(true, false) else { return };
    let program = tools.kustomize.clone().unwrap();
    let command = if program.ends_with("kustomize") { "build" } else { "kustomize" };
    for (name, files) in KUSTOMIZATIONS {
        let lists_web =
            files.iter().any(|(path, text)| *path == "kustomization.yaml" && text.contains("web.yaml"));
        let more: &[(&str, &str)] = if lists_web { &[("web.yaml", WEB)] } else { &[] };
        let repo = write_case(files, more)
            .file("federate.yaml", format!("{EVERYWHERE}sources: [{{kustomize: app}}]\n"));
        let ran = tools.run(&repo, "render --out out");
        assert_eq!(ran.code, 0, "{name}: {ran:#?}");
        assert_eq!(rendered(&repo, "m1"), run_program(&repo, &program, &[command, "app"]), "{name}");
    }
}

#[test]
fn values_of_several_places_win_in_the_order_of_helm() {
    let Some(tools) = Tools::find(false, true) else { return };
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {all: {{ toJson .Values | quote }}}\n";
    let repo = write_case(&[("templates/a.yaml", map), ("values.yaml", "a: 1\nb: {c: 2, d: 3}\ngone: x\nlist: [1]\n")], &[("Chart.yaml", CHART)])
        .file("one.yaml", "b: {c: 4}\ngone: null\n")
        .file("two.yaml", "list: [2, 3]\nlate: {x: y}\n")
        .file("federate.yaml", format!("{EVERYWHERE}sources: [{{chart: app, values: [one.yaml, two.yaml], set: {{late: {{x: z}}, count: 1}}}}]\n"));
    tools.run(&repo, "render --out out").code(0);
    let args = ["template", "app", "app", "-f", "one.yaml", "-f", "two.yaml", "--set", "late.x=z,count=1"];
    assert_eq!(rendered(&repo, "m1"), run_program(&repo, &tools.helm.clone().unwrap(), &args));
}

/// A chart whose values file is edited.
fn edited_repo() -> Sandbox {
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {size: {{ .Values.size | quote }}}\n";
    write_case(&[("templates/a.yaml", map)], &[("Chart.yaml", CHART)])
        .file("values.yaml", "size: small\n")
        .file("federate.yaml", format!("{EVERYWHERE}sources: [{{chart: app, values: [values.yaml]}}]\n"))
        .file(".gitignore", ".cache/\nout/\nstate/\nsync.yaml\n")
}

const RENDERED: &str = "out/m1/default/configmap_a.yaml";

/// Waits until a file contains a text.
#[track_caller]
fn wait_for(repo: &Sandbox, text: &str) {
    let started = Instant::now();
    while !std::fs::read_to_string(repo.path(RENDERED)).is_ok_and(|found| found.contains(text)) {
        assert!(started.elapsed() < Duration::from_mins(1), "no `{text}`");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn values_that_are_saved_are_rendered() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = edited_repo();
    let mut watching = tools
        .command(&repo, "render --out out --watch")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&repo, "size: small");
    repo.write("values.yaml", "size: large\n");
    wait_for(&repo, "size: large");
    repo.write(
        "app/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {size: fixed}\n",
    );
    wait_for(&repo, "size: fixed");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn the_loop_builds_what_it_commits() {
    let Some(tools) = Tools::find(false, true) else { return };
    let repo = edited_repo();
    for line in ["init -q -b main", "add -A", "commit -q -m first"] {
        repo.git(line);
    }
    repo.write("sync.yaml", "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {name: web}\nspec:\n  source: {url: .}\n  interval: 1m\n  commit: {branch: rendered}\n");
    for (text, expected) in [("size: small\n", "size: small"), ("size: large\n", "size: large")] {
        repo.write("values.yaml", text);
        tools.run(&repo, "sync --once -f sync.yaml --state state").code(0);
        assert!(repo.git("show rendered:m1/default/configmap_a.yaml").contains(expected));
    }
    assert_eq!(Tools::count_builds(&repo), 2);
    let check = tools.run(&repo, "check").code(0);
    assert_eq!(check.err, "");
}
