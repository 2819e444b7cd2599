//! `federate render`

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::deletions::{self, DeletionArgs};
use super::diff::digest_key;
use super::output::check_output;
use super::settings::{OutputFormat, RepoArgs, exit_for_findings};
use super::watch::WatchedFolders;
use super::{CommandError, Exit, cache_folder, print_notice, print_text, print_value};
use federate_dialect::Plan;
use federate_engine::deletions::Deletions;
use federate_engine::{Manifest, Rendering, previous};
use federate_kubernetes::Cluster;
use federate_publish::dir::{self, LockedOutputFolder};
use federate_publish::{OutputFolder, OutputTree, Summary};
use federate_report::diff::{Diff as Report, text};
use federate_session::{Destination, RenderedState, Session, UpdateScope};

/// Write the manifests of every cluster to a folder
///
/// Writes DIR/<cluster>/<namespace or _cluster>/<kind>[.<group>]_<name>.yaml and DIR/placements.yaml, the
/// plan, which is the scheduler's memory for the next run. The folder is replaced in one atomic step, and
/// unchanged files are not rewritten. A folder that contains files that federate did not write is refused. So
/// is a rendering that would leave the folder, or a cluster in it, without objects, unless --prune-limit is 100; of
/// other deletions beyond --prune-limit percent, federate warns.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct RenderCommand {
    /// The folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Render again whenever a file of the repo changes, and print what changed; errors do not stop it
    #[arg(long, short, conflicts_with = "rev")]
    watch: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,

    #[command(flatten)]
    deletions: DeletionArgs,

    #[command(flatten)]
    args: RepoArgs,
}

const EXAMPLES: &str = "\
Examples:
  federate render examples/repo --out out
  federate render examples/repo --rev main --out out -o json";

impl RenderCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        if self.watch {
            return self.keep_rendering();
        }
        // The end of the process frees the memory of the session at once.
        let mut session = ManuallyDrop::new(None);
        Ok(self.render_once(&mut session, None)?.0)
    }

    /// Renders whenever files change. Returns only on an error that editing the repo cannot fix.
    fn keep_rendering(&self) -> Result<Exit, CommandError> {
        let folders = self.args.watched_folders()?;
        let out = Some(std::path::absolute(&self.out)?);
        let mut last: Option<RenderedState> = None;
        let mut session = None;
        WatchedFolders { folders, out }.run_on_changes(|changed| {
            match self.render_once(&mut session, changed) {
                Ok((_, Some(state))) => {
                    let before = last.replace(state);
                    self.show_changes(before.as_ref(), last.as_ref())
                }
                Ok((_, None)) => Ok(()),
                Err(CommandError::BrokenPipe) => Err(CommandError::BrokenPipe),
                Err(CommandError::Failed(message)) => {
                    print_notice(&format!("error: {message}\n"));
                    Ok(())
                }
            }
        })?;
        Ok(Exit::Clean)
    }

    /// Prints what the last edit changed, field by field.
    fn show_changes(
        &self,
        before: Option<&RenderedState>,
        now: Option<&RenderedState>,
    ) -> Result<(), CommandError> {
        let (Some(before), Some(now)) = (before, now) else { return Ok(()) };
        let changes = before.compare_with(now, &digest_key()?);
        if changes.is_empty() || self.output != OutputFormat::Table || self.args.quiet {
            return Ok(());
        }
        let report = Report::new("the last good state", "now", &changes);
        print_text(&text::format_diff(&report, text::DiffDetail::Fields, self.args.text_style()))
    }

    /// Renders once. Returns what was written, for comparison with the next run. `kept` is the session of the
    /// previous run, which only reads the files that `changed`.
    fn render_once(
        &self,
        kept: &mut Option<Session>,
        changed: Option<BTreeSet<PathBuf>>,
    ) -> Result<(Exit, Option<RenderedState>), CommandError> {
        let here = std::env::current_dir()?;
        check_output(&self.out, &self.args.repo)?;
        let folder = OutputFolder::lock_path(&self.out, &[&self.args.repo, &here], || {
            print_notice("waiting for another federate process that writes to the same folder\n");
        })?;
        let (folder, session) = if let (Some(session), Some(changed)) = (kept.take(), changed) {
            let folder = folder.read_plan(cache_folder("index"))?;
            let session = self.update_session(session, &changed, folder.previous_plan())?;
            (folder, session)
        } else {
            self.read_inputs(folder)?
        };
        let session = kept.insert(session);
        self.check_other_clusters(session.clusters())?;
        let rendering = session.render();
        let findings = session.findings_for(Destination::Files);
        self.args.say_cluster_notices(session)?;
        self.args.report_findings(session, &findings);
        if federate_engine::any_error(&findings) && !self.args.keep_going {
            print_notice(
                "nothing was written; --keep-going skips the objects with errors and writes the rest\n",
            );
            return Ok((Exit::Error, None));
        }
        let manifests = self.select_manifests(rendering, &folder);
        let state = self.watch.then(|| RenderedState::with_manifests(session, manifests.clone()));
        let tree = OutputTree::new(previous::serialize_plan(&rendering.plan), manifests)
            .map_err(|e| CommandError::Failed(e.to_string()))?;
        let summary = folder.publish_checked(&tree, |summary| self.check_deletions(session, summary))?;
        self.print_summary(&summary)?;
        Ok((exit_for_findings(&findings), state))
    }

    /// Refuses to empty the folder or a cluster in it without confirmation, and warns of other large deletions.
    fn check_deletions(&self, session: &Session, summary: &Summary) -> Result<(), CommandError> {
        let deletions: Deletions = summary.cluster_deletions().collect();
        let limit = session.prune_limit(self.deletions.prune_limit());
        let Some(excess) = deletions.check_limit(limit, |_| true) else { return Ok(()) };
        let output = self.out.display().to_string();
        // With a limit of 0, files that cannot be read may hold what would go.
        if excess.empties_a_cluster() || limit != self.deletions.prune_limit() {
            return Err(CommandError::Failed(deletions::format_refusal(
                &excess,
                &output,
                limit != self.deletions.prune_limit(),
            )));
        }
        if !self.args.quiet {
            print_notice(&deletions::format_warning(&excess, &output));
        }
        Ok(())
    }

    /// Reads the output folder and the repo at the same time.
    fn read_inputs(&self, folder: LockedOutputFolder) -> Result<(OutputFolder, Session), CommandError> {
        let (folder, session) = rayon::join(
            || folder.read_plan(cache_folder("index")),
            || {
                let repo = self.args.open_repo()?;
                let output = repo.relative_path(&self.out);
                self.args.open_session_over(repo.source(), output, Plan::default())
            },
        );
        let (folder, mut session) = (folder?, session?);
        session.set_previous(self.args.read_previous(folder.previous_plan())?);
        Ok((folder, session))
    }

    /// Updates a session after files have changed.
    fn update_session(
        &self,
        mut session: Session,
        changed: &BTreeSet<PathBuf>,
        previous: Option<&Plan>,
    ) -> Result<Session, CommandError> {
        let opened = self.args.open_repo()?;
        let changed: Option<Vec<String>> = changed.iter().map(|path| opened.relative_path(path)).collect();
        let Some(changed) = changed else {
            // A file outside the repo changed, such as one of the observed objects.
            return self.args.open_session(Some(&self.out), previous);
        };
        session.set_previous(self.args.read_previous(previous)?);
        if let UpdateScope::Everything(reason) = session.update_files(opened.source(), &changed)
            && self.args.verbose
        {
            print_notice(&format!("read everything again: {reason}\n"));
        }
        Ok(session)
    }

    /// Refuses `--cluster` for a folder that holds other clusters: replacing the folder would remove them.
    fn check_other_clusters(&self, clusters: &[Cluster]) -> Result<(), CommandError> {
        match clusters
            .iter()
            .find(|c| !self.args.selects_cluster(&c.name) && self.out.join(c.name.as_ref()).is_dir())
        {
            Some(other) => Err(CommandError::Failed(format!(
                "{} also contains cluster `{}`, which --cluster would remove: choose another folder",
                self.out.display(),
                other.name
            ))),
            None => Ok(()),
        }
    }

    /// The manifests for the selected clusters.
    fn select_manifests(&self, rendering: &Rendering, folder: &OutputFolder) -> Vec<Manifest> {
        let mut manifests =
            rendering.with_retained(|object, cluster| folder.read_previous_manifest(object, cluster));
        for manifest in &mut manifests {
            manifest.retain_clusters(|cluster| self.args.selects_cluster(cluster));
        }
        manifests
    }

    fn print_summary(&self, summary: &Summary) -> Result<(), CommandError> {
        if self.output != OutputFormat::Table {
            return print_value(&Changes::from_summary(summary), self.output);
        }
        if self.args.quiet {
            return Ok(());
        }
        print_text(&format!("{}: {summary}\n", self.out.display()))
    }
}

impl From<dir::Error> for CommandError {
    fn from(error: dir::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The machine-readable result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Changes<'s> {
    api_version: &'static str,
    kind: &'static str,
    clusters: Vec<Changed<'s>>,
}

#[derive(Serialize)]
struct Changed<'s> {
    name: &'s str,
    created: &'s [String],
    updated: &'s [String],
    removed: &'s [String],
    unchanged: usize,
}

impl<'s> Changes<'s> {
    fn from_summary(summary: &'s Summary) -> Self {
        Self {
            api_version: federate_dialect::plan::API_VERSION,
            kind: "RenderSummary",
            clusters: summary
                .clusters
                .iter()
                .map(|c| Changed {
                    name: &c.cluster,
                    created: &c.created,
                    updated: &c.updated,
                    removed: &c.removed,
                    unchanged: c.unchanged,
                })
                .collect(),
        }
    }
}
