//! Compares two renderings.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_dialect::Plan;
use federate_engine::Manifest;
use federate_engine::change::{self, Changes, DigestKey, Side};
use federate_kubernetes::{Cluster, Finding, ObjectRef};
use federate_report::findings::{self, Row};

use crate::Session;

/// The rendered objects of all clusters, as one side of a comparison.
#[derive(Clone, Debug)]
pub struct RenderedState {
    clusters: Vec<Cluster>,
    /// With the replicas that manifests have.
    plan: Plan,
    manifests: Vec<Manifest>,
}

impl RenderedState {
    /// The rendering of a session. `earlier` is the state before it, for objects that control planes leave
    /// unchanged in the clusters.
    pub fn of(session: &Session, earlier: Option<&Self>) -> Self {
        let held = |object: &ObjectRef, cluster: &str| earlier?.text(object, cluster);
        Self {
            clusters: session.clusters().to_vec(),
            plan: session.plan_with_replicas(),
            manifests: session.rendering().with_retained(held),
        }
    }

    /// Like `of`, but with manifests that are already built.
    pub fn with_manifests(session: &Session, manifests: Vec<Manifest>) -> Self {
        Self { clusters: session.clusters().to_vec(), plan: session.plan_with_replicas(), manifests }
    }

    /// The plan, with the replicas that manifests have.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Keeps only some clusters.
    pub fn narrow(&mut self, keep: impl Fn(&str) -> bool) {
        self.clusters.retain(|cluster| keep(&cluster.name));
        for row in &mut self.plan.placements {
            row.clusters.retain(|placed| keep(&placed.name));
            row.withdrawn.retain(|name| keep(name));
            row.suspended.retain(|name| keep(name));
        }
        self.plan.placements.retain(|row| !row.clusters.is_empty() || !row.withdrawn.is_empty());
        self.plan.unmatched.clear();
        for manifest in &mut self.manifests {
            manifest.narrow(&keep);
        }
        self.manifests.retain(|manifest| !manifest.clusters.is_empty());
    }

    /// The changes from this state to a later one. Values of Secrets are compared as digests with `key`.
    pub fn compare(&self, later: &Self, key: &DigestKey) -> Changes {
        change::compare(&self.side(), &later.side(), key)
    }

    fn side(&self) -> Side<'_> {
        Side { clusters: &self.clusters, plan: &self.plan, manifests: &self.manifests }
    }

    /// The manifest of an object in a cluster.
    fn text(&self, object: &ObjectRef, cluster: &str) -> Option<Arc<str>> {
        let start = self.manifests.partition_point(|manifest| manifest.object < *object);
        let mut rows = self.manifests.get(start..)?.iter().take_while(|manifest| manifest.object == *object);
        let found = rows.find(|m| m.clusters.iter().any(|name| name.as_ref() == cluster))?;
        Some(found.text.clone())
    }
}

/// Two rendered revisions of a repo; the later one has the earlier plan as its memory.
pub struct Comparison<'s> {
    /// The earlier revision.
    pub from: &'s Session,
    /// The later revision.
    pub to: &'s Session,
}

impl Comparison<'_> {
    /// The changes in all clusters, or only in the given ones.
    pub fn changes(&self, key: &DigestKey, clusters: &[String]) -> Changes {
        let mut from = RenderedState::of(self.from, None);
        let mut to = RenderedState::of(self.to, Some(&from));
        if !clusters.is_empty() {
            let keep = |name: &str| clusters.iter().any(|cluster| cluster == name);
            from.narrow(keep);
            to.narrow(keep);
        }
        from.compare(&to, key)
    }

    /// What `federate check` finds in the later revision only, compared without lines.
    pub fn new_findings(&self) -> Vec<Row> {
        only_in(self.to, self.from)
    }

    /// What `federate check` finds in the earlier revision only.
    pub fn resolved_findings(&self) -> Vec<Row> {
        only_in(self.from, self.to)
    }
}

fn only_in(these: &Session, those: &Session) -> Vec<Row> {
    let known: BTreeSet<_> = those.check().iter().map(same).collect();
    let new: Vec<Finding> = these.check().into_iter().filter(|f| !known.contains(&same(f))).collect();
    findings::rows(these.repo(), &new)
}

/// The identity of a finding across revisions; its line is not part of it, because lines move.
fn same(finding: &Finding) -> impl Ord + use<> {
    let file = finding.origin.as_ref().map(|origin| origin.file.clone());
    (
        finding.severity,
        finding.code,
        file,
        finding.object.clone(),
        finding.pointer.clone(),
        finding.message.clone(),
    )
}
