//! The events of a scenario: options of `federate whatif`, and questions to `federate serve` and `federate mcp`.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;

use federate_dialects::DIALECTS;
use federate_session::ScenarioRunner;
use federate_whatif::{ClusterMatcher, Scenario, ScenarioEvent};

/// The events of the scenario, which happen in the order of these options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[command(next_help_heading = "Scenario options")]
pub(super) struct ScenarioArgs {
    /// Add the clusters of a file with inventory objects
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    add: Vec<PathBuf>,

    /// Add a label to clusters: eu-1=KEY=VALUE
    #[arg(long, value_name = "CLUSTER=LABEL")]
    label: Vec<String>,

    /// Resize clusters: eu-1=50%, or amounts of resources
    #[arg(long, value_name = "CLUSTER=SIZE")]
    capacity: Vec<String>,

    /// Add a taint to clusters: eu-1=KEY[=VALUE]:EFFECT
    #[arg(long, value_name = "CLUSTER=TAINT")]
    taint: Vec<String>,

    /// Remove a taint from clusters: eu-1=KEY[:EFFECT]
    #[arg(long, value_name = "CLUSTER=TAINT")]
    untaint: Vec<String>,

    /// Scale a workload, KIND/NAMESPACE/NAME: N, +N, -N, +N% or -N%
    #[arg(long, value_name = "WORKLOAD=N", allow_hyphen_values = true)]
    scale: Vec<String>,

    /// Make clusters unreachable
    #[arg(long, value_name = "CLUSTER")]
    lose: Vec<String>,

    /// Remove clusters from the federation
    #[arg(long, value_name = "CLUSTER")]
    remove: Vec<String>,
}

/// Parses an event of one kind.
type Read = fn(&str) -> Result<ScenarioEvent, String>;

impl ScenarioArgs {
    /// The events as text, such as `lose eu-1`.
    pub(super) fn describe_events(&self) -> Vec<String> {
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

    /// The scenario. An error is a message for the user.
    pub(super) fn read_scenario(&self, scenarios: &ScenarioRunner<'_>) -> Result<Scenario, String> {
        let mut events = Vec::new();
        for path in &self.add {
            let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let clusters = scenarios.clusters_of(&path.to_string_lossy(), bytes)?;
            events.extend(clusters.into_iter().map(|cluster| ScenarioEvent::Add(Box::new(cluster))));
        }
        let kinds: [(&[String], Read); 7] = [
            (&self.label, ScenarioEvent::parse_label),
            (&self.capacity, ScenarioEvent::parse_capacity),
            (&self.taint, |text| ScenarioEvent::parse_taint(text, DIALECTS)),
            (&self.untaint, |text| ScenarioEvent::parse_untaint(text, DIALECTS)),
            (&self.scale, ScenarioEvent::parse_scale),
            (&self.lose, |text| ClusterMatcher::parse(text).map(ScenarioEvent::Lose)),
            (&self.remove, |text| ClusterMatcher::parse(text).map(ScenarioEvent::Remove)),
        ];
        for (texts, read) in kinds {
            for text in texts {
                events.push(read(text)?);
            }
        }
        Ok(Scenario { events })
    }
}
