//! The releases of Karmada, each resolved once to named behaviours.
//!
//! Facts: `docs/semantics/karmada-versions.md`; the numbers below are the rows and sections of that page.

use federate_dialect::release::{NamedState, Release, ReleaseCatalog};
use federate_kubernetes::Finding;
use federate_repo::{Config, Repo};

mod gates;
mod missing_features;
mod rules;

pub(super) use gates::SETTING as FEATURE_GATES;
pub(super) use rules::{
    Admission, CapacityReason, ClusterFailoverRule, CompletionDivision, ConflictResolution, DeletingClusters,
    DivisionMethod, FlinkHealth, FlinkReplicas, HeldApi, ModelEstimate, NoExecute, Overflow, PurgeModes,
    RegionWithoutCapacity, Reschedule, RevisedObjects, ScaleDown, ServiceAccounts, Tolerations, ZeroReplicas,
    ZoneMatch,
};

/// The known releases. The main branch counts as the next minor version: what 1.19.0 has changed after it is not recorded.
pub static RELEASES: ReleaseCatalog = ReleaseCatalog {
    product: "Karmada",
    major: 1,
    newest: &[(13, 10), (14, 10), (15, 9), (16, 8), (17, 5), (18, 2)],
    named: &[NamedState { name: "main", recorded: "2026-08-21, before 1.19", number: (19, 0) }],
};

/// The behaviour of a release, rule by rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct KarmadaBehaviour {
    pub(super) release: Release,
    pub(super) division: DivisionMethod,
    pub(super) model_estimate: ModelEstimate,
    pub(super) zero_replicas: ZeroReplicas,
    pub(super) zones: ZoneMatch,
    pub(super) scale_down: ScaleDown,
    pub(super) held_api: HeldApi,
    pub(super) overflow: Overflow,
    pub(super) reschedule: Reschedule,
    pub(super) capacity_reason: CapacityReason,
    pub(super) flink_replicas: FlinkReplicas,
    pub(super) flink_health: FlinkHealth,
    pub(super) workflow_error_is_unhealthy: bool,
    pub(super) revised: RevisedObjects,
    pub(super) tolerations: Tolerations,
    pub(super) service_accounts: ServiceAccounts,
    pub(super) conflict_resolution: ConflictResolution,
    pub(super) completions: CompletionDivision,
    pub(super) region_without_capacity: RegionWithoutCapacity,
    pub(super) deleting: DeletingClusters,
    pub(super) foreign_selectors: Admission,
    pub(super) empty_field_overriders: Admission,
    pub(super) numeric_tolerations: Admission,
    pub(super) purge_modes: PurgeModes,
    pub(super) cluster_failover: ClusterFailoverRule,
    pub(super) no_execute: NoExecute,
    pub(super) escapes_script_paths: bool,
    pub(super) alias_labels: Admission,
    pub(super) long_quota_names: Admission,
    pub(super) schedules_by_priority: bool,
}

impl KarmadaBehaviour {
    /// The table: for each rule the releases that changed it, the behaviour before, the behaviour since.
    pub(super) fn for_release(release: Release) -> Self {
        let r = release;
        let flink_before_1_18 = r.select_by_change(&[(14, 0)], FlinkHealth::State, FlinkHealth::StateOrError);
        let purge_before_1_19 = r.select_by_change(&[(15, 0)], PurgeModes::Old, PurgeModes::Both);
        Self {
            release,
            // Row 1, §2.1
            division: r.select_by_change(
                &[(16, 0)],
                DivisionMethod::LargestRemainder,
                DivisionMethod::Webster,
            ),
            // Row 2, §2.2
            model_estimate: r.select_by_change(&[(18, 0)], ModelEstimate::ByGrade, ModelEstimate::ByNode),
            // Row 3, §2.6
            zero_replicas: r.select_by_change(&[(16, 0)], ZeroReplicas::Everywhere, ZeroReplicas::Nowhere),
            // Row 4
            zones: r.select_by_change(&[(18, 0)], ZoneMatch::All, ZoneMatch::Any),
            // Row 5, §2.3
            scale_down: r.select_by_change(&[(17, 0)], ScaleDown::AllPrevious, ScaleDown::Chosen),
            // Row 6
            held_api: r.select_by_change(&[(15, 0)], HeldApi::ServedOrIncomplete, HeldApi::Passes),
            // Row 7
            overflow: r.select_by_change(&[(18, 0)], Overflow::Ignored, Overflow::Tiers),
            // Row 8, §2.5
            reschedule: r.select_by_change(&[(19, 0)], Reschedule::FromObserved, Reschedule::FromFirst),
            // Row 9
            capacity_reason: r.select_by_change(
                &[(15, 8), (16, 5), (17, 2), (18, 0)],
                CapacityReason::SchedulerError,
                CapacityReason::Unschedulable,
            ),
            // Row 11, §3
            flink_replicas: r.select_by_change(
                &[(17, 0)],
                FlinkReplicas::OfWhole,
                FlinkReplicas::WithDefaults,
            ),
            flink_health: r.select_by_change(&[(18, 0)], flink_before_1_18, FlinkHealth::KnownStates),
            workflow_error_is_unhealthy: r.includes_change(&[(17, 0)]),
            // Row 12
            revised: r.select_by_change(&[(14, 1)], RevisedObjects::Divided, RevisedObjects::All),
            // Row 14
            tolerations: r.select_by_change(
                &[(15, 0)],
                Tolerations::NotReadyAndUnreachable,
                Tolerations::AsWritten,
            ),
            // Row 15
            service_accounts: r.select_by_change(
                &[(15, 0)],
                ServiceAccounts::Secrets,
                ServiceAccounts::BothLists,
            ),
            // Row 16
            conflict_resolution: r.select_by_change(
                &[(16, 0)],
                ConflictResolution::OneReferrer,
                ConflictResolution::AnyReferrer,
            ),
            // Row 17, §2.4
            completions: r.select_by_change(
                &[(16, 5), (17, 2), (18, 0)],
                CompletionDivision::ByPosition,
                CompletionDivision::ByName,
            ),
            // Row 18
            region_without_capacity: r.select_by_change(
                &[(14, 10), (15, 6), (16, 3), (17, 0)],
                RegionWithoutCapacity::Crashes,
                RegionWithoutCapacity::ScoresZero,
            ),
            // Row 19
            deleting: r.select_by_change(&[(14, 0)], DeletingClusters::Candidates, DeletingClusters::Never),
            // Rows 20 to 22
            foreign_selectors: r.select_by_change(&[(17, 0)], Admission::Accepts, Admission::Refuses),
            empty_field_overriders: r.select_by_change(&[(18, 0)], Admission::Accepts, Admission::Refuses),
            numeric_tolerations: r.select_by_change(&[(18, 0)], Admission::Accepts, Admission::Refuses),
            // Row 23
            purge_modes: r.select_by_change(&[(19, 0)], purge_before_1_19, PurgeModes::New),
            // Row 24, §5
            cluster_failover: r.select_by_change(
                &[(15, 0)],
                ClusterFailoverRule::ByFlag,
                ClusterFailoverRule::ByPolicy,
            ),
            // §5
            no_execute: r.select_by_change(&[(14, 0)], NoExecute::OfControlPlane, NoExecute::OfUsers),
            // Row 27, §4
            escapes_script_paths: r.select_by_change(&[(13, 8), (14, 5), (15, 1), (16, 0)], false, true),
            // Row 28
            alias_labels: r.select_by_change(&[(15, 0)], Admission::Accepts, Admission::Refuses),
            // Row 29
            long_quota_names: r.select_by_change(&[(14, 0)], Admission::Accepts, Admission::Refuses),
            // The gate `PriorityBasedScheduling`
            schedules_by_priority: r.includes_change(&[(19, 0)]),
            // Rows 7, 10, 11, 24 and 25, §3: `lacking` has the fields and kinds.
        }
    }

    /// The purge mode that waits until the application runs elsewhere, which is the default.
    pub(super) fn graceful_purge(&self) -> &'static str {
        if self.purge_modes == PurgeModes::Old { "Graciously" } else { "Gracefully" }
    }

    /// The behaviour of the newest release.
    #[cfg(test)]
    pub(super) fn for_newest_release() -> Self {
        Self::for_release(RELEASES.find_latest())
    }

    /// The behaviour of the release that `federate.yaml` names, or of the newest one.
    pub(super) fn from_config(config: &Config, dialect: &str) -> Self {
        Self::for_release(RELEASES.resolve_configured(config, dialect))
    }

    /// The same for a repo, with a finding if the setting is invalid.
    pub(super) fn from_repo(repo: &Repo, dialect: &str) -> (Self, Option<Finding>) {
        let (release, unknown) = RELEASES.resolve_for_repo(repo, dialect);
        (Self::for_release(release), unknown)
    }

    /// In words, the rules by which two releases decide differently about placements.
    pub(super) fn list_differences(&self, other: &Self) -> Vec<&'static str> {
        let rules = [
            (self.division != other.division, "the division of replicas"),
            (self.model_estimate != other.model_estimate, "the estimate on counted node models"),
            (self.zero_replicas != other.zero_replicas, "workloads with 0 replicas"),
            (self.zones != other.zones, "clusters in several zones"),
            (self.scale_down != other.scale_down, "scaling down after a cluster was dropped"),
            (self.held_api != other.held_api, "clusters that no longer serve a kind"),
            (self.overflow != other.overflow, "overflow affinities"),
            (self.reschedule != other.reschedule, "rescheduling with ordered affinities"),
            (self.capacity_reason != other.capacity_reason, "the reason reported for too little capacity"),
            (self.flink_replicas != other.flink_replicas, "replicas of FlinkDeployments"),
            (self.tolerations != other.tolerations, "tolerations that admission adds"),
            (self.region_without_capacity != other.region_without_capacity, "regions without capacity"),
            (self.deleting != other.deleting, "clusters that are being deleted"),
            (
                self.escapes_script_paths != other.escapes_script_paths,
                "keys with dots in the results of scripts",
            ),
            (!missing_features::same_kinds(self.release, other.release), "the kinds that are workloads"),
        ];
        rules.into_iter().filter(|(differ, _)| *differ).map(|(_, words)| words).collect()
    }
}

#[cfg(test)]
mod tests;
