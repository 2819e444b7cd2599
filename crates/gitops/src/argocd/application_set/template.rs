//! The two engines of templates: `{{ name }}` for the parameter of that name, and with `goTemplate` those of Go.
//!
//! Facts: without Go's templates, what is not a parameter that is a text stays as it is written; a text with a pair of braces on one
//! line must have no other open ones. With them, a missing key is `<no value>`, unless an option of the set says otherwise.

use std::cell::OnceCell;

use federate_go_template::{
    GoTemplate, MissingKey, TemplateBudget, TemplateError, TemplateOptions, TemplateValue,
};
use serde_json::{Map, Value};

use super::parameters::{Parameters, count_bytes, to_template_map};
use super::usage::GenerationUsage;
use crate::description::DescriptionError;

/// The work of one step of a template.
const STEP_WORK: u64 = 4;

/// The engine of the templates of a set.
#[derive(Debug)]
pub(super) enum SetTemplateEngine {
    /// Parameters by their names.
    Plain,
    /// Go's templates, with the options of the set.
    Go(GoOptions),
}

/// The options of Go's templates, or the first that is not one, which is an error as soon as a template is filled.
#[derive(Debug)]
pub(super) struct GoOptions(Result<MissingKey, String>);

impl SetTemplateEngine {
    /// The engine that a spec names.
    pub(super) fn read_spec(spec: &Value) -> Self {
        if spec.get("goTemplate") != Some(&Value::Bool(true)) {
            return Self::Plain;
        }
        let mut missing_key = MissingKey::default();
        for option in spec.get("goTemplateOptions").and_then(Value::as_array).into_iter().flatten() {
            match option.as_str().unwrap_or_default().parse() {
                Ok(read) => missing_key = read,
                Err(error) => return Self::Go(GoOptions(Err(format!("{error}")))),
            }
        }
        Self::Go(GoOptions(Ok(missing_key)))
    }

    /// Whether templates are Go's.
    pub(super) fn is_go(&self) -> bool {
        matches!(self, Self::Go(_))
    }
}

/// Fills templates with the parameters of one Application.
pub(super) struct TemplateFiller<'f> {
    engine: &'f SetTemplateEngine,
    parameters: &'f Parameters,
    usage: &'f GenerationUsage,
    /// The parameters as Go's templates see them, made for the first template.
    data: OnceCell<TemplateValue>,
    /// What a missing key is in place of what the options say.
    missing_key: Option<MissingKey>,
}

impl<'f> TemplateFiller<'f> {
    pub(super) fn new(
        engine: &'f SetTemplateEngine,
        parameters: &'f Parameters,
        usage: &'f GenerationUsage,
    ) -> Self {
        Self { engine, parameters, usage, data: OnceCell::new(), missing_key: None }
    }

    /// Makes a missing key an error.
    pub(super) fn with_strict_keys(self) -> Self {
        Self { missing_key: Some(MissingKey::Error), ..self }
    }

    /// The value with all texts filled, and the keys of maps.
    pub(super) fn fill_value(&self, value: &Value, at: &str) -> Result<Value, DescriptionError> {
        self.usage.charge_work(1, at)?;
        Ok(match value {
            Value::String(text) => self.fill_text(text, at)?.into(),
            Value::Array(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.fill_value(item, &format!("{at}/{index}")));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let mut filled = Map::new();
                for (key, value) in map {
                    filled.insert(self.fill_text(key, at)?, self.fill_value(value, &format!("{at}/{key}"))?);
                }
                Value::Object(filled)
            }
            other => other.clone(),
        })
    }

    /// A text with its templates filled.
    pub(super) fn fill_text(&self, text: &str, at: &str) -> Result<String, DescriptionError> {
        self.usage.charge_work(1 + text.len(), at)?;
        match self.engine {
            SetTemplateEngine::Plain => self.fill_plain(text, at),
            SetTemplateEngine::Go(options) => {
                let missing_key = options
                    .0
                    .as_ref()
                    .map_err(|why| DescriptionError::new("/spec/goTemplateOptions", why.clone()))?;
                if !text.contains("{{") {
                    return Ok(text.to_owned());
                }
                self.render_go(text, self.missing_key.unwrap_or(*missing_key), at)
            }
        }
    }

    fn fill_plain(&self, text: &str, at: &str) -> Result<String, DescriptionError> {
        let has_pair = |line: &str| line.split_once("{{").is_some_and(|(_, rest)| rest.contains("}}"));
        if !text.split('\n').any(has_pair) {
            return Ok(text.to_owned());
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            let Some((inner, remaining)) = after.split_once("}}") else {
                return Err(DescriptionError::new(at, format!("a `{{{{` of `{text}` has no `}}}}`")));
            };
            match self.parameters.get(inner.trim()).and_then(|value| value.as_text()) {
                Some(value) => {
                    self.usage.charge_work(value.len(), at)?;
                    out.push_str(value);
                }
                // Argo CD leaves what it does not know.
                None => out.extend(["{{", inner, "}}"]),
            }
            rest = remaining;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn render_go(&self, text: &str, missing_key: MissingKey, at: &str) -> Result<String, DescriptionError> {
        if self.data.get().is_none() {
            self.usage.charge_work(count_bytes(self.parameters), at)?;
        }
        let data = self.data.get_or_init(|| to_template_map(self.parameters));
        // Reading a template takes several times its length.
        self.usage.charge_work(4 * text.len(), at)?;
        let options = TemplateOptions { missing_key, ..TemplateOptions::default() };
        let explain = |error: TemplateError| {
            DescriptionError::new(at, format!("the template `{text}` cannot be filled: {error}"))
        };
        let template = GoTemplate::parse(text, &options).map_err(explain)?;
        let bytes = self.usage.work_left() as u64;
        let mut budget = TemplateBudget::new(bytes / STEP_WORK, bytes);
        let (steps, result) = (budget.steps(), template.render(data, &mut budget));
        let used = (bytes - budget.bytes()).saturating_add(STEP_WORK.saturating_mul(steps - budget.steps()));
        self.usage.charge_work(usize::try_from(used).unwrap_or(usize::MAX), at)?;
        result.map_err(explain)
    }
}
