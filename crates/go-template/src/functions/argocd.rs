//! The functions that Argo CD adds to sprig's.

use std::collections::BTreeMap;

use super::FunctionParameter::{Any, Text};
use super::{Arguments, GoFunction, make_text};
use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::json::to_yaml_value;
use crate::text::{chars, to_lower, to_valid_text};
use crate::value::{GoMap, GoValue, IntType};

/// The most bytes of a normalized name.
const MAX_NAME: usize = 253;

pub(super) const FUNCTIONS: &[GoFunction] = &[
    GoFunction::new("normalize", &[Text], |a, budget| make_text(normalize(a.text(0)), budget)),
    GoFunction::with_rest("slugify", &[], Any, slugify),
    GoFunction::new("toYaml", &[Any], |a, budget| {
        let mut out = String::new();
        federate_yaml::write_as_go(&to_yaml_value(a.any(0), 0, budget)?, &mut out);
        make_text(out.strip_suffix('\n').unwrap_or(&out), budget)
    }),
    GoFunction::new("fromYaml", &[Text], |a, budget| match read_yaml(a, budget)? {
        GoValue::Nil => Ok(GoValue::Map(GoMap::new(BTreeMap::new()))),
        map @ GoValue::Map(_) => Ok(map),
        _ => Err(TemplateFailure::function("the YAML is not a map")),
    }),
    GoFunction::new("fromYamlArray", &[Text], |a, budget| match read_yaml(a, budget)? {
        GoValue::Nil => Ok(GoValue::list(Vec::new())),
        list @ GoValue::List(_) => Ok(list),
        _ => Err(TemplateFailure::function("the YAML is not a list")),
    }),
];

fn read_yaml(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    budget.spend_bytes(arguments.text(0).len().saturating_mul(2))?;
    let text = std::str::from_utf8(arguments.text(0));
    let text = text.map_err(|_| TemplateFailure::function("yaml: invalid Unicode character"))?;
    let value = federate_yaml::read_as_go(text)
        .map_err(|error| TemplateFailure::function(format!("yaml: line {}: {error}", error.at.line)))?;
    Ok(GoValue::from_json(&value))
}

/// A name that Kubernetes takes: lower case, with `-` for each other character, and none of `-` and `.` at its ends.
fn normalize(bytes: &[u8]) -> String {
    let replaced = chars(bytes).map(|(_, c)| match to_lower(c) {
        c @ ('a'..='z' | '0'..='9' | '-' | '.') => c,
        _ => '-',
    });
    let name: String = replaced.take(MAX_NAME).collect();
    name.trim_matches(['-', '.']).to_owned()
}

/// `slugify [longest [smart]] name`: a normalized name without dots, cut at a word if it is too long.
fn slugify(arguments: &Arguments, budget: &mut TemplateBudget) -> Result<GoValue, TemplateFailure> {
    let (mut longest, mut smart, mut name) = (50, true, GoValue::text(""));
    let given = arguments.rest(0);
    for (at, argument) in given.iter().enumerate() {
        match (at, argument) {
            (at, GoValue::Text(_)) if at + 1 == given.len() => name = argument.clone(),
            (0, GoValue::Int(IntType::Int, number)) if given.len() > 1 => longest = *number,
            (1, GoValue::Bool(bool)) if given.len() > 2 => smart = *bool,
            (2.., _) if at + 1 < given.len() => {}
            (_, other) => {
                let message = format!("argument {} must not be of type {}", at + 1, other.type_name());
                return Err(TemplateFailure::function(message));
            }
        }
    }
    let GoValue::Text(name) = name else { return Ok(GoValue::text("")) };
    let mut slug = normalize(name.bytes());
    let limit = usize::try_from(longest).ok();
    if !smart {
        let Some(limit) = limit else {
            return Err(TemplateFailure::function("slice bounds out of range"));
        };
        slug.truncate(limit);
    }
    let words: Vec<&str> = slug.split(['-', '.']).filter(|word| !word.is_empty()).collect();
    let slug = words.join("-");
    let slug = match limit {
        Some(limit) if smart && limit > 0 => cut_at_word(&slug, limit),
        _ => &slug,
    };
    make_text(to_valid_text(slug.as_bytes()).as_ref(), budget)
}

/// The longest part of whole words, or a part of the first word.
fn cut_at_word(slug: &str, limit: usize) -> &str {
    if slug.len() <= limit {
        return slug;
    }
    let end = slug.get(..=limit).and_then(|part| part.rfind('-')).unwrap_or(limit);
    slug.get(..end).unwrap_or(slug)
}
