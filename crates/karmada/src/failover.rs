//! Failing clusters over time: taints, evictions, graceful removal.
//!
//! ```text
//! conditions ─► taints (of conditions, of ClusterTaintPolicies) ─► taint manager ─► tasks ─► scheduler
//! ```
//!
//! Facts: by default this moves nothing: the gate `Failover` and eviction by taints are off.
//! An evicted workload leaves the schedule at once, and stays in its cluster until its task is done. Before 1.14
//! the control plane itself adds `NoExecute` taints; `docs/semantics/karmada-versions.md` §5 has what releases differ in.

use jiff::SignedDuration;

use crate::version::{KarmadaBehaviour, NoExecute, RELEASES};
use federate_dialect::Release;

mod binding;
mod json_path;
mod policy;
pub(crate) mod scenario;
mod taint_manager;
mod tasks;

pub use crate::api::{Failover, StateRule};
pub use binding::{EvictionTask, ReportedStatus, ResourceBinding};
pub use json_path::preserve_labels;
pub use policy::TaintPolicy;
pub(crate) use policy::TaintPolicySpec;

/// How the control plane is configured.
#[derive(Clone, Debug)]
pub struct FailoverOptions {
    /// The gate `Failover`.
    pub failover: bool,
    /// The gate `StatefulFailoverInjection`.
    pub stateful_failover: bool,
    /// Whether taints evict (`--enable-no-execute-taint-eviction`).
    pub taint_eviction: bool,
    /// The purge mode of evictions by taints where the binding has none (`--no-execute-taint-eviction-purge-mode`).
    pub taint_purge_mode: String,
    /// How long a graceful eviction may take.
    pub graceful_eviction_timeout: SignedDuration,
    /// How long a cluster may be not ready before releases up to 1.13 taint it with `NoExecute`
    /// (`--failover-eviction-timeout`).
    pub failover_eviction_timeout: SignedDuration,
    pub(super) behaviour: KarmadaBehaviour,
}

impl FailoverOptions {
    /// The defaults of a release.
    pub fn for_release(release: Release) -> Self {
        Self::for_behaviour(KarmadaBehaviour::for_release(release))
    }

    fn for_behaviour(behaviour: KarmadaBehaviour) -> Self {
        Self {
            failover: false,
            stateful_failover: false,
            taint_eviction: false,
            taint_purge_mode: behaviour.graceful_purge().to_owned(),
            graceful_eviction_timeout: SignedDuration::from_mins(10),
            failover_eviction_timeout: SignedDuration::from_mins(5),
            behaviour,
        }
    }

    /// Whether the control plane itself adds `NoExecute` taints.
    pub fn adds_no_execute(&self) -> bool {
        self.failover && self.behaviour.no_execute == NoExecute::OfControlPlane
    }

    /// Whether taints follow from `ClusterTaintPolicies`.
    pub fn follows_taint_policies(&self) -> bool {
        self.failover && self.behaviour.no_execute == NoExecute::OfUsers
    }

    /// Whether `NoExecute` taints evict.
    fn taints_evict(&self) -> bool {
        let always = self.behaviour.no_execute == NoExecute::OfControlPlane;
        self.failover && (self.taint_eviction || always)
    }
}

impl Default for FailoverOptions {
    /// The defaults of the newest release.
    fn default() -> Self {
        Self::for_release(RELEASES.find_latest())
    }
}

#[cfg(test)]
mod tests;
