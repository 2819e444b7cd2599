//! `federate explain`

use clap::Args;

use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, print, print_value, text_style};
use federate_report::explanation;

/// Explain where an object is placed, and why not elsewhere
///
/// Shows, for each cluster, the filter that excluded it, its score, its replicas with the arithmetic, and the
/// overrides with the paths that they changed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Explain {
    /// The object, or the policy that places it, as KIND/NAME; KIND is case-insensitive
    object: String,

    #[command(flatten)]
    args: RepoArgs,

    /// The namespace, if several namespaces have an object of that name
    #[arg(long, short)]
    namespace: Option<String>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  federate explain deployment/worker -n data examples/repo
  federate explain propagationpolicy/checkout -n shop examples/repo";

impl Explain {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let Some((kind, name)) = self.object.split_once('/') else {
            return Err(Fault::Failed(format!("`{}` is not KIND/NAME, such as deployment/web", self.object)));
        };
        let session = self.args.session(None, None)?;
        let found = session.find(kind, name, self.namespace.as_deref());
        let id = found.map_err(|error| Fault::Failed(error.to_string()))?;
        let mut findings = session.plan_findings();
        findings.retain(|finding| finding.object.as_ref() == Some(&id));
        let Some(mut explained) = session.explain(&id) else {
            self.args.report(&session, &findings);
            return Ok(Exit::Error);
        };
        explained.explanation.clusters.retain(|row| self.args.wants(&row.cluster));
        if self.output == Format::Table {
            print(&explanation::text(&explained, text_style(self.args.verbose)))?;
        } else {
            print_value(&explained, self.output)?;
        }
        Ok(outcome(&findings))
    }
}
