//! Downloads bases of kustomizations with `git`, with the user's own configuration of it.
//!
//! A revision is fetched without its history into a repository that is deleted afterwards, and never checked out: no filter and no
//! hook runs. Of a kustomization, only the files that it names are taken; of another folder, all, and links are refused.

use std::path::Path;
use std::time::Duration;

use git2::Repository;

use federate_builder::{PackedFile, list_kustomization_files};
use federate_file_tree::{EntryKind, FileTree, find_entry, is_folder, join_path};
use federate_gitops::{KUSTOMIZATIONS, RemoteReference};
use federate_source::git::program::{GitCommand, GitLimits};
use federate_source::git::{GitLocation, GitRevision};

use crate::download::DownloadedSource;

/// The reference that the revision is fetched to.
const FETCHED_REF: &str = "refs/federate/base";

/// The longest time that git may take.
const FETCH_TIMEOUT: Duration = Duration::from_mins(3);

/// What git may use: those who chose the server need not be trusted.
const FETCH_LIMITS: GitLimits = GitLimits { memory: 1 << 30, file: 1 << 30 };

/// Downloads a base, in its revision or in exactly the commit `commit`. The error is a sentence.
pub(crate) fn download_base(
    base: &RemoteReference,
    folder: &str,
    commit: Option<&str>,
    stage: &Path,
) -> Result<DownloadedSource, String> {
    let explain = |why: String| format!("the {base} cannot be downloaded: {why}");
    let repository = Repository::init_bare(stage.join("git")).map_err(|why| explain(why.to_string()))?;
    let revision = commit.unwrap_or(&base.version);
    let fetched = GitCommand::new(&repository, "fetch")
        .with_timeout(FETCH_TIMEOUT)
        .with_limits(FETCH_LIMITS)
        .hide_remote_text()
        .arg("--quiet")
        .arg("--no-tags")
        .arg("--depth=1")
        .arg("--")
        .arg(&base.repository)
        .arg(format!("+{revision}:{FETCHED_REF}"))
        .run();
    fetched.map_err(|why| explain(why.to_string()))?;
    read_files(stage, &repository, folder)
        .map_err(|why| format!("the {base} was downloaded, and is refused: {why}"))
}

/// The most files of a folder without a kustomization.
const MAX_FOLDER_FILES: usize = 20_000;

/// Lists the files below a folder that is no kustomization: a chart, or manifests.
fn list_folder_files(tree: &dyn FileTree, folder: &str) -> Result<Vec<String>, String> {
    if !is_folder(tree, folder) {
        return Err(format!("it has no folder `{folder}`"));
    }
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in tree.list_folder(&folder).map_err(|why| format!("`{folder}`: {why}"))? {
            let path = join_path(&folder, &entry.name);
            match entry.kind {
                EntryKind::File => files.push(path),
                EntryKind::Folder => folders.push(path),
                _ => return Err(format!("`{path}` is a link, and links are not taken")),
            }
        }
        if files.len() + folders.len() > MAX_FOLDER_FILES {
            return Err(format!("the folder has more than {MAX_FOLDER_FILES} files"));
        }
    }
    Ok(files)
}

/// Reads the files of the kustomization in a folder of what was fetched, or all files below it.
fn read_files(stage: &Path, repository: &Repository, folder: &str) -> Result<DownloadedSource, String> {
    let location =
        GitLocation { git_dir: stage.join("git"), work_tree: None, prefix: String::new(), embedded: false };
    let resolved = location.resolve_revision(repository, FETCHED_REF).map_err(|why| why.to_string())?;
    let commit = resolved.commit.to_string();
    let tree = GitRevision::open_folder(location, &resolved).map_err(|why| why.to_string())?;
    let has_kustomization =
        KUSTOMIZATIONS.iter().any(|name| find_entry(&tree, &join_path(folder, name)).is_some());
    let listed = if has_kustomization {
        list_kustomization_files(&tree, folder).map_err(|error| {
            let place = error.place.map_or_else(String::new, |(file, line)| format!("{file}:{line}: "));
            format!("{place}{}", error.why)
        })?
    } else {
        list_folder_files(&tree, folder)?
    };
    let files = listed.into_iter().map(|path| {
        let bytes = tree.read_file(&path).map_err(|why| format!("`{path}`: {why}"))?;
        Ok(PackedFile { path, bytes })
    });
    Ok(DownloadedSource {
        files: files.collect::<Result<_, String>>()?,
        archive: commit.clone(),
        version: commit,
    })
}
