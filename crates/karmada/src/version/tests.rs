use super::*;

fn of(text: &str) -> Behaviour {
    Behaviour::of(RELEASES.read(text).unwrap())
}

#[test]
fn the_newest_is_what_is_not_released_yet() {
    assert_eq!(RELEASES.latest().to_string(), "1.19.0");
    let message = RELEASES.read("1.12").unwrap_err();
    assert!(message.contains("1.13 (up to 1.13.10), ") && message.ends_with(", 1.19"), "{message}");
}

/// What each minor version changed, as upgrades meet it.
#[test]
fn every_minor_version_differs_from_the_next_in_what_it_changed() {
    let upgrades: [(&str, &str, &[&str]); 6] = [
        ("1.13", "1.14", &["regions without room", "clusters that are being deleted"]),
        (
            "1.14",
            "1.15",
            &[
                "clusters that no longer serve a kind",
                "the reason reported for too little room",
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
            &["the room on counted node models", "clusters in several zones", "overflow affinities"],
        ),
        ("1.18", "1.19", &["rescheduling with ordered affinities"]),
    ];
    for (from, to, changes) in upgrades {
        assert_eq!(of(from).differences(&of(to)), changes, "{from} to {to}");
    }
}

#[test]
fn backports_count() {
    for (release, reason) in [
        ("1.15.7", NoRoom::SchedulerError),
        ("1.15.8", NoRoom::Unschedulable),
        ("1.16.4", NoRoom::SchedulerError),
        ("1.16.5", NoRoom::Unschedulable),
        ("1.17.1", NoRoom::SchedulerError),
        ("1.18.0", NoRoom::Unschedulable),
    ] {
        assert_eq!(of(release).no_room, reason, "{release}");
    }
    assert_eq!(of("1.14.0").revised, Revised::Divided);
    assert_eq!(of("1.14.1").revised, Revised::All);
    assert_eq!(of("1.16.2").region_without_room, RegionWithoutRoom::Crashes);
}
