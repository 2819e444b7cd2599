//! `federate diff`

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::revision::Opened;
use super::settings::{Format, Loaded, RepoArgs};
use super::{Exit, Fault, look, print, print_value, say};
use federate_dialect::Plan;
use federate_engine::change::{self, DigestKey, Side};
use federate_engine::{Engine, Manifest, Rendering};
use federate_kubernetes::{Finding, ObjectRef};
use federate_repo::{Nothing, Source};
use federate_report::diff::{Diff as Report, markdown, text};
use federate_report::findings::{self, Row};

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

/// One side, rendered.
struct Rendered {
    loaded: Loaded,
    rendering: Rendering,
    /// What the clusters hold by it.
    manifests: Vec<Manifest>,
    findings: Vec<Finding>,
}

impl Diff {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let opened = self.args.open_before(&self.from)?;
        let earlier: &dyn Source = opened.as_ref().map_or(&Nothing, Opened::source);
        let mut from = self.render(earlier, self.args.memory(None)?, None)?;
        let opened = match &self.to {
            Some(rev) => self.args.open_at(rev)?,
            None => self.args.open()?,
        };
        let mut to = self.render(opened.source(), from.rendering.plan.clone(), Some(&from))?;
        self.args.known_clusters(from.loaded.clusters.iter().chain(&to.loaded.clusters))?;
        self.tell(&from, &to);
        let failed = federate_engine::any_error(&to.findings);
        if failed && !self.args.keep_going {
            say("nothing was compared; --keep-going leaves out what is in error and compares the rest\n");
            return Ok(Exit::Error);
        }
        if !self.args.clusters.is_empty() {
            from.narrow(|name| self.args.wants(name));
            to.narrow(|name| self.args.wants(name));
        }
        let changes = change::compare(&from.side(), &to.side(), &digest_key()?);
        let mut report = Report::new(&self.from, self.to.as_deref().unwrap_or(WORK_TREE), &changes);
        (report.findings, report.resolved) = (to.beyond(&from), from.beyond(&to));
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

    /// Renders one side; `earlier` is what the clusters held before.
    fn render(
        &self,
        source: &dyn Source,
        previous: Plan,
        earlier: Option<&Rendered>,
    ) -> Result<Rendered, Fault> {
        let mut loaded = self.args.read_from(source, None, previous)?;
        let mut rendering =
            Engine::new(federate_session::DIALECTS, &loaded.repo, &loaded.clusters, &loaded.settings)
                .render();
        let mut findings = std::mem::take(&mut loaded.findings);
        findings.append(&mut rendering.findings);
        self.args.judge(&mut findings);
        let held = |object: &ObjectRef, cluster: &str| earlier?.text(object, cluster);
        let manifests = rendering.standing(held);
        Ok(Rendered { loaded, rendering, manifests, findings })
    }

    /// Errors of both sides: the later one's in full, because they are to be mended here; the earlier one's
    /// in a line each, because this change may be what mends them.
    fn tell(&self, from: &Rendered, to: &Rendered) {
        let errors = |side: &Rendered| -> Vec<Finding> {
            side.findings.iter().filter(|f| f.is_error()).cloned().collect()
        };
        let new = findings::rows(&to.loaded.repo, &errors(to));
        for row in findings::rows(&from.loaded.repo, &errors(from)).iter().filter(|row| !new.contains(row)) {
            let at = row.place().map(|place| format!("{place}: ")).unwrap_or_default();
            say(&format!("in {}: {at}error[{}]: {}\n", self.from, row.code, row.message));
        }
        self.args.report(&to.loaded.repo, &errors(to));
    }

    /// The command that shows everything.
    fn command(&self) -> String {
        let to = self.to.as_ref().map(|to| format!(" --to {to}")).unwrap_or_default();
        format!("federate diff {} --from {}{to}", self.args.repo.display(), self.from)
    }
}

/// What the work tree is called beside revisions.
const WORK_TREE: &str = "work tree";

impl Rendered {
    fn side(&self) -> Side<'_> {
        Side { clusters: &self.loaded.clusters, plan: &self.rendering.plan, manifests: &self.manifests }
    }

    /// What an object is in a cluster.
    fn text(&self, object: &ObjectRef, cluster: &str) -> Option<Arc<str>> {
        let start = self.rendering.manifests.partition_point(|manifest| manifest.object < *object);
        let rows = self.rendering.manifests.get(start..)?;
        let mut rows = rows.iter().take_while(|manifest| manifest.object == *object);
        let found = rows.find(|m| m.clusters.iter().any(|name| name.as_ref() == cluster))?;
        Some(found.text.clone())
    }

    /// Leaves only some clusters.
    fn narrow(&mut self, wants: impl Fn(&str) -> bool) {
        self.loaded.clusters.retain(|cluster| wants(&cluster.name));
        let plan = &mut self.rendering.plan;
        for row in &mut plan.placements {
            row.clusters.retain(|placed| wants(&placed.name));
            row.withdrawn.retain(|name| wants(name));
            row.suspended.retain(|name| wants(name));
        }
        plan.placements.retain(|row| !row.clusters.is_empty() || !row.withdrawn.is_empty());
        plan.unmatched.clear();
        for manifest in &mut self.manifests {
            manifest.clusters.retain(|name| wants(name));
        }
        self.manifests.retain(|manifest| !manifest.clusters.is_empty());
    }

    /// The findings that the other side has not, wherever in its files they stand.
    fn beyond(&self, other: &Self) -> Vec<Row> {
        let known: BTreeSet<_> = other.findings.iter().map(same).collect();
        let new: Vec<Finding> = self.findings.iter().filter(|f| !known.contains(&same(f))).cloned().collect();
        findings::rows(&self.loaded.repo, &new)
    }
}

/// What makes a finding the same one in another revision: not its line, which moves.
fn same(finding: &Finding) -> impl Ord {
    let file = finding.origin.as_ref().map(|origin| origin.file.clone());
    (
        finding.severity,
        finding.code,
        file,
        finding.object.clone(),
        finding.pointer.clone(),
        finding.message.clone(),
    )
}

/// The key of digests: one that is given, so that runs can be compared, or a random one.
pub(super) fn digest_key() -> Result<DigestKey, Fault> {
    if let Some(key) = std::env::var_os("FEDERATE_DIGEST_KEY").filter(|key| !key.is_empty()) {
        return Ok(DigestKey::new(key.as_encoded_bytes()));
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|e| Fault::Failed(format!("no random numbers: {e}")))?;
    Ok(DigestKey::new(&key))
}
