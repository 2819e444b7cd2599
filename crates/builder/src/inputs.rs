//! Reads the files that a build needs, and nothing else, from a repo. What is remote, outside of the repo or behind a link is
//! refused, with its line.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use federate_repo::FileTree;
use federate_repo::build::{
    BuildError, BuildJob, BuildWarning, ChartJob, FileGeneration, InputFile, is_packaged_chart,
};
use federate_repo::file_tree::EntryKind;
use federate_repo::normalize_path;
use federate_yaml::Positions;

use crate::ciphertext::{find_encrypted_text, refuse_encrypted_values, remove_sops_variables};
use crate::program::Tool;

/// The most bytes that the files of a build may have together.
const MAX_BYTES: usize = 256 << 20;

/// The most files that a build may have.
const MAX_FILES: usize = 20_000;

/// The names of kustomizations.
pub(crate) const KUSTOMIZATION_NAMES: [&str; 3] =
    ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Lists of a kustomization whose items are files or other kustomizations.
const RESOURCE_LISTS: [&str; 3] = ["resources", "bases", "components"];

/// Lists whose items are files, folders, or objects written in place.
const PLUGIN_LISTS: [&str; 3] = ["generators", "transformers", "validators"];

/// The files of a build.
#[derive(Debug, Default)]
pub(crate) struct BuildInputs {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The links that were left out.
    links: BTreeSet<String>,
    pub(crate) digest: Vec<u8>,
    /// The files with their digests.
    pub(crate) listed: Arc<[InputFile]>,
    bytes: usize,
}

/// What the inputs of a job depend on: jobs with the same key have the same inputs.
pub(crate) fn key_of(job: &BuildJob) -> (Tool, &str, Vec<String>) {
    let values = match job {
        BuildJob::Kustomization(job) => vec![job.edits.clone(), format!("{:?}", job.generation)],
        BuildJob::Chart(chart) => {
            let own = if chart.replaces_values { "without" } else { "with" };
            std::iter::once(own.to_owned()).chain(chart.values.iter().cloned()).collect()
        }
    };
    (Tool::from_job(job), job.path(), values)
}

impl BuildInputs {
    /// One file.
    pub(crate) fn from_file(path: &str, bytes: &[u8]) -> Self {
        Self { files: [(path.to_owned(), bytes.to_vec())].into(), ..Self::default() }
    }

    /// Reads the files of a job.
    pub(crate) fn read_job(source: &dyn FileTree, job: &BuildJob) -> Result<Self, BuildError> {
        let mut reader = Reader { source, inputs: Self::default(), visited: BTreeSet::new() };
        match job {
            BuildJob::Kustomization(job) => {
                let folder = job.folder.as_str();
                reader.generate_kustomization(folder, job.generation)?;
                reader.edit_kustomization(folder, &job.edits)?;
                reader.add_kustomization(folder, None)?;
                reader.ask_for_origins(folder);
            }
            BuildJob::Chart(chart) => {
                reader.add_chart(&chart.path)?;
                for path in &chart.values {
                    reader.add_file(path, None)?;
                }
                reader.leave_out_values(chart)?;
                refuse_encrypted_values(chart, &reader.inputs.files)?;
            }
        }
        let mut inputs = reader.inputs;
        inputs.listed = inputs
            .files
            .iter()
            .map(|(path, bytes)| InputFile {
                path: path.clone(),
                digest: Sha256::digest(bytes).into(),
                encrypted: find_encrypted_text(path, bytes),
            })
            .collect();
        let mut sha = Sha256::new();
        for file in inputs.listed.iter() {
            sha.update((file.path.len() as u64).to_be_bytes());
            sha.update(&file.path);
            sha.update(file.digest);
        }
        inputs.digest = sha.finalize().to_vec();
        remove_sops_variables(&mut inputs.files);
        Ok(inputs)
    }

    /// Warns of links that were left out.
    pub(crate) fn list_warnings(&self, job: &BuildJob) -> Vec<BuildWarning> {
        let Some(first) = self.links.first() else { return Vec::new() };
        let more = match self.links.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!("`{}` is built without the link `{first}`{more}", job.path());
        let help = "commit the file itself in place of the link".to_owned();
        vec![BuildWarning { code: "build-link", message, help, place: Some((first.clone(), 0)) }]
    }
}

/// Where a kustomization names a file.
#[derive(Clone, Debug)]
struct Reference {
    file: String,
    line: u32,
}

struct Reader<'s> {
    source: &'s dyn FileTree,
    inputs: BuildInputs,
    /// The folders of kustomizations that were added.
    visited: BTreeSet<String>,
}

/// An error at a place.
fn refuse_build(place: Option<&Reference>, why: String, help: Option<String>) -> BuildError {
    let place = place.map(|place| (place.file.clone(), place.line));
    BuildError { code: "build-failed", why, help, place }
}

impl Reader<'_> {
    /// Whether a path is that of a file, of the repo or generated.
    fn has_file(&self, path: &str) -> bool {
        self.inputs.files.contains_key(path) || matches!(self.kind_of(path), Some(EntryKind::File))
    }

    /// Leaves the chart's own values out, where others stand in place of them.
    fn leave_out_values(&mut self, chart: &ChartJob) -> Result<(), BuildError> {
        let own = format!("{}/values.yaml", chart.path);
        if !chart.replaces_values || chart.values.contains(&own) {
            return Ok(());
        }
        if is_packaged_chart(&chart.path) {
            let why = "the values files stand in place of those of the chart, which is packaged".to_owned();
            return Err(refuse_build(None, why, Some("unpack the chart in the repo".to_owned())));
        }
        self.inputs.files.remove(&own);
        Ok(())
    }

    /// Adds a kustomization that lists the files of a folder without one.
    fn generate_kustomization(&mut self, folder: &str, generation: FileGeneration) -> Result<(), BuildError> {
        if generation == FileGeneration::Never || self.has_kustomization(folder) {
            return Ok(());
        }
        let mut resources = Vec::new();
        self.list_resources(folder, "", generation, &mut resources)?;
        let kustomization = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources});
        let [name, ..] = KUSTOMIZATION_NAMES;
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        self.add_bytes(path, kustomization.to_string().into_bytes())
    }

    fn has_kustomization(&self, folder: &str) -> bool {
        KUSTOMIZATION_NAMES.iter().any(|name| {
            let path = if folder.is_empty() { (*name).to_owned() } else { format!("{folder}/{name}") };
            matches!(self.kind_of(&path), Some(EntryKind::File))
        })
    }

    /// Lists the resources of a generated kustomization, relative to its folder.
    fn list_resources(
        &self,
        root: &str,
        below: &str,
        generation: FileGeneration,
        resources: &mut Vec<String>,
    ) -> Result<(), BuildError> {
        let folder = [root, below].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let entries = self.source.list_folder(&folder);
        let mut entries =
            entries.map_err(|why| refuse_build(None, format!("`{folder}` cannot be listed: {why}"), None))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let extensions: &[&str] = match generation {
            FileGeneration::Tree => &["yaml", "yml"],
            _ => &["yaml", "yml", "json"],
        };
        for entry in entries.into_iter().filter(|entry| !entry.name.starts_with('.')) {
            let path = if below.is_empty() { entry.name.clone() } else { format!("{below}/{}", entry.name) };
            match entry.kind {
                EntryKind::File => {
                    let extension = entry.name.rsplit_once('.').map_or("", |(_, extension)| extension);
                    resources.extend(extensions.contains(&extension).then_some(path));
                }
                EntryKind::Folder
                    if generation == FileGeneration::Tree
                        && self.has_kustomization(&format!("{folder}/{}", entry.name)) =>
                {
                    resources.push(path);
                }
                EntryKind::Folder if generation != FileGeneration::Files => {
                    self.list_resources(root, &path, generation, resources)?;
                }
                _ => {}
            }
            if resources.len() > MAX_FILES {
                return Err(refuse_build(None, format!("`{root}` has more than {MAX_FILES} files"), None));
            }
        }
        Ok(())
    }

    /// Adds fields to the kustomization of a folder.
    fn edit_kustomization(&mut self, folder: &str, edits: &str) -> Result<(), BuildError> {
        let Ok(Value::Object(edits)) = serde_json::from_str::<Value>(edits) else { return Ok(()) };
        let paths = KUSTOMIZATION_NAMES
            .map(|name| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") });
        let Some(path) = paths.iter().find(|path| self.has_file(path)) else { return Ok(()) };
        self.add_file(path, None)?;
        let text = self.inputs.files.get(path).cloned().unwrap_or_default();
        let stream = federate_yaml::read_stream(&text);
        let mut value =
            stream.documents.into_iter().next().map(|document| document.value).unwrap_or_default();
        if value.is_null() {
            value = json!({});
        }
        let Some(fields) = value.as_object_mut().filter(|_| stream.errors.is_empty()) else { return Ok(()) };
        for (key, edit) in edits {
            edit_field(fields, &key, edit);
        }
        self.inputs.files.insert(path.clone(), value.to_string().into_bytes());
        Ok(())
    }

    /// The kind of entry at a path; `None` if there is none.
    fn kind_of(&self, path: &str) -> Option<EntryKind> {
        if path.is_empty() { Some(EntryKind::Folder) } else { federate_repo::find_entry(self.source, path) }
    }

    fn add_file(&mut self, path: &str, place: Option<&Reference>) -> Result<(), BuildError> {
        if self.inputs.files.contains_key(path) {
            return Ok(());
        }
        match self.kind_of(path) {
            Some(EntryKind::File) => {}
            Some(EntryKind::LinkToFile(_) | EntryKind::LinkToFolder(_) | EntryKind::LinkOutside(_)) => {
                let help = "commit the file itself in place of the link".to_owned();
                return Err(refuse_build(
                    place,
                    format!("`{path}` is a link, or a link leads to it"),
                    Some(help),
                ));
            }
            Some(_) => {
                return Err(refuse_build(place, format!("`{path}` is not a file that can be read"), None));
            }
            None => return Err(refuse_build(place, format!("`{path}` is not in the repo"), None)),
        }
        let bytes = self
            .source
            .read_file(path)
            .map_err(|why| refuse_build(place, format!("`{path}` cannot be read: {why}"), None))?;
        self.add_bytes(path.to_owned(), bytes)
    }

    fn add_bytes(&mut self, path: String, bytes: Vec<u8>) -> Result<(), BuildError> {
        self.inputs.bytes += bytes.len();
        self.inputs.files.insert(path, bytes);
        if self.inputs.bytes > MAX_BYTES || self.inputs.files.len() > MAX_FILES {
            let why = format!("its files are more than {MAX_FILES}, or larger than {} MiB", MAX_BYTES >> 20);
            return Err(refuse_build(None, why, None));
        }
        Ok(())
    }

    /// Adds a chart: a packaged one, or all files of a folder.
    fn add_chart(&mut self, path: &str) -> Result<(), BuildError> {
        match self.kind_of(path) {
            Some(EntryKind::File) if is_packaged_chart(path) => self.add_file(path, None),
            Some(EntryKind::Folder) => {
                self.add_folder(path)?;
                let chart =
                    if path.is_empty() { "Chart.yaml".to_owned() } else { format!("{path}/Chart.yaml") };
                if self.inputs.files.contains_key(&chart) {
                    return Ok(());
                }
                Err(refuse_build(None, format!("`{path}` has no Chart.yaml"), None))
            }
            Some(EntryKind::LinkToFile(_) | EntryKind::LinkToFolder(_) | EntryKind::LinkOutside(_)) => {
                Err(refuse_build(None, format!("`{path}` is a link, or a link leads to it"), None))
            }
            Some(_) => Err(refuse_build(
                None,
                format!("`{path}` is neither a folder nor a packaged chart (`.tgz`)"),
                None,
            )),
            None => Err(refuse_build(None, format!("`{path}` is not in the repo"), None)),
        }
    }

    /// Adds all files of a folder. Links are left out.
    fn add_folder(&mut self, folder: &str) -> Result<(), BuildError> {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = self
                .source
                .list_folder(&folder)
                .map_err(|why| refuse_build(None, format!("`{folder}` cannot be listed: {why}"), None))?;
            for entry in entries {
                let path =
                    if folder.is_empty() { entry.name.clone() } else { format!("{folder}/{}", entry.name) };
                match entry.kind {
                    EntryKind::Folder if entry.name == ".git" => {}
                    EntryKind::Folder => folders.push(path),
                    EntryKind::File => {
                        let read = self.source.read_file(&path);
                        let bytes = read.map_err(|why| {
                            refuse_build(None, format!("`{path}` cannot be read: {why}"), None)
                        })?;
                        self.add_bytes(path, bytes)?;
                    }
                    EntryKind::LinkToFile(_) | EntryKind::LinkToFolder(_) | EntryKind::LinkOutside(_) => {
                        self.inputs.links.insert(path);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Adds a kustomization and everything that it names.
    fn add_kustomization(&mut self, folder: &str, place: Option<&Reference>) -> Result<(), BuildError> {
        if !self.visited.insert(folder.to_owned()) {
            return Ok(());
        }
        let paths = KUSTOMIZATION_NAMES
            .map(|name| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") });
        let found: Vec<&String> = paths.iter().filter(|path| self.has_file(path)).collect();
        let Some(first) = found.first() else {
            let folder = if folder.is_empty() { "." } else { folder };
            let help = "a kustomization is a file `kustomization.yaml`".to_owned();
            return Err(refuse_build(place, format!("`{folder}` has no kustomization"), Some(help)));
        };
        for path in &found {
            self.add_file(path, place)?;
        }
        let text = self.inputs.files.get(*first).cloned().unwrap_or_default();
        let stream = federate_yaml::read_stream(&text);
        let Some(document) = stream.documents.first() else { return Ok(()) };
        let kustomization = KustomizationFile {
            folder,
            file: first,
            document: document.index,
            value: &document.value,
            positions: Positions::new(&text),
        };
        self.add_references(kustomization)
    }

    fn add_references(&mut self, mut file: KustomizationFile<'_, '_>) -> Result<(), BuildError> {
        for key in ["helmCharts", "helmChartInflationGenerator"] {
            if file.value.get(key).is_some_and(|value| !value.is_null()) {
                let place = file.locate_pointer(&format!("/{key}"));
                let why = format!(
                    "`{key}` would fetch and run charts, which federate does not do inside of a kustomization"
                );
                let help =
                    "vendor the chart, and list it in federate.yaml: `sources: [{chart: FOLDER}]`".to_owned();
                return Err(refuse_build(Some(&place), why, Some(help)));
            }
        }
        for (pointer, written) in file.list_paths() {
            let place = file.locate_pointer(&pointer);
            let path = resolve_repo_path(file.folder, &written, &place)?;
            let may_be_folder = RESOURCE_LISTS
                .iter()
                .chain(&PLUGIN_LISTS)
                .any(|key| pointer.starts_with(&format!("/{key}/")));
            match self.kind_of(&path) {
                Some(EntryKind::Folder) if may_be_folder => self.add_kustomization(&path, Some(&place))?,
                _ => self.add_file(&path, Some(&place))?,
            }
            if PLUGIN_LISTS.iter().any(|key| pointer.starts_with(&format!("/{key}/"))) {
                self.check_plugins(&path, &place)?;
            }
        }
        for (pointer, text) in file.list_inline_plugins() {
            let place = file.locate_pointer(&pointer);
            check_plugin_text(text.as_bytes(), &place)?;
        }
        Ok(())
    }

    /// Refuses plugins in a file that are not part of kustomize, and adds the files that the others name.
    fn check_plugins(&mut self, path: &str, place: &Reference) -> Result<(), BuildError> {
        let Some(text) = self.inputs.files.get(path).cloned() else { return Ok(()) };
        check_plugin_text(&text, place)?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for document in federate_yaml::read_stream(&text).documents {
            let mut named: Vec<String> = Vec::new();
            let own = document.value.get("path").and_then(Value::as_str);
            named.extend(own.map(str::to_owned));
            for key in ["paths", "files", "envs"] {
                let listed = document.value.get(key).and_then(Value::as_array).into_iter().flatten();
                named.extend(listed.filter_map(Value::as_str).map(|path| without_key(path).to_owned()));
            }
            for written in named.iter().filter(|written| !written.contains('\n')) {
                let path = resolve_repo_path(folder, written, place)?;
                self.add_file(&path, Some(place))?;
            }
        }
        Ok(())
    }

    /// Lets kustomize note the origin of every object: the kustomization in a folder is written anew with that setting.
    fn ask_for_origins(&mut self, folder: &str) {
        let paths = KUSTOMIZATION_NAMES
            .map(|name| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") });
        for path in paths {
            let Some(text) = self.inputs.files.get_mut(&path) else { continue };
            let stream = federate_yaml::read_stream(text);
            let [document] = stream.documents.as_slice() else { continue };
            let mut value = document.value.clone();
            let Some(map) = value.as_object_mut().filter(|_| stream.errors.is_empty()) else { continue };
            let settings = map.entry("buildMetadata").or_insert_with(|| Value::Array(Vec::new()));
            if settings.is_null() {
                *settings = Value::Array(Vec::new());
            }
            let Some(settings) = settings.as_array_mut() else { continue };
            let setting = Value::from("originAnnotations");
            if !settings.contains(&setting) {
                settings.push(setting);
            }
            *text = value.to_string().into_bytes();
        }
    }
}

/// A kustomization that is read.
struct KustomizationFile<'t, 'v> {
    folder: &'v str,
    file: &'v str,
    document: u32,
    value: &'v Value,
    positions: Positions<'t>,
}

impl KustomizationFile<'_, '_> {
    fn locate_pointer(&mut self, pointer: &str) -> Reference {
        let at = self.positions.locate_nearest(self.document, pointer);
        Reference { file: self.file.to_owned(), line: at.map_or(0, |at| at.line) }
    }

    fn list_items<'v>(&'v self, key: &'v str) -> impl Iterator<Item = (String, &'v Value)> {
        let items = self.value.get(key).and_then(Value::as_array).into_iter().flatten();
        items.enumerate().map(move |(index, item)| (format!("/{key}/{index}"), item))
    }

    /// The files and folders that the kustomization names, with their pointers.
    fn list_paths(&self) -> Vec<(String, String)> {
        let mut paths: Vec<(String, &str)> = Vec::new();
        let plain = ["patchesStrategicMerge", "crds", "configurations"];
        for key in RESOURCE_LISTS.into_iter().chain(PLUGIN_LISTS).chain(plain) {
            for (pointer, item) in self.list_items(key) {
                let path = item.as_str().filter(|text| {
                    RESOURCE_LISTS.contains(&key) || !(text.contains(": ") || text.starts_with('{'))
                });
                if let Some(path) = path {
                    paths.push((pointer, path));
                }
            }
        }
        for key in ["patches", "patchesJson6902", "replacements"] {
            for (pointer, item) in self.list_items(key) {
                if let Some(path) = item.get("path").and_then(Value::as_str) {
                    paths.push((format!("{pointer}/path"), path));
                }
            }
        }
        for key in ["configMapGenerator", "secretGenerator"] {
            for (pointer, item) in self.list_items(key) {
                for files in ["files", "envs"] {
                    let listed = item.get(files).and_then(Value::as_array).into_iter().flatten();
                    for (index, path) in listed.enumerate() {
                        if let Some(path) = path.as_str() {
                            paths.push((format!("{pointer}/{files}/{index}"), without_key(path)));
                        }
                    }
                }
                if let Some(path) = item.get("env").and_then(Value::as_str) {
                    paths.push((format!("{pointer}/env"), path));
                }
            }
        }
        if let Some(path) = self.value.pointer("/openapi/path").and_then(Value::as_str) {
            paths.push(("/openapi/path".to_owned(), path));
        }
        // Patches and plugins may be written in place of a path.
        paths.retain(|(_, path)| !path.contains('\n') && !path.is_empty());
        paths.into_iter().map(|(pointer, path)| (pointer, path.to_owned())).collect()
    }

    /// The plugins that are written in the kustomization.
    fn list_inline_plugins(&self) -> Vec<(String, String)> {
        let all = PLUGIN_LISTS.into_iter().flat_map(|key| self.list_items(key));
        let written = all.filter_map(|(pointer, item)| Some((pointer, item.as_str()?.to_owned())));
        written
            .filter(|(_, text)| text.contains('\n') || text.contains(": ") || text.starts_with('{'))
            .collect()
    }
}

/// Adds a value to a field of a kustomization: items of lists by their names or at the end, fields of maps by their keys.
fn edit_field(fields: &mut Map<String, Value>, key: &str, edit: Value) {
    match (fields.get_mut(key), edit) {
        (Some(Value::Array(items)), Value::Array(added)) => {
            let is_named = matches!(key, "images" | "replicas");
            for item in added {
                let same = items.iter_mut().find(|known| is_named && known.get("name") == item.get("name"));
                match same {
                    Some(known) => *known = item,
                    None => items.push(item),
                }
            }
        }
        (Some(Value::Object(map)), Value::Object(added)) => map.extend(added),
        (_, edit) => drop(fields.insert(key.to_owned(), edit)),
    }
}

/// Refuses plugins that are programs or images.
fn check_plugin_text(text: &[u8], place: &Reference) -> Result<(), BuildError> {
    for document in federate_yaml::read_stream(text).documents {
        let value = &document.value;
        let annotations = value.pointer("/metadata/annotations");
        let is_function = ["config.kubernetes.io/function", "config.k8s.io/function"]
            .into_iter()
            .any(|key| annotations.is_some_and(|all| all.get(key).is_some()));
        let api_version = value.get("apiVersion").and_then(Value::as_str).unwrap_or("builtin");
        if is_function || api_version != "builtin" {
            let kind = value.get("kind").and_then(Value::as_str).unwrap_or("a plugin");
            let why = format!("{kind} is a plugin that runs a program or an image, and federate runs none");
            let help = "commit the output of the plugin in place of it".to_owned();
            return Err(refuse_build(Some(place), why, Some(help)));
        }
    }
    Ok(())
}

/// The path in the repo of a path that a kustomization in `folder` names.
fn resolve_repo_path(folder: &str, written: &str, place: &Reference) -> Result<String, BuildError> {
    if is_remote(written) {
        let name =
            written.split(['?', '#']).next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let help = if written.starts_with("https://") && name.contains('.') && !written.contains("?ref=") {
            format!("vendor it (`curl -Lo {name} {written}`), and name the file")
        } else {
            "vendor it: commit a copy to the repo, and name its folder".to_owned()
        };
        return Err(refuse_build(
            Some(place),
            format!("`{written}` is not in the repo, and nothing is fetched"),
            Some(help),
        ));
    }
    let path = Some(format!("./{folder}/{written}")).filter(|_| !written.starts_with('/'));
    path.and_then(|path| normalize_path(&path.replace("//", "/")).ok())
        .ok_or_else(|| refuse_build(Some(place), format!("`{written}` is outside of the repo"), None))
}

/// Whether kustomize would fetch a resource.
fn is_remote(path: &str) -> bool {
    path.contains("://")
        || path.starts_with("git@")
        || path.starts_with("git::")
        || path.starts_with("github.com/")
        || path.starts_with("gh:")
        || path.contains("?ref=")
        || path.contains("?version=")
        || path.contains(".git//")
}

/// The path in `key=path`.
fn without_key(file: &str) -> &str {
    file.split_once('=').map_or(file, |(_, path)| path)
}
