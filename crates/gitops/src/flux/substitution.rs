//! Variables in the output of a build, which Flux substitutes after it (`postBuild`).
//!
//! Facts: the package envsubst of Flux. Only `${NAME}` is substituted, and `$${NAME}` stands for `${NAME}`. A variable that is
//! not known is empty. Each object is written as YAML, substituted, and read again, so that a value may become a number.

use std::collections::BTreeMap;

/// The most bytes of an object after its variables are substituted.
const MAX_BYTES: usize = 4 << 20;

/// The deepest nesting of variables in defaults.
const MAX_DEPTH: usize = 10;

/// The variables, by name.
pub type Variables = BTreeMap<String, String>;

/// Whether a text is the name of a variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// Replaces the variables in a text. The error says what cannot be read.
pub(crate) fn substitute_variables(text: &str, variables: &Variables) -> Result<String, String> {
    substitute_nested(text, variables, 0)
}

fn substitute_nested(text: &str, variables: &Variables, depth: usize) -> Result<String, String> {
    if depth > MAX_DEPTH {
        return Err(format!("variables are nested more than {MAX_DEPTH} levels deep"));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        let inner = after.get(2..).unwrap_or_default();
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = inner;
            continue;
        }
        out.push_str(before);
        let end = find_end(inner).ok_or("a `${` has no `}`")?;
        let (expression, remaining) = inner.split_at(end);
        out.push_str(&evaluate_expression(expression, variables, depth)?);
        if out.len() > MAX_BYTES {
            return Err(too_large());
        }
        rest = remaining.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    Ok(out)
}

fn too_large() -> String {
    format!("the object is larger than {} MiB with its variables", MAX_BYTES >> 20)
}

/// The position of the brace that ends an expression.
fn find_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' if at > 0 && bytes.get(at - 1) == Some(&b'$') => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn evaluate_expression(expression: &str, variables: &Variables, depth: usize) -> Result<String, String> {
    if let Some(name) = expression.strip_prefix('#').filter(|name| is_variable_name(name)) {
        return Ok(variables.get(name).map_or(0, |value| value.chars().count()).to_string());
    }
    let end = expression.find(|c: char| !(c == '_' || c.is_ascii_alphanumeric())).unwrap_or(expression.len());
    let (name, function) = expression.split_at(end);
    if !is_variable_name(name) {
        return Err(format!("`${{{expression}}}` does not begin with the name of a variable"));
    }
    let value = variables.get(name).map_or("", String::as_str);
    let resolve = |text: &str| substitute_nested(text, variables, depth + 1);
    for operator in [":-", ":=", "-", "="] {
        if let Some(default) = function.strip_prefix(operator) {
            return if value.is_empty() { resolve(default) } else { Ok(value.to_owned()) };
        }
    }
    Ok(match function {
        "" => value.to_owned(),
        "^^" => value.to_uppercase(),
        ",," => value.to_lowercase(),
        "^" => change_first(value, |c| c.to_uppercase().collect()),
        "," => change_first(value, |c| c.to_lowercase().collect()),
        _ => {
            if let Some(range) = function.strip_prefix(':') {
                return take_range(value, range).ok_or_else(|| describe_unsupported(expression));
            }
            let replacement = function.strip_prefix('/').and_then(|rest| {
                let (all, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
                let (from, to) = rest.split_once('/')?;
                (!from.is_empty() && !from.starts_with(['#', '%'])).then_some((all, from, to))
            });
            match replacement {
                Some((true, from, to)) => {
                    let to = resolve(to)?;
                    if value.matches(from).count().saturating_mul(to.len()) > MAX_BYTES {
                        return Err(too_large());
                    }
                    value.replace(from, &to)
                }
                Some((false, from, to)) => value.replacen(from, &resolve(to)?, 1),
                None => return Err(describe_unsupported(expression)),
            }
        }
    })
}

fn describe_unsupported(expression: &str) -> String {
    format!("federate does not evaluate `${{{expression}}}`")
}

/// A text with another first character.
fn change_first(text: &str, change: impl Fn(char) -> String) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| change(first) + chars.as_str())
}

/// The characters from a position, or of a length from there.
fn take_range(text: &str, range: &str) -> Option<String> {
    let (from, length) = match range.split_once(':') {
        Some((from, length)) => (from, length.trim().parse().ok()?),
        None => (range, usize::MAX),
    };
    let from: usize = from.trim().parse().ok()?;
    Some(text.chars().skip(from).take(length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_those_of_flux() {
        let variables = [("a", "Value"), ("empty", ""), ("n", "3")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        for (text, expected) in [
            ("x: ${a}", Ok("x: Value")),
            ("${none}", Ok("")),
            ("$a and $(a)", Ok("$a and $(a)")),
            ("$${a}", Ok("${a}")),
            ("${none:-${a}}-${empty:=d}-${a:-d}", Ok("Value-d-Value")),
            ("${a^^}${a,,}${a,}${#a}", Ok("VALUEvaluevalue5")),
            ("${a:1:2}${a:3}", Ok("alue")),
            ("${a/l/L}${a//a/-}", Ok("VaLueV-lue")),
            ("${a", Err("a `${` has no `}`")),
            ("${1}", Err("`${1}` does not begin with the name of a variable")),
            ("${a%%x}", Err("federate does not evaluate `${a%%x}`")),
        ] {
            let found = substitute_variables(text, &variables);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
