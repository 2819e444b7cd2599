//! Dependencies between the objects of a run: which objects must be deleted before others can be created, and which are
//! held back because others have failed.
//!
//! Facts: a `nodePort` and a `clusterIP` belong to one Service of a cluster; an API server refuses a second one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::cluster_state::ClusterState;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::{ObjectDecision, WriteRequest};

/// The objects that are deleted first, each with the object that is about to be applied and claims the same port or
/// address.
pub(super) fn find_blocking<'d>(
    state: &ClusterState,
    cluster: &ClusterName,
    decisions: &'d [ObjectDecision],
) -> BTreeMap<&'d ObjectRef, &'d ObjectRef> {
    let mut wanted = BTreeMap::new();
    for decision in decisions {
        if let Some(WriteRequest::Apply { body, .. }) = &decision.request {
            let object = &decision.action.object;
            wanted.extend(find_claims(object, body).into_iter().map(|claim| (claim, object)));
        }
    }
    decisions
        .iter()
        .filter_map(|decision| {
            let object = &decision.action.object;
            let deleted = matches!(decision.request, Some(WriteRequest::Delete { .. }));
            let live = find_live(state, cluster, object).filter(|_| deleted)?;
            let waiting = find_claims(object, live).iter().find_map(|claim| wanted.get(claim).copied())?;
            Some((object, waiting))
        })
        .collect()
}

/// The live object.
pub(super) fn find_live<'s>(
    state: &'s ClusterState,
    cluster: &ClusterName,
    id: &ObjectRef,
) -> Option<&'s Value> {
    let found = state.live.get(cluster, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
    found.map(|object| &object.body)
}

/// The ports and addresses that an object claims, which only one object of a cluster can hold.
fn find_claims(object: &ObjectRef, body: &Value) -> BTreeSet<String> {
    if (object.group(), object.kind.as_str()) != ("", "Service") {
        return BTreeSet::new();
    }
    let ports = body.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    let nodes = ports.filter_map(|port| {
        let number = port.get("nodePort")?.as_i64()?;
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
        Some(format!("{protocol} {number}"))
    });
    let address = body.pointer("/spec/clusterIP").and_then(Value::as_str);
    let address = address.filter(|address| !matches!(*address, "" | "None"));
    nodes.chain(address.map(str::to_owned)).collect()
}

/// The objects that could not be applied, with their live versions.
#[derive(Debug, Default)]
pub(super) struct FailedObjects<'d>(Vec<(ObjectRef, Option<&'d Value>)>);

impl<'d> FailedObjects<'d> {
    /// Those that failed, and those that were refused before anything was sent.
    pub(super) fn from_results<'f>(
        failed: impl Iterator<Item = &'f ObjectRef>,
        decisions: &'d [ObjectDecision],
        live: impl Fn(&ObjectRef) -> Option<&'d Value>,
    ) -> Self {
        let refused = decisions.iter().filter(|decision| decision.refused).map(|d| d.action.object.clone());
        let all: BTreeSet<ObjectRef> = failed.cloned().chain(refused).collect();
        Self(
            all.into_iter()
                .map(|object| {
                    let live = live(&object);
                    (object, live)
                })
                .collect(),
        )
    }

    /// The failed object that keeps another from being deleted, because it may be its successor, or still use it.
    /// That is any object in the same namespace, because Services and pods find one another by labels there;
    /// elsewhere, an object that mentions its name; and for cluster-scoped objects, any other cluster-scoped one.
    pub(super) fn find_dependent(&self, deleted: &ObjectRef) -> Option<&ObjectRef> {
        self.0
            .iter()
            .find(|(failed, live)| {
                failed.namespace == deleted.namespace
                    || live.is_some_and(|live| mentions_name(live, &deleted.name))
            })
            .map(|(object, _)| object)
    }

    /// The failed object that may keep the workloads of a namespace from working.
    pub(super) fn find_breaking(&self, namespace: &str) -> Option<&ObjectRef> {
        self.0
            .iter()
            .find(|(failed, _)| failed.namespace.as_deref().is_none_or(|own| own == namespace))
            .map(|(object, _)| object)
    }
}

/// Whether a name occurs anywhere in an object, alone or as a part of an address.
fn mentions_name(value: &Value, name: &str) -> bool {
    match value {
        Value::String(text) => {
            text == name
                || text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|part| part == name)
        }
        Value::Array(items) => items.iter().any(|item| mentions_name(item, name)),
        Value::Object(map) => map.values().any(|value| mentions_name(value, name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_service_claims_its_fixed_ports_and_address() {
        let service = json!({"spec": {"clusterIP": "10.0.0.1", "ports": [
            {"port": 80, "nodePort": 30080}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}, {"port": 1}]}});
        let claimed = find_claims(&id("Service", None, "a"), &service);
        assert_eq!(claimed, ["10.0.0.1", "TCP 30080", "UDP 30053"].map(str::to_owned).into());
        assert!(find_claims(&id("Service", None, "a"), &json!({"spec": {"clusterIP": "None"}})).is_empty());
        assert!(find_claims(&id("ConfigMap", None, "a"), &service).is_empty());
    }

    #[test]
    fn a_failure_keeps_only_what_may_depend_on_it() {
        let role = json!({"subjects": [{"name": "robot"}]});
        let failed = FailedObjects(vec![
            (id("Deployment", Some("shop"), "web"), None),
            (id("RoleBinding", Some("other"), "b"), Some(&role)),
        ]);
        let keeps = |namespace, name| failed.find_dependent(&id("ConfigMap", namespace, name)).is_some();
        assert!(keeps(Some("shop"), "a") && keeps(Some("third"), "robot"));
        assert!(!keeps(Some("third"), "a") && !keeps(None, "a"));
        assert!(failed.find_breaking("shop").is_some() && failed.find_breaking("third").is_none());
    }
}
