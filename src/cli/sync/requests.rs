//! `federate sync reconcile`, `suspend`, `resume`, `approve` and `abort`: what `kubectl` has no short way for.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::failed;
use crate::cli::{Exit, Fault, print};
use federate_sync::hub::{Hub, Request};
use federate_sync::tally::Tally;
use federate_sync_api::Metadata;
use federate_sync_api::status::Status;

/// The pause between two looks at a status.
const PAUSE: Duration = Duration::from_millis(200);

/// Requests about a Sync object.
#[derive(Debug, Subcommand)]
pub(super) enum SyncRequest {
    /// Reconcile now, without waiting for the interval, and wait until that is done
    Reconcile(Target),
    /// Stop reconciling
    Suspend(Target),
    /// Continue reconciling
    Resume(Target),
    /// Approve the next step of a rollout
    Approve(Target),
    /// Return the clusters to the revision from before the rollout
    Abort(Target),
}

/// A Sync object.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// The name of the Sync object
    name: String,

    /// Its namespace [default: that of the context]
    #[arg(long, short)]
    namespace: Option<String>,

    /// The kubeconfig context of the API server that holds the Sync
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,

    /// The kubeconfig file [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,

    /// How long to wait for the end of `reconcile`, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

impl SyncRequest {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let now = jiff::Timestamp::now().to_string();
        let (target, request) = match self {
            Self::Reconcile(target) => (target, Request::Reconcile(now.clone())),
            Self::Suspend(target) => (target, Request::Suspend),
            Self::Resume(target) => (target, Request::Resume),
            Self::Approve(target) => (target, Request::Approve),
            Self::Abort(target) => (target, Request::Abort),
        };
        let hub = Hub::connect(
            target.kubeconfig.as_deref().map(Path::new),
            target.context.as_deref(),
            &Tally::default(),
        );
        let hub = hub.map_err(failed)?;
        let namespace = target.namespace.clone().unwrap_or_else(|| hub.namespace().to_owned());
        let sync = Metadata { name: target.name.clone(), namespace };
        hub.request(&sync, &request).map_err(failed)?.map_err(failed)?;
        match request {
            Request::Reconcile(_) => wait(&hub, &sync, &now, Duration::from_secs(target.timeout)),
            _ => Ok(Exit::Clean),
        }
    }
}

/// Waits until a round has followed a request, and prints how it ended.
fn wait(hub: &Hub, sync: &Metadata, time: &str, patience: Duration) -> Result<Exit, Fault> {
    let begun = Instant::now();
    let followed = |status: &Status| {
        status.last_handled_reconcile_at.as_deref() == Some(time) && status.condition("Reconciling").is_none()
    };
    while begun.elapsed() < patience {
        let status = hub.status(sync).map_err(failed)?.filter(followed);
        if let Some(ready) = status.as_ref().and_then(|status| status.condition("Ready")) {
            print(&format!("{}: {}: {}\n", sync.full_name(), ready.reason, ready.message))?;
            return Ok(if ready.status == "True" { Exit::Clean } else { Exit::Error });
        }
        std::thread::sleep(PAUSE);
    }
    let seconds = patience.as_secs();
    Err(failed(format!(
        "{} was not reconciled within {seconds} s: is `federate sync` running?",
        sync.full_name()
    )))
}
