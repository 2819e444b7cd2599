//! Workflows that we ship, write or recommend name runners that exist, and actions that run there. `tests/workflows/runners.yaml` and
//! `actions.yaml` are what is known of both. No clock plays a part: what a date says is noted there as a status.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde_json::Value;

#[path = "../benches/shared/ratios.rs"]
mod ratios;

/// A text with the steps of a workflow, and where it is from.
struct Workflow {
    place: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read_yaml(path: &str) -> Value {
    parse(&fs::read_to_string(root().join(path)).unwrap())
}

fn parse(text: &str) -> Value {
    let mut documents = federate_yaml::read_stream(text.as_bytes()).documents;
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0).value
}

fn text_at<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no `{key}` in {value}"))
}

/// The files below a folder, except hidden ones.
fn list_files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            list_files(&path, found);
        } else {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}

/// Every workflow and action of the repository, the samples, the blocks of documents, and what `federate init` writes.
fn find_workflows() -> Vec<Workflow> {
    let mut paths = vec!["action.yml".to_owned(), "README.md".to_owned()];
    for folder in [".github", "docs", "examples"] {
        list_files(Path::new(folder), &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        let extension = Path::new(&path).extension().and_then(|extension| extension.to_str());
        match extension {
            Some("yml" | "yaml") => found.push(Workflow { place: path, text }),
            Some("md") => {
                let blocks =
                    text.split("\n```yaml\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
                found.extend(blocks.map(|text| Workflow { place: path.clone(), text: text.to_owned() }));
            }
            _ => {}
        }
    }
    let is_workflow = Regex::new(r"(?m)^ *(- )?(uses|runs-on):").unwrap();
    found.retain(|workflow| is_workflow.is_match(&workflow.text));
    found.push(written_by_init());
    found
}

fn written_by_init() -> Workflow {
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(command.status().unwrap().success(), "{program} {arguments:?}");
    };
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n";
    fs::write(folder.path().join("a.yaml"), object).unwrap();
    run("git", &["init", "-q", "-b", "main"]);
    run(env!("CARGO_BIN_EXE_federate"), &["init", ".", "--ci", "github", "--cluster", "m1"]);
    let text = fs::read_to_string(folder.path().join(".github/workflows/federate.yml")).unwrap();
    Workflow { place: "what `federate init` writes".to_owned(), text }
}

/// Each mapping in a value.
fn visit_mappings(value: &Value, visit: &mut impl FnMut(&Value)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit_mappings(item, visit)),
        Value::Object(map) => {
            visit(value);
            map.values().for_each(|child| visit_mappings(child, visit));
        }
        _ => {}
    }
}

/// The labels of a job, with the values of its matrix; or the text that is not understood.
fn runner_labels(job: &Value) -> Result<BTreeSet<String>, String> {
    let named = match &job["runs-on"] {
        Value::Object(group) => group.get("labels").cloned().unwrap_or_default(),
        other => other.clone(),
    };
    let texts = match named {
        Value::Array(texts) => texts,
        text => vec![text],
    };
    let of_matrix = Regex::new(r"^\$\{\{ *matrix\.([\w-]+) *\}\}$").unwrap();
    let mut labels = BTreeSet::new();
    for text in texts {
        let text = text.as_str().ok_or_else(|| job["runs-on"].to_string())?;
        let Some(key) = of_matrix.captures(text).map(|found| found[1].to_owned()) else {
            if text.contains("${{") {
                return Err(text.to_owned());
            }
            labels.insert(text.to_owned());
            continue;
        };
        let matrix = &job["strategy"]["matrix"];
        let listed = matrix[&key].as_array().into_iter().flatten();
        let included = matrix["include"].as_array().into_iter().flatten().filter_map(|leg| leg.get(&key));
        let values: Option<Vec<String>> =
            listed.chain(included).map(|value| value.as_str().map(str::to_owned)).collect();
        labels.extend(values.filter(|values| !values.is_empty()).ok_or_else(|| text.to_owned())?);
    }
    Ok(labels)
}

/// The jobs' runners in a workflow that are not in the list, or no longer.
fn check_runners(workflow: &Workflow, runners: &Value, used: &mut BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let place = &workflow.place;
    visit_mappings(&parse(&workflow.text), &mut |job| {
        if job.get("runs-on").is_none() {
            return;
        }
        match runner_labels(job) {
            Err(text) => wrong.push(format!("{place}: the runner `{text}` is not understood")),
            Ok(labels) => {
                for label in labels {
                    let entry =
                        runners["runners"].as_array().unwrap().iter().find(|one| one["label"] == *label);
                    match entry.map(|entry| text_at(entry, "status")) {
                        None => wrong.push(format!("{place}: the runner `{label}` is not in the list")),
                        Some("available") => drop(used.insert(label)),
                        Some(_) => wrong.push(format!("{place}: GitHub has withdrawn the runner `{label}`")),
                    }
                }
            }
        }
    });
    wrong
}

/// The actions of others in a workflow that are not in the table with this commit and version, or run on what runners no longer have.
fn check_actions(workflow: &Workflow, table: &Value, used: &mut BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let place = &workflow.place;
    visit_mappings(&parse(&workflow.text), &mut |step| {
        let Some(uses) = step.get("uses").and_then(Value::as_str) else { return };
        if uses.starts_with("./") || uses.starts_with("federate-dev/federate@") {
            return;
        }
        let (action, commit) = uses.split_once('@').unwrap_or((uses, ""));
        let entries = table["actions"].as_array().unwrap();
        let Some(entry) = entries.iter().find(|one| one["action"] == *action && one["commit"] == *commit)
        else {
            wrong.push(format!("{place}: `{uses}` is not in the table"));
            return;
        };
        let version = text_at(entry, "version");
        if !workflow.text.lines().any(|line| line.trim_end().ends_with(&format!("uses: {uses} # {version}")))
        {
            wrong.push(format!("{place}: `{uses}` is not followed by `# {version}`"));
        }
        let runtimes = table["runtimes"].as_array().unwrap();
        let runtime = runtimes.iter().find(|one| one["name"] == entry["runtime"]);
        if runtime.map(|runtime| text_at(runtime, "status")) != Some("available") {
            wrong.push(format!("{place}: `{uses}` runs on {}, which runners do not have", entry["runtime"]));
        }
        used.insert(format!("{action}@{commit}"));
    });
    wrong
}

#[test]
fn workflows_name_runners_that_exist() {
    let runners = read_yaml("tests/workflows/runners.yaml");
    let day = Regex::new(r"^20\d\d-\d\d(-\d\d)?$").unwrap();
    for entry in runners["runners"].as_array().unwrap() {
        let ends = text_at(entry, "ends");
        let dated = match text_at(entry, "status") {
            "available" => {
                day.is_match(text_at(entry, "listed")) && (day.is_match(ends) || ends == "none announced")
            }
            "withdrawn" => day.is_match(ends),
            _ => false,
        };
        assert!(dated, "{entry}");
    }
    let workflows = find_workflows();
    let mut used = BTreeSet::new();
    let wrong: Vec<String> =
        workflows.iter().flat_map(|workflow| check_runners(workflow, &runners, &mut used)).collect();
    assert_eq!(wrong, Vec::<String>::new());
    // Those of the release, of the samples, and of what is written are among them.
    for label in ["macos-15-intel", "ubuntu-24.04-arm", "ubuntu-latest"] {
        assert!(used.contains(label), "{label} is not found");
    }
}

#[test]
fn workflows_use_actions_that_runners_can_run() {
    let table = read_yaml("tests/workflows/actions.yaml");
    let pin = Regex::new("^[0-9a-f]{40}$").unwrap();
    let workflows = find_workflows();
    let mut used = BTreeSet::new();
    let wrong: Vec<String> =
        workflows.iter().flat_map(|workflow| check_actions(workflow, &table, &mut used)).collect();
    assert_eq!(wrong, Vec::<String>::new());
    for entry in table["actions"].as_array().unwrap() {
        let commit = text_at(entry, "commit");
        assert!(pin.is_match(commit), "{entry}");
        let name = format!("{}@{commit}", text_at(entry, "action"));
        assert!(used.contains(&name), "nothing uses {name}: remove it from the table");
    }
    let places: BTreeSet<&str> = workflows.iter().map(|workflow| &*workflow.place).collect();
    let guide = "docs/guides/preview-a-pull-request.md";
    let samples = "docs/ci/github-nightly-snapshot.yml";
    for place in ["action.yml", ".github/workflows/release.yml", ".github/workflows/ci.yml", guide, samples] {
        assert!(places.contains(place), "{place} is not found");
    }
}

#[test]
fn what_has_ended_is_noticed() {
    let runners = read_yaml("tests/workflows/runners.yaml");
    for (job, said) in [
        ("runs-on: macos-13", "has withdrawn the runner `macos-13`"),
        ("runs-on: [macos-14]", "has withdrawn the runner `macos-14`"),
        ("runs-on: {labels: macos-14}", "has withdrawn the runner `macos-14`"),
        (
            "strategy: {matrix: {os: [ubuntu-latest, ubuntu-20.04]}}, runs-on: '${{ matrix.os }}'",
            "`ubuntu-20.04`",
        ),
        (
            "strategy: {matrix: {include: [{r: macos-15}, {r: macos-14}]}}, runs-on: '${{matrix.r}}'",
            "`macos-14`",
        ),
        ("runs-on: macos-99", "`macos-99` is not in the list"),
        ("runs-on: '${{ matrix.os }}'", "is not understood"),
        ("runs-on: \"${{ inputs.runner || 'macos-15' }}\"", "is not understood"),
    ] {
        let workflow = Workflow { place: "w".to_owned(), text: format!("jobs: {{a: {{{job}}}}}\n") };
        let wrong = check_runners(&workflow, &runners, &mut BTreeSet::new());
        assert!(wrong.len() == 1 && wrong[0].contains(said), "{job}: {wrong:?}");
    }
    let table = parse(
        "runtimes: [{name: node24, status: available}, {name: node20, status: withdrawn}]\nactions:\n\
         - {action: a/old, version: v1.0.0, commit: aaaa, runtime: node20}\n\
         - {action: a/new, version: v2.0.0, commit: bbbb, runtime: node24}\n",
    );
    for (uses, said) in [
        ("a/new@bbbb # v2.0.0", None),
        ("a/new@bbbb # v2.0.1", Some("is not followed by")),
        ("a/new@bbbb", Some("is not followed by")),
        ("a/new@v2 # v2.0.0", Some("is not in the table")),
        ("a/other@bbbb # v2.0.0", Some("is not in the table")),
        ("a/old@aaaa # v1.0.0", Some("runners do not have")),
    ] {
        let workflow = Workflow { place: "w".to_owned(), text: format!("steps:\n- uses: {uses}\n") };
        let wrong = check_actions(&workflow, &table, &mut BTreeSet::new());
        assert_eq!(wrong.len(), usize::from(said.is_some()), "{uses}: {wrong:?}");
        assert!(said.is_none_or(|said| wrong[0].contains(said)), "{uses}: {wrong:?}");
    }
}

/// The release workflow builds for every target, runs every week, and needs no leg to end.
#[test]
fn a_leg_that_cannot_run_holds_back_no_release() {
    let text = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let workflow = parse(&text);
    let jobs = &workflow["jobs"];
    let legs = jobs["binary"]["strategy"]["matrix"]["include"].as_array().unwrap().iter();
    let legs: BTreeSet<&str> = legs.map(|leg| text_at(leg, "target")).collect();
    let targets = fs::read_to_string(root().join("deploy/release/targets")).unwrap();
    assert_eq!(legs, targets.lines().collect());
    let installed = fs::read_to_string(root().join("action/lib/install.sh")).unwrap();
    for target in &legs {
        assert!(installed.contains(&format!("echo {target} ;;")), "the action does not install {target}");
    }
    assert_eq!((&jobs["release"]["needs"], &jobs["release"]["if"]), (&Value::Null, &Value::Null));
    assert!(
        text.contains("xargs deploy/release/wait.sh <deploy/release/targets"),
        "the release waits for no leg"
    );
    // A weekly run publishes nothing.
    assert!(text.contains("\n  schedule:\n    - cron: "), "there is no weekly run");
    let mut publishing = 0;
    visit_mappings(jobs, &mut |step| {
        let run = step.get("run").and_then(Value::as_str).unwrap_or_default();
        let uses = step.get("uses").and_then(Value::as_str).unwrap_or_default();
        let publishes =
            ["docker push", "imagetools create", "gh release create"].iter().any(|part| run.contains(part));
        if publishes || uses.starts_with("actions/attest@") {
            publishing += 1;
            assert!(text_at(step, "if").starts_with("github.ref_type == 'tag'"), "{step}");
        }
    });
    assert_eq!(publishing, 5, "steps that publish");
}

/// What `cargo bench --bench guard` fails at: a row beyond 1.3 times what is kept, and rows that are on one side only.
#[test]
fn a_command_that_takes_1_3_times_as_long_fails_the_guard() {
    let ratios =
        |rows: &[(&str, f64)]| rows.iter().map(|(name, ratio)| ((*name).to_owned(), *ratio)).collect();
    let kept: ratios::Ratios = ratios(&[("plan", 2.0), ("check", 4.0)]);
    assert_eq!(ratios::find_excesses(&kept, &ratios(&[("plan", 2.6), ("check", 1.0)])), Vec::<String>::new());
    let slower = ratios::find_excesses(&kept, &ratios(&[("plan", 2.7), ("check", 4.0)]));
    assert_eq!(slower, ["plan: before 2.00, now 2.70, 1.35 times as much"]);
    let others = ratios::find_excesses(&kept, &ratios(&[("plan", 2.0), ("diff", 1.0)]));
    assert_eq!(others.len(), 2, "{others:?}");
    assert!(
        others[0].starts_with("check: a ratio is kept") && others[1].starts_with("diff: no ratio is kept")
    );
}

/// The file of kept ratios is read as it is written.
#[test]
fn kept_ratios_are_read_as_they_are_written() {
    let text = "{\n  \"check\": 4.00,\n  \"diff of one template\": 2.35\n}\n";
    assert_eq!(ratios::write_ratios(&ratios::read_ratios(text)), text);
}
