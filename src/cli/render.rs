//! `federate render`

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::deletions::{self, DeletionArgs};
use super::diff::digest_key;
use super::output::check_output;
use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, cache, print, print_value, say};
use federate_dialect::Plan;
use federate_engine::deletions::Deletions;
use federate_engine::{Manifest, Rendering, previous};
use federate_kubernetes::Cluster;
use federate_publish::dir::{self, LockedFolder};
use federate_publish::summary::ClusterSummary;
use federate_publish::{Folder, Summary, Tree};
use federate_report::diff::{Diff as Report, text};
use federate_session::{Destination, RenderedState, Session, Update};

mod watch;

/// Write the manifests of every cluster to a folder
///
/// Writes DIR/<cluster>/<namespace or _cluster>/<kind>[.<group>]_<name>.yaml and DIR/placements.yaml, the
/// plan, which is the scheduler's memory for the next run. The folder is replaced in one atomic step, and
/// unchanged files are not rewritten. A folder that contains files that federate did not write is refused. So
/// is a rendering that would leave the folder, or a cluster in it, without objects, unless --prune-limit is 100; of
/// other deletions beyond --prune-limit percent, federate warns.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Render {
    /// The folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Render again whenever a file of the repo changes, and print what changed; errors do not stop it
    #[arg(long, short, conflicts_with = "rev")]
    watch: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,

    #[command(flatten)]
    deletions: DeletionArgs,

    #[command(flatten)]
    args: RepoArgs,
}

const EXAMPLES: &str = "\
Examples:
  federate render examples/repo --out out
  federate render examples/repo --rev main --out out -o json";

impl Render {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        if self.watch {
            return self.keep_rendering();
        }
        // The end of the process frees the memory of the session at once.
        let mut session = ManuallyDrop::new(None);
        Ok(self.once(&mut session, None)?.0)
    }

    /// Renders whenever files change. Returns only on an error that editing the repo cannot fix.
    fn keep_rendering(&self) -> Result<Exit, Fault> {
        let real = |path: &Path| {
            std::fs::canonicalize(path)
                .map_err(|e| Fault::Failed(format!("cannot watch {}: {e}", path.display())))
        };
        let folders = std::iter::once(self.args.repo.as_path()).chain(self.args.observed_folder());
        let folders = folders.map(real).collect::<Result<_, _>>()?;
        let out = std::path::absolute(&self.out)?;
        let mut last: Option<RenderedState> = None;
        let mut session = None;
        watch::Watched { folders, out }.run(|changed| match self.once(&mut session, changed) {
            Ok((_, Some(state))) => {
                let before = last.replace(state);
                self.show_changes(before.as_ref(), last.as_ref())
            }
            Ok((_, None)) => Ok(()),
            Err(Fault::BrokenPipe) => Err(Fault::BrokenPipe),
            Err(Fault::Failed(message)) => {
                say(&format!("error: {message}\n"));
                Ok(())
            }
        })?;
        Ok(Exit::Clean)
    }

    /// Prints what the last edit changed, field by field.
    fn show_changes(&self, before: Option<&RenderedState>, now: Option<&RenderedState>) -> Result<(), Fault> {
        let (Some(before), Some(now)) = (before, now) else { return Ok(()) };
        let changes = before.compare(now, &digest_key()?);
        if changes.is_empty() || self.output != Format::Table || self.args.quiet {
            return Ok(());
        }
        let report = Report::new("the last good state", "now", &changes);
        print(&text::text(&report, text::Detail::Fields, self.args.text_style()))
    }

    /// Renders once. Returns what was written, for comparison with the next run. `kept` is the session of the
    /// previous run, which only reads the files that `changed`.
    fn once(
        &self,
        kept: &mut Option<Session>,
        changed: Option<BTreeSet<PathBuf>>,
    ) -> Result<(Exit, Option<RenderedState>), Fault> {
        let here = std::env::current_dir()?;
        check_output(&self.out, &self.args.repo)?;
        let waiting = || say("waiting for another federate process that writes to the same folder\n");
        let folder = Folder::lock_path(&self.out, &[&self.args.repo, &here], waiting)?;
        let (folder, session) = if let (Some(session), Some(changed)) = (kept.take(), changed) {
            let folder = folder.read_plan(cache("index"))?;
            let session = self.updated(session, &changed, folder.previous_plan())?;
            (folder, session)
        } else {
            self.read(folder)?
        };
        let session = kept.insert(session);
        self.keeps_other_clusters(session.clusters())?;
        let findings = session.findings_for(Destination::Files);
        self.args.say_cluster_notices(session)?;
        self.args.report(session, &findings);
        if federate_engine::any_error(&findings) && !self.args.keep_going {
            say("nothing was written; --keep-going skips the objects with errors and writes the rest\n");
            return Ok((Exit::Error, None));
        }
        let manifests = self.files(session.rendering(), &folder);
        let state = self.watch.then(|| RenderedState::with_manifests(session, manifests.clone()));
        let tree = Tree::new(previous::write(session.plan()), manifests)
            .map_err(|e| Fault::Failed(e.to_string()))?;
        let summary = folder.publish_checked(&tree, |summary| self.check_deletions(session, summary))?;
        self.show(&summary)?;
        Ok((outcome(&findings), state))
    }

    /// Refuses to empty the folder or a cluster in it without confirmation, and warns of other large deletions.
    fn check_deletions(&self, session: &Session, summary: &Summary) -> Result<(), Fault> {
        let deletions: Deletions = summary.cluster_deletions().collect();
        let limit = session.prune_limit(self.deletions.limit());
        let Some(excess) = deletions.exceeding(limit, |_| true) else { return Ok(()) };
        let output = self.out.display().to_string();
        // With a limit of 0, files that cannot be read may hold what would go.
        if excess.empties_a_cluster() || limit != self.deletions.limit() {
            return Err(Fault::Failed(deletions::refusal(&excess, &output, limit != self.deletions.limit())));
        }
        if !self.args.quiet {
            say(&deletions::warning(&excess, &output));
        }
        Ok(())
    }

    /// Reads the output folder and the repo at the same time.
    fn read(&self, folder: LockedFolder) -> Result<(Folder, Session), Fault> {
        let session = || self.args.without_memory(Some(&self.out));
        let (folder, session) = rayon::join(|| folder.read_plan(cache("index")), session);
        let (folder, mut session) = (folder?, session?);
        session.remember(self.args.memory(folder.previous_plan())?);
        Ok((folder, session))
    }

    /// Updates a session after files have changed.
    fn updated(
        &self,
        mut session: Session,
        changed: &BTreeSet<PathBuf>,
        previous: Option<&Plan>,
    ) -> Result<Session, Fault> {
        let opened = self.args.open()?;
        let changed: Option<Vec<String>> = changed.iter().map(|path| opened.relative(path)).collect();
        let Some(changed) = changed else {
            // A file outside the repo changed, such as one of the observed objects.
            return self.args.session(Some(&self.out), previous);
        };
        session.remember(self.args.memory(previous)?);
        if let Update::Everything(reason) = session.update(opened.source(), &changed)
            && self.args.verbose
        {
            say(&format!("read everything again: {reason}\n"));
        }
        Ok(session)
    }

    /// Refuses `--cluster` for a folder that holds other clusters: replacing the folder would remove them.
    fn keeps_other_clusters(&self, clusters: &[Cluster]) -> Result<(), Fault> {
        let there = |c: &&Cluster| !self.args.wants(&c.name) && self.out.join(c.name.as_ref()).is_dir();
        match clusters.iter().find(there) {
            Some(other) => Err(Fault::Failed(format!(
                "{} also contains cluster `{}`, which --cluster would remove: choose another folder",
                self.out.display(),
                other.name
            ))),
            None => Ok(()),
        }
    }

    /// The manifests for the selected clusters.
    fn files(&self, rendering: &Rendering, folder: &Folder) -> Vec<Manifest> {
        let mut manifests =
            rendering.with_retained(|object, cluster| folder.read_previous_manifest(object, cluster));
        for manifest in &mut manifests {
            manifest.narrow(|cluster| self.args.wants(cluster));
        }
        manifests
    }

    fn show(&self, summary: &Summary) -> Result<(), Fault> {
        if self.output != Format::Table {
            return print_value(&Changes::of(summary), self.output);
        }
        if self.args.quiet {
            return Ok(());
        }
        print(&format!("{}: {summary}\n", self.out.display()))
    }
}

impl From<dir::Error> for Fault {
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
    fn of(summary: &'s Summary) -> Self {
        let cluster = |c: &'s ClusterSummary| Changed {
            name: &c.cluster,
            created: &c.created,
            updated: &c.updated,
            removed: &c.removed,
            unchanged: c.unchanged,
        };
        Self {
            api_version: federate_dialect::plan::API_VERSION,
            kind: "RenderSummary",
            clusters: summary.clusters.iter().map(cluster).collect(),
        }
    }
}
