//! Go's `text/template` with the functions of sprig, as Argo CD fills the templates of an `ApplicationSet`.
//!
//! ```text
//! text ─► lexer ─► parser ─► template ─► executor ─► text
//!                    ▲                     ▲    └─► functions, by family
//!            names of functions      TemplateValue
//! ```
//!
//! A template works on values with Go's types, because they decide what it prints and what is an error: a number of a
//! list's element is a `float64`, which is not equal to the `int` that a template writes as `3`, and `12345678` of it
//! prints as `1.2345678e+07`. Functions that read a clock, randomness, the environment or the network are refused. What a
//! rendering may use is a [`TemplateBudget`] of steps and bytes, the same on every machine.
//!
//! Facts: the documentation of `text/template`, `fmt`, `strconv`, `path`, `net/url` and `time`, of sprig and of the
//! libraries that it calls, and what programs with them print.
//!
//! ```
//! use federate_go_template::{GoTemplate, TemplateBudget, TemplateOptions, TemplateValue};
//! use serde_json::json;
//!
//! let options = TemplateOptions::default();
//! let template = GoTemplate::parse("{{ .name | upper }}-{{ add .n 1 }}", &options).unwrap();
//! let data = TemplateValue::from_json(&json!({"name": "web", "n": 2}));
//! let mut budget = TemplateBudget::new(10_000, 10_000);
//! assert_eq!(template.render(&data, &mut budget).unwrap(), "WEB-3");
//! ```

mod ast;
mod budget;
mod error;
mod executor;
mod format;
mod functions;
mod json;
mod lexer;
mod literal;
mod methods;
mod number;
mod parser;
mod regular_expression;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod url;
mod value;

use std::str::FromStr;

use serde_json::Value;

pub use budget::TemplateBudget;
pub use error::{TemplateError, TemplateErrorKind, UnknownTemplateOption};
pub use functions::TemplateFunctions;
pub use lexer::TemplateDelimiters;

use parser::ParsedTemplate;
use value::{GoMap, GoValue};

/// How templates are read and carried out.
#[derive(Clone, Debug, Default)]
pub struct TemplateOptions {
    /// Where actions begin and end.
    pub delimiters: TemplateDelimiters,
    /// The functions that templates may call.
    pub functions: TemplateFunctions,
    /// What a missing key of a map is.
    pub missing_key: MissingKey,
}

/// What the field of a key is that a map does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value, which prints as `<no value>`: `missingkey=default` and `missingkey=invalid`.
    #[default]
    Invalid,
    /// The zero value of the map's values: `missingkey=zero`.
    Zero,
    /// An error: `missingkey=error`.
    Error,
}

impl FromStr for MissingKey {
    type Err = UnknownTemplateOption;

    fn from_str(option: &str) -> Result<Self, UnknownTemplateOption> {
        match option {
            "missingkey=default" | "missingkey=invalid" => Ok(Self::Invalid),
            "missingkey=zero" => Ok(Self::Zero),
            "missingkey=error" => Ok(Self::Error),
            other => Err(UnknownTemplateOption(other.to_owned())),
        }
    }
}

/// A value for templates. Clones are cheap and share maps: what a template sets in a map stays there for all.
#[derive(Clone, Debug)]
pub struct TemplateValue(GoValue);

impl TemplateValue {
    /// A JSON value with all numbers as `float64`, as Go reads JSON and YAML.
    pub fn from_json(value: &Value) -> Self {
        Self(GoValue::from_json(value))
    }

    /// A text.
    pub fn from_text(text: &str) -> Self {
        Self(GoValue::text(text))
    }

    /// An `int`.
    pub fn from_int(number: i64) -> Self {
        Self(GoValue::int(number))
    }

    /// A map of texts (`map[string]string`), such as labels: `index` gives an empty text for a key that it does not
    /// have, and functions that want a map of anything refuse it.
    pub fn from_text_map<'m>(entries: impl IntoIterator<Item = (&'m str, &'m str)>) -> Self {
        Self(GoValue::Map(GoMap::of_texts(entries.into_iter().map(|(key, text)| (key.into(), text.into())))))
    }

    /// A list of texts (`[]string`).
    pub fn from_texts<'m>(texts: impl IntoIterator<Item = &'m str>) -> Self {
        Self(GoValue::texts(texts.into_iter().map(Into::into)))
    }

    /// A list of anything (`[]interface {}`).
    pub fn from_list(items: impl IntoIterator<Item = Self>) -> Self {
        Self(GoValue::list(items.into_iter().map(|item| item.0).collect()))
    }

    /// A map of anything (`map[string]interface {}`).
    pub fn from_map<'m>(entries: impl IntoIterator<Item = (&'m str, Self)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.0));
        Self(GoValue::Map(GoMap::new(entries.collect())))
    }
}

/// A parsed template.
#[derive(Debug)]
pub struct GoTemplate {
    text: String,
    parsed: ParsedTemplate,
    missing_key: MissingKey,
}

impl GoTemplate {
    /// Parses a text.
    pub fn parse(text: &str, options: &TemplateOptions) -> Result<Self, TemplateError> {
        let parsed = parser::parse_template(text, &options.delimiters, &options.functions)
            .map_err(|failure| failure.locate(text))?;
        Ok(Self { text: text.to_owned(), parsed, missing_key: options.missing_key })
    }

    /// The text for `data`. Bytes that are not UTF-8, such as half a character that a function has cut, become U+FFFD.
    pub fn render(&self, data: &TemplateValue, budget: &mut TemplateBudget) -> Result<String, TemplateError> {
        let mut out = Vec::new();
        executor::execute_template(&self.parsed, self.missing_key, data.0.clone(), budget, &mut out)
            .map_err(|failure| failure.locate(&self.text))?;
        Ok(text::to_valid_text(&out).into_owned())
    }
}
