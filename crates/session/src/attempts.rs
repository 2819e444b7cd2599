//! Attempts to write what others may write at the same time.

use std::time::Duration;

/// How many times a rendering is written if what it replaces moves in the meantime.
pub(crate) const MAX_ATTEMPTS: u32 = 10;

/// Waits after an attempt that the push of another client has overtaken.
pub(crate) fn wait_before_attempt(attempt: u32) {
    std::thread::sleep(Duration::from_millis((20 << attempt).min(500)));
}
