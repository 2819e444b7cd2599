//! Releases of a control plane: `dialects.karmada.version` and `--karmada-version`.

use serde_json::json;

use crate::sandbox::{CLUSTERS, Sandbox, WEB};

const WEIGHTED: &str = "\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [m1]}, weight: 1}
        - {targetCluster: {clusterNames: [m2]}, weight: 1}
";

fn repo(replicas: i64) -> Sandbox {
    let web = WEB.replace("replicas: 4", &format!("replicas: {replicas}"));
    Sandbox::new().file("web.yaml", web).file("clusters.yaml", CLUSTERS).file("policy.yaml", WEIGHTED)
}

#[test]
fn the_file_and_the_option_name_the_release_that_divides() {
    let repo = repo(5);
    // 5 over 1:1 is a tie: Webster's method uses the uid of the template, and older releases decide at
    // random.
    for arguments in ["plan -o json", "plan -o json --karmada-version 1.15"] {
        let plan = repo.run(arguments).code(0).json();
        let want = json!([{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 2}]);
        assert_eq!(plan["placements"][0]["clusters"], want);
    }
    let newest = repo.run("explain deployment/web -n shop").code(0);
    assert!(!newest.out.contains("by chance"), "{}", newest.out);
    let older = repo.run("explain deployment/web -n shop --karmada-version 1.15").code(0);
    let said = "Karmada 1.15.9 decides by chance which of m1, m2 get one more";
    assert!(older.out.contains(said), "{}", older.out);
    repo.write("federate.yaml", "dialects: {karmada: {version: \"1.14.3\"}}\n");
    let older = repo.run("explain deployment/web -n shop").code(0);
    assert!(older.out.contains("Karmada 1.14.3 decides by chance"), "{}", older.out);
    let newest = repo.run("explain deployment/web -n shop --karmada-version v1.19").code(0);
    assert!(!newest.out.contains("by chance"), "{}", newest.out);
}

#[test]
fn a_workload_scaled_to_zero_went_everywhere() {
    let repo = repo(0);
    let web = WEB.replace("replicas: 4", "replicas: 0");
    repo.write("web.yaml", web + "        resources: {requests: {cpu: 100m}}\n");
    let clusters = |arguments: &str| repo.run(arguments).code(0).json()["placements"][0]["clusters"].clone();
    assert_eq!(clusters("plan -o json --karmada-version 1.16"), json!([]));
    let everywhere = json!([{"name": "m1", "replicas": null}, {"name": "m2", "replicas": null}]);
    assert_eq!(clusters("plan -o json --karmada-version 1.15"), everywhere);
}

#[test]
fn a_version_that_is_not_known_is_refused_with_those_that_are() {
    let repo = repo(4);
    let ran = repo.run("plan --karmada-version 1.12").code(2);
    assert!(
        ran.err.contains("`1.12` is not a known release of Karmada; known are 1.13 (up to 1.13.10)"),
        "{}",
        ran.err
    );
    repo.write("federate.yaml", "dialects:\n  karmada:\n    version: \"1.12\"\n");
    let ran = repo.run("plan").code(2);
    assert!(ran.err.contains("federate.yaml:3"), "{}", ran.err);
    assert!(ran.err.contains("`1.12` is not a known release of Karmada"), "{}", ran.err);
    repo.write("federate.yaml", "dialects: {karmada: {version: 1.16}}\n");
    let ran = repo.run("plan").code(2);
    assert!(ran.err.contains("write it in quotes"), "{}", ran.err);
}

/// What was recorded of Karmada's main branch.
const MAIN: &str = "main (2026-08-21, before 1.19)";

/// There is one warning about a release that is not known, which names it and the one that decides.
#[track_caller]
fn assert_stand_in(err: &str, named: &str, rules: &str) {
    assert_eq!(err.matches("warning[unknown-release]").count(), 1, "{err}");
    assert!(err.contains(named) && err.contains(&format!("the rules of {rules} decide")), "{err}");
}

#[test]
fn a_release_that_came_out_after_federate_was_an_error() {
    let repo = repo(4);
    for (version, rules) in [
        ("1.18.9", "1.18.2"),
        ("v1.16.70", "1.16.8"),
        ("1.19", MAIN),
        ("1.19.0", MAIN),
        ("1.20.1-rc.0", MAIN),
        ("2.0", MAIN),
    ] {
        let named = format!("Karmada {} is newer", version.trim_start_matches('v'));
        repo.write("federate.yaml", format!("dialects:\n  karmada:\n    version: \"{version}\"\n"));
        let ran = repo.run("plan").code(0);
        assert_stand_in(&ran.err, &named, rules);
        assert!(ran.err.contains("federate.yaml:3"), "{}", ran.err);
        assert!(ran.out.ends_with(&format!(", by the rules of karmada {rules}\n")), "{}", ran.out);
        for command in ["check", "render --out out", "explain deployment/web -n shop", "whatif --lose m1"] {
            let ran = repo.run(command);
            assert_ne!(ran.code, 2, "{}", ran.err);
        }
        let checked = repo.run("check").code(1);
        assert_stand_in(&(checked.out + &checked.err), &named, rules);
        repo.write("federate.yaml", "");
        let ran = repo.run(&format!("plan --karmada-version {version}")).code(0);
        assert_stand_in(&ran.err, &named, rules);
        assert!(ran.out.ends_with(&format!(", by the rules of karmada {rules}\n")), "{}", ran.out);
        // A plan of that release is one of the release that stands in.
        repo.write("old.yaml", ran_plan(&repo).replace(MAIN, &format!("\"{version}\"")));
        let rules = if rules == MAIN { "main" } else { rules };
        assert_eq!(repo.run(&format!("plan --previous old.yaml --karmada-version {rules}")).code(0).err, "");
    }
    assert_eq!(repo.run("plan --karmada-version main").code(0).err, "");
    let ran =
        repo.run("diff --from-version karmada=1.18.9 --to-version karmada=1.19.1 --fresh -o json").code(0);
    assert_eq!(ran.err.matches("warning[unknown-release]").count(), 2, "{}", ran.err);
    assert_eq!(ran.json()["from"], "work tree, karmada 1.18.2");
    assert_eq!(ran.json()["to"], format!("work tree, karmada {MAIN}"));
    let fleet = Sandbox::new().file("fleet.yaml", FLEET);
    for (version, rules) in [("0.3.7", "0.3.1"), ("0.4", "main (2026-08-20, after 0.3.1)")] {
        fleet.write("federate.yaml", format!("dialects: {{kubefleet: {{version: \"{version}\"}}}}\n"));
        let ran = fleet.run("plan").code(0);
        assert_stand_in(&ran.err, &format!("KubeFleet {version} is newer"), rules);
    }
}

/// The plan as YAML.
fn ran_plan(repo: &Sandbox) -> String {
    repo.run("plan -o yaml").code(0).out
}

#[test]
fn a_field_that_the_release_does_not_have_is_ignored_and_named() {
    let repo = repo(4);
    let policy = WEIGHTED.replace(
        "  placement:\n",
        "  placement:\n    clusterAffinities:\n    - affinityName: first\n      clusterNames: [m1]\n      overflowAffinities: [{affinityName: more, clusterNames: [m2]}]\n",
    );
    repo.write("policy.yaml", policy);
    assert!(!repo.run("plan").err.contains("ignored-field"));
    let ran = repo.run("plan --karmada-version 1.17").code(0);
    assert!(ran.err.contains("warning[ignored-field]"), "{}", ran.err);
    assert!(ran.err.contains("policy.yaml:10"), "{}", ran.err);
    assert!(ran.err.contains("has no field `overflowAffinities` and drops it"), "{}", ran.err);
}

/// 14 replicas over 3:2:1, which Webster's method divides differently from the method before it.
fn three() -> Sandbox {
    let cluster = |name| {
        format!("---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\n")
    };
    let weights = WEIGHTED
        .replace("[m1]}, weight: 1", "[m1]}, weight: 3")
        .replace("[m2]}, weight: 1", "[m2]}, weight: 2")
        + "        - {targetCluster: {clusterNames: [m3]}, weight: 1}\n";
    let web = WEB.replace("replicas: 4", "replicas: 14");
    let clusters: String = ["m1", "m2", "m3"].into_iter().map(cluster).collect();
    Sandbox::new().file("web.yaml", web).file("clusters.yaml", clusters).file("policy.yaml", weights)
}

#[test]
fn an_upgrade_is_compared_before_it_is_done() {
    let repo = three();
    let upgrade = "diff --from-version karmada=1.15 --to-version karmada=1.18 -o json";
    let json = repo.run(upgrade).code(0).json();
    assert_eq!(json["placements"], json!([]), "what is placed stays");
    assert_eq!(
        (&json["from"], &json["to"]),
        (&json!("work tree, karmada 1.15.9"), &json!("work tree, karmada 1.18.2"))
    );
    let finding = &json["findings"][0];
    assert_eq!(finding["code"], "other-release");
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("decided by karmada 1.15.9, and this run uses the rules of 1.18.2"),
        "{message}"
    );
    assert!(message.contains("the division of replicas, ") && !message.contains("tolerations"), "{message}");
    let json = repo.run(&format!("{upgrade} --fresh")).code(1).json();
    assert_eq!(json["placements"].as_array().map(Vec::len), Some(1));
    let text = repo.run(&format!("{upgrade} --fresh").replace(" -o json", "")).code(1).out;
    assert!(text.contains("work tree, karmada 1.15.9 → work tree, karmada 1.18.2"), "{text}");
}

#[test]
fn releases_are_named_by_control_plane() {
    let repo = repo(4);
    for (named, said) in [
        ("karmada", "expected NAME=VERSION"),
        ("kubefed=1", "unknown control plane `kubefed`; releases can be chosen for karmada and kubefleet"),
        ("kubefleet=0.0", "`0.0` is not a known release of KubeFleet"),
    ] {
        let ran = repo.run(&format!("diff --to-version {named}")).code(2);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    let ran = repo.run("diff").code(2);
    assert!(ran.err.contains("is not in a git repository"), "{}", ran.err);
}

#[test]
fn the_plan_says_which_release_decided_and_is_read_by_another() {
    let repo = three();
    assert_eq!(repo.run("plan -o json").code(0).json()["versions"], json!({"karmada": MAIN}));
    let table = repo.run("plan --karmada-version 1.15").code(0).out;
    assert!(table.ends_with(", by the rules of karmada 1.15.9\n"), "{table}");
    let older = repo.run("plan -o yaml --karmada-version 1.15").code(0).out;
    assert!(older.contains("versions:\n  karmada: 1.15.9\n"), "{older}");
    repo.write("old.yaml", older);
    let same = repo.run("plan --previous old.yaml --karmada-version 1.15").code(0);
    assert_eq!(same.err, "");
    let ran = repo.run("plan -o json --previous old.yaml").code(0);
    assert!(ran.err.contains("warning[other-release]"), "{}", ran.err);
    let clusters = &ran.json()["placements"][0]["clusters"];
    assert_eq!(clusters[0], json!({"name": "m1", "replicas": 8}), "what is placed stays");
}

#[test]
fn an_installation_in_the_repo_names_the_release() {
    let deployment = |name: &str, image: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: system}}\nspec:\n  \
             selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    \
             spec: {{containers: [{{name: c, image: \"{image}\"}}]}}\n"
        )
    };
    let scheduler =
        |tag: &str| deployment("karmada-scheduler", &format!("docker.io/karmada/karmada-scheduler:{tag}"));
    let repo = three().file("hub/scheduler.yaml", scheduler("v1.15.3"));
    let release = |line: &str| repo.run(line).code(0).json()["versions"]["karmada"].clone();
    assert_eq!(release("plan -o json"), "1.15.3");
    assert_eq!(release("plan -o json --karmada-version 1.18.0"), "1.18.0");
    repo.write("federate.yaml", "dialects: {karmada: {version: \"1.16.1\"}}\n");
    assert_eq!(release("plan -o json"), "1.16.1");
    repo.write("federate.yaml", "");
    repo.write("hub/scheduler.yaml", scheduler("latest"));
    let ran = repo.run("plan -o json -v").code(0);
    assert!(ran.err.contains("warning[unknown-release]") && ran.err.contains("`latest`"), "{}", ran.err);
    assert_eq!(ran.json()["versions"]["karmada"], MAIN);
    repo.write("hub/scheduler.yaml", scheduler("v1.18.9"));
    let ran = repo.run("plan -o json").code(0);
    assert_stand_in(
        &ran.err,
        "the repo contains an installation of karmada: Karmada 1.18.9 is newer",
        "1.18.2",
    );
    assert_eq!(ran.json()["versions"]["karmada"], "1.18.2");
}

#[test]
fn a_region_without_room_crashed_the_scheduler() {
    let cluster = |name: &str, region: &str, pods: i64| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{region: {region}}}\nstatus:\n  apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment}}]}}]\n  resourceSummary: {{allocatable: {{pods: {pods}}}}}\n"
        )
    };
    let policy = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    spreadConstraints:
    - {spreadByField: region, minGroups: 1, maxGroups: 2}
    - {spreadByField: cluster, minGroups: 1, maxGroups: 2}
";
    let clusters = cluster("m1", "eu", 9) + &cluster("m2", "us", 1);
    let repo =
        Sandbox::new().file("web.yaml", WEB).file("clusters.yaml", clusters).file("policy.yaml", policy);
    for (version, crashes) in
        [("1.13", true), ("1.14.9", true), ("1.14.10", false), ("1.15.5", true), ("1.17", false)]
    {
        let ran = repo.run(&format!("plan -o json --karmada-version {version}")).code(0);
        assert_eq!(
            ran.err.contains("crashes: no cluster in region us can take 4 replicas"),
            crashes,
            "{version}: {}",
            ran.err
        );
    }
}

/// 9 completions over 3 and 1 pods: no tie, but older releases give them out by position.
#[test]
fn completions_by_position_are_chance() {
    let job = "\
apiVersion: batch/v1
kind: Job
metadata: {name: sums, namespace: shop}
spec:
  parallelism: 4
  completions: 9
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
";
    let policy = WEIGHTED
        .replace("{apiVersion: apps/v1, kind: Deployment, name: web}", "{apiVersion: batch/v1, kind: Job}")
        .replace("[m1]}, weight: 1", "[m1]}, weight: 3");
    let repo =
        Sandbox::new().file("job.yaml", job).file("clusters.yaml", CLUSTERS).file("policy.yaml", policy);
    let says = |version: &str| {
        let ran = repo.run(&format!("explain job/sums -n shop --karmada-version {version}")).code(0);
        ran.out.contains("gives completions out by the order of its own list of clusters")
    };
    assert_eq!(["1.16.4", "1.16.5", "1.17.1", "1.17.2"].map(says), [true, false, true, false]);
}

#[test]
fn gates_are_those_of_the_release() {
    let repo = repo(4);
    let run = |version: &str, gates: &str, code: i32| {
        let text = format!("dialects:\n  karmada:\n    version: \"{version}\"\n    featureGates: {gates}\n");
        repo.write("federate.yaml", text);
        repo.run("plan").code(code).err
    };
    assert_eq!(
        run("1.17", "{WorkloadAffinity: false, PropagateDeps: true, PriorityBasedScheduling: true}", 0),
        ""
    );
    let unknown = run("1.16", "{WorkloadAffinity: false}", 2);
    assert!(
        unknown.contains("Karmada 1.16.8 has no feature gate `WorkloadAffinity`, which came with 1.17"),
        "{unknown}"
    );
    assert!(run("1.16", "{Workload: false}", 2).contains("has no feature gate `Workload`"));
    assert!(run("1.16", "[Failover]", 2).contains("a mapping of names to true or false"));
    let other = run("1.16", "{Failover: true}", 0);
    assert!(other.contains("warning[gate-not-reproduced]"), "{other}");
}

#[test]
fn kinds_without_an_interpreter_are_named() {
    let repo = repo(4);
    let set = WEB.replace("kind: Deployment", "kind: ReplicaSet");
    repo.write("web.yaml", set);
    repo.write("policy.yaml", WEIGHTED.replace("kind: Deployment,", "kind: ReplicaSet,"));
    let ran = repo.run("plan -o json --karmada-version 1.15").code(0);
    assert!(ran.err.contains("warning[not-interpreted]"), "{}", ran.err);
    assert_eq!(ran.json()["placements"][0]["clusters"][0], json!({"name": "m1", "replicas": null}));
    assert_eq!(repo.run("plan --karmada-version 1.16").code(0).err, "");
}

#[test]
fn what_admission_added_does_not_make_an_upgrade_schedule_again() {
    let repo = repo(5);
    let older = repo.run("plan -o yaml --karmada-version 1.14").code(0).out;
    assert!(!older.contains("not-ready"), "{older}");
    repo.write("old.yaml", older);
    let explained =
        repo.run("explain deployment/web -n shop --previous old.yaml --karmada-version 1.15").code(0);
    assert!(explained.out.contains("not scheduled again"), "{}", explained.out);
}

const FLEET: &str = "\
apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata: {name: m1}
status:
  conditions: [{type: NamespaceCollectionSucceeded, status: 'True'}]
  namespaces: {}
  agentStatus:
  - type: MemberAgent
    conditions: [{type: Joined, status: 'True'}, {type: Healthy, status: 'True'}]
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: settings, namespace: shop}
spec:
  resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: settings}]
  policy:
    placementType: PickAll
";

#[test]
fn older_releases_of_kubefleet_do_not_look_for_the_namespace() {
    let repo = Sandbox::new().file("fleet.yaml", FLEET);
    let clusters = |repo: &Sandbox| {
        let plan = repo.run("plan -o json").code(0).json();
        let rows = plan["placements"].as_array().cloned().unwrap_or_default();
        let row = rows.into_iter().find(|row| row["object"]["kind"] == "ConfigMap").unwrap();
        (row["clusters"].as_array().map(Vec::len), plan["versions"]["kubefleet"].clone())
    };
    assert_eq!(clusters(&repo), (Some(0), json!("main (2026-08-20, after 0.3.1)")));
    repo.write("federate.yaml", "dialects: {kubefleet: {version: \"0.2\"}}\n");
    assert_eq!(clusters(&repo), (Some(1), json!("0.2.2")));
    repo.write("federate.yaml", "dialects: {kubefleet: {version: \"0.2\"}}\n");
    repo.write("fleet.yaml", FLEET.replace("io/v1beta1", "io/v1"));
    let ran = repo.run("plan").code(2);
    assert!(ran.err.contains("error[not-served]"), "{}", ran.err);
    assert!(ran.err.contains("write `apiVersion: placement.kubernetes-fleet.io/v1beta1`"), "{}", ran.err);
}

#[test]
fn keys_with_dots_in_results_of_scripts_count_as_several_keys_in_older_releases() {
    let repo = Sandbox::new()
        .file("clusters.yaml", CLUSTERS)
        .file(
            "gadget.yaml",
            "apiVersion: demo.example.com/v1\nkind: Gadget\nmetadata: {name: g, namespace: shop}\nspec:\n  replicas: 4\n  conf: {\"feature.flags\": {}, plain: {}}\n",
        )
        .file(
            "rules.yaml",
            "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: gadget}\nspec:
  target: {apiVersion: demo.example.com/v1, kind: Gadget}
  customizations:
    replicaResource: {luaScript: 'function GetReplicas(obj) return obj.spec.replicas, {} end'}
    replicaRevision: {luaScript: 'function ReviseReplica(obj, n) obj.spec.replicas = n return obj end'}
",
        )
        .file(
            "policy.yaml",
            WEIGHTED.replace("{apiVersion: apps/v1, kind: Deployment, name: web}", "{apiVersion: demo.example.com/v1, kind: Gadget}"),
        );
    let conf = |release: &str| {
        repo.run(&format!("render --out out --karmada-version {release}")).code(0);
        repo.read("out/m1/shop/gadget.demo.example.com_g.yaml").split("  conf:\n").nth(1).unwrap().to_owned()
    };
    for release in ["1.13.7", "1.14.4", "1.15.0"] {
        assert_eq!(
            conf(release),
            "    feature.flags: []\n    plain: {}\n    feature:\n      flags: {}\n",
            "{release}"
        );
    }
    for release in ["1.13.8", "1.14.5", "1.15.1", "1.16.0", "1.19"] {
        assert_eq!(conf(release), "    feature.flags: {}\n    plain: {}\n", "{release}");
    }
}

#[test]
fn alias_labels_and_names_of_quotas_were_not_validated_in_older_releases() {
    let failover = "  propagateDeps: true\n  failover:\n    cluster:\n      statePreservation: {rules: [{aliasLabelName: \"state of job\", jsonPath: \"{.x}\"}]}\n";
    let application =
        failover.replace("cluster:", "application:\n      decisionConditions: {tolerationSeconds: 60}");
    let repo = repo(4);
    repo.write("policy.yaml", format!("{WEIGHTED}{application}"));
    repo.run("plan --karmada-version 1.14").code(0);
    assert!(repo.run("plan --karmada-version 1.15").code(2).err.contains("error[invalid-policy]"));
    repo.write("policy.yaml", WEIGHTED);
    repo.write(
        "quota.yaml",
        format!(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {{name: {}, namespace: shop}}\nspec: {{overall: {{cpu: 1}}}}\n",
            "q".repeat(64)
        ),
    );
    repo.run("plan --karmada-version 1.13").code(0);
    repo.run("plan --karmada-version 1.14").code(2);
}
