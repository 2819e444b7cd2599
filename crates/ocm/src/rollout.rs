//! The rule of rollouts: which clusters of a placement get a new template now.
//!
//! Facts: a cluster is active while it has to be applied, while it progresses or has failed before its deadline, and
//! until its success has lasted long enough. A cluster that passes its deadline has timed out, which is a failure. A
//! cluster that has to be applied has no deadline. `Progressive` fills a number of active clusters, by name;
//! `ProgressivePerGroup` works group after group; mandatory groups come first and tolerate no failure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use federate_dialect::goduration;
use federate_kubernetes::ClusterName;

use crate::api::work::{RolloutConfig, RolloutStrategy};
use crate::schedule::groups::DecisionGroup;

pub(crate) mod works;

/// The state of a cluster in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutState {
    /// It has to be applied, or its state is unknown.
    ToApply,
    /// It is being applied.
    Progressing,
    /// It is applied.
    Succeeded,
    /// It cannot be applied.
    Failed,
    /// It was not applied in time.
    TimeOut,
    /// It is left out.
    Skip,
}

impl RolloutState {
    /// The state of a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::ToApply, Self::Progressing, Self::Succeeded, Self::Failed, Self::TimeOut, Self::Skip]
            .into_iter()
            .find(|state| state.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ToApply => "ToApply",
            Self::Progressing => "Progressing",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::TimeOut => "TimeOut",
            Self::Skip => "Skip",
        }
    }
}

/// A cluster in a rollout.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterState {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its state.
    pub state: RolloutState,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// What a rollout does at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutDecision {
    /// The active clusters; those with the state `ToApply` get the new template.
    pub active: Vec<ClusterState>,
    /// The clusters that have just timed out.
    pub timed_out: Vec<ClusterState>,
    /// The clusters that the placement does not select any more.
    pub removed: Vec<ClusterState>,
    /// Whether more clusters have failed than may.
    pub is_breached: bool,
    /// When the next active cluster changes its state by itself.
    pub recheck: Option<SignedDuration>,
}

/// Decides about a rollout whose strategy is as in an object. `Err` says what is wrong with it.
pub fn decide_rollout(
    strategy: &Value,
    groups: &[DecisionGroup],
    existing: &[ClusterState],
    now: Timestamp,
) -> Result<RolloutDecision, String> {
    let strategy = RolloutStrategy::deserialize(strategy).map_err(|error| error.to_string())?;
    decide(&strategy, groups, existing, now)
}

/// The same for a strategy that is read.
pub(crate) fn decide(
    strategy: &RolloutStrategy,
    groups: &[DecisionGroup],
    existing: &[ClusterState],
    now: Timestamp,
) -> Result<RolloutDecision, String> {
    let decided: BTreeSet<&ClusterName> = groups.iter().flat_map(|group| &group.clusters).collect();
    let (mut existing, mut removed): (Vec<_>, Vec<_>) =
        existing.iter().cloned().partition(|one| decided.contains(&one.cluster));
    existing.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    removed.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let all: Vec<&DecisionGroup> = groups.iter().collect();
    let total = decided.len();
    let (config, is_soaked) = match strategy.kind.as_str() {
        "" | "All" => (&strategy.all, false),
        "Progressive" => (&strategy.progressive, true),
        "ProgressivePerGroup" => (&strategy.per_group, true),
        other => return Err(format!("incorrect rollout strategy type {other}")),
    };
    let limits = Limits {
        now,
        deadline: read_deadline(&config.progress_deadline)?,
        soak: if is_soaked { read_soak(&config.min_success_time)? } else { SignedDuration::ZERO },
    };
    let mut decision = if is_soaked {
        let (mandatory, rest) = split_mandatory(config, &all);
        let first = limits.roll_per_group(&mandatory, &Value::from(0), &existing)?;
        let is_idle = first.active.is_empty() && first.timed_out.is_empty();
        if !mandatory.is_empty() && !is_idle {
            first
        } else if strategy.kind == "Progressive" {
            let remaining = rest.iter().flat_map(|(_, group)| &group.clusters).collect::<BTreeSet<_>>().len();
            let size = read_amount(&config.max_concurrency, remaining, remaining)?;
            let max_failures = read_amount(&config.max_failures, total, 0)?;
            limits.roll_per_cluster(&rest, size, max_failures, &existing)
        } else {
            limits.roll_per_group(&rest, &config.max_failures, &existing)?
        }
    } else {
        let groups: Vec<(usize, &DecisionGroup)> = all.iter().copied().enumerate().collect();
        limits.roll_per_cluster(&groups, total, total, &existing)
    };
    decision.removed = removed;
    decision.recheck = limits.find_recheck(&decision.active);
    decision.active.sort();
    decision.timed_out.sort();
    Ok(decision)
}

/// Groups with their indexes.
type IndexedGroups<'g> = Vec<(usize, &'g DecisionGroup)>;

/// The mandatory groups, and the others.
fn split_mandatory<'g>(
    config: &RolloutConfig,
    groups: &[&'g DecisionGroup],
) -> (IndexedGroups<'g>, IndexedGroups<'g>) {
    let is_mandatory = |(index, group): &(usize, &DecisionGroup)| {
        config.mandatory.iter().any(|wanted| {
            if wanted.name.is_empty() {
                usize::try_from(wanted.index) == Ok(*index)
            } else {
                wanted.name == group.name
            }
        })
    };
    groups.iter().copied().enumerate().partition(is_mandatory)
}

/// The times of a rollout.
struct Limits {
    now: Timestamp,
    /// After which a cluster has timed out; `None` for never.
    deadline: Option<SignedDuration>,
    /// How long a success must last.
    soak: SignedDuration,
}

/// What becomes of an existing state.
enum Classified {
    Active(ClusterState),
    TimedOut(ClusterState),
    Done(RolloutState),
}

impl Limits {
    /// When a state ends by itself.
    fn find_end(&self, state: &ClusterState) -> Option<Timestamp> {
        let limit = match state.state {
            RolloutState::Succeeded => self.soak,
            RolloutState::Progressing | RolloutState::Failed => self.deadline?,
            RolloutState::ToApply | RolloutState::TimeOut | RolloutState::Skip => return None,
        };
        let since = state.since.unwrap_or(self.now);
        Some(since.checked_add(limit).unwrap_or(Timestamp::MAX))
    }

    fn classify(&self, state: &ClusterState) -> Classified {
        let is_in_time = self.find_end(state).is_none_or(|end| self.now < end);
        match state.state {
            RolloutState::ToApply => Classified::Active(state.clone()),
            RolloutState::Succeeded if is_in_time => Classified::Active(state.clone()),
            RolloutState::Progressing | RolloutState::Failed if is_in_time => {
                Classified::Active(state.clone())
            }
            RolloutState::Progressing | RolloutState::Failed => {
                Classified::TimedOut(ClusterState { state: RolloutState::TimeOut, ..state.clone() })
            }
            done => Classified::Done(done),
        }
    }

    /// Adds a state to a decision, and returns the state that it has now.
    fn add(&self, decision: &mut RolloutDecision, state: &ClusterState) -> RolloutState {
        match self.classify(state) {
            Classified::Active(active) => {
                let state = active.state;
                decision.active.push(active);
                state
            }
            Classified::TimedOut(late) => {
                decision.timed_out.push(late);
                RolloutState::TimeOut
            }
            Classified::Done(state) => state,
        }
    }

    /// Keeps a number of clusters active.
    fn roll_per_cluster(
        &self,
        groups: &[(usize, &DecisionGroup)],
        size: usize,
        max_failures: usize,
        existing: &[ClusterState],
    ) -> RolloutDecision {
        let mut decision = RolloutDecision::default();
        let mut failures = 0;
        for state in existing {
            if decision.is_breached && state.state == RolloutState::ToApply {
                continue;
            }
            let state = self.add(&mut decision, state);
            failures += usize::from(is_failure(state));
            decision.is_breached = failures > max_failures;
            if decision.active.len() >= size {
                return decision;
            }
        }
        if decision.is_breached {
            return decision;
        }
        let known: BTreeSet<&ClusterName> = existing.iter().map(|state| &state.cluster).collect();
        let clusters: BTreeSet<&ClusterName> = groups.iter().flat_map(|(_, group)| &group.clusters).collect();
        for cluster in clusters.into_iter().filter(|cluster| !known.contains(cluster)) {
            if decision.active.len() >= size {
                break;
            }
            decision.active.push(to_apply(cluster));
        }
        decision
    }

    /// Works group after group.
    fn roll_per_group(
        &self,
        groups: &[(usize, &DecisionGroup)],
        max_failures: &Value,
        existing: &[ClusterState],
    ) -> Result<RolloutDecision, String> {
        let mut decision = RolloutDecision::default();
        if groups.is_empty() {
            return Ok(decision);
        }
        let mut known: BTreeMap<&ClusterName, RolloutState> = BTreeMap::new();
        for state in existing.iter().filter(|state| state.state != RolloutState::ToApply) {
            known.insert(&state.cluster, self.add(&mut decision, state));
        }
        let mut all_failures = 0;
        for (_, group) in groups {
            let limit = read_amount(max_failures, group.clusters.len(), 0)?;
            let mut failures = 0;
            for cluster in &group.clusters {
                match known.get(cluster) {
                    Some(state) => failures += usize::from(is_failure(*state)),
                    None => decision.active.push(to_apply(cluster)),
                }
            }
            all_failures += failures;
            decision.is_breached = failures > limit;
            if decision.is_breached || decision.active.len() > all_failures {
                break;
            }
        }
        Ok(decision)
    }

    /// When the first active cluster changes its state by itself.
    fn find_recheck(&self, active: &[ClusterState]) -> Option<SignedDuration> {
        let ends = active.iter().filter_map(|state| self.find_end(state));
        ends.map(|end| end.duration_since(self.now)).filter(SignedDuration::is_positive).min()
    }
}

fn to_apply(cluster: &ClusterName) -> ClusterState {
    ClusterState { cluster: cluster.clone(), state: RolloutState::ToApply, since: None }
}

fn is_failure(state: RolloutState) -> bool {
    matches!(state, RolloutState::TimeOut | RolloutState::Failed)
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
