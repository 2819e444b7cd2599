//! Where in the repo a built object comes from: what kustomize's origin annotations and Helm's comments say, and the line of
//! the object in that file.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use federate_kubernetes::sops::is_encrypted;
use federate_kubernetes::{Object, Origin};
use serde_json::Value;

use super::{RenamedObject, is_as_written};
use crate::RepoFiles;
use crate::build::{BuildJob, BuildOutput, is_packaged_chart};
use federate_file_tree::normalize_path;

/// kustomize's annotation with the origin of an object.
const ORIGIN_ANNOTATION: &str = "config.kubernetes.io/origin";

/// The start of the comment with which Helm names the file of an object.
const SOURCE_COMMENT_PREFIX: &str = "# Source: ";

/// Stands for a document that a file does not have, so that no position is searched in it.
const NO_DOCUMENT: u32 = u32::MAX;

/// The most names with which the objects of a build are compared, to find those that are in theirs. Objects behind that have the
/// place of their file.
const MAX_NAME_COMPARISONS: usize = 4_000_000;

/// The objects of a file by their names.
type ObjectsByName<'f> = BTreeMap<&'f str, &'f Object>;

/// The lines of a template, by the kind that they name.
type KindLines = BTreeMap<String, Vec<u32>>;

/// Finds the places of built objects.
pub(super) struct OriginFinder<'f> {
    files: &'f RepoFiles,
    /// The objects of each file, by group and kind.
    objects: BTreeMap<&'f str, BTreeMap<(&'f str, &'f str), ObjectsByName<'f>>>,
    /// What was read of templates, each once.
    templates: Mutex<BTreeMap<Arc<str>, Arc<KindLines>>>,
}

impl<'f> OriginFinder<'f> {
    pub(super) fn new(files: &'f RepoFiles) -> Self {
        let mut objects: BTreeMap<&str, BTreeMap<(&str, &str), ObjectsByName<'_>>> = BTreeMap::new();
        for object in files.written_objects() {
            let of_file = objects.entry(&object.origin.file).or_default();
            let of_kind = of_file.entry((object.id.group(), &object.id.kind)).or_default();
            of_kind.insert(&object.id.name, object);
        }
        Self { files, objects, templates: Mutex::default() }
    }

    /// Replaces the places in an output by those in the repo. Returns the objects whose names are not as they are written.
    pub(super) fn locate_objects(
        &self,
        job: &BuildJob,
        output: &BuildOutput,
        objects: &mut [Object],
    ) -> Vec<RenamedObject> {
        match job {
            BuildJob::Kustomization(job) => {
                let mut comparisons = MAX_NAME_COMPARISONS;
                return objects
                    .iter_mut()
                    .filter_map(|object| {
                        self.locate_resource(&job.folder, object, output.keeps_origins, &mut comparisons)
                    })
                    .collect();
            }
            BuildJob::Chart(chart) => {
                let text = String::from_utf8_lossy(&output.text);
                let sources = list_sources(&text);
                let mut seen: BTreeMap<(Arc<str>, String), usize> = BTreeMap::new();
                for object in objects {
                    let line = object.origin.line;
                    let at = sources.partition_point(|(at, _)| *at <= line);
                    let source = at.checked_sub(1).and_then(|at| sources.get(at));
                    let file = source.map_or(&*chart.path, |(_, source)| source);
                    let file = resolve_template(&chart.path, file);
                    let count = seen.entry((file.clone(), object.id.kind.clone())).or_default();
                    let line = self.find_kind(&file, &object.id.kind, *count);
                    *count += 1;
                    object.origin = Origin { file, document: NO_DOCUMENT, item: None, line };
                }
            }
        }
        Vec::new()
    }

    /// The line of a template with a kind, or 1 if the file does not show it.
    fn find_kind(&self, file: &str, kind: &str, occurrence: usize) -> u32 {
        let lines = self.read_kinds(file);
        let lines = lines.get(kind).map(Vec::as_slice).unwrap_or_default();
        lines.get(occurrence).or(lines.last()).copied().unwrap_or(1)
    }

    /// The lines of a template that name kinds.
    fn read_kinds(&self, file: &str) -> Arc<KindLines> {
        let mut templates = self.templates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = templates.get(file) {
            return known.clone();
        }
        let text = self.files.texts.get(file).map(|text| String::from_utf8_lossy(text)).unwrap_or_default();
        let mut lines = KindLines::new();
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(kind) = line.strip_prefix("kind:") {
                lines.entry(kind.trim().to_owned()).or_default().push(number);
            }
        }
        let lines = Arc::new(lines);
        templates.insert(file.into(), lines.clone());
        lines
    }

    fn locate_resource(
        &self,
        folder: &str,
        object: &mut Object,
        keeps_origin: bool,
        comparisons: &mut usize,
    ) -> Option<RenamedObject> {
        let annotation = match object.annotation(ORIGIN_ANNOTATION).map(str::to_owned) {
            kept if keeps_origin => kept,
            _ => take_annotation(object, ORIGIN_ANNOTATION),
        };
        let origin = annotation.and_then(|text| federate_yaml::read_stream(text.as_bytes()).documents.pop());
        let origin = origin.map(|document| document.value).unwrap_or_default();
        let path = ["path", "configuredIn"].into_iter().find_map(|key| origin.get(key)?.as_str());
        let path = path.unwrap_or("kustomization.yaml");
        let file = normalize_path(&format!("{folder}/{path}")).unwrap_or_else(|_| folder.to_owned());
        let file: Arc<str> = file.trim_start_matches('/').into();
        let own = self.objects.get(&*file);
        let own = own.and_then(|own| own.get(&(object.id.group(), object.id.kind.as_str())));
        let written = own.and_then(|own| find_longest_name(own, &object.id.name, comparisons));
        if let Some(written) = written.filter(|_| is_encrypted(&object.body)) {
            order_fields(&mut object.body, &written.body);
        }
        object.origin = match written {
            Some(written) if is_as_written(object, written) => written.origin.clone(),
            _ => Origin { file, document: NO_DOCUMENT, item: None, line: 1 },
        };
        let name = match written {
            Some(written) => Some(written.id.name.clone()),
            None => without_hash(&object.id.name),
        };
        let written = name.filter(|name| *name != object.id.name)?;
        Some(RenamedObject { kind: object.id.kind.clone(), written, built: object.id.name.clone() })
    }
}

/// The object with the longest name that is in a built name. The names that start with the same text are next to each other, so that
/// few of them are compared, however many there are.
fn find_longest_name<'f>(
    objects: &ObjectsByName<'f>,
    built: &str,
    comparisons: &mut usize,
) -> Option<&'f Object> {
    if let Some(same) = objects.get(built) {
        return Some(same);
    }
    let mut longest: Option<(usize, &'f Object)> = None;
    for (start, _) in built.char_indices() {
        let mut text = built.get(start..)?;
        // A name that `text` starts with is at most as great as `text`, and so is every name between them.
        while longest.is_none_or(|(length, _)| length < text.len()) {
            *comparisons = comparisons.checked_sub(1)?;
            let below = (Bound::Unbounded, Bound::Included(text));
            let Some((name, object)) = objects.range::<str, _>(below).next_back() else { break };
            let common = text.char_indices().zip(name.chars()).find(|((_, a), b)| a != b);
            let common = common.map_or(name.len().min(text.len()), |((at, _), _)| at);
            if common == name.len() {
                longest = longest.filter(|(length, _)| *length >= common).or(Some((common, *object)));
                break;
            }
            text = text.get(..common)?;
        }
    }
    longest.map(|(_, object)| object)
}

/// Brings the fields of a value into the order of another: the MAC of SOPS covers values in their order, and kustomize sorts them.
fn order_fields(value: &mut Value, written: &Value) {
    match (value, written) {
        (Value::Object(map), Value::Object(written)) => {
            let mut rest = std::mem::take(map);
            for (key, own) in written {
                if let Some(mut value) = rest.shift_remove(key) {
                    order_fields(&mut value, own);
                    map.insert(key.clone(), value);
                }
            }
            map.extend(rest);
        }
        (Value::Array(items), Value::Array(written)) => {
            items.iter_mut().zip(written).for_each(|(item, own)| order_fields(item, own));
        }
        _ => {}
    }
}

/// The lines of the output of Helm that name files, with the files.
fn list_sources(text: &str) -> Vec<(u32, &str)> {
    (1..)
        .zip(text.lines())
        .filter_map(|(line, text)| Some((line, text.strip_prefix(SOURCE_COMMENT_PREFIX)?.trim())))
        .collect()
}

/// The file of the repo of a template of a chart, whose path starts with the name of the chart.
fn resolve_template(chart: &str, source: &str) -> Arc<str> {
    if is_packaged_chart(chart) {
        return chart.into();
    }
    match source.split_once('/') {
        Some((_, below)) if source != chart && chart.is_empty() => below.into(),
        Some((_, below)) if source != chart => format!("{chart}/{below}").into(),
        _ => chart.into(),
    }
}

/// The name of a generated object without the hash of its content; `None` if it does not end in one.
fn without_hash(name: &str) -> Option<String> {
    let (start, hash) = name.rsplit_once('-')?;
    let is_hash = hash.len() == 10 && hash.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    is_hash.then(|| start.to_owned())
}

/// Removes an annotation, and the annotations if there are no others.
fn take_annotation(object: &mut Object, key: &str) -> Option<String> {
    let metadata = object.body.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let value = annotations.shift_remove(key)?;
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_longest_name_in_a_built_one_is_found() {
        let names = ["", "a", "web", "web-api", "eb", "api", "web-z", "über"];
        let objects: Vec<Object> =
            names.iter().map(|name| Object::from_path("v1", "ConfigMap", name, json!({}))).collect();
        let by_name: ObjectsByName<'_> =
            objects.iter().map(|object| (object.id.name.as_str(), object)).collect();
        for built in
            ["dev-web-api-1", "web", "dev-web-ap", "eb-b", "xapi", "zzz", "x-über-web", "webaweb-apiz", ""]
        {
            let mut comparisons = MAX_NAME_COMPARISONS;
            let found =
                find_longest_name(&by_name, built, &mut comparisons).map(|object| object.id.name.len());
            let expected = names.iter().filter(|name| built.contains(**name)).map(|name| name.len()).max();
            assert_eq!(found, expected, "{built}");
        }
        assert!(find_longest_name(&by_name, "dev-web", &mut 0).is_none());
    }
}
