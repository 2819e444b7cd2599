//! Repos whose parts are small and whose product is large, in scripts, sources, pages, migrations, scenarios and answers for
//! assistants: each ends within its steps, with a result or an error that names the limit, and the same one every time.
//!
//! What takes too much is judged by the error. What must not take much is judged by the kernel, which ends a run of twice the size
//! that takes more than a generous share of processor time and memory.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox};

/// Runs a command; the kernel ends it beyond a minute of a core and 500 MB.
fn run(repo: &Sandbox, line: &str) -> Ran {
    let ran = repo.limited("ulimit -t 60; ulimit -d 500000", line);
    assert!((0..=2).contains(&ran.code), "{line}: {ran:#?}");
    ran
}

fn each(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

fn clusters(count: usize) -> String {
    each(count, |n| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: m{n:04}, labels: {{a: b}}}}\nspec: {{}}\n"
        )
    })
}

fn config_maps(count: usize) -> String {
    each(count, |n| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}, namespace: a}}\ndata: {{a: b}}\n"
        )
    })
}

fn workloads(count: usize) -> String {
    each(count, |n| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{n}, namespace: a}}\nspec: {{replicas: {}, selector: \
             {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: a}}]}}}}}}\n",
            997 + n
        )
    })
}

fn policy(kind: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {{name: p}}\nspec:\n  \
         resourceSelectors: [{kind}]\n"
    )
}

const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap}";
const DEPLOYMENT: &str = "{apiVersion: apps/v1, kind: Deployment}";

/// Objects of a kind `X`, and scripts of an operation for them.
fn scripted(operation: &str, scripts: usize, script: &str, count: usize) -> Sandbox {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.example.com}\nspec:\n  group: \
                      example.com\n  names: {kind: X, plural: xs, singular: x, listKind: XList}\n  scope: Namespaced\n  versions: [{name: v1, \
                      served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n";
    let objects = each(count, |n| {
        format!(
            "---\napiVersion: example.com/v1\nkind: X\nmetadata: {{name: x{n}, namespace: a}}\nspec: {{replicas: 5}}\n"
        )
    });
    let customizations = each(scripts, |n| {
        format!(
            "---\napiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {{name: i{n}}}\nspec:\n  \
             target: {{apiVersion: example.com/v1, kind: X}}\n  customizations:\n    {operation}:\n      luaScript: |\n        {script}\n"
        )
    });
    Sandbox::new()
        .file("c.yaml", clusters(3))
        .file("p.yaml", policy("{apiVersion: example.com/v1, kind: X}"))
        .file("crd.yaml", definition)
        .file("x.yaml", objects)
        .file("i.yaml", customizations)
}

fn replicas(script: &str, count: usize) -> Sandbox {
    scripted("replicaResource", 1, &format!("function GetReplicas(o) {script} return 1 end"), count)
}

fn said(ran: &Ran) -> String {
    ran.out.clone() + &ran.err
}

/// Each ends just below the limit of a script.
#[test]
fn scripts_that_nearly_take_too_long_have_a_limit_together() {
    let long = "for i = 1, 1500000 do local x = i end";
    let first = said(&run(&replicas(long, 400), "check"));
    assert!(
        first.contains("[too-much-work]") && first.contains("the limit for a repo of this size"),
        "{first}"
    );
    assert!(!first.contains("the script takes too long"), "{first}");
    assert_eq!(first, said(&run(&replicas(long, 400), "check")), "at the same object every time");
    let few = said(&run(&replicas(long, 3), "check"));
    assert!(!few.contains("[too-much-work]"), "{few}");
}

#[test]
fn scripts_that_join_long_texts_have_a_limit_together() {
    let texts =
        "local s = 'a' for i = 1, 19 do s = s .. s end for i = 1, 4000 do local t = s:sub(1, 100000) end";
    let ran = said(&run(&replicas(texts, 400), "check"));
    assert!(ran.contains("[too-much-work]") || ran.contains("takes too long"), "{ran}");
}

#[test]
fn scripts_that_walk_large_tables_have_a_limit_together() {
    let walks = "local t = {} for i = 1, 100000 do t[i] = 1 end for i = 1, 100000 do t[i] = nil end for i = 1, 99 do next(t) end";
    let ran = said(&run(&replicas(walks, 1500), "check"));
    assert!(ran.contains("[too-much-work]"), "{ran}");
}

/// Every customization of a kind is asked for the references of each of its objects.
#[test]
fn scripts_of_many_customizations_for_many_objects_have_a_limit() {
    let script = "function GetDependencies(o) return {} end";
    let ran = said(&run(&scripted("dependencyInterpretation", 300, script, 600), "check"));
    assert!(ran.contains("[too-much-work]"), "{}", ran.get(..2000).unwrap_or(&ran));
}

#[test]
fn a_script_counts_the_same_whatever_ran_before_it() {
    let script = "local n = 0 for i = 1, 20000 + 997 * #o.metadata.name do n = n + i end";
    // The least number of steps with which all of them fit.
    let fits = |steps: u64, threads: &str| {
        let repo = replicas(script, 40);
        let mut command =
            repo.shell(&format!("RAYON_NUM_THREADS={threads} \"$FEDERATE\" plan --work-limit {steps}"));
        command.env("FEDERATE", env!("CARGO_BIN_EXE_federate")).output().unwrap().status.success()
    };
    let (mut low, mut high) = (0, 20_000_000);
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if fits(middle, "1") { high = middle } else { low = middle }
    }
    // There is a machine for each thread.
    for threads in ["1", "3"] {
        assert!(fits(high, threads) && !fits(low, threads), "{threads} threads: {high} steps");
    }
}

/// Scripts that are asked about what runs in a cluster.
#[test]
fn scripts_about_live_objects_have_a_limit_together() {
    let script =
        "function Retain(desired, observed) for i = 1, 1500000 do local x = i end return desired end";
    let mut repo = scripted("retention", 1, script, 100);
    let live = each(100, |n| {
        format!(
            "---\napiVersion: example.com/v1\nkind: X\nmetadata: {{name: x{n}, namespace: a, uid: u{n}, resourceVersion: '1'}}\nspec: \
             {{replicas: 7}}\n"
        )
    });
    repo = repo.file("live/m0000/x.yaml", &live);
    let ran = run(&repo, "apply --dry-run=client --observed live --cluster m0000");
    let expected = "deciding what to do with the objects of a cluster takes more than";
    assert!(ran.code == 2 && said(&ran).contains(expected), "{ran:#?}");
}

/// A rule for each cluster, which the other control plane does not have for so many.
fn rule_for_each_cluster(count: usize) -> Sandbox {
    let rules = each(count, |n| {
        format!(
            "  - {{targetCluster: {{clusterNames: [m{n:04}]}}, overriders: {{plaintext: [{{path: /metadata/labels/k, operator: add, \
             value: v{n}}}]}}}}\n"
        )
    });
    let overrides = format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {{name: o}}\nspec:\n  overrideRules:\n{rules}"
    );
    let objects = each(count, |n| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}, namespace: a, labels: {{k: a}}}}\n"
        )
    });
    Sandbox::new()
        .file("c.yaml", clusters(count))
        .file("a.yaml", objects)
        .file("o.yaml", overrides)
        .file("p.yaml", policy(CONFIG_MAP))
}

#[test]
fn a_migration_of_many_variants_has_a_limit() {
    let repo = rule_for_each_cluster(50);
    for target in ["kubefleet", "kubeadmiral"] {
        // It takes more than each other part of the run.
        let is_named = [3_000_000, 2_000_000].into_iter().any(|limit| {
            let ran = run(&repo, &format!("migrate --to {target} --work-limit {limit}"));
            let expected = format!(
                "writing the repo for the other control plane takes more than {limit} steps, --work-limit"
            );
            ran.code == 2 && ran.err.contains(&expected)
        });
        assert!(is_named, "{target}");
    }
    run(&rule_for_each_cluster(140), "migrate --to kubefleet");
}

#[test]
fn a_migration_that_writes_little_is_within_the_limit() {
    let divided = policy(DEPLOYMENT)
        + "  placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}\n";
    let repo =
        Sandbox::new().file("c.yaml", clusters(20)).file("a.yaml", workloads(60)).file("p.yaml", divided);
    for target in ["kubefleet", "kubeadmiral", "plain"] {
        let ran = run(&repo, &format!("migrate --to {target}"));
        assert!(ran.code < 2, "{target}: {ran:#?}");
    }
}

/// What one loss takes is within the limit, and what all of them take is not.
#[test]
fn the_losses_of_all_clusters_have_a_limit_together() {
    let repo = Sandbox::new()
        .file("c.yaml", clusters(60))
        .file("a.yaml", config_maps(200))
        .file("p.yaml", policy(CONFIG_MAP));
    let limit = "--work-limit 1000000";
    assert!(run(&repo, &format!("whatif --lose m0001 {limit}")).code < 2);
    let ran = run(&repo, &format!("whatif --each cluster {limit}"));
    let expected = "carrying out the loss of each cluster takes more than 1000000 steps, --work-limit";
    assert!(ran.code == 2 && ran.err.contains(expected), "{ran:#?}");
    assert!(run(&repo, "whatif --each cluster -o html").code < 2);
}

fn application_sets(count: usize, generator: &str, name: &str) -> String {
    each(count, |n| {
        format!(
            "---\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: s{n}, namespace: argocd}}\nspec:\n  \
             goTemplate: true\n  generators: [{generator}]\n  template:\n    metadata: {{name: 's{n}-{name}'}}\n    spec: {{project: \
             default, source: {{repoURL: x, path: apps/web, targetRevision: main}}, destination: {{name: in-cluster, namespace: a}}}}\n"
        )
    })
}

fn with_sets(sets: String, members: usize) -> Sandbox {
    Sandbox::new()
        .file("c.yaml", clusters(members))
        .file("federate.yaml", "sources: [{argocd: argo}]\n")
        .file("apps/web/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
        .file("argo/s.yaml", sets)
}

#[test]
fn the_applications_of_all_sets_have_a_limit() {
    let ran = run(&with_sets(application_sets(150, "{clusters: {}}", "{{.name}}"), 150), "check");
    let expected = "the ApplicationSets generate more than 10000 Applications together";
    assert!(ran.code == 2 && said(&ran).contains(expected), "{ran:#?}");
}

#[test]
fn the_globs_of_all_sets_have_a_limit() {
    let globs = vec![format!("{{path: '**/{}*'}}", "a".repeat(400)); 40].join(", ");
    let generator = format!("{{git: {{repoURL: x, revision: main, directories: [{globs}]}}}}");
    for (sets, is_too_much) in [(2, false), (150, true)] {
        let mut repo = with_sets(application_sets(sets, &generator, "{{.path.basename}}"), 3);
        for n in 0..500 {
            repo = repo.file(&format!("folders/b{n}/x.txt"), "");
        }
        let ran = run(&repo, "check");
        assert_eq!(ran.code == 2 && said(&ran).contains("take too much work"), is_too_much, "{ran:#?}");
    }
}

/// The page of a repo shares what is equal, so that it is as long as the repo and not as the product.
#[test]
fn a_page_grows_with_the_repo_and_not_with_its_product() {
    let page = |count: usize| {
        let repo = Sandbox::new()
            .file("c.yaml", clusters(count))
            .file("a.yaml", config_maps(4 * count))
            .file("p.yaml", policy(CONFIG_MAP));
        run(&repo, "plan -o html").code(0).out.len()
    };
    let (small, large) = (page(60), page(240));
    assert!(large < small + 4 * 60_000, "{small} and {large} bytes");
}

/// An assistant gets a part of a plan, and the rest of it takes no memory.
#[test]
fn an_answer_for_an_assistant_takes_little_memory() {
    let repo = Sandbox::new()
        .file("c.yaml", clusters(200))
        .file("a.yaml", config_maps(1500))
        .file("p.yaml", policy(CONFIG_MAP));
    let mut command = repo.shell("ulimit -d 400000; exec \"$FEDERATE\" mcp");
    command.env("FEDERATE", env!("CARGO_BIN_EXE_federate"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let mut input = child.stdin.take().unwrap();
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "plan", "arguments": {}}}),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    let mut output = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let answer = output.find_map(|line| {
        let answer: Value = serde_json::from_str(&line.unwrap()).unwrap();
        (answer["id"] == 2).then_some(answer)
    });
    let answer = answer.unwrap();
    let part = &answer["result"]["structuredContent"];
    assert_eq!(part["leftOut"]["items"], 1500, "{}", answer.to_string().get(..2000).unwrap_or_default());
    drop(input);
    child.wait().unwrap();
}

fn managed_clusters(count: usize) -> String {
    each(count, |n| {
        format!(
            "---\napiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {{name: m{n:04}, labels: {{a: \
             b}}}}\nspec: {{hubAcceptsClient: true}}\n"
        )
    })
}

const BOUND: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {name: global, \
                     namespace: a}\nspec: {clusterSet: global}\n";

fn ocm_placement(n: usize, spec: &str) -> String {
    format!(
        "---\napiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {{name: p{n}, namespace: a}}\nspec: \
         {{{spec}}}\n"
    )
}

/// A set of works for some placements, with some manifests and more settings.
fn works(placements: usize, manifests: usize, more: &str) -> String {
    let placements = each(placements, |n| format!("{{name: p{n}}}, "));
    let manifests = each(manifests, |n| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{n}, namespace: a}}, data: {{a: b}}}}, "
        )
    });
    format!(
        "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\nmetadata: {{name: w, namespace: a}}\nspec:\n  \
         placementRefs: [{placements}]\n  manifestWorkTemplate:\n    {more}\n    workload: {{manifests: [{manifests}]}}\n"
    )
}

#[test]
fn works_of_many_placements_on_many_clusters_have_a_limit() {
    let repo = |count: usize| {
        Sandbox::new()
            .file("c.yaml", managed_clusters(count))
            .file("b.yaml", BOUND)
            .file("p.yaml", each(count, |n| ocm_placement(n, "")))
            .file("w.yaml", works(count, 1, ""))
    };
    run(&repo(900), "check");
    let ran = run(&repo(200), "check --work-limit 100000");
    assert!(said(&ran).contains("[too-much-work]"), "{ran:#?}");
}

#[test]
fn works_of_many_manifests_with_many_settings_are_looked_up() {
    let settings = each(3000, |n| {
        format!(
            "{{resourceIdentifier: {{group: '', resource: configmaps, name: x{n}, namespace: a}}, updateStrategy: {{type: \
             ServerSideApply}}}}, "
        )
    });
    let repo = Sandbox::new()
        .file("c.yaml", managed_clusters(3))
        .file("b.yaml", BOUND)
        .file("p.yaml", ocm_placement(0, ""))
        .file("w.yaml", works(1, 3000, &format!("manifestConfigs: [{settings}]")));
    run(&repo, "check");
}

#[test]
fn scores_and_groups_of_many_clusters_have_a_limit() {
    let scores = each(600, |n| {
        format!(
            "{{scoreCoordinate: {{type: AddOn, addOn: {{resourceName: s, scoreName: k{n}}}}}, weight: 1}}, "
        )
    });
    let groups = each(600, |n| {
        format!("{{groupName: g{n}, groupClusterSelector: {{labelSelector: {{matchLabels: {{a: b}}}}}}}}, ")
    });
    let mut placements = String::new();
    for n in 0..20 {
        let spec = format!(
            "prioritizerPolicy: {{configurations: [{scores}]}}, decisionStrategy: {{groupStrategy: {{decisionGroups: [{groups}]}}}}"
        );
        write!(placements, "{}", ocm_placement(n, &spec)).unwrap();
    }
    let repo = Sandbox::new()
        .file("c.yaml", managed_clusters(600))
        .file("b.yaml", BOUND)
        .file("p.yaml", placements)
        .file("w.yaml", works(20, 1, ""));
    run(&repo, "check");
}

/// Sources that each have a rule for each cluster.
#[test]
fn settings_of_sources_for_each_cluster_have_a_limit() {
    let rules = each(400, |n| format!("  - {{clusters: {{matchLabels: {{a: b}}}}, set: {{v{n}: 1}}}}\n"));
    let repo = Sandbox::new()
        .file("c.yaml", clusters(200))
        .file("charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 0.1.0\n")
        .file("charts/a/values.yaml", "a: 1\n")
        .file("federate.yaml", format!("sources:\n- chart: charts/a\n  perCluster:\n{rules}"));
    run(&repo, "check");
}
