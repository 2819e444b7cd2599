//! The references of third-party kinds.
//!
//! Facts: the behaviour of the interpreters shipped with Karmada for Kruise, Argo Workflows, Flux, Kubeflow and
//! Ray, which are scripts. Some return nothing where they find nothing, which is an error; most fail where a
//! reference has no name.

use std::collections::BTreeSet;

use serde_json::Value;

use super::visit_each;
use crate::builtin_workload::BuiltInFailure;
use federate_kubernetes::Object;
use federate_kubernetes::object::value_at;
use federate_kubernetes::pods::PodReferences;

/// What a script returns for a pod template without references.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WithoutReferences {
    EmptyList,
    /// Which is an error.
    Nothing,
}

/// The types of replicas of a `PyTorchJob` and of a `TFJob`.
const PYTORCH_REPLICAS: [&str; 2] = ["Master", "Worker"];
const TENSORFLOW_REPLICAS: [&str; 5] = ["PS", "Worker", "Chief", "Master", "Evaluator"];

/// The references of an object; empty for other kinds. A name may be empty, which is an error of the object.
pub(super) fn find_references(object: &Object) -> Result<PodReferences, BuiltInFailure> {
    let mut all = PodReferences::default();
    match (object.id.api_version.as_str(), object.id.kind.as_str()) {
        ("apps.kruise.io/v1alpha1", "CloneSet" | "BroadcastJob" | "UnitedDeployment")
        | ("apps.kruise.io/v1beta1", "StatefulSet") => {
            let template = object.value_at(&["spec", "template"]);
            add_template(&mut all, template, WithoutReferences::Nothing)?;
        }
        ("apps.kruise.io/v1alpha1", "DaemonSet") => {
            let template = object.value_at(&["spec", "template"]);
            add_template(&mut all, template, WithoutReferences::EmptyList)?;
        }
        ("apps.kruise.io/v1alpha1", "AdvancedCronJob") => {
            let jobs = ["broadcastJobTemplate", "jobTemplate"];
            let mut jobs = jobs.iter().filter_map(|kind| object.value_at(&["spec", "template", kind]));
            let Some(job) = jobs.find(|job| !job.is_null()) else {
                return Err(no_references());
            };
            add_template(&mut all, value_at(job, &["spec", "template"]), WithoutReferences::Nothing)?;
        }
        ("apps.kruise.io/v1alpha1", "SidecarSet") => add_sidecars(&mut all, object),
        ("argoproj.io/v1alpha1", "Workflow") => add_workflow(&mut all, object)?,
        ("kubeflow.org/v1", "PyTorchJob") => {
            add_job(&mut all, object, "pytorchReplicaSpecs", &PYTORCH_REPLICAS)?;
        }
        ("kubeflow.org/v1", "TFJob") => add_job(&mut all, object, "tfReplicaSpecs", &TENSORFLOW_REPLICAS)?,
        ("ray.io/v1", "RayService") => add_ray(&mut all, object, "/spec/rayClusterConfig"),
        ("ray.io/v1", "RayJob") => {
            add_ray(&mut all, object, "/spec/rayClusterSpec");
            visit_each(&object.body, "/spec/submitterPodTemplate/spec", &mut |spec| {
                add_ray_pod(&mut all, spec);
            });
        }
        ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease") => {
            for source in
                object.value_at(&["spec", "valuesFrom"]).and_then(Value::as_array).into_iter().flatten()
            {
                let names = match source.get("kind").and_then(Value::as_str) {
                    Some("Secret") => &mut all.secrets,
                    Some("ConfigMap") => &mut all.config_maps,
                    _ => continue,
                };
                names.insert(read_name(source)?.to_owned());
            }
            add_secrets(&mut all, object, &[&["chart", "spec", "verify"], &["kubeConfig"]], "secretRef")?;
            add_account(&mut all, object);
        }
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization") => {
            add_secrets(&mut all, object, &[&["decryption"], &["kubeConfig"]], "secretRef")?;
            add_account(&mut all, object);
        }
        ("source.toolkit.fluxcd.io/v1", "GitRepository") => {
            add_secrets(&mut all, object, &[&[], &["verify"]], "secretRef")?;
        }
        ("source.toolkit.fluxcd.io/v1beta2", "Bucket" | "HelmRepository") => {
            add_secrets(&mut all, object, &[&[]], "secretRef")?;
        }
        ("source.toolkit.fluxcd.io/v1beta2", "HelmChart") => {
            add_secrets(&mut all, object, &[&["verify"]], "secretRef")?;
        }
        ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository") => {
            add_secrets(&mut all, object, &[&[], &["verify"]], "secretRef")?;
            add_secrets(&mut all, object, &[&[]], "certSecretRef")?;
            if object.value_at(&["spec", "serviceAccountName"]).is_none_or(Value::is_null) {
                return Err(BuiltInFailure::runtime_error(
                    "that of OCIRepository fails without `spec.serviceAccountName`",
                ));
            }
            add_account(&mut all, object);
        }
        _ => {}
    }
    Ok(all)
}

fn no_references() -> BuiltInFailure {
    BuiltInFailure::wrong_type(
        "it returns nothing instead of an empty list where the pod template refers to nothing",
    )
}

/// Adds the references of a pod template, which must be there.
fn add_template(
    all: &mut PodReferences,
    template: Option<&Value>,
    without: WithoutReferences,
) -> Result<(), BuiltInFailure> {
    let template = template.filter(|template| template.is_object());
    let template = template.ok_or_else(|| BuiltInFailure::runtime_error("the pod template is missing"))?;
    let before = all.clone();
    all.add_pod(template.get("spec").unwrap_or(&Value::Null));
    if without == WithoutReferences::Nothing && *all == before { Err(no_references()) } else { Ok(()) }
}

/// Adds the references of the types of replicas that a job has.
fn add_job(all: &mut PodReferences, job: &Object, field: &str, types: &[&str]) -> Result<(), BuiltInFailure> {
    for replicas in types {
        let template =
            job.value_at(&["spec", field, replicas, "template"]).filter(|template| !template.is_null());
        if template.is_some() {
            add_template(all, template, WithoutReferences::EmptyList)?;
        }
    }
    Ok(())
}

/// Adds the references of a Ray cluster's pods.
fn add_ray(all: &mut PodReferences, object: &Object, cluster: &str) {
    for path in ["headGroupSpec/template/spec", "workerGroupSpecs/*/template/spec"] {
        visit_each(&object.body, &format!("{cluster}/{path}"), &mut |spec| add_ray_pod(all, spec));
    }
}

/// Adds the references of a pod, without those of ephemeral containers.
fn add_ray_pod(all: &mut PodReferences, spec: &Value) {
    let mut spec = spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("ephemeralContainers");
    }
    all.add_pod(&spec);
}

/// Adds the references of injected containers and volumes, and no others. A reference without a name counts.
fn add_sidecars(all: &mut PodReferences, object: &Object) {
    let body = &object.body;
    insert_names(&mut all.config_maps, body, "/spec/containers/*/env/*/valueFrom/configMapKeyRef", "name");
    insert_names(&mut all.secrets, body, "/spec/containers/*/env/*/valueFrom/secretKeyRef", "name");
    insert_names(&mut all.config_maps, body, "/spec/containers/*/envFrom/*/configMapRef", "name");
    insert_names(&mut all.secrets, body, "/spec/containers/*/envFrom/*/secretRef", "name");
    insert_names(&mut all.config_maps, body, "/spec/volumes/*/configMap", "name");
    insert_names(&mut all.secrets, body, "/spec/volumes/*/secret", "secretName");
    insert_names(&mut all.config_maps, body, "/spec/volumes/*/projected/sources/*/configMap", "name");
    insert_names(&mut all.secrets, body, "/spec/volumes/*/projected/sources/*/secret", "name");
}

/// Adds the names that the references at a path have at `key`.
fn insert_names(names: &mut BTreeSet<String>, body: &Value, path: &str, key: &str) {
    visit_each(body, path, &mut |reference| {
        if reference.is_object() {
            names.insert(reference[key].as_str().unwrap_or_default().to_owned());
        }
    });
}

/// Adds the references of a `Workflow`. Those of its templates are not looked at, and a Secret in a volume is looked for
/// by `name`, which volumes do not have.
fn add_workflow(all: &mut PodReferences, object: &Object) -> Result<(), BuiltInFailure> {
    all.service_accounts.extend(filled_text(object.value_at(&["spec", "executor", "serviceAccountName"])));
    for claim in spec_items(object, "volumeClaimTemplates") {
        let metadata = claim.get("metadata").filter(|metadata| metadata.is_object());
        let metadata = metadata
            .ok_or_else(|| BuiltInFailure::runtime_error("a volume claim template has no metadata"))?;
        all.claims.extend(filled_text(metadata.get("name")));
    }
    for volume in spec_items(object, "volumes") {
        let mut volume = volume.clone();
        let secret = volume.as_object_mut().and_then(|volume| volume.remove("secret"));
        all.secrets.extend(secret.and_then(|secret| filled_text(secret.get("name"))));
        all.add_volume(&volume);
    }
    for secret in spec_items(object, "imagePullSecrets") {
        all.secrets.extend(filled_text(secret.get("name")));
    }
    all.add_account(object.value_at(&["spec", "serviceAccountName"]));
    Ok(())
}

fn filled_text(value: Option<&Value>) -> Option<String> {
    value?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn spec_items<'o>(object: &'o Object, field: &str) -> &'o [Value] {
    object.value_at(&["spec", field]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Adds the Secrets that an object of Flux names by `field` at some paths below its spec. An empty name is none.
fn add_secrets(
    all: &mut PodReferences,
    object: &Object,
    paths: &[&[&str]],
    field: &str,
) -> Result<(), BuiltInFailure> {
    let spec = object.value_at(&["spec"]).unwrap_or(&Value::Null);
    for path in paths {
        let reference = value_at(spec, path).and_then(|parent| parent.get(field));
        if let Some(reference) = reference.filter(|reference| reference.is_object()) {
            let name = read_name(reference)?;
            if !name.is_empty() {
                all.secrets.insert(name.to_owned());
            }
        }
    }
    Ok(())
}

/// The name of a reference, without which the script fails.
fn read_name(reference: &Value) -> Result<&str, BuiltInFailure> {
    let name = reference.get("name").and_then(Value::as_str);
    name.ok_or_else(|| BuiltInFailure::runtime_error("a reference has no name"))
}

/// Adds the `ServiceAccount` of an object of Flux, be it the default one.
fn add_account(all: &mut PodReferences, object: &Object) {
    let name = object.text_at(&["spec", "serviceAccountName"]);
    if !name.is_empty() {
        all.service_accounts.insert(name.to_owned());
    }
}
