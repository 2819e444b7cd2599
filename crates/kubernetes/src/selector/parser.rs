//! Selectors in the notation of `kubectl -l`: `region=eu,tier in (gold,silver),!spot`.

use super::{LabelSelector, SelectorRequirement};

impl LabelSelector {
    /// Parses the notation of `kubectl -l`; an empty text selects everything.
    ///
    /// # Errors
    ///
    /// The reason why the text is invalid.
    ///
    /// ```
    /// use federate_kubernetes::selector::LabelSelector;
    /// let labels = [("region".to_owned(), "eu".to_owned())].into_iter().collect();
    /// assert!(LabelSelector::parse("region in (eu, us),!spot")?.matches(&labels));
    /// assert!(!LabelSelector::parse("region!=eu")?.matches(&labels));
    /// assert!(LabelSelector::parse("region=(eu").is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut selector = Self::default();
        for part in split_requirements(text).into_iter().map(str::trim).filter(|_| !text.trim().is_empty()) {
            selector.match_expressions.push(parse_requirement(part)?);
        }
        match selector.find_mistake() {
            Some((_, why)) => Err(why),
            None => Ok(selector),
        }
    }
}

/// The parts of the text between commas that are not inside parentheses.
fn split_requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let parts = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth <= 0
    });
    parts.collect()
}

fn parse_requirement(text: &str) -> Result<SelectorRequirement, String> {
    if let Some(key) = text.strip_prefix('!') {
        return Ok(requirement(key, "DoesNotExist", Vec::new()));
    }
    for (sign, operator) in [("!=", "NotIn"), ("==", "In"), ("=", "In")] {
        if let Some((key, value)) = text.split_once(sign) {
            return Ok(requirement(key, operator, vec![value.trim().to_owned()]));
        }
    }
    let Some((key, rest)) = text.split_once(char::is_whitespace) else {
        return Ok(requirement(text, "Exists", Vec::new()));
    };
    let rest = rest.trim();
    for (word, operator) in [("in", "In"), ("notin", "NotIn")] {
        let list = rest.strip_prefix(word).map(str::trim_start);
        if let Some(list) = list.and_then(|list| list.strip_prefix('(')?.strip_suffix(')')) {
            let values = list.split(',').map(|value| value.trim().to_owned()).collect();
            return Ok(requirement(key, operator, values));
        }
    }
    Err(format!("`{text}` is not `KEY`, `!KEY`, `KEY=VALUE`, `KEY!=VALUE`, `KEY in (…)` or `KEY notin (…)`"))
}

fn requirement(key: &str, operator: &str, values: Vec<String>) -> SelectorRequirement {
    SelectorRequirement { key: key.trim().to_owned(), operator: operator.to_owned(), values }
}
