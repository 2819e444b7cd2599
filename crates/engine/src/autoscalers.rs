//! The autoscalers of a repo or of a cluster, and what they scale.
//!
//! Facts: a `HorizontalPodAutoscaler` names its target in `spec.scaleTargetRef`, as does a `ScaledObject` of KEDA, where the
//! kind may be left out and is then `Deployment`. A `VerticalPodAutoscaler` names it in `spec.targetRef`, and changes nothing
//! if its `updateMode` is `Off`.

use std::collections::BTreeMap;

use serde_json::Value;

use federate_apiserver_model::values::text_below;
use federate_kubernetes::ObjectRef;
use federate_repo::Repo;

/// The kinds of autoscalers in members: group and kind.
const AUTOSCALERS: [(&str, &str); 3] =
    [HORIZONTAL_POD_AUTOSCALER, KEDA_SCALED_OBJECT, VERTICAL_POD_AUTOSCALER];
const HORIZONTAL_POD_AUTOSCALER: (&str, &str) = ("autoscaling", "HorizontalPodAutoscaler");
const KEDA_SCALED_OBJECT: (&str, &str) = ("keda.sh", "ScaledObject");
const VERTICAL_POD_AUTOSCALER: (&str, &str) = ("autoscaling.k8s.io", "VerticalPodAutoscaler");

/// The autoscalers of a cluster, live and rendered.
#[derive(Debug, Default)]
pub struct Autoscalers {
    /// By their targets.
    replicas: BTreeMap<Target, String>,
    resources: BTreeMap<Target, String>,
}

/// Group, kind, namespace and name of the object that an autoscaler scales.
type Target = (String, String, Option<String>, String);

impl Autoscalers {
    /// The autoscalers that members receive. Those of a control plane change its templates, before it divides replicas.
    pub fn from_repo(repo: &Repo) -> Self {
        Self::from_objects(repo.templates.iter().map(|template| (&template.object.id, &template.object.body)))
    }

    /// The autoscaler that decides about the replicas of an object.
    pub fn scaler_of(&self, id: &ObjectRef) -> Option<&str> {
        if self.replicas.is_empty() {
            return None;
        }
        self.replicas.get(&target_of(id)).map(String::as_str)
    }

    /// The autoscalers among some objects.
    pub fn from_objects<'o>(objects: impl Iterator<Item = (&'o ObjectRef, &'o Value)>) -> Self {
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
    pub fn is_autoscaler(group: &str, kind: &str) -> bool {
        AUTOSCALERS.contains(&(group, kind))
    }

    /// Whether an autoscaler names an object as its target.
    pub fn has_target(&self, id: &ObjectRef) -> bool {
        [&self.replicas, &self.resources]
            .into_iter()
            .any(|targets| !targets.is_empty() && targets.contains_key(&target_of(id)))
    }

    /// The autoscaler that decides about the requests and limits of an object's containers.
    pub fn sizer_of(&self, id: &ObjectRef) -> Option<&str> {
        if self.resources.is_empty() {
            return None;
        }
        self.resources.get(&target_of(id)).map(String::as_str)
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
