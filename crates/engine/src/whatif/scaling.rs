//! Changes the number of replicas of workloads.

use std::sync::Arc;

use serde_json::Value;

use super::ReplicaChange;
use crate::replicas::{read_replicas, replicas_field};
use federate_kubernetes::{Object, ObjectRef, finding};
use federate_repo::Repo;

/// A workload by kind and name and, if given, by namespace. The kind is case-insensitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadRef {
    /// Its kind.
    pub kind: String,
    /// Its namespace; `None` for any namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl WorkloadRef {
    fn matches_object(&self, object: &ObjectRef) -> bool {
        object.kind.eq_ignore_ascii_case(&self.kind)
            && object.name == self.name
            && self.namespace.as_ref().is_none_or(|namespace| object.namespace.as_ref() == Some(namespace))
    }
}

impl std::fmt::Display for WorkloadRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// The replicas of a workload that can have another number; `None` for other objects.
fn scalable_replicas(object: &Object) -> Option<i64> {
    read_replicas(&object.id, &object.body)
        .filter(|_| object.id.kind != "Pod" && object.value_at(&["spec"]).is_some())
}

/// Changes the replicas of a template. Returns the template.
pub(super) fn scale_workload(
    repo: &mut Repo,
    workload: &WorkloadRef,
    amount: ReplicaChange,
) -> Result<ObjectRef, String> {
    let matching: Vec<usize> = (0..repo.templates.len())
        .filter(|at| {
            repo.templates.get(*at).is_some_and(|template| workload.matches_object(&template.object.id))
        })
        .collect();
    let [at] = matching.as_slice() else {
        let names: Vec<String> =
            matching.iter().filter_map(|at| Some(repo.templates.get(*at)?.object.id.to_string())).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return Err(match names.as_slice() {
            [] => format!("the repo has no template `{workload}`; write KIND/NAMESPACE/NAME"),
            _ => format!("`{workload}` matches several templates: {}", finding::join_names(&names, 5)),
        });
    };
    let Some(template) = repo.templates.get_mut(*at) else { return Err(format!("no template `{workload}`")) };
    let Some(before) = scalable_replicas(&template.object) else {
        return Err(format!("{} cannot be scaled: it has no `spec.replicas`", template.object.id));
    };
    set_replicas(&mut template.object, amount.apply_to(before));
    for body in template.per_cluster.iter_mut().flat_map(|bodies| bodies.values_mut()) {
        if let Some(before) = scalable_replicas(body) {
            set_replicas(Arc::make_mut(body), amount.apply_to(before));
        }
    }
    Ok(template.object.id.clone())
}

fn set_replicas(object: &mut Object, replicas: i64) {
    let Some(field) = replicas_field(&object.id) else { return };
    if let Some(spec) = object.body.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert(field.to_owned(), replicas.into());
    }
}
