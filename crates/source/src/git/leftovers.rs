//! Temporary folders for `git`, named after their process. A run that is killed leaves its folders behind; later
//! runs remove them.
//!
//! The folder for temporary files is shared: other users, and other containers with process ids of their own, may
//! have folders there. So a folder is only removed if it belongs to this user, its process is gone, and it is
//! older than [`MAX_AGE`]: a `git` that outlives a killed run may still use it, and the process may run in another container.
//!
//! Facts: kill(2) (a signal 0 only checks that the process exists), gitrepository-layout(5).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};
use tempfile::TempDir;

/// How the names begin; the process id follows, then what makes them unique.
const FOLDER_PREFIX: &str = "federate-git-";

/// The age at which a folder without a process is removed.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Creates a folder of this process that is removed when dropped. The first call removes old ones.
pub(super) fn create_folder() -> io::Result<TempDir> {
    static SWEPT: Once = Once::new();
    let parent = std::env::temp_dir();
    SWEPT.call_once(|| remove_leftovers(&parent));
    tempfile::Builder::new().prefix(&format!("{FOLDER_PREFIX}{}-", std::process::id())).tempdir_in(parent)
}

/// Removes the folders of processes that are gone. What cannot be removed does not keep `git` from running.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_str().and_then(parse_process).is_some_and(is_gone) && is_old(&entry.path()) {
            // Links in it are removed, and not followed.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process in the name of a folder.
fn parse_process(name: &str) -> Option<Pid> {
    let (pid, _) = name.strip_prefix(FOLDER_PREFIX)?.split_once('-')?;
    Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 0)?)
}

/// Whether a process has ended. A process of another user exists, but refuses signals.
fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid) == Err(Errno::SRCH)
}

/// Whether this is an old folder of this user, and not a link to one.
fn is_old(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| {
        let age = meta.modified().ok().and_then(|modified| modified.elapsed().ok());
        meta.is_dir() && meta.uid() == geteuid().as_raw() && age.is_some_and(|age| age >= MAX_AGE)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_old_folders_of_ended_processes_are_removed() {
        let mut ended = Command::new("true").spawn().unwrap();
        let gone = ended.id();
        ended.wait().unwrap();
        let (parent, repository) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(repository.path().join("refs")).unwrap();
        fs::write(repository.path().join("refs/main"), "id").unwrap();
        let make = |name: &str, old: bool| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            symlink(repository.path().join("refs"), path.join("refs")).unwrap();
            fs::create_dir(path.join("tree")).unwrap();
            if old {
                let then = SystemTime::now() - MAX_AGE - Duration::from_mins(1);
                fs::File::open(&path).unwrap().set_modified(then).unwrap();
            }
        };
        let kept = [
            (format!("{FOLDER_PREFIX}{gone}-new"), false),
            (format!("{FOLDER_PREFIX}{}-mine", std::process::id()), true),
            (format!("{FOLDER_PREFIX}1-another"), true),
            (format!("{FOLDER_PREFIX}{gone}"), true),
            (format!("{FOLDER_PREFIX}x-y"), true),
            (format!("{FOLDER_PREFIX}-1-y"), true),
            (format!("other-{gone}-x"), true),
        ];
        for (name, old) in &kept {
            make(name, *old);
        }
        make(&format!("{FOLDER_PREFIX}{gone}-old"), true);
        // A link that another user made, say, is left alone, and so is what it leads to.
        let link = format!("{FOLDER_PREFIX}{gone}-link");
        symlink(repository.path(), parent.path().join(&link)).unwrap();
        remove_leftovers(parent.path());
        let mut left: Vec<String> = fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected: Vec<String> = kept.into_iter().map(|(name, _)| name).chain([link]).collect();
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(fs::read_to_string(repository.path().join("refs/main")).unwrap(), "id");
    }

    #[test]
    fn a_folder_names_its_process_and_is_removed_when_dropped() {
        let folder = create_folder().unwrap();
        let path = folder.path().to_owned();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(parse_process(name).unwrap().as_raw_nonzero().get().cast_unsigned(), std::process::id());
        drop(folder);
        assert!(!path.exists());
    }
}
