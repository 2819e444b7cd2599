//! Mistakes that could make a message show a credential: no command prints the value.

use rayon::prelude::*;

use crate::sandbox::Sandbox;

/// What no output may contain.
const PLANTED: &str = "hunter2";

/// Files with a mistake, each with the value where people put credentials.
const MISTAKES: [(&str, &str); 60] = [
    // Secrets that do not parse, or whose kind is misspelled.
    ("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2\n"),
    (
        "s.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a: hunter2\n  a: hunter2\n",
    ),
    ("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a: \"hunter2\n"),
    (
        "s.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a: *hunter2\n  b: hunter2: x\n",
    ),
    ("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: hunter2\n"),
    ("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: [hunter2]\n"),
    ("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: S_x}\nstringData: {a: hunter2}\n"),
    ("s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {}\nstringData: {a: hunter2}\n"),
    ("s.yaml", "kind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2}\n"),
    ("s.yaml", "apiVersion: v1\nkind: Secrett\nmetadata: {name: s}\nstringData: {a: hunter2, a: hunter2}\n"),
    ("s.yaml", "apiVersion: v1\nkind: Sercet\nmetadata: {}\nstringData: {a: hunter2}\n"),
    ("s.yaml", "apiVersion: v1\nKind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2}\n"),
    ("s.yaml", "apiVersion: v1\nkind: [Secret]\nmetadata: {name: s}\nstringData: {a: hunter2}\n"),
    ("s.yaml", "{apiVersion: v1, kind: Sercet, metadata: {}, stringData: {a: hunter2}}\n"),
    (
        "s.json",
        "{\"apiVersion\":\"v1\",\"kind\":\"Sercet\",\"metadata\":{},\"stringData\":{\"a\":\"hunter2\"}}",
    ),
    (
        "s.json",
        "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{},\"stringData\":{\"a\":\"hunter2\"}}",
    ),
    (
        "s.json",
        "{\"apiVersion\":\"v1\",\"kind\":\"Sercet\",\"stringData\":{\"a\":\"hunter2\",\"a\":\"hunter2\"}}",
    ),
    ("s.json", "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"stringData\":{\"a\":\"hunter2\"},}"),
    ("s.yaml", "apiVersion: v1\nkind: List\nitems:\n- {kind: Secret, stringData: {a: hunter2}}\n"),
    ("s.yaml", "apiVersion: v1\nkind: SecretList\nitems:\n- {stringData: {a: hunter2}}\n"),
    (
        "s.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: Secret\nstringData: {a: hunter2}\n",
    ),
    ("s.yaml", "stringData: {a: hunter2\n"),
    ("s.yaml", "a: hunter2\n\tb: hunter2\n"),
    ("s.yaml", "apiVersion: bitnami.com/v1\nkind: Vault\nmetadata: {}\nspec: {a: hunter2}\n"),
    (
        "s.yaml",
        "apiVersion: bitnami.com/v1\nkind: Vault\nmetadata: {name: v}\nspec: {a: hunter2, a: hunter2}\n",
    ),
    // Credentials in other objects.
    (
        "d.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - env:\n    - name: DB_PASSWORD\n      value: hunter2\n      value: hunter2\n",
    ),
    (
        "d.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata:\n  password: hunter2\n  password: hunter2\n",
    ),
    (
        "d.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata:\n  api-key: |\n    hunter2\n   hunter2\n",
    ),
    ("d.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata:\n  token: [hunter2\n"),
    (
        "d.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p, name: p}\ndata: {dbPassword: hunter2}\n",
    ),
    // Settings.
    ("federate.yaml", "values: hunter2\n"),
    ("federate.yaml", "values: {a: hunter2}\nvalue: {a: hunter2}\n"),
    ("federate.yaml", "values: {a: hunter2\n"),
    ("federate.yaml", "values: {a: hunter2, a: hunter2}\n"),
    ("federate.yaml", "clusterValues: {m1: hunter2}\n"),
    ("federate.yaml", "clusterValues: hunter2\n"),
    ("federate.yaml", "paths: hunter2\n"),
    ("federate.yaml", "paths: {a: hunter2}\n"),
    ("federate.yaml", "apiVersion: hunter2\n"),
    ("federate.yaml", "kind: hunter2\n"),
    ("federate.yaml", "values:\n  a: |\n    x\n  hunter2\n"),
    ("federate.yaml", "values: {a: 1}\n---\nvalues: {a: hunter2}\n"),
    ("federate.yaml", "dialects: {karmada: hunter2}\n"),
    ("federate.yaml", "drift: {ignore: [hunter2]}\n"),
    ("federate.yaml", "contexts: [hunter2]\n"),
    ("federate.yaml", "- hunter2\n"),
    ("federate.yaml", "values: \"hunter2\n"),
    // Templates.
    ("t.yaml.j2", "{% set password = 'hunter2' %}a: {{ password + 1 }}\n"),
    ("t.yaml.j2", "a: {{ 'hunter2' | int }}\n"),
    ("t.yaml.j2", "{% set password = 'hunter2' %}a: {{ range(password) }}\n"),
    ("t.yaml.j2", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2\n"),
    ("t.yaml.j2", "apiVersion: v1\nkind: Secret\nstringData: {a: hunter2}\n"),
    (
        "t.yaml.j2",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s, labels: {a: '{{ cluster.name }}'}}\nstringData: {a: hunter2}\n",
    ),
    (
        "t.yaml.j2",
        "apiVersion: v1\nkind: Sercet\nmetadata: {name: s}\nspec: {a: hunter2, resources: {a: 'hunter2{{ cluster.name }}'}}\n",
    ),
    (
        "t.yaml.j2",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2, a: hunter2}\n",
    ),
    // Policies that contain values.
    (
        "o.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: shop}\nspec:\n  overrideRules:\n  - overriders:\n      plaintext:\n      - {path: /spec/none/x, operator: replace, value: hunter2}\n",
    ),
    (
        "o.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: shop}\nspec:\n  overrideRules:\n  - overriders: {plaintext: {password: hunter2}}\n",
    ),
    (
        "o.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: shop}\nspec:\n  overrideRules:\n  - overriders: {plaintext: [{path: /a, operator: add, password: hunter2}]}\n",
    ),
    (
        "o.yaml",
        "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o, namespace: shop}\nspec:\n  overrideRules:\n  - overriders: {jsonpatch: [{path: /a, operator: {token: hunter2}}]}\n",
    ),
    (
        "f.yaml",
        "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedSecret\nmetadata: {name: s, namespace: shop}\nspec: {template: {stringData: hunter2, stringData: hunter2}}\n",
    ),
];

/// The commands; `FILE` stands for the file with the mistake.
const COMMANDS: [&str; 15] = [
    "check",
    "check -o json",
    "plan -v",
    "plan -o json",
    "plan -o yaml",
    "render --out out",
    "explain Deployment/web -n shop",
    "diff --from HEAD",
    "diff --from HEAD -o markdown",
    "whatif --each cluster",
    "commit --branch rendered",
    "plan --previous FILE",
    "snapshot -f FILE --out snapshot",
    "import --policy web -f FILE",
    "apply --kubeconfig FILE",
];

/// What a run printed, but for the objects that `import` prints on purpose.
fn printed(repo: &Sandbox, line: &str) -> String {
    let ran = repo.run(line);
    if line.starts_with("import") { ran.err } else { ran.out + &ran.err }
}

#[test]
fn mistakes_show_no_credentials() {
    let shown: Vec<String> = MISTAKES
        .par_iter()
        .flat_map_iter(|(path, text)| {
            let repo = Sandbox::web();
            repo.git("init -q -b main");
            repo.git("add -A");
            repo.git("commit -q -m first");
            repo.write(path, text);
            COMMANDS.into_iter().filter_map(move |line| {
                let line = line.replace("FILE", path);
                let printed = printed(&repo, &line);
                printed.contains(PLANTED).then(|| format!("federate {line}\n{path}:\n{text}\n{printed}"))
            })
        })
        .collect();
    assert!(shown.is_empty(), "{} outputs\n{}", shown.len(), shown.join("\n\n"));
}

/// Without secrets, messages still show the line.
#[test]
fn harmless_mistakes_are_quoted() {
    let repo = Sandbox::web().file("d.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [a]\n");
    let ran = repo.run("check");
    assert!(ran.out.contains("  name: [a]") || ran.err.contains("  name: [a]"), "{ran:#?}");
}

/// A repo with credentials in places that are no Secrets, each with this word.
const CREDENTIALS: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: app, namespace: shop, annotations: {acme.io/api-token: CANARY-a}}
data:
  DB_PASSWORD: CANARY-b
  settings.yaml: "db:\n  password: CANARY-c\n  host: a\n"
  app.properties: "jdbc.password=CANARY-d\n"
  url: postgres://me:CANARY-e@db/x
  mode: fast
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - {name: c, image: acme/token:1.2, args: [--token=CANARY-f, --password, CANARY-g], env: [{name: API_TOKEN, value: CANARY-h}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: p, namespace: shop}
spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: apps/v1, kind: Deployment}], placement: {}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: o, namespace: shop}
spec: {overrideRules: [{overriders: {plaintext: [{path: /data/apiToken, operator: add, value: CANARY-i}]}}], resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
"#;

#[test]
fn values_named_like_credentials_are_in_no_output() {
    let repo = Sandbox::new().file("all.yaml", CREDENTIALS.replace("CANARY", "first"));
    repo.git("init -q -b main");
    repo.git("add -A");
    repo.git("-c user.name=a -c user.email=a@example.com commit -qm one");
    let later = CREDENTIALS.replace("CANARY", "second").replace("fast", "slow").replace(":1.2", ":1.3");
    repo.write("all.yaml", &later);
    for line in [
        "diff .",
        "diff . -v",
        "diff . -o json",
        "diff . -o yaml",
        "diff . -o markdown",
        "plan . -o json",
        "explain configmap/app -n shop",
        "explain deployment/web -n shop",
        "check . -o json",
        "check . -o sarif",
        "whatif . --lose m1 -o json",
    ] {
        let ran = repo.run(line);
        let all = format!("{}{}", ran.out, ran.err);
        assert!(!all.contains("first-") && !all.contains("second-"), "{line}: {all}");
    }
    let ran = repo.run("diff .").code(1);
    assert!(
        ran.out.contains("fast → slow") && ran.out.contains("acme/token:1.2 → acme/token:1.3"),
        "{ran:#?}"
    );
    assert!(ran.out.contains("<secret "), "changes of credentials are shown as digests: {ran:#?}");
}
