//! `federate plan`

use std::io::Write;

use clap::Args;

use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, print, print_value, text_style};
use federate_engine::previous;
use federate_report::table;

/// Print where each object is placed, with how many replicas, and why not
///
/// Writes nothing. `-o json` prints the plan document, which --previous reads back.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Plan {
    #[command(flatten)]
    args: RepoArgs,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  federate plan examples/repo --cluster eu-1
  federate plan examples/repo -o json > plan.json
  federate plan examples/repo --previous plan.json";

impl Plan {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let session = self.args.session(None, None)?;
        let plan = self.args.narrowed(session.plan());
        if self.output == Format::Table {
            print(&table::plan(&plan, session.clusters().len(), text_style(self.args.verbose)))?;
        } else if self.output == Format::Yaml {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            previous::write_in_full(&plan, &mut out)?;
            out.flush()?;
        } else {
            print_value(plan.as_ref(), self.output)?;
        }
        let findings = session.plan_findings();
        self.args.report(&session, &findings);
        Ok(outcome(&findings))
    }
}
