//! Kustomizations: none that names a file outside of the repo is built, wherever it names it.

use std::collections::BTreeMap;

use federate_builder::{BuildCache, Confiner, ProgramBuilder, ProgramPaths};
use federate_repo::build::{BuildJob, BuildTime, Builder as _, KustomizationJob, KustomizationRules};
use federate_repo::file_tree::{EntryKind, FileTree, TreeEntry, TreeError};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Files in memory.
struct Files(BTreeMap<String, String>);

impl FileTree for Files {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut entries: BTreeMap<String, EntryKind> = BTreeMap::new();
        for path in self.0.keys().filter_map(|path| path.strip_prefix(&below)) {
            match path.split_once('/') {
                Some((folder, _)) => entries.insert(folder.to_owned(), EntryKind::Folder),
                None => entries.insert(path.to_owned(), EntryKind::File),
            };
        }
        Ok(entries.into_iter().map(|(name, kind)| TreeEntry { name, kind }).collect())
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or(TreeError::NotFound)
    }
}

/// A kustomization with a path somewhere.
#[derive(Clone, Debug)]
struct Named {
    /// Where the path is.
    place: usize,
    /// How a generator or transformer is written.
    form: usize,
    /// Which letters of keys are in the other case, in turn.
    cases: Vec<bool>,
    /// How many kustomizations lead to the one with the path.
    depth: usize,
    /// Whether the path has a key, where it may have one.
    has_key: bool,
}

/// How many places there are for a path.
const PLACES: usize = 24;

fn named() -> impl Strategy<Value = Named> {
    let cases = prop::collection::vec(prop::bool::weighted(0.2), 1..12);
    (0..PLACES, 0..4_usize, cases, 0..3_usize, any::<bool>())
        .prop_map(|(place, form, cases, depth, has_key)| Named { place, form, cases, depth, has_key })
}

/// A path that leads out of the repo from any folder of it, or is none.
fn outside() -> impl Strategy<Value = String> {
    prop_oneof![
        "(/[a-z]{1,6}){1,4}",
        "(\\./|[a-z]{1,4}/\\.\\./){0,3}(\\.\\./){6,9}[a-z]{1,8}",
        "[a-z]{1,4}\n(/\\.\\.){7,9}/etc/passwd",
        "here\\.txt\u{0}",
        "(http|HTTPS|file|ssh)://[a-z]{1,6}/[a-z]{1,6}",
        "(git@|git::|github\\.com/)[a-z]{1,6}/[a-z]{1,6}",
    ]
}

impl Named {
    /// A key with letters in other cases.
    fn key(&self, name: &str) -> String {
        let letters = name.chars().zip(self.cases.iter().cycle());
        letters
            .map(|(letter, change)| match (change, letter.is_ascii_lowercase()) {
                (true, true) => letter.to_ascii_uppercase(),
                (true, false) => letter.to_ascii_lowercase(),
                (false, _) => letter,
            })
            .collect()
    }

    fn map(&self, name: &str, value: Value) -> Value {
        Value::Object([(self.key(name), value)].into_iter().collect())
    }

    /// The files of a repo whose kustomization `app` leads to the path.
    fn files(&self, path: &str) -> Files {
        let with_key = if self.has_key { format!("k={path}") } else { path.to_owned() };
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        let plugin = |kind: &str, name: &str, value: Value| {
            let mut object = json!({"apiVersion": "builtin", "kind": kind, "metadata": {"name": "x"}});
            object.as_object_mut().unwrap().insert(self.key(name), value);
            object
        };
        let list = |name: &str| self.map(name, json!([path]));
        let in_list = |name: &str, field: &str, value: Value| self.map(name, json!([self.map(field, value)]));
        let (list_of_plugins, plugin) = match self.place {
            0 => return self.chain(list("resources"), files),
            1 => return self.chain(list("bases"), files),
            2 => return self.chain(list("components"), files),
            3 => return self.chain(list("crds"), files),
            4 => return self.chain(list("configurations"), files),
            5 => return self.chain(self.map("openapi", self.map("path", path.into())), files),
            6 => return self.chain(in_list("patches", "path", path.into()), files),
            7 => return self.chain(in_list("patchesJson6902", "path", path.into()), files),
            8 => return self.chain(list("patchesStrategicMerge"), files),
            9 => return self.chain(in_list("replacements", "path", path.into()), files),
            10 => return self.chain(in_list("configMapGenerator", "files", json!([with_key])), files),
            11 => return self.chain(in_list("configMapGenerator", "envs", json!([path])), files),
            12 => return self.chain(in_list("secretGenerator", "env", path.into()), files),
            13 => return self.chain(in_list("secretGenerator", "files", json!([with_key])), files),
            14 => ("generators", plugin("ConfigMapGenerator", "files", json!([with_key]))),
            15 => ("generators", plugin("ConfigMapGenerator", "env", path.into())),
            16 => ("generators", plugin("SecretGenerator", "envs", json!([path]))),
            17 => ("transformers", plugin("PatchTransformer", "path", path.into())),
            18 => ("validators", plugin("PatchTransformer", "path", path.into())),
            19 => ("transformers", plugin("PatchJson6902Transformer", "path", path.into())),
            20 => ("transformers", plugin("PatchStrategicMergeTransformer", "paths", json!([path]))),
            21 => {
                let replacements = json!([self.map("path", path.into())]);
                ("transformers", plugin("ReplacementTransformer", "replacements", replacements))
            }
            22 => ("transformers", plugin("ValueAddTransformer", "targetFilePath", path.into())),
            _ => ("generators", plugin("SecretGenerator", "files", json!([with_key]))),
        };
        let item = match self.form {
            0 => plugin.to_string(),
            1 => {
                let mut text = String::new();
                federate_yaml::write_document(&plugin, &mut text);
                text
            }
            2 => {
                files.insert("app/plugin.yaml".to_owned(), plugin.to_string());
                "../app/plugin.yaml".to_owned()
            }
            _ => {
                files.insert("app/plugins/kustomization.yaml".to_owned(), "resources: [x.yaml]\n".to_owned());
                files.insert("app/plugins/x.yaml".to_owned(), plugin.to_string());
                "../app/plugins".to_owned()
            }
        };
        self.chain(self.map(list_of_plugins, json!([item])), files)
    }

    /// Other kustomizations that lead to this one.
    #[allow(clippy::needless_pass_by_value, reason = "values are written where they are used")]
    fn chain(&self, last: Value, mut files: BTreeMap<String, String>) -> Files {
        for step in 0..self.depth {
            let folder = if step == 0 { "app".to_owned() } else { format!("base{step}") };
            let next = self.map("resources", json!([format!("../base{}", step + 1)]));
            files.insert(format!("{folder}/kustomization.yaml"), next.to_string());
        }
        let folder = if self.depth == 0 { "app".to_owned() } else { format!("base{}", self.depth) };
        files.insert(format!("{folder}/kustomization.yaml"), last.to_string());
        files.insert(format!("{folder}/here.txt"), "a: b\n".to_owned());
        Files(files)
    }
}

/// The code of the error of a build, on a machine without kustomize.
fn error_code(files: &Files) -> &'static str {
    let builder = ProgramBuilder::new(ProgramPaths::default(), BuildCache::in_memory(), Confiner::default());
    let job = BuildJob::Kustomization(Box::new(KustomizationJob {
        folder: "app".to_owned(),
        is_unrestricted: true,
        edits: String::new(),
        rules: KustomizationRules::Kustomize,
    }));
    let results = builder.build(files, &[job], &BuildTime::default());
    results[0].as_ref().unwrap_err().code
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn kustomizations_whose_paths_lead_outside_are_never_built(named in named(), path in outside()) {
        prop_assert_eq!(error_code(&named.files(&path)), "build-failed");
        // The same with a file of the repo would be built: only the program is missing.
        prop_assert_eq!(error_code(&named.files("here.txt")), "missing-program");
    }
}
