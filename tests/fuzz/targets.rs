//! What must hold for any bytes: each function is a fuzz target. `fuzz/fuzz_targets` feeds them by libFuzzer,
//! `main.rs` with seeds and small changes to them.

use federate_kubernetes::names::{safe_name, safe_namespace};
use federate_kubernetes::patch::{self, Operation, Rules};
use federate_repo::source::{Entry, EntryKind};
use federate_repo::{Config, File, Source};
use federate_session::{Options, Session};
use serde_json::Value;

/// A target, and its name.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: [Target; 8] = [
    ("yaml", yaml),
    ("settings", settings),
    ("load", load),
    ("template", template),
    ("patch", json_patch),
    ("plan", plan),
    ("previous", previous),
    ("observed", observed),
];

/// A line of this stands between the files of a repo.
pub(crate) const BETWEEN: &str = "\n=====\n";

/// What was read is read the same again once it is written, and every key is found where it stands.
pub(crate) fn yaml(bytes: &[u8]) {
    for document in federate_yaml::read(bytes).documents {
        let mut text = String::new();
        federate_yaml::write(&document.value, &mut text);
        let again = federate_yaml::read(text.as_bytes());
        assert!(again.errors.is_empty(), "{:?}\n{text}", again.errors);
        let values: Vec<_> = again.documents.into_iter().map(|document| document.value).collect();
        assert_eq!(values, [document.value], "{text}");
        assert!(federate_yaml::locate(bytes, document.index, "").is_some());
        federate_yaml::locate_nearest(bytes, document.index, "/metadata/name");
    }
}

/// `federate.yaml` is read or refused.
pub(crate) fn settings(bytes: &[u8]) {
    let _ = Config::read(bytes);
}

/// The files that bytes stand for.
fn files(bytes: &[u8]) -> Vec<File> {
    const ENDINGS: [&str; 4] = ["yaml", "json", "yml", "yaml.j2"];
    let text = String::from_utf8_lossy(bytes);
    let file = |(number, text): (usize, &str)| {
        let (ending, text) = match text.strip_prefix('%') {
            Some(template) => ("yaml.j2", template),
            None => (ENDINGS[text.len() % 3], text),
        };
        File { path: format!("{number:03}.{ending}").into(), bytes: text.as_bytes().into() }
    };
    text.split(BETWEEN).enumerate().map(file).collect()
}

fn session(files: Vec<File>, options: Options) -> Session {
    Session::of_files(files, Config::default(), options)
}

/// Identities are sorted, unique and safe as names of files, and do not depend on the order of files.
pub(crate) fn load(bytes: &[u8]) {
    let files = files(bytes);
    let one = session(files.clone(), Options::default());
    let repo = one.repo();
    assert!(repo.templates.is_sorted_by(|a, b| a.object.id < b.object.id));
    for template in &repo.templates {
        let id = &template.object.id;
        assert!(safe_name(&id.name).is_ok());
        assert!(id.namespace.as_deref().is_none_or(|namespace| safe_namespace(namespace).is_ok()));
    }
    let other = session(files.into_iter().rev().collect(), Options::default());
    assert_eq!(format!("{:?}", repo.templates), format!("{:?}", other.repo().templates));
    assert_eq!(repo.findings, other.repo().findings);
    federate_report::findings::text(repo, &repo.findings, federate_session::DIALECTS, false);
    federate_report::findings::rows(repo, &repo.findings);
}

/// A template ends, and gives the same each time.
pub(crate) fn template(bytes: &[u8]) {
    const CLUSTERS: &str = "{\"apiVersion\": \"cluster.karmada.io/v1alpha1\", \"kind\": \"ClusterList\", \"items\": [
        {\"apiVersion\": \"cluster.karmada.io/v1alpha1\", \"kind\": \"Cluster\", \"metadata\": {\"name\": \"m1\"}},
        {\"apiVersion\": \"cluster.karmada.io/v1alpha1\", \"kind\": \"Cluster\", \"metadata\": {\"name\": \"m2\"}}]}";
    let files = || {
        let file = |path: &str, bytes: &[u8]| File { path: path.into(), bytes: bytes.into() };
        vec![file("clusters.json", CLUSTERS.as_bytes()), file("a.yaml.j2", bytes)]
    };
    let (one, other) = (session(files(), Options::default()), session(files(), Options::default()));
    assert_eq!(one.repo().findings, other.repo().findings);
    assert_eq!(format!("{:?}", one.repo().templates), format!("{:?}", other.repo().templates));
}

/// Operations are applied or refused.
pub(crate) fn json_patch(bytes: &[u8]) {
    let Ok(Value::Array(given)) = serde_json::from_slice::<Value>(bytes) else { return };
    for rules in [Rules::Exact, Rules::Lenient] {
        let mut document = given.first().cloned().unwrap_or_default();
        for operation in given.iter().skip(1) {
            let text = |key: &str| operation.get(key).and_then(Value::as_str).unwrap_or_default();
            let operation = Operation { name: text("op"), path: text("path"), value: operation.get("value") };
            let before = document.clone();
            if patch::apply_by(rules, &mut document, operation).is_ok() {
                patch::differences(&before, &document);
            }
        }
    }
}

/// A repo of any dialect is planned, rendered, explained and checked; its plan is read back as it was written.
pub(crate) fn plan(bytes: &[u8]) {
    let options = Options { strict_inventory: true, ..Options::default() };
    let session = session(files(bytes), options);
    session.findings();
    let plan = session.plan();
    let text = federate_engine::previous::write(plan);
    let again = federate_engine::previous::read(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    // Which rows are implicit is not remembered.
    assert_eq!(federate_engine::previous::write(&again), text);
    for placement in plan.placements.iter().take(20) {
        session.engine().explain(&placement.object, plan);
    }
}

/// A plan is read or refused.
pub(crate) fn previous(bytes: &[u8]) {
    if let Ok(plan) = federate_engine::previous::read(bytes) {
        let text = federate_engine::previous::write(&plan);
        assert!(federate_engine::previous::read(text.as_bytes()).is_ok(), "{text}");
    }
}

/// A folder with one file for one cluster.
struct Dump<'b>(&'b [u8]);

impl Source for Dump<'_> {
    fn list(&self, folder: &str) -> Result<Vec<Entry>, String> {
        let (name, kind) = match folder {
            "" => ("m1", EntryKind::Folder),
            _ => ("all.yaml", EntryKind::File),
        };
        Ok(vec![Entry { name: name.to_owned(), kind }])
    }

    fn read(&self, _: &str) -> Result<Vec<u8>, String> {
        Ok(self.0.to_vec())
    }
}

/// Dumps of what runs in members are read or refused.
pub(crate) fn observed(bytes: &[u8]) {
    federate_repo::live(&Dump(bytes), "observed");
}
