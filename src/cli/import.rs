//! `federate import`

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::settings::{Format, outcome};
use super::{Exit, Fault, print, print_value, say, styled};
use federate_dialect::import::{Edit, Import as ImportOptions, Imported, Importer, PolicyName};
use federate_engine::any_error;
use federate_engine::import::{self, Taken, TakenObject};
use federate_publish::file;
use federate_repo::{File, Repo};
use federate_report::findings;
use federate_session::DIALECTS;

mod args;
#[cfg(feature = "live")]
mod live;

/// The name that stands for standard input.
const STDIN: &str = "-";

/// Take live objects into the repo, as templates that are adopted without a restart
///
/// With --context objects are read from that cluster and written into the repo; with -f from files, which
/// hold what `kubectl get -o yaml` prints. What servers and controllers wrote goes (status, uid,
/// resourceVersion, a Service's clusterIP, …), what adoption needs comes: for KubeAdmiral the policy's
/// label and annotations, for Karmada an annotation, for KubeFleet nothing. The pod template stays as it
/// is, so that no pod restarts. For KubeFed the federated objects are made that hold the objects.
///
/// From a cluster: each object gets a file of its own, `KIND_NAME.yaml`, in the folder where the repo has
/// objects of the same kind and namespace, or else of the same namespace, or else in a folder of the
/// namespace's name. No other file is touched, and an object that the repo has already stays as it is
/// there (--update makes it what runs). Objects that others make or manage (owners, Helm, Argo CD, Flux,
/// apply sets, the cluster itself) are left out with a warning, or refused where they are named. Secrets
/// are taken in by name only. Nothing is written when anything is in error.
///
/// From files: each object keeps its text, comments and order included, and is printed, or written back
/// with --in-place. Importing twice changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Import {
    /// The files to read; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 1.., required_unless_present = "context")]
    files: Vec<PathBuf>,

    /// The control plane that is to take them in
    #[arg(long = "as", value_name = "DIALECT", default_value = "kubeadmiral")]
    dialect: String,

    /// The propagation policy that is to place them: one in the namespace of each object, or for
    /// cluster-scoped objects a cluster propagation policy
    #[arg(long, value_name = "NAME", conflicts_with = "cluster_policy")]
    policy: Option<String>,

    /// The cluster propagation policy that is to place them, namespaced objects too
    #[arg(long, value_name = "NAME")]
    cluster_policy: Option<String>,

    /// The clusters where objects that run already are adopted [default: the one of --context; with -f all]
    #[arg(long = "cluster", value_name = "NAME", num_args = 1.., action = clap::ArgAction::Append)]
    clusters: Vec<String>,

    /// Write each file back in place of printing it
    #[arg(long, short, conflicts_with = "context")]
    in_place: bool,

    /// Make federated types of `CustomResourceDefinition`s (KubeFed), in place of federating the objects
    #[arg(long)]
    enable: bool,

    /// What to print: the objects as YAML, or what was done as JSON [default: with -f YAML, with
    /// --context the files that were written]; with --context YAML writes no files
    #[arg(long, short, value_enum)]
    output: Option<Show>,

    /// Print no warnings
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    live: args::LiveArgs,
}

const EXAMPLES: &str = "\
Examples:
  federate import deploy/web svc/web -n shop --context eu-1 --policy web --repo deploy
  federate import deploy,svc,cm -l app=web -A --context eu-1 --policy web --dry-run
  federate import deploy,svc/web --context eu-1 --as karmada --minimal -o yaml
  kubectl get deploy,svc web -o yaml | federate import -f - --policy web > web.yaml
  federate import -f web.yaml --policy web --cluster member1 member2
  federate import -f deploy/*.yaml --policy web --in-place
  federate import -f roles.yaml --cluster-policy everywhere -o json
  federate import -f web.yaml --as kubefed
  federate import -f crds.yaml --as kubefed --enable";

/// What standard output gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Show {
    /// The files, or the objects made.
    Yaml,
    /// What became of each object.
    Json,
}

impl Import {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let importer = import::importer(DIALECTS, &self.dialect).map_err(|known| {
            Fault::Failed(format!("`{}` takes no objects in; --as can be {}", self.dialect, known.join(", ")))
        })?;
        self.fits(&importer)?;
        if let Some(context) = &self.live.context {
            return self.live(context, &importer);
        }
        let files: Vec<File> = self.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let mut taken = import::import(&files, &importer, &self.options());
        self.report(&files, &mut taken);
        if any_error(&taken.findings) {
            return Ok(Exit::Error);
        }
        if self.in_place {
            self.write(&files, &taken)?;
        }
        match self.output {
            Some(Show::Json) => print_value(&summary(&taken), Format::Json)?,
            _ if self.in_place => {}
            _ => print(&text(&taken))?,
        }
        self.note(&importer);
        Ok(outcome(&taken.findings))
    }

    #[cfg(not(feature = "live"))]
    fn live(&self, _: &str, _: &Importer) -> Result<Exit, Fault> {
        Err(Fault::Failed(
            "this federate was built without the feature `live` and reaches no cluster".to_owned(),
        ))
    }

    /// Options of one dialect with another are a misunderstanding.
    fn fits(&self, importer: &Importer) -> Result<(), Fault> {
        let wraps = importer.wraps;
        let marks = self.policy.is_some() || self.cluster_policy.is_some() || !self.clusters.is_empty();
        let failed = |message: &str| Err(Fault::Failed(message.to_owned()));
        if let Some(why) = importer.unnamed.filter(|_| marks) {
            return failed(why);
        }
        if wraps && self.in_place {
            return failed(
                "KubeFed makes other objects, so there is no file to change: leave out --in-place",
            );
        }
        if !wraps && self.enable {
            return failed("only KubeFed enables types: add --as kubefed");
        }
        if importer.unnamed.is_none() && self.policy.is_none() && self.cluster_policy.is_none() {
            return failed(
                "no policy is named that is to place the objects: give --policy NAME, or --cluster-policy NAME",
            );
        }
        for name in self.policy.iter().chain(&self.cluster_policy) {
            if !is_label_value(name) {
                return Err(Fault::Failed(format!(
                    "`{name}` cannot be the name of a policy: a label holds it, so it has at most 63 letters, \
                     digits, `-`, `_` and `.`, with a letter or digit at both ends"
                )));
            }
        }
        if self.in_place && self.files.iter().any(|path| path == Path::new(STDIN)) {
            return failed("standard input cannot be written back: leave out --in-place");
        }
        Ok(())
    }

    /// What adoption takes besides.
    fn note(&self, importer: &Importer) {
        if let Some(note) = importer.note.filter(|_| !self.quiet) {
            say(&format!("note: {note}\n"));
        }
    }

    fn options(&self) -> ImportOptions {
        let beside = self.policy.clone().map(PolicyName::Beside);
        let policy = beside.or_else(|| self.cluster_policy.clone().map(PolicyName::OfCluster));
        ImportOptions { policy, clusters: self.clusters.clone(), enable: self.enable, dialects: DIALECTS }
    }

    fn report(&self, files: &[File], taken: &mut Taken) {
        findings::sort(&mut taken.findings);
        let texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
        let repo = Repo { texts, ..Repo::default() };
        if self.quiet && !any_error(&taken.findings) {
            return;
        }
        say(&findings::text(&repo, &taken.findings, DIALECTS, styled(&std::io::stderr())));
    }

    /// Writes back the files that changed.
    fn write(&self, files: &[File], taken: &Taken) -> Result<(), Fault> {
        for ((path, before), after) in self.files.iter().zip(files).zip(&taken.files) {
            let same = *before.bytes == *after.text;
            let written = if same { file::clear(path) } else { file::replace(path, &after.text) };
            written.map_err(|error| Fault::Failed(format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(())
    }
}

pub(super) fn read(path: &Path) -> Result<File, Fault> {
    let mut bytes = Vec::new();
    let (name, read) = if path == Path::new(STDIN) {
        ("<stdin>".into(), std::io::stdin().lock().read_to_end(&mut bytes).map(drop))
    } else {
        (path.to_string_lossy(), fs::read(path).map(|read| bytes = read))
    };
    read.map_err(|error| Fault::Failed(format!("{name}: {error}")))?;
    Ok(File { path: name.as_ref().into(), bytes: bytes.into() })
}

/// Whether a label can have this value.
fn is_label_value(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// All files in a row, or all objects made of them, as documents.
fn text(taken: &Taken) -> String {
    let mut out = String::new();
    let mut append = |document: &str| {
        if !out.is_empty() {
            out.push_str(if out.ends_with('\n') { "" } else { "\n" });
            out.push_str(if document.starts_with("---") { "" } else { "---\n" });
        }
        out.push_str(document);
    };
    for file in &taken.files {
        let mut made = file.objects.iter().filter_map(|taken| match &taken.imported {
            Imported::Objects(objects) => Some(objects),
            Imported::Edits(_) => None,
        });
        match made.next() {
            None => append(&String::from_utf8_lossy(&file.text)),
            Some(first) => {
                for object in std::iter::once(first).chain(made).flatten() {
                    let mut document = String::new();
                    federate_yaml::write(object, &mut document);
                    append(&document);
                }
            }
        }
    }
    out
}

/// What was done, for machines.
fn summary(taken: &Taken) -> Value {
    let objects: Vec<Value> = taken.files.iter().flat_map(|file| &file.objects).map(row).collect();
    json!({"apiVersion": federate_dialect::plan::API_VERSION, "kind": "ImportSummary", "objects": objects})
}

fn row(taken: &TakenObject) -> Value {
    let mut row = json!({
        "object": taken.object,
        "file": taken.origin.file.as_ref(),
        "line": taken.origin.line,
    });
    match &taken.imported {
        Imported::Edits(edits) => changes(edits, &mut row),
        Imported::Objects(made) => row["made"] = json!(made),
    }
    row
}

fn changes(edits: &[Edit], row: &mut Value) {
    row["removed"] = edits.iter().filter(|e| e.value.is_none()).map(|e| json!(e.pointer)).collect();
    let set = |e: &Edit| Some(json!({"path": e.pointer, "value": e.value.as_ref()?}));
    row["added"] = edits.iter().filter_map(set).collect();
}
