//! Finds the files to read in any [`Source`].
//!
//! Every real file and folder is read once, under its own path if that is included: a symbolic link only adds
//! files that are not read otherwise, so link loops end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ignore::gitignore::Gitignore;
use rayon::prelude::*;

use super::config::{self, Config};
use super::ignore::{IGNORE_FILES, Rules, compile, format};
use super::pointer_file::find_pointer;
use super::source::{Entry, EntryKind, File, Source};
use federate_kubernetes::finding::list;
use federate_kubernetes::{Finding, Severity};
use federate_yaml::Position;

/// The largest number of files that are read.
const MAX_FILES: usize = 1_000_000;

/// The file name of the plan in an output folder.
const PLAN: &str = "placements.yaml";

/// Which files of a tree are read, in addition to its ignore files.
#[derive(Debug)]
pub struct Selection {
    /// The selected paths; empty for all.
    paths: Vec<Gitignore>,
    exclude: Gitignore,
    outputs: Vec<String>,
    /// The part of each selected path before its first wildcard.
    beginnings: Vec<String>,
}

impl Selection {
    /// Combines the configuration and the given output folder.
    pub fn new(config: &Config, output: Option<&str>) -> (Self, Vec<Finding>) {
        let mut findings = Vec::new();
        let mut paths = Vec::new();
        for (index, path) in config.paths.iter().enumerate() {
            let anchored = match path.trim_start_matches("./") {
                "" | "." => "*".to_owned(),
                path => format!("/{path}"),
            };
            let (pattern, bad) = compile([anchored.as_str()].into_iter());
            findings.extend(bad.into_iter().map(|(_, why)| bad_pattern(&format!("/paths/{index}"), &why)));
            paths.push(pattern);
        }
        let (exclude, bad) = compile(config.exclude.iter().map(String::as_str));
        findings.extend(bad.into_iter().map(|(n, why)| bad_pattern(&format!("/exclude/{}", n - 1), &why)));
        let outputs = output.into_iter().chain(config.output.as_deref());
        let outputs = outputs.map(|o| o.trim_start_matches("./").trim_end_matches('/').to_owned());
        let outputs = outputs.filter(|output| !output.is_empty()).collect();
        let beginnings = config.paths.iter().map(|path| beginning_of(path).to_owned()).collect();
        (Self { paths, exclude, outputs, beginnings }, findings)
    }

    /// Whether the configured paths include a file.
    fn wants(&self, path: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|pattern| selects(pattern, path))
    }

    /// Whether the configured paths may include files of a folder.
    fn may_want_below(&self, folder: &str) -> bool {
        let within = |outer: &str, path: &str| {
            outer.is_empty()
                || path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.paths.is_empty()
            || self.beginnings.iter().any(|path| within(path, folder) || within(folder, path))
    }

    /// One finding for each configured path without files.
    fn unused(&self, files: &BTreeMap<String, String>) -> Vec<Finding> {
        let unused = |pattern: &Gitignore| !files.keys().any(|path| selects(pattern, path));
        (0..)
            .zip(&self.paths)
            .filter(|(_, pattern)| unused(pattern))
            .map(|(index, _): (usize, _)| {
                let message = "this path matches no file, or all its files are ignored";
                Finding::in_file(Severity::Warning, "unused-path", &config::FILE.into(), None, message)
                    .at(format!("/paths/{index}"))
            })
            .collect()
    }

    fn leaves_out(&self, path: &str, folder: bool) -> bool {
        self.exclude.matched(path, folder).is_ignore() || (folder && self.is_output(path))
    }

    /// Whether a path is or is in an output folder.
    fn is_output(&self, path: &str) -> bool {
        self.outputs.iter().any(|output| {
            path.strip_prefix(output.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// The files to read, sorted by path, and findings.
pub fn read(source: &dyn Source, selection: &Selection) -> (Vec<File>, Vec<Finding>) {
    let mut walk = Walk::new(source, selection);
    walk.run();
    walk.findings.extend(selection.unused(&walk.files));
    let Walk { files, mut findings, sparse: left_out, .. } = walk;
    if let Some((first, others)) = left_out.split_first() {
        findings.push(sparse(first, others));
    }
    let total = AtomicUsize::new(0);
    let is_full = || total.load(Ordering::Relaxed) > MAX_BYTES;
    let read: Vec<Result<File, Finding>> = files
        .into_par_iter()
        .map(|(path, real)| {
            // Once there is too much, nothing is kept, so that the result does not depend on the order.
            let bytes = if is_full() { Err(String::new()) } else { source.read(&real) };
            let bytes = bytes.map_err(|why| unreadable(&path, &why))?;
            if let Some(pointer) = find_pointer(&path, &bytes) {
                return Err(pointer);
            }
            total.fetch_add(bytes.len(), Ordering::Relaxed);
            Ok(File { path: path.into(), bytes: bytes.into() })
        })
        .collect();
    if is_full() {
        let why = format!("the files of the repo have more than {} MiB", MAX_BYTES >> 20);
        findings.push(unreadable("", &why).help("narrow it with `paths` in federate.yaml"));
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

/// The file that identifies a Helm chart.
const CHART: &str = "Chart.yaml";

/// The files that identify a kustomization.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

fn chart(path: &str) -> Finding {
    let message = "this folder is a Helm chart, which federate does not render; the folder is skipped";
    Finding::in_file(Severity::Warning, "helm-chart", &path.into(), None, message)
        .help("add the output of `helm template` to the repo, or list the folder in .federateignore")
}

fn kustomization(path: &str) -> Finding {
    let message = "federate does not run kustomize: it reads the manifests of this folder unchanged";
    Finding::in_file(Severity::Warning, "kustomization", &path.into(), None, message)
        .help("add the output of `kustomize build` to the repo, or list this file in .federateignore")
}

/// The most bytes that all files may have together. A revision of git holds them compressed: a small one could hold any
/// number of bytes.
const MAX_BYTES: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// The most that the paths of all listed files and folders may [`cost`] together. A few small git trees that hold each
/// other several times stand for any number of folders.
const MAX_LISTED: usize = 128 << 20;

/// How many folders are listed at the same time. A small repo of a stranger may contain folders with a million entries, so
/// that it must not be many.
const AT_ONCE: usize = 4;

/// What a path costs: its bytes, and the ignore files of all its folders that are asked about it.
fn cost(path: &str) -> usize {
    let depth = path.matches('/').count();
    path.len() + 32 + depth * depth / 4
}

struct Walk<'s> {
    source: &'s dyn Source,
    selection: &'s Selection,
    rules: Rules,
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
    /// What all listed paths cost.
    listed: usize,
}

impl<'s> Walk<'s> {
    fn new(source: &'s dyn Source, selection: &'s Selection) -> Self {
        Self {
            source,
            selection,
            rules: Rules::default(),
            folders: vec![(String::new(), String::new())],
            links: BTreeMap::new(),
            seen: BTreeSet::new(),
            files: BTreeMap::new(),
            findings: Vec::new(),
            sparse: Vec::new(),
            listed: 0,
        }
    }

    /// Lists all real folders first, then what links add, in the order of their paths.
    fn run(&mut self) {
        loop {
            while !self.folders.is_empty() {
                for (path, real, listed) in self.next_folders() {
                    self.folder(&path, &real, listed);
                    if let Some(limit) = self.exceeded(&path) {
                        return self.findings.push(limit);
                    }
                }
            }
            match self.links.pop_first() {
                Some((path, (real, true))) => self.folders.push((path, real)),
                Some((path, (real, false))) => self.file(path, real),
                None => return,
            }
        }
    }

    /// Lists the folders that are next, at most [`AT_ONCE`], in parallel: path, real path and entries.
    fn next_folders(&mut self) -> Vec<(String, String, Result<Vec<Entry>, String>)> {
        let rest = self.folders.len().saturating_sub(AT_ONCE);
        let mut next = self.folders.split_off(rest);
        next.retain(|(_, real)| self.seen.insert(real.clone()));
        let source = self.source;
        let listed = next.into_par_iter().rev().map(|(path, real)| {
            let entries = source.list(&real);
            (path, real, entries)
        });
        listed.collect()
    }

    /// The finding about the limit that the tree exceeds, after its folder `path`.
    fn exceeded(&self, path: &str) -> Option<Finding> {
        if self.files.len() > MAX_FILES {
            let why = format!("the repo has more than {MAX_FILES} files to read");
            return Some(unreadable(path, &why).help("select fewer files with `paths` in federate.yaml"));
        }
        let why = "the repo has too many files and folders, or too deep ones";
        let help = "name folders without manifests in .federateignore";
        (self.listed > MAX_LISTED).then(|| unreadable(path, why).help(help))
    }

    fn folder(&mut self, path: &str, real: &str, listed: Result<Vec<Entry>, String>) {
        let entries = match listed {
            Ok(entries) => entries,
            Err(why) => return self.findings.push(unreadable(path, &why)),
        };
        let has = |name: &str| entries.iter().any(|e| e.name == name && e.kind == EntryKind::File);
        if !path.is_empty() && has(PLAN) && self.source.read(&below(real, PLAN)).is_ok_and(|b| is_plan(&b)) {
            return;
        }
        for name in IGNORE_FILES.into_iter().filter(|name| has(name)) {
            self.ignore_file(path, real, name);
        }
        let built_by = |name: &str| has(name) && !self.rules.ignores(&below(path, name), false);
        if built_by(CHART) {
            // The templates of a chart are not YAML, and its values are not objects.
            return self.findings.push(chart(&below(path, CHART)));
        }
        if let Some(name) = KUSTOMIZATIONS.into_iter().find(|name| built_by(name)) {
            self.findings.push(kustomization(&below(path, name)));
        }
        for entry in entries {
            self.entry(path, real, entry);
        }
    }

    fn ignore_file(&mut self, path: &str, real: &str, name: &str) {
        let file = below(path, name);
        let bad = match self.source.read(&below(real, name)) {
            Ok(text) => match find_pointer(&file, &text) {
                Some(pointer) => return self.findings.push(pointer),
                None => self.rules.add(path, name, &text),
            },
            Err(why) => return self.findings.push(unreadable(&file, &why)),
        };
        let file: Arc<str> = file.into();
        self.findings.extend(bad.into_iter().map(|(line, why)| {
            let at = Some(Position { line, column: 1 });
            let message = format!("this pattern is invalid and ignored: {why}");
            Finding::in_file(Severity::Warning, "ignore-pattern", &file, at, message)
        }));
    }

    fn entry(&mut self, folder: &str, real: &str, entry: Entry) {
        let path = below(folder, &entry.name);
        self.listed += cost(&path);
        let is_folder = matches!(entry.kind, EntryKind::Folder | EntryKind::LinkToFolder(_));
        if self.rules.ignores(&path, is_folder) || self.selection.leaves_out(&path, is_folder) {
            return;
        }
        let matters = match format(&entry.name) {
            Some(_) => self.selection.wants(&path),
            // A name without an extension may be a folder that cannot be read.
            None => !entry.name.contains('.') && self.selection.may_want_below(&path),
        };
        match entry.kind {
            EntryKind::Folder => self.folders.push((path, below(real, &entry.name))),
            EntryKind::File => self.file(path, below(real, &entry.name)),
            EntryKind::LinkToFolder(to) | EntryKind::LinkToFile(to) if self.selection.is_output(&to) => {}
            EntryKind::LinkToFolder(to) => drop(self.links.insert(path, (to, true))),
            EntryKind::LinkToFile(to) => drop(self.links.insert(path, (to, false))),
            EntryKind::LinkOutside(to) if matters => self.findings.push(outside(&path, &to)),
            EntryKind::Unreadable(why) if matters => {
                let help = "restore it, or list it in .federateignore";
                self.findings.push(unreadable(&path, &why).help(help));
            }
            EntryKind::SparseFile if self.is_read(&path) => self.sparse.push(path),
            EntryKind::Submodule if self.selection.may_want_below(&path) => {
                self.findings.push(submodule(&path))
            }
            EntryKind::SparseFile | EntryKind::Submodule => {}
            EntryKind::LinkOutside(_) | EntryKind::Unreadable(_) | EntryKind::Special => {}
        }
    }

    /// Whether a file decides what is rendered: as a file with objects, or by what it says of other files.
    fn is_read(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let names_files = IGNORE_FILES.contains(&name) || path == config::FILE;
        names_files || (format(name).is_some() && self.selection.wants(path))
    }

    fn file(&mut self, path: String, real: String) {
        let readable = path.rsplit('/').next().is_some_and(|name| format(name).is_some());
        if readable && path != config::FILE && self.selection.wants(&path) && self.seen.insert(real.clone()) {
            self.files.insert(path, real);
        }
    }
}

fn selects(pattern: &Gitignore, path: &str) -> bool {
    pattern.matched_path_or_any_parents(path, false).is_ignore()
}

fn bad_pattern(pointer: &str, why: &str) -> Finding {
    let message = format!("invalid pattern: {why}");
    Finding::in_file(Severity::Error, "invalid-config", &config::FILE.into(), None, message).at(pointer)
}

/// Whether a file is a plan written by federate, according to its top-level keys.
fn is_plan(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let top = |key: &str| {
        text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().trim_matches(['"', '\''])))
    };
    top("kind:") == Some("Plan") && top("apiVersion:").is_some_and(|v| v.starts_with("federate.dev/"))
}

fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

pub(crate) fn unreadable(path: &str, why: &str) -> Finding {
    let file: Arc<str> = if path.is_empty() { ".".into() } else { path.into() };
    Finding::in_file(Severity::Error, "unreadable", &file, None, format!("cannot be read: {why}"))
}

/// The error about a file that a sparse checkout leaves out, and others like it.
pub(crate) fn sparse(path: &str, others: &[String]) -> Finding {
    let names: Vec<&str> = others.iter().map(String::as_str).collect();
    let more = match names.len() {
        0 => String::new(),
        1 => format!("; nor is {}", list(&names, 1)),
        many => format!("; nor are {many} other files: {}", list(&names, 5)),
    };
    let why = format!("git tracks it, but it is not checked out (sparse checkout){more}");
    unreadable(path, &why).help(
        "`git sparse-checkout disable` checks out everything, `git sparse-checkout add FOLDER` one folder; --rev HEAD \
         reads the last commit; what is not to be read goes into .federateignore",
    )
}

/// The error about a submodule without files.
fn submodule(path: &str) -> Finding {
    unreadable(path, "it is a submodule, and its files are not here").help(
        "`git submodule update --init` fetches them; if the repo needs nothing from it, list it in .federateignore",
    )
}

/// The part of a pattern before its first wildcard, as a path.
fn beginning_of(pattern: &str) -> &str {
    let plain = pattern.trim_start_matches("./").trim_start_matches('/');
    match plain.find(['*', '?', '[', '\\', '!']) {
        // The last name before the wildcard may be a part of one.
        Some(wildcard) => plain[..wildcard].rsplit_once('/').map_or("", |(folders, _)| folders),
        None if plain == "." => "",
        None => plain.trim_end_matches('/'),
    }
}

pub(crate) fn outside(path: &str, target: &str) -> Finding {
    let message = format!("the symbolic link `{path}` points outside of the repo, to `{target}`");
    Finding::in_file(Severity::Error, "link-outside", &path.into(), None, message)
        .help("copy the target into the repo, or list the link in .federateignore")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with this many files of 64 KiB.
    struct Large(usize);

    impl Source for Large {
        fn list(&self, _: &str) -> Result<Vec<Entry>, String> {
            let entry = |number| Entry { name: format!("{number}.yaml"), kind: EntryKind::File };
            Ok((0..self.0).map(entry).collect())
        }

        fn read(&self, _: &str) -> Result<Vec<u8>, String> {
            Ok(vec![b'#'; 64 << 10])
        }
    }

    #[test]
    fn files_have_a_limit_together() {
        let (selection, _) = Selection::new(&Config::default(), None);
        let (files, findings) = super::read(&Large(16), &selection);
        assert_eq!((files.len(), findings.len()), (16, 0));
        let (files, findings) = super::read(&Large(100), &selection);
        assert!(files.is_empty());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("the files of the repo have more than 1 MiB"), "{findings:?}");
    }
}
