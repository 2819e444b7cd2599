//! Which changes of manifests can concern their replicas, by the paths that are changed.

use federate_kubernetes::ObjectRef;
use federate_kubernetes::patch::parse_pointer;

/// The fields of the spec that hold replicas, for the kinds of Kubernetes.
const REPLICA_FIELDS: [&str; 3] = ["replicas", "parallelism", "completions"];

/// What tells by its path whether a change of an object can concern its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaFields {
    /// They are in fields that are known.
    OfKubernetes,
    /// A script or a configuration may look for them anywhere in the spec.
    AnyInSpec,
}

impl ReplicaFields {
    /// Where objects of a kind have their replicas.
    pub fn for_kind(object: &ObjectRef) -> Self {
        if object.group().contains('.') { Self::AnyInSpec } else { Self::OfKubernetes }
    }

    /// Whether a change at a JSON pointer can concern the replicas: it names them or what they are in. With another identity,
    /// the object would be counted by other rules, and other overrides would apply.
    pub fn may_be_at(self, pointer: &str) -> bool {
        // What cannot be read fails, if it is read in another way here, too.
        let Ok(steps) = parse_pointer(pointer) else { return true };
        let mut steps = steps.iter().map(String::as_str).filter(|step| !step.is_empty());
        match (steps.next(), steps.next()) {
            (None | Some("apiVersion" | "kind"), _) | (Some("spec" | "metadata"), None) => true,
            (Some("spec"), Some(field)) => self == Self::AnyInSpec || REPLICA_FIELDS.contains(&field),
            (Some("metadata"), Some(field)) => matches!(field, "name" | "namespace"),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_what_replicas_are_in_concern_them() {
        for path in [
            "/spec/replicas",
            "#/spec/replicas",
            "/spec/completions",
            "/spec",
            "/spec/",
            "spec",
            "/",
            "",
            "/metadata",
            "/kind",
        ] {
            assert!(ReplicaFields::OfKubernetes.may_be_at(path), "{path}");
        }
        for path in
            ["/spec/template", "/spec/template/spec/replicas", "/metadata/labels/replicas", "/data/replicas"]
        {
            assert!(!ReplicaFields::OfKubernetes.may_be_at(path), "{path}");
        }
        assert!(ReplicaFields::AnyInSpec.may_be_at("/spec/taskManager"));
        assert!(!ReplicaFields::AnyInSpec.may_be_at("/metadata/labels"));
    }

    #[test]
    fn only_kinds_of_kubernetes_have_fields_that_are_known() {
        let fields = |api_version: &str| {
            let (kind, name) = ("Any".to_owned(), "a".to_owned());
            ReplicaFields::for_kind(&ObjectRef {
                api_version: api_version.to_owned(),
                kind,
                namespace: None,
                name,
            })
        };
        for known in ["v1", "apps/v1", "batch/v1"] {
            assert_eq!(fields(known), ReplicaFields::OfKubernetes, "{known}");
        }
        for other in ["flink.apache.org/v1beta1", "sparkoperator.k8s.io/v1beta2"] {
            assert_eq!(fields(other), ReplicaFields::AnyInSpec, "{other}");
        }
    }
}
