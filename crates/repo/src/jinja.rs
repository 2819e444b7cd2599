//! `*.j2` files: minijinja templates, rendered for each cluster.
//!
//! Templates run in a sandbox. They can access the cluster and the values in `federate.yaml`, but no files,
//! includes, environment or clock, and an undefined value is an error. There are limits for depth
//! (`jinja/depth.rs`), sizes of values (`jinja/measure.rs`), steps, output, and for all renderings
//! together (`jinja/total.rs`). A line with only a block tag adds nothing to the output.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minijinja::machinery::{self, CodeGenerator, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value as Jinja;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use rayon::prelude::*;

use super::cluster_independent::{self, RenderedVariant};
use super::duplicates::{Duplicate, objects_differ, separate_duplicates};
use super::scope::Scopes;
use super::{Config, Template, classification, documents};
use federate_file_tree::RepoFile;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, Severity};
use federate_yaml::Position;

mod context;
mod depth;
mod filters;
mod guard;
mod lines;
mod measure;
mod total;

use total::{RenderingBudget, RenderingCost};

/// The largest template, in bytes.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// The largest number of steps of one rendering.
const MAX_STEPS: u64 = 2_000_000;

/// The largest depth of macros and blocks.
const MAX_RECURSION: usize = 100;

/// The largest output of one rendering, in bytes.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// Limits of steps by which the cost of a rendering that fails is measured.
const PROBE_STEPS: [u64; 2] = [2_000, 50_000];

/// How many clusters a file is rendered for before its cost is checked. The first cluster is rendered alone,
/// because most errors in a template concern every cluster.
const BATCH_SIZE: usize = 8;

/// How many bytes of data count as one step.
const BYTES_PER_STEP: u64 = 16;

/// Renders `*.j2` files for clusters.
pub(crate) struct Renderer<'a> {
    environment: Environment<'static>,
    /// The same environment with fewer steps, for [`PROBE_STEPS`].
    probes: [(u64, Environment<'static>); PROBE_STEPS.len()],
    syntax: SyntaxConfig,
    /// Every cluster with its template context, sorted by name.
    clusters: Vec<(ClusterName, Jinja)>,
    /// The cost of all renderings together.
    total: RenderingBudget,
    scopes: &'a Scopes,
    claims: &'a classification::ClaimTable<'a>,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(
        clusters: &[Cluster],
        config: &Config,
        templates: usize,
        scopes: &'a Scopes,
        claims: &'a classification::ClaimTable<'a>,
    ) -> Self {
        let mut clusters: Vec<_> =
            clusters.iter().map(|c| (c.name.clone(), context::build_context(c, config))).collect();
        clusters.sort_by(|a, b| a.0.cmp(&b.0));
        let (environment, syntax) = create_environment();
        let probes = PROBE_STEPS.map(|steps| {
            let mut environment = environment.clone();
            environment.set_fuel(Some(steps));
            (steps, environment)
        });
        let total = RenderingBudget::new(templates, clusters.len());
        Self { environment, probes, syntax, clusters, total, scopes, claims }
    }

    /// The cost of all files together.
    pub(crate) fn total(&self) -> &RenderingBudget {
        &self.total
    }

    /// The templates of a file; none if it has errors.
    pub(crate) fn expand_file(&self, file: &RepoFile) -> (Vec<Template>, Vec<Finding>) {
        match self.try_expand(file) {
            Ok(variants) => {
                let (templates, mut findings) =
                    cluster_independent::combine_variants(&variants, self.claims.claims);
                let mut warned = BTreeSet::new();
                let warnings = variants.iter().flat_map(|variant| &variant.warnings);
                findings.extend(warnings.filter(|warning| warned.insert(&warning.message)).cloned());
                (templates, findings)
            }
            Err(findings) => (Vec::new(), findings),
        }
    }

    /// The objects of the file for each cluster; clusters with the same text share an entry.
    fn try_expand(&self, file: &RepoFile) -> Result<Vec<RenderedVariant>, Vec<Finding>> {
        let source = std::str::from_utf8(&file.bytes)
            .map_err(|_| vec![template_error(file, None, "the template is not UTF-8".to_owned())])?;
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        if let Some(conflict) = federate_yaml::find_conflict(&file.bytes) {
            return Err(vec![template_error(file, Some(conflict.at), conflict.message)]);
        }
        let compiled = self.compile_template(file, source).map_err(|finding| vec![*finding])?;
        let texts = self.render_texts(&compiled, file, source)?;
        let mut variants: Vec<_> = texts.into_iter().map(|(text, clusters)| (clusters, text)).collect();
        variants.sort();
        // Of several errors, the first in order counts: collecting in parallel would take any of them.
        let read: Vec<Result<RenderedVariant, Vec<Finding>>> = variants
            .into_par_iter()
            .map(|(clusters, text)| self.parse_rendering(file, source, clusters, &text))
            .collect();
        read.into_iter().collect()
    }

    /// The texts of the file, with their clusters. Reports the first cluster in order that fails.
    fn render_texts(
        &self,
        compiled: &Compiled<'_>,
        file: &RepoFile,
        source: &str,
    ) -> Result<BTreeMap<String, Vec<ClusterName>>, Vec<Finding>> {
        let mut texts = BTreeMap::<String, Vec<ClusterName>>::new();
        let mut taken = RenderingCost::default();
        let (first, others) = self.clusters.split_at(self.clusters.len().min(1));
        for clusters in first.chunks(1).chain(others.chunks(BATCH_SIZE)) {
            let rendered: Vec<_> =
                clusters.par_iter().map(|(_, context)| self.render_metered(compiled, context)).collect();
            for ((cluster, _), result) in clusters.iter().zip(rendered) {
                // The limit for all templates together is exceeded: `Total` has the error.
                let Some((result, work)) = result else { return Err(Vec::new()) };
                let text = match result {
                    Ok(text) => text,
                    Err(e) => {
                        let message =
                            format!("cannot be rendered for cluster {cluster}: {}", describe_error(&e));
                        return Err(vec![template_error(file, locate_error(&e, source), message)]);
                    }
                };
                taken.work += work;
                if !texts.contains_key(&text) {
                    let output = u64::try_from(text.len()).unwrap_or(u64::MAX);
                    taken.output += output;
                    self.total.add_cost(RenderingCost { work: 0, output });
                }
                texts.entry(text).or_default().push(cluster.clone());
            }
            if let Some(what) = self.total.part_exceeded(taken) {
                let message = format!("rendering it for all clusters takes {what}");
                return Err(vec![template_error(file, None, message)]);
            }
        }
        Ok(texts)
    }

    fn compile_template<'s>(
        &self,
        file: &'s RepoFile,
        source: &'s str,
    ) -> Result<Compiled<'s>, Box<Finding>> {
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("the template is larger than {} MiB: split it", MAX_SOURCE_BYTES >> 20);
            return Err(Box::new(template_error(file, None, message)));
        }
        depth::check_depth(source, &self.syntax).map_err(|depth::TooDeep { at, message }| {
            let at = Position { line: at.start_line.into(), column: u32::from(at.start_col) + 1 };
            Box::new(template_error(file, Some(at), message))
        })?;
        let parsed = machinery::parse(source, &file.path, self.syntax.clone()).map_err(|e| {
            Box::new(template_error(
                file,
                locate_error(&e, source),
                format!("cannot be rendered: {}", describe_error(&e)),
            ))
        })?;
        let mut generator = CodeGenerator::new(&file.path, source);
        generator.compile_stmt(&guard::guard_statement(&parsed));
        let (instructions, blocks) = generator.finish();
        Ok(Compiled { instructions, blocks })
    }

    /// The text for a cluster and its work, which is added to the total. `None` if the total is exceeded already.
    fn render_metered(
        &self,
        compiled: &Compiled<'_>,
        context: &Jinja,
    ) -> Option<(Result<String, minijinja::Error>, u64)> {
        if self.total.is_exceeded() {
            return None;
        }
        let (result, work) = match Self::render_text(&self.environment, compiled, context) {
            Ok((text, work)) => (Ok(text), work),
            Err(e) => {
                let work = self.work_until(&e, compiled, context);
                (Err(e), work)
            }
        };
        self.total.add_cost(RenderingCost { work, output: 0 });
        Some((result, work))
    }

    /// About how many steps a rendering takes until it fails. The engine does not report it, so the rendering is
    /// repeated with fewer steps until it fails for lack of them.
    fn work_until(&self, e: &minijinja::Error, compiled: &Compiled<'_>, context: &Jinja) -> u64 {
        if e.kind() == ErrorKind::OutOfFuel {
            return MAX_STEPS;
        }
        let probe = self.probes.iter().find(|(_, environment)| {
            let result = Self::render_text(environment, compiled, context);
            result.err().is_none_or(|e| e.kind() != ErrorKind::OutOfFuel)
        });
        probe.map_or(MAX_STEPS, |(steps, _)| *steps)
    }

    /// The text for a cluster, and its work.
    fn render_text(
        environment: &Environment<'static>,
        compiled: &Compiled<'_>,
        context: &Jinja,
    ) -> Result<(String, u64), minijinja::Error> {
        let mut text = String::new();
        let mut output = machinery::make_string_output(&mut text);
        let Compiled { instructions, blocks } = compiled;
        let none = AutoEscape::None;
        let (_, state) =
            machinery::eval(environment, instructions, context.clone(), blocks, &mut output, none)?;
        let (steps, _) = state.fuel_levels().unwrap_or_default();
        let work = steps + measure::handled_bytes(&state) / BYTES_PER_STEP;
        if text.len() > MAX_OUTPUT_BYTES {
            return Err(measure::limit_error(format!(
                "its output is larger than {} MiB",
                MAX_OUTPUT_BYTES >> 20
            )));
        }
        Ok((text, work))
    }

    /// Parses one rendering; `Err` if it contains any error.
    fn parse_rendering(
        &self,
        file: &RepoFile,
        source: &str,
        clusters: Vec<ClusterName>,
        text: &str,
    ) -> Result<RenderedVariant, Vec<Finding>> {
        let cluster = clusters.first().map_or("", |name| name);
        let mut stream = federate_yaml::read_stream(text.as_bytes());
        let errors = std::mem::take(&mut stream.errors);
        let warnings = std::mem::take(&mut stream.warnings);
        let mut findings: Vec<_> = errors
            .into_iter()
            .map(|e| {
                let Position { line, column } = e.at;
                let message = format!(
                    "the output for cluster {cluster} is not YAML, at line {line}, column {column} of the output: {}",
                    e.message
                );
                Finding::in_file(Severity::Error, "invalid-yaml", &file.path, None, message)
            })
            .collect();
        let lines = lines::DocumentLines::new(source, text);
        for document in &mut stream.documents {
            document.line = lines.find_template_line(document.line);
            // Items get the line of their list.
            document.item_lines.clear();
        }
        let contents = documents::split_documents(&file.path, stream);
        findings.extend(contents.findings);
        let mut objects = contents.objects;
        for object in &mut objects {
            self.scopes.normalize_namespace(object, self.claims.claims);
            findings.extend(self.reject_claimed(object));
        }
        let (objects, duplicates) = separate_duplicates(objects, |object| object, objects_differ);
        findings.extend(duplicates.iter().map(Duplicate::to_finding));
        if findings.is_empty() {
            Ok(RenderedVariant {
                clusters,
                objects: objects.into_iter().map(|o| (o.id.clone(), Arc::new(o))).collect(),
                warnings: warnings
                    .into_iter()
                    .map(|warning| output_warning(&file.path, &warning, &lines))
                    .collect(),
            })
        } else {
            Err(findings)
        }
    }

    fn reject_claimed(&self, object: &Object) -> Option<Finding> {
        self.claims.role_of_object(object)?;
        let message = format!("{} decides placement, so it cannot come from a template", object.id);
        Some(
            Finding::error("invalid-template", object, message)
                .with_help("write it in a file without the extension `.j2`"),
        )
    }
}

/// A compiled template.
struct Compiled<'s> {
    instructions: Instructions<'s>,
    blocks: BTreeMap<&'s str, Instructions<'s>>,
}

fn create_environment() -> (Environment<'static>, SyntaxConfig) {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_RECURSION);
    // Only set so that errors have a place.
    environment.set_debug(true);
    environment.remove_global("debug");
    filters::add_limits(&mut environment);
    let syntax =
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    // The default delimiters are valid.
    let syntax = syntax.unwrap_or_default();
    environment.set_syntax(syntax.clone());
    (environment, syntax)
}

/// Messages of the engine that contain operators and types only; other messages may contain values.
const VALUE_FREE_MESSAGES: [&str; 3] = ["tried to use ", "value of type ", "strings can only be multiplied"];

/// Why a rendering failed, without values, which may be secret.
fn describe_error(e: &minijinja::Error) -> String {
    if let Some(limit) = measure::find_limit(e) {
        return limit.to_string();
    }
    let shown = match (e.kind(), e.detail()) {
        (
            ErrorKind::SyntaxError
            | ErrorKind::UndefinedError
            | ErrorKind::UnknownFilter
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownMethod
            | ErrorKind::TemplateNotFound
            | ErrorKind::MissingArgument,
            detail,
        ) => detail,
        (_, Some(detail)) if VALUE_FREE_MESSAGES.iter().any(|start| detail.starts_with(start)) => {
            Some(detail)
        }
        _ => None,
    };
    match shown {
        Some(detail) => format!("{}: {}", e.kind(), detail.chars().take(300).collect::<String>()),
        None if e.detail().is_some_and(|detail| detail.contains("recursion")) => {
            "the recursion is too deep".to_owned()
        }
        None => e.kind().to_string(),
    }
}

/// The finding about what `kubectl` reads differently than it looks in the output of a file.
fn output_warning(
    path: &Arc<str>,
    warning: &federate_yaml::Warning,
    lines: &lines::DocumentLines,
) -> Finding {
    let Position { line, column } = warning.at;
    let at = Position { line: lines.find_template_line(line), column: 1 };
    let message = format!("at line {line}, column {column} of the output: {}", warning.message);
    documents::yaml_warning(path, federate_yaml::Warning { at, message, ..warning.clone() })
}

fn template_error(file: &RepoFile, at: Option<Position>, message: String) -> Finding {
    Finding::in_file(Severity::Error, "invalid-template", &file.path, at, message)
}

/// The place of an error in the template.
fn locate_error(e: &minijinja::Error, source: &str) -> Option<Position> {
    let line = u32::try_from(e.line()?).ok()?;
    let before = e.range().and_then(|range| source.get(..range.start)).unwrap_or_default();
    let (lines, start) = (before.matches('\n').count() + 1, before.rsplit('\n').next().unwrap_or_default());
    let column = if Ok(line) == u32::try_from(lines) { start.chars().count() + 1 } else { 1 };
    Some(Position { line, column: u32::try_from(column).unwrap_or(1) })
}

#[cfg(test)]
mod tests;
