//! Objects that are never placed although their kind is a template's: hooks that a tool runs at another time than when it
//! applies, and objects that are marked as local.
//!
//! Facts: a kustomize build drops objects whose annotation
//! `config.kubernetes.io/local-config` has any value but `false`.

use std::collections::BTreeMap;

use federate_kubernetes::hooks::{Hook, HookTime};
use federate_kubernetes::{Finding, Object, ObjectRef, Origin, Severity, finding};

/// kustomize's annotation of objects that are not for a cluster.
const LOCAL_CONFIG: &str = "config.kubernetes.io/local-config";

/// How many objects a finding names.
const MAX_NAMED_OBJECTS: usize = 100;

/// What keeps an object from being an ordinary template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// It is marked as local.
    Local,
    /// It is a hook that is not placed, of this type.
    HookNeverPlaced(String),
    /// It is a hook that is placed like any object, of this type.
    HookPlaced(String),
}

impl Exclusion {
    /// The exclusion of an object, if there is one.
    pub(crate) fn from_object(object: &Object) -> Option<Self> {
        if object.annotation(LOCAL_CONFIG).is_some_and(|value| value != "false") {
            return Some(Self::Local);
        }
        let hook = Hook::from_body(&object.body)?;
        Some(match hook.time {
            HookTime::Never => Self::HookNeverPlaced(hook.types),
            _ => Self::HookPlaced(hook.types),
        })
    }

    /// Whether the object is placed nowhere.
    pub fn is_never_placed(&self) -> bool {
        !matches!(self, Self::HookPlaced(_))
    }
}

/// An object that is excluded.
#[derive(Clone, Debug)]
pub struct ExcludedObject {
    /// Its identity.
    pub id: ObjectRef,
    pub(crate) origin: Origin,
    pub(crate) exclusion: Exclusion,
}

impl ExcludedObject {
    /// Whether the object is placed nowhere.
    pub fn is_never_placed(&self) -> bool {
        self.exclusion.is_never_placed()
    }

    pub(crate) fn new(object: &Object, exclusion: Exclusion) -> Self {
        Self { id: object.id.clone(), origin: object.origin.clone(), exclusion }
    }
}

/// One finding about all hooks that are left out, and one about those that are placed.
pub(crate) fn report_hooks(excluded: &[ExcludedObject]) -> Vec<Finding> {
    let mut by_treatment: BTreeMap<bool, Vec<&ExcludedObject>> = BTreeMap::new();
    for object in excluded.iter().filter(|object| object.exclusion != Exclusion::Local) {
        by_treatment.entry(object.exclusion.is_never_placed()).or_default().push(object);
    }
    by_treatment.into_iter().filter_map(|(never, objects)| report_treatment(never, objects)).collect()
}

fn report_treatment(never: bool, mut objects: Vec<&ExcludedObject>) -> Option<Finding> {
    objects.sort_by(|a, b| a.origin.cmp(&b.origin));
    let first = objects.first()?;
    let names: Vec<String> = objects
        .iter()
        .map(|object| match &object.exclusion {
            Exclusion::HookNeverPlaced(types) | Exclusion::HookPlaced(types) => {
                format!("{} ({types})", object.id)
            }
            Exclusion::Local => object.id.to_string(),
        })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let listed = finding::join_names(&names, MAX_NAMED_OBJECTS);
    let is_one = objects.len() == 1;
    let (message, help) = if never {
        let subject =
            if is_one { "a hook that installs nothing is" } else { "hooks that install nothing are" };
        (
            format!("{subject} left out: {listed}"),
            "build without them (`helm template --no-hooks`), or remove the annotation from what is to be placed",
        )
    } else {
        let (subject, they) = if is_one { ("a hook is", "it runs") } else { ("hooks are", "they run") };
        (
            format!(
                "{subject} placed like any other object, so that {they} again only after a change: {listed}"
            ),
            "`apply` and `sync` to clusters run them before or after the other objects, and so does Argo CD if it reads the \
             output; for other readers, build without them (`hooks: drop` of the source in federate.yaml, or \
             `helm template --no-hooks`)",
        )
    };
    let finding =
        Finding::in_file(Severity::Warning, "hook", &first.origin.file, None, message).with_help(help);
    Some(Finding { origin: Some(first.origin.clone()), ..finding })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "callers make it in place")]
    fn exclusion(annotations: serde_json::Value) -> Option<Exclusion> {
        let metadata = json!({"name": "a", "annotations": annotations});
        Exclusion::from_object(&Object::from_manifest(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}),
            "a.yaml",
        ))
    }

    #[test]
    fn hooks_that_do_not_install_are_never_placed() {
        for (annotations, never) in [
            (json!({"helm.sh/hook": "test"}), Some(true)),
            (json!({"helm.sh/hook": "pre-delete, post-delete"}), Some(true)),
            (json!({"helm.sh/hook": "post-install,test"}), Some(false)),
            (json!({"helm.sh/hook": "pre-upgrade"}), Some(false)),
            (json!({"argocd.argoproj.io/hook": "PostDelete"}), Some(true)),
            (json!({"argocd.argoproj.io/hook": "Skip"}), Some(true)),
            (json!({"argocd.argoproj.io/hook": "PreSync", "helm.sh/hook": "test"}), Some(false)),
            (json!({"config.kubernetes.io/local-config": "true"}), Some(true)),
            (json!({"config.kubernetes.io/local-config": ""}), Some(true)),
            (json!({"config.kubernetes.io/local-config": "false"}), None),
            (json!({"helm.sh/resource-policy": "keep"}), None),
        ] {
            let found = exclusion(annotations.clone()).map(|one| one.is_never_placed());
            assert_eq!(found, never, "{annotations}");
        }
    }
}
