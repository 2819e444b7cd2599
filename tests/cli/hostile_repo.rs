//! Repos of about 1 MB that try to take much time and memory: each ends soon, with a result or an error.

use std::fmt::Write as _;

use crate::sandbox::{CLUSTERS, Ran, Sandbox, WEB};

/// The bounds: seconds of processor time and kilobytes of memory. `FEDERATE_TEST_BINARY` names an optimized binary,
/// which is held to 2 seconds on two cores; the one of the tests is not optimized.
fn bounds() -> (u32, u32) {
    if std::env::var_os("FEDERATE_TEST_BINARY").is_some() { (4, 500_000) } else { (30, 500_000) }
}

/// Runs the command within the bounds: the kernel ends a run that exceeds them.
fn run(repo: &Sandbox, line: &str) -> Ran {
    let (seconds, kilobytes) = bounds();
    let ran = repo.limited(&format!("ulimit -t {seconds}; ulimit -d {kilobytes}"), line);
    assert!((0..=2).contains(&ran.code), "within {seconds} s and {kilobytes} KB: {ran:#?}");
    ran
}

/// Checks a repo and returns what was printed.
fn check(repo: &Sandbox) -> String {
    let ran = run(repo, "check");
    ran.out + &ran.err
}

fn clusters(count: usize, regions: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        write!(
            text,
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: m{n:04}}}\n\
             spec: {{region: r{:03}}}\n",
            n % regions
        )
        .unwrap();
        text
    })
}

#[test]
fn texts_that_repeat_take_no_longer_than_their_bytes() {
    for text in [
        "---\n".repeat(260_000),
        "---\n# a\n".repeat(130_000),
        "a\n---\n".repeat(160_000),
        "-".repeat(1_000_000),
        "- \"/\"\n".repeat(160_000),
        "{}".repeat(500_000),
        format!("[{}", "1,".repeat(500_000)),
        "? ".repeat(500_000),
        "[".repeat(1_000_000),
        "- ".repeat(500_000),
        "a: &a\n".repeat(160_000),
        "%YAML 1.1\n---\n".repeat(60_000),
        "\"\\\n".repeat(300_000),
        "#a\n'\n".repeat(160_000),
    ] {
        check(&Sandbox::new().file("clusters.yaml", CLUSTERS).file("a.yaml", text));
    }
}

#[test]
fn maps_with_many_keys_are_read() {
    let mut keys =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\ndata:\n");
    for n in 0..80_000 {
        writeln!(keys, "  k{n}: a").unwrap();
    }
    check(&Sandbox::web().file("a.yaml", keys));
}

#[test]
fn findings_in_great_numbers_are_placed() {
    let mut text = String::new();
    for n in 0..10_000 {
        writeln!(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{n} x', namespace: [{n}]}}")
            .unwrap();
    }
    let repo = Sandbox::web().file("a.yaml", text);
    run(&repo, "check -o json");
}

#[test]
fn spread_over_many_regions_is_decided() {
    let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: p}\n\
                  spec:\n  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]\n  placement:\n    spreadConstraints:\n    \
                  - {spreadByField: region, minGroups: 20, maxGroups: 40}\n    \
                  - {spreadByField: cluster, minGroups: 70, maxGroups: 120}\n";
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\n";
    let repo = Sandbox::new()
        .file("clusters.yaml", clusters(120, 40))
        .file("policy.yaml", policy)
        .file("a.yaml", template);
    check(&repo);
    let plan = run(&repo, "plan -o json").out;
    assert!(plan.matches("\"m0").count() >= 70, "{plan}");
}

#[test]
fn dependencies_of_many_are_followed() {
    let mut text = String::from(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: p}\n\
         spec: {propagateDeps: true, resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]}\n",
    );
    for n in 0..100 {
        write!(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}, namespace: a}}\n")
            .unwrap();
        write!(text, "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{n}, namespace: a}}\n")
            .unwrap();
        text.push_str("spec: {template: {spec: {containers: [{name: a, envFrom: [");
        for m in 0..100 {
            write!(text, "{{configMapRef: {{name: c{m}}}}},").unwrap();
        }
        text.push_str("]}]}}}\n");
    }
    let repo = Sandbox::new().file("clusters.yaml", clusters(200, 5)).file("a.yaml", text);
    check(&repo);
}

#[test]
fn templates_have_limits_together() {
    let mut repo = Sandbox::new().file("clusters.yaml", clusters(200, 5));
    for n in 0..20 {
        let text = "{% for i in range(99999) %}{% if cluster.name == i %}{% endif %}{% endfor %}a: 1\n";
        repo = repo.file(&format!("t{n}.yaml.j2"), text);
    }
    let message = check(&repo);
    assert!(message.contains("steps") && message.contains("for all clusters"), "{message}");
    // Each fails for the first cluster, after many steps: what fails costs as much as what does not.
    let mut failing = Sandbox::new().file("clusters.yaml", clusters(2, 1));
    for n in 0..8_000 {
        let end = if n % 2 == 0 { "{{ missing }}" } else { "{% for j in range(99999) %}{% endfor %}" };
        let loops = "{% for i in range(99999) %}{% endfor %}".repeat(6);
        failing = failing.file(&format!("t{n}.yaml.j2"), format!("{loops}{end}"));
    }
    let message = check(&failing);
    assert!(message.contains("steps") && message.contains("in total"), "{message}");
    let large =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ cluster.name * 500000 }}}\n";
    let message = check(&Sandbox::new().file("clusters.yaml", clusters(200, 5)).file("a.yaml.j2", large));
    assert!(message.contains("a.yaml.j2") && message.contains("MiB of output"), "{message}");
    let documents = "{% for i in range(60000) %}\n---\na: {{ i }}\n{% endfor %}\n";
    check(&Sandbox::new().file("clusters.yaml", clusters(2, 1)).file("a.yaml.j2", documents));
}

/// A link that came with a commit leads no output out of the checkout.
#[test]
fn no_output_follows_a_link_of_the_checkout() {
    let sandbox = Sandbox::new();
    let repo = sandbox.path("repo");
    for (path, text) in [("web.yaml", WEB), ("clusters.yaml", CLUSTERS)] {
        sandbox.write(&format!("repo/deploy/{path}"), text);
    }
    std::fs::create_dir_all(sandbox.path("elsewhere/m1")).unwrap();
    sandbox.git("-C repo init -q -b main");
    std::os::unix::fs::symlink("../elsewhere", repo.join("out")).unwrap();
    std::os::unix::fs::symlink("deploy", repo.join("inner")).unwrap();
    std::os::unix::fs::symlink(&repo, sandbox.path("way-in")).unwrap();
    sandbox.write("dump.yaml", CLUSTERS);
    for line in [
        "render repo/deploy --out repo/out",
        "render repo/deploy --out repo/out/deep/er",
        "render repo/deploy --out way-in/out",
        "render repo/deploy --out repo/deploy/../inner/out",
        "render repo/deploy --rev HEAD --out repo/out",
        "snapshot -f dump.yaml --out repo/out/snapshot",
        "snapshot -f dump.yaml --out repo/out",
    ] {
        let ran = sandbox.run(line).code(2);
        let refused = ran.err.contains("is a symbolic link in the checkout");
        assert!(refused || line.contains("snapshot"), "{line}: {ran:#?}");
        assert_eq!(sandbox.files("elsewhere"), Vec::<String>::new(), "{line}");
    }
    // Links that the owner of the machine has made outside of it are followed.
    std::os::unix::fs::symlink("elsewhere", sandbox.path("link")).unwrap();
    std::fs::remove_dir(sandbox.path("elsewhere/m1")).unwrap();
    sandbox.run("render way-in/deploy --out link").code(0);
    assert!(!sandbox.files("elsewhere").is_empty());
}

/// Texts for the numbers below a count, joined.
fn each(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

fn config_maps(count: usize) -> String {
    each(count, |n| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}, namespace: a}}\ndata: {{a: b}}\n"
        )
    })
}

fn policy(selectors: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {{name: p}}\nspec:\n  \
         resourceSelectors:\n{selectors}"
    )
}

/// A repo with a kind `X` of a schema, a policy that places it, and objects with a spec.
fn custom(schema: &str, spec: &str, count: usize) -> Sandbox {
    let definition = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: xs.example.com}}\nspec:\n  \
         group: example.com\n  names: {{kind: X, plural: xs, singular: x, listKind: XList}}\n  scope: Namespaced\n  \
         versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, properties: {{spec: \
         {schema}}}}}}}}}]\n"
    );
    let objects = each(count, |n| {
        format!(
            "---\napiVersion: example.com/v1\nkind: X\nmetadata: {{name: x{n}, namespace: a}}\nspec: {spec}\n"
        )
    });
    Sandbox::new()
        .file("c.yaml", clusters(3, 1))
        .file("p.yaml", policy("  - {apiVersion: example.com/v1, kind: X}\n"))
        .file("crd.yaml", definition)
        .file("x.yaml", objects)
}

fn scripted(script: &str, count: usize) -> Sandbox {
    with_script("replicaResource", &format!("function GetReplicas(o) {script} end"), count)
}

fn with_script(operation: &str, script: &str, count: usize) -> Sandbox {
    let customization = format!(
        "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {{name: i}}\nspec:\n  \
         target: {{apiVersion: example.com/v1, kind: X}}\n  customizations:\n    {operation}:\n      luaScript: |\n        \
         {script}\n"
    );
    let open = "{type: object, x-kubernetes-preserve-unknown-fields: true}";
    custom(open, "{replicas: 5}", count).file("i.yaml", customization)
}

#[test]
fn scripts_have_a_limit_together() {
    let said = check(&scripted("while true do end", 500));
    // The first of the objects that were decided at the same time, none of which counts.
    let stopped = "it was stopped before CustomResourceDefinition xs.example.com";
    assert!(said.contains("[too-much-work]") && said.contains(stopped), "{said}");
    let again = check(&scripted("while true do end", 500));
    assert_eq!(said, again, "at the same object every time");
    let numerals =
        "local s = '9' for i = 1, 19 do s = s .. s end for i = 1, 4000000 do local x = s + 1 end return 1";
    assert!(check(&scripted(numerals, 1)).contains("the script takes too long"));
}

#[test]
fn selectors_are_looked_up() {
    let by_name = each(6000, |n| format!("  - {{apiVersion: v1, kind: ConfigMap, name: x{n}}}\n"));
    let by_label = each(4000, |n| {
        format!("  - {{apiVersion: v1, kind: ConfigMap, labelSelector: {{matchLabels: {{a: b{n}}}}}}}\n")
    });
    for selectors in [by_name, by_label] {
        let repo = Sandbox::new().file("c.yaml", clusters(3, 1)).file("a.yaml", config_maps(5000));
        let repo = repo.file("p.yaml", policy(&selectors));
        assert!(run(&repo, "plan -o json").code < 2);
    }
}

#[test]
fn rules_of_many_policies_for_many_objects_have_a_limit() {
    let overrides = each(1500, |n| {
        format!(
            "---\napiVersion: policy.karmada.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {{name: o{n}}}\nspec: \
             {{overrideRules: [{{overriders: {{plaintext: [{{path: /data/k, operator: add, value: v}}]}}}}]}}\n"
        )
    });
    let repo = Sandbox::new().file("c.yaml", clusters(1, 1)).file("a.yaml", config_maps(2000));
    let repo =
        repo.file("p.yaml", policy("  - {apiVersion: v1, kind: ConfigMap}\n")).file("o.yaml", overrides);
    let ran = run(&repo, "render --out out").code(2);
    assert!(
        ran.err.contains("[too-much-work]") && ran.err.contains("rendering manifests takes more than"),
        "{ran:#?}"
    );
    assert!(!repo.path("out").exists(), "nothing is written");
}

#[test]
fn schemas_are_not_read_again_for_each_value() {
    let pattern =
        format!("{{type: array, items: {{type: string, pattern: \"{}y\"}}}}", "(x+x+)+".repeat(500));
    let values = format!("[{}]", vec!["xxxxxxxxxxxxxxxxxxxxxxxx"; 500].join(","));
    check(&custom(&pattern, &values, 1));
    let known = each(5000, |n| format!("p{n}: {{type: string}},"));
    let unknown = each(5000, |n| format!("q{n}: a,"));
    let said =
        check(&custom(&format!("{{type: object, properties: {{{known}}}}}"), &format!("{{{unknown}}}"), 1));
    assert!(said.contains("has no field `q0`"), "{said}");
    let keyed = "{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, \
                 properties: {k: {type: string}}}}";
    let items = format!("[{}]", each(20_000, |n| format!("{{k: k{n}}},")));
    check(&custom(keyed, &items, 1));
    let allowed =
        format!("{{type: array, items: {{type: string, enum: [{}]}}}}", each(9000, |n| format!("e{n},")));
    check(&custom(&allowed, &format!("[{}]", each(9000, |n| format!("e{n},"))), 1));
}

fn workloads(count: usize) -> String {
    each(count, |n| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{n}, namespace: a}}\nspec: {{replicas: {}, selector: \
             {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: a}}]}}}}}}\n",
            999_983 + n
        )
    })
}

/// The weights of a policy are in the memory of each workload that it divides.
/// A schema can ask for much at each of many values: what it refuses, defaults, and long patterns in messages.
#[test]
fn what_a_schema_says_of_many_values_has_a_limit() {
    let required = each(20_000, |n| format!("r{n}, "));
    let defaults = each(5000, |n| format!("p{n}: {{type: string, default: d}}, "));
    let pattern = each(20_000, |n| format!("a{n}|"));
    let schemas = [
        (format!("{{type: object, required: [{required}]}}"), "{}, "),
        (format!("{{type: object, properties: {{{defaults}}}}}"), "{}, "),
        (format!("{{type: string, pattern: \"^({pattern}z)$\"}}"), "qq, "),
    ];
    for (items, value) in schemas {
        let repo =
            custom(&format!("{{type: array, items: {items}}}"), &format!("[{}]", value.repeat(20_000)), 1);
        let said = check(&repo);
        assert!(said.contains("[too-much-work]"), "{}", said.get(..2000).unwrap_or(&said));
    }
}

/// Each cluster gets a copy of its own of one large object.
#[test]
fn copies_of_a_large_object_have_a_limit() {
    let keys = each(20_000, |n| format!("k{n}: v, "));
    let template =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: a}}\ndata: {{{keys}}}\n");
    let rules = each(1000, |n| {
        format!(
            "  - {{targetCluster: {{clusterNames: [m{n:04}]}}, overriders: {{plaintext: [{{path: /data/k, operator: add, \
             value: v{n}}}]}}}}\n"
        )
    });
    let overrides = format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {{name: o}}\nspec:\n  \
         overrideRules:\n{rules}"
    );
    let repo =
        Sandbox::new().file("c.yaml", clusters(1000, 1)).file("a.yaml", template).file("o.yaml", overrides);
    let said = check(&repo.file("p.yaml", policy("  - {apiVersion: v1, kind: ConfigMap}\n")));
    assert!(said.contains("[too-much-work]"), "{said}");
}

#[test]
fn image_overriders_of_many_containers_have_a_limit() {
    let containers = each(15_000, |n| format!("  - {{name: c{n}, image: a}}\n"));
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: a}}\nspec:\n  containers:\n{containers}"
    );
    let overriders = each(5000, |_| "      - {component: Tag, operator: replace, value: v}\n".to_owned());
    let overrides = format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {{name: o}}\nspec:\n  \
         overrideRules:\n  - overriders:\n      imageOverrider:\n{overriders}"
    );
    let repo = Sandbox::new().file("c.yaml", clusters(3, 1)).file("a.yaml", pod).file("o.yaml", overrides);
    let said = check(&repo.file("p.yaml", policy("  - {apiVersion: v1, kind: Pod}\n")));
    assert!(said.contains("[too-much-work]"), "{said}");
}

#[test]
fn names_that_nothing_has_are_looked_up() {
    let names =
        each(9000, |n| format!("  - {{apiVersion: v1, kind: ConfigMap, name: x{n}, namespace: y{n}}}\n"));
    let repo = Sandbox::new().file("c.yaml", clusters(3, 1)).file("a.yaml", config_maps(5000));
    let said = check(&repo.file("p.yaml", policy(&names)));
    assert!(said.contains("8990 unused-policy"), "{said}");
    let labels = each(9000, |n| format!("{{key: k{n}, operator: Exists}}, "));
    let affinity =
        format!("  placement: {{clusterAffinity: {{labelSelector: {{matchExpressions: [{labels}]}}}}}}\n");
    let policy = policy("  - {apiVersion: v1, kind: ConfigMap}\n") + &affinity;
    let repo = Sandbox::new().file("c.yaml", clusters(3000, 1)).file("a.yaml", config_maps(1));
    let said = check(&repo.file("p.yaml", policy));
    assert!(said.contains("has the label `k0`"), "{said}");
}

#[test]
fn a_run_that_was_stopped_calls_no_policy_unused() {
    let repo = Sandbox::new().file("c.yaml", clusters(3, 1)).file("a.yaml", config_maps(3));
    let repo = repo.file("p.yaml", policy("  - {apiVersion: v1, kind: ConfigMap}\n"));
    let stopped = run(&repo, "check --work-limit 1");
    let said = stopped.out + &stopped.err;
    assert!(said.contains("[too-much-work]") && !said.contains("unused-policy"), "{said}");
}

#[test]
fn health_checks_are_few() {
    let checks =
        each(501, |n| format!("  - {{apiVersion: example.com/v1, kind: X{n}, current: \"true\"}}\n"));
    let repo = Sandbox::web().file("federate.yaml", format!("apply:\n  healthChecks:\n{checks}"));
    let said = check(&repo);
    assert!(said.contains("there are 501 checks: at most 500 are read"), "{said}");
}

#[test]
fn the_memory_of_schedulers_has_a_limit() {
    let weights = each(5000, |n| {
        format!("        - {{targetCluster: {{clusterNames: [m{:04}]}}, weight: {}}}\n", n % 1000, n + 1)
    });
    let policy = policy("  - {apiVersion: apps/v1, kind: Deployment}\n")
        + "  placement:\n    replicaScheduling:\n      replicaSchedulingType: Divided\n      replicaDivisionPreference: \
           Weighted\n      weightPreference:\n        staticWeightList:\n"
        + &weights;
    let repo = Sandbox::new().file("c.yaml", clusters(1000, 1)).file("a.yaml", workloads(1000));
    let said = check(&repo.file("p.yaml", policy));
    assert!(
        said.contains("[too-much-work]") && said.contains("it was stopped before Deployment a/d"),
        "{said}"
    );
}

#[test]
fn clusters_of_the_configuration_are_located_at_once() {
    let list = each(5000, |n| format!("- {{name: m{n}}}\n"));
    let config = format!("unplaced: everywhere\nclusters:\n{list}");
    let repo = Sandbox::new().file("federate.yaml", config).file("a.yaml", config_maps(1));
    assert!(run(&repo, "plan -o json").out.contains("\"m4999\""));
    // What is wrong with a list is said of its first items.
    let list = each(5000, |n| format!("- {{name: '{n}/'}}\n"));
    let settings = each(5000, |n| format!("  d{n}: {{}}\n"));
    let config = format!("clusters:\n{list}dialects:\n{settings}");
    let said = run(&Sandbox::web().file("federate.yaml", config), "check -v").out;
    assert_eq!(said.matches("contains a path separator").count(), 100, "{said}");
}

#[test]
fn placements_of_the_same_objects_have_a_limit() {
    let members = each(300, |n| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: m{n:04}}}\n"
        )
    });
    let namespaces =
        each(1000, |n| format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: n{n}}}\n"));
    let placements = each(1000, |n| {
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: p{n}}}\nspec: \
             {{resourceSelectors: [{{group: \"\", version: v1, kind: Namespace, labelSelector: {{matchLabels: {{}}}}}}], policy: \
             {{placementType: PickAll}}}}\n"
        )
    });
    let repo = Sandbox::new().file("c.yaml", members).file("n.yaml", namespaces).file("p.yaml", placements);
    assert!(check(&repo).contains("[too-much-work]"));
}

/// A single override, whose patches each move a long list, or whose overriders each look at many containers.
#[test]
fn one_decision_has_a_limit() {
    let patches = "      - {path: /l/0, operator: add, value: 1}\n".repeat(8000);
    let overrides = format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {{name: o}}\nspec:\n  overrideRules:\n  \
         - overriders:\n      plaintext:\n{patches}"
    );
    let list = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: a}}\nl: [{}]\n",
        "1,".repeat(200_000)
    );
    let repo = Sandbox::new().file("c.yaml", clusters(3, 1)).file("a.yaml", list).file("o.yaml", overrides);
    let ran =
        run(&repo.file("p.yaml", policy("  - {apiVersion: v1, kind: ConfigMap}\n")), "render --out out");
    assert!(ran.err.contains("it was stopped before ConfigMap a/a"), "{ran:#?}");

    let containers = each(5000, |n| format!("  - {{name: c{n}, image: a}}\n"));
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: a, labels: {{kubeadmiral.io/cluster-propagation-policy-name: \
         p, kubeadmiral.io/cluster-override-policy-name: o}}}}\nspec:\n  containers:\n{containers}"
    );
    let images = each(5000, |n| {
        format!(
            "      - {{containerNames: [c{n}], operations: [{{imageComponent: Tag, operator: overwrite, value: v}}]}}\n"
        )
    });
    let policies = format!(
        "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {{name: p}}\nspec: {{schedulingMode: \
         Duplicate}}\n---\napiVersion: core.kubeadmiral.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {{name: o}}\nspec:\n  \
         overrideRules:\n  - overriders:\n      image:\n{images}"
    );
    let member = "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {name: m1}\n";
    let repo = Sandbox::new().file("c.yaml", member).file("a.yaml", pod).file("p.yaml", policies);
    let ran = run(&repo, "render --out out");
    assert!(ran.code < 2 || ran.err.contains("[too-much-work]"), "{ran:#?}");
}

/// What only `check` runs counts, too.
#[test]
fn scripts_that_are_only_checked_have_a_limit_together() {
    let endless = "function GetDependencies(o) while true do end end";
    let said = check(&with_script("dependencyInterpretation", endless, 2000));
    assert!(said.contains("[too-much-work]") && said.contains("checking policies takes more than"), "{said}");
}

#[test]
fn scenarios_have_a_limit_together() {
    let scenarios = each(2000, |n| {
        format!(
            "---\napiVersion: federate.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: s{n}}}\nspec: {{events: {{lose: [m0001]}}, \
             gates: {{Failover: true}}}}\n"
        )
    });
    let divided = policy("  - {apiVersion: apps/v1, kind: Deployment}\n")
        + "  placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}\n";
    let repo = Sandbox::new().file("c.yaml", clusters(30, 3)).file("a.yaml", workloads(100));
    let ran = run(&repo.file("p.yaml", divided).file("s.yaml", scenarios), "check --work-limit 2000000");
    let said = ran.out + &ran.err;
    assert!(
        said.contains("[too-much-work]") && said.contains("carrying out scenarios takes more than"),
        "{said}"
    );
}

/// Replicas of each object in each cluster, which an override chooses.
#[test]
fn counting_replicas_has_a_limit() {
    let rules = each(300, |n| {
        format!(
            "  - {{targetCluster: {{clusterNames: [m{n:04}]}}, overriders: {{plaintext: [{{path: /spec/replicas, operator: replace, \
             value: {n}}}]}}}}\n"
        )
    });
    let overrides = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {name: o}\nspec:\n  overrideRules:\n"
        .to_owned()
        + &rules;
    let repo = Sandbox::new()
        .file("c.yaml", clusters(300, 1))
        .file("a.yaml", workloads(300))
        .file("o.yaml", overrides);
    let repo = repo.file("p.yaml", policy("  - {apiVersion: apps/v1, kind: Deployment}\n"));
    let ran = run(&repo, "clusters -o json --work-limit 5000000");
    assert!(ran.err.contains("counting the replicas of manifests takes more than"), "{}", ran.err);
    assert_eq!(ran.code, 2);
    // Plans render, too.
    let ran = run(&repo, "plan -o json --work-limit 5000000");
    assert!(ran.err.contains("[too-much-work]"), "{}", ran.err);
    assert_eq!(ran.code, 2);
}

/// Followers, the decisions of a hub that looks at all placements together, and selectors of selections.
#[test]
fn what_follows_from_decisions_has_a_limit() {
    let members = each(2000, |n| {
        format!(
            "---\napiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {{name: m{n:04}}}\nspec: \
             {{hubAcceptsClient: true}}\n"
        )
    });
    let bound = "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {name: global, \
                 namespace: a}\nspec: {clusterSet: global}\n";
    let predicates = "  - {requiredClusterSelector: {labelSelector: {matchLabels: {a: b}}}}\n".repeat(6000);
    let placement = |n: usize, spec: &str| {
        format!(
            "---\napiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {{name: p{n}, namespace: \
             a}}\nspec:\n{spec}"
        )
    };
    let matching = placement(0, &format!("  predicates:\n{predicates}"));
    let many = each(2000, |n| placement(n, "  numberOfClusters: 2000\n"));
    for placements in [matching, many] {
        let repo = Sandbox::new().file("c.yaml", &members).file("b.yaml", bound);
        check(&repo.file("p.yaml", placements));
    }
}

/// The user allows more work, or less; a repo does not.
#[test]
fn the_limit_of_work_is_the_users() {
    let repo = Sandbox::web().file("federate.yaml", "workLimit: 1000000000\n");
    assert!(repo.run("plan").code(2).err.contains("unknown field `workLimit`"));
    let repo = Sandbox::web().file(
        "scenario.yaml",
        "apiVersion: federate.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec: \
        {events: {lose: [m1]}}\n",
    );
    for line in
        ["plan", "render --out out", "check", "diff --from-version karmada=1.16 --to-version karmada=1.17"]
    {
        let ran = repo.run(&format!("{line} --work-limit 1")).code(2);
        let said = ran.out.clone() + &ran.err;
        assert!(said.contains("takes more than 1 steps, --work-limit"), "{line}: {ran:#?}");
    }
    for line in ["explain deployment/web", "whatif --lose m1", "whatif --each cluster"] {
        let ran = repo.run(&format!("{line} --work-limit 1")).code(2);
        assert!(ran.err.contains("takes more than 1 steps, --work-limit"), "{line}: {ran:#?}");
    }
    repo.run("plan --work-limit 1000000").code(0);
}
