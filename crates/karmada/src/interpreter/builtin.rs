//! Karmada's built-in interpreters, as answers to the same operations.

use federate_dialect::{Health, HealthState};
use federate_kubernetes::Object;
use serde_json::{Value, json};

use super::{CustomizationRule, OperationInput};
use crate::builtin_workload::{self, BuiltInFailure};
use crate::dependencies::{self, DependentObjectReference};
use crate::member::retention;
use crate::version::KarmadaBehaviour;
use crate::workload::Requirements;
use crate::{health, revision};

/// The operations of a group of kinds.
type Served = (&'static str, &'static [&'static str], &'static [CustomizationRule]);

use CustomizationRule::{Dependencies, Replicas, Retention, Revision};

/// The kinds with built-in interpreters.
const SERVED: &[Served] = &[
    ("apps/v1", &["Deployment"], &[Replicas, Revision, Retention, CustomizationRule::Health, Dependencies]),
    ("apps/v1", &["ReplicaSet"], &[Replicas, Revision, CustomizationRule::Health, Dependencies]),
    ("apps/v1", &["StatefulSet"], &[Replicas, Revision, CustomizationRule::Health, Dependencies]),
    ("apps/v1", &["DaemonSet"], &[CustomizationRule::Health, Dependencies]),
    ("batch/v1", &["Job"], &[Replicas, Revision, Retention, Dependencies]),
    ("batch/v1", &["CronJob"], &[Dependencies]),
    ("v1", &["Pod"], &[Replicas, Retention, CustomizationRule::Health, Dependencies]),
    ("v1", &["Service", "PersistentVolumeClaim"], &[Retention, CustomizationRule::Health]),
    ("v1", &["ServiceAccount", "PersistentVolume", "Secret"], &[Retention]),
    ("networking.k8s.io/v1", &["Ingress"], &[CustomizationRule::Health, Dependencies]),
    ("policy/v1", &["PodDisruptionBudget"], &[CustomizationRule::Health]),
    ("multicluster.x-k8s.io/v1alpha1", &["ServiceImport"], &[Dependencies]),
    (
        "apps.kruise.io/v1alpha1",
        &["CloneSet", "UnitedDeployment"],
        &[Replicas, Revision, CustomizationRule::Health, Dependencies],
    ),
    (
        "apps.kruise.io/v1beta1",
        &["StatefulSet"],
        &[Replicas, Revision, CustomizationRule::Health, Dependencies],
    ),
    (
        "apps.kruise.io/v1alpha1",
        &["BroadcastJob"],
        &[Replicas, Revision, Retention, CustomizationRule::Health, Dependencies],
    ),
    ("apps.kruise.io/v1alpha1", &["DaemonSet"], &[CustomizationRule::Health, Dependencies]),
    (
        "apps.kruise.io/v1alpha1",
        &["SidecarSet"],
        &[Replicas, Retention, CustomizationRule::Health, Dependencies],
    ),
    ("apps.kruise.io/v1alpha1", &["AdvancedCronJob"], &[Dependencies]),
    ("batch.volcano.sh/v1alpha1", &["Job"], &[CustomizationRule::Health]),
    (
        "argoproj.io/v1alpha1",
        &["Workflow"],
        &[Replicas, Revision, Retention, CustomizationRule::Health, Dependencies],
    ),
    ("ray.io/v1", &["RayService"], &[Replicas, Revision, CustomizationRule::Health, Dependencies]),
    ("ray.io/v1", &["RayJob"], &[CustomizationRule::Health, Dependencies]),
    ("ray.io/v1", &["RayCluster"], &[CustomizationRule::Health]),
    ("kubeflow.org/v1", &["Notebook"], &[Replicas, CustomizationRule::Health]),
    ("kubeflow.org/v1", &["PyTorchJob", "TFJob"], &[CustomizationRule::Health, Dependencies]),
    ("kubeflow.org/v2beta1", &["MPIJob"], &[CustomizationRule::Health]),
    ("sparkoperator.k8s.io/v1beta2", &["SparkApplication"], &[CustomizationRule::Health]),
    ("flink.apache.org/v1beta1", &["FlinkDeployment"], &[Replicas, CustomizationRule::Health]),
    ("kyverno.io/v1", &["ClusterPolicy", "Policy"], &[CustomizationRule::Health]),
    (
        "kustomize.toolkit.fluxcd.io/v1",
        &["Kustomization"],
        &[Retention, CustomizationRule::Health, Dependencies],
    ),
    (
        "helm.toolkit.fluxcd.io/v2beta1",
        &["HelmRelease"],
        &[Retention, CustomizationRule::Health, Dependencies],
    ),
    (
        "source.toolkit.fluxcd.io/v1",
        &["GitRepository"],
        &[Retention, CustomizationRule::Health, Dependencies],
    ),
    (
        "source.toolkit.fluxcd.io/v1beta2",
        &["OCIRepository", "HelmRepository", "Bucket", "HelmChart"],
        &[Retention, CustomizationRule::Health, Dependencies],
    ),
];

/// Whether an operation is built in for a kind.
pub(super) fn is_built_in(rule: CustomizationRule, object: &Object) -> bool {
    let (version, kind) = (object.id.api_version.as_str(), object.id.kind.as_str());
    SERVED.iter().any(|(v, kinds, rules)| *v == version && kinds.contains(&kind) && rules.contains(&rule))
}

/// The built-in answer to an operation, if there is one.
pub(super) fn answer_operation(
    rule: CustomizationRule,
    object: &Object,
    input: &OperationInput<'_>,
    behaviour: &KarmadaBehaviour,
) -> Option<Result<Value, BuiltInFailure>> {
    if !is_built_in(rule, object) {
        return None;
    }
    Some(match rule {
        CustomizationRule::Replicas => {
            builtin_workload::interpret_workload(object, behaviour).map(|workload| {
                let requirements = workload.requirements.as_ref().map(Requirements::to_json);
                json!({"replicas": workload.replicas, "requirements": requirements})
            })
        }
        CustomizationRule::Revision => {
            let mut body = object.body.clone();
            revision::revise_replicas(&mut body, input.replicas);
            Ok(body)
        }
        CustomizationRule::Retention => {
            let mut body = object.body.clone();
            retention::retain_by_kind(&mut body, input.live?, behaviour.service_accounts)
                .map(|()| body)
                .map_err(|_| BuiltInFailure::runtime_error("the live object lacks what is retained"))
        }
        CustomizationRule::Health => match health::interpret_health(object, behaviour) {
            Health { state: HealthState::Unknown, reason } => Err(BuiltInFailure::runtime_error(reason)),
            Health { state, .. } => Ok(Value::Bool(state == HealthState::Healthy)),
        },
        CustomizationRule::Dependencies => dependencies::find_dependencies(object, behaviour)
            .map(|all| all.iter().map(DependentObjectReference::to_json).collect()),
        CustomizationRule::Components
        | CustomizationRule::StatusReflection
        | CustomizationRule::StatusAggregation => return None,
    })
}
