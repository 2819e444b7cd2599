//! `federate init`

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::{Exit, Fault, print};
use federate_repo::Role;
use federate_session::{Options, Session};
use federate_source::WorkTree;
use federate_source::git::Place;

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
    /// The folder of the repo
    #[arg(default_value = ".")]
    repo: PathBuf,

    /// The control plane whose inventory and policies to write
    #[arg(long, value_enum)]
    dialect: Option<Dialect>,

    /// The names of the clusters
    #[arg(long = "cluster", value_name = "NAME", value_delimiter = ',', default_values = ["cluster-1", "cluster-2"])]
    clusters: Vec<String>,

    /// Write nothing; print the files
    #[arg(long)]
    dry_run: bool,
}

/// The dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dialect {
    /// Karmada
    Karmada,
    /// KubeAdmiral
    Kubeadmiral,
    /// KubeFleet and Azure Kubernetes Fleet Manager
    Kubefleet,
    /// KubeFed
    Kubefed,
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
        let session = Session::open(&tree, Options::default());
        let dialect = self.dialect.map_or_else(|| used(&session), |dialect| Ok(Some(dialect)))?;
        let new = self.files(&session, dialect);
        let mut out = String::new();
        for file in &new {
            if self.dry_run {
                out.push_str(&format!("# {}: {}\n{}\n", file.path.display(), file.what, file.text));
            } else {
                write(file)?;
                out.push_str(&format!("wrote {}: {}\n", file.path.display(), file.what));
            }
        }
        if new.is_empty() {
            out.push_str("the folder has clusters, policies and a workflow: nothing to write\n");
        }
        if !self.dry_run {
            out.push_str(&self.next(dialect, &session));
        }
        print(&out)?;
        Ok(Exit::Clean)
    }

    /// What is missing.
    fn files(&self, session: &Session, dialect: Option<Dialect>) -> Vec<NewFile> {
        let mut new = Vec::new();
        let path = |name: &str| if self.repo == Path::new(".") { name.into() } else { self.repo.join(name) };
        if session.clusters().is_empty() {
            let configured = dialect.is_none() && !path("federate.yaml").exists();
            let (name, text) = if configured {
                ("federate.yaml", files::config(&self.clusters))
            } else {
                ("clusters.yaml", files::inventory(dialect.unwrap_or(Dialect::Karmada), &self.clusters))
            };
            new.push(NewFile { path: path(name), what: "the clusters: set their labels and regions", text });
        }
        let places = |role| matches!(role, Role::Placement | Role::Bundle);
        if !session.repo().claimed.iter().any(|claimed| places(claimed.role)) {
            let templates = session.repo().templates.iter().map(|template| &template.object.id);
            if let Some(text) = files::policy(dialect.unwrap_or(Dialect::Karmada), templates) {
                let what = "a policy that places every object on every cluster";
                new.push(NewFile { path: path("policy.yaml"), what, text });
            }
        }
        new.extend(self.workflow());
        new.retain(|file| !file.path.exists());
        new
    }

    /// The workflow, unless the repository has one or is not on GitHub.
    fn workflow(&self) -> Option<NewFile> {
        let place = Place::of(&self.repo).ok()?;
        let root = place.work_tree.clone()?;
        if root.join(".gitlab-ci.yml").exists() || has_workflow(&root.join(".github/workflows")) {
            return None;
        }
        // A path that people can read, where the repo is at or below the current folder.
        let here = std::env::current_dir().and_then(fs::canonicalize).ok();
        let below = fs::canonicalize(&root).ok().filter(|root| Some(root) == here.as_ref());
        let root = if below.is_some() { PathBuf::new() } else { root };
        let folder = if place.prefix.is_empty() { "." } else { place.prefix.trim_end_matches('/') };
        Some(NewFile {
            path: root.join(".github/workflows/federate.yml"),
            what: "comments on pull requests, and commits to the branch `rendered` after the merge",
            text: files::workflow(folder),
        })
    }

    /// What to do next.
    fn next(&self, dialect: Option<Dialect>, session: &Session) -> String {
        let repo = self.repo.display();
        let repo = if self.repo == Path::new(".") { String::new() } else { format!(" {repo}") };
        let mut steps = Vec::new();
        if session.repo().templates.is_empty() {
            steps.push("add the manifests of your apps to the folder".to_owned());
        }
        match dialect {
            Some(Dialect::Kubeadmiral) => steps.push(
                "label each object that the policy should place: \
                 kubeadmiral.io/cluster-propagation-policy-name: everywhere"
                    .to_owned(),
            ),
            Some(Dialect::Kubefed) => steps.push(
                "KubeFed has no policies: `federate import -f FILE --as kubefed` wraps objects in federated ones"
                    .to_owned(),
            ),
            _ => {}
        }
        steps.push(format!("federate check{repo}               # errors and likely mistakes"));
        steps.push(format!("federate plan{repo}                # where each object is placed"));
        steps.push(format!("federate render{repo} --out out    # the manifests of each cluster"));
        let list: String = steps.iter().map(|step| format!("  {step}\n")).collect();
        format!("\nNext:\n{list}")
    }
}

/// The dialect of the policies and clusters in the folder, if they have one.
fn used(session: &Session) -> Result<Option<Dialect>, Fault> {
    let mut names: Vec<&str> = session.repo().claimed.iter().map(|claimed| claimed.dialect).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => Ok(None),
        [name] => Ok(Dialect::from_str(name, true).ok()),
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
