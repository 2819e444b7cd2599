//! Runs generators: which kinds an item has, what they give, and what a selector after them leaves.
//!
//! Facts: two kinds in one item both run; a child of a matrix or merge must have exactly one. In the second child of a matrix, all
//! texts but its selector are filled with the parameters of the first before it runs.

use serde_json::{Map, Value};

use federate_kubernetes::Object;

use super::parameters::{
    Parameter, Parameters, count_bytes, count_flat_bytes, count_flat_value, flatten_parameters,
    flatten_value, read_parameters,
};
use super::repo_paths::read_first_document;
use super::selector::RowSelector;
use super::template::{SetTemplateEngine, TemplateFiller};
use super::usage::MAX_APPLICATIONS;
use crate::argocd::clusters::{ArgoCluster, LOCAL_NAME, LOCAL_SERVER};
use crate::argocd::reader::ArgoReader;
use crate::description::DescriptionError;

/// The deepest nesting of generators, as with Argo CD.
const MAX_DEPTH: usize = 2;

/// The kinds of generators that federate carries out, in the order in which those of one item run, and those that ask servers.
const KINDS: [&str; 6] = ["list", "clusters", "git", "clusterDecisionResource", "matrix", "merge"];
const SERVER_KINDS: [&str; 3] = ["scmProvider", "pullRequest", "plugin"];

/// The fields of generators. Those of `requeueAfterSeconds` and `revision` change nothing here: the repo is read as it is.
const FIELDS: [(&str, &[&str]); 6] = [
    ("list", &["elements", "elementsYaml", "template"]),
    ("clusters", &["selector", "values", "flatList", "template"]),
    (
        "git",
        &[
            "repoURL",
            "revision",
            "directories",
            "files",
            "requeueAfterSeconds",
            "template",
            "pathParamPrefix",
            "values",
        ],
    ),
    (
        "clusterDecisionResource",
        &["configMapRef", "name", "labelSelector", "requeueAfterSeconds", "template", "values"],
    ),
    ("matrix", &["generators", "template"]),
    ("merge", &["generators", "mergeKeys", "template"]),
];

/// The run of the generators of a set.
pub(super) struct Generation<'r> {
    pub(super) reader: &'r ArgoReader<'r>,
    pub(super) set: &'r Object,
    pub(super) engine: SetTemplateEngine,
}

/// The parameters that a kind of generator gives, with its kind.
pub(super) struct GeneratedRows<'g> {
    pub(super) kind: &'g str,
    pub(super) rows: Vec<Parameters>,
}

impl<'r> Generation<'r> {
    pub(super) fn charge_work(&self, amount: usize, at: &str) -> Result<(), DescriptionError> {
        self.reader.usage.charge_work(amount, at)
    }

    pub(super) fn fill<'f>(&'f self, parameters: &'f Parameters) -> TemplateFiller<'f> {
        TemplateFiller::new(&self.engine, parameters, self.reader.usage)
    }

    /// The namespace of the set, which is that of the controllers.
    pub(super) fn namespace(&self) -> &'r str {
        self.set.id.namespace.as_deref().unwrap_or_default()
    }

    /// What the kinds of an item give. `outer` are the parameters with which it is filled before.
    pub(super) fn run_item<'g>(
        &self,
        item: &'g Value,
        outer: &Parameters,
        pointer: &str,
        depth: usize,
    ) -> Result<Vec<GeneratedRows<'g>>, DescriptionError> {
        let item =
            item.as_object().ok_or_else(|| DescriptionError::new(pointer, "the generator is not a map"))?;
        let selector = match item.get("selector") {
            None | Some(Value::Null) => None,
            Some(selector) => Some(RowSelector::read(selector, false, &format!("{pointer}/selector"))?),
        };
        if let Some(kind) = list_kinds(item).find(|kind| SERVER_KINDS.contains(kind)) {
            let why = format!("federate does not carry out the generator `{kind}`, which asks a server");
            return Err(DescriptionError::new(&format!("{pointer}/{kind}"), why)
                .with_help("list, clusters, git, clusterDecisionResource, matrix and merge are"));
        }
        let mut kinds = list_kinds(item);
        if list_kinds(item).any(is_known_kind)
            && let Some(kind) = kinds.find(|kind| !is_known_kind(kind))
        {
            let why = format!("Argo CD does not know the generator `{kind}`");
            return Err(DescriptionError::new(&format!("{pointer}/{kind}"), why));
        }
        let mut given = Vec::new();
        for kind in KINDS.into_iter().filter(|kind| has_kind(item, kind)) {
            let (Some(settings), at) = (item.get(kind), format!("{pointer}/{kind}")) else { continue };
            let filled;
            let settings = if outer.is_empty() {
                settings
            } else {
                filled = self.fill_generator(kind, settings, outer, &at)?;
                &filled
            };
            let mut rows = self.run_kind(kind, settings, &at, depth)?;
            if rows.len() > MAX_APPLICATIONS {
                let why = format!("it gives more than {MAX_APPLICATIONS} sets of parameters");
                return Err(DescriptionError::new(&at, why));
            }
            if let Some(selector) = &selector {
                rows = self.select_rows(rows, selector, &format!("{pointer}/selector"))?;
            }
            given.push(GeneratedRows { kind, rows });
        }
        Ok(given)
    }

    /// What a child of a matrix or merge gives.
    pub(super) fn run_child(
        &self,
        item: &Value,
        outer: &Parameters,
        pointer: &str,
        depth: usize,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        self.charge_work(1, pointer)?;
        let mut given = self.run_item(item, outer, pointer, depth)?.into_iter();
        match (given.next(), given.next()) {
            (Some(given), None) => Ok(given.rows),
            (None, _) => Err(DescriptionError::new(pointer, "it has no generator that is known")),
            (Some(_), Some(_)) => Err(DescriptionError::new(pointer, "it has several generators in one")),
        }
    }

    fn run_kind(
        &self,
        kind: &str,
        settings: &Value,
        at: &str,
        depth: usize,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        let map = settings.as_object().ok_or_else(|| DescriptionError::new(at, "it is not a map"))?;
        let (_, fields) = FIELDS.into_iter().find(|(own, _)| *own == kind).unwrap_or((kind, &[]));
        if let Some(field) = map.keys().find(|field| !fields.contains(&field.as_str())) {
            let why = format!("the generator `{kind}` has no field `{field}`");
            return Err(DescriptionError::new(&format!("{at}/{field}"), why));
        }
        match kind {
            "list" => self.list_elements(settings, at),
            "clusters" => self.list_clusters(settings, at),
            "git" => self.list_git(settings, at),
            "clusterDecisionResource" => self.list_decisions(settings, at),
            // Nested deeper, Argo CD does not read it.
            _ if depth >= MAX_DEPTH => Err(DescriptionError::new(at, "generators are nested too deep")),
            "matrix" => self.combine_matrix(settings, at, depth),
            _ => self.merge_generators(settings, at, depth),
        }
    }

    /// A generator in a matrix with the parameters of the generator before it. With Go's templates, a value of `values` that
    /// these parameters do not fill is left for its own.
    fn fill_generator(
        &self,
        kind: &str,
        settings: &Value,
        outer: &Parameters,
        at: &str,
    ) -> Result<Value, DescriptionError> {
        let filler = self.fill(outer);
        let is_strict = self.engine.is_go() && !matches!(kind, "list" | "matrix" | "merge");
        let Some(map) = settings.as_object().filter(|map| is_strict && map.contains_key("values")) else {
            return filler.fill_value(settings, at);
        };
        let strict = self.fill(outer).with_strict_keys();
        let mut filled = Map::new();
        for (key, value) in map {
            let at = format!("{at}/{key}");
            let value = match value {
                Value::Object(values) if key == "values" => {
                    let fill = |(key, value): (&String, &Value)| {
                        let fill_value = strict.fill_value(value, &at);
                        Ok((filler.fill_text(key, &at)?, fill_value.unwrap_or_else(|_| value.clone())))
                    };
                    Value::Object(values.iter().map(fill).collect::<Result<_, DescriptionError>>()?)
                }
                value => filler.fill_value(value, &at)?,
            };
            filled.insert(key.clone(), value);
        }
        Ok(Value::Object(filled))
    }

    fn select_rows(
        &self,
        rows: Vec<Parameters>,
        selector: &RowSelector,
        at: &str,
    ) -> Result<Vec<Parameters>, DescriptionError> {
        let mut selected = Vec::new();
        for row in rows {
            self.charge_work(count_flat_bytes(&row).saturating_add(1 + selector.count_bytes()), at)?;
            if selector.matches(&flatten_parameters(&row)) {
                selected.push(row);
            }
        }
        Ok(selected)
    }

    /// The elements of the generator `list`.
    fn list_elements(&self, list: &Value, at: &str) -> Result<Vec<Parameters>, DescriptionError> {
        let mut rows = Vec::new();
        for (index, element) in read_list(list, "elements", at)?.iter().enumerate() {
            let at = format!("{at}/elements/{index}");
            if !element.is_object() {
                return Err(DescriptionError::new(&at, "it is not a map"));
            }
            let row =
                if self.engine.is_go() { read_parameters(element) } else { read_flat_element(element, &at)? };
            self.charge_work(1 + count_bytes(&row), &at)?;
            rows.push(row);
        }
        let at = format!("{at}/elementsYaml");
        let text = match list.get("elementsYaml") {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(_) => return Err(DescriptionError::new(&at, "it is not a text")),
        };
        if !text.is_empty() {
            self.charge_work(text.len(), &at)?;
            let refuse = |why: String| DescriptionError::new(&at, why);
            let items = match read_first_document(text.as_bytes()).map_err(refuse)? {
                Value::Null => Vec::new(),
                Value::Array(items) if items.iter().all(|item| item.is_object() || item.is_null()) => items,
                _ => return Err(refuse("it is not a list of maps".to_owned())),
            };
            rows.extend(items.iter().map(read_parameters));
        }
        Ok(rows)
    }

    fn list_clusters(&self, generator: &Value, at: &str) -> Result<Vec<Parameters>, DescriptionError> {
        let selector = generator.get("selector").filter(|selector| !selector.is_null());
        let selector = selector
            .map(|selector| RowSelector::read(selector, true, &format!("{at}/selector")))
            .transpose()?
            .filter(|selector| !selector.is_empty());
        let comparisons = self.reader.clusters.count();
        let comparison = 8 + selector.as_ref().map_or(0, RowSelector::count_bytes);
        self.charge_work(comparisons.saturating_mul(comparison), at)?;
        let clusters = self.reader.clusters.list_for(self.namespace());
        let selected: Vec<&ArgoCluster> = clusters
            .into_iter()
            .filter(|cluster| selector.as_ref().is_none_or(|selector| selector.matches(&cluster.labels)))
            .collect();
        let mut rows = Vec::new();
        let local = ArgoCluster::local();
        let has_local = selected.iter().any(|cluster| cluster.server == LOCAL_SERVER);
        let lists_local = selector.is_none() && !has_local;
        for cluster in selected.iter().copied().chain(Some(&local).filter(|_| lists_local)) {
            let mut row = self.cluster_parameters(cluster);
            self.charge_work(count_bytes(&row), at)?;
            self.add_values(generator, &mut row, at)?;
            rows.push(row);
        }
        if generator.get("flatList") == Some(&Value::Bool(true)) {
            return Ok(vec![[("clusters".to_owned(), Parameter::Rows(rows))].into()]);
        }
        Ok(rows)
    }

    fn cluster_parameters(&self, cluster: &ArgoCluster) -> Parameters {
        let mut row = Parameters::new();
        for (key, text) in [
            ("name", cluster.name.clone()),
            ("nameNormalized", normalize_name(&cluster.name)),
            ("server", cluster.server.clone()),
            ("project", cluster.project.clone()),
        ] {
            row.insert(key.to_owned(), Parameter::from_text(text));
        }
        let maps = [("annotations", &cluster.annotations), ("labels", &cluster.labels)];
        let maps = maps.into_iter().filter(|(_, texts)| !texts.is_empty());
        if self.engine.is_go() {
            // The local cluster has none, as it has no Secret.
            if cluster.name != LOCAL_NAME || !cluster.labels.is_empty() {
                let maps = maps.map(|(key, texts)| (key.to_owned(), Parameter::Texts(texts.clone())));
                row.insert("metadata".to_owned(), Parameter::Map(maps.collect()));
            }
        } else {
            let texts = maps.flat_map(|(map, texts)| texts.iter().map(move |(key, text)| (map, key, text)));
            row.extend(texts.map(|(map, key, text)| {
                (format!("metadata.{map}.{key}"), Parameter::from_text(text.clone()))
            }));
        }
        row
    }

    fn list_git(&self, generator: &Value, at: &str) -> Result<Vec<Parameters>, DescriptionError> {
        let template = self.set.body.pointer("/spec/template/spec").unwrap_or(&Value::Null);
        let project = federate_kubernetes::object::field_text(template, "project");
        if !project.contains("{{") && !self.reader.has_project(template) {
            let why = format!("the project `{project}` of the set does not exist");
            return Err(DescriptionError::new("/spec/template/spec/project", why));
        }
        let address = federate_kubernetes::object::field_text(generator, "repoURL");
        if self.reader.own.is_some_and(|own| own.is_remote(address, || true)) {
            let why = "the generator reads another git repository, and only what is in the repo is read";
            return Err(DescriptionError::new(&format!("{at}/repoURL"), why).with_help(
                "write its folders or files as elements of a list; if it is this repository, add its address to `repositories` in \
                 federate.yaml",
            ));
        }
        let prefix = generator.get("pathParamPrefix").and_then(Value::as_str).unwrap_or_default();
        let (directories, files) =
            (read_list(generator, "directories", at)?, read_list(generator, "files", at)?);
        let mut rows = Vec::new();
        if !directories.is_empty() {
            for folder in self.select_folders(directories, &format!("{at}/directories"))? {
                let mut row = Parameters::new();
                self.add_path(&mut row, folder, None, prefix);
                self.add_values(generator, &mut row, at)?;
                rows.push(row);
            }
        } else if !files.is_empty() {
            for file in self.select_files(files, &format!("{at}/files"))? {
                for map in self.read_maps(file, at)? {
                    let mut row = if self.engine.is_go() {
                        read_parameters(&map)
                    } else {
                        self.charge_work(count_flat_value(0, &map), at)?;
                        let mut flat = std::collections::BTreeMap::new();
                        for (key, value) in map.as_object().into_iter().flatten() {
                            flatten_value(key, value, &mut flat);
                        }
                        flat.into_iter().map(|(key, text)| (key, Parameter::from_text(text))).collect()
                    };
                    let (folder, name) = file.rsplit_once('/').unwrap_or((".", file));
                    self.add_path(&mut row, folder, Some(name), prefix);
                    self.charge_work(count_bytes(&row), at)?;
                    self.add_values(generator, &mut row, at)?;
                    rows.push(row);
                    if rows.len() > MAX_APPLICATIONS {
                        return Ok(rows);
                    }
                }
            }
        } else {
            return Err(DescriptionError::new(at, "it has neither `directories` nor `files`"));
        }
        Ok(rows)
    }

    /// Adds the parameters about a folder, and a file in it.
    fn add_path(&self, row: &mut Parameters, folder: &str, file: Option<&str>, prefix: &str) {
        let base = folder.rsplit('/').next().unwrap_or_default();
        let segments = folder.split('/');
        let mut texts = vec![("basename", base.to_owned()), ("basenameNormalized", normalize_name(base))];
        if let Some(file) = file {
            texts.extend([("filename", file.to_owned()), ("filenameNormalized", normalize_name(file))]);
        }
        if self.engine.is_go() {
            let mut path: Parameters =
                texts.into_iter().map(|(key, text)| (key.to_owned(), Parameter::from_text(text))).collect();
            path.insert("path".to_owned(), Parameter::from_text(folder));
            path.insert("segments".to_owned(), Parameter::TextList(segments.map(str::to_owned).collect()));
            if prefix.is_empty() {
                row.insert("path".to_owned(), Parameter::Map(path));
            } else {
                let path = [("path".to_owned(), Parameter::Map(path))];
                row.insert(prefix.to_owned(), Parameter::Map(path.into()));
            }
            return;
        }
        // Without Go's templates, `path` is a text, and what it has beside are parameters of their own.
        let name = if prefix.is_empty() { "path".to_owned() } else { format!("{prefix}.path") };
        row.extend(
            texts.into_iter().map(|(key, text)| (format!("{name}.{key}"), Parameter::from_text(text))),
        );
        for (index, segment) in segments.enumerate().filter(|(_, segment)| !segment.is_empty()) {
            row.insert(format!("{name}[{index}]"), Parameter::from_text(segment));
        }
        row.insert(name, Parameter::from_text(folder));
    }

    /// Adds `values` of a generator, filled with the parameters beside them.
    fn add_values(&self, generator: &Value, row: &mut Parameters, at: &str) -> Result<(), DescriptionError> {
        let at = format!("{at}/values");
        let written = read_values(generator, &at)?;
        if written.is_empty() {
            return Ok(());
        }
        let filler = self.fill(row);
        let mut values = std::collections::BTreeMap::new();
        for (key, text) in written {
            values.insert(key.to_owned(), filler.fill_text(text, &at)?);
        }
        drop(filler);
        self.put_values(row, values);
        Ok(())
    }

    /// Puts `values` that are filled.
    pub(super) fn put_values(
        &self,
        row: &mut Parameters,
        values: std::collections::BTreeMap<String, String>,
    ) {
        if self.engine.is_go() {
            row.insert("values".to_owned(), Parameter::Texts(values));
        } else {
            row.extend(
                values.into_iter().map(|(key, text)| (format!("values.{key}"), Parameter::from_text(text))),
            );
        }
    }
}

/// The texts of `values` of a generator.
pub(super) fn read_values<'g>(
    generator: &'g Value,
    at: &str,
) -> Result<Vec<(&'g str, &'g str)>, DescriptionError> {
    let map = match generator.get("values") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(DescriptionError::new(at, "it is not a map")),
    };
    map.iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.as_str(), text.as_str())),
            Value::Null => Ok((key.as_str(), "")),
            _ => Err(DescriptionError::new(&format!("{at}/{key}"), "it is not a text")),
        })
        .collect()
}

/// A list of a generator, which may be missing.
pub(super) fn read_list<'g>(
    generator: &'g Value,
    key: &str,
    at: &str,
) -> Result<&'g [Value], DescriptionError> {
    match generator.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(DescriptionError::new(&format!("{at}/{key}"), "it is not a list")),
    }
}

/// The kinds in an item, known or not.
pub(super) fn list_kinds(item: &Map<String, Value>) -> impl Iterator<Item = &str> {
    item.iter().filter(|(key, value)| *key != "selector" && !value.is_null()).map(|(key, _)| key.as_str())
}

/// Whether federate carries out a kind of generator, or knows it as one that asks a server.
pub(super) fn is_known_kind(kind: &str) -> bool {
    KINDS.contains(&kind) || SERVER_KINDS.contains(&kind)
}

fn has_kind(item: &Map<String, Value>, kind: &str) -> bool {
    item.get(kind).is_some_and(|value| !value.is_null())
}

/// An element of a list without Go's templates, all of whose values must be texts.
fn read_flat_element(element: &Value, at: &str) -> Result<Parameters, DescriptionError> {
    let mut row = Parameters::new();
    for (key, value) in element.as_object().into_iter().flatten() {
        let at = format!("{at}/{key}");
        match value {
            Value::Object(_) if key == "values" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    let text = read_element_text(value, &format!("{at}/{key}"))?;
                    row.insert(format!("values.{key}"), Parameter::from_text(text));
                }
            }
            _ if key == "values" => return Err(DescriptionError::new(&at, "it is not a map")),
            value => drop(row.insert(key.clone(), Parameter::from_text(read_element_text(value, &at)?))),
        }
    }
    Ok(row)
}

fn read_element_text<'v>(value: &'v Value, at: &str) -> Result<&'v str, DescriptionError> {
    value.as_str().ok_or_else(|| {
        DescriptionError::new(at, "it is not a text")
            .with_help("put it in quotes, or set `goTemplate: true`, where values may have any type")
    })
}

/// A name as a part of a host name.
pub(super) fn normalize_name(name: &str) -> String {
    let safe = name
        .chars()
        .flat_map(char::to_lowercase)
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.' { c } else { '-' });
    safe.take(253).collect::<String>().trim_matches(['-', '.']).to_owned()
}
