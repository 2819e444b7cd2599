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

/// The controllers of KubeAdmiral.
const KUBEADMIRAL_CONTROLLER: Controller =
    Controller { namespace: "kubeadmiral-system", deployment: "kubeadmiral-controller-manager" };

/// The controllers of KubeFleet on the hub.
const FLEET_CONTROLLER: Controller = Controller { namespace: "fleet-system", deployment: "hub-agent" };

/// The agent of KubeFleet in a member.
const FLEET_AGENT: Controller = Controller { namespace: "fleet-system", deployment: "member-agent" };

/// What of a control plane a switch away from it concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldPlane {
    pub(super) title: &'static str,
    /// The controllers on the host of the control plane.
    pub(super) controllers: &'static [Controller],
    /// The agents in members, which are stopped as well.
    pub(super) agents: &'static [Controller],
    /// The members that have agents, if not all have.
    pub(super) agents_run_in: &'static str,
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
    /// How it is paused while it is loaded, and adopts.
    pub(super) pause: Pause,
    /// The scheduler, which is stopped while policies and templates are loaded together.
    pub(super) scheduler: Controller,
    /// What is stopped on the way back, on the host and in members, where a pause does not suffice.
    pub(super) stopped: &'static [Controller],
    pub(super) stopped_agents: &'static [Controller],
    /// What pauses it otherwise, in a sentence.
    pub(super) waits: &'static str,
    /// What makes it take over what runs, in a sentence.
    pub(super) adoption: &'static str,
}

/// How a control plane is paused, so that it places objects and sends nothing, and how it is resumed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pause {
    /// By merge patches of its policies.
    Patches {
        /// The patch that pauses, and lets it adopt.
        pause: &'static str,
        /// The patch that resumes.
        resume: &'static str,
    },
    /// By annotations of templates.
    Annotations {
        /// Those that pause, and let it adopt.
        pause: &'static [&'static str],
        /// The one that is removed to resume.
        resume: &'static str,
    },
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
            agents_run_in: "",
            labels: &["kubefed.io/managed"],
            annotations: &[],
            deletion: "annotate each federated object with `kubefed.io/orphan=true` before you delete it; otherwise KubeFed deletes \
                       the objects in the members, whatever `--cascade` says",
        },
        "kubeadmiral" => OldPlane {
            title: "KubeAdmiral",
            controllers: &[KUBEADMIRAL_CONTROLLER],
            agents: &[],
            agents_run_in: "",
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
            controllers: &[FLEET_CONTROLLER],
            agents: &[FLEET_AGENT],
            agents_run_in: "",
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
            agents_run_in: "clusters whose `syncMode` is `Pull`",
            labels: &[
                "karmada.io/managed",
                "propagationpolicy.karmada.io/permanent-id",
                "clusterpropagationpolicy.karmada.io/permanent-id",
                "resourcebinding.karmada.io/permanent-id",
                "clusterresourcebinding.karmada.io/permanent-id",
                "work.karmada.io/permanent-id",
            ],
            annotations: &[
                "propagationpolicy.karmada.io/name",
                "propagationpolicy.karmada.io/namespace",
                "clusterpropagationpolicy.karmada.io/name",
                "resourcebinding.karmada.io/name",
                "resourcebinding.karmada.io/namespace",
                "clusterresourcebinding.karmada.io/name",
                "resourcetemplate.karmada.io/generation",
                "resourcetemplate.karmada.io/managed-annotations",
                "resourcetemplate.karmada.io/managed-labels",
                "resourcetemplate.karmada.io/uid",
                "work.karmada.io/conflict-resolution",
                "work.karmada.io/name",
                "work.karmada.io/namespace",
            ],
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
            agents_run_in: "",
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
            pause: Pause::Patches {
                pause: r#"{"spec":{"conflictResolution":"Overwrite","preserveResourcesOnDeletion":true,"suspension":{"dispatching":true}}}"#,
                resume: r#"{"spec":{"suspension":null}}"#,
            },
            scheduler: Controller { namespace: "karmada-system", deployment: "karmada-scheduler" },
            stopped: &[],
            stopped_agents: &[],
            waits: "`suspension.dispatching` lets Karmada schedule, and send nothing",
            adoption: "`conflictResolution: Overwrite` lets Karmada take over objects that exist, \
                       `preserveResourcesOnDeletion` is the way back: deleting a policy or a template leaves the members alone",
        }),
        Target::KubeFleet => Some(NewPlane {
            registration: "kubectl --context \"$NEW\" get membercluster CLUSTER # joined with the scripts of your installation",
            pause: Pause::Patches {
                pause: r#"{"spec":{"strategy":{"type":"External","rollingUpdate":null,"applyStrategy":{"whenToTakeOver":"Always"},"deleteStrategy":{"propagationPolicy":"Abandon"}}}}"#,
                resume: r#"{"spec":{"strategy":{"type":"RollingUpdate"}}}"#,
            },
            scheduler: FLEET_CONTROLLER,
            stopped: &[FLEET_CONTROLLER],
            stopped_agents: &[FLEET_AGENT],
            waits: "the strategy `External` lets KubeFleet schedule, and send nothing without an update run",
            adoption: "`whenToTakeOver: Always` lets KubeFleet take over objects that exist, `propagationPolicy: Abandon` is the way \
                       back: deleting a placement leaves the members alone",
        }),
        Target::KubeAdmiral => Some(NewPlane {
            registration: "kubectl --context \"$NEW\" get federatedcluster CLUSTER # created from the inventory and a kubeconfig Secret",
            pause: Pause::Annotations {
                pause: &[
                    "kubeadmiral.io/dry-run=true",
                    "kubeadmiral.io/conflict-resolution=adopt",
                    r#"kubeadmiral.io/clusters-to-adopt={"regexp":".*"}"#,
                    "kubeadmiral.io/orphan=all",
                ],
                resume: "kubeadmiral.io/dry-run",
            },
            scheduler: KUBEADMIRAL_CONTROLLER,
            stopped: &[KUBEADMIRAL_CONTROLLER],
            stopped_agents: &[],
            waits: "the annotation `kubeadmiral.io/dry-run` lets KubeAdmiral schedule objects that it has not sent yet, and send \
                    nothing",
            adoption: "`kubeadmiral.io/conflict-resolution: adopt` and `kubeadmiral.io/clusters-to-adopt` let KubeAdmiral take over \
                       objects that exist, `kubeadmiral.io/orphan` is the way back: deleting a federated object leaves the members alone",
        }),
        Target::Plain => None,
    }
}
