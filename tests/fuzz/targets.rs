//! Properties that hold for any bytes; each function is a fuzz target. libFuzzer calls them from `fuzz/fuzz_targets`,
//! `main.rs` with seeds and small changes to them.

use std::collections::BTreeMap;

use federate_dialects::DIALECTS;
use federate_kubernetes::names::{safe_name, safe_namespace};
use federate_kubernetes::patch::{self, JsonPatchOperation, PatchRules};
use federate_live::{Access, Kubeconfig, MemberContext};
use federate_repo::file_tree::{EntryKind, TreeEntry, TreeError};
use federate_repo::{Config, FileTree, RepoFile};
use federate_session::{Session, SessionOptions};
use federate_sync::http_server::{Webhook, hook_path};
use federate_sync::hub::{Tenancy, read_sync};
use federate_sync_api::{NamespacedName, Sync};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use sha2::{Digest, Sha256};

#[path = "git_objects.rs"]
pub(crate) mod git_objects;

#[path = "servers.rs"]
pub(crate) mod servers;

/// The name of a target, and its function.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All targets.
pub(crate) const TARGETS: [Target; 15] = [
    ("yaml", yaml),
    ("settings", settings),
    ("load", load),
    ("template", template),
    ("patch", json_patch),
    ("plan", plan),
    ("previous", previous),
    ("observed", observed),
    ("kubeconfig", kubeconfig),
    ("webhook", webhook),
    ("git", git_objects::git),
    ("memory", servers::memory),
    ("discovery", servers::discovery),
    ("lists", servers::lists),
    ("sync", sync),
];

/// The separator between the files of a repo.
pub(crate) const BETWEEN: &str = "\n=====\n";

/// A document that is read, written and read again is the same, and every key has a place in the text.
pub(crate) fn yaml(bytes: &[u8]) {
    for document in federate_yaml::read_stream(bytes).documents {
        let mut text = String::new();
        federate_yaml::write_document(&document.value, &mut text);
        let again = federate_yaml::read_stream(text.as_bytes());
        assert!(again.errors.is_empty(), "{:?}\n{text}", again.errors);
        let values: Vec<_> = again.documents.into_iter().map(|document| document.value).collect();
        assert_eq!(values, [document.value], "{text}");
        assert!(federate_yaml::locate_value(bytes, document.index, "").is_some());
        federate_yaml::locate_nearest(bytes, document.index, "/metadata/name");
    }
}

/// `federate.yaml` is read or refused.
pub(crate) fn settings(bytes: &[u8]) {
    let _ = Config::parse(&RepoFile { path: "federate.yaml".into(), bytes: bytes.into() });
}

/// The files in the bytes.
fn files(bytes: &[u8]) -> Vec<RepoFile> {
    const ENDINGS: [&str; 4] = ["yaml", "json", "yml", "yaml.j2"];
    let text = String::from_utf8_lossy(bytes);
    let file = |(number, text): (usize, &str)| {
        let (ending, text) = match text.strip_prefix('%') {
            Some(template) => ("yaml.j2", template),
            None => (ENDINGS[text.len() % 3], text),
        };
        RepoFile { path: format!("{number:03}.{ending}").into(), bytes: text.as_bytes().into() }
    };
    text.split(BETWEEN).enumerate().map(file).collect()
}

fn session(files: Vec<RepoFile>, options: SessionOptions) -> Session {
    Session::from_files(files, Config::default(), options)
}

/// Identities are sorted, unique and safe as names of files. They do not depend on the order of files.
pub(crate) fn load(bytes: &[u8]) {
    let files = files(bytes);
    let one = session(files.clone(), SessionOptions::new(DIALECTS));
    let repo = one.repo();
    assert!(repo.templates.is_sorted_by(|a, b| a.object.id < b.object.id));
    for template in &repo.templates {
        let id = &template.object.id;
        assert!(safe_name(&id.name).is_ok());
        assert!(id.namespace.as_deref().is_none_or(|namespace| safe_namespace(namespace).is_ok()));
    }
    let other = session(files.into_iter().rev().collect(), SessionOptions::new(DIALECTS));
    assert_eq!(format!("{:?}", repo.templates), format!("{:?}", other.repo().templates));
    assert_eq!(repo.findings, other.repo().findings);
    federate_report::findings::format_text(repo, &repo.findings, federate_dialects::DIALECTS, false);
    federate_report::findings::build_rows(repo, &repo.findings);
}

/// A template ends, and its output is the same each time.
pub(crate) fn template(bytes: &[u8]) {
    const CLUSTERS: &str = "{\"apiVersion\": \"cluster.karmada.io/v1alpha1\", \"kind\": \"ClusterList\", \"items\": [
        {\"apiVersion\": \"cluster.karmada.io/v1alpha1\", \"kind\": \"Cluster\", \"metadata\": {\"name\": \"m1\"}},
        {\"apiVersion\": \"cluster.karmada.io/v1alpha1\", \"kind\": \"Cluster\", \"metadata\": {\"name\": \"m2\"}}]}";
    let files = || {
        let file = |path: &str, bytes: &[u8]| RepoFile { path: path.into(), bytes: bytes.into() };
        vec![file("clusters.json", CLUSTERS.as_bytes()), file("a.yaml.j2", bytes)]
    };
    let (one, other) =
        (session(files(), SessionOptions::new(DIALECTS)), session(files(), SessionOptions::new(DIALECTS)));
    assert_eq!(one.repo().findings, other.repo().findings);
    assert_eq!(format!("{:?}", one.repo().templates), format!("{:?}", other.repo().templates));
}

/// Operations are applied or refused.
pub(crate) fn json_patch(bytes: &[u8]) {
    let Ok(Value::Array(given)) = serde_json::from_slice::<Value>(bytes) else { return };
    for rules in [PatchRules::Exact, PatchRules::Lenient] {
        let mut document = given.first().cloned().unwrap_or_default();
        for operation in given.iter().skip(1) {
            let text = |key: &str| operation.get(key).and_then(Value::as_str).unwrap_or_default();
            let operation =
                JsonPatchOperation { name: text("op"), path: text("path"), value: operation.get("value") };
            let before = document.clone();
            if patch::apply_by(rules, &mut document, operation).is_ok() {
                patch::find_differences(&before, &document);
            }
        }
    }
}

/// A repo of any dialect is planned, rendered, explained and checked. Its plan is the same after it is written and read.
pub(crate) fn plan(bytes: &[u8]) {
    let options = SessionOptions::new(DIALECTS).with_strict_inventory(true);
    let session = session(files(bytes), options);
    session.findings();
    let plan = session.plan();
    let text = federate_engine::previous::serialize_plan(plan);
    let again =
        federate_engine::previous::read_plan(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    // A plan does not remember which rows are implicit.
    assert_eq!(federate_engine::previous::serialize_plan(&again), text);
    for placement in plan.placements.iter().take(20) {
        session.build_engine().explain_placement(&placement.object, plan);
    }
}

/// A plan is read or refused.
pub(crate) fn previous(bytes: &[u8]) {
    if let Ok(plan) = federate_engine::previous::read_plan(bytes) {
        let text = federate_engine::previous::serialize_plan(&plan);
        assert!(federate_engine::previous::read_plan(text.as_bytes()).is_ok(), "{text}");
    }
}

/// A folder with one file for one cluster.
struct Dump<'b>(&'b [u8]);

impl FileTree for Dump<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let (name, kind) = match folder {
            "" => ("m1", EntryKind::Folder),
            _ => ("all.yaml", EntryKind::File),
        };
        Ok(vec![TreeEntry { name: name.to_owned(), kind }])
    }

    fn read_file(&self, _: &str) -> Result<Vec<u8>, TreeError> {
        Ok(self.0.to_vec())
    }
}

/// Dumps of live objects are read or refused.
pub(crate) fn observed(bytes: &[u8]) {
    federate_repo::read_live_objects(&Dump(bytes), "observed");
}

/// The texts of a kubeconfig that no error may show: long ones that occur once, below keys of credentials.
fn credentials(bytes: &[u8]) -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    match value.as_str() {
                        Some(text) if ["token", "password", "client-key-data"].contains(&key.as_str()) => {
                            found.push(text.to_owned());
                        }
                        _ => collect(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    federate_yaml::read_stream(bytes)
        .documents
        .iter()
        .for_each(|document| collect(&document.value, &mut found));
    let text = String::from_utf8_lossy(bytes);
    // A word of the messages themselves has no digit.
    let is_secret = |found: &String| found.len() >= 8 && found.contains(|c: char| c.is_ascii_digit());
    found.into_iter().filter(|found| is_secret(found) && text.matches(found.as_str()).count() == 1).collect()
}

/// A kubeconfig of a Secret leads to a server or is refused, and no error shows its credentials.
pub(crate) fn kubeconfig(bytes: &[u8]) {
    let silent = |error: federate_live::Error| {
        let said = error.to_string();
        assert!(credentials(bytes).iter().all(|secret| !said.contains(secret)), "{said}");
    };
    let given = match Kubeconfig::self_contained(bytes) {
        Ok(given) => given,
        Err(error) => return silent(error),
    };
    let contexts = BTreeMap::from([("m2".to_owned(), MemberContext::Named("other".to_owned()))]);
    let access = Access { given: Some(given), contexts, ..Access::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for cluster in ["m1", "m2"] {
        let _ = runtime.block_on(access.find_address(cluster)).map_err(silent);
    }
}

/// The hexadecimal HMAC-SHA-256 of a text (RFC 2104).
fn hmac(key: &str, text: &[u8]) -> String {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key.as_bytes());
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Only a webhook that is signed with the token, or that names it, counts.
pub(crate) fn webhook(bytes: &[u8]) {
    const TOKEN: &str = "t0ken";
    let end = bytes.windows(2).position(|two| two == b"\n\n");
    let (head, body) = end.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 2..]));
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let path = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let name = HeaderName::from_bytes(name.trim().as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.trim().as_bytes())) {
            headers.append(name, value);
        }
    }
    let digest = hmac(TOKEN, body);
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let expected = match header("x-hub-signature-256").or_else(|| header("x-signature")) {
        Some(sent) => sent.strip_prefix("sha256=").is_some_and(|sent| sent.eq_ignore_ascii_case(&digest)),
        None => header("x-gitlab-token") == Some(TOKEN),
    };
    let webhook = Webhook { path, headers: &headers, body };
    assert_eq!(webhook.is_genuine(TOKEN), expected, "{head}");
    let signed = HeaderMap::from_iter([(
        HeaderName::from_static("x-hub-signature-256"),
        HeaderValue::from_str(&format!("sha256={digest}")).unwrap(),
    )]);
    assert!(Webhook { headers: &signed, ..webhook }.is_genuine(TOKEN));
    assert!(!Webhook { headers: &signed, body: &[body, b"."].concat(), ..webhook }.is_genuine(TOKEN));
    assert!(!Webhook { headers: &signed, ..webhook }.is_genuine("t0ken2"));
    let sync = NamespacedName { name: "web".to_owned(), namespace: "shop".to_owned() };
    assert_eq!(webhook.is_for_sync(&sync, TOKEN), path == hook_path(TOKEN, &sync));
}

/// Whether a text can be a name in the path of a request.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain) && !text.starts_with('.') && !text.contains("..")
}

/// A Sync is read or refused. One that is read names objects by names and reaches its source by https or ssh; its clusters are
/// reached with its own credentials or as an account; and it is the same after it is written and read.
pub(crate) fn sync(bytes: &[u8]) {
    let strict = Tenancy { within_namespaces: true, ..Tenancy::default() };
    for document in federate_yaml::read_stream(bytes).documents {
        let Ok(loaded) = read_sync(&document.value, &strict) else { continue };
        let Sync { metadata, spec, .. } = &loaded.object;
        for (pointer, name) in loaded.object.object_names() {
            assert!(is_name(name), "{pointer}: {name}");
        }
        let url = &spec.source.url;
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        let is_loopback = ["http://127.0.0.1", "http://localhost", "http://[::1]"]
            .iter()
            .any(|start| url.starts_with(start));
        assert!(matches!(scheme, Some("https" | "ssh") | None) || is_loopback, "{url}");
        assert!(!url.starts_with(['-', '/', '.']) && !url.contains("::") || url.contains("://"), "{url}");
        assert!(
            spec.depends_on.iter().all(|on| on.namespace.as_ref().is_none_or(|on| *on == metadata.namespace))
        );
        assert!(spec.hub.is_none() || spec.service_account_name.is_some() && spec.kube_config.is_none());
        assert!(spec.apply.is_none() || spec.service_account_name.is_some() || spec.kube_config.is_some());
        assert!(!spec.without_impersonation);
        let (namespace, name) = loaded.object.apply_set();
        assert!(is_name(&namespace) && is_name(&name), "{namespace}/{name}");
        let again = Sync::parse(serde_json::to_value(&loaded.object).unwrap())
            .unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(again.spec, *spec);
    }
}
