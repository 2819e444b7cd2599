//! `federate sync reconcile`, `suspend`, `resume`, `approve`, `abort` and `rollback`: what `kubectl` has no short way for.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::history::find_rollback;
use super::target::SyncTarget;
use super::to_command_error;
use crate::cli::{CommandError, Exit, print_text};
use federate_sync::hub::{HubClient, SyncOperation};
use federate_sync_api::NamespacedName;

/// The pause between two looks at a status.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Requests about a Sync object.
#[derive(Debug, Subcommand)]
pub(super) enum SyncRequest {
    /// List Syncs: whether they are ready, with revision, clusters and drift
    Get(super::get::GetCommand),
    /// Show what the next round would change in the clusters
    Diff(super::inspection::SyncDiffCommand),
    /// Show the objects in each cluster, and whether they are healthy
    Tree(super::inspection::TreeCommand),
    /// Show the Events of a Sync
    Events(super::events::EventsCommand),
    /// Show the last rounds, with their revisions
    History(super::history::HistoryCommand),
    /// Reconcile now, without waiting for the interval, and wait until that is done
    Reconcile(ReconcileCommand),
    /// Stop reconciling
    Suspend(SyncTarget),
    /// Continue reconciling, from the source again after a rollback
    Resume(SyncTarget),
    /// Approve the next step of a rollout
    Approve(SyncTarget),
    /// Return the clusters to the revision from before the rollout
    Abort(SyncTarget),
    /// Suspend the Sync, and carry out a former revision
    Rollback(RollbackCommand),
}

/// A request for a round.
#[derive(Debug, Args)]
pub(super) struct ReconcileCommand {
    #[command(flatten)]
    target: SyncTarget,

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
pub(super) struct RollbackCommand {
    #[command(flatten)]
    target: SyncTarget,

    /// A revision of `federate sync history`, or the first characters of its commit [default: the one before the last]
    revision: Option<String>,

    /// How long to wait for the end, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

impl SyncRequest {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        match self {
            Self::Get(get) => get.run(),
            Self::Diff(diff) => diff.run(),
            Self::Tree(tree) => tree.run(),
            Self::Events(events) => events.run(),
            Self::History(history) => history.run(),
            Self::Reconcile(reconcile) => reconcile.run(),
            Self::Rollback(rollback) => rollback.run(),
            Self::Suspend(target) => send_request(target, &SyncOperation::Suspend),
            Self::Resume(target) => send_request(target, &SyncOperation::Resume),
            Self::Approve(target) => send_request(target, &SyncOperation::Approve),
            Self::Abort(target) => send_request(target, &SyncOperation::Abort),
        }
    }
}

/// Sends a request that needs no answer.
fn send_request(target: &SyncTarget, request: &SyncOperation) -> Result<Exit, CommandError> {
    let (hub, sync) = target.connect_hub()?;
    hub.request_operation(&sync, request).map_err(to_command_error)?.map_err(to_command_error)?;
    Ok(Exit::Clean)
}

impl ReconcileCommand {
    fn run(&self) -> Result<Exit, CommandError> {
        let (hub, sync) = self.target.connect_hub()?;
        let now = jiff::Timestamp::now().to_string();
        let request = if self.ignore_windows {
            SyncOperation::ReconcileIgnoringWindows(now.clone())
        } else {
            SyncOperation::Reconcile(now.clone())
        };
        hub.request_operation(&sync, &request).map_err(to_command_error)?.map_err(to_command_error)?;
        wait_until_reconciled(&hub, &sync, &now, Duration::from_secs(self.timeout))
    }
}

impl RollbackCommand {
    fn run(&self) -> Result<Exit, CommandError> {
        let (hub, sync) = self.target.connect_hub()?;
        let status = hub.read_status(&sync).map_err(to_command_error)?;
        let status =
            status.ok_or_else(|| to_command_error(format!("there is no Sync {}", sync.full_name())))?;
        let revision = find_rollback(&status, self.revision.as_deref()).map_err(to_command_error)?;
        let time = jiff::Timestamp::now().to_string();
        let request = SyncOperation::Rollback { commit: revision.commit, time: time.clone() };
        hub.request_operation(&sync, &request).map_err(to_command_error)?.map_err(to_command_error)?;
        let name = &sync.name;
        print_text(&format!(
            "{} is suspended and returns to {}; `federate sync resume {name}` follows the source again\n",
            sync.full_name(),
            revision.shown
        ))?;
        wait_until_reconciled(&hub, &sync, &time, Duration::from_secs(self.timeout))
    }
}

/// Waits until a reconciliation has followed a request, and prints how it ended.
fn wait_until_reconciled(
    hub: &HubClient,
    sync: &NamespacedName,
    time: &str,
    timeout: Duration,
) -> Result<Exit, CommandError> {
    let begun = Instant::now();
    let name = sync.full_name();
    let mut last = None;
    while begun.elapsed() < timeout {
        last = hub
            .read_status(sync)
            .map_err(to_command_error)?
            .filter(|status| status.last_handled_reconcile_at.as_deref() == Some(time));
        let ended = last.as_ref().filter(|status| {
            // A reconciliation that waits for a person, a time or a window goes on by itself.
            let is_waiting = status.window.as_ref().is_some_and(|window| window.waiting.is_some())
                || status.rollout.as_ref().is_some_and(|rollout| rollout.approval.is_some());
            status.find_condition("Reconciling").is_none() || is_waiting
        });
        if let Some(ready) = ended.and_then(|status| status.find_condition("Ready")) {
            print_text(&format!("{name}: {}: {}\n", ready.reason, ready.message))?;
            return Ok(match ready.status.as_str() {
                "True" => Exit::Clean,
                "Unknown" => Exit::Findings,
                _ => Exit::Error,
            });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let seconds = timeout.as_secs();
    let Some(ready) = last.as_ref().and_then(|status| status.find_condition("Ready")) else {
        return Err(to_command_error(format!(
            "{name} was not reconciled within {seconds} s: is `federate sync` running?"
        )));
    };
    Err(to_command_error(format!("{name} is still being reconciled after {seconds} s: {}", ready.message)))
}
