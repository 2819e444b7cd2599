//! The behaviours that differ between releases.

/// How replicas are divided by weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DivisionMethod {
    /// Shares are rounded down, and the remainder goes to the largest weights; chance decides between equals.
    LargestRemainder,
    /// Seat by seat, by Webster's method.
    Webster,
}

/// How available replicas are estimated in a cluster that reports counted node models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelEstimate {
    /// From the first grade that fits the request on, count times what its minimum holds.
    ByGrade,
    /// First-fit on nodes of the grades' minimums, at most 110 pods each.
    ByNode,
}

/// How a workload with 0 replicas is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZeroReplicas {
    /// As an object that is not a workload: on every selected cluster.
    Everywhere,
    /// As a workload without replicas: nowhere.
    Nowhere,
}

/// Which of a cluster's zones `zone In` of a field selector must list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ZoneMatch {
    /// All zones.
    All,
    /// At least one zone.
    #[default]
    Any,
}

/// The clusters whose previous replicas are the weights when a dynamic division scales down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaleDown {
    /// All previous clusters, chosen again or not, in the inventory or not.
    AllPrevious,
    /// The previous clusters that are chosen again.
    Chosen,
}

/// When a cluster that holds the object already passes the check that it serves the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldApi {
    /// If it serves the API, or has not reported a complete list of its APIs.
    ServedOrIncomplete,
    /// Always.
    Passes,
}

/// Whether ordered affinities have overflow affinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The field does not exist.
    Ignored,
    /// They are tiers.
    Tiers,
}

/// At which of the ordered affinities a fresh scheduling starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reschedule {
    /// The one observed last.
    FromObserved,
    /// The first.
    FromFirst,
}

/// The reason that is reported where the chosen clusters have too few available replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CapacityReason {
    SchedulerError,
    Unschedulable,
}

/// What a `FlinkDeployment` must have for its replicas to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlinkReplicas {
    /// `job`, `flinkConfiguration` and the resources of both managers: without them it is not placed.
    OfWhole,
    /// Nothing: missing parts have defaults.
    WithDefaults,
}

/// When a `FlinkDeployment` is healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlinkHealth {
    /// By the state of its job; without one it is unhealthy.
    State,
    /// The same, but without a state it is healthy if its status has an error.
    StateOrError,
    /// By a list of healthy states; without a state it is healthy if its job manager is ready.
    KnownStates,
}

/// The objects whose replicas are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevisedObjects {
    /// Workloads whose replicas are divided.
    Divided,
    /// All workloads.
    All,
}

/// The tolerations that admission adds to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tolerations {
    /// `not-ready` and `unreachable` for 300 seconds.
    NotReadyAndUnreachable,
    /// Nothing.
    AsWritten,
}

/// The lists of a member's `ServiceAccount` that are retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceAccounts {
    /// `secrets`.
    Secrets,
    /// `secrets` and `imagePullSecrets`.
    BothLists,
}

/// The referrer whose policy sets conflict resolution and preservation of an object that several refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictResolution {
    /// The one that was reconciled last, by chance.
    OneReferrer,
    /// Any referrer whose policy sets it.
    AnyReferrer,
}

/// How the completions of a Job are assigned to clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionDivision {
    /// By the position in a list, whose order chance decides after a scale-up.
    ByPosition,
    /// By the cluster's name.
    ByName,
}

/// The result for a duplicated object that is spread by region, where no cluster of a region has capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionWithoutCapacity {
    /// The scheduler crashes.
    Crashes,
    /// The region scores 0.
    ScoresZero,
}

/// Whether clusters that are being deleted are candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletingClusters {
    /// As any other cluster, and they do not trigger scheduling.
    Candidates,
    /// Never.
    Never,
}

/// What admission does with a setting that has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Accepts it.
    Accepts,
    /// Refuses the object.
    Refuses,
}

/// The values of `purgeMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeModes {
    /// `Immediately` and `Graciously`.
    Old,
    /// Old and new ones.
    Both,
    /// `Directly` and `Gracefully`.
    New,
}

/// What decides how a cluster's taints evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterFailoverRule {
    /// The flag of the controller.
    ByFlag,
    /// The policy's `failover.cluster`, and the flag where it has none.
    ByPolicy,
}

/// Who taints a cluster with `NoExecute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoExecute {
    /// The control plane, when a cluster has not been ready for a while. These taints evict.
    OfControlPlane,
    /// Users, and `ClusterTaintPolicy`. They evict only with a flag.
    OfUsers,
}
