//! Third-party kinds that Karmada interprets out of the box: replicas and requirements.
//!
//! Facts: the behaviour of the interpreters shipped with Karmada for Kruise, Argo Workflows, Ray,
//! Kubeflow and Flink.

use std::collections::BTreeMap;

use serde_json::Value;

use super::builtin_workload::BuiltInFailure;
use super::version::{FlinkReplicas, KarmadaBehaviour};
use super::workload::{Requirements, Workload};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Object, object, pods};

/// Interprets an object of a third-party kind; `None` for unknown kinds and those without replicas. The error
/// is why the interpreter fails.
pub(super) fn interpret_thirdparty(
    object: &Object,
    behaviour: &KarmadaBehaviour,
) -> Result<Option<Workload>, BuiltInFailure> {
    let workload = match (object.id.api_version.as_str(), object.id.kind.as_str()) {
        ("apps.kruise.io/v1alpha1", "CloneSet" | "UnitedDeployment")
        | ("apps.kruise.io/v1beta1", "StatefulSet") => {
            let requirements = read_pod(object)?;
            let replicas = read_count(object, "replicas")?.ok_or_else(|| {
                BuiltInFailure::wrong_type("`spec.replicas` is missing, and it has no default")
            })?;
            Workload { replicas, requirements }
        }
        ("apps.kruise.io/v1alpha1", "BroadcastJob") => Workload {
            replicas: read_count(object, "parallelism")?.unwrap_or(1),
            requirements: read_pod(object)?,
        },
        // It has no replicas of its own.
        ("apps.kruise.io/v1alpha1", "SidecarSet") => Workload::default(),
        ("argoproj.io/v1alpha1", "Workflow") => Workload {
            replicas: read_count(object, "parallelism")?.unwrap_or(1),
            requirements: object.value_at(&["spec"]).and_then(node_claim),
        },
        ("ray.io/v1", "RayService") => ray_service(object),
        ("kubeflow.org/v1", "Notebook") => Workload { replicas: 1, requirements: read_pod(object)? },
        ("flink.apache.org/v1beta1", "FlinkDeployment") => {
            let flink = interpret_flink(object);
            match behaviour.flink_replicas {
                FlinkReplicas::WithDefaults => flink,
                FlinkReplicas::OfWhole => whole_flink(object, behaviour, flink)?,
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(workload))
}

/// The requirements of the pod template, which must be there.
fn read_pod(object: &Object) -> Result<Option<Requirements>, BuiltInFailure> {
    let template = object.value_at(&["spec", "template"]).filter(|template| template.is_object());
    let template = template.ok_or_else(|| BuiltInFailure::runtime_error("`spec.template` is missing"))?;
    Ok(template.get("spec").and_then(Requirements::from_pod))
}

/// A number of replicas as scripts return it: cut to an integer.
fn read_count(object: &Object, field: &str) -> Result<Option<i64>, BuiltInFailure> {
    let Some(value) = object.value_at(&["spec", field]).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = value.as_f64();
    let number =
        number.ok_or_else(|| BuiltInFailure::wrong_type(format!("`spec.{field}` is not a number")))?;
    let fits = number > f64::from(i32::MIN) - 1.0 && number < f64::from(i32::MAX) + 1.0;
    #[expect(clippy::cast_possible_truncation, reason = "it fits")]
    Ok(Some(if fits { number.trunc() as i64 } else { i64::from(i32::MIN) }))
}

/// Requirements without requests: only the node claim of a pod spec.
fn node_claim(spec: &Value) -> Option<Requirements> {
    pods::claims_nodes(spec).then(Requirements::default)
}

/// One head and all workers. Without a template of the head it is no workload. Without requirements of the head there
/// are none; otherwise cpu and memory are those of the largest template.
fn ray_service(object: &Object) -> Workload {
    let cluster = object.value_at(&["spec", "rayClusterConfig"]).unwrap_or(&Value::Null);
    if object::value_at(cluster, &["headGroupSpec", "template"]).is_none_or(Value::is_null) {
        return Workload::default();
    }
    let groups = cluster.get("workerGroupSpecs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let workers: i64 = groups.iter().filter_map(|g| g.get("replicas")?.as_i64()).sum();
    let head = object::value_at(cluster, &["headGroupSpec", "template", "spec"]);
    let mut requirements = head.and_then(Requirements::from_pod);
    if let Some(Requirements { requests }) = &mut requirements {
        for worker in groups.iter().filter_map(|g| object::value_at(g, &["template", "spec"])) {
            for (name, amount) in pods::compute_requests(worker) {
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
fn interpret_flink(object: &Object) -> Workload {
    let slots = object.value_at(&["spec", "flinkConfiguration", "taskmanager.numberOfTaskSlots"]);
    let slots = slots.and_then(|v| v.as_i64().or_else(|| v.as_str()?.parse().ok())).filter(|s| *s != 0);
    let parallelism = integer_at(object, &["spec", "job", "parallelism"]);
    let by_slots = parallelism.zip(slots).map(|(parallelism, slots)| (parallelism + slots - 1) / slots);
    let task_managers = integer_at(object, &["spec", "taskManager", "replicas"]).or(by_slots).unwrap_or(1);
    let job_managers = integer_at(object, &["spec", "jobManager", "replicas"]).unwrap_or(1);
    let mut requests = BTreeMap::new();
    for resource in ["cpu", "memory"] {
        let amounts = ["taskManager", "jobManager"].into_iter().filter_map(|manager| {
            Quantity::from_json(object.value_at(&["spec", manager, "resource", resource])?)
        });
        let most = amounts.max();
        if let Some(most) = most.filter(|amount| amount.value() > 0) {
            requests.insert(resource.to_owned(), most);
        }
    }
    Workload { replicas: job_managers + task_managers, requirements: Some(Requirements { requests }) }
}

fn integer_at(object: &Object, path: &[&str]) -> Option<i64> {
    object.value_at(path)?.as_i64()
}

/// The same in old releases: the script fails on missing fields, and compares amounts that are both strings
/// letter by letter.
fn whole_flink(
    object: &Object,
    behaviour: &KarmadaBehaviour,
    mut flink: Workload,
) -> Result<Workload, BuiltInFailure> {
    const REQUIRED_FIELDS: [&[&str]; 6] = [
        &["spec", "job"],
        &["spec", "flinkConfiguration"],
        &["spec", "jobManager", "resource", "cpu"],
        &["spec", "jobManager", "resource", "memory"],
        &["spec", "taskManager", "resource", "cpu"],
        &["spec", "taskManager", "resource", "memory"],
    ];
    if let Some(missing) =
        REQUIRED_FIELDS.iter().find(|path| object.value_at(path).is_none_or(Value::is_null))
    {
        let missing = missing.join(".");
        let why =
            format!("that of FlinkDeployment in Karmada {} fails without `{missing}`", behaviour.release);
        return Err(BuiltInFailure::runtime_error(why));
    }
    for resource in ["cpu", "memory"] {
        let [of_task, of_job] = ["taskManager", "jobManager"]
            .map(|manager| object.value_at(&["spec", manager, "resource", resource])?.as_str());
        let larger = of_task.zip(of_job).map(|(one, other)| one.max(other));
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

    fn of(release: &str, kind: (&str, &str), spec: &Value) -> Result<Option<Workload>, BuiltInFailure> {
        let object = Object::from_path(kind.0, kind.1, "a/x", json!({"spec": spec}));
        interpret_thirdparty(
            &object,
            &KarmadaBehaviour::for_release(RELEASES.parse_release(release).unwrap()),
        )
    }

    #[test]
    fn parts_of_a_flink_deployment_were_required() {
        const FLINK: (&str, &str) = ("flink.apache.org/v1beta1", "FlinkDeployment");
        let spec = json!({"taskManager": {"replicas": 2}});
        assert!(of("1.17", FLINK, &spec).is_ok_and(|found| found.is_some_and(|w| w.replicas == 3)));
        let why = of("1.16", FLINK, &spec).unwrap_err().why;
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
