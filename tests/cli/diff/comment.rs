//! The comment on a pull request: what causes the changes, whether they fit, and that it stays readable for large fleets.
//! `UPDATE_COMMENTS=1 cargo test --test cli diff::comment` updates the recorded comments.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::committed;
use crate::sandbox::{POLICY, Sandbox, WEB};

/// Clusters in regions, environments and waves. Of every seventh, the free resources are not known.
fn fleet(clusters: usize) -> String {
    const REGIONS: [&str; 4] = ["eu-west", "us-east", "ap-south", "sa-east"];
    let mut text = String::new();
    for at in 0..clusters {
        let env = if at % 3 == 0 { "staging" } else { "prod" };
        let region = REGIONS[at % if clusters > 10 { 4 } else { 2 }];
        let _ = writeln!(
            text,
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata:\n  name: m{at:03}\n  labels: {{env: {env}, \
             wave: w{}}}\nspec: {{syncMode: Push, region: {region}}}",
            at % 5
        );
        if at % 7 != 6 {
            let (all, used) = (48 + at % 5 * 8, 20 + at % 9 * 3);
            let _ = writeln!(
                text,
                "status:\n  apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment, name: deployments}}]}}]\n  \
                 conditions: [{{type: Ready, status: 'True'}}]\n  resourceSummary:\n    allocatable: {{cpu: '{all}', memory: \
                 192Gi, pods: '500'}}\n    allocated: {{cpu: '{used}', memory: 64Gi, pods: '80'}}"
            );
        }
    }
    text
}

fn app(at: usize, tag: &str) -> String {
    let (team, tier) = (at % 6, if at.is_multiple_of(3) { "db" } else { "web" });
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: app-{at:03}, namespace: team-{team}, labels: {{tier: {tier}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: app-{at:03}}}}}
  template:
    metadata: {{labels: {{app: app-{at:03}}}}}
    spec:
      containers:
      - name: main
        image: registry.example.com/app-{at:03}:{tag}
        resources: {{requests: {{cpu: 500m, memory: 512Mi}}}}
",
        replicas = 4 + at % 9
    )
}

const POLICIES: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: pinned, namespace: team-5}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: app-005}]
  placement:
    clusterAffinity: {clusterNames: [m001]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: web}}}
  placement:
    clusterAffinity:
      labelSelector: {matchLabels: {env: prod}}
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: db}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {tier: db}}}
  placement:
    clusterAffinity:
      labelSelector: {matchLabels: {env: staging}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: mirror}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  overrideRules:
  - targetCluster: {fieldSelector: {matchExpressions: [{key: region, operator: In, values: [eu-west]}]}}
    overriders:
      imageOverrider:
      - {component: Registry, operator: replace, value: eu.example.com}
";

/// A pull request that moves the web tier, changes a mirror, updates images, adds and deletes templates, and lets one run
/// nowhere.
fn pull_request(clusters: usize, apps: usize, to: &str) -> Sandbox {
    let sandbox = Sandbox::new().file("clusters.yaml", fleet(clusters)).file("policies.yaml", POLICIES);
    for at in 0..apps {
        sandbox.write(&format!("apps/app-{at:03}.yaml"), app(at, &format!("1.{}", at % 4)));
    }
    let sandbox = committed(sandbox);
    let policies =
        POLICIES.replace("labelSelector: {matchLabels: {env: prod}}", to).replace("[m001]", "[m010x]");
    sandbox.write("policies.yaml", policies.replace("value: eu.example.com", "value: mirror.example.com"));
    for at in (0..apps).filter(|at| at % 10 == 4) {
        sandbox.write(&format!("apps/app-{at:03}.yaml"), app(at, "2.0"));
    }
    sandbox.write(
        "apps/app-002.yaml",
        app(2, "1.2").replace("registry.example.com/app-002:1.2", "evil.example.com/x:9"),
    );
    sandbox.git("rm -q apps/app-003.yaml");
    sandbox.write("apps/app-900.yaml", app(900, "1.0"));
    sandbox
}

/// Compares a comment with the recorded one.
fn assert_recorded(name: &str, comment: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/diff/comments").join(name);
    if std::env::var_os("UPDATE_COMMENTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, comment).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(recorded == comment, "tests/cli/diff/comments/{name} differs from:\n{comment}");
}

fn assert_answers(comment: &str) {
    assert!(comment.len() < 65_536, "{}", comment.len());
    for answer in [
        "> [!CAUTION]",
        "1 object runs nowhere: `Deployment team-5/app-005`",
        "1 object is no longer in any cluster: `Deployment team-3/app-003`",
        "publishing this is refused: ",
        "`ClusterPropagationPolicy web` in `policies.yaml:",
        "`/spec/overrideRules/0/overriders/imageOverrider/0/value` | `eu.example.com` | `mirror.example.com` |",
        "#### Does it fit",
        "Pods restart: ",
        "`evil.example.com/x:9`",
    ] {
        assert!(comment.contains(answer), "no {answer} in:\n{comment}");
    }
}

#[test]
fn at_5_clusters_and_30_objects() {
    let sandbox = pull_request(5, 30, "labelSelector: {matchLabels: {wave: w1}}");
    let comment = sandbox.run("diff --from main -o markdown").code(1).out;
    assert_answers(&comment);
    assert_recorded("5x30.md", &comment);
}

#[test]
fn at_200_clusters_and_300_objects() {
    let regions = "fieldSelector: {matchExpressions: [{key: region, operator: In, values: [eu-west, us-east, sa-east]}]}";
    let sandbox = pull_request(200, 300, regions);
    let comment = sandbox.run("diff --from main -o markdown").code(1).out;
    assert_answers(&comment);
    assert!(comment.contains("67 clusters (`env=staging`)"), "{comment}");
    assert!(comment.contains("| clusters by `region` | replicas |"), "{comment}");
    assert_recorded("200x300.md", &comment);
}

/// The causes of a diff, as `role object file:line path` with the numbers of placements and manifests.
fn causes(diff: &Value) -> Vec<String> {
    let cause = |cause: &Value| {
        let object = cause["object"].as_object().map_or("-", |object| object["name"].as_str().unwrap());
        let paths: Vec<&str> =
            cause["fields"].as_array().unwrap().iter().map(|field| field["path"].as_str().unwrap()).collect();
        format!(
            "{} {object} {}:{} {} {} {}",
            cause["role"].as_str().unwrap(),
            cause["file"].as_str().unwrap(),
            cause["line"],
            paths.join(" "),
            cause["moves"],
            cause["manifests"]
        )
    };
    diff["causes"].as_array().map(|causes| causes.iter().map(cause).collect()).unwrap_or_default()
}

#[test]
fn causes_are_the_documents_that_decide() {
    let kubeadmiral = Sandbox::new()
        .file(
            "clusters.yaml",
            "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {name: m1, labels: {tier: a}}\n---\n\
             apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {name: m2, labels: {tier: b}}\n",
        )
        .file(
            "policy.yaml",
            "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: web, namespace: shop}\nspec:\n  \
             schedulingMode: Duplicate\n  reschedulePolicy: {rescheduleWhen: {clusterLabelsChanged: true}}\n  clusterSelector: {tier: a}\n",
        )
        .file(
            "web.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  namespace: shop\n  labels: \
             {kubeadmiral.io/propagation-policy-name: web}\ndata: {a: b}\n",
        );
    let sandbox = committed(kubeadmiral);
    sandbox.write("policy.yaml", sandbox.read("policy.yaml").replace("tier: a", "tier: b"));
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(causes(&diff), ["policy web policy.yaml:7 /spec/clusterSelector/tier 1 2"]);
    assert_eq!(diff["placements"][0]["causedBy"], json!([0]));
    // A cluster that moves in by its label.
    sandbox.git("checkout -q policy.yaml");
    sandbox.write("clusters.yaml", sandbox.read("clusters.yaml").replace("tier: b", "tier: a"));
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(causes(&diff), ["cluster m2 clusters.yaml:7 /metadata/labels/tier 1 1"]);

    let kubefleet = Sandbox::new()
        .file(
            "clusters.yaml",
            "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: m1}\nspec: {identity: {kind: User, \
             name: m1}}\n---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: m2}\nspec: \
             {identity: {kind: User, name: m2}}\n",
        )
        .file(
            "policy.yaml",
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: shop}\nspec:\n  \
             resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]\n  policy: {placementType: PickFixed, \
             clusterNames: [m1]}\n",
        )
        .file(
            "web.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, \
             namespace: shop}\ndata:\n  a: b\n",
        );
    let sandbox = committed(kubefleet);
    sandbox.write("policy.yaml", sandbox.read("policy.yaml").replace("[m1]", "[m1, m2]"));
    sandbox.write("web.yaml", sandbox.read("web.yaml").replace("a: b", "a: c"));
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(
        causes(&diff),
        ["policy shop policy.yaml:6 /spec/policy/clusterNames/1 2 2", "template web web.yaml:9 /data/a 0 2"]
    );

    let kubefed = Sandbox::new()
        .file(
            "clusters.yaml",
            "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\nmetadata: {name: m1, namespace: kube-federation-system}\nspec: \
             {apiEndpoint: 'https://m1', secretRef: {name: m1}}\n---\napiVersion: core.kubefed.io/v1beta1\nkind: \
             KubeFedCluster\nmetadata: {name: m2, namespace: kube-federation-system}\nspec: {apiEndpoint: 'https://m2', secretRef: \
             {name: m2}}\n",
        )
        .file(
            "web.yaml",
            "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedNamespace\nmetadata: {name: shop, namespace: shop}\nspec:\n  \
             placement: {clusters: [{name: m1}, {name: m2}]}\n---\napiVersion: types.kubefed.io/v1beta1\nkind: \
             FederatedConfigMap\nmetadata: {name: web, namespace: shop}\nspec:\n  template:\n    data: {a: b}\n  placement:\n    \
             clusters: [{name: m1}]\n",
        );
    let sandbox = committed(kubefed);
    sandbox.write("web.yaml", sandbox.read("web.yaml").replace("data: {a: b}", "data: {a: c}"));
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(causes(&diff), ["bundle web web.yaml:12 /spec/template/data/a 0 1"]);
}

#[test]
fn overrides_and_templates_are_told_apart_by_the_fields_that_they_write() {
    const OVERRIDE: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: pull, namespace: shop}
spec:
  overrideRules:
  - targetCluster: {clusterNames: [m1]}
    overriders:
      plaintext:
      - {path: /spec/template/spec/containers/0/imagePullPolicy, operator: add, value: Always}
";
    let sandbox = committed(Sandbox::web().file("override.yaml", OVERRIDE));
    sandbox.write("override.yaml", OVERRIDE.replace("Always", "Never"));
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(
        causes(&diff),
        [
            "override pull override.yaml:9 /spec/overrideRules/0/overriders/plaintext/0/value 0 1",
            "template web web.yaml:16 /spec/template/spec/containers[name=web]/image 0 2"
        ]
    );
    let by_clusters: Vec<(&Value, &Value)> = diff["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (&change["clusters"], &change["causedBy"]))
        .collect();
    assert_eq!(by_clusters, [(&json!(["m1"]), &json!([0, 1])), (&json!(["m2"]), &json!([1]))]);
    // An edit without effect is named.
    sandbox.git("checkout -q web.yaml");
    sandbox.write(
        "override.yaml",
        OVERRIDE
            .replace("spec:\n", "  labels: {team: shop}\nspec:\n")
            .replace("metadata: {name: pull, namespace: shop}", "metadata:\n  name: pull\n  namespace: shop"),
    );
    let comment = sandbox.run("diff --from main -o markdown").code(0).out;
    assert!(
        comment.contains(
            "Changed in the repo, without effect in any cluster: `OverridePolicy shop/pull` in `override.yaml:6`"
        ),
        "{comment}"
    );
}

#[test]
fn what_runs_nowhere_is_an_alert_with_its_reason() {
    let sandbox = committed(Sandbox::web());
    sandbox.write(
        "policy.yaml",
        POLICY.replace(
            "placement:\n",
            "placement:\n    clusterAffinity: {labelSelector: {matchLabels: {a: b}}}\n",
        ),
    );
    let ran = sandbox.run("diff --from main -o markdown").code(1).out;
    assert!(ran.contains("`main` → `work tree`: 1 object runs nowhere"), "{ran}");
    assert!(ran.contains("> - 1 object runs nowhere: `Deployment shop/web`\n"), "{ran}");
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(diff["verdict"]["objects"][0]["flags"], json!(["runsNowhere", "deleted"]));
    assert_eq!(diff["placements"][0]["runsNowhere"], json!(true));
    // Karmada leaves a template where it is that no policy selects any more; one that is gone is deleted.
    sandbox.git("rm -q -f policy.yaml");
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(diff["verdict"]["counts"]["runsNowhere"], json!(0));
    sandbox.git("rm -q web.yaml");
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(diff["verdict"]["counts"]["runsNowhere"], json!(0));
    assert_eq!(diff["verdict"]["counts"]["deletedManifests"], json!(2));
}

#[test]
fn the_refusal_names_the_ways_to_confirm_it() {
    let sandbox = committed(Sandbox::web());
    sandbox.git("rm -q web.yaml");
    let label = "--prune-label federate/confirm-deletions";
    let comment = sandbox.run(&format!("diff --from main -o markdown {label}")).code(1).out;
    assert!(
        comment.contains(
            "> - publishing this is refused: nothing is rendered any more, but 2 objects were; the label \
             `federate/confirm-deletions` or `--prune-limit 100` confirms it\n"
        ),
        "{comment}"
    );
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(diff["deletionGuard"]["deleted"], json!(2));
    let confirmed = sandbox.run("diff --from main -o json --prune-limit 100").code(1).json();
    assert_eq!(confirmed.get("deletionGuard"), None);
}

#[test]
fn whether_it_fits_is_said_with_the_amounts() {
    let sandbox = committed(
        Sandbox::new()
            .file("clusters.yaml", fleet(3))
            .file("policies.yaml", POLICIES)
            .file("app.yaml", app(1, "1")),
    );
    sandbox.write("app.yaml", app(1, "1").replace("replicas: 5", "replicas: 9"));
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    let cpu = &diff["capacity"]["m001"]["cpu"];
    assert_eq!(
        (
            &cpu["allocatable"],
            &cpu["requestedBefore"],
            &cpu["requestedAfter"],
            &cpu["leftBefore"],
            &cpu["leftAfter"]
        ),
        (&json!("56"), &json!("1500m"), &json!("2500m"), &json!("33"), &json!("32"))
    );
    assert!(diff["capacity"].get("m000").is_some(), "{}", diff["capacity"]);
    let text = sandbox.run("diff --from main").code(1).out;
    assert!(
        text.contains("Does it fit\n  yes, in 2 clusters with known resources; the tightest:\n"),
        "{text}"
    );
    sandbox.write("app.yaml", app(1, "1").replace("replicas: 5", "replicas: 900"));
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(diff["verdict"]["counts"]["doesNotFit"], json!(1), "{diff}");
}

#[test]
fn totals_are_those_of_the_objects_that_are_shown() {
    let api = WEB.replace("name: web", "name: api").replace("namespace: shop", "namespace: other");
    let sandbox = committed(Sandbox::web().file("api.yaml", api));
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 6"));
    let all = sandbox.run("diff --from main -o json").code(1).json();
    let shop = sandbox.run("diff --from main -o json -n shop").code(1).json();
    assert_eq!(shop["totals"]["to"]["replicas"], json!(6));
    assert_eq!(shop["totals"]["from"]["placed"], json!(1));
    assert_eq!(all["causes"], shop["causes"]);
    let other = sandbox.run("diff --from main -o json -n other").code(0).json();
    assert_eq!(other["totals"]["from"], other["totals"]["to"]);
    assert_eq!(other.get("causes"), None);
}

#[test]
fn values_of_secrets_are_not_in_causes() {
    const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: token, namespace: shop}\nstringData: {password: correct-horse}\n";
    let sandbox = committed(Sandbox::web().file("secret.yaml", SECRET));
    sandbox.write("secret.yaml", SECRET.replace("correct-horse", "battery-staple"));
    for format in ["json", "markdown", "table", "yaml"] {
        let ran = sandbox.run(&format!("diff --from main -o {format}"));
        assert!(!ran.out.contains("battery") && !ran.out.contains("horse"), "{}", ran.out);
    }
}
