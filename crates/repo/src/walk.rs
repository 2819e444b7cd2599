//! Finds the files to read in any [`FileTree`].
//!
//! Every real file and folder is read once, under its own path if that is included: a symbolic link only adds
//! files that are not read otherwise, so link loops end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ignore::gitignore::Gitignore;
use rayon::prelude::*;

use super::config::{self, Config};
use super::ignore_rules::{IGNORE_FILES, IgnoreRules, compile_patterns, detect_format};
use super::pointer_file::find_pointer;
use super::repetitions::Repetitions;
use super::selection::{ReadOptions, SelectedPaths};
use super::unreadable::{outside_link_error, sparse_checkout_error, submodule_error, unreadable_error};
use federate_file_tree::{EntryKind, FileTree, RepoFile, TreeEntry, TreeError};
use federate_file_tree::{is_within, join_path};
use federate_kubernetes::{Finding, Severity};
use federate_yaml::Position;

/// The largest number of files that are read.
const MAX_FILES: usize = 1_000_000;

/// The file name of the plan in an output folder.
const PLAN_FILE_NAME: &str = "placements.yaml";

/// Which files of a tree are read, in addition to its ignore files.
#[derive(Debug)]
pub struct FileSelection {
    /// The paths that the configuration selects; empty for all.
    paths: Vec<Gitignore>,
    /// The paths that are read instead of them.
    given: SelectedPaths,
    exclude: Gitignore,
    outputs: Vec<String>,
    /// The part of each selected path before its first wildcard.
    beginnings: Vec<String>,
    /// The file with the configuration.
    config_path: Arc<str>,
}

impl FileSelection {
    /// Combines the options with the configuration, which is in the file `config_path`.
    pub fn new(
        config: &Config,
        config_path: Option<&Arc<str>>,
        options: &ReadOptions,
    ) -> (Self, Vec<Finding>) {
        let mut findings = Vec::new();
        let mut paths = Vec::new();
        let config_path = config_path.cloned().unwrap_or_else(|| config::DEFAULT_FILE_NAME.into());
        let configured = if options.paths.is_empty() { config.paths.as_slice() } else { &[] };
        if configured.len() > MAX_CONFIGURED_PATHS {
            let message = format!(
                "`paths` has more than {MAX_CONFIGURED_PATHS} items, each of which every file is compared with"
            );
            let finding = Finding::in_file(Severity::Error, "invalid-config", &config_path, None, message);
            findings
                .push(finding.with_pointer("/paths").with_help("name the folders that contain the files"));
        }
        for (index, path) in configured.iter().take(MAX_CONFIGURED_PATHS).enumerate() {
            let anchored = match path.trim_start_matches("./") {
                "" | "." => "*".to_owned(),
                path => format!("/{path}"),
            };
            let (pattern, bad) = compile_patterns([anchored.as_str()].into_iter());
            findings.extend(
                bad.into_iter().map(|(_, why)| bad_pattern(&config_path, &format!("/paths/{index}"), &why)),
            );
            paths.push(pattern);
        }
        let (exclude, bad) = compile_patterns(config.exclude.iter().map(String::as_str));
        findings.extend(
            bad.into_iter().map(|(n, why)| bad_pattern(&config_path, &format!("/exclude/{}", n - 1), &why)),
        );
        let outputs = options.output.as_deref().into_iter().chain(config.output.as_deref());
        let outputs = outputs.map(|o| o.trim_start_matches("./").trim_end_matches('/').to_owned());
        let outputs = outputs.filter(|output| !output.is_empty()).collect();
        let beginnings = config.paths.iter().map(|path| beginning_of(path).to_owned()).collect();
        let given = SelectedPaths::new(&options.paths);
        (Self { paths, given, exclude, outputs, beginnings, config_path }, findings)
    }

    /// Whether the paths include a file.
    fn includes_file(&self, path: &str) -> bool {
        self.given.includes_path(path)
            && (self.paths.is_empty() || self.paths.iter().any(|pattern| matches_path(pattern, path)))
    }

    /// Whether a file or folder is, contains, or is in one of the given paths.
    fn concerns_path(&self, path: &str) -> bool {
        self.given.includes_path(path) || self.given.lead_through(path)
    }

    /// One finding for each path without files, of which those in `met` exist.
    fn report_unused_paths(&self, files: &BTreeMap<String, String>, met: &BTreeSet<String>) -> Vec<Finding> {
        let given = self.given.iter().filter(|path| !path.is_empty());
        let (there, missing): (Vec<&str>, Vec<&str>) = given.partition(|path| met.contains(*path));
        let mut found: Vec<Finding> = missing
            .into_iter()
            .map(|path| unreadable_error(path, "there is no such file or folder").with_help(PATH_HELP))
            .collect();
        for path in there {
            let below = format!("{path}/");
            if !files.contains_key(path)
                && !files.range(below.clone()..).next().is_some_and(|(file, _)| file.starts_with(&below))
            {
                let message = "this path contains no manifest, or all its files are ignored";
                found.push(Finding::in_file(Severity::Warning, "unused-path", &path.into(), None, message));
            }
        }
        found.extend(self.unused_patterns(files));
        found
    }

    /// Whether the configured paths may include files of a folder.
    fn may_want_below(&self, folder: &str) -> bool {
        self.paths.is_empty()
            || self.beginnings.iter().any(|path| is_within(path, folder) || is_within(folder, path))
    }

    /// One finding for each configured path without files.
    fn unused_patterns(&self, files: &BTreeMap<String, String>) -> Vec<Finding> {
        (0..)
            .zip(&self.paths)
            .filter(|(_, pattern)| !files.keys().any(|path| matches_path(pattern, path)))
            .map(|(index, _): (usize, _)| {
                let message = "this path matches no file, or all its files are ignored";
                Finding::in_file(Severity::Warning, "unused-path", &self.config_path, None, message)
                    .with_pointer(format!("/paths/{index}"))
            })
            .collect()
    }

    fn leaves_out(&self, path: &str, folder: bool) -> bool {
        self.exclude.matched(path, folder).is_ignore() || (folder && self.is_output(path))
    }

    /// Whether a path is or is in an output folder.
    fn is_output(&self, path: &str) -> bool {
        self.outputs.iter().any(|output| is_within(path, output))
    }
}

/// The files to read, sorted by path, and findings.
pub fn read_selected_files(tree: &dyn FileTree, selection: &FileSelection) -> (Vec<RepoFile>, Vec<Finding>) {
    let mut walk = Walk::new(tree, selection);
    walk.list_files();
    walk.findings.extend(selection.report_unused_paths(&walk.files, &walk.met));
    walk.findings.extend(report_languages(&walk.languages));
    let Walk { files, mut findings, sparse: left_out, .. } = walk;
    if let Some((first, others)) = left_out.split_first() {
        findings.push(sparse_checkout_error(first, others));
    }
    let total = AtomicUsize::new(0);
    let read: Vec<Result<RepoFile, Finding>> = files
        .into_par_iter()
        .map(|(path, real)| {
            // Once there is too much, nothing is kept, so that the result does not depend on the order.
            let is_full = total.load(Ordering::Relaxed) > MAX_BYTES;
            let bytes = if is_full { Err(TreeError::NotFound) } else { tree.read_file(&real) };
            let bytes = bytes.map_err(|why| unreadable_error(&path, why))?;
            if let Some(pointer) = find_pointer(&path, &bytes) {
                return Err(pointer);
            }
            total.fetch_add(bytes.len(), Ordering::Relaxed);
            Ok(RepoFile { path: path.into(), bytes: bytes.into() })
        })
        .collect();
    if total.load(Ordering::Relaxed) > MAX_BYTES {
        let why = format!("the files of the repo have more than {} MiB", MAX_BYTES >> 20);
        findings.push(unreadable_error("", why).with_help("narrow it with `paths` in federate.yaml"));
        return (Vec::new(), findings);
    }
    let mut files = Vec::with_capacity(read.len());
    for result in read {
        match result {
            Ok(file) => files.push(file),
            Err(finding) => findings.push(finding),
        }
    }
    (files, findings)
}

/// Files of languages whose output is manifests, by extension. They are not read.
const LANGUAGES: [(&str, &str, &str); 3] = [
    ("jsonnet", "Jsonnet", "jsonnet -y FILE > OUTPUT.yaml"),
    ("libsonnet", "Jsonnet", "jsonnet -y FILE > OUTPUT.yaml"),
    ("cue", "CUE", "cue export --out yaml > OUTPUT.yaml"),
];

/// The language of a file whose output is manifests, with the command that prints it.
pub(crate) fn detect_language(path: &str) -> Option<(&'static str, &'static str)> {
    let (_, extension) = path.rsplit_once('.')?;
    let known = LANGUAGES.iter().find(|(known, ..)| *known == extension);
    known.map(|(_, language, command)| (*language, *command))
}

/// One finding for each language, about all its files.
fn report_languages(files: &BTreeMap<&'static str, BTreeSet<String>>) -> Vec<Finding> {
    files
        .iter()
        .filter_map(|(language, paths)| {
            let first = paths.first()?;
            let (_, command) = self::detect_language(first)?;
            let files = if paths.len() == 1 {
                "this file".to_owned()
            } else {
                format!(
                    "this and {}",
                    federate_kubernetes::finding::format_count(paths.len() - 1, "more file")
                )
            };
            let message = format!("federate does not run {language}: {files} are not read");
            let message = if paths.len() == 1 { message.replace(" are ", " is ") } else { message };
            let finding =
                Finding::in_file(Severity::Warning, "other-tool", &first.as_str().into(), None, message);
            Some(
                finding.with_help(format!(
                    "commit the output (`{command}`), or list the files in .federateignore"
                )),
            )
        })
        .collect()
}

/// The most bytes that all files may have together. A revision of git holds them compressed: a small one could hold any
/// number of bytes.
const MAX_BYTES: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// The most that the paths of all listed files and folders may [`cost`] together. A few small git trees that hold each
/// other several times stand for any number of folders.
const MAX_LISTED_COST: usize = 128 << 20;

/// How many folders are listed at the same time. A small repo of a stranger may contain folders with a million entries, so
/// that it must not be many.
const MAX_PARALLEL_LISTINGS: usize = 4;

/// What a path costs: about the memory that it takes, and the ignore files of all its folders that are asked about it.
fn estimate_path_cost(path: &str) -> usize {
    let depth = path.matches('/').count();
    2 * path.len() + 100 + depth * depth / 4
}

/// The most `paths` of a configuration.
const MAX_CONFIGURED_PATHS: usize = 1000;

struct Walk<'s> {
    tree: &'s dyn FileTree,
    selection: &'s FileSelection,
    rules: IgnoreRules,
    /// Folders still to list: path and real path.
    folders: Vec<(String, String)>,
    /// Links within the tree, with path, real path, and whether they lead to a folder.
    links: BTreeMap<String, (String, bool)>,
    /// Real paths of listed folders and selected files.
    seen: BTreeSet<String>,
    /// Files to read: path and real path.
    files: BTreeMap<String, String>,
    findings: Vec<Finding>,
    /// The files that would be read, but that a sparse checkout leaves out.
    sparse: Vec<String>,
    /// The files of other languages, by language.
    languages: BTreeMap<&'static str, BTreeSet<String>>,
    /// What all listed paths cost.
    listed: usize,
    repetitions: Repetitions,
    /// The given paths that exist.
    met: BTreeSet<String>,
}

impl<'s> Walk<'s> {
    fn new(tree: &'s dyn FileTree, selection: &'s FileSelection) -> Self {
        Self {
            tree,
            selection,
            rules: IgnoreRules::default(),
            folders: vec![(String::new(), String::new())],
            links: BTreeMap::new(),
            seen: BTreeSet::new(),
            files: BTreeMap::new(),
            findings: Vec::new(),
            sparse: Vec::new(),
            languages: BTreeMap::new(),
            listed: 0,
            repetitions: Repetitions::default(),
            met: BTreeSet::new(),
        }
    }

    /// Lists all real folders first, then what links add, in the order of their paths.
    fn list_files(&mut self) {
        loop {
            while !self.folders.is_empty() {
                for (path, real, listed) in self.next_folders() {
                    self.visit_folder(&path, &real, listed);
                    if let Some(limit) = self.report_exceeded_limit(&path) {
                        // Nothing is read of it.
                        self.files.clear();
                        return self.findings.push(limit);
                    }
                }
            }
            match self.links.pop_first() {
                Some((path, (real, true))) => self.folders.push((path, real)),
                Some((path, (real, false))) => self.visit_file(path, real),
                None => return,
            }
        }
    }

    /// Lists the folders that are next, at most [`MAX_PARALLEL_LISTINGS`], in parallel: path, real path and entries.
    fn next_folders(&mut self) -> Vec<(String, String, Result<Vec<TreeEntry>, TreeError>)> {
        let rest = self.folders.len().saturating_sub(MAX_PARALLEL_LISTINGS);
        let mut next = self.folders.split_off(rest);
        next.retain(|(_, real)| self.seen.insert(real.clone()));
        let tree = self.tree;
        let listed = next.into_par_iter().rev().map(|(path, real)| {
            let entries = tree.list_folder(&real);
            (path, real, entries)
        });
        listed.collect()
    }

    /// The finding about the limit that the tree exceeds, after its folder `path`.
    fn report_exceeded_limit(&self, path: &str) -> Option<Finding> {
        if self.files.len() > MAX_FILES {
            let why = format!("the repo has more than {MAX_FILES} files to read");
            return Some(
                unreadable_error(path, why).with_help("select fewer files with `paths` in federate.yaml"),
            );
        }
        let why = "the repo has too many files and folders, or too deep ones";
        let help = "name folders without manifests in .federateignore";
        let exceeds = self.listed > MAX_LISTED_COST || self.repetitions.are_too_many();
        exceeds.then(|| unreadable_error(path, why).with_help(help))
    }

    fn visit_folder(&mut self, path: &str, real: &str, listed: Result<Vec<TreeEntry>, TreeError>) {
        let entries = match listed {
            Ok(entries) => entries,
            Err(why) => return self.findings.push(unreadable_error(path, why)),
        };
        self.repetitions.count_folder(self.tree.folder_id(real), entries.len());
        let files: Vec<&str> =
            entries.iter().filter(|e| e.kind == EntryKind::File).map(|e| e.name.as_str()).collect();
        if !path.is_empty()
            && files.contains(&PLAN_FILE_NAME)
            && self.tree.read_file(&join_path(real, PLAN_FILE_NAME)).is_ok_and(|b| is_plan(&b))
        {
            return;
        }
        for name in IGNORE_FILES.into_iter().filter(|name| files.contains(name)) {
            self.ignore_file(path, real, name);
        }
        for entry in entries {
            self.visit_entry(path, real, entry);
        }
    }

    fn ignore_file(&mut self, path: &str, real: &str, name: &str) {
        let file = join_path(path, name);
        let bad = match self.tree.read_file(&join_path(real, name)) {
            Ok(text) => match find_pointer(&file, &text) {
                Some(pointer) => return self.findings.push(pointer),
                None => self.rules.add_file(path, name, &text),
            },
            Err(why) => return self.findings.push(unreadable_error(&file, why)),
        };
        let file: Arc<str> = file.into();
        self.findings.extend(bad.into_iter().map(|(line, why)| {
            let at = Some(Position { line, column: 1 });
            let message = format!("this pattern is invalid and ignored: {why}");
            Finding::in_file(Severity::Warning, "ignore-pattern", &file, at, message)
        }));
    }

    fn visit_entry(&mut self, folder: &str, real: &str, entry: TreeEntry) {
        let path = join_path(folder, &entry.name);
        self.listed += estimate_path_cost(&path);
        if !self.selection.concerns_path(&path) {
            return;
        }
        if self.selection.given.contains(&path) {
            self.met.insert(path.clone());
        }
        let is_folder = matches!(entry.kind, EntryKind::Folder | EntryKind::LinkToFolder(_));
        if self.rules.ignores_path(&path, is_folder) || self.selection.leaves_out(&path, is_folder) {
            return;
        }
        let matters = match detect_format(&entry.name) {
            Some(_) => self.selection.includes_file(&path),
            // A name without an extension may be a folder that cannot be read.
            None => !entry.name.contains('.') && self.selection.may_want_below(&path),
        };
        match entry.kind {
            EntryKind::Folder => self.folders.push((path, join_path(real, &entry.name))),
            EntryKind::File => self.visit_file(path, join_path(real, &entry.name)),
            EntryKind::LinkToFolder(to) | EntryKind::LinkToFile(to) if self.selection.is_output(&to) => {}
            EntryKind::LinkToFolder(to) => drop(self.links.insert(path, (to, true))),
            EntryKind::LinkToFile(to) => drop(self.links.insert(path, (to, false))),
            EntryKind::LinkOutside(to) if matters => self.findings.push(outside_link_error(&path, &to)),
            EntryKind::Unreadable(why) if matters => {
                let help = "restore it, or list it in .federateignore";
                self.findings.push(unreadable_error(&path, why).with_help(help));
            }
            EntryKind::SparseFile if self.is_read(&path) => self.sparse.push(path),
            EntryKind::Submodule if self.selection.may_want_below(&path) => {
                self.findings.push(submodule_error(&path));
            }
            EntryKind::SparseFile | EntryKind::Submodule => {}
            EntryKind::LinkOutside(_) | EntryKind::Unreadable(_) | EntryKind::Special => {}
        }
    }

    /// Whether a file decides what is rendered: as a file with objects, or by what it says of other files.
    fn is_read(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let names_files = IGNORE_FILES.contains(&name) || path == config::DEFAULT_FILE_NAME;
        names_files || (detect_format(name).is_some() && self.selection.includes_file(path))
    }

    fn visit_file(&mut self, path: String, real: String) {
        if let Some((language, _)) = detect_language(&path).filter(|_| self.selection.includes_file(&path)) {
            self.languages.entry(language).or_default().insert(path);
            return;
        }
        let readable = path.rsplit('/').next().is_some_and(|name| detect_format(name).is_some());
        let is_config = config::FILE_NAMES.contains(&path.as_str()) || *path == *self.selection.config_path;
        if readable && !is_config && self.selection.includes_file(&path) && self.seen.insert(real.clone()) {
            self.files.insert(path, real);
        }
    }
}

fn matches_path(pattern: &Gitignore, path: &str) -> bool {
    pattern.matched_path_or_any_parents(path, false).is_ignore()
}

/// What to do about a path that does not exist.
const PATH_HELP: &str = "--path names a file or folder of the repo, relative to the repo's folder";

fn bad_pattern(file: &Arc<str>, pointer: &str, why: &str) -> Finding {
    let message = format!("invalid pattern: {why}");
    Finding::in_file(Severity::Error, "invalid-config", file, None, message).with_pointer(pointer)
}

/// Whether a file is a plan written by federate, according to its top-level keys.
fn is_plan(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let [kind, api_version] = ["kind:", "apiVersion:"].map(|key| {
        text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().trim_matches(['"', '\''])))
    });
    kind == Some("Plan") && api_version.is_some_and(|version| version.starts_with("federate.dev/"))
}

/// The part of a pattern before its first wildcard, as a path.
fn beginning_of(pattern: &str) -> &str {
    let plain = pattern.trim_start_matches("./").trim_start_matches('/');
    match plain.find(['*', '?', '[', '\\', '!']) {
        // The last name before the wildcard may be a part of one.
        Some(wildcard) => {
            plain.get(..wildcard).unwrap_or_default().rsplit_once('/').map_or("", |(folders, _)| folders)
        }
        None if plain == "." => "",
        None => plain.trim_end_matches('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with this many files of 64 KiB.
    struct Large(usize);

    impl FileTree for Large {
        fn list_folder(&self, _: &str) -> Result<Vec<TreeEntry>, TreeError> {
            let entry = |number| TreeEntry { name: format!("{number}.yaml"), kind: EntryKind::File };
            Ok((0..self.0).map(entry).collect())
        }

        fn read_file(&self, _: &str) -> Result<Vec<u8>, TreeError> {
            Ok(vec![b'#'; 64 << 10])
        }
    }

    #[test]
    fn files_have_a_limit_together() {
        let (selection, _) = FileSelection::new(&Config::default(), None, &ReadOptions::default());
        let (files, findings) = super::read_selected_files(&Large(16), &selection);
        assert_eq!((files.len(), findings.len()), (16, 0));
        let (files, findings) = super::read_selected_files(&Large(100), &selection);
        assert!(files.is_empty());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("the files of the repo have more than 1 MiB"), "{findings:?}");
    }
}
