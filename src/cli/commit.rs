//! `federate commit`

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use git2::Repository;
use serde::Serialize;

use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, print, print_value, say};
use federate_dialect::HOST;
use federate_engine::{Engine, Rendering, previous};
use federate_publish::Tree;
use federate_publish::branch::{self, Base, Built, Error, Folder, Identity, Layout, Pushed, Remote};
use federate_source::git::{self, Place};

mod message;

/// How often a commit is built anew because a branch moved meanwhile.
const ATTEMPTS: u32 = 10;

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

/// What one attempt came to.
enum Attempt {
    Done(Vec<Committed>, Exit),
    /// There are errors, and nothing was written.
    Refused,
    /// A branch moved meanwhile.
    Again(Error),
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
        let repository = place.open().map_err(|e| Fault::Failed(e.to_string()))?;
        let mut attempt = 1;
        loop {
            match self.attempt(&layout, &place, &repository)? {
                Attempt::Done(committed, exit) => {
                    self.show(&committed)?;
                    return Ok(exit);
                }
                Attempt::Refused => return Ok(Exit::Error),
                Attempt::Again(error) if attempt == ATTEMPTS => {
                    return Err(Fault::Failed(format!("{error}; gave up after {ATTEMPTS} attempts")));
                }
                Attempt::Again(error) => {
                    if !self.args.quiet {
                        say(&format!("{error}; trying again\n"));
                    }
                    std::thread::sleep(Duration::from_millis((20 << attempt).min(500)));
                    attempt += 1;
                }
            }
        }
    }

    fn attempt(&self, layout: &Layout, place: &Place, repository: &Repository) -> Result<Attempt, Fault> {
        let remote = self.push.clone().map(Remote);
        let theirs = match &remote {
            Some(remote) => remote.branches(repository, &layout.glob())?,
            None => Default::default(),
        };
        let tip = |branch: &str| match &remote {
            Some(remote) => remote.base(repository, branch, theirs.get(branch).copied()),
            None => branch::tip(repository, branch),
        };
        branch::not_checked_out(repository, &layout.home())?;
        let home = layout.read_home(repository, tip)?;
        let opened = self.args.open()?;
        let memory = self.args.memory(home.previous())?;
        let mut loaded = self.args.load_from(opened.source(), None, memory)?;
        let engine =
            Engine::new(federate_session::DIALECTS, &loaded.repo, &loaded.clusters, &loaded.settings);
        let read = std::mem::take(&mut loaded.findings);
        let rendering = self.args.render(&engine, &loaded.repo, read);
        if federate_engine::any_error(&rendering.findings) && !self.args.keep_going {
            say("nothing was committed; --keep-going leaves out what is in error and commits the rest\n");
            return Ok(Attempt::Refused);
        }
        let clusters = self.clusters(&rendering, &home);
        let bases = layout.read(repository, home, &clusters, tip)?;
        let manifests = rendering.standing(|object, cluster| bases.earlier(repository, object, cluster));
        let plan = previous::write(&rendering.plan);
        let source = message::Source::of(&opened, place);
        let trailers = source.trailers(&plan);
        let tree = Tree::new(plan, manifests).map_err(|e| Fault::Failed(e.to_string()))?;
        let built = bases.build(repository, layout, &tree, &rendering.plan)?;
        let subject = |built: &Built| match &self.message {
            Some(message) => message::with_trailers(message, &trailers),
            None => message::with_trailers(&source.message(&built.summary), &trailers),
        };
        match self.carry_out(repository, remote.as_ref(), &theirs, built, subject) {
            Ok(committed) => Ok(Attempt::Done(committed, outcome(&rendering.findings))),
            Err(error @ (Error::Moved(_) | Error::Locked(_))) => Ok(Attempt::Again(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Every cluster that has something, or had.
    fn clusters(&self, rendering: &Rendering, home: &Base) -> BTreeSet<String> {
        let rows = rendering.plan.placements.iter();
        let rows = rows.chain(home.previous().into_iter().flat_map(|plan| &plan.placements));
        let names = rows.flat_map(|row| row.clusters.iter().map(|placed| &placed.name).chain(&row.withdrawn));
        let wanted = names.filter(|name| self.args.wants(name)).map(ToString::to_string);
        wanted.chain([HOST.to_owned()]).collect()
    }

    /// Makes the commits, pushes them, and moves the branches.
    fn carry_out(
        &self,
        repository: &Repository,
        remote: Option<&Remote>,
        theirs: &std::collections::BTreeMap<String, git2::Oid>,
        built: Vec<Built>,
        message: impl Fn(&Built) -> String,
    ) -> Result<Vec<Committed>, Error> {
        for built in built.iter().filter(|built| built.tree.is_some()) {
            branch::not_checked_out(repository, &built.branch)?;
        }
        let commits = built.iter().any(|built| built.tree.is_some());
        let identity = commits.then(|| Identity::of(repository, self.author.as_deref())).transpose()?;
        let (mut committed, mut pushes, mut moves) = (Vec::new(), Vec::new(), Vec::new());
        for built in built {
            let commit = match (built.tree, &identity) {
                (Some(tree), Some(identity)) => {
                    let message = message(&built);
                    let commit = branch::Commit { tree, parent: built.base, identity, message: &message };
                    Some(branch::commit(repository, &commit)?)
                }
                _ => None,
            };
            let ours = branch::tip(repository, &built.branch)?;
            if let Some(to) = commit.or(built.base) {
                let remotely = theirs.get(&built.branch).copied();
                if remote.is_some() && remotely != Some(to) {
                    pushes.push(built.update(remotely, to));
                }
                // Without a remote the branch is as it was read; with one it may lag behind.
                let from = if remote.is_some() { ours } else { built.base };
                if from != Some(to) {
                    moves.push(built.update(from, to));
                }
            }
            committed.push(Committed::of(&built, commit));
        }
        if let Some(remote) = remote.filter(|_| !pushes.is_empty())
            && remote.push(repository, &pushes)? == Pushed::Moved
        {
            return Err(Error::Moved(self.branch.clone()));
        }
        for committed in &mut committed {
            committed.pushed = pushes.iter().any(|push| push.branch == committed.branch);
        }
        branch::advance(repository, &moves, "federate commit")?;
        Ok(committed)
    }

    fn show(&self, committed: &[Committed]) -> Result<(), Fault> {
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
        print(&committed.iter().map(|one| one.line(self.push.as_deref())).collect::<String>())
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
    branches: &'c [Committed],
}

/// What came of one branch.
#[derive(Serialize)]
struct Committed {
    branch: String,
    /// The new commit; `null` where there was nothing to commit.
    commit: Option<String>,
    /// Where the branch was.
    base: Option<String>,
    pushed: bool,
    created: usize,
    updated: usize,
    removed: usize,
    unchanged: usize,
    #[serde(skip)]
    summary: String,
}

impl Committed {
    fn of(built: &Built, commit: Option<git2::Oid>) -> Self {
        let summary = &built.summary;
        Self {
            branch: built.branch.clone(),
            commit: commit.map(|id| id.to_string()),
            base: built.base.map(|id| id.to_string()),
            pushed: false,
            created: summary.created(),
            updated: summary.updated(),
            removed: summary.removed(),
            unchanged: summary.unchanged(),
            summary: summary.to_string(),
        }
    }

    fn line(&self, remote: Option<&str>) -> String {
        let pushed = match remote.filter(|_| self.pushed) {
            Some(remote) => format!(", pushed to {}", git::program::without_credentials(remote)),
            None => String::new(),
        };
        let short = |id: &String| id.chars().take(8).collect::<String>();
        match (&self.commit, &self.base) {
            (Some(commit), _) => format!("{}: {} {}{pushed}\n", self.branch, short(commit), self.summary),
            (None, Some(base)) => {
                format!("{}: nothing to commit since {}{pushed}\n", self.branch, short(base))
            }
            (None, None) => format!("{}: nothing to commit\n", self.branch),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}
