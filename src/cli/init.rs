//! `federate init`

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::output::check_output;
use super::{Exit, Fault, print};
use federate_control_planes::DIALECTS;
use federate_dialect::Starter;
use federate_kubernetes::ObjectRef;
use federate_repo::Role;
use federate_session::{Options, Session};
use federate_source::WorkTree;
use federate_source::git::{self, GitLocation};

mod files;

/// Add what a folder of manifests needs: clusters, a policy and a CI workflow
///
/// Looks at the folder, and writes only what is missing: an inventory, one policy that places every object on every
/// cluster, and a GitHub workflow that previews pull requests. Files that exist are never changed. Without
/// --dialect, the dialect is that of the objects in the folder; if there are none, the clusters are listed in
/// federate.yaml, and the policy is one of Karmada, which needs no control plane.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Init {
    /// The repo: a folder with manifests
    #[arg(default_value = ".")]
    repo: PathBuf,

    /// The control plane whose inventory and policies to write
    #[arg(long, value_parser = PossibleValuesParser::new(DIALECTS.names()))]
    dialect: Option<String>,

    /// The names of the clusters
    #[arg(long = "cluster", value_name = "NAME", value_delimiter = ',', default_values = ["cluster-1", "cluster-2"])]
    clusters: Vec<String>,

    /// Write nothing; print the files
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  federate init examples/repo --cluster eu-1 us-1
  federate init examples/repo --dialect kubefleet --dry-run";

/// A file to write.
struct NewFile {
    /// The path, from the current folder.
    path: PathBuf,
    /// What it is, for the user.
    what: &'static str,
    text: String,
}

impl Init {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        for name in &self.clusters {
            federate_kubernetes::names::safe_cluster(name)
                .map_err(|why| Fault::Failed(format!("the cluster name {name:?} is refused: {why}")))?;
        }
        let tree = WorkTree::open(&self.repo).map_err(|e| Fault::Failed(e.message))?;
        let session = Session::open(&tree, Options::new(DIALECTS));
        let dialect = match &self.dialect {
            Some(dialect) => Some(dialect.clone()),
            None => used(&session)?,
        };
        let templates: Vec<&ObjectRef> =
            session.repo().templates.iter().map(|template| &template.object.id).collect();
        let starter = DIALECTS.get(dialect.as_deref().unwrap_or("karmada"));
        let starter = starter.map(|one| one.starter(&self.clusters, &templates)).unwrap_or_default();
        let new = self.files(&session, &starter, dialect.is_none());
        let mut out = String::new();
        for file in &new {
            if self.dry_run {
                out.push_str(&format!("==> {} ({}) <==\n{}\n", file.path.display(), file.what, file.text));
            } else {
                check_output(&file.path, &self.repo)?;
                write(file)?;
                out.push_str(&format!("wrote {}: {}\n", file.path.display(), file.what));
            }
        }
        if new.is_empty() {
            out.push_str("the folder has clusters, policies and a workflow: nothing to write\n");
        }
        if !self.dry_run {
            out.push_str(&self.next(&starter, &session));
        }
        print(&out)?;
        Ok(Exit::Clean)
    }

    /// What is missing. A repo of no dialect lists its clusters in `federate.yaml`.
    fn files(&self, session: &Session, starter: &Starter, no_dialect: bool) -> Vec<NewFile> {
        let mut new = Vec::new();
        let path = |name: &str| if self.repo == Path::new(".") { name.into() } else { self.repo.join(name) };
        if session.clusters().is_empty() {
            let (name, text) = if no_dialect && !path("federate.yaml").exists() {
                ("federate.yaml", files::config(&self.clusters))
            } else {
                ("clusters.yaml", files::yaml(&starter.inventory))
            };
            new.push(NewFile { path: path(name), what: "the clusters: set their labels and regions", text });
        }
        let places = |role| matches!(role, Role::Placement | Role::Bundle);
        let placed = session.repo().claimed.iter().any(|claimed| places(claimed.role));
        if let Some(policy) = starter.policy.as_ref().filter(|_| !placed) {
            let what = "a policy that places every object on every cluster";
            let text = files::yaml(std::slice::from_ref(policy));
            new.push(NewFile { path: path("policy.yaml"), what, text });
        }
        new.extend(self.workflow());
        new.retain(|file| !file.path.exists());
        new
    }

    /// The workflow, unless the repository has one or is not on GitHub.
    fn workflow(&self) -> Option<NewFile> {
        let place = GitLocation::of(&self.repo).ok()?;
        let root = place.work_tree.clone()?;
        if root.join(".gitlab-ci.yml").exists() || has_workflow(&root.join(".github/workflows")) {
            return None;
        }
        // A path that people can read, where the repo is at or below the current folder.
        let here = std::env::current_dir().and_then(fs::canonicalize).ok();
        let below = fs::canonicalize(&root).ok().filter(|root| Some(root) == here.as_ref());
        let root = if below.is_some() { PathBuf::new() } else { root };
        let folder = if place.prefix.is_empty() { "." } else { place.prefix.trim_end_matches('/') };
        let default = place.open().ok().and_then(|repository| git::default_branch(&repository));
        let branch = default.as_deref().map_or("main", |name| name.trim_start_matches("origin/"));
        Some(NewFile {
            path: root.join(".github/workflows/federate.yml"),
            what: "comments on pull requests, and commits to the branch `rendered` after the merge",
            text: files::workflow(folder, branch),
        })
    }

    /// What to do next.
    fn next(&self, starter: &Starter, session: &Session) -> String {
        let repo = self.repo.display();
        let repo = if self.repo == Path::new(".") { String::new() } else { format!(" {repo}") };
        let mut steps = Vec::new();
        if session.repo().templates.is_empty() {
            steps.push("add the manifests of your apps to the folder".to_owned());
        }
        steps.extend(starter.note.map(str::to_owned));
        steps.push(format!("federate check{repo}               # errors and likely mistakes"));
        steps.push(format!("federate plan{repo}                # where each object is placed"));
        steps.push(format!("federate render{repo} --out out    # the manifests of each cluster"));
        format!("\nNext:\n  {}\n", steps.join("\n  "))
    }
}

/// The dialect of the policies and clusters in the folder, if they have one.
fn used(session: &Session) -> Result<Option<String>, Fault> {
    let mut names: Vec<&str> = session.repo().claimed.iter().map(|claimed| claimed.dialect).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some((*name).to_owned())),
        several => Err(Fault::Failed(format!(
            "the folder has objects of {}: choose one with --dialect",
            several.join(" and ")
        ))),
    }
}

/// Whether a workflow uses the action.
fn has_workflow(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let uses =
        |path: PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("federate-dev/federate"));
    entries.flatten().any(|entry| uses(entry.path()))
}

/// Writes a file that does not exist yet.
fn write(file: &NewFile) -> Result<(), Fault> {
    let write = || {
        if let Some(folder) = file.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        OpenOptions::new().write(true).create_new(true).open(&file.path)?.write_all(file.text.as_bytes())
    };
    write().map_err(|e| Fault::Failed(format!("cannot write {}: {e}", file.path.display())))
}
