//! `federate check`

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use serde_json::{Value, json};

use super::filter::FilterArgs;
use super::settings::{OutputFormat, RepoArgs};
use super::{
    CommandError, Exit, completers, findings_page, page, print_notice, print_text, print_unchanged,
    print_value, use_color,
};
use federate_apiserver_model::served_versions::{NEWEST, OLDEST, parse_release};
use federate_kubernetes::Finding;
use federate_repo::Repo;
use federate_report::control_plane_objects::describe_kept_objects;
use federate_report::page::PageHost;
use federate_report::table::format_count;
use federate_report::{annotations, findings};
use federate_session::Session;
use federate_source::git::GitLocation;

/// Report every error and likely mistake in a repo
///
/// Reports unreadable files, invalid policies, policies that match nothing, templates that no policy matches,
/// overrides that fail or change nothing, and objects claimed by two dialects. Placements are decided as if nothing
/// was placed before, unless --previous or --snapshot is given. Exits with 0 if the repo is clean, 1 with warnings,
/// 2 with errors. --explain CODE prints the cause and the fix of a finding.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CheckCommand {
    /// Print the cause and the fix of a finding, by its code
    #[arg(long, value_name = "CODE", add = ArgValueCompleter::new(completers::complete_codes))]
    explain: Option<String>,

    /// Check for this version of Kubernetes (1.31) instead of those that the clusters report
    #[arg(long, value_name = "VERSION", value_parser = parse_kubernetes_version)]
    kube_version: Option<u32>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    args: RepoArgs,
}

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a terminal
    Table,
    /// For scripts
    Json,
    /// For scripts and people
    Yaml,
    /// Workflow commands, which GitHub shows beside the lines of a pull request
    Github,
    /// For code scanning: SARIF 2.1.0
    Sarif,
    /// For the code quality report of GitLab
    Gitlab,
    /// For the test reports of CI systems
    Junit,
    /// For a browser: one file
    Html,
}

const EXAMPLES: &str = "\
Examples:
  federate check examples/repo
  federate check examples/repo --kube-version 1.31
  federate check examples/repo -o json
  federate check examples/repo -o sarif > federate.sarif
  federate check examples/repo -o gitlab > gl-code-quality-report.json
  federate check --explain unmatched";

impl CheckCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        if let Some(code) = &self.explain {
            return print_text(&findings_page::find_explanation(code)?).map(|()| Exit::Clean);
        }
        let session = self.args.open_leaked_session()?;
        self.args.say_cluster_notices(&session)?;
        if let Some(newer) = self.kube_version.filter(|release| *release > NEWEST && !self.args.quiet) {
            print_notice(&format!(
                "Kubernetes 1.{newer} is newer than this version of federate: checked as 1.{NEWEST}, the newest that federate knows\n"
            ));
        }
        let mut found = session.check_for(self.kube_version.map(|release| release.min(NEWEST)));
        if self.filter.is_given() {
            let filter = self.filter.build_filter(&[&session]);
            let all = found.len();
            found.retain(|finding| filter.shows_finding(finding));
            let others = all - found.len();
            if others > 0 && !self.args.quiet {
                print_notice(&format!(
                    "{} about other objects left out by -n and -l\n",
                    format_count(others, "finding")
                ));
            }
        }
        if self.args.quiet {
            found.retain(Finding::is_error);
        }
        let repo = session.repo();
        match self.output {
            Output::Table => {
                let most = if self.args.verbose { usize::MAX } else { findings::MAX_FINDINGS };
                let color = use_color(&std::io::stdout());
                print_text(&findings::text_of_first(repo, &found, session.dialects(), color, most))?;
                if !self.args.quiet {
                    print_text(&format_summary(&found, repo.templates.len(), session.clusters().len()))?;
                    if let Some(kept) = describe_kept_objects(repo, session.dialects()) {
                        print_text(&format!("{kept}\n"))?;
                    }
                }
            }
            Output::Json => print_value(&findings_document(repo, &found), OutputFormat::Json)?,
            Output::Yaml => print_value(&findings_document(repo, &found), OutputFormat::Yaml)?,
            Output::Html => {
                let name = self.args.repo.display().to_string();
                print_unchanged(&write_findings_page(&name, &session, &found, PageHost::File)?)?;
            }
            Output::Github | Output::Sarif | Output::Gitlab | Output::Junit => {
                let rows = findings::build_rows(repo, &found);
                // Annotations name files from the root of the git repository.
                let location = GitLocation::discover_around(&self.args.repo);
                let folder = location.map(|location| location.prefix).unwrap_or_default();
                match self.output {
                    Output::Github => print_text(&annotations::format_github(&rows, &folder))?,
                    Output::Junit => print_text(&annotations::format_junit(&rows, &folder))?,
                    Output::Gitlab => {
                        print_value(&annotations::format_gitlab(&rows, &folder), OutputFormat::Json)?;
                    }
                    _ => {
                        let explain = findings_page::find_section;
                        let log = annotations::format_sarif(&rows, &folder, &explain);
                        print_value(&log, OutputFormat::Json)?;
                    }
                }
            }
        }
        Ok(match (federate_engine::any_error(&found), found.is_empty()) {
            (true, _) => Exit::Error,
            (false, true) => Exit::Clean,
            (false, false) => Exit::Findings,
        })
    }
}

/// Parses a version of Kubernetes, which may be newer than those that are known.
fn parse_kubernetes_version(text: &str) -> Result<u32, String> {
    parse_release(text).filter(|release| *release >= OLDEST).ok_or_else(|| {
        format!("expected a version of Kubernetes from 1.{OLDEST} to 1.{NEWEST}, such as 1.31")
    })
}

/// The findings as a page.
pub(super) fn write_findings_page(
    name: &str,
    session: &Session,
    found: &[Finding],
    host: PageHost,
) -> Result<String, CommandError> {
    let repo = session.repo();
    let rows = findings::build_quoted_rows(repo, found, session.dialects());
    let summary = format_summary(found, repo.templates.len(), session.clusters().len());
    page::format_check_page(name, &summary, &rows, host)
}

/// The findings as a document.
pub(super) fn findings_document(repo: &Repo, found: &[Finding]) -> Value {
    json!({
        "apiVersion": federate_dialect::plan::API_VERSION,
        "kind": "Findings",
        "findings": findings::build_rows(repo, found),
    })
}

fn format_summary(found: &[Finding], templates: usize, clusters: usize) -> String {
    let errors = found.iter().filter(|f| f.is_error()).count();
    let checked =
        format!("{} and {}", format_count(templates, "template"), format_count(clusters, "cluster"));
    match (errors, found.len() - errors) {
        (0, 0) => format!("clean: {checked}\n"),
        (0, warnings) => format!("{} in {checked}\n", format_count(warnings, "warning")),
        (errors, 0) => format!("{} in {checked}\n", format_count(errors, "error")),
        (errors, warnings) => {
            format!(
                "{} and {} in {checked}\n",
                format_count(errors, "error"),
                format_count(warnings, "warning")
            )
        }
    }
}
