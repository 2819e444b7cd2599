//! `federate drift`, from dumps of the clusters.

use crate::sandbox::Sandbox;

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
        "manager": "kubectl-edit", "time": "2026-01-02T03:04:05Z"});
    assert_eq!(action["diffs"], serde_json::json!([diff]));
    assert_eq!(action["restartsPods"], false);
    assert_eq!(json["actions"].as_array().unwrap().len(), 1);
    let table = sandbox.run("drift --observed .live").code(1).out;
    assert!(table.contains("/spec/replicas: 7 → 2 (kubectl-edit, 2026-01-02T03:04:05Z)"), "{table}");
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
    assert!(sandbox.run("drift --observed .live --full").code(1).out.contains("/spec/replicas: 7 → 2"));
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
    assert!(ran.out.contains("/spec/replicas: 7 → 2"), "{ran:#?}");
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
    federate_engine::change::hide(
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
