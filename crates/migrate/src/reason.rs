//! The closed list of reasons why a migrated object is not placed by an equal rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What differs between the two sides for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// The clusters that receive the object.
    Clusters,
    /// The replicas in a cluster.
    Replicas,
    /// The manifest in a cluster, apart from replicas.
    Manifest,
}

/// Why a rule of the old control plane has no equal in the new one. The list is closed: a difference without one
/// of these reasons is a fault of the migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Credentials of member clusters are registered by hand.
    Join,
    /// A selector of a namespace and one of its objects cannot be joined to one.
    NamespaceAnd,
    /// One side takes the readiness or the taints of a cluster into account, the other does not.
    Readiness,
    /// Replicas are rounded in another way: by at most one per cluster.
    Rounding,
    /// A cluster with weight 0 receives the object without replicas on one side only.
    ZeroWeight,
    /// The least or most replicas of a cluster, or its priority.
    MinMax,
    /// Replicas that a cluster cannot hold are placed elsewhere on one side only.
    Capacity,
    /// What is placed stays placed on one side only.
    Sticky,
    /// Names in DNS are set up by hand.
    Dns,
    /// The kind is divided on one side only.
    KindNotDivided,
    /// Weights that depend on the free resources of clusters.
    DynamicWeights,
    /// Few clusters are filled first, in another order.
    Binpack,
    /// A selector that the other side cannot express: the clusters that it selects now are listed by name.
    FrozenSelector,
    /// Disruption is avoided by other rules.
    AvoidDisruption,
    /// Decisions are not taken again on one side only.
    DisableRescheduling,
    /// Replicas whose pods are unschedulable are moved by other rules.
    AutoMigration,
    /// Objects that follow others by name.
    Followers,
    /// Clusters are ranked by other scores.
    Scores,
    /// Clusters are spread over topologies by other rules.
    TopologySpread,
    /// A selector over properties of clusters.
    PropertySelectors,
    /// A policy selects a whole namespace: kinds that are added later are not covered.
    NewKinds,
    /// One side does not divide replicas: those of today are fixed by overrides.
    Division,
    /// Changes reach clusters in another order or at another time.
    Rollout,
    /// Overrides that the other side cannot express: their results are written.
    Overrides,
    /// Overrides of the images of all containers, of which one side counts init containers as some.
    NewContainers,
    /// An object is too large for what carries it.
    Size,
    /// The new control plane never sends objects of this namespace or kind to members.
    NeverPropagated,
    /// Policies that select objects by labels or by kind: objects that are added later are not covered.
    NewObjects,
    /// Which of several policies places an object is decided in another way.
    Priority,
    /// What becomes of objects in clusters that fail is decided by other rules.
    Failover,
    /// Sending is suspended in another way.
    Suspension,
    /// Members decide about replicas on one side only.
    RetainedReplicas,
    /// Every Namespace goes to all clusters on one side only.
    Namespaces,
    /// Objects of the old control plane that do more than place and override.
    OtherObjects,
    /// What charts read of clusters, and the new inventory does not have.
    ClusterFacts,
    /// The new control plane cannot have a cluster of this name.
    ClusterNames,
    /// Written exactly as it is placed now: later changes of clusters do not move it.
    Frozen,
}

impl Reason {
    /// All reasons, in the order of the list.
    pub const ALL: [Self; 37] = [
        Self::Join,
        Self::NamespaceAnd,
        Self::Readiness,
        Self::Rounding,
        Self::ZeroWeight,
        Self::MinMax,
        Self::Capacity,
        Self::Sticky,
        Self::Dns,
        Self::KindNotDivided,
        Self::DynamicWeights,
        Self::Binpack,
        Self::FrozenSelector,
        Self::AvoidDisruption,
        Self::DisableRescheduling,
        Self::AutoMigration,
        Self::Followers,
        Self::Scores,
        Self::TopologySpread,
        Self::PropertySelectors,
        Self::NewKinds,
        Self::Division,
        Self::Rollout,
        Self::Overrides,
        Self::NewContainers,
        Self::Size,
        Self::NeverPropagated,
        Self::NewObjects,
        Self::Priority,
        Self::Failover,
        Self::Suspension,
        Self::RetainedReplicas,
        Self::Namespaces,
        Self::OtherObjects,
        Self::ClusterFacts,
        Self::ClusterNames,
        Self::Frozen,
    ];

    /// The stable name.
    pub fn name(self) -> &'static str {
        self.describe().0
    }

    /// Whether a rule that is unequal for this reason can lead to such a difference.
    pub fn explains(self, kind: DifferenceKind) -> bool {
        self.describe().2.contains(&kind)
    }

    /// Whether it can lead to such a difference in the state in which the migration is written. What is written as it
    /// is in that state differs only later.
    pub fn explains_now(self, kind: DifferenceKind) -> bool {
        let is_equal_now = matches!(
            self,
            Self::Frozen | Self::FrozenSelector | Self::Division | Self::NewKinds | Self::Rollout
        );
        !is_equal_now && self.explains(kind)
    }

    /// What it means, in a sentence for the person who decides about the migration.
    pub fn meaning(self) -> &'static str {
        self.describe().1
    }

    /// The name, the meaning, and what can differ because of it.
    fn describe(self) -> (&'static str, &'static str, &'static [DifferenceKind]) {
        use DifferenceKind::{Clusters, Manifest, Replicas};
        const PLACEMENT: &[DifferenceKind] = &[Clusters, Replicas];
        match self {
            Self::Join => ("join", "Credentials of member clusters are registered by hand.", &[]),
            Self::NamespaceAnd => (
                "namespace-and",
                "The selectors of the namespace and of its object cannot be joined to one.",
                PLACEMENT,
            ),
            Self::Readiness => (
                "readiness",
                "Only one of the control planes takes into account whether a cluster is ready or tainted.",
                PLACEMENT,
            ),
            Self::Rounding => (
                "rounding",
                "Replicas are rounded in another way, so that a cluster has one more or one less.",
                &[Replicas],
            ),
            Self::ZeroWeight => (
                "zero-weight",
                "A cluster with weight 0 receives the object without replicas on one side only.",
                PLACEMENT,
            ),
            Self::MinMax => {
                ("min-max", "The least and the most replicas of a cluster have no equal.", PLACEMENT)
            }
            Self::Capacity => (
                "capacity",
                "Replicas that do not fit into a cluster are placed elsewhere on one side only.",
                PLACEMENT,
            ),
            Self::Sticky => ("sticky", "What is placed stays where it is on one side only.", PLACEMENT),
            Self::Dns => ("dns", "Names in DNS are set up by hand.", &[]),
            Self::KindNotDivided => {
                ("kind-not-divided", "Replicas of this kind are divided on one side only.", PLACEMENT)
            }
            Self::DynamicWeights => (
                "dynamic-weights",
                "Weights depend on free resources, which the control planes count in other ways.",
                PLACEMENT,
            ),
            Self::Binpack => ("binpack", "Clusters are filled in another order.", PLACEMENT),
            Self::FrozenSelector => (
                "frozen-selector",
                "The selector has no equal: the clusters that it selects now are listed by name.",
                PLACEMENT,
            ),
            Self::AvoidDisruption => {
                ("avoid-disruption", "Replicas are kept where they are by other rules.", PLACEMENT)
            }
            Self::DisableRescheduling => {
                ("disable-rescheduling", "Decisions are not taken again on one side only.", PLACEMENT)
            }
            Self::AutoMigration => (
                "auto-migration",
                "Replicas whose pods are unschedulable are moved by other rules.",
                PLACEMENT,
            ),
            Self::Followers => ("followers", "Objects follow others by rules that have no equal.", PLACEMENT),
            Self::Scores => ("scores", "Clusters are ranked by other scores.", PLACEMENT),
            Self::TopologySpread => {
                ("topology-spread", "Clusters are spread over topologies by other rules.", PLACEMENT)
            }
            Self::PropertySelectors => {
                ("property-selectors", "Selectors over properties of clusters have no equal.", PLACEMENT)
            }
            Self::NewKinds => (
                "new-kinds",
                "The policy selects a whole namespace; the kinds in it are listed, and later ones are not covered.",
                PLACEMENT,
            ),
            Self::Division => (
                "division",
                "Replicas are not divided on the new side: those of today are fixed by overrides.",
                PLACEMENT,
            ),
            Self::Rollout => {
                ("rollout", "Changes reach the clusters in another order or later.", &[Replicas, Manifest])
            }
            Self::Overrides => {
                ("overrides", "The override has no equal: its result is written.", &[Replicas, Manifest])
            }
            Self::NewContainers => (
                "new-containers",
                "Images of all containers are overridden: init containers that are added later are among them on one side only.",
                &[],
            ),
            Self::Size => ("size", "The object is too large for what carries it.", &[Clusters]),
            Self::NeverPropagated => (
                "never-propagated",
                "The new control plane never sends objects of this namespace or kind to members.",
                PLACEMENT,
            ),
            Self::NewObjects => (
                "new-objects",
                "The policy selects objects by labels or by kind; those of today are named, and later ones are not covered.",
                &[],
            ),
            Self::Priority => {
                ("priority", "Which of several policies places an object is decided by other rules.", &[])
            }
            Self::Failover => {
                ("failover", "Objects in clusters that fail are moved by other rules.", PLACEMENT)
            }
            Self::Suspension => {
                ("suspension", "Sending is suspended in another way.", &[Clusters, Replicas, Manifest])
            }
            Self::RetainedReplicas => {
                ("retained-replicas", "Members decide about replicas on one side only.", &[Replicas])
            }
            Self::Namespaces => {
                ("namespaces", "Every Namespace goes to all clusters on one side only.", &[Clusters])
            }
            Self::OtherObjects => (
                "other-objects",
                "Objects of the old control plane that do more than place and override have no equal.",
                &[],
            ),
            Self::ClusterFacts => (
                "cluster-facts",
                "Charts are built without the APIs that clusters serve, which the new inventory does not have.",
                &[Clusters, Replicas, Manifest],
            ),
            Self::ClusterNames => (
                "cluster-names",
                "The new control plane cannot have a cluster of this name, which is left out: rename it first.",
                PLACEMENT,
            ),
            Self::Frozen => (
                "frozen",
                "The object is written as it is placed now: later changes of clusters do not move it.",
                &[Clusters, Replicas, Manifest],
            ),
        }
    }
}
