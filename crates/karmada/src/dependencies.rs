//! The other objects that a template refers to.
//!
//! Facts: references of pods, in every kind that holds pod templates; TLS Secrets of an Ingress; and what
//! a `ServiceImport` derives. References of references are not followed, nor those to other namespaces.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::version::Behaviour;
use federate_kubernetes::pods::References;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Labels, Object, object};

/// A reference to objects that may or may not exist.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dependency {
    pub(super) api_version: Cow<'static, str>,
    pub(super) kind: Cow<'static, str>,
    pub(super) namespace: Option<String>,
    pub(super) target: Target,
}

impl Dependency {
    /// Reads a `DependentObjectReference`.
    pub(super) fn of_reference(reference: &Value) -> Option<Self> {
        let text = |key: &str| reference.get(key).and_then(Value::as_str).map(str::to_owned);
        let target = match text("name") {
            Some(name) => Target::Name(name),
            None => Target::Labels(LabelSelector::deserialize(reference.get("labelSelector")?).ok()?),
        };
        let (api_version, kind) = (text("apiVersion")?.into(), text("kind")?.into());
        Some(Self { api_version, kind, namespace: text("namespace"), target })
    }

    /// Writes it as a `DependentObjectReference`.
    pub(super) fn to_reference(&self) -> Value {
        let mut reference =
            json!({"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace});
        match &self.target {
            Target::Name(name) => reference["name"] = Value::from(name.as_str()),
            Target::Labels(selector) => {
                reference["labelSelector"] = json!({"matchLabels": selector.match_labels});
            }
        }
        reference
    }
}

/// How the objects are named.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    Name(String),
    Labels(LabelSelector),
}

/// The paths of pod specs by kind. `*` stands for every item of a list or entry of a map.
const POD_SPECS: [(&str, &str, &[&str]); 19] = [
    ("v1", "Pod", &["/spec"]),
    ("apps/v1", "Deployment", &["/spec/template/spec"]),
    ("apps/v1", "ReplicaSet", &["/spec/template/spec"]),
    ("apps/v1", "StatefulSet", &["/spec/template/spec"]),
    ("apps/v1", "DaemonSet", &["/spec/template/spec"]),
    ("batch/v1", "Job", &["/spec/template/spec"]),
    ("batch/v1", "CronJob", &["/spec/jobTemplate/spec/template/spec"]),
    ("apps.kruise.io/v1alpha1", "CloneSet", &["/spec/template/spec"]),
    ("apps.kruise.io/v1beta1", "StatefulSet", &["/spec/template/spec"]),
    ("apps.kruise.io/v1alpha1", "UnitedDeployment", &["/spec/template/spec"]),
    ("apps.kruise.io/v1alpha1", "BroadcastJob", &["/spec/template/spec"]),
    ("apps.kruise.io/v1alpha1", "DaemonSet", &["/spec/template/spec"]),
    ("apps.kruise.io/v1alpha1", "SidecarSet", &["/spec"]),
    (
        "apps.kruise.io/v1alpha1",
        "AdvancedCronJob",
        &[
            "/spec/template/jobTemplate/spec/template/spec",
            "/spec/template/broadcastJobTemplate/spec/template/spec",
        ],
    ),
    (
        "ray.io/v1",
        "RayService",
        &[
            "/spec/rayClusterConfig/headGroupSpec/template/spec",
            "/spec/rayClusterConfig/workerGroupSpecs/*/template/spec",
        ],
    ),
    (
        "ray.io/v1",
        "RayJob",
        &[
            "/spec/rayClusterSpec/headGroupSpec/template/spec",
            "/spec/rayClusterSpec/workerGroupSpecs/*/template/spec",
            "/spec/submitterPodTemplate/spec",
        ],
    ),
    ("kubeflow.org/v1", "PyTorchJob", &["/spec/pytorchReplicaSpecs/*/template/spec"]),
    ("kubeflow.org/v1", "TFJob", &["/spec/tfReplicaSpecs/*/template/spec"]),
    ("argoproj.io/v1alpha1", "Workflow", &["/spec"]),
];

/// The references of a template, by kind and name.
pub(super) fn dependencies(template: &Object, behaviour: &Behaviour) -> Vec<Dependency> {
    let Some(namespace) = template.id.namespace.as_deref() else { return Vec::new() };
    let id = &template.id;
    if !behaviour.interprets(&id.api_version, &id.kind) {
        return Vec::new();
    }
    let mut references = References::default();
    let of_kind =
        POD_SPECS.iter().filter(|(version, kind, _)| *version == id.api_version && *kind == id.kind);
    for path in of_kind.flat_map(|(_, _, paths)| *paths) {
        each(&template.body, path, &mut |spec| references.add_pod(spec));
    }
    match (id.api_version.as_str(), id.kind.as_str()) {
        ("apps/v1" | "apps.kruise.io/v1beta1", "StatefulSet") => {
            drop_own_claims(template, &mut references);
        }
        ("networking.k8s.io/v1", "Ingress") => each(&template.body, "/spec/tls/*/secretName", &mut |name| {
            references.secrets.extend(name.as_str().map(str::to_owned));
        }),
        ("argoproj.io/v1alpha1", "Workflow") => {
            references.add_account(template.at(&["spec", "executor", "serviceAccountName"]));
        }
        ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => return derived(&id.name, namespace),
        (version, _) if version.contains(".toolkit.fluxcd.io/") => flux(template, &mut references),
        _ => {}
    }
    named(references, namespace)
}

/// Calls `visit` with every value at a path in which `*` stands for all items or entries.
fn each(value: &Value, path: &str, visit: &mut dyn FnMut(&Value)) {
    let Some((before, after)) = path.split_once("/*") else {
        if let Some(found) = value.pointer(path) {
            visit(found);
        }
        return;
    };
    match value.pointer(before) {
        Some(Value::Array(items)) => items.iter().for_each(|item| each(item, after, visit)),
        Some(Value::Object(map)) => map.values().for_each(|item| each(item, after, visit)),
        _ => {}
    }
}

/// Removes the claims that a `StatefulSet` creates itself.
fn drop_own_claims(template: &Object, references: &mut References) {
    each(&template.body, "/spec/volumeClaimTemplates/*/metadata/name", &mut |name| {
        if let Some(name) = name.as_str() {
            references.claims.remove(name);
        }
    });
}

/// The Secrets and the `ServiceAccount` that Flux objects name.
fn flux(template: &Object, references: &mut References) {
    const SECRETS: [&[&str]; 6] = [
        &["spec", "secretRef", "name"],
        &["spec", "certSecretRef", "name"],
        &["spec", "proxySecretRef", "name"],
        &["spec", "verify", "secretRef", "name"],
        &["spec", "decryption", "secretRef", "name"],
        &["spec", "kubeConfig", "secretRef", "name"],
    ];
    let names = SECRETS.iter().filter_map(|path| object::at(&template.body, path)?.as_str());
    references.secrets.extend(names.map(str::to_owned));
    let values = template.at(&["spec", "valuesFrom"]).and_then(Value::as_array).into_iter().flatten();
    let secrets =
        values.filter(|source| source["kind"] == "Secret").filter_map(|source| source["name"].as_str());
    references.secrets.extend(secrets.map(str::to_owned));
    references.add_account(template.at(&["spec", "serviceAccountName"]));
}

/// The Service and the `EndpointSlices` that an import creates in the control plane.
fn derived(name: &str, namespace: &str) -> Vec<Dependency> {
    let service = format!("derived-{name}");
    let labels = Labels::from([("kubernetes.io/service-name".to_owned(), service.clone())]);
    let selector = LabelSelector { match_labels: labels, ..LabelSelector::default() };
    let namespace = Some(namespace.to_owned());
    vec![
        Dependency {
            api_version: "discovery.k8s.io/v1".into(),
            kind: "EndpointSlice".into(),
            namespace: namespace.clone(),
            target: Target::Labels(selector),
        },
        Dependency {
            api_version: "v1".into(),
            kind: "Service".into(),
            namespace,
            target: Target::Name(service),
        },
    ]
}

fn named(references: References, namespace: &str) -> Vec<Dependency> {
    let of_kind = |kind: &'static str, names: BTreeSet<String>| {
        names.into_iter().map(move |name| Dependency {
            api_version: "v1".into(),
            kind: kind.into(),
            namespace: Some(namespace.to_owned()),
            target: Target::Name(name),
        })
    };
    of_kind("ConfigMap", references.config_maps)
        .chain(of_kind("PersistentVolumeClaim", references.claims))
        .chain(of_kind("Secret", references.secrets))
        .chain(of_kind("ServiceAccount", references.service_accounts))
        .collect()
}
