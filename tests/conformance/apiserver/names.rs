//! Values that a server chose, by their names in a case: filled into requests, found in answers.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Value, json};

use super::NOW;
use crate::diff;

/// Values by their names in the case.
#[derive(Default)]
pub(super) struct Names {
    values: BTreeMap<String, String>,
    /// Whether another client writes between the steps, so that other versions may be the same here.
    pub(super) busy: bool,
}

impl Names {
    /// A text of a request with the values that the server chose.
    pub(super) fn fill(&self, text: &str) -> String {
        let name = Regex::new(r"<([a-zA-Z]+\d+)>").expect("a pattern");
        let times = Regex::new(r"^<(\d+) times (.)>$").expect("a pattern");
        if let Some(found) = times.captures(text) {
            return found[2].repeat(found[1].parse().expect("a number"));
        }
        let filled = name.replace_all(text, |found: &regex::Captures<'_>| match self.values.get(&found[1]) {
            Some(value) => value.clone(),
            // A token of a version long gone, as the note of the case describes it.
            None if found[1].starts_with("continue") => {
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJjMVx1MDAwMCJ9".to_owned()
            }
            None => found[0].to_owned(),
        });
        filled.replace("<time>", NOW)
    }

    pub(super) fn fill_all(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.fill(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill_all(item)),
            Value::Object(map) => {
                let pointed = map.get("path").is_some_and(|p| p == "/metadata/resourceVersion");
                // Recorded without a name: the version that an earlier answer carried.
                if pointed && map["value"].as_str().is_some_and(|v| v.parse::<u64>().is_ok()) {
                    map["value"] = json!(self.values.get("rv1").cloned().unwrap_or_default());
                }
                map.values_mut().for_each(|value| self.fill_all(value));
            }
            _ => {}
        }
    }

    pub(super) fn same(&mut self, want: &Value, got: &Value, path: &str) -> Result<(), String> {
        match (want, got) {
            (Value::Object(a), Value::Object(b)) => {
                let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
                for key in keys {
                    let path = format!("{path}/{key}");
                    match (a.get(key), b.get(key)) {
                        (Some(a), Some(b)) => self.same(a, b, &path)?,
                        (Some(a), None) => return Err(format!("{path} is missing, want {a}")),
                        (_, b) => return Err(format!("{path} is there: {}", b.unwrap_or(&Value::Null))),
                    }
                }
                Ok(())
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
                .iter()
                .zip(b)
                .enumerate()
                .try_for_each(|(at, (a, b))| self.same(a, b, &format!("{path}/{at}"))),
            (Value::String(a), Value::Number(_)) if a.starts_with('<') => {
                self.text(a, &got.to_string()).map_err(|why| format!("{path}: {why}"))
            }
            (Value::String(a), Value::String(b)) => self.text(a, b).map_err(|why| format!("{path}: {why}")),
            _ if diff::normal(want) == diff::normal(got) => Ok(()),
            _ => Err(format!("{path}: {got}, want {want}")),
        }
    }

    fn text(&mut self, want: &str, got: &str) -> Result<(), String> {
        if want == got {
            return Ok(());
        }
        let name = Regex::new(r"<([a-zA-Z]+)(\d*)>").expect("a pattern");
        let (mut pattern, mut fresh, mut end) = ("^".to_owned(), Vec::new(), 0);
        for found in name.captures_iter(want) {
            let whole = found.get(0).expect("the match");
            pattern.push_str(&literal(&want[end..whole.start()]));
            end = whole.end();
            let full = format!("{}{}", &found[1], &found[2]);
            match (&found[1], self.values.get(&full)) {
                ("time", _) => pattern.push_str(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
                ("pem", _) => pattern.push_str("(?s:.+)"),
                ("hash", _) if found[2].is_empty() => pattern.push_str("[0-9A-F]+"),
                ("rv", _) if found[2].is_empty() => pattern.push_str(r"\d+"),
                (_, Some(value)) => pattern.push_str(&regex::escape(value)),
                _ => {
                    pattern.push_str("(.+)");
                    fresh.push(full);
                }
            }
        }
        pattern.push_str(&literal(&want[end..]));
        pattern.push('$');
        let found = Regex::new(&pattern)
            .expect("a pattern")
            .captures(got)
            .ok_or_else(|| format!("{got:?}, want {want:?} with {:?}", self.values))?;
        for (at, name) in fresh.into_iter().enumerate() {
            let value = found[at + 1].to_owned();
            let class = name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
            let other = self.values.iter().find(|(known, v)| {
                **v == value && known.trim_end_matches(|c: char| c.is_ascii_digit()) == class
            });
            if let Some((other, _)) = other.filter(|_| !self.busy || class != "rv") {
                return Err(format!("{name} is {value}, as is {other}"));
            }
            self.values.insert(name, value);
        }
        Ok(())
    }
}

/// A literal part of a text; versions in parentheses were recorded without names.
fn literal(text: &str) -> String {
    let number = Regex::new(r"\\\(\d+\\\)").expect("a pattern");
    number.replace_all(&regex::escape(text), r"\(\d+\)").into_owned()
}
