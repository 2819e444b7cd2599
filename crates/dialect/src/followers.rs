//! Objects that would follow another object, and what keeps them from it.

use federate_kubernetes::ObjectRef;

/// An object that refers to one that no policy places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnplacedFollower {
    /// The object that refers to it.
    pub leader: ObjectRef,
    /// Why the other one is not placed with it.
    pub reason: UnplacedFollowerReason,
}

/// Why an object does not follow one that refers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnplacedFollowerReason {
    /// The object that refers to it is on no cluster itself.
    LeaderNowhere,
    /// The policy that places the object that refers to it does not ask for what it refers to.
    NotPropagated {
        /// The policy.
        policy: ObjectRef,
        /// What the policy needs, e.g. `propagateDeps: true`.
        setting: &'static str,
    },
}
