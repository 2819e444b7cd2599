//! How a control plane treats the objects in its member clusters.

use federate_kubernetes::{Object, ObjectRef};
use federate_repo::Config;

use crate::{Health, MemberManager};

/// How a control plane treats the objects in its member clusters. By default it has no rules of its own.
pub trait MemberRules {
    /// The field managers of its components that write objects of member clusters. By default none is known.
    fn member_managers(&self) -> &'static [MemberManager] {
        &[]
    }

    /// Marks a live object as this control plane marks objects that it sends. Objects that federate applied
    /// count as its own, but have no such mark. By default there is none.
    fn mark_as_managed(&self, live: &mut Object) {
        let _ = live;
    }

    /// Whether an object in a member cluster is healthy by the rules of this control plane, in the release that
    /// the configuration names.
    fn assess_health(&self, live: &Object, config: &Config) -> Health {
        let _ = (live, config);
        Health::unknown("this control plane has no health rules")
    }

    /// The wave in which an object is applied to a member cluster. A wave starts when the one before is
    /// applied. By default all objects are in one wave.
    fn wave_of(&self, object: &ObjectRef) -> u32 {
        let _ = object;
        0
    }
}
