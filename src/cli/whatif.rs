//! `federate whatif`

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::progress;
use super::scenario::ScenarioArgs;
use super::settings::{OutputFormat, RepoArgs};
use super::{CommandError, Exit, page, print_text, print_unchanged, print_value};
use federate_dialects::DIALECTS;
use federate_report::page::PageHost;
use federate_report::whatif::{self, ReplicaTotals, UnitLoss};
use federate_session::{ScenarioOutcome, ScenarioRunner as Scenarios, Session, UnitOutcome};
use federate_whatif::{FailureDomain, Scenario, TimelineOptions};

/// Show the effect of losing, changing or adding a cluster, or of scaling a workload
///
/// federate plans the repo as it is, then plans the scenario with the first plan as the scheduler's memory,
/// and shows what moves, which replicas are lost, and which are regained elsewhere. A lost cluster stays in
/// the inventory but runs nothing; its control plane decides whether anything moves. CLUSTER is a name or a
/// selector such as `region=eu`; write a selector in parentheses where a `=` follows.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct WhatIfCommand {
    /// Lose each cluster, zone, region or provider in turn, and list the worst first
    #[arg(long, value_enum, value_name = "UNIT")]
    each: Option<Each>,

    /// Run the scenarios of a file, and report the expectations that do not hold
    ///
    /// A scenario is a document with `apiVersion: federate.dev/v1alpha1` and `kind: Scenario`. `federate check`
    /// runs those in the repo.
    #[arg(long, value_name = "FILE")]
    scenario: Vec<PathBuf>,

    /// Lose each pair of the units of --each
    #[arg(long, requires = "each")]
    pairs: bool,

    /// Feature gates of control planes: `Failover=true` lets Karmada evict from clusters with `NoExecute` taints
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',', value_parser = parse_gate, hide_short_help = true)]
    gates: Vec<bool>,

    /// The time at which it happens (RFC 3339), for rules about age
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    at: Option<Timestamp>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,

    #[command(flatten)]
    events: ScenarioArgs,

    #[command(flatten)]
    args: RepoArgs,
}

/// Parses a feature gate that scenarios know.
fn parse_gate(text: &str) -> Result<bool, String> {
    match text.split_once('=') {
        Some(("Failover", value)) => {
            value.parse().map_err(|_| format!("`{value}` is neither true nor false"))
        }
        _ => Err("the only gate that scenarios know is Failover, as in `Failover=true`".to_owned()),
    }
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
    /// For a comment on a pull request
    Markdown,
    /// One file to look at in a browser; not with --scenario
    Html,
}

/// What is lost in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Each {
    /// Each cluster
    Cluster,
    /// All clusters of a zone
    Zone,
    /// All clusters of a region
    Region,
    /// All clusters of a provider
    Provider,
}

impl Each {
    fn to_unit(self) -> FailureDomain {
        match self {
            Self::Cluster => FailureDomain::Cluster,
            Self::Zone => FailureDomain::Zone,
            Self::Region => FailureDomain::Region,
            Self::Provider => FailureDomain::Provider,
        }
    }
}

/// Why there is no page of the scenarios of a file.
const NO_PAGE: &str = "-o html shows events or --each: --scenario has no page";

const EXAMPLES: &str = "\
Examples:
  federate whatif examples/repo --lose eu-1
  federate whatif examples/repo --scale deployment/shop/storefront=+50%
  federate whatif examples/repo --lose eu-1 -o html > lost.html
  federate whatif examples/repo --each cluster
  federate whatif examples/repo --each region -o html > losses.html
  federate whatif examples/lost-region --scenario examples/lost-region/scenarios.yaml";

impl WhatIfCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let words = self.events.describe_events();
        if words.is_empty() && self.each.is_none() && self.scenario.is_empty() {
            let help = "name at least one event, such as `--lose CLUSTER`, or use `--each cluster`";
            return Err(CommandError::Failed(format!("the scenario is empty: {help}")));
        }
        let session = self.args.open_shown_session()?;
        let findings = session.plan_findings();
        let errors: Vec<_> = findings.iter().filter(|finding| finding.is_error()).cloned().collect();
        self.args.say_cluster_notices(&session)?;
        self.args.report_findings(&session, &errors);
        if !errors.is_empty() && !self.args.keep_going {
            return Ok(Exit::Error);
        }
        if !self.args.quiet {
            progress::start_line("working out the effects");
        }
        let exit = self.show_effects(&session, &words)?;
        Ok(if errors.is_empty() { exit } else { Exit::Error })
    }

    fn show_effects(&self, session: &Session, words: &[String]) -> Result<Exit, CommandError> {
        let failover = self.gates.last().copied().unwrap_or(false);
        let scenarios = session.what_if().with_options(TimelineOptions {
            failover,
            at: self.at,
            ..TimelineOptions::default()
        });
        if !self.scenario.is_empty() {
            return self.check_scenarios(&scenarios);
        }
        let scenario = self.events.read_scenario(&scenarios).map_err(CommandError::Failed)?;
        if let Some(each) = self.each {
            return self.show_each(session, each.to_unit(), &scenarios, &scenario, words);
        }
        let outcome = scenarios.explained_outcome(&scenario).map_err(CommandError::Failed)?;
        let report = page::describe_effect(words, &outcome);
        match self.output {
            Output::Table => print_text(&report.format_text(self.args.text_style()))?,
            Output::Json => print_value(&report, OutputFormat::Json)?,
            Output::Yaml => print_value(&report, OutputFormat::Yaml)?,
            Output::Markdown => print_unchanged(&report.format_markdown())?,
            Output::Html => {
                let start = page::ScenarioStart::from_session(session);
                print_unchanged(&page::format_scenario_page(&start, &outcome, words, PageHost::File)?)?;
            }
        }
        Ok(self.exit_for_outcomes(std::iter::once(&outcome)))
    }

    fn show_each(
        &self,
        session: &Session,
        unit: FailureDomain,
        scenarios: &Scenarios<'_>,
        scenario: &Scenario,
        words: &[String],
    ) -> Result<Exit, CommandError> {
        let outcomes = scenarios.run_each_unit(unit, self.pairs, scenario).map_err(CommandError::Failed)?;
        let rows = outcomes.iter().map(outcome_row).collect();
        let worst = outcomes.first().filter(|worst| !worst.outcome.losses.is_empty());
        let worst = worst.filter(|_| outcomes.iter().all(|unit| unit.outcome.count_moved() == 0));
        let unmoved = worst.map(|worst| scenarios.explain_unmoved(&worst.extend_scenario(scenario)));
        let unmoved = unmoved.transpose().map_err(CommandError::Failed)?.flatten();
        let report = whatif::WhatIfEach {
            api_version: federate_dialect::plan::API_VERSION,
            kind: "WhatIfEach",
            each: unit.name(),
            pairs: self.pairs,
            scenario: words,
            rows,
            unmoved: unmoved.as_ref(),
        };
        match self.output {
            Output::Table => print_text(&report.format_text(self.args.text_style()))?,
            Output::Json => print_value(&report, OutputFormat::Json)?,
            Output::Yaml => print_value(&report, OutputFormat::Yaml)?,
            Output::Markdown => print_unchanged(&report.format_markdown())?,
            Output::Html => print_unchanged(&page::format_losses_page(session, &report, &outcomes)?)?,
        }
        Ok(self.exit_for_outcomes(outcomes.iter().map(|unit| &unit.outcome)))
    }

    /// Carries out the scenarios of files. 1 if an expectation does not hold.
    fn check_scenarios(&self, scenarios: &Scenarios<'_>) -> Result<Exit, CommandError> {
        let mut results = Vec::new();
        for path in &self.scenario {
            let file = path.display();
            let bytes = fs::read(path).map_err(|why| CommandError::Failed(format!("{file}: {why}")))?;
            let read = federate_whatif::read_scenarios(&bytes, DIALECTS);
            if read.is_empty() {
                let why = "it has no document with `apiVersion: federate.dev/v1alpha1` and `kind: Scenario`";
                return Err(CommandError::Failed(format!("{file}: {why}")));
            }
            for scenario in read {
                let violations = scenario.and_then(|scenario| {
                    let violations = scenarios.find_violations(&scenario);
                    Ok((scenario.name, violations.map_err(|why| (scenario.line, why))?))
                });
                let (name, violations) = violations
                    .map_err(|(line, why)| CommandError::Failed(format!("{file}:{line}: {why}")))?;
                results.push(whatif::ScenarioResult { name, violations });
            }
        }
        let report = whatif::ScenarioResults {
            api_version: federate_dialect::plan::API_VERSION,
            kind: "ScenarioResults",
            results,
        };
        match self.output {
            Output::Table => print_text(&report.format_text())?,
            Output::Json => print_value(&report, OutputFormat::Json)?,
            Output::Yaml => print_value(&report, OutputFormat::Yaml)?,
            Output::Markdown => print_unchanged(&format!("```text\n{}```\n", report.format_text()))?,
            Output::Html => return Err(CommandError::Failed(NO_PAGE.to_owned())),
        }
        let holds = report.results.iter().all(|result| result.violations.is_empty());
        Ok(if holds { Exit::Clean } else { Exit::Findings })
    }

    /// 1 if anything changes; 2 if `--fail-on` names what happens.
    fn exit_for_outcomes<'o>(&self, outcomes: impl Iterator<Item = &'o ScenarioOutcome>) -> Exit {
        let mut exit = Exit::Clean;
        for outcome in outcomes {
            let missing = outcome.losses.iter().any(|loss| loss.missing_replicas() > 0);
            let unplaced =
                !outcome.newly_unschedulable().is_empty() || outcome.losses.iter().any(|l| l.nowhere);
            if (missing && self.args.fails_on("lost-replicas"))
                || (unplaced && self.args.fails_on("unschedulable"))
            {
                return Exit::Error;
            }
            if !outcome.is_empty() {
                exit = Exit::Findings;
            }
        }
        exit
    }
}

fn outcome_row(unit: &UnitOutcome) -> UnitLoss {
    let losses = &unit.outcome.losses;
    UnitLoss {
        lose: unit.name.clone(),
        clusters: unit.clusters.iter().map(ToString::to_string).collect(),
        moved: unit.outcome.count_moved(),
        replicas: ReplicaTotals::from_losses(losses),
        nowhere: losses.iter().filter(|loss| loss.nowhere).map(|loss| loss.object.clone()).collect(),
        unschedulable: unit.outcome.newly_unschedulable().into_iter().cloned().collect(),
        tightest: unit.outcome.tightest.first().cloned(),
    }
}
