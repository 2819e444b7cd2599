//! `federate diff`, between revisions of real git repositories.

use serde_json::{Value, json};

use crate::sandbox::{CLUSTERS, POLICY, Sandbox, WEB};

mod base;
mod comment;
mod findings;
mod first;
mod lost_policies;
mod settings;

/// A repo whose state is committed.
fn committed(sandbox: Sandbox) -> Sandbox {
    sandbox.git("init -q -b main");
    commit(&sandbox);
    sandbox
}

fn commit(sandbox: &Sandbox) {
    sandbox.git("add -A");
    sandbox.git("commit -q -m state");
}

fn web() -> Sandbox {
    committed(Sandbox::web())
}

const SECRET: &str = "apiVersion: v1
kind: Secret
metadata: {name: token, namespace: shop}
stringData: {password: correct-horse, user: web}
";

/// A policy that sends all objects of a kind to every cluster.
fn everywhere(kind: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: all-{}, namespace: shop}}
spec:
  resourceSelectors: [{{apiVersion: v1, kind: {kind}}}]
",
        kind.to_lowercase()
    )
}

fn fleet(clusters: usize) -> String {
    let cluster = |at| {
        format!("---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: m{at:03}}}\n")
    };
    (0..clusters).map(cluster).collect()
}

fn configs(count: usize, value: &str) -> String {
    let one = |at| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{at:04}, namespace: shop}}\ndata: {{key: '{value} {at}'}}\n"
        )
    };
    (0..count).map(one).collect()
}

#[test]
fn nothing_changed_is_a_sentence_and_0() {
    let sandbox = web();
    let ran = sandbox.run("diff --from main").code(0);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("main and work tree render the same\n", ""));
    let markdown = sandbox.run("diff --from main --to HEAD -o markdown").code(0).out;
    assert!(
        markdown.ends_with("`main` → `HEAD`: both revisions render the same manifests for every cluster.\n"),
        "{markdown}"
    );
}

#[test]
fn a_policy_that_moves_things() {
    let sandbox = web();
    sandbox.write(
        "policy.yaml",
        POLICY.replace("placement:\n", "placement:\n    clusterAffinity: {clusterNames: [m2]}\n"),
    );
    let ran = sandbox.run("diff --from main").code(1);
    assert_eq!(
        ran.out,
        "\
main → work tree: 1 object moved; 1 manifest changed, 1 removed in 2 clusters

Deleted from clusters
  - m1: Deployment shop/web

Publishing this is refused: 1 of the 2 objects would go, and more than 30 % at once may be a mistake; cluster m1 would lose everything; --prune-limit 100 confirms it

Placement changes
  ~ Deployment shop/web moved, 2 of 4 replicas
      2 → –            m1
      2 → 4            m2
      by PropagationPolicy shop/web

Manifest changes
  not shown: 1 changed manifest in which only replicas differ

Caused by
  ~ policy.yaml:12 PropagationPolicy shop/web: 1 placement, 2 manifests
      /spec/placement/clusterAffinity: – → {\"clusterNames\":[\"m2\"]}

Does it fit
  not known for m2: neither the inventory nor a snapshot says what is free there
"
    );
    let ran = sandbox.run("diff --from main -o markdown").code(1);
    assert_eq!(
        ran.out,
        "\
<!-- federate diff -->
### federate: 1 manifest is deleted from 1 cluster, 1 object moves

`main` → `work tree`: 1 manifest is deleted from 1 cluster and 1 object moves. 1 manifest changed, 1 removed in 2 clusters.

> [!CAUTION]
> - 1 of 2 manifests are deleted (50 %)
> - publishing this is refused: 1 of the 2 objects would go, and more than 30 % at once may be a mistake; cluster m1 would lose everything; `--prune-limit 100` confirms it

#### Deleted from clusters

- `m1`: `Deployment shop/web`

#### Caused by

| changed in the repo | field | before | after | effect |
|---|---|---|---|---|
| `PropagationPolicy shop/web` in `policy.yaml:12` | `/spec/placement/clusterAffinity` | – | `{\"clusterNames\":[\"m2\"]}` | 1 placement, 2 manifests |

#### Does it fit

It is not known whether there is room in `m2`: neither the inventory nor a snapshot says what is free there.

#### Totals

| | before | after | |
|---|--:|--:|--:|
| Clusters | 2 | 2 |  |
| Objects placed | 1 | 1 |  |
| Replicas | 4 | 4 |  |
| Manifests in all clusters | 2 | 1 | −1 |

| cluster | replicas | added | changed | removed |
|---|--:|--:|--:|--:|
| `m1` | −2 |  |  | 1 |
| `m2` | +2 |  | 1 |  |

#### Placement changes

| object | clusters | before | after | why |
|---|---|--:|--:|---|
| `Deployment shop/web` | `m1` | 2 | – | by `PropagationPolicy shop/web` |
|  | `m2` | 2 | 4 |  |

#### Manifest changes

*not shown: 1 changed manifest in which only replicas differ*
"
    );
}

/// Karmada deletes a Cluster that leaves the repo, and moves its replicas first.
#[test]
fn a_cluster_of_karmada_that_leaves() {
    let sandbox = web();
    let (m1, _) = crate::sandbox::CLUSTERS.split_once("---").unwrap();
    sandbox.write("clusters.yaml", m1);
    let ran = sandbox.run("diff --from main").code(1);
    let text = "\
main → work tree: 1 object moved; 1 manifest changed, 1 removed in 2 clusters; 1 cluster leaves

Clusters
  - m2

Left behind in clusters that leave the inventory
  - m2: Deployment shop/web

Publishing this is refused: 1 of the 2 objects would go, and more than 30 % at once may be a mistake; cluster m2 would lose everything; --prune-limit 100 confirms it

Placement changes
  ~ Deployment shop/web moved, 2 of 4 replicas
      2 → 4            m1
      2 → –            m2
      by PropagationPolicy shop/web

Manifest changes
  not shown: 1 changed manifest in which only replicas differ
";
    assert!(ran.out.starts_with(text), "{}", ran.out);
}

/// The first claim of Karmada outlives its policy: the object stays, and is not scheduled any more.
#[test]
fn an_object_of_karmada_whose_policy_is_removed() {
    let sandbox = web();
    sandbox.write("policy.yaml", "");
    let ran = sandbox.run("diff --from main").code(1);
    let text = "\
main → work tree: 1 object loses its policy

Objects that lose their policy
  ! Deployment shop/web: no policy selects it any more; it stays on m1, m2 only because the control plane remembers it there
      PropagationPolicy shop/web, which placed it, is not in the repo any more

Placement changes
  ~ Deployment shop/web left without a policy, 4 replicas
      before by PropagationPolicy shop/web

New findings
  warning[unclaimed] Deployment shop/web stays on m1, m2, although no policy selects it: PropagationPolicy shop/web, which placed it, is not in the repo any more. Karmada removes nothing then, and does not schedule it any more (web.yaml:4)
";
    assert_eq!(ran.out, text);
}

#[test]
fn a_template_that_changes() {
    let sandbox = web();
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    let ran = sandbox.run("diff --from main").code(1);
    assert_eq!(
        ran.out,
        "\
main → work tree: 2 manifests changed in 2 clusters

Manifest changes
  ~ Deployment shop/web in m1, m2
      /spec/template/spec/containers[name=web]/image: nginx:1.27 → nginx:1.28
    @@ -15,4 +15,4 @@
         spec:
           containers:
           - name: web
    -        image: nginx:1.27
    +        image: nginx:1.28

Caused by
  ~ web.yaml:16 Deployment shop/web: 2 manifests
"
    );
    let json = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(json["objects"][0]["clusters"], json!(["m1", "m2"]));
    assert_eq!(json["objects"][0]["paths"][0]["to"], "nginx:1.28");
    assert_eq!(json["placements"], json!([]));
}

#[test]
fn a_move_and_a_change_are_both_shown() {
    let sandbox = web();
    let narrow = |cluster: &str| {
        POLICY.replace(
            "placement:\n",
            &format!("placement:\n    clusterAffinity: {{clusterNames: [{cluster}]}}\n"),
        )
    };
    sandbox.write("policy.yaml", narrow("m1"));
    sandbox.git("commit -q -a -m narrow");
    sandbox.write("policy.yaml", narrow("m2"));
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    let out = sandbox.run("diff --from main").code(1).out;
    assert!(out.contains("Deployment shop/web moved, 4 replicas"), "{out}");
    assert!(
        out.contains(
            "~ Deployment shop/web in m2 (newly placed there, compared with its manifest in other clusters)\n"
        ),
        "{out}"
    );
    assert!(out.contains("/image: nginx:1.27 → nginx:1.28"), "{out}");
    let json = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(json["objects"][0]["kind"], "added");
    assert_eq!(json["objects"][0]["paths"].as_array().map(Vec::len), Some(1), "{json:#}");
}

#[test]
fn replicas_are_shown_once() {
    let sandbox = web();
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 7"));
    let out = sandbox.run("diff --from main").code(1).out;
    assert!(out.contains("Deployment shop/web scaled, 4 → 7 replicas"), "{out}");
    assert!(
        out.contains("Manifest changes\n  not shown: 2 changed manifests in which only replicas differ\n"),
        "{out}"
    );
}

#[test]
fn clusters_come_and_go() {
    let sandbox = committed(Sandbox::web().file("policy.yaml", POLICY.replace("Divided", "Duplicated")));
    sandbox.write("clusters.yaml", CLUSTERS.replace("name: m2", "name: m3"));
    let out = sandbox.run("diff --from main").code(1).out;
    assert!(out.contains("1 cluster joins; 1 cluster leaves"), "{out}");
    assert!(out.contains("Clusters\n  + m3\n  - m2\n"), "{out}");
    let left = "Left behind in clusters that leave the inventory\n  - m2: Deployment shop/web\n";
    assert!(out.contains(left), "{out}");
    sandbox.run("diff --from main --cluster m2").code(1);
    let only = sandbox.run("diff --from main --cluster m3").code(1).out;
    assert!(!only.contains("m2") && only.contains("m3"), "{only}");
    let said = sandbox.run("diff --from main --cluster m4").code(2).err;
    assert!(said.contains("no cluster `m4` in the inventory, which has: m1, m2, m3"), "{said}");
}

#[test]
fn what_is_gone_would_be_pruned() {
    let sandbox =
        committed(Sandbox::web().file("c.yaml", configs(2, "a")).file("p.yaml", everywhere("ConfigMap")));
    std::fs::remove_file(sandbox.path("c.yaml")).unwrap();
    let out = sandbox.run("diff --from main -q").code(1).out;
    assert!(
        out.contains("Deleted from clusters\n  - m1, m2: ConfigMap shop/c0000, ConfigMap shop/c0001\n"),
        "{out}"
    );
}

#[test]
fn values_of_secrets_never_show() {
    let sandbox = committed(Sandbox::web().file("secret.yaml", SECRET).file("p.yaml", everywhere("Secret")));
    sandbox.write("secret.yaml", SECRET.replace("correct-horse", "battery-staple"));
    for output in ["table", "markdown", "json"] {
        let ran = sandbox.run(&format!("diff --from main -o {output}")).code(1);
        let all = ran.out + &ran.err;
        assert!(all.contains("password") && all.contains("<secret "), "{all}");
        assert!(!all.contains("horse") && !all.contains("staple"), "{all}");
    }
    let digest = |key: &str| {
        let mut command = sandbox.command("diff --from main -o json");
        let output = command.env("FEDERATE_DIGEST_KEY", key).output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["objects"][0]["paths"][0]["to"].as_str().unwrap().to_owned()
    };
    let keys = ["the first of two keys", "the second of two keys"];
    assert_eq!(digest(keys[0]), digest(keys[0]));
    assert_ne!(digest(keys[0]), digest(keys[1]));
    let short =
        sandbox.command("diff --from main").env("FEDERATE_DIGEST_KEY", "0123456789abcde").output().unwrap();
    let said = String::from_utf8(short.stderr).unwrap();
    assert!(
        short.status.code() == Some(2) && said.contains("FEDERATE_DIGEST_KEY has fewer than 16 bytes"),
        "{said}"
    );
    let random = || sandbox.run("diff --from main -o json").json()["objects"][0]["paths"][0]["to"].clone();
    assert_ne!(random(), random());
    // An error in a file is reported with its place but without its content.
    sandbox.write("secret.yaml", SECRET.replace("{password: correct-horse,", "{password: [battery-staple,"));
    let ran = sandbox.run("diff --from main").code(2);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("secret.yaml:4") && !ran.err.contains("staple"), "{}", ran.err);
}

#[test]
fn the_same_in_a_hundred_clusters_is_shown_once() {
    let sandbox = committed(
        Sandbox::new()
            .file("web.yaml", WEB)
            .file("clusters.yaml", fleet(120))
            .file("policy.yaml", POLICY.replace("Divided", "Duplicated")),
    );
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    let out = sandbox.run("diff --from main").code(1).out;
    assert!(out.contains("~ Deployment shop/web in all 120 clusters\n"), "{out}");
    assert_eq!(out.matches("nginx:1.28").count(), 2, "{out}");
    sandbox.write("clusters.yaml", fleet(119));
    let out = sandbox.run("diff --from main -o markdown").code(1).out;
    assert!(out.contains("</b> in all 119 clusters: "), "{out}");
    assert_eq!(out.matches("`nginx:1.28`").count(), 1, "{out}");
}

/// Many policies that get the same line are one row; one that gets another stands for itself.
#[test]
fn equal_edits_of_policies_are_one() {
    let policies = |last: &str| -> String {
        let one = |at: usize| {
            let clusters = if at == 5 { last } else { "m1" };
            format!(
                "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p{at}, namespace: shop}}\nspec:\n  \
                 resourceSelectors: [{{apiVersion: v1, kind: ConfigMap, name: c{at}}}]\n  placement: {{clusterAffinity: {{clusterNames: [{clusters}]}}}}\n"
            )
        };
        (0..6).map(one).collect()
    };
    let config = |at: usize| {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{at}, namespace: shop}}\n")
    };
    let configs: String = (0..6).map(config).collect();
    let fleet = Sandbox::new().file("clusters.yaml", CLUSTERS).file("c.yaml", configs);
    let count_edits = |out: &str| {
        out.split_once("\nCaused by\n").map_or(0, |(_, caused)| caused.matches(" p.yaml:").count())
    };
    let sandbox = committed(fleet.file("p.yaml", policies("m1")));
    sandbox.write("p.yaml", policies("m1").replace("[m1]", "[m2]"));
    let out = sandbox.run("diff --from main").code(1).out;
    assert_eq!(count_edits(&out), 1, "{out}");
    sandbox.write("p.yaml", policies("m1, m2").replace("[m1]", "[m2]"));
    let out = sandbox.run("diff --from main").code(1).out;
    assert_eq!(count_edits(&out), 2, "{out}");
}

#[test]
fn a_comment_stays_below_its_limit() {
    let fleet = Sandbox::new().file("clusters.yaml", CLUSTERS).file("p.yaml", everywhere("ConfigMap"));
    // Each object has a key of its own, so that no two changes are alike.
    let configs = |value: &str| -> String {
        let one = |at| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{at:04}, namespace: shop}}\ndata: {{key{at}: {value}}}\n"
            )
        };
        (0..1500).map(one).collect()
    };
    let sandbox = committed(fleet.file("c.yaml", configs("before")));
    sandbox.write("c.yaml", configs("after"));
    let out = sandbox.run("diff --from main -o markdown").code(1).out;
    assert!(out.len() < 60_000, "{}", out.len());
    assert!(out.contains("3000 manifests changed in 2 clusters"), "{}", &out[..200]);
    assert!(out.contains("To see everything: `federate diff . --from main`"), "{}", &out[out.len() - 300..]);
    let text = sandbox.run("diff --from main").code(1).out;
    assert_eq!(text.matches("/data/key").count(), 1500);
}

#[test]
fn what_a_repo_says_stays_text() {
    let sandbox =
        committed(Sandbox::web().file("c.yaml", configs(1, "a")).file("p.yaml", everywhere("ConfigMap")));
    let evil = "```</details><img src=x>|@team [x](http://e.example) `";
    sandbox.write("c.yaml", configs(1, evil));
    let out = sandbox.run("diff --from main -o markdown").code(1).out;
    let (prose, diff) = out.split_once("````diff\n").unwrap();
    assert!(diff.contains(evil), "{diff}");
    assert!(!prose.contains("<img") && !prose.contains("@team"), "{prose}");
    assert_eq!(prose.matches("</details>").count(), 0, "{prose}");
}

#[test]
fn errors_of_either_side_are_reported() {
    let sandbox = committed(Sandbox::web().file("broken.yaml", "a: [1\nb: 2\n"));
    std::fs::remove_file(sandbox.path("broken.yaml")).unwrap();
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    let ran = sandbox.run("diff --from main").code(1);
    assert!(ran.err.starts_with("in main: broken.yaml:2: error[invalid-yaml]: "), "{}", ran.err);
    assert!(ran.out.contains("Resolved findings\n  error[invalid-yaml]"), "{}", ran.out);
    commit(&sandbox);
    let ran = sandbox.run("diff --from main --to main~1").code(2);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("nothing was compared"), "{}", ran.err);
    let ran = sandbox.run("diff --from main --to main~1 --keep-going").code(2);
    assert!(ran.out.contains("nginx:1.28 → nginx:1.27"), "{}", ran.out);
    let ran = sandbox.run("diff --from nowhere").code(2);
    assert!(ran.err.contains("no revision `nowhere`"), "{}", ran.err);
}

#[test]
fn a_change_of_what_becomes_of_unplaced_templates_is_no_change_of_policies() {
    let sandbox =
        Sandbox::web().file("c.yaml", configs(1, "a")).file("federate.yaml", "unplaced: everywhere\n");
    let sandbox = committed(sandbox);
    assert_eq!(sandbox.run("diff --from main").code(0).err, "");
    sandbox.write("federate.yaml", "unplaced: warn\n");
    let out = sandbox.run("diff --from main").code(1).out;
    assert!(out.contains("ConfigMap shop/c0000: placed without a policy before, and nowhere now"), "{out}");
    sandbox.write("federate.yaml", "unplaced: error\n");
    for line in ["diff --from main", "whatif --lose m1", "plan", "render --out out"] {
        let err = sandbox.run(line).code(2).err;
        assert!(
            err.contains("error[unmatched]") && err.contains("`unplaced: error` in federate.yaml"),
            "{line}: {err}"
        );
    }
    sandbox.write("federate.yaml", "unplaced: warn\n");
    commit(&sandbox);
    sandbox.write("federate.yaml", "unplaced: everywhere\n");
    let out = sandbox.run("diff --from HEAD").code(1).out;
    assert!(out.contains("ConfigMap shop/c0000: placed now, without a policy"), "{out}");
    let out = sandbox.run("whatif --remove m1").code(1).out;
    assert!(out.contains("ConfigMap shop/c0000 placed on fewer clusters"), "{out}");
    sandbox.write("federate.yaml", "unplaced: everywere\n");
    let err = sandbox.run("diff --from HEAD").code(2).err;
    assert!(err.contains("did you mean `everywhere`?"), "{err}");
}

#[test]
fn the_earlier_side_is_the_memory_of_the_later() {
    let status = "status: {resourceSummary: {allocatable: {pods: 100}}, apiEnablements: [{groupVersion: apps/v1, resources: [{kind: Deployment}]}]}\n";
    let clusters = |names: &[&str]| -> String {
        let one = |name: &&str| {
            format!(
                "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\n{status}"
            )
        };
        names.iter().map(one).collect()
    };
    let policy = POLICY.to_owned()
        + "      replicaDivisionPreference: Weighted\n      weightPreference: {dynamicWeight: AvailableReplicas}\n";
    let sandbox = committed(
        Sandbox::new()
            .file("web.yaml", WEB)
            .file("policy.yaml", policy)
            .file("clusters.yaml", clusters(&["m1", "m2"])),
    );
    sandbox.write("clusters.yaml", clusters(&["m1", "m2", "m3"]));
    let fresh = sandbox.run("plan -o json").code(0).json();
    assert_eq!(fresh["placements"][0]["clusters"].as_array().map(Vec::len), Some(3));
    let json = sandbox.run("diff --from main -o json").code(1).json();
    assert_eq!(json["placements"], json!([]), "a cluster that joins moves nothing by itself");
}

/// Validates a value with the parts of JSON Schema that `schemas/` uses.
fn valid(value: &Value, schema: &Value, root: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        return valid(value, &root["$defs"][name.trim_start_matches("#/$defs/")], root, at);
    }
    if let Some(any) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let fits = any.iter().any(|one| match (one["const"].as_str(), one["enum"].as_array()) {
            (Some(word), _) => value == word,
            (_, Some(words)) => words.contains(value),
            _ => one["type"] != "null" || value.is_null(),
        });
        return assert!(fits, "{at}: {value} is none of {any:?}");
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(key.as_str().unwrap()).is_some(), "{at}: no {key} in {value}");
    }
    match value {
        Value::Object(map) if schema["properties"].is_object() => {
            for (key, value) in map {
                let known = &schema["properties"][key];
                assert!(!known.is_null(), "{at}: the schema has no `{key}`");
                valid(value, known, root, &format!("{at}/{key}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| valid(item, &schema["items"], root, at)),
        _ => {}
    }
}

#[test]
fn json_is_as_its_schema_says() {
    let sandbox =
        committed(Sandbox::web().file("c.yaml", configs(2, "a")).file("p.yaml", everywhere("ConfigMap")));
    sandbox.write("c.yaml", configs(1, "b"));
    sandbox.write("web.yaml", WEB.replace("replicas: 4", "replicas: 5"));
    sandbox.write("secret.yaml", SECRET);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/diff.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let diff = sandbox.run("diff --from main -o json").code(1).json();
    for part in ["placements", "objects", "pruned", "findings"] {
        assert!(diff[part].as_array().is_some_and(|items| !items.is_empty()), "{part}: {diff:#}");
    }
    assert_eq!((&diff["apiVersion"], &diff["kind"]), (&json!("federate.dev/v1alpha1"), &json!("Diff")));
    valid(&diff, &schema, &schema, "");
}

#[test]
fn quiet_leaves_the_summary_and_the_warnings_out() {
    let sandbox = web();
    assert_eq!(sandbox.run("diff -q --from main").code(0).out, "");
    sandbox.write("c.yaml", configs(1, "a"));
    sandbox.write("web.yaml", WEB.replace("nginx:1.27", "nginx:1.28"));
    let out = sandbox.run("diff -q --from main").code(1).out;
    assert!(out.starts_with("Manifest changes\n") && !out.contains("New findings"), "{out}");
}

#[test]
fn changes_of_the_same_field_to_different_values_are_folded() {
    let fleet = Sandbox::new().file("clusters.yaml", CLUSTERS).file("p.yaml", everywhere("ConfigMap"));
    let sandbox = committed(fleet.file("c.yaml", configs(40, "before")));
    sandbox.write("c.yaml", configs(40, "after"));
    let out = sandbox.run("diff --from main").code(1).out;
    assert_eq!(out.matches("/data/key").count(), 1, "{out}");
    assert!(out.contains("~ 40 objects in m1, m2, each with its own values\n"), "{out}");
    assert!(out.contains("before ") && out.contains("after "), "{out}");
}

/// Deployments that run an image of their own name, in every cluster.
fn deployments(names: &[&str], image: impl Fn(&str) -> String) -> Sandbox {
    let sandbox = Sandbox::new()
        .file("federate.yaml", "clusters: [{name: eu-1}, {name: us-1}]\nunplaced: everywhere\n");
    names.iter().fold(sandbox, |sandbox, name| {
        sandbox.file(
            &format!("{name}.yaml"),
            WEB.replacen("name: web", &format!("name: {name}"), 1).replace("nginx:1.27", &image(name)),
        )
    })
}

#[test]
fn an_image_of_another_registry_does_not_hide_among_others() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let sandbox = committed(deployments(&names, |name| format!("good.example.com/{name}:1")));
    for name in names {
        let image = match name {
            "b" => "other.example.com/miner:latest".to_owned(),
            name => format!("good.example.com/{name}:2"),
        };
        let file = sandbox.path(&format!("{name}.yaml"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, text.replace(&format!("good.example.com/{name}:1"), &image)).unwrap();
    }
    let out = sandbox.run("diff --from main").code(1).out;
    let outlier = out.find("other.example.com/miner:latest").expect(&out);
    let pattern = out.find("5 objects").expect(&out);
    assert!(outlier < pattern, "{out}");
    let markdown = sandbox.run("diff --from main -o markdown").code(1).out;
    assert!(markdown.contains("| `good.example.com/b:1` | `other.example.com/miner:latest` |"), "{markdown}");
    assert!(markdown.contains("| `:1` | `:2` |"), "{markdown}");
    let all = sandbox.run("diff --from main -v").code(1).out;
    for name in ["a", "c", "d", "e", "f"] {
        assert!(all.contains(&format!("good.example.com/{name}:1 → good.example.com/{name}:2")), "{all}");
    }
    let yaml = sandbox.run("diff --from main -o yaml").code(1).out;
    assert!(yaml.contains("kind: Diff\n") && yaml.contains("miner"), "{yaml}");
}

#[test]
fn an_object_that_goes_is_an_alert() {
    let sandbox = committed(deployments(&["a", "b", "c", "d"], |name| format!("{name}:1")));
    std::fs::remove_file(sandbox.path("a.yaml")).unwrap();
    let out = sandbox.run("diff --from main -o markdown").code(1).out;
    assert!(
        out.contains("> [!CAUTION]\n> - 1 object is no longer in any cluster: `Deployment shop/a`\n"),
        "{out}"
    );
    assert!(!out.contains(" %)"), "{out}");
    std::fs::remove_file(sandbox.path("b.yaml")).unwrap();
    let out = sandbox.run("diff --from main -o markdown").code(1).out;
    assert!(out.contains("> - 4 of 8 manifests are deleted (50 %)\n"), "{out}");
}

#[test]
fn a_cluster_that_is_only_added_moves_nothing() {
    let narrow = POLICY
        .replace("Divided", "Duplicated")
        .replace("placement:\n", "placement:\n    clusterAffinity: {clusterNames: [m1]}\n");
    let sandbox = committed(Sandbox::web().file("policy.yaml", &narrow));
    sandbox.write("policy.yaml", narrow.replace("[m1]", "[m1, m2]"));
    let out = sandbox.run("diff --from main").code(1).out;
    assert!(out.contains(": 1 object placed on more clusters; 1 manifest added in 1 cluster;"), "{out}");
    assert!(out.contains("~ Deployment shop/web placed on more clusters"), "{out}");
}
