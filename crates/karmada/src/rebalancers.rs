//! `WorkloadRebalancer`: a request to schedule some workloads again from scratch, once.
//!
//! When the object's scheduler state names a rebalancer (`rebalanced`), the rebalancer has acted on it. So a
//! rebalancer that stays in git does not move replicas in every run.

use std::collections::BTreeMap;

use serde::Deserialize;

use federate_kubernetes::schema::{self, Schema, Shape};
use federate_kubernetes::{Object, ObjectRef, crd};

crd! {
    /// `spec` of a `WorkloadRebalancer`.
    #[derive(Default, Deserialize)]
    pub(super) struct RebalancerSpec {
        workloads: Vec<RebalancedWorkload> = required("workloads", Shape::List(1, &RebalancedWorkload::SHAPE)),
    }
    unread {
        optional("ttlSecondsAfterFinished", i32::SHAPE),
    }
}

crd! {
    /// A reference to a workload.
    #[derive(Default, Deserialize)]
    pub(super) struct RebalancedWorkload {
        api_version: String = required("apiVersion"),
        kind: String = required("kind"),
        name: String = required("name"),
        namespace: Option<String> = optional("namespace"),
    }
}

impl From<RebalancedWorkload> for ObjectRef {
    fn from(target: RebalancedWorkload) -> Self {
        let RebalancedWorkload { api_version, kind, name, namespace } = target;
        Self { api_version, kind, namespace, name }
    }
}

/// The names of rebalancers by the objects that they list.
pub(super) struct Rebalancers<'a> {
    by_object: BTreeMap<ObjectRef, Vec<&'a str>>,
}

impl<'a> Rebalancers<'a> {
    /// Reads those of `others` that are rebalancers.
    pub(super) fn new(others: impl Iterator<Item = &'a Object>) -> Self {
        let mut by_object: BTreeMap<ObjectRef, Vec<&'a str>> = BTreeMap::new();
        for object in others.filter(|o| o.id.kind == "WorkloadRebalancer") {
            let spec: RebalancerSpec =
                schema::read_field(object, "spec", "invalid-policy").unwrap_or_default();
            for target in spec.workloads {
                by_object.entry(target.into()).or_default().push(&object.id.name);
            }
        }
        Self { by_object }
    }

    /// The names of the rebalancers that list an object.
    pub(super) fn find_names(&self, object: &ObjectRef) -> Option<&[&'a str]> {
        self.by_object.get(object).map(Vec::as_slice)
    }

    /// Whether a rebalancer lists an object and is not among those that have been `obeyed`.
    pub(super) fn is_requested(&self, object: &ObjectRef, obeyed: &[String]) -> bool {
        self.find_names(object)
            .is_some_and(|names| names.iter().any(|name| !obeyed.iter().any(|known| known == name)))
    }
}
