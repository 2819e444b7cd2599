//! Scenarios in files, with what is expected of them: `kind: Scenario` of `federate.dev/v1alpha1`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::{Event, Loss, Scenario, Selection, TimelineOptions, Unit};
use federate_dialect::plan::{API_VERSION, Placement, Plan};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::selector::LabelSelector;
use federate_repo::Repo;

/// A scenario with its expectations.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// Its name.
    pub name: String,
    /// The line of its document.
    pub line: u32,
    /// What is lost in turn, after the events; in pairs if the flag is set.
    pub each: Option<(Unit, bool)>,
    /// The events.
    pub scenario: Scenario,
    /// How it is carried out.
    pub options: TimelineOptions,
    /// What is expected.
    pub expect: Vec<Expectation>,
}

/// What is expected of some objects.
#[derive(Clone, Debug)]
pub struct Expectation {
    kind: Option<String>,
    selector: Option<LabelSelector>,
    at_least: Least,
}

/// The replicas that must still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Least {
    Replicas(i64),
    Percent(i64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    #[allow(dead_code, reason = "checked before")]
    api_version: String,
    #[allow(dead_code, reason = "checked before")]
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    each: Option<String>,
    #[serde(default)]
    pairs: bool,
    #[serde(default)]
    events: Events,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    at: Option<Timestamp>,
    #[serde(default)]
    expect: Vec<Expected>,
}

/// The events, in the notation of the command line. They happen in this order.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Events {
    label: Vec<String>,
    capacity: Vec<String>,
    taint: Vec<String>,
    untaint: Vec<String>,
    scale: Vec<String>,
    lose: Vec<String>,
    remove: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Expected {
    kind: Option<String>,
    selector: Option<String>,
    at_least: String,
}

/// Reads the scenarios of a file; other documents are ignored. The error has the line of its document.
pub fn scenarios(bytes: &[u8]) -> Vec<Result<ScenarioFile, (u32, String)>> {
    let documents = federate_yaml::read(bytes).documents.into_iter();
    let is_scenario =
        |value: &serde_json::Value| value["apiVersion"] == API_VERSION && value["kind"] == "Scenario";
    documents
        .filter(|document| is_scenario(&document.value))
        .map(|document| {
            let line = document.line;
            let read: Result<Document, _> = serde_path_to_error::deserialize(document.value);
            let read = read.map_err(|e| format!("`{}`: {}", e.path(), e.inner()));
            read.and_then(|document| ScenarioFile::of(document, line)).map_err(|why| (line, why))
        })
        .collect()
}

/// Whether a file may contain scenarios.
pub fn may_hold_scenarios(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains("Scenario") && text.contains(API_VERSION))
}

impl ScenarioFile {
    fn of(document: Document, line: u32) -> Result<Self, String> {
        let Spec { each, pairs, events, gates, at, expect } = document.spec;
        let each = each.map(|unit| unit_of(&unit)).transpose()?.map(|unit| (unit, pairs));
        if let Some(unknown) = gates.keys().find(|gate| *gate != "Failover") {
            return Err(format!(
                "`spec.gates`: the only gate that scenarios know is Failover, not `{unknown}`"
            ));
        }
        let failover = gates.get("Failover").copied().unwrap_or(false);
        let scenario = events.scenario()?;
        if scenario.events.is_empty() && each.is_none() {
            return Err("`spec`: the scenario is empty: add `events`, or `each: cluster`".to_owned());
        }
        let expect = expect.into_iter().map(Expectation::of).collect::<Result<_, _>>()?;
        let options = TimelineOptions { failover, at, ..TimelineOptions::default() };
        Ok(Self { name: document.metadata.name, line, each, scenario, options, expect })
    }
}

fn unit_of(text: &str) -> Result<Unit, String> {
    let units = [Unit::Cluster, Unit::Zone, Unit::Region, Unit::Provider];
    units
        .into_iter()
        .find(|unit| unit.name() == text)
        .ok_or_else(|| format!("`spec.each`: `{text}` is not one of cluster, zone, region, provider"))
}

impl Events {
    fn scenario(self) -> Result<Scenario, String> {
        let mut events = Vec::new();
        let mut add = |texts: Vec<String>, read: &dyn Fn(&str) -> Result<Event, String>| {
            for text in texts {
                events.push(read(&text).map_err(|why| format!("`spec.events`: {why}"))?);
            }
            Ok::<(), String>(())
        };
        add(self.label, &Event::label)?;
        add(self.capacity, &Event::capacity)?;
        add(self.taint, &Event::taint)?;
        add(self.untaint, &Event::untaint)?;
        add(self.scale, &Event::scale)?;
        add(self.lose, &|text| Selection::parse(text).map(Event::Lose))?;
        add(self.remove, &|text| Selection::parse(text).map(Event::Remove))?;
        Ok(Scenario { events })
    }
}

impl Expectation {
    fn of(expected: Expected) -> Result<Self, String> {
        let selector = expected.selector.as_deref().map(LabelSelector::parse).transpose();
        let selector = selector.map_err(|why| format!("`spec.expect.selector`: {why}"))?;
        let (number, percent) = match expected.at_least.strip_suffix('%') {
            Some(number) => (number, true),
            None => (expected.at_least.as_str(), false),
        };
        let number = number.trim().parse::<i64>().ok().filter(|n| *n >= 0).ok_or_else(|| {
            format!("`spec.expect.atLeast`: `{}` is neither a number nor a percentage", expected.at_least)
        })?;
        let at_least = if percent { Least::Percent(number) } else { Least::Replicas(number) };
        Ok(Self { kind: expected.kind, selector, at_least })
    }

    /// What an outcome with these losses does not fulfil, one sentence per object.
    pub fn violations(&self, repo: &Repo, losses: &[Loss]) -> Vec<String> {
        losses
            .iter()
            .filter(|loss| self.is_about(repo, &loss.object))
            .filter_map(|l| self.violated(l))
            .collect()
    }

    /// The objects of which replicas are expected, and which run nowhere even before the scenario: one sentence each.
    pub fn nowhere_before(&self, repo: &Repo, plan: &Plan) -> Vec<String> {
        let expects_none = matches!(self.at_least, Least::Replicas(0) | Least::Percent(0));
        let is_nowhere = |p: &&Placement| !expects_none && p.unschedulable.is_some() && p.clusters.is_empty();
        let found = plan.placements.iter().filter(is_nowhere).filter(|p| self.is_about(repo, &p.object));
        found.map(|p| format!("{} runs nowhere, even before the scenario", p.object)).collect()
    }

    fn is_about(&self, repo: &Repo, object: &ObjectRef) -> bool {
        let labels = || repo.template(object).map(|template| template.object.labels()).unwrap_or_default();
        self.kind.as_ref().is_none_or(|kind| object.kind.eq_ignore_ascii_case(kind))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(&labels()))
    }

    fn violated(&self, loss: &Loss) -> Option<String> {
        let before = loss.left.saturating_add(loss.lost).saturating_sub(loss.regained);
        let (least, words) = match self.at_least {
            Least::Replicas(least) => (least, least.to_string()),
            // Rounded up: 70 % of 3 replicas are 3.
            Least::Percent(percent) => {
                (before.saturating_mul(percent).saturating_add(99) / 100, format!("{percent} %"))
            }
        };
        let too_few = loss.left < least || (loss.nowhere && least > 0);
        too_few.then(|| {
            format!("{} keeps {} of {before} replicas, and {words} are expected", loss.object, loss.left)
        })
    }
}
