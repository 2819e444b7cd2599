//! Annotations with which an object stays in its cluster when it is no longer rendered: federate's own, and those of the
//! tools whose output and manifests people bring along. They mean "never delete this", whoever deletes.
//!
//! Facts: Helm's `helm.sh/resource-policy` is compared without regard to case; Argo CD separates options by commas and
//! trims them, and asks before it deletes what `confirm` says; Flux reads its keys from labels, too, and excludes objects
//! that it does not reconcile from garbage collection; `cli-utils` (kpt, Config Sync) has two annotations with the same
//! meaning; kapp leaves objects with `noop` alone.

use federate_kubernetes::Object;

/// federate's own annotation.
const PRUNE_ANNOTATION: &str = "federate.dev/prune";

/// Where a key is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In annotations.
    Annotations,
    /// In annotations and labels.
    Metadata,
}

/// What a value means.
#[derive(Clone, Copy)]
enum KeepValue {
    /// This word keeps the object.
    Word(&'static str),
    /// One of these options, separated by commas, keeps the object.
    Options(&'static [&'static str]),
    /// Any value keeps the object.
    Any,
}

/// The keys that keep an object.
const KEEP_KEYS: [(&str, Place, KeepValue); 13] = [
    (PRUNE_ANNOTATION, Place::Annotations, KeepValue::Word("disabled")),
    ("helm.sh/resource-policy", Place::Annotations, KeepValue::Word("keep")),
    (
        "argocd.argoproj.io/sync-options",
        Place::Annotations,
        KeepValue::Options(&["Prune=false", "Delete=false", "Prune=confirm", "Delete=confirm"]),
    ),
    ("kustomize.toolkit.fluxcd.io/prune", Place::Metadata, KeepValue::Word("disabled")),
    ("kustomize.toolkit.fluxcd.io/reconcile", Place::Metadata, KeepValue::Word("disabled")),
    ("fluxcd.controlplane.io/prune", Place::Metadata, KeepValue::Word("disabled")),
    ("cli-utils.sigs.k8s.io/on-remove", Place::Annotations, KeepValue::Word("keep")),
    ("client.lifecycle.config.k8s.io/deletion", Place::Annotations, KeepValue::Word("detach")),
    ("kapp.k14s.io/delete-strategy", Place::Annotations, KeepValue::Word("orphan")),
    ("kapp.k14s.io/noop", Place::Annotations, KeepValue::Any),
    ("kluctl.io/skip-delete", Place::Annotations, KeepValue::Word("true")),
    ("harness.io/skipPruning", Place::Annotations, KeepValue::Word("true")),
    ("addon.open-cluster-management.io/deletion-orphan", Place::Annotations, KeepValue::Any),
];

/// The annotation or label that keeps an object, as `KEY` or `KEY: VALUE`.
pub(super) fn find_keep_annotation(object: &Object) -> Option<String> {
    KEEP_KEYS.iter().find_map(|(key, place, value)| {
        let found = object.annotation(key).map(|text| (text, "annotation"));
        let (text, what) = found.filter(|(text, _)| value.keeps_object(text)).or_else(|| {
            object.label(key).filter(|_| *place == Place::Metadata).map(|text| (text, "label"))
        })?;
        value.keeps_object(text).then(|| match value {
            // The name alone says it.
            KeepValue::Any => format!("{what} {key}"),
            _ if *key == PRUNE_ANNOTATION => format!("{what} {key}"),
            KeepValue::Word(word) => format!("{what} {key}: {word}"),
            KeepValue::Options(options) => {
                let given = text.split(',').map(str::trim).find(|given| options.contains(given));
                format!("{what} {key}: {}", given.unwrap_or_default())
            }
        })
    })
}

impl KeepValue {
    fn keeps_object(self, text: &str) -> bool {
        match self {
            Self::Word(word) => text.trim().eq_ignore_ascii_case(word),
            Self::Options(options) => text.split(',').any(|given| options.contains(&given.trim())),
            Self::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(field: &str, key: &str, value: &str) -> Option<String> {
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", field: {key: value}}});
        find_keep_annotation(&Object::from_manifest(body, "a.yaml"))
    }

    #[test]
    fn values_are_read_as_the_tools_read_them() {
        for (key, value) in [
            ("federate.dev/prune", "disabled"),
            ("helm.sh/resource-policy", " Keep "),
            ("argocd.argoproj.io/sync-options", "ServerSideApply=true, Prune=false"),
            ("argocd.argoproj.io/sync-options", "Delete=false"),
            ("argocd.argoproj.io/sync-options", "Prune=confirm"),
            ("kustomize.toolkit.fluxcd.io/prune", "Disabled"),
            ("kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
            ("cli-utils.sigs.k8s.io/on-remove", "keep"),
            ("client.lifecycle.config.k8s.io/deletion", "detach"),
            ("kapp.k14s.io/delete-strategy", "orphan"),
            ("kapp.k14s.io/noop", ""),
            ("kluctl.io/skip-delete", "true"),
        ] {
            let why = found("annotations", key, value).unwrap_or_default();
            assert!(why.starts_with(&format!("annotation {key}")), "{key}: {value}: {why}");
        }
        for (key, value) in [
            ("federate.dev/prune", "enabled"),
            ("helm.sh/resource-policy", "delete"),
            ("argocd.argoproj.io/sync-options", "PruneLast=true,Prune=true"),
            ("argocd.argoproj.io/sync-options", "SkipPrune=false"),
            ("kustomize.toolkit.fluxcd.io/prune", "enabled"),
            ("client.lifecycle.config.k8s.io/deletion", "delete"),
            ("kluctl.io/skip-delete", "false"),
        ] {
            assert_eq!(found("annotations", key, value), None, "{key}: {value}");
        }
    }

    #[test]
    fn only_flux_reads_labels() {
        let why = found("labels", "kustomize.toolkit.fluxcd.io/prune", "disabled");
        assert_eq!(why.as_deref(), Some("label kustomize.toolkit.fluxcd.io/prune: disabled"));
        assert_eq!(found("labels", "federate.dev/prune", "disabled"), None);
    }
}
