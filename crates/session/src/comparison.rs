//! Compares two renderings.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_dialect::Plan;
use federate_engine::Manifest;
use federate_engine::capacity::{self, CapacityChanges, CapacitySide};
use federate_engine::change::{self, Changes, DigestKey, RevisionSide, Side};
use federate_engine::deletions::{Deletions, ExcessiveDeletions, PruneLimit};
use federate_kubernetes::{Cluster, Finding, ObjectRef};
use federate_report::clusters::ClusterRow;
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

    /// Keeps only some objects.
    fn narrow_to_objects(&mut self, keep: impl Fn(&ObjectRef) -> bool) {
        self.plan.placements.retain(|row| keep(&row.object));
        self.plan.unmatched.retain(&keep);
        self.manifests.retain(|manifest| keep(&manifest.object));
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
    /// The changes in all clusters, or only in the given ones, with the edits of the repo that cause them.
    pub fn changes(&self, key: &DigestKey, clusters: &[String]) -> Changes {
        self.changes_of(key, clusters, None)
    }

    /// The changes of the objects for which `shows` returns true, with totals of these objects. Of the edits of the repo, those
    /// that change none of them are left out.
    pub fn changes_of(
        &self,
        key: &DigestKey,
        clusters: &[String],
        shows: Option<&dyn Fn(&ObjectRef) -> bool>,
    ) -> Changes {
        let mut from = RenderedState::of(self.from, None);
        let mut to = RenderedState::of(self.to, Some(&from));
        for state in [&mut from, &mut to] {
            if !clusters.is_empty() {
                state.narrow(|name| clusters.iter().any(|cluster| cluster == name));
            }
            if let Some(shows) = shows {
                state.narrow_to_objects(shows);
            }
        }
        let mut changes = from.compare(&to, key);
        let engines = [self.from.engine(), self.to.engine()];
        let [before, after] = [(&engines[0], &from), (&engines[1], &to)]
            .map(|(engine, state)| RevisionSide { engine, plan: &state.plan, manifests: &state.manifests });
        change::find_causes(&mut changes, &before, &after, key);
        if !clusters.is_empty() || shows.is_some() {
            changes.causes.retain(|cause| !cause.is_without_effect());
        }
        changes
    }

    /// What both revisions leave free in each cluster.
    pub fn capacity(&self) -> CapacityChanges {
        let [before, after] = [self.from, self.to].map(Session::plan_with_replicas);
        let remembered =
            Plan { placements: self.from.settings().previous.rows().to_vec(), ..Plan::default() };
        // Without a memory, the earlier revision is what runs.
        let running = match remembered.placements.as_slice() {
            [] => before.clone(),
            _ => self.from.engine().count_replicas(&remembered),
        };
        let [from, running] = [&before, &running].map(|plan| CapacitySide {
            repo: self.from.repo(),
            clusters: self.from.clusters(),
            plan,
        });
        let to = CapacitySide { repo: self.to.repo(), clusters: self.to.clusters(), plan: &after };
        capacity::compare(&from, &to, &running)
    }

    /// The deletions by which a run that publishes the later revision exceeds the limit, if it does.
    pub fn excessive_deletions(&self, limit: PruneLimit) -> Option<ExcessiveDeletions> {
        let deletions = Deletions::between(self.from.plan(), self.to.plan());
        deletions.exceeding(self.to.prune_limit(limit), |_| true)
    }

    /// The clusters of both inventories, sorted by name: those of the later one as they are there.
    pub fn inventory(&self) -> Vec<ClusterRow> {
        let mut rows = self.to.cluster_rows();
        let known: BTreeSet<String> = rows.iter().map(|row| row.name.clone()).collect();
        rows.extend(self.from.cluster_rows().into_iter().filter(|row| !known.contains(&row.name)));
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
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
