//! The recorded cases: files `<dialect>/<family>.jsonl[.gz]`, a case a line; and one of them printed as the
//! files of a repo.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The files of all families below a folder, by `dialect/family`.
pub(crate) fn families(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for dialect in entries(root).into_iter().filter(|p| p.is_dir()) {
        for file in entries(&dialect) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(family) = name.strip_suffix(".jsonl").or(name.strip_suffix(".jsonl.gz")) {
                let dialect = dialect.file_name().unwrap_or_default().to_string_lossy();
                found.insert(format!("{dialect}/{family}"), file);
            }
        }
    }
    found
}

/// What is in a folder.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The cases of a family.
pub(crate) fn read(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).expect("the file was just listed");
    let mut text = String::new();
    if path.extension().is_some_and(|e| e == "gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("gzip");
    } else {
        text = String::from_utf8(bytes).expect("UTF-8");
    }
    text.lines().map(|line| serde_json::from_str(line).expect("a case is a line of JSON")).collect()
}

/// The id of a case, `dialect/family/name`.
pub(crate) fn id(case: &Value) -> &str {
    case["id"].as_str().unwrap_or_default()
}

/// The family that an id is in.
pub(crate) fn family(id: &str) -> &str {
    id.match_indices('/').nth(1).map_or(id, |(end, _)| &id[..end])
}

/// A case as YAML files: those of its repo below `repo/`, and one for everything else that was recorded
/// (`expect.yaml`, `previous.yaml`, ...), by path.
pub(crate) fn files(case: &Value) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (index, object) in case["files"].as_array().into_iter().flatten().enumerate() {
        let part = |value: &Value| value.as_str().unwrap_or("unnamed").to_lowercase();
        let (kind, name) = (part(&object["kind"]), part(&object["metadata"]["name"]));
        files.push((format!("repo/{index:03}-{kind}-{}.yaml", name.replace(['/', ':'], "-")), yaml(object)));
    }
    let rest = case.as_object().into_iter().flatten();
    for (key, value) in rest.filter(|(key, _)| !matches!(key.as_str(), "id" | "files")) {
        files.push((format!("{key}.yaml"), yaml(value)));
    }
    files
}

fn yaml(value: &Value) -> String {
    let mut text = String::new();
    federate_yaml::write_document(value, &mut text);
    text
}
