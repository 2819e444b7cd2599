//! What the repo or the control plane says about kinds of objects, besides the rules of Kubernetes.

use federate_kubernetes::Object;

use crate::Health;

/// Rules for kinds of objects that the repo or the control plane has besides those of Kubernetes. By default there are
/// none.
pub trait KindRules {
    /// The replicas that a template or a manifest asks for, by rules for its kind that the repo or the control plane has
    /// besides those of Kubernetes; `None` where there are none.
    fn stated_replicas(&self, object: &Object) -> Option<i64> {
        let _ = object;
        None
    }

    /// Whether an object in a member cluster is healthy by a rule of the repo for its kind; `None` where there
    /// is no such rule, so that [`MemberRules::assess_health`](crate::MemberRules::assess_health) decides.
    fn assess_health_by_repo(&self, live: &Object) -> Option<Health> {
        let _ = live;
        None
    }
}
