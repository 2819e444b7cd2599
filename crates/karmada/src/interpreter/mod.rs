//! The resource interpreter: the repo's `ResourceInterpreterCustomization`s, and Karmada's built-in interpreters
//! for the rules without a script.
//!
//! Facts: customizations are sorted by name. The first with a script for a rule answers alone, even if it
//! fails; for dependencies, all scripts answer together.

use std::collections::BTreeMap;

use federate_dialect::Health;
use federate_kubernetes::{Finding, Object, ObjectRef, Severity};
use jiff::Timestamp;
use serde_json::Value;

use super::dependencies::{self, Dependency};
use super::interpret::{self, BuiltInFailure};
use super::version::{Behaviour, RELEASES};
use super::workload::Workload;

mod builtin;
mod check;
mod explain;
#[cfg(feature = "lua")]
mod operations;
#[cfg(feature = "lua")]
mod results;
mod rule;
#[cfg(not(feature = "lua"))]
mod unscripted;

pub use rule::Rule;

/// The kind of the objects that hold scripts.
const KIND: &str = "ResourceInterpreterCustomization";

/// Interprets objects.
pub struct Interpreter<'a> {
    /// The scripts by API version and kind of their target, in the order in which they are asked.
    scripts: BTreeMap<&'a str, BTreeMap<&'a str, Vec<Script<'a>>>>,
    /// Customizations that are not run, in a build without Lua.
    not_run: Vec<&'a Object>,
    /// The rules of the release.
    behaviour: Behaviour,
    /// The time that scripts see, in seconds since 1970.
    now: Option<i64>,
}

/// A script for one rule.
#[derive(Clone, Copy)]
struct Script<'a> {
    customization: &'a Object,
    rule: Rule,
    text: &'a str,
}

/// An interpreter that failed: a script, or one that is built in.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The kind of failure (`runtime`, `timeout`, `encode`, …).
    pub category: &'static str,
    /// What is wrong.
    pub message: String,
    /// The customization, with its place; the object itself where the interpreter is built in.
    pub customization: Box<Finding>,
}

impl Failed {
    /// The failure of a built-in interpreter, about which nothing can be done but change the object.
    fn of_built_in(object: &Object, rule: Rule, failure: &BuiltInFailure) -> Self {
        let message = format!("`{}` of Karmada's interpreter fails: {}", rule.function(), failure.why);
        let place = Box::new(Finding::error("interpreter-failed", object, ""));
        Self { category: failure.category, message, customization: place }
    }

    /// The finding for an object. `what` says what does not happen to it.
    pub(super) fn finding(
        &self,
        severity: Severity,
        code: &'static str,
        object: &ObjectRef,
        what: &str,
    ) -> Finding {
        let place = self.customization.as_ref().clone();
        // The message may quote values of the object.
        let why = if object.kind == "Secret" { "the script fails" } else { &self.message };
        let message = format!("{object} {what}: {why}");
        Finding { severity, code, object: Some(object.clone()), message, ..place }
    }
}

impl<'a> Interpreter<'a> {
    /// Reads those of `others` that are customizations, for the newest release. Scripts see `now`.
    pub fn of(others: impl Iterator<Item = &'a Object>, now: Option<Timestamp>) -> Self {
        Self::with(others, now, Behaviour::of(RELEASES.latest()))
    }

    /// The same for a release.
    pub(super) fn with(
        others: impl Iterator<Item = &'a Object>,
        now: Option<Timestamp>,
        behaviour: Behaviour,
    ) -> Self {
        let mut customizations: Vec<&Object> = others.filter(|object| object.id.kind == KIND).collect();
        customizations.sort_by(|a, b| a.id.name.cmp(&b.id.name));
        let not_run = if cfg!(feature = "lua") { Vec::new() } else { customizations.clone() };
        let mut scripts: BTreeMap<&str, BTreeMap<&str, Vec<Script<'a>>>> = BTreeMap::new();
        for customization in customizations {
            let target = |key| customization.text(&["spec", "target", key]);
            let all = scripts.entry(target("apiVersion")).or_default().entry(target("kind")).or_default();
            all.extend(Rule::ALL.into_iter().filter_map(|rule| {
                let text = customization.text(&["spec", "customizations", rule.field(), "luaScript"]);
                (!text.is_empty()).then_some(Script { customization, rule, text })
            }));
        }
        if cfg!(not(feature = "lua")) {
            scripts.clear();
        }
        Self { scripts, not_run, behaviour, now: now.map(Timestamp::as_second) }
    }

    /// The scripts for a rule, in the order in which they are asked.
    fn scripts(&self, id: &ObjectRef, rule: Rule) -> impl Iterator<Item = Script<'a>> {
        let of_kind = self.scripts.get(id.api_version.as_str()).and_then(|kinds| kinds.get(id.kind.as_str()));
        of_kind.into_iter().flatten().filter(move |script| script.rule == rule).copied()
    }

    /// Whether there is a script for a kind.
    pub(super) fn has_scripts(&self, id: &ObjectRef) -> bool {
        let of_kind = self.scripts.get(id.api_version.as_str()).and_then(|kinds| kinds.get(id.kind.as_str()));
        of_kind.is_some_and(|scripts| !scripts.is_empty())
    }

    /// Whether a script retains fields of the live objects of a kind.
    pub(super) fn retains(&self, id: &ObjectRef) -> bool {
        self.scripts(id, Rule::Retention).next().is_some()
    }

    /// Whether a script counts the replicas of a kind.
    pub(super) fn counts(&self, id: &ObjectRef) -> bool {
        self.scripts(id, Rule::Replicas).next().is_some()
    }

    /// The names of the customizations that answer for a rule.
    pub(super) fn customizations(&self, id: &ObjectRef, rule: Rule) -> Vec<&'a Object> {
        let most = if rule == Rule::Dependencies { usize::MAX } else { 1 };
        self.scripts(id, rule).take(most).map(|script| script.customization).collect()
    }

    /// The replicas of a template, and what each one requests.
    pub(super) fn workload(&self, template: &Object) -> Result<Workload, Failed> {
        let workload = match self.replicas(template) {
            Some(replicas) => Workload::of_answer(&replicas?),
            None => interpret::workload(template, &self.behaviour)
                .map_err(|failure| Failed::of_built_in(template, Rule::Replicas, &failure))?,
        };
        Ok(workload.normalize_replicas(self.behaviour.zero_replicas))
    }

    /// The references of a template.
    pub(super) fn needed_by(&self, template: &Object) -> Result<Vec<Dependency>, Failed> {
        match self.references(template) {
            Some(references) => Ok(references?.iter().filter_map(Dependency::of_reference).collect()),
            None => dependencies::find_dependencies(template, &self.behaviour)
                .map_err(|failure| Failed::of_built_in(template, Rule::Dependencies, &failure)),
        }
    }

    /// The health of a live object, where a script interprets it.
    pub(super) fn health(&self, live: &Object) -> Option<Health> {
        let customization = self.customizations(&live.id, Rule::Health).into_iter().next()?;
        Some(match self.is_healthy(live)? {
            Ok(healthy) => Health::of(healthy, format!("{} says so", customization.id)),
            Err(failed) => Health::unknown(failed.message),
        })
    }

    /// The answer to an operation, by a script or built in; `None` where there is neither.
    pub fn answer(
        &self,
        rule: Rule,
        object: &Object,
        input: &OperationInput<'_>,
    ) -> Option<Result<Value, Failed>> {
        let scripted = match rule {
            Rule::Replicas => self.replicas(object),
            Rule::Components => self.components(object),
            Rule::Revision => self.revised(object, input.replicas),
            Rule::Retention => self.retained(&object.body, &input.live?.body, &object.id),
            Rule::Health => self.is_healthy(object).map(|verdict| verdict.map(Value::Bool)),
            Rule::Dependencies => self.references(object).map(|found| found.map(Value::Array)),
            Rule::StatusReflection => self.reflected(object),
            Rule::StatusAggregation => self.aggregated(object, input.items),
        };
        scripted.or_else(|| {
            let answer = builtin::answer(rule, object, input, &self.behaviour)?;
            Some(answer.map_err(|failure| Failed::of_built_in(object, rule, &failure)))
        })
    }
}

/// The inputs of an operation besides the object.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperationInput<'a> {
    /// The live object, for `retention`.
    pub live: Option<&'a Object>,
    /// The number of replicas, for `replicaRevision`.
    pub replicas: i64,
    /// The reports of members, for `statusAggregation`.
    pub items: Option<&'a Value>,
}
