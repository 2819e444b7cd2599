//! `federate check`

use crate::sandbox::{Sandbox, WEB};

#[test]
fn a_clean_repo_is_clean() {
    let ran = Sandbox::web().run("check").code(0);
    assert_eq!(ran.out, "clean: 1 template and 2 clusters\n");
}

#[test]
fn an_invalid_policy_is_refused_at_its_line() {
    let repo = Sandbox::web();
    let policy = repo.read("policy.yaml")
        + "    spreadConstraints:\n    - {spreadByField: cluster, minGroups: 3, maxGroups: 2}\n";
    repo.write("policy.yaml", policy);
    let ran = repo.run("check").code(2);
    assert!(ran.out.contains("error[invalid-policy]"), "{}", ran.out);
    assert!(ran.out.contains("policy.yaml:15:"), "{}", ran.out);
    assert!(ran.out.contains("spreadByField: cluster, minGroups: 3"), "the line is shown: {}", ran.out);
}

#[test]
fn useless_policies_and_overrides_are_findings() {
    let repo = Sandbox::web();
    repo.write("unused.yaml", repo.read("policy.yaml").replace("name: web", "name: absent"));
    repo.write(
        "override.yaml",
        "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: idle, namespace: shop}
spec:
  overrideRules:
  - overriders: {labelsOverrider: [{operator: remove, value: {absent: x}}]}
",
    );
    let findings = repo.run("check -o json").code(1).json();
    let codes: Vec<&str> =
        findings["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["unused-override", "unused-policy"]);
}

#[test]
fn two_templates_of_one_identity_name_both_places() {
    let repo = Sandbox::web();
    repo.write("again.yaml", repo.read("web.yaml").replace("replicas: 4", "replicas: 5"));
    let ran = repo.run("check").code(2);
    assert!(ran.out.contains("again.yaml:1") && ran.out.contains("web.yaml:1"), "{}", ran.out);
}

#[test]
fn a_secret_is_never_quoted() {
    let repo = Sandbox::web();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: hunter2\n  password: hunter3\n";
    repo.write("secret.yaml", secret);
    let ran = repo.run("check").code(1);
    assert!(ran.out.contains("secret.yaml:6"), "{}", ran.out);
    assert!(!ran.out.contains("hunter"), "{}", ran.out);
}

#[test]
fn many_findings_are_counted_not_listed() {
    let repo = Sandbox::web();
    for index in 0..30 {
        repo.write(&format!("broken-{index:02}.yaml"), format!("a: {{b{index}: 1, b{index}: 2}}\n"));
    }
    let ran = repo.run("check").code(1);
    assert_eq!(ran.out.matches("warning[").count(), 20, "{}", ran.out);
    assert!(ran.out.contains("and more: 10 duplicate-key"), "{}", ran.out);
    let repo = Sandbox::web();
    for index in 0..30 {
        let object =
            format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a_{index}, namespace: shop}}}}\n");
        repo.write(&format!("broken-{index:02}.yaml"), object);
    }
    let ran = repo.run("check").code(2);
    let shown = ran.out.matches("error[invalid-name]").count();
    assert!((15..=20).contains(&shown), "{}", ran.out);
    assert!(ran.out.contains(&format!("{} invalid-name", 30 - shown)), "{}", ran.out);
}

#[test]
fn an_invalid_cluster_is_reported_once() {
    let repo = Sandbox::web();
    repo.write(
        "clusters.yaml",
        repo.read("clusters.yaml").replace("{region: eu}", "{region: eu, taints: 5}"),
    );
    let ran = repo.run("check").code(2);
    assert_eq!(ran.out.matches("error[").count(), 1, "{}", ran.out);
    assert!(ran.out.contains("clusters.yaml:5:"), "{}", ran.out);
}

#[test]
fn what_nearly_belongs_to_a_control_plane_is_named() {
    for (api_version, kind, code, help) in [
        ("policy.karmada.io/v1beta1", "PropagationPolicy", "unserved-version", "policy.karmada.io/v1alpha1"),
        ("cluster.karmada.io/v1", "Cluster", "unserved-version", "cluster.karmada.io/v1alpha1"),
        ("policy.karmada.io/v1alpha1", "PropagationPolice", "unknown-kind", "PropagationPolicy"),
        ("policy.karmada.com/v1alpha1", "PropagationPolicy", "unknown-group", "policy.karmada.io/v1alpha1"),
        (
            "placement.kubernetes-fleet.io/v1",
            "ClusterResourcPlacment",
            "unknown-kind",
            "ClusterResourcePlacement",
        ),
    ] {
        let object = format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n  resourceSelectors: \
             [{{apiVersion: v1, kind: ConfigMap}}]\n  placement: {{}}\n"
        );
        let ran = Sandbox::web().file("odd.yaml", object).run("check").code(1);
        assert!(ran.out.contains(&format!("warning[{code}]")), "{api_version} {kind}: {}", ran.out);
        assert!(ran.out.contains("odd.yaml:"), "{}", ran.out);
        assert!(ran.out.contains(&format!("`{help}`")), "{}", ran.out);
        assert!(!ran.out.contains("select it in a placement policy"), "{}", ran.out);
    }
}

#[test]
fn folders_of_other_tools_are_named_and_block_nothing() {
    let repo = Sandbox::web()
        .file("chart/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n")
        .file("chart/templates/web.yaml", "{{- if .Values.web }}\nkind: Deployment\n{{- end }}\n")
        .file("base/kustomization.yaml", "resources: [web.yaml]\n");
    let ran = repo.run("check").code(1);
    assert!(ran.out.contains("warning[helm-chart]") && ran.out.contains("chart/Chart.yaml"), "{}", ran.out);
    assert!(ran.out.contains("warning[kustomization]"), "{}", ran.out);
    assert!(ran.out.contains("base/kustomization.yaml"), "{}", ran.out);
    assert!(!ran.out.contains("error["), "{}", ran.out);
}

/// An object that no policy places.
const CONFIG_MAP_ALONE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: alone, namespace: shop}\n";

#[test]
fn a_repo_that_lacks_something_is_not_clean() {
    let ran = Sandbox::new().run("check").code(1);
    assert!(ran.out.contains("warning[empty-repo]"), "{}", ran.out);
    let web = Sandbox::web();
    let of = |file: &str| Sandbox::web().file(file, "").run("check").code(1).out;
    assert!(of("clusters.yaml").contains("warning[no-inventory]"), "{}", of("clusters.yaml"));
    assert!(of("policy.yaml").contains("warning[no-policies]"), "{}", of("policy.yaml"));
    web.run("check").code(0);
    // What goes everywhere without a policy is not called unmatched, and what is to be done comes first.
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let alone = CONFIG_MAP_ALONE;
    let ran =
        Sandbox::web().file("clusters.yaml", "").file("a.yaml", namespace).file("b.yaml", alone).run("check");
    let out = ran.code(1).out;
    assert!(out.starts_with("warning[no-inventory]") && out.contains("warning[unmatched]"), "{out}");
    assert!(!out.contains("Namespace shop"), "{out}");
    let config = "apiVersion: federate.dev/v1alpha1\nkind: Config\nclusters: [{name: m1}]\n";
    let nested =
        Sandbox::web().file("clusters.yaml", "").file("deploy/federate.yaml", config).run("check").code(1);
    assert!(nested.out.contains("deploy/federate.yaml is not read"), "{}", nested.out);
}

#[test]
fn counts_that_an_api_server_refuses_are_refused() {
    for (count, shown) in [
        ("2147483648", "2147483648"),
        ("99999999999999999999", "1e+20"),
        ("-1", "-1"),
        ("1.5", "1.5"),
        ("\"3\"", "not a number"),
        ("[hunter2]", "not a number"),
    ] {
        let repo = Sandbox::web();
        repo.write("web.yaml", repo.read("web.yaml").replace("replicas: 4", &format!("replicas: {count}")));
        let ran = repo.run("plan").code(2);
        let message = format!(
            "`spec.replicas` is {shown}, but an API server only accepts whole numbers from 0 to 2147483647"
        );
        assert!(ran.err.contains(&message) && ran.err.contains("web.yaml:7:"), "{count}: {ran:#?}");
    }
    for weight in ["-1", "0", "1.5", "9223372036854775808"] {
        let repo = Sandbox::web();
        let weights = format!(
            "      replicaDivisionPreference: Weighted\n      weightPreference:\n        staticWeightList:\n        - {{targetCluster: {{clusterNames: [m1]}}, weight: {weight}}}\n"
        );
        repo.write("policy.yaml", repo.read("policy.yaml") + &weights);
        let ran = repo.run("check").code(2);
        assert!(
            ran.out.contains("error[invalid-policy]") && ran.out.contains(".weight` must be"),
            "{weight}: {ran:#?}"
        );
    }
    let repo = Sandbox::web();
    repo.write("web.yaml", repo.read("web.yaml").replace("replicas: 4", "replicas: 4.0"));
    repo.run("check").code(0);
}

/// A repo with fields that Kubernetes 1.33 and 1.34 added.
fn with_releases() -> Sandbox {
    let repo = Sandbox::web();
    repo.write(
        "web.yaml",
        repo.read("web.yaml").replace(
            "      containers:",
            "      hostUsers: false\n      hostnameOverride: web\n      containers:",
        ),
    );
    repo
}

#[test]
fn fields_are_checked_for_the_release_of_each_cluster() {
    let repo = with_releases();
    repo.run("check").code(0);
    let ran = repo.run("check --kube-version 1.30").code(1);
    for part in [
        "warning[unknown-field]: Kubernetes 1.34 added `spec.template.spec.hostnameOverride` (Kubernetes 1.30):",
        "warning[feature-gate]: `spec.template.spec.hostUsers` needs the feature gate `UserNamespacesSupport`, on by default since 1.33",
    ] {
        assert!(ran.out.contains(part), "{}", ran.out);
    }
    repo.run("check --kube-version v1.35.2-gke.7").code(0);
    let newer = repo.run("check --kube-version 1.99").code(0);
    assert!(
        newer.err.contains("Kubernetes 1.99 is newer than this version of federate: checked as 1.36"),
        "{}",
        newer.err
    );
    let refused = repo.run("check --kube-version 1.15").code(2);
    assert!(refused.err.contains("from 1.16 to 1.36"), "{}", refused.err);
    repo.write("federate.yaml", "kubernetesVersion: '1.34'\n");
    assert!(
        repo.run("check")
            .code(1)
            .out
            .contains("(Kubernetes 1.34): without it, an API server drops the field")
    );
    repo.write("federate.yaml", "kubernetesVersion: newest\n");
    assert!(repo.run("check").code(2).out.contains("is not a version of Kubernetes"));
}

#[test]
fn the_inventory_names_the_releases() {
    let repo = with_releases();
    let status = "kind: Cluster
status:
  kubernetesVersion: v1.30.4
  apiEnablements: [{groupVersion: apps/v1, resources: [{kind: Deployment}]}]
";
    repo.write("clusters.yaml", repo.read("clusters.yaml").replacen("kind: Cluster\n", status, 1));
    let ran = repo.run("check").code(1);
    assert!(ran.out.contains("(Kubernetes 1.30 of m1)"), "{}", ran.out);
    repo.run("check --kube-version 1.36").code(0);
}

#[test]
fn unplaced_templates_warn_fail_or_go_everywhere() {
    let repo = Sandbox::web();
    repo.write("note.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note, namespace: shop}\n");
    repo.run("plan").code(0);
    assert!(repo.run("check").code(1).out.contains("warning[unmatched]"));
    repo.write("federate.yaml", "unplaced: error\n");
    assert!(
        repo.run("render --out out")
            .code(2)
            .err
            .contains("error[unmatched]: no policy places ConfigMap shop/note")
    );
    assert!(!repo.path("out").exists());
    repo.write("federate.yaml", "unplaced: everywhere\n");
    repo.run("check").code(0);
    let plan = repo.run("plan -o json").code(0).json();
    let row =
        plan["placements"].as_array().unwrap().iter().find(|row| row["object"]["name"] == "note").unwrap();
    assert_eq!(row["clusters"].as_array().unwrap().len(), 2);
    assert_eq!(plan["unmatched"].as_array().unwrap().len(), 0);
    let why = repo.run("explain configmap/note").code(0).out;
    assert!(why.contains("`unplaced: everywhere` in federate.yaml places it in every cluster"), "{why}");
    repo.run("render --out out").code(0);
    // A template that a policy selects is not placed everywhere, even if the policy has an error.
    repo.write(
        "policy.yaml",
        repo.read("policy.yaml")
            + "    spreadConstraints: [{spreadByField: cluster, minGroups: 3, maxGroups: 2}]\n",
    );
    let broken = repo.run("plan -o json").code(2).json();
    assert_eq!(broken["unmatched"][0]["kind"], "Deployment");
}

#[test]
fn a_near_miss_is_reported_even_if_it_goes_everywhere() {
    let repo = Sandbox::web();
    repo.write("federate.yaml", "unplaced: everywhere\n");
    repo.write("policy.yaml", repo.read("policy.yaml").replace("name: web\n", "name: wbe\n"));
    let ran = repo.run("check").code(1);
    assert!(
        ran.out.contains("`unplaced: everywhere` places Deployment shop/web in every cluster, although"),
        "{}",
        ran.out
    );
}

#[test]
fn fields_that_karmada_never_sends_are_named_with_their_line() {
    let repo = Sandbox::web();
    let policy = repo.read("policy.yaml");
    repo.write(
        "services.yaml",
        policy
            .replace("name: web", "name: s")
            .replace("apps/v1", "v1")
            .replace("kind: Deployment", "kind: Service"),
    );
    let service = |address: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s, namespace: shop}}\nspec:\n  clusterIP: {address}\n  ports: [{{port: 80}}]\n"
        )
    };
    repo.write("s.yaml", service("10.0.0.5"));
    let ran = repo.run("check").code(1);
    assert!(ran.out.contains("warning[not-sent]") && ran.out.contains("s.yaml:5:"), "{}", ran.out);
    assert!(ran.out.contains("spec.clusterIP (10.0.0.5) of Service shop/s is not sent"), "{}", ran.out);
    repo.write("s.yaml", service("None"));
    let ran = repo.run("check");
    assert!(!ran.out.contains("not-sent"), "headless Services are sent as they are: {}", ran.out);
}

#[test]
fn overriders_that_karmada_ignores_are_named() {
    let overriders = "  overrideRules:
  - targetCluster: {clusterNames: [m1]}
    overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}
  overriders:
    fieldOverrider: [{fieldPath: /data/app.yaml, yaml: [{subPath: /extra, operator: add, value: v}]}]
";
    for (kind, metadata) in
        [("OverridePolicy", "{name: o, namespace: shop}"), ("ClusterOverridePolicy", "{name: o}")]
    {
        let policy = format!(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: {kind}\nmetadata: {metadata}\nspec:\n  resourceSelectors: [{{apiVersion: \
             apps/v1, kind: Deployment}}]\n{overriders}"
        );
        let ran = Sandbox::web().file("override.yaml", policy).run("check").code(1);
        let words =
            "warning[no-effect]: `spec.overriders.fieldOverrider` is ignored, because `overrideRules` is set";
        assert!(ran.out.contains(words), "{kind}: {}", ran.out);
    }
}

#[test]
fn image_overriders_that_change_no_image_are_named() {
    let policy = |selector: &str, image: &str| {
        format!(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {{name: o, namespace: shop}}\nspec:\n  \
             resourceSelectors: [{selector}]\n  overrideRules:\n  - overriders:\n      labelsOverrider: [{{operator: add, value: {{a: b}}}}]\n      \
             imageOverrider: [{image}]\n"
        )
    };
    let deployments = "{apiVersion: apps/v1, kind: Deployment}";
    let check = |policy: String| Sandbox::web().file("override.yaml", policy).run("check").out;
    let found = check(policy(deployments, "{component: Registry, operator: remove}"));
    assert!(
        found.contains("`imageOverrider` (remove Registry) changes no image: no image has a registry"),
        "{found}"
    );
    let fine = check(policy(deployments, "{component: Registry, operator: add, value: eu.example.com}"));
    assert!(!fine.contains("imageOverrider"), "{fine}");
    let repo = Sandbox::web().file(
        "config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: shop}\ndata: {a: b}\n",
    );
    repo.write(
        "override.yaml",
        policy("{apiVersion: v1, kind: ConfigMap}", "{component: Tag, operator: replace, value: v2}"),
    );
    let found = repo.run("check").out;
    assert!(found.contains("changes no image: none of the selected objects has containers"), "{found}");
}

#[test]
fn annotations_over_256_kibibytes_are_an_error() {
    let big = "y".repeat(270_000);
    let object = |api_version: &str, kind: &str, rest: &str| {
        format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: big, namespace: shop, annotations: {{a: b, big: {big}}}}}\n{rest}"
        )
    };
    let policy = "spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}], placement: {}}\n";
    for text in [
        object("v1", "ConfigMap", ""),
        object("example.com/v1", "Thing", ""),
        object("policy.karmada.io/v1alpha1", "PropagationPolicy", policy),
    ] {
        let ran = Sandbox::web().file("big.yaml", text).run("check").code(2);
        let words = "have 270005 bytes, and an API server refuses more than 262144";
        assert!(ran.out.contains("error[invalid-field]") && ran.out.contains(words), "{}", ran.out);
        assert!(ran.out.contains("move what `big` contains"), "{}", ran.out);
    }
    let several =
        (0..27).map(|number| format!("k{number}: {}", "y".repeat(10_000))).collect::<Vec<_>>().join(", ");
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big, namespace: shop, annotations: {{{several}}}}}\n"
    );
    Sandbox::web().file("big.yaml", text).run("check").code(2);
}

#[test]
fn a_job_that_deletes_itself_runs_again() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once, namespace: shop}\nspec: {ttlSecondsAfterFinished: 60, template: \
               {spec: {restartPolicy: Never, containers: [{name: m, image: busybox}]}}}\n";
    let fleet = Sandbox::new().file(
        "fleet.yaml",
        format!(
            "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: m1}}\n---\napiVersion: v1\nkind: \
             Namespace\nmetadata: {{name: shop}}\n---\n{job}---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: \
             ClusterResourcePlacement\nmetadata: {{name: p}}\nspec: {{resourceSelectors: [{{group: '', version: v1, kind: Namespace, \
             name: shop}}], policy: {{placementType: PickAll}}}}\n"
        ),
    );
    let found = fleet.run("check").code(1).out;
    let words = "warning[job-runs-again]: the cluster deletes Job shop/once 60 seconds after it has finished, and the next apply runs it again";
    assert!(found.contains(words), "{found}");
    // Karmada leaves the field out.
    let karmada = Sandbox::web().file("job.yaml", job);
    karmada.write(
        "policy.yaml",
        crate::sandbox::POLICY
            .replace("apps/v1", "batch/v1")
            .replace("Deployment", "Job")
            .replace("name: web\n  placement", "name: once\n  placement"),
    );
    assert!(!karmada.run("check").out.contains("job-runs-again"));
}

#[test]
fn the_help_about_a_path_says_how_keys_are_written() {
    let policy = |path: &str| {
        format!(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {{name: o, namespace: shop}}\nspec:\n  \
             resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}]\n  overrideRules:\n  - overriders:\n      \
             plaintext: [{{path: '{path}', operator: add, value: x}}]\n"
        )
    };
    for (path, help) in [
        (
            "/metadata/annotations/lb.example.com/vpc",
            "a `/` in a key is written `~1`: did you mean `/metadata/annotations/lb.example.com~1vpc`?",
        ),
        (
            "/metadata/annotations/\"lb.example.com/vpc\"",
            "a `/` in a key is written `~1`, and a key has no quotes: did you mean `/metadata/annotations/lb.example.com~1vpc`?",
        ),
    ] {
        let ran = Sandbox::web().file("override.yaml", policy(path)).run("check").code(2);
        assert!(ran.out.contains("error[override-failed]") && ran.out.contains(help), "{path}: {}", ran.out);
        assert!(!ran.out.contains("unused-override"), "{}", ran.out);
    }
}

#[test]
fn a_resource_override_without_scope_names_the_placement_that_is_meant() {
    let fleet = |scope: &str, name: &str| {
        let text = format!(
            "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: m1}}\n---\napiVersion: v1\nkind: \
             Namespace\nmetadata: {{name: shop}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: conf, namespace: shop}}\n\
             data: {{a: b}}\n---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: ns}}\n\
             spec: {{resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop, selectionScope: NamespaceOnly}}], \
             policy: {{placementType: PickAll}}}}\n---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourcePlacement\n\
             metadata: {{name: rp, namespace: shop}}\nspec: {{resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: \
             conf}}], policy: {{placementType: PickAll}}}}\n---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\n\
             metadata: {{name: ro, namespace: shop}}\nspec:\n  placement: {{name: {name}{scope}}}\n  resourceSelectors: [{{group: '', \
             version: v1, kind: ConfigMap, name: conf}}]\n  policy: {{overrideRules: [{{clusterSelector: {{}}, jsonPatchOverrides: \
             [{{op: replace, path: /data/a, value: c}}]}}]}}\n"
        );
        Sandbox::new().file("fleet.yaml", text).run("check").out
    };
    let cluster = fleet("", "rp");
    let help = "the repo has the ResourcePlacement shop/rp: add `scope: Namespaced` to name it; the default is `Cluster`";
    assert!(cluster.contains(help) && !cluster.contains("unused-override"), "{cluster}");
    let namespaced = fleet(", scope: Namespaced", "ns");
    assert!(
        namespaced.contains("the repo has the ClusterResourcePlacement ns: write `scope: Cluster`"),
        "{namespaced}"
    );
}

#[test]
fn annotations_that_replace_a_policy_are_named() {
    let repo = Sandbox::new().file(
        "all.yaml",
        "apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata: {name: alpha, labels: {zone: us}}
spec: {apiEndpoint: https://a, secretRef: {name: a}}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: PropagationPolicy
metadata: {name: eu, namespace: shop}
spec: {schedulingMode: Duplicate, clusterSelector: {zone: eu}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  namespace: shop
  labels: {kubeadmiral.io/propagation-policy-name: eu}
  annotations:
    kubeadmiral.io/clusterSelector: '{\"zone\":\"us\"}'
    kubeadmiral.io/sticky-cluster: perhaps
",
    );
    let explained = repo.run("explain configmap/web").code(0).out;
    let words =
        "the annotation kubeadmiral.io/clusterSelector (all.yaml:18) replaces the policy's clusterSelector";
    assert!(explained.contains(words) && !explained.contains("disableRescheduling"), "{explained}");
    let found = repo.run("check").code(1).out;
    let words = "warning[replaces-policy]: the annotation kubeadmiral.io/clusterSelector of ConfigMap shop/web replaces `clusterSelector` of \
                 PropagationPolicy shop/eu";
    assert!(found.contains(words), "{found}");
}

/// A repo in a folder of a git repository, with an error and a warning.
fn with_findings() -> Sandbox {
    let sandbox = Sandbox::new()
        .file("deploy/clusters.yaml", crate::sandbox::CLUSTERS)
        .file("deploy/policy.yaml", crate::sandbox::POLICY)
        .file("deploy/web.yaml", WEB)
        .file(
            "deploy/50% off, really.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: alone, namespace: shop}\n",
        )
        .file("deploy/broken.yaml", "a: [\n");
    sandbox.git("init -q -b main");
    sandbox
}

#[test]
fn findings_as_workflow_commands_of_github() {
    let out = with_findings().run("check deploy -o github").code(2).out;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(lines[0].starts_with("::error file=deploy/broken.yaml,line="), "{out}");
    assert!(lines[0].contains(",title=invalid-yaml::"), "{out}");
    assert!(
        lines[1]
            .starts_with("::warning file=deploy/50%25 off%2C really.yaml,line=3,col=12,title=unmatched::"),
        "{out}"
    );
    // Line breaks would end a command.
    assert!(lines[1].contains("%0Ahelp: "), "{out}");
}

#[test]
fn findings_as_sarif() {
    let log = with_findings().run("check deploy -o sarif").code(2).json();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{log}");
    for result in results {
        let rule = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(run["tool"]["driver"]["rules"][rule]["id"], result["ruleId"]);
    }
    assert_eq!(results[0]["level"], "error");
    let place = &results[1]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "deploy/50%25%20off%2C%20really.yaml");
    assert_eq!(place["region"], serde_json::json!({"startLine": 3, "startColumn": 12}));
    // GitHub requires both texts, and knows a result again by its fingerprint.
    for rule in run["tool"]["driver"]["rules"].as_array().unwrap() {
        for text in ["fullDescription", "help"] {
            assert!(rule[text]["text"].as_str().is_some_and(|text| text.len() > 40), "{rule}");
        }
    }
    assert!(results[0]["partialFingerprints"]["primaryLocationLineHash"].is_string(), "{log}");
}

#[test]
fn findings_as_report_of_gitlab() {
    let sandbox = with_findings();
    let report = sandbox.run("check deploy -o gitlab").code(2).json();
    let rows = report.as_array().unwrap();
    assert_eq!(rows.len(), 2, "{report}");
    assert_eq!(
        rows[1]["location"],
        serde_json::json!({"path": "deploy/50% off, really.yaml", "lines": {"begin": 3}})
    );
    assert_eq!((&rows[0]["severity"], &rows[1]["severity"]), (&"major".into(), &"minor".into()));
    // A line above moves the finding, and is no new one.
    sandbox.write(
        "deploy/50% off, really.yaml",
        "# A line.\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: alone, namespace: shop}\n",
    );
    let moved = sandbox.run("check deploy -o gitlab").code(2).json();
    assert_eq!(moved[1]["location"]["lines"]["begin"], 4);
    assert_eq!(moved[1]["fingerprint"], rows[1]["fingerprint"]);
}

#[test]
fn findings_as_junit() {
    let out = with_findings().run("check deploy -o junit").code(2).out;
    assert!(out.contains("<testsuite name=\"federate check\" tests=\"2\" failures=\"1\">"), "{out}");
    let case = "<testcase classname=\"unmatched\" name=\"deploy/50% off, really.yaml:3\" \
                file=\"deploy/50% off, really.yaml\" line=\"3\"><system-out>warning: ";
    assert!(out.contains(case), "{out}");
    let clean = Sandbox::web().run("check -o junit").code(0).out;
    assert!(
        clean.contains("tests=\"1\" failures=\"0\"") && clean.contains("name=\"no findings\"/>"),
        "{clean}"
    );
}

#[test]
fn warnings_are_one_line_outside_of_check() {
    let sandbox = Sandbox::web();
    let config = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\n")
    };
    sandbox.write("one.yaml", config("one"));
    for command in ["plan", "render --out out"] {
        let ran = sandbox.run(command).code(0);
        assert!(ran.err.contains("warning[unmatched]: no policy places ConfigMap shop/one"), "{ran:?}");
    }
    sandbox.write("two.yaml", config("two"));
    let ran = sandbox.run("plan").code(0);
    assert!(ran.err.contains("2 warnings: 2 unmatched; `federate check .` shows them\n"), "{ran:?}");
    assert!(!ran.err.contains("shop/two"), "{ran:?}");
    let full = sandbox.run("plan -v").code(0);
    assert_eq!(full.err.matches("warning[unmatched]").count(), 2, "{full:?}");
    assert_eq!(sandbox.run("plan -q").code(0).err, "");
    // Errors stay in full.
    sandbox.write("broken.yaml", "a: [\n");
    let ran = sandbox.run("plan").code(2);
    assert!(ran.err.contains("error[invalid-yaml]") && ran.err.contains("--> broken.yaml:1"), "{ran:?}");
}
