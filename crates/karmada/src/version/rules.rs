//! The behaviours that a release has or has not, by name.

/// How replicas are divided by weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// Shares are rounded down, and the remainder goes to the largest weights; chance decides between equals.
    LargestRemainder,
    /// Seat by seat, by Webster's method.
    Webster,
}

/// How room is estimated in a cluster that reports counted node models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoomOnModels {
    /// From the first grade that fits the request on, count times what its minimum holds.
    ByGrade,
    /// First-fit on nodes of the grades' minimums, at most 110 pods each.
    ByNode,
}

/// What a workload with 0 replicas is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZeroReplicas {
    /// Not a workload: it goes to every selected cluster.
    Everywhere,
    /// A workload of which there is nothing to place.
    Nowhere,
}

/// What `zone In` of a field selector asks of a cluster's zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Zones {
    /// All are listed.
    All,
    /// One is listed.
    #[default]
    Any,
}

/// Whose replicas are the weights when a dynamic division scales down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaleDown {
    /// Those of every previous cluster, chosen again or not, in the inventory or not.
    AllPrevious,
    /// Those of the previous clusters that are chosen again.
    Chosen,
}

/// When a cluster that holds the object already passes the check that it serves the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldApi {
    /// If it serves it, or does not say that it has listed all that it serves.
    ServedOrIncomplete,
    /// Always.
    Passes,
}

/// Whether ordered affinities have overflow affinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// There is no such field.
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

/// The reason that is reported where the chosen clusters have too little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    SchedulerError,
    Unschedulable,
}

/// What a `FlinkDeployment` must have for its replicas to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlinkReplicas {
    /// `job`, `flinkConfiguration` and the resources of both managers: without them it is not placed.
    OfWhole,
    /// Nothing: what is missing has a default.
    WithDefaults,
}

/// When a `FlinkDeployment` is healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlinkHealth {
    /// By its job's state; one that has none is unhealthy.
    State,
    /// The same, but one without a state is healthy if its status tells an error.
    StateOrError,
    /// By states that are known to be good; one without a state if its job manager is ready.
    KnownStates,
}

/// Of which objects the field for replicas is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revised {
    /// Those whose replicas are divided.
    Divided,
    /// All workloads.
    All,
}

/// What admission adds to the tolerations of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tolerations {
    /// `not-ready` and `unreachable` for 300 seconds.
    NotReadyAndUnreachable,
    /// Nothing.
    AsWritten,
}

/// Which lists of a member's `ServiceAccount` stay when it is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceAccounts {
    /// `secrets`.
    Secrets,
    /// `secrets` and `imagePullSecrets`.
    BothLists,
}

/// Which of several referrers says how conflicts about an object that they need are resolved, and whether it
/// is preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictResolution {
    /// The one that was reconciled last, by chance.
    OneReferrer,
    /// Any that asks for it.
    AnyReferrer,
}

/// How the completions of a Job find their clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completions {
    /// By the place in a list whose order chance decides after a scale-up.
    ByPosition,
    /// By the cluster's name.
    ByName,
}

/// What becomes of a duplicated object spread by region where a region has no cluster with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionWithoutRoom {
    /// The scheduler crashes.
    Crashes,
    /// The region scores 0.
    ScoresZero,
}

/// Whether clusters that are being deleted are candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deleting {
    /// As any other, and no reason to schedule again.
    Candidates,
    /// Never.
    Never,
}

/// What admission does with something that has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Lets it pass.
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
