//! The rule of rollouts: which clusters of a placement get a new template now.
//!
//! Facts: mandatory groups come first, one after the other, and tolerate no failure. Then `Progressive` fills a number of
//! active clusters, by name, and `ProgressivePerGroup` works group after group. `All` fills all places, and no success
//! has to last.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use federate_dialect::goduration;
use federate_dialect::rollout::group::{UpdateGroup, UpdateTimes, UpdateWindow};
use federate_dialect::rollout::{ClusterUpdate, RolloutDecision};
use federate_kubernetes::ClusterName;

use crate::api::work::{RolloutConfig, RolloutStrategy};
use crate::schedule::groups::DecisionGroup;

pub(crate) mod controller;
pub mod works;

/// What a rollout does at a moment, and which clusters it leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementRollout {
    /// What it does about the clusters of the placement.
    pub decision: RolloutDecision,
    /// The clusters that the placement does not select any more.
    pub removed: Vec<ClusterUpdate>,
}

/// Decides about a rollout whose strategy is as in an object; `All` if it is absent. `Err` says what is wrong with it.
pub fn decide_rollout(
    strategy: &Value,
    groups: &[DecisionGroup],
    existing: &[ClusterUpdate],
    now: Timestamp,
) -> Result<PlacementRollout, String> {
    let strategy = Option::<RolloutStrategy>::deserialize(strategy).map_err(|error| error.to_string())?;
    strategy.unwrap_or_default().advance(groups, existing, now)
}

/// The limits of a rollout.
pub(crate) struct RolloutSettings {
    /// Whether group follows group, after the mandatory ones.
    pub is_per_group: bool,
    /// How many clusters are updated at a time, if that is limited.
    pub max_concurrency: Option<usize>,
    /// How long a success must last.
    pub min_success: SignedDuration,
    /// After which time a cluster has failed; `None` for never.
    pub deadline: Option<SignedDuration>,
    /// How many clusters may fail: a number, or a percentage of a group.
    pub max_failures: String,
}

impl RolloutStrategy {
    /// Its limits over the clusters of these groups. `Err` says what is wrong with them.
    pub(crate) fn read_settings(&self, groups: &[DecisionGroup]) -> Result<RolloutSettings, String> {
        let config = self.config()?;
        let total = groups.iter().map(|group| group.clusters.len()).sum();
        let rest = groups.iter().enumerate().filter(|(index, group)| !config.is_mandatory(*index, group));
        let rest = rest.map(|(_, group)| group.clusters.len()).sum();
        let is_per_group = self.is_per_group();
        let max_concurrency = read_amount(&config.max_concurrency, rest, rest)?;
        let max_failures = match &config.max_failures {
            Value::String(percentage) if is_per_group => percentage.clone(),
            amount => read_amount(amount, total, 0)?.to_string(),
        };
        Ok(RolloutSettings {
            is_per_group,
            max_concurrency: (!is_per_group && max_concurrency < rest).then_some(max_concurrency),
            min_success: read_soak(&config.min_success_time)?,
            deadline: read_deadline(&config.progress_deadline)?,
            max_failures,
        })
    }

    /// Whether group follows group.
    pub(crate) fn is_per_group(&self) -> bool {
        self.kind == "ProgressivePerGroup"
    }

    /// Whether a group must succeed before others begin.
    pub(crate) fn is_mandatory(&self, index: usize, group: &DecisionGroup) -> bool {
        self.config().is_ok_and(|config| config.is_mandatory(index, group))
    }

    /// Whether it limits how many clusters are updated at a time.
    pub(crate) fn is_limited(&self) -> bool {
        !matches!(self.kind.as_str(), "" | "All")
    }

    /// The settings of its type. `Err` says what is wrong with it.
    fn config(&self) -> Result<&RolloutConfig, String> {
        match self.kind.as_str() {
            "" | "All" => Ok(&self.all),
            "Progressive" => Ok(&self.progressive),
            "ProgressivePerGroup" => Ok(&self.per_group),
            other => Err(format!("incorrect rollout strategy type {other}")),
        }
    }

    /// Decides about a rollout. `existing` are the clusters that have the current template.
    pub(crate) fn advance(
        &self,
        groups: &[DecisionGroup],
        existing: &[ClusterUpdate],
        now: Timestamp,
    ) -> Result<PlacementRollout, String> {
        let config = self.config()?;
        let selected: BTreeSet<&ClusterName> = groups.iter().flat_map(|group| &group.clusters).collect();
        let (mut existing, mut removed): (Vec<_>, Vec<_>) =
            existing.iter().cloned().partition(|update| selected.contains(&update.cluster));
        existing.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        removed.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        let min_success =
            if self.is_limited() { read_soak(&config.min_success_time)? } else { SignedDuration::ZERO };
        let times = UpdateTimes { now, deadline: read_deadline(&config.progress_deadline)?, min_success };
        let decision = self.advance_groups(config, &times, groups, &existing)?;
        Ok(PlacementRollout { decision, removed })
    }

    fn advance_groups(
        &self,
        config: &RolloutConfig,
        times: &UpdateTimes,
        groups: &[DecisionGroup],
        existing: &[ClusterUpdate],
    ) -> Result<RolloutDecision, String> {
        let total = groups.iter().flat_map(|group| &group.clusters).collect::<BTreeSet<_>>().len();
        if !self.is_limited() {
            let clusters = groups.iter().flat_map(|group| &group.clusters).collect();
            let window = UpdateWindow { clusters, max_concurrency: total, max_failures: total };
            return Ok(times.advance_window(&window, existing));
        }
        let (mandatory, rest): (Vec<_>, Vec<_>) =
            groups.iter().enumerate().partition(|(index, group)| config.is_mandatory(*index, group));
        let rest: Vec<&DecisionGroup> = rest.into_iter().map(|(_, group)| group).collect();
        let mandatory = mandatory
            .into_iter()
            .map(|(_, group)| UpdateGroup { clusters: &group.clusters, max_failures: 0 });
        let first = times.advance_groups(&mandatory.collect::<Vec<_>>(), existing);
        if !first.active.is_empty() || !first.timed_out.is_empty() {
            return Ok(first);
        }
        if self.kind == "Progressive" {
            let clusters: BTreeSet<&ClusterName> = rest.iter().flat_map(|group| &group.clusters).collect();
            let max_concurrency = read_amount(&config.max_concurrency, clusters.len(), clusters.len())?;
            let max_failures = read_amount(&config.max_failures, total, 0)?;
            let window = UpdateWindow { clusters, max_concurrency, max_failures };
            return Ok(times.advance_window(&window, existing));
        }
        let rest = rest.into_iter().map(|group| {
            let max_failures = read_amount(&config.max_failures, group.clusters.len(), 0)?;
            Ok(UpdateGroup { clusters: &group.clusters, max_failures })
        });
        Ok(times.advance_groups(&rest.collect::<Result<Vec<_>, String>>()?, existing))
    }
}

impl RolloutConfig {
    /// Whether a group must succeed before others begin.
    fn is_mandatory(&self, index: usize, group: &DecisionGroup) -> bool {
        self.mandatory.iter().any(|wanted| {
            if wanted.name.is_empty() {
                usize::try_from(wanted.index) == Ok(index)
            } else {
                wanted.name == group.name
            }
        })
    }
}

/// A number, or a percentage rounded up; what is not positive, or more than there are, is the default.
fn read_amount(amount: &Value, total: usize, default: usize) -> Result<usize, String> {
    let number = match amount {
        Value::Null => 0,
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
            let percent = percent.ok_or_else(|| format!("`{text}` is not a percentage"))?;
            percent
                .saturating_mul(i64::try_from(total).unwrap_or(i64::MAX))
                .saturating_add(99)
                .div_euclid(100)
        }
        other => return Err(format!("`{other}` is neither a number nor a percentage")),
    };
    Ok(usize::try_from(number).ok().filter(|number| (1..=total).contains(number)).unwrap_or(default))
}

/// The deadline of a strategy.
fn read_deadline(text: &str) -> Result<Option<SignedDuration>, String> {
    if text.is_empty() || text == "None" {
        return Ok(None);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let has_unit = text.as_bytes().get(digits).is_some_and(|unit| b"hms".contains(unit));
    let deadline = goduration::parse(text).filter(|_| digits > 0 && has_unit);
    deadline.map(Some).ok_or_else(|| format!("`{text}` is not a duration"))
}

/// How long a success must last.
fn read_soak(value: &Value) -> Result<SignedDuration, String> {
    match value {
        Value::Null => Ok(SignedDuration::ZERO),
        Value::Number(number) => Ok(SignedDuration::from_nanos(number.as_i64().unwrap_or(0))),
        Value::String(text) => goduration::parse(text).ok_or_else(|| format!("`{text}` is not a duration")),
        other => Err(format!("`{other}` is not a duration")),
    }
}
