//! Refusals: an HTTP status and an object `Status`.
//!
//! Facts: the reasons and texts of the Kubernetes API machinery.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use federate_kubernetes::work;

use super::kinds::ResourceKind;

/// The steps of a cause and of each of its bytes: it goes on as JSON and as a finding.
const STEPS_PER_CAUSE: u64 = 1000;
const STEPS_PER_BYTE: u64 = 8;

/// A refusal.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// The reason, one word; empty where the server gives none.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// Name, kind, group, causes.
    pub details: Map<String, Value>,
}

/// One of the causes of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusCause {
    /// The reason, one word.
    pub reason: &'static str,
    /// What is wrong.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

impl StatusCause {
    /// A cause.
    pub fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (message, field) = (message.into(), field.into());
        work::charge_steps(STEPS_PER_CAUSE + STEPS_PER_BYTE * (message.len() + field.len()) as u64);
        Self { reason, message, field }
    }

    /// An invalid value, as JSON, and why it is invalid.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
    }

    /// A required value that is missing.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message =
            if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self::new("FieldValueRequired", field, message)
    }

    /// A duplicate value.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    /// A forbidden change.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// A value that is not supported.
    pub fn unsupported(field: impl Into<String>, value: &Value, allowed: &[&str]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|v| format!("{v:?}")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        Self::new("FieldValueNotSupported", field, message)
    }

    fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("reason".to_owned(), json!(self.reason));
        map.insert("message".to_owned(), json!(self.message));
        if !self.field.is_empty() {
            map.insert("field".to_owned(), json!(self.field));
        }
        Value::Object(map)
    }
}

/// The longest value that a message repeats.
const MAX_VALUE_LENGTH: usize = 80;

/// Removes long values from the message of a refusal: servers repeat the whole value of an immutable field, such as the
/// template of a Job. `details` are those of the refusal.
pub fn shorten_message(message: &str, details: &Map<String, Value>) -> String {
    let causes = details.get("causes").and_then(Value::as_array).into_iter().flatten();
    let causes = causes.filter_map(|cause| cause.get("message")?.as_str());
    causes.fold(message.to_owned(), |message, cause| match reason_without_value(cause) {
        Some(brief) => message.replace(cause, brief),
        None => message,
    })
}

/// Why a value is invalid, if the value is long: it is JSON, or text in Go's notation.
fn reason_without_value(cause: &str) -> Option<&str> {
    let (value, why) = cause.strip_prefix("Invalid value: ")?.rsplit_once("}: ")?;
    (value.len() > MAX_VALUE_LENGTH).then_some(why)
}

impl ApiError {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Map::new() }
    }

    /// Adds details.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Adds causes.
    #[must_use]
    pub fn caused_by(self, causes: &[StatusCause]) -> Self {
        let causes: Vec<Value> = causes.iter().map(StatusCause::to_json).collect();
        self.with_detail("causes", causes)
    }

    /// Adds the object, by the plural of its kind.
    #[must_use]
    pub fn about_object(mut self, group: &str, plural: &str, name: &str) -> Self {
        if !name.is_empty() {
            self = self.with_detail("name", name);
        }
        if !group.is_empty() {
            self = self.with_detail("group", group);
        }
        self.with_detail("kind", plural)
    }

    /// A malformed request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An object that does not exist.
    pub fn not_found(kind: &ResourceKind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.resource_name())).about_object(
            &kind.group,
            &kind.plural,
            name,
        )
    }

    /// A conflict with another manager.
    pub fn conflict(kind: &ResourceKind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource_name());
        Self::new(409, "Conflict", message).about_object(&kind.group, &kind.plural, name)
    }

    /// A conflict with a change since the object was read.
    pub fn stale_version(kind: &ResourceKind, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// An object with invalid values.
    pub fn invalid_object(kind: &ResourceKind, name: &str, causes: &[StatusCause]) -> Self {
        let qualified =
            if kind.group.is_empty() { kind.kind.clone() } else { format!("{}.{}", kind.kind, kind.group) };
        Self::invalid_values(&qualified, &kind.group, &kind.kind, name, causes)
    }

    /// Invalid values of something without a kind, such as options.
    pub fn invalid_values(
        qualified: &str,
        group: &str,
        kind: &str,
        name: &str,
        causes: &[StatusCause],
    ) -> Self {
        let mut seen = HashSet::new();
        let distinct = causes.iter().filter(|cause| seen.insert((&cause.field, &cause.message)));
        let texts: Vec<String> =
            distinct.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let why = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
        Self::new(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {why}"))
            .about_object(group, kind, name)
            .caused_by(causes)
    }

    /// An internal error, which in spite of its code is a mistake in the request.
    pub fn internal_error(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The object `Status`.
    pub fn to_status(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".to_owned(), json!("Status"));
        status.insert("apiVersion".to_owned(), json!("v1"));
        status.insert("metadata".to_owned(), json!({}));
        status.insert("status".to_owned(), json!("Failure"));
        status.insert("message".to_owned(), json!(self.message));
        if !self.reason.is_empty() {
            status.insert("reason".to_owned(), json!(self.reason));
        }
        if !self.details.is_empty() {
            status.insert("details".to_owned(), Value::Object(self.details.clone()));
        }
        status.insert("code".to_owned(), json!(self.code));
        Value::Object(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_left_out_of_messages() {
        let containers: Vec<Value> = (0..9).map(|n| json!({"name": format!("c{n}"), "image": "a"})).collect();
        for value in
            [json!({"containers": containers}).to_string(), format!("core.PodSpec{{{}}}", "x, ".repeat(40))]
        {
            let cause = format!("Invalid value: {value}: field is immutable");
            let message = format!("Job.batch \"j\" is invalid: spec.template: {cause}");
            let details = json!({"causes": [{"field": "spec.template", "message": cause}]});
            let said = shorten_message(&message, details.as_object().unwrap());
            assert_eq!(said, "Job.batch \"j\" is invalid: spec.template: field is immutable");
        }
        let details = json!({"causes": [{"message": "Invalid value: -1: must not be negative"}]});
        let message = "spec.replicas: Invalid value: -1: must not be negative";
        assert_eq!(shorten_message(message, details.as_object().unwrap()), message);
    }
}
