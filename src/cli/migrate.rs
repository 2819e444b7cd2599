//! `federate migrate`

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::diff::digest_key;
use super::output::check_output;
use super::revision::RepoSource;
use super::selection::SelectedTree;
use super::settings::{OutputFormat, RepoArgs};
use super::{CommandError, Exit, page, print_notice, print_text, print_unchanged, print_value, progress};
use federate_dialect::Plan;
use federate_dialects::DIALECTS;
use federate_engine::any_error;
use federate_engine::change::DigestKey;
use federate_engine::snapshot::StoredSnapshot;
use federate_kubernetes::Finding;
use federate_migrate::{
    DEFAULT_SEED, FileChangeKind, FileEdit, FileRow, MigratedTree, Migration, MigrationError,
    MigrationReport, Mode, ProofSides, RUNBOOK_FILE, ReportSubject, RunbookNames, StressOptions, Target,
    Verdict, check_world, find_mode, migrate_repo, prove_migration, stress_migration, write_runbook,
};
use federate_publish::dir::RepoCopy;
use federate_publish::file;
use federate_repo::file_tree::EntryKind;
use federate_repo::{FileTree, ReadOptions, Role};
use federate_report::table::format_count;
use federate_session::Session;
use federate_source::WorkTree;
use federate_source::git::{self, GitLocation};

/// Why `--check` has no page.
const NO_PAGE_OF_CHECK: &str = "--check has no page: use -o table, json, yaml or markdown";

/// The most states that are compared.
const MAX_STATES: i64 = 100_000;

/// Write the repo for another control plane, and prove what stays equal
///
/// federate reads the rules of the control planes that the repo is for, writes the same for another one, renders both
/// sides over the same inventory, and compares what each cluster receives. Each object is `equal`, `equal-now` (the same
/// in every cluster, but by another rule), or `different` with a reason out of a closed list. A difference without a
/// reason is a fault of federate: nothing is written, and the exit code is 2.
///
/// Without --out and --in-place, federate only reports. --out DIR gets the whole repo with the edits, in one atomic step,
/// and MIGRATION.md, a runbook for the switch: the order of steps, what is paused and where, and the way back.
/// --prove N also compares both sides in N random states: clusters are lost, tainted, relabelled, resized or removed,
/// and workloads are scaled.
///
/// --check SNAPSHOT tells whether the clusters are as the steps of the runbook expect; `federate snapshot` takes the snapshot.
///
/// `--to plain` leaves control planes altogether: what each cluster receives is written as kustomizations.
/// --mode freeze writes every object exactly as it is placed now, which is the safe first step of a switch where rules
/// have no equal. It is the default for directions in which rules are not written as rules.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct MigrateCommand {
    /// The control plane to write the repo for
    #[arg(long, value_enum, value_name = "DIALECT")]
    to: TargetName,

    /// The folder to write; a folder with other files is refused
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    out: Option<PathBuf>,

    /// Edit the files of the work tree, which must be clean, so that git can undo it
    #[arg(long, conflicts_with = "rev")]
    in_place: bool,

    /// How rules are written [default: idiomatic, or freeze where the other control plane has no such rules]
    #[arg(long, value_enum)]
    mode: Option<ModeName>,

    /// Also compare both sides in this many random states, such as 200
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_STATES))]
    prove: Option<u32>,

    /// The seed of the random states
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_SEED, requires = "prove")]
    seed: u64,

    /// Write the runbook to this file as well
    #[arg(long, value_name = "FILE")]
    runbook: Option<PathBuf>,

    /// Tell whether the clusters are as the steps of the runbook expect, by a snapshot of `federate snapshot`
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["out", "in_place", "prove", "runbook"])]
    check: Option<PathBuf>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,

    #[command(flatten)]
    args: RepoArgs,
}

const EXAMPLES: &str = "\
Examples:
  federate migrate examples/kubefed --to karmada                    # report only
  federate migrate examples/kubefed --to karmada --out karmada --prove 200
  federate migrate examples/kubefed --to karmada -o markdown > comment.md
  federate migrate examples/kubefed --to karmada --prove 200 -o html > migration.html
  federate migrate examples/kubefed --to karmada --mode freeze --in-place";

/// What the repo is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetName {
    /// Karmada
    Karmada,
    /// KubeFleet, and Azure Kubernetes Fleet Manager
    Kubefleet,
    /// KubeAdmiral
    Kubeadmiral,
    /// No control plane: kustomizations per cluster
    Plain,
}

/// How rules are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// Rules as rules
    Idiomatic,
    /// Each object exactly as it is placed now
    Freeze,
}

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a terminal
    Table,
    /// For scripts
    Json,
    /// For scripts and people
    Yaml,
    /// For a comment on a pull request
    Markdown,
    /// A page for a browser, with the runbook
    Html,
}

impl TargetName {
    fn to_target(self) -> Target {
        match self {
            Self::Karmada => Target::Karmada,
            Self::Kubefleet => Target::KubeFleet,
            Self::Kubeadmiral => Target::KubeAdmiral,
            Self::Plain => Target::Plain,
        }
    }
}

impl ModeName {
    fn to_mode(self) -> Mode {
        match self {
            Self::Idiomatic => Mode::Idiomatic,
            Self::Freeze => Mode::Freeze,
        }
    }
}

/// The two sides of a migration.
struct MigratedRepo {
    old: Session,
    mode: Mode,
    migration: Migration,
    new: Session,
}

impl MigrateCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        for path in self.out.iter().chain(&self.runbook) {
            check_output(path, &self.args.repo)?;
        }
        if self.check.is_some() && matches!(self.output, Output::Html) {
            return Err(CommandError::Failed(NO_PAGE_OF_CHECK.to_owned()));
        }
        let opened = self.args.open_repo()?;
        let location = self.in_place.then(|| self.find_clean_tree()).transpose()?;
        let Some(migrated) = self.migrate(&opened)? else { return Ok(Exit::Error) };
        let key = digest_key()?;
        if let Some(snapshot) = &self.check {
            return self.check_snapshot(&opened, &migrated, snapshot, &key);
        }
        let report = self.prove(&opened, &migrated, &key)?;
        let runbook = self.write_steps(&migrated, &report, &key);
        let is_fault = report.verdict == Verdict::Unexplained;
        if is_fault && !self.args.keep_going {
            self.print_report(&report, &runbook)?;
            say_nothing_written("--keep-going writes it anyway");
            return Ok(Exit::Error);
        }
        self.write_result(&opened, &migrated, &report, &runbook, location.as_ref())?;
        self.print_report(&report, &runbook)?;
        Ok(match report.verdict {
            Verdict::Equal | Verdict::EqualNow => Exit::Clean,
            Verdict::Different => Exit::Findings,
            Verdict::Unexplained => Exit::Error,
        })
    }

    /// Migrates the repo, and opens the result; `None` if one of them has errors, which are printed.
    fn migrate(&self, opened: &RepoSource) -> Result<Option<MigratedRepo>, CommandError> {
        let source = opened.source();
        let output = self.out.as_deref().and_then(|out| opened.relative_path(out));
        let read = self.args.selection().read_options(&self.args.repo, source, output)?;
        let previous = self.args.read_previous(None)?;
        let old = self.open_side(source, read.clone(), previous.clone())?;
        self.args.say_cluster_notices(&old)?;
        if self.report_errors(&old, &old.findings()) {
            say_nothing_written("fix these errors first; `federate check` shows all findings");
            return Ok(None);
        }
        progress::set_phase("writing the repo for the other control plane");
        let mode = self.choose_mode(&old);
        let migration = match migrate_repo(&old, self.to.to_target(), mode) {
            Ok(migration) => migration,
            Err(MigrationError::BrokenRepo(found)) => {
                self.args.report_in_full(&old, &found);
                say_nothing_written("fix these errors first");
                return Ok(None);
            }
            Err(error) => return Err(CommandError::Failed(error.to_string())),
        };
        let migrated = MigratedTree::new(source, &migration.edits);
        let mut new = self.open_side(&migrated, read, self.keep_own_rows(previous))?;
        new.share_cluster_states(old.clusters());
        let found = new.findings();
        if self.report_errors(&new, &found) {
            say_nothing_written(
                "these errors are in the repo that federate has written, which is a fault of federate: please report it",
            );
            return Ok(None);
        }
        Ok(Some(MigratedRepo { old, mode, migration, new }))
    }

    /// The mode that was asked for, else the one that the direction has.
    fn choose_mode(&self, old: &Session) -> Mode {
        let target = self.to.to_target();
        let mode = self.mode.map_or_else(|| find_mode(old, target), ModeName::to_mode);
        if self.mode.is_none() && mode == Mode::Freeze && !self.args.quiet {
            print_notice(&format!(
                "rules of {} are not written as rules of {}: each object is written as it is placed now (--mode freeze)\n",
                find_old_planes(old).into_iter().collect::<Vec<_>>().join(" and "),
                target.title(),
            ));
        }
        mode
    }

    /// Opens one side, with a previous plan.
    fn open_side(
        &self,
        source: &dyn FileTree,
        read: ReadOptions,
        previous: Plan,
    ) -> Result<Session, CommandError> {
        let mut session = self.args.open_selected(SelectedTree { source, read }, previous, &[])?;
        session.keep_manifest_values();
        Ok(session)
    }

    /// The rows of the previous plan that the new control plane decided.
    fn keep_own_rows(&self, mut previous: Plan) -> Plan {
        let target = self.to.to_target().name();
        previous.placements.retain(|row| row.dialect == target);
        previous
    }

    /// Prints errors. Returns whether they end the command.
    fn report_errors(&self, session: &Session, found: &[Finding]) -> bool {
        let errors: Vec<Finding> = found.iter().filter(|finding| finding.is_error()).cloned().collect();
        if any_error(&errors) {
            self.args.report_findings(session, &errors);
        }
        any_error(&errors) && !self.args.keep_going
    }

    /// Compares both sides.
    fn prove(
        &self,
        opened: &RepoSource,
        migrated: &MigratedRepo,
        key: &DigestKey,
    ) -> Result<MigrationReport, CommandError> {
        progress::set_phase("comparing both sides");
        let sides = migrated.sides(key);
        let proof = prove_migration(sides).map_err(|exceeded| CommandError::Failed(exceeded.to_string()))?;
        let stress = match self.prove {
            Some(states) => {
                progress::set_phase("comparing both sides in random states");
                let options = StressOptions { states: states as usize, seed: self.seed };
                Some(stress_migration(sides, &proof, options).map_err(CommandError::Failed)?)
            }
            None => None,
        };
        let files = list_files(opened.source(), &migrated.migration.edits);
        let subject = ReportSubject {
            from: find_old_planes(&migrated.old),
            target: self.to.to_target(),
            mode: migrated.mode,
            migration: &migrated.migration,
            files,
        };
        Ok(MigrationReport::new(subject, &proof, stress))
    }

    /// The runbook.
    fn write_steps(&self, migrated: &MigratedRepo, report: &MigrationReport, key: &DigestKey) -> String {
        let old_repo = self.args.repo.display().to_string();
        let new_repo = self.out.as_ref().map_or_else(|| old_repo.clone(), |out| out.display().to_string());
        let names = RunbookNames { old_repo, new_repo };
        write_runbook(&names, migrated.sides(key), self.to.to_target(), report)
    }

    fn print_report(&self, report: &MigrationReport, runbook: &str) -> Result<(), CommandError> {
        match self.output {
            Output::Table => print_text(&report.format_text(self.args.text_style())),
            Output::Markdown => print_unchanged(&report.format_markdown()),
            Output::Json => print_value(report, OutputFormat::Json),
            Output::Yaml => print_value(report, OutputFormat::Yaml),
            Output::Html => {
                let name = self.args.repo.display().to_string();
                print_unchanged(&page::format_migration_page(&name, report, runbook)?)
            }
        }
    }

    /// Tells whether the clusters are as the steps of the runbook expect.
    fn check_snapshot(
        &self,
        opened: &RepoSource,
        migrated: &MigratedRepo,
        path: &Path,
        key: &DigestKey,
    ) -> Result<Exit, CommandError> {
        let stored = WorkTree::open(path)
            .map_err(|finding| finding.message)
            .and_then(|tree| StoredSnapshot::read_folder(DIALECTS, &tree, &path.to_string_lossy()));
        let stored = stored.map_err(|why| {
            CommandError::Failed(format!("cannot read the snapshot {}: {why}", path.display()))
        })?;
        let source = MigratedTree::new(opened.source(), &migrated.migration.edits);
        let read = self.args.selection().read_options(&self.args.repo, opened.source(), None)?;
        let previous = self.keep_own_rows(self.args.read_previous(None)?);
        let mut checked = self.open_side(&source, read, previous)?;
        checked.share_cluster_states(migrated.old.clusters());
        checked.observe_objects(stored.observed.clone());
        let from = find_old_planes(&migrated.old);
        let world = check_world(migrated.sides(key), self.to.to_target(), &from, &stored, &checked);
        match self.output {
            Output::Table => print_text(&world.format_text(self.args.text_style()))?,
            Output::Markdown => print_unchanged(&world.format_markdown())?,
            Output::Json => print_value(&world, OutputFormat::Json)?,
            Output::Yaml => print_value(&world, OutputFormat::Yaml)?,
            Output::Html => return Err(CommandError::Failed(NO_PAGE_OF_CHECK.to_owned())),
        }
        Ok(if world.ready { Exit::Clean } else { Exit::Findings })
    }

    /// Writes the new repo and the runbook.
    fn write_result(
        &self,
        opened: &RepoSource,
        migrated: &MigratedRepo,
        report: &MigrationReport,
        runbook: &str,
        location: Option<&GitLocation>,
    ) -> Result<(), CommandError> {
        if let Some(out) = &self.out {
            self.write_copy(opened, &migrated.migration, out, runbook)?;
        } else if let Some(location) = location {
            self.edit_in_place(&migrated.migration.edits, location)?;
        }
        if let Some(path) = &self.runbook {
            write_file(path, runbook.as_bytes())?;
        }
        if self.args.quiet {
            return Ok(());
        }
        if let Some(out) = &self.out {
            let files = format_count(report.files.len(), "file");
            let out = out.display();
            print_notice(&format!(
                "{files} of {out} differ from the repo; {out}/{RUNBOOK_FILE} is the runbook\n"
            ));
        }
        Ok(())
    }

    /// Writes the whole repo with the edits to a folder, in one step.
    fn write_copy(
        &self,
        opened: &RepoSource,
        migration: &Migration,
        out: &Path,
        runbook: &str,
    ) -> Result<(), CommandError> {
        let source = MigratedTree::new(opened.source(), &migration.edits);
        let excluded = opened.relative_path(out);
        let mut entries = Vec::new();
        list_entries(&source, "", excluded.as_deref(), &mut entries)?;
        let here = std::env::current_dir()?;
        let mut copy = RepoCopy::begin(out, RUNBOOK_FILE, &[&self.args.repo, &here], || {
            print_notice("waiting for another federate process that writes to the same folder\n");
        })?;
        for RepoEntry { path, kind } in &entries {
            match kind {
                EntryKind::File if path != RUNBOOK_FILE => {
                    let bytes = source.read_file(path).map_err(|why| {
                        CommandError::Failed(format!("cannot read {path}: {why}; nothing was written"))
                    })?;
                    copy.write_file(path, &bytes, self.find_permissions(path))?;
                }
                EntryKind::LinkToFile(target) | EntryKind::LinkToFolder(target)
                    if !target.starts_with('/') =>
                {
                    copy.write_link(path, &relative_link(path, target))?;
                }
                EntryKind::File | EntryKind::Folder => {}
                _ => print_notice(&format!("{path} was left out: it is not a file of the repo\n")),
            }
        }
        Ok(copy.publish(runbook)?)
    }

    /// The permissions of a file of the work tree.
    fn find_permissions(&self, path: &str) -> Option<fs::Permissions> {
        let file = self.args.is_work_tree().then(|| self.args.repo.join(path))?;
        fs::symlink_metadata(file).ok().filter(fs::Metadata::is_file).map(|meta| meta.permissions())
    }

    /// The repository of a work tree without changes.
    fn find_clean_tree(&self) -> Result<GitLocation, CommandError> {
        let location = GitLocation::discover_around(&self.args.repo).map_err(|error| {
            CommandError::Failed(format!("--in-place needs a git repository, which can undo it: {error}"))
        })?;
        let modified =
            git::is_modified(&location).map_err(|error| CommandError::Failed(error.to_string()))?;
        if modified {
            return Err(CommandError::Failed(format!(
                "{} has changes that are not committed: commit or stash them first, so that git can undo the migration, or \
                 write to another folder with --out",
                self.args.repo.display()
            )));
        }
        Ok(location)
    }

    /// Edits the files of the work tree, each in one step: new files first, deletions last.
    fn edit_in_place(&self, edits: &[FileEdit], location: &GitLocation) -> Result<(), CommandError> {
        let repo = &self.args.repo;
        for edit in edits {
            check_output(&repo.join(edit.path.as_ref()), repo)?;
        }
        let (kept, deleted): (Vec<&FileEdit>, Vec<&FileEdit>) =
            edits.iter().partition(|edit| edit.content.is_some());
        let (created, replaced): (Vec<&FileEdit>, Vec<&FileEdit>) =
            kept.into_iter().partition(|edit| fs::symlink_metadata(repo.join(edit.path.as_ref())).is_err());
        for edit in created.iter().chain(&replaced).chain(&deleted) {
            let path = repo.join(edit.path.as_ref());
            let done = match &edit.content {
                None => fs::remove_file(&path),
                Some(content) if fs::symlink_metadata(&path).is_ok() => file::replace_content(&path, content),
                Some(content) => file::create_file(&path, content),
            };
            done.map_err(|error| {
                CommandError::Failed(format!(
                    "cannot write {}: {error}; `git -C {} restore .` and `git -C … clean -f` undo what was written",
                    path.display(),
                    repo.display()
                ))
            })?;
        }
        if !self.args.quiet && !edits.is_empty() {
            let folder = location.display_folder();
            let folder = folder.display();
            print_notice(&format!(
                "{} changed: `git -C {folder} status` and `git -C {folder} diff` show them; `git -C {folder} restore .` and \
                 `git -C {folder} clean -i` undo them\n",
                format_count(edits.len(), "file")
            ));
        }
        Ok(())
    }
}

impl MigratedRepo {
    fn sides<'m>(&'m self, key: &'m DigestKey) -> ProofSides<'m> {
        ProofSides { old: &self.old, new: &self.new, migration: &self.migration, key }
    }
}

/// Says that nothing was written, and what to do.
fn say_nothing_written(help: &str) {
    print_notice(&format!("nothing was written: {help}\n"));
}

/// The control planes that place objects of a repo, or whose policies it has.
fn find_old_planes(session: &Session) -> BTreeSet<&'static str> {
    let claimed = session.repo().claimed.iter();
    let policies = claimed.filter(|claimed| !matches!(claimed.role, Role::Inventory | Role::ControlPlane));
    let mut names: BTreeSet<&'static str> = policies.map(|claimed| claimed.dialect).collect();
    let placed = session.plan().placements.iter().filter(|row| !row.clusters.is_empty());
    names.extend(placed.filter_map(|row| Some(DIALECTS.get(&row.dialect)?.name())));
    names
}

/// What the edits do to each file.
fn list_files(source: &dyn FileTree, edits: &[FileEdit]) -> Vec<FileRow> {
    let rows = edits.iter().map(|edit| FileRow {
        path: edit.path.to_string(),
        change: match (&edit.content, source.read_file(&edit.path)) {
            (None, _) => FileChangeKind::Deleted,
            (Some(_), Ok(_)) => FileChangeKind::Changed,
            (Some(_), Err(_)) => FileChangeKind::Created,
        },
    });
    rows.collect()
}

/// An entry of a repo.
struct RepoEntry {
    path: String,
    kind: EntryKind,
}

/// Lists all entries below a folder but git's own, what killed runs left, and the output folder.
fn list_entries(
    source: &dyn FileTree,
    folder: &str,
    excluded: Option<&str>,
    entries: &mut Vec<RepoEntry>,
) -> Result<(), CommandError> {
    let mut listed = source
        .list_folder(folder)
        .map_err(|why| CommandError::Failed(format!("cannot read the folder {folder}: {why}")))?;
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    for entry in listed {
        let is_leftover = entry.name.starts_with('.') && entry.name.contains(".federate-");
        let path = if folder.is_empty() { entry.name.clone() } else { format!("{folder}/{}", entry.name) };
        if entry.name == ".git" || is_leftover || excluded == Some(path.as_str()) {
            continue;
        }
        if entry.kind == EntryKind::Folder {
            list_entries(source, &path, excluded, entries)?;
        } else {
            entries.push(RepoEntry { path, kind: entry.kind });
        }
    }
    Ok(())
}

/// The target of a link at `path` to another path of the tree.
fn relative_link(path: &str, target: &str) -> PathBuf {
    let mut link: PathBuf = std::iter::repeat_n("..", path.matches('/').count()).collect();
    link.push(target);
    if link.as_os_str().is_empty() { PathBuf::from(".") } else { link }
}

/// Writes a file, new or in place of another one.
fn write_file(path: &Path, content: &[u8]) -> Result<(), CommandError> {
    let written = if fs::symlink_metadata(path).is_ok() {
        file::replace_content(path, content)
    } else {
        file::create_file(path, content)
    };
    written.map_err(|error| CommandError::Failed(format!("cannot write {}: {error}", path.display())))
}
