//! What the documents show is what the binary prints. Below `<!-- output: federate … -->` stands a
//! fenced block with the output of that command, run at the project's root. Below
//! `<!-- output: FILE: OLD → NEW; federate … -->` the examples are a git repository on its branch `main`, and
//! FILE says NEW in place of OLD.
//! `UPDATE_DOCUMENTATION=1 cargo test --test documentation` writes the blocks anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::path::Path;
use std::process::Command;

const DOCUMENTS: [&str; 4] = ["README.md", "examples/repo/README.md", "docs/architecture.md", "docs/sync.md"];
const MARK: &str = "<!-- output: ";
const OPEN: &str = "\n```text\n";
const CLOSE: &str = "```\n";

/// Runs a command in a folder that has nothing but the examples, and returns all it prints.
fn output(command: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let command = if let Some((edit, command)) = command.split_once("; ") {
        change(&examples, folder.path(), edit);
        command
    } else {
        std::os::unix::fs::symlink(examples, folder.path().join("examples")).unwrap();
        command
    };
    let arguments = command.strip_prefix("federate ").expect("a command of federate");
    let output = Command::new(env!("CARGO_BIN_EXE_federate"))
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// Makes a git repository of the examples, and changes a file of it.
fn change(examples: &Path, folder: &Path, edit: &str) {
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
        for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command.env(format!("{who}_NAME"), "Test").env(format!("{who}_EMAIL"), "test@example.com");
        }
        assert!(command.status().unwrap().success(), "{program} {arguments:?}");
    };
    run("cp", &["-r", examples.to_str().unwrap(), "examples"]);
    run("git", &["init", "-q", "-b", "main"]);
    run("git", &["add", "-A"]);
    run("git", &["commit", "-q", "-m", "examples"]);
    let (file, words) = edit.split_once(": ").expect("FILE: OLD → NEW");
    let (old, new) = words.split_once(" → ").expect("OLD → NEW");
    let text = fs::read_to_string(folder.join(file)).unwrap();
    assert!(text.contains(old), "{file} has no `{old}`");
    fs::write(folder.join(file), text.replace(old, new)).unwrap();
}

/// The document with every block as it should be, and the number of blocks.
fn current(text: &str) -> (String, usize) {
    let mut parts = text.split(MARK);
    let mut fresh = parts.next().unwrap_or_default().to_owned();
    let mut blocks = 0;
    for part in parts {
        let (command, rest) = part.split_once(" -->").expect("`-->` after the command");
        let rest = rest.strip_prefix(OPEN).expect("a ```text block right below the command");
        // An empty block closes where it opens.
        let end =
            if rest.starts_with(CLOSE) { 0 } else { rest.find("\n```\n").expect("the block's end") + 1 };
        fresh += &format!("{MARK}{command} -->{OPEN}{}{}", output(command), &rest[end..]);
        blocks += 1;
    }
    (fresh, blocks)
}

#[test]
fn shown_output_is_real() {
    let mut blocks = 0;
    for document in DOCUMENTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
        let kept = fs::read_to_string(&path).unwrap();
        let (fresh, found) = current(&kept);
        blocks += found;
        if std::env::var_os("UPDATE_DOCUMENTATION").is_some() {
            fs::write(&path, &fresh).unwrap();
        } else {
            assert!(
                kept == fresh,
                "{document} shows old output; see the first lines of tests/documentation.rs"
            );
        }
    }
    assert!(blocks > 0, "no document shows any output");
}
