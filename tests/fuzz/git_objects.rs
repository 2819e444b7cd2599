//! A bare repository made from bytes: objects, packs, references and configuration. It is opened and read as federate
//! reads a revision. A file outside must neither be read nor changed, no program may run, and no signature may count.

use std::fs;
use std::io::Write;
use std::path::{Component, Path};

use federate_repo::walk::{self, FileSelection};
use federate_repo::{Config, ReadOptions};
use federate_source::git::{self, AllowedSigners, GitLocation, GitRevision, ResolvedRevision, verify};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::{ObjectType, Oid};
use tempfile::TempDir;

use super::BETWEEN;

/// The content of the file outside.
const OUTSIDE: &str = "kind: Outside\nmetadata: {name: canary-0b7c}\n";

/// The only key that may sign. Its private half is not kept.
const SIGNERS: &str = "dev@example.com namespaces=\"git\" ssh-ed25519 \
                       AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB\n";

/// What each section of the bytes may ask for, by the first word of its first line:
///
/// - `blob`, `tree`, `commit`, `tag`: an object. `@0` is the id of the first object, and so on; a tree has one entry
///   `MODE NAME @N` per line.
/// - `file PATH`: a file of the repository, such as `packed-refs`, `config` or a pack.
/// - `rev REV`: a revision to resolve.
/// - `verify`: the signatures of the revisions are verified, which starts `git`.
struct Hostile {
    folder: TempDir,
    objects: Vec<Oid>,
    revisions: Vec<String>,
    verify: bool,
}

impl Hostile {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let this = Self { folder, objects: Vec::new(), revisions: vec!["HEAD".to_owned()], verify: false };
        this.write("outside/canary.yaml", OUTSIDE.as_bytes());
        this.write("outside/signers", SIGNERS.as_bytes());
        this.write("bare.git/HEAD", b"ref: refs/heads/main\n");
        this.write("bare.git/config", b"[core]\n\tbare = true\n\trepositoryformatversion = 0\n");
        for empty in ["bare.git/objects/pack", "bare.git/refs/heads"] {
            fs::create_dir_all(this.folder.path().join(empty)).unwrap();
        }
        this
    }

    /// Writes a file if its path can be one.
    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.folder.path().join(path);
        if path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok()) {
            let _ = fs::write(path, bytes);
        }
    }

    fn section(&mut self, section: &[u8]) {
        let end = section.iter().position(|byte| *byte == b'\n').unwrap_or(section.len());
        let (head, content) = section.split_at(end);
        let content = content.get(1..).unwrap_or_default();
        let head = String::from_utf8_lossy(head);
        let (word, argument) = head.split_once(' ').unwrap_or((&head, ""));
        match word {
            "blob" => self.object(ObjectType::Blob, content),
            "commit" => self.object(ObjectType::Commit, &self.with_ids(content)),
            "tag" => self.object(ObjectType::Tag, &self.with_ids(content)),
            "tree" => self.object(ObjectType::Tree, &self.entries(content)),
            "rev" => self.revisions.push(argument.to_owned()),
            "verify" => self.verify = true,
            "file" if is_inside(argument) => {
                let path = format!("bare.git/{argument}");
                if argument.starts_with("objects/pack/") {
                    self.write(&path, content);
                } else {
                    self.write(&path, &self.with_ids(content));
                }
            }
            _ => {}
        }
    }

    /// Stores a loose object.
    fn object(&mut self, kind: ObjectType, content: &[u8]) {
        let id = Oid::hash_object(kind, content).unwrap();
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(format!("{} {}\0", kind.str(), content.len()).as_bytes()).unwrap();
        encoder.write_all(content).unwrap();
        let hex = id.to_string();
        self.write(&format!("bare.git/objects/{}/{}", &hex[..2], &hex[2..]), &encoder.finish().unwrap());
        self.objects.push(id);
    }

    /// Replaces `@N` by the id of an object.
    fn with_ids(&self, content: &[u8]) -> Vec<u8> {
        let mut parts = content.split(|byte| *byte == b'@');
        let mut replaced = parts.next().unwrap_or_default().to_vec();
        for part in parts {
            let digits = part.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
            match self.id(&part[..digits]) {
                Some(id) => replaced.extend_from_slice(id.to_string().as_bytes()),
                None => replaced.extend_from_slice(&[b"@", &part[..digits]].concat()),
            }
            replaced.extend_from_slice(&part[digits..]);
        }
        replaced
    }

    fn id(&self, digits: &[u8]) -> Option<Oid> {
        self.objects.get(std::str::from_utf8(digits).ok()?.parse::<usize>().ok()?).copied()
    }

    /// A tree; lines that are not entries are put in as they are.
    fn entries(&self, content: &[u8]) -> Vec<u8> {
        let mut tree = Vec::new();
        for line in content.split(|byte| *byte == b'\n') {
            let mut words = line.rsplitn(2, |byte| *byte == b'@');
            let id = words.next().and_then(|digits| self.id(digits));
            match (id, words.next()) {
                (Some(id), Some(entry)) => {
                    tree.extend_from_slice(entry.strip_suffix(b" ").unwrap_or(entry));
                    tree.push(0);
                    tree.extend_from_slice(id.as_bytes());
                }
                _ => tree.extend_from_slice(line),
            }
        }
        tree
    }

    fn read(&self) {
        let Ok(place) = GitLocation::discover_around(&self.folder.path().join("bare.git")) else { return };
        let Ok(repository) = place.open_repository() else { return };
        let mut found: Vec<ResolvedRevision> = Vec::new();
        for rev in self.revisions.iter().take(8) {
            let Ok(resolved) = place.resolve_revision(&repository, rev) else { continue };
            if let Ok(revision) = GitRevision::open_folder(place.clone(), &resolved) {
                let selection = FileSelection::new(&Config::default(), None, &ReadOptions::default()).0;
                let (files, _) = walk::read_selected_files(&revision, &selection);
                assert!(files.iter().all(|file| !is_outside(&file.bytes)), "{rev}");
            }
            let _ = git::read_blob(&place, &resolved, "a.yaml").map(|bytes| assert!(!is_outside(&bytes)));
            for other in &found {
                let _ = git::changed_files(&place, other.commit, resolved.commit);
                git::builds_on(&repository, other.commit, resolved.commit);
            }
            if self.verify {
                let signers = self.folder.path().join("outside/signers");
                assert!(
                    verify::verify_revision(&place, &resolved, AllowedSigners::File(&signers)).is_err(),
                    "{rev}"
                );
            }
            found.push(resolved);
        }
    }

    /// Nothing outside of the repository was made, changed or removed.
    fn is_contained(&self) {
        let names = |folder: &Path| {
            let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(self.folder.path()), ["bare.git", "outside"]);
        let outside = self.folder.path().join("outside");
        assert_eq!(names(&outside), ["canary.yaml", "signers"]);
        assert_eq!(fs::read_to_string(outside.join("canary.yaml")).unwrap(), OUTSIDE);
    }
}

/// Whether a path stays in the repository.
fn is_inside(path: &str) -> bool {
    let path = Path::new(path);
    path.as_os_str().len() < 200 && path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn is_outside(bytes: &[u8]) -> bool {
    bytes.windows(11).any(|part| part == b"canary-0b7c")
}

/// A repository made from the bytes is read or refused.
pub(crate) fn git(bytes: &[u8]) {
    // What the bytes spell out themselves may be read.
    if is_outside(bytes) {
        return;
    }
    let mut hostile = Hostile::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(BETWEEN.len()).position(|part| part == BETWEEN.as_bytes()) {
        hostile.section(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    hostile.section(rest);
    hostile.read();
    hostile.is_contained();
}
