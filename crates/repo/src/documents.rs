//! Parses files into objects: reads the documents, splits lists, and checks required fields. An invalid
//! document does not hide others.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::engine_syntax::{EngineSyntax, TemplateEngine, engine_of_name, find_engine_syntax};
use super::ownership::FileUse;
use federate_file_tree::RepoFile;
use federate_kubernetes::sops::is_ciphertext;
use federate_kubernetes::unfilled::{holds_variable, list_unfilled};
use federate_kubernetes::{Finding, Object, ObjectRef, Origin, Severity, kinds, names};
use federate_yaml::{Stream, Warning, WarningKind};

/// API groups of files that configure programs, and that no API server stores: their documents need no names.
const PROGRAM_CONFIG_GROUPS: [&str; 9] = [
    "audit.k8s.io",
    "client.authentication.k8s.io",
    "ctlptl.dev",
    "federate.dev",
    "k3d.io",
    "kind.x-k8s.io",
    "kpt.dev",
    "kubeadm.k8s.io",
    "skaffold",
];

/// The version of the documents that configure machines of Talos.
const TALOS_VERSION: &str = "v1alpha1";

/// Whether the head of an object is that of a document that no API server stores.
pub(crate) fn is_program_version(api_version: &str) -> bool {
    api_version == TALOS_VERSION || is_program(api_version.split_once('/').map_or("", |(group, _)| group))
}

/// Whether a document configures a program, such as kind, kustomize or the API server.
fn is_program(group: &str) -> bool {
    PROGRAM_CONFIG_GROUPS.contains(&group) || group.ends_with(".config.k8s.io")
}

/// Whether a document is not an object although it has one of the two fields: the index of a Helm repository, a file of a
/// program that numbers its formats (`apiVersion: 1`), a document of Talos, whose version no API of Kubernetes has without a group, or one
/// of another program whose `kind` is not a kind of Kubernetes.
fn is_other(value: &Value) -> bool {
    match (value.get("apiVersion"), value.get("kind")) {
        (Some(Value::String(api_version)), None) => {
            let has_entries = value.get("entries").is_some_and(Value::is_object);
            let has_parts =
                ["metadata", "spec", "data"].iter().any(|key| value.get(*key).is_some_and(Value::is_object));
            has_entries
                || !(is_api_version(api_version)
                    && (has_parts || value.as_object().is_none_or(|o| o.len() < 2)))
        }
        (Some(_), None) => true,
        (Some(Value::String(api_version)), Some(_)) => api_version == TALOS_VERSION,
        (None, Some(Value::String(kind))) => {
            kind.starts_with(|c: char| c.is_ascii_lowercase())
                && !kinds::kind_names().any(|known| known.eq_ignore_ascii_case(kind))
        }
        _ => false,
    }
}

/// Whether a text has the form of an API version: `v1`, `apps/v1beta2`.
fn is_api_version(text: &str) -> bool {
    let version = text.rsplit('/').next().unwrap_or_default();
    let digits = version.strip_prefix('v').unwrap_or_default();
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Whether a document is a sequence with objects in it, which no client of Kubernetes takes.
fn is_sequence_of_objects(value: &Value) -> bool {
    value.as_array().is_some_and(|items| {
        items.iter().any(|item| item["apiVersion"].is_string() && item["kind"].is_string())
    })
}

/// The content of a file. Scopes of kinds are not applied yet.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    pub(crate) objects: Vec<Object>,
    pub(crate) findings: Vec<Finding>,
    /// The syntax of another engine, if the file is a template of it.
    pub(crate) engine_syntax: Option<EngineSyntax>,
}

/// Reads a file of a repo.
pub(crate) fn read_repo_file(file: &RepoFile, file_use: FileUse) -> FileContents {
    if file_use == FileUse::Input {
        return FileContents::default();
    }
    if file_use == FileUse::ChartTemplate && String::from_utf8_lossy(&file.bytes).contains("{{") {
        let engine_syntax = Some(EngineSyntax { engine: TemplateEngine::Go, line: 1 });
        return FileContents { engine_syntax, ..FileContents::default() };
    }
    let contents = parse_file(file);
    let has_errors = contents.findings.iter().any(Finding::is_error);
    let engine_syntax = engine_in_names(&contents.objects).or_else(|| {
        if has_errors { find_engine_syntax(&String::from_utf8_lossy(&file.bytes)) } else { None }
    });
    match engine_syntax {
        Some(_) => FileContents { engine_syntax, ..FileContents::default() },
        None => contents,
    }
}

/// The engine whose expressions are in the names of objects.
fn engine_in_names(objects: &[Object]) -> Option<EngineSyntax> {
    objects.iter().find_map(|object| {
        let id = &object.id;
        let names = [Some(&id.name), id.namespace.as_ref(), Some(&id.kind), Some(&id.api_version)];
        let engine = names.into_iter().flatten().find_map(|name| engine_of_name(name))?;
        Some(EngineSyntax { engine, line: object.origin.line })
    })
}

/// Reads a file.
pub(crate) fn parse_file(file: &RepoFile) -> FileContents {
    split_documents(&file.path, federate_yaml::read_stream(&file.bytes))
}

/// The finding about what `kubectl` reads differently than it looks.
pub(crate) fn yaml_warning(path: &Arc<str>, warning: Warning) -> Finding {
    let Warning { kind, at, message } = warning;
    let (code, help) = match kind {
        WarningKind::DuplicateKey => {
            ("duplicate-key", "remove one of the two: the last one counts, as in kubectl")
        }
        WarningKind::UnreadDocument => ("unread-document", "write `---` on a line of its own before it"),
    };
    Finding::in_file(Severity::Warning, code, path, Some(at), message).with_help(help)
}

/// The objects of a file's documents.
pub(crate) fn split_documents(path: &Arc<str>, stream: Stream) -> FileContents {
    let mut contents = FileContents::default();
    for e in stream.errors {
        contents.findings.push(Finding::in_file(
            Severity::Error,
            "invalid-yaml",
            path,
            Some(e.at),
            e.message,
        ));
    }
    contents.findings.extend(stream.warnings.into_iter().map(|warning| yaml_warning(path, warning)));
    for document in stream.documents {
        let origin = Origin { file: path.clone(), document: document.index, item: None, line: document.line };
        match split_list(document.value) {
            Ok(items) => {
                let mut lines = document.item_lines.into_iter();
                for (item, value) in (0..).zip(items) {
                    let line = lines.next().unwrap_or(origin.line);
                    contents.add_object(value, Origin { item: Some(item), line, ..origin.clone() }, true);
                }
            }
            Err(value) => contents.add_object(value, origin, false),
        }
    }
    contents
}

/// The items of a `kind: List` or of a typed list; returns other values as the error. Items of a typed list that have
/// neither `apiVersion` nor `kind` get those of the list, as an API server writes such lists.
fn split_list(mut value: Value) -> Result<Vec<Value>, Value> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let plain = kind == "List";
    let list = plain || (kind.ends_with("List") && value.pointer("/metadata/name").is_none());
    let item_kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty()).map(Value::from);
    let api_version = value.get("apiVersion").filter(|version| version.is_string()).cloned();
    match value.get_mut("items") {
        Some(Value::Array(items)) if list => {
            let mut items = std::mem::take(items);
            if let (Some(kind), Some(api_version)) = (item_kind, api_version) {
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    complete_item(item, &api_version, &kind);
                }
            }
            Ok(items)
        }
        // An empty list may be null or missing.
        None if plain => Ok(Vec::new()),
        Some(Value::Null) if list => Ok(Vec::new()),
        _ => Err(value),
    }
}

/// Adds the `apiVersion` and the `kind` of its list to an item that has neither, in front of its fields.
fn complete_item(item: &mut Map<String, Value>, api_version: &Value, kind: &Value) {
    if item.contains_key("apiVersion") || item.contains_key("kind") {
        return;
    }
    let fields = std::mem::take(item);
    item.insert("apiVersion".to_owned(), api_version.clone());
    item.insert("kind".to_owned(), kind.clone());
    item.extend(fields);
}

impl FileContents {
    fn add_object(&mut self, value: Value, origin: Origin, item: bool) {
        match identify_object(&value, item) {
            Ok(None) => {}
            Ok(Some(id)) => self.objects.push(Object { id, body: value, origin }),
            Err(Invalid { code, pointer, message, help }) => {
                // A generated name is valid, but differs from run to run: only this object is left out.
                let severity = if code == GENERATE_NAME_CODE { Severity::Warning } else { Severity::Error };
                let finding =
                    Finding::in_file(severity, code, &origin.file, None, message).with_pointer(pointer);
                let help = help.map(str::to_owned);
                self.findings.push(Finding { origin: Some(origin), help, ..finding });
            }
        }
    }
}

/// The code of the finding about an object whose name the API server generates.
const GENERATE_NAME_CODE: &str = "generate-name";

/// Why a document is not an object that can be placed.
struct Invalid {
    code: &'static str,
    pointer: &'static str,
    message: String,
    help: Option<&'static str>,
}

impl Invalid {
    fn for_object(pointer: &'static str, message: impl Into<String>, help: &'static str) -> Self {
        Self { code: "invalid-object", pointer, message: message.into(), help: Some(help) }
    }
}

/// The identity in a document; `None` if the document is not to be placed.
fn identify_object(value: &Value, item: bool) -> Result<Option<ObjectRef>, Invalid> {
    if !item && is_sequence_of_objects(value) {
        let help = "write its items as documents, with `---` between them, or as `items` of a `kind: List`";
        return Err(Invalid::for_object("", "a sequence of objects is not an object", help));
    }
    let (api_version, kind) = match (value.get("apiVersion"), value.get("kind")) {
        (Some(Value::String(api_version)), Some(Value::String(kind))) => (api_version, kind),
        (None, None) if !item => return Ok(None),
        _ if !item && is_other(value) => return Ok(None),
        (api_version, kind) => return Err(incomplete_object(api_version, kind)),
    };
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if is_program(group) {
        return Ok(None);
    }
    if kind.ends_with("List") && value.get("items").is_some_and(Value::is_array) && item {
        return Err(Invalid::for_object("", "a list inside a list", "write its items as separate documents"));
    }
    let name = read_name(value, kind)?;
    let namespace = match value.pointer("/metadata/namespace") {
        None | Some(Value::Null) => None,
        Some(Value::String(namespace)) if namespace.is_empty() => None,
        Some(Value::String(namespace)) => Some(namespace.clone()),
        Some(_) => {
            let message = format!("the namespace of {kind} `{name}` is not a string");
            return Err(Invalid::for_object("/metadata/namespace", message, "put it in quotes"));
        }
    };
    let id = ObjectRef { api_version: api_version.clone(), kind: kind.clone(), namespace, name };
    check_names(&id)?;
    check_counts(value, group, kind)?;
    Ok(Some(id))
}

/// Fields that count pods, which an API server limits to 32 bits and at least 0, by group and kind.
const POD_COUNT_FIELDS: [(&str, &str, &str); 6] = [
    ("apps", "Deployment", "/spec/replicas"),
    ("apps", "ReplicaSet", "/spec/replicas"),
    ("apps", "StatefulSet", "/spec/replicas"),
    ("", "ReplicationController", "/spec/replicas"),
    ("batch", "Job", "/spec/parallelism"),
    ("batch", "Job", "/spec/completions"),
];

/// Refuses counts that an API server refuses, because no control plane would receive them.
fn check_counts(value: &Value, group: &str, kind: &str) -> Result<(), Invalid> {
    for (_, _, pointer) in POD_COUNT_FIELDS.into_iter().filter(|(g, k, _)| *g == group && *k == kind) {
        let shown = match value.pointer(pointer) {
            None | Some(Value::Null) => continue,
            Some(Value::Number(count)) if is_count(count) => continue,
            // Findings about what SOPS encrypted, and about values that are not known, say who can read it.
            Some(Value::String(text)) if is_ciphertext(text) => continue,
            Some(Value::String(text)) if holds_variable(text) && !list_unfilled(value).is_empty() => continue,
            Some(Value::Number(count)) => count.to_string(),
            // The value could be a credential.
            Some(_) => "not a number".to_owned(),
        };
        let field = pointer.trim_start_matches('/').replace('/', ".");
        let message = format!(
            "`{field}` is {shown}, but an API server only accepts whole numbers from 0 to {}",
            i32::MAX
        );
        return Err(Invalid { code: "invalid-object", pointer, message, help: None });
    }
    Ok(())
}

/// Whether an API server decodes a number as such a count. `3.0` in YAML is 3.
fn is_count(number: &serde_json::Number) -> bool {
    match (number.as_u64(), number.as_f64()) {
        (Some(count), _) => i32::try_from(count).is_ok(),
        (None, Some(count)) => count.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&count),
        (None, None) => false,
    }
}

fn incomplete_object(api_version: Option<&Value>, kind: Option<&Value>) -> Invalid {
    const HELP: &str = "a Kubernetes object has both apiVersion and kind, as strings; to ignore a file \
                        without an object, name it in .federateignore or under `exclude` in federate.yaml";
    let (pointer, message) = match (api_version, kind) {
        (None, None) => ("", "an item that has neither apiVersion nor kind"),
        (None, Some(_)) => ("/kind", "a document with `kind` but without `apiVersion`"),
        (Some(_), None) => ("/apiVersion", "a document with `apiVersion` but without `kind`"),
        (Some(Value::String(_)), Some(_)) => ("/kind", "`kind` is not a string"),
        (Some(_), Some(_)) => ("/apiVersion", "`apiVersion` is not a string"),
    };
    Invalid::for_object(pointer, message, HELP)
}

fn read_name(value: &Value, kind: &str) -> Result<String, Invalid> {
    let (pointer, message, help) = match value.pointer("/metadata/name") {
        Some(Value::String(name)) => return Ok(name.clone()),
        Some(Value::Null) | None if value.pointer("/metadata/generateName").is_some() => {
            return Err(Invalid {
                code: GENERATE_NAME_CODE,
                pointer: "/metadata/generateName",
                message: format!("a {kind} with `generateName` but without a name is left out"),
                help: Some("give it `metadata.name`: rendering must give the same result every time"),
            });
        }
        Some(Value::Null) | None => ("", format!("a {kind} without a name"), "give it `metadata.name`"),
        Some(_) => ("/metadata/name", format!("the name of a {kind} is not a string"), "put it in quotes"),
    };
    Err(Invalid::for_object(pointer, message, help))
}

/// Names become file and folder names, so they must not refer to places outside the output folder.
fn check_names(id: &ObjectRef) -> Result<(), Invalid> {
    let namespace = id.namespace.as_deref();
    let checks = [
        ("/apiVersion", "API version", id.api_version.as_str(), names::safe_api_version(&id.api_version)),
        ("/kind", "kind", id.kind.as_str(), names::safe_kind(&id.kind)),
        ("/metadata/name", "name", id.name.as_str(), names::safe_name(&id.name)),
        (
            "/metadata/namespace",
            "namespace",
            namespace.unwrap_or_default(),
            namespace.map_or(Ok(()), names::safe_namespace),
        ),
    ];
    for (pointer, what, text, checked) in checks {
        if is_ciphertext(text) {
            let message = format!(
                "SOPS has encrypted all of an object, its {what} too, so nothing says which one it is"
            );
            let help = Some(
                "encrypt only what is secret: `sops --encrypt --encrypted-regex '^(data|stringData)$' --in-place FILE`; or list the file in \
                 .federateignore",
            );
            return Err(Invalid { code: "sops-whole", pointer, message, help });
        }
        if let Err(why) = checked {
            let shown: String = text.chars().take(80).collect();
            let message = format!("the {what} {shown:?} is refused: {why}");
            return Err(Invalid { code: "invalid-name", pointer, message, help: None });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_yaml::Document;

    fn one(value: Value) -> FileContents {
        let documents = vec![Document { index: 0, line: 7, value, item_lines: Vec::new() }];
        split_documents(&"a.yaml".into(), Stream { documents, ..Stream::default() })
    }

    fn codes(value: Value) -> Vec<(&'static str, String)> {
        one(value).findings.into_iter().map(|f| (f.code, f.pointer)).collect()
    }

    #[test]
    fn lists_are_split_and_remember_the_item() {
        let item = |name| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        for (version, kind) in [("v1", "List"), ("v1", "SecretList")] {
            let got = one(json!({"apiVersion": version, "kind": kind, "items": [item("a"), item("b")]}));
            assert_eq!(got.findings, []);
            let named: Vec<_> = got.objects.iter().map(|o| (o.id.name.as_str(), o.origin.item)).collect();
            assert_eq!(named, [("a", Some(0)), ("b", Some(1))]);
        }
        let empty = one(json!({"apiVersion": "v1", "kind": "List", "items": null}));
        assert!(empty.objects.is_empty() && empty.findings.is_empty());
    }

    #[test]
    fn a_named_kind_that_ends_in_list_is_an_object() {
        let got = one(
            json!({"apiVersion": "x.io/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": []}),
        );
        assert_eq!(got.objects.len(), 1);
    }

    #[test]
    fn an_item_must_be_an_object() {
        for item in [json!({}), json!({"apiVersion": "v1", "kind": "List", "items": []}), json!(3)] {
            let got = codes(json!({"apiVersion": "v1", "kind": "List", "items": [item]}));
            assert_eq!(got, [("invalid-object", String::new())]);
        }
    }

    #[test]
    fn documents_that_are_no_objects_are_passed_over() {
        for value in [
            json!({"replicas": 2}),
            json!([1]),
            json!("text"),
            json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}),
            json!({"apiVersion": "federate.dev/v1alpha1", "kind": "Plan"}),
            json!({"apiVersion": "kind.x-k8s.io/v1alpha4", "kind": "Cluster"}),
            json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}),
            json!({"apiVersion": "v1", "entries": {}}),
            json!({"apiVersion": 1, "datasources": []}),
            json!({"apiVersion": 2.1, "groups": []}),
            json!({"apiVersion": "2.0", "services": {}}),
            json!({"apiVersion": "v2", "name": "chart", "version": "1.0.0"}),
            json!({"apiVersion": "kpt.dev/v1", "kind": "Kptfile", "metadata": {"name": "a"}}),
            json!({"kind": "fixture", "template": {}}),
        ] {
            let got = one(value);
            assert!(got.objects.is_empty() && got.findings.is_empty(), "{got:?}");
        }
    }

    #[test]
    fn a_sequence_of_objects_is_an_error() {
        let item = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        assert_eq!(codes(json!([item])), [("invalid-object", String::new())]);
    }

    #[test]
    fn half_objects_are_errors_that_point_at_the_cause() {
        for (value, pointer) in [
            (json!({"kind": "Pod"}), "/kind"),
            (json!({"apiVersion": "v1"}), "/apiVersion"),
            (json!({"apiVersion": "apps/v1", "Kind": "Deployment", "metadata": {}}), "/apiVersion"),
            (json!({"apiVersion": 1, "kind": "Pod"}), "/apiVersion"),
            (json!({"apiVersion": "v1", "kind": ["Pod"]}), "/kind"),
            (json!({"apiVersion": "v1", "kind": "Pod"}), ""),
            (json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}), "/metadata/name"),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": 1}}),
                "/metadata/namespace",
            ),
        ] {
            assert_eq!(codes(value), [("invalid-object", pointer.to_owned())]);
        }
    }

    #[test]
    fn a_generated_name_leaves_only_its_object_out() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "a-"}});
        let got = one(json!({"apiVersion": "v1", "kind": "List", "items": [job,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}]}));
        let [finding] = got.findings.as_slice() else { panic!("{got:?}") };
        assert_eq!((finding.code, finding.severity), ("generate-name", Severity::Warning));
        assert_eq!(got.objects.len(), 1);
    }

    #[test]
    fn counts_that_no_api_server_takes_are_refused() {
        let object = |version: &str, kind: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        for (value, pointer) in [
            (object("apps/v1", "Deployment", json!({"replicas": -1})), Some("/spec/replicas")),
            (object("apps/v1", "Deployment", json!({"replicas": 2_147_483_648_u32})), Some("/spec/replicas")),
            (object("apps/v1", "StatefulSet", json!({"replicas": u64::MAX})), Some("/spec/replicas")),
            (object("batch/v1", "Job", json!({"completions": -1})), Some("/spec/completions")),
            (object("apps/v1", "Deployment", json!({"replicas": 2_147_483_647})), None),
            (object("example.org/v1", "Deployment", json!({"replicas": -1})), None),
        ] {
            let expected: Vec<_> = pointer.map(|at| ("invalid-object", at.to_owned())).into_iter().collect();
            assert_eq!(codes(value), expected);
        }
    }

    #[test]
    fn names_that_leave_the_output_folder_are_refused() {
        let object = |v: &str, k: &str, ns: &str, n: &str| json!({"apiVersion": v, "kind": k, "metadata": {"name": n, "namespace": ns}});
        for (value, pointer) in [
            (object("v1", "Pod", "a", "../x"), "/metadata/name"),
            (object("v1", "Pod", "a", ""), "/metadata/name"),
            (object("v1", "Pod", "..", "x"), "/metadata/namespace"),
            (object("v1", "../Pod", "a", "x"), "/kind"),
            (object("../v1", "Pod", "a", "x"), "/apiVersion"),
            (object("a/../v1", "Pod", "a", "x"), "/apiVersion"),
        ] {
            assert_eq!(codes(value), [("invalid-name", pointer.to_owned())]);
        }
        assert_eq!(one(object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "system:a")).findings, []);
    }
}
