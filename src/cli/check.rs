//! `federate check`

use clap::Args;
use serde_json::json;

use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, print, print_value, styled};
use federate_kubernetes::Finding;
use federate_report::findings;
use federate_report::table::counted;

/// Find everything that is wrong or useless in a repo
///
/// Unreadable files, invalid policies, policies that decide about nothing, templates that nothing
/// places, overrides that fail or change nothing, and objects that two dialects claim. Exits with 0
/// when clean, 1 with warnings, 2 with errors.
///
/// Example: federate check -o json | jq '.findings[].message'
#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    args: RepoArgs,

    /// How to print it
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

impl Check {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let session = self.args.session(None, None)?;
        let mut found = session.check();
        if self.args.quiet {
            found.retain(Finding::is_error);
        }
        let repo = session.repo();
        if self.output == Format::Table {
            print(&findings::text(repo, &found, session.dialects(), styled(&std::io::stdout())))?;
            print(&summary(&found, repo.templates.len(), session.clusters().len()))?;
        } else {
            let document = json!({
                "apiVersion": federate_dialect::plan::API_VERSION,
                "kind": "Findings",
                "findings": findings::rows(repo, &found),
            });
            print_value(&document, self.output)?;
        }
        Ok(match (federate_engine::any_error(&found), found.is_empty()) {
            (true, _) => Exit::Error,
            (false, true) => Exit::Clean,
            (false, false) => Exit::Findings,
        })
    }
}

fn summary(found: &[Finding], templates: usize, clusters: usize) -> String {
    let errors = found.iter().filter(|f| f.is_error()).count();
    let checked = format!("{}, {}", counted(templates, "template"), counted(clusters, "cluster"));
    match found.len() {
        0 => format!("clean: {checked}\n"),
        all => format!("{}, {}: {checked}\n", counted(errors, "error"), counted(all - errors, "warning")),
    }
}
