//! The `Ready` condition of Karmada's `Cluster`, observation after observation.
//!
//! Facts: a change that lasts shorter than its threshold is not stored. A renewed lease alone does not make a cluster known
//! again.

use federate_karmada::capacity::readiness::{
    ConditionThresholds, GracePeriods, MemberHealth, ready_condition, unknown_condition,
};
use federate_kubernetes::Condition;
use jiff::{SignedDuration, Timestamp};

/// When a lost cluster in mode `Push` is stored as lost, and its condition.
pub(crate) fn lose_endpoint(thresholds: ConditionThresholds) -> (SignedDuration, Condition) {
    let (healthy, lost) =
        (ready_condition(MemberHealth::Healthy), ready_condition(MemberHealth::Unreachable));
    let mut threshold = ReadinessThreshold::default();
    threshold.adjust_condition(None, healthy.clone(), thresholds, Timestamp::UNIX_EPOCH);
    let mut waited = SignedDuration::ZERO;
    loop {
        let now = Timestamp::UNIX_EPOCH + waited;
        let stored = threshold.adjust_condition(Some(&healthy), lost.clone(), thresholds, now);
        if stored != healthy {
            return (waited, stored);
        }
        waited += SignedDuration::from_secs(1);
    }
}

/// When a lost cluster in mode `Pull` is stored as lost, and its condition. It is lost when the time is over.
pub(crate) fn lose_agent(grace: GracePeriods) -> (SignedDuration, Condition) {
    let (healthy, start) = (ready_condition(MemberHealth::Healthy), Timestamp::UNIX_EPOCH);
    let mut monitor = LeaseMonitor::default();
    let mut waited = SignedDuration::ZERO;
    loop {
        let unknown = monitor.observe_cluster(start, Some(&healthy), Some(start), grace, start + waited);
        let second = SignedDuration::from_secs(1);
        if let Some(unknown) = unknown {
            return (waited - second, Condition { last_transition_time: None, ..unknown });
        }
        waited += second;
    }
}

/// What was observed last, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadinessThreshold {
    observed: Option<(bool, Option<Timestamp>)>,
}

impl ReadinessThreshold {
    /// The condition that is stored after an observation.
    pub(crate) fn adjust_condition(
        &mut self,
        stored: Option<&Condition>,
        observed: Condition,
        thresholds: ConditionThresholds,
        now: Timestamp,
    ) -> Condition {
        let ready = observed.is_true();
        let Some((before, since)) = self.observed else {
            self.observed = Some((ready, None));
            return observed;
        };
        let since = if before == ready { since } else { Some(now) };
        self.observed = Some((ready, since));
        let threshold = if ready { thresholds.success } else { thresholds.failure };
        let early = since.is_some_and(|since| now.duration_since(since) < threshold);
        match stored {
            Some(stored) if stored.is_true() != ready && early => stored.clone(),
            _ => observed,
        }
    }
}

/// The controller's memory of a cluster in mode `Pull`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseMonitor {
    known: Option<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    ready: Option<Condition>,
    probed: Timestamp,
    lease: Lease,
}

/// The remembered state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    /// Nothing: any lease counts as renewed.
    Forgotten,
    /// That there was none: no lease counts.
    Absent,
    /// When it was renewed.
    Renewed(Timestamp),
}

impl LeaseMonitor {
    /// Observes a cluster, given its creation time, its stored condition and the time when its lease was renewed.
    /// Returns the condition that replaces the stored one, if any.
    pub(crate) fn observe_cluster(
        &mut self,
        created: Timestamp,
        ready: Option<&Condition>,
        lease: Option<Timestamp>,
        grace: GracePeriods,
        now: Timestamp,
    ) -> Option<Condition> {
        let before = self.known.as_ref().map_or(Lease::Forgotten, |known| known.lease);
        let mut known = self.known.take().unwrap_or_else(|| Known {
            ready: ready.cloned(),
            probed: if ready.is_some() { now } else { created },
            lease: Lease::Forgotten,
        });
        if known.ready.as_ref() != ready {
            known = Known { ready: ready.cloned(), probed: now, lease: Lease::Forgotten };
        }
        let renewed = lease.filter(|lease| match before {
            Lease::Forgotten => true,
            Lease::Absent => false,
            Lease::Renewed(last) => last < *lease,
        });
        if let Some(renewed) = renewed {
            known.lease = Lease::Renewed(renewed);
            known.probed = now;
        }
        let period = if ready.is_some() { grace.monitor } else { grace.startup };
        let silent = now.duration_since(known.probed) > period;
        let unknown = (silent && ready.is_none_or(|ready| ready.status != "Unknown"))
            .then(|| Condition { last_transition_time: Some(now), ..unknown_condition(ready.is_some()) });
        if unknown.is_some() {
            known.ready.clone_from(&unknown);
            known.lease = lease.map_or(Lease::Absent, Lease::Renewed);
        }
        self.known = Some(known);
        unknown
    }
}
