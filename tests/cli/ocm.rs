//! A repo for Open Cluster Management: plan, explanation, mistakes, and decisions as objects.

use crate::sandbox::Sandbox;

const CLUSTERS: &str = "apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: alpha, labels: {region: eu}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: beta, labels: {region: eu}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: gamma, labels: {region: us, cluster.open-cluster-management.io/clusterset: edge}}
";

const BINDING: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: shop}
spec: {clusterSet: global}
";

const PLACEMENT: &str = "apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: shop}
spec:
  predicates:
  - requiredClusterSelector:
      labelSelector: {matchExpressions: [{key: region, operator: In, values: [eu]}]}
";

fn shop() -> Sandbox {
    Sandbox::new()
        .file("clusters.yaml", CLUSTERS)
        .file("binding.yaml", BINDING)
        .file("placement.yaml", PLACEMENT)
}

#[test]
fn a_placement_is_planned_and_explained() {
    let repo = shop();
    let plan = repo.run("plan").code(0).out;
    assert!(
        plan.contains("Placement shop/web") && plan.contains("alpha") && !plan.contains("gamma"),
        "{plan}"
    );
    let explained = repo.run("explain placement/web -n shop").code(0).out;
    for words in [
        "Placement shop/web (placement.yaml:1), placed by ocm",
        "cluster sets: global",
        "gamma  ",
        "Predicate: its label region=us does not match `region in (eu)`",
        "Balance 100 × 1 + Steady 100 × 1",
    ] {
        assert!(explained.contains(words), "`{words}` is not in\n{explained}");
    }
}

#[test]
fn a_mistake_says_how_many_clusters_it_empties() {
    let repo = shop();
    let plan = repo.run("plan -o json").code(0).out;
    repo.write("plan.json", plan);
    repo.write("placement.yaml", PLACEMENT.replace("operator: In", "operator: Equals"));
    let checked = repo.run("check --previous plan.json").code(2);
    let words = "error[misconfigured]: Placement shop/web is misconfigured, and the hub would take what follows it off 2 clusters";
    assert!(checked.out.contains(words), "{}", checked.out);
    repo.run("render --out out --previous plan.json").code(2);
}

#[test]
fn a_negative_number_and_an_expression_are_errors() {
    let repo = shop();
    for (field, code) in [
        ("numberOfClusters: -1", "error[negative-number]"),
        (
            "predicates: [{requiredClusterSelector: {celSelector: {celExpressions: [\"format.uuid().validate('a').hasValue()\"]}}}]",
            "error[expression]",
        ),
        (
            "predicates: [{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: a, operator: Exists}]}}}]",
            "warning[unknown-claim]",
        ),
        ("clusterSets: [edge]", "warning[unbound-set]"),
        (
            "prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}, weight: -1}]}, numberOfClusters: 1",
            "warning[unsettled]",
        ),
        ("sortBy: Score", "warning[ignored-field]"),
        ("tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]", "warning[no-clock]"),
    ] {
        let head = PLACEMENT.split("spec:").next().unwrap();
        repo.write("placement.yaml", format!("{head}spec: {{{field}}}\n"));
        let ran = repo.run("check").code(if code.starts_with("error") { 2 } else { 1 });
        assert!(ran.out.contains(code), "{field}: {}", ran.out);
    }
}

#[test]
fn a_namespace_without_a_binding_selects_nothing() {
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS).file("placement.yaml", PLACEMENT);
    let explained = repo.run("explain placement/web -n shop").code(0).out;
    let words = "ClusterSet: it is in the set default, and no ManagedClusterSetBinding in the namespace shop binds that";
    assert!(explained.contains(words), "{explained}");
    assert!(repo.run("check").code(1).out.contains("warning[no-binding]"));
}

#[test]
fn placements_that_share_clusters_depend_on_their_order() {
    let repo = shop();
    let two = ["a", "b"].map(|name| {
        format!(
            "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{numberOfClusters: 1}}\n"
        )
    });
    repo.write("placement.yaml", two.join("---\n"));
    let out = repo.run("check").code(1).out;
    // It is said once, with both places.
    let words = "warning[order-dependent]: the clusters of Placement shop/a depend on the order";
    assert!(out.contains(words) && out.contains(" --> placement.yaml:4:"), "{out}");
    assert!(out.contains("note: also placement.yaml:9:") && !out.contains("of Placement shop/b"), "{out}");
}

#[test]
fn decisions_are_printed_for_other_tools() {
    let repo = shop();
    let ocm = repo.run("plan -o placementdecisions=ocm -q").code(0).out;
    for words in ["name: web-decision-1", "clusterName: beta", "statusListKey: decisions"] {
        assert!(ocm.contains(words), "{ocm}");
    }
    let inventory = repo.run("plan -o placementdecisions=sig -q").code(0).out;
    assert!(inventory.contains("apiVersion: multicluster.x-k8s.io/v1alpha1"), "{inventory}");
    assert_eq!(inventory, repo.run("plan -o placementdecisions -q").code(0).out);
    let flux = repo.run("plan -o placementdecisions=flux-inputs -q").code(0).out;
    assert_eq!(flux.matches("kind: ResourceSetInputProvider").count(), 2, "{flux}");
}

#[test]
fn what_reads_decisions_stays_on_the_hub() {
    let repo = shop();
    let set = |generator: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: a, namespace: argocd}}\nspec: {{generators: [{{{generator}: {{}}}}]}}\n"
        )
    };
    repo.write("set.yaml", set("clusterDecisionResource"));
    assert!(repo.run("check").code(0).out.contains("1 ApplicationSet"));
    repo.write("set.yaml", set("clusters"));
    assert!(repo.run("check").out.contains("warning[unmatched]"));
}

#[test]
fn a_work_follows_its_placements_once() {
    let repo = shop();
    let work = |references: &str, level: &str, name: &str| {
        format!(
            "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  placementRefs: [{references}]\n  manifestWorkTemplate: {{workload: {{manifests: [{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: shop}}, data: {{level: {level}}}}}]}}}}\n"
        )
    };
    repo.write("all.yaml", PLACEMENT.replace("name: web", "name: all").replace("[eu]", "[eu, us]"));
    repo.write("work.yaml", work("{name: web}, {name: all}", "a", "w"));
    let ran = repo.run("check").code(1);
    assert!(ran.out.contains("warning[overlapping-references]"), "{}", ran.out);
    repo.run("render --out out").code(0);
    assert!(repo.path("out/gamma/shop/configmap_c.yaml").exists());
    repo.write("other.yaml", work("{name: all}", "b", "x"));
    let ran = repo.run("check").code(2);
    assert!(ran.out.contains("error[placed-in-duplicate]"), "{}", ran.out);
}

/// A repo whose placement selects one cluster and tolerates taints for some time.
fn tolerating(tolerations: &str) -> Sandbox {
    let repo = shop();
    let head = PLACEMENT.split("spec:").next().unwrap();
    repo.write(
        "placement.yaml",
        format!("{head}spec: {{numberOfClusters: 1, tolerations: [{tolerations}]}}\n"),
    );
    repo
}

#[test]
fn a_taint_moves_a_placement_when_its_toleration_ends() {
    let repo = tolerating("{key: maintenance, operator: Exists, tolerationSeconds: 300}");
    let taint = "whatif --taint alpha=maintenance:NoSelect";
    for scenario in [taint.to_owned(), format!("{taint} --at 2026-11-26T00:00:00Z")] {
        let out = repo.run(&scenario).code(1).out;
        assert!(out.contains("  t+5m     1 placement is evicted\n"), "{out}");
        let json = repo.run(&format!("{scenario} -o json")).code(1).json();
        let stages = json["timeline"].as_array().unwrap();
        let moved: Vec<(i64, i64)> = stages
            .iter()
            .map(|stage| (stage["seconds"].as_i64().unwrap(), stage["moved"].as_i64().unwrap()))
            .collect();
        assert_eq!(moved, [(0, 0), (300, 1)], "{json:#}");
    }
    // A taint without a toleration moves it at once, one for new clusters never.
    let at_once = repo.run("whatif --taint alpha=other:NoSelect -o json").code(1).json();
    assert_eq!(at_once["timeline"][0]["moved"], 1, "{at_once:#}");
    let for_new = repo.run("whatif --taint alpha=maintenance:NoSelectIfNew").code(0).out;
    assert!(!for_new.contains("evicted"), "{for_new}");
    let endless =
        tolerating("{key: maintenance, operator: Exists, tolerationSeconds: 300}, {operator: Exists}");
    endless.run(taint).code(0);
}

#[test]
fn a_lost_cluster_is_replaced_when_the_hub_notices_and_nothing_tolerates_it() {
    let moved_at = |tolerations: &str| {
        let json = tolerating(tolerations).run("whatif --lose alpha -o json").code(1).json();
        let first = json["timeline"].as_array().unwrap().iter().find(|stage| stage["moved"] != 0);
        first.unwrap_or_else(|| panic!("{json:#}"))["seconds"].as_i64().unwrap()
    };
    assert_eq!(moved_at(""), 300);
    let unreachable = "cluster.open-cluster-management.io/unreachable";
    assert_eq!(moved_at(&format!("{{key: {unreachable}, operator: Exists, tolerationSeconds: 600}}")), 900);
}

#[test]
fn an_explanation_shows_the_taint_with_its_time() {
    let repo = tolerating("{key: maintenance, operator: Exists, tolerationSeconds: 300}");
    let taint = "[{key: maintenance, effect: NoSelect, timeAdded: '2026-11-26T00:00:00Z'}]";
    repo.write(
        "clusters.yaml",
        CLUSTERS.replacen("{region: eu}}\n", &format!("{{region: eu}}}}\nspec: {{taints: {taint}}}\n"), 1),
    );
    let explain = |time: &str| repo.run(&format!("explain placement/web -n shop --now {time}")).code(0).out;
    assert!(explain("2026-11-26T00:04:59Z").contains("✓ alpha"));
    let after = explain("2026-11-26T00:05:00Z");
    let words = "TaintToleration: its taint maintenance:NoSelect since 2026-11-26T00:00:00Z is not tolerated";
    assert!(after.contains("✓ beta") && after.contains(words), "{after}");
}

const DEPLOYMENT: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {app: api}}, template: {metadata: {labels: {app: api}}, spec: {containers: [{name: api, image: api, resources: {requests: {cpu: 500m}}}]}}}}";

/// A set of works with this manifest, which follows the placement `web` by a strategy.
fn set_of_works(manifest: &str, strategy: &str) -> String {
    format!(
        "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\nmetadata: {{name: api, namespace: shop}}\nspec:\n  placementRefs:\n  - name: web\n    rolloutStrategy: {strategy}\n  manifestWorkTemplate:\n    workload:\n      manifests:\n      - {manifest}\n"
    )
}

#[test]
fn the_replicas_of_a_workload_in_a_work_move_with_it_and_use_capacity() {
    let repo = tolerating("");
    let capacity = "status: {allocatable: {cpu: '4'}, capacity: {cpu: '4'}, conditions: [{type: ManagedClusterConditionAvailable, status: 'True'}]}";
    repo.write("clusters.yaml", CLUSTERS.replace("region: eu}}\n", &format!("region: eu}}}}\n{capacity}\n")));
    repo.write("work.yaml", set_of_works(DEPLOYMENT, "{type: All}"));
    let plan = repo.run("plan --capacity").code(0).out;
    assert!(plan.contains("alpha:3") && plan.contains("1500m"), "{plan}");
    let lost = repo.run("whatif --lose alpha -o json").code(1).json();
    assert_eq!(lost["replicas"], serde_json::json!({"lost": 3, "regained": 3, "missing": 0}), "{lost:#}");
    assert_eq!(lost["capacity"][0]["cluster"], "beta", "{lost:#}");
    assert_eq!(lost["capacity"][0]["free"], "2500m", "{lost:#}");
    let two = repo.read("placement.yaml").replace("numberOfClusters: 1", "numberOfClusters: 2");
    for line in ["init -q -b main", "add -A", "commit -q -m state"] {
        repo.git(line);
    }
    repo.write("placement.yaml", two);
    let diff = repo.run("diff -o json").code(1).json();
    let moved =
        diff["placements"].as_array().unwrap().iter().find(|one| one["object"]["kind"] == "Deployment");
    assert_eq!(moved.unwrap()["replicas"], serde_json::json!({"from": 3, "to": 6}), "{diff:#}");
    assert_eq!(diff["capacity"]["beta"]["cpu"]["requestedAfter"], "1500m", "{diff:#}");
}

#[test]
fn a_field_that_a_member_drops_is_reported_in_the_work_that_contains_it() {
    let repo = shop();
    repo.write("work.yaml", set_of_works(&DEPLOYMENT.replace("replicas: 3", "replicass: 3"), "{}"));
    let out = repo.run("check").code(1).out;
    assert!(out.contains("warning[unknown-field]") && out.contains("--> work.yaml:"), "{out}");
    assert!(out.contains("`replicas`"), "{out}");
}

#[test]
fn an_explanation_shows_the_steps_of_a_rollout_and_what_the_hub_waits_for() {
    let repo = shop();
    repo.write("placement.yaml", PLACEMENT.replace("[eu]", "[eu, us]") + "  decisionStrategy:\n    groupStrategy:\n      decisionGroups:\n      - {groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {region: us}}}}\n");
    let strategy = "{type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: canary}], maxConcurrency: 1, minSuccessTime: 5m, progressDeadline: 10m, maxFailures: 1}}";
    let set = set_of_works(DEPLOYMENT, strategy);
    repo.write("work.yaml", &set);
    let explain = |arguments: &str| {
        repo.run(&format!("explain manifestworkreplicaset/api -n shop {arguments}")).code(0)
    };
    let out = explain("").out;
    for words in [
        "rollout to web: Progressive: 1 at a time; a success must last 5m0s; a cluster has 10m0s to succeed; the second failure stops it",
        "step 1 of 3 (mandatory group canary): gamma",
        "step 2 of 3: alpha",
        "step 3 of 3: beta",
        "✓ gamma    Placement shop/web selects it; step 1 of the rollout",
    ] {
        assert!(out.contains(words), "`{words}` is not in\n{out}");
    }
    let phases = explain("-o json").json()["rollout"]["groups"][0]["phases"].clone();
    assert_eq!(phases[0], serde_json::json!({"clusters": ["gamma"], "group": "mandatory group canary"}));
    // The works of the hub say how far it is: the first cluster has succeeded, but not for long enough.
    let work = |cluster: &str, degraded: &str, progressing: &str| {
        let condition = |kind: &str, status: &str| {
            format!(
                "{{type: {kind}, status: '{status}', observedGeneration: 1, lastTransitionTime: '2026-11-26T00:00:00Z'}}"
            )
        };
        format!(
            "---\napiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\nmetadata:\n  name: api-{cluster}\n  namespace: {cluster}\n  generation: 1\n  labels: {{work.open-cluster-management.io/manifestworkreplicaset: shop.api, work.open-cluster-management.io/placementname: web}}\nspec: {{workload: {{manifests: [{DEPLOYMENT}]}}}}\nstatus: {{conditions: [{}, {}, {}]}}\n",
            condition("Applied", "True"),
            condition("Degraded", degraded),
            condition("Progressing", progressing)
        )
    };
    repo.write("works.yaml", work("gamma", "False", "False"));
    let out = explain("--now 2026-11-26T00:01:00Z").out;
    assert!(
        out.contains("on the hub: has it: gamma; waits: alpha, beta; the next check is after 240 s"),
        "{out}"
    );
    assert!(out.contains("step 2 of the rollout: it waits"), "{out}");
    let out = explain("--now 2026-11-26T00:05:00Z").out;
    assert!(out.contains("on the hub: has it: gamma; is updated next: alpha; waits: beta"), "{out}");
    repo.write("works.yaml", work("gamma", "True", "True"));
    let out = explain("--now 2026-11-26T00:11:00Z").out;
    assert!(out.contains("failed: gamma") && out.contains("more clusters have failed than may"), "{out}");
    repo.write("work.yaml", set.replace("minSuccessTime: 5m", "minSuccessTime: soon"));
    assert!(explain("").out.contains("`soon` is not a duration"));
    // A set with several manifests has one rollout for all of them.
    let second = "- {apiVersion: v1, kind: ConfigMap, metadata: {name: api, namespace: shop}}\n";
    repo.write("work.yaml", format!("{set}      {second}"));
    let out = explain("").out;
    assert!(
        out.contains("places 2 objects") && out.contains("Rollout\n  rollout to web: Progressive"),
        "{out}"
    );
}

/// Objects of ACM on the hub: a set of Argo CD that reads decisions, a subscription with what its console shows, and a policy.
const DELIVERY: &str = "apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: web, namespace: shop}
spec:
  generators:
  - clusterDecisionResource:
      configMapRef: acm-placement
      labelSelector: {matchLabels: {cluster.open-cluster-management.io/placement: web}}
  template:
    metadata: {name: 'web-{{name}}'}
    spec:
      source: {repoURL: https://example.com/shop.git, path: web}
      destination: {namespace: shop, server: '{{server}}'}
---
apiVersion: apps.open-cluster-management.io/v1
kind: Subscription
metadata: {name: s, namespace: shop}
spec: {channel: ch/git}
---
apiVersion: app.k8s.io/v1beta1
kind: Application
metadata: {name: a, namespace: shop}
spec: {componentKinds: [{group: apps.open-cluster-management.io, kind: Subscription}]}
---
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {name: p, namespace: shop}
spec: {disabled: false}
";

#[test]
fn what_the_hub_delivers_in_another_way_is_said_kind_by_kind() {
    let repo = shop().file("delivery.yaml", DELIVERY);
    let checked = repo.run("check").code(0).out;
    let planned = repo.run("plan").code(0).err;
    for words in [
        "4 objects stay on the control plane and are not placed: 1 Application, 1 ApplicationSet, 1 Policy, 1 Subscription",
        "\n  ApplicationSet: Argo CD makes an Application for each cluster of the decisions: an item `argocd: FOLDER`",
        "\n  Subscription: the hub delivers what a Channel holds",
        "\n  Policy: the policy controllers of ACM carry policies out",
    ] {
        assert!(checked.contains(words), "`{words}` is not in\n{checked}");
        assert!(planned.contains(words), "`{words}` is not in\n{planned}");
    }
    let explained = repo.run("explain subscription/s -n shop").code(0).out;
    assert!(explained.contains("wrap these manifests in a ManifestWorkReplicaSet"), "{explained}");
}

#[test]
fn init_builds_what_sets_of_argo_cd_make_of_decisions() {
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n";
    let repo = shop().file("delivery/set.yaml", DELIVERY).file("web/config.yaml", config);
    repo.git("init -q");
    repo.git("remote add origin https://example.com/shop.git");
    let proposed = repo.run("init").code(0).out;
    assert!(proposed.contains("wrote federate.yaml"), "{proposed}");
    let explained = repo.run("explain configmap/web -n shop").code(0).out;
    assert!(explained.contains("placed by its source"), "{explained}");
    let clusters = repo.run("plan -o json").code(0).json();
    let row = clusters["placements"].as_array().expect("rows");
    let row = row.iter().find(|row| row["object"]["kind"] == "ConfigMap").expect("the ConfigMap is placed");
    assert_eq!(row["clusters"].as_array().map(Vec::len), Some(2), "{row:#}");
}
