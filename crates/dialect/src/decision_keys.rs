//! What tells without deciding that decisions are equal.

use federate_kubernetes::ObjectRef;

/// Tells without deciding that decisions are equal. By default, nothing does.
pub trait DecisionKeys {
    /// The key of a subject. Decisions about subjects with equal keys differ only in the name of the object, if their
    /// rows of the previous plan differ only in that name: either all of them have findings, or none has. They contain
    /// no rows of other objects. `None` if the dialect has no such key.
    fn decision_key(&self, subject: &ObjectRef) -> Option<String> {
        let _ = subject;
        None
    }

    /// Whether [`add_followers`](crate::PolicyPlanner::add_followers) adds nothing to the placements, whatever was decided.
    fn never_adds_followers(&self) -> bool {
        false
    }

    /// A digest of what all decisions read of the inventory, even those that depend on
    /// [placed clusters](crate::ClusterDependency::Placed) only.
    fn inventory_digest(&self) -> String {
        String::new()
    }
}
