//! `federate plan`

use clap::Args;

use super::settings::{Format, RepoArgs, outcome};
use super::{Exit, Fault, look, print, print_value};
use federate_engine::Engine;
use federate_report::table;

/// Print who goes where, with how many replicas, and why not
///
/// Nothing is written. `-o json` prints the plan document, which `--previous` reads back.
///
/// Example: federate plan examples/repo --cluster eu-west-1
#[derive(Debug, Args)]
pub(super) struct Plan {
    #[command(flatten)]
    args: RepoArgs,

    /// How to print it
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

impl Plan {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let mut loaded = self.args.load(None, None)?;
        let engine =
            Engine::new(federate_session::DIALECTS, &loaded.repo, &loaded.clusters, &loaded.settings);
        let planned = engine.plan();
        let (mut plan, mut findings) = (planned.plan, std::mem::take(&mut loaded.findings));
        findings.extend(planned.findings);
        self.args.judge(&mut findings);
        if !self.args.clusters.is_empty() {
            for placement in &mut plan.placements {
                placement.clusters.retain(|c| self.args.wants(&c.name));
            }
            plan.placements.retain(|p| !p.clusters.is_empty());
            plan.unmatched.clear();
        }
        if self.output == Format::Table {
            print(&table::plan(&plan, loaded.clusters.len(), look(self.args.verbose)))?;
        } else {
            print_value(&plan, self.output)?;
        }
        self.args.report(&loaded.repo, &findings);
        Ok(outcome(&findings))
    }
}
