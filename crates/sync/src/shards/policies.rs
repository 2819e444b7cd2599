//! Rollouts that policies ask for, where several replicas share the clusters: the leader decides which cluster gets the
//! resources of which policy next and keeps that in the record; every replica sends it to its own clusters and reports what
//! became of it.

use std::collections::BTreeSet;
use std::time::Instant;

use federate_dialect::PolicyRollout;
use federate_engine::actions::RepoRef;
use federate_session::Session;
use federate_sync_api::record::Accepted;

use crate::opened::SessionCache;
use crate::outcome::Outcome;
use crate::rollout::carry_out::PAUSE;
use crate::rollout::placements::Target;
use crate::rollout::policies::{open, released};
use crate::round::{Round, RoundError, names};
use crate::state::SyncState;

impl Round<'_> {
    /// Carries out this replica's share of what policies have released.
    pub(super) fn share_policies(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        (session, repo): (&Session, Option<RepoRef>),
        accepted: &Accepted,
    ) -> Result<Outcome, RoundError> {
        let Some((apply, _)) = self.by_policies() else {
            return Ok(Outcome::done("there is nothing to roll out"));
        };
        let used = state.record.policies.values().flat_map(PolicyRollout::used);
        let used: BTreeSet<String> = used.cloned().collect();
        sessions.formers.retain(|revision, _| used.contains(revision));
        let members = self.members(session, repo.clone(), state);
        let work = members.work();
        let is_released = open(&state.record.policies);
        let own = || names(session).filter(|name| self.turn.has(name)).map(str::to_owned);
        let is_due = |name: &String| {
            let has_it = sessions.worked.get(name) == Some(&members.work_in(&work, name));
            let done = has_it && sessions.clusters.cause(name).is_none();
            !done && (!accepted.done || is_released.contains(name))
        };
        let due: BTreeSet<String> = own().filter(is_due).collect();
        if !due.is_empty() {
            let before = state.record.policies.clone();
            let (tip, name) = (&accepted.tip, "");
            let target = Target { apply, session, repo: repo.clone(), tip, name, changed: None };
            let here = is_released.intersection(&due).cloned().collect();
            self.send_to(state, sessions, &target, (&due, &here))?;
            for name in &due {
                let released = released(&before, &state.record.policies, name);
                sessions.released.insert(name.clone(), released);
            }
        }
        for name in own() {
            sessions.worked.insert(name.clone(), members.work_in(&work, &name));
        }
        let looks = self.looks_for_drift() && sessions.clusters.compares(self.spec.interval.0);
        let settled: BTreeSet<String> = own().filter(|name| !due.contains(name)).collect();
        if looks && !settled.is_empty() {
            let (open, watched) = sessions.clusters.take_open(settled.iter().map(String::as_str));
            self.members(session, repo.clone(), state).note_unreachable(&watched, &mut sessions.clusters)?;
            let known = (&mut sessions.formers, &mut sessions.clusters);
            self.compare_revisions(state, (session, repo.as_ref()), known, (Some(&open), None))?;
        }
        // The leader may release more at any time, unless it waits for a person.
        let waits = state.record.status.rollout.as_ref().is_some_and(|rollout| rollout.approval.is_some());
        if !accepted.done && !waits {
            sessions.resume = Some(Instant::now() + PAUSE);
        }
        let done = Outcome::done("this replica's share of the clusters is carried out");
        Ok(Outcome { drift: sessions.clusters.drift(), ..done })
    }
}
