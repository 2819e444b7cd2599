//! What the documents show is what the binary prints. Below `<!-- output: federate … -->` stands a
//! fenced block with the output of that command, run at the project's root.
//! `UPDATE_DOCUMENTATION=1 cargo test --test documentation` writes the blocks anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::path::Path;
use std::process::Command;

const DOCUMENTS: [&str; 3] = ["README.md", "examples/repo/README.md", "docs/architecture.md"];
const MARK: &str = "<!-- output: ";
const OPEN: &str = "\n```text\n";
const CLOSE: &str = "```\n";

/// Runs a command in a folder that has nothing but the examples, and returns all it prints.
fn output(command: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    std::os::unix::fs::symlink(examples, folder.path().join("examples")).unwrap();
    let arguments = command.strip_prefix("federate ").expect("a command of federate");
    let output = Command::new(env!("CARGO_BIN_EXE_federate"))
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
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
