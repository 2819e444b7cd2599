//! Update runs by the rules of several releases.

use serde_json::{Value, json};

use super::*;
use federate_kubernetes::Object;

const API: &str = "placement.kubernetes-fleet.io/v1beta1";

fn object(kind: &str, name: &str, labels: &Value, body: &Value) -> Object {
    let mut all = json!({"apiVersion": API, "kind": kind, "metadata": {"name": name, "generation": 1, "labels": labels}});
    for (key, value) in body.as_object().unwrap() {
        all[key] = value.clone();
    }
    Object::from_manifest(all, "hub")
}

/// A hub with a placement on three clusters, and a run without `state` by a strategy with these stages.
fn hub(stages: &Value, with_snapshot: bool) -> HubObjects {
    let own = json!({crate::hub::PARENT_LABEL: "p"});
    let latest = |index: &str| {
        let mut labels = own.clone();
        labels["kubernetes-fleet.io/is-latest-snapshot"] = json!("true");
        labels[index] = json!("7");
        labels
    };
    let scheduled = json!([{"type": "Scheduled", "status": "True", "observedGeneration": 1}]);
    let mut objects = vec![
        object(
            "ClusterResourcePlacement",
            "p",
            &json!({}),
            &json!({"spec": {"strategy": {"type": "External"}}}),
        ),
        object(
            "ClusterSchedulingPolicySnapshot",
            "p-7",
            &latest("kubernetes-fleet.io/policy-index"),
            &json!({"spec": {}, "status": {"conditions": scheduled}}),
        ),
        object("ClusterStagedUpdateStrategy", "s", &json!({}), &json!({"spec": {"stages": stages}})),
        object(
            "ClusterStagedUpdateRun",
            "r",
            &json!({}),
            &json!({"spec": {"placementName": "p", "stagedRolloutStrategyName": "s"}}),
        ),
    ];
    for name in ["a", "b", "c"] {
        objects.push(object("MemberCluster", name, &json!({}), &json!({})));
        let spec =
            json!({"state": "Scheduled", "targetCluster": name, "schedulingPolicySnapshotName": "p-7"});
        objects.push(object("ClusterResourceBinding", &format!("p-{name}"), &own, &json!({"spec": spec})));
    }
    if with_snapshot {
        let mut snapshot = object(
            "ClusterResourceSnapshot",
            "p-7-snapshot",
            &latest("kubernetes-fleet.io/resource-index"),
            &json!({"spec": {}}),
        );
        snapshot.set_annotation("kubernetes-fleet.io/resource-hash", "h");
        objects.push(snapshot);
    }
    HubObjects::new(objects)
}

/// Reconciles the run so many times, and returns the hub and what was written last.
fn reconciled(mut world: HubObjects, release: &str, times: usize) -> (HubObjects, Vec<RunWrite>) {
    let id = ObjectRef {
        api_version: API.to_owned(),
        kind: "ClusterStagedUpdateRun".to_owned(),
        namespace: None,
        name: "r".to_owned(),
    };
    let behaviour = KubeFleetBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
    for _ in 0..times {
        world.take_writes();
        reconcile_run(&mut world, &id, "2026-11-20T12:00:00Z".parse().unwrap(), &behaviour).unwrap();
    }
    let writes = world.take_writes();
    (world, writes)
}

fn status(world: &HubObjects) -> &Value {
    world.get("ClusterStagedUpdateRun", None, "r").unwrap().value_at(&["status"]).unwrap()
}

fn condition<'w>(world: &'w HubObjects, kind: &str) -> &'w str {
    let all = status(world)["conditions"].as_array().unwrap();
    all.iter().find(|condition| condition["type"] == kind).map_or("", |c| c["status"].as_str().unwrap())
}

fn stage(name: &str, before: &Value, most: u32) -> Value {
    json!({"name": name, "labelSelector": {}, "maxConcurrency": most, "beforeStageTasks": before})
}

fn bindings(writes: &[RunWrite]) -> usize {
    writes.iter().filter(|write| matches!(write, RunWrite::Binding(_))).count()
}

#[test]
fn older_releases_ignore_the_state_and_the_concurrency() {
    let stages = json!([stage("all", &json!([]), 2)]);
    let started = |release: &str| bindings(&reconciled(hub(&stages, true), release, 1).1);
    assert_eq!(["0.1.0", "0.1.1", "0.1.2"].map(started), [1, 2, 2], "a run starts at once");
    assert_eq!(["0.2", "main"].map(started), [0, 0], "a run without a state only initializes");
}

#[test]
fn approvals_have_the_names_and_labels_of_their_release() {
    let stages = json!([stage("all", &json!([{"type": "Approval"}]), 1)]);
    let requested = |release: &str, name: &str| {
        let mut world = hub(&stages, true);
        let mut run = world.get("ClusterStagedUpdateRun", None, "r").unwrap().clone();
        run.body["spec"]["state"] = json!("Run");
        world.put_object(run);
        let (world, writes) = reconciled(world, release, 1);
        let request = world.get("ClusterApprovalRequest", None, name)?;
        let target = ["targetupdaterun", "targetUpdateRun"]
            .map(|label| request.label(&format!("kubernetes-fleet.io/{label}")).is_some());
        let has_type = request.label("kubernetes-fleet.io/taskType").is_some();
        assert_eq!(bindings(&writes), 0, "the stage waits");
        Some((target, has_type))
    };
    assert_eq!(requested("0.1.1", "r-before-all"), None, "there are no tasks before a stage");
    assert_eq!(requested("0.1.2", "r-before-all"), Some(([true, false], false)));
    assert_eq!(requested("0.2", "r-before-all"), Some(([false, true], true)));
}

#[test]
fn tasks_of_stages_without_clusters_are_skipped_since_main() {
    let mut empty = stage("none", &json!([]), 1);
    empty["labelSelector"] = json!({"matchLabels": {"no": "cluster"}});
    empty["afterStageTasks"] = json!([{"type": "Approval"}]);
    let stages = json!([empty, stage("all", &json!([]), 1)]);
    let asks = |release: &str| {
        let mut world = hub(&stages, true);
        let mut run = world.get("ClusterStagedUpdateRun", None, "r").unwrap().clone();
        run.body["spec"]["state"] = json!("Run");
        world.put_object(run);
        let (_, writes) = reconciled(world, release, 1);
        writes.iter().find_map(|write| match write {
            RunWrite::NewApproval(name) => Some(name.clone()),
            _ => None,
        })
    };
    assert_eq!(asks("0.1.0").as_deref(), Some("r-none"));
    assert_eq!(asks("0.3").as_deref(), Some("r-after-none"));
    assert_eq!(asks("azure"), None);
}

#[test]
fn a_run_takes_the_first_snapshot_itself_since_0_3() {
    let stages = json!([stage("all", &json!([]), 1)]);
    let initialized = |release: &str, with_snapshot: bool| {
        let (world, _) = reconciled(hub(&stages, with_snapshot), release, 1);
        let index = status(&world)["resourceSnapshotIndexUsed"].as_str().unwrap_or_default().to_owned();
        (condition(&world, "Initialized").to_owned(), index)
    };
    let of = |is: &str, index: &str| (is.to_owned(), index.to_owned());
    assert_eq!(initialized("0.2", true), of("True", "7"));
    assert_eq!(initialized("0.3", true), of("True", "7"));
    assert_eq!(initialized("0.2", false), of("False", ""));
    assert_eq!(initialized("0.3", false), of("True", "0"));
}

#[test]
fn stages_see_the_name_of_a_cluster_since_0_3_1() {
    let mut named = stage("one", &json!([]), 1);
    named["labelSelector"] = json!({"matchLabels": {"kubernetes-fleet.io/member-name": "a"}});
    let mut others = stage("others", &json!([]), 1);
    let not = json!({"key": "kubernetes-fleet.io/member-name", "operator": "NotIn", "values": ["a"]});
    others["labelSelector"] = json!({"matchExpressions": [not]});
    let stages = json!([named, others]);
    let sizes = |release: &str| {
        let (world, _) = reconciled(hub(&stages, true), release, 1);
        let stages = status(&world)["stagesStatus"].as_array().unwrap().clone();
        stages.iter().map(|stage| stage["clusters"].as_array().map_or(0, Vec::len)).collect::<Vec<_>>()
    };
    assert_eq!(sizes("0.3.0"), [0, 3]);
    assert_eq!(sizes("0.3.1"), [1, 2]);
}

#[test]
fn a_cluster_that_becomes_available_later_fails_before_main() {
    let mut object = object("ClusterResourceBinding", "p-a", &json!({}), &json!({}));
    object.body["status"] = json!({"conditions": [{"type": "Available", "status": "False",
        "reason": "ResourceNotAvailableYet", "observedGeneration": 1}]});
    let result = |release: &str| {
        let behaviour = KubeFleetBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
        binding::BindingView::new(&object).check_updated("all", "r", &behaviour)
    };
    assert!(result("0.3").is_err());
    assert_eq!(result("azure"), Ok(false));
}
