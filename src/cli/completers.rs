//! Values that shells complete: clusters, objects, codes of findings and branches of the repo in the current folder, or in the
//! folder among the words of the command line.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::CompletionCandidate;

use federate_dialects::DIALECTS;
use federate_kubernetes::display_text::is_printable;
use federate_report::plan;
use federate_session::{Session, SessionOptions};
use federate_source::WorkTree;
use federate_source::git::{self, GitLocation};

use super::findings_page;

/// The names of the clusters.
pub(super) fn complete_clusters(current: &OsStr) -> Vec<CompletionCandidate> {
    let session = open_session();
    let names = session.iter().flat_map(Session::clusters).map(|cluster| cluster.name.to_string());
    filter_candidates(current, names)
}

/// The objects and policies, as `explain` takes them.
pub(super) fn complete_objects(current: &OsStr) -> Vec<CompletionCandidate> {
    let session = open_session();
    let repos = session.iter().map(Session::repo);
    let objects = repos.flat_map(|repo| {
        let templates = repo.templates.iter().map(|template| &template.object.id);
        templates.chain(repo.claimed.iter().map(|claimed| &claimed.object.id))
    });
    filter_candidates(current, objects.map(plan::format_name))
}

/// The codes of findings.
pub(super) fn complete_codes(current: &OsStr) -> Vec<CompletionCandidate> {
    filter_candidates(current, findings_page::finding_codes().map(str::to_owned))
}

/// The branches and tags.
pub(super) fn complete_revisions(current: &OsStr) -> Vec<CompletionCandidate> {
    let location = GitLocation::discover_around(Path::new(&find_folder())).ok();
    let repository = location.and_then(|location| location.open_repository().ok());
    filter_candidates(current, repository.iter().flat_map(git::names_of_revisions))
}

fn filter_candidates(current: &OsStr, values: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    // A shell prints a value as it is, so that one in which something is hidden is not offered.
    let shown = values.filter(|value| value.starts_with(&*current) && value.chars().all(is_printable));
    shown.map(CompletionCandidate::new).collect()
}

fn open_session() -> Option<Session> {
    let tree = WorkTree::open(Path::new(&find_folder())).ok()?;
    Some(Session::open(&tree, SessionOptions::new(DIALECTS)))
}

/// The folder among the words that are completed, or the current one.
fn find_folder() -> String {
    let words = std::env::args().skip_while(|word| word != "--").skip(2);
    let mut folders = words.filter(|word| !word.starts_with('-') && Path::new(word).is_dir());
    folders.next().unwrap_or_else(|| ".".to_owned())
}
