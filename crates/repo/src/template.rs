//! `*.j2` files: minijinja templates, rendered for each cluster.
//!
//! Templates run in a sandbox. They can access the cluster and the values in `federate.yaml`, but no files,
//! includes, environment or clock, and an undefined value is an error. There are limits for depth
//! (`template/depth.rs`), sizes of values (`template/measure.rs`), steps, output, and for all renderings
//! together (`template/total.rs`). A line with only a block tag adds nothing to the output.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minijinja::machinery::{self, CodeGenerator, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value as Jinja;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use rayon::prelude::*;

use super::cluster_independent::{self, Variant};
use super::scope::Scopes;
use super::source::File;
use super::{Config, Template, load, sort};
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, Severity};
use federate_yaml::Position;

mod context;
mod depth;
mod filters;
mod guard;
mod lines;
mod measure;
mod total;

use total::{Amount, Total};

/// The largest template, in bytes.
const MAX_SOURCE: usize = 1 << 20;

/// The largest number of steps of one rendering.
const FUEL: u64 = 2_000_000;

/// The largest depth of macros and blocks.
const DEPTH: usize = 100;

/// The largest output of one rendering, in bytes.
const MAX_OUTPUT: usize = 8 << 20;

/// Limits of steps by which the cost of a rendering that fails is measured.
const PROBES: [u64; 2] = [2_000, 50_000];

/// How many clusters a file is rendered for before its cost is checked. The first cluster is rendered alone,
/// because most errors in a template concern every cluster.
const BATCH: usize = 8;

/// How many bytes of data count as one step.
const BYTES_PER_STEP: u64 = 16;

/// Renders `*.j2` files for clusters.
pub(crate) struct Renderer<'a> {
    environment: Environment<'static>,
    /// The same environment with fewer steps, for [`PROBES`].
    probes: [(u64, Environment<'static>); PROBES.len()],
    syntax: SyntaxConfig,
    /// Every cluster with its template context, sorted by name.
    clusters: Vec<(ClusterName, Jinja)>,
    /// The cost of all renderings together.
    total: Total,
    scopes: &'a Scopes,
    claims: &'a sort::ClaimTable<'a>,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(
        clusters: &[Cluster],
        config: &Config,
        templates: usize,
        scopes: &'a Scopes,
        claims: &'a sort::ClaimTable<'a>,
    ) -> Self {
        let mut clusters: Vec<_> =
            clusters.iter().map(|c| (c.name.clone(), context::context(c, config))).collect();
        clusters.sort_by(|a, b| a.0.cmp(&b.0));
        let (environment, syntax) = environment();
        let probes = PROBES.map(|steps| {
            let mut environment = environment.clone();
            environment.set_fuel(Some(steps));
            (steps, environment)
        });
        let total = Total::new(templates, clusters.len());
        Self { environment, probes, syntax, clusters, total, scopes, claims }
    }

    /// The cost of all files together.
    pub(crate) fn total(&self) -> &Total {
        &self.total
    }

    /// The templates of a file; none if it has errors.
    pub(crate) fn expand(&self, file: &File) -> (Vec<Template>, Vec<Finding>) {
        match self.try_expand(file) {
            Ok(variants) => {
                let (templates, mut findings) = cluster_independent::combine(&variants, self.claims.claims);
                let mut warned = BTreeSet::new();
                let warnings = variants.iter().flat_map(|variant| &variant.warnings);
                findings.extend(warnings.filter(|warning| warned.insert(&warning.message)).cloned());
                (templates, findings)
            }
            Err(findings) => (Vec::new(), findings),
        }
    }

    /// The objects of the file for each cluster; clusters with the same text share an entry.
    fn try_expand(&self, file: &File) -> Result<Vec<Variant>, Vec<Finding>> {
        let source = std::str::from_utf8(&file.bytes)
            .map_err(|_| vec![invalid(file, None, "the template is not UTF-8".to_owned())])?;
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        if let Some(conflict) = federate_yaml::find_conflict(&file.bytes) {
            return Err(vec![invalid(file, Some(conflict.at), conflict.message)]);
        }
        let compiled = self.compile(file, source).map_err(|finding| vec![*finding])?;
        let texts = self.texts(&compiled, file, source)?;
        let mut variants: Vec<_> = texts.into_iter().map(|(text, clusters)| (clusters, text)).collect();
        variants.sort();
        // Of several errors, the first in order counts: collecting in parallel would take any of them.
        let read: Vec<Result<Variant, Vec<Finding>>> = variants
            .into_par_iter()
            .map(|(clusters, text)| self.read(file, source, clusters, &text))
            .collect();
        read.into_iter().collect()
    }

    /// The texts of the file, with their clusters. Reports the first cluster in order that fails.
    fn texts(
        &self,
        compiled: &Compiled<'_>,
        file: &File,
        source: &str,
    ) -> Result<BTreeMap<String, Vec<ClusterName>>, Vec<Finding>> {
        let refuse = |at, message| Err(vec![invalid(file, at, message)]);
        let mut texts = BTreeMap::<String, Vec<ClusterName>>::new();
        let mut taken = Amount::default();
        let (first, others) = self.clusters.split_at(self.clusters.len().min(1));
        for clusters in first.chunks(1).chain(others.chunks(BATCH)) {
            let rendered: Vec<_> =
                clusters.par_iter().map(|(_, context)| self.metered(compiled, context)).collect();
            for ((cluster, _), result) in clusters.iter().zip(rendered) {
                // The limit for all templates together is exceeded: `Total` has the error.
                let Some((result, work)) = result else { return Err(Vec::new()) };
                let text = match result {
                    Ok(text) => text,
                    Err(e) => {
                        let message = format!("cannot be rendered for cluster {cluster}: {}", why(&e));
                        return refuse(place(&e, source), message);
                    }
                };
                taken.work += work;
                if !texts.contains_key(&text) {
                    let output = u64::try_from(text.len()).unwrap_or(u64::MAX);
                    taken.output += output;
                    self.total.add(Amount { work: 0, output });
                }
                texts.entry(text).or_default().push(cluster.clone());
            }
            if let Some(what) = self.total.part_exceeded(taken) {
                return refuse(None, format!("rendering it for all clusters takes {what}"));
            }
        }
        Ok(texts)
    }

    fn compile<'s>(&self, file: &'s File, source: &'s str) -> Result<Compiled<'s>, Box<Finding>> {
        if source.len() > MAX_SOURCE {
            let message = format!("the template is larger than {} MiB: split it", MAX_SOURCE >> 20);
            return Err(Box::new(invalid(file, None, message)));
        }
        depth::check(source, &self.syntax).map_err(|depth::TooDeep { at, message }| {
            let at = Position { line: at.start_line.into(), column: u32::from(at.start_col) + 1 };
            Box::new(invalid(file, Some(at), message))
        })?;
        let parsed = machinery::parse(source, &file.path, self.syntax.clone()).map_err(|e| {
            Box::new(invalid(file, place(&e, source), format!("cannot be rendered: {}", why(&e))))
        })?;
        let mut generator = CodeGenerator::new(&file.path, source);
        generator.compile_stmt(&guard::statement(&parsed));
        let (instructions, blocks) = generator.finish();
        Ok(Compiled { instructions, blocks })
    }

    /// The text for a cluster and its work, which is added to the total. `None` if the total is exceeded already.
    fn metered(
        &self,
        compiled: &Compiled<'_>,
        context: &Jinja,
    ) -> Option<(Result<String, minijinja::Error>, u64)> {
        if self.total.is_exceeded() {
            return None;
        }
        let (result, work) = match Self::render(&self.environment, compiled, context) {
            Ok((text, work)) => (Ok(text), work),
            Err(e) => {
                let work = self.work_until(&e, compiled, context);
                (Err(e), work)
            }
        };
        self.total.add(Amount { work, output: 0 });
        Some((result, work))
    }

    /// About how many steps a rendering takes until it fails. The engine does not report it, so the rendering is
    /// repeated with fewer steps until it fails for lack of them.
    fn work_until(&self, e: &minijinja::Error, compiled: &Compiled<'_>, context: &Jinja) -> u64 {
        if e.kind() == ErrorKind::OutOfFuel {
            return FUEL;
        }
        let enough = |environment| match Self::render(environment, compiled, context) {
            Ok(_) => true,
            Err(e) => e.kind() != ErrorKind::OutOfFuel,
        };
        let probe = self.probes.iter().find(|(_, environment)| enough(environment));
        probe.map_or(FUEL, |(steps, _)| *steps)
    }

    /// The text for a cluster, and its work.
    fn render(
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
        let work = steps + measure::handled(&state) / BYTES_PER_STEP;
        if text.len() > MAX_OUTPUT {
            return Err(measure::limit(format!("its output is larger than {} MiB", MAX_OUTPUT >> 20)));
        }
        Ok((text, work))
    }

    /// Parses one rendering; `Err` if it contains any error.
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
            document.line = lines.of(document.line);
            // Items get the line of their list.
            document.item_lines.clear();
        }
        let contents = load::split(&file.path, stream);
        findings.extend(contents.findings);
        let mut objects = contents.objects;
        for object in &mut objects {
            self.scopes.apply(object, self.claims.claims);
            findings.extend(self.claimed(object));
        }
        let (objects, duplicates) = sort::unique(objects, |object| object);
        findings.extend(duplicates);
        if findings.is_empty() {
            Ok(Variant {
                clusters,
                objects: objects.into_iter().map(|o| (o.id.clone(), Arc::new(o))).collect(),
                warnings: warnings
                    .into_iter()
                    .map(|warning| output_warning(&file.path, warning, &lines))
                    .collect(),
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
                .help("write it in a file without the extension `.j2`"),
        )
    }
}

/// A compiled template.
struct Compiled<'s> {
    instructions: Instructions<'s>,
    blocks: BTreeMap<&'s str, Instructions<'s>>,
}

fn environment() -> (Environment<'static>, SyntaxConfig) {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(DEPTH);
    // Only set so that errors have a place.
    environment.set_debug(true);
    environment.remove_global("debug");
    filters::limited(&mut environment);
    let syntax =
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    // The default delimiters are valid.
    let syntax = syntax.unwrap_or_default();
    environment.set_syntax(syntax.clone());
    (environment, syntax)
}

/// Messages of the engine that contain operators and types only; other messages may contain values.
const WITHOUT_VALUES: [&str; 3] = ["tried to use ", "value of type ", "strings can only be multiplied"];

/// Why a rendering failed, without values, which may be secret.
fn why(e: &minijinja::Error) -> String {
    if let Some(limit) = measure::reached(e) {
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
        (_, Some(detail)) if WITHOUT_VALUES.iter().any(|start| detail.starts_with(start)) => Some(detail),
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
fn output_warning(path: &Arc<str>, warning: federate_yaml::Warning, lines: &lines::DocumentLines) -> Finding {
    let Position { line, column } = warning.at;
    let at = Position { line: lines.of(line), column: 1 };
    let message = format!("at line {line}, column {column} of the output: {}", warning.message);
    load::yaml_warning(path, federate_yaml::Warning { at, message, ..warning })
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

#[cfg(test)]
mod tests;
