//! `federate init`

use crate::builds::Tools;
use crate::sandbox::{POLICY, Sandbox, WEB};

#[test]
fn a_folder_of_manifests_gets_clusters_a_policy_and_a_workflow() {
    let sandbox = Sandbox::new().file("deploy/web.yaml", WEB);
    sandbox.git("init -q -b main");
    let ran = sandbox.run("init deploy --cluster eu-1 us-1").code(0);
    assert_eq!(
        ran.out,
        "\
wrote deploy/federate.yaml: the clusters: set their labels and regions
wrote deploy/policy.yaml: a policy that places every object on every cluster
wrote .github/workflows/federate.yml: comments on pull requests, and commits to the branch `rendered` after the merge

Next:
  federate check deploy               # errors and likely mistakes
  federate plan deploy                # where each object is placed
  federate render deploy --out out    # the manifests of each cluster
"
    );
    assert!(sandbox.read(".github/workflows/federate.yml").contains("paths: deploy\n"));
    assert!(sandbox.read("deploy/policy.yaml").contains("  - apiVersion: apps/v1\n    kind: Deployment\n"));
    let plan = sandbox.run("plan deploy -q").code(0);
    assert!(plan.out.contains("all 2 × 4") && plan.err.is_empty(), "{plan:#?}");
    sandbox.run("check deploy").code(0);
    let again = sandbox.run("init deploy").code(0).out;
    assert!(
        again.starts_with("the folder has clusters, policies and a workflow: nothing to write\n"),
        "{again}"
    );
}

#[test]
fn every_dialect_gets_its_own_kinds() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    for (dialect, cluster) in [
        ("karmada", "kind: Cluster"),
        ("kubeadmiral", "kind: FederatedCluster"),
        ("kubefleet", "kind: MemberCluster"),
        ("kubefed", "kind: KubeFedCluster"),
        ("ocm", "kind: ManagedCluster"),
    ] {
        let sandbox = Sandbox::new().file("web.yaml", WEB).file("namespace.yaml", namespace);
        let line = format!("init --dialect {dialect} --cluster eu-1 us-1");
        let printed = sandbox.run(&format!("{line} --dry-run")).code(0).out;
        assert!(printed.contains(cluster) && sandbox.files("").len() == 2, "{printed}");
        let ran = sandbox.run(&line).code(0).out;
        assert!(ran.contains("wrote clusters.yaml"), "{ran}");
        let found = sandbox.run("check -o json").json();
        let errors = found["findings"].as_array().unwrap().iter().filter(|one| one["severity"] == "error");
        assert_eq!(errors.count(), 0, "{found:#}");
        if ["karmada", "kubefleet"].contains(&dialect) {
            let plan = sandbox.run("plan -q").code(0).out;
            assert!(
                plan.lines().any(|l| l.starts_with("Deployment shop/web") && l.contains("all 2")),
                "{plan}"
            );
        }
    }
}

#[test]
fn kubefleet_needs_the_namespaces_of_the_objects() {
    let sandbox = Sandbox::new().file("web.yaml", WEB);
    let ran = sandbox.run("init --dialect kubefleet --cluster eu-1").code(0).out;
    assert!(ran.contains("add a Namespace for each namespace of your objects"), "{ran}");
}

#[test]
fn what_is_there_stays_and_gives_the_dialect() {
    let sandbox = Sandbox::new().file("web.yaml", WEB).file("policy.yaml", POLICY);
    let ran = sandbox.run("init --cluster eu-1").code(0).out;
    assert!(ran.starts_with("wrote clusters.yaml"), "{ran}");
    assert_eq!(sandbox.read("policy.yaml"), POLICY);
    assert!(sandbox.read("clusters.yaml").contains("cluster.karmada.io"));
    let refused = sandbox.run("init --cluster ../up").code(2).err;
    assert!(refused.contains("the cluster name \"../up\" is refused"), "{refused}");
}

#[test]
fn clusters_of_federate_yaml_are_like_those_of_an_inventory() {
    let sandbox = Sandbox::new().file("web.yaml", WEB);
    sandbox.write(
        "federate.yaml",
        "clusters:
- {name: eu-1, region: eu, labels: {env: prod}}
- {name: us-1, region: us, labels: {env: prod}, taints: [{key: gpu, effect: NoSchedule}]}
- {name: test-1}
",
    );
    let select = "placement:\n    clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}\n";
    sandbox.write("policy.yaml", POLICY.replace("placement:\n", select));
    let out = sandbox.run("explain deploy/web").code(0).out;
    assert!(out.contains("✓ eu-1            4  chosen"), "{out}");
    assert!(out.contains("us-1            -  TaintToleration"), "{out}");
    sandbox.write("federate.yaml", "clusters: [{name: a/b}]\n");
    let err = sandbox.run("plan").code(2).err;
    assert!(err.contains("the cluster name \"a/b\" is refused: the name contains a path separator"), "{err}");
    sandbox.write("federate.yaml", "clusters: [{name: m1}]\n");
    sandbox.write("clusters.yaml", crate::sandbox::CLUSTERS);
    assert!(sandbox.run("plan").code(2).err.contains("error[duplicate-cluster]"));
}

/// The clusters of a plan's row for the Deployment, in order.
fn clusters_of_web(sandbox: &Sandbox) -> Vec<String> {
    let plan = sandbox.run("plan -o json").json();
    let rows = plan["placements"].as_array().unwrap();
    let of_web = |row: &&serde_json::Value| row["object"]["kind"] == "Deployment";
    let row = rows.iter().find(of_web).unwrap_or_else(|| panic!("{plan:#}"));
    let clusters = row["clusters"].as_array().unwrap().iter();
    clusters.map(|placed| placed["name"].as_str().unwrap().to_owned()).collect()
}

/// Runs init over these files, and checks that everything that policies name and select by exists then.
#[track_caller]
fn init_for(files: &[(&str, &str)], expected: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    for (path, text) in files {
        sandbox.write(path, text);
    }
    sandbox.run("init").code(0);
    assert_eq!(clusters_of_web(&sandbox), expected, "{}", sandbox.read("clusters.yaml"));
    let found = sandbox.run("check -o json").json().to_string();
    assert!(!found.contains("unknown-cluster"), "{found}");
    sandbox
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

#[test]
fn clusters_come_from_the_policies_of_karmada() {
    let policy = POLICY.replace(
        "placement:\n",
        "placement:
    clusterAffinities:
    - {affinityName: home, clusterNames: [paris, lyon]}
    - {affinityName: away, labelSelector: {matchLabels: {tier: spare}}}
",
    );
    let sandbox = init_for(&[("web.yaml", WEB), ("policy.yaml", &policy)], &["lyon", "paris"]);
    assert!(sandbox.read("clusters.yaml").contains("tier: spare"));
    let policy = POLICY.replace(
        "placement:\n",
        "placement:
    clusterAffinity:
      labelSelector: {matchExpressions: [{key: env, operator: In, values: [prod, stage]}, {key: gpu, operator: Exists}]}
      fieldSelector: {matchExpressions: [{key: region, operator: In, values: [eu, us]}, {key: zone, operator: NotIn, values: [z]}]}
      exclude: [berlin]
    spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, minGroups: 2}]
",
    );
    let overrides = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: gold}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  overrideRules:
  - targetCluster: {labelSelector: {matchLabels: {tier: gold}}}
    overriders: {plaintext: [{path: /metadata/annotations, operator: add, value: {x: gold}}]}
";
    let files = [("web.yaml", WEB), ("policy.yaml", &policy), ("overrides.yaml", overrides)];
    let sandbox = init_for(&files, &["cluster-1", "cluster-2"]);
    let inventory = sandbox.read("clusters.yaml");
    assert_eq!(inventory.matches("kind: Cluster").count(), 3, "{inventory}");
    assert!(
        inventory.contains("name: berlin")
            && inventory.contains("region: eu")
            && inventory.contains("region: us")
    );
    let found = sandbox.run("check").code(1).out;
    assert!(
        found.contains("`spreadConstraints` choose no clusters") && found.contains("1 warning in"),
        "{found}"
    );
}

#[test]
fn clusters_come_from_the_policies_of_other_control_planes() {
    let kubefleet = "apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: shop}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]
  policy:
    placementType: PickN
    numberOfClusters: 2
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms:
          - labelSelector: {matchLabels: {env: prod}, matchExpressions: [{key: old, operator: DoesNotExist}]}
";
    init_for(
        &[("web.yaml", WEB), ("namespace.yaml", NAMESPACE), ("policy.yaml", kubefleet)],
        &["cluster-1", "cluster-2"],
    );
    let fixed = kubefleet.split("    placementType").next().unwrap().to_owned()
        + "    placementType: PickFixed\n    clusterNames: [oslo, bergen]\n";
    init_for(
        &[("web.yaml", WEB), ("namespace.yaml", NAMESPACE), ("policy.yaml", &fixed)],
        &["bergen", "oslo"],
    );
    let kubeadmiral = "apiVersion: core.kubeadmiral.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  schedulingMode: Duplicate
  clusterSelector: {env: prod}
  clusterAffinity:
  - matchExpressions: [{key: size, operator: Gt, values: ['3']}]
";
    let labelled = WEB.replace(
        "  namespace: shop\n",
        "  namespace: shop\n  labels: {kubeadmiral.io/propagation-policy-name: web}\n",
    );
    init_for(&[("web.yaml", &labelled), ("policy.yaml", kubeadmiral)], &["cluster-1"]);
    let kubefed = "apiVersion: types.kubefed.io/v1beta1
kind: FederatedDeployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      replicas: 1
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: 'nginx:1'}]}
  placement: {clusters: [{name: rome}]}
  overrides:
  - {clusterName: rome, clusterOverrides: [{path: /spec/replicas, value: 2}]}
";
    let namespace = "apiVersion: types.kubefed.io/v1beta1
kind: FederatedNamespace
metadata: {name: shop, namespace: shop}
spec: {placement: {clusterSelector: {}}}
";
    init_for(&[("web.yaml", kubefed), ("namespace.yaml", namespace)], &["rome"]);
    let selected = kubefed.replace("clusters: [{name: rome}]", "clusterSelector: {matchLabels: {env: prod}}");
    let selected = selected.split("  overrides").next().unwrap();
    init_for(&[("web.yaml", selected), ("namespace.yaml", namespace)], &["cluster-1"]);
}

#[test]
fn where_nothing_names_a_cluster_init_asks() {
    for files in [vec![], vec![("web.yaml", WEB)], vec![("web.yaml", WEB), ("policy.yaml", POLICY)]] {
        let sandbox = Sandbox::new();
        for (path, text) in &files {
            sandbox.write(path, text);
        }
        let ran = sandbox.run("init").code(2);
        assert!(ran.err.contains("federate init --cluster NAME,NAME   # their names"), "{ran:#?}");
        assert!(ran.err.contains("federate snapshot --hub-context CONTEXT --out snapshot"), "{ran:#?}");
        assert_eq!(sandbox.files("").len(), files.len(), "nothing is written");
        let check = sandbox.run("check").code(1).out;
        assert!(check.contains("federate init"), "{check}");
        let plan = sandbox.run("plan");
        assert!(plan.err.contains("federate init"), "{plan:#?}");
    }
}

#[test]
fn given_names_take_the_places_of_clusters_without_a_name() {
    let policy = POLICY.replace(
        "placement:\n",
        "placement:\n    clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}\n",
    );
    let sandbox = Sandbox::new().file("web.yaml", WEB).file("policy.yaml", policy);
    sandbox.run("init --cluster eu-1").code(0);
    assert_eq!(clusters_of_web(&sandbox), ["eu-1"]);
    let ran = sandbox.run("init --cluster us-1").code(2);
    assert!(ran.err.contains("--cluster has no effect: the repo has an inventory with eu-1"), "{ran:#?}");
    let ran = sandbox.run("init --dialect karmada").code(2);
    assert!(ran.err.contains("--dialect has no effect"), "{ran:#?}");
}

#[test]
fn the_workflow_is_for_the_branch_and_the_forge_of_the_repository() {
    let sandbox = Sandbox::new().file("web.yaml", WEB);
    sandbox.git("init -q -b trunk");
    sandbox.run("init --cluster a").code(0);
    let workflow = sandbox.read(".github/workflows/federate.yml");
    assert!(workflow.contains("branches: [trunk]"), "{workflow}");
    assert!(workflow.contains("--fail-on unmatched,unschedulable"), "{workflow}");

    let sandbox = Sandbox::new().file("deploy/web.yaml", WEB);
    sandbox.git("init -q -b main");
    sandbox.git("remote add origin git@gitlab.example.com:shop/deploy.git");
    let ran = sandbox.run("init deploy --cluster a").code(0);
    assert!(ran.out.contains("wrote .gitlab-ci.yml") && !sandbox.path(".github").exists(), "{ran:#?}");
    assert!(sandbox.read("ci/gitlab-note.sh").starts_with("#!"));

    let sandbox =
        Sandbox::new().file("apps/web.yaml", WEB).file(".gitlab-ci.yml", "build: {script: [make]}\n");
    sandbox.git("init -q -b main");
    let ran = sandbox.run("init apps --cluster a").code(0);
    assert!(ran.out.contains("add `include: [{local: ci/federate.gitlab-ci.yml}]` to it"), "{ran:#?}");
    let pipeline = sandbox.read("ci/federate.gitlab-ci.yml");
    assert!(pipeline.contains("federate check apps ") && !pipeline.contains(" deploy -"), "{pipeline}");
    assert!(!pipeline.contains("stage: review"), "{pipeline}");
    assert_eq!(sandbox.read(".gitlab-ci.yml"), "build: {script: [make]}\n");
}

#[test]
fn only_a_folder_without_manifests_is_asked_for_some() {
    const STEP: &str = "  add the manifests of your apps to the folder\n";
    let empty = Sandbox::new().file("README.md", "# deploy\n").run("init --cluster m1").code(0);
    assert!(empty.out.contains(STEP), "{empty:#?}");
    let set = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: apps, namespace: argocd}\nspec:\n  \
               generators: [{clusters: {}}]\n  template:\n    metadata: {name: '{{name}}'}\n    spec:\n      project: default\n      \
               source: {repoURL: https://git.example.com/apps.git, path: apps}\n      destination: {name: '{{name}}'}\n";
    let sandbox = Sandbox::new().file("argocd/apps.yaml", set);
    let first = sandbox.run("init --cluster m1").code(0);
    assert!(
        first.out.contains("- argocd:") || sandbox.read("federate.yaml").contains("- argocd:"),
        "{first:#?}"
    );
    assert!(!sandbox.run("init").out.contains(STEP), "{first:#?}");
    let found = sandbox.run("check");
    assert!(!found.out.contains("contains no Kubernetes object"), "{found:#?}");
}

#[test]
fn folders_that_other_tools_apply_are_named() {
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {interval: 1m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
";
    let argo = "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: apps, namespace: argocd}
spec: {project: default, source: {repoURL: https://example.com/a.git, path: apps}, destination: {name: in-cluster}}
";
    let sandbox = Sandbox::new()
        .file("apps/web/web.yaml", WEB)
        .file("clusters/prod/apps.yaml", flux)
        .file("argocd/apps.yaml", argo);
    sandbox.git("init -q -b main");
    let out = sandbox.run("init apps/web --cluster a").code(0).out;
    assert!(
        out.contains("Kustomization flux-system/apps (clusters/prod/apps.yaml:1) applies this folder"),
        "{out}"
    );
    assert!(out.contains("/apps/web/federate.yaml, /apps/web/policy.yaml in .sourceignore"), "{out}");
    assert!(out.contains("directory.exclude: '{web/federate.yaml,web/policy.yaml}'"), "{out}");
    // Where the repo is the root of its repository, a file keeps them out.
    let sandbox = Sandbox::new().file("web.yaml", WEB).file("flux.yaml", flux.replace("./apps", "./"));
    sandbox.git("init -q -b main");
    let out = sandbox.run("init --cluster a").code(0).out;
    assert!(out.contains("wrote .sourceignore") && !out.contains("applies this folder"), "{out}");
    assert!(sandbox.read(".sourceignore").contains("\n/federate.yaml\n"));
    if let Some(tools) = Tools::find(true, false) {
        let checked = tools.run(&sandbox, "check");
        assert!(!checked.out.contains("error["), "{checked:#?}");
    }
    let sandbox = Sandbox::new().file("web.yaml", WEB).file("kustomization.yaml", "resources: [web.yaml]\n");
    let out = sandbox.run("init --cluster a").code(0).out;
    assert!(out.contains("kustomize builds the folder of kustomization.yaml"), "{out}");
}

/// A chart with values for a cluster, and two overlays of one base.
fn unbuilt_repo() -> Sandbox {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: {{ .Values.size | quote }}}\n";
    let overlay = "resources: [../../base]\n";
    Sandbox::new()
        .file("charts/api/Chart.yaml", "apiVersion: v2\nname: api\nversion: 1.0.0\n")
        .file("charts/api/templates/map.yaml", map)
        .file("charts/api/values.yaml", "size: small\n")
        .file("charts/api/values-eu-1.yaml", "size: large\n")
        .file("apps/web/base/kustomization.yaml", "resources: [web.yaml]\n")
        .file("apps/web/base/web.yaml", WEB)
        .file("apps/web/clusters/eu-1/kustomization.yaml", overlay)
        .file("apps/web/clusters/us-1/kustomization.yaml", overlay)
}

#[test]
fn charts_and_overlays_become_sources() {
    let repo = unbuilt_repo();
    let ran = repo.run("init --cluster eu-1 us-1").code(0).out;
    assert!(
        ran.contains("wrote federate.yaml: the clusters: set their labels and regions; and what kustomize"),
        "{ran}"
    );
    let config = repo.read("federate.yaml");
    let sources = "sources:
- chart: charts/api
  release: api
  namespace: default
  perCluster:
  - values:
    - charts/api/values-{cluster}.yaml?
- kustomize: apps/web/clusters/eu-1
  perCluster: apps/web/clusters/{cluster}
";
    assert!(config.ends_with(sources), "{config}");
    let policy = repo.read("policy.yaml");
    assert!(policy.contains("kind: ConfigMap") && policy.contains("kind: Deployment"), "{policy}");
    let plan = repo.run("plan").err;
    assert_eq!(plan.matches("missing-program").count(), 2, "{plan}");
}

#[test]
fn sources_are_printed_where_the_configuration_exists() {
    let repo = unbuilt_repo();
    let config = "clusters: [{name: m1}]\n";
    repo.write("federate.yaml", config);
    let ran = repo.run("init").code(0).out;
    assert!(ran.contains("note: federate.yaml exists and lacks these sources"), "{ran}");
    assert!(ran.contains("- chart: charts/api\n") && !ran.contains("- kustomize:"), "{ran}");
    let choice = "note: apps/web/clusters/eu-1, apps/web/clusters/us-1 build the same objects, and no cluster is named like their \
                  folders: name the clusters so, or choose one with `sources: [{kustomize: apps/web/clusters/eu-1}]`";
    assert!(ran.contains(choice), "{ran}");
    assert_eq!(repo.read("federate.yaml"), config);
    // With the sources that are printed, nothing is left to propose.
    let lines = ran.split("when it lists them:\n").nth(1).unwrap().split("\nnote: ").next().unwrap();
    let sources = lines.split("sources:\n").nth(1).unwrap();
    repo.write("federate.yaml", format!("{config}sources:\n{sources}\n"));
    repo.write(".federateignore", "apps/web/clusters/us-1/\n");
    assert!(!repo.run("init").code(0).out.contains("lacks these sources"));
}

#[test]
fn folders_of_environments_are_those_of_clusters_with_their_names() {
    let mut repo = Sandbox::new();
    for (app, environments) in [("a", ["dev", "prod"]), ("b", ["prod", "test"])] {
        repo = repo
            .file(&format!("apps/{app}/base/kustomization.yaml"), "resources: [web.yaml]\n")
            .file(&format!("apps/{app}/base/web.yaml"), WEB.replace("name: web", &format!("name: {app}")));
        for environment in environments {
            repo =
                repo.file(&format!("apps/{app}/{environment}/kustomization.yaml"), "resources: [../base]\n");
        }
    }
    // Without names, those of the folders are proposed.
    let ran = repo.run("init").code(2).err;
    assert!(
        ran.contains("federate init --cluster dev,prod,test   # as the folders of kustomizations are named"),
        "{ran}"
    );
    let ran = repo.run("init --cluster dev prod test --dry-run").code(0).out;
    // A cluster without a folder receives nothing.
    assert!(ran.contains("- kustomize: {}\n  perCluster: apps/a/{cluster}\n- kustomize: {}\n  perCluster: apps/b/{cluster}\n"), "{ran}");
    let ran = repo.run("init --cluster eu-1 --dry-run").code(0).out;
    assert!(
        !ran.contains("- kustomize") && ran.contains("note: apps/a/dev, apps/a/prod build the same objects"),
        "{ran}"
    );
}

#[test]
fn environments_beside_each_other_are_guessed_and_channels_are_not() {
    let mut repo =
        Sandbox::new().file("base/kustomization.yaml", "resources: [web.yaml]\n").file("base/web.yaml", WEB);
    for environment in ["qa", "prod-eu", "prod-us"] {
        let overlay =
            format!("resources: [../../base]\nnamePrefix: {environment}-\nnamespace: {environment}\n");
        repo = repo.file(&format!("envs/{environment}/kustomization.yaml"), overlay);
    }
    let ran = repo.run("init").code(2).err;
    assert!(ran.contains("federate init --cluster prod-eu,prod-us,qa   # as the folders"), "{ran}");
    let ran = repo.run("init --cluster prod-eu,qa --dry-run").code(0).out;
    assert!(ran.contains("sources:\n- kustomize: envs/prod-eu\n  perCluster: envs/{cluster}\n"), "{ran}");
    let mut catalog = Sandbox::new();
    for operator in ["a", "b"] {
        for channel in ["stable-1.2", "stable-1.3", "alpha"] {
            let folder = format!("{operator}/overlays/{channel}");
            catalog = catalog.file(&format!("{folder}/kustomization.yaml"), "resources: [web.yaml]\n");
            catalog = catalog.file(&format!("{folder}/web.yaml"), WEB);
        }
    }
    let ran = catalog.run("init").code(2).err;
    assert!(ran.contains("federate init --cluster NAME,NAME   # their names"), "{ran}");
}

/// What `init` writes as the clusters and the sources of a repo.
fn laid_out(files: &[(&str, String)]) -> String {
    let mut repo = Sandbox::new();
    for (path, text) in files {
        repo = repo.file(path, text);
    }
    repo.run("init --ci none").code(0);
    let config = repo.read("federate.yaml");
    let lines = config.lines().filter(|line| line.starts_with("- "));
    lines.map(|line| line.trim_start_matches("- ")).collect::<Vec<_>>().join("; ")
}

#[test]
fn clusters_of_flux_are_named_by_the_folders_in_which_it_begins() {
    let kustomization = |name: &str, path: &str, more: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: {name}}}\nspec: \
             {{interval: 10m, path: ./{path}, prune: true{more}, sourceRef: {{kind: GitRepository, name: flux-system}}}}\n"
        )
    };
    let instance = |path: &str| {
        format!(
            "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\nmetadata: {{name: flux}}\nspec: {{sync: {{path: {path}}}}}\n"
        )
    };
    // Instances of the operator; the last folder says what is in it.
    let found = laid_out(&[
        ("k8s/main/flux/apps.yaml", kustomization("apps", "k8s/main/apps", "")),
        ("k8s/main/apps/instance.yaml", instance("./k8s/main/flux")),
        ("k8s/spare/flux/apps.yaml", kustomization("apps", "k8s/spare/apps", "")),
        ("k8s/spare/apps/instance.yaml", instance("k8s/spare/flux")),
    ]);
    assert!(found.starts_with("name: main; name: spare; "), "{found}");
    assert!(found.ends_with("flux: k8s/{cluster}/flux"), "{found}");
    // The values of the chart of an instance.
    let values = "instance:\n  sync: {kind: GitRepository, path: k8s/clusters/prod}\n".to_owned();
    let found = laid_out(&[
        ("k8s/flux/values.yaml", values),
        ("k8s/clusters/prod/infra/a.yaml", kustomization("a", "k8s/a", "")),
        ("k8s/clusters/prod/apps/b.yaml", kustomization("b", "k8s/b", "")),
        ("k8s/a/web.yaml", WEB.to_owned()),
        ("k8s/b/web.yaml", WEB.replace("name: web", "name: api")),
    ]);
    assert!(found.starts_with("name: prod; ") && found.ends_with("flux: k8s/clusters/{cluster}"), "{found}");
    // A Kustomization that applies itself, and clusters that a kubeconfig leads to.
    let remote = ", kubeConfig: {secretRef: {name: cluster-kubeconfig}}";
    let found = laid_out(&[
        ("hub/flux/sync.yaml", kustomization("cluster", "hub", "")),
        ("hub/eu-1.yaml", kustomization("eu-1", "clusters/eu-1", remote)),
        (
            "hub/us-1.yaml",
            kustomization("us", "clusters/us-1", &remote.replace("name: cluster", "name: us-1")),
        ),
        ("clusters/eu-1/web.yaml", WEB.to_owned()),
        ("clusters/us-1/web.yaml", WEB.to_owned()),
    ]);
    assert!(found.starts_with("name: eu-1; name: hub; name: us-1; "), "{found}");
    assert!(found.ends_with("flux: '{cluster}'"), "{found}");
}

#[test]
fn a_repo_of_flux_or_argo_cd_says_its_clusters() {
    let sync = |path: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: flux-system, namespace: flux-system}}\nspec: \
             {{interval: 10m, path: ./{path}, prune: true, sourceRef: {{kind: GitRepository, name: flux-system}}}}\n"
        )
    };
    let repo = Sandbox::new()
        .file("clusters/eu/flux-system/gotk-sync.yaml", sync("clusters/eu"))
        .file("clusters/eu/flux-system/kustomization.yaml", "resources: [gotk-sync.yaml]\n")
        .file("clusters/us/flux-system/gotk-sync.yaml", "# written by flux bootstrap\n")
        .file("clusters/eu/web.yaml", WEB)
        .file("clusters/us/web.yaml", WEB);
    let ran = repo.run("init --ci none").code(0).out;
    assert!(ran.contains("the clusters that the objects of Flux and Argo CD name; and what their controllers build for each"), "{ran}");
    let config = repo.read("federate.yaml");
    assert!(config.contains("- name: eu\n") && config.contains("- name: us\n"), "{config}");
    assert!(config.ends_with("sources:\n- flux: clusters/{cluster}\n"), "{config}");
    assert!(!repo.path("policy.yaml").exists(), "the folders are the placement");
    let application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: NAME, namespace: argocd}\nspec: {project: default, \
                       source: {repoURL: x, path: web}, destination: {namespace: shop, DESTINATION}}\n";
    let application =
        |name: &str, destination: &str| application.replace("NAME", name).replace("DESTINATION", destination);
    let own = Sandbox::new()
        .file("argo/own.yaml", application("own", "name: in-cluster"))
        .file("web/web.yaml", WEB);
    let ran = own.run("init --ci none").code(2).err;
    assert!(ran.contains("federate init --cluster NAME   # name the cluster in which Argo CD runs"), "{ran}");
    // What is in a chart is no Application yet.
    let own = own.file("apps/Chart.yaml", "{apiVersion: v2, name: apps, version: 1.0.0}\n");
    let own = own.file("apps/templates/web.yaml", application("web", "name: in-cluster"));
    own.run("init --ci none --cluster home").code(0);
    let config = own.read("federate.yaml");
    assert!(config.contains("argocd:\n  cluster: home\n") && config.contains("- argocd: argo\n"), "{config}");
    let repo = Sandbox::new()
        .file("argo/apps/web.yaml", application("web", "name: eu"))
        .file("argo/own.yaml", application("own", "server: https://kubernetes.default.svc"))
        .file("web/web.yaml", WEB);
    let ran = repo.run("init --ci none").code(0).out;
    assert!(ran.contains("name it in federate.yaml with `argocd: {cluster: NAME}`"), "{ran}");
    assert!(
        repo.read("federate.yaml").ends_with("sources:\n- argocd: argo\n"),
        "{}",
        repo.read("federate.yaml")
    );
}

#[test]
fn where_no_control_plane_is_no_namespace_is_reserved() {
    let repo = Sandbox::new().file("web.yaml", WEB.replace("namespace: shop", "namespace: kube-system"));
    repo.run("init --cluster m1 --ci none").code(0);
    assert!(repo.read("federate.yaml").contains("unplaced: everywhere\n"));
    assert!(!repo.path("policy.yaml").exists());
    let plan = repo.run("plan").code(0).out;
    assert!(plan.contains("m1"), "{plan}");
}

#[test]
fn a_destination_that_is_nearly_a_known_cluster_is_named() {
    let application = "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web, namespace: argocd}
spec: {project: default, source: {repoURL: https://example.com/a.git, path: apps}, destination: {name: prd}}
";
    let secret = "apiVersion: v1
kind: Secret
metadata: {name: prod, namespace: argocd, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: prod, server: https://prod.example.com}
";
    let sandbox = Sandbox::new()
        .file("apps/web.yaml", WEB)
        .file("argocd/web.yaml", application)
        .file("argocd/prod.yaml", secret);
    let out = sandbox.run("init --dry-run").code(0).out;
    assert!(
        out.contains("note: Application argocd/web (argocd/web.yaml:1) goes to the cluster `prd`")
            && out.contains("did you mean `prod`?"),
        "{out}"
    );
}
