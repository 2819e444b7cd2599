//! Changes the number of replicas of workloads.

use std::sync::Arc;

use serde_json::Value;

use super::ReplicaChange;
use federate_dialect::Dialects;
use federate_engine::replicas::{read_replicas, replicas_field};
use federate_kubernetes::{Object, ObjectRef, finding};
use federate_repo::{ClaimedObject, Repo};

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

/// Changes the replicas of a template, or of what carries it. Returns the changed objects, and the template.
pub(super) fn scale_workload(
    dialects: Dialects,
    repo: &mut Repo,
    workload: &WorkloadRef,
    amount: ReplicaChange,
) -> Result<Vec<ObjectRef>, String> {
    let matching: Vec<usize> = (0..repo.templates.len())
        .filter(|at| {
            repo.templates.get(*at).is_some_and(|template| workload.matches_object(&template.object.id))
        })
        .collect();
    if matching.is_empty() {
        let scaled = scale_carried(dialects, &mut repo.claimed, workload, amount);
        if !scaled.is_empty() {
            return Ok(scaled);
        }
    }
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
    Ok(vec![template.object.id.clone()])
}

/// Changes the replicas of a workload in the objects of control planes that hold them. Returns these objects, and the
/// workload by the kind that the first one names.
fn scale_carried(
    dialects: Dialects,
    claimed: &mut [ClaimedObject],
    workload: &WorkloadRef,
    amount: ReplicaChange,
) -> Vec<ObjectRef> {
    let mut scaled = Vec::new();
    for ClaimedObject { dialect, object, .. } in claimed {
        let Some(dialect) = dialects.get(dialect) else { continue };
        let Some(carried) = dialect.kinds().find_carried_replicas(object) else { continue };
        let Some((parent, field)) = carried.pointer.rsplit_once('/') else { continue };
        let fields = object.body.pointer_mut(parent).and_then(Value::as_object_mut);
        let Some(fields) = fields.filter(|_| workload.matches_object(&carried.workload)) else { continue };
        let before = fields.get(field).and_then(Value::as_i64).unwrap_or(1);
        fields.insert(field.to_owned(), amount.apply_to(before).into());
        scaled.extend([object.id.clone(), carried.workload]);
    }
    scaled
}

/// The replicas that the template of an object asks for, or what carries it.
pub(super) fn stated_replicas(dialects: Dialects, repo: &Repo, object: &ObjectRef) -> Option<i64> {
    if let Some(template) = repo.find_template(object) {
        return read_replicas(object, &template.object.body);
    }
    let carried = repo.claimed.iter().find_map(|ClaimedObject { dialect, object: carrier, .. }| {
        let found = dialects.get(dialect)?.kinds().find_carried_replicas(carrier)?;
        (found.workload == *object).then(|| carrier.body.pointer(found.pointer).and_then(Value::as_i64))
    });
    carried.map(|stated| stated.unwrap_or(1))
}

fn set_replicas(object: &mut Object, replicas: i64) {
    let Some(field) = replicas_field(&object.id) else { return };
    if let Some(spec) = object.body.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert(field.to_owned(), replicas.into());
    }
}
