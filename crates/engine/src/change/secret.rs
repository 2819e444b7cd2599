//! Secret values are replaced by short keyed digests before anything is compared or shown.
//!
//! A digest tells whether a value changed, and whether two are equal, within what one key made; without
//! the key it cannot be found out by trying values. Facts: RFC 2104 and FIPS 198-1 (HMAC), here over
//! SHA-256; the Secret of Kubernetes' core group keeps values below `data` and `stringData`, and `kubectl
//! apply` keeps a copy of all that in an annotation.
//!
//! Any kind that has `Secret` in its name is treated like one (federated ones wrap it below
//! `spec.template`), wherever it stands in an object; so are texts that hold a manifest of one. A value that
//! also stands elsewhere in the same object, because an override copied it there, is replaced there too.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The key of digests.
#[derive(Clone)]
pub struct DigestKey([u8; BLOCK]);

/// Bytes in a block of SHA-256.
const BLOCK: usize = 64;

impl DigestKey {
    /// A key of any length; the longer, the harder to guess.
    pub fn new(bytes: &[u8]) -> Self {
        let mut key = [0; BLOCK];
        if bytes.len() > BLOCK {
            let digest = Sha256::digest(bytes);
            key[..digest.len()].copy_from_slice(&digest);
        } else {
            key[..bytes.len()].copy_from_slice(bytes);
        }
        Self(key)
    }

    fn hmac(&self, text: &[u8]) -> [u8; 32] {
        let pad = |byte: u8| self.0.map(|b| b ^ byte);
        let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
        Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
    }

    /// What stands for a value.
    fn hidden(&self, text: &str) -> String {
        let [a, b, c, d, ..] = self.hmac(text.as_bytes());
        format!("<secret {:08x}>", u32::from_be_bytes([a, b, c, d]))
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// The annotation in which `kubectl apply` keeps the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Where the values are.
const VALUES: [&str; 2] = ["data", "stringData"];

/// A shorter value says too little to be looked for elsewhere, and stands in every other word.
const SHORTEST: usize = 4;

/// Replaces the secret values of both sides of one object; whether there were any.
pub fn hide(sides: &mut [&mut Value], key: &DigestKey) -> bool {
    let mut hiding = Hiding { key, values: BTreeSet::new(), any: false };
    for side in &mut *sides {
        hiding.object(side);
    }
    // The longest first: one value may be a part of another.
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

struct Hiding<'k> {
    key: &'k DigestKey,
    /// What was found, as it was.
    values: BTreeSet<String>,
    any: bool,
}

impl Hiding<'_> {
    /// Looks for Secrets in a value, at any depth.
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
                // What a wrapper holds below `spec`, at any depth: templates with or without a kind.
                value if field == "spec" => self.wrapped(value),
                value => self.object(value),
            }
        }
    }

    /// Fields named as those of a Secret that are mappings of texts, below the `template`s of a wrapper.
    fn wrapped(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (field, value) in map.iter_mut() {
                    match value {
                        Value::Object(inner) if field == "template" => self.secret(inner),
                        // An override's value may be a secret one.
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

/// Whether a text may be a manifest, or hold one, of a Secret.
fn holds_manifest(text: &str) -> bool {
    text.contains("kind") && text.contains("Secret") && text.contains(['\n', '{'])
}

/// Replaces what `values` are copied to; what an object is called stays as it is.
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
