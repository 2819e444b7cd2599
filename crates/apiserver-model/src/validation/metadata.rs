//! Names, labels, annotations, finalizers.

use serde_json::{Value, json};

use federate_kubernetes::names::{is_dns_label, is_dns_subdomain, is_name_part};

use super::super::failure::StatusCause;
use super::super::kinds::ResourceKind;
use super::{IMMUTABLE, differs_at, list_at, text_at};

pub(super) const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
    is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
pub(super) const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
    is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
    or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
    regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The errors of the metadata of a new object.
pub(super) fn find_causes(kind: &ResourceKind, object: &Value) -> Vec<StatusCause> {
    let mut causes = name_causes(kind, object);
    causes.extend(key_causes(object));
    causes
}

/// The errors of a name.
fn name_causes(kind: &ResourceKind, object: &Value) -> Vec<StatusCause> {
    let name = text_at(object, "/metadata/name");
    if name.is_empty() {
        return vec![StatusCause::required("metadata.name", "name or generateName is required")];
    }
    let why = invalid_name(kind, name);
    why.map(|why| StatusCause::invalid("metadata.name", &json!(name), why)).into_iter().collect()
}

/// Why objects of this kind cannot have the name.
pub fn invalid_name(kind: &ResourceKind, name: &str) -> Option<&'static str> {
    match kind.kind.as_str() {
        _ if kind.group == "rbac.authorization.k8s.io" => {
            let bad = matches!(name, "." | "..") || name.contains(['/', '%']);
            bad.then_some("may not contain '/'")
        }
        "Namespace" => (!is_dns_label(name) || name.len() > 63).then_some(LABEL_MESSAGE),
        "Service" => {
            let fine =
                is_dns_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() <= 63;
            (!fine).then_some(DNS1035)
        }
        _ => (!is_dns_subdomain(name)).then_some(SUBDOMAIN_MESSAGE),
    }
}

fn key_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for field in ["metadata.labels", "metadata.annotations"] {
        let kept = field.trim_start_matches("metadata.");
        let map = object.get("metadata").and_then(|metadata| metadata.get(kept)).and_then(Value::as_object);
        for (key, value) in map.into_iter().flatten() {
            // The server lower-cases the keys of annotations, which does not change whether they are valid.
            if let Some(why) = invalid_key(key) {
                causes.push(StatusCause::invalid(field, &json!(key), why));
            }
            let value = value.as_str().unwrap_or_default();
            if field.ends_with("labels") {
                if value.len() > 63 {
                    let message = "Too long: may not be more than 63 bytes";
                    causes.push(StatusCause::new("FieldValueTooLong", field, message));
                }
                if !value.is_empty() && !is_name_part(value) {
                    causes.push(StatusCause::invalid(field, &json!(value), LABEL_VALUE));
                }
            }
        }
    }
    causes
}

fn invalid_key(key: &str) -> Option<&'static str> {
    let name = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return Some("a valid label key must have at most one '/'");
        }
        Some(("", _)) => return Some("prefix part must be non-empty"),
        Some((_, name)) => name,
        None => key,
    };
    match name {
        "" => Some("name part must be non-empty"),
        name if name.len() > 63 => Some("name part must be no more than 63 bytes"),
        name => (!is_name_part(name)).then_some(NAME_PART),
    }
}

/// The errors of a change of metadata.
pub(super) fn find_change_causes(live: &Value, object: &Value) -> Vec<StatusCause> {
    let mut causes = key_causes(object);
    for (key, pointer) in [("name", "/metadata/name"), ("namespace", "/metadata/namespace")] {
        if differs_at(live, object, pointer) {
            let value = object.pointer(pointer).unwrap_or(&Value::Null);
            causes.push(StatusCause::invalid(format!("metadata.{key}"), value, IMMUTABLE));
        }
    }
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        let old = list_at(live, "/metadata/finalizers");
        let added = list_at(object, "/metadata/finalizers").iter().filter(|name| !old.contains(name));
        let added: Vec<String> = added.map(Value::to_string).collect();
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{{{}}}",
                added.join(", ")
            );
            causes.push(StatusCause::forbidden("metadata.finalizers", &why));
        }
    }
    // The server checks it twice.
    causes.extend(causes.clone());
    causes
}
