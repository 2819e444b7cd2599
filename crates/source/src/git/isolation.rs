//! The settings and the environment with which `git` is started, with the reasons.
//!
//! The rule: what the *user* configured works as in any call of git. This includes the environment
//! (`GIT_SSH_COMMAND`, `GIT_ASKPASS`, `GIT_CONFIG_COUNT`, …) and the configuration of the system and the user
//! (credential helpers, `core.hooksPath`, `gpg.program`, `gpg.ssh.allowedSignersFile`, `core.sshCommand`,
//! proxies, …). What belongs to the *repository* never runs, and never weakens verification: git does not read
//! its configuration at all; federate reads the keys in [`ALLOWED_KEYS`] and passes them on.
//!
//! For this, git gets a separate *common folder* (`GIT_COMMON_DIR`), where it looks for `config`, `hooks` and
//! `info`, with links to the repository's refs in it. Settings are allowed by a list, so a setting with which a
//! later git runs programs is excluded too. Excluded are:
//!
//! - hooks in the repository (`hooks/`, `core.hooksPath`, `hook.*.command`), `core.fsmonitor`,
//! - programs for signatures (`gpg.program`, `gpg.*.program`, `gpg.ssh.defaultKeyCommand`) and whom they
//!   trust (`gpg.ssh.allowedSignersFile`, `gpg.minTrustLevel`); where `OpenPGP` signatures are verified, also those of
//!   the user (`verify`),
//! - settings for remotes (`core.sshCommand`, `core.gitProxy`, `remote.*.uploadpack`, `receivepack`, `vcs`,
//!   `proxy`, `protocol.*.allow`), and for TLS and proxies (`http.sslVerify`,
//!   `http.sslCAInfo`, `http.proxy`), which could leak the user's credentials,
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
const SET_VARIABLES: [(&str, &str); 6] = [
    // federate parses the messages.
    ("LC_ALL", "C"),
    // There is no one to answer a prompt or to edit a text.
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "false"),
    // Verifies and sends the object with that id, as libgit2 reads it, and not its replacement in
    // `refs/replace`.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // Missing objects are errors, and are not fetched from a remote during another operation.
    ("GIT_NO_LAZY_FETCH", "1"),
    // federate does not use the work tree, and only the user refreshes the index.
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// Variables that are removed. If a hook runs this program, they refer to another repository or an
/// unfinished index; others refer to objects or parents outside of the repository.
const REMOVED_VARIABLES: [&str; 6] = [
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
];

/// Settings that take precedence over all others (`-c`).
const FORCED_SETTINGS: [(&str, &str); 6] = [
    // Maintenance after a fetch would run on the repository and start programs.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Submodules are other repositories with their own configuration.
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    // A daemon for the work tree, which federate does not use.
    ("core.fsmonitor", "false"),
    // federate parses the output.
    ("core.pager", "cat"),
];

/// The protocols for remotes, unless the user's `GIT_ALLOW_PROTOCOL` names others. Excluded are those that run
/// a command in a URL (`ext::`), or a program from the `PATH` that a URL names.
const ALLOWED_PROTOCOLS: &str = "file:git:http:https:ssh";

/// The keys taken from the repository's configuration: names and URLs, not programs. `*` stands for the
/// middle of a key (the name of a remote, a URL).
const ALLOWED_KEYS: [&str; 19] = [
    // The committer.
    "user.name",
    "user.email",
    "user.useconfigonly",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    // Whether commits are signed, and with which of the user's keys.
    "commit.gpgsign",
    "gpg.format",
    "user.signingkey",
    // The URLs of remotes.
    "remote.*.url",
    "remote.*.pushurl",
    "remote.*.fetch",
    "url.*.insteadof",
    "url.*.pushinsteadof",
    // Credentials that build systems set for the remote that they cloned.
    "http.*.extraheader",
    "credential.*.username",
    "credential.*.usehttppath",
    // Who may read the written files.
    "core.sharedrepository",
];

/// What the repository shares with the separate common folder: its branches.
const SHARED_PATHS: [&str; 4] = ["refs", "packed-refs", "logs", "shallow"];

/// The separate common folder; removed when dropped.
#[derive(Debug)]
pub(super) struct Isolation {
    _folder: TempDir,
}

impl Isolation {
    /// Prepares a command to run in a repository.
    pub(super) fn prepare_command(repository: &Repository, command: &mut Command) -> io::Result<Self> {
        let folder = leftovers::create_folder()?;
        let common = fs::canonicalize(repository.commondir())?;
        for name in SHARED_PATHS {
            symlink(common.join(name), folder.path().join(name))?;
        }
        // An empty work tree, so that files such as `.gitattributes` and `.gitmodules` have no effect.
        let tree = folder.path().join("tree");
        fs::create_dir(&tree)?;
        for (key, value) in FORCED_SETTINGS {
            command.arg("-c").arg([key, value].join("="));
        }
        for name in REMOVED_VARIABLES {
            command.env_remove(name);
        }
        command.envs(SET_VARIABLES);
        if std::env::var_os("GIT_ALLOW_PROTOCOL").is_none() {
            command.env("GIT_ALLOW_PROTOCOL", ALLOWED_PROTOCOLS);
        }
        command.env("GIT_DIR", fs::canonicalize(repository.path())?);
        command.env("GIT_COMMON_DIR", folder.path());
        command.env("GIT_OBJECT_DIRECTORY", common.join("objects"));
        command.env("GIT_WORK_TREE", tree);
        command.env("GIT_INDEX_FILE", folder.path().join("index"));
        pass_settings(&allowed_settings(repository).map_err(io::Error::other)?, command);
        Ok(Self { _folder: folder })
    }
}

/// The repository's settings with the keys in [`ALLOWED_KEYS`], in their order.
fn allowed_settings(repository: &Repository) -> Result<Vec<(String, String)>, git2::Error> {
    let config = repository.config()?;
    let entries = config.entries(None)?;
    let mut taken = Vec::new();
    entries.for_each(|entry| {
        let own = matches!(entry.level(), ConfigLevel::Local | ConfigLevel::Worktree);
        if let (true, Ok(key), Ok(value)) = (own, entry.name(), entry.value())
            && is_allowed(key)
        {
            taken.push((key.to_owned(), value.to_owned()));
        }
    })?;
    Ok(taken)
}

fn is_allowed(key: &str) -> bool {
    let Some((section, rest)) = key.split_once('.') else { return false };
    let (middle, name) = rest.rsplit_once('.').map_or((None, rest), |(middle, name)| (Some(middle), name));
    ALLOWED_KEYS.iter().any(|pattern| match pattern.split_once(".*.") {
        // The URL may be missing: `http.extraHeader` is for all URLs.
        Some((s, n)) => s == section && n == name && (middle.is_some() || matches!(s, "http" | "credential")),
        None => middle.is_none() && pattern.split_once('.') == Some((section, name)),
    })
}

/// Passes settings to git in the environment, where no other user can see them, before those that the
/// user has set there.
fn pass_settings(settings: &[(String, String)], command: &mut Command) {
    let count = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    for number in 0..count {
        for part in ["KEY", "VALUE"] {
            if let Some(value) = std::env::var_os(format!("GIT_CONFIG_{part}_{number}")) {
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
        // As GitHub's checkout action stores its token.
        fs::write(dir.path().join("token"), "[http \"https://h/\"]\n extraHeader = AUTHORIZATION: x\n")
            .unwrap();
        let mut config = fs::read_to_string(git_dir.join("config")).unwrap();
        config.push_str(&format!(
            "[includeIf \"gitdir:{}\"]\n path = {}\n[credential]\n helper = store\n[remote \"o\"]\n url = a\n url = b\n",
            git_dir.display(),
            dir.path().join("token").display()
        ));
        fs::write(git_dir.join("config"), config).unwrap();
        let taken = allowed_settings(&Repository::open(&git_dir).unwrap()).unwrap();
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
            assert!(is_allowed(key), "{key}");
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
            assert!(!is_allowed(key), "{key}");
        }
    }
}
