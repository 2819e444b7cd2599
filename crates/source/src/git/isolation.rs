//! Under what settings and environment `git` is started: the one place that says so, with the reasons.
//!
//! The rule: whatever the *user* set up works as in any call of git, that is the environment
//! (`GIT_SSH_COMMAND`, `GIT_ASKPASS`, `GIT_CONFIG_COUNT`, …) and the system's and the user's own
//! configuration (credential helpers, `core.hooksPath`, `gpg.program`, `gpg.ssh.allowedSignersFile`,
//! `core.sshCommand`, proxies, …). Of what belongs to the *repository* nothing runs, and nothing weakens
//! what is verified: its configuration is not read by git at all, but [`TAKEN`] is, by us.
//!
//! To that end git gets a *common folder* of our own (`GIT_COMMON_DIR`), where it looks for `config`,
//! `hooks` and `info`, with links to the repository's refs in it. A list of what is allowed, and not of
//! what is forbidden: a setting that a later git learns to run programs by is not read either. It covers
//!
//! - hooks in the repository (`hooks/`, `core.hooksPath`, `hook.*.command`), `core.fsmonitor`,
//! - programs for signatures (`gpg.program`, `gpg.*.program`, `gpg.ssh.defaultKeyCommand`) and whom they
//!   believe (`gpg.ssh.allowedSignersFile`, `gpg.minTrustLevel`),
//! - ways to a remote (`core.sshCommand`, `core.gitProxy`, `remote.*.uploadpack`, `receivepack`, `vcs`,
//!   `proxy`, `protocol.*.allow`), and less or other verification on the way (`http.sslVerify`,
//!   `http.sslCAInfo`, `http.proxy`), which would give the user's credentials away,
//! - `credential.helper`, `core.askPass`,
//! - `filter.*`, `diff.*.textconv`, `merge.*.driver`, `core.editor`, `core.pager`, `alias.*`,
//!   `core.alternateRefsCommand`, `uploadpack.packObjectsHook`, `gc.recentObjectsHook`,
//! - `info/grafts` and `info/attributes`.
//!
//! Facts: git(1) (environment), git-config(1) (SCOPES), gitrepository-layout(5) (`commondir`).

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::process::Command;

use git2::{ConfigLevel, Repository};
use tempfile::TempDir;

use super::leftovers;

/// Variables that are set.
const SET: [(&str, &str); 6] = [
    // Messages are read by us.
    ("LC_ALL", "C"),
    // Nobody sits there to answer a question or to edit a text.
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "false"),
    // What is verified or sent is the object of that id, as libgit2 reads it, and not what `refs/replace`
    // puts in its place.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // An object that is missing is missing: no remote is asked in the middle of something else.
    ("GIT_NO_LAZY_FETCH", "1"),
    // Nothing here reads a work tree, and an index is nobody's but the user's to refresh.
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// Variables that are taken away. A hook that runs this program has them for another repository or a
/// half-made index; the others lead to objects or parents that are not the repository's.
const REMOVED: [&str; 6] = [
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
];

/// Settings that go before all others (`-c`).
const SETTINGS: [(&str, &str); 6] = [
    // Housekeeping after a fetch would run on the repository, with programs of its own.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Submodules are other repositories, with configurations of their own.
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    // A daemon for a work tree that nothing here looks at.
    ("core.fsmonitor", "false"),
    // Output is read by us.
    ("core.pager", "cat"),
];

/// The ways to a remote, unless the user's `GIT_ALLOW_PROTOCOL` names others: none that runs what an
/// address says (`ext::`), or a program of the `PATH` that an address chooses.
const PROTOCOLS: &str = "file:git:http:https:ssh";

/// What is taken from the repository's own configuration: names and addresses, no programs. The middle
/// of a key (a remote's name, an address) is `*`.
const TAKEN: [&str; 19] = [
    // Who commits.
    "user.name",
    "user.email",
    "user.useconfigonly",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    // Whether a commit is signed, and with which of the user's keys.
    "commit.gpgsign",
    "gpg.format",
    "user.signingkey",
    // Where a remote is.
    "remote.*.url",
    "remote.*.pushurl",
    "remote.*.fetch",
    "url.*.insteadof",
    "url.*.pushinsteadof",
    // As whom: what build systems write there for the remote that they cloned.
    "http.*.extraheader",
    "credential.*.username",
    "credential.*.usehttppath",
    // Who may read what is written.
    "core.sharedrepository",
];

/// What the repository shares with the common folder of our own: where its branches are.
const SHARED: [&str; 4] = ["refs", "packed-refs", "logs", "shallow"];

/// The common folder of our own; gone when dropped.
#[derive(Debug)]
pub(super) struct Isolation {
    _folder: TempDir,
}

impl Isolation {
    /// Prepares a command to run in a repository.
    pub(super) fn of(repository: &Repository, command: &mut Command) -> io::Result<Self> {
        let folder = leftovers::folder()?;
        let common = fs::canonicalize(repository.commondir())?;
        for name in SHARED {
            symlink(common.join(name), folder.path().join(name))?;
        }
        // Files of a work tree (`.gitattributes`, `.gitmodules`) say nothing: it is an empty one.
        let tree = folder.path().join("tree");
        fs::create_dir(&tree)?;
        for (key, value) in SETTINGS {
            command.arg("-c").arg([key, value].join("="));
        }
        for name in REMOVED {
            command.env_remove(name);
        }
        command.envs(SET);
        if std::env::var_os("GIT_ALLOW_PROTOCOL").is_none() {
            command.env("GIT_ALLOW_PROTOCOL", PROTOCOLS);
        }
        command.env("GIT_DIR", fs::canonicalize(repository.path())?);
        command.env("GIT_COMMON_DIR", folder.path());
        command.env("GIT_OBJECT_DIRECTORY", common.join("objects"));
        command.env("GIT_WORK_TREE", tree);
        command.env("GIT_INDEX_FILE", folder.path().join("index"));
        pass(&taken(repository).map_err(io::Error::other)?, command);
        Ok(Self { _folder: folder })
    }
}

/// What the repository's own configuration says under the keys of [`TAKEN`], in its order.
fn taken(repository: &Repository) -> Result<Vec<(String, String)>, git2::Error> {
    let config = repository.config()?;
    let entries = config.entries(None)?;
    let mut taken = Vec::new();
    entries.for_each(|entry| {
        let own = matches!(entry.level(), ConfigLevel::Local | ConfigLevel::Worktree);
        if let (true, Ok(key), Ok(value)) = (own, entry.name(), entry.value())
            && is_taken(key)
        {
            taken.push((key.to_owned(), value.to_owned()));
        }
    })?;
    Ok(taken)
}

fn is_taken(key: &str) -> bool {
    let Some((section, rest)) = key.split_once('.') else { return false };
    let (middle, name) = rest.rsplit_once('.').map_or((None, rest), |(middle, name)| (Some(middle), name));
    let is = |pattern: &&str| match pattern.split_once(".*.") {
        // An address may be left out: `http.extraHeader` is for all of them.
        Some((s, n)) => s == section && n == name && (middle.is_some() || matches!(s, "http" | "credential")),
        None => middle.is_none() && pattern.split_once('.') == Some((section, name)),
    };
    TAKEN.iter().any(is)
}

/// Hands settings to git by the environment, where no other user sees them, before those that the user
/// has put there.
fn pass(settings: &[(String, String)], command: &mut Command) {
    let variable = |name: String| std::env::var_os(name);
    let count = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    for number in 0..count {
        for part in ["KEY", "VALUE"] {
            if let Some(value) = variable(format!("GIT_CONFIG_{part}_{number}")) {
                command.env(format!("GIT_CONFIG_{part}_{}", number + settings.len()), value);
            }
        }
    }
    for (number, (key, value)) in settings.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{number}"), key).env(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    command.env("GIT_CONFIG_COUNT", (count + settings.len()).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_are_the_repository_s_own_too() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::init(dir.path()).unwrap();
        let git_dir = fs::canonicalize(repository.path()).unwrap();
        // As GitHub's checkout action leaves its token.
        fs::write(dir.path().join("token"), "[http \"https://h/\"]\n extraHeader = AUTHORIZATION: x\n")
            .unwrap();
        let mut config = fs::read_to_string(git_dir.join("config")).unwrap();
        config.push_str(&format!(
            "[includeIf \"gitdir:{}\"]\n path = {}\n[credential]\n helper = store\n[remote \"o\"]\n url = a\n url = b\n",
            git_dir.display(),
            dir.path().join("token").display()
        ));
        fs::write(git_dir.join("config"), config).unwrap();
        let taken = taken(&Repository::open(&git_dir).unwrap()).unwrap();
        let taken: Vec<(&str, &str)> = taken.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(
            taken,
            [
                ("http.https://h/.extraheader", "AUTHORIZATION: x"),
                ("remote.o.url", "a"),
                ("remote.o.url", "b")
            ]
        );
    }

    #[test]
    fn keys_that_name_programs_are_not_taken() {
        for key in [
            "user.name",
            "remote.origin.url",
            "remote.a.b.url",
            "http.https://example.com/.extraheader",
            "http.extraheader",
        ] {
            assert!(is_taken(key), "{key}");
        }
        for key in [
            "core.sshcommand",
            "remote.origin.uploadpack",
            "remote.url",
            "http.sslverify",
            "credential.helper",
            "credential.https://example.com.helper",
            "gpg.ssh.program",
            "user.x.name",
            "include.path",
        ] {
            assert!(!is_taken(key), "{key}");
        }
    }
}
