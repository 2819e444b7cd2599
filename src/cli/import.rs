//! `federate import`

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::settings::{OutputFormat, exit_for_findings};
use super::{CommandError, Exit, print_notice, print_unchanged, print_value, use_color};
use federate_dialect::import::{
    ImportEdit, ImportOutcome, Importer, ObjectImportOptions as ImportOptions, PolicyName,
};
use federate_dialects::DIALECTS;
use federate_engine::any_error;
use federate_engine::import::{self, FileImportResult, ImportedObject};
use federate_kubernetes::names::is_name_part;
use federate_publish::file;
use federate_repo::{Repo, RepoFile, Role};
use federate_report::findings;
use federate_session::{Session, SessionOptions};
use federate_source::WorkTree;
use federate_source::git::GitLocation;

pub(super) mod args;

/// The file name that stands for standard input.
const STDIN: &str = "-";

/// Import live objects into the repo as templates, for adoption without a restart
///
/// With --context, federate reads objects from that cluster and writes them into the repo. With -f, it reads
/// files that hold the output of `kubectl get -o yaml`. It removes what servers and controllers wrote
/// (status, uid, resourceVersion, the clusterIP of a Service, …) and adds what adoption needs: for
/// KubeAdmiral the policy label and annotations, for Karmada an annotation, for KubeFleet nothing. The pod
/// template stays unchanged, so no pod restarts. For KubeFed, federate generates the federated objects
/// instead, and for Open Cluster Management a `ManifestWorkReplicaSet` for each object, which refers to the
/// placement that --policy names.
///
/// From a cluster, each object gets its own file, `KIND_NAME.yaml`, in the folder that holds objects of the
/// same kind and namespace, or else of the same namespace, or else in a folder named after the namespace. No
/// other file changes. An object that is already in the repo stays unchanged; with --update, it is set to the
/// live state. Objects that other tools create or manage (owner references, Helm, Argo CD, Flux, ApplySets,
/// the cluster itself) are skipped with a warning, or refused if you name them. Secrets are imported only by
/// name. If there is any error, nothing is written.
///
/// From files, each object keeps its text, including comments and order, and is printed, or written back with
/// --in-place. A second import changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ImportCommand {
    /// The files to read; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 1.., required_unless_present = "context")]
    files: Vec<PathBuf>,

    /// The control plane that will adopt the objects [default: that of the policies in the repo, or else
    /// kubeadmiral]
    #[arg(long = "as", value_name = "DIALECT")]
    dialect: Option<String>,

    /// The propagation policy that places them, in the namespace of each object
    ///
    /// For cluster-scoped objects, it is a cluster propagation policy.
    #[arg(long, value_name = "NAME", conflicts_with = "cluster_policy")]
    policy: Option<String>,

    /// The cluster propagation policy that places them, namespaced objects included
    #[arg(long, value_name = "NAME")]
    cluster_policy: Option<String>,

    /// The clusters that adopt running objects [default: that of --context; with -f all]
    #[arg(long = "cluster", value_name = "NAME", value_delimiter = ',')]
    clusters: Vec<String>,

    /// Write each file back instead of printing it
    #[arg(long, short, conflicts_with = "context")]
    in_place: bool,

    /// Enable the types of the given CRDs, as `kubefedctl enable` does, instead of federating objects (KubeFed)
    #[arg(long)]
    enable: bool,

    /// Print the objects as YAML without writing files, or a summary as JSON [default: the objects with -f,
    /// the written files with --context]
    #[arg(long, short, value_enum)]
    pub(super) output: Option<Show>,

    /// Print no warnings
    #[arg(long, short)]
    pub(super) quiet: bool,

    #[command(flatten)]
    pub(super) live: args::LiveArgs,
}

const EXAMPLES: &str = "\
Examples:
  federate import deploy,svc -n shop --context eu-1 --repo examples/repo
  federate import deploy/checkout -n shop --context eu-1 --as karmada --minimal -o yaml
  kubectl get deploy,svc -n shop -o yaml | federate import -f - --policy checkout > live.yaml
  federate import -f live.yaml --policy checkout --cluster eu-1 eu-2 --in-place
  federate import -f live.yaml --as kubefed
  federate import -f live.yaml --as ocm --policy everywhere
  kubectl get crds -o yaml | federate import -f - --as kubefed --enable";

/// What goes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Show {
    /// The files, or the generated objects
    Yaml,
    /// A summary of what was done with each object
    Json,
}

impl ImportCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let dialect = self.choose_dialect()?;
        let importer = import::find_importer(DIALECTS, &dialect).map_err(|known| {
            CommandError::Failed(format!(
                "`{dialect}` cannot import objects; --as can be {}",
                known.join(", ")
            ))
        })?;
        self.validate_options(&importer)?;
        if let Some(context) = &self.live.context {
            return self.import_live(context, &importer);
        }
        let files: Vec<RepoFile> = self.files.iter().map(|path| read_file(path)).collect::<Result<_, _>>()?;
        let mut taken = import::import_files(&files, &importer, &self.to_import_options());
        self.report_findings(&files, &mut taken);
        if any_error(&taken.findings) {
            return Ok(Exit::Error);
        }
        if self.in_place {
            self.write_files(&files, &taken)?;
        }
        match self.output {
            Some(Show::Json) => print_value(&summarize_objects(&taken), OutputFormat::Json)?,
            _ if self.in_place => {}
            _ => print_unchanged(&format_documents(&taken))?,
        }
        self.print_note(&importer);
        Ok(exit_for_findings(&taken.findings))
    }

    /// The dialect that `--as` names, or else that of the policies in the repo, or of its clusters if it has no policies.
    /// Outside of a repository, objects from files belong to no repo.
    fn choose_dialect(&self) -> Result<String, CommandError> {
        if let Some(dialect) = &self.dialect {
            return Ok(dialect.clone());
        }
        let repo = &self.live.repo;
        let known = self.live.context.is_some() || GitLocation::discover_around(repo).is_ok();
        let tree = WorkTree::open(repo).ok().filter(|_| known);
        let session = tree.map(|tree| Session::open(&tree, SessionOptions::new(DIALECTS)));
        let (mut policies, mut inventory) = (BTreeSet::new(), BTreeSet::new());
        for claimed in session.iter().flat_map(|session| &session.repo().claimed) {
            match claimed.role {
                Role::ControlPlane => false,
                _ if DIALECTS.get(claimed.dialect).is_none() => false,
                Role::Inventory => inventory.insert(claimed.dialect),
                _ => policies.insert(claimed.dialect),
            };
        }
        let names: Vec<&str> = if policies.is_empty() { inventory } else { policies }.into_iter().collect();
        match names.as_slice() {
            [] => Ok("kubeadmiral".to_owned()),
            [one] => Ok((*one).to_owned()),
            // Only KubeAdmiral's objects name their policy.
            several if self.policy.is_some() && several.contains(&"kubeadmiral") => {
                Ok("kubeadmiral".to_owned())
            }
            several => Err(CommandError::Failed(format!(
                "the repo {} has objects of {}: choose one with --as",
                repo.display(),
                several.join(" and ")
            ))),
        }
    }

    /// Refuses options that do not apply to the dialect.
    fn validate_options(&self, importer: &Importer) -> Result<(), CommandError> {
        let marks = self.policy.is_some() || self.cluster_policy.is_some() || !self.clusters.is_empty();
        if let Some(why) = importer.unnamed.filter(|_| marks) {
            return Err(CommandError::Failed(format!(
                "{why}: leave out --policy, --cluster-policy and --cluster, or name another control plane with --as"
            )));
        }
        if let Some(why) = importer.everywhere.filter(|_| !self.clusters.is_empty()) {
            return Err(CommandError::Failed(format!("{why}: leave out --cluster")));
        }
        if importer.wraps && self.in_place {
            return Err(CommandError::Failed(
                "the import wraps objects in new ones, so there is no file to change: leave out --in-place"
                    .to_owned(),
            ));
        }
        if !importer.enables_types && self.enable {
            return Err(CommandError::Failed("--enable works only for KubeFed: add --as kubefed".to_owned()));
        }
        if importer.unnamed.is_none() && self.policy.is_none() && self.cluster_policy.is_none() {
            let why = "name the policy that places the objects: --policy NAME or --cluster-policy NAME";
            return Err(CommandError::Failed(why.to_owned()));
        }
        for name in self.policy.iter().chain(&self.cluster_policy) {
            if !is_label_value(name) {
                return Err(CommandError::Failed(format!(
                    "`{name}` is not a valid policy name: it becomes a label value, so it can have at most 63 letters, \
                     digits, `-`, `_` and `.`, and must start and end with a letter or digit"
                )));
            }
        }
        if self.in_place && self.files.iter().any(|path| path == Path::new(STDIN)) {
            let why = "federate cannot write back to standard input: leave out --in-place";
            return Err(CommandError::Failed(why.to_owned()));
        }
        Ok(())
    }

    /// Prints what else adoption needs.
    pub(super) fn print_note(&self, importer: &Importer) {
        if let Some(note) = importer.note.filter(|_| !self.quiet) {
            print_notice(&format!("note: {note}\n"));
        }
    }

    pub(super) fn to_import_options(&self) -> ImportOptions {
        let beside = self.policy.clone().map(PolicyName::Beside);
        let policy = beside.or_else(|| self.cluster_policy.clone().map(PolicyName::OfCluster));
        ImportOptions { policy, clusters: self.clusters.clone(), enable: self.enable, dialects: DIALECTS }
    }

    fn report_findings(&self, files: &[RepoFile], taken: &mut FileImportResult) {
        findings::sort_findings(&mut taken.findings);
        let texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
        let repo = Repo { texts, ..Repo::default() };
        if self.quiet && !any_error(&taken.findings) {
            return;
        }
        print_notice(&findings::format_text(&repo, &taken.findings, DIALECTS, use_color(&std::io::stderr())));
    }

    /// Writes the changed files back.
    fn write_files(&self, files: &[RepoFile], taken: &FileImportResult) -> Result<(), CommandError> {
        for ((path, before), after) in self.files.iter().zip(files).zip(&taken.files) {
            let same = *before.bytes == *after.text;
            let written =
                if same { file::remove_leftovers(path) } else { file::replace_content(path, &after.text) };
            written
                .map_err(|error| CommandError::Failed(format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(())
    }
}

pub(super) fn read_file(path: &Path) -> Result<RepoFile, CommandError> {
    if path.is_dir() {
        return Err(CommandError::Failed(format!("{} is a folder, but -f takes files", path.display())));
    }
    let mut bytes = Vec::new();
    let (name, read) = if path == Path::new(STDIN) {
        ("<stdin>".into(), std::io::stdin().lock().read_to_end(&mut bytes).map(drop))
    } else {
        (path.to_string_lossy(), fs::read(path).map(|read| bytes = read))
    };
    read.map_err(|error| CommandError::Failed(format!("{name}: {error}")))?;
    Ok(RepoFile { path: name.as_ref().into(), bytes: bytes.into() })
}

/// Whether the text is a valid label value.
fn is_label_value(text: &str) -> bool {
    text.len() <= 63 && is_name_part(text)
}

/// All files, or all generated objects, as one YAML stream.
fn format_documents(taken: &FileImportResult) -> String {
    let mut documents = Vec::new();
    for file in &taken.files {
        let mut made = file.objects.iter().filter_map(|taken| match &taken.imported {
            ImportOutcome::Objects(objects) => Some(objects),
            ImportOutcome::Edits(_) => None,
        });
        match made.next() {
            None => documents.push(String::from_utf8_lossy(&file.text).into_owned()),
            Some(first) => {
                for object in std::iter::once(first).chain(made).flatten() {
                    let mut document = String::new();
                    federate_yaml::write_document(object, &mut document);
                    documents.push(document);
                }
            }
        }
    }
    let mut out = String::new();
    for document in documents {
        if !out.is_empty() {
            out.push_str(if out.ends_with('\n') { "" } else { "\n" });
            out.push_str(if document.starts_with("---") { "" } else { "---\n" });
        }
        out.push_str(&document);
    }
    out
}

/// The machine-readable summary.
fn summarize_objects(taken: &FileImportResult) -> Value {
    let objects: Vec<Value> = taken.files.iter().flat_map(|file| &file.objects).map(format_row).collect();
    json!({"apiVersion": federate_dialect::plan::API_VERSION, "kind": "ImportSummary", "objects": objects})
}

fn format_row(taken: &ImportedObject) -> Value {
    let mut row = json!({
        "object": taken.object,
        "file": taken.origin.file.as_ref(),
        "line": taken.origin.line,
    });
    match &taken.imported {
        ImportOutcome::Edits(edits) => add_changes(edits, &mut row),
        ImportOutcome::Objects(made) => row["made"] = json!(made),
    }
    row
}

pub(super) fn add_changes(edits: &[ImportEdit], row: &mut Value) {
    row["removed"] = edits.iter().filter(|e| e.value.is_none()).map(|e| json!(e.pointer)).collect();
    row["added"] =
        edits.iter().filter_map(|e| Some(json!({"path": e.pointer, "value": e.value.as_ref()?}))).collect();
}
