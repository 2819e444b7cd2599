//! The parameters of an Application: what generators give and templates are filled with.
//!
//! With Go's templates, parameters are nested and their types count: labels and `values` are maps of texts, the elements of lists
//! are maps of anything. Without them, parameters are flat, and only those that are texts are filled in.

use std::collections::BTreeMap;

use federate_go_template::{GoTemplate, TemplateBudget, TemplateOptions, TemplateValue};
use serde_json::Value;

/// The parameters of one Application, by their names.
pub(super) type Parameters = BTreeMap<String, Parameter>;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Parameter {
    /// What was read from JSON or YAML, but for maps.
    Json(Value),
    /// A map of anything.
    Map(Parameters),
    /// A map of texts.
    Texts(BTreeMap<String, String>),
    /// A list of texts.
    TextList(Vec<String>),
    /// A list of maps of parameters.
    Rows(Vec<Parameters>),
}

impl Parameter {
    /// A value of JSON or YAML.
    pub(super) fn from_json(value: Value) -> Self {
        match value {
            Value::Object(map) => {
                Self::Map(map.into_iter().map(|(key, value)| (key, Self::from_json(value))).collect())
            }
            value => Self::Json(value),
        }
    }

    /// A text.
    pub(super) fn from_text(text: impl Into<String>) -> Self {
        Self::Json(Value::String(text.into()))
    }

    /// The text, if it is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Json(value) => value.as_str(),
            _ => None,
        }
    }

    /// The value as templates see it.
    pub(super) fn to_template_value(&self) -> TemplateValue {
        match self {
            Self::Json(value) => TemplateValue::from_json(value),
            Self::Map(map) => to_template_map(map),
            Self::Texts(texts) => {
                TemplateValue::from_text_map(texts.iter().map(|(key, text)| (key.as_str(), text.as_str())))
            }
            Self::TextList(texts) => TemplateValue::from_texts(texts.iter().map(String::as_str)),
            Self::Rows(rows) => TemplateValue::from_list(rows.iter().map(to_template_map)),
        }
    }

    /// About how many bytes it takes.
    fn count_bytes(&self) -> usize {
        match self {
            Self::Json(value) => count_value_bytes(value),
            Self::Map(map) => 16 + count_bytes(map),
            Self::Texts(texts) => {
                16 + texts.iter().map(|(key, text)| key.len() + 16 + text.len()).sum::<usize>()
            }
            Self::TextList(texts) => 16 + texts.iter().map(|text| 16 + text.len()).sum::<usize>(),
            Self::Rows(rows) => 16 + rows.iter().map(count_bytes).sum::<usize>(),
        }
    }
}

/// The parameters as templates see them.
pub(super) fn to_template_map(parameters: &Parameters) -> TemplateValue {
    TemplateValue::from_map(parameters.iter().map(|(key, value)| (key.as_str(), value.to_template_value())))
}

/// The parameters of a map that was read from JSON or YAML.
pub(super) fn read_parameters(value: &Value) -> Parameters {
    let map = value.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.clone(), Parameter::from_json(value.clone()))).collect()
}

/// About how many bytes parameters take.
pub(super) fn count_bytes(parameters: &Parameters) -> usize {
    parameters.iter().map(|(key, value)| key.len() + value.count_bytes()).sum()
}

/// About how many bytes a value takes.
pub(super) fn count_value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => 16 + text.len(),
        Value::Array(items) => 16 + items.iter().map(count_value_bytes).sum::<usize>(),
        Value::Object(map) => {
            16 + map.iter().map(|(key, value)| key.len() + count_value_bytes(value)).sum::<usize>()
        }
        _ => 16,
    }
}

/// Why parameters cannot be merged: a value of a map of anything does not fit into a map of texts.
#[derive(Debug)]
pub(super) struct MergeConflict;

/// Merges parameters over others: maps by their keys, other values as a whole, also where they are empty or null.
pub(super) fn merge_parameters(into: &mut Parameters, over: &Parameters) -> Result<(), MergeConflict> {
    for (key, over) in over {
        match into.get_mut(key) {
            Some(into) => merge_parameter(into, over)?,
            None => drop(into.insert(key.clone(), over.clone())),
        }
    }
    Ok(())
}

fn merge_parameter(into: &mut Parameter, over: &Parameter) -> Result<(), MergeConflict> {
    match (into, over) {
        (Parameter::Map(into), Parameter::Map(over)) => merge_parameters(into, over),
        (Parameter::Map(into), Parameter::Texts(over)) => {
            into.extend(over.iter().map(|(key, text)| (key.clone(), Parameter::from_text(text.clone()))));
            Ok(())
        }
        (Parameter::Texts(into), Parameter::Texts(over)) => {
            into.extend(over.iter().map(|(key, text)| (key.clone(), text.clone())));
            Ok(())
        }
        // Argo CD panics here.
        (Parameter::Texts(_), Parameter::Map(over)) if !over.is_empty() => Err(MergeConflict),
        (Parameter::Texts(_), Parameter::Map(_)) => Ok(()),
        (into, over) => {
            *into = over.clone();
            Ok(())
        }
    }
}

/// The parameters that selectors see: those in maps and lists by their paths, with dots, and all of them as texts. Lists of texts
/// are not looked into.
pub(super) fn flatten_parameters(parameters: &Parameters) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    for (key, value) in parameters {
        flatten_parameter(key, value, &mut flat);
    }
    flat
}

fn flatten_parameter(path: &str, value: &Parameter, flat: &mut BTreeMap<String, String>) {
    match value {
        Parameter::Json(value) => flatten_value(path, value, flat),
        Parameter::Map(map) => {
            for (key, value) in map {
                flatten_parameter(&format!("{path}.{key}"), value, flat);
            }
        }
        Parameter::Texts(texts) => {
            flat.extend(texts.iter().map(|(key, text)| (format!("{path}.{key}"), text.clone())));
        }
        Parameter::TextList(texts) => drop(flat.insert(path.to_owned(), format!("[{}]", texts.join(" ")))),
        Parameter::Rows(_) => drop(flat.insert(path.to_owned(), print_go(&value.to_template_value()))),
    }
}

/// Adds the values in a value by their paths, with dots, as texts that Go prints of them.
pub(super) fn flatten_value(path: &str, value: &Value, flat: &mut BTreeMap<String, String>) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                flatten_value(&join(key), value, flat);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                flatten_value(&join(&index.to_string()), item, flat);
            }
        }
        value => drop(flat.insert(path.to_owned(), print_value(value))),
    }
}

/// About how many bytes the flattened parameters take, whose paths may be much longer than their keys.
pub(super) fn count_flat_bytes(parameters: &Parameters) -> usize {
    parameters
        .iter()
        .map(|(key, value)| count_flat_parameter(key.len(), value))
        .fold(0, usize::saturating_add)
}

fn count_flat_parameter(path: usize, value: &Parameter) -> usize {
    match value {
        Parameter::Json(value) => count_flat_value(path, value),
        Parameter::Map(map) => {
            let entries = map.iter().map(|(key, value)| count_flat_parameter(path + 1 + key.len(), value));
            entries.fold(0, usize::saturating_add)
        }
        Parameter::Texts(texts) => path.saturating_mul(texts.len()).saturating_add(value.count_bytes()),
        Parameter::TextList(_) | Parameter::Rows(_) => path + value.count_bytes(),
    }
}

/// About how many bytes a flattened value takes below a path of some bytes.
pub(super) fn count_flat_value(path: usize, value: &Value) -> usize {
    match value {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| count_flat_value(path + 1 + key.len(), value));
            entries.fold(0, usize::saturating_add)
        }
        Value::Array(items) => {
            items.iter().map(|item| count_flat_value(path + 8, item)).fold(0, usize::saturating_add)
        }
        value => path + count_value_bytes(value),
    }
}

/// The text that Go prints of a value.
pub(super) fn print_parameter(value: &Parameter) -> String {
    match value {
        Parameter::Json(value) => print_value(value),
        value => print_go(&value.to_template_value()),
    }
}

fn print_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.clone(),
        value => print_go(&TemplateValue::from_json(value)),
    }
}

/// What the verb `%v` prints. The bytes are limited by those of the value, which were charged.
fn print_go(value: &TemplateValue) -> String {
    let mut budget = TemplateBudget::new(u64::MAX, u64::MAX);
    GoTemplate::parse("{{printf \"%v\" .}}", &TemplateOptions::default())
        .and_then(|template| template.render(value, &mut budget))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_parameters_win_key_by_key() {
        let mut into =
            read_parameters(&json!({"a": {"b": 1, "c": "x"}, "l": [1, 2], "t": "full", "m": "text"}));
        let over = read_parameters(&json!({"a": {"c": null, "d": 0}, "l": [3], "t": "", "m": {"k": 1}}));
        merge_parameters(&mut into, &over).unwrap();
        let expected = json!({"a": {"b": 1, "c": null, "d": 0}, "l": [3], "t": "", "m": {"k": 1}});
        assert_eq!(into, read_parameters(&expected));
    }

    #[test]
    fn a_map_of_texts_takes_no_map_of_anything() {
        let texts = || Parameter::Texts([("k".to_owned(), "x".to_owned())].into());
        let anything = || Parameter::from_json(json!({"k": "y"}));
        assert!(merge_parameter(&mut texts(), &anything()).is_err());
        let mut into = anything();
        merge_parameter(&mut into, &texts()).unwrap();
        assert_eq!(into, Parameter::from_json(json!({"k": "x"})));
    }

    #[test]
    fn selectors_see_texts_by_their_paths() {
        let mut row = read_parameters(
            &json!({"n": 12_345_678, "f": 1.50, "b": true, "m": {"k": ["p", {"q": 1}]}, "z": null, "e": []}),
        );
        row.insert("labels".to_owned(), Parameter::Texts([("env".to_owned(), "prod".to_owned())].into()));
        row.insert("segments".to_owned(), Parameter::TextList(vec!["a".to_owned(), "b".to_owned()]));
        let expected = [
            ("b", "true"),
            ("f", "1.5"),
            ("labels.env", "prod"),
            ("m.k.0", "p"),
            ("m.k.1.q", "1"),
            ("n", "1.2345678e+07"),
            ("segments", "[a b]"),
            ("z", "<nil>"),
        ];
        let expected = expected.map(|(key, text)| (key.to_owned(), text.to_owned()));
        assert_eq!(flatten_parameters(&row), expected.into());
    }
}
