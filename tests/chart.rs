//! The Helm chart in `deploy/chart` says what the kustomization in `deploy/sync` says: its templates are made from those
//! files. `UPDATE_CHART=1 cargo test --test chart` updates them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::path::Path;

/// Manifests of the kustomization, and the files of the chart. The namespace is that of the release.
const FILES: [(&str, &str); 4] = [
    ("deploy/crds/syncs.federate.dev.yaml", "crds/syncs.federate.dev.yaml"),
    ("deploy/sync/rbac.yaml", "templates/rbac.yaml"),
    ("deploy/sync/networkpolicy.yaml", "templates/networkpolicy.yaml"),
    ("deploy/sync/deployment.yaml", "templates/deployment.yaml"),
];
const HEADER: &str =
    "# Made from deploy/sync: change that, and run UPDATE_CHART=1 cargo test --test chart.\n";

/// What the values of the chart replace, each with what stands there by default.
const VALUES: [(&str, &str); 4] = [
    ("namespace: federate-system", "namespace: {{ .Release.Namespace }}"),
    ("replicas: 2", "replicas: {{ .Values.replicas }}"),
    ("image: ghcr.io/federate-dev/federate:latest", "image: {{ .Values.image }}"),
    (
        "        - --log-format=json\n",
        "        - --log-format=json\n{{- if .Values.shared }}\n        - --shared\n{{- end }}\n",
    ),
];

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_chart_says_what_the_kustomization_says() {
    for (source, name) in FILES {
        let mut text = read(source);
        if name.starts_with("templates/") {
            assert!(!text.contains("{{"), "{source} would be a template");
            for (plain, template) in VALUES {
                text = text.replace(plain, template);
            }
            text.insert_str(0, HEADER);
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart").join(name);
        if std::env::var_os("UPDATE_CHART").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, text, "{name} is out of date: run UPDATE_CHART=1 cargo test --test chart");
    }
}

#[test]
fn nothing_of_the_kustomization_is_missing() {
    let kustomization = read("deploy/sync/kustomization.yaml");
    let resources = kustomization.lines().filter_map(|line| line.strip_prefix("- "));
    for resource in resources.filter(|name| !["../crds", "namespace.yaml"].contains(name)) {
        let source = format!("deploy/sync/{resource}");
        assert!(FILES.iter().any(|(file, _)| *file == source), "the chart lacks {source}");
    }
    let deployment = read("deploy/sync/deployment.yaml");
    let values = read("deploy/chart/values.yaml");
    for default in ["replicas: 2", "image: ghcr.io/federate-dev/federate:latest"] {
        assert!(deployment.contains(default) && values.contains(default), "{default}");
    }
}
