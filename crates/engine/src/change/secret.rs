//! Replaces secret values with short keyed digests before they are compared or shown.
//!
//! Digests with the same key show whether the value at a place of an object has changed. The object and the place are part of them, so
//! that equal values elsewhere have other digests: whoever may write one Secret cannot find the value of another by guesses. Without
//! the key, no value can be found by guessing. Facts: RFC 2104 and FIPS 198-1 (HMAC), here with SHA-256. The Secret of the core
//! API group has its values below `data` and `stringData`, and `kubectl apply` stores a copy of them in an annotation.
//!
//! Any kind with `Secret` in its name is treated as a Secret (federated kinds wrap it below `spec.template`), at any
//! depth of an object; so is text that contains the manifest of one. Copies of the value elsewhere in the same object,
//! such as those that an override made, are replaced, too.

use std::collections::BTreeSet;

use super::digest::{DIGEST_PREFIX, DigestKey, ENCRYPTED_PREFIX, ValuePlace};
use federate_kubernetes::sops::is_ciphertext;
use serde_json::{Map, Value};

/// Whether a text stands for a value that SOPS encrypted.
pub(super) fn is_encrypted_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(ENCRYPTED_PREFIX))
}
/// The annotation in which `kubectl apply` stores the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields with the values of a Secret.
const SECRET_FIELDS: [&str; 2] = ["data", "stringData"];

/// The length of the shortest value whose copies are replaced. Shorter values are part of many ordinary words.
const MIN_COPIED_CHARS: usize = 4;

/// The step to an item of a list.
const ITEM_STEP: &str = "-";

/// Replaces the secret values in all versions of one object: those of Secrets, and those that are named like credentials. Returns
/// whether there were any.
pub fn hide_secret_values(sides: &mut [&mut Value], key: &DigestKey) -> bool {
    let mut any = hide_secrets(sides, key);
    for side in sides {
        any |= super::credentials::hide_credentials(side, key);
    }
    any
}

/// Replaces the values of Secrets.
fn hide_secrets(sides: &mut [&mut Value], key: &DigestKey) -> bool {
    let mut hiding = Hiding { key, place: ValuePlace::default(), values: BTreeSet::new(), any: false };
    for side in &mut *sides {
        hiding.place = ValuePlace::in_object(side);
        hiding.visit_object(side);
    }
    // Replace the longest first, because one value may contain another.
    let mut values: Vec<String> = std::mem::take(&mut hiding.values)
        .into_iter()
        .filter(|v| v.chars().count() >= MIN_COPIED_CHARS)
        .collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    if !values.is_empty() {
        for side in sides {
            replace_copies(side, &values, key);
        }
    }
    hiding.any
}

/// Whether an object has values that were replaced by digests, as in a snapshot.
pub fn is_hidden(body: &Value) -> bool {
    match body {
        Value::Object(map) => map.values().any(is_hidden),
        Value::Array(items) => items.iter().any(is_hidden),
        Value::String(text) => text.contains(DIGEST_PREFIX),
        _ => false,
    }
}

/// Puts the rendered values back where the live object has their digests. A random key has no digests to compare, so that all
/// values count as equal.
pub fn reveal_values(live: &mut Value, rendered: &Value, key: &DigestKey) {
    let mut hidden = rendered.clone();
    hide_secret_values(&mut [&mut hidden], key);
    reveal_at(live, rendered, &hidden, key);
}

fn reveal_at(live: &mut Value, rendered: &Value, hidden: &Value, key: &DigestKey) {
    match (live, rendered, hidden) {
        (Value::Object(live), Value::Object(rendered), Value::Object(hidden)) => {
            for (name, value) in live {
                if let (Some(rendered), Some(hidden)) = (rendered.get(name), hidden.get(name)) {
                    reveal_at(value, rendered, hidden, key);
                }
            }
        }
        (Value::Array(live), Value::Array(rendered), Value::Array(hidden)) => {
            for (value, (rendered, hidden)) in live.iter_mut().zip(rendered.iter().zip(hidden)) {
                reveal_at(value, rendered, hidden, key);
            }
        }
        (value, rendered, Value::String(hidden)) if hidden.contains(DIGEST_PREFIX) => {
            let Some(text) = value.as_str() else { return };
            if text == hidden || (key.is_random() && without_digests(text) == without_digests(hidden)) {
                *value = rendered.clone();
            }
        }
        _ => {}
    }
}

/// A text with the same words in place of all digests.
fn without_digests(text: &str) -> String {
    let mut parts = text.split(DIGEST_PREFIX);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        all.push_str(DIGEST_PREFIX);
        all.push_str(part.split_once('>').map_or("", |(_, rest)| rest));
    }
    all
}

struct Hiding<'k> {
    key: &'k DigestKey,
    /// The current place.
    place: ValuePlace,
    /// The values that were replaced.
    values: BTreeSet<String>,
    any: bool,
}

impl Hiding<'_> {
    /// Does something with each entry or item of a value.
    fn for_each_entry(&mut self, value: &mut Value, act: fn(&mut Self, &mut Value)) {
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    self.visit_entry(key, value, act);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.visit_entry(ITEM_STEP, item, act)),
            _ => {}
        }
    }

    /// Does something with an entry.
    fn visit_entry(&mut self, key: &str, value: &mut Value, act: fn(&mut Self, &mut Value)) {
        let before = self.place.enter_key(key);
        act(self, value);
        self.place.leave_key(before);
    }

    /// Finds Secrets in a value, at any depth.
    fn visit_object(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) if map.get("sops").is_some_and(Value::is_object) => self.hide_encrypted(value),
            Value::Object(map) if is_secret(map) => self.hide_secret(value),
            Value::Object(_) | Value::Array(_) => self.for_each_entry(value, Self::visit_object),
            Value::String(text) if holds_manifest(text) => self.hide_leaf(value),
            _ => {}
        }
    }

    /// Replaces what SOPS encrypted, and its own part as a whole.
    fn hide_encrypted(&mut self, value: &mut Value) {
        self.any = true;
        if let Value::Object(map) = &mut *value {
            for (field, value) in map.iter_mut() {
                if field == "sops" {
                    *value = Value::String(self.key.encrypted_text(&self.place, &value.to_string()));
                } else {
                    self.visit_entry(field, value, Self::hide_ciphertext);
                }
            }
        }
        if value.as_object().is_some_and(is_secret) {
            self.hide_secret(value);
        }
    }

    fn hide_ciphertext(&mut self, value: &mut Value) {
        match value {
            Value::Object(_) | Value::Array(_) => self.for_each_entry(value, Self::hide_ciphertext),
            Value::String(text) if is_ciphertext(text) => {
                *value = self.key.encrypted_text(&self.place, text).into();
            }
            _ => {}
        }
    }

    fn hide_secret(&mut self, value: &mut Value) {
        let Value::Object(map) = value else { return };
        for (field, value) in map.iter_mut() {
            match (field.as_str(), &*value) {
                (field, _) if SECRET_FIELDS.contains(&field) => {
                    self.visit_entry(field, value, Self::hide_all);
                }
                ("metadata", Value::Object(_)) => {
                    let annotations = value.get_mut("annotations").and_then(Value::as_object_mut);
                    if let Some(text) = annotations.and_then(|map| map.get_mut(LAST_APPLIED)) {
                        self.visit_entry(LAST_APPLIED, text, Self::hide_all);
                    }
                }
                // A wrapper has templates below `spec` at any depth, with or without a kind.
                ("spec", _) => self.visit_entry(field, value, Self::hide_wrapped),
                _ => self.visit_entry(field, value, Self::visit_object),
            }
        }
    }

    /// Replaces values in the templates and overrides of a wrapper.
    fn hide_wrapped(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (field, value) in map.iter_mut() {
                    match (field.as_str(), &*value) {
                        ("template", Value::Object(_)) => self.visit_entry(field, value, Self::hide_secret),
                        // The value of an override may be secret.
                        ("value", _) => self.visit_entry(field, value, Self::hide_all),
                        _ => self.visit_entry(field, value, Self::hide_wrapped),
                    }
                }
            }
            Value::Array(_) => self.for_each_entry(value, Self::hide_wrapped),
            value => self.visit_object(value),
        }
    }

    /// Replaces every leaf.
    fn hide_all(&mut self, value: &mut Value) {
        match value {
            Value::Object(_) | Value::Array(_) => self.for_each_entry(value, Self::hide_all),
            Value::Null => {}
            leaf => self.hide_leaf(leaf),
        }
    }

    fn hide_leaf(&mut self, value: &mut Value) {
        if value.as_str().is_some_and(|text| text.starts_with(ENCRYPTED_PREFIX)) {
            return;
        }
        self.any = true;
        let text = match &*value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        *value = Value::String(self.key.digest_text(&self.place, &text));
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
fn replace_copies(value: &mut Value, values: &[String], key: &DigestKey) {
    let mut copies = Copies { values, key, place: ValuePlace::in_object(value) };
    let Value::Object(map) = value else { return };
    for (field, value) in map.iter_mut() {
        match (field.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(inner)) => {
                let before = copies.place.enter_key(field);
                for (field, value) in inner.iter_mut() {
                    if !matches!(field.as_str(), "name" | "namespace") {
                        copies.replace_at(field, value);
                    }
                }
                copies.place.leave_key(before);
            }
            (_, value) => copies.replace_at(field, value),
        }
    }
}

/// Replaces copies of values.
struct Copies<'v> {
    values: &'v [String],
    key: &'v DigestKey,
    place: ValuePlace,
}

impl Copies<'_> {
    fn replace_at(&mut self, key: &str, value: &mut Value) {
        let before = self.place.enter_key(key);
        match value {
            Value::Object(map) => map.iter_mut().for_each(|(key, value)| self.replace_at(key, value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace_at(ITEM_STEP, item)),
            Value::String(text) if !text.starts_with(DIGEST_PREFIX) => {
                for secret in self.values {
                    if text.contains(secret.as_str()) {
                        *text = text.replace(secret.as_str(), &self.key.digest_text(&self.place, secret));
                    }
                }
            }
            _ => {}
        }
        self.place.leave_key(before);
    }
}

#[cfg(test)]
mod tests;
