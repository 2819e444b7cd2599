//! `federate commit`

use clap::Args;
use serde::Serialize;

use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, print, print_value, say};
use federate_dialect::Plan;
use federate_publish::branch::{self, Folder, Identity, Layout, Remote};
use federate_session::commit::{self as session, Branch, Committed, Error};
use federate_source::git::{self, Place};

/// Commit every cluster's manifests to a branch
///
/// Blobs and trees go straight into the object database: neither work tree nor index is touched, and
/// what stays the same is not written again. The branch's placements.yaml is the scheduler's memory
/// for the next run. Nothing to commit is success, and no commit. A branch that holds anything
/// federate did not write is refused, unless it lies outside --path.
///
/// With {cluster} in the name, every cluster has a branch of its own, and the plan as a whole lies in
/// the one of `hub`. Commits are signed when git's commit.gpgSign says so.
///
/// Example: federate commit examples/repo --branch rendered --push
#[derive(Debug, Args)]
pub(super) struct Commit {
    #[command(flatten)]
    args: RepoArgs,

    /// The branch, of the repository that REPO is in; `{cluster}` stands for a cluster's name
    #[arg(long, short, value_name = "BRANCH")]
    branch: String,

    /// The folder of the branch to write; other files of the branch stay as they are
    #[arg(long, value_name = "DIR", default_value = "")]
    path: String,

    /// Push to this remote; where it moved meanwhile, the commit is made anew on top of that
    #[arg(long, value_name = "REMOTE", num_args = 0..=1, default_missing_value = "origin")]
    push: Option<String>,

    /// The commit's message; trailers are added to it
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,

    /// The commit's author, as `Name <address>` [default: git's]
    #[arg(long, value_name = "WHO", value_parser = author)]
    author: Option<String>,

    /// How to print what was committed
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

fn author(text: &str) -> Result<String, &'static str> {
    if Identity::is_name_and_address(text) {
        Ok(text.to_owned())
    } else {
        Err("write it as `Name <address>`")
    }
}

impl Commit {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let layout = Layout::parse(&self.branch, Folder::parse(&self.path)?)?;
        if !self.args.clusters.is_empty() && !layout.is_spread() {
            return Err(Fault::Failed(
                "--cluster would take the other clusters off the branch: give every cluster a branch of its own, \
                 for example --branch 'rendered/{cluster}'"
                    .to_owned(),
            ));
        }
        let place = Place::of(&self.args.repo).map_err(|e| Fault::Failed(e.to_string()))?;
        let remote = self.push.clone().map(Remote::new);
        let commit = session::Commit {
            place: &place,
            layout: &layout,
            remote: remote.as_ref(),
            message: self.message.as_deref(),
            author: self.author.as_deref(),
            clusters: &self.args.clusters,
            keep_going: self.args.keep_going,
        };
        let open = |kept: Option<&Plan>| {
            let opened = self.args.open()?;
            let session = self.args.session_of(opened.source(), None, self.args.memory(kept)?)?;
            Ok((session, opened.provenance(&place)))
        };
        let retrying = |error: &branch::Error| {
            if !self.args.quiet {
                say(&format!("{error}; trying again\n"));
            }
        };
        let Committed { session, branches } = commit.run(open, retrying).map_err(|error| match error {
            Error::Open(fault) => fault,
            error => Fault::Failed(error.to_string()),
        })?;
        let findings = session.findings();
        self.args.report(&session, &findings);
        let Some(branches) = branches else {
            say("nothing was committed; --keep-going leaves out what is in error and commits the rest\n");
            return Ok(Exit::Error);
        };
        self.show(&branches)?;
        Ok(outcome(&findings))
    }

    fn show(&self, committed: &[Branch]) -> Result<(), Fault> {
        if self.output != Format::Table {
            let changed = committed.iter().any(|one| one.commit.is_some());
            let api_version = federate_dialect::plan::API_VERSION;
            return print_value(
                &CommitResult { api_version, kind: "CommitResult", changed, branches: committed },
                self.output,
            );
        }
        if self.args.quiet {
            return Ok(());
        }
        print(&committed.iter().map(|one| line(one, self.push.as_deref())).collect::<String>())
    }
}

/// What was committed, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommitResult<'c> {
    api_version: &'static str,
    kind: &'static str,
    /// Whether any commit was made.
    changed: bool,
    branches: &'c [Branch],
}

/// One branch, for people.
fn line(branch: &Branch, remote: Option<&str>) -> String {
    let pushed = match remote.filter(|_| branch.pushed) {
        Some(remote) => format!(", pushed to {}", git::program::without_credentials(remote)),
        None => String::new(),
    };
    let short = |id: &String| id.chars().take(8).collect::<String>();
    match (&branch.commit, &branch.base) {
        (Some(commit), _) => format!("{}: {} {}{pushed}\n", branch.branch, short(commit), branch.summary),
        (None, Some(base)) => {
            format!("{}: nothing to commit since {}{pushed}\n", branch.branch, short(base))
        }
        (None, None) => format!("{}: nothing to commit\n", branch.branch),
    }
}

impl From<branch::Error> for Fault {
    fn from(error: branch::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
