//! Rollouts of sets of works, by what clusters have of them.
//!
//! Facts: each reference of a set is a rollout of its own. A cluster whose works have a former template counts as one
//! without works, and a cluster that no placement of the set selects loses its works at once. The time limits of a
//! cluster begin when the template is released to it.

use std::collections::BTreeSet;

use federate_dialect::rollout::{ClusterUpdate, UpdateState};
use federate_dialect::{
    PolicyRollout, RolloutDriver, RolloutMoment, RolloutProgress, RolloutRules, RolloutStep, RolloutSubject,
};
use federate_kubernetes::{ClusterName, ObjectRef};

use super::PlacementRollout;
use crate::OcmPlanner;
use crate::api::work::PlacementReference;
use crate::schedule::groups::{DecisionGroup, group};
use crate::works::{Destination, placement_id};

/// What a set of works does about its clusters at a moment.
#[derive(Default)]
struct SetRollout {
    /// The rollout of each reference.
    references: Vec<PlacementRollout>,
    /// The clusters that fail, with the reasons.
    failures: Vec<String>,
}

impl RolloutRules for OcmPlanner<'_> {
    fn has_rollout_limits(&self) -> bool {
        self.bundles.iter().any(|bundle| is_limited(&bundle.destination))
    }

    fn controls_updates_of(&self, policy: &ObjectRef, driver: RolloutDriver) -> bool {
        let bundle = self.bundles.iter().find(|bundle| bundle.object.id == *policy);
        driver != RolloutDriver::UpdateRuns && bundle.is_some_and(|bundle| is_limited(&bundle.destination))
    }

    fn advance_rollout(
        &self,
        subject: &RolloutSubject<'_>,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Option<RolloutStep> {
        let bundle = self.bundles.iter().find(|bundle| bundle.object.id == *subject.policy)?;
        let Destination::Placements(references) = &bundle.destination else { return None };
        rollout.keep_unchanged(subject, moment);
        let staying = rollout.clusters.iter().filter(|(_, cluster)| !cluster.leaving);
        let left: Vec<ClusterName> =
            staying.map(|(name, _)| name).filter(|name| !subject.has_cluster(name)).cloned().collect();
        for name in &left {
            rollout.release(name, subject, moment);
        }
        Some(match self.advance_references(references, subject, rollout, moment) {
            Ok(set) => {
                for name in set.references.iter().flat_map(|one| one.decision.starting()) {
                    rollout.release(name, subject, moment);
                }
                set.into_step(subject, rollout, moment)
            }
            Err(why) => RolloutStep {
                progress: RolloutProgress::Halted,
                message: format!("{}: {why}", subject.policy),
                ..progress_step(subject, rollout, moment)
            },
        })
    }
}

/// Whether a rollout strategy limits how the clusters of a bundle are updated.
fn is_limited(destination: &Destination) -> bool {
    match destination {
        Destination::Placements(references) => references.iter().any(|one| one.strategy.is_limited()),
        Destination::Cluster(_) => false,
    }
}

impl OcmPlanner<'_> {
    /// Advances the rollout of each reference. A cluster of several references belongs to the first.
    fn advance_references(
        &self,
        references: &[PlacementReference],
        subject: &RolloutSubject<'_>,
        rollout: &PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Result<SetRollout, String> {
        let mut set = SetRollout::default();
        let mut taken: BTreeSet<ClusterName> = BTreeSet::new();
        for reference in references {
            let Some(groups) = self.read_groups(reference, subject, &taken) else { break };
            let clusters = groups.iter().flat_map(|group| &group.clusters);
            let existing: Vec<ClusterUpdate> = clusters
                .clone()
                .filter_map(|name| Some((name, rollout.clusters.get(name)?)))
                .filter(|(_, cluster)| !cluster.leaving && cluster.revision == moment.revision)
                .map(|(name, cluster)| cluster.to_update(name))
                .collect();
            taken.extend(clusters.cloned());
            let advanced = reference.strategy.advance(&groups, &existing, moment.now);
            let advanced =
                advanced.map_err(|why| format!("the rollout strategy of {}: {why}", reference.name))?;
            set.note_failures(&advanced, rollout);
            set.references.push(advanced);
        }
        Ok(set)
    }

    /// The decision groups of a reference, without the clusters of others; `None` if its placement does not exist.
    fn read_groups(
        &self,
        reference: &PlacementReference,
        subject: &RolloutSubject<'_>,
        taken: &BTreeSet<ClusterName>,
    ) -> Option<Vec<DecisionGroup>> {
        let id = placement_id(subject.policy, &reference.name);
        let placement = self.placements.get(*self.by_id.get(&id)?)?;
        let clusters = (subject.clusters_of)(&id)?;
        let selected = clusters.iter().filter_map(|name| self.hub.fleet.index(name)).collect();
        let mut groups = group(&self.hub.fleet, &placement.spec.decision_strategy.groups, selected).groups;
        for group in &mut groups {
            group.clusters.retain(|name| subject.has_cluster(name) && !taken.contains(name));
        }
        Some(groups)
    }
}

impl SetRollout {
    fn note_failures(&mut self, advanced: &PlacementRollout, rollout: &PolicyRollout) {
        let failed = advanced.decision.active.iter().filter(|update| update.state == UpdateState::Failed);
        for update in advanced.decision.timed_out.iter().chain(failed) {
            let cluster = rollout.clusters.get(&update.cluster);
            let why = cluster.and_then(|cluster| cluster.failed.as_deref());
            self.failures.push(format!("{}: {}", update.cluster, why.unwrap_or("not healthy in time")));
        }
    }

    /// The same as a step. Failures that the strategy tolerates do not halt it.
    fn into_step(
        self,
        subject: &RolloutSubject<'_>,
        rollout: &PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> RolloutStep {
        let step = progress_step(subject, rollout, moment);
        let decisions = || self.references.iter().map(|one| &one.decision);
        let is_breached = decisions().any(|decision| decision.is_breached);
        let is_active = decisions().any(|decision| !decision.active.is_empty());
        let is_left = rollout.clusters.values().any(|cluster| cluster.leaving);
        let progress = match (is_breached || !is_active, self.failures.is_empty()) {
            (true, false) => RolloutProgress::Halted,
            _ if is_active || is_left => RolloutProgress::Going,
            _ => RolloutProgress::Done,
        };
        if progress == RolloutProgress::Done {
            return step;
        }
        let all = subject.clusters.len();
        let counted = format!("{} of {all} cluster{} updated", step.updated, if all == 1 { "" } else { "s" });
        let words = self.failures.into_iter().chain([counted]).collect::<Vec<_>>().join("; ");
        let recheck = self.references.iter().filter_map(|one| one.decision.recheck).min();
        RolloutStep {
            progress,
            message: format!("{}: {words}", subject.policy),
            next: recheck.and_then(|recheck| moment.now.checked_add(recheck).ok()),
            ..step
        }
    }
}

/// A step that says how many of the clusters are at the newest revision.
fn progress_step(
    subject: &RolloutSubject<'_>,
    rollout: &PolicyRollout,
    moment: &RolloutMoment<'_>,
) -> RolloutStep {
    let updated = rollout.clusters.values();
    let updated = updated.filter(|cluster| cluster.revision == moment.revision && !cluster.is_open());
    RolloutStep {
        object: subject.policy.clone(),
        progress: RolloutProgress::Done,
        message: String::new(),
        stage: String::new(),
        revision: moment.revision.to_owned(),
        updated: updated.count(),
        next: None,
    }
}

#[cfg(test)]
mod tests;
