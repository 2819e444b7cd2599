//! The CI workflow for the place where the repository is kept.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::{NewFile, files};
use federate_source::git::{self, GitLocation};

/// The CI workflow to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ForgeChoice {
    /// A workflow of GitHub Actions
    Github,
    /// A pipeline of GitLab CI
    Gitlab,
    /// Nothing
    None,
}

/// The files of a workflow, and what is to be known about them.
#[derive(Default)]
pub(super) struct CiWorkflow {
    pub(super) files: Vec<NewFile>,
    pub(super) notes: Vec<String>,
}

/// The workflow of the documentation needs these files beside it.
const GITLAB_FILES: [(&str, &str); 1] =
    [("ci/gitlab-note.sh", include_str!("../../../docs/ci/gitlab-note.sh"))];

/// GitLab's own file.
const GITLAB_CI: &str = ".gitlab-ci.yml";

/// The file for a repository that has a pipeline already.
const GITLAB_INCLUDED: &str = "ci/federate.gitlab-ci.yml";

/// The workflow, unless the repository has one, or is not in git.
pub(super) fn draft_workflow(repo: &Path, choice: Option<ForgeChoice>) -> CiWorkflow {
    let location = GitLocation::discover_around(repo).ok();
    let Some((location, root)) = location.and_then(|location| Some((location.clone(), location.work_tree?)))
    else {
        let asked = choice.filter(|choice| *choice != ForgeChoice::None);
        let note = asked
            .map(|_| "--ci has no effect: the folder is not in the work tree of a git repository".to_owned());
        return CiWorkflow { notes: note.into_iter().collect(), ..CiWorkflow::default() };
    };
    let forge = choice.unwrap_or_else(|| forge_of(&location, &root));
    let shown = shown_root(&root);
    let folder = if location.prefix.is_empty() { "." } else { location.prefix.trim_end_matches('/') };
    let mut workflow = match forge {
        ForgeChoice::None => CiWorkflow::default(),
        ForgeChoice::Github => draft_github(&root, &shown, folder, &find_branch(&location)),
        ForgeChoice::Gitlab => draft_gitlab(&root, &shown, folder),
    };
    let there = workflow.files.len();
    workflow.files.retain(|file| fs::symlink_metadata(&file.path).is_err());
    if choice.is_some() && forge != ForgeChoice::None && there > 0 && workflow.files.is_empty() {
        workflow.notes.push("--ci has no effect: the repository has these files already".to_owned());
    }
    workflow
}

/// The forge by its files and the address of the remote.
fn forge_of(location: &GitLocation, root: &Path) -> ForgeChoice {
    if root.join(GITLAB_CI).exists() {
        return ForgeChoice::Gitlab;
    }
    let repository = location.open_repository().ok();
    let remote = repository.as_ref().and_then(|repository| repository.find_remote("origin").ok());
    let url = remote.as_ref().and_then(|remote| remote.url().ok()).unwrap_or_default().to_lowercase();
    let address = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let host =
        address.split(['/', ':']).find(|part| part.contains('.') || part.contains('@')).unwrap_or_default();
    if host.rsplit('@').next().unwrap_or_default().contains("gitlab") {
        ForgeChoice::Gitlab
    } else {
        ForgeChoice::Github
    }
}

/// The branch that is published: that of the remote, or else the one that is checked out.
fn find_branch(location: &GitLocation) -> String {
    let branch = location.open_repository().ok().and_then(|repository| {
        let checked_out = git::current_branch(&repository);
        git::recorded_default_branch(&repository).or(checked_out).or_else(|| git::default_branch(&repository))
    });
    branch.as_deref().map_or("main", |name| name.trim_start_matches("origin/")).to_owned()
}

/// A path of the root that people can read, where it is the current folder.
fn shown_root(root: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(fs::canonicalize).ok();
    let is_here = fs::canonicalize(root).ok().is_some_and(|root| Some(root) == here);
    if is_here { PathBuf::new() } else { root.to_owned() }
}

fn draft_github(root: &Path, shown: &Path, folder: &str, branch: &str) -> CiWorkflow {
    if has_action(&root.join(".github/workflows")) {
        return CiWorkflow::default();
    }
    let file = NewFile {
        path: shown.join(".github/workflows/federate.yml"),
        what: "comments on pull requests, and commits to the branch `rendered` after the merge".to_owned(),
        text: files::github_workflow(folder, branch),
    };
    CiWorkflow { files: vec![file], notes: Vec::new() }
}

fn draft_gitlab(root: &Path, shown: &Path, folder: &str) -> CiWorkflow {
    let own = fs::read_to_string(root.join(GITLAB_CI)).ok();
    if own.as_deref().is_some_and(|text| text.contains("federate")) {
        return CiWorkflow::default();
    }
    let included = own.is_some() || root.join(GITLAB_CI).exists();
    let path = shown.join(if included { GITLAB_INCLUDED } else { GITLAB_CI });
    let what = "comments on merge requests, and commits to the branch `rendered` after the merge".to_owned();
    let mut workflow = CiWorkflow::default();
    workflow.files.push(NewFile { path, what, text: files::gitlab_pipeline(folder, included) });
    workflow.files.extend(GITLAB_FILES.map(|(name, text)| NewFile {
        path: shown.join(name),
        what: "a part of that pipeline".to_owned(),
        text: text.to_owned(),
    }));
    if included {
        workflow.notes.push(format!(
            "{GITLAB_CI} exists, and init changes no file: add `include: [{{local: {GITLAB_INCLUDED}}}]` to it; the jobs are in \
             the stages `test` and `deploy`"
        ));
    }
    workflow.notes.push(
        "the pipeline needs FEDERATE_NOTE_TOKEN and FEDERATE_PUSH_TOKEN, variables of the GitLab project; its first lines say \
         which tokens"
            .to_owned(),
    );
    workflow
}

/// Whether a workflow uses the action.
fn has_action(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let mut texts = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.any(|text| text.contains("federate-dev/federate"))
}
