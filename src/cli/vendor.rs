//! `federate vendor`

use std::path::PathBuf;

use clap::Args;

use super::builds::shared_builder;
use super::settings::OutputFormat;
use super::{CommandError, Exit, print_notice, print_text, print_value, progress, use_color};
use federate_builder::{NetworkedProgram, ProgramPaths, Tool};
use federate_dialects::DIALECTS;
use federate_repo::ReadOptions;
use federate_report::findings;
use federate_session::{Session, SessionOptions};
use federate_source::WorkTree;
use federate_vendor::{Error, HelmClient, UpdateChoice, VendorResult, Vendoring, list_requests};

/// Download the remote charts and bases that the repo names, and keep them in it
///
/// Builds never fetch. This command downloads each chart that an object of Flux (HelmRelease or HelmChart) or Argo CD (Application or ApplicationSet) or
/// `helmCharts` names in a repository of charts (HTTP or OCI), and each base that a kustomization names in a git repository. It writes
/// them to `vendor/charts/NAME/VERSION` and `vendor/bases/NAME/COMMIT`, and what was requested, what it is, its digest and who uses it
/// to `vendor/federate.lock.yaml`. Commit the folder `vendor`; every build compares what it uses with the digests. What is in the lock
/// file stays until --update names it.
///
/// It runs `helm pull` and `git fetch` with your own configuration of them, and so with the credentials of `helm registry login`, `helm
/// repo add` and git's credential helpers. No other command asks the network for sources. With --check, this one does not either.
#[allow(clippy::doc_markdown, reason = "help texts are plain text")]
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct VendorCommand {
    /// The repo: a folder with manifests, clusters and policies
    #[arg(default_value = ".")]
    repo: PathBuf,

    /// Only compare the lock file and the copies with what the repo names, without the network: exit 1 if they differ
    #[arg(long, conflicts_with = "update")]
    check: bool,

    /// Download the newest version of each requested range or branch, of all or of those with these names
    #[arg(long, value_name = "NAME", num_args = 0.., value_delimiter = ',')]
    update: Option<Vec<String>>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,

    /// Print no progress and no summary
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  federate vendor examples/repo
  federate vendor examples/repo --check                   # in CI: is the lock file up to date?
  federate vendor examples/repo --update                  # the newest versions that are requested
  federate vendor --update podinfo
  federate diff examples/repo --from main                 # what that changes in each cluster";

impl VendorCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let tree = WorkTree::open(&self.repo).map_err(|finding| CommandError::Failed(finding.message))?;
        // The lock file is that of the whole repo: what is not read would be removed from it.
        let read = ReadOptions::default();
        let files = federate_repo::read_files(&tree, &read);
        let mut before: Option<VendorResult> = None;
        // What a chart holds may name further charts.
        let result = loop {
            if !self.quiet {
                progress::start_line("reading the repo");
            }
            let options = SessionOptions::new(DIALECTS).with_read(read.clone());
            let session = Session::open(&tree, options.with_builder(Some(shared_builder())));
            let (requests, wrong) = list_requests(&files, &tree, session.clusters(), session.repo());
            progress::stop_line();
            if !wrong.is_empty() {
                let color = use_color(&std::io::stderr());
                print_notice(&findings::format_text(session.repo(), &wrong, session.dialects(), color));
                return Ok(Exit::Error);
            }
            let vendoring = Vendoring::open(&self.repo, &tree, &requests).map_err(|error| explain(&error))?;
            if self.check {
                break vendoring.compare();
            }
            let result = self.download(&vendoring, before.is_none())?;
            let is_complete = !result.changed;
            let result = match before {
                Some(before) => result.after(before),
                None => result,
            };
            if is_complete {
                break result;
            }
            before = Some(result);
        };
        match self.output {
            OutputFormat::Table => print_text(&result.format_text())?,
            format => print_value(&result, format)?,
        }
        if !self.quiet {
            print_notice(match (self.check, result.changed, result.sources.is_empty()) {
                (true, true, _) => {
                    "`vendor` is out of date: run `federate vendor`, and commit the folder `vendor`\n"
                }
                (false, true, _) => "commit the folder `vendor`\n",
                (_, false, true) => "nothing names a remote chart or base\n",
                (_, false, false) => "",
            });
        }
        Ok(if self.check && result.changed { Exit::Findings } else { Exit::Clean })
    }

    /// Downloads what is missing, and in the first round what is to be updated.
    fn download(&self, vendoring: &Vendoring<'_>, is_first: bool) -> Result<VendorResult, CommandError> {
        let update = match &self.update {
            _ if !is_first => UpdateChoice::None,
            None => UpdateChoice::None,
            Some(names) if names.is_empty() => UpdateChoice::All,
            Some(names) => UpdateChoice::Named(names.iter().cloned().collect()),
        };
        let helm = || {
            NetworkedProgram::find(&ProgramPaths::from_environment(), Tool::Helm)
                .map(HelmClient::new)
                .map_err(|error| match error.help {
                    Some(help) => format!("{}: {help}", error.why),
                    None => error.why,
                })
        };
        let report = |chart: &str| {
            if !self.quiet {
                print_notice(&format!("downloading {chart}\n"));
            }
        };
        vendoring.run(&helm, &update, &report).map_err(|error| explain(&error))
    }
}

fn explain(error: &Error) -> CommandError {
    CommandError::Failed(error.to_string())
}
