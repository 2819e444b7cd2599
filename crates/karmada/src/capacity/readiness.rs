//! The `Ready` condition of a `Cluster`: its thresholds, and when it becomes unknown.
//!
//! Facts: a change between True and not-True has to last for a threshold before it is stored. A cluster in
//! mode `Push` never becomes unknown. A cluster in mode `Pull` does when neither its condition nor its lease has
//! changed for the grace period. A renewed lease alone does not end that.

use federate_kubernetes::Condition;
use jiff::{SignedDuration, Timestamp};

/// The observed health of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberHealth {
    /// It is healthy.
    Healthy,
    /// It reports that it is not healthy.
    Unhealthy,
    /// It does not answer.
    Unreachable,
}

/// The condition for a health.
pub fn ready_condition(health: MemberHealth) -> Condition {
    let (status, reason, message) = match health {
        MemberHealth::Healthy => ("True", "ClusterReady", "cluster is healthy and ready to accept workloads"),
        MemberHealth::Unhealthy => {
            ("False", "ClusterNotReady", "cluster is reachable but health endpoint responded without ok")
        }
        MemberHealth::Unreachable => ("False", "ClusterNotReachable", "cluster is not reachable"),
    };
    Condition::new("Ready", status, reason, message)
}

/// How long a change must last before it is stored.
#[derive(Clone, Copy, Debug)]
pub struct ConditionThresholds {
    /// To become ready.
    pub success: SignedDuration,
    /// To become not ready.
    pub failure: SignedDuration,
}

impl Default for ConditionThresholds {
    fn default() -> Self {
        let half_a_minute = SignedDuration::from_secs(30);
        Self { success: half_a_minute, failure: half_a_minute }
    }
}

/// What was observed last, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadinessThreshold {
    observed: Option<(bool, Option<Timestamp>)>,
}

impl ReadinessThreshold {
    /// The condition that is stored after an observation.
    pub fn adjust_condition(
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

/// The grace periods of clusters that do not report.
#[derive(Clone, Copy, Debug)]
pub struct GracePeriods {
    /// Once it has reported.
    pub monitor: SignedDuration,
    /// Before it has.
    pub startup: SignedDuration,
}

impl Default for GracePeriods {
    fn default() -> Self {
        Self { monitor: SignedDuration::from_secs(40), startup: SignedDuration::from_secs(60) }
    }
}

/// The controller's memory of a cluster in mode `Pull`.
#[derive(Clone, Debug, Default)]
pub struct LeaseMonitor {
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
    pub fn observe_cluster(
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
        let (period, reason) = match ready {
            Some(_) => (grace.monitor, "ClusterStatusUnknown"),
            None => (grace.startup, "ClusterStatusNeverUpdated"),
        };
        let silent = now.duration_since(known.probed) > period;
        let unknown = (silent && ready.is_none_or(|ready| ready.status != "Unknown")).then(|| {
            let message = match ready {
                Some(_) => "Cluster status controller stopped posting cluster status.",
                None => "Cluster status controller never posted cluster status.",
            };
            Condition {
                last_transition_time: Some(now),
                ..Condition::new("Ready", "Unknown", reason, message)
            }
        });
        if unknown.is_some() {
            known.ready.clone_from(&unknown);
            known.lease = lease.map_or(Lease::Absent, Lease::Renewed);
        }
        self.known = Some(known);
        unknown
    }
}
