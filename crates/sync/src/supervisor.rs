//! The loop: a supervisor starts and ends the thread of each Sync, and passes events on to the threads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use federate_source::git::program;

use crate::environment::Environment;
pub use crate::events::LoopEvent;
use crate::file_watcher::FileWatcher;
use crate::hub::{self, HubClient, HubStates, SyncObjects};
use crate::run::{self, SyncResult};
use crate::state::{Error as StateError, StateFolder};
use crate::sync_files::{self, InvalidFiles, ValidSync};
use crate::sync_registry::SyncRegistry;
use crate::telemetry::Telemetry;
use crate::worker::{WorkerContext, WorkerSpawner};

/// How long a process that is to end waits for rounds that only read.
const END_TIMEOUT: Duration = Duration::from_secs(7);

/// How often it looks whether they have ended.
const END_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the Syncs of some files until the process is to end. `invalid` is called if files that have changed are
/// invalid; the Syncs then go on as before.
pub fn run_files(
    files: &[PathBuf],
    state: &StateFolder,
    env: &Environment<'_>,
    telemetry: &Telemetry,
    events: Sender<LoopEvent>,
    receiver: &Receiver<LoopEvent>,
    invalid: impl Fn(&InvalidFiles),
) -> Result<(), InvalidFiles> {
    let first = sync_files::read_files(files)?;
    let mut watcher = FileWatcher::start(files, events);
    let registry = SyncRegistry::default();
    telemetry.metrics.set_leading(true);
    std::thread::scope(|scope| {
        let workers = WorkerSpawner {
            scope,
            shared: WorkerContext { states: state, env, telemetry, registry: &registry, hub: None },
        };
        workers.start_workers(first, std::iter::empty());
        watcher.watch_folders(registry.source_folders());
        while let Ok(event) = receiver.recv() {
            match event {
                LoopEvent::End => break,
                LoopEvent::Source(name) => registry.wake_sync(&name),
                LoopEvent::Objects => {}
                LoopEvent::Files => match sync_files::read_files(files) {
                    Ok(syncs) => {
                        workers.start_workers(syncs, std::iter::empty());
                        watcher.watch_folders(registry.source_folders());
                    }
                    Err(found) => invalid(&found),
                },
            }
        }
        end_workers(&registry, || {});
    });
    Ok(())
}

/// Runs the Sync objects of an API server until the process is to end. `leave` is called if the process ends before this returns.
pub fn run_objects(
    objects: &SyncObjects,
    hub: &HubClient,
    states: &HubStates,
    env: &Environment<'_>,
    telemetry: &Telemetry,
    receiver: &Receiver<LoopEvent>,
    leave: impl Fn(),
) {
    let registry = SyncRegistry::default();
    let mut refused = BTreeMap::new();
    std::thread::scope(|scope| {
        let shared = WorkerContext { states, env, telemetry, registry: &registry, hub: Some(hub) };
        let workers = WorkerSpawner { scope, shared };
        telemetry.metrics.set_leading(true);
        let first = admit_syncs(objects, states, &mut refused);
        workers.start_workers(first, refused.keys().cloned());
        while let Ok(event) = receiver.recv() {
            match event {
                LoopEvent::End => break,
                LoopEvent::Source(name) => registry.wake_sync(&name),
                LoopEvent::Files => {}
                LoopEvent::Objects => {
                    let syncs = admit_syncs(objects, states, &mut refused);
                    workers.start_workers(syncs, refused.keys().cloned());
                }
            }
        }
        end_workers(&registry, leave);
    });
}

/// Ends all threads. Rounds that are under way end first, but those that only read, such as one that waits for a git server or lists
/// the objects of a repository, have [`END_TIMEOUT`]: then the process ends without them, after `leave`. The next process begins them again.
fn end_workers(registry: &SyncRegistry, leave: impl Fn()) {
    tracing::info!("ending when the rounds that are under way are over");
    let begun = Instant::now();
    loop {
        let (is_any_left, may_write) = registry.end_threads();
        if !is_any_left {
            return;
        }
        if begun.elapsed() > END_TIMEOUT && !may_write {
            let seconds = END_TIMEOUT.as_secs();
            tracing::warn!(
                "a round that only reads has not ended within {seconds} s: it is left, and begins again with the next process"
            );
            leave();
            program::stop_all();
            std::process::exit(0);
        }
        std::thread::sleep(END_POLL_INTERVAL);
    }
}

/// Reconciles each Sync object once.
pub fn reconcile_objects_once(
    objects: &SyncObjects,
    states: &HubStates,
    env: &Environment<'_>,
) -> Result<Vec<SyncResult>, StateError> {
    let mut refused = BTreeMap::new();
    let syncs = admit_syncs(objects, states, &mut refused);
    let mut done = run::reconcile_once(&syncs, states, env)?;
    done.extend(refused.into_iter().map(|(name, invalid)| SyncResult::for_invalid(name, &invalid)));
    Ok(done)
}

/// Admits the valid Syncs. The status of the others says what is wrong; it is written once. Those that are being deleted and have
/// nothing to delete lose their finalizer.
fn admit_syncs(
    objects: &SyncObjects,
    states: &HubStates,
    refused: &mut BTreeMap<String, hub::InvalidSync>,
) -> Vec<ValidSync> {
    let mut syncs = Vec::new();
    let mut invalid = BTreeMap::new();
    for read in objects.load_all() {
        match read {
            Ok(valid_sync) => syncs.push(valid_sync),
            Err(wrong) => match states.restore_valid(&wrong, objects.tenancy()) {
                Ok(Some(valid_sync)) => syncs.push(valid_sync),
                Ok(None) => drop(invalid.insert(wrong.metadata.full_name(), wrong)),
                Err(error) => {
                    tracing::warn!(sync = wrong.metadata.full_name(), %error, "the Sync cannot be deleted yet");
                    invalid.insert(wrong.metadata.full_name(), wrong);
                }
            },
        }
    }
    let clashing = hub::remove_clashing(&mut syncs);
    for valid_sync in clashing.deleting {
        let sync = valid_sync.object.full_name();
        match states.remove_finalizer(&valid_sync.object.metadata) {
            Ok(()) => tracing::info!(sync, "its objects in member clusters belong to the older Sync"),
            Err(error) => tracing::warn!(sync, %error, "the Sync cannot be deleted yet"),
        }
    }
    for wrong in clashing.invalid {
        invalid.insert(wrong.metadata.full_name(), wrong);
    }
    for (name, wrong) in &invalid {
        if refused.get(name) != Some(wrong) {
            tracing::error!(sync = name, "{}", wrong.message);
            if let Err(error) = states.mark_invalid(wrong) {
                tracing::warn!(sync = name, %error, "the status could not be written");
            }
        }
    }
    *refused = invalid;
    syncs
}
