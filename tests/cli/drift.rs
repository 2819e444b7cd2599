//! `federate drift`, from dumps of the clusters.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use federate_apiserver_model::{ResourceKind, WriteOptions, apply_object, complete_object, update_managers};
use federate_reconcile::ApplySet;

/// One cluster, and policies that send everything to it.
const NORTH: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: north}
spec: {syncMode: Push}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: p}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Service}
  - {apiVersion: v1, kind: ConfigMap}
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler}
  - {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration}
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}
  - {apiVersion: apiregistration.k8s.io/v1, kind: APIService}
  placement: {clusterAffinity: {clusterNames: [north]}}
";

/// A write to an object of a dump.
fn write<'w>(kind: &'w ResourceKind, manager: &'w str) -> WriteOptions<'w> {
    WriteOptions { kind, manager, subresource: None, force: true, now: "2026-01-02T03:04:05Z" }
}

fn kind_of(object: &Value) -> ResourceKind {
    let text = |key: &str| object[key].as_str().unwrap();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let namespaced = object["metadata"]["namespace"].is_string();
    ResourceKind::find_builtin(version, kind)
        .cloned()
        .unwrap_or_else(|| ResourceKind::without_schema(version, kind, namespaced))
}

/// The object after federate has applied it.
fn managed(object: &Value) -> Value {
    let set = ApplySet { namespace: "default".into(), name: "federate".into() };
    let mut labelled = object.clone();
    labelled["metadata"]["labels"]["applyset.kubernetes.io/part-of"] = set.compute_id().into();
    let mut live = apply_object(None, &labelled, &write(&kind_of(object), "federate")).unwrap();
    live["metadata"]["uid"] = json!("u");
    live["metadata"]["resourceVersion"] = json!("7");
    live
}

/// The object after another client has changed it.
fn changed(live: &Value, manager: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut object = live.clone();
    change(&mut object);
    let kind = kind_of(live);
    update_managers(Some(live), &complete_object(&kind, object), &write(&kind, manager))
}

/// A repo with an object, and a dump with what has become of it.
fn north(object: &Value, live: &Value) -> Sandbox {
    let sandbox = Sandbox::new().file("north.yaml", NORTH).file("object.yaml", object.to_string());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let all = json!({"apiVersion": "v1", "kind": "List", "items": [managed(&namespace), live]});
    sandbox.file(".live/north/live.json", all.to_string())
}

/// The paths that drift reports.
#[track_caller]
fn drifted(sandbox: &Sandbox, arguments: &str) -> Vec<String> {
    let ran = sandbox.run(&format!("drift --observed .live -o json {arguments}"));
    let json = ran.json();
    let actions = json["actions"].as_array().unwrap();
    let paths: Vec<String> = actions
        .iter()
        .flat_map(|action| action["diffs"].as_array().unwrap())
        .map(|diff| diff["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ran.code, i32::from(!paths.is_empty()), "{ran:#?}");
    paths
}

/// A Deployment as an API server returns it, applied by `manager` with `operation`.
fn live(manager: &str, operation: &str, replicas: u32, more: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: 3b0d5cb9-7a05-4d4c-9d0e-3f0d0bd4d6f1
  resourceVersion: \"7\"
  generation: 1
  managedFields:
  - manager: {manager}
    operation: {operation}
    apiVersion: apps/v1
    time: \"2026-01-02T03:04:05Z\"
    fieldsType: FieldsV1
    fieldsV1: {{f:spec: {{f:replicas: {{}}, f:selector: {{}}, f:template: {{f:metadata: {{f:labels: {{f:app: {{}}}}}}, f:spec: {{f:containers: {{'k:{{\"name\":\"web\"}}': {{.: {{}}, f:name: {{}}, f:image: {{}}}}}}}}}}}}}}
{more}spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: web}}
  template:
    metadata:
      labels: {{app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1.27
"
    )
}

fn dumped(first: &str, second: &str) -> Sandbox {
    Sandbox::web().file(".live/m1/web.yaml", first).file(".live/m2/web.yaml", second)
}

#[test]
fn what_runs_as_rendered_has_not_drifted() {
    let applied = live("federate", "Apply", 2, "");
    let sandbox = dumped(&applied, &applied);
    let ran = sandbox.run("drift --observed .live").code(0);
    assert_eq!(ran.out, "no drift\n");
}

#[test]
fn drift_names_field_and_culprit() {
    let edited = live("kubectl-edit", "Update", 7, "");
    let sandbox = dumped(&edited, &live("federate", "Apply", 2, ""));
    let json = sandbox.run("drift --observed .live -o json").code(1).json();
    assert_eq!(json["kind"], "Actions");
    let action = &json["actions"][0];
    assert_eq!((&action["cluster"], &action["action"]), (&"m1".into(), &"update".into()));
    let diff = serde_json::json!({"path": "/spec/replicas", "desired": 2, "live": 7,
        "manager": "kubectl-edit", "time": "2026-01-02T03:04:05Z", "writer": "person"});
    assert_eq!(action["diffs"], serde_json::json!([diff]));
    assert_eq!(action["restartsPods"], false);
    assert_eq!(json["actions"].as_array().unwrap().len(), 1);
    let table = sandbox.run("drift --observed .live").code(1).out;
    assert!(
        table
            .contains("/spec/replicas: rendered 2 → live 7, changed by kubectl-edit at 2026-01-02T03:04:05Z"),
        "{table}"
    );
    assert!(table.contains("changed by: kubectl-edit (1 field)\nin: m1 (1 object)\n"), "{table}");
    let yaml = sandbox.run("drift --observed .live -o yaml").code(1).out;
    assert!(yaml.contains("manager: kubectl-edit"), "{yaml}");
    let markdown = sandbox.run("drift --observed .live -o markdown").code(1).out;
    assert!(
        markdown.contains("| m1 | Deployment shop/web | /spec/replicas | 2 | 7 | kubectl-edit |"),
        "{markdown}"
    );
    let junit = sandbox.run("drift --observed .live -o junit").code(1).out;
    assert!(junit.contains("<testcase classname=\"m1\" name=\"Deployment shop/web\">"), "{junit}");
    sandbox.write(
        "federate.yaml",
        "drift: {ignore: [{kinds: [Deployment], paths: [/spec/replicas], managers: [kubectl-edit]}]}\n",
    );
    sandbox.run("drift --observed .live").code(0);
}

#[test]
fn missing_objects_are_drift_and_autoscaled_replicas_are_not() {
    let scaled = live("federate", "Apply", 7, "");
    let scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\n\
                  spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n";
    let sandbox = Sandbox::web().file(".live/m1/web.yaml", scaled).file(".live/m1/hpa.yaml", scaler);
    std::fs::create_dir_all(sandbox.path(".live/m2")).unwrap();
    let out = sandbox.run("drift --observed .live").code(1).out;
    assert!(out.starts_with("m2  create     Deployment shop/web  it is missing\n"), "{out}");
    let full = sandbox.run("drift --observed .live --full").code(1).out;
    assert!(full.contains("/spec/replicas: rendered 2 → live 7"), "{full}");
    assert!(full.contains("defaults and the API server:\n"), "{full}");
}

#[test]
fn a_dump_cannot_be_corrected() {
    let sandbox = dumped(&live("federate", "Apply", 2, ""), "");
    let said = sandbox.run("drift --observed .live --correct").code(2).err;
    assert!(said.contains("--observed reads a dump"), "{said}");
    let said = sandbox.run("drift --observed .live --prune-limit 100").code(2).err;
    assert!(said.contains("prune flags need --correct"), "{said}");
    let said = sandbox.run("drift --kubeconfig nowhere").code(2).err;
    assert!(said.contains("the kubeconfig"), "{said}");
}

/// An entry of `drift.ignore`, and whether drift remains.
#[test]
fn rules_leave_out_what_they_name() {
    let edited = live("kubectl-edit", "Update", 7, "").replace("nginx:1.27", "nginx:1.0");
    let sandbox = dumped(&edited, &live("federate", "Apply", 2, ""));
    let both = ["/spec/replicas", "/spec/template/spec/containers[name=web]/image"];
    let image = "/spec/template/spec/containers/0/image";
    for (rule, left) in [
        ("{kinds: [StatefulSet]}".to_owned(), &both[..]),
        ("{kinds: [Deployment.apps]}".to_owned(), &[]),
        ("{kinds: [Deployment.extensions]}".to_owned(), &both),
        ("{names: [shop/web]}".to_owned(), &[]),
        ("{names: [web], managers: [federate]}".to_owned(), &both),
        ("{managers: [kubectl-edit]}".to_owned(), &[]),
        ("{paths: [/spec/template]}".to_owned(), &both[..1]),
        ("{paths: [/spec/temp]}".to_owned(), &both),
        ("{paths: ['/spec/template/spec/containers[name=web]']}".to_owned(), &both[..1]),
        (format!("{{paths: [{image}]}}"), &both[..1]),
        (format!("{{paths: [{}]}}", image.replace('0', "1")), &both),
        ("{paths: [/spec]}".to_owned(), &[]),
    ] {
        sandbox.write("federate.yaml", format!("drift: {{ignore: [{rule}]}}\n"));
        let json = sandbox.run("drift --observed .live -o json").json();
        let diffs = json["actions"][0]["diffs"].as_array().cloned().unwrap_or_default();
        let paths: Vec<&str> = diffs.iter().map(|diff| diff["path"].as_str().unwrap()).collect();
        assert_eq!(paths, left, "{rule}");
    }
    // A missing object has no fields and no manager.
    std::fs::remove_file(sandbox.path(".live/m1/web.yaml")).unwrap();
    for (rule, code) in [("{names: [web]}", 0), ("{names: [web], paths: [/spec]}", 1), ("{managers: [x]}", 1)]
    {
        sandbox.write("federate.yaml", format!("drift: {{ignore: [{rule}]}}\n"));
        sandbox.run("drift --observed .live").code(code);
    }
}

#[test]
fn labels_that_are_all_gone_are_drift() {
    let applied = live("federate", "Apply", 2, "");
    let sandbox = dumped(&applied, &applied);
    let labelled =
        crate::sandbox::WEB.replace("metadata:\n  name: web", "metadata:\n  labels: {team: a}\n  name: web");
    sandbox.write("web.yaml", labelled);
    let json = sandbox.run("drift --observed .live -o json").code(1).json();
    let diff = &json["actions"][0]["diffs"][0];
    assert_eq!(
        (&diff["path"], &diff["desired"]),
        (&"/metadata/labels".into(), &serde_json::json!({"team": "a"}))
    );
}

#[test]
fn errors_of_the_repo_win() {
    let applied = live("federate", "Apply", 2, "");
    let sandbox = dumped(&applied, &live("kubectl-edit", "Update", 7, ""));
    sandbox.write("broken.yaml", "kind: [\n");
    let ran = sandbox.run("drift --observed .live").code(2);
    assert!(ran.out.is_empty() && ran.err.contains("nothing was compared"), "{ran:#?}");
    let ran = sandbox.run("drift --observed .live --keep-going").code(2);
    assert!(ran.out.contains("/spec/replicas: rendered 2 → live 7"), "{ran:#?}");
}

#[test]
fn secrets_drift_without_being_shown() {
    let secret = |value: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: shop}}\nstringData: {{password: {value}}}\n"
        )
    };
    let sandbox = Sandbox::web().file("secret.yaml", secret("hunter2-wanted"));
    sandbox.write(
        "secrets.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: s, namespace: shop}\nspec:\n  \
         resourceSelectors: [{apiVersion: v1, kind: Secret}]\n",
    );
    sandbox.write(".live/m1/s.yaml", secret("hunter2-live"));
    std::fs::create_dir_all(sandbox.path(".live/m2")).unwrap();
    for output in ["table", "json", "yaml", "markdown", "junit"] {
        let ran = sandbox.run(&format!("drift --observed .live -o {output}")).code(1);
        let all = ran.out + &ran.err;
        assert!(all.contains("password") && !all.contains("hunter2"), "{all}");
        for encoded in ["aHVudGVyMi13YW50ZWQ", "aHVudGVyMi1saXZl"] {
            assert!(!all.contains(encoded), "{all}");
        }
    }
}

/// A snapshot has digests of the values of Secrets. They are compared with the rendered values by the same key.
#[test]
fn digests_of_secrets_are_compared() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {password: hunter2hunter2}\n";
    let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: s, namespace: shop}\nspec:\n  \
         resourceSelectors: [{apiVersion: v1, kind: Secret}]\n";
    let mut live = serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"},
        "type": "Opaque", "data": {"password": "aHVudGVyMmh1bnRlcjI="}});
    federate_engine::change::hide_secret_values(
        &mut [&mut live],
        &federate_engine::change::DigestKey::new(b"the key of this test"),
    );
    assert!(live["data"]["password"].as_str().unwrap().starts_with("<secret "), "{live}");
    let repo = Sandbox::new().file("clusters.yaml", crate::sandbox::CLUSTERS).file("policy.yaml", policy);
    repo.write("secret.yaml", secret);
    for cluster in ["m1", "m2"] {
        repo.write(&format!(".live/{cluster}/shop.json"), live.to_string());
    }
    let run = |key: &str| {
        let output = repo.command("drift --observed .live").env("FEDERATE_DIGEST_KEY", key).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = run("the key of this test");
    assert_eq!((code, err.contains("not compared")), (Some(0), false), "{out}{err}");
    let (code, out, err) = run("");
    assert_eq!((code, err.contains("values of Secrets are not compared")), (Some(0), true), "{out}{err}");
    repo.write("secret.yaml", secret.replace("hunter2hunter2", "hunter3hunter3"));
    let (code, out, err) = run("the key of this test");
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("/data/password") && !out.contains("hunter"), "{out}");
}

#[test]
fn an_edited_port_is_put_back_without_replacing_the_object() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    let edited =
        changed(&managed(&service), "kubectl-edit", |live| live["spec"]["ports"][0]["port"] = json!(83));
    let sandbox = north(&service, &edited);
    let both = ["/spec/ports[port=80,protocol=TCP]", "/spec/ports[port=83,protocol=TCP]"];
    assert_eq!(drifted(&sandbox, ""), both);
    let json = sandbox.run("apply --dry-run=client --observed .live -o json").code(0).json();
    let action =
        json["actions"].as_array().unwrap().iter().find(|a| a["object"]["kind"] == "Service").unwrap();
    assert_eq!(action["action"], "update");
    assert_eq!(action["result"]["spec"]["ports"].as_array().unwrap().len(), 1);
    assert_eq!(action["result"]["spec"]["ports"][0]["port"], 80);

    // Where the field stays with kubectl, the API server would refuse the second port of the name.
    let ran = sandbox.run("apply --dry-run=client --observed .live --no-take-over").code(2);
    assert!(ran.out.contains("spec.ports[1].name: Duplicate value"), "{ran:#?}");
}

#[test]
fn predictions_refuse_ports_of_one_name_in_a_container() {
    let web = |port: u16| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1", "ports": [{"name": "http", "containerPort": port}]}]}}}})
    };
    let edit = |manager: &str| {
        let port = "/spec/template/spec/containers/0/ports/0/containerPort";
        let edited =
            changed(&managed(&web(81)), manager, |live| *live.pointer_mut(port).unwrap() = json!(80));
        north(&web(81), &edited)
    };
    let list = "/spec/template/spec/containers[name=web]/ports";
    let both = [81, 80].map(|port| format!("{list}[containerPort={port},protocol=TCP]"));
    assert_eq!(drifted(&edit("kubectl-edit"), ""), both);
    // The port of a controller stays.
    let ran = edit("operator").run("apply --dry-run=client --observed .live").code(2);
    assert!(
        ran.out.contains("spec.template.spec.containers[0].ports[1].name: Duplicate value: \"http\""),
        "{ran:#?}"
    );
}

/// Who has added a field, and whether it is drift.
#[test]
fn what_people_add_is_drift_and_what_controllers_add_is_not() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}, "data": {"k": "v"}});
    let added = |manager: &str| {
        north(&config, &changed(&managed(&config), manager, |live| live["data"]["x"] = json!("1")))
    };
    for person in [
        "kubectl-edit",
        "kubectl",
        "kubectl-patch",
        "kubectl-client-side-apply",
        "Mozilla",
        "OpenLens",
        "k9s",
    ] {
        assert_eq!(drifted(&added(person), ""), ["/data/x"], "{person}");
        assert!(drifted(&added(person), "--no-take-over").is_empty(), "{person}");
    }
    for controller in ["kube-controller-manager", "webhook", "external-secrets", "argocd-controller"] {
        assert!(drifted(&added(controller), "").is_empty(), "{controller}");
    }
    // The list can be another one.
    let sandbox = added("deployer");
    sandbox.write("federate.yaml", "drift: {people: [deploy*]}\n");
    assert_eq!(drifted(&sandbox, ""), ["/data/x"]);
    let sandbox = added("kubectl-edit");
    sandbox.write("federate.yaml", "drift: {people: []}\n");
    assert!(drifted(&sandbox, "").is_empty());
    // A setting keeps it from being removed by apply; drift reports it anyway.
    sandbox.write("federate.yaml", "apply: {noTakeOver: true}\n");
    assert_eq!(drifted(&sandbox, ""), ["/data/x"]);
    let actions = |sandbox: &Sandbox| {
        sandbox.run("apply --dry-run=client --observed .live").code(0).out.contains("/data/x")
    };
    assert!(!actions(&sandbox));
    sandbox.write("federate.yaml", "{}\n");
    assert!(actions(&sandbox));
}

#[test]
fn requests_and_replicas_that_git_leaves_to_others_are_no_drift() {
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1"}]}}}});
    let restarted = changed(&managed(&web), "kubectl-rollout", |live| {
        live["spec"]["template"]["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/restartedAt": "now"});
    });
    let scaled = changed(&restarted, "kubectl-edit", |live| live["spec"]["replicas"] = json!(4));
    let noted = changed(&scaled, "rancher", |live| {
        live["metadata"]["annotations"] = json!({"field.cattle.io/publicEndpoints": "[]"});
    });
    assert!(drifted(&north(&web, &noted), "").is_empty());
    // What else people have added beside them is removed alone.
    let more = changed(&noted, "kubectl-edit", |live| {
        live["spec"]["template"]["metadata"]["annotations"]["note"] = json!("by hand");
    });
    let sandbox = north(&web, &more);
    assert_eq!(drifted(&sandbox, ""), ["/spec/template/metadata/annotations/note"]);
    let json = sandbox.run("apply --dry-run=client --observed .live -o json").code(0).json();
    let action =
        json["actions"].as_array().unwrap().iter().find(|a| a["object"]["kind"] == "Deployment").unwrap();
    assert_eq!(action["result"]["spec"]["replicas"], 4);
    let annotations = &action["result"]["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations, &json!({"kubectl.kubernetes.io/restartedAt": "now"}));
}

#[test]
fn injected_certificates_are_never_reset() {
    let webhook = |metadata: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": metadata, "webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"service": {"name": "guard", "namespace": "shop"}, "caBundle": "Cg=="}}]})
    };
    let service = |metadata: Value| {
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata,
            "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
                "service": {"name": "api", "namespace": "shop"}, "caBundle": "b2xk"}})
    };
    let named =
        |annotation: &str, value: &str| json!({"name": "v1.example.com", "annotations": {annotation: value}});
    let injected = "TUlJQ3JlYWw=";
    let cases = [
        (webhook(named("cert-manager.io/inject-ca-from", "shop/guard")), "/webhooks/0/clientConfig/caBundle"),
        (
            webhook(named("cert-manager.io/inject-ca-from-secret", "shop/guard")),
            "/webhooks/0/clientConfig/caBundle",
        ),
        // A placeholder is one also without an annotation.
        (webhook(json!({"name": "guard"})), "/webhooks/0/clientConfig/caBundle"),
        (service(named("service.beta.openshift.io/inject-cabundle", "true")), "/spec/caBundle"),
        (service(named("cert-manager.io/inject-apiserver-ca", "true")), "/spec/caBundle"),
    ];
    for (object, pointer) in cases {
        let (parent, _) = pointer.rsplit_once('/').unwrap();
        let live = changed(&managed(&object), "cert-manager-cainjector", |live| {
            live.pointer_mut(parent).unwrap()["caBundle"] = json!(injected);
        });
        let sandbox = north(&object, &live);
        assert!(drifted(&sandbox, "").is_empty(), "{object}");
        let json = sandbox.run("apply --dry-run=client --observed .live -o json").code(0).json();
        let name = &object["metadata"]["name"];
        let action =
            json["actions"].as_array().unwrap().iter().find(|a| a["object"]["name"] == *name).unwrap();
        assert_eq!(action["diffs"], json!([]), "{action}");
        assert_eq!(action["result"].pointer(pointer), Some(&json!(injected)), "{action}");
    }
    // A certificate of the repo itself is one.
    let object = service(json!({"name": "v1.example.com"}));
    let live = changed(&managed(&object), "somebody", |live| live["spec"]["caBundle"] = json!(injected));
    assert_eq!(drifted(&north(&object, &live), ""), ["/spec/caBundle"]);
}

#[test]
fn a_dump_in_another_version_is_converted_or_not_compared() {
    let scaler = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"minReplicas": 1, "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 80, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    let dumped = |use_of_cpu: u8, version: &str| {
        let mut live = managed(&scaler);
        live["apiVersion"] = json!(format!("autoscaling/{version}"));
        let spec = live["spec"].as_object_mut().unwrap();
        spec.remove("targetCPUUtilizationPercentage");
        spec.insert(
            "metrics".into(),
            json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": use_of_cpu}}}]),
        );
        north(&scaler, &live)
    };
    assert!(drifted(&dumped(80, "v2"), "").is_empty());
    assert_eq!(drifted(&dumped(50, "v2"), ""), ["/spec/targetCPUUtilizationPercentage"]);
    let ran = dumped(80, "v2beta1").run("drift --observed .live").code(2);
    assert!(ran.err.contains("`kubectl get horizontalpodautoscalers.v1.autoscaling -o yaml`"), "{ran:#?}");
}

#[test]
fn clusters_without_a_dump_are_named_and_an_error() {
    let applied = live("federate", "Apply", 2, "");
    let sandbox = Sandbox::web().file(".live/m1/web.yaml", &applied);
    for output in ["table", "markdown", "junit", "json"] {
        let ran = sandbox.run(&format!("drift --observed .live -o {output}")).code(2);
        assert!(ran.out.contains("m2") && ran.err.contains("error: m2: there is no dump of it"), "{ran:#?}");
        assert!(!ran.out.contains("no drift\n"), "{ran:#?}");
    }
    sandbox.run("drift --observed .live --cluster m1").code(0);
    std::fs::create_dir_all(sandbox.path(".live/m2")).unwrap();
    sandbox.run("drift --observed .live").code(1);
}

#[test]
fn equal_changes_are_one_entry() {
    let edited = live("kubectl-edit", "Update", 7, "");
    let later = edited.replace("03:04:05Z", "04:00:00Z");
    let sandbox = dumped(&edited, &later);
    let table = sandbox.run("drift --observed .live").code(1).out;
    assert!(table.starts_with("m1, m2  update     Deployment shop/web\n"), "{table}");
    let times = "changed by kubectl-edit from 2026-01-02T03:04:05Z to 2026-01-02T04:00:00Z";
    assert!(table.contains(times), "{table}");
    assert!(table.contains("2 objects drifted in 2 clusters"), "{table}");
    sandbox.write(".live/m2/web.yaml", edited.replace("replicas: 7", "replicas: 8"));
    let table = sandbox.run("drift --observed .live").code(1).out;
    assert!(table.contains("live 7") && table.contains("live 8"), "{table}");
}

#[test]
fn a_comment_about_drift_fits() {
    let sandbox = Sandbox::new().file("north.yaml", NORTH);
    let mut items =
        vec![managed(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))];
    for number in 0..700 {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("config-{number:03}"), "namespace": "shop"}, "data": {"k": "v"}});
        sandbox.write(&format!("{number}.yaml"), config.to_string());
        // The last one is gone.
        if number < 699 {
            items.push(changed(&managed(&config), "kubectl-edit", |live| {
                live["data"]["k"] = json!("w".repeat(60));
            }));
        }
    }
    sandbox.write(
        ".live/north/live.json",
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
    );
    let markdown = sandbox.run("drift --observed .live -o markdown").code(1).out;
    assert!(markdown.chars().count() <= 65_536, "{}", markdown.chars().count());
    assert!(markdown.contains("of 700 lines of “Drift”"), "{}", &markdown[markdown.len() - 300..]);
    assert!(markdown.contains("config-699") && markdown.contains("it is missing"), "what matters most stays");
}

#[test]
fn apply_leaves_what_drift_ignores() {
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1"}]}}}});
    let edited = changed(&managed(&web), "kubectl-edit", |live| {
        live["spec"]["replicas"] = json!(7);
        live["metadata"]["annotations"] = json!({"note": "by hand", "other": "1"});
        live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:0");
    });
    let sandbox = north(&web, &edited);
    let result = |sandbox: &Sandbox| {
        let json = sandbox.run("apply --dry-run=client --observed .live -o json").code(0).json();
        let actions = json["actions"].as_array().unwrap();
        actions.iter().find(|action| action["object"]["kind"] == "Deployment").unwrap()["result"].clone()
    };
    let image = "/spec/template/spec/containers/0/image";
    let rules = "ignore: [{paths: [/spec/replicas, /metadata/annotations/note]}]";
    sandbox.write("federate.yaml", format!("drift: {{{rules}}}\n"));
    let kept = result(&sandbox);
    assert_eq!((&kept["spec"]["replicas"], kept.pointer(image)), (&json!(7), Some(&json!("nginx:1"))));
    assert_eq!(kept["metadata"]["annotations"], json!({"note": "by hand"}));
    assert_eq!(drifted(&sandbox, "").len(), 2);
    sandbox.write("federate.yaml", format!("drift: {{{rules}}}\napply: {{resetIgnored: true}}\n"));
    let reset = result(&sandbox);
    assert_eq!(reset["spec"]["replicas"], 2);
    assert_eq!(reset["metadata"].get("annotations"), None);
    // A rule about whole objects is about the report alone.
    sandbox.write("federate.yaml", "drift: {ignore: [{kinds: [Deployment]}]}\n");
    assert_eq!(result(&sandbox)["spec"]["replicas"], 2);
}

#[test]
fn values_named_like_credentials_are_not_shown() {
    let config = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"db.password": value, "mode": "fast"},
            "metadata": {"name": "c", "namespace": "shop", "annotations": {"example.com/token": value}}})
    };
    let live = changed(&managed(&config("hunter2-rendered")), "kubectl-edit", |live| {
        live["data"]["db.password"] = json!("hunter2-live");
        live["data"]["api-key"] = json!("hunter2-added");
        live["metadata"]["annotations"]["example.com/token"] = json!("hunter2-live");
    });
    let sandbox = north(&config("hunter2-rendered"), &live);
    for arguments in ["-o table", "-o json", "-o yaml", "-o markdown", "-o junit", "--full"] {
        let ran = sandbox.run(&format!("drift --observed .live {arguments}")).code(1);
        let all = ran.out + &ran.err;
        assert!(all.contains("password") && !all.contains("hunter2"), "{arguments}: {all}");
    }
    for output in ["table", "json"] {
        let ran = sandbox.run(&format!("apply --dry-run=client --observed .live -o {output}")).code(0);
        assert!(!(ran.out + &ran.err).contains("hunter2"), "{output}");
    }
}

#[test]
fn drift_is_narrowed_to_namespaces_and_labels() {
    let edited = live("kubectl-edit", "Update", 7, "");
    let sandbox = dumped(&edited, &live("federate", "Apply", 2, ""));
    let drifted = |arguments: &str, code: i32| {
        let ran = sandbox.run(&format!("drift --observed .live -o json {arguments}")).code(code).json();
        ran["actions"].as_array().unwrap().len()
    };
    assert_eq!(drifted("-n shop", 1), 1);
    assert_eq!(drifted("-n other", 0), 0);
    assert_eq!(drifted("-l absent=label", 0), 0);
    assert_eq!(drifted("-l !absent", 1), 1);
}
