//! The health of an object in a member cluster, in terms that all dialects share.

/// The health of an object as it is in a member cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The verdict.
    pub state: HealthState,
    /// Why, in a sentence; empty where there is nothing to add.
    pub reason: String,
}

/// A verdict on an object's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthState {
    /// The object is as it should be.
    Healthy,
    /// The object is not, or not yet, as it should be.
    Unhealthy,
    /// The control plane has no rule for the kind.
    Unknown,
}

/// Whether a change has arrived at an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It has.
    Ready,
    /// More time may help; the reason why it has not.
    InProgress(String),
    /// It never will, whatever time it is given; the reason.
    Failed(String),
}

impl Health {
    /// Returns a healthy verdict.
    pub fn healthy() -> Self {
        Self { state: HealthState::Healthy, reason: String::new() }
    }

    /// Returns an unhealthy verdict with its reason.
    pub fn unhealthy(reason: impl Into<String>) -> Self {
        Self { state: HealthState::Unhealthy, reason: reason.into() }
    }

    /// Returns an unknown verdict with its reason.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self { state: HealthState::Unknown, reason: reason.into() }
    }

    /// Returns a healthy verdict if `holds`, else an unhealthy one with the reason.
    pub fn healthy_if(holds: bool, reason: impl Into<String>) -> Self {
        if holds { Self::healthy() } else { Self::unhealthy(reason) }
    }
}
