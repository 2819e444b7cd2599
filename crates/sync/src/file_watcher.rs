//! Changes of files, as the operating system reports them: of files with Syncs, and of folders that are sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use notify::{Event as FileEvent, RecommendedWatcher, RecursiveMode, Watcher};

use crate::events::LoopEvent;

/// Reports files that change. Without help from the operating system, they are read at the interval.
pub(crate) struct FileWatcher {
    watcher: Option<RecommendedWatcher>,
    folders: Arc<Mutex<Vec<(PathBuf, String)>>>,
    watched: BTreeSet<PathBuf>,
}

impl FileWatcher {
    pub(crate) fn start(files: &[PathBuf], events: Sender<LoopEvent>) -> Self {
        let folders = Arc::new(Mutex::new(Vec::<(PathBuf, String)>::new()));
        let known = folders.clone();
        let own: BTreeSet<PathBuf> =
            files.iter().filter_map(|file| canonicalize_parent(file)?.parent().map(Path::to_owned)).collect();
        let of = own.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<FileEvent>| {
            let Ok(event) = event else { return };
            if event.kind.is_access() {
                return;
            }
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            for path in &event.paths {
                if path.parent().is_some_and(|parent| of.contains(parent)) {
                    let _ = events.send(LoopEvent::Files);
                }
                for (_, name) in known.iter().filter(|(folder, _)| is_input(folder, path)) {
                    let _ = events.send(LoopEvent::Source(name.clone()));
                }
            }
        });
        let mut watcher =
            watcher.inspect_err(|error| tracing::warn!(%error, "changes of files are noticed late")).ok();
        for folder in &own {
            watch_folder(&mut watcher, folder, RecursiveMode::NonRecursive);
        }
        Self { watcher, folders, watched: BTreeSet::new() }
    }

    /// Watches these folders, too.
    pub(crate) fn watch_folders(&mut self, folders: Vec<(PathBuf, String)>) {
        let real =
            folders.into_iter().filter_map(|(path, name)| Some((std::fs::canonicalize(path).ok()?, name)));
        let real: Vec<(PathBuf, String)> = real.collect();
        for (path, _) in &real {
            if self.watched.insert(path.clone()) {
                watch_folder(&mut self.watcher, path, RecursiveMode::Recursive);
            }
        }
        *self.folders.lock().unwrap_or_else(PoisonError::into_inner) = real;
    }
}

fn canonicalize_parent(path: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(path).ok()?;
    Some(std::fs::canonicalize(folder.parent()?).ok()?.join(folder.file_name()?))
}

fn watch_folder(watcher: &mut Option<RecommendedWatcher>, folder: &Path, mode: RecursiveMode) {
    if let Some(watcher) = watcher
        && let Err(error) = watcher.watch(folder, mode)
    {
        tracing::warn!(folder = %folder.display(), %error, "changes of files are noticed late");
    }
}

/// Whether a file of a source is read. Hidden files are not.
fn is_input(folder: &Path, path: &Path) -> bool {
    path.strip_prefix(folder).is_ok_and(|below| {
        let hidden = below.iter().any(|part| part.to_string_lossy().starts_with('.'));
        !hidden || below.ends_with(".federateignore") || below.ends_with(".gitignore")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_files_are_not_input() {
        let folder = Path::new("/r");
        assert!(is_input(folder, Path::new("/r/a/b.yaml")) && is_input(folder, Path::new("/r/.gitignore")));
        assert!(!is_input(folder, Path::new("/r/.git/index")) && !is_input(folder, Path::new("/s/a.yaml")));
    }
}
