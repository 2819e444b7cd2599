//! The Applications of an `ApplicationSet`: the generators list, clusters, git, matrix and merge over the inventory and the files
//! of the repo.
//!
//! Facts: the API `argoproj.io/v1alpha1` and the documentation of the generators. Without `goTemplate`, `{{name}}` stands for a
//! parameter whose path is joined by dots; with it, `{{.name}}` does, and fields of nested parameters are read. Of Go's templates,
//! only fields and `index` are evaluated. A `templatePatch` is filled in as a text and merged like a strategic merge patch of a type
//! whose lists have no keys.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use federate_kubernetes::object::field_text;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Cluster, Object, work};

use crate::description::{DescriptionError, list_texts, read_map};
use crate::values::merge_maps;
use federate_file_tree::{CachedTree, EntryKind, FileTree};

/// The most Applications of all sets.
const MAX_APPLICATIONS: usize = 10_000;

/// The deepest nesting of generators, as with Argo CD.
const MAX_DEPTH: usize = 2;

/// The most work for the Applications of all sets: bytes of texts that are read or filled in, and comparisons of paths.
const MAX_WORK: usize = 64 << 20;

/// The parameters of an Application.
type Parameters = Map<String, Value>;

/// What generators read.
pub(crate) struct LocalRepo<'r> {
    pub(crate) tree: &'r CachedTree<'r>,
    pub(crate) clusters: &'r [Cluster],
    /// What all sets of the repo have taken so far.
    pub(crate) usage: &'r GenerationUsage,
}

/// What the sets of a repo have taken so far, together: of two sets, each may be small, and of a thousand, none is alone.
#[derive(Debug, Default)]
pub struct GenerationUsage {
    work: Cell<usize>,
    applications: Cell<usize>,
    /// The folders and files of the repo, listed when the first generator reads them.
    paths: OnceCell<RepoPaths>,
}

/// The address that stands for a cluster in parameters: the repo does not know the real one.
pub(crate) fn server_of(cluster: &str) -> String {
    format!("https://{cluster}.cluster.invalid")
}

/// The Applications of a set.
pub(crate) fn generate_applications(
    object: &Object,
    repo: &LocalRepo<'_>,
) -> Result<Vec<Value>, DescriptionError> {
    let spec = object.body.get("spec").unwrap_or(&Value::Null);
    let is_go = spec.get("goTemplate") == Some(&Value::Bool(true));
    let template = spec.get("template").unwrap_or(&Value::Null);
    let patch = read_patch(spec, is_go)?;
    let generation = Generation { repo, is_go };
    let mut applications = Vec::new();
    for (index, generator) in
        spec.get("generators").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let pointer = format!("/spec/generators/{index}");
        for parameters in generation.run_generator(generator, &Parameters::new(), &pointer, 0)? {
            let mut application = generation.fill_value(template, &parameters, "/spec/template")?;
            if let Some(patch) = patch {
                let patch = generation.fill_patch(patch, &parameters)?;
                work::charge_value(&patch);
                merge_patch(&mut application, patch)?;
            }
            applications.push(application);
        }
        if repo.usage.applications.get() + applications.len() > MAX_APPLICATIONS {
            return Err(DescriptionError::new(
                &pointer,
                format!("the ApplicationSets generate more than {MAX_APPLICATIONS} Applications together"),
            ));
        }
    }
    repo.usage.applications.set(repo.usage.applications.get() + applications.len());
    Ok(applications)
}

/// Where the patch of the Applications of a set is.
const PATCH_POINTER: &str = "/spec/templatePatch";

/// The text with which each Application of a set is patched, if there is one.
fn read_patch(spec: &Value, is_go: bool) -> Result<Option<&str>, DescriptionError> {
    let patch = match spec.get("templatePatch") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(patch)) => patch,
        Some(_) => return Err(DescriptionError::new(PATCH_POINTER, "it is not a text")),
    };
    if !is_go {
        let why = "Argo CD carries out `templatePatch` only with `goTemplate: true`";
        return Err(DescriptionError::new(PATCH_POINTER, why));
    }
    Ok(Some(patch))
}

/// Patches an Application: its maps are merged, its lists replaced, and `null` removes.
fn merge_patch(value: &mut Value, patch: Value) -> Result<(), DescriptionError> {
    let Value::Object(patch) = patch else {
        *value = patch;
        return Ok(());
    };
    if let Some(key) = patch.keys().find(|key| key.starts_with('$')) {
        let why = format!("federate does not carry out `{key}` in a patch");
        return Err(DescriptionError::new(PATCH_POINTER, why));
    }
    if !value.is_object() {
        *value = json!({});
    }
    let Value::Object(map) = value else { return Ok(()) };
    for (key, patch) in patch {
        if patch.is_null() {
            map.shift_remove(&key);
        } else {
            merge_patch(map.entry(key).or_insert(Value::Null), patch)?;
        }
    }
    Ok(())
}

struct Generation<'r> {
    repo: &'r LocalRepo<'r>,
    is_go: bool,
}

/// The folders and files of a repo, without those that begin with a dot.
#[derive(Debug, Default)]
struct RepoPaths {
    folders: Vec<String>,
    files: Vec<String>,
}

impl Generation<'_> {
    /// Counts work. The error says that it is too much.
    fn charge_work(&self, amount: usize, at: &str) -> Result<(), DescriptionError> {
        let done = self.repo.usage.work.get().saturating_add(amount);
        self.repo.usage.work.set(done);
        if done <= MAX_WORK {
            return Ok(());
        }
        Err(DescriptionError::new(
            at,
            "the Applications of all ApplicationSets take too much work: generate fewer, or shorter ones",
        ))
    }

    fn list_paths(&self, at: &str) -> Result<&RepoPaths, DescriptionError> {
        if let Some(paths) = self.repo.usage.paths.get() {
            return Ok(paths);
        }
        let mut paths = RepoPaths::default();
        self.walk_folder("", &mut paths, at)?;
        Ok(self.repo.usage.paths.get_or_init(|| paths))
    }

    /// The paths that the patterns at a key of a generator select.
    fn select_paths<'p>(
        &self,
        paths: &'p [String],
        generator: &Value,
        key: &str,
        at: &str,
    ) -> Result<Vec<&'p str>, DescriptionError> {
        let patterns: Vec<(bool, &str)> = generator
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|item| {
                let excludes = item.get("exclude") == Some(&Value::Bool(true));
                (excludes, field_text(item, "path").trim_start_matches("./"))
            })
            .collect();
        if patterns.iter().all(|(excludes, _)| *excludes) {
            return Ok(Vec::new());
        }
        let length: usize = patterns.iter().map(|(_, pattern)| pattern.len()).sum();
        self.charge_work(paths.len().saturating_mul(length), at)?;
        let is_meant = |path: &str, excluding: bool| {
            patterns.iter().any(|(excludes, pattern)| *excludes == excluding && matches_path(pattern, path))
        };
        let selected = paths.iter().map(String::as_str);
        Ok(selected.filter(|path| is_meant(path, false) && !is_meant(path, true)).collect())
    }

    /// The parameters that a generator gives. `outer` are those of the generator around it.
    fn run_generator(
        &self,
        generator: &Value,
        outer: &Parameters,
        pointer: &str,
        depth: usize,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        let settings = read_map(Some(generator));
        let mut kinds = settings.iter().filter(|(key, value)| *key != "selector" && !value.is_null());
        let Some((kind, value)) = kinds.next() else {
            return Err(DescriptionError::new(pointer, "the generator is empty"));
        };
        let at = format!("{pointer}/{kind}");
        if value
            .get("template")
            .is_some_and(|template| template.as_object().is_some_and(|map| !map.is_empty()))
        {
            return Err(DescriptionError::new(
                &format!("{at}/template"),
                "federate does not carry out templates of generators",
            ));
        }
        let value = if outer.is_empty() { value.clone() } else { self.fill_value(value, outer, &at)? };
        let mut all = match kind.as_str() {
            "list" => list_elements(&value, &at)?,
            "clusters" => self.list_clusters(&value, &at)?,
            "git" => self.list_git(&value, &at)?,
            "matrix" | "merge" if depth >= MAX_DEPTH => {
                return Err(DescriptionError::new(&at, "generators are nested too deep"));
            }
            "matrix" => self.combine_matrix(&value, &at, depth)?,
            "merge" => self.merge_generators(&value, &at, depth)?,
            other => {
                return Err(DescriptionError::new(
                    &at,
                    format!("federate does not carry out the generator `{other}`"),
                )
                .with_help("list, clusters, git, matrix and merge are"));
            }
        };
        if all.len() > MAX_APPLICATIONS {
            return Err(DescriptionError::new(
                &at,
                format!("it gives more than {MAX_APPLICATIONS} sets of parameters"),
            ));
        }
        if let Some(selector) = settings.get("selector").filter(|selector| !selector.is_null()) {
            let selector = read_selector(selector, &format!("{pointer}/selector"))?;
            all.retain(|parameters| selector.matches(&flatten_parameters(parameters)));
        }
        Ok(all)
    }

    fn list_clusters(&self, generator: &Value, at: &str) -> Result<Vec<Parameters>, DescriptionError> {
        let selector = generator
            .get("selector")
            .map(|selector| read_selector(selector, &format!("{at}/selector")))
            .transpose()?;
        let selected = self
            .repo
            .clusters
            .iter()
            .filter(|cluster| selector.as_ref().is_none_or(|selector| selector.matches(&cluster.labels)));
        let mut all = Vec::new();
        for cluster in selected {
            let labels: Map<String, Value> =
                cluster.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            let mut parameters = read_map(Some(&json!({
                "name": &*cluster.name, "nameNormalized": normalize_name(&cluster.name), "server": server_of(&cluster.name),
                "project": "", "metadata": {"labels": labels, "annotations": {}},
            })));
            let values = generator.get("values").cloned().unwrap_or_default();
            let values = self.fill_value(&values, &parameters, &format!("{at}/values"))?;
            parameters.insert("values".to_owned(), values);
            all.push(parameters);
        }
        Ok(all)
    }

    fn list_git(&self, generator: &Value, at: &str) -> Result<Vec<Parameters>, DescriptionError> {
        if generator.get("pathParamPrefix").is_some_and(|value| value != "") {
            return Err(DescriptionError::new(
                &format!("{at}/pathParamPrefix"),
                "federate does not carry out `pathParamPrefix`",
            ));
        }
        let mut all = Vec::new();
        let values = generator.get("values").cloned().unwrap_or_default();
        let paths = self.list_paths(at)?;
        for folder in self.select_paths(&paths.folders, generator, "directories", at)? {
            all.push(self.add_values(self.path_parameters(folder, None), &values, at)?);
        }
        for file in self.select_paths(&paths.files, generator, "files", at)? {
            let bytes = self
                .repo
                .tree
                .read_file(file)
                .map_err(|why| DescriptionError::new(at, format!("{file}: {why}")))?;
            self.charge_work(bytes.len(), at)?;
            let documents = federate_yaml::read_stream(&bytes).documents;
            let value = documents.into_iter().next().map(|document| document.value).unwrap_or_default();
            let items = match value {
                Value::Array(items) => items,
                value => vec![value],
            };
            let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
            for item in items {
                let mut parameters = read_map(Some(&item));
                parameters.extend(self.path_parameters(folder, Some(name)));
                all.push(self.add_values(parameters, &values, at)?);
            }
        }
        Ok(all)
    }

    fn add_values(
        &self,
        mut parameters: Parameters,
        values: &Value,
        at: &str,
    ) -> Result<Parameters, DescriptionError> {
        let values = self.fill_value(values, &parameters, &format!("{at}/values"))?;
        parameters.insert("values".to_owned(), values);
        Ok(parameters)
    }

    /// The parameters about a folder, and a file in it.
    fn path_parameters(&self, folder: &str, file: Option<&str>) -> Parameters {
        let base = folder.rsplit('/').next().unwrap_or_default();
        let segments: Vec<&str> = folder.split('/').collect();
        let mut path = json!({"path": folder, "basename": base, "basenameNormalized": normalize_name(base), "segments": segments});
        if let Some(file) = file {
            path["filename"] = file.into();
            path["filenameNormalized"] = normalize_name(file).into();
        }
        if self.is_go {
            return [("path".to_owned(), path)].into_iter().collect();
        }
        // Without Go's templates, `path` is a text, and what it has beside are parameters of their own.
        let mut parameters = Parameters::new();
        parameters.insert("path".to_owned(), folder.into());
        for (key, value) in
            read_map(Some(&path)).into_iter().filter(|(key, _)| key != "path" && key != "segments")
        {
            parameters.insert(format!("path.{key}"), value);
        }
        for (index, segment) in segments.iter().enumerate() {
            parameters.insert(format!("path[{index}]"), json!(segment));
        }
        parameters
    }

    fn walk_folder(&self, folder: &str, paths: &mut RepoPaths, at: &str) -> Result<(), DescriptionError> {
        let entries =
            self.repo.tree.list_folder(folder).map_err(|why| DescriptionError::new(at, why.to_string()))?;
        let mut entries: Vec<_> = entries.into_iter().filter(|entry| !entry.name.starts_with('.')).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let path = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
            match entry.kind {
                EntryKind::Folder => {
                    paths.folders.push(path.clone());
                    self.walk_folder(&path, paths, at)?;
                }
                EntryKind::File => paths.files.push(path),
                _ => {}
            }
        }
        Ok(())
    }

    fn combine_matrix(
        &self,
        matrix: &Value,
        at: &str,
        depth: usize,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        let generators =
            matrix.get("generators").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let [first, second] = generators else {
            return Err(DescriptionError::new(at, "a matrix has two generators"));
        };
        let mut all = Vec::new();
        for outer in
            self.run_generator(first, &Parameters::new(), &format!("{at}/generators/0"), depth + 1)?
        {
            let length = count_bytes(&outer);
            for inner in self.run_generator(second, &outer, &format!("{at}/generators/1"), depth + 1)? {
                self.charge_work(length + count_bytes(&inner), at)?;
                let mut joined = outer.clone();
                merge_maps(&mut joined, &inner);
                all.push(joined);
                if all.len() > MAX_APPLICATIONS {
                    return Ok(all);
                }
            }
        }
        Ok(all)
    }

    fn merge_generators(
        &self,
        merge: &Value,
        at: &str,
        depth: usize,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        let keys = list_texts(merge.get("mergeKeys"));
        let generators =
            merge.get("generators").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let Some((first, others)) = generators.split_first().filter(|_| !keys.is_empty()) else {
            return Err(DescriptionError::new(at, "a merge has generators and `mergeKeys`"));
        };
        let key_of = |parameters: &Parameters| -> Vec<Option<String>> {
            let flat = flatten_parameters(parameters);
            keys.iter().map(|key| flat.get(key).cloned()).collect()
        };
        let mut all =
            self.run_generator(first, &Parameters::new(), &format!("{at}/generators/0"), depth + 1)?;
        for (index, generator) in others.iter().enumerate() {
            let pointer = format!("{at}/generators/{}", index + 1);
            let over: BTreeMap<Vec<Option<String>>, Parameters> = self
                .run_generator(generator, &Parameters::new(), &pointer, depth + 1)?
                .into_iter()
                .map(|parameters| (key_of(&parameters), parameters))
                .collect();
            for parameters in &mut all {
                self.charge_work(count_bytes(parameters), at)?;
                if let Some(over) = over.get(&key_of(parameters)) {
                    merge_maps(parameters, over);
                }
            }
        }
        Ok(all)
    }

    /// A value in whose texts parameters are filled in.
    /// The patch of an Application: YAML after its parameters are filled in.
    fn fill_patch(&self, patch: &str, parameters: &Parameters) -> Result<Value, DescriptionError> {
        let text = self.fill_value(&Value::from(patch), parameters, PATCH_POINTER)?;
        let mut stream = federate_yaml::read_stream(text.as_str().unwrap_or_default().as_bytes());
        if let Some(error) = stream.errors.first() {
            return Err(DescriptionError::new(PATCH_POINTER, format!("it is not YAML: {error}")));
        }
        match stream.documents.pop().map(|document| document.value) {
            None => Ok(json!({})),
            Some(patch) if patch.is_object() => Ok(patch),
            Some(_) => Err(DescriptionError::new(PATCH_POINTER, "it is not a map")),
        }
    }

    fn fill_value(
        &self,
        value: &Value,
        parameters: &Parameters,
        at: &str,
    ) -> Result<Value, DescriptionError> {
        let flat = if self.is_go { BTreeMap::new() } else { flatten_parameters(parameters) };
        self.charge_work(flat.iter().map(|(key, value)| key.len() + value.len()).sum(), at)?;
        Filling { generation: self, parameters, flat }.fill_value(value, at)
    }
}

/// Parameters that are filled in.
struct Filling<'f> {
    generation: &'f Generation<'f>,
    parameters: &'f Parameters,
    /// Those without Go's templates, by their paths.
    flat: BTreeMap<String, String>,
}

impl Filling<'_> {
    fn fill_value(&self, value: &Value, at: &str) -> Result<Value, DescriptionError> {
        Ok(match value {
            Value::String(text) => self.fill_text(text, at)?.into(),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.fill_value(item, at));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let fields = map.iter().map(|(key, value)| {
                    Ok((self.fill_text(key, at)?, self.fill_value(value, &format!("{at}/{key}"))?))
                });
                Value::Object(fields.collect::<Result<_, DescriptionError>>()?)
            }
            other => other.clone(),
        })
    }

    fn fill_text(&self, text: &str, at: &str) -> Result<String, DescriptionError> {
        self.generation.charge_work(1 + text.len(), at)?;
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            let Some((inner, remaining)) = after.split_once("}}") else {
                return Err(DescriptionError::new(at, format!("`{text}` has no `}}}}`")));
            };
            let expression = inner.trim();
            let value = if self.generation.is_go {
                Some(evaluate_go(expression, self.parameters).ok_or_else(|| {
                    DescriptionError::new(at, format!("federate does not evaluate `{{{{{expression}}}}}`"))
                })?)
            } else {
                self.flat.get(expression).cloned()
            };
            // Argo CD leaves what it does not know.
            let value = value.unwrap_or_else(|| format!("{{{{{inner}}}}}"));
            self.generation.charge_work(value.len(), at)?;
            out.push_str(&value);
            rest = remaining;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The elements of the generator `list`.
fn list_elements(list: &Value, at: &str) -> Result<Vec<Parameters>, DescriptionError> {
    if list.get("elementsYaml").is_some_and(|value| value != "") {
        return Err(DescriptionError::new(
            &format!("{at}/elementsYaml"),
            "federate does not carry out `elementsYaml`",
        ));
    }
    let elements = list.get("elements").and_then(Value::as_array).into_iter().flatten();
    Ok(elements.map(|element| read_map(Some(element))).collect())
}

/// The value of an expression of Go's templates that is a field, or an index of one.
fn evaluate_go(expression: &str, parameters: &Parameters) -> Option<String> {
    let value = match expression.strip_prefix("index ") {
        Some(rest) => {
            let mut words = rest.split_whitespace();
            let first = find_field(parameters, words.next()?)?;
            words.try_fold(first, |value, word| {
                match word.strip_prefix('"').and_then(|word| word.strip_suffix('"')) {
                    Some(key) => value.get(key),
                    None => value.get(word.parse::<usize>().ok()?),
                }
            })?
        }
        None => find_field(parameters, expression)?,
    };
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

fn find_field<'v>(parameters: &'v Parameters, path: &str) -> Option<&'v Value> {
    let mut keys = path.strip_prefix('.')?.split('.');
    let first = parameters.get(keys.next().filter(|key| !key.is_empty())?)?;
    keys.try_fold(first, |value, key| value.get(key).filter(|_| !key.is_empty()))
}

/// About how many bytes parameters take.
fn count_bytes(parameters: &Parameters) -> usize {
    parameters.iter().map(|(key, value)| key.len() + count_value_bytes(value)).sum()
}

fn count_value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => 16 + text.len(),
        Value::Array(items) => 16 + items.iter().map(count_value_bytes).sum::<usize>(),
        Value::Object(map) => 16 + count_bytes(map),
        _ => 16,
    }
}

/// The parameters as texts, by their paths.
fn flatten_parameters(parameters: &Parameters) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    let mut open: Vec<(String, &Value)> =
        parameters.iter().map(|(key, value)| (key.clone(), value)).collect();
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(map) => {
                open.extend(map.iter().map(|(key, value)| (format!("{path}.{key}"), value)));
            }
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(at, item)| (format!("{path}[{at}]"), item)));
            }
            Value::String(text) => drop(flat.insert(path, text.clone())),
            Value::Null => {}
            other => drop(flat.insert(path, other.to_string())),
        }
    }
    flat
}

/// A name as a part of a host name.
fn normalize_name(name: &str) -> String {
    let name = name.to_lowercase();
    let safe: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' })
        .collect();
    safe.chars().take(253).collect::<String>().trim_matches(['-', '.']).to_owned()
}

fn read_selector(value: &Value, at: &str) -> Result<LabelSelector, DescriptionError> {
    serde_json::from_value(value.clone())
        .map_err(|error| DescriptionError::new(at, format!("invalid selector: {error}")))
}

/// Whether a path matches a glob, in which `*` stands for a part of a name and `**` for any folders.
fn matches_path(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    let (mut part, mut name) = (0, 0);
    // After the last `**`, with the name from which what follows it was tried.
    let mut again: Option<(usize, usize)> = None;
    while let Some(own) = path.get(name) {
        match pattern.get(part) {
            Some(&"**") => {
                part += 1;
                again = Some((part, name));
            }
            Some(piece) if crate::values::matches_part(piece, own) => {
                part += 1;
                name += 1;
            }
            _ => {
                let Some((after, from)) = again else { return false };
                (part, name) = (after, from + 1);
                again = Some((after, from + 1));
            }
        }
    }
    pattern.iter().skip(part).all(|piece| *piece == "**")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_indices_are_evaluated() {
        let parameters = read_map(Some(
            &json!({"name": "m1", "metadata": {"labels": {"a/b": "x", "env": "prod"}}, "path": {"segments": ["a", "b"]}}),
        ));
        for (expression, expected) in [
            (".name", Some("m1")),
            (".metadata.labels.env", Some("prod")),
            ("index .metadata.labels \"a/b\"", Some("x")),
            ("index .path.segments 1", Some("b")),
            (".name | upper", None),
            (".none", None),
        ] {
            assert_eq!(evaluate_go(expression, &parameters).as_deref(), expected, "{expression}");
        }
        let flat = flatten_parameters(&parameters);
        assert_eq!(flat.get("metadata.labels.env").map(String::as_str), Some("prod"));
    }

    #[test]
    fn globs_match_paths() {
        for (pattern, path, expected) in [
            ("apps/*", "apps/web", true),
            ("apps/*", "apps/web/x", false),
            ("apps/**/config.json", "apps/a/b/config.json", true),
            ("**/config.json", "config.json", true),
            ("apps/*-x", "apps/a-x", true),
            ("a/**", "a/b/c", true),
            ("**/b/**/d", "a/b/c/b/x", false),
            ("**/b/*", "b/a/b/c", true),
        ] {
            assert_eq!(matches_path(pattern, path), expected, "{pattern} {path}");
        }
    }
}
