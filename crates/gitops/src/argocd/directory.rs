//! The files of a folder that Argo CD takes as they are.
//!
//! Facts: the repo server of Argo CD. Files count by the ends of their names, hidden ones too. Globs are those of the package gobwas
//! without separators, and match the path below the folder. A YAML file that cannot be read is left out, unless it has objects or
//! looks like one; a JSON file must be one object. A file that contains a mark is left out.

use federate_file_tree::{CachedTree, EntryKind, FileTree as _, join_path};
use federate_yaml::Stream;
use serde_json::Value;

use super::path_glob::{GlobDialect, PathGlob, PathGlobBudget};
use crate::description::{DescriptionError, DirectoryFiles};

/// The text by which Argo CD leaves a file out.
const SKIP_MARK: &str = "+argocd:skip-file-rendering";

/// The most files of a folder.
const MAX_FILES: usize = 20_000;

/// The most bytes of the files of a folder together.
const MAX_BYTES: usize = 256 << 20;

/// The deepest nesting of folders.
const MAX_DEPTH: usize = 100;

/// A file of a folder with its documents, all of which are maps with a kind. One that is left out has none.
pub struct DirectoryFile {
    /// The path in the repo.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// The documents.
    pub stream: Stream,
}

/// What a folder holds.
#[derive(Default)]
pub struct DirectoryContent {
    /// The files, sorted by path.
    pub files: Vec<DirectoryFile>,
    /// Links that are left out.
    pub links: Vec<String>,
}

/// Reads the files of a folder.
///
/// # Errors
///
/// If a file cannot be read, is one that Argo CD refuses, or needs Jsonnet. The pointer of the error is empty.
pub fn read_directory(
    tree: &CachedTree<'_>,
    folder: &str,
    selection: &DirectoryFiles,
) -> Result<DirectoryContent, DescriptionError> {
    let mut content = DirectoryContent::default();
    let mut reader = DirectoryReader {
        tree,
        root: folder,
        selection,
        include: compile_glob(&selection.include)?,
        exclude: compile_glob(&selection.exclude)?,
        budget: PathGlobBudget::default(),
        bytes: 0,
        content: &mut content,
    };
    reader.read_folder("", MAX_DEPTH)?;
    content.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(content)
}

/// A glob; `None` if there is none.
fn compile_glob(glob: &str) -> Result<Option<PathGlob>, DescriptionError> {
    if glob.is_empty() {
        return Ok(None);
    }
    PathGlob::new(glob, GlobDialect::Gobwas).map(Some).map_err(refuse)
}

fn refuse(why: impl Into<String>) -> DescriptionError {
    DescriptionError::new("", why)
}

struct DirectoryReader<'r> {
    tree: &'r CachedTree<'r>,
    root: &'r str,
    selection: &'r DirectoryFiles,
    include: Option<PathGlob>,
    exclude: Option<PathGlob>,
    budget: PathGlobBudget,
    bytes: usize,
    content: &'r mut DirectoryContent,
}

impl DirectoryReader<'_> {
    /// Reads a folder below the root.
    fn read_folder(&mut self, below: &str, depth: usize) -> Result<(), DescriptionError> {
        if depth == 0 {
            return Err(refuse(format!("`{}` has more than {MAX_DEPTH} folders in each other", self.root)));
        }
        let folder = if below.is_empty() { self.root.to_owned() } else { join_path(self.root, below) };
        let entries = self.tree.list_folder(&folder);
        let entries = entries.map_err(|why| refuse(format!("`{folder}` cannot be listed: {why}")))?;
        for entry in entries {
            let path = join_path(below, &entry.name);
            match entry.kind {
                EntryKind::Folder if self.selection.is_recursive && entry.name != ".git" => {
                    self.read_folder(&path, depth - 1)?;
                }
                EntryKind::File | EntryKind::LinkToFile(_) | EntryKind::LinkOutside(_)
                    if !self.is_selected(&entry.name, &path)? => {}
                EntryKind::File => self.read_file(&path)?,
                EntryKind::LinkToFile(_) | EntryKind::LinkOutside(_) => {
                    self.content.links.push(join_path(self.root, &path));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_selected(&mut self, name: &str, path: &str) -> Result<bool, DescriptionError> {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if !self.selection.has_any_extension && !matches!(extension, "yaml" | "yml" | "json" | "jsonnet") {
            return Ok(false);
        }
        for (glob, is_selected) in [(&self.exclude, false), (&self.include, true)] {
            let Some(glob) = glob else { continue };
            if glob.matches(path, &mut self.budget).map_err(refuse)? != is_selected {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_file(&mut self, below: &str) -> Result<(), DescriptionError> {
        let path = join_path(self.root, below);
        let bytes = self.tree.read_file(&path);
        let bytes = bytes.map_err(|why| refuse(format!("`{path}` cannot be read: {why}")))?;
        self.bytes += bytes.len();
        if self.bytes > MAX_BYTES || self.content.files.len() >= MAX_FILES {
            let most = MAX_BYTES >> 20;
            return Err(refuse(format!("`{}` has more than {MAX_FILES} files or {most} MiB", self.root)));
        }
        let text = String::from_utf8_lossy(&bytes);
        let stream = match below.rsplit_once('.').map_or("", |(_, extension)| extension) {
            _ if text.contains(SKIP_MARK) => Stream::default(),
            "jsonnet" => {
                return Err(refuse(format!("`{path}` is Jsonnet, which federate does not evaluate"))
                    .with_help("commit what it evaluates to in place of it"));
            }
            "json" => read_json(&path, &bytes)?,
            _ => read_yaml(&path, &text)?,
        };
        self.content.files.push(DirectoryFile { path, bytes, stream });
        Ok(())
    }
}

/// Reads a JSON file, which is one object.
fn read_json(path: &str, bytes: &[u8]) -> Result<Stream, DescriptionError> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) if has_kind(&value) => {}
        Some(Err(why)) => return Err(refuse(format!("`{path}` is not valid JSON: {why}"))),
        _ => return Err(refuse(format!("`{path}` is not an object with a `kind`"))),
    }
    if values.next().is_some() {
        return Err(refuse(format!("`{path}` has several objects, and a JSON file may only have one"))
            .with_help("write them as YAML, or in a list"));
    }
    let stream = federate_yaml::read_stream(bytes);
    match stream.errors.first() {
        Some(error) => Err(refuse(format!("`{path}` is not valid: {error}"))),
        None => Ok(stream),
    }
}

/// Reads a YAML file: nothing, if it is not one of objects.
fn read_yaml(path: &str, text: &str) -> Result<Stream, DescriptionError> {
    let mut stream = federate_yaml::read_stream(text.as_bytes());
    stream.documents.retain(|document| !document.value.is_null());
    let unreadable = stream.documents.iter().position(|document| !has_kind(&document.value));
    let readable = unreadable.unwrap_or(stream.documents.len());
    let why = match (stream.errors.first(), unreadable) {
        (Some(error), _) => format!("it is not valid YAML: {error}"),
        (None, Some(_)) => "a document is not an object with a `kind`".to_owned(),
        (None, None) => return Ok(stream),
    };
    let looks_like_object = ["apiVersion:", "kind:", "metadata:"].iter().all(|field| text.contains(field));
    if readable > 0 || looks_like_object {
        return Err(refuse(format!("`{path}` cannot be read: {why}")));
    }
    Ok(Stream::default())
}

fn has_kind(value: &Value) -> bool {
    value.get("kind").and_then(Value::as_str).is_some_and(|kind| !kind.is_empty())
}
