//! Which files belong to kustomizations and charts, and what is built from them.

use super::*;

fn file(path: &str, text: &str) -> RepoFile {
    RepoFile { path: path.into(), bytes: text.as_bytes().into() }
}

fn ownership(files: &[(&str, &str)]) -> Ownership {
    let mut files: Vec<RepoFile> = files.iter().map(|(path, text)| file(path, text)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ownership::from_files(&files)
}

fn web(file: &str) -> Object {
    let metadata = serde_json::json!({"name": "web", "namespace": "shop"});
    Object::from_manifest(
        serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}),
        file,
    )
}

fn build(ownership: &Ownership, files: &[&str]) -> Vec<(String, Vec<String>, Vec<String>)> {
    let objects = files.iter().map(|file| web(file)).collect();
    let roots = ownership.build_roots(OwnedObjects { objects, ..OwnedObjects::default() });
    let shown = |objects: Vec<Object>| objects.iter().map(|object| object.id.to_string()).collect();
    roots.into_iter().map(|root| (root.file.to_string(), shown(root.objects), shown(root.unlisted))).collect()
}

#[test]
fn kustomizations_and_charts_own_what_is_below_them() {
    let owned = ownership(&[
        ("a/kustomization.yml", "resources: [web.yaml]\npatches: [{path: patch.yaml}]\n"),
        (
            "b/Kustomization",
            "resources: [../c/web.yaml, ../d]\nconfigMapGenerator: [{name: x, files: [k=v.yaml]}]\n",
        ),
        ("chart/Chart.yaml", "apiVersion: v2\nname: api\n"),
        ("chart/templates/kustomization.yaml", "resources: []\n"),
        ("other/Chart.yaml", "a: chart of sales\n"),
    ]);
    for (path, expected) in [
        ("a/web.yaml", FileUse::Owned),
        ("a/deep/er/web.yaml", FileUse::Owned),
        ("a/patch.yaml", FileUse::Input),
        ("b/v.yaml", FileUse::Input),
        ("c/web.yaml", FileUse::Owned),
        ("c/other.yaml", FileUse::Plain),
        ("d/e/web.yaml", FileUse::Owned),
        ("chart/values.yaml", FileUse::Owned),
        ("chart/templates/web.yaml", FileUse::ChartTemplate),
        ("chart/charts/sub/templates/web.yaml", FileUse::ChartTemplate),
        ("other/web.yaml", FileUse::Plain),
        ("web.yaml", FileUse::Plain),
    ] {
        assert_eq!(owned.file_use(path), expected, "{path}");
    }
}

#[test]
fn a_root_gives_what_its_bases_give_with_its_changes() {
    let owned = ownership(&[
        ("base/kustomization.yaml", "resources: [web.yaml]\n"),
        ("dev/kustomization.yaml", "resources: [../base]\nnamespace: dev\nnamePrefix: dev-\n"),
        ("prod/kustomization.yaml", "bases: [../base]\nnameSuffix: -x\n"),
    ]);
    let roots = build(&owned, &["base/web.yaml", "base/more.yaml"]);
    let deployment = |name: &str| vec![format!("Deployment {name}")];
    assert_eq!(
        roots,
        [
            ("dev/kustomization.yaml".to_owned(), deployment("dev/dev-web"), deployment("shop/web")),
            ("prod/kustomization.yaml".to_owned(), deployment("shop/web-x"), vec![]),
        ]
    );
}

#[test]
fn circles_and_many_layers_end() {
    let circle = ownership(&[
        ("a/kustomization.yaml", "resources: [../b]\n"),
        ("b/kustomization.yaml", "resources: [../a, web.yaml]\n"),
    ]);
    assert_eq!(build(&circle, &["b/web.yaml"]), [("a/kustomization.yaml".to_owned(), vec![], vec![])]);
    let layers: Vec<(String, String)> = (0..40)
        .flat_map(|n| {
            let next = n + 1;
            ["x", "y"].map(|side| {
                let text = format!("resources: [../x{next}, ../y{next}, web.yaml]\nnamePrefix: {side}\n");
                (format!("{side}{n}/kustomization.yaml"), text)
            })
        })
        .collect();
    let layers: Vec<(&str, &str)> = layers.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let roots = build(&ownership(&layers), &["x40/web.yaml", "x39/web.yaml"]);
    assert!(roots.iter().map(|(_, objects, _)| objects.len()).sum::<usize>() <= MAX_OBJECTS);
}
