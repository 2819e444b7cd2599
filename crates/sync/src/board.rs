//! The Syncs of a process: which there are, how each is specified at this moment, and which of them are ready. Each has
//! a seat here, and a thread that takes from it what to do next.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvError, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use federate_live::Interrupt;

use crate::read::Loaded;

/// Why a thread wakes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A round is due.
    Now,
    /// Something has changed in a member cluster.
    Changed,
    /// The process ends.
    End,
}

/// The Syncs, by namespace and name.
#[derive(Default)]
pub(crate) struct SyncRegistry(Mutex<BTreeMap<String, RegisteredSync>>);

struct RegisteredSync {
    waker: Waker,
    ready: bool,
    /// The Sync as it is specified; `None` if its thread is to end.
    wanted: Option<Loaded>,
}

/// Wakes the thread of a Sync.
#[derive(Clone)]
pub(crate) struct Waker {
    sender: Sender<Wake>,
    /// How many wakes that end a round's waiting the thread has not received yet.
    pending: Arc<AtomicUsize>,
}

/// What a thread is woken by.
pub(crate) struct Wakes {
    receiver: Receiver<Wake>,
    pending: Arc<AtomicUsize>,
}

/// The channel that wakes the thread of a Sync.
pub(crate) fn wake_channel() -> (Waker, Wakes) {
    let (sender, receiver) = mpsc::channel();
    let pending = Arc::<AtomicUsize>::default();
    (Waker { sender, pending: pending.clone() }, Wakes { receiver, pending })
}

impl Waker {
    pub(crate) fn send(&self, wake: Wake) {
        if wake != Wake::Changed {
            self.pending.fetch_add(1, Ordering::SeqCst);
        }
        // A thread that has failed does not listen.
        let _ = self.sender.send(wake);
    }
}

impl Wakes {
    /// Waits for the next wake.
    pub(crate) fn receive(&self) -> Result<Wake, RecvError> {
        self.receiver.recv().inspect(|wake| self.note_received(*wake))
    }

    /// Waits for the next wake, but not longer than this.
    pub(crate) fn receive_within(&self, time: Duration) -> Result<Wake, RecvTimeoutError> {
        self.receiver.recv_timeout(time).inspect(|wake| self.note_received(*wake))
    }

    fn note_received(&self, wake: Wake) {
        if wake != Wake::Changed {
            self.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether something waits for this thread to finish its round.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let pending = self.pending.clone();
        Arc::new(move || pending.load(Ordering::SeqCst) > 0)
    }
}

impl SyncRegistry {
    fn with<T>(&self, run: impl FnOnce(&mut BTreeMap<String, RegisteredSync>) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the Syncs. Returns those that have no thread yet, with both ends of the channel that wakes it.
    pub(crate) fn set(&self, syncs: Vec<Loaded>) -> Vec<(String, (Waker, Wakes))> {
        let mut wanted: BTreeMap<String, Loaded> =
            syncs.into_iter().map(|loaded| (loaded.sync.metadata.full_name(), loaded)).collect();
        self.with(|seats| {
            for (name, seat) in seats.iter_mut() {
                let new = wanted.remove(name);
                if seat.wanted != new {
                    seat.wanted = new;
                    seat.waker.send(Wake::Now);
                }
            }
            let start = |(name, loaded): (String, Loaded)| {
                let (waker, wakes) = wake_channel();
                seats.insert(
                    name.clone(),
                    RegisteredSync { waker: waker.clone(), ready: false, wanted: Some(loaded) },
                );
                (name, (waker, wakes))
            };
            wanted.into_iter().map(start).collect()
        })
    }

    /// The Sync as it is specified; `None` if its thread is to end. It then has no seat any more.
    pub(crate) fn wanted(&self, name: &str) -> Option<Loaded> {
        self.with(|seats| {
            let wanted = seats.get(name).and_then(|seat| seat.wanted.clone());
            if wanted.is_none() {
                seats.remove(name);
            }
            wanted
        })
    }

    /// Wakes a Sync.
    pub(crate) fn wake(&self, name: &str) {
        self.with(|seats| {
            if let Some(seat) = seats.get(name) {
                seat.waker.send(Wake::Now);
            }
        });
    }

    /// Ends all threads when their rounds are over.
    pub(crate) fn end(&self) {
        self.with(|seats| {
            for seat in seats.values() {
                seat.waker.send(Wake::End);
            }
        });
    }

    /// Whether a Sync is ready; `None` if this process does not run it.
    pub(crate) fn is_ready(&self, name: &str) -> Option<bool> {
        self.with(|seats| seats.get(name).map(|seat| seat.ready))
    }

    /// Notes whether a Sync is ready; those that wait for it are woken when it becomes so.
    pub(crate) fn note(&self, name: &str, ready: bool) {
        self.with(|seats| {
            let Some(seat) = seats.get_mut(name) else { return };
            if std::mem::replace(&mut seat.ready, ready) == ready || !ready {
                return;
            }
            let waits = |seat: &&RegisteredSync| {
                seat.wanted.as_ref().is_some_and(|loaded| loaded.sync.dependencies().any(|on| on == name))
            };
            for other in seats.values().filter(waits) {
                other.waker.send(Wake::Now);
            }
        });
    }

    /// The folders that are sources, with the names of their Syncs.
    pub(crate) fn folders(&self) -> Vec<(std::path::PathBuf, String)> {
        self.with(|seats| {
            let wanted = seats.iter().filter_map(|(name, seat)| Some((name, seat.wanted.as_ref()?)));
            wanted
                .filter_map(|(name, loaded)| Some((loaded.address.folder()?.to_owned(), name.clone())))
                .collect()
        })
    }
}
