//! `*.j2` files: minijinja templates, rendered once for each cluster.
//!
//! They run in a sandbox: a template sees the cluster and the values of `federate.yaml`, nothing else
//! (no includes, no files, no environment, no clock), an undefined value is an error, and the steps,
//! the depth and the output of a rendering are limited. A line that holds nothing but a block tag
//! leaves nothing in the output.

use std::io::{self, Write};
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value as Jinja;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use rayon::prelude::*;
use serde_json::Value;

use super::source::File;
use super::uniform::{self, Variant};
use super::{Config, Template, load, sort};
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, Severity};
use federate_yaml::Position;

/// The steps of one rendering.
const FUEL: u64 = 1_000_000;

/// The depth of macros and blocks.
const DEPTH: usize = 100;

/// The most bytes one rendering may give.
const MAX_OUTPUT: usize = 16 << 20;

/// Renders `*.j2` files for clusters.
pub(crate) struct Renderer<'a> {
    environment: Environment<'static>,
    /// Every cluster with what templates see for it, sorted by name.
    clusters: Vec<(ClusterName, Jinja)>,
    scopes: &'a sort::Scopes,
    claims: &'a sort::Claiming<'a>,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(
        clusters: &[Cluster],
        config: &Config,
        scopes: &'a sort::Scopes,
        claims: &'a sort::Claiming<'a>,
    ) -> Self {
        let mut clusters: Vec<_> = clusters.iter().map(|c| (c.name.clone(), context(c, config))).collect();
        clusters.sort_by(|a, b| a.0.cmp(&b.0));
        Self { environment: environment(), clusters, scopes, claims }
    }

    /// The templates that a file gives. With an error in it, it gives none.
    pub(crate) fn expand(&self, file: &File) -> (Vec<Template>, Vec<Finding>) {
        match self.try_expand(file) {
            Ok(variants) => uniform::combine(&variants),
            Err(findings) => (Vec::new(), findings),
        }
    }

    /// What the file gives for each cluster; clusters for which it gives the same text stand together.
    fn try_expand(&self, file: &File) -> Result<Vec<Variant>, Vec<Finding>> {
        let source = std::str::from_utf8(&file.bytes)
            .map_err(|_| vec![invalid(file, None, "the template is not UTF-8".to_owned())])?;
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        let texts: Result<Vec<_>, _> = self
            .clusters
            .par_iter()
            .map(|(cluster, context)| Ok((cluster, self.render(file, source, cluster, context)?)))
            .collect();
        let mut texts = texts.map_err(|finding: Box<Finding>| vec![*finding])?;
        texts.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(b.0)));
        let mut variants: Vec<(Vec<ClusterName>, &str)> = Vec::new();
        for (cluster, text) in &texts {
            match variants.last_mut().filter(|(_, same)| same == text) {
                Some((clusters, _)) => clusters.push((*cluster).clone()),
                None => variants.push((vec![(*cluster).clone()], text)),
            }
        }
        variants.sort();
        variants.into_par_iter().map(|(clusters, text)| self.read(file, source, clusters, text)).collect()
    }

    fn render(
        &self,
        file: &File,
        source: &str,
        cluster: &str,
        context: &Jinja,
    ) -> Result<String, Box<Finding>> {
        let mut output = Bounded(Vec::new());
        let rendered = self
            .environment
            .template_from_named_str(&file.path, source)
            .and_then(|template| template.render_captured_to(context.clone(), &mut output).map(drop));
        match rendered {
            Ok(()) => Ok(String::from_utf8_lossy(&output.0).into_owned()),
            Err(e) => {
                let why = match (e.kind(), e.detail()) {
                    (ErrorKind::WriteFailure, _) => format!("it gives more than {} MiB", MAX_OUTPUT >> 20),
                    (kind, Some(detail)) => format!("{kind}: {detail}"),
                    (kind, None) => kind.to_string(),
                };
                let message = format!("cannot be rendered for cluster {cluster}: {why}");
                Err(Box::new(invalid(file, place(&e, source), message)))
            }
        }
    }

    /// Reads one rendering; `Err` when anything in it is wrong.
    fn read(
        &self,
        file: &File,
        source: &str,
        clusters: Vec<ClusterName>,
        text: &str,
    ) -> Result<Variant, Vec<Finding>> {
        let cluster = clusters.first().map_or("", |name| name);
        let mut stream = federate_yaml::read(text.as_bytes());
        let errors = std::mem::take(&mut stream.errors);
        let mut findings: Vec<_> = errors
            .into_iter()
            .map(|e| {
                let Position { line, column } = e.at;
                let message = format!(
                    "what it gives for cluster {cluster} is not YAML, at line {line}, column {column} of it: {}",
                    e.message
                );
                Finding::in_file(Severity::Error, "invalid-yaml", &file.path, None, message)
            })
            .collect();
        let lines = document_lines(source, text);
        for document in &mut stream.documents {
            document.line = lines.of(document.line);
        }
        let contents = load::split(&file.path, stream);
        findings.extend(contents.findings);
        let mut objects = contents.objects;
        for object in &mut objects {
            self.scopes.apply(object);
            findings.extend(self.claimed(object));
        }
        let (objects, duplicates) = sort::unique(objects, |object| object);
        findings.extend(duplicates);
        if findings.is_empty() {
            Ok(Variant {
                clusters,
                objects: objects.into_iter().map(|o| (o.id.clone(), Arc::new(o))).collect(),
            })
        } else {
            Err(findings)
        }
    }

    fn claimed(&self, object: &Object) -> Option<Finding> {
        self.claims.role(object)?;
        let message = format!("{} decides placement, so it cannot come from a template", object.id);
        Some(
            Finding::error("invalid-template", object, message)
                .help("write it in a file without the ending `.j2`"),
        )
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(DEPTH);
    // Only so that errors know their place.
    environment.set_debug(true);
    environment.remove_global("debug");
    let syntax =
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    // The delimiters are the default ones, which are valid.
    environment.set_syntax(syntax.unwrap_or_default());
    environment
}

/// What templates see for a cluster.
fn context(cluster: &Cluster, config: &Config) -> Jinja {
    let text = |text: &str| Jinja::from(text);
    let zones: Vec<Jinja> = cluster.zones.iter().map(|zone| text(zone)).collect();
    let map = |entries: &std::collections::BTreeMap<String, String>| {
        Jinja::from_pairs(entries.iter().map(|(k, v)| (k.clone(), Jinja::from(v.as_str()))))
    };
    let of_cluster = [
        ("name", text(&cluster.name)),
        ("labels", map(&cluster.labels)),
        ("provider", text(&cluster.provider)),
        ("region", text(&cluster.region)),
        ("zone", text(cluster.zones.first().map_or("", |zone| zone))),
        ("zones", Jinja::from(zones)),
        ("properties", map(&cluster.properties)),
    ];
    let values = Value::Object(config.values_for(&cluster.name));
    Jinja::from_pairs([("cluster", Jinja::from_pairs(of_cluster)), ("values", jinja(&values))])
}

fn jinja(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(b) => Jinja::from(*b),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => Jinja::from(n),
            (None, Some(n)) => Jinja::from(n),
            (None, None) => Jinja::from(n.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Jinja::from(text.as_str()),
        Value::Array(items) => items.iter().map(jinja).collect(),
        Value::Object(map) => Jinja::from_pairs(map.iter().map(|(k, v)| (k.clone(), jinja(v)))),
    }
}

/// A buffer that refuses to grow beyond [`MAX_OUTPUT`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > MAX_OUTPUT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn invalid(file: &File, at: Option<Position>, message: String) -> Finding {
    Finding::in_file(Severity::Error, "invalid-template", &file.path, at, message)
}

/// The place of an error in the template.
fn place(e: &minijinja::Error, source: &str) -> Option<Position> {
    let line = u32::try_from(e.line()?).ok()?;
    let before = e.range().and_then(|range| source.get(..range.start)).unwrap_or_default();
    let (lines, start) = (before.matches('\n').count() + 1, before.rsplit('\n').next().unwrap_or_default());
    let column = if Ok(line) == u32::try_from(lines) { start.chars().count() + 1 } else { 1 };
    Some(Position { line, column: u32::try_from(column).unwrap_or(1) })
}

/// Finds the lines of a template that give the documents of a rendering.
struct DocumentLines {
    template: Vec<u32>,
    rendered: Vec<u32>,
}

impl DocumentLines {
    /// The line after the `---` in the template that a document follows, if template and rendering
    /// have the same number of them; otherwise the first line.
    fn of(&self, line: u32) -> u32 {
        let before = self.rendered.iter().filter(|separator| **separator <= line).count();
        let same = self.rendered.len() == self.template.len();
        match before.checked_sub(1).and_then(|last| self.template.get(last)) {
            Some(separator) if same => separator + 1,
            _ => 1,
        }
    }
}

fn document_lines(source: &str, text: &str) -> DocumentLines {
    let separators = |text: &str| {
        (1..).zip(text.lines()).filter(|(_, line)| line.trim_end() == "---").map(|(n, _)| n).collect()
    };
    DocumentLines { template: separators(source), rendered: separators(text) }
}

#[cfg(test)]
mod tests;
