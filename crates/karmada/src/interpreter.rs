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

use super::builtin_workload::{self, BuiltInFailure};
use super::dependencies::{self, DependentObjectReference};
use super::version::{KarmadaBehaviour, RELEASES};
use super::workload::Workload;

mod builtin;
mod explanation;
#[cfg(feature = "lua")]
mod operations;
#[cfg(feature = "lua")]
mod results;
mod rule;
mod script_check;
#[cfg(not(feature = "lua"))]
mod script_stubs;

pub use rule::CustomizationRule;

/// The kind of the objects that hold scripts.
const CUSTOMIZATION_KIND: &str = "ResourceInterpreterCustomization";

/// Interprets objects.
pub struct Interpreter<'a> {
    /// The scripts by API version and kind of their target, in the order in which they are asked.
    scripts: BTreeMap<&'a str, BTreeMap<&'a str, Vec<Script<'a>>>>,
    /// Customizations that are not run, in a build without Lua.
    not_run: Vec<&'a Object>,
    /// The rules of the release.
    behaviour: KarmadaBehaviour,
    /// The time that scripts see, in seconds since 1970.
    now: Option<i64>,
}

/// A script for one rule.
#[derive(Clone, Copy)]
struct Script<'a> {
    customization: &'a Object,
    rule: CustomizationRule,
    text: &'a str,
}

/// An interpreter that failed: a script, or one that is built in.
#[derive(Clone, Debug)]
pub struct InterpreterFailure {
    /// The kind of failure (`runtime`, `timeout`, `encode`, …).
    pub category: &'static str,
    /// What is wrong.
    pub message: String,
    /// The customization, with its place; the object itself where the interpreter is built in.
    pub customization: Box<Finding>,
}

impl InterpreterFailure {
    /// The failure of a built-in interpreter, about which nothing can be done but change the object.
    fn from_built_in(object: &Object, rule: CustomizationRule, failure: &BuiltInFailure) -> Self {
        let message = format!("`{}` of Karmada's interpreter fails: {}", rule.function_name(), failure.why);
        let place = Box::new(Finding::error("interpreter-failed", object, ""));
        Self { category: failure.category, message, customization: place }
    }

    /// The finding for an object. `what` says what does not happen to it.
    pub(super) fn to_finding(
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
    pub fn for_newest_release(others: impl Iterator<Item = &'a Object>, now: Option<Timestamp>) -> Self {
        Self::with_behaviour(others, now, KarmadaBehaviour::for_release(RELEASES.find_latest()))
    }

    /// The same for a release.
    pub(super) fn with_behaviour(
        others: impl Iterator<Item = &'a Object>,
        now: Option<Timestamp>,
        behaviour: KarmadaBehaviour,
    ) -> Self {
        let mut customizations: Vec<&Object> =
            others.filter(|object| object.id.kind == CUSTOMIZATION_KIND).collect();
        customizations.sort_by(|a, b| a.id.name.cmp(&b.id.name));
        let not_run = if cfg!(feature = "lua") { Vec::new() } else { customizations.clone() };
        let mut scripts: BTreeMap<&str, BTreeMap<&str, Vec<Script<'a>>>> = BTreeMap::new();
        for customization in customizations {
            let version = customization.text_at(&["spec", "target", "apiVersion"]);
            let kind = customization.text_at(&["spec", "target", "kind"]);
            let all = scripts.entry(version).or_default().entry(kind).or_default();
            all.extend(CustomizationRule::ALL.into_iter().filter_map(|rule| {
                let text = customization.text_at(&["spec", "customizations", rule.field_name(), "luaScript"]);
                (!text.is_empty()).then_some(Script { customization, rule, text })
            }));
        }
        if cfg!(not(feature = "lua")) {
            scripts.clear();
        }
        Self { scripts, not_run, behaviour, now: now.map(Timestamp::as_second) }
    }

    /// The scripts for a rule, in the order in which they are asked.
    fn scripts_for_rule(&self, id: &ObjectRef, rule: CustomizationRule) -> impl Iterator<Item = Script<'a>> {
        let of_kind = self.scripts.get(id.api_version.as_str()).and_then(|kinds| kinds.get(id.kind.as_str()));
        of_kind.into_iter().flatten().filter(move |script| script.rule == rule).copied()
    }

    /// Whether there is a script for a kind.
    pub(super) fn has_scripts(&self, id: &ObjectRef) -> bool {
        let of_kind = self.scripts.get(id.api_version.as_str()).and_then(|kinds| kinds.get(id.kind.as_str()));
        of_kind.is_some_and(|scripts| !scripts.is_empty())
    }

    /// Whether a script retains fields of the live objects of a kind.
    pub(super) fn has_retention_script(&self, id: &ObjectRef) -> bool {
        self.scripts_for_rule(id, CustomizationRule::Retention).next().is_some()
    }

    /// Whether a script counts the replicas of a kind.
    pub(super) fn has_replica_script(&self, id: &ObjectRef) -> bool {
        self.scripts_for_rule(id, CustomizationRule::Replicas).next().is_some()
    }

    /// The names of the customizations that answer for a rule.
    pub(super) fn find_customizations(&self, id: &ObjectRef, rule: CustomizationRule) -> Vec<&'a Object> {
        let most = if rule == CustomizationRule::Dependencies { usize::MAX } else { 1 };
        self.scripts_for_rule(id, rule).take(most).map(|script| script.customization).collect()
    }

    /// The replicas of a template, and what each one requests.
    pub(super) fn interpret_workload(&self, template: &Object) -> Result<Workload, InterpreterFailure> {
        let workload = match self.interpret_replicas(template) {
            Some(replicas) => Workload::from_answer(&replicas?),
            None => builtin_workload::interpret_workload(template, &self.behaviour).map_err(|failure| {
                InterpreterFailure::from_built_in(template, CustomizationRule::Replicas, &failure)
            })?,
        };
        Ok(workload.normalize_replicas(self.behaviour.zero_replicas))
    }

    /// The references of a template.
    pub(super) fn needed_by(
        &self,
        template: &Object,
    ) -> Result<Vec<DependentObjectReference>, InterpreterFailure> {
        match self.interpret_dependencies(template) {
            Some(references) => {
                Ok(references?.iter().filter_map(DependentObjectReference::from_json).collect())
            }
            None => dependencies::find_dependencies(template, &self.behaviour).map_err(|failure| {
                InterpreterFailure::from_built_in(template, CustomizationRule::Dependencies, &failure)
            }),
        }
    }

    /// The health of a live object, where a script interprets it.
    pub(super) fn interpret_health(&self, live: &Object) -> Option<Health> {
        let customization =
            self.find_customizations(&live.id, CustomizationRule::Health).into_iter().next()?;
        Some(match self.is_healthy(live)? {
            Ok(healthy) => Health::healthy_if(healthy, format!("{} says so", customization.id)),
            Err(failed) => Health::unknown(failed.message),
        })
    }

    /// The answer to an operation, by a script or built in; `None` where there is neither.
    pub fn answer_operation(
        &self,
        rule: CustomizationRule,
        object: &Object,
        input: &OperationInput<'_>,
    ) -> Option<Result<Value, InterpreterFailure>> {
        let scripted = match rule {
            CustomizationRule::Replicas => self.interpret_replicas(object),
            CustomizationRule::Components => self.interpret_components(object),
            CustomizationRule::Revision => self.revise_replicas(object, input.replicas),
            CustomizationRule::Retention => {
                self.retain_live_fields(&object.body, &input.live?.body, &object.id)
            }
            CustomizationRule::Health => self.is_healthy(object).map(|verdict| verdict.map(Value::Bool)),
            CustomizationRule::Dependencies => {
                self.interpret_dependencies(object).map(|found| found.map(Value::Array))
            }
            CustomizationRule::StatusReflection => self.reflect_status(object),
            CustomizationRule::StatusAggregation => self.aggregate_status(object, input.items),
        };
        scripted.or_else(|| {
            let answer = builtin::answer_operation(rule, object, input, &self.behaviour)?;
            Some(answer.map_err(|failure| InterpreterFailure::from_built_in(object, rule, &failure)))
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
