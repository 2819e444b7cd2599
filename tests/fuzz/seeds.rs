//! Seeds of the targets whose inputs are not repos: kubeconfigs, webhooks, git repositories, answers of API servers, Syncs.

use std::fs;

use git2::{Repository, Signature};

use crate::targets::BETWEEN;

/// Kubeconfigs of the kinds that Secrets hold, and some that name programs and files.
pub(crate) fn kubeconfigs() -> Vec<Vec<u8>> {
    const PEM: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    let clusters = "apiVersion: v1\nkind: Config\ncurrent-context: m1\nclusters:\n- name: a\n  cluster: {server: 'https://10.0.0.1:6443', proxy-url: 'http://p:3128', tls-server-name: m1}\n- {name: b, cluster: {server: 'https://[::1]/b', insecure-skip-tls-verify: true}}\n";
    let contexts = "contexts:\n- {name: m1, context: {cluster: a, user: ann, namespace: shop}}\n- {name: other, context: {cluster: b, user: ben}}\n";
    let users = [
        "users:\n- {name: ann, user: {token: t0ken-of-ann}}\n- {name: ben, user: {username: ben, password: 'hunter2hunter2', as: eve, as-groups: [a, b]}}\n".to_owned(),
        format!("users:\n- name: ann\n  user: {{client-certificate-data: {PEM}, client-key-data: {PEM}}}\n"),
        "users:\n- name: ann\n  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, x]}}\n".to_owned(),
        "users:\n- name: ann\n  user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}\n".to_owned(),
        "users: [{name: ann, user: {auth-provider: {name: oidc, config: {id-token: a.b.c}}}}, {name: ben}]\n".to_owned(),
    ];
    let mut texts: Vec<String> = users.iter().map(|users| format!("{clusters}{contexts}{users}")).collect();
    texts.push(format!("{clusters}---\n{contexts}---\n{}", users[0]));
    texts.push(format!(
        "{{\"clusters\": [{{\"name\": \"a\", \"cluster\": {{\"server\": \"m1:6443\", \"certificate-authority-data\": \"{PEM}\"}}}}], \"contexts\": [{{\"name\": \"m1\", \"context\": {{\"cluster\": \"a\", \"user\": \"\"}}}}]}}"
    ));
    texts.into_iter().map(String::into_bytes).collect()
}

/// Webhooks of GitHub, GitLab and others, signed for the token of the target, and not.
pub(crate) fn webhooks() -> Vec<Vec<u8>> {
    let path = "/hook/aaf6f2e3d764ca71d438cbaf2ff8cf42e9f18223db6fafc9131aec8c039cb2ef";
    let digest = "59ce185052e5d2af47678440ae3ecd61ec5745692f61edc2ff8332771360ffcd";
    let push = "{\"ref\": \"refs/heads/main\", \"repository\": {\"full_name\": \"acme/shop\"}}";
    [
        format!("{path}\nX-GitHub-Event: push\nX-Hub-Signature-256: sha256={digest}\nContent-Type: application/json\n\n{push}"),
        format!("{path}\nX-Signature: sha256={digest}\n\n{push}"),
        format!("{path}\nX-Signature: sha256=\nX-Hub-Signature-256: sha1={digest}\n\n"),
        format!("{path}\nX-Gitlab-Event: Push Hook\nX-Gitlab-Token: t0ken\n\n{push}"),
        format!("{path}?a=b#c\nx-gitlab-token: T0KEN\nx-gitlab-token: t0ken\n\n"),
        "/hook/\nno header\n: \u{e9}\n\n\n\n".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Sections of `targets::git`, put together.
fn sections(sections: &[&str]) -> Vec<u8> {
    sections.join(BETWEEN).into_bytes()
}

/// Memories with a plan, with a record, and with parts that are not theirs.
pub(crate) fn memories(plan: &str) -> Vec<Vec<u8>> {
    let index =
        r#"{"digest": "@", "parts": "federate.web.@.0", "generation": "3", "slot": "a", "record": "{}"}"#;
    let parts = r#"{"digest": "@", "parts": "1", "slot": "b", "generation": "99999999999999999999"}"#;
    let elsewhere = r#"{"digest": "@", "parts": "../secrets/members federate.web.@.1"}"#;
    let record = r#"{"spec": "d", "accepted": {"tip": "sha1:a", "branches": {"main": "sha1:a"}, "done": true, "pending": ["m1"]},
        "rollout": null, "clusters": {"m1": {"revision": "sha1:a", "stale": false}}, "policies": {},
        "valid_spec": {"source": {"url": "https://git.example.com/r"}, "interval": "1m", "apply": {}, "hub": {}}}"#;
    [
        sections(&[index, plan]),
        sections(&[parts, plan]),
        sections(&[elsewhere, plan, record]),
        sections(&[index, "apiVersion: federate.dev/v1alpha1\nkind: Plan\nplacements: []\n", record]),
        sections(&[index, "={}", "{\"spec\": 1}"]),
        sections(&[r#"{"digest": "0", "parts": "0"}"#, ""]),
    ]
    .to_vec()
}

/// The groups, kinds, definitions and documents of a server, and some that lead elsewhere.
pub(crate) fn discoveries() -> Vec<Vec<u8>> {
    let groups = r#"{"kind": "APIGroupList", "groups": [{"name": "example.com", "versions": [{"groupVersion": "example.com/v1",
        "version": "v1"}], "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"}}]}"#;
    let kinds = r#"{"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": [{"name": "widgets", "singularName":
        "widget", "namespaced": true, "kind": "Widget", "verbs": ["get", "list"], "shortNames": ["wd"]},
        {"name": "widgets/status", "kind": "Widget", "namespaced": true, "verbs": ["get"]}]}"#;
    let definition = r#"{"kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"}, "spec": {"group":
        "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1",
        "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type":
        "object", "properties": {"items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys":
        ["name"], "items": {"type": "object"}}}}}}}}]}}"#;
    let document = r##"{"openapi": "3.0.0", "components": {"schemas": {"w": {"type": "object", "properties": {"spec": {"$ref":
        "#/components/schemas/w"}}, "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind":
        "Widget"}]}}}}"##;
    [
        sections(&[groups, kinds, definition, document]),
        sections(&[groups, kinds, "!404\n{}", document]),
        sections(&[groups, kinds, "!403\n{\"kind\": \"Status\"}", "!301\n"]),
        sections(&[&groups.replace("example.com/v1", "example.com/../v1"), kinds]),
        sections(&[groups, &kinds.replace("\"widgets\"", "\"../secrets\""), definition]),
        sections(&["{\"groups\": 1}", "[]", "null", "{"]),
    ]
    .to_vec()
}

/// Pages of lists.
pub(crate) fn lists() -> Vec<Vec<u8>> {
    let pod = r#"{"metadata": {"name": "a", "namespace": "shop", "labels": {"a": "b"}, "managedFields": [{"manager": "federate",
        "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers":
        {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}}}}]}, "spec": {"nodeName": "n", "containers": [{"name": "c", "resources":
        {"requests": {"cpu": "100m"}}}]}, "status": {"phase": "Running"}}"#;
    let node = r#"{"metadata": {"name": "n"}, "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}, "status": {"allocatable":
        {"cpu": "4", "memory": "16Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}}"#;
    let page = |items: &str, next: &str| {
        format!(
            r#"{{"kind": "PodList", "metadata": {{"resourceVersion": "7", "continue": "{next}"}}, "items": [{items}]}}"#
        )
    };
    [
        sections(&[&page(pod, "two"), &page(node, "")]),
        sections(&[&page(&format!("{pod}, {node}"), "")]),
        sections(&[&page(pod, "two"), "!410\n{\"kind\": \"Status\"}", &page("", "")]),
        sections(&[&page("{\"metadata\": {\"name\": \"../x\", \"namespace\": \"\"}}", "")]),
        sections(&["{\"items\": null}", "{\"items\": {}}"]),
    ]
    .to_vec()
}

/// Syncs with all fields, and some that ask for what is not theirs.
pub(crate) fn syncs() -> Vec<Vec<u8>> {
    let start = "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {name: web, namespace: shop, generation: 3, uid: u, annotations: {federate.dev/requestedAt: now, federate.dev/approve: 'a,b'}}\nspec:\n  interval: 1m\n  timeout: 90s\n";
    let source = "  source: {url: 'https://git.example.com/r.git', ref: {branch: main}, path: apps, secretRef: {name: git}, proxySecretRef: {name: proxy}, verify: {mode: HEAD, secretRef: {name: keys}}, ignore: '*.md'}\n";
    let more = "  kubeConfig: {secretRef: {name: members, key: value}}\n  serviceAccountName: deployer\n  apply: {prune: true, pruneLimit: 20, applySet: shop/web, adopt: IfNoDiff}\n  dependsOn: [{name: base}]\n  drift: {mode: correct}\n  notifications: [{type: slack, address: 'https://hooks.example.com/a', secretRef: {name: slack}}]\n  deletionPolicy: Delete\n  clusters: {names: [m1], labelSelector: {matchLabels: {a: b}}}\n";
    [
        format!("{start}{source}{more}"),
        format!("{start}{source}  serviceAccountName: deployer\n  hub: {{}}\n  apply: {{}}\n  inventory: members\n  failover: true\n"),
        format!("{start}{source}  commit: {{branch: 'rendered/{{cluster}}', path: out, push: true, message: m}}\n"),
        format!("{start}{source}{more}").replace("name: git}", "name: ../../victim/secrets/git}"),
        format!("{start}{source}{more}").replace("https://git", "http://127.0.0.1:80@git"),
        format!("{start}{}{more}", source.replace("https://git.example.com/r.git", "git@git.example.com:r")),
        format!("{start}{source}  hub: {{}}\n  withoutImpersonation: true\n  apply: {{}}\n"),
        format!("{start}{source}{more}  rollout: {{steps: [{{clusters: {{names: [m1]}}, wait: 5m}}]}}\n"),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Repositories with loose objects, with a pack, with tags, links, replaced objects and hostile files.
pub(crate) fn repositories() -> Vec<Vec<u8>> {
    const WHO: &str =
        "author A <a@example.com> 1700000000 +0000\ncommitter A <a@example.com> 1700000000 +0000\n";
    let commit = format!("commit\ntree @1\n{WHO}\nfirst\n");
    let signed = format!(
        "commit\ntree @1\nparent @2\n{WHO}gpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lH\n -----END SSH SIGNATURE-----\n\nsecond\n"
    );
    let start = ["blob\nkind: A\n", "tree\n100644 a.yaml @0", &commit, "file refs/heads/main\n@2\n"];
    let with = |more: &[&str]| sections(&[&start[..], more].concat());
    let mut seeds = vec![
        with(&[]),
        with(&[
            &signed,
            "file packed-refs\n# pack-refs with: peeled fully-peeled sorted\n@3 refs/heads/next\n",
            "rev next",
            "rev next~1",
            "verify",
        ]),
        with(&[
            "tag\nobject @2\ntype commit\ntag v1\ntagger A <a@example.com> 1700000000 +0000\n\none\n",
            "file refs/tags/v2\n@3\n",
            "rev v2",
            "rev v2^{}",
            "verify",
        ]),
        // Links inside, outside, to themselves; a submodule; an entry without an object.
        with(&[
            "blob\n../outside/canary.yaml",
            "blob\na.yaml",
            "blob\nl.yaml",
            "tree\n120000 k.yaml @3\n120000 l.yaml @5\n120000 m.yaml @4\n160000 s @2\n40000 t @1\n100644 a.yaml @0",
            &commit.replace("@1", "@6"),
            "rev @{0}",
            "file refs/heads/links\n@7\n",
            "rev links",
        ]),
        // Trees that hold each other.
        with(&[
            "tree\n40000 a @1\n40000 b @1\n40000 c @1",
            "tree\n40000 a @3\n40000 b @3\n40000 c @3",
            "tree\n40000 a @4\n40000 b @4\n40000 c @4",
            &commit.replace("@1", "@5"),
            "file refs/heads/deep\n@6\n",
            "rev deep",
        ]),
        with(&[
            "file refs/replace/0123456789012345678901234567890123456789\n@2\n",
            "file info/grafts\n@2 @2\n",
            "file shallow\n@2\n",
            "file objects/info/alternates\n../../outside\n/\n",
            "rev HEAD@{1}",
            "verify",
        ]),
        with(&[
            "file config\n[core]\n bare = true\n fsmonitor = touch ../outside/ran\n hooksPath = hooks\n worktree = ../outside\n[gpg]\n program = touch\n[gpg \"ssh\"]\n program = touch\n[include]\n path = ../outside/canary.yaml\n[extensions]\n objectFormat = sha256\n",
            "verify",
        ]),
        with(&[
            "file HEAD\nref: ../../outside/canary.yaml\n",
            "file refs/heads/loop\nref: refs/heads/loop\n",
            "file commondir\n../outside\n",
            "rev loop",
            "rev refs/heads/../../../outside/canary.yaml",
        ]),
    ];
    seeds.extend(packed());
    seeds
}

/// A repository whose objects are in a pack, one of them as a delta.
fn packed() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().ok()?;
    let repository = Repository::init_bare(folder.path()).ok()?;
    let who = Signature::new("A", "a@example.com", &git2::Time::new(1_700_000_000, 0)).ok()?;
    let mut builder = repository.packbuilder().ok()?;
    let mut parents = Vec::new();
    for number in 0..2 {
        let text = format!("kind: A\n{}number: {number}\n", "more: text\n".repeat(40));
        let mut tree = repository.treebuilder(None).ok()?;
        tree.insert("a.yaml", repository.blob(text.as_bytes()).ok()?, 0o100_644).ok()?;
        let tree = repository.find_tree(tree.write().ok()?).ok()?;
        let before: Vec<_> = parents.iter().collect();
        let commit = repository.commit(None, &who, &who, "change\n", &tree, &before).ok()?;
        builder.insert_commit(commit).ok()?;
        parents = vec![repository.find_commit(commit).ok()?];
    }
    let packs = folder.path().join("packs");
    fs::create_dir(&packs).ok()?;
    builder.write(&packs, 0).ok()?;
    let tip = parents.first()?.id();
    let mut seed = format!("file refs/heads/main\n{tip}\n{BETWEEN}rev main~1").into_bytes();
    for entry in fs::read_dir(packs).ok()?.filter_map(Result::ok) {
        let name = entry.file_name().into_string().ok()?;
        if name.rsplit_once('.').is_some_and(|(_, kind)| ["pack", "idx"].contains(&kind)) {
            seed.extend_from_slice(format!("{BETWEEN}file objects/pack/{name}\n").as_bytes());
            seed.extend_from_slice(&fs::read(entry.path()).ok()?);
        }
    }
    Some(seed)
}
