//! Waits for changes of the repo's files, for commands that go on with them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use notify::{Event, RecursiveMode, Watcher};

use super::{CommandError, print_notice};

/// Editors write a file in several steps, so a change counts when nothing has changed for this long.
pub(super) const DEBOUNCE: Duration = Duration::from_millis(60);

/// The longest time to wait while files keep changing.
const MAX_DEBOUNCE: Duration = Duration::from_secs(1);

/// How often to poll where the operating system does not report changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The watched folders.
pub(super) struct WatchedFolders {
    /// The folders that are read.
    pub(super) folders: Vec<PathBuf>,
    /// The output folder, whose changes are ignored.
    pub(super) out: Option<PathBuf>,
}

type Events = Receiver<notify::Result<Event>>;

impl WatchedFolders {
    /// Calls `changed` whenever files have changed, with their paths if these are known, until it returns an
    /// error.
    pub(super) fn run_on_changes(
        &self,
        mut changed: impl FnMut(Option<BTreeSet<PathBuf>>) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let (_watcher, events) =
            self.start_watcher().map_err(|e| CommandError::Failed(format!("cannot watch: {e}")))?;
        // Changes made before the watch began would be missed.
        changed(None)?;
        while let Ok(event) = events.recv() {
            if self.is_relevant(&event) {
                let mut all = vec![event];
                collect_until_quiet(&events, &mut all);
                changed(self.changed_paths(&all))?;
            }
        }
        Ok(())
    }

    fn start_watcher(&self) -> notify::Result<(Box<dyn Watcher>, Events)> {
        let (sender, events) = mpsc::channel();
        let watching =
            notify::recommended_watcher(sender).and_then(|watcher| self.add_folders(Box::new(watcher)));
        let why = match watching {
            Ok(watcher) => return Ok((watcher, events)),
            Err(why) => why,
        };
        print_notice(&format!(
            "the operating system does not report file changes ({why}): polling every second\n"
        ));
        let (sender, events) = mpsc::channel();
        let often = notify::Config::default().with_poll_interval(POLL_INTERVAL);
        let watcher = notify::PollWatcher::new(sender, often)?;
        Ok((self.add_folders(Box::new(watcher))?, events))
    }

    fn add_folders(&self, mut watcher: Box<dyn Watcher>) -> notify::Result<Box<dyn Watcher>> {
        for folder in &self.folders {
            watcher.watch(folder, RecursiveMode::Recursive)?;
        }
        Ok(watcher)
    }

    /// The changed files; `None` if events were lost.
    fn changed_paths(&self, events: &[notify::Result<Event>]) -> Option<BTreeSet<PathBuf>> {
        let mut paths = BTreeSet::new();
        for event in events {
            let event = event.as_ref().ok().filter(|event| !event.need_rescan())?;
            if !event.kind.is_access() {
                paths.extend(event.paths.iter().filter(|path| self.is_input(path)).cloned());
            }
        }
        Some(paths)
    }

    /// Whether an event can change the result. Reads do not; changes of hidden files and of the output folder
    /// do not either, because neither is an input.
    fn is_relevant(&self, event: &notify::Result<Event>) -> bool {
        // Lost events may have mattered.
        let Ok(event) = event else { return true };
        let written = !event.kind.is_access();
        written && (event.need_rescan() || event.paths.iter().any(|path| self.is_input(path)))
    }

    fn is_input(&self, path: &Path) -> bool {
        let below = self.folders.iter().find_map(|folder| path.strip_prefix(folder).ok()).unwrap_or(path);
        // Files with ignore rules are read although they are hidden.
        let rules = [".gitignore", ".federateignore"].iter().any(|name| below.ends_with(name));
        let parts = if rules { below.parent().unwrap_or(Path::new("")) } else { below };
        let hidden = parts.iter().any(|part| part.to_string_lossy().starts_with('.'));
        !hidden && !self.out.as_ref().is_some_and(|out| path.starts_with(out))
    }
}

/// Waits until files stop changing, and collects the events.
fn collect_until_quiet(events: &Events, all: &mut Vec<notify::Result<Event>>) {
    let first = Instant::now();
    while first.elapsed() < MAX_DEBOUNCE {
        match events.recv_timeout(DEBOUNCE) {
            Ok(event) => all.push(event),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_read_matters() {
        let watched = WatchedFolders { folders: vec!["/repo".into()], out: Some("/repo/out".into()) };
        let matters = |path: &str| {
            let kind = notify::EventKind::Modify(notify::event::ModifyKind::Any);
            watched.is_relevant(&Ok(Event::new(kind).add_path(path.into())))
        };
        assert!(matters("/repo/apps/web.yaml") && matters("/repo/.gitignore") && matters("/repo"));
        assert!(!matters("/repo/.git/index") && !matters("/repo/out/m1/web.yaml") && !matters("/repo/out"));
        assert!(!matters("/repo/.out.federate-lock") && !matters("/repo/apps/.cache/x/y.yaml"));
        assert!(!matters("/repo/.web.yaml.swp") && !matters("/repo/.cache/.gitignore"));
        let read = notify::EventKind::Access(notify::event::AccessKind::Any);
        assert!(!watched.is_relevant(&Ok(Event::new(read).add_path("/repo/web.yaml".into()))));
    }
}
