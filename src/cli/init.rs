//! `federate init`

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::builds::shared_builder;
use super::output::check_output;
use super::selection::SelectionArgs;
use super::{CommandError, Exit, print_text, print_unchanged, progress};
use federate_dialect::Starter;
use federate_dialects::DIALECTS;
use federate_engine::{DraftedInventory, draft_inventory};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::finding::join_names;
use federate_repo::{Repo, Role};
use federate_session::{DoubtfulCluster, Session, SessionOptions, ToolLayout};
use federate_source::WorkTree;

mod files;
mod forge;
mod gitops_tools;
mod sources;

use forge::ForgeChoice;
use sources::ProposedSources;

/// Add what a folder of manifests needs: clusters, a policy and a CI workflow
///
/// Looks at the folder, and writes only what is missing. Files that exist are never changed.
///
/// The inventory has the clusters that the policies and overrides name, and one for what else they select by: labels,
/// regions, zones, providers. If they say nothing about clusters, --cluster names them. Without a policy, init writes one that
/// places every object on every cluster. Charts, and kustomizations of which one must be chosen, are listed under `sources` in
/// federate.yaml; where that file exists, the lines are printed. The CI workflow previews changes and publishes the manifests: GitHub's, or
/// GitLab's if that is where the repository is.
///
/// Without --dialect, the dialect is that of the objects in the folder; if there are none, the clusters are listed in
/// federate.yaml, and the policy is one of Karmada, which needs no control plane.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct InitCommand {
    /// The repo: a folder with manifests
    #[arg(default_value = ".")]
    repo: PathBuf,

    #[command(flatten)]
    selection: SelectionArgs,

    /// The control plane whose inventory and policies to write
    #[arg(long, value_parser = PossibleValuesParser::new(DIALECTS.names()))]
    dialect: Option<String>,

    /// The names of the clusters, beside those that the policies name
    #[arg(long = "cluster", value_name = "NAME", value_delimiter = ',')]
    clusters: Vec<String>,

    /// The CI workflow to write [default: by the repository's remote and files]
    #[arg(long, value_enum)]
    ci: Option<ForgeChoice>,

    /// Write nothing; print the files
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  federate init examples/karmada-nginx --dry-run
  federate init examples/sync --cluster eu-1 us-1 --dialect kubefleet --dry-run";

/// A file to write.
struct NewFile {
    /// The path, from the current folder.
    path: PathBuf,
    /// What it is, for the user.
    what: String,
    text: String,
}

/// What the folder has already, and what it lacks.
struct Situation<'s> {
    session: &'s Session,
    /// The dialect of the objects, if they have one.
    dialect: Option<String>,
    has_clusters: bool,
    has_policies: bool,
}

impl InitCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        for name in &self.clusters {
            federate_kubernetes::names::safe_cluster(name).map_err(|why| {
                CommandError::Failed(format!("the cluster name {name:?} is refused: {why}"))
            })?;
        }
        let session = self.open_session()?;
        let situation = self.read_situation(&session)?;
        self.refuse_options_without_effect(&situation)?;
        let has_no_control_plane = situation.dialect.is_none();
        let layout = if has_no_control_plane || (self.dialect.is_none() && !situation.has_policies) {
            session.find_tool_layout()
        } else {
            session.find_decision_layout()
        };
        let mut names = self.clusters.clone();
        names.extend(layout.iter().flat_map(|layout| layout.clusters.iter().cloned()));
        names.sort();
        names.dedup();
        let drafted = if situation.has_clusters {
            DraftedInventory::default()
        } else {
            draft_inventory(DIALECTS, session.repo(), if layout.is_some() { &names } else { &self.clusters })
        };
        let lacks_own =
            self.clusters.is_empty() && layout.as_ref().is_some_and(|layout| layout.is_one_cluster);
        if !situation.has_clusters && (drafted.clusters.is_empty() || lacks_own) {
            return Err(self.no_clusters_named(&session, layout.as_ref()));
        }
        let proposed = ProposedSources::new(&session, &drafted.clusters, layout.as_ref());
        // What charts seem to give is to be placed, too.
        let templates: Vec<&ObjectRef> = session
            .repo()
            .templates
            .iter()
            .map(|template| &template.object.id)
            .chain(proposed.objects())
            .collect();
        let starter = DIALECTS.get(situation.dialect.as_deref().unwrap_or("karmada"));
        let starter = starter
            .map(|dialect| dialect.advice().build_starter(&drafted.clusters, &templates))
            .unwrap_or_default();
        let ci = forge::draft_workflow(&self.repo, self.ci);
        let mut new = self.repo_files(&situation, &drafted, &starter, &proposed)?;
        let source_ignore = gitops_tools::draft_source_ignore(&self.repo, &new);
        let flux_ignores = source_ignore.is_some();
        let in_repo = new.len();
        new.extend(source_ignore);
        new.extend(ci.files);
        let mut out = String::new();
        for file in &new {
            if self.dry_run {
                out.push_str(&format!("==> {} ({}) <==\n{}\n", file.path.display(), file.what, file.text));
            } else {
                check_output(&file.path, &self.repo)?;
                write_new_file(file)?;
                out.push_str(&format!("wrote {}: {}\n", file.path.display(), file.what));
            }
        }
        if new.is_empty() {
            out.push_str("the folder has clusters, policies and a workflow: nothing to write\n");
        }
        let mut notes = Self::inventory_notes(&drafted);
        notes.extend(layout.iter().flat_map(|layout| layout.doubtful.iter()).map(DoubtfulCluster::describe));
        notes.extend(proposed.list_notes(new.iter().any(|file| is_config(&file.path))));
        if layout.is_some_and(|layout| layout.uses_own_cluster)
            && session.repo().config.argocd.cluster.is_none()
            && !(proposed.uses_own_cluster() && drafted.clusters.len() == 1)
        {
            notes.push(
                "Applications go to the cluster in which Argo CD runs: name it in federate.yaml with `argocd: {cluster: NAME}`"
                    .to_owned(),
            );
        }
        notes.extend(ci.notes);
        let of_repo = new.get(..in_repo).unwrap_or_default();
        notes.extend(gitops_tools::collect_notes(&self.repo, of_repo, flux_ignores));
        if !self.dry_run {
            notes.extend(self.open_ends(&situation)?);
        }
        if !notes.is_empty() {
            out.push('\n');
        }
        for note in &notes {
            out.push_str(&format!("note: {note}\n"));
        }
        if !self.dry_run {
            out.push_str(&self.next_steps(&starter, &situation, &proposed));
        }
        if self.dry_run {
            print_unchanged(&out)?;
        } else {
            print_text(&out)?;
        }
        Ok(Exit::Clean)
    }

    fn open_session(&self) -> Result<Session, CommandError> {
        let tree = WorkTree::open(&self.repo).map_err(|e| CommandError::Failed(e.message))?;
        let read = self.selection.read_options(&self.repo, &tree, None)?;
        let builder = Some(shared_builder());
        progress::start_line("reading the folder");
        Ok(Session::open(&tree, SessionOptions::new(DIALECTS).with_read(read).with_builder(builder)))
    }

    fn read_situation<'s>(&self, session: &'s Session) -> Result<Situation<'s>, CommandError> {
        let dialect = match &self.dialect {
            Some(dialect) => Some(dialect.clone()),
            None => used_dialect(session)?,
        };
        let roles: Vec<Role> = session.repo().claimed.iter().map(|claimed| claimed.role).collect();
        let has_policies = roles.contains(&Role::Placement) || roles.contains(&Role::Bundle);
        let claims_inventory = roles.contains(&Role::Inventory);
        let has_clusters = !session.clusters().is_empty() || claims_inventory;
        Ok(Situation { session, dialect, has_clusters, has_policies })
    }

    /// Refuses options that would change nothing.
    fn refuse_options_without_effect(&self, situation: &Situation<'_>) -> Result<(), CommandError> {
        let names = situation.session.clusters().iter().map(|cluster| cluster.name.as_ref());
        let names: Vec<&str> = names.collect();
        if situation.has_clusters && !self.clusters.is_empty() {
            return Err(CommandError::Failed(format!(
                "--cluster has no effect: the repo has an inventory with {}; add the cluster there, or leave --cluster out",
                join_names(&names, 10)
            )));
        }
        if situation.has_clusters && situation.has_policies && self.dialect.is_some() {
            return Err(CommandError::Failed(
                "--dialect has no effect: the repo has clusters and policies, and init changes no file; leave --dialect \
                 out"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// The error about a repo that says nothing about clusters.
    fn no_clusters_named(&self, session: &Session, layout: Option<&ToolLayout>) -> CommandError {
        let repo = self.repo_argument();
        let what = if session.repo().claimed.is_empty() {
            "the repo has no inventory and no policy"
        } else {
            "the repo has no inventory, and its policies name no cluster and select by no label, region or zone"
        };
        let guessed = session.guess_clusters();
        let (names, why) = match guessed.iter().map(String::as_str).collect::<Vec<_>>().join(",") {
            _ if layout.is_some_and(|layout| layout.is_one_cluster) => {
                ("NAME".to_owned(), "name the cluster in which Flux runs")
            }
            _ if layout.is_some_and(|layout| layout.uses_own_cluster) => {
                ("NAME".to_owned(), "name the cluster in which Argo CD runs")
            }
            names if names.is_empty() => ("NAME,NAME".to_owned(), "their names"),
            names => (names, "as the folders of kustomizations are named"),
        };
        CommandError::Failed(format!(
            "which clusters there are is not known: {what}\n  federate init{repo} --cluster {names}   # {why}\n  \
             federate snapshot{repo} --hub-context CONTEXT --out snapshot   # or read them from a control plane; then add \
             `--snapshot snapshot` to each command"
        ))
    }

    /// The folder for the files: that of the repo, or the first one that is read.
    fn find_target_folder(&self) -> PathBuf {
        let paths = self.selection.paths_in(&self.repo);
        let read = paths.iter().map(|path| self.repo.join(path)).find(|path| path.is_dir());
        match read {
            Some(folder) => folder,
            None if self.repo == Path::new(".") => PathBuf::new(),
            None => self.repo.clone(),
        }
    }

    /// The files that are missing in the repo. A repo of no dialect lists its clusters in `federate.yaml`.
    fn repo_files(
        &self,
        situation: &Situation<'_>,
        drafted: &DraftedInventory,
        starter: &Starter,
        proposed: &ProposedSources<'_>,
    ) -> Result<Vec<NewFile>, CommandError> {
        let mut new = Vec::new();
        let config = self.repo.join(federate_repo::config::DEFAULT_FILE_NAME);
        let has_config = situation.session.repo().config_path.is_some() || config.exists();
        let config = if self.repo == Path::new(".") {
            PathBuf::from(federate_repo::config::DEFAULT_FILE_NAME)
        } else {
            config
        };
        let lists_clusters = !situation.has_clusters && situation.dialect.is_none();
        // Policies of Karmada place nothing in namespaces that it reserves, and where no control plane is, nothing is reserved.
        let is_reserved =
            |id: &ObjectRef| id.namespace.as_deref().is_some_and(|namespace| namespace.starts_with("kube-"));
        let mut templates = situation.session.repo().templates.iter();
        let places_all = lists_clusters
            && !has_config
            && !proposed.have_destinations()
            && templates.any(|template| is_reserved(&template.object.id));
        if !situation.has_clusters {
            let from_policies = drafted.clusters.iter().any(|cluster| !self.clusters.contains(&cluster.name));
            let what = if proposed.have_destinations() {
                "the clusters that the objects of Flux and Argo CD name".to_owned()
            } else if from_policies {
                "the clusters that the policies name and select".to_owned()
            } else {
                "the clusters: set their labels and regions".to_owned()
            };
            if lists_clusters && !has_config {
                let what = if proposed.entries().is_empty() {
                    what
                } else {
                    format!("{what}; and {}", proposed.describe())
                };
                let text = files::format_config(&drafted.clusters, proposed, places_all);
                new.push(NewFile { path: config.clone(), what, text });
            } else {
                let path = self.free_path(&["clusters.yaml", "inventory.yaml", "federate-clusters.yaml"])?;
                new.push(NewFile { path, what, text: files::format_yaml(&starter.inventory) });
            }
        }
        if !has_config && !lists_clusters && !proposed.entries().is_empty() {
            let text = files::format_config(&[], proposed, false);
            new.push(NewFile { path: config, what: proposed.describe().to_owned(), text });
        }
        let needs_policy = !situation.has_policies && !places_all && !proposed.have_destinations();
        if let Some(policy) = starter.policy.as_ref().filter(|_| needs_policy) {
            let what = "a policy that places every object on every cluster".to_owned();
            let text = files::format_yaml(std::slice::from_ref(policy));
            let path = self.free_path(&["policy.yaml", "placement.yaml", "federate-policy.yaml"])?;
            new.push(NewFile { path, what, text });
        }
        Ok(new)
    }

    /// The first of these names that no file has.
    fn free_path(&self, names: &[&str]) -> Result<PathBuf, CommandError> {
        let folder = self.find_target_folder();
        let free =
            names.iter().map(|name| folder.join(name)).find(|path| fs::symlink_metadata(path).is_err());
        free.ok_or_else(|| {
            CommandError::Failed(format!(
                "the files {} exist, and init changes no file: rename one",
                names.join(", ")
            ))
        })
    }

    /// What is to be known about the drafted inventory.
    fn inventory_notes(drafted: &DraftedInventory) -> Vec<String> {
        let mut notes = Vec::new();
        if !drafted.placeholders.is_empty() {
            let names: Vec<&str> = drafted.placeholders.iter().map(String::as_str).collect();
            notes.push(format!(
                "policies select by labels or regions without naming clusters: {} {} for those of yours that have them; \
                 rename {}, or name them with --cluster",
                join_names(&names, 10),
                if names.len() == 1 { "stands" } else { "stand" },
                if names.len() == 1 { "it" } else { "them" },
            ));
        }
        notes.extend(drafted.unmet.iter().map(|(object, name)| {
            format!("{object} selects the cluster {name} by properties that it cannot have besides those that others select it by")
        }));
        let mut undrafted: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (object, property) in &drafted.undrafted {
            undrafted.entry(property).or_default().push(object.to_string());
        }
        notes.extend(undrafted.iter().map(|(property, objects)| {
            let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
            format!(
                "{} by the property {property}, which only the status of clusters has: take it from the control plane with \
                 `federate snapshot`, or write it below `status.properties` of the MemberClusters",
                join_names(&objects, 3) + if objects.len() == 1 { " selects clusters" } else { " select clusters" }
            )
        }));
        notes
    }

    /// What stays open after the files are written: files that are not read, and objects that are placed nowhere.
    fn open_ends(&self, situation: &Situation<'_>) -> Result<Vec<String>, CommandError> {
        let session = self.open_session()?;
        if session.clusters().is_empty() {
            let why = "the inventory is not read: an ignore file, or `paths` or `exclude` in federate.yaml, leaves it out";
            return Ok(vec![why.to_owned()]);
        }
        if situation.has_clusters {
            return Ok(Vec::new());
        }
        let nowhere = session.plan().placements.iter().filter_map(|row| {
            let why = row.unschedulable.as_ref()?;
            Some(format!("{} is placed nowhere with these clusters: {}", row.object, why.message))
        });
        Ok(nowhere.take(MAX_UNPLACED).collect())
    }

    /// The repo as an argument of commands.
    fn repo_argument(&self) -> String {
        if self.repo == Path::new(".") { String::new() } else { format!(" {}", self.repo.display()) }
    }

    /// What to do next.
    fn next_steps(
        &self,
        starter: &Starter,
        situation: &Situation<'_>,
        proposed: &ProposedSources<'_>,
    ) -> String {
        let repo = self.repo_argument();
        let mut steps = Vec::new();
        if !has_manifests(situation.session.repo(), proposed) {
            steps.push("add the manifests of your apps to the folder".to_owned());
        }
        steps.extend(starter.note.filter(|_| !situation.has_policies).map(str::to_owned));
        steps.push(format!("federate check{repo}               # errors and likely mistakes"));
        steps.push(format!("federate plan{repo}                # where each object is placed"));
        steps.push(format!("federate render{repo} --out out    # the manifests of each cluster"));
        format!("\nNext:\n  {}\n", steps.join("\n  "))
    }
}

/// Whether the folder has manifests: as they are, in bundles of a control plane, or built from sources that it describes.
fn has_manifests(repo: &Repo, proposed: &ProposedSources<'_>) -> bool {
    !repo.templates.is_empty()
        || !repo.builds.is_empty()
        || !repo.describing.is_empty()
        || repo.claimed.iter().any(|claimed| claimed.role == Role::Bundle)
        || proposed.objects().next().is_some()
}

/// Whether a file is the configuration.
fn is_config(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == federate_repo::config::DEFAULT_FILE_NAME)
}

/// How many objects that are placed nowhere are named.
const MAX_UNPLACED: usize = 5;

/// The dialect of the policies and clusters in the folder, if they have one.
fn used_dialect(session: &Session) -> Result<Option<String>, CommandError> {
    let claimed = session.repo().claimed.iter().map(|claimed| claimed.dialect);
    let mut names: Vec<&str> = claimed.filter(|name| session.dialects().get(name).is_some()).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some((*name).to_owned())),
        several => Err(CommandError::Failed(format!(
            "the folder has objects of {}: choose one with --dialect",
            several.join(" and ")
        ))),
    }
}

/// Writes a file that does not exist yet.
fn write_new_file(file: &NewFile) -> Result<(), CommandError> {
    let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).open(&file.path))
        .and_then(|mut opened| opened.write_all(file.text.as_bytes()))
        .map_err(|e| CommandError::Failed(format!("cannot write {}: {e}", file.path.display())))
}
