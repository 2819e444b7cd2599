//! Whether an object in a member cluster is as healthy as its control plane asks: the neutral answer.

/// The health of an object as it is in a member cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The verdict.
    pub state: HealthState,
    /// Why, for a person; empty where there is nothing to add.
    pub reason: String,
}

/// A verdict on an object's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthState {
    /// It is as it should be.
    Healthy,
    /// It is not, or not yet.
    Unhealthy,
    /// The control plane has no rule for it.
    Unknown,
}

impl Health {
    /// All is well.
    pub fn healthy() -> Self {
        Self { state: HealthState::Healthy, reason: String::new() }
    }

    /// Something is not (yet) as it should be.
    pub fn unhealthy(reason: impl Into<String>) -> Self {
        Self { state: HealthState::Unhealthy, reason: reason.into() }
    }

    /// There is no telling.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self { state: HealthState::Unknown, reason: reason.into() }
    }

    /// Healthy where `holds`, else unhealthy for that reason.
    pub fn of(holds: bool, reason: impl Into<String>) -> Self {
        if holds { Self::healthy() } else { Self::unhealthy(reason) }
    }
}
