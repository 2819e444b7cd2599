//! Label and field selectors in URLs.

use federate_apiserver_model::{ApiError, ResourceKind};
use serde_json::Value;

/// A condition on a label or field.
#[derive(Clone, Debug)]
pub struct SelectorTerm {
    key: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, Default)]
pub struct RequestSelector {
    labels: Vec<SelectorTerm>,
    fields: Vec<SelectorTerm>,
}

impl SelectorTerm {
    fn new(key: &str, test: Test) -> Self {
        Self { key: key.trim().to_owned(), test }
    }

    fn matches_value(&self, value: Option<&str>) -> bool {
        let number = value.and_then(|v| v.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
            Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Above(limit) => number.is_some_and(|n| n > *limit),
            Test::Below(limit) => number.is_some_and(|n| n < *limit),
        }
    }
}

impl RequestSelector {
    pub fn parse(labels: Option<&str>, fields: Option<&str>, kind: &ResourceKind) -> Result<Self, ApiError> {
        let labels = parse_labels(labels.unwrap_or_default())
            .map_err(|why| ApiError::bad_request(format!("unable to parse requirement: {why}")))?;
        let fields = parse_fields(fields.unwrap_or_default());
        let custom = kind.custom.iter().flat_map(|c| &c.selectable).map(|p| p.trim_start_matches('.'));
        let mut known = vec!["metadata.name", "metadata.namespace"];
        known.extend(custom.chain(builtin_fields(kind).iter().copied()));
        if let Some(term) = fields.iter().find(|term| !known.contains(&term.key.as_str())) {
            let known: Vec<String> = known.iter().map(|k| format!("{k:?}")).collect();
            return Err(ApiError::bad_request(format!(
                "{:?} is not a known field selector: only {}",
                term.key,
                known.join(", ")
            )));
        }
        Ok(Self { labels, fields })
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.labels
            .iter()
            .all(|term| term.matches_value(labels.and_then(|labels| labels.get(&term.key)?.as_str())))
            && self.fields.iter().all(|term| {
                match object.pointer(&format!("/{}", term.key.replace('.', "/"))) {
                    Some(Value::String(text)) => term.matches_value(Some(text)),
                    Some(other) => term.matches_value(Some(&other.to_string())),
                    None => term.matches_value(Some("")),
                }
            })
    }
}

fn builtin_fields(kind: &ResourceKind) -> &'static [&'static str] {
    match kind.kind.as_str() {
        _ if kind.custom.is_some() => &[],
        "Pod" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
        ],
        "Secret" => &["type"],
        "Namespace" => &["status.phase"],
        "ReplicaSet" | "ReplicationController" => &["status.replicas"],
        "Job" => &["status.successful"],
        "Event" => {
            &["involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "reason", "type"]
        }
        _ => &[],
    }
}

fn parse_fields(text: &str) -> Vec<SelectorTerm> {
    let terms = text.split(',').filter(|term| !term.is_empty());
    terms
        .map(|term| {
            let (key, value, not) =
                match (term.split_once("!="), term.split_once("==").or(term.split_once('='))) {
                    (Some((key, value)), _) => (key, value, true),
                    (None, Some((key, value))) => (key, value, false),
                    _ => (term, "", false),
                };
            let values = vec![value.to_owned()];
            SelectorTerm {
                key: key.to_owned(),
                test: if not { Test::NotIn(values) } else { Test::In(values) },
            }
        })
        .collect()
}

/// Splits at commas outside of parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_labels(text: &str) -> Result<Vec<SelectorTerm>, String> {
    split_terms(text).into_iter().map(str::trim).filter(|t| !t.is_empty()).map(parse_label).collect()
}

fn parse_label(term: &str) -> Result<SelectorTerm, String> {
    if let Some(key) = term.strip_prefix('!') {
        return Ok(SelectorTerm::new(key, Test::Absent));
    }
    for (operator, not) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = term.split_once(operator) {
            let values = vec![value.trim().to_owned()];
            return Ok(SelectorTerm::new(key, if not { Test::NotIn(values) } else { Test::In(values) }));
        }
    }
    for (operator, above) in [('>', true), ('<', false)] {
        if let Some((key, value)) = term.split_once(operator) {
            let limit = value.trim().parse().map_err(|_| format!("{value:?} is no integer"))?;
            return Ok(SelectorTerm::new(key, if above { Test::Above(limit) } else { Test::Below(limit) }));
        }
    }
    let mut words = term.splitn(2, char::is_whitespace);
    let (key, rest) = (words.next().unwrap_or_default(), words.next().map(str::trim));
    let Some(rest) = rest else { return Ok(SelectorTerm::new(key, Test::Exists)) };
    let (operator, list) = rest.split_once('(').unwrap_or((rest, ""));
    let values = list.trim_end_matches(')').split(',').map(|value| value.trim().to_owned()).collect();
    match operator.trim() {
        "in" => Ok(SelectorTerm::new(key, Test::In(values))),
        "notin" => Ok(SelectorTerm::new(key, Test::NotIn(values))),
        other => {
            let found = other.split_whitespace().next().unwrap_or_default();
            Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"))
        }
    }
}
