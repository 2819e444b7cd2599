//! `federate diff`

use clap::{Args, ValueEnum};

use super::release::{self, Release};
use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, look, print, print_value, say};
use federate_dialect::Plan;
use federate_engine::change::DigestKey;
use federate_kubernetes::Finding;
use federate_repo::{EmptySource, Source};
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
/// With --from-version and --to-version, the same state is rendered by the rules of two releases of a control
/// plane: what an upgrade moves. What is placed already moves only where the newer release schedules it
/// again; with --fresh both decide everything anew, which is what later changes would lead to.
///
/// Example: federate diff examples/repo --from main -o markdown
///
/// Example: federate diff examples/repo --from-version karmada=1.15 --to-version karmada=1.18
#[derive(Debug, Args)]
#[command(mut_arg("rev", |arg| arg.hide(true)))]
pub(super) struct Diff {
    #[command(flatten)]
    args: RepoArgs,

    /// The git revision to compare with (branch, tag, hash, HEAD~3)
    #[arg(long, value_name = "REV", required_unless_present_any = ["from_version", "to_version"])]
    from: Option<String>,

    /// The git revision that is compared [default: the work tree]
    #[arg(long, value_name = "REV", conflicts_with = "rev")]
    to: Option<String>,

    /// The release of a control plane that decides the earlier side, such as karmada=1.15
    ///
    /// Without --from both sides are the same state of the repo.
    #[arg(long, value_name = "NAME=VERSION", value_delimiter = ',')]
    from_version: Vec<Release>,

    /// The release of a control plane that decides the later side, such as karmada=1.18
    #[arg(long, value_name = "NAME=VERSION", value_delimiter = ',')]
    to_version: Vec<Release>,

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
        let later = match &self.to {
            Some(rev) => self.args.open_at(rev)?,
            None => self.args.open()?,
        };
        let opened = self.from.as_ref().map(|rev| self.args.open_before(rev)).transpose()?;
        let earlier: &dyn Source = match &opened {
            Some(Some(opened)) => opened.source(),
            Some(None) => &EmptySource,
            None => later.source(),
        };
        let memory = self.args.memory(None)?;
        let from = self.args.session_by(earlier, None, memory, &self.from_version)?;
        let memory = if self.decides_anew() { Plan::default() } else { from.rendering().plan.clone() };
        let to = self.args.session_by(later.source(), None, memory, &self.to_version)?;
        self.args.known_clusters(from.clusters().iter().chain(to.clusters()))?;
        self.tell(&from, &to);
        let failed = federate_engine::any_error(&to.findings());
        if failed && !self.args.keep_going {
            say("nothing was compared; --keep-going leaves out what is in error and compares the rest\n");
            return Ok(Exit::Error);
        }
        let comparison = Comparison { from: &from, to: &to };
        let changes = comparison.changes(&digest_key()?, &self.args.clusters);
        let (earlier, later) = self.names();
        let mut report = Report::new(&earlier, &later, &changes);
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
            say(&format!("in {}: {at}error[{}]: {}\n", self.names().0, row.code, row.message));
        }
        self.args.report(to, &later);
    }

    /// Whether both sides decide as if for the first time: releases are compared, not states of the repo.
    fn decides_anew(&self) -> bool {
        self.args.fresh && self.from.is_none()
    }

    /// What the two sides are called.
    fn names(&self) -> (String, String) {
        let later = self.to.as_deref().unwrap_or(WORK_TREE);
        let earlier = self.from.as_deref().unwrap_or(later);
        (release::called(earlier, &self.from_version), release::called(later, &self.to_version))
    }

    /// The command that shows everything.
    fn command(&self) -> String {
        let mut command = format!("federate diff {}", self.args.repo.display());
        for (name, value) in [("--from", &self.from), ("--to", &self.to)] {
            command.extend(value.iter().map(|value| format!(" {name} {value}")));
        }
        for (name, releases) in [("--from-version", &self.from_version), ("--to-version", &self.to_version)] {
            command.extend(releases.iter().map(|one| format!(" {name} {}={}", one.dialect, one.version)));
        }
        command
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
