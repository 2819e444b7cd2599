//! The data of ConfigMaps and Secrets.

use serde_json::{Value, json};

use super::super::failure::StatusCause;
use super::text_at;

/// The keys that Secrets of a type need.
const REQUIRED: [(&str, &[&str]); 4] = [
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
];

/// The errors of a Secret.
pub(super) fn secret_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = data_causes(object);
    let kind = text_at(object, "/type");
    let has = |key: &str| {
        let value = object.get("data").and_then(|data| data.get(key));
        value.is_some_and(|value| !value.is_null())
    };
    let missing = |key: &str| StatusCause::required(format!("data[{key}]"), "");
    for (_, keys) in REQUIRED.iter().filter(|(name, _)| *name == kind) {
        causes.extend(keys.iter().filter(|key| !has(key)).map(|key| missing(key)));
    }
    if kind == "kubernetes.io/basic-auth" && !has("username") && !has("password") {
        causes.extend(["username", "password"].map(missing));
    }
    let account = "kubernetes.io/service-account.name";
    if kind == "kubernetes.io/service-account-token"
        && object
            .pointer("/metadata/annotations")
            .and_then(|all| all.get(account))
            .is_none_or(|name| name == "")
    {
        causes.push(StatusCause::required(format!("metadata.annotations[{account}]"), ""));
    }
    causes
}

/// Keys of data that cannot be file names, and data that is too large.
pub(super) fn data_causes(object: &Value) -> Vec<StatusCause> {
    const MAX_DATA_SIZE: usize = 1024 * 1024;
    let mut size = 0;
    let mut causes = Vec::new();
    for field in ["data", "binaryData"] {
        for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
            size += value.as_str().map_or(0, str::len);
            let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if key.is_empty() || !key.chars().all(fine) {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
                           'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
                           '[-._a-zA-Z0-9]+')";
                causes.push(StatusCause::invalid(format!("{field}[{key}]"), &json!(key), why));
            }
        }
    }
    if size > MAX_DATA_SIZE {
        let message = format!("Too long: may not be more than {MAX_DATA_SIZE} bytes");
        causes.push(StatusCause::new("FieldValueTooLong", "[]", message));
    }
    causes
}
