//! What the switch must know about each control plane: where its controllers run, how it is paused, and what it leaves on
//! the objects of members.
//!
//! Facts: the names of the default installations; KubeFed and KubeAdmiral delete objects in members with their federated
//! objects unless these are marked as orphans; Karmada does unless the policy preserves them; KubeFleet by the placement's
//! `deleteStrategy`.

use crate::Target;

/// A controller that is stopped: a Deployment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Controller {
    pub(super) namespace: &'static str,
    pub(super) deployment: &'static str,
}

/// What of a control plane a switch away from it concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldPlane {
    pub(super) title: &'static str,
    /// The controllers on the host of the control plane.
    pub(super) controllers: &'static [Controller],
    /// The agents in members, which are stopped as well.
    pub(super) agents: &'static [Controller],
    /// The labels of objects in members that only it reads.
    pub(super) labels: &'static [&'static str],
    /// The annotations.
    pub(super) annotations: &'static [&'static str],
    /// How its own objects are deleted so that those of the members stay.
    pub(super) deletion: &'static str,
}

/// What of a control plane a switch to it concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewPlane {
    /// How clusters are registered, as a command; `CLUSTER` stands for the name.
    pub(super) registration: &'static str,
    /// The merge patch of a policy with which it is paused and adopts, and that with which it is resumed.
    pub(super) pause: Option<PolicyPatches>,
    /// The scheduler, which is stopped while policies and templates are loaded together.
    pub(super) scheduler: Option<Controller>,
    /// What pauses it otherwise, in a sentence.
    pub(super) waits: &'static str,
    /// What makes it take over what runs, in a sentence.
    pub(super) adoption: &'static str,
}

/// Merge patches of policies.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyPatches {
    pub(super) pause: &'static str,
    pub(super) resume: &'static str,
}

/// What a switch away from a control plane concerns.
pub(super) fn describe_old_plane(dialect: &str) -> Option<OldPlane> {
    Some(match dialect {
        "kubefed" => OldPlane {
            title: "KubeFed",
            controllers: &[Controller {
                namespace: "kube-federation-system",
                deployment: "kubefed-controller-manager",
            }],
            agents: &[],
            labels: &["kubefed.io/managed"],
            annotations: &[],
            deletion: "annotate each federated object with `kubefed.io/orphan=true` before you delete it; otherwise KubeFed deletes \
                       the objects in the members, whatever `--cascade` says",
        },
        "kubeadmiral" => OldPlane {
            title: "KubeAdmiral",
            controllers: &[Controller {
                namespace: "kubeadmiral-system",
                deployment: "kubeadmiral-controller-manager",
            }],
            agents: &[],
            labels: &["kubeadmiral.io/managed"],
            annotations: &[
                "kubeadmiral.io/adopted",
                "kubeadmiral.io/propagated-annotation-keys",
                "kubeadmiral.io/propagated-label-keys",
                "kubeadmiral.io/source-generation",
            ],
            deletion: "annotate each federated object with `kubeadmiral.io/orphan=all` before you delete it",
        },
        "kubefleet" => OldPlane {
            title: "KubeFleet",
            controllers: &[Controller { namespace: "fleet-system", deployment: "hub-agent" }],
            agents: &[Controller { namespace: "fleet-system", deployment: "member-agent" }],
            labels: &[],
            annotations: &["kubernetes-fleet.io/spec-hash", "kubernetes-fleet.io/last-applied-configuration"],
            deletion: "set `spec.deleteStrategy.propagationPolicy: Abandon` in each placement before you delete it",
        },
        "karmada" => OldPlane {
            title: "Karmada",
            controllers: &[
                Controller { namespace: "karmada-system", deployment: "karmada-scheduler" },
                Controller { namespace: "karmada-system", deployment: "karmada-controller-manager" },
            ],
            agents: &[Controller { namespace: "karmada-system", deployment: "karmada-agent" }],
            labels: &["karmada.io/managed"],
            annotations: &[],
            deletion: "set `spec.preserveResourcesOnDeletion: true` in each policy before you delete it or its templates",
        },
        "ocm" => OldPlane {
            title: "Open Cluster Management",
            controllers: &[Controller {
                namespace: "open-cluster-management-hub",
                deployment: "cluster-manager-work-controller",
            }],
            agents: &[Controller {
                namespace: "open-cluster-management-agent",
                deployment: "klusterlet-work-agent",
            }],
            labels: &[],
            annotations: &[],
            deletion: "set `spec.deleteOption.propagationPolicy: Orphan` in each ManifestWork before you delete it",
        },
        _ => return None,
    })
}

/// What a switch to a control plane concerns; `None` without a control plane.
pub(super) fn describe_new_plane(target: Target) -> Option<NewPlane> {
    match target {
        Target::Karmada => Some(NewPlane {
            registration: "karmadactl join CLUSTER --kubeconfig \"$NEW_KUBECONFIG\" --cluster-context CLUSTER",
            pause: Some(PolicyPatches {
                pause: r#"{"spec":{"conflictResolution":"Overwrite","preserveResourcesOnDeletion":true,"suspension":{"dispatching":true}}}"#,
                resume: r#"{"spec":{"suspension":null}}"#,
            }),
            scheduler: Some(Controller { namespace: "karmada-system", deployment: "karmada-scheduler" }),
            waits: "`suspension.dispatching` lets Karmada schedule, and send nothing",
            adoption: "`conflictResolution: Overwrite` lets Karmada take over objects that exist, \
                       `preserveResourcesOnDeletion` is the way back: deleting a policy or a template leaves the members alone",
        }),
        Target::KubeFleet => Some(NewPlane {
            registration: "kubectl --context \"$NEW\" get membercluster CLUSTER # joined with the scripts of your installation",
            pause: Some(PolicyPatches {
                pause: r#"{"spec":{"strategy":{"type":"External","applyStrategy":{"whenToTakeOver":"Always"}}}}"#,
                resume: r#"{"spec":{"strategy":{"type":"RollingUpdate"}}}"#,
            }),
            scheduler: Some(Controller { namespace: "fleet-system", deployment: "hub-agent" }),
            waits: "the strategy `External` lets KubeFleet schedule, and send nothing without an update run",
            adoption: "`whenToTakeOver: Always` lets KubeFleet take over objects that exist",
        }),
        Target::KubeAdmiral => Some(NewPlane {
            registration: "kubectl --context \"$NEW\" get federatedcluster CLUSTER # created from the inventory and a kubeconfig Secret",
            pause: None,
            scheduler: None,
            waits: "templates whose policy does not exist are not propagated: the policies are applied in the step `take-over`",
            adoption: "the annotation `kubeadmiral.io/conflict-resolution: adopt` of a template lets KubeAdmiral take over objects \
                       that exist",
        }),
        Target::Plain => None,
    }
}
