//! `federate diff`

use clap::{Arg, Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use super::deletions::DeletionArgs;
use super::filter::FilterArgs;
use super::release::{self, DialectRelease};
use super::settings::{OutputFormat, RepoArgs};
use super::{CommandError, Exit, completers, page, print_notice, print_text, print_unchanged, print_value};
use federate_dialect::Plan;
use federate_engine::change::{DigestKey, MIN_KEY_BYTES, RenderingChanges};
use federate_engine::deletions::PruneLimit;
use federate_kubernetes::{Finding, ObjectRef, Severity};
use federate_repo::{EmptyTree, FileTree};
use federate_report::diff::{Diff as Report, markdown, text};
use federate_report::findings;
use federate_report::page::PageHost;
use federate_session::{RevisionComparison, Session};
use federate_source::git::GitLocation;

mod range;

pub(super) use range::{EarlierSide, RevisionRange, default_base};

/// Show what a change of the repo changes in the clusters
///
/// Renders the base revision, then the repo as it is now, starting from the placements of the base, and compares
/// the results: which objects are deleted, which move, and which fields change in which clusters.
/// If the folder does not exist in the base, it counts as empty. Values of Secrets are never
/// shown; digests show whether they differ (keyed with `FEDERATE_DIGEST_KEY`, or a random key).
///
/// The base is the merge base of your branch and --from, as in a pull request: commits that only the other branch
/// has are not shown. `--from main...feature` names both branches, and `--from main..` compares with
/// main itself. As in git, revisions may also stand before the folder: `diff main`, `diff main feature`,
/// `diff main..feature`.
///
/// With --from-version and --to-version, federate renders the same revision by the rules of two releases of a
/// control plane, to show what an upgrade moves. Objects that are already placed move only if the newer
/// release reschedules them; with --fresh, both releases schedule everything from scratch.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, mut_arg("rev", |arg| arg.hide(true)), mut_arg("prune_limit", announce_limit))]
pub(super) struct DiffCommand {
    /// The branch or revision to compare with [default: the default branch of origin, or else main or master]
    ///
    /// REV compares with the merge base of REV and the head, REV.. with REV itself. REV...REV and
    /// REV..REV name base and head.
    #[arg(long, value_name = "REV", add = ArgValueCompleter::new(completers::complete_revisions))]
    from: Option<String>,

    /// The head revision [default: the work tree]
    #[arg(long, value_name = "REV", conflicts_with = "rev")]
    to: Option<String>,

    /// The control plane release for the base, such as karmada=1.15
    ///
    /// Without --from, base and head are the same revision.
    #[arg(long, value_name = "NAME=VERSION", value_delimiter = ',')]
    from_version: Vec<DialectRelease>,

    /// The control plane release for the head, such as karmada=1.18
    #[arg(long, value_name = "NAME=VERSION", value_delimiter = ',')]
    to_version: Vec<DialectRelease>,

    /// The name of the base in the report, such as the target branch [default: the revision]
    #[arg(long, value_name = "NAME")]
    from_name: Option<String>,

    /// The name of the head in the report
    #[arg(long, value_name = "NAME")]
    to_name: Option<String>,

    /// Link lines of files in the Markdown report to URL/<path from the repository's root>#L<line>
    #[arg(long, value_name = "URL")]
    link: Option<String>,

    /// The label that confirms deletions beyond --prune-limit, for the Markdown report
    #[arg(long, value_name = "LABEL", hide_short_help = true)]
    prune_label: Option<String>,

    #[command(flatten)]
    deletions: DeletionArgs,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    args: RepoArgs,

    /// Further revisions, or REPO after them
    #[arg(value_name = "REV", num_args = 0..=2, hide = true)]
    more: Vec<String>,
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
    /// For scripts and people
    Yaml,
    /// One file to look at in a browser: what matters, a matrix of objects and clusters, and every changed value
    Html,
}

const EXAMPLES: &str = "\
Examples:
  federate diff examples/repo                       # since the default branch of origin
  federate diff examples/repo --from main           # since this branch left main
  federate diff main examples/repo                  # the same, as in git
  federate diff main..HEAD examples/repo            # exactly these two revisions
  federate diff examples/repo --from main -o markdown > comment.md
  federate diff examples/repo --from main -o html > change.html
  federate diff examples/repo --from-version karmada=1.15 --to-version karmada=1.18";

/// `--prune-limit` of a command that only says what another one would refuse.
fn announce_limit(arg: Arg) -> Arg {
    arg.hide_short_help(true).help("Say that publishing is refused if it deletes more than this share of the objects, in total or of a cluster")
}

impl DiffCommand {
    pub(super) fn run(mut self) -> Result<Exit, CommandError> {
        self.read_positionals()?;
        let range = self.parse_range()?;
        let ComparedSides { from, to, base } =
            ComparedSides::open(&self.args, &range, [&self.from_version, &self.to_version])?;
        self.args.check_cluster_names(from.clusters().iter().chain(to.clusters()))?;
        let names = self.side_names(&range, base.as_ref());
        self.args.say_cluster_notices(&to)?;
        self.report_errors(&names.0, &from, &to);
        self.args.report_findings(&to, &self.find_stand_ins());
        let found = to.findings();
        // Warnings that --fail-on makes errors fail the command, but everything can be compared.
        let invalid = found.iter().any(|finding| finding.is_error() && !self.args.fails_on(finding.code));
        if invalid && !self.args.keep_going {
            print_notice(
                "nothing was compared; --keep-going skips the objects with errors and compares the rest\n",
            );
            return Ok(Exit::Error);
        }
        let comparison = RevisionComparison { from: &from, to: &to };
        let filter = self.filter.is_given().then(|| self.filter.build_filter(&[&from, &to]));
        let shows = filter.as_ref().map(|filter| |id: &ObjectRef| filter.shows_object(id));
        let shows = shows.as_ref().map(|shows| shows as &dyn Fn(&ObjectRef) -> bool);
        let changes = comparison.changes_of(&digest_key()?, &self.args.clusters, shows);
        let narrowed = filter.is_some() || !self.args.clusters.is_empty();
        let limit = (!narrowed).then(|| self.deletions.prune_limit());
        let mut report = build_report(&comparison, [&names.0, &names.1], &changes, limit);
        if self.args.quiet {
            report.findings.retain(|row| row.severity == Severity::Error);
            report.resolved.retain(|row| row.severity == Severity::Error);
        }
        match self.output {
            Output::Table => {
                print_text(&text::format_diff(&report, text::DiffDetail::Manifests, self.args.text_style()))?;
            }
            Output::Markdown => {
                print_unchanged(&markdown::format_comment(
                    &report,
                    &self.file_links(),
                    &self.format_command(),
                ))?;
            }
            Output::Json => print_value(&report, OutputFormat::Json)?,
            Output::Yaml => print_value(&report, OutputFormat::Yaml)?,
            Output::Html => {
                let plans = [&from, &to].map(|session| {
                    let plan = session.plan_with_replicas();
                    let mut plan = self.args.narrow_plan(&plan).into_owned();
                    if let Some(filter) = &filter {
                        filter.narrow_plan(&mut plan);
                    }
                    plan
                });
                print_unchanged(&page::format_diff_page(&report, &comparison, &plans, PageHost::File)?)?;
            }
        }
        Ok(match (federate_engine::any_error(&found), changes.is_empty()) {
            (true, _) => Exit::Error,
            (false, true) => Exit::Clean,
            (false, false) => Exit::Findings,
        })
    }

    /// Takes revisions among the positional arguments for `--from` and `--to`, as in git: `REV`, `REV REV` or a range, before
    /// or after the folder.
    fn read_positionals(&mut self) -> Result<(), CommandError> {
        let given = self.args.repo.to_string_lossy().into_owned();
        if self.from.is_some() {
            return match self.more.as_slice() {
                [] => Ok(()),
                [word, ..] => {
                    Err(CommandError::Failed(format!("`{word}`: --from names the revision already")))
                }
            };
        }
        let words: Vec<String> = std::iter::once(given).chain(self.more.drain(..)).collect();
        let (revisions, folders) = range::split_words(&words)?;
        self.args.repo = folders.unwrap_or_else(|| ".".into());
        match revisions.as_slice() {
            [] => {}
            [one] => self.from = Some(one.clone()),
            [from, to] if self.to.is_none() && !to.contains("..") && !from.contains("..") => {
                self.from = Some(format!("{from}.."));
                self.to = Some(to.clone());
            }
            _ => {
                return Err(CommandError::Failed(format!(
                    "{} are too many revisions: name one, two, or a range such as main..feature",
                    revisions.join(" and ")
                )));
            }
        }
        Ok(())
    }

    /// What is compared. Without a revision and without releases, the base is the default branch.
    fn parse_range(&self) -> Result<RevisionRange, CommandError> {
        let releases = !self.from_version.is_empty() || !self.to_version.is_empty();
        match &self.from {
            None if !releases => RevisionRange::parse(Some(&default_base(&self.args)?), self.to.as_deref()),
            from => RevisionRange::parse(from.as_deref(), self.to.as_deref()),
        }
    }

    /// Reports the errors of both sides: those of the later side in full, because they must be fixed now;
    /// those of the earlier side in one line each, because this change may fix them.
    fn report_errors(&self, earlier_name: &str, from: &Session, to: &Session) {
        let [earlier, later] = [from, to]
            .map(|session| session.findings().into_iter().filter(Finding::is_error).collect::<Vec<_>>());
        let new = findings::build_rows(to.repo(), &later);
        for row in findings::build_rows(from.repo(), &earlier).iter().filter(|row| !new.contains(row)) {
            let at = row.format_place().map(|place| format!("{place}: ")).unwrap_or_default();
            print_notice(&format!("in {earlier_name}: {at}error[{}]: {}\n", row.code, row.message));
        }
        self.args.report_findings(to, &later);
    }

    /// Warnings about chosen releases. They are not part of the comparison: they belong to one side, or to both.
    fn find_stand_ins(&self) -> Vec<Finding> {
        let sides = self.from_version.iter().chain(&self.to_version).map(|one| &one.named);
        release::find_stand_ins(self.args.karmada_version().into_iter().chain(sides))
    }

    /// The names of the two sides.
    fn side_names(&self, range: &RevisionRange, base: Option<&EarlierSide>) -> (String, String) {
        let later = self.to_name.as_deref().unwrap_or(range.later_name());
        let earlier = self.from_name.as_deref().or(base.map(|base| base.name.as_str())).unwrap_or(later);
        (release::side_name(earlier, &self.from_version), release::side_name(later, &self.to_version))
    }

    /// Where the Markdown report finds the files that it names.
    fn file_links(&self) -> markdown::CommentOptions {
        let prefix =
            GitLocation::discover_around(&self.args.repo).map(|location| location.prefix).unwrap_or_default();
        let (url, prune_label) = (self.link.clone(), self.prune_label.clone());
        markdown::CommentOptions { prefix, url, prune_label, full: self.args.verbose }
    }

    /// The command that prints the whole diff.
    fn format_command(&self) -> String {
        let mut command = format!("federate diff {}", self.args.repo.display());
        for (name, value) in [("--from", &self.from), ("--to", &self.to)] {
            command.extend(value.iter().map(|value| format!(" {name} {value}")));
        }
        for (name, releases) in [("--from-version", &self.from_version), ("--to-version", &self.to_version)] {
            command.extend(releases.iter().map(|one| format!(" {name} {}={}", one.dialect, one.named.name)));
        }
        command
    }
}

/// Both sides of a comparison, opened.
pub(super) struct ComparedSides {
    pub(super) from: Session,
    pub(super) to: Session,
    /// The earlier revision; `None` if releases are compared over the later side alone.
    pub(super) base: Option<EarlierSide>,
}

impl ComparedSides {
    /// Opens both sides, by the rules of these releases. The later one starts from the placements of the earlier one.
    pub(super) fn open(
        args: &RepoArgs,
        range: &RevisionRange,
        releases: [&[DialectRelease]; 2],
    ) -> Result<Self, CommandError> {
        let later = match &range.to {
            Some(rev) => args.open_at(rev)?,
            None => args.open_repo()?,
        };
        let base = range.resolve_earlier(args)?;
        let opened = base.as_ref().map(|base| args.open_before(&base.rev)).transpose()?;
        if let (Some(base), Some(None), false) = (&base, &opened, args.quiet) {
            print_notice(&missing_folder(args, &base.name));
        }
        let earlier: &dyn FileTree = match &opened {
            Some(Some(opened)) => opened.source(),
            Some(None) => &EmptyTree,
            None => later.source(),
        };
        let previous = args.read_previous(None)?;
        let [earlier, later] = args.selection().select_sides(&args.repo, [earlier, later.source()])?;
        let from = args.open_selected(earlier, previous, releases[0])?;
        // Two releases that decide from scratch have no previous plan.
        let forgets = args.fresh && base.is_none();
        let previous = if forgets { Plan::default() } else { from.render_inspected().plan.clone() };
        let to = args.open_selected(later, previous, releases[1])?;
        to.render_inspected();
        Ok(Self { from, to, base })
    }
}

/// The report of a comparison, with the deletions beyond a limit if there is one.
pub(super) fn build_report<'a>(
    comparison: &RevisionComparison<'_>,
    names: [&'a str; 2],
    changes: &'a RenderingChanges,
    limit: Option<PruneLimit>,
) -> Report<'a> {
    let mut report = Report::new(names[0], names[1], changes)
        .with_clusters(comparison.merge_inventories(), comparison.compute_capacity());
    report.is_first = changes.totals.to.placed > 0 && !comparison.has_earlier_clusters();
    report.deletion_guard = limit.and_then(|limit| comparison.excessive_deletions(limit));
    let findings = comparison.compare_findings();
    (report.findings, report.resolved) = (findings.new, findings.resolved);
    report
}

/// Says which repository does not have the folder, which may be one that was found above it.
fn missing_folder(args: &RepoArgs, base: &str) -> String {
    match GitLocation::discover_around(&args.repo) {
        Ok(location) => {
            format!("{base} has no folder `{}` in {}\n", location.prefix, location.display_folder().display())
        }
        Err(_) => String::new(),
    }
}

/// The key for digests of Secret values: `FEDERATE_DIGEST_KEY`, so that runs can be compared, or a random
/// one.
pub(super) fn digest_key() -> Result<DigestKey, CommandError> {
    if let Some(key) = std::env::var_os("FEDERATE_DIGEST_KEY").filter(|key| !key.is_empty()) {
        return DigestKey::from_text(key.as_encoded_bytes()).ok_or_else(|| {
            CommandError::Failed(format!(
                "FEDERATE_DIGEST_KEY has fewer than {MIN_KEY_BYTES} bytes, so that it could be guessed, and the values of Secrets \
                 with it: set it to a random text, such as that of `openssl rand -hex 32`"
            ))
        });
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|e| CommandError::Failed(format!("cannot get random bytes for the digest key: {e}")))?;
    Ok(DigestKey::from_random(&key))
}
