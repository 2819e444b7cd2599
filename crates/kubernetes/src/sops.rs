//! Objects that SOPS encrypted.
//!
//! Facts: SOPS adds a mapping `sops` at the top of a document, with a MAC over all values of the file, and writes each
//! encrypted value as `ENC[AES256_GCM,…]`. A `SopsSecret` is decrypted by an operator in the cluster.

use serde_json::Value;

/// The kinds that a controller in the cluster decrypts.
const DECRYPTED_IN_CLUSTERS: &str = "SopsSecret";

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
    body.get("sops").is_some_and(Value::is_object)
        && body.get("kind").is_none_or(|kind| kind != DECRYPTED_IN_CLUSTERS)
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
