//! What replicas do: the leader publishes, and each of them carries its share out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use federate_engine::actions::RepoRef;
use federate_session::Session;
use federate_sync_api::record::{Accepted, Published, Record, spec_digest};
use federate_sync_api::status::{Reason, Status};
use federate_sync_api::{Apply, Reference};
use jiff::Timestamp;

use super::{ClusterReport, REMOVED, Report};
use crate::backoff::Backoffs;
use crate::members::Members;
use crate::opened::SessionCache;
use crate::outcome::Outcome;
use crate::polled::PolledSource;
use crate::rollout::carry_out::{LOOK, PAUSE};
use crate::round::{Round, RoundError};
use crate::state::SyncState;

/// What a replica does in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// Applies the revision that was published.
    Apply,
    /// Returns to a former revision.
    Return(String),
    /// Compares the cluster with the revision that it has.
    Compare,
    /// Nothing until the leader has gone on.
    Wait,
}

impl Round<'_> {
    /// Notes in the record what all replicas are to carry out, if several share the clusters.
    pub(crate) fn publish(
        &self,
        state: &mut SyncState<'_>,
        session: &Session,
        (repo, reference): (Option<RepoRef>, Option<&Reference>),
        name: &str,
    ) -> Result<(), RoundError> {
        let Some(shares) = self.turn.shares() else { return Ok(()) };
        shares.sweep_reports(self.loaded).map_err(|error| failed(&error))?;
        let number = {
            let Some(accepted) = &mut state.record.accepted else { return Ok(()) };
            let published = accepted.published.get_or_insert_default();
            published.number += 1;
            published.number
        };
        let work = self.members(session, repo, state).work();
        let spec = spec_digest(&self.loaded.sync);
        let published = Published { number, spec, work, reference: reference.cloned() };
        if let Some(accepted) = &mut state.record.accepted {
            accepted.published = Some(published);
        }
        // Other replicas see that the status changes.
        state.record.status.begin(&format!("applying {name}"), Timestamp::now());
        Ok(())
    }

    /// Carries out this replica's share of what was published.
    pub(crate) fn share(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
    ) -> Result<Outcome, RoundError> {
        let accepted = state.record.accepted.clone();
        let spec = spec_digest(&self.loaded.sync);
        let deleting = self.loaded.sync.is_deleting();
        if deleting && !self.loaded.sync.deletes() {
            return Ok(Outcome::done("the objects in member clusters stay where they are"));
        }
        let published = accepted.and_then(|accepted| Some((accepted.published.clone()?, accepted)));
        let Some((published, accepted)) = published.filter(|(known, _)| deleting || known.spec == spec)
        else {
            return Ok(Outcome::done("the leader has published nothing"));
        };
        let polled = self.published(state, &accepted.tip, published.reference.clone())?;
        if deleting {
            sessions.observed = None;
        } else {
            Self::follow_published_status(state, sessions)?;
        }
        let mut session = self.accepted(state, sessions, &polled.opened)?;
        let repo = self.repo(&polled.opened);
        if deleting {
            return self.share_removal(&self.members(&session, repo, state), &mut sessions.clusters);
        }
        if self.members(&session, repo.clone(), state).work() != published.work {
            // The same revision may have been planned again with another memory.
            let memory = state.memory()?;
            let (limit, destination) = (self.apply_limit(), self.destination());
            session = Self::prepare(sessions, &polled.opened, memory.as_ref(), limit, destination)?;
        }
        let ended = if self.members(&session, repo.clone(), state).work() == published.work {
            let ended = self.work_on(state, sessions, (&session, repo.clone()), (&accepted, &published));
            sessions.put_accepted(&polled.opened, session, repo);
            ended
        } else {
            // Clusters are not compared with it either.
            sessions.put(&polled.opened, session);
            let PolledSource { name, .. } = &polled;
            let message = format!(
                "this replica does not render {name} as the leader does, and applies nothing: all replicas must run the \
                 same version of federate"
            );
            Err(RoundError::new(Reason::ReconciliationFailed, message))
        };
        self.report(state, sessions);
        ended
    }

    /// Deletes what the Sync manages in this replica's share.
    fn share_removal(&self, members: &Members<'_>, backoffs: &mut Backoffs) -> Result<Outcome, RoundError> {
        let removed = members.remove(backoffs, &mut Status::default());
        let names = members.session.clusters().iter().map(|cluster| cluster.name.to_string());
        let report = |name: String| {
            let cause = backoffs.cause(&name).cloned();
            (name, ClusterReport { work: REMOVED.to_owned(), cause, ..ClusterReport::default() })
        };
        self.write_report(&names.filter(|name| self.turn.has(name)).map(report).collect());
        removed
            .map(|()| Outcome::done("deleted everything that the Sync managed in this share of the clusters"))
    }

    fn work_on(
        &self,
        state: &mut SyncState<'_>,
        sessions: &mut SessionCache,
        (session, repo): (&Session, Option<RepoRef>),
        (accepted, published): (&Accepted, &Published),
    ) -> Result<Outcome, RoundError> {
        if self.rolls_policies(state) {
            return self.share_policies(state, sessions, (session, repo), accepted);
        }
        let mut tasks: BTreeMap<Task, BTreeSet<String>> = BTreeMap::new();
        for name in session.clusters().iter().map(|cluster| cluster.name.to_string()) {
            if self.turn.has(&name) {
                let has_it = sessions.worked.get(&name) == Some(&published.work);
                let done = has_it && sessions.clusters.cause(&name).is_none();
                let task = task(&state.record, accepted, &name, done);
                if task == Task::Apply && !has_it {
                    // What was published before has failed, which says nothing about this.
                    sessions.clusters.clear(&name);
                }
                tasks.entry(task).or_default().insert(name);
            }
        }
        if let Some(apply) = &self.spec.apply {
            for (task, names) in &tasks {
                match task {
                    Task::Apply => {
                        let members = self.members(session, repo.clone(), state);
                        self.apply_share(apply, &members, names, (state, sessions))?;
                    }
                    Task::Return(former) => {
                        self.open_former(state, &mut sessions.formers, former)?;
                        let Some((session, repo)) = sessions.formers.remove(former) else { continue };
                        let members = self.members(&session, repo.clone(), state);
                        let ended = self.apply_share(apply, &members, names, (state, sessions));
                        sessions.formers.insert(former.clone(), (session, repo));
                        ended?;
                    }
                    Task::Compare | Task::Wait => {}
                }
            }
        }
        let compared = tasks.remove(&Task::Compare).unwrap_or_default();
        for name in &compared {
            let has_target = state.record.rollout.as_ref().is_none_or(|rollout| {
                let has = state.record.clusters.get(name).and_then(|cluster| cluster.revision.as_ref());
                has == Some(&rollout.target)
            });
            if has_target {
                sessions.worked.insert(name.clone(), published.work.clone());
            }
        }
        if !compared.is_empty() && self.looks_for_drift() && sessions.clusters.compares(self.spec.interval.0)
        {
            let (open, watched) = sessions.clusters.take_open(compared.iter().map(String::as_str));
            self.members(session, repo.clone(), state).note_unreachable(&watched, &mut sessions.clusters)?;
            let known = (&mut sessions.formers, &mut sessions.clusters);
            self.compare_revisions(state, (session, repo.as_ref()), known, (Some(&open), None))?;
        }
        let done = Outcome::done("this replica's share of the clusters is carried out");
        Ok(Outcome { drift: sessions.clusters.drift(), ..done })
    }

    /// Applies a revision to some clusters, and notes what was done.
    fn apply_share(
        &self,
        apply: &Apply,
        members: &Members<'_>,
        names: &BTreeSet<String>,
        (state, sessions): (&SyncState<'_>, &mut SessionCache),
    ) -> Result<(), RoundError> {
        let staged = state.record.rollout.is_some();
        let wait = if staged { Some(LOOK) } else { self.spec.wait(apply) };
        members.update(apply, names, wait, &mut sessions.clusters)?;
        let work = members.work();
        for name in names {
            // The leader decides how long that may last.
            if staged && sessions.clusters.is_unhealthy(name) {
                sessions.resume = Some(Instant::now() + PAUSE);
            }
            sessions.worked.insert(name.clone(), work.clone());
        }
        Ok(())
    }

    /// Reports this replica's clusters to the leader.
    pub(crate) fn report(&self, state: &SyncState<'_>, sessions: &mut SessionCache) {
        let mut report = Report::new();
        for (name, work) in &sessions.worked {
            if self.turn.has(name) {
                let (cause, drifted) = sessions.clusters.known(name);
                let (work, orphans) = (work.clone(), sessions.clusters.orphans_of(name));
                let released = sessions.released.get(name).cloned().unwrap_or_default();
                report.insert(name.clone(), ClusterReport { work, cause, drifted, orphans, released });
            }
        }
        if sessions.reported.as_ref() != Some(&report) {
            self.write_report(&report);
            sessions.reported = Some(report);
        }
        if state.record.rollout.is_some() || self.rolls_policies(state) {
            let open: Vec<String> =
                sessions.worked.keys().filter(|name| sessions.clusters.is_unhealthy(name)).cloned().collect();
            for name in open {
                sessions.clusters.clear(&name);
                sessions.worked.remove(&name);
            }
        }
    }

    fn write_report(&self, report: &Report) {
        let Some(shares) = self.turn.shares() else { return };
        if let Err(error) = shares.write_report(self.loaded, report) {
            tracing::warn!(sync = self.name(), %error, "the report of this replica could not be written");
        }
    }
}

/// What is to be done in a cluster; `done` says whether this replica has applied what was published.
fn task(record: &Record, accepted: &Accepted, name: &str, done: bool) -> Task {
    let Some(rollout) = &record.rollout else {
        let open = !accepted.done && accepted.pending.as_ref().is_none_or(|pending| pending.contains(name));
        return if open && !done { Task::Apply } else { Task::Compare };
    };
    let has = record.clusters.get(name).cloned().unwrap_or_default();
    let has_target = has.revision.as_ref() == Some(&rollout.target) || has.updating.is_some();
    match has.former {
        _ if rollout.restarts => Task::Wait,
        Some(former) if rollout.aborted && has_target && former != rollout.target => Task::Return(former),
        _ if rollout.aborted => Task::Compare,
        _ if has.updating.is_some() && !done => Task::Apply,
        _ if has.updating.is_some() => Task::Wait,
        _ => Task::Compare,
    }
}

fn failed(error: &crate::hub::Error) -> RoundError {
    RoundError::new(Reason::ReconciliationFailed, error.to_string())
}
