//! Documents show the output of the binary. `<!-- output: federate … -->` is followed by a fenced block with
//! the output of that command, run at the project's root. With `<!-- output: FILE: OLD → NEW; federate … -->`,
//! the examples are a git repository on its branch `main`, and OLD is replaced by NEW in FILE.
//! `UPDATE_DOCUMENTATION=1 cargo test --test documentation` updates the blocks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::fs;
use std::path::Path;
use std::process::Command;

use federate_dialect::HubKinds;

/// Folders of documents, in addition to `DOCUMENTS`.
const FOLDERS: [&str; 4] = ["docs", "docs/guides", "docs/reference", "docs/semantics"];
const DOCUMENTS: [&str; 4] =
    ["README.md", "CONTRIBUTING.md", "examples/repo/README.md", "examples/lost-region/README.md"];
const MARK: &str = "<!-- output: ";
const OPEN: &str = "\n```text\n";
const CLOSE: &str = "```\n";

/// Runs a command in a folder that contains only the examples, and returns all its output.
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

/// Creates a git repository with the examples, and changes a file in it.
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

/// The document with updated blocks, and the number of blocks.
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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every document, by its path from the root.
fn documents() -> Vec<String> {
    let mut all: Vec<String> = DOCUMENTS.map(str::to_owned).into();
    for folder in FOLDERS {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
                all.push(format!("{folder}/{name}"));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn shown_output_is_real() {
    let mut blocks = 0;
    for document in documents() {
        let path = root().join(&document);
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

/// The targets of a document's links, without those to other sites.
fn links(text: &str) -> Vec<String> {
    let prose = text.split("\n```").step_by(2).collect::<String>();
    let link = regex::Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let targets = link.captures_iter(&prose).map(|found| found[1].to_owned());
    targets.filter(|target| !target.contains("://")).collect()
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(root().join(&document)).unwrap();
        for target in links(&text) {
            let (file, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => root().join(&document),
                file => root().join(&document).parent().unwrap().join(file),
            };
            let anchors = |path: &Path| -> Vec<String> {
                let text = fs::read_to_string(path).unwrap_or_default();
                text.lines()
                    .filter(|line| line.starts_with('#'))
                    .map(|l| anchor(l.trim_start_matches('#')))
                    .collect()
            };
            if !path.exists() || (!fragment.is_empty() && !anchors(&path).iter().any(|a| a == fragment)) {
                wrong.push(format!("{document}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

/// Turns of phrase that say less than the name of the actor would.
const VAGUE_WORDS: [&str; 7] =
    ["somebody", "nobody", "is told", "are told", "comes to nothing", "come to nothing", "otherwise than"];

#[test]
fn pages_name_who_acts() {
    for document in documents() {
        let text = fs::read_to_string(root().join(&document)).unwrap().to_lowercase();
        let words: Vec<&str> =
            text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let text = format!(" {} ", words.join(" "));
        let found = VAGUE_WORDS.iter().find(|word| text.contains(&format!(" {word} ")));
        assert_eq!(found, None, "{document}");
    }
}

#[test]
fn the_book_lists_every_page() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for document in documents() {
        if let Some(page) = document.strip_prefix("docs/").filter(|page| *page != "SUMMARY.md") {
            assert!(summary.contains(&format!("({page})")), "docs/SUMMARY.md does not list {page}");
        }
    }
}

#[test]
fn every_finding_has_a_section() {
    let mut codes = std::collections::BTreeSet::new();
    let mut sources = String::new();
    // The code is the first argument of an error or a warning, or follows the severity.
    let code = regex::Regex::new(
        r#"(?:Finding::(?:error|warning)|\brefused)\(\s*"([a-z][a-z-]*)"|Severity::(?:Error|Warning),\s*"([a-z][a-z-]*)""#,
    )
    .unwrap();
    let mut folders = vec![root().join("crates"), root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                sources += &text;
                let code_only = text.split("#[cfg(test)]").next().unwrap();
                codes.extend(
                    code.captures_iter(code_only)
                        .map(|found| found.get(1).or(found.get(2)).unwrap().as_str().to_owned()),
                );
            }
        }
    }
    let page = fs::read_to_string(root().join("docs/reference/findings.md")).unwrap();
    let sections: std::collections::BTreeSet<String> =
        page.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect();
    let missing: Vec<_> = codes.difference(&sections).collect();
    assert!(missing.is_empty(), "docs/reference/findings.md has no section for {missing:?}");
    let stale: Vec<_> = sections.iter().filter(|code| !sources.contains(&format!("\"{code}\""))).collect();
    assert!(stale.is_empty(), "docs/reference/findings.md has sections for unknown codes: {stale:?}");
    assert!(codes.len() > 30, "the codes were not found in the sources");
}

/// The keys of `federate.yaml`, with their types, from the schema.
fn keys(schema: &serde_json::Value, at: &serde_json::Value, prefix: &str, rows: &mut String) {
    for (name, value) in at["properties"].as_object().into_iter().flatten() {
        let target = value["$ref"].as_str().or(value["items"]["$ref"].as_str());
        let target = target.map(|pointer| schema.pointer(pointer.trim_start_matches('#')).unwrap());
        let list = value["type"] == "array";
        let path = format!("{prefix}{name}{}", if list { "[]" } else { "" });
        let kind = match &value["type"] {
            serde_json::Value::String(kind) => kind.clone(),
            serde_json::Value::Array(kinds) => kinds[0].as_str().unwrap_or_default().to_owned(),
            _ => target
                .map_or("string", |t| if t["properties"].is_null() { "string" } else { "object" })
                .to_owned(),
        };
        let words = value["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        rows.push_str(&format!("| `{path}` | {kind} | {words} |\n"));
        if let Some(target) = target {
            keys(schema, target, &format!("{path}."), rows);
        }
    }
}

#[test]
fn the_keys_of_the_settings_are_those_of_the_schema() {
    let text = fs::read_to_string(root().join("schemas/federate.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut rows = String::new();
    keys(&schema, &schema, "", &mut rows);
    let page = format!(
        "# federate.yaml\n\nThe optional file `federate.yaml` at the root of a repo. This page is made of\n\
         [the schema](../../schemas/federate.schema.json), which editors can use for completion.\n\n\
         | key | type | meaning |\n|---|---|---|\n{rows}"
    );
    let path = root().join("docs/reference/federate-yaml.md");
    if std::env::var_os("UPDATE_DOCUMENTATION").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/reference/federate-yaml.md is out of date: UPDATE_DOCUMENTATION=1 cargo test --test documentation"
    );
}

#[test]
fn the_role_for_snapshots_grants_what_a_snapshot_lists() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/rbac/snapshot.yaml");
    let role = federate_yaml::read_stream(&fs::read(path).unwrap()).documents.remove(0).value;
    let texts = |rule: &serde_json::Value, key: &str| -> Vec<String> {
        rule[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let rules = role["rules"].as_array().unwrap();
    let granted: Vec<(Vec<String>, Vec<String>)> =
        rules.iter().map(|rule| (texts(rule, "apiGroups"), texts(rule, "resources"))).collect();
    for dialect in federate_dialects::DIALECTS.iter() {
        for HubKinds { group, kinds } in dialect.hub().hub_kinds() {
            let mut plurals: Vec<String> = kinds.iter().map(|kind| kind.to_lowercase() + "s").collect();
            if plurals.is_empty() {
                plurals.push("*".to_owned());
            }
            let rule = (vec![(*group).to_owned()], plurals);
            assert!(granted.contains(&rule), "{rule:?}");
        }
    }
}

/// The YAML blocks of a page.
fn samples(page: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let blocks = text.split("\n```yaml\n").skip(1).map(|block| block.split("\n```").next().unwrap());
    blocks
        .flat_map(|block| {
            let stream = federate_yaml::read_stream(block.as_bytes());
            assert!(stream.errors.is_empty(), "{page}: {:?} in\n{block}", stream.errors);
            stream.documents.into_iter().map(|document| document.value)
        })
        .collect()
}

#[test]
fn samples_for_other_tools_are_valid() {
    for (page, kinds) in [
        ("docs/guides/argo-cd.md", ["ApplicationSet", "Application"]),
        ("docs/guides/flux.md", ["GitRepository", "Kustomization"]),
    ] {
        let samples = samples(page);
        for kind in kinds {
            assert!(samples.iter().any(|sample| sample["kind"] == kind), "{page} has no {kind}");
        }
        for sample in &samples {
            let spec = &sample["spec"];
            let source = spec.pointer("/template/spec/source").or(spec.get("source"));
            match sample["kind"].as_str() {
                // What reads a whole branch, or folders below one, says so.
                Some("ApplicationSet" | "Application") => {
                    let source = source.unwrap();
                    // In the layout of hydrators, the folder of a cluster has one stream and no folders; artifacts have no plan.
                    let is_stream = source["targetRevision"].as_str().unwrap().starts_with("env/");
                    assert_eq!(source["directory"]["recurse"] == true, !is_stream, "{page}");
                    let is_artifact = source["repoURL"].as_str().unwrap().starts_with("oci://");
                    let whole = source["path"] == "." && !is_artifact;
                    assert_eq!(source["directory"]["exclude"] == "placements.yaml", whole, "{page}");
                    let template = spec.pointer("/template/spec").unwrap_or(spec);
                    assert!(template["destination"]["name"].is_string() && template["project"].is_string());
                }
                Some("Kustomization") => {
                    assert!(spec["path"].as_str().is_some_and(|path| path.starts_with("./")), "{page}");
                    assert_eq!(spec["sourceRef"]["name"], "rendered");
                    assert!(spec["interval"].is_string() && spec["prune"] == true);
                }
                Some("GitRepository") => {
                    let branch = spec["ref"]["branch"].as_str().unwrap();
                    assert!(branch.starts_with("rendered") && spec["url"].is_string());
                    assert_eq!(spec["ignore"].is_string(), branch.contains('/'), "{page}");
                }
                Some("OCIRepository") => {
                    assert!(
                        spec["url"].as_str().unwrap().starts_with("oci://") && spec["ref"]["tag"].is_string()
                    );
                }
                Some("PromotionStrategy") => assert!(spec["environments"][0]["branch"].is_string()),
                Some(kind) => panic!("{page}: {kind}"),
                None => {
                    let text = serde_json::to_vec(sample).unwrap();
                    let file = federate_repo::RepoFile { path: "federate.yaml".into(), bytes: text.into() };
                    assert!(federate_repo::Config::parse(&file).is_ok(), "{page}: {sample:#}");
                }
            }
        }
    }
}

#[test]
fn every_promise_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let table =
        page.split("## Promises and their tests").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let tests: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        for test in tests {
            let (file, name) = test.split_once("::").unwrap_or((test, ""));
            let text = fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"));
            assert!(name.is_empty() || text.contains(&format!("fn {name}(")), "{test} does not exist");
            named += 1;
        }
    }
    assert!(named > 30, "{named} tests are named");
}

/// The files below a folder, relative to it.
fn list_files(folder: &Path, below: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{below}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() { list_files(folder, &path, files) } else { files.push(path) }
    }
}

/// Whether a word in code font is the name of an item: `snake_case`, `TwoHumps` or `a::path`.
fn is_item_name(word: &str) -> bool {
    let is_word = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    let lower = word.chars().filter(char::is_ascii_lowercase).count();
    let humps = word.chars().filter(char::is_ascii_uppercase).count();
    is_word && lower > 0 && (word.contains("::") || word.contains('_') || humps > 1)
}

#[test]
fn what_the_architecture_names_exists() {
    let mut files = Vec::new();
    for folder in ["crates", "src", "tests"] {
        list_files(root(), folder, &mut files);
    }
    let sources = files.iter().filter(|file| Path::new(file).extension().is_some_and(|end| end == "rs"));
    let code: String = sources.map(|file| fs::read_to_string(root().join(file)).unwrap()).collect();
    let words: std::collections::HashSet<&str> = code
        .lines()
        .flat_map(|line| {
            let mut words =
                line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty());
            let kinds = ["fn", "struct", "enum", "trait", "mod", "type", "const", "static"];
            let item = words.clone().skip_while(move |word| !kinds.contains(word)).nth(1);
            // A field, a variant or a text.
            let first = words.find(|word| !["pub", "crate", "super", "in"].contains(word));
            let quoted = line.split('"').skip(1).step_by(2);
            item.into_iter().chain(first).chain(quoted)
        })
        .collect();
    let places: Vec<String> = files.iter().map(|file| format!("/{}", file.replace("/src/", "/"))).collect();
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let prose: String = text.split("```").step_by(2).collect();
    let missing: Vec<&str> = prose
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            if let Some(name) = word.rsplit("::").next().filter(|_| is_item_name(word)) {
                return !words.contains(name);
            }
            let is_path =
                word.contains('/') && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
            let path = format!("/{}", word.replace("/src/", "/"));
            let is_folder = |place: &String| place.contains(&format!("{}/", path.trim_end_matches('/')));
            is_path && !places.iter().any(|place| place.ends_with(&path) || is_folder(place))
        })
        .collect();
    assert_eq!(missing, [""; 0], "docs/architecture.md names what does not exist");
}

/// The text of a module of the drawing: `source/poll` of `federate-sync`, or `sync_api::stage`.
fn read_module(name: &str) -> String {
    let path = match name.strip_prefix("sync_api::") {
        Some(module) => format!("crates/sync-api/src/{module}.rs"),
        None => format!("crates/sync/src/{name}.rs"),
    };
    fs::read_to_string(root().join(&path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

#[test]
fn the_drawing_of_a_sync_has_calls_that_are_made() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let drawing = text.split("flowchart TD").nth(1).unwrap().split("```").next().unwrap();
    let arrow = regex::Regex::new(r#"^(\w+) -- (\w+) --> (\w+)(?:\["(.+)"\])?$"#).unwrap();
    let mut modules = std::collections::BTreeMap::from([("supervisor", "supervisor")]);
    for line in drawing.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let found = arrow.captures(line).unwrap_or_else(|| panic!("no arrow: {line}"));
        let [from, call, to] = [1, 2, 3].map(|at| found.get(at).unwrap().as_str());
        modules.entry(to).or_insert(found.get(4).map_or(to, |label| label.as_str()));
        let definition = format!("fn {call}");
        let calls = read_module(modules[from]).replace(&definition, "").contains(&format!("{call}("));
        assert!(calls, "not called: {line}");
        assert!(read_module(modules[to]).contains(&definition), "not defined: {line}");
    }
    assert!(modules.len() > 10, "{modules:?}");
}

#[test]
fn samples_for_pipelines_pin_one_release() {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    for entry in fs::read_dir(root().join("docs/ci")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let uses = line.split("uses: federate-dev/federate@").nth(1);
            assert!(uses.is_none_or(|used| used == version), "{}: {line}", path.display());
            let installs = line.contains("cargo install") && line.contains("federate-dev/federate");
            assert!(!installs || line.contains(&format!("--tag {version}")), "{}: {line}", path.display());
        }
    }
}

#[test]
fn the_first_commands_of_the_readme_work_in_a_fresh_checkout() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let commands: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("cargo "))
        .map(|line| line.split('#').next().unwrap().trim())
        .take(2)
        .collect();
    assert_eq!(
        commands,
        ["cargo run --release --locked -- render examples/repo --out out", "cargo test --locked"]
    );
}
