//! `federate diff`

use clap::{Args, ValueEnum};

use super::revision::Opened;
use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, look, print, print_value, say};
use federate_engine::change::DigestKey;
use federate_kubernetes::Finding;
use federate_repo::{Nothing, Source};
use federate_report::diff::{Diff as Report, markdown, text};
use federate_report::findings;
use federate_session::{Comparison, Session};

/// Show what a change of the repo changes in the clusters
///
/// Renders the repo as it is in one revision, then as it is in another (or in the work tree) with the
/// first plan as the scheduler's memory, and compares: where things run, which fields of which objects
/// differ in which clusters, and what would be pruned. Values of Secrets are never shown, only
/// whether they differ, as digests under the key in `FEDERATE_DIGEST_KEY` or a random one. A folder that the
/// first revision does not have yet is as if it were empty there.
///
/// Example: federate diff examples/repo --from main -o markdown
#[derive(Debug, Args)]
#[command(mut_arg("rev", |arg| arg.hide(true)))]
pub(super) struct Diff {
    #[command(flatten)]
    args: RepoArgs,

    /// The git revision to compare with (branch, tag, hash, HEAD~3)
    #[arg(long, value_name = "REV")]
    from: String,

    /// The git revision that is compared [default: the work tree]
    #[arg(long, value_name = "REV", conflicts_with = "rev")]
    to: Option<String>,

    /// How to print it
    #[arg(long, short, value_enum, default_value = "text")]
    output: Output,
}

/// How a difference is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a terminal.
    Text,
    /// For a comment on a pull request: details folded, below 60,000 characters.
    Markdown,
    /// For machines.
    Json,
}

impl Diff {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let opened = self.args.open_before(&self.from)?;
        let earlier: &dyn Source = opened.as_ref().map_or(&Nothing, Opened::source);
        let from = self.args.any_session_of(earlier, None, self.args.memory(None)?)?;
        let opened = match &self.to {
            Some(rev) => self.args.open_at(rev)?,
            None => self.args.open()?,
        };
        let memory = from.rendering().plan.clone();
        let to = self.args.any_session_of(opened.source(), None, memory)?;
        self.args.known_clusters(from.clusters().iter().chain(to.clusters()))?;
        self.tell(&from, &to);
        let failed = federate_engine::any_error(&to.findings());
        if failed && !self.args.keep_going {
            say("nothing was compared; --keep-going leaves out what is in error and compares the rest\n");
            return Ok(Exit::Error);
        }
        let comparison = Comparison { from: &from, to: &to };
        let changes = comparison.changes(&digest_key()?, &self.args.clusters);
        let mut report = Report::new(&self.from, self.to.as_deref().unwrap_or(WORK_TREE), &changes);
        report.findings = comparison.new_findings();
        report.resolved = comparison.resolved_findings();
        match self.output {
            Output::Text => print(&text::text(&report, text::Detail::Manifests, look(self.args.verbose)))?,
            Output::Markdown => print(&markdown::markdown(&report, &self.command()))?,
            Output::Json => print_value(&report, Format::Json)?,
        }
        Ok(match (failed, changes.is_empty()) {
            (true, _) => Exit::Error,
            (false, true) => Exit::Clean,
            (false, false) => Exit::Findings,
        })
    }

    /// Errors of both sides: the later one's in full, because they are to be mended here; the earlier one's
    /// in a line each, because this change may be what mends them.
    fn tell(&self, from: &Session, to: &Session) {
        let errors = |session: &Session| -> Vec<Finding> {
            session.findings().into_iter().filter(Finding::is_error).collect()
        };
        let (earlier, later) = (errors(from), errors(to));
        let new = findings::rows(to.repo(), &later);
        for row in findings::rows(from.repo(), &earlier).iter().filter(|row| !new.contains(row)) {
            let at = row.place().map(|place| format!("{place}: ")).unwrap_or_default();
            say(&format!("in {}: {at}error[{}]: {}\n", self.from, row.code, row.message));
        }
        self.args.report(to, &later);
    }

    /// The command that shows everything.
    fn command(&self) -> String {
        let to = self.to.as_ref().map(|to| format!(" --to {to}")).unwrap_or_default();
        format!("federate diff {} --from {}{to}", self.args.repo.display(), self.from)
    }
}

/// What the work tree is called beside revisions.
const WORK_TREE: &str = "work tree";

/// The key of digests: one that is given, so that runs can be compared, or a random one.
pub(super) fn digest_key() -> Result<DigestKey, Fault> {
    if let Some(key) = std::env::var_os("FEDERATE_DIGEST_KEY").filter(|key| !key.is_empty()) {
        return Ok(DigestKey::new(key.as_encoded_bytes()));
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|e| Fault::Failed(format!("no random numbers: {e}")))?;
    Ok(DigestKey::new(&key))
}
