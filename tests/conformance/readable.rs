//! The cases that carry the rules of a family, as plain YAML in `readable/<dialect>/<family>.yaml`: each is the recorded
//! case with its id, and a page about the rules names the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::Value;

use crate::cases::{entries, id};

/// The cases to read, by id.
pub(crate) struct ReadableCases {
    cases: BTreeMap<String, Value>,
    /// What is wrong with them.
    wrong: Vec<String>,
}

impl ReadableCases {
    /// Reads the files below `tests/conformance`.
    pub(crate) fn read(folder: &Path) -> Self {
        let root = folder.join("readable");
        let mut all = Self { cases: BTreeMap::new(), wrong: Vec::new() };
        let mut files = BTreeSet::new();
        for path in entries(&root).iter().flat_map(|dialect| entries(dialect)) {
            let name = path.strip_prefix(&root).expect("a file below the folder").display().to_string();
            let stream = federate_yaml::read_stream(&fs::read(&path).expect("the file was just listed"));
            all.wrong.extend(stream.errors.iter().map(|error| format!("{name}: {error:?}")));
            for case in stream.documents.into_iter().map(|document| document.value) {
                let id = id(&case).to_owned();
                if all.cases.insert(id.clone(), case).is_some() {
                    all.wrong.push(format!("{name}: {id} is there twice"));
                }
            }
            files.insert(name);
        }
        let cited = cited_files(folder);
        all.wrong.extend(
            files.difference(&cited).map(|name| format!("no page about the rules names readable/{name}")),
        );
        all.wrong.extend(
            cited.difference(&files).map(|name| format!("a page names readable/{name}, which is not there")),
        );
        all
    }

    /// Compares recorded cases with those to read.
    pub(crate) fn compare(&mut self, recorded: &[Value]) {
        for case in recorded {
            if self.cases.remove(id(case)).is_some_and(|readable| readable != *case) {
                self.wrong.push(format!("{} differs from the recorded case", id(case)));
            }
        }
    }

    /// What is wrong, after all recorded cases were compared.
    pub(crate) fn find_mistakes(self) -> Vec<String> {
        let unknown = self.cases.into_keys().map(|id| format!("there is no recorded case {id}"));
        self.wrong.into_iter().chain(unknown).collect()
    }
}

/// The files to read that the documentation names.
fn cited_files(folder: &Path) -> BTreeSet<String> {
    let docs = folder.join("../../docs");
    let pages: Vec<PathBuf> =
        entries(&docs.join("semantics")).into_iter().chain([docs.join("conformance.md")]).collect();
    let citation = Regex::new(r"tests/conformance/readable/([\w.-]+/[\w-]+\.yaml)").expect("an expression");
    let mut cited = BTreeSet::new();
    for page in pages {
        let text = fs::read_to_string(page).expect("a page");
        cited.extend(citation.captures_iter(&text).map(|found| found[1].to_owned()));
    }
    cited
}
