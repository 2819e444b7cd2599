//! What the resource interpreter says of a template: replicas, pod requirements, how to write the
//! replicas for one cluster, and which other objects it needs.

use std::collections::BTreeMap;

use crate::k8s::Object;
use crate::k8s::quantity::Quantity;

/// A template as the scheduler sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Workload {
    /// Wanted replicas; 0 for what has none.
    pub replicas: i64,
    /// What one replica asks for; `None` when it asks for nothing and claims no nodes.
    pub requirements: Option<Requirements>,
}

impl Workload {
    /// Whether replicas are to be divided at all.
    pub(super) fn is_workload(&self) -> bool {
        self.replicas > 0 || self.requirements.is_some()
    }
}

/// What one replica asks for: positive requests only, by resource name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requirements {
    /// By resource name (`cpu`, `memory`, …).
    pub requests: BTreeMap<String, Quantity>,
}
/// stub
pub(super) fn workload(object: &Object) -> Workload {
    use serde_json::Value;
    let int = |p: &[&str]| object.at(p).and_then(Value::as_i64);
    let k = (object.id.api_version.as_str(), object.id.kind.as_str());
    let (replicas, pod) = match k {
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet") | ("apps.kruise.io/v1alpha1", "CloneSet") => (int(&["spec", "replicas"]).unwrap_or(1), object.at(&["spec", "template", "spec"])),
        ("batch/v1", "Job") => { let p = int(&["spec", "parallelism"]).unwrap_or(1); (p.min(int(&["spec", "completions"]).unwrap_or(p)), object.at(&["spec", "template", "spec"])) }
        ("v1", "Pod") => (1, object.at(&["spec"])),
        _ => return Workload::default(),
    };
    let mut requests: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut claim = false;
    if let Some(pod) = pod {
        claim = pod.get("nodeSelector").is_some() || pod.get("tolerations").is_some() || pod.get("affinity").is_some();
        let one = |c: &Value| { let mut m: BTreeMap<String, Quantity> = BTreeMap::new(); for key in ["limits", "requests"] { if let Some(r) = c.get("resources").and_then(|r| r.get(key)).and_then(Value::as_object) { for (n, q) in r { if let Some(q) = Quantity::from_json(q) { m.insert(n.clone(), q); } } } } m };
        for c in pod.get("containers").and_then(Value::as_array).into_iter().flatten() { for (n, q) in one(c) { let e = requests.entry(n).or_default(); *e = *e + q; } }
        for c in pod.get("initContainers").and_then(Value::as_array).into_iter().flatten() { for (n, q) in one(c) { let e = requests.entry(n).or_default(); *e = (*e).max(q); } }
    }
    requests.retain(|_, q| !q.is_zero());
    Workload { replicas, requirements: (claim || !requests.is_empty()).then_some(Requirements { requests }) }
}
