//! The order in which objects are applied: those that others need come first, those that can block others come last.
//! Deletions go in the reverse order.
//!
//! Facts: the token controller deletes a token Secret whose `ServiceAccount` does not exist; a pod is
//! refused whose `ServiceAccount` does not exist, and waits for the `ConfigMap`s, Secrets and claims that
//! it mounts; only pods that start after a Service get its environment variables.

use federate_kubernetes::ObjectRef;
use federate_kubernetes::hooks::HookTime;

/// The phase in which an object is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Namespaces and definitions of kinds.
    Prerequisites,
    /// Hooks that run before the other objects, by their weight, and within a weight by rank.
    EarlyHooks(i32, Rank),
    /// Everything else, by the wave of its control plane, and within a wave by rank.
    Wave(u32, Rank),
    /// Webhooks and aggregated API servers, whose Services must be ready.
    Webhooks,
    /// Hooks that run after the other objects.
    LateHooks(i32, Rank),
}

/// The rank of a kind: an object needs only objects of lower ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Classes, limits and accounts.
    Basis,
    /// Objects that pods mount, and roles.
    Content,
    /// Bindings of roles.
    Bindings,
    /// Services.
    Services,
    /// Workloads, custom resources, and everything else.
    Rest,
}

/// The phase of an object, by its wave, or by when it runs as a hook.
pub(super) fn assign_phase(object: &ObjectRef, wave: u32, hook: Option<HookTime>) -> Phase {
    match (object.group(), object.kind.as_str()) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            return Phase::Prerequisites;
        }
        _ => {}
    }
    match hook {
        Some(HookTime::Before(weight)) => return Phase::EarlyHooks(weight, assign_rank(object)),
        Some(HookTime::After(weight)) => return Phase::LateHooks(weight, assign_rank(object)),
        Some(HookTime::Within | HookTime::Never) | None => {}
    }
    match (object.group(), object.kind.as_str()) {
        _ if is_webhook(object) => Phase::Webhooks,
        ("apiregistration.k8s.io", "APIService") => Phase::Webhooks,
        _ => Phase::Wave(wave, assign_rank(object)),
    }
}

/// Whether an object configures admission webhooks.
pub(super) fn is_webhook(object: &ObjectRef) -> bool {
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
    object.group() == "admissionregistration.k8s.io" && kinds.contains(&object.kind.as_str())
}

fn assign_rank(object: &ObjectRef) -> Rank {
    match (object.group(), object.kind.as_str()) {
        ("", "ServiceAccount" | "LimitRange" | "ResourceQuota" | "PersistentVolume")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("storage.k8s.io", "StorageClass" | "CSIDriver")
        | ("node.k8s.io", "RuntimeClass")
        | ("networking.k8s.io", "IngressClass" | "NetworkPolicy") => Rank::Basis,
        ("", "Secret" | "ConfigMap" | "PersistentVolumeClaim")
        | ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => Rank::Content,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => Rank::Bindings,
        ("", "Service") => Rank::Services,
        _ => Rank::Rest,
    }
}

/// Groups things by their phases, in order.
pub(super) fn group_by_phase<T>(things: impl Iterator<Item = (Phase, T)>) -> Vec<(Phase, Vec<T>)> {
    let mut sorted: std::collections::BTreeMap<Phase, Vec<T>> = Default::default();
    for (phase, thing) in things {
        sorted.entry(phase).or_default().push(thing);
    }
    sorted.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(api_version: &str, kind: &str) -> ObjectRef {
        ObjectRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: "a".to_owned(),
        }
    }

    fn kinds(objects: &[(ObjectRef, u32)]) -> Vec<Vec<&str>> {
        let sorted =
            group_by_phase(objects.iter().map(|(object, wave)| (assign_phase(object, *wave, None), object)));
        sorted.iter().map(|(_, objects)| objects.iter().map(|o| o.kind.as_str()).collect()).collect()
    }

    #[test]
    fn grounds_then_waves_then_gates() {
        let objects = [
            (object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"), 0),
            (object("apps/v1", "Deployment"), 7),
            (object("v1", "ConfigMap"), 2),
            (object("apiextensions.k8s.io/v1", "CustomResourceDefinition"), 9),
            (object("v1", "Namespace"), 9),
            (object("example.com/v1", "Namespace"), 2),
        ];
        assert_eq!(
            kinds(&objects),
            [
                vec!["CustomResourceDefinition", "Namespace"],
                vec!["ConfigMap"],
                vec!["Namespace"],
                vec!["Deployment"],
                vec!["MutatingWebhookConfiguration"],
            ]
        );
    }

    #[test]
    fn hooks_run_before_and_after_the_others_by_their_weights() {
        let job = object("batch/v1", "Job");
        let phase_of = |object: &ObjectRef, hook: HookTime| assign_phase(object, 0, Some(hook));
        let mut phases = vec![
            phase_of(&job, HookTime::After(0)),
            phase_of(&job, HookTime::Before(1)),
            phase_of(&job, HookTime::Before(-1)),
            phase_of(&object("v1", "ConfigMap"), HookTime::Before(1)),
            assign_phase(&object("v1", "ServiceAccount"), 0, None),
            assign_phase(&object("apiregistration.k8s.io/v1", "APIService"), 0, None),
            phase_of(&object("apiextensions.k8s.io/v1", "CustomResourceDefinition"), HookTime::Before(9)),
        ];
        phases.sort();
        assert_eq!(
            phases,
            [
                Phase::Prerequisites,
                Phase::EarlyHooks(-1, Rank::Rest),
                Phase::EarlyHooks(1, Rank::Content),
                Phase::EarlyHooks(1, Rank::Rest),
                Phase::Wave(0, Rank::Basis),
                Phase::Webhooks,
                Phase::LateHooks(0, Rank::Rest),
            ]
        );
    }

    #[test]
    fn within_a_wave_the_objects_that_others_need_come_first() {
        let rbac = "rbac.authorization.k8s.io/v1";
        let objects = [
            (object("v1", "Pod"), 0),
            (object("v1", "Service"), 0),
            (object(rbac, "RoleBinding"), 0),
            (object(rbac, "Role"), 0),
            (object("v1", "PersistentVolumeClaim"), 0),
            (object("v1", "Secret"), 0),
            (object("v1", "ServiceAccount"), 0),
        ];
        assert_eq!(
            kinds(&objects),
            [
                vec!["ServiceAccount"],
                vec!["Role", "PersistentVolumeClaim", "Secret"],
                vec!["RoleBinding"],
                vec!["Service"],
                vec!["Pod"],
            ]
        );
    }
}
