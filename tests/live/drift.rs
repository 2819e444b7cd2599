//! `federate drift` against API servers: what it reports, that it only reads, and what `--correct` reverts.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB, config, deployment};
use crate::trouble::granted;
use federate_test_apiserver::{FaultKind, InjectedFault};

const CONFIGS: &str = "/api/v1/namespaces/shop/configmaps";

/// Edits an object of `m1`.
#[track_caller]
fn edit(sandbox: &Sandbox, manager: &str, path: &str, patch: &Value) {
    sandbox.edit("m1", manager, path, patch);
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}})
}

/// The paths that a manager owns, as the API server writes them.
fn owned(object: &Value, manager: &str) -> String {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries
        .iter()
        .filter(|entry| entry["manager"] == manager)
        .map(|entry| entry["fieldsV1"].to_string())
        .collect()
}

fn actions(ran: &Ran) -> Vec<Value> {
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:#?}"));
    document["actions"].as_array().unwrap().clone()
}

/// What drifted: cluster and object, with the fields or the reason.
fn reported(ran: &Ran) -> Vec<String> {
    let line = |action: &Value| {
        let diffs = action["diffs"].as_array().unwrap().iter().map(|diff| diff["path"].as_str().unwrap());
        let words: Vec<&str> = action["reason"].as_str().into_iter().chain(diffs).collect();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!(
            "{} {} {}: {}",
            text(&action["cluster"]),
            text(&action["action"]),
            text(&action["object"]["name"]),
            words.join(" ")
        )
    };
    actions(ran).iter().map(line).collect()
}

#[test]
fn field_manager_and_time_are_reported_and_nothing_is_written() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]).file("a.yaml", &config("a", "1"));
    let reader = granted(&sandbox, "drift");
    let missing = sandbox.run("drift", &format!("-o json --cluster m1 {reader}")).code(1);
    assert_eq!(
        reported(&missing),
        ["m1 create web: it is missing", "m1 create a: it is missing", "m1 create shop: it is missing"]
    );
    sandbox.apply("").code(0);
    let clean = sandbox.run("drift", "").code(0);
    assert_eq!(clean.err, "", "without a terminal no progress is shown");
    edit(&sandbox, "kubectl-edit", WEB, &image("nginx:1.0"));
    let time = sandbox.get("m1", WEB)["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["manager"] == "kubectl-edit")
        .unwrap()["time"]
        .clone();

    sandbox.forget("m1");
    let ran = sandbox.run("drift", &format!("-o json --cluster m1 {reader}")).code(1);
    let diff = json!({"path": "/spec/template/spec/containers[name=web]/image", "desired": "nginx:1.27",
        "live": "nginx:1.0", "manager": "kubectl-edit", "time": time, "writer": "person"});
    assert_eq!(actions(&ran)[0]["diffs"], json!([diff]));
    assert_eq!(actions(&ran).len(), 1);
    sandbox.wrote("m1", 0);
    if !sandbox.is_real() {
        let verbs: Vec<String> = sandbox.fleet.lock_cluster("m1").counts().keys().cloned().collect();
        assert!(verbs.iter().all(|verb| ["get", "list", "dry run"].contains(&verb.as_str())), "{verbs:?}");
    }
    // The rights do not allow anything else.
    let refused = sandbox.run("drift", &format!("--correct --cluster m1 {reader}")).code(2);
    assert!(refused.err.contains("cannot patch"), "{refused:#?}");
}

#[test]
fn a_cluster_that_cannot_be_reached_is_reported_beside_the_others() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    sandbox.apply("").code(0);
    edit(&sandbox, "kubectl-edit", WEB, &image("nginx:1.0"));
    sandbox.kubeconfig(|config| {
        config["clusters"][1]["cluster"]["server"] = json!("https://127.0.0.1:1");
    });
    let ran = sandbox.run("drift", "-o json").code(2);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "update");
    let errors: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(
        matches!(errors.as_slice(), [one] if one.starts_with("error: m2: it cannot be reached: ")),
        "{ran:#?}"
    );
}

#[test]
fn fields_of_others_are_drift_only_in_full_reports() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    sandbox.apply("").code(0);
    let extra = json!({
        "metadata": {"annotations": {"team": "x"}},
        "spec": {"template": {
            "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}},
            "spec": {"containers": [{"name": "sidecar", "image": "proxy:1"}]},
        }},
    });
    edit(&sandbox, "webhook", WEB, &extra);
    let status = json!({"status": {"replicas": 2}});
    edit(&sandbox, "kube-controller-manager", &format!("{WEB}/status"), &status);
    let scale = json!({"spec": {"replicas": 5}});
    edit(&sandbox, "kube-controller-manager", &format!("{WEB}/scale"), &scale);
    sandbox.run("drift", "").code(0);

    let ran = sandbox.run("drift", "--full -o json").code(1);
    let web = ran.action("m1", "Deployment", "web");
    let paths: Vec<&str> =
        web["diffs"].as_array().unwrap().iter().map(|diff| diff["path"].as_str().unwrap()).collect();
    for path in [
        "/metadata/annotations",
        "/spec/replicas",
        "/spec/strategy",
        "/spec/template/metadata/annotations",
        "/spec/template/spec/containers[name=sidecar]",
        "/spec/template/spec/containers[name=web]/imagePullPolicy",
        "/status",
    ] {
        assert!(paths.contains(&path), "{path} is not in {paths:#?}");
    }
    assert!(!paths.contains(&"/spec/template/spec/containers[name=web]/image"), "{paths:#?}");

    // A person who scales is no autoscaler.
    edit(&sandbox, "kubectl", &format!("{WEB}/scale"), &json!({"spec": {"replicas": 9}}));
    assert_eq!(reported(&sandbox.run("drift", "-o json").code(1)), ["m1 update web: /spec/replicas"]);
}

#[test]
fn exactly_the_drifted_fields_are_corrected() {
    let ignore = json!({"ignore": [{"kinds": ["Deployment.apps"], "paths": ["/spec/replicas"]}]});
    let sandbox =
        Sandbox::anywhere(&["m1", "m2"]).setting("drift", &ignore).file("a.yaml", &config("a", "1"));
    sandbox.apply("").code(0);
    let added = json!({
        "metadata": {"annotations": {"note": "by a controller"}},
        "spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "proxy:1"}]}}},
    });
    edit(&sandbox, "webhook", WEB, &added);
    let mut change = image("nginx:1.0");
    change["spec"]["replicas"] = json!(5);
    edit(&sandbox, "kubectl-edit", WEB, &change);
    // Controllers go on with the rest.
    let spec = |cluster: &str| sandbox.get(cluster, WEB)["spec"].clone();
    let others = spec("m2");

    for cluster in ["m1", "m2"] {
        sandbox.forget(cluster);
    }
    let ran = sandbox.run("drift", "--correct -o json").code(0);
    assert_eq!(reported(&ran), ["m1 update web: /spec/template/spec/containers[name=web]/image"]);
    sandbox.wrote("m1", 1);
    sandbox.wrote("m2", 0);
    assert_eq!(actions(&ran)[0]["result"]["spec"]["replicas"], 5);

    let web = sandbox.get("m1", WEB);
    assert_eq!(web["spec"]["replicas"], 5, "what is ignored stays");
    assert_eq!(web["metadata"]["annotations"]["note"], "by a controller", "so does a field of a controller");
    let containers = web["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let images: Vec<&str> = containers.iter().map(|c| c["image"].as_str().unwrap()).collect();
    assert_eq!(images, ["proxy:1", "nginx:1.27"], "in the order that it had");
    assert_eq!(spec("m2"), others);

    // Every field has the owner that it had, but for the one that was put back.
    let (ours, theirs) = (owned(&web, "federate"), owned(&web, "kubectl-edit"));
    assert!(ours.contains("f:selector") && !ours.contains("f:replicas"), "{ours}");
    let key = "k:{\\\"name\\\":\\\"web\\\"}\":{\".\":{},\"f:image\":{}";
    assert!(ours.contains(key), "{ours}");
    assert!(theirs.contains("f:replicas") && !theirs.contains("name\\\":\\\"web"), "{theirs}");
    let federate = web["metadata"]["managedFields"].as_array().unwrap().iter();
    assert_eq!(federate.filter(|entry| entry["manager"] == "federate").count(), 1, "only by applying");

    sandbox.run("drift", "").code(0);
    sandbox.forget("m1");
    assert!(actions(&sandbox.run("drift", "--correct -o json").code(0)).is_empty());
    sandbox.wrote("m1", 0);
}

#[test]
fn corrected_fields_are_removed_when_they_are_no_longer_rendered() {
    let two =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {k: '1', l: '1'}\n";
    let sandbox = Sandbox::anywhere(&["m1"]).file("a.yaml", two);
    sandbox.apply("").code(0);
    edit(&sandbox, "kubectl-edit", &format!("{CONFIGS}/a"), &json!({"data": {"l": "2"}}));
    sandbox.run("drift", "--correct").code(0);
    sandbox.write("a.yaml", &config("a", "1"));
    let ran = sandbox.run("drift", "-o json").code(1);
    assert_eq!(
        reported(&ran),
        ["m1 update a: /data/l"],
        "a field that federate owns and no longer renders is drift"
    );
    sandbox.run("drift", "--correct").code(0);
    assert_eq!(sandbox.get("m1", &format!("{CONFIGS}/a"))["data"], json!({"k": "1"}));
}

#[test]
fn missing_objects_are_created_and_surplus_ones_deleted_within_limits() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    for name in ["a", "b", "c", "d", "e"] {
        sandbox.write(&format!("{name}.yaml"), &config(name, "1"));
    }
    sandbox.create_namespace("m1");
    sandbox.apply("--adopt always").code(0);
    sandbox.remove("a.yaml");
    sandbox.delete("m1", &format!("{CONFIGS}/b"));

    let drifted = ["m1 delete a: it is no longer rendered", "m1 create b: it is missing"];
    assert_eq!(reported(&sandbox.run("drift", "-o json").code(1)), drifted);
    let kept = sandbox.run("drift", "--correct --no-prune -o json").code(1);
    assert_eq!(reported(&kept)[0], "m1 skip a: it is no longer rendered, and --no-prune keeps it");
    assert!(sandbox.has("m1", &format!("{CONFIGS}/a")) && sandbox.has("m1", &format!("{CONFIGS}/b")));
    assert_eq!(reported(&sandbox.run("drift", "--correct -o json").code(0)), drifted[..1]);
    assert!(!sandbox.has("m1", &format!("{CONFIGS}/a")));

    for name in ["b", "c", "d"] {
        sandbox.remove(&format!("{name}.yaml"));
    }
    let ran = sandbox.run("drift", "--correct -o json").code(1);
    assert!(reported(&ran)[0].contains("more than 30 %"), "{ran:#?}");
    assert!(sandbox.has("m1", &format!("{CONFIGS}/b")));
    sandbox.run("drift", "--correct --prune-limit 100").code(0);
    assert!(!sandbox.has("m1", &format!("{CONFIGS}/b")) && sandbox.has("m1", &format!("{CONFIGS}/e")));

    // Deleting a namespace deletes its objects: it is reported, and deleted only with --prune-kinds.
    sandbox.remove("namespace.yaml");
    assert_eq!(
        reported(&sandbox.run("drift", "-o json").code(1)),
        ["m1 delete shop: it is no longer rendered"]
    );
    let ran = sandbox.run("drift", "--correct --prune-limit 100 -o json").code(1);
    assert!(reported(&ran)[0].contains("--prune-kinds Namespace"), "{ran:#?}");
    sandbox.run("drift", "").code(1);
}

#[test]
fn objects_of_others_are_reported_and_left_alone() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("a.yaml", &config("a", "1"));
    sandbox.create_namespace("m1");
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "2"}});
    sandbox.create("m1", CONFIGS, "test", &foreign);
    let before = sandbox.get("m1", &format!("{CONFIGS}/a"));
    assert!(reported(&sandbox.run("drift", "-o json").code(1)).contains(&"m1 update a: /data/k".to_owned()));
    let ran = sandbox.run("drift", "--correct -o json").code(1);
    let action = ran.action("m1", "ConfigMap", "a");
    assert_eq!(action["action"], "conflict");
    assert!(action["reason"].as_str().unwrap().starts_with("it is not managed by federate"), "{action}");
    assert_eq!(sandbox.get("m1", &format!("{CONFIGS}/a")), before);
    assert!(sandbox.has("m1", WEB), "what was missing is there");
}

#[test]
fn failures_are_reported() {
    let sandbox = Sandbox::simulated(&["m1"]).file("a.yaml", &config("a", "1"));
    sandbox.apply("").code(0);
    edit(&sandbox, "kubectl-edit", WEB, &image("nginx:1.0"));
    edit(&sandbox, "kubectl-edit", &format!("{CONFIGS}/a"), &json!({"data": {"k": "2"}}));
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Status(500)).on_path("deployments"));
    let ran = sandbox.run("drift", "--correct").code(2);
    assert!(ran.err.contains("error: m1: Deployment shop/web: "), "{ran:#?}");
    assert_eq!(sandbox.get("m1", &format!("{CONFIGS}/a"))["data"]["k"], "1");
    assert_eq!(reported(&sandbox.run("drift", "-o json").code(1)).len(), 1);
}

#[test]
fn concurrent_changes_are_not_lost() {
    let sandbox =
        Sandbox::simulated(&["m1"]).file("federate.yaml", "drift: {ignore: [{paths: [/spec/replicas]}]}\n");
    sandbox.apply("").code(0);
    edit(&sandbox, "kubectl-edit", WEB, &image("nginx:1.0"));
    sandbox.forget("m1");
    let slow = InjectedFault::new("patch", FaultKind::Slow(Duration::from_secs(2))).on_path("deployments");
    sandbox.fleet.lock_cluster("m1").add_fault(slow);
    let running = sandbox.runs("drift", "--correct").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut running = running.unwrap();
    // It has read when the patch is on its way; then the Deployment becomes another.
    let end = Instant::now() + Duration::from_secs(20);
    while sandbox.count("m1", "list") < 2 {
        assert!(Instant::now() < end, "nothing was read");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    edit(&sandbox, "kubectl-edit", WEB, &json!({"spec": {"replicas": 6}}));
    assert_eq!(running.wait().unwrap().code(), Some(0));
    let web = sandbox.get("m1", WEB);
    assert_eq!(web["spec"]["replicas"], 6);
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:1.27");
    assert!(sandbox.count("m1", "patch") > 2, "the edit, one that came too late, and one that did not");
}

#[test]
fn secrets_are_corrected_without_being_shown() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {k: hunter2, l: other}\n";
    let sandbox = Sandbox::anywhere(&["m1"]).file("s.yaml", secret);
    sandbox.apply("").code(0);
    let path = "/api/v1/namespaces/shop/secrets/s";
    edit(&sandbox, "kubectl-edit", path, &json!({"data": {"k": "bGl2ZS1vbmU="}}));
    for arguments in ["-o yaml", "--full", "-o junit", "--correct -o json"] {
        let ran = sandbox.run("drift", arguments);
        let all = ran.out + &ran.err;
        assert!(all.contains("/data/k"), "{all}");
        for value in ["hunter2", "aHVudGVyMg", "live-one", "bGl2ZS1vbmU", "other"] {
            assert!(!all.contains(value), "{value}: {all}");
        }
    }
    assert_eq!(sandbox.get("m1", path)["data"]["k"], "aHVudGVyMg==");
    sandbox.run("drift", "").code(0);
}

#[test]
fn an_atomic_list_is_corrected_as_a_whole() {
    let with = |args: &str| deployment("nginx:1.27").replace("image:", &format!("args: [{args}], image:"));
    let sandbox = Sandbox::anywhere(&["m1"]).file("web.yaml", &with("a, b, c"));
    sandbox.apply("").code(0);
    let mut change = image("nginx:1.27");
    change["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["a", "x"]);
    edit(&sandbox, "kubectl-edit", WEB, &change);
    sandbox.run("drift", "--correct").code(0);
    let args = &sandbox.get("m1", WEB)["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(args, &json!(["a", "b", "c"]));
    sandbox.run("drift", "").code(0);
}

/// A Deployment with a port and a variable, and a Service.
const MORE: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: more, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: more}}
  template:
    metadata: {labels: {app: more}}
    spec:
      containers:
      - name: main
        image: nginx:1.27
        ports: [{name: http, containerPort: 81}]
        env: [{name: MODE, value: a}]
---
apiVersion: v1
kind: Service
metadata: {name: more, namespace: shop}
spec: {selector: {app: more}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: more, namespace: shop}
data: {k: v}
";
const MORE_DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/more";
const MORE_SERVICE: &str = "/api/v1/namespaces/shop/services/more";
const MORE_CONFIG: &str = "/api/v1/namespaces/shop/configmaps/more";

/// The policy of [`MORE`] is that of the sandbox; what a person does to its objects, and a part of the path that is drift.
fn manual_changes() -> Vec<(&'static str, Value, &'static str)> {
    let pods = |change: Value| json!({"spec": {"template": {"spec": change}}});
    let main = |mut change: Value| {
        change["name"] = json!("main");
        pods(json!({"containers": [change]}))
    };
    let probe = json!({"httpGet": {"path": "/", "port": 81}});
    let emptied = json!({"name": "tmp", "emptyDir": {}});
    vec![
        (
            MORE_DEPLOYMENT,
            pods(json!({"containers": [{"name": "extra", "image": "x:1"}]})),
            "containers[name=extra]",
        ),
        (
            MORE_DEPLOYMENT,
            pods(json!({"initContainers": [{"name": "extra", "image": "x:1"}]})),
            "/initContainers",
        ),
        (MORE_DEPLOYMENT, main(json!({"securityContext": {"privileged": true}})), "/securityContext"),
        (MORE_DEPLOYMENT, pods(json!({"hostNetwork": true})), "/hostNetwork"),
        (MORE_DEPLOYMENT, pods(json!({"serviceAccountName": "admin"})), "/serviceAccountName"),
        (MORE_DEPLOYMENT, pods(json!({"nodeSelector": {"disk": "ssd"}})), "/nodeSelector"),
        (MORE_DEPLOYMENT, pods(json!({"volumes": [emptied]})), "/volumes"),
        (MORE_DEPLOYMENT, main(json!({"livenessProbe": probe})), "/livenessProbe"),
        (MORE_DEPLOYMENT, main(json!({"resources": {"limits": {"cpu": "2"}}})), "/resources"),
        (MORE_DEPLOYMENT, main(json!({"env": [{"name": "DEBUG", "value": "1"}]})), "env[name=DEBUG]"),
        (MORE_DEPLOYMENT, main(json!({"env": [{"name": "MODE", "value": "b"}]})), "env[name=MODE]/value"),
        (
            MORE_DEPLOYMENT,
            main(json!({"ports": [{"$patch": "replace"}, {"name": "http", "containerPort": 80}]})),
            "ports[containerPort=80,protocol=TCP]",
        ),
        (
            MORE_DEPLOYMENT,
            json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}),
            "/strategy",
        ),
        (MORE_DEPLOYMENT, json!({"spec": {"paused": true}}), "/paused"),
        (MORE_DEPLOYMENT, json!({"metadata": {"finalizers": ["example.com/hold"]}}), "/metadata/finalizers"),
        (MORE_DEPLOYMENT, json!({"metadata": {"labels": {"team": "x"}}}), "/metadata/labels/team"),
        (MORE_DEPLOYMENT, json!({"metadata": {"annotations": {"note": "x"}}}), "/metadata/annotations"),
        (MORE_SERVICE, json!({"spec": {"type": "NodePort"}}), "/spec/type"),
        (
            MORE_SERVICE,
            json!({"spec": {"ports": [{"$patch": "replace"}, {"name": "http", "port": 83, "targetPort": 8080}]}}),
            "ports[port=83,protocol=TCP]",
        ),
        (MORE_SERVICE, json!({"spec": {"sessionAffinity": "ClientIP"}}), "/spec/sessionAffinity"),
        (MORE_CONFIG, json!({"data": {"x": "1"}}), "/data/x"),
        (
            MORE_CONFIG,
            json!({"metadata": {"labels": {"applyset.kubernetes.io/part-of": null}}}),
            "/metadata/labels",
        ),
        (
            MORE_CONFIG,
            json!({"metadata": {"labels": {"applyset.kubernetes.io/part-of": "applyset-of-somebody"}}}),
            "applyset.kubernetes.io~1part-of",
        ),
    ]
}

#[test]
fn what_people_change_is_reported_and_put_back_in_place() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", MORE);
    sandbox.apply("").code(0);
    for (path, change, part) in manual_changes() {
        let before = sandbox.get("m1", path);
        edit(&sandbox, "kubectl-edit", path, &change);
        let ran = sandbox.run("drift", "-o json");
        let found = reported(&ran);
        assert!(ran.code == 1 && found.len() == 1 && found[0].contains(part), "{change}: {found:?}");
        let corrected = sandbox.run("drift", "--correct -o json").code(0);
        assert_eq!(actions(&corrected)[0]["outcome"], "done", "{change}: {corrected:#?}");
        let after = sandbox.get("m1", path);
        let plain = |object: &Value| {
            let metadata =
                ["labels", "annotations", "finalizers", "uid"].map(|key| object["metadata"][key].clone());
            (object["spec"].clone(), object["data"].clone(), metadata)
        };
        assert_eq!(plain(&after).0, plain(&before).0, "{change}");
        assert_eq!(plain(&after).1, plain(&before).1, "{change}");
        let known = |object: &Value| {
            let mut metadata = plain(object).2;
            if let Some(annotations) = metadata[1].as_object_mut() {
                annotations.retain(|key, _| key != "deployment.kubernetes.io/revision");
            }
            // A controller may have written the first one meanwhile.
            if metadata[1] == json!({}) {
                metadata[1] = Value::Null;
            }
            metadata
        };
        assert_eq!(known(&after), known(&before), "{change}");
        sandbox.run("drift", "").code(0);
    }
}

#[test]
fn what_people_change_is_applied_over_unless_it_is_kept() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", MORE);
    sandbox.apply("").code(0);
    let service = sandbox.get("m1", MORE_SERVICE);
    let port =
        json!({"spec": {"ports": [{"$patch": "replace"}, {"name": "http", "port": 83, "targetPort": 8080}]}});
    edit(&sandbox, "kubectl-edit", MORE_SERVICE, &port);
    edit(&sandbox, "kubectl-patch", MORE_CONFIG, &json!({"data": {"x": "1"}}));
    edit(&sandbox, "operator", MORE_CONFIG, &json!({"data": {"y": "1"}}));
    // No object may have two ports of one name.
    let kept = sandbox.apply("--no-take-over").code(2);
    assert!(kept.err.contains("Duplicate value: \"http\""), "{kept:#?}");
    assert_eq!(sandbox.get("m1", MORE_CONFIG)["data"], json!({"k": "v", "x": "1", "y": "1"}));
    let dry = sandbox.apply("--dry-run=server -o json").code(0);
    assert_eq!(dry.action("m1", "Service", "more")["action"], "update");
    assert_eq!(sandbox.get("m1", MORE_SERVICE)["spec"]["ports"][0]["port"], 83);
    sandbox.apply("").code(0);
    let after = sandbox.get("m1", MORE_SERVICE);
    assert_eq!(after["spec"], service["spec"]);
    assert_eq!(after["metadata"]["uid"], service["metadata"]["uid"]);
    assert_eq!(sandbox.get("m1", MORE_CONFIG)["data"], json!({"k": "v", "y": "1"}));
    sandbox.forget("m1");
    sandbox.apply("").code(0);
    sandbox.wrote("m1", 0);
}

#[test]
fn apply_leaves_what_drift_ignores_on_servers() {
    let ignore = json!({"ignore": [{"paths": ["/spec/replicas", "/data/x"]}]});
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", MORE).setting("drift", &ignore);
    sandbox.apply("").code(0);
    edit(&sandbox, "kubectl-edit", MORE_DEPLOYMENT, &json!({"spec": {"replicas": 3, "paused": true}}));
    edit(&sandbox, "kubectl-edit", MORE_CONFIG, &json!({"data": {"x": "1"}}));
    sandbox.write("more.yaml", &MORE.replace("nginx:1.27", "nginx:1.28"));
    sandbox.apply("").code(0);
    let spec = sandbox.get("m1", MORE_DEPLOYMENT)["spec"].clone();
    assert_eq!(spec["replicas"], 3);
    assert_eq!(spec.get("paused"), None);
    assert_eq!(spec["template"]["spec"]["containers"][0]["image"], "nginx:1.28");
    assert_eq!(sandbox.get("m1", MORE_CONFIG)["data"], json!({"k": "v", "x": "1"}));
    sandbox.forget("m1");
    sandbox.apply("").code(0);
    sandbox.wrote("m1", 0);
    sandbox.run("drift", "").code(0);
}

#[test]
fn quantities_in_another_spelling_are_unchanged() {
    let limits =
        "resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: '0.5', memory: 524288Ki}}";
    let text = MORE.replace("image: nginx:1.27", &format!("image: nginx:1.27\n        {limits}"));
    let quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: more, namespace: shop}\nspec: {hard: {cpu: 2000m, \
                 pods: '10'}}\n---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: more, namespace: shop}\nspec: {limits: \
                 [{type: Container, max: {memory: 2048Mi}}]}\n";
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", &(text + quota));
    sandbox.apply("").code(0);
    // The controllers have written what they write.
    sandbox.apply("").code(0);
    sandbox.run("drift", "").code(0);
    for mode in ["--dry-run=client -o json", "--dry-run=server -o json"] {
        let ran = sandbox.apply(mode).code(0);
        for kind in ["Deployment", "ResourceQuota", "LimitRange"] {
            assert_eq!(ran.action("m1", kind, "more")["action"], "unchanged", "{mode}");
        }
    }
}

#[test]
fn a_full_report_separates_people_controllers_and_defaults() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    sandbox.apply("").code(0);
    edit(
        &sandbox,
        "kubectl-edit",
        WEB,
        &json!({"metadata": {"labels": {"by": "hand"}}, "spec": {"replicas": 7}}),
    );
    edit(&sandbox, "autoscaler", WEB, &json!({"metadata": {"annotations": {"by": "controller"}}}));
    let ran = sandbox.run("drift", "--full").code(1);
    let begin = ran.out.find("Deployment shop/web").unwrap_or_else(|| panic!("{ran:#?}"));
    let lines: Vec<&str> = ran.out[begin..].lines().map(str::trim).collect();
    let place = |text: &str| {
        lines.iter().position(|line| line.starts_with(text)).unwrap_or_else(|| panic!("{text}: {ran:#?}"))
    };
    let order = [
        "people:",
        "/metadata/labels/by: not rendered → live \"hand\", added by kubectl-edit at 20",
        "controllers:",
        "/metadata/annotations",
        "defaults and the API server:",
        "/spec/progressDeadlineSeconds: not rendered → live 600",
    ];
    assert!(order.map(place).is_sorted(), "{ran:#?}");
    // The controller manager of a real cluster adds its own beside it.
    assert!(lines[place("/metadata/annotations")].contains(", added by "), "{ran:#?}");
    let people = place("people:")..place("controllers:");
    assert!(
        people.contains(&place("/spec/replicas: rendered 2 → live 7, changed by kubectl-edit")),
        "{ran:#?}"
    );
    // Otherwise only what is drift is shown.
    let short = sandbox.run("drift", "").code(1);
    assert!(
        short.out.contains("/metadata/labels/by") && !short.out.contains("/metadata/annotations"),
        "{short:#?}"
    );
}
