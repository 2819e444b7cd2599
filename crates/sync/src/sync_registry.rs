//! The Syncs of a process: which there are, how each is specified at this moment, and which of them are ready. Each has
//! an entry here, and a thread that takes from it what to do next.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvError, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use federate_live::Interrupt;

use crate::sync_files::ValidSync;

/// Why a thread wakes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A reconciliation is due.
    Reconciliation,
    /// Something has changed in a member cluster.
    Comparison,
    /// The process ends.
    End,
}

/// The Syncs, by namespace and name.
#[derive(Default)]
pub(crate) struct SyncRegistry(Mutex<BTreeMap<String, RegisteredSync>>);

struct RegisteredSync {
    waker: WakeSender,
    ready: bool,
    /// The Sync as it is specified; `None` if its thread is to end.
    desired: Option<ValidSync>,
}

/// Wakes the thread of a Sync.
#[derive(Clone)]
pub(crate) struct WakeSender {
    sender: Sender<Wake>,
    /// How many wakes that end a reconciliation's waiting the thread has not received yet.
    pending: Arc<AtomicUsize>,
    writes: Arc<AtomicBool>,
}

/// What a thread is woken by.
pub(crate) struct WakeReceiver {
    receiver: Receiver<Wake>,
    pending: Arc<AtomicUsize>,
    /// Whether the thread may be writing, so that a process that ends waits for it.
    pub(crate) writes: Arc<AtomicBool>,
}

/// The channel that wakes the thread of a Sync.
pub(crate) fn wake_channel() -> (WakeSender, WakeReceiver) {
    let (sender, receiver) = mpsc::channel();
    let (pending, writes) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let waker = WakeSender { sender, pending: pending.clone(), writes: writes.clone() };
    (waker, WakeReceiver { receiver, pending, writes })
}

impl WakeSender {
    /// Returns whether the thread goes on.
    pub(crate) fn send(&self, wake: Wake) -> bool {
        if wake != Wake::Comparison {
            self.pending.fetch_add(1, Ordering::SeqCst);
        }
        self.sender.send(wake).is_ok()
    }
}

impl WakeReceiver {
    /// Waits for the next wake.
    pub(crate) fn receive(&self) -> Result<Wake, RecvError> {
        self.receiver.recv().inspect(|wake| self.note_received(*wake))
    }

    /// Waits for the next wake, but not longer than this.
    pub(crate) fn receive_within(&self, time: Duration) -> Result<Wake, RecvTimeoutError> {
        self.receiver.recv_timeout(time).inspect(|wake| self.note_received(*wake))
    }

    fn note_received(&self, wake: Wake) {
        if wake != Wake::Comparison {
            self.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether something waits for this thread to finish its reconciliation.
    pub(crate) fn to_interrupt(&self) -> Interrupt {
        let pending = self.pending.clone();
        Arc::new(move || pending.load(Ordering::SeqCst) > 0)
    }
}

impl SyncRegistry {
    fn with_entries<T>(&self, run: impl FnOnce(&mut BTreeMap<String, RegisteredSync>) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the Syncs. Returns those that have no thread yet, with both ends of the channel that wakes it.
    pub(crate) fn set_syncs(&self, syncs: Vec<ValidSync>) -> Vec<(String, (WakeSender, WakeReceiver))> {
        let mut desired: BTreeMap<String, ValidSync> =
            syncs.into_iter().map(|valid_sync| (valid_sync.object.full_name(), valid_sync)).collect();
        self.with_entries(|entries| {
            for (name, entry) in entries.iter_mut() {
                let new = desired.remove(name);
                if entry.desired != new {
                    entry.desired = new;
                    entry.waker.send(Wake::Reconciliation);
                }
            }
            desired
                .into_iter()
                .map(|(name, valid_sync)| {
                    let (waker, wakes) = wake_channel();
                    entries.insert(
                        name.clone(),
                        RegisteredSync { waker: waker.clone(), ready: false, desired: Some(valid_sync) },
                    );
                    (name, (waker, wakes))
                })
                .collect()
        })
    }

    /// The Sync as it is specified; `None` if its thread is to end. It then has no entry any more.
    pub(crate) fn find_desired(&self, name: &str) -> Option<ValidSync> {
        self.with_entries(|entries| {
            let desired = entries.get(name).and_then(|entry| entry.desired.clone());
            if desired.is_none() {
                entries.remove(name);
            }
            desired
        })
    }

    /// Wakes a Sync.
    pub(crate) fn wake_sync(&self, name: &str) {
        self.with_entries(|entries| {
            if let Some(entry) = entries.get(name) {
                entry.waker.send(Wake::Reconciliation);
            }
        });
    }

    /// Ends all threads when their reconciliations are over. Returns whether any goes on, and whether any of these may be writing.
    pub(crate) fn end_threads(&self) -> (bool, bool) {
        self.with_entries(|entries| {
            let alive: Vec<&WakeSender> =
                entries.values().map(|entry| &entry.waker).filter(|waker| waker.send(Wake::End)).collect();
            (!alive.is_empty(), alive.iter().any(|waker| waker.writes.load(Ordering::SeqCst)))
        })
    }

    /// Whether a Sync is ready; `None` if this process does not run it.
    pub(crate) fn is_ready(&self, name: &str) -> Option<bool> {
        self.with_entries(|entries| entries.get(name).map(|entry| entry.ready))
    }

    /// Notes whether a Sync is ready; those that wait for it are woken when it becomes so.
    pub(crate) fn set_ready(&self, name: &str, ready: bool) {
        self.with_entries(|entries| {
            let Some(entry) = entries.get_mut(name) else { return };
            if std::mem::replace(&mut entry.ready, ready) == ready || !ready {
                return;
            }
            for other in entries.values() {
                let desired = other.desired.as_ref();
                if desired
                    .is_some_and(|valid_sync| valid_sync.object.dependency_full_names().any(|on| on == name))
                {
                    other.waker.send(Wake::Reconciliation);
                }
            }
        });
    }

    /// The folders that are sources, with the names of their Syncs.
    pub(crate) fn source_folders(&self) -> Vec<(std::path::PathBuf, String)> {
        self.with_entries(|entries| {
            let desired = entries.iter().filter_map(|(name, entry)| Some((name, entry.desired.as_ref()?)));
            desired
                .filter_map(|(name, valid_sync)| {
                    Some((valid_sync.address.as_folder()?.to_owned(), name.clone()))
                })
                .collect()
        })
    }
}
