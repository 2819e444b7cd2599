//! What helps the authors of policies: releases, templates that nothing places, findings that take time.

use std::collections::BTreeMap;

use federate_kubernetes::{Finding, Object, ObjectRef};

use crate::{Placement, Release, UnplacedFollower};

/// A template that an object of a control plane contains, such as a federated object, an envelope or a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedTemplate {
    /// The object that contains it.
    pub carrier: ObjectRef,
    /// The JSON pointer to it.
    pub pointer: String,
    /// The object in the member clusters.
    pub object: ObjectRef,
}

/// What helps the authors of policies. By default there is little to say.
pub trait PolicyAdvice {
    /// The release whose rules it follows; `None` where releases do not differ.
    fn release(&self) -> Option<Release> {
        None
    }

    /// The rules in which another release differs, in words.
    fn rule_differences(&self, other: Release) -> Vec<&'static str> {
        let _ = other;
        Vec::new()
    }

    /// The templates that objects of its own contain.
    fn carried_templates(&self) -> Vec<CarriedTemplate> {
        Vec::new()
    }

    /// Why the control plane places a template nowhere, whatever selects it, as a sentence; `None` if it can.
    fn never_propagated_reason(&self, template: &Object) -> Option<String> {
        let _ = template;
        None
    }

    /// Whether the control plane only leaves a template where its row of the plan says, because it remembers that: no policy
    /// selects the template any more. By default, what no policy selects is removed.
    fn is_unclaimed(&self, template: &Object, row: &Placement) -> bool {
        let _ = (template, row);
        false
    }

    /// For templates that no policy places: an object that refers to each of them, where it would follow that object but
    /// for a reason that is known. By default, nothing follows.
    fn unplaced_followers(
        &self,
        templates: &[ObjectRef],
        placements: &[Placement],
    ) -> BTreeMap<ObjectRef, UnplacedFollower> {
        let _ = (templates, placements);
        BTreeMap::new()
    }

    /// Findings about policies that are too expensive for [`check_policies`](crate::PolicyPlanner::check_policies), which every run calls.
    fn check_policies_thoroughly(&self) -> Vec<Finding> {
        Vec::new()
    }
}
