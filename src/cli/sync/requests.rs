//! `federate sync reconcile`, `suspend`, `resume`, `approve`, `abort` and `rollback`: what `kubectl` has no short way for.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::failed;
use super::history::find_rollback;
use super::target::Target;
use crate::cli::{Exit, Fault, print};
use federate_sync::hub::{Hub, Request};
use federate_sync_api::Metadata;
use federate_sync_api::status::Status;

/// The pause between two looks at a status.
const PAUSE: Duration = Duration::from_millis(200);

/// Requests about a Sync object.
#[derive(Debug, Subcommand)]
pub(super) enum SyncRequest {
    /// List Syncs: whether they are ready, with revision, clusters and drift
    Get(super::get::Get),
    /// Show what the next round would change in the clusters
    Diff(super::inspect::Diff),
    /// Show the objects in each cluster, and whether they are healthy
    Tree(super::inspect::Tree),
    /// Show the Events of a Sync
    Events(super::events::Events),
    /// Show the last rounds, with their revisions
    History(super::history::History),
    /// Reconcile now, without waiting for the interval, and wait until that is done
    Reconcile(Reconcile),
    /// Stop reconciling
    Suspend(Target),
    /// Continue reconciling, from the source again after a rollback
    Resume(Target),
    /// Approve the next step of a rollout
    Approve(Target),
    /// Return the clusters to the revision from before the rollout
    Abort(Target),
    /// Suspend the Sync, and carry out a former revision
    Rollback(Rollback),
}

/// A request for a round.
#[derive(Debug, Args)]
pub(super) struct Reconcile {
    #[command(flatten)]
    target: Target,

    /// Carry out the revision that waits for a maintenance window
    #[arg(long)]
    ignore_windows: bool,

    /// How long to wait for the end, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

/// Suspend the Sync, and carry out a former revision
///
/// The revision passes the same checks as any other, and is rolled out in the same stages; it does not wait for a maintenance
/// window. Then the Sync does nothing until `federate sync resume`, which follows the source again. To keep the former state,
/// revert the commit in the source first.
#[derive(Debug, Args)]
pub(super) struct Rollback {
    #[command(flatten)]
    target: Target,

    /// A revision of `federate sync history`, or the first characters of its commit [default: the one before the last]
    revision: Option<String>,

    /// How long to wait for the end, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

impl SyncRequest {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        match self {
            Self::Get(get) => get.run(),
            Self::Diff(diff) => diff.run(),
            Self::Tree(tree) => tree.run(),
            Self::Events(events) => events.run(),
            Self::History(history) => history.run(),
            Self::Reconcile(reconcile) => reconcile.run(),
            Self::Rollback(rollback) => rollback.run(),
            Self::Suspend(target) => send(target, &Request::Suspend),
            Self::Resume(target) => send(target, &Request::Resume),
            Self::Approve(target) => send(target, &Request::Approve),
            Self::Abort(target) => send(target, &Request::Abort),
        }
    }
}

/// Sends a request that needs no answer.
fn send(target: &Target, request: &Request) -> Result<Exit, Fault> {
    let (hub, sync) = target.connect()?;
    hub.request(&sync, request).map_err(failed)?.map_err(failed)?;
    Ok(Exit::Clean)
}

impl Reconcile {
    fn run(&self) -> Result<Exit, Fault> {
        let (hub, sync) = self.target.connect()?;
        let now = jiff::Timestamp::now().to_string();
        let request = if self.ignore_windows {
            Request::ReconcileIgnoringWindows(now.clone())
        } else {
            Request::Reconcile(now.clone())
        };
        hub.request(&sync, &request).map_err(failed)?.map_err(failed)?;
        wait(&hub, &sync, &now, Duration::from_secs(self.timeout))
    }
}

impl Rollback {
    fn run(&self) -> Result<Exit, Fault> {
        let (hub, sync) = self.target.connect()?;
        let status = hub.status(&sync).map_err(failed)?;
        let status = status.ok_or_else(|| failed(format!("there is no Sync {}", sync.full_name())))?;
        let revision = find_rollback(&status, self.revision.as_deref()).map_err(failed)?;
        let time = jiff::Timestamp::now().to_string();
        let request = Request::Rollback { commit: revision.commit, time: time.clone() };
        hub.request(&sync, &request).map_err(failed)?.map_err(failed)?;
        let name = &sync.name;
        print(&format!(
            "{} is suspended and returns to {}; `federate sync resume {name}` follows the source again\n",
            sync.full_name(),
            revision.shown
        ))?;
        wait(&hub, &sync, &time, Duration::from_secs(self.timeout))
    }
}

/// Waits until a round has followed a request, and prints how it ended.
fn wait(hub: &Hub, sync: &Metadata, time: &str, patience: Duration) -> Result<Exit, Fault> {
    let begun = Instant::now();
    let name = sync.full_name();
    let is_handled = |status: &Status| status.last_handled_reconcile_at.as_deref() == Some(time);
    let mut last = None;
    while begun.elapsed() < patience {
        last = hub.status(sync).map_err(failed)?.filter(is_handled);
        let waits = |status: &Status| {
            // A round that waits for a person, a time or a window goes on by itself.
            let is_waiting = status.window.as_ref().is_some_and(|window| window.waiting.is_some())
                || status.rollout.as_ref().is_some_and(|rollout| rollout.approval.is_some());
            status.condition("Reconciling").is_none() || is_waiting
        };
        let ended = last.as_ref().filter(|status| waits(status));
        if let Some(ready) = ended.and_then(|status| status.condition("Ready")) {
            print(&format!("{name}: {}: {}\n", ready.reason, ready.message))?;
            return Ok(match ready.status.as_str() {
                "True" => Exit::Clean,
                "Unknown" => Exit::Findings,
                _ => Exit::Error,
            });
        }
        std::thread::sleep(PAUSE);
    }
    let seconds = patience.as_secs();
    let Some(ready) = last.as_ref().and_then(|status| status.condition("Ready")) else {
        return Err(failed(format!(
            "{name} was not reconciled within {seconds} s: is `federate sync` running?"
        )));
    };
    Err(failed(format!("{name} is still being reconciled after {seconds} s: {}", ready.message)))
}
