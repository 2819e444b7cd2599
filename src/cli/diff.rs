//! `federate diff`

use clap::{Args, ValueEnum};

use super::release::{self, Release};
use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, print, print_value, say, text_style};
use federate_dialect::Plan;
use federate_engine::change::DigestKey;
use federate_kubernetes::Finding;
use federate_repo::{EmptySource, Source};
use federate_report::diff::{Diff as Report, markdown, text};
use federate_report::findings;
use federate_session::{Comparison, Session};

/// Show what a change of the repo changes in the clusters
///
/// Renders the repo at one revision, then at another revision (or from the work tree) with the first plan as
/// the scheduler's memory, and compares the results: which objects move, which fields change in which
/// clusters, and what would be pruned. Values of Secrets are never shown; digests show whether they differ
/// (keyed with `FEDERATE_DIGEST_KEY`, or a random key). If the folder does not exist in the first revision,
/// it counts as empty.
///
/// With --from-version and --to-version, federate renders the same revision by the rules of two releases of a
/// control plane, to show what an upgrade moves. Objects that are already placed move only if the newer
/// release reschedules them; with --fresh, both releases schedule everything from scratch.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, mut_arg("rev", |arg| arg.hide(true)))]
pub(super) struct Diff {
    #[command(flatten)]
    args: RepoArgs,

    /// The git revision to compare with (branch, tag, hash, HEAD~3)
    #[arg(long, value_name = "REV", required_unless_present_any = ["from_version", "to_version"])]
    from: Option<String>,

    /// The git revision to compare [default: the work tree]
    #[arg(long, value_name = "REV", conflicts_with = "rev")]
    to: Option<String>,

    /// The control plane release for the earlier side, such as karmada=1.15
    ///
    /// Without --from, both sides render the same revision.
    #[arg(long, value_name = "NAME=VERSION", value_delimiter = ',')]
    from_version: Vec<Release>,

    /// The control plane release for the later side, such as karmada=1.18
    #[arg(long, value_name = "NAME=VERSION", value_delimiter = ',')]
    to_version: Vec<Release>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
}

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a terminal
    #[value(alias = "text")]
    Table,
    /// For a comment on a pull request: details folded, at most 60,000 characters
    Markdown,
    /// For scripts
    Json,
}

const EXAMPLES: &str = "\
Examples:
  federate diff examples/repo --from main
  federate diff examples/repo --from main -o markdown > comment.md
  federate diff examples/repo --from-version karmada=1.15 --to-version karmada=1.18";

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
        let memory =
            if self.schedules_from_scratch() { Plan::default() } else { from.rendering().plan.clone() };
        let to = self.args.session_by(later.source(), None, memory, &self.to_version)?;
        self.args.known_clusters(from.clusters().iter().chain(to.clusters()))?;
        self.report_errors(&from, &to);
        let failed = federate_engine::any_error(&to.findings());
        if failed && !self.args.keep_going {
            say("nothing was compared; --keep-going skips the objects with errors and compares the rest\n");
            return Ok(Exit::Error);
        }
        let comparison = Comparison { from: &from, to: &to };
        let changes = comparison.changes(&digest_key()?, &self.args.clusters);
        let (earlier, later) = self.names();
        let mut report = Report::new(&earlier, &later, &changes);
        report.findings = comparison.new_findings();
        report.resolved = comparison.resolved_findings();
        match self.output {
            Output::Table => {
                print(&text::text(&report, text::Detail::Manifests, text_style(self.args.verbose)))?;
            }
            Output::Markdown => print(&markdown::markdown(&report, &self.command()))?,
            Output::Json => print_value(&report, Format::Json)?,
        }
        Ok(match (failed, changes.is_empty()) {
            (true, _) => Exit::Error,
            (false, true) => Exit::Clean,
            (false, false) => Exit::Findings,
        })
    }

    /// Reports the errors of both sides: those of the later side in full, because they must be fixed now;
    /// those of the earlier side in one line each, because this change may fix them.
    fn report_errors(&self, from: &Session, to: &Session) {
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

    /// Whether both sides schedule from scratch: they differ in releases, not in revisions.
    fn schedules_from_scratch(&self) -> bool {
        self.args.fresh && self.from.is_none()
    }

    /// The names of the two sides.
    fn names(&self) -> (String, String) {
        let later = self.to.as_deref().unwrap_or(WORK_TREE);
        let earlier = self.from.as_deref().unwrap_or(later);
        (release::side_name(earlier, &self.from_version), release::side_name(later, &self.to_version))
    }

    /// The command that prints the whole diff.
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

/// The name of the work tree, where a revision would be named.
const WORK_TREE: &str = "work tree";

/// The key for digests of Secret values: `FEDERATE_DIGEST_KEY`, so that runs can be compared, or a random
/// one.
pub(super) fn digest_key() -> Result<DigestKey, Fault> {
    if let Some(key) = std::env::var_os("FEDERATE_DIGEST_KEY").filter(|key| !key.is_empty()) {
        return Ok(DigestKey::new(key.as_encoded_bytes()));
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|e| Fault::Failed(format!("cannot get random bytes for the digest key: {e}")))?;
    Ok(DigestKey::new(&key))
}
