//! The syntax of template engines in files that should be YAML, and what the text of such a file seems to define.
//!
//! A file of Helm, Jinja, Go, ERB or envsubst is not YAML before its engine has run. Its text still shows which kinds of
//! objects it gives, which distinguishes a file that would be placed from one that does not matter.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::documents::is_program_version;
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::{Object, Origin, kinds};

/// What stands for an expression in a name.
pub const UNKNOWN_NAME: &str = "…";

/// A template engine, by what its files look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplateEngine {
    /// Helm, or another program with Go's templates.
    Go,
    /// Jinja and its relatives.
    Jinja,
    /// `{{ … }}`, which several engines have.
    Braces,
    /// ERB, EJS and their relatives.
    Erb,
    /// Variables as in a shell.
    Variables,
    /// Placeholders that a script replaces.
    Placeholders,
}

impl TemplateEngine {
    /// The engine as a phrase for messages.
    pub fn display_name(self) -> &'static str {
        match self {
            Self::Go => "Helm or Go (`{{ … }}`)",
            Self::Jinja => "Jinja (`{% … %}`)",
            Self::Braces => "Helm, Jinja or Go (`{{ … }}`)",
            Self::Erb => "ERB (`<% … %>`)",
            Self::Variables => "envsubst (`${…}`)",
            Self::Placeholders => "a script (`%NAME%`, `@NAME@`)",
        }
    }
}

/// Where the syntax of an engine begins in a text: its line, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineSyntax {
    pub(crate) engine: TemplateEngine,
    pub(crate) line: u32,
}

/// The openings of template expressions.
const OPENINGS: [&str; 4] = ["{{", "{%", "<%", "${"];

/// The syntax of another engine in a text that is not valid YAML. Block scalars, strings and comments do not count: they
/// may hold templates of programs that run in the cluster.
pub(crate) fn find_engine_syntax(text: &str) -> Option<EngineSyntax> {
    let mut found: Option<EngineSyntax> = None;
    let mut block: Option<usize> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if block.is_some_and(|parent| content.is_empty() || indent > parent) {
            continue;
        }
        block = None;
        if content.starts_with('#') && !content.starts_with("#{") {
            continue;
        }
        if opens_block_scalar(content) {
            block = Some(indent);
        }
        let value = value_of(content);
        let opening =
            OPENINGS.iter().find(|opening| content.starts_with(**opening) || value.starts_with(**opening));
        let engine = match opening {
            Some(opening) => engine_of(opening, content),
            None if is_placeholder(value) => TemplateEngine::Placeholders,
            None => continue,
        };
        match found {
            // A tag of an engine says more than an expression.
            Some(EngineSyntax { engine: TemplateEngine::Braces, line }) => {
                if matches!(engine, TemplateEngine::Go | TemplateEngine::Jinja) {
                    return Some(EngineSyntax { engine, line });
                }
            }
            Some(_) => {}
            None if engine == TemplateEngine::Braces => found = Some(EngineSyntax { engine, line: number }),
            None => return Some(EngineSyntax { engine, line: number }),
        }
    }
    found
}

/// The engine of a text in which a name contains an expression.
pub(crate) fn engine_of_name(name: &str) -> Option<TemplateEngine> {
    let opening = OPENINGS.iter().find(|opening| name.contains(**opening))?;
    Some(engine_of(opening, name))
}

fn engine_of(opening: &str, text: &str) -> TemplateEngine {
    const GO: [&str; 9] =
        ["{{-", "{{ .", "{{.", "{{ if ", "{{ range ", "{{ with ", "{{ end", "{{ include ", "{{ template "];
    match opening {
        "{%" => TemplateEngine::Jinja,
        "<%" => TemplateEngine::Erb,
        "${" => TemplateEngine::Variables,
        _ if GO.iter().any(|start| text.contains(start)) && !text.contains("{%") => TemplateEngine::Go,
        _ => TemplateEngine::Braces,
    }
}

/// The value in a line `key: value` or `- value`; the line itself if it is neither.
fn value_of(line: &str) -> &str {
    let item = line.strip_prefix("- ").map_or(line, str::trim_start);
    item.split_once(": ").map_or(item, |(_, value)| value.trim_start())
}

/// Whether a value begins with `%NAME%` or `@NAME@`, which no YAML value can.
fn is_placeholder(value: &str) -> bool {
    ['%', '@'].into_iter().any(|mark| {
        let name = value.strip_prefix(mark).and_then(|rest| Some(rest.split_once(mark)?.0));
        name.is_some_and(|name| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        })
    })
}

fn opens_block_scalar(line: &str) -> bool {
    let value = value_of(line).trim_end();
    let rest = value.strip_prefix(['|', '>']);
    rest.is_some_and(|rest| rest.chars().all(|c| matches!(c, '+' | '-' | '0'..='9')))
}

/// Whether a `*.j2` file is of another program: it defines objects, and uses none of the variables that templates of a repo
/// have, nor one that is nearly theirs.
pub(crate) fn is_for_another_program(text: &str) -> bool {
    const KNOWN_VARIABLES: [&str; 2] = ["cluster", "values"];
    if !text.lines().any(|line| line.starts_with("kind:")) {
        return false;
    }
    // makejinja's delimiters.
    let mut tags = [("#{", "}#"), ("#%", "%#")].into_iter();
    if tags.any(|(open, close)| text.contains(open) && text.contains(close)) {
        return true;
    }
    let names = template_expressions(text).flat_map(variable_names);
    let mut any = false;
    for name in names {
        any = true;
        if KNOWN_VARIABLES.contains(&name) || find_similar(name, &KNOWN_VARIABLES).is_some() {
            return false;
        }
    }
    any
}

/// The texts within `{{ … }}` and `{% … %}`.
fn template_expressions(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("{{").chain(text.match_indices("{%"));
    starts.filter_map(|(at, opening)| {
        let rest = text.get(at + 2..)?;
        let close = if opening == "{{" { "}}" } else { "%}" };
        rest.get(..rest.find(close)?)
    })
}

/// The words of an expression that may be variables: neither attributes nor strings.
fn variable_names(expression: &str) -> impl Iterator<Item = &str> {
    let outside = expression.split(['"', '\'']).step_by(2);
    outside.flat_map(|part| {
        part.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.')))
            .filter_map(|path| path.split('.').next())
            .filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
    })
}

/// The largest number of objects that are read from the text of one file.
const MAX_OUTLINES: usize = 200;

/// The objects that a text seems to define: API version, kind, name, namespace and literal labels. `name` stands for each
/// expression.
pub(crate) fn outline_objects(file: &Arc<str>, text: &str, name: &str) -> Vec<Object> {
    let mut outlines = Vec::new();
    let mut outline = Outline::default();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("---") {
            outlines.extend(std::mem::take(&mut outline).into_object(file));
        } else {
            outline.read_line(number, line, name);
        }
        if outlines.len() >= MAX_OUTLINES {
            return outlines;
        }
    }
    outlines.extend(outline.into_object(file));
    outlines.retain(|object| !is_program_version(&object.id.api_version));
    for object in outlines.iter_mut().filter(|object| object.id.name.is_empty()) {
        name.clone_into(&mut object.id.name);
    }
    outlines
}

/// The head of an object.
#[derive(Default)]
struct Outline {
    line: u32,
    api_version: String,
    kind: String,
    name: String,
    namespace: Option<String>,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    /// The keys of the mappings that are open, each with its indentation.
    open: Vec<(usize, String)>,
}

impl Outline {
    fn read_line(&mut self, number: u32, line: &str, name: &str) {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') || content.starts_with("{{") {
            return;
        }
        let Some((key, value)) = content.split_once(':') else { return };
        let indent = line.len() - content.len();
        while self.open.last().is_some_and(|(outer, _)| *outer >= indent) {
            self.open.pop();
        }
        let key = key.trim_matches(['"', '\'']);
        let value = replace_expressions(value.trim(), name);
        let path: Vec<&str> = self.open.iter().map(|(_, key)| key.as_str()).collect();
        match (path.as_slice(), key) {
            ([], "metadata") if value.starts_with('{') => self.read_flow(&value),
            ([], "kind") if self.kind.is_empty() => (self.kind, self.line) = (value, number),
            ([], "apiVersion") if self.api_version.is_empty() => self.api_version = value,
            (["metadata"], "name") => self.name = value,
            (["metadata"], "namespace") if !value.is_empty() => self.namespace = Some(value),
            (["metadata", "labels"], key) => drop(self.labels.insert(key.to_owned(), value.into())),
            (["metadata", "annotations"], key) => drop(self.annotations.insert(key.to_owned(), value.into())),
            _ => {}
        }
        if self.open.len() < 3 {
            self.open.push((indent, key.to_owned()));
        }
    }

    /// Reads metadata that is written in one line.
    fn read_flow(&mut self, value: &str) {
        let Some(document) = federate_yaml::read_stream(value.as_bytes()).documents.pop() else { return };
        let metadata = document.value;
        let [name, namespace] =
            ["name", "namespace"].map(|key| metadata.get(key).and_then(Value::as_str).map(str::to_owned));
        self.name = name.unwrap_or_default();
        self.namespace = namespace;
        [self.labels, self.annotations] = ["labels", "annotations"]
            .map(|key| metadata.get(key).and_then(Value::as_object).cloned().unwrap_or_default());
    }

    fn into_object(self, file: &Arc<str>) -> Option<Object> {
        let Self { line, mut api_version, kind, name, namespace, labels, annotations, .. } = self;
        if kind.is_empty() || kind.contains(['{', '$', '<', ' ']) {
            return None;
        }
        if !api_version.contains(|c: char| c.is_ascii_digit()) || api_version.contains([' ', '{']) {
            // An expression chooses the version: the preferred one stands for it.
            let group = kinds::api_groups().find(|group| group.find_scope(&kind).is_some())?;
            let version = group.versions.split_whitespace().next().unwrap_or("v1");
            api_version = if group.group.is_empty() {
                version.to_owned()
            } else {
                format!("{}/{version}", group.group)
            };
        }
        let mut metadata = json!({"name": name, "labels": labels, "annotations": annotations});
        if let (Some(namespace), Some(metadata)) = (namespace, metadata.as_object_mut()) {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        let mut object = Object::from_manifest(body, file.clone());
        object.origin = Origin { line, ..object.origin };
        Some(object)
    }
}

/// A value without quotes and comments, in which `name` stands for each expression.
fn replace_expressions(value: &str, name: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    loop {
        let next = OPENINGS.iter().filter_map(|opening| Some((rest.find(opening)?, *opening))).min();
        let Some((at, opening)) = next else { break };
        let close = match opening {
            "{{" => "}}",
            "{%" => "%}",
            "<%" => "%>",
            _ => "}",
        };
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if opening != "{%" {
            out.push_str(name);
        }
        rest = from.find(close).and_then(|end| from.get(end + close.len()..)).unwrap_or_default();
    }
    out.push_str(rest.split(" #").next().unwrap_or_default());
    out.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syntax(text: &str) -> Option<(TemplateEngine, u32)> {
        find_engine_syntax(text).map(|found| (found.engine, found.line))
    }

    #[test]
    fn engines_are_told_apart_by_their_tags() {
        for (text, expected) in [
            ("{{- if .Values.a }}\nkind: A\n{{- end }}\n", Some((TemplateEngine::Go, 1))),
            ("kind: A\nname: {{ name }}\n", Some((TemplateEngine::Braces, 2))),
            ("name: {{ name }}\n{% if a %}\n", Some((TemplateEngine::Jinja, 1))),
            ("{% for a in b %}\nkind: A\n{% endfor %}\n", Some((TemplateEngine::Jinja, 1))),
            ("kind: A\n<% if a %>\n", Some((TemplateEngine::Erb, 2))),
            ("kind: A\n${EXTRA}\n", Some((TemplateEngine::Variables, 2))),
            ("kind: A\nname: %NAME%\n", Some((TemplateEngine::Placeholders, 2))),
            ("kind: A\nname: @x\n", None),
            ("a: |\n  {{ x }}\n  - b\nc: [\n", None),
            ("# {{ x }}\na: [\n", None),
            ("a: \"{{ x }}\"\nb: [\n", None),
            ("a: [\n", None),
        ] {
            assert_eq!(syntax(text), expected, "{text}");
        }
    }

    #[test]
    fn the_text_of_a_template_shows_its_objects() {
        let text = "{{- if .Values.web }}\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ include \
                    \"x.fullname\" . }}-web\n  namespace: shop # here\n  labels:\n    app: web\nspec:\n  template:\n    \
                    metadata:\n      name: other\n---\napiVersion: {{ x }}\nkind: StatefulSet\nmetadata:\n  name: \
                    \"{{ .Release.Name }}\"\n";
        let objects = outline_objects(&"a.yaml".into(), text, "api");
        let shown: Vec<_> = objects.iter().map(|o| format!("{} {}", o.id.api_version, o.id)).collect();
        assert_eq!(shown, ["apps/v1 Deployment shop/api-web", "apps/v1 StatefulSet api"]);
        assert_eq!(objects[0].label("app"), Some("web"));
        assert_eq!(objects[0].origin.line, 3);
        let flow = "kind: Pod\nmetadata: {name: {{ x }}-a, namespace: shop, labels: {app: web}}\n";
        let objects = outline_objects(&"a.yaml".into(), flow, "api");
        assert_eq!(
            (objects[0].id.namespaced_name().as_str(), objects[0].label("app")),
            ("shop/api-a", Some("web"))
        );
    }

    #[test]
    fn templates_of_another_program_use_none_of_our_variables() {
        assert!(is_for_another_program("kind: Pod\nmetadata: {name: {{ app.cluster }}}\n"));
        assert!(!is_for_another_program("kind: Pod\nmetadata: {name: {{ cluster.name }}}\n"));
        assert!(!is_for_another_program("kind: Pod\nmetadata: {name: {{ clutser.name }}}\n"));
        assert!(!is_for_another_program("kind: Pod\n"));
        assert!(is_for_another_program("#% if a %#\nkind: Pod\n#% endif %#\n"));
        assert!(!is_for_another_program("{{ nothing }}\n"));
    }
}
