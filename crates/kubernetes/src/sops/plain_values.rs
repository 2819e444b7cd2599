//! What SOPS encrypted, in clear: values by their ciphertext, and files by their text.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{
    CIPHERTEXT_START, METADATA_FIELD, decode_text, holds_ciphertext, is_encrypted, is_secret,
    list_ciphertexts,
};

/// Values and files in clear.
///
/// Ciphertext is unique, so that a value is found by it wherever a build has put it.
#[derive(Clone, Debug, Default)]
pub struct PlainValues {
    values: BTreeMap<String, Value>,
    files: BTreeMap<String, Vec<u8>>,
}

impl PlainValues {
    /// Adds the values of encrypted documents, which `plain` has at the same places.
    pub fn add_documents(&mut self, encrypted: &[Value], plain: &[Value]) {
        encrypted.iter().zip(plain).for_each(|(encrypted, plain)| self.add_value(encrypted, plain));
    }

    fn add_value(&mut self, encrypted: &Value, plain: &Value) {
        match (encrypted, plain) {
            (Value::String(text), plain) if text.starts_with(CIPHERTEXT_START) && encrypted != plain => {
                self.values.insert(text.clone(), plain.clone());
            }
            (Value::Array(items), Value::Array(plain)) => {
                items.iter().zip(plain).for_each(|(item, plain)| self.add_value(item, plain));
            }
            (Value::Object(map), Value::Object(plain)) => {
                for (key, value) in map {
                    if let Some(plain) = plain.get(key) {
                        self.add_value(value, plain);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds an encrypted file that is a value.
    pub fn add_file(&mut self, encrypted: &str, plain: Vec<u8>) {
        self.files.insert(encrypted.to_owned(), plain);
    }

    /// Adds all of another.
    pub fn extend(&mut self, other: Self) {
        self.values.extend(other.values);
        self.files.extend(other.files);
    }

    /// The values and the lines of files in clear.
    pub fn list_texts(&self) -> impl Iterator<Item = String> {
        let files = self.files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        self.values.values().map(to_text).chain(files)
    }

    /// A document in clear, without the part of SOPS; `None` if a value is not known.
    pub fn reveal_document(&self, written: &Value) -> Option<Value> {
        let mut document = written.clone();
        if is_encrypted(written) {
            document.as_object_mut()?.shift_remove(METADATA_FIELD);
        }
        self.reveal_value(&mut document, false).then_some(document)
    }

    /// Replaces ciphertext in a value. Returns whether all of it is known.
    fn reveal_value(&self, value: &mut Value, is_encoded: bool) -> bool {
        match value {
            Value::String(text) => match self.reveal_text(text, is_encoded) {
                RevealedText::Plain(plain) => *value = plain,
                RevealedText::InClear => {}
                RevealedText::Unknown => return false,
            },
            Value::Array(items) => return items.iter_mut().all(|item| self.reveal_value(item, is_encoded)),
            Value::Object(map) => {
                let is_secret = is_secret(map);
                let mut fields = map.iter_mut();
                return fields.all(|(key, value)| {
                    self.reveal_value(value, is_encoded || (is_secret && key == "data"))
                });
            }
            _ => {}
        }
        true
    }

    /// What stands in place of a text.
    fn reveal_text(&self, text: &str, is_encoded: bool) -> RevealedText {
        if holds_ciphertext(text) {
            let whole = self.values.get(text).cloned();
            let parts = || Some(String::from_utf8(self.replace_in(text)?).ok()?.into());
            return whole.or_else(parts).map_or(RevealedText::Unknown, RevealedText::Plain);
        }
        match decode_text(text).filter(|decoded| is_encoded && holds_ciphertext(decoded)) {
            Some(decoded) => self
                .replace_in(&decoded)
                .map_or(RevealedText::Unknown, |plain| RevealedText::Plain(STANDARD.encode(plain).into())),
            None => RevealedText::InClear,
        }
    }

    /// A text that is, or contains, what is encrypted, in clear.
    fn replace_in(&self, text: &str) -> Option<Vec<u8>> {
        if let Some(plain) = self.files.get(text) {
            return Some(plain.clone());
        }
        let (mut revealed, mut rest) = (String::new(), text);
        for ciphertext in list_ciphertexts(text) {
            let (before, after) = rest.split_once(ciphertext)?;
            revealed.push_str(before);
            revealed.push_str(&to_text(self.values.get(ciphertext)?));
            rest = after;
        }
        revealed.push_str(rest);
        (!rest.starts_with(CIPHERTEXT_START)).then(|| revealed.into_bytes())
    }
}

/// What stands in place of a text.
enum RevealedText {
    /// What it stands for in clear.
    Plain(Value),
    /// The text itself, in which nothing is encrypted.
    InClear,
    /// Something that is not known.
    Unknown,
}

fn to_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cipher(data: &str) -> String {
        format!("ENC[AES256_GCM,data:{data},iv:YWJj,tag:ZGVm,type:str]")
    }

    fn plain_values() -> PlainValues {
        let mut values = PlainValues::default();
        let encrypted = [json!({"data": {"k": cipher("a"), "l": [cipher("b"), 1]}})];
        values.add_documents(&encrypted, &[json!({"data": {"k": 5, "l": ["b", 2]}})]);
        values
    }

    #[test]
    fn ciphertext_is_replaced_and_nothing_else() {
        let written = json!({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}},
            "data": {"other": cipher("a"), "l": [cipher("b"), 1], "url": format!("u:{}@{}", cipher("b"), cipher("a"))},
            "sops": {"mac": cipher("mac")}});
        assert_eq!(
            plain_values().reveal_document(&written),
            Some(json!({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}},
                "data": {"other": 5, "l": ["b", 1], "url": "u:b@5"}}))
        );
        for unknown in [cipher("z"), format!("x {}", cipher("z")), "ENC[AES256_GCM,data:a".to_owned()] {
            assert_eq!(plain_values().reveal_document(&json!({"data": {"k": unknown}})), None);
        }
    }

    #[test]
    fn the_data_of_a_secret_is_revealed_in_its_encoding() {
        let mut values = plain_values();
        values.add_file("a file", b"\xff\x00".to_vec());
        let file = format!("{} of a file", cipher("x"));
        values.add_file(&file, b"\xff\x00".to_vec());
        let secret = json!({"kind": "Secret", "data": {"a": STANDARD.encode(cipher("b")), "f": STANDARD.encode(&file), "p": "Zm9v"}});
        let revealed = values.reveal_document(&secret).unwrap();
        assert_eq!(revealed["data"], json!({"a": "Yg==", "f": "/wA=", "p": "Zm9v"}));
        assert_eq!(values.reveal_document(&json!({"kind": "ConfigMap", "data": {"f": file}})), None);
    }
}
