//! Text of strangers on the terminal: nothing that a remote, a server or an argument says controls it, or is hidden from who reads it.

use std::os::unix::fs::PermissionsExt;

use crate::sandbox::Sandbox;

/// An escape sequence that changes the title, one that writes to the clipboard, a colour, and a right-to-left override.
const HOSTILE: &str =
    "\u{1b}]0;title\u{7}\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[31mred\u{202e}live\u{e0041}\u{9b}8m";

#[track_caller]
fn assert_shown(said: &str) {
    let hidden = ['\u{1b}', '\u{7}', '\u{202e}', '\u{e0041}', '\u{9b}'];
    assert!(!said.contains(hidden), "{said:?}");
    assert!(said.contains("\\u{202e}"), "{said:?}");
}

#[test]
fn what_a_remote_says_cannot_control_the_terminal() {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -q -m first");
    let beside = Sandbox::new();
    sandbox.git(&format!("clone -q --bare . {}", beside.path("remote.git").display()));
    sandbox.git(&format!("remote add origin {}", beside.path("remote.git").display()));
    let hook = beside.path("remote.git/hooks/pre-receive");
    beside.write(
        "remote.git/hooks/pre-receive",
        format!("#!/bin/sh\nprintf '%s\\n' '{HOSTILE}' >&2\nexit 1\n"),
    );
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
    let said = sandbox.run("commit --branch rendered --push").code(2).err;
    assert!(said.contains("git push"), "{said}");
    assert_shown(&said);
    // A line that never ends is cut.
    beside.write(
        "remote.git/hooks/pre-receive",
        "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x >&2\nexit 1\n",
    );
    let said = sandbox.run("commit --branch rendered --push").code(2).err;
    assert!(said.len() < 4_000, "{} bytes", said.len());
}

#[test]
fn arguments_cannot_control_the_terminal() {
    let sandbox = Sandbox::web();
    sandbox.git("init -q -b main");
    sandbox.git("add -A");
    sandbox.git("commit -q -m first");
    for arguments in [
        vec!["plan", HOSTILE],
        vec!["plan", "--rev", HOSTILE],
        vec!["explain", HOSTILE],
        vec![HOSTILE],
        vec!["plan", "--output", HOSTILE],
        vec!["commit", "--branch", HOSTILE],
        vec!["diff", "--from", HOSTILE],
    ] {
        let output = sandbox.command("").args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_shown(&String::from_utf8(output.stderr).unwrap());
    }
}
