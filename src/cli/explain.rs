//! `federate explain`

use clap::Args;

use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, look, print, print_value};
use federate_report::explanation;

/// Say why an object is where it is, and why it is not elsewhere
///
/// For each cluster: the filter that refused it, its score, its replicas with the arithmetic behind
/// them, and the overrides with the paths they changed.
///
/// Example: federate explain deployment/web -n shop examples/repo
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The object, or the policy that places it, as KIND/NAME; the case of the kind does not matter
    object: String,

    #[command(flatten)]
    args: RepoArgs,

    /// Its namespace, when several have an object of that name
    #[arg(long, short)]
    namespace: Option<String>,

    /// How to print it
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

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
            print(&explanation::text(&explained, look(self.args.verbose)))?;
        } else {
            print_value(&explained, self.output)?;
        }
        Ok(outcome(&findings))
    }
}
