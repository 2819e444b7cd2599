//! Revisions that are signed with `OpenPGP` keys: whose signatures count, and what becomes of the keyring.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::gnupg::Gnupg;
use crate::sandbox::{Ran, Sandbox};

/// A repository with the keys that sign in it.
struct Signed {
    repo: Sandbox,
    beside: Sandbox,
    gnupg: Gnupg,
}

impl Signed {
    fn new() -> Self {
        let signed = Self { repo: Sandbox::web(), beside: Sandbox::new(), gnupg: Gnupg::new() };
        signed.repo.git("init -q -b main");
        signed.repo.git("add -A");
        signed.repo.git("commit -q -m unsigned");
        fs::create_dir(signed.beside.path("tmp")).unwrap();
        signed
    }

    fn commit(&self, settings: &str) {
        self.repo.git(&format!("{settings} commit -q -S --allow-empty -m signed"));
    }

    fn allow(&self, keys: &[&str]) {
        let keys: String = keys.iter().map(|name| self.gnupg.public(name)).collect();
        self.beside.write("signers", keys);
    }

    /// Plans a revision, with temporary files in a folder of its own, and gpg set to the home folder with all keys.
    fn command(&self, revision: &str) -> Command {
        let signers = self.beside.path("signers");
        let line =
            format!("plan --rev {revision} --verify-signatures --allowed-signers {}", signers.display());
        let mut command = self.repo.command(&line);
        command.env("TMPDIR", self.beside.path("tmp")).env("GNUPGHOME", self.gnupg.home());
        command
    }

    /// Runs the command, and checks that no folder and no process is left.
    #[track_caller]
    fn ran(&self, command: &mut Command) -> Ran {
        let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap(), &self.repo.path(""));
        let temporary = self.beside.path("tmp");
        assert_eq!(self.beside.files("tmp"), Vec::<String>::new(), "{ran:#?}");
        assert_eq!(processes(&temporary), Vec::<String>::new(), "{ran:#?}");
        ran
    }

    #[track_caller]
    fn accepted(&self, revision: &str) {
        self.ran(&mut self.command(revision)).code(0);
    }

    #[track_caller]
    fn refused(&self, revision: &str, why: &str) {
        let said = self.ran(&mut self.command(revision)).code(2).err;
        assert!(said.contains(why), "{said}");
    }
}

/// The processes with a folder in their arguments or their environment.
fn processes(folder: &Path) -> Vec<String> {
    let named = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let arguments = fs::read(path.join("cmdline")).ok()?;
        let text = String::from_utf8_lossy(&arguments).into_owned();
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        let all = text.clone() + &String::from_utf8_lossy(&environment);
        all.contains(&*folder.to_string_lossy()).then_some(text)
    };
    fs::read_dir("/proc").into_iter().flatten().filter_map(named).collect()
}

#[test]
fn only_keys_of_the_list_count_as_they_are_now() {
    let signed = Signed::new();
    let gnupg = &signed.gnupg;
    gnupg.key("author");
    gnupg.key("stranger");
    gnupg.expired("former");
    signed.allow(&["author", "former"]);
    signed.refused("HEAD", "there is no signature");
    signed.commit(&gnupg.signing("author"));
    signed.accepted("HEAD");
    // The user's own keyring has this key.
    signed.commit(&gnupg.signing("stranger"));
    signed.refused("HEAD", "is not among the allowed signers: add its public key (`gpg --armor --export`)");
    signed.commit(&gnupg.signing_long_ago("former"));
    signed.refused("HEAD", "has expired: sign the revision with another key");
    // The keys count as the list has them.
    gnupg.revoke("author");
    signed.accepted("HEAD~2");
    signed.allow(&["author"]);
    signed.refused("HEAD~2", "has been revoked: sign the revision with another key");
    signed.beside.write("signers", "");
    signed.refused("HEAD", "the allowed signers have no OpenPGP key: add the signer's public key");
}

#[test]
fn tags_count_and_changed_signatures_do_not() {
    let signed = Signed::new();
    let (gnupg, repo) = (&signed.gnupg, &signed.repo);
    gnupg.key("author");
    signed.allow(&["author"]);
    repo.git(&format!("{} tag -s v1 -m one", gnupg.signing("author")));
    signed.accepted("v1");
    signed.refused("main", "there is no signature");
    signed.commit(&gnupg.signing("author"));
    let changed = repo.git("cat-file commit HEAD").replace("signed\n", "changed\n");
    repo.write("changed", changed);
    let id = repo.git("hash-object -t commit -w changed");
    signed.refused(id.trim(), "has not signed this: the revision or its signature was changed");
}

#[test]
fn ssh_keys_and_openpgp_keys_are_one_list() {
    let signed = Signed::new();
    signed.gnupg.key("author");
    let key = signed.beside.path("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    assert!(made.unwrap().success());
    let ssh = format!("-c gpg.format=ssh -c user.signingkey={}", key.display());
    let line = format!("dev@example.com namespaces=\"git\" {}", signed.beside.read("key.pub"));
    let armored = signed.gnupg.public("author");
    signed.beside.write("signers", format!("{armored}{line}"));
    signed.commit(&ssh);
    signed.accepted("HEAD");
    signed.commit(&signed.gnupg.signing("author"));
    signed.accepted("HEAD");
    signed.beside.write("signers", line);
    signed.accepted("HEAD~1");
    signed.refused("HEAD", "the allowed signers have no OpenPGP key");
    signed.beside.write("signers", armored);
    signed.refused("HEAD~1", "has no valid signature by an allowed signer");
}

#[test]
fn keys_that_cannot_be_used_are_named() {
    let signed = Signed::new();
    signed.gnupg.key("author");
    signed.commit(&signed.gnupg.signing("author"));
    let public = signed.gnupg.public("author");
    let lines: Vec<&str> = public.lines().collect();
    let damaged = format!("# ours\n{}\nAAAA\n{}\n", lines[0], lines[lines.len() - 1]);
    signed.beside.write("signers", format!("{public}{damaged}"));
    let line = lines.len() + 2;
    signed.refused("HEAD", &format!("signers, line {line}: gpg cannot import this OpenPGP key"));
    signed.beside.write("signers", lines[..lines.len() - 1].join("\n"));
    signed.refused("HEAD", "signers, line 1: this OpenPGP key has no end: copy it again");
    let private = signed.gnupg.private("author");
    signed.beside.write("signers", &private);
    let said = signed.ran(&mut signed.command("HEAD")).code(2).err;
    assert!(said.contains("signers, line 1: this is a private OpenPGP key"), "{said}");
    assert!(!said.contains(private.lines().nth(3).unwrap()), "{said}");
}

#[test]
fn gpg_is_the_one_of_the_path() {
    let signed = Signed::new();
    signed.gnupg.key("author");
    signed.allow(&["author"]);
    signed.commit(&signed.gnupg.signing("author"));
    // Neither the user's git configuration nor the repository's names another one.
    let ran = signed.beside.path("ran");
    let program = signed.beside.path("program");
    signed.beside.write("program", format!("#!/bin/sh\ntouch {}\n", ran.display()));
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let configuration = format!(
        "[gpg]\n program = {0}\n minTrustLevel = fully\n[gpg \"openpgp\"]\n program = {0}\n",
        program.display()
    );
    signed.beside.write("gitconfig", &configuration);
    signed.repo.git(&format!("config gpg.program {}", program.display()));
    let mut command = signed.command("HEAD");
    signed.ran(command.env("GIT_CONFIG_GLOBAL", signed.beside.path("gitconfig"))).code(0);
    assert!(!ran.exists());
    // Without gpg, the message says what is missing.
    fs::create_dir(signed.beside.path("bin")).unwrap();
    let found = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let git = String::from_utf8(found.stdout).unwrap();
    std::os::unix::fs::symlink(git.trim(), signed.beside.path("bin/git")).unwrap();
    let mut command = signed.command("HEAD");
    let said = signed.ran(command.env("PATH", signed.beside.path("bin"))).code(2).err;
    assert!(said.contains("cannot run `gpg`: ") && said.contains("install GnuPG"), "{said}");
}
