//! Replaces objects with immutable changes: they are deleted and created again where that is allowed and loses no data.
//!
//! Facts: the template of a Job, the `roleRef` of a binding, the type of a Secret, the data of an immutable
//! `ConfigMap` or Secret, the claims and the selector of a `StatefulSet` cannot be changed. Pods of a `StatefulSet`
//! that is deleted with the policy `Orphan` run on, and the next one of their selector takes them over.

use serde_json::Value;

use super::settings::DecisionSettings;
use federate_apiserver_model::values::text_at;
use federate_apiserver_model::{ApiError, ResourceKind, apply_object};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::hooks::Hook;

/// The annotation with which (`enabled`) an object may be deleted and created again.
const REPLACE_ANNOTATION: &str = "federate.dev/replace";

/// Kinds that `--replace` replaces: their contents are rendered, or run on without them.
const REPLACED_KINDS: [&str; 6] =
    ["Job", "ConfigMap", "Secret", "RoleBinding", "ClusterRoleBinding", "StatefulSet"];

/// Kinds that hold data that cannot be restored.
const NEVER_REPLACED_KINDS: [&str; 4] =
    ["Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume"];

/// The object that is deleted before another takes its name.
#[derive(Clone, Debug)]
pub struct ReplacedObject {
    /// Its uid.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
    /// Whether its dependents are orphaned.
    pub orphans: bool,
}

/// What is done about an update that an API server would refuse.
pub(super) enum ReplacementDecision {
    /// The object is deleted and created again.
    Done {
        /// The object that is deleted.
        old: ReplacedObject,
        /// The object that is created.
        created: Value,
        /// What happens, for people.
        effect: String,
    },
    /// What would allow the replacement; empty where nothing does.
    Possible(String),
}

/// Decides whether an object is deleted and created again. `body` is the applied body.
pub(super) fn decide_replacement(
    object: &ObjectRef,
    known: &ResourceKind,
    live: &Value,
    body: &Value,
    settings: &DecisionSettings<'_>,
) -> ReplacementDecision {
    let kind = object.kind.as_str();
    let created: Result<Value, ApiError> = match apply_object(None, body, &settings.write_options(known)) {
        // The API server says whether it can be created.
        Err(_) if settings.dry_run.reaches_servers() => Ok(body.clone()),
        created => created,
    };
    // An object that cannot be created either is invalid.
    let (Ok(mut created), false) = (created, NEVER_REPLACED_KINDS.contains(&kind)) else {
        return ReplacementDecision::Possible(String::new());
    };
    keep_generated(live, &mut created);
    let pointer =
        format!("/metadata/annotations/{}", federate_kubernetes::pointer::escape(REPLACE_ANNOTATION));
    let is_annotated = [body, live].into_iter().any(|object| text_at(object, &pointer) == "enabled");
    let by_kind = REPLACED_KINDS.contains(&kind) && known.custom.is_none();
    // A hook runs again from the start.
    let is_hook = Hook::from_body(body).is_some_and(|hook| hook.is_replaced);
    if (settings.replace && by_kind) || is_annotated || is_hook {
        let replaced = ReplacedObject {
            uid: text_at(live, "/metadata/uid").to_owned(),
            resource_version: text_at(live, "/metadata/resourceVersion").to_owned(),
            orphans: kind == "StatefulSet",
        };
        let effect = format!("it is deleted and created again{}", describe_consequence(kind, live, &created));
        return ReplacementDecision::Done { old: replaced, created, effect };
    }
    let annotation = format!(
        "the annotation `{REPLACE_ANNOTATION}: enabled` allows federate to delete it and create it again{}",
        describe_consequence(kind, live, &created)
    );
    ReplacementDecision::Possible(if by_kind { format!("`--replace`, or {annotation}") } else { annotation })
}

/// Shows labels with the uid of a Job as they are: those of the new one are not known yet.
fn keep_generated(live: &Value, created: &mut Value) {
    for map in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        for key in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
            let value = live.pointer(map).and_then(|labels| labels.get(key));
            let labels = created.pointer_mut(map).and_then(Value::as_object_mut);
            if let (Some(value), Some(label)) = (value, labels.and_then(|labels| labels.get_mut(key))) {
                label.clone_from(value);
            }
        }
    }
}

/// What the replacement means for pods.
fn describe_consequence(kind: &str, live: &Value, created: &Value) -> String {
    match kind {
        "Job" => ", so that it runs again from the start".to_owned(),
        "StatefulSet" => match unmatched_pod_labels(live, created) {
            None => ", while its pods run on and belong to the new one".to_owned(),
            Some(labels) => format!(
                ", while its pods run on without an owner: delete them (`kubectl delete pods --selector {labels}`), because \
                 the new selector does not match them, and new pods cannot take their names"
            ),
        },
        _ => String::new(),
    }
}

/// The labels of the pods that the selector of a new `StatefulSet` does not match, if there are such pods.
fn unmatched_pod_labels(live: &Value, created: &Value) -> Option<String> {
    let old = live.pointer("/spec/selector/matchLabels")?.as_object()?;
    let labels = live.pointer("/spec/template/metadata/labels");
    let new = created.pointer("/spec/selector/matchLabels")?.as_object()?;
    if new.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value)) {
        return None;
    }
    let old = old.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    Some(old.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_happens_to_pods_is_said() {
        let set = |key: &str| json!({"spec": {"selector": {"matchLabels": {key: "db"}}, "template": {"metadata": {"labels": {key: "db"}}}}});
        assert_eq!(
            describe_consequence("StatefulSet", &set("app"), &set("app")),
            ", while its pods run on and belong to the new one"
        );
        let lost = describe_consequence("StatefulSet", &set("app"), &set("tier"));
        assert!(lost.contains("without an owner") && lost.contains("--selector app=db"), "{lost}");
        assert_eq!(
            describe_consequence("Job", &json!({}), &json!({})),
            ", so that it runs again from the start"
        );
        assert_eq!(describe_consequence("ConfigMap", &json!({}), &json!({})), "");
    }
}
