//! Preserved state: values of a status by JSON path, as labels.
//!
//! Facts: a rule that finds nothing stops the eviction.

use std::collections::BTreeMap;

use serde_json::Value;

use super::binding::ReportedStatus;
use crate::api::StateRule;

/// The labels that rules make from a status; `None` where a rule finds nothing.
pub fn preserve_labels(
    rules: &[StateRule],
    reported: Option<&ReportedStatus>,
) -> Option<BTreeMap<String, String>> {
    if rules.is_empty() {
        return Some(BTreeMap::new());
    }
    let status = reported?.status.as_ref()?;
    rules
        .iter()
        .map(|rule| Some((rule.alias_label_name.clone(), render_template(&rule.json_path, status)?)))
        .collect()
}

/// A template such as `{.phase}` with its paths replaced.
fn render_template(template: &str, value: &Value) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, path)) = rest.split_once('{') {
        let (path, after) = path.split_once('}')?;
        text.push_str(before);
        text.push_str(&find_text(path.trim(), value)?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// The text of the value at a path.
fn find_text(path: &str, value: &Value) -> Option<String> {
    let mut value = value;
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, after) = inner.split_once(']')?;
            value = match key.strip_prefix('\'').and_then(|key| key.strip_suffix('\'')) {
                Some(key) => value.get(key)?,
                None => value.get(key.parse::<usize>().ok()?)?,
            };
            rest = after;
        } else {
            let step = rest.strip_prefix('.')?;
            let end = step.find(['.', '[']).unwrap_or(step.len());
            let (key, after) = step.split_at(end);
            if !key.is_empty() {
                value = value.get(key)?;
            }
            rest = after;
        }
    }
    Some(match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_texts() {
        let status = json!({"phase": "Failed", "ready": 1, "conditions": [{"type": "Degraded"}]});
        for (path, text) in [
            ("{.phase}", Some("Failed")),
            ("{.ready}", Some("1")),
            ("{ .conditions[0].type }-x", Some("Degraded-x")),
            ("{['phase']}", Some("Failed")),
            ("{.missing}", None),
            ("{.conditions[1]}", None),
            ("{.phase", None),
        ] {
            assert_eq!(render_template(path, &status).as_deref(), text, "{path}");
        }
    }
}
