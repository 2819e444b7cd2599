//! Third-party kinds that Karmada interprets out of the box: replicas and requirements.
//!
//! Facts: the behaviour of the interpreters shipped with Karmada for Kruise, Argo Workflows, Ray,
//! Kubeflow and Flink.

use std::collections::BTreeMap;

use serde_json::Value;

use super::version::{Behaviour, FlinkReplicas};
use super::workload::{Requirements, Workload};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Object, object, pods};

/// Interprets an object of a third-party kind; `None` for unknown kinds and those without replicas. The error
/// is why the interpreter fails.
pub(super) fn workload(object: &Object, behaviour: &Behaviour) -> Result<Option<Workload>, String> {
    let integer = |field| object.at(&["spec", field]).and_then(Value::as_i64);
    let template = || object.at(&["spec", "template", "spec"]).and_then(Requirements::of_pod);
    let workload = match (object.id.api_version.as_str(), object.id.kind.as_str()) {
        ("apps.kruise.io/v1alpha1", "CloneSet" | "UnitedDeployment")
        | ("apps.kruise.io/v1beta1", "StatefulSet") => {
            Workload { replicas: integer("replicas").unwrap_or(0), requirements: template() }
        }
        ("apps.kruise.io/v1alpha1", "BroadcastJob") => {
            Workload { replicas: integer("parallelism").unwrap_or(1), requirements: template() }
        }
        ("argoproj.io/v1alpha1", "Workflow") => Workload {
            replicas: integer("parallelism").unwrap_or(1),
            requirements: object.at(&["spec"]).and_then(node_claim),
        },
        ("ray.io/v1", "RayService") => ray_service(object),
        ("kubeflow.org/v1", "Notebook") => Workload { replicas: 1, requirements: template() },
        ("flink.apache.org/v1beta1", "FlinkDeployment") => {
            let flink = flink(object);
            match behaviour.flink_replicas {
                FlinkReplicas::WithDefaults => flink,
                FlinkReplicas::OfWhole => whole_flink(object, behaviour, flink)?,
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(workload))
}

/// Requirements without requests: only the node claim of a pod spec.
fn node_claim(spec: &Value) -> Option<Requirements> {
    pods::claims_nodes(spec).then(Requirements::default)
}

/// One head and all workers. Without a template of the head it is no workload. Without requirements of the head there
/// are none; otherwise cpu and memory are those of the largest template.
fn ray_service(object: &Object) -> Workload {
    let cluster = object.at(&["spec", "rayClusterConfig"]).unwrap_or(&Value::Null);
    if object::at(cluster, &["headGroupSpec", "template"]).is_none_or(Value::is_null) {
        return Workload::default();
    }
    let groups = cluster.get("workerGroupSpecs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let workers: i64 = groups.iter().filter_map(|g| g.get("replicas")?.as_i64()).sum();
    let head = object::at(cluster, &["headGroupSpec", "template", "spec"]);
    let mut requirements = head.and_then(Requirements::of_pod);
    if let Some(Requirements { requests }) = &mut requirements {
        for worker in groups.iter().filter_map(|g| object::at(g, &["template", "spec"])) {
            for (name, amount) in pods::requests(worker) {
                if matches!(name.as_str(), "cpu" | "memory") {
                    let most = requests.entry(name).or_default();
                    *most = (*most).max(amount);
                }
            }
        }
    }
    Workload { replicas: 1 + workers, requirements }
}

/// Job managers and task managers, each of which may need the larger of both.
fn flink(object: &Object) -> Workload {
    let integer = |path: &[&str]| object.at(path).and_then(Value::as_i64);
    let slots = object.at(&["spec", "flinkConfiguration", "taskmanager.numberOfTaskSlots"]);
    let slots = slots.and_then(|v| v.as_i64().or_else(|| v.as_str()?.parse().ok())).filter(|s| *s != 0);
    let by_slots = || integer(&["spec", "job", "parallelism"]).zip(slots);
    let task_managers = integer(&["spec", "taskManager", "replicas"])
        .or_else(|| by_slots().map(|(parallelism, slots)| (parallelism + slots - 1) / slots))
        .unwrap_or(1);
    let job_managers = integer(&["spec", "jobManager", "replicas"]).unwrap_or(1);
    let mut requests = BTreeMap::new();
    for resource in ["cpu", "memory"] {
        let amount =
            |manager| object.at(&["spec", manager, "resource", resource]).and_then(Quantity::from_json);
        let most = amount("taskManager").into_iter().chain(amount("jobManager")).max();
        if let Some(most) = most.filter(|amount| amount.value() > 0) {
            requests.insert(resource.to_owned(), most);
        }
    }
    Workload { replicas: job_managers + task_managers, requirements: Some(Requirements { requests }) }
}

/// The same in old releases: the script fails on missing fields, and compares amounts that are both strings
/// letter by letter.
fn whole_flink(object: &Object, behaviour: &Behaviour, mut flink: Workload) -> Result<Workload, String> {
    const PARTS: [&[&str]; 6] = [
        &["spec", "job"],
        &["spec", "flinkConfiguration"],
        &["spec", "jobManager", "resource", "cpu"],
        &["spec", "jobManager", "resource", "memory"],
        &["spec", "taskManager", "resource", "cpu"],
        &["spec", "taskManager", "resource", "memory"],
    ];
    let given = |path: &[&str]| object.at(path).filter(|value| !value.is_null());
    if let Some(missing) = PARTS.iter().find(|path| given(path).is_none()) {
        return Err(format!(
            "the interpreter of FlinkDeployment in Karmada {} fails without `{}`",
            behaviour.release,
            missing.join(".")
        ));
    }
    for resource in ["cpu", "memory"] {
        let amount = |manager| given(&["spec", manager, "resource", resource]).and_then(Value::as_str);
        let larger = amount("taskManager").zip(amount("jobManager")).map(|(one, other)| one.max(other));
        let larger = larger.and_then(Quantity::parse).filter(|amount| amount.value() > 0);
        if let (Some(larger), Some(Requirements { requests })) = (larger, &mut flink.requirements) {
            requests.insert(resource.to_owned(), larger);
        }
    }
    Ok(flink)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::RELEASES;

    fn of(release: &str, kind: (&str, &str), spec: &Value) -> Result<Option<Workload>, String> {
        let object = Object::named(kind.0, kind.1, "a/x", json!({"spec": spec}));
        workload(&object, &Behaviour::of(RELEASES.read(release).unwrap()))
    }

    #[test]
    fn parts_of_a_flink_deployment_were_required() {
        const FLINK: (&str, &str) = ("flink.apache.org/v1beta1", "FlinkDeployment");
        let spec = json!({"taskManager": {"replicas": 2}});
        assert!(of("1.17", FLINK, &spec).is_ok_and(|found| found.is_some_and(|w| w.replicas == 3)));
        let why = of("1.16", FLINK, &spec).unwrap_err();
        assert!(why.contains("1.16.8 fails without `spec.job`"), "{why}");
        let amounts = |memory: &str| json!({"resource": {"cpu": 1, "memory": memory}});
        let spec = json!({"job": {}, "flinkConfiguration": {}, "jobManager": amounts("9Mi"), "taskManager": amounts("10Mi")});
        let memory = |release: &str| {
            let found = of(release, FLINK, &spec).unwrap().unwrap();
            found.requirements.unwrap().requests["memory"].value() >> 20
        };
        assert_eq!([memory("1.16"), memory("1.17")], [9, 10], "`9Mi` sorts after `10Mi`");
    }
}
