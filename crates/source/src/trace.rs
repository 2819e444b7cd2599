//! Records what is read of a source, so that a later run can tell that it would read the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use federate_repo::FileTree;
use federate_repo::file_tree::{EntryKind, TreeEntry, TreeError};

/// A source, and a record of what is read of it.
pub struct TracedTree<'s> {
    source: &'s dyn FileTree,
    reads: Mutex<BTreeMap<Read, Digest>>,
}

/// What was read of a source, and a digest of the answers.
///
/// ```
/// use federate_repo::{EmptyTree, FileTree};
/// use federate_source::TracedTree;
///
/// let traced = TracedTree::new(&EmptyTree);
/// let _ = traced.read_file("federate.yaml");
/// assert!(traced.to_trace().is_same(&EmptyTree));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeTrace {
    reads: Vec<Read>,
    digest: String,
}

/// A question to a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Read {
    Folder(String),
    File(String),
}

type Digest = [u8; 32];

/// In place of the digest of answers that changed while they were read: it is that of no answer.
const CHANGED_DIGEST: Digest = [0; 32];

impl<'s> TracedTree<'s> {
    /// Records what is read of `source` from now on.
    pub fn new(source: &'s dyn FileTree) -> Self {
        Self { source, reads: Mutex::default() }
    }

    /// What has been read.
    pub fn to_trace(&self) -> TreeTrace {
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = compute_digest(reads.values());
        TreeTrace { reads: reads.keys().cloned().collect(), digest }
    }

    fn record_read(&self, read: Read, answer: Digest) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let known = reads.entry(read).or_insert(answer);
        if *known != answer {
            *known = CHANGED_DIGEST;
        }
    }
}

impl FileTree for TracedTree<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let answer = self.source.list_folder(folder);
        self.record_read(Read::Folder(folder.to_owned()), digest_folder(&answer));
        answer
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        let answer = self.source.read_file(path);
        self.record_read(Read::File(path.to_owned()), digest_file(&answer));
        answer
    }
}

impl TreeTrace {
    /// Whether a source gives the same answers.
    pub fn is_same(&self, source: &dyn FileTree) -> bool {
        let answers = self.reads.par_iter().map(|read| match read {
            Read::Folder(folder) => digest_folder(&source.list_folder(folder)),
            Read::File(path) => digest_file(&source.read_file(path)),
        });
        let answers: Vec<Digest> = answers.collect();
        compute_digest(answers.iter()) == self.digest
    }
}

fn compute_digest<'d>(answers: impl Iterator<Item = &'d Digest>) -> String {
    let mut sha = Sha256::new();
    answers.for_each(|answer| sha.update(answer));
    sha.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn digest_folder(answer: &Result<Vec<TreeEntry>, TreeError>) -> Digest {
    let reason = answer.as_ref().err().map(ToString::to_string);
    let entries = answer.iter().flatten().map(|entry| to_tagged_parts(&entry.name, &entry.kind));
    let mut parts: Vec<(u8, &str, &str)> =
        entries.chain(reason.iter().map(|why| (b'!', "", why.as_str()))).collect();
    parts.sort_unstable();
    let mut sha = Sha256::new();
    for (tag, name, rest) in parts {
        sha.update([tag]);
        for text in [name, rest] {
            sha.update((text.len() as u64).to_be_bytes());
            sha.update(text);
        }
    }
    sha.finalize().into()
}

fn digest_file(answer: &Result<Vec<u8>, TreeError>) -> Digest {
    match answer {
        Ok(bytes) => Sha256::new().chain_update(b"b").chain_update(bytes),
        Err(why) => Sha256::new().chain_update(b"!").chain_update(why.to_string()),
    }
    .finalize()
    .into()
}

fn to_tagged_parts<'e>(name: &'e str, kind: &'e EntryKind) -> (u8, &'e str, &'e str) {
    let (tag, rest): (u8, &str) = match kind {
        EntryKind::File => (b'f', ""),
        EntryKind::Folder => (b'd', ""),
        EntryKind::LinkToFile(target) => (b'l', target),
        EntryKind::LinkToFolder(target) => (b'L', target),
        EntryKind::LinkOutside(target) => (b'o', target),
        EntryKind::Unreadable(why) => (b'u', why),
        EntryKind::SparseFile => (b'S', ""),
        EntryKind::Submodule => (b'm', ""),
        EntryKind::Special => (b's', ""),
    };
    (tag, name, rest)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::WorkTree;

    fn traced(folder: &Path) -> TreeTrace {
        let tree = WorkTree::open(folder).unwrap();
        let traced = TracedTree::new(&tree);
        for entry in traced.list_folder("").unwrap() {
            let _ = traced.read_file(&entry.name);
        }
        let _ = traced.read_file("missing.yaml");
        traced.to_trace()
    }

    #[test]
    fn a_change_of_what_was_read_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), "a: 1\n").unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        let before = traced(dir.path());
        let is_same = || before.is_same(&WorkTree::open(dir.path()).unwrap());
        assert!(is_same());
        // What was not read does not matter.
        fs::write(dir.path().join("b/c.yaml"), "").unwrap();
        assert!(is_same());
        let changes: [&dyn Fn(); 4] = [
            &|| fs::write(dir.path().join("a.yaml"), "a: 2\n").unwrap(),
            &|| fs::write(dir.path().join("new.yaml"), "").unwrap(),
            &|| fs::write(dir.path().join("missing.yaml"), "").unwrap(),
            &|| fs::remove_file(dir.path().join("a.yaml")).unwrap(),
        ];
        for change in changes {
            change();
            assert!(!is_same());
            for added in ["new.yaml", "missing.yaml"] {
                let _ = fs::remove_file(dir.path().join(added));
            }
            fs::write(dir.path().join("a.yaml"), "a: 1\n").unwrap();
            assert!(is_same(), "it is as before");
        }
        let tree = WorkTree::open(dir.path()).unwrap();
        let traced = TracedTree::new(&tree);
        for text in ["a: 1\n", "a: 2\n"] {
            fs::write(dir.path().join("a.yaml"), text).unwrap();
            traced.read_file("a.yaml").unwrap();
        }
        assert!(!traced.to_trace().is_same(&tree), "it changed between two reads");
        fs::write(dir.path().join("a.yaml"), "a: 1\n").unwrap();
        fs::remove_dir_all(dir.path().join("b")).unwrap();
        fs::write(dir.path().join("b"), "").unwrap();
        assert!(!is_same(), "a file in place of a folder");
    }
}
