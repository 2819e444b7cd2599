//! The `KubeFleet` dialect (Azure Kubernetes Fleet Manager): the scheduler of placements, resource
//! selection, overrides and rollout, as pure functions.
//!
//! ```text
//! decide ─► schedule (screen ─► score, spread ─► pick)
//!   └─► select: the objects that go where their placement goes
//! ```
//!
//! `KubeFleet` places placements: each stands alone, and everything it selects goes to the same
//! clusters.

use std::collections::BTreeMap;

use crate::k8s::{Cluster, Finding, Object, ObjectRef, Severity};
use crate::repo::{Claimed, Repo, Role};

use super::{ControlPlane, Decided, Dialect, Explanation, Input, Placement, Previous, Variant};

mod affinity;
mod api;
mod cluster;
mod decide;
mod explain;
mod properties;
mod schedule;
mod validate;

use api::Policy;
use schedule::Failure;

const NAME: &str = "kubefleet";

/// The API groups of the dialect.
const CLUSTER_GROUP: &str = "cluster.kubernetes-fleet.io";
const PLACEMENT_GROUP: &str = "placement.kubernetes-fleet.io";

/// The dialect.
pub struct KubeFleet;

impl Dialect for KubeFleet {
    fn name(&self) -> &'static str {
        NAME
    }

    fn role(&self, api_version: &str, kind: &str) -> Option<Role> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            (CLUSTER_GROUP, "MemberCluster") => Some(Role::Inventory),
            (PLACEMENT_GROUP, "ClusterResourcePlacement" | "ResourcePlacement") => Some(Role::Placement),
            (PLACEMENT_GROUP, "ClusterResourceOverride" | "ResourceOverride") => Some(Role::Override),
            (
                PLACEMENT_GROUP,
                "ClusterResourceEnvelope"
                | "ResourceEnvelope"
                | "ClusterStagedUpdateStrategy"
                | "StagedUpdateStrategy"
                | "ClusterStagedUpdateRun"
                | "StagedUpdateRun"
                | "ClusterResourcePlacementDisruptionBudget"
                | "ClusterResourcePlacementEviction",
            ) => Some(Role::Other),
            _ => None,
        }
    }

    fn cluster(&self, object: &Object, strict: bool) -> Result<Cluster, Vec<Finding>> {
        let invalid: Vec<Finding> = validate::check(object).into_iter().filter(is_error).collect();
        if invalid.is_empty() { Ok(cluster::read(object, strict)) } else { Err(invalid) }
    }

    fn open<'a>(&self, input: Input<'a>) -> Box<dyn ControlPlane + 'a> {
        Box::new(KubeFleets::new(input))
    }
}

/// A placement that can be scheduled.
struct Subject<'a> {
    object: &'a Object,
    policy: Policy,
    /// Whether nothing was refused of it.
    admitted: bool,
    /// What it selects, in the order in which that is kept; or why it can select nothing.
    selected: Result<Vec<ObjectRef>, Failure>,
}

impl Subject<'_> {
    fn selected(&self) -> &[ObjectRef] {
        self.selected.as_deref().unwrap_or_default()
    }
}

/// `KubeFleet`'s control plane over one repo.
struct KubeFleets<'a> {
    input: Input<'a>,
    /// What admission refuses is decided too, so that the plan shows what it asks for: its errors keep
    /// everything from being written. Only a policy that cannot be read is left out.
    placements: Vec<Subject<'a>>,
    /// Decisions by placement and by selected object; the first placement counts.
    about: BTreeMap<ObjectRef, usize>,
    findings: Vec<Finding>,
}

impl<'a> KubeFleets<'a> {
    fn new(input: Input<'a>) -> Self {
        let claimed = || input.repo.claimed.iter().filter(|c| c.dialect == NAME);
        // The errors of an inventory object are told where it is read.
        let told = |c: &Claimed, f: &Finding| c.role == Role::Inventory && is_error(f);
        let mut plane = Self {
            input,
            placements: Vec::new(),
            about: BTreeMap::new(),
            findings: claimed()
                .flat_map(|c| validate::check(&c.object).into_iter().filter(move |f| !told(c, f)))
                .collect(),
        };
        for object in input.repo.claimed(NAME, Role::Placement) {
            // The schema has told already what cannot be read.
            if let Ok(policy) = Policy::read(object.at(&["spec", "policy"])) {
                let selected = select(input.repo, object);
                let about = |f: &Finding| is_error(f) && f.object.as_ref() == Some(&object.id);
                let admitted = !plane.findings.iter().any(about);
                plane.placements.push(Subject { object, policy, admitted, selected });
            }
        }
        for (unit, subject) in plane.placements.iter().enumerate() {
            for id in std::iter::once(&subject.object.id).chain(subject.selected()) {
                plane.about.entry(id.clone()).or_insert(unit);
            }
        }
        plane
    }
}

/// The objects that a placement selects.
#[expect(clippy::unnecessary_wraps, reason = "nothing is selected yet")]
fn select(_repo: &Repo, _placement: &Object) -> Result<Vec<ObjectRef>, Failure> {
    Ok(Vec::new())
}

fn is_error(finding: &Finding) -> bool {
    finding.severity == Severity::Error
}

impl ControlPlane for KubeFleets<'_> {
    fn check(&self) -> Vec<Finding> {
        self.findings.clone()
    }

    fn units(&self) -> usize {
        self.placements.len()
    }

    fn unit(&self, object: &ObjectRef) -> Option<usize> {
        self.about.get(object).copied()
    }

    fn place(&self, unit: usize, previous: &Previous) -> Decided {
        self.placements.get(unit).map(|subject| decide::decide(self, subject, previous)).unwrap_or_default()
    }

    fn complete(&self, decided: Vec<Decided>, _previous: &Previous) -> Decided {
        let mut all = Decided::default();
        for one in decided {
            all.placements.extend(one.placements);
            all.findings.extend(one.findings);
        }
        all
    }

    fn manifests(&self, _placement: &Placement) -> Vec<Variant> {
        Vec::new()
    }

    fn explain(
        &self,
        object: &ObjectRef,
        previous: &Previous,
        placed: Option<&Placement>,
    ) -> Option<Explanation> {
        let subject = self.placements.get(self.unit(object)?)?;
        Some(explain::explain(self, subject, object, previous, placed))
    }
}
