//! `FederatedResourceQuota` in a plan: the `ResourceQuota`s that it assigns to members, and its overall limits.
//!
//! Facts: a `ResourceQuota` of a member has no policy, no overrides and no retention of its own. Without the gate
//! `FederatedQuotaEnforcement` nothing enforces the overall limits, so exceeding them is a warning.

use std::collections::BTreeMap;

use serde_json::Value;

use super::admission::QuotaChange;
use super::usage::add_request;
use super::{Spec, member_quotas, read_quantities, read_section};
use crate::{KarmadaPlanner, NAME};
use federate_dialect::{
    ClusterVerdict, DialectDecisions, Explanation, ManifestVariant, Placed, Placement, RenderedManifest,
    VerdictCause,
};
use federate_kubernetes::formatted_quantity::FormattedQuantity;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef};

/// A quota of the repo.
pub(crate) struct PlannedQuota<'a> {
    pub(crate) quota: &'a Object,
    /// The identity of the `ResourceQuota`s.
    pub(crate) target: ObjectRef,
    /// Their manifests, by cluster.
    bodies: BTreeMap<ClusterName, Value>,
    overall: BTreeMap<String, FormattedQuantity>,
}

impl<'a> PlannedQuota<'a> {
    /// Reads a quota of the repo.
    pub(crate) fn new(quota: &'a Object, clusters: &[Cluster]) -> Result<Self, Finding> {
        let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_ref()).collect();
        let read = member_quotas(quota, &names)
            .and_then(|members| Ok((members, read_section::<Spec>(quota, "spec")?)));
        let (members, spec) = read.map_err(|error| {
            Finding::error("invalid-policy", quota, error.to_string()).with_pointer("/spec")
        })?;
        let target = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "ResourceQuota".to_owned(),
            namespace: quota.id.namespace.clone(),
            name: quota.id.name.clone(),
        };
        let bodies =
            members.into_iter().map(|(cluster, object)| (cluster.as_str().into(), object.body)).collect();
        Ok(Self { quota, target, bodies, overall: read_quantities(&spec.overall.unwrap_or_default()) })
    }

    /// The row of the `ResourceQuota`s; none if no cluster of the inventory has an assignment.
    pub(crate) fn decide_placement(&self) -> DialectDecisions {
        if self.bodies.is_empty() {
            return DialectDecisions::default();
        }
        let mut row = Placement::new(NAME, self.target.clone(), Some(self.quota.id.clone()));
        row.clusters = self.bodies.keys().map(|name| Placed { name: name.clone(), replicas: None }).collect();
        DialectDecisions { placements: vec![row], ..DialectDecisions::default() }
    }

    /// The manifest in a cluster.
    pub(crate) fn manifest_for(&self, cluster: &str) -> Option<&Value> {
        self.bodies.get(cluster)
    }

    /// The manifests, equal ones together.
    pub(crate) fn group_manifests(&self, placement: &Placement) -> Vec<ManifestVariant> {
        let mut variants: Vec<(&Value, Vec<ClusterName>)> = Vec::new();
        for placed in &placement.clusters {
            let Some(body) = self.manifest_for(&placed.name) else { continue };
            match variants.iter_mut().find(|(known, _)| *known == body) {
                Some((_, clusters)) => clusters.push(placed.name.clone()),
                None => variants.push((body, vec![placed.name.clone()])),
            }
        }
        variants
            .into_iter()
            .map(|(body, clusters)| ManifestVariant {
                clusters: clusters.into(),
                rendered: Ok(RenderedManifest { body: body.clone(), changes: Vec::new() }),
            })
            .collect()
    }

    /// Explains the `ResourceQuota`s.
    pub(crate) fn explain_placement(&self, clusters: &[Cluster], placed: Option<&Placement>) -> Explanation {
        let verdicts = clusters.iter().map(|cluster| {
            let chosen = self.bodies.contains_key(&cluster.name);
            let why = if chosen { "it has an assignment" } else { "it has no assignment with `hard`" };
            let absent = VerdictCause::NotListed {
                object: self.quota.id.clone(),
                path: "/spec/staticAssignments".to_owned(),
            };
            ClusterVerdict {
                cluster: cluster.name.clone(),
                chosen,
                refused_by: None,
                score: None,
                replicas: None,
                why: why.to_owned(),
                causes: (!chosen).then_some(absent).into_iter().collect(),
            }
        });
        let placement = placed
            .cloned()
            .or_else(|| self.decide_placement().placements.pop())
            .unwrap_or_else(|| Placement::new(NAME, self.target.clone(), Some(self.quota.id.clone())));
        Explanation {
            dialect: NAME,
            policy: vec![format!("{} ({}) assigns it", self.quota.id, self.quota.origin)],
            steps: Vec::new(),
            clusters: verdicts.collect(),
            placement,
            fulfilled: None,
            rewritten: None,
            deletion_progress: None,
            rollout: None,
        }
    }

    /// The resources of which a plan requests more in the namespace than the overall limits.
    pub(crate) fn find_exceeded(&self, plane: &KarmadaPlanner<'_>, rows: &[Placement]) -> Vec<Finding> {
        if self.overall.is_empty() {
            return Vec::new();
        }
        let mut requested: BTreeMap<String, FormattedQuantity> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.object.namespace == self.quota.id.namespace) {
            let replicas: i64 = row.clusters.iter().filter_map(|placed| placed.replicas).sum();
            let template = plane.find_template(&row.object).filter(|_| replicas > 0);
            let Some(Ok(workload)) = template.map(|t| plane.interpreter.interpret_workload(&t.object)) else {
                continue;
            };
            let request = workload.requirements.map(|all| all.requests).unwrap_or_default();
            let limited = request.into_iter().filter_map(|(name, amount)| {
                let format = self.overall.get(&name)?.format;
                Some((name, FormattedQuantity { amount, format }))
            });
            add_request(&mut requested, limited.collect(), replicas);
        }
        let requested: Vec<_> = requested.iter().collect();
        let usage = QuotaChange::new(&BTreeMap::new(), &requested);
        usage.exceeding(&self.overall).map(|(name, sum)| self.over_quota_finding(name, sum)).collect()
    }

    fn over_quota_finding(&self, name: &str, sum: &FormattedQuantity) -> Finding {
        let limit = self.overall.get(name).map(ToString::to_string).unwrap_or_default();
        let namespace = self.quota.id.namespace.as_deref().unwrap_or_default();
        let message = format!(
            "the plan requests {sum} of {name} in the namespace {namespace}, more than the {limit} that {} allows",
            self.quota.id
        );
        let pointer = format!("/spec/overall/{}", federate_kubernetes::pointer::escape(name));
        Finding::warning("over-quota", self.quota, message).with_pointer(pointer).with_help(
            "Karmada refuses such placements only with the feature gate FederatedQuotaEnforcement; raise the limit or \
             request less",
        )
    }
}
