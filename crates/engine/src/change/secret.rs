//! Replaces secret values with short keyed digests before they are compared or shown.
//!
//! Digests with the same key show whether a value has changed and whether two values are equal. Without the key, the
//! value cannot be found by guessing. Facts: RFC 2104 and FIPS 198-1 (HMAC), here with SHA-256. The Secret of the core
//! API group has its values below `data` and `stringData`, and `kubectl apply` stores a copy of them in an annotation.
//!
//! Any kind with `Secret` in its name is treated as a Secret (federated kinds wrap it below `spec.template`), at any
//! depth of an object; so is text that contains the manifest of one. Copies of the value elsewhere in the same object,
//! such as those that an override made, are replaced, too.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The key of digests.
#[derive(Clone)]
pub struct DigestKey {
    bytes: [u8; BLOCK],
    is_random: bool,
}

/// The beginning of a text that replaces a value.
const DIGEST: &str = "<secret ";

/// The number of bytes in a block of SHA-256.
const BLOCK: usize = 64;

impl DigestKey {
    /// Creates a key from bytes of any length. A longer key is harder to guess.
    pub fn new(bytes: &[u8]) -> Self {
        let mut key = [0; BLOCK];
        if bytes.len() > BLOCK {
            let digest = Sha256::digest(bytes);
            key[..digest.len()].copy_from_slice(&digest);
        } else {
            key[..bytes.len()].copy_from_slice(bytes);
        }
        Self { bytes: key, is_random: false }
    }

    /// Creates a key for one run: its digests cannot be compared with those of another run.
    pub fn random(bytes: &[u8]) -> Self {
        Self { is_random: true, ..Self::new(bytes) }
    }

    /// Whether the key is for one run.
    pub fn is_random(&self) -> bool {
        self.is_random
    }

    fn hmac(&self, text: &[u8]) -> [u8; 32] {
        let pad = |byte: u8| self.bytes.map(|b| b ^ byte);
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
        Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
    }

    /// Returns the text that replaces a value.
    pub(super) fn hidden(&self, text: &str) -> String {
        let [a, b, c, d, ..] = self.hmac(text.as_bytes());
        format!("{DIGEST}{:08x}>", u32::from_be_bytes([a, b, c, d]))
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// The annotation in which `kubectl apply` stores the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields with the values of a Secret.
const VALUES: [&str; 2] = ["data", "stringData"];

/// The length of the shortest value whose copies are replaced. Shorter values are part of many ordinary words.
const SHORTEST: usize = 4;

/// Replaces the secret values in all versions of one object. Returns whether there were any.
pub fn hide(sides: &mut [&mut Value], key: &DigestKey) -> bool {
    let mut hiding = Hiding { key, values: BTreeSet::new(), any: false };
    for side in &mut *sides {
        hiding.object(side);
    }
    // Replace the longest first, because one value may contain another.
    let mut values: Vec<String> =
        std::mem::take(&mut hiding.values).into_iter().filter(|v| v.chars().count() >= SHORTEST).collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    if !values.is_empty() {
        for side in sides {
            copies(side, &values, key);
        }
    }
    hiding.any
}

/// Whether an object is a Secret with values that were replaced by digests, as in a snapshot.
pub fn is_hidden(body: &Value) -> bool {
    let values = body.get("data").and_then(Value::as_object);
    body["kind"] == "Secret" && values.into_iter().flatten().any(|(_, value)| is_digest(value))
}

fn is_digest(value: &Value) -> bool {
    value.as_str().is_some_and(is_digest_text)
}

/// Whether a text stands for a value that was replaced.
pub(super) fn is_digest_text(text: &str) -> bool {
    text.starts_with(DIGEST)
}

/// Puts the rendered values of a Secret back where the live object has their digests. A random key has no digests to
/// compare, so that all values count as equal.
pub fn reveal(live: &mut Value, rendered: &Value, key: &DigestKey) {
    let Some(values) = live.get_mut("data").and_then(Value::as_object_mut) else { return };
    for (name, value) in values.iter_mut().filter(|(_, value)| is_digest(value)) {
        let Some(text) = rendered.pointer("/data").and_then(|data| data.get(name)?.as_str()) else {
            continue;
        };
        if key.is_random || *value == key.hidden(text) {
            *value = text.into();
        }
    }
}

struct Hiding<'k> {
    key: &'k DigestKey,
    /// The values that were replaced.
    values: BTreeSet<String>,
    any: bool,
}

impl Hiding<'_> {
    /// Finds Secrets in a value, at any depth.
    fn object(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) if is_secret(map) => self.secret(map),
            Value::Object(map) => map.values_mut().for_each(|value| self.object(value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.object(item)),
            Value::String(text) if holds_manifest(text) => self.leaf(value),
            _ => {}
        }
    }

    fn secret(&mut self, map: &mut Map<String, Value>) {
        for (field, value) in map.iter_mut() {
            match value {
                value if VALUES.contains(&field.as_str()) => self.all(value),
                Value::Object(inner) if field == "metadata" => {
                    let annotations = inner.get_mut("annotations").and_then(Value::as_object_mut);
                    if let Some(text) = annotations.and_then(|map| map.get_mut(LAST_APPLIED)) {
                        self.all(text);
                    }
                }
                // A wrapper has templates below `spec` at any depth, with or without a kind.
                value if field == "spec" => self.wrapped(value),
                value => self.object(value),
            }
        }
    }

    /// Replaces values in the templates and overrides of a wrapper.
    fn wrapped(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (field, value) in map.iter_mut() {
                    match value {
                        Value::Object(inner) if field == "template" => self.secret(inner),
                        // The value of an override may be secret.
                        value if field == "value" => self.all(value),
                        value => self.wrapped(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.wrapped(item)),
            value => self.object(value),
        }
    }

    /// Replaces every leaf.
    fn all(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| self.all(value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.all(item)),
            Value::Null => {}
            leaf => self.leaf(leaf),
        }
    }

    fn leaf(&mut self, value: &mut Value) {
        self.any = true;
        let text = match &*value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        *value = Value::String(self.key.hidden(&text));
        self.values.insert(text);
    }
}

fn is_secret(map: &Map<String, Value>) -> bool {
    map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.contains("Secret"))
}

/// Whether a text may contain the manifest of a Secret.
fn holds_manifest(text: &str) -> bool {
    text.contains("kind") && text.contains("Secret") && text.contains(['\n', '{'])
}

/// Replaces copies of `values`, except in the identity of the object.
fn copies(value: &mut Value, values: &[String], key: &DigestKey) {
    fn below(value: &mut Value, values: &[String], key: &DigestKey) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| below(value, values, key)),
            Value::Array(items) => items.iter_mut().for_each(|item| below(item, values, key)),
            Value::String(text) if !text.starts_with("<secret ") => {
                for secret in values {
                    if text.contains(secret.as_str()) {
                        *text = text.replace(secret.as_str(), &key.hidden(secret));
                    }
                }
            }
            _ => {}
        }
    }
    let Value::Object(map) = value else { return };
    for (field, value) in map.iter_mut() {
        match (field.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(inner)) => {
                let named = |field: &str| matches!(field, "name" | "namespace");
                inner.iter_mut().filter(|(f, _)| !named(f)).for_each(|(_, v)| below(v, values, key));
            }
            (_, value) => below(value, values, key),
        }
    }
}

#[cfg(test)]
mod tests;
