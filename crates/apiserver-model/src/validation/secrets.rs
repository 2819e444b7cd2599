//! The data of ConfigMaps and Secrets.

use serde_json::{Value, json};

use super::super::failure::StatusCause;
use super::{present_at, text_at};

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
    let required = REQUIRED.iter().filter(|(name, _)| *name == kind).flat_map(|(_, keys)| *keys);
    let mut missing: Vec<&str> = required.copied().filter(|key| !has_data(object, key)).collect();
    if kind == "kubernetes.io/basic-auth" && !has_data(object, "username") && !has_data(object, "password") {
        missing.extend(["username", "password"]);
    }
    causes.extend(missing.iter().map(|key| StatusCause::required(format!("data[{key}]"), "")));
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

fn has_data(secret: &Value, key: &str) -> bool {
    present_at(secret, &format!("/data/{key}")).is_some()
}

/// Keys of data that cannot be file names, and data that is too large.
pub(super) fn data_causes(object: &Value) -> Vec<StatusCause> {
    const MAX_DATA_SIZE: usize = 1024 * 1024;
    let mut size = 0;
    let mut causes = Vec::new();
    for field in ["data", "binaryData"] {
        for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
            size += value.as_str().map_or(0, str::len);
            if key.is_empty()
                || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            {
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
