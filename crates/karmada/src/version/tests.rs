//! What releases differ in.

use super::*;

fn of(text: &str) -> KarmadaBehaviour {
    KarmadaBehaviour::for_release(RELEASES.parse_release(text).unwrap())
}

#[test]
fn the_newest_is_what_is_not_released_yet() {
    assert_eq!(RELEASES.find_latest().to_string(), "main (2026-08-21, before 1.19)");
    let message = RELEASES.parse_release("1.12").unwrap_err().to_string();
    assert!(
        message.contains("1.13 (up to 1.13.10), ") && message.ends_with(", main (2026-08-21, before 1.19)"),
        "{message}"
    );
}

/// What each minor version changed, as upgrades meet it.
#[test]
fn every_minor_version_differs_from_the_next_in_what_it_changed() {
    let upgrades: [(&str, &str, &[&str]); 6] = [
        ("1.13", "1.14", &["regions without capacity", "clusters that are being deleted"]),
        (
            "1.14",
            "1.15",
            &[
                "clusters that no longer serve a kind",
                "the reason reported for too little capacity",
                "tolerations that admission adds",
                "the kinds that are workloads",
            ],
        ),
        (
            "1.15",
            "1.16",
            &["the division of replicas", "workloads with 0 replicas", "the kinds that are workloads"],
        ),
        (
            "1.16",
            "1.17",
            &[
                "scaling down after a cluster was dropped",
                "replicas of FlinkDeployments",
                "the kinds that are workloads",
            ],
        ),
        (
            "1.17",
            "1.18",
            &["the estimate on counted node models", "clusters in several zones", "overflow affinities"],
        ),
        ("1.18", "main", &["rescheduling with ordered affinities"]),
    ];
    for (from, to, changes) in upgrades {
        assert_eq!(of(from).list_differences(&of(to)), changes, "{from} to {to}");
    }
}

#[test]
fn backports_count() {
    for (release, reason) in [
        ("1.15.7", CapacityReason::SchedulerError),
        ("1.15.8", CapacityReason::Unschedulable),
        ("1.16.4", CapacityReason::SchedulerError),
        ("1.16.5", CapacityReason::Unschedulable),
        ("1.17.1", CapacityReason::SchedulerError),
        ("1.18.0", CapacityReason::Unschedulable),
    ] {
        assert_eq!(of(release).capacity_reason, reason, "{release}");
    }
    assert_eq!(of("1.14.0").revised, RevisedObjects::Divided);
    assert_eq!(of("1.14.1").revised, RevisedObjects::All);
    assert_eq!(of("1.16.2").region_without_capacity, RegionWithoutCapacity::Crashes);
}

/// The last release before each row of the table in `docs/semantics/karmada-versions.md`, and the first with it.
/// Rows 7, 10, 11 and 25 are fields and kinds, which `lacking` has.
#[test]
fn each_row_begins_with_its_release() {
    type Holds = fn(&KarmadaBehaviour) -> bool;
    type Row = (u8, &'static [(&'static str, &'static str)], Holds);
    let rows: [Row; 24] = [
        (1, &[("1.15.9", "1.16.0")], |b| b.division == DivisionMethod::Webster),
        (2, &[("1.17.5", "1.18.0")], |b| b.model_estimate == ModelEstimate::ByNode),
        (3, &[("1.15.9", "1.16.0")], |b| b.zero_replicas == ZeroReplicas::Nowhere),
        (4, &[("1.17.5", "1.18.0")], |b| b.zones == ZoneMatch::Any),
        (5, &[("1.16.8", "1.17.0")], |b| b.scale_down == ScaleDown::Chosen),
        (6, &[("1.14.10", "1.15.0")], |b| b.held_api == HeldApi::Passes),
        (7, &[("1.17.5", "1.18.0")], |b| b.overflow == Overflow::Tiers),
        (8, &[("1.18.2", "main")], |b| b.reschedule == Reschedule::FromFirst),
        (9, &[("1.15.7", "1.15.8"), ("1.16.4", "1.16.5"), ("1.17.1", "1.17.2"), ("1.17.1", "1.18.0")], |b| {
            b.capacity_reason == CapacityReason::Unschedulable
        }),
        (10, &[("1.15.9", "1.16.0")], |b| b.has_interpreter("apps/v1", "ReplicaSet")),
        (11, &[("1.16.8", "1.17.0")], |b| b.has_interpreter("ray.io/v1", "RayService")),
        (12, &[("1.14.0", "1.14.1")], |b| b.revised == RevisedObjects::All),
        (14, &[("1.14.10", "1.15.0")], |b| b.tolerations == Tolerations::AsWritten),
        (15, &[("1.14.10", "1.15.0")], |b| b.service_accounts == ServiceAccounts::BothLists),
        (16, &[("1.15.9", "1.16.0")], |b| b.conflict_resolution == ConflictResolution::AnyReferrer),
        (
            17,
            &[("1.15.9", "1.16.5"), ("1.16.4", "1.16.5"), ("1.17.1", "1.17.2"), ("1.17.1", "1.18.0")],
            |b| b.completions == CompletionDivision::ByName,
        ),
        (
            18,
            &[("1.14.9", "1.14.10"), ("1.15.5", "1.15.6"), ("1.16.2", "1.16.3"), ("1.16.2", "1.17.0")],
            |b| b.region_without_capacity == RegionWithoutCapacity::ScoresZero,
        ),
        (19, &[("1.13.10", "1.14.0")], |b| b.deleting == DeletingClusters::Never),
        (20, &[("1.16.8", "1.17.0")], |b| b.foreign_selectors == Admission::Refuses),
        (23, &[("1.18.2", "main")], |b| b.purge_modes == PurgeModes::New),
        (24, &[("1.14.10", "1.15.0")], |b| b.cluster_failover == ClusterFailoverRule::ByPolicy),
        (
            27,
            &[("1.13.7", "1.13.8"), ("1.14.4", "1.14.5"), ("1.15.0", "1.15.1"), ("1.15.0", "1.16.0")],
            |b| b.escapes_script_paths,
        ),
        (28, &[("1.14.10", "1.15.0")], |b| b.alias_labels == Admission::Refuses),
        (29, &[("1.13.10", "1.14.0")], |b| b.long_quota_names == Admission::Refuses),
    ];
    for (row, releases, holds) in rows {
        for (before, since) in releases {
            assert!(!holds(&of(before)) && holds(&of(since)), "row {row}: {before}, {since}");
        }
    }
    assert_eq!([of("1.14").purge_modes, of("1.15").purge_modes], [PurgeModes::Old, PurgeModes::Both]);
}
