//! Worked examples: downscaling, and spreading over two regions.

use serde_json::{Value, json};

use super::super::super::api::PlacementPolicy;
use super::*;
use federate_kubernetes::{Cluster, Object};

fn row(topology: i64, affinity: i64, state: ScheduleState) -> ScheduleRow {
    ScheduleRow { state, scores: Some(Scores { topology, affinity }) }
}

fn left(rows: &[Option<ScheduleRow>]) -> Vec<usize> {
    rows.iter().enumerate().filter(|(_, r)| r.is_some()).map(|(i, _)| i).collect()
}

#[test]
fn what_is_not_released_is_cut_first_then_the_worst() {
    let (bound, scheduled) = (ScheduleState::Bound, ScheduleState::Scheduled);
    let rows = [row(0, 10, bound), row(0, 10, bound), row(0, 90, scheduled)].map(Some);
    for (surplus, want) in [(1, vec![0, 1]), (2, vec![1]), (0, vec![0, 1, 2])] {
        let mut rows = rows;
        remove_surplus(&mut rows, surplus);
        assert_eq!(left(&rows), want);
    }
    let mut unscored = [Some(row(-1000, 0, bound)), Some(ScheduleRow { state: bound, scores: None })];
    remove_surplus(&mut unscored, 1);
    assert_eq!(left(&unscored), [0]);
}

/// Clusters with a region each, in name order, that are always eligible.
fn fleet(regions: &[(&str, &str)]) -> Vec<Cluster> {
    let cluster = |(name, region): &(&str, &str)| {
        let body = json!({"metadata": {"name": name, "labels": {"region": region}}});
        let object = Object::from_path("cluster.kubernetes-fleet.io/v1", "MemberCluster", name, body);
        super::super::super::cluster::read_cluster(&object, false, &crate::KubeFleetBehaviour::for_newest())
    };
    regions.iter().map(cluster).collect()
}

/// No rows, for a fleet of that size.
fn empty_rows(clusters: usize) -> ScheduleRows {
    ScheduleRows { current: vec![None; clusters], obsolete: vec![None; clusters], ..ScheduleRows::default() }
}

fn picked(policy: &Value, clusters: &[Cluster], rows: ScheduleRows) -> (Vec<String>, ScheduleOutcome) {
    let policy = PlacementPolicy::from_json(Some(policy)).unwrap();
    let request = ScheduleRequest { policy: &policy, namespace: None, clusters, now: None };
    let outcome = pick_n(&request, rows).unwrap();
    let names = left(&outcome.rows).into_iter().map(|index| clusters[index].name.to_string());
    (names.collect(), outcome)
}

#[test]
fn spreading_alternates_between_regions_while_it_can() {
    let clusters = fleet(&[("a", "east"), ("b", "east"), ("c", "east"), ("d", "west")]);
    let policy = json!({"placementType": "PickN", "numberOfClusters": 4, "topologySpreadConstraints": [{"topologyKey": "region"}]});
    let (names, outcome) = picked(&policy, &clusters, empty_rows(4));
    assert_eq!(names, ["b", "c", "d"]);
    assert!(!outcome.fulfilled);
    assert!(matches!(&outcome.rejected[0], Some(Rejection::Spread(by)) if by[0].key == "region"));
    let topology = |index: usize| outcome.rows[index].unwrap().scores.unwrap().topology;
    assert_eq!([3, 2, 1].map(topology), [-1, 1, -1]);
}

#[test]
fn without_preference_obsolete_rows_win_ties_and_then_the_last_name_does() {
    let clusters = fleet(&[("a", "x"), ("b", "x"), ("c", "x")]);
    let policy = |number: i64| json!({"placementType": "PickN", "numberOfClusters": number});
    let mut rows = empty_rows(3);
    rows.obsolete[0] = Some(row(0, 0, ScheduleState::Bound));
    let (names, outcome) = picked(&policy(2), &clusters, rows.clone());
    assert_eq!(names, ["a", "c"]);
    assert_eq!(
        outcome.rows[0].unwrap().state,
        ScheduleState::Bound,
        "a row that is picked again keeps its state"
    );
    assert!(matches!(outcome.rejected[1], Some(Rejection::Score(_))));
    let (names, outcome) = picked(&policy(0), &clusters, rows);
    assert!(names.is_empty() && outcome.fulfilled, "none wanted, so the obsolete one goes too");
}

#[test]
fn rows_of_the_policy_stay_though_their_clusters_would_not_pass() {
    let mut clusters = fleet(&[("a", "x"), ("b", "x")]);
    clusters[0].joined = false;
    let mut rows = empty_rows(2);
    rows.current[0] = Some(row(0, 0, ScheduleState::Bound));
    let policy = json!({"placementType": "PickN", "numberOfClusters": 2});
    let (names, outcome) = picked(&policy, &clusters, rows);
    assert_eq!(names, ["a", "b"]);
    assert!(outcome.rejected[0].is_none());
}
