//! The Helm chart in `deploy/chart` says what the kustomization in `deploy/sync` says: its templates are made from those files. `UPDATE_CHART=1 cargo test --test chart` updates them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::path::Path;

/// Manifests of the kustomization, and the files of the chart. The namespace is that of the release.
const FILES: [(&str, &str); 6] = [
    ("deploy/crds/syncs.federate.dev.yaml", "crds/syncs.federate.dev.yaml"),
    ("deploy/sync/rbac.yaml", "templates/rbac.yaml"),
    ("deploy/sync/networkpolicy.yaml", "templates/networkpolicy.yaml"),
    ("deploy/lockdown/egress.yaml", "templates/egress.yaml"),
    ("deploy/sync/deployment.yaml", "templates/deployment.yaml"),
    ("deploy/sync/pdb.yaml", "templates/pdb.yaml"),
];
/// Templates that only exist if a value says so.
const ONLY: [(&str, &str); 1] = [("templates/egress.yaml", ".Values.lockdown")];
const HEADER: &str =
    "# Made from deploy/sync: change that, and run UPDATE_CHART=1 cargo test --test chart.\n";

/// What the values of the chart replace, each with what stands there by default.
const VALUES: [(&str, &str); 16] = [
    ("namespace: federate-system", "namespace: {{ .Release.Namespace }}"),
    ("replicas: 2", "replicas: {{ .Values.replicas }}"),
    (
        "kind: ClusterRole\n  name: federate-sync\n",
        "kind: ClusterRole\n  name: federate-sync{{ with .Values.watchLabelSelector }}-{{ sha256sum . | trunc 10 }}{{ end }}\n",
    ),
    (
        "kind: ClusterRole\nmetadata:\n  name: federate-sync\n",
        "kind: ClusterRole\nmetadata:\n  name: federate-sync{{ with .Values.watchLabelSelector }}-{{ sha256sum . | trunc 10 }}{{ end }}\n",
    ),
    (
        "kind: ClusterRoleBinding\nmetadata:\n  name: federate-sync\n",
        "kind: ClusterRoleBinding\nmetadata:\n  name: federate-sync{{ with .Values.watchLabelSelector }}-{{ sha256sum . | trunc 10 }}{{ end }}\n",
    ),
    (
        "  name: federate-sync-edit\n",
        "  name: federate-sync-edit{{ with .Values.watchLabelSelector }}-{{ sha256sum . | trunc 10 }}{{ end }}\n",
    ),
    (
        "  name: federate-sync-view\n",
        "  name: federate-sync-view{{ with .Values.watchLabelSelector }}-{{ sha256sum . | trunc 10 }}{{ end }}\n",
    ),
    (
        "        - --log-format=json\n",
        "        - --log-format=json\n{{- if .Values.lockdown }}\n        - --default-service-account=default\n        \
         - --no-cross-namespace-refs\n{{- end }}\n{{- with .Values.watchLabelSelector }}\n        \
         - {{ printf \"--watch-label-selector=%s\" . | quote }}\n{{- end }}\n{{- range .Values.extraArgs }}\n        \
         - {{ . | quote }}\n{{- end }}\n{{- with .Values.extraEnv }}\n        env:\n{{ toYaml . | indent 8 }}\n{{- end }}\n",
    ),
    (
        "        image: ghcr.io/federate-dev/federate:v0.1.0\n",
        "        image: {{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ \
         .Values.image.tag | default .Chart.AppVersion }}{{ end }}\n        imagePullPolicy: {{ .Values.image.pullPolicy }}\n",
    ),
    (
        "      annotations:\n        prometheus.io/scrape",
        "{{- with .Values.podLabels }}\n{{ toYaml . | indent 8 }}\n{{- end }}\n      annotations:\n\
         {{- with .Values.podAnnotations }}\n{{ toYaml . | indent 8 }}\n{{- end }}\n        prometheus.io/scrape",
    ),
    (
        "      labels: {app.kubernetes.io/name: federate-sync}\n",
        "      labels:\n        app.kubernetes.io/name: federate-sync\n",
    ),
    (
        "      serviceAccountName: federate-sync\n",
        "      serviceAccountName: federate-sync\n{{- range $key := list \"imagePullSecrets\" \"nodeSelector\" \"tolerations\" \
         \"affinity\" \"topologySpreadConstraints\" \"priorityClassName\" }}\n{{- with index $.Values $key }}\n      \
         {{ $key }}:\n{{ toYaml . | indent 8 }}\n{{- end }}\n{{- end }}\n",
    ),
    (
        "        resources:\n          requests: {cpu: 100m, memory: 256Mi}\n          limits: {memory: 2Gi}\n",
        "        resources:\n{{ toYaml .Values.resources | indent 10 }}\n",
    ),
    (
        "        - {name: tmp, mountPath: /tmp}\n",
        "        - {name: tmp, mountPath: /tmp}\n{{- with .Values.extraVolumeMounts }}\n{{ toYaml . | indent 8 }}\n{{- end }}\n",
    ),
    (
        "        emptyDir: {medium: Memory, sizeLimit: 64Mi}\n",
        "        emptyDir: {medium: Memory, sizeLimit: 64Mi}\n{{- with .Values.extraVolumes }}\n{{ toYaml . | indent 6 }}\n\
         {{- end }}\n",
    ),
    (
        "kind: ServiceAccount\nmetadata:\n  name: federate-sync\n  namespace: {{ .Release.Namespace }}\n",
        "kind: ServiceAccount\nmetadata:\n  name: federate-sync\n  namespace: {{ .Release.Namespace }}\n\
         {{- with .Values.serviceAccount.annotations }}\n  annotations:\n{{ toYaml . | indent 4 }}\n{{- end }}\n",
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
    let text = read("deploy/chart/templates/deployment.yaml");
    let (_, locked) = text.split_once("{{- if .Values.lockdown }}\n").unwrap();
    let (locked, _) = locked.split_once("{{- end }}").unwrap();
    for argument in locked.lines().filter_map(|line| line.trim().strip_prefix("- ")) {
        let adds = format!("path: /spec/template/spec/containers/0/args/-, value: {argument}}}");
        assert!(component.contains(&adds), "{argument}");
    }
    assert_eq!(locked.lines().count(), component.matches("op: add").count());
    let text = read("deploy/sync-lockdown/kustomization.yaml");
    let value = federate_yaml::read_stream(text.as_bytes()).documents.remove(0).value;
    assert_eq!((&value["resources"][0], &value["components"][0]), (&"../sync".into(), &"../lockdown".into()));
}

#[test]
fn syncs_are_not_written_by_everyone_who_edits() {
    let rules = federate_yaml::read_stream(read("deploy/sync/rbac.yaml").as_bytes()).documents;
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
    for default in ["replicas: 2", "{cpu: 100m, memory: 256Mi}", "limits: {memory: 2Gi}"] {
        assert!(deployment.contains(default) && values.contains(default), "{default}");
    }
    // An image that is not pinned would change when a pod starts again.
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    assert!(deployment.contains(&format!("image: ghcr.io/federate-dev/federate:{version}\n")));
    assert!(values.contains("repository: ghcr.io/federate-dev/federate\n"));
    assert!(read("deploy/chart/Chart.yaml").contains(&format!("appVersion: {version}\n")));
}

/// The settings that users of charts look for.
#[test]
fn every_value_is_used_by_a_template() {
    let values =
        federate_yaml::read_stream(read("deploy/chart/values.yaml").as_bytes()).documents.remove(0).value;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart/templates");
    let templates: String = fs::read_dir(folder)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for (name, value) in values.as_object().unwrap() {
        let used = |path: &str| {
            templates.contains(&format!(".Values.{path}")) || templates.contains(&format!("{path:?}"))
        };
        assert!(used(name), "{name}");
        if ["image", "serviceAccount", "serviceMonitor"].contains(&name.as_str()) {
            for inner in value.as_object().unwrap().keys() {
                assert!(used(&format!("{name}.{inner}")), "{name}.{inner}");
            }
        }
    }
}
