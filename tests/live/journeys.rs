//! The pages of the documentation, as a reader follows them: the commands of a page run in their order, in a scratch
//! folder with what the page needs: a repo with a remote, a hub, members, a registry.
//!
//! Every command of a block of commands (`sh`, `console`) runs, but for those of [`NOT_RUN`]. A page with commands that run
//! has a test, which prepares its folder and replaces what is the reader's own, such as `NAME`. `<!-- write -->` stands above a
//! file whose first line is a comment with its path. A command fails if its exit code is not 0; those that compare may also report
//! differences with 1.

use std::fs;
use std::path::{Path, PathBuf};

mod control_planes;
mod files;
mod reader;

/// Commands that cannot run here: the page, how the command begins, and why.
const NOT_RUN: [(&str, &str, &str); 28] = [
    ("README.md", "cargo test ", "these are all tests"),
    ("README.md", "cargo binstall ", "it needs the network"),
    ("README.md", "cargo install ", "it needs the network"),
    ("README.md", "curl ", "it needs a release"),
    ("README.md", "docker ", "it needs a release"),
    ("docs/architecture.md", "", "these run the tests"),
    ("docs/conformance.md", "", "these run the tests"),
    ("docs/performance.md", "", "these measure a release build for minutes"),
    ("docs/security.md", "", "these check a release"),
    ("docs/sync.md", "federate sync --context ", "it runs until it is ended: tests/live/sync_objects.rs"),
    ("docs/sync.md", "federate sync -f ", "it runs until it is ended: tests/cli/sync_loop.rs"),
    ("docs/sync.md", "federate sync diff ", "it needs a loop that has run: tests/live/sync_commands.rs"),
    ("docs/sync.md", "federate sync events ", "it runs until it is ended: tests/live/sync_commands.rs"),
    ("docs/sync.md", "federate sync get ", "it needs a loop that has run: tests/live/sync_commands.rs"),
    ("docs/sync.md", "federate sync history ", "it needs a loop that has run: tests/live/sync_commands.rs"),
    ("docs/sync.md", "federate sync resume ", "it needs a loop that has run: tests/live/sync_commands.rs"),
    ("docs/sync.md", "federate sync rollback ", "it needs a loop that has run: tests/live/sync_commands.rs"),
    ("docs/sync.md", "federate sync tree ", "it needs a loop that has run: tests/live/sync_commands.rs"),
    ("docs/sync.md", "curl ", "it needs a cluster that runs pods"),
    ("docs/sync.md", "kubectl get ", "it needs a loop that has run, and `jq`"),
    ("docs/sync.md", "kubectl port-forward ", "it needs a cluster that runs pods"),
    ("docs/sync.md", "leader=", "it needs a cluster that runs pods"),
    ("docs/guides/adopt-what-runs.md", "", "tests/live/walkthrough.rs follows it"),
    ("docs/guides/from-other-renderers.md", "helmfile ", "it needs helmfile"),
    ("docs/guides/from-other-renderers.md", "kluctl ", "it needs kluctl"),
    ("docs/guides/helm-and-kustomize.md", "SOPS_AGE_KEY_FILE=", "it needs a key: tests/live/sops.rs"),
    ("docs/guides/helm-and-kustomize.md", "federate sync ", "it runs until it is ended: tests/live/sops.rs"),
    ("docs/guides/serve.md", "federate serve ", "it runs until it is ended: tests/cli/serve.rs"),
];

/// Folders with pages.
const FOLDERS: [&str; 8] = [
    ".",
    "docs",
    "docs/guides",
    "docs/reference",
    "docs/semantics",
    "examples/kubefed",
    "examples/lost-region",
    "examples/repo",
];

/// What a page asks the reader to do.
enum Step {
    /// Runs a command, which may have several lines.
    Run(String),
    /// Writes a file.
    Write { path: String, text: String },
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The steps of a page.
fn read_steps(page: &str) -> Vec<Step> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let block = regex::Regex::new(
        r"(?ms)(?:^ *<!-- (write|walk-through: \w+) -->\n)?^( *)```(sh|console|yaml)\n(.*?)^ *```$",
    );
    let mut steps = Vec::new();
    for found in block.unwrap().captures_iter(&text) {
        let indent = &found[2];
        let text: String =
            found[4].lines().map(|l| l.strip_prefix(indent).unwrap_or(l).to_owned() + "\n").collect();
        match (found.get(1).map(|mark| mark.as_str()), &found[3]) {
            (Some("write"), _) => {
                let first = text.lines().next().unwrap_or_default();
                let path = first.trim_start_matches("# ").split(':').next().unwrap().to_owned();
                steps.push(Step::Write { path, text });
            }
            (None, "sh" | "console") => steps.extend(split_commands(&text).into_iter().map(Step::Run)),
            _ => {}
        }
    }
    steps
}

/// The commands of a block. One goes on after a line that ends with `\` or `|`, and in an open quote.
fn split_commands(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        match commands.last_mut() {
            Some(command) if goes_on => *command += &format!("\n{line}"),
            _ if line.is_empty() || line.starts_with('#') => continue,
            _ => commands.push(line.to_owned()),
        }
        let command = commands.last().unwrap();
        let without_comment = command.split(" #").next().unwrap_or_default();
        goes_on = command.ends_with(['\\', '|']) || without_comment.matches('\'').count() % 2 == 1;
    }
    commands
}

/// Why a command cannot run here, if that is so.
fn why_not_run(page: &str, command: &str) -> Option<&'static str> {
    let row = NOT_RUN.iter().find(|(of, start, _)| *of == page && command.starts_with(start));
    row.map(|(_, _, why)| *why)
}

/// The commands of a page.
fn read_commands(page: &str) -> Vec<String> {
    let steps = read_steps(page).into_iter();
    steps
        .filter_map(|step| match step {
            Step::Run(command) => Some(command),
            Step::Write { .. } => None,
        })
        .collect()
}

#[test]
fn each_command_of_the_documentation_runs_or_is_listed_with_a_reason() {
    let tests = ["control_planes", "files"]
        .map(|name| fs::read_to_string(root().join(format!("tests/live/journeys/{name}.rs"))).unwrap())
        .concat();
    let mut pages = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.file_name().unwrap().to_str().unwrap();
                pages.push(format!("{folder}/{name}").trim_start_matches("./").to_owned());
            }
        }
    }
    for page in &pages {
        let commands = read_commands(page);
        let runs = commands.iter().find(|command| why_not_run(page, command).is_none());
        if let Some(command) = runs {
            assert!(
                tests.contains(&format!("\"{page}\"")),
                "no test in tests/live/journeys follows {page}: `{command}`; see the first lines of tests/live/journeys.rs"
            );
        }
        for (_, start, _) in NOT_RUN.iter().filter(|(of, ..)| of == page) {
            assert!(commands.iter().any(|one| one.starts_with(start)), "{page} has no command `{start}`");
        }
    }
    for (page, ..) in NOT_RUN {
        assert!(pages.iter().any(|one| one == page), "{page} does not exist");
    }
}
