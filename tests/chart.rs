//! The Helm chart in `deploy/chart` says what the kustomization in `deploy/sync` says: its templates are made from those files. `UPDATE_CHART=1 cargo test --test chart` updates them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests fail loudly")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

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
const VALUES: [(&str, &str); 19] = [
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
         - {{ . | quote }}\n{{- end }}\n",
    ),
    (
        "        - {name: FEDERATE_REQUIRE_CONFINEMENT, value: \"true\"}\n",
        "        - {name: FEDERATE_REQUIRE_CONFINEMENT, value: \"true\"}\n{{- with .Values.extraEnv }}\n\
         {{ toYaml . | indent 8 }}\n{{- end }}\n",
    ),
    (
        "        image: ghcr.io/federate-dev/federate:v0.1.0\n",
        "        image: {{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ \
         .Values.image.tag | default .Chart.AppVersion }}{{ end }}\n        imagePullPolicy: {{ .Values.image.pullPolicy }}\n",
    ),
    (
        "  labels: {app.kubernetes.io/name: federate-sync}\nspec:\n  replicas",
        "  labels:\n    app.kubernetes.io/name: federate-sync\n{{- with .Values.deploymentLabels }}\n{{ toYaml . | indent 4 }}\n\
         {{- end }}\n{{- with .Values.deploymentAnnotations }}\n  annotations:\n{{ toYaml . | indent 4 }}\n{{- end }}\nspec:\n  \
         replicas",
    ),
    (
        "      labels: {app.kubernetes.io/name: federate-sync}\n      annotations:\n        \
         prometheus.io/scrape: \"true\"\n        prometheus.io/port: \"8080\"\n",
        "      labels:\n        app.kubernetes.io/name: federate-sync\n{{- with .Values.podLabels }}\n{{ toYaml . | indent 8 }}\n\
         {{- end }}\n{{- with .Values.podAnnotations }}\n      annotations:\n{{ toYaml . | indent 8 }}\n{{- end }}\n",
    ),
    (
        "      serviceAccountName: federate-sync\n      terminationGracePeriodSeconds: 120\n      securityContext:\n        \
         runAsNonRoot: true\n        seccompProfile: {type: RuntimeDefault}\n",
        "      serviceAccountName: {{ include \"federate.account\" . }}\n\
         {{- range $key := list \"imagePullSecrets\" \"nodeSelector\" \"tolerations\" \"affinity\" \
         \"topologySpreadConstraints\" \"priorityClassName\" }}\n{{- with index $.Values $key }}\n      {{ $key }}:\n\
         {{ toYaml . | indent 8 }}\n{{- end }}\n{{- end }}\n      \
         terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}\n{{- with .Values.podSecurityContext }}\n      \
         securityContext:\n{{ toYaml . | indent 8 }}\n{{- end }}\n",
    ),
    (
        "        livenessProbe:\n          httpGet: {path: /healthz, port: healthz}\n        readinessProbe:\n          \
         httpGet: {path: /readyz, port: healthz}\n        resources:\n          requests: {cpu: 100m, memory: 256Mi}\n          \
         limits: {memory: 2Gi}\n        securityContext:\n          allowPrivilegeEscalation: false\n          \
         readOnlyRootFilesystem: true\n          capabilities: {drop: [ALL]}\n",
        "{{- range $key := list \"livenessProbe\" \"readinessProbe\" \"resources\" \"securityContext\" }}\n\
         {{- with index $.Values $key }}\n        {{ $key }}:\n{{ toYaml . | indent 10 }}\n{{- end }}\n{{- end }}\n",
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
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: federate-sync\n  namespace: {{ .Release.Namespace }}\n---\n",
        "{{- if .Values.serviceAccount.create }}\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  \
         name: {{ include \"federate.account\" . }}\n  namespace: {{ .Release.Namespace }}\n\
         {{- with .Values.serviceAccount.annotations }}\n  annotations:\n{{ toYaml . | indent 4 }}\n{{- end }}\n{{- end }}\n---\n",
    ),
    (
        "- kind: ServiceAccount\n  name: federate-sync\n",
        "- kind: ServiceAccount\n  name: {{ include \"federate.account\" . }}\n",
    ),
    ("federate-sync", "{{ include \"federate.name\" . }}"),
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
fn the_loop_writes_no_objects_but_its_own() {
    let rules = federate_yaml::read_stream(read("deploy/sync/rbac.yaml").as_bytes()).documents;
    let is_own =
        |value: &Value| value["kind"] == "ClusterRole" && value["metadata"]["name"] == "federate-sync";
    let role = rules.iter().map(|document| &document.value).find(|value| is_own(value)).unwrap();
    for rule in role["rules"].as_array().unwrap() {
        let texts = |key: &str| -> Vec<String> { serde_json::from_value(rule[key].clone()).unwrap() };
        let (groups, resources, verbs) = (texts("apiGroups"), texts("resources"), texts("verbs"));
        let writes =
            verbs.iter().any(|verb| !["get", "list", "watch", "impersonate"].contains(&verb.as_str()));
        let is_event = resources == ["events"] && verbs == ["create"];
        assert!(!writes || groups == ["federate.dev"] || is_event, "{rule}");
        assert!(!resources.iter().any(|resource| resource == "configmaps" || resource == "*"), "{rule}");
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
    let plain = federate_yaml::read_stream(deployment.as_bytes()).documents.remove(0).value;
    let template = &plain["spec"]["template"];
    let (pod, container) = (&template["spec"], &template["spec"]["containers"][0]);
    let defaults = federate_yaml::read_stream(values.as_bytes()).documents.remove(0).value;
    for (name, expected) in [
        ("replicas", &plain["spec"]["replicas"]),
        ("podAnnotations", &template["metadata"]["annotations"]),
        ("terminationGracePeriodSeconds", &pod["terminationGracePeriodSeconds"]),
        ("podSecurityContext", &pod["securityContext"]),
        ("securityContext", &container["securityContext"]),
        ("livenessProbe", &container["livenessProbe"]),
        ("readinessProbe", &container["readinessProbe"]),
        ("resources", &container["resources"]),
    ] {
        assert_eq!(&defaults[name], expected, "{name}");
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

/// The objects that helm renders with some values; `None`, with a message, where this machine lacks helm.
fn render(values: &Value) -> Option<Vec<Value>> {
    let path = std::env::var_os("PATH")?;
    let Some(helm) =
        std::env::split_paths(&path).map(|folder| folder.join("helm")).find(|path| path.is_file())
    else {
        eprintln!("skipped: this machine lacks helm");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    fs::write(&file, values.to_string()).unwrap();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart");
    let mut helm = Command::new(helm);
    helm.args(["template", "r", "--namespace", "ns"]).arg(chart).arg("--values").arg(file);
    let ran = helm.env("HOME", folder.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let read = federate_yaml::read_stream(&ran.stdout);
    assert!(read.errors.is_empty(), "{:?}", read.errors);
    Some(read.documents.into_iter().map(|document| document.value).collect())
}

#[track_caller]
fn find<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn helm_renders_the_kustomization_by_default() {
    let Some(objects) = render(&json!({})) else { return };
    let deployment = find(&objects, "Deployment", "federate-sync");
    let plain = read("deploy/sync/deployment.yaml");
    let mut expected = federate_yaml::read_stream(plain.as_bytes()).documents.remove(0).value;
    expected["metadata"]["namespace"] = "ns".into();
    expected["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent".into();
    assert_eq!(*deployment, expected);
    let kinds = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
    assert_eq!((kinds("ServiceAccount"), kinds("ClusterRole"), kinds("NetworkPolicy")), (1, 3, 1));
    assert_eq!(kinds("ServiceMonitor"), 0);
}

#[test]
fn helm_renders_every_value() {
    let values = json!({
        "nameOverride": "gitops", "replicas": 3, "watchLabelSelector": "shard=a", "lockdown": true,
        "image": {"repository": "r.example.com/f", "digest": "sha256:abc", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "extraArgs": ["--trusted-namespaces=platform"], "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://p"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
        "resources": {"limits": {"memory": "4Gi"}},
        "livenessProbe": {"periodSeconds": 7}, "readinessProbe": {"periodSeconds": 8},
        "podSecurityContext": {"fsGroup": 5}, "securityContext": {"runAsUser": 6},
        "terminationGracePeriodSeconds": 9,
        "nodeSelector": {"pool": "system"}, "tolerations": [{"key": "k"}], "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1}], "priorityClassName": "high",
        "deploymentLabels": {"team": "a"}, "deploymentAnnotations": {"note": "b"}, "podLabels": {"team": "c"},
        "podAnnotations": {"prometheus.io/port": "9", "prometheus.io/scrape": null, "own": "d"},
        "serviceAccount": {"create": false, "name": "robot"},
        "serviceMonitor": {"enabled": true, "interval": "7s", "labels": {"release": "prometheus"}},
    });
    let Some(objects) = render(&values) else { return };
    let deployment = find(&objects, "Deployment", "gitops");
    let label = json!("gitops");
    assert_eq!(deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"], label);
    assert_eq!(deployment["metadata"]["labels"], json!({"app.kubernetes.io/name": label, "team": "a"}));
    assert_eq!(deployment["metadata"]["annotations"], json!({"note": "b"}));
    let template = &deployment["spec"]["template"];
    assert_eq!(template["metadata"]["labels"], json!({"app.kubernetes.io/name": label, "team": "c"}));
    assert_eq!(template["metadata"]["annotations"], json!({"prometheus.io/port": "9", "own": "d"}));
    let (pod, container) = (&template["spec"], &template["spec"]["containers"][0]);
    for name in [
        "imagePullSecrets",
        "nodeSelector",
        "tolerations",
        "affinity",
        "topologySpreadConstraints",
        "priorityClassName",
        "terminationGracePeriodSeconds",
    ] {
        assert_eq!(pod[name], values[name], "{name}");
    }
    assert_eq!(
        (&pod["serviceAccountName"], &pod["securityContext"]["fsGroup"]),
        (&json!("robot"), &json!(5))
    );
    assert_eq!(container["image"], "r.example.com/f@sha256:abc");
    assert_eq!(container["securityContext"]["runAsUser"], 6);
    let probes =
        (&container["livenessProbe"]["periodSeconds"], &container["readinessProbe"]["periodSeconds"]);
    assert_eq!(probes, (&json!(7), &json!(8)));
    let variables = container["env"].as_array().unwrap();
    assert_eq!(variables[0], json!({"name": "FEDERATE_BUILD_DIR", "value": "/scratch"}));
    assert_eq!(variables[1], json!({"name": "FEDERATE_REQUIRE_CONFINEMENT", "value": "true"}));
    assert_eq!(&variables[2..], values["extraEnv"].as_array().unwrap().as_slice());
    assert_eq!(container["resources"]["limits"]["memory"], "4Gi");
    let arguments = container["args"].as_array().unwrap();
    for argument in
        ["--trusted-namespaces=platform", "--watch-label-selector=shard=a", "--no-cross-namespace-refs"]
    {
        assert!(arguments.contains(&argument.into()), "{argument}");
    }
    assert!(objects.iter().all(|object| object["kind"] != "ServiceAccount"));
    for binding in objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Binding")) {
        assert_eq!(binding["subjects"][0]["name"], "robot", "{binding}");
    }
    let monitor = find(&objects, "ServiceMonitor", "gitops");
    assert_eq!(monitor["spec"]["endpoints"][0]["interval"], "7s");
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let service = find(&objects, "Service", "gitops-metrics");
    assert_eq!(service["spec"]["selector"], json!({"app.kubernetes.io/name": label}));
    assert_eq!(service["metadata"]["labels"], monitor["spec"]["selector"]["matchLabels"]);
    find(&objects, "NetworkPolicy", "gitops-egress");
}
