//! The loop: a supervisor starts and ends the thread of each Sync, and passes events on to the threads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};

use crate::board::SyncRegistry;
use crate::environment::Environment;
use crate::files::FileWatcher;
use crate::hub::{self, Hub, HubStateStore, Objects};
use crate::lane::{Shared, Workers};
use crate::read::{self, Invalid, Loaded};
use crate::run::{self, RoundResult};
use crate::state::{Error as StateError, StateFolder};
use crate::telemetry::Telemetry;

/// An event outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process is to end.
    End,
    /// The files with the Syncs may have changed.
    Files,
    /// The Sync objects may have changed.
    Objects,
    /// The source of a Sync may have changed.
    Source(String),
}

/// Runs the Syncs of some files until the process is to end. `invalid` is called if files that have changed are
/// invalid; the Syncs then go on as before.
pub fn watch(
    files: &[PathBuf],
    state: &StateFolder,
    env: &Environment<'_>,
    telemetry: &Telemetry,
    (events, happens): (Sender<Event>, Receiver<Event>),
    invalid: impl Fn(&Invalid),
) -> Result<(), Invalid> {
    let first = read::read(files)?;
    let mut watcher = FileWatcher::start(files, events);
    let board = SyncRegistry::default();
    telemetry.metrics.leads(true);
    std::thread::scope(|scope| {
        let lanes =
            Workers { scope, world: Shared { states: state, env, telemetry, board: &board, hub: None } };
        lanes.set(first);
        watcher.follow(board.folders());
        while let Ok(event) = happens.recv() {
            match event {
                Event::End => break,
                Event::Source(name) => board.wake(&name),
                Event::Objects => {}
                Event::Files => match read::read(files) {
                    Ok(syncs) => {
                        lanes.set(syncs);
                        watcher.follow(board.folders());
                    }
                    Err(found) => invalid(&found),
                },
            }
        }
        tracing::info!("ending when the rounds that are under way are over");
        board.end();
    });
    Ok(())
}

/// Runs the Sync objects of an API server until the process is to end.
pub fn watch_objects(
    objects: &Objects,
    (hub, states): (&Hub, &HubStateStore),
    env: &Environment<'_>,
    telemetry: &Telemetry,
    happens: &Receiver<Event>,
) {
    let board = SyncRegistry::default();
    let mut refused = BTreeMap::new();
    std::thread::scope(|scope| {
        let shared = Shared { states, env, telemetry, board: &board, hub: Some(hub) };
        let lanes = Workers { scope, world: shared };
        telemetry.metrics.leads(true);
        lanes.set(valid(objects, states, &mut refused));
        while let Ok(event) = happens.recv() {
            match event {
                Event::End => break,
                Event::Source(name) => board.wake(&name),
                Event::Files => {}
                Event::Objects => lanes.set(valid(objects, states, &mut refused)),
            }
        }
        tracing::info!("ending when the rounds that are under way are over");
        board.end();
    });
}

/// Does one round of each Sync object.
pub fn once_objects(
    objects: &Objects,
    states: &HubStateStore,
    env: &Environment<'_>,
) -> Result<Vec<RoundResult>, StateError> {
    let mut refused = BTreeMap::new();
    let syncs = valid(objects, states, &mut refused);
    let mut done = run::each(&syncs, states, env)?;
    done.extend(refused.into_iter().map(|(name, invalid)| RoundResult::refused(name, &invalid)));
    Ok(done)
}

/// The valid Syncs. The status of the others says what is wrong; it is written once.
fn valid(
    objects: &Objects,
    states: &HubStateStore,
    refused: &mut BTreeMap<String, hub::Invalid>,
) -> Vec<Loaded> {
    let mut syncs = Vec::new();
    let mut invalid = BTreeMap::new();
    for read in objects.all() {
        match read {
            Ok(loaded) => syncs.push(loaded),
            Err(wrong) => match states.last_valid(&wrong) {
                Ok(Some(loaded)) => syncs.push(loaded),
                Ok(None) => drop(invalid.insert(wrong.metadata.full_name(), wrong)),
                Err(error) => {
                    tracing::warn!(sync = wrong.metadata.full_name(), %error, "the Sync cannot be deleted yet");
                    invalid.insert(wrong.metadata.full_name(), wrong);
                }
            },
        }
    }
    for wrong in hub::clashes(&mut syncs) {
        invalid.insert(wrong.metadata.full_name(), wrong);
    }
    for (name, wrong) in &invalid {
        if refused.get(name) != Some(wrong) {
            tracing::error!(sync = name, "{}", wrong.message);
            if let Err(error) = states.refuse(wrong) {
                tracing::warn!(sync = name, %error, "the status could not be written");
            }
        }
    }
    *refused = invalid;
    syncs
}
