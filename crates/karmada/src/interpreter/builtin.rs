//! Karmada's built-in interpreters, as answers to the same operations.

use federate_dialect::{Health, HealthState};
use federate_kubernetes::Object;
use serde_json::{Value, json};

use super::{OperationInput, Rule};
use crate::dependencies::{self, Dependency};
use crate::interpret::{self, BuiltInFailure};
use crate::member::retain;
use crate::version::Behaviour;
use crate::workload::Requirements;
use crate::{health, revise};

/// The operations of a group of kinds.
type Served = (&'static str, &'static [&'static str], &'static [Rule]);

use Rule::{Dependencies, Replicas, Retention, Revision};

/// The kinds with built-in interpreters.
const SERVED: &[Served] = &[
    ("apps/v1", &["Deployment"], &[Replicas, Revision, Retention, Rule::Health, Dependencies]),
    ("apps/v1", &["ReplicaSet"], &[Replicas, Revision, Rule::Health, Dependencies]),
    ("apps/v1", &["StatefulSet"], &[Replicas, Revision, Rule::Health, Dependencies]),
    ("apps/v1", &["DaemonSet"], &[Rule::Health, Dependencies]),
    ("batch/v1", &["Job"], &[Replicas, Revision, Retention, Dependencies]),
    ("batch/v1", &["CronJob"], &[Dependencies]),
    ("v1", &["Pod"], &[Replicas, Retention, Rule::Health, Dependencies]),
    ("v1", &["Service", "PersistentVolumeClaim"], &[Retention, Rule::Health]),
    ("v1", &["ServiceAccount", "PersistentVolume", "Secret"], &[Retention]),
    ("networking.k8s.io/v1", &["Ingress"], &[Rule::Health, Dependencies]),
    ("policy/v1", &["PodDisruptionBudget"], &[Rule::Health]),
    ("multicluster.x-k8s.io/v1alpha1", &["ServiceImport"], &[Dependencies]),
    (
        "apps.kruise.io/v1alpha1",
        &["CloneSet", "UnitedDeployment"],
        &[Replicas, Revision, Rule::Health, Dependencies],
    ),
    ("apps.kruise.io/v1beta1", &["StatefulSet"], &[Replicas, Revision, Rule::Health, Dependencies]),
    (
        "apps.kruise.io/v1alpha1",
        &["BroadcastJob"],
        &[Replicas, Revision, Retention, Rule::Health, Dependencies],
    ),
    ("apps.kruise.io/v1alpha1", &["DaemonSet"], &[Rule::Health, Dependencies]),
    ("apps.kruise.io/v1alpha1", &["SidecarSet"], &[Replicas, Retention, Rule::Health, Dependencies]),
    ("apps.kruise.io/v1alpha1", &["AdvancedCronJob"], &[Dependencies]),
    ("batch.volcano.sh/v1alpha1", &["Job"], &[Rule::Health]),
    ("argoproj.io/v1alpha1", &["Workflow"], &[Replicas, Revision, Retention, Rule::Health, Dependencies]),
    ("ray.io/v1", &["RayService"], &[Replicas, Revision, Rule::Health, Dependencies]),
    ("ray.io/v1", &["RayJob"], &[Rule::Health, Dependencies]),
    ("ray.io/v1", &["RayCluster"], &[Rule::Health]),
    ("kubeflow.org/v1", &["Notebook"], &[Replicas, Rule::Health]),
    ("kubeflow.org/v1", &["PyTorchJob", "TFJob"], &[Rule::Health, Dependencies]),
    ("kubeflow.org/v2beta1", &["MPIJob"], &[Rule::Health]),
    ("sparkoperator.k8s.io/v1beta2", &["SparkApplication"], &[Rule::Health]),
    ("flink.apache.org/v1beta1", &["FlinkDeployment"], &[Replicas, Rule::Health]),
    ("kyverno.io/v1", &["ClusterPolicy", "Policy"], &[Rule::Health]),
    ("kustomize.toolkit.fluxcd.io/v1", &["Kustomization"], &[Retention, Rule::Health, Dependencies]),
    ("helm.toolkit.fluxcd.io/v2beta1", &["HelmRelease"], &[Retention, Rule::Health, Dependencies]),
    ("source.toolkit.fluxcd.io/v1", &["GitRepository"], &[Retention, Rule::Health, Dependencies]),
    (
        "source.toolkit.fluxcd.io/v1beta2",
        &["OCIRepository", "HelmRepository", "Bucket", "HelmChart"],
        &[Retention, Rule::Health, Dependencies],
    ),
];

/// Whether an operation is built in for a kind.
pub(super) fn serves(rule: Rule, object: &Object) -> bool {
    let (version, kind) = (object.id.api_version.as_str(), object.id.kind.as_str());
    SERVED.iter().any(|(v, kinds, rules)| *v == version && kinds.contains(&kind) && rules.contains(&rule))
}

/// The built-in answer to an operation, if there is one.
pub(super) fn answer(
    rule: Rule,
    object: &Object,
    input: &OperationInput<'_>,
    behaviour: &Behaviour,
) -> Option<Result<Value, BuiltInFailure>> {
    if !serves(rule, object) {
        return None;
    }
    Some(match rule {
        Rule::Replicas => interpret::workload(object, behaviour).map(|workload| {
            let requirements = workload.requirements.as_ref().map(Requirements::to_json);
            json!({"replicas": workload.replicas, "requirements": requirements})
        }),
        Rule::Revision => {
            let mut body = object.body.clone();
            revise::revise(&mut body, input.replicas);
            Ok(body)
        }
        Rule::Retention => {
            let mut body = object.body.clone();
            retain::by_kind(&mut body, input.live?, behaviour.service_accounts)
                .map(|()| body)
                .map_err(|_| BuiltInFailure::runtime("the live object lacks what is retained"))
        }
        Rule::Health => match health::health(object, behaviour) {
            Health { state: HealthState::Unknown, reason } => Err(BuiltInFailure::runtime(reason)),
            Health { state, .. } => Ok(Value::Bool(state == HealthState::Healthy)),
        },
        Rule::Dependencies => dependencies::find_dependencies(object, behaviour)
            .map(|all| all.iter().map(Dependency::to_reference).collect()),
        Rule::Components | Rule::StatusReflection | Rule::StatusAggregation => return None,
    })
}
