//! `federate commit`

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::deletions::{self, DeletionArgs};
use super::settings::{OutputFormat, RepoArgs, exit_for_findings};
use super::{CommandError, Exit, print_notice, print_text, print_value};
use federate_engine::deletions::ExcessiveDeletions;
use federate_publish::branch::{self, BranchFolder, BranchLayout, FileLayout, GitRemote, Identity};
use federate_session::Destination;
use federate_session::commit::{self as session, CommitOutcome, CommittedBranch, CommittedSession, Error};
use federate_source::git::{self, GitLocation};

/// Commit the rendered manifests to a branch
///
/// federate writes blobs and trees directly to the object database and leaves the work tree and the index
/// unchanged. The placements.yaml on the branch is the scheduler's memory for the next run. If nothing
/// changed, no commit is created and the command succeeds. A branch that contains files that federate did not
/// write is refused, unless they are outside --branch-path. So is a rendering that would delete all objects, or
/// more than --prune-limit percent of them, in total or of one cluster.
///
/// With {cluster} in the branch name, each cluster gets its own branch, and the whole plan is on the branch
/// of `hub`. Commits are signed if git's commit.gpgSign is set.
///
/// The layout `hydrator` is that of Argo CD's source hydrator, which GitOps Promoter reads: one stream per cluster, metadata
/// about the commit that is rendered, and a note about it. Files of others on the branch stay.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CommitCommand {
    /// The branch to commit to; `{cluster}` stands for the name of each cluster
    #[arg(long, short, value_name = "BRANCH")]
    branch: String,

    /// The folder on the branch to write; files outside it stay unchanged
    #[arg(long, value_name = "DIR", default_value = "")]
    branch_path: String,

    /// The files that are written
    #[arg(long, value_enum, value_name = "LAYOUT", default_value = "plain")]
    layout: LayoutName,

    /// Push to this remote; if the remote branch has moved, commit again on top of it
    #[arg(long, value_name = "REMOTE", num_args = 0..=1, default_missing_value = "origin")]
    push: Option<String>,

    /// The commit message; federate appends trailers
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,

    /// The commit author, as `Name <address>` [default: git's]
    #[arg(long, value_name = "WHO", value_parser = parse_author)]
    author: Option<String>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,

    #[command(flatten)]
    deletions: DeletionArgs,

    #[command(flatten)]
    args: RepoArgs,
}

/// How the objects of a cluster are distributed over files.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutName {
    /// A file per object
    Plain,
    /// One manifest.yaml per cluster, with the metadata of Argo CD's source hydrator
    Hydrator,
}

impl From<LayoutName> for FileLayout {
    fn from(name: LayoutName) -> Self {
        match name {
            LayoutName::Plain => Self::Plain,
            LayoutName::Hydrator => Self::Hydrator,
        }
    }
}

fn parse_author(text: &str) -> Result<String, &'static str> {
    if Identity::is_name_and_address(text) {
        Ok(text.to_owned())
    } else {
        Err("write it as `Name <address>`")
    }
}

const EXAMPLES: &str = "\
Examples:
  federate commit examples/repo --branch rendered --push
  federate commit examples/repo --branch 'clusters/{cluster}'
  federate commit examples/repo --branch env/prod-next --layout hydrator --push";

impl CommitCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let layout = BranchLayout::parse_pattern(&self.branch, BranchFolder::parse_path(&self.branch_path)?)?
            .with_files(self.layout.into());
        if !self.args.clusters.is_empty() && !layout.is_spread() {
            return Err(CommandError::Failed(
                "--cluster would remove the other clusters from the branch: use one branch per cluster, \
                 for example --branch 'rendered/{cluster}'"
                    .to_owned(),
            ));
        }
        let place =
            GitLocation::discover_around(&self.args.repo).map_err(|e| CommandError::Failed(e.to_string()))?;
        if !self.args.quiet && self.args.is_work_tree() && git::is_modified(&place).unwrap_or(false) {
            print_notice(
                "the work tree has changes that are not committed; they are rendered, too (--rev HEAD leaves them \
                 out)\n",
            );
        }
        if !self.args.quiet && place.is_outside_of_commit() {
            print_notice(&format!(
                "the repository is {}, whose last commit does not contain this folder\n",
                place.display_folder().display()
            ));
        }
        let remote = self.push.clone().map(GitRemote::new);
        let commit = session::CommitRequest::new(&place, &layout, self.deletions.prune_limit())
            .with_remote(remote.as_ref())
            .with_message(self.message.as_deref())
            .with_author(self.author.as_deref())
            .with_clusters(&self.args.clusters)
            .with_keep_going(self.args.keep_going);
        let CommittedSession { session, outcome: committed } = commit
            .commit_rendering(
                |published| {
                    let opened = self.args.open_repo()?;
                    let session = self.args.open_session_over(
                        opened.source(),
                        None,
                        self.args.read_previous(published)?,
                    )?;
                    Ok((session, opened.find_provenance(&place)))
                },
                |error| {
                    if !self.args.quiet {
                        print_notice(&format!("{error}; trying again\n"));
                    }
                },
            )
            .map_err(|error| match error {
                Error::Open(fault) => fault,
                error => CommandError::Failed(error.to_string()),
            })?;
        let mut findings = session.findings_for(Destination::Files);
        findings.extend(session.secrets_in_clear());
        self.args.say_cluster_notices(&session)?;
        self.args.report_findings(&session, &findings);
        match committed {
            CommitOutcome::Done(branches) => {
                self.print_result(&branches, None)?;
                Ok(exit_for_findings(&findings))
            }
            CommitOutcome::Errors => {
                print_notice(
                    "nothing was committed; --keep-going skips the objects with errors and commits the rest\n",
                );
                Ok(Exit::Error)
            }
            CommitOutcome::Refused(excess) => {
                let limit = self.deletions.prune_limit();
                let unread = session.prune_limit(limit) != limit;
                if self.output != OutputFormat::Table {
                    self.print_result(&[], Some(&excess))?;
                }
                Err(CommandError::Failed(deletions::format_refusal(
                    &excess,
                    &format!("branch {}", self.branch),
                    unread,
                )))
            }
        }
    }

    fn print_result(
        &self,
        committed: &[CommittedBranch],
        refused: Option<&ExcessiveDeletions>,
    ) -> Result<(), CommandError> {
        if self.output != OutputFormat::Table {
            let changed = committed.iter().any(|one| one.commit.is_some());
            let api_version = federate_dialect::plan::API_VERSION;
            return print_value(
                &CommitResult { api_version, kind: "CommitResult", changed, branches: committed, refused },
                self.output,
            );
        }
        if self.args.quiet {
            return Ok(());
        }
        print_text(&committed.iter().map(|one| format_branch(one, self.push.as_deref())).collect::<String>())
    }
}

/// The machine-readable result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommitResult<'c> {
    api_version: &'static str,
    kind: &'static str,
    /// Whether any branch got a commit.
    changed: bool,
    branches: &'c [CommittedBranch],
    /// The deletions because of which nothing was committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'c ExcessiveDeletions>,
}

/// The result for one branch, as a line for the terminal.
fn format_branch(branch: &CommittedBranch, remote: Option<&str>) -> String {
    let pushed = match remote.filter(|_| branch.pushed) {
        Some(remote) => format!(", pushed to {}", git::program::without_credentials(remote)),
        None => String::new(),
    };
    let noted = if branch.noted { ", noted" } else { "" };
    // Eight characters of a commit are enough to name it.
    match (&branch.commit, &branch.base) {
        (Some(commit), _) => format!("{}: {commit:.8} {}{noted}{pushed}\n", branch.branch, branch.summary),
        (None, Some(base)) => {
            format!("{}: nothing to commit since {base:.8}{noted}{pushed}\n", branch.branch)
        }
        (None, None) => format!("{}: nothing to commit\n", branch.branch),
    }
}

impl From<branch::Error> for CommandError {
    fn from(error: branch::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
