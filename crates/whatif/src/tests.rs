//! Tests of scenarios: their notation, and their effect on an inventory.

use federate_kubernetes::Object;
use serde_json::json;

use super::*;
use federate_dialects::DIALECTS;

fn cluster(name: &str, region: &str) -> Cluster {
    let body = json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "FederatedCluster",
        "metadata": {"name": name, "labels": {"tier": "gold"}}});
    Cluster {
        region: region.to_owned(),
        ..Cluster::from_object(&Object::from_manifest(body, "clusters.yaml"))
    }
}

fn applied(events: Vec<ScenarioEvent>) -> Result<Vec<Cluster>, String> {
    let clusters = [cluster("a", "eu"), cluster("b", "us")];
    let repo = Repo::default();
    Scenario { events }.apply_events(DIALECTS, &repo, &clusters).map(|input| input.clusters)
}

#[test]
fn events_are_parsed_from_the_command_line() {
    for wrong in ["a", "a=k", "a=k:Never", "(region=eu", "=:NoSchedule"] {
        assert!(ScenarioEvent::parse_taint(wrong, DIALECTS).is_err(), "{wrong}");
    }
    for wrong in ["a=50", "a=-5%", "a=cpu", "a=cpu=x"] {
        assert!(ScenarioEvent::parse_capacity(wrong).is_err(), "{wrong}");
    }
    for wrong in ["web=3", "deployment/shop/web", "deployment/web=50%", "deployment/web=-"] {
        assert!(ScenarioEvent::parse_scale(wrong).is_err(), "{wrong}");
    }
    let Ok(ScenarioEvent::Taint(ClusterMatcher::Matching(..), taint)) =
        ScenarioEvent::parse_taint("(region=eu)=k=v:NoExecute", DIALECTS)
    else {
        panic!("not a taint")
    };
    assert_eq!(taint, Taint { key: "k".into(), value: "v".into(), effect: "NoExecute".into() });
}

#[test]
fn selectors_match_locations() {
    let lost = ScenarioEvent::Lose(ClusterMatcher::parse("region=eu,tier=gold").unwrap());
    let clusters = applied(vec![lost]).unwrap();
    assert_eq!(clusters.iter().map(|c| c.ready).collect::<Vec<_>>(), [false, true]);
    let none = applied(vec![ScenarioEvent::Lose(ClusterMatcher::parse("region=asia").unwrap())]);
    assert_eq!(none.unwrap_err(), "the selector `region=asia` matches no cluster of the inventory (a, b)");
    let units = FailureDomain::Region.group_clusters(&clusters);
    assert_eq!(units.keys().collect::<Vec<_>>(), ["eu", "us"]);
}

#[test]
fn resizing_keeps_the_used_resources() {
    let amounts = |cpu: &str| [("cpu".to_owned(), Quantity::parse(cpu).unwrap())].into();
    let mut cluster = cluster("a", "eu");
    cluster.capacity =
        Some(Capacity { allocatable: amounts("10"), available: amounts("4"), ..Capacity::default() });
    for (size, offered, free) in [("50%", "5", "-1"), ("cpu=12", "12", "6")] {
        let Ok(ScenarioEvent::Capacity(_, size)) = ScenarioEvent::parse_capacity(&format!("a={size}")) else {
            panic!("{size}")
        };
        let mut cluster = cluster.clone();
        resize_cluster(&mut cluster, &size).unwrap();
        let capacity = cluster.capacity.unwrap();
        assert_eq!((capacity.allocatable, capacity.available), (amounts(offered), amounts(free)));
    }
}

#[test]
fn percentages_are_rounded_up_and_amounts_are_not_negative() {
    assert_eq!(ReplicaChange::Percent(50).apply_to(3), 5);
    assert_eq!(ReplicaChange::Percent(-50).apply_to(3), 2);
    assert_eq!(ReplicaChange::Percent(-200).apply_to(3), 0);
    assert_eq!(ReplicaChange::More(-5).apply_to(3), 0);
    assert_eq!(ReplicaChange::Exactly(7).apply_to(3), 7);
}
