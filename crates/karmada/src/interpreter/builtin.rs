//! Karmada's built-in interpreters, as answers to the same operations.

use federate_dialect::HealthState;
use federate_kubernetes::Object;
use serde_json::{Value, json};

use super::{OperationInput, Rule};
use crate::dependencies::{self, Dependency};
use crate::member::retain;
use crate::version::Behaviour;
use crate::workload::Requirements;
use crate::{health, interpret, revise};

/// The operations of a group of kinds.
type Served = (&'static str, &'static [&'static str], &'static [Rule]);

use Rule::{Dependencies, Health, Replicas, Retention, Revision};

/// The kinds with built-in interpreters.
const SERVED: &[Served] = &[
    ("apps/v1", &["Deployment"], &[Replicas, Revision, Retention, Health, Dependencies]),
    ("apps/v1", &["ReplicaSet"], &[Replicas, Revision, Health, Dependencies]),
    ("apps/v1", &["StatefulSet"], &[Replicas, Revision, Health, Dependencies]),
    ("apps/v1", &["DaemonSet"], &[Health, Dependencies]),
    ("batch/v1", &["Job"], &[Replicas, Revision, Retention, Dependencies]),
    ("batch/v1", &["CronJob"], &[Dependencies]),
    ("v1", &["Pod"], &[Replicas, Retention, Health, Dependencies]),
    ("v1", &["Service", "PersistentVolumeClaim"], &[Retention, Health]),
    ("v1", &["ServiceAccount", "PersistentVolume", "Secret"], &[Retention]),
    ("networking.k8s.io/v1", &["Ingress"], &[Health, Dependencies]),
    ("policy/v1", &["PodDisruptionBudget"], &[Health]),
    ("multicluster.x-k8s.io/v1alpha1", &["ServiceImport"], &[Dependencies]),
    (
        "apps.kruise.io/v1alpha1",
        &["CloneSet", "UnitedDeployment"],
        &[Replicas, Revision, Health, Dependencies],
    ),
    ("apps.kruise.io/v1beta1", &["StatefulSet"], &[Replicas, Revision, Health, Dependencies]),
    ("apps.kruise.io/v1alpha1", &["BroadcastJob"], &[Replicas, Revision, Retention, Health, Dependencies]),
    ("apps.kruise.io/v1alpha1", &["DaemonSet", "SidecarSet", "AdvancedCronJob"], &[Health, Dependencies]),
    ("argoproj.io/v1alpha1", &["Workflow"], &[Replicas, Revision, Retention, Health, Dependencies]),
    ("ray.io/v1", &["RayService"], &[Replicas, Revision, Health, Dependencies]),
    ("ray.io/v1", &["RayJob"], &[Health, Dependencies]),
    ("kubeflow.org/v1", &["Notebook"], &[Replicas, Health]),
    ("kubeflow.org/v1", &["PyTorchJob", "TFJob"], &[Health, Dependencies]),
    ("flink.apache.org/v1beta1", &["FlinkDeployment"], &[Replicas, Health]),
    ("kyverno.io/v1", &["ClusterPolicy", "Policy"], &[Health]),
    ("kustomize.toolkit.fluxcd.io/v1", &["Kustomization"], &[Retention, Health, Dependencies]),
    ("helm.toolkit.fluxcd.io/v2beta1", &["HelmRelease"], &[Retention, Health, Dependencies]),
    ("source.toolkit.fluxcd.io/v1", &["GitRepository"], &[Retention, Health, Dependencies]),
    (
        "source.toolkit.fluxcd.io/v1beta2",
        &["OCIRepository", "HelmRepository", "Bucket", "HelmChart"],
        &[Retention, Health, Dependencies],
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
) -> Option<Value> {
    if !serves(rule, object) {
        return None;
    }
    match rule {
        Rule::Replicas => {
            let workload = interpret::workload(object, behaviour).unwrap_or_default();
            let requirements = workload.requirements.as_ref().map(Requirements::to_json);
            Some(json!({"replicas": workload.replicas, "requirements": requirements}))
        }
        Rule::Revision => {
            let mut body = object.body.clone();
            revise::revise(&mut body, input.replicas);
            Some(body)
        }
        Rule::Retention => {
            let mut body = object.body.clone();
            retain::by_kind(&mut body, input.live?, behaviour.service_accounts).ok()?;
            Some(body)
        }
        Rule::Health => Some(Value::Bool(health::health(object, behaviour).state == HealthState::Healthy)),
        Rule::Dependencies => {
            Some(dependencies::dependencies(object, behaviour).iter().map(Dependency::to_reference).collect())
        }
        Rule::Components | Rule::StatusReflection | Rule::StatusAggregation => None,
    }
}
