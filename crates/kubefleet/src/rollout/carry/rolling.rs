//! A round of the rolling strategy, for the newest revision.

use federate_dialect::{ClusterRollout, PolicyRollout, RolloutMoment, RolloutProgress, RolloutStep};
use federate_kubernetes::ClusterName;

use super::{Carrying, clusters, first_failure};
use crate::rollout::rolling::{self, Next, Round};
use crate::rollout::row::{Resources, Row, State};

impl Carrying<'_> {
    /// Releases the newest revision to the clusters of the next round, and removes it from those of the round that are not
    /// picked any more.
    pub(in crate::rollout) fn advance(
        &self,
        rollout: &mut PolicyRollout,
        moment: &RolloutMoment<'_>,
    ) -> Result<Round, serde_json::Error> {
        let digest = |name: &ClusterName| moment.resources.clusters.get(name).map_or("", String::as_str);
        for (name, cluster) in &mut rollout.clusters {
            // The revision changes nothing in this cluster.
            if cluster.resources == digest(name) && self.row.clusters.has(name) {
                moment.revision.clone_into(&mut cluster.revision);
            }
        }
        let rows = self.rows(rollout, moment);
        let round = match rolling::next(self.placement, &rows, moment.now, &self.behaviour)? {
            Next::Round(round) => round,
            Next::Cleanup => Round { need_roll: true, wait: rolling::CLEANUP, ..Round::default() },
        };
        for name in &round.update {
            let is_picked = self.row.clusters.has(name);
            match rollout.clusters.get_mut(name) {
                Some(cluster) if !is_picked => (cluster.leaving, cluster.since) = (true, Some(moment.now)),
                _ => {
                    let released = ClusterRollout::released(moment.revision, digest(name), moment.now);
                    rollout.clusters.insert(name.clone(), released);
                }
            }
        }
        Ok(round)
    }

    pub(super) fn rolling(&self, rollout: &mut PolicyRollout, moment: &RolloutMoment<'_>) -> RolloutStep {
        let id = &self.placement.id;
        let round = match self.advance(rollout, moment) {
            Ok(round) => round,
            Err(error) => {
                let step = self.step(rollout, moment.revision);
                let message = format!("{id}: its strategy cannot be read: {error}");
                return RolloutStep { progress: RolloutProgress::Halted, message, ..step };
            }
        };
        let step = self.step(rollout, moment.revision);
        let open = rollout.clusters.values().any(ClusterRollout::is_open);
        let all = clusters(self.row.clusters.len());
        let (progress, message) = match first_failure(rollout) {
            Some(why) => (RolloutProgress::Halted, format!("{id}: {why}; {} of {all} updated", step.updated)),
            None if open || round.need_roll => {
                (RolloutProgress::Going, format!("{id}: {} of {all} updated", step.updated))
            }
            None => (RolloutProgress::Done, String::new()),
        };
        let waits = round.need_roll && round.wait.is_positive();
        let next = moment.now.checked_add(round.wait).ok().filter(|_| waits);
        RolloutStep { progress, message, next, ..step }
    }

    /// The bindings, in the order of their clusters.
    fn rows(&self, rollout: &PolicyRollout, moment: &RolloutMoment<'_>) -> Vec<Row> {
        let placed = self.row.clusters.iter().map(|placed| &placed.name);
        let new = placed.filter(|name| !rollout.clusters.contains_key(*name)).map(|name| Row {
            cluster: name.clone(),
            state: State::Scheduled,
            resources: Resources::Old,
            deleting: false,
            generation: 0,
            conditions: Vec::new(),
        });
        let old = rollout.clusters.iter().map(|(name, cluster)| Row {
            cluster: name.clone(),
            state: if self.row.clusters.has(name) { State::Bound } else { State::Unscheduled },
            resources: if cluster.revision == moment.revision { Resources::Latest } else { Resources::Old },
            deleting: cluster.leaving,
            generation: 0,
            conditions: self.conditions(cluster, 0),
        });
        let mut rows: Vec<Row> = new.chain(old).collect();
        rows.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        rows
    }
}
