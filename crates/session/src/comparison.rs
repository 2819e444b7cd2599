//! Compares two renderings.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_dialect::{Placement, Plan};
use federate_engine::capacity::{self, CapacityChanges, CapacitySide};
use federate_engine::change::{
    self, DestinationChange, DigestKey, LostPolicy, RenderingChanges, RenderingSide, RevisionSide,
};
use federate_engine::deletions::{Deletions, ExcessiveDeletions, PruneLimit};
use federate_engine::{Engine, Manifest};
use federate_kubernetes::{Cluster, Finding, ObjectRef};
use federate_report::clusters::ClusterRow;
use federate_report::findings::{self, FindingRow};

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
    pub fn from_session(session: &Session, earlier: Option<&Self>) -> Self {
        Self {
            clusters: session.clusters().to_vec(),
            plan: session.plan_with_replicas(),
            manifests: session.render().with_retained(|object, cluster| earlier?.find_text(object, cluster)),
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
    pub fn retain_clusters(&mut self, keep: impl Fn(&str) -> bool) {
        self.clusters.retain(|cluster| keep(&cluster.name));
        for row in &mut self.plan.placements {
            row.clusters.retain(|placed| keep(&placed.name));
            row.withdrawn.retain(|name| keep(name));
            row.suspended.retain(|name| keep(name));
        }
        self.plan.placements.retain(|row| !row.clusters.is_empty() || !row.withdrawn.is_empty());
        self.plan.unmatched.clear();
        for manifest in &mut self.manifests {
            manifest.retain_clusters(&keep);
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
    pub fn compare_with(&self, later: &Self, key: &DigestKey) -> RenderingChanges {
        change::compare_renderings(&self.to_side(), &later.to_side(), key)
    }

    fn to_side(&self) -> RenderingSide<'_> {
        RenderingSide { clusters: &self.clusters, plan: &self.plan, manifests: &self.manifests }
    }

    /// The manifest of an object in a cluster.
    fn find_text(&self, object: &ObjectRef, cluster: &str) -> Option<Arc<str>> {
        let start = self.manifests.partition_point(|manifest| manifest.object < *object);
        let mut rows = self.manifests.get(start..)?.iter().take_while(|manifest| manifest.object == *object);
        let found = rows.find(|m| m.clusters.iter().any(|name| name.as_ref() == cluster))?;
        Some(found.text.clone())
    }
}

/// Two rendered revisions of a repo; the later one has the earlier plan as its previous plan.
pub struct RevisionComparison<'s> {
    /// The earlier revision.
    pub from: &'s Session,
    /// The later revision.
    pub to: &'s Session,
}

impl RevisionComparison<'_> {
    /// The changes in all clusters, or only in the given ones, with the edits of the repo that cause them.
    pub fn compute_changes(&self, key: &DigestKey, clusters: &[String]) -> RenderingChanges {
        self.changes_of(key, clusters, None)
    }

    /// The changes of the objects for which `shows` returns true, with totals of these objects. Of the edits of the repo, those
    /// that change none of them are left out.
    pub fn changes_of(
        &self,
        key: &DigestKey,
        clusters: &[String],
        shows: Option<&dyn Fn(&ObjectRef) -> bool>,
    ) -> RenderingChanges {
        let mut from = RenderedState::from_session(self.from, None);
        let mut to = RenderedState::from_session(self.to, Some(&from));
        for state in [&mut from, &mut to] {
            if !clusters.is_empty() {
                state.retain_clusters(|name| clusters.iter().any(|cluster| cluster == name));
            }
            if let Some(shows) = shows {
                state.narrow_to_objects(shows);
            }
        }
        let mut changes = from.compare_with(&to, key);
        let engines = [self.from.build_engine(), self.to.build_engine()];
        let [before, after] = [(&engines[0], &from), (&engines[1], &to)]
            .map(|(engine, state)| RevisionSide { engine, plan: &state.plan, manifests: &state.manifests });
        change::find_causes(&mut changes, &before, &after, key);
        changes.settings = change::find_setting_changes(self.from.repo(), self.to.repo(), key);
        changes.lost_policies = self.find_lost_policies(&engines, clusters, shows);
        changes.destinations = self.find_destinations(clusters, shows);
        if !clusters.is_empty() || shows.is_some() {
            changes.causes.retain(|cause| !cause.is_without_effect());
        }
        changes
    }

    /// The objects that lose their policies, as far as they were in these clusters and are shown.
    fn find_lost_policies(
        &self,
        engines: &[Engine<'_>; 2],
        clusters: &[String],
        shows: Option<&dyn Fn(&ObjectRef) -> bool>,
    ) -> Vec<LostPolicy> {
        let [from, to] = [(&engines[0], self.from), (&engines[1], self.to)]
            .map(|(engine, session)| RevisionSide { engine, plan: session.plan(), manifests: &[] });
        let mut lost = change::find_lost_policies(&from, &to);
        lost.retain(|lost| {
            let row = from.plan.find_placement(&lost.object);
            let is_selected =
                |row: &Placement| clusters.iter().any(|name| row.clusters.contains_cluster(name));
            shows.is_none_or(|shows| shows(&lost.object))
                && (clusters.is_empty() || row.is_some_and(is_selected))
        });
        lost
    }

    /// The changes of destinations, as far as they are about these clusters and shown objects.
    fn find_destinations(
        &self,
        clusters: &[String],
        shows: Option<&dyn Fn(&ObjectRef) -> bool>,
    ) -> Vec<DestinationChange> {
        let clusters: BTreeSet<&str> = clusters.iter().map(String::as_str).collect();
        let mut found = change::find_destination_changes(self.from.repo(), self.to.repo());
        found.retain(|change| {
            let mut named = change.from.iter().chain(&change.to);
            shows.is_none_or(|shows| shows(&change.object))
                && (clusters.is_empty() || named.any(|name| clusters.contains(&**name)))
        });
        found
    }

    /// What both revisions leave free in each cluster.
    pub fn compute_capacity(&self) -> CapacityChanges {
        let [old, new] = [self.from, self.to].map(Session::build_engine);
        let [before, after] = [self.from, self.to].map(Session::plan_with_replicas);
        let previous = Plan { placements: self.from.settings().previous.rows().to_vec(), ..Plan::default() };
        // Without a previous plan, the earlier revision is what runs.
        let running = match previous.placements.as_slice() {
            [] => before.clone(),
            _ => old.fill_in_replicas(&previous).unwrap_or(previous),
        };
        let [had, has] = [&old, &new].map(Engine::index_templates);
        let [from, running] = [&before, &running].map(|plan| CapacitySide {
            templates: &had,
            clusters: self.from.clusters(),
            plan,
        });
        let to = CapacitySide { templates: &has, clusters: self.to.clusters(), plan: &after };
        capacity::compare_capacity(&from, &to, &running)
    }

    /// The deletions by which a run that publishes the later revision exceeds the limit, if it does.
    pub fn excessive_deletions(&self, limit: PruneLimit) -> Option<ExcessiveDeletions> {
        let deletions = Deletions::compare_plans(self.from.plan(), self.to.plan());
        deletions.check_limit(self.to.prune_limit(limit), |_| true)
    }

    /// Whether the earlier side has clusters at all, also those that the comparison leaves out.
    pub fn has_earlier_clusters(&self) -> bool {
        !self.from.clusters().is_empty()
    }

    /// The clusters of both inventories, sorted by name: those of the later one as they are there.
    pub fn merge_inventories(&self) -> Vec<ClusterRow> {
        let mut rows = self.to.cluster_rows();
        let known: BTreeSet<String> = rows.iter().map(|row| row.name.clone()).collect();
        rows.extend(self.from.cluster_rows().into_iter().filter(|row| !known.contains(&row.name)));
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    /// What `federate check` finds in one revision only, compared without lines.
    pub fn compare_findings(&self) -> FindingChanges {
        let [from, to] = [self.from, self.to].map(Session::check_repo);
        FindingChanges {
            new: select_missing(self.to, &to, &from),
            resolved: select_missing(self.from, &from, &to),
        }
    }
}

/// What `federate check` finds in one of two revisions only.
#[derive(Clone, Debug)]
pub struct FindingChanges {
    /// What it finds in the later revision.
    pub new: Vec<FindingRow>,
    /// What it finds in the earlier revision.
    pub resolved: Vec<FindingRow>,
}

/// The findings of a revision that are not among those of another.
fn select_missing(revision: &Session, these: &[Finding], those: &[Finding]) -> Vec<FindingRow> {
    let known: BTreeSet<_> = those.iter().map(finding_identity).collect();
    let missing: Vec<Finding> =
        these.iter().filter(|finding| !known.contains(&finding_identity(finding))).cloned().collect();
    findings::build_rows(revision.repo(), &missing)
}

/// The identity of a finding across revisions; its line is not part of it, because lines move.
fn finding_identity(finding: &Finding) -> impl Ord + use<> {
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
