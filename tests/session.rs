//! A session that receives the changed files returns what a new session over the same files returns, byte for byte:
//! over random edits, moves and deletions of templates, policies and inventory, in every dialect.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use federate_dialect::Plan;
use federate_dialects::DIALECTS;
use federate_repo::FileTree;
use federate_repo::file_tree::{EntryKind, TreeEntry, TreeError};
use federate_session::{Session, SessionOptions, UpdateScope};
use proptest::prelude::*;

/// A repo in memory.
#[derive(Clone, Debug, Default)]
struct Files(BTreeMap<String, String>);

impl FileTree for Files {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        let entries: BTreeSet<(String, bool)> = below
            .map(|rest| match rest.split_once('/') {
                Some((folder, _)) => (folder.to_owned(), true),
                None => (rest.to_owned(), false),
            })
            .collect();
        if entries.is_empty() && !folder.is_empty() {
            return Err(TreeError::NotFound);
        }
        let entry = |(name, folder)| TreeEntry {
            name,
            kind: if folder { EntryKind::Folder } else { EntryKind::File },
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or(TreeError::NotFound)
    }
}

/// An example's files.
fn example(name: &str) -> Files {
    fn add(files: &mut Files, root: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                add(files, root, &entry);
            } else if let Ok(text) = fs::read_to_string(&entry) {
                let path = entry.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                files.0.insert(path, text);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    let mut files = Files::default();
    add(&mut files, &root, &root);
    // A few more templates than an example needs.
    for number in 0..4 {
        let text = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: extra-{number}, namespace: shop, labels: {{app: web}}}}\n\
             spec:\n  replicas: {number}\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    \
             spec: {{containers: [{{name: c, image: nginx}}]}}\n---\napiVersion: v1\nkind: ConfigMap\n\
             metadata: {{name: extra-{number}, namespace: shop}}\ndata: {{k: v}}\n"
        );
        files.0.insert(format!("extra/{number}.yaml"), text);
    }
    files
}

/// A change of one file.
#[derive(Clone, Debug)]
enum Change {
    /// Numbers of the file become others.
    Number(u8),
    /// A word becomes another: names, kinds, labels.
    Word(prop::sample::Index, prop::sample::Index),
    /// A document goes.
    Document(prop::sample::Index),
    /// The file goes.
    Delete,
    /// The file gets another name.
    Move,
    /// The file is no longer YAML.
    Break,
}

const WORDS: [&str; 10] =
    ["web", "shop", "default", "extra-1", "app", "ConfigMap", "Deployment", "replicas", "name", "prod"];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => any::<u8>().prop_map(Change::Number),
        3 => (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(a, b)| Change::Word(a, b)),
        1 => any::<prop::sample::Index>().prop_map(Change::Document),
        1 => Just(Change::Delete),
        1 => Just(Change::Move),
        1 => Just(Change::Break),
    ]
}

/// Makes a change; the paths that it concerns.
fn apply(files: &mut Files, path: &str, change: &Change) -> Vec<String> {
    let text = files.0[path].clone();
    let mut paths = vec![path.to_owned()];
    match change {
        Change::Number(number) => {
            let replaced = text.replace("replicas: ", &format!("replicas: {}", number % 10));
            files.0.insert(path.to_owned(), replaced);
        }
        Change::Word(from, to) => {
            let replaced = text.replacen(WORDS[from.index(WORDS.len())], WORDS[to.index(WORDS.len())], 1);
            files.0.insert(path.to_owned(), replaced);
        }
        Change::Document(index) => {
            let mut documents: Vec<&str> = text.split("---\n").collect();
            documents.remove(index.index(documents.len()));
            files.0.insert(path.to_owned(), documents.join("---\n"));
        }
        Change::Delete => drop(files.0.remove(path)),
        Change::Move => {
            files.0.remove(path);
            let to = format!("moved/{path}");
            paths.push(to.clone());
            files.0.insert(to, text);
        }
        Change::Break => drop(files.0.insert(path.to_owned(), format!("{text}\n\tx: [\n"))),
    }
    paths
}

/// Plan, manifests and findings as one text.
fn answer(session: &Session) -> String {
    let mut text = federate_engine::previous::serialize_plan(session.plan());
    for manifest in &session.render().manifests {
        text.push_str(&format!("# {} {:?}\n{}", manifest.object, manifest.clusters, manifest.text));
    }
    text + &format!("{:#?}", session.check_repo())
}

const EXAMPLES: [&str; 5] = ["repo", "kubeadmiral", "kubefed", "kubefleet", "ocm"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_updated_session_is_a_new_session(
        example_of in 0..EXAMPLES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), change(), any::<bool>()), 1..6),
    ) {
        let mut files = example(EXAMPLES[example_of]);
        let mut session = Session::open(&files, SessionOptions::new(DIALECTS));
        let mut previous = Plan::default();
        for (file, change, remember) in changes {
            let paths: Vec<String> = files.0.keys().cloned().collect();
            let changed = apply(&mut files, &paths[file.index(paths.len())], &change);
            session.update_files(&files, &changed);
            let fresh = Session::open(&files, SessionOptions::new(DIALECTS).with_previous(previous.clone()));
            prop_assert_eq!(answer(&session), answer(&fresh));
            if remember {
                previous = fresh.plan().clone();
                session.set_previous(previous.clone());
            }
        }
    }
}

#[test]
fn an_edited_template_is_all_that_is_decided_again() {
    for name in EXAMPLES {
        let mut files = example(name);
        let mut session = Session::open(&files, SessionOptions::new(DIALECTS));
        session.plan();
        let changed = apply(&mut files, "extra/2.yaml", &Change::Number(7));
        match session.update_files(&files, &changed) {
            UpdateScope::Templates(templates) => assert_eq!(templates.len(), 2, "{name}: {templates:?}"),
            UpdateScope::Everything(anew) => panic!("{name}: {anew}"),
        }
        let decides = |text: &str| {
            ["PropagationPolicy", "ResourcePlacement", "Federated", "kind: Placement\n"]
                .iter()
                .any(|kind| text.contains(kind))
        };
        let mut policies = files
            .0
            .iter()
            .filter(|(path, text)| Path::new(path).extension().is_some_and(|e| e == "yaml") && decides(text));
        let policy = policies.next().map(|(path, _)| path.clone());
        let update = session.update_files(&files, &[policy.unwrap()]);
        assert!(matches!(update, UpdateScope::Everything(_)), "{name}: {update:?}");
    }
}

#[test]
fn a_decision_that_templates_share_is_that_of_each() {
    for name in EXAMPLES {
        let all = example(name);
        let (mut later, files): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.0.into_iter().partition(|(path, _)| path.starts_with("extra/"));
        let mut files = Files(files);
        let service = |name: &str, rest: &str| {
            format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{ports: [{{port: 80}}]{rest}}}\n"
            )
        };
        for at in 0..3 {
            let copy = later["extra/3.yaml"].replace("extra-3", &format!("copy-{at}"));
            later.insert(format!("extra/copy-{at}.yaml"), copy);
            later.insert(format!("extra/service-{at}.yaml"), service(&format!("service-{at}"), ""));
            let address = format!(", clusterIP: 10.96.7.{at}");
            later.insert(
                format!("extra/address-{at}.yaml"),
                service(&format!("service-{at}-address"), &address),
            );
        }
        let mut session = Session::open(&files, SessionOptions::new(DIALECTS));
        session.plan();
        for (path, text) in later {
            files.0.insert(path.clone(), text);
            // Each template is decided alone.
            session.update_files(&files, &[path]);
            session.plan();
        }
        assert_eq!(answer(&session), answer(&Session::open(&files, SessionOptions::new(DIALECTS))), "{name}");
    }
}
