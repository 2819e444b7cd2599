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

/// A document in which ciphertext is replaced by what is at the same place in the plain document, without the part of SOPS; `None` if
/// nothing is there.
pub fn reveal_document(written: &Value, plain: &Value) -> Option<Value> {
    let mut document = written.clone();
    document.as_object_mut()?.shift_remove("sops");
    reveal_value(&document, plain)
}

/// A value in which ciphertext is replaced by what is at the same place in the plain document.
fn reveal_value(written: &Value, plain: &Value) -> Option<Value> {
    match written {
        Value::String(text) if is_ciphertext(text) => Some(plain.clone()),
        Value::Array(items) => {
            let items = items.iter().enumerate().map(|(index, item)| match plain.get(index) {
                Some(plain) => reveal_value(item, plain),
                None => keep_clear(item),
            });
            items.collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| {
                let value = match plain.get(key) {
                    Some(plain) => reveal_value(value, plain)?,
                    None => keep_clear(value)?,
                };
                Some((key.clone(), value))
            });
            fields.collect::<Option<serde_json::Map<String, Value>>>().map(Value::Object)
        }
        _ => Some(written.clone()),
    }
}

/// A value that has no ciphertext.
fn keep_clear(value: &Value) -> Option<Value> {
    (!contains_ciphertext(value)).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ciphertext_is_replaced_and_nothing_else() {
        let cipher = "ENC[AES256_GCM,data:Zm9v,iv:YWJj,tag:ZGVm,type:str]";
        let written = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": cipher, "l": [cipher, 1]}, "sops": {"mac": cipher}});
        let plain = json!({"metadata": {"name": "a"}, "data": {"k": 5, "l": ["b", 2]}});
        assert_eq!(
            reveal_document(&written, &plain),
            Some(json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": 5, "l": ["b", 1]}}))
        );
        assert_eq!(reveal_document(&json!({"data": {"k": cipher}}), &json!({"data": {}})), None);
    }
}
