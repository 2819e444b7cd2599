//! What SOPS encrypted: objects, values, and whole files that are values.
//!
//! Facts: SOPS adds a mapping `sops` at the top of a document, with a MAC over all values of the file, and writes each
//! encrypted value as `ENC[AES256_GCM,…]`, with a random part, so that no two values look the same. A `SopsSecret` is decrypted by an
//! operator in the cluster. Flux decrypts objects with such a mapping, and Secrets with a value that is an encrypted file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

mod encrypted_file;
mod metadata;
mod plain_values;

pub use encrypted_file::{EncryptedFile, SopsFormat, UnreadableFile};
pub use plain_values::PlainValues;

/// The kinds that a controller in the cluster decrypts.
const DECRYPTED_IN_CLUSTERS: [&str; 2] = ["SopsSecret", "GlobalSopsSecret"];

/// The field of a document that SOPS adds.
const METADATA_FIELD: &str = "sops";

/// How each value begins that SOPS encrypted.
pub const CIPHERTEXT_START: &str = "ENC[AES256_GCM,";

/// How an object holds what SOPS encrypted, which decides who can decrypt it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CiphertextForm {
    /// It is a Secret, and a value of it is an encrypted file.
    File,
    /// It is an encrypted document.
    Document,
    /// It has encrypted values without the keys for them: no reader of the object can decrypt it.
    Values,
}

/// Whether a document is encrypted by SOPS, so that only a reader that decrypts can use it.
///
/// ```
/// use federate_kubernetes::sops::is_encrypted;
/// use serde_json::json;
/// assert!(is_encrypted(&json!({"kind": "Secret", "sops": {"version": "3.9.0"}})));
/// assert!(!is_encrypted(&json!({"kind": "Secret", "data": {}})));
/// assert!(!is_encrypted(&json!({"kind": "SopsSecret", "sops": {"version": "3.9.0"}})));
/// ```
pub fn is_encrypted(body: &Value) -> bool {
    body.get(METADATA_FIELD).is_some_and(Value::is_object) && !is_decrypted_in_clusters(body)
}

fn is_decrypted_in_clusters(body: &Value) -> bool {
    let kind = body.get("kind").and_then(Value::as_str);
    kind.is_some_and(|kind| DECRYPTED_IN_CLUSTERS.contains(&kind))
}

/// Whether a text is a value that SOPS encrypted.
pub fn is_ciphertext(text: &str) -> bool {
    text.starts_with("ENC[") && text.ends_with(']')
}

/// Whether a value contains one that SOPS encrypted, at any depth.
pub fn contains_ciphertext(value: &Value) -> bool {
    match value {
        Value::String(text) => is_ciphertext(text),
        Value::Array(items) => items.iter().any(contains_ciphertext),
        Value::Object(map) => map.values().any(contains_ciphertext),
        _ => false,
    }
}

/// Whether a text is a value that SOPS encrypted, or contains one.
pub fn holds_ciphertext(text: &str) -> bool {
    text.contains(CIPHERTEXT_START)
        && (text.starts_with(CIPHERTEXT_START) || !list_ciphertexts(text).is_empty())
}

/// The values in a text that SOPS encrypted.
pub fn list_ciphertexts(text: &str) -> Vec<&str> {
    let starts = text.match_indices(CIPHERTEXT_START);
    let values = starts.filter_map(|(start, _)| {
        let rest = text.get(start + CIPHERTEXT_START.len()..)?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | ',' | ':' | '_');
        let length = rest
            .find(|c| !is_part(c))
            .filter(|end| rest.get(*end..).is_some_and(|rest| rest.starts_with(']')))?;
        text.get(start..=start + CIPHERTEXT_START.len() + length)
    });
    values.collect()
}

/// How an object holds what SOPS encrypted; `None` if it holds nothing of the kind, or is decrypted in clusters.
pub fn find_ciphertext(body: &Value) -> Option<CiphertextForm> {
    if is_decrypted_in_clusters(body) {
        return None;
    }
    if is_encrypted(body) {
        return Some(CiphertextForm::Document);
    }
    let is_secret = body.get("kind").is_some_and(|kind| kind == "Secret");
    let (mut has_files, mut has_values) = (false, false);
    visit_texts(body, &mut |key, text| {
        if holds_ciphertext(text) {
            let is_file = is_secret && EncryptedFile::read(key, text).is_some();
            (has_files, has_values) = (has_files || is_file, has_values || !is_file);
        }
    });
    match (has_files, has_values) {
        (_, true) => Some(CiphertextForm::Values),
        (true, false) => Some(CiphertextForm::File),
        (false, false) => None,
    }
}

/// Calls `visit` for each text of a document besides the part of SOPS, with its key. The `data` of Secrets is decoded.
pub fn visit_texts<'v>(document: &'v Value, visit: &mut dyn FnMut(&'v str, &str)) {
    let is_own = is_encrypted(document);
    match document {
        Value::Object(map) if is_own => {
            let is_secret = is_secret(map);
            for (key, value) in map.iter().filter(|(key, _)| *key != METADATA_FIELD) {
                visit_value(value, key, is_secret && key == "data", visit);
            }
        }
        _ => visit_value(document, "", false, visit),
    }
}

fn visit_value<'v>(value: &'v Value, key: &'v str, is_encoded: bool, visit: &mut dyn FnMut(&'v str, &str)) {
    match value {
        Value::String(text) => match decode_text(text).filter(|_| is_encoded) {
            Some(decoded) => visit(key, &decoded),
            None => visit(key, text),
        },
        Value::Array(items) => items.iter().for_each(|item| visit_value(item, key, is_encoded, visit)),
        Value::Object(map) => {
            let is_secret = is_secret(map);
            for (key, value) in map {
                visit_value(value, key, is_encoded || (is_secret && key == "data"), visit);
            }
        }
        _ => {}
    }
}

fn is_secret(map: &Map<String, Value>) -> bool {
    map.get("kind").is_some_and(|kind| kind == "Secret")
}

/// The text that is encoded in base64; `None` if it is not.
fn decode_text(text: &str) -> Option<String> {
    let has_breaks = text.contains(['\r', '\n']);
    let joined = if has_breaks { text.replace(['\r', '\n'], "") } else { String::new() };
    let bytes = STANDARD.decode(if has_breaks { &joined } else { text }).ok()?;
    String::from_utf8(bytes).ok()
}

/// Whether what is sent to an API server holds something that SOPS encrypted: an object, or the operations of a patch. With
/// `is_encoded`, texts are also decoded, as those of a Secret.
pub fn must_not_be_sent(content: &Value, is_encoded: bool) -> bool {
    if is_decrypted_in_clusters(content) {
        return false;
    }
    let mut found = is_encrypted(content);
    let mut note = |_: &str, text: &str| found = found || holds_ciphertext(text);
    visit_texts(content, &mut note);
    if is_encoded {
        visit_value(content, "", true, &mut note);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CIPHERTEXT: &str = "ENC[AES256_GCM,data:Zm9v,iv:YWJj,tag:ZGVm,type:str]";

    #[test]
    fn ciphertext_is_found_wherever_it_is() {
        let encoded = STANDARD.encode(CIPHERTEXT);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": encoded}});
        assert_eq!(find_ciphertext(&secret), Some(CiphertextForm::Values));
        assert!(must_not_be_sent(&secret, false));
        let operations = json!([{"op": "add", "path": "/data", "value": {"a": encoded}}]);
        assert!(must_not_be_sent(&operations, true) && !must_not_be_sent(&operations, false));
        let url = json!({"kind": "ConfigMap", "data": {"url": format!("db://u:{CIPHERTEXT}@h")}});
        assert_eq!(find_ciphertext(&url), Some(CiphertextForm::Values));
        let cut = json!({"kind": "ConfigMap", "data": {"a": "ENC[AES256_GCM,data:Zm9v"}});
        assert_eq!(find_ciphertext(&cut), Some(CiphertextForm::Values));
        let file = format!("token: {CIPHERTEXT}\nsops:\n  mac: {CIPHERTEXT}\n");
        let secret = json!({"kind": "Secret", "data": {"token.yaml": STANDARD.encode(&file)}});
        assert_eq!(find_ciphertext(&secret), Some(CiphertextForm::File));
        let map = json!({"kind": "ConfigMap", "data": {"token.yaml": file}});
        assert_eq!(find_ciphertext(&map), Some(CiphertextForm::Values));
        let document =
            json!({"kind": "Secret", "stringData": {"a": CIPHERTEXT}, "sops": {"mac": CIPHERTEXT}});
        assert_eq!(find_ciphertext(&document), Some(CiphertextForm::Document));
        for harmless in [
            json!({"kind": "ConfigMap", "data": {"README": "values look like `ENC[AES256_GCM,…]`"}}),
            json!({"kind": "SopsSecret", "spec": {"a": CIPHERTEXT}, "sops": {"mac": CIPHERTEXT}}),
        ] {
            assert_eq!(find_ciphertext(&harmless), None);
            assert!(!must_not_be_sent(&harmless, false));
        }
    }
}
