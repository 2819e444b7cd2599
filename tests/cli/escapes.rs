//! Kustomizations and charts that try to read files of the machine, or to ask a server, through the programs that build them. They are
//! refused before a program starts: stand-ins take the place of kustomize and Helm, whose output would show that they ran.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::builds::{CHART, CLUSTERS, POLICY, Tools};
use crate::sandbox::{Ran, Sandbox};

/// What a stand-in writes.
const STAND_IN: &str = "#!/bin/sh
printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: stand-in}\\n'
";

/// The content of the file outside of the repo.
const SECRET: &str = "OUTSIDE-OF-THE-REPO";

/// A repo in the folder `repo` of a sandbox, beside a file that it must not read.
fn repo_with(files: &[(&str, String)]) -> Sandbox {
    let sandbox = Sandbox::new().file("outside.txt", SECRET).file("repo/clusters.yaml", CLUSTERS);
    sandbox.write("repo/policy.yaml", POLICY);
    for (path, text) in files {
        sandbox.write(
            &format!("repo/{path}"),
            text.replace("OUTSIDE", &sandbox.path("outside.txt").to_string_lossy()),
        );
    }
    for program in ["kustomize", "helm"] {
        sandbox.write(&format!("bin/{program}"), STAND_IN);
        fs::set_permissions(sandbox.path(&format!("bin/{program}")), PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    sandbox
}

/// Renders the repo with stand-ins for the programs.
fn render(sandbox: &Sandbox) -> Ran {
    let mut command = sandbox.command("render repo --out out");
    command
        .env("FEDERATE_KUSTOMIZE", sandbox.path("bin/kustomize"))
        .env("FEDERATE_HELM", sandbox.path("bin/helm"));
    command.env("FEDERATE_CACHE_DIR", sandbox.path(".cache"));
    Ran::of(command.output().unwrap(), &sandbox.path("."))
}

/// A repo whose kustomization `app` may use all files, with other files.
fn kustomization(text: &str, others: &[(&str, &str)]) -> Sandbox {
    let mut files = vec![
        ("federate.yaml", "sources: [{kustomize: app, loadRestrictor: none}]\n".to_owned()),
        ("app/kustomization.yaml", text.to_owned()),
        ("app/here.txt", "here\n".to_owned()),
    ];
    files.extend(others.iter().map(|(path, text)| (*path, (*text).to_owned())));
    repo_with(&files)
}

#[track_caller]
fn assert_refused(sandbox: &Sandbox, what: &str) {
    let ran = render(sandbox);
    assert_eq!(ran.code, 2, "{what}: {ran:#?}");
    assert!(ran.err.contains("error[build-failed]"), "{what}: {}", ran.err);
    assert!(ran.err.contains("help: "), "{what}: {}", ran.err);
    assert!(!ran.err.contains(SECRET), "{what}: {}", ran.err);
    // A folder of generators is also a kustomization of its own, whose objects they are.
    let is_built_alone = sandbox.path("repo/app/gen").exists();
    assert!(
        !sandbox.path("out").exists() && (is_built_alone || Tools::count_builds(sandbox) == 0),
        "{what}: {ran:#?}"
    );
}

/// A generator or transformer in a field of the kustomization.
fn inline(list: &str, document: &str) -> String {
    let lines: Vec<String> = document.lines().map(|line| format!("  {line}\n")).collect();
    format!("{list}:\n- |-\n{}", lines.concat())
}

const HEAD: &str = "apiVersion: builtin\nmetadata: {name: x}\n";

#[test]
fn a_kustomization_that_names_its_own_files_is_built() {
    for (text, others) in [
        (
            "configMapGenerator: [{name: a, files: [here.txt, k=./here.txt], Envs: [here.txt]}]\n".to_owned(),
            vec![],
        ),
        (inline("generators", &format!("{HEAD}kind: ConfigMapGenerator\nfiles: [here.txt]\n")), vec![]),
        (
            "generators: [gen]\n".to_owned(),
            vec![
                ("app/gen/kustomization.yaml", "resources: [gen.yaml]\n"),
                (
                    "app/gen/gen.yaml",
                    "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: [here.txt]\n",
                ),
            ],
        ),
        (
            "patchesStrategicMerge:\n- |-\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: ../a}\n"
                .to_owned(),
            vec![],
        ),
        (
            "transformers: [../labels.yaml]\nlabels: [{pairs: {a: b}}]\n".to_owned(),
            vec![(
                "labels.yaml",
                "apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: x}\nlabels: {a: b}\n",
            )],
        ),
    ] {
        let sandbox = kustomization(&text, &others);
        let ran = render(&sandbox);
        assert!(Tools::count_builds(&sandbox) >= 1 && ran.code == 0, "{text}: {ran:#?}");
    }
}

#[test]
fn kustomizations_that_reach_for_files_of_the_machine_are_not_built() {
    let generator = |fields: &str| inline("generators", &format!("{HEAD}kind: ConfigMapGenerator\n{fields}"));
    let transformer =
        |kind: &str, fields: &str| inline("transformers", &format!("{HEAD}kind: {kind}\n{fields}"));
    let cases: Vec<(&str, String)> = vec![
        ("a generator in place", generator("files: [\"k=OUTSIDE\"]\n")),
        ("a generator without a key", generator("files: [OUTSIDE]\n")),
        ("a relative path", generator("files: [../../outside.txt]\n")),
        ("a detour", generator("files: [a/b/../../../../outside.txt]\n")),
        ("a key in another case", generator("Files: [OUTSIDE]\n")),
        ("a key in upper case", generator("FILES: [OUTSIDE]\n")),
        ("an escaped key", generator("\"\\u0066iles\": [OUTSIDE]\n")),
        ("two cases of a key", generator("files: [here.txt]\nFiles: [OUTSIDE]\n")),
        ("a key that stands twice", generator("files: [here.txt]\nfiles: [OUTSIDE]\n")),
        ("a key with a long s", generator("file\u{17f}: [OUTSIDE]\n")),
        ("an alias", generator("literals: &a [\"k=OUTSIDE\"]\nfiles: *a\n")),
        ("a merge", generator("<<: {files: [OUTSIDE]}\n")),
        ("envs", generator("envs: [OUTSIDE]\n")),
        ("env", generator("env: OUTSIDE\n")),
        ("env in another case", generator("Env: OUTSIDE\n")),
        ("a path with a line break", generator("files: [\"k=a\\n/../../../outside.txt\"]\n")),
        ("a path with a null byte", generator("files: [\"here.txt\\0\"]\n")),
        ("JSON", "generators: ['{\"apiVersion\":\"builtin\",\"kind\":\"ConfigMapGenerator\",\"metadata\":{\"name\":\"x\"},\"files\":[\"OUTSIDE\"]}']\n".to_owned()),
        ("a second document", generator(&format!("literals: [a=b]\n---\n{HEAD}kind: SecretGenerator\nfiles: [OUTSIDE]\n"))),
        ("a list", inline("generators", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: x}, files: [OUTSIDE]}\n")),
        ("a SecretGenerator", inline("generators", &format!("{HEAD}kind: SecretGenerator\nfiles: [OUTSIDE]\n"))),
        ("a chart of a generator", inline("generators", &format!("{HEAD}kind: HelmChartInflationGenerator\nname: x\nvaluesFile: OUTSIDE\n"))),
        ("a PatchTransformer", transformer("PatchTransformer", "path: OUTSIDE\n")),
        ("a PatchTransformer in another case", transformer("PatchTransformer", "Path: OUTSIDE\n")),
        ("a PatchJson6902Transformer", transformer("PatchJson6902Transformer", "target: {name: x}\npath: OUTSIDE\n")),
        ("a PatchStrategicMergeTransformer", transformer("PatchStrategicMergeTransformer", "paths: [OUTSIDE]\n")),
        ("a ReplacementTransformer", transformer("ReplacementTransformer", "replacements: [{path: OUTSIDE}]\n")),
        ("a ValueAddTransformer", transformer("ValueAddTransformer", "targetFilePath: OUTSIDE\n")),
        ("an unknown field", transformer("LabelTransformer", "labelsFile: OUTSIDE\n")),
        ("an unknown kind", transformer("FileTransformer", "path: OUTSIDE\n")),
        ("a validator", inline("validators", &format!("{HEAD}kind: PatchTransformer\npath: OUTSIDE\n"))),
        ("a program", inline("transformers", "apiVersion: example.com/v1\nkind: Tool\nmetadata: {name: x, annotations: {config.kubernetes.io/function: \"exec: {path: ./x}\"}}\n")),
        ("an image", inline("transformers", "apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: x, annotations: {config.kubernetes.io/function: \"container: {image: x}\"}}\n")),
        ("a plugin without a version", inline("generators", "kind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: [OUTSIDE]\n")),
        ("a text that is both a path and an object", "generators: [\"a: b/../../../outside.txt\"]\n".to_owned()),
        ("Resources", "Resources: [OUTSIDE]\n".to_owned()),
        ("a resource with a line break", "resources: [\"x\\n/../../../outside.txt\"]\n".to_owned()),
        ("a base", "bases: [../../..]\n".to_owned()),
        ("a component", "components: [../../../x]\n".to_owned()),
        ("a list that is none", "resources: {a: OUTSIDE}\n".to_owned()),
        ("a generator of the kustomization", "ConfigMapGenerator: [{name: x, Files: [\"k=OUTSIDE\"]}]\n".to_owned()),
        ("env of the kustomization", "secretGenerator: [{name: x, env: OUTSIDE}]\n".to_owned()),
        ("a patch", "patches: [{Path: OUTSIDE}]\n".to_owned()),
        ("a JSON patch", "patchesJson6902: [{target: {name: x}, path: OUTSIDE}]\n".to_owned()),
        ("a strategic merge patch", "patchesStrategicMerge: [OUTSIDE]\n".to_owned()),
        ("a patch with a line break", "patchesStrategicMerge: [\"x\\0\\n/../../../outside.txt\"]\n".to_owned()),
        ("replacements", "replacements: [{path: OUTSIDE}]\n".to_owned()),
        ("definitions", "crds: [OUTSIDE]\n".to_owned()),
        ("configurations", "configurations: [OUTSIDE]\n".to_owned()),
        ("a schema", "openapi: {Path: OUTSIDE}\n".to_owned()),
        ("charts", "HelmCharts: [{name: x, valuesFile: OUTSIDE}]\n".to_owned()),
        ("a field that is not known", "files: [OUTSIDE]\n".to_owned()),
        ("a URL of this machine", "Resources: [\"HTTP://127.0.0.1/a.yaml\"]\n".to_owned()),
        ("a URL of a file", "resources: [\"file://OUTSIDE\"]\n".to_owned()),
        ("a git repository", "resources: [\"git::https://localhost/a\"]\n".to_owned()),
        ("a link", "resources: [link.yaml]\n".to_owned()),
        ("a folder that is a link", "configMapGenerator: [{name: x, files: [folder/outside.txt]}]\n".to_owned()),
    ];
    assert!(cases.len() >= 39, "{}", cases.len());
    for (what, text) in cases {
        let sandbox = kustomization(&text, &[]);
        std::os::unix::fs::symlink("../../outside.txt", sandbox.path("repo/app/link.yaml")).unwrap();
        std::os::unix::fs::symlink("../..", sandbox.path("repo/app/folder")).unwrap();
        assert_refused(&sandbox, what);
    }
}

#[test]
fn files_that_a_kustomization_names_reach_for_no_other_file() {
    let plugin = "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nFiles: [OUTSIDE]\n";
    let honest = "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nliterals: [a=b]\n";
    for (what, text, others) in [
        ("a generator in a file", "generators: [x.yaml]\n", vec![("app/x.yaml", plugin)]),
        (
            "a generator in a folder",
            "generators: [gen]\n",
            vec![("app/gen/kustomization.yaml", "resources: [x.yaml]\n"), ("app/gen/x.yaml", plugin)],
        ),
        (
            "a generator in a folder of a folder",
            "transformers: [gen]\n",
            vec![
                ("app/gen/kustomization.yaml", "resources: [more]\n"),
                ("app/gen/more/kustomization.yaml", "resources: [x.yaml]\n"),
                ("app/gen/more/x.yaml", plugin),
            ],
        ),
        (
            "a generator that is patched",
            "generators: [gen]\n",
            vec![
                (
                    "app/gen/kustomization.yaml",
                    "resources: [x.yaml]\npatches: [{target: {name: x}, patch: '[{op: add, path: /files, value: [OUTSIDE]}]'}]\n",
                ),
                ("app/gen/x.yaml", honest),
            ],
        ),
        (
            "a generator that is generated",
            "generators: [gen]\n",
            vec![
                (
                    "app/gen/kustomization.yaml",
                    "resources: [x.yaml]\nreplacements: [{source: {kind: ConfigMapGenerator, fieldPath: data}, targets: []}]\n",
                ),
                ("app/gen/x.yaml", honest),
            ],
        ),
        (
            "a generator of a generator",
            "generators: [gen]\n",
            vec![("app/gen/kustomization.yaml", "generators: [x.yaml]\n"), ("app/gen/x.yaml", honest)],
        ),
        (
            "a component",
            "components: [part]\n",
            vec![
                (
                    "app/part/kustomization.yaml",
                    "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ngenerators: [x.yaml]\n",
                ),
                ("app/part/x.yaml", plugin),
            ],
        ),
        ("a base", "resources: [../base]\n", vec![("base/kustomization.yml", "Crds: [OUTSIDE]\n")]),
        (
            "a base in JSON",
            "resources: [../base]\n",
            vec![("base/Kustomization", "{\"patches\": [{\"PATH\": \"OUTSIDE\"}]}\n")],
        ),
        (
            "two kustomizations in a folder",
            "resources: [../base]\n",
            vec![("base/kustomization.yaml", "resources: []\n"), ("base/Kustomization", "crds: [OUTSIDE]\n")],
        ),
        (
            "a path that starts at the kustomization",
            "generators: [deep/er/x.yaml]\n",
            vec![
                (
                    "app/deep/er/x.yaml",
                    "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: [../../outside.txt]\n",
                ),
                ("outside.txt", "a file of the repo\n"),
            ],
        ),
    ] {
        assert_refused(&kustomization(text, &others), what);
    }
}

#[test]
fn a_kustomization_that_an_object_of_flux_describes_reaches_for_no_file() {
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app, namespace: flux-system}
spec:
  interval: 1h
  prune: true
  path: ./app
  sourceRef: {kind: GitRepository, name: flux-system}
";
    let generator =
        inline("generators", &format!("{HEAD}kind: ConfigMapGenerator\nfiles: [\"k=OUTSIDE\"]\n"));
    let sandbox = kustomization(
        &generator,
        &[("flux.yaml", flux), ("federate.yaml", "sources: [{flux: flux.yaml}]\n")],
    );
    let ran = render(&sandbox);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(ran.err.contains("is outside of the repo") && !ran.err.contains(SECRET), "{ran:#?}");
    assert!(!sandbox.path("out").exists(), "{ran:#?}");
}

/// A packaged chart with these files.
fn pack(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, *bytes).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// Whether anybody has connected.
fn has_connection(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    listener.accept().is_ok()
}

#[test]
fn schemas_of_charts_ask_no_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://127.0.0.1:{}/latest/meta-data", listener.local_addr().unwrap().port());
    let reference = format!("{{\"$ref\": \"{address}\"}}");
    let schemas = [
        reference.clone(),
        format!("{{\"\\u0024ref\": \"{address}\"}}"),
        format!("{{\"properties\": {{\"a\": {{\"anyOf\": [{{\"$dynamicRef\": \"{address}\"}}]}}}}}}"),
        format!("{{\"$schema\": \"{address}\"}}"),
        format!("{{\"$id\": \"{address}\", \"$ref\": \"other\"}}"),
        format!("{{\"$id\": \"{address}#a\", \"$ref\": \"#/b\"}}"),
        format!("{{\"$ref\": \"{address}\", \"$ref\": \"#\"}}"),
        "{\"$ref\": \"file:///etc/passwd\"}".to_owned(),
        "{\"$ref\": \"/etc/passwd\"}".to_owned(),
    ];
    let chart = |path: &'static str, bytes: Vec<u8>| {
        let sandbox = repo_with(&[
            ("federate.yaml", "sources: [{chart: api}]\n".to_owned()),
            ("api/Chart.yaml", CHART.to_owned()),
            ("api/values.yaml", "a: 1\n".to_owned()),
            ("api/templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".to_owned()),
        ]);
        sandbox.write(&format!("repo/{path}"), bytes);
        sandbox
    };
    for schema in &schemas {
        assert_refused(&chart("api/values.schema.json", schema.clone().into_bytes()), schema);
        assert_refused(&chart("api/charts/sub/values.schema.json", schema.clone().into_bytes()), schema);
    }
    let sub: &[(&str, &[u8])] = &[
        ("sub/Chart.yaml", b"apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        ("sub/values.schema.json", reference.as_bytes()),
    ];
    let packed = pack(sub);
    assert_refused(&chart("api/charts/sub-1.0.0.tgz", packed.clone()), "a packaged dependency");
    let nested = pack(&[
        ("mid/Chart.yaml", b"apiVersion: v2\nname: mid\nversion: 1.0.0\n"),
        ("mid/charts/sub.tgz", &packed),
    ]);
    assert_refused(&chart("api/charts/mid.tgz", nested), "a packaged dependency of one");
    let backslashes = pack(&[("sub\\values.schema.json", reference.as_bytes())]);
    assert_refused(&chart("api/charts/sub.tgz", backslashes), "a path with a backslash");
    // Two archives of gzip are one to Helm.
    let mut members = pack(&[]);
    members.clear();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"").unwrap();
    members.extend(encoder.finish().unwrap());
    members.extend(&packed);
    assert_refused(&chart("api/charts/sub.tgz", members), "an archive of two parts");
    assert_refused(&chart("api/charts/sub.tgz", b"no archive".to_vec()), "no archive");

    // What is left reaches nothing, also with the program itself.
    let Some(tools) = Tools::find(false, true) else { return };
    let honest = format!(
        "{{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"$id\": \"{address}\", \"definitions\": {{\"n\": {{\"type\": \"number\"}}}}, \
         \"properties\": {{\"a\": {{\"$ref\": \"#/definitions/n\"}}}}}}"
    );
    let sandbox = chart("api/values.schema.json", honest.into_bytes());
    let mut command = sandbox.command("render repo --out out");
    command.env("FEDERATE_HELM", tools.helm.unwrap()).env("FEDERATE_CACHE_DIR", sandbox.path(".cache"));
    let ran = Ran::of(command.output().unwrap(), &sandbox.path("."));
    assert!(ran.code == 0, "{ran:#?}");
    assert!(!has_connection(&listener));
}
