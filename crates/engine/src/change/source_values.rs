//! Hides values of sources that reach clusters in Secrets.
//!
//! A value of a chart may have any name. It is hidden as well if a Secret that is built contains it, or if it makes a Secret
//! change without being visible in what else changes, such as a password of which only a hash is left.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::PathChange;
use super::digest::{DIGEST_PREFIX, DigestKey, ValuePlace, is_digest_text};
use super::edits::ChangeCause;
use federate_repo::Repo;

/// The length of the shortest value that is searched within others. Shorter ones are part of many ordinary words.
const MIN_SEARCHED_CHARS: usize = 4;

/// How many bytes are searched. What has not been searched is hidden.
const MAX_SEARCHED_BYTES: usize = 256 << 20;

/// How many bytes of changed values are compared with an edit.
const MAX_VISIBLE_BYTES: usize = 1 << 20;

/// The values of Secrets.
pub(super) struct SecretTexts {
    texts: BTreeSet<String>,
    /// All of them, one after the other.
    joined: String,
    /// How many bytes may still be searched.
    budget: usize,
}

impl SecretTexts {
    /// The values of the Secrets in two repos.
    pub(super) fn collect(repos: [&Repo; 2]) -> Self {
        let mut texts = BTreeSet::new();
        for template in repos.iter().flat_map(|repo| &repo.templates) {
            let more = template.per_cluster.iter().flat_map(|bodies| bodies.values());
            for object in std::iter::once(&template.object).chain(more.map(AsRef::as_ref)) {
                if object.id.kind.contains("Secret") {
                    for field in ["data", "stringData", "spec"] {
                        collect_texts(object.body.get(field).unwrap_or(&Value::Null), &mut texts);
                    }
                }
            }
        }
        let joined = texts.iter().fold(String::new(), |all, text| all + "\0" + text);
        Self { texts, joined, budget: MAX_SEARCHED_BYTES }
    }

    /// Whether a Secret contains a text, or the text contains a value of one. The answer is yes if that would take too long to find.
    fn is_related(&mut self, text: &str) -> bool {
        if self.texts.contains(text) {
            return true;
        }
        if self.texts.is_empty() || text.chars().count() < MIN_SEARCHED_CHARS {
            return false;
        }
        if !self.spend(self.joined.len() + self.texts.len() * text.len()) {
            return true;
        }
        let mut long = self.texts.iter().filter(|secret| secret.chars().count() >= MIN_SEARCHED_CHARS);
        self.joined.contains(text) || long.any(|secret| text.contains(secret.as_str()))
    }

    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.budget.checked_sub(bytes);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    /// Hides values of an edit. `caused` are the fields that change because of it.
    pub(super) fn hide_values<'c>(
        &mut self,
        edit: &mut ChangeCause,
        caused: impl Iterator<Item = &'c PathChange>,
        key: &DigestKey,
    ) {
        let mut visible = String::new();
        let mut changes_secret = false;
        for value in caused.flat_map(|change| [&change.from, &change.to]).flatten() {
            if visible.len() > MAX_VISIBLE_BYTES {
                break;
            }
            let text = value.to_string();
            changes_secret |= text.contains(DIGEST_PREFIX);
            visible.push_str(&text);
        }
        let visible = changes_secret.then_some(visible);
        for field in &mut edit.fields {
            let change = &mut field.change;
            let place = ValuePlace::default().at_entry(&change.path);
            for value in [&mut change.from, &mut change.to].into_iter().flatten() {
                self.hide_value(value, visible.as_deref(), &place, key);
            }
        }
    }

    fn hide_value(&mut self, value: &mut Value, visible: Option<&str>, place: &ValuePlace, key: &DigestKey) {
        let text = match value {
            Value::Object(map) => {
                return map.values_mut().for_each(|value| self.hide_value(value, visible, place, key));
            }
            Value::Array(items) => {
                return items.iter_mut().for_each(|value| self.hide_value(value, visible, place, key));
            }
            Value::String(text) if text.is_empty() || is_digest_text(text) => return,
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) => return,
        };
        // As it stands in JSON.
        let written = value.to_string();
        let written = written.trim_matches('"');
        let is_unseen =
            visible.is_some_and(|visible| !self.spend(visible.len()) || !visible.contains(written));
        if is_unseen || self.is_related(&text) {
            *value = key.digest_text(place, &text).into();
        }
    }
}

/// Adds the texts in a value, and what they are in base64.
fn collect_texts(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.values().for_each(|value| collect_texts(value, texts)),
        Value::Array(items) => items.iter().for_each(|value| collect_texts(value, texts)),
        Value::String(text) if !text.is_empty() => {
            let decoded = STANDARD.decode(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            texts.extend(decoded.filter(|decoded| !decoded.is_empty()));
            texts.insert(text.clone());
        }
        Value::Number(number) => drop(texts.insert(number.to_string())),
        _ => {}
    }
}
