//! The order in which a cluster is changed: what others need comes first, what can get in the way of others
//! comes last, and deletions go the other way round.

use federate_kubernetes::ObjectRef;

/// When an object is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Namespaces and definitions of kinds.
    Ground,
    /// Everything else, by wave.
    Wave(u32),
    /// Webhooks and further API servers: what they need must run.
    Gates,
}

/// When an object is applied, by its wave.
pub(super) fn phase(object: &ObjectRef, wave: u32) -> Phase {
    match (object.group(), object.kind.as_str()) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => Phase::Ground,
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        )
        | ("apiregistration.k8s.io", "APIService") => Phase::Gates,
        _ => Phase::Wave(wave),
    }
}

/// Things by their phases, in order.
pub(super) fn phases<T>(things: impl Iterator<Item = (Phase, T)>) -> Vec<(Phase, Vec<T>)> {
    let mut sorted: std::collections::BTreeMap<Phase, Vec<T>> = Default::default();
    for (phase, thing) in things {
        sorted.entry(phase).or_default().push(thing);
    }
    sorted.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grounds_then_waves_then_gates() {
        let object = |api_version: &str, kind: &str| ObjectRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: "a".to_owned(),
        };
        let objects = [
            (object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"), 0),
            (object("apps/v1", "Deployment"), 7),
            (object("v1", "ConfigMap"), 2),
            (object("apiextensions.k8s.io/v1", "CustomResourceDefinition"), 9),
            (object("v1", "Namespace"), 9),
            (object("example.com/v1", "Namespace"), 2),
        ];
        let sorted = phases(objects.iter().map(|(object, wave)| (phase(object, *wave), object)));
        let kinds: Vec<Vec<&str>> =
            sorted.iter().map(|(_, objects)| objects.iter().map(|o| o.kind.as_str()).collect()).collect();
        assert_eq!(
            kinds,
            [
                vec!["CustomResourceDefinition", "Namespace"],
                vec!["ConfigMap", "Namespace"],
                vec!["Deployment"],
                vec!["MutatingWebhookConfiguration"],
            ]
        );
    }
}
