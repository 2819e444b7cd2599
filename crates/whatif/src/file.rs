//! Scenarios in files, with what is expected of them: `kind: Scenario` of `federate.dev/v1alpha1`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::{
    ClusterMatcher, FailureDomain, ReplicaLoss, RunningObject, Scenario, ScenarioEvent, TimelineOptions,
};
use federate_dialect::Dialects;
use federate_dialect::plan::API_VERSION;
use federate_kubernetes::ObjectRef;
use federate_kubernetes::finding::count_replicas;
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
    pub each: Option<(FailureDomain, bool)>,
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
    /// The text of the selector.
    labels: Option<String>,
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
pub fn read_scenarios(bytes: &[u8], dialects: Dialects) -> Vec<Result<ScenarioFile, (u32, String)>> {
    let documents = federate_yaml::read_stream(bytes).documents.into_iter();
    let is_scenario =
        |value: &serde_json::Value| value["apiVersion"] == API_VERSION && value["kind"] == "Scenario";
    documents
        .filter(|document| is_scenario(&document.value))
        .map(|document| {
            let line = document.line;
            let read: Result<Document, _> = serde_path_to_error::deserialize(document.value);
            let read = read.map_err(|e| format!("`{}`: {}", e.path(), e.inner()));
            read.and_then(|document| ScenarioFile::from_document(document, line, dialects))
                .map_err(|why| (line, why))
        })
        .collect()
}

/// Whether a file may contain scenarios.
pub fn may_hold_scenarios(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains("Scenario") && text.contains(API_VERSION))
}

impl ScenarioFile {
    fn from_document(document: Document, line: u32, dialects: Dialects) -> Result<Self, String> {
        let Spec { each, pairs, events, gates, at, expect } = document.spec;
        let each = each.map(|unit| unit_of(&unit)).transpose()?.map(|unit| (unit, pairs));
        if let Some(unknown) = gates.keys().find(|gate| *gate != "Failover") {
            return Err(format!(
                "`spec.gates`: the only gate that scenarios know is Failover, not `{unknown}`"
            ));
        }
        let failover = gates.get("Failover").copied().unwrap_or(false);
        let scenario = events.into_scenario(dialects)?;
        if scenario.events.is_empty() && each.is_none() {
            return Err("`spec`: the scenario is empty: add `events`, or `each: cluster`".to_owned());
        }
        let expect = expect.into_iter().map(Expectation::from_expected).collect::<Result<_, _>>()?;
        let options = TimelineOptions { failover, at, ..TimelineOptions::default() };
        Ok(Self { name: document.metadata.name, line, each, scenario, options, expect })
    }
}

fn unit_of(text: &str) -> Result<FailureDomain, String> {
    let units = [FailureDomain::Cluster, FailureDomain::Zone, FailureDomain::Region, FailureDomain::Provider];
    units
        .into_iter()
        .find(|unit| unit.name() == text)
        .ok_or_else(|| format!("`spec.each`: `{text}` is not one of cluster, zone, region, provider"))
}

impl Events {
    fn into_scenario(self, dialects: Dialects) -> Result<Scenario, String> {
        let mut events = Vec::new();
        let mut add = |texts: Vec<String>, read: &dyn Fn(&str) -> Result<ScenarioEvent, String>| {
            for text in texts {
                events.push(read(&text).map_err(|why| format!("`spec.events`: {why}"))?);
            }
            Ok::<(), String>(())
        };
        add(self.label, &ScenarioEvent::parse_label)?;
        add(self.capacity, &ScenarioEvent::parse_capacity)?;
        add(self.taint, &|text| ScenarioEvent::parse_taint(text, dialects))?;
        add(self.untaint, &|text| ScenarioEvent::parse_untaint(text, dialects))?;
        add(self.scale, &ScenarioEvent::parse_scale)?;
        add(self.lose, &|text| ClusterMatcher::parse(text).map(ScenarioEvent::Lose))?;
        add(self.remove, &|text| ClusterMatcher::parse(text).map(ScenarioEvent::Remove))?;
        Ok(Scenario { events })
    }
}

impl Expectation {
    fn from_expected(expected: Expected) -> Result<Self, String> {
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
        Ok(Self { kind: expected.kind, selector, labels: expected.selector, at_least })
    }

    /// What an outcome with these losses does not fulfil, one sentence per object.
    pub fn find_violations(&self, repo: &Repo, losses: &[ReplicaLoss]) -> Vec<String> {
        let about = losses.iter().filter(|loss| self.is_about(repo, &loss.object));
        about
            // What lost nothing is as before the scenario.
            .filter(|loss| loss.lost > 0 || loss.nowhere)
            .filter_map(|l| self.check_loss(l))
            .collect()
    }

    /// The objects that do not fulfil it even before the scenario: one sentence each. `running` is what runs then.
    ///
    /// # Errors
    ///
    /// If the repo has no such object, so that the expectation would hold whatever happens.
    pub fn violations_before(&self, repo: &Repo, running: &[RunningObject]) -> Result<Vec<String>, String> {
        // What no policy places is only meant where it is named.
        let names_objects = self.kind.is_some() || self.selector.is_some();
        let about: Vec<&RunningObject> = running
            .iter()
            .filter(|one| one.is_placed || names_objects)
            .filter(|one| self.is_about(repo, &one.object))
            .collect();
        if about.is_empty() {
            return Err(format!(
                "`spec.expect`: no object of the plan {}, so the expectation cannot fail; correct it, or remove it",
                self.describe_subject()
            ));
        }
        Ok(about.into_iter().filter_map(|one| self.violated_before(one)).collect())
    }

    /// What it is about, as the end of a sentence.
    fn describe_subject(&self) -> String {
        let kind = self.kind.as_ref().map(|kind| format!("has the kind {kind}"));
        let labels = self.labels.as_ref().map(|labels| format!("has the labels `{labels}`"));
        let parts: Vec<String> = kind.into_iter().chain(labels).collect();
        if parts.is_empty() { "exists".to_owned() } else { parts.join(" and ") }
    }

    fn violated_before(&self, one: &RunningObject) -> Option<String> {
        let (least, is_least) = match self.at_least {
            Least::Replicas(least) => (least, true),
            Least::Percent(percent) => (percent, false),
        };
        if least == 0 {
            return None;
        }
        if one.clusters == 0 || (one.has_replicas && one.replicas == 0) {
            return Some(format!("{} runs nowhere, even before the scenario", one.object));
        }
        (is_least && one.has_replicas && one.replicas < least).then(|| {
            format!(
                "{} has {} even before the scenario, and {least} are expected",
                one.object,
                count_replicas(one.replicas)
            )
        })
    }

    fn is_about(&self, repo: &Repo, object: &ObjectRef) -> bool {
        let labels =
            || repo.find_template(object).map(|template| template.object.labels()).unwrap_or_default();
        self.kind.as_ref().is_none_or(|kind| object.kind.eq_ignore_ascii_case(kind))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(&labels()))
    }

    fn check_loss(&self, loss: &ReplicaLoss) -> Option<String> {
        let now = loss.regained.saturating_add(loss.added);
        let before = loss.left.saturating_add(loss.lost).saturating_sub(now);
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
