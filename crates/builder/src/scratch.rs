//! The space in which builds have their folders: where it is, and how much of it builds use at the same time.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::inputs::BuildInputs;

/// The bytes that the folders of all builds of this process may have at the same time, at the beginning.
const MAX_SCRATCH_BYTES: u64 = 512 << 20;

/// The space of folders of builds.
static SCRATCH: ScratchSpace = ScratchSpace { used: Mutex::new(0), freed: Condvar::new() };

/// Space that builds share. One that does not fit waits until others end, and each ends soon: so the builds of one repo take
/// turns, and do not fill the disk for those of others.
struct ScratchSpace {
    used: Mutex<u64>,
    freed: Condvar,
}

/// A part of the space, until this is dropped.
pub(crate) struct ScratchShare {
    space: &'static ScratchSpace,
    bytes: u64,
}

impl ScratchShare {
    /// The space for the files of a build.
    pub(crate) fn take(inputs: &BuildInputs) -> Self {
        SCRATCH.take(inputs.files.values().map(|bytes| bytes.len() as u64).sum())
    }
}

impl ScratchSpace {
    /// Takes space as soon as there is some. What is larger than all of it is alone.
    fn take(&'static self, bytes: u64) -> ScratchShare {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used > 0 && *used + bytes > MAX_SCRATCH_BYTES {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        ScratchShare { space: self, bytes }
    }
}

impl Drop for ScratchShare {
    fn drop(&mut self) {
        *self.space.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.space.freed.notify_all();
    }
}

/// The folder in which builds have theirs: `FEDERATE_BUILD_DIR`, or that for temporary files. A repo does not choose it.
pub(crate) fn find_scratch_folder() -> PathBuf {
    let named = std::env::var_os("FEDERATE_BUILD_DIR").filter(|folder| !folder.is_empty());
    named.map_or_else(std::env::temp_dir, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn builds_wait_for_space_and_what_is_too_large_is_alone() {
        static SPACE: ScratchSpace = ScratchSpace { used: Mutex::new(0), freed: Condvar::new() };
        let first = SPACE.take(MAX_SCRATCH_BYTES - 1);
        let small = SPACE.take(1);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let share = SPACE.take(2 * MAX_SCRATCH_BYTES);
            sender.send(share.bytes).unwrap();
        });
        drop(first);
        assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err(), "the small one is still there");
        drop(small);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(30)), Ok(2 * MAX_SCRATCH_BYTES));
    }
}
