//! Label selectors as the hub compiles them, with its words for mistakes.
//!
//! Facts: the hub reports the first mistake of a selector in the words of the Kubernetes libraries, and the text stands
//! in the conditions of a placement.

use serde_json::Value;

use federate_kubernetes::names::is_name_part;
use federate_kubernetes::selector::{LabelSelector, SelectorRequirement, invalid_key, invalid_value};
use federate_kubernetes::{Labels, work};

/// The rule for label keys, as a regular expression.
const NAME_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// A selector without mistakes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompiledSelector {
    labels: Labels,
    requirements: Vec<SelectorRequirement>,
}

impl CompiledSelector {
    /// Compiles a selector, or returns the hub's words for its first mistake.
    pub(crate) fn compile(selector: &LabelSelector) -> Result<Self, String> {
        for (key, value) in &selector.match_labels {
            check_requirement(key, None, std::slice::from_ref(value))?;
        }
        Self::compile_requirements(&selector.match_expressions)
            .map(|compiled| Self { labels: selector.match_labels.clone(), ..compiled })
    }

    /// The same for requirements alone.
    pub(crate) fn compile_requirements(requirements: &[SelectorRequirement]) -> Result<Self, String> {
        for requirement in requirements {
            if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&requirement.operator.as_str()) {
                return Err(format!("{:?} is not a valid label selector operator", requirement.operator));
            }
            check_requirement(&requirement.key, Some(&requirement.operator), &requirement.values)?;
        }
        Ok(Self { labels: Labels::new(), requirements: requirements.to_vec() })
    }

    /// Whether labels match.
    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.find_unmet(labels).is_none()
    }

    /// The first requirement that labels do not meet, in words.
    pub(crate) fn find_unmet(&self, labels: &Labels) -> Option<UnmetRequirement<'_>> {
        work::charge_items(8 + self.labels.len());
        let unequal = self.labels.iter().find(|(key, value)| labels.get(*key) != Some(value));
        let unequal = unequal.map(|(key, value)| UnmetRequirement {
            key,
            operator: "=",
            values: std::slice::from_ref(value),
        });
        unequal.or_else(|| {
            let unmet = self.requirements.iter().find(|requirement| !requirement.matches(labels))?;
            Some(UnmetRequirement { key: &unmet.key, operator: &unmet.operator, values: &unmet.values })
        })
    }
}

/// A requirement that is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnmetRequirement<'s> {
    /// The key.
    pub key: &'s str,
    /// The operator; `=` for an exact value.
    operator: &'s str,
    values: &'s [String],
}

impl std::fmt::Display for UnmetRequirement<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, values) = (self.key, self.values.join(", "));
        match self.operator {
            "=" => write!(f, "{key}={values}"),
            "In" => write!(f, "{key} in ({values})"),
            "NotIn" => write!(f, "{key} notin ({values})"),
            "Exists" => f.write_str(key),
            _ => write!(f, "!{key}"),
        }
    }
}

/// Checks the key and the values of a requirement; without an operator it is one of equality.
fn check_requirement(key: &str, operator: Option<&str>, values: &[String]) -> Result<(), String> {
    let mut mistakes = Vec::new();
    if invalid_key(key).is_some() {
        mistakes.push(format!("key: Invalid value: {}: {}", Value::from(key), describe_key_mistakes(key)));
    }
    let list = if values.is_empty() { "null".to_owned() } else { Value::from(values.to_vec()).to_string() };
    match operator {
        Some("In" | "NotIn") if values.is_empty() => mistakes.push(format!(
            "values: Invalid value: {list}: for 'in', 'notin' operators, values set can't be empty"
        )),
        Some("Exists" | "DoesNotExist") if !values.is_empty() => mistakes.push(format!(
            "values: Invalid value: {list}: values set must be empty for exists and does not exist"
        )),
        _ => {}
    }
    for (index, value) in values.iter().enumerate().filter(|(_, value)| invalid_value(value).is_some()) {
        let quoted = Value::from(value.as_str());
        let why = describe_value_mistakes(value);
        mistakes.push(format!("values[{index}][{key}]: Invalid value: {quoted}: {why}"));
    }
    match mistakes.as_slice() {
        [] => Ok(()),
        [mistake] => Err(mistake.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// The mistakes of a label key.
fn describe_key_mistakes(key: &str) -> String {
    let rule = format!(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME_FORMAT}')"
    );
    let parts: Vec<&str> = key.split('/').collect();
    let (prefix, name) = match *parts.as_slice() {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            return format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            );
        }
    };
    let mut mistakes = Vec::new();
    match prefix {
        Some("") => mistakes.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if prefix.len() > 253 {
                mistakes.push("prefix part must be no more than 253 bytes".to_owned());
            }
            if invalid_key(&format!("{prefix}/a")).is_some() && prefix.len() <= 253 {
                mistakes.push(
                    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
                     '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                     for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                        .to_owned(),
                );
            }
        }
        None => {}
    }
    if name.is_empty() {
        mistakes.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        mistakes.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name_part(name) {
        mistakes.push(format!("name part {rule}"));
    }
    mistakes.join("; ")
}

/// The mistakes of a label value.
fn describe_value_mistakes(value: &str) -> String {
    let mut mistakes = Vec::new();
    if value.len() > 63 {
        mistakes.push("must be no more than 63 bytes".to_owned());
    }
    if !is_name_part(value) {
        mistakes.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '({NAME_FORMAT})?')"
        ));
    }
    mistakes.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> SelectorRequirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        SelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    }

    fn mistake(key: &str, operator: &str, values: &[&str]) -> String {
        CompiledSelector::compile_requirements(&[requirement(key, operator, values)]).unwrap_err()
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(mistake("a", "Gt", &["1"]), "\"Gt\" is not a valid label selector operator");
        assert!(mistake("a", "In", &[]).ends_with("values set can't be empty"));
        assert!(
            mistake("a", "In", &["b c"])
                .starts_with("values[0][a]: Invalid value: \"b c\": a valid label must")
        );
        assert!(mistake("A/b", "Exists", &[]).contains("prefix part a lowercase"));
        assert!(mistake("/b", "Exists", &[]).contains("prefix part must be non-empty"));
        assert!(mistake("a/", "Exists", &[]).contains("name part must be non-empty; name part must consist"));
        assert!(mistake("a/", "In", &[]).starts_with("[key: "), "both mistakes are named");
        assert!(mistake("a", "In", &[&"x".repeat(64)]).ends_with("must be no more than 63 bytes"));
    }

    #[test]
    fn the_first_unmet_requirement_is_named() {
        let labels: Labels = [("region".to_owned(), "eu".to_owned())].into_iter().collect();
        let unmet = |key, operator, values: &[&str]| {
            let compiled =
                CompiledSelector::compile_requirements(&[requirement(key, operator, values)]).unwrap();
            compiled.find_unmet(&labels).map(|unmet| unmet.to_string())
        };
        assert_eq!(unmet("region", "In", &["us", "ap"]).as_deref(), Some("region in (us, ap)"));
        assert_eq!(unmet("region", "NotIn", &["eu"]).as_deref(), Some("region notin (eu)"));
        assert_eq!(unmet("gpu", "Exists", &[]).as_deref(), Some("gpu"));
        assert_eq!(unmet("region", "DoesNotExist", &[]).as_deref(), Some("!region"));
        assert_eq!(unmet("region", "Exists", &[]), None);
    }
}
