//! Reads kustomizations with everything that they name, and writes them anew: kustomize gets what was understood here and
//! nothing else, whatever it would make of the text.
//!
//! A field that is not known, a plugin that is not built in, and a path that leads out of the repo are refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use federate_gitops::{RemoteReference, VendoredSources};
use federate_repo::build::BuildError;
use federate_repo::file_tree::EntryKind;
use federate_yaml::{Positions, Stream, WarningKind, pointer};

use super::edits::ORIGIN_SETTING;
use super::fields::{self, FieldShape, Fields};
use super::path::{clean_path, find_relative_path, resolve_repo_path, split_key};
use super::{KUSTOMIZATION_NAMES, Reader, Reference, join_path, refuse_build};

/// Annotations that name a program or an image to run.
const FUNCTION_ANNOTATIONS: [&str; 2] = ["config.kubernetes.io/function", "config.k8s.io/function"];

/// The kustomizations that are left to read, and what was written anew.
#[derive(Default)]
pub(super) struct Kustomizations {
    pending: VecDeque<NamedFolder>,
    visited: BTreeSet<VisitedFolder>,
    /// The documents of files that kustomize reads as configuration.
    written: BTreeMap<String, Vec<Value>>,
    /// The files of patches that are written in kustomizations.
    inline_patches: BTreeSet<String>,
}

impl Kustomizations {
    /// Whether a file is not one of the repo, but a patch that is written in a kustomization.
    pub(super) fn is_inline_patch(&self, path: &str) -> bool {
        self.inline_patches.contains(path)
    }
}

/// A folder with a kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VisitedFolder {
    path: String,
    /// If its objects are configurations of plugins: the folder of the kustomization that they are for. Their paths start there.
    plugins_of: Option<String>,
}

/// A folder that is to be read, and where it is named.
struct NamedFolder {
    folder: VisitedFolder,
    place: Option<Reference>,
}

/// A document of configuration that is read.
struct ConfigDocument<'t> {
    /// The folder that its paths start from.
    folder: String,
    /// As for [`VisitedFolder`].
    plugins_of: Option<String>,
    file: String,
    index: u32,
    /// The places of its values; `None` if it is written in a field of another document.
    positions: Option<Positions<'t>>,
    /// Its own place.
    line: u32,
    /// What it is, in messages.
    subject: String,
}

impl ConfigDocument<'_> {
    fn locate_pointer(&mut self, pointer: &str) -> Reference {
        let at = self.positions.as_mut().and_then(|known| known.locate_nearest(self.index, pointer));
        Reference { file: self.file.clone(), line: at.map_or(self.line, |at| at.line) }
    }

    fn refuse(&mut self, pointer: &str, why: String, help: &str) -> BuildError {
        let place = self.locate_pointer(pointer);
        refuse_build(Some(&place), why, Some(help.to_owned()))
    }
}

/// Where a text stands that is read as configuration.
struct TextPlace<'p> {
    file: &'p str,
    /// The line of the field that it is the value of; 0 if it is a file.
    line: u32,
}

impl TextPlace<'_> {
    /// The place of a line of the text.
    fn locate_line(&self, line: u32) -> Reference {
        let line = if self.line > 0 { self.line } else { line };
        Reference { file: self.file.to_owned(), line }
    }
}

impl Reader<'_> {
    /// Adds the kustomization in a folder and everything that it names.
    pub(super) fn add_kustomization(&mut self, root: &str) -> Result<(), BuildError> {
        self.name_folder(VisitedFolder { path: root.to_owned(), plugins_of: None }, None);
        while let Some(next) = self.kustomizations.pending.pop_front() {
            self.read_kustomization(&next, root)?;
        }
        for (path, documents) in std::mem::take(&mut self.kustomizations.written) {
            self.inputs.files.insert(path, write_documents(&documents).into_bytes());
        }
        Ok(())
    }

    fn name_folder(&mut self, folder: VisitedFolder, place: Option<Reference>) {
        if self.kustomizations.visited.insert(folder.clone()) {
            self.kustomizations.pending.push_back(NamedFolder { folder, place });
        }
    }

    fn read_kustomization(&mut self, named: &NamedFolder, root: &str) -> Result<(), BuildError> {
        let (folder, place) = (named.folder.path.as_str(), named.place.as_ref());
        let paths = KUSTOMIZATION_NAMES.map(|name| join_path(folder, name));
        let found: Vec<&String> = paths.iter().filter(|path| self.has_file(path)).collect();
        let path = match found.as_slice() {
            [path] => path.as_str(),
            [] => {
                let folder = if folder.is_empty() { "." } else { folder };
                let help = "a kustomization is a file `kustomization.yaml`".to_owned();
                return Err(refuse_build(place, format!("`{folder}` has no kustomization"), Some(help)));
            }
            [first, second, ..] => {
                let why = format!("`{first}` and `{second}` are kustomizations of the same folder");
                return Err(refuse_build(place, why, Some("keep one of them".to_owned())));
            }
        };
        self.add_file(path, place)?;
        let text = self.inputs.files.get(path).cloned().unwrap_or_default();
        let stream = read_config(&text, &TextPlace { file: path, line: 0 })?;
        // As for kustomize, the first document counts.
        let Some(document) = stream.documents.into_iter().next() else { return Ok(()) };
        let plugins_of = named.folder.plugins_of.clone();
        let known = if plugins_of.is_some() { &fields::PLUGIN_FOLDER } else { &fields::KUSTOMIZATION };
        let mut config = ConfigDocument {
            folder: folder.to_owned(),
            plugins_of,
            file: path.to_owned(),
            index: document.index,
            positions: Some(Positions::new(&text)),
            line: 0,
            subject: "a kustomization".to_owned(),
        };
        let mut written = self.read_fields(&mut config, "", &document.value, &[known])?;
        if folder == root {
            ask_for_origins(&mut written);
        }
        self.kustomizations.written.insert(path.to_owned(), vec![Value::Object(written)]);
        Ok(())
    }

    /// Reads a mapping, whose fields are in one of the lists, and returns it as kustomize is to read it.
    fn read_fields(
        &mut self,
        config: &mut ConfigDocument<'_>,
        pointer: &str,
        value: &Value,
        known: &[&'static Fields],
    ) -> Result<Map<String, Value>, BuildError> {
        let Some(map) = value.as_object() else {
            let help = "write fields and their values (`key: value`)";
            return Err(config.refuse(
                pointer,
                format!("{} is not a mapping", describe(config, pointer)),
                help,
            ));
        };
        let mut written = Map::new();
        for (key, value) in map {
            let pointer = format!("{pointer}/{}", pointer::escape(key));
            let Some(field) = known.iter().find_map(|fields| fields.find_field(key)) else {
                return Err(refuse_field(config, &pointer, key));
            };
            if written.contains_key(field.name) {
                let why = format!(
                    "`{}` stands here twice, in upper and lower case, which are the same to kustomize",
                    field.name
                );
                return Err(config.refuse(&pointer, why, "keep one of the fields"));
            }
            if let Some(value) = self.read_value(config, &pointer, value, field.shape)? {
                written.insert(field.name.to_owned(), value);
            }
        }
        Ok(written)
    }

    /// Reads a value, and returns it as kustomize is to read it; `None` if there is nothing to read.
    fn read_value(
        &mut self,
        config: &mut ConfigDocument<'_>,
        pointer: &str,
        value: &Value,
        shape: &'static FieldShape,
    ) -> Result<Option<Value>, BuildError> {
        match (shape, value) {
            (FieldShape::Plain, _) | (_, Value::Null) => Ok(Some(value.clone())),
            (FieldShape::Charts, _) => {
                let key = pointer.rsplit('/').next().unwrap_or_default();
                let why = format!(
                    "`{key}` would fetch and run charts, which federate does not do inside of a kustomization"
                );
                let help = "run `federate vendor`, and list the chart in federate.yaml: `sources: [{chart: vendor/charts/NAME/VERSION}]`";
                Err(config.refuse(pointer, why, help))
            }
            (FieldShape::Fields(known), _) => {
                self.read_fields(config, pointer, value, &[*known]).map(|map| Some(Value::Object(map)))
            }
            (FieldShape::List(shape), Value::Array(items)) => {
                let mut written = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    written.extend(self.read_value(config, &format!("{pointer}/{index}"), item, shape)?);
                }
                Ok(Some(Value::Array(written)))
            }
            (FieldShape::List(_), _) => {
                let why = format!("{} is not a list", describe(config, pointer));
                Err(config.refuse(pointer, why, "write a list (`- item`)"))
            }
            (_, Value::String(text)) => Ok(self.read_text(config, pointer, text, shape)?.map(Value::String)),
            _ => {
                let why = format!("{} is not a text", describe(config, pointer));
                Err(config.refuse(pointer, why, "write a path in quotes"))
            }
        }
    }

    fn read_text(
        &mut self,
        config: &mut ConfigDocument<'_>,
        pointer: &str,
        text: &str,
        shape: &'static FieldShape,
    ) -> Result<Option<String>, BuildError> {
        let place = config.locate_pointer(pointer);
        match shape {
            // kustomize takes it for a missing value, or refuses it.
            FieldShape::File | FieldShape::FileWithKey | FieldShape::Resource | FieldShape::PluginPath
                if text.is_empty() =>
            {
                Ok(Some(String::new()))
            }
            FieldShape::FileWithKey => {
                let (key, path) = split_key(text);
                let path = self.add_named_file(config, path, &place)?;
                Ok(Some(key.map_or_else(|| path.clone(), |key| format!("{key}={path}"))))
            }
            FieldShape::Resource => self.add_resource(config, text, &place).map(Some),
            FieldShape::PluginPath => self.add_plugin_path(config, text, &place).map(Some),
            FieldShape::Plugin => match self.read_inline_plugins(config, text, &place)? {
                InlineText::Path => self.add_plugin_path(config, text, &place).map(Some),
                InlineText::Written(written) => Ok(written),
            },
            FieldShape::Patch => match self.read_inline_patch(config, text, &place)? {
                InlineText::Path => self.add_named_file(config, text, &place).map(Some),
                InlineText::Written(written) => Ok(written),
            },
            _ => self.add_named_file(config, text, &place).map(Some),
        }
    }

    /// Adds a file, and returns its path as kustomize is to read it.
    fn add_named_file(
        &mut self,
        config: &ConfigDocument<'_>,
        written: &str,
        place: &Reference,
    ) -> Result<String, BuildError> {
        let path = resolve_repo_path(&config.folder, written, place)?;
        self.add_file(&path, Some(place))?;
        Ok(clean_path(written))
    }

    /// Adds a file with objects, or names a folder.
    fn add_resource(
        &mut self,
        config: &ConfigDocument<'_>,
        written: &str,
        place: &Reference,
    ) -> Result<String, BuildError> {
        if let Some(base) = RemoteReference::parse_base(written) {
            let source = self.source;
            let vendored = self.vendored.get_or_init(|| VendoredSources::new(source));
            let found = base.and_then(|base| vendored.find(&base, ""));
            let path = found.map_err(|error| refuse_build(Some(place), error.why, error.help))?;
            let relative = find_relative_path(&config.folder, &path);
            self.name_folder(VisitedFolder { path, plugins_of: None }, Some(place.clone()));
            return Ok(relative);
        }
        self.add_file_or_folder(config, written, place, None)?;
        Ok(clean_path(written))
    }

    /// Adds a file with configurations of plugins, or names a folder with them.
    fn add_plugin_path(
        &mut self,
        config: &ConfigDocument<'_>,
        written: &str,
        place: &Reference,
    ) -> Result<String, BuildError> {
        let base = config.plugins_of.as_ref().unwrap_or(&config.folder);
        if let Some(path) = self.add_file_or_folder(config, written, place, Some(base))? {
            let text = self.inputs.files.get(&path).cloned().unwrap_or_default();
            let documents = self.read_plugins(base, &text, &TextPlace { file: &path, line: 0 })?;
            self.kustomizations.written.insert(path, documents);
        }
        Ok(clean_path(written))
    }

    /// Adds a file, and returns its path, or names a folder, which may have plugins of another one.
    fn add_file_or_folder(
        &mut self,
        config: &ConfigDocument<'_>,
        written: &str,
        place: &Reference,
        plugins_of: Option<&String>,
    ) -> Result<Option<String>, BuildError> {
        let path = resolve_repo_path(&config.folder, written, place)?;
        if matches!(self.kind_of(&path), Some(EntryKind::Folder)) {
            let folder = VisitedFolder { path, plugins_of: plugins_of.cloned() };
            self.name_folder(folder, Some(place.clone()));
            return Ok(None);
        }
        self.add_file(&path, Some(place))?;
        Ok(Some(path))
    }

    /// Reads configurations of plugins that are written in place of a path.
    fn read_inline_plugins(
        &mut self,
        config: &ConfigDocument<'_>,
        text: &str,
        place: &Reference,
    ) -> Result<InlineText, BuildError> {
        if !is_inline(text) {
            return Ok(InlineText::Path);
        }
        let at = TextPlace { file: &place.file, line: place.line };
        let documents = self.read_plugins(&config.folder, text.as_bytes(), &at)?;
        // A text without slashes is no path of another folder, should kustomize not take it for a configuration.
        let written = write_documents(&documents).replace('/', "\\u002f");
        Ok(InlineText::Written((!documents.is_empty()).then_some(written)))
    }

    /// Reads a patch that is written in place of a path. It gets a file of its own, because kustomize looks for a file with the name
    /// of the text if it cannot read the patch.
    fn read_inline_patch(
        &mut self,
        config: &ConfigDocument<'_>,
        text: &str,
        place: &Reference,
    ) -> Result<InlineText, BuildError> {
        if !is_inline(text) {
            return Ok(InlineText::Path);
        }
        if let Some(error) = federate_yaml::read_stream(text.as_bytes()).errors.first() {
            return Err(refuse_yaml(place, error));
        }
        let digest = Sha256::digest(text).iter().take(8).fold(String::new(), |mut name, byte| {
            let _ = write!(name, "{byte:02x}");
            name
        });
        let name = format!("federate-patch-{digest}.yaml");
        let path = join_path(&config.folder, &name);
        self.kustomizations.inline_patches.insert(path.clone());
        self.add_bytes(path, text.as_bytes().to_vec())?;
        Ok(InlineText::Written(Some(format!("./{name}"))))
    }

    /// Reads configurations of plugins whose paths start from `base`. Refuses those that are not part of kustomize.
    fn read_plugins(
        &mut self,
        base: &str,
        text: &[u8],
        at: &TextPlace<'_>,
    ) -> Result<Vec<Value>, BuildError> {
        let stream = read_config(text, at)?;
        let mut written = Vec::new();
        for document in stream.documents {
            let kind =
                document.value.get("kind").and_then(Value::as_str).unwrap_or("an object without a kind");
            let mut config = ConfigDocument {
                folder: base.to_owned(),
                plugins_of: None,
                file: at.file.to_owned(),
                index: document.index,
                positions: (at.line == 0).then(|| Positions::new(text)),
                line: at.line,
                subject: kind.to_owned(),
            };
            refuse_programs(&mut config, &document.value)?;
            let Some(known) = fields::find_plugin(kind) else {
                let why = format!("federate knows no generator and no transformer {kind} of kustomize");
                return Err(config.refuse("/kind", why, "commit the output of the plugin in place of it"));
            };
            let fields = self.read_fields(&mut config, "", &document.value, &[&fields::OBJECT, known])?;
            written.push(Value::Object(fields));
        }
        Ok(written)
    }
}

/// What a text is that may stand in place of a path.
enum InlineText {
    /// A path.
    Path,
    /// What kustomize is to read in place of it; `None` for nothing.
    Written(Option<String>),
}

/// Whether a text is not a path, but what could be in the file.
fn is_inline(text: &str) -> bool {
    let stream = federate_yaml::read_stream(text.as_bytes());
    text.trim().is_empty()
        || text.contains('\n') && !stream.errors.is_empty()
        || stream.documents.iter().any(|document| document.value.is_object())
}

/// Reads a text that kustomize reads as configuration. What it may read differently is refused.
fn read_config(text: &[u8], at: &TextPlace<'_>) -> Result<Stream, BuildError> {
    let stream = federate_yaml::read_stream(text);
    if let Some(error) = stream.errors.first() {
        return Err(refuse_yaml(&at.locate_line(error.at.line), error));
    }
    let twice = stream.warnings.iter().find(|warning| warning.kind == WarningKind::DuplicateKey);
    if let Some(twice) = twice {
        let help = "keep one of the fields".to_owned();
        return Err(refuse_build(Some(&at.locate_line(twice.at.line)), twice.message.clone(), Some(help)));
    }
    Ok(stream)
}

fn refuse_yaml(place: &Reference, error: &federate_yaml::Error) -> BuildError {
    let help = "correct it: `kubectl` and kustomize may read it in different ways".to_owned();
    refuse_build(Some(place), format!("it is not valid YAML: {}", error.message), Some(help))
}

/// Refuses plugins that are programs or images, and those that start Helm.
fn refuse_programs(config: &mut ConfigDocument<'_>, value: &Value) -> Result<(), BuildError> {
    let metadata = value.get("metadata");
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    let is_function = metadata.is_some_and(|metadata| metadata.get("configFn").is_some())
        || FUNCTION_ANNOTATIONS.iter().any(|key| annotations.is_some_and(|all| all.get(key).is_some()));
    let is_builtin = value.get("apiVersion").and_then(Value::as_str) == Some("builtin");
    let kind = config.subject.clone();
    if is_function || !is_builtin {
        let why = format!("{kind} is a plugin that runs a program or an image, and federate runs none");
        let help = if is_function || value.get("apiVersion").is_some() {
            "commit the output of the plugin in place of it"
        } else {
            "a generator or transformer of kustomize has `apiVersion: builtin`"
        };
        return Err(config.refuse("/apiVersion", why, help));
    }
    if kind == "HelmChartInflationGenerator" {
        let why = format!(
            "{kind} would fetch and run charts, which federate does not do inside of a kustomization"
        );
        let help = "run `federate vendor`, and list the chart in federate.yaml: `sources: [{chart: vendor/charts/NAME/VERSION}]`";
        return Err(config.refuse("/kind", why, help));
    }
    Ok(())
}

fn refuse_field(config: &mut ConfigDocument<'_>, pointer: &str, key: &str) -> BuildError {
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    let is_plugin_folder = config.plugins_of.is_some() && fields::KUSTOMIZATION.find_field(key).is_some();
    if is_plugin_folder {
        let why =
            format!("`{key}` would change the generators and transformers that this kustomization lists");
        return config.refuse(pointer, why, "write their final configuration in a file, and list the file");
    }
    let why = format!("{} has no field `{key}` that federate knows", describe(config, parent));
    let help = "remove it, or correct its name: what names no known field could read any file";
    config.refuse(pointer, why, help)
}

/// A value of a document in a message.
fn describe(config: &ConfigDocument<'_>, pointer: &str) -> String {
    if pointer.is_empty() {
        return config.subject.clone();
    }
    let path: Vec<_> = pointer.split('/').skip(1).map(pointer::unescape).collect();
    format!("`{}` of {}", path.join("."), config.subject)
}

/// Lets kustomize note the origin of every object.
fn ask_for_origins(kustomization: &mut Map<String, Value>) {
    let settings = kustomization.entry("buildMetadata").or_insert(Value::Null);
    if settings.is_null() {
        *settings = Value::Array(Vec::new());
    }
    let Some(settings) = settings.as_array_mut() else { return };
    let setting = Value::from(ORIGIN_SETTING);
    if !settings.contains(&setting) {
        settings.push(setting);
    }
}

/// Documents as JSON that every parser of YAML reads in the same way: line breaks and byte order marks of Unicode are escaped.
fn write_documents(documents: &[Value]) -> String {
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    let mut written = String::new();
    for character in texts.join("\n---\n").chars() {
        match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(written, "\\u{:04x}", u32::from(character));
            }
            character => written.push(character),
        }
    }
    written
}
