//! `federate clusters`

use clap::{Args, ValueEnum};

use super::settings::{OutputFormat, RepoArgs};
use super::{CommandError, Exit, print_text, print_value};
use federate_report::clusters::ClusterList;

/// List the clusters: whether they are ready, what they offer, and what is placed there
///
/// Shows each cluster of the inventory with the time since which it is not ready, its taints, version and region, its
/// free resources, what the plan requests of them, and how many objects and replicas the plan places there. With
/// --snapshot, the status is that of the snapshot. `federate explain cluster/NAME` shows one cluster in full.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ClustersCommand {
    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,

    #[command(flatten)]
    args: RepoArgs,
}

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a terminal
    Table,
    /// A table with zones, labels, the reason of clusters that are not ready, and every resource
    Wide,
    /// For scripts
    Json,
    /// For scripts and people
    Yaml,
}

const EXAMPLES: &str = "\
Examples:
  federate clusters examples/repo
  federate clusters examples/repo -o wide
  federate clusters examples/repo --cluster eu-1 eu-2 -o json
  federate explain cluster/eu-1 examples/repo";

impl ClustersCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let session = self.args.open_leaked_session()?;
        let mut clusters = session.cluster_rows();
        let found = session.plan_findings();
        let errors: Vec<_> = found.into_iter().filter(federate_kubernetes::Finding::is_error).collect();
        self.args.report_findings(&session, &errors);
        clusters.retain(|row| self.args.selects_cluster(&row.name));
        let list = ClusterList {
            api_version: federate_dialect::plan::API_VERSION,
            kind: "ClusterList",
            snapshot: self.args.snapshot_age()?,
            clusters,
        };
        match self.output {
            Output::Table => print_text(&list.format_text(false, self.args.text_style()))?,
            Output::Wide => print_text(&list.format_text(true, self.args.text_style()))?,
            Output::Json => print_value(&list, OutputFormat::Json)?,
            Output::Yaml => print_value(&list, OutputFormat::Yaml)?,
        }
        Ok(super::settings::exit_for_findings(&errors))
    }
}
