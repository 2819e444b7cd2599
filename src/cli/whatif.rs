//! `federate whatif`

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::settings::{Format, RepoArgs};
use super::{Exit, Fault, look, print, print_value};
use federate_engine::whatif::{Event, Scenario, Selection, Unit};
use federate_report::whatif::{self, Replicas, Row};
use federate_session::{Session, UnitOutcome, WhatIf as Scenarios};

/// Show what a lost, tainted, resized or added cluster, or a scaled workload, would cause
///
/// Decides about the repo as it is, then about the scenario with that plan as the scheduler's memory: what would
/// run elsewhere, which replicas are lost, and which run elsewhere instead. A cluster that is lost stays in the
/// inventory, but runs nothing; whether anything moves is up to its control plane. In place of a cluster's name
/// stands a selector (`region=eu`), in parentheses where a `=` follows.
///
/// Example: federate whatif examples/repo --lose eu-1 --scale deployment/shop/storefront=+50%
#[derive(Debug, Args)]
pub(super) struct WhatIf {
    #[command(flatten)]
    args: RepoArgs,

    #[command(flatten)]
    events: Events,

    /// Lose each cluster, zone, region or provider in turn, and show the worst first
    #[arg(long, value_enum, value_name = "UNIT")]
    each: Option<Each>,

    /// How to print it
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
}

/// What happens, in the order of these options.
#[derive(Debug, Args)]
struct Events {
    /// Clusters join: a file with their inventory objects
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,

    /// Clusters get a label
    #[arg(long, value_name = "CLUSTER=KEY=VALUE")]
    label: Vec<String>,

    /// Clusters become larger or smaller: 50%, or amounts of resources
    #[arg(long, value_name = "CLUSTER=SIZE")]
    capacity: Vec<String>,

    /// Clusters get a taint
    #[arg(long, value_name = "CLUSTER=KEY[=VALUE]:EFFECT")]
    taint: Vec<String>,

    /// Clusters lose a taint
    #[arg(long, value_name = "CLUSTER=KEY[:EFFECT]")]
    untaint: Vec<String>,

    /// A workload gets other replicas: N, +N, -N, +N% or -N%
    #[arg(long, value_name = "KIND/NAMESPACE/NAME=N", allow_hyphen_values = true)]
    scale: Vec<String>,

    /// Clusters can no longer be reached
    #[arg(long, value_name = "CLUSTER")]
    lose: Vec<String>,

    /// Clusters leave the federation
    #[arg(long, value_name = "CLUSTER")]
    remove: Vec<String>,
}

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// For machines.
    Json,
}

/// What is lost in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Each {
    /// One cluster.
    Cluster,
    /// All clusters of a zone.
    Zone,
    /// All clusters of a region.
    Region,
    /// All clusters of a provider.
    Provider,
}

impl Each {
    fn unit(self) -> Unit {
        match self {
            Self::Cluster => Unit::Cluster,
            Self::Zone => Unit::Zone,
            Self::Region => Unit::Region,
            Self::Provider => Unit::Provider,
        }
    }
}

impl WhatIf {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let words = self.events.words();
        if words.is_empty() && self.each.is_none() {
            let help = "say what happens, such as `--lose CLUSTER`, or `--each cluster`";
            return Err(Fault::Failed(format!("nothing happens: {help}")));
        }
        let session = self.args.session(None, None)?;
        let findings = session.plan_findings();
        let errors: Vec<_> = findings.iter().filter(|finding| finding.is_error()).cloned().collect();
        self.args.report(&session, &errors);
        if !errors.is_empty() && !self.args.keep_going {
            return Ok(Exit::Error);
        }
        let exit = self.answer(&session, &words)?;
        Ok(if errors.is_empty() { exit } else { Exit::Error })
    }

    fn answer(&self, session: &Session, words: &[String]) -> Result<Exit, Fault> {
        let scenarios = session.what_if();
        let scenario = self.events.scenario(&scenarios)?;
        if let Some(each) = self.each {
            return self.each(each.unit(), &scenarios, &scenario, words);
        }
        let outcome = scenarios.outcome(&scenario).map_err(Fault::Failed)?;
        let report = whatif::WhatIf::new(words, &outcome.changes, &outcome.losses);
        match self.output {
            Output::Table => print(&report.text(look(self.args.verbose)))?,
            Output::Json => print_value(&report, Format::Json)?,
        }
        Ok(if outcome.is_empty() { Exit::Clean } else { Exit::Findings })
    }

    fn each(
        &self,
        unit: Unit,
        scenarios: &Scenarios<'_>,
        scenario: &Scenario,
        words: &[String],
    ) -> Result<Exit, Fault> {
        let outcomes = scenarios.each(unit, scenario).map_err(Fault::Failed)?;
        let rows = outcomes.iter().map(row).collect();
        let report = whatif::WhatIfEach {
            api_version: federate_dialect::plan::API_VERSION,
            kind: "WhatIfEach",
            each: unit.name(),
            scenario: words,
            rows,
        };
        match self.output {
            Output::Table => print(&report.text(look(self.args.verbose)))?,
            Output::Json => print_value(&report, Format::Json)?,
        }
        let nothing = outcomes.iter().all(|unit| unit.outcome.is_empty());
        Ok(if nothing { Exit::Clean } else { Exit::Findings })
    }
}

fn row(unit: &UnitOutcome) -> Row {
    let losses = &unit.outcome.losses;
    Row {
        lose: unit.name.clone(),
        clusters: unit.clusters.iter().map(ToString::to_string).collect(),
        moved: unit.outcome.changes.placements.iter().filter(|row| !row.clusters.is_empty()).count(),
        replicas: Replicas::of(losses),
        nowhere: losses.iter().filter(|loss| loss.nowhere).map(|loss| loss.object.clone()).collect(),
        unschedulable: unit.outcome.unschedulable().into_iter().cloned().collect(),
    }
}

impl Events {
    /// The events as a person says them.
    fn words(&self) -> Vec<String> {
        let files = self.add.iter().map(|path| format!("add {}", path.display()));
        let kinds = [
            ("label", &self.label),
            ("capacity", &self.capacity),
            ("taint", &self.taint),
            ("untaint", &self.untaint),
            ("scale", &self.scale),
            ("lose", &self.lose),
            ("remove", &self.remove),
        ];
        let others =
            kinds.into_iter().flat_map(|(kind, texts)| texts.iter().map(move |t| format!("{kind} {t}")));
        files.chain(others).collect()
    }

    fn scenario(&self, scenarios: &Scenarios<'_>) -> Result<Scenario, Fault> {
        let mut events = Vec::new();
        for path in &self.add {
            let failed = |e: std::io::Error| Fault::Failed(format!("{}: {e}", path.display()));
            let bytes = fs::read(path).map_err(failed)?;
            let clusters = scenarios.clusters_of(&path.to_string_lossy(), bytes).map_err(Fault::Failed)?;
            events.extend(clusters.into_iter().map(|cluster| Event::Add(Box::new(cluster))));
        }
        type Read = fn(&str) -> Result<Event, String>;
        let kinds: [(&[String], Read); 7] = [
            (&self.label, Event::label),
            (&self.capacity, Event::capacity),
            (&self.taint, Event::taint),
            (&self.untaint, Event::untaint),
            (&self.scale, Event::scale),
            (&self.lose, |text| Selection::parse(text).map(Event::Lose)),
            (&self.remove, |text| Selection::parse(text).map(Event::Remove)),
        ];
        for (texts, read) in kinds {
            for text in texts {
                events.push(read(text).map_err(Fault::Failed)?);
            }
        }
        Ok(Scenario { events })
    }
}
