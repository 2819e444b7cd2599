//! Objects that lose their policy: what only the memory of a control plane holds is the first thing to decide.

use serde_json::{Value, json};

use super::committed;
use crate::sandbox::{CLUSTERS, Sandbox};

const INGRESS: &str = "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: gateway, namespace: shop, labels: {app: gateway}}
spec: {rules: [{host: shop.example.com}]}
";

/// A policy of Karmada for Ingresses. `selector` is what else selects them.
fn policy(kind: &str, meta: &str, selector: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: {kind}\nmetadata: {{{meta}}}\nspec:\n  resourceSelectors: \
         [{{apiVersion: networking.k8s.io/v1, kind: Ingress{selector}}}]\n  placement: {{clusterAffinity: {{clusterNames: \
         [m1, m2]}}}}\n"
    )
}

const LABEL: &str = ", labelSelector: {matchLabels: {app: gateway}}";

fn karmada() -> Sandbox {
    let own = policy("PropagationPolicy", "name: gateway, namespace: shop", LABEL);
    committed(
        Sandbox::new().file("clusters.yaml", CLUSTERS).file("policy.yaml", own).file("gateway.yaml", INGRESS),
    )
}

/// What each of the reports must say of the object, besides its name.
#[track_caller]
fn says(repo: &Sandbox, object: &str, words: &str, why: &str) -> Value {
    let text = repo.run("diff --from main").code(1).out;
    assert!(text.contains(&format!("  ! {object}: {words}")) && text.contains(why), "{text}");
    let markdown = repo.run("diff --from main -o markdown").code(1).out;
    let caution = markdown.split_once("> [!CAUTION]\n").unwrap_or_else(|| panic!("{markdown}")).1;
    assert!(
        caution.starts_with(&format!("> - `{object}`: {}", words.split(" on ").next().unwrap())),
        "{markdown}"
    );
    assert!(markdown.replace('\\', "").contains(why), "{markdown}");
    let page = repo.run("diff --from main -o html").code(1).out;
    let start = page.find("id=\"decide\"").unwrap();
    let decisions = &page[start..start + page[start..].find("</section>").unwrap()];
    assert!(
        decisions.contains("gateway") && decisions.contains("no policy selects it any more"),
        "{decisions}"
    );
    let json = repo.run("diff --from main -o json").code(1).json();
    assert_eq!(json["verdict"]["counts"]["losesPolicy"], 1, "{json}");
    json
}

const STAYS: &str =
    "no policy selects it any more; it stays on m1, m2 only because the control plane remembers it there";
const NOWHERE: &str = "no policy selects it any more, so that it runs nowhere";

#[test]
fn a_mistyped_label_takes_an_object_from_its_only_policy() {
    let repo = karmada();
    repo.write("gateway.yaml", INGRESS.replace("{app: gateway}", "{app: gatewy}"));
    let why = "PropagationPolicy shop/gateway (policy.yaml:1), which placed it, requires the label `app: gateway`, and it has `app: gatewy`";
    let json = says(&repo, "Ingress shop/gateway", STAYS, why);
    let lost = &json["lostPolicies"][0];
    assert_eq!((&lost["policy"]["name"], &lost["staysOn"]), (&json!("gateway"), &json!(["m1", "m2"])));
    assert_eq!(json["verdict"]["objects"][0]["flags"], json!(["losesPolicy", "fields"]));
    assert_eq!(json["verdict"]["sentence"], "1 object loses its policy and 1 object changes in fields.");
}

#[test]
fn a_deleted_policy_leaves_its_objects_to_the_memory() {
    let repo = karmada();
    std::fs::remove_file(repo.path("policy.yaml")).unwrap();
    says(
        &repo,
        "Ingress shop/gateway",
        STAYS,
        "PropagationPolicy shop/gateway, which placed it, is not in the repo any more",
    );
}

#[test]
fn a_narrowed_policy_leaves_its_objects_to_the_memory() {
    let wide = policy("ClusterPropagationPolicy", "name: edge", ", namespace: shop");
    let repo = committed(
        Sandbox::new()
            .file("clusters.yaml", CLUSTERS)
            .file("policy.yaml", &wide)
            .file("gateway.yaml", INGRESS),
    );
    repo.write("policy.yaml", wide.replace("namespace: shop", "namespace: store"));
    let why = "ClusterPropagationPolicy edge (policy.yaml:1), which placed it, requires the namespace `store`, and it has `shop`";
    says(&repo, "Ingress shop/gateway", STAYS, why);
}

#[test]
fn an_object_that_another_policy_takes_over_loses_none() {
    let repo = karmada();
    repo.write("policy.yaml", policy("PropagationPolicy", "name: other, namespace: shop", LABEL));
    let json = repo.run("diff --from main -o json").code(1).json();
    assert_eq!((&json["lostPolicies"], &json["verdict"]["counts"]["losesPolicy"]), (&Value::Null, &json!(0)));
}

#[test]
fn an_object_that_leaves_the_namespace_of_its_policy_runs_nowhere() {
    let repo = karmada();
    repo.write("gateway.yaml", INGRESS.replace("namespace: shop", "namespace: shopp"));
    let json = repo.run("diff --from main -o json").code(1).json();
    assert_eq!(json["verdict"]["counts"]["runsNowhere"], 1, "{json}");
    let text = repo.run("diff --from main").code(1).out;
    assert!(text.contains("Ingress shopp/gateway: new, and no policy matches it"), "{text}");
    let markdown = repo.run("diff --from main -o markdown").code(1).out;
    assert!(markdown.contains("> - 1 object runs nowhere: `Ingress shopp/gateway`"), "{markdown}");
    let page = repo.run("diff --from main -o html").code(1).out;
    let decisions = &page[page.find("id=\"decide\"").unwrap()..];
    let decisions = &decisions[..decisions.find("</section>").unwrap()];
    assert!(decisions.contains("shopp/gateway") && decisions.contains("no policy selects it"), "{decisions}");
}

#[test]
fn what_is_removed_is_said_with_what_keeps_the_policy_from_it() {
    let repo = karmada();
    repo.write("federate.yaml", "dialects: {karmada: {unclaimed: Remove}}\n");
    repo.git("add -A");
    repo.git("commit -qm setting");
    repo.write("policy.yaml", policy("PropagationPolicy", "name: gateway, namespace: shop", ", name: gate"));
    let why = "PropagationPolicy shop/gateway (policy.yaml:1), which placed it, requires the name `gate`, and it has `gateway`";
    let json = says(&repo, "Ingress shop/gateway", NOWHERE, why);
    assert_eq!(json["verdict"]["objects"][0]["flags"], json!(["runsNowhere", "losesPolicy", "deleted"]));
}

const KUBEADMIRAL: &str = "apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata: {name: m1}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata: {name: m2}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: shop}
spec: {schedulingMode: Duplicate}
";

#[test]
fn a_mistyped_name_of_a_policy_keeps_objects_by_memory_and_a_missing_one_removes_them() {
    let config = |labels: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: gateway, namespace: shop, labels: {{{labels}}}}}\n"
        )
    };
    let key = "kubeadmiral.io/propagation-policy-name";
    let repo = committed(
        Sandbox::new().file("repo.yaml", KUBEADMIRAL).file("conf.yaml", config(&format!("{key}: all"))),
    );
    repo.write("conf.yaml", config(&format!("{key}: al")));
    let why =
        "it names PropagationPolicy shop/al, which is not in the repo; PropagationPolicy shop/all placed it";
    let json = says(&repo, "ConfigMap shop/gateway", STAYS, why);
    assert_eq!(json["verdict"]["counts"]["doesNotFit"], 0);
    repo.write("conf.yaml", config("app: web"));
    says(
        &repo,
        "ConfigMap shop/gateway",
        NOWHERE,
        "PropagationPolicy shop/all (repo.yaml:9) placed it: name a policy in its label",
    );
    // The annotation that stops the scheduler keeps it from withdrawing the object.
    let paused =
        config("app: web").replace("labels:", "annotations: {kubeadmiral.io/no-scheduling: 'true'}, labels:");
    repo.write("conf.yaml", paused);
    says(&repo, "ConfigMap shop/gateway", STAYS, "PropagationPolicy shop/all (repo.yaml:9) placed it");
}

#[test]
fn a_placement_of_kubefleet_that_selects_less_is_named() {
    let clusters = "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: m1}\n";
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: gateway, labels: {app: gateway}}\nrules: []\n";
    let placement = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacement\nmetadata: {name: edge}\nspec:\n  \
        resourceSelectors: [{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, labelSelector: {matchLabels: {app: gateway}}}]\n";
    let repo = committed(
        Sandbox::new()
            .file("clusters.yaml", clusters)
            .file("role.yaml", role)
            .file("placement.yaml", placement),
    );
    repo.write("role.yaml", role.replace("{app: gateway}", "{app: gatewy}"));
    let why = "ClusterResourcePlacement edge (placement.yaml:1), which placed it, requires the label `app: gateway`, and it has `app: gatewy`";
    says(&repo, "ClusterRole gateway", NOWHERE, why);
}

#[test]
fn many_objects_of_a_deleted_policy_are_one_entry() {
    let wide = policy("ClusterPropagationPolicy", "name: edge", "");
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS).file("policy.yaml", wide);
    for at in 0..40 {
        repo.write(
            &format!("g{at}.yaml"),
            INGRESS.replace("name: gateway", &format!("name: gateway-{at:02}")),
        );
    }
    let repo = committed(repo);
    std::fs::remove_file(repo.path("policy.yaml")).unwrap();
    let text = repo.run("diff --from main").code(1).out;
    assert!(text.starts_with("main → work tree: 40 objects "), "{text}");
    assert_eq!(text.matches("no policy selects them any more; they stay on").count(), 1, "{text}");
    let narrowed = repo.run("diff --from main -o json --cluster m1").code(1).json();
    assert_eq!(narrowed["lostPolicies"].as_array().unwrap().len(), 40);
}
