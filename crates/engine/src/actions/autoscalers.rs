//! Fields that an autoscaler owns after the object is created: federate sets them once, and then keeps their live
//! values.
//!
//! Facts: autoscalers write `spec.replicas` through the subresource `scale`; so does `kubectl scale`, which
//! a user runs. A `HorizontalPodAutoscaler` names its target in `spec.scaleTargetRef`, as does a `ScaledObject` of
//! KEDA, where the kind may be left out and is then `Deployment`. A `VerticalPodAutoscaler` names it in
//! `spec.targetRef`; its own components change pods and not templates, but `resources` that other
//! controllers write on its behalf are kept as well. A field that an apply omits gets its default
//! unless another manager owns it by then.

use std::collections::BTreeMap;

use serde_json::Value;

use super::blame::Blame;
use super::ownership::managed_field_entries;
use federate_apiserver_model::values::text_below;
use federate_kubernetes::ObjectRef;
use federate_repo::Repo;

/// The kinds of autoscalers in members: group and kind.
const AUTOSCALERS: [(&str, &str); 3] =
    [HORIZONTAL_POD_AUTOSCALER, KEDA_SCALED_OBJECT, VERTICAL_POD_AUTOSCALER];
const HORIZONTAL_POD_AUTOSCALER: (&str, &str) = ("autoscaling", "HorizontalPodAutoscaler");
const KEDA_SCALED_OBJECT: (&str, &str) = ("keda.sh", "ScaledObject");
const VERTICAL_POD_AUTOSCALER: (&str, &str) = ("autoscaling.k8s.io", "VerticalPodAutoscaler");

/// The subresource through which replicas are written.
pub(super) const SCALE_SUBRESOURCE: &str = "scale";
const REPLICAS: &str = "/spec/replicas";
const CONTAINERS: &str = "/spec/template/spec/containers";

/// The autoscalers of a cluster, live and rendered.
#[derive(Debug, Default)]
pub(crate) struct Autoscalers {
    /// By their targets.
    replicas: BTreeMap<Target, String>,
    resources: BTreeMap<Target, String>,
}

/// Group, kind, namespace and name of the object that an autoscaler scales.
type Target = (String, String, Option<String>, String);

impl Autoscalers {
    /// The autoscalers that members receive. Those of a control plane change its templates, before it divides replicas.
    pub(crate) fn of_repo(repo: &Repo) -> Self {
        Self::from_objects(repo.templates.iter().map(|template| (&template.object.id, &template.object.body)))
    }

    /// The autoscaler that decides about the replicas of an object.
    pub(crate) fn scaler_of(&self, id: &ObjectRef) -> Option<&str> {
        if self.replicas.is_empty() {
            return None;
        }
        self.replicas.get(&target_of(id)).map(String::as_str)
    }

    /// The autoscalers among some objects.
    pub(super) fn from_objects<'o>(objects: impl Iterator<Item = (&'o ObjectRef, &'o Value)>) -> Self {
        let mut all = Self::default();
        for (id, body) in objects {
            match (id.group(), id.kind.as_str()) {
                HORIZONTAL_POD_AUTOSCALER | KEDA_SCALED_OBJECT => {
                    let target = read_target(id, body, "scaleTargetRef");
                    all.replicas.extend(target.map(|target| (target, format!("{} {}", id.kind, id.name))));
                }
                VERTICAL_POD_AUTOSCALER => {
                    let off = body.pointer("/spec/updatePolicy/updateMode").is_some_and(|mode| mode == "Off");
                    let target = read_target(id, body, "targetRef").filter(|_| !off);
                    all.resources.extend(target.map(|target| (target, format!("{} {}", id.kind, id.name))));
                }
                _ => {}
            }
        }
        all
    }

    /// Whether objects of a kind may be autoscalers.
    pub(super) fn is_autoscaler(group: &str, kind: &str) -> bool {
        AUTOSCALERS.contains(&(group, kind))
    }

    /// Whether an autoscaler may own fields of a live object.
    pub(super) fn may_scale(&self, id: &ObjectRef, live: &Value) -> bool {
        self.has_target(id)
            || managed_field_entries(live)
                .any(|entry| entry.get("subresource").is_some_and(|name| name == SCALE_SUBRESOURCE))
    }

    /// Whether an autoscaler names an object as its target.
    pub(super) fn has_target(&self, id: &ObjectRef) -> bool {
        [&self.replicas, &self.resources]
            .into_iter()
            .any(|targets| !targets.is_empty() && targets.contains_key(&target_of(id)))
    }

    /// Keeps the live values of the fields that autoscalers own in a body that is about to be applied. Returns a note
    /// about a field whose live value is not the rendered one.
    pub(super) fn keep_scaled(&self, id: &ObjectRef, live: &Value, body: &mut Value) -> Option<String> {
        if body.pointer(REPLICAS).is_none() && body.pointer(CONTAINERS).is_none() {
            return None;
        }
        let blame = Blame::from_live(live);
        let target = target_of(id);
        let scaled = self.replicas.get(&target).cloned().or_else(|| find_scaler(&blame));
        let replicas = scaled.and_then(|who| keep_replicas(live, body, &blame, &who));
        let sized = self.resources.get(&target);
        replicas.or(sized.and_then(|who| keep_resources(live, body, &blame, who)))
    }
}

/// An object as the target of an autoscaler.
fn target_of(id: &ObjectRef) -> Target {
    (id.group().to_owned(), id.kind.clone(), id.namespace.clone(), id.name.clone())
}

/// The target of an autoscaler.
fn read_target(id: &ObjectRef, body: &Value, field: &str) -> Option<Target> {
    let target = body.get("spec")?.get(field)?;
    let name = target.get("name")?.as_str()?;
    let kind = match text_below(target, "kind") {
        "" => "Deployment",
        kind => kind,
    };
    let group = match text_below(target, "apiVersion") {
        "" => "apps",
        version => version.split_once('/').map_or("", |(group, _)| group),
    };
    Some((group.to_owned(), kind.to_owned(), id.namespace.clone(), name.to_owned()))
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
        let note = all.keep_scaled(&id("apps/v1", "Deployment", "web"), &live, &mut sent).unwrap();
        assert!(note.starts_with("ScaledObject s decides about /spec/replicas, which stays 5"), "{note}");
        assert_eq!(sent, live, "no other manager owns it");
        let mut sent = json!({"spec": {"replicas": 2}});
        assert_eq!(all.keep_scaled(&id("apps/v1", "StatefulSet", "web"), &live, &mut sent), None);
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
        assert!(all.keep_scaled(&web, &owned("vpa-updater", "Update"), &mut sent).is_some());
        assert_eq!(sent, with("2"));
        for (manager, operation) in [("federate", "Apply"), ("kubectl-edit", "Update")] {
            let mut sent = with("1");
            assert_eq!(all.keep_scaled(&web, &owned(manager, operation), &mut sent), None);
            assert_eq!(sent, with("1"), "{manager}");
        }
    }
}
