//! A folder of the file system as a [`FileTree`], and the text of IO errors.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::missing_entries::{MissingEntries, find_missing_entries};
use federate_kubernetes::schema::find_nearest;
use federate_kubernetes::{Finding, Severity};
use federate_repo::file_tree::{EntryKind, FileTree, MAX_FILE_BYTES, TreeEntry, TreeError};

use crate::git::GitLocation;

/// A folder of the file system. Links may lead to the rest of the git repository that it belongs to.
#[derive(Clone, Debug)]
pub struct WorkTree {
    root: PathBuf,
    /// What git tracks here, but is not there.
    missing: Arc<OnceLock<MissingEntries>>,
    /// The root of the git repository's work tree, once a link leads out of the folder; `None` outside of git.
    repository: OnceLock<Option<PathBuf>>,
}

fn unreadable_root(root: &Path, why: &str) -> Finding {
    let file: Arc<str> = root.to_string_lossy().into();
    let message = format!("cannot open the repo {}: {why}", root.display());
    Finding::in_file(Severity::Error, "unreadable", &file, None, message)
}

/// Why a folder cannot be opened, with the path that was probably meant.
fn describe_unopened(root: &Path, error: &io::Error) -> String {
    let meant = find_nearest_path(root).map(|near| format!("; did you mean `{}`?", near.display()));
    format!("{}{}", to_source_error(error), meant.unwrap_or_default())
}

/// The existing path nearest to one that does not exist: with another name, at most two edits away, for its first part that is
/// missing.
pub fn find_nearest_path(path: &Path) -> Option<PathBuf> {
    let missing =
        path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists()).last()?;
    let parent = missing.parent()?;
    let folder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let entries = fs::read_dir(folder).ok()?.take(MAX_SIBLINGS);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = parent.join(find_nearest(missing.file_name()?.to_str()?, &known)?);
    let rest = path.strip_prefix(missing).ok()?;
    let meant = if rest.as_os_str().is_empty() { near } else { near.join(rest) };
    meant.exists().then_some(meant)
}

/// Among how many entries of a folder the name of a missing one is searched.
const MAX_SIBLINGS: usize = 1000;

impl WorkTree {
    /// Opens a folder.
    pub fn open(root: &Path) -> Result<Self, Finding> {
        let canonical =
            fs::canonicalize(root).map_err(|e| unreadable_root(root, &describe_unopened(root, &e)))?;
        if !canonical.is_dir() {
            return Err(
                unreadable_root(root, "it is not a folder").with_help("name the folder with the manifests")
            );
        }
        if canonical.parent().is_none() {
            return Err(unreadable_root(root, "it is the root of the file system")
                .with_help("name the folder with the manifests"));
        }
        Ok(Self { root: canonical, missing: Arc::default(), repository: OnceLock::new() })
    }

    /// A file system path relative to this tree, whether or not it exists; `None` if it is outside or is the
    /// root itself.
    pub fn relative_path(&self, path: &Path) -> Option<String> {
        let absolute = std::path::absolute(path).ok()?;
        // The existing part is resolved, so that links make no difference; the rest is kept.
        let (existing, rest) = absolute
            .ancestors()
            .find_map(|parent| Some((fs::canonicalize(parent).ok()?, absolute.strip_prefix(parent).ok()?)))?;
        let mut resolved = existing;
        for part in rest.components() {
            match part {
                Component::ParentDir => drop(resolved.pop()),
                part => resolved.push(part),
            }
        }
        path_below(&self.root, &resolved).filter(|path| !path.is_empty())
    }

    /// The root of the git repository's work tree.
    fn repository_root(&self) -> Option<&Path> {
        self.repository.get_or_init(|| GitLocation::discover_around(&self.root).ok()?.work_tree).as_deref()
    }

    /// A canonical path relative to the tree, or from the root of the git repository, unless it is outside of both.
    fn path_within(&self, canonical: &Path) -> Option<String> {
        let inside = path_below(&self.root, canonical)
            .or_else(|| Some(format!("/{}", path_below(self.repository_root()?, canonical)?)));
        // `.git` is not part of the work tree, and its content, such as credentials, must not be read.
        inside.filter(|path| path.split('/').all(|part| part != ".git"))
    }

    /// The path in the file system.
    fn file_path(&self, path: &str) -> PathBuf {
        match (path.strip_prefix('/'), self.repository.get()) {
            (Some(path), Some(Some(repository))) => repository.join(path),
            _ => self.root.join(path.trim_start_matches('/')),
        }
    }

    fn entry_kind(&self, path: &Path) -> EntryKind {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_symlink() => self.resolve_link(path),
            Ok(meta) if meta.is_dir() => EntryKind::Folder,
            Ok(meta) if meta.is_file() => EntryKind::File,
            Ok(_) => EntryKind::Special,
            Err(e) => EntryKind::Unreadable(to_source_error(&e).to_string()),
        }
    }

    fn resolve_link(&self, path: &Path) -> EntryKind {
        let target = fs::read_link(path).map_or_else(|_| String::from("?"), |t| t.display().to_string());
        let canonical = match fs::canonicalize(path) {
            Ok(canonical) => canonical,
            Err(e) => {
                return EntryKind::Unreadable(format!("it links to `{target}`: {}", to_source_error(&e)));
            }
        };
        match (self.path_within(&canonical), fs::metadata(&canonical)) {
            (None, _) => EntryKind::LinkOutside(target),
            (Some(to), Ok(meta)) if meta.is_dir() => EntryKind::LinkToFolder(to),
            (Some(to), Ok(meta)) if meta.is_file() => EntryKind::LinkToFile(to),
            (Some(_), Ok(_)) => EntryKind::Special,
            (Some(_), Err(e)) => EntryKind::Unreadable(to_source_error(&e).to_string()),
        }
    }
}

impl FileTree for WorkTree {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let path = self.file_path(folder);
        let missing = self.missing.get_or_init(|| find_missing_entries(&self.root)).get(folder);
        let read = match (fs::read_dir(&path), missing) {
            (Err(e), Some(missing)) if e.kind() == io::ErrorKind::NotFound => return Ok(missing.clone()),
            (read, _) => read.map_err(|e| to_source_error(&e))?,
        };
        // The folder itself, from outside.
        let own = self.root.file_name().filter(|_| self.root.parent() == Some(&path));
        let mut entries = read
            .map(|entry| {
                let entry = entry.map_err(|e| to_source_error(&e))?;
                let name = entry.file_name();
                let kind = match (name.to_str(), entry.file_type()) {
                    (None, _) => EntryKind::Unreadable("the name is not UTF-8".to_owned()),
                    (_, Ok(kind)) if kind.is_file() => EntryKind::File,
                    (_, Ok(kind)) if kind.is_dir() && own == Some(&*name) => {
                        EntryKind::LinkToFolder(String::new())
                    }
                    (_, Ok(kind)) if kind.is_dir() => EntryKind::Folder,
                    _ => self.entry_kind(&entry.path()),
                };
                Ok(TreeEntry { name: name.to_string_lossy().into_owned(), kind })
            })
            .collect::<Result<Vec<TreeEntry>, TreeError>>()?;
        if let Some(missing) = missing {
            // An empty folder stands in place of a submodule.
            let names: BTreeSet<&str> = missing.iter().map(|entry| entry.name.as_str()).collect();
            entries.retain(|entry| !names.contains(entry.name.as_str()));
            entries.extend_from_slice(missing);
        }
        Ok(entries)
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        let file = fs::File::open(self.file_path(path)).map_err(|e| to_source_error(&e))?;
        // With room for one byte more than the size, reading to the end allocates once.
        let size = file.metadata().map_or(0, |meta| meta.len().min(MAX_FILE_BYTES));
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| to_source_error(&e))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(TreeError::TooLarge(MAX_FILE_BYTES));
        }
        Ok(bytes)
    }
}

/// A canonical path relative to a folder, unless it is outside.
fn path_below(folder: &Path, canonical: &Path) -> Option<String> {
    let below = canonical.strip_prefix(folder).ok()?;
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/"))
}

/// Why the system does not read something, without the number of its error.
fn to_source_error(error: &io::Error) -> TreeError {
    match error.kind() {
        io::ErrorKind::NotFound => TreeError::NotFound,
        io::ErrorKind::PermissionDenied => TreeError::PermissionDenied,
        _ => {
            let text = error.to_string();
            TreeError::Unreadable(text.split(" (os error").next().unwrap_or(&text).to_lowercase())
        }
    }
}
