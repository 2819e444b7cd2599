//! The Helm chart in `deploy/chart` says what the kustomizations in `deploy/sync` and `deploy/sync-shared` say: its templates
//! are made from those files. `UPDATE_CHART=1 cargo test --test chart` updates them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::path::Path;

/// Manifests of the kustomization, and the files of the chart. The namespace is that of the release.
const FILES: [(&str, &str); 7] = [
    ("deploy/crds/syncs.federate.dev.yaml", "crds/syncs.federate.dev.yaml"),
    ("deploy/sync/rbac.yaml", "templates/rbac.yaml"),
    ("deploy/sync/networkpolicy.yaml", "templates/networkpolicy.yaml"),
    ("deploy/lockdown/egress.yaml", "templates/egress.yaml"),
    ("deploy/sync/deployment.yaml", "templates/deployment.yaml"),
    ("deploy/sync/pdb.yaml", "templates/pdb.yaml"),
    ("deploy/sync-shared/statefulset.yaml", "templates/statefulset.yaml"),
];
/// Templates that only exist if `shared` is so.
const ONLY: [(&str, &str); 3] = [
    ("templates/deployment.yaml", "not .Values.shared"),
    ("templates/statefulset.yaml", ".Values.shared"),
    ("templates/egress.yaml", ".Values.lockdown"),
];
const HEADER: &str =
    "# Made from deploy/sync: change that, and run UPDATE_CHART=1 cargo test --test chart.\n";

/// What the values of the chart replace, each with what stands there by default.
const VALUES: [(&str, &str); 5] = [
    ("namespace: federate-system", "namespace: {{ .Release.Namespace }}"),
    ("replicas: 2", "replicas: {{ .Values.replicas }}"),
    ("replicas: 3", "replicas: {{ .Values.replicas }}"),
    (
        "        - --log-format=json\n",
        "        - --log-format=json\n{{- if .Values.lockdown }}\n        - --default-service-account=default\n        \
         - --no-cross-namespace-refs\n{{- end }}\n",
    ),
    ("image: ghcr.io/federate-dev/federate:latest", "image: {{ .Values.image }}"),
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
            if let Some((_, only)) = ONLY.iter().find(|(file, _)| *file == name) {
                text = format!("{{{{- if {only} }}}}\n{text}{{{{- end }}}}\n");
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
fn the_lockdown_of_the_chart_is_that_of_the_kustomizations() {
    let component = read("deploy/lockdown/kustomization.yaml");
    for template in ["deployment", "statefulset"] {
        let text = read(&format!("deploy/chart/templates/{template}.yaml"));
        let (_, locked) = text.split_once("{{- if .Values.lockdown }}\n").unwrap();
        let (locked, _) = locked.split_once("{{- end }}").unwrap();
        for argument in locked.lines().filter_map(|line| line.trim().strip_prefix("- ")) {
            let adds = format!("path: /spec/template/spec/containers/0/args/-, value: {argument}}}");
            assert!(component.contains(&adds), "{argument}");
        }
        assert_eq!(locked.lines().count(), component.matches("op: add").count());
    }
    for (overlay, base) in [("sync-lockdown", "../sync"), ("sync-shared-lockdown", "../sync-shared")] {
        let text = read(&format!("deploy/{overlay}/kustomization.yaml"));
        let value = federate_yaml::read(text.as_bytes()).documents.remove(0).value;
        assert_eq!(value["resources"][0], base);
        assert_eq!(value["components"][0], "../lockdown");
    }
}

#[test]
fn syncs_are_not_written_by_everyone_who_edits() {
    let rules = federate_yaml::read(read("deploy/sync/rbac.yaml").as_bytes()).documents;
    let edit =
        rules.iter().find(|document| document.value["metadata"]["name"] == "federate-sync-edit").unwrap();
    let labels = edit.value["metadata"]["labels"].as_object().unwrap();
    assert!(!labels.contains_key("rbac.authorization.k8s.io/aggregate-to-edit"), "{labels:?}");
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

#[test]
fn replicas_that_share_the_clusters_are_the_same_pods() {
    let documents = |name: &str| federate_yaml::read(read(name).as_bytes()).documents;
    let deployment = documents("deploy/sync/deployment.yaml").remove(0).value;
    let mut shared = documents("deploy/sync-shared/statefulset.yaml");
    let (stateful, service) = (shared.remove(0).value, shared.remove(0).value);
    let mut pod = deployment["spec"]["template"].clone();
    pod["spec"]["containers"][0]["args"].as_array_mut().unwrap().push("--shared".into());
    let spec = &stateful["spec"];
    assert_eq!((&spec["template"], &spec["selector"]), (&pod, &deployment["spec"]["selector"]));
    assert_eq!(
        (&stateful["kind"], &spec["podManagementPolicy"]),
        (&"StatefulSet".into(), &"Parallel".into())
    );
    assert_eq!(
        (&spec["serviceName"], &service["spec"]["clusterIP"]),
        (&service["metadata"]["name"], &"None".into())
    );
    assert_eq!(service["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"]);
}
