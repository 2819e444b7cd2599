//! What an API server drops or refuses of an object in a repo, with the place of each problem.
//!
//! Facts: the types, the defaults and the validation of this crate. A field that is not declared is dropped, unless
//! the client asks for strict validation (`kubectl` does). A value of a wrong type is always refused, and so is an
//! item of a list whose key occurs twice, in server-side apply.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use federate_kubernetes::pointer::{escape, unescape};
use federate_kubernetes::schema::find_nearest;
use federate_kubernetes::selector::{invalid_key, invalid_value};

use super::completion::complete_object;
use super::failure::{ApiError, StatusCause};
use super::fields::{PathElement, element_of};
use super::kinds::ResourceKind;
use super::schema::{ListType, Type};
use super::strategy;
use super::values::{has_flag, list_at, text_at, text_below};
use super::{WriteOptions, normalization};

mod misplaced_fields;
mod others;
mod path;
mod pods;
mod releases;
mod scheduling;
mod words;

pub use path::{near_metadata_path, near_path};
pub use releases::{ReleaseAddition, find_release_additions};

/// The version of Kubernetes whose schemas and validation are those of this crate.
pub const KUBERNETES_VERSION: &str = "1.36";

/// A problem in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place, as a JSON pointer; what is missing has the pointer of what lacks it.
    pub pointer: String,
    /// What the server does.
    pub effect: ProblemEffect,
    /// What is wrong. Values of Secrets and of custom resources are not quoted.
    pub message: String,
    /// The probable correction.
    pub help: Option<String>,
}

impl Problem {
    /// A problem of the field at a pointer; the message is the field and `why`.
    fn about_field(pointer: &str, effect: ProblemEffect, why: &str, help: Option<String>) -> Self {
        let message = format!("{} {why}", words::format_field(pointer));
        Self { pointer: pointer.to_owned(), effect, message, help }
    }
}

/// What an API server does about a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemEffect {
    /// It drops an unknown field, or refuses it in strict validation.
    Dropped,
    /// It drops the field while a feature gate is off.
    Gated,
    /// It refuses the object while a feature gate is off.
    GatedValue,
    /// Server-side apply refuses two items with one key; other requests may keep one of them.
    Ambiguous,
    /// It refuses the name of the object.
    BadName,
    /// It refuses the object.
    Refused,
}

/// The problems of an object, in the order of its fields. Values are only validated if their types are right.
pub fn find_problems(kind: &ResourceKind, object: &Value) -> Vec<Problem> {
    let mut lint = Lint { kind, found: Vec::new(), pointer: String::new(), suggestions: 0 };
    for (key, value) in object.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "apiVersion" | "kind") {
            lint.lint_field(&kind.schema, key, value);
        }
    }
    let mut found = lint.found;
    if !found.iter().any(|problem| problem.effect == ProblemEffect::Refused) {
        let known = KnownProblems::new(&found);
        let pods = if kind.custom.is_none() { pods::find_problems(&kind.kind, object) } else { Vec::new() };
        let places: BTreeSet<String> = pods.iter().map(|problem| problem.pointer.clone()).collect();
        let mut refused = find_refusals(kind, object);
        refused.retain(|problem| !places.contains(&problem.pointer));
        if kind.custom.is_none() {
            refused.extend(pods);
            refused.extend(others::find_problems(&kind.kind, object));
            refused.extend(find_unencoded_data(kind, object));
            refused.extend(lint_definition(kind, object));
        }
        refused.retain(|new| !known.is_known(new));
        found.extend(refused);
    }
    found
}

/// Whether a change at a pointer of an object cannot be a problem, whatever else is in the object: a text replaces
/// another one in a field whose text is not validated, or is a valid label.
pub fn is_plain(kind: &ResourceKind, pointer: &str, before: &Value, after: &Value) -> bool {
    let Some(Value::String(text)) = after.pointer(pointer).filter(|_| kind.custom.is_none()) else {
        return false;
    };
    if let Some(key) = pointer.strip_prefix("/metadata/labels/") {
        return invalid_key(&unescape(key)).is_none() && invalid_value(text).is_none();
    }
    matches!(before.pointer(pointer), Some(Value::String(_))) && pods::is_plain(&kind.kind, pointer, text)
}

/// The problems that are known, to leave out those that only follow from them.
struct KnownProblems {
    pointers: BTreeSet<String>,
    /// By mapping, the fields that unknown fields in it, such as `contaners`, probably mean.
    meant: BTreeMap<String, BTreeSet<String>>,
}

impl KnownProblems {
    fn new(found: &[Problem]) -> Self {
        let mut meant: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for old in found.iter().filter(|old| old.effect == ProblemEffect::Dropped) {
            let parent = old.pointer.rsplit_once('/').map(|(parent, _)| parent);
            let field = old.help.as_deref().and_then(|help| help.split('`').nth(1));
            if let (Some(parent), Some(field)) = (parent, field) {
                meant.entry(parent.to_owned()).or_default().insert(field.to_owned());
            }
        }
        Self { pointers: found.iter().map(|old| old.pointer.clone()).collect(), meant }
    }

    /// Whether what is refused is known, or only follows from an unknown field next to it.
    fn is_known(&self, new: &Problem) -> bool {
        let mut named = new.message.split('`').skip(1).step_by(2);
        self.pointers.contains(&new.pointer)
            || self.meant.get(&new.pointer).is_some_and(|meant| named.any(|field| meant.contains(field)))
    }
}

/// The most unknown fields of an object for which a suggestion is searched. An object with more of them has no typos.
const MAX_SUGGESTIONS: usize = 20;
/// The most declared fields of a mapping among which a suggestion is searched.
const MAX_DECLARED_FIELDS: usize = 1000;

struct Lint<'k> {
    kind: &'k ResourceKind,
    found: Vec<Problem>,
    /// The current place.
    pointer: String,
    /// The number of unknown fields so far.
    suggestions: usize,
}

impl Lint<'_> {
    fn add_problem(&mut self, effect: ProblemEffect, message: String, help: Option<String>) {
        self.found.push(Problem { pointer: self.pointer.clone(), effect, message, help });
    }

    fn lint_below(&mut self, token: &str, act: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&escape(token));
        act(self);
        self.pointer.truncate(length);
    }

    fn lint_field(&mut self, of: &Type, key: &str, value: &Value) {
        let Some(parts) = of.parts() else { return };
        self.lint_below(key, |lint| {
            if let Some(ty) = parts.get(key) {
                lint.lint_value(ty, value);
            } else {
                let few = parts.fields.is_none_or(|fields| fields.len() <= MAX_DECLARED_FIELDS);
                let fields = parts.fields.filter(|_| few && lint.suggestions < MAX_SUGGESTIONS);
                lint.suggestions += 1;
                let known: Option<Vec<&str>> =
                    fields.map(|fields| fields.keys().map(String::as_str).collect());
                lint.report_unknown_field(key, known.as_deref());
            }
        });
    }

    /// Reports an unknown field. Without the `known` fields, it is reported without a suggestion.
    fn report_unknown_field(&mut self, key: &str, known: Option<&[&str]>) {
        let parent = self.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
        let place = if parent.is_empty() { "the object".to_owned() } else { words::format_field(parent) };
        if key.is_empty() {
            let help = "write the name of the field before the colon, or remove the line".to_owned();
            return self.add_problem(
                ProblemEffect::Dropped,
                format!("{place} has a field with an empty name"),
                Some(help),
            );
        }
        let message = format!("{place} has no field `{key}`");
        let Some(known) = known else { return self.add_problem(ProblemEffect::Dropped, message, None) };
        let help = self.suggest_field(parent, key, known);
        self.add_problem(ProblemEffect::Dropped, message, help);
    }

    /// The probable correction of an unknown field in the mapping at `parent`, whose fields are `known`.
    fn suggest_field(&self, parent: &str, key: &str, known: &[&str]) -> Option<String> {
        let schema = &self.kind.schema;
        if let Some(name) = find_nearest(key, known) {
            return Some(format!("did you mean `{name}`?"));
        }
        if self.kind.custom.is_none()
            && let Some(new) = misplaced_fields::find_renamed(key)
        {
            return Some(format!("write it as `{new}`"));
        }
        if let Some(path) = misplaced_fields::find_deeper(schema, parent, key) {
            return Some(format!("the field belongs to `{path}`"));
        }
        // `configMap` for `configMapRef`, `name` for `secretName`.
        if let Some(name) = misplaced_fields::find_longer_name(key, known) {
            return Some(format!("did you mean `{name}`?"));
        }
        if let Some(path) = misplaced_fields::find_anywhere(schema, key) {
            return Some(format!("the field belongs to `{path}`"));
        }
        (known.len() <= 12).then(|| format!("its fields are {}", known.join(", ")))
    }

    fn lint_value(&mut self, ty: &Type, value: &Value) {
        if value.is_null() {
            return;
        }
        let ty = ty.resolve_name();
        if let Some(wanted) = self.expected_type(ty, value) {
            let message = format!(
                "{} must be {wanted}, but is {}",
                words::format_field(&self.pointer),
                words::describe_value(value)
            );
            let help = words::suggest_correction(ty, value);
            return self.add_problem(ProblemEffect::Refused, message, help);
        }
        match (ty, value) {
            (Type::List { item, list_type }, Value::Array(values)) => {
                self.report_duplicates(item, list_type, values);
                for (index, value) in values.iter().enumerate() {
                    self.lint_below(&index.to_string(), |lint| lint.lint_value(item, value));
                }
            }
            (Type::Struct(_) | Type::Map { .. }, Value::Object(map)) => {
                map.iter().for_each(|(key, value)| self.lint_field(ty, key, value));
            }
            _ => {}
        }
    }

    /// The type that a value should have, if it has another one.
    fn expected_type(&self, ty: &Type, value: &Value) -> Option<&'static str> {
        let (fits, wanted) = match ty {
            Type::Any | Type::Atomic | Type::Named(_) => return None,
            Type::Text | Type::Time => (value.is_string(), "text"),
            // The built-in kinds have no fractions, but definitions of custom ones have in their schemas.
            Type::Number if self.kind.custom.is_some() => (value.is_number(), "a number"),
            Type::Number => (is_whole_number(value), "a whole number"),
            Type::Boolean => (value.is_boolean(), "true or false"),
            Type::Quantity => {
                (normalization::normalize_quantity(value).is_some(), "a quantity such as `500m` or `2Gi`")
            }
            Type::IntOrString => (value.is_string() || is_whole_number(value), "a whole number or text"),
            Type::Struct(_) | Type::Map { .. } => (value.is_object(), "a mapping"),
            Type::List { .. } => (value.is_array(), "a list"),
        };
        (!fits).then_some(wanted)
    }

    /// Reports items of a list with the key of an earlier item.
    fn report_duplicates(&mut self, item: &Type, list_type: &ListType, values: &[Value]) {
        let ListType::Keys(keys) = list_type else { return };
        let mut places: BTreeMap<PathElement, usize> = BTreeMap::new();
        for (index, value) in values.iter().enumerate() {
            let Ok(element) = element_of(value, item, list_type) else { continue };
            let first = *places.entry(element).or_insert(index);
            if first == index {
                continue;
            }
            let place = words::format_field(&self.pointer);
            let message = format!(
                "items {first} and {index} of {place} have the same {}: server-side apply refuses the object, and \
                 only one of the two counts",
                keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" and ")
            );
            self.lint_below(&index.to_string(), |lint| {
                lint.add_problem(ProblemEffect::Ambiguous, message, Some("remove one of the two".to_owned()));
            });
        }
    }
}

fn is_whole_number(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Data of a Secret that is not encoded.
fn find_unencoded_data(kind: &ResourceKind, object: &Value) -> Vec<Problem> {
    let data = object.get("data").and_then(Value::as_object).filter(|_| kind.is_builtin("Secret"));
    let wrong = data.into_iter().flatten().filter(|(_, value)| !value.as_str().is_none_or(words::is_base64));
    wrong
        .map(|(key, _)| {
            let help = "encode the value, or write it under `stringData`".to_owned();
            let pointer = format!("/data/{}", escape(key));
            Problem::about_field(&pointer, ProblemEffect::Refused, "is not base64", Some(help))
        })
        .collect()
}

/// The problems of the names and the scope of a CRD.
fn lint_definition(kind: &ResourceKind, object: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    if !kind.is_builtin("CustomResourceDefinition") {
        return found;
    }
    let plural = text_at(object, "/spec/names/plural");
    let name = format!("{plural}.{}", text_at(object, "/spec/group"));
    if !plural.is_empty() && text_at(object, "/metadata/name") != name {
        let why = "must be the plural name and the group of the kind";
        let help = Some(format!("did you mean `{name}`?"));
        found.push(Problem::about_field("/metadata/name", ProblemEffect::BadName, why, help));
    }
    let scope = text_at(object, "/spec/scope");
    let scopes = ["Cluster", "Namespaced"];
    if !scopes.contains(&scope) {
        let why = format!("must be one of {}", scopes.join(", "));
        let near = scopes
            .into_iter()
            .find(|s| !scope.is_empty() && s.starts_with(scope))
            .or_else(|| find_nearest(scope, &scopes));
        let help = near.map(|near| format!("did you mean `{near}`?"));
        found.push(Problem::about_field("/spec/scope", ProblemEffect::Refused, &why, help));
    }
    let stored = list_at(object, "/spec/versions").iter().filter(|version| has_flag(version, "storage"));
    if stored.count() != 1 {
        let why = "must have one version with `storage: true`";
        found.push(Problem::about_field("/spec/versions", ProblemEffect::Refused, why, None));
    }
    found
}

/// What validation refuses when the object is created.
fn find_refusals(kind: &ResourceKind, object: &Value) -> Vec<Problem> {
    let now = "2000-01-01T00:00:00Z";
    let write = WriteOptions { kind, manager: "federate", subresource: None, force: false, now };
    match strategy::prepare_for_create(complete_object(kind, object.clone()), &write) {
        Ok(_) => Vec::new(),
        Err(failure) => {
            unique_causes(&failure).iter().map(|cause| describe_refusal(kind, object, cause)).collect()
        }
    }
}

/// The causes of a failure, each once.
fn unique_causes(failure: &ApiError) -> Vec<StatusCause> {
    let listed = failure.details.get("causes").and_then(Value::as_array);
    let mut causes: Vec<StatusCause> = Vec::new();
    let mut seen = BTreeSet::new();
    for cause in listed.into_iter().flatten() {
        let is_required = text_below(cause, "reason") == "FieldValueRequired";
        let reason = if is_required { "FieldValueRequired" } else { "" };
        let cause = StatusCause::new(reason, text_below(cause, "field"), text_below(cause, "message"));
        // Rules that are not evaluated here are not mistakes.
        let key = (cause.reason, cause.field.clone(), cause.message.clone());
        if cause.field != "<nil>" && seen.insert(key) {
            causes.push(cause);
        }
    }
    causes
}

/// Whether an autoscaler may take all pods away, by metrics that need none.
fn scales_to_zero(kind: &ResourceKind, object: &Value) -> bool {
    let metrics = object.pointer("/spec/metrics").and_then(Value::as_array).into_iter().flatten();
    let mut types = metrics.map(|metric| text_below(metric, "type"));
    kind.kind == "HorizontalPodAutoscaler"
        && object.pointer("/spec/minReplicas").and_then(Value::as_i64) == Some(0)
        && types.any(|of| matches!(of, "Object" | "External"))
}

fn describe_refusal(kind: &ResourceKind, object: &Value, cause: &StatusCause) -> Problem {
    let (pointer, key) = words::locate_cause(object, cause);
    if cause.field == "spec.minReplicas" && scales_to_zero(kind, object) {
        let why = "needs the feature gate `HPAScaleToZero` to be 0, on by default since 1.37";
        let help = "enable the feature gate, or ask for at least 1";
        return Problem::about_field(&pointer, ProblemEffect::GatedValue, why, Some(help.to_owned()));
    }
    let effect = if cause.field == "metadata.name" { ProblemEffect::BadName } else { ProblemEffect::Refused };
    if cause.reason == "FieldValueRequired" {
        let why = cause.message.trim_start_matches("Required value").trim_start_matches(": ");
        let place = if pointer.is_empty() { "the object".to_owned() } else { words::format_field(&pointer) };
        let message = match (&key, why) {
            (Some(key), "") => format!("{place} lacks the required field `{key}`"),
            (Some(key), why) => format!("{place} lacks the required field `{key}`: {why}"),
            (None, "") => format!("{place} is required, but is empty"),
            (None, why) => format!("{place} is required: {why}"),
        };
        return Problem { pointer, effect, message, help: None };
    }
    let quoted = kind.custom.is_none() && !kind.is_builtin("Secret");
    let message =
        format!("{}: {}", words::format_field(&pointer), words::simplify_message(&cause.message, quoted));
    let help = words::suggest_alternative(object.pointer(&pointer), &cause.message);
    Problem { pointer, effect, message, help }
}

#[cfg(test)]
mod tests;
