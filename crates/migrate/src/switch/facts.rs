//! What the switch must know about each control plane: where its controllers run, how it is paused, and what it leaves on
//! the objects of members.
//!
//! Facts: the names of the default installations; KubeFed and KubeAdmiral delete objects in members with their federated
//! objects unless these are marked as orphans; Karmada does unless the policy preserves them; KubeFleet by the placement's
//! `deleteStrategy`. Karmada sends namespaces without a policy, at once, and takes over those that exist by an annotation. Federation v1 copies the annotations of an object, with its own ones, to the members, and marks nothing.

use federate_repo::Role;
use federate_session::Session;

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
    /// The labels of objects in members that only it reads.
    pub(super) labels: &'static [&'static str],
    /// The annotations.
    pub(super) annotations: &'static [&'static str],
    /// How it is removed, with its controllers stopped at first, so that the objects of the members stay.
    pub(super) deletion: &'static str,
}

/// What of a control plane a switch to it concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewPlane {
    /// How clusters are registered, as a command; `CLUSTER` stands for the name, `CONTEXT` for its context.
    pub(super) registration: &'static str,
    /// The fields of an inventory object's `spec` that registration does not set.
    pub(super) inventory_fields: &'static [&'static str],
    /// Labels with which a namespace is created on its API server, so that no member receives it.
    pub(super) unpropagated_namespace: &'static [(&'static str, &'static str)],
    /// An annotation with which a namespace is created there for the same reason.
    pub(super) unpropagated_annotation: Option<(&'static str, &'static str)>,
    /// The annotation that lets it, with the value `overwrite`, take over a namespace that it sends without a policy.
    pub(super) adopted_namespace: Option<&'static str>,
    /// A label that all objects have that it has sent to members; empty if there is none.
    pub(super) label: &'static str,
    /// How it is paused while it is loaded, and adopts.
    pub(super) pause: Pause,
    /// The scheduler, which is stopped while policies and templates are loaded together.
    pub(super) scheduler: Option<Controller>,
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

/// What a switch away from the control planes of a repo concerns.
pub(super) fn describe_old_planes<'n>(
    names: impl IntoIterator<Item = &'n str>,
    old: &Session,
) -> Vec<OldPlane> {
    let mut planes = Vec::new();
    for name in names {
        let is_v1 = name == "kubefed" && uses_federation_v1(old);
        planes.extend(is_v1.then_some(FEDERATION_V1));
        if !is_v1 || uses_kubefed(old) {
            planes.extend(describe_old_plane(name));
        }
    }
    planes
}

/// Whether objects of a repo are those of Federation v1, which has no kinds of its own but its clusters.
fn uses_federation_v1(old: &Session) -> bool {
    let repo = old.repo();
    let mut annotations = repo
        .templates
        .iter()
        .flat_map(|template| FEDERATION_V1.annotations.iter().map(|key| template.object.annotation(key)));
    repo.claimed.iter().any(|claimed| claimed.object.id.group() == "federation")
        || annotations.any(|value| value.is_some())
}

/// Whether a repo has objects of `KubeFed` other than its clusters, which may stand in for those of Federation v1.
fn uses_kubefed(old: &Session) -> bool {
    let mut claimed = old.repo().claimed.iter();
    claimed.any(|claimed| claimed.dialect == "kubefed" && claimed.role != Role::Inventory)
}

const FEDERATION_V1: OldPlane = OldPlane {
    title: "Federation v1",
    controllers: &[Controller {
        namespace: "federation-system",
        deployment: "federation-controller-manager",
    }],
    agents: &[],
    labels: &[],
    annotations: &[
        "federation.alpha.kubernetes.io/cluster-selector",
        "federation.kubernetes.io/deployment-preferences",
        "federation.kubernetes.io/job-preferences",
        "federation.kubernetes.io/replica-set-preferences",
    ],
    deletion: "remove its API server with its etcd, and delete nothing on it: without controllers, that touches no member",
};

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
            deletion: "annotate each federated object with `kubefed.io/orphan=true` (otherwise KubeFed deletes the objects in the \
                       members, whatever `--cascade` says), delete them with `--wait=false`, and start the controllers, which \
                       finish the deletion",
        },
        "kubeadmiral" => OldPlane {
            title: "KubeAdmiral",
            controllers: &[KUBEADMIRAL_CONTROLLER],
            agents: &[],
            labels: &["kubeadmiral.io/managed"],
            annotations: &[
                "kubeadmiral.io/adopted",
                "kubeadmiral.io/propagated-annotation-keys",
                "kubeadmiral.io/propagated-label-keys",
                "kubeadmiral.io/source-generation",
            ],
            deletion: "annotate each FederatedObject and ClusterFederatedObject with `kubeadmiral.io/orphan=all`, delete the \
                       templates with `--wait=false`, but no Namespace (KubeAdmiral marks those itself, and deletes what it has not \
                       adopted in the members), and start the controllers, which finish the deletion",
        },
        "kubefleet" => OldPlane {
            title: "KubeFleet",
            controllers: &[FLEET_CONTROLLER],
            agents: &[FLEET_AGENT],
            labels: &[],
            annotations: &["kubernetes-fleet.io/spec-hash", "kubernetes-fleet.io/last-applied-configuration"],
            deletion: "set `spec.strategy.deleteStrategy.propagationPolicy: Abandon` in each placement, in the version `v1beta1` \
                       (others do not have the field, and drop it), look that it is there, delete the placements with `--wait=false`, and start the hub agent, then the member agents, which finish the deletion",
        },
        "karmada" => OldPlane {
            title: "Karmada",
            controllers: &[
                Controller { namespace: "karmada-system", deployment: "karmada-scheduler" },
                Controller { namespace: "karmada-system", deployment: "karmada-controller-manager" },
            ],
            agents: &[Controller { namespace: "karmada-system", deployment: "karmada-agent" }],
            labels: &[
                "karmada.io/managed",
                "clusterpropagationpolicy.karmada.io/permanent-id",
                "clusterresourcebinding.karmada.io/permanent-id",
                "propagationpolicy.karmada.io/permanent-id",
                "resourcebinding.karmada.io/permanent-id",
                "work.karmada.io/permanent-id",
            ],
            annotations: &[
                "clusterpropagationpolicy.karmada.io/name",
                "clusterresourcebinding.karmada.io/name",
                "propagationpolicy.karmada.io/name",
                "propagationpolicy.karmada.io/namespace",
                "resourcebinding.karmada.io/name",
                "resourcebinding.karmada.io/namespace",
                "resourcetemplate.karmada.io/generation",
                "resourcetemplate.karmada.io/managed-annotations",
                "resourcetemplate.karmada.io/managed-labels",
                "resourcetemplate.karmada.io/uid",
                "work.karmada.io/conflict-resolution",
                "work.karmada.io/name",
                "work.karmada.io/namespace",
            ],
            deletion: "remove its API server with its etcd, and delete nothing on it: without controllers, that touches no member. \
                       (Objects may be deleted on it only if `spec.preserveResourcesOnDeletion: true` has reached their Works \
                       before the controllers were stopped, and Namespaces never)",
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
            deletion: "set `spec.deleteOption.propagationPolicy: Orphan` in each ManifestWork, delete them with `--wait=false`, \
                       and start the agents, which finish the deletion",
        },
        _ => return None,
    })
}

/// What a switch to a control plane concerns; `None` without a control plane.
pub(super) fn describe_new_plane(target: Target) -> Option<NewPlane> {
    match target {
        Target::Karmada => Some(NewPlane {
            registration: "karmadactl join CLUSTER --karmada-context \"$NEW\" --cluster-context CONTEXT",
            inventory_fields: &["provider", "region", "taints", "zone", "zones"],
            unpropagated_namespace: &[("namespace.karmada.io/skip-auto-propagation", "true")],
            unpropagated_annotation: None,
            adopted_namespace: Some("work.karmada.io/conflict-resolution"),
            label: "karmada.io/managed",
            pause: Pause::Patches {
                pause: r#"{"spec":{"conflictResolution":"Overwrite","preserveResourcesOnDeletion":true,"suspension":{"dispatching":true,"dispatchingOnClusters":null}}}"#,
                resume: r#"{"spec":{"suspension":null}}"#,
            },
            scheduler: Some(Controller { namespace: "karmada-system", deployment: "karmada-scheduler" }),
            stopped: &[],
            stopped_agents: &[],
            waits: "`suspension.dispatching` lets Karmada schedule, and send nothing",
            adoption: "`conflictResolution: Overwrite` lets Karmada take over objects that exist, \
                       `preserveResourcesOnDeletion` is the way back: deleting a policy or a template leaves the members alone",
        }),
        Target::KubeFleet => Some(NewPlane {
            registration: "kubectl --context \"$NEW\" get membercluster CLUSTER # joined with the scripts of your installation",
            inventory_fields: &["taints"],
            unpropagated_namespace: &[],
            unpropagated_annotation: None,
            adopted_namespace: None,
            label: "",
            pause: Pause::Patches {
                pause: r#"{"spec":{"strategy":{"applyStrategy":{"type":"ReportDiff","whenToTakeOver":"Never"},"deleteStrategy":{"propagationPolicy":"Abandon"}}}}"#,
                resume: r#"{"spec":{"strategy":{"applyStrategy":{"type":"ClientSideApply","whenToTakeOver":"Always"}}}}"#,
            },
            scheduler: None,
            stopped: &[FLEET_CONTROLLER],
            stopped_agents: &[FLEET_AGENT],
            waits: "with the apply strategy `ReportDiff`, KubeFleet schedules, and its agents report differences and write nothing",
            adoption: "`whenToTakeOver: Always` lets KubeFleet take over objects that exist, which it does when it is resumed; \
                       `propagationPolicy: Abandon` is the way back: deleting a placement leaves the members alone",
        }),
        Target::KubeAdmiral => Some(NewPlane {
            registration: "kubectl --context \"$NEW\" get federatedcluster CLUSTER # created from the inventory and a kubeconfig Secret",
            inventory_fields: &["taints"],
            unpropagated_namespace: &[],
            unpropagated_annotation: Some(("kubeadmiral.io/no-federated-resource", "true")),
            adopted_namespace: None,
            label: "kubeadmiral.io/managed",
            pause: Pause::Annotations {
                pause: &[
                    "kubeadmiral.io/dry-run=true",
                    "kubeadmiral.io/conflict-resolution=adopt",
                    r#"kubeadmiral.io/clusters-to-adopt={"regexp":".*"}"#,
                    "kubeadmiral.io/orphan=all",
                ],
                resume: "kubeadmiral.io/dry-run",
            },
            scheduler: None,
            stopped: &[KUBEADMIRAL_CONTROLLER],
            stopped_agents: &[],
            waits: "the annotation `kubeadmiral.io/dry-run` lets KubeAdmiral schedule objects that it has not sent yet, and send \
                    nothing",
            adoption: "`kubeadmiral.io/conflict-resolution: adopt` and `kubeadmiral.io/clusters-to-adopt` let KubeAdmiral take over \
                       objects that exist, `kubeadmiral.io/orphan` is the way back: deleting a federated object leaves the members alone (but a Namespace)",
        }),
        Target::Plain => None,
    }
}
