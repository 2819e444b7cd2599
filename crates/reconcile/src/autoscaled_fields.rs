//! Fields that an autoscaler owns after the object is created: federate sets them once, and then keeps their live
//! values.
//!
//! Facts: autoscalers write `spec.replicas` through the subresource `scale`; so does `kubectl scale`, which
//! a user runs. The components of a `VerticalPodAutoscaler` change pods and not templates, but `resources` that other
//! controllers write on its behalf are kept as well. A field that an apply omits gets its default
//! unless another manager owns it by then.

use serde_json::Value;

use super::blame::Blame;
use super::ownership::managed_field_entries;
use federate_engine::autoscalers::Autoscalers;
use federate_kubernetes::ObjectRef;

/// The subresource through which replicas are written.
pub(super) const SCALE_SUBRESOURCE: &str = "scale";
const REPLICAS: &str = "/spec/replicas";
const CONTAINERS: &str = "/spec/template/spec/containers";

/// Whether an autoscaler may own fields of a live object.
pub(super) fn may_be_scaled(autoscalers: &Autoscalers, id: &ObjectRef, live: &Value) -> bool {
    autoscalers.has_target(id)
        || managed_field_entries(live)
            .any(|entry| entry.get("subresource").is_some_and(|name| name == SCALE_SUBRESOURCE))
}

/// Keeps the live values of the fields that autoscalers own in a body that is about to be applied. Returns a note
/// about a field whose live value is not the rendered one.
pub(super) fn keep_scaled(
    autoscalers: &Autoscalers,
    id: &ObjectRef,
    live: &Value,
    body: &mut Value,
) -> Option<String> {
    if body.pointer(REPLICAS).is_none() && body.pointer(CONTAINERS).is_none() {
        return None;
    }
    let blame = Blame::from_live(live);
    let scaled = autoscalers.scaler_of(id).map(str::to_owned).or_else(|| find_scaler(&blame));
    let replicas = scaled.and_then(|who| keep_replicas(live, body, &blame, &who));
    replicas.or(autoscalers.sizer_of(id).and_then(|who| keep_resources(live, body, &blame, who)))
}

/// The controller that has scaled the object.
fn find_scaler(blame: &Blame) -> Option<String> {
    let owners = blame.field_owners(REPLICAS);
    let scaler = owners.iter().find(|owner| {
        owner.subresource.as_deref() == Some(SCALE_SUBRESOURCE) && !owner.manager.starts_with("kubectl")
    })?;
    Some(format!("{} (which scales it)", scaler.manager))
}

fn keep_replicas(live: &Value, body: &mut Value, blame: &Blame, who: &str) -> Option<String> {
    let rendered = body.pointer(REPLICAS)?.clone();
    let runs = live.pointer(REPLICAS)?.clone();
    let spec = body.get_mut("spec").and_then(Value::as_object_mut)?;
    if blame.is_shared(REPLICAS) {
        spec.shift_remove("replicas");
    } else {
        // No other manager owns it yet: if it were omitted, it would get its default.
        spec.insert("replicas".to_owned(), runs.clone());
    }
    (rendered != runs).then(|| {
        format!(
            "{who} decides about {REPLICAS}, which stays {runs}; remove {REPLICAS} from the template to hand it \
             over for good"
        )
    })
}

/// Keeps amounts that another controller has set.
fn keep_resources(live: &Value, body: &mut Value, blame: &Blame, who: &str) -> Option<String> {
    let mut left = None;
    let runs = live.pointer(CONTAINERS)?.as_array()?;
    for container in body.pointer_mut(CONTAINERS)?.as_array_mut()? {
        let name = container.get("name")?.as_str()?.to_owned();
        let Some(running) = runs.iter().find(|c| c.get("name").is_some_and(|n| *n == *name)) else {
            continue;
        };
        for list in ["requests", "limits"] {
            let amounts = container.pointer_mut(&format!("/resources/{list}"));
            for (resource, amount) in amounts.and_then(Value::as_object_mut).into_iter().flatten() {
                let path = format!("{CONTAINERS}[name={name}]/resources/{list}/{resource}");
                let Some(other) = running.pointer(&format!("/resources/{list}/{resource}")) else { continue };
                if other != amount && blame.is_controlled_by_others(&path) {
                    *amount = other.clone();
                    left = Some(format!("{who} decides about {path}, which stays {other}"));
                }
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(api_version: &str, kind: &str, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: Some("shop".into()),
            name: name.into(),
        }
    }

    #[test]
    fn keda_scales_deployments_by_default() {
        let scaler = id("keda.sh/v1alpha1", "ScaledObject", "s");
        let body = json!({"spec": {"scaleTargetRef": {"name": "web"}}});
        let all = Autoscalers::from_objects([(&scaler, &body)].into_iter());
        let live = json!({"spec": {"replicas": 5}});
        let mut sent = json!({"spec": {"replicas": 2}});
        let note = keep_scaled(&all, &id("apps/v1", "Deployment", "web"), &live, &mut sent).unwrap();
        assert!(note.starts_with("ScaledObject s decides about /spec/replicas, which stays 5"), "{note}");
        assert_eq!(sent, live, "no other manager owns it");
        let mut sent = json!({"spec": {"replicas": 2}});
        assert_eq!(keep_scaled(&all, &id("apps/v1", "StatefulSet", "web"), &live, &mut sent), None);
        assert_eq!(sent["spec"]["replicas"], 2);
    }

    #[test]
    fn amounts_that_others_set_under_a_vertical_autoscaler_stay() {
        let scaler = id("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "v");
        let body =
            json!({"spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        let all = Autoscalers::from_objects([(&scaler, &body)].into_iter());
        let with = |cpu: &str| {
            json!({"spec": {"template": {"spec": {"containers": [
            {"name": "web", "resources": {"requests": {"cpu": cpu}}}]}}}})
        };
        let owned = |manager: &str, operation: &str| {
            let mut live = with("2");
            live["metadata"]["managedFields"] = json!([{"manager": manager, "operation": operation,
                "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:template": {"f:spec":
                {"f:containers": {"k:{\"name\":\"web\"}": {"f:resources": {"f:requests": {"f:cpu": {}}}}}}}}}}]);
            live
        };
        let web = id("apps/v1", "Deployment", "web");
        let mut sent = with("1");
        assert!(keep_scaled(&all, &web, &owned("vpa-updater", "Update"), &mut sent).is_some());
        assert_eq!(sent, with("2"));
        for (manager, operation) in [("federate", "Apply"), ("kubectl-edit", "Update")] {
            let mut sent = with("1");
            assert_eq!(keep_scaled(&all, &web, &owned(manager, operation), &mut sent), None);
            assert_eq!(sent, with("1"), "{manager}");
        }
    }
}
