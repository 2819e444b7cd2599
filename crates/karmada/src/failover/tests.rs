//! What releases differ in when clusters fail.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;
use crate::capacity::taints::ClusterTaint;

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// A binding on two clusters, whose policy evicts at once from clusters that fail.
fn binding() -> ResourceBinding {
    let placement = json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}});
    ResourceBinding {
        clusters: vec![("m1".to_owned(), None), ("m2".to_owned(), None)],
        tasks: Vec::new(),
        reported: BTreeMap::new(),
        applied: Some(placement),
        failover: serde_json::from_value(json!({"cluster": {"purgeMode": "Directly"}})).unwrap(),
        is_scheduled: true,
    }
}

fn options(release: &str) -> FailoverOptions {
    FailoverOptions {
        failover: true,
        ..FailoverOptions::for_release(RELEASES.parse_release(release).unwrap())
    }
}

/// Evicts from a cluster that has had a taint for so many seconds.
fn evict(options: &FailoverOptions, key: &str, seconds: i64) -> ResourceBinding {
    let taint = ClusterTaint {
        key: key.to_owned(),
        effect: "NoExecute".to_owned(),
        time_added: Some(at(0)),
        ..ClusterTaint::default()
    };
    let mut binding = binding();
    binding.evict_tainted(options, &BTreeMap::from([("m1", [taint].as_slice())]), at(seconds));
    binding
}

#[test]
fn before_1_14_the_control_plane_taints_and_evicts() {
    let evicts = |release: &str, seconds: i64| {
        let binding = evict(&options(release), "cluster.karmada.io/not-ready", seconds);
        binding.clusters.iter().all(|(cluster, _)| cluster != "m1")
    };
    assert_eq!(["1.13", "1.14"].map(|release| options(release).adds_no_execute()), [true, false]);
    assert_eq!(["1.13", "1.14"].map(|release| options(release).follows_taint_policies()), [false, true]);
    // Admission of these releases adds a toleration for 300 seconds.
    assert_eq!([evicts("1.13", 299), evicts("1.13", 300), evicts("1.14", 300)], [false, true, false]);
}

#[test]
fn before_1_15_the_flag_says_how_taints_evict() {
    let mode = |release: &str| {
        let options = FailoverOptions { taint_eviction: true, ..options(release) };
        evict(&options, "broken", 10).tasks[0].purge_mode.clone()
    };
    assert_eq!([mode("1.14"), mode("1.15")], ["Graciously", "Directly"]);
}
